"""eBird text of any size into a table: time beside that of DuckDB alone, memory, and going on after a kill.

    python -m paper.speed.ebird --gigabytes 10
    python -m paper.speed.ebird --gigabytes 1
    python -m paper.speed.ebird --gigabytes 10 --files FOLDER    (written there once, used again)
    python -m paper.speed.ebird --render

A virtual pair of files in the layout of eBird's is written (``hotvae.geo.ebird_example``; 100 species), and read once,
so that nothing that follows waits for the disk. Then, each in a process of its own with the same threads: DuckDB counts
the observations that pass the filters of best practice, which reads the text once; ``hotvae.geo.ebird.prepare`` makes
the whole table with the same filters; DuckDB counts again, so that a machine that grew slower in between is seen. The
preparation is also ended by SIGKILL half-way and started again. Written down: wall and CPU seconds of each, the highest
resident memory, how much text the second start did not read again, whether its table is the same to the byte.

Writes ``paper/results/ebird.json``. Needs about 1.2 times the text on the disk.
"""

import argparse
import hashlib
import json
import multiprocessing
import re
import signal
import tempfile
import textwrap
import time
from importlib.metadata import version
from pathlib import Path

from hotvae.files import write_text
from hotvae.geo.ebird import BEST_PRACTICE, Filters, prepare
from hotvae.geo.ebird_example import ExampleFiles, write_example

MEMORY = "1GB"
N_SPECIES = 100
TARGET_RATIO = 3.0
TARGET_BYTES = 2e9


def count_query(ebd):
    """Return SQL that counts the observations that pass the filters, as one would write it by hand."""
    minutes = 'TRY_CAST("DURATION MINUTES" AS DOUBLE)'
    walked = 'TRY_CAST("EFFORT DISTANCE KM" AS DOUBLE)'
    kilometres = f"CASE WHEN \"PROTOCOL NAME\" = 'Stationary' THEN coalesce({walked}, 0) ELSE {walked} END"
    return f"""
        SELECT count(*) FROM read_csv('{ebd}', delim = '\\t', quote = '', all_varchar = true)
        WHERE "ALL SPECIES REPORTED" = '1' AND "PROTOCOL NAME" IN ('Stationary', 'Traveling')
          AND {minutes} BETWEEN 0 AND 360 AND {kilometres} BETWEEN 0 AND 10
          AND TRY_CAST("NUMBER OBSERVERS" AS DOUBLE) BETWEEN 1 AND 10
          AND {kilometres} * 60 / {minutes} BETWEEN 0 AND 100
        """


def count(ebd, threads, notes):
    """Count with DuckDB alone; call it in a fresh process."""
    import duckdb

    started, cpu = time.perf_counter(), time.process_time()
    found = duckdb.connect(config={"memory_limit": MEMORY, "threads": threads}).execute(count_query(ebd)).fetchone()
    measured = {"rows": found[0], "seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu}
    write_text(notes, json.dumps(measured | {"peak_bytes": peak_bytes()}))


def make_table(ebd, sampling, out, threads, piece_bytes, notes):
    """Prepare the table; call it in a fresh process."""
    started, cpu = time.perf_counter(), time.process_time()
    first = []

    def tell(stage, done, total):
        if stage == "observations":
            first.append(done)

    filters = Filters(**BEST_PRACTICE)
    options = {"memory": MEMORY, "threads": threads, "piece_bytes": piece_bytes, "progress": tell}
    made = prepare(ebd, sampling, out, filters=filters, **options)
    measured = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu}
    steps = made.audit[made.audit["table"] == "observations"].set_index("step")["left"]
    measured |= {
        "first_byte_read": min(first, default=0),
        "observations_after_filters": int(steps[[step.startswith("speed") for step in steps.index]].iloc[0]),
        "checklists": made.n_checklists,
        "species": len(made.species),
        "peak_bytes": peak_bytes(),
        "sha256": hashlib.sha256(out.read_bytes()).hexdigest(),
        "table_bytes": out.stat().st_size,
    }
    write_text(notes, json.dumps(measured))


def peak_bytes():
    """Return the highest resident memory of this process; getrusage would tell that of the process before it, too."""
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024


def run_process(target, arguments, folder, kill_when=None):
    """Run in a process of its own; end it by SIGKILL once ``kill_when()`` holds."""
    notes = folder / "notes.json"
    notes.unlink(missing_ok=True)
    process = multiprocessing.get_context("spawn").Process(target=target, args=(*arguments, notes))
    process.start()
    while kill_when is not None and process.is_alive():
        time.sleep(0.005)
        if kill_when():
            process.kill()
            break
    process.join()
    if process.exitcode not in (0, -signal.SIGKILL):
        raise RuntimeError(f"the process ended with {process.exitcode}")
    return {} if process.exitcode else json.loads(notes.read_text())


def virtual_pair(folder, gigabytes, seed):
    """Write the files, unless a run before this one has written the same."""
    note, wanted = folder / "pair.json", {"gigabytes": gigabytes, "seed": seed, "species": N_SPECIES}
    if note.exists() and (found := json.loads(note.read_text(encoding="utf-8"))).pop("wanted") == wanted:
        return ExampleFiles(**found | {"ebd": folder / found["ebd"], "sampling": folder / found["sampling"]})
    pair = write_example(folder, gigabytes=gigabytes, n_species=N_SPECIES, random_state=seed)
    found = pair._asdict() | {"ebd": pair.ebd.name, "sampling": pair.sampling.name}
    write_text(note, json.dumps(found | {"wanted": wanted}))
    return pair


def read_once(path):
    """Read a file, so that what follows finds it in memory, as far as that goes: none is the first to wait for disk."""
    with path.open("rb", buffering=0) as file:
        while file.read(1 << 24):
            pass


def measure(folder, files, gigabytes, seed, threads, piece_bytes):
    """Write the files and time both."""
    pair = virtual_pair(files, gigabytes, seed)
    size = pair.ebd.stat().st_size
    for path in (pair.ebd, pair.sampling):
        read_once(path)
    before = run_process(count, (pair.ebd, threads), folder)
    table = run_process(make_table, (pair.ebd, pair.sampling, folder / "a.parquet", threads, piece_bytes), folder)
    after = run_process(count, (pair.ebd, threads), folder)
    half = max(1, size // piece_bytes // 2)
    work = folder / ".b.parquet.work"

    def is_half_way():
        return len(list(work.glob("observations-*.parquet"))) >= half

    again = (pair.ebd, pair.sampling, folder / "b.parquet", threads, piece_bytes)
    killed = run_process(make_table, again, folder, kill_when=is_half_way)
    resumed = run_process(make_table, again, folder)
    counting = (before["seconds"] + after["seconds"]) / 2
    return {
        "text_bytes": size + pair.sampling.stat().st_size,
        "observations": pair.n_observations,
        "lines_of_checklists": pair.n_checklists,
        "count_before": before,
        "table": table,
        "count_after": after,
        "killed_half_way": not killed,
        "resumed": resumed,
        "same_count": before["rows"] == after["rows"] == table["observations_after_filters"],
        "same_bytes_after_the_kill": resumed["sha256"] == table["sha256"],
        "ratio": table["seconds"] / counting,
        "ratio_of_cpu": table["cpu_seconds"] / ((before["cpu_seconds"] + after["cpu_seconds"]) / 2),
        "peak_bytes": max(table["peak_bytes"], resumed["peak_bytes"]),
        "targets": {"ratio": TARGET_RATIO, "peak_bytes": TARGET_BYTES},
    }


def paragraph(found):
    """Say in words what was measured, for docs/field_data.md."""
    table, counts = found["table"], (found["count_before"], found["count_after"])
    cpu = sum(each["cpu_seconds"] for each in counts) / 2
    text = (
        f"Measured (`{found['command']}`, {found['date'][:10]}, {found['machine']['cores']} cores): "
        f"{found['text_bytes'] / 1e9:.1f} GB of virtual text, {found['observations']:,} observations on "
        f"{found['lines_of_checklists']:,} lines of checklists, became {table['checklists']:,} checklists × "
        f"{table['species']} species in {table['cpu_seconds']:.0f} CPU seconds, {found['ratio_of_cpu']:.1f} times what "
        f"DuckDB needs to count the same filtered rows ({cpu:.0f} s). By the clock it was {table['seconds']:.0f} s, "
        f"beside {counts[0]['seconds']:.0f} s for a count before it and {counts[1]['seconds']:.0f} s for one after it "
        f"({found['ratio']:.1f} times; the text had been read once before, so that none waited for the disk). "
        f"It held {found['peak_bytes'] / 1e9:.2f} GB at most. "
        f"Ended by SIGKILL and started again, it did not read the "
        f"first {found['resumed']['first_byte_read'] / 1e9:.1f} GB a second time, and the table was "
        f"{'the same to the byte' if found['same_bytes_after_the_kill'] else 'another one'}."
    )
    return textwrap.fill(text, 120, break_on_hyphens=False, break_long_words=False)


def render(found, page):
    """Put the paragraph into the page, between its marks."""
    begin, end = "<!-- ebird benchmark: begin -->", "<!-- ebird benchmark: end -->"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    write_text(page, f"{before}{begin}\n\n{paragraph(found)}\n\n{end}{rest.partition(end)[2]}")


def main(argv=None):
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=10.0, help="size of the file of observations")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--piece-megabytes", type=float, default=None, help="by default half a gigabyte, or a quarter of the text"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", type=Path, default=None, help="existing folder that keeps the virtual files")
    parser.add_argument("--out", type=Path, default=None, help="folder of the results")
    parser.add_argument("--render", action="store_true", help="only write the stored result into docs/field_data.md")
    options = parser.parse_args(argv)
    if options.render:
        from paper import RESULTS

        found = json.loads(((options.out or RESULTS) / "ebird.json").read_text(encoding="utf-8"))
        render(found, Path(__file__).parents[2] / "docs" / "field_data.md")
        return
    piece = int((options.piece_megabytes or min(512.0, options.gigabytes * 250)) * 1e6)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        found = measure(work, options.files or work, options.gigabytes, options.seed, options.threads, piece)
    # Here, so that the processes that are measured do not load torch.
    from paper import RESULTS
    from paper.runner import provenance

    content = provenance(options.seed) | {
        "threads": options.threads,
        "gigabytes": options.gigabytes,
        "piece_bytes": piece,
        "memory_limit": MEMORY,
        "duckdb": version("duckdb"),
        **found,
    }
    write_text((options.out or RESULTS) / "ebird.json", json.dumps(content, indent=1) + "\n")
    for key in ("ratio", "ratio_of_cpu", "peak_bytes", "same_count", "killed_half_way", "same_bytes_after_the_kill"):
        print(f"{key}: {content[key]}")


if __name__ == "__main__":
    main()
