"""Is trust deserved? Dissimilarity against error, and calls against the truth, on whole blocks of the map held out.

    python -m paper.trust                                  (needs HOTVAE_DATA_DIR)
    python -m paper.trust --sets breeding_birds_2009
    python -m paper.trust --render                         (writes the figures and the tables of docs/trust.md)

The map of a set is cut into about 50 blocks, dealt into five folds; each fold is held out once. The model is fitted on
the other blocks, where it holds out blocks of its own to learn its threshold and its calls, and then says of the rows
held out how dissimilar they are and which species are present, absent or cannot be told. Which labels go together is
not learned (``joint=False``): the probability of a single label is the same with it and without.

Written down, as sums over rows so that folds add up: log loss by dissimilarity, in shares of the model's threshold;
calls that hold the truth, of rows with a species and of rows without it, over all rows, over blocks as equals and by
species; and what the calls are. Writes ``paper/results/trust.json``; finished folds are kept, ``--fresh`` runs them
anew.
"""

import argparse
import json
import shlex
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from hotvae import HotVAEClassifier
from hotvae.data.catalog import load
from hotvae.data.splits import SpatialBlockKFold, spatial_blocks
from hotvae.errors import DataWarning
from hotvae.estimators.recipe import Effort
from hotvae.estimators.trust import ABSENT, CANNOT_TELL, PRESENT
from hotvae.files import write_text
from hotvae.report.plots import COLOURS
from paper import DOCS, RESULTS
from paper.runner import provenance
from paper.summaries import replace_marked

SETS = ("bbs_like_ebird100", "breeding_birds_2009")
N_FOLDS, N_BLOCKS, LEVEL = 5, 50, 0.9
# Dissimilarity as a share of the threshold; rows beyond 1 are outside the area of applicability.
EDGES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, float("inf"))
PAGE = DOCS / "trust.md"
_CLASSES = {"absent": ABSENT, "present": PRESENT}


def measure(name: str, fold: int, seed: int, effort: str) -> dict[str, Any]:
    """Fit on all blocks but those of a fold, and hold what the model says of them against the truth."""
    data = load(name).dataset
    places = np.asarray(data.coordinates)
    blocks = spatial_blocks(places, n_blocks=N_BLOCKS, degrees=True)
    splitter = SpatialBlockKFold(N_FOLDS, n_blocks=N_BLOCKS, degrees=True, random_state=seed)
    train, held = list(splitter.split(places, groups=places))[fold]
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # a rare species may have one class in a part
        model = HotVAEClassifier(effort=cast(Effort, effort), joint=False, random_state=seed).fit(data.take(train))
    seconds = time.process_time() - started
    rows = data.take(held)
    probs = np.asarray(model.predict_proba(rows), dtype=np.float64)
    near = model.trust(rows)
    area = model.trust_.area if model.trust_ is not None else None
    threshold = area.threshold if area is not None else float("nan")
    truth = np.asarray(rows.labels)
    found = summary(truth, probs, model.presence_calls(probs, LEVEL), near.dissimilarity / threshold, blocks[held])
    rates = np.asarray(data.labels)[train].mean(axis=0).clip(1e-6, 1 - 1e-6)
    baseline = _loss(truth, np.broadcast_to(rates, truth.shape)).mean()
    return found | {"threshold": threshold, "loss_of_rates": float(baseline), "seconds": round(seconds, 1)}


def summary(
    truth: NDArray[Any],
    probs: NDArray[np.float64],
    calls: NDArray[np.int8],
    dissimilarity: NDArray[np.float64],
    blocks: NDArray[np.intp],
) -> dict[str, Any]:
    """Count what a fold has to say.

    Examples
    --------
    >>> truth, calls = np.array([[1.0], [0.0]]), np.array([[1], [1]], dtype=np.int8)
    >>> found = summary(truth, np.array([[0.5], [0.5]]), calls, np.array([0.1, 1.2]), np.array([0, 1]))
    >>> found["n_by_bin"][:5], found["rows"]["present"], found["rows"]["absent"]
    ([1, 0, 0, 0, 1], [1, 1], [0, 1])
    """
    place = np.searchsorted(EDGES, dissimilarity, side="right") - 1
    by_row = _loss(truth, probs).mean(axis=1)
    n_bins = len(EDGES) - 1
    covers = {name: (calls == kind) | (calls == CANNOT_TELL) for name, kind in _CLASSES.items()}
    is_class = {name: truth == kind for name, kind in _CLASSES.items()}
    right = sum(covers[name] & is_class[name] for name in _CLASSES)
    found: dict[str, Any] = {
        "n_rows": len(truth),
        "n_by_bin": np.bincount(place, minlength=n_bins).tolist(),
        "loss_by_bin": np.bincount(place, by_row, minlength=n_bins).tolist(),
        "right_by_bin": np.bincount(place, np.asarray(right).mean(axis=1), minlength=n_bins).tolist(),
        "calls": {name: int((calls == kind).sum()) for name, kind in (_CLASSES | {"cannot tell": CANNOT_TELL}).items()},
        "rows": {},
        "blocks": {},
        "species": {},
        "species_blocks": {},
    }
    for name in _CLASSES:
        hit, there = covers[name] & is_class[name], is_class[name]
        found["rows"][name] = [int(hit.sum()), int(there.sum())]
        found["species"][name] = [hit.sum(axis=0).tolist(), there.sum(axis=0).tolist()]
        shares, counted = np.zeros(truth.shape[1]), np.zeros(truth.shape[1], dtype=int)
        for block in np.unique(blocks):
            n_there = there[blocks == block].sum(axis=0)
            shares += hit[blocks == block].sum(axis=0) / np.maximum(n_there, 1)
            counted += n_there > 0
        found["species_blocks"][name] = [shares.tolist(), counted.tolist()]
        found["blocks"][name] = [float(shares.sum()), int(counted.sum())]
    return found


def _loss(truth: NDArray[Any], probs: NDArray[Any]) -> NDArray[np.float64]:
    clipped = np.clip(probs, 1e-7, 1 - 1e-7)
    return np.asarray(-np.where(truth == 1, np.log(clipped), np.log1p(-clipped)), dtype=np.float64)


def joined(cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Add up the folds of a set."""

    def total(key: str, *names: str) -> NDArray[np.float64]:
        parts = []
        for cell in cells:
            value = cell[key]
            for name in names:
                value = value[name]
            parts.append(np.asarray(value, dtype=np.float64))
        return np.asarray(np.sum(parts, axis=0), dtype=np.float64)

    n_by_bin = total("n_by_bin")
    safe = np.maximum(n_by_bin, 1)
    n_calls = {name: float(total("calls", name)) for name in cells[0]["calls"]}
    found: dict[str, Any] = {
        "n_rows": int(sum(cell["n_rows"] for cell in cells)),
        "n_by_bin": n_by_bin,
        "loss_by_bin": np.where(n_by_bin > 0, total("loss_by_bin") / safe, np.nan),
        "right_by_bin": np.where(n_by_bin > 0, total("right_by_bin") / safe, np.nan),
        "calls": {name: count / sum(n_calls.values()) for name, count in n_calls.items()},
        "rates": float(np.mean([cell["loss_of_rates"] for cell in cells])),
    }
    for way in ("rows", "blocks"):
        found[way] = {name: float(np.divide(*total(way, name))) for name in _CLASSES}
    hits = np.sum([total("rows", name) for name in _CLASSES], axis=0)
    found["all"] = float(hits[0] / hits[1])
    found["species"] = {name: np.divide(*np.maximum(total("species_blocks", name), 1e-9)) for name in _CLASSES}
    return found


def figure_of_error(results: dict[str, dict[str, Any]]) -> Figure:
    """Draw log loss over dissimilarity, and below how many rows stand behind each point."""
    figure = Figure(figsize=(10.2, 4.4), layout="constrained", facecolor="white")
    grid = figure.subplots(2, len(results), squeeze=False, sharex=True, height_ratios=[3, 1])
    labels = [f"{low:g}–{high:g}" if np.isfinite(high) else f"{low:g}+" for low, high in zip(EDGES, EDGES[1:])]  # noqa: B905, RUF007
    for column, (name, found) in enumerate(results.items()):
        upper, lower = grid[:, column]
        places = np.arange(len(labels))
        upper.axvspan(3.5, len(labels) - 0.5, color="#f3e3da", zorder=0)
        upper.plot(places, found["loss_by_bin"], marker="o", color=COLOURS[0])
        upper.axhline(found["rates"], color="#777777", linestyle=(0, (4, 3)), linewidth=1)
        upper.text(0.0, found["rates"], "how common each species is, alone", va="bottom", fontsize=8.5, color="#666666")
        upper.text(3.6, upper.get_ylim()[0], "outside", va="bottom", fontsize=9, color="#a04a1a")
        upper.set_title(name, loc="left", fontsize=10, fontweight="bold")
        upper.set_ylabel("log loss of held-out rows" if column == 0 else "")
        lower.bar(places, found["n_by_bin"], color=COLOURS[0])
        lower.set_yscale("log")
        lower.set_ylabel("rows" if column == 0 else "")
        lower.set_xticks(places, labels, fontsize=7.5)
        lower.set_xlabel("dissimilarity, as a share of the threshold")
        for axes in (upper, lower):
            axes.spines[["top", "right"]].set_visible(False)
    return figure


def figure_of_coverage(results: dict[str, dict[str, Any]]) -> Figure:
    """Draw how often the calls on each species hold the truth."""
    figure = Figure(figsize=(9.4, 3.4), layout="constrained", facecolor="white")
    panels = figure.subplots(1, len(results), squeeze=False, sharey=True)[0]
    for axes, (name, found) in zip(panels, results.items(), strict=True):
        bins = np.linspace(0.7, 1, 31)
        for number, kind in enumerate(_CLASSES):
            shares = np.clip(found["species"][kind], 0.7, 1)
            axes.hist(
                shares, bins=bins, histtype="step", linewidth=1.8, color=COLOURS[number], label=f"{kind} in truth"
            )
        axes.axvline(LEVEL, color="#777777", linestyle=(0, (4, 3)), linewidth=1)
        axes.set_title(name, loc="left", fontsize=10, fontweight="bold")
        axes.set_xlabel("right or “cannot tell”: mean over held-out blocks")
        axes.legend(frameon=False, fontsize=9, loc="upper left")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("species")
    return figure


def table(results: dict[str, dict[str, Any]]) -> str:
    """Write the numbers of all sets."""
    lines = [
        "| rows held out | all calls | species absent | species present | the same, blocks as equals | called absent "
        "| present | cannot tell |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, found in results.items():
        equal = " / ".join(f"{100 * found['blocks'][kind]:.1f}" for kind in _CLASSES)
        shown = [
            f"`{name}`, {found['n_rows']:,}",
            *(f"{100 * share:.1f} %" for share in (found["all"], *found["rows"].values())),
            f"{equal} %",
            *(f"{100 * share:.0f} %" for share in found["calls"].values()),
        ]
        lines.append("| " + " | ".join(shown) + " |")
    return "\n".join(lines) + "\n"


def error_table(results: dict[str, dict[str, Any]]) -> str:
    """Write log loss and right calls inside and outside."""
    lines = [
        "| | rows inside | log loss | right or cannot tell | rows outside | log loss | right or cannot tell |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    cut = EDGES.index(1.0)
    for name, found in results.items():
        cells = []
        for part in (slice(None, cut), slice(cut, None)):
            weights = found["n_by_bin"][part]
            means = [
                np.nansum(weights * found[key][part]) / max(weights.sum(), 1) for key in ("loss_by_bin", "right_by_bin")
            ]
            cells += [f"{int(weights.sum()):,}", f"{means[0]:.3f}", f"{100 * means[1]:.1f} %"]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def render(cells: Sequence[dict[str, Any]], page: Path, images: Path) -> None:
    """Write the figures, and the tables of the page."""
    results = {name: joined(own) for name in SETS if (own := [cell for cell in cells if cell["set"] == name])}
    images.mkdir(parents=True, exist_ok=True)
    for name, figure in (("error", figure_of_error(results)), ("coverage", figure_of_coverage(results))):
        figure.savefig(images / f"trust_{name}.png", dpi=110, metadata={"Software": None})
    text = page.read_text(encoding="utf-8")
    text = replace_marked(text, "coverage", table(results))
    write_text(page, replace_marked(text, "error", error_table(results)))


def main(argv: Sequence[str] | None = None) -> None:
    """Measure the folds that are missing, and write results or the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--effort", default="quick", choices=("quick", "normal", "thorough"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fresh", action="store_true", help="run the folds asked for anew")
    parser.add_argument("--render", action="store_true", help="run nothing; write figures and tables")
    parser.add_argument("--results", type=Path, default=RESULTS / "trust.json")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--images", type=Path, default=DOCS / "images")
    options = parser.parse_args(argv)
    cells = json.loads(options.results.read_text(encoding="utf-8"))["cells"] if options.results.is_file() else []
    if options.render:
        render(cells, options.page, options.images)
        return
    for name in options.sets:
        for fold in range(N_FOLDS):
            key = {"set": name, "fold": fold, "seed": options.seed, "effort": options.effort}
            same = [cell for cell in cells if key.items() <= cell.items()]
            if same and not options.fresh:
                continue
            cell = key | measure(name, fold, options.seed, options.effort)
            asked = ["--sets", name, "--effort", options.effort, "--seed", str(options.seed)]
            measured: dict[str, Any] = provenance(options.seed)
            cell |= measured | {"command": shlex.join(["python", "-m", "paper.trust", *asked])}
            cells = [kept for kept in cells if kept not in same] + [cell]
            write_text(options.results, json.dumps({"cells": cells}, indent=1) + "\n")
            rows = {kind: hits / n for kind, (hits, n) in cell["rows"].items()}
            print(name, fold, {kind: round(share, 3) for kind, share in rows.items()}, cell["seconds"], flush=True)


if __name__ == "__main__":
    main()
