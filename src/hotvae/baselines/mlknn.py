r"""MLkNN: label counts among the nearest neighbours, turned into probabilities by Bayes' rule.

With :math:`C_l(x)` the number of the k neighbours of x that have label l, and :math:`H_l` the event that x has it,

.. math:: P(H_l \mid C_l) = \frac{P(H_l) P(C_l \mid H_l)}{P(H_l) P(C_l \mid H_l) + P(\bar H_l) P(C_l \mid \bar H_l)},

all three estimated from training rows, whose neighbours never include themselves, with s added to every count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from hotvae.baselines.base import Held, TableClassifier
from hotvae.baselines.nearest import nearest_rows, neighbour_sums
from hotvae.baselines.tensor_io import array, pack_all, unpack
from hotvae.config import require_count, require_number


@dataclass(kw_only=True, eq=False, repr=False)
class MLkNN(TableClassifier):
    """Multi-label k nearest neighbours (Zhang and Zhou 2007).

    Parameters
    ----------
    n_neighbours : int
        Neighbours to count (k); at most the number of training rows less one is used.
    smoothing : float
        Added to every count before it becomes a probability (s).
    unit_length, validation_fraction, random_state, n_threads, progress
        As in :class:`~hotvae.baselines.base.TableClassifier`; unit length makes distances those of cosines, and rows
        held out do not count as neighbours.

    Attributes
    ----------
    prior_ : ndarray of shape (n_labels,)
        Probability of each label before its neighbours are looked at.
    given_present_, given_absent_ : ndarray of shape (n_labels, n_neighbours + 1)
        Probability of each neighbour count where the label is present, and where it is absent.

    Examples
    --------
    >>> import numpy as np
    >>> from hotvae.baselines.mlknn import MLkNN
    >>> X = np.linspace(-1, 1, 60)[:, None]
    >>> Y = np.column_stack([X[:, 0] > 0, X[:, 0] < 0.5])
    >>> MLkNN(n_neighbours=5, random_state=0).fit(X, Y).predict([[0.9], [-0.9]])
    array([[1, 0],
           [0, 1]])
    """

    title = "MLkNN"
    citation: ClassVar[str] = (
        "Zhang & Zhou (2007). ML-KNN: a lazy learning approach to multi-label learning. Pattern Recognition."
    )
    takes: ClassVar[str] = "tables, dense or sparse; every label observed"
    cost: ClassVar[str] = "seconds; grows with rows squared"
    accepts_missing_labels: ClassVar[bool] = False

    n_neighbours: int = 10
    smoothing: float = 1.0
    unit_length: bool | None = None

    def _fit(self, rows: Any, labels: NDArray[Any], held: Held | None, seed: int) -> None:
        most = require_count("n_neighbours", self.n_neighbours)
        smoothing = require_number("smoothing", self.smoothing, above=True)
        self._kept_rows = rows
        self._row_labels = labels.astype(np.float64)
        n_rows = len(self._row_labels)
        n_counts = min(most, n_rows - 1) + 1
        counts = self._counts(nearest_rows(rows, rows, n_counts - 1, skip_self=True))
        # One histogram for all labels: rows with the label in the first half, rows without it in the second.
        place = counts + n_counts * np.arange(self.n_labels_)
        present = self._row_labels == 1
        tables = [np.bincount(place[which], minlength=n_counts * self.n_labels_) for which in (present, ~present)]
        self.given_present_, self.given_absent_ = (
            _smoothed(table.reshape(self.n_labels_, n_counts), smoothing) for table in tables
        )
        self.prior_ = (smoothing + present.sum(axis=0)) / (2 * smoothing + n_rows)

    def _counts(self, neighbours: NDArray[np.intp]) -> NDArray[np.intp]:
        return neighbour_sums(neighbours, self._row_labels).astype(np.intp)

    def _predict(self, rows: Any) -> NDArray[np.floating[Any]]:
        counts = self._counts(nearest_rows(rows, self._kept_rows, self.given_present_.shape[1] - 1))
        labels = np.arange(self.n_labels_)
        present = self.prior_ * self.given_present_[labels, counts]
        absent = (1 - self.prior_) * self.given_absent_[labels, counts]
        probs: NDArray[np.floating[Any]] = present / (present + absent)
        return probs

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return {}, pack_all(
            {
                "rows": self._kept_rows,
                "row_labels": self._row_labels.astype(np.uint8),
                "prior": self.prior_,
                "given_present": self.given_present_,
                "given_absent": self.given_absent_,
            }
        )

    def _restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self._kept_rows = unpack("rows", tensors)
        self._row_labels = array("row_labels", tensors, (self._kept_rows.shape[0], self.n_labels_)).astype(np.float64)
        self.prior_ = array("prior", tensors, (self.n_labels_,))
        self.given_present_ = array("given_present", tensors, (self.n_labels_, None))
        self.given_absent_ = array("given_absent", tensors, self.given_present_.shape)


def _smoothed(counts: NDArray[Any], smoothing: float) -> NDArray[np.float64]:
    """Turn the histogram of each label into probabilities."""
    shares: NDArray[np.float64] = (counts + smoothing) / (counts + smoothing).sum(axis=1, keepdims=True)
    return shares
