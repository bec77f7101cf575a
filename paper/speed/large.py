"""Tables that are large in one direction: 3,000 labels, 200,000 sparse columns, a page of 1,000 labels.

    python -m paper.speed.large
    python -m paper.speed.large --parts page     (one of its parts: labels, columns, page)
    python -m paper.speed.large --share 0.02     (a small version, which is printed and not stored)
    python -m paper.speed.large --render         (writes the table of docs/performance.md)

Each command of hotvae runs in a process of its own with one thread; what it took is what the system says of it. Labels
follow drawn columns, so that there is something to learn; how well it is learned does not matter here.

Writes ``paper/results/large.json``, part by part: a run that was stopped goes on with the parts that lack.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse

from hotvae.files import write_text
from paper import DOCS, RESULTS
from paper.runner import provenance
from paper.summaries import markdown_table, replace_marked

FILE, PAGE = RESULTS / "large.json", DOCS / "performance.md"
PARTS = ("labels", "columns", "page")


def run(title, *words):
    """Run a command of hotvae; return what it took, and the size of what it wrote."""
    command = [sys.executable, "-m", "hotvae", *map(str, words)]
    silent = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    child = os.posix_spawn(command[0], command, {**os.environ, "OMP_NUM_THREADS": "1"}, file_actions=[silent])
    _, status, used = os.wait4(child, 0)
    if status:
        raise SystemExit(f"{title}: exit code {os.waitstatus_to_exitcode(status)}")
    out = Path(words[words.index("--out") + 1])
    files = [out] if out.is_file() else [file for file in out.rglob("*") if file.is_file()]
    found = {
        "what": title,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak": used.ru_maxrss * 1024,
        "size": sum(file.stat().st_size for file in files),
    }
    print(
        f"{title}: {found['cpu_seconds']:.0f} CPU s, {found['peak'] / 1e6:.0f} MB, {found['size'] / 1e6:.1f} MB",
        flush=True,
    )
    return found


def drawn_table(path, n_rows, n_labels, seed=0):
    """Write a table of 20 columns and labels that follow them."""
    draw = np.random.default_rng(seed)
    X = draw.normal(size=(n_rows, 20))
    logits = X @ draw.normal(size=(20, n_labels)) / 3 + draw.normal(-1, 1, size=n_labels)
    labels = (draw.random((n_rows, n_labels)) < 1 / (1 + np.exp(-logits))).astype(np.int8)
    labels[0], labels[1] = 1, 0  # both classes are there
    columns = [*(f"x{i}" for i in range(20)), *(f"sp_{i}" for i in range(n_labels))]
    pd.DataFrame(np.hstack([X.round(4), labels]), columns=columns).to_parquet(path, index=False)
    return path


def sparse_table(path, n_rows, n_columns, n_labels=50, seed=0):
    """Write an npz of rows with 60 words each, and labels that follow the first words."""
    draw = np.random.default_rng(seed)
    places = draw.integers(0, n_columns, (n_rows, 60)) ** 2 // n_columns  # some words are frequent
    X = sparse.csr_array(
        (np.ones(places.size), (np.repeat(np.arange(n_rows), 60), places.ravel())), (n_rows, n_columns)
    )
    X.data[:] = 1.0
    group = places[:, :20] % n_labels
    labels = np.stack([(group == label).sum(axis=1) > 0 for label in range(n_labels)], axis=1).astype(np.int8)
    labels[0], labels[1] = 1, 0
    np.savez(path, X_data=X.data, X_indices=X.indices, X_indptr=X.indptr, X_shape=np.array(X.shape), Y=labels)
    return path


def measure(part, share):
    """Run a part at a share of its size."""

    def some(number):
        return max(120, int(number * share))

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        labels = ("--labels", "sp_*", "--quiet")
        if part == "labels":
            table, n_labels = drawn_table(folder / "wide.parquet", some(4000), some(3000)), f"{some(3000):,} labels"
            out = folder / "probs.parquet"
            return [
                run(f"train, {n_labels}", "train", table, *labels, "--out", folder / "wide"),
                run(f"predict, {n_labels}", "predict", folder / "wide", table, "--out", out),
            ]
        if part == "columns":
            table = sparse_table(folder / "words.npz", some(10_000), some(200_000))
            title = f"train, {some(200_000):,} sparse columns"
            return [run(title, "train", table, "--quiet", "--out", folder / "words")]
        table, n_labels = drawn_table(folder / "page.parquet", some(2000), some(1000)), f"{some(1000):,} labels"
        out = folder / "page.html"
        return [
            run(f"train, {n_labels}", "train", table, *labels, "--out", folder / "many"),
            run(f"page of {n_labels}", "explain", folder / "many", table, "--out", out, "--quiet"),
        ]


def render(stored):
    """Write the table of the page."""
    rows = [
        [each["what"], f"{each['cpu_seconds']:,.0f}", f"{each['peak'] / 1e6:,.0f}", f"{each['size'] / 1e6:,.1f}"]
        for part in PARTS
        for each in stored["parts"].get(part, {}).get("runs", [])
    ]
    table = markdown_table(["command", "CPU s", "peak MB", "MB written"], rows)
    dates = sorted(part["date"][:10] for part in stored["parts"].values())
    text = f"{table}\nCommand: `python -m paper.speed.large`, {dates[-1]}.\n"
    write_text(PAGE, replace_marked(PAGE.read_text(encoding="utf-8"), "large", text))


def main():
    """Measure and store, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--share", type=float, default=1.0, help="share of the sizes; only all of it is stored")
    parser.add_argument("--render", action="store_true", help="only write the page")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="which parts, anew (all that lack)")
    asked = parser.parse_args()
    stored = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {"parts": {}}
    for part in () if asked.render else asked.parts:
        if part in stored["parts"] and asked.parts is PARTS and asked.share == 1:
            continue
        found = {**provenance(0), "runs": measure(part, asked.share)}
        if asked.share == 1:
            stored["parts"][part] = found
            write_text(FILE, json.dumps(stored, indent=1) + "\n")
    if stored["parts"]:
        render(stored)


if __name__ == "__main__":
    main()
