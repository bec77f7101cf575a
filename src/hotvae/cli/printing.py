"""What several commands print: JSON, a table of measures, the epoch that was kept, words when they are stopped."""

import json
import math
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer


def print_json(result: Any) -> None:
    """Print one JSON object; NaN becomes null."""
    from hotvae.checkpoint import json_ready

    print(json.dumps(json_ready(result), indent=1, ensure_ascii=False, allow_nan=False))


def print_measures(result: Mapping[str, Any], oracle: Mapping[str, Any] | None = None) -> None:
    """Print all measures with their thresholds, a line each; those of the oracle beside them."""
    from rich.console import Console
    from rich.table import Table

    from hotvae.metrics import METRICS

    grid = Table("measure", box=None, pad_edge=False)
    for heading in ("value", "threshold", *(("oracle", "oracle threshold") if oracle else ())):
        grid.add_column(heading, justify="right")
    for name, metric in METRICS.items():
        cells = []
        for source in (result, oracle) if oracle else (result,):
            cut = source["thresholds"].get(name)
            cells += [
                "-" if math.isnan(source[name]) else f"{source[name]:.4f}",
                "" if cut is None else f"{cut:g}",
            ]
        grid.add_row(metric.title, *cells)
    Console().print(grid)


def best_epoch(result: Mapping[str, Any]) -> str:
    """Name the epoch that was kept, and say what to do where it was the last one."""
    is_last = result["stopped"] == "max_epochs" and result["best_epoch"] == result["n_epochs"]
    remedy = ": it was still getting better, try more --epochs" if is_last else ""
    return f"{result['best_epoch']} of {result['n_epochs']} (stopped: {result['stopped']}{remedy})"


def without_folders(arguments: Sequence[str]) -> str:
    """Name files without their folders: a model may travel further than its author's folders should."""

    def bare(argument: str) -> str:
        name, equals, value = argument.partition("=") if argument.startswith("--") else ("", "", argument)
        mark = "@" if value.startswith("@") else ""  # a file of names
        return name + equals + (mark + Path(value[len(mark) :]).name if "/" in value or "\\" in value else value)

    return shlex.join(bare(argument) for argument in arguments)


@contextmanager
def stoppable(words: str) -> Iterator[None]:
    """Say some words when interrupted, and end; SIGTERM, by which schedulers end a job, ends the workers as well."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        print(words, file=sys.stderr)
        raise typer.Exit(130) from None
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def counted(things: str, silent: bool = False) -> Iterator[Callable[[int, int], None] | None]:
    """Show how many things are done: a bar on a terminal, else a line for each tenth."""
    if silent:
        yield None
        return
    if not sys.stderr.isatty():
        last = 0

        def tell(done: int, total: int) -> None:
            nonlocal last
            if done and (done == total or 10 * done // total > last):
                last = 10 * done // total
                print(f"{done:,} of {total:,} {things}", file=sys.stderr, flush=True)

        yield tell
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), TextColumn(f"{{task.completed:,.0f}} of {{task.total:,.0f}} {things}"))
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True))
    task = bar.add_task(things, total=None)

    def show(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total)
        bar.start()

    try:
        yield show
    finally:
        bar.stop()
