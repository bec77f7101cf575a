"""Scikit-learn's models behind one face: forests of decision trees, boosted trees and logistic regression.

A model is fitted for each group of labels observed in the same rows, and kept as plain arrays: nothing is pickled, and
predictions are the same before and after saving, whichever version of scikit-learn reads the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse
from scipy.special import expit, log_expit, logit
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from hotvae.baselines.base import Held, TableClassifier
from hotvae.baselines.tensor_io import array, pack_all, unpack
from hotvae.config import require_count, require_number
from hotvae.errors import ConfigError, ModelError
from hotvae.estimators.per_label import (
    dense,
    label_groups,
    label_rates,
    middle,
    require_candidates,
    squared_lengths,
    watch,
)
from hotvae.metrics import log_loss

# Cells (row, tree) and (row, column) held at a time.
_CELLS_PER_BLOCK = 1 << 21
# A forest of scikit-learn holds two numbers for each node and label: so many bytes of them are grown at a time.
_BYTES_AT_ONCE = 1 << 28
# Up to so many columns it is worth trying splits that look at most of them.
_FEW_FEATURES = 150
# Scikit-learn's own limit for histograms.
_MOST_BINS = 255
# Steps of the optimiser for a logistic regression; hundreds are rare.
_MOST_STEPS = 2000


def groups_of_rows(rows: Any, labels: NDArray[Any]) -> Iterator[tuple[Any, NDArray[np.int8], NDArray[np.intp]]]:
    """Yield rows, their labels and the numbers of these labels, for labels of both classes observed together."""
    for group in label_groups(labels):
        own = rows if len(group.rows) == len(labels) else rows[group.rows]
        yield own, labels[np.ix_(group.rows, group.labels)].astype(np.int8), group.labels


# Trees -----------------------------------------------------------------------------------------------------


class Trees(NamedTuple):
    """Decision trees as arrays, one after another; a node's number is its place in the arrays.

    Not those of :mod:`hotvae.estimators.trees`: boosting compares in 64 bits, its leaves add to log odds, children
    stand anywhere behind their parent, and models are stored so. Those hold shares of labels in 16 bits, for speed.
    """

    feature: NDArray[np.int32]  # (n_nodes,): the column that is looked at; -1 in a leaf
    threshold: NDArray[np.float64]  # (n_nodes,): values up to it go left
    left: NDArray[np.int32]  # (n_nodes,): where to go on, always further back in the arrays; -1 in a leaf
    right: NDArray[np.int32]
    roots: NDArray[np.int32]  # (n_trees,): the first node of each tree

    @classmethod
    def one(cls, is_leaf: NDArray[Any], feature: Any, threshold: Any, left: Any, right: Any) -> Trees:
        """Make one tree from scikit-learn's arrays, whose values in leaves mean nothing."""
        feature, left, right = (
            np.where(is_leaf, -1, part.astype(np.int64)).astype(np.int32) for part in (feature, left, right)
        )
        return cls(feature, threshold.astype(np.float64), left, right, np.zeros(1, dtype=np.int32))

    @classmethod
    def joined(cls, parts: Sequence[Trees]) -> Trees:
        """Put several sets of trees, at least one, one after another."""
        starts = np.cumsum([0, *(len(part.feature) for part in parts[:-1])])
        moved = [
            part._replace(
                left=np.where(part.left < 0, -1, part.left + start).astype(np.int32),
                right=np.where(part.right < 0, -1, part.right + start).astype(np.int32),
                roots=(part.roots + start).astype(np.int32),
            )
            for part, start in zip(parts, starts, strict=True)
        ]
        return cls(*(np.concatenate(columns) for columns in zip(*moved, strict=True)))

    def first(self, n_trees: int) -> Trees:
        """Keep the first trees only."""
        end = self.roots[n_trees] if n_trees < len(self.roots) else len(self.feature)
        feature, threshold, left, right, roots = self
        return Trees(feature[:end], threshold[:end], left[:end], right[:end], roots[:n_trees])

    def leaves(self, rows: Any, dtype: DTypeLike) -> Iterator[tuple[slice, NDArray[np.intp]]]:
        """Walk rows, dense or sparse, down all trees, and yield the nodes they end in, (some rows, n_trees).

        Values are compared as ``dtype``, as when the trees were grown.
        """
        n_rows, n_features = rows.shape
        step = max(1, _CELLS_PER_BLOCK // max(len(self.roots), n_features))
        for start in range(0, n_rows, step):
            block = dense(rows[start : start + step])
            values = np.ascontiguousarray(block, dtype=dtype).ravel()
            nodes = np.tile(self.roots.astype(np.intp), len(block))
            first_cell = np.repeat(np.arange(len(block)) * n_features, len(self.roots))
            walking = np.flatnonzero(self.feature[nodes] >= 0)
            while walking.size:
                at = nodes[walking]
                goes_left = values[first_cell[walking] + self.feature[at]] <= self.threshold[at]
                nodes[walking] = np.where(goes_left, self.left[at], self.right[at])
                walking = walking[self.feature[nodes[walking]] >= 0]
            yield slice(start, start + len(block)), nodes.reshape(len(block), len(self.roots))

    @classmethod
    def unpack(cls, name: str, tensors: Mapping[str, Tensor], n_features: int) -> Trees:
        """Read trees from named tensors; ValueError where a walk would leave the arrays or never end."""
        trees = cls(*(array(f"{name}.{part}", tensors, (None,)) for part in cls._fields))
        n_nodes = len(trees.feature)
        if any(len(part) != n_nodes for part in trees[:4]):
            raise ValueError("the arrays of the trees have different lengths")
        inner = np.flatnonzero(trees.feature >= 0)
        children = np.concatenate([trees.left[inner], trees.right[inner]])
        inside = (children > np.concatenate([inner, inner])) & (children < n_nodes)
        if not inside.all() or (trees.feature >= n_features).any():
            raise ValueError("the trees lead outside of their arrays")
        if ((trees.roots < 0) | (trees.roots >= n_nodes)).any():
            raise ValueError("the roots are no nodes of the trees")
        return trees


# Forests ---------------------------------------------------------------------------------------------------


class Forest(NamedTuple):
    """Trees that share their rows, and the share of each label in their leaves."""

    labels: NDArray[np.intp]  # (n_own_labels,): the labels the trees are about
    trees: Trees
    leaf: NDArray[np.int32]  # (n_nodes,): the row of `shares` for each leaf; -1 elsewhere
    shares: Any  # CSR, (n_leaves, n_own_labels): share of a leaf's training rows that have the label, mostly 0

    def probs(self, rows: Any) -> NDArray[np.float64]:
        """Mean share over the trees, for the labels of this forest."""
        n_trees = len(self.trees.roots)
        means = np.empty((rows.shape[0], len(self.labels)))
        for block, leaves in self.trees.leaves(rows, np.float32):
            starts = np.arange(0, leaves.size + 1, n_trees)
            picked = sparse.csr_matrix(
                (np.ones(leaves.size), self.leaf[leaves.ravel()], starts), shape=(len(leaves), self.shares.shape[0])
            )
            means[block] = (picked @ self.shares).toarray() / n_trees
        return means


def grow_forests(kind: Any, rows: Any, labels: NDArray[Any], n_trees: int, seed: int, **settings: Any) -> list[Forest]:
    """Grow a forest of scikit-learn for each group of labels, a few trees at a time, and keep what prediction needs."""
    forests = []
    for own, targets, members in groups_of_rows(rows, labels):
        bytes_per_tree = 2 * own.shape[0] / settings.get("min_samples_leaf", 1) * 16 * len(members)
        at_once = max(1, int(_BYTES_AT_ONCE / bytes_per_tree))
        seeds = np.random.default_rng(seed)
        trees, leaves, shares, n_leaves = [], [], [], 0
        for start in range(0, n_trees, at_once):
            forest = kind(min(at_once, n_trees - start), random_state=int(seeds.integers(2**31 - 1)), **settings)
            forest.fit(own, targets[:, 0] if len(members) == 1 else targets)
            for grown in (member.tree_ for member in forest.estimators_):
                is_leaf = grown.children_left < 0
                parts = (grown.feature, grown.threshold, grown.children_left, grown.children_right)
                trees.append(Trees.one(is_leaf, *parts))
                leaves.append(np.where(is_leaf, n_leaves + np.cumsum(is_leaf) - 1, -1).astype(np.int32))
                shares.append(sparse.csr_matrix(grown.value[is_leaf][:, :, 1]))
                n_leaves += int(is_leaf.sum())
        joined = sparse.csr_matrix(sparse.vstack(shares, format="csr"))
        forests.append(Forest(members, Trees.joined(trees), np.concatenate(leaves), joined))
    return forests


@dataclass(kw_only=True, eq=False, repr=False)
class RandomForest(TableClassifier):
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
    validation_fraction, random_state, n_threads, progress
        As in :class:`~hotvae.baselines.base.TableClassifier`.

    Attributes
    ----------
    setting_ : dict
        The settings chosen.
    forests_ : list of Forest
        One for each set of labels observed in the same rows.

    Notes
    -----
    Labels observed in the same rows share their trees; each other pattern of gaps gets a forest of its own. The rate of
    each label counts as one more tree, so that no probability is 0 or 1.

    Examples
    --------
    >>> import numpy as np
    >>> from hotvae.baselines.scikit import RandomForest
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

    n_trees: int = 300
    leaf_sizes: Sequence[int] = (1, 3, 5, 10, 20)
    max_features: str | float = "auto"

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

    def _fit(self, rows: Any, labels: NDArray[Any], held: Held | None, seed: int) -> None:
        n_trees = require_count("n_trees", self.n_trees)
        settings = self._settings(rows.shape[1])
        self.rates_ = label_rates(labels)
        self.setting_ = middle(settings[: len(self.leaf_sizes)])

        def grow(setting: dict[str, Any], count: int) -> list[Forest]:
            threads = -1 if self.n_threads is None else self.n_threads
            return grow_forests(self._kind, rows, labels, count, seed, n_jobs=threads, **setting)

        if held is not None and len(settings) > 1:
            self.setting_, _ = self._fit_best(
                lambda setting: grow(setting, max(1, n_trees // 4)),  # enough to tell the candidates apart
                lambda forests: log_loss(held[1], self._vote(forests, held[0])),
                settings,
            )
        self.forests_ = grow(self.setting_, n_trees)

    def _predict(self, rows: Any) -> NDArray[np.float64]:
        return self._vote(self.forests_, rows)

    def _vote(self, forests: list[Forest], rows: Any) -> NDArray[np.float64]:
        probs = np.tile(self.rates_, (rows.shape[0], 1))
        for forest in forests:
            n_trees = len(forest.trees.roots)
            # The rate is one more tree, of a root only: what occurs in no leaf is rare, not impossible.
            probs[:, forest.labels] = (n_trees * forest.probs(rows) + self.rates_[forest.labels]) / (n_trees + 1)
        return probs

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        tables = {"rates": self.rates_}
        for number, (labels, trees, leaf, shares) in enumerate(self.forests_):
            parts = {"labels": labels, **trees._asdict(), "leaf": leaf, "shares": shares}
            tables |= {f"forest_{number}.{part}": table for part, table in parts.items()}
        return {"setting": self.setting_, "n_forests": len(self.forests_)}, pack_all(tables)

    def _restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.setting_ = config["setting"]
        self.rates_ = array("rates", tensors, (self.n_labels_,))
        self.forests_ = []
        for number in range(config["n_forests"]):
            name = f"forest_{number}"
            trees = Trees.unpack(name, tensors, self.features_.n_features_out)
            labels, leaf = (
                array(f"{name}.labels", tensors, (None,)),
                array(f"{name}.leaf", tensors, trees.feature.shape),
            )
            shares = unpack(f"{name}.shares", tensors)
            fits = np.isin(leaf[trees.feature < 0], np.arange(shares.shape[0])).all()
            if not fits or shares.shape[1] != len(labels) or not np.isin(labels, np.arange(self.n_labels_)).all():
                raise ModelError("leaves must fit the trees and labels; they do not. Restore the model from a copy.")
            self.forests_.append(Forest(labels, trees, leaf, shares))


class ExtraTrees(RandomForest):
    """Extremely randomised trees about all labels, with leaf size and split width chosen on validation rows.

    Parameters
    ----------
    n_trees, leaf_sizes, max_features, validation_fraction, random_state, n_threads, progress
        As in :class:`RandomForest`.
    """

    title = "extremely randomised trees"
    citation: ClassVar[str] = "Geurts, Ernst & Wehenkel (2006). Extremely randomized trees. Machine Learning."
    _kind: ClassVar[Any] = ExtraTreesClassifier
    _wide_share: ClassVar[float] = 1.0


# Boosted trees ---------------------------------------------------------------------------------------------


class Boosted(NamedTuple):
    """The boosted trees of some labels."""

    labels: NDArray[np.intp]  # (n_own_labels,): the labels the trees are about
    trees: Trees  # one for each round of the first label, then those of the second, and so on
    steps: NDArray[np.float64]  # (n_nodes,): what a leaf adds to the log odds
    starts: NDArray[np.float64]  # (n_own_labels,): log odds before the first round

    def rounds(self, rows: Any) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Yield the log odds after each round, (some rows, n_own_labels, n_rounds)."""
        for block, leaves in self.trees.leaves(rows, np.float64):
            steps = self.steps[leaves].reshape(len(leaves), len(self.labels), -1)
            yield block, self.starts[:, None] + np.cumsum(steps, axis=2)

    @classmethod
    def joined(cls, parts: Sequence[Boosted], n_rounds: int) -> Boosted:
        """Put the first rounds of models of one label each, at least one, together."""
        kept = [part.trees.first(n_rounds) for part in parts]
        steps = [part.steps[: len(trees.feature)] for part, trees in zip(parts, kept, strict=True)]
        labels, starts = (np.concatenate([getattr(part, name) for part in parts]) for name in ("labels", "starts"))
        return cls(labels, Trees.joined(kept), np.concatenate(steps), starts)


def boost(
    rows: NDArray[Any], present: NDArray[np.bool_], label: int, columns: NDArray[np.intp], **settings: Any
) -> Boosted:
    """Boost trees for one label of both classes, which split the given columns, and keep what prediction needs."""
    model = HistGradientBoostingClassifier(early_stopping=False, **settings).fit(rows[:, columns], present)
    # The trees stand in private attributes only; a test compares our predictions with scikit-learn's own.
    grown = [tree.nodes for (tree,) in model._predictors]
    trees = [
        Trees.one(
            nodes["is_leaf"], columns[nodes["feature_idx"]], nodes["num_threshold"], nodes["left"], nodes["right"]
        )
        for nodes in grown
    ]
    steps = np.concatenate([np.where(nodes["is_leaf"], nodes["value"], 0.0) for nodes in grown])
    return Boosted(np.array([label]), Trees.joined(trees), steps, np.array([model._baseline_prediction.item()]))


@dataclass(kw_only=True, eq=False, repr=False)
class BoostedTrees(TableClassifier):
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
    validation_fraction, random_state, n_threads, progress
        As in :class:`~hotvae.baselines.base.TableClassifier`.

    Attributes
    ----------
    n_rounds_ : int
        Rounds kept.
    boosted_ : Boosted or None
        The trees of the labels that could be learned; None when none could.

    Notes
    -----
    Sparse features are made dense for fitting, as scikit-learn's trees need them. A label with gaps is learned from
    the rows it was observed in; a label of one class keeps its rate. A column whose commonest value leaves fewer than
    ``min_leaf_rows`` rows aside, such as a rare word, cannot be split and is left out, which saves most of the time on
    a bag of words.
    """

    title = "boosted trees"
    citation: ClassVar[str] = (
        "Friedman (2001). Greedy function approximation. Annals of Statistics; histograms: Ke et al. (2017). LightGBM. "
        "NeurIPS."
    )
    takes: ClassVar[str] = "tables, dense (sparse ones are made dense); labels may have gaps"
    cost: ClassVar[str] = "a second or more for each label; grows with rows times columns"

    max_rounds: int = 200
    learning_rate: float = 0.05
    max_leaves: int = 8
    min_leaf_rows: int = 20
    penalty: float = 1.0
    feature_share: float = 0.3

    def _fit(self, rows: Any, labels: NDArray[Any], held: Held | None, seed: int) -> None:
        rows = dense(rows)
        n_rounds = require_count("max_rounds", self.max_rounds)
        least = require_count("min_leaf_rows", self.min_leaf_rows)
        share = require_number("feature_share", self.feature_share, above=True)
        if share > 1:
            raise ConfigError(f"feature_share must be at most 1; got {self.feature_share!r}.")
        settings = {
            "max_iter": n_rounds,
            "learning_rate": require_number("learning_rate", self.learning_rate, above=True),
            "max_leaf_nodes": require_count("max_leaves", self.max_leaves, least=2),
            "min_samples_leaf": least,
            "l2_regularization": require_number("penalty", self.penalty),
            "max_features": share,
            "max_bins": _n_bins(rows),
            "random_state": seed,
        }
        steps = [
            (group.rows, columns, label)
            for group in label_groups(labels)
            for columns in [_splittable(rows[group.rows], least)]
            for label in group.labels.tolist()
        ]
        models: list[Boosted] = []
        losses, n_cells = np.zeros(n_rounds), 0

        def learn(step: tuple[NDArray[np.intp], NDArray[np.intp], int]) -> float:
            nonlocal losses, n_cells
            own, columns, label = step
            judged, present = rows[own], labels[own, label] == 1
            models.append(boost(judged, present, label, columns, **settings))
            if held is not None:
                seen = np.flatnonzero(~np.isnan(held[1][:, label]))
                judged, present = held[0][seen], held[1][seen, label] == 1
            odds = np.concatenate([np.empty((0, n_rounds)), *(odds[:, 0] for _, odds in models[-1].rounds(judged))])
            losses = losses - log_expit(np.where(present[:, None], odds, -odds)).sum(axis=0)
            n_cells += len(odds)
            return float(losses.min() / max(1, n_cells))

        watch(learn, steps, self.progress, self.title, "label")
        self.rates_ = label_rates(labels)
        self.n_rounds_ = n_rounds if held is None else int(np.argmin(losses)) + 1
        self.boosted_ = Boosted.joined(models, self.n_rounds_) if models else None

    def _predict(self, rows: Any) -> NDArray[np.float64]:
        odds = np.tile(logit(self.rates_), (rows.shape[0], 1))
        if self.boosted_ is not None:
            for block, own in self.boosted_.rounds(rows):
                odds[block, self.boosted_.labels] = own[:, :, -1]
        probs: NDArray[np.float64] = expit(odds)
        return probs

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        tables: dict[str, Any] = {"rates": self.rates_}
        if self.boosted_ is not None:
            labels, trees, steps, starts = self.boosted_
            tables |= {f"trees.{part}": table for part, table in trees._asdict().items()}
            tables |= {"labels": labels, "steps": steps, "starts": starts}
        return {"n_rounds": self.n_rounds_}, pack_all(tables)

    def _restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.n_rounds_ = config["n_rounds"]
        self.rates_ = array("rates", tensors, (self.n_labels_,))
        self.boosted_ = None
        if "labels" not in tensors:
            return
        labels = array("labels", tensors, (None,))
        trees = Trees.unpack("trees", tensors, self.features_.n_features_out)
        steps, starts = array("steps", tensors, trees.feature.shape), array("starts", tensors, labels.shape)
        if len(trees.roots) != len(labels) * self.n_rounds_ or (np.diff(trees.roots) <= 0).any():
            raise ValueError("every label must have n_rounds trees, one after another")
        if not np.isin(labels, np.arange(self.n_labels_)).all():
            raise ValueError("labels must be columns of the label table")
        self.boosted_ = Boosted(labels, trees, steps, starts)


def _n_bins(rows: NDArray[np.float64]) -> int:
    """Bins that lose nothing: a table of 0 and 1 needs two, and is done in a fraction of the time."""
    most = max(len(np.unique(rows[:, column])) for column in range(rows.shape[1]))
    return int(np.clip(most, 2, _MOST_BINS))


def _splittable(rows: NDArray[np.float64], least: int) -> NDArray[np.intp]:
    """Columns that have room for a split with `least` rows on either side; all where none has."""
    commonest = np.array([np.unique(column, return_counts=True)[1].max() for column in rows.T])
    columns = np.flatnonzero(commonest <= len(rows) - least)
    return columns if len(columns) else np.arange(rows.shape[1])


# Logistic regression ---------------------------------------------------------------------------------------


class Odds(NamedTuple):
    """Log odds that are linear in the features."""

    weights: NDArray[np.float64]  # (n_features, n_labels)
    intercepts: NDArray[np.float64]  # (n_labels,)

    def logits(self, features: Any) -> NDArray[np.float64]:
        """Log odds of rows."""
        logits: NDArray[np.float64] = features @ self.weights + self.intercepts
        return logits

    def probs(self, features: Any) -> NDArray[np.float64]:
        """Probabilities of rows."""
        probs: NDArray[np.float64] = expit(self.logits(features))
        return probs


def fit_logistic(
    rows: Any, labels: NDArray[Any], penalty: float, *, start: Odds | None = None, unit: float | None = None
) -> Odds:
    """Fit a logistic regression for each label, on the rows it was observed in; a label of one class has its rate.

    The penalty is on squared weights, in units of the mean squared length of a row unless ``unit`` is given;
    intercepts are free. ``start`` is where to begin, such as the solution for another penalty.
    """
    odds = Odds(np.zeros((rows.shape[1], labels.shape[1])), logit(label_rates(labels)))
    start = odds if start is None else start
    unit = (float(squared_lengths(rows).mean()) or 1.0) if unit is None else unit
    for own, targets, members in groups_of_rows(rows, labels):
        model = LogisticRegression(C=1 / (penalty * unit), max_iter=_MOST_STEPS, warm_start=True)
        for label, target in zip(members, targets.T, strict=True):
            model.coef_, model.intercept_ = start.weights[:, label][None].copy(), start.intercepts[[label]].copy()
            model.fit(own, target)
            odds.weights[:, label], odds.intercepts[label] = model.coef_[0], model.intercept_[0]
    return odds


@dataclass(kw_only=True, eq=False, repr=False)
class LogisticLabels(TableClassifier):
    """Logistic regression for each label on its own, with one penalty chosen for all.

    Parameters
    ----------
    penalties : sequence of float
        Candidates for the penalty on squared weights, in units of the mean squared length of a row; validation rows
        choose by log loss, and without them the middle one is taken.
    unit_length, validation_fraction, random_state, n_threads, progress
        As in :class:`~hotvae.baselines.base.TableClassifier`.

    Attributes
    ----------
    penalty_ : float
        The penalty chosen.
    odds_ : Odds
        Weights and intercepts.
    """

    title = "logistic regression"
    citation: ClassVar[str] = (
        "Binary relevance: Boutell et al. (2004). Learning multi-label scene classification. Pattern Recognition."
    )
    cost: ClassVar[str] = "seconds to minutes; grows with rows times labels"

    penalties: Sequence[float] = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
    unit_length: bool | None = None

    def _fit(self, rows: Any, labels: NDArray[Any], held: Held | None, seed: int) -> None:
        penalties = sorted(require_candidates("penalties", self.penalties), reverse=True)
        last = None  # from strong to weak, each solution is a good start for the next

        def fit(penalty: float) -> Odds:
            nonlocal last
            last = fit_logistic(rows, labels, penalty, start=last)
            return last

        if held is None:
            self.penalty_ = middle(penalties)
            self.odds_ = fit(self.penalty_)
        else:
            self.penalty_, self.odds_ = self._fit_best(
                fit, lambda odds: log_loss(held[1], odds.probs(held[0])), penalties
            )

    def _predict(self, rows: Any) -> NDArray[np.float64]:
        return self.odds_.probs(rows)

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return {"penalty": self.penalty_}, pack_all(self.odds_._asdict())

    def _restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        shape = (self.features_.n_features_out, self.n_labels_)
        self.penalty_ = config["penalty"]
        self.odds_ = Odds(array("weights", tensors, shape), array("intercepts", tensors, shape[1:]))
