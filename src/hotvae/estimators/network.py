"""What every neural classifier of hotvae shares: training by the one loop, prediction in batches, weights in files."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from hotvae.config import (
    FrontConfig,
    NetConfig,
    TrainConfig,
    require_count,
)
from hotvae.errors import ConfigError, DataError
from hotvae.estimators.base import Front, LabelClassifier, LabelledRows, plain_parameter
from hotvae.estimators.per_label import limited_threads, unit_rows
from hotvae.estimators.ridge_base import ridge_start
from hotvae.features.molecules import AtomTokens, ElementPresence, readable_smiles
from hotvae.features.scaling import FeatureScaler
from hotvae.features.text import BagOfWords, TextTokens, as_texts
from hotvae.features.tokens import ActiveColumns
from hotvae.metrics import log_loss
from hotvae.net.base_logits import RidgeLogits
from hotvae.net.encoders import encode, make_encoder, member_mean
from hotvae.net.latent import token_mean
from hotvae.net.memory import NeighbourMemory
from hotvae.training.loop import (
    History,
    Rows,
    Terms,
    choose_device,
    fit_network,
    owned_randomness,
    predict_network,
    torch_threads,
)
from hotvae.training.progress import make_progress

ConfigClass = TypeVar("ConfigClass", FrontConfig, NetConfig, TrainConfig)

# How the front of each kind of encoder is read back; any other kind, and a module of the user's own, has a scaler.
_RESTORED: dict[str, Callable[[dict[str, Any]], Front]] = {
    "set": ActiveColumns.from_state,
    "text": TextTokens.from_state,
    "bag": BagOfWords.from_state,
    "smiles": AtomTokens.from_state,
    "elements": ElementPresence.from_state,
}
# What the neighbours of a row may count for, and how fast they count for less with the angle; validation rows choose.
_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
_TEMPERATURES = (0.02, 0.05, 0.1, 0.2)
# Rows among which neighbours are looked for, at most: every prediction compares with all, and the file holds them.
_MOST_REMEMBERED = 20_000
MEMORY = "memory."
"""How names of tensors in a file begin that are remembered rows, not weights."""
START = "ridge."
"""How names of tensors in a file begin that belong to the ridge that rows start from."""

_TOKENS = ("set", "text", "smiles")
TEXTS = ("text", "bag")
MOLECULES = ("smiles", "elements")


class NetworkClassifier(TransformerMixin, LabelClassifier):
    """A classifier whose network is trained by :func:`~hotvae.training.loop.fit_network`.

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

    def _label_graph(self, labels: NDArray[Any]) -> NDArray[np.bool_] | NDArray[np.int64] | None:
        """Return the label graph from training rows, or lists of neighbours; None is the complete one."""
        return None

    # From features to the encoder --------------------------------------------------------------------------

    def _kind(self) -> str:
        """Return what a row is: the name of the encoder, "mlp" for a table before a module of the user's own."""
        encoder = getattr(self, "encoder", "mlp")
        return encoder if isinstance(encoder, str) else "mlp"

    def _front(self) -> Front:
        kind, config = self._kind(), self._config(FrontConfig)
        for name, off in (("clamp", False), ("spatial_units", 0), ("landmarks", 0)):
            if getattr(config, name) and kind in _RESTORED:
                raise ConfigError(
                    f"{name} must be {off} with encoder {kind!r}, which reads no columns of numbers; got "
                    f"{getattr(config, name)}. Use encoder='mlp'."
                )
        if kind == "set":
            return ActiveColumns(config.max_tokens)
        if kind == "text":
            return TextTokens(config.max_tokens, config.min_word_count, config.max_words)
        if kind == "bag":
            return BagOfWords(min_word_count=config.min_word_count, max_words=config.max_words)
        if kind == "smiles":
            return AtomTokens(config.bonds, config.max_tokens)
        return ElementPresence() if kind == "elements" else _scaler(config)

    def _restored_front(self, state: dict[str, Any]) -> Front:
        restore: Callable[[dict[str, Any]], Front] = _RESTORED.get(self._kind(), FeatureScaler.from_state)
        return restore(state)

    def _check_features(self, X: Any, reset: bool) -> Any:
        """Return one column of str for texts and molecules, else what every classifier takes."""
        kind = self._kind()
        if kind not in (*TEXTS, *MOLECULES):
            return super()._check_features(X, reset)
        # Here, where all rows are seen, so that messages name them by their numbers in the user's own column.
        column = (
            as_texts(X) if kind in TEXTS else readable_smiles(X, kind == "smiles" and self._config(FrontConfig).bonds)
        )
        names = [str(name) for name in X.columns] if isinstance(X, pd.DataFrame) else None
        if reset:
            self.n_features_in_ = 1
            self.__dict__.pop("feature_names_in_", None)
            if names is not None:
                self.feature_names_in_ = np.array(names, dtype=object)
        elif names is not None and self._names_or_none() not in (None, tuple(names)):
            raise DataError(
                f"column must be {self.feature_names_in_[0]!r}, as in training; got {names[0]!r}. Pass the same column."
            )
        return column

    def _feature_encoder(self, n_inputs: int) -> nn.Module:
        """Make the untrained feature encoder that the parameters name."""
        own = own_encoder(self.encoder) if isinstance(self.encoder, nn.Module) else None
        if own is not None:
            return own
        return make_encoder(self.encoder, n_inputs, self._config(NetConfig), getattr(self.scaler_, "n_numeric", None))

    # Fitting ----------------------------------------------------------------------------------------------

    def _dtype(self) -> np.dtype[Any]:
        return np.dtype(self.precision)

    def _learn_first(
        self, train: LabelledRows, validation: LabelledRows | None
    ) -> tuple[LabelledRows, LabelledRows | None]:
        """Learn the ridge that rows start from, where asked for, and put its logits beside them."""
        self.start_: RidgeLogits | None = None
        if not self._has_start():
            return train, validation
        with limited_threads(self.n_threads):
            found = ridge_start(unit_rows(train.features), train.labels)
        maps = (np.ascontiguousarray(part, dtype=self._dtype()) for part in (found.weights.T, found.intercepts))
        self.start_ = RidgeLogits(*map(torch.from_numpy, maps))
        train = LabelledRows(_beside(train.features, found.left_out), train.labels)
        if validation is None:
            return train, None
        return train, LabelledRows(self._started(validation.features), validation.labels)

    def _has_start(self) -> bool:
        wanted = self._config(FrontConfig).ridge_start
        if wanted and self._kind() in _TOKENS:
            raise ConfigError(
                f"ridge_start must be False with encoder {self._kind()!r}, whose rows are tokens; got True. Use 'mlp' "
                "for tables and 'bag' for texts."
            )
        return wanted

    def _read(self, X: Any) -> Any:
        return self._started(super()._read(X))

    def _started(self, features: Any) -> Any:
        """Put the logits that scaled rows start from beside them."""
        start = self.start_
        if start is None:
            return features
        with torch_threads(self.n_threads):
            return _beside(features, predict_network(start, unit_rows(features).astype(self._dtype())))

    def _learn(self, train: LabelledRows, validation: LabelledRows | None, seed: int) -> None:
        self._n_neighbours()  # a wrong number is told before the training, not after it
        rows = Rows(train.features, train.labels.astype(self._dtype()))
        held_rows = None
        if validation is not None:
            held_rows = Rows(validation.features, validation.labels.astype(self._dtype()))
        self.memory_: NeighbourMemory | None = None
        graph = self._label_graph(train.labels)
        is_complete = graph is None or (graph.dtype == np.bool_ and graph.all())
        self.graph_ = None if is_complete else graph
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

    def _n_neighbours(self) -> int:
        return require_count("latent_neighbours", getattr(self, "latent_neighbours", 0), least=0)

    def _learn_last(self, train: LabelledRows, validation: LabelledRows | None, seed: int) -> None:
        """Remember training rows, as far as validation rows are predicted better by it."""
        n_neighbours = self._n_neighbours()
        if not n_neighbours or validation is None:
            return
        kept = np.arange(len(train.labels))
        if len(kept) > _MOST_REMEMBERED:
            kept = np.sort(np.random.default_rng(seed).permutation(len(kept))[:_MOST_REMEMBERED])
        places = torch.from_numpy(self._placed(train.features[kept]))
        memory = NeighbourMemory(places, torch.from_numpy(train.labels[kept].astype(self._dtype())), n_neighbours)
        alone = self._probs(validation.features)
        best = (log_loss(validation.labels, alone), 0.0, 0.0)
        memory.share = 1.0  # a smaller one lies on the line between the network alone and the neighbours
        for memory.temperature in _TEMPERATURES:
            with torch_threads(self.n_threads):
                near = predict_network(
                    lambda rows, probs: memory.mix(probs, self._place(rows)), validation.features, alone
                )
            for share in _SHARES:
                loss = log_loss(validation.labels, alone + share * (near - alone))
                best = min(best, (loss, share, memory.temperature))
        _, memory.share, memory.temperature = best
        if memory.share:
            self.memory_ = memory

    def _identity(self) -> dict[str, str]:
        """Return every setting that shapes the network; where and how it is computed and shown does not count."""
        aside = {"device", "n_threads", "progress", "state_file", "random_state", "encoder", "graph", "n_draws"}
        aside.add("latent_neighbours")
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
            predict, memory = self._predictor(), self.memory_
            if memory is None:
                return predict_network(predict, features)
            return predict_network(lambda batch: memory.mix(predict(batch), self._place(batch)), features)

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
        return self._placed(self._read(X))

    def _placed(self, features: Any) -> NDArray[np.floating[Any]]:
        """Return where scaled rows lie in the latent space."""
        with torch_threads(self.n_threads):
            return predict_network(self._place, features)

    def _place(self, batch: Tensor) -> Tensor:
        features = batch if self.start_ is None else batch[:, : -self.n_labels_]
        posterior = encode(self.network_.get_submodule("feature_encoder"), features)
        return member_mean(token_mean(posterior.mean, posterior.mask), getattr(self.network_, "n_members", 1))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns of :meth:`transform`."""
        check_is_fitted(self)
        return np.array([f"latent_{i}" for i in range(self._config(NetConfig).latent_width)], dtype=object)

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
        tensors = dict(self.network_.state_dict())
        memory = self.memory_
        if memory is not None:
            names = ("n_neighbours", "share", "temperature")
            notes["memory"] = {name: getattr(memory, name) for name in names}
            tensors |= {MEMORY + name: tensor for name, tensor in memory.tensors().items()}
        if self.start_ is not None:
            tensors |= {START + name: tensor for name, tensor in self.start_.tensors().items()}
        return notes, tensors

    def _restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.noise_seed_ = config["noise_seed"]
        self.history_ = History(**config["history"])
        graph = tensors.get("decoder.graph")
        self.graph_ = None if graph is None else graph.numpy()
        with owned_randomness(0, 0):  # the random starting weights are overwritten below
            self.network_ = self._make_network(None)
        remembered, start = (
            {name.removeprefix(kind): tensors[name] for name in tensors if name.startswith(kind)}
            for kind in (MEMORY, START)
        )
        self.network_.load_state_dict({name: tensors[name] for name in tensors if not name.startswith((MEMORY, START))})
        self.network_.eval()
        self.start_ = RidgeLogits(**start) if self._has_start() else None
        # Models of version 0.1 have none.
        told = config.get("memory")
        self.memory_ = None
        if told is not None:
            self.memory_ = NeighbourMemory.from_tensors(remembered["places"], remembered["labels"], **told)

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what the estimator accepts."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        if self._kind() in (*TEXTS, *MOLECULES):
            tags.input_tags.one_d_array = tags.input_tags.string = True
            tags.input_tags.two_d_array = tags.input_tags.sparse = False
        return tags


def _scaler(config: FrontConfig) -> FeatureScaler:
    return FeatureScaler(
        config.scaling,
        clamp=config.clamp,
        spatial_units=config.spatial_units,
        spatial_columns=config.spatial_columns,
        landmarks=config.landmarks,
    )


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
    raise ConfigError(f"encoder must be 'mlp' or an nn.Module; got {encoder!r}. See docs/encoders.md.")


def _beside(features: Any, logits: NDArray[Any]) -> Any:
    """Put logits behind the columns of rows, dense or sparse."""
    columns: Any = logits.astype(features.dtype)
    if sparse.issparse(features):
        blocks: list[Any] = [features, sparse.csr_array(columns)]
        return sparse.hstack(blocks, format="csr")
    return np.hstack([features, columns])


def _initial_logits(labels: NDArray[Any]) -> NDArray[Any]:
    """Logits of the prevalences, half a row away from certainty; labels never observed start at 0."""
    observed = (~np.isnan(labels)).sum(axis=0)
    rate = (np.nansum(labels, axis=0) + 0.5) / (observed + 1)
    logits: NDArray[Any] = np.log(rate / (1 - rate)).astype(labels.dtype)
    return logits
