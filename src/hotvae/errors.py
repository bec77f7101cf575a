"""Errors a user can act on, and the small grammar their messages share.

Every message reads ``<thing> must <rule>; got <value> (<where>). <what to do>``.
"""

import reprlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_at_command_line: ContextVar[bool] = ContextVar("at_command_line", default=False)
_short = reprlib.Repr()
_short.maxlevel, _short.maxlist, _short.maxtuple, _short.maxdict, _short.maxset = 3, 8, 8, 4, 8
_short.maxstring = _short.maxother = _short.maxlong = 100


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


@contextmanager
def command_line() -> Iterator[None]:
    """Make messages speak of options: whoever reads them typed a command."""
    token = _at_command_line.set(True)
    try:
        yield
    finally:
        _at_command_line.reset(token)


def either(option: str, argument: str) -> str:
    """Return what to do in the words of the face that is used: an option of the command line, or Python.

    Parameters
    ----------
    option : str
        What someone who typed a command can type.
    argument : str
        What someone who writes Python can write.

    Returns
    -------
    str

    Examples
    --------
    >>> either("--presence", "presence=True")
    'presence=True'
    >>> with command_line():
    ...     either("--presence", "presence=True")
    '--presence'
    """
    return option if _at_command_line.get() else argument


def shown(value: object) -> str:
    """Return a value as a message shows it: as Python writes it, cut where it is long.

    Examples
    --------
    >>> shown(1.5), shown([[[[1]]]]), len(shown("long" * 1000))
    ('1.5', '[[[...]]]', 100)
    """
    return _short.repr(value)
