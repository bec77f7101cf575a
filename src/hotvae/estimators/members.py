"""The models that the default stacks: trees, a ridge, direct networks, or a user's own; all quick, kept as arrays.

A *candidate* says what to fit and on which form of the features; fitting it on some rows gives a *member*, which has
logits for rows in that form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.base import clone
from torch import Tensor, nn

from hotvae.errors import ConfigError, ModelError
from hotvae.estimators.per_label import limited_threads, unit_rows
from hotvae.estimators.ridge_base import ridge_logits
from hotvae.estimators.trees import Trees
from hotvae.features import Rows
from hotvae.net.direct import DirectNet
from hotvae.net.stored import with_weights
from hotvae.training.loop import fit_network
from hotvae.training.prediction import owned_randomness, predict_network, torch_threads
from hotvae.training.settings import Training

Kind = Literal["trees", "ridge", "network", "own"]

# Probabilities that a user's own model gives are so far from certain at least.
_SURE = 1e-5
# Products with fewer columns are summed in an order that depends on where in its batch a row stands (MKL; up to 11
# columns, where the number of features is no multiple of 4).
_LEAST_OUT = 16


@dataclass(frozen=True)
class Candidate:
    """What to fit, and on which form of the features.

    Attributes
    ----------
    name : str
        In words, for the log and the report.
    kind : {"trees", "ridge", "network", "own"}
        Which model.
    form : str
        Which form of the features it takes (:mod:`hotvae.estimators.recipe`).
    settings : dict
        Of the model: of :meth:`Trees.grow`; or ``widths`` and ``dropout`` of the network.
    epochs : int or None
        How long a network is trained; None while the race has yet to find out.
    must_gain : float
        Of what is quick: the share of log loss by which it must make the others better on the first fold, to race on.
    """

    name: str
    kind: Kind
    form: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    epochs: int | None = None
    must_gain: float = 0.0


class Member(Protocol):
    """A fitted model."""

    @property
    def n_epochs(self) -> int:
        """Epochs after which the weights of a network were kept; 0 for what has none."""
        ...

    def logits(self, features: Any) -> NDArray[Any]:
        """Return logits of shape (n_rows, n_labels)."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Return what was learned, for a file."""
        ...


def fit_member(
    candidate: Candidate,
    train: Rows,
    held: Rows | None,
    training: Training,
    seed: int,
    *,
    own: Any = None,
) -> Member:
    """Fit a candidate.

    Parameters
    ----------
    candidate : Candidate
        What to fit.
    train, held : Rows
        Rows to learn from, in the candidate's form; rows that choose the epoch of a network.
    training : Training
        How a network is trained.
    seed : int
        Decides everything that is random.
    own : scikit-learn classifier, optional
        The user's own model, for a candidate of kind "own".

    Returns
    -------
    Member
    """
    if candidate.kind == "trees":
        return TreesMember(Trees.grow(train.features, train.observed(), seed=seed, **candidate.settings))
    if candidate.kind == "ridge":
        return RidgeMember.fit(train, training)
    if candidate.kind == "own":
        return OwnMember.fit(own, train, seed)
    return NetworkMember.fit(candidate, train, held, training, seed)


@dataclass(frozen=True, eq=False)
class TreesMember:
    """A forest."""

    trees: Trees
    n_epochs: int = 0

    def logits(self, features: Any) -> NDArray[Any]:
        """Return logits of shape (n_rows, n_labels)."""
        return self.trees.logits(features)

    def tensors(self) -> dict[str, Tensor]:
        """Return what was learned, for a file."""
        return self.trees.tensors()


@dataclass(frozen=True, eq=False)
class RidgeMember:
    """A linear map to logits; what it says of training rows that it was not shown comes with it while it is new."""

    weights: Tensor
    intercepts: Tensor
    left_out: NDArray[Any] | None = None
    n_epochs: int = 0

    @classmethod
    def fit(cls, train: Rows, training: Training) -> RidgeMember:
        """Solve the ridge; its penalty is chosen by rows left out one at a time."""
        with limited_threads(training.n_threads):
            found = ridge_logits(unit_rows(train.features), train.observed())
        weights, intercepts = (np.ascontiguousarray(part, np.float32) for part in (found.weights.T, found.intercepts))
        return cls(torch.from_numpy(weights), torch.from_numpy(intercepts), found.left_out)

    def logits(self, features: Any) -> NDArray[Any]:
        """Return logits of shape (n_rows, n_labels)."""
        n_labels = len(self.intercepts)
        filler = max(0, _LEAST_OUT - n_labels)
        weights = nn.functional.pad(self.weights, (0, 0, 0, filler))
        intercepts = nn.functional.pad(self.intercepts, (0, filler))

        def mapped(rows: Tensor) -> Tensor:
            return nn.functional.linear(rows, weights, intercepts)[:, :n_labels]

        with torch_threads(1):
            return predict_network(mapped, unit_rows(features).astype(np.float32))

    def tensors(self) -> dict[str, Tensor]:
        """Return what was learned, for a file."""
        return {"weights": self.weights, "intercepts": self.intercepts}


@dataclass(frozen=True, eq=False)
class NetworkMember:
    """A direct network."""

    network: DirectNet
    n_epochs: int = 0

    @classmethod
    def fit(cls, candidate: Candidate, train: Rows, held: Rows | None, training: Training, seed: int) -> NetworkMember:
        """Train the network by the one loop; the epoch that held rows like best is kept, without them the last."""
        labels = train.observed()
        n_seen = (~np.isnan(labels)).sum(axis=0)
        start = torch.from_numpy(logit((np.nansum(labels, axis=0) + 0.5) / (n_seen + 1)).astype(np.float32))
        with owned_randomness(seed, 0):
            network = DirectNet(
                int(train.features.shape[1]), labels.shape[1], initial_logits=start, **candidate.settings
            )
        rows = train.as_type(np.float32)
        history = fit_network(network, {"bce": 1.0}, rows, held, training, seed=seed, title=candidate.name)
        return cls(network, history.best_epoch)

    @classmethod
    def restored(cls, candidate: Candidate, tensors: Mapping[str, Tensor], n_epochs: int) -> NetworkMember:
        """Make the network of stored weights."""
        # The read-out is the last layer, whatever the order in which a file lists its tensors.
        last = max(int(name.split(".")[1]) for name in tensors if name.startswith("layers."))
        n_in, n_out = tensors["layers.0.weight"].shape[1], tensors[f"layers.{last}.weight"].shape[0]
        return cls(with_weights(lambda: DirectNet(n_in, n_out, **candidate.settings), tensors), n_epochs)

    def logits(self, features: Any) -> NDArray[Any]:
        """Return logits of shape (n_rows, n_labels)."""
        with torch_threads(1):
            return predict_network(self.network, features)

    def tensors(self) -> dict[str, Tensor]:
        """Return what was learned, for a file."""
        return dict(self.network.state_dict())


@dataclass(frozen=True, eq=False)
class OwnMember:
    """A scikit-learn classifier of the user's own; it cannot be written to a file without executing code to read it."""

    model: Any
    constant: NDArray[np.float64]
    n_epochs: int = 0

    @classmethod
    def fit(cls, model: Any, train: Rows, seed: int) -> OwnMember:
        """Fit a copy of it."""
        labels = train.observed()
        has_gaps = bool(np.isnan(labels).any())
        if has_gaps and not getattr(model, "accepts_missing_labels", False):
            raise ConfigError(
                f"base must be one of our own where labels have gaps; got {type(model).__name__}. Use HotVAEClassifier "
                "with base='auto', or a classifier of hotvae that takes gaps."
            )
        fitted = clone(model)
        if "random_state" in fitted.get_params(deep=False) and fitted.random_state is None:
            fitted.set_params(random_state=seed)
        table = labels if has_gaps else labels.astype(np.int64)
        # Some of scikit-learn's models insist on short indices of sparse rows.
        fitted.fit(
            unit_rows(train.features, wanted=False), table[:, 0] if labels.shape[1] == 1 and not has_gaps else table
        )
        return cls(fitted, np.nanmean(labels, axis=0, dtype=np.float64))

    def logits(self, features: Any) -> NDArray[Any]:
        """Return logits of shape (n_rows, n_labels)."""
        found = self.model.predict_proba(unit_rows(features, wanted=False))
        if isinstance(found, list):  # scikit-learn's forests: a table of both classes for each label
            found = np.column_stack(
                [
                    table[:, 1] if table.shape[1] == 2 else np.full(len(table), rate)
                    for table, rate in zip(found, self.constant, strict=True)
                ]
            )
        elif len(self.constant) == 1 and found.shape[1] == 2:
            found = found[:, 1:]
        odds: NDArray[Any] = logit(np.clip(found, _SURE, 1 - _SURE))
        return odds

    def tensors(self) -> dict[str, Tensor]:
        """Refuse: a file could only hold it as code."""
        raise ModelError(
            f"base must be one of hotvae's own to be saved; got {type(self.model).__name__}, which a file can hold "
            "only as code that runs when it is read. Keep the model in memory, or train a HotVAEClassifier with "
            "base='auto'."
        )


def restore_member(candidate: Candidate, tensors: Mapping[str, Tensor], n_epochs: int) -> Member:
    """Make a member from what its ``tensors`` returned.

    Raises
    ------
    ModelError
        Tensors that do not fit together.
    """
    try:
        if candidate.kind == "trees":
            return TreesMember(Trees.from_tensors(tensors))
        if candidate.kind == "ridge":
            return RidgeMember(tensors["weights"], tensors["intercepts"])
        return NetworkMember.restored(candidate, tensors, n_epochs)
    except (KeyError, IndexError, RuntimeError) as error:
        raise ModelError(f"{candidate.name} must be whole; got {error!r}. Restore the model from a copy.") from error


def mean_logits(members: Sequence[Member], features: Any) -> NDArray[np.float64]:
    """Average the logits of one candidate fitted several times, with other seeds."""
    total: NDArray[np.float64] = members[0].logits(features).astype(np.float64)
    for member in members[1:]:
        total += member.logits(features)
    total /= len(members)
    return total
