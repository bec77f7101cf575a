"""Binary relevance: a logistic regression for each label, with one penalty for all chosen on validation rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from hotvae.baselines.tensor_io import array, pack
from hotvae.estimators.base import LabelClassifier, LabelledRows
from hotvae.estimators.per_label import (
    label_groups,
    label_rates,
    limited_threads,
    middle,
    require_candidates,
    squared_lengths,
    unit_rows,
    watch,
)
from hotvae.metrics import log_loss
from hotvae.training.progress import Style

# Steps of the optimiser for a label; hundreds are rare.
_MOST_STEPS = 2000


class Odds(NamedTuple):
    """Log odds that are linear in the features.

    Attributes
    ----------
    weights : ndarray of shape (n_features, n_labels)
    intercepts : ndarray of shape (n_labels,)

    Examples
    --------
    >>> Odds(np.array([[2.0]]), np.array([-1.0])).probs(np.array([[0.5]]))
    array([[0.5]])
    """

    weights: NDArray[np.float64]
    intercepts: NDArray[np.float64]

    def probs(self, features: Any) -> NDArray[np.float64]:
        """Probabilities of rows."""
        probs: NDArray[np.float64] = expit(features @ self.weights + self.intercepts)
        return probs


def fit_logistic(
    features: Any, labels: NDArray[Any], penalty: float, *, start: Odds | None = None, unit: float | None = None
) -> Odds:
    """Fit one logistic regression for each label, on the rows it was observed in.

    A label of one class has the constant odds of its rate.

    Parameters
    ----------
    features : ndarray or csr_matrix of shape (n_samples, n_features)
        Scaled features.
    labels : ndarray of shape (n_samples, n_labels)
        0, 1 or NaN.
    penalty : float
        On squared weights; intercepts are free.
    start : Odds, optional
        Where to begin, such as the solution for another penalty.
    unit : float, optional
        Unit of the penalty; by default the mean squared length of a row.

    Returns
    -------
    Odds

    Examples
    --------
    >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> odds = fit_logistic(X, np.array([[0, 1], [0, 1], [1, 1], [1, 1]]), penalty=1.0)
    >>> odds.probs(X).round(2)
    array([[0.22, 0.9 ],
           [0.35, 0.9 ],
           [0.65, 0.9 ],
           [0.78, 0.9 ]])
    """
    n_features, n_labels = features.shape[1], labels.shape[1]
    odds = Odds(np.zeros((n_features, n_labels)), logit(label_rates(labels)))
    if unit is None:
        unit = float(squared_lengths(features).mean()) or 1.0
    for rows, members in label_groups(labels):
        own = features if len(rows) == len(labels) else features[rows]
        model = LogisticRegression(C=1 / (penalty * unit), max_iter=_MOST_STEPS, warm_start=True)
        for label in members:
            beginning = odds if start is None else start
            model.coef_ = beginning.weights[:, label][None].copy()
            model.intercept_ = beginning.intercepts[[label]].copy()
            model.fit(own, labels[rows, label])
            odds.weights[:, label], odds.intercepts[label] = model.coef_[0], model.intercept_[0]
    return odds


class LogisticLabels(LabelClassifier):
    """Binary relevance with logistic regression: each label on its own, with one penalty chosen for all.

    Parameters
    ----------
    penalties : sequence of float
        Candidates for the penalty on squared weights, in units of the mean squared length of a row; validation rows
        choose by log loss, and without them the middle one is taken.
    unit_length : bool or None
        Scale rows to length 1. None does so for sparse features, which are usually bags of words.
    validation_fraction : float
        Share of rows held out to choose the penalty and thresholds.
    random_state : int, RandomState or None
        Decides the rows held out.
    n_threads : int or None
        CPU threads; None uses what is there.
    progress : {"auto", "bar", "lines", "silent"}
        How the search is shown.

    Attributes
    ----------
    penalty_ : float
        The penalty chosen.
    odds_ : Odds
        Weights and intercepts.

    Examples
    --------
    >>> import numpy as np
    >>> from hotvae.baselines.logistic import LogisticLabels
    >>> X = np.linspace(-1, 1, 100)[:, None]
    >>> Y = np.column_stack([X[:, 0] > 0, X[:, 0] < 0.5])
    >>> LogisticLabels(random_state=0).fit(X, Y).predict([[0.9], [-0.9]])
    array([[1, 0],
           [0, 1]])
    """

    title = "logistic regression"
    citation: ClassVar[str] = (
        "Binary relevance: Boutell et al. (2004). Learning multi-label scene classification. Pattern Recognition."
    )
    cost: ClassVar[str] = "seconds to minutes; grows with rows times labels"

    def __init__(
        self,
        *,
        penalties: Sequence[float] = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
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

    def _learn(self, train: LabelledRows, validation: LabelledRows | None, seed: int) -> None:
        # From strong to weak: each solution is a good start for the next.
        penalties = sorted(require_candidates("penalties", self.penalties), reverse=True)
        rows = unit_rows(train.features, self.unit_length)
        with limited_threads(self.n_threads):
            if validation is None:
                self.penalty_ = middle(penalties)
                self.odds_ = fit_logistic(rows, train.labels, self.penalty_)
                return
            held, labels = unit_rows(validation.features, self.unit_length), validation.labels
            least, last = np.inf, None

            def attempt(penalty: float) -> float:
                nonlocal least, last
                last = fit_logistic(rows, train.labels, penalty, start=last)
                loss = log_loss(labels, last.probs(held))
                if loss < least:
                    least, self.penalty_, self.odds_ = loss, penalty, last
                return loss

            watch(attempt, penalties, self.progress, self.title)

    def _probs(self, features: Any) -> NDArray[np.floating[Any]]:
        with limited_threads(self.n_threads):
            return self.odds_.probs(unit_rows(features, self.unit_length))

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        tensors = {**pack("weights", self.odds_.weights), **pack("intercepts", self.odds_.intercepts)}
        return {"penalty": self.penalty_}, tensors

    def _restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        shape = (self.scaler_.n_features_out, self.n_labels_)
        self.penalty_ = config["penalty"]
        self.odds_ = Odds(array("weights", tensors, shape), array("intercepts", tensors, shape[1:]))
