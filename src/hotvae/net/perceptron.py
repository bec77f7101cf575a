"""Plain stacks of linear maps, the building block of the rivals' encoders and decoders."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn


def perceptron(in_dim: int, widths: Sequence[int], out_dim: int, dropout: float = 0.0) -> nn.Sequential:
    """Multi-layer perceptron: rectified hidden layers with dropout, and a linear last one.

    Parameters
    ----------
    in_dim, out_dim : int
        Columns that go in and come out.
    widths : sequence of int
        Hidden widths; none makes it one linear map.
    dropout : float
        Share of units dropped after each hidden layer.

    Returns
    -------
    nn.Sequential
    """
    layers: list[nn.Module] = []
    for width in widths:
        layers += [nn.Linear(in_dim, width), nn.ReLU(), nn.Dropout(dropout)]
        in_dim = width
    return nn.Sequential(*layers, nn.Linear(in_dim, out_dim))


def set_bias(module: nn.Module, values: Float[Tensor, " label"]) -> None:
    """Start the last linear map of a network at the given outputs."""
    last = [part for part in module.modules() if isinstance(part, nn.Linear)][-1]
    with torch.no_grad():
        last.bias.copy_(values)
