"""MPVAE: who sees what in its two branches, and one decoder for both; joint draws, and predictions given labels."""

import math

import numpy as np
import pytest
import torch

from hotvae import virtual_region
from hotvae.baselines.communities import N_LIKELIHOOD_DRAWS
from hotvae.baselines.mpvae import MPVAE, MPVAENet
from hotvae.baselines.multivariate_probit import probit_nll, spread
from hotvae.config import NetConfig
from hotvae.metrics import log_loss
from hotvae.net.latent import aligned_kl, sample
from hotvae.net.losses import ranking_loss
from tests.net.loops import close, marginal_probs, normal, scrambled


def _config(*widths):
    return NetConfig(dim=5, encoder_widths=widths, label_encoder_widths=widths, encoder_dropout=0.0)


def network_of(seed=0, has_base=False):
    return scrambled(MPVAENet(3, 4, 2, _config(6), (6,), has_base=has_base), seed).eval()


def labels_of(n_rows):
    return (normal(n_rows, 4, seed=9) > 0).double()


def test_forward__both_branches__decoded_with_the_features_by_one_decoder():
    network, features, labels = network_of(), normal(6, 3), labels_of(6)
    torch.manual_seed(2)
    output = network(features, labels)
    torch.manual_seed(2)
    feature_noise, label_noise = (torch.randn(6, 1, 5, dtype=torch.float64) for _ in range(2))
    feature = network.feature_encoder(features)
    label = network.label_encoder(torch.cat([features, 2 * labels - 1], -1))
    for branch, noise, scores in (
        (feature, feature_noise, output.feature_scores),
        (label, label_noise, output.label_scores),
    ):
        close(scores, network.decoder(torch.cat([features, sample(branch, noise)[:, 0]], -1)), 1e-12)
    close(output.feature.mean, feature.mean, 0)
    close(output.label.mean, label.mean, 0)


def test_label_branch__sees_features_and_labels__feature_branch_no_labels():
    network, features, labels = network_of(), normal(1, 3).requires_grad_(), labels_of(1).requires_grad_()
    output = network(features, labels)
    by_features, by_labels = torch.autograd.grad(output.label.mean.sum(), [features, labels], retain_graph=True)
    assert by_features.abs().min() > 0
    assert by_labels.abs().max() > 0
    assert torch.autograd.grad(output.feature.mean.sum(), labels, allow_unused=True, retain_graph=True) == (None,)


def test_predict__closed_form_at_the_latent_mean__needs_no_draws():
    network, features = network_of(), normal(4, 3)
    scores = network.decode(features, network.feature_encoder(features).mean)
    close(network.scores(features), scores, 0)
    latent_mean = scores * spread(network.head.factors)
    close(network.predict(features), marginal_probs(latent_mean, network.head.factors), 1e-12)
    assert torch.equal(network.predict(features), network.predict(features))


def test_label_not_observed__coded_zero__everything_stays_finite():
    network, labels = network_of(), labels_of(2)
    labels[0, 1] = labels[1] = math.nan
    output = network(normal(2, 3), labels)
    assert all(part.isfinite().all() for part in (output.feature_scores, output.label_scores, output.label.mean))


def test_initial_logits__decoder_at_zero__predicts_the_prevalences():
    logits = torch.tensor([-1.0, 0.0, 1.0, 2.0])
    network = MPVAENet(3, 4, 2, _config(), (), logits).eval()
    with torch.no_grad():
        network.decoder[-1].weight.zero_()
    close(network.predict(torch.zeros(1, 3)), logits.sigmoid().unsqueeze(0), 1e-6)


def test_loss__terms__both_branches_added():
    network, features, labels = network_of(), normal(4, 3), labels_of(4)
    labels[1] = math.nan
    torch.manual_seed(2)
    terms = network.loss(features, labels)
    torch.manual_seed(2)
    output = network(features, labels)
    draws = torch.randn(N_LIKELIHOOD_DRAWS, 2, dtype=torch.float64)
    factors, both = network.head.factors, (output.feature_scores, output.label_scores)
    expected = {
        "nll": sum(probit_nll(scores * spread(factors), factors, labels, draws) for scores in both),
        "ranking": sum(ranking_loss(torch.special.ndtr(scores), labels) for scores in both),
        "kl": aligned_kl(output.label, output.feature) * torch.tensor([1.0, 0, 1, 1]),
    }
    assert list(terms) == list(expected)
    for name, term in expected.items():
        close(terms[name], term, 1e-9)
        assert terms[name][1].item() == pytest.approx(0, abs=1e-12), name


def test_base_logits__weighed__are_added_on_the_scale_of_probit_scores():
    """A normal distribution function of scores is nearly a logistic curve of scores 1.702 times as large."""
    network, features, labels = network_of(has_base=True), normal(3, 3), labels_of(3)
    base_logits = normal(3, 4, seed=7)
    weighed = network.base.scale * base_logits / 1.702
    close(network.scores(features, base_logits), network.scores(features) + weighed, 1e-12)
    close(network.predict(features, base_logits), torch.special.ndtr(network.scores(features) + weighed), 1e-12)
    outputs = []
    for base in (base_logits, None):
        torch.manual_seed(2)
        outputs.append(network(features, labels, base))
    for branch in ("feature_scores", "label_scores"):
        added, bare = (getattr(output, branch) for output in outputs)
        close(added, bare + weighed, 1e-12)
    network.loss(features, labels, base_logits)["nll"].sum().backward()
    assert (network.base.scale.grad != 0).all()


def test_base_logits__network_that_adds_nothing__predicts_nearly_the_base():
    network = MPVAENet(3, 4, 2, _config(), (), torch.tensor([-1.0, 0, 1, 2]), has_base=True).eval()
    with torch.no_grad():
        network.decoder[-1].weight.zero_()
    base_logits = torch.tensor([[-3.0, -0.5, 0.0, 2.0]])
    close(network.predict(torch.zeros(1, 3), base_logits), base_logits.sigmoid(), 0.01)


# The classifier -------------------------------------------------------------------------------------------


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
    return MPVAE.from_settings(**SMALL, rank=2, max_epochs=30).fit(X, Y), X, Y


@pytest.mark.slow
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


@pytest.mark.slow
def test_virtual_region__half_of_the_species_known__conditional_clearly_below_marginal():
    data = virtual_region(900, random_state=1).dataset
    X, Y = np.asarray(data.features), np.asarray(data.labels, dtype=float)
    model = MPVAE.from_settings(**SMALL, rank=6, max_epochs=15).fit(X[:700], Y[:700])
    hidden = np.random.default_rng(0).random(Y[700:].shape) < 0.5
    known, wanted = np.where(hidden, np.nan, Y[700:]), np.where(hidden, Y[700:], np.nan)
    marginal = log_loss(wanted, model.predict_proba(X[700:]))
    assert log_loss(wanted, model.predict_proba(X[700:], given=known)) < marginal - 0.01
