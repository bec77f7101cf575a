"""Labels with gaps."""

import math

import torch

from hotvae.net.observed import split_observed


def test_split_observed__missing_cells__are_filled_and_weigh_nothing():
    filled, observed = split_observed(torch.tensor([[1.0, math.nan, 0.0]]))
    assert filled.tolist() == [[1, 0, 0]]
    assert observed.tolist() == [[1, 0, 1]]
