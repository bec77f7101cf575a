"""A large map with one thread: cells a second, where the time goes, what equal rows save, memory; beside a forest.

    python -m paper.speed.maps                    (20 million cells x 100 species: half an hour, 12 GB of disk)
    python -m paper.speed.maps --cells 200000     (a short one)
    python -m paper.speed.maps --render           (the stored result into docs/maps.md)

Six invented rasters are written: smooth hills of several sizes as 32-bit numbers, two of them as coarse as climate
layers are (blocks of 8 x 8 cells), one of whole metres. A HOT-VAE of 100 invented species with niches in them is
trained on 2,000 sites. ``hotvae.jobs.maps.map_model``, which is what ``hotvae map`` calls, then maps everything in
a process of its own with one thread. It is ended by SIGKILL once a third of the tiles is there, and started again;
rates are those of the second process. The rival, scikit-learn's random forest of 100 trees on the same sites,
predicts some of the same windows in the same run, read the same way, nothing written: cells a second of prediction
alone.

Seconds are processor time, so that other programs on the machine do not count. Written down: those before the first
tile (the model read, some cells tried and drawn for), in reading, model, trust, the rest and writing; the share of the
model in all of these; cells a second of the whole and of the model; rows that needed no prediction; resident memory
after each tile and its peak; tiles found and made; whether the files are Cloud Optimised GeoTIFFs by rio-cogeo; and
hours of 1,000 million cells on one core and on 32, with what that assumes.

Writes ``paper/results/maps.json``.
"""

import argparse
import json
import math
import multiprocessing
import signal
import tempfile
import textwrap
import time
from pathlib import Path

import numpy as np
import pandas as pd

from hotvae import HotVAEClassifier
from hotvae.files import write_text
from hotvae.geo.maps import MapOptions
from hotvae.geo.rasters import TILE, MapGrid
from hotvae.jobs.maps import TILES, map_inputs, map_model
from paper import DOCS, RESULTS
from paper.runner import provenance
from paper.speed import resident_bytes
from paper.summaries import replace_marked

LAYERS = ("elevation", "slope", "rain", "warmth", "forest", "water")
N_SITES, N_TREES = 2_000, 100


class Land:
    """An endless invented landscape: any cell can be computed by itself."""

    def __init__(self, seed):
        random = np.random.default_rng(seed)
        self.waves = {
            name: [(random.uniform(0.6, 2.5) * scale, *random.uniform(0, 2 * np.pi, 2)) for _ in range(12)]
            for name, scale in zip(LAYERS, (400, 150, 1500, 2500, 120, 90), strict=True)
        }

    def values(self, name, rows, columns):
        """Values of cells, each about normal."""
        if name in ("rain", "warmth"):  # climate layers are coarser than the map
            rows, columns = rows // 8 * 8, columns // 8 * 8
        total = np.zeros(np.broadcast(rows, columns).shape)
        for length, angle, phase in self.waves[name]:
            total += np.cos(2 * np.pi * (columns * np.cos(angle) + rows * np.sin(angle)) / length + phase)
        total /= math.sqrt(6)
        return np.rint(300 + 200 * total) if name == "elevation" else total


def write_layers(folder, land, grid):
    """Write the rasters, a row of tiles at a time."""
    import rasterio

    for name in LAYERS:
        profile = {"driver": "GTiff", "count": 1, "width": grid.width, "height": grid.height, "dtype": "float32"}
        profile |= {"crs": grid.crs, "transform": grid.affine(), "tiled": True, "blockxsize": TILE, "blockysize": TILE}
        with rasterio.open(folder / f"{name}.tif", "w", bigtiff="IF_SAFER", **profile) as file:
            for window in grid.windows():
                (top, bottom), (left, right) = window.slices()
                rows, columns = np.mgrid[top:bottom, left:right]
                file.write(land.values(name, rows, columns).astype(np.float32), 1, window=window.slices())


def draw_sites(land, grid, n_labels, seed):
    """Sites with their covariates, and species with niches in them that share a mood."""
    random = np.random.default_rng(seed + 1)
    rows, columns = random.integers(0, grid.height, N_SITES), random.integers(0, grid.width, N_SITES)
    table = pd.DataFrame({name: land.values(name, rows, columns) for name in LAYERS})
    scaled = (table - table.mean()) / table.std()
    odds = scaled.to_numpy() @ random.normal(size=(len(LAYERS), n_labels)) + random.normal(-1.5, 1, n_labels)
    odds += random.normal(size=(N_SITES, 2)) @ random.normal(size=(2, n_labels))
    labels = pd.DataFrame((random.random(odds.shape) < 1 / (1 + np.exp(-odds))).astype(int))
    labels.columns = [f"species_{number:03d}" for number in range(n_labels)]
    kept = labels.columns[(labels.sum() >= 10) & (labels.sum() <= N_SITES - 10)]
    return table, labels[kept]


def _map(folder, seed, notes):
    """Map in a process of its own; memory is noted after each tile."""
    import torch

    torch.set_num_threads(1)
    memory = []

    def progress(done, total):
        memory.append([done, resident_bytes("VmRSS")])
        write_text(notes, json.dumps({"memory": memory, "peak": resident_bytes("VmHWM")}))

    started, cpu = time.perf_counter(), time.process_time()
    run = map_model(
        folder / "model",
        folder / "maps",
        rasters=[folder / "layers"],
        options=MapOptions(seed=seed),
        threads=1,
        pictures=False,
        progress=progress,
    )
    found = {"seconds": run.seconds, "elapsed": time.perf_counter() - started, "cpu": time.process_time() - cpu}
    found |= {"memory": memory, "peak": resident_bytes("VmHWM"), "tiles_found": run.n_tiles_found}
    write_text(notes, json.dumps(found | {"summary": run.summary}))


def run_map(folder, seed, n_tiles):
    """Start, kill once a third of the tiles is there, start again; return what the second process noted."""
    context = multiprocessing.get_context("spawn")
    notes = folder / "notes.json"
    process = context.Process(target=_map, args=(folder, seed, notes))
    process.start()
    while process.is_alive():
        n_there = len(list((folder / "maps" / TILES).glob("*.tile")))
        if n_there >= max(1, n_tiles // 3):
            process.kill()
        time.sleep(0.2)
    process.join()
    was_killed = process.exitcode == -signal.SIGKILL
    if was_killed:
        process = context.Process(target=_map, args=(folder, seed, notes))
        process.start()
        process.join()
        if process.exitcode != 0:
            raise SystemExit(f"the map ended with code {process.exitcode}")
    return json.loads(notes.read_text(encoding="utf-8")) | {"was_killed": was_killed}


def time_forest(folder, table, labels, windows, seed):
    """Cells a second of a random forest's probabilities on some windows, one thread, nothing written."""
    from sklearn.ensemble import RandomForestClassifier

    from hotvae.estimators.registry import load_model

    forest = RandomForestClassifier(N_TREES, n_jobs=1, random_state=seed).fit(table.to_numpy(), labels.to_numpy())
    model = load_model(folder / "model")
    _, inputs = map_inputs(model, [folder / "layers"], None, {})
    n_cells, seconds = 0, 0.0
    for window in windows:
        rows = inputs.read(window).table.to_numpy()
        started = time.process_time()
        forest.predict_proba(rows)
        seconds += time.process_time() - started
        n_cells += len(rows)
    return {"trees": N_TREES, "cells": n_cells, "seconds": seconds, "cells_per_second": n_cells / seconds}


def measure(n_cells, n_labels, seed, folder, n_forest):
    """Run everything in a folder; return what is written down."""
    from rio_cogeo.cogeo import cog_validate

    side = math.ceil(math.sqrt(n_cells))
    grid = MapGrid("EPSG:3035", (4_000_000.0, 100.0, 0.0, 3_000_000.0, 0.0, -100.0), side, math.ceil(n_cells / side))
    land = Land(seed)
    (folder / "layers").mkdir()
    write_layers(folder / "layers", land, grid)
    table, labels = draw_sites(land, grid, n_labels, seed)
    HotVAEClassifier(random_state=seed).fit(table, labels).save(folder / "model")
    windows = grid.windows()
    found = run_map(folder, seed, len(windows))
    chosen = [windows[int(place)] for place in np.linspace(0, len(windows) - 1, min(n_forest, len(windows)))]
    forest = time_forest(folder, table, labels, chosen, seed)
    files = sorted((folder / "maps").glob("*.tif"))
    seconds, summary = found["seconds"], found["summary"]
    n_cells, n_here = summary["cells"], summary["cells"] * (len(windows) - found["tiles_found"]) / len(windows)
    in_tiles = sum(seconds[name] for name in ("read", "model", "trust", "rest"))
    before = found["cpu"] - seconds["tiles"] - seconds["write"]
    # Tiles that the first process made are put together by the second: writing counts for all cells.
    a_cell = in_tiles / n_here + seconds["write"] / n_cells
    whole = a_cell + before / n_cells
    rate = 1 / whole
    hours = (1e9 * a_cell + before) / 3600
    memory = [size for _, size in found["memory"][1:]]
    return {
        "cells": n_cells,
        "species": len(labels.columns),
        "tiles": {"all": len(windows), "found": found["tiles_found"], "killed": found["was_killed"]},
        "seconds": {"before": before} | seconds,
        "share_of_model": seconds["model"] / n_here / whole,
        "share_of_model_and_trust": (seconds["model"] + seconds["trust"]) / n_here / whole,
        "cells_per_second": rate,
        "model_cells_per_second": n_here / seconds["model"],
        "rows_saved": summary["share_saved"],
        "told": summary["told"],
        "memory": {
            "after_first_tile": memory[0],
            "after_last_tile": memory[-1],
            "largest_after_a_tile": max(memory),
            "peak": found["peak"],
        },
        "bytes": {path.name: path.stat().st_size for path in files},
        "valid": all(cog_validate(str(path), quiet=True)[0] for path in files),
        "forest": forest,
        "times_forest": rate / forest["cells_per_second"],
        "thousand_million_cells": {
            "hours_one_core": hours,
            "hours_32_cores": hours / 32,
            "terabytes_of_disk": 3 * 1e9 * (len(labels.columns) + 32) / 1e12,
            "assumes": "time grows with cells, as it does tile by tile; equal rows are as frequent; on 32 cores each "
            "has tiles and files of its own, and the disk keeps up",
        },
    }


def paragraph(found):
    """Say in words what was measured, for docs/maps.md."""
    seconds, memory, more = found["seconds"], found["memory"], found["thousand_million_cells"]
    forest, is_valid = found["forest"], "all valid" if found["valid"] else "not all valid"
    text = (
        f"Measured (`{found['command']}`, {found['date'][:10]}, one thread, processor time): {found['cells']:,} cells "
        f"× {found['species']} species at {found['cells_per_second']:,.0f} cells a second and core, "
        f"{found['times_forest']:.1f} times the {forest['cells_per_second']:,.0f} of scikit-learn's random forest "
        f"({forest['trees']} trees, {forest['cells']:,} cells of the same windows, nothing written). "
        f"{100 * found['share_of_model']:.0f} % of the time was in the model itself, "
        f"{100 * found['share_of_model_and_trust']:.0f} % with the distance to training; {seconds['before']:.0f} s "
        f"were spent before the first tile. Equal rows saved {100 * found['rows_saved']:.0f} % of the predictions. "
        f"Memory was {memory['after_first_tile'] / 1e6:.0f} MB after the first tile, "
        f"{memory['after_last_tile'] / 1e6:.0f} MB after the last and {memory['peak'] / 1e6:.0f} MB at most. "
        f"Killed once a third of {found['tiles']['all']:,} tiles was there, the run found "
        f"{found['tiles']['found']:,} of them again; the files "
        f"({sum(found['bytes'].values()) / 1e9:.2f} GB) are {is_valid}. Computed from it, 10⁹ cells take "
        f"{more['hours_one_core']:.1f} hours on one core, {60 * more['hours_32_cores']:.0f} minutes on 32, and "
        f"{more['terabytes_of_disk']:.1f} TB of disk for a while, if {more['assumes'].replace(';', ',')}."
    )
    return textwrap.fill(text, 120, break_on_hyphens=False, break_long_words=False)


def render(found, page):
    """Put the paragraph into the page, between its marks."""
    text = f"\n{paragraph(found)}\n\n"
    write_text(page, replace_marked(page.read_text(encoding="utf-8"), "map benchmark", text))


def main(argv=None):
    """Measure, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=20_000_000)
    parser.add_argument("--species", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--forest-windows", type=int, default=12)
    parser.add_argument("--out", type=Path, default=RESULTS / "maps.json")
    parser.add_argument("--render", action="store_true", help="only write the stored result into docs/maps.md")
    options = parser.parse_args(argv)
    if options.render:
        render(json.loads(options.out.read_text(encoding="utf-8")), DOCS / "maps.md")
        return
    with tempfile.TemporaryDirectory() as folder:
        found = measure(options.cells, options.species, options.seed, Path(folder), options.forest_windows)
    write_text(options.out, json.dumps(found | provenance(options.seed), indent=1) + "\n")
    print(
        f"{found['cells']:,} cells x {found['species']} species: {found['cells_per_second']:,.0f} cells/s, "
        f"{100 * found['share_of_model']:.0f} % in the model, {100 * found['rows_saved']:.0f} % of rows saved, "
        f"{found['times_forest']:.1f} times a random forest; peak {found['memory']['peak'] / 1e6:.0f} MB"
    )


if __name__ == "__main__":
    main()
