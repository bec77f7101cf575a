"""MPVAE: disentangled variational autoencoder with a multivariate probit (Bai et al. 2020)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from hotvae.baselines.probit import ProbitClassifier
from hotvae.config import (
    FrontConfig,
    NetConfig,
    Optimizer,
    Precision,
    Scaling,
    Schedule,
    TrainConfig,
    require_count,
    require_number,
    require_widths,
)
from hotvae.net.latent import aligned_kl
from hotvae.net.losses import ranking_loss
from hotvae.net.mpvae import MPVAENet
from hotvae.training.loop import Terms
from hotvae.training.progress import Style


class MPVAE(ProbitClassifier):
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
    ranking_scale : float
        Steepness of the ranking loss.
    n_likelihood_draws : int
        Draws that estimate the joint likelihood, shared by the rows of a batch.
    covariance_epochs : int
        Epochs in which, after training, the covariance learns on while the marginals stay as they are: the epoch that
        is kept is chosen by marginals, often before the covariance has settled. 0 leaves it as it is.
    n_conditional_draws : int
        Draws behind a prediction given other labels, shared by all rows.
    scaling, clamp, spatial_units, spatial_columns, landmarks, latent_neighbours, ridge_start
        As in :class:`~hotvae.HotVAEClassifier`.
    max_epochs, batch_size, learning_rate, weight_decay, optimizer, schedule, warmup_epochs, clip_norm, average_decay
        As in :class:`~hotvae.HotVAEClassifier`.
    selection_metric, patience, validation_fraction, precision, random_state, device, n_threads, progress, state_file
        As in :class:`~hotvae.HotVAEClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from hotvae.baselines.mpvae import MPVAE
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> Y = np.column_stack([X[:, 0] > 0, X[:, 0] < 0.5])
    >>> model = MPVAE(max_epochs=30, encoder_widths=(32,), random_state=0).fit(X, Y)
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

    def __init__(
        self,
        *,
        dim: int = NetConfig.dim,
        rank: int | None = None,
        encoder_widths: tuple[int, ...] = NetConfig.encoder_widths,
        label_encoder_widths: tuple[int, ...] = (256,),
        decoder_widths: tuple[int, ...] = (256,),
        encoder_dropout: float = NetConfig.encoder_dropout,
        nll_weight: float = 1.0,
        ranking_weight: float = 1.0,
        kl_weight: float = 1.0,
        ranking_scale: float = 5.0,
        n_likelihood_draws: int = 100,
        covariance_epochs: int = 30,
        n_conditional_draws: int = 1024,
        scaling: Scaling = FrontConfig.scaling,
        clamp: bool = FrontConfig.clamp,
        spatial_units: int = FrontConfig.spatial_units,
        spatial_columns: tuple[str | int, ...] = FrontConfig.spatial_columns,
        landmarks: int = FrontConfig.landmarks,
        latent_neighbours: int = 0,
        ridge_start: bool = FrontConfig.ridge_start,
        max_epochs: int = TrainConfig.max_epochs,
        batch_size: int = TrainConfig.batch_size,
        learning_rate: float = TrainConfig.learning_rate,
        weight_decay: float = TrainConfig.weight_decay,
        optimizer: Optimizer = TrainConfig.optimizer,
        schedule: Schedule = TrainConfig.schedule,
        warmup_epochs: float = TrainConfig.warmup_epochs,
        clip_norm: float = TrainConfig.clip_norm,
        average_decay: float = TrainConfig.average_decay,
        selection_metric: str = TrainConfig.selection_metric,
        patience: int = TrainConfig.patience,
        validation_fraction: float = 0.2,
        precision: Precision = TrainConfig.precision,
        random_state: int | np.random.RandomState | None = None,
        device: str = "auto",
        n_threads: int | None = 1,
        progress: Style = "silent",
        state_file: str | os.PathLike[str] | None = None,
    ) -> None:
        self.dim = dim
        self.rank = rank
        self.encoder_widths = encoder_widths
        self.label_encoder_widths = label_encoder_widths
        self.decoder_widths = decoder_widths
        self.encoder_dropout = encoder_dropout
        self.nll_weight = nll_weight
        self.ranking_weight = ranking_weight
        self.kl_weight = kl_weight
        self.ranking_scale = ranking_scale
        self.n_likelihood_draws = n_likelihood_draws
        self.covariance_epochs = covariance_epochs
        self.n_conditional_draws = n_conditional_draws
        self.scaling = scaling
        self.clamp = clamp
        self.spatial_units = spatial_units
        self.spatial_columns = spatial_columns
        self.landmarks = landmarks
        self.latent_neighbours = latent_neighbours
        self.ridge_start = ridge_start
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.optimizer = optimizer
        self.schedule = schedule
        self.warmup_epochs = warmup_epochs
        self.clip_norm = clip_norm
        self.average_decay = average_decay
        self.selection_metric = selection_metric
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.precision = precision
        self.random_state = random_state
        self.device = device
        self.n_threads = n_threads
        self.progress = progress
        self.state_file = state_file

    def _build(self, n_features: int, n_labels: int, graph: Tensor | None, initial_logits: Tensor | None) -> nn.Module:
        config = self._config(NetConfig)
        return MPVAENet(
            n_features,
            n_labels,
            config.dim,
            self._rank(n_labels),
            config.encoder_widths,
            config.label_encoder_widths,
            require_widths("decoder_widths", self.decoder_widths),
            config.encoder_dropout,
            initial_logits,
            self.ridge_start,
        )

    def _objective(self, network: nn.Module) -> tuple[Terms, Mapping[str, float]]:
        names = ("nll", "ranking", "kl")
        weights = {name: require_number(f"{name}_weight", getattr(self, f"{name}_weight")) for name in names}
        scale = require_number("ranking_scale", self.ranking_scale, above=True)
        n_draws = require_count("n_likelihood_draws", self.n_likelihood_draws)
        head = cast(MPVAENet, network).head

        def terms(features: Tensor, labels: Tensor) -> Mapping[str, Tensor]:
            output = network(features, labels)
            scores = (output.feature_scores, output.label_scores)
            any_observed = (~torch.isnan(labels)).any(-1).to(labels.dtype)
            return {
                "nll": head.nll(torch.cat(scores), labels.repeat(2, 1), n_draws).unflatten(0, (2, -1)).sum(0),
                "ranking": ranking_loss(head(scores[0]), labels, scale) + ranking_loss(head(scores[1]), labels, scale),
                "kl": aligned_kl(output.label, output.feature) * any_observed,
            }

        return terms, weights
