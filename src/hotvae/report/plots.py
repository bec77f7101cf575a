"""Figures as plain matplotlib objects: nothing is shown, no global state is touched.

Every function returns a :class:`matplotlib.figure.Figure`; save it with ``figure.savefig(path)``. Colours can be told
apart by colour-blind readers. What a model says is drawn from the tidy tables of :mod:`hotvae.explain`: filter them
first to draw less. Tables that lack a column, names that are not in them, nothing to draw and arrays that do not fit
together raise a ``DataError``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Polygon, Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from hotvae.data.places import degree_columns
from hotvae.errors import DataError, listed
from hotvae.explain.interactions import pair_table
from hotvae.metrics.multilabel import METRICS, ReliabilityCurve
from hotvae.report.coastline import border_lines, land_rings
from hotvae.report.layout import network_layout
from hotvae.training.loop import History

FloatArray = npt.NDArray[np.float64]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette, darkest hues first; models take them in turn."""

TOGETHER, APART = COLOURS[:2]
"""What goes together is blue and what keeps apart is orange, in every picture and on every page."""

_TOGETHER_OR_APART = LinearSegmentedColormap.from_list("together or apart", [APART, "white", TOGETHER])
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_GREY = "#6b6b6b"


def plot_history(histories: Mapping[str, History]) -> Figure:
    """Training loss and validation measures over the epochs; a ring marks the epoch that was kept.

    Parameters
    ----------
    histories : mapping of str to History
        History of each model, by its name.

    Examples
    --------
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
        _dress(axes, history_title(column), "epoch", "")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    _legend_below(figure, panels[0], extra="ring: the epoch that was kept")
    return figure


def history_title(column: str) -> str:
    """Name a column of a training history in words.

    Examples
    --------
    >>> history_title("loss"), history_title("validation_macro_f1")
    ('training loss', 'validation maF1')
    """
    if column == "loss":
        return "training loss"
    name = column.removeprefix("validation_")
    return f"validation {METRICS[name].title if name in METRICS else name.replace('_', ' ')}"


def plot_reliability(curves: Mapping[str, ReliabilityCurve]) -> Figure:
    """Observed rate against predicted probability, and how many predictions each point stands for.

    Parameters
    ----------
    curves : mapping of str to ReliabilityCurve
        Curve of each model, by its name, from :func:`hotvae.metrics.reliability_curve`.

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


def plot_richness_map(table: pd.DataFrame, coordinate_names: Sequence[str] = ("x", "y")) -> Figure:
    """Two maps of the number of species on one colour scale, and the difference between them.

    Parameters
    ----------
    table : DataFrame
        A row for each place: the two coordinates, ``true`` (or observed) richness, and ``predicted``, the sum of the
        probabilities. A complete regular grid is drawn as an area, other places as points.
    coordinate_names : sequence of two str
        Names of the columns of coordinates.
    """
    _with_columns(table, *coordinate_names, "true", "predicted")
    places = table[list(coordinate_names)].to_numpy(dtype=np.float64)
    values = [table[name].to_numpy(dtype=np.float64) for name in ("true", "predicted")]
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

    place = {name: position for position, name in enumerate(order)}
    dots = np.array([sorted((place[a], place[b])) for a, b in reported], dtype=float).reshape(-1, 2)
    title = "above the diagonal: true; below: recovered"
    figure, axes = _square(square, order, dots, title, "avoid each other  ←  0  →  go together")
    start = 0
    for group in groups:
        axes.add_patch(
            Rectangle((start - 0.5, start - 0.5), len(group), len(group), fill=False, edgecolor="black", linewidth=1)
        )
        start += len(group)
    axes.plot([-0.5, len(order) - 0.5], [-0.5, len(order) - 0.5], color=_GREY, linewidth=0.8)
    axes.set_xlim(-0.5, len(order) - 0.5)
    axes.set_ylim(len(order) - 0.5, -0.5)
    signs = (["frame: group"] if groups else []) + (["dot: passed the screen for chance"] if len(dots) else [])
    if signs:
        axes.set_xlabel("; ".join(signs), fontsize=9, color=_GREY)
    return figure


# --- what a model says, from tidy tables -----------------------------------------------------------------


def plot_association_matrix(table: pd.DataFrame, group: str | None = None) -> Figure:
    """Effects of every label on every other one, in the two directions; a dot marks the kept ones.

    Parameters
    ----------
    table : DataFrame
        From :func:`hotvae.explain.associations`.
    group : str, optional
        Which group of rows; by default the first.
    """
    own, group = _one_group(_with_columns(table, "label_i", "label_j", "group", "effect", "kept"), group)
    names = _label_order(own, "label_i", "label_j")
    square, kept = (
        own.pivot(index="label_i", columns="label_j", values=column).reindex(index=names, columns=names)
        for column in ("effect", "kept")
    )
    # A pair is (listening, flipped): rows listen, and stand on the y axis.
    dots = np.argwhere(kept.fillna(False).to_numpy(dtype=bool))[:, ::-1]
    values = square.to_numpy(dtype=np.float64)
    figure, axes = _square(values, names, dots, f"associations, {group}", "change of probability (dot: kept)")
    axes.set_xlabel("label that is present instead of absent", fontsize=10)
    axes.set_ylabel("label whose probability changes", fontsize=10)
    return figure


def plot_network(table: pd.DataFrame, group: str | None = None, *, max_edges: int = 60) -> Figure:
    """Kept associations as lines between labels: blue found together, orange apart, wide strong.

    Parameters
    ----------
    table, group
        As in :func:`plot_association_matrix`; labels keep their places from group to group.
    max_edges : int
        Most lines, strongest first.
    """
    _, group = _one_group(_with_columns(table, "label_i", "label_j", "group", "effect", "kept"), group)
    pairs = pair_table(table)
    kept = pairs[pairs["kept"]]
    size = kept.assign(size=kept["effect"].abs()).groupby(["label_a", "label_b"], observed=True)["size"].max()
    everywhere = [(str(a), str(b)) for a, b in size.sort_values(ascending=False).index]
    names = list(dict.fromkeys(name for pair in everywhere for name in pair))
    number = {name: place for place, name in enumerate(names)}
    places = network_layout([(number[a], number[b]) for a, b in everywhere], size.sort_values(ascending=False))
    shown = kept[kept["group"].astype(str) == group][:max_edges]
    figure = _figure(8.5, 6.5)
    axes = figure.subplots()
    _dress(axes, f"which labels go together, {group}", "", "")
    axes.set_axis_off()
    widest = max(0.05, float(shown["effect"].abs().max())) if len(shown) else 1.0
    for first, second, effect in zip(*(shown[name].tolist() for name in ("label_a", "label_b", "effect")), strict=True):
        ends = places[[number[str(first)], number[str(second)]]]
        colour = TOGETHER if effect > 0 else APART
        axes.plot(*ends.T, color=colour, linewidth=0.6 + 5 * abs(effect) / widest, alpha=0.75, zorder=1)
    axes.scatter(places[:, 0], places[:, 1], s=24, color="white", edgecolors="black", zorder=2)
    speaking = {str(name) for column in ("label_a", "label_b") for name in shown[column]}
    for name, (x, y) in zip(names, places, strict=True):
        if name in speaking:
            axes.annotate(name, (x, y), (4, 4), textcoords="offset points", fontsize=8, zorder=3)
    if not names:
        axes.text(0.5, 0.5, "no association passes the screen", horizontalalignment="center", color=_GREY)
    return figure


def plot_association_gradient(table: pd.DataFrame, pairs: Sequence[tuple[str, str]]) -> Figure:
    """Effects of chosen pairs from group to group, with their intervals; a full dot is kept, an open one not.

    Parameters
    ----------
    table : DataFrame
        From :func:`hotvae.explain.associations` with groups along a gradient, in their order.
    pairs : sequence of (str, str)
        (Whose probability changes, who is present instead of absent); at most seven.
    """
    _with_columns(table, "label_i", "label_j", "group", "effect", "lower", "upper", "kept")
    groups = list(dict.fromkeys(str(name) for name in table["group"]))
    figure = _figure(max(5.5, 1.5 + 1.3 * len(groups)), 4.2)
    axes = figure.subplots()
    axes.axhline(0, color=_GREY, linewidth=1)
    for number, (label_i, label_j) in enumerate(pairs[: len(COLOURS)]):
        own = table[(table["label_i"] == label_i) & (table["label_j"] == label_j)]
        if own.empty:
            raise DataError(f"pairs must be in the table; got {(label_i, label_j)!r}. Check the spelling.")
        where = np.array([groups.index(str(name)) for name in own["group"]])
        colour = COLOURS[number]
        axes.plot(where, own["effect"].to_numpy(), color=colour, label=f"{label_i}, if {label_j} is found", zorder=2)
        axes.fill_between(where, own["lower"], own["upper"], color=colour, alpha=0.15, linewidth=0)
        faces = [colour if is_kept else "white" for is_kept in own["kept"]]
        axes.scatter(where, own["effect"], c=faces, edgecolors=colour, zorder=3)
    _dress(axes, "associations along the gradient", "", "change of probability")
    axes.set_xticks(range(len(groups)), groups, fontsize=8, rotation=20)
    _legend_below(figure, axes, extra="open: does not pass the screen")
    return figure


def plot_response_curves(table: pd.DataFrame, labels: Sequence[str] | None = None) -> Figure:
    """Mean probability of labels along features, with intervals; one panel for each feature.

    Parameters
    ----------
    table : DataFrame
        From :func:`hotvae.explain.response_curves`.
    labels : sequence of str, optional
        At most seven labels; by default the first.
    """
    _with_columns(table, "feature", "value", "label", "probability", "lower", "upper")
    known = list(dict.fromkeys(table["label"]))
    shown = list(labels) if labels is not None else known[:1]
    unknown = [name for name in shown if name not in known]
    if unknown:
        raise DataError(f"labels must be in the table; got {unknown[:5]}. Check the spelling.")
    features = list(dict.fromkeys(table["feature"]))
    columns = min(3, len(features))
    lines = -(-len(features) // columns)
    figure = _figure(1.2 + 3.2 * columns, 0.6 + 2.7 * lines)
    panels = figure.subplots(lines, columns, squeeze=False, sharey=True)
    for axes in panels.flat[len(features) :]:
        axes.set_axis_off()
    for axes, feature in zip(panels.flat, features, strict=False):
        for number, label in enumerate(shown[: len(COLOURS)]):
            own = table[(table["feature"] == feature) & (table["label"] == label)]
            is_number = all(isinstance(value, int | float) for value in own["value"])
            x = own["value"].astype(float).to_numpy() if is_number else np.arange(len(own), dtype=float)
            style: dict[str, Any] = {} if is_number else {"linestyle": "", "marker": "o"}
            axes.plot(x, own["probability"], color=COLOURS[number], label=label, linewidth=1.8, **style)
            if is_number:
                axes.fill_between(x, own["lower"], own["upper"], color=COLOURS[number], alpha=0.15, linewidth=0)
            else:
                axes.vlines(x, own["lower"], own["upper"], color=COLOURS[number], alpha=0.5)
                axes.set_xticks(x, [str(value) for value in own["value"]])
        _dress(axes, "", str(feature), "probability" if axes in panels[:, 0] else "")
        axes.set_ylim(bottom=0)
    _legend_below(figure, panels[0, 0], extra="band: interval over rows")
    return figure


def plot_response_surface(table: pd.DataFrame, label: str, names: tuple[str, str] = ("value_1", "value_2")) -> Figure:
    """Mean probability of a label over two features; hatched where the data have no such place.

    Parameters
    ----------
    table : DataFrame
        From :func:`hotvae.explain.response_surface`.
    label : str
        The label.
    names : (str, str)
        Names of the two features.
    """
    own = _with_columns(table, "value_1", "value_2", "label", "probability", "n_rows")
    own = _of_label(own, label)
    wide, rows = (own.pivot(index="value_2", columns="value_1", values=name) for name in ("probability", "n_rows"))
    figure = _figure(5.8, 4.6)
    axes = figure.subplots()
    x, y = wide.columns.to_numpy(dtype=np.float64), wide.index.to_numpy(dtype=np.float64)
    drawn = axes.pcolormesh(x, y, wide.to_numpy(), cmap="viridis", shading="nearest", vmin=0, rasterized=True)
    empty = np.ma.masked_where(rows.to_numpy() > 0, np.ones(rows.shape))
    axes.pcolor(x, y, empty, hatch="////", alpha=0.0, shading="nearest")
    _dress(axes, f"probability of {label}", *names)
    axes.grid(visible=False)
    _colour_bar(figure, drawn, axes, "probability (hatched: no such place in the data)")
    return figure


def plot_importance(table: pd.DataFrame, label: str = "all labels", *, max_bars: int = 20) -> Figure:
    """Bars of the rise of the deviance when features are shuffled; lines span the shuffles.

    Parameters
    ----------
    table : DataFrame
        From :func:`hotvae.explain.permutation_importance`.
    label : str
        One label, or all.
    max_bars : int
        Most bars, longest first.
    """
    own = _with_columns(table, "group", "label", "importance", "lower", "upper")
    own = _of_label(own, label).sort_values("importance", ascending=False)[:max_bars]
    figure = _bars(own, "importance", "group", f"importance for {label}", "rise of the deviance per cell")
    figure.axes[0].hlines(np.arange(len(own)), own["lower"], own["upper"], color="black", linewidth=1.2)
    return figure


def plot_deviance_partition(table: pd.DataFrame, label: str = "all labels") -> Figure:
    """Bars of the shares of deviance that environment, space and other labels explain, and the rest.

    Parameters
    ----------
    table : DataFrame
        From :func:`hotvae.explain.deviance_partition`.
    label : str
        One label, or all.
    """
    own = _of_label(_with_columns(table, "label", "part", "share"), label)
    colours = [_GREY if part == "unexplained" else COLOURS[0] for part in own["part"]]
    return _bars(own, "share", "part", f"parts of the deviance of {label}", "share of the null deviance", colours)


def plot_richness_interval(
    table: pd.DataFrame,
    coordinate_names: Sequence[str] = ("x", "y"),
    *,
    unit: str = "species",
    coastline: bool | None = None,
) -> Figure:
    """Two maps: the expected number of labels, and how wide its interval is.

    Parameters
    ----------
    table : DataFrame
        A row for each place: the two coordinates, ``expected``, ``lower`` and ``upper``.
    coordinate_names : sequence of two str
        Names of the columns of coordinates.
    unit : str
        What is counted.
    coastline : bool or None
        Draw land; None does so when the names say that the coordinates are degrees.

    Examples
    --------
    >>> rows = [(-5.0, 50.0, 3.0, 2.0, 5.0), (0.0, 52.0, 6.0, 4.0, 8.0)]
    >>> table = pd.DataFrame(rows, columns=["longitude", "latitude", "expected", "lower", "upper"])
    >>> figure = plot_richness_interval(table, ("longitude", "latitude"))
    >>> [axes.get_title(loc="left") for axes in figure.axes[:2]]
    ['expected number of species', 'width of its interval']
    """
    _with_columns(table, *coordinate_names, "expected", "lower", "upper")
    figure = _figure(10.0, 4.2)
    panels = figure.subplots(1, 2)
    width = (table["upper"] - table["lower"]).to_numpy(dtype=np.float64)
    maps = (
        (f"expected number of {unit}", table["expected"].to_numpy(dtype=np.float64), "viridis"),
        ("width of its interval", width, "magma"),
    )
    for axes, (title, values, palette) in zip(panels, maps, strict=True):
        draw_places(
            figure,
            axes,
            table,
            values,
            coordinate_names,
            title=title,
            unit=unit,
            palette=palette,
            coastline=coastline,
        )
    return figure


def plot_species_map(
    table: pd.DataFrame,
    label: str = "",
    coordinate_names: Sequence[str] = ("x", "y"),
    *,
    coastline: bool | None = None,
) -> Figure:
    """Map of the probability of one label; rings mark places where it was found.

    Parameters
    ----------
    table : DataFrame
        A row for each place: the two coordinates, ``probability`` and, if known, ``observed`` (1, 0 or NaN).
    label : str
        Name of the label, for the title.
    coordinate_names, coastline
        As in :func:`plot_richness_interval`.

    Examples
    --------
    >>> table = pd.DataFrame({"lon": [-5.0, 0.0], "lat": [50.0, 52.0], "probability": [0.1, 0.8], "observed": [0, 1]})
    >>> figure = plot_species_map(table, "wren", ("lon", "lat"))
    >>> figure.axes[0].get_title(loc="left")
    'probability of wren'
    """
    _with_columns(table, *coordinate_names, "probability")
    figure = _figure(7.0, 5.2)
    axes = figure.subplots()
    values = table["probability"].to_numpy(dtype=np.float64)
    title = f"probability of {label}"
    x, y = draw_places(figure, axes, table, values, coordinate_names, title=title, coastline=coastline)
    if "observed" in table:
        found = (table["observed"] == 1).to_numpy()
        axes.scatter(x[found], y[found], s=34, facecolors="none", edgecolors="black", linewidths=1, label="found here")
        axes.legend(loc="lower left", fontsize=9, frameon=True)
    return figure


def _square(
    values: FloatArray, names: Sequence[str], dots: npt.NDArray[Any], title: str, unit: str
) -> tuple[Figure, Axes]:
    """Draw a table of associations in blue (together) and orange (apart), with dots at (column, row)."""
    size = min(11.0, 3.0 + 0.21 * len(names))
    figure = _figure(size + 0.7, size)
    axes = figure.subplots()
    widest = max(0.05, float(np.nanmax(np.abs(values), initial=0.0)))
    drawn = axes.imshow(values, cmap=_TOGETHER_OR_APART, norm=Normalize(-widest, widest))
    axes.plot(dots[:, 0], dots[:, 1], ".", color="black", markersize=4)
    _dress(axes, title, "", "")
    axes.grid(visible=False)
    if len(names) <= 60:  # more cannot be read
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize=8)
        axes.set_yticks(range(len(names)), names, fontsize=8)
    _colour_bar(figure, drawn, axes, unit)
    return figure, axes


def _bars(own: pd.DataFrame, lengths: str, names: str, title: str, unit: str, colours: Any = COLOURS[0]) -> Figure:
    """Draw a bar for each row, the first on top."""
    figure = _figure(7.0, 1.2 + 0.3 * len(own))
    axes = figure.subplots()
    axes.barh(np.arange(len(own)), own[lengths], color=colours, height=0.7)
    axes.set_yticks(np.arange(len(own)), [str(name) for name in own[names]])
    axes.invert_yaxis()
    _dress(axes, title, unit, "")
    return figure


def draw_places(
    figure: Figure,
    axes: Axes,
    table: pd.DataFrame,
    values: npt.ArrayLike,
    coordinate_names: Sequence[str] = ("x", "y"),
    *,
    title: str = "",
    unit: str = "probability",
    palette: str = "viridis",
    low: float | None = None,
    high: float | None = None,
    coastline: bool | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Draw values at places into axes of your own: on land with its borders where the coordinates are degrees.

    Parameters
    ----------
    figure, axes : Figure, Axes
        Where to draw.
    table : DataFrame
        A row for each place, with its coordinates.
    values : array-like of shape (n_places,)
        What to show.
    coordinate_names, coastline
        As in :func:`plot_richness_interval`.
    title, unit, palette : str
        Words above the map and beside its scale, and the colours of matplotlib.
    low, high : float, optional
        Ends of the scale; by default those of the values, and 0 for probabilities.

    Returns
    -------
    x, y : ndarray of shape (n_places,)
        Where the places were drawn.
    """
    names, values = coordinate_names, np.asarray(values, dtype=np.float64)
    places = table[list(names)].to_numpy(dtype=np.float64)
    columns = degree_columns(names, places)
    if coastline and columns is None:
        raise DataError(
            f"coordinates must be longitude and latitude for a coastline; got {list(names)}. Pass coastline=False."
        )
    x, y = columns or (0, 1)
    first, last = places.min(axis=0), places.max(axis=0)
    margin = np.maximum((last - first) * 0.06, 0.05)
    west, south = first[[x, y]] - margin[[x, y]]
    east, north = last[[x, y]] + margin[[x, y]]
    if columns is not None and coastline is not False:
        for ring in land_rings((west, south, east, north)):
            axes.add_patch(Polygon(ring, facecolor="#ece7dc", edgecolor="#b9ae98", linewidth=0.6, zorder=0))
        for line in border_lines((west, south, east, north)):
            axes.plot(*line.T, color="#b9ae98", linewidth=0.6, zorder=0.5)
    top = high if high is not None else float(values.max()) if len(values) else 1.0
    lowest = min(0.0, float(values.min(initial=0.0))) if unit == "probability" else float(values.min())
    low_value = lowest if low is None else low
    norm = Normalize(low_value, top if top > low_value else low_value + 1.0)
    drawn = _draw_map(axes, places[:, [x, y]], values, palette, norm)
    _dress(axes, title, names[x], names[y])
    axes.grid(visible=False)
    axes.set_xlim(west, east)
    axes.set_ylim(south, north)
    # A degree of longitude is shorter than one of latitude.
    axes.set_aspect(1 / max(0.1, float(np.cos(np.radians((south + north) / 2)))) if columns else "equal")
    _colour_bar(figure, drawn, axes, unit)
    return places[:, x], places[:, y]


def _with_columns(table: pd.DataFrame, *names: str) -> pd.DataFrame:
    missing = [name for name in names if name not in table]
    if missing:
        raise DataError(f"table must have the columns {listed(names, len(names))}; got none named {listed(missing)}.")
    return table


def _of_label(table: pd.DataFrame, label: str) -> pd.DataFrame:
    own = table[table["label"] == label]
    if own.empty:
        raise DataError(f"label must be in the table; got {label!r}. Check the spelling.")
    return own


def _one_group(table: pd.DataFrame, group: str | None) -> tuple[pd.DataFrame, str]:
    known = list(dict.fromkeys(str(name) for name in table["group"]))
    chosen = known[0] if group is None and known else str(group)
    if chosen not in known:
        raise DataError(f"group must be one of {listed(known)}; got {chosen!r}. Check the spelling.")
    return table[table["group"].astype(str) == chosen], chosen


def _label_order(table: pd.DataFrame, *columns: str) -> list[str]:
    first = table[columns[0]]
    if isinstance(first.dtype, pd.CategoricalDtype):
        return [str(name) for name in first.cat.categories]
    return list(dict.fromkeys(str(name) for column in columns for name in table[column]))


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
