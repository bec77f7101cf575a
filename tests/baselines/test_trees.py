"""Trees as arrays: the same answers as scikit-learn, the same after joining, and no walk that leaves the arrays."""

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier

from hotvae.baselines import forests, trees
from hotvae.baselines.boosting import BoostedTrees, boost
from hotvae.baselines.forests import ExtraTrees, RandomForest, grow_forest
from hotvae.baselines.trees import Trees
from hotvae.errors import ModelError
from hotvae.estimators.per_label import label_groups
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


def leaves_of(made, rows):
    return np.vstack([leaves for _, leaves in made.leaves(rows, np.float64)])


def test_leaves__of_a_stump__by_hand():
    for rows in (ROWS, sparse.csr_matrix(ROWS)):
        np.testing.assert_array_equal(leaves_of(stump(), rows), [[1], [3], [4]])


def test_joined__trees__walk_as_before_and_come_apart_again(monkeypatch):
    both = Trees.joined([stump(), stump()])
    np.testing.assert_array_equal(leaves_of(both, ROWS), [[1, 6], [3, 8], [4, 9]])
    for place in (0, 1):
        for part, own in zip(both.between(place, place + 1), stump(), strict=True):
            np.testing.assert_array_equal(part, own)
    monkeypatch.setattr(trees, "_CELLS_PER_BLOCK", 2)  # a row at a time
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
    tensors = stump().pack("t")
    Trees.unpack("t", tensors, 2)
    tensors[f"t.{part}"][place] = value
    with pytest.raises(ValueError, match=message):
        Trees.unpack("t", tensors, 2)


def test_unpack__different_lengths__are_refused():
    tensors = stump().pack("t") | {"t.threshold": torch.zeros(3, dtype=torch.float64)}
    with pytest.raises(ValueError, match="different lengths"):
        Trees.unpack("t", tensors, 2)


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
@pytest.mark.parametrize("n_labels", [1, 3])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_grow_forest__one_go__predicts_as_scikit_learn(kind, n_labels, form, table):
    X, Y = form(table[0]), table[1][:, :n_labels]
    (group,) = label_groups(Y)
    forest = grow_forest(kind, X, Y, group, 7, 5, min_samples_leaf=2)
    seed = int(np.random.default_rng(5).integers(2**31 - 1))
    own = kind(7, min_samples_leaf=2, random_state=seed).fit(X, Y if n_labels > 1 else Y[:, 0]).predict_proba(X)
    expected = np.column_stack([probs[:, 1] for probs in own]) if n_labels > 1 else own[:, [1]]
    np.testing.assert_allclose(forest.probs(X), expected, atol=1e-12)


def test_grow_forest__a_few_trees_at_a_time__grows_all(table, monkeypatch):
    (group,) = label_groups(table[1])
    monkeypatch.setattr(forests, "_BYTES_AT_ONCE", 40_000)
    forest = grow_forest(ExtraTreesClassifier, *table, group, 7, 0, min_samples_leaf=1)
    assert len(forest.trees.roots) == 7
    # Leaves of one row hold its own labels: all trees agree on the training rows.
    same = np.unique(table[0], axis=0).shape[0] == len(table[0])
    assert same
    np.testing.assert_allclose(forest.probs(table[0]), table[1], atol=1e-12)


def test_boost__rounds__predict_as_scikit_learn(table):
    X, Y = table
    settings = {"learning_rate": 0.2, "max_leaf_nodes": 5, "min_samples_leaf": 5, "max_features": 0.5}
    model = boost(X, Y[:, 0] == 1, 12, seed=3, **settings)
    own = HistGradientBoostingClassifier(max_iter=12, early_stopping=False, random_state=3, **settings)
    staged = np.column_stack(list(own.fit(X, Y[:, 0] == 1).staged_decision_function(X)))
    np.testing.assert_allclose(model.odds(X), staged, atol=1e-10)
    np.testing.assert_array_equal(model.first(4).odds(X), model.odds(X)[:, :4])


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
    shares = forest.probs(model.scaler_.transform(X, dtype=np.float64))
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
    from hotvae.baselines.boosting import _n_bins

    assert _n_bins(bits) == 2
    assert _n_bins(rng.normal(size=(600, 1))) == 255


def test_boosted_trees__column_that_cannot_be_split__is_left_out_and_nothing_changes():
    from hotvae.baselines.boosting import _splittable

    rng = np.random.default_rng(0)
    useful = rng.normal(size=(90, 3))
    present = useful[:, 1] + 0.3 * rng.normal(size=90) > 0
    rare, enough = np.zeros(90), np.zeros(90)
    rare[np.flatnonzero(present)[:9]] = 1.0  # tells the label, in one row too few
    enough[np.flatnonzero(present)[:10]] = 1.0
    X = np.column_stack([rare, useful, enough])
    columns = _splittable(X, 10)
    np.testing.assert_array_equal(columns, [1, 2, 3, 4])
    settings = {"min_samples_leaf": 10, "max_leaf_nodes": 6}
    with_all, without = (boost(X, present, 15, 0, kept, **settings) for kept in (None, columns))
    np.testing.assert_array_equal(with_all.trees.feature, without.trees.feature)
    np.testing.assert_array_equal(with_all.odds(X), without.odds(X))
    assert set(np.unique(without.trees.feature)) <= {-1, 1, 2, 3, 4}
    # Where nothing can be split there is still a model: the rate.
    np.testing.assert_array_equal(_splittable(X[:, :1], 10), [0])
    BoostedTrees(max_rounds=2, min_leaf_rows=50, n_threads=1).fit(X, np.column_stack([present, ~present]))
