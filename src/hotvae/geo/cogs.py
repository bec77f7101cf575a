"""Maps as files: Cloud Optimised GeoTIFFs with named bands, and a style beside each for QGIS."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
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

# Smaller copies of a map wait in a file of their own until it is put together. They are not packed for that long: of a
# large map GDAL would pack and unpack the same blocks again and again.
_GDAL = {"GDAL_CACHEMAX": GDAL_BYTES, "COG_TMP_COMPRESSION": "NONE"}

# Five stops of a scale from little to much, legible without colour: viridis; and from loss over nothing to gain.
SEQUENTIAL = ("#440154", "#3b528b", "#21918c", "#5ec962", "#fde725")
DIVERGING = ("#b2182b", "#ef8a62", "#f7f7f7", "#67a9cf", "#2166ac")


def write_cog(
    path: Path,
    grid: MapGrid,
    names: Sequence[str],
    tiles: Callable[[], Iterable[tuple[Window, NDArray[Any]]]],
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
    tiles : callable
        Yields windows and arrays of shape (n_bands, height, width); one is in memory at a time.
    dtype : str
        Number type of the file.
    nodata : float
        Value of cells without data.
    scale : float
        What stored numbers are multiplied by.
    resampling : {"average", "nearest"}
        How the smaller copies of the map are made.
    tags : mapping of str to str, optional
        Notes in the file.

    Raises
    ------
    ConfigError
        A full disk.
    DataError
        A file that GDAL's own rules for such files refuse.
    """
    rasterio = geo_module("rasterio", "write maps")
    shutil_of_rasters = geo_module("rasterio.shutil", "write maps")
    plain = path.with_name(f".{path.stem}.{os.getpid()}.plain.tif")
    partial = path.with_name(f".{path.stem}.{os.getpid()}.part.tif")
    profile = {
        "driver": "GTiff",
        "width": grid.width,
        "height": grid.height,
        "count": len(names),
        "dtype": dtype,
        "crs": grid.crs,
        "transform": grid.affine(),
        "nodata": nodata,
        "tiled": True,
        "blockxsize": TILE,
        "blockysize": TILE,
        "interleave": "band",  # smaller copies are made band by band: else each would read all the others
        "bigtiff": "IF_SAFER",
        "sparse_ok": True,
        # Else three bands would be taken for red, green and blue, and a fourth for how far they are seen through.
        "photometric": "MINISBLACK",
        "alpha": "NO",
    }
    try:
        with no_room(path.parent), _gdal_errors(rasterio, path), rasterio.Env(**_GDAL):
            with rasterio.open(plain, "w", **profile) as file:
                for number, name in enumerate(names, start=1):
                    file.set_band_description(number, name)
                if scale != 1.0:
                    file.scales, file.offsets = (scale,) * len(names), (0.0,) * len(names)
                file.update_tags(**dict(tags or {}))
                for window, values in tiles():
                    file.write(values, window=window.slices())
            options = {
                "BLOCKSIZE": str(TILE),
                "COMPRESS": "DEFLATE",
                "LEVEL": "1",  # an eighth of the time of the usual 6, for files a tenth larger
                "PREDICTOR": "YES",
                "BIGTIFF": "IF_SAFER",
                "OVERVIEW_RESAMPLING": resampling.upper(),
                "NUM_THREADS": "1",
            }
            shutil_of_rasters.copy(plain, partial, driver="COG", **options)
        _check_cog(partial, path, len(names))
        with no_room(path.parent):
            _flush(partial)
        os.replace(partial, path)
    finally:
        for file_name in (plain, partial):
            file_name.unlink(missing_ok=True)
            Path(f"{file_name}.aux.xml").unlink(missing_ok=True)
            file_name.with_name(f"{file_name.name}.ovr.tmp").unlink(missing_ok=True)


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
