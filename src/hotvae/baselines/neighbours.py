"""Latent neighbours: labels of the training rows nearest in the latent space, mixed into a prediction.

A network squeezes its training rows into weights and forgets them; nearest neighbours forget nothing and know nothing
but distance. In the latent space, where rows of like labels lie close, they complete each other (ADR 0017).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from hotvae.config import require_count
from hotvae.estimators.network import NetworkClassifier
from hotvae.features import Rows
from hotvae.metrics import log_loss
from hotvae.training.prediction import predict_network, torch_threads
from hotvae.types import Pooled, Probs

NEIGHBOURS = "neighbours."
"""How names of tensors in a file begin that are remembered training rows."""

# Stored for a label that was not observed; 0 and 1 are stored as they are.
_NOT_OBSERVED = 2
# What the neighbours of a row may count for, and how fast they count for less with the angle; validation rows choose.
_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
_TEMPERATURES = (0.02, 0.05, 0.1, 0.2)
# Rows among which neighbours are looked for, at most: every prediction compares with all, and the file holds them.
_MOST_REMEMBERED = 20_000


class LatentNeighbours:
    r"""Labels of the training rows nearest in the latent space, weighted by nearness.

    With the cosine :math:`s_i` between a row and its :math:`k` nearest training rows, the weights are
    :math:`w_i = \mathrm{softmax}(s / \tau)_i`, and a probability :math:`p` of the network becomes

    .. math:: p + \lambda \sum_i w_i o_i (y_i - p),

    where :math:`o_i` is 1 if the label of neighbour i was observed: what nobody near has seen is left to the network.

    Parameters
    ----------
    places : Tensor of shape (row, latent)
        Training rows in the latent space.
    labels : Tensor of shape (row, label)
        Their labels: 0, 1, or NaN for not observed.
    n_neighbours : int
        k; fewer rows than that all count.
    share, temperature : float
        :math:`\lambda` and :math:`\tau`.
    """

    def __init__(
        self,
        places: Float[Tensor, "row latent"],
        labels: Float[Tensor, "row label"],
        n_neighbours: int,
        share: float = 0.0,
        temperature: float = 0.1,
    ) -> None:
        self.n_neighbours = n_neighbours
        self.share = share
        self.temperature = temperature
        self.places = functional.normalize(places, dim=-1)
        self.present = (labels == 1).to(places.dtype)
        observed = ~torch.isnan(labels)
        self.observed = None if bool(observed.all()) else observed.to(places.dtype)

    def mix(self, probs: Probs, latent: Pooled) -> Probs:
        """Move the probabilities of a batch towards what its neighbours had.

        Parameters
        ----------
        probs : Tensor of shape (batch, label)
            What the network says.
        latent : Tensor of shape (batch, latent)
            Where it places the rows.

        Returns
        -------
        Tensor of shape (batch, label)
        """
        cosines = functional.normalize(latent, dim=-1) @ self.places.T
        nearest = cosines.topk(min(self.n_neighbours, len(self.places)), dim=-1)
        weights = (nearest.values / self.temperature).softmax(dim=-1)
        present = _weighted_sum(nearest.indices, weights, self.present)
        observed = 1.0 if self.observed is None else _weighted_sum(nearest.indices, weights, self.observed)
        # The weights may add up to a hair more than 1.
        return (probs + self.share * (present - observed * probs)).clamp(0, 1)

    def tensors(self) -> dict[str, Tensor]:
        """Return what a file holds of it, besides the three numbers."""
        labels = self.present.to(torch.uint8)
        if self.observed is not None:
            labels[self.observed == 0] = _NOT_OBSERVED
        return {"places": self.places, "labels": labels}

    @classmethod
    def from_tensors(
        cls,
        places: Float[Tensor, "row latent"],
        labels: UInt8[Tensor, "row label"],
        n_neighbours: int,
        share: float,
        temperature: float,
    ) -> "LatentNeighbours":
        """Take back what :meth:`tensors` returned."""
        stored = labels.to(places.dtype)
        stored = torch.where(stored == _NOT_OBSERVED, torch.nan, stored)
        neighbours = cls(places, stored, n_neighbours, share, temperature)
        neighbours.places = places  # as they were: of unit length already, to the last bit
        return neighbours

    @classmethod
    def learn(
        cls,
        n_neighbours: int,
        train: Rows,
        validation: Rows,
        probs: NDArray[Any],
        place: Callable[[Rows], NDArray[Any]],
        seed: int,
    ) -> "LatentNeighbours | None":
        """Remember training rows, as far as validation rows are predicted better by it.

        Parameters
        ----------
        n_neighbours : int
            Neighbours that count.
        train, validation : Rows
            Rows to remember; rows that choose what neighbours count for.
        probs : ndarray of shape (n_samples, n_labels)
            What the network says of the validation rows.
        place : callable
            Where rows lie in the latent space.
        seed : int
            Chooses the rows to remember where there are too many.

        Returns
        -------
        LatentNeighbours or None
            None where neighbours are of no use.
        """
        kept = np.arange(len(train))
        if len(kept) > _MOST_REMEMBERED:
            kept = np.sort(np.random.default_rng(seed).permutation(len(kept))[:_MOST_REMEMBERED])
        remembered = train[kept]
        places = torch.from_numpy(place(remembered))
        labels = torch.from_numpy(remembered.observed()).to(places.dtype)
        # All of the share goes to the neighbours: a smaller one lies on the line between the network alone and them.
        neighbours = cls(places, labels, n_neighbours, share=1.0)
        here, truth = place(validation), validation.observed()
        best = (log_loss(truth, probs), 0.0, 0.0)
        for neighbours.temperature in _TEMPERATURES:
            near = predict_network(neighbours.mix, probs, here)
            for share in _SHARES:
                loss = log_loss(truth, probs + share * (near - probs))
                best = min(best, (loss, share, neighbours.temperature))
        _, neighbours.share, neighbours.temperature = best
        return neighbours if neighbours.share else None


@dataclass(kw_only=True, eq=False, repr=False)
class RememberingNetwork(NetworkClassifier):
    """A network that may start from a ridge, and remember training rows.

    Parameters
    ----------
    base : {"ridge"}, optional
        A model whose logits the network adds to, as in :class:`~hotvae.HotVAENetwork`.
    latent_neighbours : int
        Training rows nearest in the latent space whose labels are mixed into a prediction, by a share that validation
        rows choose, none where they are of no use. The model then holds latent places and labels of training rows; 0
        for none.
    training, features, validation_fraction, random_state
        As in :class:`~hotvae.HotVAENetwork`.
    """

    base: Literal["ridge"] | None = None
    latent_neighbours: int = 0

    def check_parameters(self) -> None:
        """Find a parameter that is not allowed before any data are read."""
        super().check_parameters()
        require_count("latent_neighbours", self.latent_neighbours, least=0)

    def _learn(self, train: Rows, validation: Rows | None, seed: int) -> None:
        self.neighbours_: LatentNeighbours | None = None
        super()._learn(train, validation, seed)

    def _steps(self) -> list[Callable[[Rows, Rows, int], None]]:
        return [*super()._steps(), self._learn_neighbours]

    def _learn_neighbours(self, train: Rows, validation: Rows, seed: int) -> None:
        """Remember training rows, as far as validation rows are predicted better by it."""
        if self.latent_neighbours:
            with torch_threads(self._training().n_threads):
                probs, k = self._probs(validation), self.latent_neighbours
                self.neighbours_ = LatentNeighbours.learn(k, train, validation, probs, self._placed, seed)

    def _identity(self) -> dict[str, str]:
        return {name: value for name, value in super()._identity().items() if name != "latent_neighbours"}

    def _probs(self, rows: Rows) -> NDArray[np.floating[Any]]:
        probs = super()._probs(rows)
        if self.neighbours_ is None or len(rows) == 0:
            return probs
        with torch_threads(self._training().n_threads):
            return predict_network(self.neighbours_.mix, probs, self._placed(rows))

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        notes, tensors = super()._learned()
        kept = self.neighbours_
        if kept is not None:
            notes["neighbours"] = {name: getattr(kept, name) for name in ("n_neighbours", "share", "temperature")}
            tensors |= {NEIGHBOURS + name: tensor for name, tensor in kept.tensors().items()}
        return notes, tensors

    def _restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        super()._restore(config, {name: tensors[name] for name in tensors if not name.startswith(NEIGHBOURS)})
        self.neighbours_ = None
        if "neighbours" in config:
            places, labels = (tensors[NEIGHBOURS + name] for name in ("places", "labels"))
            self.neighbours_ = LatentNeighbours.from_tensors(places, labels, **config["neighbours"])


def _weighted_sum(
    rows: Int[Tensor, "batch near"], weights: Float[Tensor, "batch near"], table: Float[Tensor, "row label"]
) -> Float[Tensor, "batch label"]:
    return functional.embedding_bag(rows, table, per_sample_weights=weights, mode="sum")
