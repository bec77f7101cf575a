"""``hotvae benchmark``: parse, call ``paper/`` of the checkout, print."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

import hotvae
from hotvae.cli.options import Ray
from hotvae.cli.printing import stoppable, without_folders
from hotvae.errors import ConfigError


def benchmark(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="tables (table-f1, table-ha), communities; all.",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(metavar="N", help="Cells at a time, each with one thread.")] = 1,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Start no cell after this long, such as 2h or 45m.")
    ] = None,
    limit: Annotated[str, typer.Option(metavar="TIME", help="Longest time for one cell.")] = "1h",
    only: Annotated[
        str | None,
        typer.Option(metavar="WORDS", help="Models, sets, variants, seed=N, split=N, separated by commas."),
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Run again what failed or took too long.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run again what is done.")] = False,
    keep_old: Annotated[
        bool, typer.Option("--keep-old", help="Leave cells alone that were done with other settings.")
    ] = False,
    render: Annotated[
        bool, typer.Option("--render", help="Run nothing; write the pages from the stored results.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would run.")] = False,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="A version of seconds on invented data; needs --results.")
    ] = False,
    ray: Ray = None,
    results: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Folder of the results (paper/results of the checkout).")
    ] = None,
    docs: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Folder of the pages (docs of the checkout).")
    ] = None,
) -> None:
    """Repeat the paper's tables and figures: run cells that are missing, or write the pages."""
    _find_paper()
    from paper import DOCS, RESULTS
    from paper.experiments import find_experiments, select
    from paper.store import Store

    if smoke and results is None:
        raise ConfigError("--smoke must go with --results; got none. Its numbers mean nothing: keep them apart.")
    store = Store(results or RESULTS)
    if render:
        from paper.pages import write_pages

        for path in write_pages(store, docs or DOCS):
            print(f"wrote {path}")
        return
    if not names:
        raise ConfigError("experiment must be named; got none. Try hotvae benchmark tables, or --render.")
    from hotvae.jobs.durations import duration_words, parse_duration
    from hotvae.scale.cluster import cluster
    from paper.runner import Estimates, cell_on_ray, plan, run

    words = [word.strip() for word in (only or "").split(",") if word.strip()]
    seconds = None if budget is None else parse_duration(budget, "--budget")
    longest = parse_duration(limit, "--limit")
    cells = select((cell for experiment in find_experiments(names) for cell in experiment.cells(smoke)), words)
    todo = plan(store, cells, retry=retry, fresh=fresh, keep_old=keep_old)
    guess = Estimates(store).total([cell for cell, _ in todo.cells])
    facts = [f"{len(todo.cells)} cells to run", f"{todo.n_done} done"]
    facts += [f"{todo.n_failed} failed before (--retry runs them again)"] if todo.n_failed else []
    facts += [f"{todo.n_changed} done with other settings and run again (--keep-old)"] if todo.n_changed else []
    facts += [f"{len(todo.shared)} taken from another experiment"] if todo.shared else []
    facts += [f"about {duration_words(guess / jobs)}"] if guess and jobs > 0 else []
    print("; ".join(facts), file=sys.stderr, flush=True)
    if dry_run:
        for cell, _ in todo.cells:
            print(*cell.place)
        return
    try:
        with (
            stoppable("interrupted; the same command goes on with what is missing"),
            nullcontext() if ray is None else cluster(ray),
        ):
            done = run(
                *(store, todo),
                jobs=jobs,
                budget=seconds,
                limit=longest,
                start=None if ray is None else cell_on_ray,
                command=without_folders(["hotvae", *(context.obj or [])]),
                say=lambda line: print(line, file=sys.stderr, flush=True),
            )
    finally:
        from paper.paired import update_pairs

        update_pairs(store)
    left = f", {done.n_left} left over by the budget" if done.n_left else ""
    print(f"{done.n_done} cells done, {done.n_failed} failed{left} in {duration_words(done.seconds)}: {store.folder}")
    if done.n_failed:
        raise typer.Exit(1)


def _find_paper() -> None:
    """Make ``paper`` importable: that of the checkout one stands in, or else of the one the package is read from."""
    for folder in (Path.cwd(), Path(hotvae.__file__).parents[2]):
        # Many a folder is called paper.
        if all((folder / "paper" / name).is_file() for name in ("experiments.py", "cells.py", "published.toml")):
            if sys.path[0] != str(folder):
                sys.path.insert(0, str(folder))
            return
    raise ConfigError(
        "hotvae benchmark must be run in a source checkout of hotvae, which experiments are part of; "
        f"got {str(Path.cwd())!r}. Change to a checkout and run it there."
    )
