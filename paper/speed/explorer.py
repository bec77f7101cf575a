"""The explorer in a real browser: size of its file, time to open and to answer, and how long the page stands still.

    python -m paper.speed.explorer                 (both sizes; a minute on an idle machine)
    python -m paper.speed.explorer --only 100x5000
    python -m paper.speed.explorer --birds hotvae-demo    (the stand-in of `make demo`'s explorer: a minute)
    python -m paper.speed.explorer --render        (writes the numbers of docs/explorer.md)

Pages of invented numbers, of the shape that the default model has (two rounds, three voices, 32 causes, an edge for
each pair, 12 covariates, a stand-in): 100 species x 5,000 places, and 300 x 20,000. Each is opened in chromium from
disk; then five species are told one after the other, with a species and with the number of species on the map, a slider
is moved five times, and the map is panned. Written down: megabytes; seconds until the map is there; milliseconds from
the click to the map of a species, and to the whole map of richness; and tasks of the page's own thread from 50 ms on,
as the browser's PerformanceObserver counts them. These are by the clock, which a busy machine stretches. Processor time
is not stretched: that of the page's process for a telling, all workers together, and that of the longest task of its
own thread, from the browser's trace.

``--birds`` makes the explorer of a demo's model anew and notes how well its stand-in, which answers "what if", explains
changes at places that it was not shown, and the processor seconds that it took.

Writes ``paper/results/explorer.json``, and ``explorer_birds.json``.
"""

import argparse
import json
import os
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from hotvae.explain.stand_in import _WIDTHS
from hotvae.files import write_text
from hotvae.report.explorer import ExplorerContent
from hotvae.report.page import write_page
from paper import DOCS, RESULTS
from paper.runner import provenance
from paper.summaries import markdown_table, replace_marked

PAGE = DOCS / "explorer.md"
SIZES = {"100x5000": (100, 5000), "300x20000": (300, 20000)}
N_TOLD = 5


def invented_content(n_labels, n_places, precision="int16", *, n_voices=3, seed=0, names=None):
    """Return a page's content with numbers of the usual shape and size, and no model behind them."""
    random = np.random.default_rng(seed)
    n_columns, n_causes = 12, 32
    across = int(np.ceil(np.sqrt(n_places * 1.5)))
    where = np.column_stack([np.arange(n_places) % across, -(np.arange(n_places) // across)]) * 10.0
    waves = random.normal(size=(n_columns, 2)) / 300
    gates = np.sin(where @ waves.T + random.uniform(0, 6, n_columns)) * 1.5
    logits = gates @ random.normal(size=(n_columns, n_labels)) * 0.7 + random.normal(-1.5, 1.5, n_labels)
    arrays = {"logits": logits, "gates": gates, "covariates": gates, "where": where}
    arrays["degrees"] = np.column_stack([-100 + where[:, 0] / 100, 45 + where[:, 1] / 100])
    arrays["inside"] = (np.hypot(*(where - where.mean(axis=0)).T) < 0.45 * across * 10).astype(np.uint8)
    arrays["dissimilarity"] = random.random(n_places)
    arrays["absent_up_to"], arrays["present_from"] = np.full(n_labels, 0.3), np.full(n_labels, 0.7)
    for voice in range(n_voices):
        edge = random.normal(scale=0.3, size=(n_labels, n_labels))
        edge = (edge + edge.T) / 2 * (1 - np.eye(n_labels))
        send = random.normal(scale=0.3, size=(n_labels, n_causes))
        arrays[f"law.{voice}.edge"], arrays[f"law.{voice}.send"] = edge, send
        arrays[f"law.{voice}.hear"] = send * random.normal(scale=0.3, size=n_causes)
        arrays[f"law.{voice}.cause_gate"] = random.normal(scale=0.2, size=(n_causes, n_columns + 1))
    widths = (n_columns, *_WIDTHS, n_labels)
    for layer in range(3):
        shape = widths[layer + 1], widths[layer] + 1
        arrays[f"stand_in.{layer}"] = random.normal(scale=2 / np.sqrt(shape[1]), size=shape)
    out = {"how": "value", "period": 0.0, "xs": [-1.5, 1.5], "ys": [-1.5, 1.5]}
    covariates = [
        {"name": f"covariate_{k}", "kind": "number", "levels": None, "low": -1.5, "high": 1.5, "median": 0.0}
        | {"outs": [out | {"column": k}]}
        for k in range(n_columns)
    ]
    facts = {
        "labels": list(names or (f"species {number:03d}" for number in range(n_labels))),
        "n_places": n_places,
        "places": [],
        "side": [10.0, 10.0],
        "reach": 5.0,
        "covariates": covariates,
        "slider_reach": 0.5,
        "law": {"voices": n_voices, "rounds": 2, "passing": [[[0.4], [-0.1]]] * n_voices},
        "trust": {"level": 0.9, "threshold": 1.0},
        "spread": {"coefficients": [[-1.5, 0, 0, 0, 0, 0], [1.5, 0, 0, 0, 0, 0]], "error": 1.0, "widening": 1.2},
        "stand_in": {"layers": 3, "error": 0.01, "size": 0.03, "explained": 0.8, "n_tried": 400},
        "thresholds": {},
        **{"notes": [], "card": [["model", "invented"]], "citation": "", "settings": [], "recipe": []},
        **{"versions": [], "made": "", "command": ""},
    }
    return ExplorerContent("Invented", f"{n_labels} species, {n_places:,} places", facts, arrays, precision)


_WATCH = """() => { window.long = []; new PerformanceObserver((list) => {
  for (const task of list.getEntries()) window.long.push([task.startTime, task.duration]);
}).observe({ type: 'longtask', buffered: true });
  const look = new MutationObserver(() => { look.disconnect(); window.opened = performance.now(); });
  look.observe(document, { subtree: true, attributeFilter: ['data-painted'] }); }"""
_TELL = """([kind, label, count]) => new Promise((resolve) => {
  const began = performance.now();
  const look = new MutationObserver(() => { look.disconnect(); resolve(performance.now() - began); });
  look.observe(document.documentElement, { attributeFilter: ['data-painted'] });
  const told = Array.from({ length: kind === 'moved' ? 1 : count }, (_, k) => [3 * k, k % 2]);
  const shifts = kind === 'moved' ? [[0, count / 10]] : [];
  change({ kind: kind === 'moved' ? 'richness' : kind, label, told, shifts });
})"""


class Processor:
    """Processor time of the page's process, in milliseconds."""

    def __init__(self, browser):
        self.session = browser.new_browser_cdp_session()

    def now(self):
        """Return that of the busiest process that draws pages."""
        found = self.session.send("SystemInfo.getProcessInfo")["processInfo"]
        return 1000 * max(process["cpuTime"] for process in found if process["type"] == "renderer")


def longest_task(trace):
    """Return the processor time of the longest task of the page's own thread, in milliseconds."""
    events = json.loads(trace)["traceEvents"]
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    tasks = [e for e in events if e["name"].endswith("RunTask") and named.get((e["pid"], e["tid"])) == "CrRendererMain"]
    return round(max(e.get("tdur", 0) for e in tasks) / 1000, 1)


def measure(page, browser):
    """Use a page, and return what it took."""
    tab = browser.new_page(viewport={"width": 1280, "height": 800})
    problems = []
    tab.on("console", lambda message: problems.append(message.text))
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.add_init_script(f"({_WATCH})()")
    browser.start_tracing(page=tab, categories=["toplevel", "__metadata"])
    tab.goto(page.as_uri())
    tab.wait_for_selector("html[data-painted]", timeout=120_000)
    found = {"seconds_to_open": tab.evaluate("window.opened") / 1000}
    processor = Processor(browser)
    found["workers"] = tab.evaluate("engine.workers.length")
    for kind in ("label", "richness", "moved"):
        tab.wait_for_timeout(1000)
        before = processor.now()
        spent = [tab.evaluate(_TELL, [kind, 50, count]) for count in range(1, N_TOLD + 1)]
        found[f"milliseconds_to_{kind}"] = [round(value, 1) for value in spent]
        found[f"processor_milliseconds_to_{kind}"] = round((processor.now() - before) / N_TOLD, 1)
    tab.evaluate("change({ tab: 'what' })")
    for step in range(1, 9):
        tab.evaluate("(by) => change({ shifts: [[0, by]] })", step / 10)
        tab.wait_for_timeout(60)
    tab.mouse.move(400, 400)
    tab.mouse.down()
    tab.mouse.move(500, 300, steps=10)
    tab.mouse.up()
    tab.wait_for_timeout(3000)
    tasks = tab.evaluate("window.long")
    found |= {"long_tasks": [[round(value) for value in task] for task in tasks], "problems": problems}
    found["longest_task_processor_milliseconds"] = longest_task(browser.stop_tracing())
    tab.close()
    return found


def page_text(found):
    """Write what the page shows."""
    results, machine = found["results"], found["machine"]
    sizes = [results[name] for name in SIZES]

    def median(part, what):
        return f"{np.median(part[f'milliseconds_to_{what}']):.0f} ms"

    def longest(part):
        return f"{max((duration for _, duration in part['long_tasks']), default=0):.0f} ms"

    rows = [
        ["file", *(f"{part['megabytes']:.1f} MB" for part in sizes)],
        ["the map is there", *(f"{part['seconds_to_open']:.1f} s" for part in sizes)],
        ["told, and the map of a species follows", *(median(part, "label") for part in sizes)],
        ["told, and the map of the number of species follows", *(median(part, "richness") for part in sizes)],
        ["a slider moved, and the map of the number of species follows", *(median(part, "moved") for part in sizes)],
        ["processor time of a telling: a species", *(f"{p['processor_milliseconds_to_label']:.0f} ms" for p in sizes)],
        [
            "processor time of a telling: the number of species",
            *(f"{p['processor_milliseconds_to_richness']:.0f} ms" for p in sizes),
        ],
        ["longest task of the page's own thread (0: none of 50 ms or more)", *map(longest, sizes)],
    ]
    head = ["", *(f"{labels} species × {places:,} places" for labels, places in SIZES.values())]
    loads = ", ".join(f"{part['load_before']:.1f}" for part in sizes)
    busy = max(part["load_before"] for part in sizes) > machine["cores"]
    quiet = "Little else ran on it"
    if busy:
        quiet = "Other programs wanted the same cores, which stretches times by the clock"
        if found["niceness"] < 0:
            quiet += f", although the command ran at nice {found['niceness']}"
    chromium, workers = found["chromium"].split(".")[0], sizes[0]["workers"]
    return (
        markdown_table(head, rows)
        + f"\nPages of invented numbers in chromium {chromium}, {workers} workers on {machine['cores']} cores "
        f"({machine['cpu']}), {found['date'][:10]}. Times by the clock are medians of {N_TOLD}; processor time is that "
        f"of all workers and the page together. Load average before each: {loads}. {quiet}. "
        f"`{found['command']}` measured it; stored in `paper/results/explorer.json`.\n"
    )


def birds(folder):
    """Make the explorer of a demo's model, and return how well its stand-in stands in."""
    from hotvae.estimators.registry import load_model
    from hotvae.jobs.explore import explorer_content
    from hotvae.jobs.explorer_places import places_of_file

    model = load_model(folder / "model")
    places = places_of_file(model, folder / "routes.csv")
    started, times = time.process_time(), {}
    content = explorer_content(
        model,
        places,
        title="Breeding birds, 2009",
        say=lambda line: times.setdefault(line, time.process_time() - started),
    )
    page = write_page(folder / "explorer.html", content)
    (_, begun), (_, learned) = list(times.items())[-2:]  # "learning how ..." and what comes after it
    return {
        "stand_in": content.facts["stand_in"],
        "widths": list(_WIDTHS),
        "labels": len(content.facts["labels"]),
        "places": len(places),
        "processor_seconds": round(learned - begun, 1),
        "processor_seconds_of_all": round(time.process_time() - started, 1),
        "megabytes": round(page.stat().st_size / 1e6, 2),
    }


def birds_text(found):
    """Write what the page says of the stand-in."""
    told = found["stand_in"]
    error, size, explained = (100 * told[name] for name in ("error", "size", "explained"))
    return (
        "**This part is an approximation, and the page says how good.** Today's map is the model's own. What changes "
        "is told by a small stand-in that learned from the model. "
        f"On {told['n_tried']:,} random moves of places that it was not shown its mean error was {error:.1f} points of "
        f"percent, where the changes themselves were {size:.1f} points: for these birds it explains {explained:.0f} % "
        "of how the model answers. Read the pattern, not the single dot. And sliders move one thing alone: in nature a "
        "warmer place has other plants, too.\n"
    )


def main():
    """Measure and write."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=SIZES)
    parser.add_argument("--out", type=Path, default=RESULTS / "explorer.json")
    parser.add_argument("--birds", type=Path, metavar="FOLDER", help="what `make demo` wrote")
    parser.add_argument("--render", action="store_true", help="only write the stored result into docs/explorer.md")
    options = parser.parse_args()
    of_birds = options.out.with_name(f"{options.out.stem}_birds.json")
    if options.render:
        text = PAGE.read_text(encoding="utf-8")
        for name, path, write in (("speed", options.out, page_text), ("birds", of_birds, birds_text)):
            text = replace_marked(text, name, f"\n{write(json.loads(path.read_text(encoding='utf-8')))}\n")
        write_text(PAGE, text)
        return
    if options.birds:
        note = {"command": "python -m paper.speed.explorer --birds hotvae-demo", **provenance(0)}
        write_text(of_birds, json.dumps(note | birds(options.birds), indent=1) + "\n")
        return
    results = {}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name in [options.only] if options.only else SIZES:
            page = write_page(Path(folder) / f"{name}.html", invented_content(*SIZES[name]))
            before = os.getloadavg()[0]
            results[name] = {"megabytes": round(page.stat().st_size / 1e6, 2), "load_before": round(before, 1)}
            results[name] |= measure(page, browser)
            print(name, json.dumps(results[name]), flush=True)
        version = browser.version
        browser.close()
    note = {"command": "python -m paper.speed.explorer", "chromium": version, "niceness": os.nice(0), **provenance(0)}
    write_text(options.out, json.dumps(note | {"results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
