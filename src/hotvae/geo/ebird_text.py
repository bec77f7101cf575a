"""The text files of eBird as DuckDB can read them: columns by any of their names, plain or packed, piece by piece.

A file is handed over in pieces of whole lines, so that work on a large one can go on after a piece when it was stopped,
and so that packed files need no room on the disk: they come through a pipe. A piece of a plain file is a file, which
DuckDB reads with all threads, in half the time; the next is written meanwhile. Quotes mean nothing in these files, and
only an empty field is a missing one: ``NA`` is Namibia.
"""

import gzip
import os
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeAlias

from hotvae.data.dataset import close_names
from hotvae.errors import DataError, listed

PIECE_BYTES = 1 << 29
"""Text that is read between two points where a stopped run can go on."""

_BLOCK = 1 << 20
_Write: TypeAlias = Callable[[bytes], Any]

ALIASES: Mapping[str, tuple[str, ...]] = {
    "event": ("SAMPLING EVENT IDENTIFIER", "SUBMISSION ID", "SUB ID"),
    "group": ("GROUP IDENTIFIER", "GROUP ID"),
    "country": ("COUNTRY CODE",),
    "state": ("STATE CODE", "SUBNATIONAL1 CODE", "STATE PROVINCE CODE"),
    "county": ("COUNTY CODE", "SUBNATIONAL2 CODE"),
    "locality": ("LOCALITY ID", "LOC ID"),
    "latitude": ("LATITUDE",),
    "longitude": ("LONGITUDE",),
    "date": ("OBSERVATION DATE", "OBS DT"),
    "time": ("TIME OBSERVATIONS STARTED", "TIME OBSERVATION STARTED"),
    "observer": ("OBSERVER ID",),
    "protocol": ("PROTOCOL NAME", "PROTOCOL TYPE"),
    "minutes": ("DURATION MINUTES", "DURATION MIN"),
    "kilometres": ("EFFORT DISTANCE KM", "EFFORT DISTANCE KILOMETERS"),
    "observers": ("NUMBER OBSERVERS", "NUMBER OF OBSERVERS", "NUM OBSERVERS"),
    "complete": ("ALL SPECIES REPORTED", "ALL OBS REPORTED"),
    "scientific": ("SCIENTIFIC NAME", "SCI NAME"),
    "common": ("COMMON NAME", "PRIMARY COM NAME"),
    "count": ("OBSERVATION COUNT", "COUNT", "HOW MANY"),
}
"""What we need of a file, and the names that releases have given it."""

CHECKLIST_FIELDS = tuple(name for name in ALIASES if name not in ("scientific", "common", "count"))
"""What both files say of a checklist."""


@dataclass(frozen=True)
class TextFile:
    """A text file of eBird whose columns have been found.

    Attributes
    ----------
    path : Path
        The file; ``.txt``, or packed as ``.gz`` or ``.zip``.
    member : str
        Name inside a zip file.
    columns : tuple of str
        Names of all columns, in the order of the file, as eBird writes them.
    n_header_bytes : int
        Where the first record begins.
    """

    path: Path
    member: str
    columns: tuple[str, ...]
    n_header_bytes: int

    @property
    def name(self) -> str:
        """Name for messages."""
        return f"{self.path.name}:{self.member}" if self.member else self.path.name

    def find(self, field: str) -> int | None:
        """Return the place of a column, or None where the file has it under no name."""
        return next((self.columns.index(name) for name in ALIASES[field] if name in self.columns), None)

    def require(self, fields: Sequence[str]) -> None:
        """Refuse a file that lacks a column."""
        missing = [ALIASES[field][0] for field in fields if self.find(field) is None]
        if missing:
            raise DataError(
                f"eBird file must have the column(s) {listed(missing)}; got none of that name"
                f"{close_names(missing, self.columns)} ({self.name}). Use the file as it was downloaded."
            )

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the unpacked text."""
        try:
            if self.member:
                with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as stream:
                    yield stream
            else:
                with gzip.open(self.path) if self.path.suffix.lower() == ".gz" else self.path.open("rb") as stream:
                    yield stream  # type: ignore[misc]  # gzip's own type is as good
        except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile) as error:
            raise DataError(
                f"eBird file must be whole; got {self.name!r} (truncated or corrupt: {error}). Download it again."
            ) from error

    @property
    def is_plain(self) -> bool:
        """Whether the text is not packed."""
        return not self.member and self.path.suffix.lower() != ".gz"

    def size(self) -> int | None:
        """Return the number of bytes of the unpacked text, where it is known without unpacking."""
        if self.member:
            with zipfile.ZipFile(self.path) as archive:
                return archive.getinfo(self.member).file_size
        return self.path.stat().st_size if self.is_plain else None


def open_pair(ebd: str | os.PathLike[str], sampling: str | os.PathLike[str]) -> tuple[TextFile, TextFile]:
    """Find the columns of observations and checklists, and refuse files that cannot belong together.

    Parameters
    ----------
    ebd, sampling : path
        Text files, plain or as ``.gz`` or ``.zip``. One zip file may hold both.

    Returns
    -------
    tuple of TextFile

    Raises
    ------
    DataError
        A file that is missing, damaged, of another kind or of another release.
    """
    observations, checklists = open_text(ebd, "observations"), open_text(sampling, "checklists")
    releases = [_release(file) for file in (observations, checklists)]
    if None not in releases and releases[0] != releases[1]:
        raise DataError(
            f"eBird files must be of one release; got {releases[0]} ({observations.name}) and {releases[1]} "
            f"({checklists.name}). Download both again, on one day."
        )
    return observations, checklists


def open_text(path: str | os.PathLike[str], kind: str) -> TextFile:
    """Find the columns of a file of ``"observations"`` (the EBD) or of ``"checklists"`` (sampling events)."""
    source = Path(path)
    if not source.is_file():
        siblings = [entry.name for entry in source.parent.iterdir()] if source.parent.is_dir() else []
        raise DataError(
            f"eBird file must be an existing file; got {str(source)!r}{close_names([source.name], siblings)}. "
            "Check the spelling and the folder."
        )
    members = [""]
    if source.suffix.lower() == ".zip":
        try:
            with zipfile.ZipFile(source) as archive:
                members = sorted(name for name in archive.namelist() if name.lower().endswith((".txt", ".tsv", ".csv")))
        except zipfile.BadZipFile as error:
            raise DataError(
                f"eBird file must be whole; got {source.name!r} (truncated or corrupt: {error}). Download it again."
            ) from error
    found = [_with_columns(source, member) for member in members]
    is_ebd = [file.find("count") is not None and file.find("event") is not None for file in found]
    if kind == "observations":
        fitting = [file for file, is_one in zip(found, is_ebd, strict=True) if is_one]
    else:
        fitting = [
            file for file, is_one in zip(found, is_ebd, strict=True) if not is_one and file.find("event") is not None
        ]
    if len(fitting) == 1:
        return fitting[0]
    other = any(is_ebd) if kind == "checklists" else any(file.find("event") is not None for file in found)
    what = "one of the other kind" if other and not fitting else f"{len(fitting)} such"
    rule = "an EBD with a column OBSERVATION COUNT" if kind == "observations" else "the sampling event data"
    raise DataError(
        f"file of {kind} must be {rule}; got {what} ({source.name}). Name first the EBD, then its sampling file."
    )


def _with_columns(path: Path, member: str) -> TextFile:
    bare = TextFile(path, member, (), 0)
    with bare.open() as stream:
        line = stream.readline(_BLOCK)
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"eBird file must be UTF-8 text; got {bare.name!r} ({error.reason}). Unpack it first."
        ) from None
    # R and databases write names their own way: sampling_event_identifier, "LATITUDE".
    names = [name.strip().strip('"').upper().replace("_", " ").replace(".", " ") for name in text.split("\t")]
    while names and not names[-1]:
        names.pop()
    repeated = {name for name in names if name and names.count(name) > 1}
    if repeated:
        raise DataError(f"columns must have different names; got {listed(sorted(repeated))} twice ({bare.name}).")
    return TextFile(path, member, tuple(names), len(line))


def _release(file: TextFile) -> str | None:
    """Return the release that a name tells, such as ``relJan-2025``."""
    name = (file.member or file.path.name).lower()
    _, found, rest = name.rpartition("rel")
    release = rest[:8]
    is_release = (
        bool(found) and len(release) == 8 and release[:3].isalpha() and release[3] == "-" and release[4:].isdigit()
    )
    return f"rel{release}" if is_release else None


# --- pieces ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Piece:
    """Some whole lines of a file.

    Attributes
    ----------
    path : str
        Where they can be read, once, while the piece is served.
    start : int
        First byte of the unpacked text.
    """

    path: str
    start: int


class PieceReader:
    """Hands over a file, from a byte on, in pieces of whole lines.

    Parameters
    ----------
    file : TextFile
        Where from.
    folder : Path
        Room for what is handed over.
    start : int
        First byte of the unpacked text; the beginning of a line.
    n_bytes : int
        Least size of a piece but the last.

    Attributes
    ----------
    end : int
        First byte after the pieces that were handed over.
    """

    def __init__(self, file: TextFile, folder: Path, start: int, n_bytes: int = PIECE_BYTES) -> None:
        self.file, self.folder, self.n_bytes = file, folder, n_bytes
        self.end = max(start, file.n_header_bytes)
        self._rest = b""

    @contextmanager
    def pieces(self, tell: Callable[[int], None] = lambda done: None) -> Iterator[Iterator[Piece]]:
        """Serve piece after piece; each must be read to its end before the next is asked for."""
        with self.file.open() as stream:
            if self.file.is_plain:
                stream.seek(self.end)
            else:
                left = self.end
                while left > 0:
                    left -= len(stream.read(min(_BLOCK, left))) or left
            yield self._serve(stream, tell)

    def _serve(self, stream: IO[bytes], tell: Callable[[int], None]) -> Iterator[Piece]:
        by_pipe = not self.file.is_plain and hasattr(os, "mkfifo")
        return self._by_pipe(stream, tell) if by_pipe else self._by_file(stream, tell)

    def _by_pipe(self, stream: IO[bytes], tell: Callable[[int], None]) -> Iterator[Piece]:
        target = self.folder / "piece.txt"

        def move(end: int) -> None:
            self.end = end
            tell(end)

        while first := self._rest or stream.read(_BLOCK):
            start = self.end
            with _pipe(target, partial(self._copy, stream, first, start, move)):
                yield Piece(str(target), start)

    def _by_file(self, stream: IO[bytes], tell: Callable[[int], None]) -> Iterator[Piece]:
        """Serve files; while one is read, the next is written."""
        start, number = self.end, 0

        def write() -> tuple[Path, int] | None:
            first = self._rest or stream.read(_BLOCK)
            if not first:
                return None
            target = self.folder / f"piece-{number % 2}.txt"
            with target.open("wb") as out:
                return target, self._copy(stream, first, start, tell, out.write)

        with ThreadPoolExecutor(1) as ahead:
            coming = ahead.submit(write)
            try:
                while (written := coming.result()) is not None:
                    target, self.end = written
                    piece = Piece(str(target), start)
                    start, number = self.end, number + 1
                    coming = ahead.submit(write)
                    yield piece
                    target.unlink()
            finally:
                wait([coming])
                for left in (0, 1):
                    (self.folder / f"piece-{left}.txt").unlink(missing_ok=True)

    def _copy(self, stream: IO[bytes], first: bytes, start: int, tell: Callable[[int], None], write: _Write) -> int:
        """Write one piece, and return its end; what was read beyond its last line waits for the next."""
        block, end, self._rest = first, start, b""
        while block:
            if end - start + len(block) >= self.n_bytes:
                at = block.find(b"\n", max(0, self.n_bytes - (end - start) - 1))
                if at >= 0:
                    self._rest = block[at + 1 :]
                    write(block[: at + 1])
                    end += at + 1
                    break
            write(block)
            end += len(block)
            tell(end)
            block = stream.read(_BLOCK)
        tell(end)
        return end


@contextmanager
def _pipe(target: Path, send: Callable[[_Write], Any]) -> Iterator[None]:
    """Make what is sent readable under a name, through a pipe."""
    target.unlink(missing_ok=True)
    os.mkfifo(target)
    failures: list[BaseException] = []

    def feed() -> None:
        try:
            with target.open("wb", buffering=_BLOCK) as out:
                with suppress(ImportError, AttributeError, OSError):  # as much at once as the system allows
                    import fcntl

                    fcntl.fcntl(out.fileno(), fcntl.F_SETPIPE_SZ, _BLOCK)
                send(out.write)
        except BrokenPipeError:
            pass  # the reader has stopped, and says why
        except BaseException as error:  # told to the thread that waits for it
            failures.append(error)

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    try:
        yield
    finally:
        if feeder.is_alive():  # nobody has read it, or not to its end
            with suppress(OSError):
                os.close(os.open(target, os.O_RDONLY | os.O_NONBLOCK))
        feeder.join()
        target.unlink(missing_ok=True)
        if failures:  # the cause of whatever the reader has met
            raise failures[0]


def damaged_line(file: TextFile, start: int, end: int) -> str:
    """Find the first line that has too few or too many fields, and say where and how many.

    Parameters
    ----------
    file : TextFile
        The file.
    start, end : int
        Bytes of the unpacked text to look at.

    Returns
    -------
    str
        Empty where every line is as it should be.
    """
    width = len(file.columns)
    with file.open() as stream:
        number, at = 1, 0
        for line in stream:
            if at >= end:
                break
            fields = line.rstrip(b"\r\n").count(b"\t") + 1
            if at >= max(start, file.n_header_bytes) and not (
                fields == width or (fields == width + 1 and line.rstrip(b"\r\n").endswith(b"\t"))
            ):
                return f"{fields} instead of {width} (line {number} of {file.name})"
            at += len(line)
            number += 1
    return ""
