"""Some rows under a joint law: what the base says of each label, and what changes how labels speak to each other.

Every estimator with a law makes these of the rows it is asked about; what the law then answers is the same for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from hotvae.estimators.decisions import Lists, beam_search, chain_log_probs, likely
from hotvae.estimators.joint_law import JointLaw

# Labels up to which the search for the likeliest set follows several orders and compares their best sets.
_FEW_LABELS = 20
_N_ORDERS, _N_FINALISTS = 4, 2
_WIDTH = 8
# Rows of about as many open labels that are searched together.
_ROWS_AT_ONCE = 256
# Of many labels, those with logits beyond this (1.8 %) are decided by what the base says.
_CERTAIN = 4.0


@dataclass(frozen=True, eq=False)
class LawRows:
    """Rows, and the law of their labels.

    Attributes
    ----------
    law : JointLaw
        What labels say of each other.
    logits : ndarray of shape (n_rows, n_labels)
        What the base says of each label.
    gates : ndarray of shape (n_rows, n_features)
        What changes how labels speak to each other.
    """

    law: JointLaw
    logits: NDArray[Any]
    gates: NDArray[Any]

    @property
    def is_joint(self) -> bool:
        """Whether labels say anything of each other."""
        return self.law.messages is not None

    def probs(self) -> NDArray[np.float32]:
        """Probabilities of each label by itself."""
        probs: NDArray[np.float32] = expit(self.logits).astype(np.float32)
        return probs

    def probs_given(self, given: NDArray[Any]) -> NDArray[np.float32]:
        """Probabilities of all labels given some (NaN: not given), which are as given themselves."""
        probs = expit(self.law.logits(self.logits, self.gates, given)).astype(np.float32)
        return np.where(np.isnan(given), probs, given).astype(np.float32)

    def draw_blocks(
        self, given: NDArray[Any] | None, sizes: list[int], random: np.random.Generator
    ) -> Iterator[NDArray[np.int8]]:
        """Yield blocks of draws of whole label sets."""
        return (self.law.sample(self.logits, self.gates, size, random, given) for size in sizes)

    def draws_of_rows(self, given: NDArray[Any] | None, n_draws: int) -> NDArray[np.int8]:
        """Draws of each row by the same dice, so that they do not depend on the other rows."""
        return self.law.sample(self.logits, self.gates, n_draws, np.random.default_rng(0), given, same_dice=True)

    def log_likelihood(self, labels: NDArray[Any], n_orders: int = 4) -> NDArray[np.float64]:
        """Log likelihood of the label set of each row; labels that are NaN are left out."""
        return self.law.log_likelihood(self.logits, self.gates, labels, n_orders)

    def likeliest(self, given: NDArray[Any] | None = None, width: int = _WIDTH) -> Lists:
        """Find the likeliest whole set of each row that has the given labels.

        Up to 20 labels, sets are searched along a few orders of the labels, each with a beam, and the best of them
        compared by their mean probability over the orders; exact where the beam is as wide as there are sets. With
        more labels, those that the base is sure of (98.2 %) are decided by it, the others by one beam, the surest
        first.

        Parameters
        ----------
        given : ndarray of shape (n_rows, n_labels), optional
            Known labels; NaN elsewhere.
        width : int
            Sets that each search follows.

        Returns
        -------
        ndarray of bool of shape (n_rows, n_labels)
        """
        known = np.full(self.logits.shape, np.nan, dtype=np.float32) if given is None else given
        if not self.is_joint:
            return np.where(np.isnan(known), likely(expit(self.logits)), known == 1)
        if known.shape[1] > _FEW_LABELS:
            return self._likeliest_of_many(known, width)
        random = np.random.default_rng(0)
        orders = [random.permutation(known.shape[1]) for _ in range(_N_ORDERS)]
        n_kept = width if 2 ** known.shape[1] <= width else min(width, _N_FINALISTS)
        found = [beam_search(self._step, known, order, width)[0][:n_kept] for order in orders]
        plain = np.where(np.isnan(known), self.logits > 0, known == 1)
        sets = np.concatenate([*found, plain[None]])
        by_order = np.stack([chain_log_probs(self._step, sets, known, order) for order in orders])
        best = np.logaddexp.reduce(by_order, axis=0).argmax(axis=0)
        chosen: Lists = np.take_along_axis(sets, best[None, :, None], axis=0)[0]
        return chosen

    def _likeliest_of_many(self, known: NDArray[Any], width: int) -> Lists:
        """Decide what the base is sure of, then the other labels of each row by one beam."""
        logits = self.law.logits(self.logits, self.gates, known)
        sure = np.isnan(known) & (np.abs(logits) > _CERTAIN)
        told = np.where(sure, logits > 0, known).astype(np.float32)
        lists = np.zeros(known.shape, dtype=bool)
        # Rows with about as many open labels go together.
        n_open = np.isnan(told).sum(axis=1)
        for rows in np.array_split(np.argsort(n_open, kind="stable"), max(1, len(told) // _ROWS_AT_ONCE)):
            order = np.argsort(-np.where(np.isnan(told[rows]), np.abs(logits[rows]), -1.0), axis=1, kind="stable")
            part = LawRows(self.law, self.logits[rows], self.gates[rows])
            steps = order.T[: int(n_open[rows].max(initial=0))]
            lists[rows] = beam_search(part._step, told[rows], steps, width)[0][0]
        return lists

    def _step(self, state: NDArray[np.float32]) -> NDArray[Any]:
        """Logits given labels, for several sets of each row at once."""
        n_sets = len(state)
        logits, gates = (np.tile(table, (n_sets, 1)) for table in (self.logits, self.gates))
        found = self.law.logits(logits, gates, state.reshape(-1, state.shape[-1]))
        return found.reshape(state.shape)

    def edges(self, label: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Read what one label alone tells all others, as changes of their logits: its presence, and its absence.

        Parameters
        ----------
        label : int
            Who speaks.

        Returns
        -------
        presence, absence : ndarray of shape (n_rows, n_labels)
            0 for the label itself. Their difference is the flip of the label: just what :meth:`probs_given` answers.
        """
        known = np.full((2, *self.logits.shape), np.nan, dtype=np.float32)
        known[0, :, label], known[1, :, label] = 1, 0
        moved = self._step(known).astype(np.float64) - self.logits
        moved[:, :, label] = 0.0
        return moved[0], moved[1]
