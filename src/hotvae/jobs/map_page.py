"""Pictures and the page of a map that is there: everything is read from its files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotvae.errors import DataError
from hotvae.geo.cogs import DIVERGING
from hotvae.geo.extras import geo_module
from hotvae.geo.rasters import opened
from hotvae.report.coastline import border_lines, land_rings
from hotvae.report.map_plots import Place, plot_raster
from hotvae.report.page import MapPart, MapPicture, MapsContent, png_bytes, write_page

# Longest side of what is drawn, in cells: more than a screen has would not be seen.
_LARGE, _SMALL = 900, 260
# Pictures of single labels on the page; each has its own file in any case.
_MOST_ON_PAGE = 200

_NOT_SEEN = "Hatched: unlike all training rows, so that errors of cross-validation say nothing of it."


def write_map_page(folder: Path, say: Callable[[str], None] = lambda line: None) -> Path:
    """Draw every band of a map as a PNG, and write ``index.html``.

    Parameters
    ----------
    folder : Path
        A map with its ``map.json``.
    say : callable
        Takes lines for the watcher.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    DataError
        A folder without a whole map.
    """
    source = folder / "map.json"
    if not source.is_file():
        raise DataError(f"folder must hold a whole map; got no map.json ({folder}). Make it with hotvae map.")
    summary = json.loads(source.read_text(encoding="utf-8"))
    maker = _Pictures(folder, summary)
    say("drawing pictures")
    parts = [part for name in _ORDER if (part := maker.part(name)) is not None]
    small = maker.labels()
    labels = summary["labels"]
    noun = "species" if labels else "labels"
    outside = summary["cells_outside_training"]
    warnings = []
    if outside is not None and outside > 0.05 * max(1, summary["cells"]):
        share = 100 * outside / summary["cells"]
        warnings.append(
            f"{share:.0f} % of the cells are unlike all training rows (hatched). What the model says there is a guess."
        )
    content = MapsContent(
        title="Maps",
        subtitle=f"{len(labels):,} {noun}, {summary['cells']:,} cells"
        + (f", given {_given(summary['given'])}" if summary["given"] else ""),
        maps=parts,
        species=small,
        species_text="Probability of each, from 0 (dark) to 1 (yellow). "
        + (_NOT_SEEN if outside else "")
        + (
            f" The first {_MOST_ON_PAGE} of {len(labels)}; all are in the folder png."
            if len(labels) > _MOST_ON_PAGE
            else ""
        ),
        noun=noun,
        facts=_facts(summary),
        warnings=warnings,
        command=summary["command"],
    )
    return write_page(folder / "index.html", content)


_ORDER = ("richness", "trust", "uncertainty", "change", "future_richness", "future_trust", "future_uncertainty")
_TEXTS = {
    "richness": (
        "Richness",
        "How many species are expected in a cell, and the 5 % and 95 % quantiles of whole communities drawn jointly.",
    ),
    "trust": (
        "Can it be believed?",
        "Dissimilarity: distance to the nearest training row, 1 is the mean distance between training rows. Inside the "
        "area of applicability it is within what cross-validation has seen. Then, how many covariates have values "
        "beyond the range of training.",
    ),
    "uncertainty": (
        "Uncertainty",
        "How many species a cut at one half is expected to get wrong, and how many cannot be called present or absent "
        "with the promised share of right calls.",
    ),
    "change": (
        "Change",
        "Future minus present: change of the expected richness, species gained and lost, and covariates that leave the "
        "range of training.",
    ),
    "future_richness": ("Richness, future", "The same with the layers of the future."),
    "future_trust": ("Can the future be believed?", "How far the layers of the future are from the training rows."),
    "future_uncertainty": ("Uncertainty, future", "The same with the layers of the future."),
}


class _Pictures:
    """Draws the bands of a map."""

    def __init__(self, folder: Path, summary: dict[str, Any]) -> None:
        self.folder, self.summary = folder, summary
        self.png = folder / "png"
        self.png.mkdir(exist_ok=True)
        self.place = find_place(summary)

    def outside(self, product: str, longest: int) -> NDArray[np.bool_] | None:
        """Return where to hatch, at the resolution of the picture."""
        name = "future_trust" if product.startswith("future") or product == "change" else "trust"
        if name not in self.summary["bands"]:
            return None
        inside = self.band(name, 2, longest)
        return np.asarray(inside == 0)

    def band(self, product: str, number: int, longest: int) -> NDArray[np.float64]:
        """Read a band, no finer than it is drawn; NaN where there is no data."""
        with opened(self.folder / f"{product}.tif") as file:
            factor = max(1.0, max(file.width, file.height) / longest)
            shape = max(1, round(file.height / factor)), max(1, round(file.width / factor))
            values = file.read(number, out_shape=shape, masked=True)
            filled = np.ma.filled(values.astype(np.float64), np.nan)
            return np.asarray(filled * file.scales[number - 1] + file.offsets[number - 1])

    def part(self, product: str) -> MapPart | None:
        """Draw all bands of a product."""
        if product not in self.summary["bands"]:
            return None
        names, ranges = self.summary["bands"][product], self.summary["ranges"][product]
        pictures = []
        for number, name in enumerate(names, start=1):
            low, high = (value if value is not None else 0.0 for value in ranges[number - 1])
            colours: str | Sequence[str] = "viridis"
            classes: Sequence[str] = ()
            unit = "species"
            if product.endswith("richness"):
                low, high = _joint_range(self.summary, product)
            if product.endswith("trust"):
                unit = "covariates" if number == 3 else "dissimilarity"
                colours, low = ("magma_r" if number == 1 else "cividis_r"), 0.0
                if number == 2:
                    classes, colours = ("outside", "inside"), ("#d98e73", "#3b7f8c")
            if product == "change":
                unit = "covariates" if name.startswith("covariates") else "species"
                most = max(abs(low), abs(high), 1e-6)
                colours, low, high = (DIVERGING, -most, most) if number == 1 else ("cividis_r", 0.0, high)
            figure = plot_raster(
                self.band(product, number, _LARGE),
                self.place,
                title=name[0].upper() + name[1:],
                unit=unit,
                low=low,
                high=high,
                colours=colours,
                classes=classes,
                outside=None if product.endswith("trust") else self.outside(product, _LARGE),
            )
            pictures.append(self._saved(f"{product}_{number}", figure, f"Map: {name}"))
        title, text = _TEXTS[product]
        hatched = "" if product.endswith("trust") or "trust" not in self.summary["bands"] else f" {_NOT_SEEN}"
        return MapPart(title, text + hatched, pictures, f"{product}.tif: {', '.join(names)}")

    def labels(self) -> list[MapPicture]:
        """Draw every label: a picture in a file, and a small one for the page."""
        found = []
        outside, small_outside = self.outside("probabilities", _LARGE), self.outside("probabilities", _SMALL)
        for number, name in enumerate(self.summary["labels"], start=1):
            for product in ("probabilities", "future_probabilities"):
                if product not in self.summary["bands"]:
                    continue
                is_future = product.startswith("future")
                figure = plot_raster(
                    self.band(product, number, _LARGE),
                    self.place,
                    title=name + (", future" if is_future else ""),
                    unit="probability",
                    low=0.0,
                    high=1.0,
                    outside=self.outside(product, _LARGE) if is_future else outside,
                )
                self._saved(f"{number:04d}_{_slug(name)}{'_future' if is_future else ''}", figure, name)
            if number <= _MOST_ON_PAGE:
                small = plot_raster(
                    self.band("probabilities", number, _SMALL),
                    self.place,
                    title=name,
                    unit="",
                    low=0.0,
                    high=1.0,
                    outside=small_outside,
                    size="small",
                )
                found.append(MapPicture(png_bytes(small), f"Map: probability of {name}"))
        return found

    def _saved(self, name: str, figure: Any, alt: str) -> MapPicture:
        drawn = png_bytes(figure, 120)
        target = self.png / f"{name}.png"
        partial = target.with_name(f".{target.name}.part")
        partial.write_bytes(drawn)
        os.replace(partial, target)
        return MapPicture(drawn, alt)


def _joint_range(summary: dict[str, Any], product: str) -> tuple[float, float]:
    """One scale for the mean and both quantiles of richness, at present and in the future."""
    names = [name for name in ("richness", "future_richness") if name in summary["ranges"]]
    pairs = [pair for name in names for pair in summary["ranges"][name] if None not in pair]
    if not pairs:
        return 0.0, 1.0
    return min(low for low, _ in pairs), max(high for _, high in pairs)


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")[:60] or "label"


def find_place(summary: Mapping[str, Any]) -> Place:
    """Find outlines around a map, in its own units."""
    pyproj = geo_module("pyproj", "draw maps")
    west, across, _, north, _, down = summary["transform"]
    east, south = west + across * summary["width"], north + down * summary["height"]
    system = pyproj.CRS.from_user_input(summary["crs"])
    back = pyproj.Transformer.from_crs(system, "EPSG:4326", always_xy=True)
    box = back.transform_bounds(west, south, east, north, densify_pts=21)
    margin = 0.05 * max(box[2] - box[0], box[3] - box[1], 0.1)
    if not np.isfinite(box).all() or box[0] > box[2]:  # around a pole or across the date line: all of the world
        padded = (-180.0, -90.0, 180.0, 90.0)
    else:
        padded = (
            max(-180.0, box[0] - margin),
            max(-90.0, box[1] - margin),
            min(180.0, box[2] + margin),
            min(90.0, box[3] + margin),
        )
    forth = pyproj.Transformer.from_crs("EPSG:4326", system, always_xy=True)

    def moved(lines: list[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
        found = []
        for line in lines:
            points = np.column_stack(forth.transform(*line.T))
            points = points[np.isfinite(points).all(axis=1)]
            if len(points) > 1:
                found.append(points)
        return found

    middle = back.transform((west + east) / 2, (south + north) / 2)
    beside = back.transform((west + east) / 2 + across, (south + north) / 2)
    metres = pyproj.Geod(ellps="WGS84").inv(*middle, *beside)[2]
    return Place(
        (west, east, south, north),
        bool(system.is_geographic),
        moved(land_rings(padded)),
        moved(border_lines(padded)),
        float(metres / 1000 / across) if np.isfinite(metres) and metres > 0 else 0.001,
    )


def _given(given: dict[str, float]) -> str:
    return ", ".join(f"{name} {'present' if value else 'absent'}" for name, value in given.items())


def _facts(summary: dict[str, Any]) -> list[tuple[str, str]]:
    across = summary["transform"][1]
    crs = summary["crs"] if len(summary["crs"]) < 40 else _crs_name(summary["crs"])
    rows = [
        ("cells", f"{summary['width']:,} × {summary['height']:,} of {across:g}, {summary['cells']:,} with data"),
        ("reference system", crs),
        ("predicted once", f"{100 * summary['share_saved']:.0f} % of cells share their covariates with another"),
        *[(line.split(":")[0], line.split(":", 1)[1].strip()) for line in summary["told"]],
    ]
    if summary["threshold"] is not None:
        rows.append(("threshold of dissimilarity", f"{summary['threshold']:.3f}"))
    if summary["climate"]:
        rows.append(("future", ", ".join(f"{future} for {present}" for present, future in summary["climate"].items())))
    return rows


def _crs_name(text: str) -> str:
    """Name a system that has no number: its projection, and where its middle is."""
    system = geo_module("pyproj", "draw maps").CRS.from_user_input(text)
    operation = system.coordinate_operation
    if operation is None:
        return str(system.name)
    middle = [f"{part.value:g}" for part in operation.params if "of natural origin" in part.name][:2]
    return f"{operation.method_name} around {', '.join(middle)}" if middle else str(operation.method_name)
