"""The community explorer: one HTML file that holds a law, a grid of places and the page that asks it.

All numbers travel in one block of bytes (:func:`pack`): arrays one after the other, squeezed, as text. Its index says
where each array is and how its whole numbers become values. The page's scripts are plain files beside the template.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

Precision = Literal["int16", "float32"]

# Largest whole number of a stored value; the one below it stands for NaN.
_MOST, _MISSING = 32767, -32768
# Characters of a piece of the block: a browser that reads one long text stands still meanwhile.
_PIECE = 250_000
# Steps that are fine enough for an array: a logit that is off by half of this moves a probability by 0.0005 at most,
# and numbers in whole steps squeeze by a third.
_FINE_ENOUGH = {"logits": 1 / 256}


@dataclass
class ExplorerContent:
    """What the explorer shows.

    Attributes
    ----------
    title, subtitle : str
        Heading of the page, and what stands below it.
    facts : dict
        Names, ranges, texts and settings, ready for JSON; see :mod:`hotvae.jobs.explore`.
    arrays : dict of str to ndarray
        Numbers; those of floating point are stored by ``precision``, all others as they are.
    precision : {"int16", "float32"}
        Whole numbers of 16 bits with a step for each column, or numbers as the model has them.
    """

    template: ClassVar[str] = "explorer/page.html"
    scripts: ClassVar[Sequence[str]] = (  # later ones use earlier ones
        *("colours", "map", "engine", "panels"),
        *("place", "saw", "together", "what", "take", "app"),
    )

    title: str
    subtitle: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    precision: Precision = "int16"

    def packed(self) -> dict[str, Any]:
        """Return the facts with the index of the numbers, and the numbers as pieces of text."""
        index, block = pack(self.arrays, self.precision)
        pieces = [block[start : start + _PIECE] for start in range(0, len(block), _PIECE)]
        return {"facts": self.facts | {"arrays": index, "precision": self.precision}, "pieces": pieces}

    def text(self) -> dict[str, str]:
        """Return all that the page says, by key; one file, so that it can be translated."""
        from importlib import resources

        source = resources.files("hotvae.report") / "templates" / "explorer" / "text.json"
        words: dict[str, str] = json.loads(source.read_text(encoding="utf-8"))
        return words


def pack(arrays: Mapping[str, NDArray[Any]], precision: Precision) -> tuple[list[dict[str, Any]], str]:
    """Put arrays into one block of text.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        Of floating point, or of whole numbers, which stay as they are.
    precision : {"int16", "float32"}
        How numbers of floating point are stored.

    Returns
    -------
    index : list of dict
        ``name``, ``type``, ``shape``, ``start`` (byte); for ``int16`` from floating point also ``step`` and ``middle``
        by column: a value is ``middle + step * number``, and -32768 is no value. Where neighbours are alike, as places
        of a map are, ``changes`` is true: a number then says how much is added to the one of the row before (0, -1, 1,
        -2, 2 ... are 0, 1, 2, 3, 4 ...; sums are taken modulo 2¹⁶).
    block : str
        All bytes, squeezed (zlib) and in base64. Numbers of two bytes are laid out as all low bytes, then all high
        ones, which squeezes better.

    Examples
    --------
    >>> index, block = pack({"logits": np.array([[0.5, -2.0]])}, "int16")
    >>> index[0]["type"], index[0]["shape"]
    ('int16', [1, 2])
    """
    index, parts, start = [], [], 0
    for name, array in arrays.items():
        entry: dict[str, Any] = {"name": name, "shape": list(array.shape), "start": start}
        values = np.ascontiguousarray(array)
        if np.issubdtype(values.dtype, np.floating):
            if precision == "float32":
                values = values.astype("<f4")
            else:
                values, step, middle = _stepped(values, _FINE_ENOUGH.get(name, 0.0))
                entry |= {"step": step.tolist(), "middle": middle.tolist()}
                changes = _changes(values)
                if np.abs(changes.astype(np.float64)).sum() < np.abs(values.astype(np.float64)).sum() / 2:
                    entry["changes"] = True
                    values = _folded(changes)
        entry["type"] = values.dtype.name
        raw = values.astype(values.dtype.newbyteorder("<")).tobytes()
        if values.dtype.itemsize == 2:
            pairs = np.frombuffer(raw, np.uint8).reshape(-1, 2)
            raw = pairs[:, 0].tobytes() + pairs[:, 1].tobytes()
        padded = raw + b"\0" * (-len(raw) % 8)
        index.append(entry)
        parts.append(padded)
        start += len(padded)
    return index, base64.b64encode(zlib.compress(b"".join(parts), 6)).decode("ascii")


def _changes(whole: NDArray[np.int16]) -> NDArray[np.int16]:
    """Each row less the one before it, modulo 2¹⁶."""
    changes = whole.copy()
    changes[1:] -= whole[:-1]
    return changes


def _folded(numbers: NDArray[np.int16]) -> NDArray[np.int16]:
    """0, -1, 1, -2, 2 ... as 0, 1, 2, 3, 4 ...: a small number has a high byte of 0, whatever its sign."""
    return (numbers << 1) ^ (numbers >> 15)


def _stepped(
    values: NDArray[Any], least: float = 0.0
) -> tuple[NDArray[np.int16], NDArray[np.float64], NDArray[np.float64]]:
    """Whole numbers for values, column by column of the last axis, and how they become values again."""
    table = values.astype(np.float64).reshape(-1, values.shape[-1] if values.ndim > 1 else 1)
    known = np.isfinite(table)
    low = np.where(known, table, np.inf).min(axis=0, initial=np.inf)
    high = np.where(known, table, -np.inf).max(axis=0, initial=-np.inf)
    low, high = np.where(low <= high, low, 0.0), np.where(low <= high, high, 0.0)
    middle, step = (low + high) / 2, np.maximum(np.maximum(high - low, 1e-12) / (2 * _MOST), least)
    whole = np.where(known, np.rint((table - middle) / step), _MISSING)
    return whole.reshape(values.shape).astype(np.int16), step, middle
