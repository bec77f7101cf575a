"""Scikit-learn's models as arrays: the same answers as its own, and no walk that leaves the arrays."""

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.special import expit, logit
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier

from hotvae.baselines import scikit
from hotvae.baselines.scikit import (
    Boosted,
    BoostedTrees,
    ExtraTrees,
    LogisticLabels,
    Odds,
    RandomForest,
    Trees,
    boost,
    fit_logistic,
    grow_forests,
)
from hotvae.baselines.tensor_io import pack_all
from hotvae.errors import ModelError
from hotvae.estimators.registry import load_model
from hotvae.metrics import log_loss


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 5)).round(1)
    Y = (X[:, :3] + 0.7 * rng.normal(size=(150, 3)) > 0.3).astype(float)
    return X, Y


def stump():
    """x[0] <= 1: node 1; else x[1] <= 0: node 3, else node 4."""
    return Trees(
        np.array([0, -1, 1, -1, -1], dtype=np.int32),
        np.array([1.0, 0, 0, 0, 0]),
        np.array([1, -1, 3, -1, -1], dtype=np.int32),
        np.array([2, -1, 4, -1, -1], dtype=np.int32),
        np.array([0], dtype=np.int32),
    )


ROWS = np.array([[1.0, 9.0], [2.0, -1.0], [2.0, 0.5]])


def packed(trees):
    return pack_all({f"t.{part}": values for part, values in trees._asdict().items()})


def all_rounds(model, rows):
    return np.vstack([odds[:, 0] for _, odds in model.rounds(rows)])


def leaves_of(made, rows):
    return np.vstack([leaves for _, leaves in made.leaves(rows, np.float64)])


def test_leaves__of_a_stump__by_hand():
    for rows in (ROWS, sparse.csr_matrix(ROWS)):
        np.testing.assert_array_equal(leaves_of(stump(), rows), [[1], [3], [4]])


def test_joined__trees__walk_as_before_and_come_apart_again(monkeypatch):
    both = Trees.joined([stump(), stump()])
    np.testing.assert_array_equal(leaves_of(both, ROWS), [[1, 6], [3, 8], [4, 9]])
    for part, own in zip(both.first(1), stump(), strict=True):
        np.testing.assert_array_equal(part, own)
    for part, own in zip(both.first(2), both, strict=True):
        np.testing.assert_array_equal(part, own)
    monkeypatch.setattr(scikit, "_CELLS_PER_BLOCK", 2)  # a row at a time
    np.testing.assert_array_equal(leaves_of(both, ROWS), [[1, 6], [3, 8], [4, 9]])


@pytest.mark.parametrize(
    ("part", "place", "value", "message"),
    [
        ("left", 0, 0, "lead outside"),  # back to itself: the walk would never end
        ("right", 2, 5, "lead outside"),
        ("feature", 0, 2, "lead outside"),
        ("roots", 0, 9, "no nodes"),
    ],
)
def test_unpack__arrays_that_are_no_trees__are_refused(part, place, value, message):
    tensors = packed(stump())
    Trees.unpack("t", tensors, 2)
    tensors[f"t.{part}"][place] = value
    with pytest.raises(ValueError, match=message):
        Trees.unpack("t", tensors, 2)


def test_unpack__different_lengths__are_refused():
    tensors = packed(stump()) | {"t.threshold": torch.zeros(3, dtype=torch.float64)}
    with pytest.raises(ValueError, match="different lengths"):
        Trees.unpack("t", tensors, 2)


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
@pytest.mark.parametrize("n_labels", [1, 3])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_grow_forests__one_go__predicts_as_scikit_learn(kind, n_labels, form, table):
    X, Y = form(table[0]), table[1][:, :n_labels]
    (forest,) = grow_forests(kind, X, Y, 7, 5, min_samples_leaf=2)
    seed = int(np.random.default_rng(5).integers(2**31 - 1))
    own = kind(7, min_samples_leaf=2, random_state=seed).fit(X, Y if n_labels > 1 else Y[:, 0]).predict_proba(X)
    expected = np.column_stack([probs[:, 1] for probs in own]) if n_labels > 1 else own[:, [1]]
    np.testing.assert_allclose(forest.probs(X), expected, atol=1e-12)


def test_grow_forests__a_few_trees_at_a_time__grows_all(table, monkeypatch):
    monkeypatch.setattr(scikit, "_BYTES_AT_ONCE", 40_000)
    (forest,) = grow_forests(ExtraTreesClassifier, *table, 7, 0, min_samples_leaf=1)
    assert len(forest.trees.roots) == 7
    # Leaves of one row hold its own labels: all trees agree on the training rows.
    same = np.unique(table[0], axis=0).shape[0] == len(table[0])
    assert same
    np.testing.assert_allclose(forest.probs(table[0]), table[1], atol=1e-12)


def test_boost__rounds__predict_as_scikit_learn(table):
    X, Y = table
    settings = {"max_iter": 12, "learning_rate": 0.2, "max_leaf_nodes": 5, "min_samples_leaf": 5, "max_features": 0.5}
    models = [boost(X, Y[:, label] == 1, label, np.arange(5), random_state=3, **settings) for label in (0, 2)]
    own = HistGradientBoostingClassifier(early_stopping=False, random_state=3, **settings)
    staged = np.column_stack(list(own.fit(X, Y[:, 0] == 1).staged_decision_function(X)))
    np.testing.assert_allclose(all_rounds(models[0], X), staged, atol=1e-10)
    both = Boosted.joined(models, 4)  # the first rounds, side by side
    assert both.labels.tolist() == [0, 2]
    for place, model in enumerate(models):
        kept = np.vstack([odds[:, place] for _, odds in both.rounds(X)])
        np.testing.assert_array_equal(kept, all_rounds(model, X)[:, :4])


def test_boosted_trees__validation_rows__choose_the_rounds_with_the_least_loss(table):
    X, Y = table
    held = (X[100:], Y[100:])
    losses = []
    settings = {"learning_rate": 0.5, "min_leaf_rows": 5, "random_state": 0, "n_threads": 1}
    for rounds in range(1, 9):
        model = BoostedTrees(max_rounds=rounds, validation_fraction=0.0, **settings)
        losses.append(log_loss(Y[100:], model.fit(X[:100], Y[:100]).predict_proba(X[100:])))
    chosen = BoostedTrees(max_rounds=8, **settings).fit(X[:100], Y[:100], validation=held)
    assert chosen.n_rounds_ == int(np.argmin(losses)) + 1
    assert log_loss(Y[100:], chosen.predict_proba(X[100:])) == pytest.approx(min(losses))


@pytest.mark.parametrize("cls", [RandomForest, ExtraTrees])
def test_forest__what_no_leaf_has_seen__is_rare_not_impossible(cls, table):
    X, Y = table
    model = cls(n_trees=9, leaf_sizes=(1,), validation_fraction=0.0, n_threads=1, random_state=0).fit(X, Y)
    probs = model.predict_proba(X)
    (forest,) = model.forests_
    shares = forest.probs(model.features_.transform(X, dtype=np.float64))
    np.testing.assert_allclose(probs, (9 * shares + model.rates_) / 10, atol=1e-12)
    assert probs.min() > 0
    assert probs.max() < 1


def test_forest__many_columns__tries_narrow_splits_only():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 151)), rng.integers(0, 2, size=(60, 2))
    model = ExtraTrees(n_trees=4, leaf_sizes=(1, 5), n_threads=1, random_state=0)
    assert model._settings(150)[-1] == {"max_features": 1.0, "min_samples_leaf": 5}
    assert [setting["max_features"] for setting in model._settings(151)] == ["sqrt", "sqrt"]
    # A third of eight columns is their square root: the same forests need not be grown twice.
    assert len(RandomForest(leaf_sizes=(1, 5))._settings(8)) == 2
    assert len(RandomForest(leaf_sizes=(1, 5))._settings(20)) == 4
    assert model.fit(X, Y).setting_["max_features"] == "sqrt"


def test_forest__without_validation_rows__takes_the_middle_leaf_size(table):
    model = RandomForest(n_trees=2, validation_fraction=0.0, n_threads=1).fit(*table)
    assert model.setting_ == {"max_features": "sqrt", "min_samples_leaf": 5}


def test_forest__damaged_leaves__do_not_load(table, tmp_path):
    model = ExtraTrees(n_trees=2, leaf_sizes=(5,), n_threads=1, random_state=0).fit(*table)
    model.forests_[0].leaf[model.forests_[0].trees.feature < 0] = 10_000
    model.save(tmp_path / "model")
    with pytest.raises(ModelError, match="leaves must fit the trees"):
        load_model(tmp_path / "model")


def test_boosted_trees__table_of_zeros_and_ones__needs_two_bins():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, size=(80, 4)).astype(float)
    assert scikit._n_bins(bits) == 2
    assert scikit._n_bins(rng.normal(size=(600, 1))) == 255


def test_boosted_trees__column_that_cannot_be_split__is_left_out_and_nothing_changes():
    rng = np.random.default_rng(0)
    useful = rng.normal(size=(90, 3))
    present = useful[:, 1] + 0.3 * rng.normal(size=90) > 0
    rare, enough = np.zeros(90), np.zeros(90)
    rare[np.flatnonzero(present)[:9]] = 1.0  # tells the label, in one row too few
    enough[np.flatnonzero(present)[:10]] = 1.0
    X = np.column_stack([rare, useful, enough])
    columns = scikit._splittable(X, 10)
    np.testing.assert_array_equal(columns, [1, 2, 3, 4])
    settings = {"max_iter": 15, "random_state": 0, "min_samples_leaf": 10, "max_leaf_nodes": 6}
    with_all, without = (boost(X, present, 0, kept, **settings) for kept in (np.arange(5), columns))
    np.testing.assert_array_equal(with_all.trees.feature, without.trees.feature)
    np.testing.assert_array_equal(all_rounds(with_all, X), all_rounds(without, X))
    assert set(np.unique(without.trees.feature)) <= {-1, 1, 2, 3, 4}
    # Where nothing can be split there is still a model: the rate.
    np.testing.assert_array_equal(scikit._splittable(X[:, :1], 10), [0])
    BoostedTrees(max_rounds=2, min_leaf_rows=50, n_threads=1).fit(X, np.column_stack([present, ~present]))


@pytest.fixture(scope="module")
def odds_table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    Y = (X[:, :3] + rng.normal(size=(80, 3)) > 0.4).astype(float)
    return X, Y


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_fit_logistic__each_label__has_no_gradient_left(kind, odds_table):
    """d/dw of sum of losses + penalty * unit / 2 * |w|^2 is X'(p - y) + penalty * unit * w."""
    X, Y = odds_table
    gappy = Y.copy()
    gappy[::4, 2] = np.nan
    odds = fit_logistic(kind(X), gappy, penalty=0.3)
    unit = (X**2).sum(axis=1).mean()
    for label in range(3):
        seen = ~np.isnan(gappy[:, label])
        gap = expit(X[seen] @ odds.weights[:, label] + odds.intercepts[label]) - gappy[seen, label]
        np.testing.assert_allclose(X[seen].T @ gap + 0.3 * unit * odds.weights[:, label], 0, atol=0.05)
        assert abs(gap.sum()) < 0.05


def test_fit_logistic__from_the_solution__stays_there(odds_table):
    first = fit_logistic(*odds_table, penalty=0.3)
    again = fit_logistic(*odds_table, penalty=0.3, start=first)
    np.testing.assert_allclose(again.weights, first.weights, atol=0.01)


def test_fit_logistic__label_of_one_class__has_the_odds_of_its_rate():
    odds = fit_logistic(np.arange(4.0)[:, None], np.array([[1], [1], [1], [1.0]]), penalty=1.0)
    np.testing.assert_array_equal(odds.weights, 0)
    assert odds.intercepts[0] == pytest.approx(logit(4.5 / 5))


def test_odds__by_hand__are_a_sigmoid():
    odds = Odds(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([0.0, -1.0]))
    np.testing.assert_allclose(odds.probs(np.array([[1.0, 1.0]])), [[expit(1.0), expit(1.0)]])


def test_logistic__validation_rows__choose_the_penalty_with_the_least_loss(odds_table):
    X, Y = odds_table
    held = (X[60:], Y[60:])
    candidates = (0.001, 0.1, 100.0)
    losses = []
    for penalty in candidates:
        model = LogisticLabels(penalties=(penalty,)).fit(X[:60], Y[:60], validation=held)
        losses.append(log_loss(Y[60:], model.predict_proba(X[60:])))
    chosen = LogisticLabels(penalties=candidates).fit(X[:60], Y[:60], validation=held)
    assert chosen.penalty_ == candidates[int(np.argmin(losses))]
    assert log_loss(Y[60:], chosen.predict_proba(X[60:])) == pytest.approx(min(losses), abs=1e-3)
