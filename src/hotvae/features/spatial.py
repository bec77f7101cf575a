"""Where a site is, as a network can use it: nearness to places spread over the training sites."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from hotvae.data.places import on_sphere, to_degrees
from hotvae.errors import ModelError

# Bumps of this width, counted in distances between neighbouring places, overlap enough to draw a smooth map and little
# enough to follow a coast (ADR 0014).
_WIDTH = 1.5


def bumps(distances: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    """Turn distances into nearness: 1 at the centre of a bell of that width, 0 far away.

    Parameters
    ----------
    distances : ndarray
        At least 0.
    width : float
        Distance at which the bell is at exp(-1/2).

    Returns
    -------
    ndarray
        Of the same shape.
    """
    with np.errstate(over="ignore"):  # that many widths away the nearness is 0
        nearness: NDArray[np.float64] = np.exp(-((distances / width) ** 2) / 2)
    return nearness


class SpatialUnits:
    r"""Smooth bumps over the map: one number for each place, largest beside it and 0 far away.

    Two coordinates tell a perceptron little about what changes from valley to valley, and where it extrapolates it goes
    on along a straight line. With places :math:`c_k`, the centres of clusters of training sites, the unit

    .. math:: u_k(s) = \frac{1}{\sigma_k} \exp\left(-\frac{|s - c_k|^2}{2 w^2}\right)

    lets it learn a map; :math:`w` is 1.5 times the median distance from a place to the nearest other one, and
    :math:`\sigma_k` the deviation of the bump among training sites, so that a unit weighs as much as any scaled column.
    Far from every training site all units are 0, and what the other features say is left.

    Distances are Euclidean in the unit of the coordinates, so both must have the same one; those of degrees are taken
    through the Earth, in kilometres.

    Parameters
    ----------
    n_units : int
        Number of places; sites at fewer than that have one for each.
    degrees : bool
        Sites are longitude and latitude: the east of the date line is beside its west, and a degree of longitude is
        shorter the nearer the pole.

    Attributes
    ----------
    centres : ndarray of shape (n_units, 2)
        The places.
    width : float
        Width of the bumps; in kilometres for degrees.
    scale : ndarray of shape (n_units,)
        Deviation of each bump among training sites.

    Examples
    --------
    >>> sites = np.array([[0.0, 0.0], [0.0, 2.0], [9.0, 0.0], [9.0, 2.0]])
    >>> units = SpatialUnits(2).fit(sites)
    >>> units.centres.tolist(), units.width
    ([[0.0, 1.0], [9.0, 1.0]], 13.5)
    >>> (units.transform(np.array([[0.0, 1.0], [900.0, 1.0]])) * units.scale).round(2)
    array([[1. , 0.8],
           [0. , 0. ]])
    """

    def __init__(self, n_units: int, *, degrees: bool = False) -> None:
        self.n_units = n_units
        self.degrees = degrees
        self.centres: NDArray[np.float64] = np.empty((0, 2))
        self.width = 1.0
        self.scale: NDArray[np.float64] = np.empty(0)

    def fit(self, sites: NDArray[np.float64]) -> SpatialUnits:
        """Spread the places over training sites, of shape (n_samples, 2) without missing values; return itself."""
        points = self._points(sites)
        # A pole has many longitudes, and the date line two: what is a millimetre apart is one place.
        n_places = min(self.n_units, len(np.unique(points.round(6) if self.degrees else points, axis=0)))
        middle = points.mean(axis=0)  # clusters of large numbers that differ little would be rounded away
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = KMeans(n_places, n_init=1, random_state=0).fit(points - middle).cluster_centers_
        if self.degrees:
            found, middle = to_degrees(found + middle), np.zeros(2)  # a cluster's mean is below the ground
        # In the order of the map, not of a random start.
        self.centres = (found[np.lexsort(found.T[::-1])] + middle).astype(np.float64)
        apart = cdist(self._points(self.centres), self._points(self.centres))
        np.fill_diagonal(apart, np.inf)
        spacing = float(np.median(apart.min(axis=1)))
        # A single place, or places that rounding cannot tell apart, have no spacing: any width does.
        self.width = _WIDTH * spacing if 0 < spacing < np.inf else 1.0
        self.scale = np.ones(n_places)
        spread = self.transform(sites).std(axis=0)
        self.scale = np.where(spread > 0, spread, 1.0)
        return self

    def transform(self, sites: NDArray[np.float64]) -> NDArray[np.float64]:
        """Nearness of sites to the places, at least 0, of shape (n_samples, n_units)."""
        distances = cdist(self._points(sites), self._points(self.centres))
        nearness: NDArray[np.float64] = bumps(distances, self.width) / self.scale
        return nearness

    def _points(self, sites: NDArray[np.float64]) -> NDArray[np.float64]:
        """Where distances are taken: on the map, or in space."""
        return on_sphere(sites) if self.degrees else sites

    def names(self) -> tuple[str, ...]:
        """Names of the units."""
        return tuple(f"near ({x:.6g}, {y:.6g})" for x, y in self.centres)

    def state(self) -> dict[str, Any]:
        """Return what was learned, ready for JSON."""
        return {
            "degrees": self.degrees,
            "centres": self.centres.tolist(),
            "width": self.width,
            "scale": self.scale.tolist(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> SpatialUnits:
        """Take back what :meth:`state` returned.

        Raises
        ------
        ModelError
            Anything else.
        """
        try:
            centres, scale = (np.array(state[name], dtype=np.float64) for name in ("centres", "scale"))
            width = float(state["width"])
            degrees = bool(state.get("degrees", False))  # models of before knew none
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"spatial units must be complete; got {error!r}. Save the model anew.") from error
        if centres.ndim != 2 or centres.shape[1] != 2 or scale.shape != centres.shape[:1] or not width > 0:
            raise ModelError(
                f"spatial units must have two coordinates and a scale for each place, and a width above 0; got shapes "
                f"{centres.shape} and {scale.shape}, and width {width}. Save the model anew."
            )
        units = cls(len(centres), degrees=degrees)
        units.centres, units.width, units.scale = centres, width, scale
        return units
