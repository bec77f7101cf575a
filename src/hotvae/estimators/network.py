"""The base of every neural classifier: training by the one loop, what wraps the network after it, weights in files."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from hotvae.config import LossWeights, NetConfig, picked, require_choice, require_number
from hotvae.errors import ConfigError
from hotvae.estimators.base import STORABLE, LabelClassifier, plain_parameter
from hotvae.estimators.per_label import limited_threads, unit_rows
from hotvae.estimators.ridge_base import ridge_logits
from hotvae.features import TRANSFORMERS, Rows, RowTransformer
from hotvae.features.transformer import OtherTransformer
from hotvae.net.encoders import encode, make_encoder
from hotvae.net.latent import token_mean
from hotvae.net.stored import with_weights
from hotvae.training.loop import History, fit_network
from hotvae.training.prediction import owned_randomness, predict_network, torch_threads
from hotvae.training.settings import WHERE, Training

ConfigClass = TypeVar("ConfigClass", NetConfig, LossWeights)

# How names of tensors in a file begin that are not weights of the network.
_BASE = "ridge."


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkClassifier(TransformerMixin, LabelClassifier):
    """A classifier whose network is trained by :func:`~hotvae.training.loop.fit_network`.

    A subclass is a dataclass, whose fields are the parameters that scikit-learn sees, and has ``_build`` for its
    network; it may have a ``base`` besides.

    Parameters
    ----------
    training : Training, optional
        How to train: epochs, step size, patience, device, threads, progress.
    features : transformer, optional
        What makes rows ready; None takes the one that goes with the encoder, with its defaults.
    validation_fraction : float
        Share of the rows held out to choose epoch and thresholds, unless ``fit`` is given some.
    random_state : int, RandomState or None
        The same number gives the same model on the same machine.
    """

    training: Training | None = None
    features: Any = None
    validation_fraction: float = 0.2
    random_state: int | np.random.RandomState | None = None

    training_defaults: ClassVar[Mapping[str, Any]] = {}
    """What differs from :class:`~hotvae.training.settings.Training`'s own defaults while ``training`` is None."""
    loss_terms: ClassVar[tuple[str, ...]] = ("bce",)
    """Terms of the network's loss; a parameter such as ``bce_weight`` weighs one, and without it the weight is 1."""

    # What a subclass says ---------------------------------------------------------------------------------

    @abstractmethod
    def _build(self, n_features: int, n_labels: int, graph: Tensor | None, initial_logits: Tensor | None) -> nn.Module:
        """Make the untrained network."""

    def _weights(self) -> Mapping[str, float]:
        """Return the weights of the loss terms of the network."""
        names = {term: f"{term}_weight" for term in self.loss_terms}
        return {term: require_number(name, getattr(self, name, 1.0)) for term, name in names.items()}

    def _label_graph(self, labels: NDArray[Any]) -> NDArray[np.bool_] | None:
        """Return the label graph from training rows; None is the complete one."""
        return None

    def _steps(self) -> list[Callable[[Rows, Rows, int], None]]:
        """List what is learned after the network, in this order, where there are validation rows."""
        return []

    # Parameters -------------------------------------------------------------------------------------------

    def _training(self) -> Training:
        """Return how to train: the parameter, or the defaults."""
        return Training(**self.training_defaults) if self.training is None else self.training

    def _kind(self) -> str:
        """Return what a row is: the name of the encoder, "mlp" for a table before a module of the user's own."""
        encoder = getattr(self, "encoder", "mlp")
        return encoder if isinstance(encoder, str) else "mlp"

    def new_features(self) -> RowTransformer:
        """Make the untrained transformer that makes rows ready."""
        given = self.features
        if given is None:
            return TRANSFORMERS[require_choice("encoder", self._kind(), TRANSFORMERS)]()
        return clone(given) if isinstance(given, RowTransformer) else OtherTransformer(given)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; those of ``training`` and ``features`` are there even while these are None."""
        params: dict[str, Any] = super().get_params(deep)
        if deep:
            for name, part in self._parts():
                params |= {f"{name}__{key}": value for key, value in part.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``training__patience=5`` reaches into ``training``, which then is an object of its own."""
        nested = {key: value for key, value in params.items() if "__" in key}
        # Which features there are depends on the encoder: first what is not nested.
        super().set_params(**{key: value for key, value in params.items() if key not in nested})
        for name, part in self._parts():
            if any(key.startswith(f"{name}__") for key in nested):
                setattr(self, name, part)
        super().set_params(**nested)
        return self

    def _parts(self) -> list[tuple[str, Any]]:
        """Return the objects that stand in for parameters which are None."""
        known = self._kind() in TRANSFORMERS
        parts = [("training", self._training())] if self.training is None else []
        return parts + ([("features", self.new_features())] if self.features is None and known else [])

    @classmethod
    def all_settings(cls) -> dict[str, Any]:
        """Every setting by a name of its own, with its default; see :class:`LabelClassifier`."""
        own = cls().get_params(deep=False)
        nested: list[Any] = [Training(**cls.training_defaults), *(kind() for kind in cls._transformers())]
        flat = {key: value for part in nested for key, value in part.get_params().items()}
        return flat | {name: value for name, value in own.items() if name not in ("training", "features")}

    @classmethod
    def from_settings(cls, **settings: Any) -> Self:
        """Make a classifier from settings by names of their own, wherever they belong.

        Examples
        --------
        >>> from hotvae import PlainNetClassifier
        >>> PlainNetClassifier.from_settings(max_epochs=5, scaling="quantile")
        PlainNetClassifier(features=FeatureScaler(scaling='quantile'),
                           training=Training(max_epochs=5))
        """
        own = cls().get_params(deep=False)
        # A copy: settings that are changed below stay as they are in the caller's own objects.
        chosen = {name: clone(value, safe=False) for name, value in picked(("training", "features"), settings).items()}
        model = cls(**picked(own, settings) | chosen)
        rest = {name: value for name, value in settings.items() if name not in own}
        trained = picked(Training().get_params(), rest)
        if trained:
            model.set_params(**{f"training__{name}": value for name, value in trained.items()})
        shaped = {name: value for name, value in rest.items() if name not in trained}
        if shaped:
            allowed, defaults = model.new_features().get_params(), cls.all_settings()
            for name in [name for name in shaped if name not in allowed]:
                if shaped.pop(name) != defaults.get(name, ...):
                    raise ConfigError(
                        f"{name} must be left out with encoder {model._kind()!r}, whose rows have no such setting; got "
                        f"{settings[name]!r}. Choose another encoder, or remove it."
                    )
            model.set_params(**{f"features__{name}": value for name, value in shaped.items()})
        return model

    @classmethod
    def _transformers(cls) -> list[type[RowTransformer]]:
        """Return the transformers whose settings the classifier may have."""
        has_choice = "encoder" in cls().get_params(deep=False)
        return list(TRANSFORMERS.values()) if has_choice else [TRANSFORMERS["mlp"]]

    def _plain_parameters(self) -> dict[str, Any]:
        def plain(part: Any) -> dict[str, Any]:
            return {name: plain_parameter(name, value) for name, value in part.get_params().items()}

        kept = {name: value for name, value in plain(self._training()).items() if name != "state_file"}
        features = None if self.features is None else {"kind": type(self.features).__name__, **plain(self.features)}
        return super()._plain_parameters() | {"training": kept, "features": features}

    @classmethod
    def _from_plain(cls, parameters: dict[str, Any]) -> Self:
        features = parameters["features"]
        if features is not None:
            settings = {name: value for name, value in features.items() if name != "kind"}
            features = STORABLE[features["kind"]](**settings)
        return cls(**parameters | {"training": Training(**parameters["training"]), "features": features})

    def _config(self, cls: type[ConfigClass]) -> ConfigClass:
        """Collect the parameters of a configuration by name; its own checks name what does not fit."""
        params = self.get_params(deep=False)
        return cls(**picked((field.name for field in fields(cls)), params))

    def check_parameters(self) -> None:
        """Find a parameter that is not allowed before any data are read."""
        self._training().checked()
        self._config(NetConfig)
        self._weights()
        self.new_features().check_parameters()
        if getattr(self, "base", None) is not None:
            require_choice("base", self.base, ("ridge",))

    # From features to the encoder --------------------------------------------------------------------------

    def _feature_encoder(self, n_inputs: int) -> nn.Module:
        """Make the untrained feature encoder, or copy the user's own."""
        if isinstance(getattr(self, "encoder", None), nn.Module):
            own: nn.Module = copy.deepcopy(self.encoder)  # the parameter stays as the user gave it
            return own
        return make_encoder(self.features_.gives, n_inputs, self._config(NetConfig))

    def _has_base(self) -> bool:
        base = getattr(self, "base", None)
        if base is None:
            return False
        if self.features_.gives != "numbers":
            raise ConfigError(
                f"base must be None where rows are tokens; got {base!r} with {type(self.features_).__name__}. Use "
                "encoder 'mlp' for tables and 'bag' for texts."
            )
        return True

    def _ready(self, scaled: Any) -> Rows:
        """Put the logits of the base, where there is one, beside features made ready."""
        if self.base_ is None:
            return Rows(scaled)
        weights, intercepts = self.base_

        def logits(rows: Tensor) -> Tensor:
            return nn.functional.linear(rows, weights, intercepts)

        with torch_threads(self._training().n_threads):
            return Rows(scaled, None, predict_network(logits, unit_rows(scaled).astype(self._dtype())))

    def _dtype(self) -> np.dtype[Any]:
        return np.dtype(self._training().checked().precision)

    # Fitting ----------------------------------------------------------------------------------------------

    def _learn(self, train: Rows, validation: Rows | None, seed: int) -> None:
        """Learn the base, the network, and then the steps that wrap it."""
        self.check_parameters()
        training = self._training()
        self.noise_seed_ = seed
        train, validation = self._learn_base(train, validation)
        graph = self._label_graph(train.observed())
        self.graph_ = None if graph is None or graph.all() else graph
        with owned_randomness(seed, 0):
            self.network_ = self._make_network(_initial_logits(train.observed()))
        self.history_: History = fit_network(
            self.network_,
            self._weights(),
            train,
            validation,
            training,
            seed=seed,
            title=self.title,
            identity=self._identity(),
        )
        if validation is not None:
            for learn in self._steps():
                learn(train, validation, seed)

    def _learn_base(self, train: Rows, validation: Rows | None) -> tuple[Rows, Rows | None]:
        """Learn the base that the network adds to, and put its logits beside the rows; training rows were left out."""
        dtype = self._dtype()
        self.base_: tuple[Tensor, Tensor] | None = None
        if self._has_base():
            with limited_threads(self._training().n_threads):
                found = ridge_logits(unit_rows(train.features), train.observed())
            maps = (np.ascontiguousarray(part, dtype=dtype) for part in (found.weights.T, found.intercepts))
            weights, intercepts = map(torch.from_numpy, maps)
            self.base_ = weights, intercepts
            train = Rows(train.features, train.labels, found.left_out)
            if validation is not None:
                validation = Rows(validation.features, validation.labels, self._ready(validation.features).base_logits)
        return train.as_type(dtype), None if validation is None else validation.as_type(dtype)

    def _identity(self) -> dict[str, str]:
        """Return every setting that shapes the network; where and how it is computed and shown does not count."""
        aside = {"random_state", "encoder", "graph", "training", "features"}
        aside |= {f"training__{name}" for name in WHERE}
        return {name: repr(value) for name, value in self.get_params().items() if name not in aside}

    def _make_network(self, initial_logits: NDArray[Any] | None) -> nn.Module:
        graph = None if self.graph_ is None else torch.from_numpy(self.graph_)
        logits = None if initial_logits is None else torch.from_numpy(initial_logits)
        network = self._build(self.features_.n_features_out, self.n_labels_, graph, logits)
        return network.to(getattr(torch, self._training().precision))

    # Predicting -------------------------------------------------------------------------------------------

    def _probs(self, rows: Rows) -> NDArray[np.floating[Any]]:
        if len(rows) == 0:
            return np.zeros((0, self.n_labels_), dtype=self._dtype())
        with torch_threads(self._training().n_threads):
            return predict_network(cast(Any, self.network_).predict, rows.features, rows.base_logits)

    def transform(self, X: Any) -> NDArray[np.floating[Any]]:
        """Place rows in the latent space: the mean of z given x, averaged over tokens.

        An ordination of sites in which communities that look alike lie close.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
            Features, columns as in training.

        Returns
        -------
        ndarray of shape (n_samples, latent)
        """
        check_is_fitted(self)
        return self._placed(self._read(X))

    def _placed(self, rows: Rows) -> NDArray[np.floating[Any]]:
        """Return where rows lie in the latent space."""
        encoder = self.network_.get_submodule("feature_encoder")

        def place(batch: Tensor) -> Tensor:
            posterior = encode(encoder, batch)
            return token_mean(posterior.mean, posterior.mask)

        with torch_threads(self._training().n_threads):
            return predict_network(place, rows.features)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns of :meth:`transform`."""
        check_is_fitted(self)
        return np.array([f"latent_{i}" for i in range(self._latent_width())], dtype=object)

    def _latent_width(self) -> int:
        return self._config(NetConfig).latent_width

    # Saving -----------------------------------------------------------------------------------------------

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        history = self.history_
        notes: dict[str, Any] = {
            "noise_seed": self.noise_seed_,
            "history": {"records": history.records, "best_epoch": history.best_epoch, "stopped": history.stopped},
        }
        tensors = dict(self.network_.state_dict())
        if self.base_ is not None:
            tensors |= {_BASE + name: part for name, part in zip(("weights", "intercepts"), self.base_, strict=True)}
        return notes, tensors

    def _restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.noise_seed_ = config["noise_seed"]
        self.history_ = History(**config["history"])
        records = self.history_.records
        if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
            raise ValueError(f"history must be a list of epochs; got {type(records).__name__}")
        graph = tensors.get("decoder.graph")
        self.graph_ = None if graph is None else graph.numpy()
        own = {name: tensors[name] for name in tensors if not name.startswith(_BASE)}
        self.network_ = with_weights(lambda: self._make_network(None), own)
        self.base_ = (tensors[f"{_BASE}weights"], tensors[f"{_BASE}intercepts"]) if self._has_base() else None

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what the estimator accepts."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        if self.features is None and getattr(TRANSFORMERS.get(self._kind()), "is_column", False):
            tags.input_tags.one_d_array = tags.input_tags.string = True
            tags.input_tags.two_d_array = tags.input_tags.sparse = False
        return tags


def _initial_logits(labels: NDArray[Any]) -> NDArray[Any]:
    """Logits of the prevalences, half a row away from certainty; labels never observed start at 0."""
    observed = (~np.isnan(labels)).sum(axis=0)
    rate = (np.nansum(labels, axis=0) + 0.5) / (observed + 1)
    logits: NDArray[Any] = np.log(rate / (1 - rate)).astype(labels.dtype)
    return logits
