"""Cells of label columns as 0, 1 or NaN: numbers, words, counts."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from hotvae.data.columns import parsed
from hotvae.data.dataset import checked_labels, text_levels
from hotvae.data.long import WORDS
from hotvae.errors import DataError, listed, option


def label_table(columns: pd.DataFrame, presence: bool = False) -> NDArray[np.float32]:
    """Return the labels of a table by the rules of training: 0, 1, or NaN for not observed.

    Parameters
    ----------
    columns : DataFrame
        A column a label.
    presence : bool
        Labels are counts; any above 0 is 1.

    Raises
    ------
    DataError
        Naming column, rows and cells that are something else.
    """
    return checked_labels(label_values(columns, presence), [str(name) for name in columns])


def label_values(columns: pd.DataFrame, presence: bool) -> NDArray[np.float64]:
    """Labels as numbers; that they are 0 or 1 is checked by the data set."""
    dense = sparse_accessor(columns).to_dense() if is_sparse(columns) else columns
    values = np.empty(dense.shape, dtype=np.float64)
    for i, (name, column) in enumerate(dense.items()):
        if is_numeric_dtype(column) or is_bool_dtype(column):
            values[:, i] = column.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            values[:, i] = _numbers_of_text(str(name), column, presence)
    if not presence:
        return values
    endless = np.isinf(values)
    if endless.any():
        first = int(np.flatnonzero(endless.any(axis=0))[0])
        raise DataError(
            f"counts must be finite; got infinity in column {str(dense.columns[first])!r} "
            f"(rows {listed(np.flatnonzero(endless[:, first]))}). Correct these cells."
        )
    negative = values < 0
    if negative.any():
        first = int(np.flatnonzero(negative.any(axis=0))[0])
        rows = np.flatnonzero(negative[:, first])
        raise DataError(
            f"counts must be 0 or more; got {values[rows[0], first]} in column {str(dense.columns[first])!r} "
            f"(rows {listed(rows)}). Correct these cells."
        )
    return np.where(np.isnan(values), np.nan, values > 0)


def _numbers_of_text(name: str, column: "pd.Series[Any]", presence: bool) -> NDArray[np.float64]:
    codes, levels = text_levels(column)
    words = WORDS if presence else {"true": 1.0, "false": 0.0}
    numbers = np.array([words.get(level.strip().lower(), parsed(level)) for level in levels] + [np.nan])
    wrong = np.flatnonzero(np.isnan(numbers[:-1]))
    if wrong.size:
        texts = [levels[i] for i in wrong]
        counts = option("presence", True, " Counts with X for present? Pass {}.") if {"x", "X"} & set(texts) else ""
        raise DataError(
            f"labels must be 0 or 1; got text {listed(texts)} in column {name!r} "
            f"(rows {listed(np.flatnonzero(np.isin(codes, wrong)))}). "
            f"Recode it as 1 and 0, empty for not observed.{counts}"
        )
    return np.asarray(numbers[codes], dtype=np.float64)  # code -1, missing, takes the last: NaN


def sparse_accessor(frame: Any) -> Any:
    """Return what pandas offers for sparse columns."""
    return frame.sparse  # the published types of pandas do not know it


def is_sparse(columns: pd.DataFrame) -> bool:
    """Tell whether all columns are sparse."""
    return bool(len(columns.columns)) and all(isinstance(dtype, pd.SparseDtype) for dtype in columns.dtypes)
