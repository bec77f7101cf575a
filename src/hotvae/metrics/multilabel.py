"""Multi-label measures: F1s, accuracies, ranking, probability quality. :mod:`hotvae.metrics.curves` tries thresholds.

Shared conventions, stated once:

* ``labels`` is an array of shape (n_samples, n_labels) of 0, 1 and NaN; NaN means *not observed*, and such a
  cell is left out of every count. A row or label without any observed cell is left out of every mean.
* ``predictions`` is a bool or 0/1 array, ``probs`` a float array in [0, 1], both of the shape of ``labels``; these
  three are what a function takes that says nothing else of its parameters.
* A label is predicted when ``p >= threshold``, both as float64: the same stored numbers give the same
  predictions whatever their dtype, so a float32 0.7 (0.69999999) is below the threshold 0.7.
* A value that does not exist (no label with two classes, no row left) is NaN, never a made-up number.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hotvae.config import require_count
from hotvae.errors import ConfigError, listed
from hotvae.metrics.checks import (
    BoolArray,
    Empty,
    FloatArray,
    IntArray,
    LabelCells,
    check_empty,
    check_predictions,
    check_probs_of,
)


def _standard_thresholds() -> FloatArray:
    thresholds = np.concatenate([np.arange(1, 11), np.arange(15, 100, 5)]) / 100
    thresholds.flags.writeable = False
    return thresholds


THRESHOLDS: FloatArray = _standard_thresholds()
"""The 27 thresholds of the paper's protocol: .01 to .10 by .01, then .15 to .95 by .05 (read-only)."""


# Predictions -------------------------------------------------------------------------------------------


def f1_of_counts(true_positives: Any, predicted: Any, actual: Any, undefined: float) -> FloatArray:
    """F1 from counts; ``undefined`` where nothing is true and nothing predicted."""
    total = np.asarray(predicted + actual)
    return np.where(total > 0, 2 * true_positives / np.maximum(total, 1), undefined)


def f1_along(axis: int | None, cells: LabelCells, predicted: BoolArray, undefined: float) -> FloatArray:
    """F1 of each row (axis 1) or label (axis 0), NaN without any observed cell; or of all cells together."""
    hits = (cells.positive & predicted).sum(axis=axis)
    values = f1_of_counts(hits, predicted.sum(axis=axis), cells.positive.sum(axis=axis), undefined)
    return np.where(cells.observed.any(axis=axis), values, np.nan)


def mean_of_known(values: npt.NDArray[np.floating[Any]]) -> float:
    """Mean of the values that exist; NaN when none does."""
    values = values[~np.isnan(values)]
    return float(values.mean()) if values.size else float("nan")


def example_f1(labels: npt.ArrayLike, predictions: npt.ArrayLike, empty: Empty = "drop") -> float:
    r"""Example-based F1 (ebF1): the F1 of each row, averaged over rows.

    In [0, 1]; NaN when ``empty="drop"`` drops every row.

    Parameters
    ----------
    labels : array-like of shape (n_samples, n_labels)
        0, 1, or NaN for a cell that was not observed.
    predictions : array-like of shape (n_samples, n_labels)
        0/1 or bool.
    empty : {"drop", "one", "zero"}
        What a row with no true and no predicted label (0/0) counts as: nothing at all, 1, or 0.

    Notes
    -----
    .. math:: \frac1n \sum_i \frac{2 |Y_i \cap \hat Y_i|}{|Y_i| + |\hat Y_i|}

    Examples
    --------
    Row F1s are 2/3, 0/0 and 0.

    >>> labels, predictions = [[1, 1], [0, 0], [1, 0]], [[1, 0], [0, 0], [0, 0]]
    >>> [round(example_f1(labels, predictions, empty), 4) for empty in ("drop", "one", "zero")]
    [0.3333, 0.5556, 0.2222]
    """
    undefined = check_empty(empty)
    cells, predicted = check_predictions(labels, predictions)
    return mean_of_known(f1_along(1, cells, predicted, undefined))


def micro_f1(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> float:
    r"""Micro-averaged F1 (miF1): the F1 of all observed cells taken together.

    In [0, 1]; 0 when nothing is true and nothing predicted.

    Examples
    --------
    One hit, three true cells, one predicted: 2 * 1 / (3 + 1).

    >>> micro_f1([[1, 1], [0, 0], [1, 0]], [[1, 0], [0, 0], [0, 0]])
    0.5
    """
    cells, predicted = check_predictions(labels, predictions)
    return float(f1_along(None, cells, predicted, 0.0))


def macro_f1(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> float:
    r"""Macro-averaged F1 (maF1): the F1 of each label, averaged over labels.

    In [0, 1]. A label with no true and no predicted positive counts 0; one without any observed cell never counts.

    Examples
    --------
    Label F1s are 2 * 1 / (2 + 1) and 0.

    >>> round(macro_f1([[1, 1], [0, 0], [1, 0]], [[1, 0], [0, 0], [0, 0]]), 4)
    0.3333
    """
    cells, predicted = check_predictions(labels, predictions)
    return mean_of_known(f1_along(0, cells, predicted, 0.0))


def hamming_accuracy(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> float:
    """Hamming accuracy (HA): the share of observed cells predicted right.

    In [0, 1].

    Examples
    --------
    >>> hamming_accuracy([[1, np.nan], [0, 1], [0, 0]], [[1, 1], [0, 0], [0, 0]])
    0.8
    """
    cells, predicted = check_predictions(labels, predictions)
    n_observed = int(cells.observed.sum())
    return (n_observed - int((predicted != cells.positive).sum())) / n_observed


def subset_accuracy(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> float:
    """Subset accuracy: the share of rows whose observed cells are all predicted right.

    In [0, 1]; rows without an observed cell do not count.

    Examples
    --------
    >>> subset_accuracy([[1, np.nan], [0, 1], [np.nan, np.nan]], [[1, 1], [0, 0], [0, 0]])
    0.5
    """
    cells, predicted = check_predictions(labels, predictions)
    exact = (predicted == cells.positive).all(axis=1)
    return float(exact[cells.observed.any(axis=1)].mean())


# Ranking -----------------------------------------------------------------------------------------------


def _sorted_by_label(
    cells: LabelCells, probs: npt.NDArray[np.floating[Any]]
) -> Iterator[tuple[npt.NDArray[np.floating[Any]], npt.NDArray[np.floating[Any]]]]:
    """Yield each label's observed probabilities and those of its positives, both ascending.

    Sorting values label by label and looking the positives up is several times faster than ranking the whole
    table by argsort, and gives the same ranks.
    """
    rows = zip(*(np.ascontiguousarray(table.T) for table in (probs, cells.positive, cells.observed)), strict=True)
    for values, positive, observed in rows:
        yield np.sort(values[observed]), np.sort(values[positive])


def label_auc(labels: npt.ArrayLike, probs: npt.ArrayLike) -> FloatArray:
    """Area under the ROC curve of each label; a tie counts one half.

    NaN for a label whose observed cells are of one class.

    Parameters
    ----------
    labels : array-like of shape (n_samples, n_labels)
        0, 1, or NaN for a cell that was not observed.
    probs : array-like of shape (n_samples, n_labels)
        Probabilities.

    Examples
    --------
    Of the two (present, absent) pairs of the first label one is in order and one tied; the second label is
    never absent.

    >>> label_auc([[1, 1], [0, 1], [0, 1]], [[0.5, 0.1], [0.5, 0.2], [0.1, 0.3]])
    array([0.75,  nan])
    """
    cells, probs = check_probs_of(labels, probs)
    areas = np.full(probs.shape[1], np.nan)
    for label, (everything, positives) in enumerate(_sorted_by_label(cells, probs)):
        n_positive, n_negative = positives.size, everything.size - positives.size
        if n_positive and n_negative:
            # Twice the mid-rank: a whole number, so that the sum is exact.
            below = np.searchsorted(everything, positives, side="left")
            not_above = np.searchsorted(everything, positives, side="right")
            rank_sum = int((below + not_above + 1).sum()) / 2
            areas[label] = (rank_sum - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative)
    return areas


def median_auc(labels: npt.ArrayLike, probs: npt.ArrayLike) -> float:
    """Median over labels of the area under the ROC curve; labels of one class are skipped.

    In [0, 1]; NaN when no label has both classes.

    Examples
    --------
    >>> median_auc([[1, 1], [0, 1], [0, 1]], [[0.5, 0.1], [0.5, 0.2], [0.1, 0.3]])
    0.75
    """
    areas = label_auc(labels, probs)
    areas = areas[~np.isnan(areas)]
    return float(np.median(areas)) if areas.size else float("nan")


def mean_auc(labels: npt.ArrayLike, probs: npt.ArrayLike) -> float:
    """Mean over labels of the area under the ROC curve; labels of one class are skipped.

    In [0, 1]; NaN when no label has both classes.

    Examples
    --------
    >>> mean_auc([[1, 0], [0, 1], [0, 1]], [[0.5, 0.1], [0.5, 0.2], [0.1, 0.3]])
    0.875
    """
    return mean_of_known(label_auc(labels, probs))


def label_average_precision(labels: npt.ArrayLike, probs: npt.ArrayLike) -> FloatArray:
    """Average precision (area under the precision-recall curve, by steps) of each label.

    NaN for a label without positives, whose recall does not exist.

    Notes
    -----
    The mean, over the positives, of the precision among the cells at least as probable; this equals the sum
    of precision times gain in recall, ties included.

    Examples
    --------
    Precision is 1 at the first positive and 2/3 at the second.

    >>> label_average_precision([[1], [0], [1]], [[0.9], [0.5], [0.2]]).round(4)
    array([0.8333])
    """
    cells, probs = check_probs_of(labels, probs)
    precisions = np.full(probs.shape[1], np.nan)
    for label, (everything, positives) in enumerate(_sorted_by_label(cells, probs)):
        if positives.size:
            hits = positives.size - np.searchsorted(positives, positives, side="left")
            chosen = everything.size - np.searchsorted(everything, positives, side="left")
            precisions[label] = (hits / chosen).mean()
    return precisions


def mean_average_precision(labels: npt.ArrayLike, probs: npt.ArrayLike) -> float:
    """Mean over labels of the average precision (AUPR); labels without positives are skipped.

    In [0, 1]; NaN when no label has a positive.

    Examples
    --------
    >>> round(mean_average_precision([[1, 0], [0, 0], [1, 0]], [[0.9, 0.1], [0.5, 0.1], [0.2, 0.1]]), 4)
    0.8333
    """
    return mean_of_known(label_average_precision(labels, probs))


def precision_at_k(labels: npt.ArrayLike, probs: npt.ArrayLike, k: int) -> float:
    """Precision at k (P@k): hits among the k most probable labels of each row, divided by k.

    In [0, 1]. Labels tied at the k-th place share the places left, so the value does not depend on the
    order of the labels.

    Parameters
    ----------
    labels, probs
        As in :func:`label_auc`; only observed labels are ranked.
    k : int
        How many labels to take. The divisor is always k, also for rows with fewer than k true labels and
        when there are fewer than k labels at all.

    Examples
    --------
    The second row's two labels tie for one place: half a hit.

    >>> precision_at_k([[1, 0], [1, 0]], [[0.9, 0.1], [0.4, 0.4]], k=1)
    0.75
    """
    require_count("k", k)
    cells, probs = check_probs_of(labels, probs)
    n_labels = probs.shape[1]
    n_places = min(int(k), n_labels)
    ranked = np.where(cells.observed, probs, -1)  # below every probability, and never a hit
    last = np.partition(ranked, n_labels - n_places, axis=1)[:, n_labels - n_places, None]
    above, tied = ranked > last, ranked == last
    places_left = n_places - above.sum(axis=1)
    hits = (above & cells.positive).sum(axis=1)
    hits_among_tied = (tied & cells.positive).sum(axis=1) * places_left / tied.sum(axis=1)
    return mean_of_known(((hits + hits_among_tied) / k)[cells.observed.any(axis=1)])


# Probability quality -----------------------------------------------------------------------------------


def log_loss(labels: npt.ArrayLike, probs: npt.ArrayLike) -> float:
    """Binary cross-entropy, natural logarithm, mean over observed cells.

    At least 0.

    Notes
    -----
    Probabilities are clipped to [eps, 1 - eps] with the machine epsilon of *their* dtype, so that one
    certain mistake costs 15.9 in float32 and 36.0 in float64 instead of infinity.

    Examples
    --------
    >>> round(log_loss([[1, 0], [np.nan, 1]], [[0.5, 0.5], [0.9, 0.25]]), 4)  # (ln 2 + ln 2 + ln 4) / 3
    0.9242
    """
    cells, probs = check_probs_of(labels, probs)
    return float(_cell_log_loss(cells.positive[cells.observed], probs[cells.observed]).mean())


def paired_log_loss(labels: npt.ArrayLike, probs: npt.ArrayLike, rival_probs: npt.ArrayLike) -> tuple[float, float]:
    """Difference in log loss between two models on the same rows, with its 95 % interval over rows.

    Parameters
    ----------
    labels, probs, rival_probs
        As in :func:`label_auc`; probabilities of the two models.

    Returns
    -------
    gap : float
        Mean over rows of the first model's loss minus the rival's; below 0 the first is better.
    half_width : float
        Half of the 95 % interval of that mean (normal approximation, rows taken as independent); NaN for one row.

    Examples
    --------
    >>> gap, half_width = paired_log_loss(np.ones((2, 1)), [[0.8], [0.5]], [[0.4], [0.5]])
    >>> round(gap, 4), round(half_width, 4)
    (-0.3466, 0.6793)
    """
    cells, probs = check_probs_of(labels, probs)
    _, rival_probs = check_probs_of(labels, rival_probs)
    gap_of_cell = _cell_log_loss(cells.positive, probs) - _cell_log_loss(cells.positive, rival_probs)
    counts = cells.observed.sum(axis=1)
    gaps = (gap_of_cell * cells.observed).sum(axis=1)[counts > 0] / counts[counts > 0]
    spread = gaps.std(ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else np.nan
    return mean_of_known(gaps), float(1.959964 * spread)


def _cell_log_loss(positive: BoolArray, probs: npt.NDArray[np.floating[Any]]) -> FloatArray:
    """Log loss of each cell, clipped as :func:`log_loss` says."""
    epsilon = float(np.finfo(probs.dtype).eps)
    presence = np.clip(probs.astype(np.float64), epsilon, 1 - epsilon)
    return -np.log(np.where(positive, presence, 1 - presence))


def brier_score(labels: npt.ArrayLike, probs: npt.ArrayLike) -> float:
    """Brier score: squared difference of label and probability, mean over observed cells.

    In [0, 1], smaller is better.

    Examples
    --------
    >>> brier_score([[1, 0], [np.nan, 1]], [[0.5, 0.5], [0.9, 0.0]])  # (1/4 + 1/4 + 1) / 3
    0.5
    """
    cells, probs = check_probs_of(labels, probs)
    gaps = probs[cells.observed].astype(np.float64) - cells.positive[cells.observed]
    return float(np.square(gaps).mean())


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Predicted probability against observed rate; bins that hold no cell are left out.

    Attributes
    ----------
    mean_predicted, observed_rate : ndarray of shape (n_filled_bins,)
        Mean probability and share of positives of each bin, in ascending order.
    count : ndarray of int, shape (n_filled_bins,)
        Observed cells in each bin.
    """

    mean_predicted: FloatArray
    observed_rate: FloatArray
    count: IntArray


def reliability_curve(labels: npt.ArrayLike, probs: npt.ArrayLike, n_bins: int = 10) -> ReliabilityCurve:
    """Compare predicted probabilities with observed rates, over all observed cells.

    Parameters
    ----------
    labels, probs
        As in :func:`label_auc`.
    n_bins : int
        Number of bins, of equal width; a bin holds its upper edge.

    Returns
    -------
    ReliabilityCurve
        Mean probability, observed rate and count of each bin that holds a cell.

    Examples
    --------
    >>> curve = reliability_curve([[0, 1], [1, 1]], [[0.25, 0.75], [0.25, 1.0]], n_bins=2)
    >>> curve.mean_predicted, curve.observed_rate, curve.count
    (array([0.25 , 0.875]), array([0.5, 1. ]), array([2, 2]))
    """
    require_count("n_bins", n_bins)
    cells, probs = check_probs_of(labels, probs)
    values = probs[cells.observed].astype(np.float64)
    bins = np.searchsorted(np.linspace(0, 1, n_bins + 1)[1:-1], values)
    count = np.bincount(bins, minlength=n_bins)
    filled = count > 0
    count = count[filled]
    predicted = np.bincount(bins, weights=values, minlength=n_bins)[filled]
    positive = np.bincount(bins, weights=cells.positive[cells.observed], minlength=n_bins)[filled]
    return ReliabilityCurve(predicted / count, positive / count, count)


def calibration_error(labels: npt.ArrayLike, probs: npt.ArrayLike, n_bins: int = 15) -> float:
    """Find the expected calibration error (ECE): the mean gap between probability and observed rate.

    In [0, 1], smaller is better; gaps are weighted by the cells in each bin.

    Parameters
    ----------
    labels, probs, n_bins
        As in :func:`reliability_curve`.

    Examples
    --------
    Gaps of .25 and .125, two cells each.

    >>> calibration_error([[0, 1], [1, 1]], [[0.25, 0.75], [0.25, 1.0]], n_bins=2)
    0.1875
    """
    curve = reliability_curve(labels, probs, n_bins)
    gaps = np.abs(curve.mean_predicted - curve.observed_rate)
    return float(np.average(gaps, weights=curve.count))


# The table of measures -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Metric:
    """A named measure.

    Attributes
    ----------
    name : str
        Its name in the API.
    title : str
        Its name in tables.
    function : callable
        ``function(labels, predictions)`` or ``function(labels, probs)`` -> float.
    needs : {"predictions", "probs"}
        What it is given.
    greater_is_better : bool
        False for losses and errors.
    """

    name: str
    title: str
    function: Callable[[npt.ArrayLike, npt.ArrayLike], float]
    needs: Literal["predictions", "probs"]
    greater_is_better: bool = True


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            Metric("example_f1", "ebF1", example_f1, "predictions"),
            Metric("micro_f1", "miF1", micro_f1, "predictions"),
            Metric("macro_f1", "maF1", macro_f1, "predictions"),
            Metric("hamming_accuracy", "HA", hamming_accuracy, "predictions"),
            Metric("subset_accuracy", "subset accuracy", subset_accuracy, "predictions"),
            Metric("median_auc", "median AUC", median_auc, "probs"),
            Metric("mean_auc", "mean AUC", mean_auc, "probs"),
            Metric("mean_average_precision", "AUPR", mean_average_precision, "probs"),
            Metric("precision_at_1", "P@1", partial(precision_at_k, k=1), "probs"),
            Metric("precision_at_3", "P@3", partial(precision_at_k, k=3), "probs"),
            Metric("precision_at_5", "P@5", partial(precision_at_k, k=5), "probs"),
            Metric("log_loss", "log loss", log_loss, "probs", greater_is_better=False),
            Metric("brier_score", "Brier", brier_score, "probs", greater_is_better=False),
            Metric("calibration_error", "ECE", calibration_error, "probs", greater_is_better=False),
        )
    }
)
"""Every named measure, in the order of tables."""


def find_metric(name: str, needs: Literal["predictions", "probs"] | None = None) -> Metric:
    """Look a measure up by name.

    Parameters
    ----------
    name : str
        A key of :data:`METRICS`.
    needs : {"predictions", "probs"}, optional
        Accept only measures of predictions, or only measures of probabilities.

    Returns
    -------
    Metric
        The measure.

    Raises
    ------
    ConfigError
        No such name; the message lists the names and the closest one.

    Examples
    --------
    >>> find_metric("hamming_accuracy").title
    'HA'
    """
    names = [known for known, metric in METRICS.items() if needs in (None, metric.needs)]
    if name in names:
        return METRICS[name]
    # Titles count too: maF1 is understood as macro_f1.
    spelled = {text.casefold(): known for known in names for text in (known, METRICS[known].title)}
    close = get_close_matches(str(name).casefold(), spelled, n=1)
    hint = f" Did you mean {spelled[close[0]]!r}?" if close else ""
    rule = f"be a measure of {needs}, one" if needs else "be one"
    raise ConfigError(f"metric must {rule} of {listed(names, limit=len(names))}; got {name!r}.{hint}")
