r"""Ridge regression of labels, the maths: normal equations, leave-one-out scores, scores turned into probabilities.

Least squares on 0 and 1 gives scores that can leave [0, 1]; one increasing curve for all labels makes probabilities
of them (:func:`fit_curve`). What a ridge would say of a training row that it had not been shown is known for all of
them from one system (:meth:`CentredRows.left_out`), so that a network can add to it (:class:`RidgeLogits`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dtrtri
from scipy.optimize import minimize
from scipy.special import expit

from hotvae.errors import DataError
from hotvae.estimators.per_label import dense, label_groups, label_rates
from hotvae.metrics import log_loss

Attempt = TypeVar("Attempt", bound=tuple[Any, ...])

MAX_UNKNOWNS = 20_000
"""Largest system that a linear ridge solves: 3.2 GB."""

# Cells of a table held at a time beside the system: 32 MB.
_CELLS_PER_BLOCK = 1 << 22


class Curve(NamedTuple):
    """An increasing curve from scores to probabilities.

    Attributes
    ----------
    slope, intercept : float
        Of the log odds over the score.
    """

    slope: float
    intercept: float

    def probs(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities of scores."""
        probs: NDArray[np.float64] = expit(self.slope * scores + self.intercept)
        return probs


def fit_curve(scores: NDArray[np.float64], labels: NDArray[Any]) -> Curve:
    """Fit the curve that makes probabilities of scores, one for all labels.

    As in Platt (1999), present counts as :math:`(n_1 + 1) / (n_1 + 2)` and absent as :math:`1 / (n_0 + 2)`, so that
    scores which separate the two perfectly still give a finite curve.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_labels)
        Higher means more likely.
    labels : ndarray of shape (n_samples, n_labels)
        0, 1 or NaN, of rows the scores were not learned from.

    Returns
    -------
    Curve
    """
    observed = ~np.isnan(labels)
    score, present = scores[observed], labels[observed] == 1
    n_present, n_absent = present.sum(), (~present).sum()
    target = np.where(present, (n_present + 1) / (n_present + 2), 1 / (n_absent + 2))

    def loss(theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        odds = theta[0] * score + theta[1]
        gap = expit(odds) - target
        return float(np.mean(np.logaddexp(0, odds) - target * odds)), np.array([np.mean(gap * score), np.mean(gap)])

    # A falling curve would turn the scores around: with validation rows that say so, it is flat instead.
    found = minimize(loss, np.array([4.0, -2.0]), jac=True, method="L-BFGS-B", bounds=[(1e-3, None), (None, None)])
    return Curve(float(found.x[0]), float(found.x[1]))


class LinearScores(NamedTuple):
    """Scores that are linear in the features.

    Attributes
    ----------
    weights : ndarray of shape (n_features, n_labels)
    intercepts : ndarray of shape (n_labels,)
    """

    weights: NDArray[np.float64]
    intercepts: NDArray[np.float64]

    def of(self, features: Any) -> NDArray[np.float64]:
        """Scores of rows."""
        scores: NDArray[np.float64] = features @ self.weights + self.intercepts
        return scores


class CentredRows:
    """The normal equations of centred rows, dense or sparse, in whichever form is smaller.

    Parameters
    ----------
    rows : ndarray or sparse matrix of shape (n_rows, n_features)
        Features; a sparse table is never made dense.
    """

    def __init__(self, rows: Any) -> None:
        self.rows = rows
        self.mean = np.asarray(rows.mean(axis=0), dtype=np.float64).ravel()
        n_rows, n_features = rows.shape
        self.by_rows = n_rows < n_features
        # (x - m)'(x - m) without centring the rows themselves, which would fill a sparse table.
        matrix = dense(rows @ rows.T if self.by_rows else rows.T @ rows)
        if self.by_rows:
            along = rows @ self.mean
            matrix = matrix - along[:, None] - along + self.mean @ self.mean
        else:
            matrix = matrix - n_rows * np.outer(self.mean, self.mean)
        self.matrix = matrix
        # Features that are all constant leave nothing to scale by.
        self.unit = float(np.trace(matrix)) / n_rows
        self.unit = self.unit if self.unit > 0 else 1.0

    def solve(self, targets: NDArray[np.float64], penalty: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights and intercepts that minimise squared error plus ``penalty`` times squared weights.

        Parameters
        ----------
        targets : ndarray of shape (n_rows, n_targets)
            What to approach.
        penalty : float
            In units of the mean squared length of a centred row.

        Returns
        -------
        weights : ndarray of shape (n_features, n_targets)
        intercepts : ndarray of shape (n_targets,)
        """
        mean = targets.mean(axis=0)
        centred = targets - mean
        factor = self._factor(penalty)
        if self.by_rows:
            dual = cho_solve(factor, centred, check_finite=False)
            weights = self.rows.T @ dual - np.outer(self.mean, dual.sum(axis=0))
        else:
            weights = cho_solve(factor, self.rows.T @ centred, check_finite=False)
        return weights, mean - self.mean @ weights

    def left_out(self, targets: NDArray[np.float64], penalty: float) -> NDArray[np.float64]:
        r"""Score every row by the ridge that all other rows make.

        Parameters
        ----------
        targets, penalty
            As in :meth:`solve`.

        Returns
        -------
        ndarray of shape (n_rows, n_targets)

        Notes
        -----
        With :math:`h_i` the weight of a row's own target in its fitted value :math:`\hat y_i`, the ridge without the
        row says :math:`y_i - (y_i - \hat y_i) / (1 - h_i)`: one system for all rows.
        """
        mean = targets.mean(axis=0)
        centred = targets - mean
        n_rows = len(targets)
        factor = self._factor(penalty)
        # Of the triangle U with U'U = system; scipy leaves the other half of it as it was.
        inverse = np.triu(dtrtri(factor[0], lower=0)[0])
        if self.by_rows:
            weight = penalty * self.unit
            missed = weight * cho_solve(factor, centred, check_finite=False)
            others = weight * np.einsum("ij,ij->i", inverse, inverse)
        else:
            weights = cho_solve(factor, self.rows.T @ centred, check_finite=False)
            missed = centred - (self.rows @ weights - self.mean @ weights)
            others = np.empty(n_rows)
            step = max(1, _CELLS_PER_BLOCK // max(1, inverse.shape[0]))
            for start in range(0, n_rows, step):
                along = self.rows[start : start + step] @ inverse - self.mean @ inverse
                others[start : start + step] = 1 - np.einsum("ij,ij->i", along, along)
        # The mean is learned from the row, too. A row that alone decides its own value leaves nothing to say.
        scores: NDArray[np.float64] = targets - missed / np.maximum(others - 1 / n_rows, 1e-9)[:, None]
        return scores

    def _factor(self, penalty: float) -> tuple[NDArray[np.float64], bool]:
        """Return the upper triangle of the penalised system."""
        system = self.matrix.copy()
        np.fill_diagonal(system, system.diagonal() + penalty * self.unit)
        factor: tuple[NDArray[np.float64], bool] = cho_factor(system, lower=False, overwrite_a=True, check_finite=False)
        return factor


class RidgeLogits(NamedTuple):
    """Log odds of labels that a linear ridge gives a row: the base that a network adds to.

    Attributes
    ----------
    weights : ndarray of shape (n_features, n_labels)
    intercepts : ndarray of shape (n_labels,)
    left_out : ndarray of shape (n_rows, n_labels)
        Log odds of each training row by the ridge of all others. What weights and intercepts say of a row that they
        were learned from is too good to be true: a network that added to it would learn to trust it too much.
    penalty : float
        The one chosen.
    """

    weights: NDArray[np.float64]
    intercepts: NDArray[np.float64]
    left_out: NDArray[np.float64]
    penalty: float


def ridge_logits(
    features: Any, labels: NDArray[Any], penalties: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
) -> RidgeLogits:
    """Learn a linear ridge of every label, its penalty and its curve by rows left out one at a time.

    Parameters
    ----------
    features : ndarray or sparse matrix of shape (n_rows, n_features)
        Rows; see :func:`~hotvae.estimators.per_label.unit_rows` for bags of words.
    labels : ndarray of shape (n_rows, n_labels)
        0, 1, or NaN for not observed. A label with gaps is learned from the rows it was observed in.
    penalties : tuple of float
        Candidates, rising; as in :meth:`CentredRows.solve`. From the middle one the search goes on while the log loss
        falls.

    Returns
    -------
    RidgeLogits

    Raises
    ------
    DataError
        More than :data:`MAX_UNKNOWNS` rows and columns.
    """
    rows = features.astype(np.float64)
    require_solvable(rows)
    groups = [(CentredRows(rows[own]), own, columns) for own, columns in label_groups(labels)]
    rates = np.broadcast_to(label_rates(labels), labels.shape)
    weights, intercepts = np.zeros((rows.shape[1], labels.shape[1])), rates[0].copy()

    def attempt(penalty: float) -> tuple[float, float, Curve, NDArray[np.float64]]:
        scores = rates.copy()
        for system, own, columns in groups:
            targets = labels[np.ix_(own, columns)].astype(np.float64)
            scores[np.ix_(own, columns)] = system.left_out(targets, penalty)
        curve = fit_curve(scores, labels)
        return log_loss(labels, curve.probs(scores)), penalty, curve, scores

    _, penalty, curve, scores = _least(attempt, penalties)
    for system, own, columns in groups:
        targets = labels[np.ix_(own, columns)].astype(np.float64)
        weights[:, columns], intercepts[columns] = system.solve(targets, penalty)
        apart = np.setdiff1d(np.arange(len(labels)), own)  # not learned from: as they will be predicted
        scores[np.ix_(apart, columns)] = rows[apart] @ weights[:, columns] + intercepts[columns]
    odds = curve.slope * intercepts + curve.intercept
    return RidgeLogits(curve.slope * weights, odds, curve.slope * scores + curve.intercept, penalty)


def _least(attempt: Callable[[float], Attempt], candidates: Sequence[float]) -> Attempt:
    """Go from the middle candidate to whichever side is better, as long as the first number of the answer falls."""
    at = (len(candidates) - 1) // 2
    best = attempt(candidates[at])
    for step in (1, -1):
        moved = False
        while 0 <= at + step < len(candidates):
            found = attempt(candidates[at + step])
            if found[0] >= best[0]:
                break
            best, at, moved = found, at + step, True
        if moved:
            break
    return best


def require_solvable(features: Any) -> None:
    """Refuse a table whose ridge would not fit into memory.

    Raises
    ------
    DataError
        More than :data:`MAX_UNKNOWNS` rows and columns.
    """
    n_rows, n_features = features.shape
    if min(n_rows, n_features) > MAX_UNKNOWNS:
        raise DataError(
            f"rows or columns must be at most {MAX_UNKNOWNS} for a ridge; got {n_rows} rows of {n_features} columns. "
            "Drop rare columns, or choose a model without a ridge."
        )
