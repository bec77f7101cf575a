"""How a network is trained: one settings object, shared by every network."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

from sklearn.base import BaseEstimator

from hotvae.config import MOST_THREADS, require_choice, require_count, require_number, require_share
from hotvae.metrics import METRICS
from hotvae.training.progress import Style

Optimizer = Literal["adam", "adamw"]
Schedule = Literal["constant", "cosine"]
Precision = Literal["float32", "float64"]


@dataclass(kw_only=True, eq=False, repr=False)
class Training(BaseEstimator):
    """Epochs, step size, which epoch is kept, and where and how it runs.

    A scikit-learn object: in a grid search its parameters are ``training__learning_rate`` and the like.

    Parameters
    ----------
    max_epochs : int
        Most passes over the training rows.
    batch_size : int
        Rows of a mini-batch.
    learning_rate : float
        Peak step size.
    weight_decay : float
        Decoupled weight decay (AdamW only).
    optimizer : {"adam", "adamw"}
        Update rule.
    schedule : {"constant", "cosine"}
        Step size after the warm-up: constant, or a half cosine down to 0 at ``max_epochs``.
    warmup_epochs : float
        Epochs of linear warm-up.
    clip_norm : float
        Largest norm of the gradient; 0 switches clipping off.
    average_decay : float
        Decay of the moving average of the weights that is evaluated and kept; 0 keeps the raw weights.
    selection_metric : str
        Metric on validation rows that chooses the epoch.
    patience : int
        Epochs without a better value before training stops; 0 means never.
    precision : {"float32", "float64"}
        Number type of weights and data.
    device : str
        Where to compute: ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"mps"``.
    n_threads : int or None
        Threads of torch; None leaves torch's own number.
    progress : {"auto", "bar", "lines", "silent"}
        What to show while training.
    state_file : path, optional
        Written after every epoch; a fit that finds it goes on from there.

    Examples
    --------
    >>> from hotvae import HotVAENetwork
    >>> HotVAENetwork(training=Training(max_epochs=5)).set_params(training__patience=2).training
    Training(max_epochs=5, patience=2)
    """

    max_epochs: int = 40
    batch_size: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    optimizer: Optimizer = "adamw"
    schedule: Schedule = "cosine"
    warmup_epochs: float = 1.0
    clip_norm: float = 1.0
    average_decay: float = 0.99
    selection_metric: str = "log_loss"
    patience: int = 15
    precision: Precision = "float32"
    device: str = "auto"
    n_threads: int | None = 1
    progress: Style = "silent"
    state_file: str | os.PathLike[str] | None = None

    def checked(self) -> Self:
        """Return itself, once every value has been found to be allowed."""
        for name, least in (("max_epochs", 1), ("batch_size", 1), ("patience", 0)):
            require_count(name, getattr(self, name), least)
        if self.n_threads is not None:
            require_count("n_threads", self.n_threads, most=MOST_THREADS)
        require_number("learning_rate", self.learning_rate, above=True)
        for name in ("weight_decay", "warmup_epochs", "clip_norm"):
            require_number(name, getattr(self, name))
        require_share("average_decay", self.average_decay)
        for name, choices in _CHOICES.items():
            require_choice(name, getattr(self, name), choices)
        return self

    def but(self, **changes: Any) -> Training:
        """Return a copy with some values changed, for a second training after the first; it has no state file."""
        return Training(**self.get_params() | {"state_file": None} | changes)


_CHOICES: dict[str, tuple[str, ...]] = {
    "optimizer": get_args(Optimizer),
    "schedule": get_args(Schedule),
    "precision": get_args(Precision),
    "progress": get_args(Style),
    "selection_metric": tuple(METRICS),
}

WHERE = ("device", "n_threads", "progress", "state_file")
"""Parameters that say where and how training runs and is shown; none of them changes the model."""
