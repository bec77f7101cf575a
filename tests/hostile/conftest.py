"""One workshop of valid tables and models for all attacks."""

from pathlib import Path

import pytest

from tests.hostile.cases import Workshop


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(Path(tmp_path_factory.mktemp("hostile")) / "shop")
