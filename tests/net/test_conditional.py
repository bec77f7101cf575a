"""Known labels: what they move, what they leave alone, and what the label branch is asked for."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hotvae.config import LossWeights
from hotvae.errors import ConfigError
from hotvae.net.conditional import KnownEncoder, hide_some
from hotvae.net.latent import Gaussian, aligned_kl, sample
from hotvae.net.losses import bce_loss, hotvae_terms
from hotvae.net.model import HotVAE
from tests.net import loops
from tests.net.loops import close, normal, scrambled, small_config

NAN = math.nan
SEEDS = st.integers(0, 2**32 - 1)
N_FEATURES, N_LABELS, DIM = 3, 4, 4
LABELS = torch.tensor([[1.0, NAN, 0.0, NAN], [NAN, NAN, NAN, NAN], [0.0, 1.0, 1.0, 0.0]]).double()


def network_of(seed=0, **changes):
    return scrambled(HotVAE(N_FEATURES, N_LABELS, small_config(dim=DIM, conditional=True, **changes)), seed).eval()


def gaussian(n_rows, n_tokens=1, seed=0):
    return Gaussian(normal(n_rows, n_tokens, DIM, seed=seed), normal(n_rows, n_tokens, DIM, seed=seed + 1))


# The encoder ----------------------------------------------------------------------------------------------


def test_known_encoder__any_row__equals_loops():
    encoder = scrambled(KnownEncoder(N_LABELS, small_config(dim=DIM)))
    feature, probs = gaussian(3), normal(3, N_LABELS, seed=5).sigmoid()
    evidence = encoder(feature, probs, LABELS)
    moved = evidence.move(feature)
    for row, labels in enumerate(LABELS.tolist()):
        known = [not math.isnan(y) for y in labels]
        p = probs[row].tolist()
        surprise = [y - q if k else 0.0 for y, q, k in zip(labels, p, known, strict=True)]
        hidden = [max(0.0, h) for h in loops.linear(encoder.hidden[0], [*surprise, *map(float, known), *p])]
        gate = [1 + math.tanh(g) for g in loops.linear(encoder.gate, feature.mean[row, 0].tolist())]
        hidden = [h * g if any(known) else 0.0 for h, g in zip(hidden, gate, strict=True)]
        for found, start, head in (
            (moved.mean, feature.mean, encoder.mean),
            (moved.log_variance, feature.log_variance, encoder.log_variance),
        ):
            expected = [s + m for s, m in zip(start[row, 0].tolist(), loops.linear(head, hidden), strict=True)]
            clamped = expected if found is moved.mean else [min(max(v, -12.0), 8.0) for v in expected]
            close(found[row, 0], clamped)
        close(evidence.logits[row], loops.linear(encoder.direct, hidden))


def test_known_encoder__label_as_foretold__surprises_nobody():
    """What the features were sure of says nothing new: y - p is 0 then, and its sign that of the surprise."""
    encoder = scrambled(KnownEncoder(1, small_config(dim=DIM, label_encoder_widths=())))
    with torch.no_grad():
        encoder.mean.weight[:, 1:] = 0  # all that is read is the surprise
        encoder.gate.weight.zero_()
        encoder.gate.bias.zero_()
    feature = gaussian(3)
    labels, probs = torch.tensor([[1.0], [1.0], [0.0]]).double(), torch.tensor([[1.0], [0.25], [0.25]]).double()
    moves = encoder(feature, probs, labels).mean
    close(moves[0], torch.zeros(DIM), 0)
    close(moves[1], 0.75 * encoder.mean.weight[:, 0])
    close(moves[2], -0.25 * encoder.mean.weight[:, 0])


def test_known_encoder__nothing_known__moves_nothing_at_all():
    encoder = scrambled(KnownEncoder(N_LABELS, small_config(dim=DIM)))
    feature = gaussian(3, n_tokens=2)
    evidence = encoder(feature, normal(3, N_LABELS).sigmoid(), torch.full((3, N_LABELS), NAN).double())
    moved = evidence.move(feature)
    assert torch.equal(moved.mean, feature.mean)
    assert torch.equal(moved.log_variance, feature.log_variance)
    assert (evidence.logits == 0).all()
    assert (aligned_kl(moved, feature) == 0).all()


def test_known_encoder__other_place__the_same_labels_mean_something_else():
    """The gate: the same surprise at another latent mean moves elsewhere."""
    encoder = scrambled(KnownEncoder(N_LABELS, small_config(dim=DIM)))
    here, there = (encoder(gaussian(1, seed=seed), torch.full((1, 4), 0.5).double(), LABELS[2:]) for seed in (0, 1))
    assert (here.mean - there.mean).abs().min() > 1e-3


def test_known_encoder__without_direct_path__speaks_through_the_latent_alone():
    encoder = scrambled(KnownEncoder(N_LABELS, small_config(dim=DIM, direct_path=False)))
    assert (encoder(gaussian(3), normal(3, N_LABELS).sigmoid(), LABELS).logits == 0).all()


# Which labels are told ------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(seed=SEEDS)
def test_hide_some__any_labels__every_observed_one_is_told_or_asked(seed):
    torch.manual_seed(seed)
    labels = (normal(20, 6, seed=seed) > 0).double()
    labels[normal(20, 6, seed=seed + 1) > 1] = NAN
    told, asked = hide_some(labels)
    observed = ~torch.isnan(labels)
    assert torch.equal(torch.isnan(told) & torch.isnan(asked), ~observed)
    assert not (~torch.isnan(told) & ~torch.isnan(asked)).any()
    assert torch.equal(torch.where(torch.isnan(told), asked, told)[observed], labels[observed])


def test_hide_some__many_rows__shares_are_uniform():
    """Mean 1/2 and variance 1/12, and a row's labels share their share."""
    told, _ = hide_some(torch.ones(20_000, 200))
    share = (~torch.isnan(told)).double().mean(1)
    assert abs(share.mean().item() - 1 / 2) < 0.01
    assert abs(share.var().item() - (1 / 12 + 1 / 6 / 200)) < 0.002


# Through the network --------------------------------------------------------------------------------------


def test_forward__told_a_part__equals_the_parts_by_hand():
    network = network_of()
    features, labels = normal(5, N_FEATURES), (normal(5, N_LABELS, seed=3) > 0).double()
    torch.manual_seed(3)
    output = network(features, labels)
    torch.manual_seed(3)
    told, asked = hide_some(labels)
    feature = network.feature_encoder(features)
    logits = network.decoder(sample(feature, torch.randn_like(feature.mean)))
    evidence = network.label_encoder(feature, logits[-1].sigmoid(), told)
    moved = evidence.move(feature)
    close(output.feature.layer_logits, logits, 1e-12)
    close(output.label.layer_logits, network.decoder(sample(moved, torch.randn_like(moved.mean))) + evidence.logits)
    close(output.label.posterior.mean, moved.mean, 1e-12)
    close(torch.nan_to_num(output.asked, nan=-1.0), torch.nan_to_num(asked, nan=-1.0), 0)


def test_terms__label_branch__answers_only_for_what_it_was_not_told():
    network = network_of()
    features, labels = normal(6, N_FEATURES), (normal(6, N_LABELS, seed=3) > 0).double()
    output = network(features, labels)
    terms = hotvae_terms(output, labels, LossWeights())
    expected = bce_loss(output.feature.layer_logits[-1], labels) + bce_loss(output.label.layer_logits[-1], output.asked)
    close(terms["bce"], expected, 1e-12)
    told = torch.isnan(output.asked)
    gradient = torch.autograd.grad(terms["bce"].sum(), output.label.layer_logits)[0][-1]
    assert told.any()
    assert (gradient[told] == 0).all()
    assert (gradient[~told] != 0).all()


def test_terms__label_branch__does_not_teach_the_feature_encoder():
    """Being told must not make the features say less by themselves; nor does the KL pull them anywhere."""
    network = network_of()
    features, labels = normal(6, N_FEATURES), (normal(6, N_LABELS, seed=3) > 0).double()
    output = network(features, labels)
    encoder = list(network.feature_encoder.parameters())
    through_label = torch.autograd.grad(output.label.layer_logits.sum(), encoder, retain_graph=True, allow_unused=True)
    assert all(gradient is None or (gradient == 0).all() for gradient in through_label)
    kl = aligned_kl(output.label.posterior, output.feature.posterior).sum()
    mean_head = network.feature_encoder.head.mean.weight
    assert torch.autograd.grad(kl, mean_head)[0].abs().max() < 1e-12


def test_predict_given__some_labels__known_come_back_and_the_rest_moves():
    network = network_of()
    features = normal(3, N_FEATURES)
    alone, together = network.predict(features), network.predict_given(features, LABELS)
    known = ~torch.isnan(LABELS)
    assert torch.equal(together[known], LABELS[known])
    assert torch.equal(together[1], alone[1])
    assert (together[0, ~known[0]] != alone[0, ~known[0]]).all()


@pytest.mark.parametrize("n_members", [1, 3])
def test_predict_given__other_rows__do_not_matter(n_members):
    network = network_of(n_members=n_members)
    features = normal(3, N_FEATURES)
    together = network.predict_given(features, LABELS)
    for row in range(3):
        close(network.predict_given(features[row : row + 1], LABELS[row : row + 1])[0], together[row], 1e-12)


def test_predict_given__paper_branch__is_refused():
    network = HotVAE(N_FEATURES, N_LABELS, small_config(dim=DIM))
    with pytest.raises(ConfigError, match="given must go with a network trained for it"):
        network.predict_given(torch.zeros(1, N_FEATURES), torch.zeros(1, N_LABELS))


def test_hotvae__tokens_of_labels__are_refused_with_known_labels():
    with pytest.raises(ConfigError, match="label_encoder must be 'mlp' while conditional is True; got 'tokens'"):
        HotVAE(N_FEATURES, N_LABELS, small_config(conditional=True, label_encoder="tokens"))


def test_hotvae__own_label_encoder__is_refused_with_known_labels():
    with pytest.raises(ConfigError, match="conditional must be False with a label encoder of your own"):
        HotVAE(N_FEATURES, N_LABELS, small_config(conditional=True), label_encoder=torch.nn.Identity())
