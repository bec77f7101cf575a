"""Published layouts of multi-label data: MPVAE's npy files and LaMP's lines of text.

Both come with rows for training, validation and test. Parts are numbered 0, 1, 2 in that order.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from hotvae.data.dataset import Dataset
from hotvae.errors import DataError, listed

Parts = NDArray[np.int8]

_ROWS_AT_A_TIME = 4096
_INDEX_NAMES = ("train", "val", "test")
_TEXT_NAMES = ("train", "valid", "test")


def read_npy_layout(
    path: str | os.PathLike[str],
    *,
    n_labels: int,
    n_meta: int = 0,
    as_sparse: bool = False,
    name: str = "",
) -> tuple[Dataset, Parts]:
    """Read MPVAE's layout: one table of meta columns, labels and features, and three files of row numbers.

    Parameters
    ----------
    path : path-like
        ``NAME_data.npy``; ``NAME_train_idx.npy``, ``NAME_val_idx.npy`` and ``NAME_test_idx.npy`` lie beside it.
    n_labels : int
        How many columns are labels.
    n_meta : int
        How many columns stand before the labels; they are left out.
    as_sparse : bool
        Keep the features sparse; the table is then never held as a whole.
    name : str
        Name of the data set.

    Returns
    -------
    dataset : Dataset
        All rows of the table.
    parts : ndarray of shape (n_samples,)
        0 for training, 1 for validation, 2 for test, -1 for rows in none of the three.

    Raises
    ------
    DataError
        A missing or damaged file, columns that do not suffice, or row numbers that do not fit.
    """
    source = Path(path)
    if not source.name.endswith("_data.npy"):
        raise DataError(f"table must be named NAME_data.npy; got {source.name!r}. Rename it and its row files.")
    table = _load_npy(source)
    if table.ndim != 2 or table.shape[1] <= n_meta + n_labels or table.dtype.kind not in "biuf":
        raise DataError(
            f"table must have more than {n_meta} meta and {n_labels} label columns of numbers; got shape {table.shape} "
            f"of {table.dtype} ({str(source)!r}). Check n_meta and n_labels."
        )
    first = n_meta + n_labels
    labels = np.array(table[:, n_meta:first], dtype=np.float32)
    features: NDArray[Any] | sparse.csr_array
    if as_sparse:
        blocks = (table[start : start + _ROWS_AT_A_TIME, first:] for start in range(0, len(table), _ROWS_AT_A_TIME))
        features = sparse.csr_array(sparse.vstack([sparse.csr_array(np.asarray(b, np.float32)) for b in blocks]))
    else:
        features = np.array(table[:, first:], dtype=np.float32 if table.dtype == np.float32 else np.float64)
    parts = np.full(len(table), -1, dtype=np.int8)
    for part, word in enumerate(_INDEX_NAMES):
        file = source.with_name(f"{source.name.removesuffix('_data.npy')}_{word}_idx.npy")
        _assign(parts, _load_npy(file), part, file)
    return Dataset(features, labels, name=name), parts


def _load_npy(file: Path) -> NDArray[Any]:
    try:
        # Mapped, not read: the table of bookmarks is 800 MB of mostly zeros.
        loaded: NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise DataError(f"layout must have {file.name!r}; got no such file in {str(file.parent)!r}. Add it.") from None
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"file must be an npy array of numbers; got {error} ({str(file)!r}). Save it anew.") from error
    return loaded


def _assign(parts: Parts, rows: NDArray[Any], part: int, file: Path) -> None:
    numbers = np.asarray(rows)
    if not numbers.size:
        return
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise DataError(
            f"row numbers must be a list of whole numbers; got shape {numbers.shape} of {numbers.dtype} "
            f"({str(file)!r}). Save them anew."
        )
    outside = numbers[(numbers < 0) | (numbers >= len(parts))]
    if outside.size:
        raise DataError(
            f"row numbers must be 0 to {len(parts) - 1}; got {listed(outside)} ({str(file)!r}). Count rows from 0."
        )
    if np.unique(numbers).size < numbers.size or (parts[numbers] >= 0).any():
        repeated = numbers[(parts[numbers] >= 0) | pd.Series(numbers).duplicated().to_numpy()]
        raise DataError(
            f"rows must be in one part, once; got {listed(repeated)} again ({str(file)!r}). Remove the repeated ones."
        )
    parts[numbers] = part


def read_text_layout(folder: str | os.PathLike[str], *, as_bags: bool = False, name: str = "") -> tuple[Dataset, Parts]:
    r"""Read LaMP's layout: a line of words and a line of labels per row, in six files.

    Parameters
    ----------
    folder : path-like
        Holds ``train_inputs.txt``, ``train_labels.txt``, and the same for ``valid`` and ``test``. Words and labels
        of a line are separated by blanks.
    as_bags : bool
        Turn words into columns of a sparse 0/1 table, as the words of bibtex and bookmarks have no order. The columns
        are the words of all three parts.
    name : str
        Name of the data set.

    Returns
    -------
    dataset : Dataset
        Training rows, then validation rows, then test rows; texts in the one column ``text`` unless `as_bags`.
    parts : ndarray of shape (n_samples,)
        0 for training, 1 for validation, 2 for test.

    Raises
    ------
    DataError
        A missing file, or two files that do not have as many lines.
    """
    place = Path(folder)
    inputs: list[list[str]] = []
    labels: list[list[str]] = []
    parts: list[int] = []
    for part, word in enumerate(_TEXT_NAMES):
        lines, tags = _lines(place / f"{word}_inputs.txt"), _lines(place / f"{word}_labels.txt")
        if len(lines) != len(tags):
            raise DataError(
                f"{word}_inputs.txt and {word}_labels.txt must have as many lines; got {len(lines)} and {len(tags)} "
                f"({str(place)!r}). Correct the shorter one."
            )
        inputs += lines
        labels += tags
        parts += [part] * len(lines)
    tags_of_rows, label_names = _bags(labels)
    matrix = tags_of_rows.toarray()
    numbers = np.array(parts, dtype=np.int8)
    if as_bags:
        words, feature_names = _bags(inputs)
        return Dataset(words, matrix, feature_names=feature_names, label_names=label_names, name=name), numbers
    frame = pd.DataFrame({"text": [" ".join(words) for words in inputs]})
    return Dataset(frame, matrix, label_names=label_names, name=name), numbers


def _lines(file: Path) -> list[list[str]]:
    try:
        return [line.split() for line in file.read_text(encoding="utf-8").splitlines()]
    except FileNotFoundError:
        raise DataError(f"layout must have {file.name!r}; got no such file in {str(file.parent)!r}. Add it.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"file must be text in UTF-8; got {error} ({str(file)!r}). Save it anew.") from error


def _bags(rows: Iterable[list[str]]) -> tuple[sparse.csr_array, tuple[str, ...]]:
    """0/1 table of which words each row has; columns sorted, by value where all are numbers."""
    unique = [set(row) for row in rows]
    every: set[str] = set().union(*unique)
    names = sorted(every, key=int) if all(word.isdecimal() for word in every) else sorted(every)
    place = {word: i for i, word in enumerate(names)}
    columns = [sorted(place[word] for word in row) for row in unique]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in columns])])
    indices = np.array([column for row in columns for column in row], dtype=np.int32)
    values = np.ones(len(indices), dtype=np.float32)
    return sparse.csr_array((values, indices, starts), shape=(len(columns), len(names))), tuple(names)
