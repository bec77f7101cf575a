"""The base of every classifier: checks of tables and targets, rows held out, thresholds, saving and loading.

A subclass says how it learns from rows made ready and how it predicts; everything around that stands here once.
"""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    check_random_state,
    validate_data,
)
from torch import Tensor

from hotvae.checkpoint import load_folder, save_folder
from hotvae.config import require_choice, require_count, require_seed, require_share
from hotvae.data.dataset import Dataset
from hotvae.data.splits import MultilabelStratifiedShuffleSplit
from hotvae.errors import ConfigError, DataError, DataWarning, ModelError, by_face, listed, option
from hotvae.estimators import decisions
from hotvae.estimators.given import whole_given
from hotvae.estimators.law_rows import LawRows
from hotvae.estimators.thresholds import apply_thresholds, tune_thresholds
from hotvae.features import TRANSFORMERS, FeatureScaler, Rows, RowTransformer
from hotvae.features.columns import ColumnPlan
from hotvae.features.rows import take
from hotvae.metrics import METRICS, find_metric, macro_f1

STORABLE: dict[str, Any] = {kind.__name__: kind for kind in (*TRANSFORMERS.values(), ColumnPlan)}
"""Transformers that a model file can hold, by the names of their classes."""

# What stands in a model file for a parameter that is a module of the user's own.
CUSTOM = "custom"

# Fewer validation rows than this cannot tell epochs apart: then all rows train and the last epoch is kept.
MIN_VALIDATION_ROWS = 10

# Cells of a block of draws: 64 MB while they are numbers, 8 as 0 and 1.
_CELLS_PER_BLOCK = 1 << 23

# A label that a model is sure of costs the likelihood at most so much where the model is wrong.
_SURE = 1e-6


class LabelClassifier(ClassifierMixin, BaseEstimator):
    """Checks, targets, held-out rows, thresholds and files; a subclass learns and predicts.

    A subclass has an ``__init__`` with explicit parameters, among them ``validation_fraction`` and ``random_state``,
    and says ``_learn``, ``_probs``, ``_learned`` and ``_restore``.
    """

    title: ClassVar[str]
    takes: ClassVar[str] = "tables, dense or sparse; labels may have gaps"
    cost: ClassVar[str] = "not measured"
    citation: ClassVar[str] = "none"
    accepts_missing_labels: ClassVar[bool] = True
    accepts_sparse: ClassVar[bool] = True
    holds_out_itself: ClassVar[bool] = False
    """Whether all rows are learned from, each being held out in its turn, so that none need be set aside."""
    conditional: bool = False
    """Whether known labels can be given for a prediction of the others."""

    # What a subclass says ---------------------------------------------------------------------------------

    @abstractmethod
    def _learn(self, train: Rows, validation: Rows | None, seed: int) -> None:
        """Learn from rows made ready; validation rows may choose settings."""

    @abstractmethod
    def _probs(self, features: Any) -> NDArray[np.floating[Any]]:
        """Return probabilities of shape (n_samples, n_labels) for rows made ready."""

    @abstractmethod
    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return what was learned: JSON-able notes, and tensors."""

    @abstractmethod
    def _restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Take back what :meth:`_learned` returned."""

    def _law_rows(self, features: Any) -> LawRows | None:
        """Return rows made ready with the law of their labels; None for a model without such a law."""
        return None

    @property
    def draws_jointly(self) -> bool:
        """Whether labels depend on each other in the draws of the model."""
        return False

    def new_features(self) -> RowTransformer:
        """Make the untrained transformer that makes rows ready."""
        return FeatureScaler()

    def _dtype(self) -> np.dtype[Any]:
        """Return the number type of the features made ready."""
        return np.dtype(np.float64)

    # Fitting ----------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, validation: Any = None) -> Self:
        """Train on a table.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features), or Dataset
            Features; NaN is a missing value. A frame may have categorical columns. A :class:`~hotvae.Dataset` brings
            its labels, and the names of both.
        y : array or DataFrame of shape (n_samples, n_labels), or 1-D array of classes
            0, 1, or NaN for a label that was not observed. None with a Dataset. The splitters that scikit-learn takes
            by itself refuse NaN: pass ``cv=KFold(5)`` to ``cross_val_score`` and searches.
        validation : (X, y) or Dataset, optional
            Rows that choose settings and thresholds. By default a stratified share
            ``validation_fraction`` of the rows is held out for it.

        Returns
        -------
        self
        """
        if isinstance(X, Dataset):
            if y is not None:
                raise ConfigError("y must be left out with a Dataset, which brings its labels; got both. Pass one.")
            X, y = named_tables(X)
        self.features_ = self.new_features()
        features = self._check_features(X, reset=True)
        labels = self._check_labels(y, reset=True)
        check_consistent_length(features, labels)
        require_seed("random_state", self.random_state)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if self.target_ == "labels":
            _warn_of_single_class(labels, self.label_names_)
        train, held_out = self._split(features, labels, validation, seed)
        if not self.accepts_missing_labels:
            _refuse_missing(labels[train], self.label_names_, type(self).__name__)
        self.features_.fit(take(features, train), feature_names=self._names_or_none())
        rows = Rows(self._scaled(take(features, train)), labels[train])
        held_rows = None if held_out is None else Rows(self._scaled(held_out.features), held_out.labels)
        self._learn(rows, held_rows, seed)
        self.thresholds_: dict[str, float] = self._tune_thresholds(rows, held_rows)
        return self

    def _tune_thresholds(self, train: Rows, held: Rows | None) -> dict[str, float]:
        """Return the cut-offs that are best on rows held out; none where there are no such rows."""
        if held is None:
            return {}
        return tune_thresholds(held.observed(), self._probs(self._ready(held.features)))

    def _scaled(self, features: Any) -> Any:
        return self.features_.transform(features, dtype=self._dtype())

    def _ready(self, scaled: Any) -> Any:
        """Return what :meth:`_probs` takes of features that the transformer has made ready."""
        return scaled

    def _read(self, X: Any) -> Any:
        """Return rows as they are predicted from."""
        return self._ready(self._scaled(self._check_features(X, reset=False)))

    def _split(
        self, features: Any, labels: NDArray[Any], validation: Any, seed: int
    ) -> tuple[NDArray[np.intp], Rows | None]:
        everything = np.arange(len(labels))
        if isinstance(validation, Dataset):
            validation = named_tables(validation)
        if validation is not None:
            if not isinstance(validation, tuple | list) or len(validation) != 2:
                raise ConfigError(
                    f"validation must be a pair (X, y); got {type(validation).__name__}. Pass (X_val, y_val)."
                )
            held = self._check_features(validation[0], reset=False)
            return everything, Rows(held, self._check_labels(validation[1], reset=False))
        fraction = require_share("validation_fraction", self.validation_fraction)
        if int(fraction * len(labels)) < MIN_VALIDATION_ROWS:
            return everything, None
        splitter = MultilabelStratifiedShuffleSplit(n_splits=1, test_size=fraction, random_state=seed)
        train, held_index = next(splitter.split(everything, labels))
        return train, Rows(take(features, held_index), labels[held_index])

    # Checking ---------------------------------------------------------------------------------------------

    def _check_features(self, X: Any, reset: bool) -> Any:
        """Return features as a float array, CSR, a frame when it has columns that are not numbers, or one of str."""
        if isinstance(X, Dataset):
            X, _ = named_tables(X)
        if self.features_.is_column:
            return self._check_column(X, reset)
        if isinstance(X, pd.DataFrame) and not all(pd.api.types.is_numeric_dtype(kind) for kind in X.dtypes):
            # validate_data would turn the frame into an array of objects; the names and the width still count.
            validate_data(self, X, skip_check_array=True, reset=reset)
            return X
        return validate_data(
            self,
            X,
            accept_sparse="csr" if self.accepts_sparse else False,
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,  # the scaler refuses infinity and names column and rows
            reset=reset,
        )

    def _check_column(self, X: Any, reset: bool) -> NDArray[Any]:
        """Return one column of str: texts or molecules."""
        column = self.features_.read_column(X)
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

    def _names_or_none(self) -> tuple[str, ...] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(names)

    def _check_labels(self, y: Any, reset: bool) -> NDArray[np.float32]:
        """Return labels of shape (n_samples, n_labels) of 0, 1 and NaN, and learn classes and names."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        names = [str(name) for name in y.columns] if isinstance(y, pd.DataFrame) else None
        # scipy's published type of a sparse object lacks toarray, which every one of them has.
        # issparse does not tell mypy that toarray is there.
        table: NDArray[Any] = np.asarray(y.toarray() if sparse.issparse(y) else y)  # type: ignore[attr-defined]
        if reset:
            self._learn_target(table, names)
            self.labels_are_named_ = names is not None
        elif names is not None and self.target_ == "labels" and self.labels_are_named_:
            table = table[:, _label_order(names, [str(name) for name in self.label_names_])]
        if self.target_ != "labels":
            if table.ndim == 2:
                table = table.ravel()
            unknown = sorted(set(table.tolist()) - set(self.classes_.tolist()), key=str)
            if unknown:
                raise DataError(f"validation classes must occur in training; got {listed(unknown)}. Remove these rows.")
            binary: NDArray[np.float32] = LabelBinarizer().fit(self.classes_).transform(table).astype(np.float32)
            return binary
        if table.ndim == 1:
            table = table[:, None]
        if table.shape[1] != self.n_labels_:
            raise DataError(
                f"labels must have {self.n_labels_} columns as in training; got {table.shape[1]}. Pass the same labels."
            )
        return _label_table(table, self.label_names_)

    def _learn_target(self, table: NDArray[Any], names: list[str] | None) -> None:
        if table.ndim > 2:
            raise DataError(f"y must have one or two dimensions; got shape {table.shape}. Pass rows by labels.")
        if table.ndim == 2 and (table.shape[1] > 1 or _is_label_column(table)):
            self.target_ = "labels"
            self.n_labels_ = table.shape[1]
            if names is not None and len(set(names)) < len(names):
                raise DataError(f"label names must be unique; got {listed(names)}. Rename the columns of y.")
            self.label_names_ = np.array(names or [f"label_{i}" for i in range(table.shape[1])], dtype=object)
            self.classes_ = np.arange(table.shape[1]) if table.shape[1] > 1 else np.array([0, 1])
            return
        if table.ndim == 2:
            warnings.warn(
                "A column-vector y was passed when a 1d array was expected; its classes are used as 1-D y.",
                DataWarning,
                stacklevel=4,
            )
            table = table.ravel()
        if np.issubdtype(table.dtype, np.floating) and not np.isfinite(table).all():
            raise DataError("y must be finite; got NaN or infinity. Only a table of labels (2-D y) may have gaps.")
        kind = type_of_target(table, raise_unknown=True, input_name="y")
        if kind not in ("binary", "multiclass"):
            raise ValueError(f"Unknown label type: {kind}. y must hold classes, or be a table of 0 and 1.")
        self.classes_ = np.unique(table)
        if len(self.classes_) < 2:
            raise DataError(
                f"y must have at least 2 classes; got 1 class ({self.classes_[0]!r}). Nothing can be learned from it."
            )
        self.target_ = "classes"
        self.n_labels_ = 1 if len(self.classes_) == 2 else len(self.classes_)
        shown = self.classes_[1:] if self.n_labels_ == 1 else self.classes_
        self.label_names_ = np.array([str(name) for name in shown], dtype=object)

    # Predicting -------------------------------------------------------------------------------------------

    def predict_proba(self, X: Any, given: Any = None) -> NDArray[np.floating[Any]]:
        """Probability of every label, or of every class when y was 1-D; alone, or given some labels.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
            Features, columns as in training.
        given : mapping, DataFrame or array, optional
            Given labels: 1 present, 0 absent, NaN unknown. A mapping of label names to values, of a row each or one for
            all rows, or a frame, names any of the labels; an array has a column for each. Only for models whose
            ``conditional`` is True.

        Returns
        -------
        ndarray of shape (n_samples, n_labels) or (n_samples, n_classes)
            Given labels as given; a row of which nothing is given has the values it has without ``given``.
            A row's values do not depend on the other rows. A DataFrame after :meth:`set_output`.
        """
        check_is_fitted(self)
        columns = self.label_names_ if self.target_ == "labels" else self.classes_
        return self._in_output_form(self._predict_probs(X, given), X, columns)

    def _predict_probs(self, X: Any, given: Any = None) -> NDArray[np.floating[Any]]:
        """Return what :meth:`predict_proba` says, always as an array."""
        features = self._read(X)
        if given is not None:
            return self._given_some(features, self._check_given(given, len_of(features)))
        probs = self._probs(features)
        if self.target_ == "labels":
            return probs
        probs = probs.astype(np.float64)
        if self.n_labels_ == 1:
            return np.column_stack([1 - probs, probs])
        total: NDArray[np.floating[Any]] = probs.sum(axis=1, keepdims=True)
        normalised: NDArray[np.floating[Any]] = probs / np.maximum(total, np.finfo(np.float64).tiny)
        return normalised

    def _probs_given(self, features: Any, given: NDArray[np.float32]) -> NDArray[np.floating[Any]]:
        """Return probabilities of all labels for rows made ready, given some of them (NaN: not given)."""
        rows = self._law_rows(features)
        if rows is not None:
            return rows.probs_given(given)
        name = type(self).__name__
        other = by_face(
            f", use HotVAEClassifier, or wrap it: JointClassifier(base={name}(...))",
            ", or train a model without --recipe and --model",
        )
        raise ConfigError(
            f"{option('given')} must go with a model that learns labels from labels; got {name}. Leave it out{other}."
        )

    def _given_some(self, features: Any, given: NDArray[np.float32]) -> NDArray[np.floating[Any]]:
        """Predict rows of which something is given from it; the others have the same values as without it."""
        has_given = ~np.isnan(given).all(axis=1)
        rows = np.flatnonzero(has_given)
        conditional = self._probs_given(take(features, rows), given[rows])
        probs = np.empty(given.shape, dtype=conditional.dtype)
        probs[rows] = np.where(np.isnan(given[rows]), conditional, given[rows])
        if not has_given.all():
            probs[~has_given] = self._probs(take(features, np.flatnonzero(~has_given)))
        return probs

    def _check_given(self, given: Any, n_rows: int) -> NDArray[np.float32]:
        """Return given labels of shape (n_rows, n_labels), NaN elsewhere."""
        self._require_label_table("given")
        names = [str(name) for name in self.label_names_]
        labels = self._check_labels(whole_given(given, names, n_rows, self.labels_are_named_), reset=False)
        if len(labels) != n_rows:
            raise DataError(f"given must have the rows of X, {n_rows}; got {len(labels)}. Use NaN for unknown labels.")
        return labels

    def _require_label_table(self, what: str) -> None:
        if self.target_ != "labels":
            raise ConfigError(f"{what} must go with a table of labels; got classes (1-D y). Fit on a 2-D y.")

    def sample(
        self,
        X: Any,
        n_draws: int = 1,
        random_state: int | np.random.RandomState | None = None,
        given: Any = None,
    ) -> NDArray[np.int8]:
        """Draw whole label sets.

        Labels go together in a draw as the model believes they do; a model that says nothing of it draws each label
        by itself.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
            Features, columns as in training.
        n_draws : int
            Label sets for each row.
        random_state : int, RandomState or None
            Decides the draws.
        given : mapping, DataFrame or array, optional
            Given labels, as in :meth:`predict_proba`; every draw has them.

        Returns
        -------
        ndarray of int8 of shape (n_draws, n_samples, n_labels)
            0 and 1.
        """
        return np.concatenate(list(self.sample_blocks(X, n_draws, random_state, given)))

    def sample_blocks(
        self,
        X: Any,
        n_draws: int = 1,
        random_state: int | np.random.RandomState | None = None,
        given: Any = None,
    ) -> Iterator[NDArray[np.int8]]:
        """Draw whole label sets, some draws at a time: the stream of :meth:`sample`, for draws that fill the memory.

        Parameters
        ----------
        X, n_draws, random_state, given
            As for :meth:`sample`.

        Yields
        ------
        ndarray of int8 of shape (some draws, n_samples, n_labels)
            One after the other they are what :meth:`sample` returns.
        """
        check_is_fitted(self)
        self._require_label_table("sample")
        require_count("n_draws", n_draws)
        features = self._read(X)
        fixed = None if given is None else self._check_given(given, len_of(features))
        random = np.random.default_rng(int(check_random_state(random_state).randint(2**31 - 1)))
        size = max(1, _CELLS_PER_BLOCK // max(1, len_of(features) * self.n_labels_))
        sizes = [min(size, int(n_draws) - start) for start in range(0, int(n_draws), size)]
        return self._draw_blocks(features, fixed, sizes, random)

    def _draw_blocks(
        self, features: Any, given: NDArray[np.float32] | None, sizes: list[int], random: np.random.Generator
    ) -> Iterator[NDArray[np.int8]]:
        """Yield blocks of draws for rows made ready: by the law of the labels, else each label by itself."""
        rows = self._law_rows(features)
        if rows is not None:
            yield from rows.draw_blocks(given, sizes, random)
            return
        probs = self._probs(features) if given is None else self._given_some(features, given)
        for size in sizes:
            yield (random.random((size, *probs.shape)) < probs).astype(np.int8)

    def _draws_of_rows(self, features: Any, given: NDArray[np.float32] | None, n_draws: int) -> NDArray[np.int8]:
        """Return draws that decide; the dice are the same for each row, which then does not depend on the others."""
        rows = self._law_rows(features)
        if rows is not None:
            return rows.draws_of_rows(given, n_draws)
        drawn = np.empty((n_draws, len_of(features), self.n_labels_), dtype=np.int8)
        for row in range(drawn.shape[1]):
            one, known = take(features, np.array([row])), None if given is None else given[[row]]
            drawn[:, [row]] = next(iter(self._draw_blocks(one, known, [n_draws], np.random.default_rng(0))))
        return drawn

    def log_likelihood(self, X: Any, y: Any, n_orders: int = 4) -> NDArray[np.float64]:
        """Log likelihood of whole label sets; labels are independent where the model says nothing of them together.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
            Features, columns as in training.
        y : array or DataFrame of shape (n_samples, n_labels)
            0, 1, or NaN for labels that are left out.
        n_orders : int
            Orders of the labels, for a law in which each label follows those before it; the likelihood is the mean
            over them.

        Returns
        -------
        ndarray of shape (n_samples,)
            In nats; higher is better. Of independent labels no probability counts as less than a millionth.
        """
        check_is_fitted(self)
        require_count("n_orders", n_orders)
        self._require_label_table("log_likelihood")
        features = self._read(X)
        labels = self._check_labels(y, reset=False)
        if len(labels) != len_of(features):
            raise DataError(f"y must have the rows of X, {len_of(features)}; got {len(labels)}. Pass the same rows.")
        return self._log_likelihood(features, labels, n_orders)

    def _log_likelihood(self, features: Any, labels: NDArray[np.float32], n_orders: int) -> NDArray[np.float64]:
        """Return the log likelihood of the labels of rows made ready."""
        rows = self._law_rows(features)
        if rows is not None:
            return rows.log_likelihood(labels, n_orders)
        present = np.clip(self._probs(features).astype(np.float64), _SURE, 1 - _SURE)
        cells = np.log(np.where(labels == 1, present, 1 - present))
        likelihood: NDArray[np.float64] = np.where(np.isnan(labels), 0.0, cells).sum(axis=1)
        return likelihood

    def predict(
        self,
        X: Any,
        objective: str | None = None,
        given: Any = None,
        n_draws: int = 200,
        empty: int = 1,
    ) -> NDArray[Any]:
        """Labels whose probability exceeds one half, or the list that is best for what one wants.

        When y was 1-D: the most probable class.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
            Features, columns as in training.
        objective : {"hamming", "f1", "jaccard", "subset"} or name of a metric, optional
            What the list of each row should be best for: ``"hamming"``, the default, each label by itself; ``"f1"``
            and ``"jaccard"`` the expected F1 or Jaccard index of the row; ``"subset"`` to be right altogether; or a
            metric with a tuned cut-off in ``thresholds_``. See :mod:`hotvae.estimators.decisions` for what is exact.
        given : array or DataFrame of shape (n_samples, n_labels), optional
            Known labels, as in :meth:`predict_proba`; the lists have them. A model of independent labels learns
            nothing of the others from them.
        n_draws : int
            Draws of whole label sets that ``"f1"`` and ``"jaccard"`` are decided by where labels depend on each other.
        empty : {1, 0}
            What ``"f1"`` and ``"jaccard"`` count for an empty list where no label is present.

        Returns
        -------
        ndarray of shape (n_samples, n_labels) of 0 and 1, or (n_samples,) of classes
            A DataFrame of labels after :meth:`set_output`.
        """
        check_is_fitted(self)
        if objective is None and given is None:
            probs = self._predict_probs(X)
            if self.target_ == "labels":
                return self._in_output_form((probs > 0.5).astype(np.int64), X, self.label_names_)
            picked: NDArray[Any] = self.classes_[probs.argmax(axis=1)]
            return picked
        self._require_label_table("objective")
        features = self._read(X)
        known = None if given is None else self._check_given(given, len_of(features))
        lists = self._decide(features, objective or "hamming", known, n_draws, empty).astype(np.int64)
        return self._in_output_form(lists, X, self.label_names_)

    def _decide(
        self, features: Any, objective: str, known: NDArray[np.float32] | None, n_draws: int, empty: int
    ) -> NDArray[np.bool_]:
        """Return the list of each row made ready that is best for an objective."""
        decisions.check_empty(empty)
        require_count("n_draws", n_draws)
        is_joint = self.draws_jointly
        if objective == "subset" and is_joint:
            law = self._law_rows(features)
            if law is not None:
                return law.likeliest(known)
        if objective in ("f1", "jaccard", "subset") and is_joint:
            size = max(1, _CELLS_PER_BLOCK // (int(n_draws) * self.n_labels_))
            lists = np.zeros((len_of(features), self.n_labels_), dtype=bool)
            for start in range(0, len(lists), size):
                rows = slice(start, start + size)
                part = None if known is None else known[rows]
                some = take(features, np.arange(len(lists))[rows])
                draws = self._draws_of_rows(some, part, int(n_draws))
                probs: Any = None  # the most frequent draw needs none
                if objective != "subset":
                    probs = self._probs(some) if part is None else self._given_some(some, part)
                lists[rows] = _DRAWN[objective](draws, empty, probs)
            return lists
        if known is None:
            probs = self._probs(features)
        elif self.conditional:
            probs = self._given_some(features, known)
        else:
            probs = np.where(np.isnan(known), self._probs(features), known)
        if objective in decisions.OBJECTIVES:
            return np.asarray(_INDEPENDENT[objective](probs, empty))
        name = _tuned_metric(objective, self.thresholds_)
        return np.asarray(apply_thresholds(probs, self.thresholds_[name]), dtype=bool)

    def set_output(self, *, predict: str | None = None, transform: str | None = None) -> Self:
        """Choose the form of predictions: arrays, or frames with the names of labels and the index of ``X``.

        scikit-learn has ``set_output`` for transformers; this is the same for a classifier of labels, and a copy made
        by ``clone`` keeps it. It is no parameter, and is not saved with the model.

        Parameters
        ----------
        predict : {"default", "pandas"}, optional
            Form of what :meth:`predict_proba` returns, and :meth:`predict` for a table of labels. None changes nothing.
        transform : {"default", "pandas"}, optional
            The same, under the name that scikit-learn gives it.

        Returns
        -------
        self

        Examples
        --------
        >>> from hotvae.baselines.prevalence import Prevalence
        >>> y = pd.DataFrame({"owl": [1, 0, 1, 1], "wren": [0, 0, 1, 0]})
        >>> Prevalence().fit([[0.0]] * 4, y).set_output(predict="pandas").predict([[5.0]])
           owl  wren
        0    1     0
        """
        chosen = predict if predict is not None else transform
        if chosen is not None:
            require_choice("predict", chosen, ("default", "pandas"))
            self._sklearn_output_config = {"predict": chosen}  # the attribute that clone copies
        return self

    def _in_output_form(self, values: NDArray[Any], X: Any, columns: NDArray[Any]) -> NDArray[Any]:
        """Return values as they are or, where someone has asked for it, as a frame."""
        if getattr(self, "_sklearn_output_config", {}).get("predict") != "pandas":
            return values
        index = X.index if isinstance(X, pd.DataFrame) else X.row_names if isinstance(X, Dataset) else None
        return cast("NDArray[Any]", pd.DataFrame(values, index=index, columns=[str(name) for name in columns]))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Macro-averaged F1 of :meth:`predict` for labels; accuracy when y was 1-D.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame
            Features.
        y : array
            True labels; NaN is left out.
        sample_weight : array, optional
            Weights of rows, for 1-D y only.

        Returns
        -------
        float
        """
        check_is_fitted(self)
        if self.target_ != "labels":
            return float(super().score(X, y, sample_weight))
        if sample_weight is not None:
            raise ConfigError("sample_weight must be None for a table of labels; got weights. Score subsets instead.")
        return macro_f1(self._check_labels(y, reset=False), np.asarray(self.predict(X)))

    # Parameters -------------------------------------------------------------------------------------------

    @classmethod
    def all_settings(cls) -> dict[str, Any]:
        """Every setting by a name of its own, with its default: parameters, and those of the objects among them.

        Settings files and ``--set`` use these names: ``max_epochs``, not ``training__max_epochs``.
        """
        return dict(cls().get_params(deep=False))

    @classmethod
    def from_settings(cls, **settings: Any) -> Self:
        """Make a classifier from settings by the names of :meth:`all_settings`."""
        return cls(**settings)

    def current_settings(self) -> dict[str, Any]:
        """Every setting as it is, by the names of :meth:`all_settings`, ready for JSON."""
        nested = {name: value for name, value in self.get_params().items() if not hasattr(value, "get_params")}
        names = sorted(nested, key=lambda name: "__" in name)  # a parameter of its own wins over one of a part
        found: dict[str, Any] = {}
        for name in names:
            leaf = name.rpartition("__")[2]
            found.setdefault(leaf, plain_parameter(leaf, nested[name]))
        return {name: value for name, value in found.items() if name not in ("training", "features")}

    def change_settings(self, **settings: Any) -> Self:
        """Set parameters by the names of :meth:`all_settings`; those that the model does not have are left out."""
        own = {name.rpartition("__")[2]: name for name in reversed(self.get_params())}
        self.set_params(**{own[name]: value for name, value in settings.items() if name in own})
        return self

    def check_parameters(self) -> None:
        """Find a parameter that is not allowed before any data are read; by default nothing is checked early."""

    # Saving -----------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], extra: Mapping[str, Any] | None = None) -> None:
        """Write the fitted model as a folder of JSON and safetensors, atomically.

        Parameters
        ----------
        path : path
            The folder; an older hotvae model there is replaced, anything else refused.
        extra : mapping, optional
            JSON-able notes stored with the model, such as where its table came from.
        """
        check_is_fitted(self)
        learned, tensors = self._learned()
        config = {
            "kind": type(self).__name__,
            "hotvae_version": version("hotvae"),
            "torch_version": str(torch.__version__),
            "params": self._plain_parameters(),
            "target": self.target_,
            "label_names": [str(name) for name in self.label_names_],
            "labels_are_named": self.labels_are_named_,
            "classes": {"dtype": self.classes_.dtype.str, "values": self.classes_.tolist()},
            "n_features_in": int(self.n_features_in_),
            "feature_names_in": None if self._names_or_none() is None else list(self.feature_names_in_),
            "features": self._features_state(),
            "thresholds": self.thresholds_,
            **learned,
            "extra": dict(extra or {}),
        }
        save_folder(path, config, tensors)

    def _plain_parameters(self) -> dict[str, Any]:
        """Return all parameters as JSON knows them."""
        return {name: plain_parameter(name, value) for name, value in self.get_params(deep=False).items()}

    @classmethod
    def _from_plain(cls, parameters: dict[str, Any]) -> Self:
        """Make a classifier from what :meth:`_plain_parameters` returned."""
        return cls(**parameters)

    def _features_state(self) -> dict[str, Any]:
        kind = type(self.features_).__name__
        if kind not in STORABLE:
            raise ModelError(
                f"features must be a transformer of hotvae.features to be saved; got {kind}. Transform the table "
                "before fit, or keep the model in memory."
            )
        return {"kind": kind, **self.features_.state()}

    @classmethod
    def load(cls, path: str | os.PathLike[str], **parameters: Any) -> Self:
        """Read a model that :meth:`save` wrote; nothing in the folder is executed.

        Parameters
        ----------
        path : path
            The folder.
        **parameters
            Parameters that no file can hold, such as an ``encoder`` of one's own.

        Returns
        -------
        fitted classifier
        """
        return cls._from_folder(path, *load_folder(path), **parameters)

    @classmethod
    def _from_folder(
        cls, path: str | os.PathLike[str], config: dict[str, Any], tensors: dict[str, Tensor], **parameters: Any
    ) -> Self:
        """Make a model of what was read from a folder, which is read once: it may be replaced at any time."""
        if config.get("kind") != cls.__name__:
            raise ModelError(
                f"model must be a {cls.__name__}; got {config.get('kind')!r} ({path}). Load it with hotvae.load_model."
            )
        try:
            for name, value in config["params"].items():
                if value == CUSTOM and name not in parameters:
                    raise ModelError(
                        f"{name} must be given: the model was made with a module of its own ({path}). It can be used "
                        f"from Python only, where that module is passed as {name} when it is loaded."
                    )
            own = {name: value for name, value in parameters.items() if config["params"].get(name) == CUSTOM}
            model = cls._from_plain(restored_parameter(config["params"]) | own)
            model.target_ = config["target"]
            model.label_names_ = np.array(config["label_names"], dtype=object)
            model.labels_are_named_ = config["labels_are_named"]
            classes = config["classes"]
            model.classes_ = np.array(classes["values"], dtype=np.dtype(classes["dtype"]))
            model.n_labels_ = len(model.label_names_)
            if len(set(config["label_names"])) < model.n_labels_:
                raise ValueError("label names must be unique")
            model.n_features_in_ = config["n_features_in"]
            if config["feature_names_in"] is not None:
                model.feature_names_in_ = np.array(config["feature_names_in"], dtype=object)
            model.features_ = STORABLE[config["features"]["kind"]].from_state(config["features"])
            model.thresholds_ = config["thresholds"]
            model.extra_ = config["extra"]
            model._check_description()
            model._restore(config, tensors)
        except ModelError:
            raise
        except Exception as error:  # of a description that someone else wrote it may be anything
            raise ModelError(
                f"model folder must describe a {cls.__name__}; got {type(error).__name__}: {error} ({Path(path)}). "
                "Its files do not fit together: restore them from a copy, or train again."
            ) from error
        return model

    def _check_description(self) -> None:
        """Refuse what a folder says of a model if its parts contradict each other; ValueError or TypeError says why."""
        n_features, names = self.n_features_in_, getattr(self, "feature_names_in_", None)
        if not isinstance(n_features, int) or (names is not None and names.shape != (n_features,)):
            raise ValueError(f"n_features_in must be the number of columns, not {n_features!r}")
        if not self.features_.is_column and len(self.features_.feature_names_in) != n_features:
            raise ValueError(f"n_features_in must be that of the transformer, not {n_features!r}")
        if not all(isinstance(name, str) for name in (*self.label_names_, *(() if names is None else names))):
            raise TypeError("names must be texts")
        if self.target_ not in ("labels", "classes"):
            raise ValueError(f"target must be labels or classes, not {self.target_!r}")
        for metric, cut in self.thresholds_.items():
            if metric not in METRICS or not 0 <= float(cut) <= 1:
                raise ValueError(f"thresholds must be shares by measure, not {metric!r}: {cut!r}")
        if not isinstance(self.extra_, dict):
            raise TypeError("extra must hold names and values")

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what the estimator accepts."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        tags.input_tags.sparse = self.accepts_sparse
        tags.input_tags.allow_nan = True
        return tags


# Decisions from draws of whole label sets, and from probabilities of independent labels.
_DRAWN: dict[str, Any] = {
    "f1": decisions.f1_of_draws,
    "jaccard": decisions.jaccard_of_draws,
    "subset": lambda draws, empty, probs: decisions.most_frequent(draws),
}
_INDEPENDENT: dict[str, Any] = {
    "hamming": lambda probs, empty: decisions.likely(probs),
    "f1": decisions.f1_independent,
    "jaccard": decisions.jaccard_independent,
    "subset": lambda probs, empty: decisions.likely(probs),
}


def _tuned_metric(objective: str, thresholds: Mapping[str, float]) -> str:
    """Return the metric whose cut-off decides."""
    try:
        name = find_metric(objective, needs="predictions").name
    except ConfigError:
        raise ConfigError(
            f"objective must be one of {listed(decisions.OBJECTIVES)} or a metric with a tuned threshold "
            f"({listed(list(thresholds)) or 'none'}); got {objective!r}. Choose one of them."
        ) from None
    if name not in thresholds:
        raise ConfigError(
            f"objective must have a tuned threshold; got {name!r}, and the model was fitted without validation rows. "
            "Choose 'f1', 'jaccard', 'subset' or 'hamming', or fit it with validation rows."
        )
    return name


def plain_parameter(name: str, value: Any) -> Any:
    """Turn a parameter into JSON; what only made sense while training is left out."""
    if isinstance(value, torch.nn.Module):
        return CUSTOM
    if name == "graph" and not isinstance(value, str):
        return "complete"  # the graph itself is stored with the weights
    if name in ("random_state", "state_file") and not isinstance(value, int):
        return None
    if isinstance(value, tuple):
        return [plain_parameter(name, part) for part in value]
    return value.item() if isinstance(value, np.generic) else value


def restored_parameter(value: Any) -> Any:
    """Turn JSON back into a parameter, or a dict of them: sequences are tuples, as they were."""
    if isinstance(value, dict):
        return {name: restored_parameter(part) for name, part in value.items()}
    return tuple(restored_parameter(part) for part in value) if isinstance(value, list) else value


def named_tables(data: Dataset) -> tuple[Any, pd.DataFrame]:
    """Return features and labels of a data set with their names, as far as the tables can carry them."""
    features: Any = data.features
    if isinstance(features, np.ndarray):
        features = pd.DataFrame(features, columns=list(data.feature_names))
    return features, pd.DataFrame(data.labels, columns=list(data.label_names))


def len_of(rows: Any) -> int:
    """Return the number of rows of a table or of Rows."""
    return len(rows) if isinstance(rows, Rows) else int(rows.shape[0])


def _is_label_column(table: NDArray[Any]) -> bool:
    try:
        values = table.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return bool(np.isin(values[~np.isnan(values)], (0, 1)).all())


def _label_order(names: list[str], expected: list[str]) -> list[int]:
    """Places of the training labels among the columns of another label table."""
    missing, unknown = sorted(set(expected) - set(names)), sorted(set(names) - set(expected))
    if missing or unknown or len(names) != len(expected):
        raise DataError(
            f"labels must be those of training; got none of {listed(missing)} and unknown {listed(unknown)} "
            "(columns of y). Pass the same columns, in any order."
        )
    return [names.index(name) for name in expected]


def _label_table(table: NDArray[Any], names: NDArray[Any]) -> NDArray[np.float32]:
    """Check that a table of labels holds 0, 1 and NaN only."""
    try:
        values = table.astype(np.float32)
    except (TypeError, ValueError):
        raise DataError("labels must be numbers 0, 1 or NaN; got text. Code presence as 1, absence as 0.") from None
    wrong = ~(np.isnan(values) | (values == 0) | (values == 1))
    if wrong.any():
        rows, columns = np.nonzero(wrong)
        first = columns[0]
        raise DataError(
            f"labels must be 0 or 1; got {table[rows[0], first]} in column {str(names[first])!r} "
            f"(rows {listed(rows[columns == first])}). Counts? Use (y > 0)."
        )
    return values


def _warn_of_single_class(labels: NDArray[Any], names: NDArray[Any]) -> None:
    """Say which labels cannot be learned; an error would end every cross-validation with a rare label (ADR 0007)."""
    positives, observed = np.nansum(labels, axis=0), (~np.isnan(labels)).sum(axis=0)
    stuck = (positives == 0) | (positives == observed)
    if stuck.any():
        warnings.warn(
            f"labels must have both classes to be learned; got 1 class in {listed(names[stuck])}. "
            "Their predictions stay near their rate: drop them, or add rows.",
            DataWarning,
            stacklevel=3,
        )


def _refuse_missing(labels: NDArray[Any], names: NDArray[Any], kind: str) -> None:
    gaps = np.isnan(labels).any(axis=0)
    if gaps.any():
        raise DataError(
            f"labels must all be observed for {kind}; got NaN in {listed(names[gaps])}. "
            "Drop these rows or columns, or choose a model that takes gaps (hotvae models)."
        )
