"""Each label for itself: the pieces shared by models that treat labels one by one.

Which rows a label was observed in, the rate it falls back to, rows of unit length, the choice between settings by
validation rows, and checks of parameters.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import ThreadpoolController

from hotvae.config import MOST_THREADS, require_count, require_number
from hotvae.errors import ConfigError
from hotvae.training.progress import Lines, Style, make_progress

Step = TypeVar("Step")


class LabelGroup(NamedTuple):
    """Labels that were observed in the same rows.

    Attributes
    ----------
    rows : ndarray of int
        The rows.
    labels : ndarray of int
        The columns of the label table.
    """

    rows: NDArray[np.intp]
    labels: NDArray[np.intp]


def label_rates(labels: NDArray[Any]) -> NDArray[np.float64]:
    """Rate of each label among its observed cells, half a row away from certainty.

    A label that never occurred is not impossible: with n observed cells its rate is 0.5 / (n + 1). A label that was
    never observed has the rate one half.

    Parameters
    ----------
    labels : ndarray of shape (n_samples, n_labels)
        0, 1 or NaN.

    Returns
    -------
    ndarray of shape (n_labels,)
    """
    observed = (~np.isnan(labels)).sum(axis=0)
    rates: NDArray[np.float64] = (np.nansum(labels, axis=0, dtype=np.float64) + 0.5) / (observed + 1)
    return rates


def label_groups(labels: NDArray[Any]) -> list[LabelGroup]:
    """Sort the labels that can be learned by the rows they were observed in.

    Labels of one class are left out: their models are constant. Without gaps there is one group, so that work that
    depends on the rows alone is done once for all labels.

    Parameters
    ----------
    labels : ndarray of shape (n_samples, n_labels)
        0, 1 or NaN.

    Returns
    -------
    list of LabelGroup
        In the order of each group's first label.
    """
    observed = ~np.isnan(labels)
    positives = np.nansum(labels, axis=0)
    members: dict[bytes, list[int]] = {}
    for label in np.flatnonzero((positives > 0) & (positives < observed.sum(axis=0))):
        members.setdefault(np.packbits(observed[:, label]).tobytes(), []).append(int(label))
    return [LabelGroup(np.flatnonzero(observed[:, own[0]]), np.array(own)) for own in members.values()]


def is_sparse(table: Any) -> bool:
    """Tell sparse tables from arrays."""
    return bool(sparse.issparse(table))


def dense(table: Any) -> NDArray[Any]:
    """Return a table as an array."""
    return np.asarray(table.toarray() if is_sparse(table) else table)


def unit_rows(features: Any, wanted: bool | None = None) -> Any:
    """Scale rows to length 1, as is customary for bags of words; rows of zeros stay.

    Parameters
    ----------
    features : ndarray or csr_array of shape (n_samples, n_features)
        Scaled features.
    wanted : bool or None
        None does so for sparse features only.

    Returns
    -------
    ndarray or csr_matrix
        Sparse rows come with 32-bit indices where they fit, which some of scikit-learn's models insist on.
    """
    if not is_sparse(features):
        if not wanted:
            return features
        lengths = np.sqrt(squared_lengths(features))
        return features / np.where(lengths > 0, lengths, 1)[:, None]
    data = features.data
    if wanted is None or wanted:
        lengths = np.sqrt(squared_lengths(features))
        data = data / np.repeat(np.where(lengths > 0, lengths, 1), np.diff(features.indptr))
    return with_short_indices(sparse.csr_matrix((data, features.indices, features.indptr), shape=features.shape))


def with_short_indices(matrix: Any) -> Any:
    """Return a CSR or CSC matrix with 32-bit indices where they fit: some of scikit-learn's models take no others."""
    kind = np.int32 if max(matrix.nnz, *matrix.shape) < np.iinfo(np.int32).max else np.int64
    matrix.indices, matrix.indptr = matrix.indices.astype(kind, copy=False), matrix.indptr.astype(kind, copy=False)
    return matrix


def squared_lengths(features: Any) -> NDArray[np.float64]:
    """Squared Euclidean length of each row, dense or sparse."""
    if is_sparse(features):
        return np.asarray(features.multiply(features).sum(axis=1), dtype=np.float64).ravel()
    lengths: NDArray[np.float64] = np.einsum("ij,ij->i", features, features)
    return lengths


class _StepLines(Lines):
    """One line for about every tenth of the steps, which are no epochs: settings that are tried, labels, learners."""

    def __init__(self, title: str, unit: str) -> None:
        super().__init__(title)
        self.unit = unit

    def epoch(self, record: dict[str, Any]) -> None:
        """Print the step now and then."""
        number, count = record["epoch"], self.n_epochs
        if number % max(1, count // 10) == 0 or number in (1, count):
            words = f"{self.title}: {self.unit} {number}/{count}  log loss {record['loss']:.4f}"
            print(words, file=sys.stderr, flush=True)


def watch(
    work: Callable[[Step], float], steps: Sequence[Step], style: Style, title: str, unit: str = "setting"
) -> list[float]:
    """Do one step after another and show the log loss each one reports.

    Parameters
    ----------
    work : callable
        Does a step and returns its loss.
    steps : sequence
        Settings, labels or learners.
    style : {"auto", "bar", "lines", "silent"}
        How progress is shown.
    title : str
        What is being trained.
    unit : str
        What a step is, in a word.

    Returns
    -------
    list of float
        The losses.
    """
    losses = []
    progress = make_progress(style, title)
    with _StepLines(title, unit) if isinstance(progress, Lines) else progress as shown:
        shown.start(len(steps), [])
        for number, step in enumerate(steps, 1):
            losses.append(float(work(step)))
            shown.epoch({"epoch": number, "loss": losses[-1]})
    return losses


def middle(candidates: Sequence[Step]) -> Step:
    """Return the setting that is taken when no validation rows can choose: the middle one."""
    return candidates[(len(candidates) - 1) // 2]


def limited_threads(n_threads: int | None) -> AbstractContextManager[Any]:
    """Let numpy, scipy and scikit-learn use at most so many threads inside the block; None leaves them alone."""
    if n_threads is None:
        return nullcontext()
    wanted = require_count("n_threads", n_threads, most=MOST_THREADS)
    limit: AbstractContextManager[Any] = _thread_pools().limit(limits=wanted)
    return limit


@lru_cache(maxsize=1)  # finding the libraries takes longer than many a fit
def _thread_pools() -> ThreadpoolController:
    return ThreadpoolController()


def require_candidates(name: str, values: Any) -> list[float]:
    """Return candidates for a setting: one or more numbers above 0."""
    if not isinstance(values, Sequence | np.ndarray) or isinstance(values, str) or not len(values):
        raise ConfigError(f"{name} must hold at least one number; got {values!r}. Give candidates such as (0.1, 1.0).")
    return [require_number(f"each of {name}", value, above=True) for value in values]
