"""The commands ``hotvae benchmark`` and ``hotvae tune``: parse, call ``paper/`` of the checkout, print."""

import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

import hotvae
from hotvae.errors import ConfigError


def register(app: typer.Typer) -> None:
    """Add the commands to the command line.

    Parameters
    ----------
    app : typer.Typer
        Gets two commands.
    """
    app.command("benchmark")(_benchmark)
    app.command("tune")(_tune)


def _benchmark(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="tables (table-f1, table-ha), figure-layers, figure-depth, table-prior, ablation, communities; all.",
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
    results: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Folder of the results (paper/results of the checkout).")
    ] = None,
    docs: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Folder of the pages (docs of the checkout).")
    ] = None,
) -> None:
    """Repeat the paper's tables and figures: run cells that are missing, or write the pages."""
    _find_paper("hotvae benchmark")
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
    from paper.runner import Estimates, duration_words, parse_duration, plan, run

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
        with _stoppable("interrupted; the same command goes on with what is missing"):
            done = run(
                *(store, todo),
                jobs=jobs,
                budget=seconds,
                limit=longest,
                command=_without_folders(["hotvae", *(context.obj or [])]),
                say=lambda line: print(line, file=sys.stderr, flush=True),
            )
    finally:
        from paper.paired import update_pairs

        update_pairs(store)
    left = f", {done.n_left} left over by the budget" if done.n_left else ""
    print(f"{done.n_done} cells done, {done.n_failed} failed{left} in {duration_words(done.seconds)}: {store.folder}")
    if done.n_failed:
        raise typer.Exit(1)


def _find_paper(command: str) -> None:
    """Make ``paper`` importable: that of the checkout one stands in, or else of the one the package is read from."""
    for folder in (Path.cwd(), Path(hotvae.__file__).parents[2]):
        # Many a folder is called paper.
        if all((folder / "paper" / name).is_file() for name in ("experiments.py", "search.py", "published.toml")):
            if sys.path[0] != str(folder):
                sys.path.insert(0, str(folder))
            return
    raise ConfigError(
        f"{command} must be run in a source checkout of hotvae, which experiments are part of; "
        f"got {str(Path.cwd())!r}. Change to a checkout and run it there."
    )


@contextmanager
def _stoppable(words: str) -> Iterator[None]:
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


def _without_folders(arguments: list[str]) -> str:
    """Name files without their folders: results are published."""
    return shlex.join(Path(word).name if "/" in word or "\\" in word else word for word in arguments)


def _tune(
    context: typer.Context,
    data: Annotated[str, typer.Argument(metavar="DATA", help="Named data set; see: hotvae data list.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the best settings go: a .toml file.")],
    model: Annotated[
        str, typer.Option(metavar="KIND", help="Short name of a model (hotvae models).")
    ] = "hotvae_network",
    budget: Annotated[str, typer.Option(metavar="TIME", help="How long to search, such as 30m.")] = "30m",
    jobs: Annotated[int, typer.Option(metavar="N", help="Processes, each with one thread.")] = 1,
    metric: Annotated[
        str, typer.Option(help="What to make best on validation rows: macro_f1 or log_loss.")
    ] = "macro_f1",
    trials: Annotated[int | None, typer.Option(metavar="N", help="Stop after this many trials in all.")] = None,
    fold: Annotated[int, typer.Option(metavar="N", min=0, help="Which published split.")] = 0,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the search, the model and the rows.")] = 0,
    journal: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where trials are kept, to go on from; beside --out by default."),
    ] = None,
) -> None:
    """Search settings on the validation rows of a named set, and write the best ones as a preset."""
    _find_paper("hotvae tune")
    from paper.runner import parse_duration
    from paper.search import Search, search, write_preset

    task = Search(data=data, model=model, metric=metric, split=fold, seed=seed)
    kept = journal or out.with_suffix(".journal")
    with _stoppable(f"interrupted; the same command goes on from {kept}"):
        found = search(
            task,
            kept,
            budget=parse_duration(budget, "--budget"),
            jobs=jobs,
            n_trials=trials,
            say=lambda line: print(line, file=sys.stderr, flush=True),
        )
    write_preset(out, found, _without_folders(["hotvae", *(context.obj or [])]))
    print(f"{found.n_complete} trials finished, {found.n_pruned} pruned, {found.n_failed} failed")
    if found.last_error:
        print(f"why the last one failed: {found.last_error}")
    print(f"best {metric} on the validation rows: {found.value:.4f}")
    if found.value_again is not None:
        before = "" if found.preset_again is None else f"; the first trial, the preset: {found.preset_again:.4f}"
        print(f"on other validation rows, which chose among the best: {found.value_again:.4f}{before}")
    elif found.n_complete > 1:
        print("no time was left for a second look with other validation rows; a larger --budget would give it")
    for name, value in found.settings.items():
        print(f"{name:<22} {value}")
    print(f"wrote {out}")
