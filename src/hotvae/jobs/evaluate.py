"""How well the predictions of a saved model, or of any model in a file, agree with what was observed.

A file holds probabilities in one column per label, as ``hotvae predict`` writes it, or arrays in an npz: ``probs``
(sites × labels), ``draws`` (draws × sites × labels) or both, and ``label_names``.
"""

import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from hotvae.data.dataset import close_names
from hotvae.data.frames import read_frame, write_table
from hotvae.errors import ConfigError, DataError, listed
from hotvae.estimators.registry import load_model
from hotvae.jobs.predict import check_out, predict_rows, sample_rows
from hotvae.jobs.table_needs import TableNeeds, check_unique_ids, model_card
from hotvae.jobs.train import evaluate_model, label_report
from hotvae.metrics.dialects import DIALECTS
from hotvae.metrics.ecology import MEASURES, EcologyScores, all_measures, site_pairs

# Cells of a block of draws, as in the draws of models.
_CELLS_PER_BLOCK = 1 << 23
_SUFFIXES = (".csv", ".tsv", ".tab", ".txt", ".gz", ".parquet", ".pq", ".npz")
# What `hotvae predict` calls the column of row numbers where a table has no ids.
_ROW_NUMBERS = "row"


@dataclass(frozen=True)
class Evaluation:
    """What came out of :func:`evaluate_table`.

    Attributes
    ----------
    metrics : dict
        All measures at the thresholds of training; see :func:`hotvae.evaluate`.
    oracle : dict or None
        The same at thresholds chosen on these very rows.
    ecology : dict or None
        The ecological numbers; see :func:`describe_scores`.
    thresholds_from : str
        Where the thresholds come from, in words.
    same_name : bool
        Whether the table is called like the training table of the model.
    """

    metrics: dict[str, Any]
    oracle: dict[str, Any] | None
    ecology: dict[str, Any] | None
    thresholds_from: str
    same_name: bool


@dataclass(frozen=True)
class _Judged:
    """Predictions beside what was observed; how whole label sets were drawn, in words."""

    predictor: Any
    labels: NDArray[Any]
    probs: NDArray[Any]
    draws: Any
    how: str
    same_name: bool = False


def evaluate_table(
    source: str | Path,
    table: str | Path,
    *,
    label_table: str | Path | None = None,
    id_column: str | None = None,
    presence: bool = False,
    long: str | None = None,
    sites: str | Path | None = None,
    sheet: str | None = None,
    oracle: bool = False,
    per_label: str | Path | None = None,
    ecology: str | None = None,
    draws: int = 100,
    pairs: int = 300,
    seed: int = 0,
    ignore_unknown: bool = False,
    encoding: str = "utf-8",
    decimal: str = ".",
    safe_csv: bool = False,
    force: bool = False,
) -> Evaluation:
    r"""Compare predictions with what was observed.

    Parameters
    ----------
    source : path
        Folder of a trained model, or a file of predictions; see :func:`read_predictions`.
    table : path
        Rows with features, for a model, and labels.
    label_table, id_column, presence, sheet, ignore_unknown, encoding, decimal
        Options of tables; see :mod:`hotvae.jobs.table_needs`.
    long, sites
        The table, or the label table, has a row a record; see :func:`hotvae.read_table`. Only for a model.
    oracle : bool
        Also at thresholds chosen on these very rows, an upper bound.
    per_label : path, optional
        Also write a table with one row per label; see :func:`~hotvae.jobs.train.label_report`.
    ecology : {"gomes", "norberg", "text"}, optional
        Also the ecological numbers by these definitions.
    draws, pairs, seed : int
        Communities drawn and pairs of sites compared for them, and the seed of both.
    safe_csv, force : bool
        Guard names against spreadsheets, as in :func:`hotvae.jobs.predict.predict_table`; replace a file that is there.

    Raises
    ------
    ConfigError, DataError, ModelError
        A file, column or setting that does not fit.
    """
    if per_label is not None:
        check_out([Path(per_label)], force)
    if ecology is not None and ecology not in DIALECTS:
        raise ConfigError(f"--ecology must be one of {listed(DIALECTS)}; got {ecology!r}. Take gomes for HOT-VAE's.")
    n_draws = 0 if ecology is None else draws
    observed: Any = {"label_table": label_table, "id_column": id_column, "presence": presence}
    reading: Any = {"encoding": encoding, "decimal": decimal}
    if is_prediction_file(source):
        if long is not None or sites is not None or sheet is not None:
            raise ConfigError(
                "--long, --sites and --sheet must go with a model; got a file of predictions. Leave them out."
            )
        judged = _judge_file(Path(source), Path(table), n_draws, seed, observed, reading)
    else:
        reading["sheet"] = sheet
        records = {"long": long, "sites": sites}
        judged = _judge_model(Path(source), Path(table), n_draws, seed, ignore_unknown, observed, reading, records)
    results = evaluate_model(judged.predictor, judged.labels, judged.probs, oracle=oracle)
    communities = None
    if ecology is not None:
        scores = score_communities(judged.labels, judged.probs, judged.draws, dialect=ecology, n_pairs=pairs, seed=seed)
        communities = describe_scores(scores, drawn=judged.how, seed=seed)
    if per_label is not None:
        write_table(label_report(judged.predictor, judged.labels, judged.probs), per_label, safe=safe_csv)
    is_tuned = bool(judged.predictor.thresholds_)
    cuts = "chosen on the validation rows of training" if is_tuned else "0.5, as none were tuned"
    return Evaluation(results["honest"], results.get("oracle"), communities, cuts, judged.same_name)


def _judge_file(source: Path, table: Path, n_draws: int, seed: int, observed: Any, reading: Any) -> _Judged:
    predictions = read_predictions(source, id_column=observed["id_column"], beside=table, **reading)
    labels, predictions = read_observed(predictions, table, **observed, **reading)
    probs, drawn, how = predictions.probs, predictions.draws, f"those of {source.name}"
    if drawn is None:
        how = f"each label by itself from the probabilities, as {source.name} holds no draws"
        return _Judged(predictions, labels, probs, draw_independently(probs, n_draws, seed), how)
    return _Judged(predictions, labels, probs, drawn, how)


def _judge_model(
    folder: Path,
    table: Path,
    n_draws: int,
    seed: int,
    ignore_unknown: bool,
    observed: Any,
    reading: Any,
    records: dict[str, Any],
) -> _Judged:
    model = load_model(folder)
    if model.target_ != "labels":
        raise ConfigError(
            f"model must predict labels; got one of classes ({folder}). Train one with a 0/1 column for each class."
        )
    needs = TableNeeds.of_model(model)
    text = {name: reading[name] for name in ("encoding", "decimal")}
    wide = {name: observed[name] for name in ("id_column", "label_table")}
    rows, label_table, joined_by = needs.by_site(table, **records, **wide, **text)
    observed = observed | {"label_table": label_table, "id_column": joined_by}
    features, _ = needs.read_features(rows, id_column=observed["id_column"], ignore_unknown=ignore_unknown, **reading)
    labels = needs.read_labels(rows, **observed, **reading)
    alone = "each label by itself, as this kind of model says nothing of labels together"
    return _Judged(
        model,
        labels,
        predict_rows(model, features),
        sample_rows(model, features, n_draws, seed) if n_draws else (),
        "whole communities, from the model" if model.draws_jointly else alone,
        same_name=table.name == model_card(model).get("table"),
    )


# Predictions in files -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Predictions:
    """Predictions of a model that need not be at hand, by the names of labels.

    Attributes
    ----------
    label_names_ : list of str
        Labels, in the order of the columns.
    probs : ndarray of shape (n_samples, n_labels)
        Probabilities; the mean of the draws where the file has draws only.
    draws : ndarray of shape (n_draws, n_samples, n_labels) or None
        Whole label sets, 0 and 1.
    ids : Index or None
        Ids of the rows; None where rows go by their order.
    source : str
        Name of the file.
    thresholds_ : dict
        Empty, as a file knows no validation rows: measures that need a threshold take 0.5.
    """

    label_names_: list[str]
    probs: NDArray[np.float64]
    draws: NDArray[Any] | None
    ids: "pd.Index[Any] | None"
    source: str
    thresholds_: dict[str, float] = field(default_factory=dict)

    def at_rows(self, rows: NDArray[np.intp]) -> "Predictions":
        """Return the predictions of some rows, in their order."""
        draws = None if self.draws is None else self.draws[:, rows]
        ids = None if self.ids is None else self.ids[rows]
        return Predictions(self.label_names_, self.probs[rows], draws, ids, self.source, self.thresholds_)


def is_prediction_file(path: str | Path) -> bool:
    """Tell a file of predictions from the folder of a model, by what is there or by its name."""
    source = Path(path)
    return source.is_file() or (not source.exists() and source.suffix.lower() in _SUFFIXES)


def read_predictions(
    path: str | Path,
    *,
    id_column: str | None = None,
    beside: str | Path | None = None,
    encoding: str = "utf-8",
    decimal: str = ".",
) -> Predictions:
    r"""Read the predictions of any model.

    Parameters
    ----------
    path : path
        CSV, TSV or Parquet with one column of probabilities per label; or npz with ``label_names`` and ``probs``,
        ``draws`` or both.
    id_column : str, optional
        Column of ids; a column ``row`` of row numbers needs no naming.
    beside : path, optional
        Table that they were made for; columns that were copied from it, such as coordinates, are passed over.
    encoding, decimal : str
        Of text files.

    Raises
    ------
    DataError
        Columns that are no probabilities, or arrays that do not fit together.
    """
    source = Path(path)
    if source.suffix.lower() == ".npz" and source.is_file():
        return _from_arrays(_read_arrays(source), source.name)
    frame = read_frame(source, encoding=encoding, decimal=decimal, text_columns=[id_column or _ROW_NUMBERS])
    columns = [str(name) for name in frame.columns]
    if id_column is not None and id_column not in columns:
        raise DataError(
            f"id column must be in the predictions; got {id_column!r}{close_names([id_column], columns)} "
            f"({source.name}). Check the spelling, or leave --id-column out to compare row by row."
        )
    joined_by = id_column or (_ROW_NUMBERS if _ROW_NUMBERS in columns else None)
    copied = [] if beside is None else _copied_columns(frame, Path(beside), encoding, decimal)
    labels = [name for name in columns if name != joined_by and name not in copied]
    if not labels:
        raise DataError(
            f"predictions must have a column per label; got {listed(columns)} only ({source.name}). Add the labels."
        )
    for name in labels:
        _check_column(name, frame[name], source.name)
    ids = None if joined_by is None else pd.Index(frame[joined_by].astype("str"), name=joined_by)
    return Predictions(labels, frame[labels].to_numpy(dtype=np.float64), None, ids, source.name)


def _copied_columns(predictions: pd.DataFrame, table: Path, encoding: str, decimal: str) -> list[str]:
    """Columns of numbers that are in both tables with the same values: coordinates, and no predictions."""
    if table.suffix.lower() == ".npz":
        return []
    frame = read_frame(table, encoding=encoding, decimal=decimal)
    shared = [name for name in predictions.columns if name in frame.columns and len(frame) == len(predictions)]
    numbers = [name for name in shared if is_numeric_dtype(frame[name]) and is_numeric_dtype(predictions[name])]
    return [
        str(name)
        for name in numbers
        if not frame[name].dropna().isin((0, 1)).all()
        and np.allclose(np.sort(frame[name].to_numpy()), np.sort(predictions[name].to_numpy()), equal_nan=True)
    ]


def _check_column(name: str, column: "pd.Series[Any]", source: str) -> None:
    if not is_numeric_dtype(column):
        raise DataError(
            f"predictions must be probabilities; got text {listed(column.dropna().unique()[:2])} in column {name!r} "
            f"({source}). Ids? Pass --id-column {name!r}."
        )
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = ~((values >= 0) & (values <= 1))
    if wrong.any():
        raise DataError(
            f"predictions must be probabilities from 0 to 1; got {values[wrong][0]:g} in column {name!r} "
            f"(rows {listed(np.flatnonzero(wrong))} of {source}). Ids? Pass --id-column {name!r}."
        )


def _read_arrays(source: Path) -> dict[str, NDArray[Any]]:
    try:
        # Opened here, since numpy leaves the file open when it is damaged.
        with source.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except (OSError, ValueError, TypeError, EOFError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(
            f"predictions must be readable; got {source.name!r} (truncated, corrupt or with objects: "
            f"{str(error).splitlines()[0]}). Write it anew, without objects."
        ) from error


def _from_arrays(arrays: dict[str, NDArray[Any]], source: str) -> Predictions:
    if "label_names" not in arrays or not {"probs", "draws"} & set(arrays):
        raise DataError(
            f"predictions must hold label_names, and probs or draws; got {listed(arrays) or 'nothing'} ({source}). "
            "Store the arrays under these names."
        )
    names = [str(name) for name in np.atleast_1d(arrays["label_names"])]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise DataError(f"label_names must be unique; got {listed(twice)} more than once ({source}). Rename them.")
    probs, draws = arrays.get("probs"), arrays.get("draws")
    for what, array, shape in (
        ("probs", probs, "(sites, labels)"),
        ("draws", draws, "(draws, sites, labels)"),
    ):
        n_axes = shape.count(",") + 1
        if array is not None and (array.dtype.kind not in "biuf" or array.ndim != n_axes or not array.size):
            raise DataError(
                f"{what} must be numbers of shape {shape}; got {array.dtype} of shape {array.shape} ({source}). "
                "Put the axes in this order."
            )
        if array is not None and array.shape[-1] != len(names):
            raise DataError(
                f"{what} must have a column per label, {len(names)}; got {array.shape[-1]} ({source}). "
                "Name every label once in label_names."
            )
    if draws is not None:
        wrong = ~((draws == 0) | (draws == 1))
        if wrong.any():
            raise DataError(f"draws must be 0 or 1; got {draws[wrong][0]} ({source}). Probabilities belong in probs.")
        if probs is not None and probs.shape != draws.shape[1:]:
            raise DataError(
                f"probs and draws must have the same sites; got {len(probs)} and {draws.shape[1]} ({source})."
            )
    if probs is not None:
        for name, column in zip(names, probs.T, strict=True):
            _check_column(name, pd.Series(column), source)
    table: NDArray[Any] = np.asarray(draws).mean(axis=0, dtype=np.float64) if probs is None else probs
    return Predictions(names, table.astype(np.float64), draws, None, source)


def align_predictions(predictions: Predictions, ids: "pd.Index[Any] | None", n_rows: int) -> Predictions:
    """Bring predictions into the row order of the table that they are compared with.

    ``ids`` are those of the table's rows, where it has the id column of the predictions. Rows that share an id, or are
    in one of the two only, raise a ``DataError``.
    """
    own, source = predictions.ids, predictions.source
    if own is not None and own.name == _ROW_NUMBERS and ids is None:
        ids = pd.Index([str(number) for number in range(n_rows)], name=_ROW_NUMBERS)
    if own is None or ids is None:
        if len(predictions.probs) != n_rows:
            raise DataError(
                f"predictions must have the rows of the table, {n_rows}; got {len(predictions.probs)} ({source}). "
                "Predict the same rows, or join them by --id-column."
            )
        return predictions
    check_unique_ids(ids, own, str(own.name), source)
    missing, strangers = ids.difference(own, sort=False), own.difference(ids, sort=False)
    if len(missing) or len(strangers):
        raise DataError(
            f"ids in column {str(own.name)!r} must be in both tables; got {len(missing)} without predictions "
            f"({listed(missing) or 'none'}) and {len(strangers)} only in {source} ({listed(strangers) or 'none'}). "
            "Correct these ids, or remove their rows."
        )
    return predictions.at_rows(np.asarray(own.get_indexer(ids), dtype=np.intp))


def read_observed(
    predictions: Predictions,
    table: str | Path,
    *,
    label_table: str | Path | None = None,
    id_column: str | None = None,
    presence: bool = False,
    encoding: str = "utf-8",
    decimal: str = ".",
) -> tuple[NDArray[np.float32], Predictions]:
    r"""Read what was observed of the predicted labels, and bring the predictions into its order of rows.

    Parameters
    ----------
    predictions : Predictions
        As read.
    table : path
        Table with a column for every predicted label; other columns are passed over.
    label_table, id_column, presence, encoding, decimal
        Options of tables; see :mod:`hotvae.jobs.table_needs`.

    Returns
    -------
    labels : ndarray of shape (n_samples, n_labels)
        0, 1, or NaN for not observed.
    predictions : Predictions
        For the rows of the labels.

    Raises
    ------
    DataError
        Labels that are not in the table, or rows that cannot be joined.
    """
    source, names = Path(table), predictions.label_names_
    ids: pd.Index[Any] | None = None
    if source.suffix.lower() != ".npz":
        own = None if predictions.ids is None else str(predictions.ids.name)
        reading: Any = {"encoding": encoding, "decimal": decimal, "text_columns": [own or ""]}
        frame = read_frame(source, **reading)
        columns = [str(name) for name in (frame if label_table is None else read_frame(label_table, **reading))]
        missing = [name for name in names if name not in columns]
        if missing:
            others = [name for name in columns if name not in names]
            raise DataError(
                f"table must hold every predicted label; got none for {listed(missing)}{close_names(missing, others)} "
                f"({Path(label_table or source).name}). Rename or remove these columns of {predictions.source}."
            )
        if own is not None and own in frame:
            ids = pd.Index(frame[own].astype("str"), name=own)
        elif own not in (None, _ROW_NUMBERS):
            raise DataError(
                f"table must have the id column of the predictions; got none named {own!r} ({source.name}). "
                f"Add it, or remove it from {predictions.source}."
            )
    needs = TableNeeds([], [], names, id_column=id_column)
    labels = needs.read_labels(source, label_table=label_table, presence=presence, encoding=encoding, decimal=decimal)
    return labels, align_predictions(predictions, ids, len(labels))


# The ecological measures ----------------------------------------------------------------------------------


def draw_independently(probs: NDArray[Any], n_draws: int, seed: int) -> Iterator[NDArray[np.bool_]]:
    """Draw label sets in which every label is drawn by itself; yield blocks of shape (some, n_samples, n_labels)."""
    random = np.random.default_rng(seed)
    size = max(1, _CELLS_PER_BLOCK // max(1, probs.size))
    for start in range(0, n_draws, size):
        yield random.random((min(size, n_draws - start), *probs.shape)) < probs


def score_communities(
    labels: NDArray[Any],
    probs: NDArray[Any],
    draws: NDArray[Any] | Iterable[NDArray[Any]],
    *,
    dialect: str,
    n_pairs: int = 300,
    seed: int = 0,
) -> EcologyScores:
    """Compute the 20 ecological numbers, as :func:`~hotvae.metrics.ecology.all_measures`.

    The seed decides the pairs of sites: models are comparable with the same seed on the same table.
    """
    pairs = site_pairs(len(labels), n_pairs, seed)
    return all_measures(labels, draws=draws, pairs=pairs, probs=probs, dialect=dialect)


def describe_scores(scores: EcologyScores, *, drawn: str, seed: int) -> dict[str, Any]:
    """Put the ecological numbers beside what they depend on: dialect, draws, pairs and directions.

    The result is JSON-able but for NaN; ``drawn`` says how the draws came about.
    """
    return {
        "dialect": scores.dialect,
        "comparable_with": DIALECTS[scores.dialect].comparable_with,
        "n_sites": scores.n_sites,
        "n_species": scores.n_species,
        "n_draws": scores.n_draws,
        "n_pairs": scores.n_pairs,
        "draws": drawn,
        "seed": seed,
        "measures": {
            name: {
                "value": scores[name],
                "level": MEASURES[name].level,
                "better": "higher" if MEASURES[name].greater_is_better else "lower",
            }
            for name in MEASURES
            if name in scores
        },
    }
