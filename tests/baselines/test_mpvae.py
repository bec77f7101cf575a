"""MPVAE as a classifier: joint draws, predictions given other labels, and its three loss terms."""

import numpy as np
import pytest

from hotvae import virtual_region
from hotvae.baselines.mpvae import MPVAE
from hotvae.metrics import log_loss

SMALL = {
    "dim": 8,
    "encoder_widths": (32,),
    "label_encoder_widths": (32,),
    "decoder_widths": (32,),
    "learning_rate": 0.01,
    "n_threads": 1,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def twins():
    """Two labels that are the same coin, a third that is another coin; the feature says nothing."""
    rng = np.random.default_rng(0)
    X, coin, other = rng.normal(size=(400, 1)), rng.random(400) < 0.5, rng.random(400) < 0.5
    Y = np.column_stack([coin, coin, other]).astype(float)
    return MPVAE(**SMALL, rank=2, max_epochs=30).fit(X, Y), X, Y


def test_twin_labels__told_one__the_other_follows(twins):
    model, X, Y = twins
    known = np.where([True, False, False], Y, np.nan)
    probs = model.predict_proba(X, given=known)
    np.testing.assert_array_equal(probs[:, 0], Y[:, 0])
    assert probs[Y[:, 0] == 1, 1].min() > 0.65
    assert probs[Y[:, 0] == 0, 1].max() < 0.35
    assert np.abs(probs[:, 2] - 0.5).max() < 0.25
    assert np.abs(model.predict_proba(X)[:, 1] - 0.5).max() < 0.2


def test_twin_labels__joint_draws__agree_where_independent_ones_would_not(twins):
    model, X, _ = twins
    drawn = model.sample(X, n_draws=20, random_state=0)
    assert drawn.shape == (20, 400, 3)
    assert (drawn[..., 0] == drawn[..., 1]).mean() > 0.7
    assert abs((drawn[..., 0] == drawn[..., 2]).mean() - 0.5) < 0.1


def test_terms__both_branches__weighted_sum(twins):
    model = twins[0]
    record = model.history_.records[-1]
    parts = [getattr(model, f"{name}_weight") * record[f"loss_{name}"] for name in ("nll", "ranking", "kl")]
    assert record["loss"] == pytest.approx(sum(parts), rel=1e-5)


def test_virtual_region__half_of_the_species_known__conditional_clearly_below_marginal():
    data = virtual_region(900, random_state=1).dataset
    X, Y = np.asarray(data.features), np.asarray(data.labels, dtype=float)
    model = MPVAE(**SMALL, rank=6, max_epochs=15).fit(X[:700], Y[:700])
    hidden = np.random.default_rng(0).random(Y[700:].shape) < 0.5
    known, wanted = np.where(hidden, np.nan, Y[700:]), np.where(hidden, Y[700:], np.nan)
    marginal = log_loss(wanted, model.predict_proba(X[700:]))
    assert log_loss(wanted, model.predict_proba(X[700:], given=known)) < marginal - 0.01
