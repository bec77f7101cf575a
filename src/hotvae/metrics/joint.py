"""Measures of labels together: whole label sets, labels given others, how many labels, and lists.

Everything is kept row by row, so that two models can be compared on the same rows (:class:`JointScores`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hotvae.errors import DataError
from hotvae.metrics.checks import (
    BoolArray,
    Empty,
    FloatArray,
    check_empty,
    check_labels,
    check_predictions,
    check_probs,
)
from hotvae.metrics.ecology import richness_coverage
from hotvae.metrics.multilabel import f1_along, mean_of_known

SHARES: tuple[float, ...] = (0.0, 0.1, 0.25, 0.5, 0.9)
"""Shares of known labels at which the others are asked for."""

LEVELS: tuple[float, ...] = (0.5, 0.8, 0.9)
"""Nominal coverages of intervals of the number of labels."""

SURE = 1e-6
"""A label that a model is sure of is scored as a millionth short of certain, whatever the model."""


def known_part(labels: npt.ArrayLike, share: float, mask: int = 0) -> FloatArray:
    """Keep a share of the labels of every row, at random.

    Parameters
    ----------
    labels : array-like of shape (n_samples, n_labels)
        0, 1, or NaN for a cell that was not observed.
    share : float
        Share of the labels of a row that are known.
    mask : int
        Which ones: the same number keeps the same labels, whatever they are.

    Returns
    -------
    ndarray of shape (n_samples, n_labels)
        NaN where a label is not known.

    Examples
    --------
    >>> np.isnan(known_part(np.ones((2, 4)), 0.5)).sum(axis=1)
    array([2, 2])
    """
    table = np.asarray(labels, dtype=np.float64)
    order = np.random.default_rng([mask, 7]).random(table.shape).argsort(axis=1)
    return np.where(order < round(share * table.shape[1]), table, np.nan)


def unknown_losses(labels: npt.ArrayLike, known: npt.ArrayLike, probs: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Log loss of the labels that are not known, summed over each row, and their number.

    Parameters
    ----------
    labels : array-like of shape (n_samples, n_labels)
        0, 1, or NaN for a cell that was not observed.
    known : array-like of shape (n_samples, n_labels)
        Known labels; NaN elsewhere.
    probs : array-like of shape (n_samples, n_labels)
        Probabilities given the known labels; none counts as less than a millionth.

    Returns
    -------
    losses, counts : ndarray of shape (n_samples,)

    Examples
    --------
    >>> unknown_losses([[1, 0]], [[1, np.nan]], [[1.0, 0.5]])
    (array([0.69314718]), array([1.]))
    """
    cells = check_labels(labels)
    present = np.clip(check_probs(probs, cells.positive.shape).astype(np.float64), SURE, 1 - SURE)
    asked = cells.observed & np.isnan(np.asarray(known, dtype=np.float64))
    losses = -np.log(np.where(cells.positive, present, 1 - present))
    return np.where(asked, losses, 0.0).sum(axis=1), asked.sum(axis=1).astype(np.float64)


def jaccard_along(positive: BoolArray, predicted: BoolArray, undefined: float) -> FloatArray:
    """Jaccard index of the two sets of each row; ``undefined`` where both are empty."""
    shared, union = (positive & predicted).sum(axis=1), (positive | predicted).sum(axis=1)
    index: FloatArray = np.divide(shared, union, out=np.full(len(shared), undefined), where=union > 0)
    return index


def example_jaccard(labels: npt.ArrayLike, predictions: npt.ArrayLike, empty: Empty = "one") -> float:
    """Jaccard index of each row's labels and predictions, averaged over rows.

    In [0, 1]; NaN when ``empty="drop"`` drops every row.

    Parameters
    ----------
    labels, predictions, empty
        As in :func:`~hotvae.metrics.example_f1`.

    Examples
    --------
    >>> example_jaccard([[1, 1], [0, 0]], [[1, 0], [0, 0]])
    0.75
    """
    undefined = check_empty(empty)
    cells, predicted = check_predictions(labels, predictions)
    return mean_of_known(jaccard_along(cells.positive, predicted, undefined))


@dataclass(frozen=True, eq=False)
class JointScores:
    """How well a model knows labels together.

    Attributes
    ----------
    values : dict of str to float
        ``nll_row`` and ``nll_label``: negative joint log likelihood in nats, per row and per observed label;
        ``given_0``, ``given_10``, ...: log loss of the labels that are not known with so many per cent known;
        ``coverage_50``, ...: share of rows whose number of labels lies in the central interval of the drawn ones (ties
        shared, so that the true law has the nominal share); ``subset``: share of rows whose list by that objective is
        right altogether; ``f1`` and ``jaccard``: means over rows of the lists that are best for them.
    rows : dict of str to ndarray of shape (n_samples,)
        What they are made of: ``nll``, ``n_observed``, sums ``given_10`` and numbers ``n_given_10``, ``subset``, ``f1``
        and ``jaccard``.
    empty : str
        What a row without labels counts where its list is empty, for F1 and Jaccard.
    """

    values: dict[str, float]
    rows: dict[str, FloatArray]
    empty: str


def joint_scores(
    labels: npt.ArrayLike,
    *,
    log_likelihood: npt.ArrayLike,
    probs_given: Callable[[FloatArray], npt.ArrayLike],
    draws: npt.ArrayLike | None = None,
    lists: Mapping[str, npt.ArrayLike] | None = None,
    shares: tuple[float, ...] = SHARES,
    n_masks: int = 3,
    levels: tuple[float, ...] = LEVELS,
    empty: Empty = "one",
) -> JointScores:
    """Measure labels together.

    Parameters
    ----------
    labels : array-like of shape (n_samples, n_labels)
        0, 1, or NaN for a cell that was not observed.
    log_likelihood : array-like of shape (n_samples,)
        Of the observed labels of each row together, in nats.
    probs_given : callable
        From known labels (NaN elsewhere) to probabilities, both of shape (n_samples, n_labels).
    draws : array-like of shape (n_draws, n_samples, n_labels), optional
        Whole label sets; without them there is no coverage.
    lists : mapping of {"f1", "jaccard", "subset"} to array-like of shape (n_samples, n_labels), optional
        The list of each row that is best for each.
    shares, n_masks
        Shares of known labels, and how often which ones they are is drawn.
    levels : tuple of float
        Nominal coverages of intervals of the number of labels.
    empty : {"one", "zero", "drop"}
        As in :func:`~hotvae.metrics.example_f1`.

    Returns
    -------
    JointScores

    Raises
    ------
    DataError
        Tables that do not fit.

    Examples
    --------
    >>> labels = np.array([[1, 0], [0, 0]])
    >>> scores = joint_scores(
    ...     labels, log_likelihood=[-1.0, -2.0], probs_given=lambda known: np.full((2, 2), 0.5), draws=labels[None],
    ...     lists={"f1": labels, "jaccard": labels, "subset": [[1, 0], [1, 0]]})
    >>> [round(scores.values[name], 3) for name in ("nll_row", "nll_label", "given_50", "subset", "f1")]
    [1.5, 0.75, 0.693, 0.5, 1.0]
    """
    cells = check_labels(labels)
    told = np.asarray(log_likelihood, dtype=np.float64)
    if told.shape != (len(cells.positive),):
        raise DataError(f"log_likelihood must have shape ({len(cells.positive)},); got {told.shape}. One for each row.")
    observed = cells.observed.sum(axis=1).astype(np.float64)
    rows: dict[str, FloatArray] = {"nll": -told, "n_observed": observed}
    values = {"nll_row": float(-told.mean()), "nll_label": float(-told.sum() / observed.sum())}
    for share in shares:
        name = f"given_{100 * share:g}"
        losses, counts = np.zeros(len(told)), np.zeros(len(told))
        for mask in range(n_masks if share else 1):
            known = known_part(labels, share, mask)
            own = unknown_losses(labels, known, probs_given(known))
            losses, counts = losses + own[0], counts + own[1]
        rows[name], rows[f"n_{name}"] = losses, counts
        values[name] = float(losses.sum() / counts.sum()) if counts.any() else float("nan")
    for level in levels if draws is not None else ():
        values[f"coverage_{100 * level:g}"] = richness_coverage(labels, np.asarray(draws), level, ties="shared")
    told_lists = _list_rows(labels, lists or {}, empty)
    values |= {name: mean_of_known(own) for name, own in told_lists.items()}
    rows |= told_lists
    return JointScores(values, rows, empty)


def _list_rows(labels: npt.ArrayLike, lists: Mapping[str, npt.ArrayLike], empty: Empty) -> dict[str, FloatArray]:
    undefined = check_empty(empty)
    found: dict[str, Any] = {}
    for name, predictions in lists.items():
        cells, predicted = check_predictions(labels, predictions)
        if name == "f1":
            found[name] = f1_along(1, cells, predicted, undefined)
        elif name == "jaccard":
            found[name] = jaccard_along(cells.positive, predicted, undefined)
        else:
            right = (predicted == cells.positive).all(axis=1)
            found[name] = np.where(cells.observed.any(axis=1), right, np.nan)
    return found
