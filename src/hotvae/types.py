"""Axis names and shape aliases of the network, in one place.

Axis legend, used by every annotation in :mod:`hotvae.net`:

========== =================================================================
``batch``   rows of a mini-batch
``feature`` columns of the feature table
``label``   labels (species), the nodes of the label graph
``token``   Gaussian subspaces of one row: J for features, K for labels
``part``    numbers of one token: its kind, then the places of its neighbours
``dim``     width of label embeddings and states, the paper's d
``latent``  width of the latent space: d in the paper, wider if asked for
``hidden``  units of a hidden layer
``head``    attention heads
``sender``  labels or tokens that send messages, when receivers are ``label`` or ``token``
``draw``    draws of the latent noise
``layer``   decoder layers, first to last
``some``    labels that are asked about, when others only send messages
``row``     rows as often as a search needs them; #: or one for all
========== =================================================================

This module imports nothing of ours. Tests check the shapes at run time; users pay nothing.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

Features = Float[Tensor, "batch feature"]
Labels = Float[Tensor, "batch label"]
Logits = Float[Tensor, "batch label"]
Probs = Float[Tensor, "batch label"]
Observed = Float[Tensor, "batch label"]
PerSample = Float[Tensor, " batch"]
Tokens = Float[Tensor, "batch token latent"]
TokenMask = Bool[Tensor, "batch token"]
TokenNumbers = Int[Tensor, "batch token *part"]
States = Float[Tensor, "batch label dim"]
LayerLogits = Float[Tensor, "layer batch label"]
Pooled = Float[Tensor, "batch latent"]
GraphMask = Bool[Tensor, "label sender"]
