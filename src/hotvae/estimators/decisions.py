r"""Decisions: of all lists of labels, the one that is best for what one wants, from draws or from probabilities.

What a list is worth for a row is its mean over the label sets that the row may have. For independent labels all four
decisions are exact:

* ``hamming``: each label by itself, where it is likelier than not;
* ``f1``: the k likeliest labels, for the best k. Its worth follows from two recursions over the labels, without draws;
* ``jaccard``: the same;
* ``subset``: the likeliest whole set, which again is each label by itself.

For labels that go together, ``f1`` is the exact maximiser for the draws that it is given (Dembczyński et al. 2011):
with :math:`P_{is}` the share of draws that have label i and s labels in all, the best list of k labels has those with
the largest :math:`\sum_s 2 P_{is} / (s + k)`. A hundred draws tell two labels of 10 and 13 % badly apart. Where the
probability :math:`p_i` of each label is known, draws say only how a label and the number s go together:
:math:`\operatorname{cov}(y_i, 2 / (s + k)) + p_i \, E[2 / (s + k)]` stands for that sum, the same with all draws there
are, and far less noisy with a few. No exact way is known for ``jaccard``: it takes the best of the k likeliest labels,
for every k, and of the draws themselves. ``subset`` follows the chain rule of a law with a beam, or takes the most
frequent draw where there is no law to follow.

``empty`` is what an empty list is worth where no label is present: 1, or 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from hotvae.config import require_count
from hotvae.errors import ConfigError

Objective = Literal["hamming", "f1", "jaccard", "subset"]
OBJECTIVES: tuple[str, ...] = get_args(Objective)

Floats = NDArray[np.floating[Any]]
Lists = NDArray[np.bool_]
Step = Callable[[NDArray[np.float32]], Floats]
"""From label sets of shape (beam, row, label), NaN where unknown, to logits of all labels given the known ones."""

# Numbers that are worked on at once.
_CELLS = 4_000_000


def check_empty(empty: float) -> float:
    """Return what an empty list is worth where no label is present.

    Examples
    --------
    >>> check_empty(0.5)
    Traceback (most recent call last):
    ...
    hotvae.errors.ConfigError: empty must be 1 or 0; got 0.5. 1 counts an empty list as right where no label is present.
    """
    if empty not in (0, 1):
        raise ConfigError(
            f"empty must be 1 or 0; got {empty!r}. 1 counts an empty list as right where no label is present."
        )
    return float(empty)


# --- independent labels --------------------------------------------------------------------------------------


def likely(probs: Floats) -> Lists:
    """Labels that are likelier than not: best by Hamming accuracy, and the likeliest set of independent labels."""
    return np.asarray(probs) > 0.5


def f1_independent(probs: Floats, empty: float = 1) -> Lists:
    r"""Find the list with the greatest expected F1, for independent labels; exact.

    Parameters
    ----------
    probs : ndarray of shape (n_rows, n_labels)
        Probabilities; 0 and 1 for known labels.
    empty : {1, 0}
        What an empty list is worth where no label is present.

    Returns
    -------
    ndarray of bool of shape (n_rows, n_labels)

    Notes
    -----
    With labels sorted by probability, the best list of k labels is the first k. Of the first k let
    :math:`S` be the number that are present, of the others :math:`T`; then the list is worth
    :math:`\sum_s 2 s P(S = s) \, E[1 / (k + s + T)]`. Both factors follow label by label,
    :math:`E_k[1 / (c + T)] = p_{k+1} E_{k+1}[1 / (c + 1 + T)] + (1 - p_{k+1}) E_{k+1}[1 / (c + T)]`.

    Examples
    --------
    The first label alone is worth .6 · (.5 · 1 + .5 · 2/3) = .5, both (.3 · 1 + .5 · 2/3) = .6333, an empty list .2.

    >>> f1_independent(np.array([[0.6, 0.5]])).tolist()
    [[True, True]]
    """
    return _best_prefix(probs, empty, is_f1=True)


def jaccard_independent(probs: Floats, empty: float = 1) -> Lists:
    r"""Find the list with the greatest expected Jaccard index, for independent labels; exact.

    A list of k labels is worth :math:`E[S] \, E[1 / (k + T)]` (as in :func:`f1_independent`). Both factors grow when
    one of its labels is changed for a likelier one: so the best list of k labels has the k likeliest.

    Parameters
    ----------
    probs, empty
        As in :func:`f1_independent`.

    Returns
    -------
    ndarray of bool of shape (n_rows, n_labels)

    Examples
    --------
    The first label alone is worth .6 · (.5 + .5 / 2) = .45, both (.6 + .5) / 2 = .55.

    >>> jaccard_independent(np.array([[0.6, 0.5]])).tolist()
    [[True, True]]
    """
    return _best_prefix(probs, empty, is_f1=False)


def _best_prefix(probs: Floats, empty: float, is_f1: bool) -> Lists:
    empty = check_empty(empty)
    table = np.asarray(probs, dtype=np.float64)
    n_labels = table.shape[1]
    lists = np.zeros(table.shape, dtype=bool)
    for rows in _slices(len(table), (n_labels + 2) ** 2):
        order = np.argsort(-table[rows], axis=1, kind="stable")
        ranked = np.take_along_axis(table[rows], order, axis=1)
        n_best = _prefix_values(ranked, empty, is_f1).argmax(axis=1)
        np.put_along_axis(lists[rows], order, np.arange(n_labels) < n_best[:, None], axis=1)
    return lists


def _prefix_values(ranked: NDArray[np.float64], empty: float, is_f1: bool) -> NDArray[np.float64]:
    """Worth of the first 0, 1, ... labels, of shape (n_rows, n_labels + 1)."""
    n_rows, n_labels = ranked.shape
    values = np.empty((n_rows, n_labels + 1))
    values[:, 0] = empty * np.prod(1 - ranked, axis=1)
    # counts[k]: chances that 0, 1, ... of the first k labels are present.
    counts = np.zeros((n_labels + 1, n_rows, n_labels + 1)) if is_f1 else np.empty((0, 0, 0))
    if is_f1:
        counts[0, :, 0] = 1
        for k in range(n_labels):
            present = ranked[:, k, None]
            counts[k + 1] = (1 - present) * counts[k]
            counts[k + 1, :, 1:] += present * counts[k, :, :-1]
    # inverse[:, c]: the mean of 1 / (c + T); one that no list needs stays at c = 0.
    inverse = np.zeros((n_rows, 2 * n_labels + 1))
    inverse[:, 1:] = 1 / np.arange(1, 2 * n_labels + 1)
    sums = ranked.cumsum(axis=1)
    for k in range(n_labels, 0, -1):
        if is_f1:
            hits = np.arange(1, k + 1)
            values[:, k] = (2 * hits * counts[k, :, 1 : k + 1] * inverse[:, k + 1 : 2 * k + 1]).sum(axis=1)
        else:
            values[:, k] = sums[:, k - 1] * inverse[:, k]
        present = ranked[:, k - 1, None]
        inverse[:, :-1] = present * inverse[:, 1:] + (1 - present) * inverse[:, :-1]
    return values


# --- draws ---------------------------------------------------------------------------------------------------


def f1_of_draws(draws: NDArray[Any], empty: float = 1, probs: Floats | None = None) -> Lists:
    """Find the list with the greatest mean F1 over draws of whole label sets; exact for these draws.

    Parameters
    ----------
    draws : ndarray of shape (n_draws, n_rows, n_labels)
        0 and 1.
    empty : {1, 0}
        What an empty list is worth where no label is present.
    probs : ndarray of shape (n_rows, n_labels), optional
        Probability of each label in the law of the draws; the shares among the draws then tell less by chance.

    Returns
    -------
    ndarray of bool of shape (n_rows, n_labels)

    Examples
    --------
    Half of the draws have the first label alone, the others the two others: all three are worth (1/2 + 4/5) / 2.

    >>> f1_of_draws(np.array([[[1, 0, 0]], [[0, 1, 1]]])).tolist()
    [[True, True, True]]
    """
    empty = check_empty(empty)
    n_draws, n_rows, n_labels = draws.shape
    lists = np.zeros((n_rows, n_labels), dtype=bool)
    for rows in _slices(n_rows, (n_draws + 2 * n_labels) * n_labels):
        some = draws[:, rows].transpose(1, 2, 0).astype(np.float64)  # (row, label, draw)
        sizes = some.sum(axis=1)
        # A label that no draw has is worth nothing in any list.
        n_used = max(1, int(some.any(axis=2).sum(axis=1).max()))
        weights = 2 / (sizes[:, :, None] + np.arange(1, n_used + 1))  # (row, draw, k)
        gains = some @ weights / n_draws  # (row, label, k)
        if probs is not None:
            surplus = np.asarray(probs[rows], dtype=np.float64) - some.mean(axis=2)
            most = weights.mean(axis=1)[:, None]
            gains = np.clip(gains + surplus[:, :, None] * most, 0, most)
        order = np.argsort(-gains, axis=1, kind="stable")
        ranked = np.take_along_axis(gains, order, axis=1).cumsum(axis=1)
        places = np.arange(n_used)
        values = np.column_stack([empty * (sizes == 0).mean(axis=1), ranked[:, places, places]])
        n_best = values.argmax(axis=1)
        chosen = np.take_along_axis(order, np.maximum(n_best - 1, 0)[:, None, None], axis=2)[:, :, 0]
        np.put_along_axis(lists[rows], chosen, np.arange(n_labels) < n_best[:, None], axis=1)
    return lists


def jaccard_of_draws(draws: NDArray[Any], empty: float = 1, probs: Floats | None = None) -> Lists:
    """Find a list with a great mean Jaccard index over draws: the best of the k likeliest labels and of the draws.

    No fast way to the very best list is known; this one is at least as good as every draw and every such prefix.

    Parameters
    ----------
    draws, empty, probs
        As in :func:`f1_of_draws`; ``probs`` say which labels are the likeliest.

    Returns
    -------
    ndarray of bool of shape (n_rows, n_labels)

    Examples
    --------
    >>> jaccard_of_draws(np.array([[[1, 0, 0]], [[0, 1, 1]], [[0, 1, 1]]])).tolist()
    [[False, True, True]]
    """
    empty = check_empty(empty)
    n_draws, n_rows, n_labels = draws.shape
    lists = np.zeros((n_rows, n_labels), dtype=bool)
    for rows in _slices(n_rows, 4 * n_draws * (n_labels + n_draws)):
        some = draws[:, rows].transpose(1, 0, 2).astype(np.float64)  # (row, draw, label)
        sizes = some.sum(axis=2)
        order = np.argsort(-(some.mean(axis=1) if probs is None else probs[rows]), axis=1, kind="stable")
        hits = np.take_along_axis(some, order[:, None, :], axis=2).cumsum(axis=2)  # of the first 1, 2, ... labels
        prefixes = _jaccard(hits, np.arange(1, n_labels + 1) + sizes[:, :, None] - hits, empty).mean(axis=1)
        prefixes = np.column_stack([empty * (sizes == 0).mean(axis=1), prefixes])
        shared = some @ some.transpose(0, 2, 1)
        drawn = _jaccard(shared, sizes[:, :, None] + sizes[:, None, :] - shared, empty).mean(axis=1)
        n_best, draw = prefixes.argmax(axis=1), drawn.argmax(axis=1)
        every = np.arange(len(some))
        found = lists[rows]
        np.put_along_axis(found, order, np.arange(n_labels) < n_best[:, None], axis=1)
        better = drawn[every, draw] > prefixes[every, n_best]
        found[better] = some[every, draw][better] == 1
    return lists


def _jaccard(shared: NDArray[np.float64], union: NDArray[np.float64], empty: float) -> NDArray[np.float64]:
    index: NDArray[np.float64] = np.divide(shared, union, out=np.full(union.shape, empty), where=union > 0)
    return index


def most_frequent(draws: NDArray[Any]) -> Lists:
    """Find the set that most draws are; of equally many that whose labels are likelier by themselves.

    Parameters
    ----------
    draws : ndarray of shape (n_draws, n_rows, n_labels)
        0 and 1.

    Returns
    -------
    ndarray of bool of shape (n_rows, n_labels)

    Examples
    --------
    >>> most_frequent(np.array([[[1, 0]], [[0, 1]], [[0, 1]]])).tolist()
    [[False, True]]
    """
    n_draws, n_rows, n_labels = draws.shape
    lists = np.zeros((n_rows, n_labels), dtype=bool)
    shares = np.clip(draws.mean(axis=0), 0.5 / n_draws, 1 - 0.5 / n_draws)
    odds = np.log(shares / (1 - shares))
    for row in range(n_rows):
        sets, counts = np.unique(np.packbits(draws[:, row].astype(bool), axis=1), axis=0, return_counts=True)
        likeliest = np.unpackbits(sets[counts == counts.max()], axis=1, count=n_labels).astype(bool)
        lists[row] = likeliest[(likeliest @ odds[row]).argmax()]
    return lists


# --- along the chain rule of a law ---------------------------------------------------------------------------


def beam_search(
    step: Step, given: NDArray[np.floating[Any]], order: NDArray[np.intp], width: int = 8
) -> tuple[Lists, NDArray[np.float64]]:
    """Likely whole label sets by the chain rule in one order: of all beginnings so many are followed at each label.

    Parameters
    ----------
    step : callable
        Logits of labels given others; see :data:`Step`.
    given : ndarray of shape (n_rows, n_labels)
        Known labels, which every set has; NaN elsewhere.
    order : ndarray of int of shape (n_steps,) or (n_steps, n_rows)
        Which label is decided next, in every row or in each; known ones are passed over. Labels that are not in it
        stay unknown.
    width : int
        Sets that are followed. As many as there are sets finds the likeliest for certain.

    Returns
    -------
    sets : ndarray of bool of shape (width, n_rows, n_labels)
        The likeliest first.
    log_probs : ndarray of shape (width, n_rows)
        Their log probabilities given what is known; -inf where there are fewer sets than that.

    Examples
    --------
    Of two even labels the second is as the first, in nine cases of ten.

    >>> def step(state):
    ...     return np.stack([np.full(state.shape[:2], 0.1), (2 * state[..., 0] - 1) * np.log(9)], axis=-1)
    >>> sets, log_probs = beam_search(step, np.full((1, 2), np.nan), np.arange(2), width=2)
    >>> sets[:, 0].tolist(), np.exp(log_probs[:, 0]).round(2).tolist()
    ([[True, True], [False, False]], [0.47, 0.43])
    """
    require_count("width", width)
    n_rows = len(given)
    state = np.repeat(np.asarray(given, dtype=np.float32)[None], width, axis=0)
    log_probs = np.full((width, n_rows), -np.inf)
    log_probs[0] = 0.0
    for labels in order:
        chosen = np.broadcast_to(labels, n_rows)[:, None]
        free = np.isnan(np.take_along_axis(given, chosen, axis=1))[:, 0]
        if not free.any():
            continue
        chosen = np.broadcast_to(chosen, (width, n_rows, 1))
        odds = np.take_along_axis(np.asarray(step(state), dtype=np.float64), chosen, axis=2)[..., 0]
        both = np.concatenate([log_probs - np.logaddexp(0, odds), log_probs - np.logaddexp(0, -odds)])
        picked = np.argsort(-both, axis=0, kind="stable")[:width]
        came_from, present = picked % width, picked >= width
        kept = np.take_along_axis(state, came_from[..., None], axis=0)
        np.put_along_axis(kept, chosen, present[..., None].astype(kept.dtype), axis=2)
        state[:, free] = kept[:, free]
        log_probs[:, free] = np.take_along_axis(both, picked, axis=0)[:, free]
    return state == 1, log_probs


def chain_log_probs(
    step: Step, sets: NDArray[Any], given: NDArray[np.floating[Any]], order: NDArray[np.intp]
) -> Floats:
    """Log probabilities of whole label sets by the chain rule in one order, given known labels.

    Parameters
    ----------
    step, given, order
        As in :func:`beam_search`.
    sets : ndarray of shape (n_sets, n_rows, n_labels)
        Label sets, which have the known labels.

    Returns
    -------
    ndarray of shape (n_sets, n_rows)
    """
    state = np.repeat(np.asarray(given, dtype=np.float32)[None], len(sets), axis=0)
    total = np.zeros(sets.shape[:2])
    for label in order:
        free = np.isnan(given[:, label])
        if free.any():
            odds = np.asarray(step(state), dtype=np.float64)[..., label]
            own = sets[..., label].astype(np.float64)
            total += np.where(free, own * odds - np.logaddexp(0, odds), 0.0)
            state[..., label] = own
    return total


def _slices(n_rows: int, cells_per_row: int) -> Iterator[slice]:
    step = max(1, _CELLS // max(1, cells_per_row))
    return (slice(start, start + step) for start in range(0, n_rows, step))
