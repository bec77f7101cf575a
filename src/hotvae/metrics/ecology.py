r"""The 12 ecological measures (20 numbers): occurrence, richness and community, each judged four ways.

Accuracy, discrimination, calibration and precision of predicted species communities. Three sources define them
under the same names and differently; each is a *dialect* here (:data:`DIALECTS`), and a result always says
which one it speaks. Formulas, reasons and traps: ``docs/ecology_measures.md``.

Shared conventions, stated once:

* ``labels`` is an array of shape (n_sites, n_species) of 0, 1 and NaN; NaN means *not observed*. ``probs`` are
  probabilities of the same shape. ``draws`` are 0/1 communities of shape (n_draws, n_sites, n_species), or an
  iterable of blocks of them that is read once. ``pairs`` are site numbers of shape (2, n_pairs).
* A cell that was not observed is left out of the labels *and* of the draws, so that both are counted over the
  same cells. The richness of a site is that of its observed species; two sites are compared over the species
  observed at both. A site, species or pair of sites with nothing observed counts nowhere.
* A value that does not exist (no species with both classes, nothing that varies) is NaN, never a made-up number.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from hotvae.errors import ConfigError, DataError, listed
from hotvae.metrics.checks import BoolArray, FloatArray, LabelCells, check_labels, check_probs
from hotvae.metrics.dialects import Dialect, find_dialect
from hotvae.metrics.ensembles import (
    TIE,
    Ensemble,
    as_numbers,
    check_ensemble,
    check_tie_digits,
    ensemble_accuracy,
    ensemble_calibration,
    ensemble_discrimination,
    ensemble_precision,
    interval_coverage,
    slices_of,
)
from hotvae.metrics.multilabel import label_auc, mean_of_known

IntArray = npt.NDArray[np.intp]
Draws = npt.ArrayLike | Iterable[npt.ArrayLike]
Level = Literal["occurrence", "richness", "community"]
Aspect = Literal["accuracy", "discrimination", "calibration", "precision"]
Component = Literal["sor", "sim", "sne"]

# Digits in which two sums of the same probabilities agree.
_TIE_DIGITS = 12
_COMPONENTS: tuple[Component, ...] = ("sor", "sim", "sne")
_ASPECTS: tuple[Aspect, ...] = ("accuracy", "discrimination", "calibration", "precision")


# The table of measures -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class EcologyMeasure:
    """One of the 20 numbers.

    Attributes
    ----------
    name : str
        Its key in results.
    title : str
        Its name in tables.
    level : {"occurrence", "richness", "community"}
        What is judged: single cells, species per site, or dissimilarity of two sites.
    aspect : {"accuracy", "discrimination", "calibration", "precision"}
        How it is judged.
    component : {"sor", "sim", "sne"} or None
        Which dissimilarity, for measures of communities.
    greater_is_better : bool
        True for discrimination alone.
    ideal : float
        The best value there is; for discrimination 1, for all others 0.
    """

    name: str
    title: str
    level: Level
    aspect: Aspect
    component: Component | None
    greater_is_better: bool
    ideal: float


def _describe_measures() -> Iterator[EcologyMeasure]:
    groups: list[tuple[Level, str, Component | None]] = [("occurrence", "occ", None), ("richness", "rich", None)]
    groups += [("community", "comm", component) for component in _COMPONENTS]
    for level, prefix, component in groups:
        for aspect in _ASPECTS:
            higher = aspect == "discrimination"
            yield EcologyMeasure(
                name=f"{prefix}_{aspect}" + (f"_{component}" if component else ""),
                title=f"{level} {aspect}" + (f" ({component})" if component else ""),
                level=level,
                aspect=aspect,
                component=component,
                greater_is_better=higher,
                ideal=1.0 if higher else 0.0,
            )


MEASURES: Mapping[str, EcologyMeasure] = MappingProxyType({measure.name: measure for measure in _describe_measures()})
"""The 20 numbers of :func:`all_measures`, in the order of tables."""


class EcologyScores(dict[str, float]):
    """Values of the measures, by name, and what they were computed from.

    Parameters
    ----------
    values : mapping of str to float
        Keys as in :data:`MEASURES`.
    dialect : str
        A key of :data:`DIALECTS`.
    n_sites, n_species, n_draws, n_pairs : int
        Sites and species with anything observed, draws, and pairs of sites with a species observed at both.
    """

    def __init__(
        self,
        values: Mapping[str, float],
        *,
        dialect: str,
        n_sites: int,
        n_species: int,
        n_draws: int,
        n_pairs: int,
    ) -> None:
        super().__init__(values)
        self.dialect = find_dialect(dialect).name
        self.n_sites = n_sites
        self.n_species = n_species
        self.n_draws = n_draws
        self.n_pairs = n_pairs

    def __repr__(self) -> str:
        return f"{type(self).__name__}(dialect={self.dialect!r}, {super().__repr__()})"


# Checks ------------------------------------------------------------------------------------------------


def _checked_draws(draws: Draws, cells: LabelCells) -> Iterator[BoolArray]:
    """Yield draws in blocks of bounded size, unobserved cells emptied."""
    shape = cells.observed.shape
    complete = bool(cells.observed.all())
    n_draws = 0
    for block in _draw_blocks(draws, shape):
        for chunk in slices_of(len(block), cells.observed.size):
            part = block[chunk]
            present = part if part.dtype == bool else part == 1
            if part.dtype != bool:
                wrong = (part != 0) & ~present
                if wrong.any():
                    draw, site, species = (int(place) for place in np.unravel_index(wrong.argmax(), wrong.shape))
                    raise DataError(
                        f"draws must be 0 or 1; got {part[draw, site, species]} (draw {n_draws + draw}, site {site}, "
                        f"species {species}). Probabilities? Draw communities from the model, or pass probs=."
                    )
            yield present if complete else present & cells.observed
            n_draws += len(part)
    if not n_draws:
        raise DataError("draws must hold at least one community; got none. 100 draws are customary.")


def _draw_blocks(draws: Draws, shape: tuple[int, ...]) -> Iterator[npt.NDArray[Any]]:
    """Yield what was given as arrays of shape (n_draws, n_sites, n_species)."""
    whole = hasattr(draws, "__array__")
    items: Any = (draws,) if whole else draws
    if not isinstance(items, Iterable):
        raise DataError(
            f"draws must be an array or an iterable of arrays; got {type(draws).__name__}. "
            "Give an array of shape (n_draws, n_sites, n_species), or its blocks one after the other."
        )
    for item in items:
        block = as_numbers("draws", item)
        if block.ndim == 2 and not whole:
            block = block[np.newaxis]
        if block.ndim != 3 or block.shape[1:] != shape:
            raise DataError(
                f"draws must have shape (n_draws, {shape[0]}, {shape[1]}), sites and species as in labels; "
                f"got {block.shape}. Put the draws on the first axis."
            )
        yield block


def _check_pairs(pairs: npt.ArrayLike, n_sites: int, self_pairs: bool) -> IntArray:
    table = as_numbers("pairs", pairs)
    if table.ndim != 2 or table.shape[0] != 2 or not table.size or table.dtype.kind not in "iu":
        raise DataError(
            "pairs must be whole numbers of shape (2, n_pairs) with at least one pair; "
            f"got {table.dtype} of shape {table.shape}. Draw them with site_pairs(n_sites, 300), or transpose."
        )
    outside = ((table < 0) | (table >= n_sites)).any(axis=0)
    if outside.any():
        raise DataError(
            f"pairs must be sites from 0 to {n_sites - 1}; got {tuple(table[:, outside.argmax()].tolist())} "
            f"(pairs {listed(np.flatnonzero(outside))}). Count sites from 0, among the rows of labels."
        )
    same = table[0] == table[1]
    if same.any() and not self_pairs:
        raise DataError(
            f"pairs must join two different sites; got site {table[0, same.argmax()]} with itself "
            f"(pairs {listed(np.flatnonzero(same))}). Only dialect 'gomes' knows such pairs; use site_pairs."
        )
    return table.astype(np.intp)


def _check_probs_of(labels: npt.ArrayLike, probs: npt.ArrayLike) -> tuple[LabelCells, FloatArray]:
    cells = check_labels(labels)
    return cells, check_probs(probs, cells.positive.shape).astype(np.float64, copy=False)


# Occurrence ----------------------------------------------------------------------------------------------


def occurrence_accuracy(labels: npt.ArrayLike, probs: npt.ArrayLike) -> float:
    r"""Mean absolute error of the probabilities; the same in all dialects. Lower is better.

    In [0, 1]: the mean over observed cells of :math:`|p_{ij} - y_{ij}|`.

    Parameters
    ----------
    labels : array-like of shape (n_sites, n_species)
        0, 1, or NaN for a cell that was not observed.
    probs : array-like of shape (n_sites, n_species)
        Probabilities.

    Examples
    --------
    Errors .2, .3 and .6; the fourth cell was not observed.

    >>> round(occurrence_accuracy([[1, 0], [1, np.nan]], [[0.8, 0.3], [0.4, 0.9]]), 4)
    0.3667
    """
    cells, probs = _check_probs_of(labels, probs)
    return float(np.abs(probs - cells.positive)[cells.observed].mean())


def occurrence_discrimination(labels: npt.ArrayLike, probs: npt.ArrayLike, dialect: str = "gomes") -> float:
    """Mean over species of the area under the ROC curve. Higher is better.

    In [0, 1]; NaN when no species counts.

    Parameters
    ----------
    labels, probs
        As in :func:`occurrence_accuracy`.
    dialect : {"gomes", "norberg", "text"}
        A species whose observed cells are of one class counts 1 in ``gomes`` and is skipped in the others;
        ``norberg`` turns the curve of a species round when its absences have the higher median probability.

    Examples
    --------
    AUCs are 0 and, for the species that is always present, 1, nothing or nothing. Turned round, 0 becomes 1.

    >>> labels, probs = [[1, 1], [0, 1]], [[0.2, 0.5], [0.6, 0.5]]
    >>> [occurrence_discrimination(labels, probs, name) for name in ("gomes", "norberg", "text")]
    [0.5, 1.0, 0.0]
    """
    rules = find_dialect(dialect)
    cells, probs = _check_probs_of(labels, probs)
    areas = label_auc(labels, probs)
    if rules.turns_auc:
        for species in np.flatnonzero(~np.isnan(areas)):
            values, positive = probs[:, species], cells.positive[:, species]
            absences = values[cells.observed[:, species] & ~positive]
            if np.median(absences) > np.median(values[positive]) + TIE:
                areas[species] = 1 - areas[species]
    areas[np.isnan(areas) & cells.observed.any(axis=0)] = rules.single_class_auc
    return mean_of_known(areas)


def occurrence_calibration(labels: npt.ArrayLike, probs: npt.ArrayLike, dialect: str = "gomes") -> float:
    r"""Gap between probabilities and occurrences in ten bins, averaged over species. Lower is better.

    ``gomes``: in sites, between 0 and the number of sites. ``norberg`` and ``text``: in [0, 1].

    Parameters
    ----------
    labels, probs
        As in :func:`occurrence_accuracy`.
    dialect : {"gomes", "norberg", "text"}
        Three different quantities, see Notes.

    Notes
    -----
    The bins of a species are cut at the deciles of its probabilities over its observed sites.

    * ``gomes`` (count gaps): :math:`\sum_b |\sum_{i \in b} p_i - \sum_{i \in b} y_i|`. It grows with the number
      of sites: compare at an equal number, or divide by it.
    * ``text`` (rate gaps): the mean over bins that are not empty of :math:`|\bar p_b - \bar y_b|`.
    * ``norberg`` (cell errors): the mean over sites of :math:`|p_i - y_i|`, divided by the size of the bin in
      bins 2 to 9. Sites at the species' highest probability are left out; where all are equal, each error is
      divided by the number of sites.

    Examples
    --------
    Four sites, each in a bin of its own: gaps .1, .2, .3, .4. Without the last site, and all bins of one site,
    norberg takes the mean of .1, .2, .3.

    >>> labels, probs = [[0], [0], [0], [1]], [[0.1], [0.2], [0.3], [0.6]]
    >>> [round(occurrence_calibration(labels, probs, name), 4) for name in ("gomes", "norberg", "text")]
    [1.0, 0.2, 0.25]
    """
    rules = find_dialect(dialect)
    cells, probs = _check_probs_of(labels, probs)
    measure = {"cell errors": _cell_errors, "count gaps": _count_gaps, "rate gaps": _rate_gaps}
    by_species = zip(probs.T, cells.positive.T, cells.observed.T, strict=True)
    gaps = [
        measure[rules.occurrence_calibration](values[observed], positive[observed].astype(np.float64))
        for values, positive, observed in by_species
        if observed.any()
    ]
    return float(np.mean(gaps))


def _decile_bins(values: FloatArray) -> IntArray:
    """Bin of each value: the first decile, from the 1st on, that it does not exceed."""
    return np.searchsorted(np.percentile(values, np.arange(10, 101, 10)), values, side="left")


def _count_gaps(values: FloatArray, present: FloatArray) -> float:
    return float(np.abs(np.bincount(_decile_bins(values), weights=values - present)).sum())


def _rate_gaps(values: FloatArray, present: FloatArray) -> float:
    bins = _decile_bins(values)
    sizes = np.bincount(bins)
    gaps = np.abs(np.bincount(bins, weights=values - present))
    return float((gaps[sizes > 0] / sizes[sizes > 0]).mean())


def _cell_errors(values: FloatArray, present: FloatArray) -> float:
    # Deciles at exact positions: 0.1 * k as a float may fall beside the order statistic it means, and a site
    # on a break would then change its bin.
    ordered = np.sort(values)
    lower, tenths = np.divmod(np.arange(11) * (values.size - 1), 10)
    upper = np.minimum(lower + 1, values.size - 1)
    breaks = ordered[lower] + (ordered[upper] - ordered[lower]) * (tenths / 10)
    bins = np.searchsorted(breaks[1:], values, side="right")
    errors = np.abs(values - present)
    kept = bins < 10  # half open everywhere: the highest probability falls out of the last bin
    if not kept.any():
        return float(errors.mean() / values.size)
    weights = 1 / np.maximum(np.bincount(bins, minlength=11), 1)
    weights[[0, 9]] = 1.0
    return float((errors * weights[bins])[kept].mean())


def occurrence_precision(labels: npt.ArrayLike, probs: npt.ArrayLike) -> float:
    r"""Mean standard deviation of single occurrences; the same in all dialects. Lower is sharper.

    In [0, 0.5]: the mean over observed cells of :math:`\sqrt{p_{ij} (1 - p_{ij})}`; labels only tell which cells count.

    Examples
    --------
    >>> round(occurrence_precision([[1, 0], [1, np.nan]], [[0.8, 0.5], [1.0, 0.5]]), 4)
    0.3
    """
    cells, probs = _check_probs_of(labels, probs)
    return float(np.sqrt(probs * (1 - probs))[cells.observed].mean())


# From communities to ensembles -----------------------------------------------------------------------------


def site_pairs(n_sites: int, n_pairs: int = 300, random_state: int | np.random.Generator = 0) -> IntArray:
    """Draw pairs of different sites; the same pairs must serve every model that is compared.

    Parameters
    ----------
    n_sites : int
        Sites to choose from.
    n_pairs : int
        Pairs to draw, with replacement among all pairs of two different sites.
    random_state : int or Generator
        Seed.

    Returns
    -------
    ndarray of shape (2, n_pairs)
        Site numbers from 0, the smaller of a pair first.

    Raises
    ------
    ConfigError
        Fewer than two sites, no pair, or a seed that is none.

    Examples
    --------
    >>> site_pairs(5, 4, random_state=1)
    array([[0, 0, 3, 3],
           [2, 2, 4, 4]])
    """
    for name, value, least in (("n_sites", n_sites, 2), ("n_pairs", n_pairs, 1)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            raise ConfigError(f"{name} must be a whole number of at least {least}; got {value!r}.")
    try:
        rng = np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"random_state must be a whole number, 0 or larger, or a Generator; got {random_state!r}."
        ) from error
    first = rng.integers(0, n_sites, n_pairs)
    second = rng.integers(0, n_sites - 1, n_pairs)
    second += second >= first  # passes the first site over: all others are equally likely
    return np.sort(np.stack([first, second]), axis=0).astype(np.intp)


def richness(labels: npt.ArrayLike, draws: Draws) -> Ensemble:
    """Count the species of each site, as observed and as drawn.

    Parameters
    ----------
    labels : array-like of shape (n_sites, n_species)
        0, 1, or NaN for a cell that was not observed.
    draws : array-like of shape (n_draws, n_sites, n_species), or iterable of blocks
        0/1 communities; see :func:`all_measures`.

    Returns
    -------
    Ensemble
        Over the species observed at the site; NaN for a site without any.

    Examples
    --------
    The second species was not observed at the second site: its draws do not count there.

    >>> ensemble = richness([[1, 0], [1, np.nan]], [[[1, 1], [1, 1]], [[0, 0], [0, 1]]])
    >>> ensemble.observed.tolist(), ensemble.drawn.tolist()
    ([1.0, 1.0], [[2, 1], [0, 0]])
    """
    cells = check_labels(labels)
    counts = [_count_species(block) for block in _checked_draws(draws, cells)]
    return Ensemble(_observed_richness(cells), np.concatenate(counts))


def dissimilarity(
    labels: npt.ArrayLike, draws: Draws, pairs: npt.ArrayLike, dialect: str = "gomes"
) -> dict[Component, Ensemble]:
    r"""Compare pairs of sites by their species, as observed and as drawn.

    Parameters
    ----------
    labels, draws
        As in :func:`richness`.
    pairs : array-like of shape (2, n_pairs)
        Site numbers.
    dialect : {"gomes", "norberg", "text"}
        Decides what pairs with an empty site are, and whether a site may be paired with itself.

    Returns
    -------
    dict of Ensemble
        By ``"sor"``, ``"sim"`` and ``"sne"``; over the species observed at both sites, NaN for a pair without any.

    Notes
    -----
    With a shared species, b and c at one site only, :math:`l = \min(b, c)`, :math:`h = \max(b, c)`:

    .. math::

        sor = \frac{b + c}{2a + b + c}, \quad sim = \frac{l}{l + a}, \quad
        sne = \frac{(h - l) \, a}{(2a + b + c)(l + a)} = sor - sim

    Each is one division of whole numbers, so that equal values are equal to the last bit.

    Examples
    --------
    Sites {A, B, C} and {A, B, D, E}: a = 2, b = 1, c = 2.

    >>> labels = [[1, 1, 1, 0, 0], [1, 1, 0, 1, 1]]
    >>> parts = dissimilarity(labels, [labels], [[0], [1]])
    >>> [round(float(parts[name].observed[0]), 4) for name in ("sor", "sim", "sne")]
    [0.4286, 0.3333, 0.0952]
    """
    rules = find_dialect(dialect)
    cells = check_labels(labels)
    table = _check_pairs(pairs, len(cells.observed), rules.self_pairs)
    drawn = [_pair_components(block, table, cells, rules) for block in _checked_draws(draws, cells)]
    return _community_ensembles(drawn, table, cells, rules)


def _count_species(present: BoolArray) -> npt.NDArray[np.int32]:
    counts: npt.NDArray[np.int32] = present.view(np.uint8).sum(axis=-1, dtype=np.int32)
    return counts


def _observed_richness(cells: LabelCells) -> FloatArray:
    return np.where(cells.observed.any(axis=1), cells.positive.sum(axis=1), np.nan)


def _pair_components(present: BoolArray, pairs: IntArray, cells: LabelCells, rules: Dialect) -> list[FloatArray]:
    """(draw, site, species) -> one (draw, pair) array for each component."""
    n_draws, _, n_species = present.shape
    components = [np.empty((n_draws, pairs.shape[1])) for _ in _COMPONENTS]
    for part in slices_of(pairs.shape[1], n_draws * n_species):
        one, other = pairs[0, part], pairs[1, part]
        first = present[:, one] & cells.observed[other]
        second = present[:, other] & cells.observed[one]
        parts = _dissimilarity(_count_species(first & second), _count_species(first), _count_species(second), rules)
        for values, chunk in zip(components, parts, strict=True):
            values[:, part] = chunk
    return components


def _dissimilarity(
    shared: npt.NDArray[np.int32], first: npt.NDArray[np.int32], second: npt.NDArray[np.int32], rules: Dialect
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """sor, sim and sne from the species shared by two sites and the species of each."""
    # Whole numbers below 2^53 are exact as floats, and cannot overflow when multiplied.
    both = shared.astype(np.float64)
    fewer, more = np.minimum(first, second).astype(np.float64), np.maximum(first, second).astype(np.float64)
    total = fewer + more
    sor = np.divide(total - 2 * both, total, out=np.empty_like(both), where=total > 0)
    sim = np.divide(fewer - both, fewer, out=np.empty_like(both), where=fewer > 0)
    sne = np.divide((more - fewer) * both, total * fewer, out=np.empty_like(both), where=fewer > 0)
    empty, both_empty = fewer == 0, total == 0
    for values, name in ((sor, "sor"), (sim, "sim"), (sne, "sne")):
        values[empty] = getattr(rules.one_empty, name)
        values[both_empty] = getattr(rules.both_empty, name)
    return sor, sim, sne


def _community_ensembles(
    drawn: list[list[FloatArray]], pairs: IntArray, cells: LabelCells, rules: Dialect
) -> dict[Component, Ensemble]:
    truth = _pair_components(cells.positive[np.newaxis], pairs, cells, rules)
    known = (cells.observed[pairs[0]] & cells.observed[pairs[1]]).any(axis=1)
    return {
        name: Ensemble(np.where(known, truth[place][0], np.nan), np.concatenate([block[place] for block in drawn]))
        for place, name in enumerate(_COMPONENTS)
    }


# All at once -----------------------------------------------------------------------------------------------


def all_measures(
    labels: npt.ArrayLike,
    *,
    draws: Draws | None = None,
    pairs: npt.ArrayLike | None = None,
    probs: npt.ArrayLike | None = None,
    dialect: str = "gomes",
    tie_digits: int | None = None,
) -> EcologyScores:
    """Compute the 20 numbers, or those that the given predictions allow.

    Parameters
    ----------
    labels : array-like of shape (n_sites, n_species)
        0, 1, or NaN for a cell that was not observed.
    draws : array-like of shape (n_draws, n_sites, n_species), or iterable of blocks, optional
        0/1 communities drawn from the model's *joint* law. An iterable (a generator, a list) is read once, and
        yields blocks of that shape or single communities of shape (n_sites, n_species). Without draws there are
        no measures of richness and communities.
    pairs : array-like of shape (2, n_pairs), optional
        Pairs of sites, from :func:`site_pairs`. Without pairs there are no measures of communities.
    probs : array-like of shape (n_sites, n_species), optional
        Probabilities; default: the mean of the draws. ``norberg`` always takes the mean of the draws.
    dialect : {"gomes", "norberg", "text"}
        Whose definitions to follow; see :data:`DIALECTS`.
    tie_digits : int, optional
        Digits that count when expected dissimilarities are ranked; see :func:`ensemble_discrimination`.

    Returns
    -------
    EcologyScores
        A dict of floats by the names in :data:`MEASURES`, which also knows its ``dialect`` and the numbers of
        sites, species, draws and pairs. A measure whose input was not given has no key; a value that does not
        exist is NaN.

    Raises
    ------
    DataError
        Labels, draws, pairs or probabilities that do not fit.
    ConfigError
        Unknown dialect, or nothing to judge.

    Notes
    -----
    Draws are looked at block by block and only their sums are kept. Beyond the input this takes about
    ``n_draws * (8 * n_sites + 48 * n_pairs)`` bytes and at most some 150 MB for the work: measured at 2,300 sites,
    100 species and 300 pairs, 16 MB for 100 draws and 256 MB for 5,000.

    Examples
    --------
    >>> labels = [[1, 0, 1], [1, 1, 0], [0, 0, 1], [0, 1, 1]]
    >>> rng = np.random.default_rng(0)
    >>> probs = 0.8 * np.array(labels) + 0.1
    >>> draws = rng.random((100, 4, 3)) < probs
    >>> scores = all_measures(labels, draws=draws, pairs=site_pairs(4, 20), probs=probs)
    >>> scores.dialect, len(scores)
    ('gomes', 20)
    >>> round(scores["occ_accuracy"], 4), round(scores["rich_accuracy"], 4)
    (0.1, 0.1)
    """
    rules = find_dialect(dialect)
    check_tie_digits(tie_digits)
    cells = check_labels(labels)
    if draws is None:
        _check_enough_without_draws(pairs, probs, rules)
    table = None if pairs is None else _check_pairs(pairs, len(cells.observed), rules.self_pairs)
    known_probs = None if probs is None else _check_probs_of(labels, probs)[1]
    values: dict[str, float] = {}
    counts: list[npt.NDArray[np.int32]] = []
    components: list[list[FloatArray]] = []
    n_present = np.zeros(cells.observed.shape)
    if draws is not None:
        for block in _checked_draws(draws, cells):
            counts.append(_count_species(block))
            n_present += block.view(np.uint8).sum(axis=0, dtype=np.int32)
            if table is not None:
                components.append(_pair_components(block, table, cells, rules))
    n_draws = sum(len(block) for block in counts)
    if known_probs is None or rules.probs_from_draws:
        known_probs = n_present / n_draws

    values["occ_accuracy"] = occurrence_accuracy(labels, known_probs)
    values["occ_discrimination"] = occurrence_discrimination(labels, known_probs, dialect)
    values["occ_calibration"] = occurrence_calibration(labels, known_probs, dialect)
    values["occ_precision"] = occurrence_precision(labels, known_probs)
    n_pairs = 0
    if counts:
        drawn_richness = Ensemble(_observed_richness(cells), np.concatenate(counts))
        expected = None
        if rules.richness_from_probs:
            # Rounded, or sites with equal sums would be ranked by the order of the species.
            expected = (known_probs * cells.observed).sum(axis=1).round(_TIE_DIGITS)
        values |= _ensemble_measures("rich_{}", drawn_richness, dialect, expected, tie_digits)
    if components and table is not None:
        ensembles = _community_ensembles(components, table, cells, rules)
        n_pairs = int(np.isfinite(ensembles["sor"].observed).sum())
        for name, ensemble in ensembles.items():
            values |= _ensemble_measures(f"comm_{{}}_{name}", ensemble, dialect, None, tie_digits)
    return EcologyScores(
        values,
        dialect=dialect,
        n_sites=int(cells.observed.any(axis=1).sum()),
        n_species=int(cells.observed.any(axis=0).sum()),
        n_draws=n_draws,
        n_pairs=n_pairs,
    )


def _check_enough_without_draws(pairs: npt.ArrayLike | None, probs: npt.ArrayLike | None, rules: Dialect) -> None:
    if probs is None:
        raise ConfigError("draws or probs must be given; got neither. Pass draws= for all 20 numbers.")
    if rules.probs_from_draws:
        raise ConfigError(
            f"draws must be given for dialect {rules.name!r}; got probs alone. "
            "It judges occurrence by the mean of the draws; draw 100 communities."
        )
    if pairs is not None:
        raise ConfigError("pairs must come with draws; got pairs and probs alone. Pass draws=, or leave pairs out.")


def _ensemble_measures(
    key: str, ensemble: Ensemble, dialect: str, expected: FloatArray | None, tie_digits: int | None
) -> dict[str, float]:
    return {
        key.format("accuracy"): ensemble_accuracy(*ensemble, dialect, expected=expected),
        key.format("discrimination"): ensemble_discrimination(
            *ensemble, dialect, expected=expected, tie_digits=tie_digits
        ),
        key.format("calibration"): ensemble_calibration(*ensemble, dialect),
        key.format("precision"): ensemble_precision(*ensemble, dialect),
    }


def richness_coverage(
    labels: npt.ArrayLike, draws: Draws, level: float = 0.5, ties: Literal["inclusive", "shared"] = "inclusive"
) -> float:
    r"""Share of sites whose observed richness lies inside the central interval of the drawn richness.

    In [0, 1]; to be compared with `level`. Sites without an observed species do not count.

    Parameters
    ----------
    labels, draws
        As in :func:`richness`.
    level : float
        Nominal coverage, between 0 and 1.
    ties : {"inclusive", "shared"}
        What becomes of draws that equal the observed richness, see Notes.

    Notes
    -----
    Richness is a whole number, and many draws equal the observed one.

    ``"inclusive"`` takes the interval between the (1 - level)/2 and (1 + level)/2 quantiles (linear), both ends
    inside: what most readers expect, and ``abs(coverage - 0.5)`` is ``rich_calibration`` of dialect ``gomes``. It
    covers too often: with few species even the true law lies well above `level`.

    ``"shared"`` is exact. With B draws below and T draws equal to the observed value, of R, the observed value's
    rank share is spread evenly over :math:`[B, B + T + 1] / (R + 1)`, and a site counts by the part of this
    stretch that lies inside :math:`[(1 - level)/2, (1 + level)/2]`. If the observed community is one more draw of the
    same law, the expected coverage is `level`, whatever the law and the number of draws.

    Examples
    --------
    Three draws of one site have richness 0, 1 and 2; 1 is observed. It lies in [0.5, 1.5]. Its stretch is [1, 3]/4,
    which is the central half itself.

    >>> labels, draws = [[1, 0]], [[[0, 0]], [[1, 0]], [[1, 1]]]
    >>> richness_coverage(labels, draws), richness_coverage(labels, draws, ties="shared")
    (1.0, 1.0)
    >>> richness_coverage(labels, draws, 0.25), richness_coverage(labels, draws, 0.25, ties="shared")
    (1.0, 0.5)
    """
    if not 0 < level < 1:
        raise ConfigError(f"level must lie between 0 and 1; got {level}. Take 0.5 for the central half.")
    if ties not in ("inclusive", "shared"):
        raise ConfigError(f"ties must be 'inclusive' or 'shared'; got {ties!r}.")
    truth, table, _ = check_ensemble(*richness(labels, draws))
    if ties == "inclusive":
        return interval_coverage(truth, table, level, "linear")
    start = (table < truth).sum(axis=0) / (len(table) + 1)
    end = ((table <= truth).sum(axis=0) + 1) / (len(table) + 1)
    inside = np.minimum(end, (1 + level) / 2) - np.maximum(start, (1 - level) / 2)
    return float((np.maximum(inside, 0) / (end - start)).mean())


def measures_frame(results: Mapping[str, Mapping[str, float]], dialect: str | None = None) -> pd.DataFrame:
    """Set results side by side, with what each measure judges and which way is better.

    Parameters
    ----------
    results : mapping of str to mapping of str to float
        For each model its values by the names in :data:`MEASURES`; values that are missing become NaN. Results of
        :func:`all_measures` know their dialect and must all speak the same.
    dialect : str, optional
        The dialect of results that do not know theirs, such as published rows.

    Returns
    -------
    DataFrame
        One row per measure, in the order of :data:`MEASURES`; columns ``dialect``, ``level``, ``aspect``,
        ``component``, ``better`` ("higher" or "lower"), ``ideal``, then one per model.

    Raises
    ------
    ConfigError
        No dialect, or more than one.
    DataError
        No results, an unknown measure, or a model named like one of the columns.

    Examples
    --------
    >>> scores = all_measures([[1, 0], [0, 1]], probs=[[0.8, 0.3], [0.4, 0.9]])
    >>> frame = measures_frame({"ours": scores, "theirs": {"occ_accuracy": 0.4}})
    >>> frame.loc["occ_accuracy":"occ_discrimination", ["dialect", "better", "ours", "theirs"]]
                       dialect  better  ours  theirs
    measure
    occ_accuracy         gomes   lower  0.25     0.4
    occ_discrimination   gomes  higher  1.00     NaN
    """
    if not results:
        raise DataError("results must hold at least one model; got none.")
    spoken = {model: getattr(values, "dialect", None) for model, values in results.items()} | {"dialect=": dialect}
    names = sorted({name for name in spoken.values() if name is not None})
    if len(names) != 1:
        got = listed(f"{model} {name}" for model, name in spoken.items() if name is not None) or "none"
        raise ConfigError(
            f"results must all speak one dialect; got {got}. "
            "Compute them anew with one dialect, or name that of published rows with dialect=."
        )
    frame = pd.DataFrame(
        {
            "dialect": find_dialect(names[0]).name,
            "level": [measure.level for measure in MEASURES.values()],
            "aspect": [measure.aspect for measure in MEASURES.values()],
            "component": [measure.component or "" for measure in MEASURES.values()],
            "better": ["higher" if measure.greater_is_better else "lower" for measure in MEASURES.values()],
            "ideal": [measure.ideal for measure in MEASURES.values()],
        },
        index=pd.Index(MEASURES, name="measure"),
    )
    for model, values in results.items():
        unknown = [name for name in values if name not in MEASURES]
        if unknown:
            raise DataError(
                f"results must hold measures such as {listed(MEASURES, limit=2)}; got {listed(unknown)} of {model!r}. "
                "Published tables write nes for sne."
            )
        if model in frame.columns:
            raise DataError(f"results must name models unlike the columns; got {model!r}. Choose another name.")
        frame[model] = [float(values.get(name, np.nan)) for name in MEASURES]
    return frame
