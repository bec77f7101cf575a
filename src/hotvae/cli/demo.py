"""``hotvae demo``: a virtual region, three models compared on it, and a report."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from hotvae.cli.options import Json, Quiet
from hotvae.cli.printing import print_json
from hotvae.config import MOST_SEED


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report, the model and the table.")] = Path("hotvae-demo"),
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Seed of the virtual region and of training.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 1,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Draw a virtual region, train three models on it, compare them and write a report."""
    from hotvae.jobs.demo import comparison, demo_table, next_steps, run_demo

    result = run_demo(out, seed=seed, progress="silent" if quiet else "auto", n_threads=threads)
    rows = demo_table(result)
    if as_json:
        names = {"report": "report.html", "model": "model", "region": "region.csv", "test": "test_sites.csv"}
        files = {what: str(result.out / name) for what, name in names.items()}
        print_json({"seed": seed, "out": str(result.out), "table": rows} | files)
        return
    _print_rows(rows)
    print()
    print(*comparison(result), sep="\n")
    print(f"\nreport  {result.out / 'report.html'}  (opens in any browser)")
    print(f"model   {result.out / 'model'}")
    print(f"table   {result.out / 'region.csv'}, its test rows {result.out / 'test_sites.csv'}")
    print("\nWhat to type next:")
    if shutil.which("hotvae") is None:  # run from an environment that is not active, as `make demo` does
        print(f"source {shlex.quote(os.path.relpath(Path(sys.prefix) / 'bin' / 'activate'))}")
    print(next_steps(result.out))
    print("# and for a table of your own, with one column per label:")
    print("hotvae train my_table.csv --labels 'sp_*' --out my_model")


def _print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    def cell(title: str, value: Any) -> str:
        if value is None or isinstance(value, str):
            return value or "-"
        return f"{value:.1f}" if title == "seconds" else f"{value:.4f}" if title == "log loss" else f"{value:.3f}"

    grid = Table(box=None, pad_edge=False)
    for title in rows[0]:
        is_name = title == "model"
        grid.add_column(title, justify="left" if is_name else "right", no_wrap=not is_name)
    for row in rows:
        grid.add_row(*(cell(title, value) for title, value in row.items()))
    # A log file has no width of its own; the table is 90 columns wide.
    Console(width=None if sys.stdout.isatty() else 90).print(grid)
