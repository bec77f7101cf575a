"""How much a row resembles rows of the training table: what kernel methods know, as columns for a network."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist, pdist

from hotvae.errors import ModelError
from hotvae.features.spatial import bumps

# A row at the usual distance of two rows resembles a landmark by exp(-6): half of that blurs, twice as much finds
# hardly anything alike (ADR 0016).
_SHARPNESS = 6.0

# Pairs of so many rows say what the usual distance is.
_MOST_COMPARED = 500


class Landmarks:
    r"""Resemblance to landmarks, rows drawn from the training table: one number each, largest where rows are equal.

    A perceptron learns which directions of the table matter and forgets which rows lie close together; a kernel
    method knows nothing else. With landmarks :math:`c_k`, scaled as all rows are, the unit

    .. math:: u_k(x) = \frac{1}{\sigma_k} \exp\left(-\frac{6\, |x - c_k|^2}{m}\right)

    tells a perceptron both; :math:`m` is the median squared distance of two landmarks and :math:`\sigma_k` the
    deviation of the unit among training rows, so that a unit weighs as much as any scaled column. A row unlike all of
    them has zeros.

    Parameters
    ----------
    n_landmarks : int
        Rows to draw; a table of fewer rows gives all of them.

    Attributes
    ----------
    rows : ndarray of float32 of shape (n_landmarks, n_columns)
        The landmarks.
    numbers : ndarray of int of shape (n_landmarks,)
        Where they stood in the training table.
    width : float
        Width of the bumps, :math:`\sqrt{m / 12}`.
    scale : ndarray of shape (n_landmarks,)
        Deviation of each unit among training rows.

    Examples
    --------
    >>> units = Landmarks(3).fit(np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 5.0]]))
    >>> round(12 * units.width**2, 4)
    25.0
    >>> (units.transform(np.array([[0.0, 0.0], [99.0, 0.0]])) * units.scale).round(4)
    array([[1.    , 0.0025, 0.0025],
           [0.    , 0.    , 0.    ]])
    """

    def __init__(self, n_landmarks: int) -> None:
        self.n_landmarks = n_landmarks
        self.rows: NDArray[np.float32] = np.empty((0, 0), dtype=np.float32)
        self.numbers: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.width = 1.0
        self.scale: NDArray[np.float64] = np.empty(0)

    def fit(self, table: NDArray[Any]) -> Landmarks:
        """Draw the landmarks from scaled training rows without missing values; return itself."""
        n_drawn = min(self.n_landmarks, len(table))
        drawn = np.random.default_rng(0).permutation(len(table))[:n_drawn]
        self.numbers = np.sort(drawn).astype(np.int64)
        # In 32 bits, as they are stored: a model read back sees the same ones.
        self.rows = table[self.numbers].astype(np.float32)
        compared = table[drawn[:_MOST_COMPARED]].astype(np.float64)
        usual = float(np.median(pdist(compared, "sqeuclidean"))) if n_drawn > 1 else 0.0
        # Of rows most of which are equal any width tells those that are not.
        self.width = float(np.sqrt(usual / (2 * _SHARPNESS))) if usual > 0 else 1.0
        self.scale = np.ones(n_drawn)
        spread = self.transform(table).std(axis=0)
        self.scale = np.where(spread > 0, spread, 1.0)
        return self

    def transform(self, table: NDArray[Any]) -> NDArray[np.float64]:
        """Resemblance of scaled rows to the landmarks, at least 0, of shape (n_samples, n_landmarks)."""
        alike: NDArray[np.float64] = bumps(cdist(table, self.rows), self.width) / self.scale
        return alike

    def names(self) -> tuple[str, ...]:
        """Names of the units."""
        return tuple(f"like row {number}" for number in self.numbers)

    def state(self) -> dict[str, Any]:
        """Return what was learned, ready for JSON; the rows as bytes, as a table of numbers would fill megabytes."""
        return {
            "rows": base64.b64encode(self.rows.astype("<f4").tobytes()).decode("ascii"),
            "shape": list(self.rows.shape),
            "numbers": self.numbers.tolist(),
            "width": self.width,
            "scale": self.scale.tolist(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Landmarks:
        """Take back what :meth:`state` returned.

        Raises
        ------
        ModelError
            Anything else.
        """
        try:
            content = base64.b64decode(state["rows"], validate=True)
            rows = np.frombuffer(content, dtype="<f4").reshape(state["shape"]).astype(np.float32)
            numbers = np.array(state["numbers"], dtype=np.int64)
            scale = np.array(state["scale"], dtype=np.float64)
            width = float(state["width"])
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"landmarks must be complete; got {error!r}. Save the model anew.") from error
        if rows.ndim != 2 or not numbers.shape == scale.shape == rows.shape[:1] or not width > 0:
            raise ModelError(
                f"landmarks must have a row, a number and a scale each, and a width above 0; got shapes {rows.shape}, "
                f"{numbers.shape} and {scale.shape}, and width {width}. Save the model anew."
            )
        units = cls(len(rows))
        units.rows, units.numbers, units.width, units.scale = rows, numbers, width, scale
        return units
