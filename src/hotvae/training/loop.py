"""The one training loop: epochs, selection on validation rows, history, resuming.

The loop knows neither HOT-VAE nor any other model: it is given a network, a function that returns named loss
terms per row, and their weights. Each epoch draws its randomness from the seed and its own number alone, so that a
run that was killed and resumed ends with the same weights as one that was left in peace.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from hotvae.checkpoint import read_tensors, write_tensors
from hotvae.config import TrainConfig, require_count
from hotvae.errors import ConfigError, DataError, DataWarning, TrainingError
from hotvae.features.tokens import TokenRows
from hotvae.metrics import METRICS, THRESHOLDS, score
from hotvae.training.progress import Progress, Silent

Matrix = NDArray[np.floating[Any]] | sparse.csr_array | sparse.csr_matrix | TokenRows
Terms = Callable[[Tensor, Tensor], Mapping[str, Tensor]]


class Network(Protocol):
    """What the loop and the predictor ask of a network: probabilities of a batch."""

    def predict(self, features: Tensor) -> Tensor:
        """Return probabilities of shape (batch, label)."""
        ...


@dataclass(frozen=True)
class Rows:
    """Features and labels of a set of rows, scaled and ready for the network.

    Attributes
    ----------
    features : ndarray or CSR of shape (n_samples, n_features), or TokenRows
        Sparse rows are made dense one mini-batch at a time; tokens become whole numbers, padded with 0.
    labels : ndarray of shape (n_samples, n_labels)
        0, 1 or NaN.

    Examples
    --------
    >>> import numpy as np
    >>> len(Rows(np.zeros((3, 2), dtype=np.float32), np.zeros((3, 1), dtype=np.float32)))
    3
    """

    features: Matrix
    labels: NDArray[np.floating[Any]]

    def __len__(self) -> int:
        return int(self.features.shape[0])

    def batch(self, rows: NDArray[np.intp], device: torch.device) -> tuple[Tensor, Tensor]:
        """Return the features and labels of some rows as tensors."""
        return _tensor(self.features, rows, device), torch.from_numpy(self.labels[rows]).to(device)


@dataclass
class History:
    """What happened in training.

    Attributes
    ----------
    records : list of dict
        One entry per epoch: ``epoch``, ``loss``, each term as ``loss_<term>``, ``learning_rate``, ``seconds`` and,
        with validation rows, ``validation_log_loss``, ``validation_macro_f1`` and ``validation_<metric>`` of the
        selection metric with its ``threshold``. A network that can be told labels (its ``conditional`` is True and it
        has ``predict_given``) also has ``validation_told_log_loss``, that of one half of the labels given the other;
        it chooses the epoch where the network says so (``selects_told``).
    best_epoch : int
        The epoch whose weights were kept, counted from 1.
    stopped : str
        Why training ended: ``"max_epochs"``, ``"patience"`` or ``"non-finite loss"``.

    Examples
    --------
    >>> History([{"epoch": 1, "loss": 0.5}]).column("loss")
    [0.5]
    """

    records: list[dict[str, Any]] = field(default_factory=list)
    best_epoch: int = 0
    stopped: str = ""

    def column(self, name: str) -> list[Any]:
        """Return one quantity over the epochs."""
        return [record[name] for record in self.records]


@dataclass(frozen=True)
class _Job:
    """Everything that stays the same from epoch to epoch."""

    network: nn.Module
    optimizer: torch.optim.Optimizer
    terms: Terms
    weights: Mapping[str, float]
    train: Rows
    validation: Rows | None
    config: TrainConfig
    seed: int
    device: torch.device

    @property
    def steps_per_epoch(self) -> int:
        return max(1, math.ceil(len(self.train) / self.config.batch_size))


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
    terms: Terms,
    weights: Mapping[str, float],
    train: Rows,
    validation: Rows | None,
    config: TrainConfig,
    *,
    seed: int = 0,
    device: str | torch.device = "cpu",
    progress: Progress | None = None,
    state_file: str | os.PathLike[str] | None = None,
    identity: Any = None,
) -> History:
    """Train a network and leave it with the weights of its best epoch.

    Parameters
    ----------
    network : nn.Module
        Has ``predict(features)`` that returns probabilities; changed in place.
    terms : callable
        ``terms(features, labels)`` returns named loss terms of shape (batch,).
    weights : mapping of str to float
        Weight of each term.
    train, validation : Rows
        Training rows; rows that choose the epoch. Without validation rows the last epoch is kept.
    config : TrainConfig
        Epochs, step size, selection metric and the like.
    seed : int
        Decides the order of rows, the latent noise and dropout.
    device : str or torch.device
        Where the network is trained.
    progress : Progress, optional
        Told of every epoch.
    state_file : path, optional
        Written after every epoch and resumed from when it exists.
    identity : JSON-able, optional
        What else makes this run what it is, such as settings inside ``terms``; a state file of another identity is
        refused.

    Returns
    -------
    History
        One record per epoch.

    Raises
    ------
    TrainingError
        When the loss is not finite before any epoch has ended, or the state file belongs to another run.
    DataError
        When no label of the training rows was observed.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from hotvae.config import NetConfig
    >>> from hotvae.net.losses import bce_loss
    >>> from hotvae.net.model import PlainNet
    >>> x = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
    >>> rows = Rows(x, (x > 0).astype(np.float32))
    >>> net = PlainNet(1, 1, NetConfig(encoder_widths=(16,), encoder_dropout=0.0))
    >>> config = TrainConfig(max_epochs=20, learning_rate=0.02)
    >>> history = fit_network(net, lambda x, y: {"bce": bce_loss(net(x), y)}, {"bce": 1.0}, rows, rows, config)
    >>> history.records[-1]["validation_macro_f1"]
    1.0
    """
    if config.selection_metric not in METRICS:
        raise ConfigError(
            f"selection_metric must be one of {', '.join(METRICS)}; got {config.selection_metric!r}. Choose one."
        )
    if np.isnan(train.labels).all():
        raise DataError(
            f"training labels must hold an observed value; got none ({len(train)} rows). Check the label columns."
        )
    device = torch.device(device)
    network.to(device)
    optimizer = _make_optimizer(network, config)
    job = _Job(network, optimizer, terms, weights, train, validation, config, seed, device)
    state = _State(average=_snapshot(network), best=_snapshot(network))
    fingerprint = _fingerprint(job, identity)
    if state_file is not None and Path(state_file).exists():
        _resume(job, state, Path(state_file), fingerprint)
    progress = progress or Silent()
    # A network may change with the epochs, as HOT-VAE does when its labels begin to pass messages.
    begin_epoch: Callable[[int | None], None] = getattr(network, "begin_epoch", lambda epoch: None)

    with progress:
        progress.start(config.max_epochs, state.history.records)
        while not state.history.stopped:
            epoch = len(state.history.records) + 1
            started = time.perf_counter()
            begin_epoch(epoch)
            with owned_randomness(seed, epoch, device):
                record = _train_epoch(job, state, epoch)
            if "failed" not in record:
                _select(job, state, record)
            if "failed" in record:
                _stop_on_failure(record["failed"], epoch, state, config)
                break
            record["seconds"] = time.perf_counter() - started
            state.history.records.append(record)
            if epoch >= config.max_epochs:
                state.history.stopped = "max_epochs"
            elif config.patience and validation is not None and epoch - state.history.best_epoch >= config.patience:
                state.history.stopped = "patience"
            if state_file is not None:
                _write_state(job, state, Path(state_file), fingerprint)
            progress.epoch(record)

    begin_epoch(None)
    network.load_state_dict(state.best)
    network.eval()
    return state.history


def predict_network(
    predict: Callable[..., Tensor],
    features: Matrix,
    beside: NDArray[Any] | None = None,
    *,
    device: str | torch.device = "cpu",
    batch_size: int = 256,
) -> NDArray[np.floating[Any]]:
    """Probabilities of many rows, a batch at a time.

    Every batch has the same shape, the last one filled up with zeros, so that a row takes the same path through
    the same kernels whatever its companions.

    Parameters
    ----------
    predict : callable
        Maps a batch of features to probabilities; usually ``network.predict``.
    features : ndarray or CSR of shape (n_samples, n_features), or TokenRows
        Scaled features.
    beside : ndarray of shape (n_samples, ...), optional
        A second input of every row, such as the labels that are known.
    device : str or torch.device
        Where the network lives.
    batch_size : int
        Rows of a batch.

    Returns
    -------
    ndarray of shape (n_samples, n_labels)

    Examples
    --------
    >>> import numpy as np
    >>> predict_network(lambda x: x.sigmoid(), np.zeros((3, 2), dtype=np.float32)).shape
    (3, 2)
    """
    device = torch.device(device)
    n_rows = int(features.shape[0])
    if isinstance(features, TokenRows):
        # Rows of one padded length go together: a row's shape, too, is its own affair.
        widths = _padded_length(features.lengths)
        out: NDArray[np.floating[Any]] | None = None
        for width in np.unique(widths):
            rows = np.flatnonzero(widths == width)
            part = _predict_rows(predict, features, beside, rows, device, batch_size, int(width))
            if out is None:
                out = np.empty((n_rows, *part.shape[1:]), dtype=part.dtype)
            out[rows] = part
        if out is not None:
            return out
    return _predict_rows(predict, features, beside, np.arange(n_rows), device, batch_size, None)


def _predict_rows(
    predict: Callable[..., Tensor],
    features: Matrix,
    beside: NDArray[Any] | None,
    chosen: NDArray[np.intp],
    device: torch.device,
    batch_size: int,
    n_tokens: int | None,
) -> NDArray[np.floating[Any]]:
    parts = []
    with torch.inference_mode():
        for start in range(0, max(1, len(chosen)), batch_size):  # no rows: the filler alone tells the width
            rows = chosen[start : start + batch_size]
            # 0 would be an empty row of tokens; 1 is a token like any other.
            inputs = [_filled(_tensor(features, rows, device, n_tokens), batch_size, 0 if n_tokens is None else 1)]
            if beside is not None:
                inputs.append(_filled(torch.from_numpy(beside[rows]).to(device), batch_size, 0))
            parts.append(predict(*inputs)[: len(rows)].cpu().numpy())
    return np.concatenate(parts)


def _filled(inputs: Tensor, n_rows: int, value: int) -> Tensor:
    if len(inputs) == n_rows:
        return inputs
    return torch.cat([inputs, inputs.new_full((n_rows - len(inputs), *inputs.shape[1:]), value)])


def choose_device(device: str) -> torch.device:
    """Resolve ``"auto"`` to the best device at hand and check a named one.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda", "mps"} or any torch device name
        ``"auto"`` takes CUDA, then Apple's GPU, then the CPU.

    Returns
    -------
    torch.device

    Raises
    ------
    ConfigError
        When the device is unknown or absent.

    Examples
    --------
    >>> choose_device("cpu")
    device(type='cpu')
    """
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device == "auto":
        device = next(name for name in ("cuda", "mps", "cpu") if available[name])
    try:
        chosen = torch.device(device)
    except RuntimeError:
        chosen = None
    if chosen is None or not available.get(chosen.type, False):
        at_hand = ", ".join(name for name, there in available.items() if there)
        raise ConfigError(f"device must be 'auto' or one at hand ({at_hand}); got {device!r}. Use device='auto'.")
    return chosen


@contextmanager
def torch_threads(n_threads: int | None) -> Iterator[None]:
    """Use ``n_threads`` inside the block and give the old number back after it; None leaves it alone.

    Raises
    ------
    ConfigError
        When the number is not 1 or more.

    Examples
    --------
    >>> with torch_threads(1):
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    torch.set_num_threads(before if n_threads is None else require_count("n_threads", n_threads))
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def owned_randomness(seed: int, stream: int, device: torch.device | None = None) -> Iterator[None]:
    """Draw from a stream of our own inside the block; the caller's generators are left as they were.

    Parameters
    ----------
    seed, stream : int
        Together they decide the numbers.
    device : torch.device, optional
        A GPU whose generator is used too.

    Examples
    --------
    >>> with owned_randomness(0, 1):
    ...     first = torch.rand(1)
    >>> with owned_randomness(0, 1):
    ...     bool(torch.rand(1) == first)
    True
    """
    gpu = device is not None and device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if gpu else [], enabled=True):
        number = int(np.random.SeedSequence([seed, stream]).generate_state(1, np.uint64)[0] >> 1)
        # torch.manual_seed would also reset every GPU of the caller.
        (torch.default_generator if device is None or device.type == "cpu" else torch).manual_seed(number)
        yield


def _tensor(features: Matrix, rows: NDArray[np.intp], device: torch.device, n_tokens: int | None = None) -> Tensor:
    picked = features[rows]
    if isinstance(picked, TokenRows):
        return torch.from_numpy(picked.padded(n_tokens)).to(device)
    dense = picked.toarray() if sparse.issparse(picked) else picked
    return torch.from_numpy(np.ascontiguousarray(dense)).to(device)


def _padded_length(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Length to which a row is padded for prediction: at most a quarter longer than it is, or 8."""
    step = np.maximum(8, 2 ** np.floor(np.log2(np.maximum(lengths, 1))).astype(np.int64) // 4)
    padded: NDArray[np.int64] = -(-lengths // step) * step
    return padded


def _make_optimizer(network: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    # Decay shrinks maps, not offsets: vectors (biases, norms) are left alone.
    parameters = [p for p in network.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    # fused: one pass over all weights instead of a dozen small operations on each
    if config.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=config.learning_rate, fused=True)
    return torch.optim.AdamW(groups, lr=config.learning_rate, fused=True)


def learning_rate_at(step: int, steps_per_epoch: int, config: TrainConfig) -> float:
    """Step size of a step: linear warm-up, then constant or a half cosine down to 0.

    Examples
    --------
    >>> config = TrainConfig(max_epochs=10, warmup_epochs=1, learning_rate=1.0)
    >>> [round(learning_rate_at(step, 10, config), 3) for step in (0, 9, 10, 55, 99)]
    [0.1, 1.0, 1.0, 0.5, 0.0]
    """
    n_warmup = config.warmup_epochs * steps_per_epoch
    rate = config.learning_rate * min(1.0, (step + 1) / n_warmup if n_warmup > 0 else 1.0)
    if config.schedule == "constant":
        return rate
    n_after = max(1.0, config.max_epochs * steps_per_epoch - n_warmup)
    progress = min(1.0, max(0.0, (step - n_warmup) / n_after))
    return rate * 0.5 * (1 + math.cos(math.pi * progress))


def _train_epoch(job: _Job, state: _State, epoch: int) -> dict[str, Any]:
    """Pass over the training rows once; the record has ``failed`` when something was not finite."""
    network, config, weights = job.network, job.config, job.weights
    network.train()
    order = np.random.default_rng([job.seed, epoch]).permutation(len(job.train))
    totals: dict[str, float] = {}
    n_rows = 0.0
    rate = 0.0
    for rows in _batches(order, job.train.features, job.steps_per_epoch, np.random.default_rng([job.seed, epoch, 1])):
        rate = learning_rate_at(state.step, job.steps_per_epoch, config)
        for group in job.optimizer.param_groups:
            group["lr"] = rate
        features, labels = job.train.batch(rows, job.device)
        n_observed = float((~torch.isnan(labels)).any(-1).sum())
        if n_observed == 0:
            continue
        means = {name: term.sum() / n_observed for name, term in job.terms(features, labels).items()}
        loss = torch.stack([weights[name] * mean for name, mean in means.items()]).sum()
        if not torch.isfinite(loss):
            return {"failed": {name: mean.item() for name, mean in means.items()}}
        job.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(network.parameters(), config.clip_norm or math.inf)
        if not torch.isfinite(norm):
            return {"failed": {"gradient": norm.item()}}
        job.optimizer.step()
        state.step += 1
        _update_average(network, state, config.average_decay)
        for name, mean in {"loss": loss, **{f"loss_{k}": v for k, v in means.items()}}.items():
            totals[name] = totals.get(name, 0.0) + float(mean.detach()) * n_observed
        n_rows += n_observed
    return {
        "epoch": epoch,
        **{name: total / n_rows for name, total in totals.items()},
        "learning_rate": rate,
    }


def _batches(
    order: NDArray[np.intp], features: Matrix, n_batches: int, random: np.random.Generator
) -> list[NDArray[np.intp]]:
    """Cut the shuffled rows into batches; rows of tokens travel with rows of like length, which spares padding."""
    if not isinstance(features, TokenRows):
        return np.array_split(order, n_batches)
    windows = np.array_split(order, max(1, n_batches // 20))
    by_length = [window[np.argsort(features.lengths[window], kind="stable")] for window in windows]
    batches = np.array_split(np.concatenate(by_length), n_batches)
    return [batches[i] for i in random.permutation(n_batches)]


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
    probs = predict_network(cast(Network, network).predict, validation.features, device=job.device)
    told = _told_half(job)
    if told is not None:
        told_probs = predict_network(cast(Any, network).predict_given, told.features, told.known, device=job.device)
    network.load_state_dict(raw)
    if not np.isfinite(probs).all():
        record["failed"] = {"validation probabilities": float(probs[~np.isfinite(probs)][0])}
        return
    metric = job.config.selection_metric
    # The loss and the paper's choice are always recorded, so that curves can be compared between runs.
    for name in dict.fromkeys(("log_loss", "macro_f1", metric)):
        record[f"validation_{name}"], threshold = score(validation.labels, probs, name, THRESHOLDS)
        if name == metric and threshold is not None:
            record["threshold"] = threshold
    value = record[f"validation_{metric}"]
    if told is not None:
        record["validation_told_log_loss"] = score(told.labels, told_probs, "log_loss", THRESHOLDS)[0]
        if getattr(network, "selects_told", False):
            value = record["validation_told_log_loss"]
    if epoch == 1 and math.isnan(value):
        warnings.warn(
            f"selection_metric {metric!r} is undefined on the validation rows; the last epoch is kept.",
            DataWarning,
            stacklevel=3,
        )
    sign = 1 if METRICS[metric].greater_is_better else -1
    if state.best_value is None or math.isnan(state.best_value) or sign * value > sign * state.best_value:
        state.best, state.best_value, state.history.best_epoch = _copied(state.average), value, epoch


class _Told(NamedTuple):
    """Validation rows of which one half of the labels is known and the other half asked for."""

    features: Matrix
    known: NDArray[np.floating[Any]]
    labels: NDArray[np.floating[Any]]


def _told_half(job: _Job) -> _Told | None:
    """Choose the halves, the same in every epoch; None where nothing can be told, or nothing asked for."""
    if job.validation is None or not getattr(job.network, "conditional", False):
        return None
    labels = job.validation.labels
    is_known = np.random.default_rng([job.seed, 2]).random(labels.shape) < 0.5
    gap = labels.dtype.type(np.nan)
    asked = np.where(is_known, gap, labels)
    if np.isnan(asked).all():  # so few labels were observed that none is left to ask for
        return None
    return _Told(job.validation.features, np.where(is_known, labels, gap), asked)


def _stop_on_failure(failed: Mapping[str, float], epoch: int, state: _State, config: TrainConfig) -> None:
    culprit = next((name for name, value in failed.items() if not math.isfinite(value)), "their weighted sum")
    causes = {
        "kl": "the latent variances ran away; a smaller kl weight or learning rate helps",
        "ranking": "the ranking term overflowed; a smaller ranking weight or scale helps",
    }
    cause = causes.get(culprit, "the step size is too large, or feature values are extreme; lower learning_rate")
    message = (
        f"training loss must stay finite; got {failed.get(culprit, math.inf)} in term {culprit!r} "
        f"(epoch {epoch}, learning_rate {config.learning_rate:g}). Likely cause: {cause}."
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
    settings = [job.config.to_dict(), dict(job.weights), job.seed, identity]
    digest = hashlib.sha256(json.dumps([*settings, shapes, plain], sort_keys=True).encode())
    arrays = [mask.cpu().numpy() for mask in job.network.buffers() if not mask.is_floating_point()]
    for rows in (job.train, job.validation):
        if rows is not None:
            arrays += [*_arrays(rows.features), rows.labels]
    for array in arrays:
        digest.update(f"{array.shape} {array.dtype}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _arrays(features: Matrix) -> list[NDArray[Any]]:
    if isinstance(features, TokenRows):
        return [features.tokens, features.starts]
    if isinstance(features, np.ndarray):
        return [features]
    return [features.data, features.indices, features.indptr]


def _write_state(job: _Job, state: _State, path: Path, fingerprint: str) -> None:
    parts = {"weights": job.network.state_dict(), "average": state.average, "best": state.best}
    tensors = {f"{part}/{name}": value for part, values in parts.items() for name, value in values.items()}
    slots = job.optimizer.state_dict()["state"]
    tensors |= {f"optimizer/{index}/{key}": value for index, slot in slots.items() for key, value in slot.items()}
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
    slots: dict[int, dict[str, Tensor]] = {}
    for key, value in part("optimizer").items():
        index, name = key.split("/")
        slots.setdefault(int(index), {})[name] = value
    job.optimizer.load_state_dict({"state": slots, "param_groups": job.optimizer.state_dict()["param_groups"]})
    state.history = History(metadata["records"], metadata["best_epoch"], metadata["stopped"])
    state.best_value, state.step = metadata["best_value"], metadata["step"]
