"""What known labels tell of unknown ones: log loss and AUC of the rest with 0, 10, 25 and 50 % of the labels known.

    python -m paper.conditional_page                       (needs HOTVAE_DATA_DIR; hours)
    python -m paper.conditional_page --sets norberg_butterfly --models hotvae probit --seeds 0
    python -m paper.conditional_page --quick               (a smoke run in a minute or two; nothing is kept)
    python -m paper.conditional_page --render              (only writes the tables of docs/conditional.md)

Rows are split as the catalogue says. HOT-VAE finds its own recipe; its network alone has the preset of the set, or of
one like it. Every model sees the same columns. Which labels of a test row are known is drawn five times for each share,
the same for every model. Every cell (set, model, seed) runs in a process of its own on one thread, is ended after
``--limit`` seconds, and is written to ``paper/results/conditional.json`` when it is done: a run that was stopped goes
on where it ended.

Two conditioners stand beside the models of the package, as plain as they can be written: the logits of a plain network
plus a matrix times the surprises ``y - p`` of the known labels, or plus a perceptron of surprises, mask and ``p``.
"""

import argparse
import json
import multiprocessing
import os
import platform
import shlex
import warnings
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from torch import nn

from hotvae.baselines.plain import PlainNetClassifier
from hotvae.config import NetConfig
from hotvae.data.catalog import load
from hotvae.data.dataset import Dataset
from hotvae.errors import DataWarning
from hotvae.estimators.registry import find_classifier
from hotvae.features import Rows
from hotvae.files import write_text
from hotvae.jobs.tune import ONE_THREAD
from hotvae.metrics import known_part, log_loss, mean_auc
from hotvae.metrics.joint import SURE
from hotvae.net.conditional import split_labels
from hotvae.net.losses import bce_loss
from hotvae.net.model import PlainNet
from hotvae.training.prediction import predict_network, torch_threads
from paper import DOCS, RESULTS
from paper.baselines_page import done_cells, read_cells
from paper.cells import timed
from paper.presets import COORDINATES, PRESET_OF, read_preset
from paper.runner import versions
from paper.summaries import replace_marked

SETS = ("norberg_butterfly", "bbs2011_wilkinson", "bbs_like_ebird100")
SHARES = (0.0, 0.1, 0.25, 0.5)
N_MASKS = 5
SEEDS = (0, 1, 2)
FILE = RESULTS / "conditional.json"
PAGE = DOCS / "conditional.md"
QUICK_ROWS = 120


# The plain conditioners -------------------------------------------------------------------------------------


class MatrixPart(nn.Module):
    """A matrix times the surprises of the known labels."""

    def __init__(self, n_labels):
        super().__init__()
        self.weight = nn.Linear(n_labels, n_labels, bias=False)
        nn.init.zeros_(self.weight.weight)

    def forward(self, surprise, known, probs):
        """Return what is added to the logits."""
        return self.weight(surprise)


class PerceptronPart(nn.Module):
    """A perceptron of surprises, mask and probabilities."""

    def __init__(self, n_labels, width=256):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3 * n_labels, width), nn.ReLU(), nn.Linear(width, n_labels))
        nn.init.zeros_(self.layers[-1].weight)
        nn.init.zeros_(self.layers[-1].bias)

    def forward(self, surprise, known, probs):
        """Return what is added to the logits; nothing where nothing is known."""
        return self.layers(torch.cat([surprise, known, probs], dim=-1)) * (known.sum(-1, keepdim=True) > 0)


class ConditionerNet(nn.Module):
    """A plain network and what known labels add to its logits; rows are features beside known labels (NaN: unknown)."""

    def __init__(self, plain, part, n_features):
        super().__init__()
        self.plain, self.part, self.n_features = plain, part, n_features

    def logits(self, features, labels):
        """Return logits from the features alone, and with the known labels."""
        base = self.plain(features)
        probs = base.detach().sigmoid()
        surprise = torch.nan_to_num(labels - probs, nan=0.0)
        return base, base + self.part(surprise, (~torch.isnan(labels)).to(probs.dtype), probs)

    def loss(self, table, labels, base_logits=None):
        """Return the cross entropy of all labels alone, and of some of them given the others."""
        given, target = split_labels(labels)
        alone, together = self.logits(table[:, : self.n_features], given)
        return {"alone": bce_loss(alone, labels), "given": bce_loss(together, target)}

    def predict(self, table, base_logits=None):
        """Return probabilities of the batch, given what its rows tell."""
        return self.logits(table[:, : self.n_features], table[:, self.n_features :])[1].sigmoid()


class Conditioner(PlainNetClassifier):
    """A plain network that can be given labels; a subclass says by what."""

    conditional = True
    part = MatrixPart

    def _build(self, n_features, n_labels, graph, initial_logits):
        plain = PlainNet(n_features, n_labels, self._config(NetConfig), None, initial_logits)
        return ConditionerNet(plain, self.part(n_labels), n_features)

    def _weights(self):
        return {"alone": 1.0, "given": 1.0}

    def _learn(self, train, validation, seed):
        # The epoch is chosen by both tasks: validation rows alone, and one half of their labels given the other.
        hidden = np.random.default_rng(seed).random(validation.labels.shape) < 0.5
        alone = self._beside(validation.features)
        given = self._beside(validation.features, np.where(hidden, np.nan, validation.labels))
        target = np.where(hidden, validation.labels, np.nan)
        held = Rows(np.vstack([alone, given]), np.vstack([validation.labels, target]))
        super()._learn(Rows(self._beside(train.features), train.labels), held, seed)

    def _beside(self, features, known=None):
        table = np.full((len(features), self.n_labels_), np.nan) if known is None else known
        return np.hstack([features, table]).astype(self._dtype())

    def _probs(self, rows):
        return self._probs_given(rows, None)

    def _probs_given(self, rows, given):
        with torch_threads(self._training().n_threads):
            return predict_network(self.network_.predict, self._beside(rows.features, given))


class MatrixConditioner(Conditioner):
    """Base logits plus a matrix times the surprises."""


class PerceptronConditioner(Conditioner):
    """Base logits plus a perceptron of 256 units."""

    part = PerceptronPart


# How rows are read, and the shape of the perceptron: for every network that HOT-VAE is compared with.
READING = ("clamp", "spatial_units", "spatial_columns")
ENCODER = (*READING, "encoder_widths", "encoder_dropout", "latent_dim")
# A matrix that starts at nothing needs many steps: small sets get more of them.
STEPS = {"learning_rate": 3e-3, "max_epochs": 60, "patience": 20}
MORE_STEPS = {"max_epochs": 200, "patience": 60, "batch_size": 32}
SMALL_SETS = ("norberg_butterfly", "bbs2011_wilkinson")
# By the names of cells: class, settings, and which settings come from the preset of the set.
MODELS = {
    "hotvae": (find_classifier("hotvae"), {}, ()),
    "hotvae_network": (find_classifier("hotvae_network"), {}, None),
    # The paper's label branch, which is given everything in training and nothing afterwards: what the masks cost.
    "hotvae_untold": (find_classifier("hotvae_network"), {"conditional": False}, None),
    "probit": (find_classifier("probit"), {}, READING),
    "probit_mlp": (find_classifier("probit"), {"mean": "mlp"}, READING),
    # Fewer chains and penalties than its defaults: a chain of 370 species takes half a minute.
    "chain_ensemble": (find_classifier("chain_ensemble"), {"n_chains": 5, "penalties": (0.1, 0.3, 1.0)}, ()),
    "matrix": (MatrixConditioner, STEPS, ENCODER),
    "perceptron": (PerceptronConditioner, STEPS, ENCODER),
}
TITLES = {
    "hotvae": "HOT-VAE",
    "hotvae_network": "HOT-VAE network, tuned by hand",
    "hotvae_untold": "the same, not trained for it",
    "probit": "probit JSDM",
    "probit_mlp": "probit JSDM, perceptron mean",
    "chain_ensemble": "ensemble of 5 chains",
    "matrix": "plain network + matrix",
    "perceptron": "plain network + perceptron",
}


def settings_of(model, name):
    """Return the settings of a cell that are not the defaults of its model."""
    cls, settings, taken = MODELS[model]
    preset = read_preset(PRESET_OF.get(name, name), cls.all_settings())
    plain = {key: tuple(value) if isinstance(value, list) else value for key, value in preset.items()}
    plain.pop(COORDINATES, None)  # belongs to the rows, for every model
    more = MORE_STEPS if issubclass(cls, Conditioner) and name in SMALL_SETS else {}
    return {key: value for key, value in plain.items() if taken is None or key in taken} | settings | more


# Cells ------------------------------------------------------------------------------------------------------


def rows_of(name, seed, whole=False):
    """Read a set: features and labels of its training, validation and test rows; whole, data sets are the features."""
    named = load(name, seed=seed)
    data = named.dataset
    if read_preset(PRESET_OF.get(name, name), ()).get(COORDINATES) and not whole:
        data = data.with_coordinates_as_features()
    parts = [data.take(rows) for rows in (named.split.train, named.split.validation, named.split.test)]
    if whole:
        return [(part, np.asarray(part.labels)) for part in parts]
    return [(np.asarray(part.features, dtype=np.float64), np.asarray(part.labels)) for part in parts]


def score_unknown(labels, known, probs):
    """Return log loss and mean AUC of the labels that are not known."""
    asked = np.where(np.isnan(known), labels, np.nan)
    clipped = np.clip(probs.astype(np.float64), SURE, 1 - SURE)
    return {"log_loss": log_loss(asked, clipped), "mean_auc": mean_auc(asked, clipped)}


def _first(part):
    """Take the first rows of an array or a data set."""
    return part.take(slice(QUICK_ROWS)) if isinstance(part, Dataset) else part[:QUICK_ROWS]


def run_cell(key, quick=False):
    """Fit one model on one set and tell it more and more."""
    settings = settings_of(key["model"], key["set"])
    cls = MODELS[key["model"]][0]
    train, held, test = rows_of(key["set"], key["seed"], whole=cls.holds_out_itself)
    if quick:
        train, held, test = ((_first(part), labels[:QUICK_ROWS]) for part, labels in (train, held, test))
        few = {
            "effort": "quick",
            "max_epochs": 2,
            "direct_epochs": 0,
            "given_epochs": 1,
            "covariance_epochs": 1,
            "n_chains": 1,
        }
        settings |= {name: value for name, value in few.items() if name in cls.all_settings()}
    model = cls.from_settings(random_state=key["seed"], n_threads=1, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # species that training rows never have
        whole = cls.holds_out_itself
        _, fit_seconds = timed(lambda: model.fit(train[0], None if whole else train[1], held[0] if whole else held))
    alone = model.predict_proba(test[0])
    shares, told_seconds = [], []
    for share in SHARES if model.conditional else (0.0,):
        for mask in range(N_MASKS if share else 1):
            known = known_part(test[1], share, mask)
            given = known if model.conditional else None
            probs, seconds = timed(lambda given=given: model.predict_proba(test[0], given=given))
            told_seconds.append(seconds["cpu"])
            scores = score_unknown(test[1], known, probs)
            before = score_unknown(test[1], known, alone)
            found = scores | {f"alone_{what}": value for what, value in before.items()}
            shares.append({"share": share, "mask": mask} | {what: round(value, 6) for what, value in found.items()})
    return {
        "n_rows": [len(part[1]) for part in (train, held, test)],
        "n_labels": test[1].shape[1],
        "fit_seconds": fit_seconds,
        "predict_seconds": round(float(np.median(told_seconds)), 3),
        "shares": shares,
    }


def _answer(pipe, key, quick):
    try:
        pipe.send({"status": "done", **run_cell(key, quick)})
    except Exception as error:  # a model that fails is a result, and the others go on
        pipe.send({"status": "failed", "error": f"{type(error).__name__}: {error}"})


def run_apart(key, limit, quick=False):
    """Run a cell in a process of its own and end it after the limit."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(there, key, quick))
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


# Results ----------------------------------------------------------------------------------------------------


def write_cells(path, cells):
    """Write all cells with what is needed to repeat them."""
    models = list(MODELS)
    ordered = sorted(cells.values(), key=lambda c: (SETS.index(c["set"]), models.index(c["model"]), c["seed"]))
    content = {
        "what": "Log loss and mean AUC of the labels of test rows that are not known, one thread; a share of the "
        "labels of each row is known, drawn anew for every mask; alone_: the same labels without being told.",
        "processor": platform.processor() or platform.machine(),
        "cells": ordered,
    }
    write_text(path, json.dumps(content, indent=1) + "\n")


def by_share(own, what):
    """Mean over seeds and masks at each share; NaN where a model cannot be told."""
    found = {share: [e[what] for cell in own for e in cell["shares"] if e["share"] == share] for share in SHARES}
    return [float(np.mean(values)) if values else np.nan for values in found.values()]


# Tables -----------------------------------------------------------------------------------------------------


def set_table(cells, name):
    """Return the table of one set, the best of each column in bold."""
    heads = [f"{word}, {share:.0%} known" for word in ("log loss", "AUC") for share in SHARES]
    measured = {model: own for model in MODELS if (own := done_cells(cells, name, model))}
    columns = {model: [*by_share(own, "log_loss"), *by_share(own, "mean_auc")] for model, own in measured.items()}
    lines = ["| model | seeds | " + " | ".join(heads) + " | fit, s |", "|---|" + "---:|" * (len(heads) + 2)]
    n_losses = len(SHARES)
    for model, own in measured.items():
        shown = []
        for place, value in enumerate(columns[model]):
            rivals = [round(other[place], 4) for other in columns.values() if not np.isnan(other[place])]
            best = min(rivals) if place < n_losses else max(rivals)
            text = "–" if np.isnan(value) else f"{value:.4f}"
            shown.append(f"**{text}**" if round(value, 4) == best and len(rivals) > 1 else text)
        spent = np.mean([cell["fit_seconds"]["cpu"] for cell in own])
        lines.append("| " + " | ".join([TITLES[model], str(len(own)), *shown, f"{spent:.0f}"]) + " |")
    return "\n".join(lines) + "\n" + verdicts(columns)


def verdicts(columns):
    """Say against each rival at how many shares HOT-VAE is ahead."""
    first = next((model for model in ("hotvae", "hotvae_network") if model in columns), None)
    if first is None or len(columns) < 2:
        return ""
    own, n_shares = columns[first], len(SHARES)
    lines = []
    for model, values in columns.items():
        if model != first:
            n_told = n_shares - sum(np.isnan(values[:n_shares]))
            losses = sum(own[i] < values[i] for i in range(n_shares))
            aucs = sum(own[i] > values[i] for i in range(n_shares, 2 * n_shares))
            lines.append(f"{TITLES[model]}: log loss {losses} of {n_told}, AUC {aucs} of {n_told}")
    return f"\n{TITLES[first]} is ahead of – {'; '.join(lines)}.\n"


def render(cells):
    """Return the tables of the page."""
    parts = []
    for name in SETS:
        own = [cell for cell in cells.values() if cell["set"] == name and cell["status"] == "done"]
        if own:
            n_train, n_held, n_test = own[0]["n_rows"]
            sizes = f"{own[0]['n_labels']} species; {n_train} + {n_held} rows to learn from, {n_test} test rows"
            parts.append(f"### {name}\n\n{sizes}.\n\n{set_table(cells, name)}")
        missing = [TITLES[model] for model in MODELS if own and not done_cells(cells, name, model)]
        if missing:
            parts.append(f"Not measured here: {'; '.join(missing)}.\n")
    return "\n".join(parts) or "Not measured yet.\n"


def rendered(page, cells):
    """Return the page with its tables made anew."""
    return replace_marked(page, "conditional", f"\n{render(cells)}\n")


def main(argv=None):
    """Run the cells that are asked for and not done yet, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS), metavar="MODEL")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for one cell")
    parser.add_argument("--fresh", action="store_true", help="run the cells asked for anew")
    parser.add_argument("--quick", action="store_true", help="few rows, two epochs; print what comes out, keep nothing")
    parser.add_argument("--render", action="store_true", help="write the tables of docs/conditional.md and run nothing")
    parser.add_argument("--results", type=Path, default=FILE, help="another file for the results")
    options = parser.parse_args(argv)
    if options.render:
        write_text(PAGE, rendered(PAGE.read_text(encoding="utf-8"), read_cells(options.results)))
        return
    # Seed by seed, so that a run that is stopped has every model.
    for name, seed, model in [(n, s, m) for n in options.sets for s in options.seeds for m in options.models]:
        key = {"set": name, "model": model, "seed": seed}
        if options.quick:
            cell = run_apart(key, options.limit, quick=True)
            losses = by_share([cell], "log_loss") if cell["status"] == "done" else cell
            print(f"{name}  {model}  seed {seed}  {cell['status']}  {losses}", flush=True)
            continue
        before = read_cells(options.results).get((name, model, seed), {"status": "none"})
        tried = before["status"] == "too slow" and before["limit_seconds"] >= options.limit
        if not options.fresh and (before["status"] == "done" or tried):
            continue
        command = ["python", "-m", "paper.conditional_page", "--sets", name, "--models", model, "--seeds", str(seed)]
        cell = key | {
            "command": shlex.join(command),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": versions(),
            "settings": settings_of(model, name),
            **run_apart(key, options.limit),
        }
        # Read again: another run may have added cells in the meantime.
        write_cells(options.results, read_cells(options.results) | {(name, model, seed): cell})
        print(f"{name}  {model}  seed {seed}  {cell['status']}  {cell.get('error', '')}".rstrip(), flush=True)


if __name__ == "__main__":
    main()
