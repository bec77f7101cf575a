"""The multivariate probit with a low-rank covariance: likelihood by shared draws, marginals, conditionals.

A label is present where its latent value ``mean + factors · z + noise`` is above 0; ``z`` and ``noise`` are standard
normal. Given ``z`` labels are independent, so everything about their joint law is an average over ``z``.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.special import ndtr, ndtri

from hotvae.net.observed import split_observed
from hotvae.types import Labels, Logits, PerSample, Probs

Factors = Float[Tensor, "label rank"]

_HALF_LOG_TWO_PI = 0.9189385332046727
_ROOT_HALF = 0.7071067811865476
_DENSITY_AT_0 = 0.3989422804014327
# Below these erfc runs out of its number type, and the series is exact to its last digit.
_TAIL = {torch.float32: -12.0, torch.float64: -30.0}
# Numbers of (draw, row, label) worked on at a time: they fit into a cache.
_BLOCK = 400_000
# Typical length of a label's factors when training starts.
_INITIAL_LENGTH = 0.3


class _LogNormalCdf(torch.autograd.Function):
    """Six times as fast as ``torch.special.log_ndtr`` with its gradient, and as exact."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        cut = _TAIL[values.dtype]
        beyond = 0.5 * torch.erfc(values.abs().clamp(max=-cut) * _ROOT_HALF)
        log_cdf = torch.where(values > 0, torch.log1p(-beyond), beyond.log())
        if bool((values < cut).any()):
            tail = values.clamp(max=cut)
            inverse = tail**-2
            series = 1 - inverse * (1 - inverse * (3 - inverse * (15 - 105 * inverse)))
            log_tail = -0.5 * tail**2 - (-tail).log() - _HALF_LOG_TWO_PI + series.log()
            log_cdf = torch.where(values < cut, log_tail, log_cdf)
        ctx.save_for_backward(values, log_cdf)
        return log_cdf

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0] * _hazard(*ctx.saved_tensors)


def _hazard(values: Tensor, log_cdf: Tensor) -> Tensor:
    """Density over distribution function: the derivative of the log distribution function."""
    return torch.exp(-0.5 * values**2 - _HALF_LOG_TWO_PI - log_cdf)


def log_normal_cdf(values: Tensor) -> Tensor:
    """Logarithm of the standard normal distribution function, exact far into the tail.

    Parameters
    ----------
    values : Tensor of float32 or float64

    Returns
    -------
    Tensor
        As :func:`torch.special.log_ndtr`, sooner.
    """
    return _LogNormalCdf.apply(values)  # type: ignore[no-any-return,no-untyped-call]  # autograd functions are untyped


def spread(factors: Factors) -> Float[Tensor, " label"]:
    """Return the standard deviation of each label's latent value."""
    return (1 + factors.square().sum(-1)).sqrt()


def probit_nll(mean: Logits, factors: Factors, labels: Labels, noise: Float[Tensor, "draw rank"]) -> PerSample:
    r"""Negative log-likelihood of all observed labels of a row together, by draws that all rows share.

    Parameters
    ----------
    mean : Tensor of shape (batch, label)
        Latent means.
    factors : Tensor of shape (label, rank)
        The covariance is their product with themselves, plus the identity.
    labels : Tensor of shape (batch, label)
        0, 1 or NaN; a label not observed is integrated out.
    noise : Tensor of shape (draw, rank)
        Standard normal numbers.

    Returns
    -------
    Tensor of shape (batch,)

    Notes
    -----
    .. math:: -\log \frac1K \sum_k \prod_l \Phi\big((2 y_l - 1)(m_l + B_l \cdot \varepsilon_k)\big)

    Examples
    --------
    Without covariance, labels of even chance cost ln 2 each:

    >>> import torch
    >>> probit_nll(torch.zeros(1, 2), torch.zeros(2, 1), torch.tensor([[1.0, 0.0]]), torch.randn(5, 1))
    tensor([1.3863])
    """
    filled, observed = split_observed(labels)
    sign = 2 * filled - 1
    # torch has no types for autograd functions.
    return _JointNll.apply(mean, noise @ factors.T, sign, observed)  # type: ignore[no-any-return,no-untyped-call]


class _JointNll(torch.autograd.Function):
    """The sum behind :func:`probit_nll` and its gradient in one pass over few rows at a time.

    Written with torch's own gradients, every step of (draw, batch, label) goes through memory and back; by blocks they
    stay in the cache, which takes about a third of the time.
    """

    @staticmethod
    def forward(ctx: Any, mean: Logits, shift: Float[Tensor, "draw label"], sign: Labels, observed: Labels) -> Tensor:
        n_rows, n_labels = mean.shape
        n_draws = len(shift)
        pull = mean.new_empty(n_rows, n_draws, n_labels)
        nll = mean.new_empty(n_rows)
        size = _rows_at_a_time(n_draws * n_labels)
        spare = mean.new_empty(min(size, n_rows), n_draws, n_labels)
        for start in range(0, n_rows, size):
            rows = slice(start, start + size)
            hazard = pull[rows]
            log_cells = spare[: len(hazard)]
            torch.add(mean[rows].unsqueeze(1), shift, out=hazard)
            hazard.mul_(sign[rows].unsqueeze(1))
            _to_hazard(hazard, log_cells)
            log_joint = (log_cells @ observed[rows].unsqueeze(-1)).squeeze(-1)
            total = log_joint.logsumexp(1)
            nll[rows] = _log_of(float(n_draws), mean) - total
            # The gradient of a log of a sum of exponentials: every draw by its share.
            hazard.mul_((log_joint - total.unsqueeze(1)).exp().unsqueeze(-1))
            hazard.mul_((sign[rows] * observed[rows]).unsqueeze(1))
        ctx.save_for_backward(pull)
        return nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (pull,) = ctx.saved_tensors
        to_mean = -gradient.unsqueeze(1) * pull.sum(1)
        return to_mean, -(gradient @ pull.flatten(1)).view(pull.shape[1:]), None, None


def _to_hazard(values: Tensor, log_cdf: Tensor) -> None:
    """Replace values by their hazard, and fill ``log_cdf``; both in place."""
    if bool((values < _TAIL[values.dtype]).any()):
        log_cdf.copy_(log_normal_cdf(values))
        values.copy_(_hazard(values, log_cdf))
        return
    torch.mul(values, -_ROOT_HALF, out=log_cdf)
    log_cdf.erfc_().mul_(0.5)
    values.square_().mul_(-0.5).exp_().mul_(_DENSITY_AT_0).div_(log_cdf)
    log_cdf.log_()


@dataclass(frozen=True)
class Posterior:
    """What observed labels say about the latent ``z`` of each row: weighted draws.

    Attributes
    ----------
    draws : Tensor of shape (draw, batch, rank)
        Values of ``z``.
    weights : Tensor of shape (draw, batch)
        Their weights; 1 in sum over the draws.
    """

    draws: Float[Tensor, "draw batch rank"]
    weights: Float[Tensor, "draw batch"]


def posterior(mean: Logits, factors: Factors, labels: Labels, noise: Float[Tensor, "draw rank"]) -> Posterior:
    r"""Draw the latent ``z`` given the observed labels, by importance sampling.

    Parameters
    ----------
    mean, factors, labels
        As in :func:`probit_nll`.
    noise : Tensor of shape (draw, rank)
        Standard normal numbers, shared by all rows: a row's answer does not depend on its companions.

    Returns
    -------
    Posterior

    Notes
    -----
    Half of the draws come from the prior, half from the normal law that touches the posterior at its mode;
    the weights are posterior over mixture of the two. They are bounded, so the average is exact in the limit, and
    still useful where many labels leave the prior far behind.
    """
    return _posterior(mean, factors, labels, noise)[0]


def log_likelihood(mean: Logits, factors: Factors, labels: Labels, noise: Float[Tensor, "draw rank"]) -> PerSample:
    r"""Log likelihood of all observed labels of a row together, by the importance sampling of :func:`posterior`.

    Far less noisy than :func:`probit_nll` where a row has many labels, but not for gradients.

    Parameters
    ----------
    mean, factors, labels, noise
        As in :func:`posterior`.

    Returns
    -------
    Tensor of shape (batch,)

    Examples
    --------
    >>> import torch
    >>> log_likelihood(torch.zeros(1, 2), torch.zeros(2, 1), torch.tensor([[1.0, 0.0]]), torch.randn(8, 1))
    tensor([-1.3863])
    """
    return _posterior(mean, factors, labels, noise)[2]


def _posterior(
    mean: Logits, factors: Factors, labels: Labels, noise: Float[Tensor, "draw rank"]
) -> tuple[Posterior, Float[Tensor, "draw batch label"], PerSample]:
    """Weigh draws; with each, how probable every label is as observed, or as present where it was not.

    With them comes the log likelihood of the observed labels: the mean weight.
    """
    filled, observed = split_observed(labels)
    sign = torch.where(observed > 0, 2 * filled - 1, 1.0)
    mode, root = _mode(mean, factors, sign, observed)
    # (draw, rank) -> (draw, batch, rank); a solve with the transposed root gives the covariance of the mode
    # Halves, not every other row: a half of a Sobol sequence is even in itself.
    far, close = noise.tensor_split(2)
    near = torch.linalg.solve_triangular(root.mT, close.T.expand(len(mean), -1, -1), upper=True)
    draws = torch.cat([far.unsqueeze(1).expand(-1, len(mean), -1), mode + near.permute(2, 0, 1)])
    values = sign * (mean + torch.einsum("kbr,lr->kbl", draws, factors))
    if bool((values < _TAIL[values.dtype]).any()):
        cells, log_cells = ndtr(values), log_normal_cdf(values)
    else:
        cells = 0.5 * torch.erfc(values * -_ROOT_HALF)
        log_cells = cells.log()
    log_observed = torch.einsum("kbl,bl->kb", log_cells, observed)
    log_prior = -0.5 * draws.square().sum(-1)
    scaled = torch.einsum("bsr,kbs->kbr", root, draws - mode)
    log_near = -0.5 * scaled.square().sum(-1) + root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    share = len(close) / len(noise)
    mixture = torch.logaddexp(log_prior + _log_of(1 - share, mean), log_near + _log_of(share, mean))
    log_weights = log_prior + log_observed - mixture
    return Posterior(draws, log_weights.softmax(0)), cells, log_weights.logsumexp(0) - _log_of(float(len(noise)), mean)


def _log_of(share: float, like: Tensor) -> Tensor:
    return like.new_tensor(share).log()


def _mode(
    mean: Logits, factors: Factors, sign: Labels, observed: Labels, n_steps: int = 12
) -> tuple[Float[Tensor, "batch rank"], Float[Tensor, "batch rank rank"]]:
    """Most probable ``z`` of each row and the Cholesky root of its precision, by Newton steps."""
    mode = mean.new_zeros(len(mean), factors.shape[1])
    eye = torch.eye(factors.shape[1], dtype=mean.dtype, device=mean.device)
    for step in range(n_steps + 1):
        values = sign * (mean + mode @ factors.T)
        hazard = _hazard(values, log_normal_cdf(values))
        curvature = (hazard * (hazard + values)).clamp(0, 1) * observed
        root = torch.linalg.cholesky(eye + torch.einsum("bl,lr,ls->brs", curvature, factors, factors))
        if step < n_steps:
            slope = (sign * hazard * observed) @ factors - mode
            mode = mode + torch.cholesky_solve(slope.unsqueeze(-1), root).squeeze(-1)
    return mode, root


def conditional_probs(mean: Logits, factors: Factors, labels: Labels, noise: Float[Tensor, "draw rank"]) -> Probs:
    r"""Probability of each label given the observed ones.

    Parameters
    ----------
    mean, factors, labels, noise
        As in :func:`posterior`.

    Returns
    -------
    Tensor of shape (batch, label)
        Observed labels as observed.

    Notes
    -----
    .. math:: P(y_l = 1 \mid y_O) = \sum_k w_k \Phi(m_l + B_l \cdot z_k)

    Examples
    --------
    Two labels of even chance whose latent values correlate by 0.9:

    >>> import torch
    >>> factors, labels = torch.full((2, 1), 3.0), torch.tensor([[1.0, float("nan")]])
    >>> probs = conditional_probs(torch.zeros(1, 2), factors, labels, even_noise(1024, 1, 0, torch.float32))
    >>> probs[0, 0].item(), round(probs[0, 1].item(), 3)  # 1/2 + arcsin(0.9) / pi
    (1.0, 0.856)
    """
    n_rows = _rows_at_a_time(len(noise) * mean.shape[1])
    parts = []
    for own_mean, own_labels in zip(mean.split(n_rows), labels.split(n_rows), strict=True):
        found, given_draw, _ = _posterior(own_mean, factors, own_labels, noise)
        parts.append(torch.einsum("kb,kbl->bl", found.weights, given_draw))
    # Rounding may lift a sum of weights past 1.
    return torch.where(torch.isnan(labels), torch.cat(parts).clamp(0, 1), labels)


def _rows_at_a_time(row_size: int) -> int:
    """Rows that fit into a block: a power of two, so that batches of such sizes fall into equal parts."""
    return 1 << max(0, (_BLOCK // row_size).bit_length() - 1)


def even_noise(n_draws: int, rank: int, seed: int, dtype: torch.dtype = torch.float64) -> Float[Tensor, "draw rank"]:
    """Draw standard normal numbers that cover the space more evenly than chance would (scrambled Sobol points)."""
    points = torch.quasirandom.SobolEngine(rank, scramble=True, seed=seed).draw(n_draws, dtype=torch.float64)
    noise: Float[Tensor, "draw rank"] = ndtri(points.clamp(1e-9, 1 - 1e-9)).to(dtype)
    return noise


class ProbitHead(nn.Module):
    r"""The covariance of a multivariate probit, under scores that fix the marginals.

    A label's score is its latent mean over its latent spread: whatever the covariance, its probability is
    :math:`\Phi(\mathrm{score})`. Mean and covariance can so be learned without undoing each other.

    Parameters
    ----------
    n_labels, rank : int
        Labels, and common causes that tie them.

    Examples
    --------
    >>> import torch
    >>> ProbitHead(3, rank=2)(torch.zeros(1, 3))
    tensor([[0.5000, 0.5000, 0.5000]])
    """

    def __init__(self, n_labels: int, rank: int) -> None:
        super().__init__()
        self.factors = nn.Parameter(torch.randn(n_labels, rank) * _INITIAL_LENGTH / rank**0.5)

    def forward(self, scores: Logits) -> Probs:
        """Probability of each label by itself."""
        probs: Probs = ndtr(scores)
        return probs

    def latent_mean(self, scores: Logits) -> Logits:
        """Latent means whose marginals the scores are."""
        return scores * spread(self.factors)

    def nll(self, scores: Logits, labels: Labels, n_draws: int) -> PerSample:
        """Negative log-likelihood of all observed labels together, by fresh draws."""
        noise = torch.randn(n_draws, self.factors.shape[1], dtype=scores.dtype, device=scores.device)
        return probit_nll(self.latent_mean(scores), self.factors, labels, noise)

    def conditional(self, scores: Logits, labels: Labels, noise: Float[Tensor, "draw rank"]) -> Probs:
        """Probability of each label given the observed ones; of a row without any, exactly the marginals."""
        probs = conditional_probs(self.latent_mean(scores), self.factors, labels, noise)
        return torch.where(torch.isnan(labels).all(-1, keepdim=True), self(scores), probs)

    def posterior(self, scores: Logits, labels: Labels, noise: Float[Tensor, "draw rank"]) -> Posterior:
        """Draws of the common causes given the observed labels."""
        return posterior(self.latent_mean(scores), self.factors, labels, noise)

    def log_likelihood(self, scores: Logits, labels: Labels, noise: Float[Tensor, "draw rank"]) -> PerSample:
        """Log likelihood of all observed labels of each row together."""
        return log_likelihood(self.latent_mean(scores), self.factors, labels, noise)


class CovarianceNet(nn.Module):
    """The head alone, for training the covariance under scores that stay as they are.

    Rows are scores; rows to predict are scores and, behind them, given labels, NaN where none is given.

    Parameters
    ----------
    head : ProbitHead
        What is trained.
    noise : Tensor of shape (draw, rank)
        Behind predictions.
    n_draws : int
        Draws that estimate the likelihood of a batch in training.
    """

    noise: Tensor

    def __init__(self, head: ProbitHead, noise: Float[Tensor, "draw rank"], n_draws: int = 32) -> None:
        super().__init__()
        self.head = head
        self.n_draws = n_draws
        self.register_buffer("noise", noise)

    def loss(self, scores: Logits, labels: Labels, base_logits: None = None) -> dict[str, PerSample]:
        """Negative log-likelihood of the labels of each row together."""
        return {"nll": self.head.nll(scores, labels, self.n_draws)}

    def predict(self, rows: Float[Tensor, "batch both"], base_logits: None = None) -> Probs:
        """Probability of each label given those that stand behind the scores."""
        scores, labels = rows.chunk(2, dim=-1)
        return self.head.conditional(scores, labels, self.noise)
