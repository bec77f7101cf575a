"""What Ray costs on one machine and what a second core brings; and a table of any size trained in bounded memory.

    python -m paper.speed.scale prepare --folder FOLDER   # land and model of the map, which need no quiet machine
    python -m paper.speed.scale map --folder FOLDER       # 10 million cells x 100 species; without --folder all at once
    python -m paper.speed.scale map --cells 400000 --repeats 1
    python -m paper.speed.scale stream                    # a table of 20 GB, in under 4 GB of memory
    python -m paper.speed.scale stream --gigabytes 0.2
    python -m paper.speed.scale render                    # the stored results into docs/scale.md

``map`` makes the invented land of ``paper.speed.maps`` and maps it three ways in turn, each in a process of its own:
plainly, on Ray with one core, and on Ray with two; ``--repeats`` times, one after the other, so that a machine that
slows down slows all of them. Written down: seconds of the clock from before the first tile to the last, which counts
that workers start and load the model, but neither the start of Ray (said apart) nor that the GeoTIFFs are put together,
which is left out; the overhead of Ray on one core; the speed-up of two cores; the memory of the driver and of each
worker; and hours of 1,000 million cells x 1,000 species on some clusters, with what that assumes.

``stream`` writes a Parquet table (places, covariates that follow them, species with niches in these; ``--table`` keeps
it, and uses one that is there), trains on it with ``hotvae train --stream`` in a process of its own, and writes down
rows a second and the highest resident memory. Networks are stacked alone, so that what is learned is learned from all
rows. With ``--workers N`` it is trained by so many processes of torchrun.

Results: ``paper/results/scale_map.json`` and ``scale_stream.json``.
"""

import argparse
import json
import math
import multiprocessing
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from contextlib import suppress
from pathlib import Path
from statistics import median

import numpy as np

from hotvae import HotVAEClassifier
from hotvae.data.parquet import ParquetTable
from hotvae.files import write_text
from hotvae.geo.maps import MapOptions
from hotvae.geo.rasters import MapGrid
from hotvae.jobs.maps import map_model
from paper import DOCS, RESULTS
from paper.runner import provenance
from paper.speed import resident_bytes
from paper.speed.maps import Land, draw_sites, write_layers
from paper.summaries import replace_marked

WAYS = {"plain": 0, "ray, 1 core": 1, "ray, 2 cores": 2}
# Rows of a row group, labels and columns of the table that is streamed, and what its covariates are made of.
ROWS, LABELS, COLUMNS, DRIVERS = 16_384, 100, 1_000, 8


# --- maps ------------------------------------------------------------------------------------------------------


class _AllTilesError(Exception):
    """Ends a map before its tiles are put together."""


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
        memory.extend(_worker_memory() if n_cores else [])
        if done == total:
            raise _AllTilesError

    started = time.perf_counter()
    each = None
    if n_cores:
        os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_worker_niceness": "0"}  # as quick as the plain process
        import ray

        from hotvae.scale.items import each_on_ray

        ray.init(num_cpus=n_cores, object_store_memory=200 * 2**20, include_dashboard=False, log_to_driver=False)
        each = each_on_ray
    up = time.perf_counter() - started
    with suppress(_AllTilesError):
        out, layers, options = folder / f"maps-{n_cores}", [folder / "layers"], MapOptions(seed=seed)
        told = {"options": options, "pictures": False, "progress": progress, "each": each, "threads": 1}
        map_model(folder / "model", out, rasters=layers, **told)
    found = {"start_seconds": up, "tile_seconds": at[-1] - at[0], "tiles": len(at) - 1}
    # Ray itself stays away: it would wait for workers whose times are noted.
    write_text(
        notes, json.dumps(found | {"driver_peak": resident_bytes("VmHWM"), "worker_peak": max(memory, default=0)})
    )


def _grid(n_cells):
    side = math.ceil(math.sqrt(n_cells))
    return MapGrid("EPSG:3035", (4_000_000.0, 100.0, 0.0, 3_000_000.0, 0.0, -100.0), side, math.ceil(n_cells / side))


def prepare_map(n_cells, n_labels, seed, folder):
    """Write the land, and train the model of its species."""
    land, grid = Land(seed), _grid(n_cells)
    (folder / "layers").mkdir(parents=True)
    write_layers(folder / "layers", land, grid)
    table, labels = draw_sites(land, grid, n_labels, seed)
    HotVAEClassifier(effort="quick", random_state=seed).fit(table, labels).save(folder / "model")
    write_text(folder / "told.json", json.dumps({"cells": grid.n_cells, "species": len(labels.columns)}))


def measure_map(seed, repeats, folder):
    """Map in all ways, in turn; return what is written down."""
    told = json.loads((folder / "told.json").read_text(encoding="utf-8"))
    runs = {name: [] for name in WAYS}
    load = os.getloadavg()
    for _ in range(repeats):
        for name, n_cores in WAYS.items():
            notes = folder / "notes.json"
            process = multiprocessing.get_context("spawn").Process(target=_map, args=(folder, seed, n_cores, notes))
            process.start()
            process.join()
            if process.exitcode:
                raise SystemExit(f"{name}: the map ended with code {process.exitcode}")
            runs[name].append(json.loads(notes.read_text(encoding="utf-8")))
            print(name, runs[name][-1], flush=True)
            shutil.rmtree(folder / f"maps-{n_cores}")
    seconds = {name: median(run["tile_seconds"] for run in each) for name, each in runs.items()}
    found = told | {
        "repeats": repeats,
        "runs": runs,
        "seconds": seconds,
        "overhead_of_ray": seconds["ray, 1 core"] / seconds["plain"] - 1,
        "speed_up_of_two_cores": seconds["plain"] / seconds["ray, 2 cores"],
        "cells_per_second": {name: told["cells"] / each for name, each in seconds.items()},
        "worker_bytes": max(run["worker_peak"] for each in runs.values() for run in each),
        "driver_bytes": max(run["driver_peak"] for each in runs.values() for run in each),
        "load_average": {"before": load, "after": os.getloadavg()},
    }
    return found | {"what_it_would_need": needs(found)}


def needs(found, cells=10**9, species=10**3):
    """Compute what a map of many cells and species would need, with what that assumes."""
    efficiency = found["speed_up_of_two_cores"] / 2
    rate = found["cells_per_second"]["ray, 1 core"] * found["species"] / species
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
    """Write rows until the file has its size."""
    import pyarrow
    import pyarrow.parquet

    random = np.random.default_rng(seed)
    # Each driver is a wave over the map and a share of chance; covariates are mixtures of drivers, with noise.
    waves, phases = random.normal(0, 0.3, (DRIVERS, 2)), random.uniform(0, 2 * np.pi, (DRIVERS, 1))
    mixture = random.normal(size=(COLUMNS - 2, DRIVERS)) / math.sqrt(DRIVERS)
    optimum, narrowness = random.normal(size=(LABELS, DRIVERS)), random.exponential(0.5, (LABELS, DRIVERS))
    names = [f"x{i}" for i in range(COLUMNS - 2)], [f"sp_{i:03d}" for i in range(LABELS)]
    writer = None
    while writer is None or path.stat().st_size < gigabytes * 1e9:
        places = random.uniform((5.0, 40.0), (25.0, 55.0), (ROWS, 2)).T
        drivers = np.sin(waves @ places + phases) + random.normal(0, 0.5, (DRIVERS, ROWS))
        covariates = mixture @ drivers
        covariates += random.standard_normal(covariates.shape, dtype=np.float32)
        odds = 2 - narrowness @ drivers**2 + 2 * (narrowness * optimum) @ drivers
        odds -= (narrowness * optimum**2).sum(axis=1, keepdims=True)
        labels = (random.random(odds.shape) < 1 / (1 + np.exp(-odds))).astype(np.int8)
        columns = {"longitude": places[0], "latitude": places[1]}
        columns |= dict(zip(names[0], covariates, strict=True)) | dict(zip(names[1], labels, strict=True))
        piece = pyarrow.table(columns)
        writer = writer or pyarrow.parquet.ParquetWriter(path, piece.schema, use_dictionary=names[1])
        writer.write_table(piece)
    writer.close()


def measure_stream(gigabytes, seed, workers, folder, table):
    """Train on a large table; return what is written down."""
    if not table.exists():
        write_table(table.with_suffix(".part"), gigabytes, seed)
        table.with_suffix(".part").rename(table)
    n_rows = ParquetTable(table).n_rows
    words = ["-m", "hotvae", "train", str(table), "--stream", "--labels", "sp_*", "--coordinates", "longitude,latitude"]
    words += ["--effort", "quick", "--set", "base=none", "--json", "--seed", str(seed), "--out", str(folder / "model")]
    program = [sys.executable, *words]
    if workers > 1:
        launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={workers}"]
        program = [sys.executable, *launch, "--no-python", sys.executable, *words]
    load, started, sampled = os.getloadavg(), time.perf_counter(), None
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "told.json").open("w+") as told, subprocess.Popen(program, stdout=told) as process:
        while process.poll() is None:
            time.sleep(0.2)
            if sampled is None and (folder / "model.state" / "sampled").exists():
                sampled = time.perf_counter() - started
        told.seek(0)
        summary = json.load(told) if process.returncode == 0 else None
    if summary is None:
        raise SystemExit(f"the training ended with code {process.returncode}")
    elapsed, used = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    learned = next(line for line in summary["recipe"] if line.startswith("rows"))
    n_passes = int(re.search(r"in (\d+) passes", learned)[1])
    return {
        "rows": n_rows,
        "columns": COLUMNS,
        "labels": LABELS,
        "file_bytes": table.stat().st_size,
        "workers": workers,
        "passes": n_passes,
        "seconds": {"all": elapsed, "until_the_sample_was_learned": sampled},
        "processor_seconds": used.ru_utime + used.ru_stime,
        "rows_per_second": n_passes * n_rows / (elapsed - sampled),
        "bytes_per_second": n_passes * table.stat().st_size / (elapsed - sampled),
        "peak_gigabytes": summary["peak_memory_gb"],
        "learned": learned,
        "resumed": summary["resumed"],
        "load_average": {"before": load, "after": os.getloadavg()},
    }


# --- the page --------------------------------------------------------------------------------------------------


def map_words(found):
    """Return the table of the map and what a larger one would need, for docs/scale.md."""
    lines = ["", "| way | seconds | cells a second | memory of a worker |", "|---|---:|---:|---:|"]
    for name, seconds in found["seconds"].items():
        runs = found["runs"][name]
        peak = max(run["worker_peak"] or run["driver_peak"] for run in runs)
        lines.append(f"| {name} | {seconds:.0f} | {found['cells_per_second'][name]:,.0f} | {peak / 1e9:.2f} GB |")
    n_runs = found["repeats"]
    start = median(run["start_seconds"] for name, runs in found["runs"].items() for run in runs if name != "plain")
    load = found["load_average"]
    text = (
        f"{found['cells']:,} cells × {found['species']} species, {'one run' if n_runs == 1 else f'median of {n_runs}'} "
        f"each way in turn (`{found['command']}`, {found['date'][:10]}, {found['machine']['cores']} cores; load "
        f"average {load['before'][0]:.1f} before, {load['after'][0]:.1f} after). On one core Ray costs "
        f"{100 * found['overhead_of_ray']:.1f} % (goal: at most 10 %); two cores are "
        f"{found['speed_up_of_two_cores']:.2f} times as fast as one process without Ray (goal: 1.7). Its start, "
        f"{start:.0f} s, is not counted; that workers start and load the model is. The driver held "
        f"{found['driver_bytes'] / 1e9:.2f} GB at most."
    )
    lines += ["", *_wrapped(text)]
    needed = needs(found)
    lines += ["", "What 10⁹ cells × 10³ species would need, computed from this:", ""]
    lines += ["| cores | hours | memory of all workers |", "|---:|---:|---:|"]
    for cores, hours in needed["hours_by_cores"].items():
        lines.append(f"| {cores} | {hours:,.1f} | {int(cores) * needed['worker_gigabytes']:,.0f} GB |")
    lines += [
        "",
        *_wrapped(f"The result has {needed['result_gigabytes']:,.0f} GB before compression. This assumes:"),
        "",
    ]
    for each in needed["assumes"]:
        lines += textwrap.wrap(f"- {each}", 120, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join([*lines, "", ""])


def stream_words(found):
    """Return what training on a large table took, for docs/scale.md."""
    seconds, load = found["seconds"], found["load_average"]
    text = (
        f"A table of {found['file_bytes'] / 1e9:.1f} GB, {found['rows']:,} rows × {found['columns']:,} numbers of 8 "
        f"bytes and {found['labels']} species, was trained on in **{found['peak_gigabytes']:.2f} GB** of memory (goal: "
        f"under 4 GB). It took {seconds['all'] / 60:.0f} minutes by the clock and "
        f"{found['processor_seconds'] / 60:.0f} of processor time, {seconds['until_the_sample_was_learned'] / 60:.0f} "
        f"of the former for the sample; then {found['passes']} passes at {found['rows_per_second']:,.0f} rows, or "
        f"{found['bytes_per_second'] / 1e6:,.0f} MB, a second on a machine "
        f"that was shared with other work (load "
        f"average {load['before'][0]:.1f} before, {load['after'][0]:.1f} after, on {found['machine']['cores']} cores). "
        f"`{found['command']}`, {found['date'][:10]}."
    )
    return "\n".join(["", *_wrapped(text), "", ""])


def _wrapped(text):
    return textwrap.wrap(text, 120, break_on_hyphens=False, break_long_words=False)


def render(results, page):
    """Write what is stored into the page, between its marks."""
    text = page.read_text(encoding="utf-8")
    for name, words in (("map", map_words), ("stream", stream_words)):
        stored = results / f"scale_{name}.json"
        if stored.exists():
            text = replace_marked(text, f"scale {name}", words(json.loads(stored.read_text(encoding="utf-8"))))
    write_text(page, text)


def main(argv=None):
    """Measure, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "map", "stream", "render"])
    parser.add_argument("--cells", type=int, default=10_000_000)
    parser.add_argument("--species", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--gigabytes", type=float, default=20.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="of what prepare made; of a training that may be interrupted")
    parser.add_argument("--table", type=Path, help="of the streamed training; written where it is missing, and kept")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(argv)
    if options.what == "render":
        render(options.out, DOCS / "scale.md")
        return
    if options.what == "prepare":
        if options.folder is None:
            parser.error("prepare needs a --folder")
        prepare_map(options.cells, options.species, options.seed, options.folder)
        return
    with tempfile.TemporaryDirectory() as scratch:
        if options.what == "map":
            folder = options.folder or Path(scratch) / "map"
            if options.folder is None:
                prepare_map(options.cells, options.species, options.seed, folder)
            found = measure_map(options.seed, options.repeats, folder)
        else:
            table = options.table or Path(scratch) / "table.parquet"
            folder = options.folder or Path(scratch)
            found = measure_stream(options.gigabytes, options.seed, options.workers, folder, table)
    out = options.out / f"scale_{options.what}.json"
    write_text(out, json.dumps(found | provenance(options.seed), indent=1) + "\n")
    print(json.dumps({name: value for name, value in found.items() if not isinstance(value, dict)}, indent=1))


if __name__ == "__main__":
    main()
