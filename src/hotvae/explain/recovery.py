"""How much of a known truth a model's associations recover; for virtual regions only.

The truth answers the same questions as the model: :class:`TrueModel` gives exact probabilities, so the
effect a perfect model would show is known for every pair and every group of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hotvae.data.synthetic import Gate, Interaction, VirtualRegion
from hotvae.errors import DataError
from hotvae.explain.conditional import Models
from hotvae.explain.groups import ALL_ROWS, MIN_GROUP_ROWS
from hotvae.explain.interactions import associations

FloatArray = npt.NDArray[np.float64]

NOTHING = 1e-6
"""Exact effects below this, in logits, are rounding: the labels are independent given the features."""

SWITCH_SHARE = 0.25
"""A switch counts as found from this share of its exact size on, in the right direction."""


class TrueModel:
    """A virtual region's own law, in the clothes of a model: what a perfect model would answer.

    Parameters
    ----------
    region : VirtualRegion
        The truth.
    """

    conditional = True

    def __init__(self, region: VirtualRegion) -> None:
        self.region = region
        self.label_names_ = np.array(region.dataset.label_names, dtype=object)
        self.feature_names_in_ = np.array(region.dataset.feature_names, dtype=object)

    def predict_proba(self, X: Any, given: Any = None) -> FloatArray:
        """Exact probabilities, alone or given labels.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_layers)
            Layers.
        given : array-like of shape (n_samples, n_species), optional
            1 present, 0 absent, NaN unknown.
        """
        layers = np.asarray(X, dtype=np.float64)
        return self.region.marginals_at(layers) if given is None else self.region.conditional_probs(layers, given)


@dataclass(frozen=True, eq=False)
class Recovery:
    """How well the associations of a model agree with the truth.

    Attributes
    ----------
    precision : float
        Of the pairs kept over all rows, the share that truly depend on each other given the features, directly or
        through others; NaN when none is kept.
    recall : float
        Of the true interactions, the share whose target and actor are a kept pair, over all rows or where the
        interaction acts.
    sign_accuracy : float
        Of the true interactions, the share whose effect has the sign of the exact one where the interaction acts,
        kept or not. Guessing gives one half.
    switching : float
        Of the interactions that act in one environment only, the share whose effect changes between the two
        environments in the right direction and by at least a quarter of the exact change.
    switch_ratio : float
        Modelled change over exact change, as the slope of a line through 0 over all such interactions: 1 is right, 0
        is a model whose associations are the same everywhere.
    n_kept : int
        Kept pairs over all rows.
    interactions : DataFrame
        One row per true interaction: in words, kept or not, effect and exact effect where it acts, change and exact
        change.
    """

    precision: float
    recall: float
    sign_accuracy: float
    switching: float
    switch_ratio: float
    n_kept: int
    interactions: pd.DataFrame


def score_recovery(
    model: Models,
    region: VirtualRegion,
    rows: npt.ArrayLike | None = None,
    *,
    max_rows: int = 300,
    false_share: float = 0.1,
    random_state: int = 0,
    X: Any = None,
    read: Callable[..., pd.DataFrame] = associations,
) -> Recovery:
    """Score the associations of a model against the interactions of a virtual region.

    Parameters
    ----------
    model : model, or sequence of models
        As in :func:`~hotvae.explain.associations`.
    region : VirtualRegion
        The region the model was trained on.
    rows : array-like of int, optional
        Rows of the region to use, best such that the model was not trained on; all by default.
    max_rows, false_share, random_state
        As in :func:`~hotvae.explain.associations`.
    X : DataFrame or array, optional
        The same rows' features in the form the model wants; by default the layers as a frame.
    read : callable
        What reads the model: :func:`~hotvae.explain.associations`, or :func:`~hotvae.explain.edges` for one with a law.

    Raises
    ------
    DataError
        A region without interactions, or too few rows.

    Notes
    -----
    Effects are on the logit scale, the mean of both directions of a pair: on it an effect need not change where a
    species becomes rare, so a change is a change of the interaction.
    """
    if not region.interactions:
        raise DataError("region must have interactions; got none. Use a larger interaction_scale.")
    data = region.dataset
    chosen = np.arange(data.n_samples) if rows is None else np.asarray(rows, dtype=np.intp)
    layers = pd.DataFrame(np.asarray(data.features)[chosen], columns=list(data.feature_names))
    groups = {ALL_ROWS: np.ones(len(chosen), dtype=bool)}
    for gate in dict.fromkeys(effect.condition for effect in region.interactions if effect.condition is not None):
        opened = gate.openness(layers[gate.layer])
        groups[_title(gate, True)], groups[_title(gate, False)] = opened == 1, opened == 0
    small = [name for name, mask in groups.items() if mask.sum() < MIN_GROUP_ROWS]
    if small:
        raise DataError(f"rows must reach every environment; got fewer than {MIN_GROUP_ROWS} where {small[0]}.")
    common: dict[str, Any] = {"groups": groups, "max_rows": max_rows, "random_state": random_state}
    flips = {"scale": "logit"} if read is associations else {}
    told = layers if X is None else X
    found = read(model, told, data.labels[chosen], false_share=false_share, **common, **flips)
    exact = associations(TrueModel(region), layers, n_bootstrap=20, scale="logit", **common)

    names = list(data.label_names)
    effects, truths = (_symmetric(table, "effect", list(groups), len(names)) for table in (found, exact))
    kept = _symmetric(found, "kept", list(groups), len(names)) > 0
    order = list(groups)
    records = [_check(effect, names, order, effects, truths, kept) for effect in region.interactions]
    table = pd.DataFrame(records)
    upper = np.triu(kept[0], k=1)
    gated = table[table["exact_change"].notna()]
    right = gated["change"] * np.sign(gated["exact_change"]) >= SWITCH_SHARE * gated["exact_change"].abs()
    return Recovery(
        precision=float((np.abs(truths[0]) > NOTHING)[upper].mean()) if upper.any() else float("nan"),
        recall=float(table["kept"].mean()),
        sign_accuracy=float((table["effect"] * table["exact"] > 0).mean()),
        switching=float(right.mean()) if len(gated) else float("nan"),
        switch_ratio=float((gated["change"] * gated["exact_change"]).sum() / (gated["exact_change"] ** 2).sum())
        if len(gated)
        else float("nan"),
        n_kept=int(upper.sum()),
        interactions=table,
    )


def _title(gate: Gate, is_open: bool) -> str:
    side = gate.side if is_open else {"above": "below", "below": "above"}[gate.side]
    return f"{gate.layer} {side} {gate.threshold:g}"


def _symmetric(table: pd.DataFrame, column: str, groups: list[str], n_labels: int) -> FloatArray:
    """Mean of both directions, (group, label, label); the order of a table of associations is known."""
    values = np.zeros((len(groups), n_labels, n_labels))
    values[:, ~np.eye(n_labels, dtype=bool)] = table[column].to_numpy(dtype=np.float64).reshape(len(groups), -1)
    return (values + values.transpose(0, 2, 1)) / 2


def _check(
    interaction: Interaction,
    names: list[str],
    groups: list[str],
    effects: FloatArray,
    truths: FloatArray,
    kept: npt.NDArray[np.bool_],
) -> dict[str, Any]:
    i, j = names.index(interaction.target), names.index(interaction.sources[0])
    gate = interaction.condition
    acting = groups.index(ALL_ROWS if gate is None else _title(gate, True))
    resting = None if gate is None else groups.index(_title(gate, False))
    return {
        "interaction": interaction.describe(),
        "kept": bool(kept[0, i, j] or kept[acting, i, j]),
        "effect": effects[acting, i, j],
        "exact": truths[acting, i, j],
        "change": np.nan if resting is None else effects[acting, i, j] - effects[resting, i, j],
        "exact_change": np.nan if resting is None else truths[acting, i, j] - truths[resting, i, j],
    }
