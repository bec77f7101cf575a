"""Models that no setting gives: HOT-VAE with its loss changed, and with the paper's recipe under its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from hotvae.config import find_recipe
from hotvae.estimators.base import LabelClassifier
from hotvae.estimators.hotvae_network import HotVAENetwork
from hotvae.net.losses import HotVAEOutput, bce_loss, hotvae_terms, ranking_loss
from hotvae.net.model import HotVAE
from hotvae.types import Labels, Logits, PerSample, Probs
from paper.experiments import PAPER_MODEL

Terms = dict[str, PerSample]


class _ChangedLoss(HotVAE):
    """HOT-VAE whose loss terms are changed after every pass."""

    def loss(self, features: Tensor, labels: Labels, base_logits: Logits | None = None) -> Terms:
        """Loss terms of a batch, a number per row each."""
        output = self(features, labels, base_logits)
        return self._changed(hotvae_terms(output, labels, self.wanted), output, labels)

    def _changed(self, found: Terms, output: HotVAEOutput, labels: Labels) -> Terms:
        """Return the terms to learn from; ``found`` are those of HOT-VAE."""
        raise NotImplementedError

    def _feature_terms(self, output: HotVAEOutput, labels: Labels) -> Terms:
        """Compute the terms of the feature branch by itself; nothing is aligned."""
        # Terms are sums over two branches, and here both are the same one.
        both = hotvae_terms(HotVAEOutput(output.feature, output.feature), labels, self.wanted)
        return {name: torch.zeros_like(term) if name == "kl" else term / 2 for name, term in both.items()}


class FeatureBranchLoss(_ChangedLoss):
    """The terms of the feature branch alone."""

    def _changed(self, found: Terms, output: HotVAEOutput, labels: Labels) -> Terms:
        return self._feature_terms(output, labels)


class FeatureBranchOnly(HotVAENetwork):
    """HOT-VAE that never sees labels as input: the label branch is not trained and nothing is aligned.

    Examples
    --------
    >>> FeatureBranchOnly(dim=8).dim
    8
    """

    title = "HOT-VAE without label branch"
    network_class = FeatureBranchLoss


class LightLabelLoss(_ChangedLoss):
    """A part of the terms of the label branch."""

    label_share: ClassVar[float] = 0.5

    def _changed(self, found: Terms, output: HotVAEOutput, labels: Labels) -> Terms:
        own = self._feature_terms(output, labels)
        return {
            name: term if name == "kl" else own[name] + self.label_share * (term - own[name])
            for name, term in found.items()
        }


class LightLabelBranch(HotVAENetwork):
    """HOT-VAE whose label branch counts half as much as its feature branch.

    Examples
    --------
    >>> LightLabelBranch.network_class.label_share
    0.5
    """

    title = "HOT-VAE, label branch counts half"
    network_class = LightLabelLoss


class SmoothedLoss(_ChangedLoss):
    """A final cross entropy with labels a little less sure than they are."""

    smoothing: ClassVar[float] = 0.05

    def _changed(self, found: Terms, output: HotVAEOutput, labels: Labels) -> Terms:
        target = labels if output.target is None else output.target
        # Cross entropy is linear in the label: a smoothed one is a mixture with one half.
        unsure = bce_loss(output.feature.layer_logits[-1], 0 * labels + 0.5)
        unsure = unsure + bce_loss(output.label.layer_logits[-1], 0 * target + 0.5)
        return found | {"bce": (1 - self.smoothing) * found["bce"] + self.smoothing * unsure}


class SmoothedLabels(HotVAENetwork):
    """HOT-VAE whose final cross entropy learns from labels a little less sure than they are.

    Examples
    --------
    >>> SmoothedLabels.network_class.smoothing
    0.05
    """

    title = "HOT-VAE, labels smoothed"
    network_class = SmoothedLoss


class PrintedRankingLoss(_ChangedLoss):
    """The ranking loss as printed."""

    def _changed(self, found: Terms, output: HotVAEOutput, labels: Labels) -> Terms:
        if "ranking" not in found:
            return found
        target = labels if output.target is None else output.target
        feature, label = (branch.layer_logits[-1].sigmoid() for branch in (output.feature, output.label))
        return found | {"ranking": printed_ranking(feature, labels) + printed_ranking(label, target)}


class PrintedRanking(HotVAENetwork):
    """HOT-VAE with the ranking loss as printed, which raises present and absent labels together (paper note P2).

    Examples
    --------
    >>> PrintedRanking(dim=8).dim
    8
    """

    title = "HOT-VAE, printed ranking sign"
    network_class = PrintedRankingLoss


def printed_ranking(probs: Probs, labels: Labels, scale: float = 5.0) -> PerSample:
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


class RisingKLLoss(_ChangedLoss):
    """A divergence that counts more from epoch to epoch."""

    rising_epochs: ClassVar[int] = 10
    kl_share = 1.0

    def begin_epoch(self, epoch: int | None) -> None:
        """Raise the share of the divergence."""
        self.kl_share = 1.0 if epoch is None else min(1.0, epoch / self.rising_epochs)
        super().begin_epoch(epoch)

    def _changed(self, found: Terms, output: HotVAEOutput, labels: Labels) -> Terms:
        return {name: self.kl_share * term if name == "kl" else term for name, term in found.items()}


class RisingKL(HotVAENetwork):
    """HOT-VAE whose divergence between the branches rises to its weight over the first ten epochs.

    Examples
    --------
    >>> RisingKL.network_class.rising_epochs
    10
    """

    title = "HOT-VAE, rising KL"
    network_class = RisingKLLoss


class SelectedByGiven(HotVAE):
    """A network whose epochs the training loop compares by what it predicts given half of the labels."""

    selects_by_given = True


class KeptByGiven(HotVAENetwork):
    """HOT-VAE whose kept epoch is the best one given half of the labels, instead of given none.

    Examples
    --------
    >>> KeptByGiven(dim=8).dim
    8
    """

    title = "HOT-VAE, epoch by given labels"
    network_class = SelectedByGiven


class PaperRecipe(HotVAENetwork):
    """HOT-VAE as the paper prints it: settings that are not given are those of the recipe, not our defaults.

    Examples
    --------
    >>> PaperRecipe.from_settings(n_layers=3).training.optimizer
    'adam'
    """

    title = "HOT-VAE, paper's recipe"

    @classmethod
    def from_settings(cls, **settings: Any) -> Self:
        """Make the network of the recipe, with some settings changed."""
        return super().from_settings(**find_recipe("paper") | settings)


VARIANTS: Mapping[str, type[LabelClassifier]] = {
    "hotvae-feature-branch": FeatureBranchOnly,
    "hotvae-light-label-branch": LightLabelBranch,
    "hotvae-smoothed-labels": SmoothedLabels,
    "hotvae-printed-ranking": PrintedRanking,
    "hotvae-rising-kl": RisingKL,
    "hotvae-kept-by-given": KeptByGiven,
    PAPER_MODEL: PaperRecipe,
}
"""Models of experiments that no setting gives."""
