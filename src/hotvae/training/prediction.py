"""Prediction in batches, and what a network runs on: device, threads, randomness of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from hotvae.config import MOST_THREADS, require_count
from hotvae.errors import ConfigError
from hotvae.features.tokens import TokenRows

Matrix = NDArray[np.floating[Any]] | sparse.csr_array | sparse.csr_matrix | TokenRows


def predict_network(
    predict: Callable[..., Tensor],
    features: Matrix,
    *beside: NDArray[Any] | None,
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
    *beside : ndarray of shape (n_samples, ...) or None
        Further inputs of every row, such as given labels or base logits; None is passed on as it is.
    device : str or torch.device
        Where the network lives.
    batch_size : int
        Rows of a batch.

    Returns
    -------
    ndarray of shape (n_samples, n_labels)
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
    beside: tuple[NDArray[Any] | None, ...],
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
            first = _filled(to_tensor(features, rows, device, n_tokens), batch_size, 0 if n_tokens is None else 1)
            others = [
                None if table is None else _filled(torch.from_numpy(table[rows]).to(device), batch_size, 0)
                for table in beside
            ]
            parts.append(predict(first, *others)[: len(rows)].cpu().numpy())
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
    """
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device == "auto":
        device = next(name for name in ("cuda", "mps", "cpu") if available[name])
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError):
        chosen = None
    if chosen is None or not available.get(chosen.type, False):
        at_hand = ", ".join(name for name, there in available.items() if there)
        raise ConfigError(f"device must be 'auto' or one at hand ({at_hand}); got {device!r}. Use auto.")
    return chosen


@contextmanager
def torch_threads(n_threads: int | None) -> Iterator[None]:
    """Use ``n_threads`` inside the block and give the old number back after it; None leaves it alone.

    Raises
    ------
    ConfigError
        When the number is not 1 or more.
    """
    before = torch.get_num_threads()
    wanted = before if n_threads is None else require_count("n_threads", n_threads, most=MOST_THREADS)
    torch.set_num_threads(min(wanted, _most_threads))
    try:
        yield
    finally:
        torch.set_num_threads(min(before, _most_threads))


# What torch_threads may ask for; fewer while several predictions run at once.
_most_threads = MOST_THREADS


@contextmanager
def one_torch_thread_each() -> Iterator[None]:
    """Let torch use one thread inside the block, whatever a model asks for, so that predictions may run side by side.

    The number of threads belongs to the whole process. Two threads that each set it and give the old one back would
    otherwise get into each other's way, and leave behind what neither of them found.
    """
    global _most_threads
    with torch_threads(1):
        before, _most_threads = _most_threads, 1
        try:
            yield
        finally:
            _most_threads = before


@contextmanager
def owned_randomness(seed: int, stream: int, device: torch.device | None = None) -> Iterator[None]:
    """Draw from a stream of our own inside the block; the caller's generators are left as they were.

    Parameters
    ----------
    seed, stream : int
        Together they decide the numbers.
    device : torch.device, optional
        A GPU whose generator is used too.
    """
    gpu = device is not None and device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if gpu else [], enabled=True):
        number = int(np.random.SeedSequence([seed, stream]).generate_state(1, np.uint64)[0] >> 1)
        # torch.manual_seed would also reset every GPU of the caller.
        (torch.default_generator if device is None or device.type == "cpu" else torch).manual_seed(number)
        yield


def to_tensor(features: Matrix, rows: NDArray[np.intp], device: torch.device, n_tokens: int | None = None) -> Tensor:
    """Return some rows as a tensor; sparse ones are made dense, tokens padded with 0."""
    return as_tensor(features[rows], device, n_tokens)


def as_tensor(features: Matrix, device: torch.device, n_tokens: int | None = None) -> Tensor:
    """Return rows as a tensor; sparse ones are made dense, tokens padded with 0."""
    if isinstance(features, TokenRows):
        return torch.from_numpy(features.padded(n_tokens)).to(device)
    dense = features.toarray() if sparse.issparse(features) else features
    return torch.from_numpy(np.ascontiguousarray(dense)).to(device)


def _padded_length(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Length to which a row is padded for prediction: at most a quarter longer than it is, or 8."""
    step = np.maximum(8, 2 ** np.floor(np.log2(np.maximum(lengths, 1))).astype(np.int64) // 4)
    padded: NDArray[np.int64] = -(-lengths // step) * step
    return padded
