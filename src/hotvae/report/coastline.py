"""Coastlines and borders, without a network: Natural Earth's land and countries at 1:50 million, public domain.

``docs/make_coastline.py`` makes the files from their source.
"""

from functools import cache
from importlib import resources

import numpy as np
import numpy.typing as npt

from hotvae.errors import ConfigError

FloatArray = npt.NDArray[np.float64]
Bounds = tuple[float, float, float, float]

_STEPS_PER_DEGREE = 100


def land_rings(bounds: Bounds | None = None, *, tolerance: float = 0.0) -> list[FloatArray]:
    """Outlines of land as closed rings of (longitude, latitude) in degrees.

    Parameters
    ----------
    bounds : (west, south, east, north), optional
        Cut to this box; the whole world by default.
    tolerance : float
        Leave out points so long as the outline moves by at most this many degrees; rings that shrink to less
        than a triangle are left out.

    Returns
    -------
    list of ndarray of shape (n_points, 2)
        The last point repeats the first. Lakes are not cut out.

    Raises
    ------
    ConfigError
        A box without an inside.
    """
    rings = _world("coastline.npz")
    if bounds is not None:
        west, south, east, north = bounds
        if not (west < east and south < north):
            raise ConfigError(f"bounds must be (west, south, east, north) with an inside; got {bounds}.")
        near = [
            ring
            for ring in rings
            if (ring.max(axis=0) > (west, south)).all() and (ring.min(axis=0) < (east, north)).all()
        ]
        rings = [_cut(ring, (west, south, east, north)) for ring in near]
    if tolerance > 0:
        rings = [_thinned(ring, tolerance) for ring in rings]
    return [ring for ring in rings if len(ring) >= 4]


def border_lines(bounds: Bounds | None = None) -> list[FloatArray]:
    """Return lines between countries as (longitude, latitude) in degrees.

    Parameters
    ----------
    bounds : (west, south, east, north), optional
        Only lines that reach into this box, whole; all by default.

    Returns
    -------
    list of ndarray of shape (n_points, 2)
    """
    lines = _world("borders.npz")
    if bounds is None:
        return list(lines)
    west, south, east, north = bounds
    return [
        line
        for line in lines
        if (line.max(axis=0) >= (west, south)).all() and (line.min(axis=0) <= (east, north)).all()
    ]


@cache
def _world(name: str) -> list[FloatArray]:
    source = resources.files("hotvae.report") / name
    with source.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        steps, lengths = stored["steps"].astype(np.int64).T, stored["lengths"]
    edges = np.cumsum(lengths)[:-1]
    return [np.cumsum(ring, axis=0) / _STEPS_PER_DEGREE for ring in np.split(steps, edges)]


def _cut(ring: FloatArray, bounds: Bounds) -> FloatArray:
    """Cut a ring at the four sides of a box, one after the other (Sutherland and Hodgman)."""
    points = ring[:-1]
    for axis, limit, sign in ((0, bounds[0], 1), (1, bounds[1], 1), (0, bounds[2], -1), (1, bounds[3], -1)):
        if not len(points):
            break
        inside = sign * (points[:, axis] - limit) >= 0
        following = np.roll(points, -1, axis=0)
        crossing = inside != np.roll(inside, -1)
        gap = following[:, axis] - points[:, axis]
        share = np.divide(limit - points[:, axis], gap, out=np.zeros(len(points)), where=crossing)
        meeting = points + share[:, None] * (following - points)
        # Each point, if inside, then the place where the edge to the next one meets the side, if it does.
        woven = np.stack([points, meeting], axis=1).reshape(-1, 2)
        points = woven[np.stack([inside, crossing], axis=1).ravel()]
    return np.concatenate([points, points[:1]])


def _thinned(ring: FloatArray, tolerance: float) -> FloatArray:
    """Douglas and Peucker's thinning, without recursion."""
    keep = np.zeros(len(ring), dtype=bool)
    # A ring ends where it begins: halve it at the point farthest from there.
    far = int(((ring - ring[0]) ** 2).sum(axis=1).argmax()) if len(ring) else 0
    keep[[0, far, -1] if len(ring) else []] = True
    spans = [(0, far), (far, len(ring) - 1)]
    while spans:
        first, last = spans.pop()
        if last - first < 2:
            continue
        line = ring[last] - ring[first]
        inner = ring[first + 1 : last] - ring[first]
        length = float(np.hypot(*line))
        cross = np.abs(line[0] * inner[:, 1] - line[1] * inner[:, 0])
        distance = cross / length if length > 0 else np.hypot(*inner.T)
        worst = int(distance.argmax())
        if distance[worst] > tolerance:
            middle = first + 1 + worst
            keep[middle] = True
            spans += [(first, middle), (middle, last)]
    return ring[keep]
