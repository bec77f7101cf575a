"""The page of the paper's own rows, printed and repeated: ``docs/paper.md``, from stored results alone."""

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

from hotvae.errors import DataError
from hotvae.jobs.durations import duration_words
from paper.experiments import REPRODUCED
from paper.facts import printed
from paper.pages import TABLE_METRICS
from paper.reproduce import ROWS, SEARCH, WHY, parse_axis
from paper.store import DONE, Store
from paper.summaries import Mean, joined, markdown_table, mean_of, metric_mean, plural

_NOTE = "<!-- Written by `python -m paper.reproduce --render` from paper/results; do not edit. -->\n"
_HEAD = """# The paper, literally

The model as printed (`HotVAENetwork.from_recipe("paper")`, docs/paper_notes.md): its encoders, its decoder, its losses,
Adam, up to 200 epochs, the epoch with the best macro F1 on validation rows; nothing of ours. The supplement searches a
grid of 7,776 points, which is far beyond a desk; here a seeded draw of its points was halved by macro F1 on the
validation rows of seed 0 (`paper/reproduce.py`), and the point that was left was fitted with every seed. A seed decides
the validation rows (on sider the test rows, too) and the network.

*Honest*: the threshold of each measure is chosen on validation rows. *Oracle*: on the test rows themselves, as the
released test scripts of the paper's rivals do; the paper only says "select the best threshold for each metric". Means
over seeds with 95 % intervals (Student's). Below each row stands how far its mean is from what is printed, and whether
the printed number lies within the interval ("within") or by how much it lies outside ("out by"). An interval of few
seeds is wide: "within" says that the printed number is not refuted, not that it was reached. The paper has one number a
set, without seeds, and the best of a grid that was run to its end; a draw that is halved after few epochs prefers
points that learn quickly.
"""

_COSTS = {
    "bibtex": (
        " With the paper's encoder for it, a two-layer FMP over the words of an entry, and 159 labels, 640 of the "
        "4,379 training rows took 36 processor seconds with d 100 and 2 layers: 4 minutes an epoch, half a day for "
        "200 epochs of the smallest point of the grid."
    )
}
"""What keeps a set from being run on a desk, as measured."""

_AXES = {
    "learning_rate": "step size",
    "intermediate_weight": "λ₁",
    "ranking_weight": "λ₂",
    "kl_weight": "β",
    "dim": "d",
    "n_layers": "layers",
    "dropout": "dropout",
    "graph": "graph",
}


def reproduce_page(store: Store) -> str:
    """Write the page.

    Parameters
    ----------
    store : Store
        With the results of :mod:`paper.reproduce`.

    Returns
    -------
    str

    Raises
    ------
    DataError
        When no set has a result.

    Examples
    --------
    >>> import tempfile
    >>> reproduce_page(Store(tempfile.mkdtemp()))
    Traceback (most recent call last):
    ...
    hotvae.errors.DataError: results must hold a finished set; got none. Run python -m paper.reproduce scene first.
    """
    searched = {place[2]: line for place, line in store.latest(SEARCH).items() if place[1] == "choice"}
    found: dict[str, list[dict[str, Any]]] = {}
    for place, line in sorted(store.latest(REPRODUCED).items()):
        if line["status"] == DONE:
            found.setdefault(place[2], []).append(line)
    sets = [data for data in ROWS if data in found]
    if not sets:
        raise DataError("results must hold a finished set; got none. Run python -m paper.reproduce scene first.")
    looked_at = [line for line in store.latest(WHY).values() if line["status"] == DONE]
    sections = [_section(data, found[data], searched.get(data)) + _why(data, found[data], looked_at) for data in sets]
    missing = [data for data in ROWS if data not in found]
    left = [
        f"## {data}\n\n" + _wrapped(f"Not run: `python -m paper.reproduce {data}`.{_COSTS.get(data, '')}")
        for data in missing
    ]
    return "\n".join([_NOTE + _HEAD, _in_short(sets, found), *sections, *left])


def _in_short(sets: Sequence[str], found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    lines = []
    for data in sets:
        told_of = []
        for protocol in ("honest", "oracle"):
            within, outside, behind = list[str](), list[str](), list[float]()
            for metric, title in TABLE_METRICS.items():
                told, mean = printed(metric, data, "hotvae"), metric_mean(found[data], metric, protocol)
                if told is None or mean is None:
                    continue
                gap = gap_of(mean, told)
                outside += [f"{title} by {_signed(gap)}"] if gap else []
                within += [] if gap else [title]
                behind.append(mean.value - told)
            words = [f"{joined(within)} within"] if within else []
            words += [f"outside {joined(outside)}"] if outside else []
            span = f"means {_signed(min(behind))} to {_signed(max(behind))} from print" if behind else ""
            told_of.append(f"{protocol}: {'; '.join([*words, span])}")
        lines.append(_wrapped(f"* **{data}**, {plural(len(found[data]), 'seed')}. {'. '.join(told_of)}.", "  "))
    return "## In short\n\nThe printed numbers and the intervals of ours:\n\n" + "".join(lines)


def gap_of(mean: Mean, told: float) -> float:
    """Say how far an interval lies from a printed number: 0 within it, above 0 where all of it is larger.

    The last printed digit of the page counts: half a unit of it on either side is no gap.

    Examples
    --------
    >>> gap_of(Mean(0.75, 0.01, 3), 0.745), round(gap_of(Mean(0.75, 0.01, 3), 0.77), 3)
    (0.0, -0.01)
    """
    half = (mean.half or 0.0) + 0.0005
    if abs(mean.value - told) <= half:
        return 0.0
    return mean.value - half - told if mean.value > told else mean.value + half - told


def _signed(gap: float) -> str:
    return f"{gap:+.3f}".replace("-", "−")


def _section(data: str, lines: Sequence[Mapping[str, Any]], choice: Mapping[str, Any] | None) -> str:
    told = {metric: printed(metric, data, "hotvae") for metric in TABLE_METRICS}
    head = ["", *TABLE_METRICS.values(), "log loss"]
    rows = [["printed", *("–" if value is None else f"{value:.4f}" for value in told.values()), "–"]]
    for protocol in ("honest", "oracle"):
        means = [metric_mean(lines, metric, protocol) for metric in TABLE_METRICS]
        loss = metric_mean(lines, "log_loss", protocol)
        rows.append(
            [protocol, *("–" if mean is None else mean.text() for mean in means), loss.text(4) if loss else "–"]
        )
        cells = []
        for mean, value in zip(means, told.values(), strict=True):
            if mean is None or value is None:
                cells.append("–")
            else:
                gap = gap_of(mean, value)
                cells.append(f"{_signed(mean.value - value)}, " + (f"out by {_signed(gap)}" if gap else "within"))
        rows.append([f"{protocol} − printed", *cells, "–"])
    cpu = mean_of(line["fit_seconds"]["cpu"] for line in lines)
    epochs = joined([f"{line['epoch']} of {line['n_epochs']}" for line in lines])
    seeds = plural(len(lines), "seed")
    parts = [
        f"## {data}\n\n{markdown_table(head, rows)}",
        f"{seeds}; {'' if cpu is None else f'{cpu.value:.0f} CPU seconds a fit; '}epoch kept: {epochs}.\n",
    ]
    if choice is not None:
        parts.append(_search_note(choice))
    return "\n".join(parts)


def _why(data: str, chosen: Sequence[Mapping[str, Any]], looked_at: Sequence[Mapping[str, Any]]) -> str:
    """Put neighbours of the chosen point beside it, seed by seed; they were measured afterwards and chose nothing."""
    rows = []
    for line in looked_at:
        if line["cell"]["data"] != data:
            continue
        same = [each for each in chosen if each["cell"]["seed"] == line["cell"]["seed"]]
        name, values = parse_axis(line["cell"]["variant"])
        named = [*(("chosen", each) for each in same), (f"{_AXES[name]} {_plain(values[0])}", line)]
        for title, each in named:
            values_of = [each["metrics"]["honest"][metric] for metric in TABLE_METRICS]
            loss = each["metrics"]["honest"]["log_loss"]
            rows.append(
                [f"{title}, seed {line['cell']['seed']}", *(f"{value:.3f}" for value in values_of), f"{loss:.4f}"]
            )
    if not rows:
        return ""
    intro = "What another value of the grid gives, honest; looked at after the choice, it chose nothing:"
    table = markdown_table(["", *TABLE_METRICS.values(), "log loss"], list(dict.fromkeys(map(tuple, rows))))
    return f"\n{_wrapped(intro)}\n{table}"


def _search_note(choice: Mapping[str, Any]) -> str:
    chosen = joined([f"{title} {_plain(choice['chosen'][name])}" for name, title in _AXES.items()])
    only = [f"{_AXES[name]} {joined([_plain(value) for value in values])}" for name, values in choice["only"].items()]
    rounds = joined([f"{n} for {epochs} epochs" for n, epochs in choice["rounds"]])
    tried = (
        f"{choice['n_points']} of {choice['n_grid']:,} points"
        + (f", all with {joined(only)}," if only else "")
        + " were"
    )
    how = f"trained ({rounds}; {duration_words(choice['cpu_seconds'])} of a processor)" if rounds else "drawn"
    best = choice.get("best")
    told = "" if best is None else f" Its macro F1 on the validation rows was {best:.3f}."
    return _wrapped(f"The grid chose {chosen}.{told} {tried} {how}.")


def _wrapped(text: str, indent: str = "") -> str:
    return fill(text, 120, subsequent_indent=indent, break_on_hyphens=False) + "\n"


def _plain(value: Any) -> str:
    return {"cooccurrence": "prior (co-occurrence)"}.get(value, value) if isinstance(value, str) else f"{value:g}"
