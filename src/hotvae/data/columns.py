"""Columns by name, glob, range or file of names; and columns that look like something else than they should be.

Nothing is repaired quietly: a column that does not fit is named together with a remedy.
"""

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from hotvae.data.dataset import close_names, feature_kinds, text_levels
from hotvae.errors import DataError, DataWarning, listed, option

_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{2}|\d{4})([T ].*)?")
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
_BINOMIAL = re.compile(r"[A-Z][a-z]+[ _.][a-z-]+")


def split_names(names: str | Sequence[str] | None, columns: Sequence[str]) -> list[str]:
    """Separate names given as one string, unless that string is itself a column."""
    if names is None:
        return []
    if isinstance(names, str):
        return [names] if names in columns else [part.strip() for part in names.split(",") if part.strip()]
    return [str(name) for name in names]


def match_columns(
    patterns: str | Sequence[str], columns: Sequence[str], what: str, taken: Iterable[str] = ()
) -> list[str]:
    """Columns that names, globs, ranges or files of names stand for, in the order of the table."""
    used, chosen = set(taken), set()
    for pattern in _from_files(split_names(patterns, columns), columns):
        if pattern in used:
            raise DataError(f"{what} must not have another role; got {pattern!r} twice. Give each column one role.")
        found = [pattern] if pattern in columns else [name for name in columns if fnmatchcase(name, pattern)]
        found = found or _range(pattern, columns, what)
        if not set(found) - used:
            close = close_names([pattern.rstrip("*")], columns) or f" (columns: {listed(columns)})"
            raise DataError(f"{what} must match a column; got {pattern!r}{close}. Check the spelling.")
        chosen |= set(found) - used
    return [name for name in columns if name in chosen]


def _from_files(patterns: Iterable[str], columns: Sequence[str]) -> Iterator[str]:
    """Replace ``@file`` by the names in it, one a line."""
    for pattern in patterns:
        if not pattern.startswith("@") or pattern in columns:
            yield pattern
            continue
        source = Path(pattern[1:])
        try:
            lines = source.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise DataError(
                f"file of names must be readable UTF-8 text; got {str(source)!r} ({reason}). Check the path."
            ) from error
        names = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        if not names:
            raise DataError(f"file of names must have a name on each line; got none ({str(source)!r}). Fill it in.")
        yield from names


def _range(pattern: str, columns: Sequence[str], what: str) -> list[str]:
    """Columns from the first to the last that ``first:last`` names; none where it names no two columns."""
    for at in (match.start() for match in re.finditer(":", pattern)):  # names may have colons, too
        first, last = pattern[:at].strip(), pattern[at + 1 :].strip()
        if first in columns and last in columns:
            start, end = columns.index(first), columns.index(last)
            if start > end:
                raise DataError(f"{what} must be a range from left to right; got {pattern!r}. Turn it round.")
            return list(columns[start : end + 1])
    return []


def check_present(wanted: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse a table that lacks a column."""
    there = set(columns)
    missing = [name for name in wanted if name not in there]
    if missing:
        raise DataError(
            f"table must have the column(s) {listed(missing)}; got none of that name"
            f"{close_names(missing, columns)}. Check the spelling, or add them."
        )


def column_order(
    columns: Sequence[str], feature_names: Sequence[str], ignore: Iterable[str], ignore_unknown: bool
) -> list[int]:
    """Places of the features of a model among columns; one that it does not know is refused unless it is ignored."""
    check_present(feature_names, columns)
    known = {*feature_names, *ignore}
    unknown = [name for name in columns if name not in known]
    if unknown and not ignore_unknown:
        raise DataError(
            f"columns must be known from training; got unknown column(s) {listed(unknown)}. "
            f"Remove them, or pass {option('ignore_unknown', True)}."
        )
    position = {name: i for i, name in enumerate(columns)}
    return [position[name] for name in feature_names]


# --- columns that look like something else ---------------------------------------------------------------


def warn_of_counts(features: pd.DataFrame, label_names: Sequence[str]) -> None:
    """Name features that look like species: counts with many zeros, or 0 and 1 under a name like a label's."""
    prefixes = {name[: match.end()] for name in label_names if (match := re.match(r"[A-Za-z]+[_.]", name))}
    suspects = []
    for name, column in features.items():
        if not is_numeric_dtype(column) or is_bool_dtype(column) or isinstance(column.dtype, pd.SparseDtype):
            continue
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        known = values[np.isfinite(values)]
        if not known.size or (known < 0).any() or (known != np.floor(known)).any() or known.max() < 1:
            continue
        is_named_so = _BINOMIAL.fullmatch(str(name)) is not None or str(name).startswith(tuple(prefixes or ("\0",)))
        is_count = known.max() > 1 and (known == 0).mean() >= 0.3
        if (known == 0).any() and (is_named_so or is_count):
            suspects.append(str(name))
    if suspects:
        warnings.warn(
            f"features should not be species; got {len(suspects)} that look like counts or presences: "
            f"{listed(suspects, len(suspects))}. Are they labels? Name them too ({option('labels')}), or "
            f"leave them out ({option('drop')}).",
            DataWarning,
            stacklevel=4,
        )


def check_unnamed(features: pd.DataFrame) -> None:
    """Refuse columns without a name."""
    unnamed = [str(name) for name in features.columns if re.fullmatch(r"Unnamed: \d+|", str(name))]
    if unnamed:
        raise DataError(
            f"columns must have names; got {len(unnamed)} without, read as {listed(unnamed)}. "
            f"Row numbers or a stray delimiter? Leave them out: {option('drop', unnamed[0])}, "
            f"or name the column of ids: {option('id_column')}."
        )


def parsed(cell: str) -> float:
    """Read a number; NaN where there is none."""
    try:
        return float(cell)
    except ValueError:
        return np.nan


def check_text_cells(name: str, column: "pd.Series[Any]", dates: bool = True) -> None:
    """Refuse a text column most of whose cells are numbers or, unless these are welcome, dates.

    Parameters
    ----------
    name : str
        Name of the column, for messages.
    column : Series
        Its cells.
    dates : bool
        Whether dates are refused as well.

    Raises
    ------
    DataError
        Naming what stands in the way.
    """
    codes, levels = text_levels(column)
    counts = np.bincount(codes[codes >= 0], minlength=len(levels))
    half = counts.sum() / 2
    is_comma = np.array([_DECIMAL_COMMA.fullmatch(level.strip()) is not None for level in levels], dtype=bool)
    is_number = ~np.isnan([parsed(level) for level in levels])
    if counts[is_number | is_comma].sum() > half:
        wrong = np.flatnonzero(~is_number)
        cells = f"text {listed(levels[i] for i in wrong)}" if wrong.size else "numbers stored as text"
        where = f" (rows {listed(np.flatnonzero(np.isin(codes, wrong)))})" if wrong.size else ""
        asked = option("decimal", ",")
        hint = f" Decimal commas? Pass {asked}." if is_comma.any() else ""
        raise DataError(
            f"column {name!r} must hold numbers throughout; got {cells}{where}.{hint} "
            "Correct these cells, leave them empty for missing, or drop the column."
        )
    is_date = np.array([_DATE.fullmatch(level.strip()) is not None for level in levels], dtype=bool)
    if dates and counts[is_date].sum() > half:
        raise DataError(
            f"column {name!r} must hold numbers or categories; got dates such as {levels[int(is_date.argmax())]!r}. "
            "Turn them into numbers (year, day of the year), or drop the column."
        )


def check_text(features: pd.DataFrame) -> None:
    """Refuse text columns that hold numbers, dates or identifiers; declared categories pass."""
    for label, kind in zip(features.columns, feature_kinds(features), strict=True):
        column = features[label]
        if kind == "numeric" or isinstance(column.dtype, pd.CategoricalDtype):
            continue
        name = str(label)
        check_text_cells(name, column)
        _, levels = text_levels(column)
        if len(levels) > 50 and len(levels) > len(column) / 2:
            raise DataError(
                f"column {name!r} must be a feature; got {len(levels)} distinct texts in {len(column)} rows "
                f"({listed(levels, 2)}): an identifier or free text. Leave it out ({option('drop')}), name "
                f"it as ids ({option('id_column')}), or choose an encoder that reads texts or "
                "molecules."
            )


def row_ids(frame: pd.DataFrame, id_column: str, first_row: int = 0) -> NDArray[np.object_]:
    """Ids as text, so that 7 in one file and "7" in another are the same; rows are counted from ``first_row``."""
    codes, levels = text_levels(frame[id_column])
    missing = np.flatnonzero(codes < 0)
    if missing.size:
        raise DataError(
            f"ids must be known for every row; got missing ones in column {id_column!r} "
            f"(rows {listed(missing + first_row)}). Fill them in."
        )
    return np.array(levels, dtype=object)[codes]
