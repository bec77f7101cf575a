"""Gradient boosting of histogram trees, one model for each label and one number of rounds for all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, logit
from sklearn.ensemble import HistGradientBoostingClassifier
from torch import Tensor

from hotvae.baselines.tensor_io import array, pack
from hotvae.baselines.trees import Trees
from hotvae.config import require_count, require_number
from hotvae.errors import ConfigError
from hotvae.estimators.base import LabelClassifier, LabelledRows
from hotvae.estimators.per_label import dense, label_groups, label_rates, limited_threads, watch
from hotvae.training.progress import Style

# scikit-learn's own limit.
_MOST_BINS = 255


class Boosted(NamedTuple):
    """The boosted trees of one label.

    Attributes
    ----------
    trees : Trees
        One for each round.
    steps : ndarray of shape (n_nodes,)
        What a leaf adds to the log odds.
    start : float
        Log odds before the first round.
    """

    trees: Trees
    steps: NDArray[np.float64]
    start: float

    def odds(self, features: NDArray[Any]) -> NDArray[np.float64]:
        """Log odds after each round, shape (n_samples, n_rounds)."""
        odds = np.empty((len(features), len(self.trees.roots)))
        for rows, leaves in self.trees.leaves(features, np.float64):
            odds[rows] = self.start + np.cumsum(self.steps[leaves], axis=1)
        return odds

    def first(self, n_rounds: int) -> Boosted:
        """Keep the first rounds only."""
        first, end = self.trees.bounds(0, n_rounds)
        return Boosted(self.trees.between(0, n_rounds), self.steps[first:end], self.start)


def boost(
    features: NDArray[Any],
    present: NDArray[np.bool_],
    n_rounds: int,
    seed: int,
    columns: NDArray[np.intp] | None = None,
    **settings: Any,
) -> Boosted:
    """Boost trees for one label and keep what prediction needs.

    Parameters
    ----------
    features : ndarray of shape (n_samples, n_features)
        Scaled features.
    present : ndarray of bool, shape (n_samples,)
        The label, of both classes.
    n_rounds : int
        Trees.
    seed : int
        Decides the columns each split looks at.
    columns : ndarray of int, optional
        Columns that trees may split; all unless told.
    **settings
        Further parameters of scikit-learn's ``HistGradientBoostingClassifier``.

    Returns
    -------
    Boosted

    Examples
    --------
    >>> X = np.arange(40.0)[:, None]
    >>> model = boost(X, X[:, 0] > 20, n_rounds=20, seed=0, min_samples_leaf=5)
    >>> expit(model.odds(X[[0, 39]])[:, -1]).round(1)
    array([0.1, 0.9])
    """
    taken = np.arange(features.shape[1]) if columns is None else columns
    model = HistGradientBoostingClassifier(max_iter=n_rounds, early_stopping=False, random_state=seed, **settings).fit(
        features[:, taken], present
    )
    parts, steps = [], []
    # The trees stand in private attributes only; a test compares our predictions with scikit-learn's own.
    for (grown,) in model._predictors:
        nodes = grown.nodes
        is_leaf = nodes["is_leaf"].astype(bool)
        parts.append(
            Trees(
                np.where(is_leaf, -1, taken[nodes["feature_idx"]]).astype(np.int32),
                nodes["num_threshold"].astype(np.float64),
                np.where(is_leaf, -1, nodes["left"].astype(np.int64)).astype(np.int32),
                np.where(is_leaf, -1, nodes["right"].astype(np.int64)).astype(np.int32),
                np.zeros(1, dtype=np.int32),
            )
        )
        steps.append(np.where(is_leaf, nodes["value"], 0.0))
    return Boosted(Trees.joined(parts), np.concatenate(steps), float(np.ravel(model._baseline_prediction)[0]))


class BoostedTrees(LabelClassifier):
    """Histogram gradient boosting for each label, with the number of rounds chosen on validation rows.

    Parameters
    ----------
    max_rounds : int
        Trees for each label at most; validation rows keep the number with the least log loss over all labels, and
        without them all are kept.
    learning_rate : float
        How much of each tree is added.
    max_leaves : int
        Most leaves of a tree.
    min_leaf_rows : int
        Fewest rows in a leaf.
    penalty : float
        On the squared values of leaves.
    feature_share : float
        Share of the columns that a split looks at, out of those that can be split.
    validation_fraction : float
        Share of rows held out to choose the rounds and thresholds.
    random_state : int, RandomState or None
        Decides the rows held out and the columns looked at.
    n_threads : int or None
        CPU threads; None uses all.
    progress : {"auto", "bar", "lines", "silent"}
        How the fit is shown, label by label.

    Attributes
    ----------
    n_rounds_ : int
        Rounds kept.
    boosted_ : dict of int to Boosted
        The trees of each label that could be learned.

    Notes
    -----
    Sparse features are made dense for fitting, as scikit-learn's trees need them. A label with gaps is learned from
    the rows it was observed in; a label of one class keeps its rate. A column whose commonest value leaves fewer than
    ``min_leaf_rows`` rows aside, such as a rare word, cannot be split and is left out, which saves most of the time on
    a bag of words.

    Examples
    --------
    >>> import numpy as np
    >>> from hotvae.baselines.boosting import BoostedTrees
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> Y = np.column_stack([abs(X[:, 0]) < 0.5, X[:, 0] < 0.5])
    >>> BoostedTrees(max_rounds=50, random_state=0, n_threads=1).fit(X, Y).predict([[0.9], [0.0]])
    array([[0, 0],
           [1, 1]])
    """

    title = "boosted trees"
    citation: ClassVar[str] = (
        "Friedman (2001). Greedy function approximation. Annals of Statistics; histograms: Ke et al. (2017). LightGBM. "
        "NeurIPS."
    )
    takes: ClassVar[str] = "tables, dense (sparse ones are made dense); labels may have gaps"
    cost: ClassVar[str] = "a second or more for each label; grows with rows times columns"

    def __init__(
        self,
        *,
        max_rounds: int = 200,
        learning_rate: float = 0.05,
        max_leaves: int = 8,
        min_leaf_rows: int = 20,
        penalty: float = 1.0,
        feature_share: float = 0.3,
        validation_fraction: float = 0.2,
        random_state: int | np.random.RandomState | None = None,
        n_threads: int | None = None,
        progress: Style = "silent",
    ) -> None:
        self.max_rounds = max_rounds
        self.learning_rate = learning_rate
        self.max_leaves = max_leaves
        self.min_leaf_rows = min_leaf_rows
        self.penalty = penalty
        self.feature_share = feature_share
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.n_threads = n_threads
        self.progress = progress

    def _learn(self, train: LabelledRows, validation: LabelledRows | None, seed: int) -> None:
        n_rounds = require_count("max_rounds", self.max_rounds)
        rows = dense(train.features)
        least = require_count("min_leaf_rows", self.min_leaf_rows)
        share = require_number("feature_share", self.feature_share, above=True)
        if share > 1:
            raise ConfigError(f"feature_share must be at most 1; got {self.feature_share!r}.")
        settings = {
            "learning_rate": require_number("learning_rate", self.learning_rate, above=True),
            "max_leaf_nodes": require_count("max_leaves", self.max_leaves, least=2),
            "min_samples_leaf": least,
            "l2_regularization": require_number("penalty", self.penalty),
            "max_features": share,
            "max_bins": _n_bins(rows),
        }
        members = [
            (group.rows, columns, label)
            for group in label_groups(train.labels)
            for columns in [_splittable(rows[group.rows], least)]
            for label in group.labels
        ]
        held = None if validation is None else dense(validation.features)
        losses, n_cells = np.zeros(n_rounds), 0
        self.rates_ = label_rates(train.labels)
        self.boosted_: dict[int, Boosted] = {}

        def learn(member: tuple[NDArray[np.intp], NDArray[np.intp], np.intp]) -> float:
            nonlocal losses, n_cells
            own, columns, label = member
            present = train.labels[own, label] == 1
            model = boost(rows[own], present, n_rounds, seed, columns, **settings)
            self.boosted_[int(label)] = model
            truth, told = (present, model.odds(rows[own])) if held is None else (None, model.odds(held))
            if validation is not None:
                seen = ~np.isnan(validation.labels[:, label])
                truth, told = validation.labels[seen, label] == 1, told[seen]
            loss = -log_expit(np.where(np.asarray(truth)[:, None], told, -told)).sum(axis=0)
            losses, n_cells = losses + loss, n_cells + len(told)
            return float(losses.min() / max(1, n_cells))

        with limited_threads(self.n_threads):
            watch(learn, members, self.progress, self.title, "label")
        self.n_rounds_ = n_rounds if validation is None else int(np.argmin(losses)) + 1
        self.boosted_ = {label: model.first(self.n_rounds_) for label, model in self.boosted_.items()}

    def _probs(self, features: Any) -> NDArray[np.floating[Any]]:
        odds = np.tile(logit(self.rates_), (features.shape[0], 1))
        rows = dense(features)
        for label, model in self.boosted_.items():
            odds[:, label] = model.odds(rows)[:, -1]
        probs: NDArray[np.floating[Any]] = expit(odds)
        return probs

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        tensors = pack("rates", self.rates_)
        if self.boosted_:
            models = list(self.boosted_.values())
            tensors |= {
                **pack("labels", np.array(list(self.boosted_))),
                **Trees.joined([model.trees for model in models]).pack("trees"),
                **pack("steps", np.concatenate([model.steps for model in models])),
                **pack("starts", np.array([model.start for model in models])),
            }
        return {"n_rounds": self.n_rounds_}, tensors

    def _restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.n_rounds_ = config["n_rounds"]
        self.rates_ = array("rates", tensors, (self.n_labels_,))
        self.boosted_ = {}
        if "labels" not in tensors:
            return
        labels = array("labels", tensors, (None,))
        trees = Trees.unpack("trees", tensors, self.scaler_.n_features_out)
        steps = array("steps", tensors, trees.feature.shape)
        starts = array("starts", tensors, labels.shape)
        if len(trees.roots) != len(labels) * self.n_rounds_ or (np.diff(trees.roots) <= 0).any():
            raise ValueError("every label must have n_rounds trees, one after another")
        if not np.isin(labels, np.arange(self.n_labels_)).all():
            raise ValueError("labels must be columns of the label table")
        for place, (label, start) in enumerate(zip(labels, starts, strict=True)):
            span = place * self.n_rounds_, (place + 1) * self.n_rounds_
            own = slice(*trees.bounds(*span))
            self.boosted_[int(label)] = Boosted(trees.between(*span), steps[own], float(start))


def _n_bins(rows: NDArray[np.float64]) -> int:
    """Bins that lose nothing: a table of 0 and 1 needs two, and is done in a fraction of the time."""
    most = max(len(np.unique(rows[:, column])) for column in range(rows.shape[1]))
    return int(np.clip(most, 2, _MOST_BINS))


def _splittable(rows: NDArray[np.float64], least: int) -> NDArray[np.intp]:
    """Columns that have room for a split with `least` rows on either side; all where none has."""
    commonest = np.array([np.unique(column, return_counts=True)[1].max() for column in rows.T])
    columns = np.flatnonzero(commonest <= len(rows) - least)
    return columns if len(columns) else np.arange(rows.shape[1])
