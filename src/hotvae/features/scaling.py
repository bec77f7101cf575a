"""Features as the network sees them: imputed, scaled and one-hot coded by what training rows taught."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Literal, Self, get_args

import numpy as np
import pandas as pd
from numpy.typing import DTypeLike, NDArray
from scipy import sparse
from scipy.special import ndtri

from hotvae.config import require_choice, require_count, require_flag
from hotvae.data.aligned import align_columns, check_kinds
from hotvae.data.dataset import (
    FeatureKind,
    FeatureTable,
    as_feature_table,
    check_finite,
    feature_kinds,
    numeric_matrix,
    text_levels,
)
from hotvae.data.places import check_degrees
from hotvae.errors import ConfigError, DataError, ModelError, hushed, listed, warn_of_data
from hotvae.features.landmarks import Landmarks
from hotvae.features.spatial import SpatialUnits
from hotvae.features.transformer import RowTransformer

Scaling = Literal["standard", "robust", "quantile", "auto", "none"]

# Methods that keep a table of quantiles for each column.
_WITH_KNOTS: tuple[Scaling, ...] = ("quantile", "auto")

# Quartiles of a normal column lie this far apart, counted in its deviation: robust and standard then agree on it.
_QUARTILE_GAP = 1.349

# Where soft clipping ends: a value 3 deviations out is drawn in to 2.1, and nothing ever passes 3.
_CLIP = 3.0

# A column's quantile table has at most this many knots: finer steps are noise, and each one is stored.
_MOST_KNOTS = 257

# Automatic scaling: with fewer distinct values than this, normal scores say nothing that the values do not ...
_FEW_VALUES = 8
# ... and a column is taken as normal if its values and their normal scores lie on a line this straight (correlation;
# a uniform column has .977, a thousand draws from a normal one about .999).
_STRAIGHT = 0.99
# Standard deviations from the training mean that no value of the same kind lies away.
_FAR = 30.0


class FeatureScaler(RowTransformer):
    r"""Turn features into the matrix a network is fed with.

    Everything is learned from the rows given to `fit`, which must be training rows only.

    * Numbers: missing values become the training median, columns with missing training values get an
      indicator column, and each column is scaled by ``scaling``.
    * Booleans are the numbers 0 and 1.
    * Categories are one-hot coded in sorted order; "missing" is a level where training rows had it.
    * Sparse arrays stay sparse: columns are divided by their largest absolute value where it is above 1, never centred.
      Words that were weighted by their rarity keep their weights.

    Parameters
    ----------
    scaling : {"standard", "robust", "quantile", "auto", "none"}
        How numbers are scaled; they are imputed in any case.

        * ``"standard"``: centred on the mean, divided by the standard deviation.
        * ``"robust"``: centred on the median, divided by the distance of the quartiles (by half the range where these
          coincide), then drawn in softly, :math:`x / \sqrt{1 + (x / 3)^2}`, so that no outlier passes 3.
        * ``"quantile"``: replaced by the normal score of its rank among the training values, with straight lines
          between 257 knots; beyond the training values the score stays that of the nearest one.
        * ``"auto"``: each column by its shape. Columns of 0 and 1 are left as they are; columns with fewer than 8
          distinct values, or about normal ones, are ``"standard"``; all others ``"quantile"``.
        * ``"none"``: left as they are.

        For sparse arrays all but ``"none"`` divide by the largest absolute value above 1.
    clamp : bool
        Take numbers beyond those of training as the nearest one of training, as trees do; without it a network
        follows a straight line there. Dense tables only.
    spatial_units : int
        Nearness to so many places, :class:`~hotvae.features.spatial.SpatialUnits`, as further columns. Dense
        tables only.
    spatial_columns : pair of str or int
        The two columns that say where a row is: names, or positions, counted from the end when negative. By default the
        last two, where coordinates stand that were made features.
    spatial_degrees : bool
        The two columns are longitude and latitude in degrees, in this order: nearness is that on the round Earth.
    landmarks : int
        Resemblance to so many training rows, :class:`~hotvae.features.landmarks.Landmarks`, as further columns. Dense
        tables only.

    Attributes
    ----------
    feature_names_in, feature_names_out : tuple of str
        Columns before and after; numbers come first, then indicators, one-hot columns, nearness to
        places and resemblance to landmarks.
    kinds : tuple of {"numeric", "categorical"}
        Kind of each column that goes in.
    is_sparse : bool
        Whether the scaler was fitted on, and so produces, sparse arrays.

    Examples
    --------
    >>> train = pd.DataFrame({"depth": [1.0, 3.0], "soil": ["sand", "clay"]})
    >>> scaler = FeatureScaler().fit(train)
    >>> scaler.feature_names_out
    ('depth', 'soil=clay', 'soil=sand')
    >>> scaler.transform(pd.DataFrame({"depth": [5.0], "soil": ["sand"]}))
    array([[3., 0., 1.]], dtype=float32)
    """

    def __init__(
        self,
        scaling: Scaling = "standard",
        *,
        clamp: bool = False,
        spatial_units: int = 0,
        spatial_columns: Sequence[str | int] = (-2, -1),
        spatial_degrees: bool = False,
        landmarks: int = 0,
    ) -> None:
        self.scaling: Scaling = scaling
        self.clamp = clamp
        self.spatial_units = spatial_units
        self.spatial_columns = spatial_columns
        self.spatial_degrees = spatial_degrees
        self.landmarks = landmarks
        self.kinds: tuple[FeatureKind, ...] = ()
        self.is_sparse = False
        # One entry per numeric column, in order.
        self._median: NDArray[np.float64] = np.empty(0)
        self._center: NDArray[np.float64] = np.empty(0)
        self._scale: NDArray[np.float64] = np.empty(0)
        self._had_missing: NDArray[np.bool_] = np.empty(0, dtype=bool)
        # For quantiles: values and their normal scores; none for a column that automatic scaling treats otherwise.
        self._knots: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
        # One entry per categorical column, in order; None = the level "missing".
        self._levels: list[list[str | None]] = []
        # Least and largest training value of each numeric column; None without clamping.
        self._range: NDArray[np.float64] | None = None
        # Places, and which numeric columns say where a row is.
        self._places: SpatialUnits | None = None
        self._where: list[int] = []
        self._alike: Landmarks | None = None

    @property
    def feature_names_out(self) -> tuple[str, ...]:
        """Names of the columns that come out."""
        numeric, categorical = self._names("numeric"), self._names("categorical")
        indicators = [f"{name} (missing)" for name, had in zip(numeric, self._had_missing, strict=True) if had]
        one_hot = [
            f"{name}={'(missing)' if level is None else level}"
            for name, levels in zip(categorical, self._levels, strict=True)
            for level in levels
        ]
        further = (part.names() for part in (self._places, self._alike) if part is not None)
        return (*numeric, *indicators, *one_hot, *chain.from_iterable(further))

    @property
    def n_features_out(self) -> int:
        """Number of columns that come out."""
        n_places = 0 if self._places is None else len(self._places.centres)
        n_landmarks = 0 if self._alike is None else len(self._alike.rows)
        return self._n_own + n_places + n_landmarks

    @property
    def _n_own(self) -> int:
        """Columns that come out and are what a column says by itself."""
        return len(self._median) + int(self._had_missing.sum()) + sum(map(len, self._levels))

    def fit(self, features: Any, y: Any = None, *, feature_names: Sequence[str] | None = None) -> Self:
        """Learn medians, means, deviations and levels; refuse infinite values and columns without any."""
        self.check_parameters()
        table, self.feature_names_in = as_feature_table(features, feature_names or ())
        if len(self.feature_names_in) != table.shape[1]:
            raise DataError(
                f"feature_names must name each of the {table.shape[1]} columns; got "
                f"{len(self.feature_names_in)} names. Give one per column."
            )
        if table.shape[0] == 0 or table.shape[1] == 0:
            raise DataError(f"features must have rows and columns; got shape {tuple(table.shape)}. Choose some rows.")
        self.kinds = feature_kinds(table)
        self.is_sparse = not isinstance(table, np.ndarray | pd.DataFrame)
        self._levels, self._knots, self._range, self._where = [], [], None, []
        self._places, self._alike = None, None
        for name, off in (("clamp", False), ("spatial_units", 0), ("landmarks", 0)):
            if self.is_sparse and getattr(self, name):
                raise ConfigError(
                    f"{name} must be {off} for a sparse table; got {getattr(self, name)}. Leave it out, or pass a "
                    "dense table."
                )
        if self.spatial_units:
            self._where = self._spatial_positions()
        if isinstance(table, np.ndarray | pd.DataFrame):
            values = self._numeric_values(table)
            self._fit_numeric(values)
            if self.clamp:
                self._range = np.array([np.nanmin(values, axis=0), np.nanmax(values, axis=0)])
            if self.spatial_units:
                sites = values[:, self._where]
                known = np.where(np.isnan(sites), self._median[self._where], sites)
                if self.spatial_degrees:
                    check_degrees(known)
                self._places = SpatialUnits(self.spatial_units, degrees=self.spatial_degrees).fit(known)
            if isinstance(table, pd.DataFrame):
                self._levels = [_sorted_levels(table[name]) for name in self._names("categorical")]
            if self.landmarks:
                # All else is settled: what transform makes of the training rows is what landmarks are compared with.
                with hushed():
                    scaled = np.asarray(self.transform(features, np.float64))[:, : self._n_own]
                self._alike = Landmarks(self.landmarks).fit(scaled)
        else:
            check_finite(table, self.feature_names_in)
            n_columns = int(table.shape[1])
            largest = np.asarray(abs(table).max(axis=0).toarray(), dtype=np.float64).ravel()
            self._median, self._center = np.zeros(n_columns), np.zeros(n_columns)
            # Values within 1 stay: to stretch rare, weak words to the size of strong ones would undo their weights.
            self._scale = np.ones(n_columns) if self.scaling == "none" else np.maximum(largest, 1.0)
            self._had_missing = np.zeros(n_columns, dtype=bool)
        return self

    def check_parameters(self) -> None:
        """Find a parameter that is not allowed before any data are read."""
        require_choice("scaling", self.scaling, get_args(Scaling))
        require_flag("clamp", self.clamp)
        require_flag("spatial_degrees", self.spatial_degrees)
        require_count("spatial_units", self.spatial_units, least=0)
        require_count("landmarks", self.landmarks, least=0)
        if not isinstance(self.spatial_columns, tuple | list) or len(self.spatial_columns) != 2:
            raise ConfigError(
                f"spatial_columns must be a pair of names or positions; got {self.spatial_columns!r}. Name two columns."
            )

    def transform(self, features: Any, dtype: DTypeLike = np.float32) -> NDArray[Any] | sparse.csr_array:
        """Impute, scale and code rows; sparse if the scaler was fitted on a sparse array."""
        if not self.feature_names_in:
            raise ConfigError("scaler must be fitted before use; got none. Call fit with training rows.")
        table = self._aligned(features)
        if self.is_sparse or not isinstance(table, np.ndarray | pd.DataFrame):
            return self._scaled_csr(table, dtype)
        values = self._numeric_values(table)
        missing = np.isnan(values)
        n_missing = missing.sum(axis=0)
        surprising = np.flatnonzero((n_missing > 0) & ~self._had_missing)
        if surprising.size:
            names = self._names("numeric")
            warn_of_data(
                f"columns without missing values in training now have some: "
                f"{listed(names[i] for i in surprising)} ({int(n_missing[surprising].sum())} values). "
                "They are taken as the training median."
            )
        out = np.zeros((len(values), self.n_features_out), dtype=dtype)
        n_numeric, n_indicators = values.shape[1], int(self._had_missing.sum())
        if n_missing.any():
            values = np.where(missing, self._median, values)
        if self._range is not None:
            values = np.clip(values, *self._range)
        with np.errstate(over="ignore", invalid="ignore"):  # refused in the next step, with a message
            out[:, :n_numeric] = self._scaled_numbers(values)
        _check_representable(out[:, :n_numeric], self._names("numeric"))
        out[:, n_numeric : n_numeric + n_indicators] = missing[:, self._had_missing]
        if isinstance(table, pd.DataFrame):
            self._fill_one_hot(out[:, n_numeric + n_indicators :], table)
        n_own, n_places = self._n_own, 0
        if self._places is not None:
            n_places = len(self._places.centres)
            out[:, n_own : n_own + n_places] = self._places.transform(values[:, self._where])
        if self._alike is not None:
            out[:, n_own + n_places :] = self._alike.transform(out[:, :n_own])
        return out

    @property
    def numeric_names(self) -> list[str]:
        """Names of the columns of :meth:`columns_far`."""
        return self._names("numeric")

    def columns_far(self, features: Any) -> NDArray[np.bool_]:
        """Say which numeric columns have values that are far out, for each row of a dense table.

        Far is more than 30 standard deviations from the training mean. Only ``"standard"`` scaling lets such values
        through; whatever holds them in has none.
        """
        table = self._aligned(features)
        if self.scaling != "standard" or self._range is not None or not isinstance(table, np.ndarray | pd.DataFrame):
            return np.zeros((table.shape[0], len(self._names("numeric"))), dtype=bool)
        far: NDArray[np.bool_] = np.abs(self._numeric_values(table) - self._center) > _FAR * self._scale
        return far

    def state(self) -> dict[str, Any]:
        """Everything learned, as plain lists, numbers and strings; what parameters led to is stored in their place."""
        return {
            "scaling": self.scaling,
            "spatial_columns": list(self.spatial_columns),
            "spatial_degrees": self.spatial_degrees,
            "feature_names": list(self.feature_names_in),
            "kinds": list(self.kinds),
            "is_sparse": self.is_sparse,
            "median": self._median.tolist(),
            "center": self._center.tolist(),
            "scale": self._scale.tolist(),
            "had_missing": self._had_missing.tolist(),
            "knots": [[part.tolist() for part in knots] for knots in self._knots],
            "levels": [list(levels) for levels in self._levels],
            "range": None if self._range is None else self._range.tolist(),
            "places": None if self._places is None else {"columns": self._where, **self._places.state()},
            "landmarks": None if self._alike is None else self._alike.state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild a scaler that transforms to the same bits as the original."""
        try:
            scaler = cls(
                state["scaling"],
                spatial_columns=tuple(state["spatial_columns"]),
                spatial_degrees=state.get("spatial_degrees", False),  # models of before knew none
            )
            scaler.check_parameters()
            scaler.feature_names_in = tuple(state["feature_names"])
            scaler.kinds = tuple(state["kinds"])
            scaler.is_sparse = state["is_sparse"] is True
            scaler._median, scaler._center, scaler._scale = (
                np.array(state[key], dtype=np.float64) for key in ("median", "center", "scale")
            )
            scaler._had_missing = np.array(state["had_missing"], dtype=bool)
            scaler._knots = [
                (np.array(values, dtype=np.float64), np.array(scores, dtype=np.float64))
                for values, scores in state["knots"]
            ]
            scaler._levels = [list(levels) for levels in state["levels"]]
            if state["range"] is not None:
                scaler.clamp, scaler._range = True, np.array(state["range"], dtype=np.float64)
            places = state["places"]
            if places is not None:
                scaler._places = SpatialUnits.from_state(places)
                scaler._where = [int(column) for column in places["columns"]]
                scaler.spatial_units = scaler._places.n_units
            if state["landmarks"] is not None:
                scaler._alike = Landmarks.from_state(state["landmarks"])
                scaler.landmarks = scaler._alike.n_landmarks
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"scaler state must be complete; got {error!r}. Save the model anew.") from error
        sizes = (scaler._median, scaler._center, scaler._scale, scaler._had_missing)
        n_numeric = scaler.kinds.count("numeric")
        if (
            len(scaler.kinds) != len(scaler.feature_names_in)
            or not all(isinstance(name, str) for name in scaler.feature_names_in)
            or any(part.shape != (n_numeric,) for part in sizes)
            or len(scaler._levels) != scaler.kinds.count("categorical")
            or (scaler.is_sparse and scaler._levels)
            or len(scaler._knots) != (n_numeric if scaler.scaling in _WITH_KNOTS and not scaler.is_sparse else 0)
            or any(values.shape != scores.shape or values.ndim != 1 for values, scores in scaler._knots)
            or (scaler._range is not None and scaler._range.shape != (2, n_numeric))
            or len(scaler._where) not in (0, 2)
            or not all(0 <= column < n_numeric for column in scaler._where)
            or (scaler._alike is not None and scaler._alike.rows.shape[1] != scaler._n_own)
        ):
            raise ModelError(
                "scaler state must have one entry per column; got parts of other lengths, or at odds. Save it anew."
            )
        return scaler

    def _spatial_positions(self) -> list[int]:
        """Find the two spatial columns among the numeric ones."""
        chosen, numeric = self.spatial_columns, self._names("numeric")
        # bool is an int, and no column.
        names = [
            self.feature_names_in[column]
            if type(column) is int and -len(self.kinds) <= column < len(self.kinds)
            else column
            for column in chosen
        ]
        if len(set(names)) != 2 or not all(name in numeric for name in names):
            raise ConfigError(
                f"spatial_columns must be two numeric columns; got {tuple(chosen)} of {listed(self.feature_names_in)}. "
                "Name the two coordinates, or set spatial_units to 0."
            )
        return [numeric.index(str(name)) for name in names]

    def _names(self, kind: FeatureKind) -> list[str]:
        return [name for name, is_kind in zip(self.feature_names_in, self.kinds, strict=True) if is_kind == kind]

    def _numeric_values(self, table: NDArray[Any] | pd.DataFrame) -> NDArray[np.float64]:
        """Numeric columns in 64 bits; NaN = missing, nothing infinite."""
        names = self._names("numeric")
        values = table if isinstance(table, np.ndarray) else numeric_matrix(table[names])
        check_finite(values, names)
        return values.astype(np.float64, copy=False)

    def _fit_numeric(self, values: NDArray[np.float64]) -> None:
        names, n_columns = self._names("numeric"), values.shape[1]
        n_missing = np.isnan(values).sum(axis=0)
        self._had_missing = n_missing > 0
        empty = np.flatnonzero(n_missing == len(values))
        if empty.size:
            raise DataError(
                f"feature columns must have values among the training rows; got only missing ones in "
                f"{listed(names[i] for i in empty)}. Drop these columns."
            )
        affected = np.flatnonzero(self._had_missing)
        if affected.size:
            shares = ", ".join(f"{share:.1%}" for share in n_missing[affected][:5] / len(values))
            warn_of_data(
                f"missing values are replaced by the training median and marked in an indicator column: "
                f"{listed(names[i] for i in affected)} ({shares} missing).",
                stacklevel=3,
            )
        self._median, self._center, self._scale = np.empty(n_columns), np.zeros(n_columns), np.ones(n_columns)
        for j in range(n_columns):  # column by column: no second copy of the whole table
            column = values[:, j].copy()  # the caller's array stays as it is
            gaps = np.isnan(column)
            known = column[~gaps]
            self._median[j] = np.median(known)
            column[gaps] = self._median[j]
            method = _method_for(known) if self.scaling == "auto" else self.scaling
            if self.scaling in _WITH_KNOTS:
                self._knots.append(_knots_of(known) if method == "quantile" else (np.empty(0), np.empty(0)))
            if method in ("standard", "robust"):
                with np.errstate(over="ignore", invalid="ignore"):
                    if method == "standard":
                        self._center[j], spread = column.mean(), column.std()
                    else:
                        self._center[j], spread = self._median[j], _robust_spread(known)
                if not (np.isfinite(self._center[j]) and np.isfinite(spread)):
                    raise DataError(
                        f"feature values must be small enough to square; got {abs(column).max():.3g} "
                        f"in column {names[j]!r}. Correct its outliers, or change its unit."
                    )
                # Equal values can have a deviation of one rounding error, which would blow up other rows.
                if spread > 0 and column.min() < column.max():
                    self._scale[j] = spread
                else:
                    self._center[j] = column[0]

    def _scaled_numbers(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        scaled: NDArray[np.float64] = (values - self._center) / self._scale
        for j, knots in enumerate(self._knots):
            if len(knots[0]):
                scaled[:, j] = np.interp(values[:, j], *knots)
        if self.scaling == "robust":
            scaled = np.clip(scaled, -1e100, 1e100)  # infinity over infinity would be no number
            scaled = scaled / np.hypot(1, scaled / _CLIP)
        return scaled

    def _aligned(self, features: Any) -> FeatureTable:
        """Bring features into the columns, their order and the kinds of training."""
        if isinstance(features, pd.DataFrame):
            frame = align_columns(features, self.feature_names_in)
            check_kinds(frame, self.kinds)
            return frame
        table, _ = as_feature_table(features)
        if table.shape[1] != len(self.feature_names_in):
            raise DataError(
                f"features must have {len(self.feature_names_in)} columns, as in training; got "
                f"{table.shape[1]}. Give the same columns in the same order, or by name."
            )
        if "categorical" in self.kinds:
            raise DataError(
                f"features must be a DataFrame, as in training; got an array. Name the columns "
                f"{listed(self._names('categorical'))} in a DataFrame."
            )
        if not isinstance(table, np.ndarray | pd.DataFrame):
            check_finite(table, self.feature_names_in)
            return table if self.is_sparse else table.toarray()
        return table

    def _scaled_csr(self, table: FeatureTable, dtype: DTypeLike) -> sparse.csr_array:
        if isinstance(table, np.ndarray | pd.DataFrame):
            table = sparse.csr_array(self._numeric_values(table))
            check_finite(table, self.feature_names_in)
        with np.errstate(over="ignore"):
            data = (table.data.astype(np.float64) / self._scale[table.indices]).astype(dtype)
        scaled = sparse.csr_array((data, table.indices, table.indptr), shape=table.shape)
        check_finite(scaled, self.feature_names_in)
        return scaled

    def _fill_one_hot(self, out: NDArray[Any], frame: pd.DataFrame) -> None:
        start = 0
        for name, levels in zip(self._names("categorical"), self._levels, strict=True):
            place = {level: start + i for i, level in enumerate(levels)}
            codes, found = text_levels(frame[name])
            # Code -1, missing, takes the last entry; -1 among the targets is a level training did not have.
            target = np.array([*(place.get(level, -1) for level in found), place.get(None, -1)])[codes]
            rows = np.flatnonzero(target >= 0)
            out[rows, target[rows]] = 1
            unknown = np.flatnonzero(target < 0)
            if unknown.size:
                new = sorted({found[code] if code >= 0 else "(missing)" for code in codes[unknown]})
                warn_of_data(
                    f"column {name!r} has levels unknown from training: {listed(new)} "
                    f"(rows {listed(unknown)}). They are taken as none of the known levels."
                )
            start += len(levels)


def _robust_spread(known: NDArray[np.float64]) -> float:
    """Spread that a few outliers do not move: distance of the quartiles, or half the range where these meet."""
    low, high = np.quantile(known, (0.25, 0.75))
    gap = (high - low) / _QUARTILE_GAP
    return float(gap if gap > 0 else (known.max() - known.min()) / 2)


def _method_for(known: NDArray[np.float64]) -> Scaling:
    """Choose how a column is scaled by the shape of its known values."""
    if ((known == 0) | (known == 1)).all():
        return "none"
    if len(np.unique(known)) < _FEW_VALUES:
        return "standard"
    scores = ndtri((np.arange(len(known)) + 0.5) / len(known))
    with np.errstate(over="ignore", invalid="ignore"):  # values too large to square are no normal column
        straight = np.corrcoef(np.sort(known), scores)[0, 1] >= _STRAIGHT
    return "standard" if straight else "quantile"


def _knots_of(known: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values spread evenly over the ranks, and the normal score of the middle of the ranks that each of them holds."""
    known, n = np.sort(known), len(known)
    values = np.unique(known[np.linspace(0, n - 1, min(n, _MOST_KNOTS)).round().astype(np.intp)])
    middle = (np.searchsorted(known, values, side="left") + np.searchsorted(known, values, side="right")) / 2
    scores: NDArray[np.float64] = ndtri(middle / n)
    return values, scores


def _sorted_levels(column: "pd.Series[Any]") -> list[str | None]:
    codes, levels = text_levels(column)
    return [*sorted(levels), *([None] if (codes < 0).any() else [])]


def _check_representable(values: NDArray[Any], names: Sequence[str]) -> None:
    """Refuse scaled values that the floating type cannot hold."""
    if not np.isfinite(values).all():
        rows, columns = np.nonzero(~np.isfinite(values))
        raise DataError(
            f"feature values must be within reach of the training values; got one too large for "
            f"{values.dtype} in column {names[columns[0]]!r} (rows {listed(rows[columns == columns[0]])}). "
            "Correct these cells."
        )
