"""Label sets written as sequences by a recurrent decoder (Nam et al. 2017)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from torch import Tensor, nn

from hotvae.config import FrontConfig, NetConfig, Optimizer, Precision, Scaling, Schedule, TrainConfig, require_count
from hotvae.estimators.network import NetworkClassifier
from hotvae.net.seq2seq import Seq2SeqNet
from hotvae.training.loop import Terms
from hotvae.training.progress import Style


class Seq2Seq(NetworkClassifier):
    """A recurrent decoder writes the labels of a row one after the other, frequent ones first.

    It is trained on the true beginnings of the sequences (teacher forcing). For a prediction, beam search finds the
    most probable label sets of a row; a label's probability is the weight of the sets that hold it, and its prevalence
    in the share of the whole that the search did not see.

    Parameters
    ----------
    dim : int
        Width of the encoder's tokens and of label embeddings.
    decoder_dim : int
        Width of the recurrent state.
    beam_width : int
        Label sets followed at the same time; 1 writes greedily.
    encoder, encoder_widths, encoder_dropout, encoder_layers
        As in :class:`~hotvae.HotVAEClassifier`.
    decoder_dropout : float
        Share of units dropped before the read-out while training.
    scaling, clamp, spatial_units, spatial_columns, landmarks, latent_neighbours, ridge_start
        As in :class:`~hotvae.HotVAEClassifier`.
    max_tokens, min_word_count, max_words, bonds
        As in :class:`~hotvae.HotVAEClassifier`.
    max_epochs, batch_size, learning_rate, weight_decay, optimizer, schedule, warmup_epochs, clip_norm, average_decay
        As in :class:`~hotvae.HotVAEClassifier`.
    selection_metric, patience, validation_fraction, precision, random_state, device, n_threads, progress, state_file
        As in :class:`~hotvae.HotVAEClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from hotvae.baselines.seq2seq import Seq2Seq
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> Y = np.column_stack([X[:, 0] > 0, X[:, 0] < 0.5])
    >>> Seq2Seq(max_epochs=30, encoder_widths=(32,), random_state=0).fit(X, Y).predict([[0.8]])
    array([[1, 0]])
    """

    title = "seq2seq"
    citation: ClassVar[str] = (
        "Nam, Loza Mencía, Kim & Fürnkranz (2017). Maximizing subset accuracy with recurrent neural networks in "
        "multi-label classification. NeurIPS."
    )
    takes: ClassVar[str] = "tables, sparse 0/1 tables, texts, molecules, your own; every label observed"
    cost: ClassVar[str] = "minutes; grows with the labels of a row, prediction also with the beam"
    accepts_missing_labels: ClassVar[bool] = False

    def __init__(
        self,
        *,
        dim: int = 128,
        decoder_dim: int = 128,
        beam_width: int = 16,
        encoder: str | nn.Module = "mlp",
        encoder_widths: tuple[int, ...] = NetConfig.encoder_widths,
        encoder_dropout: float = NetConfig.encoder_dropout,
        encoder_layers: int = NetConfig.encoder_layers,
        decoder_dropout: float = 0.3,
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
        self.decoder_dim = decoder_dim
        self.beam_width = beam_width
        self.encoder = encoder
        self.encoder_widths = encoder_widths
        self.encoder_dropout = encoder_dropout
        self.encoder_layers = encoder_layers
        self.decoder_dropout = decoder_dropout
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
        config = self._config(NetConfig)
        return Seq2SeqNet(
            self._feature_encoder(n_features),
            n_labels,
            config.dim,
            require_count("decoder_dim", self.decoder_dim),
            require_count("beam_width", self.beam_width),
            config.decoder_dropout,
            initial_logits,
            self.ridge_start,
        )

    def _objective(self, network: nn.Module) -> tuple[Terms, Mapping[str, float]]:
        return lambda features, labels: {"sequence": network(features, labels)}, {"sequence": 1.0}
