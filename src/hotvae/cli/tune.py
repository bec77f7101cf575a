"""``hotvae tune``: search settings of one network or rival on a table or a named set, and write the best as a file."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hotvae.cli import options as opt
from hotvae.cli.printing import stoppable, without_folders
from hotvae.jobs.durations import parse_duration
from hotvae.jobs.settings import ALIASES, OPTIONS, TrainSettings, join_settings, parse_assignments, read_settings

if TYPE_CHECKING:
    from hotvae.jobs.tune import Found

# Options of training that say neither which rows nor how they are read.
_NOT_OF_ROWS = ("out", "model", "recipe", "resume", "quiet", "json")
_OWN = ("out", "budget", "trials", "jobs", "metric", "journal", "quiet", "ray")


def tune(
    context: typer.Context,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the best settings go: a .toml file.")],
    table: opt.TrainingTable = None,
    data: opt.NamedData = None,
    fold: opt.Fold = None,
    labels: opt.Labels = None,
    label_table: opt.TrainingLabelTable = None,
    long: opt.Long = None,
    sites: opt.Sites = None,
    join: opt.Join = None,
    sheet: opt.Sheet = None,
    id_column: opt.TrainingIdColumn = None,
    coordinates: opt.Coordinates = None,
    groups: opt.Groups = None,
    drop: opt.Drop = None,
    presence: opt.Counts = None,
    validation: opt.ValidationTable = None,
    validation_fraction: opt.ValidationFraction = None,
    split: opt.SplitKind = None,
    block_size: opt.BlockSize = None,
    graph: opt.Graph = None,
    neighbours: opt.Relatives = None,
    max_distance: opt.MaxDistance = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="HOT-VAE's network (default), or another model of hotvae models."),
    ] = None,
    metric: Annotated[
        str, typer.Option(metavar="NAME", help="What to make best on rows held out: log_loss or macro_f1.")
    ] = "log_loss",
    budget: Annotated[str, typer.Option(metavar="TIME", help="How long to search, such as 30m or 2h.")] = "30m",
    trials: Annotated[int | None, typer.Option(metavar="N", help="Stop after this many trials in all.")] = None,
    jobs: Annotated[int, typer.Option(metavar="K", help="Processes, each with one thread.")] = 1,
    journal: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where trials are kept, to go on from; beside --out by default."),
    ] = None,
    ray: opt.Ray = None,
    seed: opt.Seed = None,
    assignments: opt.Assignments = None,
    config: opt.Config = None,
    encoding: opt.TrainingEncoding = None,
    decimal: opt.TrainingDecimal = None,
    drop_single_class: opt.DropSingleClass = None,
    quiet: opt.Quiet = False,
) -> None:
    """Search settings on rows held out, and write the best ones. What --set says is held, --config says the start."""
    options = {name: value for name, value in opt.given_options(context.params).items() if name not in _OWN}
    settings = join_settings(table, options, assignments or [], config, default_recipe="network")
    seconds = parse_duration(budget, "--budget")

    from hotvae.jobs import tune as job

    job.check_settings_file(out)
    held = {ALIASES.get(name, name) for name in (*options, *parse_assignments(assignments or []))}
    kept = journal or out.with_suffix(".journal")

    def say(line: str) -> None:
        if not quiet:
            print(line, file=sys.stderr, flush=True)

    with stoppable(f"interrupted; the same command goes on from {kept}"):
        task = job.plan(settings, table, metric=metric, held=held)
        say(f"searching {len(task.space)} settings of {task.model}: {task.rows}")
        if ray is None:
            found = job.tune(task, kept, budget=seconds, jobs=jobs, n_trials=trials, say=say)
        else:
            from hotvae.scale.cluster import cluster
            from hotvae.scale.tasks import search_on_ray

            with cluster(ray):
                found = job.tune(task, kept, budget=seconds, jobs=jobs, n_trials=trials, say=say, start=search_on_ray)
    from_file = {} if config is None else read_settings(config)
    typed = {name: value for name, value in options.items() if name in OPTIONS and name not in _NOT_OF_ROWS}
    of_rows = [name for name in from_file if name in OPTIONS and name not in (*_NOT_OF_ROWS, *typed)]
    command = without_folders(["hotvae", *context.obj])
    job.write_settings(out, found, command, {name: from_file[name] for name in of_rows})
    _print_found(found, metric)
    print(f"wrote {out}")
    print(f"next  {_training(table, typed, settings, out)}")


def _print_found(found: "Found", metric: str) -> None:
    print(f"{found.n_complete} trials finished, {found.n_pruned} ended early, {found.n_failed} failed")
    if found.last_error:
        print(f"why the last one failed: {found.last_error}")

    def beside(value: float | None) -> str:
        return "" if value is None else f"; without a search {value:.4f}"

    words = metric.replace("_", " ").replace("f1", "F1")
    print(f"{words} on the validation rows: {found.value:.4f}{beside(found.start_value)}")
    if found.value_again is not None:
        print(
            f"on other validation rows, which chose among the best: {found.value_again:.4f}{beside(found.start_again)}"
        )
    elif found.n_complete > 1 and found.task.n_draws:
        print("no time was left for a second look with other validation rows; a larger --budget would give it")
    for name, value in found.settings.items():
        if value is not None:
            print(f"  {name:<22} {value}")


def _training(table: Path | None, typed: Mapping[str, Any], settings: TrainSettings, out: Path) -> str:
    """Say the command that trains with what was found."""
    words = ["hotvae", "train", *([] if table is None else [str(table)])]
    for name, value in typed.items():
        option = "--" + name.replace("_", "-")
        if value is False:
            words.append({"presence": "--no-presence", "drop_single_class": "--keep-single-class"}[name])
        elif value is True:
            words.append(option)
        else:
            for each in value if isinstance(value, list) else [value]:
                words += [f"{option}={each}"] if str(each).startswith("-") else [option, str(each)]
    words += ["--model", settings.model] if settings.recipe == "auto" else ["--recipe", settings.recipe]
    return shlex.join([*words, "--config", str(out), "--out", str(out.with_name(f"{out.stem}-model"))])
