"""A small network that stands in for a model where the model itself cannot go, such as into a page.

The base of a model (trees, large networks) is too large for a page. What a page needs of it is how its logits *change*
when a covariate does. A small network learns just that from the model: it is shown rows, and the same rows with
covariates moved, and what the model says of both. How well it does is measured on moved rows that it was not shown.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from hotvae.errors import DataWarning
from hotvae.features import Rows
from hotvae.net.direct import DirectNet
from hotvae.training.loop import fit_network
from hotvae.training.prediction import owned_randomness
from hotvae.training.settings import Training

Floats = NDArray[np.float64]

# Hidden units; rows that are learned from, how often each is moved, rows that the error is measured on, how often each
# is moved; steps of training. So it explains 86 % of the changes on breeding_birds_2009 (85 % with steps half as large;
# 82 % with half the units).
_WIDTHS = (320, 128)
_MOST_ROWS, _N_MOVED, _MOST_TRIED, _N_TRIES = 2000, 30, 400, 5
_N_STEPS, _BATCH = 6000, 256


@dataclass(frozen=True, eq=False)
class StandIn:
    """What was learned, and how well.

    Attributes
    ----------
    layers : list of (ndarray of shape (n_out, n_in), ndarray of shape (n_out,))
        Weights and biases; between layers stands a rectifier.
    error : float
        Mean absolute error of a changed probability (the model's own, plus what the stand-in says of the change), on
        moved rows that it was not shown.
    size : float
        Mean absolute change of these probabilities by the model itself: what the error compares with.
    explained : float
        Share of the variance of the changes that the stand-in explains.
    n_tried : int
        Moved rows that were tried.
    """

    layers: list[tuple[NDArray[np.float32], NDArray[np.float32]]]
    error: float
    size: float
    explained: float
    n_tried: int

    def logits(self, gates: NDArray[Any]) -> Floats:
        """Return the stand-in's own logits of scaled rows."""
        found = np.asarray(gates, dtype=np.float64)
        for number, (weight, bias) in enumerate(self.layers):
            found = found @ weight.T.astype(np.float64) + bias
            if number < len(self.layers) - 1:
                found = np.maximum(found, 0.0)
        return found


class _Change(nn.Module):
    """Learns from pairs of rows, as they were and moved: the logits of the first, plus how the stand-in differs."""

    def __init__(self, stand_in: DirectNet) -> None:
        super().__init__()
        self.stand_in = stand_in

    def predict(self, features: Tensor, base_logits: Tensor | None) -> Tensor:
        """Probabilities of the moved rows."""
        assert base_logits is not None
        before, after = features.chunk(2, dim=1)
        changed: Tensor = base_logits + self.stand_in(after) - self.stand_in(before)
        return changed.sigmoid()

    def loss(self, features: Tensor, labels: Tensor, base_logits: Tensor | None) -> dict[str, Tensor]:
        """Squared error of the moved probabilities: what the page's own number is made of."""
        return {"change": (self.predict(features, base_logits) - labels).square().mean(dim=1)}


def learn_stand_in(
    table: Any,
    move: Callable[[Any, np.random.Generator], Any],
    asked: Callable[[Any], tuple[Floats, NDArray[Any]]],
    seed: int = 0,
) -> StandIn:
    """Learn how the logits of a model change when covariates do.

    Parameters
    ----------
    table : DataFrame
        Rows, as the model takes them.
    move : callable
        Takes rows and a source of randomness; returns the rows with covariates moved as a user may move them.
    asked : callable
        Takes rows; returns the model's logits and the scaled columns that the stand-in reads.
    seed : int
        Decides which rows, how they are moved, and the training.

    Returns
    -------
    StandIn
    """
    random = np.random.default_rng([seed, 31])
    chosen = random.permutation(len(table))
    n_rows = min(_MOST_TRIED, max(1, len(table) // 5))
    tried = table.iloc[np.tile(chosen[:n_rows], _N_TRIES)]
    # Of a single row all is learned and said; there are no others.
    learned = table.iloc[chosen[n_rows:][:_MOST_ROWS] if len(table) > n_rows else chosen]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # moved rows need not look like training
        start_logits, start_gates = asked(learned)
        parts = [asked(move(learned, random)) for _ in range(_N_MOVED)]
        before, before_gates = asked(tried)
        after, after_gates = asked(move(tried, random))
    pairs = np.concatenate([np.hstack([start_gates, gates]) for _, gates in parts]).astype(np.float32)
    probs = np.concatenate([1 / (1 + np.exp(-logits.astype(np.float32))) for logits, _ in parts])
    base = np.tile(start_logits.astype(np.float32), (_N_MOVED, 1))
    with owned_randomness(seed, 0):
        network = DirectNet(start_gates.shape[1], base.shape[1], _WIDTHS)
    epochs = -(-_N_STEPS * _BATCH // len(pairs))
    training = Training(max_epochs=min(epochs, 500), batch_size=_BATCH, learning_rate=8e-3, weight_decay=1e-4)
    fit_network(
        _Change(network), {"change": 1.0}, Rows(pairs, probs, base), None, training, seed=seed, title="stand-in"
    )
    linear = [layer for layer in network.layers if isinstance(layer, nn.Linear)]
    layers = [(layer.weight.detach().numpy().copy(), layer.bias.detach().numpy().copy()) for layer in linear]
    found = StandIn(layers, 0.0, 0.0, 0.0, len(tried))
    told = before + found.logits(after_gates) - found.logits(before_gates)
    start, truth, guess = (1 / (1 + np.exp(-part)) for part in (before, after, told))
    spread = float(np.square(truth - start).sum())
    return StandIn(
        layers,
        error=float(np.abs(guess - truth).mean()),
        size=float(np.abs(truth - start).mean()),
        explained=1 - float(np.square(guess - truth).sum()) / max(spread, 1e-12),
        n_tried=len(tried),
    )
