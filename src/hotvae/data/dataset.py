"""The data set: features, labels, places and groups of the same rows, checked once, when it is built.

Rows are counted from 0 in every message.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from pandas.api.types import (
    infer_dtype,
    is_bool_dtype,
    is_complex_dtype,
    is_numeric_dtype,
    is_object_dtype,
    is_string_dtype,
)
from scipy import sparse

from hotvae.errors import DataError, DataWarning, listed, option

FeatureTable: TypeAlias = NDArray[Any] | sparse.csr_array | pd.DataFrame
FeatureKind: TypeAlias = Literal["numeric", "categorical"]


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Dataset:
    """Features and labels of the same rows, with names, places and groups.

    Parameters
    ----------
    features : ndarray of shape (n_samples, n_features), sparse array or DataFrame
        A float array (NaN = missing), a sparse array (kept as CSR; no NaN) or a frame with numeric and
        categorical (text, category, bool) columns.
    labels : array-like or DataFrame of shape (n_samples, n_labels)
        0, 1 or NaN (not observed); kept as float32. A 1-D array is one label.
    feature_names, label_names : sequence of str
        Taken from a frame's columns, or made up (``feature_0``, ``label_0``, ...), when omitted.
    coordinates : array-like of shape (n_samples, 2), optional
        Where the rows are; finite.
    coordinate_names : sequence of str
        Names of the two coordinates.
    groups : array-like of shape (n_samples,), optional
        Rows that belong together, such as visits of one site.
    row_names : array-like of shape (n_samples,), optional
        Ids of the rows.
    name : str
        Name of the data set, for reports.

    Raises
    ------
    DataError
        Empty, ragged, infinite, all-missing or wrongly labelled data; the message names column and rows.

    Examples
    --------
    >>> data = Dataset([[2.0, 1.5], [3.0, float("nan")]], [[0, 1], [1, 1]], label_names=("wren", "robin"))
    >>> data
    Dataset: 2 rows × 2 features × 2 labels (label density 0.75, missing: 1 feature values, 0 labels)
    >>> data.take([1]).labels
    array([[1., 1.]], dtype=float32)
    """

    features: FeatureTable
    labels: NDArray[Any]
    feature_names: tuple[str, ...] = ()
    label_names: tuple[str, ...] = ()
    coordinates: NDArray[np.float64] | None = None
    coordinate_names: tuple[str, str] = ("x", "y")
    groups: NDArray[Any] | None = None
    row_names: NDArray[Any] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        features, feature_names = as_feature_table(self.features, self.feature_names)
        raw_labels, label_names = _label_matrix(self.labels, self.label_names)
        n_samples = int(features.shape[0])
        if n_samples == 0:
            raise DataError("table must have at least 1 row; got 0 rows (empty table). Check file and filter.")
        for what, count in (("feature", features.shape[1]), ("label", raw_labels.shape[1])):
            if count == 0:
                raise DataError(f"table must have at least 1 {what} column; got 0 {what}s. Choose some columns.")
        _check_names("feature_names", feature_names, int(features.shape[1]))
        _check_names("label_names", label_names, raw_labels.shape[1])
        _check_length("labels", len(raw_labels), n_samples)
        labels = checked_labels(raw_labels, label_names)
        _check_features(features, feature_names)
        coordinates, coordinate_names = self._checked_coordinates(n_samples)
        groups = _row_vector("groups", self.groups, n_samples)
        row_names = _row_vector("row_names", self.row_names, n_samples)
        # A frozen dataclass is filled through object.__setattr__; nothing is set after this line.
        for field, value in (
            ("features", features),
            ("labels", labels),
            ("feature_names", feature_names),
            ("label_names", label_names),
            ("coordinates", coordinates),
            ("coordinate_names", coordinate_names),
            ("groups", groups),
            ("row_names", row_names),
        ):
            object.__setattr__(self, field, value)

    def _checked_coordinates(self, n_samples: int) -> tuple[NDArray[np.float64] | None, tuple[str, str]]:
        names = tuple(str(name) for name in self.coordinate_names)
        if len(names) != 2 or names[0] == names[1]:
            raise DataError(f"coordinate_names must be 2 different names; got {listed(names)}. Name x, then y.")
        if self.coordinates is None:
            return None, names
        try:
            coordinates = np.asarray(self.coordinates, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"coordinates must be numbers; got {error}. Correct these cells.") from None
        if coordinates.shape != (n_samples, 2):
            raise DataError(f"coordinates must have shape ({n_samples}, 2); got {coordinates.shape}. One x, y per row.")
        if not np.isfinite(coordinates).all():
            rows = np.flatnonzero(~np.isfinite(coordinates).all(axis=1))
            raise DataError(
                f"coordinates must be finite; got {coordinates[rows[0]].tolist()} (rows {listed(rows)}). "
                "Fill in or remove these rows."
            )
        return coordinates, names

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return len(self.labels)

    @property
    def n_features(self) -> int:
        """Number of feature columns."""
        return len(self.feature_names)

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.label_names)

    def take(self, rows: ArrayLike | slice) -> "Dataset":
        """Choose rows, in the given order.

        Parameters
        ----------
        rows : array-like of int or bool, or slice
            Row numbers, or a mask over all rows.

        Returns
        -------
        Dataset
            The chosen rows; not checked again, so a column may be all missing there.
        """
        if not isinstance(rows, slice):
            rows = np.asarray(rows)
            rows = rows.astype(np.intp) if rows.size == 0 else rows
        index = np.arange(self.n_samples)[rows]
        features = self.features
        return self._with(
            features=features.take(index).reset_index(drop=True)
            if isinstance(features, pd.DataFrame)
            else features[index],
            labels=self.labels[index],
            coordinates=None if self.coordinates is None else self.coordinates[index],
            groups=None if self.groups is None else self.groups[index],
            row_names=None if self.row_names is None else self.row_names[index],
        )

    def with_coordinates_as_features(self) -> "Dataset":
        """Return the data with the two coordinates as further features; they stay coordinates, too.

        Returns
        -------
        Dataset

        Raises
        ------
        DataError
            No coordinates, or features that are not a dense table.

        Examples
        --------
        >>> data = Dataset([[1.0]], [[0]], feature_names=("depth",), coordinates=[[7.0, 50.0]])
        >>> data.with_coordinates_as_features().feature_names
        ('depth', 'x', 'y')
        """
        if self.coordinates is None:
            raise DataError(
                f"coordinates must be there to be features; got none ({self.name or 'data set'}). "
                "Leave coordinates_as_features out."
            )
        names = self.coordinate_names
        if isinstance(self.features, pd.DataFrame):
            extra = pd.DataFrame(self.coordinates, columns=list(names), index=self.features.index)
            features: Any = pd.concat([self.features, extra], axis=1)
        elif isinstance(self.features, np.ndarray):
            features = np.column_stack([self.features, self.coordinates])
        else:
            raise DataError(
                "features must be a dense table to take coordinates; got a sparse one. "
                "Leave coordinates_as_features out."
            )
        return replace(self, features=features, feature_names=(*self.feature_names, *names))

    def drop_labels(self, names: Iterable[str]) -> "Dataset":
        """Leave out labels.

        Parameters
        ----------
        names : iterable of str
            Labels to leave out; at least one other must remain.

        Returns
        -------
        Dataset
            The same rows and features with fewer labels.

        Raises
        ------
        DataError
            A name that is no label, or no label left.

        Examples
        --------
        >>> data = Dataset([[1.0], [2.0]], [[0, 1], [0, 0]], label_names=("owl", "wren"))
        >>> data.drop_labels(["owl"]).label_names
        ('wren',)
        """
        unwanted = {names} if isinstance(names, str) else set(names)
        unknown = sorted(unwanted - set(self.label_names))
        if unknown:
            raise DataError(
                f"names must be labels of this data set; got {listed(unknown)}"
                f"{close_names(unknown, self.label_names)}. See dataset.label_names."
            )
        kept = [i for i, name in enumerate(self.label_names) if name not in unwanted]
        if not kept:
            raise DataError("at least 1 label must remain; got all of them to drop (0 labels left). Keep some.")
        return self._with(labels=self.labels[:, kept], label_names=tuple(self.label_names[i] for i in kept))

    def _with(self, **changes: Any) -> "Dataset":
        """Copy with changes and without repeating the checks."""
        copy = object.__new__(Dataset)
        for field in fields(self):
            object.__setattr__(copy, field.name, changes.get(field.name, getattr(self, field.name)))
        return copy

    def __repr__(self) -> str:
        observed = ~np.isnan(self.labels)
        density = f"{float(self.labels[observed].mean()):.3g}" if observed.any() else "unknown"
        n_missing = int(_missing_counts(self.features).sum())
        return (
            f"Dataset{f' {self.name!r}' if self.name else ''}: {self.n_samples} rows × "
            f"{self.n_features} features × {self.n_labels} labels (label density {density}, "
            f"missing: {n_missing} feature values, {int((~observed).sum())} labels)"
        )


def single_class_labels(dataset: Dataset) -> dict[str, int | None]:
    """Find labels that have a single class among their observed rows.

    Parameters
    ----------
    dataset : Dataset
        Rows to look at; usually the training rows.

    Returns
    -------
    dict of str to int or None
        The only class of each such label, None where no row is observed.
    """
    has_zero, has_one = (dataset.labels == 0).any(axis=0), (dataset.labels == 1).any(axis=0)
    return {
        dataset.label_names[i]: 1 if has_one[i] else 0 if has_zero[i] else None
        for i in np.flatnonzero(~(has_zero & has_one))
    }


def check_trainable(dataset: Dataset, single: Mapping[str, int | None] | None = None) -> None:
    """Refuse rows that nothing can be learned from.

    Parameters
    ----------
    dataset : Dataset
        The training rows.
    single : mapping, optional
        As :func:`single_class_labels` returns it, where the data set is a part of all training rows.

    Raises
    ------
    DataError
        Fewer than 2 rows, or a label with 1 class among its observed rows.
    """
    if dataset.n_samples < 2:
        raise DataError(f"training needs at least 2 rows; got {dataset.n_samples} row. Add rows to the table.")
    single = single_class_labels(dataset) if single is None else single
    if single:
        prevalence = ["not observed" if only is None else f"prevalence {only}" for only in single.values()]
        raise DataError(
            f"labels must have both classes among the training rows; got 1 class in {listed(single)} "
            f"({', '.join(prevalence[:5])}). Drop them: {option('drop_single_class', True)}."
        )


def feature_kinds(features: FeatureTable) -> tuple[FeatureKind, ...]:
    """Tell numeric from categorical columns.

    Parameters
    ----------
    features : ndarray, sparse array or DataFrame
        Booleans count as numeric; text and category columns are categorical.

    Returns
    -------
    tuple of {"numeric", "categorical"}
        One kind per column.

    Raises
    ------
    DataError
        A column of dates, mixed types or other objects.
    """
    if not isinstance(features, pd.DataFrame):
        return tuple("numeric" for _ in range(int(features.shape[1])))
    return tuple(_kind(str(name), column) for name, column in features.items())


def _kind(name: str, column: "pd.Series[Any]") -> FeatureKind:
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return "categorical"
    if is_bool_dtype(dtype) or (is_numeric_dtype(dtype) and not is_complex_dtype(dtype)):
        return "numeric"
    if not is_object_dtype(dtype):
        if is_string_dtype(dtype):
            return "categorical"
        found, remedy = (
            str(dtype),
            "Turn dates into numbers (such as the day of the year), or drop the column.",
        )
    else:
        found = infer_dtype(column, skipna=True)
        if found in ("string", "empty"):
            return "categorical" if found == "string" else "numeric"
        if found == "boolean":
            return "numeric"
        remedy = "Make all its cells numbers, or all of them text, or drop the column."
    raise DataError(f"feature columns must be numbers, text or bool; got {found} in column {name!r}. {remedy}")


def numeric_matrix(frame: pd.DataFrame) -> NDArray[np.float64]:
    """Turn numeric and bool columns into one float array, missing values into NaN.

    Parameters
    ----------
    frame : DataFrame
        Columns of kind ``"numeric"`` (see `feature_kinds`).

    Returns
    -------
    ndarray of shape (n_samples, n_columns)
        64-bit floats.
    """
    values = np.empty(frame.shape, dtype=np.float64)
    for i, (_, column) in enumerate(frame.items()):
        # Booleans with gaps come as objects; "boolean" reads them all.
        known = column.astype("boolean") if is_object_dtype(column.dtype) else column
        values[:, i] = known.to_numpy(dtype=np.float64, na_value=np.nan)
    return values


def text_levels(column: "pd.Series[Any]") -> tuple[NDArray[np.intp], list[str]]:
    """Split a column into level numbers and level names.

    Parameters
    ----------
    column : Series
        Text, category, bool or numeric; whole numbers are named without a decimal point, so that ``1.0``
        in one file and ``1`` in another are the same level.

    Returns
    -------
    codes : ndarray of shape (n_samples,)
        Which level each row has; -1 = missing.
    levels : list of str
        Level names, in order of appearance.
    """
    codes, levels = pd.factorize(column)
    return codes, [
        str(int(level)) if isinstance(level, float) and level.is_integer() else str(level) for level in levels
    ]


def as_feature_table(features: Any, names: Sequence[str] = ()) -> tuple[FeatureTable, tuple[str, ...]]:
    """Bring features into one of the three forms the package works with.

    Parameters
    ----------
    features : array-like, sparse array or matrix, or DataFrame
        Two-dimensional; anything numpy turns into numbers.
    names : sequence of str
        Column names; a frame brings its own.

    Returns
    -------
    features : ndarray of float, csr_array or DataFrame
        32- and 64-bit floats are kept as they are; frames get text names and a plain index.
    names : tuple of str
        One per column.

    Raises
    ------
    DataError
        Not two-dimensional, not numeric, or names that contradict a frame's columns.
    """
    given = tuple(str(name) for name in names)
    if isinstance(features, pd.DataFrame):
        columns = tuple(str(name) for name in features.columns)
        if given and given != columns:
            raise DataError(
                f"feature_names must equal the frame's columns; got {listed(given)} for {listed(columns)}. "
                "Leave feature_names out, or rename the columns."
            )
        if list(features.columns) != list(columns) or not isinstance(features.index, pd.RangeIndex):
            features = features.set_axis(list(columns), axis=1).reset_index(drop=True)
        return features, columns
    if sparse.issparse(features):
        table: FeatureTable = _canonical_csr(features)
    else:
        table = _float_array(features, "features")
    if table.ndim != 2:
        raise DataError(
            f"features must be a table with 2 dimensions; got {table.ndim}. "
            "Reshape your data: features.reshape(-1, 1) makes one column, features.reshape(1, -1) one row."
        )
    return table, given or tuple(f"feature_{i}" for i in range(int(table.shape[1])))


def check_finite(features: FeatureTable, names: Sequence[str]) -> None:
    """Refuse infinite values, and NaN in sparse arrays.

    Parameters
    ----------
    features : ndarray, csr_array or DataFrame
        Numeric columns of a frame are checked, the others cannot be infinite.
    names : sequence of str
        Column names for the message.

    Raises
    ------
    DataError
        Naming the first column concerned and its rows.
    """
    if isinstance(features, pd.DataFrame):
        kinds = feature_kinds(features)
        numeric = [i for i, kind in enumerate(kinds) if kind == "numeric"]
        check_finite(numeric_matrix(features.iloc[:, numeric]), [names[i] for i in numeric])
    elif isinstance(features, np.ndarray):
        infinite = np.isinf(features)
        if infinite.any():
            columns = np.flatnonzero(infinite.any(axis=0))
            rows = np.flatnonzero(infinite[:, columns[0]])
            raise DataError(
                f"features must be finite; got {features[rows[0], columns[0]]} (infinity) "
                f"{_where(names, columns, rows)}. Correct these cells, or leave them empty for missing."
            )
    else:
        bad = np.flatnonzero(~np.isfinite(features.data))
        if bad.size:
            columns = np.unique(features.indices[bad])
            first = bad[features.indices[bad] == columns[0]]
            rows = np.searchsorted(features.indptr, first, side="right") - 1
            raise DataError(
                f"sparse features must be finite; got {features.data[first[0]]} (no NaN, no infinity) "
                f"{_where(names, columns, rows)}. Correct these cells, or give a dense array."
            )


def close_names(wanted: Iterable[str], columns: Iterable[str]) -> str:
    """Suggest what a mistyped name may have meant; empty when nothing is close.

    Parameters
    ----------
    wanted : iterable of str
        Names that were not found.
    columns : iterable of str
        Names there are.

    Returns
    -------
    str
        Words to put right behind the wrong name in a message.
    """
    there = list(columns)
    close = dict.fromkeys(match for name in list(wanted)[:5] for match in get_close_matches(name, there, n=3))
    return f" (close: {listed(close)})" if close else ""


def _canonical_csr(features: Any) -> sparse.csr_array:
    """CSR with sorted, unique entries of float type; the caller's array is never changed."""
    table = sparse.csr_array(features)
    if table.dtype not in (np.float32, np.float64):
        table = table.astype(np.float64)
    if not table.has_canonical_format:
        table = table.copy()
        table.sum_duplicates()
    return table


def _float_array(values: Any, what: str) -> NDArray[Any]:
    """Numbers as they are if 32- or 64-bit floats, else as 64-bit floats."""
    array = np.asarray(values)
    if array.dtype in (np.float32, np.float64):
        return array
    if np.iscomplexobj(array):
        raise DataError(f"{what} must be real numbers; got {array.dtype}. Complex data not supported.")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} must be numbers; got {error}. Turn text into numbers.") from None


def _label_matrix(labels: Any, names: Sequence[str]) -> tuple[NDArray[Any], tuple[str, ...]]:
    given = tuple(str(name) for name in names)
    if isinstance(labels, pd.Series):
        labels = labels.to_frame(given[0] if len(given) == 1 else labels.name or "label_0")
    if isinstance(labels, pd.DataFrame):
        columns = tuple(str(name) for name in labels.columns)
        for name, kind, (_, column) in zip(columns, feature_kinds(labels), labels.items(), strict=True):
            if kind != "numeric":
                raise DataError(
                    f"labels must be 0 or 1; got {listed(column.dropna().unique()[:1])} in column {name!r}. "
                    "Recode it as 1 and 0."
                )
        return numeric_matrix(labels), given or columns
    dense: Any = _canonical_csr(labels).toarray() if sparse.issparse(labels) else labels
    array = _float_array(dense, "labels")
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2:
        raise DataError(f"labels must be a table with 2 dimensions; got {array.ndim}. One column per label.")
    return array, given or tuple(f"label_{i}" for i in range(array.shape[1]))


def checked_labels(labels: NDArray[Any], names: Sequence[str]) -> NDArray[np.float32]:
    """Refuse labels other than 0, 1 and NaN, and those that were never observed."""
    missing = np.isnan(labels)
    wrong = ~((labels == 0) | (labels == 1) | missing)
    if wrong.any():
        columns = np.flatnonzero(wrong.any(axis=0))
        rows = np.flatnonzero(wrong[:, columns[0]])
        raise DataError(
            f"labels must be 0 or 1; got {labels[rows[0], columns[0]]} {_where(names, columns, rows)}."
            f"{option('presence', True, ' Counts? Pass {}.') or ' Correct these cells.'}"
        )
    empty = np.flatnonzero(missing.all(axis=0))
    if empty.size:
        raise DataError(
            f"labels must be observed somewhere; got only missing values in {listed(_chosen(names, empty))}. "
            "Leave these labels out."
        )
    return labels.astype(np.float32, copy=False)


def _check_features(features: FeatureTable, names: Sequence[str]) -> None:
    check_finite(features, names)
    n_samples = int(features.shape[0])
    n_missing = _missing_counts(features)
    empty = np.flatnonzero(n_missing == n_samples)
    if empty.size:
        raise DataError(
            f"feature columns must have values; got only missing ones in {listed(_chosen(names, empty))}. "
            f"Leave these columns out: {option('drop', 'NAME')}."
        )
    # Where a value is missing the column still varies: missingness itself is a feature after scaling.
    constant = np.flatnonzero(_is_constant(features) & (n_missing == 0))
    if constant.size and n_samples > 1:
        warnings.warn(
            f"feature columns should vary; got one value throughout in {listed(_chosen(names, constant))}. "
            "Drop these columns, or check how they were made.",
            DataWarning,
            stacklevel=4,  # _check_features < __post_init__ < __init__ < the caller
        )


def _missing_counts(features: FeatureTable) -> NDArray[np.intp]:
    """Missing values of each column."""
    if isinstance(features, pd.DataFrame):
        return np.asarray(features.isna().to_numpy().sum(axis=0))
    if isinstance(features, np.ndarray):
        return np.asarray(np.isnan(features).sum(axis=0))
    return np.zeros(int(features.shape[1]), dtype=np.intp)


def _is_constant(features: FeatureTable) -> NDArray[np.bool_]:
    """Columns whose observed values are all the same; unspecified where some are missing."""
    if isinstance(features, pd.DataFrame):
        return np.array([bool((column == column.iloc[0]).all()) for _, column in features.items()])
    if isinstance(features, np.ndarray):
        return np.asarray((features == features[0]).all(axis=0))
    lowest, highest = features.min(axis=0).toarray(), features.max(axis=0).toarray()
    return np.asarray(lowest == highest).ravel()


def _check_names(what: str, names: tuple[str, ...], count: int) -> None:
    if len(names) != count:
        raise DataError(f"{what} must name each of the {count} columns; got {len(names)} names. Give one per column.")
    repeated = pd.Index(names)[pd.Index(names).duplicated()].unique()
    if len(repeated):
        raise DataError(f"{what} must be unique; got duplicate {listed(repeated)}. Rename or drop one of each.")


def _check_length(what: str, length: int, n_samples: int) -> None:
    if length != n_samples:
        raise DataError(
            f"{what} must have as many rows as features; got {length} rows for {n_samples}. "
            "Check that both come from the same table."
        )


def _row_vector(what: str, values: Any, n_samples: int) -> NDArray[Any] | None:
    if values is None:
        return None
    vector = np.asarray(values)
    if vector.ndim != 1:
        raise DataError(f"{what} must have 1 dimension; got {vector.ndim}. Give one value per row.")
    _check_length(what, len(vector), n_samples)
    missing = np.flatnonzero(pd.isna(vector))
    if missing.size:
        raise DataError(f"{what} must be known for every row; got missing ones (rows {listed(missing)}). Fill them in.")
    return vector


def _chosen(names: Sequence[str], index: NDArray[Any]) -> list[str]:
    return [names[int(i)] for i in index]


def _where(names: Sequence[str], columns: NDArray[Any], rows: NDArray[Any]) -> str:
    """Say where: the first column with its rows, and how many columns more."""
    others = f", and {len(columns) - 1} more columns" if len(columns) > 1 else ""
    return f"in column {names[int(columns[0])]!r} (rows {listed(rows)}){others}"
