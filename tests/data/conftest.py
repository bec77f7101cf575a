"""Fixtures of the data tests."""

import pytest

from tests.data.registry import toy_registry


@pytest.fixture
def registry(tmp_path, monkeypatch):
    return toy_registry(tmp_path, monkeypatch)


@pytest.fixture
def write(tmp_path):
    """Write text or bytes into a fresh file and return its path."""

    def write_file(content, name="sites.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file
