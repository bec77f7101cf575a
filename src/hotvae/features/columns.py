"""What the columns of a table are: numbers, cycles, dates, categories, places, or nothing to learn from.

One look at the training table decides for each column, and says so in a line; then any table with these columns is
brought into the form that :class:`~hotvae.features.scaling.FeatureScaler` takes.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
import pandas as pd
from numpy.typing import DTypeLike, NDArray
from pandas.api.types import infer_dtype, is_datetime64_any_dtype, is_object_dtype
from scipy import sparse

from hotvae.data.aligned import align_columns, check_kinds
from hotvae.data.columns import check_text_cells
from hotvae.data.dataset import (
    FeatureKind,
    FeatureTable,
    as_feature_table,
    check_finite,
    feature_kinds,
    numeric_matrix,
    text_levels,
)
from hotvae.data.places import check_degrees, degree_columns
from hotvae.errors import ConfigError, DataError, ModelError, listed
from hotvae.features.transformer import RowTransformer

ColumnKind = Literal[
    "place", "number", "binary", "cycle", "date", "category", "identifier", "text", "constant", "empty"
]

OTHER = "(other)"
"""The level of a category that rare and unknown levels are taken as."""

_LEFT_OUT = ("identifier", "text", "constant", "empty")

# What a line calls one column of a kind, and several.
_WORDS: dict[ColumnKind, tuple[str, str]] = {
    "place": ("coordinate", "coordinates"),
    "number": ("number", "numbers"),
    "binary": ("column of 0 and 1", "columns of 0 and 1"),
    "cycle": ("cycle", "cycles"),
    "date": ("date", "dates"),
    "category": ("category", "categories"),
    "identifier": ("identifier left out", "identifiers left out"),
    "text": ("column of free text left out", "columns of free text left out"),
    "constant": ("column left out, one value throughout", "columns left out, one value throughout"),
    "empty": ("column left out, no values", "columns left out, no values"),
}

# Categories with more levels than this are grouped: levels with fewer rows than _FEW_ROWS say too little of a level by
# themselves, and a table does not grow by more than _MOST_LEVELS columns for one that it had.
_FEW_LEVELS, _FEW_ROWS, _MOST_LEVELS = 20, 20, 100

# Cells of this many words, most of them different, are sentences.
_SENTENCE = 4

# A season or a day is covered if values reach over this share of it; below, they have a trend of their own.
_FULL_CYCLE = 0.9

_YEAR = 365.25

_WHEN = r"(?:(?:survey|sample|sampling|obs|observation|visit|start|event|collection|date|time)_)?"
# Names of cycles, their least and largest value, and the length of the cycle.
_CYCLES = [
    (re.compile(_WHEN + r"(?:doy|day_?of_?(?:the_?)?year|julian_?(?:day|date)?|yday|jday|ordinal_day)"), 0, 366, _YEAR),
    (re.compile(_WHEN + r"month"), 1, 12, 12.0),
    (re.compile(_WHEN + r"hour(?:_of_(?:the_)?day)?"), 0, 24, 24.0),
]
_THING = r"(?:site|plot|route|station|transect|quadrat|checklist|location|locality|observer)"
_IDENTIFIER = re.compile(
    rf"(?:.*_)?(?:[fgou]?id|ids|u?uid|guid|objectid|rowid|recordid)|id_.*|{_THING}_?ids?|{_THING}s?|row|index|key|"
    rf"(?:{_THING}|row|record|sample|survey|event|visit)_?(?:no|nr|num|number|name|names|code|key)|unnamed_\d+"
)
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ].*)?")


@dataclass(frozen=True)
class Column:
    """What was learned of one column.

    Parameters
    ----------
    kind : ColumnKind
        What it is.
    note : str
        What a line adds in brackets.
    period : float
        Length of the cycle of a cycle or date.
    keeps_number : bool
        A cycle or date is a number as well.
    keeps_year : bool
        The year of a date is a number.
    levels : tuple of str
        Levels of a grouped category that stand for themselves; empty where all levels do.
    """

    kind: ColumnKind
    note: str = ""
    period: float = 0.0
    keeps_number: bool = False
    keeps_year: bool = False
    levels: tuple[str, ...] = ()


class Decision(NamedTuple):
    """Columns that are the same thing, and the line that says so."""

    columns: tuple[str, ...]
    kind: ColumnKind
    text: str


class ColumnPlan(RowTransformer):
    r"""Decide what each column of a table is, and bring tables into the form that scalers take.

    Everything is learned from the rows given to `fit`, which must be training rows only; each column is looked at by
    itself. Missing values stay missing.

    * Columns of 0 and 1, and numbers, stay as they are.
    * Dates become the year and the day of the year; the latter, and columns of whole days, months or hours that are
      named so, become a cycle (sine and cosine), beside the number itself where less than the cycle is covered.
    * Categories stay text. Of those with more than 20 levels, levels with fewer than 20 rows are one level
      ``"(other)"``, and so are levels that training did not have.
    * Identifiers (text that is different in each row or nearly, whole numbers that are named so), free text, and
      columns with one value or none are left out. A number is never left out for being different in each row.
    * Sparse tables stay as they are.

    Parameters
    ----------
    coordinates : pair of str or int, optional
        The two columns that say where a row is: names, or positions, counted from the end when negative. They are
        numbers like others, and ``places`` says where they are.
    in_degrees : bool, optional
        Whether the coordinates are degrees of longitude and latitude; by default if their names and values say so.

    Attributes
    ----------
    kinds : tuple of ColumnKind
        What each column is.
    decisions : list of Decision
        Columns by what they are; one line each (``lines``).
    columns_out : tuple of str
        Names of the columns that come out.
    places : (int, int) or None
        Which of ``columns_out`` say where a row is; for degrees the longitude, then the latitude.
    degrees : bool
        Whether places are degrees.
    is_binary : bool
        Whether all columns that come out hold 0 and 1 only.
    is_sparse : bool
        Whether it was fitted on a sparse table.

    Examples
    --------
    >>> table = pd.DataFrame({"plot_id": [7, 8, 9], "doy": [120, 150, 200], "burnt": [0, 1, 0], "slope": [3.5, 0.2, 9]})
    >>> plan = ColumnPlan().fit(table)
    >>> print("\n".join(plan.lines()))
    1 identifier left out: plot_id
    1 cycle: doy (of 365.25, and as a number)
    1 column of 0 and 1: burnt
    1 number: slope
    >>> plan.columns_out
    ('doy', 'doy (sin)', 'doy (cos)', 'burnt', 'slope')
    """

    stored_as = "columns"

    def __init__(self, coordinates: Sequence[str | int] | None = None, *, in_degrees: bool | None = None) -> None:
        self.coordinates = coordinates
        self.in_degrees = in_degrees
        self.is_sparse = False
        self.degrees = False
        self._columns: tuple[Column, ...] = ()  # one for each column that goes in
        self._where: tuple[str, ...] = ()  # names of the two coordinates

    @property
    def kinds(self) -> tuple[ColumnKind, ...]:
        """What each column that goes in is."""
        return tuple(column.kind for column in self._columns)

    @property
    def kinds_in(self) -> tuple[FeatureKind, ...]:
        """How each column that goes in is read from a file: as numbers or as text."""
        as_text = ("date", "category", "identifier", "text")
        return tuple("categorical" if kind in as_text else "numeric" for kind in self.kinds)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Names of the columns with nothing to learn from; a table need not have them."""
        return tuple(name for name, column in self._named() if column.kind in _LEFT_OUT)

    @property
    def columns_out(self) -> tuple[str, ...]:
        """Names of the columns that come out."""
        return tuple(out for name, column in self._named() for out in _names_out(name, column))

    @property
    def n_features_out(self) -> int:
        """Number of columns that come out."""
        return len(self.columns_out)

    @property
    def places(self) -> tuple[int, int] | None:
        """Which of the columns that come out say where a row is."""
        if not self._where:
            return None
        first, second = (self.columns_out.index(name) for name in self._where)
        return first, second

    @property
    def is_binary(self) -> bool:
        """Whether all columns that come out hold 0 and 1 only."""
        return all(kind == "binary" for kind in self.kinds if kind not in _LEFT_OUT)

    @property
    def decisions(self) -> list[Decision]:
        """Columns by what they are, in the order of the first of each kind; notes that differ stand with each name."""
        by_kind: dict[ColumnKind, list[tuple[str, str]]] = {}
        for name, column in self._named():
            by_kind.setdefault(column.kind, []).append((name, column.note))
        return [
            Decision(tuple(name for name, _ in columns), kind, _line(kind, columns))
            for kind, columns in by_kind.items()
        ]

    def lines(self) -> list[str]:
        """Return the decisions as text, a line each."""
        return [decision.text for decision in self.decisions]

    def check_parameters(self) -> None:
        """Find a parameter that is not allowed before any data are read."""
        chosen = self.coordinates
        if chosen is not None and not (
            isinstance(chosen, tuple | list)
            and len(chosen) == 2
            and all(type(column) in (str, int) for column in chosen)
        ):
            raise ConfigError(f"coordinates must be a pair of names or positions; got {chosen!r}. Name two columns.")
        if self.in_degrees not in (None, True, False):
            raise ConfigError(
                f"in_degrees must be True, False or None; got {self.in_degrees!r}. Choose an allowed value."
            )

    def fit(self, features: Any, y: Any = None, *, feature_names: Sequence[str] | None = None) -> Self:
        """Decide what each column is; refuse infinite values and tables of which nothing is left."""
        self.check_parameters()
        table, names = as_feature_table(features, feature_names or ())
        if len(names) != table.shape[1]:
            raise DataError(
                f"feature_names must name each of the {table.shape[1]} columns; got {len(names)} names. "
                "Give one per column."
            )
        _check_different(names)
        if table.shape[0] == 0 or table.shape[1] == 0:
            raise DataError(f"features must have rows and columns; got shape {tuple(table.shape)}. Choose some rows.")
        self.feature_names_in = names
        self.is_sparse = not isinstance(table, np.ndarray | pd.DataFrame)
        self.degrees, self._where = False, self._coordinate_names()
        if isinstance(table, pd.DataFrame):
            self._columns = tuple(self._look_at(name, table[name]) for name in names)
        elif isinstance(table, np.ndarray):
            check_finite(table, names)
            self._columns = tuple(self._number(name, table[:, i]) for i, name in enumerate(names))
        else:
            check_finite(table, names)
            other = np.unique(table.indices[(table.data != 0) & (table.data != 1)])
            self._columns = tuple(
                Column("number" if is_other else "binary")
                for is_other in np.isin(np.arange(len(names)), other, assume_unique=True)
            )
        if self._where:
            self._find_degrees(np.column_stack([self._values(table, name) for name in self._where]))
        _check_different(self.columns_out)
        if not self.columns_out:
            raise DataError(
                f"features must have a column to learn from; got none ({'; '.join(self.lines())}). Add features."
            )
        return self

    def transform(self, features: Any, dtype: DTypeLike = np.float64) -> FeatureTable:
        """Bring a table into the columns of ``columns_out``.

        Parameters
        ----------
        features : ndarray, sparse array or DataFrame of shape (n_samples, n_features)
            Columns of a frame are found by name, those of an array by position; a frame may lack what was left out.
        dtype : dtype
            Number type of the result.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
            A sparse array if fitted on one; a DataFrame if there are categories.

        Raises
        ------
        DataError
            Other columns than in training, or values that are not allowed.
        """
        if not self._columns:
            raise ConfigError("column plan must be fitted before use; got none. Call fit with training rows.")
        table = self._aligned(features)
        if self.is_sparse:
            numbers: Any = numeric_matrix(table) if isinstance(table, pd.DataFrame) else table
            return sparse.csr_array(sparse.csr_array(numbers).astype(dtype))
        kinds = set(self.kinds)
        if isinstance(table, np.ndarray) and kinds <= {"place", "number", "binary"}:
            return table.astype(dtype, copy=False)
        parts: dict[str, NDArray[Any]] = {}
        for name, column in self._named():
            if column.kind in _LEFT_OUT:
                continue
            if column.kind == "category":
                parts[name] = _category(self._series(table, name), column.levels)
                continue
            if column.kind == "date":
                year, day = _dates(name, self._series(table, name))
                cells = [*([year] if column.keeps_year else []), *_cycle(day, column)]
            else:
                values = self._values(table, name)
                cells = _cycle(values, column) if column.kind == "cycle" else [values]
            for out, part in zip(_names_out(name, column), cells, strict=True):
                parts[out] = part.astype(dtype, copy=False)
        if "category" in kinds:
            return pd.DataFrame(parts)
        return np.column_stack(list(parts.values()))

    def _learned(self) -> dict[str, Any]:
        return {
            "kinds": list(self.kinds),
            "details": {str(i): asdict(what) for i, what in enumerate(self._columns) if what != Column(what.kind)},
            "where": list(self._where),
            "degrees": self.degrees,
            "is_sparse": self.is_sparse,
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        details = {int(i): what | {"levels": tuple(what["levels"])} for i, what in state["details"].items()}
        self._columns = tuple(Column(**{"kind": kind} | details.get(i, {})) for i, kind in enumerate(state["kinds"]))
        self._where = tuple(state["where"])
        self.degrees, self.is_sparse = state["degrees"] is True, state["is_sparse"] is True
        fits = len(self._columns) == len(self.feature_names_in) and set(self.kinds) <= set(get_args(ColumnKind))
        if not fits or len(self._where) not in (0, 2) or not set(self._where) <= set(self.columns_out):
            raise ModelError("columns state must have a kind for each column; got parts that differ. Save it anew.")

    # --- looking at columns -------------------------------------------------------------------------------

    def _coordinate_names(self) -> tuple[str, ...]:
        """Find the declared coordinates among the columns."""
        if self.coordinates is None:
            return ()
        if self.is_sparse:
            raise ConfigError(
                f"coordinates must be None for a sparse table; got {self.coordinates!r}. Pass a dense table."
            )
        names, count = self.feature_names_in, len(self.feature_names_in)
        found = tuple(
            names[column] if isinstance(column, int) and -count <= column < count else column
            for column in self.coordinates
        )
        if len(set(found)) != 2 or not set(found) <= set(names):
            raise ConfigError(
                f"coordinates must be two columns of the table; got {listed(self.coordinates)} of {listed(names)}. "
                "Name the two coordinates."
            )
        return tuple(str(name) for name in found)

    def _look_at(self, name: str, column: "pd.Series[Any]") -> Column:
        """Decide what a column of a frame is."""
        inferred = infer_dtype(column, skipna=True) if is_object_dtype(column.dtype) else ""
        if is_datetime64_any_dtype(column.dtype) or inferred in ("date", "datetime", "datetime64"):
            found = "dates"
        elif feature_kinds(column.to_frame()) == ("categorical",):
            found = "text"
        else:
            values = numeric_matrix(column.to_frame())
            check_finite(values, [name])
            return self._number(name, values[:, 0])
        if name in self._where:
            raise DataError(f"coordinates must be numbers; got {found} in {name!r}. Use degrees or metres.")
        return _date_column(name, column) if found == "dates" else _text_column(name, column)

    def _number(self, name: str, values: NDArray[Any]) -> Column:
        """Decide what a column of numbers is."""
        known = values[~np.isnan(values)]
        if name in self._where:
            if not len(known):
                raise DataError(f"coordinates must be known; got only missing ones in {name!r}. Name two others.")
            return Column("place")
        if not len(known):
            return Column("empty")
        low, high = float(known.min()), float(known.max())
        # Where a value is missing a column still varies: that it is missing may say something.
        if low == high and len(known) == len(values):
            return Column("constant")
        if ((known == 0) | (known == 1)).all():
            return Column("binary")
        words = _words(name)
        for pattern, least, largest, period in _CYCLES:
            if pattern.fullmatch(words) and least <= low and high <= largest:
                return _cycle_column("cycle", low, high, period)
        if _IDENTIFIER.fullmatch(words) and (known == np.round(known)).all():
            return _levels_column(pd.Series(values), is_identifier=True)
        return Column("number")

    def _find_degrees(self, values: NDArray[np.float64]) -> None:
        """Find out whether the coordinates are degrees, and put the longitude first."""
        columns = degree_columns(self._where, values)
        self.degrees = columns is not None if self.in_degrees is None else self.in_degrees
        if self.degrees:
            order = columns or (0, 1)
            check_degrees(values[:, order])
            self._where = tuple(self._where[i] for i in order)
            note = Column("place", note="degrees: near is near on the round Earth")
            self._columns = tuple(note if column.kind == "place" else column for column in self._columns)

    # --- reading tables -----------------------------------------------------------------------------------

    def _named(self) -> "zip[tuple[str, Column]]":
        return zip(self.feature_names_in, self._columns, strict=True)

    def _aligned(self, features: Any) -> FeatureTable:
        """Bring features into the columns and their order of training; a frame keeps those that are used only."""
        if isinstance(features, pd.DataFrame):
            used = [name for name, column in self._named() if column.kind not in _LEFT_OUT]
            frame = align_columns(features, used, ignore=set(self.feature_names_in) - set(used)).reset_index(drop=True)
            numbers = [name for name, column in self._named() if column.kind in ("place", "number", "binary", "cycle")]
            check_kinds(frame[numbers], ["numeric"] * len(numbers))
            check_finite(frame[numbers], numbers)
            return frame
        table, _ = as_feature_table(features)
        if table.shape[1] != len(self.feature_names_in):
            raise DataError(
                f"features must have {len(self.feature_names_in)} columns, as in training; got {table.shape[1]}. "
                "Give the same columns in the same order, or by name."
            )
        if "date" in self.kinds:
            raise DataError("features must be a DataFrame, as in training; got an array. Name the columns.")
        check_finite(table, self.feature_names_in)
        return table if self.is_sparse or isinstance(table, np.ndarray | pd.DataFrame) else table.toarray()

    def _series(self, table: FeatureTable, name: str) -> "pd.Series[Any]":
        if isinstance(table, pd.DataFrame):
            return table[name]
        return pd.Series(np.asarray(table)[:, self.feature_names_in.index(name)])

    def _values(self, table: FeatureTable, name: str) -> NDArray[Any]:
        if isinstance(table, pd.DataFrame):
            return numeric_matrix(table[[name]])[:, 0]
        return np.asarray(table)[:, self.feature_names_in.index(name)]


def _check_different(names: Sequence[str]) -> None:
    repeated = pd.Index(names)[pd.Index(names).duplicated()].unique()
    if len(repeated):
        raise DataError(f"columns must have different names; got {listed(repeated)} twice. Rename one of each.")


# --- what a column is ------------------------------------------------------------------------------------


def _text_column(name: str, column: "pd.Series[Any]") -> Column:
    """Decide what a column of text is."""
    codes, levels = text_levels(column)
    n_known = int((codes >= 0).sum())
    if not n_known:
        return Column("empty")
    if all(_ISO_DATE.fullmatch(level.strip()) for level in levels) and _parsed_dates(levels).notna().all():
        return _date_column(name, column)
    is_identifier = _IDENTIFIER.fullmatch(_words(name)) is not None
    n_words = np.mean([level.count(" ") + 1 for level in levels])
    has_many = len(levels) > max(_FEW_LEVELS, n_known / 2)
    if has_many and n_words >= _SENTENCE:
        return Column("text")
    if not is_identifier and not isinstance(column.dtype, pd.CategoricalDtype):
        check_text_cells(name, column, dates=has_many)  # each number would become a level of its own
    return _levels_column(column, is_identifier)


def _levels_column(column: "pd.Series[Any]", is_identifier: bool) -> Column:
    """Decide whether levels are a category, and which of them stand for themselves."""
    codes, levels = text_levels(column)
    counts = np.bincount(codes[codes >= 0], minlength=len(levels))
    if len(levels) == 1 and (codes >= 0).all():
        return Column("constant")
    if counts.max() == 1 and (is_identifier or len(levels) > _FEW_LEVELS):
        return Column("identifier")
    if len(levels) <= _FEW_LEVELS:
        return Column("category", f"{len(levels)} levels")
    frequent = sorted(
        (i for i, count in enumerate(counts) if count >= _FEW_ROWS), key=lambda i: (-counts[i], levels[i])
    )
    kept = sorted(levels[i] for i in frequent[:_MOST_LEVELS])
    if not kept:
        return Column("identifier", f"none of {len(levels)} values in {_FEW_ROWS} rows")
    note = f"{len(kept)} levels, {len(levels) - len(kept)} rarer ones as one"
    return Column("category", note, levels=tuple(kept))


def _date_column(name: str, column: "pd.Series[Any]") -> Column:
    """Decide what of dates varies."""
    year, day = _dates(name, column)
    known = ~np.isnan(day)
    if not known.any():
        return Column("empty")
    years, days = np.unique(year[known]), day[known]
    if known.all() and len(years) == 1 and days.min() == days.max():
        return Column("constant")
    cycle = _cycle_column("date", float(days.min()), float(days.max()), _YEAR)
    parts = [*(["year"] if len(years) > 1 else []), "day of year as a cycle"]
    note = ", ".join(parts) + (" and as a number" if cycle.keeps_number else "")
    return Column("date", note, cycle.period, cycle.keeps_number, keeps_year=len(years) > 1)


def _cycle_column(kind: ColumnKind, low: float, high: float, period: float) -> Column:
    """Keep the number beside the cycle where values reach over a part of it."""
    keeps_number = high - low < _FULL_CYCLE * period
    return Column(kind, f"of {period:g}{', and as a number' if keeps_number else ''}", period, keeps_number)


def _words(name: str) -> str:
    """Write a name in small letters with one underscore between words: ``SiteID`` and ``site-id`` are ``site_id``."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[^a-z0-9]+", "_", apart.lower()).strip("_")


# --- what comes out --------------------------------------------------------------------------------------


def _names_out(name: str, column: Column) -> list[str]:
    if column.kind in _LEFT_OUT:
        return []
    if column.kind not in ("cycle", "date"):
        return [name]
    number = f"{name} (day of year)" if column.kind == "date" else name
    return [
        *([f"{name} (year)"] if column.keeps_year else []),
        *([number] if column.keeps_number else []),
        f"{name} (sin)",
        f"{name} (cos)",
    ]


def _cycle(values: NDArray[Any], column: Column) -> list[NDArray[Any]]:
    angle = 2 * np.pi * values / column.period
    return [*([values] if column.keeps_number else []), np.sin(angle), np.cos(angle)]


def _category(column: "pd.Series[Any]", levels: tuple[str, ...]) -> NDArray[np.object_]:
    """Levels as text, None where missing; others than those of a grouped category as one."""
    codes, found = text_levels(column)
    kept = set(levels)
    names = [level if not kept or level in kept else OTHER for level in found]
    return np.array([*names, None], dtype=object)[codes]  # code -1, missing, takes the last


def _dates(name: str, column: "pd.Series[Any]") -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Year and day of the year of dates or text; NaN where missing."""
    codes, levels = text_levels(column.dt.normalize() if is_datetime64_any_dtype(column.dtype) else column)
    dates = _parsed_dates(levels)
    wrong = np.flatnonzero(dates.isna())
    if wrong.size:
        rows = np.flatnonzero(np.isin(codes, wrong))
        raise DataError(
            f"column {name!r} must hold dates such as 2009-05-31, as in training; got "
            f"{listed(levels[i] for i in wrong)} (rows {listed(rows)}). Correct these cells, or leave them empty."
        )
    year, day = (np.array([*part, np.nan], dtype=np.float64)[codes] for part in (dates.year, dates.day_of_year))
    return year, day


def _parsed_dates(levels: Sequence[str]) -> pd.DatetimeIndex:
    """Read the dates that texts begin with; NaT where there is none."""
    return pd.DatetimeIndex(
        pd.to_datetime(
            pd.Index([level.strip()[:10] for level in levels], dtype="str"), format="%Y-%m-%d", errors="coerce"
        )
    )


def _line(kind: ColumnKind, columns: Sequence[tuple[str, str]]) -> str:
    """Say what columns are: how many, what, their names, and what is to be noted of them."""
    one, several = _WORDS[kind]
    shown, notes = columns[:3] if len(columns) > 4 else columns, {note for _, note in columns}
    if len(notes) == 1:
        names = ", ".join(name for name, _ in shown)
        after = f" ({note})" if (note := notes.pop()) else ""
    else:
        names, after = ", ".join(f"{name} ({note})" if note else name for name, note in shown), ""
    more = f", +{len(columns) - len(shown)} more" if len(shown) < len(columns) else ""
    return f"{len(columns)} {one if len(columns) == 1 else several}: {names}{more}{after}"
