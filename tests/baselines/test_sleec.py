"""SLEEC: its parts against slow solutions, clusters, wide sparse tables, and precision on real tables."""

import os
import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from hotvae import read_table
from hotvae.baselines.sleec import SLEEC, embed_labels, label_neighbours, masked_products, regress
from hotvae.metrics import precision_at_k

DATA = os.environ.get("HOTVAE_DATA_DIR")
needs_data = pytest.mark.skipif(DATA is None, reason="HOTVAE_DATA_DIR is not set: no real tables")


@pytest.fixture(scope="module")
def labels():
    return sparse.csr_array((np.random.default_rng(0).uniform(size=(70, 9)) < 0.3).astype(float))


def test_label_neighbours__any_row__chooses_those_that_share_most(labels):
    mask = label_neighbours(labels, 5, np.random.default_rng(0)).toarray()
    shared = (labels @ labels.T).toarray()
    np.testing.assert_array_equal(mask, mask.T)
    assert (np.diag(mask) == 1).all()
    assert set(np.unique(mask)) == {0, 1}
    for i in range(70):
        fifth = np.sort(shared[i])[-5]
        # Whoever shares more than the fifth is chosen; whoever shares less is there only by its own choice.
        assert (mask[i][shared[i] > fifth] == 1).all()
        for j in np.flatnonzero((mask[i] == 1) & (shared[i] < fifth)):
            assert i == j or shared[j, i] >= np.sort(shared[j])[-5]


def test_masked_products__marked_pairs__equal_the_full_matrix(labels):
    mask = label_neighbours(labels, 6, np.random.default_rng(1))
    full = (labels @ labels.T).toarray()
    rows, columns = mask.nonzero()
    for table in (labels, labels.toarray()):
        np.testing.assert_array_equal(masked_products(table, table, mask), full[rows, columns])


def svp_by_eigh(gram, mask, dim, n_iterations):
    """The paper's iteration with full eigendecompositions."""
    M = np.zeros_like(gram)
    for _ in range(n_iterations):
        values, vectors = np.linalg.eigh(M + mask * (gram - M))
        top = np.argsort(-values)[:dim]
        M = (vectors[:, top] * np.maximum(values[top], 0)) @ vectors[:, top].T
    return M


def test_embed_labels__masked_gram__matches_full_eigendecompositions(labels):
    """Power iteration is exact in the limit; what counts is the fit at the marked pairs."""
    mask = label_neighbours(labels, 15, np.random.default_rng(0))
    gram, marked = (labels @ labels.T).toarray(), mask.toarray() == 1
    places = embed_labels(labels, mask, 6, 40, np.random.default_rng(0))
    assert places.shape == (70, 6)
    M = svp_by_eigh(gram, marked, 6, 40)

    def error(products):
        return np.sqrt(((products - gram)[marked] ** 2).mean())

    assert error(places @ places.T) == pytest.approx(error(M), rel=0.02)
    assert error(places @ places.T) < 0.3 * error(np.zeros_like(gram))


def objective(features, embeddings, regressor, penalty, sparsity):
    reached = features @ regressor
    return (
        0.5 * ((embeddings - reached) ** 2).sum()
        + 0.5 * penalty * (regressor**2).sum()
        + sparsity * np.abs(reached).sum()
    )


@pytest.mark.parametrize("shape", [(30, 5), (5, 30)], ids=["more rows", "more columns"])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_regress__no_sparsity__is_ridge_regression(shape, kind):
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=shape), rng.normal(size=(shape[0], 2))
    penalty = 0.4 * (X**2).sum() / shape[0]
    expected = np.linalg.solve(X.T @ X + penalty * np.eye(shape[1]), X.T @ Z)
    np.testing.assert_allclose(regress(kind(X), Z, 0.4, 0.0), expected, atol=1e-9)


@pytest.mark.parametrize("shape", [(40, 6), (12, 30)], ids=["more rows", "more columns"])
def test_regress__with_sparsity__minimises_its_objective(shape):
    """Convex: no small step in a random direction may lower it, and it beats the ridge solution."""
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=shape), rng.normal(size=(shape[0], 3))
    penalty = 0.1 * (X**2).sum() / shape[0]
    found = regress(X, Z, 0.1, 0.5, n_iterations=500)
    least = objective(X, Z, found, penalty, 0.5)
    assert least < objective(X, Z, regress(X, Z, 0.1, 0.0), penalty, 0.5) - 1e-3
    for _ in range(50):
        step = 1e-3 * rng.normal(size=found.shape)
        assert objective(X, Z, found + step, penalty, 0.5) >= least - 1e-6


@pytest.fixture(scope="module")
def two_worlds():
    """Two far clusters of rows, each with label sets of its own."""
    rng = np.random.default_rng(0)
    side = np.repeat([0, 1], 150)
    X = rng.normal(size=(300, 3)) + 20 * side[:, None]
    which = (X[:, 0] > 20 * side).astype(int) + 2 * side
    return X, np.eye(4)[which]


def test_sleec__two_clusters__has_a_learner_for_each(two_worlds):
    model = SLEEC(n_learners=2, rows_per_cluster=120, n_neighbours=5, random_state=0).fit(*two_worlds)
    for learner in model.learners_:
        assert len(learner.clusters) == 2
        rows = np.concatenate([cluster.rows for cluster in learner.clusters])
        assert sorted(rows) == list(range(240))
    assert precision_at_k(two_worlds[1], model.predict_proba(two_worlds[0]), 1) > 0.95


def test_sleec__learners__differ_and_are_averaged(two_worlds):
    X, Y = two_worlds
    both = SLEEC(n_learners=2, n_neighbours=5, n_graph_neighbours=20, validation_fraction=0.0, random_state=0).fit(X, Y)
    alone = []
    for learner in both.learners_:
        single = SLEEC(n_learners=1, n_neighbours=5, validation_fraction=0.0, random_state=0).fit(X, Y)
        single.learners_ = [learner]
        alone.append(single.predict_proba(X))
    np.testing.assert_allclose(both.predict_proba(X), np.mean(alone, axis=0), atol=1e-12)
    assert not np.array_equal(both.learners_[0].clusters[0].embeddings, both.learners_[1].clusters[0].embeddings)


def test_sleec__smoothing__keeps_the_ranking_and_leaves_no_zero(two_worlds):
    X, Y = two_worlds
    plain, smooth = (
        SLEEC(n_learners=1, n_neighbours=5, smoothing=s, random_state=0).fit(X, Y).predict_proba(X) for s in (0.0, 1.0)
    )
    assert (plain == 0).any()
    np.testing.assert_allclose(smooth, (5 * plain + 0.25) / 6, atol=2e-3)  # four labels, a quarter each


@pytest.mark.slow
def test_sleec__wide_sparse_table__is_never_made_dense():
    """400 rows of 300,000 columns would be 1 GB."""
    rng = np.random.default_rng(0)
    Y = np.eye(4)[rng.integers(0, 4, size=400)]
    columns = rng.integers(10, 300_000, size=(400, 4))
    columns[:, 0] = Y.argmax(axis=1)
    starts = np.arange(0, 1601, 4)
    X = sparse.csr_array((np.ones(1600), columns.ravel(), starts), shape=(400, 300_000))
    model = SLEEC(n_learners=1, n_neighbours=5, n_graph_neighbours=30, dim=4, random_state=0)
    tracemalloc.start()
    model.fit(X[:300], Y[:300])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3e8
    assert precision_at_k(Y[300:], model.predict_proba(X[300:]), 1) > 0.9


@needs_data
@pytest.mark.data
@pytest.mark.slow
def test_sleec__bibtex__reaches_its_papers_precision():
    """The paper prints .6508 for precision at 1."""
    path = os.path.join(DATA, "bibtex.npz")
    data = read_table(path)
    with np.load(path, allow_pickle=False) as file:
        train, test = file["train_idx"], file["test_idx"]
    model = SLEEC(validation_fraction=0.0, random_state=0, n_threads=1)
    probs = model.fit(data.features[train], data.labels[train]).predict_proba(data.features[test])
    assert precision_at_k(data.labels[test], probs, 1) >= 0.63
