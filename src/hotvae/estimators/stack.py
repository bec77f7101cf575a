"""Several models made one: their logits weighted, then corrected label by label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from hotvae.errors import ModelError

# How firmly temperatures stay at 1 and biases at 0, in rows' worth of evidence: a label that is rarely seen keeps both.
_FIRM_TEMPERATURE, _FIRM_BIAS = 20.0, 2.0
# Where held-out rows are told apart without a mistake, weights would grow without end, and the first mistake on other
# rows would cost as much.
_MOST_WEIGHT = 2.0
# Cells (member × row × label) that are enough to find a handful of numbers a label by.
_MOST_CELLS = 40_000_000


@dataclass(frozen=True, eq=False)
class Stack:
    r"""Weights of some models, and a temperature and a bias for each label.

    The stacked logit of label :math:`l` is :math:`\tau_l \sum_m w_m z_{ml} + b_l`, with :math:`w_m \ge 0`.

    Attributes
    ----------
    weights : ndarray of shape (n_members,)
        From 0 to 2.
    temperature, bias : ndarray of shape (n_labels,)
        1 and 0 where a label needs no correction.
    """

    weights: NDArray[np.float64]
    temperature: NDArray[np.float64]
    bias: NDArray[np.float64]

    def logits(self, members: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        """Stack logits of shape (n_rows, n_labels), one table for each member."""
        total = np.zeros(members[0].shape)
        for weight, table in zip(self.weights, members, strict=True):
            if weight > 0:
                total += weight * table
        total *= self.temperature
        total += self.bias
        return total

    def state(self) -> dict[str, list[float]]:
        """Everything, ready for JSON."""
        return {name: getattr(self, name).tolist() for name in ("weights", "temperature", "bias")}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_members: int, n_labels: int) -> Stack:
        """Take back what :meth:`state` returned.

        Raises
        ------
        ModelError
            Numbers that are absent, or not as many as members and labels.
        """
        try:
            found = cls(*(np.array(state[name], dtype=np.float64) for name in ("weights", "temperature", "bias")))
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"stack must be complete; got {error!r}. Save the model anew.") from error
        if found.weights.shape != (n_members,) or {found.temperature.shape, found.bias.shape} != {(n_labels,)}:
            raise ModelError(
                f"stack must have a weight for each of {n_members} members and two numbers for each of {n_labels} "
                f"labels; got {found.weights.size}, {found.temperature.size} and {found.bias.size}. Save it anew."
            )
        return found


def fit_stack(members: Sequence[NDArray[Any]], labels: NDArray[Any], *, by_label: bool = True) -> Stack:
    r"""Find the stack with the least log loss on rows that its members were not shown.

    Parameters
    ----------
    members : sequence of ndarray of shape (n_rows, n_labels)
        Logits of each model.
    labels : ndarray of shape (n_rows, n_labels)
        0, 1, or NaN for not observed.
    by_label : bool
        Also learn temperatures and biases; False weighs the members only.

    Returns
    -------
    Stack

    Notes
    -----
    Minimised is the log loss summed over all cells plus :math:`10 \sum_l (\log \tau_l)^2 + \sum_l b_l^2`, so that
    labels with little to learn from keep :math:`\tau = 1` and :math:`b = 0`.

    Examples
    --------
    >>> good, useless = np.array([[2.0], [-2.0], [2.0], [-2.0]]), np.array([[-1.0], [-1.0], [1.0], [-1.0]])
    >>> fit_stack([good, useless], np.array([[1], [0], [1], [1]]), by_label=False).weights.round(2)
    array([0.55, 0.  ])
    """
    n_members, n_labels = len(members), labels.shape[1]
    step = -(-labels.size * n_members // _MOST_CELLS)  # every n-th row of a very large table
    tables = np.stack([np.asarray(table[::step], dtype=np.float64) for table in members])
    observed = ~np.isnan(labels[::step])
    target = np.where(observed, labels[::step], 0.0).astype(np.float64)

    def loss(theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights, log_temperature, bias = np.split(theta, [n_members, n_members + n_labels])
        temperature = np.exp(log_temperature)
        mixed = np.tensordot(weights, tables, axes=1)
        odds = temperature * mixed + bias
        cost = np.where(observed, np.logaddexp(0, odds) - target * odds, 0.0).sum()
        cost += (_FIRM_TEMPERATURE * log_temperature @ log_temperature + _FIRM_BIAS * bias @ bias) / 2
        gap = np.where(observed, expit(odds) - target, 0.0)
        slope = [
            np.einsum("mnl,nl->m", tables, gap * temperature),
            (gap * temperature * mixed).sum(axis=0) + _FIRM_TEMPERATURE * log_temperature,
            gap.sum(axis=0) + _FIRM_BIAS * bias,
        ]
        return float(cost), np.concatenate(slope)

    start = np.concatenate([np.full(n_members, 1 / n_members), np.zeros(2 * n_labels)])
    free: tuple[float | None, float | None] = (None, None) if by_label else (0.0, 0.0)
    bounds: Any = [(0.0, _MOST_WEIGHT)] * n_members + [free] * (2 * n_labels)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    weights, log_temperature, bias = np.split(found.x, [n_members, n_members + n_labels])
    return Stack(weights, np.exp(log_temperature), bias)


def logit_loss(labels: NDArray[Any], logits: NDArray[Any]) -> float:
    """Mean log loss of logits over observed cells; logits far out cost what they say, without a floor.

    Examples
    --------
    >>> round(logit_loss(np.array([[1.0, np.nan]]), np.array([[0.0, 5.0]])), 4)
    0.6931
    """
    observed = ~np.isnan(labels)
    odds, target = logits[observed].astype(np.float64), labels[observed]
    return float(np.mean(np.logaddexp(0, odds) - target * odds))
