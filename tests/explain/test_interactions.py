"""Flips of labels: exact laws written out state by state, screens that hold, truths that are recovered."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotvae import HotVAEClassifier
from hotvae.baselines.mlknn import MLkNN
from hotvae.baselines.probit import ProbitJSDM
from hotvae.data.synthetic import virtual_region
from hotvae.errors import ConfigError, DataError
from hotvae.explain import (
    TrueModel,
    answers_given,
    association_map,
    associations,
    flip_effects,
    gradient_groups,
    group_changes,
    pair_table,
    score_recovery,
    shuffle_within_strata,
    third_order,
)
from hotvae.explain.conditional import MIN_PROBABILITY
from hotvae.explain.groups import group_masks
from hotvae.explain.resampling import chance_threshold


class ThreeLabels:
    """A law of three labels by listing all states: a pair that switches sign with the feature, and a triple."""

    label_names_ = np.array(["a", "b", "c"])
    feature_names_in_ = np.array(["wet"])

    def __init__(self, pair=0.0, switching=0.0, triple=0.0):
        self.pair, self.switching, self.triple = pair, switching, triple

    def predict_proba(self, X, given=None):
        wet = np.asarray(X, dtype=float)[:, 0]
        told = np.full((len(wet), 3), np.nan) if given is None else np.asarray(given, dtype=float)
        probs = np.empty_like(told)
        for n, x in enumerate(wet):
            total, present = 0.0, np.zeros(3)
            for state in product((0, 1), repeat=3):
                if any(told[n, k] == 1 - state[k] for k in range(3)):
                    continue
                a, b, c = state
                weight = np.exp((self.pair + self.switching * x) * a * b + self.triple * a * b * c - 0.5 * c)
                total += weight
                present += weight * np.array(state)
            probs[n] = present / total
        return probs

    def sample(self, X, rng):
        """One community per row, label after label."""
        drawn = np.full((len(X), 3), np.nan)
        for k in range(3):
            drawn[:, k] = rng.random(len(X)) < self.predict_proba(X, drawn)[:, k]
        return drawn


WET = np.linspace(-1, 1, 40)[:, None]


def row(table, i, j, group=None):
    found = table[(table["label_i"] == i) & (table["label_j"] == j)]
    if group is not None:
        found = found[found["group"] == group]
    assert len(found) == 1
    return found.iloc[0]


# --- flips -----------------------------------------------------------------------------------------------


def test_flip_effects__two_labels_with_log_odds_two__match_hand_calculation():
    """P(a | b = 1) = e^2 / (1 + e^2), P(a | b = 0) = 1/2: .3808; the logit changes by 2 exactly."""
    model = ThreeLabels(pair=2.0)
    effects = flip_effects(model, WET[:3], "b")
    np.testing.assert_allclose(effects[:, 0], np.exp(2) / (1 + np.exp(2)) - 0.5)
    np.testing.assert_allclose(effects[:, 2], 0.0, atol=1e-12)
    assert np.isnan(effects[:, 1]).all()
    np.testing.assert_allclose(flip_effects(model, WET[:3], "b", scale="logit")[:, 0], 2.0)


def test_flip_effects__a_certain_label__has_a_bounded_logit():
    """With a log odds ratio of 30, P(a | b = 1) is 1 but for 1e-13; the logit stops at that of .999."""
    effects = flip_effects(ThreeLabels(pair=30.0), WET[:1], "b", scale="logit")
    assert effects[0, 0] == pytest.approx(np.log((1 - MIN_PROBABILITY) / MIN_PROBABILITY))


def test_associations__mean_over_a_group__is_the_mean_of_flips():
    model = ThreeLabels(pair=0.5, switching=2.0)
    groups = np.where(WET[:, 0] < 0, "dry", "wet")
    table = associations(model, WET, groups=groups, max_rows=None)
    for name in ("dry", "wet"):
        expected = flip_effects(model, WET[groups == name], "b")[:, 0].mean()
        found = row(table, "a", "b", name)
        assert found["effect"] == pytest.approx(expected)
        assert found["lower"] < expected < found["upper"]
        assert found["n_rows"] == 20
    assert row(table, "a", "b", "dry")["effect"] < 0 < row(table, "a", "b", "wet")["effect"]
    assert len(table) == 2 * 6


def test_associations__rare_listener__is_told_apart_from_rare_speaker():
    """A rare label that is only found with a common one tells much about it, and hears little."""

    class Nested:
        label_names_ = np.array(["common", "rare"])

        def predict_proba(self, X, given=None):
            # P(common) = .5; P(rare | common) = .1, P(rare | no common) = 0.
            probs = np.tile([0.5, 0.05], (len(X), 1))
            if given is not None:
                probs[given[:, 0] == 1, 1], probs[given[:, 0] == 0, 1] = 0.1, 0.0
                probs[given[:, 1] == 1, 0], probs[given[:, 1] == 0, 0] = 1.0, 0.45 / 0.95
                probs = np.where(np.isnan(given), probs, given)
            return probs

    table = associations(Nested(), WET)
    assert row(table, "common", "rare")["effect"] == pytest.approx(1 - 0.45 / 0.95)
    assert row(table, "rare", "common")["effect"] == pytest.approx(0.1)
    pairs = pair_table(table)
    assert pairs[["label_a", "label_b"]].to_numpy().tolist() == [["common", "rare"]]
    assert pairs["effect"][0] == pytest.approx((1 - 0.45 / 0.95 + 0.1) / 2)
    assert pairs["effect_on_a"][0] == pytest.approx(1 - 0.45 / 0.95)


def test_associations__models_that_disagree__widen_the_interval():
    models = [ThreeLabels(pair=value) for value in (0.5, 1.0, 1.5, 2.0)]
    one, many = associations(models[1], WET), associations(models, WET)
    width = [row(table, "a", "b")["upper"] - row(table, "a", "b")["lower"] for table in (one, many)]
    assert width[0] == pytest.approx(0.0, abs=1e-9)  # the same effect in every row
    assert width[1] > 0.05
    expected = np.mean([np.exp(v) / (1 + np.exp(v)) - 0.5 for v in (0.5, 1.0, 1.5, 2.0)])
    assert row(many, "a", "b")["effect"] == pytest.approx(expected)


def test_associations__same_seed__same_table():
    model, rng = ThreeLabels(pair=1.0, switching=1.0), np.random.default_rng(0)
    labels = model.sample(WET, rng)
    first, second = (associations(model, WET, labels, max_rows=20, random_state=3) for _ in range(2))
    pd.testing.assert_frame_equal(first, second)


def test_associations__few_rows_asked__every_group_still_has_twenty():
    groups = np.array(["many"] * 380 + ["few"] * 20)
    X = np.linspace(-1, 1, 400)[:, None]
    table = associations(ThreeLabels(pair=1.0), X, groups=groups, max_rows=40)
    counts = table.groupby("group", observed=True)["n_rows"].first()
    assert counts["few"] == 20
    assert 30 <= counts["many"] <= 40


# --- the screen ------------------------------------------------------------------------------------------


def test_associations__a_true_pair_and_a_made_up_one__only_the_true_one_is_kept():
    """The model claims a triple effect that the labels, drawn from pairs only, do not have."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 1))
    labels = ThreeLabels(pair=1.5).sample(X, rng)
    claims = associations(ThreeLabels(pair=1.5, triple=1.0), X, labels, max_rows=60, n_shuffles=40)
    assert row(claims, "a", "b")["kept"]
    assert row(claims, "a", "c")["lower"] > 0  # claimed
    assert not row(claims, "a", "c")["kept"]
    unscreened = associations(ThreeLabels(pair=1.5, triple=1.0), X, max_rows=60)
    assert row(unscreened, "a", "c")["kept"]
    assert np.isnan(row(unscreened, "a", "c")["null_threshold"])


def test_associations__effect_against_the_data__is_not_kept():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (500, 1))
    labels = ThreeLabels(pair=2.0).sample(X, rng)
    wrong = row(associations(ThreeLabels(pair=-2.0), X, labels, max_rows=50), "a", "b")
    assert abs(wrong["residual_z"]) >= wrong["null_threshold"]
    assert wrong["effect"] < 0 < wrong["residual_z"]
    assert not wrong["kept"]


def test_associations__independent_labels__hardly_any_pair_passes():
    """At most one pair in ten that pass may be chance; with nothing to find mostly no pair passes at all."""
    region = virtual_region(800, random_state=2, interaction_scale=0.0)
    data = region.dataset
    model = TrueModel(virtual_region(10, random_state=2))  # claims interactions that do not act
    counts = []
    for seed in range(5):
        labels = region.sample(data.features, 1, random_state=seed)[0]
        table = associations(model, data.features, labels, max_rows=20, n_bootstrap=20, random_state=seed)
        strong = table["residual_z"].abs() >= table["null_threshold"]
        counts.append(int(strong.sum()) // 2)
    assert np.mean(counts) <= 1.0


@given(seed=st.integers(0, 1000), n_strata=st.integers(1, 6))
@settings(max_examples=30)
def test_shuffle_within_strata__any_table__keeps_gaps_and_counts_of_every_stratum(seed, n_strata):
    rng = np.random.default_rng(seed)
    labels = (rng.random((25, 3)) < 0.5).astype(float)
    labels[rng.random(labels.shape) < 0.2] = np.nan
    probs = rng.random(labels.shape)
    shuffled = shuffle_within_strata(labels, probs, n_strata=n_strata, random_state=seed)
    np.testing.assert_array_equal(np.isnan(shuffled), np.isnan(labels))
    for k in range(3):
        seen = np.flatnonzero(~np.isnan(labels[:, k]))
        seen = seen[np.argsort(probs[seen, k])]
        for stratum in range(n_strata):
            members = seen[np.arange(len(seen)) * n_strata // max(len(seen), 1) == stratum]
            assert shuffled[members, k].sum() == labels[members, k].sum()


def test_shuffle_within_strata__linked_labels__are_linked_no_more():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2000, 1))
    model = ThreeLabels(pair=3.0)
    labels = model.sample(X, rng)
    shuffled = shuffle_within_strata(labels, model.predict_proba(X), random_state=0)
    assert np.corrcoef(labels[:, 0], labels[:, 1])[0, 1] > 0.4
    assert abs(np.corrcoef(shuffled[:, 0], shuffled[:, 1])[0, 1]) < 0.06
    assert (shuffled != labels).any()


def test_chance_threshold__by_loops__is_the_smallest_that_will_do():
    rng = np.random.default_rng(0)
    found, null = np.append(rng.normal(size=40), [4.0, -5.0, 6.0, np.nan]), rng.normal(size=(8, 44))
    threshold = chance_threshold(found, null, 0.2)

    def share(t):
        return (np.abs(null) >= t).sum() / 8 / (np.abs(found) >= t).sum()

    sizes = sorted(np.abs(found[np.isfinite(found)]))
    assert threshold == next(t for t in sizes if share(t) <= 0.2)
    assert chance_threshold([0.1, 0.2], [[1.0, 2.0]], 0.1) == float("inf")
    assert chance_threshold([np.nan], [[1.0]], 0.1) == float("inf")


# --- beyond pairs, and over the map ----------------------------------------------------------------------


def test_third_order__a_triple_and_only_pairs__are_told_apart():
    """Given c, the log odds ratio of a and b is pair + triple * c: the third-order term is the triple itself."""
    table = third_order(ThreeLabels(pair=1.0, triple=1.5), WET, [("a", "b")])
    assert table[["label_i", "label_j", "label_k"]].to_numpy().tolist() == [["a", "b", "c"]]
    found = table.iloc[0]
    assert found["effect_k_absent"] == pytest.approx(1.0)
    assert found["effect_k_present"] == pytest.approx(2.5)
    assert found["effect"] == pytest.approx(1.5)
    assert found["clear"]
    none = third_order(ThreeLabels(pair=1.0), WET, [("a", "b")]).iloc[0]
    assert none["effect"] == pytest.approx(0.0, abs=1e-9)


def test_third_order__no_third_label_left__is_an_empty_table():
    table = third_order(ThreeLabels(), WET, [("a", "b")], thirds=["a"])
    assert len(table) == 0
    assert "clear" in table


def test_association_map__every_row__has_its_own_effect_and_place():
    places = np.column_stack([np.arange(40), -np.arange(40)])
    model = ThreeLabels(switching=2.0)
    table = association_map(model, WET, [("a", "b"), ("c", "b")], places, coordinate_names=("east", "north"))
    ab = table[(table["label_i"] == "a") & (table["label_j"] == "b")]
    np.testing.assert_allclose(ab["effect"], flip_effects(model, WET, "b")[:, 0])
    assert ab["north"].tolist() == list(range(0, -40, -1))
    assert len(table) == 80
    with pytest.raises(DataError, match=r"coordinates must have shape \(40, 2\), one place per row; got \(39, 2\)"):
        association_map(model, WET, [("a", "b")], places[1:])


def test_group_changes__two_regions__subtract_and_screen():
    model = ThreeLabels(switching=2.0)
    table = associations(model, WET, groups=np.where(WET[:, 0] < 0, "south", "north"))
    changes = group_changes(table, "south", "north")
    first = changes.iloc[0]
    assert {first["label_i"], first["label_j"]} == {"a", "b"}
    north, south = (row(table, first["label_i"], first["label_j"], name)["effect"] for name in ("north", "south"))
    assert first["change"] == pytest.approx(north - south)
    assert first["change"] > 0
    assert first["clear"]
    assert not changes.iloc[-1]["clear"]
    with pytest.raises(DataError, match="group must be one of 'south', 'north'; got 'east'"):
        group_changes(table, "south", "east")


@given(st.lists(st.integers(-3, 3), min_size=12, max_size=40), st.integers(2, 5))
@settings(max_examples=40)
def test_gradient_groups__any_values__ties_stay_together_and_order_is_kept(values, n_groups):
    if len(set(values)) < 4 or len(set(np.quantile(values, np.linspace(0, 1, n_groups + 1)))) < 3:
        return
    groups = gradient_groups(values, n_groups)
    codes = groups.cat.codes.to_numpy()
    order = np.argsort(values, kind="stable")
    assert (np.diff(codes[order]) >= 0).all()
    for value in set(values):
        assert len(set(codes[np.array(values) == value])) == 1


def test_gradient_groups__zero_and_one__are_two_groups():
    groups = gradient_groups([0.0, 0.0, 0.0, 1.0, 1.0], 5, name="burnt")
    assert groups.tolist() == ["burnt 0"] * 3 + ["burnt 1"] * 2
    with pytest.raises(DataError, match="values must differ enough for two groups; got one group of 'burnt'"):
        gradient_groups([1.0, 1.0], 2, name="burnt")


# --- recovery --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def region():
    return virtual_region(2000, random_state=0)


@pytest.mark.slow
def test_score_recovery__the_law_itself__is_recovered_whole(region):
    score = score_recovery(TrueModel(region), region, max_rows=60)
    assert score.precision == 1.0
    assert score.recall >= 11 / 12
    assert score.sign_accuracy == score.switching == 1.0
    assert score.switch_ratio == pytest.approx(1.0)


@pytest.mark.slow
def test_score_recovery__signs_turned__score_zero(region):
    """A model that has everything the wrong way round: its effects meet residuals of the other sign."""

    class Backwards(TrueModel):
        def predict_proba(self, X, given=None):
            return super().predict_proba(X, None if given is None else 1 - np.asarray(given))

    score = score_recovery(Backwards(region), region, max_rows=60)
    assert score.sign_accuracy == 0.0
    assert score.recall == 0.0
    assert score.switching == 0.0
    assert score.switch_ratio == pytest.approx(-1.0)
    assert np.isnan(score.precision)


@pytest.mark.slow
def test_score_recovery__a_constant_covariance__finds_pairs_and_no_switch():
    """A probit has one covariance for every environment, so its associations cannot switch."""
    region = virtual_region(2000, 9, random_state=0)
    data = region.dataset
    frame = pd.DataFrame(data.features, columns=list(data.feature_names))
    labels = pd.DataFrame(data.labels, columns=list(data.label_names))
    # Squares let a linear mean have an optimum.
    squares = frame.assign(**{f"{name}2": frame[name] ** 2 for name in frame})
    model = ProbitJSDM.from_settings(
        max_epochs=10,
        covariance_epochs=8,
        learning_rate=0.05,
        random_state=0,
    )
    model.fit(squares.iloc[:1000], labels.iloc[:1000])
    held_out = np.arange(1000, 2000)
    score = score_recovery(model, region, held_out, X=squares.iloc[held_out], max_rows=60)
    assert score.sign_accuracy >= 6 / 7
    assert score.recall >= 5 / 7
    assert abs(score.switch_ratio) < 0.2


def test_score_recovery__nothing_to_recover__says_so():
    with pytest.raises(DataError, match="region must have interactions; got none"):
        score_recovery(TrueModel(virtual_region(20)), virtual_region(20, interaction_scale=0.0))
    with pytest.raises(DataError, match="rows must reach every environment; got fewer than 5 where"):
        score_recovery(TrueModel(virtual_region(20)), virtual_region(20), rows=np.arange(6))


# --- mistakes --------------------------------------------------------------------------------------------


def test_answers_given__by_attribute_or_signature():
    class Told(ThreeLabels):
        conditional = False

    assert answers_given(ThreeLabels())
    assert not answers_given(Told())
    assert not answers_given(MLkNN())
    assert not answers_given(object())


def test_associations__wrong_input__says_what_does_not_fit():
    model = ThreeLabels()
    with pytest.raises(ConfigError, match=r"model must answer predict_proba\(X, given=...\); got MLkNN"):
        associations(MLkNN(), WET)
    with pytest.raises(ConfigError, match="model must be a fitted model or several; got none"):
        associations([], WET)
    with pytest.raises(ConfigError, match="scale must be one of 'probability', 'logit'; got 'odds'"):
        associations(model, WET, scale="odds")
    with pytest.raises(ConfigError, match="level must be above 0 and below 1; got 1"):
        associations(model, WET, level=1)
    with pytest.raises(ConfigError, match="n_bootstrap must be a whole number of at least 20; got 3"):
        associations(model, WET, n_bootstrap=3)
    with pytest.raises(ConfigError, match=r"label must be one of the model's .*; got 'z'"):
        flip_effects(model, WET, "z")
    with pytest.raises(DataError, match="groups must name one group per row, 40; got 3"):
        associations(model, WET, groups=["x"] * 3)
    with pytest.raises(DataError, match="groups must have at least 5 rows each; got fewer in 'x'"):
        associations(model, WET, groups=["x"] * 2 + ["y"] * 38)
    with pytest.raises(DataError, match="groups must be masks of 40 rows, True or False; got others for 'x'"):
        group_masks({"x": np.ones(40)}, 40)

    class Other(ThreeLabels):
        label_names_ = np.array(["x", "y", "z"])

    with pytest.raises(ConfigError, match="models must have the same labels in the same order"):
        associations([model, Other()], WET)


@pytest.mark.slow
def test_score_recovery__hotvae_on_1500_sites__finds_who_goes_with_whom():
    """Nearly all 12 interactions of 276 pairs, with their signs, and next to nothing else."""
    region = virtual_region(2400, random_state=0)
    X = pd.DataFrame(region.dataset.features, columns=list(region.dataset.feature_names))
    Y = pd.DataFrame(region.dataset.labels, columns=list(region.dataset.label_names))
    model = HotVAEClassifier(effort="quick", random_state=0).fit(X[:1500], Y[:1500])
    score = score_recovery(model, region, range(1500, 2400), max_rows=60)
    assert score.precision >= 0.75
    assert score.recall >= 0.75
    assert score.sign_accuracy >= 0.85
