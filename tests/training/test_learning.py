"""Can it learn? Data with a known answer, and the real tables where they are at hand."""

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier

from hotvae import HotVAENetwork, PlainNetClassifier, read_table, split_dataset, virtual_region
from hotvae.estimators.threshold_tuner import label_probs
from hotvae.metrics import log_loss, macro_f1

# The network alone is judged: nothing is learned after it.
ALONE = {"n_threads": 1, "random_state": 0}


@pytest.mark.slow
def test_overfit__32_rows_of_noise__every_label_learned():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(32, 6)), rng.integers(0, 2, size=(32, 5))
    model = HotVAENetwork.from_settings(
        dim=16,
        encoder_widths=(64, 64),
        max_epochs=100,
        batch_size=32,
        learning_rate=0.01,
        encoder_dropout=0.0,
        decoder_dropout=0.0,
        validation_fraction=0.0,
        **ALONE,
    ).fit(X, Y)
    assert macro_f1(Y, model.predict(X)) == 1.0


@pytest.mark.slow
def test_labels_linked_by_exclusive_or__beat_independent_logistic_regression():
    """a and b are signs of two features, c is present when exactly one of them is: no linear model can see c."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 2))
    a, b = X[:, 0] > 0, X[:, 1] > 0
    Y = np.column_stack([a, b, a ^ b]).astype(int)
    settings = {"max_epochs": 20, "encoder_widths": (64, 64), "encoder_dropout": 0.1, "learning_rate": 0.01, "dim": 16}
    model = HotVAENetwork.from_settings(**settings, **ALONE).fit(X[:600], Y[:600])
    rival = MultiOutputClassifier(LogisticRegression()).fit(X[:600], Y[:600])
    ours, theirs = (log_loss(Y[600:], label_probs(fitted, X[600:])) for fitted in (model, rival))
    assert ours < theirs - 0.15
    assert macro_f1(Y[600:], model.predict(X[600:])) > 0.9


@pytest.mark.slow
def test_virtual_region__small__closer_to_the_truth_than_prevalence():
    region = virtual_region(1500, 8, random_state=1)
    data = region.dataset
    parts = split_dataset(data, fractions=(0.6, 0.15, 0.25), random_state=0)
    held = (data.features[parts.validation], data.labels[parts.validation])
    settings = {"max_epochs": 20, "encoder_widths": (64, 64), "encoder_dropout": 0.1, "dim": 16, "batch_size": 128}
    model = HotVAENetwork.from_settings(**settings, learning_rate=0.005, **ALONE)
    model.fit(data.features[parts.train], data.labels[parts.train], validation=held)
    truth, test = data.labels[parts.test], parts.test
    rate = np.broadcast_to(data.labels[parts.train].mean(axis=0), truth.shape)
    best, ours, prevalence = (
        log_loss(truth, probs) for probs in (region.marginals[test], model.predict_proba(data.features[test]), rate)
    )
    assert best < ours < best + 0.4 * (prevalence - best)


@pytest.mark.slow
def test_missing_labels__half_of_the_cells__cost_little():
    """Unknown cells are left out, not taken for absences: with half of them gone the loss rises a little."""
    data = virtual_region(900, 6, random_state=2).dataset
    gone = np.random.default_rng(0).random((600, 6)) < 0.5
    labels = np.where(gone, np.nan, data.labels[:600])
    settings = {"max_epochs": 12, "encoder_widths": (64,), "encoder_dropout": 0.1, "dim": 16, "learning_rate": 0.003}
    losses = []
    for known in (data.labels[:600], labels, np.nan_to_num(labels)):
        model = HotVAENetwork.from_settings(**settings, **ALONE).fit(data.features[:600], known)
        losses.append(log_loss(data.labels[600:], model.predict_proba(data.features[600:])))
    everything, half_known, taken_for_absent = losses
    assert everything <= half_known + 0.01
    assert half_known < everything + 0.05 < taken_for_absent


DATA = os.environ.get("HOTVAE_DATA_DIR")


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif(DATA is None, reason="HOTVAE_DATA_DIR is not set: no real tables")
def test_scene__a_few_epochs__the_decoder_does_not_cost_accuracy():
    """A short run of the table in the paper: well above chance, and level with the network without label decoder."""
    path = Path(DATA) / "scene.npz"
    data = read_table(path)
    with np.load(path, allow_pickle=False) as file:
        train, test = file["train_idx"], file["test_idx"]
    scores = []
    for kind in (HotVAENetwork, PlainNetClassifier):
        alone = {name: value for name, value in ALONE.items() if name in kind.all_settings()}
        model = kind.from_settings(max_epochs=8, **alone).fit(data.features[train], data.labels[train])
        probs = model.predict_proba(data.features[test])
        scores.append(macro_f1(data.labels[test], probs >= model.thresholds_["macro_f1"]))
    hot, plain = scores
    assert hot > 0.72
    assert hot > plain - 0.03
