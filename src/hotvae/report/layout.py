"""Where to draw the nodes of a network of associations: springs along the lines, and a push between all nodes."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_N_STEPS = 250
_GOLDEN_ANGLE = 2.399963


def network_layout(edges: Sequence[tuple[int, int]], effects: npt.ArrayLike, *, random_state: int = 0) -> FloatArray:
    """Place the ends of edges on a square, those with strong lines between them close together.

    Parameters
    ----------
    edges : sequence of (int, int)
        Node numbers, counted from 0 without gaps.
    effects : array-like of shape (n_edges,)
        Strength of each line; the sign does not matter.
    random_state : int
        Breaks ties.

    Returns
    -------
    ndarray of shape (n_nodes, 2)
        Between 0 and 1. Distances are a help for the eye, no measure of anything.

    Examples
    --------
    >>> places = network_layout([(0, 1), (2, 3)], [0.5, -0.5])
    >>> gap = lambda a, b: float(np.linalg.norm(places[a] - places[b]))
    >>> gap(0, 1) < min(gap(0, 2), gap(0, 3))
    True
    """
    if not len(edges):
        return np.zeros((0, 2))
    first, second = np.asarray(edges, dtype=np.intp).T
    n = int(max(first.max(), second.max())) + 1
    strength = np.sqrt(np.abs(np.nan_to_num(np.asarray(effects, dtype=np.float64))) + 0.02)
    angle = np.arange(n) * _GOLDEN_ANGLE  # an even start
    place = np.sqrt(np.arange(n) + 0.5)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]) / np.sqrt(n)
    place += np.random.default_rng(random_state).normal(0, 1e-3, place.shape)
    ideal = 2.0 / np.sqrt(n)
    for heat in np.linspace(0.15, 0.003, _N_STEPS):
        gap = place[:, None] - place[None]
        distance = np.sqrt((gap**2).sum(axis=2)) + 1e-6
        push = (gap * (ideal**2 / distance**2)[:, :, None]).sum(axis=1) - 0.9 * place
        along = place[first] - place[second]
        pull = along * (strength * np.linalg.norm(along, axis=1) / ideal)[:, None] * 2
        np.add.at(push, first, -pull)
        np.add.at(push, second, pull)
        step = np.linalg.norm(push, axis=1, keepdims=True) + 1e-9
        place += push / step * np.minimum(step, heat)
    spread = (place - place.min(axis=0)) / np.maximum(np.ptp(place, axis=0), 1e-6)
    # Half a rank: a pair that flew far away must not squeeze the rest.
    ranks = place.argsort(axis=0).argsort(axis=0) / max(n - 1, 1)
    result: FloatArray = (spread + ranks) / 2
    return result
