"""The four loss terms, each a pure function of one batch that returns a number per row (Eq. 15-18).

Labels may hold NaN for "not observed": such a cell has weight zero in every term. A row without any observed
label contributes nothing. Weights and means over the batch are the training loop's business.
"""

import torch
import torch.nn.functional as F  # noqa: N812  # torch's own convention
from jaxtyping import Float
from torch import Tensor

from hotvae.config import LossWeights, Pooling
from hotvae.net.latent import aligned_kl
from hotvae.net.model import Branch, HotVAEOutput
from hotvae.net.observed import split_observed
from hotvae.types import Labels, LayerLogits, Logits, PerSample, Probs


def bce_loss(logits: Logits, labels: Labels) -> PerSample:
    r"""Binary cross entropy, averaged over the observed labels of each row.

    Parameters
    ----------
    logits, labels : Tensor of shape (batch, label)
        Scores before the sigmoid; 0, 1 or NaN.

    Returns
    -------
    Tensor of shape (batch,)

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
    cell = F.binary_cross_entropy_with_logits(logits, filled, reduction="none") * observed
    return cell.sum(-1) / observed.sum(-1).clamp(min=1)


def intermediate_loss(layer_logits: LayerLogits, labels: Labels) -> PerSample:
    """Cross entropy of the read-outs after every layer but the last, summed over layers (paper note P15).

    Examples
    --------
    >>> import torch
    >>> intermediate_loss(torch.zeros(1, 2, 3), torch.ones(2, 3))
    tensor([0., 0.])
    """
    total = layer_logits.new_zeros(layer_logits.shape[1])
    for logits in layer_logits[:-1]:
        total = total + bce_loss(logits, labels)
    return total


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


def hotvae_terms(
    output: HotVAEOutput, labels: Labels, weights: LossWeights, pooling: Pooling = "mean"
) -> dict[str, PerSample]:
    """Compute every term of the loss that has a weight, per row, both branches added.

    Parameters
    ----------
    output : HotVAEOutput
        Both branches of a pass.
    labels : Tensor of shape (batch, label)
        0, 1 or NaN.
    weights : LossWeights
        Says which terms are wanted and how steep the ranking is; nothing is weighted here.
    pooling : {"mean", "moment"}
        How tokens are pooled for the KL.

    Returns
    -------
    dict of Tensor of shape (batch,)
        By the names of :class:`~hotvae.config.LossWeights`.

    Examples
    --------
    >>> import torch
    >>> from hotvae.config import NetConfig
    >>> from hotvae.net.model import HotVAE
    >>> network = HotVAE(4, 3, NetConfig(dim=8, n_heads=2, encoder_widths=(16,)))
    >>> labels = torch.ones(5, 3)
    >>> sorted(hotvae_terms(network(torch.zeros(5, 4), labels), labels, LossWeights()))
    ['bce', 'intermediate', 'kl', 'ranking']
    """
    asked = labels if output.asked is None else output.asked

    def both(term: str) -> PerSample:
        return _branch_term(term, output.feature, labels, weights) + _branch_term(term, output.label, asked, weights)

    terms = {name: both(name) for name in ("bce", "intermediate", "ranking") if getattr(weights, name) > 0}
    if weights.kl > 0:
        # A row without any observed label says nothing about z given y.
        any_observed: Float[Tensor, " batch"] = (~torch.isnan(labels)).any(-1).to(labels.dtype)
        terms["kl"] = aligned_kl(output.label.posterior, output.feature.posterior, pooling) * any_observed
    return terms


def _branch_term(term: str, branch: Branch, labels: Labels, weights: LossWeights) -> PerSample:
    if term == "bce":
        return bce_loss(branch.layer_logits[-1], labels)
    if term == "intermediate":
        return intermediate_loss(branch.layer_logits, labels)
    return ranking_loss(branch.layer_logits[-1].sigmoid(), labels, weights.ranking_scale)
