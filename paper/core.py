"""What the default recipe reaches: the virtual region against its rivals, and the scene and yeast tables.

    python -m paper.core region --seeds 0 1 2 3 4
    python -m paper.core tables --seeds 0 1 2          (needs HOTVAE_DATA_DIR)

Each prints a table and writes ``paper/results/core_<name>.json``. Finished cells are kept, so a run that was
stopped goes on where it ended; ``--fresh`` starts over. Validation rows choose epochs, leaf sizes and thresholds.
"""

import argparse
import json
import os
import shlex
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from scipy import stats

from hotvae import HotVAENetwork, PlainNetClassifier, read_table, split_dataset, virtual_region
from hotvae.estimators.threshold_tuner import label_probs
from hotvae.estimators.thresholds import evaluate_protocols
from hotvae.files import write_text
from hotvae.jobs.virtual_demo import FRACTIONS, HOT_VAE, PLAIN_NET, TREES, fit_trees
from paper import RESULTS
from paper.runner import versions

SHOWN = ("example_f1", "micro_f1", "macro_f1", "hamming_accuracy", "median_auc", "log_loss")


def fit_cell(model, features, labels, parts, seed, threads):
    """Train one model and measure it on the test rows with thresholds of the validation rows."""
    train, held, test = parts
    started = time.perf_counter()
    if model == TREES:
        fitted = fit_trees(features, labels, train, held, seed=seed, n_jobs=threads)
    else:
        kind = HotVAENetwork if model == HOT_VAE else PlainNetClassifier
        fitted = kind.from_settings(random_state=seed, n_threads=threads)
        fitted.fit(features[train], labels[train], validation=(features[held], labels[held]))
    seconds = time.perf_counter() - started
    probs = {part: label_probs(fitted, features[rows]) for part, rows in (("held", held), ("test", test))}
    protocols = evaluate_protocols(labels[test], probs["test"], labels[held], probs["held"])
    return {
        "seconds": round(seconds, 2),
        **{name: {key: values[key] for key in (*SHOWN, "thresholds")} for name, values in protocols.items()},
    }


def region_rows(seed):
    """Draw a region and the demo's split of it."""
    data = virtual_region(5000, random_state=seed).dataset
    split = split_dataset(data, fractions=FRACTIONS, random_state=seed)
    return data.features, data.labels, (split.train, split.validation, split.test)


def table_rows(name, seed):
    """Read a table with Mulan's test rows; a random fifth of the training rows validates."""
    path = Path(os.environ["HOTVAE_DATA_DIR"]) / f"{name}.npz"
    data = read_table(path)
    with np.load(path, allow_pickle=False) as file:
        train, test = file["train_idx"], file["test_idx"]
    shuffled = np.random.default_rng(seed).permutation(train)
    n_held = len(train) // 5
    return data.features, data.labels, (shuffled[n_held:], shuffled[:n_held], test)


def summarise(cells):
    """Mean over seeds of each model, and HOT-VAE's paired difference in log loss to its rivals."""
    lines, paired = [], {}
    for name in dict.fromkeys(cell["set"] for cell in cells):
        chosen = [cell for cell in cells if cell["set"] == name]
        for model in dict.fromkeys(cell["model"] for cell in chosen):
            own = [cell for cell in chosen if cell["model"] == model]
            values = [np.mean([cell["honest"][key] for cell in own]) for key in SHOWN]
            spent = np.mean([cell["seconds"] for cell in own])
            lines.append((name, model, len(own), *values, spent))
            if model != HOT_VAE:
                by_seed = {cell["seed"]: cell["honest"]["log_loss"] for cell in own}
                gaps = [
                    cell["honest"]["log_loss"] - by_seed[cell["seed"]]
                    for cell in chosen
                    if cell["model"] == HOT_VAE and cell["seed"] in by_seed
                ]
                half = stats.t.ppf(0.975, len(gaps) - 1) * stats.sem(gaps) if len(gaps) > 1 else float("nan")
                paired[f"{name}: HOT-VAE minus {model}"] = {
                    "log_loss_gap": float(np.mean(gaps)),
                    "half_width_95": float(half),
                    "gaps": gaps,
                }
    return lines, paired


def main(argv=None):
    """Run what is asked for and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("region", "tables"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--fresh", action="store_true", help="forget the results that are there")
    parser.add_argument("--name", help="results go to core_<name>.json; by default what is run")
    parser.add_argument("--only", nargs="+", default=["scene", "yeast"], help="which tables")
    options = parser.parse_args(argv)
    path = RESULTS / f"core_{options.name or options.what}.json"
    done = [] if options.fresh or not path.exists() else json.loads(path.read_text())["cells"]
    sets = ["virtual region"] if options.what == "region" else options.only
    for name in sets:
        for seed in options.seeds:
            rows = region_rows(seed) if options.what == "region" else table_rows(name, seed)
            for model in (HOT_VAE, PLAIN_NET, TREES):
                key = {"set": name, "model": model, "seed": seed}
                if any(all(cell[k] == v for k, v in key.items()) for cell in done):
                    continue
                done.append(key | fit_cell(model, *rows, seed, options.threads))
                write_results(path, done)
                print(
                    f"{name}  seed {seed}  {model}  {done[-1]['honest']['log_loss']:.4f}", file=sys.stderr, flush=True
                )
    lines, paired = write_results(path, done)
    print(f"{'set':15} {'model':32} n " + " ".join(f"{key:>16}" for key in (*SHOWN, "seconds")))
    for name, model, count, *values in lines:
        print(f"{name:15} {model:32} {count} " + " ".join(f"{value:16.4f}" for value in values))
    for what, gap in paired.items():
        print(f"{what}: log loss {gap['log_loss_gap']:+.4f} ± {gap['half_width_95']:.4f} (95 %, paired over seeds)")


def write_results(path, cells):
    """Write all cells with what is needed to repeat them."""
    lines, paired = summarise(cells)
    content = {
        "command": shlex.join(["python", "-m", "paper.core", *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "settings": {"HOT-VAE": HotVAENetwork().current_settings()},
        "means": [dict(zip(("set", "model", "n_seeds", *SHOWN, "seconds"), line, strict=True)) for line in lines],
        "paired": paired,
        "cells": cells,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(content, indent=1) + "\n")
    return lines, paired


if __name__ == "__main__":
    main()
