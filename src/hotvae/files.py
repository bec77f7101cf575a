"""Files that survive: written whole or not at all, by one run at a time.

This module knows nothing of what is in them, and needs neither torch nor numpy.
"""

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from hotvae.errors import ConfigError

# Names of results grow while they are written (a dot, a number, .state, .part); most file systems take 255 bytes.
_LONGEST_NAME = 200


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a place beside a file to write to; what stands there in the end replaces the file in one step.

    Parameters
    ----------
    path : path
        The file that is wanted; its folder must exist.

    Yields
    ------
    Path
        Where to write. If anything goes wrong, nothing of it is left and an older file stays as it was.

    Raises
    ------
    ConfigError
        A place that cannot be written to.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "notes.txt"
    >>> with whole_file(target) as partial:
    ...     _ = partial.write_text("all of it")
    >>> [(entry.name, entry.read_text()) for entry in target.parent.iterdir()]
    [('notes.txt', 'all of it')]
    """
    target = Path(path)
    partial = place_beside(target)
    try:
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())  # a file that was renamed before it was stored may be empty after a power cut
        os.replace(partial, target)
    except OSError as error:
        raise unwritable(target, error) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def place_beside(path: Path) -> Path:
    """Name a hidden file or folder beside a path, where its next content is made; another name each time."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")


def _sweep(path: Path) -> None:
    """Remove what runs that were killed have left at places beside a path."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}\.part")
    for entry in [entry for entry in path.parent.iterdir() if pattern.fullmatch(entry.name)]:
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            with suppress(OSError):
                entry.unlink()


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file, whole or not at all.

    Parameters
    ----------
    path : path
        The file; its folder is made if needed, an older file is replaced.
    text : str
        What to write, in UTF-8.

    Raises
    ------
    ConfigError
        A place that cannot be written to.
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(target, error) from error
    with whole_file(target) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def unwritable(path: str | os.PathLike[str], error: OSError) -> ConfigError:
    """Put a full disk, a missing right or a name that cannot be into words."""
    return ConfigError(
        f"path must be a place one can write to; got {os.fspath(path)!r} ({error.strerror or error}). "
        "Make room there, or choose another folder."
    )


def check_name(path: str | os.PathLike[str]) -> None:
    """Refuse the name of a result that no file can have, before hours of work.

    Raises
    ------
    ConfigError
        A name of more than 200 bytes, or with a byte of 0.

    Examples
    --------
    >>> check_name("species.csv")
    >>> check_name("a" * 300)
    Traceback (most recent call last):
    ...
    hotvae.errors.ConfigError: name must have at most 200 bytes; got 300 ('aaaaaaaaaaaa'...). Choose a shorter one.
    """
    name = Path(path).name
    n_bytes = len(os.fsencode(name))
    if n_bytes > _LONGEST_NAME:
        raise ConfigError(
            f"name must have at most {_LONGEST_NAME} bytes; got {n_bytes} ({name[:12]!r}...). Choose a shorter one."
        )
    if "\0" in os.fspath(path):
        raise ConfigError(f"name must have no byte of 0; got {os.fspath(path)!r}. Choose another.")


def check_new_file(path: str | os.PathLike[str], force: bool) -> None:
    """Refuse the place of a result that is a folder or, without ``force``, a file that is there; before hours of work.

    Examples
    --------
    >>> check_new_file(".", force=True)
    Traceback (most recent call last):
    ...
    hotvae.errors.ConfigError: output must be a file; got the folder '.'. Choose another name.
    """
    check_name(path)
    if os.path.isdir(path):
        raise ConfigError(f"output must be a file; got the folder {os.fspath(path)!r}. Choose another name.")
    if os.path.exists(path) and not force:
        raise ConfigError(
            f"output must be a new file; got {os.fspath(path)!r}, which exists. Pass --force to replace it."
        )


@contextmanager
def locked(*paths: str | os.PathLike[str], wait: bool = False) -> Iterator[None]:
    """Keep other runs from writing to files or folders until this one is done; a run that is killed lets go.

    What killed runs left half done beside them is removed.

    Parameters
    ----------
    *paths : path
        What is going to be written; a lock is a hidden file beside it.
    wait : bool
        Wait for another run instead of refusing; for what takes seconds.

    Raises
    ------
    ConfigError
        When another run is at it, or the lock cannot be made.
    """
    with ExitStack() as stack:
        for path in paths:
            stack.enter_context(_locked(path, wait))
        yield


@contextmanager
def _locked(path: str | os.PathLike[str], wait: bool) -> Iterator[None]:
    target = Path(os.path.realpath(path))
    lock = target.with_name(f".{target.name}.lock")
    while True:
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise unwritable(path, error) from error
        try:
            _lock_file(handle, wait)
        except OSError as error:
            os.close(handle)
            raise ConfigError(
                f"output must be written by one run at a time; got {str(path)!r}, which another run is writing. "
                "Wait for it, or choose another place."
            ) from error
        if _is_open_file(handle, lock):
            break
        os.close(handle)  # whoever had it has removed it meanwhile
    try:
        _sweep(target)
        yield
    finally:
        with suppress(OSError):  # an open file cannot be removed on Windows
            lock.unlink(missing_ok=True)
        os.close(handle)


def _is_open_file(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _lock_file(handle: int, wait: bool) -> None:
    """Lock an open file; without waiting, raise an OSError at once where another has it."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        windows: Any = msvcrt
        windows.locking(handle, windows.LK_LOCK if wait else windows.LK_NBLCK, 1)
    else:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
