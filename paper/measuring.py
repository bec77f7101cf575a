"""What the commands share that measure models on sets of the catalogue and write a page of it."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from hotvae.data.catalog import catalog_names, describe, find_file
from hotvae.errors import DataError
from hotvae.files import write_text
from hotvae.jobs.durations import parse_duration
from paper import RESULTS
from paper.experiments import Experiment
from paper.paired import Groups
from paper.runner import WORKER, Plan, run
from paper.store import Store
from paper.summaries import joined, plural, replace_marked

_LOW_PRIORITY = 5


def n_splits_of(name: str, most: int | None = None) -> int:
    """Count the splits of a set, at most ``most`` of them; a virtual region has one.

    Examples
    --------
    >>> n_splits_of("norberg_birds"), n_splits_of("norberg_birds", 2), n_splits_of("virtual-80-6")
    (3, 2, 1)
    """
    n_splits = describe(name).n_splits if name in catalog_names() else 1
    return n_splits if most is None else min(n_splits, most)


def places_of(names: Sequence[str], most: int | None = None) -> tuple[tuple[str, int], ...]:
    """Name the splits of some sets.

    Examples
    --------
    >>> places_of(["emotions"])
    (('emotions', 0),)
    """
    return tuple((name, split) for name in names for split in range(n_splits_of(name, most)))


def sets_here(names: Sequence[str]) -> list[str]:
    """Name the sets that are on this machine, and say which are not."""

    def is_here(name: str) -> bool:
        try:
            find_file(describe(name))
        except DataError:
            return False
        return True

    here = [name for name in names if is_here(name)]
    absent = [name for name in names if name not in here]
    if absent:
        print(f"not on this machine: {joined(absent)}")
    return here


def measured_sets(experiment: Experiment, groups: Groups) -> list[str]:
    """Name the sets of an experiment of which something is measured, in its order."""
    measured = {data for _, data, _ in groups}
    return [name for name in dict.fromkeys(data for data, _ in experiment.data) if name in measured]


def add_options(parser: argparse.ArgumentParser, page: str, limit: str) -> None:
    """Declare the options that every such command has."""
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--budget", help="such as 2h: no fit is started after it")
    parser.add_argument("--limit", default=limit, help="for one fit")
    parser.add_argument("--retry", action="store_true", help="also what failed or took too long before")
    parser.add_argument("--fresh", action="store_true", help="also what is done, such as after a model has changed")
    parser.add_argument("--quick", action="store_true", help="a virtual region; print the tables, keep nothing")
    parser.add_argument("--render", action="store_true", help=f"write the tables of docs/{page} and run nothing")
    parser.add_argument("--results", type=Path, default=RESULTS, help="another folder for the results")


def command_of(module: str, words: Sequence[str], folders: Sequence[Path | None]) -> str:
    """Write the command as results are published with it: without the folders of this machine.

    Examples
    --------
    >>> command_of("paper.joint", ["--seeds", "1", "--cache", "here"], [Path("here")])
    'python -m paper.joint --seeds 1'
    """
    left_out = {"--results", "--cache", *map(str, folders)}
    return shlex.join(["python", "-m", module, *(word for word in words if word not in left_out)])


def run_missing(
    store: Store, todo: Plan, options: argparse.Namespace, command: str, worker: Sequence[str] = WORKER
) -> None:
    """Run what is planned, at low priority, and say so."""
    os.nice(_LOW_PRIORITY)  # workers inherit it
    n_done = todo.n_done + len(todo.shared)
    print(f"{plural(len(todo.cells), 'fit')} to do, {n_done} done, {todo.n_failed} failed before")

    def say(line: str) -> None:
        print(line, flush=True)

    budget = None if options.budget is None else parse_duration(options.budget, "--budget")
    limit = parse_duration(options.limit, "--limit")
    run(store, todo, jobs=options.jobs, budget=budget, limit=limit, command=command, worker=worker, say=say)


def write_tables(page: Path, mark: str, text: str) -> None:
    """Put the tables between the marks of a page."""
    write_text(page, replace_marked(page.read_text(encoding="utf-8"), mark, f"\n{text}\n"))
