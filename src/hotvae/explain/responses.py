r"""What the features do: response curves, importance, and whose part of the explained deviance is whose.

Deviance is twice the log loss, here per observed cell, so that tables of different size compare:

.. math:: D = -\frac{2}{N} \sum_{n, i} \bigl[y_{ni} \log p_{ni} + (1 - y_{ni}) \log(1 - p_{ni})\bigr]

All functions use a fitted model and train none. What they show is how the *model* uses its features; of two
features that go together it may use either. ``X`` is a dense table, best of rows that the model was not trained on;
``labels``, of shape (n_samples, n_labels), is what was observed, NaN where nothing was; at most ``max_rows`` rows,
drawn at random by ``random_state``, are used. An unknown feature, a parameter out of range, a sparse table and labels
that do not fit raise a ``ConfigError`` or ``DataError``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from hotvae.config import require_count
from hotvae.errors import ConfigError, DataError, listed
from hotvae.explain.conditional import FloatArray, IntArray, answers_given, one_or_several
from hotvae.explain.resampling import shares_taken
from hotvae.metrics.checks import LabelCells, check_labels

ALL_LABELS = "all labels"
"""Stands for the mean over all labels in the ``label`` column of tables."""

PARTS = ("environment", "space", "environment or space", "other labels", "unexplained")
"""Parts of the null deviance, in the order of :func:`deviance_partition`."""

# Probabilities this close to 0 or 1 cost a bounded deviance, as in the log loss of single precision.
_TINY = 1e-7


class ProbabilityModel(Protocol):
    """What the functions of this module need of a model."""

    @property
    def label_names_(self) -> Any:
        """Names of the labels."""
        ...

    def predict_proba(self, X: Any) -> npt.NDArray[Any]:
        """Probabilities of shape (n_samples, n_labels)."""
        ...


def response_curves(
    model: ProbabilityModel | Sequence[ProbabilityModel],
    X: pd.DataFrame | npt.ArrayLike,
    features: Sequence[str] | None = None,
    *,
    n_points: int = 20,
    level: float = 0.95,
    n_bootstrap: int = 100,
    max_rows: int = 200,
    random_state: int = 0,
) -> pd.DataFrame:
    """Mean probability of every label while one feature takes the values it has in the data.

    Parameters
    ----------
    model : model, or sequence of models
        With ``predict_proba`` and ``label_names_``; several are averaged.
    X : DataFrame or array of shape (n_samples, n_features)
        Rows whose other features stay as they are (partial dependence).
    features : sequence of str, optional
        Features by name (``feature_0``, ... for an array); all by default.
    n_points : int
        Points of a curve: quantiles of the observed values, from the 1st to the 99th hundredth, so that no curve
        leaves the data; levels of a feature that is not a number.
    level : float
        Coverage of the intervals.
    n_bootstrap : int
        Resamples of rows, and of models, behind the intervals.
    max_rows : int
        Most rows to use, drawn at random.
    random_state : int
        Decides rows and resamples.

    Returns
    -------
    DataFrame
        ``feature``, ``value`` (a number, or a level), ``label``, ``probability``, ``lower``, ``upper``.

    Notes
    -----
    The feature is set to a value in *every* row, also in rows where the rest of the environment never goes with it.
    Where features are tied, a curve is partly about places that do not exist.

    Examples
    --------
    >>> class Sigmoid:
    ...     label_names_ = ["wren"]
    ...     def predict_proba(self, X):
    ...         return 1 / (1 + np.exp(-X[["wet"]].to_numpy()))
    >>> curve = response_curves(Sigmoid(), pd.DataFrame({"wet": [-1.0, 0.0, 1.0], "cold": [3, 4, 5]}), ["wet"])
    >>> bool(curve["probability"].is_monotonic_increasing), curve["label"].unique().tolist()
    (True, ['wren'])
    """
    models, frame, as_given = _prepare(model, X)
    names = _known_features(features, frame)
    require_count("n_points", n_points, 2)
    require_count("n_bootstrap", n_bootstrap, 20)
    labels = [str(name) for name in models[0].label_names_]
    rng = np.random.default_rng(random_state)
    rows = _thin(len(frame), max_rows, rng)
    base = frame.iloc[rows]
    weights, votes = (shares_taken(n, n_bootstrap, rng) for n in (len(rows), len(models)))
    parts = []
    for name in names:
        for value in _grid(frame[name], n_points):
            moved = as_given(_set(base, {name: value}))
            probs = np.stack([np.asarray(each.predict_proba(moved), dtype=np.float64) for each in models])
            draws = np.einsum("dm,dr,mrl->dl", votes, weights, probs, optimize=True)
            low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
            parts.append(
                pd.DataFrame(
                    {
                        "feature": name,
                        "value": value,
                        "label": labels,
                        "probability": probs.mean(axis=(0, 1)),
                        "lower": low,
                        "upper": high,
                    }
                ).astype({"value": object})
            )
    return pd.concat(parts, ignore_index=True)


def response_surface(
    model: ProbabilityModel | Sequence[ProbabilityModel],
    X: pd.DataFrame | npt.ArrayLike,
    features: tuple[str, str],
    *,
    n_points: int = 12,
    max_rows: int = 100,
    random_state: int = 0,
) -> pd.DataFrame:
    """Mean probability of every label while two features take the values they have in the data.

    Parameters
    ----------
    model, X, max_rows, random_state
        As in :func:`response_curves`.
    features : (str, str)
        Two features that are numbers.
    n_points : int
        Points along each.

    Returns
    -------
    DataFrame
        ``value_1``, ``value_2``, ``label``, ``probability`` and ``n_rows``: how many rows of ``X`` have these two
        as the nearest point of the grid. Where it is 0 the data have no such place and the model only guesses.

    Examples
    --------
    >>> class Product:
    ...     label_names_ = ["wren"]
    ...     def predict_proba(self, X):
    ...         return (X["wet"] * X["cold"]).to_numpy()[:, None]
    >>> rows = pd.DataFrame({"wet": [0.0, 0.5, 1.0], "cold": [0.0, 0.5, 1.0]})
    >>> surface = response_surface(Product(), rows, ("wet", "cold"), n_points=2)
    >>> surface["probability"].round(2).tolist(), surface["n_rows"].tolist()
    ([0.0, 0.01, 0.01, 0.98], [2, 0, 0, 1])
    """
    models, frame, as_given = _prepare(model, X)
    first, second = _known_features(features, frame)
    rng = np.random.default_rng(random_state)
    base = frame.iloc[_thin(len(frame), max_rows, rng)]
    labels = [str(name) for name in models[0].label_names_]
    columns = [np.asarray(frame[name], dtype=np.float64) for name in (first, second)]
    grids = [np.asarray(_grid(frame[name], n_points), dtype=np.float64) for name in (first, second)]
    nearest = [np.abs(column[:, None] - grid).argmin(axis=1) for column, grid in zip(columns, grids, strict=True)]
    counts = np.zeros((len(grids[0]), len(grids[1])), dtype=int)
    np.add.at(counts, tuple(nearest), 1)
    parts = []
    for a, value_1 in enumerate(grids[0]):
        for b, value_2 in enumerate(grids[1]):
            moved = as_given(_set(base, {first: value_1, second: value_2}))
            probs = np.mean([np.asarray(each.predict_proba(moved), dtype=np.float64) for each in models], axis=0)
            cell = {"value_1": value_1, "value_2": value_2, "label": labels, "probability": probs.mean(axis=0)}
            parts.append(pd.DataFrame(cell | {"n_rows": counts[a, b]}))
    return pd.concat(parts, ignore_index=True)


def correlated_groups(X: pd.DataFrame | npt.ArrayLike, *, threshold: float = 0.7) -> dict[str, list[str]]:
    """Put features that go together into groups, to be judged together.

    Parameters
    ----------
    X : DataFrame or array
        Rows; features that are no numbers stay alone.
    threshold : float
        Absolute rank correlation from which two groups are joined, averaged over their members.

    Returns
    -------
    dict of str to list of str
        Features of each group, which is named after them.

    Examples
    --------
    >>> rows = pd.DataFrame({"july": [1, 2, 3, 4], "june": [1, 2, 3, 5], "soil": [2, 4, 1, 3]})
    >>> correlated_groups(rows)
    {'july + june': ['july', 'june'], 'soil': ['soil']}
    """
    frame = _as_frame(X)
    numeric = [str(name) for name in frame if pd.api.types.is_numeric_dtype(frame[name])]
    clusters = {str(name): -1 - place for place, name in enumerate(frame.columns)}
    if len(numeric) > 1:
        ties = frame[numeric].rank().corr().abs().fillna(0.0).to_numpy(copy=True)
        np.fill_diagonal(ties, 1.0)
        found = fcluster(linkage(squareform(1 - ties, checks=False), "average"), 1 - threshold, "distance")
        clusters |= dict(zip(numeric, found.tolist(), strict=True))
    groups: dict[int, list[str]] = {}
    for name, cluster in clusters.items():
        groups.setdefault(cluster, []).append(str(name))
    return {_group_title(members): members for members in groups.values()}


def permutation_importance(
    model: ProbabilityModel | Sequence[ProbabilityModel],
    X: pd.DataFrame | npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    groups: Mapping[str, Sequence[str]] | None = None,
    n_repeats: int = 5,
    max_rows: int = 1000,
    random_state: int = 0,
) -> pd.DataFrame:
    """Rise of the deviance when features are torn away from their rows, for each label and over all.

    Parameters
    ----------
    model, X, labels, max_rows, random_state
        As in :func:`response_curves` and above; importances of several models are averaged.
    groups : mapping of str to list of str, optional
        Features to be shuffled together, by a name for them, as from :func:`correlated_groups`; by default each alone.
    n_repeats : int
        Shuffles of every group.

    Returns
    -------
    DataFrame
        ``group``, ``label`` (one row for each and one for all), ``importance`` (rise of the deviance per cell),
        ``lower`` and ``upper`` (smallest and largest over shuffles and models), most important group first.

    Examples
    --------
    >>> class Copy:
    ...     label_names_ = ["wren"]
    ...     def predict_proba(self, X):
    ...         return np.where(X[["wet"]] > 0, 0.9, 0.1)
    >>> rows = pd.DataFrame({"wet": [-1.0, 1.0] * 20, "noise": range(40)})
    >>> table = permutation_importance(Copy(), rows, rows[["wet"]] > 0)
    >>> table.loc[table["label"] == "all labels", "group"].tolist()
    ['wet', 'noise']
    """
    models, frame, as_given = _prepare(model, X)
    require_count("n_repeats", n_repeats, 1)
    cells = _labels_of(frame, labels)
    rng = np.random.default_rng(random_state)
    rows = _thin(len(frame), max_rows, rng)
    base, truth, observed = frame.iloc[rows], cells.positive[rows], cells.observed[rows]
    titles = {name: [name] for name in map(str, frame.columns)} if groups is None else groups
    wanted = {name: _known_features(members, frame) for name, members in titles.items()}
    names = [str(name) for name in models[0].label_names_]

    def deviances(table: pd.DataFrame) -> list[FloatArray]:
        return [_deviance(truth, observed, each.predict_proba(as_given(table))) for each in models]

    before = deviances(base)
    parts = []
    for title, members in wanted.items():
        rises = []
        for _ in range(n_repeats):
            shuffled = _shuffled(base, members, rng)
            rises += [after - first for first, after in zip(before, deviances(shuffled), strict=True)]
        table = np.column_stack([np.stack(rises), [_weighted(rise, observed) for rise in rises]])
        parts.append(
            pd.DataFrame(
                {
                    "group": title,
                    "label": [*names, ALL_LABELS],
                    "importance": table.mean(axis=0),
                    "lower": table.min(axis=0),
                    "upper": table.max(axis=0),
                }
            )
        )
    order = sorted(parts, key=lambda part: -float(part["importance"].iloc[-1]))
    return pd.concat(order, ignore_index=True)


def deviance_partition(
    model: ProbabilityModel,
    X: pd.DataFrame | npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    space: Sequence[str] = (),
    n_draws: int = 20,
    n_halves: int = 2,
    max_rows: int = 500,
    random_state: int = 0,
) -> pd.DataFrame:
    r"""Divide the deviance into what environment, space and other labels explain, and the rest.

    Parameters
    ----------
    model, X, labels, max_rows, random_state
        As in :func:`permutation_importance`; one model, and if it cannot be given labels the part of other labels is
        left out.
    space : sequence of str
        Features that are coordinates or made of them; all others are environment. A model whose features hold no
        coordinates has no part of space: what is spatial and unexplained stays unexplained.
    n_draws : int
        Draws that stand in for features that are not known.
    n_halves : int
        Random halvings of the labels.

    Returns
    -------
    DataFrame
        ``label`` (each, and all), ``part``, ``deviance`` (per observed cell) and ``share`` of the null deviance.
        Parts sum to the null deviance; a part is negative where the model does worse with it than without.

    Notes
    -----
    :math:`D_0` is the deviance of each label's rate in these rows; :math:`D(S)` that of predictions from the
    features in :math:`S` alone, the others averaged out: their values are drawn from other rows, together, and
    the probabilities averaged. With :math:`E` environment and :math:`X` space,

    * environment alone is :math:`D(X) - D(EX)`, space alone :math:`D(E) - D(EX)`;
    * what either could explain is :math:`D_0 - D(EX)` less those two (negative where the two help each other);
    * other labels, beyond all features, is :math:`D(EX) - D(EX, \text{labels})`. Half of the labels, drawn at
      random, is predicted given the observed other half and the other way round, so no label ever sees itself;
    * unexplained is :math:`D(EX, \text{labels})`.

    Half of the labels are given, not all but one: with more given the part of other labels would be larger.

    Examples
    --------
    >>> class Copy:
    ...     label_names_ = ["wren"]
    ...     def predict_proba(self, X):
    ...         return np.where(X[["wet"]] > 0, 0.9, 0.1)
    >>> rows = pd.DataFrame({"wet": [-1.0, 1.0] * 20, "noise": range(40)})
    >>> table = deviance_partition(Copy(), rows, rows[["wet"]] > 0)
    >>> table[table["label"] == "all labels"].set_index("part")["share"].round(2).to_dict()
    {'environment': 0.85, 'unexplained': 0.15}
    """
    models, frame, as_given = _prepare(model, X)
    only = models[0]
    cells = _labels_of(frame, labels)
    spatial = _known_features(space, frame) if len(space) else []
    others = [str(name) for name in frame if str(name) not in spatial]
    rng = np.random.default_rng(random_state)
    rows = _thin(len(frame), max_rows, rng)
    base, truth, observed = frame.iloc[rows], cells.positive[rows], cells.observed[rows]
    rates = (truth & observed).sum(axis=0) / np.maximum(observed.sum(axis=0), 1)

    def without(members: list[str]) -> FloatArray:
        total = np.zeros(truth.shape)
        for _ in range(n_draws):
            drawn = as_given(_shuffled(base, members, rng))
            total += np.asarray(only.predict_proba(drawn), dtype=np.float64)
        return _deviance(truth, observed, total / n_draws)

    null = _deviance(truth, observed, np.broadcast_to(rates, truth.shape))
    both = _deviance(truth, observed, only.predict_proba(as_given(base)))
    parts: dict[str, FloatArray] = {}
    if spatial and others:
        alone = {"environment": without(others) - both, "space": without(spatial) - both}
        parts |= alone | {"environment or space": null - both - alone["environment"] - alone["space"]}
    else:
        parts["space" if spatial else "environment"] = null - both
    rest = both
    if answers_given(only) and truth.shape[1] > 1:
        rest = np.mean([_given_halves(only, as_given(base), truth, observed, rng) for _ in range(n_halves)], axis=0)
        parts["other labels"] = both - rest
    parts["unexplained"] = rest
    names = [str(name) for name in only.label_names_]
    tables = []
    overall = _weighted(null, observed)
    for part, values in parts.items():
        column = np.append(values, _weighted(values, observed))
        whole = np.append(null, overall)
        share = np.divide(column, whole, out=np.full_like(column, np.nan), where=whole > 0)
        tables.append(pd.DataFrame({"label": [*names, ALL_LABELS], "part": part, "deviance": column, "share": share}))
    return pd.concat(tables, ignore_index=True)


# --- deviance --------------------------------------------------------------------------------------------


def _deviance(truth: npt.NDArray[np.bool_], observed: npt.NDArray[np.bool_], probs: npt.NDArray[Any]) -> FloatArray:
    """Mean deviance of every label over its observed cells; NaN without any."""
    right = np.where(truth, probs, 1 - np.asarray(probs, dtype=np.float64))
    costs = np.where(observed, -2 * np.log(right.clip(_TINY, 1.0)), 0.0)
    counts = observed.sum(axis=0)
    mean: FloatArray = np.divide(costs.sum(axis=0), counts, out=np.full(len(counts), np.nan), where=counts > 0)
    return mean


def _weighted(values: FloatArray, observed: npt.NDArray[np.bool_]) -> float:
    """Mean over all observed cells."""
    counts = observed.sum(axis=0)
    return float(np.nansum(values * counts) / max(counts.sum(), 1))


def _given_halves(
    model: Any,
    X: Any,
    truth: npt.NDArray[np.bool_],
    observed: npt.NDArray[np.bool_],
    rng: np.random.Generator,
) -> FloatArray:
    """Deviance of each label given the half of the labels it is not in."""
    table = np.where(observed, truth.astype(np.float64), np.nan)
    n_labels = truth.shape[1]
    first = np.isin(np.arange(n_labels), rng.permutation(n_labels)[: n_labels // 2])
    result = np.empty(n_labels)
    for target in (first, ~first):
        given = table.copy()
        given[:, target] = np.nan
        result[target] = _deviance(truth, observed, model.predict_proba(X, given=given))[target]
    return result


# --- tables ----------------------------------------------------------------------------------------------


def _prepare(model: Any, X: Any) -> tuple[list[Any], pd.DataFrame, Any]:
    """Models, the rows as a frame, and how a frame is turned into what was given."""
    as_given = (lambda frame: frame) if isinstance(X, pd.DataFrame) else (lambda frame: frame.to_numpy())
    return one_or_several(model), _as_frame(X), as_given


def _as_frame(X: Any) -> pd.DataFrame:
    if sparse.issparse(X):
        raise DataError("X must be a dense table for this; got a sparse one. Use few rows and X.toarray().")
    if isinstance(X, pd.DataFrame):
        return X.rename(columns=str)
    table = np.asarray(X)
    return pd.DataFrame(table, columns=[f"feature_{place}" for place in range(table.shape[1])])


def _labels_of(frame: pd.DataFrame, labels: npt.ArrayLike) -> LabelCells:
    cells = check_labels(labels)
    if len(cells.positive) != len(frame):
        raise DataError(f"labels must have the rows of X, {len(frame)}; got {len(cells.positive)}.")
    return cells


def _shuffled(frame: pd.DataFrame, members: list[str], rng: np.random.Generator) -> pd.DataFrame:
    """Tear features away from their rows, together."""
    shuffled = frame.copy()
    shuffled[members] = frame[members].iloc[rng.permutation(len(frame))].to_numpy()
    return shuffled.astype(frame.dtypes.to_dict())


def _known_features(features: Sequence[str] | None, frame: pd.DataFrame) -> list[str]:
    if features is None:
        return [str(name) for name in frame]
    unknown = [name for name in features if name not in frame]
    if unknown:
        raise ConfigError(f"feature must be one of {listed(frame.columns)}; got {listed(unknown)}. Check the spelling.")
    return [str(name) for name in features]


def _grid(column: pd.Series[Any], n_points: int) -> list[Any]:
    known = column.dropna()
    if not pd.api.types.is_numeric_dtype(column):
        return sorted(known.unique(), key=str)
    if not len(known):
        raise DataError(f"feature must have values; got none in {str(column.name)!r}. Choose another.")
    values = known.to_numpy(dtype=np.float64)
    distinct = np.unique(values)
    if len(distinct) <= n_points:
        return [float(value) for value in distinct]
    return [float(value) for value in np.unique(np.quantile(values, np.linspace(0.01, 0.99, n_points)))]


def _set(frame: pd.DataFrame, values: Mapping[str, Any]) -> pd.DataFrame:
    moved = frame.copy()
    for name, value in values.items():
        kind = frame[name].dtype
        column = pd.Series([value] * len(frame), index=frame.index)
        # A whole-number column takes a quantile between two of its values as it is.
        moved[name] = column.astype(kind) if not pd.api.types.is_numeric_dtype(kind) else column.astype(np.float64)
    return moved


def _thin(n_rows: int, most: int, rng: np.random.Generator) -> IntArray:
    if n_rows < 1:
        raise DataError("X must have rows; got none.")
    return np.arange(n_rows) if n_rows <= most else np.sort(rng.choice(n_rows, most, replace=False))


def _group_title(members: Sequence[str]) -> str:
    shown = " + ".join(members[:3])
    return shown if len(members) <= 3 else f"{shown} + {len(members) - 3} more"
