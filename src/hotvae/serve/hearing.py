"""Warnings about someone's rows go into the answer to that someone, whichever thread they arise in."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from hotvae.errors import DataWarning

_heard: ContextVar[dict[str, None] | None] = ContextVar("heard", default=None)


@contextmanager
def warnings_heard() -> Iterator[None]:
    """Hand warnings, inside the block, to the thread that listens; set once, since filters belong to the process."""
    with warnings.catch_warnings():
        warnings.filterwarnings("always", category=DataWarning)
        show = warnings.showwarning

        def hear(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            heard = _heard.get()
            if heard is None or not issubclass(category, DataWarning):
                show(message, category, *where, **more)
            else:
                heard[" ".join(str(message).split())] = None

        warnings.showwarning = hear
        yield


@contextmanager
def listening() -> Iterator[dict[str, None]]:
    """Collect the warnings of this thread inside the block, each once and in order."""
    heard: dict[str, None] = {}
    before = _heard.set(heard)
    try:
        yield heard
    finally:
        _heard.reset(before)
