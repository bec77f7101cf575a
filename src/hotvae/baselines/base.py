"""What the models without a network share: parameters, rows, threads, and the choice between settings."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hotvae.estimators.base import LabelClassifier
from hotvae.estimators.per_label import limited_threads, unit_rows, watch
from hotvae.features import Rows
from hotvae.training.progress import Style

Setting = TypeVar("Setting")
Model = TypeVar("Model")

# Validation rows and their labels.
Held = tuple[Any, NDArray[Any]]


@dataclass(kw_only=True, eq=False, repr=False)
class TableClassifier(LabelClassifier):
    """A model without a network; a subclass has ``_fit``, ``_predict``, ``_learned`` and ``_restore``.

    Subclasses are dataclasses, whose fields are the parameters that scikit-learn sees.

    Parameters
    ----------
    validation_fraction : float
        Share of rows held out to choose settings and thresholds.
    random_state : int, RandomState or None
        Decides the rows held out, and whatever else is left to chance.
    n_threads : int or None
        CPU threads; None uses what is there.
    progress : {"auto", "bar", "lines", "silent"}
        How a fit of several steps is shown.
    unit_length : bool or None
        Scale rows to length 1; None does so for sparse features, which are usually bags of words. A field of those
        subclasses to which the length of a row matters.
    """

    validation_fraction: float = 0.2
    random_state: int | np.random.RandomState | None = None
    n_threads: int | None = None
    progress: Style = "silent"

    @abstractmethod
    def _fit(self, rows: Any, labels: NDArray[Any], held: Held | None, seed: int) -> None:
        """Fit on rows and labels (0, 1, NaN); ``held`` rows and their labels choose settings."""

    @abstractmethod
    def _predict(self, rows: Any) -> NDArray[np.floating[Any]]:
        """Return probabilities of shape (n_rows, n_labels)."""

    def _rows(self, features: Any) -> Any:
        """Return scaled features as the model takes them, of length 1 if its ``unit_length`` says so."""
        return unit_rows(features, getattr(self, "unit_length", False))

    def _learn(self, train: Rows, validation: Rows | None, seed: int) -> None:
        with limited_threads(self.n_threads):
            held = None if validation is None else (self._rows(validation.features), validation.observed())
            self._fit(self._rows(train.features), train.observed(), held, seed)

    def _probs(self, features: Any) -> NDArray[np.floating[Any]]:
        with limited_threads(self.n_threads):
            return self._predict(self._rows(features))

    def _fit_best(
        self, fit: Callable[[Setting], Model], loss: Callable[[Model], float], candidates: Sequence[Setting]
    ) -> tuple[Setting, Model]:
        """Fit each candidate, show its loss, and return the one with the least (of equals the first) and its model."""
        best: list[tuple[Setting, Model]] = []
        least = np.inf

        def attempt(candidate: Setting) -> float:
            nonlocal best, least
            model = fit(candidate)
            own = loss(model)
            if not best or own < least:
                best, least = [(candidate, model)], own
            return own

        watch(attempt, candidates, self.progress, self.title)
        return best[0]
