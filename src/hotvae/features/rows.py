"""Rows ready for a model: what the features became, the labels, and what a base model says of the labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import DTypeLike, NDArray


@dataclass(frozen=True)
class Rows:
    """Some rows of a table, from the estimator down to the training loop.

    Attributes
    ----------
    features : ndarray, CSR or DataFrame of shape (n_samples, n_features), or TokenRows
        As the model takes them.
    labels : ndarray of shape (n_samples, n_labels), optional
        0, 1 or NaN for not observed; None for rows that are only predicted.
    base_logits : ndarray of shape (n_samples, n_labels), optional
        Logits of the labels by a base model, to which a network adds its own.

    Examples
    --------
    >>> rows = Rows(np.eye(3), np.ones((3, 2)))
    >>> rows[np.array([0, 2])].features.shape, len(rows)
    ((2, 3), 3)
    """

    features: Any
    labels: NDArray[Any] | None = None
    base_logits: NDArray[Any] | None = None

    def __len__(self) -> int:
        return int(self.features.shape[0])

    def __getitem__(self, index: NDArray[np.intp]) -> "Rows":
        return Rows(*(None if part is None else take(part, index) for part in self._parts()))

    def as_type(self, dtype: DTypeLike) -> "Rows":
        """Return the rows with labels and base logits of a number type; features are left as they are."""
        _, *tables = self._parts()
        return Rows(self.features, *(None if table is None else table.astype(dtype) for table in tables))

    def observed(self) -> NDArray[Any]:
        """Return the labels, which must be there."""
        if self.labels is None:
            raise ValueError("these rows have no labels")
        return self.labels

    def _parts(self) -> tuple[Any, NDArray[Any] | None, NDArray[Any] | None]:
        return self.features, self.labels, self.base_logits


def take(table: Any, index: NDArray[np.intp]) -> Any:
    """Return some rows of a frame, an array, a sparse table or rows of tokens."""
    return table.iloc[index] if isinstance(table, pd.DataFrame) else table[index]
