"""Draws of one number per item, judged four ways: richness per site, dissimilarity per pair of sites."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from hotvae.errors import ConfigError, DataError
from hotvae.metrics.checks import BoolArray, FloatArray
from hotvae.metrics.dialects import Interval, find_dialect
from hotvae.metrics.multilabel import mean_of_known

# Cells handled at a time: temporary arrays stay at a few times 4 MB (bytes) or 32 MB (floats).
_CELLS_PER_CHUNK = 1 << 22
TIE = 1e-12
"""Two values this close are one value reached by two sums; ranks and intervals must not tell them apart."""


class Ensemble(NamedTuple):
    """A number per item as observed and as drawn.

    Attributes
    ----------
    observed : ndarray of shape (n_items,)
        NaN where nothing was observed; such an item counts nowhere.
    drawn : ndarray of shape (n_draws, n_items)
        The same number in each draw.
    """

    observed: FloatArray
    drawn: npt.NDArray[Any]


def ensemble_accuracy(
    observed: npt.ArrayLike,
    drawn: npt.ArrayLike,
    dialect: str = "gomes",
    *,
    expected: npt.ArrayLike | None = None,
) -> float:
    r"""Error of drawn numbers: of richness, or of dissimilarity. Lower is better.

    0 or larger; NaN when no item is known.

    Parameters
    ----------
    observed : array-like of shape (n_items,)
        The truth; items that are NaN are left out.
    drawn : array-like of shape (n_draws, n_items)
        The same number in each draw.
    dialect : {"gomes", "norberg", "text"}
        Decides what the error is, see Notes.
    expected : array-like of shape (n_items,), optional
        Expected value, where it is known without draws; default: the mean over draws. Not used by ``norberg``.

    Notes
    -----
    ``gomes`` and ``text``: root mean square error of the expected value,
    :math:`\sqrt{\tfrac1n \sum_i (\bar V_i - v_i)^2}`. ``norberg``: mean absolute error of single draws,
    :math:`\tfrac{1}{nR} \sum_{ir} |V_{ri} - v_i|` (its code calls it RMSE).

    Examples
    --------
    Means 2 and 2 against 2 and 1; single errors 1, 1 and 0, 2.

    >>> observed, drawn = [2, 1], [[1, 1], [3, 3]]
    >>> round(ensemble_accuracy(observed, drawn), 4), ensemble_accuracy(observed, drawn, "norberg")
    (0.7071, 1.0)
    """
    rules = find_dialect(dialect)
    truth, table, known = check_ensemble(observed, drawn)
    if not truth.size:
        return float("nan")
    if rules.per_draw:
        return float(sum(np.abs(table[part] - truth).sum() for part in slices_of(len(table), truth.size)) / table.size)
    return float(np.sqrt(np.mean((_expected(table, known, expected) - truth) ** 2)))


def ensemble_discrimination(
    observed: npt.ArrayLike,
    drawn: npt.ArrayLike,
    dialect: str = "gomes",
    *,
    expected: npt.ArrayLike | None = None,
    tie_digits: int | None = None,
) -> float:
    """Spearman correlation of drawn and observed numbers. Higher is better.

    In [-1, 1]; NaN when one side is constant.

    Parameters
    ----------
    observed, drawn
        As in :func:`ensemble_accuracy`.
    dialect : {"gomes", "norberg", "text"}
        ``gomes`` and ``text`` correlate the expected values; ``norberg`` correlates each draw and averages, draws
        that are constant left out. The latter is lower by construction.
    expected : array-like of shape (n_items,), optional
        As in :func:`ensemble_accuracy`.
    tie_digits : int, optional
        Round expected values to so many digits before they are ranked; default: do not round. See Notes.

    Notes
    -----
    Tied values share their mean rank. Two means over draws that are equal may differ in the last bit, because
    their terms came in another order; unrounded, such a tie is broken by chance. The reference values of the
    measures were computed without rounding, hence the default; ``tie_digits=12`` gives the value of exact arithmetic.
    The two differ by less than 1e-4 with 300 pairs and 100 draws, by up to 0.01 with 40 pairs and 20 draws.

    Examples
    --------
    The mean has the order of the truth; the second draw has it reversed.

    >>> observed, drawn = [1, 2, 3], [[0, 5, 9], [3, 2, 1]]
    >>> ensemble_discrimination(observed, drawn), ensemble_discrimination(observed, drawn, "norberg")
    (1.0, 0.0)
    """
    rules = find_dialect(dialect)
    check_tie_digits(tie_digits)
    truth, table, known = check_ensemble(observed, drawn)
    if not truth.size:
        return float("nan")
    if rules.per_draw:
        correlations = [_spearman(table[part], truth) for part in slices_of(len(table), truth.size)]
        return mean_of_known(np.concatenate(correlations))
    values = _expected(table, known, expected)
    if tie_digits is not None:
        values = values.round(tie_digits)
    return float(_spearman(values[np.newaxis], truth)[0])


def _expected(table: npt.NDArray[Any], known: BoolArray, expected: npt.ArrayLike | None) -> FloatArray:
    if expected is None:
        # Each item's draws side by side in memory: numpy then sums them pairwise, the same way for any chunk.
        chunks = (np.ascontiguousarray(table[:, part].T) for part in slices_of(table.shape[1], len(table)))
        means: FloatArray = np.concatenate([chunk.mean(axis=1, dtype=np.float64) for chunk in chunks])
        return means
    values = as_numbers("expected", expected).astype(np.float64)
    if values.shape != known.shape or not np.isfinite(values[known]).all():
        raise DataError(
            f"expected must hold one finite number for each of {known.size} items; got shape {values.shape}, "
            f"{np.isnan(values).sum()} of them NaN. Leave it out to take the mean over draws."
        )
    return values[known]


def _spearman(rows: npt.NDArray[Any], truth: FloatArray) -> FloatArray:
    """Rank correlation of each row with the truth; NaN where either is constant."""
    first = rankdata(rows, axis=1) - (truth.size + 1) / 2
    second = rankdata(truth) - (truth.size + 1) / 2
    scale = np.sqrt((first**2).sum(axis=1) * (second**2).sum())
    correlations: FloatArray = np.full(len(rows), np.nan)
    np.divide(first @ second, scale, out=correlations, where=scale > 0)
    return correlations


def ensemble_calibration(observed: npt.ArrayLike, drawn: npt.ArrayLike, dialect: str = "gomes") -> float:
    r"""How far the coverage of the central 50 % interval is from one half. Lower is better.

    :math:`|c - 1/2|` in [0, 0.5], where c is the share of items inside the interval, both ends included; NaN
    when no item is known.

    Parameters
    ----------
    observed, drawn
        As in :func:`ensemble_accuracy`.
    dialect : {"gomes", "norberg", "text"}
        ``norberg`` takes the nearest order statistics (with 100 draws the 25th and the 75th), the others
        interpolate linearly.

    Notes
    -----
    Both ends count as inside, so whole numbers are covered too often: even the true law scores above 0, and a
    prediction that is certain and right scores 0.5. See :func:`~hotvae.metrics.richness_coverage` for a reading
    without this.

    Examples
    --------
    Intervals [1.75, 3.25] and [1.75, 3.25] for 2 and 4: one of two is covered. The nearest draws 1 and 3 cover
    the same.

    >>> drawn = [[1, 1], [2, 2], [3, 3], [4, 4]]
    >>> ensemble_calibration([2, 4], drawn), ensemble_calibration([2, 4], drawn, "norberg")
    (0.0, 0.0)
    >>> ensemble_calibration([1, 4], drawn), ensemble_calibration([1, 4], drawn, "norberg")
    (0.5, 0.0)
    """
    rules = find_dialect(dialect)
    truth, table, _ = check_ensemble(observed, drawn)
    return abs(interval_coverage(truth, table, 0.5, rules.interval) - 0.5)


def interval_coverage(truth: FloatArray, table: npt.NDArray[Any], level: float, interval: Interval) -> float:
    """Share of items inside their central interval, ends included; NaN without items."""
    if not truth.size:
        return float("nan")
    quantile = _nearest_quantile if interval == "nearest" else _linear_quantile
    n_inside = 0
    for part in slices_of(truth.size, len(table)):
        ordered = np.sort(table[:, part].T, axis=1)
        low, high = (quantile(ordered, share) for share in ((1 - level) / 2, (1 + level) / 2))
        # An interpolated end that equals the truth may miss it by a bit.
        n_inside += int(((low <= truth[part] + TIE) & (truth[part] <= high + TIE)).sum())
    return n_inside / truth.size


def _linear_quantile(ordered: npt.NDArray[Any], share: float) -> FloatArray:
    """Type 7: linear between the two neighbours of position share * (n - 1)."""
    position = share * (ordered.shape[1] - 1)
    lower = int(position)
    upper = min(lower + 1, ordered.shape[1] - 1)
    low, high = ordered[:, lower].astype(np.float64), ordered[:, upper].astype(np.float64)
    quantiles: FloatArray = low + (high - low) * (position - lower)
    return quantiles


def _nearest_quantile(ordered: npt.NDArray[Any], share: float) -> npt.NDArray[Any]:
    """Type 3: the order statistic nearest to share * n, the even one where two are as near."""
    n = ordered.shape[1]
    rank = round(share * n)  # Python rounds halves to even, as type 3 does
    return ordered[:, min(max(rank, 1), n) - 1]


def ensemble_precision(observed: npt.ArrayLike, drawn: npt.ArrayLike, dialect: str = "gomes") -> float:
    """Mean standard deviation over draws. Lower is sharper; it means little without calibration.

    0 or larger; NaN when no item is known, or when n - 1 is 0.

    Parameters
    ----------
    observed, drawn
        As in :func:`ensemble_accuracy`; ``observed`` only tells which items count.
    dialect : {"gomes", "norberg", "text"}
        ``gomes`` divides the sum of squares by the number of draws n, the others by n - 1.

    Examples
    --------
    >>> drawn = [[1, 2], [3, 2]]
    >>> ensemble_precision([2, 2], drawn), round(ensemble_precision([2, 2], drawn, "norberg"), 4)
    (0.5, 0.7071)
    """
    rules = find_dialect(dialect)
    truth, table, _ = check_ensemble(observed, drawn)
    if not truth.size or len(table) <= rules.ddof:
        return float("nan")
    parts = slices_of(truth.size, len(table))
    total = sum(table[:, part].std(axis=0, dtype=np.float64, ddof=rules.ddof).sum() for part in parts)
    return float(total / truth.size)


# Checks ------------------------------------------------------------------------------------------------


def as_numbers(name: str, values: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return an array of numbers."""
    try:
        table = np.asarray(values)
        if table.dtype.kind not in "biuf":
            raise TypeError(f"dtype {table.dtype}")
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{name} must be a dense array of numbers; got {type(values).__name__} ({error}). Convert it first."
        ) from error
    return table


def check_ensemble(observed: npt.ArrayLike, drawn: npt.ArrayLike) -> tuple[FloatArray, npt.NDArray[Any], BoolArray]:
    """Return the observed values that are known, the draws of them, and which they are."""
    truth, table = as_numbers("observed", observed).astype(np.float64), as_numbers("drawn", drawn)
    if truth.ndim != 1 or table.ndim != 2 or table.shape[1] != truth.size or not table.size:
        raise DataError(
            "observed and drawn must have shapes (n_items,) and (n_draws, n_items), neither empty; "
            f"got {truth.shape} and {table.shape}. Put the draws on the first axis."
        )
    known = ~np.isnan(truth)
    if not known.all():
        truth, table = truth[known], table[:, known]
    if not np.isfinite(table).all():
        raise DataError("drawn must be finite where observed is known; got NaN or infinity. Check the draws.")
    return truth, table, known


def check_tie_digits(tie_digits: int | None) -> None:
    """Refuse what is no number of digits."""
    if tie_digits is not None and (isinstance(tie_digits, bool) or not isinstance(tie_digits, (int, np.integer))):
        raise ConfigError(f"tie_digits must be a whole number or None; got {tie_digits!r}. Take 12 for exact ties.")


def slices_of(n: int, width: int) -> Iterator[slice]:
    """Cut n items, each of so many cells, into chunks of bounded size."""
    step = max(1, _CELLS_PER_CHUNK // max(width, 1))
    for start in range(0, n, step):
        yield slice(start, start + step)
