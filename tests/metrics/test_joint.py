"""Measures of labels together, by hand."""

import numpy as np
import pytest

from hotvae.errors import ConfigError, DataError
from hotvae.metrics import example_f1, example_jaccard, joint_scores, known_part, subset_accuracy, unknown_losses

LABELS = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0], [1.0, 1.0, np.nan, 0.0]])
LISTS = np.array([[1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]])


def scores(**more):
    settings = {
        "log_likelihood": [-1.0, -2.0, -3.0],
        "probs_given": lambda known: np.where(np.isnan(known), 0.5, known),
        "draws": np.zeros((5, 3, 4), dtype=int),
        "lists": {"f1": LISTS, "jaccard": LISTS, "subset": LISTS},
    }
    return joint_scores(LABELS, **settings | more)


def test_nll__rows_and_labels__by_hand():
    """6 nats in 3 rows, and in 11 observed labels."""
    found = scores()
    assert found.values["nll_row"] == pytest.approx(2)
    assert found.values["nll_label"] == pytest.approx(6 / 11)
    np.testing.assert_array_equal(found.rows["n_observed"], [4, 4, 3])


def test_unknown_losses__known_and_unobserved__do_not_count():
    known = np.full(LABELS.shape, np.nan)
    known[0, 0] = 1
    probs = np.full(LABELS.shape, 0.2)
    losses, counts = unknown_losses(LABELS, known, probs)
    np.testing.assert_allclose(
        losses, [-2 * np.log(0.8) - np.log(0.2), -4 * np.log(0.8), -2 * np.log(0.2) - np.log(0.8)]
    )
    np.testing.assert_array_equal(counts, [3, 4, 3])


def test_unknown_losses__sure_and_wrong__costs_a_millionth():
    assert unknown_losses([[1.0]], [[np.nan]], [[0.0]])[0][0] == pytest.approx(-np.log(1e-6))


def test_given__every_share__asks_for_the_rest():
    """A coin costs ln 2 a label, whatever is known; three masks of half of four labels ask for 2 of each row."""
    found = scores()
    for name in ("given_0", "given_10", "given_25", "given_50"):
        assert found.values[name] == pytest.approx(np.log(2))
    assert found.rows["n_given_50"][:2].tolist() == [6, 6]
    assert 3 <= found.rows["n_given_50"][2] <= 6
    assert np.isnan(found.values["given_90"])  # nine tenths of four labels are all of them


def test_known_part__same_mask__same_labels_whatever_they_are():
    one, other = known_part(np.zeros((6, 8)), 0.25, 3), known_part(np.ones((6, 8)), 0.25, 3)
    np.testing.assert_array_equal(np.isnan(one), np.isnan(other))
    assert ((~np.isnan(one)).sum(axis=1) == 2).all()
    assert (np.isnan(known_part(np.zeros((6, 8)), 0.25, 4)) != np.isnan(one)).any()


def test_lists__with_a_gap_and_an_empty_row__by_hand():
    """F1s: 2/3, both empty, 4/5 (the unobserved label does not count); Jaccards: 1/2, both empty, 2/3."""
    found = scores()
    np.testing.assert_allclose(found.rows["f1"], [2 / 3, 1, 4 / 5])
    np.testing.assert_allclose(found.rows["jaccard"], [1 / 2, 1, 2 / 3])
    np.testing.assert_allclose(found.rows["subset"], [0, 1, 0])
    assert found.empty == "one"
    zero = scores(empty="zero")
    assert (zero.values["f1"], zero.values["jaccard"]) == pytest.approx(((2 / 3 + 4 / 5) / 3, (1 / 2 + 2 / 3) / 3))
    assert scores(empty="drop").values["jaccard"] == pytest.approx((1 / 2 + 2 / 3) / 2)


def test_lists__means__are_those_of_the_single_measures():
    found = scores()
    assert found.values["f1"] == pytest.approx(example_f1(LABELS, LISTS, "one"))
    assert found.values["jaccard"] == pytest.approx(example_jaccard(LABELS, LISTS))
    assert found.values["subset"] == pytest.approx(subset_accuracy(LABELS, LISTS))


def test_coverage__draws_of_the_true_law__is_nominal():
    random = np.random.default_rng(0)
    labels = (random.random((4000, 6)) < 0.4).astype(float)
    draws = (random.random((99, 4000, 6)) < 0.4).astype(int)
    lists = {"f1": labels}
    found = joint_scores(
        labels,
        log_likelihood=np.zeros(4000),
        probs_given=lambda known: np.full(labels.shape, 0.4),
        draws=draws,
        lists=lists,
    )
    for level in (50, 80, 90):
        assert found.values[f"coverage_{level}"] == pytest.approx(level / 100, abs=0.03)


def test_wrong_tables__are_named():
    with pytest.raises(DataError, match=r"log_likelihood must have shape \(3,\); got \(2,\)"):
        scores(log_likelihood=[1.0, 2.0])
    with pytest.raises(ConfigError, match="empty must be one of"):
        example_jaccard(LABELS, LISTS, empty="half")
