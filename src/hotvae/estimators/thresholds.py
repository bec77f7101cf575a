"""From probabilities to 0/1: thresholds chosen on validation rows, and evaluation under a named protocol.

A label is predicted when ``p >= threshold``, both as float64 (see :mod:`hotvae.metrics.multilabel`). Among
equally good thresholds the one nearest 0.5 is taken, and the lower of two equally near: the choice never
depends on row order or rounding.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hotvae.errors import ConfigError, DataError, listed
from hotvae.metrics.checks import BoolArray, Empty, FloatArray, check_labels, check_probs
from hotvae.metrics.curves import best_threshold_index, threshold_curves
from hotvae.metrics.multilabel import METRICS, THRESHOLDS, example_f1, find_metric

__all__ = [
    "PREDICTION_METRICS",
    "THRESHOLDS",
    "apply_thresholds",
    "evaluate",
    "evaluate_protocols",
    "tune_label_thresholds",
    "tune_thresholds",
]

PREDICTION_METRICS: tuple[str, ...] = tuple(name for name, metric in METRICS.items() if metric.needs == "predictions")
"""The measures that need a threshold."""


def apply_thresholds(probs: npt.ArrayLike, thresholds: npt.ArrayLike = 0.5) -> BoolArray:
    """Predict each label whose probability reaches its threshold.

    Parameters
    ----------
    probs : array-like of shape (n_samples, n_labels)
        Probabilities.
    thresholds : float or array-like of shape (n_labels,)
        One threshold, or one per label, in [0, 1].

    Returns
    -------
    ndarray of bool, shape (n_samples, n_labels)
        ``p >= threshold``, compared as float64.

    Raises
    ------
    DataError
        Probabilities that are not a table of numbers in [0, 1].
    ConfigError
        Thresholds outside [0, 1], or not one per label.
    """
    table = check_probs(probs)
    try:
        # A float64 array, not a Python float: NumPy would round the latter to the dtype of probs.
        cut = np.asarray(thresholds, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"thresholds must be one number or one per label; got {type(thresholds).__name__}. "
            "From a mapping take the one of a measure: thresholds['macro_f1']."
        ) from error
    if cut.ndim and cut.shape != table.shape[1:]:
        raise ConfigError(
            f"thresholds must be one number or one per label ({table.shape[1]}); got shape {cut.shape}. "
            "Take them from the same labels, in the same order."
        )
    wrong = ~((cut >= 0) & (cut <= 1))
    if wrong.any():
        raise ConfigError(f"thresholds must be between 0 and 1; got {listed(np.atleast_1d(cut)[wrong.ravel()])}.")
    reached: BoolArray = table >= cut
    return reached


def tune_thresholds(
    labels: npt.ArrayLike,
    probs: npt.ArrayLike,
    metrics: Sequence[str] = PREDICTION_METRICS,
    *,
    thresholds: npt.ArrayLike = THRESHOLDS,
    empty: Empty = "drop",
) -> dict[str, float]:
    """Choose one threshold per measure; give it validation rows.

    Parameters
    ----------
    labels, probs
        As in :func:`hotvae.metrics.label_auc`.
    metrics : sequence of str
        Measures of predictions.
    thresholds : array-like of shape (n_thresholds,)
        The candidates, ascending.
    empty : {"drop", "one", "zero"}
        As in :func:`hotvae.metrics.example_f1`.

    Returns
    -------
    dict of str to float
        The best threshold of each measure; of equals the one nearest 0.5, then the lower.

    Raises
    ------
    ConfigError
        Unknown measure, or one that needs no threshold.

    Examples
    --------
    >>> tune_thresholds([[1, 0], [0, 1]], [[0.8, 0.3], [0.1, 0.4]], ["macro_f1"])
    {'macro_f1': 0.4}
    """
    curves = threshold_curves(labels, probs, thresholds, empty=empty)
    best = {metric: curves.best(metric).threshold for metric in metrics}
    return {metric: threshold for metric, threshold in best.items() if threshold is not None}


def tune_label_thresholds(
    labels: npt.ArrayLike,
    probs: npt.ArrayLike,
    metric: Literal["f1", "accuracy"] = "f1",
) -> FloatArray:
    """Choose one threshold per label; give it validation rows.

    Parameters
    ----------
    labels, probs
        As in :func:`hotvae.metrics.label_auc`.
    metric : {"f1", "accuracy"}
        What each label's threshold maximises: its F1 (and so maF1) or its share of cells predicted right.

    Returns
    -------
    ndarray of shape (n_labels,)
        Thresholds. A label without an observed positive has nothing to choose by and keeps the pooled
        threshold, the best one for the cells of all labels taken together.

    Raises
    ------
    ConfigError
        Unknown metric.
    """
    if metric not in ("f1", "accuracy"):
        raise ConfigError(f"metric must be 'f1' or 'accuracy'; got {metric!r}.")
    curves = threshold_curves(labels, probs)
    # Hits, predicted, true and observed cells, each (threshold, label).
    counts = np.stack(
        np.broadcast_arrays(
            curves.label_true_positives, curves.label_predicted, curves.label_positives, curves.label_observed
        )
    )
    pooled = counts.sum(axis=2, keepdims=True)

    def best(hits: Any, predicted: Any, actual: Any, observed: Any) -> FloatArray:
        if metric == "f1":
            values = 2 * hits / np.maximum(predicted + actual, 1)
        else:
            values = 1 - (predicted + actual - 2 * hits) / np.maximum(observed, 1)
        chosen: FloatArray = curves.thresholds[best_threshold_index(values, curves.thresholds)]
        return chosen

    return np.where(curves.label_positives > 0, best(*counts), best(*pooled))


def _threshold_per_metric(
    thresholds: Mapping[str, npt.ArrayLike] | npt.ArrayLike,
) -> dict[str, npt.ArrayLike]:
    if not isinstance(thresholds, Mapping):
        return dict.fromkeys(PREDICTION_METRICS, thresholds)
    for name in thresholds:
        find_metric(name, needs="predictions")
    missing = [name for name in PREDICTION_METRICS if name not in thresholds]
    if missing:
        raise ConfigError(
            f"thresholds must name every measure of predictions; got none for {listed(missing)}. "
            "Choose them with tune_thresholds."
        )
    return {name: thresholds[name] for name in PREDICTION_METRICS}


def evaluate(
    labels: npt.ArrayLike,
    probs: npt.ArrayLike,
    thresholds: Mapping[str, npt.ArrayLike] | npt.ArrayLike = 0.5,
    *,
    empty: Empty = "drop",
) -> dict[str, Any]:
    """Compute every measure, each measure of predictions at its own threshold.

    Parameters
    ----------
    labels, probs
        As in :func:`hotvae.metrics.label_auc`.
    thresholds : float, array-like of shape (n_labels,), or mapping of measure to either
        What to predict by, e.g. the result of :func:`tune_thresholds` on validation rows.
    empty : {"drop", "one", "zero"}
        As in :func:`hotvae.metrics.example_f1`.

    Returns
    -------
    dict
        A float for each key of :data:`hotvae.metrics.METRICS`, in that order; then ``n_rows``, ``n_labels``,
        ``n_observed`` (cells), ``n_labels_without_auc`` (skipped there: one class only),
        ``n_labels_without_positives`` (skipped by the average precision), ``empty``, and ``thresholds``
        (measure to float, or to a list with one float per label). A value that does not exist is NaN.

    Raises
    ------
    DataError
        Labels or probabilities that do not fit.
    ConfigError
        Thresholds that are missing, unknown or outside [0, 1].

    Examples
    --------
    >>> result = evaluate([[1, 0], [1, 1]], [[0.8, 0.3], [0.9, 0.4]], 0.5)
    >>> result["hamming_accuracy"], result["mean_auc"], result["n_labels_without_auc"]
    (0.75, 1.0, 1)
    """
    cut = _threshold_per_metric(thresholds)
    cells = check_labels(labels)
    table = check_probs(probs, cells.positive.shape)
    result: dict[str, Any] = {}
    for name, metric in METRICS.items():
        if name == "example_f1":  # the only one with a policy
            result[name] = example_f1(labels, apply_thresholds(table, cut[name]), empty)
        else:
            given = apply_thresholds(table, cut[name]) if metric.needs == "predictions" else table
            result[name] = metric.function(labels, given)
    n_positive, n_observed = cells.positive.sum(axis=0), cells.observed.sum(axis=0)
    return result | {
        "n_rows": table.shape[0],
        "n_labels": table.shape[1],
        "n_observed": int(n_observed.sum()),
        "n_labels_without_auc": int(((n_positive == 0) | (n_positive == n_observed)).sum()),
        "n_labels_without_positives": int((n_positive == 0).sum()),
        "empty": empty,
        "thresholds": {name: np.asarray(value, dtype=float).tolist() for name, value in cut.items()},
    }


def evaluate_protocols(
    test_labels: npt.ArrayLike,
    test_probs: npt.ArrayLike,
    validation_labels: npt.ArrayLike,
    validation_probs: npt.ArrayLike,
    *,
    empty: Empty = "drop",
) -> dict[str, dict[str, Any]]:
    """Evaluate test rows under both protocols, kept apart.

    Parameters
    ----------
    test_labels, test_probs : array-like of shape (n_test, n_labels)
        What is scored.
    validation_labels, validation_probs : array-like of shape (n_validation, n_labels)
        Where honest thresholds come from.
    empty : {"drop", "one", "zero"}
        As in :func:`hotvae.metrics.example_f1`.

    Returns
    -------
    dict
        ``"honest"``: thresholds chosen on the validation rows; ``"oracle"``: on the test rows themselves, an
        upper bound kept for comparison with published tables. Each as :func:`evaluate` returns it, with the
        ``thresholds`` used and the name of its ``protocol``.

    Raises
    ------
    DataError
        Tables that do not fit, or different numbers of labels.
    """
    n_test, n_validation = check_probs(test_probs).shape[1], check_probs(validation_probs).shape[1]
    if n_test != n_validation:
        raise DataError(
            f"validation_probs must have the labels of test_probs, {n_test}; got {n_validation}. "
            "Predict both with the same model."
        )
    chosen_on = {"honest": (validation_labels, validation_probs), "oracle": (test_labels, test_probs)}
    return {
        protocol: {"protocol": protocol}
        | evaluate(test_labels, test_probs, tune_thresholds(*rows, empty=empty), empty=empty)
        for protocol, rows in chosen_on.items()
    }
