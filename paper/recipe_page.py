"""What HOT-VAE's own recipe reaches on every set, beside its parts, what was there before it, and its rivals.

    python -m paper.recipe_page                                (needs HOTVAE_DATA_DIR, or hotvae data get; hours)
    python -m paper.recipe_page --sets yeast scene --seeds 1
    python -m paper.recipe_page --quick                        (a virtual region, a minute; nothing is kept)
    python -m paper.recipe_page --render                       (writes the tables of docs/recipe.md)
    python -m paper.recipe_page --picture                      (draws docs/images/recipe.png)

Every fit is a process of its own on one thread, of low priority; its line goes to ``paper/results/recipe.jsonl`` as
soon as it is done, so that a run that was stopped goes on where it ended. What ``hotvae benchmark`` has measured with
the same settings is taken from there, but for models that are compared row by row: where the values of single rows are
gone, these are fitted anew. The comparisons are kept in ``paper/results/recipe.json``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hotvae.data.catalog import catalog_names, describe
from paper import DOCS
from paper.comparisons import Comparisons, Side
from paper.experiments import EXPERIMENTS, HOTVAE_ROWS, Cell, Experiment, Variant
from paper.figures import recipe_figure, save_figure
from paper.measuring import (
    add_options,
    command_of,
    measured_sets,
    n_splits_of,
    places_of,
    run_missing,
    sets_here,
    write_tables,
)
from paper.paired import Groups, compare, groups_of, resampled_values
from paper.runner import plan
from paper.store import Store
from paper.summaries import VERDICTS, counted, joined, markdown_table, mean_of, metric_mean, plural, verdict_of

RIVALS = ("extra_trees", "random_forest", "kernel_ridge", "ridge", "logistic", "boosting")
"""Simple models that the default must not be behind of."""

_TWINS = ("sider_elements",)
"""Sets with the same rows and, to this model, the same columns as another one: they would count twice."""

FILE, PAGE, PICTURE = "recipe.json", DOCS / "recipe.md", DOCS / "images" / "recipe.png"
_OWN = "hotvae"
# Stored numbers of a network that is gone: settings tuned by hand for single sets. The default was to be as good.
_BEFORE = Experiment("before", "What was there before", (Variant("hotvae preset", "hotvae_network"),), (), {"": 1})


def experiment_of(names: Sequence[str], n_seeds: int = 3) -> Experiment:
    """Declare what is measured on some sets.

    Parameters
    ----------
    names : sequence of str
        Sets of the catalogue, or virtual regions.
    n_seeds : int
        Seeds of each, where chance has a part.

    Returns
    -------
    Experiment

    Examples
    --------
    >>> sorted({cell.model for cell in experiment_of(["emotions"]).cells()})[:3]
    ['boosting', 'extra_trees', 'hotvae']
    """
    return Experiment(
        "recipe",
        "HOT-VAE's own recipe",
        (*(row for row in HOTVAE_ROWS if row.name != "paper"), *(Variant(name, name) for name in RIVALS)),
        places_of(names),
        {"": n_seeds},
    )


def all_sets() -> tuple[str, ...]:
    """Name the sets of the catalogue that are not to be brought along by everyone, each once.

    Examples
    --------
    >>> "emotions" in all_sets(), "bookmarks" in all_sets()
    (True, False)
    """
    return tuple(name for name in catalog_names() if not describe(name).own and name not in _TWINS)


# --- comparing -------------------------------------------------------------------------------------------


def _log_loss(ours: Side, theirs: Side) -> dict[str, Any]:
    return {"log_loss": compare(ours, theirs)["log_loss"]}


COMPARISONS = Comparisons(
    FILE,
    "log loss of HOT-VAE minus the rival's on test rows, all splits of a set together; 95 % intervals of a paired "
    "bootstrap",
    resampled_values,
    _log_loss,
)


def compare_sets(store: Store, experiment: Experiment, command: str = "") -> dict[str, Any]:
    """Compare the default with each rival on the test rows of a set, all its splits together.

    Returns
    -------
    dict
        By set, then by rival: ``fits`` that were compared, and ``log_loss`` with the difference ours − rival's and its
        95 % interval.

    Examples
    --------
    >>> compare_sets(Store(tempfile.mkdtemp()), experiment_of(["emotions"]))
    {}
    """
    pairs = {rival: (_OWN, rival) for rival in RIVALS}
    sets = [data for data, _ in experiment.data]
    return COMPARISONS.update(store, groups_of(store, experiment), sets, pairs, command)


# --- the tables ------------------------------------------------------------------------------------------


def all_groups(store: Store, experiment: Experiment) -> Groups:
    """Collect what is measured on the sets: here, and where other experiments have measured the same models.

    Examples
    --------
    >>> all_groups(Store(tempfile.mkdtemp()), experiment_of(["emotions"]))
    {}
    """
    found: Groups = {}
    for source in (_BEFORE, EXPERIMENTS["communities"], EXPERIMENTS["tables"], experiment):
        found |= groups_of(store, source)
    wanted = set(experiment.data)
    return {key: lines for key, lines in found.items() if key[1:] in wanted}


def _lines_of(groups: Groups, variant: str, name: str) -> list[dict[str, Any]]:
    """Return the lines of a model on a set; none where a split of the set is missing."""
    splits = [groups.get((variant, name, split), []) for split in range(n_splits_of(name))]
    return [line for lines in splits for line in lines] if all(splits) else []


def _loss(groups: Groups, variant: str, name: str) -> tuple[float, str] | None:
    """Mean log loss over seeds, of splits their mean, and how it is written."""
    means = [metric_mean(groups.get((variant, name, split), []), "log_loss") for split in range(n_splits_of(name))]
    known = [mean for mean in means if mean is not None]
    if not known or len(known) < len(means):
        return None
    value = float(np.mean([mean.value for mean in known]))
    halves = [mean.half for mean in known]
    # Splits are no draws: the interval is that of their mean, over seeds.
    half = None if None in halves else float(np.sqrt(np.sum(np.square(np.array(halves, dtype=float))))) / len(known)
    return value, f"{value:.4f}" if half is None else f"{value:.4f} ± {half:.4f}"


def _seconds(groups: Groups, variant: str, name: str) -> str:
    mean = mean_of(line["fit_seconds"]["cpu"] for line in _lines_of(groups, variant, name))
    if mean is None:
        return "–"
    return f"{mean.value:.0f}" if mean.value >= 10 else f"{mean.value:.1f}"


def rendered_tables(store: Store, experiment: Experiment, comparisons: Mapping[str, Any]) -> str:
    r"""Write the tables of the page, as Markdown, from results and what :func:`compare_sets` found.

    Examples
    --------
    >>> rendered_tables(Store(tempfile.mkdtemp()), experiment_of(["emotions"]), {})
    'Not measured yet.\n'
    """
    groups = all_groups(store, experiment)
    names = measured_sets(experiment, groups)
    if not names:
        return "Not measured yet.\n"
    rows = {row.name: row.title or "default" for row in experiment.variants if row.model.startswith("hotvae")}
    short = {"base alone": "base alone", "network alone": "network alone", "forest alone": "forest alone"}
    rows |= {row.name: "preset of before" for row in _BEFORE.variants} | {"paper": "paper's recipe"}
    heads = [short.get(name, {_OWN: "default"}.get(name, rows[name])) for name in rows]
    own = set(rows) | {row.name for row in HOTVAE_ROWS}
    losses, costs = [], []
    for name in names:
        found = {variant: _loss(groups, variant, name) for variant in rows}
        rivals = {
            variant: loss
            for variant in dict.fromkeys(key[0] for key in groups if key[1] == name and key[0] not in own)
            if (loss := _loss(groups, variant, name)) is not None
        }
        best = min(rivals, key=lambda rival: rivals[rival][0], default=None)
        least = min([*(loss[0] for loss in found.values() if loss), *(loss[0] for loss in rivals.values())], default=0)

        def text(loss: tuple[float, str] | None, least: float = least) -> str:
            return "–" if loss is None else f"**{loss[1]}**" if loss[0] == least else loss[1]

        shown = "–" if best is None else f"{text(rivals[best])} ({_title(groups, best)})"
        losses.append([name, *(text(found[variant]) for variant in rows), shown])
        spent = "–" if best is None else _seconds(groups, best, name)
        costs.append([name, *(_seconds(groups, variant, name) for variant in rows), spent])
    parts = [
        _in_short(names, comparisons),
        "**Log loss on test rows**: mean over seeds ± its 95 % interval, of several splits their mean. **Bold**: the "
        "lowest. A part that the recipe of some fit had no member of is left out.\n",
        markdown_table(["set", *heads, "best rival"], losses),
        "**Processor seconds of a fit**, on one thread. Parts: what their members took within the default's fit.\n",
        markdown_table(["set", *heads, "best rival"], costs),
        _verdict_table(names, comparisons, groups),
        _chosen_table(names, groups),
    ]
    return "\n".join(part for part in parts if part)


def _title(groups: Groups, variant: str) -> str:
    return str(next(lines[0].get("title", variant) for key, lines in groups.items() if key[0] == variant))


def _in_short(names: Sequence[str], comparisons: Mapping[str, Any]) -> str:
    """Count wins, ties and losses over all sets, and name the losses."""
    verdicts = {
        (name, rival): verdict_of(found["log_loss"])
        for name in names
        for rival, found in comparisons.get(name, {}).items()
    }
    if not verdicts:
        return ""
    wins, ties, losses = counted(verdicts.values())
    behind = [f"{rival} on {name}" for (name, rival), who in verdicts.items() if who == -1]
    told = f"Behind: {joined(behind)}." if behind else "It is behind none of them on any set."
    return (
        f"The default against {plural(len({rival for _, rival in verdicts}), 'simple rival')} on "
        f"{plural(len({name for name, _ in verdicts}), 'set')}, by log loss: {plural(wins, 'win')}, "
        f"{plural(ties, 'tie')}, {losses} {'loss' if losses == 1 else 'losses'}. {told}\n"
    )


def _verdict_table(names: Sequence[str], comparisons: Mapping[str, Any], groups: Groups) -> str:
    compared = [name for name in names if comparisons.get(name)]
    if not compared:
        return ""

    def text(found: Mapping[str, Any] | None) -> str:
        if found is None:
            return "–"
        return f"{VERDICTS[verdict_of(found['log_loss'])]} ({found['log_loss']['difference']:+.4f})"

    rows = [[name, *(text(comparisons[name].get(rival)) for rival in RIVALS)] for name in compared]
    titles = [_title(groups, rival) if any(key[0] == rival for key in groups) else rival for rival in RIVALS]
    return (
        "**The default beside simple rivals**, by a paired bootstrap over test rows, of all splits and of seeds that "
        "were at hand together: ahead or behind where the 95 % interval of the difference in log loss (in brackets, "
        "negative is better) does not hold 0.\n\n" + markdown_table(["set", *titles], rows)
    )


def _chosen_table(names: Sequence[str], groups: Groups) -> str:
    rows = []
    for name in names:
        lines = groups.get((_OWN, name, 0), [])
        if lines and "found" in lines[0]:
            found = lines[0]["found"]
            members = [f"{e['weight']:.2f} × {e['name']}" for e in found["entries"] if e["weight"] > 0]
            rows.append([name, "; ".join(members), found["folds"]])
    if not rows:
        return ""
    table = markdown_table(["set", "stack", "rows held out"], rows).replace("---:", "---")
    return f"**What it chose** (first split, first seed)\n\n{table}"


# --- the command -----------------------------------------------------------------------------------------


def measure(store: Store, experiment: Experiment, cells: Sequence[Cell], options: argparse.Namespace) -> None:
    """Run what is missing, and compare what is there."""
    todo = plan(store, cells, retry=options.retry, fresh=options.fresh, need_rows=(_OWN, *RIVALS))
    run_missing(store, todo, options, options.command)
    compare_sets(store, experiment, options.command)


def main(argv: Sequence[str] | None = None) -> None:
    """Run what is missing, or write the page; by default as the arguments of the process say."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=all_sets(), default=None, metavar="SET")
    parser.add_argument("--models", nargs="+", choices=(_OWN, *RIVALS), default=None, metavar="MODEL")
    parser.add_argument("--picture", action="store_true", help="draw the picture of the page and run nothing")
    add_options(parser, PAGE.name, limit="1h")
    options = parser.parse_args(words)
    options.command = command_of("paper.recipe_page", words, [options.results])
    if options.picture:
        save_figure(recipe_figure(), PICTURE)
    if options.quick:
        with tempfile.TemporaryDirectory() as folder:
            store = Store(folder)
            cells = experiment_of(["virtual-80-6"]).cells(smoke=True)
            tiny = experiment_of(["virtual-80-6"], n_seeds=1)
            measure(store, tiny, cells, options)
            print(rendered_tables(store, tiny, COMPARISONS.read(store)))
        return
    store = Store(options.results)
    if options.render:
        experiment = experiment_of(all_sets(), options.seeds)
        write_tables(PAGE, "recipe", rendered_tables(store, experiment, compare_sets(store, experiment)))
    if options.render or options.picture:
        return
    experiment = experiment_of(sets_here(options.sets or all_sets()), options.seeds)
    cells = [cell for cell in experiment.cells() if options.models is None or cell.variant in options.models]
    measure(store, experiment, cells, options)


if __name__ == "__main__":
    main()
