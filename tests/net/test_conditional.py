"""Given labels: what they move and what they leave alone; and which labels are given in training."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hotvae.net.conditional import Evidence, GivenEncoder, split_labels
from hotvae.net.latent import Gaussian, aligned_kl
from tests.net import loops
from tests.net.loops import close, normal, scrambled, small_config

NAN = math.nan
SEEDS = st.integers(0, 2**32 - 1)
N_LABELS, DIM = 4, 4
LABELS = torch.tensor([[1.0, NAN, 0.0, NAN], [NAN, NAN, NAN, NAN], [0.0, 1.0, 1.0, 0.0]]).double()


def gaussian(n_rows, n_tokens=1, seed=0):
    return Gaussian(normal(n_rows, n_tokens, DIM, seed=seed), normal(n_rows, n_tokens, DIM, seed=seed + 1))


# The encoder ----------------------------------------------------------------------------------------------


def test_given_encoder__any_row__equals_loops():
    encoder = scrambled(GivenEncoder(N_LABELS, small_config(dim=DIM))).eval()
    feature, probs = gaussian(3, n_tokens=2), normal(3, N_LABELS, seed=5).sigmoid()
    found = encoder(feature, probs, LABELS)
    for row, given_labels in enumerate(LABELS.tolist()):
        latent = loops.token_mean(feature.mean[row].tolist())
        expected = loops.evidence(encoder, latent, probs[row].tolist(), given_labels)
        for part, numbers in zip((found.mean, found.log_variance, found.logits), expected, strict=True):
            close(part[row], numbers)


def test_evidence__move__adds_to_every_token_and_keeps_the_log_variance_in_range():
    """Two tokens of means 1 and 2, log-variances 0 and 7; moved by 10, and by 3: 7 + 3 is cut at 8."""
    ones = torch.ones(1, 1)
    feature = Gaussian(torch.tensor([[[1.0], [2.0]]]), torch.tensor([[[0.0], [7.0]]]), torch.tensor([[True, False]]))
    moved = Evidence(10 * ones, 3 * ones, ones).move(feature)
    close(moved.mean, [[[11.0], [12.0]]], 0)
    close(moved.log_variance, [[[3.0], [8.0]]], 0)
    assert moved.mask is feature.mask


def test_given_encoder__label_as_foretold__surprises_nobody():
    """What the features were sure of says nothing new: y - p is 0 then, and its sign that of the surprise."""
    encoder = scrambled(GivenEncoder(1, small_config(dim=DIM, label_encoder_widths=())))
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


def test_given_encoder__nothing_given__moves_nothing_at_all():
    encoder = scrambled(GivenEncoder(N_LABELS, small_config(dim=DIM)))
    feature = gaussian(3, n_tokens=2)
    evidence = encoder(feature, normal(3, N_LABELS).sigmoid(), torch.full((3, N_LABELS), NAN).double())
    moved = evidence.move(feature)
    assert torch.equal(moved.mean, feature.mean)
    assert torch.equal(moved.log_variance, feature.log_variance)
    assert (evidence.logits == 0).all()
    assert (aligned_kl(moved, feature) == 0).all()


def test_given_encoder__other_place__the_same_labels_mean_something_else():
    """The gate: the same surprise at another latent mean moves elsewhere."""
    encoder = scrambled(GivenEncoder(N_LABELS, small_config(dim=DIM)))
    here, there = (encoder(gaussian(1, seed=seed), torch.full((1, 4), 0.5).double(), LABELS[2:]) for seed in (0, 1))
    assert (here.mean - there.mean).abs().min() > 1e-3


def test_given_encoder__without_direct_path__speaks_through_the_latent_alone():
    encoder = scrambled(GivenEncoder(N_LABELS, small_config(dim=DIM, direct_path=False)))
    assert (encoder(gaussian(3), normal(3, N_LABELS).sigmoid(), LABELS).logits == 0).all()


# Which labels are given -----------------------------------------------------------------------------------


@settings(max_examples=25)
@given(seed=SEEDS)
def test_split_labels__any_labels__every_observed_one_is_given_or_a_target(seed):
    torch.manual_seed(seed)
    labels = (normal(20, 6, seed=seed) > 0).double()
    labels[normal(20, 6, seed=seed + 1) > 1] = NAN
    given_labels, target = split_labels(labels)
    observed = ~torch.isnan(labels)
    assert torch.equal(torch.isnan(given_labels) & torch.isnan(target), ~observed)
    assert not (~torch.isnan(given_labels) & ~torch.isnan(target)).any()
    assert torch.equal(torch.where(torch.isnan(given_labels), target, given_labels)[observed], labels[observed])


def test_split_labels__many_rows__shares_are_uniform():
    """Mean 1/2 and variance 1/12, and a row's labels share their share."""
    given_labels, _ = split_labels(torch.ones(20_000, 200))
    share = (~torch.isnan(given_labels)).double().mean(1)
    assert abs(share.mean().item() - 1 / 2) < 0.01
    assert abs(share.var().item() - (1 / 12 + 1 / 6 / 200)) < 0.002
