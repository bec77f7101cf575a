"""Whole jobs on tables in files: train and save, evaluate. What the command line calls.

A model saved by :func:`train` notes what its table looked like, so that later tables are read
alike: features by name and kind, in any order; labels, ids, coordinates, groups and dropped columns are
passed over.
"""

import filecmp
import math
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from hotvae.checkpoint import check_replaceable, json_ready, read_config, real_folder
from hotvae.config import MOST_SEED, require_seed, require_share
from hotvae.data.catalog import load
from hotvae.data.dataset import (
    Dataset,
    check_trainable,
    feature_kinds,
    single_class_labels,
)
from hotvae.data.long import AUTO
from hotvae.data.splits import other_validation_rows, split_dataset
from hotvae.data.tables import TableRoles, is_archive, read_with_roles
from hotvae.errors import ConfigError, DataWarning, ModelError, TrainingError
from hotvae.estimators.base import MIN_VALIDATION_ROWS, LabelClassifier, named_tables
from hotvae.estimators.registry import find_classifier
from hotvae.estimators.thresholds import apply_thresholds, evaluate, tune_thresholds
from hotvae.files import check_name, locked
from hotvae.graph import edge_list_graph, phylogeny_graph, read_edges
from hotvae.jobs.settings import TrainSettings, model_of_recipe
from hotvae.jobs.table_needs import TableNeeds
from hotvae.metrics import brier_score, label_auc, label_average_precision, log_loss, macro_f1
from hotvae.training.ranks import ALONE, Ranks, shared

TREE_SUFFIXES = (".nwk", ".newick", ".tree", ".tre")
DEFAULT_RELATIVES = 5


@dataclass(frozen=True)
class Sample:
    """Rows of a table that is larger than memory, and how often its labels occur in all rows.

    Attributes
    ----------
    rows : DataFrame
        The sample.
    n_rows : int
        All rows.
    count : callable
        Takes names of labels; returns in how many rows of the table each is present, and observed.
    """

    rows: pd.DataFrame
    n_rows: int
    count: Callable[[Sequence[str]], tuple[NDArray[np.int64], NDArray[np.int64]]]


_HELD_OUT = {"random": "rows", "stratified": "rows", "group": "groups", "block": "blocks"}
"""What ``--split`` says to a model that holds out rows itself."""

Tell = Callable[[TableRoles], None]
"""Takes what becomes of every column of a table."""


@dataclass(frozen=True)
class TrainRun:
    """What came out of :func:`train`.

    Attributes
    ----------
    model : LabelClassifier
        The trained model, as saved.
    split : str
        How validation rows were chosen; ``"file"`` when they were given, ``"none"`` when there are none.
    n_train, n_validation : int
        Rows.
    dropped_labels : list of str
        Labels left out because they had a single class.
    resumed : bool
        Whether an interrupted run was continued.
    seconds : float
        Time to train.
    validation : dict or None
        All measures on the validation rows, at the thresholds they chose; see :func:`hotvae.evaluate`.
    test : dict or None
        The same on the test rows of a named data set.
    """

    model: LabelClassifier
    split: str
    n_train: int
    n_validation: int
    dropped_labels: list[str]
    resumed: bool
    seconds: float
    validation: dict[str, Any] | None
    test: dict[str, Any] | None = None


# --- training --------------------------------------------------------------------------------------------


def state_file(out: str | Path) -> Path:
    """Where a run that writes to ``out`` keeps its state until it is done."""
    folder = Path(out) if Path(out).name else Path(out).absolute()
    return folder.with_name(folder.name + ".state")


def remove_state(state: Path) -> None:
    """Remove what a run that was interrupted, or has ended, left behind: a file, or a folder of fitted members."""
    if state.is_dir():
        shutil.rmtree(state / "sampled", ignore_errors=True)
        if (state / "sampled.state").exists():
            remove_state(state / "sampled.state")
        # With what was half written when it was killed.
        for file in (*state.glob("*.safetensors*"), *state.glob(".*.safetensors.*"), state / "run"):
            file.unlink(missing_ok=True)
        if not any(state.iterdir()):  # another's files stay
            state.rmdir()
    else:
        state.unlink(missing_ok=True)


def train(
    settings: TrainSettings,
    table: str | Path | None = None,
    *,
    command: str | None = None,
    tell: Tell | None = None,
    sample: Sample | None = None,
    ranks: Ranks = ALONE,
) -> TrainRun:
    r"""Train a classifier on a table in a file, or on a named data set, and save it.

    Parameters
    ----------
    settings : TrainSettings
        Which columns, which rows, which model, and where to. Without a table, ``data`` names the set and ``fold`` one
        of its splits; the seed of the model also draws validation rows where none are published.
    table : path, optional
        As in :func:`hotvae.read_table`.
    command : str, optional
        Noted in the model.
    tell : callable, optional
        Called with what became of every column of the table, before anything is learned.
    sample : Sample, optional
        Rows to learn from, where the table is too large to be read; all rows by default.
    ranks : Ranks, optional
        Processes that share the training of a network, of which this is one; all call this alike, and the first
        writes the model.

    Returns
    -------
    TrainRun
        On a named set with ``test``, all measures on the test rows at the thresholds of the validation rows.

    Raises
    ------
    DataError, ConfigError
        A table, set or setting that does not fit.

    Notes
    -----
    After each epoch of a network, and each fit of a model that finds its own recipe, the state is written beside the
    model folder (see :func:`state_file`); a run that was killed goes on from it, unless ``settings.resume`` is False.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> rows = "".join(f"{i},{i % 2},{(i + 1) % 2}\n" for i in range(60))
    >>> _ = (folder / "sites.csv").write_text("depth,sp_owl,sp_wren\n" + rows)
    >>> quick = {"effort": "quick"}
    >>> settings = TrainSettings(out=str(folder / "model"), labels=("sp_*",), quiet=True, parameters=quick)
    >>> run = train(settings, folder / "sites.csv")
    >>> run.n_train, run.split, sorted(entry.name for entry in folder.iterdir())
    (60, '3 folds of single rows', ['model', 'sites.csv'])
    """
    out = checked_out(settings.out)
    state = state_file(out)
    # Of two runs at once, one would read the other's state.
    with locked(state) if ranks.is_first else nullcontext():
        model = new_model(settings)
        if ranks.size > 1 and model.holds_out_itself:
            raise ConfigError(
                f"a training that {ranks.size} processes share must stream, or train a network; got neither. Pass "
                "--stream, or --recipe network."
            )
        job = read_job(model, settings, table, tell=tell, sample=sample)
        if not settings.force:
            check_same(Path(out), type(model).__name__, job.card)
        if not settings.resume and ranks.is_first:
            remove_state(state)
        ranks.wait()
        resumed = state.exists()
        model.change_settings(progress="silent" if settings.quiet else "auto", state_file=state)
        give_graph(model, settings, job)
        if job.validation is None and not model.holds_out_itself:
            model.set_params(validation_fraction=0.0)
        started = time.perf_counter()
        try:
            with shared(ranks):
                model.fit(job.training, validation=job.validation)
        except (TrainingError, ModelError) as error:
            if not resumed:
                raise
            raise TrainingError(f"{error} Or pass --no-resume to start afresh.") from error
        seconds = time.perf_counter() - started
        model.change_settings(progress="silent", state_file=None)
        measures = [
            None if rows is None else evaluate(rows[1].to_numpy(), model.predict_proba(rows[0]), model.thresholds_)
            for rows in (job.validation, job.test)
        ]
        left_out = getattr(model, "left_out_", None)
        if measures[0] is None and left_out is not None:
            measures[0] = evaluate(job.training.labels, left_out, model.thresholds_)
            job.card["split"] = model.recipe_.folds
        n_validation = 0 if job.validation is None else len(job.validation[1])
        card = job.card | {
            "command": command,
            "n_validation": n_validation,
            "validation": json_ready(measures[0]),
            "test": json_ready(measures[1]),
            "settings": json_ready({"model": settings.model, "recipe": settings.recipe}),
        }
        if ranks.is_first:
            model.save(out, extra=card)
            remove_state(state)
        ranks.wait()
        split, dropped, n_train = card["split"], card["dropped_labels"], job.training.n_samples
        return TrainRun(model, split, n_train, n_validation, dropped, resumed, seconds, *measures)


class Job(NamedTuple):
    """Rows to learn from; features and labels to choose by and to judge by; what is noted of them in the model."""

    training: Dataset
    validation: tuple[Any, pd.DataFrame] | None
    test: tuple[Any, pd.DataFrame] | None
    card: dict[str, Any]


def read_job(
    model: LabelClassifier,
    settings: TrainSettings,
    table: str | Path | None,
    draw: int = 0,
    tell: Tell | None = None,
    sample: Sample | None = None,
) -> Job:
    """Read the rows of a table or a named set, and hold out those that a model is judged by.

    Parameters
    ----------
    model : LabelClassifier
        From :func:`new_model`.
    settings : TrainSettings
        Which columns and which rows.
    table : path or None
        None where ``settings.data`` names a set.
    draw : int
        0 for the rows that training holds out; another number holds out others in the same way. Test rows are always
        the same.
    tell : callable, optional
        Is handed what becomes of every column of a table, before anything is learned from them.
    sample : Sample, optional
        Rows to learn from, where the table is too large to be read.

    Returns
    -------
    Job

    Raises
    ------
    DataError, ConfigError
        A table, set or setting that does not fit.
    """
    if table is None:
        return _catalog_job(model, settings, draw)
    if settings.fold:
        raise ConfigError(
            f"fold must go with a named data set (--data); got {settings.fold} and a table. Leave it out."
        )
    if settings.validation is not None:
        _check_other_rows(Path(table), Path(settings.validation))
    return _table_job(model, Path(table), settings, draw, tell, sample)


def _check_other_rows(table: Path, validation: Path) -> None:
    """Refuse to choose by the rows that are learned from."""
    if table.is_file() and validation.is_file() and filecmp.cmp(table, validation, shallow=False):
        raise ConfigError(
            f"validation must have rows of its own; got {str(validation)!r}, the same as the table. Leave it out: rows "
            "are then held out."
        )


def give_graph(model: LabelClassifier, settings: TrainSettings, job: Job) -> None:
    """Tell a model that has messages which labels may talk to each other."""
    if "graph" in model.get_params(deep=False):
        model.set_params(graph=_label_graph(settings, job.training.label_names))


def _table_job(
    model: LabelClassifier,
    table: Path,
    settings: TrainSettings,
    draw: int,
    tell: Tell | None,
    sample: Sample | None,
) -> Job:
    # A column of texts or molecules is no mistake where the encoder reads them, or where columns are looked at first.
    free_text = model.holds_out_itself or model.new_features().is_column
    data, roles = _read_training_table(table, settings, free_text, None if sample is None else sample.rows)
    if tell is not None:
        tell(roles)
    if model.holds_out_itself:
        model.set_params(hold_out=_HELD_OUT.get(settings.split, "auto"))
        training, held_out, how = data, None, "file" if settings.validation else "folds"
    else:
        seed = model.random_state if model.random_state is None else (model.random_state + draw) % (MOST_SEED + 1)
        training, held_out, how = _split_rows(data, settings, model.validation_fraction, seed)
    names = training.label_names
    counts = None if sample is None else sample.count(names)
    single = single_class_labels(training) if counts is None else _single_class(names, *counts)
    dropped = list(single) if settings.drop_single_class else []
    if dropped:
        training = training.drop_labels(dropped)
        held_out = None if held_out is None else held_out.drop_labels(dropped)
    check_trainable(training, {} if dropped else single)
    card = table_card(table, settings, training, dropped=dropped) | {"split": how}
    if sample is not None and counts is not None:
        rates = np.round(counts[0] / np.maximum(counts[1], 1), 6).tolist()
        known = {name: rate for name, rate in zip(names, rates, strict=True) if name not in dropped}
        n_gaps = int(sum(sample.n_rows - n for name, n in zip(names, counts[1], strict=True) if name in known))
        card |= {"prevalence": known, "n_labels_not_observed": n_gaps}
    card |= {"left_out": roles.left_out, "notes": list(roles.notes), "crs": roles.crs, "id_column": roles.id_column}
    card["dropped_columns"] = sorted({*card["dropped_columns"], *roles.left_out})
    validation = None if held_out is None else named_tables(held_out)
    if settings.validation is not None:
        needs = TableNeeds.of_card(card, sparse.issparse(training.features))
        validation = _read_validation_table(settings.validation, settings, needs, roles.is_long)
    return Job(training, validation, None, card)


def _read_validation_table(
    table: str, settings: TrainSettings, needs: TableNeeds, is_long: bool
) -> tuple[Any, pd.DataFrame]:
    """Read features and labels to choose by; of a model trained on records, from records or from a row a site."""
    reading: Any = {"encoding": settings.encoding, "decimal": settings.decimal}
    rows: Any = table
    has_records = False
    if is_long and not is_archive(table):
        rows = needs.read_rows(table, **reading)
        has_records = not set(needs.labels) & set(rows.columns)
    if has_records and (settings.sites is not None or settings.label_table is not None):
        raise ConfigError(
            f"validation must have a row a site, with its covariates and a column a species, where training has a "
            f"table of sites; got records ({Path(table).name}). Join them, or leave it out: rows are then held out."
        )
    rows, labels_of, id_column = needs.by_site(rows, long=(settings.long or AUTO) if has_records else None, **reading)
    features, _ = needs.read_features(rows, id_column=id_column, **reading)
    labels = needs.read_labels(rows, label_table=labels_of, id_column=id_column, **reading)
    return features, pd.DataFrame(labels, columns=needs.labels)


def _single_class(
    names: Sequence[str], n_present: NDArray[np.int64], n_observed: NDArray[np.int64]
) -> dict[str, int | None]:
    """Say by their counts which labels have one class, as :func:`single_class_labels` does by their rows."""
    found = zip(names, n_present.tolist(), n_observed.tolist(), strict=True)
    return {name: None if not seen else int(there > 0) for name, there, seen in found if there in (0, seen)}


def _catalog_job(model: LabelClassifier, settings: TrainSettings, draw: int) -> Job:
    own = ("labels", "label_table", "id_column", "coordinates", "groups", "drop", "validation", "presence")
    for name in (*own, "long", "sites"):
        if getattr(settings, name):
            raise ConfigError(
                f"{name} must be left out with a named data set; got {getattr(settings, name)!r}. "
                f"{settings.data} brings its own."
            )
    seed = model.random_state if isinstance(model.random_state, int) else 0
    named = load(settings.data or "", split=settings.fold, seed=seed)
    if model.holds_out_itself:
        model.set_params(hold_out=_HELD_OUT.get(settings.split, named.entry.hold_out))
    data = named.dataset
    if data.coordinates is not None:
        data = data.with_coordinates_as_features()
    parts = named.split
    if draw:
        kind = _kind(data, settings.split)
        parts = other_validation_rows(
            data, parts, kind=kind, random_state=(seed + draw) % (MOST_SEED + 1), block_size=settings.block_size
        )
    training, held_out, test = (data.take(rows) for rows in (parts.train, parts.validation, parts.test))
    dropped = list(single_class_labels(training)) if settings.drop_single_class else []
    if dropped:
        training, held_out, test = (part.drop_labels(dropped) for part in (training, held_out, test))
    card = table_card(settings.data or "", settings, training, dropped=dropped) | {
        "data": {
            "name": settings.data,
            "fold": settings.fold,
            "source": named.entry.source,
            "licence": named.entry.licence,
            "citation": named.entry.citation,
        },
        "split": "published" if named.entry.split in ("published", "folds") else named.entry.split,
    }
    return Job(training, named_tables(held_out), named_tables(test), card)


def check_same(out: Path, kind: str, card: dict[str, Any]) -> None:
    """Refuse to replace a model by one of something else: a slip in a name would cost hours of training."""
    if not out.is_dir() or not any(out.iterdir()):
        return
    config = read_config(out)
    before = config.get("extra") or {}
    told = {"kind": (config.get("kind"), kind)}
    told |= {name: (before.get(name), card[name]) for name in ("table", "labels", "feature_names")}
    other = [name.replace("_", " ") for name, (old, new) in told.items() if old != new]
    if other:
        raise ModelError(
            f"out must be new, or a model of the same kind, table and columns; got {str(out)!r}, another by its "
            f"{' and '.join(other)}. Choose another folder, or pass --force to replace it."
        )


def checked_out(out: str | None) -> str:
    """Return the folder of the model, which has to be one that may be written."""
    if out is None:
        raise ConfigError("out must name the folder of the model; got none. Pass --out MODEL.")
    if Path(out).name in ("", "..") or out.strip("/.") == "":
        raise ConfigError(f"out must be a folder with a name; got {out!r}. Pass --out my_model.")
    check_name(out)
    folder = real_folder(out)
    check_replaceable(folder)
    try:  # now, and not after hours of training
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".hotvae-"):
            pass
    except OSError as error:
        raise ConfigError(
            f"out must be a place one can write to; got {out!r} ({error.strerror or error}). Choose another folder."
        ) from error
    return out


def new_model(settings: TrainSettings) -> LabelClassifier:
    """Make the untrained model, having checked everything that can be checked before data are read.

    Parameters
    ----------
    settings : TrainSettings
        Which model, and its parameters.

    Returns
    -------
    LabelClassifier

    Raises
    ------
    ConfigError
        An unknown model, or a parameter that it does not take.
    """
    cls = find_classifier(model_of_recipe(settings.model, settings.recipe))
    if settings.graph != "complete" and "graph" not in cls().get_params(deep=False):
        raise ConfigError(
            f"graph must be left out for the {settings.model} model; got {settings.graph!r}. It has no messages."
        )
    model = cls.from_settings(**{"random_state": 0} | settings.parameters)
    require_seed("seed", model.random_state)
    model.check_parameters()
    return model


def _read_training_table(
    table: Path, settings: TrainSettings, free_text: bool, rows: pd.DataFrame | None
) -> tuple[Dataset, TableRoles]:
    def one_or_many(patterns: tuple[str, ...]) -> str | list[str]:
        # A single text is left to the reader, who tells a comma in a name from one between names.
        return patterns[0] if len(patterns) == 1 else list(patterns)

    return read_with_roles(
        table if rows is None else rows,
        labels=one_or_many(settings.labels) or None,
        label_table=settings.label_table,
        id_column=settings.id_column,
        coordinates=settings.coordinates,
        coordinates_as_features=table.suffix.lower() != ".npz",
        groups=settings.groups,
        drop=one_or_many(settings.drop),
        presence=settings.presence,
        long=settings.long,
        sites=settings.sites,
        join=settings.join,
        sheet=settings.sheet,
        free_text=free_text,
        encoding=settings.encoding,
        decimal=settings.decimal,
    )


def _split_rows(
    data: Dataset, settings: TrainSettings, fraction: Any, seed: Any
) -> tuple[Dataset, Dataset | None, str]:
    """Rows to learn from, rows to choose by, and how they were chosen."""
    if settings.validation is not None:
        return data, None, "file"
    n_held_out = int(require_share("validation_fraction", fraction) * data.n_samples)
    if n_held_out < MIN_VALIDATION_ROWS:
        if fraction > 0:
            warnings.warn(
                f"validation should have at least {MIN_VALIDATION_ROWS} rows; got {n_held_out} ({fraction:g} "
                f"of {data.n_samples}). All rows train, the last epoch is kept and no thresholds are tuned. "
                "Add rows, or pass --validation FILE.",
                DataWarning,
                stacklevel=3,
            )
        return data, None, "none"
    kind = _kind(data, settings.split)
    parts = split_dataset(
        data,
        kind=kind,
        fractions=(1 - fraction, fraction, 0.0),
        random_state=seed,
        block_size=settings.block_size,
    )
    return data.take(parts.train), data.take(parts.validation), kind


def _kind(data: Dataset, split: str) -> Any:
    """Say what is held out together: what was asked for, or what the table lets one do."""
    if split != "auto":
        return split
    return "group" if data.groups is not None else "block" if data.coordinates is not None else "stratified"


def _label_graph(settings: TrainSettings, label_names: tuple[str, ...]) -> Any:
    path = Path(settings.graph)
    is_tree = path.suffix.lower() in TREE_SUFFIXES
    if not is_tree and not (settings.neighbours is None and settings.max_distance is None):
        raise ConfigError(
            f"neighbours and max_distance must go with a tree; got graph {settings.graph!r}. Pass --graph tree.nwk."
        )
    if settings.graph in ("complete", "cooccurrence"):
        return settings.graph
    if is_tree:
        nearest = settings.neighbours
        if nearest is None and settings.max_distance is None:
            nearest = DEFAULT_RELATIVES
        return phylogeny_graph(path, label_names, n_neighbours=nearest, max_distance=settings.max_distance)
    if path.suffix.lower() == ".csv":
        return edge_list_graph(read_edges(path), label_names, source=path.name)
    raise ConfigError(
        f"graph must be 'complete', 'cooccurrence', a .csv of edges or a tree ({', '.join(TREE_SUFFIXES)}); "
        f"got {settings.graph!r}. Choose one of them."
    )


def table_card(
    table: str | Path,
    settings: TrainSettings,
    training: Dataset,
    *,
    dropped: Sequence[str] = (),
    n_validation: int = 0,
) -> dict[str, Any]:
    """Note what later tables are read by, and what a reader of the model wants to know.

    Parameters
    ----------
    table : path
        The training table; only its name is kept.
    settings : TrainSettings
        How it was read and split.
    training : Dataset
        The training rows.
    dropped : sequence of str
        Labels that were left out.
    n_validation : int
        Rows that chose the epoch.

    Returns
    -------
    dict
        JSON-able; stored with the model.
    """
    observed = ~np.isnan(training.labels)
    n_present = (training.labels == 1).sum(axis=0)
    prevalence = n_present / np.maximum(observed.sum(axis=0), 1)
    patterns = [part for drop in settings.drop for part in (drop, *drop.split(","))]
    return {
        "table": Path(table).name,
        "label_table": None if settings.label_table is None else Path(settings.label_table).name,
        "label_patterns": [f"@{Path(name[1:]).name}" if name.startswith("@") else name for name in settings.labels],
        "labels": list(training.label_names),
        "dropped_labels": list(dropped),
        "dropped_columns": sorted({pattern.strip() for pattern in patterns}),
        "id_column": settings.id_column,
        "coordinates": [] if training.coordinates is None else list(training.coordinate_names),
        "groups": settings.groups,
        "presence": settings.presence,
        "feature_names": list(training.feature_names),
        "feature_kinds": list(feature_kinds(training.features)),
        "n_train": training.n_samples,
        "n_validation": n_validation,
        "split": settings.split,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "prevalence": dict(zip(training.label_names, np.round(prevalence, 6).tolist(), strict=True)),
        "n_labels_not_observed": int((~observed).sum()),
    }


# --- evaluating -----------------------------------------------------------------------------------------


def evaluate_model(
    model: LabelClassifier, labels: NDArray[Any], probs: NDArray[Any], *, oracle: bool = False
) -> dict[str, dict[str, Any]]:
    """Compute all measures at the thresholds the model chose in training.

    Parameters
    ----------
    model : LabelClassifier
        Its ``thresholds_`` are used; 0.5 for all when it has none.
    labels, probs : ndarray of shape (n_samples, n_labels)
        What is known, and what was predicted.
    oracle : bool
        Also at thresholds chosen on these very rows.

    Returns
    -------
    dict
        ``"honest"`` and, if asked for, ``"oracle"``, each as :func:`hotvae.evaluate` returns it.
    """
    results = {"honest": evaluate(labels, probs, model.thresholds_ or 0.5)}
    if oracle:
        results["oracle"] = evaluate(labels, probs, tune_thresholds(labels, probs))
    return results


def label_report(model: LabelClassifier, labels: NDArray[Any], probs: NDArray[Any]) -> pd.DataFrame:
    """Tell label by label how often it occurs and how well it is predicted.

    Parameters
    ----------
    model : LabelClassifier
        Names the labels; its threshold for macro F1 is used for ``f1``, or 0.5.
    labels, probs : ndarray of shape (n_samples, n_labels)
        What is known, and what was predicted.

    Returns
    -------
    DataFrame
        One row per label; empty cells where a measure does not exist.
    """
    cut = model.thresholds_.get("macro_f1", 0.5)
    predicted = apply_thresholds(probs, cut)
    observed = ~np.isnan(labels)

    def each(measure: Any, given: NDArray[Any]) -> list[float]:
        columns = range(labels.shape[1])
        return [measure(labels[:, [i]], given[:, [i]]) if observed[:, i].any() else math.nan for i in columns]

    return pd.DataFrame(
        {
            "label": [str(name) for name in model.label_names_],
            "n_observed": observed.sum(axis=0),
            "n_present": (labels == 1).sum(axis=0),
            "mean_probability": probs.mean(axis=0, dtype=np.float64),
            "auc": label_auc(labels, probs),
            "average_precision": label_average_precision(labels, probs),
            "log_loss": each(log_loss, probs),
            "brier_score": each(brier_score, probs),
            "threshold": cut,
            "f1": each(macro_f1, predicted),
        }
    )
