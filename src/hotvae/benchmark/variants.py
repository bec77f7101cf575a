"""Models of ablations that no setting gives: HOT-VAE with its loss changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from hotvae.estimators.base import LabelClassifier
from hotvae.estimators.hotvae import HotVAEClassifier
from hotvae.net.losses import bce_loss, hotvae_terms, ranking_loss
from hotvae.net.model import HotVAEOutput
from hotvae.training.loop import Terms


class _Overheard:
    """A network whose last output can be looked at."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.output: HotVAEOutput | None = None

    def __call__(self, *inputs: Tensor) -> HotVAEOutput:
        self.output = cast(HotVAEOutput, self.network(*inputs))
        return self.output

    def __getattr__(self, name: str) -> Any:
        return getattr(self.network, name)


class _ChangedLoss(HotVAEClassifier):
    """HOT-VAE whose loss terms are changed after every pass; for ablations, which have no ensembles."""

    def _changed(self, found: dict[str, Tensor], output: HotVAEOutput, labels: Tensor) -> Mapping[str, Tensor]:
        """Return the terms to learn from; ``found`` are those of HOT-VAE."""
        raise NotImplementedError

    def _objective(self, network: nn.Module) -> tuple[Terms, Mapping[str, float]]:
        heard = _Overheard(network)
        terms, weights = super()._objective(cast(nn.Module, heard))  # it is only called

        def changed(features: Tensor, labels: Tensor) -> Mapping[str, Tensor]:
            found = dict(terms(features, labels))
            return self._changed(found, cast(HotVAEOutput, heard.output), labels)

        return changed, weights

    def _feature_terms(self, output: HotVAEOutput, labels: Tensor) -> dict[str, Tensor]:
        """Compute the terms of the feature branch by itself; nothing is aligned."""
        # Terms are sums over two branches, and here both are the same one.
        both = hotvae_terms(HotVAEOutput(output.feature, output.feature), labels, self._loss_weights(), self.pooling)
        return {name: torch.zeros_like(term) if name == "kl" else term / 2 for name, term in both.items()}


class FeatureBranchOnly(_ChangedLoss):
    """HOT-VAE that never sees labels as input: the label branch is not trained and nothing is aligned.

    Examples
    --------
    >>> FeatureBranchOnly(dim=8).dim
    8
    """

    title = "HOT-VAE without label branch"

    def _changed(self, found: dict[str, Tensor], output: HotVAEOutput, labels: Tensor) -> Mapping[str, Tensor]:
        return self._feature_terms(output, labels)


class LightLabelBranch(_ChangedLoss):
    """HOT-VAE whose label branch counts half as much as its feature branch.

    Examples
    --------
    >>> LightLabelBranch.label_share
    0.5
    """

    title = "HOT-VAE, label branch counts half"
    label_share: ClassVar[float] = 0.5

    def _changed(self, found: dict[str, Tensor], output: HotVAEOutput, labels: Tensor) -> Mapping[str, Tensor]:
        own = self._feature_terms(output, labels)
        return {
            name: term if name == "kl" else own[name] + self.label_share * (term - own[name])
            for name, term in found.items()
        }


class SmoothedLabels(_ChangedLoss):
    """HOT-VAE whose final cross entropy is told labels a little less sure than they are.

    Examples
    --------
    >>> SmoothedLabels.smoothing
    0.05
    """

    title = "HOT-VAE, labels smoothed"
    smoothing: ClassVar[float] = 0.05

    def _changed(self, found: dict[str, Tensor], output: HotVAEOutput, labels: Tensor) -> Mapping[str, Tensor]:
        asked = labels if output.asked is None else output.asked
        # Cross entropy is linear in the label: a smoothed one is a mixture with one half.
        unsure = bce_loss(output.feature.layer_logits[-1], 0 * labels + 0.5)
        unsure = unsure + bce_loss(output.label.layer_logits[-1], 0 * asked + 0.5)
        return found | {"bce": (1 - self.smoothing) * found["bce"] + self.smoothing * unsure}


class PrintedRanking(_ChangedLoss):
    """HOT-VAE with the ranking loss as printed, which raises present and absent labels together (paper note P2).

    Examples
    --------
    >>> PrintedRanking(dim=8).dim
    8
    """

    title = "HOT-VAE, printed ranking sign"

    def _changed(self, found: dict[str, Tensor], output: HotVAEOutput, labels: Tensor) -> Mapping[str, Tensor]:
        if "ranking" in found:
            asked = labels if output.asked is None else output.asked
            found["ranking"] = sum(
                (
                    printed_ranking(branch.layer_logits[-1].sigmoid(), wanted, self.ranking_scale)
                    for branch, wanted in ((output.feature, labels), (output.label, asked))
                ),
                start=torch.zeros_like(found["ranking"]),
            )
        return found


def printed_ranking(probs: Tensor, labels: Tensor, scale: float) -> Tensor:
    r"""Ranking loss with the paper's sign: mean over pairs of :math:`e^{-a(p_r + p_s)} / a`.

    Parameters
    ----------
    probs, labels : Tensor of shape (batch, label)
        Probabilities; 0, 1 or NaN.
    scale : float
        Steepness a.

    Returns
    -------
    Tensor of shape (batch,)

    Examples
    --------
    >>> printed_ranking(torch.tensor([[0.2, 0.3]]), torch.tensor([[1.0, 0.0]]), 1.0)
    tensor([0.6065])
    """
    return ranking_loss(torch.where(labels == 1, probs, -probs), labels, scale)


class RisingKL(_ChangedLoss):
    """HOT-VAE whose divergence between the branches rises to its weight over the first ten epochs.

    Examples
    --------
    >>> RisingKL.rising_epochs
    10
    """

    title = "HOT-VAE, rising KL"
    rising_epochs: ClassVar[int] = 10

    def _objective(self, network: nn.Module) -> tuple[Terms, Mapping[str, float]]:
        begin: Callable[[int | None], None] = cast(Any, network).begin_epoch
        self._kl_share = 1.0

        def begin_epoch(epoch: int | None) -> None:
            self._kl_share = 1.0 if epoch is None else min(1.0, epoch / self.rising_epochs)
            begin(epoch)

        cast(Any, network).begin_epoch = begin_epoch
        return super()._objective(network)

    def _changed(self, found: dict[str, Tensor], output: HotVAEOutput, labels: Tensor) -> Mapping[str, Tensor]:
        return {name: self._kl_share * term if name == "kl" else term for name, term in found.items()}


class KeptByKnown(HotVAEClassifier):
    """HOT-VAE whose kept epoch is the best one given half of the labels, instead of given none.

    Examples
    --------
    >>> KeptByKnown(dim=8).dim
    8
    """

    title = "HOT-VAE, epoch by what is told"

    def _build(self, n_features: int, n_labels: int, graph: Tensor | None, initial_logits: Tensor | None) -> nn.Module:
        network = super()._build(n_features, n_labels, graph, initial_logits)
        cast(Any, network).selects_told = True  # read by the training loop
        return network


VARIANTS: dict[str, type[LabelClassifier]] = {
    "hotvae-feature-branch": FeatureBranchOnly,
    "hotvae-light-label-branch": LightLabelBranch,
    "hotvae-smoothed-labels": SmoothedLabels,
    "hotvae-printed-ranking": PrintedRanking,
    "hotvae-rising-kl": RisingKL,
    "hotvae-kept-by-known": KeptByKnown,
}
"""Models of experiments that no setting gives."""
