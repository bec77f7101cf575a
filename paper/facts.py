"""What others printed: the paper's tables, and published results of joint species distribution models.

The numbers are in ``paper.toml`` and ``published.toml``.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hotvae.metrics.ecology import MEASURES

_HERE = Path(__file__).parent

# The script that scored HMSC looked at the first 100 sites only, so this number is of another set of sites.
_NOT_COMPARED = {("HMSC", "rich_calibration")}


@cache
def paper() -> dict[str, Any]:
    """Read the paper's tables.

    Returns
    -------
    dict
        By measure, then by the paper's name of a set, then by model; ``sets`` names ours, ``missing`` says why a set
        of the paper is not here, ``substitutes`` what stands in.

    Examples
    --------
    >>> paper()["macro_f1"]["yeast"]["hotvae"]
    0.4885
    """
    return tomllib.loads((_HERE / "paper.toml").read_text(encoding="utf-8"))


def printed(metric: str, data: str, model: str) -> float | None:
    """Look up a number of the paper.

    Parameters
    ----------
    metric, data, model : str
        By our names.

    Returns
    -------
    float or None
        None where the paper has none.

    Examples
    --------
    >>> printed("hamming_accuracy", "mirflickr_tags", "lamp")
    0.8969
    >>> printed("hamming_accuracy", "yeast", "ridge") is None
    True
    """
    facts = paper()
    value: float | None = facts.get(metric, {}).get(facts["sets"].get(data), {}).get(model)
    return value


@dataclass(frozen=True)
class Published:
    """One published row of the 20 measures, in dialect ``gomes``.

    Attributes
    ----------
    model, data : str
        Whose it is, and our name of the set.
    split, n_sites : int
        Which split, and how many test sites it has.
    values : dict of str to float
        By the names of :data:`hotvae.metrics.MEASURES`.
    """

    model: str
    data: str
    split: int
    n_sites: int
    values: dict[str, float]


@cache
def published() -> tuple[Published, ...]:
    """Read published results on community data.

    Examples
    --------
    >>> rows = published()
    >>> len(rows), rows[0].model, rows[0].values["occ_calibration"]
    (32, 'DMVP-DRNets', 9.50278)
    """
    stored = tomllib.loads((_HERE / "published.toml").read_text(encoding="utf-8"))["row"]
    return tuple(
        Published(row["model"], row["data"], row["split"], row["n_sites"], {name: row[name] for name in MEASURES})
        for row in stored
    )


def is_better(name: str, ours: float, theirs: float) -> bool:
    """Whether one value of a measure of communities is better than another.

    Examples
    --------
    >>> is_better("occ_accuracy", 0.1, 0.2), is_better("occ_discrimination", 0.1, 0.2)
    (True, False)
    """
    return ours > theirs if MEASURES[name].greater_is_better else ours < theirs


def is_comparable(name: str, theirs: Published, n_sites: int) -> bool:
    """Whether a published value may be compared with ours.

    Parameters
    ----------
    name : str
        A measure.
    theirs : Published
        The published row.
    n_sites : int
        Our test sites: the calibration of occurrence counts sites.

    Returns
    -------
    bool

    Examples
    --------
    >>> is_comparable("occ_calibration", published()[0], 550), is_comparable("occ_calibration", published()[0], 99)
    (True, False)
    """
    if (theirs.model, name) in _NOT_COMPARED:
        return False
    return name != "occ_calibration" or theirs.n_sites == n_sites
