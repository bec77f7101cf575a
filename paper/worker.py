"""The process of one cell: ``python -m paper.worker OUT.json ROWS.npz < cell.json``.

Prints nothing of its own. The answer is in ``OUT.json``: a result, or the message of an error.
"""

import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hotvae.errors import HotVAEError
from hotvae.files import write_text
from paper.experiments import Cell
from paper.store import part_path


def answer(cell: Cell, rows_file: Path, measure: Callable[[Cell], Any] | None = None) -> dict[str, Any]:
    """Run a cell, write the values of its rows and return its line without cell.

    Parameters
    ----------
    cell : Cell
        What to do.
    rows_file : Path
        Where the values of single rows go.
    measure : callable, optional
        What is done, as :func:`~paper.cells.run_cell`, which it is by default.

    Returns
    -------
    dict
        With ``status``; an error becomes ``"failed"`` with its message.

    Examples
    --------
    >>> import tempfile
    >>> out = Path(tempfile.mkdtemp()) / "rows.npz"
    >>> answer(Cell("tables", "prevalence", "prevalence", "virtual-50-4"), out)["status"], out.exists()
    ('done', True)
    """
    import numpy as np

    from paper.cells import run_cell

    try:
        measured = (measure or run_cell)(cell)
    except (HotVAEError, MemoryError) as error:
        return {"status": "failed", "error": f"{type(error).__name__}: {error}"}
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"  # no folders: results are published
        return {"status": "failed", "error": f"{type(error).__name__}: {error} ({where})"}
    for name, rows in {"": measured.rows, **measured.parts}.items():
        own = part_path(rows_file, name)
        partial = own.with_name(f"{own.stem}.{os.getpid()}.part.npz")
        np.savez_compressed(partial, **rows)
        os.replace(partial, own)
    return {"status": "done", **measured.line}


def write_answer(told: Mapping[str, Any], answer_file: str, rows_file: str) -> None:
    """Answer one cell into a file of its own, whole or not at all.

    Parameters
    ----------
    told : mapping
        The cell, as plain values.
    answer_file, rows_file : str
        Where the answer and the values of single rows go.
    """
    result = answer(Cell.from_dict(dict(told)), Path(rows_file))
    write_text(answer_file, json.dumps(result, allow_nan=False))


def _leave_with_parent() -> None:
    """End this process when the runner is gone: an orphan would burn a core for nobody."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main(argv: Sequence[str] | None = None, measure: Callable[[Cell], Any] | None = None) -> int:
    """Answer one cell.

    Parameters
    ----------
    argv : sequence of str, optional
        Files of the answer and of the rows; by default the arguments of the process.
    measure : callable, optional
        As in :func:`answer`.

    Returns
    -------
    int
        0.

    Examples
    --------
    >>> main([])
    Traceback (most recent call last):
    ...
    SystemExit: worker needs the files of its answer and of its rows
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if len(arguments) != 2:
        raise SystemExit("worker needs the files of its answer and of its rows")
    _leave_with_parent()
    cell = Cell.from_dict(json.load(sys.stdin))
    result = answer(cell, Path(arguments[1]), measure)
    Path(arguments[0]).write_text(json.dumps(result, allow_nan=False), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
