"""Arrays and sparse matrices as named tensors, which is how models are written to files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from hotvae.data.frames import checked_csr
from hotvae.estimators.per_label import is_sparse


def pack(name: str, table: Any) -> dict[str, Tensor]:
    """Turn an array or a sparse matrix into named tensors.

    Parameters
    ----------
    name : str
        What the tensors are called; the parts of a sparse matrix get a suffix.
    table : ndarray or CSR matrix
        What to store.

    Returns
    -------
    dict of str to Tensor
    """
    if not is_sparse(table):
        return {name: torch.from_numpy(np.array(table, order="C"))}
    matrix: Any = sparse.csr_array(table)
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": np.array(matrix.shape)}
    return {f"{name}.{part}": torch.from_numpy(np.array(values)) for part, values in parts.items()}


def pack_all(tables: Mapping[str, Any]) -> dict[str, Tensor]:
    """Turn several arrays and sparse matrices into named tensors (see :func:`pack`)."""
    return {key: tensor for name, table in tables.items() for key, tensor in pack(name, table).items()}


def unpack(name: str, tensors: Mapping[str, Tensor]) -> Any:
    """Take back what :func:`pack` made.

    Parameters
    ----------
    name : str
        As given to :func:`pack`.
    tensors : mapping of str to Tensor
        Read from a file.

    Returns
    -------
    ndarray or csr_matrix

    Raises
    ------
    KeyError, ValueError
        Parts that are absent or do not fit together.
    """
    if name in tensors:
        return tensors[name].numpy()
    data, indices, indptr, shape = (
        tensors[f"{name}.{part}"].numpy() for part in ("data", "indices", "indptr", "shape")
    )
    n_rows, n_columns = shape.tolist()
    return sparse.csr_matrix(checked_csr(data, indices, indptr, (n_rows, n_columns)))


def array(name: str, tensors: Mapping[str, Tensor], shape: tuple[int | None, ...]) -> NDArray[Any]:
    """Read one array and check its shape; None stands for any size.

    Raises
    ------
    KeyError, ValueError
        An array that is absent or has another shape.
    """
    values: NDArray[Any] = tensors[name].numpy()
    if values.ndim != len(shape) or any(size not in (None, own) for size, own in zip(shape, values.shape, strict=True)):
        raise ValueError(f"{name} has shape {values.shape} where {shape} was expected")
    return values
