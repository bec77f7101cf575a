"""Rows that belong together: parts of a gradient, or groups of one's own, over which an association is averaged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from hotvae.config import require_count
from hotvae.errors import DataError, listed
from hotvae.explain.conditional import BoolArray, IntArray

ALL_ROWS = "all rows"
"""Name of the only group when none are given."""

MIN_GROUP_ROWS = 5
"""Fewest rows of a group; the mean of fewer says more about them than about the group."""

ENOUGH_GROUP_ROWS = 20
"""So many rows of every group are used, if it has them, whatever ``max_rows`` leaves of it."""

_PICK_SEED = 3


def gradient_groups(values: npt.ArrayLike, n_groups: int = 5, *, name: str = "") -> pd.Series[Any]:
    """Divide rows into groups of equal size along a feature, low to high.

    Parameters
    ----------
    values : array-like of shape (n_samples,)
        The feature; rows without a number belong to no group.
    n_groups : int
        Groups; values that are tied stay together, so there may be fewer.
    name : str
        Of the feature, for the groups' names.

    Returns
    -------
    Series of category
        Ordered; names such as ``"rainfall 0.1 to 0.4"``.

    Raises
    ------
    DataError
        Fewer than two groups can be told apart.
    """
    require_count("n_groups", n_groups, 2)
    column = pd.Series(np.asarray(values, dtype=np.float64))
    column[~np.isfinite(column)] = np.nan
    edges: Any = (
        np.unique(np.nanquantile(column, np.linspace(0, 1, n_groups + 1)[1:-1])) if column.notna().any() else []
    )
    # Upper edges belong to the group below, so that a feature of 0 and 1 falls into two.
    codes = np.searchsorted(edges, column.to_numpy(), side="left")
    known = column.notna().to_numpy()
    present = np.unique(codes[known])
    if len(present) < 2:
        what = f"{name!r}" if name else "the feature"
        raise DataError(f"values must differ enough for two groups; got one group of {what}. Choose another feature.")
    titles = {}
    for code in present:
        inside = column[known & (codes == code)]
        low, high = f"{inside.min():.4g}", f"{inside.max():.4g}"
        titles[code] = " ".join(filter(None, [name, low if low == high else f"{low} to {high}"]))
    if len(set(titles.values())) < len(titles):  # too close for four digits
        titles = {code: f"{title} ({number + 1})" for number, (code, title) in enumerate(titles.items())}
    named = pd.Categorical(
        [titles[code] if is_known else None for code, is_known in zip(codes, known, strict=True)],
        categories=list(titles.values()),
        ordered=True,
    )
    return pd.Series(named, name=name or None)


def group_masks(groups: Mapping[str, npt.ArrayLike] | npt.ArrayLike | None, n_rows: int) -> dict[str, BoolArray]:
    """Turn groups, however they were given, into one mask of rows each.

    Parameters
    ----------
    groups : array-like of names, mapping of name to mask, or None
        As in :func:`associations`.
    n_rows : int
        Rows there are.

    Raises
    ------
    DataError
        Groups that do not fit the rows, or have too few.
    """
    if groups is None:
        masks = {ALL_ROWS: np.ones(n_rows, dtype=bool)}
    elif isinstance(groups, Mapping):
        masks = {str(name): np.asarray(mask) for name, mask in groups.items()}
        wrong = [name for name, mask in masks.items() if mask.shape != (n_rows,) or mask.dtype != np.bool_]
        if wrong:
            raise DataError(f"groups must be masks of {n_rows} rows, True or False; got others for {listed(wrong)}.")
    else:
        column = groups if isinstance(groups, pd.Series) else pd.Series(np.asarray(groups, dtype=object))
        if len(column) != n_rows:
            raise DataError(f"groups must name one group per row, {n_rows}; got {len(column)}.")
        if isinstance(column.dtype, pd.CategoricalDtype):
            found: list[Any] = [name for name in column.cat.categories if (column == name).any()]
        else:
            found = list(dict.fromkeys(column[column.notna()]))
        masks = {str(name): (column == name).to_numpy(dtype=bool) for name in found}
    small = [name for name, mask in masks.items() if mask.sum() < MIN_GROUP_ROWS]
    if small or not masks:
        raise DataError(
            f"groups must have at least {MIN_GROUP_ROWS} rows each; got fewer in {listed(small) or 'no group at all'}. "
            "Use fewer groups, or more rows."
        )
    return masks


class GroupRows(NamedTuple):
    """Rows that are used of a table."""

    masks: dict[str, BoolArray]  # all rows of each group
    used: IntArray  # numbers of the rows that are used
    places: dict[str, IntArray]  # where the rows of each group stand among them

    @property
    def counts(self) -> dict[str, int]:
        """How many rows are used of each group."""
        return {name: len(places) for name, places in self.places.items()}


def rows_of_groups(
    groups: Mapping[str, npt.ArrayLike] | npt.ArrayLike | None, n_rows: int, max_rows: int | None, seed: int
) -> GroupRows:
    """Choose the rows that are used, of groups as :func:`group_masks` takes them."""
    masks = group_masks(groups, n_rows)
    picked = pick_rows(masks, max_rows, seed)
    used = np.unique(np.concatenate(list(picked.values())))
    return GroupRows(masks, used, {name: np.searchsorted(used, rows) for name, rows in picked.items()})


def pick_rows(masks: Mapping[str, BoolArray], max_rows: int | None, seed: int) -> dict[str, IntArray]:
    """Rows of each group that are used: one draw for all, topped up where a group is short."""
    n_rows = len(next(iter(masks.values())))
    if max_rows is None or max_rows >= n_rows:
        return {name: np.flatnonzero(mask) for name, mask in masks.items()}
    require_count("max_rows", max_rows, MIN_GROUP_ROWS)
    order = np.random.default_rng([seed, _PICK_SEED]).permutation(n_rows)
    picked = {}
    for name, mask in masks.items():
        ranks = np.flatnonzero(mask[order])
        enough = max(int((ranks < max_rows).sum()), min(ENOUGH_GROUP_ROWS, max_rows))
        picked[name] = np.sort(order[ranks[:enough]])
    return picked
