"""Pictures of maps: values on land with coastline and borders, hatched where the model has seen nothing alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, LinearSegmentedColormap, ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Polygon
from matplotlib.ticker import FuncFormatter, MaxNLocator

FloatArray = npt.NDArray[np.float64]

_SEA, _LAND, _COAST, _BORDER, _INK = "#eaf1f6", "#f4f1ea", "#4a4a4a", "#7d7d7d", "#333333"
# Longest side of the drawing itself, in inches.
_LONGEST = {"large": 5.0, "small": 2.3}


@dataclass(frozen=True)
class Place:
    """Where a map is, and what lies around it.

    Attributes
    ----------
    extent : (west, east, south, north)
        In the units of the map.
    degrees : bool
        Whether these are degrees.
    land, borders : list of ndarray of shape (n_points, 2)
        Outlines in the same units.
    unit_km : float
        Kilometres of a unit, west to east in the middle of the map; for the scale.
    """

    extent: tuple[float, float, float, float]
    degrees: bool
    land: list[FloatArray] = field(default_factory=list)
    borders: list[FloatArray] = field(default_factory=list)
    unit_km: float = 0.001


def plot_raster(
    values: npt.ArrayLike,
    place: Place,
    *,
    title: str,
    unit: str,
    low: float,
    high: float,
    colours: str | Sequence[str] = "viridis",
    classes: Sequence[str] = (),
    outside: npt.ArrayLike | None = None,
    size: str = "large",
) -> Figure:
    """Draw one band of a map.

    Parameters
    ----------
    values : array-like of shape (height, width)
        NaN where there is no data.
    place : Place
        Where it is.
    title, unit : str
        Above the map, and beside its scale.
    low, high : float
        Ends of the scale.
    colours : str or sequence of str
        A colour map of matplotlib, or colours from low to high.
    classes : sequence of str
        Names of 0, 1, ... where values are classes.
    outside : array-like of bool of shape (height, width), optional
        Where to hatch.
    size : {"large", "small"}
        A picture by itself, or one of many.

    Returns
    -------
    Figure

    Examples
    --------
    >>> place = Place((0.0, 2.0, 0.0, 1.0), degrees=True)
    >>> figure = plot_raster([[0.1, 0.9]], place, title="wren", unit="probability", low=0, high=1)
    >>> figure.axes[0].get_title(loc="left")
    'wren'
    """
    table = np.asarray(values, dtype=np.float64)
    west, east, south, north = place.extent
    across = np.cos(np.radians((south + north) / 2)) if place.degrees else 1.0
    width, height = (east - west) * max(across, 0.05), north - south
    longest, is_large = _LONGEST[size], size == "large"
    drawn = longest / max(width, height)
    figure = Figure(
        figsize=(
            max(width * drawn, 1.2) + (1.25 if is_large else 0.1),
            max(height * drawn, 0.8) + (0.7 if is_large else 0.32),
        ),
        layout="constrained",
        facecolor="white",
    )
    axes = figure.subplots()
    axes.set_facecolor(_SEA)
    for ring in place.land:
        axes.add_patch(Polygon(ring, closed=True, facecolor=_LAND, edgecolor="none", zorder=0))
    norm: Normalize
    if classes:
        palette = ListedColormap(list(colours) if not isinstance(colours, str) else ["#c9c2b0", "#21918c", "#f0c94c"])
        norm = BoundaryNorm(np.arange(len(classes) + 1) - 0.5, len(classes))
    else:
        palette = colours if isinstance(colours, str) else LinearSegmentedColormap.from_list("own", list(colours))  # type: ignore[assignment]
        norm = Normalize(low, high if high > low else low + 1e-9)
    image = axes.imshow(
        np.ma.masked_invalid(table),
        extent=(west, east, south, north),
        cmap=palette,
        norm=norm,
        interpolation="nearest",
        zorder=1,
        aspect="auto",
    )
    if outside is not None and np.any(outside):
        _hatch(axes, np.asarray(outside, dtype=bool), place.extent, is_large)
    for line in place.borders:
        axes.plot(*line.T, color=_BORDER, linewidth=0.6, linestyle=(0, (4, 2)), zorder=3)
    for ring in place.land:
        # On a light line a dark one is seen on any colour.
        axes.plot(*ring.T, color="white", alpha=0.6, linewidth=1.8 if is_large else 1.0, zorder=3)
        axes.plot(*ring.T, color=_COAST, linewidth=0.7 if is_large else 0.4, zorder=3)
    axes.set_xlim(west, east)
    axes.set_ylim(south, north)
    axes.set_aspect(1 / max(across, 0.05))
    _dress(axes, place, is_large)
    axes.set_title(title, loc="left", fontsize=11 if is_large else 8, fontweight="bold", color=_INK)
    if is_large:
        bar = figure.colorbar(image, ax=axes, fraction=0.046, pad=0.02, shrink=0.9)
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=8.5, length=2)
        if classes:
            bar.set_ticks(range(len(classes)), labels=list(classes))
        else:
            bar.set_label(unit, fontsize=9)
    return figure


def _hatch(
    axes: Axes, outside: npt.NDArray[np.bool_], extent: tuple[float, float, float, float], is_large: bool
) -> None:
    west, east, south, north = extent
    n_rows, n_columns = outside.shape
    x = west + (np.arange(n_columns) + 0.5) * (east - west) / n_columns
    y = north - (np.arange(n_rows) + 0.5) * (north - south) / n_rows
    if min(outside.shape) < 2:
        return  # nothing that could be outlined
    found = axes.contourf(
        x,
        y,
        outside.astype(float),
        levels=[0.5, 1.5],
        colors="none",
        hatches=["/////" if is_large else "////"],
        zorder=2,
    )
    found.set_edgecolor((1, 1, 1, 0.75))
    found.set_linewidth(0.0)
    # White lines are lost on white: an outline is not.
    axes.contour(x, y, outside.astype(float), levels=[0.5], colors=_INK, linewidths=0.6 if is_large else 0.3, zorder=2)


def _dress(axes: Axes, place: Place, is_large: bool) -> None:
    """Say where the map is: degrees along its edges, or a scale."""
    if not is_large:
        axes.set_xticks([])
        axes.set_yticks([])
    elif place.degrees:
        for axis, letters in ((axes.xaxis, "EW"), (axes.yaxis, "NS")):
            axis.set_major_locator(MaxNLocator(5))
            axis.set_major_formatter(FuncFormatter(_degrees(letters)))
        axes.tick_params(labelsize=8, length=2, colors="#555555")
    else:
        axes.set_xticks([])
        axes.set_yticks([])
        _scale_bar(axes, place)
    for side in axes.spines.values():
        side.set_color("#bbbbbb")


def _degrees(letters: str) -> Callable[[float, object], str]:
    def write(value: float, _: object) -> str:
        letter = "" if abs(value) < 1e-9 else letters[0] if value > 0 else letters[1]
        return f"{abs(value):g}°{letter}"

    return write


def _scale_bar(axes: Axes, place: Place) -> None:
    west, east, south, north = place.extent
    wanted = (east - west) * place.unit_km / 4
    if wanted <= 0:
        return
    step = 10 ** np.floor(np.log10(wanted))
    length = max(part * step for part in (1, 2, 5) if part * step <= wanted)
    x, y = west + 0.04 * (east - west), south + 0.05 * (north - south)
    axes.plot([x, x + length / place.unit_km], [y, y], color="white", linewidth=4.5, solid_capstyle="butt", zorder=4)
    axes.plot([x, x + length / place.unit_km], [y, y], color=_INK, linewidth=2, solid_capstyle="butt", zorder=5)
    axes.annotate(
        f"{length:g} km",
        (x, y),
        xytext=(0, 4),
        textcoords="offset points",
        fontsize=8,
        color=_INK,
        zorder=5,
        bbox={"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.5},
    )
