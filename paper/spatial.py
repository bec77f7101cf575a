"""What coordinates, clamping and nearness to places are worth, on rows held out of published training rows.

No test row is read.

    python -m paper.spatial                      (needs HOTVAE_DATA_DIR)
    python -m paper.spatial --sets norberg_birds
    python -m paper.spatial --render             (writes the table of docs/encoders.md)

The network is the plain one (same encoder, no label decoder), which trains in seconds; settings are those of the set's
preset. A quarter of the rows is held out in two ways, "scattered" at random and "beyond" at one end of the map, where
no training site is near; an eighth of all rows, from among the others, chooses the epoch. Rows are read without
coordinates; with the two coordinates, as they are and clamped to the range of training; clamped and with nearness to
50 or 100 places.

Writes ``paper/results/spatial.json``; finished cells are kept, ``--fresh`` runs them anew.
"""

import argparse
import json
import shlex
import time
import warnings
from pathlib import Path

import numpy as np

from hotvae.data.catalog import load
from hotvae.data.splits import split_dataset
from hotvae.errors import DataWarning
from hotvae.files import write_text
from hotvae.metrics import log_loss
from paper import DOCS, RESULTS
from paper.cells import recipe_of
from paper.experiments import NORBERG, Cell
from paper.speed.steps import provenance
from paper.summaries import replace_marked

SETS = (*(f"norberg_{taxon}" for taxon in NORBERG), "bbs2011_wilkinson", "bbs_like_ebird100")
PLAIN = {"clamp": False, "spatial_units": 0}
READINGS = {
    "no coordinates": PLAIN,
    "coordinates": PLAIN,
    "clamped": PLAIN | {"clamp": True},
    "50 places": {"clamp": True, "spatial_units": 50},
    "100 places": {"clamp": True, "spatial_units": 100},
}
HELD_OUT = ("scattered", "beyond")
SHARE, VALIDATION = 0.25, 0.125
PAGE = DOCS / "encoders.md"


def held_out(data, way, seed):
    """Rows to learn from, to choose the epoch by, and held out, all of them published training rows."""
    if way == "scattered":
        parts = split_dataset(
            data, kind="random", fractions=(1 - SHARE - VALIDATION, VALIDATION, SHARE), random_state=seed
        )
        return parts.train, parts.validation, parts.test
    # The first principal direction of the map, to one of its ends: even seeds to the one, odd ones to the other.
    places = data.coordinates - data.coordinates.mean(axis=0)
    along = places @ np.linalg.svd(places, full_matrices=False)[2][0] * (-1) ** seed
    order = np.argsort(along, kind="stable")
    n_held = round(SHARE * len(order))
    near = np.random.default_rng(seed).permutation(order[:-n_held])
    n_validation = round(VALIDATION * len(order))
    return near[n_validation:], near[:n_validation], order[-n_held:]


def measure(name, way, reading, seed):
    """Log loss of the rows held out, and CPU seconds of training."""
    named = load(name, seed=0)
    data = named.dataset.take(np.sort(np.concatenate([named.split.train, named.split.validation])))
    train, validation, held = held_out(data, way, seed)
    if reading != "no coordinates":
        data = data.with_coordinates_as_features()
    features, labels = np.asarray(data.features, dtype=np.float64), np.asarray(data.labels)
    recipe = recipe_of(Cell("communities", "plain", "plain", name))
    settings = recipe.parameters | READINGS[reading] | {"random_state": seed, "n_threads": 1}
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # rare species have one class in some part
        model = recipe.cls.from_settings(**settings).fit(
            features[train], labels[train], validation=(features[validation], labels[validation])
        )
    return {
        "log_loss": log_loss(labels[held], model.predict_proba(features[held])),
        "seconds": time.process_time() - started,
        "n_rows": [len(train), len(validation), len(held)],
    }


def render(cells):
    """Write the table: a line for each set and way, the lowest log loss in bold."""
    found = {(c["set"], c["held_out"], c["reading"]): [] for c in cells}
    for cell in cells:
        found[cell["set"], cell["held_out"], cell["reading"]].append(cell["log_loss"])
    lines = [f"| rows held out | {' | '.join(READINGS)} |", "|---|" + "---:|" * len(READINGS)]
    for name in SETS:
        for way in HELD_OUT:
            means = [np.mean(found.get((name, way, reading), [np.nan])) for reading in READINGS]
            if np.isnan(means).any():
                continue
            shown = [f"{value:.4f}".removeprefix("0") for value in means]
            best = shown[int(np.argmin(means))]
            cells_shown = (f"**{text}**" if text == best else text for text in shown)
            lines.append(f"| `{name}`, {way} | {' | '.join(cells_shown)} |")
    return "\n".join(lines) + "\n"


def main(argv=None):
    """Measure the cells that are missing, and write results or the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--fresh", action="store_true", help="run the cells asked for anew")
    parser.add_argument("--render", action="store_true", help="run nothing; write the table of docs/encoders.md")
    parser.add_argument("--results", type=Path, default=RESULTS / "spatial.json")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args(argv)
    cells = json.loads(options.results.read_text(encoding="utf-8"))["cells"] if options.results.is_file() else []
    if options.render:
        page = options.page.read_text(encoding="utf-8")
        write_text(options.page, replace_marked(page, "spatial", render(cells)))
        return
    asked = [
        {"set": name, "held_out": way, "reading": reading, "seed": seed}
        for name in options.sets
        for seed in options.seeds
        for way in HELD_OUT
        for reading in READINGS
    ]
    for key in asked:
        same = [cell for cell in cells if key.items() <= cell.items()]
        if same and not options.fresh:
            continue
        cell = key | measure(key["set"], key["held_out"], key["reading"], key["seed"])
        # The command that repeats this cell, wherever its result was written.
        asked_for = ["--sets", key["set"], "--seeds", str(key["seed"])]
        cell |= provenance(key["seed"]) | {"command": shlex.join(["python", "-m", "paper.spatial", *asked_for])}
        cells = [kept for kept in cells if kept not in same] + [cell]
        write_text(options.results, json.dumps({"cells": cells}, indent=1) + "\n")
        print(f"{key['set']}  {key['held_out']}  {key['reading']}  {cell['log_loss']:.4f}", flush=True)


if __name__ == "__main__":
    main()
