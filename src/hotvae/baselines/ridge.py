r"""Ridge regression of every label, linear and with a Gaussian kernel, and scores turned into probabilities.

Least squares on 0 and 1 gives scores that can leave [0, 1]. One increasing curve for all labels,
:math:`p = 1 / (1 + e^{-(a s + b)})` with :math:`a > 0`, is fitted on the validation rows (Platt 1999). Being the same
for all labels it changes no ranking, and so no F1 at tuned thresholds beyond their grid; log loss and predictions
at one half do depend on it. Without validation rows scores are clipped to [0, 1].
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.metrics.pairwise import euclidean_distances
from torch import Tensor

from hotvae.baselines.tensor_io import array, pack, unpack
from hotvae.config import require_count
from hotvae.errors import DataError
from hotvae.estimators.base import LabelClassifier, LabelledRows
from hotvae.estimators.per_label import (
    label_groups,
    label_rates,
    limited_threads,
    middle,
    require_candidates,
    unit_rows,
    watch,
)
from hotvae.estimators.ridge_base import CentredRows, Curve, LinearScores, fit_curve, require_solvable
from hotvae.metrics import log_loss
from hotvae.training.progress import Style

# Kernel values held at a time while predicting: 32 MB.
_CELLS_PER_BLOCK = 1 << 22


class KernelScores(NamedTuple):
    """Scores that are sums of Gaussian bumps around the training rows.

    Attributes
    ----------
    rows : ndarray or sparse matrix of shape (n_rows, n_features)
    coefficients : ndarray of shape (n_rows, n_labels)
    intercepts : ndarray of shape (n_labels,)
    width : ndarray of shape ()
        Squared distance at which a bump has fallen to 1 / e.
    """

    rows: Any
    coefficients: NDArray[np.float64]
    intercepts: NDArray[np.float64]
    width: NDArray[np.float64]

    def of(self, features: Any) -> NDArray[np.float64]:
        """Scores of rows, block by block."""
        scores = np.empty((features.shape[0], len(self.intercepts)))
        step = max(1, _CELLS_PER_BLOCK // self.rows.shape[0])
        for start in range(0, len(scores), step):
            bumps = np.exp(-euclidean_distances(features[start : start + step], self.rows, squared=True) / self.width)
            scores[start : start + step] = bumps @ self.coefficients
        return scores + self.intercepts


class _Ridge(LabelClassifier):
    """What both ridges share: the choice between settings by log loss, and the curve."""

    @abstractmethod
    def _settings(self) -> tuple[list[Any], Any]:
        """Return the settings to choose from, and the one to take when nothing can choose."""

    @abstractmethod
    def _solver(self, train: LabelledRows, seed: int) -> Callable[[Any], Any]:
        """Return what makes scores of a setting, with the work that settings share done."""

    def _learn(self, train: LabelledRows, validation: LabelledRows | None, seed: int) -> None:
        settings, usual = self._settings()
        self.curve_: Curve | None = None
        with limited_threads(self.n_threads):
            solve = self._solver(LabelledRows(unit_rows(train.features, self.unit_length), train.labels), seed)
            if validation is None:
                self.setting_ = usual
                self.scores_ = solve(self.setting_)
                return
            held, labels = unit_rows(validation.features, self.unit_length), validation.labels
            least = np.inf

            def attempt(setting: Any) -> float:
                nonlocal least
                solution = solve(setting)
                scores = solution.of(held)
                curve = fit_curve(scores, labels)
                loss = log_loss(labels, curve.probs(scores))
                if loss < least:
                    least = loss
                    self.setting_, self.scores_, self.curve_ = setting, solution, curve
                return loss

            watch(attempt, settings, self.progress, self.title)

    def _probs(self, features: Any) -> NDArray[np.floating[Any]]:
        with limited_threads(self.n_threads):
            scores = self.scores_.of(unit_rows(features, self.unit_length))
        return np.clip(scores, 0, 1) if self.curve_ is None else self.curve_.probs(scores)

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        notes = {"setting": self.setting_, "curve": None if self.curve_ is None else list(self.curve_)}
        tensors = [pack(name, values) for name, values in self.scores_._asdict().items()]
        return notes, {name: tensor for part in tensors for name, tensor in part.items()}

    def _restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        setting, curve = config["setting"], config["curve"]
        self.setting_ = tuple(setting) if isinstance(setting, list) else setting
        self.curve_ = None if curve is None else Curve(*map(float, curve))


class LinearRidge(_Ridge):
    """Ridge regression of each label on the features, with the penalty chosen on validation rows.

    Parameters
    ----------
    penalties : sequence of float
        Candidates for the penalty on squared weights, in units of the mean squared length of a centred row; the
        middle one is taken when there are no validation rows.
    unit_length : bool or None
        Scale rows to length 1. None does so for sparse features, which are usually bags of words.
    validation_fraction : float
        Share of rows held out to choose the penalty, the curve and thresholds.
    random_state : int, RandomState or None
        Decides the rows held out.
    n_threads : int or None
        CPU threads; None uses what is there.
    progress : {"auto", "bar", "lines", "silent"}
        How the search is shown.

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

    Examples
    --------
    >>> import numpy as np
    >>> from hotvae.baselines.ridge import LinearRidge
    >>> X = np.linspace(-1, 1, 100)[:, None]
    >>> Y = np.column_stack([X[:, 0] > 0, X[:, 0] < 0.5])
    >>> LinearRidge(random_state=0).fit(X, Y).predict([[0.9], [-0.9]])
    array([[1, 0],
           [0, 1]])
    """

    title = "linear ridge"
    citation: ClassVar[str] = "Hoerl & Kennard (1970). Ridge regression. Technometrics; curve: Platt (1999)."
    cost: ClassVar[str] = "seconds; grows with the smaller of rows and columns cubed"

    def __init__(
        self,
        *,
        penalties: Sequence[float] = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0),
        unit_length: bool | None = None,
        validation_fraction: float = 0.2,
        random_state: int | np.random.RandomState | None = None,
        n_threads: int | None = None,
        progress: Style = "silent",
    ) -> None:
        self.penalties = penalties
        self.unit_length = unit_length
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.n_threads = n_threads
        self.progress = progress

    def _settings(self) -> tuple[list[Any], Any]:
        penalties = require_candidates("penalties", self.penalties)
        return list(penalties), middle(penalties)

    def _solver(self, train: LabelledRows, seed: int) -> Callable[[Any], LinearScores]:
        require_solvable(train.features)
        n_features = train.features.shape[1]
        groups = label_groups(train.labels)
        rates = label_rates(train.labels)

        @lru_cache(maxsize=1)  # one group is the rule; with more, memory counts for more than time
        def system(number: int) -> CentredRows:
            return CentredRows(train.features[groups[number].rows])

        def solve(penalty: float) -> LinearScores:
            weights, intercepts = np.zeros((n_features, train.labels.shape[1])), rates.copy()
            for number, (rows, labels) in enumerate(groups):
                targets = train.labels[np.ix_(rows, labels)].astype(np.float64)
                weights[:, labels], intercepts[labels] = system(number).solve(targets, penalty)
            return LinearScores(weights, intercepts)

        return solve

    def _restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        super()._restore(config, tensors)
        shape = (self.scaler_.n_features_out, self.n_labels_)
        self.scores_ = LinearScores(array("weights", tensors, shape), array("intercepts", tensors, shape[1:]))


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
    unit_length : bool or None
        Scale rows to length 1. None does so for sparse features, which are usually bags of words.
    validation_fraction : float
        Share of rows held out to choose the settings, the curve and thresholds.
    random_state : int, RandomState or None
        Decides the rows held out.
    n_threads : int or None
        CPU threads; None uses what is there.
    progress : {"auto", "bar", "lines", "silent"}
        How the search is shown.

    Attributes
    ----------
    setting_ : tuple of float
        Width and penalty chosen.
    scores_ : KernelScores
        The training rows and their coefficients.
    curve_ : Curve or None
        From scores to probabilities; None clips.

    Examples
    --------
    >>> import numpy as np
    >>> from hotvae.baselines.ridge import GaussianKernelRidge
    >>> X = np.linspace(-1, 1, 100)[:, None]
    >>> Y = np.column_stack([abs(X[:, 0]) < 0.5, X[:, 0] < 0.5])
    >>> GaussianKernelRidge(random_state=0).fit(X, Y).predict([[0.9], [0.0]])
    array([[0, 0],
           [1, 1]])
    """

    title = "kernel ridge"
    citation: ClassVar[str] = (
        "Saunders, Gammerman & Vovk (1998). Ridge regression learning algorithm in dual variables. ICML; "
        "curve: Platt (1999)."
    )
    cost: ClassVar[str] = "seconds to minutes; grows with rows cubed"

    def __init__(
        self,
        *,
        widths: Sequence[float] = (0.125, 0.25, 0.5, 1.0, 2.0),
        penalties: Sequence[float] = (0.03, 0.1, 0.3, 1.0, 3.0),
        max_rows: int = 12_000,
        unit_length: bool | None = None,
        validation_fraction: float = 0.2,
        random_state: int | np.random.RandomState | None = None,
        n_threads: int | None = None,
        progress: Style = "silent",
    ) -> None:
        self.widths = widths
        self.penalties = penalties
        self.max_rows = max_rows
        self.unit_length = unit_length
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.n_threads = n_threads
        self.progress = progress

    def _settings(self) -> tuple[list[Any], Any]:
        widths, penalties = require_candidates("widths", self.widths), require_candidates("penalties", self.penalties)
        return list(product(widths, penalties)), (middle(widths), middle(penalties))

    def _solver(self, train: LabelledRows, seed: int) -> Callable[[Any], KernelScores]:
        n_rows = len(train.labels)
        if n_rows > require_count("max_rows", self.max_rows):
            raise DataError(
                f"training rows must be at most max_rows={self.max_rows} for a kernel ridge; got {n_rows}. "
                "Choose the model 'ridge' or 'extra_trees', or raise max_rows if memory allows."
            )
        groups, rates = label_groups(train.labels), label_rates(train.labels)
        distances = euclidean_distances(train.features, squared=True)
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
            coefficients, intercepts = np.zeros(train.labels.shape), rates.copy()
            for rows, labels in groups:
                targets = train.labels[np.ix_(rows, labels)].astype(np.float64)
                intercepts[labels] = targets.mean(axis=0)
                whole = len(rows) == n_rows
                system = kernel(width).copy() if whole else kernel(width)[np.ix_(rows, rows)]
                np.fill_diagonal(system, system.diagonal() + penalty)
                factor = cho_factor(system, overwrite_a=True, check_finite=False)
                coefficients[np.ix_(rows, labels)] = cho_solve(factor, targets - intercepts[labels])
            return KernelScores(train.features, coefficients, intercepts, np.array(width * unit))

        return solve

    def _restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        super()._restore(config, tensors)
        rows = unpack("rows", tensors)
        coefficients = array("coefficients", tensors, (rows.shape[0], self.n_labels_))
        intercepts, width = array("intercepts", tensors, (self.n_labels_,)), array("width", tensors, ())
        self.scores_ = KernelScores(rows, coefficients, intercepts, width)
