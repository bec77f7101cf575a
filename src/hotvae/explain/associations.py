r"""Which labels go together beyond what the features explain.

A model predicts :math:`p_{ni} = P(y_{ni} = 1 \mid x_n)`; what it leaves over is the residual
:math:`e_{ni} = y_{ni} - p_{ni}`. Labels that are independent given the features have uncorrelated residuals,
so a clear correlation is a trace of something else. That may be an interaction, but just as well a feature
nobody measured, a niche the model has not learned, or a third label: **an association is not a proof of
interaction**. Use rows the model was not trained on; on its training rows the residuals are too small.

Raw residuals are used, not ones divided by :math:`\sqrt{p(1-p)}`: the sum of their products is the score test
of a constant log odds ratio between two labels, the most powerful test nearby, and it is bounded. Divided
residuals explode where a model says "almost never" and is wrong once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.stats import norm

from hotvae.errors import ConfigError, DataError, listed
from hotvae.metrics.checks import check_labels, check_probs

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

MIN_ROWS = 20
"""Fewest rows on each side of a contrast; with less a correlation means little."""

CLEAR_Z = 2.5
"""From this z-score on, a third label is taken to tell something about a label by itself."""

MIN_Z = 3.0
"""Smallest absolute z-score of an association that is listed."""

CHANCE_REPORTS = 0.05
"""How many associations, and contrasts of each kind, may be expected in a list where there is nothing to find."""

MAX_LOG_ODDS = 8.0
"""Bound of fitted log odds ratios; beyond it two labels practically always, or never, occur together."""


@dataclass(frozen=True, eq=False)
class Associations:
    """Association of every pair of labels; the diagonal and pairs without a value are NaN.

    Attributes
    ----------
    correlation : ndarray of shape (n_labels, n_labels)
        Correlation of the residuals, in [-1, 1].
    z : ndarray of shape (n_labels, n_labels)
        Correlation divided by its standard error under independence given the features; about standard
        normal in that case.
    n_rows : ndarray of int, shape (n_labels, n_labels)
        Rows in which both labels are observed.

    Examples
    --------
    >>> found = residual_associations([[1, 1], [0, 0], [1, 1], [0, 0]], np.full((4, 2), 0.5))
    >>> found.correlation[0, 1], found.z[0, 1]
    (np.float64(1.0), np.float64(2.0))
    """

    correlation: FloatArray
    z: FloatArray
    n_rows: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Contrast:
    """An association that differs between two sets of rows.

    Attributes
    ----------
    name : str
        The feature or the third label that divides the rows.
    low, high : float
        Association where the feature is at most / above its median, or the third label absent / present.
    z : float
        Test that the log odds ratio of the pair differs between the sides, positive if it rises from low to
        high.
    is_label : bool
        Whether ``name`` is a label.

    Examples
    --------
    >>> Contrast("rainfall", -0.41, 0.02, 6.0).describe()
    'rainfall low: −0.41 / high: +0.02'
    >>> Contrast("otter", 0.0, -0.3, -5.1, is_label=True).describe()
    'otter absent: +0.00 / present: −0.30'
    """

    name: str
    low: float
    high: float
    z: float
    is_label: bool = False

    def describe(self) -> str:
        """Say both sides in a few words."""
        sides = ("absent", "present") if self.is_label else ("low", "high")
        low, high = (f"{value:+.2f}".replace("-", "−") for value in (self.low, self.high))
        return f"{self.name} {sides[0]}: {low} / {sides[1]}: {high}"


@dataclass(frozen=True)
class Association:
    """A pair of labels that go together, or avoid each other, more than the features explain.

    Attributes
    ----------
    pair : tuple of str
        The two labels, in table order; the association has no direction.
    association, z : float
        Correlation of the residuals over all rows, and its z-score under independence. Both may be small when
        the association changes its sign from place to place; then ``where`` tells.
    where : Contrast or None
        The feature whose median split changes the association most clearly, if any does beyond chance.
    third : Contrast or None
        The third label whose presence changes the association most clearly, if any does beyond chance.

    Examples
    --------
    >>> Association(("heron", "otter"), -0.2, -6.0, Contrast("rainfall", -0.41, 0.02, 6.0)).describe()
    'heron and otter: −0.20 (z −6.0); rainfall low: −0.41 / high: +0.02'
    """

    pair: tuple[str, str]
    association: float
    z: float
    where: Contrast | None = None
    third: Contrast | None = None

    def describe(self) -> str:
        """Say the association in one line."""
        parts = [f"{self.pair[0]} and {self.pair[1]}: {self.association:+.2f} (z {self.z:.1f})".replace("-", "−")]
        parts += [contrast.describe() for contrast in (self.where, self.third) if contrast is not None]
        return "; ".join(parts)


def residual_associations(labels: npt.ArrayLike, probs: npt.ArrayLike) -> Associations:
    r"""Correlate what the model left unexplained, for each pair of labels.

    Parameters
    ----------
    labels : array-like of shape (n_samples, n_labels)
        0, 1, or NaN for a cell that was not observed; a pair uses the rows in which both are observed.
    probs : array-like of shape (n_samples, n_labels)
        Predicted probabilities, of rows the model was not trained on.

    Returns
    -------
    Associations
        Correlations of the residuals with their z-scores.

    Raises
    ------
    DataError
        Tables that do not fit.

    Notes
    -----
    With residuals :math:`c` centred over the rows in which a label was observed,

    .. math:: r_{ij} = \frac{\sum_n c_{ni} c_{nj}}{\sqrt{\sum_n c_{ni}^2 \sum_n c_{nj}^2}}, \qquad
              z_{ij} = \frac{\sum_n c_{ni} c_{nj}}{\sqrt{\sum_n c_{ni}^2 c_{nj}^2}}.

    Centring takes out a model that is too high or too low everywhere. The standard error comes from the
    residuals themselves, so it stays honest when the probabilities are overconfident, and a few joint
    presences of two rare labels cannot give a large z.

    Examples
    --------
    >>> labels = np.array([[1, 0], [0, 1]] * 50)
    >>> found = residual_associations(labels, np.full((100, 2), 0.5))
    >>> found.correlation[0, 1].item(), found.z[0, 1].item()
    (-1.0, -10.0)
    """
    residuals, observed, _, _ = _residuals(labels, probs)
    return _associations(residuals, observed)


def strongest_associations(
    labels: npt.ArrayLike,
    probs: npt.ArrayLike,
    label_names: Sequence[str],
    features: npt.ArrayLike | None = None,
    feature_names: Sequence[str] | None = None,
    n: int | None = 12,
) -> list[Association]:
    """List the clearest associations, and where or with whom they change.

    Parameters
    ----------
    labels : array-like of shape (n_samples, n_labels)
        0, 1, or NaN for a cell that was not observed.
    probs : array-like of shape (n_samples, n_labels)
        Predicted probabilities, of rows the model was not trained on.
    label_names : sequence of str
        Names of the labels.
    features : array-like of shape (n_samples, n_features), optional
        Numbers; NaN leaves a row out of that feature's contrast. With features, pairs whose association shows
        only on one side of a median, or with opposite signs on the two sides, are found, too.
    feature_names : sequence of str, optional
        Names of the features.
    n : int or None
        Most pairs to return; None returns all that pass.

    Returns
    -------
    list of Association
        Sorted by absolute z-score (of the stronger side, for a pair found by a feature's contrast).

    Raises
    ------
    DataError
        Tables or names that do not fit.
    ConfigError
        ``n`` out of range.

    Notes
    -----
    A pair is listed from a z-score of :data:`MIN_Z` on, and of more where many were tried: if there were nothing to
    find, the list would have :data:`CHANCE_REPORTS` pairs, and as many contrasts of each kind (Bonferroni).

    A contrast shows correlations but tests log odds ratios: a correlation also shrinks where a label becomes
    rare, a log odds ratio need not. The test compares the products of residuals with those expected under one
    log odds ratio everywhere (Plackett's distribution, predicted probabilities as margins). For a third
    label its residual is used, not its presence, so that a label that merely marks an environment is not
    reported; and what it tells about each of the two by itself is taken out first. All of this is association
    left over given the features, not proof of interaction.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> wren = rng.random(400) < 0.5
    >>> owl = np.where(rng.random(400) < 0.8, ~wren, wren)
    >>> frog = rng.random(400) < 0.5
    >>> found = strongest_associations(np.column_stack([wren, owl, frog]), np.full((400, 3), 0.5),
    ...                                ["wren", "owl", "frog"])
    >>> [association.pair for association in found], found[0].association < -0.5
    ([('wren', 'owl')], True)
    """
    residuals, observed, present, table = _residuals(labels, probs)
    names = _checked_names("label_names", label_names, residuals.shape[1])
    splits = _median_splits(features, feature_names, len(residuals))
    if n is not None and n < 1:
        raise ConfigError(f"n must be at least 1, or None for all; got {n}.")

    overall = _associations(residuals, observed)
    ranked = _screened_pairs(residuals, observed, overall, splits)
    feature_screen = _screen(len(ranked) * len(splits))
    third_screen = _screen(len(ranked) * (len(names) - 2))
    found = []
    for i, j in ranked[:n]:
        model = _PairModel(table[:, i], table[:, j], residuals[:, i], residuals[:, j], observed[:, i] & observed[:, j])
        where = _clearest(
            ((name, model.contrast(high.astype(float), high, known)) for name, high, known in splits),
            feature_screen,
        )
        thirds = []
        for k in range(len(names)):
            if k not in (i, j):
                label = _Third(table[:, k], residuals[:, k], present[:, k], observed[:, k])
                given = model.given(label, np.abs(overall.z[[i, j], k]) > CLEAR_Z)
                thirds.append((names[k], given.contrast(label.residuals, label.present, label.observed)))
        third = _clearest(thirds, third_screen, is_label=True)
        found.append(
            Association((names[i], names[j]), float(overall.correlation[i, j]), float(overall.z[i, j]), where, third)
        )
    return found


# --- pairs -----------------------------------------------------------------------------------------------


def _residuals(labels: npt.ArrayLike, probs: npt.ArrayLike) -> tuple[FloatArray, BoolArray, BoolArray, FloatArray]:
    """Residuals (0 where not observed), observed cells, present cells, and the probabilities in float64."""
    cells = check_labels(labels)
    table = check_probs(probs, cells.positive.shape).astype(np.float64)
    residuals = np.where(cells.observed, cells.positive - table, 0.0)
    return residuals, cells.observed, cells.positive, table


def _associations(residuals: FloatArray, observed: BoolArray) -> Associations:
    mask = observed.astype(np.float64)
    # One centre per label: its mean over the rows in which it is observed.
    centre = residuals.sum(axis=0) / np.maximum(mask.sum(axis=0), 1.0)
    centred = (residuals - centre) * mask
    squares = centred**2
    cross = centred.T @ centred
    error = np.sqrt(squares.T @ squares)
    own = squares.T @ mask  # (i, j): of label i, over rows in which j is observed, too
    np.fill_diagonal(cross, np.nan)
    usable = error > 0
    return Associations(
        correlation=np.divide(cross, np.sqrt(own * own.T), out=np.full_like(cross, np.nan), where=usable),
        z=np.divide(cross, error, out=np.full_like(cross, np.nan), where=usable),
        n_rows=(mask.T @ mask).astype(np.int64),
    )


def _screened_pairs(
    residuals: FloatArray,
    observed: BoolArray,
    overall: Associations,
    splits: Sequence[tuple[str, BoolArray, BoolArray]],
) -> list[tuple[int, int]]:
    """Pairs that pass over all rows, or on one side of some feature; clearest first."""
    n_pairs = len(residuals.T) * (len(residuals.T) - 1) // 2
    # Chance is shared between the two ways in.
    share = CHANCE_REPORTS / 2 if splits else CHANCE_REPORTS

    def passing(z: FloatArray, n_tried: int) -> FloatArray:
        size = np.abs(np.nan_to_num(z))
        return np.where(size > _screen(n_tried, share), size, 0.0)

    strength = passing(overall.z, n_pairs)
    for _, high, known in splits:
        for side in (high, known & ~high):
            z = _associations(residuals[side], observed[side]).z
            strength = np.maximum(strength, passing(z, 2 * len(splits) * n_pairs))
    pairs = [(int(i), int(j)) for i, j in zip(*np.nonzero(np.triu(strength)), strict=True)]
    return sorted(pairs, key=lambda pair: (-strength[pair], pair))


# --- contrasts -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Third:
    """A third label: its probabilities, residuals, presences, and where it was observed."""

    probs: FloatArray
    residuals: FloatArray
    present: BoolArray
    observed: BoolArray


@dataclass(frozen=True, eq=False)
class _PairModel:
    """Two labels with given probabilities and one log odds ratio between them everywhere.

    A log odds ratio, unlike a correlation, can stay the same where a label becomes rare: what departs from a
    constant one is a change of the association and not of the prevalence.
    """

    first_probs: FloatArray
    second_probs: FloatArray
    first: FloatArray  # residuals
    second: FloatArray
    observed: BoolArray  # both

    @cached_property
    def _score(self) -> tuple[FloatArray, FloatArray]:
        """Departure of the products of residuals from the fitted constant, and the slope of the fit."""
        return self._departure(self.log_odds_ratio)

    @cached_property
    def log_odds_ratio(self) -> float:
        """The constant that makes the departures sum to 0, inside the bounds."""
        low, high = (float(self._departure(bound)[0].sum()) for bound in (-MAX_LOG_ODDS, MAX_LOG_ODDS))
        if low <= 0 or high >= 0:
            return -MAX_LOG_ODDS if low <= 0 else MAX_LOG_ODDS
        return float(brentq(lambda value: self._departure(value)[0].sum(), -MAX_LOG_ODDS, MAX_LOG_ODDS, xtol=1e-3))

    def _departure(self, log_odds_ratio: float) -> tuple[FloatArray, FloatArray]:
        first, second = self.first_probs, self.second_probs
        joint = _joint_probability(first, second, log_odds_ratio)
        # The slope of the joint probability is the harmonic sum of the four cells of the 2 x 2 table.
        cells = np.stack([joint, first - joint, second - joint, 1 - first - second + joint])
        slope: FloatArray = 1 / (1 / np.maximum(cells, 1e-12)).sum(axis=0)
        return (self.first * self.second - joint + first * second) * self.observed, slope * self.observed

    def given(self, third: _Third, related: BoolArray) -> "_PairModel":
        """Replace the probabilities by those given a third label, for the labels that are related to it."""
        if not related.any():
            return self
        probs, residuals = [self.first_probs, self.second_probs], [self.first, self.second]
        both = self.observed & third.observed
        for place in np.flatnonzero(related):
            link = _PairModel(probs[place], third.probs, residuals[place], third.residuals, both)
            joint = _joint_probability(probs[place], third.probs, link.log_odds_ratio)
            conditional = np.where(
                third.present,
                joint / np.maximum(third.probs, 1e-12),
                (probs[place] - joint) / np.maximum(1 - third.probs, 1e-12),
            ).clip(0.0, 1.0)
            residuals[place] = residuals[place] + probs[place] - conditional
            probs[place] = conditional
        return _PairModel(probs[0], probs[1], residuals[0], residuals[1], both)

    def contrast(self, score: FloatArray, high: BoolArray, known: BoolArray) -> tuple[float, float, float] | None:
        """Correlations on both sides, and the score test that the log odds ratio follows ``score``."""
        usable = self.observed & known
        sides = [_correlation(self.first[rows], self.second[rows]) for rows in (usable & ~high, usable & high)]
        departure, slope = (values * usable for values in self._score)
        if None in sides or slope.sum() == 0:
            return None
        # Orthogonal to the fit of the constant.
        gap = score - (score * slope).sum() / slope.sum()
        error = np.sqrt(((gap * departure) ** 2).sum())
        low, up = (side for side in sides if side is not None)
        return (low, up, float((gap * departure).sum() / error)) if error > 0 else None


def _joint_probability(first: FloatArray, second: FloatArray, log_odds_ratio: float) -> FloatArray:
    """Probability that both labels are present, from their own probabilities and their log odds ratio."""
    excess = np.expm1(log_odds_ratio)
    if abs(excess) < 1e-9:
        return first * second
    total = 1 + (first + second) * excess
    root = np.sqrt(np.maximum(total**2 - 4 * (1 + excess) * excess * first * second, 0.0))
    # 2 c / (b + root) instead of (b - root) / (2 a): no cancellation for rare labels.
    joint: FloatArray = 2 * (1 + excess) * first * second / (total + root)
    return joint


def _correlation(first: FloatArray, second: FloatArray) -> float | None:
    if len(first) < MIN_ROWS:
        return None
    first, second = first - first.mean(), second - second.mean()
    scale = np.sqrt((first**2).sum() * (second**2).sum())
    return float((first * second).sum() / scale) if scale > 0 else None


def _clearest(
    contrasts: Iterable[tuple[str, tuple[float, float, float] | None]], screen: float, is_label: bool = False
) -> Contrast | None:
    """Return the contrast with the largest z, if it passes the screen."""
    best: Contrast | None = None
    for name, values in contrasts:
        if values is not None and abs(values[2]) > max(screen, abs(best.z) if best else 0.0):
            best = Contrast(name, *values, is_label)
    return best


# --- checks ----------------------------------------------------------------------------------------------


def _screen(n_tried: int, chance_reports: float = CHANCE_REPORTS) -> float:
    """Smallest absolute z that passes when ``n_tried`` values were looked at."""
    return max(MIN_Z, float(norm.isf(chance_reports / 2 / n_tried))) if n_tried else MIN_Z


def _checked_names(thing: str, names: Sequence[str], count: int) -> list[str]:
    checked = [str(name) for name in names]
    if len(checked) != count:
        raise DataError(f"{thing} must name all {count} columns; got {len(checked)} ({listed(checked)}).")
    return checked


def _median_splits(
    features: npt.ArrayLike | None, feature_names: Sequence[str] | None, n_rows: int
) -> list[tuple[str, BoolArray, BoolArray]]:
    """Name, rows above the median, and rows with a value, of every feature that can be split."""
    if features is None:
        return []
    try:
        table = np.asarray(features, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"features must be numbers; got {error}. Leave categories out.") from None
    if table.ndim != 2 or len(table) != n_rows:
        raise DataError(f"features must be a table of {n_rows} rows; got shape {table.shape}.")
    given = [f"feature_{i}" for i in range(table.shape[1])] if feature_names is None else feature_names
    splits = []
    for name, column in zip(_checked_names("feature_names", given, table.shape[1]), table.T, strict=True):
        known = np.isfinite(column)
        if not known.any():
            continue
        middle = np.median(column[known])
        high = known & (column > middle)
        if not high.any():  # most rows share the largest value, as in a column of 0 and 1
            high = known & (column >= middle)
        if high.any() and (known & ~high).any():
            splits.append((name, high, known))
    return splits
