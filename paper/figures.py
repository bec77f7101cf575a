"""Figures of the pages, from means over seeds."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from hotvae.errors import ConfigError
from hotvae.metrics.ecology import MEASURES
from hotvae.report.plots import COLOURS

_MARKERS = {"sor": "o", "sim": "s", "sne": "^", None: "o"}
_ASPECTS = ("accuracy", "discrimination", "calibration", "precision")
_DOTS_PER_INCH = 110


def depth_figure(
    losses: Mapping[str, Mapping[str, Sequence[float | None]]], gaps: Mapping[str, Sequence[str]]
) -> Figure:
    """Draw one panel per data set: measures by the number of rounds, each line a measure.

    Parameters
    ----------
    losses : mapping
        By data set, then by measure: one value for no round, one round, and so on; None where it was not measured.
    gaps : mapping of str to sequence of str
        By data set: what is written at the steps from one round to the next, such as "ahead".

    Returns
    -------
    Figure

    Examples
    --------
    >>> figure = depth_figure({"yeast": {"joint": [0.42, 0.29, None]}}, {"yeast": ["ahead", ""]})
    >>> len(figure.axes)
    1
    """
    n_columns = min(4, len(losses))
    n_rows = -(-len(losses) // n_columns)
    figure = Figure(figsize=(3.3 * n_columns, 2.9 * n_rows + 0.35), layout="constrained", facecolor="white")
    panels = list(figure.subplots(n_rows, n_columns, squeeze=False).flat)
    for axes, (title, lines) in zip(panels, losses.items(), strict=False):
        for (measure, values), colour, marker in zip(lines.items(), COLOURS, "os", strict=False):
            known = [(place, value) for place, value in enumerate(values) if value is not None]
            axes.plot(*zip(*known, strict=True), color=colour, marker=marker, label=measure)
        first = next(iter(lines.values()))
        for place, word in enumerate(gaps.get(title, ())):
            ends = first[place : place + 2]
            if word and None not in ends:
                middle = sum(value or 0.0 for value in ends) / 2
                axes.annotate(word, (place + 0.5, middle), (6, 4), textcoords="offset points", fontsize=7)
        axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
        deepest = max(place for values in lines.values() for place, value in enumerate(values) if value is not None)
        axes.set_xticks(range(deepest + 1))
        axes.set_xlabel("rounds of messages", fontsize=9)
        axes.set_ylabel("nats a label", fontsize=9)
        axes.grid(color="#e3e3e3", linewidth=0.7)
        axes.tick_params(labelsize=8)
    for axes in panels[len(losses) :]:
        axes.set_axis_off()
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def level_figure(level: str, tables: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Figure:
    """Draw the measures of one level: a row of panels per data set, a panel per aspect, a line per model.

    Parameters
    ----------
    level : {"occurrence", "richness", "community"}
        Which measures.
    tables : mapping
        By data set, then by model, then by measure.

    Returns
    -------
    Figure

    Examples
    --------
    >>> values = dict.fromkeys(MEASURES, 0.5)
    >>> len(level_figure("community", {"birds": {"HOT-VAE": values, "DMVP-DRNets": values}}).axes)
    4
    """
    most = max((len(models) for models in tables.values()), default=1)
    figure = Figure(figsize=(11, 0.7 + (0.75 + 0.21 * most) * len(tables)), layout="constrained", facecolor="white")
    panels = figure.subplots(max(1, len(tables)), len(_ASPECTS), squeeze=False)
    for row, (data, models) in zip(panels, tables.items(), strict=False):
        names = list(models)[::-1]
        for column, (axes, aspect) in enumerate(zip(row, _ASPECTS, strict=True)):
            own = [measure for measure in MEASURES.values() if (measure.level, measure.aspect) == (level, aspect)]
            for number, measure in enumerate(own):
                points = [
                    (value, place)
                    for place, name in enumerate(names)
                    if (value := models[name].get(measure.name)) is not None
                ]
                axes.scatter(
                    [value for value, _ in points],
                    [place for _, place in points],
                    s=24,
                    color=COLOURS[number],
                    marker=_MARKERS[measure.component],
                    label=measure.component,
                    zorder=3,
                )
            for place, name in enumerate(names):
                if name.startswith("HOT-VAE"):  # whom the page is about
                    axes.axhspan(place - 0.4, place + 0.4, color="#fbeecb", linewidth=0, zorder=0)
            better = "larger" if own[0].greater_is_better else "smaller"
            axes.set_title(f"{aspect} ({better} is better)", loc="left", fontsize=8.5)
            axes.set_yticks(range(len(names)), names if column == 0 else [""] * len(names), fontsize=8)
            axes.set_ylim(-0.6, len(names) - 0.4)
            axes.tick_params(axis="x", labelsize=7.5)
            axes.grid(color="#e3e3e3", linewidth=0.6)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
        row[0].set_ylabel(data, fontsize=9, fontweight="bold")
    if level == "community" and len(tables):
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a figure as PNG, whole or not at all.

    Parameters
    ----------
    figure : Figure
        What to write.
    path : Path
        Where to; the folder is made if needed.

    Returns
    -------
    Path

    Raises
    ------
    ConfigError
        A place that cannot be written to.

    Examples
    --------
    >>> import tempfile
    >>> save_figure(Figure(), Path(tempfile.mkdtemp()) / "empty.png").exists()
    True
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.part")
        # Without the time of writing, the same numbers give the same file.
        figure.savefig(partial, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None})
        partial.replace(path)
    except OSError as error:
        raise ConfigError(
            f"path must be a place one can write to; got {str(path)!r} ({error.strerror}). Choose another folder."
        ) from error
    return path


_STEPS = (
    ("columns", "what is each column?", ("numbers", "0 and 1", "categories", "dates", "places", "left out: ids, …")),
    ("forms", "ready for each kind of model", ("as they are", "scaled by shape", "with places", "with landmarks")),
    ("folds", "held out as it will be used", ("whole groups, or", "blocks of the map, or", "single rows")),
    ("race", "who makes the stack better?", ("trees", "ridge", "several networks")),
    ("stack", "weights ≥ 0; each label\ncorrected", ("learned on rows", "held out")),
    ("joint law", "which labels go together", ("given some labels", "whole communities")),
)


def recipe_figure() -> Figure:
    """Draw the way from a table to a model: columns, forms, folds, race, stack, joint law.

    Returns
    -------
    Figure

    Examples
    --------
    >>> len(recipe_figure().axes)
    1
    """
    figure = Figure(figsize=(11.5, 3.1), layout="constrained", facecolor="white")
    axes = figure.subplots()
    width, gap, height = 1.7, 0.34, 2.35
    for place, (title, question, items) in enumerate(_STEPS):
        left = place * (width + gap)
        last = place == len(_STEPS) - 1
        axes.add_patch(
            FancyBboxPatch(
                (left, 0),
                width,
                height,
                boxstyle="round,pad=0.02,rounding_size=0.1",
                facecolor="#f6f8fa",
                edgecolor=COLOURS[0],
                linewidth=1.3,
            )
        )
        middle = left + width / 2
        axes.text(middle, height - 0.13, f"{place + 1}  {title}", ha="center", va="top", fontsize=12, fontweight="bold")
        axes.text(middle, height - 0.48, question, ha="center", va="top", fontsize=7.5, style="italic", color="#444444")
        axes.text(middle, height - 1.0, "\n".join(items), ha="center", va="top", fontsize=9, linespacing=1.45)
        if not last:
            axes.annotate(
                "",
                xy=(left + width + gap - 0.03, height / 2),
                xytext=(left + width + 0.03, height / 2),
                arrowprops={"arrowstyle": "-|>", "color": COLOURS[0], "linewidth": 1.8},
            )
    end = len(_STEPS) * (width + gap) - gap
    back = 3 * (width + gap) + width / 2
    axes.annotate(
        "then each member is fitted once more, on all rows",
        xy=(back, -0.03),
        xytext=(4 * (width + gap) + width / 2, -0.42),
        ha="center",
        va="center",
        fontsize=9,
        arrowprops={"arrowstyle": "-|>", "color": COLOURS[1], "linewidth": 1.4, "connectionstyle": "arc3,rad=-0.15"},
    )
    axes.set_xlim(-0.08, end + 0.08)
    axes.set_ylim(-0.62, height + 0.08)
    axes.set_axis_off()
    return figure
