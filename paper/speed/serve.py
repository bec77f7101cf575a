"""The service under load: what it bears for long, half of that, and ten times as much for a minute.

    python -m paper.speed.serve                      (needs HOTVAE_DATA_DIR; about three minutes)
    python -m paper.speed.serve --render             (writes the table of docs/service.md)

A quick model of ``breeding_birds_2009`` is trained and served by ``hotvae serve`` in a process of its own, on this
machine alone. A few clients that ask as soon as they are answered find the load it sustains. Then requests arrive at
even times, whether or not the last ones were answered: at half that load, and at ten times it. Every answer is
compared, byte for byte, with what the model says in this process; every request is counted until it is answered,
refused or lost. The memory of the service is read once a second. Beside the half load, before and after it, the same
rows are predicted by calls in this process.

Writes ``paper/results/serve.json``.
"""

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from hotvae.files import write_text
from paper import DOCS, RESULTS
from paper.summaries import markdown_table, replace_marked

FILE, PAGE = "serve.json", DOCS / "service.md"
# Different questions, so that no answer is right by being the only one.
N_QUESTIONS = 8
# Seconds that a connection may have waited to be used again.
_FRESH = 1.0


def questions_of(model, data, n_rows, seed):
    """Draw rows and a known species for each question; return frames, what is given, and the bodies of requests."""
    from hotvae.estimators.base import named_tables

    table = named_tables(data.with_coordinates_as_features())[0][list(model.feature_names_in_)]
    rng = np.random.default_rng(seed)
    asked = []
    for _ in range(N_QUESTIONS):
        rows = table.iloc[rng.choice(len(table), n_rows)].reset_index(drop=True)
        given = {str(model.label_names_[rng.integers(model.n_labels_)]): int(rng.integers(2))}
        body = json.dumps({"rows": rows.to_dict(orient="records"), "given": given}).encode()
        asked.append((rows, given, body))
    return asked


@contextmanager
def service(folder, log):
    """Serve a model in a process of its own; yield the process and its port."""
    command = [sys.executable, "-m", "hotvae", "serve", str(folder), "--port", "0"]
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline()
        yield process, int(re.search(r"http://127\.0\.0\.1:(\d+)", line)[1])
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    finally:
        process.kill()
        process.wait()


class Clients:
    """Connections to the service that are used again; so little is done for a request that the service is measured."""

    def __init__(self, port, asked, expected):
        self.port, self.expected, self.idle = port, expected, []
        head = (
            "POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
        )
        self.requests = [head.format(len(body)).encode() + body for _, _, body in asked]

    async def ask(self, number):
        """Ask one question; return the status, or what became of it instead, and the seconds it took."""
        started = time.perf_counter()
        try:
            status, body = await asyncio.wait_for(self._exchange(self.requests[number]), 120)
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            return f"lost ({type(error).__name__})", time.perf_counter() - started
        if status == 200 and body != self.expected[number]:
            return "wrong", time.perf_counter() - started
        return str(status), time.perf_counter() - started

    async def _exchange(self, request):
        reader, writer = await self._connection()
        try:
            writer.write(request)
            await writer.drain()
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            body = await reader.readexactly(int(re.search(rb"content-length: (\d+)", head)[1]))
        except BaseException:
            writer.close()
            raise
        if b"connection: close" in head:
            writer.close()
        else:
            self.idle.append((time.monotonic(), reader, writer))
        return int(head.split(None, 2)[1]), body

    async def _connection(self):
        """Take a connection that was used just now, or open one; the service closes those that wait for long."""
        while self.idle:
            since, reader, writer = self.idle.pop()
            if time.monotonic() - since < _FRESH and not reader.at_eof():
                return reader, writer
            writer.close()
        return await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)

    def close(self):
        """Close all connections."""
        for _, _, writer in self.idle:
            writer.close()


async def sustained(clients, seconds, n_clients):
    """Count the answers a second to clients that ask as soon as they are answered."""
    end, outcomes = time.perf_counter() + seconds, Counter()

    async def keep_asking(start):
        number = start
        while time.perf_counter() < end:
            outcomes[(await clients.ask(number % N_QUESTIONS))[0]] += 1
            number += 1

    started = time.perf_counter()
    await asyncio.gather(*(keep_asking(start) for start in range(n_clients)))
    return outcomes["200"] / (time.perf_counter() - started), dict(outcomes)


async def arriving(clients, per_second, seconds, process):
    """Send requests at even times, whether or not the last ones were answered."""
    outcomes, waits, memory, tasks = Counter(), [], [], []

    async def one(number):
        what, took = await clients.ask(number % N_QUESTIONS)
        outcomes[what] += 1
        waits.append((what, took))

    async def watch():
        while True:
            memory.append(_memory(process.pid))
            await asyncio.sleep(1)

    watcher = asyncio.ensure_future(watch())
    started = time.perf_counter()
    for number in range(round(per_second * seconds)):
        await asyncio.sleep(max(0.0, started + number / per_second - time.perf_counter()))
        tasks.append(asyncio.ensure_future(one(number)))
    sent = time.perf_counter() - started
    await asyncio.gather(*tasks)
    watcher.cancel()
    answered = [took for what, took in waits if what == "200"]
    refused = [took for what, took in waits if what in ("429", "503")]
    third = max(1, len(memory) // 3)
    return {
        "wanted_per_second": per_second,
        "sent": len(tasks),
        "sent_per_second": len(tasks) / sent,
        "seconds": sent,
        "outcomes": dict(outcomes),
        "answered_ms": _quantiles(answered),
        "refused_ms": _quantiles(refused),
        "memory_mb": {
            "first_third": float(np.mean(memory[:third])),
            "last_third": float(np.mean(memory[-third:])),
            "most": max(memory),
        },
    }


def in_process(model, asked, n_calls):
    """Milliseconds of calls of the model in this process."""
    took = []
    for number in range(n_calls):
        rows, given, _ = asked[number % N_QUESTIONS]
        started = time.perf_counter()
        model.predict_proba(rows, given=given)
        took.append(time.perf_counter() - started)
    return took


def _quantiles(seconds):
    if not seconds:
        return None
    return {f"p{q}": float(np.quantile(seconds, q / 100) * 1e3) for q in (50, 99)} | {"n": len(seconds)}


def _memory(number):
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{number}/status").read_text())
    return int(found[1]) / 1024


def measure(options):
    """Train, serve, load, and return what was found."""
    from hotvae import HotVAEClassifier, load_model
    from hotvae.data.catalog import load
    from paper.runner import provenance

    torch.set_num_threads(1)  # as each thread of the service has it
    named = load("breeding_birds_2009")
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as place:
        folder, log = Path(place) / "birds", Path(place) / "log"
        HotVAEClassifier(effort="quick", random_state=options.seed).fit(named.dataset.take(named.split.train)).save(
            folder
        )
        model = load_model(folder)
        asked = questions_of(model, named.dataset.take(named.split.test), options.rows, options.seed)
        with service(folder, log) as (process, port):
            expected = [_checked_answer(port, model, rows, given, body) for rows, given, body in asked]
            clients = Clients(port, asked, expected)

            async def load_it():
                await sustained(clients, options.seconds / 12, 4)  # everything is warm after that
                rate, outcomes = await sustained(clients, options.seconds / 3, 4)
                own = in_process(model, asked, 100)
                half = await arriving(clients, rate / 2, options.seconds / 2, process)
                own += in_process(model, asked, 100)
                tenfold = await arriving(clients, 10 * rate, options.seconds, process)
                clients.close()
                return rate, outcomes, own, half, tenfold

            rate, outcomes, own, half, tenfold = asyncio.run(load_it())
        lines = [json.loads(line) for line in log.read_text().splitlines()]
    statuses = Counter(str(line["status"]) for line in lines if line.get("event") == "request")
    return {
        "rows_of_a_request": options.rows,
        "labels": int(model.n_labels_),
        "bytes_of_a_request": len(asked[0][2]),
        "bytes_of_an_answer": len(expected[0]),
        "sustained": {"per_second": rate, "clients": 4, "outcomes": outcomes},
        "in_process_ms": _quantiles(own),
        "half": half,
        "tenfold": tenfold,
        "logged": dict(statuses),
        "exit_code": process.returncode,
        "niceness": os.nice(0),
        "load_average": {"before": before, "after": os.getloadavg()[0]},
    } | provenance(options.seed)


def _checked_answer(port, model, rows, given, body):
    """Ask once, compare with the model in this process to the last bit, and return the bytes of the answer."""
    import urllib.request

    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/predict", data=body, headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        told = answer.read()
    found = np.array(json.loads(told)["probabilities"])
    if not np.array_equal(found, model.predict_proba(rows, given=given).astype(float)):
        raise SystemExit("the service answers something else than the model")
    return told


def table_of(found):
    """Write what the page shows."""

    def row(title, part):
        outcomes, memory = part["outcomes"], part["memory_mb"]
        bad = sum(count for what, count in outcomes.items() if what not in ("200", "429", "503"))
        return [
            title,
            f"{part['sent_per_second']:.1f}",
            f"{part['sent']:,}",
            f"{outcomes.get('200', 0):,}",
            f"{outcomes.get('429', 0):,}",
            f"{outcomes.get('503', 0):,}",
            str(bad),
            f"{part['answered_ms']['p50']:.0f}",
            f"{part['answered_ms']['p99']:.0f}",
            f"{memory['first_third']:.0f} → {memory['last_third']:.0f}",
        ]

    head = ["load", "sent a second", "sent", "answered", "429", "503", "lost or wrong", "p50 ms", "p99 ms", "memory MB"]
    own, half, machine, load = (found[name] for name in ("in_process_ms", "half", "machine", "load_average"))
    busy = max(load.values()) > machine["cores"]
    quiet = (
        "Other programs had a part of it"
        + (f", although the command ran at nice {found['niceness']}" if found.get("niceness", 0) < 0 else "")
        + ", so the numbers compare with each other, not with a quiet machine's."
        if busy
        else "Nothing else ran on it."
    )
    ratio = half["answered_ms"]["p99"] / own["p99"]
    n_unread = found["tenfold"]["outcomes"].get("503", 0) - found["logged"].get("503", 0)
    unread = f"{n_unread:,} of the 503s were connections beyond the limit. " if n_unread else ""
    return (
        f"One run, {found['date'][:10]}, {machine['cpu']}, {machine['cores']} cores; load average {load['before']:.1f} "
        f"before and {load['after']:.1f} after it. {quiet}\n\n"
        f"A request has {found['rows_of_a_request']} rows and a known species "
        f"({found['bytes_of_a_request'] / 1e3:.0f} kB), its answer the probabilities of {found['labels']} species "
        f"({found['bytes_of_an_answer'] / 1e3:.0f} kB). Four clients that ask as soon as they are answered get "
        f"{found['sustained']['per_second']:.1f} answers a second.\n\n"
        + markdown_table(head, [row("half", found["half"]), row("ten times", found["tenfold"])])
        + f"\n{unread}The same rows, predicted by calls in one process in the same run: {own['p50']:.0f} ms (p50), "
        f"{own['p99']:.0f} ms (p99). At half load the p99 of the service is {ratio:.1f} times that of a call: it reads "
        "and writes JSON besides, and shares the machine with the client.\n\n"
        f"Command: `{found['command']}`, seed {found['seed']}, hotvae {found['versions']['hotvae']}, torch "
        f"{found['versions']['torch']}.\n"
    )


def main(argv=None):
    """Measure, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100, help="rows of a request")
    parser.add_argument("--seconds", type=float, default=60.0, help="of ten times the load; the other parts go along")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--render", action="store_true", help="only write the stored result into docs/service.md")
    options = parser.parse_args(argv)
    path = options.out / FILE
    if not options.render:
        found = measure(options)
        write_text(path, json.dumps(found, indent=1) + "\n")
        print(json.dumps({name: found[name] for name in ("sustained", "in_process_ms", "half", "tenfold", "logged")}))
        return
    found = json.loads(path.read_text(encoding="utf-8"))
    write_text(PAGE, replace_marked(PAGE.read_text(encoding="utf-8"), "load", f"\n{table_of(found)}\n"))


if __name__ == "__main__":
    main()
