"""Which rows are held out together, so that what chooses a model looks like what the model is for."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold

from hotvae.config import require_choice
from hotvae.data.splits import MultilabelStratifiedKFold, SpatialBlockKFold, spatial_blocks
from hotvae.errors import ConfigError

Held = Literal["auto", "rows", "blocks", "groups"]

# Blocks of the map: about so many for each fold, so that no fold is one corner of it.
_BLOCKS_PER_FOLD = 10
# Blocks that errors are counted by: many enough for a promise about new ones, large enough to be unlike each other.
_BLOCKS_OF_ERRORS = 150


class Folds(NamedTuple):
    """The fold of each row, and how they were dealt.

    Attributes
    ----------
    of_row : ndarray of int of shape (n_rows,)
        0 to ``n_folds - 1``.
    n_folds : int
        How many there are.
    how : str
        In words, such as ``"5 folds of whole blocks of the map"``.
    single_rows : bool
        Whether rows were dealt one by one.
    blocks : ndarray of int of shape (n_rows,)
        What errors are counted by, so that many rows of one place do not speak for the whole map: about 150
        blocks of the map where there are places, else groups, else single rows.
    """

    of_row: NDArray[np.intp]
    n_folds: int
    how: str
    single_rows: bool
    blocks: NDArray[np.intp]

    def parts(self, fold: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the rows to learn from, and those held out."""
        return np.flatnonzero(self.of_row != fold), np.flatnonzero(self.of_row == fold)


def deal_folds(
    labels: NDArray[Any],
    n_folds: int,
    seed: int,
    *,
    held: Held = "auto",
    places: NDArray[np.float64] | None = None,
    degrees: bool = False,
    groups: NDArray[Any] | None = None,
) -> Folds:
    """Deal rows into folds.

    Parameters
    ----------
    labels : ndarray of shape (n_rows, n_labels)
        0, 1 or NaN.
    n_folds : int
        How many are wanted; fewer come back where there are fewer groups or blocks.
    seed : int
        Decides who goes where.
    held : {"auto", "rows", "blocks", "groups"}
        What stays together. ``"auto"`` holds out whole groups where there are some, else whole blocks of the map where
        there are places, else single rows, every label equally frequent in each fold.
    places : ndarray of shape (n_rows, 2), optional
        Where the rows are.
    degrees : bool
        Whether places are longitude and latitude.
    groups : ndarray of shape (n_rows,), optional
        Rows that belong together.

    Returns
    -------
    Folds

    Raises
    ------
    ConfigError
        Blocks without places, or groups without groups.

    Examples
    --------
    >>> labels = np.tile([[1, 0], [0, 1]], (5, 1))
    >>> folds = deal_folds(labels, 2, seed=0, groups=np.repeat(["a", "b", "c", "d", "e"], 2))
    >>> folds.how, sorted(np.bincount(folds.of_row).tolist())
    ('2 folds of whole groups', [4, 6])
    """
    require_choice("hold_out", held, get_args(Held))
    if held == "auto":
        held = "groups" if groups is not None else "blocks" if places is not None else "rows"
    if held == "groups":
        if groups is None:
            raise ConfigError(
                "rows must have groups to be held out by them; got none. Declare the column of the groups."
            )
        n_folds = min(n_folds, len(np.unique(groups)))
    if held == "blocks":
        if places is None:
            raise ConfigError("rows must have coordinates to be held out by blocks; got none. Declare the two columns.")
        n_blocks = max(25, _BLOCKS_PER_FOLD * n_folds)
        n_folds = min(n_folds, len(np.unique(spatial_blocks(places, n_blocks=n_blocks, degrees=degrees))))
    if n_folds < 2:
        held, n_folds = "rows", 2  # all in one group or block: single rows are all there is to hold out
    if held == "groups":
        splitter: Any = GroupKFold(n_folds, shuffle=True, random_state=seed)
        together: Any = groups
    elif held == "blocks":
        splitter, together = SpatialBlockKFold(n_folds, n_blocks=n_blocks, degrees=degrees, random_state=seed), places
    else:
        splitter, together = MultilabelStratifiedKFold(n_folds, random_state=seed), None
    of_row = np.empty(len(labels), dtype=np.intp)
    for fold, (_, out) in enumerate(splitter.split(np.zeros((len(labels), 1)), labels, groups=together)):
        of_row[out] = fold
    blocks = np.arange(len(labels))
    if places is not None:
        blocks = spatial_blocks(places, n_blocks=_BLOCKS_OF_ERRORS, degrees=degrees)
    elif groups is not None:
        blocks = np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
    what = {"groups": "whole groups", "blocks": "whole blocks of the map", "rows": "single rows"}[held]
    return Folds(of_row, n_folds, f"{n_folds} folds of {what}", held == "rows", blocks)
