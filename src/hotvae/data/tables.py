"""Tables in files: CSV, TSV, Parquet, ARFF and npz in, data sets out; and predictions back into files.

Nothing is repaired quietly: a cell, column or file that does not fit is named together with a remedy.
Rows are counted from 0, lines of a file from 1.
"""

import csv
import gzip
import io
import os
import re
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype
from scipy import sparse

from hotvae.data.arff import check_unique_columns, parse_arff
from hotvae.data.dataset import (
    Dataset,
    FeatureKind,
    FeatureTable,
    close_names,
    feature_kinds,
    numeric_matrix,
    text_levels,
)
from hotvae.errors import ConfigError, DataError, listed

_DELIMITED = (".csv", ".tsv", ".tab", ".txt")
_FORMATS = (*_DELIMITED, ".parquet", ".pq", ".arff", ".npz")
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{2}|\d{4})([T ].*)?")
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")


def read_frame(
    path: str | os.PathLike[str],
    *,
    encoding: str = "utf-8",
    decimal: str = ".",
    text_columns: Iterable[str] = (),
) -> pd.DataFrame:
    r"""Read a table of any known format.

    Parameters
    ----------
    path : path-like
        ``.csv``, ``.tsv``, ``.tab``, ``.txt`` or ``.arff`` (each also with ``.gz``), ``.parquet``, ``.pq``
        or a dense ``.npz``. The delimiter of a ``.csv`` or ``.txt`` is found from the file: comma, semicolon
        or tab.
    encoding : str
        Encoding of text files.
    decimal : str
        Decimal mark of CSV files.
    text_columns : iterable of str
        Columns of a CSV file to take as text even where they look like numbers.

    Returns
    -------
    DataFrame
        With unique column names and at least one row. Sparse ARFF files of numbers come as sparse columns.

    Raises
    ------
    DataError
        A file that cannot be found, opened, decoded or understood; the message says where and what to do.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "sites.csv"
    >>> _ = path.write_text("site;depth;wren\nA;1.5;1\nB;;0\n")
    >>> read_frame(path)
      site  depth  wren
    0    A    1.5     1
    1    B    NaN     0
    """
    source, kind = _checked_path(path)
    if kind == ".npz":
        frame = _npz_frame(source)
    elif kind in (".parquet", ".pq"):
        frame = _read_parquet(source)
    else:
        text = _read_text(source, encoding)
        if kind == ".arff":
            frame = parse_arff(text, source)
        else:
            delimiter = "\t" if kind in (".tsv", ".tab") else _delimiter(text)
            frame = _parse_delimited(text, source, delimiter, decimal, text_columns)
    if len(frame) == 0:
        raise DataError(f"table must have at least 1 row; got 0 rows in {str(source)!r} (empty table). Check the file.")
    return frame


def read_table(
    path: str | os.PathLike[str],
    *,
    labels: str | Sequence[str] | None = None,
    label_table: str | os.PathLike[str] | None = None,
    id_column: str | None = None,
    coordinates: str | Sequence[str] | None = None,
    coordinates_as_features: bool = False,
    groups: str | None = None,
    drop: str | Sequence[str] = (),
    presence: bool = False,
    free_text: bool = False,
    encoding: str = "utf-8",
    decimal: str = ".",
    name: str | None = None,
) -> Dataset:
    r"""Read a data set from one table, or from two joined by an id.

    Parameters
    ----------
    path : path-like
        Table with the features; see `read_frame` for the formats. An npz holds ``X`` (or ``X_data``,
        ``X_indices``, ``X_indptr``, ``X_shape``), ``Y`` and optionally ``feature_names``, ``label_names`` or
        ``species_names``, ``coords``, ``coord_names`` and ``site_ids``.
    labels : str or sequence of str, optional
        Label columns: names, globs such as ``"sp_*"``, or several separated by commas. Needed unless
        `label_table` (default: all its columns) or an npz (default: all of ``Y``) has the labels.
    label_table : path-like, optional
        Second table with the labels, joined by `id_column`.
    id_column : str, optional
        Ids of the rows; no feature. Unique in both tables when there are two.
    coordinates : str or sequence of str, optional
        Two columns, such as ``"lon,lat"``.
    coordinates_as_features : bool
        Keep the coordinates among the features, too.
    groups : str, optional
        Column of rows that belong together; no feature. For an npz: an array of the file.
    drop : str or sequence of str
        Columns to leave out: names or globs.
    presence : bool
        Turn counts into 0 and 1 (any count above 0 is 1).
    free_text : bool
        Take columns of text as they are, for an encoder that reads texts or molecules. Otherwise text must be
        categories: what looks like numbers, dates or identifiers is refused.
    encoding, decimal : str
        See `read_frame`.
    name : str, optional
        Name of the data set; default: the file's name.

    Returns
    -------
    Dataset
        Sparse where the file is sparse.

    Raises
    ------
    DataError
        Data that do not fit.
    ConfigError
        Arguments that do not fit together.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "sites.csv"
    >>> _ = path.write_text("site,depth,sp_wren,sp_owl\nA,1.5,3,0\nB,2.0,0,1\n")
    >>> data = read_table(path, labels="sp_*", id_column="site", presence=True)
    >>> data.feature_names, data.label_names, data.labels.tolist()
    (('depth',), ('sp_wren', 'sp_owl'), [[1.0, 0.0], [0.0, 1.0]])
    """
    source, kind = _checked_path(path)
    title = Path(source.name.removesuffix(".gz")).stem if name is None else name
    if kind == ".npz":
        if label_table is not None or coordinates is not None or coordinates_as_features:
            raise ConfigError(
                "label_table and coordinates must be left out for an npz; got a file that holds its own "
                f"({str(source)!r}). Use its keys Y and coords."
            )
        return _npz_dataset(_read_npz(source), source, labels, id_column, groups, drop, presence, title)
    text_columns = () if id_column is None else (id_column,)
    frame = read_frame(source, encoding=encoding, decimal=decimal, text_columns=text_columns)
    label_frame = None
    if label_table is not None:
        label_frame = read_frame(label_table, encoding=encoding, decimal=decimal, text_columns=text_columns)
    return dataset_from_frame(
        frame,
        labels=labels,
        label_frame=label_frame,
        id_column=id_column,
        coordinates=coordinates,
        coordinates_as_features=coordinates_as_features,
        groups=groups,
        drop=drop,
        presence=presence,
        free_text=free_text,
        name=title,
    )


def dataset_from_frame(
    frame: pd.DataFrame,
    *,
    labels: str | Sequence[str] | None = None,
    label_frame: pd.DataFrame | None = None,
    id_column: str | None = None,
    coordinates: str | Sequence[str] | None = None,
    coordinates_as_features: bool = False,
    groups: str | None = None,
    drop: str | Sequence[str] = (),
    presence: bool = False,
    free_text: bool = False,
    name: str = "",
) -> Dataset:
    """Give the columns of a frame their roles; `read_table` for tables already in memory.

    Parameters
    ----------
    frame : DataFrame
        Table with the features.
    label_frame : DataFrame, optional
        Second table with the labels.
    labels, id_column, coordinates, coordinates_as_features, groups, drop, presence, free_text, name
        As in `read_table`.

    Returns
    -------
    Dataset
        Every column has one role; what has no other role is a feature.

    Raises
    ------
    DataError, ConfigError
        As `read_table`.

    Examples
    --------
    >>> frame = pd.DataFrame({"depth": [1.5, 2.0], "wren": [0, 1], "lon": [8.5, 9.0], "lat": [47.0, 47.5]})
    >>> dataset_from_frame(frame, labels="wren", coordinates="lon,lat").feature_names
    ('depth',)
    """
    columns = [str(column) for column in frame.columns]
    frame = frame.set_axis(columns, axis=1)
    places = _names(coordinates, columns)
    if places and len(places) != 2:
        raise ConfigError(f"coordinates must be 2 columns; got {listed(places)}. Name x, then y.")
    reserved = [column for column in (id_column, *places, groups) if column is not None]
    for column in reserved:
        _check_present([column], columns)
    dropped = _match(drop, columns, "drop")
    taken = set(reserved) | set(dropped)
    if label_frame is None:
        if labels is None:
            raise ConfigError("labels must name the label columns; got none. Pass labels='sp_*', or a label_table.")
        label_names = _match(labels, columns, "labels", taken)
        label_columns = frame[label_names]
    else:
        label_columns = _joined_labels(frame, label_frame, id_column, labels)
        label_names = [str(column) for column in label_columns.columns]
        shared = sorted(set(label_names) & (set(columns) - taken))
        if shared:
            raise DataError(
                f"labels must not be features; got {listed(shared)} in both tables. "
                "Drop these columns of the first: drop=[...]."
            )
    hidden = (taken | set(label_names)) - (set(places) - set(dropped) if coordinates_as_features else set())
    features = frame[[column for column in columns if column not in hidden]]
    _check_unnamed(features)
    if not free_text:
        _check_text(features)
    return Dataset(
        features=_sparse_features(features),
        labels=_label_values(label_columns, presence),
        feature_names=tuple(str(column) for column in features.columns),
        label_names=tuple(label_names),
        coordinates=_coordinate_values(frame[places]) if places else None,
        coordinate_names=(places[0], places[1]) if places else ("x", "y"),
        groups=None if groups is None else frame[groups].to_numpy(),
        row_names=None if id_column is None else _ids(frame, id_column),
        name=name,
    )


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

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "new.csv"
    >>> _ = path.write_text("wren,slope,depth\n1,0.5,2\n0,0.7,3\n")
    >>> read_features(path, feature_names=("depth", "slope"), ignore=["wren"])
       depth  slope
    0      2    0.5
    1      3    0.7
    """
    source, kind = _checked_path(path)
    expected: Sequence[FeatureKind] = kinds if kinds is not None else ["numeric"] * len(feature_names)
    if kind == ".npz":
        archive = _read_npz(source)
        features, names, _ = _npz_parts(archive, source)
        order = _column_order(names, feature_names, ignore, ignore_unknown)
        if isinstance(features, np.ndarray):
            rows = None if id_column is None else pd.Index(_npz_rows(archive, id_column, source), name=id_column)
            return pd.DataFrame(features[:, order], columns=list(feature_names), index=rows)
        return sparse.csr_array(features[:, order])
    categorical = [name for name, expects in zip(feature_names, expected, strict=True) if expects == "categorical"]
    text_columns = [*categorical, *([] if id_column is None else [id_column])]
    frame = read_frame(source, encoding=encoding, decimal=decimal, text_columns=text_columns)
    ids = None
    if id_column is not None:
        _check_present([id_column], [str(column) for column in frame.columns])
        ids = pd.Index(_ids(frame, id_column), name=id_column)
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

    Examples
    --------
    >>> align_columns(pd.DataFrame({"b": [1], "a": [2]}), ["a", "b"])
       a  b
    0  2  1
    """
    columns = [str(column) for column in frame.columns]
    order = _column_order(columns, feature_names, ignore, ignore_unknown)
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

    Examples
    --------
    >>> check_kinds(pd.DataFrame({"depth": [1.5, 2.0]}), ["numeric"])
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


def write_table(frame: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    r"""Write a frame, whole or not at all.

    Parameters
    ----------
    frame : DataFrame
        Columns to write; the index is not written.
    path : path-like
        ``.csv``, ``.tsv`` (each also with ``.gz``), ``.parquet`` or ``.pq``. An existing file is replaced at
        once, after everything has been written beside it.

    Raises
    ------
    DataError
        Unknown suffix, or a place that cannot be written to.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "probs.csv"
    >>> write_table(pd.DataFrame({"wren": [0.25]}), path)
    >>> path.read_text()
    'wren\n0.25\n'
    """
    target = Path(path)
    kind = _suffix(target)
    if kind not in (".csv", ".tsv", ".parquet", ".pq"):
        raise DataError(
            f"path must end in .csv, .tsv, .csv.gz, .tsv.gz, .parquet or .pq; got {target.name!r}. Rename it."
        )
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        if kind in (".parquet", ".pq"):
            frame.to_parquet(partial, index=False)
        else:
            # No time stamp inside: equal tables give equal files.
            packed: Any = {"method": "gzip", "mtime": 0} if target.suffix == ".gz" else None
            frame.to_csv(partial, index=False, sep="\t" if kind == ".tsv" else ",", compression=packed)
        os.replace(partial, target)
    except OSError as error:
        raise DataError(
            f"table must go where one can write; got {str(target)!r} ({error.strerror or error}). "
            "Choose another folder."
        ) from error
    finally:
        partial.unlink(missing_ok=True)


# --- files -----------------------------------------------------------------------------------------------


def _suffix(path: Path) -> str:
    """Format by name: the suffix, or the one before ``.gz``."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".gz"] and suffixes[-2:-1] and suffixes[-2] in (*_DELIMITED, ".arff"):
        return suffixes[-2]
    return suffixes[-1] if suffixes else ""


def _checked_path(path: str | os.PathLike[str]) -> tuple[Path, str]:
    source = Path(path)
    if source.is_dir():
        raise DataError(f"table must be a file; got the folder {str(source)!r}. Name a file in it.")
    if not source.exists():
        siblings = [entry.name for entry in source.parent.iterdir()] if source.parent.is_dir() else []
        raise DataError(
            f"table must be an existing file; got {str(source)!r} (not found)"
            f"{close_names([source.name], siblings)}. Check the spelling and the folder."
        )
    kind = _suffix(source)
    if kind not in _FORMATS:
        raise DataError(
            f"table must be one of {', '.join(_FORMATS)} (text also .gz); got {source.name!r}. Convert it to CSV."
        )
    if source.stat().st_size == 0:
        raise DataError(f"table must have a header and rows; got an empty file ({str(source)!r}). Make it anew.")
    return source, kind


def _unreadable(source: Path, error: Exception) -> DataError:
    reason = str(error).strip().split("\n")[0] or type(error).__name__
    return DataError(
        f"table must be readable; got {str(source)!r} (truncated or corrupt: {reason}). Copy or make it anew."
    )


def _read_text(source: Path, encoding: str) -> str:
    try:
        raw = source.read_bytes()
        if source.suffix.lower() == ".gz":
            raw = gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(source, error) from error
    try:
        # Spreadsheets put a byte-order mark in front of UTF-8; it is no part of the first column's name.
        text = raw.decode("utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"text must be {encoding}; got byte 0x{raw[error.start]:02x} (byte {error.start}, line {line} of "
            f"{str(source)!r}). Save the file as UTF-8, or pass its encoding, such as encoding='latin-1'."
        ) from None
    except LookupError:
        raise ConfigError(f"encoding must be one Python knows; got {encoding!r}. Try 'utf-8' or 'latin-1'.") from None
    if "\0" in text:
        raise DataError(f"table must be text; got a binary file ({str(source)!r}). Save it as UTF-8 text.")
    text = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
    if not text or text.isspace():
        raise DataError(f"table must have a header and rows; got an empty file ({str(source)!r}). Make it anew.")
    return text


def _read_parquet(source: Path) -> pd.DataFrame:
    try:
        frame = pd.read_parquet(source)
    except Exception as error:  # a decoder of foreign bytes may raise anything
        raise _unreadable(source, error) from error
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    frame.columns = pd.Index([str(column) for column in frame.columns])
    check_unique_columns(list(frame.columns), source)
    return frame.reset_index(drop=True)


# --- delimited text --------------------------------------------------------------------------------------


def _records(lines: Iterable[str], delimiter: str) -> Any:
    # Lines get their end back: inside quotes it belongs to the cell.
    return csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, skipinitialspace=True, strict=True)


def _delimiter(text: str) -> str:
    """Find the delimiter that splits the header and, best, the first lines into equally many fields."""
    lines = text[:100_000].split("\n")
    if len(text) > 100_000 and len(lines) > 1:
        lines.pop()  # cut in the middle
    best, best_score = ",", (0.0, 0)
    for delimiter in (",", ";", "\t"):
        try:
            widths = [len(record) for record in islice(_records(lines, delimiter), 20) if record]
        except csv.Error:
            continue
        if widths and widths[0] > 1:
            score = (widths.count(widths[0]) / len(widths), widths[0])
            if score > best_score:
                best, best_score = delimiter, score
    return best


def _parse_delimited(
    text: str, source: Path, delimiter: str, decimal: str, text_columns: Iterable[str]
) -> pd.DataFrame:
    header = _check_rectangular(text, source, delimiter)
    check_unique_columns([name for name in header if name], source)
    try:
        return pd.read_csv(
            io.BytesIO(text.encode()),  # faster than text, and smaller
            sep=delimiter,
            decimal=decimal,
            skipinitialspace=True,
            index_col=False,
            low_memory=False,  # column types must come from the whole column
            dtype=dict.fromkeys(set(text_columns) & set(header), "str"),
        )
    except ValueError as error:  # whatever pandas alone finds wrong
        raise _unreadable(source, error) from error


def _check_rectangular(text: str, source: Path, delimiter: str) -> list[str]:
    """Refuse rows longer or shorter than the header, which pandas would cut or fill; return the header."""

    def ragged(width: int, line: int) -> DataError:
        return DataError(
            f"rows must have as many fields as the header; got {width} instead of {len(header)} "
            f"(line {line} of {str(source)!r}). Correct it; fields with {delimiter!r} inside need quotes."
        )

    lines = text.split("\n")
    records = _records(lines, delimiter)
    done = 0  # lines of whole records; the next one starts behind them
    try:
        header: list[str] = next(record for record in records if record)
        done = records.line_num
        if '"' in text:
            for record in records:
                if record and len(record) != len(header):
                    raise ragged(len(record), done + 1)
                done = records.line_num
        else:  # many times faster, and the same without quotes
            for number, line in enumerate(lines, start=1):
                if line and line.count(delimiter) != len(header) - 1:
                    raise ragged(line.count(delimiter) + 1, number)
    except csv.Error as error:
        raise DataError(
            f"quotes must be closed; got {error} (line {done + 1} of {str(source)!r}). Correct them."
        ) from None
    return header


# --- npz -------------------------------------------------------------------------------------------------


def _read_npz(source: Path) -> dict[str, NDArray[Any]]:
    try:
        # Opened here, since numpy leaves the file open when it is damaged.
        with source.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except (OSError, ValueError, TypeError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise _unreadable(source, error) from error


def _npz_key(archive: dict[str, NDArray[Any]], *keys: str) -> NDArray[Any] | None:
    return next((archive[key] for key in keys if key in archive), None)


def _npz_parts(
    archive: dict[str, NDArray[Any]], source: Path
) -> tuple[NDArray[Any] | sparse.csr_array, list[str], NDArray[Any] | None]:
    """Features, their names, and the labels if there are any."""
    features: NDArray[Any] | sparse.csr_array
    if "X" in archive:
        features = archive["X"]
    else:
        absent = [key for key in ("X_data", "X_indices", "X_indptr", "X_shape") if key not in archive]
        if absent:
            raise DataError(
                f"npz must hold X, or X_data, X_indices, X_indptr and X_shape; got {listed(archive)} "
                f"({str(source)!r}). Save the features under these names."
            )
        parts = (archive["X_data"], archive["X_indices"], archive["X_indptr"])
        try:
            features = sparse.csr_array(parts, shape=(int(archive["X_shape"][0]), int(archive["X_shape"][1])))
            features.check_format(full_check=True)
        except (ValueError, IndexError, TypeError) as error:
            raise _unreadable(source, error) from error
    if features.ndim != 2:
        raise DataError(f"X must have 2 dimensions; got {features.ndim} ({str(source)!r}). One row per sample.")
    names = _npz_key(archive, "feature_names")
    width = int(features.shape[1])
    feature_names = [f"feature_{i}" for i in range(width)] if names is None else [str(name) for name in names]
    if len(feature_names) != width:
        raise DataError(
            f"feature_names must name each of the {width} columns of X; got {len(feature_names)} "
            f"({str(source)!r}). Give one name per column."
        )
    check_unique_columns(feature_names, source)
    return features, feature_names, archive.get("Y")


def _npz_labels(archive: dict[str, NDArray[Any]], labels: NDArray[Any]) -> pd.DataFrame:
    names = _npz_key(archive, "label_names", "species_names")
    table = labels if labels.ndim == 2 else labels.reshape(len(labels), -1)
    if names is None:
        return pd.DataFrame(table, columns=[f"label_{i}" for i in range(table.shape[1])])
    if len(names) != table.shape[1]:
        raise DataError(f"label_names must name each of the {table.shape[1]} columns of Y; got {len(names)}.")
    return pd.DataFrame(table, columns=[str(name) for name in names])


def _npz_rows(archive: dict[str, NDArray[Any]], key: str, source: Path) -> NDArray[Any]:
    if key not in archive:
        raise DataError(f"npz must hold {key!r}; got {listed(archive, 20)} ({str(source)!r}). Name one of these.")
    return archive[key]


def _npz_dataset(
    archive: dict[str, NDArray[Any]],
    source: Path,
    labels: str | Sequence[str] | None,
    id_column: str | None,
    groups: str | None,
    drop: str | Sequence[str],
    presence: bool,
    name: str,
) -> Dataset:
    features, feature_names, raw_labels = _npz_parts(archive, source)
    if raw_labels is None:
        raise DataError(f"npz must hold the labels as Y; got {listed(archive)} ({str(source)!r}). Add Y.")
    label_frame = _npz_labels(archive, raw_labels)
    label_names = list(label_frame.columns)
    unwanted = set(_match(drop, [*feature_names, *label_names], "drop"))
    if labels is not None:
        label_names = _match(labels, label_names, "labels")
    label_names = [label for label in label_names if label not in unwanted]
    kept = [i for i, feature in enumerate(feature_names) if feature not in unwanted]
    if len(kept) < len(feature_names):
        features = features[:, kept]
    coordinate_names = _npz_key(archive, "coord_names", "coordinate_names")
    names = ("x", "y") if coordinate_names is None else tuple(str(axis) for axis in coordinate_names)
    return Dataset(
        features=features,
        labels=_label_values(label_frame[label_names], presence),
        feature_names=tuple(feature_names[i] for i in kept),
        label_names=tuple(label_names),
        coordinates=_npz_key(archive, "coords", "coordinates"),
        coordinate_names=names,  # type: ignore[arg-type]  # Dataset counts them
        groups=_npz_key(archive, "groups") if groups is None else _npz_rows(archive, groups, source),
        row_names=_npz_key(archive, "site_ids", "row_names")
        if id_column is None
        else _npz_rows(archive, id_column, source),
        name=name,
    )


def _npz_frame(source: Path) -> pd.DataFrame:
    archive = _read_npz(source)
    features, names, labels = _npz_parts(archive, source)
    if not isinstance(features, np.ndarray):
        raise DataError(f"a frame must be dense; got the sparse file {str(source)!r}. Use read_table or read_features.")
    frame = pd.DataFrame(features, columns=names)
    if labels is None:
        return frame
    both = pd.concat([frame, _npz_labels(archive, labels)], axis=1)
    check_unique_columns(list(both.columns), source)
    return both


# --- columns and their roles -----------------------------------------------------------------------------


def _names(names: str | Sequence[str] | None, columns: Sequence[str]) -> list[str]:
    """Separate names given as one string, unless that string is itself a column."""
    if names is None:
        return []
    if isinstance(names, str):
        return [names] if names in columns else [part.strip() for part in names.split(",") if part.strip()]
    return [str(name) for name in names]


def _match(patterns: str | Sequence[str], columns: Sequence[str], what: str, taken: Iterable[str] = ()) -> list[str]:
    """Columns that a name or glob stands for, in the order of the table."""
    used, chosen = set(taken), set()
    for pattern in _names(patterns, columns):
        if pattern in used:
            raise DataError(f"{what} must not have another role; got {pattern!r} twice. Give each column one role.")
        found = [pattern] if pattern in columns else [name for name in columns if fnmatchcase(name, pattern)]
        if not set(found) - used:
            close = close_names([pattern.rstrip("*")], columns) or f" (columns: {listed(columns)})"
            raise DataError(f"{what} must match a column; got {pattern!r}{close}. Check the spelling.")
        chosen |= set(found) - used
    return [name for name in columns if name in chosen]


def _check_present(wanted: Sequence[str], columns: Sequence[str]) -> None:
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise DataError(
            f"table must have the column(s) {listed(missing)}; got none of that name"
            f"{close_names(missing, columns)}. Check the spelling, or add them."
        )


def _column_order(
    columns: Sequence[str], feature_names: Sequence[str], ignore: Iterable[str], ignore_unknown: bool
) -> list[int]:
    _check_present(feature_names, columns)
    unknown = [name for name in columns if name not in {*feature_names, *ignore}]
    if unknown and not ignore_unknown:
        raise DataError(
            f"columns must be known from training; got unknown column(s) {listed(unknown)}. "
            "Remove them, or pass --ignore-unknown (ignore_unknown=True)."
        )
    position = {name: i for i, name in enumerate(columns)}
    return [position[name] for name in feature_names]


def _ids(frame: pd.DataFrame, id_column: str) -> NDArray[np.object_]:
    """Ids as text, so that 7 in one file and "7" in another are the same."""
    codes, levels = text_levels(frame[id_column])
    missing = np.flatnonzero(codes < 0)
    if missing.size:
        raise DataError(
            f"ids must be known for every row; got missing ones in column {id_column!r} "
            f"(rows {listed(missing)}). Fill them in."
        )
    return np.array(levels, dtype=object)[codes]


def _joined_labels(
    frame: pd.DataFrame, label_frame: pd.DataFrame, id_column: str | None, labels: str | Sequence[str] | None
) -> pd.DataFrame:
    """Label columns of the second table in the row order of the first."""
    if id_column is None:
        raise ConfigError("label_table must be joined by a column; got no id_column. Name the column of both tables.")
    columns = [str(column) for column in label_frame.columns]
    label_frame = label_frame.set_axis(columns, axis=1)
    _check_present([id_column], columns)
    index = []
    for what, table in (("first table", frame), ("label table", label_frame)):
        ids = pd.Index(_ids(table, id_column))
        if not ids.is_unique:
            raise DataError(
                f"ids must be unique to join tables; got {listed(ids[ids.duplicated()].unique())} "
                f"more than once (column {id_column!r} of the {what}). Merge or remove the repeated rows."
            )
        index.append(ids)
    left, right = index
    only_left, only_right = left.difference(right, sort=False), right.difference(left, sort=False)
    if len(only_left) or len(only_right):
        raise DataError(
            f"ids in column {id_column!r} must be in both tables; got {len(only_left)} only in the first "
            f"({listed(only_left) or 'none'}) and {len(only_right)} only in the label table "
            f"({listed(only_right) or 'none'}). Correct these ids, or remove their rows."
        )
    others = [column for column in columns if column != id_column]
    chosen = others if labels is None else _match(labels, columns, "labels", [id_column])
    return label_frame[chosen].iloc[right.get_indexer(left)].reset_index(drop=True)


def _label_values(columns: pd.DataFrame, presence: bool) -> NDArray[np.float64]:
    """Labels as numbers; that they are 0 or 1 is checked by the data set."""
    dense = _sparse_accessor(columns).to_dense() if _is_sparse(columns) else columns
    values = np.empty(dense.shape, dtype=np.float64)
    for i, (name, column) in enumerate(dense.items()):
        if is_numeric_dtype(column) or is_bool_dtype(column):
            values[:, i] = column.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            values[:, i] = _numbers_of_text(str(name), column)
    if not presence:
        return values
    negative = values < 0
    if negative.any():
        first = int(np.flatnonzero(negative.any(axis=0))[0])
        rows = np.flatnonzero(negative[:, first])
        raise DataError(
            f"counts must be 0 or more; got {values[rows[0], first]} in column {str(dense.columns[first])!r} "
            f"(rows {listed(rows)}). Correct these cells."
        )
    return np.where(np.isnan(values), np.nan, values > 0)


def _numbers_of_text(name: str, column: "pd.Series[Any]") -> NDArray[np.float64]:
    codes, levels = text_levels(column)
    words = {"true": 1.0, "false": 0.0}
    numbers = np.array([words.get(level.strip().lower(), _parsed(level)) for level in levels] + [np.nan])
    wrong = np.flatnonzero(np.isnan(numbers[:-1]))
    if wrong.size:
        raise DataError(
            f"labels must be 0 or 1; got text {listed(levels[i] for i in wrong)} in column {name!r} "
            f"(rows {listed(np.flatnonzero(np.isin(codes, wrong)))}). "
            "Recode it as 1 and 0, empty for not observed."
        )
    return np.asarray(numbers[codes], dtype=np.float64)  # code -1, missing, takes the last: NaN


def _coordinate_values(columns: pd.DataFrame) -> NDArray[np.float64]:
    text = [str(name) for name, kind in zip(columns, feature_kinds(columns), strict=True) if kind != "numeric"]
    if text:
        raise DataError(f"coordinates must be numbers; got text in {listed(text)}. Use degrees or metres.")
    return numeric_matrix(columns)


def _sparse_accessor(frame: Any) -> Any:
    return frame.sparse  # the published types of pandas do not know it


def _is_sparse(columns: pd.DataFrame) -> bool:
    return bool(len(columns.columns)) and all(isinstance(dtype, pd.SparseDtype) for dtype in columns.dtypes)


def _sparse_features(features: pd.DataFrame) -> FeatureTable:
    return sparse.csr_array(_sparse_accessor(features).to_coo()) if _is_sparse(features) else features


def _check_unnamed(features: pd.DataFrame) -> None:
    unnamed = [str(name) for name in features.columns if re.fullmatch(r"Unnamed: \d+|", str(name))]
    if unnamed:
        raise DataError(
            f"columns must have names; got {len(unnamed)} without, read as {listed(unnamed)}. "
            f"Row numbers or a stray delimiter? Leave it out: drop=[{unnamed[0]!r}], or use it as id_column."
        )


def _parsed(cell: str) -> float:
    """Read a number; NaN where there is none."""
    try:
        return float(cell)
    except ValueError:
        return np.nan


def _check_text(features: pd.DataFrame) -> None:
    """Refuse text columns that are numbers, dates or identifiers in disguise; declared categories pass."""
    for label, kind in zip(features.columns, feature_kinds(features), strict=True):
        column = features[label]
        if kind == "numeric" or isinstance(column.dtype, pd.CategoricalDtype):
            continue
        name = str(label)
        codes, levels = text_levels(column)
        counts = np.bincount(codes[codes >= 0], minlength=len(levels))
        half = counts.sum() / 2
        is_comma = np.array([_DECIMAL_COMMA.fullmatch(level.strip()) is not None for level in levels], dtype=bool)
        is_number = ~np.isnan([_parsed(level) for level in levels])
        if counts[is_number | is_comma].sum() > half:
            wrong = np.flatnonzero(~is_number)
            cells = f"text {listed(levels[i] for i in wrong)}" if wrong.size else "numbers stored as text"
            where = f" (rows {listed(np.flatnonzero(np.isin(codes, wrong)))})" if wrong.size else ""
            hint = " Decimal commas? Pass decimal=','." if is_comma.any() else ""
            raise DataError(
                f"column {name!r} must hold numbers throughout; got {cells}{where}.{hint} "
                "Correct these cells, leave them empty for missing, or drop the column."
            )
        is_date = np.array([_DATE.fullmatch(level.strip()) is not None for level in levels], dtype=bool)
        if counts[is_date].sum() > half:
            raise DataError(
                f"column {name!r} must hold numbers or categories; got dates such as {levels[0]!r}. "
                "Turn them into numbers (year, day of the year), or drop the column."
            )
        if len(levels) > 50 and len(levels) > len(column) / 2:
            raise DataError(
                f"column {name!r} must be a feature; got {len(levels)} distinct texts in {len(column)} rows "
                f"({listed(levels, 2)}): an identifier or free text. Drop it, name it as id_column, or choose "
                "an encoder for texts or molecules (with read_table, free_text=True)."
            )
