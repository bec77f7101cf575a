"""The command line: parses, calls the library, prints.

Everything heavy is imported inside the commands, so that ``hotvae --help`` answers at once.
"""

import json
import math
import shlex
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hotvae.errors import ConfigError, DataError, DataWarning, HotVAEError, ModelError, TrainingError, listed
from hotvae.settings import TrainSettings, parse_assignments, read_settings, train_settings

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from hotvae.data.dataset import Dataset
    from hotvae.estimator import NetworkClassifier

# UsageError and what stands above it; typer brings its own copy of click or click itself, version by version.
_UsageProblem: type[Exception] = typer.BadParameter.__mro__[2]
_FILE_PROBLEMS = (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError)
_OUT_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".pq")
_TREE_SUFFIXES = (".nwk", ".newick", ".tree", ".tre")
_RELATIVES = 5

app = typer.Typer(
    name="hotvae",
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
    help="Predict which labels go together: train on a table, predict, evaluate.",
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")]
Encoding = Annotated[str, typer.Option(help="Encoding of text files.")]
Decimal = Annotated[str, typer.Option(help="Decimal mark of text files.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there.")]
IgnoreUnknown = Annotated[
    bool, typer.Option("--ignore-unknown", help="Pass over columns that training did not know.")
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a trained model.")]
Table = Annotated[
    Path, typer.Argument(metavar="TABLE", help="CSV, TSV, Parquet, ARFF or npz; text files also as .gz.")
]
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
    out: Annotated[Path, typer.Option(help="Folder for the report, the model and the table.")] = Path(
        "hotvae-demo"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the virtual region and of training.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    as_json: Json = False,
) -> None:
    """Draw a virtual region, train three models on it, compare them and write a report."""
    from hotvae.demo import demo_table, run_demo

    result = run_demo(out, seed=seed, progress="silent" if quiet else "auto", n_threads=threads)
    if as_json:
        _print_json(demo_table(result))


# --- train -----------------------------------------------------------------------------------------------


@app.command()
def train(
    context: typer.Context,
    table: Table,
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
        bool | None, typer.Option("--presence/--no-presence", help="Labels are counts: take any above 0 as 1.")
    ] = None,
    validation: Annotated[
        str | None, typer.Option(metavar="FILE", help="Table of rows that choose the epoch and the thresholds.")
    ] = None,
    validation_fraction: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Instead, hold out this share of the rows (default 0.2).")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="How: random, stratified (default), group (--groups), block (--coordinates)."),
    ] = None,
    block_size: Annotated[
        float | None, typer.Option(metavar="SIDE", help="Side of the blocks; by default about 50 cover the region.")
    ] = None,
    graph: Annotated[
        str | None,
        typer.Option(
            metavar="GRAPH", help="Which labels may talk: complete (default), cooccurrence, edges.csv or tree.nwk."
        ),
    ] = None,
    neighbours: Annotated[
        int | None, typer.Option(metavar="K", help=f"Of a tree: connect K nearest relatives (default {_RELATIVES}).")
    ] = None,
    max_distance: Annotated[
        float | None, typer.Option(metavar="D", help="Of a tree: connect relatives up to this distance instead.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="KIND", help="hotvae (default), or plain: no label decoder.")
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="The same seed gives the same model (0).")] = None,
    epochs: Annotated[int | None, typer.Option(metavar="N", help="Most passes over the rows.")] = None,
    dim: Annotated[int | None, typer.Option(metavar="N", help="Width of label embeddings.")] = None,
    layers: Annotated[int | None, typer.Option(metavar="N", help="Rounds of messages between labels.")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any other parameter of HotVAEClassifier; repeat."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TOML or YAML file of these names; the command line wins.")
    ] = None,
    encoding: Annotated[str | None, typer.Option(help="Encoding of text files (utf-8).")] = None,
    decimal: Annotated[str | None, typer.Option(help="Decimal mark of text files (.).")] = None,
    drop_single_class: Annotated[
        bool | None,
        typer.Option("--drop-single-class/--keep-single-class", help="Leave out labels that are always or never there."),
    ] = None,
    device: Annotated[str | None, typer.Option(help="auto (default), cpu, cuda or mps.")] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="CPU threads.")] = None,
    resume: Annotated[
        bool | None, typer.Option("--resume/--no-resume", help="Go on with an interrupted run (default), or start afresh.")
    ] = None,
    quiet: Annotated[bool | None, typer.Option("--quiet/--progress", help="Show no progress.")] = None,
    as_json: Annotated[
        bool | None, typer.Option("--json/--text", help="Print one JSON object on standard output and nothing else.")
    ] = None,
) -> None:
    """Train a model on a table and save it as a folder."""
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
    table: Path, given: dict[str, Any], assignments: list[str], config: Path | None, arguments: list[str]
) -> None:
    from_file = {} if config is None else read_settings(config)
    both = sorted(set(given) & set(assigned := parse_assignments(assignments)))
    if both:
        raise ConfigError(f"options must be set once; got {listed(both)} also by --set. Remove one.")

    from hotvae.checkpoint import check_replaceable
    from hotvae.estimator import HotVAEClassifier, PlainNetClassifier

    kind = given.get("model", assigned.get("model", from_file.get("model", "hotvae")))
    classifier: type[NetworkClassifier] = PlainNetClassifier if kind == "plain" else HotVAEClassifier
    settings = train_settings(
        classifier().get_params(deep=False),
        ("" if config is None else config.name, from_file),
        ("command line", given | assigned),
    )
    if settings.out is None:
        raise ConfigError("out must name the folder of the model; got none (command line). Pass --out MODEL.")
    if settings.model == "plain" and settings.graph != "complete":
        raise ConfigError(f"graph must be left out with --model plain; got {settings.graph!r}. It has no messages.")
    out = Path(settings.out)
    check_replaceable(out)

    data = _read_training_table(table, settings)
    parameters = {"random_state": 0} | settings.parameters
    model = classifier(**parameters)
    training, held_out, how = _training_rows(data, settings, model.validation_fraction, parameters["random_state"])
    training, held_out, dropped = _with_both_classes(training, held_out, settings.drop_single_class)
    if settings.validation is not None:
        held_out = _read_validation(training, settings)
    state = out.with_name(out.name + ".state")
    model.set_params(progress="silent" if settings.quiet else "auto", state_file=state)
    if settings.model == "hotvae":
        model.set_params(graph=_label_graph(settings, training.label_names))
    seconds, resumed = _fit(model, training, held_out, state, settings)

    measures = None
    if held_out is not None:
        measures = _measures(model, held_out.labels, model.predict_proba(_fit_features(held_out)))
    model.set_params(progress="silent", state_file=None)
    card = _card(table, settings, training, held_out, how, dropped) | {
        "command": _without_folders(["hotvae", *arguments]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "validation": _plain(measures),
    }
    model.save(out, extra=card)
    state.unlink(missing_ok=True)

    history = model.history_
    summary = {
        "model": str(out),
        "kind": type(model).__name__,
        "table": table.name,
        "n_train": training.n_samples,
        "n_validation": 0 if held_out is None else held_out.n_samples,
        "split": how,
        "n_features": training.n_features,
        "n_labels": training.n_labels,
        "dropped_labels": dropped,
        "best_epoch": history.best_epoch,
        "n_epochs": len(history.records),
        "stopped": history.stopped,
        "resumed": resumed,
        "seconds": round(seconds, 3),
        "validation": measures,
    }
    if settings.json:
        _print_json(summary)
        return
    _print_training(summary, model.title, table)


def _read_training_table(table: Path, settings: TrainSettings) -> "Dataset":
    from hotvae.data.tables import read_table

    return read_table(
        table,
        labels=_one_or_many(settings.labels) or None,
        label_table=settings.label_table,
        id_column=settings.id_column,
        coordinates=settings.coordinates,
        coordinates_as_features=settings.coordinates_as_features,
        groups=settings.groups,
        drop=_one_or_many(settings.drop),
        presence=settings.presence,
        encoding=settings.encoding,
        decimal=settings.decimal,
    )


def _one_or_many(patterns: tuple[str, ...]) -> str | list[str]:
    return patterns[0] if len(patterns) == 1 else list(patterns)


def _training_rows(
    data: "Dataset", settings: TrainSettings, fraction: Any, seed: Any
) -> "tuple[Dataset, Dataset | None, str]":
    """Rows to learn from, rows to choose by, and how they were chosen."""
    from hotvae.data.splits import split_dataset
    from hotvae.estimator import MIN_VALIDATION_ROWS

    if settings.validation is not None:
        return data, None, "file"
    if not 0 <= fraction < 1:
        raise ConfigError(
            f"validation_fraction must be at least 0 and below 1; got {fraction!r}. 0 trains on all rows."
        )
    n_held_out = int(fraction * data.n_samples)
    if n_held_out < MIN_VALIDATION_ROWS:
        if fraction > 0:
            warnings.warn(
                f"validation should have at least {MIN_VALIDATION_ROWS} rows; got {n_held_out} "
                f"({fraction:g} of {data.n_samples}). All rows train, the last epoch is kept and no thresholds "
                "are tuned. Add rows, or pass --validation FILE.",
                DataWarning,
                stacklevel=2,
            )
        return data, None, "none"
    parts = split_dataset(
        data,
        kind=settings.split,  # type: ignore[arg-type]  # train_settings has checked the word
        fractions=(1 - fraction, fraction, 0.0),
        random_state=seed,
        block_size=settings.block_size,
    )
    return data.take(parts.train), data.take(parts.validation), settings.split


def _with_both_classes(
    training: "Dataset", held_out: "Dataset | None", drop: bool
) -> "tuple[Dataset, Dataset | None, list[str]]":
    from hotvae.data.dataset import check_trainable, single_class_labels

    dropped = list(single_class_labels(training)) if drop else []
    if dropped:
        training = training.drop_labels(dropped)
        held_out = None if held_out is None else held_out.drop_labels(dropped)
    check_trainable(training)
    return training, held_out, dropped


def _label_graph(settings: TrainSettings, label_names: tuple[str, ...]) -> Any:
    from hotvae.graph import edge_list_graph, phylogeny_graph, read_edges

    path = Path(settings.graph)
    is_tree = path.suffix.lower() in _TREE_SUFFIXES
    if not is_tree and not (settings.neighbours is None and settings.max_distance is None):
        raise ConfigError(
            f"neighbours and max_distance must go with a tree; got graph {settings.graph!r}. Pass --graph tree.nwk."
        )
    if settings.graph in ("complete", "cooccurrence"):
        return settings.graph
    if is_tree:
        k = settings.neighbours
        if k is None and settings.max_distance is None:
            k = _RELATIVES
        return phylogeny_graph(path, label_names, n_neighbours=k, max_distance=settings.max_distance)
    if path.suffix.lower() == ".csv":
        return edge_list_graph(read_edges(path), label_names, source=path.name)
    raise ConfigError(
        "graph must be 'complete', 'cooccurrence', a .csv of edges or a tree "
        f"({', '.join(_TREE_SUFFIXES)}); got {settings.graph!r}. Choose one of them."
    )


def _fit(
    model: "NetworkClassifier",
    training: "Dataset",
    held_out: "Dataset | None",
    state: Path,
    settings: TrainSettings,
) -> tuple[float, bool]:
    """Train, or go on training; return the seconds it took and whether it was resumed."""
    if not settings.resume:
        state.unlink(missing_ok=True)
    resumed = state.exists()
    if resumed:
        print(f"resuming the run that {state} was left by (--no-resume starts afresh)", file=sys.stderr)
    if held_out is None:
        model.set_params(validation_fraction=0.0)
    started = time.perf_counter()
    try:
        model.fit(
            _fit_features(training),
            _fit_labels(training),
            validation=None if held_out is None else (_fit_features(held_out), _fit_labels(held_out)),
        )
    except KeyboardInterrupt:
        kept = f"; the same command goes on from {state}" if state.exists() else ""
        print(f"interrupted{kept}", file=sys.stderr)
        raise typer.Exit(130) from None
    except (TrainingError, ModelError) as error:
        if not resumed:
            raise
        raise ConfigError(f"{error} Or pass --no-resume to start afresh.") from error
    return time.perf_counter() - started, resumed


def _fit_features(data: "Dataset") -> Any:
    """Features with their names, where the classifier can keep them."""
    import numpy as np
    import pandas as pd

    if isinstance(data.features, np.ndarray):
        return pd.DataFrame(data.features, columns=list(data.feature_names))
    return data.features


def _fit_labels(data: "Dataset") -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(data.labels, columns=list(data.label_names))


def _card(
    table: Path,
    settings: TrainSettings,
    training: "Dataset",
    held_out: "Dataset | None",
    how: str,
    dropped: list[str],
) -> dict[str, Any]:
    """What predict and evaluate need to know of the training table, and what a reader wants to."""
    import numpy as np

    from hotvae.data.dataset import feature_kinds

    observed = ~np.isnan(training.labels)
    counts = observed.sum(axis=0)
    prevalence = np.where(observed, training.labels, 0).sum(axis=0) / np.maximum(counts, 1)
    return {
        "table": table.name,
        "label_table": None if settings.label_table is None else Path(settings.label_table).name,
        "label_patterns": list(settings.labels),
        "dropped_labels": dropped,
        "dropped_columns": [part.strip() for pattern in settings.drop for part in (pattern, *pattern.split(","))],
        "id_column": settings.id_column,
        "coordinates": None if training.coordinates is None else list(training.coordinate_names),
        "groups": settings.groups,
        "presence": settings.presence,
        "feature_names": list(training.feature_names),
        "feature_kinds": list(feature_kinds(training.features)),
        "n_train": training.n_samples,
        "n_validation": 0 if held_out is None else held_out.n_samples,
        "split": how,
        "prevalence": dict(zip(training.label_names, np.round(prevalence, 6).tolist(), strict=True)),
        "n_labels_not_observed": int((~observed).sum()),
    }


def _without_folders(arguments: Sequence[str]) -> str:
    """The command, with files by their names only: a model may travel further than its author's folders."""

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
            "--binary", "--labels-at", metavar="METRIC", help="Also write 0/1 labels at the threshold tuned for METRIC."
        ),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(metavar="T", help="Instead, write 0/1 labels at this threshold.")
    ] = None,
    ignore_unknown: IgnoreUnknown = False,
    id_column: IdColumn = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write the probability of every label for every row."""
    binary_out = None
    if binary is not None or threshold is not None:
        name = out.name
        suffix = next((end for end in sorted(_OUT_SUFFIXES, key=len)[::-1] if name.lower().endswith(end)), "")
        binary_out = out.with_name(f"{name[: len(name) - len(suffix)]}_binary{name[len(name) - len(suffix) :]}")
    _check_out([path for path in (out, binary_out) if path is not None], force)

    from hotvae.data.tables import write_table
    from hotvae.estimator import load_model
    from hotvae.thresholds import apply_thresholds

    model = load_model(model_folder)
    cut = _cut(model, binary, threshold)
    features, ids = _read_model_features(model, table, id_column, ignore_unknown, encoding, decimal)
    probs = model.predict_proba(features)
    columns = model.label_names_ if model.target_ == "labels" else model.classes_
    write_table(_with_ids(ids, probs, columns), out)
    written = [str(out)]
    if cut is not None and binary_out is not None:
        write_table(_with_ids(ids, apply_thresholds(probs, cut).astype("int8"), columns), binary_out)
        written.append(str(binary_out))
    if as_json:
        _print_json(
            {
                "files": written,
                "n_rows": len(probs),
                "n_labels": probs.shape[1],
                "id_column": ids.name,
                "threshold": cut,
            }
        )
        return
    print(f"wrote {len(probs)} rows × {probs.shape[1]} labels to {written[0]}")
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
            raise ConfigError(f"output must be a new file; got {str(path)!r}, which exists. Pass --force to replace it.")


def _cut(model: "NetworkClassifier", metric: str | None, threshold: float | None) -> float | None:
    from hotvae.metrics import find_metric

    if metric is not None and threshold is not None:
        raise ConfigError(f"--binary and --threshold must not be combined; got {metric!r} and {threshold}. Keep one.")
    if threshold is not None and not 0 <= threshold <= 1:
        raise ConfigError(f"threshold must be between 0 and 1; got {threshold}. Choose a probability.")
    if metric is None:
        return threshold
    name = find_metric(metric, needs="predictions").name
    if name not in model.thresholds_:
        raise ConfigError(
            f"model must have tuned thresholds for --binary {metric}; got one trained without validation rows. "
            "Pass --threshold 0.5, or train with validation rows."
        )
    return model.thresholds_[name]


def _with_ids(ids: "pd.Index[Any]", values: "NDArray[Any]", columns: "NDArray[Any]") -> "pd.DataFrame":
    import pandas as pd

    names = [str(column) for column in columns]
    first = str(ids.name)
    if first in names:
        raise DataError(f"id column must not be a label; got {first!r}. Choose another with --id-column.")
    table = pd.DataFrame(values, columns=names)
    table.insert(0, first, ids.to_numpy())
    return table


def _read_model_features(
    model: "NetworkClassifier",
    table: Path,
    id_column: str | None,
    ignore_unknown: bool,
    encoding: str,
    decimal: str,
    also_ignored: Sequence[str] = (),
) -> "tuple[Any, pd.Index[Any]]":
    """Read the columns a model needs, in its order and form, and the ids of the rows (or their numbers)."""
    import pandas as pd
    from scipy import sparse

    from hotvae.data.dataset import check_finite
    from hotvae.data.tables import align_columns, check_kinds, read_features, read_frame

    card = _extra(model)
    names, kinds = list(card.get("feature_names") or model.scaler_.feature_names_in), model.scaler_.kinds
    wanted_id = id_column or card.get("id_column")
    known = {
        *map(str, model.label_names_),
        *card.get("dropped_labels", []),
        *(card.get("coordinates") or []),
        *also_ignored,
        *[name for name in (wanted_id, card.get("id_column"), card.get("groups")) if name is not None],
    } - set(names)
    features: Any
    ids: pd.Index[Any] | None = None
    if table.suffix.lower() == ".npz":
        features = read_features(
            table, feature_names=names, kinds=kinds, ignore=known, ignore_unknown=ignore_unknown, id_column=wanted_id
        )
        if wanted_id is not None and isinstance(features, pd.DataFrame):
            ids = features.index
    else:
        categorical = [name for name, kind in zip(names, kinds, strict=True) if kind == "categorical"]
        text = [*categorical, *([] if wanted_id is None else [wanted_id])]
        frame = read_frame(table, encoding=encoding, decimal=decimal, text_columns=text)
        columns = [str(column) for column in frame.columns]
        if wanted_id in columns:
            ids = pd.Index(frame[wanted_id].astype("str"), name=wanted_id)
        elif id_column is not None:
            raise DataError(f"id column must be in the table; got {id_column!r} ({table.name}). Check the spelling.")
        known |= {name for name in columns for drop in card.get("dropped_columns", []) if fnmatchcase(name, drop)}
        features = align_columns(frame, names, ignore=known, ignore_unknown=ignore_unknown)
        check_kinds(features, kinds)
    if ids is None:
        ids = pd.RangeIndex(int(features.shape[0]), name="row")
    if isinstance(features, pd.DataFrame) and model.scaler_.is_sparse:
        features = sparse.csr_array(features.astype(pd.SparseDtype("float64", 0.0)).sparse.to_coo())
    elif not isinstance(features, pd.DataFrame) and not model.scaler_.is_sparse:
        features = pd.DataFrame(features.toarray(), columns=names)
    check_finite(features, names)
    if isinstance(features, pd.DataFrame) and not hasattr(model, "feature_names_in_"):
        features = features.to_numpy()
    return features, ids


def _extra(model: "NetworkClassifier") -> dict[str, Any]:
    """What `hotvae train` noted; a model saved from Python may have noted less or nothing."""
    return dict(getattr(model, "extra_", None) or {})


# --- evaluate --------------------------------------------------------------------------------------------


@app.command()
def evaluate(
    model_folder: Model,
    table: Table,
    label_table: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Second table with the labels, joined by the id column.")
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
    ignore_unknown: IgnoreUnknown = False,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compare predictions with known labels, at the thresholds chosen in training."""
    if per_label is not None:
        _check_out([per_label], force)

    from hotvae.data.tables import write_table
    from hotvae.estimator import load_model
    from hotvae.thresholds import evaluate as evaluate_rows
    from hotvae.thresholds import tune_thresholds

    model = load_model(model_folder)
    if model.target_ != "labels":
        raise ConfigError(f"model must predict labels; got one of classes ({model_folder}). Score it from Python.")
    card = _extra(model)
    label_columns = _read_labels(
        model, table, label_table, id_column or card.get("id_column"), presence or bool(card.get("presence")), encoding, decimal
    )
    features, _ = _read_model_features(model, table, id_column, ignore_unknown, encoding, decimal)
    probs = model.predict_proba(features)
    honest = _measures(model, label_columns, probs)
    best = evaluate_rows(label_columns, probs, tune_thresholds(label_columns, probs)) if oracle else None
    if per_label is not None:
        write_table(_label_report(model, label_columns, probs), per_label)
    result = {
        "model": str(model_folder),
        "table": table.name,
        "same_name_as_training_table": table.name == card.get("table"),
        "thresholds_from": "validation rows of training" if model.thresholds_ else "0.5 for all: none were tuned",
        "metrics": honest,
    }
    if best is not None:
        result["oracle"] = best
    if as_json:
        _print_json(result)
        return
    print(f"{table.name}: {honest['n_rows']} rows × {honest['n_labels']} labels, thresholds: {result['thresholds_from']}")
    _print_measures(honest, best)
    print(f"ebF1 leaves out or counts rows without labels by the policy empty={honest['empty']!r}")
    print(f"labels without AUC (one class in these rows): {honest['n_labels_without_auc']} of {honest['n_labels']}")
    if best is not None:
        print("oracle: thresholds chosen on these very rows, an upper bound that no new data will reach")
    if result["same_name_as_training_table"]:
        print("note: the training table has the same name; on rows it was trained on a model looks better than it is")
    if per_label is not None:
        print(f"wrote {per_label}")


def _measures(model: "NetworkClassifier", labels: "NDArray[Any]", probs: "NDArray[Any]") -> dict[str, Any]:
    from hotvae.thresholds import evaluate

    return evaluate(labels, probs, model.thresholds_ or 0.5)


def _read_labels(
    model: "NetworkClassifier",
    table: Path,
    label_table: str | Path | None,
    id_column: str | None,
    presence: bool,
    encoding: str,
    decimal: str,
) -> "NDArray[np.float32]":
    """Read the labels of a model, in its order."""
    import numpy as np

    from hotvae.data.tables import dataset_from_frame, read_frame, read_table

    names = [str(name) for name in model.label_names_]
    if table.suffix.lower() == ".npz":
        data = read_table(table, labels=names, presence=presence)
    else:
        text = [] if id_column is None else [id_column]
        frame = read_frame(table, encoding=encoding, decimal=decimal, text_columns=text)
        label_frame = None
        if label_table is not None:
            label_frame = read_frame(label_table, encoding=encoding, decimal=decimal, text_columns=text)
        holder = frame if label_frame is None else label_frame
        missing = [name for name in names if name not in holder.columns]
        if missing:
            where = table.name if label_table is None else Path(label_table).name
            raise DataError(
                f"table must hold every label of the model; got none for {listed(missing)} ({where}). "
                "Add these columns (empty cells are not observed), or pass --label-table."
            )
        # Features are read by the rules of prediction; here they would only be in the way.
        kept = [name for name in frame.columns if name == id_column or (label_frame is None and name in names)]
        numbered = frame[kept].assign(**{"(row)": np.arange(len(frame))})
        joined_by = id_column if label_frame is not None or id_column in kept else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # about the row numbers of a single row
            data = dataset_from_frame(
                numbered, labels=names, label_frame=label_frame, id_column=joined_by, presence=presence
            )
    order = [data.label_names.index(name) for name in names]
    return np.asarray(data.labels[:, order], dtype=np.float32)


def _label_report(model: "NetworkClassifier", labels: "NDArray[Any]", probs: "NDArray[Any]") -> "pd.DataFrame":
    """One row per label: how often it occurs and how well it is predicted."""
    import numpy as np
    import pandas as pd

    from hotvae.metrics import brier_score, label_auc, label_average_precision, log_loss, macro_f1
    from hotvae.thresholds import apply_thresholds

    cut = model.thresholds_.get("macro_f1", 0.5)
    predicted = apply_thresholds(probs, cut)
    observed = ~np.isnan(labels)
    columns = [[i] for i in range(labels.shape[1])]
    seen = observed.any(axis=0)

    def each(measure: Any, given: Any) -> list[float]:
        return [measure(labels[:, i], given[:, i]) if seen[i[0]] else math.nan for i in columns]

    n_present = np.where(observed, labels, 0).sum(axis=0).astype(int)
    return pd.DataFrame(
        {
            "label": [str(name) for name in model.label_names_],
            "n_observed": observed.sum(axis=0),
            "n_present": n_present,
            "mean_probability": probs.mean(axis=0, dtype=np.float64),
            "auc": label_auc(labels, probs),
            "average_precision": label_average_precision(labels, probs),
            "log_loss": each(log_loss, probs),
            "brier_score": each(brier_score, probs),
            "threshold": cut,
            "f1": each(macro_f1, predicted),
        }
    )


# --- info ------------------------------------------------------------------------------------------------


@app.command()
def info(model_folder: Model, as_json: Json = False) -> None:
    """Show what a model is, how it was trained and on what."""
    from hotvae.checkpoint import load_folder
    from hotvae.estimator import load_model

    stored, _ = load_folder(model_folder)
    model = load_model(model_folder)
    history, card = model.history_, _extra(model)
    result = {
        "model": str(model_folder),
        "kind": stored["kind"],
        "format_version": stored["format_version"],
        "hotvae_version": stored["hotvae_version"],
        "torch_version": stored["torch_version"],
        "n_parameters": sum(weights.numel() for weights in model.network_.parameters()),
        "labels": [str(name) for name in model.label_names_],
        "features": dict(
            zip(card.get("feature_names") or model.scaler_.feature_names_in, model.scaler_.kinds, strict=True)
        ),
        "settings": stored["params"],
        "best_epoch": history.best_epoch,
        "n_epochs": len(history.records),
        "stopped": history.stopped,
        "thresholds": model.thresholds_,
        "training": card,
    }
    if as_json:
        _print_json(result)
        return
    shown = {
        "model": f"{model_folder} ({result['kind']}, {result['n_parameters']:,} parameters)",
        "written by": f"hotvae {result['hotvae_version']}, torch {result['torch_version']}",
        "trained": f"{card.get('date', 'unknown')} on {card.get('table', 'a table in memory')}",
        "command": card.get("command", "none: trained from Python"),
        "rows": f"{card.get('n_train', 'unknown')} for training, {card.get('n_validation', 'unknown')} for validation",
        "labels": f"{len(result['labels'])}: {listed(result['labels'], 8)}",
        "features": f"{len(result['features'])}: {listed(result['features'], 8)}",
        "best epoch": f"{history.best_epoch} of {len(history.records)} (stopped: {history.stopped})",
        "thresholds": ", ".join(f"{name} {value:g}" for name, value in model.thresholds_.items()) or "none tuned",
        "settings": ", ".join(f"{name}={value}" for name, value in stored["params"].items()),
    }
    for name, value in shown.items():
        print(f"{name:<11} {value}")


# --- printing --------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """Turn a result into what JSON knows: NaN and infinity become null."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # numpy, which is not imported here
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print_json(result: Any) -> None:
    print(json.dumps(_plain(result), indent=1, ensure_ascii=False, allow_nan=False))


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
            cells += ["-" if math.isnan(source[name]) else f"{source[name]:.4f}", "" if cut is None else f"{cut:g}"]
        grid.add_row(metric.title, *cells)
    Console().print(grid)


def _print_training(summary: Mapping[str, Any], title: str, table: Path) -> None:
    print(f"trained {title} on {summary['table']} in {summary['seconds']:.1f} s")
    print(f"rows        {summary['n_train']} for training, {summary['n_validation']} for validation ({summary['split']})")
    print(f"features    {summary['n_features']}")
    without = f" (left out: {listed(summary['dropped_labels'])})" if summary["dropped_labels"] else ""
    print(f"labels      {summary['n_labels']}{without}")
    print(f"best epoch  {summary['best_epoch']} of {summary['n_epochs']} (stopped: {summary['stopped']})")
    if summary["validation"] is not None:
        print("on the validation rows, which also chose the thresholds:")
        _print_measures(summary["validation"])
    print(f"saved       {summary['model']}")
    out = f"{Path(summary['model']).name}-predictions.csv"
    print(f"next        {shlex.join(['hotvae', 'predict', summary['model'], str(table), '--out', out])}")
