"""Fixtures of the data tests."""

import pytest
from tests.data.registry import toy_registry


@pytest.fixture
def registry(tmp_path, monkeypatch):
    return toy_registry(tmp_path, monkeypatch)
