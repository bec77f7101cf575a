"""Tiles: whole or not there, of this run or thrown away; a full disk is a sentence."""

import errno
from contextlib import suppress

import numpy as np
import pytest

from hotvae.errors import ConfigError, DataError
from hotvae.geo.tiles import TileStore, check_room, no_room


def test_store__written_and_read__same_arrays_and_notes(tmp_path):
    store = TileStore(tmp_path / "tiles", ["run", 1])
    store.write(3, {"a": np.arange(6, dtype=np.uint8).reshape(1, 2, 3), "b": np.array([[[np.nan]]])}, {"n": 2})
    assert store.has(3)
    assert not store.has(4)
    np.testing.assert_array_equal(store.read(3, "a"), [[[0, 1, 2], [3, 4, 5]]])
    assert store.notes(3) == {"n": 2}


def test_store__same_tile_twice__same_bytes(tmp_path):
    store = TileStore(tmp_path / "tiles", "run")
    found = []
    for _ in range(2):
        store.write(0, {"a": np.arange(5)}, {"n": 1})
        found.append(store.path(0).read_bytes())
    assert found[0] == found[1]


def test_store__tile_cut_off_or_changed__is_not_there(tmp_path):
    store = TileStore(tmp_path / "tiles", "run")
    store.write(0, {"a": np.arange(500)}, {})
    whole = store.path(0).read_bytes()
    store.path(0).write_bytes(whole[:-100])
    assert not store.has(0)
    with pytest.raises(DataError, match="tile must be whole; got ValueError"):
        store.read(0, "a")
    store.path(0).write_bytes(whole[: len(whole) // 2] + b"xyz" + whole[len(whole) // 2 + 3 :])
    assert not store.has(0)
    with pytest.raises(DataError, match="tile must be whole"):
        store.read(0, "a")


def test_store__any_byte_flipped__is_noticed_and_never_read_as_another_array(tmp_path):
    store, array = TileStore(tmp_path / "tiles", "run"), np.arange(21, dtype=np.uint8).reshape(1, 3, 7)
    store.write(0, {"a": array, "b": np.array([1.5, np.nan], dtype=np.float32)}, {"n": 1})
    whole = store.path(0).read_bytes()
    for place in range(len(whole)):
        store.path(0).write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        assert not store.has(0)
        with suppress(DataError):
            found = store.read(0, "a")
            assert found.dtype.itemsize == 1
            np.testing.assert_array_equal(found.reshape(-1), array.reshape(-1))


def test_store__of_another_run__starts_afresh(tmp_path):
    store = TileStore(tmp_path / "tiles", {"model": "a"})
    store.write(0, {"a": np.zeros(1)}, {})
    assert TileStore(tmp_path / "tiles", {"model": "a"}).has(0)
    assert TileStore.belongs(tmp_path / "tiles", {"model": "a"})
    assert not TileStore(tmp_path / "tiles", {"model": "b"}).has(0)


def test_store__write_that_fails__leaves_nothing_behind(tmp_path, monkeypatch):
    store = TileStore(tmp_path / "tiles", "run")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("hotvae.geo.tiles.os.fsync", full)
    with pytest.raises(ConfigError, match=r"disk must have room for the map; got 'No space left on device'"):
        store.write(0, {"a": np.zeros(1)}, {})
    assert [path.name for path in store.folder.iterdir()] == ["run.json"]


def test_no_room__another_error__passes(tmp_path):
    with pytest.raises(PermissionError), no_room(tmp_path):
        raise PermissionError(errno.EACCES, "no")


def test_check_room__more_than_there_is__says_how_much(tmp_path):
    check_room(tmp_path / "not" / "yet", 1)
    with pytest.raises(ConfigError, match=r"disk must have room for the map and its tiles, about 1e\+12 GB; got"):
        check_room(tmp_path, 10**21)
