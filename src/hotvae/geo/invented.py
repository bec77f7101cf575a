"""Invented rasters over a real extent, to try every step from points to maps without a download."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hotvae.errors import ConfigError
from hotvae.files import write_text
from hotvae.geo.extras import geo_module
from hotvae.geo.rasters import MapGrid

SINGAPORE = (103.60, 1.18, 104.06, 1.48)
"""West, south, east, north of the island: where auk's example checklists come from."""

LAND_COVER = {1: "forest", 2: "grassland", 3: "wetland", 4: "cropland", 5: "city"}


def write_rasters(
    folder: str | os.PathLike[str],
    bounds: tuple[float, float, float, float] = SINGAPORE,
    resolution: float = 0.002,
    seed: int = 0,
) -> list[Path]:
    """Write a few rasters in degrees (EPSG:4326), and the outline of their region.

    Parameters
    ----------
    folder : path
        Where they go; made if needed.
    bounds : tuple of 4 floats
        West, south, east, north in degrees.
    resolution : float
        Side of a cell in degrees.
    seed : int
        Decides the landscape: the same seed, the same bytes.

    Returns
    -------
    list of Path
        ``elevation.tif`` (metres), ``rain.tif`` and ``rain_future.tif`` (millimetres a year), ``tree_cover.tif``
        (percent), ``landcover.tif`` (classes 1 to 5; 0 is no data), and ``region.geojson``.

    Raises
    ------
    ConfigError
        Bounds without an inside, or a resolution that is not positive.
    """
    west, south, east, north = bounds
    if not (-180 <= west < east <= 180 and -90 <= south < north <= 90):
        raise ConfigError(f"bounds must be west, south, east, north in degrees; got {bounds}. Put them in this order.")
    if not 0 < resolution <= min(east - west, north - south):
        raise ConfigError(f"resolution must be above 0 and within the bounds; got {resolution:g}. Give degrees.")
    width, height = (max(1, round(side / resolution)) for side in (east - west, north - south))
    grid = MapGrid("EPSG:4326", (west, resolution, 0.0, north, 0.0, -resolution), width, height)
    random = np.random.default_rng(seed)
    relief, wet, trees, use = (_smooth(random, height, width, scale) for scale in (60, 90, 25, 15))
    elevation = 160 * np.maximum(relief, 0) ** 1.5 + 5 * (use + 1)
    rain = 2300 + 160 * wet + 0.9 * elevation
    tree_cover = np.clip(40 + 30 * trees + 0.15 * elevation - 12 * np.maximum(use, 0), 0, 100)
    cover = np.select(
        [tree_cover > 60, (elevation < 12) & (trees < -0.3), use > 0.4, use > -0.2], [1, 3, 5, 2], default=4
    ).astype(np.uint8)
    cover[: max(1, height // 40), : max(1, width // 40)] = 0  # a corner that nobody has mapped
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    layers: dict[str, tuple[NDArray[np.generic], float]] = {
        "elevation": (elevation.astype(np.float32), -9999.0),
        "rain": (rain.astype(np.float32), -9999.0),
        "rain_future": ((rain * 0.9 - 60 * relief).astype(np.float32), -9999.0),
        "tree_cover": (tree_cover.astype(np.float32), -9999.0),
        "landcover": (cover, 0),
    }
    files = [_write(place / f"{name}.tif", grid, values, nodata) for name, (values, nodata) in layers.items()]
    corners = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    ring = str([[round(x, 6), round(y, 6)] for x, y in corners])
    geometry = f'{{"type": "Polygon", "coordinates": [{ring}]}}'
    feature = f'{{"type": "Feature", "properties": {{}}, "geometry": {geometry}}}'
    write_text(place / "region.geojson", f'{{"type": "FeatureCollection", "features": [{feature}]}}\n')
    return [*files, place / "region.geojson"]


def _smooth(random: np.random.Generator, height: int, width: int, scale: float) -> NDArray[np.float64]:
    """Hills of a size: waves in all directions with random phases, standard deviation about 1."""
    y, x = np.mgrid[0:height, 0:width]
    total = np.zeros((height, width))
    for _ in range(24):
        length = scale * random.uniform(0.6, 2.5)
        angle, phase = random.uniform(0, 2 * np.pi, 2)
        total += np.cos(2 * np.pi * (x * np.cos(angle) + y * np.sin(angle)) / length + phase)
    found: NDArray[np.float64] = total / np.sqrt(12)
    return found


def _write(path: Path, grid: MapGrid, values: NDArray[np.generic], nodata: float) -> Path:
    rasterio = geo_module("rasterio", "write rasters")
    partial = path.with_name(f".{path.stem}.{os.getpid()}.part.tif")
    profile = {"driver": "GTiff", "count": 1, "width": grid.width, "height": grid.height, "compress": "deflate"}
    try:
        with rasterio.open(
            partial, "w", dtype=values.dtype, crs=grid.crs, transform=grid.affine(), nodata=nodata, **profile
        ) as file:
            file.write(values, 1)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return path
