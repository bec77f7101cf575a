"""What every neural classifier of hotvae shares: training by the one loop, prediction in batches, weights in files."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from hotvae.classifier import LabelClassifier, LabelledRows, plain_parameter
from hotvae.config import (
    NetConfig,
    TrainConfig,
)
from hotvae.errors import ConfigError
from hotvae.net.encoders import encode
from hotvae.net.latent import token_mean
from hotvae.progress import make_progress
from hotvae.training import (
    History,
    Rows,
    Terms,
    choose_device,
    fit_network,
    owned_randomness,
    predict_network,
    torch_threads,
)

ConfigClass = TypeVar("ConfigClass", NetConfig, TrainConfig)


class NetworkClassifier(TransformerMixin, LabelClassifier):
    """A classifier whose network is trained by :func:`~hotvae.training.fit_network`.

    A subclass has an ``__init__`` with explicit parameters, ``_build`` for its network, and ``_objective`` for its
    loss terms and their weights.
    """

    # What a subclass says ---------------------------------------------------------------------------------

    @abstractmethod
    def _build(self, n_features: int, n_labels: int, graph: Tensor | None, initial_logits: Tensor | None) -> nn.Module:
        """Make the untrained network."""

    @abstractmethod
    def _objective(self, network: nn.Module) -> tuple[Terms, Mapping[str, float]]:
        """Return the loss terms of the network and their weights."""

    def _label_graph(self, labels: NDArray[Any]) -> NDArray[np.bool_] | None:
        """Return the label graph from training rows; None is the complete one."""
        return None

    # Fitting ----------------------------------------------------------------------------------------------

    def _dtype(self) -> np.dtype[Any]:
        return np.dtype(self.precision)

    def _learn(self, train: LabelledRows, validation: LabelledRows | None, seed: int) -> None:
        rows = Rows(train.features, train.labels.astype(self._dtype()))
        held_rows = None
        if validation is not None:
            held_rows = Rows(validation.features, validation.labels.astype(self._dtype()))
        graph = self._label_graph(train.labels)
        self.graph_ = None if graph is None or graph.all() else graph
        config = self._config(TrainConfig)
        device = choose_device(self.device)
        with torch_threads(self.n_threads):
            with owned_randomness(seed, 0):
                self.network_ = self._make_network(_initial_logits(rows.labels))
            terms, weights = self._objective(self.network_)
            self.history_: History = fit_network(
                self.network_,
                terms,
                weights,
                rows,
                held_rows,
                config,
                seed=seed,
                device=device,
                progress=make_progress(self.progress, self.title),
                state_file=self.state_file,
                identity=self._identity(),
            )
            self.network_.to("cpu")
        self.noise_seed_ = seed

    def _identity(self) -> dict[str, str]:
        """Return every setting that shapes the model; where and how it is computed and shown does not count."""
        aside = {"device", "n_threads", "progress", "state_file", "random_state", "encoder", "graph", "n_draws"}
        return {name: repr(value) for name, value in self.get_params(deep=False).items() if name not in aside}

    def _make_network(self, initial_logits: NDArray[Any] | None) -> nn.Module:
        graph = None if self.graph_ is None else torch.from_numpy(self.graph_)
        logits = None if initial_logits is None else torch.from_numpy(initial_logits)
        network = self._build(self.scaler_.n_features_out, self.n_labels_, graph, logits)
        return network.to(getattr(torch, self.precision))

    def _config(self, cls: type[ConfigClass]) -> ConfigClass:
        """Collect the parameters of a configuration by name; its own checks name what does not fit."""
        known = {field.name for field in fields(cls)} & set(self.get_params(deep=False))
        return cls.from_dict({name: plain_parameter(name, getattr(self, name)) for name in known})

    # Predicting -------------------------------------------------------------------------------------------

    def _probs(self, features: Any) -> NDArray[np.floating[Any]]:
        if features.shape[0] == 0:
            return np.zeros((0, self.n_labels_), dtype=self._dtype())
        with torch_threads(self.n_threads):
            return predict_network(self._predictor(), features)

    def _predictor(self) -> Any:
        return self.network_.predict

    def transform(self, X: Any) -> NDArray[np.floating[Any]]:
        """Place rows in the latent space: the mean of z given x, averaged over tokens.

        An ordination of sites in which communities that look alike lie close.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
            Features, columns as in training.

        Returns
        -------
        ndarray of shape (n_samples, dim)
        """
        check_is_fitted(self)
        scaled = self._scaled(self._check_features(X, reset=False))

        def place(batch: Tensor) -> Tensor:
            posterior = encode(self.network_.get_submodule("feature_encoder"), batch)
            return token_mean(posterior.mean, posterior.mask)

        with torch_threads(self.n_threads):
            return predict_network(place, scaled)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns of :meth:`transform`."""
        check_is_fitted(self)
        return np.array([f"latent_{i}" for i in range(self._config(NetConfig).dim)], dtype=object)

    # Saving -----------------------------------------------------------------------------------------------

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        notes = {
            "noise_seed": self.noise_seed_,
            "history": {
                "records": self.history_.records,
                "best_epoch": self.history_.best_epoch,
                "stopped": self.history_.stopped,
            },
        }
        return notes, self.network_.state_dict()

    def _restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.noise_seed_ = config["noise_seed"]
        self.history_ = History(**config["history"])
        graph = tensors.get("decoder.graph")
        self.graph_ = None if graph is None else graph.numpy()
        with owned_randomness(0, 0):  # the random starting weights are overwritten below
            self.network_ = self._make_network(None)
        self.network_.load_state_dict(tensors)
        self.network_.eval()

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what the estimator accepts."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags


def own_encoder(encoder: str | nn.Module) -> nn.Module | None:
    """Return a copy of the user's encoder, or None where the network builds its default.

    Examples
    --------
    >>> own_encoder("mlp") is None
    True
    """
    if isinstance(encoder, nn.Module):
        return copy.deepcopy(encoder)  # the parameter stays as the user gave it
    if encoder == "mlp":
        return None
    raise ConfigError(f"encoder must be 'mlp' or an nn.Module; got {encoder!r}. See docs/model.md.")


def _initial_logits(labels: NDArray[Any]) -> NDArray[Any]:
    """Logits of the prevalences, half a row away from certainty; labels never observed start at 0."""
    observed = (~np.isnan(labels)).sum(axis=0)
    rate = (np.nansum(labels, axis=0) + 0.5) / (observed + 1)
    logits: NDArray[Any] = np.log(rate / (1 - rate)).astype(labels.dtype)
    return logits
