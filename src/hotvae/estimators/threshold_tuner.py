"""ThresholdTuner: cut-offs for any multi-label classifier, chosen on rows it was not trained on."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from hotvae.data.splits import MultilabelStratifiedKFold, MultilabelStratifiedShuffleSplit
from hotvae.errors import ConfigError, DataError
from hotvae.estimators.thresholds import apply_thresholds, evaluate, tune_label_thresholds, tune_thresholds
from hotvae.metrics import find_metric


def label_probs(estimator: Any, X: Any) -> NDArray[np.floating[Any]]:
    """Probability of each label from any fitted multi-label classifier.

    scikit-learn's classifiers answer in two ways: an array (n_samples, n_labels), or a list with an array of class
    probabilities for each label. A label of one class in training has one column there, and its certainty is kept.

    Parameters
    ----------
    estimator : fitted classifier
        Has ``predict_proba``.
    X : array-like
        Features.

    Returns
    -------
    ndarray of shape (n_samples, n_labels)
    """
    answer = estimator.predict_proba(X)
    if not isinstance(answer, list):
        return np.asarray(answer)
    columns = []
    for probs, classes in zip(answer, estimator.classes_, strict=True):
        where = np.flatnonzero(np.asarray(classes) == 1)
        columns.append(probs[:, where[0]] if len(where) else np.zeros(len(probs)))
    return np.column_stack(columns)


def _has_proba(tuner: Any) -> bool:
    return hasattr(getattr(tuner, "estimator_", tuner.estimator), "predict_proba")


class ThresholdTuner(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Predict labels with cut-offs tuned for a metric instead of one half.

    Parameters
    ----------
    estimator : classifier
        Any multi-label classifier with ``predict_proba``.
    metric : str
        The prediction metric to maximise: ``"macro_f1"``, ``"micro_f1"``, ``"example_f1"``, ``"hamming_accuracy"``
        or ``"subset_accuracy"``.
    per_label : bool
        One threshold for each label (its own F1, or accuracy for ``"hamming_accuracy"``) instead of one for all.
    cv : float, int, splitter or "prefit"
        Where the thresholds are chosen. A float holds out this share of the rows and trains on the rest; a whole
        number or a splitter uses out-of-fold probabilities and then trains on all rows; ``"prefit"``
        takes a fitted estimator, and ``fit`` only tunes on the rows it is given.
    random_state : int, RandomState or None
        Decides the split.

    Attributes
    ----------
    estimator_ : classifier
        The fitted estimator.
    thresholds_ : float or ndarray of shape (n_labels,)
        The chosen cut-offs.
    validation_scores_ : dict
        All measures on the rows that chose the thresholds.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import ExtraTreesClassifier
    >>> from hotvae import ThresholdTuner
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> Y = (X + rng.normal(size=X.shape) > 1.5).astype(int)  # rare labels
    >>> tuner = ThresholdTuner(ExtraTreesClassifier(50, random_state=0), random_state=0).fit(X, Y)
    >>> bool(tuner.thresholds_ < 0.5)
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        metric: str = "macro_f1",
        per_label: bool = False,
        cv: float | int | Literal["prefit"] | Any = 0.2,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.metric = metric
        self.per_label = per_label
        self.cv = cv
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Train the estimator and choose the thresholds.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples, n_labels)
            0, 1 or NaN; with ``cv="prefit"`` the rows that choose the thresholds.

        Returns
        -------
        self
        """
        metric = find_metric(self.metric, needs="predictions").name
        if self.per_label and metric in ("example_f1", "subset_accuracy"):
            raise ConfigError(
                f"metric must be one that is counted label by label for per_label=True; got {self.metric!r}. "
                "Use 'macro_f1' or 'hamming_accuracy'."
            )
        labels = np.asarray(y)
        if labels.ndim != 2:
            raise DataError(
                f"y must be a table of labels (n_samples, n_labels); got shape {labels.shape}. "
                "For one label pass y[:, None]."
            )
        truth, probs = self._held_out(X, y, labels)
        if self.per_label:
            kind: Literal["f1", "accuracy"] = "accuracy" if metric == "hamming_accuracy" else "f1"
            self.thresholds_: Any = tune_label_thresholds(truth, probs, kind)
        else:
            self.thresholds_ = tune_thresholds(truth, probs, (metric,))[metric]
        self.validation_scores_ = evaluate(truth, probs, self.thresholds_)
        self.classes_ = getattr(self.estimator_, "classes_", np.arange(labels.shape[1]))
        if hasattr(self.estimator_, "n_features_in_"):
            self.n_features_in_ = self.estimator_.n_features_in_
        if hasattr(self.estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.estimator_.feature_names_in_
        return self

    def _held_out(self, X: Any, y: Any, labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Fit the estimator and return labels and probabilities of rows it has not seen."""
        if isinstance(self.cv, str):
            if self.cv != "prefit":
                raise ConfigError(f"cv must be a share, a number of folds, a splitter or 'prefit'; got {self.cv!r}.")
            check_is_fitted(self.estimator)
            self.estimator_ = self.estimator
            return labels, label_probs(self.estimator_, X)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if isinstance(self.cv, float):
            splitter = MultilabelStratifiedShuffleSplit(n_splits=1, test_size=self.cv, random_state=seed)
            train, held = next(splitter.split(np.zeros(len(labels)), labels))
            self.estimator_ = clone(self.estimator).fit(_safe_indexing(X, train), _safe_indexing(y, train))
            return labels[held], label_probs(self.estimator_, _safe_indexing(X, held))
        folds = MultilabelStratifiedKFold(self.cv, random_state=seed) if isinstance(self.cv, int) else check_cv(self.cv)
        truths, probs = [], []
        for train, held in folds.split(np.zeros(len(labels)), labels):
            fold = clone(self.estimator).fit(_safe_indexing(X, train), _safe_indexing(y, train))
            truths.append(labels[held])
            probs.append(label_probs(fold, _safe_indexing(X, held)))
        self.estimator_ = clone(self.estimator).fit(X, y)
        return np.concatenate(truths), np.concatenate(probs)

    @available_if(_has_proba)
    def predict_proba(self, X: Any) -> NDArray[np.floating[Any]]:
        """Probabilities of the labels, as an array whatever the estimator's own form.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
        """
        check_is_fitted(self)
        return label_probs(self.estimator_, X)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Labels whose probability reaches the tuned threshold.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
        """
        check_is_fitted(self)
        return apply_thresholds(label_probs(self.estimator_, X), self.thresholds_).astype(np.int64)

    def score(self, X: Any, y: ArrayLike, sample_weight: None = None) -> float:
        """Value of ``metric`` on other rows, at the tuned thresholds.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples, n_labels)
            0, 1 or NaN.
        sample_weight : None
            Accepted for scikit-learn's sake; weights are not supported.

        Returns
        -------
        float
        """
        if sample_weight is not None:
            raise ConfigError("sample_weight must be None; got weights. Score subsets of rows instead.")
        metric = find_metric(self.metric, needs="predictions")
        return float(metric.function(np.asarray(y), self.predict(X)))

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that targets are tables of labels."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        inner = getattr(self.estimator, "__sklearn_tags__", None)
        if inner is not None:
            tags.input_tags.sparse = inner().input_tags.sparse
            tags.input_tags.allow_nan = inner().input_tags.allow_nan
        return tags
