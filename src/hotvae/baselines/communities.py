"""Communities of the multivariate probit: whole label sets, and labels given others.

Each label has a latent value, a mean that its probability fixes, and a few hidden causes it shares with other labels
(see :class:`~hotvae.baselines.multivariate_probit.ProbitHead`). After the network the causes learn on by the likelihood
of whole communities, while no probability changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtri
from torch import Tensor

from hotvae.baselines.multivariate_probit import CovarianceNet, ProbitHead, even_noise
from hotvae.config import require_count
from hotvae.estimators.network import NetworkClassifier
from hotvae.features import Rows
from hotvae.training.loop import fit_network
from hotvae.training.prediction import predict_network, torch_threads
from hotvae.training.settings import Training

# Rows for which the latent draws are held at once.
_ROWS = 32
# A few hundred numbers under fixed marginals: they bear larger steps than a network, and settle soon.
_LEARNING_RATE = 0.05
_PATIENCE = 8
_VALIDATION_DRAWS = 128
# Common causes of labels, unless a number is given: as many as labels, at most so many.
_MOST_CAUSES = 32
N_LIKELIHOOD_DRAWS = 100
"""Draws that estimate the joint likelihood, shared by the rows of a batch."""

# Draws behind conditional probabilities.
_CONDITIONAL_DRAWS = 1024


class Communities:
    """Common causes around the probabilities of a fitted network: whole label sets, and labels given others.

    Parameters
    ----------
    head : ProbitHead
        The causes of each label.
    seed : int
        Decides the draws behind conditional probabilities.
    n_threads : int or None
        Threads of torch.
    """

    def __init__(self, head: ProbitHead, seed: int, n_threads: int | None = 1) -> None:
        self.head = head
        self.seed = seed
        self.n_threads = n_threads

    def learn(self, train: Rows, validation: Rows, training: Training, n_epochs: int, title: str) -> None:
        """Train the causes alone; of the validation rows one half of the labels has to tell the other.

        Where so few validation labels were observed that nothing can be told, they stay as they are.

        Parameters
        ----------
        train, validation : Rows
            Probit scores of the labels as features (:func:`probit_of`), and the labels.
        training : Training
            Of the network; epochs, step size and patience are this step's own.
        n_epochs : int
            Most epochs.
        title : str
            What the progress calls it.
        """
        labels = validation.observed()
        hidden = np.random.default_rng(self.seed).random(labels.shape) < 0.5
        given, target = (np.where(kept, labels, np.nan) for kept in (~hidden, hidden))
        if np.isnan(given).all() or np.isnan(target).all():
            return
        rank = self.head.factors.shape[1]
        noise = even_noise(_VALIDATION_DRAWS, rank, self.seed, self.head.factors.dtype)
        scores = validation.features
        fit_network(
            CovarianceNet(self.head, noise, N_LIKELIHOOD_DRAWS),
            {"nll": 1.0},
            train,
            Rows(np.hstack([scores, given]).astype(scores.dtype), target.astype(scores.dtype)),
            training.but(
                max_epochs=n_epochs, learning_rate=_LEARNING_RATE, selection_metric="log_loss", patience=_PATIENCE
            ),
            seed=self.seed,
            title=f"{title}, covariance (half of the labels given)",
        )

    def conditional(self, scores: NDArray[Any], given: NDArray[Any]) -> NDArray[np.floating[Any]]:
        """Probabilities of all labels given some of them (NaN: not given), by the common causes alone."""
        network = CovarianceNet(self.head, self._noise())
        table = np.hstack([scores, given.astype(scores.dtype)])
        with torch_threads(self.n_threads):
            return predict_network(network.predict, table, batch_size=_ROWS)

    def log_likelihood(self, scores: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.float64]:
        """Log likelihood of whole label sets (NaN: left out), by importance sampling of the common causes."""
        noise = self._noise()

        def of_batch(scores: Tensor, labels: Tensor) -> Tensor:
            return self.head.log_likelihood(scores, labels, noise)

        with torch_threads(self.n_threads):
            found = predict_network(of_batch, scores, labels.astype(scores.dtype), batch_size=_ROWS)
        return found.astype(np.float64)

    def draw(
        self,
        scores: NDArray[Any],
        given: NDArray[Any] | None,
        sizes: list[int],
        random: np.random.Generator,
    ) -> Iterator[NDArray[np.int8]]:
        """Yield blocks of draws.

        Parameters
        ----------
        scores : ndarray of shape (n_samples, n_labels)
            Probit of every probability from the features alone.
        given : ndarray of shape (n_samples, n_labels), optional
            Labels that every draw has; NaN elsewhere.
        sizes : list of int
            Draws of each block.
        random : Generator
            Decides the draws.

        Yields
        ------
        ndarray of int8 of shape (some draws, n_samples, n_labels)
        """
        fixed = np.full_like(scores, np.nan) if given is None else given.astype(scores.dtype)
        head, noise = self.head, self._noise()
        factors = head.factors.detach()
        generator = torch.Generator().manual_seed(int(random.integers(2**63 - 1)))

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=factors.dtype)

        def one_block(scores: Tensor, labels: Tensor, n_draws: int) -> Tensor:
            latent = head.latent_mean(scores) + normal(n_draws, len(scores), factors.shape[1]) @ factors.T
            is_free = torch.isnan(labels)
            has_given = ~is_free.all(-1)
            if bool(has_given.any()):
                found = head.posterior(scores[has_given], labels[has_given], noise)
                picked = torch.multinomial(found.weights.T, n_draws, replacement=True, generator=generator).T
                causes = found.draws.gather(0, picked.unsqueeze(-1).expand(-1, -1, factors.shape[1]))
                latent[:, has_given] = head.latent_mean(scores[has_given]) + causes @ head.factors.T
            present = latent + normal(*latent.shape) > 0
            return torch.where(is_free, present.to(labels.dtype), labels).to(torch.int8).transpose(0, 1)

        for size in sizes:
            with torch_threads(self.n_threads):
                drawn = predict_network(partial(one_block, n_draws=size), scores, fixed, batch_size=_ROWS)
            yield np.ascontiguousarray(drawn.transpose(1, 0, 2)).astype(np.int8, copy=False)

    def _noise(self) -> Tensor:
        factors = self.head.factors
        return even_noise(_CONDITIONAL_DRAWS, factors.shape[1], self.seed, factors.dtype)


@dataclass(kw_only=True, eq=False, repr=False)
class ProbitNetwork(NetworkClassifier):
    """A network with a probit head: its common causes say how labels go together.

    Parameters
    ----------
    rank : int or None
        Common causes in the covariance of the labels; None takes as many as labels, at most 32.
    covariance_epochs : int
        Epochs in which, after training, the covariance learns on while the marginals stay as they are: the epoch that
        is kept is chosen by marginals, often before the covariance has settled. 0 leaves it as it is.
    """

    conditional = True
    rank: int | None = None
    covariance_epochs: int = 30

    @property
    def communities_(self) -> Communities:
        """The common causes around the network's probabilities."""
        head = cast(ProbitHead, self.network_.get_submodule("head"))
        return Communities(head, self.noise_seed_, self._training().n_threads)

    def check_parameters(self) -> None:
        """Find a parameter that is not allowed before any data are read."""
        super().check_parameters()
        require_count("covariance_epochs", self.covariance_epochs, least=0)
        if self.rank is not None:
            require_count("rank", self.rank)

    def _rank(self, n_labels: int) -> int:
        return min(n_labels, _MOST_CAUSES) if self.rank is None else int(self.rank)

    def _steps(self) -> list[Callable[[Rows, Rows, int], None]]:
        return [self._learn_communities, *super()._steps()]

    def _learn_communities(self, train: Rows, validation: Rows, seed: int) -> None:
        """Learn the common causes on, while all probabilities stay as they are."""
        # One label goes with no other, and classes (1-D y) are never drawn as sets.
        if self.covariance_epochs and self.n_labels_ > 1 and self.target_ == "labels":
            own, held = (Rows(self._scores(part), part.labels) for part in (train, validation))
            self.communities_.learn(own, held, self._training(), self.covariance_epochs, self.title)

    def _scores(self, rows: Rows) -> NDArray[Any]:
        """Return the probit of every probability."""
        with torch_threads(self._training().n_threads):
            return predict_network(cast(Any, self.network_).scores, rows.features, rows.base_logits)

    @property
    def draws_jointly(self) -> bool:
        """Whether labels depend on each other in the draws of the model."""
        return True

    def _probs_given(self, rows: Rows, given: NDArray[np.float32]) -> NDArray[np.floating[Any]]:
        return self.communities_.conditional(self._scores(rows), given)

    def _draw_blocks(
        self, rows: Rows, given: NDArray[np.float32] | None, sizes: list[int], random: np.random.Generator
    ) -> Iterator[NDArray[np.int8]]:
        return self.communities_.draw(self._scores(rows), given, sizes, random)

    def _log_likelihood(self, rows: Rows, labels: NDArray[np.float32], n_orders: int) -> NDArray[np.float64]:
        return self.communities_.log_likelihood(self._scores(rows), labels)


def probit_of(probs: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Scores whose normal distribution function the probabilities are; certain ones are a millionth short of it."""
    scores: NDArray[np.floating[Any]] = ndtri(np.clip(probs.astype(np.float64), 1e-6, 1 - 1e-6)).astype(probs.dtype)
    return scores
