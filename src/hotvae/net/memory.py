"""What training rows that look alike had: labels of the nearest ones in the latent space, mixed into a prediction.

A network squeezes its training rows into weights and forgets them; nearest neighbours forget nothing and know nothing
but distance. In the latent space, where rows of like labels lie close, they complete each other (ADR 0017).
"""

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor
from torch.nn import functional

from hotvae.types import Pooled, Probs

# Stored for a label that was not observed; 0 and 1 are stored as they are.
_UNKNOWN = 2


class NeighbourMemory:
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

    Examples
    --------
    >>> memory = NeighbourMemory(torch.eye(2), torch.tensor([[1.0, 0.0], [0.0, 1.0]]), 1, share=0.5)
    >>> memory.mix(torch.full((1, 2), 0.4), torch.tensor([[3.0, 0.1]]))
    tensor([[0.7000, 0.2000]])
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
        known = ~torch.isnan(labels)
        self.known = None if bool(known.all()) else known.to(places.dtype)

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
        known = 1.0 if self.known is None else _weighted_sum(nearest.indices, weights, self.known)
        # The weights may add up to a hair more than 1.
        return (probs + self.share * (present - known * probs)).clamp(0, 1)

    def tensors(self) -> dict[str, Tensor]:
        """Return what a file holds of it, besides the three numbers."""
        labels = self.present.to(torch.uint8)
        if self.known is not None:
            labels[self.known == 0] = _UNKNOWN
        return {"places": self.places, "labels": labels}

    @classmethod
    def from_tensors(
        cls,
        places: Float[Tensor, "row latent"],
        labels: UInt8[Tensor, "row label"],
        n_neighbours: int,
        share: float,
        temperature: float,
    ) -> "NeighbourMemory":
        """Take back what :meth:`tensors` returned.

        Examples
        --------
        >>> memory = NeighbourMemory(torch.eye(2), torch.tensor([[1.0], [float("nan")]]), 1, share=0.5)
        >>> copy = NeighbourMemory.from_tensors(**memory.tensors(), n_neighbours=1, share=0.5, temperature=0.1)
        >>> copy.mix(torch.full((2, 1), 0.4), torch.eye(2))
        tensor([[0.7000],
                [0.4000]])
        """
        told = labels.to(places.dtype)
        memory = cls(places, torch.where(told == _UNKNOWN, torch.nan, told), n_neighbours, share, temperature)
        memory.places = places  # as they were: of unit length already, to the last bit
        return memory


def _weighted_sum(
    rows: Int[Tensor, "batch near"], weights: Float[Tensor, "batch near"], table: Float[Tensor, "row label"]
) -> Float[Tensor, "batch label"]:
    return functional.embedding_bag(rows, table, per_sample_weights=weights, mode="sum")
