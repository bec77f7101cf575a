"""Measures against hand-worked values, slow loops, scikit-learn and their own invariances."""

import dataclasses
import math
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn import metrics as reference
from sklearn.calibration import calibration_curve

from hotvae import metrics
from hotvae.errors import ConfigError, DataError
from hotvae.metrics.checks import check_labels, check_probs
from hotvae.metrics.curves import best_threshold_index
from hotvae.metrics.multilabel import THRESHOLDS

NAN = math.nan
PREDICTION_METRICS = ["example_f1", "micro_f1", "macro_f1", "hamming_accuracy", "subset_accuracy"]
PROB_METRICS = [name for name in metrics.METRICS if name not in PREDICTION_METRICS]

# Worked by hand in the goldens below. Rows: one of two hit, an empty row, a false alarm, a perfect row.
LABELS = np.array([[1, 1, 0], [0, 0, 0], [0, 1, 0], [1, 0, 0]], dtype=float)
PREDICTED = np.array([[1, 0, 0], [0, 0, 0], [1, 1, 0], [1, 0, 0]], dtype=bool)


@st.composite
def tables(draw, missing=True):
    """Labels with an observed cell, and probabilities: often tied, often exactly on a threshold."""
    n_rows, n_labels = draw(st.integers(1, 8)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rate = draw(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]))
    labels = (rng.random((n_rows, n_labels)) < rate).astype(float)
    if missing:
        labels[rng.random(labels.shape) < draw(st.sampled_from([0.0, 0.3, 0.8]))] = np.nan
    assume(not np.isnan(labels).all())
    probs = rng.integers(0, 21, labels.shape) / 20 if draw(st.booleans()) else rng.random(labels.shape)
    return labels, probs.astype(draw(st.sampled_from([np.float32, np.float64])))


@pytest.fixture
def big():
    rng = np.random.default_rng(7)
    probs = rng.random((300, 6)).round(2)
    return (rng.random(probs.shape) < probs * 0.6).astype(float), probs


def with_missing(labels, share=0.2, seed=3):
    return np.where(np.random.default_rng(seed).random(labels.shape) < share, np.nan, labels)


# Slow references: one cell after the other ----------------------------------------------------------------


def loop_counts(pairs):
    """(hits, predicted, true, wrong, observed) of (label, prediction) pairs."""
    hits = predicted = true = wrong = observed = 0
    for label, prediction in pairs:
        if math.isnan(label):
            continue
        observed += 1
        hits += label == 1 and prediction == 1
        predicted += prediction == 1
        true += label == 1
        wrong += label != prediction
    return hits, predicted, true, wrong, observed


def loop_metrics(labels, predictions, empty="drop"):
    by_row = [loop_counts(zip(y, p, strict=True)) for y, p in zip(labels, predictions, strict=True)]
    by_label = [loop_counts(zip(y, p, strict=True)) for y, p in zip(labels.T, predictions.T, strict=True)]
    hits, predicted, true, wrong, observed = (sum(column) for column in zip(*by_row, strict=True))
    row_f1s, exact = [], []
    for row_hits, row_predicted, row_true, row_wrong, row_observed in by_row:
        if not row_observed:
            continue
        exact.append(row_wrong == 0)
        if row_predicted + row_true:
            row_f1s.append(2 * row_hits / (row_predicted + row_true))
        elif empty != "drop":
            row_f1s.append({"one": 1.0, "zero": 0.0}[empty])
    label_f1s = [2 * h / (p + t) if p + t else 0.0 for h, p, t, _, n in by_label if n]
    return {
        "example_f1": sum(row_f1s) / len(row_f1s) if row_f1s else NAN,
        "micro_f1": 2 * hits / (predicted + true) if predicted + true else 0.0,
        "macro_f1": sum(label_f1s) / len(label_f1s),
        "hamming_accuracy": 1 - wrong / observed,
        "subset_accuracy": sum(exact) / len(exact),
    }


def loop_auc(labels, probs):
    pairs = [
        (p > q) + (p == q) / 2
        for y, p in zip(labels, probs, strict=True)
        for z, q in zip(labels, probs, strict=True)
        if y == 1 and z == 0
    ]
    return sum(pairs) / len(pairs) if pairs else NAN


def loop_average_precision(labels, probs):
    cells = [(y, p) for y, p in zip(labels, probs, strict=True) if not math.isnan(y)]
    total, area, recall_before = sum(y for y, _ in cells), 0.0, 0.0
    for cut in sorted({p for _, p in cells}, reverse=True):
        chosen = [y for y, p in cells if p >= cut]
        if total:
            area += (sum(chosen) / total - recall_before) * sum(chosen) / len(chosen)
            recall_before = sum(chosen) / total
    return area if total else NAN


def loop_precision_at_k(labels, probs, k):
    """Expected over all orders among ties: each label's chance of a place."""
    values = []
    for y, p in zip(labels, probs, strict=True):
        cells = [(b, a) for a, b in zip(y, p, strict=True) if not math.isnan(a)]
        if not cells:
            continue
        hits = 0.0
        for value, label in cells:  # chance of this label to be among the k, times its being a hit
            above = sum(other > value for other, _ in cells)
            tied = sum(other == value for other, _ in cells)
            hits += label * min(max((k - above) / tied, 0), 1)
        values.append(hits / k)
    return sum(values) / len(values)


# F1s and accuracies -------------------------------------------------------------------------------------


def test_example_f1__hand_worked__each_policy_for_the_empty_row():
    """Row F1s: 2*1/(2+1) = 2/3, 0/0, 2*1/(1+2) = 2/3, 1. Sum 7/3 without the empty row."""
    assert metrics.example_f1(LABELS, PREDICTED) == pytest.approx(7 / 9)
    assert metrics.example_f1(LABELS, PREDICTED, empty="one") == pytest.approx(10 / 12)
    assert metrics.example_f1(LABELS, PREDICTED, empty="zero") == pytest.approx(7 / 12)


def test_micro_f1__hand_worked():
    """Hits 3 (row 0, row 2, row 3), predicted 4, true 4: 6/8."""
    assert metrics.micro_f1(LABELS, PREDICTED) == 0.75


def test_macro_f1__label_without_true_and_predicted__counts_zero():
    """Label F1s: 2*2/(2+3) = .8, 2*1/(2+1) = 2/3, 0/0."""
    assert metrics.macro_f1(LABELS, PREDICTED) == pytest.approx((0.8 + 2 / 3) / 3)


def test_accuracies__hand_worked():
    """Wrong cells: (0, 1) missed and (2, 0) invented; rows 1 and 3 are exact."""
    assert metrics.hamming_accuracy(LABELS, PREDICTED) == pytest.approx(10 / 12)
    assert metrics.subset_accuracy(LABELS, PREDICTED) == 0.5


def test_prediction_metrics__missing_cells__left_out_of_every_count():
    """The two wrong cells hidden: all that is left is right, and the hidden prediction (2, 0) not counted."""
    labels = LABELS.copy()
    labels[0, 1] = labels[2, 0] = NAN
    for name in ("example_f1", "micro_f1", "hamming_accuracy", "subset_accuracy"):
        assert metrics.METRICS[name].function(labels, PREDICTED) == 1.0
    assert metrics.macro_f1(labels, PREDICTED) == pytest.approx(2 / 3)  # third label is 0/0


def test_prediction_metrics__row_and_label_never_observed__as_if_they_were_not_there():
    labels, predictions = np.full((5, 4), NAN), np.ones((5, 4), dtype=bool)
    labels[:4, :3], predictions[:4, :3] = LABELS, PREDICTED
    for name in PREDICTION_METRICS:
        function = metrics.METRICS[name].function
        assert function(labels, predictions) == pytest.approx(function(LABELS, PREDICTED))
    assert metrics.example_f1(labels, predictions, empty="zero") == pytest.approx(7 / 12)


def test_f1__nothing_true_nothing_predicted__nan_when_dropped_and_zero_elsewhere():
    nothing = np.zeros((2, 2))
    assert math.isnan(metrics.example_f1(nothing, nothing))
    assert metrics.example_f1(nothing, nothing, empty="one") == 1.0
    assert metrics.micro_f1(nothing, nothing) == 0.0
    assert metrics.macro_f1(nothing, nothing) == 0.0
    assert metrics.subset_accuracy(nothing, nothing) == 1.0


def test_prediction_metrics__no_missing_cells__equal_sklearn(big):
    labels, probs = big
    predictions = probs >= 0.4
    kept = (labels.sum(axis=1) + predictions.sum(axis=1)) > 0
    assert not kept.all()  # otherwise empty rows are not put to the test
    f1 = reference.f1_score
    assert metrics.example_f1(labels, predictions) == pytest.approx(
        f1(labels[kept], predictions[kept], average="samples", zero_division=0)
    )
    assert metrics.example_f1(labels, predictions, empty="one") == pytest.approx(
        f1(labels, predictions, average="samples", zero_division=1)
    )
    assert metrics.micro_f1(labels, predictions) == pytest.approx(f1(labels, predictions, average="micro"))
    assert metrics.macro_f1(labels, predictions) == pytest.approx(f1(labels, predictions, average="macro"))
    assert metrics.hamming_accuracy(labels, predictions) == pytest.approx(
        1 - reference.hamming_loss(labels, predictions)
    )
    assert metrics.subset_accuracy(labels, predictions) == pytest.approx(reference.accuracy_score(labels, predictions))


@settings(max_examples=60, deadline=None)
@given(tables(), st.sampled_from(["drop", "one", "zero"]))
def test_prediction_metrics__any_table__equal_the_slow_loops(table, empty):
    labels, probs = table
    predictions = probs >= 0.5
    expected = loop_metrics(labels, predictions, empty)
    got = {name: metrics.METRICS[name].function(labels, predictions) for name in PREDICTION_METRICS}
    got["example_f1"] = metrics.example_f1(labels, predictions, empty)
    assert got == pytest.approx(expected, nan_ok=True)


# Ranking ------------------------------------------------------------------------------------------------


def test_label_auc__hand_worked__ties_one_half_and_one_class_nan():
    """Label 0: pairs (.5, .5) tie, (.5, .1) right, (.2, .5) wrong, (.2, .1) right: 2.5 of 4."""
    labels = [[1, 1], [0, 1], [0, 1], [1, NAN]]
    probs = [[0.5, 0.1], [0.5, 0.2], [0.1, 0.3], [0.2, 0.9]]
    np.testing.assert_array_equal(metrics.label_auc(labels, probs), [0.625, NAN])


def test_auc_summaries__hand_worked__skip_labels_of_one_class():
    """AUCs 1, 0, 1 and one label without presence: median 1, mean 2/3."""
    labels = [[1, 1, 1, 0], [0, 0, 0, 0]]
    probs = [[0.9, 0.1, 0.8, 0.5], [0.1, 0.9, 0.2, 0.4]]
    assert metrics.median_auc(labels, probs) == 1.0
    assert metrics.mean_auc(labels, probs) == pytest.approx(2 / 3)


def test_auc_summaries__no_label_with_two_classes__nan():
    assert math.isnan(metrics.median_auc([[1, 0]], [[0.5, 0.5]]))
    assert math.isnan(metrics.mean_auc([[1, 0]], [[0.5, 0.5]]))


def test_label_average_precision__hand_worked__tie_shares_its_precision():
    """Label 0: 1 of 1 at .9, 2 of 3 at .5 (tied): 5/6. Label 1: no positive. Label 2: all positive."""
    labels = [[1, 0, 1], [0, 0, 1], [1, 0, 1], [0, NAN, NAN]]
    probs = [[0.9, 0.1, 0.3], [0.5, 0.2, 0.4], [0.5, 0.3, 0.5], [0.1, 0.9, 0.9]]
    np.testing.assert_allclose(metrics.label_average_precision(labels, probs), [5 / 6, NAN, 1.0])
    assert metrics.mean_average_precision(labels, probs) == pytest.approx(11 / 12)


def test_mean_average_precision__no_positive__nan():
    assert math.isnan(metrics.mean_average_precision([[0, 0]], [[0.5, 0.5]]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ranking__with_and_without_missing_cells__equals_sklearn(big, dtype):
    labels, probs = with_missing(big[0]), big[1].astype(dtype)
    seen = ~np.isnan(labels)
    auc = [reference.roc_auc_score(labels[s, i], probs[s, i]) for i, s in enumerate(seen.T)]
    precision = [reference.average_precision_score(labels[s, i], probs[s, i]) for i, s in enumerate(seen.T)]
    np.testing.assert_allclose(metrics.label_auc(labels, probs), auc, rtol=1e-12)
    np.testing.assert_allclose(metrics.label_average_precision(labels, probs), precision, rtol=1e-12)
    assert metrics.median_auc(labels, probs) == pytest.approx(np.median(auc))
    assert metrics.mean_auc(big[0], probs) == pytest.approx(reference.roc_auc_score(big[0], probs))
    assert metrics.mean_average_precision(big[0], probs) == pytest.approx(
        reference.average_precision_score(big[0], probs)
    )


def test_precision_at_k__hand_worked__divides_by_k():
    """k=1: 1, 0. k=2: 1/2 (one true label only), 1/2. k=3: 1/3, 2/3. k=5 > 3 labels: 1/5, 2/5."""
    labels = [[1, 0, 0], [1, 0, 1]]
    probs = [[0.9, 0.5, 0.1], [0.3, 0.8, 0.7]]
    values = [metrics.precision_at_k(labels, probs, k) for k in (1, 2, 3, 5)]
    assert values == pytest.approx([0.5, 0.5, 0.5, 0.3])


def test_precision_at_k__ties_at_the_last_place__share_it():
    """One place is sure (.9, a hit); two labels, one of them true, share the second: 1.5 hits of 2."""
    assert metrics.precision_at_k([[1, 1, 0, 0]], [[0.9, 0.5, 0.5, 0.1]], 2) == 0.75


def test_precision_at_k__missing_cells__only_observed_labels_are_ranked():
    """The unseen .9 is passed over, .5 is a hit; a row with nothing seen is not counted."""
    labels = [[NAN, 1, 0], [NAN, NAN, NAN]]
    probs = [[0.9, 0.5, 0.1], [0.9, 0.5, 0.1]]
    assert metrics.precision_at_k(labels, probs, 1) == 1.0
    assert metrics.precision_at_k([[NAN, 1, NAN]], [[0.9, 0.0, 0.1]], 2) == 0.5


@settings(max_examples=60, deadline=None)
@given(tables(), st.integers(1, 6))
def test_ranking__any_table__equals_the_slow_loops(table, k):
    labels, probs = table
    columns = list(zip(labels.T, probs.T, strict=True))
    np.testing.assert_allclose(metrics.label_auc(labels, probs), [loop_auc(*c) for c in columns])
    np.testing.assert_allclose(
        metrics.label_average_precision(labels, probs), [loop_average_precision(*c) for c in columns]
    )
    assert metrics.precision_at_k(labels, probs, k) == pytest.approx(loop_precision_at_k(labels, probs, k))


# Probability quality ------------------------------------------------------------------------------------


def test_log_loss__hand_worked__mean_over_observed_cells():
    """-(ln .5 + ln .75 + ln .25) / 3; the unseen cell's certain mistake does not count."""
    value = metrics.log_loss([[1, 0], [NAN, 1]], [[0.5, 0.25], [0.0, 0.25]])
    assert value == pytest.approx(-(math.log(0.5) + math.log(0.75) + math.log(0.25)) / 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_log_loss__certain_probabilities__clipped_at_the_epsilon_of_their_dtype(dtype):
    epsilon = float(np.finfo(dtype).eps)
    wrong = metrics.log_loss([[1, 0]], np.array([[0, 1]], dtype=dtype))
    assert wrong == pytest.approx(-math.log(epsilon))
    assert metrics.log_loss([[1, 0]], np.array([[1, 0]], dtype=dtype)) == pytest.approx(epsilon, rel=1e-6)


def test_brier_score__hand_worked__mean_over_observed_cells():
    """(.25 + .0625 + .5625) / 3."""
    value = metrics.brier_score([[1, 0], [NAN, 1]], [[0.5, 0.25], [0.0, 0.25]])
    assert value == pytest.approx(0.875 / 3)


def test_log_loss_and_brier__missing_cells__equal_sklearn(big):
    labels, probs = with_missing(big[0]), big[1]
    seen = ~np.isnan(labels)
    assert metrics.log_loss(labels, probs) == pytest.approx(reference.log_loss(labels[seen], probs[seen]))
    assert metrics.brier_score(labels, probs) == pytest.approx(reference.brier_score_loss(labels[seen], probs[seen]))


def test_reliability_curve__hand_worked__upper_edge_belongs_to_the_bin_and_empty_bins_vanish():
    """Four bins: .25 is in the first, .26 in the second, 1 in the last; the third holds nothing."""
    curve = metrics.reliability_curve([[0, 1, 1], [1, 1, NAN]], [[0.05, 0.25, 0.26], [1.0, 0.9, 0.6]], n_bins=4)
    np.testing.assert_allclose(curve.mean_predicted, [0.15, 0.26, 0.95])
    np.testing.assert_allclose(curve.observed_rate, [0.5, 1.0, 1.0])
    np.testing.assert_array_equal(curve.count, [2, 1, 2])


def test_reliability_curve__many_cells__equal_sklearn(big):
    labels, probs = with_missing(big[0]), big[1]
    seen = ~np.isnan(labels)
    curve = metrics.reliability_curve(labels, probs, n_bins=7)
    rate, predicted = calibration_curve(labels[seen], probs[seen], n_bins=7)
    np.testing.assert_allclose(curve.observed_rate, rate)
    np.testing.assert_allclose(curve.mean_predicted, predicted)
    assert curve.count.sum() == seen.sum()


def test_calibration_error__hand_worked__gaps_weighted_by_cells():
    """Bin 1: three cells, mean .2, rate 1/3, gap 2/15. Bin 2: one cell at .9, gap .9. (.4 + .9) / 4."""
    value = metrics.calibration_error([[0, 1], [0, 0]], [[0.1, 0.2], [0.3, 0.9]], n_bins=2)
    assert value == pytest.approx(0.325)


def test_calibration_error__probabilities_equal_rates__zero():
    """Of four cells at .25 one is positive, of four at .75 three."""
    labels = [[1, 1], [0, 1], [0, 1], [0, 0]]
    assert metrics.calibration_error(labels, np.tile([0.25, 0.75], (4, 1))) == pytest.approx(0)
    assert metrics.calibration_error(labels, np.tile([0.75, 0.25], (4, 1))) == pytest.approx(0.5)


def test_calibration_error__all_cells_in_one_bin__gap_of_means():
    """Mean .25, rate 1/2: gap .25."""
    labels, probs = [[0, 0, 1, 1]], [[0.1, 0.2, 0.3, 0.4]]
    assert metrics.calibration_error(labels, probs, n_bins=2) == pytest.approx(0.25)


# Invariances --------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(tables())
def test_metrics__any_table__within_their_range(table):
    labels, probs = table
    for name, metric in metrics.METRICS.items():
        value = metric.function(labels, probs if metric.needs == "probs" else probs >= 0.5)
        assert type(value) is float
        assert math.isnan(value) or 0 <= value <= (40 if name == "log_loss" else 1 + 1e-12)


@settings(max_examples=50, deadline=None)
@given(tables(), st.randoms(use_true_random=False))
def test_metrics__rows_and_labels_permuted__unchanged(table, random):
    labels, probs = table
    rows = random.sample(range(labels.shape[0]), labels.shape[0])
    columns = random.sample(range(labels.shape[1]), labels.shape[1])
    shuffled = np.ix_(rows, columns)
    for name, metric in metrics.METRICS.items():
        given_table = probs if metric.needs == "probs" else probs >= 0.5
        expected = metric.function(labels, given_table)
        assert metric.function(labels[shuffled], given_table[shuffled]) == pytest.approx(
            expected, rel=1e-6, abs=1e-12, nan_ok=True
        ), name


@settings(max_examples=30, deadline=None)
@given(tables(missing=False))
def test_metrics__labels_of_other_types__same_values(table):
    labels, probs = table
    for metric in metrics.METRICS.values():
        given_table = probs if metric.needs == "probs" else probs >= 0.5
        values = [
            metric.function(kind, given_table)
            for kind in (
                labels,
                labels.astype(bool),
                labels.astype(int),
                pd.DataFrame(labels),
                labels.tolist(),
            )
        ]
        assert values == pytest.approx([values[0]] * 5, nan_ok=True)


# Thresholds ---------------------------------------------------------------------------------------------


def test_thresholds__standard_grid__27_exact_decimals_read_only():
    assert THRESHOLDS.shape == (27,)
    assert THRESHOLDS.tolist() == [
        *(0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45),
        *(0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95),
    ]
    with pytest.raises(ValueError, match="read-only"):
        THRESHOLDS[0] = 0.5


def test_threshold_curves__hand_worked():
    """At .3 everything but (1, 0) is predicted; at .6 (0, 0) and (1, 1); at .9 only (0, 0).

    Label F1s: (1, 1, 1) and (2/3, 1, 0); rows (2/3, 1), (1, 1), (1, 0).
    """
    curves = metrics.threshold_curves([[1, 0], [0, 1]], [[0.9, 0.3], [0.1, 0.6]], [0.3, 0.6, 0.9])
    np.testing.assert_allclose(curves.label_f1, [[1, 2 / 3], [1, 1], [1, 0]])
    np.testing.assert_allclose(curves.macro_f1, [5 / 6, 1, 1 / 2])
    np.testing.assert_allclose(curves.micro_f1, [4 / 5, 1, 2 / 3])
    np.testing.assert_allclose(curves.example_f1, [5 / 6, 1, 1 / 2])
    np.testing.assert_allclose(curves.hamming_accuracy, [3 / 4, 1, 3 / 4])
    np.testing.assert_allclose(curves.subset_accuracy, [1 / 2, 1, 1 / 2])
    np.testing.assert_array_equal(curves.label_true_positives, [[1, 1], [1, 1], [1, 0]])
    np.testing.assert_array_equal(curves.label_predicted, [[1, 2], [1, 1], [1, 0]])
    np.testing.assert_array_equal(curves.label_positives, [1, 1])
    np.testing.assert_array_equal(curves.label_observed, [2, 2])


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(tables(), st.sampled_from(["drop", "one", "zero"]))
def test_threshold_curves__any_table__equal_each_metric_at_each_threshold(table, empty):
    labels, probs = table
    curves = metrics.threshold_curves(labels, probs, empty=empty)
    for index, threshold in enumerate(THRESHOLDS):
        predictions = probs.astype(np.float64) >= threshold
        expected = {name: metrics.METRICS[name].function(labels, predictions) for name in PREDICTION_METRICS}
        expected["example_f1"] = metrics.example_f1(labels, predictions, empty)
        got = {name: getattr(curves, name)[index] for name in PREDICTION_METRICS}
        assert got == pytest.approx(expected, nan_ok=True)
        for label in np.flatnonzero(curves.label_observed):
            one = metrics.macro_f1(labels[:, [label]], predictions[:, [label]])
            assert curves.label_f1[index, label] == pytest.approx(one, nan_ok=True)


def test_threshold_curves__many_chunks__equal_one(monkeypatch, big):
    labels, probs = with_missing(big[0]), big[1]
    whole = metrics.threshold_curves(labels, probs)
    monkeypatch.setattr("hotvae.metrics.curves._CELLS_PER_CHUNK", 13)
    chunked = metrics.threshold_curves(labels, probs)
    for field in dataclasses.fields(whole):
        np.testing.assert_allclose(getattr(chunked, field.name), getattr(whole, field.name), rtol=1e-12)


def test_threshold_curves__probability_on_the_threshold__float64_rule_for_both_dtypes():
    """float32 .7 is .69999998807 and does not reach .7; float32 .3 is .30000001192 and reaches .3."""
    for value, reached in ((0.7, 0), (0.3, 1)):
        curves = metrics.threshold_curves([[1]], np.array([[value]], dtype=np.float32), [value])
        assert curves.label_predicted.item() == reached
        assert metrics.threshold_curves([[1]], [[value]], [value]).label_predicted.item() == 1


def test_threshold_curves__thresholds_zero_and_one__all_and_only_certain_labels():
    curves = metrics.threshold_curves([[1, 0]], [[1.0, 0.0]], [0, 1])
    np.testing.assert_array_equal(curves.label_predicted, [[1, 1], [1, 0]])


def test_threshold_curves__50000_rows_100_labels__little_memory():
    rng = np.random.default_rng(0)
    probs = rng.random((50_000, 100)) ** 2
    labels = (rng.random(probs.shape) < probs).astype(float)
    tracemalloc.start()
    metrics.threshold_curves(labels, probs)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < probs.nbytes  # a table of predictions per threshold would take 27 bytes per cell


def test_best__ties__nearest_one_half_then_lower():
    thresholds = np.array([0.2, 0.45, 0.55, 0.7])
    assert best_threshold_index(np.array([0.9, 0.9, 0.9, 0.9]), thresholds) == 1
    assert best_threshold_index(np.array([0.9, 0.9]), np.array([0.3, 0.7])) == 0  # 0.7 - 0.5 < 0.2 in binary
    assert best_threshold_index(np.array([0.9, 0.1, 0.1, 0.9]), thresholds) == 3
    assert best_threshold_index(np.array([0.9, 0.1, 0.1, 0.9 - 1e-15]), thresholds) == 3
    assert best_threshold_index(np.array([0.9, 0.1, 0.1, 0.9 - 1e-9]), thresholds) == 0
    assert best_threshold_index(np.array([NAN, 0.0, NAN, 0.1]), thresholds) == 3
    by_label = best_threshold_index(np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 2.0]]), thresholds)
    np.testing.assert_array_equal(by_label, [0, 3])


def test_score__prediction_metric__best_over_thresholds():
    """Perfect from above .3 to .6: .35, .4, .45, .5, .55, .6."""
    labels, probs = [[1, 0], [0, 1]], [[0.9, 0.3], [0.1, 0.6]]
    assert metrics.score(labels, probs, "macro_f1") == (1.0, 0.5)
    assert metrics.score(labels, probs, "macro_f1", thresholds=[0.1, 0.2]) == (pytest.approx(5 / 6), 0.2)


def test_score__no_positives_at_all__nan_at_one_half():
    """The only row is 0/0 at every threshold."""
    value, threshold = metrics.score([[0, 0]], [[0.0, 0.0]], "example_f1")
    assert math.isnan(value)
    assert threshold == 0.5


def test_score__prob_metric__value_without_threshold():
    assert metrics.score([[1, 0]], [[0.5, 0.5]], "log_loss") == (pytest.approx(math.log(2)), None)


# The table of measures and its errors ---------------------------------------------------------------------


def test_metrics_table__names_titles_and_directions():
    assert {name: metric.title for name, metric in metrics.METRICS.items()} == {
        "example_f1": "ebF1",
        "micro_f1": "miF1",
        "macro_f1": "maF1",
        "hamming_accuracy": "HA",
        "subset_accuracy": "subset accuracy",
        "median_auc": "median AUC",
        "mean_auc": "mean AUC",
        "mean_average_precision": "AUPR",
        "precision_at_1": "P@1",
        "precision_at_3": "P@3",
        "precision_at_5": "P@5",
        "log_loss": "log loss",
        "brier_score": "Brier",
        "calibration_error": "ECE",
    }
    losses = {name for name, metric in metrics.METRICS.items() if not metric.greater_is_better}
    assert losses == {"log_loss", "brier_score", "calibration_error"}
    assert [name for name, metric in metrics.METRICS.items() if metric.needs == "predictions"] == PREDICTION_METRICS
    assert all(name == metric.name for name, metric in metrics.METRICS.items())


@pytest.mark.parametrize(("name", "k"), [("precision_at_1", 1), ("precision_at_3", 3), ("precision_at_5", 5)])
def test_metrics_table__precision_at_k__carries_its_k(big, name, k):
    assert metrics.METRICS[name].function(*big) == metrics.precision_at_k(*big, k)


@pytest.mark.parametrize("name", list(metrics.METRICS))
def test_metrics_table__better_predictions__score_better(name):
    """Labels themselves against their opposite: the sign of greater_is_better is right for every measure."""
    labels = np.eye(6)
    metric = metrics.METRICS[name]
    good, bad = metric.function(labels, labels), metric.function(labels, 1 - labels)
    assert good > bad if metric.greater_is_better else good < bad


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("macrof1", "'macro_f1'"),
        ("maF1", "'macro_f1'"),
        ("P@3", "'precision_at_3'"),
        ("logloss", "'log_loss'"),
    ],
)
def test_find_metric__unknown__lists_names_and_the_closest(name, hint):
    with pytest.raises(ConfigError, match=rf"^metric must be one of 'example_f1', .*; got '{name}'\. .*mean {hint}\?"):
        metrics.find_metric(name)


def test_find_metric__nothing_close__no_hint():
    with pytest.raises(ConfigError, match=r"'calibration_error'; got 'zzz'\.$"):
        metrics.score([[1]], [[0.5]], "zzz")


def test_best__measure_of_probabilities__refused():
    with pytest.raises(ConfigError, match=r"metric must be a measure of predictions, one of .*; got 'log_loss'"):
        metrics.threshold_curves([[1]], [[0.5]]).best("log_loss")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, 0], r"labels must have shape \(n_samples, n_labels\); got \(2,\)\. .*reshape"),
        (np.zeros((0, 3)), r"labels must hold at least one row and one label; got shape \(0, 3\)"),
        (np.zeros((3, 0)), r"labels must hold at least one row and one label; got shape \(3, 0\)"),
        ([[0, 1], [0, 2]], r"labels must be 0, 1 or NaN; got 2 in label 1 \(rows 1\)\. .*labels > 0"),
        ([[0, -1.0]] * 7, r"got -1\.0 in label 1 \(rows 0, 1, 2, 3, 4, \+2 more\)"),
        ([[NAN, np.inf]], r"labels must be 0, 1 or NaN; got inf in label 1"),
        ([[NAN, NAN]], r"labels must have at least one observed cell; got only NaN \(shape \(1, 2\)\)"),
        ([["1", "0"]], r"labels must be a dense table of numbers; got list \(dtype <U1\)"),
        ([[1, 0], [1]], "labels must be a dense table of numbers; got list"),
        (pd.DataFrame({"a": [True, pd.NA]}), "labels must be a dense table of numbers; got DataFrame .*NaN"),
        (scipy.sparse.csr_array([[1, 0]]), "labels must be a dense table of numbers; got csr_array"),
    ],
)
def test_labels__that_do_not_fit__clear_error(labels, message):
    with pytest.raises(DataError, match=message):
        check_labels(labels)


def test_labels__object_columns_of_numbers__accepted():
    table = pd.DataFrame({"a": [True, False], "b": [0.0, NAN]})
    assert check_labels(table).positive.tolist() == [[True, False], [False, False]]


@pytest.mark.parametrize("name", PROB_METRICS)
@pytest.mark.parametrize(
    ("probs", "message"),
    [
        (
            [[0.5, 0.5, 0.5]],
            r"probs must have the shape of labels, \(1, 2\); got \(1, 3\)\. .*one column per label",
        ),
        ([[0.5, 1.5]], r"probs must be between 0 and 1; got 1\.5 in label 1 \(rows 0\)\. .*sigmoid"),
        ([[-0.1, 0.5]], r"probs must be between 0 and 1; got -0\.1 in label 0"),
        ([[0.5, NAN]], r"probs must be between 0 and 1; got nan in label 1"),
    ],
)
def test_probs__that_do_not_fit__clear_error(name, probs, message):
    with pytest.raises(DataError, match=message):
        metrics.METRICS[name].function([[1, 0]], probs)
    with pytest.raises(DataError, match=message):
        metrics.threshold_curves([[1, 0]], probs)


@pytest.mark.parametrize("name", PREDICTION_METRICS)
@pytest.mark.parametrize(
    ("predictions", "message"),
    [
        ([[1], [0]], r"predictions must have the shape of labels, \(1, 2\); got \(2, 1\)"),
        ([[1, 0.4]], r"predictions must be 0 or 1; got 0\.4 in label 1 \(rows 0\)\. .*apply_thresholds"),
        ([[NAN, 1]], r"predictions must be 0 or 1; got nan in label 0"),
    ],
)
def test_predictions__that_do_not_fit__clear_error(name, predictions, message):
    with pytest.raises(DataError, match=message):
        metrics.METRICS[name].function([[1, 0]], predictions)


def test_check_probs__float32__neither_copied_nor_widened():
    probs = np.full((2, 2), 0.5, dtype=np.float32)
    assert check_probs(probs) is probs


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: metrics.example_f1([[1]], [[1]], empty="skip"),
            "empty must be one of 'drop', 'one', 'zero'; got 'skip'",
        ),
        (lambda: metrics.threshold_curves([[1]], [[1]], empty="skip"), "empty must be one of"),
        (lambda: metrics.precision_at_k([[1]], [[1]], 0), "k must be a whole number of at least 1; got 0"),
        (
            lambda: metrics.precision_at_k([[1]], [[1]], 1.5),
            "k must be a whole number of at least 1; got 1.5",
        ),
        (
            lambda: metrics.precision_at_k([[1]], [[1]], True),
            "k must be a whole number of at least 1; got True",
        ),
        (
            lambda: metrics.calibration_error([[1]], [[1]], 0),
            "n_bins must be a whole number of at least 1; got 0",
        ),
        (
            lambda: metrics.threshold_curves([[1]], [[1]], [0.5, 0.2]),
            r"thresholds must be a list of ascending numbers between 0 and 1; got 0\.5, 0\.2\. .*np\.unique",
        ),
        (lambda: metrics.threshold_curves([[1]], [[1]], [0.5, 1.2]), r"got 0\.5, 1\.2"),
        (lambda: metrics.threshold_curves([[1]], [[1]], [NAN]), "got nan"),
        (lambda: metrics.threshold_curves([[1]], [[1]], 0.5), r"got shape \(\)"),
        (lambda: metrics.threshold_curves([[1]], [[1]], []), "thresholds must be a list of .*; got none"),
    ],
)
def test_options__that_do_not_fit__clear_error(call, message):
    with pytest.raises(ConfigError, match=message):
        call()


def test_paired_log_loss__two_rows__matches_hand_calculation():
    """Row gaps ln(.4/.8) = -.693147 and 0: mean -.346574, sd .490129, half width 1.96 * .490129 / sqrt 2 = .679274."""
    gap, half_width = metrics.paired_log_loss([[1], [1]], [[0.8], [0.5]], [[0.4], [0.5]])
    assert gap == pytest.approx(-0.346574, abs=1e-6)
    assert half_width == pytest.approx(0.679274, abs=1e-5)


def test_paired_log_loss__full_rows__gap_is_the_difference_of_log_losses():
    rng = np.random.default_rng(0)
    labels, first, second = rng.integers(0, 2, (30, 4)), rng.random((30, 4)), rng.random((30, 4))
    gap, _ = metrics.paired_log_loss(labels, first, second)
    assert gap == pytest.approx(metrics.log_loss(labels, first) - metrics.log_loss(labels, second))
    assert metrics.paired_log_loss(labels, second, first)[0] == pytest.approx(-gap)


def test_paired_log_loss__unobserved_cells_and_rows__left_out():
    labels = [[1, np.nan], [np.nan, np.nan], [0, 1]]
    probs, rival = np.full((3, 2), 0.5), np.full((3, 2), 0.25)
    gap, _ = metrics.paired_log_loss(labels, probs, rival)
    first, last = np.log(0.25 / 0.5), (np.log(0.75 / 0.5) + np.log(0.25 / 0.5)) / 2
    assert gap == pytest.approx((first + last) / 2)


def test_paired_log_loss__one_row__has_no_interval():
    gap, half_width = metrics.paired_log_loss([[1]], [[0.5]], [[0.25]])
    assert gap == pytest.approx(-np.log(2))
    assert np.isnan(half_width)
