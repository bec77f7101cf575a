"""Can a prediction be believed here? How far a row is from training, and which calls on a label are safe.

Two answers, both learned while a model is fitted, from rows that its members were not shown:

* :class:`Applicability`: a row is as strange as it is far from the nearest training row, in columns weighted by how
  much they move the predictions. Beyond the distances that cross-validation has seen, its errors say nothing
  (Meyer and Pebesma 2021, https://doi.org/10.1111/2041-210X.13650).
* :class:`PresenceSets`: for each label present, absent or cannot tell, such that the truth is among the calls in at
  least so many of a hundred rows of a new block, of those with the label and of those without it.

The mathematics is numpy alone; nothing here knows torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import KDTree
from scipy.spatial.distance import pdist
from sklearn.ensemble import ExtraTreesRegressor

from hotvae.errors import ConfigError, DataError, ModelError, hushed, listed
from hotvae.features.scaling import FeatureScaler

Floats = NDArray[np.float64]

ABSENT, PRESENT, CANNOT_TELL = 0, 1, 2
"""What :meth:`PresenceSets.calls` returns."""

LEVELS = (0.8, 0.9, 0.95)
"""Shares of right calls that thresholds are kept for."""


def check_level(level: float) -> None:
    """Refuse a share of right calls that no thresholds are kept for."""
    if level not in LEVELS:
        raise ConfigError(f"level must be one of {listed(LEVELS)}; got {level}. Choose one of them.")


# What a model keeps of its training rows: enough that the nearest of them is near, little enough to travel with it.
_MOST_ROWS, _MOST_CELLS = 10_000, 1_000_000
# Pairs whose mean distance is the unit of dissimilarity: those of so many rows.
_ROWS_IN_PAIRS = 2_000
# Rows in a leaf of the tree that finds the nearest: with 10, scipy's own, a search takes a quarter longer.
_LEAF = 24
# Distances are squared: what is further than this counts as just as far.
_FAR = 1e30
# The surrogate that says which columns move the predictions.
_SURROGATE_ROWS, _SURROGATE_TREES, _SURROGATE_OUTPUTS = 2_000, 25, 16


class TrustRows(NamedTuple):
    """How far rows are from training.

    Attributes
    ----------
    dissimilarity : ndarray of shape (n_rows,)
        Distance to the nearest training row; 1 is the mean distance between training rows.
    inside : ndarray of bool of shape (n_rows,)
        Whether that is within what cross-validation has seen.
    n_beyond : ndarray of int of shape (n_rows,)
        Columns whose value is beyond the range of training.
    """

    dissimilarity: Floats
    inside: NDArray[np.bool_]
    n_beyond: NDArray[np.int64]


# The area of applicability -----------------------------------------------------------------------------------


def column_importance(table: ArrayLike, predictions: ArrayLike, seed: int) -> Floats:
    """Say how much each column moves predictions.

    Parameters
    ----------
    table : array of shape (n_rows, n_columns)
        Scaled columns.
    predictions : array of shape (n_rows, n_labels)
        Logits of these rows, by models that were not shown them.
    seed : int
        Decides the rows and the trees.

    Returns
    -------
    ndarray of shape (n_columns,)
        Shares that sum to 1; equal ones where nothing moves the predictions.

    Notes
    -----
    A small forest of extremely randomised trees learns the predictions from the columns; a column's importance is the
    share of their variance that its splits explain. Predictions have no noise of their own, so a column that the model
    does not use gets next to nothing. Of many labels, 16 random mixtures are learned, and of many rows 2,000.

    Examples
    --------
    >>> columns = np.random.default_rng(0).normal(size=(300, 2))
    >>> column_importance(columns, columns[:, :1] * [[3.0, -2.0]], seed=0).round(2)
    array([1., 0.])
    """
    columns, logits = np.asarray(table, dtype=np.float64), np.asarray(predictions, dtype=np.float64)
    random = np.random.default_rng([seed, 11])
    rows = _some_rows(len(columns), _SURROGATE_ROWS, random)
    target = logits[rows] - logits[rows].mean(axis=0)
    if target.shape[1] > _SURROGATE_OUTPUTS:
        target = target @ random.normal(size=(target.shape[1], _SURROGATE_OUTPUTS))
    n_columns = columns.shape[1]
    if not target.any():
        return np.full(n_columns, 1 / n_columns)
    forest = ExtraTreesRegressor(_SURROGATE_TREES, min_samples_leaf=5, random_state=seed % 2**31)
    found: Floats = forest.fit(columns[rows], target[:, 0] if target.shape[1] == 1 else target).feature_importances_
    return found if found.sum() > 0 else np.full(n_columns, 1 / n_columns)


def upper_whisker(values: ArrayLike) -> float:
    """Return the end of a box plot's upper whisker: the largest value that is not above Q3 + 1.5 (Q3 - Q1).

    Examples
    --------
    >>> upper_whisker([1, 2, 3, 4, 5, 100])
    5.0
    """
    found = np.asarray(values, dtype=np.float64)
    low, high = np.quantile(found, [0.25, 0.75])
    return float(found[found <= high + 1.5 * (high - low)].max())


def nearest_in_other_folds(rows: ArrayLike, folds: ArrayLike) -> Floats:
    """Distance of each row to the nearest one of another fold.

    Parameters
    ----------
    rows : array of shape (n_rows, n_columns)
        Places in the space of the columns.
    folds : array of shape (n_rows,)
        Fold of each row; there must be two or more.

    Returns
    -------
    ndarray of shape (n_rows,)

    Examples
    --------
    >>> nearest_in_other_folds([[0.0], [1.0], [5.0]], [0, 0, 1])
    array([5., 4., 4.])
    """
    places, numbers = np.asarray(rows, dtype=np.float64), np.asarray(folds)
    found = np.empty(len(places))
    for fold in np.unique(numbers):
        out = numbers == fold
        found[out] = KDTree(places[~out]).query(places[out])[0]
    return found


class Applicability:
    r"""Where a model may be applied: near enough to the rows it has learned from.

    The dissimilarity of a row is its distance to the nearest training row, divided by the mean distance between
    training rows. Columns are standardised and weighted by what they move (:func:`column_importance`). The threshold
    is the upper whisker of the same measure for training rows, neighbours taken from other folds: as far as
    cross-validation has looked.

    Parameters
    ----------
    scaler : FeatureScaler
        Standardises the planned table.
    weights : ndarray of shape (n_columns,)
        Of the scaled columns.
    rows : ndarray of shape (n_kept, n_columns)
        Training rows, scaled and weighted; at most 10,000 of them, and a million cells.
    mean_distance, threshold : float
        See above.
    low, high : ndarray of shape (n_columns,)
        Least and largest scaled value of all training rows.
    """

    def __init__(
        self,
        scaler: FeatureScaler,
        weights: Floats,
        rows: NDArray[np.float32],
        mean_distance: float,
        threshold: float,
        low: Floats,
        high: Floats,
    ) -> None:
        self.scaler, self.weights, self.rows = scaler, weights, rows
        self.mean_distance, self.threshold, self.low, self.high = mean_distance, threshold, low, high
        self._tree: KDTree | None = None

    @classmethod
    def learn(cls, table: Any, predictions: ArrayLike, folds: ArrayLike, seed: int, names: Any = None) -> Applicability:
        """Learn from training rows.

        Parameters
        ----------
        table : ndarray or DataFrame of shape (n_rows, n_columns)
            Training rows, not scaled.
        predictions : array of shape (n_rows, n_labels)
            Their logits, by models that were not shown them.
        folds : array of shape (n_rows,)
            Fold in which each row was held out.
        seed : int
            Decides which rows are kept.
        names : sequence of str, optional
            Names of the columns of an array.
        """
        scaler = FeatureScaler(scaling="standard")
        with hushed():  # the model's own scalers have said it
            scaler.fit(table, feature_names=names)
        scaled = _scaled(scaler, table)
        weights = column_importance(scaled, predictions, seed)
        random = np.random.default_rng([seed, 12])
        kept = _some_rows(len(scaled), min(_MOST_ROWS, max(2, _MOST_CELLS // scaled.shape[1])), random)
        # As the model's file will have them: what is computed now and after loading is the same to the last bit.
        rows = (scaled[kept] * weights).astype(np.float32)
        pairs = _some_rows(len(rows), _ROWS_IN_PAIRS, random)
        mean_distance = float(pdist(rows[pairs].astype(np.float64)).mean())
        numbers = np.asarray(folds)[kept]
        unit = mean_distance if mean_distance > 0 else 1.0
        threshold = upper_whisker(nearest_in_other_folds(rows, numbers) / unit) if len(np.unique(numbers)) > 1 else 0.0
        return cls(scaler, weights, rows, unit, threshold, scaled.min(axis=0), scaled.max(axis=0))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the scaled columns."""
        return self.scaler.feature_names_out

    def judge(self, table: Any) -> TrustRows:
        """Say how far rows are from training.

        Parameters
        ----------
        table : ndarray or DataFrame
            Columns as in training, not scaled.

        Returns
        -------
        TrustRows
        """
        scaled = _scaled(self.scaler, table)
        if not len(scaled):
            return TrustRows(np.zeros(0), np.zeros(0, dtype=bool), np.zeros(0, dtype=np.int64))
        if self._tree is None:
            self._tree = KDTree(self.rows.astype(np.float64), leafsize=_LEAF)
        # What is so far that numbers end is very far.
        with np.errstate(over="ignore"):
            places = np.clip(scaled * self.weights, -_FAR, _FAR).astype(np.float32).astype(np.float64)
        found = np.asarray(self._tree.query(places)[0]) / self.mean_distance
        return TrustRows(found, found <= self.threshold, self._beyond(scaled).sum(axis=1))

    def columns_beyond(self, table: Any) -> NDArray[np.bool_]:
        """Say which columns (see ``names``) have values beyond the range of training, for each row."""
        return self._beyond(_scaled(self.scaler, table))

    def columns_far(self, table: Any) -> NDArray[np.bool_]:
        """Say which columns have values that are far out: beyond training by more than five times its range."""
        scaled = _scaled(self.scaler, table)
        reach = 5 * np.maximum(self.high - self.low, 1.0)
        far: NDArray[np.bool_] = (scaled < self.low - reach) | (scaled > self.high + reach)
        return far

    def _beyond(self, scaled: Floats) -> NDArray[np.bool_]:
        slack = 1e-9  # the way through the scaler and back rounds
        beyond: NDArray[np.bool_] = (scaled < self.low - slack) | (scaled > self.high + slack)
        return beyond

    def notes(self) -> dict[str, Any]:
        """Return what :meth:`from_parts` needs beside the arrays; JSON-able."""
        return {
            "scaler": self.scaler.state(),
            "mean_distance": self.mean_distance,
            "threshold": self.threshold,
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was learned, by name."""
        return {"weights": self.weights, "rows": self.rows, "low": self.low, "high": self.high}

    @classmethod
    def from_parts(cls, notes: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Applicability:
        """Take back what :meth:`notes` and :meth:`arrays` returned.

        Raises
        ------
        ModelError
            Parts that are absent or do not fit together.
        """
        try:
            scaler = FeatureScaler.from_state(notes["scaler"])
            weights, rows, low, high = (arrays[name] for name in ("weights", "rows", "low", "high"))
            numbers = float(notes["mean_distance"]), float(notes["threshold"])
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"area of applicability must be complete; got {error!r}. Save the model anew.") from error
        width = scaler.n_features_out
        if rows.ndim != 2 or {rows.shape[-1:], weights.shape, low.shape, high.shape} != {(width,)}:
            raise ModelError(
                f"area of applicability must have {width} columns; got rows of shape {rows.shape} and {weights.size} "
                "weights. Save the model anew."
            )
        return cls(scaler, weights, rows, *numbers, low, high)


# Sets of calls -----------------------------------------------------------------------------------------------


def block_quantile(scores: ArrayLike, blocks: ArrayLike, level: float) -> float:
    r"""Return a bound that the score of a row from a new block stays within, in a share ``level`` of all blocks.

    Parameters
    ----------
    scores : array of shape (n_rows,)
        Scores of rows held out.
    blocks : array of shape (n_rows,)
        Block of each row; rows of a block may be alike, blocks are drawn alike.
    level : float
        Share between 0 and 1.

    Returns
    -------
    float
        Infinity where there are too few blocks to say.

    Notes
    -----
    Hierarchical conformal prediction: with K blocks, each row of a block of n rows weighs 1 / ((K + 1) n), and infinity
    1 / (K + 1); the bound is the smallest score at which the weights reach ``level``. If every row is a block of its
    own this is the usual conformal quantile. The promise is exact for a random row of a random new block, whatever the
    scores are.

    Examples
    --------
    >>> block_quantile([0.1, 0.2, 0.3, 0.4], [0, 1, 2, 3], 0.6)
    0.3
    >>> block_quantile([0.1, 0.2], [0, 1], 0.9)
    inf
    """
    values, numbers = np.asarray(scores, dtype=np.float64), np.asarray(blocks)
    if not len(values):
        return float("inf")
    _, which, sizes = np.unique(numbers, return_inverse=True, return_counts=True)
    order = np.argsort(values, kind="stable")
    reached = np.cumsum((1 / ((len(sizes) + 1) * sizes[which]))[order])
    place = int(np.searchsorted(reached, level - 1e-9))  # sums of thirds are not quite whole
    return float(values[order[place]]) if place < len(values) else float("inf")


@dataclass(frozen=True, eq=False)
class PresenceSets:
    """For each label the probabilities at which it can be called absent, present, or neither safely.

    Attributes
    ----------
    absent_up_to : ndarray of shape (n_levels, n_labels)
        Absence is among the calls up to this probability.
    present_from : ndarray of shape (n_levels, n_labels)
        Presence is among the calls from this probability on.
    n_blocks : ndarray of shape (2, n_labels)
        Blocks without and with the label that the numbers were learned from.

    Notes
    -----
    Class-conditional (Mondrian): the promise holds for rows with the label, and for rows without it, one by one. A
    promise for all rows together would be kept for a rare species by calling it absent everywhere.
    """

    absent_up_to: Floats
    present_from: Floats
    n_blocks: NDArray[np.int64]

    @classmethod
    def learn(cls, probs: ArrayLike, labels: ArrayLike, blocks: ArrayLike) -> PresenceSets:
        """Learn from rows held out.

        Parameters
        ----------
        probs : array of shape (n_rows, n_labels)
            Probabilities of models that were not shown the rows.
        labels : array of shape (n_rows, n_labels)
            0, 1, or NaN for not observed.
        blocks : array of shape (n_rows,)
            What was held out together: a block of the map, a group, or each row by itself.
        """
        said, truth, numbers = np.asarray(probs, dtype=np.float64), np.asarray(labels), np.asarray(blocks)
        if said.shape != truth.shape or len(numbers) != len(said):
            raise DataError(
                f"probs, labels and blocks must have the same rows; got shapes {said.shape}, {truth.shape} and "
                f"{numbers.shape}. Pass the same rows to all three."
            )
        n_labels = said.shape[1]
        absent, present = np.empty((len(LEVELS), n_labels)), np.empty((len(LEVELS), n_labels))
        counted = np.empty((2, n_labels), dtype=np.int64)
        for label in range(n_labels):
            without, having = truth[:, label] == 0, truth[:, label] == 1
            counted[:, label] = len(np.unique(numbers[without])), len(np.unique(numbers[having]))
            for place, level in enumerate(LEVELS):
                absent[place, label] = block_quantile(said[without, label], numbers[without], level)
                present[place, label] = 1 - block_quantile(1 - said[having, label], numbers[having], level)
        # Easy labels leave a gap in which neither call is safe by itself; one cut in its middle keeps both promises.
        gap = present > absent
        middle = np.where(gap, (np.where(gap, present, 0) + np.where(gap, absent, 0)) / 2, 0)
        return cls(np.where(gap, middle, absent), np.where(gap, middle, present), counted)

    def calls(self, probs: ArrayLike, level: float = 0.9) -> NDArray[np.int8]:
        """Say for each row and label: 0 absent, 1 present, 2 cannot tell.

        Parameters
        ----------
        probs : array of shape (n_rows, n_labels)
            Probabilities.
        level : {0.8, 0.9, 0.95}
            Share of rows in which the truth is among the calls, at least.

        Returns
        -------
        ndarray of int8 of shape (n_rows, n_labels)

        Raises
        ------
        ConfigError
            Another level.
        """
        check_level(level)
        place, said = LEVELS.index(level), np.asarray(probs)
        if said.dtype != np.float32:
            said = said.astype(np.float64, copy=False)
        # Bounds in the numbers of the probabilities: the next one inwards, so that the calls are those of 64 bits.
        present = said >= _next(self.present_from[place], said.dtype, np.inf)
        absent = said <= _next(self.absent_up_to[place], said.dtype, -np.inf)
        # Both calls, or neither: it cannot be told. Else it is what can be.
        found: NDArray[np.int8] = (present > absent).view(np.int8) + CANNOT_TELL * (present == absent).view(np.int8)
        return found

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was learned, by name."""
        return {"absent_up_to": self.absent_up_to, "present_from": self.present_from, "n_blocks": self.n_blocks}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], n_labels: int) -> PresenceSets:
        """Take back what :meth:`arrays` returned.

        Raises
        ------
        ModelError
            Parts that are absent or of another number of labels.
        """
        try:
            found = cls(*(arrays[name] for name in ("absent_up_to", "present_from", "n_blocks")))
        except KeyError as error:
            raise ModelError(f"presence sets must be complete; got none of {error}. Save the model anew.") from error
        if {part.shape[-1] for part in arrays.values()} != {n_labels}:
            raise ModelError(f"presence sets must be of {n_labels} labels; got others. Save the model anew.")
        return found


# Both, as a model holds them ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Trust:
    """What a model knows of where it can be believed.

    Attributes
    ----------
    area : Applicability or None
        None for rows that are no table of covariates: words, molecules.
    sets : PresenceSets or None
        None for classes.
    """

    area: Applicability | None
    sets: PresenceSets | None

    def notes(self) -> dict[str, Any]:
        """Return what :meth:`from_parts` needs beside the arrays; JSON-able."""
        return {"area": None if self.area is None else self.area.notes(), "sets": self.sets is not None}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was learned, by name."""
        parts = (("area", self.area), ("sets", self.sets))
        return {
            f"{at}.{name}": found for at, part in parts if part is not None for name, found in part.arrays().items()
        }

    @classmethod
    def from_parts(cls, notes: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], n_labels: int) -> Trust:
        """Take back what :meth:`notes` and :meth:`arrays` returned."""
        own = {at: {n.removeprefix(at): a for n, a in arrays.items() if n.startswith(at)} for at in ("area.", "sets.")}
        area = None if notes["area"] is None else Applicability.from_parts(notes["area"], own["area."])
        return cls(area, PresenceSets.from_arrays(own["sets."], n_labels) if notes["sets"] else None)


def learn_trust(
    table: Any,
    logits: ArrayLike,
    labels: ArrayLike | None,
    folds: ArrayLike,
    blocks: ArrayLike,
    seed: int,
    names: Any = None,
) -> Trust:
    """Learn both from training rows and what models that were not shown them say of them.

    Parameters
    ----------
    table : ndarray, DataFrame or sparse array
        Training rows, not scaled; a sparse one has no area.
    logits : array of shape (n_rows, n_labels)
        Of models that were not shown the rows.
    labels : array of shape (n_rows, n_labels) or None
        None for classes, which have no sets.
    folds, blocks : array of shape (n_rows,)
        In which fold each row was held out, and with which others.
    seed : int
        Decides which rows are kept.
    names : sequence of str, optional
        Names of the columns of an array.
    """
    found = np.asarray(logits, dtype=np.float64)
    is_table = not hasattr(table, "tocsr")
    area = Applicability.learn(table, found, folds, seed, names) if is_table else None
    sets = None if labels is None else PresenceSets.learn(1 / (1 + np.exp(-found)), labels, blocks)
    return Trust(area, sets)


def _some_rows(n_rows: int, most: int, random: np.random.Generator) -> NDArray[np.intp]:
    """All rows, or so many of them in their order."""
    if n_rows <= most:
        return np.arange(n_rows)
    return np.sort(random.choice(n_rows, most, replace=False))


def _scaled(scaler: FeatureScaler, table: Any) -> Floats:
    with hushed():  # the model's own scalers say it
        return np.asarray(scaler.transform(table, np.float64), dtype=np.float64)


def _next(bounds: Floats, dtype: np.dtype[Any], towards: float) -> NDArray[Any]:
    """Return the first number of a type at or beyond each bound: what compares with it compares with the bound."""
    found = bounds.astype(dtype)
    is_short = found < bounds if towards > 0 else found > bounds
    return np.where(is_short, np.nextafter(found, dtype.type(towards)), found)
