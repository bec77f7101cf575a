"""Explaining a model: everything its page shows, computed from the model and rows it was not trained on.

The results are plain numbers ready for JSON; :mod:`hotvae.report` writes the page. Everything is thinned out and
rounded here, so that a page of 300 labels stays small: probabilities of maps have one byte, points of curves two, and
only the clearest associations are drawn.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hotvae.checkpoint import json_ready
from hotvae.data.places import degree_columns
from hotvae.errors import DataError, listed
from hotvae.estimators.base import LabelClassifier
from hotvae.estimators.thresholds import evaluate
from hotvae.explain import correlated_groups, deviance_partition, permutation_importance, response_curves
from hotvae.explain.conditional import FloatArray, take_rows
from hotvae.explain.responses import ALL_LABELS
from hotvae.jobs.page_network import gradients_of, network_content
from hotvae.jobs.page_rows import AskedModel, PageRows, digits_of, packed, rounded
from hotvae.jobs.predict import sample_rows
from hotvae.jobs.table_needs import TableNeeds, model_card
from hotvae.jobs.train import label_report
from hotvae.metrics import METRICS, reliability_curve
from hotvae.report.coastline import border_lines, land_rings
from hotvae.report.page import ExplainContent
from hotvae.report.plots import history_title

MOST_MAP_CELLS = 240_000
MOST_CURVE_POINTS = 30_000

_MEANINGS = {
    "example_f1": "agreement of predicted and observed label sets, row by row (F1)",
    "micro_f1": "the same over all cells at once; common labels count most",
    "macro_f1": "the same label by label; rare labels count as much as common ones",
    "hamming_accuracy": "share of cells that are right; high for rare labels even without a model",
    "subset_accuracy": "share of rows that are right in every label",
    "median_auc": "chance that a presence is ranked above an absence, for the label in the middle; 0.5 is guessing",
    "mean_auc": "the same, mean over labels",
    "mean_average_precision": "how clean the top of each label's ranking is; guessing gives its prevalence",
    "precision_at_1": "how often a row's most probable label is there",
    "precision_at_3": "share of the three most probable labels that are there",
    "precision_at_5": "share of the five most probable labels that are there",
    "log_loss": "punishes being sure and wrong; what good probabilities make small",
    "brier_score": "mean squared gap between probability and outcome",
    "calibration_error": "mean gap between predicted probability and observed rate",
}

_CURVES = {"validation_given_log_loss": "validation log loss, half of the labels given"}


def gather_content(
    model: LabelClassifier,
    rows: PageRows,
    *,
    title: str | None = None,
    gradient: str | None = None,
    n_rows: int | None = None,
    max_rows: int = 5000,
    random_state: int = 0,
    command: str = "",
    tell: Callable[[str], None] = lambda _: None,
) -> ExplainContent:
    """Compute everything that a page about a model shows.

    Parameters
    ----------
    model : LabelClassifier
        A fitted model of labels.
    rows : PageRows
        Rows it was not trained on.
    title : str, optional
        Heading of the page.
    gradient : str, optional
        Feature along which the network's slider starts; by default the most important one.
    n_rows : int, optional
        Rows used for associations; by default 400, fewer for more than 75 labels.
    max_rows : int
        Most rows to use at all, drawn at random.
    random_state : int
        Decides what is drawn.
    command : str
        Said at the end of the page.
    tell : callable
        Called with a few words before every step.

    Returns
    -------
    ExplainContent

    Raises
    ------
    DataError
        Too few rows, or a gradient that is no feature.
    """
    n_given = len(rows.labels)
    if n_given < 10:
        raise DataError(f"table must have at least 10 rows to explain a model; got {n_given} ({rows.source}).")
    rng = np.random.default_rng(random_state)
    if n_given > max_rows:
        rows = rows.take(np.sort(rng.choice(n_given, max_rows, replace=False)))
    names = [str(name) for name in model.label_names_]
    tell("predicting")
    asked = AskedModel(model)
    probs = np.asarray(asked.predict_proba(rows.features), dtype=np.float64)
    content = ExplainContent(title or f"{model.title}: {rows.source}", command=command)
    content.card = _data_card(model, rows, n_given)
    content.warnings = _warnings(model, rows, n_given)
    content.recipe = _recipe(model)
    content.settings, content.versions = _settings(model)
    tell("measuring")
    content.metrics = _metrics(model, rows.labels, probs, rng)
    frame = rows.features if isinstance(rows.features, pd.DataFrame) else None
    known = [] if frame is None else [str(name) for name in frame]
    if gradient is not None and gradient not in known:
        raise DataError(f"gradient must be a feature ({listed(known)}); got {gradient!r}. Check the spelling.")
    tell("which features matter")
    importance = None if frame is None else _importance(asked, frame, rows.labels, random_state)
    ranked = [] if frame is None else _ranked_features(frame, importance)
    tell("which labels go together")
    leading = [gradient] if gradient else []
    gradients = gradients_of(rows, frame, [*leading, *(group[0] for group in ranked if group[0] != gradient)])
    network = network_content(asked, rows, gradients, n_rows, random_state)
    tell("whose part is whose")
    partition = _partition(asked, rows, frame, random_state)
    tell("response curves")
    content.data = json_ready(
        {
            "names": names,
            "history": _history(model),
            "reliability": _reliability(rows.labels, probs),
            "labels": _label_rows(model, rows.labels, probs, importance, network, partition),
            "importance": _packed_importance(importance, names),
            "partition": _packed_partition(partition, names),
            "curves": None if frame is None else _curves(asked, frame, ranked, random_state),
            "network": network,
            "map": _map(model, rows, probs, rng),
        }
    )
    return content


# --- tables ----------------------------------------------------------------------------------------------


def _data_card(model: LabelClassifier, rows: PageRows, n_given: int) -> list[tuple[str, str]]:
    card = model_card(model)
    observed = ~np.isnan(rows.labels)
    n_gaps = int((~observed).sum())
    per_row = np.nansum(rows.labels, axis=1)
    needs = TableNeeds.of_model(model)
    source = card.get("data") or {}
    used = f"{len(rows.labels):,}" + (f" of {n_given:,}, drawn at random" if len(rows.labels) < n_given else "")
    shown = {
        "rows on this page": f"{used} ({rows.source})",
        "labels": f"{rows.labels.shape[1]:,}: {_some(model.label_names_)}",
        "labels per row": f"{per_row.mean():.1f} on average, {int(per_row.min())} to {int(per_row.max())}",
        "cells not observed": f"{n_gaps:,} of {observed.size:,}" if n_gaps else "none",
        "features": f"{len(needs.features):,}: {_some(needs.features)}",
        "coordinates": " and ".join(rows.coordinate_names) if rows.coordinates is not None else "none",
        "model": f"{model.title} ({type(model).__name__})",
        "trained on": f"{card.get('n_train', '?')} rows of {card.get('table', 'a table in memory')}, "
        f"{_held_out(model)}",
        "trained": str(card.get("date", "date not noted")),
        "data source": str(source.get("source") or ""),
        "licence": str(source.get("licence") or ""),
        "citation": str(source.get("citation") or ""),
    }
    return [(name, value) for name, value in shown.items() if value]


def _held_out(model: LabelClassifier) -> str:
    card, recipe = model_card(model), getattr(model, "recipe_", None)
    more = f"{card.get('n_validation', '?')} more chose"
    if recipe is None:
        return f"{more} epoch and thresholds (split: {card.get('split', '?')})"
    beside = f", {more} thresholds" if card.get("n_validation") else ""
    return f"each held out once ({recipe.folds}){beside}"


def _some(names: Any) -> str:
    shown = ", ".join(str(name) for name in names[:8])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"


def _warnings(model: LabelClassifier, rows: PageRows, n_given: int) -> list[str]:
    found = []
    if rows.source == model_card(model).get("table"):
        found.append(
            "This table has the name of the table the model was trained on. On rows it has learned from, a model "
            "looks better than it is, and associations look weaker than they are. Use rows it has not seen."
        )
    if n_given < 100:
        found.append(f"There are only {n_given} rows: every number here is rough.")
    return found


def _settings(model: LabelClassifier) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    card = model_card(model)
    settings = [("training command", str(card["command"]))] if card.get("command") else []
    settings += [(name, str(value)) for name, value in model.current_settings().items()]
    packages = ("hotvae", "torch", "numpy", "scikit-learn", "pandas")
    versions = [("python", platform.python_version())] + [(name, version(name)) for name in packages]
    return settings, [*versions, ("page made", datetime.now(UTC).isoformat(timespec="seconds"))]


def _recipe(model: LabelClassifier) -> dict[str, Any]:
    """How a model that looks for its own recipe found it; what is said of candidates stands in their table."""
    recipe = getattr(model, "recipe_", None)
    if recipe is None:
        return {}
    lines = recipe.lines()
    n_before = len(recipe.columns) + 1
    columns = ("name", "log_loss", "outcome", "weight", "seconds")
    state = recipe.state()
    return {
        "lines": [*lines[:n_before], lines[-1]],
        "candidates": [{name: entry[name] for name in columns} for entry in state["entries"]],
    }


def _metrics(
    model: LabelClassifier, labels: npt.NDArray[Any], probs: FloatArray, rng: np.random.Generator
) -> list[dict[str, Any]]:
    cut: Any = model.thresholds_ or 0.5
    found = evaluate(labels, probs, cut)
    # The standard error needs few resamples; large tables can afford few only.
    n_draws = int(np.clip(6e6 / labels.size, 30, 200))
    draws = []
    for _ in range(n_draws):
        rows = rng.integers(0, len(labels), len(labels))
        draws.append(evaluate(labels[rows], probs[rows], cut))
    result = []
    for name, metric in METRICS.items():
        half = 1.96 * float(np.nanstd([draw[name] for draw in draws])) if np.isfinite(found[name]) else float("nan")
        used = found["thresholds"].get(name)
        result.append(
            {
                "title": metric.title,
                "value": found[name],
                # No measure is below 0; a normal interval around one near it would be. In this order NaN stays NaN.
                "low": max(found[name] - half, 0.0),
                "high": max(found[name] + half, 0.0),
                "threshold": f"{used:g}" if isinstance(used, int | float) else "per label" if used is not None else "",
                "better": "larger" if metric.greater_is_better else "smaller",
                "meaning": _MEANINGS.get(name, ""),
            }
        )
    return result


def _label_rows(
    model: LabelClassifier,
    labels: npt.NDArray[Any],
    probs: FloatArray,
    importance: pd.DataFrame | None,
    network: Mapping[str, Any],
    partition: pd.DataFrame | None,
) -> dict[str, Any]:
    report = label_report(model, labels, probs)
    names = [str(name) for name in model.label_names_]
    observed = np.maximum((~np.isnan(labels)).sum(axis=0), 1)
    rate = np.nansum(labels, axis=0) / observed
    null = -(rate * np.log(rate.clip(1e-12)) + (1 - rate) * np.log((1 - rate).clip(1e-12)))
    loss = report["log_loss"].to_numpy(dtype=np.float64)
    explained = np.divide(null - loss, null, out=np.full(len(null), np.nan), where=null > 1e-9)
    columns: list[tuple[str, str, Sequence[Any]]] = [
        ("label", "", names),
        ("present", "rows in which it was found", report["n_present"].tolist()),
        ("rate", "share of observed rows in which it was found", rounded(rate, 3)),
        ("predicted", "mean predicted probability", rounded(report["mean_probability"], 3)),
        ("AUC", "chance that a presence is ranked above an absence", rounded(report["auc"], 3)),
        ("F1", "at the tuned threshold", rounded(report["f1"], 3)),
        ("explained", "share of the deviance that the features explain", rounded(explained, 3)),
    ]
    if partition is not None and (partition["part"] == "other labels").any():
        own = partition[partition["part"] == "other labels"].set_index("label")["share"]
        help_text = "share of the deviance that half of the other labels explain beyond the features"
        columns.append(("by others", help_text, rounded(own.loc[names], 3)))
    if importance is not None:
        best = importance[importance["label"] != ALL_LABELS]
        best = best.loc[best.groupby("label")["importance"].idxmax()].set_index("label")
        top = [str(best["group"][name]) if best["importance"][name] > 0 else "" for name in names]
        columns.append(("main feature", "the feature that its prediction leans on most", top))
    if network.get("partners") is not None:
        columns.append(
            ("closest label", "clearest association over all rows, + together, − apart", network["partners"])
        )
    return {
        "columns": [{"title": title, "help": text} for title, text, _ in columns],
        "rows": [list(row) for row in zip(*(values for _, _, values in columns), strict=True)],
    }


def _history(model: LabelClassifier) -> dict[str, Any] | None:
    history = getattr(model, "history_", None)
    if history is None or not history.records:
        return None
    wanted = ["loss", *(name for name in history.records[-1] if name.startswith("validation_"))]
    step = max(1, len(history.records) // 300)
    records = history.records[::step]
    best = next((record for record in history.records if record["epoch"] == history.best_epoch), None)
    series = []
    for name in wanted:
        series.append(
            {
                "title": _CURVES.get(name) or history_title(name),
                "values": [digits_of(record.get(name)) for record in records],
                "best": None if best is None else digits_of(best.get(name)),
            }
        )
    return {"epochs": [record["epoch"] for record in records], "best": history.best_epoch, "series": series}


def _reliability(labels: npt.NDArray[Any], probs: FloatArray) -> dict[str, Any]:
    curve = reliability_curve(labels, probs)
    return {
        "predicted": rounded(curve.mean_predicted, 4),
        "observed": rounded(curve.observed_rate, 4),
        "count": [int(count) for count in curve.count],
    }


# --- features --------------------------------------------------------------------------------------------


def _importance(model: AskedModel, frame: pd.DataFrame, labels: npt.NDArray[Any], seed: int) -> pd.DataFrame | None:
    try:
        groups = correlated_groups(frame, threshold=0.9)
        return permutation_importance(model, frame, labels, groups=groups, n_repeats=3, max_rows=500, random_state=seed)
    except DataError:  # nothing observed: there is no deviance to rise
        return None


def _ranked_features(frame: pd.DataFrame, importance: pd.DataFrame | None) -> list[list[str]]:
    """Features that nearly repeat each other side by side, the most important first."""
    if importance is None:
        return [[str(name)] for name in frame]
    members = correlated_groups(frame, threshold=0.9)
    return [members[group] for group in dict.fromkeys(importance["group"])]


def _packed_importance(importance: pd.DataFrame | None, names: Sequence[str]) -> dict[str, Any] | None:
    if importance is None:
        return None
    groups = list(dict.fromkeys(importance["group"]))[:25]
    table = importance[importance["group"].isin(groups)]
    wide = table.pivot(index="group", columns="label", values="importance").loc[groups]
    overall = table[table["label"] == ALL_LABELS].set_index("group").loc[groups]
    return {
        "groups": groups,
        "overall": rounded(overall["importance"], 5),
        "lower": rounded(overall["lower"], 5),
        "upper": rounded(overall["upper"], 5),
        "labels": [rounded(wide[name], 4) for name in names],
    }


def _curves(model: AskedModel, frame: pd.DataFrame, ranked: list[list[str]], seed: int) -> dict[str, Any] | None:
    n_labels = len(model.label_names_)
    order = [name for group in ranked for name in group if frame[name].notna().any()]
    n_points = 15 if n_labels <= 100 else 10
    shown = order[: int(np.clip(MOST_CURVE_POINTS // (n_labels * n_points), 4, 12))]
    if not shown:
        return None
    table = response_curves(model, frame, shown, n_points=n_points, n_bootstrap=60, max_rows=100, random_state=seed)
    features = []
    for name in shown:
        own = table[table["feature"] == name]
        values = list(dict.fromkeys(own["value"]))
        is_number = all(isinstance(value, float) for value in values)
        cube = own[["probability", "lower", "upper"]].to_numpy().reshape(len(values), n_labels, 3)
        features.append(
            {
                "name": name,
                "values": [digits_of(value) for value in values] if is_number else [str(value) for value in values],
                "numeric": is_number,
                "marks": rounded(np.nanquantile(frame[name].astype(float), np.linspace(0, 1, 21)), None)
                if is_number
                else [],
                # label, kind (probability, lower, upper), point
                "points": packed(cube.transpose(1, 2, 0) * 65535, np.uint16),
            }
        )
    return {"features": features, "left_out": max(0, len(order) - len(shown))}


def _partition(model: AskedModel, rows: PageRows, frame: pd.DataFrame | None, seed: int) -> pd.DataFrame | None:
    if frame is None or not (~np.isnan(rows.labels)).any():
        return None
    space = [name for name in rows.coordinate_names if name in frame]
    n_rows = int(np.clip(60_000 // max(1, rows.labels.shape[1]), 100, 400))
    return deviance_partition(
        model, frame, rows.labels, space=space, n_draws=10, n_halves=2, max_rows=n_rows, random_state=seed
    )


def _packed_partition(partition: pd.DataFrame | None, names: Sequence[str]) -> dict[str, Any] | None:
    if partition is None:
        return None
    parts = list(dict.fromkeys(partition["part"]))
    wide = partition.pivot(index="label", columns="part", values="share")[parts]
    return {
        "parts": parts,
        "overall": rounded(wide.loc[ALL_LABELS], 4),
        "labels": [rounded(row, 3) for row in wide.loc[list(names)].to_numpy()],
    }


# --- map -------------------------------------------------------------------------------------------------


def _map(model: LabelClassifier, rows: PageRows, probs: FloatArray, rng: np.random.Generator) -> dict[str, Any] | None:
    if rows.coordinates is None or not np.isfinite(rows.coordinates).all():
        return None
    n_labels = probs.shape[1]
    most = int(np.clip(MOST_MAP_CELLS // (2 * n_labels), 200, 1500))
    picked = np.arange(len(probs))
    if len(picked) > most:
        picked = np.sort(rng.choice(len(picked), most, replace=False))
    columns = degree_columns(rows.coordinate_names, rows.coordinates)
    x, y = columns or (0, 1)
    places = rows.coordinates[picked][:, [x, y]]
    margin = np.maximum(np.ptp(places, axis=0) * 0.06, 1e-3)
    low, high = places.min(axis=0) - margin, places.max(axis=0) + margin
    land: list[list[float]] = []
    borders: list[list[float]] = []
    if columns is not None:
        rings = land_rings((*low, *high), tolerance=float(max(high - low)) / 700)
        land = [rounded(ring.ravel(), 2) for ring in rings]
        borders = [rounded(line.ravel(), 2) for line in border_lines((*low, *high))]
    labels = rows.labels[picked]
    seed = int(rng.integers(2**31 - 1))
    draws = sample_rows(model, take_rows(rows.features, picked), 100, seed)
    counts = np.concatenate([block.sum(axis=2, dtype=np.int64) for block in draws])
    lower, upper = np.quantile(counts, [0.05, 0.95], axis=0)
    complete = ~np.isnan(labels).any(axis=1)
    return {
        "degrees": columns is not None,
        "names": [rows.coordinate_names[x], rows.coordinate_names[y]],
        "bounds": rounded([*low, *high], None),
        "x": rounded(places[:, 0], None),
        "y": rounded(places[:, 1], None),
        "n_all": len(probs),
        "land": land,
        "borders": borders,
        "richness": rounded(probs[picked].sum(axis=1), 2),
        "lower": rounded(lower, 1),
        "upper": rounded(upper, 1),
        "found": [int(count) if whole else None for count, whole in zip(np.nansum(labels, 1), complete, strict=True)],
        "probs": packed(probs[picked].T * 250, np.uint8),
        "seen": packed(np.where(np.isnan(labels), 2, labels).T, np.uint8),
    }
