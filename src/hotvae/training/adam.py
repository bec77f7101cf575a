"""Adam and AdamW, by torch's own function for one step.

torch's classes of optimisers are not used: the first one that is made imports torch's compiler, which nothing here
needs, and that takes longer than the training of a small table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw

_SLOTS = ("exp_avg", "exp_avg_sq", "step")


class Adam:
    """Adam with torch's usual betas, over all weights in one pass.

    Parameters
    ----------
    weights : iterable of Tensor
        What to learn; those that ask for no gradient are left alone.
    decay : float, default=0.0
        How much weights shrink in each step, as a share of the step size, as in AdamW. Decay shrinks maps, not
        offsets: vectors (biases, norms) are left alone.
    coupled : bool, default=False
        Adam as first printed, without decay.

    Examples
    --------
    >>> weight = torch.nn.Parameter(torch.tensor([[1.0, -1.0]]))
    >>> adam = Adam([weight])
    >>> (2 * weight).sum().backward()
    >>> adam.step(0.1)
    >>> [round(value, 3) for value in weight.flatten().tolist()]
    [0.9, -1.1]
    """

    def __init__(self, weights: Iterable[Tensor], *, decay: float = 0.0, coupled: bool = False) -> None:
        learned = [weight for weight in weights if weight.requires_grad]
        maps = [weight for weight in learned if weight.ndim > 1]
        offsets = [weight for weight in learned if weight.ndim <= 1]
        self._update = adam if coupled else adamw
        self._groups = [(learned, 0.0)] if coupled else [(maps, decay), (offsets, 0.0)]
        self._slots: dict[Tensor, dict[str, Tensor]] = {}

    def forget_gradients(self) -> None:
        """Let the next gradients start at nothing."""
        for weights, _ in self._groups:
            for weight in weights:
                weight.grad = None

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Move every weight that has a gradient, by a step size."""
        for weights, decay in self._groups:
            gradients = {weight: weight.grad for weight in weights if weight.grad is not None}
            if not gradients:
                continue
            moved = list(gradients)
            slots = [self._slot_of(weight) for weight in moved]
            first, second, steps = ([slot[name] for slot in slots] for name in _SLOTS)
            settings: dict[str, Any] = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "lr": rate, "weight_decay": decay}
            # fused: one pass over all weights instead of a dozen small operations on each
            self._update(
                moved,
                [*gradients.values()],
                first,
                second,
                [],
                steps,
                fused=True,
                amsgrad=False,
                maximize=False,
                **settings,
            )

    def _slot_of(self, weight: Tensor) -> dict[str, Tensor]:
        if weight not in self._slots:
            zeros = {name: torch.zeros_like(weight) for name in _SLOTS[:2]}
            self._slots[weight] = zeros | {"step": torch.zeros((), device=weight.device)}
        return self._slots[weight]

    def tensors(self) -> dict[str, Tensor]:
        """Return all that it remembers, by ``"weight's number/name"``."""
        return {
            f"{index}/{name}": value
            for index, weight in enumerate(weight for weights, _ in self._groups for weight in weights)
            for name, value in self._slots.get(weight, {}).items()
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what :meth:`tensors` returned."""
        every = [weight for weights, _ in self._groups for weight in weights]
        self._slots = {}
        for key, value in tensors.items():
            index, name = key.split("/")
            weight = every[int(index)]
            self._slots.setdefault(weight, {})[name] = value.to(weight.device).clone()
