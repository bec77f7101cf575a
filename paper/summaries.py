"""From stored lines to numbers on a page: means over seeds with their intervals, counts, words, tables."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from scipy import stats

from paper.paired import METRICS, pair_key

HIGHER_IS_BETTER = {name: name != "log_loss" for name in METRICS}

NO_DIFFERENCE = 5e-5
"""Differences below this are 0 in every table."""


@dataclass(frozen=True)
class Mean:
    """A mean over seeds.

    Attributes
    ----------
    value : float
        The mean.
    half : float or None
        Half the width of its 95 % interval; None for a single value.
    n : int
        How many values.
    """

    value: float
    half: float | None
    n: int

    def text(self, digits: int = 3) -> str:
        """Write it as in a table.

        Examples
        --------
        >>> Mean(0.4712, 0.0044, 5).text()
        '0.471 ± 0.004'
        """
        told = f"{self.value:.{digits}f}"
        return told if self.half is None else f"{told} ± {self.half:.{digits}f}"


def mean_of(values: Iterable[float | None]) -> Mean | None:
    """Average over seeds; what does not exist is left out.

    Parameters
    ----------
    values : iterable of float or None
        One for each seed.

    Returns
    -------
    Mean or None
        The interval is Student's.

    Examples
    --------
    >>> mean_of([0.1, 0.2, 0.3]).text()
    '0.200 ± 0.248'
    >>> mean_of([None]) is None
    True
    """
    known = [float(value) for value in values if value is not None and math.isfinite(value)]
    if not known:
        return None
    if len(known) == 1:
        return Mean(known[0], None, 1)
    half = float(stats.t.ppf(0.975, len(known) - 1)) * stdev(known) / math.sqrt(len(known))
    return Mean(fmean(known), half, len(known))


def metric_mean(lines: Sequence[Mapping[str, Any]], metric: str, protocol: str = "honest") -> Mean | None:
    """Average a measure of labels over the seeds of a cell.

    Examples
    --------
    >>> metric_mean([{"metrics": {"honest": {"macro_f1": 0.5}}}], "macro_f1").value
    0.5
    """
    return mean_of(line["metrics"][protocol].get(metric) for line in lines)


def verdict(pairs: Mapping[str, Any], experiment: str, data: str, split: int, rival: str, metric: str) -> int | None:
    """Say who won: 1 the first model of the experiment, -1 the rival, 0 neither; None if they were not compared.

    Examples
    --------
    >>> found = {"metrics": {"log_loss": {"difference": -0.02, "low": -0.03, "high": -0.01}}}
    >>> verdict({"tables/yeast/0/ridge": found}, "tables", "yeast", 0, "ridge", "log_loss")
    1
    """
    found = pairs.get(pair_key(experiment, data, split, rival), {}).get("metrics", {}).get(metric)
    return None if found is None else verdict_of(found, HIGHER_IS_BETTER[metric])


VERDICTS = {1: "ahead", 0: "level", -1: "**behind**"}
"""How a table says who is ahead."""


def verdict_of(found: Mapping[str, float], more_is_better: bool = False, smallest: float = NO_DIFFERENCE) -> int:
    """Say who is ahead by a difference ours − rival's and its interval: 1 ours, -1 the rival, 0 neither.

    Examples
    --------
    >>> found = {"difference": -0.02, "low": -0.03, "high": -0.01}
    >>> verdict_of(found), verdict_of(found, more_is_better=True), verdict_of(found, smallest=0.1)
    (1, -1, 0)
    """
    # Models that differ in their last bits differ in every resample; nobody would call it a victory.
    if found["low"] <= 0 <= found["high"] or abs(found["difference"]) < smallest:
        return 0
    return 1 if (found["difference"] > 0) == more_is_better else -1


def counted(verdicts: Iterable[int | None]) -> tuple[int, int, int]:
    """Count wins, ties and losses.

    Examples
    --------
    >>> counted([1, 1, 0, None, -1])
    (2, 1, 1)
    """
    known = [each for each in verdicts if each is not None]
    return known.count(1), known.count(0), known.count(-1)


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table; the first column stands left, the others right.

    Examples
    --------
    >>> print(markdown_table(["model", "maF1"], [["ridge", "0.4"]]), end="")
    | model | maF1 |
    |---|---:|
    | ridge | 0.4 |
    """
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def joined(words: Sequence[str]) -> str:
    """Join words as a sentence does.

    Examples
    --------
    >>> joined(["yeast", "scene", "sider"])
    'yeast, scene and sider'
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def plural(n: int, word: str) -> str:
    """Count things.

    Examples
    --------
    >>> plural(1, "cell"), plural(2, "cell")
    ('1 cell', '2 cells')
    """
    return f"{n} {word}" + ("" if n == 1 else "s")


def replace_marked(page: str, name: str, text: str) -> str:
    r"""Write what stands between two marks of a page anew.

    Parameters
    ----------
    page : str
        With the lines ``<!-- NAME: begin -->`` and ``<!-- NAME: end -->``.
    name : str
        Which marks.
    text : str
        What goes between them.

    Returns
    -------
    str

    Examples
    --------
    >>> print(replace_marked("above\n<!-- x: begin -->\nold\n<!-- x: end -->\nbelow", "x", "new\n"))
    above
    <!-- x: begin -->
    new
    <!-- x: end -->
    below
    """
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    head, _, rest = page.partition(begin)
    return head + begin + text + end + rest.partition(end)[2]
