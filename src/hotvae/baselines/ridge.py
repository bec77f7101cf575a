r"""Ridge regression of every label, linear and with a Gaussian kernel, and scores turned into probabilities.

Least squares on 0 and 1 gives scores that can leave [0, 1]. One increasing curve for all labels,
:math:`p = 1 / (1 + e^{-(a s + b)})` with :math:`a > 0`, is fitted on the validation rows (Platt 1999). Being the same
for all labels it changes no ranking, and so no F1 at tuned thresholds beyond their grid; log loss and predictions
at one half do depend on it. Without validation rows scores are clipped to [0, 1].

Scikit-learn's Ridge and KernelRidge solve anew for each penalty; here all penalties share one factorisation or kernel.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.metrics.pairwise import euclidean_distances
from torch import Tensor

from hotvae.baselines.base import Held, TableClassifier
from hotvae.baselines.tensor_io import array, pack_all, unpack
from hotvae.config import require_count
from hotvae.errors import DataError
from hotvae.estimators.per_label import (
    label_groups,
    label_rates,
    middle,
    require_candidates,
)
from hotvae.estimators.ridge_base import CentredRows, Curve, LinearScores, fit_curve, require_solvable
from hotvae.metrics import log_loss

# Kernel values held at a time while predicting: 32 MB.
_CELLS_PER_BLOCK = 1 << 22


class KernelScores(NamedTuple):
    """Scores that are sums of Gaussian bumps around the training rows."""

    rows: Any  # (n_rows, n_features), dense or sparse
    coefficients: NDArray[np.float64]  # (n_rows, n_labels)
    intercepts: NDArray[np.float64]  # (n_labels,)
    width: NDArray[np.float64]  # (): squared distance at which a bump has fallen to 1 / e

    def of(self, features: Any) -> NDArray[np.float64]:
        """Scores of rows, block by block."""
        scores = np.empty((features.shape[0], len(self.intercepts)))
        step = max(1, _CELLS_PER_BLOCK // self.rows.shape[0])
        for start in range(0, len(scores), step):
            bumps = np.exp(-euclidean_distances(features[start : start + step], self.rows, squared=True) / self.width)
            scores[start : start + step] = bumps @ self.coefficients
        return scores + self.intercepts


@dataclass(kw_only=True, eq=False, repr=False)
class _Ridge(TableClassifier):
    """What both ridges share: the choice between settings by log loss, and the curve."""

    unit_length: bool | None = None

    @abstractmethod
    def _settings(self) -> tuple[list[Any], Any]:
        """Return the settings to choose from, and the one to take when nothing can choose."""

    @abstractmethod
    def _solver(self, features: Any, table: NDArray[Any], seed: int) -> Callable[[Any], Any]:
        """Return what makes scores of a setting, with the work that settings share done."""

    def _fit(self, rows: Any, labels: NDArray[Any], held: Held | None, seed: int) -> None:
        settings, usual = self._settings()
        solve = self._solver(rows, labels, seed)
        self.curve_: Curve | None = None
        if held is None:
            self.setting_, self.scores_ = usual, solve(usual)
            return
        held_rows, truth = held

        def fit(setting: Any) -> tuple[Any, NDArray[np.float64], Curve]:
            solution = solve(setting)
            scores = solution.of(held_rows)
            return solution, scores, fit_curve(scores, truth)

        def loss(fitted: tuple[Any, NDArray[np.float64], Curve]) -> float:
            _, scores, curve = fitted
            return log_loss(truth, curve.probs(scores))

        self.setting_, best = self._fit_best(fit, loss, settings)
        self.scores_, _, self.curve_ = best

    def _predict(self, rows: Any) -> NDArray[np.floating[Any]]:
        scores = self.scores_.of(rows)
        return np.clip(scores, 0, 1) if self.curve_ is None else self.curve_.probs(scores)

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        curve = None if self.curve_ is None else list(self.curve_)
        return {"setting": self.setting_, "curve": curve}, pack_all(self.scores_._asdict())

    def _restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        setting, curve = config["setting"], config["curve"]
        self.setting_ = tuple(setting) if isinstance(setting, list) else setting
        self.curve_ = None if curve is None else Curve(*map(float, curve))


@dataclass(kw_only=True, eq=False, repr=False)
class LinearRidge(_Ridge):
    """Ridge regression of each label on the features, with the penalty chosen on validation rows.

    Parameters
    ----------
    penalties : sequence of float
        Candidates for the penalty on squared weights, in units of the mean squared length of a centred row; the
        middle one is taken when there are no validation rows.
    unit_length, validation_fraction, random_state, n_threads, progress
        As in :class:`~hotvae.baselines.base.TableClassifier`.

    Attributes
    ----------
    setting_ : float
        The penalty chosen.
    scores_ : LinearScores
        Weights and intercepts.
    curve_ : Curve or None
        From scores to probabilities; None clips.

    Notes
    -----
    Labels that were observed in the same rows share one factorisation: of features by features, or of rows by rows
    if there are fewer. A label with gaps is learned from the rows it was observed in.
    """

    title = "linear ridge"
    citation: ClassVar[str] = "Hoerl & Kennard (1970). Ridge regression. Technometrics; curve: Platt (1999)."
    cost: ClassVar[str] = "seconds; grows with the smaller of rows and columns cubed"

    penalties: Sequence[float] = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)

    def _settings(self) -> tuple[list[Any], Any]:
        penalties = require_candidates("penalties", self.penalties)
        return list(penalties), middle(penalties)

    def _solver(self, features: Any, table: NDArray[Any], seed: int) -> Callable[[Any], LinearScores]:
        require_solvable(features)
        n_features = features.shape[1]
        groups = label_groups(table)
        rates = label_rates(table)

        @lru_cache(maxsize=1)  # one group is the rule; with more, memory counts for more than time
        def system(number: int) -> CentredRows:
            return CentredRows(features[groups[number].rows])

        def solve(penalty: float) -> LinearScores:
            weights, intercepts = np.zeros((n_features, table.shape[1])), rates.copy()
            for number, (rows, labels) in enumerate(groups):
                targets = table[np.ix_(rows, labels)].astype(np.float64)
                weights[:, labels], intercepts[labels] = system(number).solve(targets, penalty)
            return LinearScores(weights, intercepts)

        return solve

    def _restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        super()._restore(config, tensors)
        shape = (self.features_.n_features_out, self.n_labels_)
        self.scores_ = LinearScores(array("weights", tensors, shape), array("intercepts", tensors, shape[1:]))


@dataclass(kw_only=True, eq=False, repr=False)
class GaussianKernelRidge(_Ridge):
    """Kernel ridge regression of each label, with width and penalty chosen on validation rows.

    Parameters
    ----------
    widths : sequence of float
        Candidates for the squared width of the Gaussian kernel, in units of the median squared distance between
        training rows.
    penalties : sequence of float
        Candidates for the penalty; the kernel of a row with itself is 1. The middle ones of both are taken when there
        are no validation rows.
    max_rows : int
        More training rows are refused: memory grows with their square, time with their cube.
    unit_length, validation_fraction, random_state, n_threads, progress
        As in :class:`~hotvae.baselines.base.TableClassifier`.

    Attributes
    ----------
    setting_ : tuple of float
        Width and penalty chosen.
    scores_ : KernelScores
        The training rows and their coefficients.
    curve_ : Curve or None
        From scores to probabilities; None clips.
    """

    title = "kernel ridge"
    citation: ClassVar[str] = (
        "Saunders, Gammerman & Vovk (1998). Ridge regression learning algorithm in dual variables. ICML; "
        "curve: Platt (1999)."
    )
    cost: ClassVar[str] = "seconds to minutes; grows with rows cubed"

    widths: Sequence[float] = (0.125, 0.25, 0.5, 1.0, 2.0)
    penalties: Sequence[float] = (0.03, 0.1, 0.3, 1.0, 3.0)
    max_rows: int = 12_000

    def _settings(self) -> tuple[list[Any], Any]:
        widths, penalties = require_candidates("widths", self.widths), require_candidates("penalties", self.penalties)
        return list(product(widths, penalties)), (middle(widths), middle(penalties))

    def _solver(self, features: Any, table: NDArray[Any], seed: int) -> Callable[[Any], KernelScores]:
        n_rows = len(table)
        if n_rows > require_count("max_rows", self.max_rows):
            raise DataError(
                f"training rows must be at most max_rows={self.max_rows} for a kernel ridge; got {n_rows}. "
                "Choose the model 'ridge' or 'extra_trees', or raise max_rows if memory allows."
            )
        groups, rates = label_groups(table), label_rates(table)
        distances = euclidean_distances(features, squared=True)
        some = np.random.default_rng(seed).permutation(n_rows)[:1000]
        between = distances[np.ix_(some, some)][np.triu_indices(len(some), 1)]
        unit = float(np.median(between)) if between.size else 0.0
        unit = unit if unit > 0 else 1.0

        @lru_cache(maxsize=1)  # settings come width by width
        def kernel(width: float) -> NDArray[np.float64]:
            bumps: NDArray[np.float64] = np.exp(distances / (-width * unit))
            return bumps

        def solve(setting: tuple[float, float]) -> KernelScores:
            width, penalty = setting
            coefficients, intercepts = np.zeros(table.shape), rates.copy()
            for rows, labels in groups:
                targets = table[np.ix_(rows, labels)].astype(np.float64)
                intercepts[labels] = targets.mean(axis=0)
                whole = len(rows) == n_rows
                system = kernel(width).copy() if whole else kernel(width)[np.ix_(rows, rows)]
                np.fill_diagonal(system, system.diagonal() + penalty)
                factor = cho_factor(system, overwrite_a=True, check_finite=False)
                coefficients[np.ix_(rows, labels)] = cho_solve(factor, targets - intercepts[labels])
            return KernelScores(features, coefficients, intercepts, np.array(width * unit))

        return solve

    def _restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        super()._restore(config, tensors)
        rows = unpack("rows", tensors)
        coefficients = array("coefficients", tensors, (rows.shape[0], self.n_labels_))
        intercepts, width = array("intercepts", tensors, (self.n_labels_,)), array("width", tensors, ())
        self.scores_ = KernelScores(rows, coefficients, intercepts, width)
