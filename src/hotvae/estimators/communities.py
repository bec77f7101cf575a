"""Classifiers that draw whole communities: common causes tie the labels that the network predicts.

However a network comes by its probabilities, a multivariate probit with the same marginals says how labels go together:
each label has a latent value, a mean that its probability fixes, and a few hidden causes it shares with other labels
(see :class:`~hotvae.net.probit.ProbitHead`). The causes are learned after the network, by the likelihood of whole
communities, so no probability changes by them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtri
from torch import Tensor

from hotvae.config import TrainConfig, require_count
from hotvae.estimators.base import LabelledRows
from hotvae.estimators.network import NetworkClassifier
from hotvae.net.probit import CovarianceNet, Posterior, ProbitHead, even_noise
from hotvae.training.loop import Rows, choose_device, fit_network, predict_network, torch_threads
from hotvae.training.progress import make_progress

# Rows for which the latent draws are held at once.
CONDITIONAL_ROWS = 32

# A few hundred numbers under fixed marginals: they bear larger steps than a network, and settle soon.
_LEARNING_RATE = 0.05
_PATIENCE = 8
_VALIDATION_DRAWS = 128


class JointClassifier(NetworkClassifier):
    """A classifier whose labels follow a multivariate probit around the probabilities of its network.

    Its network has a :class:`~hotvae.net.probit.ProbitHead` named ``head``. Its parameters are ``rank``,
    ``n_likelihood_draws``, ``covariance_epochs`` and ``n_conditional_draws``; it says ``_scores``.
    """

    @property
    def _head(self) -> ProbitHead:
        return cast(ProbitHead, self.network_.head)

    def _rank(self, n_labels: int) -> int:
        return min(n_labels, 32) if self.rank is None else require_count("rank", self.rank)

    def _scores(self, features: Any) -> NDArray[Any]:
        """Return the probit of every probability, for scaled rows."""
        raise NotImplementedError

    def _learn(self, train: LabelledRows, validation: LabelledRows | None, seed: int) -> None:
        n_epochs = require_count("covariance_epochs", self.covariance_epochs, least=0)
        super()._learn(train, validation, seed)
        # Without validation rows the last epoch was kept, covariance and all. Classes are never drawn as sets.
        if n_epochs and validation is not None and self.n_labels_ > 1 and self.target_ == "labels":
            self._learn_covariance(train, validation, seed, n_epochs)

    def _learn_covariance(self, train: LabelledRows, validation: LabelledRows, seed: int, n_epochs: int) -> None:
        """Train the head alone; of the validation rows one half of the labels has to tell the other."""
        hidden = np.random.default_rng(seed).random(validation.labels.shape) < 0.5
        known, wanted = (np.where(kept, validation.labels, np.nan) for kept in (~hidden, hidden))
        if np.isnan(known).all() or np.isnan(wanted).all():
            return
        n_draws = require_count("n_likelihood_draws", self.n_likelihood_draws)
        head, dtype, device = self._head, self._dtype(), choose_device(self.device)
        noise = even_noise(_VALIDATION_DRAWS, head.factors.shape[1], seed, head.factors.dtype)
        network = CovarianceNet(head, noise)
        rows = Rows(self._scores(train.features), train.labels.astype(dtype))
        held = Rows(np.hstack([self._scores(validation.features), known]).astype(dtype), wanted.astype(dtype))
        config = replace(
            self._config(TrainConfig),
            max_epochs=n_epochs,
            direct_epochs=0,
            learning_rate=_LEARNING_RATE,
            selection_metric="log_loss",
            patience=_PATIENCE,
        )
        with torch_threads(self.n_threads):
            fit_network(
                network,
                lambda scores, labels: {"nll": head.nll(scores, labels, n_draws)},
                {"nll": 1.0},
                rows,
                held,
                config,
                seed=seed,
                device=device,
                progress=make_progress(self.progress, f"{self.title}, covariance (half of the labels given)"),
            )
            head.to("cpu")

    def _draw_blocks(
        self, features: Any, known: NDArray[np.float32] | None, sizes: list[int], random: np.random.Generator
    ) -> Iterator[NDArray[np.int8]]:
        """Yield blocks of draws, with the labels' dependence on each other."""
        scores = self._scores(features)
        told = np.full_like(scores, np.nan) if known is None else known.astype(scores.dtype)
        table = np.hstack([scores, told, scores if known is None else self._told_scores(features, known, scores)])
        head, noise = self._head, self._conditional_noise()
        factors = head.factors.detach()
        generator = torch.Generator().manual_seed(int(random.integers(2**63 - 1)))

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=factors.dtype)

        def draw(rows: Tensor, n_draws: int) -> Tensor:
            scores, labels, told_scores = rows.chunk(3, dim=-1)
            latent = head.latent_mean(scores) + normal(n_draws, len(rows), factors.shape[1]) @ factors.T
            unknown = torch.isnan(labels)
            is_told = ~unknown.all(-1)
            if bool(is_told.any()):
                found = head.posterior(scores[is_told], labels[is_told], noise)
                picked = torch.multinomial(found.weights.T, n_draws, replacement=True, generator=generator).T
                causes = found.draws.gather(0, picked.unsqueeze(-1).expand(-1, -1, factors.shape[1]))
                latent[:, is_told] = self._told_latent(head, found, causes, told_scores[is_told])
            present = latent + normal(*latent.shape) > 0
            return torch.where(unknown, present.to(labels.dtype), labels).to(torch.int8).transpose(0, 1)

        for size in sizes:
            with torch_threads(self.n_threads):
                drawn = predict_network(partial(draw, n_draws=size), table, batch_size=CONDITIONAL_ROWS)
            yield np.ascontiguousarray(drawn.transpose(1, 0, 2)).astype(np.int8, copy=False)

    def _told_scores(self, features: Any, known: NDArray[np.float32], scores: NDArray[Any]) -> NDArray[Any]:
        """Return what :meth:`_told_latent` starts from."""
        return scores

    def _told_latent(self, head: ProbitHead, found: Posterior, causes: Tensor, scores: Tensor) -> Tensor:
        """Return the latent means of some draws of the causes, given known labels: what the causes alone say."""
        return head.latent_mean(scores) + causes @ head.factors.T

    def _conditional_noise(self) -> Tensor:
        n_draws = require_count("n_conditional_draws", self.n_conditional_draws, least=2)
        factors = self._head.factors
        return even_noise(n_draws, factors.shape[1], self.noise_seed_, factors.dtype)


def probit_of(probs: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Scores whose normal distribution function the probabilities are; certain ones are a millionth short of it.

    Parameters
    ----------
    probs : ndarray
        Between 0 and 1.

    Returns
    -------
    ndarray
        Of the same type.

    Examples
    --------
    >>> probit_of(np.array([0.5, 0.975])).round(2)
    array([0.  , 1.96])
    """
    scores: NDArray[np.floating[Any]] = ndtri(np.clip(probs.astype(np.float64), 1e-6, 1 - 1e-6)).astype(probs.dtype)
    return scores
