"""MPVAE: two encoders, one decoder of probit scores, a multivariate probit on top (Bai et al. 2020)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.special import ndtri

from hotvae.net.base_logits import apart, make_start
from hotvae.net.encoders import MLPEncoder, code_labels
from hotvae.net.latent import Gaussian, sample
from hotvae.net.perceptron import perceptron
from hotvae.net.probit import ProbitHead, set_bias
from hotvae.types import Features, Labels, Logits, Probs

# The logistic curve is nearly a normal distribution function whose scores are this much smaller.
_LOGITS_PER_SCORE = 1.702


@dataclass(frozen=True)
class MPVAEOutput:
    """Both branches of one pass in training: their Gaussians and the probit scores decoded from a sample of each."""

    feature: Gaussian
    label: Gaussian
    feature_scores: Logits
    label_scores: Logits


class MPVAENet(nn.Module):
    """Features, and features with labels, each become a Gaussian; a shared decoder reads a sample and the features.

    Parameters
    ----------
    n_features, n_labels : int
        Columns of the two tables.
    dim : int
        Width of the latent space.
    rank : int
        Common causes in the covariance of the labels.
    encoder_widths, label_encoder_widths, decoder_widths : sequence of int
        Hidden widths.
    dropout : float
        Share of units dropped after each hidden layer.
    initial_logits : Tensor of shape (label,), optional
        Logits of the prevalences.
    starts : bool
        Whether the last columns of a row are logits to start from (:mod:`hotvae.net.base_logits`).

    Examples
    --------
    >>> import torch
    >>> MPVAENet(4, 3, 8, 2, (16,), (16,), (16,)).predict(torch.zeros(5, 4)).shape
    torch.Size([5, 3])
    """

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        dim: int,
        rank: int,
        encoder_widths: Sequence[int],
        label_encoder_widths: Sequence[int],
        decoder_widths: Sequence[int],
        dropout: float = 0.0,
        initial_logits: Float[Tensor, " label"] | None = None,
        starts: bool = False,
    ) -> None:
        super().__init__()
        self.start = make_start(n_labels, starts)
        self.feature_encoder = MLPEncoder(n_features, encoder_widths, dim, dropout)
        self.label_encoder = MLPEncoder(n_features + n_labels, label_encoder_widths, dim, dropout)
        self.decoder = perceptron(n_features + dim, decoder_widths, n_labels, dropout)
        self.head = ProbitHead(n_labels, rank)
        if initial_logits is not None:
            set_bias(self.decoder, ndtri((initial_logits * (not starts)).sigmoid()))

    def decode(self, features: Features, latent: Float[Tensor, "batch 1 dim"]) -> Logits:
        """Probit scores of a latent value and the features it belongs to."""
        answer: Logits = self.decoder(torch.cat([features, latent.squeeze(1)], -1))
        return answer

    def forward(self, features: Features, labels: Labels) -> MPVAEOutput:
        """Encode both branches, sample each latent once, decode both."""
        rows, start = apart(self.start, features)
        feature = self.feature_encoder(rows)
        label = self.label_encoder(torch.cat([rows, code_labels(labels)], -1))
        feature_scores, label_scores = (
            self.decode(rows, sample(branch, torch.randn_like(branch.mean))) + start / _LOGITS_PER_SCORE
            for branch in (feature, label)
        )
        return MPVAEOutput(feature, label, feature_scores, label_scores)

    def scores(self, features: Features) -> Logits:
        """Probit scores at the latent mean of the feature branch."""
        rows, start = apart(self.start, features)
        return self.decode(rows, self.feature_encoder(rows).mean) + start / _LOGITS_PER_SCORE

    def predict(self, features: Features) -> Probs:
        """Marginal probabilities of a batch, in closed form."""
        answer: Probs = self.head(self.scores(features))
        return answer
