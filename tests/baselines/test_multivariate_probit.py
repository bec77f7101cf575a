"""The multivariate probit against integrals worked another way: normal orthants, grids, plain loops."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal, norm
from torch import nn

from hotvae.baselines.multivariate_probit import (
    CovarianceNet,
    ProbitHead,
    conditional_probs,
    even_noise,
    log_likelihood,
    log_normal_cdf,
    posterior,
    probit_nll,
    spread,
)
from hotvae.net.perceptron import set_bias
from tests.net.loops import close, marginal_probs, normal

NAN = math.nan
SEEDS = st.integers(0, 2**32 - 1)
MEAN = torch.tensor([[0.3, -0.8, 0.5]], dtype=torch.float64)
FACTORS = torch.tensor([[1.2, 0.0], [0.7, -0.9], [-1.5, 0.4]], dtype=torch.float64)


def orthant(labels):
    """Probability of 0/1 labels (NaN: any) by the distribution function of a multivariate normal."""
    kept = [i for i, label in enumerate(labels) if not math.isnan(label)]
    if not kept:
        return 1.0
    sign = np.array([2 * labels[i] - 1 for i in kept])
    covariance = (FACTORS @ FACTORS.T + torch.eye(3)).numpy()[np.ix_(kept, kept)]
    mean = MEAN[0].numpy()[kept]
    # s * latent > 0 is -s * latent < 0
    law = -sign * mean, np.outer(sign, sign) * covariance
    return float(multivariate_normal.cdf(np.zeros(len(kept)), *law, abseps=1e-6, releps=1e-6))


def head_of(factors):
    head = ProbitHead(*factors.shape).double()
    with torch.no_grad():
        head.factors.copy_(factors)
    return head.requires_grad_(False)


# The normal distribution function --------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 3e-6), (torch.float64, 2e-11)])
def test_log_normal_cdf__from_far_tail_to_far_tail__equals_torch_with_its_gradient(dtype, tolerance):
    ours = torch.cat([torch.linspace(-60, 40, 4001), torch.tensor([-12.0, -30.0, 0.0])]).to(dtype).requires_grad_()
    theirs = ours.detach().double().clone().requires_grad_()
    value, expected = log_normal_cdf(ours), torch.special.log_ndtr(theirs)
    value.sum().backward()
    expected.sum().backward()
    assert ((value.double() - expected).abs() / (1 + expected.abs())).max() < tolerance
    assert ((ours.grad.double() - theirs.grad).abs() / (1 + theirs.grad.abs())).max() < 100 * tolerance


def test_log_normal_cdf__gradient__agrees_with_differences():
    assert torch.autograd.gradcheck(log_normal_cdf, normal(7).mul(4).requires_grad_())


# Marginals -------------------------------------------------------------------------------------------------


def test_marginal_probs__by_hand__mean_over_spread():
    """m = 2, B = (1, sqrt 2): spread sqrt(1 + 1 + 2) = 2, so the probability is Phi(1)."""
    factors = torch.tensor([[1.0, math.sqrt(2)]], dtype=torch.float64)
    close(marginal_probs(torch.tensor([[2.0]], dtype=torch.float64), factors), [[norm.cdf(1.0)]], 1e-12)
    close(spread(factors), [2.0], 1e-12)


def test_marginal_probs__closed_form__equals_monte_carlo_within_its_error():
    generator = torch.Generator().manual_seed(1)
    n_draws = 200_000
    causes = torch.randn(n_draws, 2, generator=generator, dtype=torch.float64)
    noise = torch.randn(n_draws, 3, generator=generator, dtype=torch.float64)
    share = (MEAN + causes @ FACTORS.T + noise > 0).double().mean(0)
    expected = marginal_probs(MEAN, FACTORS)[0]
    error = (expected * (1 - expected) / n_draws).sqrt()
    assert ((share - expected).abs() < 4 * error).all()
    # the covariance matters: without it all three are far off
    assert ((torch.special.ndtr(MEAN[0]) - expected).abs() > 20 * error).all()


# Likelihood ------------------------------------------------------------------------------------------------


def test_probit_nll__few_draws__equals_loops():
    mean, factors, noise = normal(4, 3), normal(3, 2, seed=1), normal(5, 2, seed=2)
    labels = (normal(4, 3, seed=3) > 0).double()
    labels[0, 1] = labels[2, 0] = labels[2, 2] = NAN
    expected = []
    for row in range(4):
        joint = 0.0
        for draw in range(5):
            product = 1.0
            for label in range(3):
                if not math.isnan(labels[row, label]):
                    latent = mean[row, label].item()
                    latent += sum(factors[label, r].item() * noise[draw, r].item() for r in range(2))
                    product *= norm.cdf(latent if labels[row, label] == 1 else -latent)
            joint += product / 5
        expected.append(-math.log(joint))
    close(probit_nll(mean, factors, labels, noise), expected, 1e-10)


@pytest.mark.parametrize("labels", [(1, 0, 1), (0, 0, 0), (1, NAN, 1), (NAN, 0, NAN)])
def test_probit_nll__many_draws__equals_the_orthant_of_the_normal_law(labels):
    table = torch.tensor([labels], dtype=torch.float64)
    nll = probit_nll(MEAN, FACTORS, table, even_noise(2**15, 2, seed=0)).item()
    assert nll == pytest.approx(-math.log(orthant(labels)), abs=2e-4)


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS)
def test_probit_nll__all_label_sets__probabilities_sum_to_one(seed):
    mean, factors, noise = normal(1, 3, seed=seed), normal(3, 2, seed=seed + 1), normal(6, 2, seed=seed + 2)
    every = torch.tensor(list(itertools.product([0.0, 1.0], repeat=3)), dtype=torch.float64)
    total = torch.exp(-probit_nll(mean.expand(8, -1), factors, every, noise)).sum()
    assert total.item() == pytest.approx(1.0, abs=1e-12)


def test_probit_nll__gradient__agrees_with_differences_in_and_out_of_the_tail():
    mean, factors, noise = normal(3, 4), normal(4, 2), normal(5, 2)
    mean[1, 2] = 36.0  # absent all the same: beyond what erfc can say
    labels = torch.tensor([[1.0, 0, 1, NAN], [0, 1, 0, 1], [NAN, NAN, 1, 0]], dtype=torch.float64)
    inputs = (mean.requires_grad_(), factors.requires_grad_())
    assert torch.autograd.gradcheck(lambda mean, factors: probit_nll(mean, factors, labels, noise), inputs)


def test_probit_nll__blocks_of_any_size__same_answer_and_gradient(monkeypatch):
    mean, factors, noise = normal(7, 4), normal(4, 2), normal(6, 2)
    labels = (normal(7, 4) > 0).double()

    def both(block):
        monkeypatch.setattr("hotvae.baselines.multivariate_probit._BLOCK", block)
        inputs = mean.clone().requires_grad_(), factors.clone().requires_grad_()
        nll = probit_nll(*inputs, labels, noise)
        return [nll, *torch.autograd.grad((nll * torch.arange(7.0)).sum(), inputs)]

    whole = both(10**6)
    for block in (1, 24, 72):  # less than a row, one row, three rows
        for ours, theirs in zip(both(block), whole, strict=True):
            close(ours, theirs)


def test_probit_nll__label_not_observed__no_gradient_on_it_and_none_from_an_empty_row():
    mean = normal(2, 3).requires_grad_()
    labels = torch.tensor([[1.0, NAN, 0.0], [NAN, NAN, NAN]], dtype=torch.float64)
    nll = probit_nll(mean, FACTORS, labels, normal(9, 2))
    nll.sum().backward()
    assert nll[1].item() == pytest.approx(0.0, abs=1e-12)
    assert (mean.grad[1] == 0).all()
    assert mean.grad[0, 1] == 0
    assert mean.grad[0, 0] < 0 < mean.grad[0, 2]


# Conditionals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [(1, NAN, NAN), (0, 1, NAN), (NAN, 0, 0), (1, 1, NAN), (NAN, NAN, 0)], ids=str)
def test_conditional_probs__three_labels__equal_ratios_of_orthants(labels):
    probs = conditional_probs(MEAN, FACTORS, torch.tensor([labels], dtype=torch.float64), even_noise(4096, 2, seed=0))
    for place, label in enumerate(labels):
        if math.isnan(label):
            with_it = tuple(1 if i == place else other for i, other in enumerate(labels))
            assert probs[0, place].item() == pytest.approx(orthant(with_it) / orthant(labels), abs=1e-3)
        else:
            assert probs[0, place].item() == label


def test_conditional_probs__one_factor__equal_an_integral_over_a_fine_grid():
    mean, factors = torch.tensor([[0.4, -1.0]], dtype=torch.float64), torch.tensor([[2.0], [-1.5]], dtype=torch.float64)
    grid = np.linspace(-9, 9, 200_001)
    seen = norm.pdf(grid) * norm.cdf(-(0.4 + 2.0 * grid))
    expected = (seen * norm.cdf(-1.0 - 1.5 * grid)).sum() / seen.sum()
    labels = torch.tensor([[0.0, NAN]], dtype=torch.float64)
    found = conditional_probs(mean, factors, labels, even_noise(4096, 1, seed=0))
    assert found[0, 1].item() == pytest.approx(expected, abs=1e-4)


def test_conditional_probs__label_that_could_hardly_be__equal_an_integral_over_a_fine_grid():
    """A latent mean of -60, and yet present: z lies around 24, where no draw of the prior does."""
    mean, factors = torch.tensor([[-60.0, -24.0]]).double(), torch.tensor([[2.0], [1.0]]).double()
    grid = np.linspace(15, 33, 200_001)
    log_seen = norm.logpdf(grid) + norm.logcdf(-60 + 2 * grid)
    seen = np.exp(log_seen - log_seen.max())
    expected = (seen * norm.cdf(-24 + grid)).sum() / seen.sum()
    found = conditional_probs(mean, factors, torch.tensor([[1.0, NAN]]).double(), even_noise(4096, 1, seed=0))
    assert found[0, 1].item() == pytest.approx(expected, abs=1e-3)


def test_head__conditional_with_nothing_observed__exactly_the_marginals():
    labels = torch.full((5, 3), NAN, dtype=torch.float64)
    labels[2, 0] = 1.0
    head, scores, noise = head_of(FACTORS), normal(5, 3), even_noise(64, 2, seed=0)
    probs, marginals = head.conditional(scores, labels, noise), head(scores)
    blank = torch.tensor([0, 1, 3, 4])
    assert torch.equal(probs[blank], marginals[blank])
    assert not torch.isclose(probs[2, 1], marginals[2, 1])


def test_log_likelihood__all_label_sets__sum_to_one_and_agree_with_plain_draws():
    sets = torch.tensor(list(itertools.product((0.0, 1.0), repeat=3))).double()
    mean = MEAN[:1].expand(len(sets), -1)
    found = log_likelihood(mean, FACTORS, sets, even_noise(4096, 2, seed=0))
    assert found.exp().sum().item() == pytest.approx(1, abs=5e-3)
    plain = -probit_nll(mean, FACTORS, sets, even_noise(1 << 15, 2, seed=1))
    torch.testing.assert_close(found, plain, atol=0.02, rtol=0)


def test_log_likelihood__a_label_not_observed__is_left_out():
    """Of one label alone it is the marginal."""
    labels = torch.tensor([[NAN, 1.0, NAN]]).double()
    found = log_likelihood(MEAN[:1], FACTORS, labels, even_noise(4096, 2, seed=0))
    assert found.exp().item() == pytest.approx(marginal_probs(MEAN[:1], FACTORS)[0, 1].item(), abs=2e-3)


def test_conditional_probs__everything_observed__comes_back():
    labels = torch.tensor([[1.0, 0.0, 1.0]], dtype=torch.float64)
    assert torch.equal(conditional_probs(MEAN, FACTORS, labels, even_noise(64, 2, seed=0)), labels)


def test_conditional_probs__a_row__does_not_depend_on_its_companions():
    mean, noise = normal(6, 3), even_noise(128, 2, seed=0)
    labels = (normal(6, 3, seed=1) > 0).double()
    labels[:, 1] = NAN
    together = conditional_probs(mean, FACTORS, labels, noise)
    alone = torch.cat([conditional_probs(mean[i : i + 1], FACTORS, labels[i : i + 1], noise) for i in range(6)])
    close(together, alone, 1e-12)


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS)
def test_conditional_probs__labels_permuted__answers_permuted(seed):
    mean, factors, noise = normal(2, 4, seed=seed), normal(4, 2, seed=seed + 1), even_noise(64, 2, seed=0)
    labels = (normal(2, 4, seed=seed + 2) > 0).double()
    labels[normal(2, 4, seed=seed + 3) > 0] = NAN
    order = torch.randperm(4, generator=torch.Generator().manual_seed(seed))
    permuted = conditional_probs(mean[:, order], factors[order], labels[:, order], noise)
    probs = conditional_probs(mean, factors, labels, noise)
    close(permuted, probs[:, order], 1e-9)
    assert ((probs >= 0) & (probs <= 1)).all()


def test_posterior__forty_labels_all_surprising__draws_still_carry_weight():
    """The prior alone would leave a handful of its draws; those around the mode keep far more."""
    factors = normal(40, 6)
    labels = (normal(1, 6, seed=1).mul(2) @ factors.T > 0).double()
    found = posterior(torch.zeros(1, 40, dtype=torch.float64), factors, labels, even_noise(1024, 6, seed=0))
    close(found.weights.sum(0), [1.0], 1e-12)
    assert 1 / found.weights.square().sum() > 60
    prior = even_noise(1024, 6, seed=0)
    weights = (log_normal_cdf((2 * labels - 1) * (prior @ factors.T)).sum(-1)).softmax(0)
    assert 1 / weights.square().sum() < 6


# Parts -----------------------------------------------------------------------------------------------------


def test_even_noise__same_seed__same_standard_normal_numbers():
    noise = even_noise(1024, 3, seed=4)
    assert torch.equal(noise, even_noise(1024, 3, seed=4))
    assert not torch.equal(noise, even_noise(1024, 3, seed=5))
    close(noise.mean(0), torch.zeros(3), 5e-3)
    close(noise.T @ noise / 1024, torch.eye(3), 2e-2)


def test_head__nll__draws_anew_each_time():
    head, labels = head_of(FACTORS), torch.ones(1, 3, dtype=torch.float64)
    first, second = (head.nll(MEAN, labels, n_draws=8) for _ in range(2))
    assert first != second


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS)
def test_head__scores__fix_the_marginals_whatever_the_covariance(seed):
    scores = normal(4, 3, seed=seed)
    for factors in (FACTORS, 3 * normal(3, 2, seed=seed + 1)):
        head = head_of(factors)
        close(head(scores), marginal_probs(head.latent_mean(scores), factors), 1e-12)


def test_head__conditional__equals_the_free_function_at_the_latent_mean():
    head, scores, noise = head_of(FACTORS), normal(4, 3), even_noise(64, 2, seed=0)
    labels = torch.tensor([[1.0, NAN, 0.0]], dtype=torch.float64).expand(4, -1)
    mean = scores * spread(FACTORS)
    close(head.conditional(scores, labels, noise), conditional_probs(mean, FACTORS, labels, noise), 0)
    found = head.posterior(scores, labels, noise)
    close(found.weights, posterior(mean, FACTORS, labels, noise).weights, 0)


def test_covariance_net__rows_of_scores_and_labels__conditional_predictions_and_one_parameter():
    noise, scores = even_noise(64, 2, seed=0), normal(4, 3)
    network = CovarianceNet(head_of(FACTORS), noise)
    labels = torch.tensor([[1.0, NAN, 0.0]], dtype=torch.float64).expand(4, -1)
    expected = network.head.conditional(scores, labels, noise)
    close(network.predict(torch.cat([scores, labels], 1)), expected, 0)
    assert [name for name, _ in network.named_parameters()] == ["head.factors"]
    torch.manual_seed(3)
    terms = network.loss(scores, labels)
    torch.manual_seed(3)
    assert list(terms) == ["nll"]
    close(terms["nll"], network.head.nll(scores, labels, n_draws=32), 0)


def test_set_bias__of_a_stack__changes_its_last_map_alone():
    stack = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 2))
    before = stack[0].bias.clone()
    set_bias(stack, torch.tensor([4.0, -4.0]))
    assert stack[2].bias.tolist() == [4.0, -4.0]
    assert torch.equal(stack[0].bias, before)
