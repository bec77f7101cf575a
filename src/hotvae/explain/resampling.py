"""What chance alone could show: intervals from resampled rows, and a screen of shuffled labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hotvae.config import require_count
from hotvae.explain.associations import residual_associations
from hotvae.explain.conditional import BoolArray, FloatArray, IntArray, check_between
from hotvae.metrics.checks import check_labels, check_probs

_BOOTSTRAP_SEED, _SHUFFLE_SEED = 1, 2


def shuffle_within_strata(
    labels: npt.ArrayLike, probs: npt.ArrayLike, *, n_strata: int = 10, random_state: int | np.random.Generator = 0
) -> FloatArray:
    """Shuffle every label by itself among rows to which the model gives about the same probability.

    Parameters
    ----------
    labels : array-like of shape (n_samples, n_labels)
        0, 1, or NaN where nothing was observed; gaps stay where they are.
    probs : array-like of shape (n_samples, n_labels)
        Predicted probabilities; each label has its own strata, of equal size along them.
    n_strata : int
        Strata of each label; more follow the environment closer and shuffle less.
    random_state : int or Generator
        Decides the shuffle.

    Returns
    -------
    ndarray of shape (n_samples, n_labels)
        Labels that follow the environment as before, and no longer each other.

    Raises
    ------
    DataError, ConfigError
        Tables that do not fit, or no stratum.
    """
    require_count("n_strata", n_strata, 1)
    cells = check_labels(labels)
    table = np.where(cells.observed, cells.positive.astype(np.float64), np.nan)
    strata = _strata(check_probs(probs, table.shape), cells.observed, n_strata)
    return _shuffled(table, strata, np.random.default_rng(random_state))


def check_screen(level: float, false_share: float, n_shuffles: int, n_strata: int) -> None:
    """Refuse a coverage of intervals, or settings of :func:`screened`, out of range."""
    check_between("level", level, 0, 1)
    check_between("false_share", false_share, 0, 1)
    require_count("n_shuffles", n_shuffles, 1)
    require_count("n_strata", n_strata, 1)


def screened(
    labels: npt.ArrayLike,
    probs: FloatArray,
    masks: Mapping[str, BoolArray],
    n_shuffles: int,
    n_strata: int,
    false_share: float,
    seed: int,
) -> tuple[FloatArray, FloatArray]:
    """Residual z of every group, (group, label, label), and the threshold of each group."""
    cells = check_labels(labels)
    check_probs(probs, cells.positive.shape)
    table = np.where(cells.observed, cells.positive.astype(np.float64), np.nan)
    upper = np.triu_indices(table.shape[1], k=1)
    z, thresholds = [], []
    for number, mask in enumerate(masks.values()):
        rng = np.random.default_rng([seed, _SHUFFLE_SEED, number])
        own, own_probs = table[mask], probs[mask]
        found = residual_associations(own, own_probs).z
        strata = _strata(own_probs, cells.observed[mask], n_strata)
        null = [residual_associations(_shuffled(own, strata, rng), own_probs).z[upper] for _ in range(n_shuffles)]
        z.append(found)
        thresholds.append(chance_threshold(found[upper], np.stack(null), false_share))
    return np.stack(z), np.array(thresholds)


def chance_threshold(found: npt.ArrayLike, null: npt.ArrayLike, false_share: float) -> float:
    """Smallest size at which chance makes up at most a share of what is found.

    Parameters
    ----------
    found : array-like of shape (n_pairs,)
        Statistics, NaN where there is none.
    null : array-like of shape (n_shuffles, n_pairs)
        The same for shuffled labels.
    false_share : float
        Share to be expected by chance.

    Returns
    -------
    float
        Infinite when no threshold will do.
    """
    sizes = np.sort(np.abs(np.asarray(found, dtype=np.float64)))
    sizes = sizes[np.isfinite(sizes)]
    shuffled = np.asarray(null, dtype=np.float64)
    chance = np.sort(np.abs(shuffled[np.isfinite(shuffled)]))
    if not len(sizes):
        return float("inf")
    n_found = len(sizes) - np.searchsorted(sizes, sizes, side="left")
    n_chance = (len(chance) - np.searchsorted(chance, sizes, side="left")) / len(shuffled)
    passing = n_chance <= false_share * n_found
    return float(sizes[passing].min()) if passing.any() else float("inf")


def shares_taken(n: int, n_draws: int, rng: np.random.Generator) -> FloatArray:
    """How often each of n things is taken in each of some resamples, as shares, (n_draws, n)."""
    shares: FloatArray = rng.multinomial(n, np.full(n, 1 / n), size=n_draws) / n
    return shares


@dataclass(frozen=True, eq=False)
class Resamples:
    """Bootstrap weights of the rows of each group and of the models."""

    places: Mapping[str, IntArray]
    row_weights: Mapping[str, FloatArray]  # (draw, row of the group)
    model_weights: FloatArray  # (draw, model)
    tail: float

    @classmethod
    def draw(cls, places: Mapping[str, IntArray], n_models: int, n_draws: int, level: float, seed: int) -> Resamples:
        """Draw the weights: how often each row of a group, and each model, is taken."""
        rng = np.random.default_rng([seed, _BOOTSTRAP_SEED])
        row_weights = {name: shares_taken(len(rows), n_draws, rng) for name, rows in places.items()}
        return cls(places, row_weights, shares_taken(n_models, n_draws, rng), (1 - level) / 2)

    def summarise(self, group: str, values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mean and interval, (column,) each, of values of shape (model, row, column)."""
        inside = values[:, self.places[group]]
        draws = np.zeros((len(self.model_weights), inside.shape[2]))
        for weight, table in zip(self.model_weights.T, inside, strict=True):
            draws += weight[:, None] * (self.row_weights[group] @ table)
        ordered = np.sort(draws, axis=0)
        last = len(ordered) - 1
        low, high = (ordered[round(share * last)] for share in (self.tail, 1 - self.tail))
        return inside.mean(axis=(0, 1)), low, high


def _strata(probs: npt.NDArray[Any], observed: BoolArray, n_strata: int) -> npt.NDArray[np.int64]:
    """Stratum of every cell, by rank of its probability among the observed cells of the label; gaps are -1."""
    ranked = np.where(observed, probs, np.inf)
    ranks = ranked.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    strata = ranks * n_strata // np.maximum(observed.sum(axis=0), 1)
    return np.where(observed, strata, -1)


def _shuffled(table: FloatArray, strata: npt.NDArray[np.int64], rng: np.random.Generator) -> FloatArray:
    # Rows sorted by stratum, once as they are and once by chance within it: the second fills the first.
    home = np.argsort(strata, axis=0, kind="stable")
    drawn = np.lexsort((rng.random(table.shape), strata), axis=0)
    result = np.empty_like(table)
    np.put_along_axis(result, home, np.take_along_axis(table, drawn, axis=0), axis=0)
    return result
