"""Forests as arrays: what a walk finds, what leaves hold, and what files give back."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save
from scipy import sparse
from scipy.special import expit
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

from hotvae.errors import ConfigError, DataError, ModelError
from hotvae.estimators import trees as module
from hotvae.estimators.per_label import label_rates
from hotvae.estimators.trees import Trees

KINDS = {"extra": ExtraTreesRegressor, "forest": RandomForestRegressor}


def table(n_rows=120, n_features=4, n_labels=3, seed=0, gaps=0.0):
    """Rows, some of whose values are tied, and labels that follow them, not all of them observed."""
    rng = np.random.default_rng(seed)
    features = np.where(rng.random((n_rows, n_features)) < 0.5, rng.integers(-2, 3, (n_rows, n_features)), 0.0)
    features += rng.normal(size=features.shape) * (rng.random(features.shape) < 0.5)
    odds = features @ rng.normal(size=(n_features, n_labels)) * 2
    labels = (rng.random(odds.shape) < expit(odds)).astype(float)
    labels[rng.random(labels.shape) < gaps] = np.nan
    return features, labels


def leaf_by_hand(tree, row):
    """Walk a tree of scikit-learn by hand."""
    node = 0
    while tree.children_left[node] >= 0:
        goes_left = float(np.float32(row[tree.feature[node]])) <= tree.threshold[node]
        node = tree.children_left[node] if goes_left else tree.children_right[node]
    return node


def probs_by_hand(forest, features, labels, new):
    """Mean over trees of the shares among the observed rows of a leaf, in loops."""
    rates = label_rates(labels)
    probs = np.zeros((len(new), labels.shape[1]))
    for tree in (member.tree_ for member in forest.estimators_):
        ends = [leaf_by_hand(tree, row) for row in features]
        for i, row in enumerate(new):
            leaf = leaf_by_hand(tree, row)
            for label in range(labels.shape[1]):
                members = [labels[j, label] for j, end in enumerate(ends) if end == leaf]
                observed = [value for value in members if not np.isnan(value)]
                probs[i, label] += np.mean(observed) if observed else rates[label]
    return probs / len(forest.estimators_)


def same(one, other):
    """Whether two forests are equal to the bit."""
    first, second = one.tensors(), other.tensors()
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


# --- growing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gaps", [0.0, 0.6])
def test_probs__walked_by_hand__are_the_mean_shares_of_the_leaves(kind, gaps):
    features, labels = table(gaps=gaps)
    new, _ = table(20, seed=1)
    trees = Trees.grow(features, labels, n_trees=4, min_leaf=2, seed=3, kind=kind)
    filled = np.where(np.isnan(labels), label_rates(labels), labels)
    forest = KINDS[kind](4, min_samples_leaf=2, max_features=1.0, random_state=3).fit(features, filled)
    # Half floats hold shares to half of 2**-11.
    np.testing.assert_allclose(trees.probs(new), probs_by_hand(forest, features, labels, new), atol=2.5e-4)


def test_grow__label_that_was_never_observed_in_a_leaf__has_its_prevalence_there():
    features = np.arange(8.0)[:, None]
    labels = np.array([[1, 1, 0, 0, 0, 0, 0, 0], [1, 1, 0, np.nan, np.nan, np.nan, np.nan, np.nan]]).T.astype(float)
    trees = Trees.grow(features[:, [0, 0]], labels, n_trees=1, min_leaf=1, n_targets=5)
    assert trees.probs(np.array([[0.0, 0.0]])).tolist() == [[1, 1]]
    assert trees.probs(np.array([[7.0, 7.0]]))[0, 1] == pytest.approx((2 + 0.5) / (3 + 1))


def test_grow__more_labels_than_targets__learns_them_all():
    """Forty labels by four targets: each follows one of two columns, and the leaves know."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(600, 3))
    labels = np.column_stack([features[:, i % 2] > 0 for i in range(40)]).astype(float)
    trees = Trees.grow(features, labels, n_trees=20, n_targets=4)
    new = rng.normal(size=(200, 3))
    right = (trees.probs(new) > 0.5) == np.column_stack([new[:, i % 2] > 0 for i in range(40)])
    assert right.mean(axis=0).min() > 0.9


def test_grow__same_seed__same_trees_and_another_seed_others():
    features, labels = table(n_labels=6)
    first, again, other = (Trees.grow(features, labels, n_trees=3, seed=seed, n_targets=2) for seed in (1, 1, 2))
    assert same(first, again)
    assert not np.array_equal(first.feature, other.feature)


def test_grow__sparse_rows_that_fit_as_dense_ones__give_the_same_trees():
    features, labels = table()
    assert same(Trees.grow(sparse.csr_array(features), labels, n_trees=3), Trees.grow(features, labels, n_trees=3))


def test_grow__sparse_rows_with_long_indices__gives_the_trees_of_short_ones(monkeypatch):
    monkeypatch.setattr(module, "_DENSE_BYTES", 0)
    features, labels = table()
    short, long = sparse.csr_array(features), sparse.csr_array(features)
    long.indices, long.indptr = long.indices.astype(np.int64), long.indptr.astype(np.int64)
    assert same(Trees.grow(long, labels, n_trees=3), Trees.grow(short, labels, n_trees=3))
    assert long.indices.dtype == np.int64  # what was given is left alone


def test_grow__sparse_rows_too_many_for_dense_ones__fills_leaves_as_by_hand(monkeypatch):
    monkeypatch.setattr(module, "_DENSE_BYTES", 0)
    features, labels = table()
    rows = sparse.csr_array(features)
    trees = Trees.grow(rows, labels, n_trees=3)
    forest = ExtraTreesRegressor(3, min_samples_leaf=3, random_state=0).fit(sparse.csc_matrix(rows), labels)
    by_hand = probs_by_hand(forest, features, labels, features[:10])
    np.testing.assert_allclose(trees.probs(rows[:10]), by_hand, atol=2.5e-4)


def test_grow__a_few_trees_at_a_time__grows_as_many_and_all_different(monkeypatch):
    monkeypatch.setattr(module, "_GROWN_BYTES", 1)
    features, labels = table()
    trees = Trees.grow(features, labels, n_trees=4)
    assert trees.n_trees == 4
    starts = np.cumsum(trees.tree_sizes) - trees.tree_sizes
    assert len(set(trees.threshold[starts].tolist())) == 4


def test_grow__one_label__is_learned():
    features, labels = table(n_labels=1)
    assert Trees.grow(features, labels, n_trees=3).probs(features).shape == (120, 1)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"kind": "oak"}, "kind must be one of 'extra', 'forest'; got 'oak'"),
        ({"max_features": 2.0}, "max_features must be a share of at most 1; got 2.0"),
        ({"n_trees": 0}, "n_trees must be a whole number of at least 1; got 0"),
        ({"min_leaf": 0}, "min_leaf must be a whole number"),
        ({"n_targets": 0}, "n_targets must be a whole number"),
        ({"max_bytes": 0}, "max_bytes must be a whole number"),
    ],
)
def test_grow__bad_setting__is_refused(chosen, message):
    with pytest.raises(ConfigError, match=message):
        Trees.grow(*table(), **chosen)


def test_grow__rows_and_labels_of_other_lengths__are_refused():
    features, labels = table()
    with pytest.raises(DataError, match=r"must have the same rows, at least one; got 100 and 120"):
        Trees.grow(features[:100], labels)


# --- the cap ----------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 200), st.integers(1, 9), st.integers(1, 9), st.integers(1, 5), st.integers(1, 20_000))
def test_grow__cap__is_kept(n_rows, n_labels, n_trees, min_leaf, max_bytes):
    features, labels = table(n_rows, 3, n_labels)
    trees = Trees.grow(features, labels, n_trees=n_trees, min_leaf=min_leaf, max_bytes=max_bytes)
    # One leaf is the least a forest can be.
    assert trees.shares.nbytes <= max(max_bytes, 2 * n_labels)
    fits = max(1, n_rows // min_leaf) * n_trees * n_labels * 2 <= max(max_bytes, 2 * n_labels)
    assert (trees.note == "") == fits
    assert trees.n_trees == n_trees or not fits


def test_grow__cap_by_hand__takes_fewer_trees_then_larger_leaves_then_fewer_trees():
    # A tree of 1000 rows by 4 has at most 250 leaves, of 20 bytes with 10 labels: 5 kB.
    assert module._under_cap(1000, 10, 60, 4, 300_000) == (60, 4, "")
    assert module._under_cap(1000, 10, 60, 4, 200_000)[:2] == (40, 4)
    # Twenty trees stay; 2000 leaves fit, 100 a tree, of 10 rows or more.
    assert module._under_cap(1000, 10, 60, 4, 40_000)[:2] == (20, 10)
    # 64 leaves fit, 16 for each of 4 trees.
    trees, leaf, note = module._under_cap(1000, 10, 60, 4, 1280)
    assert (trees, leaf) == (4, 63)
    assert note == (
        "Trees have leaves of at least 63 rows instead of 4 and are 4 instead of 60, so that leaves take at most "
        "0.00122 MB."
    )


# --- walks ------------------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1, 3, 10]), st.booleans(), st.sampled_from(["extra", "forest"]))
def test_leaves__any_rows__are_those_of_scikit_learn(seed, min_leaf, is_sparse, kind):
    features, labels = table(seed=seed)
    forest = KINDS[kind](5, min_samples_leaf=min_leaf, random_state=seed).fit(features, labels)
    rows = features.astype(np.float32)
    rates = label_rates(labels)
    trees = Trees.joined([Trees.from_scikit(member.tree_, rows, labels, rates) for member in forest.estimators_])
    # Rows of the training table, thresholds themselves and their neighbours among floats, zeros of both signs.
    thresholds = np.resize(trees.threshold[trees.feature >= 0], (30, 4))
    new = np.concatenate(
        [rows, thresholds, np.nextafter(thresholds, np.float32(9)), np.nextafter(thresholds, np.float32(-9))]
    )
    new = np.concatenate([new, np.zeros((1, 4), np.float32), -np.zeros((1, 4), np.float32)])
    found = trees.leaves(sparse.csr_array(new) if is_sparse else new)
    first = 0
    for tree, member in enumerate(forest.estimators_):
        pairs = set(zip(member.tree_.apply(new).tolist(), found[:, tree].tolist(), strict=True))
        # One leaf of ours for one of theirs, inside the tree's own part.
        assert len({ours for _, ours in pairs}) == len({theirs for theirs, _ in pairs}) == len(pairs)
        assert all(first <= ours < first + member.tree_.n_leaves for _, ours in pairs)
        first += member.tree_.n_leaves


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False), min_size=2, max_size=20))
def test_sort_keys__any_floats__are_in_their_order(values):
    floats = np.array(values, dtype=np.float32)
    keys = module._sort_keys(floats)
    assert keys.min() >= 0
    assert keys.max() < 2**32
    np.testing.assert_array_equal(keys[:, None] <= keys, floats[:, None] <= floats)


def test_leaves__trees_of_a_root_alone__are_the_roots():
    features, labels = table(6)
    trees = Trees.grow(features, labels, n_trees=3, min_leaf=6)
    assert trees.leaves(features).tolist() == [[0, 1, 2]] * 6
    np.testing.assert_allclose(trees.probs(features)[0], labels.mean(axis=0), atol=2.5e-4)


# --- predictions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("summed_bytes", [1, 1 << 23])
def test_probs__rows_in_other_company__are_the_same_to_the_bit(monkeypatch, summed_bytes):
    monkeypatch.setattr(module, "_SUMMED_BYTES", summed_bytes)
    monkeypatch.setattr(module, "_SUMMED_ROWS", 64)
    monkeypatch.setattr(module, "_WALKED_ROWS", 7)
    monkeypatch.setattr(module, "_WALKS", 40)
    features, labels = table(300, n_labels=21)
    trees = Trees.grow(features, labels, n_trees=12)
    probs = trees.probs(features)
    order = np.random.default_rng(0).permutation(300)
    np.testing.assert_array_equal(trees.probs(features[order]), probs[order])
    np.testing.assert_array_equal(np.concatenate([trees.probs(row[None]) for row in features]), probs)
    np.testing.assert_array_equal(trees.probs(sparse.csr_array(features)), probs)
    np.testing.assert_array_equal(trees.probs(features.astype(np.float32)), probs)


def test_probs__columns_that_no_tree_looks_at__do_not_matter():
    rng = np.random.default_rng(0)
    features = np.column_stack([np.zeros(80), rng.normal(size=80), np.zeros(80)])
    trees = Trees.grow(features, (features[:, [1]] > 0).astype(float), n_trees=5)
    other = features + np.array([5.0, 0.0, -5.0])
    np.testing.assert_array_equal(trees.probs(other), trees.probs(features))


def test_probs__no_rows__are_none():
    trees = Trees.grow(*table(), n_trees=2)
    assert trees.probs(np.zeros((0, 4))).shape == (0, 3)


def test_probs__other_columns__are_refused():
    trees = Trees.grow(*table(), n_trees=2)
    with pytest.raises(DataError, match=r"must have the 4 columns the trees were grown on; got shape \(2, 5\)"):
        trees.probs(np.zeros((2, 5)))


def test_logits__prevalence__counts_as_one_more_tree():
    features, labels = table()
    labels[:, 1] = 0
    trees = Trees.grow(features, labels, n_trees=7)
    rates = label_rates(labels)
    expected = (trees.probs(features) * 7.0 + rates) / 8
    np.testing.assert_allclose(expit(trees.logits(features).astype(float)), expected, atol=1e-6)
    assert trees.logits(features).dtype == np.float32


def test_logits__label_of_all_rows_but_few__are_clipped():
    features, _ = table(1000)
    trees = Trees.grow(features, np.zeros((1000, 2)), n_trees=200, min_leaf=500)
    np.testing.assert_allclose(trees.logits(features), np.log(1e-5 / (1 - 1e-5)), rtol=1e-5)


# --- joined -----------------------------------------------------------------------------------------------


def test_joined__forests_of_different_sizes__are_their_weighted_mean():
    features, labels = table()
    few, many = Trees.grow(features[:60], labels[:60], n_trees=2), Trees.grow(features[60:], labels[60:], n_trees=6)
    both = Trees.joined([few, many])
    assert both.n_trees == 8
    np.testing.assert_allclose(both.probs(features), (few.probs(features) + 3 * many.probs(features)) / 4, atol=1e-6)
    np.testing.assert_allclose(both.prevalence, (few.prevalence + 3 * many.prevalence) / 4, atol=1e-7)


def test_joined__notes__are_told_once():
    features, labels = table()
    capped = Trees.grow(features, labels, n_trees=5, max_bytes=300)
    assert Trees.joined([capped, capped, Trees.grow(features, labels, n_trees=1)]).note == capped.note != ""


def test_joined__other_labels_or_nothing__is_refused():
    features, labels = table()
    parts = [Trees.grow(features, labels, n_trees=1), Trees.grow(features, labels[:, :2], n_trees=1)]
    with pytest.raises(DataError, match=r"same columns and labels; got \(columns, labels\) \(4, 2\), \(4, 3\)"):
        Trees.joined(parts)
    with pytest.raises(DataError, match="must be one or more"):
        Trees.joined([])


# --- storage ----------------------------------------------------------------------------------------------


def test_tensors__through_a_file__give_the_same_bits():
    features, labels = table(gaps=0.2)
    trees = Trees.joined([Trees.grow(features, labels, n_trees=3, kind=kind) for kind in KINDS])
    content = save(trees.tensors())
    again = Trees.from_tensors(load(content))
    assert same(trees, again)
    np.testing.assert_array_equal(again.logits(features), trees.logits(features))
    assert trees.tensors()["shares"].dtype == torch.float16
    assert trees.n_bytes < len(content) < trees.n_bytes + 1000
    assert (again.n_trees, again.n_labels, again.n_features) == (6, 3, 4)
    assert "6 trees" in repr(again)


def spoiled(name, change):
    """Tensors of a forest of two trees, one of which was changed."""
    tensors = {key: value.clone() for key, value in Trees.grow(*table(), n_trees=2).tensors().items()}
    tensors[name] = change(tensors[name])
    return tensors


def put(index, value):
    """A change of one entry."""

    def change(tensor):
        tensor[index] = value
        return tensor

    return change


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("shares", lambda t: t.float(), "shares of trees must be torch.float16 with 2 axes; got torch.float32 with 2"),
        ("shares", lambda t: t[:-1], "leaves of shape"),
        ("shares", lambda t: t[:, :-1], "leaves of shape"),
        ("shares", put((0, 0), 1.5), "shares below 0 or above 1"),
        ("shares", put((0, 0), float("nan")), "shares below 0 or above 1"),
        ("prevalence", put(0, -1), "shares below 0 or above 1"),
        ("feature", put(0, 4), "splits by column 4 of 4"),
        ("feature", put(0, -2), "splits by column"),
        ("feature", put(0, -1), "nobody's children"),
        ("feature", lambda t: t.flip(0), "nobody's children"),
        ("feature", lambda t: t[1:], "nodes for trees of"),
        ("threshold", lambda t: t[1:], "thresholds for"),
        ("threshold", put(0, float("nan")), "thresholds that are no numbers"),
        ("tree_sizes", lambda t: t[:1], "nodes for trees of"),
        ("tree_sizes", lambda t: t + torch.tensor([2, -2]), "nobody's children"),
        ("tree_sizes", lambda t: t[:0], "nodes for trees of 0"),
        ("n_features", lambda t: t[:0], "no number of columns"),
    ],
)
def test_from_tensors__parts_that_do_not_fit__are_refused(name, change, message):
    with pytest.raises(ModelError, match=f"{message}.*Restore the model from a copy"):
        Trees.from_tensors(spoiled(name, change))


def test_from_tensors__absent_part__is_named():
    tensors = spoiled("shares", lambda t: t)
    del tensors["shares"]
    with pytest.raises(ModelError, match="trees must be complete; got no 'shares'"):
        Trees.from_tensors(tensors)
