"""Maps: what a model says of every cell, a window at a time.

:func:`map_window` is the whole computation: a prepared model, inputs, and a window in, a :class:`Tile` out. It looks at
nothing beyond its window, and its draws have a seed of their own, so tiles can be made in any order and anywhere, twice
if need be, and are the same to the last bit. :func:`prepare` looks at some windows first and settles what all tiles
share: how finely covariates are read, and how joint draws widen the richness of a cell.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hotvae.errors import DataError, listed
from hotvae.estimators.base import LabelClassifier
from hotvae.estimators.trust import CANNOT_TELL, Applicability, PresenceSets
from hotvae.geo.rasters import Cells, MapGrid, Window

Floats = NDArray[np.float64]
Probs = NDArray[np.float32]  # far finer than the steps that are stored, and twice as fast as 64 bits

PROB_SCALE, PROB_NODATA = 0.004, 255
"""A stored 0 to 250 times 0.004 is a probability; 255 is no data."""

# Cells of a table of probabilities that are computed at once: what is made of them stays in the processor's cache.
_CELLS_AT_ONCE = 400_000
# Windows that are looked at beforehand, cells of them that are predicted twice, and cells that draws are made for.
_LOOKED_AT, _TRIED, _DRAWN = 12, 2_000, 400
# Steps that the range of a covariate may be cut into, the coarsest first.
_STEPS = (32, 64, 128, 256, 512, 1024, 2048, 4096)
# Rows saved below this share are not worth any error, nor looking for them in every tile.
_WORTH = 0.05


class MapInputs(Protocol):
    """What a map is made from: rasters, or a grid in a table."""

    grid: MapGrid

    def windows(self) -> list[Window]:
        """Return the tiles of the map."""
        ...

    def read(self, window: Window) -> Cells:
        """Read the cells of a window that have all values."""
        ...

    def identity(self) -> list[Any]:
        """Tell inputs apart."""
        ...


@dataclass(frozen=True)
class MapOptions:
    """What is wanted of a map.

    Attributes
    ----------
    given : mapping of str to float
        Labels that are known to be there (1) or not (0), everywhere.
    tolerance : float
        Error of a probability that reading covariates in steps may bring; 0 reads them as they are.
    n_draws : int
        Joint draws of each cell that richness is drawn for.
    draw_every_cell : bool
        Draw for every cell, not for some that the others learn from; slow.
    as_float : bool
        Store probabilities as 32-bit numbers.
    calls : bool
        Also map the calls: absent, present, cannot tell.
    level : float
        Share of right calls that is promised.
    seed : int
        Decides draws and which cells are looked at.
    """

    given: Mapping[str, float] = field(default_factory=dict)
    tolerance: float = 0.01
    n_draws: int = 200
    draw_every_cell: bool = False
    as_float: bool = False
    calls: bool = False
    level: float = 0.9
    seed: int = 0


@dataclass(frozen=True)
class Steps:
    """How finely covariates are read, and what that costs.

    Attributes
    ----------
    size : dict of str to float
        Width of a step by column; columns without one are read as they are.
    n_steps : int
        Steps of the usual range of a column; 0 where nothing is rounded.
    largest, typical : float
        Largest and mean change of a probability among the cells tried.
    n_tried : int
        How many these were.
    share_saved : float
        Share of cells in the windows looked at that need no prediction of their own; 0 where it is too small for equal
        rows to be looked for.
    """

    size: dict[str, float] = field(default_factory=dict)
    n_steps: int = 0
    largest: float = 0.0
    typical: float = 0.0
    n_tried: int = 0
    share_saved: float = 0.0

    def rounded(self, table: pd.DataFrame) -> pd.DataFrame:
        """Put every value in the middle of its step; a value moves by half a step at most."""
        if not self.size:
            return table
        moved = {name: np.rint(table[name].to_numpy() / width) * width for name, width in self.size.items()}
        return table.assign(**moved)


@dataclass(frozen=True)
class RichnessSpread:
    """How far the 5 % and 95 % quantiles of joint draws lie from the expected richness, in independent deviations.

    Both are second-degree polynomials of the expected richness and its deviation if species were independent, learned
    from the cells that draws were made for.

    Attributes
    ----------
    coefficients : ndarray of shape (2, 6)
        Of the lower and the upper quantile.
    error : float
        Root mean square error in species on the half of the drawn cells that the other half was fitted without.
    widening : float
        Mean deviation of drawn richness, as a multiple of that of independent species.
    n_cells, n_draws : int
        How much was drawn.
    """

    coefficients: Floats
    error: float
    widening: float
    n_cells: int
    n_draws: int

    def bounds(self, mean: Floats, spread: Floats, n_labels: int) -> tuple[Floats, Floats]:
        """Return the 5 % and 95 % quantile of richness from its moments, between 0 and the number of labels."""
        terms = _terms(mean, spread)
        low, high = (mean + (terms @ row) * spread for row in self.coefficients)
        return np.clip(np.minimum(low, mean), 0, n_labels), np.clip(np.maximum(high, mean), 0, n_labels)


@dataclass
class Tile:
    """What a window became.

    Attributes
    ----------
    window : Window
        Where it is.
    bands : dict of str to ndarray of shape (n_bands, height, width)
        By product: ``probabilities``, ``richness``, ``uncertainty``, ``trust``, ``calls``.
    n_cells, n_predicted : int
        Cells with data, and rows that were predicted for them.
    seconds : dict of str to float
        Processor time spent in ``read``, ``model``, ``trust`` and ``rest``.
    """

    window: Window
    bands: dict[str, NDArray[Any]]
    n_cells: int
    n_predicted: int
    seconds: dict[str, float]


@dataclass(frozen=True)
class MapModel:
    """A model that is ready to map: what all tiles share.

    Attributes
    ----------
    model : LabelClassifier
        Predicts.
    columns : tuple of str
        Columns it takes, in order.
    options : MapOptions
        What is wanted.
    steps : Steps
        How finely covariates are read.
    spread : RichnessSpread or None
        None where draws are made in every cell.
    area : Applicability or None
        None for a model without distances.
    sets : PresenceSets or None
        None for a model without promises, or where labels are given: the promise was made without.
    beyond : tuple of str
        Columns that are beyond the range of training in every cell looked at, such as one held at a rash value.
    """

    model: LabelClassifier
    columns: tuple[str, ...]
    options: MapOptions
    steps: Steps = field(default_factory=Steps)
    spread: RichnessSpread | None = None
    area: Applicability | None = None
    sets: PresenceSets | None = None
    beyond: tuple[str, ...] = ()

    @property
    def labels(self) -> list[str]:
        """Names of the labels."""
        return [str(name) for name in self.model.label_names_]

    def products(self) -> dict[str, list[str]]:
        """Name the bands of each product."""
        found = {
            "probabilities": self.labels,
            "richness": ["expected richness", "richness, 5 %", "richness, 95 %"],
            "uncertainty": ["expected wrong calls at one half"],
        }
        if self.sets is not None:
            found["uncertainty"].append(f"species that cannot be told at {100 * self.options.level:g} %")
            if self.options.calls:
                found["calls"] = self.labels
        if self.area is not None:
            found["trust"] = ["dissimilarity", "inside the area of applicability", "covariates beyond training"]
        return found

    def pieces(self, table: pd.DataFrame) -> list[pd.DataFrame]:
        """Cut a table into as many rows as are predicted at once; an empty one is a piece."""
        step = max(1, _CELLS_AT_ONCE // len(self.labels))
        return [table.iloc[i : i + step] for i in range(0, max(1, len(table)), step)]

    def predict(self, table: pd.DataFrame) -> Probs:
        """Return probabilities of rows, given what is given."""
        found: NDArray[Any] = self.model.predict_proba(self.rows(table), self.given(len(table)))
        return found.astype(np.float32, copy=False)

    def layers(self, probs: Probs) -> dict[str, NDArray[Any]]:
        """Turn probabilities into the bands of products, each of shape (n_rows, n_bands), as they are stored.

        Where draws are made for every cell, the quantiles of richness are not among them.
        """
        mean, spread = richness_moments(probs)
        richness = [mean] if self.spread is None else [mean, *self.spread.bounds(mean, spread, probs.shape[1])]
        uncertainty: list[NDArray[Any]] = [np.minimum(probs, 1 - probs).sum(axis=1)]
        found: dict[str, NDArray[Any]] = {"probabilities": probs if self.options.as_float else encode_probs(probs)}
        if self.sets is not None:
            calls = self.sets.calls(probs, self.options.level)
            uncertainty.append(np.count_nonzero(calls == CANNOT_TELL, axis=1))
            if self.options.calls:
                found["calls"] = calls.astype(np.uint8)
        return found | {"richness": _columns(richness), "uncertainty": _columns(uncertainty)}

    def rows(self, table: pd.DataFrame) -> Any:
        """Return rows as the model takes them."""
        ordered = table[list(self.columns)]
        return ordered if hasattr(self.model, "feature_names_in_") else ordered.to_numpy()

    def given(self, n_rows: int) -> NDArray[np.float32] | None:
        """Return the given labels of some rows; None without any."""
        if not self.options.given:
            return None
        known = np.full((n_rows, len(self.labels)), np.nan, dtype=np.float32)
        for name, value in self.options.given.items():
            known[:, self.labels.index(name)] = value
        return known

    def draw_richness(self, table: pd.DataFrame, seed: int) -> NDArray[np.int64]:
        """Draw whole communities; return richness of shape (n_draws, n_rows)."""
        blocks = self.model.sample_blocks(self.rows(table), self.options.n_draws, seed, self.given(len(table)))
        return np.concatenate([block.sum(axis=2, dtype=np.int64) for block in blocks])


# One window ----------------------------------------------------------------------------------------------------


def map_window(mapper: MapModel, inputs: MapInputs, window: Window) -> Tile:
    """Map the cells of a window.

    Parameters
    ----------
    mapper : MapModel
        From :func:`prepare`.
    inputs : MapInputs
        Rasters or a grid.
    window : Window
        One of ``inputs.windows()``.

    Returns
    -------
    Tile
        Depends on the window's own cells only.
    """
    clock = _Clock()
    cells = inputs.read(window)
    clock.lap("read")
    table, which = cells.table, np.arange(len(cells.table))
    if mapper.steps.share_saved >= _WORTH:
        table, which = _distinct(mapper.steps.rounded(table))
    clock.lap("rest")
    parts = []
    for rows in mapper.pieces(table):
        probs = mapper.predict(rows)
        clock.lap("model")
        parts.append(mapper.layers(probs))
        clock.lap("rest")
    layers = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if mapper.spread is None:
        drawn = mapper.draw_richness(table, mapper.options.seed + window.number) if len(table) else np.zeros((1, 0))
        quantiles = np.quantile(drawn, [0.05, 0.95], axis=0)
        layers["richness"] = np.hstack([layers["richness"], _columns(quantiles)])
        clock.lap("model")
    if mapper.area is not None:
        near = mapper.area.judge(mapper.model._read(mapper.rows(table)))
        layers["trust"] = _columns([near.dissimilarity, near.inside, near.n_beyond])
    clock.lap("trust")
    bands = {name: _spread(values, which, cells.places, window) for name, values in layers.items()}
    clock.lap("rest")
    return Tile(window, bands, len(cells.places), len(table), clock.seconds)


def encode_probs(probs: NDArray[Any]) -> NDArray[np.uint8]:
    """Turn probabilities into the bytes that are stored; off by 0.002 at most.

    Examples
    --------
    >>> encode_probs(np.array([0.0, 0.5, 1.0])).tolist()
    [0, 125, 250]
    """
    return np.rint(np.asarray(probs) / PROB_SCALE).astype(np.uint8)


def change_bands(present: Tile, future: Tile, is_float: bool) -> NDArray[np.float32]:
    """Compare two tiles of a window: change of richness, species gained and lost.

    Parameters
    ----------
    present, future : Tile
        Of the same window.
    is_float : bool
        Whether probabilities are stored as numbers, not as bytes.

    Returns
    -------
    ndarray of shape (3, height, width)
        Sum of all changes of probabilities, of the rises alone, and of the falls alone (a positive number); NaN where
        either has no data.
    """
    before, after = (
        tile.bands["probabilities"] if is_float else decode_probs(tile.bands["probabilities"])
        for tile in (present, future)
    )
    moved = after - before
    return np.stack(
        [
            moved.sum(axis=0),
            np.where(moved > 0, moved, 0 * moved).sum(axis=0),
            np.where(moved < 0, -moved, 0 * moved).sum(axis=0),
        ]
    ).astype(np.float32)


CHANGE_BANDS = ["change of richness", "species gained", "species lost"]


def decode_probs(stored: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Turn stored bytes into probabilities; NaN for no data."""
    return np.where(stored == PROB_NODATA, np.float32(np.nan), stored.astype(np.float32) * np.float32(PROB_SCALE))


# What all windows share ----------------------------------------------------------------------------------------


def prepare(
    model: LabelClassifier, columns: Sequence[str], inputs: MapInputs, options: MapOptions, places: Sequence[str] = ()
) -> MapModel:
    """Look at some windows, and settle what all tiles share.

    Parameters
    ----------
    model : LabelClassifier
        Fitted.
    columns : sequence of str
        Columns it takes, in order.
    inputs : MapInputs
        Rasters or a grid.
    options : MapOptions
        What is wanted.
    places : sequence of str
        Columns that are the coordinates of the cells.

    Returns
    -------
    MapModel

    Raises
    ------
    DataError
        A map without a cell that has data, or coordinates in other units than those of training.
    """
    area, sets = trust_of(model, options)
    mapper = MapModel(model, tuple(columns), options, area=area, sets=sets)
    windows = inputs.windows()
    chosen = sorted({int(place) for place in np.linspace(0, len(windows) - 1, _LOOKED_AT)})
    seen = [inputs.read(windows[place]).table for place in chosen]
    if not any(len(table) for table in seen):  # islands in a sea of nothing
        seen = [next((table for window in windows if len(table := inputs.read(window).table)), seen[0])]
    if not any(len(table) for table in seen):
        raise DataError(
            f"map must have cells with a value in every layer; got none in {inputs.grid.n_cells:,} cells. "
            "Check nodata, and that the layers overlap."
        )
    pool = pd.concat([table for table in seen if len(table)], ignore_index=True)
    random = np.random.default_rng([options.seed, 21])
    tried = pool.iloc[np.sort(random.choice(len(pool), min(_TRIED, len(pool)), replace=False))]
    _check_places(area, mapper, tried, places)
    if area is not None:
        everywhere = np.asarray(area.columns_beyond(model._read(mapper.rows(tried))).all(axis=0))
        beyond = tuple(name for name, is_beyond in zip(area.names, everywhere, strict=True) if is_beyond)
        mapper = replace(mapper, beyond=beyond)
    mapper = replace(mapper, steps=_choose_steps(mapper, tried, seen, options.tolerance))
    if options.draw_every_cell:
        return mapper
    drawn = tried.iloc[:: max(1, len(tried) // _DRAWN)]
    return replace(mapper, spread=learn_spread(mapper, drawn))


def trust_of(model: LabelClassifier, options: MapOptions) -> tuple[Applicability | None, PresenceSets | None]:
    """Return what a model knows of where it can be believed, and of safe calls; those were promised without given."""
    trust = getattr(model, "trust_", None)
    if trust is None:
        return None, None
    return trust.area, None if options.given else trust.sets


def _check_places(area: Applicability | None, mapper: MapModel, table: pd.DataFrame, places: Sequence[str]) -> None:
    """Refuse cells that are a thousand times farther away than training reached: other units, or the wrong system."""
    if area is None or not places:
        return
    scaled = area.scaler.transform(mapper.model._read(mapper.rows(table)), np.float64)
    numbers = [area.names.index(name) for name in places if name in area.names]
    for number in numbers:
        width = max(float(area.high[number] - area.low[number]), 1e-9)
        away = np.maximum(area.low[number] - scaled[:, number], scaled[:, number] - area.high[number])
        if np.min(away) > 20 * width:
            name = area.names[number]
            raise DataError(
                f"coordinates must be in the units of training; got {name} from {table[name].min():g} to "
                f"{table[name].max():g}, far beyond all training rows. Degrees taken for metres? "
                "Name the reference system of the training table: --coordinates-crs EPSG:..."
            )


def _choose_steps(mapper: MapModel, tried: pd.DataFrame, seen: Sequence[pd.DataFrame], tolerance: float) -> Steps:
    """Find the coarsest reading whose probabilities stay within the tolerance on the cells tried.

    What saves next to nothing is not worth any error: then values are read as they are, as with a tolerance of 0.
    """
    numeric = [name for name in mapper.columns if pd.api.types.is_float_dtype(tried[name].dtype)]
    ranges = {name: float(np.subtract(*np.quantile(tried[name], [0.99, 0.01]))) for name in numeric}
    n_seen = sum(map(len, seen))
    equal = 1 - sum(len(_distinct(table)[0]) for table in seen) / n_seen
    plain = Steps(n_tried=len(tried), share_saved=equal if equal >= _WORTH else 0.0)
    if tolerance == 0:
        return plain
    exact = mapper.predict(tried)
    for n_steps in _STEPS:
        size = {name: width / n_steps for name, width in ranges.items() if width > 0}
        steps = Steps(size, n_steps)
        moved = np.abs(mapper.predict(steps.rounded(tried)) - exact)
        if moved.max() > tolerance:
            continue
        saved = 1 - sum(len(_distinct(steps.rounded(table))[0]) for table in seen) / n_seen
        if saved < equal + _WORTH:
            return plain
        return Steps(size, n_steps, float(moved.max()), float(moved.mean()), len(tried), saved)
    return plain


def learn_spread(mapper: MapModel, table: pd.DataFrame) -> RichnessSpread:
    """Draw whole communities for some rows, and learn how wide their richness spreads."""
    probs = mapper.predict(table)
    drawn = mapper.draw_richness(table, mapper.options.seed)
    mean, spread = richness_moments(probs)
    safe = np.maximum(spread, 1e-9)
    target = (np.quantile(drawn, [0.05, 0.95], axis=0) - mean) / safe
    terms = _terms(mean, spread)
    wanted = np.sqrt(safe)  # an error counts in species, so certain cells count little
    halves = np.arange(len(table)) % 2

    def fitted(rows: NDArray[np.bool_]) -> Floats:
        weighted = terms[rows] * wanted[rows, None]
        return np.stack([np.linalg.lstsq(weighted, row[rows] * wanted[rows], rcond=None)[0] for row in target])

    everyone = np.ones(len(table), dtype=bool)
    left, right = (fitted(halves == half) if len(table) >= 24 else fitted(everyone) for half in (0, 1))
    crossed = np.where(halves == 1, left @ terms.T, right @ terms.T)
    wrong = (crossed - target) * spread
    widening = float((drawn.std(axis=0) / safe).mean())
    error = float(np.sqrt(np.mean(wrong**2)))
    return RichnessSpread(fitted(everyone), error, widening, len(table), mapper.options.n_draws)


# Small pieces --------------------------------------------------------------------------------------------------


def richness_moments(probs: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return the expected richness, and its deviation if labels were independent."""
    mean: Floats = probs.sum(axis=1).astype(np.float64)
    variance = np.einsum("ij,ij->i", probs, 1 - probs).astype(np.float64)
    return mean, np.sqrt(np.maximum(variance, 0))


def _terms(mean: Floats, spread: Floats) -> Floats:
    return np.column_stack([np.ones_like(mean), mean, spread, mean**2, spread**2, mean * spread])


def _distinct(table: pd.DataFrame) -> tuple[pd.DataFrame, NDArray[np.intp]]:
    """Return the different rows of a table, in the order of their first, and which of them each row is."""
    if not len(table):
        return table, np.zeros(0, dtype=np.intp)
    codes = np.column_stack([_codes(table[name]) for name in table.columns])
    # Rows become one number each; whether two that share it are the same is looked up, not hoped.
    factors = np.random.default_rng(7).integers(1, 2**63, codes.shape[1], dtype=np.uint64) | np.uint64(1)
    with np.errstate(over="ignore"):
        mixed = (codes.view(np.uint64) * factors).sum(axis=1, dtype=np.uint64)
        mixed ^= mixed >> np.uint64(29)
    _, first, which = np.unique(mixed, return_index=True, return_inverse=True)
    if not (codes[first[which]] == codes).all():
        _, first, which = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.arange(len(order))
    return table.iloc[first[order]].reset_index(drop=True), place[which.reshape(-1)]


def _codes(column: pd.Series[Any]) -> NDArray[np.int64]:
    """Whole numbers that are equal where values are equal."""
    if pd.api.types.is_float_dtype(column.dtype):
        values = column.to_numpy(dtype=np.float64) + 0.0  # minus zero is zero
        found: NDArray[np.int64] = np.ascontiguousarray(values).view(np.int64)
        return found
    return np.asarray(pd.factorize(column)[0], dtype=np.int64)


def _columns(parts: Sequence[NDArray[Any]] | Floats) -> NDArray[np.float32]:
    return to_four_digits(np.column_stack([part.astype(np.float32) for part in parts]))


def to_four_digits(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Round to 12 bits behind the first: off by 1/8192 of a value at most; whole numbers up to 8,192 stay as they are.

    Digits that mean nothing are what a file of numbers is largest by, and slowest to squeeze.

    Examples
    --------
    >>> to_four_digits(np.array([23.456789, 1200.0], dtype=np.float32)).tolist()
    [23.45703125, 1200.0]
    """
    bits = values.view(np.int32)
    return np.where(np.isfinite(values), ((bits + 0x3FF + ((bits >> 11) & 1)) & ~0x7FF).view(np.float32), values)


def _spread(values: NDArray[Any], which: NDArray[np.intp], places: NDArray[np.intp], window: Window) -> NDArray[Any]:
    """Put values of distinct rows, shape (n_distinct, n_bands), back to where their cells are, band by band."""
    nodata = PROB_NODATA if values.dtype == np.uint8 else np.nan
    found = np.full((window.n_cells, values.shape[1]), nodata, dtype=values.dtype)
    found[places] = values[which]
    return np.ascontiguousarray(found.T).reshape(-1, window.height, window.width)


class _Clock:
    """Where the time of a tile goes."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {"read": 0.0, "model": 0.0, "trust": 0.0, "rest": 0.0}
        self._last = time.process_time()

    def lap(self, name: str) -> None:
        now = time.process_time()
        self.seconds[name] += now - self._last
        self._last = now


def check_given(given: Mapping[str, float], labels: Sequence[str]) -> None:
    """Refuse labels that the model does not have, and values other than 0 and 1.

    Raises
    ------
    DataError
        Naming them.
    """
    from hotvae.data.dataset import close_names

    unknown = [name for name in given if name not in labels]
    if unknown:
        raise DataError(
            f"given labels must be labels of the model; got {listed(unknown)}{close_names(unknown, labels)}. "
            "Check the spelling."
        )
    wrong = {name: value for name, value in given.items() if value not in (0, 1)}
    if wrong:
        raise DataError(f"given labels must be 0 or 1; got {wrong}. Give 1 for present, 0 for absent.")
