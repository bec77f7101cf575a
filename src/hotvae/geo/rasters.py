"""Rasters as they are read here: opened with care, on one grid, a window at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hotvae.data.dataset import close_names
from hotvae.errors import ConfigError, DataError, listed
from hotvae.geo.extras import geo_module

TILE = 256
"""Side of a tile in cells: the unit of work, and the block of the files that are written."""

GDAL_BYTES = 64_000_000
"""What GDAL may keep of files in memory, whatever their size; rasterio takes bytes."""

_RASTERS = (".tif", ".tiff", ".vrt", ".img", ".asc", ".nc", ".jp2")


class Window(NamedTuple):
    """A rectangle of cells.

    Attributes
    ----------
    number : int
        Its place in the order of work.
    column, row : int
        Of its upper left cell.
    width, height : int
        In cells.
    """

    number: int
    column: int
    row: int
    width: int
    height: int

    @property
    def n_cells(self) -> int:
        """How many cells it has."""
        return self.width * self.height

    def touches(self, other: Window) -> bool:
        """Say whether the two have a cell in common."""
        return (
            self.column < other.column + other.width
            and other.column < self.column + self.width
            and self.row < other.row + other.height
            and other.row < self.row + self.height
        )

    def slices(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Rows from and to, columns from and to, as rasterio takes them."""
        return (self.row, self.row + self.height), (self.column, self.column + self.width)


@dataclass(frozen=True)
class MapGrid:
    """The cells of a map.

    Attributes
    ----------
    crs : str
        Reference system, as ``EPSG:4326`` or in its long form.
    transform : tuple of 6 floats
        West edge, cell width, 0, north edge, 0, minus cell height (GDAL's order: c, a, b, f, d, e).
    width, height : int
        In cells.
    """

    crs: str
    transform: tuple[float, float, float, float, float, float]
    width: int
    height: int

    @property
    def n_cells(self) -> int:
        """How many cells there are."""
        return self.width * self.height

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """West, south, east, north."""
        west, across, _, north, _, down = self.transform
        return west, north + down * self.height, west + across * self.width, north

    def windows(self, side: int = TILE) -> list[Window]:
        """Cut the grid into tiles, row by row."""
        found: list[Window] = []
        for row in range(0, self.height, side):
            for column in range(0, self.width, side):
                size = min(side, self.width - column), min(side, self.height - row)
                found.append(Window(len(found), column, row, *size))
        return found

    def cut(self, bounds: tuple[float, float, float, float]) -> Window:
        """Return the cells that touch a rectangle: west, south, east, north in the system of the grid.

        Raises
        ------
        DataError
            A rectangle beside the grid, or none.

        Examples
        --------
        >>> MapGrid("EPSG:4326", (10.0, 0.5, 0.0, 50.0, 0.0, -0.5), 8, 6).cut((11.2, 48.0, 12.0, 99.0))
        Window(number=0, column=2, row=0, width=2, height=4)
        """
        west, across, _, north, _, down = self.transform
        first, last = (bounds[0] - west) / across, (bounds[2] - west) / across
        top, bottom = (bounds[3] - north) / down, (bounds[1] - north) / down
        if not (first < last and top < bottom and first < self.width and last > 0 and top < self.height and bottom > 0):
            shown = ", ".join(f"{value:g}" for value in self.bounds)
            raise DataError(
                f"window must be west, south, east, north and touch the map; got "
                f"{', '.join(f'{value:g}' for value in bounds)}. The map has {shown} ({self.crs})."
            )
        column, row = max(0, math.floor(first + 1e-9)), max(0, math.floor(top + 1e-9))
        width = min(self.width, math.ceil(last - 1e-9)) - column
        height = min(self.height, math.ceil(bottom - 1e-9)) - row
        return Window(0, column, row, max(1, width), max(1, height))

    def centres(self, window: Window) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return x and y of the cells of a window, row by row, each of shape (n_cells,)."""
        west, across, _, north, _, down = self.transform
        x = west + across * (window.column + np.arange(window.width) + 0.5)
        y = north + down * (window.row + np.arange(window.height) + 0.5)
        return np.tile(x, window.height), np.repeat(y, window.width)

    def affine(self) -> Any:
        """Return the transform as rasterio takes it."""
        west, across, _, north, _, down = self.transform
        return geo_module("rasterio", "read rasters").Affine(across, 0.0, west, 0.0, down, north)


@dataclass(frozen=True)
class Cells:
    """The cells of a window that have all they need.

    Attributes
    ----------
    table : DataFrame
        A row each; the columns of the model.
    places : ndarray of int
        Where each is in the window, counted row by row.
    """

    table: pd.DataFrame
    places: NDArray[np.intp]


@dataclass(frozen=True)
class Layer:
    """One column of a model, in a band of a file."""

    column: str
    path: Path
    band: int


def gdal_memory(*datasets: Any) -> Any:
    """Return a context in which GDAL keeps no more than it has to of what it reads; else it takes a share of memory.

    A raster in strips is read by whole rows, and tiles beside each other share them: these rows are kept.
    """
    rows = sum(d.width * TILE * np.dtype(d.dtypes[0]).itemsize for d in datasets if d.block_shapes[0][1] > TILE)
    return geo_module("rasterio", "read rasters").Env(GDAL_CACHEMAX=min(max(GDAL_BYTES, 2 * rows), 16 * GDAL_BYTES))


@contextmanager
def opened(path: str | Path) -> Iterator[Any]:
    """Open a raster, or say what is wrong with it: no such file, no reference system, a grid that is rotated.

    Yields
    ------
    rasterio dataset

    Raises
    ------
    DataError
        A file that cannot be read or placed.
    """
    rasterio = geo_module("rasterio", "read rasters")
    source = Path(path)
    if not source.exists():
        raise DataError(f"raster must be a file; got {str(source)!r}, which does not exist. Check the path.")
    with readable(source.name):
        dataset = rasterio.open(source)
    with dataset, gdal_memory(dataset), readable(source.name):
        if dataset.crs is None:
            raise DataError(
                f"raster must have a coordinate reference system; got none ({source.name}). "
                "Give it one: gdal_edit.py -a_srs EPSG:... FILE."
            )
        affine = dataset.transform
        if affine.b or affine.d:
            raise DataError(
                f"raster must have rows from west to east; got a rotated grid ({source.name}). "
                "Straighten it: gdalwarp FILE straight.tif."
            )
        west, south, east, north = dataset.bounds
        # Numbers that are none, or so large that a cell is lost in them.
        wide, high = dataset.width * affine.a, -dataset.height * affine.e
        is_somewhere = 0 < abs(wide) < np.inf and 0 < abs(high) < np.inf
        is_somewhere &= abs(east - west - wide) < 0.01 * abs(wide) and abs(north - south - high) < 0.01 * abs(high)
        if not is_somewhere:
            raise DataError(
                f"raster must say where it lies; got {west:g} to {east:g} and {south:g} to {north:g} ({source.name}). "
                "The file is damaged: make it again."
            )
        if affine.a <= 0 or affine.e >= 0:
            raise DataError(
                f"raster must have north at the top; got cells of {affine.a:g} by {affine.e:g} ({source.name}). "
                "Turn it: gdalwarp FILE turned.tif."
            )
        if any(str(kind).startswith("complex") for kind in dataset.dtypes):
            raise DataError(f"raster must hold real numbers; got complex ones ({source.name}). Save one part of them.")
        yield dataset


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Say which raster it is that GDAL cannot read, when it is opened or later."""
    errors = geo_module("rasterio", "read rasters").errors
    try:
        yield
    except (errors.RasterioIOError, OverflowError) as error:  # the latter: a header with numbers beyond all use
        why = error.__cause__ or error
        raise DataError(f"raster must be a file that GDAL reads; got {name!r} ({why}). Check the file.") from error


def grid_of(dataset: Any) -> MapGrid:
    """Return the grid of an opened raster."""
    affine = dataset.transform
    code = dataset.crs.to_epsg()
    crs = f"EPSG:{code}" if code else dataset.crs.to_wkt()
    return MapGrid(crs, (affine.c, affine.a, 0.0, affine.f, 0.0, affine.e), dataset.width, dataset.height)


def raster_files(named: Sequence[str | Path]) -> list[tuple[Path, str | None]]:
    """Turn ``FILE``, ``FILE:COLUMN`` and folders into files, and the columns they were named for.

    Raises
    ------
    DataError
        A folder without rasters.
    """
    found: list[tuple[Path, str | None]] = []
    for name in named:
        path = Path(name)
        if path.is_dir():
            inside = sorted(file for file in path.iterdir() if file.suffix.lower() in _RASTERS)
            if not inside:
                raise DataError(f"folder must have rasters ({', '.join(_RASTERS)}); got none ({path}). Name files.")
            found += [(file, None) for file in inside]
            continue
        head, colon, column = str(name).rpartition(":")
        # A colon may also be that of a drive, or of a name that is a file as it stands.
        if colon and len(head) > 1 and column and not path.exists():
            found.append((Path(head), column))
        else:
            found.append((path, None))
    return found


def layers_of(path: Path, column: str | None = None) -> list[Layer]:
    """Name the bands of a raster: by what the file calls them, or by the name of the file.

    Parameters
    ----------
    path : Path
        The file.
    column : str, optional
        Name of its one band.

    Raises
    ------
    DataError
        One name for several bands.
    """
    with opened(path) as dataset:
        described = [str(text or "").strip() for text in dataset.descriptions]
        count = dataset.count
    if column is not None:
        if column in described:
            return [Layer(column, path, described.index(column) + 1)]
        if count > 1:
            named = [text or f"band {number}" for number, text in enumerate(described, start=1)]
            raise DataError(
                f"band must be one of the raster; got {column!r}, not among {listed(named)} ({path.name}). "
                "Name a band by its description."
            )
        return [Layer(column, path, 1)]
    names = [text or (path.stem if count == 1 else f"{path.stem}_{n}") for n, text in enumerate(described, start=1)]
    return [Layer(name, path, number) for number, name in enumerate(names, start=1)]


def choose_layers(named: Sequence[str | Path], columns: Sequence[str]) -> list[Layer]:
    """Find the band of each column among rasters.

    Parameters
    ----------
    named : sequence of path
        Files, ``FILE:COLUMN``, or folders.
    columns : sequence of str
        Columns that are wanted.

    Returns
    -------
    list of Layer
        In the order of the columns.

    Raises
    ------
    DataError
        A column without a band, or with two.
    """
    there = [layer for path, column in raster_files(named) for layer in layers_of(path, column)]
    found = []
    missing = []
    for column in columns:
        own = [layer for layer in there if layer.column == column]
        if len(own) > 1:
            raise DataError(
                f"column must be in one raster; got {column!r} in {listed(str(layer.path.name) for layer in own)}. "
                "Leave all but one out."
            )
        if own:
            found.append(own[0])
        else:
            missing.append(column)
    if missing:
        names = [layer.column for layer in there]
        raise DataError(
            f"rasters must have a band for every column of the model; got none for {listed(missing)}"
            f"{close_names(missing, names)}, only {listed(names)}. Add the raster (--raster FILE:COLUMN), "
            "or hold the column at a value (--fixed COLUMN=VALUE)."
        )
    return found


def check_same_grid(paths: Sequence[Path]) -> MapGrid:
    """Return the grid that all rasters share.

    Raises
    ------
    DataError
        Another reference system, cell size, origin or extent.
    """
    first: MapGrid | None = None
    for path in paths:
        with opened(path) as dataset:
            grid = grid_of(dataset)
        if first is None:
            first = grid
            continue
        near = all(
            math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-6 * abs(first.transform[1]))
            for a, b in zip(first.transform, grid.transform, strict=True)
        )
        if grid.crs != first.crs or (grid.width, grid.height) != (first.width, first.height) or not near:
            raise DataError(
                "rasters must lie on one grid; got "
                f"{_described(first)} ({paths[0].name}) and {_described(grid)} ({path.name}). "
                "Bring them to one grid with gdalwarp, or make a grid with their values: hotvae grid."
            )
    if first is None:
        raise ConfigError("a map must have rasters; got none. Name some with --raster.")
    return first


def _described(grid: MapGrid) -> str:
    across, down = grid.transform[1], -grid.transform[5]
    west, south, east, north = grid.bounds
    name = grid.crs if len(grid.crs) < 40 else grid.crs[:37] + "..."
    return (
        f"{grid.width} x {grid.height} cells of {across:g} x {down:g} in {name} "
        f"({west:g} to {east:g}, {south:g} to {north:g})"
    )


class RasterInputs:
    """Bands on one grid, read window by window as rows of a table.

    Parameters
    ----------
    layers : sequence of Layer
        A band for each column.
    fixed : mapping of str to object
        Columns that have one value everywhere.
    coordinates : (str, str), optional
        Columns that are the places of the cells themselves.
    coordinates_crs : str, optional
        Reference system of these; by default that of the rasters.
    text : collection of str
        Columns that are categories: whole numbers are written as text.
    """

    def __init__(
        self,
        layers: Sequence[Layer],
        *,
        fixed: Mapping[str, Any] | None = None,
        coordinates: tuple[str, str] | None = None,
        coordinates_crs: str | None = None,
        text: Sequence[str] = (),
    ) -> None:
        self.layers, self.fixed, self.text = list(layers), dict(fixed or {}), frozenset(text)
        self.grid = check_same_grid(list(dict.fromkeys(layer.path for layer in layers)))
        self.coordinates, self.coordinates_crs = coordinates, coordinates_crs
        self._files: dict[Path, Any] = {}

    def windows(self) -> list[Window]:
        """Return the tiles of the map."""
        return self.grid.windows()

    def with_files(self, swapped: Mapping[Path, Path]) -> RasterInputs:
        """Return the same columns read from other files."""
        there = {path.resolve(): path for path in swapped}
        layers = [
            Layer(layer.column, swapped[there[layer.path.resolve()]], layer.band)
            if layer.path.resolve() in there
            else layer
            for layer in self.layers
        ]
        return RasterInputs(
            layers,
            fixed=self.fixed,
            coordinates=self.coordinates,
            coordinates_crs=self.coordinates_crs,
            text=sorted(self.text),
        )

    def identity(self) -> list[Any]:
        """Tell inputs apart: files by name, size and time of change, and what is held fixed."""
        files = sorted({layer.path.resolve() for layer in self.layers})
        stats = [[str(file), file.stat().st_size, file.stat().st_mtime_ns] for file in files]
        layers = [[layer.column, str(layer.path.resolve()), layer.band] for layer in self.layers]
        return [stats, layers, sorted(self.fixed.items(), key=str), self.coordinates, self.coordinates_crs]

    def read(self, window: Window) -> Cells:
        """Read the cells of a window that have a value in every band."""
        files = {layer.path: self._open(layer.path) for layer in self.layers}
        with gdal_memory(*files.values()):
            return self._read(window)

    def _read(self, window: Window) -> Cells:
        values: dict[str, NDArray[Any]] = {}
        valid = np.ones(window.n_cells, dtype=bool)
        for layer in self.layers:
            dataset = self._open(layer.path)
            rows_columns = window.slices()
            with readable(layer.path.name):
                band = dataset.read(layer.band, window=rows_columns).reshape(-1)
                valid &= dataset.read_masks(layer.band, window=rows_columns).reshape(-1) > 0
            scale, offset = dataset.scales[layer.band - 1], dataset.offsets[layer.band - 1]
            if (scale, offset) != (1.0, 0.0):
                band = band * scale + offset
            if np.issubdtype(band.dtype, np.floating):
                valid &= np.isfinite(band)
            values[layer.column] = band
        places = np.flatnonzero(valid)
        columns: dict[str, Any] = {}
        for name, band in values.items():
            kept = band[places]
            columns[name] = kept.astype(np.int64).astype(str) if name in self.text else kept.astype(np.float64)
        if self.coordinates is not None:
            columns |= self._places(window, places)
        columns |= {name: np.full(len(places), value) for name, value in self.fixed.items()}
        return Cells(pd.DataFrame(columns), places)

    def _places(self, window: Window, places: NDArray[np.intp]) -> dict[str, NDArray[np.float64]]:
        x, y = (axis[places] for axis in self.grid.centres(window))
        if self.coordinates_crs is not None and len(places):
            pyproj = geo_module("pyproj", "place cells")
            change = pyproj.Transformer.from_crs(self.grid.crs, self.coordinates_crs, always_xy=True)
            x, y = change.transform(x, y)
        first, second = self.coordinates or ("", "")
        return {name: axis for name, axis in ((first, x), (second, y)) if name not in self.fixed}

    def _open(self, path: Path) -> Any:
        if path not in self._files:
            self._files[path] = geo_module("rasterio", "read rasters").open(path)
        return self._files[path]

    def close(self) -> None:
        """Let go of the files."""
        for dataset in self._files.values():
            dataset.close()
        self._files = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_files": {}}  # a worker elsewhere opens its own
