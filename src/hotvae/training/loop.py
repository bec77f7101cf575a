"""The one training loop: epochs, selection on validation rows, history, resuming.

The loop knows neither HOT-VAE nor any other model: a network returns named loss terms per row, and their weights come
beside it. Each epoch draws its randomness from the seed and its own number alone, so that a
run that was killed and resumed ends with the same weights as one that was left in peace.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from hotvae.checkpoint import read_tensors, write_tensors
from hotvae.errors import DataError, DataWarning, TrainingError
from hotvae.features.rows import Rows
from hotvae.metrics import METRICS, THRESHOLDS, score
from hotvae.training.adam import Adam
from hotvae.training.prediction import as_tensor, choose_device, owned_randomness, predict_network, torch_threads
from hotvae.training.progress import Silent, make_progress
from hotvae.training.ranks import Ranks, sharing
from hotvae.training.settings import WHERE, Training
from hotvae.training.sources import InMemory, Source, Streamed

# Numbers of random streams that are apart for each process.
_STREAMS = 1_000_003


class Network(Protocol):
    """What the loop asks of a network, beside being an ``nn.Module``."""

    def loss(self, features: Tensor, labels: Tensor, base_logits: Tensor | None) -> Mapping[str, Tensor]:
        """Return the loss terms of a batch by name, each a number per row."""
        ...

    def predict(self, features: Tensor, base_logits: Tensor | None) -> Tensor:
        """Return probabilities of shape (batch, label)."""
        ...


@dataclass(repr=False)
class History:
    """What happened in training.

    Attributes
    ----------
    records : list of dict
        One entry per epoch: ``epoch``, ``loss``, each term as ``loss_<term>``, ``learning_rate``, ``seconds`` and,
        with validation rows, ``validation_log_loss``, ``validation_macro_f1`` and ``validation_<metric>`` of the
        selection metric with its ``threshold``. A network that can be given labels (its ``conditional`` is True and it
        has ``predict_given``) also has ``validation_given_log_loss``, that of one half of the labels given the other;
        it chooses the epoch where the network says so (``selects_by_given``).
    best_epoch : int
        The epoch whose weights were kept, counted from 1.
    stopped : str
        Why training ended: ``"max_epochs"``, ``"patience"`` or ``"non-finite loss"``.
    """

    records: list[dict[str, Any]] = field(default_factory=list)
    best_epoch: int = 0
    stopped: str = ""

    def column(self, name: str) -> list[Any]:
        """Return one quantity over the epochs."""
        return [record[name] for record in self.records]

    def frame(self) -> pd.DataFrame:
        """Return everything as a table, a row an epoch.

        Examples
        --------
        >>> history = History([{"epoch": 1, "loss": 0.7}, {"epoch": 2, "loss": 0.5}], 2, "max_epochs")
        >>> history.frame()["loss"].tolist()
        [0.7, 0.5]
        >>> history
        History: 2 epochs, the best was 2, ended at max_epochs: it may not have been long enough
        """
        return pd.DataFrame(self.records).set_index("epoch") if self.records else pd.DataFrame()

    def ending(self) -> str:
        """Say why training ended, and what to make of it."""
        if self.stopped == "patience":
            return f"no better for {len(self.records) - self.best_epoch} epochs"
        if self.stopped == "max_epochs" and self.best_epoch == len(self.records):
            return "ended at max_epochs: it may not have been long enough"
        return f"ended at {self.stopped}" if self.stopped else "not ended"

    def __repr__(self) -> str:
        return f"History: {len(self.records)} epochs, the best was {self.best_epoch}, {self.ending()}"


@dataclass(frozen=True)
class _Job:
    """Everything that stays the same from epoch to epoch."""

    network: nn.Module
    optimizer: Adam
    weights: Mapping[str, float]
    train: Source
    validation: Rows | None
    training: Training
    seed: int
    device: torch.device
    ranks: Ranks
    loss_of: Callable[[Tensor, Tensor, Tensor | None], Mapping[str, Tensor]]


@dataclass
class _State:
    """Everything that changes from epoch to epoch, beside the weights and the optimiser."""

    average: dict[str, Tensor]
    best: dict[str, Tensor]
    history: History = field(default_factory=History)
    best_value: float | None = None
    step: int = 0


def fit_network(
    network: nn.Module,
    weights: Mapping[str, float],
    train: Rows | Streamed,
    validation: Rows | None,
    training: Training,
    *,
    seed: int = 0,
    title: str = "",
    identity: Any = None,
) -> History:
    """Train a network and leave it with the weights of its best epoch, on the CPU.

    Parameters
    ----------
    network : nn.Module
        A :class:`Network`; changed in place.
    weights : mapping of str to float
        Weight of each loss term.
    train : Rows or Streamed
        Training rows, in memory or in a Parquet table; an epoch of the latter is one leg of a pass.
    validation : Rows, optional
        Rows that choose the epoch. Without them the last epoch is kept.
    training : Training
        Epochs, step size, selection metric, device, progress and the like.
    seed : int
        Decides the order of rows, the latent noise and dropout.
    title : str
        What the progress calls it.
    identity : JSON-able, optional
        What else makes this run what it is; a state file of another identity is refused.

    Returns
    -------
    History
        One record per epoch.

    Notes
    -----
    Inside :func:`~hotvae.training.ranks.shared`, all processes call this with the same settings. Each computes the
    gradient of its part of every batch, and the predictions of its part of the validation rows; sums over all of them
    decide, so that every process ends with the same weights. The first one writes the state, and all read it.

    Raises
    ------
    TrainingError
        When the loss is not finite before any epoch has ended, or the state file belongs to another run.
    DataError
        When no label of the training rows was observed.

    Examples
    --------
    >>> import numpy as np
    >>> from hotvae.config import NetConfig
    >>> from hotvae.net.model import PlainNet
    >>> x = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
    >>> rows = Rows(x, (x > 0).astype(np.float32))
    >>> net = PlainNet(1, 1, NetConfig(encoder_widths=(16,), encoder_dropout=0.0))
    >>> history = fit_network(net, {"bce": 1.0}, rows, rows, Training(max_epochs=20, learning_rate=0.02))
    >>> history.records[-1]["validation_macro_f1"]
    1.0
    """
    training = training.checked()
    if isinstance(train, Rows) and np.isnan(train.observed()).all():
        raise DataError(
            f"training labels must hold an observed value; got none ({len(train)} rows). Check the label columns."
        )
    device = choose_device(training.device)
    network.to(device)
    coupled = training.optimizer == "adam"
    optimizer = Adam(network.parameters(), decay=training.weight_decay, coupled=coupled)
    ranks = sharing()
    source = InMemory(train, training.batch_size, seed, ranks) if isinstance(train, Rows) else train.among(ranks)
    loss_of = cast(Network, network).loss if ranks.size == 1 else _shared_loss(network)
    job = _Job(network, optimizer, weights, source, validation, training, seed, device, ranks, loss_of)
    state = _State(average=_snapshot(network), best=_snapshot(network))
    fingerprint = _fingerprint(job, identity)
    state_file = None if training.state_file is None else Path(training.state_file)
    if state_file is not None and state_file.exists():
        _resume(job, state, state_file, fingerprint)

    told = make_progress(training.progress, title) if ranks.is_first else Silent()
    with torch_threads(training.n_threads), told as progress:
        progress.start(training.max_epochs, state.history.records)
        while not state.history.stopped:
            epoch = len(state.history.records) + 1
            started = time.perf_counter()
            with owned_randomness(seed, epoch + _STREAMS * ranks.rank, device):
                record = train_epoch(job, state, epoch)
            if "failed" not in record:
                _select(job, state, record)
            if "failed" in record:
                _stop_on_failure(record["failed"], epoch, state, training)
                break
            record["seconds"] = time.perf_counter() - started
            state.history.records.append(record)
            if epoch >= training.max_epochs:
                state.history.stopped = "max_epochs"
            elif training.patience and validation is not None and epoch - state.history.best_epoch >= training.patience:
                state.history.stopped = "patience"
            if state_file is not None and ranks.is_first:
                _write_state(job, state, state_file, fingerprint)
            progress.epoch(record)
        progress.end(f"{state.history!r}".partition(": ")[2])

    network.load_state_dict(state.best)
    network.eval()
    network.to("cpu")
    return state.history


def learning_rate_at(step: int, steps_per_epoch: int, training: Training) -> float:
    """Step size of a step: linear warm-up, then constant or a half cosine down to 0.

    Examples
    --------
    >>> training = Training(max_epochs=10, warmup_epochs=1, learning_rate=1.0)
    >>> [round(learning_rate_at(step, 10, training), 3) for step in (0, 9, 10, 55, 99)]
    [0.1, 1.0, 1.0, 0.5, 0.0]
    """
    n_warmup = training.warmup_epochs * steps_per_epoch
    rate = float(training.learning_rate) * min(1.0, (step + 1) / n_warmup if n_warmup > 0 else 1.0)
    if training.schedule == "constant":
        return rate
    n_after = max(1.0, training.max_epochs * steps_per_epoch - n_warmup)
    progress = min(1.0, max(0.0, (step - n_warmup) / n_after))
    return rate * 0.5 * (1 + math.cos(math.pi * progress))


def train_epoch(job: _Job, state: _State, epoch: int) -> dict[str, Any]:
    """Pass over the training rows once; the record has ``failed`` when something was not finite."""
    network, training, weights, ranks = job.network, job.training, job.weights, job.ranks
    network.train()
    totals: dict[str, float] = {}
    n_rows = 0.0
    rate = 0.0
    n_steps = job.train.n_steps
    for rows in job.train.batches(epoch):
        rate = learning_rate_at(state.step, n_steps, training)
        features, labels, base_logits = _batch(rows, job.device)
        n_observed = float(ranks.sum((~torch.isnan(labels)).any(-1).sum().double()))
        if n_observed == 0:
            continue
        means = {name: term.sum() / n_observed for name, term in job.loss_of(features, labels, base_logits).items()}
        loss = torch.stack([weights[name] * mean for name, mean in means.items()]).sum()
        # Of several processes, all see what is not finite in the gradient, which is the sum of theirs.
        if ranks.size == 1 and not torch.isfinite(loss):
            return {"failed": {name: mean.item() for name, mean in means.items()}}
        job.optimizer.forget_gradients()
        (loss * ranks.size if ranks.size > 1 else loss).backward()  # gradients are averaged over processes
        norm = nn.utils.clip_grad_norm_(network.parameters(), training.clip_norm or math.inf)
        if not torch.isfinite(norm):
            return {"failed": {"gradient": norm.item()}}
        job.optimizer.step(rate)
        state.step += 1
        _update_average(network, state, training.average_decay)
        for name, mean in {"loss": loss, **{f"loss_{k}": v for k, v in means.items()}}.items():
            totals[name] = totals.get(name, 0.0) + float(mean.detach()) * n_observed
        n_rows += n_observed
    if ranks.size > 1:
        summed = ranks.sum(torch.tensor([*totals.values()], dtype=torch.float64)).tolist()
        totals = dict(zip(totals, summed, strict=True))
    return {
        "epoch": epoch,
        **{name: total / n_rows for name, total in totals.items()},
        "learning_rate": rate,
    }


def _shared_loss(network: nn.Module) -> Callable[..., Mapping[str, Tensor]]:
    """Return the loss of a network whose gradients are averaged over all processes."""

    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, features: Tensor, labels: Tensor, base_logits: Tensor | None) -> dict[str, Tensor]:
            return dict(cast(Network, self.network).loss(features, labels, base_logits))

    return DistributedDataParallel(Loss())


def _batch(rows: Rows, device: torch.device) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return features, labels and base logits of some rows as tensors."""
    base = rows.base_logits
    return (
        as_tensor(rows.features, device),
        torch.from_numpy(rows.observed()).to(device),
        None if base is None else torch.from_numpy(base).to(device),
    )


def _update_average(network: nn.Module, state: _State, decay: float) -> None:
    # Early on the average must forget the starting weights quickly.
    keep = min(decay, (1 + state.step) / (10 + state.step)) if decay > 0 else 0.0
    with torch.no_grad():
        current = network.state_dict()
        floating = [name for name, value in current.items() if value.is_floating_point()]
        torch._foreach_lerp_([state.average[name] for name in floating], [current[name] for name in floating], 1 - keep)


def _select(job: _Job, state: _State, record: dict[str, Any]) -> None:
    """Score the averaged weights on the validation rows and keep them if they are the best so far."""
    network, validation, epoch = job.network, job.validation, record["epoch"]
    if validation is None:
        state.best, state.history.best_epoch = _copied(state.average), epoch
        return
    raw = _snapshot(network)
    network.load_state_dict(state.average)
    network.eval()
    labels = validation.observed()
    # Each process predicts its rows.
    mine = job.ranks.mine(len(validation))
    own = validation if job.ranks.size == 1 else validation[mine]
    features, base = own.features, own.base_logits

    def all_rows(probs: NDArray[Any]) -> NDArray[Any]:
        return job.ranks.joined(probs, len(validation))

    probs = all_rows(predict_network(cast(Network, network).predict, features, base, device=job.device))
    halves = _given_half(job)
    if halves is not None:
        given, target = halves
        predict_given = cast(Any, network).predict_given
        given_probs = all_rows(predict_network(predict_given, features, given[mine], base, device=job.device))
    network.load_state_dict(raw)
    if not np.isfinite(probs).all():
        record["failed"] = {"validation probabilities": float(probs[~np.isfinite(probs)][0])}
        return
    metric = job.training.selection_metric
    # The loss and the paper's choice are always recorded, so that curves can be compared between runs.
    for name in dict.fromkeys(("log_loss", "macro_f1", metric)):
        record[f"validation_{name}"], threshold = score(labels, probs, name, THRESHOLDS)
        if name == metric and threshold is not None:
            record["threshold"] = threshold
    value = record[f"validation_{metric}"]
    if halves is not None:
        record["validation_given_log_loss"] = score(target, given_probs, "log_loss", THRESHOLDS)[0]
        if getattr(network, "selects_by_given", False):
            value = record["validation_given_log_loss"]
    if epoch == 1 and math.isnan(value):
        warnings.warn(
            f"selection_metric {metric!r} is undefined on the validation rows; the last epoch is kept.",
            DataWarning,
            stacklevel=3,
        )
    sign = 1 if METRICS[metric].greater_is_better else -1
    if state.best_value is None or math.isnan(state.best_value) or sign * value > sign * state.best_value:
        state.best, state.best_value, state.history.best_epoch = _copied(state.average), value, epoch


def _given_half(job: _Job) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Part the validation labels into given ones and targets, alike in every epoch; None where there are no targets."""
    if job.validation is None or not getattr(job.network, "conditional", False):
        return None
    labels = job.validation.observed()
    is_given = np.random.default_rng([job.seed, 2]).random(labels.shape) < 0.5
    gap = labels.dtype.type(np.nan)
    target = np.where(is_given, gap, labels)
    if np.isnan(target).all():  # so few labels were observed that no target is left
        return None
    return np.where(is_given, labels, gap), target


def _stop_on_failure(failed: Mapping[str, float], epoch: int, state: _State, training: Training) -> None:
    culprit = next((name for name, value in failed.items() if not math.isfinite(value)), "their weighted sum")
    causes = {
        "kl": "the latent variances ran away; a smaller kl weight or learning rate helps",
        "ranking": "the ranking term overflowed; a smaller ranking weight helps",
    }
    cause = causes.get(culprit, "the step size is too large, or feature values are extreme; lower learning_rate")
    message = (
        f"training loss must stay finite; got {failed.get(culprit, math.inf)} in term {culprit!r} "
        f"(epoch {epoch}, learning_rate {training.learning_rate:g}). Likely cause: {cause}."
    )
    if not state.history.records:
        raise TrainingError(message)
    state.history.stopped = "non-finite loss"
    warnings.warn(f"{message} The model of epoch {state.history.best_epoch} is kept.", RuntimeWarning, stacklevel=3)


def _snapshot(network: nn.Module) -> dict[str, Tensor]:
    return _copied(network.state_dict())


def _copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def _fingerprint(job: _Job, identity: Any) -> str:
    """Identify a run: resuming with other data, settings, seed or network would not give the same model."""
    # Starting weights do not count: a resumed run overwrites them.
    shapes = [[name, list(value.shape), str(value.dtype)] for name, value in job.network.state_dict().items()]
    plain = [
        [name, key, value]
        for name, part in job.network.named_modules()
        for key, value in vars(part).items()
        if key != "training" and isinstance(value, bool | int | float | str)
    ]
    how = {name: value for name, value in job.training.get_params().items() if name not in WHERE}
    settings = [how, dict(job.weights), job.seed, identity]
    # A grid of numpy's numbers gives settings that JSON does not know.
    text = json.dumps([*settings, shapes, plain], sort_keys=True, default=lambda number: number.item())
    digest = hashlib.sha256(text.encode())
    arrays = [mask.cpu().numpy() for mask in job.network.buffers() if not mask.is_floating_point()]
    arrays += job.train.arrays()
    if job.validation is not None:
        arrays += InMemory(job.validation, 1, 0).arrays()
    for array in arrays:
        digest.update(f"{array.shape} {array.dtype}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _write_state(job: _Job, state: _State, path: Path, fingerprint: str) -> None:
    parts = {"weights": job.network.state_dict(), "average": state.average, "best": state.best}
    tensors = {f"{part}/{name}": value for part, values in parts.items() for name, value in values.items()}
    tensors |= {f"optimizer/{key}": value for key, value in job.optimizer.tensors().items()}
    metadata = {
        "fingerprint": fingerprint,
        "records": state.history.records,
        "best_epoch": state.history.best_epoch,
        "stopped": state.history.stopped,
        "best_value": state.best_value,
        "step": state.step,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_tensors(path, tensors, metadata)


def _resume(job: _Job, state: _State, path: Path, fingerprint: str) -> None:
    tensors, metadata = read_tensors(path)
    if not isinstance(metadata, dict) or metadata.get("fingerprint") != fingerprint:
        raise TrainingError(
            f"training state must belong to the same data, settings and seed; got another run's ({path}). "
            "Delete the file to start afresh, or repeat the settings it was started with."
        )

    def part(name: str) -> dict[str, Tensor]:
        return {key[len(name) + 1 :]: value for key, value in tensors.items() if key.startswith(name + "/")}

    job.network.load_state_dict(part("weights"))
    for name, value in part("average").items():
        state.average[name].copy_(value)  # stays on the network's device
    state.best = part("best")
    job.optimizer.restore(part("optimizer"))
    state.history = History(metadata["records"], metadata["best_epoch"], metadata["stopped"])
    state.best_value, state.step = metadata["best_value"], metadata["step"]
