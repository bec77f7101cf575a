"""Every model beside the paper's rows: what it reaches, what it costs, and what known labels tell of unknown ones.

    python -m paper.baselines_page                         (needs HOTVAE_DATA_DIR; hours)
    python -m paper.baselines_page --only mlknn ridge --sets yeast --seeds 0 1 2
    python -m paper.baselines_page --sets region           (the virtual region: needs no data)
    python -m paper.baselines_page --render                (only writes the tables of docs/baselines.md)

Tables have Mulan's test rows; a random fifth of Mulan's training rows chooses settings, epochs and thresholds. Every
cell (set, model, seed) runs in a process of its own on one thread, is ended after ``--limit`` CPU seconds, and is
written to ``paper/results/baselines.json`` when it is done: a run that was stopped goes on where it ended. ``cpu``
seconds are those of the process, which other work on the machine lengthens little; ``wall`` seconds are what a clock
shows.
"""

import argparse
import json
import math
import multiprocessing
import os
import platform
import resource
import shlex
import signal
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from hotvae import read_table, split_dataset, virtual_region
from hotvae.estimators.registry import CLASSIFIERS, find_classifier
from hotvae.estimators.thresholds import evaluate, evaluate_protocols
from hotvae.files import write_text
from hotvae.jobs.tune import ONE_THREAD
from hotvae.metrics import log_loss
from paper import DOCS, RESULTS
from paper.cells import timed
from paper.presets import read_preset
from paper.runner import versions
from paper.summaries import replace_marked

SHOWN = {"example_f1": "ebF1", "micro_f1": "miF1", "macro_f1": "maF1", "hamming_accuracy": "HA"}
KEPT = (*SHOWN, "precision_at_1", "median_auc", "log_loss")
PROTOCOLS = {"honest": "honest", "oracle": "oracle", "half": "at 0.5, all rows"}
TABLES = ("yeast", "scene", "bibtex")
REGION = "region"
REGION_SITES = 3000
REGION_MODELS = ("probit", "probit_mlp", "mpvae", "chain", "chain_ensemble")
# Models by the names of cells: those of the package with their defaults, and variants that a page speaks of.
VARIANTS = {
    "probit_mlp": ("probit", {"mean": "mlp"}),
    "c2ae_paper": ("c2ae", {"bce_weight": 0.0}),
    "lamp_by_maf1": ("lamp", {"selection_metric": "macro_f1"}),
    "mpvae_by_maf1": ("mpvae", {"selection_metric": "macro_f1"}),
}
# HOT-VAE's network alone is measured with the paper's recipe, by paper/reproduce.py.
OWN = tuple(name for name in CLASSIFIERS if name != "hotvae_network")
MODELS = {name: (name, {}) for name in OWN} | VARIANTS
FILE = RESULTS / "baselines.json"
PAGE = DOCS / "baselines.md"
# On many sparse columns networks have the widths, dropout and epochs of the preset; every other cell has the
# defaults of its model.
PRESETS = {(model, "bibtex") for model in ("plain", "mpvae", "lamp", "seq2seq", "c2ae")}

# Its textbook value is one of all training rows, and needs no threshold.
ALL_ROWS = {"mlknn"}

# The rows that the HOT-VAE paper prints: ebF1, miF1, maF1, HA.
PAPER = {
    ("mlknn", "yeast"): (0.6176, 0.6252, 0.4716, 0.7835),
    ("mlknn", "scene"): (0.6913, 0.6667, 0.6932, 0.8633),
    ("mlknn", "bibtex"): (0.1826, 0.1782, 0.0727, 0.9853),
    ("sleec", "yeast"): (0.6426, 0.6531, 0.4251, 0.7824),
    ("sleec", "scene"): (0.7184, 0.6993, 0.6990, 0.8937),
    ("sleec", "bibtex"): (0.4490, 0.4074, 0.2937, 0.9818),
    ("c2ae", "yeast"): (0.6142, 0.6258, 0.4272, 0.7635),
    ("c2ae", "scene"): (0.6978, 0.7131, 0.7284, 0.8934),
    ("c2ae", "bibtex"): (0.3346, 0.3884, 0.2680, 0.9867),
    ("seq2seq", "yeast"): (0.5744, 0.5999, 0.4333, 0.8177),
    ("seq2seq", "scene"): (0.7469, 0.7442, 0.7490, 0.9456),
    ("seq2seq", "bibtex"): (0.3930, 0.3840, 0.2820, 0.9850),
    ("lamp", "yeast"): (0.6242, 0.6407, 0.4802, 0.7857),
    ("lamp", "scene"): (0.7279, 0.7156, 0.7449, 0.9025),
    ("lamp", "bibtex"): (0.4469, 0.4733, 0.3763, 0.9876),
    ("mpvae", "yeast"): (0.6479, 0.6554, 0.4817, 0.7920),
    ("mpvae", "scene"): (0.7505, 0.7422, 0.7504, 0.9094),
    ("mpvae", "bibtex"): (0.4534, 0.4800, 0.3863, 0.9875),
}
PAPER |= {(f"{model}_by_maf1", "yeast"): PAPER[model, "yeast"] for model in ("lamp", "mpvae")}
PAPER |= {("c2ae_paper", table): PAPER["c2ae", table] for table in ("yeast", "scene")}
# Differences below this are within what another draw of the test rows would change.
PAPER_TOLERANCE = 0.015


class Asked(NamedTuple):
    """What a model should reach on a table: least values, under one of the protocols that count."""

    model: str
    table: str
    protocols: tuple[str, ...]
    least: dict[str, float]


def _near(values, tolerance):
    return {name: round(value - tolerance, 4) for name, value in zip(SHOWN, values, strict=True)}


ASKED = (
    Asked("mlknn", "yeast", ("half",), {"hamming_accuracy": 0.800}),
    Asked("mlknn", "scene", ("half",), {"hamming_accuracy": 0.900}),
    Asked("kernel_ridge", "yeast", ("honest",), _near((0.653, 0.667, 0.483, 0.802), 0.01)),
    Asked("kernel_ridge", "scene", ("honest",), _near((0.750, 0.759, 0.765, 0.915), 0.012)),
    Asked("ridge", "bibtex", ("honest",), _near((0.445, 0.484, 0.368, 0.988), 0.01)),
    Asked("sleec", "bibtex", ("honest",), {"precision_at_1": 0.63}),
    *(
        Asked(
            model,
            table,
            ("honest", "oracle"),
            {
                name: round(value - PAPER_TOLERANCE, 4)
                for name, value in zip(("example_f1", "micro_f1"), PAPER[model, table][:2], strict=True)
            },
        )
        for model in ("mlknn", "sleec", "c2ae", "c2ae_paper", "seq2seq", "lamp", "mpvae")
        for table in ("yeast", "scene")
    ),
)


# Cells ------------------------------------------------------------------------------------------------------


def mulan_rows(name, seed):
    """Read a table with Mulan's test rows; a random fifth of the training rows validates."""
    path = Path(os.environ["HOTVAE_DATA_DIR"]) / f"{name}.npz"
    data = read_table(path)
    with np.load(path, allow_pickle=False) as file:
        train, test = file["train_idx"], file["test_idx"]
    shuffled = np.random.default_rng(seed).permutation(train)
    n_held = len(train) // 5
    return [(data.features[rows], data.labels[rows]) for rows in (shuffled[n_held:], shuffled[:n_held], test)]


def region_rows(seed):
    """Draw a region, its split, and which half of the test labels is hidden."""
    region = virtual_region(REGION_SITES, random_state=seed)
    data = region.dataset
    split = split_dataset(data, random_state=seed)
    parts = [(data.features[rows], data.labels[rows]) for rows in (split.train, split.validation, split.test)]
    return region, parts, np.random.default_rng(seed).random(parts[2][1].shape) < 0.5


def settings_of(model, name):
    """Return the settings of a cell that are not the defaults of its model."""
    kind, settings = MODELS[model]
    preset = read_preset(name, find_classifier(kind).all_settings()) if (model, name) in PRESETS else {}
    plain = {key: tuple(value) if isinstance(value, list) else value for key, value in preset.items()}
    return {key: value for key, value in plain.items() if key not in ("encoder", "kl_weight")} | settings


def is_measured(name, model):
    """Say whether the pages speak of a model on a set: variants only where there is something to compare."""
    return model in REGION_MODELS if name == REGION else model in OWN or (model, name) in PAPER


def fit_model(key, train, held):
    """Fit the model of a cell and return it with the seconds it took."""
    # The first optimiser of a process loads much of torch; that is nobody's training time.
    find_classifier("plain").from_settings(max_epochs=1, encoder_widths=(4,)).fit([[0.0], [1.0]], [[0], [1]])
    settings = settings_of(key["model"], key["set"])
    kind = find_classifier(MODELS[key["model"]][0])
    fitted = kind.from_settings(random_state=key["seed"], n_threads=1, **settings)
    return timed(lambda: fitted.fit(*train, validation=held))


def run_table(key):
    """Fit one model on one table and measure it under every protocol."""
    train, held, test = mulan_rows(key["set"], key["seed"])
    fitted, fit_seconds = fit_model(key, train, held)
    probs, predict_seconds = timed(lambda: fitted.predict_proba(test[0]))
    measured = evaluate_protocols(test[1], probs, held[1], fitted.predict_proba(held[0]))
    if key["model"] in ALL_ROWS:
        every = (sparse.vstack if sparse.issparse(train[0]) else np.vstack)([train[0], held[0]])
        whole = find_classifier(key["model"])(random_state=key["seed"], validation_fraction=0.0, n_threads=1)
        probs = whole.fit(every, np.vstack([train[1], held[1]])).predict_proba(test[0])
    measured["half"] = evaluate(test[1], probs, 0.5)
    return {
        "fit_seconds": fit_seconds,
        "predict_seconds": predict_seconds,
        **{protocol: {name: round(measured[protocol][name], 5) for name in KEPT} for protocol in PROTOCOLS},
    }


def run_region(key):
    """Fit one model on a region; the log loss of hidden species, alone and given the others."""
    region, (train, held, (features, labels)), hidden = region_rows(key["seed"])
    fitted, fit_seconds = fit_model(key, train, held)
    known, wanted = np.where(hidden, np.nan, labels), np.where(hidden, labels, np.nan)
    probs = {
        "marginal": fitted.predict_proba(features),
        "conditional": fitted.predict_proba(features, given=known),
        "true_marginal": region.marginals_at(features),
        "true_conditional": region.conditional_probs(features, known),
    }
    # A species of the region may be certain; the hidden cells are scored with the same floor for all.
    losses = {name: log_loss(wanted, np.clip(values, 1e-6, 1 - 1e-6)) for name, values in probs.items()}
    return {"fit_seconds": fit_seconds, **{name: round(float(value), 5) for name, value in losses.items()}}


def run_cell(key):
    """Run a cell, whatever its kind."""
    return run_region(key) if key["set"] == REGION else run_table(key)


def _answer(pipe, key, limit):
    # Seconds of this process, not of the clock: other work on the machine must not decide who is too slow. Those that
    # were spent on loading libraries are nobody's.
    most = math.ceil(time.process_time() + limit)
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))
    try:
        pipe.send({"status": "done", **run_cell(key)})
    except Exception as error:  # a model that fails is a result, and the others go on
        pipe.send({"status": "failed", "error": f"{type(error).__name__}: {error}"})


def run_apart(key, limit):
    """Run a cell in a process of its own, which the system ends after so many CPU seconds."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(there, key, limit))
    os.environ.update(ONE_THREAD)  # read by the libraries when they are loaded, which in a new process is after this
    process.start()
    there.close()
    try:
        return here.recv()
    except EOFError:
        process.join()
        if process.exitcode == -signal.SIGXCPU:
            return {"status": "too slow", "limit_seconds": limit}
        return {"status": "failed", "error": "the process ended without an answer"}
    finally:
        process.terminate()
        process.join()


# Results ----------------------------------------------------------------------------------------------------


def read_cells(path):
    """Cells that are there, by set, model and seed."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"] if path.exists() else []
    return {(cell["set"], cell["model"], cell["seed"]): cell for cell in cells}


def write_cells(path, cells):
    """Write all cells with what is needed to repeat them."""
    sets, models = (*TABLES, REGION), list(MODELS)
    ordered = sorted(cells.values(), key=lambda c: (sets.index(c["set"]), models.index(c["model"]), c["seed"]))
    content = {
        "what": "Mulan's test rows, one thread; settings and honest thresholds from a random fifth of the training "
        "rows. Region: half of the species of each test site are known.",
        "processor": platform.processor() or platform.machine(),
        "cells": ordered,
    }
    write_text(path, json.dumps(content, indent=1) + "\n")


def mean_of(cells, *path):
    """Mean over cells of a number inside them."""
    values = []
    for cell in cells:
        value = cell
        for name in path:
            value = value[name]
        values.append(value)
    return float(np.mean(values))


def done_cells(cells, name, model):
    """Cells of a set and a model that were measured."""
    own = [cell for (table, kind, _), cell in cells.items() if (table, kind) == (name, model)]
    return [cell for cell in own if cell["status"] == "done"]


# Tables -----------------------------------------------------------------------------------------------------


def judge(asked, own):
    """Say of every asked measure its best value under the protocols that count, and whether it was reached."""
    best = {name: max(mean_of(own, protocol, name) for protocol in asked.protocols) for name in asked.least}
    return {name: (value, value >= asked.least[name]) for name, value in best.items()}


def sanity_table(cells):
    """Return what each model reaches beside what is asked of it and what the paper prints."""
    lines = [
        "| model | set | seeds | protocol | " + " | ".join(SHOWN.values()) + " | asked | reached | the paper's row |",
        "|---|---|---:|---|" + "---:|" * len(SHOWN) + "---|---|---|",
    ]
    pairs = [(asked.model, asked.table) for asked in ASKED]
    printed_only = [pair for pair in PAPER if pair[0].endswith("_by_maf1")]
    for model, table in dict.fromkeys([*pairs, *printed_only]):
        own = done_cells(cells, table, model)
        if not own:
            continue
        wanted = [asked for asked in ASKED if (asked.model, asked.table) == (model, table)]
        words, verdicts = [], []
        for asked in wanted:
            for name, (value, reached) in judge(asked, own).items():
                shown = {**SHOWN, "precision_at_1": "P@1"}[name]
                place = " at 0.5" if asked.protocols == ("half",) else ""
                words.append(f"{shown}{place} ≥ {asked.least[name]:.3f}")
                verdicts.append(f"{'yes' if reached else 'no'} ({value:.3f})")
        printed = " / ".join(f"{value:.3f}" for value in PAPER.get((model, table), ())) or "-"
        shown_protocols = ["honest", "oracle", *(["half"] if any("half" in a.protocols for a in wanted) else [])]
        for place, protocol in enumerate(shown_protocols):
            values = [f"{mean_of(own, protocol, name):.3f}" for name in SHOWN]
            last = ["; ".join(words) or "-", "; ".join(verdicts) or "-", printed] if place == 0 else ["", "", ""]
            lines.append("| " + " | ".join([model, table, str(len(own)), PROTOCOLS[protocol], *values, *last]) + " |")
    return "\n".join(lines) + "\n"


def _seconds(value):
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def speed_table(cells):
    """Return CPU seconds to fit and to predict, with what the model reaches."""
    sets = ("yeast", "bibtex")
    lines = [
        "| model | " + " | ".join(f"{name}: fit | predict | miF1 | log loss" for name in sets) + " |",
        "|---|" + "---:|" * (4 * len(sets)),
    ]
    for model in OWN:
        columns = []
        for name in sets:
            own = done_cells(cells, name, model)
            rest = [cell for cell in cells.values() if (cell["set"], cell["model"]) == (name, model)]
            if own:
                spent = [_seconds(mean_of(own, what, "cpu")) for what in ("fit_seconds", "predict_seconds")]
                columns += [
                    *spent,
                    f"{mean_of(own, 'honest', 'micro_f1'):.3f}",
                    f"{mean_of(own, 'honest', 'log_loss'):.4f}",
                ]
            else:
                slow = rest and rest[0]["status"] == "too slow"
                columns += [f"> {rest[0]['limit_seconds']:.0f}" if slow else "-", "-", "-", "-"]
        lines.append("| " + " | ".join([model, *columns]) + " |")
    return "\n".join(lines) + "\n"


def region_table(cells):
    """Return the log loss of hidden species, alone and given the others, and how far the truth is from it."""
    names = ("marginal", "conditional", "true_marginal", "true_conditional")
    head = ("model", "regions", "alone", "given the others", "gain", "above the truth: alone", "given", "fit, s")
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    truth = None
    for model in REGION_MODELS:
        own = done_cells(cells, REGION, model)
        if own:
            alone, told, *truth = (mean_of(own, name) for name in names)
            values = (alone, told, alone - told, alone - truth[0], told - truth[1])
            shown = [f"{value:.4f}" for value in values]
            spent = _seconds(mean_of(own, "fit_seconds", "cpu"))
            lines.append("| " + " | ".join([model, str(len(own)), *shown, spent]) + " |")
    if truth:
        lines.append(
            f"| the truth | {len(own)} | {truth[0]:.4f} | {truth[1]:.4f} | {truth[0] - truth[1]:.4f} | 0 | 0 | - |"
        )
    return "\n".join(lines) + "\n"


TABLE_MAKERS = {"sanity": sanity_table, "speed": speed_table, "region": region_table}


def rendered(page, cells):
    """Return the page with its tables made anew."""
    for name, make in TABLE_MAKERS.items():
        page = replace_marked(page, name, f"\n{make(cells)}\n")
    return page


def main(argv=None):
    """Run the cells that are asked for and not done yet, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(MODELS), default=list(MODELS), metavar="MODEL")
    parser.add_argument("--sets", nargs="+", choices=(*TABLES, REGION), default=[*TABLES, REGION])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--limit", type=float, default=3600.0, help="CPU seconds for one cell")
    parser.add_argument("--fresh", action="store_true", help="run the cells asked for anew")
    parser.add_argument("--render", action="store_true", help="write the tables of docs/baselines.md and run nothing")
    parser.add_argument("--results", type=Path, default=FILE, help="another file for the results")
    options = parser.parse_args(argv)
    if options.render:
        write_text(PAGE, rendered(PAGE.read_text(encoding="utf-8"), read_cells(options.results)))
        return
    for name, model, seed in [(n, m, s) for n in options.sets for m in options.only for s in options.seeds]:
        if not is_measured(name, model):
            continue
        before = read_cells(options.results).get((name, model, seed), {"status": "none"})
        tried = before["status"] == "too slow" and before["limit_seconds"] >= options.limit
        if not options.fresh and (before["status"] == "done" or tried):
            continue
        key = {"set": name, "model": model, "seed": seed}
        command = ["python", "-m", "paper.baselines_page", "--only", model, "--sets", name, "--seeds", str(seed)]
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
