"""Decision trees as plain arrays, and the walk from their roots to their leaves.

Forests and boosted trees are fitted by scikit-learn and kept as these arrays: predictions are then the same before and
after saving, and do not depend on the version of scikit-learn that reads the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

from hotvae.baselines.tensor_io import array, pack
from hotvae.estimators.per_label import dense

# Cells (row, tree) and (row, column) held at a time.
_CELLS_PER_BLOCK = 1 << 21


class Trees(NamedTuple):
    """Trees one after another; a node's number is its place in the arrays.

    Attributes
    ----------
    feature : ndarray of int32, shape (n_nodes,)
        Column that is looked at; -1 in a leaf.
    threshold : ndarray of float64, shape (n_nodes,)
        Values up to it go left.
    left, right : ndarray of int32, shape (n_nodes,)
        Where to go on; always further back in the arrays.
    roots : ndarray of int32, shape (n_trees,)
        First node of each tree.
    """

    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    roots: NDArray[np.int32]

    @classmethod
    def joined(cls, parts: Sequence[Trees]) -> Trees:
        """Put several sets of trees one after another.

        Parameters
        ----------
        parts : sequence of Trees
            At least one.

        Returns
        -------
        Trees
        """
        sizes = [len(part.feature) for part in parts]
        starts = np.cumsum([0, *sizes[:-1]])
        # A leaf leads nowhere: its -1 stays.
        moved = [
            part._replace(
                left=np.where(part.left < 0, -1, part.left + start).astype(np.int32),
                right=np.where(part.right < 0, -1, part.right + start).astype(np.int32),
                roots=(part.roots + start).astype(np.int32),
            )
            for part, start in zip(parts, starts, strict=True)
        ]
        return cls(*(np.concatenate(columns) for columns in zip(*moved, strict=True)))

    def between(self, start: int, stop: int) -> Trees:
        """Take some of the trees, with nodes numbered anew.

        Parameters
        ----------
        start, stop : int
            First tree, and the one after the last.

        Returns
        -------
        Trees
        """
        first, end = self.bounds(start, stop)
        left, right = self.left[first:end], self.right[first:end]
        return Trees(
            self.feature[first:end],
            self.threshold[first:end],
            np.where(left < 0, -1, left - first).astype(np.int32),
            np.where(right < 0, -1, right - first).astype(np.int32),
            (self.roots[start:stop] - first).astype(np.int32),
        )

    def bounds(self, start: int, stop: int) -> tuple[int, int]:
        """First node of tree ``start``, and the node after the last one before tree ``stop``."""
        return int(self.roots[start]), int(self.roots[stop]) if stop < len(self.roots) else len(self.feature)

    def leaves(self, features: Any, dtype: DTypeLike) -> Iterator[tuple[slice, NDArray[np.intp]]]:
        """Walk rows down all trees, block by block.

        Parameters
        ----------
        features : ndarray or csr_matrix of shape (n_samples, n_features)
            Rows; sparse ones are made dense a block at a time.
        dtype : dtype
            Type in which values are compared, as when the trees were grown.

        Yields
        ------
        rows : slice
        leaves : ndarray of int, shape (n_rows, n_trees)
            The node each row ends in.
        """
        n_rows, n_features = features.shape
        step = max(1, _CELLS_PER_BLOCK // max(len(self.roots), n_features))
        for start in range(0, n_rows, step):
            block = dense(features[start : start + step])
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

    def pack(self, name: str) -> dict[str, Tensor]:
        """Turn the arrays into named tensors."""
        parts = [pack(f"{name}.{part}", values) for part, values in self._asdict().items()]
        return {key: tensor for part in parts for key, tensor in part.items()}

    @classmethod
    def unpack(cls, name: str, tensors: Mapping[str, Tensor], n_features: int) -> Trees:
        """Take back what :meth:`pack` made, and check that every walk stays inside and ends.

        Parameters
        ----------
        name : str
            As given to :meth:`pack`.
        tensors : mapping of str to Tensor
            Read from a file.
        n_features : int
            Columns of the features.

        Returns
        -------
        Trees

        Raises
        ------
        KeyError, ValueError
            Arrays that are absent or do not describe trees.
        """
        trees = cls(*(array(f"{name}.{part}", tensors, (None,)) for part in cls._fields))
        n_nodes = len(trees.feature)
        if any(len(part) != n_nodes for part in trees[:4]):
            raise ValueError("the arrays of the trees have different lengths")
        inner = np.flatnonzero(trees.feature >= 0)
        children = np.concatenate([trees.left[inner], trees.right[inner]])
        parents = np.concatenate([inner, inner])
        inside = (children > parents) & (children < n_nodes)
        if not inside.all() or (trees.feature >= n_features).any():
            raise ValueError("the trees lead outside of their arrays")
        if ((trees.roots < 0) | (trees.roots >= n_nodes)).any():
            raise ValueError("the roots are no nodes of the trees")
        return trees
