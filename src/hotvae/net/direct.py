"""The direct network: a perceptron from features to labels, one of the models that the default stacks."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hotvae.net.losses import bce_loss
from hotvae.net.perceptron import perceptron
from hotvae.types import Labels, Logits, PerSample, Probs

# Columns beyond which those that are 0 in a whole batch are left out of it.
_MANY_COLUMNS = 4096


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
        first = self.layers[0]
        if self.training and isinstance(first, nn.Linear) and features.shape[1] > _MANY_COLUMNS:
            # Most words are in no text of a batch: half the work is saved. Not in predictions: sums over other columns
            # round otherwise, and a prediction must not depend on the rows beside it.
            used = features.any(dim=0).nonzero()[:, 0]
            hidden = nn.functional.linear(features[:, used], first.weight[:, used], first.bias)
            logits: Logits = self.layers[1:](hidden)
        else:
            logits = self.layers(features)
        return logits

    def loss(self, features: Tensor, labels: Labels, base_logits: Logits | None = None) -> dict[str, PerSample]:
        """Cross entropy of every row."""
        return {"bce": bce_loss(self(features), labels)}

    def predict(self, features: Tensor, base_logits: Logits | None = None) -> Probs:
        """Probabilities of a batch."""
        return torch.sigmoid(self(features))
