"""A regular grid of a region, and grids in tables as what a map is made from.

A grid file is Parquet: a row for each cell of the region, with its place and its covariates, and the grid itself in the
notes of the file. Rows are in the order of tiles, a row group each, so that a map reads a tile without the others.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hotvae.data.dataset import close_names
from hotvae.errors import ConfigError, DataError, listed
from hotvae.geo.extras import geo_module
from hotvae.geo.rasters import TILE, Cells, MapGrid, Window
from hotvae.geo.tiles import no_room

_NOTE = b"hotvae-grid"
# A grid of more cells than this is a slip of the resolution.
_MOST_CELLS = 10**10


def read_region(path: str | Path) -> Any:
    """Read the polygons of a region.

    Parameters
    ----------
    path : path
        GeoPackage, shapefile, GeoJSON or another vector file.

    Returns
    -------
    GeoSeries
        With its reference system.

    Raises
    ------
    DataError
        A file that cannot be read, has no polygons, or no reference system.
    """
    geopandas = geo_module("geopandas", "read regions")
    source = Path(path)
    if not source.exists():
        raise DataError(f"region must be a file; got {str(source)!r}, which does not exist. Check the path.")
    try:
        shapes = geopandas.read_file(source).geometry
    except Exception as error:  # GDAL's drivers raise what they like
        raise DataError(
            f"region must be a vector file such as GeoPackage; got {source.name!r} ({error}). Check the file."
        ) from error
    shapes = shapes[shapes.notna()]
    shapes = shapes[shapes.geom_type.isin(["Polygon", "MultiPolygon"])]
    if not len(shapes):
        raise DataError(f"region must have polygons; got none ({source.name}). Draw an outline.")
    if shapes.crs is None:
        raise DataError(
            f"region must have a coordinate reference system; got none ({source.name}). "
            "Give it one: ogr2ogr -a_srs EPSG:... NEW FILE."
        )
    return shapes


def plan_grid(shapes: Any, resolution: float, crs: str | None = None) -> tuple[MapGrid, Any]:
    """Lay a grid of square cells over a region.

    Parameters
    ----------
    shapes : GeoSeries
        The region.
    resolution : float
        Side of a cell in the units of the reference system, metres by default.
    crs : str, optional
        Reference system of the grid. By default that of the region if it is in metres, else an equal-area system
        around its middle.

    Returns
    -------
    grid : MapGrid
        Edges are whole multiples of the resolution.
    region : geometry
        The region in the system of the grid.

    Raises
    ------
    ConfigError
        A resolution that is not positive, too fine, or in other units than the system.
    """
    pyproj = geo_module("pyproj", "lay grids")
    if not (isinstance(resolution, int | float) and 0 < resolution < math.inf):
        raise ConfigError(f"resolution must be larger than 0; got {resolution}. Give the side of a cell in metres.")
    if crs is not None:
        try:
            system = pyproj.CRS.from_user_input(crs)
        except pyproj.exceptions.CRSError as error:
            raise ConfigError(f"crs must be a reference system such as EPSG:3035; got {crs!r}. Correct it.") from error
    elif shapes.crs.is_projected:
        system = pyproj.CRS.from_user_input(shapes.crs)
    else:
        west, south, east, north = shapes.to_crs(4326).total_bounds
        if not -90 <= south <= north <= 90:
            raise _beyond_earth()
        middle = f"+lat_0={round((south + north) / 2, 1)} +lon_0={round((west + east) / 2, 1)}"
        system = pyproj.CRS.from_proj4(f"+proj=laea {middle} +datum=WGS84 +units=m")
    region = shapes.to_crs(system).union_all()
    west, south, east, north = region.bounds
    extent = max(east - west, north - south)
    if not math.isfinite(extent):
        raise _beyond_earth()
    if system.is_geographic and resolution > extent:
        raise ConfigError(
            f"resolution must be in degrees for a grid in degrees ({crs or 'that of the region'}); got {resolution:g}, "
            "more than the whole region. Metres taken for degrees? Choose a system in metres with --crs."
        )
    if not system.is_geographic and resolution < extent / 1e6:
        raise ConfigError(
            f"resolution must be in metres for a grid in metres; got {resolution:g} for a region of {extent:,.0f}. "
            "Degrees taken for metres? Give metres, or a system in degrees with --crs EPSG:4326."
        )
    left, top = math.floor(west / resolution) * resolution, math.ceil(north / resolution) * resolution
    width, height = math.ceil((east - left) / resolution), math.ceil((top - south) / resolution)
    if width * height > _MOST_CELLS:
        raise ConfigError(
            f"grid must have at most {_MOST_CELLS:,} cells; got {width:,} by {height:,}. Choose a coarser resolution."
        )
    code = system.to_epsg()
    name = f"EPSG:{code}" if code else system.to_wkt()
    return MapGrid(name, (left, resolution, 0.0, top, 0.0, -resolution), max(width, 1), max(height, 1)), region


def _beyond_earth() -> DataError:
    return DataError(
        "region must lie where its reference system has places; got points beyond it. Check the coordinates, or name "
        "another system with --crs."
    )


def cells_inside(grid: MapGrid, region: Any, window: Window) -> NDArray[np.intp]:
    """Return the cells of a window whose middle lies in the region, counted row by row."""
    features = geo_module("rasterio.features", "lay grids")
    west, across, _, north, _, down = grid.transform
    corner = west + across * window.column, north + down * window.row
    affine = geo_module("rasterio", "lay grids").Affine(across, 0.0, corner[0], 0.0, down, corner[1])
    inside = features.rasterize([(region, 1)], out_shape=(window.height, window.width), transform=affine, dtype="uint8")
    return np.flatnonzero(inside.reshape(-1))


def write_grid(
    path: Path,
    grid: MapGrid,
    region: Any,
    columns: Callable[[NDArray[np.float64], NDArray[np.float64]], Mapping[str, NDArray[Any]]],
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Write the cells of a region with their covariates, tile by tile, whole or not at all.

    Parameters
    ----------
    path : Path
        Parquet file.
    grid : MapGrid
        From :func:`plan_grid`.
    region : geometry
        Cells whose middle lies in it are kept.
    columns : callable
        Takes x and y of cells, returns their covariates.
    progress : callable, optional
        Takes tiles done, and all.

    Returns
    -------
    int
        Number of cells.
    """
    import pyarrow
    import pyarrow.parquet

    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    windows = grid.windows()
    groups: list[int] = []
    n_cells, writer = 0, None
    try:
        with no_room(path.parent, "grid", ""):
            try:
                for window in windows:
                    places = cells_inside(grid, region, window)
                    if len(places):
                        x, y = (axis[places] for axis in grid.centres(window))
                        frame = pd.DataFrame({"x": x, "y": y, "cell": places.astype(np.int32), **columns(x, y)})
                        piece = pyarrow.Table.from_pandas(frame, preserve_index=False)
                        writer = writer or pyarrow.parquet.ParquetWriter(partial, piece.schema)
                        writer.write_table(piece, row_group_size=TILE * TILE)
                        groups.append(window.number)
                        n_cells += len(places)
                    if progress is not None:
                        progress(window.number + 1, len(windows))
                if writer is None:
                    raise DataError(
                        f"grid must have a cell in the region; got none of {grid.n_cells:,}. Choose a finer resolution."
                    )
                note = json.dumps(asdict(grid) | {"tile": TILE, "windows": groups})
                writer.add_key_value_metadata({_NOTE.decode(): note})
            finally:
                if writer is not None:
                    writer.close()
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return n_cells


class GridInputs:
    """A grid in a table, read tile by tile.

    Parameters
    ----------
    path : path
        Parquet file that :func:`write_grid` wrote.
    columns : sequence of str
        Columns of the model that the file must have.
    fixed : mapping of str to object
        Columns that have one value everywhere.
    coordinates : (str, str), optional
        Columns that are the places of the cells themselves.
    coordinates_crs : str, optional
        Reference system of these; by default that of the grid.
    text : sequence of str
        Columns that are categories.
    """

    def __init__(
        self,
        path: str | Path,
        columns: Sequence[str],
        *,
        fixed: Mapping[str, Any] | None = None,
        coordinates: tuple[str, str] | None = None,
        coordinates_crs: str | None = None,
        text: Sequence[str] = (),
    ) -> None:
        self.path, self.columns, self.fixed = Path(path), list(columns), dict(fixed or {})
        self.coordinates, self.coordinates_crs, self.text = coordinates, coordinates_crs, frozenset(text)
        self.grid, windows, there = read_grid_notes(self.path)
        missing = [name for name in self.columns if name not in there]
        if missing:
            raise DataError(
                f"grid must have every column of the model; got none for {listed(missing)}"
                f"{close_names(missing, there)} ({self.path.name}). Make the grid from the rasters of training, or "
                "hold the column at a value (--fixed COLUMN=VALUE)."
            )
        self._group = {number: group for group, number in enumerate(windows)}

    def windows(self) -> list[Window]:
        """Return the tiles of the map; those without cells as well, which are quick."""
        return self.grid.windows()

    def identity(self) -> list[Any]:
        """Tell inputs apart."""
        stat = self.path.stat()
        own = [str(self.path.resolve()), stat.st_size, stat.st_mtime_ns]
        return [own, self.columns, sorted(self.fixed.items(), key=str), self.coordinates, self.coordinates_crs]

    def read(self, window: Window) -> Cells:
        """Read the cells of a tile that have all values."""
        import pyarrow.parquet

        wanted = ["cell", "x", "y", *self.columns]
        if window.number not in self._group:
            frame = pd.DataFrame({name: np.zeros(0) for name in wanted})
        else:
            with pyarrow.parquet.ParquetFile(self.path) as file:
                frame = file.read_row_group(self._group[window.number], columns=wanted).to_pandas()
        frame = frame[frame[self.columns].notna().all(axis=1)] if self.columns else frame
        found: dict[str, Any] = {}
        for name in self.columns:
            is_text = name in self.text
            found[name] = frame[name].astype(str).to_numpy() if is_text else frame[name].to_numpy(dtype=np.float64)
        if self.coordinates is not None:
            x, y = frame["x"].to_numpy(), frame["y"].to_numpy()
            if self.coordinates_crs is not None and len(frame):
                pyproj = geo_module("pyproj", "place cells")
                x, y = pyproj.Transformer.from_crs(self.grid.crs, self.coordinates_crs, always_xy=True).transform(x, y)
            pairs = zip(self.coordinates, (x, y), strict=True)
            found |= {name: axis for name, axis in pairs if name not in self.fixed}
        found |= {name: np.full(len(frame), value) for name, value in self.fixed.items()}
        return Cells(pd.DataFrame(found), frame["cell"].to_numpy(dtype=np.intp))


def read_grid_notes(path: Path) -> tuple[MapGrid, list[int], list[str]]:
    """Return the grid of a file, the tiles of its row groups, and its columns.

    Raises
    ------
    DataError
        A file that is no grid.
    """
    import pyarrow
    import pyarrow.parquet

    if not path.exists():
        raise DataError(f"grid must be a file; got {str(path)!r}, which does not exist. Check the path.")
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            notes, names = file.metadata.metadata or {}, file.schema_arrow.names
        found = json.loads(notes[_NOTE])
        fields = ("crs", "transform", "width", "height")
        grid = MapGrid(found["crs"], tuple(found["transform"]), *(int(found[name]) for name in fields[2:]))
        windows = [int(number) for number in found["windows"]]
        is_ours = found["tile"] == TILE
    except (OSError, KeyError, ValueError, TypeError, pyarrow.ArrowException) as error:
        raise DataError(
            f"grid must be a Parquet file that hotvae grid wrote; got {path.name!r} ({type(error).__name__}). "
            "Make one: hotvae grid --region FILE --resolution METRES --raster FILE --out grid.parquet."
        ) from error
    if not is_ours:
        raise DataError(f"grid must have tiles of {TILE} cells; got {found['tile']} ({path.name}). Make it anew.")
    return grid, windows, [str(name) for name in names]


def in_pieces(n_rows: int, size: int) -> Iterator[slice]:
    """Cut rows into pieces."""
    return (slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size))
