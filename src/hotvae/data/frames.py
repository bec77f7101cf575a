"""Table files: CSV, TSV, Parquet, workbooks, vector files, ARFF and npz are read, predictions are written.

Nothing is repaired quietly: a cell, column or file that does not fit is named together with a remedy. What the columns
mean is for :mod:`hotvae.data.tables` to say. Lines of a file are counted from 1.
"""

import csv
import io
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype
from scipy import sparse

from hotvae.data.dataset import close_names, text_levels
from hotvae.data.formats import vectors
from hotvae.data.formats.arff import check_unique_columns, parse_arff
from hotvae.data.formats.foreign import check_archive, checked_frame, foreign_bytes, unpacked
from hotvae.data.formats.sheets import read_sheet
from hotvae.errors import ConfigError, DataError, listed, option
from hotvae.files import whole_file

_DELIMITED = (".csv", ".tsv", ".tab", ".txt")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
# Names of columns are stored and compared one by one: beyond this, a file that says it is wide takes minutes.
_MOST_COLUMNS = 2_000_000
# Before 3.1 pandas reads numbers quickly rather than to the last digit unless asked; since then it warns when asked.
_EXACT: Any = {"float_precision": "round_trip"} if pd.__version__.startswith(("2.", "3.0")) else {}
_FORMATS = (*_DELIMITED, ".parquet", ".pq", ".xlsx", *vectors.SUFFIXES, ".arff", ".npz", ".zip")


def read_frame(
    path: str | os.PathLike[str] | pd.DataFrame,
    *,
    sheet: str | None = None,
    encoding: str = "utf-8",
    decimal: str = ".",
    text_columns: Iterable[str] = (),
) -> pd.DataFrame:
    r"""Read a table of any known format.

    Parameters
    ----------
    path : path-like or DataFrame
        ``.csv``, ``.tsv``, ``.tab``, ``.txt`` or ``.arff`` (each also with ``.gz``), ``.parquet``, ``.pq``, ``.xlsx``,
        ``.gpkg``, ``.shp``, ``.geojson`` or a dense ``.npz``. The delimiter of a ``.csv`` or ``.txt`` is found from
        the file: comma, semicolon or tab. A frame is returned with its index as a column where it has a name.
    sheet : str, optional
        Sheet of a workbook, layer of a vector file; needed where there are several.
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
    if isinstance(path, pd.DataFrame):
        return _own_frame(path)
    source, kind = file_kind(path)
    if sheet is not None and kind not in (".xlsx", *vectors.SUFFIXES):
        raise ConfigError(f"sheet must go with a workbook or vector file; got {source.name!r}. Leave it out.")
    if kind == ".zip":
        raise DataError(
            f"table must not be an archive here; got {source.name!r}. Darwin Core archives are read as the first "
            "table of train, predict, evaluate and explain only. Unpack it, and name a table in it."
        )
    with foreign_bytes(source):
        if kind == ".npz":
            frame = _npz_frame(source)
        elif kind == ".xlsx":
            frame = _with_text(_named(read_sheet(source, sheet), source), text_columns)
        elif kind in vectors.SUFFIXES:
            frame = _with_text(_named(vectors.read_vector(source, sheet), source), text_columns)
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


def _own_frame(table: pd.DataFrame) -> pd.DataFrame:
    """Return a frame that someone has in memory, as files are read: names are text, rows are numbered."""
    frame = table.reset_index() if any(name is not None for name in table.index.names) else table.reset_index(drop=True)
    frame = frame.set_axis([str(column) for column in frame.columns], axis=1)
    frame.attrs |= table.attrs
    check_unique_columns(list(frame.columns), Path("table"))
    if len(frame) == 0:
        raise DataError("table must have at least 1 row; got 0 rows (empty table). Check the filter.")
    return frame


def _named(frame: pd.DataFrame, source: Path) -> pd.DataFrame:
    attrs = frame.attrs
    frame = frame.set_axis([str(column).strip() for column in frame.columns], axis=1)
    frame.attrs |= attrs
    check_unique_columns(list(frame.columns), source)
    return frame


def _with_text(frame: pd.DataFrame, text_columns: Iterable[str]) -> pd.DataFrame:
    """Turn numbers into text where ids are wanted; whole numbers stay whole."""
    attrs = frame.attrs
    for name in set(text_columns) & set(frame.columns):
        codes, levels = text_levels(frame[name])
        frame = frame.assign(**{name: pd.Series([levels[code] if code >= 0 else None for code in codes], dtype="str")})
    frame.attrs |= attrs
    return frame


def write_table(frame: pd.DataFrame, path: str | os.PathLike[str], *, safe: bool = False) -> None:
    r"""Write a frame, whole or not at all.

    Parameters
    ----------
    frame : DataFrame
        Columns to write; the index is not written.
    path : path-like
        ``.csv``, ``.tsv`` (each also with ``.gz``), ``.parquet`` or ``.pq``. An existing file is replaced at
        once, after everything has been written beside it.
    safe : bool
        Of a text file: put an apostrophe in front of names and texts that a spreadsheet would take for a formula.

    Raises
    ------
    DataError
        Unknown suffix; or a text that a text file cannot hold.
    ConfigError
        A place that cannot be written to.
    """
    target = Path(path)
    kind = _suffix(target)
    if kind not in (".csv", ".tsv", ".parquet", ".pq"):
        raise DataError(
            f"path must end in .csv, .tsv, .csv.gz, .tsv.gz, .parquet or .pq; got {target.name!r}. Rename it."
        )
    if kind in (".csv", ".tsv"):
        _check_texts(frame, target)
    with whole_file(target) as partial:
        if kind in (".parquet", ".pq"):
            try:
                frame.to_parquet(partial, index=False)
            except (OverflowError, pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
                raise DataError(
                    f"columns must hold numbers or texts, not both, and no number beyond 2⁶³; got {error} "
                    f"({target.name}). Mend the column, or write a .csv file."
                ) from error
        else:
            frame = _without_formulas(frame) if safe else frame
            # No time stamp inside: equal tables give equal files.
            packed: Any = {"method": "gzip", "mtime": 0} if target.suffix == ".gz" else None
            frame.to_csv(partial, index=False, sep="\t" if kind == ".tsv" else ",", compression=packed)


def _check_texts(frame: pd.DataFrame, target: Path) -> None:
    """Refuse the character NUL, which makes a text file one that nothing reads again; Parquet can hold it."""
    for name in frame:
        texts = [name, *(() if is_numeric_dtype(frame[name]) else frame[name])]
        bad = next((text for text in texts if isinstance(text, str) and "\0" in text), None)
        if bad is not None:
            raise DataError(
                f"names and ids must be without the character NUL in a text file; got {bad!r} (column {name!r}, "
                f"{target.name}). Write a .parquet file, or rename it."
            )


def _without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """Put an apostrophe in front of texts that begin like a formula; numbers stay as they are."""

    def plain(cell: Any) -> Any:
        return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell

    texts = {str(name): frame[name].map(plain) for name in frame if not is_numeric_dtype(frame[name])}
    return frame.assign(**texts).rename(columns=plain)


@dataclass(frozen=True, eq=False)
class NpzTable:
    """Arrays of an npz file that belong to one table; made by :func:`read_npz`.

    Attributes
    ----------
    source : Path
        The file.
    arrays : dict of str to ndarray
        All its arrays.
    features : ndarray or csr_array of shape (row, feature)
        ``X``, or what ``X_data``, ``X_indices``, ``X_indptr`` and ``X_shape`` stand for.
    feature_names : tuple of str
        ``feature_names``, or numbered names.
    """

    source: Path
    arrays: dict[str, NDArray[Any]]
    features: NDArray[Any] | sparse.csr_array
    feature_names: tuple[str, ...]

    def first(self, *keys: str) -> NDArray[Any] | None:
        """Return the array of the first of these keys that the file holds, or None."""
        return next((self.arrays[key] for key in keys if key in self.arrays), None)

    def names(self, count: int, *keys: str) -> tuple[str, ...] | None:
        """Return the names under the first of these keys, one for each of ``count`` columns; None without any."""
        found = self.first(*keys)
        if found is None:
            return None
        if found.shape != (count,):
            raise DataError(
                f"{keys[0]} must be {count} names, one per column; got shape {found.shape} ({str(self.source)!r}). "
                "Give one name per column."
            )
        return tuple(str(name) for name in found)

    def rows(self, key: str) -> NDArray[Any]:
        """Return the array of a key that someone named; an error lists what there is."""
        if key not in self.arrays:
            raise DataError(
                f"npz must hold {key!r}; got {listed(self.arrays, 20)} ({str(self.source)!r}). Name one of these."
            )
        return self.arrays[key]

    def label_frame(self) -> pd.DataFrame:
        """Return ``Y`` under its names, or under numbered ones; an error where there is none."""
        if "Y" not in self.arrays:
            raise DataError(f"npz must hold the labels as Y; got {listed(self.arrays)} ({str(self.source)!r}). Add Y.")
        labels = self.arrays["Y"]
        if labels.ndim not in (1, 2):
            raise DataError(
                f"Y must have 2 dimensions; got {labels.ndim} ({str(self.source)!r}). One row per sample, one column "
                "per label."
            )
        table = labels if labels.ndim == 2 else labels.reshape(len(labels), -1)
        count = int(table.shape[1])
        names = self.names(count, "label_names", "species_names") or tuple(f"label_{i}" for i in range(count))
        return pd.DataFrame(table, columns=list(names))


def read_npz(path: str | os.PathLike[str]) -> NpzTable:
    """Read the arrays of an npz file, and check that its features fit together.

    Parameters
    ----------
    path : path-like
        A file that holds ``X`` (or ``X_data``, ``X_indices``, ``X_indptr``, ``X_shape``) and perhaps more.

    Returns
    -------
    NpzTable

    Raises
    ------
    DataError
        A damaged file, no features, or names that do not fit them.
    """
    source = Path(path)
    arrays = _read_arrays(source)
    features = _npz_features(arrays, source)
    width = int(features.shape[1])
    table = NpzTable(source, arrays, features, ())
    names = table.names(width, "feature_names") or tuple(f"feature_{i}" for i in range(width))
    check_unique_columns(list(names), source)
    return replace(table, feature_names=names)


def file_kind(path: str | os.PathLike[str]) -> tuple[Path, str]:
    """Find a table's file and its format.

    Parameters
    ----------
    path : path-like
        What a user named.

    Returns
    -------
    source : Path
        The file, which exists and is not empty.
    kind : str
        Its suffix in small letters, without ``.gz``.

    Raises
    ------
    DataError
        A folder, a file that is not there, empty or of no known format.
    """
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
            f"table must be one of {', '.join(_FORMATS)} (text also .gz); got {source.name!r}. Save it as one of these."
        )
    if source.stat().st_size == 0:
        raise DataError(f"table must have a header and rows; got an empty file ({str(source)!r}). Make it anew.")
    return source, kind


# --- files -----------------------------------------------------------------------------------------------


def _suffix(path: Path) -> str:
    """Format by name: the suffix, or the one before ``.gz``."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".gz"] and suffixes[-2:-1] and suffixes[-2] in (*_DELIMITED, ".arff"):
        return suffixes[-2]
    return suffixes[-1] if suffixes else ""


def _read_text(source: Path, encoding: str) -> str:
    raw = unpacked(source)
    try:
        # Spreadsheets put a byte-order mark in front of UTF-8; it is no part of the first column's name.
        text = raw.decode("utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"text must be {encoding}; got byte 0x{raw[error.start]:02x} (byte {error.start}, line {line} of "
            f"{str(source)!r}). Save the file as UTF-8, or pass its encoding, such as "
            f"{option('encoding', 'latin-1')}."
        ) from None
    except (LookupError, ValueError):  # no such name, or one that is not of texts
        raise ConfigError(
            f"encoding must be a known one that fits the file; got {encoding!r} ({source.name}). Try 'utf-8' or "
            "'latin-1'."
        ) from None
    if "\0" in text:
        raise DataError(f"table must be text; got a binary file ({str(source)!r}). Save it as UTF-8 text.")
    text = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
    if not text or text.isspace():
        raise DataError(f"table must have a header and rows; got an empty file ({str(source)!r}). Make it anew.")
    return text


def _read_parquet(source: Path) -> pd.DataFrame:
    import pyarrow.parquet

    frame = checked_frame(pyarrow.parquet.read_table(source))
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
    if len(header) == 1:
        text = text.lstrip("\n").removesuffix("\n")  # what stands before the header, or ends the last line, is no row
    check_unique_columns([name for name in header if name], source)
    if len(decimal) != 1 or decimal.isalnum() or decimal in "\"'\n":
        raise ConfigError(f"decimal must be one mark; got {decimal!r}. Use '.' or ','.")
    table: pd.DataFrame = pd.read_csv(
        io.BytesIO(text.encode()),  # faster than text, and smaller
        sep=delimiter,
        decimal=decimal,
        skipinitialspace=True,
        index_col=False,
        low_memory=False,  # column types must come from the whole column
        skip_blank_lines=len(header) > 1,  # in one column an empty line is a row with an empty cell
        dtype=dict.fromkeys(set(text_columns) & set(header), "str"),
        **_EXACT,
    )
    return table


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


def _read_arrays(source: Path) -> dict[str, NDArray[Any]]:
    # Opened here, since numpy leaves the file open when it is damaged.
    with foreign_bytes(source), source.open("rb") as file:
        check_archive(file, source)
        with np.load(file, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
        for array in arrays.values():
            _check_letters(array)
    strange = [key for key, array in arrays.items() if not isinstance(array, np.ndarray)]
    if strange:
        raise DataError(f"npz must hold arrays; got other bytes in {listed(strange)} ({str(source)!r}). Make it anew.")
    return arrays


def _check_letters(array: Any) -> None:
    """Raise a ValueError for an array of text with letters that there are not; whatever takes them up would fail."""
    if isinstance(array, np.ndarray) and array.dtype.kind == "U":
        codes = np.frombuffer(array.astype(array.dtype.newbyteorder("=")).tobytes(), dtype=np.uint32)
        if ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes <= 0xDFFF))).any():
            raise ValueError("text with letters that do not exist")


def checked_csr(
    data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], shape: tuple[int, int]
) -> sparse.csr_array:
    """Make a sparse table of parts that come from a file, and may be anything.

    Raises
    ------
    ValueError
        Parts that do not fit together. SciPy's own check passes over rows that end before they begin where the last
        one ends at 0, and then reads beyond the arrays.

    Examples
    --------
    >>> checked_csr(np.ones(2), np.array([0, 1]), np.array([0, 1, 2]), (2, 2)).toarray()
    array([[1., 0.],
           [0., 1.]])
    """
    if indptr.ndim != 1 or not len(indptr) or np.any(indptr[1:] < indptr[:-1]):
        raise ValueError("the ends of sparse rows must not decrease")
    if data.dtype.kind == "f":  # SciPy knows two sizes of them, in this machine's order of bytes
        data = data.astype(np.float32 if data.dtype.itemsize <= 4 else np.float64, copy=False)
    table = sparse.csr_array((data.astype(data.dtype.newbyteorder("="), copy=False), indices, indptr), shape=shape)
    table.check_format(full_check=True)
    return table


def _npz_features(arrays: dict[str, NDArray[Any]], source: Path) -> NDArray[Any] | sparse.csr_array:
    features: NDArray[Any] | sparse.csr_array
    if "X" in arrays:
        features = arrays["X"]
    else:
        absent = [key for key in ("X_data", "X_indices", "X_indptr", "X_shape") if key not in arrays]
        if absent:
            raise DataError(
                f"npz must hold X, or X_data, X_indices, X_indptr and X_shape; got {listed(arrays)} "
                f"({str(source)!r}). Save the features under these names."
            )
        parts = (arrays["X_data"], arrays["X_indices"], arrays["X_indptr"])
        with foreign_bytes(source):
            features = checked_csr(*parts, shape=(int(arrays["X_shape"][0]), int(arrays["X_shape"][1])))
    for key, array, kinds in (("X", features, "biuf"), ("Y", arrays.get("Y"), "biufU")):
        if array is not None and array.dtype.kind not in kinds:
            raise DataError(
                f"{key} must hold numbers; got {array.dtype} ({str(source)!r}). Turn text, dates and records into "
                "numbers."
            )
    if features.ndim != 2:
        raise DataError(f"X must have 2 dimensions; got {features.ndim} ({str(source)!r}). One row per sample.")
    if features.shape[1] > _MOST_COLUMNS:
        raise DataError(
            f"X must have at most {_MOST_COLUMNS:,} columns; got {features.shape[1]:,} ({str(source)!r}). Leave out "
            "columns that are empty."
        )
    return features


def _npz_frame(source: Path) -> pd.DataFrame:
    table = read_npz(source)
    if not isinstance(table.features, np.ndarray):
        raise DataError(
            f"table must be dense here; got the sparse file {str(source)!r}. Save it as a dense npz, CSV or Parquet."
        )
    frame = pd.DataFrame(table.features, columns=list(table.feature_names))
    if "Y" not in table.arrays:
        return frame
    both = pd.concat([frame, table.label_frame()], axis=1)
    check_unique_columns(list(both.columns), source)
    return both
