"""Where results live: append-only JSON lines, safe under several writers and after a kill.

``NAME.jsonl`` has one line per finished cell of an experiment, the latest line of a cell counts. Beside it
``rows/`` holds what paired tests need of each test row; it can be large, is not committed and not needed to render.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hotvae.errors import DataError
from paper.experiments import Cell, fingerprint

DONE, FAILED, TOO_SLOW = "done", "failed", "too slow"
Place = tuple[str, str, str, int, int]


class Store:
    """Results in a folder.

    Parameters
    ----------
    folder : path
        Is made when the first result is written.

    Examples
    --------
    >>> import tempfile
    >>> store = Store(tempfile.mkdtemp())
    >>> cell = Cell("tables", "ridge", "ridge", "yeast")
    >>> store.append({"cell": cell.to_dict(), "status": "done", "seconds": 1.5})
    >>> [line["status"] for line in store.lines("tables")]
    ['done']
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    @property
    def rows_folder(self) -> Path:
        """Folder of the values of single rows."""
        return self.folder / "rows"

    def path(self, experiment: str) -> Path:
        """File of an experiment."""
        return self.folder / f"{experiment}.jsonl"

    def append(self, line: Mapping[str, Any]) -> None:
        """Add a result, whole and for good, whoever else writes.

        Parameters
        ----------
        line : mapping
            JSON-able; ``line["cell"]["experiment"]`` says to which file.
        """
        path = self.path(str(line["cell"]["experiment"]))
        text = json.dumps(line, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        self.folder.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file, _locked(file):
            # A line that a killed writer left without its end must not swallow this one.
            size = file.seek(0, os.SEEK_END)
            torn = False
            if size:
                file.seek(size - 1)
                torn = file.read(1) != b"\n"
            file.write((b"\n" if torn else b"") + text.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def lines(self, experiment: str) -> list[dict[str, Any]]:
        """Read all results of an experiment, oldest first; a torn line is passed over.

        Parameters
        ----------
        experiment : str
            Its name.

        Returns
        -------
        list of dict

        Raises
        ------
        DataError
            A whole line that is no result.
        """
        path = self.path(experiment)
        if not path.exists():
            return []
        found = []
        for number, text in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
            try:
                line = json.loads(text)
            except json.JSONDecodeError:
                continue  # torn by a kill; the cell runs again
            if not _is_result(line):
                raise DataError(
                    f"results must be lines with cell and status; got {text[:60]!r} ({path.name}, line {number}). "
                    "Remove this line."
                )
            found.append(line)
        return found

    def latest(self, experiment: str) -> dict[Place, dict[str, Any]]:
        """Return the newest result of every cell; what is done outweighs a later failure with the same settings.

        Parameters
        ----------
        experiment : str
            Its name.

        Returns
        -------
        dict
            By :attr:`Cell.place`.
        """
        newest: dict[Place, dict[str, Any]] = {}
        for line in self.lines(experiment):
            place = place_of(line)
            before = newest.get(place)
            kept = (
                before is not None
                and before["status"] == DONE
                and line["status"] != DONE
                and before.get("fit") == line.get("fit")
            )
            if not kept:
                newest[place] = line
        return newest

    def fits(self, experiments: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return finished results by the fingerprint of their fit, for cells that several experiments share.

        Parameters
        ----------
        experiments : iterable of str
            Where to look.

        Returns
        -------
        dict
        """
        return {
            line["fit"]: line
            for name in experiments
            for line in self.latest(name).values()
            if line["status"] == DONE and "fit" in line
        }

    def rows_path(self, fit: str) -> Path:
        """File with the values of single rows of a fit."""
        return self.rows_folder / f"{fit}.npz"

    def make_rows_folder(self) -> Path:
        """Make the folder of single rows, which git passes over."""
        self.rows_folder.mkdir(parents=True, exist_ok=True)
        ignore = self.rows_folder / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
        return self.rows_folder


def part_path(rows_file: Path, part: str) -> Path:
    """Name the file with the values of single rows of a part of a model; of the whole, if ``part`` is empty.

    Examples
    --------
    >>> part_path(Path("0f.npz"), "base").name
    '0f.base.npz'
    """
    return rows_file.with_name(f"{rows_file.stem}.{part}.npz") if part else rows_file


def _is_result(line: Any) -> bool:
    """Whether a line has a cell and how it went."""
    try:
        return isinstance(line["status"], str) and bool(place_of(line))
    except (KeyError, TypeError, ValueError, IndexError):
        return False


def place_of(line: Mapping[str, Any]) -> Place:
    """Say where a stored result stands.

    Examples
    --------
    >>> place_of({"cell": Cell("tables", "ridge", "ridge", "yeast", seed=2).to_dict()})
    ('tables', 'ridge', 'yeast', 0, 2)
    """
    return Cell.from_dict(line["cell"]).place


def fit_fingerprint(cell: Cell, settings: Mapping[str, Any]) -> str:
    """Recognise a fit with its measures, whichever experiment asked for it.

    Parameters
    ----------
    cell : Cell
        What is fitted.
    settings : mapping
        All settings it is fitted with, presets included.

    Returns
    -------
    str

    Examples
    --------
    >>> one = Cell("tables", "alone", "hotvae_network", "yeast")
    >>> two = Cell("communities", "network", "hotvae_network", "yeast")
    >>> fit_fingerprint(one, {}) == fit_fingerprint(two, {})
    True
    """
    values = cell.to_dict()
    kept = {name: values[name] for name in ("model", "data", "split", "seed", "measures", "n_draws", "n_pairs")}
    return fingerprint(kept | {"settings": dict(settings)})


@contextmanager
def _locked(file: Any) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:  # Windows: one writer only
        yield
        return
    fcntl.flock(file.fileno(), fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file.fileno(), fcntl.LOCK_UN)
