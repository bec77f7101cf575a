"""Vector files: points of a GeoPackage, shapefile or GeoJSON as rows with coordinates.

Needs geopandas and pyogrio, of the extra ``geo``.
"""

import warnings
from pathlib import Path
from typing import Any

import pandas as pd

from hotvae.config import require_module
from hotvae.data.formats.sheets import chosen_part
from hotvae.errors import DataError, DataWarning, listed

SUFFIXES = (".gpkg", ".shp", ".geojson")
"""Kinds of files that are read here."""


def read_vector(path: Path, layer: str | None = None) -> pd.DataFrame:
    """Read a layer as a table, and its places as two columns.

    Parameters
    ----------
    path : Path
        The file.
    layer : str, optional
        Name of the layer; needed where there are several.

    Returns
    -------
    DataFrame
        Attributes, then ``longitude`` and ``latitude`` (degrees) or ``x`` and ``y``. ``attrs`` hold ``coordinates``,
        their names, ``crs``, such as ``"EPSG:4326"``, and ``notes``.

    Raises
    ------
    DataError
        A damaged file, no layer of that name, or rows without a place.
    """
    pyogrio = require_module("pyogrio", "read vector files", "geo")
    require_module("geopandas", "read vector files", "geo")
    try:
        names = [str(row[0]) for row in pyogrio.list_layers(path)]
        chosen = chosen_part(names, layer, "layer", path)
        places: Any = pyogrio.read_dataframe(path, layer=chosen)
    except (pyogrio.errors.DataSourceError, pyogrio.errors.DataLayerError, RuntimeError) as error:
        raise DataError(
            f"table must be readable; got {str(path)!r} (truncated or corrupt: {error}). Copy or make it anew; a "
            "shapefile needs its .shx and .dbf beside it."
        ) from error
    if not hasattr(places, "geometry") or "geometry" not in places:
        frame = pd.DataFrame(places)  # a layer of attributes alone
        return frame
    shapes = places.geometry
    absent = [int(i) for i in (shapes.isna() | shapes.is_empty).to_numpy().nonzero()[0]]
    if absent:
        raise DataError(
            f"rows must have a place; got none (rows {listed(absent)} of {path.name}). Fill in or remove these rows."
        )
    notes = []
    kinds = sorted(set(shapes.geom_type))
    if kinds != ["Point"]:
        notes.append(f"places: a point within each shape of {path.name} ({', '.join(kinds)})")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of degrees: any point within will do
            shapes = shapes.representative_point()
    crs = shapes.crs
    code = "" if crs is None else crs.to_string()
    if crs is None:
        warnings.warn(
            f"places should have a coordinate reference system; got none ({path.name}). Its numbers are taken as they "
            "are. Set it in your GIS, and save the file again.",
            DataWarning,
            stacklevel=4,
        )
    pair = ("longitude", "latitude") if crs is not None and crs.is_geographic else ("x", "y")
    others = pd.DataFrame(places.drop(columns="geometry"))
    if set(pair) & set(others.columns):
        pair = ("geometry_x", "geometry_y")
    frame = others.assign(**{pair[0]: shapes.x.to_numpy(), pair[1]: shapes.y.to_numpy()})
    frame.attrs |= {"coordinates": pair, "crs": code, "notes": notes}
    notes.append(f"coordinates: {pair[0]}, {pair[1]} ({code or 'no reference system'}), from {path.name}")
    return frame
