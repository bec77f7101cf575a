"""Several processes that train one network: who is who, and what they tell each other.

``torchrun`` or Ray starts the processes; torch's process group carries all messages. A training that is shared is one
inside :func:`shared`: everything outside of it, such as what the first process does while the others wait, is not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

# The first process finds the recipe while the others wait for it.
_PATIENCE = timedelta(days=7)


@dataclass(frozen=True)
class Ranks:
    """One of several processes.

    Attributes
    ----------
    rank : int
        Its number, from 0.
    size : int
        How many there are.

    Examples
    --------
    >>> Ranks().mine(4), Ranks(1, 3).mine(7)
    (array([0, 1, 2, 3]), array([1, 4]))
    """

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files and speaks."""
        return self.rank == 0

    def mine(self, n_rows: int) -> NDArray[np.intp]:
        """Return the rows that fall to this process, every n-th."""
        return np.arange(self.rank, n_rows, self.size)

    def sum(self, numbers: Tensor) -> Tensor:
        """Sum numbers over all processes, in place."""
        if self.size > 1:
            distributed.all_reduce(numbers)
        return numbers

    def joined(self, part: NDArray[np.floating], n_rows: int) -> NDArray[np.floating]:
        """Put the rows of all processes together, each having those of :meth:`mine`; a sum of zeros and one number."""
        if self.size == 1:
            return part
        whole = torch.zeros((n_rows, *part.shape[1:]), dtype=torch.from_numpy(part[:0]).dtype)
        whole[self.rank :: self.size] = torch.from_numpy(part)
        joined: NDArray[np.floating] = self.sum(whole).numpy()
        return joined

    def wait(self) -> None:
        """Wait until all processes have come here."""
        if self.size > 1:
            distributed.barrier()


ALONE = Ranks()
"""A process that shares its training with no other."""

_sharing: ContextVar[Ranks | None] = ContextVar("sharing", default=None)


def sharing() -> Ranks:
    """Return who shares the training in this block; a process alone where nobody does."""
    return _sharing.get() or ALONE


@contextmanager
def shared(ranks: Ranks) -> Iterator[None]:
    """Let all training inside the block be shared: every process must come here, with the same settings."""
    before = _sharing.set(ranks)
    try:
        yield
    finally:
        _sharing.reset(before)


def joined_ranks() -> Ranks:
    """Return who this process is in the group it has joined; alone without a group."""
    if not distributed.is_available() or not distributed.is_initialized():
        return ALONE
    return Ranks(distributed.get_rank(), distributed.get_world_size())


@contextmanager
def torchrun_group() -> Iterator[Ranks]:
    """Join the others where ``torchrun`` has started this process beside them; alone elsewhere, or in a group already.

    Examples
    --------
    >>> with torchrun_group() as ranks:
    ...     ranks.size
    1
    """
    started_by_torchrun = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= set(os.environ)
    if not started_by_torchrun or joined_ranks().size > 1:
        yield joined_ranks()
        return
    store, rank, size = next(rendezvous("env://", timeout=_PATIENCE))
    # Processes that are started again share the store of those before them, whose addresses lead nowhere.
    store = PrefixStore(f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", store)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=_PATIENCE)
    try:
        yield joined_ranks()
    finally:
        distributed.destroy_process_group()
