"""Rows of tokens of different lengths: words of a text, atoms of a molecule, active columns of a sparse table."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from hotvae.config import require_count
from hotvae.data.aligned import align_columns
from hotvae.data.dataset import FeatureKind, as_feature_table, feature_kinds, numeric_matrix
from hotvae.errors import ConfigError, DataError, DataWarning, ModelError, listed
from hotvae.features.transformer import RowTransformer

PADDING = 0
"""Number of the token that fills rows up; no real token has it."""

NOTHING = 1
"""Number of the token that stands alone in a row that has no other: no active column, no word, no molecule."""

UNKNOWN = 2
"""Number of words and atoms that training rows did not have. Sets leave such columns out instead."""


@dataclass(frozen=True)
class TokenRows:
    """Tokens of all rows in one array, without padding.

    Attributes
    ----------
    tokens : ndarray of int of shape (n_tokens,) or (n_tokens, n_parts)
        All rows one after the other. A token is a number above 0, or several numbers of which the first is.
    starts : ndarray of int of shape (n_samples + 1,)
        Where each row begins; the last entry is the number of tokens. Every row has a token.

    Examples
    --------
    >>> rows = TokenRows.from_lists([[3, 5], [4]])
    >>> rows.padded()
    array([[3, 5],
           [4, 0]], dtype=int32)
    """

    tokens: NDArray[np.int32]
    starts: NDArray[np.int64]

    def __post_init__(self) -> None:
        if len(self.starts) > 1 and np.diff(self.starts).min() < 1:
            empty = np.flatnonzero(np.diff(self.starts) < 1)
            raise DataError(
                f"every row must have a token; got none in row {empty[0]} (and {len(empty) - 1} more). "
                "Give empty rows a token of their own."
            )

    @classmethod
    def from_lists(cls, rows: Any) -> "TokenRows":
        """Join rows that are lists of numbers, or of tuples of numbers."""
        parts = [np.asarray(row, dtype=np.int32) for row in rows]
        starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
        return cls(np.concatenate(parts) if parts else np.empty(0, dtype=np.int32), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def shape(self) -> tuple[int]:
        """Number of rows, as arrays have it."""
        return (len(self),)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each row."""
        return np.diff(self.starts)

    def __getitem__(self, rows: NDArray[np.intp]) -> "TokenRows":
        lengths = self.lengths[rows]
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        # place of every token among the old ones: its row's old start plus its place within the row
        place = np.arange(starts[-1]) + np.repeat(self.starts[:-1][rows] - starts[:-1], lengths)
        return TokenRows(self.tokens[place], starts)

    def padded(self, n_tokens: int | None = None) -> NDArray[np.int32]:
        """Tokens as a rectangle, filled up with 0.

        Parameters
        ----------
        n_tokens : int, optional
            Width of the rectangle; by default that of the longest row.
        """
        width = int(self.lengths.max(initial=1)) if n_tokens is None else n_tokens
        out = np.full((len(self), width, *self.tokens.shape[1:]), PADDING, dtype=np.int32)
        rows = np.repeat(np.arange(len(self)), self.lengths)
        out[rows, np.arange(len(self.tokens)) - np.repeat(self.starts[:-1], self.lengths)] = self.tokens
        return out


class ActiveColumns(RowTransformer):
    """Turn the rows of a sparse table into the set of their active columns, those that are not 0.

    Column ``i`` is token ``i + 2``; only whether it is active counts, not its value. Columns that no training row
    had active say nothing and are left out. A row without any active column is a single token that says so. No row
    is ever made dense.

    Parameters
    ----------
    max_tokens : int
        Most tokens of a row. Of a longer row those columns are kept that were active in the fewest training
        rows, which tell most; between equals, those further left.

    Examples
    --------
    >>> columns = ActiveColumns().fit(np.array([[0, 1, 0, 1], [0, 1, 0, 0]]))
    >>> columns.transform(np.array([[1, 1, 0, 1], [0, 0, 0, 0]])).padded()
    array([[3, 5],
           [1, 0]], dtype=int32)
    """

    gives = "tokens"
    stored_as = "set"

    def __init__(self, max_tokens: int = 300) -> None:
        self.max_tokens = max_tokens
        self.is_sparse = False
        self._n_active: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    @property
    def kinds(self) -> tuple[FeatureKind, ...]:
        """Kind of each column that goes in: numbers."""
        return tuple("numeric" for _ in self.feature_names_in)

    @property
    def n_features_out(self) -> int:
        """Token numbers in use."""
        return NOTHING + 1 + len(self.feature_names_in)

    def check_parameters(self) -> None:
        """Find a parameter that is not allowed before any data are read."""
        require_count("max_tokens", self.max_tokens)

    def fit(self, features: Any, y: Any = None, *, feature_names: Sequence[str] | None = None) -> Self:
        """Learn in how many rows each column is active; refuse missing values and text."""
        self.check_parameters()
        table, self.feature_names_in = as_feature_table(features, feature_names or ())
        if table.shape[0] == 0 or table.shape[1] == 0:
            raise DataError(f"features must have rows and columns; got shape {tuple(table.shape)}. Choose some rows.")
        self.is_sparse = not isinstance(table, np.ndarray | pd.DataFrame)
        rows = self._csr(table)
        if rows.nnz and (rows.data != 1).any():
            warnings.warn(
                f"columns of a set are active or not; values other than 0 and 1, such as "
                f"{rows.data[rows.data != 1][0]:g}, are taken as active.",
                DataWarning,
                stacklevel=2,
            )
        self._n_active = np.bincount(rows.indices, minlength=rows.shape[1]).astype(np.int64)
        return self

    def transform(self, features: Any, dtype: DTypeLike = np.int32) -> TokenRows:
        """Give the active columns their numbers, ascending; ``dtype`` has no meaning for tokens."""
        if not self.feature_names_in:
            raise ConfigError("transformer must be fitted before use; got none. Call fit with training rows.")
        if isinstance(features, pd.DataFrame):
            features = align_columns(features, self.feature_names_in)
        table, _ = as_feature_table(features)
        if table.shape[1] != len(self.feature_names_in):
            raise DataError(
                f"features must have {len(self.feature_names_in)} columns, as in training; got "
                f"{table.shape[1]}. Give the same columns in the same order, or by name."
            )
        rows = self._csr(table)
        owner = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        known = self._n_active[rows.indices] > 0
        owner, columns = owner[known], rows.indices[known]
        # Within each row from rare to frequent: what stands beyond max_tokens is dropped.
        rarity = np.lexsort((columns, self._n_active[columns], owner))
        owner, columns = owner[rarity], columns[rarity]
        first = np.searchsorted(owner, np.arange(rows.shape[0]))
        kept = np.arange(len(owner)) - first[owner] < self.max_tokens
        empty = np.setdiff1d(np.arange(rows.shape[0]), owner)
        owner = np.concatenate([owner[kept], empty])
        tokens = np.concatenate([columns[kept] + NOTHING + 1, np.full(len(empty), NOTHING)])
        order = np.lexsort((tokens, owner))
        starts = np.searchsorted(owner[order], np.arange(rows.shape[0] + 1)).astype(np.int64)
        return TokenRows(tokens[order].astype(np.int32), starts)

    def _learned(self) -> dict[str, Any]:
        return {"is_sparse": self.is_sparse, "n_active": self._n_active.tolist()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.is_sparse = bool(state["is_sparse"])
        self._n_active = np.array(state["n_active"], dtype=np.int64)
        if self._n_active.shape != (len(self.feature_names_in),):
            raise ModelError(
                f"set state must have one count per column; got {self._n_active.size} for "
                f"{len(self.feature_names_in)} columns. Save the model anew."
            )

    def _csr(self, table: Any) -> sparse.csr_array:
        """Active cells only, columns in order, nothing missing."""
        if isinstance(table, pd.DataFrame):
            if "categorical" in feature_kinds(table):
                text = [
                    name for name, kind in zip(table.columns, feature_kinds(table), strict=True) if kind != "numeric"
                ]
                raise DataError(
                    f"columns of a set must be numbers; got text or categories in {listed(text)}. "
                    "Turn each level into a 0/1 column, or choose the encoder 'mlp'."
                )
            table = numeric_matrix(table)
        rows = sparse.csr_array(table, copy=True)  # the caller's array stays as it is
        rows.eliminate_zeros()
        bad = np.flatnonzero(~np.isfinite(rows.data))
        if bad.size:
            column = rows.indices[bad[0]]
            where = np.searchsorted(rows.indptr, bad[rows.indices[bad] == column], side="right") - 1
            raise DataError(
                f"columns of a set must be observed; got {rows.data[bad[0]]} in column "
                f"{self.feature_names_in[column]!r} (rows {listed(where)}). Fill these cells with 0 or 1."
            )
        return rows
