"""What more threads bring, and what they cost while others use the machine.

    python -m paper.speed.threads                     (as busy as the machine happens to be)
    python -m paper.speed.threads --busy 2            (beside two processes that do nothing but compute)

Each setting is measured in processes of its own, one setting after the other, several rounds: a slow moment of the
machine hits all of them alike, and no two measure at the same time. A step is that of ``paper/speed/steps.py``; here
the clock on the wall counts, as nothing else tells how long threads wait for each other. Beside it stands the CPU time
of all threads, waiting by spinning included, and before every process the load of the machine: runnable processes
of others, over one minute.

one         1 thread
all         as many threads as there are cores, as torch and libgomp wait by themselves
all, short  the same with GOMP_SPINCOUNT=10000, as the command line of hotvae sets it: threads sleep sooner

Writes ``paper/results/threads.json``; a run with other ``--name`` goes beside it.
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch

from hotvae.files import write_text
from paper import RESULTS
from paper.speed.steps import N_WARMUP, Task, build, provenance, run_steps

SIZES = ("14,128,3", "100,64,2", "303,64,3")
SHORT_SPIN = {"GOMP_SPINCOUNT": "10000"}


def thread_settings(n_cores):
    """Name every setting: threads, and the environment its process starts with."""
    return {"one": (1, {}), "all": (n_cores, {}), "all, short": (n_cores, SHORT_SPIN)}


def measure_steps(sizes, n_steps, n_threads, seed):
    """Seconds on the wall of each step, and CPU seconds of a step, by size; in this process."""
    torch.set_num_threads(n_threads)
    found = {}
    for size in sizes:
        task = Task(*(int(part) for part in size.split(",")), seed=seed)
        contender, rows = build("eager", task), task.rows((n_steps + N_WARMUP + 1) * task.batch)
        marks = []
        run = (contender, rows, task.batch, n_steps + N_WARMUP)
        seconds = run_steps(*run, watch=lambda n_done, marks=marks: marks.append(time.process_time()))[N_WARMUP:]
        found[size] = {"seconds": seconds, "cpu_seconds": (marks[-1] - marks[N_WARMUP]) / len(seconds)}
    return found


def measure_apart(sizes, n_steps, n_threads, environment, seed):
    """Measure in a fresh process, whose environment is set before torch is loaded."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("GOMP_", "OMP_", "MKL_"))}
    order = ["--child", str(n_threads), "--sizes", *sizes, "--steps", str(n_steps), "--seed", str(seed)]
    command = [sys.executable, "-m", "paper.speed.threads", *order]
    done = subprocess.run(command, env=inherited | environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def summarise(sizes, rounds):
    """Medians over all steps of all rounds, and how many times as fast as one thread each setting is."""
    cells = []
    for size in sizes:
        for name in rounds[0]:
            steps = [second for each in rounds for second in each[name][size]["seconds"]]
            cpu = float(np.median([each[name][size]["cpu_seconds"] for each in rounds]))
            cells.append({"size": size, "setting": name, "seconds_median": float(np.median(steps)), "cpu_seconds": cpu})
            cells[-1] |= {"seconds_min": min(steps), "seconds": steps}
        one = next(cell for cell in cells if cell["size"] == size and cell["setting"] == "one")
        for cell in (cell for cell in cells if cell["size"] == size):
            cell["speedup"] = one["seconds_median"] / cell["seconds_median"]
    return cells


def compute_for_ever():
    """Keep a core busy."""
    while True:
        sum(range(10**6))


def main(argv=None):
    """Measure every setting in turn and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=SIZES, metavar="LABELS,WIDTH,LAYERS")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4, help="steps of each size in a round")
    parser.add_argument("--busy", type=int, default=0, help="processes of our own that keep cores busy meanwhile")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", default="threads", help="results go to <name>.json")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.child is not None:
        print(json.dumps(measure_steps(options.sizes, options.steps, options.child, options.seed)))
        return
    settings, rounds, loads = thread_settings(os.cpu_count()), [], []
    others = [multiprocessing.get_context("spawn").Process(target=compute_for_ever) for _ in range(options.busy)]
    try:
        for other in others:
            other.start()
        for _ in range(options.rounds):
            measured = {}
            for name, (n_threads, environment) in settings.items():
                loads.append(os.getloadavg()[0])
                measured[name] = measure_apart(options.sizes, options.steps, n_threads, environment, options.seed)
                print(f"round {len(rounds) + 1}  {name}  load {loads[-1]:.1f}", file=sys.stderr, flush=True)
            rounds.append(measured)
            # after every round: on a busy machine nobody knows how long the next one takes
            content = provenance(options.seed) | {"busy": options.busy, "load": loads, "rounds": len(rounds)}
            del content["threads"]  # each setting has its own
            content["cells"] = cells = summarise(options.sizes, rounds)
            write_text(options.out / f"{options.name}.json", json.dumps(content, indent=1) + "\n")
    finally:
        for other in others:
            other.terminate()
    for cell in cells:
        print(
            f"{cell['size']:>12} {cell['setting']:>10} {1e3 * cell['seconds_median']:9.0f} ms a step "
            f"{1e3 * cell['cpu_seconds']:9.0f} ms of CPU  {cell['speedup']:.2f} times as fast as one thread"
        )


if __name__ == "__main__":
    main()
