"""The multivariate probit as a joint species distribution model, and what it shares with MPVAE."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, cast

import numpy as np
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
    require_choice,
    require_count,
)
from hotvae.estimators.communities import CONDITIONAL_ROWS, JointClassifier, probit_of
from hotvae.net.perceptron import perceptron
from hotvae.net.probit import CovarianceNet, ProbitNet
from hotvae.training.loop import Terms, predict_network, torch_threads
from hotvae.training.progress import Style


class ProbitClassifier(JointClassifier):
    """A classifier that is nothing but a multivariate probit: known labels tell of others by their common causes.

    Its network has ``scores(features)`` and a :class:`~hotvae.net.probit.ProbitHead` named ``head``.
    """

    conditional: bool = True

    def _probs_given(self, features: Any, known: NDArray[np.float32]) -> NDArray[np.floating[Any]]:
        network = CovarianceNet(self._head, self._conditional_noise())
        scores = self._scores(features)
        table = np.hstack([scores, known.astype(scores.dtype)])
        with torch_threads(self.n_threads):
            return predict_network(network.predict, table, batch_size=CONDITIONAL_ROWS)

    def _scores(self, features: Any) -> NDArray[Any]:
        if self.memory_ is not None:
            return probit_of(self._probs(features))
        with torch_threads(self.n_threads):
            return predict_network(cast(ProbitNet, self.network_).scores, features)


class ProbitJSDM(ProbitClassifier):
    """Joint species distribution model: a mean for each species from the features, a covariance between species.

    The model of sjSDM: a multivariate probit fitted by Monte Carlo. It predicts species alone, species given others
    (``predict_proba(X, given=...)``) and draws whole communities (:meth:`sample`).

    Parameters
    ----------
    mean : {"linear", "mlp"}
        How features act on the scores of species: linearly, or through a perceptron.
    rank : int or None
        Common causes in the covariance; None takes as many as labels, at most 32.
    encoder_widths, encoder_dropout
        Hidden widths of the perceptron and the share of units it drops while training.
    n_likelihood_draws : int
        Draws that estimate the joint likelihood, shared by the rows of a batch.
    covariance_epochs : int
        Epochs in which, after training, the covariance learns on while the marginals stay as they are: the epoch that
        is kept is chosen by marginals, often before the covariance has settled. 0 leaves it as it is.
    n_conditional_draws : int
        Draws behind a prediction given other labels, shared by all rows.
    scaling, clamp, spatial_units, spatial_columns, landmarks
        As in :class:`~hotvae.HotVAEClassifier`.
    max_epochs, batch_size, learning_rate, weight_decay, optimizer, schedule, warmup_epochs, clip_norm, average_decay
        As in :class:`~hotvae.HotVAEClassifier`.
    selection_metric, patience, validation_fraction, precision, random_state, device, n_threads, progress, state_file
        As in :class:`~hotvae.HotVAEClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from hotvae.baselines.probit import ProbitJSDM
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> Y = np.column_stack([X[:, 0] > 0, X[:, 0] < 0.5])
    >>> model = ProbitJSDM(learning_rate=0.05, random_state=0).fit(X, Y)
    >>> model.predict([[-0.8]])
    array([[0, 1]])
    >>> model.predict_proba([[-0.8]], given=[[1, np.nan]])[0, 0].item()
    1.0
    """

    title = "probit JSDM"
    citation: ClassVar[str] = (
        "Pichler & Hartig (2021). A new joint species distribution model for faster and more accurate inference of "
        "species associations from big community data. Methods in Ecology and Evolution."
    )
    takes: ClassVar[str] = "tables, dense or sparse; labels may have gaps"
    cost: ClassVar[str] = "seconds to minutes; grows with rows times labels times draws"

    def __init__(
        self,
        *,
        mean: Literal["linear", "mlp"] = "linear",
        rank: int | None = None,
        encoder_widths: tuple[int, ...] = (128, 128),
        encoder_dropout: float = 0.2,
        n_likelihood_draws: int = 100,
        covariance_epochs: int = 30,
        n_conditional_draws: int = 1024,
        scaling: Scaling = FrontConfig.scaling,
        clamp: bool = FrontConfig.clamp,
        spatial_units: int = FrontConfig.spatial_units,
        spatial_columns: tuple[str | int, ...] = FrontConfig.spatial_columns,
        landmarks: int = FrontConfig.landmarks,
        max_epochs: int = TrainConfig.max_epochs,
        batch_size: int = TrainConfig.batch_size,
        learning_rate: float = 0.01,
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
        self.mean = mean
        self.rank = rank
        self.encoder_widths = encoder_widths
        self.encoder_dropout = encoder_dropout
        self.n_likelihood_draws = n_likelihood_draws
        self.covariance_epochs = covariance_epochs
        self.n_conditional_draws = n_conditional_draws
        self.scaling = scaling
        self.clamp = clamp
        self.spatial_units = spatial_units
        self.spatial_columns = spatial_columns
        self.landmarks = landmarks
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
        linear = require_choice("mean", self.mean, ("linear", "mlp")) == "linear"
        widths = () if linear else config.encoder_widths
        scores = perceptron(n_features, widths, n_labels, config.encoder_dropout)
        return ProbitNet(scores, n_labels, self._rank(n_labels), initial_logits)

    def _objective(self, network: nn.Module) -> tuple[Terms, Mapping[str, float]]:
        n_draws = require_count("n_likelihood_draws", self.n_likelihood_draws)
        head = cast(ProbitNet, network).head
        return lambda features, labels: {"nll": head.nll(network(features), labels, n_draws)}, {"nll": 1.0}

    def transform(self, X: Any) -> NDArray[np.floating[Any]]:
        """Scores of the labels: what the features alone say, on the probit scale.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
            Features, columns as in training.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
        """
        check_is_fitted(self)
        return self._scores(self._read(X))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns of :meth:`transform`."""
        check_is_fitted(self)
        return np.array([f"latent_{name}" for name in self.label_names_], dtype=object)
