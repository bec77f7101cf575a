"""Figures as plain matplotlib objects: nothing is shown, no global state is touched.

Every function returns a :class:`matplotlib.figure.Figure`; save it with ``figure.savefig(path)`` or put it
into a :class:`hotvae.report.Report`. Colours can be told apart by colour-blind readers.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from hotvae.errors import DataError
from hotvae.metrics.multilabel import METRICS, ReliabilityCurve

FloatArray = npt.NDArray[np.float64]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette, darkest hues first; models take them in turn."""

_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_GREY = "#6b6b6b"


class HistoryLike(Protocol):
    """What a training history has to offer; see :class:`hotvae.training.History`."""

    @property
    def records(self) -> Sequence[Mapping[str, Any]]:
        """One mapping per epoch."""
        ...

    @property
    def best_epoch(self) -> int:
        """The epoch that was kept."""
        ...


def plot_history(histories: Mapping[str, HistoryLike]) -> Figure:
    """Training loss and validation measures over the epochs; a ring marks the epoch that was kept.

    Parameters
    ----------
    histories : mapping of str to History
        History of each model, by its name.

    Returns
    -------
    Figure

    Raises
    ------
    DataError
        No history, or one without an epoch.

    Examples
    --------
    >>> from hotvae.training import History
    >>> record = {"epoch": 1, "loss": 0.9, "validation_log_loss": 0.5, "validation_macro_f1": 0.6}
    >>> figure = plot_history({"HOT-VAE": History([record], best_epoch=1)})
    >>> [axes.get_title(loc="left") for axes in figure.axes]
    ['training loss', 'validation log loss', 'validation maF1']
    """
    short = [name for name, history in histories.items() if not history.records]
    if not histories or short:
        raise DataError(f"histories must hold at least one epoch each; got {short or 'no history'}.")
    columns = ["loss"]
    for history in histories.values():
        known = [name for name in history.records[-1] if name.startswith("validation_")]
        columns += [name for name in known if name not in columns]
    figure = _figure(1.0 + 3.0 * len(columns), 3.3)
    panels = figure.subplots(1, len(columns), squeeze=False)[0]
    for axes, column in zip(panels, columns, strict=True):
        for number, (name, history) in enumerate(histories.items()):
            epochs = np.array([record["epoch"] for record in history.records], dtype=float)
            values = np.array([record.get(column, np.nan) for record in history.records], dtype=float)
            colour = COLOURS[number % len(COLOURS)]
            axes.plot(epochs, values, color=colour, label=name, linewidth=1.8)
            best = epochs == history.best_epoch
            ring = {"markerfacecolor": "white", "markeredgecolor": colour, "markeredgewidth": 2}
            axes.plot(epochs[best], values[best], linestyle="", marker="o", markersize=8, **ring)
        metric = METRICS.get(column.removeprefix("validation_"))
        shown = metric.title if metric is not None else column.removeprefix("validation_").replace("_", " ")
        _dress(axes, "training loss" if column == "loss" else f"validation {shown}", "epoch", "")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    _legend_below(figure, panels[0], extra="ring: the epoch that was kept")
    return figure


def plot_reliability(curves: Mapping[str, ReliabilityCurve]) -> Figure:
    """Observed rate against predicted probability, and how many predictions each point stands for.

    Parameters
    ----------
    curves : mapping of str to ReliabilityCurve
        Curve of each model, by its name, from :func:`hotvae.metrics.reliability_curve`.

    Returns
    -------
    Figure

    Raises
    ------
    DataError
        No curve.

    Examples
    --------
    >>> from hotvae.metrics import reliability_curve
    >>> curve = reliability_curve([[0], [1]], [[0.25], [0.75]], n_bins=2)
    >>> len(plot_reliability({"HOT-VAE": curve}).axes)
    2
    """
    if not curves:
        raise DataError("curves must hold at least one model; got none.")
    figure = _figure(5.6, 5.8)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3.2, 1])
    upper.plot([0, 1], [0, 1], color=_GREY, linewidth=1, linestyle=(0, (4, 3)))
    upper.text(0.98, 0.03, "dashes: predicted = observed", color=_GREY, fontsize=9, horizontalalignment="right")
    for number, (name, curve) in enumerate(curves.items()):
        style = {"color": COLOURS[number % len(COLOURS)], "marker": _MARKERS[number % len(_MARKERS)]}
        upper.plot(curve.mean_predicted, curve.observed_rate, label=name, linewidth=1.6, markersize=5.5, **style)
        lower.plot(curve.mean_predicted, curve.count, linewidth=1.2, markersize=4, **style)
    _dress(upper, "reliability", "", "observed rate")
    _dress(lower, "", "predicted probability", "predictions")
    upper.set_ylim(-0.02, 1.02)
    upper.set_xlim(-0.02, 1.02)
    lower.set_ylim(bottom=0)
    lower.yaxis.set_major_locator(MaxNLocator(3))
    lower.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    upper.legend(loc="upper left", frameon=False, fontsize=9.5)
    return figure


def plot_richness_map(
    coordinates: npt.ArrayLike,
    true: npt.ArrayLike,
    predicted: npt.ArrayLike,
    coordinate_names: Sequence[str] = ("x", "y"),
) -> Figure:
    """Two maps of the number of species on one colour scale, and the difference between them.

    Parameters
    ----------
    coordinates : array-like of shape (n_samples, 2)
        Easting and northing; a complete regular grid is drawn as an area, other places as points.
    true, predicted : array-like of shape (n_samples,)
        Richness: true or observed, and predicted (the sum of the probabilities).
    coordinate_names : sequence of str
        Names of the two axes.

    Returns
    -------
    Figure

    Raises
    ------
    DataError
        Arrays that do not fit together.

    Examples
    --------
    >>> figure = plot_richness_map([[0, 0], [0, 1], [1, 0], [1, 1]], [1, 2, 3, 4], [1, 2, 3, 5])
    >>> [axes.get_title(loc="left") for axes in figure.axes[:3]]
    ['true richness', 'predicted richness', 'predicted − true']
    """
    places = np.asarray(coordinates, dtype=np.float64)
    values = [np.asarray(column, dtype=np.float64) for column in (true, predicted)]
    if places.ndim != 2 or places.shape[1] != 2 or any(column.shape != places.shape[:1] for column in values):
        raise DataError(
            "coordinates must have shape (n_samples, 2), and true and predicted one value per row; "
            f"got shapes {places.shape}, {values[0].shape} and {values[1].shape}."
        )
    figure = _figure(10.5, 3.4)
    panels = figure.subplots(1, 3)
    low, high = float(np.min(values)), float(np.max(values))
    difference = values[1] - values[0]
    widest = float(np.abs(difference).max()) or 1.0
    shared = Normalize(low, high if high > low else low + 1.0)
    drawn = [
        _draw_map(panels[0], places, values[0], "viridis", shared),
        _draw_map(panels[1], places, values[1], "viridis", shared),
        _draw_map(panels[2], places, difference, "PuOr", Normalize(-widest, widest)),
    ]
    for axes, title in zip(panels, ("true richness", "predicted richness", "predicted − true"), strict=True):
        _dress(axes, title, coordinate_names[0], coordinate_names[1] if axes is panels[0] else "")
        axes.set_aspect("equal")
        axes.grid(visible=False)
    for image, places_for in ((drawn[0], panels[:2].tolist()), (drawn[2], panels[2])):
        _colour_bar(figure, image, places_for, "species")
    return figure


def plot_interactions(
    true: npt.ArrayLike,
    recovered: npt.ArrayLike,
    names: Sequence[str],
    groups: Sequence[Sequence[str]] = (),
    reported: Sequence[tuple[str, str]] = (),
) -> Figure:
    """Associations as one square: the true ones above the diagonal, the recovered ones mirrored below.

    Parameters
    ----------
    true, recovered : array-like of shape (n_labels, n_labels)
        Symmetric associations in [-1, 1]; the diagonal is not shown.
    names : sequence of str
        Names of the labels.
    groups : sequence of sequence of str
        Labels to stand side by side in a frame, such as guilds; labels in no group follow at the end.
    reported : sequence of pairs of str
        Recovered pairs that passed a test; they get a dot.

    Returns
    -------
    Figure

    Raises
    ------
    DataError
        Tables or names that do not fit together.

    Examples
    --------
    >>> figure = plot_interactions([[0, 0.4], [0.4, 0]], [[0, 0.3], [0.3, 0]], ["wren", "owl"])
    >>> figure.axes[0].get_title(loc="left")
    'above the diagonal: true; below: recovered'
    """
    tables = [np.asarray(table, dtype=np.float64) for table in (true, recovered)]
    if any(table.shape != (len(names), len(names)) for table in tables):
        raise DataError(
            f"true and recovered must have one row and column per name ({len(names)}); "
            f"got shapes {tables[0].shape} and {tables[1].shape}."
        )
    members = [name for group in groups for name in group]
    unknown = [name for name in members if name not in names]
    if unknown:
        raise DataError(f"groups must hold labels of the table; got {unknown[:5]}.")
    order = members + [name for name in names if name not in set(members)]
    index = [list(names).index(name) for name in order]
    above, below = (table[np.ix_(index, index)] for table in tables)
    square = np.where(np.triu(np.ones_like(above), k=1) > 0, above, below)
    np.fill_diagonal(square, np.nan)

    size = min(11.0, 3.0 + 0.21 * len(order))
    figure = _figure(size + 0.7, size)
    axes = figure.subplots()
    widest = max(0.1, float(np.nanmax(np.abs(square), initial=0.0)))
    drawn = axes.imshow(square, cmap="RdBu_r", norm=Normalize(-widest, widest))
    place = {name: position for position, name in enumerate(order)}
    dots = np.array([sorted((place[a], place[b])) for a, b in reported], dtype=float).reshape(-1, 2)
    axes.plot(dots[:, 0], dots[:, 1], ".", color="black", markersize=4)
    start = 0
    for group in groups:
        axes.add_patch(
            Rectangle((start - 0.5, start - 0.5), len(group), len(group), fill=False, edgecolor="black", linewidth=1)
        )
        start += len(group)
    _dress(axes, "above the diagonal: true; below: recovered", "", "")
    axes.grid(visible=False)
    axes.plot([-0.5, len(order) - 0.5], [-0.5, len(order) - 0.5], color=_GREY, linewidth=0.8)
    axes.set_xlim(-0.5, len(order) - 0.5)
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.set_xticks(range(len(order)), order, rotation=90, fontsize=8)
    axes.set_yticks(range(len(order)), order, fontsize=8)
    _colour_bar(figure, drawn, axes, "avoid each other  ←  0  →  go together")
    signs = (["frame: group"] if groups else []) + (["dot: passed the screen for chance"] if len(dots) else [])
    if signs:
        axes.set_xlabel("; ".join(signs), fontsize=9, color=_GREY)
    return figure


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    # Inches around each panel; with the default a title touches the edge.
    cast(ConstrainedLayoutEngine, figure.get_layout_engine()).set(w_pad=0.08, h_pad=0.1)
    return figure


def _dress(axes: Axes, title: str, x_label: str, y_label: str) -> None:
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
    axes.set_xlabel(x_label, fontsize=10)
    axes.set_ylabel(y_label, fontsize=10)
    axes.tick_params(labelsize=9, color=_GREY)
    axes.grid(color="#e3e3e3", linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(_GREY)


def _legend_below(figure: Figure, axes: Axes, extra: str) -> None:
    handles, names = axes.get_legend_handles_labels()
    style: dict[str, Any] = {"frameon": False, "fontsize": 9.5, "title": extra, "title_fontsize": 9}
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), **style)


def _colour_bar(figure: Figure, image: Any, axes: Any, label: str) -> None:
    bar = figure.colorbar(image, ax=axes, shrink=0.7, aspect=28, pad=0.02)
    bar.set_label(label, fontsize=9.5)
    bar.ax.tick_params(labelsize=9)
    bar.outline.set_visible(False)


def _draw_map(axes: Axes, places: FloatArray, values: FloatArray, palette: str, norm: Normalize) -> Any:
    columns, rows = np.unique(places[:, 0]), np.unique(places[:, 1])
    if len(columns) > 1 and len(rows) > 1 and len(columns) * len(rows) == len(places):
        order = np.lexsort((places[:, 0], places[:, 1]))
        grid = values[order].reshape(len(rows), len(columns))
        return axes.pcolormesh(columns, rows, grid, cmap=palette, norm=norm, shading="nearest", rasterized=True)
    size = float(np.clip(9000 / len(places), 2, 40))
    return axes.scatter(
        places[:, 0], places[:, 1], c=values, s=size, cmap=palette, norm=norm, linewidths=0, rasterized=True
    )
