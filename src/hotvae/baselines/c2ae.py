"""C2AE: features and labels meet in one latent space, from which the labels are read (Yeh et al. 2017)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hotvae.baselines.neighbours import RememberingNetwork
from hotvae.config import NetConfig, require_number, require_widths
from hotvae.net.base_logits import BaseScale
from hotvae.net.encoders import code_labels
from hotvae.net.losses import bce_loss, ranking_loss
from hotvae.net.perceptron import perceptron, set_bias
from hotvae.types import Features, Labels, Logits, PerSample, Pooled, Probs


@dataclass(frozen=True)
class C2AEOutput:
    """One pass in training.

    Attributes
    ----------
    feature, label : Tensor of shape (batch, dim)
        The two codes of each row.
    logits : Tensor of shape (batch, label)
        Labels read from the label code.
    """

    feature: Pooled
    label: Pooled
    logits: Logits


class FeatureCode(nn.Module):
    """A perceptron that answers as encoders do: one token per row, no spread."""

    n_tokens = 1

    def __init__(self, n_features: int, widths: Sequence[int], dim: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = perceptron(n_features, widths, dim, dropout)

    def forward(self, features: Features) -> tuple[Float[Tensor, "batch 1 dim"], Float[Tensor, "batch 1 dim"]]:
        """Return the code and a log-variance of 0."""
        code = self.layers(features).unsqueeze(1)
        return code, torch.zeros_like(code)


class C2AENet(nn.Module):
    """Feature encoder, label encoder and a decoder of the labels.

    Parameters
    ----------
    n_features, n_labels, dim : int
        Columns of the two tables, and width of the code.
    config : NetConfig
        Hidden widths of the encoders, and the share of units dropped in that of the features.
    decoder_widths : sequence of int
        Hidden widths of the decoder.
    initial_logits : Tensor of shape (label,), optional
        Logits of the prevalences.
    has_base : bool
        Whether rows come with base logits (:mod:`hotvae.net.base_logits`).
    """

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        dim: int,
        config: NetConfig,
        decoder_widths: Sequence[int],
        initial_logits: Float[Tensor, " label"] | None = None,
        has_base: bool = False,
    ) -> None:
        super().__init__()
        self.base = BaseScale(n_labels) if has_base else None
        self.feature_encoder = FeatureCode(n_features, config.encoder_widths, dim, config.encoder_dropout)
        self.label_encoder = perceptron(n_labels, config.label_encoder_widths, dim)
        self.decoder = perceptron(dim, decoder_widths, n_labels)
        if initial_logits is not None:
            set_bias(self.decoder, initial_logits * (not has_base))

    def _read_out(self, code: Pooled, base_logits: Logits | None) -> Logits:
        logits: Logits = self.decoder(code)
        return logits if self.base is None else self.base.add(logits, base_logits)

    def forward(self, features: Features, labels: Labels, base_logits: Logits | None = None) -> C2AEOutput:
        """Code both tables; read the labels from the label code, so that their loss never reaches the features."""
        label = self.label_encoder(code_labels(labels))
        return C2AEOutput(self.feature_encoder(features)[0].squeeze(1), label, self._read_out(label, base_logits))

    def loss(self, features: Features, labels: Labels, base_logits: Logits | None = None) -> dict[str, PerSample]:
        """Alignment and orthogonality of the codes, ranking and cross entropy of the labels, a number per row each."""
        output = self(features, labels, base_logits)
        counted = (~torch.isnan(labels)).any(-1).to(labels.dtype)
        both = [orthogonality_loss(code, counted) for code in (output.feature, output.label)]
        cross_entropy = bce_loss(output.logits, labels)
        return {
            "alignment": alignment_loss(output.feature, output.label) * counted,
            "orthogonality": both[0] + both[1],
            "ranking": ranking_loss(output.logits.sigmoid(), labels) if labels.shape[1] > 1 else cross_entropy,
            "bce": cross_entropy,
        }

    def predict(self, features: Features, base_logits: Logits | None = None) -> Probs:
        """Read the labels from the feature code."""
        return torch.sigmoid(self._read_out(self.feature_encoder(features)[0].squeeze(1), base_logits))


def alignment_loss(feature: Pooled, label: Pooled) -> PerSample:
    """Squared distance between the two codes of each row."""
    return (feature - label).square().sum(-1)


def orthogonality_loss(code: Pooled, counted: Float[Tensor, " batch"]) -> PerSample:
    r"""Distance of the code's second moments from the identity, the same for every row that counts.

    Parameters
    ----------
    code : Tensor of shape (batch, dim)
        Codes of a batch.
    counted : Tensor of shape (batch,)
        1 for rows that count, 0 for rows without any observed label.

    Returns
    -------
    Tensor of shape (batch,)
        Its sum over the batch, divided by the rows that count, is the penalty.

    Notes
    -----
    .. math:: \lVert C^\top C / n - I \rVert_F^2

    The mean over the batch, not the sum: otherwise the penalty grows with the batch and forces codes towards 0.
    """
    moments = (code * counted.unsqueeze(-1)).T @ code / counted.sum().clamp(min=1)
    eye = torch.eye(code.shape[1], dtype=code.dtype, device=code.device)
    return (moments - eye).square().sum() * counted


@dataclass(kw_only=True, eq=False, repr=False)
class C2AE(RememberingNetwork):
    """Features and labels are coded into one space; labels are read from the code.

    The two codes of a row are drawn together and each is kept orthonormal over the batch, as in canonical
    correlation analysis. The loss of the labels that are read trains the label encoder and the decoder only: the
    feature encoder learns nothing but to meet the label code.

    Parameters
    ----------
    latent_share : float
        Width of the code per label.
    encoder_widths, label_encoder_widths, decoder_widths : tuple of int
        Hidden widths of the feature encoder, the label encoder and the decoder.
    encoder_dropout : float
        Share of units dropped in the feature encoder while training.
    alignment_weight, orthogonality_weight : float
        Weights of the distance between the codes and of their departure from orthonormality.
    ranking_weight : float
        Weight of the ranking loss of the labels that are read. A single label has no other to be ranked
        with: there the cross entropy takes the place of the ranking.
    bce_weight : float
        Weight of a cross entropy beside the ranking, which is not in the paper: 0 is the paper's loss. The ranking
        alone gives scores that order labels well and are no calibrated probabilities, and learns nothing from rows
        without labels.
    base, latent_neighbours, training, features, validation_fraction, random_state
        As in :class:`~hotvae.baselines.neighbours.RememberingNetwork`.

    Examples
    --------
    >>> import numpy as np
    >>> from hotvae import Training
    >>> from hotvae.baselines.c2ae import C2AE
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> Y = np.column_stack([X[:, 0] > 0, X[:, 0] < 0.5])
    >>> model = C2AE(encoder_widths=(32,), training=Training(max_epochs=30), random_state=0)
    >>> model.fit(X, Y).predict([[0.8]])
    array([[1, 0]])
    """

    title = "C2AE"
    citation: ClassVar[str] = (
        "Yeh, Wu, Ko & Wang (2017). Learning deep latent spaces for multi-label classification. AAAI."
    )
    takes: ClassVar[str] = "tables, dense or sparse; labels may have gaps"
    cost: ClassVar[str] = "seconds to minutes; grows with rows, hardly with labels"
    loss_terms: ClassVar[tuple[str, ...]] = ("alignment", "orthogonality", "ranking", "bce")

    latent_share: float = 0.8
    encoder_widths: tuple[int, ...] = (512, 512)
    label_encoder_widths: tuple[int, ...] = (512,)
    decoder_widths: tuple[int, ...] = (512,)
    encoder_dropout: float = 0.4
    alignment_weight: float = 1.0
    orthogonality_weight: float = 0.1
    ranking_weight: float = 5.0
    bce_weight: float = 5.0

    def _build(self, n_features: int, n_labels: int, graph: Tensor | None, initial_logits: Tensor | None) -> nn.Module:
        config, decoder_widths = self._config(NetConfig), require_widths("decoder_widths", self.decoder_widths)
        dim, has_base = self._latent_width(), self._has_base()
        return C2AENet(n_features, n_labels, dim, config, decoder_widths, initial_logits, has_base)

    def _latent_width(self) -> int:
        share = require_number("latent_share", self.latent_share, above=True)
        return max(1, round(share * int(self.n_labels_)))
