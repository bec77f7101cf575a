"""Base logits: what a simpler model says of each label, to which a network adds its own."""

import torch
from torch import Tensor, nn

from hotvae.types import Logits


class BaseScale(nn.Module):
    """Weighs base logits label by label: how far a base may be trusted differs between labels.

    Parameters
    ----------
    n_labels : int
        Labels; every weight starts at 1.

    Examples
    --------
    >>> import torch
    >>> BaseScale(2).add(torch.zeros(1, 2), torch.tensor([[-1.0, 0.5]])).detach()
    tensor([[-1.0000,  0.5000]])
    """

    def __init__(self, n_labels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(n_labels))

    def forward(self, base_logits: Logits) -> Logits:
        """Weigh the base logits of a batch."""
        return base_logits * self.scale

    def add(self, logits: Tensor, base_logits: Logits | None) -> Tensor:
        """Add the weighed base logits to logits of shape (..., batch, label); None adds nothing."""
        return logits if base_logits is None else logits + self(base_logits)
