"""Covariates from rasters: for the rows of a table, and for the cells of a region."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotvae.data.dataset import close_names
from hotvae.data.frames import read_frame, write_table
from hotvae.data.places import degree_columns
from hotvae.errors import ConfigError, DataError, listed
from hotvae.geo.covariates import Covariates, Report, Source, to_degrees
from hotvae.geo.extras import geo_module
from hotvae.geo.grid import plan_grid, read_region, write_grid
from hotvae.geo.rasters import MapGrid
from hotvae.jobs.predict import check_out

# Names of coordinates that need not be declared, first of two and second.
_GUESSES = (
    ("longitude", "latitude"),
    ("lon", "lat"),
    ("decimalLongitude", "decimalLatitude"),
    ("lng", "lat"),
    ("x", "y"),
)


@dataclass(frozen=True)
class Annotated:
    """What came of :func:`annotate_table`.

    Attributes
    ----------
    n_rows : int
        Rows of the table.
    columns : list of str
        That were added.
    coordinates : tuple of str
        Columns that said where rows are.
    report : Report
        What was not there.
    """

    n_rows: int
    columns: list[str]
    coordinates: tuple[str, str]
    report: Report


def annotate_table(
    table: str | Path,
    rasters: Sequence[str | Path],
    out: str | Path,
    *,
    radius: float = 0.0,
    coordinates: tuple[str, str] | None = None,
    crs: str | None = None,
    encoding: str = "utf-8",
    decimal: str = ".",
    safe_csv: bool = False,
    force: bool = False,
) -> Annotated:
    """Add what rasters say around each row of a table.

    Parameters
    ----------
    table : path
        With two columns that say where rows are.
    rasters : sequence of path
        ``FILE``, or ``FILE:classes`` for land cover and the like.
    out : path
        The table with the new columns: ``.csv``, ``.tsv`` or ``.parquet``.
    radius : float
        Of the circles, in metres; 0 reads the cell that a row lies in.
    coordinates : (str, str), optional
        Columns of x and y; by default two that are named like longitude and latitude.
    crs : str, optional
        Their reference system; by default degrees.
    encoding, decimal, safe_csv, force
        As in :func:`hotvae.jobs.predict.predict_table`.

    Raises
    ------
    ConfigError, DataError
        A file, column or setting that does not fit.
    """
    source, target = Path(table), Path(out)
    check_out([target], force)
    read = Covariates([Source.parse(raster) for raster in rasters], radius)
    frame = read_frame(source, encoding=encoding, decimal=decimal)
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    names = _coordinate_columns(list(frame.columns), coordinates, source.name)
    taken = [name for name in read.columns if name in frame.columns]
    if taken:
        raise DataError(
            f"new columns must have new names; got {listed(taken)}, which the table has ({source.name}). "
            "Rename the raster, or leave these columns out."
        )
    x, y = (_numbers(frame[name], name, source.name) for name in names)
    if crs is None and degree_columns(names, np.column_stack([x, y])) == (1, 0):
        names, x, y = (names[1], names[0]), y, x
    columns, report = read.at(*to_degrees(x, y, crs, source.name))
    write_table(frame.assign(**columns), target, safe=safe_csv)
    return Annotated(len(frame), read.columns, names, report)


def _coordinate_columns(there: list[str], named: tuple[str, str] | None, source: str) -> tuple[str, str]:
    if named is not None:
        missing = [name for name in named if name not in there]
        if missing:
            raise DataError(
                f"coordinates must be columns of the table; got {listed(missing)}{close_names(missing, there)} "
                f"({source}). Check the spelling."
            )
        return named
    for pair in _GUESSES:
        found = [next((name for name in there if name.lower() == part.lower()), None) for part in pair]
        if found[0] is not None and found[1] is not None:
            return found[0], found[1]
    raise ConfigError(
        f"table must have columns of coordinates; got none named like longitude and latitude ({source}). "
        "Name them: --coordinates X,Y."
    )


def _numbers(column: Any, name: str, source: str) -> NDArray[np.float64]:
    try:
        values: NDArray[np.float64] = column.to_numpy(dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"coordinates must be numbers; got text in {name!r} ({source}). Use degrees or metres."
        ) from None
    return values


@dataclass(frozen=True)
class GridRun:
    """What came of :func:`grid_region`.

    Attributes
    ----------
    grid : MapGrid
        Its cells.
    n_cells : int
        Cells within the region.
    columns : list of str
        Covariates of each.
    report : Report
        What was not there.
    """

    grid: MapGrid
    n_cells: int
    columns: list[str]
    report: Report


def grid_region(
    region: str | Path,
    resolution: float,
    rasters: Sequence[str | Path],
    out: str | Path,
    *,
    radius: float = 0.0,
    crs: str | None = None,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> GridRun:
    """Lay a regular grid over a region, with the same columns that :func:`annotate_table` gives to points.

    Parameters
    ----------
    region : path
        Polygons: GeoPackage, shapefile or GeoJSON.
    resolution : float
        Side of a cell, in metres, or in the units of ``crs``.
    rasters, radius
        As in :func:`annotate_table`.
    out : path
        Ends in ``.parquet``.
    crs : str, optional
        Reference system of the grid; by default that of the region if it is in metres, else an equal-area one.
    force : bool
        Replace a file that is there.
    progress : callable, optional
        Takes tiles done, and all.

    Raises
    ------
    ConfigError, DataError
        A file or setting that does not fit.
    """
    target = Path(out)
    if target.suffix.lower() != ".parquet":
        raise ConfigError(f"grid must end in .parquet; got {target.name!r}. Rename it.")
    check_out([target], force)
    read = Covariates([Source.parse(raster) for raster in rasters], radius) if rasters else None
    grid, shape = plan_grid(read_region(region), resolution, crs)
    pyproj = geo_module("pyproj", "lay grids")
    change = pyproj.Transformer.from_crs(grid.crs, "EPSG:4326", always_xy=True)
    report = Report()

    def columns(x: NDArray[np.float64], y: NDArray[np.float64]) -> Mapping[str, NDArray[Any]]:
        if read is None:
            return {}
        longitude, latitude = change.transform(x, y)
        found, lacked = read.at(np.asarray(longitude), np.asarray(latitude))
        report.add(lacked)
        return found

    n_cells = write_grid(target, grid, shape, columns, progress)
    return GridRun(grid, n_cells, [] if read is None else read.columns, report)
