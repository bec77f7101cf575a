"""The multivariate probit as a joint species distribution model, and what it shares with MPVAE."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, check_random_state
from torch import Tensor, nn

from hotvae.baselines.parameters import require_choice, require_count
from hotvae.classifier import LabelledRows
from hotvae.config import FrontConfig, NetConfig, Optimizer, Precision, Scaling, Schedule, TrainConfig
from hotvae.errors import ConfigError, DataError
from hotvae.net.perceptron import perceptron
from hotvae.net.probit import CovarianceNet, ProbitHead, ProbitNet, even_noise
from hotvae.network_classifier import NetworkClassifier
from hotvae.progress import Style, make_progress
from hotvae.training import Rows, Terms, choose_device, fit_network, predict_network, torch_threads

# Rows for which the latent draws are held at once.
_CONDITIONAL_ROWS = 32

# A few hundred numbers under fixed marginals: they bear larger steps than a network, and settle soon.
_COVARIANCE_LEARNING_RATE = 0.05
_COVARIANCE_PATIENCE = 8
_VALIDATION_DRAWS = 128


class ProbitClassifier(NetworkClassifier):
    """A classifier whose labels follow a multivariate probit: it can be told labels, and draws whole communities.

    Its network has ``scores(features)`` and a :class:`~hotvae.net.probit.ProbitHead` named ``head``.
    """

    @property
    def _head(self) -> ProbitHead:
        return cast(ProbitHead, self.network_.head)

    def _rank(self, n_labels: int) -> int:
        return min(n_labels, 32) if self.rank is None else require_count("rank", self.rank)

    def _learn(self, train: LabelledRows, validation: LabelledRows | None, seed: int) -> None:
        n_epochs = require_count("covariance_epochs", self.covariance_epochs, least=0)
        super()._learn(train, validation, seed)
        # Without validation rows the last epoch was kept, covariance and all.
        if n_epochs and validation is not None and self.n_labels_ > 1:
            self._learn_covariance(train, validation, seed, n_epochs)

    def _learn_covariance(self, train: LabelledRows, validation: LabelledRows, seed: int, n_epochs: int) -> None:
        """Train the head alone; of the validation rows one half of the labels has to tell the other."""
        hidden = np.random.default_rng(seed).random(validation.labels.shape) < 0.5
        known, wanted = (np.where(kept, validation.labels, np.nan) for kept in (~hidden, hidden))
        if np.isnan(known).all() or np.isnan(wanted).all():
            return
        head, dtype, device = self._head, self._dtype(), choose_device(self.device)
        noise = even_noise(_VALIDATION_DRAWS, head.factors.shape[1], seed, head.factors.dtype)
        network = CovarianceNet(head, noise)
        rows = Rows(self._scores(train.features), train.labels.astype(dtype))
        held = Rows(np.hstack([self._scores(validation.features), known]).astype(dtype), wanted.astype(dtype))
        config = replace(
            self._config(TrainConfig),
            max_epochs=n_epochs,
            learning_rate=_COVARIANCE_LEARNING_RATE,
            selection_metric="log_loss",
            patience=_COVARIANCE_PATIENCE,
        )
        with torch_threads(self.n_threads):
            fit_network(
                network,
                lambda scores, labels: {"nll": head.nll(scores, labels, self.n_likelihood_draws)},
                {"nll": 1.0},
                rows,
                held,
                config,
                seed=seed,
                device=device,
                progress=make_progress(self.progress, f"{self.title}, covariance"),
            )
            head.to("cpu")

    def predict_proba(self, X: Any, given: Any = None) -> NDArray[np.floating[Any]]:
        """Probability of every label, alone or given that some labels are known.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
            Features, columns as in training.
        given : array or DataFrame of shape (n_samples, n_labels), optional
            1 present, 0 absent, NaN unknown.

        Returns
        -------
        ndarray of shape (n_samples, n_labels) or (n_samples, n_classes)
            Known labels as known; a row in which nothing is known has the same values as without ``given``.
            A row's values do not depend on the other rows.
        """
        if given is None:
            return super().predict_proba(X)
        network = CovarianceNet(self._head, self._conditional_noise())
        with torch_threads(self.n_threads):
            return predict_network(network.predict, self._scores_and_known(X, given), batch_size=_CONDITIONAL_ROWS)

    def sample(
        self,
        X: Any,
        n_draws: int = 1,
        random_state: int | np.random.RandomState | None = None,
        given: Any = None,
    ) -> NDArray[np.int8]:
        """Draw whole label sets, with the labels' dependence on each other.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
            Features, columns as in training.
        n_draws : int
            Label sets for each row.
        random_state : int, RandomState or None
            Decides the draws.
        given : array or DataFrame of shape (n_samples, n_labels), optional
            Known labels, as in :meth:`predict_proba`; every draw has them.

        Returns
        -------
        ndarray of int8 of shape (n_draws, n_samples, n_labels)
            0 and 1.
        """
        n_draws = require_count("n_draws", n_draws)
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        table = self._scores_and_known(X, given)
        head, noise = self._head, self._conditional_noise()
        factors = head.factors.detach()
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=factors.dtype)

        def draw(rows: Tensor) -> Tensor:
            scores, labels = rows.chunk(2, dim=-1)
            causes = normal(n_draws, len(rows), factors.shape[1])
            unknown = torch.isnan(labels)
            told = ~unknown.all(-1)
            if bool(told.any()):
                found = head.posterior(scores[told], labels[told], noise)
                picked = torch.multinomial(found.weights.T, n_draws, replacement=True, generator=generator).T
                causes[:, told] = found.draws.gather(0, picked.unsqueeze(-1).expand(-1, -1, factors.shape[1]))
            latent = head.latent_mean(scores) + causes @ factors.T + normal(n_draws, *scores.shape)
            present = torch.where(unknown, (latent > 0).to(labels.dtype), labels)
            return present.to(torch.int8).transpose(0, 1)

        with torch_threads(self.n_threads):
            drawn = predict_network(draw, table, batch_size=_CONDITIONAL_ROWS)
        return np.ascontiguousarray(drawn.transpose(1, 0, 2)).astype(np.int8, copy=False)

    def _scores(self, scaled: Any) -> NDArray[Any]:
        with torch_threads(self.n_threads):
            return predict_network(cast(ProbitNet, self.network_).scores, scaled)

    def _scores_and_known(self, X: Any, given: Any) -> NDArray[Any]:
        """Scores and, behind them, known labels, NaN where nothing was told."""
        check_is_fitted(self)
        if self.target_ != "labels":
            raise ConfigError("given and sample must go with a table of labels; got classes (1-D y). Fit on a 2-D y.")
        scores = self._scores(self._scaled(self._check_features(X, reset=False)))
        if given is None:
            return np.hstack([scores, np.full_like(scores, np.nan)])
        known = self._check_labels(given, reset=False).astype(scores.dtype)
        if len(known) != len(scores):
            raise DataError(
                f"given must have the rows of X, {len(scores)}; got {len(known)}. Use NaN for unknown labels."
            )
        return np.hstack([scores, known])

    def _conditional_noise(self) -> Tensor:
        n_draws = require_count("n_conditional_draws", self.n_conditional_draws, least=2)
        factors = self._head.factors
        return even_noise(n_draws, factors.shape[1], self.noise_seed_, factors.dtype)


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
    scaling
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
        n_threads: int | None = None,
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
        return self._scores(self._scaled(self._check_features(X, reset=False)))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns of :meth:`transform`."""
        check_is_fitted(self)
        return np.array([f"latent_{name}" for name in self.label_names_], dtype=object)
