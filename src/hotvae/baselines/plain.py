"""The same encoder without the label decoder: the row every table needs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import cast

import numpy as np
from torch import Tensor, nn

from hotvae.config import (
    FrontConfig,
    NetConfig,
    Norm,
    Optimizer,
    Precision,
    Scaling,
    Schedule,
    TrainConfig,
)
from hotvae.estimators.network import NetworkClassifier
from hotvae.net.encoders import member_mean
from hotvae.net.losses import bce_loss
from hotvae.net.model import PlainNet
from hotvae.training.loop import (
    Terms,
)
from hotvae.training.progress import Style


class PlainNetClassifier(NetworkClassifier):
    """The same feature encoder with a plain read-out: no label branch, no messages between labels.

    Stands beside :class:`HotVAEClassifier` in every comparison, so that the decoder has to earn its cost.

    Parameters
    ----------
    dim, latent_dim : int
        Width between encoder and read-out: ``latent_dim``, or ``dim`` where that is 0.
    encoder, encoder_widths, encoder_dropout, encoder_layers
        As in :class:`HotVAEClassifier`.
    n_heads, feedforward_dim, norm
        Of the messages among tokens, where the encoder has any.
    numeric_embedding_dim, numeric_frequencies, frequency_scale, n_members
        As in :class:`HotVAEClassifier`.
    scaling, clamp, spatial_units, spatial_columns, landmarks, latent_neighbours, ridge_start
        As in :class:`HotVAEClassifier`.
    max_tokens, min_word_count, max_words, bonds
        As in :class:`HotVAEClassifier`.
    max_epochs, batch_size, learning_rate, weight_decay, optimizer, schedule, warmup_epochs, clip_norm, average_decay
        As in :class:`HotVAEClassifier`.
    selection_metric, patience, validation_fraction, precision, random_state, device, n_threads, progress, state_file
        As in :class:`HotVAEClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from hotvae import PlainNetClassifier
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> Y = np.column_stack([X[:, 0] > 0, X[:, 0] < 0.5])
    >>> PlainNetClassifier(max_epochs=30, encoder_widths=(32,), random_state=0).fit(X, Y).predict([[0.8]])
    array([[1, 0]])
    """

    title = "plain network"
    takes = "tables, sparse 0/1 tables, texts, molecules, your own; labels may have gaps"
    cost = "seconds; a tenth of HOT-VAE"
    citation = "HOT-VAE's feature encoder with a linear read-out: the row that shows what the decoder adds"

    def __init__(
        self,
        *,
        dim: int = NetConfig.dim,
        latent_dim: int = NetConfig.latent_dim,
        encoder: str | nn.Module = "mlp",
        encoder_widths: tuple[int, ...] = NetConfig.encoder_widths,
        encoder_dropout: float = NetConfig.encoder_dropout,
        encoder_layers: int = NetConfig.encoder_layers,
        n_heads: int = NetConfig.n_heads,
        feedforward_dim: int = NetConfig.feedforward_dim,
        norm: Norm = NetConfig.norm,
        numeric_embedding_dim: int = NetConfig.numeric_embedding_dim,
        numeric_frequencies: int = NetConfig.numeric_frequencies,
        frequency_scale: float = NetConfig.frequency_scale,
        n_members: int = NetConfig.n_members,
        scaling: Scaling = FrontConfig.scaling,
        clamp: bool = FrontConfig.clamp,
        spatial_units: int = FrontConfig.spatial_units,
        spatial_columns: tuple[str | int, ...] = FrontConfig.spatial_columns,
        landmarks: int = FrontConfig.landmarks,
        max_tokens: int = FrontConfig.max_tokens,
        min_word_count: int = FrontConfig.min_word_count,
        max_words: int = FrontConfig.max_words,
        bonds: bool = FrontConfig.bonds,
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
        self.latent_dim = latent_dim
        self.encoder = encoder
        self.encoder_widths = encoder_widths
        self.encoder_dropout = encoder_dropout
        self.encoder_layers = encoder_layers
        self.n_heads = n_heads
        self.feedforward_dim = feedforward_dim
        self.norm = norm
        self.numeric_embedding_dim = numeric_embedding_dim
        self.numeric_frequencies = numeric_frequencies
        self.frequency_scale = frequency_scale
        self.n_members = n_members
        self.scaling = scaling
        self.clamp = clamp
        self.spatial_units = spatial_units
        self.spatial_columns = spatial_columns
        self.landmarks = landmarks
        self.max_tokens = max_tokens
        self.min_word_count = min_word_count
        self.max_words = max_words
        self.bonds = bonds
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
        encoder = self._feature_encoder(n_features)
        return PlainNet(n_features, n_labels, self._config(NetConfig), encoder, initial_logits, self.ridge_start)

    def _objective(self, network: nn.Module) -> tuple[Terms, Mapping[str, float]]:
        n_members = cast(PlainNet, network).n_members

        def terms(features: Tensor, labels: Tensor) -> Mapping[str, Tensor]:
            each = bce_loss(network(features), labels.repeat_interleave(n_members, dim=0))
            return {"bce": member_mean(each, n_members)}

        return terms, {"bce": 1.0}
