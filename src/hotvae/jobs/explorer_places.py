"""The places that an explorer shows: rows of a table, cells of a grid, or those of a finished map."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial import KDTree

from hotvae.data.dataset import Dataset
from hotvae.data.places import degree_columns, flattened
from hotvae.errors import ConfigError, DataError, listed
from hotvae.estimators.base import LabelClassifier
from hotvae.geo.cells import Bounds, SpreadCells, read_cells, spread_cells
from hotvae.geo.extras import geo_module
from hotvae.geo.maps import MapInputs
from hotvae.jobs.map_page import find_place
from hotvae.jobs.maps import CELLS, SUMMARY, map_inputs, place_names
from hotvae.jobs.table_needs import TableNeeds
from hotvae.report.coastline import border_lines, land_rings

Floats = NDArray[np.float64]

MOST_CELLS = 20_000
"""Places of a page, at most: more make a file that mail refuses."""

# Of the extent of all places, how much land around them is kept; and the share by which outlines may be thinned.
_AROUND, _THINNED = 0.5, 1 / 3000
# Kilometres of a degree.
_DEGREE = 111.195


@dataclass(frozen=True, eq=False)
class ExplorerPlaces:
    """Places with all that a model wants to know of them, and where to draw them.

    Attributes
    ----------
    table : DataFrame
        Columns of the model; a row for each place.
    where : ndarray of shape (n_places, 2)
        East and north on a flat map, in kilometres.
    degrees : ndarray of shape (n_places, 2) or None
        Longitude and latitude; None where nobody knows.
    side : (float, float) or None
        Width and height of a cell in kilometres; None for single places.
    names : list of str
        Ids of the places; empty without any.
    scale : (float, float) or None
        Kilometres of the flat map for one unit of a grid, each way; None for single places.
    land, borders : list of ndarray of shape (n_points, 2)
        Outlines on the same flat map.
    notes : list of str
        What a reader should know of them.
    """

    table: pd.DataFrame
    where: Floats
    degrees: Floats | None
    side: tuple[float, float] | None = None
    names: list[str] = field(default_factory=list)
    scale: tuple[float, float] | None = None
    land: list[Floats] = field(default_factory=list)
    borders: list[Floats] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.table)

    def reach(self) -> float:
        """Half the width of a cell; for single places, how far each is taken to speak for what lies around it."""
        if self.side is not None:
            return max(self.side) / 2
        if len(self) < 2:
            return 1.0
        apart = np.asarray(KDTree(self.where).query(self.where, k=2)[0])[:, 1]
        return float(max(np.quantile(apart, 0.9), 1e-3))


def places_of_dataset(model: LabelClassifier, data: Dataset, most: int = MOST_CELLS) -> ExplorerPlaces:
    """Take the rows of a data set with coordinates as places.

    Parameters
    ----------
    model : LabelClassifier
        Fitted on a table with these columns.
    data : Dataset
        Has coordinates; its labels are not looked at.
    most : int
        Places of the page, at most.

    Raises
    ------
    DataError
        A data set without coordinates.
    """
    if data.coordinates is None:
        raise DataError(f"data must have coordinates to be explored; got none ({data.name or 'data set'}). Name them.")
    where = data.coordinates
    if not set(data.coordinate_names) <= set(data.feature_names) and place_names(model):
        data = data.with_coordinates_as_features()
    table: Any = data.features
    if not isinstance(table, pd.DataFrame):
        table = pd.DataFrame(np.asarray(table), columns=list(data.feature_names))
    names = [] if data.row_names is None else [str(name) for name in data.row_names]
    return _points(table, where, data.coordinate_names, names, most)


def places_of_file(
    model: LabelClassifier,
    source: str | Path,
    *,
    fixed: Mapping[str, str] | None = None,
    coordinates_crs: str | None = None,
    id_column: str | None = None,
    most: int = MOST_CELLS,
) -> ExplorerPlaces:
    """Read places from a folder of maps, a grid, or any table with coordinates.

    Parameters
    ----------
    model : LabelClassifier
        Fitted.
    source : path
        Folder that ``hotvae map`` wrote, Parquet that ``hotvae grid`` wrote, or a table with the columns of training.
    fixed : mapping of str to str, optional
        Columns held at a value, such as effort; for grids.
    coordinates_crs : str, optional
        Reference system of the training coordinates, for grids.
    id_column : str, optional
        Column of row ids of a table.
    most : int
        Places of the page, at most; of more, evenly spread ones are taken.

    Raises
    ------
    DataError
        A source that is not there, or lacks a column or coordinates.
    """
    path = Path(source)
    if not path.exists():
        raise DataError(f"--grid must be a folder of maps or a table; got {str(path)!r}, which is not there. Check it.")
    if not path.is_dir() and is_grid(path):
        return places_of_inputs(map_inputs(model, [], path, fixed or {}, coordinates_crs)[1], most)
    for name, given in (("--fixed", fixed), ("--coordinates-crs", coordinates_crs)):
        if given:
            raise ConfigError(
                f"{name} must go with a grid of hotvae grid; got it with {path.name!r}, which has its own columns and "
                "places. Leave it out."
            )
    if path.is_dir():
        return _of_folder(model, path)
    return _of_table(model, path, id_column, most)


def places_of_inputs(inputs: MapInputs, most: int = MOST_CELLS, within: Bounds | None = None) -> ExplorerPlaces:
    """Take cells of rasters or of a grid, of all or of a part; only tiles that it touches are read.

    Parameters
    ----------
    inputs : MapInputs
        From :func:`~hotvae.jobs.maps.map_inputs`.
    most : int
        Places, at most; of more cells, evenly spread ones are taken.
    within : (west, south, east, north), optional
        The part, in the reference system of the grid.

    Raises
    ------
    DataError
        A part beside the grid, or one without data.
    """
    return _of_cells(spread_cells(inputs, most, within))


def is_grid(path: Path) -> bool:
    """Say whether ``hotvae grid`` wrote a file."""
    from hotvae.geo.grid import read_grid_notes

    if path.suffix.lower() not in (".parquet", ".pq"):
        return False
    try:
        read_grid_notes(path)
    except DataError:
        return False
    return True


def _of_folder(model: LabelClassifier, folder: Path) -> ExplorerPlaces:
    if not (folder / SUMMARY).is_file():
        raise DataError(f"--grid must be a folder of a whole map; got no {SUMMARY} ({folder}). Make it: hotvae map.")
    if not (folder / CELLS).is_file():
        raise DataError(
            f"--grid must be a map that kept its covariates; got no {CELLS} ({folder}). Make the map anew, or pass a "
            "grid made by hotvae grid."
        )
    cells = read_cells(folder / CELLS)
    needs = TableNeeds.of_model(model)
    missing = [name for name in needs.features if name not in cells.table and name not in needs.unused]
    if missing:
        raise DataError(
            f"map must have been made with this model; got no column {listed(missing)} ({folder.name}). "
            "Map this model: hotvae map."
        )
    return _of_cells(cells)


def _of_cells(cells: SpreadCells) -> ExplorerPlaces:
    """Lay the cells of a grid on a flat map: their own, in kilometres."""
    grid, table, x, y, stride = cells
    place = find_place({"crs": grid.crs, "transform": list(grid.transform), "width": grid.width, "height": grid.height})
    pyproj = geo_module("pyproj", "place cells")
    longitude, latitude = pyproj.Transformer.from_crs(grid.crs, "EPSG:4326", always_xy=True).transform(x, y)
    scale = np.array([place.unit_km, _DEGREE if place.degrees else place.unit_km])
    notes = []
    if stride > 1:
        notes.append(f"every {stride}th cell of the grid each way, drawn {stride} times as wide")
    return ExplorerPlaces(
        table,
        np.column_stack([x, y]) * scale,
        np.column_stack([longitude, latitude]),
        (
            float(abs(grid.transform[1]) * stride * scale[0]),
            float(abs(grid.transform[5]) * stride * scale[1]),
        ),
        scale=(float(scale[0]), float(scale[1])),
        land=[ring * scale for ring in place.land],
        borders=[line * scale for line in place.borders],
        notes=notes,
    )


def _of_table(model: LabelClassifier, path: Path, id_column: str | None, most: int) -> ExplorerPlaces:
    needs = TableNeeds.of_model(model)
    frame = needs.read_rows(path, id_column=id_column)
    own = needs.places_of(frame)
    if own.shape[1] != 2:
        names = [name for name in place_names(model) if name in frame]
        own = frame[names] if len(names) == 2 else own
    if own.shape[1] != 2:
        raise DataError(
            f"table must have the coordinates of its rows to be explored; got none ({path.name}). Train with "
            "--coordinates X,Y and keep these columns."
        )
    features, ids = needs.features_of(frame, id_column=id_column, ignore_unknown=True, source=path.name)
    where = own.to_numpy(dtype=np.float64)
    unknown = np.flatnonzero(~np.isfinite(where).all(axis=1))
    if unknown.size:
        raise DataError(f"coordinates must be known for every row; got gaps (rows {listed(unknown)}). Fill them in.")
    names = [] if ids.name == "row" else [str(name) for name in ids]
    columns = str(own.columns[0]), str(own.columns[1])
    table: Any = features
    return _points(table, where, columns, names, most)


def _points(
    table: pd.DataFrame, coordinates: Floats, names: tuple[str, str], ids: list[str], most: int
) -> ExplorerPlaces:
    """Lay rows with coordinates on a flat map."""
    notes = []
    if len(table) > most:
        kept = np.linspace(0, len(table) - 1, most).round().astype(np.intp)
        notes.append(f"{most:,} of {len(table):,} rows, evenly taken")
        table, coordinates = table.iloc[kept].reset_index(drop=True), coordinates[kept]
        ids = [ids[i] for i in kept] if ids else []
    order = degree_columns(names, coordinates)
    if order is None:
        return ExplorerPlaces(table, coordinates, None, names=ids, notes=notes)
    degrees = coordinates[:, order]
    middle = (
        float(degrees[:, 0].min() + np.ptp(degrees[:, 0]) / 2),
        float(np.ptp(degrees[:, 1]) / 2 + degrees[:, 1].min()),
    )
    (west, south), (east, north) = degrees.min(axis=0), degrees.max(axis=0)
    wide = max(east - west, north - south, 0.5)
    box = (
        max(-180.0, west - _AROUND * wide),
        max(-90.0, south - _AROUND * wide),
        min(180.0, east + _AROUND * wide),
        min(90.0, north + _AROUND * wide),
    )

    def flat(lines: list[Floats]) -> list[Floats]:
        moved = [flattened(line, middle) for line in lines]
        return [line[np.isfinite(line).all(axis=1)] for line in moved]

    return ExplorerPlaces(
        table,
        flattened(degrees, middle),
        degrees,
        names=ids,
        land=flat(land_rings(box, tolerance=_THINNED * wide)),
        borders=flat(border_lines(box)),
        notes=notes,
    )
