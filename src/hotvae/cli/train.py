"""``hotvae train``: a model trained on a table or a named data set, saved as a folder."""

import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from hotvae.cli import options as opt
from hotvae.cli.printing import best_epoch, print_json, print_measures, without_folders
from hotvae.errors import ConfigError, listed
from hotvae.jobs.settings import TrainSettings, join_settings

if TYPE_CHECKING:
    from hotvae.data.tables import TableRoles
    from hotvae.jobs.train import TrainRun


def train(
    context: typer.Context,
    table: opt.TrainingTable = None,
    data: opt.NamedData = None,
    fold: opt.Fold = None,
    out: Annotated[str | None, typer.Option(metavar="MODEL", help="Folder for the model. Required.")] = None,
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
        str | None, typer.Option(metavar="KIND", help="hotvae (default), plain, ... (hotvae models lists them).")
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Of hotvae: auto (default) finds its own; network, with settings of your own; paper, as printed.",
        ),
    ] = None,
    effort: Annotated[
        str | None,
        typer.Option(metavar="HOW", help="How hard to try: quick, normal (default), thorough, or seconds of a core."),
    ] = None,
    seed: opt.Seed = None,
    epochs: Annotated[int | None, typer.Option(metavar="N", help="Of a network: most passes over the rows.")] = None,
    dim: Annotated[int | None, typer.Option(metavar="N", help="Of a network: width of label embeddings.")] = None,
    layers: Annotated[
        int | None, typer.Option(metavar="N", help="Of a network: rounds of messages between labels.")
    ] = None,
    assignments: opt.Assignments = None,
    config: opt.Config = None,
    encoding: opt.TrainingEncoding = None,
    decimal: opt.TrainingDecimal = None,
    drop_single_class: opt.DropSingleClass = None,
    device: Annotated[str | None, typer.Option(help="auto (default), cpu, cuda or mps.")] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="CPU threads (1).")] = None,
    stream: Annotated[
        bool | None,
        typer.Option("--stream/--whole", help="Read a Parquet table a piece at a time: it may be larger than memory."),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=100, help="With --stream: rows that decide all but the networks' weights (50000)."
        ),
    ] = None,
    ray: opt.Ray = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="With --ray: processes that share a network's training.")
    ] = None,
    resume: Annotated[
        bool | None,
        typer.Option("--resume/--no-resume", help="Go on with an interrupted run (default), or start afresh."),
    ] = None,
    force: Annotated[
        bool | None, typer.Option("--force/--no-force", help="Replace a model of another table or kind.")
    ] = None,
    quiet: Annotated[bool | None, typer.Option("--quiet/--progress", help="Show no progress.")] = None,
    as_json: Annotated[
        bool | None,
        typer.Option("--json/--text", help="Print one JSON object on standard output and nothing else."),
    ] = None,
) -> None:
    """Train a model on a table, or on a named data set, and save it as a folder."""
    options = opt.given_options(context.params)
    for name in ("ray", "workers"):
        options.pop(name, None)
    if workers is not None and ray is None:
        raise ConfigError("--workers must go with --ray; got it alone. Name both, or use torchrun.")
    if options.pop("as_json", None) is not None:
        options["json"] = as_json
    settings = join_settings(table, options, assignments or [], config)

    from hotvae.jobs import train as job
    from hotvae.training.ranks import torchrun_group

    state = job.state_file(job.checked_out(settings.out))
    if settings.resume and state.exists():
        print(f"{state} is left of an interrupted run: going on (--no-resume starts afresh)", file=sys.stderr)
    command = without_folders(["hotvae", *context.obj])
    try:
        told: list[TableRoles] = []
        with torchrun_group() as ranks:
            silent = settings.quiet or settings.json or not ranks.is_first
            run = _job(settings, ray, workers)(
                settings, table, command=command, tell=lambda roles: _take_roles(roles, told, silent), ranks=ranks
            )
        if not ranks.is_first:
            return
    except KeyboardInterrupt:
        kept = f"; the same command goes on from {state}" if state.exists() else ""
        print(f"interrupted{kept}", file=sys.stderr)
        raise typer.Exit(130) from None
    summary = _summary(run, settings, table) | {"roles": {} if not told else asdict(told[0])}
    if settings.json:
        print_json(summary)
    else:
        is_long = bool(told) and told[0].is_long
        rows = table if not is_long else None if settings.sites is None else Path(settings.sites)
        _print_training(summary, run.model.title, rows)


def _job(settings: TrainSettings, ray: str | None, workers: int | None) -> "Callable[..., TrainRun]":
    """Return what trains: here, as one of several processes, or on a cluster."""
    from hotvae.jobs.stream import train_streamed
    from hotvae.jobs.train import new_model
    from hotvae.jobs.train import train as train_whole

    here = train_streamed if settings.stream else train_whole
    if ray is None:
        return here
    from hotvae.estimators.recipe import helped
    from hotvae.scale.cluster import cluster
    from hotvae.scale.tasks import fits_on_ray
    from hotvae.scale.training import train_on_ray

    def elsewhere(settings: TrainSettings, table: Path | None, *, command: str, **_: Any) -> "TrainRun":
        with cluster(ray):
            return train_on_ray(settings, table, cast(int, workers), command)

    def with_help(settings: TrainSettings, table: Path | None, **more: Any) -> "TrainRun":
        if not new_model(settings).holds_out_itself:
            raise ConfigError(
                "--ray without --workers must go with a model that finds its own recipe, whose fits are shared out; "
                f"got model {settings.model!r} with recipe {settings.recipe!r}. Name --workers, or leave --ray out."
            )
        with cluster(ray), helped(fits_on_ray):
            return here(settings, table, **more)

    return with_help if workers is None else elsewhere


def _take_roles(roles: "TableRoles", told: list["TableRoles"], silent: bool) -> None:
    """Keep what becomes of every column, and say it before anything is learned from them."""
    told.append(roles)
    for line in [] if silent else roles.lines():
        print(line, file=sys.stderr)


def _summary(run: "TrainRun", settings: TrainSettings, table: Path | None) -> dict[str, Any]:
    from hotvae.training.progress import peak_memory

    history, recipe = getattr(run.model, "history_", None), getattr(run.model, "recipe_", None)
    return {
        "model": settings.out,
        "kind": type(run.model).__name__,
        "table": settings.data if table is None else table.name,
        "n_train": run.n_train,
        "n_validation": run.n_validation,
        "split": run.split,
        "n_features": run.model.n_features_in_,
        "n_labels": run.model.n_labels_,
        "dropped_labels": run.dropped_labels,
        "recipe": None if recipe is None else recipe.lines(),
        "best_epoch": None if history is None else history.best_epoch,
        "n_epochs": None if history is None else len(history.records),
        "stopped": None if history is None else history.stopped,
        "resumed": run.resumed,
        "seconds": round(run.seconds, 3),
        "peak_memory_gb": peak_memory(),
        "validation": run.validation,
        "test": run.test,
    }


def _print_training(summary: Mapping[str, Any], title: str, table: Path | None) -> None:
    print(f"trained {title} on {summary['table']} in {summary['seconds']:.1f} s")
    beside = f" + {summary['n_validation']} for validation" if summary["n_validation"] else ""
    print(f"rows        {summary['n_train']}{beside} ({summary['split']})")
    print(f"features    {summary['n_features']}")
    without = f" (left out: {listed(summary['dropped_labels'])})" if summary["dropped_labels"] else ""
    print(f"labels      {summary['n_labels']}{without}")
    if summary["recipe"]:
        for line in summary["recipe"]:
            if line.startswith(("stack", "labels together", "rows")):
                print(f"recipe      {line}")  # all of it: hotvae info
    if summary["best_epoch"] is not None:
        print(f"best epoch  {best_epoch(summary)}")
    if summary["peak_memory_gb"] is not None:
        print(f"memory      {summary['peak_memory_gb']:.2f} GB at most")
    if summary["test"] is not None:
        print("on the test rows, at the thresholds that the validation rows chose:")
        print_measures(summary["test"])
    elif summary["validation"] is not None:
        rows = "rows held out" if summary["recipe"] else "the validation rows"
        print(f"on {rows}, which also chose the thresholds:")
        print_measures(summary["validation"])
    print(f"saved       {summary['model']}")
    print(f"next        {shlex.join(['hotvae', 'info', summary['model']])}")
    if table is not None:
        words = shlex.join(
            ["hotvae", "predict", summary["model"], f"new_rows{table.suffix}", "--out", "predictions.csv"]
        )
        print(f"then        {words}  (your new rows, with the features of {table.name})")
