"""MLkNN: by hand, against a loop written from the paper, its speed, and its values on real tables."""

import os

import numpy as np
import pytest
from scipy import sparse

from hotvae import read_table
from hotvae.baselines.mlknn import MLkNN
from hotvae.metrics import hamming_accuracy

DATA = os.environ.get("HOTVAE_DATA_DIR")
needs_data = pytest.mark.skipif(DATA is None, reason="HOTVAE_DATA_DIR is not set: no real tables")


def mlknn_by_loop(rows, labels, queries, k=10, s=1.0):
    """One row at a time, one label at a time, as the paper writes it."""
    n, n_labels = labels.shape

    def count(row, skip):
        distances = np.sqrt(((rows - row) ** 2).sum(axis=1))
        order = [i for i in np.argsort(distances, kind="stable") if i != skip][:k]
        return [int(sum(labels[i, j] for i in order)) for j in range(n_labels)]

    present = np.zeros((n_labels, k + 1))
    absent = np.zeros((n_labels, k + 1))
    for i in range(n):
        for j, c in enumerate(count(rows[i], skip=i)):
            (present if labels[i, j] == 1 else absent)[j, c] += 1
    probs = np.zeros((len(queries), n_labels))
    for i, query in enumerate(queries):
        for j, c in enumerate(count(query, skip=None)):
            prior = (s + labels[:, j].sum()) / (2 * s + n)
            with_label = prior * (s + present[j, c]) / (s * (k + 1) + present[j].sum())
            without = (1 - prior) * (s + absent[j, c]) / (s * (k + 1) + absent[j].sum())
            probs[i, j] = with_label / (with_label + without)
    return probs


def test_mlknn__four_rows__matches_hand_calculation():
    """Places 0, 1, 10, 11 with labels 1, 1, 0, 0; k = 1, s = 1.

    Each row's neighbour has its own label: P(C = 1 | present) = (1 + 2) / (2 + 2) = 3/4, P(C = 1 | absent) = 1/4,
    prior 3/6. A row near 0 has C = 1: 1/2 * 3/4 / (1/2 * 3/4 + 1/2 * 1/4) = 3/4.
    """
    X = np.array([[0.0], [1.0], [10.0], [11.0]])
    model = MLkNN(n_neighbours=1, validation_fraction=0.0).fit(X, np.array([[1], [1], [0], [0]]))
    np.testing.assert_allclose(model.prior_, [0.5])
    np.testing.assert_allclose(model.given_present_, [[0.25, 0.75]])
    np.testing.assert_allclose(model.predict_proba([[0.4], [9.0]]), [[0.75], [0.25]])


@pytest.mark.parametrize(("k", "s"), [(1, 1.0), (5, 0.5), (10, 1.0)])
def test_mlknn__random_table__matches_the_loop(k, s):
    rng = np.random.default_rng(k)
    rows = rng.normal(size=(60, 4))
    labels = (rows[:, :3] + rng.normal(size=(60, 3)) > 0.5).astype(float)
    queries = rng.normal(size=(20, 4))
    model = MLkNN(n_neighbours=k, smoothing=s, validation_fraction=0.0).fit(rows, labels)
    scaled = model.features_.transform(rows, dtype=np.float64)
    expected = mlknn_by_loop(scaled, labels, model.features_.transform(queries, dtype=np.float64), k, s)
    np.testing.assert_allclose(model.predict_proba(queries), expected, atol=1e-12)


def test_mlknn__a_row_itself__is_not_among_its_neighbours():
    """Labels alternate along a line: with itself counted, a row's own label would make the counts agree with it."""
    X = np.arange(20.0)[:, None]
    Y = (np.arange(20) % 2)[:, None]
    model = MLkNN(n_neighbours=2, validation_fraction=0.0).fit(X, Y)
    # Both neighbours of an inner row have the other label.
    assert model.given_present_[0].argmax() == 0
    assert model.given_absent_[0].argmax() == 2


def test_mlknn__more_neighbours_than_rows__uses_what_is_there():
    X, Y = np.array([[0.0], [1.0], [2.0]]), np.array([[0, 1], [1, 1], [1, 0]])
    model = MLkNN(n_neighbours=10, validation_fraction=0.0).fit(X, Y)
    assert model.given_present_.shape == (2, 3)
    assert model.predict_proba(X).shape == (3, 2)


def test_mlknn__bags_of_words__does_not_care_for_their_length():
    rng = np.random.default_rng(0)
    bags = (rng.uniform(size=(50, 12)) < 0.3).astype(float)
    Y = bags[:, :2]
    model = MLkNN(n_neighbours=3, validation_fraction=0.0).fit(sparse.csr_array(bags), Y)
    queries = sparse.csr_array(bags[:10])
    np.testing.assert_allclose(model.predict_proba(queries), model.predict_proba(5 * queries))


@needs_data
@pytest.mark.data
@pytest.mark.parametrize(("name", "least"), [("scene", 0.900), ("yeast", 0.800)])
def test_mlknn__published_split__reaches_the_textbook_value(name, least):
    path = os.path.join(DATA, f"{name}.npz")
    data = read_table(path)
    with np.load(path, allow_pickle=False) as file:
        train, test = file["train_idx"], file["test_idx"]
    model = MLkNN(validation_fraction=0.0, n_threads=1).fit(data.features[train], data.labels[train])
    assert hamming_accuracy(data.labels[test], model.predict(data.features[test])) >= least


@needs_data
@pytest.mark.data
@pytest.mark.slow
def test_mlknn__on_yeast__is_what_the_loop_computes():
    path = os.path.join(DATA, "yeast.npz")
    data = read_table(path)
    with np.load(path, allow_pickle=False) as file:
        train, test = file["train_idx"], file["test_idx"]
    X, Y = np.asarray(data.features, dtype=np.float64), np.asarray(data.labels)
    model = MLkNN(validation_fraction=0.0, n_threads=1)
    probs = model.fit(X[train], Y[train]).predict_proba(X[test])
    scaled = model.features_.transform(X, dtype=np.float64)
    expected = mlknn_by_loop(scaled[train], Y[train], scaled[test])
    np.testing.assert_allclose(probs, expected, atol=1e-9)
