"""Labels with gaps: the cells that were observed, and weights that leave the others out."""

import torch

from hotvae.types import Labels, Observed


def split_observed(labels: Labels) -> tuple[Labels, Observed]:
    """Fill unobserved labels with 0 and return the weights that leave them out."""
    observed = (~torch.isnan(labels)).to(labels.dtype)
    return torch.nan_to_num(labels, nan=0.0), observed
