"""Where the sun stands when someone counts birds: hours from solar noon, from clock time and place."""

from collections.abc import Iterable
from datetime import date, datetime
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotvae.geo.extras import geo_module


def time_zones(longitude: Iterable[float], latitude: Iterable[float]) -> list[str]:
    """Return the name of the time zone of each place, on land or at sea.

    Examples
    --------
    >>> time_zones([103.8, -122.3], [1.35, 47.6])
    ['Asia/Singapore', 'America/Los_Angeles']
    """
    find = geo_module("tzfpy", "find time zones").get_tz
    return [find(x, y) for x, y in zip(longitude, latitude, strict=True)]


def clock_offset(zone: str, day: date) -> float:
    """Return how many hours the clocks of a zone are ahead of UTC at noon of a day, summer time included.

    Examples
    --------
    >>> clock_offset("America/Los_Angeles", date(2012, 7, 1)), clock_offset("America/Los_Angeles", date(2012, 1, 1))
    (-7.0, -8.0)
    """
    ahead = datetime(day.year, day.month, day.day, 12, tzinfo=ZoneInfo(zone)).utcoffset()
    return 0.0 if ahead is None else ahead.total_seconds() / 3600


def equation_of_time(day_of_year: ArrayLike) -> NDArray[np.float64]:
    """Return by how many minutes a sundial is ahead of an even clock on a day of the year (1 to 366).

    The series of the NOAA solar calculator, right to about half a minute.

    Examples
    --------
    >>> equation_of_time([42, 307]).round(1).tolist()  # its extremes: 11 February and 3 November
    [-14.2, 16.4]
    """
    angle = 2 * np.pi / 365 * (np.asarray(day_of_year, dtype=np.float64) - 1)
    sum_ = (
        0.000075
        + 0.001868 * np.cos(angle)
        - 0.032077 * np.sin(angle)
        - 0.014615 * np.cos(2 * angle)
        - 0.040849 * np.sin(2 * angle)
    )
    return np.asarray(229.18 * sum_, dtype=np.float64)


def hours_from_solar_noon(
    clock: ArrayLike, longitude: ArrayLike, day_of_year: ArrayLike, offset: ArrayLike
) -> NDArray[np.float64]:
    """Return hours before (below 0) or after the sun stands highest.

    Parameters
    ----------
    clock : array
        Local clock time, in hours; NaN where it is not known.
    longitude : array
        In degrees, east is positive.
    day_of_year : array
        From 1.
    offset : array
        Hours that local clocks are ahead of UTC.

    Returns
    -------
    ndarray
        From -12 up to, not including, 12.

    Examples
    --------
    >>> hours_from_solar_noon(12.0, 0.0, 106, 0.0).round(2).item()  # Greenwich in mid April
    0.0
    """
    noon = 12 - np.asarray(longitude) / 15 - equation_of_time(day_of_year) / 60 + np.asarray(offset)
    return np.asarray((np.asarray(clock, dtype=np.float64) - noon + 12) % 24 - 12, dtype=np.float64)
