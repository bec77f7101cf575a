"""Every measure of predictions at every threshold, in one pass over the probabilities."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hotvae.errors import ConfigError, listed
from hotvae.metrics.checks import Empty, FloatArray, IntArray, check_empty, check_probs_of
from hotvae.metrics.multilabel import THRESHOLDS, f1_of_counts, find_metric, mean_of_known

# Cells handled at a time: their codes (2 MB) stay in the processor's cache.
_CELLS_PER_CHUNK = 1 << 18
# Two values this close are the same value summed in another order.
_TIE = 1e-12


class Score(NamedTuple):
    """A value and the threshold it was reached at (None for measures of probabilities)."""

    value: float
    threshold: float | None


@dataclass(frozen=True, eq=False)
class ThresholdCurves:
    """Every prediction measure at every threshold, and the counts behind them.

    Attributes
    ----------
    thresholds : ndarray of shape (n_thresholds,)
        Ascending.
    example_f1, micro_f1, macro_f1, hamming_accuracy, subset_accuracy : ndarray of shape (n_thresholds,)
        The measure of that name when a label is predicted where ``p >= threshold``.
    label_f1 : ndarray of shape (n_thresholds, n_labels)
        F1 of each label; NaN for a label without any observed cell.
    label_true_positives, label_predicted : ndarray of int, shape (n_thresholds, n_labels)
        Hits and predicted cells of each label, observed cells only.
    label_positives, label_observed : ndarray of int, shape (n_labels,)
        True and observed cells of each label.
    """

    thresholds: FloatArray
    example_f1: FloatArray
    micro_f1: FloatArray
    macro_f1: FloatArray
    hamming_accuracy: FloatArray
    subset_accuracy: FloatArray
    label_f1: FloatArray
    label_true_positives: IntArray
    label_predicted: IntArray
    label_positives: IntArray
    label_observed: IntArray

    def best(self, metric: str) -> Score:
        """Return the best value of a measure and its threshold.

        Parameters
        ----------
        metric : str
            Name of a measure of predictions, e.g. ``"macro_f1"``.

        Returns
        -------
        Score
            Value and threshold; among equal values the threshold nearest 0.5, then the lower one.

        Raises
        ------
        ConfigError
            Unknown measure, or one that needs no threshold.

        Examples
        --------
        >>> threshold_curves([[1, 0]], [[0.8, 0.3]]).best("macro_f1")
        Score(value=0.5, threshold=0.5)
        """
        find_metric(metric, needs="predictions")
        values: FloatArray = getattr(self, metric)
        index = int(best_threshold_index(values, self.thresholds))
        return Score(float(values[index]), float(self.thresholds[index]))


def best_threshold_index(values: FloatArray, thresholds: FloatArray) -> npt.NDArray[np.intp]:
    """Find the threshold of the greatest value; of equals the one nearest 0.5, then the lower.

    Parameters
    ----------
    values : ndarray of shape (n_thresholds, ...)
        A measure over thresholds; NaN is worse than any value.
    thresholds : ndarray of shape (n_thresholds,)
        Ascending.

    Returns
    -------
    ndarray of int, shape (...)
        Index on the first axis. Values within 1e-12 are equal.

    Examples
    --------
    >>> int(best_threshold_index(np.array([0.2, 0.7, 0.7]), np.array([0.1, 0.3, 0.4])))
    2
    """
    known = np.where(np.isnan(values), -np.inf, values)
    equal = known >= known.max(axis=0) - _TIE
    # Rounded: .45 and .55 are equally near .5, though not in binary.
    distance = np.abs(thresholds - 0.5).round(12).reshape(-1, *[1] * (values.ndim - 1))
    index: npt.NDArray[np.intp] = np.argmin(np.where(equal, distance, np.inf), axis=0)
    return index


def _check_threshold_grid(thresholds: npt.ArrayLike) -> FloatArray:
    grid = np.asarray(thresholds, dtype=np.float64)
    if grid.ndim != 1 or not grid.size or not ((grid >= 0) & (grid <= 1)).all() or (np.diff(grid) <= 0).any():
        shown = listed(grid.tolist()) or "none" if grid.ndim == 1 else f"shape {grid.shape}"
        raise ConfigError(
            f"thresholds must be a list of ascending numbers between 0 and 1; got {shown}. Sort them with np.unique."
        )
    return grid


def threshold_curves(
    labels: npt.ArrayLike,
    probs: npt.ArrayLike,
    thresholds: npt.ArrayLike = THRESHOLDS,
    *,
    empty: Empty = "drop",
) -> ThresholdCurves:
    """Compute every prediction measure at every threshold in one pass over the probabilities.

    Parameters
    ----------
    labels, probs
        As in :func:`~hotvae.metrics.label_auc`; a label is predicted where ``p >= threshold``, compared as float64.
    thresholds : array-like of shape (n_thresholds,)
        Ascending numbers in [0, 1].
    empty : {"drop", "one", "zero"}
        As in :func:`~hotvae.metrics.example_f1`.

    Returns
    -------
    ThresholdCurves
        One array per measure, and the counts of each label.

    Notes
    -----
    Each probability is put once into the bin between two thresholds; cumulative counts of the bins, per row
    and per label, then give hits and predictions at all thresholds. Rows are taken in chunks, so that memory
    beyond the input stays at a few bytes per cell.

    Examples
    --------
    >>> threshold_curves([[1, 0], [0, 1]], [[0.8, 0.3], [0.1, 0.6]], [0.2, 0.5, 0.7]).micro_f1.round(4)
    array([0.8   , 1.    , 0.6667])
    """
    undefined_row = check_empty(empty)
    grid = _check_threshold_grid(thresholds)
    cells, probs = check_probs_of(labels, probs)
    n_rows, n_labels = probs.shape
    n_bins = grid.size + 1
    row_f1_sum, n_empty, n_exact = np.zeros(grid.size), np.zeros(grid.size, int), np.zeros(grid.size, int)
    label_counts = np.zeros((n_labels, 3, n_bins), int)
    label_offset = np.arange(n_labels) * 3 * n_bins
    step = max(1, _CELLS_PER_CHUNK // n_labels)
    for start in range(0, n_rows, step):
        rows = slice(start, start + step)
        seen = cells.observed[rows].any(axis=1)
        # Bin b: the first b thresholds are reached. Class: 0 absent, 1 present, 2 not observed.
        bins = np.searchsorted(grid, probs[rows], side="right")
        bins += np.where(cells.observed[rows], cells.positive[rows], 2) * n_bins
        label_counts += _histogram(bins + label_offset, label_counts.shape)
        row_offset = np.arange(len(bins))[:, None] * 3 * n_bins
        hits, predicted, actual = _cumulated(_histogram(bins + row_offset, (len(bins), 3, n_bins)))
        total = predicted + actual[:, None]
        row_f1_sum += (2 * hits / np.maximum(total, 1)).sum(axis=0)
        n_empty += (total[seen] == 0).sum(axis=0)
        n_exact += (total[seen] == 2 * hits[seen]).sum(axis=0)

    n_seen = int(cells.observed.any(axis=1).sum())
    n_counted = n_seen - n_empty if empty == "drop" else np.full(grid.size, n_seen)
    row_f1_sum += n_empty * np.nan_to_num(undefined_row)
    by_label, predicted_by_label, positives = _cumulated(label_counts)
    hits, predicted = by_label.T, predicted_by_label.T
    observed = label_counts[:, :2].sum(axis=(1, 2))
    label_f1 = f1_of_counts(hits, predicted, positives, 0.0)
    label_f1[:, observed == 0] = np.nan
    n_wrong = predicted.sum(axis=1) + positives.sum() - 2 * hits.sum(axis=1)
    return ThresholdCurves(
        thresholds=grid,
        example_f1=np.where(n_counted > 0, row_f1_sum / np.maximum(n_counted, 1), np.nan),
        micro_f1=f1_of_counts(hits.sum(axis=1), predicted.sum(axis=1), positives.sum(), 0.0),
        macro_f1=np.array([mean_of_known(values) for values in label_f1]),
        hamming_accuracy=(observed.sum() - n_wrong) / observed.sum(),
        subset_accuracy=n_exact / n_seen,
        label_f1=label_f1,
        label_true_positives=hits,
        label_predicted=predicted,
        label_positives=positives,
        label_observed=observed,
    )


def _histogram(codes: npt.NDArray[np.intp], shape: tuple[int, ...]) -> IntArray:
    return np.bincount(codes.ravel(), minlength=int(np.prod(shape))).reshape(shape)


def _cumulated(counts: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """(item, class, bin) counts -> hits and predicted (item, threshold), positives (item,)."""
    reached = counts[:, :2, ::-1].cumsum(axis=2)[:, :, -2::-1]  # cells that reach threshold 0, 1, ...
    return reached[:, 1], reached.sum(axis=1), counts[:, 1].sum(axis=1)


def score(labels: npt.ArrayLike, probs: npt.ArrayLike, metric: str, thresholds: npt.ArrayLike = THRESHOLDS) -> Score:
    """Value of a named measure, as used to choose between models on validation rows.

    Parameters
    ----------
    labels, probs
        As in :func:`~hotvae.metrics.label_auc`.
    metric : str
        A key of :data:`~hotvae.metrics.METRICS`.
    thresholds : array-like of shape (n_thresholds,)
        Where to look for the best value of a measure of predictions.

    Returns
    -------
    Score
        ``(value, threshold)``: for a measure of predictions the best value over the thresholds and where it
        is reached; for a measure of probabilities its value and None.

    Raises
    ------
    ConfigError
        Unknown measure.

    Examples
    --------
    >>> score([[1, 0], [0, 1]], [[0.8, 0.3], [0.1, 0.4]], "macro_f1")
    Score(value=1.0, threshold=0.4)
    >>> score([[1, 0], [0, 1]], [[0.8, 0.3], [0.1, 0.4]], "mean_auc")
    Score(value=1.0, threshold=None)
    """
    measure = find_metric(metric)
    if measure.needs == "predictions":
        return threshold_curves(labels, probs, thresholds).best(metric)
    return Score(measure.function(labels, probs), None)
