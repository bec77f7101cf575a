"""The four loss terms, each a pure function of one batch that returns a number per row (Eq. 15-18).

Labels may hold NaN for "not observed": such a cell has weight zero in every term. A row without any observed
label contributes nothing. Weights and means over the batch are the training loop's business.
"""

from collections.abc import Collection
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812  # torch's own convention
from jaxtyping import Float
from torch import Tensor

from hotvae.net.latent import Gaussian, aligned_kl
from hotvae.net.observed import split_observed
from hotvae.types import Labels, LayerLogits, PerSample, Probs


def bce_loss(logits: Float[Tensor, "*layer batch label"], labels: Labels) -> Float[Tensor, "*layer batch"]:
    r"""Binary cross entropy, averaged over the observed labels of each row.

    Parameters
    ----------
    logits : Tensor of shape (batch, label), or (layer, batch, label)
        Scores before the sigmoid; those of several layers together.
    labels : Tensor of shape (batch, label)
        0, 1 or NaN.

    Returns
    -------
    Tensor of shape (batch,), or (layer, batch)

    Notes
    -----
    .. math:: \frac1L \sum_i -\big(y_i \log \hat y_i + (1-y_i) \log(1-\hat y_i)\big)

    Examples
    --------
    >>> import torch
    >>> round(bce_loss(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]])).item(), 6)
    0.693147
    """
    filled, observed = split_observed(labels)
    cell = F.binary_cross_entropy_with_logits(logits, filled.expand_as(logits), reduction="none") * observed
    return cell.sum(-1) / observed.sum(-1).clamp(min=1)


def intermediate_loss(layer_logits: LayerLogits, labels: Labels) -> PerSample:
    """Cross entropy of the read-outs after every layer but the last, summed over layers (paper note P15).

    Examples
    --------
    >>> import torch
    >>> intermediate_loss(torch.zeros(1, 2, 3), torch.ones(2, 3))
    tensor([0., 0.])
    """
    return bce_loss(layer_logits[:-1], labels).sum(0)


def ranking_loss(probs: Probs, labels: Labels, scale: float = 5.0) -> PerSample:
    r"""Penalty for absent labels that score above present ones.

    Parameters
    ----------
    probs, labels : Tensor of shape (batch, label)
        Probabilities; 0, 1 or NaN.
    scale : float
        Steepness a.

    Returns
    -------
    Tensor of shape (batch,)
        0 for a row without a (present, absent) pair.

    Notes
    -----
    .. math:: \frac{1}{a |Y| |\bar Y|} \sum_{r \in Y, s \in \bar Y} e^{-a (p_r - p_s)}
              = \frac{\big(\sum_r e^{-a p_r}\big)\big(\sum_s e^{a p_s}\big)}{a |Y| |\bar Y|}

    The double sum factorises, so no label-by-label tensor exists (paper notes P2, P3).

    Examples
    --------
    >>> import torch
    >>> ranking_loss(torch.tensor([[0.5, 0.5]]), torch.tensor([[1.0, 0.0]]))
    tensor([0.2000])
    """
    filled, observed = split_observed(labels)
    present, absent = filled * observed, (1 - filled) * observed
    # Centred at one half, which cancels in the product: a steep scale overflows later.
    centred = scale * (probs - 0.5)
    pull_up = (present * torch.exp(-centred)).sum(-1)
    push_down = (absent * torch.exp(centred)).sum(-1)
    n_pairs = present.sum(-1) * absent.sum(-1)
    return pull_up * push_down / (scale * n_pairs.clamp(min=1))


@dataclass(frozen=True)
class Branch:
    """What one branch produced for a batch.

    Attributes
    ----------
    posterior : Gaussian
        q(z|x) or q(z|y).
    layer_logits : Tensor of shape (layer, batch, label)
        Logits after every layer; the last one is the prediction.
    """

    posterior: Gaussian
    layer_logits: LayerLogits


@dataclass(frozen=True)
class HotVAEOutput:
    """Both branches of one pass in training.

    Attributes
    ----------
    feature, label : Branch
        What each produced.
    """

    feature: Branch
    label: Branch


def hotvae_terms(output: HotVAEOutput, labels: Labels, wanted: Collection[str]) -> dict[str, PerSample]:
    """Compute the wanted terms of the loss, per row, both branches added; nothing is weighted here.

    Parameters
    ----------
    output : HotVAEOutput
        Both branches of a pass.
    labels : Tensor of shape (batch, label)
        0, 1 or NaN.
    wanted : collection of {"bce", "intermediate", "ranking", "kl"}
        Terms that have a weight.

    Returns
    -------
    dict of Tensor of shape (batch,)
        By their names.

    Examples
    --------
    >>> import torch
    >>> unit = Gaussian(torch.zeros(1, 1, 2), torch.zeros(1, 1, 2))
    >>> branch = Branch(unit, torch.zeros(2, 1, 3))
    >>> terms = hotvae_terms(HotVAEOutput(branch, branch), torch.tensor([[1.0, 0.0, 0.0]]), ("bce", "kl"))
    >>> {name: round(term.item(), 3) for name, term in terms.items()}
    {'bce': 1.386, 'kl': 0.0}
    """
    feature, label = output.feature.layer_logits, output.label.layer_logits
    terms: dict[str, PerSample] = {}
    if "bce" in wanted:
        terms["bce"] = bce_loss(feature[-1], labels) + bce_loss(label[-1], labels)
    if "intermediate" in wanted:
        terms["intermediate"] = intermediate_loss(feature, labels) + intermediate_loss(label, labels)
    if "ranking" in wanted:
        terms["ranking"] = ranking_loss(feature[-1].sigmoid(), labels) + ranking_loss(label[-1].sigmoid(), labels)
    if "kl" in wanted:
        # A row without any observed label says nothing about z given y.
        any_observed: Float[Tensor, " batch"] = (~torch.isnan(labels)).any(-1).to(labels.dtype)
        terms["kl"] = aligned_kl(output.label.posterior, output.feature.posterior) * any_observed
    return terms
