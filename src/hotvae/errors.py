"""Errors a user can act on, and the small grammar their messages share.

Every message reads ``<thing> must <rule>; got <value> (<where>). <what to do>``.
"""

from collections.abc import Iterable


class HotVAEError(Exception):
    """Any mistake hotvae can explain; the command line prints it and exits with code 2."""


class DataError(HotVAEError, ValueError):
    """A table, column, row or file does not fit."""


class ConfigError(HotVAEError, ValueError):
    """A parameter or setting does not fit."""


class ModelError(HotVAEError, ValueError):
    """A model folder is damaged, foreign, or written by a newer version."""


class TrainingError(HotVAEError, RuntimeError):
    """Training cannot go on; the best model so far is kept."""


class DataWarning(UserWarning):
    """Data that can be used, but that deserves a second look."""


def listed(items: Iterable[object], limit: int = 5) -> str:
    """Join items for a message, at most ``limit`` of them.

    Parameters
    ----------
    items : iterable
        What to name; strings are quoted.
    limit : int
        How many to show before ``+N more``.

    Returns
    -------
    str
        The shown items, separated by commas.

    Examples
    --------
    >>> listed([14, 90, 91], limit=2)
    '14, 90, +1 more'
    >>> listed(["Turdus merula"])
    "'Turdus merula'"
    """
    everything = [repr(item) if isinstance(item, str) else str(item) for item in items]
    shown = everything[:limit]
    if len(everything) > limit:
        shown.append(f"+{len(everything) - limit} more")
    return ", ".join(shown)
