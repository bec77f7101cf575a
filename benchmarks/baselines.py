"""Every model on yeast, scene and bibtex: seconds to fit and to predict on one thread, and what it reaches.

    python benchmarks/baselines.py                         (needs HOTVAE_DATA_DIR)
    python benchmarks/baselines.py --only mlknn ridge --sets yeast --seeds 0 1 2
    python benchmarks/baselines.py --render                (only write the tables again)

Mulan's test rows; a random fifth of Mulan's training rows chooses settings, epochs and thresholds. Every cell is a
line of ``benchmarks/results/baselines.jsonl``, written when it is done, so a run that was stopped goes on where it
ended; ``benchmarks/results/baselines.json`` is made of these lines. Each cell runs in a process of its own, which is
ended after ``--limit`` seconds and then noted as too slow. ``cpu`` seconds are those of the process, which other work
on the machine lengthens little; ``wall`` seconds are what a clock shows.
"""

import argparse
import json
import multiprocessing
import os
import platform
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np

from hotvae import read_table
from hotvae.models import CLASSIFIERS
from hotvae.report import write_text
from hotvae.thresholds import evaluate_protocols

SHOWN = ("example_f1", "micro_f1", "macro_f1", "hamming_accuracy", "median_auc", "precision_at_1", "log_loss")
RESULTS = Path(__file__).parent / "results"
SETS = ("yeast", "scene", "bibtex")
# Read by the libraries when they are loaded, which in a new process is after this.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def mulan_rows(name, seed):
    """Read a table with Mulan's test rows; a random fifth of the training rows validates."""
    path = Path(os.environ["HOTVAE_DATA_DIR"]) / f"{name}.npz"
    data = read_table(path)
    with np.load(path, allow_pickle=False) as file:
        train, test = file["train_idx"], file["test_idx"]
    shuffled = np.random.default_rng(seed).permutation(train)
    n_held = len(train) // 5
    return [(data.features[rows], data.labels[rows]) for rows in (shuffled[n_held:], shuffled[:n_held], test)]


def timed(work):
    """Do the work and return its result with CPU and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = work()
    return result, {"cpu": round(time.process_time() - cpu, 3), "wall": round(time.perf_counter() - wall, 3)}


def run_cell(name, model, seed):
    """Fit one model on one table and measure it under both protocols."""
    train, held, test = mulan_rows(name, seed)
    cls = CLASSIFIERS[model]
    # The first optimiser of a process loads much of torch; that is nobody's training time.
    CLASSIFIERS["plain"](max_epochs=1, encoder_widths=(4,)).fit([[0.0], [1.0]], [[0], [1]])
    fitted = cls(random_state=seed, n_threads=1)
    _, fit_seconds = timed(lambda: fitted.fit(*train, validation=held))
    probs, predict_seconds = timed(lambda: fitted.predict_proba(test[0]))
    protocols = evaluate_protocols(test[1], probs, held[1], fitted.predict_proba(held[0]))
    return {
        "status": "done",
        "fit_seconds": fit_seconds,
        "predict_seconds": predict_seconds,
        **{protocol: {key: values[key] for key in SHOWN} for protocol, values in protocols.items()},
    }


def _answer(pipe, key):
    try:
        pipe.send(run_cell(key["set"], key["model"], key["seed"]))
    except Exception as error:  # a model that fails is a result, and the others go on
        pipe.send({"status": "failed", "error": f"{type(error).__name__}: {error}"})


def run_apart(key, limit):
    """Run a cell in a process of its own and end it after the limit."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(there, key))
    os.environ.update(ONE_THREAD)
    process.start()
    there.close()
    try:
        if not here.poll(limit):
            return {"status": "too slow", "limit_seconds": limit}
        return here.recv()
    except EOFError:
        return {"status": "failed", "error": "the process ended without an answer"}
    finally:
        process.terminate()
        process.join()


def read_lines(path):
    """Cells that are done; a line that was cut off when the machine stopped is passed over."""
    cells = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            cell = json.loads(line)
        except json.JSONDecodeError:
            continue
        cells[cell["set"], cell["model"], cell["seed"]] = cell
    return cells


def add_line(path, cell):
    """Write one cell so that it survives whatever comes next."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(cell) + "\n")
        file.flush()
        os.fsync(file.fileno())


def summarise(cells):
    """One row for each set and model: means over seeds."""
    rows = []
    for name, model in dict.fromkeys((cell["set"], cell["model"]) for cell in cells):
        own = [cell for cell in cells if (cell["set"], cell["model"]) == (name, model)]
        done = [cell for cell in own if cell["status"] == "done"]
        row = {"set": name, "model": model, "title": CLASSIFIERS[model].title, "n_seeds": len(done)}
        if done:
            for what in ("fit_seconds", "predict_seconds"):
                row[what] = {kind: float(np.mean([cell[what][kind] for cell in done])) for kind in ("cpu", "wall")}
            for protocol in ("honest", "oracle"):
                row[protocol] = {key: float(np.mean([cell[protocol][key] for cell in done])) for key in SHOWN}
        row["not_done"] = [
            {key: cell[key] for key in cell if key not in ("set", "model")} for cell in own if cell not in done
        ]
        rows.append(row)
    order = list(CLASSIFIERS)
    return sorted(rows, key=lambda row: (row["set"], order.index(row["model"])))


def render(lines, path, options):
    """Write the JSON file and print the table."""
    cells = [cell for cell in read_lines(lines).values() if cell["model"] in CLASSIFIERS]
    rows = summarise(cells)
    content = {
        "what": "Mulan splits, one thread; settings and honest thresholds from a random fifth of the training rows",
        "command": "python benchmarks/baselines.py",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in ("hotvae", "torch", "numpy", "scipy", "scikit-learn")},
        "processor": platform.processor() or platform.machine(),
        "limit_seconds": options.limit,
        "rows": rows,
        "cells": cells,
    }
    write_text(path, json.dumps(content, indent=1) + "\n")
    head = ("set", "model", "n", "fit s", "predict s", "ebF1", "miF1", "maF1", "HA", "medAUC", "P@1", "log loss")
    print(("{:8}{:18}{:>3}{:>9}{:>11}" + "{:>9}" * 7).format(*head))
    for row in rows:
        start = f"{row['set']:8}{row['model']:18}{row['n_seeds']:3}"
        if not row["n_seeds"]:
            print(f"{start}  {row['not_done'][0]['status']} {row['not_done'][0].get('error', '')}")
            continue
        seconds = f"{row['fit_seconds']['cpu']:9.2f}{row['predict_seconds']['cpu']:11.3f}"
        print(start + seconds + "".join(f"{row['honest'][key]:9.4f}" for key in SHOWN))


def main(argv=None):
    """Run the cells that are asked for and not done yet, then write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(CLASSIFIERS), help="models by their short names")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for one cell")
    parser.add_argument("--fresh", action="store_true", help="run the cells asked for anew")
    parser.add_argument("--render", action="store_true", help="run nothing")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args(argv)
    unknown = [name for name in options.only if name not in CLASSIFIERS]
    if unknown:
        parser.error(f"--only must name models of {', '.join(CLASSIFIERS)}; got {', '.join(unknown)}")
    lines, path = options.results / "baselines.jsonl", options.results / "baselines.json"
    done = read_lines(lines)
    keys = [
        {"set": name, "model": model, "seed": seed}
        for name in options.sets
        for model in options.only
        for seed in options.seeds
    ]
    for key in [] if options.render else keys:
        before = done.get((key["set"], key["model"], key["seed"]), {"status": "none"})
        if before["status"] == "done" and not options.fresh:
            continue
        if before["status"] == "too slow" and before["limit_seconds"] >= options.limit and not options.fresh:
            continue
        cell = key | run_apart(key, options.limit)
        add_line(lines, cell)
        print(f"{key['set']}  {key['model']}  seed {key['seed']}  {cell['status']}", file=sys.stderr, flush=True)
    render(lines, path, options)


if __name__ == "__main__":
    main()
