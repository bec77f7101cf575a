"""Bytes that someone else wrote: whatever a parser makes of them, it ends in a table or in one sentence."""

import gzip
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pandas as pd

from hotvae.errors import DataError, HotVAEError

_CHUNK = 1 << 24


@contextmanager
def foreign_bytes(source: Path) -> Iterator[None]:
    """Turn what goes wrong while a file is parsed into one sentence.

    Parameters
    ----------
    source : Path
        The file, for the message.

    Raises
    ------
    DataError
        Instead of anything that a parser raises: of bytes at random it may be any exception there is.
    """
    try:
        yield
    except (HotVAEError, PermissionError):
        raise
    except MemoryError as error:
        raise _too_large(source, "more than there is") from error
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).split("\n")[0][:200]
        raise DataError(
            f"table must be readable; got {str(source)!r} (truncated or corrupt: {reason}). Copy or make it anew."
        ) from error


def _too_large(source: Path, size: str) -> DataError:
    return DataError(
        f"table must fit into memory; got {str(source)!r}, which needs {size}. Split it, or use a larger machine."
    )


def _memory() -> int:
    """Return the bytes that this process may hold at most."""
    try:
        import resource

        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
    except (ImportError, ValueError, OSError):  # Windows
        return 1 << 40
    return there if allowed == resource.RLIM_INFINITY else min(there, allowed)


def check_archive(file: IO[bytes], source: Path) -> None:
    """Refuse a zip archive whose members would not fit into memory, before any is unpacked.

    Parameters
    ----------
    file : binary file
        The archive, at its beginning; it is left there.
    source : Path
        Its name, for the message.
    """
    with zipfile.ZipFile(file) as archive:
        size = sum(member.file_size for member in archive.infolist())  # reading ends there, whatever comes after
    file.seek(0)
    if size > _memory():
        raise _too_large(source, f"{size / 1e9:,.1f} GB unpacked")


def checked_frame(table: Any) -> pd.DataFrame:
    """Turn an Arrow table into a frame, having looked at all its cells and names: texts may be none inside.

    Parameters
    ----------
    table : pyarrow.Table
        As read from a file.

    Returns
    -------
    DataFrame
    """
    table.validate(full=True)
    for name in table.schema.names:
        name.encode()
    frame: pd.DataFrame = table.to_pandas()
    return frame


def unpacked(source: Path) -> bytes:
    """Read a file, and unpack it if its name ends in ``.gz``, as far as there is memory for it."""
    if source.suffix.lower() != ".gz":
        return source.read_bytes()
    most, chunks, size = _memory(), [], 0
    with gzip.open(source) as file:
        while chunk := file.read(_CHUNK):
            size += len(chunk)
            if 2 * size > most:  # the whole and its pieces are there at once
                raise _too_large(source, f"more than {size / 1e9:,.1f} GB unpacked")
            chunks.append(chunk)
    return b"".join(chunks)
