"""Tiles on disk: each a file of its own with its checksum, whole or not there; a run that was killed goes on.

A tile is its checksum, the length of its head, its head (notes, and what its arrays are), and the bytes of the arrays.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hotvae.errors import ConfigError, DataError
from hotvae.files import place_beside, write_text

# Characters of the checksum that a file begins with.
_DIGEST = 64
# Bytes of the length of the head.
_LENGTH = 8
# What a full disk, a quota or a limit on files is called.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class TileStore:
    """A folder of finished tiles that belong to one run.

    Parameters
    ----------
    folder : path
        Where they wait until the map is put together.
    identity : JSON-able
        What makes the run: model, inputs, options. Tiles of another run are thrown away.
    """

    def __init__(self, folder: str | os.PathLike[str], identity: Any) -> None:
        self.folder = Path(folder)
        mark = self.folder / "run.json"
        text = json.dumps(identity, sort_keys=True, default=str)
        if self.folder.exists() and not self.belongs(self.folder, identity):
            shutil.rmtree(self.folder)
        if not mark.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            write_text(mark, text)

    @staticmethod
    def belongs(folder: str | os.PathLike[str], identity: Any) -> bool:
        """Whether a folder holds tiles of this very run."""
        mark = Path(folder) / "run.json"
        text = json.dumps(identity, sort_keys=True, default=str)
        return mark.is_file() and mark.read_text(encoding="utf-8") == text

    def path(self, number: int) -> Path:
        """Return the file of a tile."""
        return _tile_path(self.folder, number)

    def write(self, number: int, arrays: Mapping[str, NDArray[Any]], notes: Any) -> None:
        """Write a tile: its checksum, then its arrays."""
        write_tile(self.folder, number, arrays, notes)

    def read(self, number: int, name: str) -> NDArray[Any]:
        """Read one array of a tile; its own checksum is looked at once more.

        Raises
        ------
        DataError
            A tile that is not there or damaged.
        """
        with self._opened(number) as (file, head):
            for other, kind, shape, total in head["arrays"]:
                if other != name:
                    file.seek(math.prod(shape) * np.dtype(kind).itemsize, os.SEEK_CUR)
                    continue
                found = np.fromfile(file, dtype=kind, count=math.prod(shape))
                if len(found) < math.prod(shape) or _sum(found) != total:
                    raise ValueError(f"{name} is damaged")
                return found.reshape(shape)
            raise KeyError(name)

    def notes(self, number: int) -> Any:
        """Read what was noted of a tile."""
        with self._opened(number) as (_, head):
            return head["notes"]

    @contextmanager
    def _opened(self, number: int) -> Iterator[tuple[IO[bytes], Any]]:
        """Open a tile behind its head."""
        try:
            with self.path(number).open("rb") as file:
                file.seek(_DIGEST)
                n_left = os.fstat(file.fileno()).st_size - _DIGEST - _LENGTH
                n_head = int.from_bytes(file.read(_LENGTH), "little")
                head = json.loads(file.read(min(n_head, n_left)))
                sizes = (math.prod(shape) * np.dtype(kind).itemsize for _, kind, shape, _ in head["arrays"])
                if n_head + sum(sizes) != n_left:
                    raise ValueError("its head and its size disagree")
                yield file, head
        except (OSError, KeyError, ValueError, TypeError) as error:
            raise DataError(
                f"tile must be whole; got {type(error).__name__} ({self.path(number).name}). "
                "Repeat the command: it is made anew."
            ) from error

    def has(self, number: int) -> bool:
        """Whether a tile is there and whole."""
        try:
            with self.path(number).open("rb") as file:
                digest = file.read(_DIGEST)
                found = hashlib.sha256()
                while piece := file.read(1 << 20):
                    found.update(piece)
        except FileNotFoundError:
            return False
        return found.hexdigest().encode("ascii") == digest

    def remove(self) -> None:
        """Throw all tiles away: the map is there."""
        shutil.rmtree(self.folder, ignore_errors=True)


def write_tile(folder: Path, number: int, arrays: Mapping[str, NDArray[Any]], notes: Any) -> Path:
    """Write a tile of a store: its checksum, then its arrays; return its file."""
    held = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    kinds = [[name, array.dtype.str, array.shape, _sum(array)] for name, array in held.items()]
    head = json.dumps({"notes": notes, "arrays": kinds}).encode("ascii")
    content: list[Any] = [
        len(head).to_bytes(_LENGTH, "little"),
        head,
        *(array.reshape(-1).view(np.uint8) for array in held.values()),
    ]
    digest = hashlib.sha256()
    for part in content:
        digest.update(part)
    target = _tile_path(folder, number)
    partial = place_beside(target)  # a tile may be made in two places at once
    try:
        with no_room(target.parent), partial.open("wb") as file:
            file.write(digest.hexdigest().encode("ascii"))
            file.writelines(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def _sum(array: NDArray[Any]) -> int:
    """Sum the bytes of an array, eight at a time: what is read is held against it, at the speed of memory."""
    content = array.reshape(-1).view(np.uint8)
    whole = len(content) // 8 * 8
    words = content[:whole].view(np.uint64).sum(dtype=np.uint64)
    return (int(words) + int.from_bytes(content[whole:].tobytes(), "little")) % 2**64


def _tile_path(folder: Path, number: int) -> Path:
    return folder / f"{number:07d}.tile"


@contextmanager
def no_room(folder: Path, what: str = "map", kept: str = ": finished tiles are kept") -> Iterator[None]:
    """Turn the errors of a full disk into a sentence.

    Parameters
    ----------
    folder : Path
        Where there is no room.
    what, kept : str
        What was to be written, and what a second try finds.

    Raises
    ------
    ConfigError
        Instead of an ``OSError`` that says there is no room.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        raise ConfigError(
            f"disk must have room for the {what}; got {os.strerror(error.errno or 0)!r} ({folder}). "
            f"Make room and repeat the command{kept}."
        ) from error


def check_room(folder: Path, n_bytes: int) -> None:
    """Refuse to begin what the disk cannot hold.

    Raises
    ------
    ConfigError
        Naming what is needed and what there is.
    """
    there = folder
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free
    if free < n_bytes:
        raise ConfigError(
            f"disk must have room for the map and its tiles, about {n_bytes / 1e9:.2g} GB; got {free / 1e9:.2g} GB "
            f"({there}). Make room, or choose another folder with --out."
        )
