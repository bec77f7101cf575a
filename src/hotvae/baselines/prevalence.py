"""The rate of each label, whatever the features: the floor of every table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from hotvae.baselines.tensor_io import array, pack
from hotvae.estimators.base import LabelClassifier, LabelledRows
from hotvae.estimators.per_label import label_rates
from hotvae.training.progress import Style


class Prevalence(LabelClassifier):
    """Predict the rate of each label among the training rows for every row.

    Parameters
    ----------
    validation_fraction : float
        Share of rows held out for thresholds.
    random_state : int, RandomState or None
        Decides the rows held out.
    n_threads : int or None
        Accepted as everywhere; nothing here takes time.
    progress : {"auto", "bar", "lines", "silent"}
        Accepted as everywhere; nothing here takes time.

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
    takes: ClassVar[str] = "tables, dense or sparse; labels may have gaps"
    cost: ClassVar[str] = "nothing"

    def __init__(
        self,
        *,
        validation_fraction: float = 0.2,
        random_state: int | np.random.RandomState | None = None,
        n_threads: int | None = None,
        progress: Style = "silent",
    ) -> None:
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.n_threads = n_threads
        self.progress = progress

    def _learn(self, train: LabelledRows, validation: LabelledRows | None, seed: int) -> None:
        self.rates_ = label_rates(train.labels)

    def _probs(self, features: Any) -> NDArray[np.floating[Any]]:
        return np.tile(self.rates_, (features.shape[0], 1))

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return {}, pack("rates", self.rates_)

    def _restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.rates_ = array("rates", tensors, (self.n_labels_,))
