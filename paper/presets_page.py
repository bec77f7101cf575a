"""What HOT-VAE's network costs and reaches on each named set with settings tuned by hand: one seed, one process each.

    python -m paper.presets_page                      (needs HOTVAE_DATA_DIR, or hotvae data get)
    python -m paper.presets_page --only yeast scene
    python -m paper.presets_page --render             (writes the table of docs/encoders.md)

Writes ``paper/results/presets.json``. Finished sets are kept, so a run that was stopped goes on where it ended;
``--fresh`` starts over.
"""

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from hotvae.estimators.registry import find_classifier, load_model
from hotvae.files import write_text
from paper import DOCS, RESULTS
from paper.presets import COORDINATES, read_preset
from paper.runner import versions
from paper.summaries import replace_marked

SETS = (
    "yeast",
    "scene",
    "sider",
    "norberg_birds",
    "bibtex",
    "reuters",
    "mirflickr_tags",
    "bbs_like_ebird100",
    "delicious",
)
SHOWN = {"example_f1": "ebF1", "micro_f1": "miF1", "macro_f1": "maF1", "hamming_accuracy": "HA"}
FILE = RESULTS / "presets.json"
PAGE = DOCS / "encoders.md"
EARLIER = "Measured with earlier defaults of what the preset leaves open; the command gives other numbers today."
# What the network did before there was a setting for it.
BEFORE = {"latent_dim": 0, "weights": "tfidf", "clamp": False, "spatial_units": 0, "spatial_columns": [-2, -1]} | {
    "spatial_degrees": False
}


def preset_of(name):
    """Return the settings of a set."""
    return read_preset(name, find_classifier("hotvae_network").all_settings())


def train(name, threads, extra):
    """Train one set in a process of its own and return what it reports, with the time of each epoch."""
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        # Coordinates are features on the command line, without being asked for.
        preset = {key: value for key, value in preset_of(name).items() if key != COORDINATES}
        lines = [f"{key} = {json.dumps(value)}" for key, value in preset.items()]
        Path(folder, f"{name}.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        command = ["hotvae", "train", "--data", name, "--recipe", "network", "--config", f"{name}.toml"]
        command += ["--out", "model", "--threads", str(threads), *extra]
        arguments = [sys.executable, "-m", "hotvae", *command[1:], "--json"]
        done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{name}: {done.stderr.strip()}")
        cell = json.loads(done.stdout)
        fitted = load_model(model)
    settings = fitted.current_settings()
    seconds = fitted.history_.column("seconds")
    n_direct = settings["direct_epochs"]
    return {
        "set": name,
        "command": shlex.join(command),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": settings["random_state"],
        "settings": settings,
        "seconds": cell["seconds"],
        "direct_epoch_seconds": round(sorted(seconds[:n_direct])[n_direct // 2], 2) if n_direct else None,
        "epoch_seconds": round(sorted(seconds[n_direct:])[(len(seconds) - n_direct) // 2], 2)
        if len(seconds) > n_direct
        else None,
        "peak_memory_gb": cell["peak_memory_gb"],
        **{key: cell[key] for key in ("n_train", "n_validation", "n_labels", "best_epoch", "n_epochs", "test")},
    }


def is_current(cell):
    """Say whether a run had the settings that its command has today; defaults change, results stay."""
    preset = {key: value for key, value in preset_of(cell["set"]).items() if key != COORDINATES}
    today = find_classifier("hotvae_network").from_settings(**preset).current_settings()
    of_run = {"n_threads", "random_state", "progress", "state_file"}
    had = BEFORE | cell["settings"]
    return all(had.get(name, "none") == today[name] for name in today.keys() - of_run)


def render(cells):
    """Return the table of the page."""
    lines = [
        "| set | encoder | epoch (direct / with messages) | all | memory | ebF1 | miF1 | maF1 | HA | log loss |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for cell in cells:
        spent = [
            "-" if cell[key] is None else f"{cell[key]:.1f} s" for key in ("direct_epoch_seconds", "epoch_seconds")
        ]
        mark = "" if is_current(cell) else " *"
        values = [f"{cell['test'][name]:.3f}" for name in SHOWN] + [f"{cell['test']['log_loss']:.4f}"]
        lines.append(
            f"| {cell['set']}{mark} | {cell['settings']['encoder']} | {' / '.join(spent)} | {cell['seconds']:.0f} s "
            f"| {cell['peak_memory_gb']:.2f} GB | {' | '.join(values)} |"
        )
    if not all(map(is_current, cells)):
        lines += ["", "\\* " + EARLIER]
    return "\n".join(lines) + "\n"


def main():
    """Run what is missing, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--epochs", type=int, help="for a quick trial; the result is printed, not kept")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--render", action="store_true")
    options = parser.parse_args()
    kept = json.loads(FILE.read_text(encoding="utf-8"))["cells"] if FILE.exists() else []
    if options.render:
        write_text(PAGE, replace_marked(PAGE.read_text(encoding="utf-8"), "presets", f"\n{render(kept)}\n"))
        return
    for name in options.only:
        if not options.fresh and not options.epochs and any(cell["set"] == name for cell in kept):
            continue
        extra = ["--epochs", str(options.epochs), "--set", "direct_epochs=0"] if options.epochs else []
        cell = train(name, options.threads, extra)
        print(render([cell]).splitlines()[2], flush=True)
        if options.epochs:
            continue
        kept = sorted([c for c in kept if c["set"] != name] + [cell], key=lambda c: SETS.index(c["set"]))
        result = {"versions": versions(), "threads": options.threads, "cells": kept}
        write_text(FILE, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
