"""Networks of stored weights."""

from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

Network = TypeVar("Network", bound=nn.Module)


def with_weights(build: Callable[[], Network], weights: Mapping[str, Tensor]) -> Network:
    """Make a network and give it stored weights, ready for predictions.

    It is built without memory of its own: sizes that a file merely claims are refused before anything is laid out.

    Parameters
    ----------
    build : callable
        Makes the untrained network.
    weights : mapping of str to Tensor
        All its weights by name, as ``state_dict`` has them.

    Returns
    -------
    nn.Module

    Raises
    ------
    RuntimeError
        Weights of other names or shapes.

    Examples
    --------
    >>> stored = nn.Linear(3, 2).state_dict()
    >>> with_weights(lambda: nn.Linear(3, 2), stored).weight.shape
    torch.Size([2, 3])
    >>> with_weights(lambda: nn.Linear(3, 10**12), stored)  # 12 TB, were it laid out
    Traceback (most recent call last):
    ...
    RuntimeError: Error(s) in loading state_dict for Linear:
        size mismatch for weight: copying a param with shape torch.Size([2, 3]) from checkpoint, the shape in current...
        size mismatch for bias: copying a param with shape torch.Size([2]) from checkpoint, the shape in current...
    """
    with torch.device("meta"):
        network = build()
    kinds = {name: tensor.dtype for name, tensor in network.state_dict().items()}
    network.load_state_dict({n: tensor.to(kinds.get(n)) for n, tensor in weights.items()}, assign=True)
    return network.eval()
