"""What labels together cost: fits beside their base, a small wide table, very many labels, draws, predictions.

    python -m paper.speed.law                                  (needs HOTVAE_DATA_DIR; about ten minutes)
    python -m paper.speed.law --only small
    python -m paper.speed.law --render                         (writes the table of docs/joint.md)

Each part is a process of its own on one thread, and its CPU seconds are kept; the machine may do other things beside
it. Writes ``paper/results/law_cost.json``; a part that is measured again takes the place of what was there.
"""

import argparse
import json
import multiprocessing
from pathlib import Path

import numpy as np

from hotvae.files import write_text
from paper import DOCS, RESULTS
from paper.cells import timed
from paper.summaries import markdown_table, replace_marked

FILE, PAGE = "law_cost.json", DOCS / "joint.md"
_TIMES = 5


def _fitted(data, seed):
    """Fit the default without its law, then its law, and time both."""
    from hotvae import HotVAEClassifier
    from hotvae.training.settings import Training

    model = HotVAEClassifier(random_state=seed, joint=False)
    _, base = timed(lambda: model.fit(data))
    model.law_, law = timed(lambda: model.out_of_fold_.learn_law(Training(n_threads=1)))
    found = {"rows": len(data.labels), "labels": data.labels.shape[1], "base": base["cpu"], "law": law["cpu"]}
    return model, found | {"all": base["cpu"] + law["cpu"], "ratio": (base["cpu"] + law["cpu"]) / base["cpu"]}


def _training_rows(name, seed):
    from hotvae.data.catalog import load

    named = load(name, seed=seed)
    return named.dataset.take(named.split.train), named.dataset.take(named.split.test)


def survey(seed):
    """Fit the default on bbs_like_ebird100 (at most 1.5 times its base), draw with it, and predict many rows."""
    train, test = _training_rows("bbs_like_ebird100", seed)
    model, found = _fitted(train, seed)
    sites = test.take(np.arange(2300) % len(test.labels))
    _, drawn = timed(lambda: model.sample(sites, 100, random_state=seed))
    many = test.take(np.arange(100_000) % len(test.labels))
    law, seconds = model.law_, {"predict": [], "predict_base": []}
    model.predict_proba(many)  # the first time memory is laid out
    for _ in range(_TIMES):
        for name, own in (("predict", law), ("predict_base", None)):  # in turn: the machine does other things, too
            model.law_ = own
            seconds[name].append(timed(lambda: model.predict_proba(many))[1]["cpu"])
    return found | {"draws": drawn["cpu"]} | {name: float(np.median(each)) for name, each in seconds.items()}


def small(seed):
    """Fit the default on 268 rows of the 174 commonest species of bbs2011_wilkinson: at most 15 s in all."""
    from dataclasses import replace

    data = _training_rows("bbs2011_wilkinson", seed)[0]
    data = data.take(np.sort(np.random.default_rng(seed).choice(len(data.labels), 268, replace=False)))
    common = np.sort(np.argsort(-np.nanmean(data.labels, axis=0), kind="stable")[:174])
    names = tuple(data.label_names[i] for i in common)
    return _fitted(replace(data, labels=data.labels[:, common], label_names=names), seed)[1]


def delicious(seed):
    """Fit the default on delicious, 983 labels: under ten minutes."""
    return _fitted(_training_rows("delicious", seed)[0], seed)[1]


PARTS = {"survey": survey, "small": small, "delicious": delicious}


def _work(name, seed, path):
    write_text(path, json.dumps(PARTS[name](seed)))


def table_of(found):
    """Write the table of the page."""
    fits = {"survey": ("bbs_like_ebird100", "1.5 times its base"), "small": ("268 rows of bbs2011_wilkinson", "15 s")}
    fits["delicious"] = ("delicious", "600 s")
    rows = [
        [title, f"{part['rows']:,} × {part['labels']}", *(f"{part[key]:.0f}" for key in ("base", "law", "all")), goal]
        for name, (title, goal) in fits.items()
        if (part := found.get(name))
    ]
    head = ["fit of", "rows × labels", "base", "law", "in all, CPU s", "at most"]
    text = markdown_table(head, rows) if rows else ""
    if part := found.get("survey"):
        text += (
            f"\nOn bbs_like_ebird100, 100 draws for 2,300 sites × 100 species took {part['draws']:.0f} CPU seconds (at "
            f"most 60); 100,000 rows without known labels {part['predict']:.1f}, and {part['predict_base']:.1f} with "
            "the law taken away.\n"
        )
    return text


def main(argv=None):
    """Measure what is asked for, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--render", action="store_true", help="only write the stored result into docs/joint.md")
    options = parser.parse_args(argv)
    path = options.out / FILE
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"parts": {}}
    if options.render:
        write_text(PAGE, replace_marked(PAGE.read_text(encoding="utf-8"), "cost", f"\n{table_of(kept['parts'])}\n"))
        return
    from paper.runner import provenance

    for name in options.only:
        answer = options.out / f".{FILE}.{name}.part"
        process = multiprocessing.get_context("spawn").Process(target=_work, args=(name, options.seed, answer))
        process.start()
        process.join()
        if process.exitcode:
            raise SystemExit(f"{name} failed")
        kept["parts"][name] = json.loads(answer.read_text(encoding="utf-8")) | provenance(options.seed)
        answer.unlink()
        write_text(path, json.dumps(kept, indent=1) + "\n")
        print(name, {key: value for key, value in kept["parts"][name].items() if isinstance(value, float)}, flush=True)


if __name__ == "__main__":
    main()
