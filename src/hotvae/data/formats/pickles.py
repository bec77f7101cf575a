"""Pickled arrays, read without running anything else a pickle may hold.

A pickle is a program: it may name any function of any module and call it. The only names answered here are the three
that numpy writes to rebuild an array, and classes of our own stand for them, which check what they are given and hand
numpy nothing but a shape, a number type and bytes. Any other name is refused before it is looked up.
"""

import math
import pickle
from bz2 import BZ2File
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from hotvae.errors import DataError


def read_pickled_arrays(file: BinaryIO | BZ2File, keys: tuple[str, ...], where: str) -> dict[str, NDArray[Any]]:
    r"""Read a pickled dictionary of numeric arrays.

    Parameters
    ----------
    file : binary file
        The pickle; may have been written by Python 2.
    keys : tuple of str
        The keys it must have, and no others.
    where : str
        What to call the file in messages.

    Returns
    -------
    dict of str to ndarray
        The arrays; read-only.

    Raises
    ------
    DataError
        A pickle that names anything but numpy arrays, is damaged, or holds something else.
    """
    try:
        found = _ArrayUnpickler(file, encoding="latin1").load()
    except _Refused as refusal:
        raise DataError(
            f"pickle must hold numpy arrays only; got {refusal} ({where}). Do not open this file by other means."
        ) from None
    except Exception as error:  # a damaged or hostile pickle may fail in any way at all
        raise DataError(
            f"pickle must be whole; got {type(error).__name__}: {error} ({where}). Fetch it anew."
        ) from error
    if not isinstance(found, dict) or set(found) != set(keys):
        named = sorted(map(str, found)) if isinstance(found, dict) else type(found).__name__
        raise DataError(f"pickle must hold a dictionary of {list(keys)}; got {named} ({where}). Fetch it anew.")
    arrays: dict[str, NDArray[Any]] = {}
    for key in keys:
        values = getattr(found[key], "values", None) if isinstance(found[key], _Array) else None
        if values is None:
            raise DataError(
                f"pickle must hold arrays; got {type(found[key]).__name__} as {key} ({where}). Fetch it anew."
            )
        arrays[key] = values
    return arrays


class _Refused(Exception):  # noqa: N818  # a decision, not an error of ours
    """A name in a pickle that is refused."""


class _ArrayUnpickler(pickle.Unpickler):
    """Knows how numpy rebuilds an array, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        known = _KNOWN.get((module, name))
        if known is None:
            raise _Refused(repr(f"{module}.{name}"))
        return known

    def persistent_load(self, pid: Any) -> Any:
        raise _Refused("a reference to something outside")


class _NumberType:
    """Stands for ``numpy.dtype``: a code such as ``f8`` and, as its state, the byte order."""

    def __init__(self, code: Any = None, *_: Any) -> None:
        if not isinstance(code, str) or code[:1] not in ("b", "i", "u", "f") or not code[1:].isdecimal():
            raise _Refused(f"an array of {code!r}")
        self.dtype: np.dtype[Any] = np.dtype(code)

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) < 5 or state[1] not in ("<", ">", "|", "="):
            raise _Refused("a number type without byte order")
        if any(part is not None for part in state[2:5]):
            raise _Refused("a number type with parts")
        self.dtype = self.dtype.newbyteorder(state[1])


class _Array:
    """Stands for ``numpy.ndarray``; its values come as state: version, shape, type, order, bytes."""

    values: NDArray[Any]

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, by_columns, data = state
        if not isinstance(kind, _NumberType) or not isinstance(data, str | bytes):
            raise _Refused("an array of objects")
        raw = data.encode("latin1") if isinstance(data, str) else data  # Python 2 had one type for both
        sizes = tuple(int(size) for size in shape)
        if min(sizes, default=0) < 0 or math.prod(sizes) * kind.dtype.itemsize != len(raw):
            raise _Refused(f"{len(raw)} bytes for an array of shape {sizes}")
        self.values = np.frombuffer(raw, dtype=kind.dtype).reshape(sizes, order="F" if by_columns else "C")


def _rebuild(kind: Any, *_: Any) -> _Array:
    """Stand for numpy's function that begins an array, which its state then fills."""
    if kind is not _Array:
        raise _Refused(f"an array of class {kind!r}")
    return _Array()


_KNOWN: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _NumberType,
    ("numpy.core.multiarray", "_reconstruct"): _rebuild,
    ("numpy._core.multiarray", "_reconstruct"): _rebuild,  # its name since numpy 2
}
