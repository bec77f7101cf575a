"""Checks of parameters that no configuration of the house covers; each message names the parameter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

from hotvae.errors import ConfigError, listed


def require_count(name: str, value: Any, least: int = 1) -> int:
    """Return a whole number of at least ``least``.

    Examples
    --------
    >>> require_count("rank", 0)
    Traceback (most recent call last):
    ...
    hotvae.errors.ConfigError: rank must be a whole number of at least 1; got 0. Choose an allowed value.
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name} must be a whole number of at least {least}; got {value!r}. Choose an allowed value.")
    return int(value)


def require_number(name: str, value: Any, least: float = 0.0, above: bool = False) -> float:
    """Return a finite number of at least, or above, ``least``.

    Examples
    --------
    >>> require_number("ranking_weight", -1.0)
    Traceback (most recent call last):
    ...
    hotvae.errors.ConfigError: ranking_weight must be a number of at least 0; got -1.0. Choose an allowed value.
    """
    number = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if not number or value < least or (above and value == least):
        rule = "above" if above else "of at least"
        raise ConfigError(f"{name} must be a number {rule} {least:g}; got {value!r}. Choose an allowed value.")
    return float(value)


def require_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return one of the choices.

    Examples
    --------
    >>> require_choice("mean", "cubic", ("linear", "mlp"))
    Traceback (most recent call last):
    ...
    hotvae.errors.ConfigError: mean must be one of 'linear', 'mlp'; got 'cubic'. Choose an allowed value.
    """
    if not isinstance(value, str) or value not in choices:
        raise ConfigError(f"{name} must be one of {listed(choices)}; got {value!r}. Choose an allowed value.")
    return value


def require_widths(name: str, value: Any) -> tuple[int, ...]:
    """Return hidden widths; none is allowed.

    Examples
    --------
    >>> require_widths("decoder_widths", (0,))
    Traceback (most recent call last):
    ...
    hotvae.errors.ConfigError: decoder_widths must be a tuple of positive whole numbers; got (0,). Choose ...
    """
    whole = isinstance(value, tuple | list) and all(isinstance(w, Integral) and int(w) > 0 for w in value)
    if not whole:
        raise ConfigError(f"{name} must be a tuple of positive whole numbers; got {value!r}. Choose an allowed value.")
    return tuple(int(width) for width in value)
