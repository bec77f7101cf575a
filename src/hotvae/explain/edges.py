r"""The edges of a joint law, read as they are: what each label tells each other one, where, and where that turns.

A model with a law (:class:`~hotvae.HotVAEClassifier`, :class:`~hotvae.JointClassifier`) has learned how labels speak to
each other. At a row with features :math:`x`, the edge from label :math:`j` to label :math:`i` is what knowing j alone
does to the logit of i,

.. math:: E_{ij}(x) = \operatorname{logit} P(y_i \mid x, y_j = 1) - \operatorname{logit} P(y_i \mid x, y_j = 0),

with a part for presence and one for absence. That is the flip of :func:`~hotvae.explain.associations` on the logit
scale, to the last digit; but the base is asked once, and not twice for every label. The law can also be learned anew
on resampled rows, in seconds, so that intervals say what another training would have found.

As with associations: **no proof that one label acts on another**. A feature nobody measured looks just the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import t as student

from hotvae.config import require_count
from hotvae.errors import ConfigError, DataError, listed
from hotvae.estimators.law_rows import LawRows
from hotvae.estimators.stacked import StackedClassifier
from hotvae.explain.conditional import FloatArray, names_of, places_of, probs_alone, row_count, take_rows
from hotvae.explain.groups import gradient_groups, rows_of_groups
from hotvae.explain.interactions import association_frame
from hotvae.explain.resampling import check_screen, screened, shares_taken

LawModels = StackedClassifier | Sequence[StackedClassifier]

# An interval this close to 0 is 0: messages that say nothing leave only rounding.
_ROUNDING = 1e-6
_ROWS_SEED = 8


def edges(
    model: LawModels,
    X: Any,
    labels: npt.ArrayLike | None = None,
    *,
    groups: Mapping[str, npt.ArrayLike] | npt.ArrayLike | None = None,
    n_fits: int = 10,
    level: float = 0.95,
    false_share: float = 0.1,
    n_shuffles: int = 20,
    n_strata: int = 10,
    max_rows: int | None = 500,
    random_state: int = 0,
) -> pd.DataFrame:
    """Tabulate the edges of a law between all labels, for all rows or group by group.

    Parameters
    ----------
    model : HotVAEClassifier or JointClassifier, or sequence of them
        Fitted, with a law; of several (say, of different seeds) the mean is taken.
    n_fits : int
        Laws that are learned anew on resampled training rows, for the intervals; with several models, theirs are the
        fits. 0, or a model from a file, resamples only the rows of X.
    X, labels, groups, level, false_share, n_shuffles, n_strata, max_rows, random_state
        As in :func:`~hotvae.explain.associations`.

    Returns
    -------
    DataFrame
        The columns of :func:`~hotvae.explain.associations`, effects on the logit scale; and ``presence`` and
        ``absence``: what knowing the label as present, or as absent, adds to the logit of the listener.

    Raises
    ------
    ConfigError
        A model without a law, or a parameter out of range.
    DataError
        Labels or groups that do not fit.

    Notes
    -----
    The interval is the effect ± its standard deviation over fits, each with its own resample of the rows of the group,
    times Student's quantile: of few fits the deviation itself is uncertain. Members of the stack are not fitted anew:
    what is uncertain about the features' own say is not in it. A pair is kept by the rules of
    :func:`~hotvae.explain.associations`.
    """
    models = _law_models(model)
    check_screen(level, false_share, n_shuffles, n_strata)
    require_count("n_fits", n_fits, 0)
    names = names_of(models)
    chosen = rows_of_groups(groups, row_count(X), max_rows, random_state)
    own, fits = _fits(models, take_rows(X, chosen.used), n_fits, random_state)

    n_labels = len(names)
    shape = (len(chosen.masks), n_labels, n_labels)  # group, who speaks, who listens
    effect, spread, presence, absence = (np.full(shape, np.nan) for _ in range(4))
    n_draws, random = len(fits) if len(fits) > 1 else 200, np.random.default_rng([random_state, _ROWS_SEED])
    draws = {name: shares_taken(len(rows), n_draws, random) for name, rows in chosen.places.items()}
    for j in range(n_labels):
        sides = [rows.edges(j) for rows in own]
        present, absent = (np.mean([pair[side] for pair in sides], axis=0) for side in (0, 1))
        flips = np.stack([high - low for high, low in (rows.edges(j) for rows in fits)]) if len(fits) > 1 else None
        for g, (name, inside) in enumerate(chosen.places.items()):
            presence[g, j], absence[g, j] = present[inside].mean(axis=0), absent[inside].mean(axis=0)
            effect[g, j] = presence[g, j] - absence[g, j]
            table = (present - absent)[None, inside] if flips is None else flips[:, inside]
            spread[g, j] = _spread(table, draws[name])
    half = student.ppf(0.5 + level / 2, n_draws - 1) * spread
    lower, upper = effect - half, effect + half

    screen = None
    if labels is not None:
        probs = np.mean([probs_alone(each, X) for each in models], axis=0)
        screen = screened(labels, probs, chosen.masks, n_shuffles, n_strata, false_share, random_state)
    more = {"presence": presence, "absence": absence}
    return association_frame(names, chosen.counts, effect, lower, upper, screen, _ROUNDING, **more)


def sign_changes(
    model: LawModels,
    X: Any,
    gradient: npt.ArrayLike,
    *,
    name: str = "",
    pairs: Sequence[tuple[str, str]] | None = None,
    n_groups: int = 8,
    n_fits: int = 10,
    level: float = 0.95,
    max_rows: int | None = 1000,
    random_state: int = 0,
) -> pd.DataFrame:
    """Find where along a gradient an edge turns: labels that go together here and avoid each other there.

    Parameters
    ----------
    model, X, n_fits, level, max_rows, random_state
        As in :func:`edges`.
    gradient : array-like of shape (n_samples,)
        The feature along which to look.
    name : str
        Of the feature.
    pairs : sequence of (str, str), optional
        Pairs to look at: (who listens, who speaks); all by default.
    n_groups : int
        Parts of equal size that the gradient is divided into.

    Returns
    -------
    DataFrame
        A row for each turn: ``label_i``, ``label_j``, ``at`` (where on the gradient the line through the means of two
        neighbouring parts crosses 0), ``below`` and ``above`` (the largest clear edge on either side), ``clear``
        (whether both have intervals that exclude 0, and opposite signs); clear ones first, the largest change first.
        Turns that are not clear are listed as well: read those as questions.

    Raises
    ------
    ConfigError, DataError
        A model without a law, an unknown label, or a gradient that does not fit.
    """
    values = np.asarray(gradient, dtype=np.float64)
    if values.shape != (row_count(X),):
        raise DataError(f"gradient must have a value for each of {row_count(X)} rows; got shape {values.shape}.")
    parts = gradient_groups(values, n_groups, name=name)
    table = edges(model, X, groups=parts, n_fits=n_fits, level=level, max_rows=max_rows, random_state=random_state)
    wanted = None
    if pairs is not None:
        names = names_of(_law_models(model))
        wanted = {tuple(names[place] for place in places_of(pair, names)) for pair in pairs}
    titles = [str(title) for title in parts.cat.categories]
    centres = np.array([values[(parts == title).to_numpy()].mean() for title in titles])
    found = []
    by_pair = table.groupby(["label_i", "label_j"], observed=True, sort=False)
    for (listening, speaking), own in by_pair:
        if wanted is not None and (str(listening), str(speaking)) not in wanted:
            continue
        ordered = own.set_index(own["group"].astype(str)).loc[titles]
        found += _turns(str(listening), str(speaking), ordered, centres)
    result = pd.DataFrame(found, columns=["label_i", "label_j", "at", "below", "above", "clear"])
    size = (result["above"] - result["below"]).abs()
    order = np.lexsort((-size.to_numpy(dtype=np.float64), ~result["clear"].to_numpy(dtype=bool)))
    return result.iloc[order].reset_index(drop=True)


def edge_agreement(table: pd.DataFrame, flips: pd.DataFrame) -> dict[str, float]:
    """Compare edges with flips of the same model, pair by pair and group by group.

    Parameters
    ----------
    table : DataFrame
        From :func:`edges`.
    flips : DataFrame
        From :func:`~hotvae.explain.associations`.

    Returns
    -------
    dict
        ``correlation`` of the effects; ``same_sign``, the share of pairs; ``kept_by_both``, of those that either keeps;
        ``largest_gap``, which says something where both have the logit scale; ``n_pairs``.

    Raises
    ------
    DataError
        Tables that have no pair in common.

    Examples
    --------
    >>> rows = [("a", "b", "all rows", 0.5, True), ("b", "a", "all rows", 0.1, False)]
    >>> table = pd.DataFrame(rows, columns=["label_i", "label_j", "group", "effect", "kept"])
    >>> edge_agreement(table, table)["largest_gap"]
    0.0
    """
    keys = ["label_i", "label_j", "group"]
    one, two = (each.astype(dict.fromkeys(keys, str))[[*keys, "effect", "kept"]] for each in (table, flips))
    both = one.merge(two, on=keys, suffixes=("_edge", "_flip")).dropna(subset=["effect_edge", "effect_flip"])
    if both.empty:
        raise DataError("tables must have pairs in common; got none. Read both from the same model and groups.")
    ours, theirs = both["effect_edge"].to_numpy(), both["effect_flip"].to_numpy()
    either = both["kept_edge"] | both["kept_flip"]
    varies = len(both) > 1 and ours.std() > 0 and theirs.std() > 0
    return {
        "correlation": float(np.corrcoef(ours, theirs)[0, 1]) if varies else float("nan"),
        "same_sign": float((np.sign(ours) == np.sign(theirs)).mean()),
        "kept_by_both": float((both["kept_edge"] & both["kept_flip"]).sum() / either.sum()) if either.any() else 1.0,
        "largest_gap": float(np.abs(ours - theirs).max()),
        "n_pairs": float(len(both)),
    }


# --- pieces --------------------------------------------------------------------------------------------------


def _law_models(model: LawModels) -> list[StackedClassifier]:
    models: list[Any] = list(model) if isinstance(model, list | tuple) else [model]
    wrong = [type(each).__name__ for each in models if not isinstance(each, StackedClassifier)]
    if wrong or not models:
        raise ConfigError(
            f"model must have a law between its labels; got {listed(wrong) or 'none'}. Use HotVAEClassifier or "
            "JointClassifier, or ask for associations, which flip labels of any model."
        )
    return models


def _fits(models: Sequence[StackedClassifier], X: Any, n_fits: int, seed: int) -> tuple[list[LawRows], list[LawRows]]:
    """Rows under the law of each model, and under laws whose differences say how sure it is."""
    own = [each.law_rows(X) for each in models]
    if len(own) > 1 or not n_fits or getattr(models[0], "out_of_fold_", None) is None:
        return own, own
    laws = models[0].resampled_laws(n_fits, seed)
    return own, [LawRows(law, own[0].logits, own[0].gates) for law in laws]


def _spread(flips: FloatArray, weights: FloatArray) -> FloatArray:
    """Take the mean of a group's rows, resampled for each fit, and how much it differs between fits."""
    means = weights @ flips[0] if len(flips) == 1 else np.einsum("fn,fnl->fl", weights[: len(flips)], flips)
    found: FloatArray = means.std(axis=0, ddof=1)
    return found


def _turns(listening: str, speaking: str, table: pd.DataFrame, centres: FloatArray) -> list[dict[str, Any]]:
    """Places where the mean edge of neighbouring parts changes its sign."""
    effect = table["effect"].to_numpy(dtype=np.float64)
    lower, upper = (table[side].to_numpy(dtype=np.float64) for side in ("lower", "upper"))
    is_clear = (lower > _ROUNDING) | (upper < -_ROUNDING)
    found = []
    for k in np.flatnonzero(np.sign(effect[:-1]) * np.sign(effect[1:]) < 0):
        share = effect[k] / (effect[k] - effect[k + 1])
        sides = []
        for part, sign in ((slice(0, k + 1), np.sign(effect[k])), (slice(k + 1, None), np.sign(effect[k + 1]))):
            good = np.where(is_clear[part] & (np.sign(effect[part]) == sign), np.abs(effect[part]), -1.0)
            best = int(good.argmax()) if good.max() > 0 else (k if part.start == 0 else 0)
            sides.append((float(effect[part][best]), bool(good.max() > 0)))
        found.append(
            {
                "label_i": listening,
                "label_j": speaking,
                "at": float(centres[k] + share * (centres[k + 1] - centres[k])),
                "below": sides[0][0],
                "above": sides[1][0],
                "clear": sides[0][1] and sides[1][1],
            }
        )
    return found
