"""Logits that come with a row: a network adds to them, instead of finding everything by itself."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hotvae.types import Features, Logits, StartLogits


class Start(nn.Module):
    """Takes the starting logits off the end of a row and weighs them, label by label.

    Parameters
    ----------
    n_labels : int
        Labels: the last columns of a row are their logits.

    Examples
    --------
    >>> import torch
    >>> features, logits = Start(2)(torch.tensor([[1.0, 2.0, 3.0, -1.0, 0.5]]))
    >>> features, logits.detach()
    (tensor([[1., 2., 3.]]), tensor([[-1.0000,  0.5000]]))
    """

    def __init__(self, n_labels: int) -> None:
        super().__init__()
        self.n_labels = n_labels
        # How far a start may be trusted differs from label to label; at first it is taken at its word.
        self.scale = nn.Parameter(torch.ones(n_labels))

    def forward(self, rows: Float[Tensor, "batch column"]) -> tuple[Features, Logits]:
        """Return the features of the rows and the weighed logits."""
        return rows[:, : -self.n_labels], rows[:, -self.n_labels :] * self.scale


def make_start(n_labels: int, wanted: bool) -> Start | None:
    """Make a start where rows come with one.

    Examples
    --------
    >>> make_start(3, wanted=False) is None
    True
    """
    return Start(n_labels) if wanted else None


def apart(start: Start | None, rows: Tensor, repeats: int = 1) -> tuple[Tensor, StartLogits]:
    """Part rows into features and starting logits; where rows come without, a zero that fits any batch.

    Parameters
    ----------
    start : Start or None
        Of the network.
    rows : Tensor
        A batch.
    repeats : int
        How often the logits of each row are needed, one after the other, as by the members of an ensemble.

    Returns
    -------
    features, logits : Tensor

    Examples
    --------
    >>> import torch
    >>> apart(None, torch.ones(2, 3))[1]
    tensor([[0.]])
    >>> apart(Start(1), torch.ones(2, 3), repeats=2)[1].shape
    torch.Size([4, 1])
    """
    if start is None:
        return rows, torch.zeros(1, 1, device=rows.device)
    features, logits = start(rows)
    return features, logits.repeat_interleave(repeats, dim=0)


class RidgeLogits:
    """Starting logits of rows by a linear map that was learned beforehand.

    Parameters
    ----------
    weights : Tensor of shape (label, feature)
    intercepts : Tensor of shape (label,)

    Examples
    --------
    >>> import torch
    >>> RidgeLogits(torch.tensor([[2.0]]), torch.tensor([-1.0]))(torch.tensor([[3.0]]))
    tensor([[5.]])
    """

    def __init__(self, weights: Float[Tensor, "label feature"], intercepts: Float[Tensor, " label"]) -> None:
        self.weights = weights
        self.intercepts = intercepts

    def __call__(self, features: Features) -> Logits:
        """Return the logits of a batch."""
        return nn.functional.linear(features, self.weights, self.intercepts)

    def tensors(self) -> dict[str, Tensor]:
        """Everything there is to store."""
        return {"weights": self.weights, "intercepts": self.intercepts}
