"""A long table through a model: Parquet to Parquet in constant memory, killed half-way and resumed.

    python -m paper.speed.stream
    python -m paper.speed.stream --rows 100000
    python -m paper.speed.stream --render        (writes the table of docs/performance.md)

A table of drawn numbers is written (1,000,000 rows x 10 columns) and HOT-VAE's default with 100 labels trained on a few
rows: its accuracy does not matter here, its prediction takes the same path as any other. Then ``predict_stream``, which
is what ``hotvae predict`` calls, runs over a tenth of the table and over all of it, each in a process of its own with
one thread. The long one is ended by SIGKILL once half of the pieces are there, and started again. Written down: the
highest resident memory of each process and what it was after each piece, CPU seconds, rows a CPU second, pieces the
second process found and how often it told of its progress; whether the result is whole: ids in order, every
probability between 0 and 1; and how far rows from everywhere are from what a model says of them in other company.

Writes ``paper/results/stream.json``. Needs about 1.5 GB of disk in the folder for temporary files.
"""

import argparse
import json
import multiprocessing
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from hotvae import HotVAEClassifier, load_model
from hotvae.files import write_text
from hotvae.jobs.predict import STREAM_ROWS, predict_stream
from paper import DOCS, RESULTS
from paper.runner import provenance
from paper.speed import resident_bytes
from paper.summaries import markdown_table, replace_marked

N_FEATURES = 10
FILE, PAGE = "stream.json", DOCS / "performance.md"


def write_rows(path, n_rows, seed, rows_at_once=STREAM_ROWS):
    """Write a table of drawn numbers, a piece at a time."""
    import pyarrow
    import pyarrow.parquet

    rng, writer = np.random.default_rng(seed), None
    for start in range(0, n_rows, rows_at_once):
        size = (min(rows_at_once, n_rows - start), N_FEATURES)
        frame = pd.DataFrame(rng.standard_normal(size, dtype=np.float32), columns=feature_names())
        piece = pyarrow.Table.from_pandas(frame, preserve_index=False)
        writer = writer or pyarrow.parquet.ParquetWriter(path, piece.schema)
        writer.write_table(piece)
    writer.close()


def feature_names():
    """Name the columns."""
    return [f"x{number}" for number in range(N_FEATURES)]


def train_model(folder, n_labels, seed):
    """Train a small model on few rows and save it."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((500, N_FEATURES))
    labels = features @ rng.normal(size=(N_FEATURES, n_labels)) + rng.normal(size=(500, n_labels)) > 2
    table = pd.DataFrame(features, columns=feature_names())
    model = HotVAEClassifier(effort="quick", random_state=seed).fit(table, labels.astype(int))
    model.save(folder)
    return model.recipe_.lines()


def predict_table(model, table, out, notes, rows_at_once):
    """Predict a table and note progress, CPU time and memory as they grow; call it in a fresh process."""
    torch.set_num_threads(1)
    started = time.process_time()
    told = []

    def tell(done, total):
        if done == 0:  # nothing is there yet
            return
        told.append({"rows": done, "of": total, "cpu_seconds": time.process_time() - started})
        told[-1]["resident"] = resident_bytes("VmRSS")
        write_text(notes, json.dumps({"told": told, "peak": resident_bytes("VmHWM")}))

    predict_stream(load_model(model), table, out, rows_at_once=rows_at_once, progress=tell)
    cpu_seconds = time.process_time() - started
    write_text(notes, json.dumps({"told": told, "peak": resident_bytes("VmHWM"), "cpu_seconds": cpu_seconds}))


def run_process(folder, table, out, rows_at_once, kill_at=None):
    """Predict in a process of its own; end it by SIGKILL once so many pieces are there."""
    notes = folder / "notes.json"
    notes.unlink(missing_ok=True)
    arguments = (folder / "model", table, out, notes, rows_at_once)
    process = multiprocessing.get_context("spawn").Process(target=predict_table, args=arguments)
    process.start()
    while kill_at is not None and process.is_alive():
        time.sleep(0.005)
        if len(list(out.with_name(f".{out.name}.parts").glob("[0-9]*.parquet"))) >= kill_at:
            process.kill()
            break
    process.join()
    if process.exitcode not in (0, -signal.SIGKILL):
        raise RuntimeError(f"the process ended with {process.exitcode}")
    return json.loads(notes.read_text()) | {"killed": process.exitcode != 0}


def check_result(folder, table, out, n_rows, n_labels):
    """Say whether the result is whole, and how far rows are from what they are when predicted in other company."""
    import pyarrow.parquet

    model, at, whole, furthest = load_model(folder / "model"), 0, True, 0.0
    features = pd.read_parquet(table)  # a tenth of the result: 10 columns to its 100
    for piece in pyarrow.parquet.ParquetFile(out).iter_batches(batch_size=STREAM_ROWS):
        frame = piece.to_pandas()
        probs = frame.iloc[:, 1:].to_numpy()
        whole &= probs.shape[1] == n_labels and bool(((probs >= 0) & (probs <= 1)).all())
        whole &= bool((frame["row"].to_numpy() == np.arange(at, at + len(frame))).all())
        some = np.linspace(0, len(frame) - 1, 20).astype(int)
        furthest = max(furthest, float(np.abs(model.predict_proba(features.iloc[at + some]) - probs[some]).max()))
        at += len(frame)
    return {"whole": bool(whole and at == n_rows), "largest_difference": furthest}


def rendered(content):
    """Return memory and speed of a long prediction that was killed and resumed."""
    runs = content["runs"]
    names = {
        "short": f"{content['short_rows']:,} rows",
        "killed": f"{content['rows']:,} rows, killed",
        "resumed": f"{content['rows']:,} rows, resumed",
    }
    rows = [
        [names[name], f"{run['peak'] / 1e6:.0f}", f"{run['cpu_seconds']:.0f}" if "cpu_seconds" in run else ""]
        for name, run in runs.items()
    ]
    resident = [told["resident"] / 1e6 for told in runs["killed"]["told"]]
    half = len(resident) // 2
    whole = "is whole" if content["whole"] else "is not whole"
    table = markdown_table([f"× {content['labels']} labels", "peak MB", "CPU s"], rows)
    return (
        f"{table}\nThe second process found {content['pieces_found_after_the_kill']} of {content['pieces']} pieces "
        f"and did the rest at {content['rows_per_cpu_second']:,.0f} rows a CPU second, joining them all included. The "
        f"result {whole}; rows predicted in other company differ from it by at most "
        f"{content['largest_difference']:.0e}. Resident memory of the process that was killed, after each of its "
        f"pieces: {min(resident[:half]):.0f} to {max(resident[:half]):.0f} MB in the first half of them, "
        f"{min(resident[half:]):.0f} to {max(resident[half:]):.0f} in the second. Pieces of "
        f"{content['rows_at_once']:,} rows; {content['date'][:10]}. Command: `{content['command']}`.\n"
    )


def main(argv=None):
    """Measure and write the result, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--labels", type=int, default=100)
    parser.add_argument("--rows-at-once", type=int, default=STREAM_ROWS, help="rows of a piece")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--render", action="store_true", help="write the table of what was measured before")
    options = parser.parse_args(argv)
    if options.render:
        table = rendered(json.loads((options.out / FILE).read_text()))
        write_text(PAGE, replace_marked(PAGE.read_text(), "stream", f"\n{table}\n"))
        return
    torch.set_num_threads(1)
    runs = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recipe = train_model(folder / "model", options.labels, options.seed)
        short = max(1, options.rows // 10)
        write_rows(folder / "short.parquet", short, options.seed)
        runs["short"] = run_process(folder, folder / "short.parquet", folder / "p_short.parquet", options.rows_at_once)
        (folder / "p_short.parquet").unlink()
        table, out = folder / "long.parquet", folder / "p_long.parquet"
        write_rows(table, options.rows, options.seed)
        n_pieces = -(-options.rows // options.rows_at_once)
        runs["killed"] = run_process(folder, table, out, options.rows_at_once, kill_at=n_pieces // 2)
        n_found = len(list(out.with_name(f".{out.name}.parts").glob("[0-9]*.parquet")))
        runs["resumed"] = run_process(folder, table, out, options.rows_at_once)
        checks = check_result(folder, table, out, options.rows, options.labels)
        checks["left_over"] = sorted(path.name for path in folder.glob(f".{out.name}*"))
    for run in runs.values():
        print(f"peak {run['peak'] / 1e6:.0f} MB, told {len(run['told'])} times", file=sys.stderr)
    predicted = options.rows - min(n_found * options.rows_at_once, options.rows)
    content = provenance(options.seed) | {
        "rows": options.rows,
        "short_rows": short,
        "labels": options.labels,
        "rows_at_once": options.rows_at_once,
        "recipe": recipe,
        "pieces": n_pieces,
        "pieces_found_after_the_kill": n_found,
        "rows_per_cpu_second": predicted / runs["resumed"]["cpu_seconds"] if predicted else None,
        "runs": runs,
        **checks,
    }
    write_text(options.out / FILE, json.dumps(content, indent=1) + "\n")
    print(
        {
            key: content[key]
            for key in ("pieces_found_after_the_kill", "rows_per_cpu_second", "whole", "largest_difference")
        }
    )


if __name__ == "__main__":
    main()
