"""The race and what follows: who stays helps, rows are held out honestly, a run that was killed goes on."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from hotvae import HotVAEClassifier
from hotvae.errors import ConfigError, TrainingError
from hotvae.estimators import recipe as recipe_module
from hotvae.estimators.folds import deal_folds
from hotvae.estimators.members import Candidate, NetworkMember, fit_member, mean_logits, restore_member
from hotvae.estimators.recipe import (
    Facts,
    Forms,
    Plan,
    Recipe,
    Workshop,
    candidates_for,
    expected_seconds,
    follow_recipe,
    helped,
    make_forms,
    plan_for,
    race,
)
from hotvae.features import FeatureScaler, Rows
from hotvae.training.settings import Training

PLAN = Plan(2, 30, 1, 1, 1, 1, 0.25, 8, 32, 5e-3)
RIDGE = Candidate("ridge", "ridge", "values")
TREES = Candidate("trees", "trees", "values", {"n_trees": 30, "min_leaf": 3})
NETWORK = Candidate("network", "network", "values", {"widths": (16,), "dropout": 0.0})


def table(n=240, seed=0):
    """Two labels: one linear in the features, one a stripe that only trees find at once."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    odds = np.column_stack([2 * x[:, 0] - x[:, 1], np.where(np.abs(x[:, 2]) < 0.7, 3, -3)])
    return x, (rng.random((n, 2)) < expit(odds)).astype(np.float32)


def workshop(x, y, work=PLAN, **others):
    folds = deal_folds(y, work.n_folds, 0)
    forms = Forms({"values": FeatureScaler(scaling="none")})
    return Workshop(forms, x, y, folds, Training(), work, 0, **others)


# Plans ----------------------------------------------------------------------------------------------------


def test_plan_for__more_effort__more_work_at_every_size():
    for n_rows in (200, 5_000, 20_000, 200_000):
        costs = [expected_seconds(plan_for(n_rows, 20, 50, name), n_rows, 20, 50) for name in _EFFORTS]
        assert costs == sorted(costs)


_EFFORTS = ("quick", "normal", "thorough")


def test_plan_for__seconds__the_most_thorough_plan_that_fits():
    by_name = {name: plan_for(2000, 20, 50, name) for name in _EFFORTS}
    normal = expected_seconds(by_name["normal"], 2000, 20, 50)
    assert plan_for(2000, 20, 50, 1e6) == by_name["thorough"]
    assert plan_for(2000, 20, 50, normal + 1) == by_name["normal"]
    assert plan_for(2000, 20, 50, 0.001) == by_name["quick"]


def test_plan_for__many_words__fewer_networks_in_larger_batches():
    few, many = (plan_for(7_000, n, 90, "normal") for n in (2_000, 20_000))
    assert (many.n_candidates, many.n_seeds, many.n_folds) == (1, 1, 3)
    assert many.batch_size == 2 * few.batch_size
    networks = [c for c in candidates_for(Facts(7_000, 20_000, 90, True), many) if c.kind == "network"]
    assert [c.settings["widths"] for c in networks] == [(512, 512)]


@pytest.mark.parametrize("effort", ["lazy", 0, -3.0])
def test_plan_for__effort_that_is_none__refused(effort):
    with pytest.raises(ConfigError, match="effort must"):
        plan_for(100, 3, 2, effort)


def test_candidates_for__places_and_bags__each_gets_what_suits_it():
    work = plan_for(2000, 13, 50, "normal")
    survey = candidates_for(Facts(2000, 13, 50, is_bag=False, places=(0, 1)), work)
    assert next(c.form for c in survey if c.kind == "network") == "places"
    bag = candidates_for(Facts(2000, 900, 50, is_bag=True), work)
    assert {c.form for c in bag} == {"values"} == set(make_forms(Facts(2000, 900, 50, is_bag=True)))
    assert {c.kind for c in bag} == {"trees", "ridge", "network"}
    assert all(c.form in make_forms(Facts(2000, 13, 50, False, (0, 1))) for c in survey)


@pytest.mark.parametrize(
    ("n_rows", "effort", "is_there"),
    [(500, "normal", True), (500, "thorough", True), (500, "quick", False), (5_000, "normal", False)],
)
def test_candidates_for__random_forest__races_where_all_folds_are_looked_at(n_rows, effort, is_there):
    listed = candidates_for(Facts(n_rows, 9, 12, is_bag=False), plan_for(n_rows, 9, 12, effort))
    forests = [c for c in listed if c.kind == "trees" and c.settings["kind"] == "forest"]
    assert len(forests) == is_there
    assert all(c.settings["min_leaf"] == 1 for c in forests)


def test_race__labels_that_change_at_sharp_edges__the_forest_stays():
    """Stripes across one of six columns: cuts where labels change find them, cuts at random seldom do."""
    random = np.random.default_rng(0)
    X = random.random((300, 6))
    stripes = np.floor(6 * X[:, 0]) % 2
    Y = np.column_stack([stripes, 1 - stripes])
    model = HotVAEClassifier(random_state=0, joint=False, progress="silent").fit(X, Y)
    forest = next(entry for entry in model.recipe_.entries if entry.name == "random forest")
    others = [entry.log_loss for entry in model.recipe_.entries if entry is not forest]
    assert forest.outcome == "stays"
    assert forest.stacked < 0.5 * min(others)


def test_race__labels_that_are_a_smooth_matter__the_forest_is_left_after_one_fold(monkeypatch):
    """What a ridge says exactly, cuts along the columns cannot make better by a hundredth."""
    fitted = []

    def noted(candidate, *args, **more):
        fitted.append(candidate.name)
        return fit_member(candidate, *args, **more)

    monkeypatch.setattr(recipe_module, "fit_member", noted)
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 6))
    Y = (random.random((300, 3)) < expit(X @ random.normal(size=(6, 3)))).astype(float)
    model = HotVAEClassifier(random_state=0, joint=False, progress="silent").fit(X, Y)
    forest = next(entry for entry in model.recipe_.entries if entry.name == "random forest")
    assert forest.outcome == "adds too little on the first fold"
    assert fitted.count("random forest") == 1
    assert fitted.count("extremely randomised trees") >= model.recipe_.plan.n_race_folds > 1
    assert "random forest" not in {candidate.name for candidate, _ in model.members_}


def test_candidates_for__words_without_end__no_network_where_a_ridge_can_take_its_place():
    work = plan_for(10_000, 200_000, 50, "normal")
    assert [c.kind for c in candidates_for(Facts(10_000, 200_000, 50, True), work)] == ["trees", "ridge"]
    assert [c.kind for c in candidates_for(Facts(30_000, 200_000, 50, True), work)] == ["trees", "network"]
    assert [c.kind for c in candidates_for(Facts(10_000, 50_000, 50, True), work)] == ["trees", "ridge", "network"]


# The race -------------------------------------------------------------------------------------------------


def test_race__lines_and_a_stripe__the_ridge_stays_and_trees_add_to_it():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 9))
    odds = np.column_stack([x[:, :8] @ rng.normal(size=(8, 3)), np.where(np.abs(x[:, 8]) < 0.7, 4, -4)])
    y = (rng.random((500, 4)) < expit(odds)).astype(np.float32)
    chosen, (trees, ridge) = race(workshop(x, y), [TREES, RIDGE])
    assert {candidate.name for candidate in chosen} == {"trees", "ridge"}
    first, second = (ridge, trees) if ridge.stacked is None else (trees, ridge)
    assert second.stacked < 0.99 * first.log_loss


def test_race__pure_noise__what_adds_nothing_is_left_out():
    x, y = table(400)
    noise = Candidate("noise", "ridge", "noise")
    shop = workshop(x, y)
    shop.forms.makers["noise"] = _Noise()
    chosen, entries = race(shop, [TREES, noise])
    assert [candidate.name for candidate in chosen] == ["trees"]
    assert entries[1].outcome == "adds nothing"


class _Noise(FeatureScaler):
    def fit(self, features, y=None, *, feature_names=None):
        return self

    def transform(self, features, dtype=np.float32):
        return np.random.default_rng(0).normal(size=(len(features), 2)).astype(dtype)


def test_race__three_networks__two_are_left_out_after_a_third_of_the_epochs():
    x, y = table()
    narrow, wide = (Candidate(f"n{w}", "network", "values", {"widths": (w,), "dropout": 0.0}) for w in (1, 32))
    work = Plan(2, 30, 3, 1, 1, 1, 0.25, 15, 32, 5e-3)
    _, entries = race(workshop(x, y, work), [narrow, wide, NETWORK])
    outcomes = [entry.outcome for entry in entries]
    assert outcomes.count("left out after a third of the epochs") == 2
    assert outcomes.count("stays") == 1


def test_race__on_all_folds__chooses_what_the_first_fold_alone_would_not():
    """The first fold is told apart by one column, the others by another: the whole table decides."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    y = (x[:, 1:] > 0).astype(np.float32)
    folds = deal_folds(y, 3, 0)
    first = folds.of_row == 0
    y[first] = x[first, :1] > 0
    odds = {"of the first fold": 0, "of the others": 1}
    shops = [workshop(x, y, replace(PLAN, n_folds=3, n_race_folds=n)) for n in (1, 3)]
    candidates = [Candidate(name, "ridge", "values") for name in odds]
    winners = []
    for shop in shops:

        def on_fold(candidate, fold, epochs=None):
            return None, 4 * x[folds.parts(fold)[1]][:, [odds[candidate.name]]]

        shop.on_fold = on_fold
        winners.append(race(shop, candidates)[0][0].name)
    assert winners == ["of the first fold", "of the others"]


def test_race__two_networks_may_stay__the_second_is_the_one_that_adds_most():
    """Two are twins and best alone; the third is worse alone, and knows the label that they do not."""
    rng = np.random.default_rng(1)
    y = (rng.random((400, 2)) < 0.5).astype(np.float32)
    sure, none = 3 * (2 * y - 1), np.zeros_like(y)
    tables = {"a": np.stack([sure[:, 0], none[:, 1]], 1), "twin": np.stack([sure[:, 0], none[:, 1]], 1)}
    tables["other"] = np.stack([none[:, 0], 0.5 * sure[:, 1]], 1)
    work = replace(PLAN, n_candidates=3, n_networks=2)
    shop = workshop(np.zeros((400, 1)), y, work)
    member = NetworkMember(None, 5)
    shop.on_fold = lambda candidate, fold, epochs=None: (member, tables[candidate.name][shop.folds.parts(fold)[1]])
    chosen, entries = race(shop, [replace(NETWORK, name=name) for name in tables])
    assert {candidate.name for candidate in chosen} == {"a", "other"}
    assert entries[1].outcome == "left out after a third of the epochs"


def test_follow_recipe__no_candidate__is_fitted_twice_on_the_same_fold(monkeypatch):
    x, y = table()
    fits = []

    def counted(candidate, train, held, training, seed, **others):
        fits.append((candidate.name, training.max_epochs, seed, candidate.epochs))
        return fit_member(candidate, train, held, training, seed, **others)

    monkeypatch.setattr(recipe_module, "fit_member", counted)
    follow_recipe(workshop(x, y), [TREES, RIDGE, NETWORK])
    assert len(set(fits)) == len(fits)


def test_make_forms__beyond_the_training_rows__a_scaled_column_stays_at_its_outermost_value():
    x = np.random.default_rng(0).normal(size=(200, 2))
    scaled = make_forms(Facts(200, 2, 3, is_bag=False))["scaled"].fit(x)
    far, edge = (scaled.transform(np.array([[value, 0.0]])) for value in (50.0, x[:, 0].max()))
    assert (far == edge).all()


# Folds and all rows ---------------------------------------------------------------------------------------


def test_follow_recipe__left_out_logits__of_members_that_were_not_shown_the_row():
    """Labels are coins: who was shown them knows them (trees), who was not cannot."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 3)), (rng.random((200, 2)) < 0.5).astype(np.float32)
    eager = Candidate("eager", "trees", "values", {"n_trees": 30, "min_leaf": 1})
    found = follow_recipe(workshop(x, y), [eager])
    shown = found.members[0][1][0].logits(x.astype(np.float32))
    assert ((shown > 0) == (y == 1)).mean() > 0.95
    assert abs(((found.member_logits[0] > 0) == (y == 1)).mean() - 0.5) < 0.1


def test_follow_recipe__same_seed__same_bits():
    x, y = table()
    first, again = (follow_recipe(workshop(x, y), [TREES, RIDGE, NETWORK]) for _ in range(2))
    assert (first.left_out == again.left_out).all()
    rows = x.astype(np.float32)
    for (_, members), (_, others) in zip(first.members, again.members, strict=True):
        assert all((a.logits(rows) == b.logits(rows)).all() for a, b in zip(members, others, strict=True))


def test_workshop__killed_and_begun_again__goes_on_and_ends_the_same(tmp_path, monkeypatch):
    x, y = table()
    candidates = [TREES, RIDGE, NETWORK]
    undisturbed = follow_recipe(workshop(x, y), candidates)
    fits = []

    def counted(*args, **kwargs):
        fits.append(args[0].name)
        if len(fits) == 4:
            raise KeyboardInterrupt
        return fit_member(*args, **kwargs)

    monkeypatch.setattr(recipe_module, "fit_member", counted)
    with pytest.raises(KeyboardInterrupt):
        follow_recipe(workshop(x, y, scratch=tmp_path / "state"), candidates)
    resumed = follow_recipe(workshop(x, y, scratch=tmp_path / "state"), candidates)
    assert (resumed.left_out == undisturbed.left_out).all()
    fresh = []
    monkeypatch.setattr(recipe_module, "fit_member", lambda *a, **k: fresh.append(1) or fit_member(*a, **k))
    follow_recipe(workshop(x, y), candidates)
    assert len(fits) - 4 < len(fresh)  # what was fitted before the kill was not fitted again


def test_workshop__helped__same_bits_and_nothing_but_ridges_fitted_here(tmp_path, monkeypatch):
    """Helpers get a copy and leave their members in the folder."""
    x, y = table()
    work = replace(PLAN, n_candidates=2, n_race_folds=2, n_seeds=2)
    wide = replace(NETWORK, name="wide", settings={"widths": (32,), "dropout": 0.0})
    candidates = [RIDGE, TREES, NETWORK, wide]
    alone = follow_recipe(workshop(x, y, work), candidates)
    fit, is_helper, asked_for = recipe_module.fit_member, [False], []

    def fitted(candidate, *rest, **more):
        assert is_helper[0] or candidate.kind == "ridge"
        return fit(candidate, *rest, **more)

    def helpers(shop, method, asked):
        is_helper[0] = True
        asked_for.extend(asked)
        for arguments in asked:
            method(pickle.loads(pickle.dumps(shop)), *arguments)
        is_helper[0] = False
        return [{candidate.name: 1.0} for candidate, *_ in asked]

    monkeypatch.setattr(recipe_module, "fit_member", fitted)
    with helped(helpers):
        found = follow_recipe(workshop(x, y, work, scratch=tmp_path / "state", say=str), candidates)
    np.testing.assert_array_equal(found.left_out, alone.left_out)
    for (one, members), (other, others) in zip(found.members, alone.members, strict=True):
        assert one == other
        np.testing.assert_array_equal(mean_logits(members, x), mean_logits(others, x))
    seconds = {entry.name: entry.seconds for entry in found.entries}
    assert seconds["trees"] >= sum(candidate == TREES for candidate, *_ in asked_for) > 0


def test_workshop__state_of_other_rows__refused(tmp_path):
    x, y = table()
    workshop(x, y, scratch=tmp_path / "state")
    with pytest.raises(TrainingError, match="state must be of this run"):
        workshop(x + 1, y, scratch=tmp_path / "state")


# Members --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("candidate", [TREES, RIDGE, NETWORK], ids=lambda candidate: candidate.name)
def test_member__tensors_and_back__same_bits(candidate):
    x, y = table()
    rows = Rows(x.astype(np.float32), y)
    member = fit_member(candidate, rows, rows, PLAN.training(Training(), candidate), 0)
    again = restore_member(candidate, member.tensors(), member.n_epochs)
    assert (again.logits(rows.features) == member.logits(rows.features)).all()
    assert again.n_epochs == member.n_epochs


@pytest.mark.parametrize("candidate", [TREES, RIDGE, NETWORK], ids=lambda candidate: candidate.name)
def test_member__a_row_alone__as_in_company(candidate):
    x, y = table()
    rows = Rows(x.astype(np.float32), y)
    member = fit_member(candidate, rows, rows, PLAN.training(Training(), candidate), 0)
    together = member.logits(rows.features)
    assert all((member.logits(rows.features[i : i + 1]) == together[i]).all() for i in (0, 7, 239))


def test_race__network__ends_where_its_step_size_is_nothing():
    """Best at epoch n while it was patient: then 1.7 n epochs to the very end, on folds and on all rows."""
    x, y = table()
    shop = workshop(x, y)
    patient, _ = shop.on_fold(NETWORK, 0)
    (chosen,), _ = race(shop, [NETWORK])
    assert chosen.epochs == max(2, round(1.7 * patient.n_epochs))
    training = PLAN.training(Training(), chosen)
    assert (training.max_epochs, training.patience) == (chosen.epochs, 0)
    assert shop.on_all(chosen)[0].n_epochs == chosen.epochs


def test_recipe__state__same_again_and_lines_tell_all():
    x, y = table()
    found = follow_recipe(workshop(x, y), [TREES, RIDGE])
    told = Recipe(["3 numbers: a, b, c"], "2 folds of single rows", PLAN, found.entries, 0.5)
    assert Recipe.from_state(told.state()) == told
    lines = told.lines()
    assert lines[0] == "columns: 3 numbers: a, b, c"
    assert lines[1] == "held out: 2 folds of single rows"
    assert any(line.startswith("trees: log loss") and line.endswith("stays") for line in lines)
    assert lines[-1].startswith("stack: ")
