"""Thousands of labels: what each path costs, what an epoch needs, and what messages add to the direct path.

    python -m paper.speed.many_labels                        (needs HOTVAE_DATA_DIR for delicious)
    python -m paper.speed.many_labels --only crossover epoch

Two ways in which labels may hear each other:

exact       every label listens to every other; time grows with pairs of labels
neighbours  along the edges of a label graph; time grows with edges. Exact for that graph

crossover  CPU seconds of a training step for each row, and peak tensor memory, by number of labels
epoch      3,000 labels x 2,000 rows: resident memory and CPU seconds of an epoch. Neighbours are a whole
           ``HotVAENetwork.fit`` of one epoch; the exact path makes three steps, whose memory is that of all others,
           and its epoch is so many times the quicker of the last two
delicious  983 labels: the same rows, epochs and seed for the exact path and for the direct path alone (no messages)
synthetic  10,000 labels in clusters: the same for neighbours

Each measurement is a process of its own with one thread. Seconds are CPU time. Peaks are the process's own high-water
mark, libraries included. Writes ``paper/results/many_labels.json``; a part that is not measured keeps what is
written there.
"""

import argparse
import json
import math
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from scipy import sparse
from scipy.special import expit

from hotvae import HotVAENetwork, evaluate
from hotvae.files import write_text
from paper import RESULTS
from paper.speed.growth import exponent
from paper.speed.steps import (
    N_WARMUP,
    Task,
    alone,
    build,
    load_code,
    peak_bytes,
    provenance,
    resident_bytes,
    run_steps,
)

PARTS = ("crossover", "epoch", "delicious", "synthetic")
PATHS = ("exact", "neighbours")
LABELS = (100, 300, 1_000, 3_000, 10_000)
MOST_EXACT = 3_000  # beyond it a step of the exact path takes minutes
DEGREE = 20
MEASURES = ("log_loss", "micro_f1", "macro_f1")
# The direct path begins, so that few epochs of messages, of which those of the exact path take minutes, suffice.
ACCURACY = {
    "dim": 32,
    "n_layers": 1,
    "encoder_widths": (512,),
    "conditional": False,
    "label_encoder_widths": (128,),
    "kl_weight": 1e-5,
    "given_epochs": 0,
    "covariance_epochs": 0,
    "n_threads": 1,
    "device": "cpu",
}


def path_task(path, n_labels, **shape):
    """Say what is computed on a path: a sparse graph, or the complete one."""
    return Task(n_labels, 64, 1, density=min(1.0, DEGREE / n_labels) if path == "neighbours" else 1.0, **shape)


def measure_path(path, n_labels, batch, n_steps):
    """CPU seconds of a step for each row and peak tensor memory; call it in a fresh process."""
    load_code()
    task = path_task(path, n_labels, batch=batch)
    contender, rows = build("eager", task), task.rows((n_steps + N_WARMUP + 1) * batch)
    run = (contender, rows, batch)
    seconds = min(run_steps(*run, n_steps + N_WARMUP, clock=time.process_time)[N_WARMUP:])
    contender.network.zero_grad(set_to_none=True)
    weights = sum(tensor.nbytes for tensor in contender.network.state_dict().values())
    return {
        "fits": True,
        "seconds_per_row": seconds / batch,
        "tensor_peak": weights + peak_bytes(lambda: run_steps(*run, 1)),
    }


def crossing(labels, slow, quick):
    """Labels from which on the second path stays the quicker one, between two points along a line of logarithms.

    None if it is not at the most labels; the fewest labels measured if it always is.
    """
    gaps = np.log(np.array(quick)) - np.log(np.array(slow))
    behind = np.flatnonzero(gaps > 0)
    if not behind.size:
        return float(labels[0])
    at = int(behind[-1])
    if at == len(labels) - 1:
        return None
    share = gaps[at] / (gaps[at] - gaps[at + 1])
    return float(labels[at] * (labels[at + 1] / labels[at]) ** share)


def crossings(points):
    """Labels from which on each other path is quicker than the exact one."""
    times = {(point["path"], point["labels"]): point["seconds_per_row"] for point in points if point["fits"]}
    labels = sorted(n_labels for path, n_labels in times if path == PATHS[0])
    exact = [times[PATHS[0], n_labels] for n_labels in labels]
    return {path: crossing(labels, exact, [times[path, n_labels] for n_labels in labels]) for path in PATHS[1:]}


def measure_crossover(batch=4, n_steps=2):
    """Measure each path over the numbers of labels."""
    points = []
    for n_labels in LABELS:
        for path in PATHS:
            if path == "exact" and n_labels > MOST_EXACT:
                continue
            points.append({"path": path, "labels": n_labels, **alone(measure_path, path, n_labels, batch, n_steps)})
            print(points[-1], file=sys.stderr, flush=True)
    by_path = {path: [point for point in points if point["path"] == path and point["fits"]] for path in PATHS}
    exponents = {
        path: {
            name: exponent([point["labels"] for point in own], [point[name] for point in own])
            for name in ("seconds_per_row", "tensor_peak")
        }
        for path, own in by_path.items()
    }
    shape = {"batch": batch, "width": 64, "layers": 1, "degree": DEGREE}
    return shape | {"points": points, "exponents": exponents, "crossings": crossings(points)}


def measure_epoch(path, n_rows, n_labels, seed):
    """Memory and time of an epoch; call it in a fresh process."""
    task = Task(n_labels, 64, 2, seed=seed, density=min(1.0, DEGREE / n_labels) if path == "neighbours" else 1.0)
    rows = task.rows(n_rows)
    if path == "exact":
        contender, n_steps = build("eager", task), 3
        seconds = run_steps(contender, rows, task.batch, n_steps, clock=time.process_time)
        epoch = min(seconds[1:]) * math.ceil(n_rows / task.batch)
        return {"fits": True, "steps": n_steps, "epoch_seconds": epoch, "peak": resident_bytes("VmHWM")}
    short = {"max_epochs": 1, "given_epochs": 0, "covariance_epochs": 0, "n_threads": 1, "device": "cpu"}
    model = HotVAENetwork.from_settings(**short, graph=task.graph().numpy(), random_state=seed)
    started = time.process_time()
    held = task.rows(64)
    model.fit(rows.features, rows.labels, validation=(held.features, held.labels))
    seconds = time.process_time() - started
    return {"fits": True, "steps": None, "epoch_seconds": seconds, "peak": resident_bytes("VmHWM")}


def measure_epochs(seed, n_rows=2_000, n_labels=3_000):
    """Measure an epoch on each path."""
    points = []
    for path in PATHS:
        points.append({"path": path, **alone(measure_epoch, path, n_rows, n_labels, seed)})
        print(points[-1], file=sys.stderr, flush=True)
    return {"rows": n_rows, "labels": n_labels, "width": 64, "layers": 2, "batch": 64, "points": points}


def read_delicious(folder, n_train, n_held, n_test, seed):
    """Draw rows of delicious: training and validation rows of its own training rows, test rows of its test rows."""
    with np.load(Path(folder) / "delicious.npz", allow_pickle=False) as file:
        parts = (file["X_data"], file["X_indices"], file["X_indptr"])
        features = sparse.csr_array(parts, shape=tuple(file["X_shape"])).toarray()
        labels = file["Y"].astype(np.float32)
        inside, outside = file["train_idx"], file["test_idx"]
    rng = np.random.default_rng(seed)
    inside, outside = rng.permutation(inside), rng.permutation(outside)
    chosen = {"train": inside[:n_train], "held": inside[n_train : n_train + n_held], "test": outside[:n_test]}
    return {part: (features[rows], labels[rows]) for part, rows in chosen.items()}, None


def make_clusters(n_labels, size, n_train, n_held, n_test, seed):
    """Draw labels in clusters that share a response to the features and a cause nobody sees; return their graph too."""
    rng = np.random.default_rng(seed)
    n_rows, n_features, n_clusters = n_train + n_held + n_test, 20, n_labels // size
    features = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    shared = features @ rng.normal(scale=0.35, size=(n_features, n_clusters)) + rng.normal(size=(n_rows, n_clusters))
    logits = np.repeat(shared, size, axis=1) - 3.5 + rng.normal(scale=0.5, size=n_labels)
    labels = (rng.random(logits.shape) < expit(logits)).astype(np.float32)
    starts = (0, n_train, n_train + n_held, n_rows)
    rows = {part: slice(*starts[at : at + 2]) for at, part in enumerate(("train", "held", "test"))}
    graph = sparse.kron(sparse.eye_array(n_clusters), np.ones((size, size)), format="csr").astype(bool)
    return {part: (features[own], labels[own]) for part, own in rows.items()}, graph


def fit_and_score(make, arguments, path, settings, seed):
    """Fit one path and measure it on the test rows; call it in a fresh process."""
    rows, graph = make(*arguments, seed)
    alone = {"direct_epochs": settings["max_epochs"]}
    own = {"neighbours": {"graph": graph}, "direct path alone": alone}.get(path, {})
    model = HotVAENetwork.from_settings(**ACCURACY | settings | own, random_state=seed)
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some labels of so few rows are never there
        model.fit(*rows["train"], validation=rows["held"])
    seconds = time.process_time() - started
    features, labels = rows["test"]
    found = evaluate(labels, model.predict_proba(features), model.thresholds_)
    return {
        "fits": True,
        "seconds": seconds,
        "best_epoch": model.history_.best_epoch,
        "peak": resident_bytes("VmHWM"),
        **{name: float(found[name]) for name in MEASURES},
    }


def measure_accuracy(make, arguments, paths, settings, seed):
    """Fit every path on the same rows."""
    points = []
    for path in paths:
        points.append({"path": path, **alone(fit_and_score, make, arguments, path, settings, seed)})
        print(points[-1], file=sys.stderr, flush=True)
    sizes = dict(zip(("train", "held", "test"), arguments[-3:], strict=True))
    return {"rows": sizes, "settings": ACCURACY | settings, "points": points}


def measure_delicious(seed):
    """Measure what messages add on 983 tags."""
    arguments = (os.environ["HOTVAE_DATA_DIR"], 1_500, 300, 1_000)
    settings = {"encoder_dropout": 0.5, "direct_epochs": 6, "max_epochs": 10}
    measured = measure_accuracy(read_delicious, arguments, ("direct path alone", "exact"), settings, seed)
    return {"labels": 983} | measured


def measure_synthetic(seed):
    """Measure what messages add on 10,000 labels, in clusters of 10."""
    arguments = (10_000, 10, 400, 100, 300)
    settings = {"direct_epochs": 8, "max_epochs": 10, "batch_size": 16}
    paths = ("direct path alone", "neighbours")
    return {"labels": 10_000} | measure_accuracy(make_clusters, arguments, paths, settings, seed)


def main(argv=None):
    """Measure the parts asked for and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    measures = {
        "crossover": measure_crossover,
        "epoch": lambda: measure_epochs(options.seed),
        "delicious": lambda: measure_delicious(options.seed),
        "synthetic": lambda: measure_synthetic(options.seed),
    }
    path = options.out / "many_labels.json"
    parts = json.loads(path.read_text())["parts"] if path.exists() else {}
    for part in options.only:
        parts[part] = provenance(options.seed) | measures[part]()
        content = {"parts": {name: parts[name] for name in PARTS if name in parts}}
        write_text(path, json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
