"""What a checklist says beside its birds: where, when, and how hard someone looked."""

from datetime import date

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hotvae.geo.solar import clock_offset, hours_from_solar_noon, time_zones

CHECKLIST_COLUMNS = (
    "checklist_id",
    "locality_id",
    "longitude",
    "latitude",
    "year",
    "day_sin",
    "day_cos",
    "hours_from_solar_noon",
    "duration_hours",
    "distance_km",
    "speed_kmh",
    "observers",
    "protocol",
)
"""Columns of a prepared table before those of the species."""


class Clocks:
    """Offsets of local clocks, each looked up once."""

    def __init__(self) -> None:
        self.zones: dict[int, str] = {}
        self.offsets: dict[tuple[str, date], float] = {}

    def offset(
        self, longitude: NDArray[np.float64], latitude: NDArray[np.float64], days: NDArray[np.datetime64]
    ) -> NDArray[np.float64]:
        """Return hours ahead of UTC, NaN for a day that is not known; places are told apart by about a kilometre."""
        # Whole numbers in place of pairs: there are millions of rows, some places, and few zones.
        hundredths = np.rint(longitude * 100).astype(np.int64) << 32 | np.rint(latitude * 100).astype(np.int64) + 9000
        place, places = pd.factorize(hundredths)
        new = [key for key in places.tolist() if key not in self.zones]
        if new:
            where = [((key >> 32) / 100, ((key & 0xFFFFFFFF) - 9000) / 100) for key in new]
            self.zones |= dict(zip(new, time_zones(*zip(*where, strict=True)), strict=True))
        zone, zones = pd.factorize(np.array([self.zones[key] for key in places.tolist()], dtype=object))
        found, known = np.full(len(place), np.nan), ~np.isnat(days)
        numbers = days[known].astype("datetime64[D]").astype(np.int64)
        case, cases = pd.factorize(zone[place[known]].astype(np.int64) << 32 | numbers + 2**31)
        offsets = np.empty(len(cases))
        for i, number in enumerate(cases.tolist()):
            day: date = np.datetime64((number & 0xFFFFFFFF) - 2**31, "D").item()
            key = str(zones[number >> 32]), day
            if key not in self.offsets:
                self.offsets[key] = clock_offset(*key)
            offsets[i] = self.offsets[key]
        found[known] = offsets[case]
        return found


def effort_columns(rows: pd.DataFrame, clocks: Clocks) -> pd.DataFrame:
    """Return the columns of :data:`CHECKLIST_COLUMNS`.

    Parameters
    ----------
    rows : DataFrame
        ``checklist_id``, ``locality``, ``longitude``, ``latitude``, ``day``, ``time`` (hours), ``minutes``,
        ``kilometres``, ``observers`` and ``protocol``.
    clocks : Clocks
        Remembers time zones from one part of a table to the next.

    Returns
    -------
    DataFrame
        Missing where something is not known.
    """
    when = pd.to_datetime(rows["day"])
    day_of_year = when.dt.day_of_year.to_numpy(dtype=np.float64, na_value=np.nan)
    length = np.where(when.dt.is_leap_year, 366.0, 365.0)
    angle = 2 * np.pi * (day_of_year - 1) / length
    minutes = rows["minutes"].to_numpy(dtype=np.float64, na_value=np.nan)
    kilometres = rows["kilometres"].to_numpy(dtype=np.float64, na_value=np.nan)
    longitude, latitude = (rows[name].to_numpy(dtype=np.float64) for name in ("longitude", "latitude"))
    days = when.to_numpy("datetime64[D]")
    # The middle of the count, where it is known how long it took.
    clock = rows["time"].to_numpy(dtype=np.float64, na_value=np.nan) + np.nan_to_num(minutes) / 120
    noon = hours_from_solar_noon(clock, longitude, day_of_year, clocks.offset(longitude, latitude, days))
    with np.errstate(divide="ignore", invalid="ignore"):
        speed = np.where(minutes > 0, kilometres * 60 / minutes, np.nan)
    return pd.DataFrame(
        {
            "checklist_id": rows["checklist_id"],
            "locality_id": rows["locality"],
            "longitude": longitude,
            "latitude": latitude,
            "year": when.dt.year.to_numpy(dtype=np.float64, na_value=np.nan),
            "day_sin": np.sin(angle),
            "day_cos": np.cos(angle),
            "hours_from_solar_noon": noon,
            "duration_hours": minutes / 60,
            "distance_km": kilometres,
            "speed_kmh": speed,
            "observers": rows["observers"].to_numpy(dtype=np.float64, na_value=np.nan),
            "protocol": rows["protocol"],
        }
    )
