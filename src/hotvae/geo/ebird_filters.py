"""Which lines of eBird files count, as SQL."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from hotvae.errors import ConfigError, listed
from hotvae.geo.ebird_text import TextFile

Range = tuple[float | None, float | None]

BEST_PRACTICE = {
    "protocols": ("Stationary", "Traveling"),
    "hours": (0.0, 6.0),
    "kilometres": (0.0, 10.0),
    "observers": (1.0, 10.0),
    "speed": (0.0, 100.0),
}
"""Limits of effort that the guide to best practices with eBird data recommends (Strimas-Mackey et al. 2023)."""

DAMAGED = 250
"""Number of the reason why a line without all its fields does not count; filters are numbered from 1."""

# A species has a genus and an epithet; "Larus sp.", "Larus a/b" and "Larus a x b" are none.
IS_SPECIES = "regexp_matches(scientific, '^[A-Z][a-z]+(-[a-z]+)? [a-z]+(-[a-z]+)*$')"
"""SQL that tells a species from what is none, by its scientific name."""


@dataclass(frozen=True)
class Filters:
    """Which lines of the files count; all that are set must hold, limits included.

    Attributes
    ----------
    regions : sequence of str
        Codes of countries, states or counties, such as ``"US-NY"``.
    bounds : tuple of float, optional
        West, south, east and north, in degrees; west may be greater than east, across the date line.
    dates : tuple of str, optional
        First and last day, ``"2019-01-01"``; or of every year, ``"*-05-01"``, where the first may be the later one.
    months : sequence of int
        Months, 1 to 12.
    protocols : sequence of str
        Such as ``"Stationary"`` and ``"Traveling"``.
    complete : bool
        Only checklists that report every species that was seen. No other tells of absence.
    hours, kilometres, observers, speed : tuple, optional
        Least and greatest; None is no limit. Speed is in km/h. A checklist of which it is not known fails, except that
        stationary counts have gone 0 km.

    Examples
    --------
    >>> Filters(regions=("US-NY",), months=(5, 6), kilometres=(0, 10)).regions
    ('US-NY',)
    """

    regions: Sequence[str] = ()
    bounds: tuple[float, float, float, float] | None = None
    dates: tuple[str, str] | None = None
    months: Sequence[int] = ()
    protocols: Sequence[str] = ()
    complete: bool = True
    hours: Range | None = None
    kilometres: Range | None = None
    observers: Range | None = None
    speed: Range | None = None

    def __post_init__(self) -> None:
        for region in self.regions:
            if not re.fullmatch(r"[A-Za-z]{2}(-[A-Za-z0-9]*){0,2}", region):
                raise ConfigError(f"region must be a code such as US, US-NY or US-NY-109; got {region!r}. Correct it.")
        if self.bounds is not None:
            west, south, east, north = self.bounds
            if not (-180 <= west <= 180 and -180 <= east <= 180 and -90 <= south < north <= 90):
                raise ConfigError(
                    f"bounds must be west, south, east, north in degrees; got {tuple(self.bounds)}. Correct them."
                )
        if self.dates is not None:
            _date_condition(self.dates)
        wrong = [month for month in self.months if month not in range(1, 13)]
        if wrong:
            raise ConfigError(f"months must be from 1 to 12; got {listed(wrong)}. Correct them.")
        for name in ("hours", "kilometres", "observers", "speed"):
            limits = getattr(self, name)
            if limits is not None and None not in limits and limits[0] > limits[1]:
                raise ConfigError(f"{name} must be from least to greatest; got {limits}. Turn them round.")

    def conditions(self) -> dict[str, str]:
        """Return what each filter demands of a line: a name for the audit, and SQL of the fields' names."""
        found: dict[str, str] = {"has coordinates": "abs(latitude) <= 90 AND abs(longitude) <= 180"}
        if self.regions:
            codes = ", ".join(quoted(region.upper().rstrip("-")) for region in self.regions)
            places = " OR ".join(f"rtrim(upper({field}), '-') IN ({codes})" for field in ("country", "state", "county"))
            found[f"region {', '.join(self.regions)}"] = places
        if self.bounds is not None:
            west, south, east, north = (float(edge) for edge in self.bounds)
            between = "AND" if west <= east else "OR"
            found[f"within {west:g}, {south:g}, {east:g}, {north:g}"] = (
                f"latitude BETWEEN {south!r} AND {north!r} AND (longitude >= {west!r} {between} longitude <= {east!r})"
            )
        if self.dates is not None:
            found[f"dates {self.dates[0]} to {self.dates[1]}"] = _date_condition(self.dates)
        if self.months:
            months = ", ".join(str(int(month)) for month in self.months)
            found[f"months {months}"] = f"month(day) IN ({months})"
        if self.protocols:
            names = ", ".join(quoted(name.lower()) for name in self.protocols)
            found[f"protocol {', '.join(self.protocols)}"] = f"lower(protocol) IN ({names})"
        if self.complete:
            found["complete checklist"] = "complete"
        for what, field, limits, unit in (
            ("duration", "minutes / 60", self.hours, " h"),
            ("distance", "kilometres", self.kilometres, " km"),
            ("observers", "observers", self.observers, ""),
            ("speed", "kilometres * 60 / minutes", self.speed, " km/h"),
        ):
            if limits is not None:
                least, greatest = limits
                # Room for the last digit: 66 minutes are 1.1 hours.
                parts = [] if least is None else [f"{field} >= {least - 1e-9!r}"]
                parts += [] if greatest is None else [f"{field} <= {greatest + 1e-9!r}"]
                shown = f"{'' if least is None else f'{least:g}'} to {'' if greatest is None else f'{greatest:g}'}"
                found[f"{what} {shown}{unit}"] = " AND ".join(parts) or f"{field} IS NOT NULL"
        return found


def _date_condition(dates: tuple[str, str]) -> str:
    """Return SQL that holds from the first to the last day, of one span or of every year."""
    every_year = [day.startswith("*-") for day in dates]
    try:
        first, last = (date.fromisoformat(day.replace("*", "2000")) for day in dates)
        if every_year[0] != every_year[1] or (first > last and not all(every_year)):
            raise ValueError
    except ValueError:
        raise ConfigError(
            f"dates must be a first and a last day, such as 2019-01-01 and 2023-12-31, or *-05-01 and *-07-31 of every "
            f"year; got {listed(dates)}. Correct them."
        ) from None
    if not all(every_year):
        return f"day BETWEEN DATE '{first}' AND DATE '{last}'"
    low, high = (day.month * 100 + day.day for day in (first, last))
    between = "AND" if low <= high else "OR"
    number = "month(day) * 100 + day(day)"
    return f"({number} >= {low} {between} {number} <= {high})"


def line_query(file: TextFile, conditions: Sequence[str], is_ebd: bool) -> str:
    """Return SQL that reads lines from ``@path`` and numbers each by the first filter it fails, 0 for none."""
    width = len(file.columns)

    def text(field: str) -> str:
        at = file.find(field)
        return "NULL::VARCHAR" if at is None else f"nullif(c{at}, '')"

    def number(field: str) -> str:
        return f"TRY_CAST({text(field)} AS DOUBLE)"

    whole = f"TRY_CAST({text('count')} AS BIGINT)"
    stood = f"lower({text('protocol')}) LIKE '%stationary%'"

    typed = {
        "event": text("event"),
        "group_id": text("group"),
        "country": text("country"),
        "state": text("state"),
        "county": text("county"),
        "locality": text("locality"),
        "latitude": number("latitude"),
        "longitude": number("longitude"),
        "day": f"TRY_CAST({text('date')} AS DATE)",
        "time": f"date_part('epoch', TRY_CAST({text('time')} AS TIME)) / 3600",
        "protocol": text("protocol"),
        "minutes": number("minutes"),
        "kilometres": f"CASE WHEN {stood} THEN coalesce({number('kilometres')}, 0) ELSE {number('kilometres')} END",
        "observers": number("observers"),
        "complete": f"upper({text('complete')}) IN ('1', 'TRUE')",
        # Padding is NULL, a field that is there and empty is not.
        "damaged": f"c{width - 1} IS NULL OR coalesce(c{width}, '') <> '' OR {text('event')} IS NULL",
    }
    if is_ebd:
        is_odd = f"{whole} IS NULL AND upper({text('count')}) <> 'X' OR {whole} < 0 OR contains({text('count')}, '.')"
        typed |= {"scientific": f"coalesce({text('scientific')}, '')", "common": text("common"), "amount": whole}
        typed["odd"] = f"CASE WHEN {is_odd} THEN {text('count')} END"
        kept = ["event", "group_id", "scientific", "common", "amount", "odd"]
    else:
        kept = ["event", "group_id", "locality", "latitude", "longitude", "day", "time", "protocol", "minutes"]
        kept += ["kilometres", "observers"]
    cases = [f"WHEN damaged THEN {DAMAGED}"]
    cases += [f"WHEN ({condition}) IS NOT TRUE THEN {i}" for i, condition in enumerate(conditions, start=1)]
    columns = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(width + 1))
    # What failed is only counted; without its values it takes no room.
    values = ", ".join(f"CASE WHEN reason = 0 THEN {name} END AS {name}" for name in kept)
    return f"""
        SELECT reason, {values} FROM (
            SELECT *, (CASE {" ".join(cases)} ELSE 0 END)::UTINYINT AS reason FROM (
                SELECT {", ".join(f"{sql} AS {name}" for name, sql in typed.items())}
                FROM read_csv(@path, columns = {{{columns}}}, delim = '\t', quote = '', escape = '', header = false,
                              auto_detect = false, null_padding = true, nullstr = '\x01')))
        """


def quoted(text: str) -> str:
    """Return text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"
