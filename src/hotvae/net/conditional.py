"""Given labels: how they move the latent of a row away from what its features alone say.

The label branch of the paper encodes all labels of a row. Here it encodes any part of them, beside the features: what
counts of a given label is how surprising it is, ``y - p``, so a label that the features had foretold moves nothing.
With nothing given the latent is exactly that of the feature branch; the KL term keeps the two close otherwise.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hotvae.config import NetConfig
from hotvae.net.encoders import LOG_VARIANCE_RANGE
from hotvae.net.latent import Gaussian, token_mean
from hotvae.types import Labels, Logits, Pooled, Probs

# Share of the units of the given labels' encoder that are dropped while training.
_DROPOUT = 0.1


@dataclass(frozen=True)
class Evidence:
    """What the given labels of a batch of rows say: by how much they move what the features say.

    Attributes
    ----------
    mean, log_variance : Tensor of shape (batch, dim)
        Added to the parameters of q(z|x), the same for all its tokens.
    logits : Tensor of shape (batch, label)
        Added to every logit directly, beside the latent; 0 without a direct path.
    """

    mean: Pooled
    log_variance: Pooled
    logits: Logits

    def move(self, feature: Gaussian) -> Gaussian:
        """Return q(z|x, given labels) from q(z|x)."""
        log_variance = feature.log_variance + self.log_variance.unsqueeze(1)
        return Gaussian(feature.mean + self.mean.unsqueeze(1), log_variance.clamp(*LOG_VARIANCE_RANGE), feature.mask)


class GivenEncoder(nn.Module):
    r"""Encoder of the label branch that reads any part of the labels.

    Parameters
    ----------
    n_labels : int
        Labels.
    config : NetConfig
        Latent width and ``label_encoder_widths``.

    Notes
    -----
    With :math:`m` the mask of given labels, :math:`p` the probabilities from the features and
    :math:`h` a perceptron,

    .. math:: \mu_{xy} = \mu_x + W\,\big(h(m (y - p), m, p) \odot (1 + \tanh G \mu_x)\big),

    and the log-variances likewise. The gate :math:`G` lets the features decide what a surprise means: two species may
    go together in one place and exclude each other in another.

    Examples
    --------
    >>> import torch
    >>> feature = Gaussian(torch.ones(1, 1, 8), torch.zeros(1, 1, 8))
    >>> encoder = GivenEncoder(3, NetConfig(dim=8, n_heads=2))
    >>> nothing = torch.full((1, 3), float("nan"))
    >>> torch.equal(encoder(feature, torch.full((1, 3), 0.5), nothing).move(feature).mean, feature.mean)
    True
    """

    def __init__(self, n_labels: int, config: NetConfig) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = 3 * n_labels
        for out in config.label_encoder_widths:
            layers += [nn.Linear(width, out), nn.ReLU(), nn.Dropout(_DROPOUT)]
            width = out
        self.hidden = nn.Sequential(*layers)
        self.gate = nn.Linear(config.latent_width, width)
        self.mean = nn.Linear(width, config.latent_width, bias=False)
        self.log_variance = nn.Linear(width, config.latent_width, bias=False)
        nn.init.normal_(self.log_variance.weight, std=0.01)
        self.direct = nn.Linear(width, n_labels, bias=False) if config.direct_path else None
        if self.direct is not None:
            nn.init.zeros_(self.direct.weight)

    def forward(self, feature: Gaussian, probs: Probs, given: Labels) -> Evidence:
        """Say how far what is given moves the feature Gaussian.

        Parameters
        ----------
        feature : Gaussian
            q(z|x).
        probs : Tensor of shape (batch, label)
            What the features alone say.
        given : Tensor of shape (batch, label)
            1 and 0 for given labels, NaN for all others.

        Returns
        -------
        Evidence
        """
        is_given = (~torch.isnan(given)).to(probs.dtype)
        surprise = torch.nan_to_num(given - probs, nan=0.0)
        hidden: Tensor = self.hidden(torch.cat([surprise, is_given, probs], dim=-1))
        hidden = hidden * (1 + torch.tanh(self.gate(token_mean(feature.mean, feature.mask))))
        # Where nothing is given, nothing may move: probs alone would still reach the hidden units.
        hidden = hidden * (is_given.sum(dim=-1, keepdim=True) > 0)
        logits = torch.zeros_like(probs) if self.direct is None else self.direct(hidden)
        return Evidence(self.mean(hidden), self.log_variance(hidden), logits)


def split_labels(labels: Labels) -> tuple[Labels, Labels]:
    """Split the labels of each row at random into given ones and targets; the share given is uniform per row.

    Parameters
    ----------
    labels : Tensor of shape (batch, label)
        0, 1 or NaN.

    Returns
    -------
    given, target : Tensor of shape (batch, label)
        Every observed label is in one of them, NaN in the other.
    """
    share = torch.rand(len(labels), 1, dtype=labels.dtype, device=labels.device)
    is_given = torch.rand_like(labels) < share
    gap = torch.full_like(labels, float("nan"))
    return torch.where(is_given, labels, gap), torch.where(is_given, gap, labels)
