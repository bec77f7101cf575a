r"""What one label tells about another, given the environment: ask the model, flip a label, look again.

For a model that can be told labels, the association of label :math:`j` with label :math:`i` at a row with features
:math:`x` is the flip

.. math:: \Delta_{ij}(x) = P(y_i = 1 \mid x, y_j = 1) - P(y_i = 1 \mid x, y_j = 0),

all other labels unknown. It has a direction (a rare label can tell much about a common one and hear little from
it) and it has a place, so its mean over some rows can be held against its mean over others. It is what the model
has learned about who is found with whom: **no proof that one acts on the other**. A feature nobody measured looks
just the same.

Three things stand between a number and a claim. An interval from resampled rows (and models, where several are
given). A screen against chance, which asks the labels themselves: see :func:`shuffle_within_strata`. And the same
sign in both.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from hotvae.errors import ConfigError, DataError, listed
from hotvae.explain.associations import residual_associations
from hotvae.metrics.multilabel import check_labels, check_probs

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.intp]
Scale = Literal["probability", "logit"]

ALL_ROWS = "all rows"
"""Name of the only group when none are given."""

MIN_PROBABILITY = 1e-3
"""On the logit scale probabilities are kept this far from 0 and 1: beyond, a logit is more noise than statement."""

MIN_GROUP_ROWS = 5
"""Fewest rows of a group; the mean of fewer says more about them than about the group."""

ENOUGH_GROUP_ROWS = 20
"""So many rows of every group are asked about, if it has them, whatever ``max_rows`` leaves of it."""

# An interval this close to 0 is 0: the flip of a label that tells nothing leaves only rounding.
_ROUNDING = 1e-9

_BOOTSTRAP_SEED, _SHUFFLE_SEED, _PICK_SEED = 1, 2, 3


class ConditionalModel(Protocol):
    """What the functions of this module need of a model: names of labels, and probabilities given some of them."""

    @property
    def label_names_(self) -> Any:
        """Names of the labels, in the order of the columns."""
        ...

    def predict_proba(self, X: Any, given: Any = None) -> npt.NDArray[Any]:
        """Probabilities of shape (n_samples, n_labels); ``given`` holds 1, 0 and NaN for unknown."""
        ...


Models = ConditionalModel | Sequence[ConditionalModel]


def answers_given(model: object) -> bool:
    """Tell whether a model can be told labels.

    Parameters
    ----------
    model : object
        Any classifier.

    Returns
    -------
    bool
        The model's own ``conditional``, or, without one, whether ``predict_proba`` takes ``given``.

    Examples
    --------
    >>> from hotvae.baselines.mlknn import MLkNN
    >>> from hotvae.baselines.probit import ProbitJSDM
    >>> answers_given(ProbitJSDM()), answers_given(MLkNN())
    (True, False)
    """
    own = getattr(model, "conditional", None)
    if own is not None:
        return bool(own)
    predict = getattr(model, "predict_proba", None)
    return predict is not None and "given" in inspect.signature(predict).parameters


def flip_effects(model: ConditionalModel, X: Any, label: str, *, scale: Scale = "probability") -> FloatArray:
    """Change of every label's probability when one label goes from absent to present, row by row.

    Parameters
    ----------
    model : model with ``predict_proba(X, given=...)`` and ``label_names_``
        A fitted model.
    X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
        Rows.
    label : str
        The label that is flipped.
    scale : {"probability", "logit"}
        Differences of probabilities, or of their logits (which do not shrink where a label is rare).

    Returns
    -------
    ndarray of shape (n_samples, n_labels)
        NaN in the column of ``label`` itself.

    Raises
    ------
    ConfigError
        A model that cannot be told labels, an unknown label or scale.

    Examples
    --------
    >>> from hotvae.data.synthetic import virtual_region
    >>> from hotvae.explain.recovery import TrueModel
    >>> region = virtual_region(50, random_state=0)
    >>> effects = flip_effects(TrueModel(region), region.dataset.features, "species_01")
    >>> effects.shape
    (50, 24)
    """
    _check_scale(scale)
    names = _names_of(_model_list(model))
    place = _places([label], names)[0]
    low, high = _two_sides(model, X, place, len(names), scale)
    effects = high - low
    effects[:, place] = np.nan
    return effects


def associations(
    model: Models,
    X: Any,
    labels: npt.ArrayLike | None = None,
    *,
    groups: Mapping[str, npt.ArrayLike] | npt.ArrayLike | None = None,
    scale: Scale = "probability",
    level: float = 0.95,
    n_bootstrap: int = 200,
    false_share: float = 0.1,
    n_shuffles: int = 20,
    n_strata: int = 10,
    max_rows: int | None = 500,
    random_state: int = 0,
) -> pd.DataFrame:
    """Tabulate how much each label tells about each other one, for all rows or group by group.

    Parameters
    ----------
    model : model, or sequence of models
        Fitted models with ``predict_proba(X, given=...)`` and ``label_names_``; several (say, of different seeds)
        are averaged, and their disagreement widens the intervals.
    X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
        Rows, best such that no model was trained on.
    labels : array-like of shape (n_samples, n_labels), optional
        What was observed, NaN where nothing was; in the order of ``label_names_``. With it, chance is screened.
    groups : array-like of names, or mapping of name to bool array, optional
        One name per row (missing: the row is left out), as from :func:`gradient_groups`; or a mask for each
        group, which may overlap. By default all rows are one group.
    scale : {"probability", "logit"}
        See :func:`flip_effects`.
    level : float
        Coverage of the intervals.
    n_bootstrap : int
        Resamples behind the intervals.
    false_share : float
        Share of chance findings to be expected among the kept pairs of a group.
    n_shuffles, n_strata : int
        Shuffled label tables behind the screen, and strata of equal size within which is shuffled.
    max_rows : int or None
        Most rows that the model is asked about, drawn at random (a few more where a group would be left with
        less than 20); the screen uses them all.
    random_state : int
        Decides which rows, resamples and shuffles.

    Returns
    -------
    DataFrame
        A row for every ordered pair and group: ``label_i`` (who listens), ``label_j`` (who is flipped), ``group``,
        ``n_rows``, ``effect``, ``lower``, ``upper``, ``residual_z`` (of the observed labels, see
        :func:`~hotvae.explain.residual_associations`), ``null_threshold`` (what its size has to reach) and
        ``kept``.

    Raises
    ------
    ConfigError
        A model that cannot be told labels, or a parameter out of range.
    DataError
        Labels or groups that do not fit.

    Notes
    -----
    **Intervals** resample the rows of a group with replacement and, of several models, the models. With one
    model they say how the mean depends on the rows, not what another training would have found.

    **The screen** does not look at the model's effects but at the labels: residuals ``y - p`` of two labels that
    are independent given the features do not correlate. Labels are shuffled within strata of rows to which the
    model gives about the same probability, each label by itself, and the residual z-scores of all pairs are
    computed anew. That keeps every label's prevalence and its course over the environment and destroys what two
    labels have with each other, so it is what "nothing but the environment" looks like, for these rows and this
    model. The threshold is the smallest at which the mean number of shuffled pairs beyond it is at most
    ``false_share`` of the observed number. A pair is kept when its residuals pass, its interval excludes 0 and
    both have the same sign. Without ``labels`` only the interval decides.

    The screen guards against effects that the model has made up, and against chance. It does not guard against
    a feature nobody measured, nor against niches the model has learned badly. No model is trained again on
    shuffled labels; who wants that finds the shuffling in :func:`shuffle_within_strata`.

    Examples
    --------
    >>> from hotvae.data.synthetic import virtual_region
    >>> from hotvae.explain.recovery import TrueModel
    >>> region = virtual_region(400, random_state=0)
    >>> data = region.dataset
    >>> table = associations(TrueModel(region), data.features, data.labels, max_rows=50)
    >>> len(table), table.columns[:3].tolist()
    (552, ['label_i', 'label_j', 'group'])
    """
    _check_scale(scale)
    _check_between("level", level, 0, 1)
    _check_between("false_share", false_share, 0, 1)
    for name, count, least in (
        ("n_bootstrap", n_bootstrap, 20),
        ("n_shuffles", n_shuffles, 1),
        ("n_strata", n_strata, 1),
    ):
        _check_count(name, count, least)
    models = _model_list(model)
    names = _names_of(models)
    n_rows = _row_count(X)
    masks = group_masks(groups, n_rows)
    picked = _pick_rows(masks, max_rows, random_state)
    asked = np.unique(np.concatenate(list(picked.values())))
    place = {name: np.searchsorted(asked, rows) for name, rows in picked.items()}
    resamples = _Resamples.draw(place, len(models), n_bootstrap, level, random_state)
    rows = take_rows(X, asked)

    shape = (len(masks), len(names), len(names))  # group, flipped, listening
    effect, lower, upper = (np.full(shape, np.nan) for _ in range(3))
    for j in range(len(names)):
        sides = [_two_sides(each, rows, j, len(names), scale) for each in models]
        flips = np.stack([high - low for low, high in sides])
        flips[:, :, j] = np.nan
        for g, name in enumerate(masks):
            effect[g, j], lower[g, j], upper[g, j] = resamples.summarise(name, flips)

    z, threshold = np.full(shape, np.nan), np.full(len(masks), np.nan)
    if labels is not None:
        probs = np.mean([_predict(each, X) for each in models], axis=0)
        z, threshold = _screened(labels, probs, masks, n_shuffles, n_strata, false_share, random_state)
    clear = (lower > _ROUNDING) | (upper < -_ROUNDING)
    if labels is not None:
        # NaN fails every comparison: a pair without residuals is not kept.
        clear &= (np.abs(z) >= threshold[:, None, None]) & (np.sign(z) == np.sign(effect))
    return _frame(names, {name: len(rows) for name, rows in picked.items()}, effect, lower, upper, z, threshold, clear)


def third_order(
    model: Models,
    X: Any,
    pairs: Sequence[tuple[str, str]],
    *,
    thirds: Sequence[str] | None = None,
    groups: Mapping[str, npt.ArrayLike] | npt.ArrayLike | None = None,
    scale: Scale = "logit",
    level: float = 0.95,
    n_bootstrap: int = 200,
    max_rows: int | None = 200,
    random_state: int = 0,
) -> pd.DataFrame:
    r"""How much the effect of one label on another depends on a third: what pairs cannot say.

    Parameters
    ----------
    model, X, groups, level, n_bootstrap, max_rows, random_state
        As in :func:`associations`.
    pairs : sequence of (str, str)
        Pairs to look at: (who listens, who is flipped).
    thirds : sequence of str, optional
        Third labels to try; all by default. Each (flipped, third) pair costs four passes over the rows.
    scale : {"probability", "logit"}
        By default logits, on which labels that act one by one add up and this term is 0; on probabilities it also
        picks up that a sure thing cannot become surer.

    Returns
    -------
    DataFrame
        ``label_i``, ``label_j``, ``label_k``, ``group``, ``n_rows``, ``effect_k_absent``, ``effect_k_present``
        (of j on i), their difference ``effect`` with ``lower`` and ``upper``, and ``clear``: the interval excludes
        0. There is no screen by observed labels: read the clear ones as questions.

    Raises
    ------
    ConfigError
        A model that cannot be told labels, an unknown label, or a parameter out of range.

    Notes
    -----
    .. math:: \Delta_{ijk}(x) = \bigl[f(1, 1) - f(0, 1)\bigr] - \bigl[f(1, 0) - f(0, 0)\bigr],
              \quad f(a, b) = \operatorname{logit} P(y_i = 1 \mid x, y_j = a, y_k = b)

    Examples
    --------
    >>> from hotvae.data.synthetic import virtual_region
    >>> from hotvae.explain.recovery import TrueModel
    >>> region = virtual_region(60, random_state=0)
    >>> effect = next(effect for effect in region.interactions if effect.order == 3)
    >>> actor, witness = effect.sources
    >>> table = third_order(TrueModel(region), region.dataset.features, [(effect.target, actor)], thirds=[witness])
    >>> bool(table["effect"][0] * effect.strength > 0)
    True
    """
    _check_scale(scale)
    _check_between("level", level, 0, 1)
    _check_count("n_bootstrap", n_bootstrap, 20)
    models = _model_list(model)
    names = _names_of(models)
    wanted = [tuple(_places(pair, names)) for pair in pairs]
    others = list(range(len(names))) if thirds is None else _places(thirds, names)
    masks = group_masks(groups, _row_count(X))
    picked = _pick_rows(masks, max_rows, random_state)
    asked = np.unique(np.concatenate(list(picked.values())))
    resamples = _Resamples.draw(
        {name: np.searchsorted(asked, rows) for name, rows in picked.items()},
        len(models),
        n_bootstrap,
        level,
        random_state,
    )
    rows = take_rows(X, asked)

    listeners: dict[tuple[int, int], list[int]] = {}
    for i, j in wanted:
        for k in others:
            if k not in (i, j):
                listeners.setdefault((j, k), []).append(i)
    found = []
    for (j, k), heard in listeners.items():
        columns = list(dict.fromkeys(heard))
        corner = {
            (a, b): np.stack([_given(each, rows, {j: a, k: b}, len(names), scale)[:, columns] for each in models])
            for a in (0.0, 1.0)
            for b in (0.0, 1.0)
        }
        absent = corner[1.0, 0.0] - corner[0.0, 0.0]
        present = corner[1.0, 1.0] - corner[0.0, 1.0]
        for name, members in picked.items():
            values = [resamples.summarise(name, table) for table in (absent, present, present - absent)]
            for column, i in enumerate(columns):
                found.append(
                    {
                        "label_i": names[i],
                        "label_j": names[j],
                        "label_k": names[k],
                        "group": name,
                        "n_rows": len(members),
                        "effect_k_absent": values[0][0][column],
                        "effect_k_present": values[1][0][column],
                        "effect": values[2][0][column],
                        "lower": values[2][1][column],
                        "upper": values[2][2][column],
                    }
                )
    columns_out = ["label_i", "label_j", "label_k", "group", "n_rows", "effect_k_absent", "effect_k_present"]
    table = pd.DataFrame(found, columns=[*columns_out, "effect", "lower", "upper"])
    table["clear"] = (table["lower"] > _ROUNDING) | (table["upper"] < -_ROUNDING)
    return table


def association_map(
    model: Models,
    X: Any,
    pairs: Sequence[tuple[str, str]],
    coordinates: npt.ArrayLike,
    *,
    coordinate_names: Sequence[str] = ("x", "y"),
    scale: Scale = "probability",
) -> pd.DataFrame:
    """Effect of one label on another at every row, with the row's place: associations over the map.

    Parameters
    ----------
    model, X, scale
        As in :func:`associations`.
    pairs : sequence of (str, str)
        (Who listens, who is flipped).
    coordinates : array-like of shape (n_samples, 2)
        Places of the rows.
    coordinate_names : sequence of str
        Names of the two columns of coordinates.

    Returns
    -------
    DataFrame
        ``row``, the two coordinates, ``label_i``, ``label_j``, ``effect``.

    Raises
    ------
    ConfigError, DataError
        A model that cannot be told labels, an unknown label, or coordinates that do not fit.

    Examples
    --------
    >>> from hotvae.data.synthetic import virtual_region
    >>> from hotvae.explain.recovery import TrueModel
    >>> region = virtual_region(30, random_state=0)
    >>> pair = (region.interactions[0].target, region.interactions[0].sources[0])
    >>> table = association_map(TrueModel(region), region.dataset.features, [pair], region.dataset.coordinates)
    >>> len(table), table.columns.tolist()
    (30, ['row', 'x', 'y', 'label_i', 'label_j', 'effect'])
    """
    _check_scale(scale)
    models = _model_list(model)
    names = _names_of(models)
    places = np.asarray(coordinates, dtype=np.float64)
    n_rows = _row_count(X)
    if places.shape != (n_rows, 2):
        raise DataError(f"coordinates must have shape ({n_rows}, 2), one place per row; got {places.shape}.")
    by_actor: dict[int, list[int]] = {}
    for pair in pairs:
        i, j = _places(pair, names)
        by_actor.setdefault(j, []).append(i)
    parts = []
    for j, heard in by_actor.items():
        sides = [_two_sides(each, X, j, len(names), scale) for each in models]
        effects = np.mean([high - low for low, high in sides], axis=0)
        parts += [
            pd.DataFrame(
                {
                    "row": np.arange(n_rows),
                    coordinate_names[0]: places[:, 0],
                    coordinate_names[1]: places[:, 1],
                    "label_i": names[i],
                    "label_j": names[j],
                    "effect": effects[:, i],
                }
            )
            for i in heard
        ]
    columns = ["row", *coordinate_names[:2], "label_i", "label_j", "effect"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def gradient_groups(values: npt.ArrayLike, n_groups: int = 5, *, name: str = "") -> pd.Series[Any]:
    """Divide rows into groups of equal size along a feature, low to high.

    Parameters
    ----------
    values : array-like of shape (n_samples,)
        The feature; rows without a number belong to no group.
    n_groups : int
        Groups; values that are tied stay together, so there may be fewer.
    name : str
        Of the feature, for the groups' names.

    Returns
    -------
    Series of category
        Ordered; names such as ``"rainfall 0.1 to 0.4"``.

    Raises
    ------
    DataError
        Fewer than two groups can be told apart.

    Examples
    --------
    >>> gradient_groups([1.0, 2.0, 3.0, 4.0, float("nan")], 2, name="depth").tolist()
    ['depth 1 to 2', 'depth 1 to 2', 'depth 3 to 4', 'depth 3 to 4', nan]
    """
    _check_count("n_groups", n_groups, 2)
    column = pd.Series(np.asarray(values, dtype=np.float64))
    column[~np.isfinite(column)] = np.nan
    edges: Any = (
        np.unique(np.nanquantile(column, np.linspace(0, 1, n_groups + 1)[1:-1])) if column.notna().any() else []
    )
    # Upper edges belong to the group below, so that a feature of 0 and 1 falls into two.
    codes = np.searchsorted(edges, column.to_numpy(), side="left")
    known = column.notna().to_numpy()
    present = np.unique(codes[known])
    if len(present) < 2:
        what = f"{name!r}" if name else "the feature"
        raise DataError(f"values must differ enough for two groups; got one group of {what}. Choose another feature.")
    titles = {}
    for code in present:
        inside = column[known & (codes == code)]
        low, high = f"{inside.min():.4g}", f"{inside.max():.4g}"
        titles[code] = " ".join(filter(None, [name, low if low == high else f"{low} to {high}"]))
    if len(set(titles.values())) < len(titles):  # too close for four digits
        titles = {code: f"{title} ({number + 1})" for number, (code, title) in enumerate(titles.items())}
    named = pd.Categorical(
        [titles[code] if is_known else None for code, is_known in zip(codes, known, strict=True)],
        categories=list(titles.values()),
        ordered=True,
    )
    return pd.Series(named, name=name or None)


def group_changes(table: pd.DataFrame, first: str, second: str) -> pd.DataFrame:
    """Compare two groups of a table of associations: two regions, or the two ends of a gradient.

    Parameters
    ----------
    table : DataFrame
        From :func:`associations`, with both groups.
    first, second : str
        Names of two groups without common rows.

    Returns
    -------
    DataFrame
        ``label_i``, ``label_j``, the effect in both groups, their ``change`` (second minus first) with ``lower`` and
        ``upper``, ``clear`` (the interval excludes 0 and the pair is kept in at least one group), largest change first.

    Raises
    ------
    DataError
        A group that is not in the table.

    Notes
    -----
    The two groups have different rows, so half-widths of their intervals are added as squares. Effects on the
    probability scale also change where a label becomes rare; ask for ``scale="logit"`` to see what is left then.

    Examples
    --------
    >>> rows = [("a", "b", "north", 0.5, 0.4, 0.6, True), ("a", "b", "south", 0.1, 0.0, 0.2, False)]
    >>> table = pd.DataFrame(rows, columns=["label_i", "label_j", "group", "effect", "lower", "upper", "kept"])
    >>> group_changes(table, "south", "north")[["change", "lower", "upper"]].round(3).to_numpy().tolist()
    [[0.4, 0.259, 0.541]]
    """
    known = list(dict.fromkeys(str(name) for name in table["group"]))
    for name in (first, second):
        if name not in known:
            raise DataError(f"group must be one of {listed(known)}; got {name!r}. Check the spelling.")
    keys = ["label_i", "label_j"]
    sides = [
        table.loc[table["group"].astype(str) == name, [*keys, "effect", "lower", "upper", "kept"]]
        for name in (first, second)
    ]
    both = sides[0].merge(sides[1], on=keys, suffixes=("_first", "_second"))
    change = both["effect_second"] - both["effect_first"]
    half = [(both[f"upper_{side}"] - both[f"lower_{side}"]) / 2 for side in ("first", "second")]
    width = np.sqrt(half[0] ** 2 + half[1] ** 2)
    result = both[keys].copy()
    result["effect_first"], result["effect_second"] = both["effect_first"], both["effect_second"]
    result["change"], result["lower"], result["upper"] = change, change - width, change + width
    result["clear"] = (np.abs(change) > width) & (both["kept_first"] | both["kept_second"])
    return result.sort_values("change", key=np.abs, ascending=False, ignore_index=True)


def shuffle_within_strata(
    labels: npt.ArrayLike, probs: npt.ArrayLike, *, n_strata: int = 10, random_state: int | np.random.Generator = 0
) -> FloatArray:
    """Shuffle every label by itself among rows to which the model gives about the same probability.

    Parameters
    ----------
    labels : array-like of shape (n_samples, n_labels)
        0, 1, or NaN where nothing was observed; gaps stay where they are.
    probs : array-like of shape (n_samples, n_labels)
        Predicted probabilities; each label has its own strata, of equal size along them.
    n_strata : int
        Strata of each label; more follow the environment closer and shuffle less.
    random_state : int or Generator
        Decides the shuffle.

    Returns
    -------
    ndarray of shape (n_samples, n_labels)
        Labels that follow the environment as before, and no longer each other.

    Raises
    ------
    DataError, ConfigError
        Tables that do not fit, or no stratum.

    Examples
    --------
    >>> labels = np.array([[1, 0], [0, 0], [1, 1], [0, 1]])
    >>> shuffled = shuffle_within_strata(labels, [[0.1, 0.1], [0.2, 0.2], [0.8, 0.8], [0.9, 0.9]], n_strata=2)
    >>> shuffled[:2].sum(axis=0).tolist(), shuffled[2:].sum(axis=0).tolist()
    ([1.0, 0.0], [1.0, 2.0])
    """
    _check_count("n_strata", n_strata, 1)
    cells = check_labels(labels)
    table = np.where(cells.observed, cells.positive.astype(np.float64), np.nan)
    strata = _strata(check_probs(probs, table.shape), cells.observed, n_strata)
    return _shuffled(table, strata, np.random.default_rng(random_state))


# --- asking ----------------------------------------------------------------------------------------------


def take_rows(X: Any, rows: IntArray) -> Any:
    """Take rows of a table of any kind.

    Examples
    --------
    >>> take_rows(pd.DataFrame({"depth": [1, 2, 3]}), np.array([2]))["depth"].tolist()
    [3]
    """
    if isinstance(X, pd.DataFrame):
        return X.iloc[rows]
    return X[rows] if hasattr(X, "shape") else np.asarray(X)[rows]


def _row_count(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _model_list(model: Models) -> list[ConditionalModel]:
    models: list[Any] = list(model) if isinstance(model, list | tuple) else [model]
    if not models:
        raise ConfigError("model must be a fitted model or several; got none. Pass at least one.")
    for each in models:
        if not answers_given(each):
            kind = type(each).__name__
            raise ConfigError(
                f"model must answer predict_proba(X, given=...); got {kind}, which does not. "
                "It says nothing about labels given others: choose hotvae, probit, mpvae or a chain."
            )
    return models


def _names_of(models: Sequence[ConditionalModel]) -> list[str]:
    names = [str(name) for name in models[0].label_names_]
    for each in models[1:]:
        if [str(name) for name in each.label_names_] != names:
            raise ConfigError(
                "models must have the same labels in the same order; got different ones. Train them alike."
            )
    return names


def _places(wanted: Sequence[str], names: Sequence[str]) -> list[int]:
    order = {name: place for place, name in enumerate(names)}
    unknown = [name for name in wanted if name not in order]
    if unknown:
        raise ConfigError(
            f"label must be one of the model's ({listed(names)}); got {listed(unknown)}. Check the spelling."
        )
    return [order[name] for name in wanted]


def _predict(model: ConditionalModel, X: Any) -> FloatArray:
    return np.asarray(model.predict_proba(X), dtype=np.float64)


def _given(model: ConditionalModel, X: Any, known: Mapping[int, float], n_labels: int, scale: Scale) -> FloatArray:
    told = np.full((_row_count(X), n_labels), np.nan)
    for place, value in known.items():
        told[:, place] = value
    probs = np.asarray(model.predict_proba(X, given=told), dtype=np.float64)
    if scale == "probability":
        return probs
    inner = probs.clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    logits: FloatArray = np.log(inner) - np.log1p(-inner)
    return logits


def _two_sides(
    model: ConditionalModel, X: Any, place: int, n_labels: int, scale: Scale
) -> tuple[FloatArray, FloatArray]:
    return _given(model, X, {place: 0.0}, n_labels, scale), _given(model, X, {place: 1.0}, n_labels, scale)


# --- groups and resamples --------------------------------------------------------------------------------


def group_masks(groups: Mapping[str, npt.ArrayLike] | npt.ArrayLike | None, n_rows: int) -> dict[str, BoolArray]:
    """Turn groups, however they were given, into one mask of rows each.

    Parameters
    ----------
    groups : array-like of names, mapping of name to mask, or None
        As in :func:`associations`.
    n_rows : int
        Rows there are.

    Returns
    -------
    dict of str to ndarray of bool

    Raises
    ------
    DataError
        Groups that do not fit the rows, or have too few.

    Examples
    --------
    >>> masks = group_masks(["n"] * 5 + ["s"] * 5 + [None], 11)
    >>> [(name, int(mask.sum())) for name, mask in masks.items()]
    [('n', 5), ('s', 5)]
    """
    if groups is None:
        masks = {ALL_ROWS: np.ones(n_rows, dtype=bool)}
    elif isinstance(groups, Mapping):
        masks = {str(name): np.asarray(mask) for name, mask in groups.items()}
        wrong = [name for name, mask in masks.items() if mask.shape != (n_rows,) or mask.dtype != np.bool_]
        if wrong:
            raise DataError(f"groups must be masks of {n_rows} rows, True or False; got others for {listed(wrong)}.")
    else:
        column = groups if isinstance(groups, pd.Series) else pd.Series(np.asarray(groups, dtype=object))
        if len(column) != n_rows:
            raise DataError(f"groups must name one group per row, {n_rows}; got {len(column)}.")
        if isinstance(column.dtype, pd.CategoricalDtype):
            found: list[Any] = [name for name in column.cat.categories if (column == name).any()]
        else:
            found = list(dict.fromkeys(column[column.notna()]))
        masks = {str(name): (column == name).to_numpy(dtype=bool) for name in found}
    small = [name for name, mask in masks.items() if mask.sum() < MIN_GROUP_ROWS]
    if small or not masks:
        raise DataError(
            f"groups must have at least {MIN_GROUP_ROWS} rows each; got fewer in {listed(small) or 'no group at all'}. "
            "Use fewer groups, or more rows."
        )
    return masks


def _pick_rows(masks: Mapping[str, BoolArray], max_rows: int | None, seed: int) -> dict[str, IntArray]:
    """Rows of each group that the model is asked about: one draw for all, topped up where a group is short."""
    n_rows = len(next(iter(masks.values())))
    if max_rows is None or max_rows >= n_rows:
        return {name: np.flatnonzero(mask) for name, mask in masks.items()}
    _check_count("max_rows", max_rows, MIN_GROUP_ROWS)
    order = np.random.default_rng([seed, _PICK_SEED]).permutation(n_rows)
    picked = {}
    for name, mask in masks.items():
        ranks = np.flatnonzero(mask[order])
        enough = max(int((ranks < max_rows).sum()), min(ENOUGH_GROUP_ROWS, max_rows))
        picked[name] = np.sort(order[ranks[:enough]])
    return picked


@dataclass(frozen=True, eq=False)
class _Resamples:
    """Bootstrap weights of the rows of each group and of the models."""

    places: Mapping[str, IntArray]
    row_weights: Mapping[str, FloatArray]  # (draw, row of the group)
    model_weights: FloatArray  # (draw, model)
    tail: float

    @classmethod
    def draw(cls, places: Mapping[str, IntArray], n_models: int, n_draws: int, level: float, seed: int) -> _Resamples:
        rng = np.random.default_rng([seed, _BOOTSTRAP_SEED])
        row_weights = {
            name: rng.multinomial(len(rows), np.full(len(rows), 1 / len(rows)), size=n_draws) / len(rows)
            for name, rows in places.items()
        }
        model_weights = rng.multinomial(n_models, np.full(n_models, 1 / n_models), size=n_draws) / n_models
        return cls(places, row_weights, model_weights, (1 - level) / 2)

    def summarise(self, group: str, values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mean and interval, (column,) each, of values of shape (model, row, column)."""
        inside = values[:, self.places[group]]
        draws = np.zeros((len(self.model_weights), inside.shape[2]))
        for weight, table in zip(self.model_weights.T, inside, strict=True):
            draws += weight[:, None] * (self.row_weights[group] @ table)
        ordered = np.sort(draws, axis=0)
        last = len(ordered) - 1
        low, high = (ordered[round(share * last)] for share in (self.tail, 1 - self.tail))
        return inside.mean(axis=(0, 1)), low, high


# --- the screen ------------------------------------------------------------------------------------------


def _strata(probs: npt.NDArray[Any], observed: BoolArray, n_strata: int) -> npt.NDArray[np.int64]:
    """Stratum of every cell, by rank of its probability among the observed cells of the label; gaps are -1."""
    ranked = np.where(observed, probs, np.inf)
    ranks = ranked.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    strata = ranks * n_strata // np.maximum(observed.sum(axis=0), 1)
    return np.where(observed, strata, -1)


def _shuffled(table: FloatArray, strata: npt.NDArray[np.int64], rng: np.random.Generator) -> FloatArray:
    # Rows sorted by stratum, once as they are and once by chance within it: the second fills the first.
    home = np.argsort(strata, axis=0, kind="stable")
    drawn = np.lexsort((rng.random(table.shape), strata), axis=0)
    result = np.empty_like(table)
    np.put_along_axis(result, home, np.take_along_axis(table, drawn, axis=0), axis=0)
    return result


def _screened(
    labels: npt.ArrayLike,
    probs: FloatArray,
    masks: Mapping[str, BoolArray],
    n_shuffles: int,
    n_strata: int,
    false_share: float,
    seed: int,
) -> tuple[FloatArray, FloatArray]:
    """Residual z of every group, (group, label, label), and the threshold of each group."""
    cells = check_labels(labels)
    check_probs(probs, cells.positive.shape)
    table = np.where(cells.observed, cells.positive.astype(np.float64), np.nan)
    upper = np.triu_indices(table.shape[1], k=1)
    z, thresholds = [], []
    for number, mask in enumerate(masks.values()):
        rng = np.random.default_rng([seed, _SHUFFLE_SEED, number])
        own, own_probs = table[mask], probs[mask]
        found = residual_associations(own, own_probs).z
        strata = _strata(own_probs, cells.observed[mask], n_strata)
        null = [residual_associations(_shuffled(own, strata, rng), own_probs).z[upper] for _ in range(n_shuffles)]
        z.append(found)
        thresholds.append(chance_threshold(found[upper], np.stack(null), false_share))
    return np.stack(z), np.array(thresholds)


def chance_threshold(found: npt.ArrayLike, null: npt.ArrayLike, false_share: float) -> float:
    """Smallest size at which chance makes up at most a share of what is found.

    Parameters
    ----------
    found : array-like of shape (n_pairs,)
        Statistics, NaN where there is none.
    null : array-like of shape (n_shuffles, n_pairs)
        The same for shuffled labels.
    false_share : float
        Share to be expected by chance.

    Returns
    -------
    float
        Infinite when no threshold will do.

    Examples
    --------
    >>> chance_threshold([0.5, -4.0, 5.0, 1.0], [[1.0, -1.5, 0.2, 0.4], [0.3, 2.0, -0.1, 0.6]], 0.1)
    4.0
    """
    sizes = np.sort(np.abs(np.asarray(found, dtype=np.float64)))
    sizes = sizes[np.isfinite(sizes)]
    shuffled = np.asarray(null, dtype=np.float64)
    chance = np.sort(np.abs(shuffled[np.isfinite(shuffled)]))
    if not len(sizes):
        return float("inf")
    n_found = len(sizes) - np.searchsorted(sizes, sizes, side="left")
    n_chance = (len(chance) - np.searchsorted(chance, sizes, side="left")) / len(shuffled)
    passing = n_chance <= false_share * n_found
    return float(sizes[passing].min()) if passing.any() else float("inf")


def _frame(
    names: Sequence[str],
    n_rows: Mapping[str, int],
    effect: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    z: FloatArray,
    threshold: FloatArray,
    kept: BoolArray,
) -> pd.DataFrame:
    n_labels, n_groups = len(names), len(n_rows)
    flipped, listening = np.nonzero(~np.eye(n_labels, dtype=bool))
    n_pairs = len(flipped)

    def column(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return values[:, flipped, listening].ravel()

    return pd.DataFrame(
        {
            "label_i": _category(np.tile(listening, n_groups), names),
            "label_j": _category(np.tile(flipped, n_groups), names),
            "group": _category(np.repeat(np.arange(n_groups), n_pairs), list(n_rows)),
            "n_rows": np.repeat(list(n_rows.values()), n_pairs),
            "effect": column(effect),
            "lower": column(lower),
            "upper": column(upper),
            "residual_z": column(z),
            "null_threshold": np.repeat(threshold, n_pairs),
            "kept": column(kept),
        }
    )


def _category(codes: npt.NDArray[Any], titles: Sequence[str]) -> Any:
    return pd.Categorical.from_codes(codes, categories=pd.Index(list(titles)))


def pair_table(table: pd.DataFrame) -> pd.DataFrame:
    """Take both directions of every pair together: what a network of lines can show.

    Parameters
    ----------
    table : DataFrame
        From :func:`associations`.

    Returns
    -------
    DataFrame
        ``label_a``, ``label_b``, ``group``, ``effect`` (mean of both directions), ``effect_on_a``, ``effect_on_b``,
        ``kept`` (both directions have one sign and at least one is kept) and ``residual_z`` if the table has it;
        strongest first within each group.

    Examples
    --------
    >>> rows = [("a", "b", "all", 0.5, True), ("b", "a", "all", 0.1, False)]
    >>> pair_table(pd.DataFrame(rows, columns=["label_i", "label_j", "group", "effect", "kept"]))
      label_a label_b group  effect  effect_on_a  effect_on_b  kept
    0       a       b   all     0.3          0.5          0.1  True
    """
    # Numbers instead of names: a table of 300 labels and 20 groups has two million rows.
    if isinstance(table["label_i"].dtype, pd.CategoricalDtype):
        names = [str(name) for name in table["label_i"].cat.categories]
    else:
        names = sorted({str(name) for column in ("label_i", "label_j") for name in table[column].unique()})
    listening, flipped = (
        pd.Categorical(table[column].astype(str), categories=names).codes.astype(np.int64)
        for column in ("label_i", "label_j")
    )
    group, titles = pd.factorize(table["group"])
    first = listening < flipped
    key = (group * len(names) + np.minimum(listening, flipped)) * len(names) + np.maximum(listening, flipped)
    both, on_a, on_b = np.intersect1d(key[first], key[~first], return_indices=True)
    effect, kept = table["effect"].to_numpy(dtype=np.float64), table["kept"].to_numpy(dtype=bool)
    effect_on_a, effect_on_b = effect[first][on_a], effect[~first][on_b]
    mean = (effect_on_a + effect_on_b) / 2
    result = pd.DataFrame(
        {
            "label_a": _category(both // len(names) % len(names), names),
            "label_b": _category(both % len(names), names),
            "group": _category(both // len(names) ** 2, [str(title) for title in titles]),
            "effect": mean,
            "effect_on_a": effect_on_a,
            "effect_on_b": effect_on_b,
            "kept": (kept[first][on_a] | kept[~first][on_b]) & (effect_on_a * effect_on_b > 0),
        }
    )
    if "residual_z" in table:
        result["residual_z"] = table["residual_z"].to_numpy()[first][on_a]  # the same in both directions
    return result.iloc[np.lexsort((-np.abs(mean), both // len(names) ** 2))].reset_index(drop=True)


def listed_pairs(table: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Go through the unordered pairs of labels that a table of associations keeps in at least one group.

    Examples
    --------
    >>> rows = [("b", "a", "all", 0.5, True), ("a", "b", "all", 0.1, True), ("a", "c", "all", 0.1, False)]
    >>> list(listed_pairs(pd.DataFrame(rows, columns=["label_i", "label_j", "group", "effect", "kept"])))
    [('a', 'b')]
    """
    kept = pair_table(table)
    kept = kept[kept["kept"]]
    yield from dict.fromkeys((str(a), str(b)) for a, b in zip(kept["label_a"], kept["label_b"], strict=True))


# --- checks ----------------------------------------------------------------------------------------------


def _check_scale(scale: str) -> None:
    if scale not in ("probability", "logit"):
        raise ConfigError(f"scale must be 'probability' or 'logit'; got {scale!r}. Choose one of them.")


def _check_between(name: str, value: float, low: float, high: float) -> None:
    if not low < value < high:
        raise ConfigError(f"{name} must be above {low} and below {high}; got {value}.")


def _check_count(name: str, value: int, least: int) -> None:
    if value < least:
        raise ConfigError(f"{name} must be at least {least}; got {value}.")
