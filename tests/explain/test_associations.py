"""Associations left over given the features: hand-worked values, a slow reference, and recovery of a known truth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotvae.data.synthetic import virtual_region
from hotvae.errors import ConfigError, DataError
from hotvae.explain import residual_associations, strongest_associations
from hotvae.explain.associations import MAX_LOG_ODDS, _joint_probability, _PairModel


def slow_association(labels, probs, i, j):
    """Correlation and z of one pair by loops; centres use every observed row of each label."""
    n_rows = len(labels)
    centre = []
    for label in (i, j):
        seen = [n for n in range(n_rows) if not np.isnan(labels[n, label])]
        centre.append(sum(labels[n, label] - probs[n, label] for n in seen) / len(seen))
    cross = squares = first = second = 0.0
    for n in range(n_rows):
        if np.isnan(labels[n, i]) or np.isnan(labels[n, j]):
            continue
        a = labels[n, i] - probs[n, i] - centre[0]
        b = labels[n, j] - probs[n, j] - centre[1]
        cross += a * b
        squares += (a * b) ** 2
        first += a * a
        second += b * b
    return cross / np.sqrt(first * second), cross / np.sqrt(squares)


def random_tables(seed, n_rows=40, n_labels=4, missing=0.2):
    rng = np.random.default_rng(seed)
    labels = (rng.random((n_rows, n_labels)) < 0.5).astype(float)
    labels[rng.random(labels.shape) < missing] = np.nan
    return labels, rng.uniform(0.1, 0.9, labels.shape)


def test_residual_associations__four_rows__match_hand_calculation():
    """Residuals (.5, -.5, .5, -.5) and (.5, -.5, -.5, -.5) - their mean -.25 = (.75, -.25, -.25, -.25).

    Products .375, .125, -.125, .125: sum .5; squares of products sum to .1875; sums of squares 1 and .75.
    """
    labels = np.array([[1, 1], [0, 0], [1, 0], [0, 0]])
    found = residual_associations(labels, np.full((4, 2), 0.5))
    assert found.correlation[0, 1] == pytest.approx(0.5 / np.sqrt(0.75))
    assert found.z[0, 1] == pytest.approx(0.5 / np.sqrt(0.1875))
    assert found.n_rows[0, 1] == 4
    assert np.isnan(np.diag(found.correlation)).all()


def test_residual_associations__opposite_labels__are_negative():
    labels = np.array([[1, 0], [0, 1]] * 8)
    found = residual_associations(labels, np.full((16, 2), 0.5))
    assert found.correlation[0, 1] == pytest.approx(-1.0)
    assert found.z[0, 1] == pytest.approx(-4.0)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_residual_associations__missing_labels__equal_slow_reference(seed):
    labels, probs = random_tables(seed)
    found = residual_associations(labels, probs)
    for i, j in ((0, 1), (2, 3), (3, 0)):
        correlation, z = slow_association(labels, probs, i, j)
        assert found.correlation[i, j] == pytest.approx(correlation)
        assert found.z[i, j] == pytest.approx(z)
    np.testing.assert_allclose(found.z, found.z.T)


def test_residual_associations__constant_residuals__are_nan_without_warning():
    found = residual_associations([[1, 0], [1, 1], [1, 0]], [[1.0, 0.5]] * 3)
    assert np.isnan(found.correlation[0, 1])
    assert np.isnan(found.z[0, 1])


def test_residual_associations__independent_labels__z_is_standard_normal():
    rng = np.random.default_rng(0)
    probs = rng.uniform(0.02, 0.6, (800, 60))
    z = residual_associations(rng.random(probs.shape) < probs, probs).z[np.triu_indices(60, 1)]
    assert abs(z.mean()) < 0.1
    assert z.std() == pytest.approx(1.0, abs=0.06)


@pytest.mark.parametrize("log_odds_ratio", [-6.0, -1.0, 0.0, 0.5, 7.0])
def test_joint_probability__any_margins__has_the_log_odds_ratio(log_odds_ratio):
    p, q = np.array([0.001, 0.3, 0.9]), np.array([0.2, 0.5, 0.97])
    both = _joint_probability(p, q, log_odds_ratio)
    value = np.log(both * (1 - p - q + both) / ((p - both) * (q - both)))
    np.testing.assert_allclose(value, log_odds_ratio, atol=1e-6)


def test_pair_model__labels_never_or_always_together__stop_at_the_bound():
    probs, residuals = np.full(100, 0.5), np.tile([0.5, -0.5], 50)
    seen = np.ones(100, dtype=bool)
    assert _PairModel(probs, probs, residuals, residuals, seen).log_odds_ratio == MAX_LOG_ODDS
    assert _PairModel(probs, probs, residuals, -residuals, seen).log_odds_ratio == -MAX_LOG_ODDS


def constant_odds_pair(seed, n_rows=6000, log_odds_ratio=2.0):
    """Two labels with one log odds ratio everywhere; both are rare where the gradient is low."""
    rng = np.random.default_rng(seed)
    gradient = rng.normal(size=n_rows)
    p = 1 / (1 + np.exp(1.5 - 1.2 * gradient))
    both = _joint_probability(p, p, log_odds_ratio)
    first = rng.random(n_rows) < p
    second = rng.random(n_rows) < np.where(first, both / p, (p - both) / (1 - p))
    return gradient, np.column_stack([first, second]), np.column_stack([p, p])


def test_strongest_associations__constant_log_odds_ratio__has_no_contrast_though_correlations_differ():
    gradient, labels, probs = constant_odds_pair(0)
    marker = np.random.default_rng(1).random(len(gradient)) < 1 / (1 + np.exp(-3 * gradient))
    labels = np.column_stack([labels, marker])
    probs = np.column_stack([probs, 1 / (1 + np.exp(-3 * gradient))])
    (found,) = strongest_associations(labels, probs, ["a", "b", "marker"], gradient[:, None], ["gradient"])
    low, high = (
        residual_associations(labels[side], probs[side]).correlation[0, 1] for side in (gradient < 0, gradient > 0)
    )
    assert high > low + 0.1  # what a naive contrast would report
    assert found.pair == ("a", "b")
    assert found.association > 0.2
    assert found.where is None
    assert found.third is None


def test_strongest_associations__opposite_signs_in_two_climates__are_found_and_placed():
    rng = np.random.default_rng(0)
    cold = rng.random(2000) < 0.5
    first = rng.random(2000) < 0.5
    agree = rng.random(2000) < np.where(cold, 0.75, 0.25)
    labels = np.column_stack([first, np.where(agree, first, ~first), rng.random(2000) < 0.5])
    temperature = np.where(cold, -1.0, 1.0) + rng.normal(0, 0.1, 2000)
    features = np.column_stack([rng.normal(size=2000), temperature])
    (found,) = strongest_associations(labels, np.full((2000, 3), 0.5), "abc", features, ["noise", "temperature"])
    assert found.pair == ("a", "b")
    assert abs(found.association) < 0.1
    assert found.where.name == "temperature"
    assert found.where.low == pytest.approx(0.5, abs=0.1)
    assert found.where.high == pytest.approx(-0.5, abs=0.1)
    assert found.where.z < -10


def test_strongest_associations__third_label_gates_the_pair__is_named_with_its_side():
    rng = np.random.default_rng(0)
    first, gate = rng.random((2, 3000)) < 0.5
    second = rng.random(3000) < np.where(gate & first, 0.1, 0.5)
    probs = np.broadcast_to([0.5, 0.4, 0.5], (3000, 3))
    found = {a.pair: a for a in strongest_associations(np.column_stack([first, second, gate]), probs, "abg")}
    assert found["a", "b"].third.name == "g"
    assert found["a", "b"].third.is_label
    assert found["a", "b"].third.high < -0.3
    assert abs(found["a", "b"].third.low) < 0.1


def test_strongest_associations__two_labels_that_both_follow_a_third__have_no_third_order_hint():
    rng = np.random.default_rng(2)
    leader = rng.random(4000) < 0.5
    followers = [rng.random(4000) < np.where(leader, 0.8, 0.3) for _ in range(2)]
    probs = np.broadcast_to([0.5, 0.55, 0.55], (4000, 3))
    found = strongest_associations(np.column_stack([leader, *followers]), probs, ["leader", "a", "b"])
    assert {a.pair for a in found} == {("leader", "a"), ("leader", "b"), ("a", "b")}
    assert all(a.association > 0 and a.third is None for a in found)


def truth_of(region):
    """Signed pairs of plain pairwise interactions; all pairs of a guild; all pairs named in an interaction."""
    plain = {
        frozenset((effect.target, effect.sources[0])): np.sign(effect.strength)
        for effect in region.interactions
        if effect.order == 2 and effect.condition is None
    }
    linked = {
        frozenset((a, b))
        for guild in region.guilds
        if any(effect.target in guild for effect in region.interactions)
        for a in guild
        for b in guild
        if a != b
    }
    return plain, linked


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_strongest_associations__virtual_region__recover_the_known_interactions(seed):
    region = virtual_region(3000, random_state=seed)
    data = region.dataset
    found = strongest_associations(
        data.labels, region.marginals, data.label_names, data.features, data.feature_names, n=12
    )
    plain, linked = truth_of(region)
    by_pair = {frozenset(a.pair): a for a in found}
    assert all(np.sign(by_pair[pair].association) == sign for pair, sign in plain.items())
    assert len(found) == 12
    assert sum(frozenset(a.pair) in linked for a in found) >= 11


@pytest.mark.slow
def test_strongest_associations__virtual_region__name_the_true_gate_and_witness():
    region = virtual_region(5000, random_state=0)
    data = region.dataset
    found = strongest_associations(
        data.labels, region.marginals, data.label_names, data.features, data.feature_names, n=None
    )
    by_pair = {frozenset(a.pair): a for a in found}
    gated = [e for e in region.interactions if e.condition is not None and e.order == 2]
    witnessed = [e for e in region.interactions if e.condition is None and e.order == 3]
    for effect in gated:
        where = by_pair[frozenset((effect.target, effect.sources[0]))].where
        pair = {effect.target, effect.sources[0]}
        true_gates = {e.condition for e in region.interactions if e.condition and pair <= {e.target, *e.sources}}
        assert where.name in {gate.layer for gate in true_gates}
        if where.name == effect.condition.layer:
            assert (where.high if effect.condition.side == "above" else where.low) * effect.strength > 0
    for effect in witnessed:
        third = by_pair[frozenset((effect.target, effect.sources[0]))].third
        assert third.name == effect.sources[1]
        assert third.high * effect.strength > 0
        assert abs(third.low) < 0.1


def test_strongest_associations__independent_species__report_almost_nothing():
    n_reported = []
    for seed in range(4):
        region = virtual_region(1500, random_state=seed, interaction_scale=0.0)
        data = region.dataset
        n_reported.append(
            len(
                strongest_associations(
                    data.labels, region.marginals, data.label_names, data.features, data.feature_names
                )
            )
        )
    assert sum(n_reported) <= 1


def test_strongest_associations__permuted_labels__find_the_same_pairs():
    region = virtual_region(1500, random_state=4)
    data = region.dataset
    order = np.random.default_rng(0).permutation(data.n_labels)
    names = [data.label_names[i] for i in order]
    plain = strongest_associations(data.labels, region.marginals, data.label_names)
    mixed = strongest_associations(data.labels[:, order], region.marginals[:, order], names)
    assert [frozenset(a.pair) for a in plain] == [frozenset(a.pair) for a in mixed]
    assert [a.z for a in plain] == pytest.approx([a.z for a in mixed])


def test_strongest_associations__one_label_or_few_rows__return_nothing():
    assert strongest_associations([[1], [0]], [[0.5], [0.5]], ["wren"]) == []
    assert strongest_associations([[1, 0], [0, 1]], np.full((2, 2), 0.5), ["a", "b"], [[1.0], [1.0]]) == []


def test_strongest_associations__binary_and_missing_features__are_split_sensibly():
    rng = np.random.default_rng(0)
    first = rng.random(2000) < 0.5
    wet = rng.random(2000) < 0.7
    second = np.where(wet & (rng.random(2000) < 0.9), first, rng.random(2000) < 0.5)
    feature = np.where(rng.random(2000) < 0.1, np.nan, wet.astype(float))
    features = np.column_stack([feature, np.full(2000, np.nan), np.ones(2000)])
    (found,) = strongest_associations(np.column_stack([first, second]), np.full((2000, 2), 0.5), "ab", features)
    assert found.where.name == "feature_0"
    assert found.where.high > 0.7
    assert found.where.low < 0.2


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"label_names": ["a"]}, DataError, r"label_names must name all 2 columns; got 1 \('a'\)"),
        ({"features": np.zeros((3, 1))}, DataError, r"features must be a table of 4 rows; got shape \(3, 1\)"),
        ({"features": [["wet"]] * 4}, DataError, "features must be numbers; got .*wet.* Leave categories out"),
        (
            {"features": np.zeros((4, 1)), "feature_names": ["x", "y"]},
            DataError,
            "feature_names must name all 1 columns; got 2",
        ),
        ({"n": 0}, ConfigError, "n must be at least 1, or None for all; got 0"),
        ({"probs": np.full((4, 3), 0.5)}, DataError, "probs"),
    ],
)
def test_strongest_associations__wrong_input__says_what_to_do(change, error, message):
    arguments = {"labels": np.tile([[0, 1], [1, 0]], (2, 1)), "probs": np.full((4, 2), 0.5), "label_names": "ab"}
    with pytest.raises(error, match=message):
        strongest_associations(**arguments | change)
