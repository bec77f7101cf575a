"""Where the loop has its training rows from: memory, or a Parquet table that is larger than memory.

Each epoch shows every row once, in an order that the seed and the number of the epoch decide. Where several processes
share a training, each is given its part of every batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hotvae.data.parquet import ParquetTable, RowGroup
from hotvae.features.rows import Rows
from hotvae.features.tokens import TokenRows
from hotvae.training.ranks import ALONE, Ranks

# Numbers (rows x columns and labels) that wait to be mixed: 256 MB of them.
_WAITING_CELLS = 1 << 26
# Rows of a leg: after each the state is written, so that a run that is killed loses no more.
_LEG_ROWS = 1_000_000
# Fewer row groups than this for each process are cut, so that processes have about as many rows.
_GROUPS_EACH = 4


class Source(Protocol):
    """What the loop asks of its training rows."""

    @property
    def n_steps(self) -> int:
        """Batches of an epoch, the same in every process and epoch."""
        ...

    def batches(self, epoch: int) -> Iterator[Rows]:
        """Yield the batches of an epoch, or this process's part of them."""
        ...

    def arrays(self) -> list[NDArray[Any]]:
        """Return what tells these rows from others."""
        ...


@dataclass(frozen=True)
class InMemory:
    """Rows in memory.

    Attributes
    ----------
    rows : Rows
        All of them.
    batch_size : int
        Rows of a batch, those of all processes together.
    seed : int
        Decides the order.
    ranks : Ranks
        Who shares the training.
    """

    rows: Rows
    batch_size: int
    seed: int
    ranks: Ranks = ALONE

    @property
    def n_steps(self) -> int:
        """Batches of an epoch."""
        return max(1, math.ceil(len(self.rows) / self.batch_size))

    def batches(self, epoch: int) -> Iterator[Rows]:
        """Yield the batches of an epoch, or this process's part of them."""
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.rows))
        for index in self._cut(order, np.random.default_rng([self.seed, epoch, 1])):
            yield self.rows[index[self.ranks.rank :: self.ranks.size]]

    def _cut(self, order: NDArray[np.intp], random: np.random.Generator) -> list[NDArray[np.intp]]:
        """Cut the shuffled rows into batches; rows of tokens travel with rows of like length, which spares padding."""
        features, n_batches = self.rows.features, self.n_steps
        if not isinstance(features, TokenRows):
            return np.array_split(order, n_batches)
        windows = np.array_split(order, max(1, n_batches // 20))
        by_length = [window[np.argsort(features.lengths[window], kind="stable")] for window in windows]
        batches = np.array_split(np.concatenate(by_length), n_batches)
        return [batches[i] for i in random.permutation(n_batches)]

    def arrays(self) -> list[NDArray[Any]]:
        """Return what tells these rows from others."""
        tables = (self.rows.labels, self.rows.base_logits)
        return [*_arrays(self.rows.features), *(table for table in tables if table is not None)]


def _arrays(features: Any) -> list[NDArray[Any]]:
    if isinstance(features, TokenRows):
        return [features.tokens, features.starts]
    if isinstance(features, np.ndarray):
        return [features]
    return [features.data, features.indices, features.indptr]


@dataclass(frozen=True)
class Streamed:
    """Rows of a Parquet table, read anew in every pass.

    Row groups come in another order in each pass, and are dealt to the processes; rows wait in a buffer, from which a
    random half goes on whenever it is full, so that neighbours in the file are not neighbours in a batch. A pass is
    made in legs of about a million rows, which are the epochs of the loop.

    Attributes
    ----------
    table : ParquetTable
        Where rows come from.
    ready : callable
        Turns a piece of the table, and the number of its first row, into rows.
    batch_size : int
        Rows of a batch, those of all processes together.
    seed : int
        Decides the order.
    identity : str
        Tells what ``ready`` makes of the rows.
    ranks : Ranks
        Who shares the training.
    leg_rows : int
        Rows of a leg, about.
    """

    table: ParquetTable
    ready: Callable[[pd.DataFrame, int], Rows]
    batch_size: int
    seed: int
    identity: str = ""
    ranks: Ranks = ALONE
    leg_rows: int = _LEG_ROWS

    @property
    def n_legs(self) -> int:
        """Epochs of the loop that are one pass over the table."""
        return min(max(1, round(self.table.n_rows / self.leg_rows)), len(self._groups()))

    @property
    def n_steps(self) -> int:
        """Batches of a leg."""
        return max(1, math.ceil(self.table.n_rows / self.n_legs / self.batch_size))

    def batches(self, epoch: int) -> Iterator[Rows]:
        """Yield this process's part of the batches of a leg."""
        turn, leg = divmod(epoch - 1, self.n_legs)
        mine = self.dealt(turn, leg)[self.ranks.rank]
        random = np.random.default_rng([self.seed, epoch, self.ranks.rank, 1])
        ends = np.arange(1, self.n_steps + 1) * sum(group.n_rows for group in mine) // self.n_steps
        return _rebatched(_mixed(self._read(mine), random), np.diff(ends, prepend=0))

    def dealt(self, turn: int, leg: int) -> list[list[RowGroup]]:
        """Return the row groups of each process in a leg of a pass; each row group of a pass is dealt once."""
        groups = self._groups()
        order = np.random.default_rng([self.seed, turn]).permutation(len(groups))
        hands: list[list[RowGroup]] = [[] for _ in range(self.ranks.size)]
        held = [0] * self.ranks.size
        for number in np.array_split(order, self.n_legs)[leg]:
            fewest = held.index(min(held))
            hands[fewest].append(groups[number])
            held[fewest] += groups[number].n_rows
        return hands

    def _groups(self) -> list[RowGroup]:
        groups = self.table.row_groups
        n_cuts = math.ceil(_GROUPS_EACH * self.ranks.size / len(groups)) if self.ranks.size > 1 else 1
        return groups if n_cuts == 1 else [part for group in groups for part in group.cut(n_cuts)]

    def _read(self, groups: Iterable[RowGroup]) -> Iterator[Rows]:
        return (self.ready(frame, first) for group in groups for first, frame in self.table.frames(group))

    def arrays(self) -> list[NDArray[Any]]:
        """Return what tells these rows from others."""
        told = f"{self.table.identity()} {self.identity} {self.ranks.size} {self.leg_rows}"
        return [np.frombuffer(told.encode(), dtype=np.uint8)]

    def among(self, ranks: Ranks) -> Streamed:
        """Return the rows for one of several processes."""
        return replace(self, ranks=ranks)


def _mixed(chunks: Iterable[Rows], random: np.random.Generator) -> Iterator[Rows]:
    """Let rows wait, and let a random half of those that wait go on when there are many."""
    waiting: list[Rows] = []
    n_cells = 0
    for chunk in chunks:
        waiting.append(chunk)
        n_cells += len(chunk) * _width(chunk)
        if n_cells >= _WAITING_CELLS:
            goes, stays = _halved(waiting, random)
            waiting, n_cells = [stays], len(stays) * _width(stays)
            yield goes
    if waiting:
        rows = _stacked(waiting)
        yield rows[random.permutation(len(rows))]


def _halved(parts: list[Rows], random: np.random.Generator) -> tuple[Rows, Rows]:
    rows = _stacked(parts)
    order = random.permutation(len(rows))
    return rows[order[: len(order) // 2]], rows[order[len(order) // 2 :]]


def _rebatched(chunks: Iterator[Rows], sizes: NDArray[np.int64]) -> Iterator[Rows]:
    """Cut rows that come in chunks into batches of given sizes, which may be 0 but for the first."""
    rest = next(chunks)
    at = 0
    for size in sizes:
        parts = []
        while at + size > len(rest):
            parts.append(rest[np.arange(at, len(rest))])
            size, at, rest = size - (len(rest) - at), 0, next(chunks)
        yield _stacked([*parts, rest[np.arange(at, at + size)]])
        at += size


def _stacked(parts: list[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    return Rows(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("features", "labels")))


def _width(rows: Rows) -> int:
    return int(rows.features.shape[1]) + int(rows.observed().shape[1])
