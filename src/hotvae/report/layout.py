"""Layout of a network of associations: labels with strong lines between them stand close together."""

from collections.abc import Sequence

import networkx
import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def network_layout(edges: Sequence[tuple[int, int]], effects: npt.ArrayLike, *, random_state: int = 0) -> FloatArray:
    """Place the ends of edges on a square, those with strong lines between them close together.

    Parameters
    ----------
    edges : sequence of (int, int)
        Node numbers, counted from 0 without gaps.
    effects : array-like of shape (n_edges,)
        Strength of each line; the sign does not matter.
    random_state : int
        Decides where nodes start.

    Returns
    -------
    ndarray of shape (n_nodes, 2)
        Between 0 and 1. Distances are a help for the eye, no measure of anything.
    """
    if not len(edges):
        return np.zeros((0, 2))
    graph = networkx.Graph()
    graph.add_nodes_from(range(int(np.max(edges)) + 1))
    strengths = np.sqrt(np.abs(np.nan_to_num(np.asarray(effects, dtype=np.float64))) + 0.02)
    graph.add_weighted_edges_from((*edge, strength) for edge, strength in zip(edges, strengths.tolist(), strict=True))
    # Unlike the method of forces, that of energy has gravity: pairs that have no line to the rest do not fly away.
    place = np.array(list(networkx.spring_layout(graph, method="energy", seed=random_state).values()))
    spread = (place - place.min(axis=0)) / np.maximum(np.ptp(place, axis=0), 1e-6)
    # Half a rank: a few labels far off must not squeeze the rest.
    ranks = place.argsort(axis=0).argsort(axis=0) / (len(place) - 1)
    result: FloatArray = (spread + ranks) / 2
    return result
