"""Maps as files: Cloud Optimised GeoTIFFs with named bands, and a style beside each for QGIS."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import NDArray

from hotvae.errors import ConfigError, DataError
from hotvae.files import write_text
from hotvae.geo.extras import geo_module
from hotvae.geo.rasters import GDAL_BYTES, TILE, MapGrid, Window
from hotvae.geo.tiles import no_room

_GDAL = {"GDAL_CACHEMAX": GDAL_BYTES}

# Five stops of a scale from little to much, legible without colour: viridis; and from loss over nothing to gain.
SEQUENTIAL = ("#440154", "#3b528b", "#21918c", "#5ec962", "#fde725")
DIVERGING = ("#b2182b", "#ef8a62", "#f7f7f7", "#67a9cf", "#2166ac")


def write_cog(
    path: Path,
    grid: MapGrid,
    names: Sequence[str],
    read: Callable[[Window], NDArray[Any]],
    *,
    dtype: str,
    nodata: float,
    scale: float = 1.0,
    resampling: Literal["average", "nearest"] = "average",
    tags: Mapping[str, str] | None = None,
) -> None:
    """Put tiles together to one Cloud Optimised GeoTIFF, whole or not at all.

    Parameters
    ----------
    path : Path
        The file; an older one is replaced.
    grid : MapGrid
        Its cells.
    names : sequence of str
        Of the bands.
    read : callable
        Returns the tile of a window of ``grid``, of shape (n_bands, height, width).
    dtype : str
        Number type of the file.
    nodata : float
        Value of cells without data.
    scale : float
        What stored numbers are multiplied by.
    resampling : {"average", "nearest"}
        How the smaller copies of the map are made: a cell of each is the mean of the (up to) four cells of the next
        larger one that have data, bytes rounded, or the first of the four.
    tags : mapping of str to str, optional
        Notes in the file.

    Raises
    ------
    ConfigError
        A full disk.
    DataError
        A file that GDAL's own rules for such files refuse.

    Notes
    -----
    Smaller copies are made here while a tile is in memory, some times faster than by GDAL, which goes through all cells
    again. GDAL takes them from files that are named as it names smaller copies of its own, and of copies (``.ovr``,
    ``.ovr.ovr``); it packs all of them into the one file. Memory holds a tile of each level.

    Bands are stored one after the other: whoever looks at one species reads that species. GDAL's driver of the name COG
    mixes them cell by cell, which costs two thirds more processor time and, for 100 species, makes files 1.8 times as
    large.
    """
    rasterio = geo_module("rasterio", "write maps")
    shutil_of_rasters = geo_module("rasterio.shutil", "write maps")
    plain = path.with_name(f".{path.stem}.{os.getpid()}.plain.tif")
    partial = path.with_name(f".{path.stem}.{os.getpid()}.part.tif")
    levels = _levels(grid)
    copies = [plain.with_name(plain.name + ".ovr" * number) for number in range(len(levels))]
    profile = {
        "driver": "GTiff",
        "count": len(names),
        "dtype": dtype,
        "crs": grid.crs,
        "nodata": nodata,
        "tiled": True,
        "blockxsize": TILE,
        "blockysize": TILE,
        "interleave": "band",  # as the tiles are
        "bigtiff": "IF_SAFER",
        "sparse_ok": True,
        # Else three bands would be taken for red, green and blue, and a fourth for how far they are seen through.
        "photometric": "MINISBLACK",
        "alpha": "NO",
    }
    try:
        with no_room(path.parent), _gdal_errors(rasterio, path), rasterio.Env(**_GDAL):
            with ExitStack() as opened:
                files = [
                    opened.enter_context(
                        rasterio.open(
                            copy, "w", width=level.width, height=level.height, transform=level.affine(), **profile
                        )
                    )
                    for copy, level in zip(copies, levels, strict=True)
                ]
                for number, name in enumerate(names, start=1):
                    files[0].set_band_description(number, name)
                if scale != 1.0:
                    files[0].scales, files[0].offsets = (scale,) * len(names), (0.0,) * len(names)
                files[0].update_tags(**dict(tags or {}))
                halve = functools.partial(_halved_by_mean, nodata) if resampling == "average" else _halved_by_first
                _write_tiles(files, levels, read, halve)
            options = {
                "COPY_SRC_OVERVIEWS": "YES",
                "TILED": "YES",
                "BLOCKXSIZE": str(TILE),
                "BLOCKYSIZE": str(TILE),
                "INTERLEAVE": "BAND",
                "COMPRESS": "DEFLATE",
                "ZLEVEL": "1",  # an eighth of the time of the usual 6, for files a tenth larger
                "PREDICTOR": "3" if np.issubdtype(np.dtype(dtype), np.floating) else "2",
                "BIGTIFF": "IF_SAFER",
                "NUM_THREADS": "1",
                "PHOTOMETRIC": "MINISBLACK",
                "ALPHA": "NO",
            }
            shutil_of_rasters.copy(plain, partial, driver="GTiff", **options)
        _check_cog(partial, path, len(names))
        with no_room(path.parent):
            _flush(partial)
        os.replace(partial, path)
    finally:
        for file_name in (*copies, partial):
            file_name.unlink(missing_ok=True)
            Path(f"{file_name}.aux.xml").unlink(missing_ok=True)


def _levels(grid: MapGrid) -> list[MapGrid]:
    """Return the grid, and grids of cells twice as large until one fits into a tile."""
    found = [grid]
    while max(found[-1].width, found[-1].height) > TILE:
        last = found[-1]
        west, across, _, north, _, down = last.transform
        larger = (west, 2 * across, 0.0, north, 0.0, 2 * down)
        found.append(MapGrid(grid.crs, larger, -(-last.width // 2), -(-last.height // 2)))
    return found


def _write_tiles(
    files: Sequence[Any],
    levels: Sequence[MapGrid],
    read: Callable[[Window], NDArray[Any]],
    halve: Callable[[NDArray[Any]], NDArray[Any]],
) -> None:
    """Write the tiles of all levels, each made of the four below it; so each is in memory once, and written once."""
    tiles = [level.windows() for level in levels]
    n_across = [-(-level.width // TILE) for level in levels]

    def write(level: int, row: int, column: int) -> NDArray[Any]:
        window = tiles[level][row * n_across[level] + column]
        if level == 0:
            values = read(window)
        else:
            values = np.empty((files[level].count, window.height, window.width), dtype=files[level].dtypes[0])
            half = TILE // 2
            for down in range(2 if window.height > half else 1):
                for right in range(2 if window.width > half else 1):
                    part = halve(write(level - 1, 2 * row + down, 2 * column + right))
                    top, left = half * down, half * right
                    values[:, top : top + part.shape[1], left : left + part.shape[2]] = part
        files[level].write(values, window=window.slices())
        return values

    write(len(levels) - 1, 0, 0)


def _halved_by_first(values: NDArray[Any]) -> NDArray[Any]:
    """Take every other cell each way."""
    return values[:, ::2, ::2]


def _halved_by_mean(nodata: float, values: NDArray[Any]) -> NDArray[Any]:
    """Average two by two cells; those without data do not count, and what has none stays without."""
    n_bands, height, width = values.shape
    if height % 2 or width % 2:
        whole = np.full((n_bands, height + height % 2, width + width % 2), nodata, dtype=values.dtype)
        whole[:, :height, :width] = values
        values = whole
    is_number = np.issubdtype(values.dtype, np.floating)
    wide = np.float64 if is_number else np.uint16
    has_data = ~np.isnan(values) if np.isnan(nodata) else values != nodata
    if has_data.all():
        total = _sum_of_four(values, wide)
        return (total / 4 if is_number else (total + 2) // 4).astype(values.dtype)
    total, n = _sum_of_four(np.where(has_data, values, 0), wide), _sum_of_four(has_data, np.uint8)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / n if is_number else (2 * total + n) // (2 * n)  # a half is rounded up
    return np.where(n > 0, mean, nodata).astype(values.dtype)


def _sum_of_four(values: NDArray[Any], dtype: Any) -> NDArray[Any]:
    rows = np.add(values[:, ::2], values[:, 1::2], dtype=dtype)
    found: NDArray[Any] = rows[:, :, ::2] + rows[:, :, 1::2]
    return found


class _gdal_errors:  # noqa: N801  # reads as a verb where it is used
    """Turn what GDAL says of a write that failed into a sentence."""

    def __init__(self, rasterio: Any, path: Path) -> None:
        self.kinds = (rasterio.errors.RasterioError, geo_module("rasterio._err", "write maps").CPLE_BaseError)
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is not None and isinstance(error, self.kinds):
            raise ConfigError(
                f"map must be written whole; got an error of GDAL, {error} ({self.path}). "
                "Is the disk full? Make room and repeat the command: finished tiles are kept."
            ) from error


def _check_cog(partial: Path, path: Path, n_bands: int) -> None:
    """Hold a finished file against the rules, before it gets its name."""
    validate = geo_module("rio_cogeo.cogeo", "check maps").cog_validate
    is_valid, errors, _ = validate(str(partial), quiet=True)
    with geo_module("rasterio", "check maps").open(partial) as file:
        is_whole = file.count == n_bands
        # The last block of the last band: a file that was cut off has none.
        file.read(n_bands, window=((file.height - 1, file.height), (file.width - 1, file.width)))
    if not is_valid or not is_whole:
        raise DataError(f"map must be a Cloud Optimised GeoTIFF; got {errors or 'missing bands'} ({path}). Repeat it.")


def _flush(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def write_style(path: Path, low: float, high: float, colours: Sequence[str] = SEQUENTIAL, band: int = 1) -> None:
    """Write the style of a raster for QGIS, which finds it beside the file by its name.

    Parameters
    ----------
    path : Path
        The raster; the style ends in ``.qml``.
    low, high : float
        Ends of the colour scale, in values as QGIS has them: stored ones times their scale.
    colours : sequence of str
        From low to high.
    band : int
        Band that is shown first; any other can be chosen in QGIS and keeps the scale.
    """
    stops = np.linspace(low, high, len(colours))
    items = "\n".join(
        f'          <item alpha="255" value="{value:.6g}" color="{colour}" label={quoteattr(f"{value:.3g}")}/>'
        for value, colour in zip(stops, colours, strict=True)
    )
    text = f"""<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>
<qgis version="3.28" styleCategories="Symbology">
  <pipe>
    <rasterrenderer type="singlebandpseudocolor" band="{band}" opacity="1" alphaBand="-1" \
classificationMin="{low:.6g}" classificationMax="{high:.6g}" nodataColor="">
      <rastershader>
        <colorrampshader colorRampType="INTERPOLATED" classificationMode="1" clip="0" minimumValue="{low:.6g}" \
maximumValue="{high:.6g}">
{items}
        </colorrampshader>
      </rastershader>
    </rasterrenderer>
    <brightnesscontrast brightness="0" contrast="0" gamma="1"/>
    <rasterresampler maxOversampling="2"/>
  </pipe>
  <blendMode>0</blendMode>
</qgis>
"""
    write_text(path.with_suffix(".qml"), text)
