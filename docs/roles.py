"""Docstrings are written for plain reading; the site shows their roles as code instead of markup."""

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|mod|data|attr|exc|obj):`(~?)([^`]+)`")
_MATH = re.compile(r":math:`([^`]+)`")


def plain(text: str) -> str:
    """Turn roles into code.

    Examples
    --------
    >>> plain("see :func:`~hotvae.evaluate` and :math:`x_i`")
    'see `evaluate` and `x_i`'
    """
    text = _ROLE.sub(lambda found: f"`{found[2].rpartition('.')[2] if found[1] else found[2]}`", text)
    return _MATH.sub(r"`\1`", text)


class PlainRoles(griffe.Extension):
    """Rewrites every docstring that is read."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Take a class, function or module."""
        if obj.docstring:
            obj.docstring.value = plain(obj.docstring.value)
