"""MPVAE: disentangled variational autoencoder with a multivariate probit (Bai et al. 2020)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.special import ndtri

from hotvae.baselines.communities import N_LIKELIHOOD_DRAWS, ProbitNetwork, probit_of
from hotvae.baselines.multivariate_probit import ProbitHead
from hotvae.baselines.neighbours import RememberingNetwork
from hotvae.config import NetConfig, require_widths
from hotvae.features import Rows
from hotvae.net.base_logits import BaseScale
from hotvae.net.encoders import MLPEncoder, code_labels
from hotvae.net.latent import Gaussian, aligned_kl, sample
from hotvae.net.losses import ranking_loss
from hotvae.net.perceptron import perceptron, set_bias
from hotvae.types import Features, Labels, Logits, PerSample, Probs

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
    rank : int
        Common causes in the covariance of the labels.
    config : NetConfig
        Width of the latent space, hidden widths of the encoders, and the share of units dropped.
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
        rank: int,
        config: NetConfig,
        decoder_widths: Sequence[int],
        initial_logits: Float[Tensor, " label"] | None = None,
        has_base: bool = False,
    ) -> None:
        super().__init__()
        self.base = BaseScale(n_labels) if has_base else None
        dim, dropout = config.dim, config.encoder_dropout
        self.feature_encoder = MLPEncoder(n_features, config.encoder_widths, dim, dropout)
        self.label_encoder = MLPEncoder(n_features + n_labels, config.label_encoder_widths, dim, dropout)
        self.decoder = perceptron(n_features + dim, decoder_widths, n_labels, dropout)
        self.head = ProbitHead(n_labels, rank)
        if initial_logits is not None:
            set_bias(self.decoder, ndtri((initial_logits * (not has_base)).sigmoid()))

    def decode(self, features: Features, latent: Float[Tensor, "batch 1 dim"]) -> Logits:
        """Probit scores of a latent value and the features it belongs to."""
        answer: Logits = self.decoder(torch.cat([features, latent.squeeze(1)], -1))
        return answer

    def _decoded(self, features: Features, latent: Float[Tensor, "batch 1 dim"], base_logits: Logits | None) -> Logits:
        scores = self.decode(features, latent)
        if self.base is None or base_logits is None:
            return scores
        return self.base.add(scores, base_logits / _LOGITS_PER_SCORE)

    def forward(self, features: Features, labels: Labels, base_logits: Logits | None = None) -> MPVAEOutput:
        """Encode both branches, sample each latent once, decode both."""
        feature = self.feature_encoder(features)
        label = self.label_encoder(torch.cat([features, code_labels(labels)], -1))
        feature_scores, label_scores = (
            self._decoded(features, sample(branch, torch.randn_like(branch.mean)), base_logits)
            for branch in (feature, label)
        )
        return MPVAEOutput(feature, label, feature_scores, label_scores)

    def loss(self, features: Features, labels: Labels, base_logits: Logits | None = None) -> dict[str, PerSample]:
        """Joint likelihood, ranking and divergence of both branches, a number per row each."""
        output = self(features, labels, base_logits)
        scores = (output.feature_scores, output.label_scores)
        any_observed = (~torch.isnan(labels)).any(-1).to(labels.dtype)
        # Both branches share the draws behind the likelihood.
        nll = self.head.nll(torch.cat(scores), labels.repeat(2, 1), N_LIKELIHOOD_DRAWS).unflatten(0, (2, -1)).sum(0)
        return {
            "nll": nll,
            "ranking": ranking_loss(self.head(scores[0]), labels) + ranking_loss(self.head(scores[1]), labels),
            "kl": aligned_kl(output.label, output.feature) * any_observed,
        }

    def scores(self, features: Features, base_logits: Logits | None = None) -> Logits:
        """Probit scores at the latent mean of the feature branch."""
        return self._decoded(features, self.feature_encoder(features).mean, base_logits)

    def predict(self, features: Features, base_logits: Logits | None = None) -> Probs:
        """Marginal probabilities of a batch, in closed form."""
        answer: Probs = self.head(self.scores(features, base_logits))
        return answer


@dataclass(kw_only=True, eq=False, repr=False)
class MPVAE(ProbitNetwork, RememberingNetwork):
    """Features, and features with labels, meet in a latent space; labels follow a multivariate probit.

    Beside probabilities it draws whole communities (:meth:`sample`) and predicts labels given others
    (``predict_proba(X, given=...)``).

    Parameters
    ----------
    dim : int
        Width of the latent space.
    rank : int or None
        Common causes in the covariance of the labels; None takes as many as labels, at most 32.
    encoder_widths, label_encoder_widths, decoder_widths : tuple of int
        Hidden widths of the two encoders and of the decoder.
    encoder_dropout : float
        Share of units dropped while training.
    nll_weight, ranking_weight, kl_weight : float
        Weights of the joint likelihood, of the ranking loss of the marginals and of the divergence between branches.
    covariance_epochs : int
        Epochs in which, after training, the covariance learns on while the marginals stay as they are: the epoch that
        is kept is chosen by marginals, often before the covariance has settled. 0 leaves it as it is.
    base, latent_neighbours, training, features, validation_fraction, random_state
        As in :class:`~hotvae.baselines.neighbours.RememberingNetwork`.

    Examples
    --------
    >>> import numpy as np
    >>> from hotvae import Training
    >>> from hotvae.baselines.mpvae import MPVAE
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> Y = np.column_stack([X[:, 0] > 0, X[:, 0] < 0.5])
    >>> model = MPVAE(encoder_widths=(32,), training=Training(max_epochs=30), random_state=0).fit(X, Y)
    >>> model.predict([[0.8]])
    array([[1, 0]])
    >>> model.sample([[0.8]], n_draws=3, random_state=0).shape
    (3, 1, 2)
    """

    title = "MPVAE"
    citation: ClassVar[str] = (
        "Bai, Kong & Gomes (2020). Disentangled variational autoencoder based multi-label classification with "
        "covariance-aware multivariate probit model. IJCAI."
    )
    takes: ClassVar[str] = "tables, dense or sparse; labels may have gaps"
    cost: ClassVar[str] = "minutes; grows with rows times labels times draws"
    loss_terms: ClassVar[tuple[str, ...]] = ("nll", "ranking", "kl")

    dim: int = NetConfig.dim
    encoder_widths: tuple[int, ...] = NetConfig.encoder_widths
    label_encoder_widths: tuple[int, ...] = (256,)
    decoder_widths: tuple[int, ...] = (256,)
    encoder_dropout: float = NetConfig.encoder_dropout
    nll_weight: float = 1.0
    ranking_weight: float = 1.0
    kl_weight: float = 1.0

    def _build(self, n_features: int, n_labels: int, graph: Tensor | None, initial_logits: Tensor | None) -> nn.Module:
        config, decoder_widths = self._config(NetConfig), require_widths("decoder_widths", self.decoder_widths)
        rank, has_base = self._rank(n_labels), self._has_base()
        return MPVAENet(n_features, n_labels, rank, config, decoder_widths, initial_logits, has_base)

    def _scores(self, rows: Rows) -> NDArray[Any]:
        return super()._scores(rows) if self.neighbours_ is None else probit_of(self._probs(rows))
