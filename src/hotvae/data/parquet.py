"""A Parquet table that need not fit into memory: its row groups, pieces of them, and a sample of its rows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hotvae.data.dataset import text_levels
from hotvae.errors import DataError, listed

# Cells of a piece that is read at once, and its most rows.
_CELLS, _MOST_ROWS = 4_000_000, 65_536
# Bytes that are read of a column at a time: a row group may be larger than memory.
_BUFFER = 1 << 16
# Groups of rows are chosen by what a hash makes of their name, in so many buckets.
_BUCKETS = 1 << 16
# The column that pandas keeps an index without a name in.
_INDEX = "__index_level_0__"


@dataclass(frozen=True)
class RowGroup:
    """Some rows of a file that lie together.

    Attributes
    ----------
    file : Path
        Where they are.
    number : int
        Of the row group in its file.
    first : int
        Number of the first row, counted through all files.
    n_rows : int
        How many.
    skipped : int
        Rows of the row group before the first of these.
    """

    file: Path
    number: int
    first: int
    n_rows: int
    skipped: int = 0

    def cut(self, n_parts: int) -> list[RowGroup]:
        """Cut it into parts of about as many rows, none empty."""
        ends = np.unique(np.arange(n_parts + 1) * self.n_rows // n_parts).tolist()
        return [
            replace(self, first=self.first + start, n_rows=end - start, skipped=self.skipped + start)
            for start, end in pairwise(ends)
        ]


class ParquetTable:
    """A Parquet file, or a folder of them, read a piece at a time.

    Parameters
    ----------
    path : path
        The file; or a folder, whose ``.parquet`` files follow each other by name.

    Raises
    ------
    DataError
        No such file, one that is no Parquet, files with other columns than the first, or no rows.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "sites.parquet"
    >>> pd.DataFrame({"depth": np.arange(10.0)}).to_parquet(path, row_group_size=4)
    >>> table = ParquetTable(path)
    >>> table.n_rows, [group.n_rows for group in table.row_groups]
    (10, [4, 4, 2])
    >>> [first for first, _ in table.frames(table.row_groups[1], rows_at_once=3)]
    [4, 7]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        files = sorted(self.path.glob("*.parquet")) if self.path.is_dir() else [self.path]
        if not files:
            raise DataError(f"folder must hold .parquet files; got none in {str(path)!r}. Check the path.")
        self.row_groups: list[RowGroup] = []
        self.n_rows = 0
        self.files = files
        self._metadata: dict[Path, Any] = {}
        for file in files:
            with self._open(file) as opened:
                self._metadata[file] = opened.metadata
                names = [name for name in opened.schema_arrow.names if name != _INDEX]
                if file == files[0]:
                    self.columns: list[str] = names
                elif set(names) != set(self.columns):
                    others = sorted(set(names) ^ set(self.columns))
                    raise DataError(
                        f"files of a table must have the same columns; got {listed(others)} in one of {files[0].name} "
                        f"and {file.name} only. Write them alike."
                    )
                for number in range(opened.metadata.num_row_groups):
                    n_rows = opened.metadata.row_group(number).num_rows
                    if n_rows:
                        self.row_groups.append(RowGroup(file, number, self.n_rows, n_rows))
                        self.n_rows += n_rows
        if not self.n_rows:
            raise DataError(f"table must have at least 1 row; got 0 rows in {str(path)!r}. Check the file.")

    def _open(self, file: Path) -> Any:
        import pyarrow
        import pyarrow.parquet

        try:
            known = self._metadata.get(file)
            return pyarrow.parquet.ParquetFile(file, metadata=known, pre_buffer=False, buffer_size=_BUFFER)
        except (OSError, pyarrow.ArrowException) as error:
            raise DataError(f"table must be a readable Parquet file; got {str(file)!r} ({error}). Check it.") from error

    def identity(self) -> str:
        """Tell tables apart, by names, sizes and times of their files."""
        stats = [(file.resolve(), file.stat()) for file in self.files]
        words = [f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in stats]
        return hashlib.sha256("\n".join(words).encode()).hexdigest()

    @cached_property
    def rows_at_once(self) -> int:
        """Rows of a piece: fewer where there are many columns."""
        return int(np.clip(_CELLS // len(self.columns), 1024, _MOST_ROWS))

    def frames(
        self, group: RowGroup, rows_at_once: int | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[tuple[int, pd.DataFrame]]:
        """Yield the rows of a row group in pieces, each with the number of its first row; all columns, or some."""
        first = group.first
        for piece in self._tables(group, rows_at_once, columns):
            yield first, _frame_of(piece)
            first += piece.num_rows

    def _tables(
        self, group: RowGroup, rows_at_once: int | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[Any]:
        import pyarrow

        at, wanted = 0, range(group.skipped, group.skipped + group.n_rows)
        with self._open(group.file) as opened:
            reading = {"batch_size": rows_at_once or self.rows_at_once, "row_groups": [group.number]}
            for batch in opened.iter_batches(columns=None if columns is None else list(columns), **reading):
                start, stop = max(at, wanted.start), min(at + batch.num_rows, wanted.stop)
                if start < stop:
                    yield pyarrow.Table.from_batches([batch.slice(start - at, stop - start)])
                at += batch.num_rows
                if at >= wanted.stop:
                    return

    def sample(self, n_rows: int, seed: int, groups: str | None = None) -> pd.DataFrame:
        """Draw rows from everywhere in the table, in their order.

        Parameters
        ----------
        n_rows : int
            About how many; with groups, at most so many.
        seed : int
            Decides which.
        groups : str, optional
            Column of rows that belong together: a group is drawn as a whole or not at all.

        Returns
        -------
        DataFrame

        Raises
        ------
        DataError
            Groups of which not one has so few rows.
        """
        import pyarrow

        def rows_one_by_one(group: RowGroup) -> NDArray[np.bool_]:
            dice = np.random.default_rng([seed, 31, group.first]).random(group.n_rows)
            return dice * self.n_rows < n_rows

        chosen = rows_one_by_one if groups is None else self._chosen_groups(n_rows, seed, groups)
        parts = []
        for group in self.row_groups:
            is_chosen = chosen(group)
            at = 0
            for piece in self._tables(group) if is_chosen.any() else ():
                parts.append(piece.filter(pyarrow.array(is_chosen[at : at + piece.num_rows])))
                at += piece.num_rows
        return _frame_of(pyarrow.concat_tables(parts).combine_chunks())

    def _chosen_groups(self, n_rows: int, seed: int, column: str) -> Callable[[RowGroup], NDArray[np.bool_]]:
        """Choose buckets of groups, in an order that the seed decides, as many as have room."""
        if column not in self.columns:
            raise DataError(f"column must be in the table; got groups {column!r}. Check the spelling.")

        def buckets(group: RowGroup) -> NDArray[np.intp]:
            return np.concatenate(
                [_buckets(_frame_of(piece)[column]) for piece in self._tables(group, _MOST_ROWS, [column])]
            )

        sizes = np.zeros(_BUCKETS, dtype=np.int64)
        for group in self.row_groups:
            sizes += np.bincount(buckets(group), minlength=_BUCKETS)
        is_taken, total = np.zeros(_BUCKETS, dtype=bool), 0
        for bucket in np.random.default_rng([seed, 32]).permutation(_BUCKETS):
            if sizes[bucket] and total + sizes[bucket] <= n_rows:
                is_taken[bucket], total = True, total + int(sizes[bucket])
        if not total:
            raise DataError(
                f"groups must be small enough for a sample of {n_rows:,} rows; got none that is (column {column!r}). "
                "Draw a larger sample, or leave the groups out."
            )
        return lambda group: is_taken[buckets(group)]


def _buckets(column: pd.Series[Any]) -> NDArray[np.intp]:
    """Give each row the bucket of its group; the same name has the same bucket in every file and on every machine."""
    codes, levels = text_levels(column)
    names = pd.util.hash_array(np.array([*levels, ""], dtype=object), categorize=False)
    found: NDArray[np.intp] = (names[codes] % _BUCKETS).astype(np.intp)
    return found


def _frame_of(table: Any) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)
    return frame.drop(columns=_INDEX) if _INDEX in frame else frame
