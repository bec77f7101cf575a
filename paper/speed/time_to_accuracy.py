"""How long HOT-VAE trains until it is as good as a forest, in fitting times of that forest.

    python -m paper.speed.time_to_accuracy                        (needs HOTVAE_DATA_DIR)
    python -m paper.speed.time_to_accuracy --no-coordinates --name time_to_accuracy_no_coordinates
    python -m paper.speed.time_to_accuracy --set dim=32 max_epochs=20

The table is bbs_like_ebird100 with its own split of rows. 200 extremely randomised trees are fitted for each of four
leaf sizes; validation rows choose one, and the time that counts is that of this one fit alone. Then HOT-VAE is
fitted with the preset of the set, in the same process and on one thread. After each epoch the weights that would be
kept are copied aside; when training is over they are measured on the test rows, so that looking costs no time. The
moment of an epoch is everything since ``fit`` was called: checks, scaling, all steps and the validation of every epoch
so far, less the copying. What is learned when the epochs are over (how to go on once labels are given, what labels
have in common beyond the features) changes no probability and is left out.

Seconds are CPU time of the process: on one thread they are what a clock would show if nobody else had the core.

Two answers are written to ``paper/results/time_to_accuracy.json``: the first epoch whose test log loss is at or
below the forest's, and, for those who may not look at test rows, the first whose validation log loss is at or below
the forest's validation log loss.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.ensemble import ExtraTreesClassifier

from hotvae import HotVAENetwork
from hotvae.estimators.threshold_tuner import label_probs
from hotvae.files import write_text
from hotvae.jobs.settings import parse_assignments, train_settings
from hotvae.metrics import log_loss
from hotvae.net.model import HotVAE
from paper import RESULTS
from paper.presets import COORDINATES, read_preset
from paper.speed.steps import provenance

LEAF_SIZES = (1, 3, 5, 10)
TABLE = "bbs_like_ebird100.npz"


class WatchedNet(HotVAE):
    """HOT-VAE that keeps a copy of the weights each epoch was judged by.

    The training loop asks the network for predictions once an epoch, on the validation rows and with the averaged
    weights: that is the moment to copy them.
    """

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.kept, self.copying, self.began, self.judged = [], [], [], True

    def predict(self, features, base_logits=None):
        """Predict, and copy the weights where a step was made since the last time."""
        if not self.judged:
            started = time.process_time()
            self.kept.append({name: tensor.clone() for name, tensor in self.state_dict().items()})
            self.copying.append(time.process_time() - started)
            self.judged = True
        return super().predict(features, base_logits)

    def begin_epoch(self, epoch):
        """Note the time: where one epoch begins, or none, the last one has ended."""
        self.began.append(time.process_time())
        super().begin_epoch(epoch)

    def loss(self, features, labels, base_logits=None):
        """Note that a step is made: the next prediction judges new weights."""
        self.judged = False
        return super().loss(features, labels, base_logits)


class WatchedHotVAE(HotVAENetwork):
    """The classifier of a watched network."""

    network_class = WatchedNet


def read_rows(folder, coordinates):
    """Read the table and the rows that train, choose and test."""
    with np.load(Path(folder) / TABLE, allow_pickle=False) as file:
        features, labels, split = file["X"].astype(np.float64), file["Y"].astype(np.int64), file["split"]
        if coordinates:
            features = np.column_stack([features, file["coords"]])
    return {
        name: (features[split == part], labels[split == part]) for part, name in enumerate(("train", "held", "test"))
    }


def fit_forest(rows, n_trees, seed):
    """Fit a forest for every leaf size and return the numbers of the one that validation rows like best."""
    fits = []
    for leaf in LEAF_SIZES:
        forest = ExtraTreesClassifier(n_trees, min_samples_leaf=leaf, random_state=seed, n_jobs=1)
        started = time.process_time()
        forest.fit(*rows["train"])
        seconds = time.process_time() - started
        losses = {part: float(log_loss(rows[part][1], label_probs(forest, rows[part][0]))) for part in ("held", "test")}
        fits.append(
            {"min_samples_leaf": leaf, "seconds": seconds, "validation": losses["held"], "test": losses["test"]}
        )
        print(f"forest  {fits[-1]}", file=sys.stderr, flush=True)
    return min(fits, key=lambda fit: fit["validation"]), fits


def fit_watched(rows, parameters):
    """Fit HOT-VAE and return the moment, validation and test log loss of every epoch, and the fitted model."""
    model = WatchedHotVAE.from_settings(**parameters)
    started = time.process_time()
    model.fit(*rows["train"], validation=rows["held"])
    total = time.process_time() - started
    network, records = model.network_, model.history_.records
    moments = np.array(network.began[1:]) - started - np.cumsum(network.copying[: len(records)])
    last = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    curve = []
    for record, moment, weights in zip(records, moments, network.kept, strict=False):
        network.load_state_dict(weights)
        test = float(log_loss(rows["test"][1], model.predict_proba(rows["test"][0])))
        curve.append(
            {"epoch": record["epoch"], "seconds": float(moment), "test": test}
            | {"validation": record["validation_log_loss"]}
        )
    network.load_state_dict(last)
    return model, curve, total


def first_reach(curve, key, goal, forest_seconds):
    """Return the first epoch at or below the goal and its time in forests; None if there is none."""
    for entry in curve:
        if entry[key] <= goal:
            return entry | {"ratio": entry["seconds"] / forest_seconds}
    return None


def main(argv=None):
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="parameters of HotVAENetwork")
    parser.add_argument("--no-coordinates", action="store_true", help="leave the coordinates out of the features")
    parser.add_argument("--no-preset", action="store_true", help="begin with the defaults, not with the preset")
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", default="time_to_accuracy", help="results go to <name>.json")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    defaults = HotVAENetwork.all_settings()
    parameters = {"random_state": options.seed, "n_threads": 1, "device": "cpu"}
    parameters |= {"given_epochs": 0, "covariance_epochs": 0}
    preset = {} if options.no_preset else read_preset(Path(TABLE).stem, defaults)
    preset.pop(COORDINATES, None)  # --no-coordinates decides
    given = (("preset", preset), ("--set", parse_assignments(options.set)))
    parameters |= train_settings(defaults, *given).parameters
    rows = read_rows(os.environ["HOTVAE_DATA_DIR"], not options.no_coordinates)
    forest, forests = fit_forest(rows, options.trees, options.seed)
    model, curve, total = fit_watched(rows, parameters)
    best = curve[model.history_.best_epoch - 1]
    reached = first_reach(curve, "test", forest["test"], forest["seconds"])
    chosen = first_reach(curve, "validation", forest["validation"], forest["seconds"])
    content = provenance(options.seed) | {
        "table": TABLE,
        "coordinates": not options.no_coordinates,
        "parameters": {name: repr(value) for name, value in parameters.items()},
        "forest": forest,
        "forests": forests,
        "reached": reached,
        "reached_on_validation_rows": chosen,
        "ratio": None if reached is None else reached["ratio"],
        "kept": best | {"fit_seconds": total, "stopped": model.history_.stopped},
        "curve": curve,
    }
    write_text(options.out / f"{options.name}.json", json.dumps(content, indent=1) + "\n")
    print(
        f"forest: test log loss {forest['test']:.4f} after {forest['seconds']:.1f} s "
        f"({options.trees} trees, {forest['min_samples_leaf']} rows a leaf)"
    )
    print(
        f"HOT-VAE: test log loss {best['test']:.4f} (kept epoch {best['epoch']} of {len(curve)}, {total:.1f} s in all)"
    )
    for what, hit in (("test", reached), ("validation", chosen)):
        answer = "never" if hit is None else f"epoch {hit['epoch']}, {hit['seconds']:.1f} s, {hit['ratio']:.2f} forests"
        print(f"as good as the forest on {what} rows: {answer}")


if __name__ == "__main__":
    main()
