"""Covariates at places: what rasters say in a circle around each of them.

Circles are drawn on the round Earth, in metres, whatever the system of the raster, and cells that a circle cuts count
by the share that lies in it (exactextract). Points are visited in the order of the raster's blocks, some at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotvae.errors import ConfigError, DataError, listed
from hotvae.geo.extras import geo_module
from hotvae.geo.rasters import opened

Floats = NDArray[np.float64]

# Corners of a circle: its area is off by 0.16 %.
_CORNERS = 64
# Points whose circles are in memory at a time.
_POINTS_AT_ONCE = 4_096
# Cells of a raster that are read at once.
_CELLS_IN_MEMORY = 2e7
# More classes than this are no classes.
_MOST_CLASSES = 60
# A circle that lies in a raster by less than this share is called partial.
_WHOLE = 0.99


@dataclass(frozen=True)
class Source:
    """A raster, and how it is read.

    Attributes
    ----------
    path : Path
        The file; its first band is read, or each band where it has several.
    is_classes : bool
        Whether cells are classes: shares of each are wanted, not their mean.
    """

    path: Path
    is_classes: bool = False

    @classmethod
    def parse(cls, text: str | Path) -> Source:
        """Read ``FILE`` or ``FILE:classes``.

        Raises
        ------
        ConfigError
            Another word after the colon.
        """
        whole = str(text)
        head, colon, kind = whole.rpartition(":")
        if not colon or Path(whole).exists() or len(head) <= 1:
            return cls(Path(whole))
        if kind != "classes":
            raise ConfigError(
                f"raster must be FILE or FILE:classes; got {whole!r}. Write :classes for classes such as land cover."
            )
        return cls(Path(head), True)


@dataclass
class Report:
    """What was not there.

    Attributes
    ----------
    n_points : int
        Points that were asked for.
    outside : dict of str to int
        Points whose circle lies outside, by raster.
    empty : dict of str to int
        Points inside whose circle has no data.
    partial : dict of str to int
        Points of whose circle a part has no data; the rest counts.
    """

    n_points: int = 0
    outside: dict[str, int] = field(default_factory=dict)
    empty: dict[str, int] = field(default_factory=dict)
    partial: dict[str, int] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Tell it in lines; nothing where all is there."""
        words = (
            ("outside the raster: no value", self.outside),
            ("without data: no value", self.empty),
            ("partly without data: what is there counts", self.partial),
        )
        return [
            f"{name}: {count:,} of {self.n_points:,} points {what}"
            for what, counts in words
            for name, count in counts.items()
            if count
        ]

    def add(self, other: Report) -> None:
        """Add what another piece of the points lacked."""
        self.n_points += other.n_points
        for mine, theirs in (
            (self.outside, other.outside),
            (self.empty, other.empty),
            (self.partial, other.partial),
        ):
            for name, count in theirs.items():
                mine[name] = mine.get(name, 0) + count


class Covariates:
    """Reads rasters at places.

    Parameters
    ----------
    sources : sequence of Source
        The rasters; each may have its own system and cells.
    radius : float
        Of the circles, in metres; 0 reads the cell that a place lies in.

    Attributes
    ----------
    columns : list of str
        What comes out: ``NAME_mean`` and ``NAME_sd``, or ``NAME_CLASS`` with the share of each class of the raster;
        ``NAME`` alone for radius 0. NAME is what the raster calls its band, or the name of its file.

    Raises
    ------
    ConfigError
        A radius below 0, or names that are used twice.
    DataError
        A raster that cannot be used.
    """

    def __init__(self, sources: Sequence[Source], radius: float = 0.0) -> None:
        if not 0 <= radius < np.inf:
            raise ConfigError(f"radius must be 0 or more metres; got {radius}. Give metres.")
        if not sources:
            raise ConfigError("covariates must come from rasters; got none. Name some with --raster.")
        self.sources, self.radius = list(sources), float(radius)
        self._bands: list[tuple[Source, int, str, list[int]]] = []
        for source in self.sources:
            with opened(source.path) as dataset:
                for band, described in enumerate(dataset.descriptions, start=1):
                    stem = source.path.stem if dataset.count == 1 else f"{source.path.stem}_{band}"
                    name = (described or "").strip() or stem
                    classes = _classes_of(dataset, band, name) if source.is_classes and radius > 0 else []
                    self._bands.append((source, band, name, classes))
        self.columns = [column for _, _, name, classes in self._bands for column in self._names(name, classes)]
        repeated = sorted({name for name in self.columns if self.columns.count(name) > 1})
        if repeated:
            raise ConfigError(f"columns must have different names; got {listed(repeated)} twice. Rename a raster.")

    def _names(self, name: str, classes: list[int]) -> list[str]:
        if self.radius == 0:
            return [name]
        return [f"{name}_{number}" for number in classes] if classes else [f"{name}_mean", f"{name}_sd"]

    def at(self, longitude: Floats, latitude: Floats) -> tuple[dict[str, Floats], Report]:
        """Read all rasters at places.

        Parameters
        ----------
        longitude, latitude : ndarray of shape (n_points,)
            In degrees.

        Returns
        -------
        columns : dict of str to ndarray
            NaN where there is no data; nothing is filled.
        report : Report
            What was not there.
        """
        report = Report(len(longitude))
        found: dict[str, Floats] = {}
        for source, band, name, classes in self._bands:
            with opened(source.path) as dataset:
                order = _by_blocks(dataset, longitude, latitude)
                values = np.full((len(self._names(name, classes)), len(longitude)), np.nan)
                covered = np.full(len(longitude), np.nan)
                is_outside = np.zeros(len(longitude), dtype=bool)
                for start in range(0, len(order), _POINTS_AT_ONCE):
                    some = order[start : start + _POINTS_AT_ONCE]
                    read = self._cells if self.radius == 0 else self._circles
                    part = read(dataset, band, classes, longitude[some], latitude[some])
                    values[:, some], covered[some], is_outside[some] = part
            found |= dict(zip(self._names(name, classes), values, strict=True))
            report.outside[name] = int(is_outside.sum())
            report.empty[name] = int((~is_outside & (covered <= 0)).sum())
            report.partial[name] = int((~is_outside & (covered > 0) & (covered < _WHOLE)).sum())
        return found, report

    def _cells(
        self, dataset: Any, band: int, classes: list[int], longitude: Floats, latitude: Floats
    ) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Read the cell that each place lies in."""
        x, y = _transformed(dataset, longitude, latitude)
        affine = dataset.transform
        column, row = np.floor((x - affine.c) / affine.a), np.floor((y - affine.f) / affine.e)
        inside = (column >= 0) & (column < dataset.width) & (row >= 0) & (row < dataset.height)
        values = np.full((1, len(x)), np.nan)
        if inside.any():
            first, last = (
                np.array([row[inside].min(), column[inside].min()], dtype=int),
                np.array([row[inside].max(), column[inside].max()], dtype=int) + 1,
            )
            # Points of a piece lie in blocks beside each other; a wide spread is read place by place.
            if np.prod((last - first).astype(np.float64)) <= _CELLS_IN_MEMORY:
                piece = dataset.read(band, window=((first[0], last[0]), (first[1], last[1])), masked=True)
                places = row[inside].astype(int) - first[0], column[inside].astype(int) - first[1]
                values[0, inside] = np.ma.filled(piece[places].astype(np.float64), np.nan)
            else:
                pairs = zip(x[inside], y[inside], strict=True)
                read = [cell[0] for cell in dataset.sample(pairs, indexes=band, masked=True)]
                values[0, inside] = [np.nan if np.ma.is_masked(cell) else float(cell) for cell in read]
            values = values * dataset.scales[band - 1] + dataset.offsets[band - 1]
            values[~np.isfinite(values)] = np.nan  # as in maps, infinity is no value
        return values, np.where(np.isnan(values[0]), 0.0, 1.0), ~inside

    def _circles(
        self, dataset: Any, band: int, classes: list[int], longitude: Floats, latitude: Floats
    ) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Read what lies in a circle around each place."""
        geopandas, shapely = geo_module("geopandas", "read circles"), geo_module("shapely", "read circles")
        extract = geo_module("exactextract", "read circles")
        pyproj = geo_module("pyproj", "read circles")
        n_points = len(longitude)
        turn = np.linspace(0, 360, _CORNERS, endpoint=False)
        around = [np.repeat(axis, _CORNERS) for axis in (longitude, latitude)]
        far = pyproj.Geod(ellps="WGS84").fwd(
            *around, np.tile(turn, n_points), np.full(n_points * _CORNERS, self.radius)
        )
        x, y = _transformed(dataset, np.asarray(far[0]), np.asarray(far[1]))
        corners = np.stack([x, y], axis=1).reshape(n_points, _CORNERS, 2)
        circles = shapely.polygons(corners)
        west, south, east, north = dataset.bounds
        low, high = corners.min(axis=1), corners.max(axis=1)
        is_outside = (high[:, 0] <= west) | (low[:, 0] >= east) | (high[:, 1] <= south) | (low[:, 1] >= north)
        is_outside |= ~np.isfinite(corners).all(axis=(1, 2))
        n_values = len(classes) or 2
        values, covered = np.full((n_values, n_points), np.nan), np.zeros(n_points)
        rows = np.flatnonzero(~is_outside)
        if len(rows):
            frame = geopandas.GeoDataFrame({"row": rows}, geometry=list(circles[rows]), crs=dataset.crs)
            wanted = ["count", *(["unique", "frac"] if classes else ["mean", "stdev"])]
            got = extract.exact_extract(
                _piece(dataset, band, low[rows].min(axis=0), high[rows].max(axis=0)),
                frame,
                wanted,
                output="pandas",
                strategy="feature-sequential",
            )
            affine = dataset.transform
            covered[rows] = got["count"].to_numpy(dtype=np.float64) / (
                shapely.area(circles[rows]) / abs(affine.a * affine.e)
            )
            has_data = covered[rows] > 0
            scale, offset = dataset.scales[band - 1], dataset.offsets[band - 1]
            if classes:
                values[:, rows] = np.where(has_data, 0.0, np.nan)
                known = {number: place for place, number in enumerate(classes)}
                pairs = zip(rows, got["unique"], got["frac"], strict=True)
                for row, numbers, shares in pairs:
                    for number, share in zip(np.atleast_1d(numbers), np.atleast_1d(shares), strict=True):
                        if int(number) in known:
                            values[known[int(number)], row] = share
            else:
                mean, spread = (got[name].to_numpy(dtype=np.float64) for name in ("mean", "stdev"))
                values[0, rows] = np.where(has_data, mean * scale + offset, np.nan)
                values[1, rows] = np.where(has_data, spread * abs(scale), np.nan)
        return values, covered, is_outside


def to_degrees(x: Floats, y: Floats, crs: str | None, where: str) -> tuple[Floats, Floats]:
    """Turn coordinates of any system into longitude and latitude.

    Parameters
    ----------
    x, y : ndarray
        Coordinates.
    crs : str or None
        Their reference system; None for degrees.
    where : str
        Of the table, for messages.

    Raises
    ------
    DataError
        Coordinates that are not of the system: metres without a system, or degrees with one in metres.
    ConfigError
        An unknown system.
    """
    pyproj = geo_module("pyproj", "place points")
    wrong = ~(np.isfinite(x) & np.isfinite(y))
    if wrong.any():
        raise DataError(
            f"coordinates must be known; got none in rows {listed(np.flatnonzero(wrong))} ({where}). Remove these rows."
        )
    within = bool((np.abs(x) <= 360).all() and (np.abs(y) <= 90).all())
    if crs is None:
        if not within:
            raise DataError(
                f"coordinates must be degrees where no system is named; got {x[0]:g}, {y[0]:g} ({where}). Metres? "
                "Name their system: --crs EPSG:..."
            )
        return x, y
    try:
        system = pyproj.CRS.from_user_input(crs)
    except pyproj.exceptions.CRSError as error:
        raise ConfigError(f"--crs must be a reference system such as EPSG:3035; got {crs!r}. Correct it.") from error
    if system.is_projected and within:
        raise DataError(
            f"coordinates must be in the units of {crs}; got {x[0]:g}, {y[0]:g} and none beyond 360 ({where}). "
            "Degrees taken for metres? Leave --crs out."
        )
    longitude, latitude = pyproj.Transformer.from_crs(system, "EPSG:4326", always_xy=True).transform(x, y)
    if not (np.isfinite(longitude).all() and np.isfinite(latitude).all()):
        rows = np.flatnonzero(~(np.isfinite(longitude) & np.isfinite(latitude)))
        raise DataError(
            f"coordinates must be places of {crs}; got others in rows {listed(rows)} ({where}). Check --crs."
        )
    return np.asarray(longitude), np.asarray(latitude)


def _transformed(dataset: Any, longitude: Floats, latitude: Floats) -> tuple[Floats, Floats]:
    pyproj = geo_module("pyproj", "place points")
    try:
        change = pyproj.Transformer.from_crs("EPSG:4326", pyproj.CRS.from_user_input(dataset.crs), always_xy=True)
    except pyproj.exceptions.ProjError as error:
        raise DataError(
            f"raster must have a reference system of places on the Earth; got one without "
            f"({Path(dataset.name).name}). Give it one: gdal_edit.py -a_srs EPSG:... FILE."
        ) from error
    x, y = change.transform(longitude, latitude)
    return np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)


def _piece(dataset: Any, band: int, low: Floats, high: Floats) -> Any:
    """Return the part of a raster that circles lie in, in memory if it is small; NaN where there is no data."""
    sources = geo_module("exactextract.raster", "read circles")
    affine = dataset.transform
    first = np.clip(
        np.floor([(low[0] - affine.c) / affine.a, (high[1] - affine.f) / affine.e]).astype(int) - 1, 0, None
    )
    last = np.ceil([(high[0] - affine.c) / affine.a, (low[1] - affine.f) / affine.e]).astype(int) + 1
    last = np.minimum(last, [dataset.width, dataset.height])
    if np.prod((last - first).astype(np.float64)) > _CELLS_IN_MEMORY:
        return sources.RasterioRasterSource(dataset, band, name="raster")
    values = dataset.read(band, window=((first[1], last[1]), (first[0], last[0])), masked=True)
    west, north = affine.c + first[0] * affine.a, affine.f + first[1] * affine.e
    east, south = affine.c + last[0] * affine.a, affine.f + last[1] * affine.e
    filled = np.ma.filled(values.astype(np.float64), np.nan)
    return sources.NumPyRasterSource(filled, west, south, east, north, name="raster", srs_wkt=dataset.crs.to_wkt())


def _by_blocks(dataset: Any, longitude: Floats, latitude: Floats) -> NDArray[np.intp]:
    """Order points by the block of the raster they lie in, so that each is read once."""
    x, y = _transformed(dataset, longitude, latitude)
    affine, (height, width) = dataset.transform, dataset.block_shapes[0]
    column, row = (x - affine.c) / affine.a // max(width, 256), (y - affine.f) / affine.e // max(height, 256)
    return np.lexsort((np.nan_to_num(column), np.nan_to_num(row)))


def _classes_of(dataset: Any, band: int, name: str) -> list[int]:
    """Find all classes of a raster, block by block: columns must not depend on where the points happen to be."""
    found: set[int] = set()
    for _, window in dataset.block_windows(band):
        piece = dataset.read(band, window=window, masked=True).compressed()
        values = np.unique(piece[np.isfinite(piece)] if np.issubdtype(piece.dtype, np.floating) else piece)
        if not np.array_equal(values, np.rint(values)):
            raise DataError(
                f"classes must be whole numbers; got {values[values != np.rint(values)][0]:g} (raster {name!r}). "
                "Leave :classes out for numbers."
            )
        found |= {int(value) for value in values}
        if len(found) > _MOST_CLASSES:
            raise DataError(
                f"classes must be at most {_MOST_CLASSES}; got more (raster {name!r}). "
                "Leave :classes out for numbers, or merge some."
            )
    return sorted(found)
