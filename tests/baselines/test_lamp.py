"""LaMP as a classifier: its label graphs come from training rows, its encoders from the house."""

import numpy as np
import pytest
from scipy import sparse

from hotvae.baselines.lamp import LaMP
from hotvae.errors import DataError
from hotvae.graph import cooccurrence_graph

SMALL = {"dim": 8, "n_heads": 2, "feedforward_dim": 8, "max_epochs": 1, "n_threads": 1, "random_state": 0}


@pytest.fixture(scope="module")
def table():
    """Labels 0 and 1 never occur together, nor do 2 and 3."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 5))
    first, second = X[:, 0] > 0, X[:, 1] > 0
    return X, np.column_stack([first, ~first, second, ~second]).astype(int)


@pytest.mark.parametrize("name", ["prior", "cooccurrence"])
def test_prior_graph__labels_never_together__have_no_edge(table, name):
    model = LaMP(**SMALL, graph=name).fit(*table)
    np.testing.assert_array_equal(model.graph_, cooccurrence_graph(table[1]))
    assert not model.graph_[0, 1]
    assert model.graph_[0, 2]
    np.testing.assert_array_equal(model.network_.decoder.graph.numpy(), model.graph_)


@pytest.mark.parametrize("name", ["none", "complete"])
def test_complete_graph__under_both_names__no_mask(table, name):
    assert LaMP(**SMALL, graph=name).fit(*table).graph_ is None


def test_edgeless_graph__each_label_by_itself(table):
    np.testing.assert_array_equal(LaMP(**SMALL, graph="edgeless").fit(*table).graph_, np.eye(4, dtype=bool))


def test_own_graph__is_checked_and_kept_in_the_file(table, tmp_path):
    graph = cooccurrence_graph(table[1])
    model = LaMP(**SMALL, graph=graph).fit(*table)
    model.save(tmp_path / "model")
    loaded = LaMP.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.graph_, graph)
    np.testing.assert_array_equal(loaded.predict_proba(table[0]), model.predict_proba(table[0]))
    with pytest.raises(DataError, match=r"graph must have shape \(4, 4\); got \(2, 2\)"):
        LaMP(**SMALL, graph=np.eye(2, dtype=bool)).fit(*table)


def test_prior_graph__validation_rows__have_no_say(table):
    """A pair that occurs together in validation rows alone keeps no edge."""
    X, Y = table
    both = np.array([[1, 1, 0, 1]] * 12)
    model = LaMP(**SMALL, graph="prior").fit(X, Y, validation=(X[:12], both))
    assert not model.graph_[0, 1]


@pytest.mark.parametrize("encoder", ["columns", "mlp", "set"])
def test_encoders__of_the_house__serve_lamp_too(table, encoder):
    X = sparse.csr_array((table[0] > 0).astype(float))
    model = LaMP(**SMALL, encoder=encoder, encoder_widths=(8,)).fit(X, table[1])
    assert model.predict_proba(X).shape == (80, 4)


def test_texts__words_as_nodes__labels_found():
    texts = ["ripe apple", "green apple", "old oak", "tall oak"] * 10
    labels = np.array([[1, 0], [1, 0], [0, 1], [0, 1]] * 10)
    settings = SMALL | {"max_epochs": 15, "learning_rate": 0.02}
    model = LaMP(**settings, encoder="text", encoder_dropout=0.0, min_word_count=1).fit(texts, labels)
    assert model.predict(["red apple", "oak"]).tolist() == [[1, 0], [0, 1]]


def test_loss__intermediate_read_outs__weighted_in(table):
    model = LaMP(**SMALL, n_layers=3, intermediate_weight=0.5).fit(*table)
    record = model.history_.records[0]
    assert record["loss"] == pytest.approx(record["loss_bce"] + 0.5 * record["loss_intermediate"], rel=1e-5)
    assert record["loss_intermediate"] > record["loss_bce"]  # two layers of about the same loss each


def test_exclusive_labels__learned_with_messages(table):
    X, Y = table
    settings = SMALL | {"max_epochs": 60, "dim": 16, "learning_rate": 0.01}
    model = LaMP(**settings, encoder_dropout=0.0, decoder_dropout=0.0).fit(X[:60], Y[:60])
    assert (model.predict(X[60:]) == Y[60:]).mean() > 0.9
