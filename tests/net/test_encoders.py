"""Encoders: an MLP by hand and by loops, the coding of labels, and the forms an answer may take."""

import math

import pytest
import torch
from loops import close, mlp, normal, scrambled
from torch import nn

from hotvae.errors import ConfigError
from hotvae.net.encoders import LOG_VARIANCE_RANGE, GaussianHead, MLPEncoder, code_labels, encode
from hotvae.net.latent import Gaussian

NAN = math.nan


class Answer(nn.Module):
    """An encoder that gives a fixed answer."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def forward(self, _inputs):
        return self.answer


def test_mlp_encoder__two_features__matches_hand_calculation():
    """x = (2, 1); hidden weights (1, -1) and (-1, 0), bias (0, 1): relu(1) = 1, relu(-1) = 0.

    Mean: 3 * 1 + 5 * 0 + 0.5 = 3.5. Log-variance: -1 * 1 + 7 * 0 + 0.25 = -0.75.
    """
    encoder = MLPEncoder(2, (2,), dim=1).double()
    with torch.no_grad():
        encoder.hidden[0].weight.copy_(torch.tensor([[1.0, -1.0], [-1.0, 0.0]]))
        encoder.hidden[0].bias.copy_(torch.tensor([0.0, 1.0]))
        encoder.head.mean.weight.copy_(torch.tensor([[3.0, 5.0]]))
        encoder.head.mean.bias.fill_(0.5)
        encoder.head.log_variance.weight.copy_(torch.tensor([[-1.0, 7.0]]))
        encoder.head.log_variance.bias.fill_(0.25)
    posterior = encoder(torch.tensor([[2.0, 1.0]]).double())
    close(posterior.mean, [[[3.5]]], 1e-12)
    close(posterior.log_variance, [[[-0.75]]], 1e-12)
    assert posterior.mask is None


@pytest.mark.parametrize("widths", [(), (6,), (6, 5, 4)])
def test_mlp_encoder__any_widths__equals_loops(widths):
    encoder, rows = scrambled(MLPEncoder(3, widths, dim=2)), normal(4, 3, seed=1)
    posterior = encoder(rows)
    expected = [mlp(encoder, row) for row in rows.tolist()]
    close(posterior.mean, [[mean] for mean, _ in expected])
    close(posterior.log_variance, [[log_variance] for _, log_variance in expected])


def test_mlp_encoder__says_one_token_and_gives_one():
    assert MLPEncoder.n_tokens == 1
    assert MLPEncoder(3, (4,), dim=2)(torch.zeros(5, 3)).mean.shape == (5, 1, 2)


def test_mlp_encoder__dropout__acts_while_training_only():
    encoder, rows = MLPEncoder(3, (64,), dim=2, dropout=0.5), torch.ones(2, 3)
    assert not torch.equal(encoder(rows).mean, encoder(rows).mean)
    encoder.eval()
    assert torch.equal(encoder(rows).mean, encoder(rows).mean)


def test_gaussian_head__at_the_start__has_the_initial_log_variance():
    """The log-variance starts at its bias: exactly so for hidden units of zero, nearly so for others."""
    head = GaussianHead(16, 3, initial_log_variance=-2.5)
    close(head(torch.zeros(2, 1, 16)).log_variance, torch.full((2, 1, 3), -2.5), 0)
    close(head(torch.ones(2, 1, 16)).log_variance, torch.full((2, 1, 3), -2.5), 0.2)


@pytest.mark.parametrize(("start", "bound"), [(-1e6, LOG_VARIANCE_RANGE[0]), (1e6, LOG_VARIANCE_RANGE[1])])
def test_gaussian_head__extreme_log_variance__stays_in_range(start, bound):
    posterior = GaussianHead(2, 3, initial_log_variance=start)(torch.zeros(1, 1, 2))
    close(posterior.log_variance, torch.full((1, 1, 3), bound), 0)
    assert posterior.log_variance.exp().isfinite().all()


def test_code_labels__present_absent_unobserved__are_plus_minus_and_zero():
    assert code_labels(torch.tensor([[1.0, 0.0, NAN], [NAN, 1.0, 0.0]])).tolist() == [[1, -1, 0], [0, 1, -1]]


def test_encode__gaussian__comes_back_as_it_is():
    posterior = Gaussian(torch.zeros(2, 1, 3), torch.zeros(2, 1, 3))
    assert encode(Answer(posterior), torch.zeros(2, 5)) is posterior


def test_encode__pair__becomes_a_gaussian_without_mask():
    mean, log_variance = torch.ones(2, 3, 4), torch.full((2, 3, 4), -1.0)
    posterior = encode(Answer((mean, log_variance)), torch.zeros(2, 5))
    assert posterior.mean is mean
    assert posterior.log_variance is log_variance
    assert posterior.mask is None


def test_encode__triple__keeps_the_mask():
    mask = torch.tensor([[True, False], [True, True]])
    posterior = encode(Answer((torch.zeros(2, 2, 4), torch.ones(2, 2, 4), mask)), torch.zeros(2, 5))
    assert posterior.mask is mask


def test_encode__more_tokens_than_promised__is_refused():
    class Liar(torch.nn.Module):
        n_tokens = 1

        def forward(self, x):
            return torch.zeros(len(x), 3, 2), torch.zeros(len(x), 3, 2)

    with pytest.raises(ConfigError, match=r"as many tokens as its n_tokens says \(1\); got 3 \(Liar\)"):
        encode(Liar(), torch.zeros(4, 5))
