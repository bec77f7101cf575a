"""A forest for tables of many labels: grown by scikit-learn, kept as a few arrays, asked many rows at a time.

Trees are grown for the first principal scores of the labels, which costs much less than growing them for every label;
their leaves then hold the share of *every* label among the training rows that fall into them.

A tree is written level by level from its root. The two children of the k-th node that splits (k = 0, 1, ...) stand side
by side at places 2k + 1 and 2k + 2, so nothing but the split of each node has to be stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logit
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.utils.extmath import randomized_svd
from torch import Tensor
from torch.nn.functional import embedding_bag

from hotvae.config import require_choice, require_count, require_number
from hotvae.errors import ConfigError, DataError, ModelError, listed
from hotvae.estimators.per_label import dense, is_sparse, label_rates, with_short_indices

#: Bytes that the leaves of one forest may take; beyond it trees become fewer, then leaves larger.
MAX_LEAF_BYTES = 256 * 1024**2
# Under the cap trees become fewer down to so many, then leaves larger until a tree has room for so many, then trees
# fewer again.
_FEWEST_TREES, _FEWEST_LEAVES = 20, 16
# Sparse rows are grown as dense ones where they take no more bytes than this: it is many times faster.
_DENSE_BYTES = 400 * 1024**2
# Scikit-learn holds the targets of all nodes: so many bytes of them are grown at a time.
_GROWN_BYTES = 1 << 28
# Walks that go on side by side, rows of them at most, and values of features: few enough for the caches.
_WALKS, _WALKED_ROWS, _WALKED_VALUES = 1 << 14, 1 << 11, 1 << 20
# Levels that all walks go down before those that have ended are taken out: at first, and each time after.
_FIRST_LEVELS, _LEVELS = 8, 4
# Rows whose leaves are summed at a time, cells of their sums, and bytes of the leaves that are summed together.
_SUMMED_ROWS, _SUMMED_CELLS, _SUMMED_BYTES = 1 << 14, 1 << 22, 1 << 23


class _Steps(NamedTuple):
    """The trees as walks need them, node by node (see `Trees._steps`)."""

    start: NDArray[np.int64]  # where the values of the node's feature start, in a table of `n_rows` a feature
    step: NDArray[np.int64]  # left child << 32, plus 2**32 - 1 - key of the threshold: see `_walk`
    leaf: NDArray[np.int32]  # the row of `shares`; -1 where the node splits
    used: NDArray[np.intp]  # the features that any node looks at
    n_rows: int  # rows that walk together, at most


@dataclass(frozen=True, eq=False, repr=False)
class Trees:
    """Decision trees, and the share of every label in their leaves.

    Attributes
    ----------
    feature : ndarray of shape (n_nodes,), int32
        The column a node looks at; -1 in a leaf. Trees stand one after another, each level by level.
    threshold : ndarray of shape (n_nodes,), float32
        Values up to it go left; 0 in a leaf.
    tree_sizes : ndarray of shape (n_trees,), int64
        Nodes of each tree.
    shares : ndarray of shape (n_leaves, n_labels), float16
        Share of the training rows in a leaf that have the label, in the order of the leaves among the nodes.
    prevalence : ndarray of shape (n_labels,), float32
        Share of all training rows that have the label (:func:`~hotvae.estimators.per_label.label_rates`).
    n_features : int
        Columns of the table.
    note : str
        What had to be changed so that the leaves stay under their cap, in a sentence; empty where nothing was. It is
        not stored.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 100)[:, None]
    >>> Y = np.column_stack([abs(X[:, 0]) < 0.5, X[:, 0] < 0.5]).astype(float)
    >>> trees = Trees.grow(X, Y, n_trees=20)
    >>> trees.probs(np.array([[0.9], [0.0]])).round()
    array([[0., 0.],
           [1., 1.]], dtype=float32)
    """

    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    tree_sizes: NDArray[np.int64]
    shares: NDArray[np.float16]
    prevalence: NDArray[np.float32]
    n_features: int
    note: str = ""

    @classmethod
    def grow(
        cls,
        features: Any,
        labels: NDArray[Any],
        *,
        n_trees: int = 60,
        min_leaf: int = 3,
        max_features: float = 1.0,
        seed: int = 0,
        kind: Literal["extra", "forest"] = "extra",
        n_targets: int = 16,
        max_bytes: int = MAX_LEAF_BYTES,
    ) -> Trees:
        """Grow trees on rows.

        Parameters
        ----------
        features : ndarray or sparse matrix of shape (n_rows, n_features)
            Numbers, none of them absent.
        labels : ndarray of shape (n_rows, n_labels)
            0, 1, or NaN for not observed. A leaf's share is that of the rows in which the label was observed, and the
            prevalence where there are none.
        n_trees : int
            Trees.
        min_leaf : int
            The fewest rows in a leaf.
        max_features : float
            Share of the columns that a split looks at.
        seed : int
            The same seed grows the same trees.
        kind : {"extra", "forest"}
            Extremely randomised trees on all rows, or a random forest, each of whose trees draws its rows anew. The
            leaves of both hold the shares among *all* rows that fall into them: what a tree draws is there to make its
            splits differ (shares among the drawn rows were measured to be as good, and no better).
        n_targets : int
            With more labels than this, trees are grown for so many principal scores of the labels.
        max_bytes : int
            Bytes that the leaves may take.

        Returns
        -------
        Trees
        """
        require_choice("kind", kind, ("extra", "forest"))
        if require_number("max_features", max_features, above=True) > 1:
            raise ConfigError(f"max_features must be a share of at most 1; got {max_features!r}. Try 1.0.")
        n_rows, n_labels = labels.shape
        if features.shape[0] != n_rows or not n_rows:
            raise DataError(
                f"features and labels must have the same rows, at least one; got {features.shape[0]} and {n_rows}. "
                "Give both for the same rows."
            )
        n_trees, min_leaf, note = _under_cap(
            n_rows, n_labels, require_count("n_trees", n_trees), require_count("min_leaf", min_leaf), max_bytes
        )
        rows = _rows_to_grow_on(features)
        rates = label_rates(labels)
        targets = _scores(np.where(np.isnan(labels), rates, labels), require_count("n_targets", n_targets), seed)
        model = ExtraTreesRegressor if kind == "extra" else RandomForestRegressor
        settings = {"min_samples_leaf": min_leaf, "max_features": float(max_features), "n_jobs": 1}
        at_once = max(1, int(_GROWN_BYTES // (2 * targets.size / min_leaf * 16)))
        # The forest as one call would grow it, where it fits into memory; its next part by a seed of its own.
        seeds = [seed, *np.random.SeedSequence(seed).generate_state(n_trees).tolist()]
        parts = []
        for part, start in enumerate(range(0, n_trees, at_once)):
            forest = model(min(at_once, n_trees - start), random_state=seeds[part], **settings).fit(rows, targets)
            parts += [cls.from_scikit(tree.tree_, rows, labels, rates) for tree in forest.estimators_]
        return cls._one_after_another(parts, rates.astype(np.float32), note)

    @classmethod
    def from_scikit(cls, tree: Any, rows: Any, labels: NDArray[Any], rates: NDArray[np.float64]) -> Trees:
        """Turn one tree of scikit-learn into arrays, and fill its leaves with the shares of labels among rows.

        Parameters
        ----------
        tree : sklearn.tree._tree.Tree
            A grown tree.
        rows : ndarray or sparse matrix of shape (n_rows, n_features)
            Rows whose labels the leaves are to hold, float32.
        labels : ndarray of shape (n_rows, n_labels)
            0, 1, or NaN for not observed.
        rates : ndarray of shape (n_labels,)
            The share in a leaf with no observed row.

        Returns
        -------
        Trees
            One.
        """
        levels, level = [], np.zeros(1, dtype=np.int64)
        while level.size:
            levels.append(level)
            split = level[tree.children_left[level] >= 0]
            level = np.column_stack([tree.children_left[split], tree.children_right[split]]).ravel()
        order = np.concatenate(levels)
        is_leaf = tree.children_left[order] < 0
        # Scikit-learn compares float32 values to float64 thresholds: the next float32 below decides the same.
        exact = np.where(is_leaf, 0.0, tree.threshold[order])
        threshold = exact.astype(np.float32)
        threshold = np.where(threshold > exact, np.nextafter(threshold, np.float32(-np.inf)), threshold)
        number = np.full(len(order), -1)
        number[order[is_leaf]] = np.arange(is_leaf.sum())
        leaves = number[tree.apply(rows.tocsr() if is_sparse(rows) else rows)]
        return cls(
            np.where(is_leaf, -1, tree.feature[order]).astype(np.int32),
            threshold,
            np.array([len(order)]),
            _shares(leaves, int(is_leaf.sum()), labels, rates),
            rates.astype(np.float32),
            int(rows.shape[1]),
        )

    @classmethod
    def joined(cls, forests: Sequence[Trees]) -> Trees:
        """All trees of several forests, one after the other.

        Parameters
        ----------
        forests : sequence of Trees
            At least one, of the same columns and labels.

        Returns
        -------
        Trees
            Its probabilities and its prevalence are the means of the forests', weighted by their numbers of trees.
        """
        sizes = {(forest.n_features, forest.n_labels) for forest in forests}
        if len(sizes) != 1:
            raise DataError(
                "forests to join must be one or more, of the same columns and labels; "
                f"got (columns, labels) {listed(sorted(sizes)) or 'of none'}. Grow them on the same tables."
            )
        weights = np.array([forest.n_trees for forest in forests], dtype=np.float64)
        rates = np.average([forest.prevalence.astype(np.float64) for forest in forests], axis=0, weights=weights)
        notes = dict.fromkeys(forest.note for forest in forests if forest.note)
        return cls._one_after_another(forests, rates.astype(np.float32), " ".join(notes))

    @classmethod
    def _one_after_another(cls, parts: Sequence[Trees], prevalence: NDArray[np.float32], note: str) -> Trees:
        return cls(
            np.concatenate([part.feature for part in parts]),
            np.concatenate([part.threshold for part in parts]),
            np.concatenate([part.tree_sizes for part in parts]),
            np.concatenate([part.shares for part in parts]),
            prevalence,
            parts[0].n_features,
            note,
        )

    # --- what it is ---------------------------------------------------------------------------------------

    @property
    def n_trees(self) -> int:
        """Trees."""
        return len(self.tree_sizes)

    @property
    def n_labels(self) -> int:
        """Labels."""
        return len(self.prevalence)

    @property
    def n_bytes(self) -> int:
        """Bytes of the stored arrays."""
        return sum(tensor.nbytes for tensor in self.tensors().values())

    def __repr__(self) -> str:
        size = f"{self.n_trees} trees, {len(self.shares)} leaves, {self.n_labels} labels"
        return f"Trees({size}, {self.n_bytes / 1e6:.1f} MB)"

    # --- prediction ---------------------------------------------------------------------------------------

    def probs(self, features: Any) -> NDArray[np.float32]:
        """Mean share of every label over the leaves that rows fall into.

        Parameters
        ----------
        features : ndarray or sparse matrix of shape (n_rows, n_features)
            Numbers, none of them absent.

        Returns
        -------
        ndarray of shape (n_rows, n_labels), float32
            The same for a row, whichever rows come with it.
        """
        if features.ndim != 2 or features.shape[1] != self.n_features:
            raise DataError(
                f"features must have the {self.n_features} columns the trees were grown on; got shape "
                f"{tuple(features.shape)}. Give the same columns."
            )
        n_rows = features.shape[0]
        means = np.empty((n_rows, self.n_labels), dtype=np.float32)
        step = min(_SUMMED_ROWS, max(1, _SUMMED_CELLS // max(self.n_labels, self.n_trees)))
        for start in range(0, n_rows, step):
            block = slice(start, min(n_rows, start + step))
            means[block] = self._summed(self.leaves(features[block]))
        means /= np.float32(self.n_trees)
        return means

    def logits(self, features: Any) -> NDArray[np.float32]:
        """Log odds of :meth:`probs`, to which the prevalence is added as one more tree: none are infinite.

        Parameters
        ----------
        features : ndarray or sparse matrix of shape (n_rows, n_features)
            As in :meth:`probs`.

        Returns
        -------
        ndarray of shape (n_rows, n_labels), float32
        """
        probs = self.probs(features)
        probs *= np.float32(self.n_trees)
        probs += self.prevalence
        probs /= np.float32(self.n_trees + 1)
        odds: Any = logit(np.clip(probs, np.float32(1e-5), np.float32(1 - 1e-5)))
        return np.asarray(odds, dtype=np.float32)

    def leaves(self, features: Any) -> NDArray[np.int32]:
        """Find the leaf of each tree that rows fall into.

        Parameters
        ----------
        features : ndarray or sparse matrix of shape (n_rows, n_features)
            As in :meth:`probs`.

        Returns
        -------
        ndarray of shape (n_rows, n_trees), int32
            Rows of `shares`.
        """
        found = np.empty((features.shape[0], self.n_trees), dtype=np.int32)
        used, step = self._steps.used, self._steps.n_rows
        rows = features if len(used) == self.n_features else features[:, used]
        values = np.empty((len(used), step), dtype=np.int64)
        for start in range(0, features.shape[0], step):
            block = dense(rows[start : start + step])
            n_rows = len(block)
            values[:, :n_rows] = _sort_keys(block.T)
            trees_at_once = max(1, _WALKS // n_rows)
            for tree in range(0, self.n_trees, trees_at_once):
                roots = self._roots[tree : tree + trees_at_once]
                found[start : start + n_rows, tree : tree + len(roots)] = self._walk(values.ravel(), n_rows, roots).T
        return found

    def _walk(self, values: NDArray[np.int64], n_rows: int, roots: NDArray[np.int64]) -> NDArray[np.int32]:
        """Leaves of rows in some trees, (n_roots, n_rows).

        Every walk goes down one level at a time with three look-ups and no comparison: a key above the threshold's,
        added to ``step``, carries one into the upper half, which is the left child, and makes it the right one. In a
        leaf the lower half is 0 and the upper one the leaf itself: nothing carries, and the walk stays. Values stand
        feature by feature, so that rows that are still together read one stretch of memory.
        """
        starts, steps, leaf = self._steps[:3]
        at = np.repeat(roots, n_rows)
        row = np.tile(np.arange(n_rows), len(roots))
        found = np.empty(len(at), dtype=np.int32)
        walks = np.arange(len(at))
        n_levels = _FIRST_LEVELS
        while at.size:
            for _ in range(n_levels):
                cell = starts.take(at)
                cell += row
                at = steps.take(at)
                at += values.take(cell)
                at >>= 32
            ends = leaf.take(at)
            found[walks] = ends
            on = np.flatnonzero(ends < 0)
            at, row, walks = at.take(on), row.take(on), walks.take(on)
            n_levels = _LEVELS
        return found.reshape(len(roots), n_rows)

    def _summed(self, leaves: NDArray[np.int32]) -> NDArray[np.float32]:
        """Sum the shares in leaves: in float32, some trees after others, in an order that only the trees decide."""
        total = torch.zeros((len(leaves), self.n_labels))
        with torch.inference_mode():
            for trees, own in self._groups:
                numbers = leaves[:, trees] - np.int32(own.start)
                shares = torch.from_numpy(self.shares[own])
                if numbers.size < len(shares):  # few rows: only what they need becomes float32
                    shares = shares[torch.from_numpy(numbers.ravel().astype(np.int64))]
                    numbers = np.arange(numbers.size, dtype=np.int32).reshape(numbers.shape)
                total += embedding_bag(torch.from_numpy(numbers), shares.float(), mode="sum")
        sums: NDArray[np.float32] = total.numpy()
        return sums

    @cached_property
    def _roots(self) -> NDArray[np.int64]:
        return np.cumsum(self.tree_sizes) - self.tree_sizes

    @cached_property
    def _steps(self) -> _Steps:
        splits = self.feature >= 0
        before: NDArray[np.int64] = np.cumsum(splits) - splits
        roots = np.repeat(self._roots, self.tree_sizes)
        left = roots + 2 * (before - before[roots]) + 1
        upper = np.where(splits, left, np.arange(len(splits)))
        lower = np.where(splits, 2**32 - 1 - _sort_keys(self.threshold), 0)
        leaf = np.where(splits, -1, np.cumsum(~splits) - 1).astype(np.int32)
        # A forest of roots looks at nothing; its walks look at the first column and stay where they are.
        used = np.unique(self.feature[splits]).astype(np.intp) if splits.any() else np.zeros(1, dtype=np.intp)
        n_rows = min(_WALKED_ROWS, max(1, _WALKED_VALUES // len(used)))
        start = np.where(splits, np.searchsorted(used, self.feature) * n_rows, 0)
        return _Steps(start, (upper << 32) + lower, leaf, used, n_rows)

    @cached_property
    def _groups(self) -> list[tuple[slice, slice]]:
        """Trees that are summed together, and the rows of `shares` they own: as many as stay in the caches."""
        ends = np.cumsum((self.tree_sizes + 1) // 2)
        groups, first, start = [], 0, 0
        while first < self.n_trees:
            room = start + _SUMMED_BYTES // (4 * self.n_labels)
            last = max(first + 1, int(np.searchsorted(ends, room, side="right")))
            groups.append((slice(first, last), slice(start, int(ends[last - 1]))))
            first, start = last, int(ends[last - 1])
        return groups

    # --- storage ------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """Return the arrays as named tensors, ready for a file."""
        names = ("feature", "threshold", "tree_sizes", "shares", "prevalence")
        tensors = {name: torch.from_numpy(getattr(self, name)) for name in names}
        return tensors | {"n_features": torch.tensor([self.n_features])}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Trees:
        """Take back what :meth:`tensors` returned.

        Raises
        ------
        ModelError
            Parts that are absent, or do not fit together.
        """
        kinds = {
            "feature": (torch.int32, 1),
            "threshold": (torch.float32, 1),
            "tree_sizes": (torch.int64, 1),
            "shares": (torch.float16, 2),
            "prevalence": (torch.float32, 1),
            "n_features": (torch.int64, 1),
        }
        absent = [name for name in kinds if name not in tensors]
        if absent:
            raise ModelError(f"trees must be complete; got no {listed(absent)}. Restore the model from a copy.")
        for name, (dtype, n_axes) in kinds.items():
            if tensors[name].dtype != dtype or tensors[name].ndim != n_axes:
                raise ModelError(
                    f"{name} of trees must be {dtype} with {n_axes} axes; got {tensors[name].dtype} with "
                    f"{tensors[name].ndim}. Restore the model from a copy."
                )
        feature, threshold, tree_sizes, shares, prevalence, n_features = (tensors[name].numpy() for name in kinds)
        problem = _misfit(feature, threshold, tree_sizes, shares, prevalence, n_features)
        if problem:
            raise ModelError(f"trees must fit together; got {problem}. Restore the model from a copy.")
        return cls(feature, threshold, tree_sizes, shares, prevalence, int(n_features[0]))


def _misfit(
    feature: NDArray[Any],
    threshold: NDArray[Any],
    tree_sizes: NDArray[Any],
    shares: NDArray[Any],
    prevalence: NDArray[Any],
    n_features: NDArray[Any],
) -> str:
    """Say why arrays are no trees; empty where they are."""
    if len(n_features) != 1 or n_features[0] < 1:
        return "no number of columns"
    if not len(tree_sizes) or (tree_sizes < 1).any() or tree_sizes.sum() != len(feature):
        return f"{len(feature)} nodes for trees of {tree_sizes.sum()}"
    if len(threshold) != len(feature):
        return f"{len(threshold)} thresholds for {len(feature)} nodes"
    if feature.min() < -1 or feature.max() >= n_features[0]:
        return f"splits by column {feature.max()} of {n_features[0]}"
    splits = feature >= 0
    before: NDArray[np.int64] = np.cumsum(splits) - splits
    roots = np.cumsum(tree_sizes) - tree_sizes
    # Children come after their parents: then a walk ends.
    place = np.arange(len(feature)) - np.repeat(roots, tree_sizes)
    backwards = 2 * (before - np.repeat(before[roots], tree_sizes)) + 1 <= place
    if (backwards & splits).any() or (2 * np.add.reduceat(splits, roots, dtype=np.int64) + 1 != tree_sizes).any():
        return "nodes that are nobody's children, or children that do not exist"
    if np.isnan(threshold).any():
        return "thresholds that are no numbers"
    if shares.shape != ((~splits).sum(), len(prevalence)) or not len(prevalence):
        return f"leaves of shape {shares.shape} for {(~splits).sum()} leaves and {len(prevalence)} labels"
    if not all(((part >= 0) & (part <= 1)).all() for part in (shares, prevalence)):
        return "shares below 0 or above 1"
    return ""


def _under_cap(n_rows: int, n_labels: int, n_trees: int, min_leaf: int, max_bytes: int) -> tuple[int, int, str]:
    """Return numbers of trees and of rows in a leaf whose leaves stay under a cap, and what was changed.

    Leaves of m rows or more are at most n / m, so the cap is kept before a tree is grown. Trees become fewer first: on
    `breeding_birds_2009`, five forests of 15 trees instead of 60 lose .002 of test log loss (.009 one by one, out of
    fold); leaves four times as large, which take as many bytes, lose .015 (.011).
    """
    most_leaves = max(1, require_count("max_bytes", max_bytes) // (2 * n_labels))
    trees = min(n_trees, max(_FEWEST_TREES, most_leaves // max(1, n_rows // min_leaf)))
    leaf = min_leaf
    if max(1, n_rows // min_leaf) * trees > most_leaves:
        trees = min(trees, max(1, most_leaves // _FEWEST_LEAVES))
        leaf = max(min_leaf, -(-n_rows * trees // most_leaves))
    if (trees, leaf) == (n_trees, min_leaf):
        return trees, leaf, ""
    changed = [f"have leaves of at least {leaf} rows instead of {min_leaf}"] if leaf != min_leaf else []
    changed += [f"are {trees} instead of {n_trees}"] if trees != n_trees else []
    return trees, leaf, f"Trees {' and '.join(changed)}, so that leaves take at most {max_bytes / 2**20:.3g} MB."


def _rows_to_grow_on(features: Any) -> Any:
    """Float32 rows, dense where they fit into memory, else sparse by columns, as scikit-learn wants them."""
    n_rows, n_features = features.shape
    if is_sparse(features) and n_rows * n_features * 4 > _DENSE_BYTES:
        return with_short_indices(sparse.csc_matrix(features.astype(np.float32)))
    return np.ascontiguousarray(dense(features), dtype=np.float32)


def _scores(labels: NDArray[np.float64], n_targets: int, seed: int) -> NDArray[np.float64]:
    """Return labels as trees are grown for: themselves, or their first principal scores where there are many."""
    if labels.shape[1] > n_targets:
        left, lengths, _ = randomized_svd(labels - labels.mean(axis=0), n_targets, random_state=seed)
        labels = left * lengths
    return labels[:, 0] if labels.shape[1] == 1 else labels


def _shares(
    leaves: NDArray[Any], n_leaves: int, labels: NDArray[Any], rates: NDArray[np.float64]
) -> NDArray[np.float16]:
    """Share of each label among the rows of each leaf in which it was observed; the rate where it was in none."""
    n_rows = len(leaves)
    members = sparse.csr_matrix((np.ones(n_rows), (leaves, np.arange(n_rows))), shape=(n_leaves, n_rows))
    seen = ~np.isnan(labels)
    if seen.all():
        counts = np.bincount(leaves, minlength=n_leaves)[:, None]
        sums = members @ labels.astype(np.float64)
    else:
        counts = members @ seen.astype(np.float64)
        sums = members @ np.where(seen, labels, 0.0)
    return np.where(counts > 0, sums / np.maximum(counts, 1), rates).astype(np.float16)


def _sort_keys(values: NDArray[Any]) -> NDArray[np.int64]:
    """Whole numbers from 0 to 2**32 - 1 in the order of float32 values.

    The bits of a positive float rise with it; those of a negative one fall. Adding 0 makes -0 the same as 0.
    """
    with np.errstate(over="ignore"):  # beyond float32 is infinite, and in order all the same
        bits = (np.ascontiguousarray(values, dtype=np.float32) + np.float32(0)).view(np.int32)
    keys = (bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))).astype(np.int64)
    keys += 2**31
    return keys
