r"""Probabilistic classifier chains: each label from the features and the labels before it, and ensembles of chains.

With the labels in an order :math:`\pi` a chain is a joint distribution,

.. math:: P(y \mid x) = \prod_t P(y_{\pi_t} \mid x, y_{\pi_1}, \ldots, y_{\pi_{t-1}}),

whose factors are logistic regressions learned with the true labels before each. Marginals, and probabilities given
some labels, are sums over label sets: all of them where they are few, else draws whose noise is shared by all rows,
weighted by how well they explain the given labels. Scikit-learn's ClassifierChain predicts with the labels it has
predicted so far and has no such sums.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, log_expit, logsumexp, softmax
from torch import Tensor

from hotvae.baselines.base import Held, TableClassifier
from hotvae.baselines.scikit import Odds, fit_logistic
from hotvae.baselines.tensor_io import array, pack_all
from hotvae.config import require_choice, require_count
from hotvae.estimators.per_label import (
    is_sparse,
    limited_threads,
    middle,
    require_candidates,
    squared_lengths,
)
from hotvae.metrics import log_loss

# Cells (row, draw, label) held at a time.
_CELLS_PER_BLOCK = 1 << 22


class Chain(NamedTuple):
    """One chain: an order of the labels, and the log odds of each given features and the labels before it."""

    order: NDArray[np.intp]  # (n_labels,): labels, first to last
    odds: Odds  # how features act
    links: NDArray[np.float64]  # (n_labels, n_labels): [j, l] is what a present j adds to l's log odds, if before it


def fit_chain(features: Any, labels: NDArray[Any], order: NDArray[np.intp], penalty: float) -> Chain:
    """Fit the factors of a chain, each with the true labels before it as further features.

    Parameters
    ----------
    features : ndarray or csr_matrix of shape (n_samples, n_features)
        Scaled features.
    labels : ndarray of shape (n_samples, n_labels)
        0 and 1.
    order : ndarray of int, shape (n_labels,)
        Labels, first to last.
    penalty : float
        As in :func:`~hotvae.baselines.scikit.fit_logistic`.

    Returns
    -------
    Chain
    """
    n_features, n_labels = features.shape[1], labels.shape[1]
    odds = Odds(np.zeros((n_features, n_labels)), np.zeros(n_labels))
    links = np.zeros((n_labels, n_labels))
    # Features are many and a link is one: with labels as long as a whole row of features the penalty is fair to both.
    unit = float(np.sqrt(squared_lengths(features).mean())) or 1.0
    for place, label in enumerate(order):
        before = order[:place]
        columns = unit * labels[:, before]
        if is_sparse(features):
            extended: Any = sparse.csr_matrix(sparse.hstack([features, sparse.csr_matrix(columns)], format="csr"))
        else:
            extended = np.hstack([features, columns])
        own = fit_logistic(extended, labels[:, [label]], penalty * unit**2, unit=1.0)
        odds.weights[:, label], odds.intercepts[label] = own.weights[:n_features, 0], own.intercepts[0]
        links[before, label] = unit * own.weights[n_features:, 0]
    return Chain(np.asarray(order), odds, links)


def walk_chain(
    chain: Chain, base: NDArray[np.float64], noise: NDArray[np.float64] | None, given: NDArray[Any] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Follow a chain to label sets: draws, or all there are, with their weights.

    Parameters
    ----------
    chain : Chain
        A fitted chain.
    base : ndarray of shape (n_samples, n_labels)
        Log odds from the features alone.
    noise : ndarray of shape (n_draws, n_labels) or None
        Uniform numbers, shared by all rows; None goes through all label sets.
    given : ndarray of shape (n_samples, n_labels) or None
        Given labels: 1, 0, or NaN for the others.

    Returns
    -------
    sets : ndarray of shape (n_labels, n_samples, n_draws)
        Label sets of 0 and 1, labels in the order of the chain; given labels as given.
    log_weights : ndarray of shape (n_samples, n_draws)
        How much each set counts.
    probs : ndarray of shape (n_labels, n_samples, n_draws)
        Probability of each label given the labels before it.
    """
    n_rows, n_labels = base.shape
    if noise is None:
        everything = np.array(list(product((0.0, 1.0), repeat=n_labels))).T
        sets = np.repeat(everything[:, None], n_rows, axis=1)
    else:
        sets = np.zeros((n_labels, n_rows, len(noise)))
    probs = np.empty_like(sets)
    log_weights = np.zeros(sets.shape[1:])
    for place, label in enumerate(chain.order):
        odds = np.tensordot(chain.links[chain.order[:place], label], sets[:place], axes=1) + base[:, label, None]
        probs[place] = expit(odds)
        own = np.full((n_rows, 1), np.nan) if given is None else given[:, label, None]
        is_given = ~np.isnan(own)
        if noise is not None:
            sets[place] = np.where(is_given, np.nan_to_num(own), noise[:, label] < probs[place])
        # A draw already occurs as often as it is probable; only given labels count for or against it.
        if noise is None or is_given.any():
            log_probs = log_expit(np.where(sets[place] == 1, odds, -odds))
            log_weights += log_probs if noise is None else np.where(is_given, log_probs, 0)
        if noise is None:
            log_weights[is_given & (sets[place] != own)] = -np.inf
    return sets, log_weights, probs


@dataclass(kw_only=True, eq=False, repr=False)
class _Chains(TableClassifier):
    """What one chain and an ensemble of chains share: everything but the orders of the labels."""

    takes: ClassVar[str] = "tables, dense or sparse; every label observed"
    accepts_missing_labels: ClassVar[bool] = False
    conditional = True

    n_draws: int = 128
    penalties: Sequence[float] = (0.03, 0.1, 0.3, 1.0, 3.0)
    unit_length: bool | None = None

    @abstractmethod
    def _orders(self, labels: NDArray[Any], random: np.random.Generator) -> list[NDArray[np.intp]]:
        """Return the order of the labels in each chain."""

    def _fit(self, rows: Any, labels: NDArray[Any], held: Held | None, seed: int) -> None:
        require_count("n_draws", self.n_draws)
        penalties = require_candidates("penalties", self.penalties)
        self.noise_seed_ = seed
        labels = labels.astype(np.float64)
        first, *others = self._orders(labels, np.random.default_rng(seed))
        whole = np.empty(0, dtype=np.intp) if held is None else np.flatnonzero(~np.isnan(held[1]).any(axis=1))
        if held is None or not whole.size:
            self.penalty_ = middle(penalties)
            chain = fit_chain(rows, labels, first, self.penalty_)
        else:
            held_rows, truth = held[0][whole], held[1][whole].astype(np.float64)
            self.penalty_, chain = self._fit_best(
                lambda penalty: fit_chain(rows, labels, first, penalty),
                lambda chain: log_loss(truth, expit(chain.odds.logits(held_rows) + truth @ chain.links)),
                penalties,
            )
        self.chains_ = [chain, *(fit_chain(rows, labels, order, self.penalty_) for order in others)]

    # Predicting -------------------------------------------------------------------------------------------

    def _predict(self, rows: Any) -> NDArray[np.floating[Any]]:
        return self._marginals(rows, None)

    def _probs_given(self, features: Any, given: NDArray[np.float32]) -> NDArray[np.floating[Any]]:
        with limited_threads(self.n_threads):
            return self._marginals(self._rows(features), given)

    def _draw_blocks(
        self, features: Any, given: NDArray[np.float32] | None, sizes: list[int], random: np.random.Generator
    ) -> Iterator[NDArray[np.int8]]:
        """Yield blocks of draws, with the labels' dependence on each other."""
        rows = self._rows(features)
        given = np.full((rows.shape[0], self.n_labels_), np.nan, dtype=np.float32) if given is None else given
        some = ~np.isnan(given).all(axis=1)
        for size in sizes:
            drawn = np.empty((size, rows.shape[0], self.n_labels_), dtype=np.int8)
            drawn[:, ~some] = self._draw(rows[np.flatnonzero(~some)], size, random)
            drawn[:, some] = self._draw_given(rows[np.flatnonzero(some)], given[some], size, random)
            yield drawn

    @property
    def draws_jointly(self) -> bool:
        """Whether labels depend on each other in the draws of the model."""
        return True

    def _draws_of_rows(self, features: Any, given: NDArray[np.float32] | None, n_draws: int) -> NDArray[np.int8]:
        rows = self._rows(features)
        given = np.full((rows.shape[0], self.n_labels_), np.nan, dtype=np.float32) if given is None else given
        parts = [
            self._draw_given(rows[[row]], given[[row]], n_draws, np.random.default_rng(0)) for row in range(len(given))
        ]
        return np.concatenate(parts, axis=1)

    def _log_likelihood(self, features: Any, labels: NDArray[np.float32], n_orders: int) -> NDArray[np.float64]:
        """Return the mean likelihood over chains, each in its own order; labels left out are drawn."""
        rows = self._rows(features)
        whole = not np.isnan(labels).any()
        n_draws = 1 if whole else self.n_draws  # of a whole set every draw is the set itself
        noise = np.random.default_rng(self.noise_seed_).uniform(size=(n_draws, self.n_labels_))
        found = np.empty((len(self.chains_), len(labels)))
        step = max(1, _CELLS_PER_BLOCK // (n_draws * self.n_labels_))
        for number, chain in enumerate(self.chains_):
            base = chain.odds.logits(rows)
            for start in range(0, len(labels), step):
                block = slice(start, start + step)
                log_weights = walk_chain(chain, base[block], noise, labels[block])[1]
                found[number, block] = logsumexp(log_weights, axis=1) - np.log(n_draws)
        likelihood: NDArray[np.float64] = logsumexp(found, axis=0) - np.log(len(found))
        return likelihood

    def _draw(self, features: Any, n_draws: int, random: np.random.Generator) -> NDArray[np.int8]:
        """Follow a chain, any of them, from its first label to its last."""
        drawn = np.empty((n_draws, features.shape[0], self.n_labels_), dtype=np.int8)
        which = random.integers(len(self.chains_), size=(n_draws, features.shape[0]))
        for number, chain in enumerate(self.chains_):
            base = chain.odds.logits(features)
            for draw in range(n_draws):  # draws of different rows are independent here: noise of their own
                rows = np.flatnonzero(which[draw] == number)
                state = np.zeros((len(rows), self.n_labels_))
                noise = random.uniform(size=state.shape)
                for label in chain.order:
                    state[:, label] = noise[:, label] < expit(base[rows, label] + state @ chain.links[:, label])
                drawn[draw, rows] = state
        return drawn

    def _draw_given(
        self, features: Any, given: NDArray[np.float32], n_draws: int, random: np.random.Generator
    ) -> NDArray[np.int8]:
        """Choose among the label sets behind the probabilities, each as often as it counts."""
        drawn = np.empty((n_draws, len(given), self.n_labels_), dtype=np.int8)
        noise, step = self._shared_noise()
        bases = [chain.odds.logits(features) for chain in self.chains_]
        for start in range(0, len(given), step):
            found, weights = [], []
            for number, (chain, base) in enumerate(zip(self.chains_, bases, strict=True)):
                block = slice(start, start + step)
                own_noise = None if noise is None else noise[number]
                sets, log_weights, _ = walk_chain(chain, base[block], own_noise, given[block])
                found.append(sets[np.argsort(chain.order)])
                weights.append(log_weights)
            every = np.concatenate(found, axis=2)
            for row, shares in enumerate(softmax(np.concatenate(weights, axis=1), axis=1)):
                picked = random.choice(len(shares), size=n_draws, p=shares)
                drawn[:, start + row] = every[:, row, picked].T
        return drawn

    def _shared_noise(self) -> tuple[NDArray[np.float64] | None, int]:
        """Noise of the draws that all rows share, None where all sets are few, and rows to take at a time."""
        exact = 2**self.n_labels_ <= self.n_draws
        shape = (len(self.chains_), self.n_draws, self.n_labels_)
        noise = None if exact else np.random.default_rng(self.noise_seed_).uniform(size=shape)
        n_sets = 2**self.n_labels_ if exact else self.n_draws
        return noise, max(1, _CELLS_PER_BLOCK // (n_sets * self.n_labels_))

    def _marginals(self, features: Any, given: NDArray[Any] | None) -> NDArray[np.floating[Any]]:
        """Weighted means over label sets; chains count by how well they explain the given labels."""
        noise, step = self._shared_noise()
        marginals = np.empty((features.shape[0], self.n_labels_))
        bases = [chain.odds.logits(features) for chain in self.chains_]
        for start in range(0, len(marginals), step):
            block = slice(start, start + step)
            own = None if given is None else given[block]
            marginals[block] = self._block_marginals([base[block] for base in bases], noise, own)
        return marginals

    def _block_marginals(
        self, bases: list[NDArray[np.float64]], noise: NDArray[np.float64] | None, given: NDArray[Any] | None
    ) -> NDArray[np.float64]:
        shape = (len(bases[0]), 1)
        shift, totals, sums = np.full(shape, -np.inf), np.zeros(shape), np.zeros(bases[0].shape)
        for number, (chain, base) in enumerate(zip(self.chains_, bases, strict=True)):
            sets, log_weights, probs = walk_chain(chain, base, None if noise is None else noise[number], given)
            if noise is not None:
                # Where no label is given, the probability given those before has less noise than the drawn label.
                some = np.zeros(shape, dtype=bool) if given is None else ~np.isnan(given).all(axis=1, keepdims=True)
                sets = np.where(some, sets, probs)
            # Weights can be smaller than any float: all are taken relative to the largest so far.
            largest = np.maximum(shift, log_weights.max(axis=1, keepdims=True))
            weights, rescale = np.exp(log_weights - largest), np.exp(shift - largest)
            totals = totals * rescale + weights.sum(axis=1, keepdims=True)
            sums *= rescale
            sums[:, chain.order] += np.einsum("rs,lrs->rl", weights, sets)
            shift = largest
        marginals: NDArray[np.float64] = sums / totals
        return np.clip(marginals, 0, 1)

    # Saving -----------------------------------------------------------------------------------------------

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        tables = {
            "order": np.array([chain.order for chain in self.chains_]),
            "weights": np.array([chain.odds.weights for chain in self.chains_]),
            "intercepts": np.array([chain.odds.intercepts for chain in self.chains_]),
            "links": np.array([chain.links for chain in self.chains_]),
        }
        return {"penalty": self.penalty_, "noise_seed": self.noise_seed_}, pack_all(tables)

    def _restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.penalty_, self.noise_seed_ = config["penalty"], config["noise_seed"]
        n_labels = self.n_labels_
        orders = array("order", tensors, (None, n_labels))
        weights = array("weights", tensors, (len(orders), self.features_.n_features_out, n_labels))
        intercepts = array("intercepts", tensors, (len(orders), n_labels))
        links = array("links", tensors, (len(orders), n_labels, n_labels))
        if (np.sort(orders, axis=1) != np.arange(n_labels)).any():
            raise ValueError("order must name every label once")
        self.chains_ = [Chain(order, Odds(weights[i], intercepts[i]), links[i]) for i, order in enumerate(orders)]


@dataclass(kw_only=True, eq=False, repr=False)
class LabelChain(_Chains):
    """Probabilistic classifier chain of logistic regressions (Dembczyński et al. 2010).

    Parameters
    ----------
    order : {"frequent", "given", "random"}
        Labels from frequent to rare, as in the table, or at random.
    n_draws : int
        Label sets drawn for each row when there are more than this many possible; else all are summed, exactly.
    penalties : sequence of float
        Candidates for the penalty of all factors (see :class:`~hotvae.baselines.scikit.LogisticLabels`); validation
        rows choose by the probability of their label sets, and without them the middle one is taken.
    unit_length, validation_fraction, random_state, n_threads, progress
        As in :class:`~hotvae.baselines.base.TableClassifier`.

    Attributes
    ----------
    penalty_ : float
        The penalty chosen.
    chains_ : list of Chain
        The chain; several in :class:`ChainEnsemble`.
    """

    title = "classifier chain"
    citation: ClassVar[str] = (
        "Dembczyński, Cheng & Hüllermeier (2010). Bayes optimal multilabel classification via probabilistic "
        "classifier chains. ICML."
    )
    cost: ClassVar[str] = "seconds to minutes; grows with rows times labels squared"

    order: Literal["frequent", "given", "random"] = "frequent"

    def _orders(self, labels: NDArray[Any], random: np.random.Generator) -> list[NDArray[np.intp]]:
        """Return the order of the labels in each chain."""
        kind = require_choice("order", self.order, ("frequent", "given", "random"))
        if kind == "frequent":
            return [np.argsort(-labels.sum(axis=0), kind="stable")]
        return [np.arange(labels.shape[1]) if kind == "given" else random.permutation(labels.shape[1])]


@dataclass(kw_only=True, eq=False, repr=False)
class ChainEnsemble(_Chains):
    """Ensemble of probabilistic classifier chains in random orders (Read et al. 2011).

    The chains are averaged as distributions: given some labels, each counts by how well it explains them.

    Parameters
    ----------
    n_chains : int
        Chains, each in an order of its own.
    n_draws : int
        Label sets drawn from each chain for each row.
    penalties : sequence of float
        As in :class:`LabelChain`; chosen with the first chain.
    unit_length, validation_fraction, random_state, n_threads, progress
        As in :class:`LabelChain`.
    """

    title = "ensemble of chains"
    citation: ClassVar[str] = (
        "Read, Pfahringer, Holmes & Frank (2011). Classifier chains for multi-label classification. Machine Learning."
    )
    cost: ClassVar[str] = "minutes; as many times a chain as there are chains"

    n_chains: int = 10
    n_draws: int = 32

    def _orders(self, labels: NDArray[Any], random: np.random.Generator) -> list[NDArray[np.intp]]:
        return [random.permutation(labels.shape[1]) for _ in range(require_count("n_chains", self.n_chains))]
