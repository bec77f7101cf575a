"""``hotvae demo``: real birds, three models compared on new blocks of the map, and a report."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hotvae.cli.options import Json, Quiet
from hotvae.cli.printing import print_json
from hotvae.config import MOST_SEED

if TYPE_CHECKING:
    from hotvae.jobs.demo import OneRoute

_BIRDS = (
    "123 breeding birds on 2,226 survey routes of North America, 2009 (US Geological Survey).",
    "Three models learn from some blocks of the map and are asked about others: one to two minutes.",
)
_DIGITS = {"seconds": 1, "joint": 1, "log loss": 4, "half known": 4, "in 90 %": 2, "before": 2, "after": 2}


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report, the model and the tables.")] = Path("hotvae-demo"),
    virtual: Annotated[
        bool, typer.Option("--virtual", help="A virtual region, whose truth is known, instead of real birds.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Seed of the models, and of the virtual region.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 1,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train three models on real birds, compare them on new blocks of the map, and write a report."""
    (_virtual if virtual else _birds)(out, seed, threads, quiet or as_json, as_json)


def _birds(out: Path, seed: int, threads: int, quiet: bool, as_json: bool) -> None:
    from hotvae.jobs.demo import LEGEND, comparison, next_steps, run_demo

    def show(words: str) -> None:
        if not quiet:
            print(f"-- {words} ...", file=sys.stderr, flush=True)

    if not quiet:
        print(*_BIRDS, sep="\n", file=sys.stderr)
    result = run_demo(out, seed=seed, n_threads=threads, quiet=quiet, tell=show)
    steps = next_steps(result)
    if as_json:
        pages = {name: str(out / f"{name}.html") for name in ("explorer", "report")}
        files = pages | {"model": str(out / "model"), "test": str(result.files.test)}
        commands = {"next": [command for _, command in steps]}
        print_json({"seed": seed, "out": str(out), "table": result.table} | files | commands)
        return
    _print_rows(result.table)
    print()
    print(*LEGEND, *comparison(result.gaps), sep="\n")
    _print_route(result.route)
    print(f"\nexplorer  {out / 'explorer.html'}  (tick what you saw, and the map answers; opens in any browser)")
    print(f"report    {out / 'report.html'}  (how good it is, what goes with what, what matters)")
    print(f"model     {out / 'model'}")
    print(f"tables    {result.files.train.parent}  (train.csv, validation.csv, test.csv)")
    _print_next(steps)


def _virtual(out: Path, seed: int, threads: int, quiet: bool, as_json: bool) -> None:
    from hotvae.jobs.demo import comparison
    from hotvae.jobs.virtual_demo import demo_table, next_steps, run_demo

    result = run_demo(out, seed=seed, progress="silent" if quiet else "auto", n_threads=threads)
    rows = demo_table(result)
    if as_json:
        names = {"report": "report.html", "model": "model", "region": "region.csv", "test": "test_sites.csv"}
        files = {what: str(result.out / name) for what, name in names.items()}
        print_json({"seed": seed, "out": str(result.out), "table": rows} | files)
        return
    _print_rows(rows)
    print()
    print(*comparison(result.gaps), sep="\n")
    print(f"\nreport  {result.out / 'report.html'}  (opens in any browser)")
    print(f"model   {result.out / 'model'}")
    print(f"table   {result.out / 'region.csv'}, its test rows {result.out / 'test_sites.csv'}")
    _print_next(next_steps(result.out))


def _print_route(route: "OneRoute") -> None:
    print(f"\nTell it what was seen: route {route.name}, {route.n_present} species there, {route.n_absent} not.")
    print("The others that moved most:")
    rows = [
        {"species": name, "before": before, "after": after, "found": "yes" if found else "no"}
        for name, before, after, found in route.moved
    ]
    _print_rows(rows)


def _print_next(steps: Sequence[tuple[str, str]]) -> None:
    print("\nWhat to type next:")
    if shutil.which("hotvae") is None:  # run from an environment that is not active, as `make demo` does
        print(f"source {shlex.quote(os.path.relpath(Path(sys.prefix) / 'bin' / 'activate'))}")
    for why, command in steps:
        print(f"# {why}\n{command}")


def _print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    def cell(title: str, value: Any) -> str:
        return value or "-" if value is None or isinstance(value, str) else f"{value:.{_DIGITS.get(title, 3)}f}"

    grid = Table(box=None, pad_edge=False)
    for place, title in enumerate(rows[0]):
        grid.add_column(title, justify="right" if place else "left", no_wrap=place > 0)
    for row in rows:
        grid.add_row(*(cell(title, value) for title, value in row.items()))
    # A log file has no width of its own; the table is 90 columns wide.
    Console(width=None if sys.stdout.isatty() else 90).print(grid)
