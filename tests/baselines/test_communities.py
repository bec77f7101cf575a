"""Common causes of a probit: communities, likelihoods, and what is learned of them after the network."""

import numpy as np
import pytest

from hotvae import Training
from hotvae.baselines.probit import ProbitJSDM
from tests.estimators.test_base import pairs_data

NAN = np.nan


def small(**settings):
    return ProbitJSDM.from_settings(**{"max_epochs": 30, "learning_rate": 0.05, "random_state": 0} | settings)


@pytest.fixture(scope="module")
def model():
    return small().fit(*pairs_data())


def test_given__company__does_not_matter(model):
    X = np.random.default_rng(1).normal(size=(30, 2))
    given = np.where(np.random.default_rng(2).random((30, 5)) < 0.4, 0.0, NAN)
    together = model.predict_proba(X, given=given)
    for row in (0, 7, 29):
        alone = model.predict_proba(X[[row]], given=given[[row]])[0]
        np.testing.assert_allclose(alone, together[row], rtol=1e-6)  # importance weights differ in the last bit


def test_given__saved_and_loaded__the_same(model, tmp_path):
    model.save(tmp_path / "model")
    again = ProbitJSDM.load(tmp_path / "model")
    X, given = np.zeros((2, 2)), [[1, NAN, NAN, 0, NAN], [NAN] * 5]
    np.testing.assert_array_equal(again.predict_proba(X, given=given), model.predict_proba(X, given=given))
    np.testing.assert_array_equal(again.sample(X, 5, 0, given), model.sample(X, 5, 0, given))


def test_sample__pairs__go_together_and_marginals_stay(model):
    X = np.random.default_rng(1).normal(size=(20, 2))
    draws = model.sample(X, 2000, random_state=0)
    # 2000 draws: four standard errors
    np.testing.assert_allclose(draws.mean(axis=0), model.predict_proba(X), atol=0.045)
    assert (draws[..., 0] == draws[..., 1]).mean() > 0.8
    assert (draws[..., 2] != draws[..., 3]).mean() > 0.8
    assert abs((draws[..., 0] == draws[..., 2]).mean() - 0.5) < 0.05


def test_log_likelihood__pairs_that_go_together__far_above_independent_labels(model):
    X, Y = pairs_data(200, seed=1)
    probs = model.predict_proba(X)
    alone = np.log(np.where(Y == 1, probs, 1 - probs)).sum(axis=1)
    assert (model.log_likelihood(X, Y) - alone).mean() > 0.8
    assert model.draws_jointly


def test_fit__classes__no_causes_are_learned_after_the_network(monkeypatch):
    """Classes can neither be given nor drawn."""
    called = []
    monkeypatch.setattr("hotvae.baselines.communities.fit_network", lambda *_, **__: called.append("trained"))
    X, Y = pairs_data(200)
    small(max_epochs=1).fit(X, np.arange(200) % 3)
    assert called == []
    small(max_epochs=1).fit(X, Y)
    assert called == ["trained"]


@pytest.mark.parametrize("seed", range(4))
def test_fit__one_observed_validation_label__trains_though_half_of_one_is_nothing(seed):
    """For some seeds the one label is among the given ones, and no target is left."""
    X, Y = pairs_data(200)
    few = np.full((20, 5), NAN)
    few[0, 1] = 1
    model = ProbitJSDM(training=Training(max_epochs=2), random_state=seed).fit(X, Y, validation=(X[:20], few))
    assert np.isfinite(model.predict_proba(X)).all()
