"""What a page about a model is made from: rows, the model as it is asked, and numbers small enough for JSON."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hotvae.estimators.base import LabelClassifier
from hotvae.explain import answers_given
from hotvae.explain.conditional import FloatArray, take_rows
from hotvae.jobs.predict import predict_rows


@dataclass(frozen=True, eq=False)
class PageRows:
    """The rows a page is made from.

    Attributes
    ----------
    features : DataFrame, csr_array or ndarray
        As the model takes them.
    labels : ndarray of shape (n_samples, n_labels)
        What was observed, NaN where nothing was, in the model's order.
    coordinates : ndarray of shape (n_samples, 2) or None
        Where the rows are.
    coordinate_names : tuple of str
        Names of the two columns.
    source : str
        Name of the table.
    """

    features: Any
    labels: npt.NDArray[Any]
    coordinates: FloatArray | None = None
    coordinate_names: tuple[str, ...] = ()
    source: str = "a table in memory"

    def take(self, rows: npt.NDArray[np.intp]) -> PageRows:
        """Return some of the rows."""
        places = None if self.coordinates is None else self.coordinates[rows]
        return PageRows(take_rows(self.features, rows), self.labels[rows], places, self.coordinate_names, self.source)


class AskedModel:
    """A model that takes frames even if it was trained on arrays: by then names have done their work."""

    def __init__(self, model: LabelClassifier) -> None:
        self.model = model
        self.label_names_ = model.label_names_
        self.conditional = answers_given(model)

    def predict_proba(self, X: Any, given: Any = None) -> npt.NDArray[Any]:
        """Probabilities of shape (n_samples, n_labels)."""
        return predict_rows(self.model, X, given)


def packed(values: npt.NDArray[Any], kind: Any) -> str:
    """Whole numbers as text: little-endian bytes in base 64."""
    whole = np.round(np.nan_to_num(values)).clip(0, np.iinfo(kind).max).astype(np.dtype(kind).newbyteorder("<"))
    return base64.b64encode(np.ascontiguousarray(whole).tobytes()).decode("ascii")


def rounded(values: Any, digits: int | None) -> list[Any]:
    """Round numbers, to five significant digits without a number of digits; None for what is no number."""
    table = np.asarray(values, dtype=np.float64)
    if digits is None:
        return [digits_of(value) for value in table.tolist()]
    return [round(value, digits) if np.isfinite(value) else None for value in table.tolist()]


def digits_of(value: Any) -> float | None:
    """Five significant digits; None for what is no number."""
    if value is None or not np.isfinite(value):
        return None
    return float(f"{float(value):.5g}")
