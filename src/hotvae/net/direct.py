"""The direct network: a perceptron from features to labels, one of the models that the default stacks."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hotvae.net.losses import bce_loss
from hotvae.net.perceptron import perceptron
from hotvae.types import Labels, Logits, PerSample, Probs


class DirectNet(nn.Module):
    """A perceptron with a logit for each label.

    Parameters
    ----------
    n_features, n_labels : int
        Columns of the two tables.
    widths : sequence of int
        Hidden widths.
    dropout : float
        Share of hidden units dropped while training.
    initial_logits : Tensor of shape (label,), optional
        Starting bias of the last layer: logits of the prevalences.

    Examples
    --------
    >>> DirectNet(4, 3, (16,)).predict(torch.zeros(5, 4)).shape
    torch.Size([5, 3])
    """

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        widths: Sequence[int],
        dropout: float = 0.0,
        initial_logits: Float[Tensor, " label"] | None = None,
    ) -> None:
        super().__init__()
        self.layers = perceptron(n_features, widths, n_labels, dropout)
        if initial_logits is not None:
            readout = self.layers[-1]
            assert isinstance(readout, nn.Linear)  # what perceptron() ends with
            with torch.no_grad():
                readout.bias.copy_(initial_logits)

    def forward(self, features: Float[Tensor, "batch feature"]) -> Logits:
        """Logits of a batch."""
        logits: Logits = self.layers(features)
        return logits

    def loss(self, features: Tensor, labels: Labels, base_logits: Logits | None = None) -> dict[str, PerSample]:
        """Cross entropy of every row."""
        return {"bce": bce_loss(self(features), labels)}

    def predict(self, features: Tensor, base_logits: Logits | None = None) -> Probs:
        """Probabilities of a batch."""
        return torch.sigmoid(self(features))
