r"""What one label tells about another, given the environment: flip a label of the model, look again.

For a model that can be given labels, the association of label :math:`j` with label :math:`i` at a row with features
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

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hotvae.config import require_choice, require_count
from hotvae.errors import DataError, listed
from hotvae.explain.conditional import (
    SCALES,
    FloatArray,
    Models,
    Scale,
    check_between,
    flip_effects,
    model_list,
    names_of,
    places_of,
    probs_alone,
    probs_given,
    row_count,
    take_rows,
    two_sides,
)
from hotvae.explain.groups import rows_of_groups
from hotvae.explain.resampling import Resamples, check_screen, screened

# An interval this close to 0 is 0: the flip of a label that tells nothing leaves only rounding.
_ROUNDING = 1e-9


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
        Most rows to use of the model, drawn at random (a few more where a group would be left with
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
        A model that cannot be given labels, or a parameter out of range.
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
    require_choice("scale", scale, SCALES)
    check_screen(level, false_share, n_shuffles, n_strata)
    require_count("n_bootstrap", n_bootstrap, 20)
    models = model_list(model)
    names = names_of(models)
    chosen = rows_of_groups(groups, row_count(X), max_rows, random_state)
    resamples = Resamples.draw(chosen.places, len(models), n_bootstrap, level, random_state)
    rows = take_rows(X, chosen.used)

    shape = (len(chosen.masks), len(names), len(names))  # group, flipped, listening
    effect, lower, upper = (np.full(shape, np.nan) for _ in range(3))
    for j in range(len(names)):
        sides = [two_sides(each, rows, j, len(names), scale) for each in models]
        flips = np.stack([high - low for low, high in sides])
        flips[:, :, j] = np.nan
        for g, name in enumerate(chosen.masks):
            effect[g, j], lower[g, j], upper[g, j] = resamples.summarise(name, flips)

    screen = None
    if labels is not None:
        probs = np.mean([probs_alone(each, X) for each in models], axis=0)
        screen = screened(labels, probs, chosen.masks, n_shuffles, n_strata, false_share, random_state)
    return association_frame(names, chosen.counts, effect, lower, upper, screen, _ROUNDING)


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
        A model that cannot be given labels, an unknown label, or a parameter out of range.

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
    require_choice("scale", scale, SCALES)
    check_between("level", level, 0, 1)
    require_count("n_bootstrap", n_bootstrap, 20)
    models = model_list(model)
    names = names_of(models)
    wanted = [tuple(places_of(pair, names)) for pair in pairs]
    others = list(range(len(names))) if thirds is None else places_of(thirds, names)
    chosen = rows_of_groups(groups, row_count(X), max_rows, random_state)
    resamples = Resamples.draw(chosen.places, len(models), n_bootstrap, level, random_state)
    rows = take_rows(X, chosen.used)

    listeners: dict[tuple[int, int], list[int]] = {}
    for i, j in wanted:
        for k in others:
            if k not in (i, j):
                listeners.setdefault((j, k), []).append(i)
    found = []
    for (j, k), heard in listeners.items():
        columns = list(dict.fromkeys(heard))
        corner = {
            (a, b): np.stack([probs_given(each, rows, {j: a, k: b}, len(names), scale)[:, columns] for each in models])
            for a in (0.0, 1.0)
            for b in (0.0, 1.0)
        }
        absent = corner[1.0, 0.0] - corner[0.0, 0.0]
        present = corner[1.0, 1.0] - corner[0.0, 1.0]
        for name, n_members in chosen.counts.items():
            values = [resamples.summarise(name, table) for table in (absent, present, present - absent)]
            for column, i in enumerate(columns):
                found.append(
                    {
                        "label_i": names[i],
                        "label_j": names[j],
                        "label_k": names[k],
                        "group": name,
                        "n_rows": n_members,
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
        A model that cannot be given labels, an unknown label, or coordinates that do not fit.

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
    require_choice("scale", scale, SCALES)
    models = model_list(model)
    names = names_of(models)
    places = np.asarray(coordinates, dtype=np.float64)
    n_rows = row_count(X)
    if places.shape != (n_rows, 2):
        raise DataError(f"coordinates must have shape ({n_rows}, 2), one place per row; got {places.shape}.")
    by_actor: dict[int, list[int]] = {}
    for pair in pairs:
        i, j = places_of(pair, names)
        by_actor.setdefault(j, []).append(i)
    parts = []
    for j, heard in by_actor.items():
        effects = np.mean([flip_effects(each, X, names[j], scale=scale) for each in models], axis=0)
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


def association_frame(
    names: Sequence[str],
    n_rows: Mapping[str, int],
    effect: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    screen: tuple[FloatArray, FloatArray] | None,
    rounding: float,
    **more: FloatArray,
) -> pd.DataFrame:
    """Make the table of what was found, a row for every ordered pair and group, from arrays (group, who, on whom).

    A pair is kept when its interval excludes 0, by more than ``rounding``, and it passes the screen, if there is one
    (:func:`~hotvae.explain.resampling.screened`), with the same sign.
    """
    n_labels, n_groups = len(names), len(n_rows)
    kept = (lower > rounding) | (upper < -rounding)
    z, threshold = (np.full_like(effect, np.nan), np.full(n_groups, np.nan)) if screen is None else screen
    if screen is not None:
        # NaN fails every comparison: a pair without residuals is not kept.
        kept &= (np.abs(z) >= threshold[:, None, None]) & (np.sign(z) == np.sign(effect))
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
            **{name: column(values) for name, values in more.items()},
            "residual_z": column(z),
            "null_threshold": np.repeat(threshold, n_pairs),
            "kept": column(kept),
        }
    )


def _category(codes: npt.NDArray[Any], titles: Sequence[str]) -> Any:
    return pd.Categorical.from_codes(codes, categories=pd.Index(list(titles)))
