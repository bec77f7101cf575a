"""Whole jobs on tables in files: train and save, evaluate. What the command line calls.

A model saved by :func:`train_on_table` notes what its table looked like, so that later tables are read
alike: features by name and kind, in any order; labels, ids, coordinates, groups and dropped columns are
passed over.
"""

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from hotvae.checkpoint import check_replaceable
from hotvae.data.catalog import load
from hotvae.data.dataset import (
    Dataset,
    check_trainable,
    feature_kinds,
    single_class_labels,
)
from hotvae.data.splits import split_dataset
from hotvae.data.tables import read_table
from hotvae.errors import ConfigError, DataWarning, ModelError, TrainingError
from hotvae.estimators.base import MIN_VALIDATION_ROWS, LabelClassifier
from hotvae.estimators.network import MOLECULES, TEXTS
from hotvae.estimators.registry import find_classifier
from hotvae.estimators.thresholds import apply_thresholds, evaluate, tune_thresholds
from hotvae.graph import edge_list_graph, phylogeny_graph, read_edges
from hotvae.jobs.predict import TableNeeds
from hotvae.jobs.settings import TrainSettings
from hotvae.metrics import brier_score, label_auc, label_average_precision, log_loss, macro_f1

TREE_SUFFIXES = (".nwk", ".newick", ".tree", ".tre")
DEFAULT_RELATIVES = 5


@dataclass(frozen=True)
class TrainRun:
    """What came out of :func:`train_on_table`.

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


@dataclass(frozen=True)
class _Rows:
    """Features as a classifier takes them, and labels in its order."""

    features: Any
    labels: NDArray[Any]


# --- training --------------------------------------------------------------------------------------------


def state_file(out: str | Path) -> Path:
    """Where a run that writes to ``out`` keeps its state until it is done.

    Examples
    --------
    >>> state_file("models/birds").name
    'birds.state'
    """
    folder = Path(out) if Path(out).name else Path(out).absolute()
    return folder.with_name(folder.name + ".state")


def train_on_table(table: str | Path, settings: TrainSettings, *, command: str | None = None) -> TrainRun:
    r"""Train a classifier on a table in a file and save it.

    Parameters
    ----------
    table : path
        As in :func:`hotvae.read_table`.
    settings : TrainSettings
        Which columns, which rows, which model, and where to.
    command : str, optional
        Noted in the model.

    Returns
    -------
    TrainRun

    Raises
    ------
    DataError, ConfigError
        A table or setting that does not fit.

    Notes
    -----
    After each epoch the state is written beside the model folder (see :func:`state_file`); a run that was
    killed goes on from it, unless ``settings.resume`` is False.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> rows = "".join(f"{i},{i % 2},{(i + 1) % 2}\n" for i in range(60))
    >>> _ = (folder / "sites.csv").write_text("depth,sp_owl,sp_wren\n" + rows)
    >>> settings = TrainSettings(out=str(folder / "model"), labels=("sp_*",), parameters={"max_epochs": 1})
    >>> run = train_on_table(folder / "sites.csv", settings)
    >>> run.n_train, run.n_validation, sorted(entry.name for entry in folder.iterdir())
    (48, 12, ['model', 'sites.csv'])
    """
    source = Path(table)
    model = _new_model(settings)
    # A column of texts or molecules is no mistake where the encoder reads them.
    free_text = model.get_params(deep=False).get("encoder") in (*TEXTS, *MOLECULES)
    data = _read_training_table(source, settings, free_text)
    training, held_out, how = _split_rows(data, settings, model.validation_fraction, model.random_state)
    dropped = list(single_class_labels(training)) if settings.drop_single_class else []
    if dropped:
        training = training.drop_labels(dropped)
        held_out = None if held_out is None else held_out.drop_labels(dropped)
    check_trainable(training)
    card = table_card(source, settings, training, dropped=dropped)
    validation = None if held_out is None else _Rows(_with_names(held_out), held_out.labels)
    if settings.validation is not None:
        needs = TableNeeds.of_card(card, sparse.issparse(training.features))
        features, _ = needs.read_features(settings.validation, encoding=settings.encoding, decimal=settings.decimal)
        labels = needs.read_labels(settings.validation, encoding=settings.encoding, decimal=settings.decimal)
        validation = _Rows(features, labels)
    return _fit_and_save(model, training, validation, None, settings, card | {"split": how, "command": command})


def train_on_catalog(settings: TrainSettings, *, command: str | None = None) -> TrainRun:
    """Train a classifier on a named data set with its own split, measure it on the test rows and save it.

    Parameters
    ----------
    settings : TrainSettings
        ``data`` names the set, ``fold`` one of its splits; the seed of the model also draws validation rows where
        none are published.
    command : str, optional
        Noted in the model.

    Returns
    -------
    TrainRun
        With ``test``, all measures on the test rows at the thresholds of the validation rows.

    Raises
    ------
    DataError, ConfigError
        A set or setting that does not fit.

    Examples
    --------
    >>> train_on_catalog(TrainSettings(data="yeats", out="model"))
    Traceback (most recent call last):
    ...
    hotvae.errors.ConfigError: ...yeast...
    """
    for name in ("labels", "label_table", "id_column", "coordinates", "groups", "drop", "validation", "presence"):
        if getattr(settings, name):
            raise ConfigError(
                f"{name} must be left out with a named data set; got {getattr(settings, name)!r}. "
                f"{settings.data} brings its own."
            )
    model = _new_model(settings)
    seed = model.random_state if isinstance(model.random_state, int) else 0
    named = load(settings.data or "", split=settings.fold, seed=seed)
    data = named.dataset.with_coordinates_as_features() if settings.coordinates_as_features else named.dataset
    training, held_out, test = (
        data.take(rows) for rows in (named.split.train, named.split.validation, named.split.test)
    )
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
        "command": command,
    }
    choosing, judging = (_Rows(_with_names(part), part.labels) for part in (held_out, test))
    return _fit_and_save(model, training, choosing, judging, settings, card)


def _new_model(settings: TrainSettings) -> LabelClassifier:
    """Make the untrained model, having checked everything that can be checked before data are read."""
    if settings.out is None:
        raise ConfigError("out must name the folder of the model; got none. Pass --out MODEL.")
    if Path(settings.out).name in ("", ".."):
        raise ConfigError(f"out must be a folder with a name; got {settings.out!r}. Pass --out my_model.")
    cls = find_classifier(settings.model)
    if settings.graph != "complete" and "graph" not in cls().get_params(deep=False):
        raise ConfigError(
            f"graph must be left out for the {settings.model} model; got {settings.graph!r}. It has no messages."
        )
    check_replaceable(settings.out)
    return cls(**{"random_state": 0} | settings.parameters)


def _fit_and_save(
    model: LabelClassifier,
    training: Dataset,
    validation: "_Rows | None",
    test: "_Rows | None",
    settings: TrainSettings,
    card: dict[str, Any],
) -> TrainRun:
    if "graph" in model.get_params(deep=False):
        model.set_params(graph=_label_graph(settings, training.label_names))
    seconds, resumed = _fit(model, training, validation, settings)
    measures = [
        None if rows is None else evaluate(rows.labels, model.predict_proba(rows.features), model.thresholds_)
        for rows in (validation, test)
    ]
    n_validation = 0 if validation is None else len(validation.labels)
    card |= {
        "n_validation": n_validation,
        "validation": json_ready(measures[0]),
        "test": json_ready(measures[1]),
        "settings": json_ready({"model": settings.model, "coordinates_as_features": settings.coordinates_as_features}),
    }
    model.save(settings.out or "", extra=card)
    state_file(settings.out or "").unlink(missing_ok=True)
    return TrainRun(
        model, card["split"], training.n_samples, n_validation, card["dropped_labels"], resumed, seconds, *measures
    )


def _read_training_table(table: Path, settings: TrainSettings, free_text: bool) -> Dataset:
    def one_or_many(patterns: tuple[str, ...]) -> str | list[str]:
        # A single text is left to the reader, who tells a comma in a name from one between names.
        return patterns[0] if len(patterns) == 1 else list(patterns)

    return read_table(
        table,
        labels=one_or_many(settings.labels) or None,
        label_table=settings.label_table,
        id_column=settings.id_column,
        coordinates=settings.coordinates,
        coordinates_as_features=settings.coordinates_as_features,
        groups=settings.groups,
        drop=one_or_many(settings.drop),
        presence=settings.presence,
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
    if not 0 <= fraction < 1:
        raise ConfigError(
            f"validation_fraction must be at least 0 and below 1; got {fraction!r}. 0 trains on all rows."
        )
    n_held_out = int(fraction * data.n_samples)
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
    parts = split_dataset(
        data,
        kind=settings.split,  # type: ignore[arg-type]  # checked word by word there
        fractions=(1 - fraction, fraction, 0.0),
        random_state=seed,
        block_size=settings.block_size,
    )
    return data.take(parts.train), data.take(parts.validation), settings.split


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


def _fit(
    model: LabelClassifier, training: Dataset, validation: _Rows | None, settings: TrainSettings
) -> tuple[float, bool]:
    """Train, or go on training; return the seconds it took and whether it was resumed."""
    state = state_file(settings.out or "")
    if not settings.resume:
        state.unlink(missing_ok=True)
    resumed = state.exists()
    style = "silent" if settings.quiet else "auto"
    own = model.get_params(deep=False)
    model.set_params(**{name: value for name, value in (("progress", style), ("state_file", state)) if name in own})
    if validation is None:
        model.set_params(validation_fraction=0.0)
    columns = list(training.label_names)
    started = time.perf_counter()
    try:
        model.fit(
            _with_names(training),
            pd.DataFrame(training.labels, columns=columns),
            validation=None
            if validation is None
            else (validation.features, pd.DataFrame(validation.labels, columns=columns)),
        )
    except (TrainingError, ModelError) as error:
        if not resumed:
            raise
        raise TrainingError(f"{error} Or pass --no-resume to start afresh.") from error
    model.set_params(**{name: value for name, value in (("progress", "silent"), ("state_file", None)) if name in own})
    return time.perf_counter() - started, resumed


def _with_names(data: Dataset) -> Any:
    """Features with their names, where the classifier can keep them."""
    if isinstance(data.features, np.ndarray):
        return pd.DataFrame(data.features, columns=list(data.feature_names))
    return data.features


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

    Examples
    --------
    >>> rows = Dataset([[0.5], [1.5]], [[0], [1]])
    >>> table_card("sites/birds.csv", TrainSettings(), rows)["table"]
    'birds.csv'
    """
    observed = ~np.isnan(training.labels)
    n_present = (training.labels == 1).sum(axis=0)
    prevalence = n_present / np.maximum(observed.sum(axis=0), 1)
    patterns = [part for drop in settings.drop for part in (drop, *drop.split(","))]
    return {
        "table": Path(table).name,
        "label_table": None if settings.label_table is None else Path(settings.label_table).name,
        "label_patterns": list(settings.labels),
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

    Examples
    --------
    >>> from hotvae import HotVAEClassifier
    >>> X, Y = np.eye(8), np.eye(8)[:, :2]
    >>> model = HotVAEClassifier(max_epochs=1, encoder_widths=(4,)).fit(X, Y)
    >>> list(evaluate_model(model, Y, model.predict_proba(X), oracle=True))
    ['honest', 'oracle']
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

    Examples
    --------
    >>> from hotvae import HotVAEClassifier
    >>> X, Y = np.eye(8), np.eye(8)[:, :2]
    >>> model = HotVAEClassifier(max_epochs=1, encoder_widths=(4,)).fit(X, Y)
    >>> label_report(model, Y, model.predict_proba(X))[["label", "n_observed", "n_present"]]
         label  n_observed  n_present
    0  label_0           8          1
    1  label_1           8          1
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


def json_ready(value: Any) -> Any:
    """Turn a result into what JSON knows: arrays become lists, NaN and infinity null.

    Parameters
    ----------
    value : object
        Mappings, sequences, arrays and scalars, nested as they like.

    Returns
    -------
    object

    Examples
    --------
    >>> json_ready({"auc": float("nan"), "counts": np.arange(2)})
    {'auc': None, 'counts': [0, 1]}
    """
    if isinstance(value, Mapping):
        return {str(name): json_ready(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return json_ready(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
