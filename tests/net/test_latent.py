"""Gaussians over tokens: pooling, sampling and divergence by hand, by loops and by their laws."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from torch.distributions import Independent, Normal, kl_divergence

from hotvae.net.latent import Gaussian, aligned_kl, join, pool, sample, token_mean
from tests.net.loops import close, normal
from tests.net.loops import kl as loop_kl
from tests.net.loops import pool as loop_pool

SEEDS = st.integers(0, 2**32 - 1)


def gaussian(n_rows, n_tokens, dim, seed=0, masked=False):
    """A Gaussian with random parameters; masked, each row has a different number of real tokens."""
    mean, log_variance = normal(2, n_rows, n_tokens, dim, seed=seed)
    mask = None
    if masked:
        n_real = torch.arange(n_rows) % n_tokens + 1
        mask = torch.arange(n_tokens) < n_real.unsqueeze(1)
    return Gaussian(mean, log_variance, mask)


def one_token(mean, variance):
    return Gaussian(torch.tensor([[mean]]).double(), torch.tensor([[variance]]).double().log())


def rows_of(gaussian):
    """(mean, log_variance, mask) of each row as plain lists."""
    masks = [None] * len(gaussian.mean) if gaussian.mask is None else gaussian.mask.tolist()
    return zip(gaussian.mean.tolist(), gaussian.log_variance.tolist(), masks, strict=True)


# Sampling -------------------------------------------------------------------------------------------------


def test_sample__two_dims__matches_hand_calculation():
    """mean (1, -2), variance (4, 9), noise (-1, 0.5): 1 - 2 = -1 and -2 + 0.5 * 3 = -0.5."""
    drawn = sample(one_token([1.0, -2.0], [4.0, 9.0]), torch.tensor([[[-1.0, 0.5]]]).double())
    close(drawn, [[[-1.0, -0.5]]], 1e-12)


def test_sample__draws_shared_by_rows__equals_loops():
    posterior, noise = gaussian(3, 2, 4), normal(5, 1, 2, 4, seed=1)
    drawn = sample(posterior, noise)
    assert drawn.shape == (5, 3, 2, 4)
    for draw in range(5):
        for row, (mean, log_variance, _) in enumerate(rows_of(posterior)):
            for token in range(2):
                for c in range(4):
                    spread = math.sqrt(math.exp(log_variance[token][c]))
                    expected = mean[token][c] + noise[draw, 0, token, c].item() * spread
                    assert drawn[draw, row, token, c].item() == pytest.approx(expected, abs=1e-10)


def test_sample__many_draws__has_the_mean_and_the_variance():
    posterior = one_token([0.5, -1.0], [0.25, 4.0])
    drawn = sample(posterior, normal(200_000, 1, 1, 2))[:, 0, 0]
    close(drawn.mean(0), [0.5, -1.0], 0.02)
    close(drawn.var(0), [0.25, 4.0], 0.06)


# Pooling (paper note P5) ----------------------------------------------------------------------------------


def test_token_mean__padded_row__counts_real_tokens_only():
    """Row 1 has tokens 1 and 3: mean 2. Row 2 has the token 5 and a padding of 100: mean 5."""
    values = torch.tensor([[[1.0], [3.0]], [[5.0], [100.0]]])
    close(token_mean(values, torch.tensor([[True, True], [True, False]])), [[2.0], [5.0]], 0)
    close(token_mean(values, None), [[2.0], [52.5]], 0)


def test_token_mean__row_without_real_token__is_zero():
    close(token_mean(torch.ones(1, 2, 3), torch.zeros(1, 2, dtype=torch.bool)), [[0.0, 0.0, 0.0]], 0)


def test_pool__two_real_tokens_and_a_padding__matches_hand_calculation():
    """Means 0 and 2, variances 1 and 3, padding (50, e^5) left out.

    Mean 1. Variance: the average of variances (1 + 3) / 2 = 2, not of log-variances (which gives sqrt 3).
    """
    tokens = Gaussian(
        torch.tensor([[[0.0], [2.0], [50.0]]]),
        torch.tensor([[[0.0], [math.log(3)], [5.0]]]),
        torch.tensor([[True, True, False]]),
    )
    assert [part.item() for part in pool(tokens)] == pytest.approx([1.0, 2.0], abs=1e-6)


@pytest.mark.parametrize("masked", [False, True])
def test_pool__any_tokens__equals_loops(masked):
    posterior = gaussian(4, 3, 5, masked=masked)
    mean, variance = pool(posterior)
    expected = [loop_pool(*row) for row in rows_of(posterior)]
    close(mean, [row[0] for row in expected])
    close(variance, [row[1] for row in expected])


def test_pool__one_token__is_that_token():
    posterior = gaussian(3, 1, 4)
    mean, variance = pool(posterior)
    close(mean, posterior.mean[:, 0], 1e-12)
    close(variance, posterior.log_variance[:, 0].exp(), 1e-12)


# Divergence (Eq. 6, paper notes P1 and P6) ----------------------------------------------------------------


def test_aligned_kl__two_dims__matches_hand_calculation():
    """mu_y=(0,1), var_y=(1,4), mu_x=(0,0), var_x=(1,1): 0.5 * (4 - 1 - ln 4 + 1) = 1.306853.

    The other direction, with var_y=(1,1), var_x=(1,4): 0.5 * (1/4 - 1 + ln 4 + 1/4) = 0.443147.
    """
    wide, unit = one_token([0.0, 1.0], [1.0, 4.0]), one_token([0.0, 0.0], [1.0, 1.0])
    assert aligned_kl(label=wide, feature=unit).item() == pytest.approx(1.306853, abs=1e-6)
    assert aligned_kl(label=unit, feature=wide).item() == pytest.approx(0.443147, abs=1e-6)


@pytest.mark.parametrize("masked", [False, True])
def test_aligned_kl__different_numbers_of_tokens__equals_loops(masked):
    label, feature = gaussian(4, 2, 5, seed=1, masked=masked), gaussian(4, 3, 5, seed=2, masked=masked)
    expected = [loop_kl(*loop_pool(*y), *loop_pool(*x)) for y, x in zip(rows_of(label), rows_of(feature), strict=True)]
    close(aligned_kl(label, feature), expected)


def test_aligned_kl__one_token__equals_torch_distributions():
    label, feature = gaussian(6, 1, 3, seed=1), gaussian(6, 1, 3, seed=2)
    label_normal, feature_normal = (
        Independent(Normal(g.mean[:, 0], (0.5 * g.log_variance[:, 0]).exp()), 1) for g in (label, feature)
    )
    close(aligned_kl(label, feature), kl_divergence(label_normal, feature_normal))


def test_aligned_kl__against_monte_carlo__within_four_standard_errors():
    """E over z ~ q(z|y) of log q(z|y) - log q(z|x)."""
    label, feature = gaussian(1, 1, 3, seed=3), gaussian(1, 1, 3, seed=4)
    drawn = sample(label, normal(200_000, 1, 1, 3, seed=5))
    log_ratio = (
        Normal(label.mean, (0.5 * label.log_variance).exp()).log_prob(drawn)
        - Normal(feature.mean, (0.5 * feature.log_variance).exp()).log_prob(drawn)
    ).sum((1, 2, 3))
    error = log_ratio.std() / math.sqrt(len(log_ratio))
    assert abs(log_ratio.mean() - aligned_kl(label, feature)).item() < 4 * error.item()


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, tokens=st.integers(1, 3))
def test_aligned_kl__any_pair__is_positive_and_zero_for_equals(seed, tokens):
    label, feature = gaussian(5, tokens, 3, seed=seed), gaussian(5, tokens, 3, seed=seed + 1)
    assert (aligned_kl(label, feature) > 0).all()
    close(aligned_kl(label, label), [0.0] * 5, 1e-12)


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, which=st.sampled_from(["mean", "log_variance"]), dim=st.integers(0, 2))
def test_aligned_kl__one_parameter_apart__is_above_zero(seed, which, dim):
    label = gaussian(1, 1, 3, seed=seed)
    parts = {"mean": label.mean.clone(), "log_variance": label.log_variance.clone()}
    parts[which][..., dim] += 1e-2
    assert aligned_kl(label, Gaussian(**parts)).item() > 1e-8


@settings(max_examples=15, deadline=None)
@given(seed=SEEDS, garbage=st.floats(-20, 20))
def test_aligned_kl__padded_tokens__count_for_nothing(seed, garbage):
    label, feature = gaussian(3, 2, 4, seed=seed), gaussian(3, 1, 4, seed=seed + 1)
    pad = torch.full((3, 2, 4), garbage, dtype=torch.float64)
    mask = torch.tensor([[True, True, False, False]] * 3)
    padded = Gaussian(torch.cat([label.mean, pad], 1), torch.cat([label.log_variance, pad], 1), mask)
    close(aligned_kl(padded, feature), aligned_kl(label, feature))


# Both branches in one batch -------------------------------------------------------------------------------


def test_join__same_number_of_tokens__stacks_without_a_mask():
    first, second = gaussian(2, 3, 4, seed=1), gaussian(2, 3, 4, seed=2)
    both = join(first, second)
    assert both.mask is None
    close(both.mean, torch.cat([first.mean, second.mean]), 0)
    close(both.log_variance, torch.cat([first.log_variance, second.log_variance]), 0)


@pytest.mark.parametrize(("n_first", "n_second"), [(1, 3), (3, 1)])
def test_join__fewer_tokens_on_one_side__pads_and_masks_them(n_first, n_second):
    first, second = gaussian(2, n_first, 4, seed=1), gaussian(2, n_second, 4, seed=2)
    both = join(first, second)
    expected_mask = [[token < n for token in range(3)] for n in (n_first, n_first, n_second, n_second)]
    assert both.mask.tolist() == expected_mask
    close(both.mean[:2, :n_first], first.mean, 0)
    close(both.log_variance[2:, :n_second], second.log_variance, 0)


def test_join__one_side_masked__keeps_its_mask_and_fills_the_other():
    first, second = gaussian(3, 2, 4, seed=1, masked=True), gaussian(3, 2, 4, seed=2)
    both = join(first, second)
    assert both.mask.tolist() == first.mask.tolist() + [[True, True]] * 3


def test_join__any_sides__keeps_the_pooled_gaussians():
    first, second = gaussian(3, 2, 4, seed=1, masked=True), gaussian(3, 4, 4, seed=2)
    both = pool(join(first, second))
    for together, *apart in zip(both, pool(first), pool(second), strict=True):
        close(together, torch.cat(apart))


# Shapes ---------------------------------------------------------------------------------------------------


@pytest.mark.skipif("not config.getoption('--jaxtyping-packages', None)", reason="shapes are checked by the hook")
def test_shapes__that_do_not_fit__are_refused_by_name():
    with pytest.raises(TypeCheckError, match="log_variance"):
        Gaussian(torch.zeros(2, 1, 3), torch.zeros(2, 1, 4))
    with pytest.raises(TypeCheckError, match="mask"):
        token_mean(torch.zeros(2, 3, 4), torch.ones(2, 2, dtype=torch.bool))
