"""Progress of a training run: a bar in a terminal, plain lines elsewhere, or nothing; or told to a watcher."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Literal, Protocol, Self, get_args

from hotvae.errors import ConfigError, listed

Style = Literal["auto", "bar", "lines", "silent"]


class Progress(Protocol):
    """What the training loop tells its watcher."""

    def __enter__(self) -> Self:
        """Begin to show."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""
        ...

    def start(self, n_epochs: int, done: list[dict[str, Any]]) -> None:
        """Take note that training begins, and of the epochs done before a resume."""
        ...

    def epoch(self, record: dict[str, Any]) -> None:
        """Take note of an epoch that has ended."""
        ...

    def end(self, words: str) -> None:
        """Take note that training has ended, and why."""
        ...


class Silent:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def start(self, n_epochs: int, done: list[dict[str, Any]]) -> None:
        """Do nothing."""

    def epoch(self, record: dict[str, Any]) -> None:
        """Do nothing."""

    def end(self, words: str) -> None:
        """Do nothing."""


class Lines(Silent):
    """One line for about every tenth of the run, on standard error."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.n_epochs = 1

    def start(self, n_epochs: int, done: list[dict[str, Any]]) -> None:
        """Remember the length of the run and say if it is resumed."""
        self.n_epochs = n_epochs
        if done:
            print(f"{self.title}: resumed after epoch {len(done)}", file=sys.stderr, flush=True)

    def epoch(self, record: dict[str, Any]) -> None:
        """Print the record now and then."""
        every = max(1, self.n_epochs // 10)
        if record["epoch"] % every == 0 or record["epoch"] in (1, self.n_epochs):
            print(
                f"{self.title}: epoch {record['epoch']}/{self.n_epochs}  {summary(record)}",
                file=sys.stderr,
                flush=True,
            )

    def end(self, words: str) -> None:
        """Say why it ended."""
        print(f"{self.title}: {words}", file=sys.stderr, flush=True)


class Bar(Silent):
    """A bar with the time left, on standard error; it vanishes when training ends."""

    def __init__(self, title: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self.bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[summary]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self.task = self.bar.add_task(title, summary="", total=None)

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def start(self, n_epochs: int, done: list[dict[str, Any]]) -> None:
        """Set the length of the bar."""
        self.bar.update(self.task, total=n_epochs, completed=len(done))

    def epoch(self, record: dict[str, Any]) -> None:
        """Move the bar."""
        self.bar.update(self.task, completed=record["epoch"], summary=summary(record))

    def end(self, words: str) -> None:
        """Leave a line of why it ended where the bar was."""
        self.bar.console.print(f"{self.bar.tasks[self.task].description}: {words}", markup=False, highlight=False)


class OutOfTimeError(Exception):
    """The time that was set for a fit is over."""


class Clock(Silent):
    """Shows nothing, and ends a fit that is out of time; see :func:`watched`.

    Parameters
    ----------
    deadline : float
        Seconds of ``time.time()``.
    """

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline

    def epoch(self, record: dict[str, Any]) -> None:
        """End the fit when the time is over."""
        if time.time() > self.deadline:
            raise OutOfTimeError


_watcher: ContextVar[Progress | None] = ContextVar("watcher", default=None)


@contextmanager
def watched(watcher: Progress) -> Iterator[None]:
    """Let all training inside the block tell a watcher how it goes, whatever style its settings ask for.

    A search ends hopeless fits this way: an error that the watcher raises ends the fit.

    Parameters
    ----------
    watcher : Progress
        Is told of every epoch.
    """
    before = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(before)


def summary(record: dict[str, Any]) -> str:
    """Put the loss and the validation values of an epoch in a few words."""
    shown = {"loss": record["loss"]} | {
        key.replace("_", " ", 1): value for key, value in record.items() if key.startswith("validation_")
    }
    return "  ".join(f"{key} {value:.4f}" for key, value in shown.items())


def make_progress(style: Style, title: str) -> Progress:
    """Choose how progress is shown.

    Parameters
    ----------
    style : {"auto", "bar", "lines", "silent"}
        ``"auto"`` is a bar in a terminal and lines elsewhere.
    title : str
        What is being trained.

    Returns
    -------
    Progress
        Inside :func:`watched`, the watcher.

    Raises
    ------
    ConfigError
        For any other style.
    """
    if style not in get_args(Style):
        raise ConfigError(f"progress must be one of {listed(get_args(Style))}; got {style!r}. Choose one of them.")
    if (watcher := _watcher.get()) is not None:
        return watcher
    if style == "auto":
        style = "bar" if sys.stderr.isatty() else "lines"
    return {"bar": Bar, "lines": Lines}[style](title) if style != "silent" else Silent()


def peak_memory() -> float | None:
    """Return the most memory this process has held so far, in GB; None where the system does not tell.

    Examples
    --------
    >>> peak_memory() is None or peak_memory() > 0
    True
    """
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9, 3)
