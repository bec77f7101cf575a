"""Whole jobs on tables in files: train and save, predict, evaluate. What the command line calls.

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
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from hotvae.checkpoint import check_replaceable
from hotvae.classifier import MIN_VALIDATION_ROWS, LabelClassifier
from hotvae.data.dataset import (
    Dataset,
    FeatureKind,
    check_finite,
    check_trainable,
    feature_kinds,
    single_class_labels,
)
from hotvae.data.splits import split_dataset
from hotvae.data.tables import (
    align_columns,
    check_kinds,
    dataset_from_frame,
    read_features,
    read_frame,
    read_table,
)
from hotvae.errors import ConfigError, DataError, DataWarning, ModelError, TrainingError, listed
from hotvae.graph import edge_list_graph, phylogeny_graph, read_edges
from hotvae.metrics import brier_score, find_metric, label_auc, label_average_precision, log_loss, macro_f1
from hotvae.models import CLASSIFIERS
from hotvae.settings import TrainSettings
from hotvae.thresholds import apply_thresholds, evaluate, tune_thresholds

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
    """

    model: LabelClassifier
    split: str
    n_train: int
    n_validation: int
    dropped_labels: list[str]
    resumed: bool
    seconds: float
    validation: dict[str, Any] | None


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
    if settings.out is None:
        raise ConfigError("out must name the folder of the model; got none. Pass --out MODEL.")
    if Path(settings.out).name in ("", ".."):
        raise ConfigError(f"out must be a folder with a name; got {settings.out!r}. Pass --out my_model.")
    if settings.model == "plain" and settings.graph != "complete":
        raise ConfigError(f"graph must be left out for the plain model; got {settings.graph!r}. It has no messages.")
    check_replaceable(settings.out)
    model = CLASSIFIERS[settings.model](**{"random_state": 0} | settings.parameters)
    data = _read_training_table(source, settings)
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
    if settings.model == "hotvae":
        model.set_params(graph=_label_graph(settings, training.label_names))
    seconds, resumed = _fit(model, training, validation, settings)

    n_validation = 0 if validation is None else len(validation.labels)
    measures = None
    if validation is not None:
        measures = evaluate(validation.labels, model.predict_proba(validation.features), model.thresholds_)
    card |= {
        "n_validation": n_validation,
        "split": how,
        "validation": json_ready(measures),
        "command": command,
    }
    model.save(settings.out, extra=card)
    state_file(settings.out).unlink(missing_ok=True)
    return TrainRun(model, how, training.n_samples, n_validation, dropped, resumed, seconds, measures)


def _read_training_table(table: Path, settings: TrainSettings) -> Dataset:
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
    model.set_params(progress=style, state_file=state)
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
    model.set_params(progress="silent", state_file=None)
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


# --- reading tables for a model --------------------------------------------------------------------------


@dataclass(frozen=True)
class TableNeeds:
    """The columns a model needs of a table, and those it passes over.

    Attributes
    ----------
    features, labels : list of str
        Columns by name, in the order of the model.
    kinds : list of {"numeric", "categorical"}
        Kind of each feature in training.
    ignored : frozenset of str
        Columns of the training table that are no features.
    dropped : list of str
        Names and globs of columns that were left out of training.
    id_column : str or None
        Ids of the rows.
    presence : bool
        Labels are counts.
    is_sparse : bool
        The model takes sparse features.

    Examples
    --------
    >>> from hotvae import HotVAEClassifier
    >>> model = HotVAEClassifier(max_epochs=1, encoder_widths=(4,)).fit(np.eye(8), np.eye(8)[:, :2])
    >>> TableNeeds.of_model(model).labels
    ['label_0', 'label_1']
    """

    features: list[str]
    kinds: list[FeatureKind]
    labels: list[str]
    ignored: frozenset[str] = frozenset()
    dropped: tuple[str, ...] = ()
    id_column: str | None = None
    presence: bool = False
    is_sparse: bool = False

    @classmethod
    def of_card(cls, card: Mapping[str, Any], is_sparse: bool) -> "TableNeeds":
        """Read what :func:`train_on_table` noted of its table."""
        others = [*card["coordinates"], card["groups"], card["id_column"]]
        return cls(
            features=card["feature_names"],
            kinds=card["feature_kinds"],
            labels=card["labels"],
            ignored=frozenset([*card["labels"], *card["dropped_labels"], *filter(None, others)]),
            dropped=tuple(card["dropped_columns"]),
            id_column=card["id_column"],
            presence=card["presence"],
            is_sparse=is_sparse,
        )

    @classmethod
    def of_model(cls, model: LabelClassifier) -> "TableNeeds":
        """Read the notes of a model; one saved from Python has none, and knows its own columns only."""
        card, scaler = model_card(model), model.scaler_
        if "feature_names" in card:
            return cls.of_card(card, scaler.is_sparse)
        labels = [str(name) for name in model.label_names_]
        return cls(
            list(scaler.feature_names_in),
            list(scaler.kinds),
            labels,
            ignored=frozenset(labels),
            is_sparse=scaler.is_sparse,
        )

    def read_features(
        self,
        table: str | Path,
        *,
        id_column: str | None = None,
        ignore_unknown: bool = False,
        encoding: str = "utf-8",
        decimal: str = ".",
    ) -> "tuple[pd.DataFrame | sparse.csr_array, pd.Index[Any]]":
        """Read the features, in the order and form of training, and the ids of the rows (or their numbers).

        Parameters
        ----------
        table : path
            Any table; columns in any order.
        id_column : str, optional
            Ids of the rows; by default the column of training if it is there.
        ignore_unknown : bool
            Pass over columns that training did not know.
        encoding, decimal : str
            Of text files.

        Returns
        -------
        features : DataFrame or csr_array
        ids : Index
            Named after its column, or ``"row"``.

        Raises
        ------
        DataError
            Missing, unknown or infinite columns, or text instead of numbers.
        """
        source, wanted_id = Path(table), id_column or self.id_column
        ignored = (self.ignored | {wanted_id or ""}) - set(self.features)
        features: Any
        ids: pd.Index[Any] | None = None
        if source.suffix.lower() == ".npz":
            features = read_features(
                source,
                feature_names=self.features,
                kinds=self.kinds,
                ignore=ignored,
                ignore_unknown=ignore_unknown,
                id_column=wanted_id,
            )
            if wanted_id is not None and isinstance(features, pd.DataFrame):
                ids, features = features.index, features.reset_index(drop=True)
        else:
            kinds = zip(self.features, self.kinds, strict=True)
            as_text = [name for name, kind in kinds if kind == "categorical"] + [wanted_id or ""]
            frame = read_frame(source, encoding=encoding, decimal=decimal, text_columns=as_text)
            columns = [str(column) for column in frame.columns]
            if wanted_id in columns:
                ids = pd.Index(frame[wanted_id].astype("str"), name=wanted_id)
            elif id_column is not None:
                raise DataError(
                    f"id column must be in the table; got {id_column!r} ({source.name}). Check the spelling."
                )
            ignored |= {name for name in columns if any(fnmatchcase(name, drop) for drop in self.dropped)}
            features = align_columns(frame, self.features, ignore=ignored, ignore_unknown=ignore_unknown)
            check_kinds(features, self.kinds)
        features = self._in_form(features)
        check_finite(features, self.features)
        return features, pd.RangeIndex(int(features.shape[0]), name="row") if ids is None else ids

    def _in_form(self, features: Any) -> Any:
        if self.is_sparse and isinstance(features, pd.DataFrame):
            columns: Any = features.astype(pd.SparseDtype("float64", 0.0))
            return sparse.csr_array(columns.sparse.to_coo())
        if not self.is_sparse and not isinstance(features, pd.DataFrame):
            return pd.DataFrame(features.toarray(), columns=self.features)
        return features

    def read_labels(
        self,
        table: str | Path,
        *,
        label_table: str | Path | None = None,
        id_column: str | None = None,
        presence: bool = False,
        encoding: str = "utf-8",
        decimal: str = ".",
    ) -> NDArray[np.float32]:
        """Read the labels, in the order of the model.

        Parameters
        ----------
        table : path
            Table of the rows.
        label_table : path, optional
            Second table with the labels, joined by the id column.
        id_column : str, optional
            Ids of the rows; by default the column of training.
        presence : bool
            Take any count above 0 as 1; always when training did.
        encoding, decimal : str
            Of text files.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)

        Raises
        ------
        DataError
            Labels that are missing, not 0 or 1, or cannot be joined.
        """
        source, presence = Path(table), presence or self.presence
        if source.suffix.lower() == ".npz":
            data = read_table(source, label_table=label_table, labels=self.labels, presence=presence)
        else:
            joined_by = None if label_table is None else id_column or self.id_column
            reading: Any = {"encoding": encoding, "decimal": decimal, "text_columns": [joined_by or ""]}
            frame = read_frame(source, **reading)
            labels = None if label_table is None else read_frame(label_table, **reading)
            missing = [name for name in self.labels if name not in (frame if labels is None else labels)]
            if missing:
                raise DataError(
                    f"table must hold every label of the model; got none for {listed(missing)} "
                    f"({Path(label_table or source).name}). Add these columns "
                    "(empty cells are not observed), or pass --label-table."
                )
            # Features are read by the rules of prediction; here they would only be in the way.
            kept = [name for name in frame if name in (self.labels if labels is None else [joined_by])]
            numbered = frame[kept].assign(**{"(row)": np.arange(len(frame))})
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DataWarning)  # the numbers of a single row are constant
                data = dataset_from_frame(
                    numbered, labels=self.labels, label_frame=labels, id_column=joined_by, presence=presence
                )
        order = [data.label_names.index(name) for name in self.labels]
        return np.asarray(data.labels[:, order], dtype=np.float32)


def model_card(model: LabelClassifier) -> dict[str, Any]:
    """Return what :func:`train_on_table` noted; empty for a model saved from Python without notes.

    Examples
    --------
    >>> from hotvae import HotVAEClassifier
    >>> model_card(HotVAEClassifier())
    {}
    """
    return dict(getattr(model, "extra_", None) or {})


# --- predicting and evaluating ---------------------------------------------------------------------------


def predict_rows(model: LabelClassifier, features: Any) -> NDArray[Any]:
    """Predict features that :meth:`TableNeeds.read_features` read.

    Parameters
    ----------
    model : LabelClassifier
        A fitted model.
    features : DataFrame or csr_array
        Columns of the model, in its order.

    Returns
    -------
    ndarray of shape (n_samples, n_labels)
        Probabilities.

    Examples
    --------
    >>> from hotvae import HotVAEClassifier
    >>> model = HotVAEClassifier(max_epochs=1, encoder_widths=(4,)).fit(np.eye(8), np.eye(8)[:, :2])
    >>> predict_rows(model, pd.DataFrame(np.eye(8), columns=TableNeeds.of_model(model).features)).shape
    (8, 2)
    """
    if isinstance(features, pd.DataFrame) and not hasattr(model, "feature_names_in_"):
        features = features.to_numpy()  # trained without names, which have done their work
    return model.predict_proba(features)


def prediction_table(ids: "pd.Index[Any]", values: NDArray[Any], columns: Any) -> pd.DataFrame:
    """Put ids in front of predictions.

    Parameters
    ----------
    ids : Index
        Ids of the rows, with the name of their column.
    values : ndarray of shape (n_samples, n_labels)
        Probabilities, or 0 and 1.
    columns : sequence
        Names of the labels.

    Returns
    -------
    DataFrame

    Raises
    ------
    DataError
        An id column that is called like a label.

    Examples
    --------
    >>> prediction_table(pd.RangeIndex(1, name="row"), np.array([[0.5]]), ["wren"])
       row  wren
    0    0   0.5
    """
    names = [str(column) for column in columns]
    first = str(ids.name)
    if first in names:
        raise DataError(f"id column must not be a label; got {first!r}. Choose another with --id-column.")
    predictions = pd.DataFrame(values, columns=names)
    predictions.insert(0, first, ids.to_numpy())
    return predictions


def find_threshold(model: LabelClassifier, metric: str | None, threshold: float | None) -> float | None:
    """Choose the threshold of 0/1 predictions: one tuned for a measure, a given one, or none.

    Parameters
    ----------
    model : LabelClassifier
        With thresholds tuned on its validation rows.
    metric : str or None
        A measure of predictions.
    threshold : float or None
        A threshold of one's own.

    Returns
    -------
    float or None

    Raises
    ------
    ConfigError
        Both given, an unknown measure, or a model without thresholds.

    Examples
    --------
    >>> from hotvae import HotVAEClassifier
    >>> find_threshold(HotVAEClassifier(), None, 0.3)
    0.3
    """
    if metric is not None and threshold is not None:
        raise ConfigError(f"--binary and --threshold must not be combined; got {metric!r} and {threshold}. Keep one.")
    if threshold is not None and not 0 <= threshold <= 1:
        raise ConfigError(f"threshold must be between 0 and 1; got {threshold}. Choose a probability.")
    if metric is None:
        return threshold
    name = find_metric(metric, needs="predictions").name
    if name not in model.thresholds_:
        raise ConfigError(
            f"model must have a tuned threshold for {name}; got one trained without validation rows. "
            "Pass --threshold 0.5, or train with validation rows."
        )
    return float(model.thresholds_[name])


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
