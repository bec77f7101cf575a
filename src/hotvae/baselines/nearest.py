"""Nearest rows of a table, in blocks: exact, dense or sparse, with ties that do not depend on the blocks.

Scikit-learn's NearestNeighbors leaves open which of equally near rows it takes, and bags of words have many of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from hotvae.estimators.per_label import dense, is_sparse, squared_lengths

# Distances held at a time: 1 MB in 64 bits, which stay in the cache.
_CELLS_PER_BLOCK = 1 << 17


def nearest_rows(queries: Any, rows: Any, n_neighbours: int, *, skip_self: bool = False) -> NDArray[np.intp]:
    """Find the nearest rows by Euclidean distance.

    Distances are compared in 32 bits, so that rounding in the last bits of the product of two tables decides
    nothing; of equally near rows the first ones are taken.

    Parameters
    ----------
    queries : ndarray or sparse matrix of shape (n_queries, n_features)
        From where.
    rows : ndarray or sparse matrix of shape (n_rows, n_features)
        Where to look.
    n_neighbours : int
        How many, at most ``n_rows`` (one less with ``skip_self``).
    skip_self : bool
        ``queries`` are the rows themselves, and none counts as its own neighbour.

    Returns
    -------
    ndarray of int, shape (n_queries, n_neighbours)
        Row numbers, ascending.
    """
    n_rows = rows.shape[0]
    lengths = squared_lengths(rows)
    transposed = rows.T.tocsr() if is_sparse(rows) else rows.T
    found = np.empty((queries.shape[0], n_neighbours), dtype=np.intp)
    step = max(1, _CELLS_PER_BLOCK // max(1, n_rows))
    for start in range(0, queries.shape[0], step):
        block = queries[start : start + step]
        exact = dense(block @ transposed)
        exact *= -2
        exact += lengths
        exact += squared_lengths(block)[:, None]
        distances = exact.astype(np.float32)
        if skip_self:
            own = np.arange(len(distances))
            distances[own, start + own] = np.inf
        found[start : start + step] = smallest(distances, n_neighbours)
    return found


def smallest(values: NDArray[Any], n: int) -> NDArray[np.intp]:
    """Places of the n smallest values of each row, ascending; of equals the first.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_columns)
        Numbers without NaN.
    n : int
        At most ``n_columns``.

    Returns
    -------
    ndarray of int, shape (n_rows, n)
    """
    if n == 0:
        return np.empty((len(values), 0), dtype=np.intp)
    # torch keeps a short list of the smallest while it reads a row once; NumPy would reorder a copy of the row.
    nearest = torch.topk(torch.from_numpy(values), n, dim=1, largest=False, sorted=False).values
    largest = nearest.amax(dim=1, keepdim=True).numpy()
    reached = values <= largest
    for row in np.flatnonzero(reached.sum(axis=1) > n):  # more than n, because some tie with the last
        tied = np.flatnonzero(values[row] == largest[row])
        n_below = int(reached[row].sum()) - len(tied)
        reached[row, tied[n - n_below :]] = False
    places: NDArray[np.intp] = np.flatnonzero(reached).reshape(len(values), n) % values.shape[1]
    return places


def neighbour_sums(neighbours: NDArray[np.intp], table: Any) -> NDArray[np.float64]:
    """Sum the rows of a table over the neighbours of each query.

    Parameters
    ----------
    neighbours : ndarray of int, shape (n_queries, n_neighbours)
        From :func:`nearest_rows`.
    table : ndarray or sparse matrix of shape (n_rows, n_columns)
        What to sum.

    Returns
    -------
    ndarray of shape (n_queries, n_columns)
    """
    n_queries, n_neighbours = neighbours.shape
    starts = np.arange(0, neighbours.size + 1, n_neighbours) if n_neighbours else np.zeros(n_queries + 1, dtype=int)
    picked = sparse.csr_array((np.ones(neighbours.size), neighbours.ravel(), starts), shape=(n_queries, table.shape[0]))
    return dense(picked @ table)
