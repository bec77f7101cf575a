"""Forests of decision trees for all labels together: random forests and extremely randomised trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from torch import Tensor

from hotvae.baselines.tensor_io import array, pack, unpack
from hotvae.baselines.trees import Trees
from hotvae.config import require_count, require_number
from hotvae.errors import ConfigError, ModelError
from hotvae.estimators.base import LabelClassifier, LabelledRows
from hotvae.estimators.per_label import (
    LabelGroup,
    label_groups,
    label_rates,
    limited_threads,
    middle,
    unit_rows,
    watch,
)
from hotvae.metrics import log_loss
from hotvae.training.progress import Style

# scikit-learn holds two numbers for each node and label: so many bytes of them are taken at a time.
_BYTES_AT_ONCE = 1 << 28
# Up to so many columns it is worth trying splits that look at most of them.
_FEW_FEATURES = 150


class Forest(NamedTuple):
    """Trees that share their rows, and the share of each label in their leaves.

    Attributes
    ----------
    labels : ndarray of int, shape (n_own_labels,)
        Labels the trees are about.
    trees : Trees
    leaf : ndarray of int32, shape (n_nodes,)
        Row of ``shares`` for each leaf; -1 elsewhere.
    shares : csr_matrix of shape (n_leaves, n_own_labels)
        Share of the training rows of a leaf that have the label; mostly zero when labels are many.
    """

    labels: NDArray[np.intp]
    trees: Trees
    leaf: NDArray[np.int32]
    shares: Any

    def probs(self, features: Any) -> NDArray[np.float64]:
        """Mean share over the trees, for the labels of this forest."""
        n_trees = len(self.trees.roots)
        means = np.empty((features.shape[0], len(self.labels)))
        for rows, leaves in self.trees.leaves(features, np.float32):
            starts = np.arange(0, leaves.size + 1, n_trees)
            picked = sparse.csr_matrix(
                (np.ones(leaves.size), self.leaf[leaves.ravel()], starts), shape=(len(leaves), self.shares.shape[0])
            )
            means[rows] = (picked @ self.shares).toarray() / n_trees
        return means


def grow_forest(
    kind: Any, features: Any, labels: NDArray[Any], group: LabelGroup, n_trees: int, seed: int, **settings: Any
) -> Forest:
    """Grow trees for the labels of a group, a few at a time, and keep what prediction needs.

    Parameters
    ----------
    kind : class
        A forest of scikit-learn.
    features : ndarray or csr_matrix of shape (n_samples, n_features)
        Scaled features.
    labels : ndarray of shape (n_samples, n_labels)
        0, 1 or NaN.
    group : LabelGroup
        Labels observed in the same rows.
    n_trees : int
        How many.
    seed : int
        Decides the trees.
    **settings
        Further parameters of ``kind``.

    Returns
    -------
    Forest

    Examples
    --------
    >>> X = np.arange(6.0)[:, None]
    >>> Y = (X > [2, 3]).astype(float)
    >>> group, = label_groups(Y)
    >>> grow_forest(ExtraTreesClassifier, X, Y, group, 4, 0, min_samples_leaf=1).probs(X[:1])
    array([[0., 0.]])
    """
    own = features if len(group.rows) == len(labels) else features[group.rows]
    targets = labels[np.ix_(group.rows, group.labels)].astype(np.int8)
    targets = targets[:, 0] if len(group.labels) == 1 else targets
    bytes_per_tree = 2 * len(group.rows) / settings.get("min_samples_leaf", 1) * 16 * len(group.labels)
    at_once = max(1, int(_BYTES_AT_ONCE / bytes_per_tree))
    seeds = np.random.default_rng(seed)
    parts, leaf_parts, share_parts, n_leaves = [], [], [], 0
    for start in range(0, n_trees, at_once):
        count = min(at_once, n_trees - start)
        forest = kind(count, random_state=int(seeds.integers(2**31 - 1)), **settings).fit(own, targets)
        for grown in (member.tree_ for member in forest.estimators_):
            is_leaf = grown.children_left < 0
            parts.append(
                Trees(
                    np.where(is_leaf, -1, grown.feature).astype(np.int32),
                    grown.threshold.astype(np.float64),
                    grown.children_left.astype(np.int32),
                    grown.children_right.astype(np.int32),
                    np.zeros(1, dtype=np.int32),
                )
            )
            leaf = np.full(len(is_leaf), -1, dtype=np.int32)
            leaf[is_leaf] = n_leaves + np.arange(is_leaf.sum())
            n_leaves += int(is_leaf.sum())
            leaf_parts.append(leaf)
            share_parts.append(sparse.csr_matrix(grown.value[is_leaf][:, :, 1]))
    shares = sparse.csr_matrix(sparse.vstack(share_parts, format="csr"))
    return Forest(group.labels, Trees.joined(parts), np.concatenate(leaf_parts), shares)


class _ForestClassifier(LabelClassifier):
    """What both forests share: everything but scikit-learn's class."""

    _kind: ClassVar[Any]
    _wide_share: ClassVar[float]

    def __init__(
        self,
        *,
        n_trees: int = 300,
        leaf_sizes: Sequence[int] = (1, 3, 5, 10, 20),
        max_features: str | float = "auto",
        validation_fraction: float = 0.2,
        random_state: int | np.random.RandomState | None = None,
        n_threads: int | None = None,
        progress: Style = "silent",
    ) -> None:
        self.n_trees = n_trees
        self.leaf_sizes = leaf_sizes
        self.max_features = max_features
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.n_threads = n_threads
        self.progress = progress

    def _settings(self, n_features: int) -> list[dict[str, Any]]:
        if not isinstance(self.leaf_sizes, Sequence | np.ndarray) or not len(self.leaf_sizes):
            raise ConfigError(f"leaf_sizes must hold at least one whole number; got {self.leaf_sizes!r}. Try (1, 5).")
        shares: tuple[Any, ...] = (self.max_features,)
        if isinstance(self.max_features, str):
            if self.max_features not in ("auto", "sqrt"):
                raise ConfigError(f"max_features must be 'auto', 'sqrt' or a share; got {self.max_features!r}.")
            # Of few columns the square root and the share may be the same number.
            differ = max(1, int(n_features**0.5)) != max(1, int(n_features * self._wide_share))
            both = self.max_features == "auto" and n_features <= _FEW_FEATURES and differ
            shares = ("sqrt", self._wide_share) if both else ("sqrt",)
        elif require_number("max_features", self.max_features, above=True) > 1:
            raise ConfigError(f"max_features must be a share of at most 1; got {self.max_features!r}.")
        sizes = [require_count("each of leaf_sizes", size) for size in self.leaf_sizes]
        return [{"max_features": share, "min_samples_leaf": size} for share, size in product(shares, sizes)]

    def _learn(self, train: LabelledRows, validation: LabelledRows | None, seed: int) -> None:
        n_trees = require_count("n_trees", self.n_trees)
        settings = self._settings(train.features.shape[1])
        rows, groups = unit_rows(train.features, False), label_groups(train.labels)
        self.rates_ = label_rates(train.labels)
        self.n_trees_ = 0

        def grow(count: int, setting: dict[str, Any]) -> None:
            threads = -1 if self.n_threads is None else self.n_threads
            grown = [
                grow_forest(self._kind, rows, train.labels, group, count, seed, n_jobs=threads, **setting)
                for group in groups
            ]
            self.forests_, self.n_trees_ = grown, count

        def attempt(setting: dict[str, Any]) -> float:
            # A quarter of the trees is enough to tell the candidates apart.
            grow(max(1, n_trees // 4), setting)
            return log_loss(validation.labels, self._probs(validation.features)) if validation is not None else 0.0

        with limited_threads(self.n_threads):
            self.setting_ = middle(settings[: len(self.leaf_sizes)])
            if validation is not None and len(settings) > 1:
                losses = watch(attempt, settings, self.progress, self.title)
                self.setting_ = settings[int(np.argmin(losses))]
            grow(n_trees, self.setting_)

    def _probs(self, features: Any) -> NDArray[np.floating[Any]]:
        rows = unit_rows(features, False)
        probs = np.tile(self.rates_, (features.shape[0], 1))
        for forest in self.forests_:
            # One more tree, of a root only: what no leaf has seen is rare, not impossible.
            voted = self.n_trees_ * forest.probs(rows)
            probs[:, forest.labels] = (voted + self.rates_[forest.labels]) / (self.n_trees_ + 1)
        return probs

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        tensors = pack("rates", self.rates_)
        for number, forest in enumerate(self.forests_):
            tensors |= {
                **pack(f"forest_{number}.labels", forest.labels),
                **forest.trees.pack(f"forest_{number}"),
                **pack(f"forest_{number}.leaf", forest.leaf),
                **pack(f"forest_{number}.shares", forest.shares),
            }
        notes = {"setting": self.setting_, "n_forests": len(self.forests_), "n_trees": self.n_trees_}
        return notes, tensors

    def _restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.setting_, self.n_trees_ = config["setting"], config["n_trees"]
        self.rates_ = array("rates", tensors, (self.n_labels_,))
        self.forests_ = []
        for number in range(config["n_forests"]):
            name = f"forest_{number}"
            trees = Trees.unpack(name, tensors, self.scaler_.n_features_out)
            labels = array(f"{name}.labels", tensors, (None,))
            leaf, shares = array(f"{name}.leaf", tensors, trees.feature.shape), unpack(f"{name}.shares", tensors)
            ends = leaf[trees.feature < 0]
            if (
                shares.shape[1] != len(labels)
                or not np.isin(labels, np.arange(self.n_labels_)).all()
                or ((ends < 0) | (ends >= shares.shape[0])).any()
            ):
                raise ModelError("leaves must fit the trees and labels; they do not. Restore the model from a copy.")
            self.forests_.append(Forest(labels, trees, leaf, shares))


class RandomForest(_ForestClassifier):
    """Random forest whose trees are about all labels, with leaf size and split width chosen on validation rows.

    Parameters
    ----------
    n_trees : int
        Trees.
    leaf_sizes : sequence of int
        Candidates for the fewest rows in a leaf; without validation rows the middle one is taken.
    max_features : {"auto", "sqrt"} or float
        Columns that a split looks at: the square root of their number, or a share of them. ``"auto"`` also tries a
        third of the columns (all of them in :class:`ExtraTrees`) when there are at most 150.
    validation_fraction : float
        Share of rows held out to choose the settings, with a quarter of the trees, by log loss, and thresholds.
    random_state : int, RandomState or None
        Decides the rows held out and the trees.
    n_threads : int or None
        CPU threads; None uses all.
    progress : {"auto", "bar", "lines", "silent"}
        How the search is shown.

    Attributes
    ----------
    setting_ : dict
        The settings chosen.
    forests_ : list of Forest
        One for each set of labels observed in the same rows.

    Notes
    -----
    Labels observed in the same rows share their trees; each other pattern of gaps gets a forest of its own. A root that
    knows the rates alone votes with the trees, so that no probability is 0 or 1.

    Examples
    --------
    >>> import numpy as np
    >>> from hotvae.baselines.forests import RandomForest
    >>> X = np.linspace(-1, 1, 100)[:, None]
    >>> Y = np.column_stack([abs(X[:, 0]) < 0.5, X[:, 0] < 0.5])
    >>> RandomForest(n_trees=20, random_state=0, n_threads=1).fit(X, Y).predict([[0.9], [0.0]])
    array([[0, 0],
           [1, 1]])
    """

    title = "random forest"
    citation: ClassVar[str] = "Breiman (2001). Random forests. Machine Learning."
    cost: ClassVar[str] = "seconds to minutes; grows with rows times labels; once more for each pattern of gaps"
    _kind: ClassVar[Any] = RandomForestClassifier
    _wide_share: ClassVar[float] = 1 / 3


class ExtraTrees(_ForestClassifier):
    """Extremely randomised trees about all labels, with leaf size and split width chosen on validation rows.

    Parameters
    ----------
    n_trees, leaf_sizes, max_features, validation_fraction, random_state, n_threads, progress
        As in :class:`RandomForest`.

    Examples
    --------
    >>> import numpy as np
    >>> from hotvae.baselines.forests import ExtraTrees
    >>> X = np.linspace(-1, 1, 100)[:, None]
    >>> Y = np.column_stack([abs(X[:, 0]) < 0.5, X[:, 0] < 0.5])
    >>> ExtraTrees(n_trees=20, random_state=0, n_threads=1).fit(X, Y).predict([[0.9], [0.0]])
    array([[0, 0],
           [1, 1]])
    """

    title = "extremely randomised trees"
    citation: ClassVar[str] = "Geurts, Ernst & Wehenkel (2006). Extremely randomized trees. Machine Learning."
    cost: ClassVar[str] = "seconds to minutes; grows with rows times labels; once more for each pattern of gaps"
    _kind: ClassVar[Any] = ExtraTreesClassifier
    _wide_share: ClassVar[float] = 1.0
