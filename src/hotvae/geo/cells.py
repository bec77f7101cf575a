"""Evenly spread cells of a map with their covariates: few enough to travel with a page."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hotvae.errors import DataError
from hotvae.geo.maps import MapInputs
from hotvae.geo.rasters import MapGrid, Window

_NOTE = b"hotvae-cells"


class SpreadCells(NamedTuple):
    """Some cells of a grid.

    Attributes
    ----------
    grid : MapGrid
        Of which they are.
    table : DataFrame
        Columns of a model; a row each.
    x, y : ndarray of shape (n_cells,)
        Their middles, in the reference system of the grid.
    stride : int
        Every so many cells each way.
    """

    grid: MapGrid
    table: pd.DataFrame
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    stride: int


Bounds = tuple[float, float, float, float]
"""West, south, east, north in the reference system of a grid."""


def spread_cells(inputs: MapInputs, most: int, within: Bounds | None = None) -> SpreadCells:
    """Take every n-th cell each way, with n so that at most so many have data.

    Parameters
    ----------
    inputs : MapInputs
        Rasters or a grid.
    most : int
        Cells, at most.
    within : (west, south, east, north), optional
        Part of the grid; only tiles that it touches are read.

    Raises
    ------
    DataError
        A map, or a part of it, without data.
    """
    part = inputs.grid.cut(within or inputs.grid.bounds)
    stride = max(1, math.ceil(math.sqrt(part.width * part.height / most)))
    found = _every(inputs, part, stride)
    # Much of a grid may have no data: look closer, as far as the number allows.
    finer = max(1, math.ceil(stride * math.sqrt(max(1, len(found.table)) / most)))
    while finer < stride:
        closer = _every(inputs, part, finer)
        if len(closer.table) <= most:
            found = closer
            break
        finer += 1
    if not len(found.table):
        raise DataError(
            f"map must have cells with a value in every layer; got none in {part.width * part.height:,} cells. "
            "Check nodata, and that the layers overlap."
        )
    return found


def _every(inputs: MapInputs, part: Window, stride: int) -> SpreadCells:
    tables, xs, ys = [], [], []
    for window in inputs.windows():
        if not part.touches(window):
            continue
        cells = inputs.read(window)
        row, column = np.divmod(cells.places, window.width)
        row, column = row + window.row - part.row, column + window.column - part.column
        kept = (row >= 0) & (row < part.height) & (column >= 0) & (column < part.width)
        kept &= row % stride == min(stride // 2, part.height - 1)
        kept &= column % stride == min(stride // 2, part.width - 1)
        x, y = (axis[cells.places[kept]] for axis in inputs.grid.centres(window))
        tables.append(cells.table[kept])
        xs.append(x)
        ys.append(y)
    table = pd.concat([table for table in tables if len(table)] or tables[:1], ignore_index=True)
    return SpreadCells(inputs.grid, table, np.concatenate(xs), np.concatenate(ys), stride)


def write_cells(path: Path, cells: SpreadCells) -> None:
    """Write cells as Parquet, whole or not at all; the grid is in the notes of the file."""
    import pyarrow
    import pyarrow.parquet

    frame = cells.table.assign(**{"(x)": cells.x, "(y)": cells.y})
    table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    note = json.dumps(asdict(cells.grid) | {"stride": cells.stride}).encode()
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        pyarrow.parquet.write_table(
            table.replace_schema_metadata({**(table.schema.metadata or {}), _NOTE: note}), partial
        )
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def read_cells(path: Path) -> SpreadCells:
    """Read what :func:`write_cells` wrote.

    Raises
    ------
    DataError
        Another file.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        stored = pyarrow.parquet.read_table(path)
        note = json.loads(stored.schema.metadata[_NOTE])
        grid = MapGrid(note["crs"], tuple(note["transform"]), int(note["width"]), int(note["height"]))
        frame = stored.to_pandas()
        x, y = frame.pop("(x)").to_numpy(), frame.pop("(y)").to_numpy()
    except (OSError, KeyError, ValueError, TypeError, pyarrow.ArrowException) as error:
        raise DataError(
            f"cells must be those that hotvae map wrote; got {path.name!r} ({type(error).__name__}). Make the map anew."
        ) from error
    return SpreadCells(grid, frame, x, y, int(note["stride"]))
