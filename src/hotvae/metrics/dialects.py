"""The three readings of the ecological measures: everything in which their sources differ."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, NamedTuple

from hotvae.errors import ConfigError, listed

Interval = Literal["nearest", "linear"]


class Components(NamedTuple):
    """Dissimilarity of two sites: the whole and its two parts.

    Attributes
    ----------
    sor : float
        Sørensen dissimilarity.
    sim : float
        Its part by turnover (Simpson): other species.
    sne : float
        Its part by nestedness: fewer species.
    """

    sor: float
    sim: float
    sne: float


@dataclass(frozen=True)
class Dialect:
    """Everything in which the sources of the measures differ.

    Attributes
    ----------
    name : str
        Its name in the API.
    comparable_with : str
        Whose published numbers it can stand beside.
    probs_from_draws : bool
        Occurrence is judged by the mean of the draws, even where probabilities are given.
    richness_from_probs : bool
        Expected richness is the sum of the probabilities, not the mean of the drawn richness.
    turns_auc : bool
        A species whose absences have the higher median probability scores 1 - AUC.
    single_class_auc : float
        What a species of one class scores; NaN leaves it out.
    occurrence_calibration : {"cell errors", "count gaps", "rate gaps"}
        See :func:`~hotvae.metrics.occurrence_calibration`.
    per_draw : bool
        Accuracy and discrimination are those of a single draw, averaged over draws; otherwise those of the mean
        over draws.
    interval : {"nearest", "linear"}
        Quantiles: nearest order statistic (type 3) or linear interpolation (type 7).
    ddof : int
        1 divides the variance over draws by n - 1, 0 by n.
    one_empty, both_empty : Components
        Dissimilarity of two sites when one or both hold no species.
    self_pairs : bool
        A site may be paired with itself.
    """

    name: str
    comparable_with: str
    probs_from_draws: bool
    richness_from_probs: bool
    turns_auc: bool
    single_class_auc: float
    occurrence_calibration: Literal["cell errors", "count gaps", "rate gaps"]
    per_draw: bool
    interval: Interval
    ddof: int
    one_empty: Components
    both_empty: Components
    self_pairs: bool


_CLEANEST = Dialect(
    name="text",
    comparable_with="nothing published; the cleanest reading of HOT-VAE's supplement",
    probs_from_draws=False,
    richness_from_probs=False,
    turns_auc=False,
    single_class_auc=float("nan"),
    occurrence_calibration="rate gaps",
    per_draw=False,
    interval="linear",
    ddof=1,
    one_empty=Components(sor=1.0, sim=0.995, sne=0.005),
    both_empty=Components(sor=0.995, sim=0.995, sne=0.005),
    self_pairs=False,
)
_NORBERG = replace(
    _CLEANEST,
    name="norberg",
    comparable_with="Norberg et al. 2019",
    probs_from_draws=True,
    turns_auc=True,
    occurrence_calibration="cell errors",
    per_draw=True,
    interval="nearest",
)
_GOMES = replace(
    _CLEANEST,
    name="gomes",
    comparable_with="HOT-VAE and DMVP-DRNets",
    richness_from_probs=True,
    single_class_auc=1.0,
    occurrence_calibration="count gaps",
    ddof=0,
    one_empty=Components(sor=1.0, sim=0.0, sne=1.0),
    both_empty=Components(sor=0.0, sim=0.0, sne=0.0),
    self_pairs=True,
)

DIALECTS: Mapping[str, Dialect] = MappingProxyType({rules.name: rules for rules in (_NORBERG, _GOMES, _CLEANEST)})
"""The three readings of the measures, by name; their numbers must never stand in one column."""


def find_dialect(name: str) -> Dialect:
    """Return a dialect by its name."""
    if name not in DIALECTS:
        raise ConfigError(
            f"dialect must be one of {listed(DIALECTS)}; got {name!r}. Take 'gomes' to compare with HOT-VAE and "
            "DMVP-DRNets, 'norberg' to compare with Norberg et al. 2019."
        )
    return DIALECTS[name]
