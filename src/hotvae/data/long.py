"""Long tables: one row a record of a species at a site, turned into one row a site and one column a species.

A record says that a species was there, unless its count is 0 or says that it was not. What a site has no record of was
absent, if the site was visited: all sites of a table of visits were, or, without one, all sites that have any record.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from hotvae.data.dataset import close_names, text_levels
from hotvae.errors import ConfigError, DataError, listed, option

AUTO = "auto"
"""What stands for names of columns that are to be guessed."""

# Names that people give to these columns, the likeliest first; without case, spaces and marks.
_SITES = (
    "site siteid sitename sitecode plot plotid plotcode plotname station stationid quadrat quadratid transect "
    "transectid eventid event checklistid checklist samplingeventidentifier surveyid survey visitid visit sampleid "
    "sample locationid location localityid locality cell cellid grid gridid releve releveid"
)
_SPECIES = (
    "species speciesname scientificname taxon taxonname latinname speciescode taxonid speciesid label commonname "
    "vernacularname name"
)
_COUNTS = (
    "count counts observationcount individualcount abundance abund n number individuals howmany organismquantity "
    "quantity cover presence present occurrence pa detected detection seen value occurrencestatus"
)

_THERE = {"x": 1.0, "present": 1.0, "presence": 1.0, "yes": 1.0, "y": 1.0, "true": 1.0, "detected": 1.0}
_NOT_THERE = {"absent": 0.0, "absence": 0.0, "no": 0.0, "n": 0.0, "false": 0.0, "not detected": 0.0}
WORDS = _THERE | _NOT_THERE
"""Words that stand for a count, in small letters."""


@dataclass(frozen=True)
class LongColumns:
    """Which columns of a long table say what.

    Attributes
    ----------
    site, species : str
        Where, and what.
    count : str or None
        How many, or whether; None where a record as such says that it was there.
    guessed : bool
        Whether someone should look at them.
    """

    site: str
    species: str
    count: str | None = None
    guessed: bool = False

    def __str__(self) -> str:
        count = "every record is a presence" if self.count is None else f"count {self.count!r}"
        return f"site {self.site!r}, species {self.species!r}, {count}{' (guessed)' if self.guessed else ''}"


def long_columns(columns: Sequence[str], long: str | Sequence[str]) -> LongColumns:
    """Find the columns of a long table.

    Parameters
    ----------
    columns : sequence of str
        All columns of the table.
    long : str or sequence of str
        Names of site, species and, where there is one, count, such as ``"site,species,count"``; or ``"auto"`` to guess.

    Returns
    -------
    LongColumns

    Raises
    ------
    ConfigError, DataError
        Too few names, unknown names, or none that can be guessed.

    Examples
    --------
    >>> str(long_columns(["plot_id", "Scientific name", "n", "date"], "auto"))
    "site 'plot_id', species 'Scientific name', count 'n' (guessed)"
    """
    if long == AUTO:
        found = guess_long(columns)
        if found is None:
            raise DataError(
                f"long table must have a column of sites and one of species; got {listed(columns, 20)}. "
                f"Name them: {option('long', 'SITE,SPECIES,COUNT')}."
            )
        return found
    names = [name.strip() for name in long.split(",")] if isinstance(long, str) else [str(name) for name in long]
    if len(names) not in (2, 3) or not all(names) or len(set(names)) < len(names):
        raise ConfigError(
            f"long must name site, species and perhaps count; got {listed(names)}. Write --long site,species,count."
        )
    missing = [name for name in names if name not in columns]
    if missing:
        raise DataError(
            f"long table must have the column(s) {listed(missing)}; got none of that name"
            f"{close_names(missing, columns)} (columns: {listed(columns, 20)}). Check the spelling."
        )
    return LongColumns(names[0], names[1], names[2] if len(names) == 3 else None)


def guess_long(columns: Sequence[str]) -> LongColumns | None:
    """Guess the columns of a long table by their names; None where there are none of sites or of species."""
    bare = {re.sub(r"[^a-z0-9]", "", column.lower()): column for column in reversed(columns)}

    def first(names: Iterable[str]) -> str | None:
        return next((bare[name] for name in names if name in bare), None)

    site, species = first(_SITES.split()), first(_SPECIES.split())
    if site is None or species is None or site == species:
        return None
    count = first(name for name in _COUNTS.split() if bare.get(name) not in (site, species))
    return LongColumns(site, species, count, guessed=True)


def visited_sites(records: pd.DataFrame, columns: LongColumns) -> tuple[pd.DataFrame, list[str]]:
    """Make a table of sites out of the records: one row a site that has any.

    Parameters
    ----------
    records : DataFrame
        The long table.
    columns : LongColumns
        Its columns.

    Returns
    -------
    sites : DataFrame
        The column of sites, and all others that have one value a site.
    varying : list of str
        Columns that were left out, as they differ between records of a site.
    """
    sites = records.groupby(columns.site, sort=False, dropna=False)
    others = [name for name in records.columns if name not in (columns.site, columns.species, columns.count)]
    n_values = sites[others].nunique(dropna=False) if others else pd.DataFrame(index=sites.size().index)
    varying = [name for name in others if (n_values[name] > 1).any()]
    kept = [columns.site, *(name for name in others if name not in varying)]
    return records[kept].drop_duplicates(columns.site).reset_index(drop=True), varying


def presences(
    records: pd.DataFrame, columns: LongColumns, sites: "pd.Index[Any]", *, strict: bool = True
) -> tuple[pd.DataFrame, int]:
    """Say of every site and species whether it was there.

    Parameters
    ----------
    records : DataFrame
        The long table.
    columns : LongColumns
        Its columns.
    sites : Index
        Ids of all sites that were visited, as text, unique.
    strict : bool
        Refuse records of other sites; otherwise they are left out.

    Returns
    -------
    labels : DataFrame
        A row a site, in the order of `sites`, which are its index; a column a species, by name: 0 and 1.
    n_left_out : int
        Records of sites that are not among `sites`.

    Raises
    ------
    DataError
        Records without a site or species, of unknown sites, or with counts that are none.
    """
    site = _ids(records[columns.site], columns.site)
    species = _ids(records[columns.species], columns.species)
    is_there = _is_there(records[columns.count]) if columns.count is not None else np.ones(len(records), dtype=bool)
    row = sites.get_indexer(site)
    strange = row < 0
    if strange.any() and strict:
        unknown = site[strange].unique()
        raise DataError(
            f"sites of records must be in the table of visited sites; got {len(unknown)} that are not, such as "
            f"{listed(unknown)}{close_names([str(name) for name in unknown[:5]], [str(name) for name in sites])} "
            f"(column {columns.site!r}). Correct them, or leave out their records: "
            f"{option('join', 'inner')}."
        )
    kept = ~strange
    names = pd.Index(sorted(set(species[kept])))
    labels = np.zeros((len(sites), len(names)), dtype=np.int8)
    column = names.get_indexer(species)
    found = kept & is_there
    labels[row[found], column[found]] = 1  # a species that is recorded twice is there if any record says so
    return pd.DataFrame(labels, index=sites, columns=names), int(strange.sum())


def _ids(column: "pd.Series[Any]", name: str) -> "pd.Index[Any]":
    """Names as text without blanks around them, so that 7 in one file and "7" in another are the same."""
    codes, levels = text_levels(column)
    missing = np.flatnonzero(codes < 0)
    blank = [i for i, level in enumerate(levels) if not level.strip()]
    if blank:
        missing = np.flatnonzero((codes < 0) | np.isin(codes, blank))
    if missing.size:
        raise DataError(
            f"every record must have a site and a species; got missing ones in column {name!r} "
            f"(rows {listed(missing)}). Fill them in, or remove these rows."
        )
    found: pd.Index[Any] = pd.Index(np.array([level.strip() for level in levels], dtype=object)[codes])
    return found


def _is_there(column: "pd.Series[Any]") -> NDArray[np.bool_]:
    """Whether a count says that it was there; X, or nothing, is there without a number."""
    name = str(column.name)
    if is_bool_dtype(column) or is_numeric_dtype(column):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        texts = column
    else:
        codes, levels = text_levels(column)
        numbers = np.array([count_of(level) for level in levels] + [np.nan])
        wrong = [i for i in range(len(levels)) if np.isnan(numbers[i]) and levels[i].strip()]
        if wrong:
            raise DataError(
                f"counts must be numbers, X, present or absent; got {listed(levels[i] for i in wrong)} in column "
                f"{name!r} (rows {listed(np.flatnonzero(np.isin(codes, wrong)))}). Correct these cells."
            )
        values, texts = numbers[codes], column
    negative = np.flatnonzero(values < 0)
    if negative.size:
        raise DataError(
            f"counts must be 0 or more; got {texts.iloc[negative[0]]} in column {name!r} (rows {listed(negative)}). "
            "Correct these cells."
        )
    return np.asarray(np.isnan(values) | (values > 0))


def count_of(cell: str) -> float:
    """Read a count, or a word that stands for one; NaN where it is neither.

    Examples
    --------
    >>> [count_of(cell) for cell in ("3", "X", "absent", "many")]
    [3.0, 1.0, 0.0, nan]
    """
    try:
        return float(cell)
    except ValueError:
        return WORDS.get(cell.strip().lower(), np.nan)
