"""C2AE: a canonical-correlation autoencoder of features and labels (Yeh et al. 2017)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from hotvae.config import (
    FrontConfig,
    NetConfig,
    Optimizer,
    Precision,
    Scaling,
    Schedule,
    TrainConfig,
    require_number,
    require_widths,
)
from hotvae.estimators.network import NetworkClassifier
from hotvae.net.c2ae import C2AENet, alignment_loss, orthogonality_loss
from hotvae.net.losses import bce_loss, ranking_loss
from hotvae.training.loop import Terms
from hotvae.training.progress import Style


class C2AE(NetworkClassifier):
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
    ranking_weight, ranking_scale : float
        Weight and steepness of the ranking loss of the labels that are read. A single label has no other to be ranked
        with: there the cross entropy takes the place of the ranking.
    bce_weight : float
        Weight of a cross entropy beside the ranking, which is not in the paper: 0 is the paper's loss. The ranking
        alone gives scores that order labels well and are no calibrated probabilities, and learns nothing from rows
        without labels.
    scaling, clamp, spatial_units, spatial_columns, landmarks, latent_neighbours, ridge_start
        As in :class:`~hotvae.HotVAEClassifier`.
    max_epochs, batch_size, learning_rate, weight_decay, optimizer, schedule, warmup_epochs, clip_norm, average_decay
        As in :class:`~hotvae.HotVAEClassifier`.
    selection_metric, patience, validation_fraction, precision, random_state, device, n_threads, progress, state_file
        As in :class:`~hotvae.HotVAEClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from hotvae.baselines.c2ae import C2AE
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> Y = np.column_stack([X[:, 0] > 0, X[:, 0] < 0.5])
    >>> C2AE(max_epochs=30, encoder_widths=(32,), random_state=0).fit(X, Y).predict([[0.8]])
    array([[1, 0]])
    """

    title = "C2AE"
    citation: ClassVar[str] = (
        "Yeh, Wu, Ko & Wang (2017). Learning deep latent spaces for multi-label classification. AAAI."
    )
    takes: ClassVar[str] = "tables, dense or sparse; labels may have gaps"
    cost: ClassVar[str] = "seconds to minutes; grows with rows, hardly with labels"

    def __init__(
        self,
        *,
        latent_share: float = 0.8,
        encoder_widths: tuple[int, ...] = (512, 512),
        label_encoder_widths: tuple[int, ...] = (512,),
        decoder_widths: tuple[int, ...] = (512,),
        encoder_dropout: float = 0.4,
        alignment_weight: float = 1.0,
        orthogonality_weight: float = 0.1,
        ranking_weight: float = 5.0,
        ranking_scale: float = 5.0,
        bce_weight: float = 5.0,
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
        self.latent_share = latent_share
        self.encoder_widths = encoder_widths
        self.label_encoder_widths = label_encoder_widths
        self.decoder_widths = decoder_widths
        self.encoder_dropout = encoder_dropout
        self.alignment_weight = alignment_weight
        self.orthogonality_weight = orthogonality_weight
        self.ranking_weight = ranking_weight
        self.ranking_scale = ranking_scale
        self.bce_weight = bce_weight
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
        share = require_number("latent_share", self.latent_share, above=True)
        return C2AENet(
            n_features,
            n_labels,
            max(1, round(share * n_labels)),
            config.encoder_widths,
            config.label_encoder_widths,
            require_widths("decoder_widths", self.decoder_widths),
            config.encoder_dropout,
            initial_logits,
            self.ridge_start,
        )

    def _objective(self, network: nn.Module) -> tuple[Terms, Mapping[str, float]]:
        names = ("alignment", "orthogonality", "ranking", "bce")
        weights = {name: require_number(f"{name}_weight", getattr(self, f"{name}_weight")) for name in names}
        scale = require_number("ranking_scale", self.ranking_scale, above=True)

        def terms(features: Tensor, labels: Tensor) -> Mapping[str, Tensor]:
            output = network(features, labels)
            counted = (~torch.isnan(labels)).any(-1).to(labels.dtype)
            both = [orthogonality_loss(code, counted) for code in (output.feature, output.label)]
            cross_entropy = bce_loss(output.logits, labels)
            ranking = ranking_loss(output.logits.sigmoid(), labels, scale)
            return {
                "alignment": alignment_loss(output.feature, output.label) * counted,
                "orthogonality": both[0] + both[1],
                "ranking": ranking if labels.shape[1] > 1 else cross_entropy,
                "bce": cross_entropy,
            }

        return terms, weights

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns of :meth:`transform`."""
        check_is_fitted(self)
        return np.array([f"latent_{i}" for i in range(cast(C2AENet, self.network_).dim)], dtype=object)
