"""Labels together: whole label sets, labels given others, how many labels, best lists; and what messages are worth.

    python -m paper.joint --cache FOLDER                          (needs HOTVAE_DATA_DIR, or hotvae data get; hours)
    python -m paper.joint --cache FOLDER --sets yeast --seeds 1 --models hotvae independent probit
    python -m paper.joint --cache FOLDER --only-laws              (what stands on bases that are in the folder: seconds)
    python -m paper.joint --quick                                 (a virtual region, a minute or two; nothing is kept)
    python -m paper.joint --render                                (writes the tables of docs/joint.md)

A base is fitted once for each set, split and seed, and what it says is kept in the folder of ``--cache``; all laws are
learned from that. Every fit is a process of its own on one thread, of low priority; its line goes to
``paper/results/joint.jsonl`` as soon as it is done, so that a run that was stopped goes on where it ended. Two models
are compared on resamples of the same test rows; the comparisons are kept in ``paper/results/joint.json``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotvae.config import MessagesConfig
from paper import DOCS
from paper.comparisons import Comparisons, Side
from paper.experiments import Cell, Experiment, Variant
from paper.figures import depth_figure, save_figure
from paper.measuring import add_options, command_of, measured_sets, places_of, run_missing, sets_here, write_tables
from paper.paired import N_RESAMPLES, Groups, Values, compare, groups_of, resamples
from paper.runner import WORKER, plan
from paper.store import Store
from paper.summaries import VERDICTS, counted, joined, markdown_table, mean_of, plural, verdict_of

SETS = (
    *("emotions", "norberg_butterfly", "scene", "yeast", "bbs2011_wilkinson", "norberg_birds", "norberg_plant"),
    *("norberg_trees", "norberg_vegetation", "breeding_birds_2009", "mirflickr_tags", "reuters", "bbs_like_ebird100"),
    "ebird_roccupy_june2019",
    "bbs_clark2003_2009",
)
"""Sets that are measured, the cheap ones first."""

FILE, PAGE, PICTURE = "joint.json", DOCS / "joint.md", DOCS / "images" / "joint_depth.png"
_LAW, _OWN, _FULL = "law", "hotvae", "two rounds"

# A hub alone, wide and with step sizes and decays that held-out rows choose among.
_HUB_ALONE = MessagesConfig(n_rounds=1, edges="none", n_causes=0, hub_width=256)
_TRAININGS = [[3e-3, 0.1], [1e-2, 1.0], [1e-2, 3.0]]


def _law(name: str, title: str, law: Any = "default", base: str = "hotvae", **more: Any) -> Variant:
    settings = {"base": base, "law": law, **more}
    if isinstance(law, MessagesConfig):
        settings |= {"law": asdict(law), "trainings": _TRAININGS}
    return Variant(name, _LAW, settings, title)


MODELS: tuple[Variant, ...] = (
    _law(_OWN, "HOT-VAE"),
    _law("independent", "its base, labels independent", "none"),
    _law("hub", "its base and a hub alone", _HUB_ALONE),
    _law("forest law", "the law on a forest", base="forest"),
    _law("forest", "that forest, labels independent", "none", base="forest"),
    Variant("extra_trees", "extra_trees", title="extremely randomised trees, independent"),
    Variant("mpvae", "mpvae", title="MPVAE"),
    Variant("probit", "probit", {"squares": True}, "probit, linear and squares"),
    Variant("probit_mlp", "probit", {"mean": "mlp"}, "probit, perceptron"),
    # Fewer chains and penalties than its defaults: a chain of 370 species takes half a minute.
    Variant("chains", "chain_ensemble", {"n_chains": 5, "penalties": [0.1, 0.3, 1.0]}, "ensemble of 5 chains"),
)
"""What is compared with each other; the first with every other one."""


def _less(name: str, title: str, *, n_rounds: int = 2, change: Mapping[str, Any] | None = None, **more: Any) -> Variant:
    return _law(name, title, change={"n_rounds": n_rounds, **(change or {})}, brief=True, **more)


ABLATIONS: tuple[Variant, ...] = (
    _less(_FULL, "two rounds"),
    *(_less(f"{n} rounds", f"{n} rounds" if n > 1 else "1 round", n_rounds=n) for n in (1, 3, 4)),
    _less("no hub", "no hub", change={"hub_width": 0}),
    _less("constant edges", "edges that do not change with the features", constant=True),
    _less("one edge", "one edge for presence and absence, both ways", change={"edges": "shared"}),
    _less("signed edges", "edges apart for presence and absence, both ways", change={"edges": "signed"}),
    _less("softmax", "softmax attention instead", softmax=True),
)
"""The law on HOT-VAE's base, all that it tries changed in one way; the first is what the others are compared with.

They are measured by likelihood and by labels given others alone, without draws and lists."""

ALL_VARIANTS = (*MODELS, *ABLATIONS)
TITLES = {variant.name: variant.title for variant in ALL_VARIANTS}

COLUMNS: Mapping[str, tuple[str, int, bool | None]] = {
    "nll_row": ("joint NLL, nats a row", 2, False),
    "nll_label": ("a label", 4, False),
    "given_0": ("log loss, 0 % known", 4, False),
    "given_10": ("10 %", 4, False),
    "given_25": ("25 %", 4, False),
    "given_50": ("50 %", 4, False),
    "given_90": ("90 %", 4, False),
    "coverage_50": ("50 % interval", 2, None),
    "coverage_80": ("80 %", 2, None),
    "coverage_90": ("90 %", 2, None),
    "subset": ("whole set right", 3, True),
    "f1": ("ebF1", 3, True),
    "jaccard": ("Jaccard", 3, True),
}
"""Measures of the page: title, digits, and whether more is better (None: nearer to what it says)."""

COMPARED: tuple[str, ...] = (
    "nll_label",
    "given_0",
    "given_10",
    "given_25",
    "given_50",
    "given_90",
    "subset",
    "f1",
    "jaccard",
)
"""Measures of which two models are compared row by row."""


def experiment_of(names: Sequence[str], n_seeds: int = 3, n_splits: int | None = None) -> Experiment:
    """Declare what is measured on some sets.

    Parameters
    ----------
    names : sequence of str
        Sets of the catalogue, or virtual regions.
    n_seeds : int
        Seeds of each.
    n_splits : int, optional
        At most so many splits of each.

    Returns
    -------
    Experiment

    Examples
    --------
    >>> experiment = experiment_of(["norberg_butterfly"])
    >>> len({(cell.split, cell.seed) for cell in experiment.cells()})
    9
    """
    places = places_of(names, n_splits)
    return Experiment("joint", "Labels together", ALL_VARIANTS, places, {"": n_seeds}, ("joint",))


# --- comparing -------------------------------------------------------------------------------------------


def resampled_scores(rows: Mapping[str, NDArray[Any]], n_resamples: int = N_RESAMPLES) -> Values:
    """Measure a model on all test rows and on resamples of them.

    Parameters
    ----------
    rows : mapping of str to ndarray
        Values of single rows, as :class:`~hotvae.metrics.JointScores` has them, and ``row``.
    n_resamples : int
        How often rows are drawn with replacement.

    Returns
    -------
    dict of str to ndarray of shape (1 + n_resamples,)
        By measure; first the value of all rows.

    Examples
    --------
    >>> rows = {"row": np.arange(2), "nll": np.array([1.0, 3.0]), "n_observed": np.array([2.0, 2.0])}
    >>> resampled_scores(rows, 0)["nll_label"]
    array([1.])
    """
    n_rows = len(rows["row"])
    pairs = {"nll_label": ("nll", "n_observed")} | {f"given_{n}": (f"given_{n}", f"n_given_{n}") for n in _KNOWN}
    tables: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {
        name: (rows[top].astype(np.float64), rows[bottom].astype(np.float64))
        for name, (top, bottom) in pairs.items()
        if top in rows
    }
    for name in ("subset", "f1", "jaccard"):
        if name in rows:
            there = ~np.isnan(rows[name])
            tables[name] = np.where(there, rows[name], 0).astype(np.float64), there.astype(np.float64)
    found: dict[str, list[NDArray[np.float64]]] = {name: [] for name in tables}
    for weights in (np.ones((1, n_rows)), *resamples(rows["row"], n_resamples)):
        for name, (top, bottom) in tables.items():
            found[name].append((weights @ top) / np.maximum(weights @ bottom, 1e-12))
    return {name: np.concatenate(parts) for name, parts in found.items()}


_KNOWN = ("0", "10", "25", "50", "90")


def _measures(ours: Side, theirs: Side) -> dict[str, Any]:
    shared = set.intersection(*(set(values) for _, values in (*ours, *theirs)))
    return {"measures": compare(ours, theirs, [name for name in COMPARED if name in shared])}


COMPARISONS = Comparisons(
    FILE,
    "differences ours - rival's on test rows, all splits and seeds of a set together; 95 % intervals of a paired "
    "bootstrap",
    resampled_scores,
    _measures,
)


def compare_sets(store: Store, experiment: Experiment, command: str = "") -> dict[str, Any]:
    """Compare HOT-VAE with every other model, and the full law with every lesser one, on the test rows of each set.

    Returns
    -------
    dict
        By set, then by ``"ours/rival"``: ``fits`` that were compared, and by measure the difference ours − rival's and
        its 95 % interval.

    Examples
    --------
    >>> compare_sets(Store(tempfile.mkdtemp()), experiment_of(["emotions"]))
    {}
    """
    pairs = [(_OWN, variant.name) for variant in MODELS[1:]] + [(_FULL, variant.name) for variant in ABLATIONS[1:]]
    # Depth is its own question: is each round ahead of the one before it?
    pairs += [(_FULL, "independent"), ("3 rounds", _FULL), ("4 rounds", "3 rounds"), ("1 rounds", "independent")]
    by_key = {f"{ours}/{rival}": (ours, rival) for ours, rival in pairs}
    sets = [data for data, _ in experiment.data]
    return COMPARISONS.update(store, groups_of(store, experiment), sets, by_key, command)


# --- the tables ------------------------------------------------------------------------------------------


def rendered_tables(store: Store, experiment: Experiment, comparisons: Mapping[str, Any]) -> str:
    r"""Write the tables of the page, as Markdown, from results and what :func:`compare_sets` found.

    Examples
    --------
    >>> rendered_tables(Store(tempfile.mkdtemp()), experiment_of(["emotions"]), {})
    'Not measured yet.\n'
    """
    groups = groups_of(store, experiment)
    names = measured_sets(experiment, groups)
    if not names:
        return "Not measured yet.\n"
    parts = [_in_short(names, comparisons), _verdict_table(names, comparisons), _depth_table(names, comparisons)]
    parts += [_ablation_table(names, comparisons)]
    parts += [_set_section(name, groups) for name in names]
    return "\n".join(part for part in parts if part)


def _lines_of(groups: Groups, variant: str, name: str) -> list[dict[str, Any]]:
    return [line for (own, data, _), lines in groups.items() if (own, data) == (variant, name) for line in lines]


def _value(groups: Groups, variant: str, name: str, measure: str) -> float | None:
    """Mean over the fits of a model on a set, of splits their mean."""
    by_split = [
        mean_of(line["joint"].get(measure) for line in lines)
        for (own, data, _), lines in groups.items()
        if (own, data) == (variant, name)
    ]
    known = [mean.value for mean in by_split if mean is not None]
    return float(np.mean(known)) if known else None


def _set_section(name: str, groups: Groups) -> str:
    variants = [variant for variant in ALL_VARIANTS if _lines_of(groups, variant.name, name)]
    values = {v.name: {measure: _value(groups, v.name, name, measure) for measure in COLUMNS} for v in variants}
    rows = []
    compared = [v.name for v in MODELS if v.name in values]
    for variant in variants:
        own = values[variant.name]
        cells = []
        for measure, (_, digits, better) in COLUMNS.items():
            rivals = [values[other][measure] for other in compared]
            known = [round(value, digits) for value in rivals if value is not None]
            text = "–" if own[measure] is None else f"{own[measure]:.{digits}f}"
            best = None if better is None or not known else (max if better else min)(known)
            is_best = own[measure] is not None and round(float(own[measure] or 0), digits) == best
            cells.append(f"**{text}**" if is_best and variant.name in compared else text)
        lines = _lines_of(groups, variant.name, name)
        seconds = mean_of(line["fit_seconds"]["cpu"] for line in lines)
        spread = mean_of(line.get("order_spread") for line in lines)
        cells += ["–" if seconds is None else f"{seconds.value:.0f}", "–" if spread is None else f"{spread.value:.2f}"]
        rows.append([TITLES[variant.name], str(len(lines)), *cells])
    first = next(iter(_lines_of(groups, variants[0].name, name)))
    n_train, n_held, n_test = first["n_rows"]
    sizes = f"{first['n_labels']} labels; {n_train} + {n_held} rows to learn from, {n_test} test rows"
    chosen = [line["messages"] for line in _lines_of(groups, _OWN, name)]
    told = f" {_chosen(chosen)}" if chosen else ""
    head = ["model", "fits", *(title for title, _, _ in COLUMNS.values()), "fit, CPU s", "orders, nats"]
    return f"### {name}\n\n{sizes}.{told}\n\n{markdown_table(head, rows)}"


def _chosen(configs: Sequence[Mapping[str, Any] | None]) -> str:
    """Say what the fits of the default chose."""
    silent = sum(config is None for config in configs)
    words = []
    for config in configs:
        if config is not None:
            words.append(
                f"{plural(config['n_rounds'], 'round')}, {config['edges']} edges, {config['n_causes']} causes"
                + (f", hub of {config['hub_width']}" if config["hub_width"] else "")
            )
    counted = [f"{word} ({words.count(word)} of {len(configs)} fits)" for word in dict.fromkeys(words)]
    if silent:
        counted.append(f"no messages ({silent} of {len(configs)} fits)")
    return f"HOT-VAE chose {joined(counted)}."


def _verdict(gap: Mapping[str, float], measure: str) -> int:
    return verdict_of(gap, COLUMNS[measure][2] is True, smallest=0.0)


def _cell(found: Mapping[str, Any] | None, measure: str) -> str:
    if found is None or measure not in found["measures"]:
        return "–"
    gap = found["measures"][measure]
    word = VERDICTS[_verdict(gap, measure)]
    return f"{word} ({gap['difference']:+.4f}; {gap['low']:+.4f} to {gap['high']:+.4f})"


def _verdict_table(names: Sequence[str], comparisons: Mapping[str, Any]) -> str:
    rivals = [v for v in MODELS[1:] if any(f"{_OWN}/{v.name}" in comparisons.get(name, {}) for name in names)]
    if not rivals:
        return ""
    rows = [
        [name, *(_cell(comparisons.get(name, {}).get(f"{_OWN}/{v.name}"), "nll_label") for v in rivals)]
        for name in names
    ]
    return (
        "**Joint negative log likelihood a label, HOT-VAE beside the others**: the difference and its 95 % interval by "
        "a paired bootstrap over test rows; negative is better, ahead or behind where the interval does not hold 0.\n\n"
        + markdown_table(["set", *(v.title for v in rivals)], rows)
    )


# From one number of rounds to the next: the comparison that tells.
_STEPS = {
    "1 round : none": "1 rounds/independent",
    "2 : 1": f"{_FULL}/1 rounds",
    "3 : 2": f"3 rounds/{_FULL}",
    "4 : 3": "4 rounds/3 rounds",
}
_DEPTH_MEASURES = {"nll_label": "joint likelihood (negative)", "given_50": "log loss, half of the labels known"}


def depth_series(store: Store, experiment: Experiment, comparisons: Mapping[str, Any]) -> tuple[Any, Any]:
    """Collect what the figure of depth shows: losses by number of rounds, and what each step was worth.

    Examples
    --------
    >>> depth_series(Store(tempfile.mkdtemp()), experiment_of(["emotions"]), {})
    ({}, {})
    """
    groups = groups_of(store, experiment)
    losses, gaps = {}, {}
    for name in dict.fromkeys(data for data, _ in experiment.data):
        found = comparisons.get(name, {})
        if _STEPS["2 : 1"] not in found:
            continue
        rounds = ("independent", "1 rounds", _FULL, "3 rounds", "4 rounds")
        # Only fits that all stand on: labels left independent may have been measured with more seeds.
        fits = {(line["cell"]["split"], line["cell"]["seed"]) for line in _lines_of(groups, _FULL, name)}
        same = {
            key: [line for line in lines if (key[2], line["cell"]["seed"]) in fits] for key, lines in groups.items()
        }
        losses[name] = {
            title: [_value(same, variant, name, measure) for variant in rounds]
            for measure, title in _DEPTH_MEASURES.items()
        }
        gaps[name] = [_cell(found.get(key), "nll_label").split(" (")[0].strip("*–") for key in _STEPS.values()]
    return losses, gaps


def _depth_table(names: Sequence[str], comparisons: Mapping[str, Any]) -> str:
    steps = _STEPS
    there = [name for name in names if any(key in comparisons.get(name, {}) for key in steps.values())]
    if not there:
        return ""
    rows = []
    for name in there:
        for measure in _DEPTH_MEASURES:
            cells = [_cell(comparisons[name].get(key), measure) for key in steps.values()]
            rows.append([name if measure == "nll_label" else "… 50 % known", *cells])
    return (
        "**Is each round ahead of the one before it?** Joint negative log likelihood a label, and log loss with half "
        "of the labels known; the same base, everything else the same.\n\n"
        + markdown_table(["set", *steps], rows)
        + "\n![joint likelihood and log loss by the number of rounds](images/joint_depth.png)\n"
    )


def _ablation_table(names: Sequence[str], comparisons: Mapping[str, Any]) -> str:
    lesser = [v for v in ABLATIONS[1:] if any(f"{_FULL}/{v.name}" in comparisons.get(name, {}) for name in names)]
    if not lesser:
        return ""
    rows = [
        [name, *(_cell(comparisons.get(name, {}).get(f"{_FULL}/{v.name}"), "nll_label") for v in lesser)]
        for name in names
        if any(key.startswith(f"{_FULL}/") for key in comparisons.get(name, {}))
    ]
    return (
        "**What the parts are worth**: joint negative log likelihood a label of the law with two rounds minus that of "
        "one with something less, on the same base. Where the set is too small for a part to be tried, leaving it away "
        "changes nothing.\n\n" + markdown_table(["set", *(v.title for v in lesser)], rows)
    )


def _in_short(names: Sequence[str], comparisons: Mapping[str, Any]) -> str:
    """Count where HOT-VAE is ahead, level and behind, measure by measure."""
    lines = []
    for measure in ("nll_label", "given_50", "subset", "f1"):
        verdicts = {
            (name, key.partition("/")[2]): _verdict(found["measures"][measure], measure)
            for name in names
            for key, found in comparisons.get(name, {}).items()
            if key.startswith(f"{_OWN}/") and measure in found["measures"]
        }
        if verdicts:
            counts = counted(verdicts.values())
            behind = [f"{TITLES[rival]} on {name}" for (name, rival), who in verdicts.items() if who == -1]
            title = {"nll_label": "joint likelihood", "given_50": "log loss with half of the labels known"}
            words = title.get(measure, COLUMNS[measure][0])
            told = f"; behind {joined(behind)}" if behind else ""
            lines.append(f"* By {words}: ahead {counts[0]} times, level {counts[1]}, behind {counts[2]}{told}.")
    if not lines:
        return ""
    head = f"HOT-VAE beside the others on {plural(len(names), 'set')}, by paired 95 % intervals over test rows:\n\n"
    return head + "\n".join(lines) + "\n"


# --- the command -----------------------------------------------------------------------------------------


def settings_of(cell: Cell) -> Mapping[str, Any]:
    """Return everything a cell is fitted with."""
    from paper.joint_cells import settings_of as resolved  # torch is not needed to render

    return resolved(cell)


def chosen_cells(experiment: Experiment, options: argparse.Namespace) -> list[Cell]:
    """List the cells that are asked for: set by set, so that bases are used while they are fresh."""
    cells = [cell for cell in experiment.cells() if options.models is None or cell.variant in options.models]
    if options.effort != "normal":
        cells = [
            replace(cell, settings={**cell.settings, "effort": options.effort}) if cell.model == _LAW else cell
            for cell in cells
        ]
    if options.law_effort is not None:
        cells = [
            replace(cell, settings={**cell.settings, "law_effort": options.law_effort}) if cell.model == _LAW else cell
            for cell in cells
        ]
    if options.only_laws:
        from paper.joint_cells import base_path

        cells = [cell for cell in cells if cell.model == _LAW and base_path(cell, options.cache).exists()]
    if options.draws:
        cells = [replace(cell, n_draws=options.draws) for cell in cells]
    return cells


def measure(store: Store, experiment: Experiment, options: argparse.Namespace) -> None:
    """Run what is missing, and compare what is there."""
    cells = chosen_cells(experiment, options)
    todo = plan(store, cells, retry=options.retry, fresh=options.fresh, settings=settings_of)
    worker = (*WORKER[:-1], "paper.joint_cells", str(options.cache.absolute()))
    run_missing(store, todo, options, options.command, worker)
    compare_sets(store, experiment, options.command)


def main(argv: Sequence[str] | None = None) -> None:
    """Run what is missing, or write the page; by default as the arguments of the process say."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), metavar="SET")
    parser.add_argument("--models", nargs="+", choices=list(TITLES), default=None, metavar="MODEL")
    parser.add_argument("--splits", type=int, default=None, help="at most so many of each set; by default all")
    parser.add_argument("--cache", type=Path, default=None, help="folder where bases are kept; not for git")
    parser.add_argument("--only-laws", action="store_true", help="learn laws on bases that are there, fit nothing else")
    parser.add_argument("--effort", choices=("quick", "normal", "thorough"), default="normal", help="of HOT-VAE's base")
    parser.add_argument("--law-effort", type=float, help="epochs of laws, as a share of their usual number")
    parser.add_argument("--draws", type=int, default=100, help="whole label sets for each test row")
    add_options(parser, PAGE.name, limit="2h")
    options = parser.parse_args(words)
    options.command = command_of("paper.joint", words, [options.results, options.cache])
    if options.quick:
        with tempfile.TemporaryDirectory() as folder:
            options.cache, options.effort, options.draws = Path(folder) / "bases", "quick", 50
            store, tiny = Store(folder), experiment_of(["virtual-400-8"], n_seeds=1)
            measure(store, tiny, options)
            print(rendered_tables(store, tiny, COMPARISONS.read(store)))
        return
    store = Store(options.results)
    if options.render:
        experiment = experiment_of(SETS, options.seeds)
        comparisons = compare_sets(store, experiment)
        write_tables(PAGE, "joint", rendered_tables(store, experiment, comparisons))
        losses, gaps = depth_series(store, experiment, comparisons)
        if losses:
            save_figure(depth_figure(losses, gaps), PICTURE)
        return
    if options.cache is None:
        parser.error("--cache must name a folder where bases are kept, outside of the repository")
    measure(store, experiment_of(sets_here(options.sets), options.seeds, options.splits), options)


if __name__ == "__main__":
    main()
