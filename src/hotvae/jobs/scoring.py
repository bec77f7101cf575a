"""Predictions of any model, read from a file and judged by what was observed; the ecological measures of both.

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
from hotvae.data.frames import read_frame
from hotvae.errors import DataError, listed
from hotvae.estimators.base import LabelClassifier
from hotvae.jobs.predict import TableNeeds
from hotvae.metrics.ecology import DIALECTS, MEASURES, EcologyScores, all_measures, site_pairs

# Cells of a block of draws, as in the draws of models.
_CELLS_PER_BLOCK = 1 << 23
_SUFFIXES = (".csv", ".tsv", ".tab", ".txt", ".gz", ".parquet", ".pq", ".npz")
# What `hotvae predict` calls the column of row numbers where a table has no ids.
_ROW_NUMBERS = "row"


@dataclass(frozen=True)
class Predictions:
    """Predictions of a model that need not be known, by the names of labels.

    Attributes
    ----------
    label_names_ : list of str
        Labels, in the order of the columns.
    probs : ndarray of shape (n_samples, n_labels)
        Probabilities; the mean of the draws where the file has draws only.
    draws : ndarray of shape (n_draws, n_samples, n_labels) or None
        Whole label sets, 0 and 1.
    ids : Index or None
        Ids of the rows; None where rows are known by their order.
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
    """Tell a file of predictions from the folder of a model, by what is there or by its name.

    Parameters
    ----------
    path : path
        What the user named.

    Returns
    -------
    bool

    Examples
    --------
    >>> is_prediction_file("probs.csv"), is_prediction_file("my_model")
    (True, False)
    """
    source = Path(path)
    return source.is_file() or (not source.exists() and source.suffix.lower() in _SUFFIXES)


def read_predictions(
    path: str | Path, *, id_column: str | None = None, encoding: str = "utf-8", decimal: str = "."
) -> Predictions:
    r"""Read the predictions of any model.

    Parameters
    ----------
    path : path
        CSV, TSV or Parquet with one column of probabilities per label; or npz with ``label_names`` and ``probs``,
        ``draws`` or both.
    id_column : str, optional
        Column of ids; a column ``row`` of row numbers needs no naming.
    encoding, decimal : str
        Of text files.

    Returns
    -------
    Predictions

    Raises
    ------
    DataError
        Columns that are no probabilities, or arrays that do not fit together.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "probs.csv"
    >>> _ = path.write_text("row,wren,owl\n0,0.25,0.5\n1,0.75,1\n")
    >>> read_predictions(path).label_names_
    ['wren', 'owl']
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
    labels = [name for name in columns if name != joined_by]
    if not labels:
        raise DataError(
            f"predictions must have a column per label; got {listed(columns)} only ({source.name}). Add the labels."
        )
    for name in labels:
        _check_column(name, frame[name], source.name)
    ids = None if joined_by is None else pd.Index(frame[joined_by].astype("str"), name=joined_by)
    return Predictions(labels, frame[labels].to_numpy(dtype=np.float64), None, ids, source.name)


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
            f"{str(error).splitlines()[0]}). Write it anew with numpy.savez."
        ) from error


def _from_arrays(arrays: dict[str, NDArray[Any]], source: str) -> Predictions:
    if "label_names" not in arrays or not {"probs", "draws"} & set(arrays):
        raise DataError(
            f"predictions must hold label_names, and probs or draws; got {listed(arrays) or 'nothing'} ({source}). "
            "Write them with numpy.savez(path, probs=..., draws=..., label_names=...)."
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

    Parameters
    ----------
    predictions : Predictions
        As read.
    ids : Index or None
        Ids of the table's rows, where it has the id column of the predictions.
    n_rows : int
        Rows of the table.

    Returns
    -------
    Predictions

    Raises
    ------
    DataError
        Rows that cannot be told apart, or are in one of the two only.

    Examples
    --------
    >>> read = Predictions(["wren"], np.array([[0.1], [0.9]]), None, pd.Index(["b", "a"], name="site"), "p.csv")
    >>> align_predictions(read, pd.Index(["a", "b"], name="site"), 2).probs.ravel()
    array([0.9, 0.1])
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
    for what, index in (("table", ids), (source, own)):
        if not index.is_unique:
            raise DataError(
                f"ids must be unique to join tables; got {listed(index[index.duplicated()].unique())} more than once "
                f"(column {str(own.name)!r} of the {what}). Merge or remove the repeated rows."
            )
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
    label_table : path, optional
        Second table with the labels, joined by the id column.
    id_column : str, optional
        Ids of the rows.
    presence : bool
        Labels are counts.
    encoding, decimal : str
        Of text files.

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

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "sites.csv"
    >>> _ = path.write_text("depth,owl,wren\n1.5,1,0\n2.5,0,\n")
    >>> labels, _ = read_observed(Predictions(["wren", "owl"], np.full((2, 2), 0.5), None, None, "p.csv"), path)
    >>> labels
    array([[ 0.,  1.],
           [nan,  0.]], dtype=float32)
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
    """Draw label sets in which every label is drawn by itself.

    Parameters
    ----------
    probs : ndarray of shape (n_samples, n_labels)
        Probabilities.
    n_draws : int
        Label sets for each row.
    seed : int
        Decides the draws.

    Yields
    ------
    ndarray of bool of shape (some draws, n_samples, n_labels)

    Examples
    --------
    >>> next(draw_independently(np.array([[0.0, 1.0]]), 2, seed=0)).tolist()
    [[[False, True]], [[False, True]]]
    """
    random = np.random.default_rng(seed)
    size = max(1, _CELLS_PER_BLOCK // max(1, probs.size))
    for start in range(0, n_draws, size):
        yield random.random((min(size, n_draws - start), *probs.shape)) < probs


def draws_jointly(model: LabelClassifier) -> bool:
    """Say whether labels depend on each other in the draws of a model.

    Parameters
    ----------
    model : LabelClassifier
        Fitted or not.

    Returns
    -------
    bool

    Examples
    --------
    >>> from hotvae import HotVAEClassifier, PlainNetClassifier
    >>> draws_jointly(HotVAEClassifier()), draws_jointly(PlainNetClassifier())
    (True, False)
    """
    return type(model)._draw_blocks is not LabelClassifier._draw_blocks


def score_communities(
    labels: NDArray[Any],
    probs: NDArray[Any],
    draws: NDArray[Any] | Iterable[NDArray[Any]],
    *,
    dialect: str,
    n_pairs: int = 300,
    seed: int = 0,
) -> EcologyScores:
    """Compute the 20 ecological numbers.

    Parameters
    ----------
    labels, probs : ndarray of shape (n_sites, n_species)
        What was observed (NaN: not), and what was predicted.
    draws : ndarray of shape (n_draws, n_sites, n_species), or iterable of blocks of them
        Communities of 0 and 1.
    dialect : {"gomes", "norberg", "text"}
        Whose definitions to follow.
    n_pairs : int
        Pairs of sites.
    seed : int
        Decides the pairs: models are comparable with the same seed on the same table.

    Returns
    -------
    EcologyScores

    Raises
    ------
    ConfigError, DataError
        As :func:`~hotvae.metrics.ecology.all_measures`.

    Examples
    --------
    >>> labels = np.array([[1, 0], [0, 1], [1, 1]])
    >>> probs = np.array([[0.9, 0.2], [0.1, 0.7], [0.8, 0.8]])
    >>> scores = score_communities(labels, probs, draw_independently(probs, 50, seed=0), dialect="gomes")
    >>> len(scores), scores.n_draws, scores.n_pairs
    (20, 50, 300)
    """
    pairs = site_pairs(len(labels), n_pairs, seed)
    return all_measures(labels, draws=draws, pairs=pairs, probs=probs, dialect=dialect)


def describe_scores(scores: EcologyScores, *, drawn: str, seed: int) -> dict[str, Any]:
    """Put the ecological numbers with all that tells what they are: dialect, draws, pairs and directions.

    Parameters
    ----------
    scores : EcologyScores
        From :func:`score_communities`.
    drawn : str
        How the draws came about.
    seed : int
        Of draws and pairs.

    Returns
    -------
    dict
        JSON-able but for NaN.

    Examples
    --------
    >>> scores = all_measures([[1, 0], [0, 1]], probs=[[0.8, 0.3], [0.4, 0.9]])
    >>> describe_scores(scores, drawn="none", seed=0)["measures"]["occ_discrimination"]
    {'value': 1.0, 'level': 'occurrence', 'better': 'higher'}
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
