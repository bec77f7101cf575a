"""Maps of a saved model: tiles computed one by one, put together to GeoTIFFs, pictures and a page."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotvae.checkpoint import CONFIG_FILE
from hotvae.data.dataset import close_names
from hotvae.errors import ConfigError, DataError, ModelError, listed
from hotvae.estimators.base import LabelClassifier
from hotvae.estimators.registry import load_model
from hotvae.estimators.trust import check_level
from hotvae.features.columns import ColumnPlan
from hotvae.files import check_name, write_text
from hotvae.geo.cells import spread_cells, write_cells
from hotvae.geo.cogs import DIVERGING, SEQUENTIAL, write_cog, write_style
from hotvae.geo.extras import geo_module
from hotvae.geo.grid import GridInputs, read_grid_notes
from hotvae.geo.maps import (
    CHANGE_BANDS,
    PROB_NODATA,
    PROB_SCALE,
    MapInputs,
    MapModel,
    MapOptions,
    Tile,
    change_bands,
    check_given,
    map_window,
    prepare,
    trust_of,
)
from hotvae.geo.rasters import RasterInputs, Window, choose_layers, layers_of, raster_files
from hotvae.geo.tiles import TileStore, check_room, write_tile
from hotvae.jobs.items import Each, Made
from hotvae.jobs.table_needs import TableNeeds

SUMMARY = "map.json"
"""Written last: a folder that has it holds a whole map."""

TILES = ".tiles"
"""Folder of the tiles of a map that is not whole yet."""

CELLS = "cells.parquet"
"""Some cells with their covariates: what hotvae explore makes its page from."""

_MOST_CELLS = 20_000
_DEGREES = "EPSG:4326"
_BEYOND = "covariates beyond training, future"
_Say = Callable[[str], None]


@dataclass(frozen=True)
class MapRun:
    """What came of :func:`map_model`.

    Attributes
    ----------
    folder : Path
        Where all files are.
    files : tuple of Path
        The rasters.
    summary : dict
        What ``map.json`` says.
    seconds : dict of str to float
        Processor time spent in ``read``, ``model``, ``trust``, ``rest`` and ``write``; of this run only.
    n_tiles_found : int
        Tiles that a run before this one had finished.
    """

    folder: Path
    files: tuple[Path, ...]
    summary: dict[str, Any]
    seconds: dict[str, float] = field(default_factory=dict)
    n_tiles_found: int = 0


def map_model(
    model_folder: str | Path,
    out: str | Path,
    *,
    rasters: Sequence[str | Path] = (),
    grid: str | Path | None = None,
    fixed: Mapping[str, str] | None = None,
    climate: Mapping[str | Path, str | Path] | None = None,
    coordinates_crs: str | None = None,
    options: MapOptions | None = None,
    threads: int | None = None,
    pictures: bool = True,
    force: bool = False,
    command: str = "",
    say: _Say = lambda line: None,
    progress: Callable[[int, int], None] | None = None,
    each: Each | None = None,
) -> MapRun:
    """Map a model.

    Parameters
    ----------
    model_folder : path
        Folder of a trained model.
    out : path
        Folder of the map.
    rasters : sequence of path
        Files, ``FILE:COLUMN``, or folders; all on one grid.
    grid : path, optional
        Instead, a grid that ``hotvae grid`` wrote.
    fixed : mapping of str to str, optional
        Columns held at a value, such as effort.
    climate : mapping of path to path, optional
        Rasters of another time by the raster whose place they take: present to future.
    coordinates_crs : str, optional
        Reference system of the training coordinates; by default degrees where they were degrees, else that of the
        rasters.
    options : MapOptions, optional
        What is wanted.
    threads : int, optional
        CPU threads of the model.
    pictures : bool
        Also make a PNG of each map, and the page.
    force : bool
        Replace a map that is there.
    command : str
        What was typed, for the page.
    say : callable
        Takes lines for the watcher.
    progress : callable, optional
        Takes tiles done, and all.
    each : callable, optional
        Makes the tiles elsewhere, such as :func:`hotvae.scale.items.each_on_ray`; by default here, one by one.

    Returns
    -------
    MapRun

    Raises
    ------
    ConfigError, DataError, ModelError
        A file, column or setting that does not fit, or a full disk.

    Notes
    -----
    Finished tiles wait in ``.tiles``; the same command goes on after the last of them, and the files it makes are the
    same to the last bit.
    """
    target, wanted = Path(out), options or MapOptions()
    check_name(target)
    if target.exists() and not target.is_dir():
        raise ConfigError(f"output must be a folder; got the file {str(target)!r}. Choose another name.")
    check_level(wanted.level)
    model = load_model(model_folder)
    if threads is not None:
        model.change_settings(n_threads=threads)
    _check_model(model, wanted)
    check_given(wanted.given, [str(name) for name in model.label_names_])
    columns, inputs = map_inputs(model, rasters, grid, fixed or {}, coordinates_crs)
    futures = _futures(inputs, climate or {})
    identity = [
        _model_digest(model_folder),
        inputs.identity(),
        [future.identity() for future in futures],
        asdict(wanted) | {"given": sorted(wanted.given.items())},
    ]
    store_folder = target / TILES
    if target.exists() and not force and not TileStore.belongs(store_folder, identity):
        there = sorted(path.name for path in target.iterdir() if not path.name.startswith("."))
        if there:
            raise ConfigError(
                f"output must be a new or empty folder; got {str(target)!r} with {listed(there)}. "
                "Pass --force to replace the map in it."
            )
    windows = inputs.windows()
    n_labels = len(model.label_names_)
    per_cell = n_labels * (4 if wanted.as_float else 1) * (2 if wanted.calls else 1) + 32
    check_room(target, int(3 * inputs.grid.n_cells * per_cell * (1 + len(futures))))
    say(f"{inputs.grid.width:,} x {inputs.grid.height:,} cells, {len(windows):,} tiles, {n_labels:,} labels")
    mapper = prepare(model, columns, inputs, wanted, place_names(model))
    for line in told(mapper):
        say(line)
    store = TileStore(store_folder, identity)
    started = time.process_time()
    order = None
    if each is not None:
        files_of = {"rasters": tuple(rasters), "grid": grid, "fixed": fixed or {}, "climate": climate or {}}
        order = TileOrder(Path(model_folder), files_of, coordinates_crs, threads, _bare(mapper), store.folder)
    work = TileWork(mapper, inputs, futures, store.folder)
    n_found, spent = _make_tiles(
        store, windows, partial(map, work) if order is None or each is None else partial(each, order), progress
    )
    computed = time.process_time() - started
    if n_found:
        say(f"{n_found:,} tiles were there already")
    started = time.process_time()
    files, ranges = _assemble(store, mapper, inputs, bool(futures), target)
    summary = _summary(store, windows, mapper, inputs, files, ranges, climate or {}, command)
    write_cells(target / CELLS, spread_cells(inputs, _MOST_CELLS))
    write_text(target / SUMMARY, json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
    spent["write"] = time.process_time() - started
    spent["tiles"] = computed
    if pictures:
        from hotvae.jobs.map_page import write_map_page

        write_map_page(target, say)
    store.remove()
    return MapRun(target, tuple(files), summary, spent, n_found)


# What goes in --------------------------------------------------------------------------------------------------


def _check_model(model: LabelClassifier, wanted: MapOptions) -> None:
    if model.target_ != "labels":
        raise ModelError("model must be one of labels to be mapped; got one of classes. Train it on a table of labels.")
    if getattr(model.features_, "is_column", False):
        raise ModelError("model must read a table to be mapped; got one of texts or molecules. Train on covariates.")
    trust = getattr(model, "trust_", None)
    if wanted.calls and (trust is None or trust.sets is None or wanted.given):
        raise ConfigError(
            "--calls must go with a model that has held out rows, without --given; got another. "
            "Train it with hotvae train, without --recipe."
        )


def map_inputs(
    model: LabelClassifier,
    rasters: Sequence[str | Path],
    grid: str | Path | None,
    fixed: Mapping[str, str],
    coordinates_crs: str | None = None,
) -> tuple[list[str], RasterInputs | GridInputs]:
    """Find where each column of a model comes from on a map.

    Returns
    -------
    columns : list of str
        All columns of the model, in order.
    inputs : RasterInputs or GridInputs
    """
    if bool(rasters) == (grid is not None):
        raise ConfigError(
            f"a map must be made from either rasters or a grid; got {'both' if rasters else 'neither'}. "
            "Pass --raster FILE (several times), or --grid FILE."
        )
    needs = TableNeeds.of_model(model)
    kinds: dict[str, str] = dict(zip(needs.features, needs.kinds, strict=True))
    unknown = [name for name in fixed if name not in kinds]
    if unknown:
        raise DataError(
            f"fixed columns must be columns of the model; got {listed(unknown)}{close_names(unknown, needs.features)}. "
            "Check the spelling."
        )
    held: dict[str, Any] = {name: _fixed_value(name, value, kinds[name]) for name, value in fixed.items()}
    held |= {name: None if kinds[name] == "categorical" else np.nan for name in needs.unused if name not in held}
    there = (
        read_grid_notes(Path(grid))[2]
        if grid is not None
        else [layer.column for path, column in raster_files(rasters) for layer in layers_of(path, column)]
    )
    where = tuple(name for name in place_names(model) if name not in there and name not in held)
    places = place_names(model) if where else ()
    from_files = [name for name in needs.features if name not in held and name not in where]
    text = [name for name in from_files if kinds[name] == "categorical"]
    system = coordinates_crs
    if places and system is None and isinstance(model.features_, ColumnPlan) and model.features_.degrees:
        system = _DEGREES
    if system is not None:
        _check_crs(system)
    more: dict[str, Any] = {
        "fixed": held,
        "coordinates": (places[0], places[1]) if len(places) == 2 else None,
        "coordinates_crs": system,
        "text": text,
    }
    if grid is not None:
        return list(needs.features), GridInputs(grid, from_files, **more)
    return list(needs.features), RasterInputs(choose_layers(rasters, from_files), **more)


def _fixed_value(name: str, value: str, kind: str) -> Any:
    if kind == "categorical":
        return value
    try:
        return float(value)
    except ValueError:
        raise ConfigError(
            f"fixed value must be a number, as {name!r} was in training; got {value!r}. Write {name}=1.5."
        ) from None


def _check_crs(system: str) -> None:
    pyproj = geo_module("pyproj", "place cells")
    try:
        pyproj.CRS.from_user_input(system)
    except pyproj.exceptions.CRSError as error:
        raise ConfigError(
            f"--coordinates-crs must be a reference system such as EPSG:4326; got {system!r}. Correct it."
        ) from error


def place_names(model: LabelClassifier) -> tuple[str, ...]:
    """Return the columns of a model that say where a row is; for degrees the longitude first."""
    plan = model.features_
    if isinstance(plan, ColumnPlan) and plan.places is not None:
        return tuple(plan.columns_out[place] for place in plan.places)
    card = getattr(model, "extra_", None) or {}
    return tuple(card.get("coordinates", ()))


def _futures(inputs: RasterInputs | GridInputs, climate: Mapping[str | Path, str | Path]) -> list[RasterInputs]:
    """Return the inputs of another time; none without ``climate``."""
    if not climate:
        return []
    if not isinstance(inputs, RasterInputs):
        raise ConfigError("--climate must go with rasters; got a grid. Map the rasters, or make a grid of each time.")
    used = {layer.path.resolve() for layer in inputs.layers}
    swapped = {Path(present): Path(future) for present, future in climate.items()}
    strangers = [path.name for path in swapped if path.resolve() not in used]
    if strangers:
        raise DataError(
            f"--climate must name a raster of the map after '='; got {listed(strangers)}, which the map does not use "
            f"({listed(sorted(path.name for path in used))}). Write --climate FUTURE=PRESENT."
        )
    for present, future in swapped.items():
        there, here = ([layer.column for layer in layers_of(path)] for path in (future, present))
        if len(there) != len(here):
            raise DataError(
                f"rasters of two times must have the same bands; got {len(here)} in {present.name} and {len(there)} in "
                f"{future.name}. Give both the same."
            )
    return [inputs.with_files(swapped)]


def _model_digest(folder: str | Path) -> str:
    import hashlib

    # The weights have their checksum in the config.
    return hashlib.sha256((Path(folder) / CONFIG_FILE).read_bytes()).hexdigest()


# Tiles ---------------------------------------------------------------------------------------------------------


def told(mapper: MapModel) -> list[str]:
    """Say in lines what was settled before the first tile."""
    steps, spread = mapper.steps, mapper.spread
    if steps.n_steps:
        lines = [
            f"covariates in {steps.n_steps} steps: each moves by at most 1/{2 * steps.n_steps} of its range, "
            f"probabilities by at most {steps.largest:.4f} (mean {steps.typical:.5f}) on {steps.n_tried:,} cells; "
            f"{100 * steps.share_saved:.0f} % of cells need no prediction of their own"
        ]
    else:
        lines = [
            "covariates as they are: probabilities move by 0; "
            f"{100 * steps.share_saved:.0f} % of cells need no prediction of their own"
        ]
    if spread is not None:
        lines.append(
            f"richness: {spread.n_draws} joint draws of {spread.n_cells} cells, {spread.widening:.2f} times as wide as "
            f"independent species; carried to the others with an error of {spread.error:.2f} species"
        )
    if mapper.beyond:
        lines.append(f"beyond the range of training in every cell looked at: {', '.join(mapper.beyond)}")
    if mapper.area is None:
        lines.append("trust: the model knows no distances; no such layer")
    return lines


@dataclass(frozen=True)
class TileWork:
    """Makes tiles, and writes each to its file.

    Attributes
    ----------
    mapper : MapModel
        From :func:`~hotvae.geo.maps.prepare`.
    inputs, futures : MapInputs, sequence of MapInputs
        Of now, and of another time.
    folder : Path
        Of the tiles.
    """

    mapper: MapModel
    inputs: MapInputs
    futures: Sequence[MapInputs]
    folder: Path

    def __call__(self, window: Window) -> Made:
        """Make a tile."""
        tile = map_window(self.mapper, self.inputs, window)
        others = [map_window(self.mapper, future, window) for future in self.futures]
        started = time.process_time()
        path = write_tile(self.folder, window.number, *_stored(tile, others, self.mapper.options.as_float))
        spent = {name: sum(part.seconds[name] for part in (tile, *others)) for name in tile.seconds}
        spent["rest"] += time.process_time() - started
        return Made.of(path, spent)


@dataclass(frozen=True)
class TileOrder:
    """All that makes the tiles of a map, to be sent elsewhere: names of files, and what was settled beforehand.

    Attributes
    ----------
    model_folder : Path
        The model is read where tiles are made.
    sources : dict
        ``rasters``, ``grid``, ``fixed`` and ``climate`` of :func:`map_model`.
    coordinates_crs, threads
        As in :func:`map_model`.
    settled : MapModel
        Without the model, and what is part of it.
    folder : Path
        Of the tiles.
    """

    model_folder: Path
    sources: dict[str, Any]
    coordinates_crs: str | None
    threads: int | None
    settled: MapModel
    folder: Path

    def open(self) -> TileWork:
        """Read the model, and find the inputs."""
        model = load_model(self.model_folder)
        if self.threads is not None:
            model.change_settings(n_threads=self.threads)
        climate = self.sources["climate"]
        rasters, grid, fixed = (self.sources[name] for name in ("rasters", "grid", "fixed"))
        _, inputs = map_inputs(model, rasters, grid, fixed, self.coordinates_crs)
        area, sets = trust_of(model, self.settled.options)
        mapper = replace(self.settled, model=model, area=area, sets=sets)
        return TileWork(mapper, inputs, _futures(inputs, climate), self.folder)


def _bare(mapper: MapModel) -> MapModel:
    """Return what was settled for all tiles, without the model."""
    nobody: Any = None
    return replace(mapper, model=nobody, area=None, sets=None)


def _make_tiles(
    store: TileStore,
    windows: Sequence[Window],
    each: Callable[[Sequence[Window]], Iterable[Made]],
    progress: Callable[[int, int], None] | None,
) -> tuple[int, dict[str, float]]:
    """Have the tiles made that are not there; return how many were, and where the time went."""
    missing = [window for window in windows if not store.has(window.number)]
    n_done, spent = len(windows) - len(missing), {"read": 0.0, "model": 0.0, "trust": 0.0, "rest": 0.0}
    if progress is not None:
        progress(n_done, len(windows))
    for number, made in enumerate(each(missing), start=n_done + 1):
        for name, seconds in made.seconds.items():
            spent[name] += seconds
        if progress is not None:
            progress(number, len(windows))
    return n_done, spent


def _stored(tile: Tile, others: Sequence[Tile], is_float: bool) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return what a tile's file holds: bands by product, and counts."""
    arrays = dict(tile.bands)
    for other in others:
        arrays |= {f"future_{name}": bands for name, bands in other.bands.items()}
        change = change_bands(tile, other, is_float)
        if "trust" in other.bands:
            change = np.concatenate([change, other.bands["trust"][2:3]])
        arrays["change"] = change
    inside = tile.bands["trust"][1] if "trust" in tile.bands else np.zeros(0, dtype=np.float32)
    notes = {
        "n_cells": tile.n_cells,
        "n_predicted": tile.n_predicted + sum(other.n_predicted for other in others),
        "n_wanted": tile.n_cells + sum(other.n_cells for other in others),
        "n_outside": int((inside == 0).sum()),
    }
    return arrays, notes


# Files ---------------------------------------------------------------------------------------------------------


def _products(mapper: MapModel, has_future: bool) -> dict[str, list[str]]:
    """Name the bands of every file."""
    found = mapper.products()
    if has_future:
        found |= {f"future_{name}": bands for name, bands in mapper.products().items()}
        found["change"] = [*CHANGE_BANDS, *([_BEYOND] if mapper.area is not None else [])]
    return found


def _assemble(
    store: TileStore, mapper: MapModel, inputs: MapInputs, has_future: bool, target: Path
) -> tuple[list[Path], dict[str, list[list[float]]]]:
    """Write the rasters and their styles; return them, and the range of each band."""
    files, ranges = [], {}
    for product, names in _products(mapper, has_future).items():
        path = target / f"{product}.tif"
        is_bytes = product.endswith("calls") or (product.endswith("probabilities") and not mapper.options.as_float)
        seen = _Ranges(len(names), PROB_NODATA if is_bytes else np.nan)
        scale = PROB_SCALE if product.endswith("probabilities") and is_bytes else 1.0
        write_cog(
            path,
            inputs.grid,
            names,
            partial(_tile_of, store, product, seen),
            dtype="uint8" if is_bytes else "float32",
            nodata=PROB_NODATA if is_bytes else float("nan"),
            scale=scale,
            resampling="nearest" if product.endswith(("calls", "trust")) else "average",
            tags={"software": "hotvae", "product": product},
        )
        low, high = _style_range(product, seen, mapper)
        write_style(path, low, high, DIVERGING if product == "change" else SEQUENTIAL)
        ranges[product] = [[low * scale, high * scale] for low, high in zip(seen.low, seen.high, strict=True)]
        files.append(path)
    return files, ranges


def _tile_of(store: TileStore, product: str, seen: _Ranges, window: Window) -> NDArray[Any]:
    bands = store.read(window.number, product)
    seen.look(bands)
    return bands


class _Ranges:
    """Least and largest value of each band, as tiles go by."""

    def __init__(self, n_bands: int, nodata: float) -> None:
        self.low, self.high = np.full(n_bands, np.inf), np.full(n_bands, -np.inf)
        self.nodata = nodata

    def look(self, bands: NDArray[Any]) -> None:
        flat = bands.reshape(len(bands), -1)
        is_data = ~np.isnan(flat) if np.isnan(self.nodata) else flat != self.nodata
        if not is_data.any():
            return
        if is_data.all():
            low, high = flat.min(axis=1), flat.max(axis=1)
        else:
            low, high = np.where(is_data, flat, np.inf).min(axis=1), np.where(is_data, flat, -np.inf).max(axis=1)
        self.low, self.high = np.minimum(self.low, low), np.maximum(self.high, high)


def _style_range(product: str, seen: _Ranges, mapper: MapModel) -> tuple[float, float]:
    if product.endswith("probabilities"):
        return 0.0, 1.0  # also of bytes: QGIS multiplies them by their scale
    if product.endswith("calls"):
        return 0.0, 2.0
    if product.endswith("trust") and mapper.area is not None:
        return 0.0, 2 * mapper.area.threshold
    if product == "change":
        most = max(1e-6, *np.abs([seen.low[0], seen.high[0]]))
        return -float(most), float(most)
    ends = seen.low[0], seen.high[-1 if product.endswith("richness") else 0]
    low, high = (float(value) if np.isfinite(value) else 0.0 for value in ends)
    return low, max(high, low + 1e-6)


def _summary(
    store: TileStore,
    windows: Sequence[Window],
    mapper: MapModel,
    inputs: MapInputs,
    files: Sequence[Path],
    ranges: Mapping[str, Any],
    climate: Mapping[str | Path, str | Path],
    command: str,
) -> dict[str, Any]:
    """Say what the map is; nothing in it depends on how long it took or how often it was begun."""
    counts = {"n_cells": 0, "n_predicted": 0, "n_wanted": 0, "n_outside": 0}
    for window in windows:
        found = store.notes(window.number)
        for name in counts:
            counts[name] += int(found[name])
    grid = inputs.grid
    area = mapper.area
    return {
        "crs": grid.crs,
        "transform": list(grid.transform),
        "width": grid.width,
        "height": grid.height,
        "labels": mapper.labels,
        "files": [path.name for path in files],
        "bands": _products(mapper, "change" in ranges),
        "ranges": {name: [[_plain(v) for v in pair] for pair in pairs] for name, pairs in ranges.items()},
        "cells": counts["n_cells"],
        "cells_without_data": grid.n_cells - counts["n_cells"],
        "cells_outside_training": counts["n_outside"] if area is not None else None,
        "rows_predicted": counts["n_predicted"],
        "share_saved": 1 - counts["n_predicted"] / max(1, counts["n_wanted"]),
        "threshold": None if area is None else area.threshold,
        "told": told(mapper),
        "given": dict(mapper.options.given),
        "level": mapper.options.level,
        "draws": mapper.options.n_draws,
        "seed": mapper.options.seed,
        "climate": {Path(present).name: Path(future).name for present, future in climate.items()},
        "command": command,
    }


def _plain(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
