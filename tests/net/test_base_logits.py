"""Base logits: added exactly at the start, weighed label by label after it."""

import pytest
import torch

from hotvae.net.base_logits import BaseScale
from tests.net.loops import close, normal


@pytest.mark.parametrize("n_layers", [None, 3])
def test_base_scale__at_the_start__adds_base_logits_exactly(n_layers):
    logits = normal(4, 2) if n_layers is None else normal(n_layers, 4, 2)
    base_logits = normal(4, 2, seed=1)
    assert torch.equal(BaseScale(2).add(logits, base_logits), logits + base_logits)


def test_base_scale__two_labels__matches_hand_calculation():
    """Scales 2 and -1, base (3, 5) and (1, 0): (6, -5) and (2, 0) on top of (1, 1) and (0, 7)."""
    base = BaseScale(2)
    with torch.no_grad():
        base.scale.copy_(torch.tensor([2.0, -1.0]))
    sums = base.add(torch.tensor([[1.0, 1.0], [0.0, 7.0]]), torch.tensor([[3.0, 5.0], [1.0, 0.0]]))
    close(sums, [[7.0, -4.0], [2.0, 7.0]], 0)


def test_base_scale__gradient__reaches_every_scale_and_is_the_sum_of_its_base_logits():
    base = BaseScale(3).double()
    base_logits = normal(4, 3)
    base.add(torch.zeros(4, 3).double(), base_logits).sum().backward()
    close(base.scale.grad, base_logits.sum(0), 1e-12)


def test_base_scale__no_base_logits__adds_nothing():
    logits = normal(4, 2)
    assert BaseScale(2).add(logits, None) is logits
