"""Communities: whole label sets, drawn so that labels go together as they do in training rows.

However a network comes by its probabilities, a multivariate probit with the same marginals says how labels go together:
each label has a latent value, a mean that its probability fixes, and a few hidden causes it shares with other labels
(see :class:`~hotvae.net.probit.ProbitHead`). The causes are learned after the network, by the likelihood of whole
communities, so no probability changes by them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtri
from torch import Tensor

from hotvae.features import Rows
from hotvae.net.probit import CovarianceNet, Posterior, ProbitHead, even_noise
from hotvae.training.loop import fit_network
from hotvae.training.prediction import predict_network, torch_threads
from hotvae.training.settings import Training

# Rows for which the latent draws are held at once.
_ROWS = 32
# A few hundred numbers under fixed marginals: they bear larger steps than a network, and settle soon.
_LEARNING_RATE = 0.05
_PATIENCE = 8
_VALIDATION_DRAWS = 128


class Communities:
    """Common causes around the probabilities of a fitted network: whole label sets, and labels given others.

    Parameters
    ----------
    head : ProbitHead
        The causes of each label.
    seed : int
        Decides the draws behind conditional probabilities.
    n_draws : int
        How many of these draws there are, shared by all rows.
    n_threads : int or None
        Threads of torch.
    """

    def __init__(self, head: ProbitHead, seed: int, n_draws: int, n_threads: int | None = 1) -> None:
        self.head = head
        self.seed = seed
        self.n_draws = n_draws
        self.n_threads = n_threads

    def learn(
        self, train: Rows, validation: Rows, training: Training, n_epochs: int, n_likelihood_draws: int, title: str
    ) -> bool:
        """Train the causes alone; of the validation rows one half of the labels has to tell the other.

        Parameters
        ----------
        train, validation : Rows
            Probit scores of the labels as features (:func:`probit_of`), and the labels.
        training : Training
            Of the network; epochs, step size and patience are this step's own.
        n_epochs : int
            Most epochs.
        n_likelihood_draws : int
            Draws that estimate the joint likelihood of a batch.
        title : str
            What the progress calls it.

        Returns
        -------
        bool
            False where so few validation labels were observed that nothing can be learned.
        """
        labels = validation.observed()
        hidden = np.random.default_rng(self.seed).random(labels.shape) < 0.5
        given, target = (np.where(kept, labels, np.nan) for kept in (~hidden, hidden))
        if np.isnan(given).all() or np.isnan(target).all():
            return False
        rank = self.head.factors.shape[1]
        noise = even_noise(_VALIDATION_DRAWS, rank, self.seed, self.head.factors.dtype)
        scores = validation.features
        fit_network(
            CovarianceNet(self.head, noise, n_likelihood_draws),
            {"nll": 1.0},
            train,
            Rows(np.hstack([scores, given]).astype(scores.dtype), target.astype(scores.dtype)),
            training.but(
                max_epochs=n_epochs, learning_rate=_LEARNING_RATE, selection_metric="log_loss", patience=_PATIENCE
            ),
            seed=self.seed,
            title=f"{title}, covariance (half of the labels given)",
        )
        return True

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
        given_scores: NDArray[Any] | None = None,
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
        given_scores : ndarray of shape (n_samples, n_labels), optional
            Probit of every probability given these labels, where the network says so itself; else the common causes do.

        Yields
        ------
        ndarray of int8 of shape (some draws, n_samples, n_labels)
        """
        fixed = np.full_like(scores, np.nan) if given is None else given.astype(scores.dtype)
        moved = scores if given_scores is None else given_scores
        head, noise = self.head, self._noise()
        factors = head.factors.detach()
        generator = torch.Generator().manual_seed(int(random.integers(2**63 - 1)))

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=factors.dtype)

        def one_block(scores: Tensor, labels: Tensor, moved: Tensor, n_draws: int) -> Tensor:
            latent = head.latent_mean(scores) + normal(n_draws, len(scores), factors.shape[1]) @ factors.T
            is_free = torch.isnan(labels)
            has_given = ~is_free.all(-1)
            if bool(has_given.any()):
                found = head.posterior(scores[has_given], labels[has_given], noise)
                picked = torch.multinomial(found.weights.T, n_draws, replacement=True, generator=generator).T
                causes = found.draws.gather(0, picked.unsqueeze(-1).expand(-1, -1, factors.shape[1]))
                if given_scores is None:
                    latent[:, has_given] = head.latent_mean(scores[has_given]) + causes @ head.factors.T
                else:
                    latent[:, has_given] = _around(moved[has_given], causes, found, factors)
            present = latent + normal(*latent.shape) > 0
            return torch.where(is_free, present.to(labels.dtype), labels).to(torch.int8).transpose(0, 1)

        for size in sizes:
            with torch_threads(self.n_threads):
                drawn = predict_network(partial(one_block, n_draws=size), scores, fixed, moved, batch_size=_ROWS)
            yield np.ascontiguousarray(drawn.transpose(1, 0, 2)).astype(np.int8, copy=False)

    def _noise(self) -> Tensor:
        factors = self.head.factors
        return even_noise(self.n_draws, factors.shape[1], self.seed, factors.dtype)


def _around(scores: Tensor, causes: Tensor, found: Posterior, factors: Tensor) -> Tensor:
    """Latent means around scores that know the given labels: of the causes only what is still uncertain counts."""
    centre = torch.einsum("kb,kbr->br", found.weights, found.draws)
    deviation = (found.draws - centre) @ factors.T
    spread = (1 + torch.einsum("kb,kbl->bl", found.weights, deviation.square())).sqrt()
    return scores * spread + (causes - centre) @ factors.T


def probit_of(probs: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Scores whose normal distribution function the probabilities are; certain ones are a millionth short of it."""
    scores: NDArray[np.floating[Any]] = ndtri(np.clip(probs.astype(np.float64), 1e-6, 1 - 1e-6)).astype(probs.dtype)
    return scores
