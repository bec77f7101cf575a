"""Errors a user can act on, and the small grammar their messages share.

Every message reads ``<thing> must <rule>; got <value> (<where>). <what to do>``, in the words of whoever asked: an
option is named by :func:`option`, which knows who that is (:func:`speaking`).
"""

import json
import reprlib
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import date, time
from typing import Any, Literal

Face = Literal["python", "command line", "service"]

_face: ContextVar[Face] = ContextVar("face", default="python")

# Options that the command line calls otherwise, and those that the body of a request to the service has.
_ON_COMMAND_LINE = {"objective": "list", "metric": "binary"}
_IN_REQUESTS = frozenset({"empty", "given", "ignore_unknown", "n_draws", "objective", "rows", "seed"})


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
def speaking(face: Face) -> Iterator[None]:
    """Word messages for the users of a face inside the block, in this thread and the tasks it starts."""
    before = _face.set(face)
    try:
        yield
    finally:
        _face.reset(before)


_hushed: ContextVar[bool] = ContextVar("hushed", default=False)


@contextmanager
def hushed() -> Iterator[None]:
    """Leave out what :func:`warn_of_data` says inside the block, in this thread; filters would belong to all of them.

    Examples
    --------
    >>> with hushed():
    ...     warn_of_data("rows should be like those of training")
    """
    before = _hushed.set(True)
    try:
        yield
    finally:
        _hushed.reset(before)


def warn_of_data(sentence: str, stacklevel: int = 2) -> None:
    """Warn of data that deserve a second look, unless someone has said that it was told already."""
    if not _hushed.get():
        warnings.warn(sentence, DataWarning, stacklevel=stacklevel + 1)


def option(name: str, value: Any = None, sentence: str = "{}") -> str:
    """Name an option as the one who asked would set it.

    Parameters
    ----------
    name : str
        Its name in Python.
    value : optional
        What to set it to; None names the option alone.
    sentence : str
        What to say of it, with ``{}`` in its place.

    Returns
    -------
    str
        The sentence; empty for a face that does not have the option.

    Examples
    --------
    >>> option("ignore_unknown", True)
    'ignore_unknown=True'
    >>> with speaking("command line"):
    ...     option("ignore_unknown", True), option("id_column", "NAME", " Pass {}.")
    ('--ignore-unknown', ' Pass --id-column NAME.')
    >>> with speaking("service"):
    ...     option("ignore_unknown", True), option("id_column", "NAME", " Pass {}.")
    ('"ignore_unknown": true', '')
    """
    face = _face.get()
    if face == "service":
        if name not in _IN_REQUESTS:
            return ""
        spelled = f'"{name}"' if value is None else f'"{name}": {json.dumps(value)}'
    elif face == "command line":
        flag = f"--{_ON_COMMAND_LINE.get(name, name).replace('_', '-')}"
        spelled = flag if value is None or value is True else f"{flag} {value}"
    else:
        spelled = name if value is None else f"{name}={value!r}"
    return sentence.format(spelled)


def by_face(python: str, command_line: str = "", service: str = "") -> str:
    """Return the words for the users of the face that was used.

    Examples
    --------
    >>> by_face("Pass one.", "Type one.")
    'Pass one.'
    >>> with speaking("command line"):
    ...     by_face("Pass one.", "Type one.")
    'Type one.'
    """
    return {"command line": command_line, "service": service}.get(str(_face.get()), python)


def shown(value: object) -> str:
    """Return a value as a message shows it: as Python writes it, cut where it is long; dates as settings have them.

    Examples
    --------
    >>> shown(1.5), shown([[[[1]]]]), len(shown("long" * 1000)), shown(date(2020, 1, 31))
    ('1.5', '[[[...]]]', 100, '2020-01-31')
    """
    if isinstance(value, date | time):
        return value.isoformat()
    return _short.repr(value)
