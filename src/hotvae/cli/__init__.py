"""The command line: parses, calls the library, prints.

Everything heavy is imported inside the commands, so that ``hotvae --help`` answers at once.
"""

import json
import math
import os
import shlex
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from hotvae.cli.benchmark import register
from hotvae.cli.data import Json
from hotvae.cli.data import register as register_data
from hotvae.cli.explain import register as register_explain
from hotvae.config import find_recipe
from hotvae.errors import ConfigError, DataWarning, HotVAEError, listed
from hotvae.jobs.settings import ALIASES, parse_assignments, read_preset, read_settings, train_settings

# UsageError and what stands above it; typer brings its own copy of click or click itself, version by version.
_UsageProblem: type[Exception] = typer.BadParameter.__mro__[2]
_FILE_PROBLEMS = (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError)
_PARQUET = (".parquet", ".pq")
_OUT_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".pq")

app = typer.Typer(
    name="hotvae",
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,  # plain help: the pretty one takes longer to import than all the rest
    help="Predict which labels go together: train on a table, predict, evaluate.",
)

Encoding = Annotated[str, typer.Option(help="Encoding of text files.")]
Decimal = Annotated[str, typer.Option(help="Decimal mark of text files.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there.")]
IgnoreUnknown = Annotated[bool, typer.Option("--ignore-unknown", help="Pass over columns that training did not know.")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a trained model.")]
Table = Annotated[Path, typer.Argument(metavar="TABLE", help="CSV, TSV, Parquet, ARFF or npz; text files also as .gz.")]
IdColumn = Annotated[str | None, typer.Option(help="Column of row ids; by default the one of training.")]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; by default those of the process.

    Returns
    -------
    int
        0, or 2 for a mistake of the user, which is explained in one line on standard error.

    Examples
    --------
    >>> main(["info", "--help"])
    <BLANKLINE>
    ...
    0
    """
    # Before torch is loaded: threads that spin for long while they wait starve each other on a shared machine
    # (measured on 2 busy cores: 30 s an epoch instead of 3); a short spin keeps the gain on an idle one.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        with _one_line_warnings():
            command = typer.main.get_command(app)
            code = command.main(args=arguments, prog_name="hotvae", standalone_mode=False, obj=arguments)
    except _UsageProblem as problem:
        return _fail(problem.format_message())  # type: ignore[attr-defined]  # every click exception has it
    except HotVAEError as error:
        return _fail(str(error))
    except _FILE_PROBLEMS as error:
        return _fail(f"{error.strerror}: {error.filename}" if error.filename else str(error))
    return code if isinstance(code, int) else 0


def _fail(message: str) -> int:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return 2


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    """Show each warning once, as one line."""
    shown: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        line = " ".join(str(message).split())
        if line not in shown:
            shown.add(line)
            print(f"warning: {line}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.filterwarnings("always", category=DataWarning)
        warnings.showwarning = show
        yield


@app.callback(invoke_without_command=True)
def _hotvae(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as installed

        print(f"hotvae {installed('hotvae')}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


# --- demo ------------------------------------------------------------------------------------------------


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report, the model and the table.")] = Path("hotvae-demo"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the virtual region and of training.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 1,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    as_json: Json = False,
) -> None:
    """Draw a virtual region, train three models on it, compare them and write a report."""
    from hotvae.jobs.demo import comparison, demo_table, next_steps, run_demo

    result = run_demo(out, seed=seed, progress="silent" if quiet else "auto", n_threads=threads)
    rows = demo_table(result)
    if as_json:
        names = {"report": "report.html", "model": "model", "region": "region.csv", "test": "test_sites.csv"}
        files = {what: str(result.out / name) for what, name in names.items()}
        _print_json({"seed": seed, "out": str(result.out), "table": rows} | files)
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


# --- train -----------------------------------------------------------------------------------------------


@app.command()
def train(
    context: typer.Context,
    table: Annotated[
        Path | None,
        typer.Argument(metavar="TABLE", help="CSV, TSV, Parquet, ARFF or npz; text files also as .gz."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Instead of a table: a named data set (hotvae data list), with its preset."),
    ] = None,
    fold: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Which published split of the named set (0).")
    ] = None,
    out: Annotated[str | None, typer.Option(metavar="MODEL", help="Folder for the model. Required.")] = None,
    labels: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Label columns: names or globs such as 'sp_*'; repeat, or use commas."),
    ] = None,
    label_table: Annotated[
        str | None, typer.Option(metavar="FILE", help="Second table with the labels, joined by --id-column.")
    ] = None,
    id_column: Annotated[str | None, typer.Option(metavar="NAME", help="Column of row ids; no feature.")] = None,
    coordinates: Annotated[
        str | None, typer.Option(metavar="X,Y", help="The two coordinate columns; no features.")
    ] = None,
    coordinates_as_features: Annotated[
        bool | None,
        typer.Option("--coordinates-as-features/--no-coordinates-as-features", help="Let them be features, too."),
    ] = None,
    groups: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column of rows that belong together; no feature.")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Columns to leave out: names or globs.")
    ] = None,
    presence: Annotated[
        bool | None,
        typer.Option("--presence/--no-presence", help="Labels are counts: take any above 0 as 1."),
    ] = None,
    validation: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Table of rows that choose the epoch and the thresholds."),
    ] = None,
    validation_fraction: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Instead, hold out this share of the rows (default 0.2)."),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="KIND", help="How: random, stratified (default), group (--groups), block (--coordinates)."
        ),
    ] = None,
    block_size: Annotated[
        float | None,
        typer.Option(metavar="SIDE", help="Side of the blocks; by default about 50 cover the region."),
    ] = None,
    graph: Annotated[
        str | None,
        typer.Option(
            metavar="GRAPH",
            help="Which labels may talk: complete (default), cooccurrence, edges.csv or tree.nwk.",
        ),
    ] = None,
    neighbours: Annotated[
        int | None,
        typer.Option(metavar="K", help="Of a tree: connect K nearest relatives (default 5)."),
    ] = None,
    max_distance: Annotated[
        float | None,
        typer.Option(metavar="D", help="Of a tree: connect relatives up to this distance instead."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="KIND", help="hotvae (default), plain, ... (hotvae models lists them).")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of hotvae: best (default), or paper, as the paper trains it.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="The same seed gives the same model (0).")
    ] = None,
    epochs: Annotated[int | None, typer.Option(metavar="N", help="Most passes over the rows.")] = None,
    dim: Annotated[int | None, typer.Option(metavar="N", help="Width of label embeddings.")] = None,
    layers: Annotated[int | None, typer.Option(metavar="N", help="Rounds of messages between labels.")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any other parameter of HotVAEClassifier; repeat."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="TOML or YAML file of these names; the command line wins."),
    ] = None,
    encoding: Annotated[str | None, typer.Option(help="Encoding of text files (utf-8).")] = None,
    decimal: Annotated[str | None, typer.Option(help="Decimal mark of text files (.).")] = None,
    drop_single_class: Annotated[
        bool | None,
        typer.Option(
            "--drop-single-class/--keep-single-class", help="Leave out labels that are always or never there."
        ),
    ] = None,
    device: Annotated[str | None, typer.Option(help="auto (default), cpu, cuda or mps.")] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="CPU threads (1).")] = None,
    resume: Annotated[
        bool | None,
        typer.Option("--resume/--no-resume", help="Go on with an interrupted run (default), or start afresh."),
    ] = None,
    quiet: Annotated[bool | None, typer.Option("--quiet/--progress", help="Show no progress.")] = None,
    as_json: Annotated[
        bool | None,
        typer.Option("--json/--text", help="Print one JSON object on standard output and nothing else."),
    ] = None,
) -> None:
    """Train a model on a table, or on a named data set, and save it as a folder."""
    given = {name: value for name, value in context.params.items() if value not in (None, [], ())}
    for name in ("table", "config", "assignments"):
        given.pop(name, None)
    given |= {name: _separated(given[name]) for name in ("labels", "drop") if name in given}
    if given.pop("as_json", None) is not None:
        given["json"] = as_json
    _train(table, given, assignments or [], config, context.obj)


def _separated(patterns: Sequence[str]) -> list[str]:
    """Split repeated values at commas; a single one is left to the reader, who knows names with commas."""
    if len(patterns) == 1:
        return list(patterns)
    return [part.strip() for pattern in patterns for part in pattern.split(",") if part.strip()]


def _train(
    table: Path | None, given: dict[str, Any], assignments: list[str], config: Path | None, arguments: list[str]
) -> None:
    from_file = {} if config is None else read_settings(config)
    assigned = parse_assignments(assignments)
    both = sorted(set(given) & set(assigned))
    if both:
        raise ConfigError(f"options must be set once; got {listed(both)} also by --set. Remove one.")
    told = from_file | given | assigned
    if (table is None) == (told.get("data") is None):
        found = "none" if table is None else "both"
        raise ConfigError(f"data must be a TABLE or --data NAME; got {found}. Try hotvae train my_table.csv --out m.")

    from hotvae.estimators.registry import find_classifier
    from hotvae.jobs.train import state_file, train_on_catalog, train_on_table

    model, recipe = told.get("model", "hotvae"), told.get("recipe", "best")
    if recipe != "best" and model != "hotvae":
        raise ConfigError(f"recipe must go with model hotvae; got {recipe!r} with {model!r}. Leave out --recipe.")
    parameters = find_classifier(model)().get_params(deep=False)
    preset = {} if table is not None else read_preset(str(told["data"]), parameters)
    settings = train_settings(
        parameters,
        (f"preset of {told.get('data')}", preset),
        (f"recipe {recipe}", find_recipe(recipe)),
        ("" if config is None else config.name, from_file),
        ("command line", given | assigned),
    )
    overruled = {ALIASES.get(name, name) for name in told} | set(find_recipe(recipe))
    words = ", ".join(f"{name}={value}" for name, value in preset.items() if name not in overruled)
    if words and not settings.quiet and not settings.json:
        print(f"preset of {settings.data}: {words}", file=sys.stderr)
    state = state_file(settings.out or "")
    if settings.out and settings.resume and state.exists():
        print(f"{state} is left of an interrupted run: going on (--no-resume starts afresh)", file=sys.stderr)
    command = _without_folders(["hotvae", *arguments])
    try:
        if table is None:
            run = train_on_catalog(settings, command=command)
        else:
            run = train_on_table(table, settings, command=command)
    except KeyboardInterrupt:
        kept = f"; the same command goes on from {state}" if state.exists() else ""
        print(f"interrupted{kept}", file=sys.stderr)
        raise typer.Exit(130) from None
    history = getattr(run.model, "history_", None)
    summary = {
        "model": settings.out,
        "kind": type(run.model).__name__,
        "table": settings.data if table is None else table.name,
        "n_train": run.n_train,
        "n_validation": run.n_validation,
        "split": run.split,
        "n_features": run.model.n_features_in_,
        "n_labels": run.model.n_labels_,
        "dropped_labels": run.dropped_labels,
        "best_epoch": None if history is None else history.best_epoch,
        "n_epochs": None if history is None else len(history.records),
        "stopped": None if history is None else history.stopped,
        "direct_epochs": getattr(run.model, "direct_epochs", 0),
        "resumed": run.resumed,
        "seconds": round(run.seconds, 3),
        "peak_memory_gb": _peak_memory(),
        "validation": run.validation,
        "test": run.test,
    }
    if settings.json:
        _print_json(summary)
    else:
        _print_training(summary, run.model.title, table)


def _peak_memory() -> float | None:
    """Return the most memory the process has held so far, in GB; None where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9, 3)


def _without_folders(arguments: Sequence[str]) -> str:
    """Name files without their folders: a model may travel further than its author's folders should."""

    def bare(argument: str) -> str:
        name, equals, value = argument.partition("=") if argument.startswith("--") else ("", "", argument)
        return name + equals + (Path(value).name if "/" in value or "\\" in value else value)

    return shlex.join(bare(argument) for argument in arguments)


# --- predict ---------------------------------------------------------------------------------------------


@app.command()
def predict(
    model_folder: Model,
    table: Table,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Probabilities: .csv, .tsv or .parquet.")],
    binary: Annotated[
        str | None,
        typer.Option(
            "--binary",
            "--labels-at",
            metavar="METRIC",
            help="Also write 0/1 labels at the threshold tuned for METRIC.",
        ),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(metavar="T", help="Instead, write 0/1 labels at this threshold.")
    ] = None,
    given: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Labels known beforehand, in columns named as in training: 1, 0, or empty for unknown. "
            "Joined by the id column where it has one, else row by row.",
        ),
    ] = None,
    ignore_unknown: IgnoreUnknown = False,
    id_column: IdColumn = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="CPU threads; by default as in training.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write the probability of every label for every row, alone or given that some labels are known."""
    binary_out = None
    if binary is not None or threshold is not None:
        name = out.name
        suffix = next((end for end in sorted(_OUT_SUFFIXES, key=len)[::-1] if name.lower().endswith(end)), "")
        binary_out = out.with_name(f"{name[: len(name) - len(suffix)]}_binary{name[len(name) - len(suffix) :]}")
    _check_out([path for path in (out, binary_out) if path is not None], force)

    from hotvae.data.frames import write_table
    from hotvae.estimators.registry import load_model
    from hotvae.estimators.thresholds import apply_thresholds
    from hotvae.jobs.predict import TableNeeds, find_threshold, predict_rows, predict_stream, prediction_table

    model = load_model(model_folder)
    if threads is not None:
        model.set_params(n_threads=threads)
    cut = find_threshold(model, binary, threshold)
    if given is None and table.suffix.lower() in _PARQUET and out.suffix.lower() in _PARQUET:
        with _row_progress() as told:
            n_rows = predict_stream(
                model,
                table,
                out,
                id_column=id_column,
                ignore_unknown=ignore_unknown,
                threshold=cut,
                binary_out=binary_out,
                progress=told,
            )
        ids_from = id_column or TableNeeds.of_model(model).id_column
        _print_prediction(out, binary_out, n_rows, model, cut, ids_from, None, as_json)
        return
    needs = TableNeeds.of_model(model)
    if given is not None and model.target_ != "labels":
        raise ConfigError(f"--given must go with a model of labels; got one of classes ({model_folder}). Leave it out.")
    features, ids = needs.read_features(
        table, id_column=id_column, ignore_unknown=ignore_unknown, encoding=encoding, decimal=decimal
    )
    known = None if given is None else needs.read_known(given, ids, encoding=encoding, decimal=decimal)
    probs = predict_rows(model, features, known)
    columns = model.label_names_ if model.target_ == "labels" else model.classes_
    write_table(prediction_table(ids, probs, columns), out)
    if cut is not None and binary_out is not None:
        write_table(prediction_table(ids, apply_thresholds(probs, cut).astype("int8"), columns), binary_out)
    counts = None
    if known is not None:
        is_known = known == known  # unknown is NaN
        counts = {"n_labels_known": int(is_known.sum()), "n_rows_told": int(is_known.any(axis=1).sum())}
    _print_prediction(out, binary_out, len(probs), model, cut, str(ids.name), counts, as_json)


@contextmanager
def _row_progress() -> Iterator[Callable[[int, int], None] | None]:
    """Show how many rows are done, on a terminal only."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = ("predicting", BarColumn(), TextColumn("{task.completed:,.0f} of {task.total:,.0f} rows"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("predicting", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _print_prediction(
    out: Path,
    binary_out: Path | None,
    n_rows: int,
    model: Any,
    cut: float | None,
    id_column: str | None,
    told: Mapping[str, int] | None,
    as_json: bool,
) -> None:
    n_labels = len(model.label_names_ if model.target_ == "labels" else model.classes_)
    written = [str(path) for path in (out, binary_out) if path is not None]
    if as_json:
        ids = id_column or "row"
        result = {"files": written, "n_rows": n_rows, "n_labels": n_labels, "id_column": ids, "threshold": cut}
        _print_json(result | ({} if told is None else {"given": dict(told)}))
        return
    print(f"wrote {n_rows} rows × {n_labels} labels to {written[0]}")
    if told is not None:
        print(f"given {told['n_labels_known']} known labels in {told['n_rows_told']} of {n_rows} rows")
    if len(written) > 1:
        print(f"wrote 0/1 labels at threshold {cut:g} to {written[1]}")


def _check_out(paths: Sequence[Path], force: bool) -> None:
    """Find a wrong place for results before hours of work, not after."""
    for path in paths:
        if not path.name.lower().endswith(_OUT_SUFFIXES):
            raise ConfigError(f"output must end in {', '.join(_OUT_SUFFIXES)}; got {path.name!r}. Rename it.")
        if not path.parent.is_dir():
            raise ConfigError(f"output folder must exist; got {str(path.parent)!r}. Make it, or choose another.")
        if path.exists() and not force:
            raise ConfigError(
                f"output must be a new file; got {str(path)!r}, which exists. Pass --force to replace it."
            )


# --- evaluate --------------------------------------------------------------------------------------------


@app.command()
def evaluate(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="Folder of a trained model; or a file of any model's predictions: a table with a column of "
            "probabilities per label, or npz with label_names, and probs (sites × labels) or draws "
            "(draws × sites × labels).",
        ),
    ],
    table: Table,
    label_table: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Second table with the labels, joined by the id column."),
    ] = None,
    id_column: IdColumn = None,
    presence: Annotated[
        bool, typer.Option("--presence", help="Labels are counts: take any above 0 as 1 (as in training).")
    ] = False,
    oracle: Annotated[
        bool, typer.Option("--oracle", help="Also show thresholds chosen on these very rows: an upper bound.")
    ] = False,
    per_label: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a table with one row per label.")
    ] = None,
    ecology: Annotated[
        str | None,
        typer.Option(
            metavar="DIALECT",
            help="Also the 12 ecological measures (20 numbers) as defined by gomes, norberg or text.",
        ),
    ] = None,
    draws: Annotated[int, typer.Option(metavar="N", min=2, help="Communities drawn for --ecology.")] = 100,
    pairs: Annotated[int, typer.Option(metavar="N", min=1, help="Pairs of sites compared for --ecology.")] = 300,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of these draws and pairs.")] = 0,
    ignore_unknown: IgnoreUnknown = False,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compare predictions with known labels, at the thresholds chosen in training."""
    if per_label is not None:
        _check_out([per_label], force)

    from hotvae.data.frames import write_table
    from hotvae.estimators.registry import load_model
    from hotvae.jobs.predict import TableNeeds, model_card, predict_rows, sample_rows
    from hotvae.jobs.scoring import (
        describe_scores,
        draw_independently,
        draws_jointly,
        is_prediction_file,
        read_observed,
        read_predictions,
        score_communities,
    )
    from hotvae.jobs.train import evaluate_model, label_report
    from hotvae.metrics.ecology import DIALECTS

    if ecology is not None and ecology not in DIALECTS:
        raise ConfigError(f"--ecology must be one of {listed(DIALECTS)}; got {ecology!r}. Take gomes for HOT-VAE's.")
    reading: dict[str, Any] = {"encoding": encoding, "decimal": decimal}
    drawn: Any = None
    if is_prediction_file(source):
        predictor: Any = read_predictions(source, id_column=id_column, **reading)
        labels, predictor = read_observed(
            predictor, table, label_table=label_table, id_column=id_column, presence=presence, **reading
        )
        probs, drawn, how = predictor.probs, predictor.draws, f"those of {source.name}"
        if drawn is None and ecology is not None:
            drawn = draw_independently(probs, draws, seed)
            how = f"each label by itself from the probabilities, as {source.name} holds no draws"
        same_name = False
    else:
        predictor = load_model(source)
        if predictor.target_ != "labels":
            raise ConfigError(f"model must predict labels; got one of classes ({source}). Score it from Python.")
        needs = TableNeeds.of_model(predictor)
        features, _ = needs.read_features(table, id_column=id_column, ignore_unknown=ignore_unknown, **reading)
        labels = needs.read_labels(table, label_table=label_table, id_column=id_column, presence=presence, **reading)
        probs = predict_rows(predictor, features)
        if ecology is not None:
            drawn = sample_rows(predictor, features, draws, seed)
        alone = "each label by itself, as this kind of model says nothing of labels together"
        how = "whole communities, from the model" if draws_jointly(predictor) else alone
        same_name = table.name == model_card(predictor).get("table")
    results = evaluate_model(predictor, labels, probs, oracle=oracle)
    communities = None
    if ecology is not None:
        scores = score_communities(labels, probs, drawn, dialect=ecology, n_pairs=pairs, seed=seed)
        communities = describe_scores(scores, drawn=how, seed=seed)
    if per_label is not None:
        write_table(label_report(predictor, labels, probs), per_label)
    cuts = "chosen on the validation rows of training" if predictor.thresholds_ else "0.5, as none were tuned"
    if as_json:
        _print_json(
            {
                "model": str(source),
                "table": table.name,
                "same_name_as_training_table": same_name,
                "thresholds_from": cuts,
                "metrics": results["honest"],
            }
            | ({"oracle": results["oracle"]} if oracle else {})
            | ({"ecology": communities} if communities is not None else {})
        )
        return
    honest = results["honest"]
    print(f"{table.name}: {honest['n_rows']} rows × {honest['n_labels']} labels; thresholds {cuts}")
    _print_measures(honest, results.get("oracle"))
    print(f"rows without any label in ebF1: empty={honest['empty']!r}")
    print(f"labels without AUC, for want of a class: {honest['n_labels_without_auc']} of {honest['n_labels']}")
    if oracle:
        print("oracle: thresholds chosen on these very rows, an upper bound that new data will not reach")
    if communities is not None:
        _print_communities(communities)
    if same_name:
        print("note: the training table had this name; a model looks better than it is on its training rows")
    if per_label is not None:
        print(f"wrote {per_label}")


def _print_communities(found: Mapping[str, Any]) -> None:
    """Print the ecological numbers, a level in each row."""
    from rich.console import Console
    from rich.table import Table as RichTable

    from hotvae.metrics.ecology import MEASURES

    grid = RichTable("level", box=None, pad_edge=False)
    aspects = list(dict.fromkeys(measure.aspect for measure in MEASURES.values()))
    better = {measure.aspect: "higher" if measure.greater_is_better else "lower" for measure in MEASURES.values()}
    for aspect in aspects:
        grid.add_column(f"{aspect}\n({better[aspect]} is better)", justify="right", no_wrap=True)
    rows: dict[str, list[str]] = {}
    for name, measure in MEASURES.items():
        level = measure.level + (f" ({measure.component})" if measure.component else "")
        value = found["measures"][name]["value"]
        rows.setdefault(level, []).append("-" if math.isnan(value) else f"{value:.4f}")
    for level, values in rows.items():
        grid.add_row(level, *values)
    print(f"\necological measures, dialect {found['dialect']!r} (comparable with {found['comparable_with']})")
    Console(width=None if sys.stdout.isatty() else 100).print(grid)
    print(f"{found['n_sites']} sites × {found['n_species']} species, {found['n_pairs']} pairs of sites")
    print(f"{found['n_draws']} draws: {found['draws']} (seed {found['seed']})")
    print("sor: dissimilarity of two sites; sim: its part by other species; sne: its part by fewer species")


# --- info ------------------------------------------------------------------------------------------------


@app.command()
def info(model_folder: Model, as_json: Json = False) -> None:
    """Show what a model is, how it was trained and on what."""
    from hotvae.checkpoint import load_folder
    from hotvae.estimators.network import MEMORY
    from hotvae.estimators.registry import load_model
    from hotvae.jobs.predict import TableNeeds, model_card

    stored, tensors = load_folder(model_folder)
    model = load_model(model_folder)
    history, card = getattr(model, "history_", None), model_card(model)
    needs, memory = TableNeeds.of_model(model), getattr(model, "memory_", None)
    result = {
        "model": str(model_folder),
        "kind": stored["kind"],
        "format_version": stored["format_version"],
        "hotvae_version": stored["hotvae_version"],
        "torch_version": stored["torch_version"],
        "n_parameters": sum(
            weights.numel()
            for name, weights in tensors.items()
            if weights.is_floating_point() and not name.startswith(MEMORY)
        ),
        "labels": [str(name) for name in model.label_names_],
        "features": dict(zip(needs.features, needs.kinds, strict=True)),
        "settings": stored["params"],
        "best_epoch": None if history is None else history.best_epoch,
        "n_epochs": None if history is None else len(history.records),
        "stopped": None if history is None else history.stopped,
        "thresholds": model.thresholds_,
        "memory": None if memory is None else {**stored["memory"], "n_rows": len(memory.places)},
        "training": card,
    }
    if as_json:
        _print_json(result)
        return
    shown = {
        "model": f"{model_folder} ({result['kind']}, {result['n_parameters']:,} parameters)",
        "written by": f"hotvae {result['hotvae_version']}, torch {result['torch_version']}",
        "trained": f"{card.get('date', 'unknown')} on {card.get('table', 'a table in memory')}",
        "command": card.get("command") or "none noted",
        "rows": f"{card.get('n_train', '?')} for training, {card.get('n_validation', '?')} for validation",
        "labels": f"{len(result['labels'])}: {listed(result['labels'], 8)}",
        "features": f"{len(result['features'])}: {listed(result['features'], 8)}",
        "best epoch": "no epochs"
        if history is None
        else _best_epoch(result, result["settings"].get("direct_epochs", 0)),
        "thresholds": ", ".join(f"{name} {value:g}" for name, value in model.thresholds_.items()) or "none tuned",
        "settings": ", ".join(f"{name}={value}" for name, value in stored["params"].items()),
    }
    if memory is not None:
        shown["remembers"] = (
            f"labels and latent places of {len(memory.places):,} training rows; "
            f"a row's {memory.n_neighbours} nearest have a share of {memory.share:g} in its prediction"
        )
    for name, value in shown.items():
        print(f"{name:<11} {value}")


# --- models ----------------------------------------------------------------------------------------------


@app.command()
def models(as_json: Json = False) -> None:
    """List the models that can be trained: what they are, what they take, what they cost."""
    from hotvae.estimators.registry import CLASSIFIERS

    cards = [
        {"name": name, "title": cls.title, "takes": cls.takes, "cost": cls.cost, "citation": cls.citation}
        for name, cls in CLASSIFIERS.items()
    ]
    if as_json:
        _print_json(cards)
        return
    width = max(len(card["name"]) for card in cards)
    for card in cards:
        print(f"{card['name']:<{width}}  {card['title']}")
        for what in ("takes", "cost", "citation"):
            print(f"{'':<{width}}  {what + ':':<9} {card[what]}")
    print("\nhotvae train my_table.csv --labels 'sp_*' --model NAME --out my_model")


# --- benchmark, tune and explain, which have files of their own -------------------------------------------

register(app)
register_data(app)
register_explain(app)


# --- printing --------------------------------------------------------------------------------------------


def _print_json(result: Any) -> None:
    from hotvae.jobs.train import json_ready

    print(json.dumps(json_ready(result), indent=1, ensure_ascii=False, allow_nan=False))


def _print_measures(result: Mapping[str, Any], oracle: Mapping[str, Any] | None = None) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable

    from hotvae.metrics import METRICS

    grid = RichTable("measure", box=None, pad_edge=False)
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


def _print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable

    def cell(title: str, value: Any) -> str:
        if value is None or isinstance(value, str):
            return value or "-"
        return f"{value:.1f}" if title == "seconds" else f"{value:.4f}" if title == "log loss" else f"{value:.3f}"

    grid = RichTable(box=None, pad_edge=False)
    for title in rows[0]:
        is_name = title == "model"
        grid.add_column(title, justify="left" if is_name else "right", no_wrap=not is_name)
    for row in rows:
        grid.add_row(*(cell(title, value) for title, value in row.items()))
    # A log file has no width of its own; the table is 90 columns wide.
    Console(width=None if sys.stdout.isatty() else 90).print(grid)


def _best_epoch(told: Mapping[str, Any], direct_epochs: int) -> str:
    """Name the epoch that was kept, and say so where its label decoder is silent."""
    silent = ", before labels pass messages" if told["best_epoch"] <= direct_epochs else ""
    return f"{told['best_epoch']} of {told['n_epochs']}{silent} (stopped: {told['stopped']})"


def _print_training(summary: Mapping[str, Any], title: str, table: Path | None) -> None:
    print(f"trained {title} on {summary['table']} in {summary['seconds']:.1f} s")
    print(f"rows        {summary['n_train']} + {summary['n_validation']} for validation ({summary['split']})")
    print(f"features    {summary['n_features']}")
    without = f" (left out: {listed(summary['dropped_labels'])})" if summary["dropped_labels"] else ""
    print(f"labels      {summary['n_labels']}{without}")
    if summary["best_epoch"] is not None:
        print(f"best epoch  {_best_epoch(summary, summary['direct_epochs'])}")
    if summary["peak_memory_gb"] is not None:
        print(f"memory      {summary['peak_memory_gb']:.2f} GB at most")
    if summary["test"] is not None:
        print("on the test rows, at the thresholds that the validation rows chose:")
        _print_measures(summary["test"])
    elif summary["validation"] is not None:
        print("on the validation rows, which also chose the thresholds:")
        _print_measures(summary["validation"])
    print(f"saved       {summary['model']}")
    if table is None:
        print(f"next        {shlex.join(['hotvae', 'info', summary['model']])}")
        return
    out = f"{Path(summary['model']).name}-predictions.csv"
    print(f"next        {shlex.join(['hotvae', 'predict', summary['model'], str(table), '--out', out])}")
