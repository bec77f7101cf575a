"""The judge: a call must succeed whole, or end in one clean sentence and leave nothing behind."""

import contextlib
import io
import math
import re
import traceback
import warnings
from pathlib import Path

import pandas as pd

from hotvae.cli import main
from hotvae.data.frames import read_frame
from hotvae.errors import HotVAEError
from hotvae.estimators.registry import load_model
from tests.hostile.cases import Case

# A command line advises options, never Python.
_PYTHON = re.compile(r"Traceback|read_table\(|\.fit\(|pandas\.|astype\(|\b[a-z_]+=(True|None|\[\.)|hotvae\[|reshape")


def judged(case: Case) -> tuple[int | None, str]:
    """Run a case; return its exit code, and what is wrong with how it ended.

    Parameters
    ----------
    case : Case
        What to run.

    Returns
    -------
    code : int or None
        None if it ended in an exception.
    problem : str
        Empty if nothing is wrong.
    """
    said, told = io.StringIO(), io.StringIO()
    before = set() if case.out is None else {entry.name for entry in case.out.parent.iterdir()}
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(said), contextlib.redirect_stderr(told):
            warnings.simplefilter("default")
            code = main(case.arguments)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return None, f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}: {str(error)[:300]}"
    left = set() if case.out is None else {entry.name for entry in case.out.parent.iterdir()} - before
    if code == 0:
        return code, _whole(case) or _litter(case, left)
    return code, _refusal(code, told.getvalue().splitlines(), left - {case.kept})


def _refusal(code: int, lines: list[str], left: set[str]) -> str:
    """Say what is wrong with how a call was refused."""
    errors = [line for line in lines if line.startswith("error: ")]
    others = [line for line in lines if not line.startswith(("error: ", "warning: ")) and "tiles" not in line]
    if code != 2:
        return f"exit code {code}"
    if len(errors) != 1 or not errors[0].removeprefix("error: ").strip():
        return f"{len(errors)} error lines: {lines[-3:]}"
    if others:
        return f"other lines: {others[-2:]}"
    if left:
        return f"left behind: {left}"
    advice = _PYTHON.search(errors[0].split("; got")[0] + errors[0].rpartition("). ")[2])
    return f"advises Python: {errors[0][:300]}" if advice else ""


def _litter(case: Case, left: set[str]) -> str:
    """Name what a call that succeeded has left beside its results."""
    stem = "" if case.out is None else case.out.name.partition(".")[0]
    strange = {name for name in left if name.startswith(".") or not name.startswith(stem)}
    return f"litter: {strange}" if strange else ""


def _whole(case: Case) -> str:
    """Say what is wrong with what a call that succeeded has written."""
    if case.out is None:
        return ""
    if not case.out.exists():
        return "success without a result"
    if case.arguments[0] == "train":
        load_model(case.out)
        return ""
    try:
        table = read_frame(case.out)
    except HotVAEError as error:
        return f"a table that cannot be read again: {error}"
    if case.arguments[0] in ("annotate", "grid", "ebird"):
        return "" if len(table) else "a table without rows"
    probs = table[[name for name in table if name not in ("site", "row", "lon", "lat")]]
    values = probs.to_numpy(dtype=float)
    if not values.size or not all(math.isfinite(value) and 0 <= value <= 1 for value in values.ravel()):
        return f"probabilities that are none: {pd.Series(values.ravel()).describe().to_dict()}"
    return ""
