"""What the service bears."""

import os
from dataclasses import dataclass, field

from hotvae.config import require_count, require_number


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Limits:
    """What one request may ask for, and how many are worked on at once.

    Attributes
    ----------
    rows : int
        Rows of a request.
    columns : int
        Columns of its rows, beyond those that the model knows.
    cells : int
        Numbers of an answer: rows × labels, of draws also × draws.
    body : int
        Bytes of a request.
    body_seconds : float
        From the first byte of a request to its last.
    seconds : float
        From the last byte of a request to its answer, waiting in line included.
    workers : int
        Requests that are worked on at once, in a thread each; by default as many as there are cores.
    waiting : int
        Requests that wait in line for them.
    connections : int
        Open connections.
    """

    rows: int = 1_000
    columns: int = 1_000
    cells: int = 1_000_000
    body: int = 4 << 20
    body_seconds: float = 10.0
    seconds: float = 30.0
    workers: int = field(default_factory=_cores)
    waiting: int = 32
    connections: int = 256

    def __post_init__(self) -> None:
        for name in ("rows", "cells", "body", "workers", "connections"):
            require_count(name, getattr(self, name))
        for name in ("columns", "waiting"):
            require_count(name, getattr(self, name), least=0)
        for name in ("body_seconds", "seconds"):
            require_number(name, getattr(self, name), above=True)
