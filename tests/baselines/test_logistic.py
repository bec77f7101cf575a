"""Logistic regressions of all labels: their optimum, gaps, and starting points."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit, logit

from hotvae.baselines.logistic import LogisticLabels, Odds, fit_logistic
from hotvae.metrics import log_loss


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    Y = (X[:, :3] + rng.normal(size=(80, 3)) > 0.4).astype(float)
    return X, Y


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_fit_logistic__each_label__has_no_gradient_left(kind, table):
    """d/dw of sum of losses + penalty * unit / 2 * |w|^2 is X'(p - y) + penalty * unit * w."""
    X, Y = table
    gappy = Y.copy()
    gappy[::4, 2] = np.nan
    odds = fit_logistic(kind(X), gappy, penalty=0.3)
    unit = (X**2).sum(axis=1).mean()
    for label in range(3):
        seen = ~np.isnan(gappy[:, label])
        gap = expit(X[seen] @ odds.weights[:, label] + odds.intercepts[label]) - gappy[seen, label]
        np.testing.assert_allclose(X[seen].T @ gap + 0.3 * unit * odds.weights[:, label], 0, atol=0.05)
        assert abs(gap.sum()) < 0.05


def test_fit_logistic__from_the_solution__stays_there(table):
    first = fit_logistic(*table, penalty=0.3)
    again = fit_logistic(*table, penalty=0.3, start=first)
    np.testing.assert_allclose(again.weights, first.weights, atol=0.01)


def test_fit_logistic__label_of_one_class__has_the_odds_of_its_rate():
    odds = fit_logistic(np.arange(4.0)[:, None], np.array([[1], [1], [1], [1.0]]), penalty=1.0)
    np.testing.assert_array_equal(odds.weights, 0)
    assert odds.intercepts[0] == pytest.approx(logit(4.5 / 5))


def test_odds__by_hand__are_a_sigmoid():
    odds = Odds(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([0.0, -1.0]))
    np.testing.assert_allclose(odds.probs(np.array([[1.0, 1.0]])), [[expit(1.0), expit(1.0)]])


def test_logistic__validation_rows__choose_the_penalty_with_the_least_loss(table):
    X, Y = table
    held = (X[60:], Y[60:])
    candidates = (0.001, 0.1, 100.0)
    losses = []
    for penalty in candidates:
        model = LogisticLabels(penalties=(penalty,)).fit(X[:60], Y[:60], validation=held)
        losses.append(log_loss(Y[60:], model.predict_proba(X[60:])))
    chosen = LogisticLabels(penalties=candidates).fit(X[:60], Y[:60], validation=held)
    assert chosen.penalty_ == candidates[int(np.argmin(losses))]
    assert log_loss(Y[60:], chosen.predict_proba(X[60:])) == pytest.approx(min(losses), abs=1e-3)
