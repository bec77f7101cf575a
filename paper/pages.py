"""The page of tables and figures: ``docs/benchmarks.md``, from stored results alone.

Nothing on it is typed by hand: numbers, sentences and reasons are computed from the lines of the results, from
``paired.json`` and from the facts of the paper.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hotvae.errors import DataError
from hotvae.files import write_text
from paper.communities import communities_page
from paper.experiments import EXPERIMENTS, HOTVAE_ROWS, Experiment, searched_sets
from paper.facts import paper, printed
from paper.notes import cost_note
from paper.paired import groups_of, read_pairs, update_pairs
from paper.store import Store
from paper.summaries import (
    Mean,
    counted,
    joined,
    markdown_table,
    mean_of,
    metric_mean,
    plural,
    verdict,
)

TABLE_METRICS = {"example_f1": "ebF1", "micro_f1": "miF1", "macro_f1": "maF1", "hamming_accuracy": "HA"}
"""Measures of the paper's tables, and their names there."""

Groups = dict[tuple[str, str, int], list[dict[str, Any]]]
# Rows beside which the paper's numbers of its own model stand, too.
_PRINTED_AS = {"paper": "hotvae"}
_NOTE = "<!-- Written by `hotvae benchmark --render` from paper/results; do not edit. -->\n"


def write_pages(store: Store, docs: Path) -> list[Path]:
    """Write every page that there are results for.

    Parameters
    ----------
    store : Store
        Results; comparisons of single rows are brought up to date first, as far as rows are there.
    docs : Path
        Folder of the pages; pictures go to ``images/``.

    Returns
    -------
    list of Path
        What was written.

    Raises
    ------
    DataError
        When there is no result at all.

    Examples
    --------
    >>> import tempfile
    >>> write_pages(Store(tempfile.mkdtemp()), Path(tempfile.mkdtemp()))
    Traceback (most recent call last):
    ...
    hotvae.errors.DataError: results must hold a finished cell; got none ...
    """
    groups = {name: groups_of(store, experiment) for name, experiment in EXPERIMENTS.items()}
    if not any(groups.values()):
        raise DataError(
            f"results must hold a finished cell; got none ({store.folder.name}). Run hotvae benchmark tables first."
        )
    update_pairs(store)
    written = []
    if any(found for name, found in groups.items() if name != "communities"):
        text, pictures = _benchmarks_page(store, groups, docs)
        write_text(docs / "benchmarks.md", text)
        written += [docs / "benchmarks.md", *pictures]
    if groups["communities"]:
        text, pictures = communities_page(store, groups["communities"], docs)
        write_text(docs / "communities.md", _NOTE + text)
        written += [docs / "communities.md", *pictures]
    return written


def _benchmarks_page(store: Store, groups: Mapping[str, Groups], docs: Path) -> tuple[str, list[Path]]:
    pairs = read_pairs(store)
    pictures: list[Path] = []
    short: list[str] = []
    sections: list[str] = []
    writers: dict[str, Callable[[], tuple[list[str], str]]] = {
        "tables": lambda: _tables(groups["tables"], pairs),
    }
    for name, write in writers.items():
        experiment = EXPERIMENTS[name]
        if not groups[name]:
            sections.append(f"## {experiment.title}\n\nNot run yet: `hotvae benchmark {name}`.\n")
            continue
        sentences, body = write()
        short += sentences
        sections.append(f"## {experiment.title}\n\n{body}\n{cost_note(store, experiment)}")
    head = (
        f"{_NOTE}# Benchmarks\n\n"
        "Every number is of test rows that chose nothing: the epoch and the thresholds come from validation rows "
        "(the *honest* protocol). The *oracle* protocol, which published tables often use, takes thresholds from the "
        "test rows themselves and is shown apart. Values are means over seeds with 95 % intervals; one without an "
        "interval is of a single seed. Whether a model is ahead of another is decided by a paired bootstrap over test "
        "rows. Settings were chosen on validation rows and on rows held out of the training ones; while earlier "
        "defaults were tried out, test numbers of every set but sider were in sight (docs/adr). "
        "HOT-VAE finds its own recipe from the training rows; its parts alone are rows of the same fits. "
        "Every other network of a column reads rows in the same way, landmarks, neighbours, ridge start, coordinates "
        f"and all; {_searched()}.\n"
    )
    summary = "## In short\n\n" + "".join(f"* {sentence}\n" for sentence in short)
    return "\n".join([head, summary, *sections, _not_here()]), pictures


def _searched() -> str:
    """Say where settings were searched for by machine: readers judge fairness by it."""
    sets = searched_sets()
    if not sets:
        return "no model's settings were searched for by machine"
    return (
        f"on {joined(sets)}, the settings of every model that has any to search were searched for by machine, each for "
        "the same time (`hotvae tune`; docs/tuning.md), elsewhere no model's"
    )


# --- tables ----------------------------------------------------------------------------------------------


def _titles(groups: Groups, experiment: Experiment) -> dict[str, str]:
    """Names of variants on the page, in the order of the experiment."""
    own = {variant.name: variant.title for variant in experiment.variants}
    stored = {variant: lines[0].get("title", variant) for (variant, _, _), lines in groups.items()}
    return {name: own[name] or stored[name] for name in own if name in stored}


def _sets(groups: Groups, experiment: Experiment) -> list[tuple[str, int]]:
    there = dict.fromkeys((data, split) for _, data, split in groups)
    declared = [place for place in experiment.data if place in there]
    return declared + [place for place in there if place not in declared]


def _tables(groups: Groups, pairs: Mapping[str, Any]) -> tuple[list[str], str]:
    experiment = EXPERIMENTS["tables"]
    titles, sets = _titles(groups, experiment), _sets(groups, experiment)
    first = experiment.variants[0].name
    substitutes = paper()["substitutes"]
    marked = {data: data + (" \\*" if data in substitutes else "") for data, _ in sets}
    parts = [
        "In brackets: the paper's printed value. **Bold**: the best mean of a column. `−`: significantly behind "
        f"{titles.get(first, first)}, `+`: significantly ahead of it.\n"
    ]
    parts += [f"\\* {data}: {why}.\n" for data, why in substitutes.items() if data in marked]
    n_seeds = [f"{len(groups[first, *place])} on {place[0]}" for place in sets if (first, *place) in groups]
    parts += [f"Seeds of {titles[first]}: {joined(n_seeds)}.\n"] if n_seeds else []
    for protocol in ("honest", "oracle"):
        tables = []
        for metric, name in TABLE_METRICS.items():
            rows = _table_rows(groups, titles, sets, pairs, metric, protocol)
            tables.append(f"**{name}**\n\n" + markdown_table(["model", *(marked[data] for data, _ in sets)], rows))
        text = "\n".join(tables)
        if protocol == "oracle":
            text = f"<details><summary>The same under the oracle protocol</summary>\n\n{text}\n</details>\n"
        parts.append(text)
    verdicts = {
        (rival, data, metric): verdict(pairs, "tables", data, split, rival, metric)
        for rival in titles
        if rival != first
        for data, split in sets
        for metric in TABLE_METRICS
    }
    sentences = _table_sentences(groups, titles, sets, verdicts, first)
    if any(each is not None for each in verdicts.values()):
        rows = []
        for rival in titles:
            counts = [counted(verdicts.get((rival, data, metric)) for metric in TABLE_METRICS) for data, _ in sets]
            total = counted(each for (name, _, _), each in verdicts.items() if name == rival)
            if sum(total):
                rows.append(
                    [titles[rival], *("/".join(map(str, each)) if sum(each) else "–" for each in (*counts, total))]
                )
        parts.append(
            f"**Wins/ties/losses of {titles.get(first, first)}**, over ebF1, miF1, maF1 and HA\n\n"
            + markdown_table(["against", *(marked[data] for data, _ in sets), "all"], rows)
        )
    parts.append(_costs(groups, titles, sets, marked))
    return sentences, "\n".join(parts)


def _table_rows(
    groups: Groups,
    titles: Mapping[str, str],
    sets: Sequence[tuple[str, int]],
    pairs: Mapping[str, Any],
    metric: str,
    protocol: str,
) -> list[list[str]]:
    means = {
        (name, place): metric_mean(groups.get((name, *place), []), metric, protocol)
        for name in titles
        for place in sets
    }
    rows = []
    for name, title in titles.items():
        cells = []
        for data, split in sets:
            mean = means[name, (data, split)]
            told = printed(metric, data, _PRINTED_AS.get(name, name))
            if mean is None:
                text = "–"
            else:
                column = [found.value for found in (means[other, (data, split)] for other in titles) if found]
                text = mean.text()
                text = f"**{text}**" if mean.value == max(column) else text
                if protocol == "honest":
                    who = verdict(pairs, "tables", data, split, name, metric)
                    text += {1: " −", -1: " +"}.get(who or 0, "")
            cells.append(text if told is None else f"{text} ({told:.3f})")
        rows.append([title, *cells])
    return rows


def _table_sentences(
    groups: Groups,
    titles: Mapping[str, str],
    sets: Sequence[tuple[str, int]],
    verdicts: Mapping[tuple[str, str, str], int | None],
    first: str,
) -> list[str]:
    title = titles.get(first, first)
    sentences = []
    parts = {row.name for row in HOTVAE_ROWS if row.of}
    of_parts, of_rivals = (
        {key: each for key, each in verdicts.items() if (key[0] in parts) is own} for own in (True, False)
    )
    for some in (of_rivals, of_parts):
        wins, ties, losses = counted(some.values())
        n_open = list(some.values()).count(None)  # without a sign in the tables, they would pass for ties
        if wins + ties + losses:
            n_others = len({rival for (rival, _, _), each in some.items() if each is not None})
            n_sets = len({data for (_, data, _), each in some.items() if each is not None})
            others = f"{n_others} parts of itself alone" if some is of_parts else plural(n_others, "rival")
            sentences.append(
                f"{title} against {others} on {plural(n_sets, 'set')} in ebF1, miF1, maF1 and HA: "
                f"{plural(wins, 'win')}, {plural(ties, 'tie')}, {losses} {'loss' if losses == 1 else 'losses'}"
                + (f"; {n_open} not compared yet." if n_open else ".")
            )
        elif n_open and some is of_rivals:
            sentences.append(f"{title} has not been compared with any rival row by row yet ({n_open} comparisons).")
    above: list[str] = []
    below: list[str] = []
    for data, split in sets:
        if data in paper()["substitutes"]:
            continue
        for metric, name in TABLE_METRICS.items():
            told, mean = printed(metric, data, first), metric_mean(groups.get((first, data, split), []), metric)
            if told is not None and mean is not None:
                reached = mean.value + (mean.half or 0.0) >= told
                digits = 4 if f"{mean.value:.3f}" == f"{told:.3f}" else 3
                ours, theirs = f"{mean.value:.{digits}f}", f"{told:.{digits}f}"
                (above if reached else below).append(f"{name} on {data} ({ours}, paper {theirs})")
    if above or below:
        n_all = len(above) + len(below)
        sentences.append(
            f"{len(above)} of {n_all} of the paper's numbers for its own model are reached within the interval, under "
            "the honest protocol." + (f" Not reached: {joined(below)}." if below else "")
        )
    behind = []
    for data, _ in sets:
        lost = {
            rival: [name for metric, name in TABLE_METRICS.items() if verdicts.get((rival, data, metric)) == -1]
            for rival in titles
        }
        ahead = [f"{titles[rival]} ({joined(names)})" for rival, names in lost.items() if names]
        if ahead:
            behind.append(f"on {data} behind {joined(ahead)}")
    if behind:
        sentences.append(f"Significant losses: {'; '.join(behind)}.")
    elif of_rivals and None not in of_rivals.values():
        sentences.append("No rival is significantly ahead on any cell.")
    plain = counted(each for (rival, _, _), each in verdicts.items() if rival == "plain")
    ratios = [
        own.value / without.value
        for place in sets
        if (own := _fit_seconds(groups, first, place)) and (without := _fit_seconds(groups, "plain", place))
    ]
    if sum(plain) and ratios:
        sentences.append(
            f"Against a plain network: {plural(plain[0], 'win')}, "
            f"{plural(plain[1], 'tie')}, {plain[2]} {'loss' if plain[2] == 1 else 'losses'}, for {min(ratios):.1f} to "
            f"{max(ratios):.1f} times the processor time of a fit."
        )
    return sentences


def _fit_seconds(groups: Groups, name: str, place: tuple[str, int]) -> Mean | None:
    return mean_of(line["fit_seconds"]["cpu"] for line in groups.get((name, *place), []))


def _costs(
    groups: Groups, titles: Mapping[str, str], sets: Sequence[tuple[str, int]], marked: Mapping[str, str]
) -> str:
    rows = []
    for name, title in titles.items():
        cells = []
        for place in sets:
            lines = groups.get((name, *place), [])
            seconds = _fit_seconds(groups, name, place)
            memory = mean_of(line.get("peak_memory_gb") for line in lines)
            cells.append(
                "–"
                if seconds is None
                else f"{seconds.value:.0f} s" + ("" if memory is None else f", {memory.value:.1f} GB")
            )
        rows.append([title, *cells])
    head = ["model", *(marked[data] for data, _ in sets)]
    return "**Cost of one fit** (processor seconds on one thread, largest memory)\n\n" + markdown_table(head, rows)


# --- what is not here ------------------------------------------------------------------------------------


def _not_here() -> str:
    reasons = "".join(f"* {data}: {why}.\n" for data, why in paper()["missing"].items())
    return f"## Sets of the paper that are not here\n\n{reasons}"
