"""C2AE: features and labels meet in one latent space, from which the labels are read (Yeh et al. 2017)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hotvae.net.base_logits import apart, make_start
from hotvae.net.encoders import code_labels
from hotvae.net.perceptron import perceptron
from hotvae.net.probit import set_bias
from hotvae.types import Features, Labels, Logits, PerSample, Pooled, Probs


@dataclass(frozen=True)
class C2AEOutput:
    """One pass in training.

    Attributes
    ----------
    feature, label : Tensor of shape (batch, dim)
        The two codes of each row.
    logits : Tensor of shape (batch, label)
        Labels read from the label code.
    """

    feature: Pooled
    label: Pooled
    logits: Logits


class FeatureCode(nn.Module):
    """A perceptron that answers as encoders do: one token per row, no spread.

    Examples
    --------
    >>> import torch
    >>> mean, log_variance = FeatureCode(4, (16,), 3)(torch.zeros(5, 4))
    >>> mean.shape
    torch.Size([5, 1, 3])
    """

    n_tokens = 1

    def __init__(self, n_features: int, widths: Sequence[int], dim: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = perceptron(n_features, widths, dim, dropout)

    def forward(self, features: Features) -> tuple[Float[Tensor, "batch 1 dim"], Float[Tensor, "batch 1 dim"]]:
        """Return the code and a log-variance of 0."""
        code = self.layers(features).unsqueeze(1)
        return code, torch.zeros_like(code)


class C2AENet(nn.Module):
    """Feature encoder, label encoder and a decoder of the labels.

    Parameters
    ----------
    n_features, n_labels, dim : int
        Columns of the two tables, and width of the code.
    encoder_widths, label_encoder_widths, decoder_widths : sequence of int
        Hidden widths.
    dropout : float
        Share of units dropped after each hidden layer.
    initial_logits : Tensor of shape (label,), optional
        Logits of the prevalences.
    starts : bool
        Whether the last columns of a row are logits to start from (:mod:`hotvae.net.base_logits`).

    Examples
    --------
    >>> import torch
    >>> C2AENet(4, 3, 2, (16,), (16,), (16,)).predict(torch.zeros(5, 4)).shape
    torch.Size([5, 3])
    """

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        dim: int,
        encoder_widths: Sequence[int],
        label_encoder_widths: Sequence[int],
        decoder_widths: Sequence[int],
        dropout: float = 0.0,
        initial_logits: Float[Tensor, " label"] | None = None,
        starts: bool = False,
    ) -> None:
        super().__init__()
        self.dim = dim
        self.start = make_start(n_labels, starts)
        self.feature_encoder = FeatureCode(n_features, encoder_widths, dim, dropout)
        self.label_encoder = perceptron(n_labels, label_encoder_widths, dim)
        self.decoder = perceptron(dim, decoder_widths, n_labels)
        if initial_logits is not None:
            set_bias(self.decoder, initial_logits * (not starts))

    def forward(self, features: Features, labels: Labels) -> C2AEOutput:
        """Code both tables; read the labels from the label code, so that their loss never reaches the features."""
        rows, start = apart(self.start, features)
        label = self.label_encoder(code_labels(labels))
        return C2AEOutput(self.feature_encoder(rows)[0].squeeze(1), label, self.decoder(label) + start)

    def predict(self, features: Features) -> Probs:
        """Read the labels from the feature code."""
        rows, start = apart(self.start, features)
        return torch.sigmoid(self.decoder(self.feature_encoder(rows)[0].squeeze(1)) + start)


def alignment_loss(feature: Pooled, label: Pooled) -> PerSample:
    """Squared distance between the two codes of each row.

    Examples
    --------
    >>> import torch
    >>> alignment_loss(torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 0.0]]))
    tensor([5.])
    """
    return (feature - label).square().sum(-1)


def orthogonality_loss(code: Pooled, counted: Float[Tensor, " batch"]) -> PerSample:
    r"""Distance of the code's second moments from the identity, the same for every row that counts.

    Parameters
    ----------
    code : Tensor of shape (batch, dim)
        Codes of a batch.
    counted : Tensor of shape (batch,)
        1 for rows that count, 0 for rows without any observed label.

    Returns
    -------
    Tensor of shape (batch,)
        Its sum over the batch, divided by the rows that count, is the penalty.

    Notes
    -----
    .. math:: \lVert C^\top C / n - I \rVert_F^2

    The mean over the batch, not the sum: otherwise the penalty grows with the batch and forces codes towards 0.

    Examples
    --------
    >>> import torch
    >>> orthogonality_loss(torch.tensor([[1.0, 1.0], [1.0, -1.0]]), torch.ones(2))
    tensor([0., 0.])
    """
    moments = (code * counted.unsqueeze(-1)).T @ code / counted.sum().clamp(min=1)
    eye = torch.eye(code.shape[1], dtype=code.dtype, device=code.device)
    return (moments - eye).square().sum() * counted
