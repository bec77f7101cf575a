"""Rows of tokens of different lengths: words of a text, atoms of a molecule, active columns of a sparse table."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotvae.errors import DataError

PADDING = 0
"""Number of the token that fills rows up; no real token has it."""


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

        Returns
        -------
        ndarray of shape (n_samples, n_tokens) or (n_samples, n_tokens, n_parts)
        """
        width = int(self.lengths.max(initial=1)) if n_tokens is None else n_tokens
        out = np.full((len(self), width, *self.tokens.shape[1:]), PADDING, dtype=np.int32)
        rows = np.repeat(np.arange(len(self)), self.lengths)
        out[rows, np.arange(len(self.tokens)) - np.repeat(self.starts[:-1], self.lengths)] = self.tokens
        return out
