"""LaMP: label message passing (Lanchantin et al. 2019)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
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
    require_choice,
    require_count,
    require_number,
)
from hotvae.estimators.network import NetworkClassifier
from hotvae.graph import check_graph, cooccurrence_graph
from hotvae.net.lamp import ColumnEncoder, LaMPNet, PartEncoder
from hotvae.net.losses import bce_loss, intermediate_loss
from hotvae.training.loop import Terms
from hotvae.training.progress import Style

# The second names are those of the paper's own settings.
_GRAPHS = {"complete": "complete", "none": "complete", "cooccurrence": "cooccurrence", "prior": "cooccurrence"}


class LaMP(NetworkClassifier):
    """Parts of a row pass messages to each other and to the labels, labels to each other.

    What HOT-VAE's decoder is without the variational autoencoder around it.

    Parameters
    ----------
    dim, n_layers, n_heads, feedforward_dim : int
        Width, rounds of messages to the labels, attention heads and width of the feed-forward blocks.
    encoder : "parts", "columns", "mlp", "set", "text", "bag", "smiles", "elements" or nn.Module
        What the nodes of a row are. ``"parts"``: a perceptron reads the columns into a few nodes, for tables of
        numbers; ``"columns"``: every column that is not 0 is a node with its value, for sparse tables and few columns.
        Nodes pass messages in both. The others as in :class:`~hotvae.HotVAEClassifier`.
    n_parts : int
        Nodes of ``encoder="parts"``.
    encoder_layers : int
        Rounds of messages among the nodes of a row.
    encoder_widths, encoder_dropout
        As in :class:`~hotvae.HotVAEClassifier`.
    decoder_dropout, attention_dropout : float
        Shares dropped after each block and among attention weights.
    norm : {"post", "pre"}
        Where layer norm stands.
    graph : "complete", "cooccurrence", "edgeless" or array of bool of shape (n_labels, n_labels)
        Which labels may talk to each other: all; those that occur together in training rows; none. The paper calls the
        first two ``"none"`` (no mask) and ``"prior"``, which are understood, too.
    min_count : int
        Rows in which two labels must occur together to keep their edge.
    bce_weight, intermediate_weight : float
        Weights of the cross entropy after the last layer and after each layer before it.
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
    >>> from hotvae.baselines.lamp import LaMP
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> Y = np.column_stack([X[:, 0] > 0, X[:, 0] < 0.5])
    >>> LaMP(max_epochs=30, random_state=0).fit(X, Y).predict([[0.8]])
    array([[1, 0]])
    """

    title = "LaMP"
    citation: ClassVar[str] = (
        "Lanchantin, Sekhon & Qi (2019). Neural message passing for multi-label classification. ECML PKDD."
    )
    takes: ClassVar[str] = "tables, sparse 0/1 tables, texts, molecules, your own; labels may have gaps"
    cost: ClassVar[str] = "minutes; grows with labels squared, and with columns squared where each is a node"

    def __init__(
        self,
        *,
        dim: int = NetConfig.dim,
        n_layers: int = NetConfig.n_layers,
        n_heads: int = 2,
        feedforward_dim: int = NetConfig.feedforward_dim,
        encoder: str | nn.Module = "parts",
        n_parts: int = 8,
        encoder_layers: int = 1,
        encoder_widths: tuple[int, ...] = NetConfig.encoder_widths,
        encoder_dropout: float = NetConfig.encoder_dropout,
        decoder_dropout: float = 0.2,
        attention_dropout: float = NetConfig.attention_dropout,
        norm: Norm = NetConfig.norm,
        graph: Literal["complete", "cooccurrence", "edgeless", "none", "prior"] | NDArray[np.bool_] = "complete",
        min_count: int = 1,
        bce_weight: float = 1.0,
        intermediate_weight: float = 0.2,
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
        self.n_layers = n_layers
        self.n_heads = n_heads
        self.feedforward_dim = feedforward_dim
        self.encoder = encoder
        self.n_parts = n_parts
        self.encoder_layers = encoder_layers
        self.encoder_widths = encoder_widths
        self.encoder_dropout = encoder_dropout
        self.decoder_dropout = decoder_dropout
        self.attention_dropout = attention_dropout
        self.norm = norm
        self.graph = graph
        self.min_count = min_count
        self.bce_weight = bce_weight
        self.intermediate_weight = intermediate_weight
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

    def _label_graph(self, labels: NDArray[Any]) -> NDArray[np.bool_] | None:
        if not isinstance(self.graph, str):
            return check_graph(np.asarray(self.graph), self.n_labels_)
        kind = require_choice("graph", self.graph, ("complete", "cooccurrence", "edgeless", "none", "prior"))
        if kind == "edgeless":
            return np.eye(self.n_labels_, dtype=np.bool_)  # a label still hears itself (paper note P13)
        if _GRAPHS[kind] == "complete":
            return None
        return cooccurrence_graph(labels, min_count=self.min_count)

    def _build(self, n_features: int, n_labels: int, graph: Tensor | None, initial_logits: Tensor | None) -> nn.Module:
        # The linear read-out of the features beside the messages is HOT-VAE's addition.
        config = replace(self._config(NetConfig), direct_path=False)
        if self._kind() == "parts":
            encoder: nn.Module = PartEncoder(n_features, require_count("n_parts", self.n_parts), config)
        elif self._kind() == "columns":
            encoder = ColumnEncoder(n_features, config)
        else:
            encoder = self._feature_encoder(n_features)
        return LaMPNet(encoder, n_labels, config, graph, initial_logits, self.ridge_start)

    def _objective(self, network: nn.Module) -> tuple[Terms, Mapping[str, float]]:
        names = ("bce", "intermediate")
        weights = {name: require_number(f"{name}_weight", getattr(self, f"{name}_weight")) for name in names}

        def terms(features: Tensor, labels: Tensor) -> Mapping[str, Tensor]:
            logits = network(features)
            return {"bce": bce_loss(logits[-1], labels), "intermediate": intermediate_loss(logits, labels)}

        return terms, weights
