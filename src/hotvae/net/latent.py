"""Gaussians over latent tokens: pool them, sample them, compare them.

Both encoders return a :class:`Gaussian`; the decoder sees its samples and the KL term compares the
pooled Gaussians of the two branches (Eq. 6 and the pooling equations).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hotvae.types import PerSample, Pooled, TokenMask, Tokens


@dataclass(frozen=True)
class Gaussian:
    """A diagonal Gaussian for each token of each row.

    Attributes
    ----------
    mean, log_variance : Tensor of shape (batch, token, latent)
        Its parameters.
    mask : Tensor of bool of shape (batch, token), optional
        True for real tokens, False for padding. None when every token is real.

    Examples
    --------
    >>> import torch
    >>> Gaussian(torch.zeros(2, 1, 3), torch.zeros(2, 1, 3)).mean.shape
    torch.Size([2, 1, 3])
    """

    mean: Tokens
    log_variance: Tokens
    mask: TokenMask | None = None


def sample(
    gaussian: Gaussian, noise: Float[Tensor, "*draw #batch token latent"]
) -> Float[Tensor, "*draw batch token latent"]:
    """Shift and scale standard noise: ``mean + noise * std``.

    Parameters
    ----------
    gaussian : Gaussian
        What to draw from.
    noise : Tensor broadcastable to (..., batch, token, latent)
        Standard normal numbers; one draw shared by all rows keeps predictions free of the batch.

    Returns
    -------
    Tensor of shape (..., batch, token, latent)
    """
    return gaussian.mean + noise * torch.exp(0.5 * gaussian.log_variance)


def token_mean(values: Tokens, mask: TokenMask | None) -> Pooled:
    """Average over the real tokens of each row."""
    if mask is None:
        return values.mean(dim=1)
    weight = mask.to(values.dtype).unsqueeze(-1)
    return (values * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1)


def pool(gaussian: Gaussian) -> tuple[Pooled, Pooled]:
    """Compress the tokens of each row to one Gaussian: means and variances are averaged, as printed (paper note P5).

    Parameters
    ----------
    gaussian : Gaussian
        One Gaussian per token.

    Returns
    -------
    mean, variance : Tensor of shape (batch, dim)
    """
    return token_mean(gaussian.mean, gaussian.mask), token_mean(gaussian.log_variance.exp(), gaussian.mask)


def aligned_kl(label: Gaussian, feature: Gaussian) -> PerSample:
    r"""Divergence of the pooled label Gaussian from the pooled feature Gaussian, per row.

    Parameters
    ----------
    label, feature : Gaussian
        q(z|y) and q(z|x); their numbers of tokens may differ.

    Returns
    -------
    Tensor of shape (batch,)

    Notes
    -----
    .. math:: \tfrac12 \sum_i \Big(\frac{\sigma^2_{y,i}}{\sigma^2_{x,i}} - 1
              - \log\frac{\sigma^2_{y,i}}{\sigma^2_{x,i}} + \frac{(\mu_{y,i}-\mu_{x,i})^2}{\sigma^2_{x,i}}\Big)

    Paper note P1: the printed Eq. 6 omits the one half, so our ``kl`` weight is twice the paper's beta.

    Examples
    --------
    >>> import torch
    >>> unit = Gaussian(torch.zeros(1, 1, 2), torch.zeros(1, 1, 2))
    >>> aligned_kl(unit, unit).item()
    0.0
    """
    label_mean, label_variance = pool(label)
    feature_mean, feature_variance = pool(feature)
    ratio = label_variance / feature_variance
    gap = (label_mean - feature_mean) ** 2 / feature_variance
    return 0.5 * (ratio - 1 - ratio.log() + gap).sum(dim=-1)


def join(first: Gaussian, second: Gaussian) -> Gaussian:
    """Stack two batches of Gaussians, padding tokens where their numbers differ, so that both decode at once."""
    n_tokens = max(first.mean.shape[1], second.mean.shape[1])
    padded = [_pad_tokens(gaussian, n_tokens) for gaussian in (first, second)]
    means, log_variances = ([getattr(part, name) for part in padded] for name in ("mean", "log_variance"))
    if all(part.mask is None for part in padded):
        return Gaussian(torch.cat(means), torch.cat(log_variances))
    return Gaussian(torch.cat(means), torch.cat(log_variances), torch.cat([_full_mask(part) for part in padded]))


def _full_mask(gaussian: Gaussian) -> Bool[Tensor, "batch token"]:
    if gaussian.mask is not None:
        return gaussian.mask
    return torch.ones(gaussian.mean.shape[:2], dtype=torch.bool, device=gaussian.mean.device)


def _pad_tokens(gaussian: Gaussian, n_tokens: int) -> Gaussian:
    missing = n_tokens - gaussian.mean.shape[1]
    if missing == 0:
        return gaussian
    pad = torch.nn.functional.pad
    return Gaussian(
        pad(gaussian.mean, (0, 0, 0, missing)),
        pad(gaussian.log_variance, (0, 0, 0, missing)),
        pad(_full_mask(gaussian), (0, missing), value=False),
    )
