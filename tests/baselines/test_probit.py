"""The probit JSDM: parameters it gets back from its own data, draws, and predictions given other species."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm
from torch import nn

from hotvae import virtual_region
from hotvae.baselines.communities import N_LIKELIHOOD_DRAWS
from hotvae.baselines.multivariate_probit import probit_nll, spread
from hotvae.baselines.probit import ProbitJSDM, ProbitNet
from hotvae.errors import ConfigError, DataError
from hotvae.metrics import log_loss
from tests.net.loops import close, normal, scrambled

SETTINGS = {"n_threads": 1, "random_state": 0}


# The network ----------------------------------------------------------------------------------------------


def test_probit_net__at_the_start__predicts_the_prevalences():
    logits = torch.tensor([-2.0, 0.0, 1.5])
    network = ProbitNet(nn.Linear(2, 3), 3, rank=2, initial_logits=logits)
    close(network.predict(torch.zeros(1, 2)), logits.sigmoid().unsqueeze(0), 1e-6)


def test_probit_net__any_rows__marginals_of_its_scores_and_their_joint_likelihood():
    network, features = scrambled(ProbitNet(nn.Linear(2, 3), 3, rank=2)), normal(4, 2)
    labels = (normal(4, 3, seed=1) > 0).double()
    scores = network.score_net(features)
    close(network.scores(features), scores, 0)
    close(network.predict(features), torch.special.ndtr(scores), 1e-12)
    torch.manual_seed(2)
    terms = network.loss(features, labels)
    torch.manual_seed(2)
    draws = torch.randn(N_LIKELIHOOD_DRAWS, 2, dtype=torch.float64)
    factors = network.head.factors
    assert list(terms) == ["nll"]
    close(terms["nll"], probit_nll(scores * spread(factors), factors, labels, draws), 1e-12)


# The classifier -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known_truth():
    """4,000 sites drawn from the model: two species share a cause, a third opposes them, a fourth is alone."""
    rng = np.random.default_rng(0)
    slopes = np.array([[1.0, -0.5, 0.0, 0.8], [0.0, 0.7, -0.9, 0.3]])
    factors = np.array([[1.5], [1.5], [-1.5], [0.0]])
    X = rng.normal(size=(4000, 2))
    latent = X @ slopes + rng.normal(size=(4000, 1)) @ factors.T + rng.normal(size=(4000, 4))
    model = ProbitJSDM.from_settings(rank=1, **SETTINGS).fit(X, (latent > 0).astype(float))
    return model, X, (latent > 0).astype(float), slopes, factors


@pytest.mark.slow
def test_fit__data_from_the_model__slopes_and_covariance_come_back(known_truth):
    model, X, _, slopes, factors = known_truth
    fitted = model.network_.head.factors.detach().numpy().astype(float)
    fitted_spread = np.sqrt(1 + (fitted**2).sum(axis=1))
    correlation = fitted @ fitted.T / np.outer(fitted_spread, fitted_spread)
    true_spread = np.sqrt(1 + (factors**2).sum(axis=1))
    truth = factors @ factors.T / np.outer(true_spread, true_spread)
    off = ~np.eye(4, dtype=bool)
    assert np.abs(correlation - truth)[off].max() < 0.08
    # what features do to the marginals does not depend on how the latent scale is cut
    expected = norm.cdf(X @ slopes / true_spread)
    assert np.abs(model.predict_proba(X) - expected).mean() < 0.02


@pytest.mark.slow
def test_given__one_species__probabilities_follow_the_shared_cause(known_truth):
    model, X, _, _, _ = known_truth
    blank, present, absent = (np.full((50, 4), np.nan) for _ in range(3))
    present[:, 0], absent[:, 0] = 1, 0
    alone, up, down = (model.predict_proba(X[:50], given=known) for known in (blank, present, absent))
    assert (up[:, 1] > alone[:, 1]).all()
    assert (down[:, 1] < alone[:, 1]).all()
    assert (up[:, 2] < alone[:, 2]).all()
    assert (down[:, 2] > alone[:, 2]).all()
    assert np.abs(up[:, 3] - alone[:, 3]).max() < 0.05


@pytest.mark.slow
def test_given__nothing_known__exactly_the_unconditional_prediction(known_truth):
    model, X, Y, _, _ = known_truth
    known = np.full((60, 4), np.nan)
    np.testing.assert_array_equal(model.predict_proba(X[:60], given=known), model.predict_proba(X[:60]))
    known[7] = Y[7]
    probs = model.predict_proba(X[:60], given=known)
    np.testing.assert_array_equal(probs[7], Y[7])
    np.testing.assert_array_equal(np.delete(probs, 7, axis=0), np.delete(model.predict_proba(X[:60]), 7, axis=0))


@pytest.mark.slow
def test_given__frame_with_columns_in_another_order__is_matched_by_name(known_truth):
    _, X, Y, _, _ = known_truth
    names = ["wren", "owl", "frog", "newt"]
    labels = pd.DataFrame(Y[:300], columns=names)
    model = ProbitJSDM.from_settings(rank=1, max_epochs=2, **SETTINGS).fit(X[:300], labels)
    known = labels[:40].mask(np.random.default_rng(0).random((40, 4)) < 0.5)
    np.testing.assert_array_equal(
        model.predict_proba(X[:40], given=known), model.predict_proba(X[:40], given=known[names[::-1]])
    )


@pytest.mark.slow
def test_given__that_does_not_fit__is_named(known_truth):
    model, X, Y, _, _ = known_truth
    with pytest.raises(DataError, match=r"given must have the rows of X, 5; got 6\. Use NaN"):
        model.predict_proba(X[:5], given=Y[:6])
    with pytest.raises(DataError, match="labels must have 4 columns as in training; got 3"):
        model.predict_proba(X[:5], given=Y[:5, :3])
    with pytest.raises(DataError, match=r"labels must be 0 or 1; got 2\.0"):
        model.predict_proba(X[:5], given=Y[:5] + 1)
    classes = ProbitJSDM.from_settings(max_epochs=1, **SETTINGS).fit(X[:60], np.where(X[:60, 0] > 0, "wet", "dry"))
    with pytest.raises(ConfigError, match=r"sample must go with a table of labels; got classes"):
        classes.sample(X[:5])
    with pytest.raises(ConfigError, match=r"n_draws must be a whole number of at least 1; got 0"):
        model.sample(X[:5], n_draws=0)


@pytest.mark.slow
def test_sample__many_draws__marginals_and_pairs_as_in_the_model(known_truth):
    model, X, _, _, _ = known_truth
    drawn = model.sample(X[:4], n_draws=20_000, random_state=1)
    assert drawn.shape == (20_000, 4, 4)
    assert drawn.dtype == np.int8
    probs = model.predict_proba(X[:4])
    assert np.abs(drawn.mean(axis=0) - probs).max() < 4 * 0.5 / np.sqrt(20_000)
    both = (drawn[..., 0] & drawn[..., 1]).mean(axis=0)
    known = np.full((4, 4), np.nan)
    known[:, 0] = 1
    expected = probs[:, 0] * model.predict_proba(X[:4], given=known)[:, 1]
    assert np.abs(both - expected).max() < 0.015
    assert (both > probs[:, 0] * probs[:, 1] + 0.02).all()


@pytest.mark.slow
def test_sample__given_labels__stay_and_the_rest_follows(known_truth):
    model, X, Y, _, _ = known_truth
    known = np.where([True, False, True, False], Y[:6], np.nan)
    known[0] = np.nan
    drawn = model.sample(X[:6], n_draws=8000, random_state=2, given=known)
    assert (drawn[:, 1:, 0] == Y[1:6, 0]).all()
    assert (drawn[:, 1:, 2] == Y[1:6, 2]).all()
    assert np.abs(drawn.mean(axis=0) - model.predict_proba(X[:6], given=known)).max() < 0.03


@pytest.mark.slow
def test_sample__same_seed__same_draws(known_truth):
    model, X, _, _, _ = known_truth
    np.testing.assert_array_equal(model.sample(X[:9], 3, 7), model.sample(X[:9], 3, 7))
    assert not np.array_equal(model.sample(X[:9], 3, 7), model.sample(X[:9], 3, 8))


@pytest.mark.slow
def test_mlp_mean__curved_niche__beats_the_linear_one():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 1))
    Y = (np.abs(X) + 0.3 * rng.normal(size=(600, 3)) < 0.8).astype(float)
    settings = {"rank": 1, "encoder_widths": (32,), "encoder_dropout": 0.0, **SETTINGS}
    losses = [
        log_loss(Y[400:], ProbitJSDM.from_settings(mean=mean, **settings).fit(X[:400], Y[:400]).predict_proba(X[400:]))
        for mean in ("linear", "mlp")
    ]
    assert losses[1] < losses[0] - 0.2


@pytest.mark.slow
def test_transform__scores__marginals_on_the_probit_scale(known_truth):
    model, X, _, _, _ = known_truth
    np.testing.assert_allclose(norm.cdf(model.transform(X[:5])), model.predict_proba(X[:5]), atol=1e-6)
    assert list(model.get_feature_names_out()) == [f"latent_label_{i}" for i in range(4)]


@pytest.mark.slow
def test_covariance_epochs__after_an_early_best_epoch__marginals_stay_and_the_covariance_learns():
    """Coins that the feature says nothing about: the first epoch has the best marginals, and no covariance yet."""
    rng = np.random.default_rng(0)
    X, coin = rng.normal(size=(300, 1)), rng.random(300) < 0.5
    Y = np.column_stack([coin, coin, rng.random(300) < 0.5]).astype(float)
    known = np.where([True, False, False], Y, np.nan)
    settings = {"learning_rate": 1e-4, "max_epochs": 2, "rank": 1, **SETTINGS}
    before, after = (ProbitJSDM.from_settings(covariance_epochs=n, **settings).fit(X, Y) for n in (0, 30))
    np.testing.assert_array_equal(before.predict_proba(X), after.predict_proba(X))
    gaps = [np.abs(Y - model.predict_proba(X, given=known))[:, 1].mean() for model in (before, after)]
    assert gaps[0] > 0.45
    assert gaps[1] < 0.33


@pytest.mark.slow
@pytest.mark.parametrize("mean", ["linear", "mlp"])
def test_virtual_region__half_of_the_species_known__conditional_clearly_below_marginal(mean):
    data = virtual_region(900, random_state=1).dataset
    X, Y = np.asarray(data.features), np.asarray(data.labels, dtype=float)
    model = ProbitJSDM.from_settings(mean=mean, rank=6, encoder_widths=(64,), max_epochs=20, **SETTINGS).fit(
        X[:700], Y[:700]
    )
    hidden = np.random.default_rng(0).random(Y[700:].shape) < 0.5
    known, wanted = np.where(hidden, np.nan, Y[700:]), np.where(hidden, Y[700:], np.nan)
    marginal = log_loss(wanted, model.predict_proba(X[700:]))
    assert log_loss(wanted, model.predict_proba(X[700:], given=known)) < marginal - 0.01
