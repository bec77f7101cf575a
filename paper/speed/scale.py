"""What Ray costs on one machine and what a second core brings; and a table of any size trained in bounded memory.

    python -m paper.speed.scale map                       # 10 million cells x 100 species, about an hour on two cores
    python -m paper.speed.scale map --cells 400000 --repeats 1
    python -m paper.speed.scale stream                    # a table of 20 GB, in under 4 GB of memory: hours
    python -m paper.speed.scale stream --gigabytes 0.2

``map`` makes the invented land of ``paper.speed.maps`` and maps it three ways in turn, each in a process of its own:
plainly, on Ray with one core, and on Ray with two; ``--repeats`` times, one after the other, so that a machine that
slows down slows all of them. Written down: seconds of the clock from the first tile to the last, which leaves the start
of Ray (said apart) and the writing of the GeoTIFFs out; the overhead of Ray on one core; the speed-up of two cores; the
memory of the driver and of each worker; and hours of 1,000 million cells x 1,000 species on some clusters, with what
that assumes.

``stream`` writes a Parquet table of drawn numbers and labels that follow them, trains on it with ``hotvae train
--stream`` in a process of its own, and writes down rows a second and the highest resident memory. With ``--workers N``
it is trained by so many processes of torchrun.

Results: ``paper/results/scale_map.json`` and ``scale_stream.json``. Run them on an idle machine.
"""

import argparse
import json
import math
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd

from hotvae import HotVAEClassifier
from hotvae.files import write_text
from hotvae.geo.maps import MapOptions
from hotvae.geo.rasters import MapGrid
from hotvae.jobs.maps import map_model
from paper import RESULTS
from paper.runner import provenance
from paper.speed import resident_bytes
from paper.speed.maps import Land, draw_sites, write_layers

WAYS = {"plain": 0, "ray, 1 core": 1, "ray, 2 cores": 2}
# Rows of a row group, and labels and columns of the table that is streamed.
ROWS, LABELS, COLUMNS = 65_536, 100, 20


# --- maps ------------------------------------------------------------------------------------------------------


def _worker_memory():
    """Highest resident memory of each worker of Ray on this machine."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if (entry / "cmdline").read_bytes().startswith(b"ray::_Worker"):
                status = (entry / "status").read_text()
                found.append(int(status.partition("VmHWM:")[2].split()[0]) * 1024)
        except (OSError, ValueError, IndexError):
            continue
    return found


def _map(folder, seed, n_cores, notes):
    """Map in a process of its own, on Ray where there are cores for it."""
    import torch

    torch.set_num_threads(1)
    at, memory = [], []

    def progress(done, total):
        at.append(time.perf_counter())
        memory.append(_worker_memory() if n_cores else [])

    started = time.perf_counter()
    each = None
    if n_cores:
        os.environ["RAY_AUTH_MODE"] = "disabled"
        import ray

        from hotvae.scale.items import each_on_ray

        ray.init(num_cpus=n_cores, object_store_memory=200 * 2**20, include_dashboard=False, log_to_driver=False)
        each = each_on_ray
    up = time.perf_counter() - started
    options = MapOptions(seed=seed)
    out = folder / f"maps-{n_cores}"
    layers = [folder / "layers"]
    map_model(folder / "model", out, rasters=layers, options=options, pictures=False, progress=progress, each=each)
    found = {"start_seconds": up, "tile_seconds": at[-1] - at[0], "driver_peak": resident_bytes("VmHWM")}
    peaks = [peak for sizes in memory for peak in sizes]
    write_text(notes, json.dumps(found | {"worker_peak": max(peaks, default=None)}))


def measure_map(n_cells, n_labels, seed, repeats, folder):
    """Map in all ways, in turn; return what is written down."""
    side = math.ceil(math.sqrt(n_cells))
    grid = MapGrid("EPSG:3035", (4_000_000.0, 100.0, 0.0, 3_000_000.0, 0.0, -100.0), side, math.ceil(n_cells / side))
    land = Land(seed)
    (folder / "layers").mkdir()
    write_layers(folder / "layers", land, grid)
    table, labels = draw_sites(land, grid, n_labels, seed)
    HotVAEClassifier(effort="quick", random_state=seed).fit(table, labels).save(folder / "model")
    runs = {name: [] for name in WAYS}
    for _ in range(repeats):
        for name, n_cores in WAYS.items():
            notes = folder / "notes.json"
            process = multiprocessing.get_context("spawn").Process(target=_map, args=(folder, seed, n_cores, notes))
            process.start()
            process.join()
            if process.exitcode:
                raise SystemExit(f"{name}: the map ended with code {process.exitcode}")
            runs[name].append(json.loads(notes.read_text(encoding="utf-8")))
            subprocess.run(["rm", "-rf", str(folder / f"maps-{n_cores}")], check=True)
    seconds = {name: median(run["tile_seconds"] for run in told) for name, told in runs.items()}
    found = {
        "cells": grid.n_cells,
        "species": len(labels.columns),
        "repeats": repeats,
        "runs": runs,
        "seconds": seconds,
        "overhead_of_ray": seconds["ray, 1 core"] / seconds["plain"] - 1,
        "speed_up_of_two_cores": seconds["plain"] / seconds["ray, 2 cores"],
        "cells_per_second_and_core": grid.n_cells / seconds["ray, 1 core"],
        "worker_bytes": max(run["worker_peak"] or 0 for told in runs.values() for run in told),
        "load_average_after": os.getloadavg(),
    }
    return found | {"what_it_would_need": needs(found)}


def needs(found, cells=10**9, species=10**3):
    """Compute what a map of many cells and species would need, with what that assumes."""
    efficiency = found["speed_up_of_two_cores"] / 2
    rate = found["cells_per_second_and_core"] * found["species"] / species
    hours = {str(cores): cells / (rate * cores * (efficiency if cores > 1 else 1.0)) / 3600 for cores in (1, 32, 256)}
    return {
        "cells": cells,
        "species": species,
        "hours_by_cores": hours,
        "worker_gigabytes": found["worker_bytes"] * species / found["species"] / 1e9,
        "result_gigabytes": cells * species / 1e9,
        "assumes": [
            "time and memory grow in proportion to species (an upper bound: trees are walked once for all of them)",
            "time grows in proportion to cells, and equal rows are as frequent as in the land that was measured",
            "any number of cores is used as well as two are",
            "bytes of probabilities before compression, one a cell and species; tiles wait on disk beside the result",
            "the disk that all machines share keeps up; putting the GeoTIFFs together is one process and not counted",
        ],
    }


# --- training --------------------------------------------------------------------------------------------------


def write_table(path, gigabytes, seed):
    """Write rows until the file has its size; return their number."""
    import pyarrow
    import pyarrow.parquet

    random = np.random.default_rng(seed)
    weights = random.normal(size=(COLUMNS, LABELS)) / math.sqrt(COLUMNS) * 2
    bias = random.normal(-1.5, 1, LABELS)
    writer, n_rows = None, 0
    while n_rows == 0 or path.stat().st_size < gigabytes * 1e9:
        features = random.normal(size=(ROWS, COLUMNS))
        odds = np.tanh(features) @ weights + bias
        labels = (random.random(odds.shape) < 1 / (1 + np.exp(-odds))).astype(np.int8)
        frame = pd.DataFrame(features, columns=[f"x{i}" for i in range(COLUMNS)])
        frame = pd.concat([frame, pd.DataFrame(labels, columns=[f"sp_{i:03d}" for i in range(LABELS)])], axis=1)
        piece = pyarrow.Table.from_pandas(frame, preserve_index=False)
        writer = writer or pyarrow.parquet.ParquetWriter(path, piece.schema)
        writer.write_table(piece)
        n_rows += ROWS
    writer.close()
    return n_rows


def measure_stream(gigabytes, seed, workers, folder):
    """Train on a large table; return what is written down."""
    table = folder / "table.parquet"
    n_rows = write_table(table, gigabytes, seed)
    words = ["-m", "hotvae", "train", str(table), "--stream", "--labels", "sp_*", "--effort", "quick", "--json"]
    words += ["--seed", str(seed), "--out", str(folder / "model")]
    program = [sys.executable, *words]
    if workers > 1:
        launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={workers}"]
        program = [sys.executable, *launch, "--no-python", sys.executable, *words]
    started = time.perf_counter()
    told = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True)
    elapsed = time.perf_counter() - started
    summary = json.loads(told.stdout[told.stdout.index("{") :])
    passes = next(line for line in summary["recipe"] if line.startswith("rows"))
    return {
        "rows": n_rows,
        "columns": COLUMNS,
        "labels": LABELS,
        "file_bytes": table.stat().st_size,
        "bytes_in_memory": n_rows * (8 * COLUMNS + LABELS),
        "workers": workers,
        "seconds": elapsed,
        "rows_per_second": n_rows / elapsed,
        "peak_gigabytes": summary["peak_memory_gb"],
        "learned": passes,
        "load_average_after": os.getloadavg(),
    }


def main(argv=None):
    """Measure, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["map", "stream"])
    parser.add_argument("--cells", type=int, default=10_000_000)
    parser.add_argument("--species", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--gigabytes", type=float, default=20.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        if options.what == "map":
            found = measure_map(options.cells, options.species, options.seed, options.repeats, Path(folder))
        else:
            found = measure_stream(options.gigabytes, options.seed, options.workers, Path(folder))
    out = options.out / f"scale_{options.what}.json"
    write_text(out, json.dumps(found | provenance(options.seed), indent=1) + "\n")
    print(json.dumps({name: value for name, value in found.items() if not isinstance(value, dict)}, indent=1))


if __name__ == "__main__":
    main()
