"""Encoders: a row of features or labels becomes a Gaussian over latent tokens.

An encoder is any ``nn.Module`` that maps its input to a :class:`~hotvae.net.latent.Gaussian`, or to a plain
pair ``(mean, log_variance)`` of shape (batch, token, dim), or to such a pair and a token mask. Its attribute
``n_tokens`` says how many tokens it always returns; leave it out (or None) when the number varies. Every row needs at
least one real token, and padding must be finite.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hotvae.config import NetConfig
from hotvae.errors import ConfigError
from hotvae.net.latent import Gaussian
from hotvae.types import Labels

# Beyond these, exp() of a log-variance leaves the range in which float32 sums stay exact.
LOG_VARIANCE_RANGE = (-12.0, 8.0)


class GaussianHead(nn.Module):
    """Linear maps from hidden units to the mean and the log-variance of each token.

    Parameters
    ----------
    in_dim, dim : int
        Hidden width and latent width.
    initial_log_variance : float
        Bias of the log-variance: a small start keeps early samples informative.

    Examples
    --------
    >>> import torch
    >>> head = GaussianHead(8, 3, initial_log_variance=-4.0)
    >>> head(torch.zeros(2, 1, 8)).mean.shape
    torch.Size([2, 1, 3])
    """

    def __init__(self, in_dim: int, dim: int, initial_log_variance: float) -> None:
        super().__init__()
        self.mean = nn.Linear(in_dim, dim)
        self.log_variance = nn.Linear(in_dim, dim)
        nn.init.normal_(self.log_variance.weight, std=0.01)
        nn.init.constant_(self.log_variance.bias, initial_log_variance)

    def forward(self, hidden: Float[Tensor, "batch token hidden"]) -> Gaussian:
        """Return the Gaussian of each token."""
        return Gaussian(self.mean(hidden), self.log_variance(hidden).clamp(*LOG_VARIANCE_RANGE))


class MLPEncoder(nn.Module):
    """Multi-layer perceptron for real vectors: one token per row.

    Parameters
    ----------
    in_dim : int
        Columns of the input.
    widths : sequence of int
        Hidden widths.
    dim : int
        Latent width.
    dropout : float
        Share of units dropped after each hidden layer.
    initial_log_variance : float
        See :class:`GaussianHead`.

    Examples
    --------
    >>> import torch
    >>> MLPEncoder(5, (16,), dim=3)(torch.zeros(2, 5)).mean.shape
    torch.Size([2, 1, 3])
    """

    n_tokens = 1

    def __init__(
        self,
        in_dim: int,
        widths: Sequence[int],
        dim: int,
        dropout: float = 0.0,
        initial_log_variance: float = -4.0,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for width in widths:
            layers += [nn.Linear(in_dim, width), nn.ReLU(), nn.Dropout(dropout)]
            in_dim = width
        self.hidden = nn.Sequential(*layers)
        self.head = GaussianHead(in_dim, dim, initial_log_variance)

    def forward(self, x: Float[Tensor, "batch feature"]) -> Gaussian:
        """Encode rows."""
        return self.head(self.hidden(x).unsqueeze(1))  # type: ignore[no-any-return]  # nn.Module calls are untyped


def make_mlp_encoder(in_dim: int, widths: Sequence[int], config: NetConfig) -> MLPEncoder:
    """Make the default encoder of either branch.

    Examples
    --------
    >>> make_mlp_encoder(5, (16,), NetConfig(dim=8, n_heads=2)).n_tokens
    1
    """
    return MLPEncoder(in_dim, widths, config.dim, config.encoder_dropout, config.initial_log_variance)


def code_labels(labels: Labels) -> Labels:
    """Present +1, absent -1, not observed 0: what the label encoder reads.

    Examples
    --------
    >>> import torch
    >>> code_labels(torch.tensor([[1.0, 0.0, float("nan")]]))
    tensor([[ 1., -1.,  0.]])
    """
    return torch.nan_to_num(2 * labels - 1, nan=0.0)


def encode(encoder: nn.Module, inputs: Tensor) -> Gaussian:
    """Call any encoder and return a :class:`Gaussian`, whatever of the allowed forms it answers in.

    Parameters
    ----------
    encoder : nn.Module
        One of ours or the user's own.
    inputs : Tensor
        A batch of rows.

    Returns
    -------
    Gaussian

    Raises
    ------
    ConfigError
        When the encoder returns another number of tokens than it promised.

    Examples
    --------
    >>> import torch
    >>> class Pair(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.unsqueeze(1), torch.zeros_like(x).unsqueeze(1)
    >>> encode(Pair(), torch.ones(2, 3)).mean.shape
    torch.Size([2, 1, 3])
    """
    answer = encoder(inputs)
    gaussian = answer if isinstance(answer, Gaussian) else Gaussian(*answer)
    promised, n_tokens = getattr(encoder, "n_tokens", None), gaussian.mean.shape[1]
    if promised is not None and promised != n_tokens:
        raise ConfigError(
            f"encoder must return as many tokens as its n_tokens says ({promised}); got {n_tokens} "
            f"({type(encoder).__name__}). Correct n_tokens, or set it to None if the number varies."
        )
    return gaussian
