"""Labels, predictions and probabilities, checked as all measures want them (:mod:`hotvae.metrics.multilabel`)."""

from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from hotvae.errors import ConfigError, DataError, listed

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Empty = Literal["drop", "one", "zero"]


@dataclass(frozen=True, eq=False)
class LabelCells:
    """Checked labels as two masks.

    Attributes
    ----------
    positive : ndarray of bool, shape (n_samples, n_labels)
        Observed and 1.
    observed : ndarray of bool, shape (n_samples, n_labels)
        Not NaN.
    """

    positive: BoolArray
    observed: BoolArray


def _table(name: str, values: npt.ArrayLike) -> npt.NDArray[Any]:
    try:
        table = np.asarray(values)
        if table.dtype.kind == "O":  # columns of several number types
            table = table.astype(np.float64)
        if table.dtype.kind not in "biuf":
            raise TypeError(f"dtype {table.dtype}")
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{name} must be a dense table of numbers; got {type(values).__name__} ({error}). "
            "Convert it to a float array first, missing values as NaN."
        ) from error
    if table.ndim != 2:
        raise DataError(
            f"{name} must have shape (n_samples, n_labels); got {table.shape}. For a single label use .reshape(-1, 1)."
        )
    if not table.size:
        raise DataError(f"{name} must hold at least one row and one label; got shape {table.shape}.")
    return table


def _refuse_cells(name: str, rule: str, table: npt.NDArray[Any], wrong: BoolArray, remedy: str) -> NoReturn:
    """Raise for the first label with a wrong cell, naming its rows."""
    label = int(wrong.any(axis=0).argmax())
    rows = np.flatnonzero(wrong[:, label])
    raise DataError(
        f"{name} must be {rule}; got {table[rows[0], label]} in label {label} (rows {listed(rows)}). {remedy}"
    )


def _check_shape(name: str, table: npt.NDArray[Any], shape: tuple[int, ...]) -> None:
    if table.shape != shape:
        raise DataError(
            f"{name} must have the shape of labels, {shape}; got {table.shape}. "
            "Give one row per sample and one column per label, in the same order."
        )


def check_labels(labels: npt.ArrayLike) -> LabelCells:
    """Check that labels are 0, 1 or NaN and split them into two masks.

    Parameters
    ----------
    labels : array-like of shape (n_samples, n_labels)
        0, 1, or NaN for a cell that was not observed.

    Returns
    -------
    LabelCells
        Which cells are positive, which are observed.

    Raises
    ------
    DataError
        Not a table, no row, another value, or no observed cell at all.

    Examples
    --------
    >>> check_labels([[1, 0], [np.nan, 1]]).positive.tolist()
    [[True, False], [False, True]]
    """
    table = _table("labels", labels)
    positive = table == 1
    observed = ~np.isnan(table) if table.dtype.kind == "f" else np.ones(table.shape, dtype=bool)
    wrong = observed & ~positive & (table != 0)
    if wrong.any():
        _refuse_cells("labels", "0, 1 or NaN", table, wrong, "Turn counts into presence with labels > 0.")
    if not observed.any():
        raise DataError(
            f"labels must have at least one observed cell; got only NaN (shape {table.shape}). "
            "Choose rows that were surveyed."
        )
    return LabelCells(positive, observed)


def check_probs(probs: npt.ArrayLike, shape: tuple[int, ...] | None = None) -> npt.NDArray[np.floating[Any]]:
    """Check that probabilities are a table of numbers in [0, 1].

    Parameters
    ----------
    probs : array-like of shape (n_samples, n_labels)
        Probabilities.
    shape : tuple of int, optional
        The shape of the labels they belong to.

    Returns
    -------
    ndarray of float
        The same numbers; a float array keeps its dtype and is not copied.

    Raises
    ------
    DataError
        Not a table, another shape, NaN, or a number outside [0, 1].

    Examples
    --------
    >>> check_probs([[0, 1]]).dtype
    dtype('float64')
    """
    table = _table("probs", probs)
    if table.dtype.kind != "f":
        table = table.astype(np.float64)
    if shape is not None:
        _check_shape("probs", table, shape)
    if not (table.min() >= 0 and table.max() <= 1):  # NaN fails both
        wrong = ~((table >= 0) & (table <= 1))
        _refuse_cells("probs", "between 0 and 1", table, wrong, "Logits? Apply the sigmoid first.")
    return table


def check_predictions(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> tuple[LabelCells, BoolArray]:
    """Return the labels' masks and the predicted, observed cells."""
    cells = check_labels(labels)
    table = _table("predictions", predictions)
    _check_shape("predictions", table, cells.positive.shape)
    predicted = table == 1
    wrong = ~predicted & (table != 0)
    if wrong.any():
        remedy = "Turn probabilities into 0/1 with apply_thresholds."
        _refuse_cells("predictions", "0 or 1", table, wrong, remedy)
    return cells, predicted & cells.observed


def check_probs_of(labels: npt.ArrayLike, probs: npt.ArrayLike) -> tuple[LabelCells, npt.NDArray[np.floating[Any]]]:
    """Return the labels' masks and their probabilities."""
    cells = check_labels(labels)
    return cells, check_probs(probs, cells.positive.shape)


_EMPTY_ROW = {"drop": np.nan, "one": 1.0, "zero": 0.0}


def check_empty(empty: str) -> float:
    """Return what a row with no true and no predicted label counts as: 1, 0, or NaN to be dropped."""
    if empty not in _EMPTY_ROW:
        raise ConfigError(f"empty must be one of {listed(_EMPTY_ROW)}; got {empty!r}.")
    return _EMPTY_ROW[empty]
