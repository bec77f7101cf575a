"""The same encoder without the label decoder: the row every table needs."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
from torch import Tensor, nn

from hotvae.config import (
    NetConfig,
    Optimizer,
    Precision,
    Schedule,
    TrainConfig,
)
from hotvae.net.losses import bce_loss
from hotvae.net.model import PlainNet
from hotvae.network_classifier import NetworkClassifier, own_encoder
from hotvae.progress import Style
from hotvae.training import (
    Terms,
)


class PlainNetClassifier(NetworkClassifier):
    """The same feature encoder with a plain read-out: no label branch, no messages between labels.

    Stands beside :class:`HotVAEClassifier` in every comparison, so that the decoder has to earn its cost.

    Parameters
    ----------
    dim : int
        Width between encoder and read-out.
    encoder, encoder_widths, encoder_dropout
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

    def __init__(
        self,
        *,
        dim: int = NetConfig.dim,
        encoder: str | nn.Module = "mlp",
        encoder_widths: tuple[int, ...] = NetConfig.encoder_widths,
        encoder_dropout: float = NetConfig.encoder_dropout,
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
        n_threads: int | None = None,
        progress: Style = "silent",
        state_file: str | os.PathLike[str] | None = None,
    ) -> None:
        self.dim = dim
        self.encoder = encoder
        self.encoder_widths = encoder_widths
        self.encoder_dropout = encoder_dropout
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
        return PlainNet(n_features, n_labels, self._config(NetConfig), own_encoder(self.encoder), initial_logits)

    def _objective(self, network: nn.Module) -> tuple[Terms, Mapping[str, float]]:
        return lambda features, labels: {"bce": bce_loss(network(features), labels)}, {"bce": 1.0}
