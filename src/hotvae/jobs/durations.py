"""Lengths of time, as a person writes and reads them."""

import math
import re

from hotvae.errors import ConfigError

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(text: str | float, name: str = "duration") -> float:
    """Read a length of time.

    Parameters
    ----------
    text : str or float
        Such as ``"2h"``, ``"1h30m"``, ``"45s"`` or a number of seconds.
    name : str
        What it is for, in messages.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    ConfigError
        Anything else, or nothing.

    Examples
    --------
    >>> parse_duration("1h30m"), parse_duration("45")
    (5400.0, 45.0)
    """
    told = str(text).strip().lower()
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([smhd])", told)
    if parts and re.fullmatch(r"(?:\d+(?:\.\d+)?\s*[smhd]\s*)+", told):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    else:
        try:
            seconds = float(told)
        except ValueError:
            seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        raise ConfigError(f"{name} must be a length of time such as 2h, 1h30m or 45s; got {text!r}. Write it so.")
    return seconds


def duration_words(seconds: float) -> str:
    """Say a length of time in few words.

    Examples
    --------
    >>> [duration_words(seconds) for seconds in (4.2, 95, 7260)]
    ['4 s', '1 min 35 s', '2 h 1 min']
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
