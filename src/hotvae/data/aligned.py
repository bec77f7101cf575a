"""The columns a trained model needs, found in a new table and brought into its order."""

import os
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from scipy import sparse

from hotvae.data.columns import check_present, column_order, row_ids
from hotvae.data.dataset import FeatureKind, feature_kinds
from hotvae.data.frames import file_kind, read_frame, read_npz
from hotvae.errors import DataError, listed


def read_features(
    path: str | os.PathLike[str],
    *,
    feature_names: Sequence[str],
    kinds: Sequence[FeatureKind] | None = None,
    ignore: Iterable[str] = (),
    ignore_unknown: bool = False,
    id_column: str | None = None,
    encoding: str = "utf-8",
    decimal: str = ".",
) -> pd.DataFrame | sparse.csr_array:
    r"""Read the features a trained model needs, in its order.

    Parameters
    ----------
    path : path-like
        A table, as in `read_frame`; or an npz, dense or sparse.
    feature_names : sequence of str
        Columns the model was trained on.
    kinds : sequence of {"numeric", "categorical"}, optional
        Kind of each of them in training; default: all numeric.
    ignore : iterable of str
        Columns that may be there and are not used, such as labels, coordinates and groups.
    ignore_unknown : bool
        Pass over all other columns as well, instead of refusing them.
    id_column : str, optional
        Column that becomes the index of the returned frame.
    encoding, decimal : str
        See `read_frame`.

    Returns
    -------
    DataFrame or csr_array
        One column per feature; sparse for a sparse npz.

    Raises
    ------
    DataError
        Missing or unknown columns, or text where the model expects numbers.
    """
    source, kind = file_kind(path)
    expected: Sequence[FeatureKind] = kinds if kinds is not None else ["numeric"] * len(feature_names)
    if kind == ".npz":
        table = read_npz(source)
        order = column_order(table.feature_names, feature_names, ignore, ignore_unknown)
        if isinstance(table.features, np.ndarray):
            rows = None if id_column is None else pd.Index(table.rows(id_column), name=id_column)
            return pd.DataFrame(table.features[:, order], columns=list(feature_names), index=rows)
        return sparse.csr_array(table.features[:, order])
    categorical = [name for name, expects in zip(feature_names, expected, strict=True) if expects == "categorical"]
    text_columns = [*categorical, *([] if id_column is None else [id_column])]
    frame = read_frame(source, encoding=encoding, decimal=decimal, text_columns=text_columns)
    ids = None
    if id_column is not None:
        check_present([id_column], [str(column) for column in frame.columns])
        ids = pd.Index(row_ids(frame, id_column), name=id_column)
        ignore = {*ignore, id_column}
    aligned = align_columns(frame, feature_names, ignore=ignore, ignore_unknown=ignore_unknown)
    check_kinds(aligned, expected)
    return aligned if ids is None else aligned.set_axis(ids, axis=0)


def align_columns(
    frame: pd.DataFrame,
    feature_names: Sequence[str],
    ignore: Iterable[str] = (),
    ignore_unknown: bool = False,
) -> pd.DataFrame:
    """Select and order the columns of a frame by name.

    Parameters
    ----------
    frame : DataFrame
        Columns in any order.
    feature_names : sequence of str
        Columns wanted, in the order wanted.
    ignore : iterable of str
        Other columns that may be there.
    ignore_unknown : bool
        Pass over all other columns.

    Returns
    -------
    DataFrame
        Exactly `feature_names`.

    Raises
    ------
    DataError
        Naming the columns that are missing or unknown.
    """
    columns = [str(column) for column in frame.columns]
    order = column_order(columns, feature_names, ignore, ignore_unknown)
    return frame.iloc[:, order].set_axis(list(feature_names), axis=1)


def check_kinds(frame: pd.DataFrame, kinds: Sequence[FeatureKind]) -> None:
    """Refuse text in columns that were numbers in training.

    Parameters
    ----------
    frame : DataFrame
        Features in the order of training.
    kinds : sequence of {"numeric", "categorical"}
        Kind of each column in training; numbers in a categorical column are taken as level names.

    Raises
    ------
    DataError
        Naming column, rows and cells.
    """
    for expects, is_now, (name, column) in zip(kinds, feature_kinds(frame), frame.items(), strict=True):
        if expects == "numeric" and is_now == "categorical":
            numbers = pd.to_numeric(column.astype("str"), errors="coerce")
            wrong = np.flatnonzero(numbers.isna().to_numpy() & column.notna().to_numpy())
            cells = column.iloc[wrong].unique() if wrong.size else column.dropna().unique()
            raise DataError(
                f"column {str(name)!r} must hold numbers, as in training; got text {listed(cells)} "
                f"(rows {listed(wrong)}). Correct these cells, or leave them empty for missing."
            )
