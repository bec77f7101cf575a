"""MPVAE: who sees what in its two branches, and one decoder for both."""

import math

import torch

from hotvae.net.latent import sample
from hotvae.net.mpvae import MPVAENet
from hotvae.net.probit import marginal_probs, spread
from tests.net.loops import close, normal, scrambled


def network_of(seed=0):
    return scrambled(MPVAENet(3, 4, 5, 2, (6,), (6,), (6,)), seed).eval()


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
    network = MPVAENet(3, 4, 5, 2, (), (), (), initial_logits=logits).eval()
    with torch.no_grad():
        network.decoder[-1].weight.zero_()
    close(network.predict(torch.zeros(1, 3)), logits.sigmoid().unsqueeze(0), 1e-6)
