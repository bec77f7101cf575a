"""The network of a page about a model: which labels go together, for all rows and along gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hotvae.errors import DataError
from hotvae.explain import associations, gradient_groups, pair_table, third_order
from hotvae.explain.groups import ALL_ROWS
from hotvae.jobs.page_rows import AskedModel, PageRows, digits_of, rounded
from hotvae.report.layout import network_layout

MOST_EDGES = 200
"""Associations that are drawn; more make a ball of wool."""

FALSE_SHARE = 0.02
"""Chance findings among the kept pairs of a group; small, as a pair has many groups to be kept in."""

FOLLOWED_Z = 2.0
"""A pair that is clear over all rows is clear in a group where its residual z-score has this size and its sign."""

MOST_GRADIENTS = 4
N_GROUPS = 5

_NOT_CONDITIONAL = (
    "This kind of model predicts every label from the features alone. It cannot be given labels, so it says nothing "
    "about which labels go together. HOT-VAE, the probit JSDM, MPVAE and classifier chains can: train one "
    "of them (hotvae models lists them) and explain it."
)


def network_content(
    model: AskedModel,
    rows: PageRows,
    gradients: Mapping[str, pd.Series[Any]],
    n_rows: int | None,
    seed: int,
) -> dict[str, Any]:
    """Compute which labels go together, over all rows and along gradients, and where the page draws them."""
    names = [str(name) for name in model.label_names_]
    if not model.conditional:
        return {"reason": _NOT_CONDITIONAL}
    if len(names) < 2:
        return {"reason": "There is only one label, so there is nothing for it to go with."}
    asked = n_rows or int(np.clip(30_000 // len(names), 60, 400))
    masks: dict[str, npt.NDArray[np.bool_]] = {ALL_ROWS: np.ones(len(rows.labels), dtype=bool)}
    described = []
    for name, groups in gradients.items():
        titles = [str(title) for title in groups.cat.categories]
        described.append({"feature": name, "groups": [title.removeprefix(name).strip() for title in titles]})
        masks |= {f"{name}\n{title}": (groups == title).to_numpy() for title in titles}
    table = associations(
        model,
        rows.features,
        rows.labels,
        groups=masks,
        max_rows=asked,
        n_bootstrap=100,
        false_share=FALSE_SHARE,
        # All pairs are counted together: of many labels few shuffles are enough.
        n_shuffles=int(np.clip(600_000 // len(names) ** 2, 5, 20)),
        random_state=seed,
    )
    pairs = pair_table(table)
    code = pairs["label_a"].cat.codes.to_numpy(dtype=np.int64) * len(names) + pairs["label_b"].cat.codes.to_numpy()
    pairs["kept"] |= np.isin(code, code[pairs["kept"] & (pairs["group"] == ALL_ROWS)]) & _is_followed(pairs)
    kept = pairs["kept"].to_numpy()
    size = pairs["effect"].abs()[kept].groupby(code[kept]).max().sort_values(ascending=False)
    picked = size.index[:MOST_EDGES].to_numpy()
    edges = [list(divmod(int(number), len(names))) for number in picked]
    chosen = [(names[a], names[b]) for a, b in edges]
    shown = np.isin(code, picked)
    effects = pairs[shown].assign(pair=code[shown]).pivot(index="pair", columns="group").loc[picked]
    order = list(masks)

    def column(what: str, digits: int) -> list[list[float]]:
        if not chosen:
            return []
        return [rounded(row, digits) for row in effects[what][order].to_numpy(dtype=np.float64)]

    counts = table.groupby("group", observed=True)["n_rows"].first()
    thirds = _thirds(model, rows, chosen[:12], names, seed)
    overall = pairs[(pairs["group"].astype(str) == ALL_ROWS) & pairs["kept"]]
    return {
        "n_rows": int(counts[ALL_ROWS]),
        "n_pairs": len(size),
        "n_tried": len(names) * (len(names) - 1) // 2,
        "edges": edges,
        "effects": column("effect", 3),
        "on_a": [row[0] for row in column("effect_on_a", 3)],
        "on_b": [row[0] for row in column("effect_on_b", 3)],
        "kept": [[int(value) for value in row] for row in column("kept", 0)],
        "gradients": described,
        "nodes": _layout(edges, [row[0] for row in column("effect", 3)], seed),
        "thirds": thirds,
        "partners": _partners(overall, names),
    }


def _is_followed(pairs: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Whether the residuals of a group bear out the effect, for pairs whose existence was screened over all rows.

    A fifth of the rows would have to find each pair anew among thousands; to follow one that is known is easier.
    """
    agree = pairs["residual_z"] * np.sign(pairs["effect"]) >= FOLLOWED_Z
    followed: npt.NDArray[np.bool_] = (agree & (pairs["effect_on_a"] * pairs["effect_on_b"] > 0)).to_numpy(dtype=bool)
    return followed


def gradients_of(rows: PageRows, frame: pd.DataFrame | None, features: Sequence[str]) -> dict[str, pd.Series[Any]]:
    """Group rows along the first features that divide them, then along coordinates."""
    found: dict[str, pd.Series[Any]] = {}
    for name in features:
        if frame is not None and len(found) < MOST_GRADIENTS and pd.api.types.is_numeric_dtype(frame[name]):
            found |= _usable(name, frame[name])
    if rows.coordinates is not None:
        for name, values in zip(rows.coordinate_names, rows.coordinates.T, strict=False):
            if name not in found:
                found |= _usable(name, values)
    return found


def _usable(name: str, values: Any) -> dict[str, pd.Series[Any]]:
    try:
        groups = gradient_groups(values, N_GROUPS, name=name)
    except DataError:
        return {}
    return {name: groups} if groups.value_counts().min() >= 10 else {}


def _thirds(
    model: AskedModel, rows: PageRows, pairs: Sequence[tuple[str, str]], names: Sequence[str], seed: int
) -> list[list[Any]]:
    """Third labels with which a pair clearly changes, tried among the closest relations of the pair."""
    near: dict[str, list[str]] = {}
    for a, b in pairs:
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    found = []
    for a, b in pairs:
        others = [name for name in dict.fromkeys([*near[a], *near[b]]) if name not in (a, b)][:4]
        if others:
            found.append(
                third_order(
                    model, rows.features, [(a, b)], thirds=others, scale="probability", max_rows=60, random_state=seed
                )
            )
    if not found:
        return []
    table = pd.concat(found, ignore_index=True)
    table = table[table["clear"] & (table["effect"].abs() >= 0.03)]
    table = table.sort_values("effect", key=np.abs, ascending=False)
    # Of the same three labels the clearest way round is enough.
    three = [frozenset(labels) for labels in table[["label_i", "label_j", "label_k"]].to_numpy().tolist()]
    table = table[~pd.Series(three, index=table.index, dtype=object).duplicated()][:12]
    place = {name: number for number, name in enumerate(names)}
    return [
        [
            place[str(row.label_i)],
            place[str(row.label_j)],
            place[str(row.label_k)],
            digits_of(row.effect_k_absent),
            digits_of(row.effect_k_present),
        ]
        for row in table.itertuples()
    ]


def _partners(overall: pd.DataFrame, names: Sequence[str]) -> list[str]:
    best: dict[str, str] = {}
    columns = (overall[name].tolist() for name in ("label_a", "label_b", "effect"))
    for first, second, effect in zip(*columns, strict=True):  # strongest first
        sign = "+" if effect > 0 else "−"
        best.setdefault(str(first), f"{sign} {second}")
        best.setdefault(str(second), f"{sign} {first}")
    return [best.get(name, "") for name in names]


def _layout(edges: Sequence[Sequence[int]], effects: Sequence[float], seed: int) -> list[list[float]]:
    """Places of the labels that have an edge: (label, x, y)."""
    members = sorted({label for edge in edges for label in edge})
    index = {label: place for place, label in enumerate(members)}
    numbered = [(index[first], index[second]) for first, second in edges]
    places = network_layout(numbered, np.array(effects, dtype=np.float64), random_state=seed)
    return [[label, *rounded(place, 3)] for label, place in zip(members, places, strict=True)]
