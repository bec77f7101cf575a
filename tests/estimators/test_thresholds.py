"""Thresholds: application at the boundary, deterministic tuning, evaluation under both protocols."""

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotvae import metrics
from hotvae.errors import ConfigError, DataError
from hotvae.estimators.thresholds import (
    PREDICTION_METRICS,
    THRESHOLDS,
    apply_thresholds,
    evaluate,
    evaluate_protocols,
    tune_label_thresholds,
    tune_thresholds,
)

NAN = math.nan
ROWS = {"labels": [[1, 1, 0], [0, 0, 0]], "probs": [[0.3, 0.8, 0.2], [0.1, 0.6, 0.1]]}


def draw_table(seed, n_rows=60, n_labels=4, missing=0.1):
    rng = np.random.default_rng(seed)
    probs = rng.random((n_rows, n_labels)).round(2)
    labels = (rng.random(probs.shape) < probs**2).astype(float)
    return np.where(rng.random(probs.shape) < missing, np.nan, labels), probs


# Applying -------------------------------------------------------------------------------------------------


def test_apply_thresholds__probability_on_the_threshold__predicted():
    assert apply_thresholds([[0.5, 0.49999]]).tolist() == [[True, False]]


def test_apply_thresholds__one_per_label__each_column_its_own():
    assert apply_thresholds([[0.5, 0.5], [0.2, 0.9]], [0.2, 0.6]).tolist() == [[True, False], [True, True]]


@pytest.mark.parametrize("threshold", THRESHOLDS.tolist())
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_apply_thresholds__on_the_grid__float64_rule_and_same_as_curves(threshold, dtype):
    probs = np.array([[threshold, 0.0, 1.0]], dtype=dtype)
    predictions = apply_thresholds(probs, threshold)
    assert predictions.tolist() == [[float(probs[0, 0]) >= threshold, False, True]]
    np.testing.assert_array_equal(predictions, apply_thresholds(probs.astype(np.float64), threshold))
    np.testing.assert_array_equal(predictions, apply_thresholds(probs, [threshold] * 3))
    curves = metrics.threshold_curves(np.ones((1, 3)), probs, [threshold])
    np.testing.assert_array_equal(curves.label_predicted, predictions)


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        (1.5, r"thresholds must be between 0 and 1; got 1\.5"),
        (NAN, "thresholds must be between 0 and 1; got nan"),
        ([0.5, -1], r"thresholds must be between 0 and 1; got -1\.0"),
        ([0.5, 0.5, 0.5], r"thresholds must be one number or one per label \(2\); got shape \(3,\)"),
        ([[0.5, 0.5]], r"got shape \(1, 2\)"),
        ({"macro_f1": 0.5}, r"thresholds must be one number or one per label; got dict\. .*\['macro_f1'\]"),
        ("best", "thresholds must be one number or one per label; got str"),
    ],
)
def test_apply_thresholds__thresholds_that_do_not_fit__clear_error(thresholds, message):
    with pytest.raises(ConfigError, match=message):
        apply_thresholds([[0.5, 0.5]], thresholds)


def test_apply_thresholds__logits__refused():
    with pytest.raises(DataError, match=r"probs must be between 0 and 1; got -3\.0 in label 0"):
        apply_thresholds([[-3.0]], 0.5)


# One threshold per measure --------------------------------------------------------------------------------


def test_tune_thresholds__hand_worked__each_measure_its_own():
    """Positives .3 and .8, negatives .1, .1, .2 and .6.

    At .25 and .3: hits 2 of 3 predicted, miF1 4/5, one wrong cell, row 0 exact and row 1 not.
    At .65 to .8: hits 1 of 1, miF1 2/3, one wrong cell, row 1 exact and row 0 not.
    So both accuracies tie, and of those thresholds .65 is nearest .5.
    """
    chosen = tune_thresholds(**ROWS)
    assert chosen == {
        "example_f1": 0.65,  # row 0: 2/3 and row 1 dropped; at .3 (1 + 0) / 2
        "micro_f1": 0.3,
        "macro_f1": 0.3,  # (1 + 2/3 + 0) / 3 against (0 + 1 + 0) / 3
        "hamming_accuracy": 0.65,
        "subset_accuracy": 0.65,
    }
    assert all(type(threshold) is float for threshold in chosen.values())


def test_tune_thresholds__all_equal__one_half():
    assert tune_thresholds([[1, 0]], [[1.0, 0.0]]) == dict.fromkeys(PREDICTION_METRICS, 0.5)


def test_tune_thresholds__no_positives__one_half():
    assert tune_thresholds([[0, 0]], [[0.0, 0.0]]) == dict.fromkeys(PREDICTION_METRICS, 0.5)


def test_tune_thresholds__empty_policy__changes_the_choice_of_example_f1():
    """Row 0 wants .1 (F1 1 instead of 0), rows 1 and 2 hold nothing: an empty prediction is worth 0/0."""
    labels, probs = [[1], [0], [0]], [[0.1], [0.4], [0.4]]
    assert tune_thresholds(labels, probs, ["example_f1"]) == {"example_f1": 0.1}
    assert tune_thresholds(labels, probs, ["example_f1"], empty="one") == {"example_f1": 0.5}


def test_tune_thresholds__own_candidates__only_those():
    assert tune_thresholds(**ROWS, metrics=["micro_f1"], thresholds=[0.05, 0.7]) == {"micro_f1": 0.7}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_tune_thresholds__any_table__no_candidate_is_better_and_row_order_is_irrelevant(seed):
    labels, probs = draw_table(seed, n_rows=12)
    chosen = tune_thresholds(labels, probs)
    for name, threshold in chosen.items():
        function = metrics.METRICS[name].function
        best = max(function(labels, apply_thresholds(probs, t)) for t in THRESHOLDS)
        assert function(labels, apply_thresholds(probs, threshold)) == pytest.approx(best)
    rows = np.random.default_rng(seed).permutation(len(labels))
    assert tune_thresholds(labels[rows], probs[rows]) == chosen


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "macrof1",
            r"metric must be a measure of predictions, one of .*; got 'macrof1'\. Did you mean 'macro_f1'\?",
        ),
        ("log_loss", "metric must be a measure of predictions, one of 'example_f1', .*; got 'log_loss'"),
    ],
)
def test_tune_thresholds__not_a_measure_of_predictions__clear_error(name, message):
    with pytest.raises(ConfigError, match=message):
        tune_thresholds(**ROWS, metrics=[name])


# One threshold per label ----------------------------------------------------------------------------------


def test_tune_label_thresholds__hand_worked__label_without_positives_keeps_the_pooled():
    """Label 0 is perfect from .15 to .3, label 1 from .65 to .8; pooled miF1 is 4/5 at .25 and .3."""
    np.testing.assert_array_equal(tune_label_thresholds(**ROWS), [0.3, 0.65, 0.3])


def test_tune_label_thresholds__accuracy__maximises_each_label_and_the_pooled():
    """Pooled accuracy ties at .3 and .65 (one wrong cell each): .65 is nearer one half."""
    np.testing.assert_array_equal(tune_label_thresholds(**ROWS, metric="accuracy"), [0.3, 0.65, 0.65])


def test_tune_label_thresholds__accuracy_and_f1__differ_where_they_must():
    """One of three reaching .2 is true: F1 .5 there and 0 above; accuracy 1/3 there and 2/3 above."""
    labels, probs = [[1], [0], [0]], [[0.2], [0.2], [0.2]]
    assert tune_label_thresholds(labels, probs).tolist() == [0.2]
    assert tune_label_thresholds(labels, probs, "accuracy").tolist() == [0.5]


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_tune_label_thresholds__any_table__best_macro_f1_of_all_combinations(seed):
    labels, probs = draw_table(seed, n_rows=10, n_labels=2)
    chosen = tune_label_thresholds(labels, probs)
    best = max(
        metrics.macro_f1(labels, apply_thresholds(probs, list(pair)))
        for pair in itertools.product(THRESHOLDS, repeat=2)
    )
    assert metrics.macro_f1(labels, apply_thresholds(probs, chosen)) == pytest.approx(best)


def test_tune_label_thresholds__rare_label__trusts_a_single_positive():
    """The frequent label (40 positives at .8, negatives at .6) has .65, the other (one at .2 against .1) .2."""
    labels, probs = np.zeros((80, 2)), np.tile([0.6, 0.1], (80, 1))
    labels[:40, 0], probs[:40, 0] = 1, 0.8
    labels[0, 1], probs[0, 1] = 1, 0.2
    np.testing.assert_array_equal(tune_label_thresholds(labels, probs), [0.65, 0.2])


def test_tune_label_thresholds__label_never_observed_or_nothing_positive__defined():
    np.testing.assert_array_equal(tune_label_thresholds([[1, NAN], [0, NAN]], [[0.3, 1], [0.1, 1]]), [0.3, 0.3])
    np.testing.assert_array_equal(tune_label_thresholds([[0, 0]], [[0.3, 0.9]]), [0.5, 0.5])


def test_tune_label_thresholds__unknown_metric__clear_error():
    with pytest.raises(ConfigError, match="metric must be 'f1' or 'accuracy'; got 'f2'"):
        tune_label_thresholds(**ROWS, metric="f2")


# Evaluation -----------------------------------------------------------------------------------------------


def test_evaluate__all_measures__each_at_its_own_threshold():
    labels, probs = draw_table(1)
    thresholds = dict(zip(PREDICTION_METRICS, [0.2, 0.3, 0.4, 0.5, 0.6], strict=True))
    result = evaluate(labels, probs, thresholds)
    assert list(result)[: len(metrics.METRICS)] == list(metrics.METRICS)
    for name, metric in metrics.METRICS.items():
        given_table = probs >= thresholds[name] if metric.needs == "predictions" else probs
        assert result[name] == metric.function(labels, given_table)
    assert result["thresholds"] == thresholds
    assert json.loads(json.dumps(result)) == result


def test_evaluate__hand_worked__counts_and_policy():
    """Label 1 has one class and no positive, label 2 one class; two cells are not observed."""
    labels = [[1, 0, 1], [0, 0, 1], [0, NAN, NAN]]
    probs = [[0.9, 0.1, 0.9], [0.1, 0.2, 0.8], [0.2, 0.3, 0.3]]
    result = evaluate(labels, probs, empty="one")
    counts = ("n_rows", "n_labels", "n_observed", "n_labels_without_auc", "n_labels_without_positives")
    assert [result[name] for name in counts] == [3, 3, 7, 2, 1]
    assert result["empty"] == "one"
    assert result["thresholds"] == dict.fromkeys(PREDICTION_METRICS, 0.5)
    assert result["example_f1"] == 1.0


def test_evaluate__empty_policy__reaches_example_f1():
    labels, probs = [[1, 1], [0, 0]], [[0.9, 0.1], [0.1, 0.1]]
    values = [evaluate(labels, probs, empty=empty)["example_f1"] for empty in ("drop", "one", "zero")]
    assert values == pytest.approx([2 / 3, 5 / 6, 1 / 3])


def test_evaluate__one_threshold_per_label__used_and_reported():
    result = evaluate(**ROWS, thresholds=tune_label_thresholds(**ROWS))
    assert result["hamming_accuracy"] == 1.0
    assert result["thresholds"]["macro_f1"] == [0.3, 0.65, 0.3]


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        (
            {"macro_f1": 0.5, "micro_f1": 0.5},
            "thresholds must name every measure of predictions; got none for "
            "'example_f1', 'hamming_accuracy', 'subset_accuracy'",
        ),
        ({"maf1": 0.5}, r"metric must be a measure of predictions.*; got 'maf1'\. Did you mean 'macro_f1'\?"),
        ({"log_loss": 0.5}, "metric must be a measure of predictions.*; got 'log_loss'"),
        (2.0, r"thresholds must be between 0 and 1; got 2\.0"),
    ],
)
def test_evaluate__thresholds_that_do_not_fit__clear_error(thresholds, message):
    with pytest.raises(ConfigError, match=message):
        evaluate(**ROWS, thresholds=thresholds)


def test_evaluate__different_shapes__clear_error():
    with pytest.raises(DataError, match=r"probs must have the shape of labels, \(1, 1\); got \(1, 2\)"):
        evaluate([[1]], [[0.5, 0.5]])


# Protocols ------------------------------------------------------------------------------------------------


def test_evaluate_protocols__honest_and_oracle__thresholds_from_their_own_rows_only():
    test, validation = draw_table(2), draw_table(3, n_rows=40)
    both = evaluate_protocols(*test, *validation)
    assert list(both) == ["honest", "oracle"]
    assert both["honest"]["thresholds"] == tune_thresholds(*validation)
    assert both["oracle"]["thresholds"] == tune_thresholds(*test)
    assert both["honest"]["thresholds"] != both["oracle"]["thresholds"]
    for name, result in both.items():
        assert result == {"protocol": name} | evaluate(*test, result["thresholds"])


def test_evaluate_protocols__test_labels_changed__honest_thresholds_stay():
    labels, probs = draw_table(2)
    validation = draw_table(3)
    first = evaluate_protocols(labels, probs, *validation)
    second = evaluate_protocols(1 - labels, probs, *validation)
    assert first["honest"]["thresholds"] == second["honest"]["thresholds"]
    assert first["oracle"]["thresholds"] != second["oracle"]["thresholds"]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_evaluate_protocols__any_rows__oracle_is_never_behind(seed):
    both = evaluate_protocols(*draw_table(seed, 15), *draw_table(seed + 1, 15))
    for name in PREDICTION_METRICS:
        assert both["oracle"][name] >= both["honest"][name] - 1e-12


def test_evaluate_protocols__empty_policy__reaches_tuning_and_score():
    """As for tune_thresholds above: counting empty rows as 1 moves the threshold from .1 to .5."""
    table = ([[1], [0], [0]], [[0.1], [0.4], [0.4]])
    for empty, threshold, value in (("drop", 0.1, 1 / 3), ("one", 0.5, 2 / 3)):
        for result in evaluate_protocols(*table, *table, empty=empty).values():
            assert result["thresholds"]["example_f1"] == threshold
            assert result["example_f1"] == pytest.approx(value)
            assert result["empty"] == empty


def test_evaluate_protocols__other_number_of_labels__clear_error():
    with pytest.raises(DataError, match="validation_probs must have the labels of test_probs, 1; got 2"):
        evaluate_protocols([[1]], [[0.5]], [[1, 0]], [[0.5, 0.5]])
