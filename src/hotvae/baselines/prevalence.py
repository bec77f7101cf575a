"""Prevalence: the rate of each label, whatever the features; what every other model must beat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from hotvae.baselines.base import Held, TableClassifier
from hotvae.baselines.tensor_io import array, pack
from hotvae.estimators.per_label import label_rates


@dataclass(kw_only=True, eq=False, repr=False)
class Prevalence(TableClassifier):
    """Predict the rate of each label among the training rows for every row.

    Parameters
    ----------
    validation_fraction, random_state, n_threads, progress
        As in :class:`~hotvae.baselines.base.TableClassifier`; nothing here takes time.

    Attributes
    ----------
    rates_ : ndarray of shape (n_labels,)
        The rates, half a row away from certainty (:func:`~hotvae.estimators.per_label.label_rates`).

    Examples
    --------
    >>> import numpy as np
    >>> from hotvae.baselines.prevalence import Prevalence
    >>> model = Prevalence().fit([[0.0], [1.0], [2.0]], np.array([[1, 0], [1, 0], [0, 1]]))
    >>> model.predict_proba([[5.0]])
    array([[0.625, 0.375]])
    """

    title = "prevalence"
    citation: ClassVar[str] = "the rate of each label, whatever the features: the floor of every table"
    cost: ClassVar[str] = "nothing"

    def _fit(self, rows: Any, labels: NDArray[Any], held: Held | None, seed: int) -> None:
        self.rates_ = label_rates(labels)

    def _predict(self, rows: Any) -> NDArray[np.floating[Any]]:
        return np.tile(self.rates_, (rows.shape[0], 1))

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return {}, pack("rates", self.rates_)

    def _restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.rates_ = array("rates", tensors, (self.n_labels_,))
