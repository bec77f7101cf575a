"""Labels that are known beforehand, as a user hands them over: a whole table, some named columns, or a mapping."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hotvae.data.dataset import close_names
from hotvae.errors import DataError, DataWarning, listed


def whole_given(given: Any, label_names: Sequence[str], n_rows: int, is_named: bool = True) -> Any:
    """Fill up given labels that have names to a table of all labels; what has none is returned as it is.

    Parameters
    ----------
    given : mapping of str to value or array, DataFrame, or array
        Some labels by name, in any order: a mapping holds one value for all rows or one for each row, a frame a column
        for each. An array has a column for every label.
    label_names : sequence of str
        All labels of the model, in its order.
    n_rows : int
        Rows that are predicted.
    is_named : bool
        Whether the labels had names in training. Where they had none, a frame whose columns are only numbered is taken
        as an array is.

    Returns
    -------
    DataFrame or array
        Of all labels; NaN where nothing is given.

    Raises
    ------
    DataError
        A name that is no label of the model, a name twice, or no name at all.

    Examples
    --------
    >>> whole_given({"wren": 1}, ["owl", "wren"], n_rows=2)
       owl  wren
    0  NaN     1
    1  NaN     1
    """
    if not isinstance(given, Mapping | pd.DataFrame):
        return given
    columns = list(given)
    if not is_named and isinstance(given, pd.DataFrame) and columns == list(range(len(columns))):
        return given.to_numpy()
    names = [str(name) for name in columns]
    unknown = [name for name in names if name not in set(label_names)]
    if unknown:
        hint = "" if is_named else " Its labels had no names: train on a DataFrame or Dataset, or give them by number."
        raise DataError(
            f"given must name labels of the model; got {listed(unknown)}"
            f"{close_names(unknown, label_names) or f' (labels: {listed(label_names)})'}. Check the spelling.{hint}"
        )
    if not names or len(set(names)) < len(names):
        found = listed(names) or "no name"
        raise DataError(f"given must name each label once, and one at least; got {found}. Correct the names.")
    if isinstance(given, pd.DataFrame):
        rows, values = len(given), {name: given.iloc[:, i].to_numpy() for i, name in enumerate(names)}
    else:
        rows = n_rows
        values = {name: _column(name, given[column], n_rows) for name, column in zip(names, columns, strict=True)}
    if rows and all(pd.isna(column).all() for column in values.values()):
        # What pandas makes of a name that is not among the columns it was told to have.
        warnings.warn(
            "given should hold a known label; got none: every value is missing. Pass a mapping such as "
            f"given={{{label_names[0]!r}: 1}}; it refuses names that are not known.",
            DataWarning,
            stacklevel=5,
        )
    empty = np.full(rows, np.nan)
    return pd.DataFrame({name: values.get(name, empty) for name in label_names})


def _column(name: str, value: Any, n_rows: int) -> NDArray[Any]:
    """One value for all rows, or one for each; None is not given."""
    column = np.asarray(value)
    if column.dtype == object:
        column = np.where(pd.isna(column), np.nan, column)
    if column.ndim == 0:
        return np.full(n_rows, column[()])
    if column.shape != (n_rows,):
        raise DataError(
            f"given must hold one value for each of the {n_rows} rows of X, or one for all; got shape {column.shape} "
            f"for {name!r}. Use NaN for unknown labels."
        )
    return column
