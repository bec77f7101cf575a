"""How time and memory grow with rows, labels, width, layers and tokens.

    python -m paper.speed.growth
    python -m paper.speed.growth --only labels --steps 5
    python -m paper.speed.growth --only labels --degree 20      (a sparse label graph: 20 neighbours a label)

One quantity is changed at a time, the others stay at 2,000 rows, 100 labels, width 64 (feed-forward blocks too), 2
layers and 1 token. Each point is a fresh process with one thread. Nothing trains for a whole epoch: after one step to
warm up a few steps of ``fit_network`` are timed on the whole table, and the quickest, times the steps
of an epoch, plus the time before the first step, is the time of an epoch. Validation rows are left out. Seconds are
CPU time, which on one thread is what a clock would show if nobody else had the core.

Memory is measured twice: the growth of the process from before the table was made to its highest mark, and the most
tensor bytes alive at once (see ``paper/speed/steps.py``), which leaves the table out. An exponent is the slope of
log(time) or log(memory) over log(quantity) through the three largest points: 1 is linear, 2 quadratic.

Writes ``paper/results/growth.json``; an axis that is not measured keeps what is written there.
"""

import argparse
import json
import math
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from hotvae.files import write_text
from hotvae.net.model import HotVAE
from hotvae.training.prediction import owned_randomness
from paper import RESULTS
from paper.speed.steps import (
    N_FEATURES,
    N_WARMUP,
    Contender,
    Task,
    alone,
    load_code,
    peak_bytes,
    provenance,
    resident_growth,
    run_steps,
    setting_pairs,
)

BASE = {"rows": 2000, "labels": 100, "width": 64, "layers": 2, "tokens": 1}
AXES = {
    "rows": (1_000, 3_000, 10_000, 30_000, 100_000),
    "labels": (10, 30, 100, 300, 1_000, 3_000),
    "width": (32, 64, 128, 256),
    "layers": (1, 2, 3, 4, 5, 6),
    "tokens": (1, 10, 30, 100, 300),
}
MEASURES = ("seconds_per_epoch", "resident_growth", "tensor_peak")


class TokenEncoder(nn.Module):
    """An encoder of one's own that says the same row in many tokens: one map, shifted by an offset for each token."""

    def __init__(self, n_features, n_tokens, dim):
        super().__init__()
        self.n_tokens = n_tokens
        self.mean = nn.Linear(n_features, dim)
        self.log_variance = nn.Linear(n_features, dim)
        self.offset = nn.Parameter(0.1 * torch.randn(n_tokens, dim))

    def forward(self, x):
        """Encode rows."""
        mean, log_variance = (part(x).unsqueeze(1) for part in (self.mean, self.log_variance))
        return mean + self.offset, (log_variance + self.offset).clamp(-12, 8)


class NotedHotVAE(HotVAE):
    """HOT-VAE that notes when an epoch begins."""

    def begin_epoch(self, epoch):
        """Note the time."""
        self.started = time.process_time()
        super().begin_epoch(epoch)


def measure_point(point, task, n_steps):
    """Time and memory of one point; call it in a fresh process."""
    load_code()
    with owned_randomness(task.seed, 0):
        encoder = None if point["tokens"] == 1 else TokenEncoder(N_FEATURES, point["tokens"], task.dim)
        network = NotedHotVAE(N_FEATURES, task.n_labels, task.config, task.graph(), feature_encoder=encoder)
    contender = Contender(network, network.loss, network.predict)
    seconds, before = [], []

    def watch(n_done):
        if n_done == 0:
            before.append(time.process_time() - network.started)

    def run():
        turn = (contender, task.rows(point["rows"]), task.batch, n_steps + N_WARMUP)
        seconds[:] = run_steps(*turn, watch=watch, clock=time.process_time)[N_WARMUP:]

    growth = resident_growth(run)
    timed, before_first = min(seconds), before[0]
    contender.network.zero_grad(set_to_none=True)
    weights = sum(tensor.nbytes for tensor in contender.network.state_dict().values())
    epoch = before_first + timed * math.ceil(point["rows"] / task.batch)
    return {
        "fits": True,
        "seconds_per_step": timed,
        "seconds_per_step_median": float(np.median(seconds)),
        "seconds_before_first_step": before_first,
        "seconds_per_epoch": epoch,
        "microseconds_per_row": 1e6 * epoch / point["rows"],
        "resident_growth": growth,
        "tensor_peak": weights + peak_bytes(run),
    }


def exponent(values, numbers):
    """Slope of log(number) over log(value) through the three largest values."""
    largest = sorted(zip(values, numbers, strict=True))[-3:]
    if len(largest) < 2 or any(number is None or number <= 0 for _, number in largest):
        return None
    return float(np.polyfit(*np.log(np.array(largest, dtype=float)).T, 1)[0])


def measure_axis(axis, values, task, n_steps, degree):
    """Measure all points of an axis, each in a process of its own."""
    points = []
    for value in values:
        point = BASE | {axis: value}
        density = 1.0 if degree is None else min(1.0, degree / point["labels"])
        here = replace(task, n_labels=point["labels"], dim=point["width"], n_layers=point["layers"], density=density)
        points.append({"value": value, **alone(measure_point, point, here, n_steps)})
        print(f"{axis} {value}  {points[-1]}", file=sys.stderr, flush=True)
    fitting = [point for point in points if point["fits"]]
    fitted = {name: exponent([p["value"] for p in fitting], [p[name] for p in fitting]) for name in MEASURES}
    return {"points": points, "exponents": fitted}


def print_axes(axes):
    """Print a table for each axis."""
    for axis, measured in axes.items():
        print(f"\n{axis:>8} {'us per row':>12} {'s per epoch':>12} {'resident MB':>12} {'tensors MB':>12}")
        for point in measured["points"]:
            if not point["fits"]:
                print(f"{point['value']:8} {point['reason']}")
                continue
            resident = "-" if point["resident_growth"] is None else f"{point['resident_growth'] / 1e6:.0f}"
            print(
                f"{point['value']:8} {point['microseconds_per_row']:12.1f} {point['seconds_per_epoch']:12.2f} "
                f"{resident:>12} {point['tensor_peak'] / 1e6:12.0f}"
            )
        shown = ("-" if value is None else f"{value:.2f}" for value in measured["exponents"].values())
        print("{:>8} {:>12} {:>12} {:>12} {:>12}".format("exponent", "", *shown))


def main(argv=None):
    """Measure the axes asked for and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=tuple(AXES), default=tuple(AXES), help="which quantities")
    parser.add_argument("--steps", type=int, default=3, help="steps timed at each point")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--degree", type=float, help="neighbours of a label; by default all labels")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings of the network")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", default="growth", help="results go to <name>.json")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    task = Task(100, 64, 2, batch=options.batch, seed=options.seed, settings=setting_pairs(options.set))
    path = options.out / f"{options.name}.json"
    axes = json.loads(path.read_text())["axes"] if path.exists() else {}
    for axis in options.only:
        measured = measure_axis(axis, AXES[axis], task, options.steps, options.degree)
        axes[axis] = provenance(options.seed) | measured
        content = {"base": BASE, "batch": options.batch, "axes": {name: axes[name] for name in AXES if name in axes}}
        write_text(path, json.dumps(content, indent=1) + "\n")
    print_axes({axis: axes[axis] for axis in options.only})


if __name__ == "__main__":
    main()
