"""The page of species communities: ``docs/communities.md``, from stored results alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hotvae.metrics.ecology import MEASURES
from paper.experiments import EXPERIMENTS, NORBERG
from paper.facts import Published, is_better, is_comparable, paper, published
from paper.figures import level_figure, save_figure
from paper.notes import cost_note
from paper.paired import read_pairs
from paper.store import Store
from paper.summaries import counted, joined, markdown_table, mean_of, plural, verdict

Groups = dict[tuple[str, str, int], list[dict[str, Any]]]
Numbers = dict[str, float | None]

_NORBERG_SETS = tuple((f"norberg_{taxon}", split) for taxon in NORBERG for split in range(3))
_LEVELS = ("occurrence", "richness", "community")
_MORE = {
    "log_loss": "log loss",
    "mean_auc": "mean AUC",
    "richness_coverage": "richness: 50 % interval covers",
    "richness_coverage_shared_ties": "the same, ties shared",
}
# Draws of the kind that the published rows had.
_DRAWN_APART = "gomes_drawn_apart"
_TITLES = {"norberg": "Norberg et al., mean over splits"}


def community_numbers(lines: Sequence[Mapping[str, Any]], dialect: str) -> Numbers:
    """Average the 20 measures and what stands beside them over the seeds of a cell.

    Parameters
    ----------
    lines : sequence of mapping
        Results that differ in their seed alone.
    dialect : {"gomes", "norberg", "gomes_drawn_apart"}
        Whose definitions; the last is ``"gomes"`` with every species drawn by itself, as published rows were.

    Returns
    -------
    dict of str to float or None
        Empty without lines.

    Examples
    --------
    >>> community_numbers([], "gomes")
    {}
    """
    if not lines:
        return {}

    def mean(values: Sequence[float | None]) -> float | None:
        found = mean_of(values)
        # A measure that does not exist for one seed is no mean over seeds.
        return None if found is None or found.n < len(values) else found.value

    # Models that draw every species by itself have no second kind of draws.
    stored = [line["ecology"].get(dialect) or line["ecology"]["gomes"] for line in lines]
    numbers: Numbers = {name: mean([values.get(name) for values in stored]) for name in MEASURES}
    for name in ("log_loss", "mean_auc"):
        numbers[name] = mean([line["metrics"]["honest"].get(name) for line in lines])
    for name in ("richness_coverage", "richness_coverage_shared_ties"):
        numbers[name] = mean([line["ecology"].get(name) for line in lines])
    return numbers


def wins_over(numbers: Numbers, theirs: Published, n_sites: int) -> tuple[int, int]:
    """Count measures on which a model is ahead of a published one.

    Parameters
    ----------
    numbers : dict
        Ours, in dialect ``gomes``.
    theirs : Published
        What was published.
    n_sites : int
        Our test sites.

    Returns
    -------
    ahead, compared : int

    Examples
    --------
    >>> row = published()[0]
    >>> wins_over({name: 0.0 for name in MEASURES}, row, row.n_sites)
    (15, 20)
    """
    names = [name for name in MEASURES if is_comparable(name, theirs, n_sites) and numbers.get(name) is not None]
    return sum(is_better(name, float(numbers[name] or 0.0), theirs.values[name]) for name in names), len(names)


def communities_page(store: Store, groups: Groups, docs: Path) -> tuple[str, list[Path]]:
    """Write the page.

    Parameters
    ----------
    store : Store
        Results.
    groups : dict
        Finished cells by variant, data and split.
    docs : Path
        Where pictures go: ``images/`` in it.

    Returns
    -------
    text : str
        Markdown.
    pictures : list of Path
        One for each level.

    Examples
    --------
    >>> import tempfile
    >>> text, pictures = communities_page(Store(tempfile.mkdtemp()), {}, Path(tempfile.mkdtemp()))
    >>> len(pictures)
    3
    """
    experiment = EXPERIMENTS["communities"]
    names = [variant.name for variant in experiment.variants if any(key[0] == variant.name for key in groups)]
    own = {variant.name: variant.title for variant in experiment.variants}
    titles = {
        name: own[name] or next(lines[0]["title"] for key, lines in groups.items() if key[0] == name) for name in names
    }
    first = experiment.variants[0].name
    places = dict.fromkeys((data, split) for _, data, split in groups)
    singles = [place for place in places if place not in _NORBERG_SETS]
    norberg = [place for place in _NORBERG_SETS if place in places]
    sentences: list[str] = []
    sections: list[str] = []
    pictured: dict[str, dict[str, dict[str, float]]] = {}
    for place in singles:
        section = _Section(place[0], [place], groups, titles)
        sections.append(section.text())
        pictured[section.title] = section.pictured()
        sentences += section.sentences(first)
    if norberg:
        section = _Section("norberg", norberg, groups, titles)
        sections.append(section.text() + "\n" + _split_table(norberg, groups, titles))
        pictured[section.title] = section.pictured()
        sentences += section.sentences(first)
    sentences += _row_sentences(store, places, titles, first)
    pictures = []
    shown = ""
    for level in _LEVELS:
        path = save_figure(level_figure(level, pictured), docs / "images" / f"communities_level_{level}.png")
        pictures.append(path)
        shown += f"![{level}: four aspects of every model](images/{path.name})\n\n"
    text = (
        "# Species communities\n\n"
        "Twenty measures of predicted communities (see [ecology_measures.md](ecology_measures.md)), from 100 "
        "communities drawn from each model and 300 pairs of sites, the same for every model. Epochs and thresholds "
        "come from validation rows. Published columns: DMVP-DRNets and HMSC as their authors' results files print "
        "them, in the dialect `gomes`. For accuracy, calibration and precision smaller is better, for discrimination "
        "larger. Calibration of occurrence counts sites and is compared only where the numbers of test sites agree; "
        "HMSC's calibration of richness was scored on 100 sites and is not compared. DMVP-DRNets' communities "
        "were drawn species by species from one table of probabilities, HMSC's from one table of each posterior draw. "
        "Ours are drawn whole where a model says how species go together, which spreads richness and turnover more "
        "widely: better calibrated, and by the measure of precision worse. Measures ahead are counted for whole draws "
        "and for draws species by species.\n\n"
        "## In short\n\n" + "".join(f"* {sentence}\n" for sentence in sentences) + "\n" + shown
    )
    return text + "\n".join([*sections, _paper_table(groups, titles), cost_note(store, experiment)]), pictures


class _Section:
    """One data set, or the mean over several splits, in all its tables."""

    def __init__(self, name: str, places: Sequence[tuple[str, int]], groups: Groups, titles: Mapping[str, str]) -> None:
        self.places, self.groups = list(places), groups
        self.title = _TITLES.get(name, name)
        # A mean over splits is one only for models that have them all.
        self.titles = {key: title for key, title in titles.items() if all((key, *place) in groups for place in places)}
        self.missing = {
            title: sum((key, *place) in groups for place in places)
            for key, title in titles.items()
            if key not in self.titles and any((key, *place) in groups for place in places)
        }

    def numbers(self, key: str, dialect: str) -> Numbers:
        each = [community_numbers(self.groups[(key, *place)], dialect) for place in self.places]
        return {name: _mean_if_all([found[name] for found in each]) for name in each[0]}

    def published(self) -> dict[str, Numbers]:
        """Means of published rows that have all these splits."""
        found: dict[str, Numbers] = {}
        for model in dict.fromkeys(row.model for row in published()):
            rows = [row for row in published() if row.model == model and (row.data, row.split) in self.places]
            if len(rows) == len(self.places):
                found[model] = {name: _mean_if_all([row.values[name] for row in rows]) for name in MEASURES}
        return found

    def n_sites(self) -> int:
        return min(
            int(self.groups[(key, *place)][0]["ecology"]["n_sites"]) for key in self.titles for place in self.places
        )

    def wins(self, key: str, model: str, dialect: str = "gomes") -> tuple[int, int]:
        rows = {(row.data, row.split): row for row in published() if row.model == model}
        mean = Published(model, "", 0, rows[self.places[0]].n_sites, _known(self.published()[model]))
        return wins_over(self.numbers(key, dialect), mean, self.n_sites())

    def pictured(self) -> dict[str, dict[str, float]]:
        ours = {title: _known(self.numbers(key, "gomes")) for key, title in self.titles.items()}
        return ours | {model: _known(numbers) for model, numbers in self.published().items()}

    def sentences(self, first: str) -> list[str]:
        told = []
        if first in self.titles:
            for model in self.published():
                ahead, compared = self.wins(first, model)
                apart, _ = self.wins(first, model, _DRAWN_APART)
                told.append(
                    f"{self.title}: {self.titles[first]} is ahead of the published {model} on {ahead} of {compared} "
                    f"measures, and on {apart} where species are drawn one by one."
                )
            coverage = self.numbers(first, "gomes")["richness_coverage"]
            if coverage is not None:
                told.append(
                    f"{self.title}: the central 50 % interval of {self.titles[first]}'s richness covers "
                    f"{100 * coverage:.0f} % of the test sites."
                )
        return told

    def text(self) -> str:
        parts = [f"## {self.title}\n"]
        if self.missing:
            words = [f"{title} ({n} of {len(self.places)})" for title, n in self.missing.items()]
            parts.append(f"Not all splits are here for {joined(words)}; they are left out of the means.\n")
        if not self.titles:
            return "\n".join(parts)
        ours = {key: self.numbers(key, "gomes") for key in self.titles}
        theirs = self.published()
        head = ["measure", *self.titles.values(), *theirs]
        rows = []
        for name, measure in MEASURES.items():
            values = [*(numbers[name] for numbers in ours.values()), *(numbers[name] for numbers in theirs.values())]
            rows.append([measure.title, *_shown(values, measure.greater_is_better, _digits(name))])
        for name, title in _MORE.items():
            values = [numbers[name] for numbers in ours.values()]
            rows.append([title, *_shown(values, None, 4 if name == "log_loss" else 3), *["–"] * len(theirs)])
        for model in theirs:
            counts = ["{} of {}".format(*self.wins(key, model)) for key in self.titles]
            rows.append([f"ahead of {model}", *counts, *["–"] * len(theirs)])
            counts = ["{} of {}".format(*self.wins(key, model, _DRAWN_APART)) for key in self.titles]
            rows.append([f"ahead of {model}, drawn one by one", *counts, *["–"] * len(theirs)])
        parts.append(markdown_table(head, rows))
        rows = [
            [
                measure.title,
                *_shown(
                    [self.numbers(key, "norberg")[name] for key in self.titles],
                    measure.greater_is_better,
                    _digits(name, "norberg"),
                ),
            ]
            for name, measure in MEASURES.items()
        ]
        table = markdown_table(["measure", *self.titles.values()], rows)
        parts.append(f"<details><summary>The same in the dialect norberg</summary>\n\n{table}\n</details>\n")
        drawn = {
            title: self.groups[(key, *self.places[0])][0]["ecology"]["draws"] for key, title in self.titles.items()
        }
        apart = [title for title, kind in drawn.items() if kind == "independent"]
        if apart:
            parts.append(f"Draws of {joined(apart)} are independent given the features.\n")
        return "\n".join(parts)


def _split_table(places: Sequence[tuple[str, int]], groups: Groups, titles: Mapping[str, str]) -> str:
    """Wins of every model over the published ones, split by split."""
    models = list(dict.fromkeys(row.model for row in published()))
    rows = []
    for data, split in places:
        row = [f"{data}, split {split}"]
        for model in models:
            theirs = next(row for row in published() if (row.model, row.data, row.split) == (model, data, split))
            for key in titles:
                lines = groups.get((key, data, split), [])
                if not lines:
                    row.append("–")
                    continue
                ahead, compared = wins_over(
                    community_numbers(lines, "gomes"), theirs, int(lines[0]["ecology"]["n_sites"])
                )
                row.append(f"{ahead}/{compared}")
        rows.append(row)
    head = ["measures ahead", *(f"{title} : {model}" for model in models for title in titles.values())]
    return "**Split by split**\n\n" + markdown_table(head, rows)


def _row_sentences(
    store: Store, places: Mapping[tuple[str, int], Any], titles: Mapping[str, str], first: str
) -> list[str]:
    pairs = read_pairs(store)
    sentences = []
    for rival, title in titles.items():
        verdicts = {
            place: verdict(pairs, "communities", *place, rival, "log_loss") for place in places if rival != first
        }
        wins, ties, losses = counted(verdicts.values())
        if wins + ties + losses:
            behind = [
                data if not split else f"{data} split {split}" for (data, split), who in verdicts.items() if who == -1
            ]
            worse = f" (behind on {joined(behind)})" if behind else ""
            sentences.append(
                f"By log loss on single test sites, {titles.get(first, first)} against {title}: {plural(wins, 'win')}, "
                f"{plural(ties, 'tie')}, {losses} {'loss' if losses == 1 else 'losses'}{worse}."
            )
    return sentences


def _paper_table(groups: Groups, titles: Mapping[str, str]) -> str:
    """Put the paper's own ecology table beside the set that stands in for its eBird."""
    data = "bbs_like_ebird100"
    there = [key for key in ("hotvae", "mpvae") if (key, data, 0) in groups]
    facts = paper()["ecology"]
    rows = [
        [
            measure.title,
            *(_number(community_numbers(groups[(key, data, 0)], "gomes")[name], _digits(name)) for key in there),
            *(_number(facts[key][name], _digits(name)) for key in ("hotvae", "mpvae")),
        ]
        for name, measure in MEASURES.items()
    ]
    head = ["measure", *(f"{titles[key]}, {data}" for key in there), "HOT-VAE, paper's eBird", "MPVAE, paper's eBird"]
    return (
        "## The paper's table of ecological measures\n\n"
        f"The paper measures on eBird, which is not public; {paper()['substitutes'][data]}. The columns are of "
        "different data and say how large such numbers are, not who is ahead.\n\n" + markdown_table(head, rows)
    )


def _shown(values: Sequence[float | None], greater_is_better: bool | None, digits: int) -> list[str]:
    known = [value for value in values if value is not None]
    best = None if greater_is_better is None or not known else (max if greater_is_better else min)(known)
    return [
        f"**{_number(value, digits)}**" if value is not None and value == best else _number(value, digits)
        for value in values
    ]


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _digits(name: str, dialect: str = "gomes") -> int:
    if name.startswith("rich_") and name.endswith(("accuracy", "precision")):
        return 2
    return 2 if name == "occ_calibration" and dialect == "gomes" else 4


def _mean_if_all(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) and known else None


def _known(numbers: Mapping[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in numbers.items() if value is not None}
