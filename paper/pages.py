"""The page of tables and figures: ``docs/benchmarks.md``, from stored results alone.

Nothing on it is typed by hand: numbers, sentences and reasons are computed from the lines of the results, from
``paired.json`` and from the facts of the paper.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hotvae.errors import DataError
from hotvae.files import write_text
from paper.communities import communities_page
from paper.experiments import EXPERIMENTS, HOTVAE_ROWS, Experiment, searched_sets
from paper.facts import paper, printed
from paper.figures import save_figure, series_figure
from paper.notes import cost_note
from paper.paired import groups_of, pair_key, read_pairs, update_pairs
from paper.store import Store
from paper.summaries import (
    Mean,
    counted,
    joined,
    markdown_table,
    mean_of,
    metric_mean,
    plural,
    silent_fits,
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
        "figure-layers": lambda: _layers(groups["figure-layers"], docs, pictures),
        "figure-depth": lambda: _depth(groups["figure-depth"], docs, pictures),
        "table-prior": lambda: _prior(groups["table-prior"], pairs),
        "ablation": lambda: _ablation(groups["ablation"], pairs),
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
    silent = silent_fits(line for place in sets for line in groups.get((first, *place), []))
    if silent:
        sentences.append(
            f"In {joined(silent)} the validation rows keep an epoch before labels begin to pass messages "
            "(`direct_epochs`): the label decoder is silent there, and the prediction is that of the direct path."
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


# --- rounds of messages ----------------------------------------------------------------------------------


def _layers(groups: Groups, docs: Path, pictures: list[Path]) -> tuple[list[str], str]:
    experiment = EXPERIMENTS["figure-layers"]
    titles, sets = _titles_of_variants(groups, experiment), _sets(groups, experiment)
    measures: dict[str, Callable[[list[dict[str, Any]]], Mean | None]] = {
        "maF1": lambda lines: metric_mean(lines, "macro_f1"),
        "log loss": lambda lines: metric_mean(lines, "log_loss"),
        "log loss given half of the labels": lambda lines: mean_of(
            (line.get("conditional") or {}).get("log_loss_given_half") for line in lines
        ),
    }
    parts, sentences = [], []
    for measure, read in measures.items():
        table = {(name, place): read(groups.get((name, *place), [])) for name in titles for place in sets}
        if not any(table.values()):
            continue
        digits = 3 if measure == "maF1" else 4
        rows = [
            [title, *("–" if (mean := table[name, place]) is None else mean.text(digits) for place in sets)]
            for name, title in titles.items()
        ]
        parts.append(f"**{measure}**\n\n" + markdown_table(["decoder", *(data for data, _ in sets)], rows))
        higher = measure == "maF1"
        best = []
        for place in sets:
            known = {name: mean for name in titles if (mean := table[name, place]) is not None}
            if len(known) > 1:
                top = (max if higher else min)(known, key=lambda name: known[name].value)
                best.append(f"{titles[top]} on {place[0]}" + _how_sure(known[top], next(iter(known.values()))))
        if best:
            sentences.append(f"Best depth by {measure}: {joined(best)}.")
    series = {
        data: [metric_mean(groups.get((name, data, split), []), "macro_f1") for name in titles] for data, split in sets
    }
    figure = series_figure(series, list(titles.values()), "rounds of messages", "maF1")
    pictures.append(save_figure(figure, docs / "images" / "benchmark_layers.png"))
    parts.append("![maF1 by the number of rounds](images/benchmark_layers.png)\n")
    parts += _silent_note(groups)
    return sentences, "\n".join(parts)


def _how_sure(top: Mean, first: Mean) -> str:
    """Say where the best depth is no better than the first as far as seeds can tell."""
    if top is first:
        return ""
    if top.half is None or first.half is None:
        return " (one seed)"
    return " (within the interval of the first)" if abs(top.value - first.value) <= max(top.half, first.half) else ""


def _depth(groups: Groups, docs: Path, pictures: list[Path]) -> tuple[list[str], str]:
    experiment = EXPERIMENTS["figure-depth"]
    titles, sets = _titles_of_variants(groups, experiment), _sets(groups, experiment)
    parts = [
        "Log loss of each species given all others of its site. Elsewhere on this page a perceptron reads known labels "
        "and can combine them before any message is passed; there, rounds add nothing to what it knows. Here the label "
        "encoder only adds known labels up: a third species that changes what a second one says can be learned by the "
        "decoder alone. The epoch kept is the best one given half of the labels. Differences are to one round, on the "
        "same training and test rows, with an interval over seeds.\n"
    ]
    sentences, series = [], {}
    for data, split in sets:
        lines = {name: groups.get((name, data, split), []) for name in titles}
        losses = {
            name: {line["cell"]["seed"]: line["others"]["log_loss"] for line in own} for name, own in lines.items()
        }
        first = next(iter(titles))
        rows = []
        for name, title in titles.items():
            gap = mean_of(loss - losses[first][seed] for seed, loss in losses[name].items() if seed in losses[first])
            mean = mean_of(losses[name].values())
            against = "" if name == first or gap is None else gap.text(4)
            rows.append([title, "–" if mean is None else mean.text(4), against])
        truth = mean_of(line["others"].get("log_loss_of_truth") for own in lines.values() for line in own)
        if truth is not None:
            rows.append(["the true law", Mean(truth.value, None, 1).text(4), ""])
        parts.append(
            f"**{data}**\n\n" + markdown_table(["decoder", "log loss given all others", "against 1 layer"], rows)
        )
        series[data] = [mean_of(losses[name].values()) for name in titles]
        values = [mean.value for mean in series[data] if mean is not None]
        if len(values) > 1:
            falls = all(later < before for before, later in itertools.pairwise(values))
            told = joined([f"{value:.4f}" for value in values])
            sentences.append(
                f"Where only messages can combine known labels ({data}), the log loss given all other labels "
                f"{'falls' if falls else 'does not fall'} with every round: {told} with 1 to {len(values)} rounds."
            )
    figure = series_figure(series, list(titles.values()), "rounds of messages", "log loss given all others")
    pictures.append(save_figure(figure, docs / "images" / "benchmark_depth.png"))
    parts.append("![log loss given all other labels by the number of rounds](images/benchmark_depth.png)\n")
    return sentences, "\n".join(parts)


def _titles_of_variants(groups: Groups, experiment: Experiment) -> dict[str, str]:
    """Names of variants where all are the same model."""
    there = {variant for variant, _, _ in groups}
    return {variant.name: variant.title or variant.name for variant in experiment.variants if variant.name in there}


# --- prior graph -----------------------------------------------------------------------------------------


def _prior(groups: Groups, pairs: Mapping[str, Any]) -> tuple[list[str], str]:
    experiment = EXPERIMENTS["table-prior"]
    sets, rows = _sets(groups, experiment), []
    better = {"prior": 0, "complete": 0}
    same: list[str] = []
    facts = paper()
    for data, split in sets:
        means = {name: metric_mean(groups.get((name, data, split), []), "median_auc") for name in better}
        told = {name: facts["median_auc"][name].get(facts["sets"].get(data, "")) for name in better}
        row = [data]
        for name in better:
            mean = means[name]
            row += ["–" if mean is None else mean.text(4), "–" if told[name] is None else f"{told[name]:.4f}"]
        difference = pairs.get(pair_key("table-prior", data, split, "complete"), {}).get("metrics", {}).get("log_loss")
        row.append("–" if difference is None else _gap(difference, 4))
        rows.append(row)
        prior, complete = means["prior"], means["complete"]
        if prior is not None and complete is not None:
            if f"{prior.value:.4f}" == f"{complete.value:.4f}":
                same.append(data)
            else:
                better["prior" if prior.value > complete.value else "complete"] += 1
    sentence = (
        f"By median AUC the graph of labels that occur together is better on {plural(better['prior'], 'set')}, the "
        f"complete graph on {plural(better['complete'], 'set')}."
    )
    head = ["median AUC", "prior graph", "paper", "complete graph", "paper", "log loss, prior − complete"]
    parts = [markdown_table(head, rows)]
    if same:
        parts.append(
            f"On {joined(same)} both graphs agree to four digits: where every two labels occur together in some row "
            "the graphs are one, and where the epoch kept passes no message they have no say.\n"
        )
    return [sentence], "\n".join([*parts, *_silent_note(groups)])


def _silent_note(groups: Groups) -> list[str]:
    """Tell readers of an experiment on messages in which of its fits none is passed."""
    silent = silent_fits(line for lines in groups.values() for line in lines)
    if not silent:
        return []
    return [f"In {joined(silent)} the epoch kept lies before labels pass messages: there the decoder is silent.\n"]


def _gap(found: Mapping[str, float], digits: int) -> str:
    # Adding 0 turns a rounded -0 into 0.
    gap, low, high = (round(found[name], digits) + 0.0 for name in ("difference", "low", "high"))
    return f"{gap:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"


# --- ablation --------------------------------------------------------------------------------------------


def _ablation(groups: Groups, pairs: Mapping[str, Any]) -> tuple[list[str], str]:
    experiment = EXPERIMENTS["ablation"]
    titles, sets = _titles_of_variants(groups, experiment), _sets(groups, experiment)
    parts = [
        "Differences are changed minus full model, with the interval of a paired bootstrap: a change helps where "
        "F1 rises (`+`) or the log loss falls (`-`). The interval covers the chance in test rows, not the chance in a "
        "fit, which the ± of the means tells: differences smaller than that another seed may turn round.\n"
    ]
    sentences = []
    restricted = {variant.name: variant.data for variant in experiment.variants}
    for data, split in sets:
        rows: list[list[str]] = []
        hurts: list[str] = []
        helps: list[str] = []
        for name, title in titles.items():
            if restricted[name] and data not in restricted[name]:
                continue
            lines = groups.get((name, data, split), [])
            if not lines:
                continue
            row = [title]
            for metric, digits in (("macro_f1", 3), ("micro_f1", 3), ("log_loss", 4)):
                mean = metric_mean(lines, metric)
                found = pairs.get(pair_key("ablation", data, split, name), {}).get("metrics", {}).get(metric)
                turned = found and {
                    "difference": -found["difference"],
                    "low": -found["high"],
                    "high": -found["low"],
                }
                row += ["–" if mean is None else mean.text(digits), "" if not turned else _gap(turned, digits)]
            rows.append(row)
            who = verdict(pairs, "ablation", data, split, name, "log_loss")
            if who:
                (hurts if who == 1 else helps).append(title)
        head = ["change", "maF1", "against full", "miF1", "against full", "log loss", "against full"]
        parts.append(f"**{data}**\n\n" + markdown_table(head, rows))
        told = [f"significantly worse: {joined(hurts)}"] if hurts else []
        told += [f"significantly better: {joined(helps)}"] if helps else []
        if told:
            sentences.append(f"Ablation on {data}, by log loss against the full model: {'; '.join(told)}.")
    return sentences, "\n".join([*parts, *_silent_note(groups)])


# --- what is not here ------------------------------------------------------------------------------------


def _not_here() -> str:
    reasons = "".join(f"* {data}: {why}.\n" for data, why in paper()["missing"].items())
    return f"## Sets of the paper that are not here\n\n{reasons}"
