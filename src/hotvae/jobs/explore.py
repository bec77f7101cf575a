"""The community explorer of a model: one HTML file with its law and a grid of places.

:func:`explorer_content` is the whole of it: a fitted model and some places in, all that the page shows out.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hotvae.checkpoint import json_ready
from hotvae.data.dataset import Dataset
from hotvae.errors import ConfigError, ModelError, hushed, warn_of_data
from hotvae.estimators.base import LabelClassifier
from hotvae.estimators.joint_law import JointLaw
from hotvae.estimators.law_rows import LawRows
from hotvae.estimators.registry import load_model
from hotvae.estimators.stacked import StackedClassifier
from hotvae.estimators.trust import LEVELS
from hotvae.explain.stand_in import StandIn, learn_stand_in
from hotvae.features.columns import ColumnPlan
from hotvae.features.scaling import FeatureScaler
from hotvae.files import check_new_file
from hotvae.geo.maps import MapModel, MapOptions, learn_spread
from hotvae.jobs.explorer_places import MOST_CELLS, ExplorerPlaces, places_of_dataset, places_of_file
from hotvae.jobs.maps import place_names
from hotvae.jobs.predict import Watch
from hotvae.jobs.table_needs import TableNeeds, model_card
from hotvae.report.explorer import ExplorerContent, Precision
from hotvae.report.page import write_page

_Say = Callable[[str], None]

# Share of right calls that a page promises, and how many cells communities are drawn for, how often.
_LEVEL, _DRAWN, _N_DRAWS = 0.9, 300, 200
# Of the range of training, how far a slider goes each way.
_REACH = 0.5


@dataclass(frozen=True)
class ExplorerRun:
    """What came of :func:`explore_model`.

    Attributes
    ----------
    page : Path
        The file.
    n_places, n_labels : int
        What it holds.
    megabytes : float
        Its size.
    notes : list of str
        What a reader should know of it.
    """

    page: Path
    n_places: int
    n_labels: int
    megabytes: float
    notes: list[str]


def explore_model(
    model_folder: str | Path,
    grid: str | Path,
    out: str | Path,
    *,
    fixed: Mapping[str, str] | None = None,
    coordinates_crs: str | None = None,
    id_column: str | None = None,
    title: str | None = None,
    cells: int = MOST_CELLS,
    float32: bool = False,
    seed: int = 0,
    force: bool = False,
    command: str = "",
    say: _Say = lambda line: None,
) -> ExplorerRun:
    """Write the explorer of a saved model.

    Parameters
    ----------
    model_folder : path
        Folder of a trained model.
    grid : path
        Folder that ``hotvae map`` wrote, a grid that ``hotvae grid`` wrote, or a table with the columns of training.
    out : path
        The page, ``.html``.
    fixed : mapping of str to str, optional
        Columns of a grid held at a value, such as effort.
    coordinates_crs : str, optional
        Reference system of the training coordinates, for grids.
    id_column : str, optional
        Column of row ids of a table.
    title : str, optional
        Heading of the page.
    cells : int
        Places of the page, at most.
    float32 : bool
        Store numbers as the model has them, not in 16 bits; the page is about twice as large.
    seed : int
        Decides draws and the training of the stand-in.
    force : bool
        Replace a page that is there.
    command : str
        What was typed, for the page.
    say : callable
        Takes lines for the watcher.

    Returns
    -------
    ExplorerRun

    Raises
    ------
    ConfigError, DataError, ModelError
        A file, column or model that does not fit.
    """
    target = Path(out)
    if target.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"--out must end in .html; got {target.name!r}. Rename it.")
    check_new_file(target, force)
    model = load_model(model_folder)
    places = places_of_file(model, grid, fixed=fixed, coordinates_crs=coordinates_crs, id_column=id_column, most=cells)
    watch = Watch(model, wanted=False)
    watch.look(places.table, None)
    if far := watch.far():
        warn_of_data(far)
    content = explorer_content(
        model,
        places,
        title=title,
        precision="float32" if float32 else "int16",
        command=command,
        seed=seed,
        say=say,
    )
    write_page(target, content)
    return ExplorerRun(
        target, len(places), len(content.facts["labels"]), target.stat().st_size / 1e6, content.facts["notes"]
    )


def write_explorer(
    model: LabelClassifier,
    data: Dataset,
    out: str | Path,
    *,
    title: str | None = None,
    command: str = "",
    seed: int = 0,
) -> Path:
    """Write the explorer of a model in memory; the rows of a data set are its places.

    Parameters
    ----------
    model : HotVAEClassifier or JointClassifier
        Fitted.
    data : Dataset
        With coordinates.
    out : path
        The page, ``.html``; an older one is replaced.
    title, command, seed
        As in :func:`explore_model`.

    Returns
    -------
    Path
        The page.
    """
    content = explorer_content(model, places_of_dataset(model, data), title=title, command=command, seed=seed)
    return write_page(out, content)


def explorer_content(
    model: LabelClassifier,
    places: ExplorerPlaces,
    *,
    title: str | None = None,
    precision: Precision = "int16",
    command: str = "",
    seed: int = 0,
    say: _Say = lambda line: None,
    like: ExplorerContent | None = None,
) -> ExplorerContent:
    """Gather all that an explorer shows; :func:`~hotvae.report.page.page_html` makes a page of it.

    Parameters
    ----------
    model : HotVAEClassifier or JointClassifier
        Fitted, with a law.
    places : ExplorerPlaces
        Rows of a table, or cells of a grid.
    title, command, seed, say
        As in :func:`explore_model`.
    precision : {"int16", "float32"}
        How numbers are stored.
    like : ExplorerContent, optional
        Of the same model at other places: what takes long to learn is taken from it.

    Returns
    -------
    ExplorerContent

    Raises
    ------
    ConfigError, ModelError
        A model without a law between its labels, or one that reads no table.
    """
    if not isinstance(model, StackedClassifier) or not isinstance(model.features_, ColumnPlan):
        raise ModelError(
            f"model must read a table and have a law between its labels to be explored; got {type(model).__name__}. "
            "Train one with hotvae train, without --recipe."
        )
    asker = _Asker(model)
    say(f"{len(places):,} places, {len(model.label_names_):,} labels")
    rows = asker.rows(places.table)
    covariates, values = _covariates(model, places.table)
    arrays: dict[str, NDArray[Any]] = {
        "logits": rows.logits,
        "where": places.where,
        "covariates": values,
    }
    if places.degrees is not None:
        arrays["degrees"] = places.degrees
    if asker.reads_columns:
        arrays["gates"] = np.asarray(rows.gates, dtype=np.float64)
    for name, lines in (("land", places.land), ("borders", places.borders)):
        if lines:
            arrays[name] = np.concatenate(lines)
            arrays[f"{name}_lengths"] = np.array([len(line) for line in lines], dtype=np.uint32)
    law, weights = law_parts(rows.law)
    arrays |= weights
    trust, marks = _trust(model, places.table, asker)
    arrays |= marks
    stand_in = None
    moved = [entry for entry in covariates if entry["outs"]]
    if like is not None:
        arrays |= {name: array for name, array in like.arrays.items() if name.startswith("stand_in.")}
    elif asker.reads_columns and moved:
        say("learning how the model answers to moved covariates")
        stand_in = learn_stand_in(places.table, _Mover(moved), asker.logits_and_gates, seed)
        for number, (weight, bias) in enumerate(stand_in.layers):
            arrays[f"stand_in.{number}"] = np.column_stack([weight, bias])
    say("drawing communities")
    facts: dict[str, Any] = {
        "labels": [str(name) for name in model.label_names_],
        "n_places": len(places),
        "places": places.names,
        "side": places.side,
        "reach": places.reach(),
        "covariates": covariates,
        "slider_reach": _REACH,
        "law": law,
        "trust": trust,
        "spread": like.facts["spread"] if like is not None else _spread(asker, places.table, seed),
        "stand_in": like.facts["stand_in"] if like is not None else None if stand_in is None else _told(stand_in),
        "thresholds": dict(model.thresholds_),
        "notes": list(places.notes),
        "card": _card(model, places),
        "citation": type(model).citation if hasattr(type(model), "citation") else "",
        "settings": [[name, str(value)] for name, value in model.current_settings().items()],
        "recipe": model.recipe_.lines(),
        "versions": [["python", platform.python_version()]]
        + [[name, version(name)] for name in ("hotvae", "torch", "numpy", "scikit-learn")],
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
    }
    heading = title or "Community explorer"
    return ExplorerContent(
        heading,
        f"{len(model.label_names_):,} species, {len(places):,} places",
        json_ready(facts),
        arrays,
        precision,
    )


class _Asker:
    """Asks a model about tables as the page will: base logits, and what changes how labels speak."""

    def __init__(self, model: StackedClassifier) -> None:
        self.model = model
        self.reads_columns = getattr(model, "gate_", None) is not None
        self.named = hasattr(model, "feature_names_in_")

    def as_given(self, table: pd.DataFrame) -> Any:
        return table if self.named else table.to_numpy()

    def rows(self, table: pd.DataFrame) -> LawRows:
        with hushed():
            return self.model.law_rows(self.as_given(table))

    def logits_and_gates(self, table: pd.DataFrame) -> tuple[NDArray[np.float64], NDArray[Any]]:
        rows = self.rows(table)
        return np.asarray(rows.logits, dtype=np.float64), rows.gates


class _Mover:
    """Moves up to three covariates of each row, as far as sliders go, and not beyond training."""

    def __init__(self, covariates: list[dict[str, Any]]) -> None:
        self.covariates = covariates

    def __call__(self, table: pd.DataFrame, random: np.random.Generator) -> pd.DataFrame:
        count = len(self.covariates)
        # Most often one alone, as people move sliders.
        n_moved = random.choice([1, 2, 3], size=len(table), p=[0.6, 0.25, 0.15])
        order = random.random((len(table), count)).argsort(axis=1).argsort(axis=1)
        columns = {}
        for number, covariate in enumerate(self.covariates):
            low, high = covariate["low"], covariate["high"]
            shift = random.uniform(-_REACH, _REACH, len(table)) * (high - low)
            values = table[covariate["name"]].to_numpy(dtype=np.float64)
            moved = np.clip(values + shift, np.minimum(low, values), np.maximum(high, values))
            columns[covariate["name"]] = np.where(order[:, number] < n_moved, moved, values)
        return table.assign(**columns)


def _covariates(model: StackedClassifier, table: pd.DataFrame) -> tuple[list[dict[str, Any]], NDArray[np.float64]]:
    """Describe each covariate, how it goes into the scaled columns, and return its values (codes for categories)."""
    plan: Any = model.features_
    places, state = set(place_names(model)), plan.state()
    scaler: FeatureScaler | None = model.forms_.makers.get(getattr(model, "gate_", None) or "")
    found, values = [], []
    for number, (name, kind) in enumerate(zip(plan.feature_names_in, plan.kinds, strict=True)):
        if name in plan.left_out or name in places:
            continue
        entry: dict[str, Any] = {"name": name, "kind": kind, "outs": [], "levels": None}
        if kind in ("category", "date"):
            codes, levels = pd.factorize(table[name].astype("str"), sort=True)
            entry |= {"levels": [str(level) for level in levels], "low": 0, "high": 0, "median": 0}
            values.append(codes.astype(np.float64))
        else:
            column = table[name].to_numpy(dtype=np.float64)
            known = column[np.isfinite(column)]
            low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
            if scaler is not None:
                period = state["details"].get(str(number), {}).get("period", 0.0)
                entry["outs"], spans = _outs(scaler, name, period)
                low, high = spans or (low, high)
            entry |= {"low": low, "high": high, "median": float(np.median(known)) if len(known) else 0.0}
            values.append(column)
        found.append(entry)
    return found, np.column_stack(values) if values else np.zeros((len(table), 0))


def _outs(scaler: FeatureScaler, name: str, period: float) -> tuple[list[dict[str, Any]], tuple[float, float] | None]:
    """Say which scaled columns a covariate makes, and how: straight lines between knots, flat beyond them."""
    state = scaler.state()
    numeric = [n for n, kind in zip(state["feature_names"], state["kinds"], strict=True) if kind == "numeric"]
    outs, spans = [], None
    for how, column in (("value", name), ("sin", f"{name} (sin)"), ("cos", f"{name} (cos)")):
        if column not in numeric:
            continue
        place = numeric.index(column)
        low, high = (float(end[place]) for end in state["range"])
        knots = state["knots"][place] if state["knots"] else [[], []]
        if len(knots[0]):
            xs, ys = knots
        else:
            xs = [low, high]
            ys = [(end - state["center"][place]) / state["scale"][place] for end in xs]
        outs.append({"column": place, "how": how, "period": period, "xs": xs, "ys": ys})
        if how == "value":
            spans = low, high
    return outs, spans


def law_parts(law: JointLaw) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Describe how labels speak, and return the weights of each voice by name."""
    messages = law.messages
    if messages is None:
        return {"voices": 0, "rounds": 0}, {}
    voices = list(getattr(messages, "voices", [messages]))
    arrays: dict[str, NDArray[Any]] = {}
    passing = []
    for number, voice in enumerate(voices):
        found = {name: part.double().cpu().numpy() for name, part in voice.weights().items()}
        passing.append([found.pop("passing").tolist(), found.pop("passing_known").tolist()])
        arrays |= {f"law.{number}.{name}": part for name, part in found.items()}
    return {"voices": len(voices), "rounds": messages.config.n_rounds, "passing": passing}, arrays


def _trust(
    model: StackedClassifier, table: pd.DataFrame, asker: _Asker
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    facts: dict[str, Any] = {"level": None, "threshold": None}
    arrays: dict[str, NDArray[Any]] = {}
    trust = getattr(model, "trust_", None)
    if trust is not None and trust.area is not None:
        judged = model.trust(asker.as_given(table))
        facts["threshold"] = trust.area.threshold
        arrays |= {"inside": judged.inside.astype(np.uint8), "dissimilarity": judged.dissimilarity}
    if trust is not None and trust.sets is not None:
        place = LEVELS.index(_LEVEL)
        facts["level"] = _LEVEL
        # Beyond 0 and 1: a call that is always, or never, among the safe ones.
        arrays["absent_up_to"] = np.clip(trust.sets.absent_up_to[place], -1, 2)
        arrays["present_from"] = np.clip(trust.sets.present_from[place], -1, 2)
    return facts, arrays


def _spread(asker: _Asker, table: pd.DataFrame, seed: int) -> dict[str, Any]:
    """Learn how far the richness of whole communities spreads around its mean."""
    columns = tuple(str(name) for name in table.columns)
    mapper = MapModel(asker.model, columns, MapOptions(n_draws=_N_DRAWS, seed=seed))
    some = table.iloc[:: max(1, len(table) // _DRAWN)]
    with hushed():
        found = learn_spread(mapper, some)
    return {"coefficients": found.coefficients.tolist(), "error": found.error, "widening": found.widening}


def _told(stand_in: StandIn) -> dict[str, Any]:
    return {
        "layers": len(stand_in.layers),
        "error": stand_in.error,
        "size": stand_in.size,
        "explained": stand_in.explained,
        "n_tried": stand_in.n_tried,
    }


def _card(model: StackedClassifier, places: ExplorerPlaces) -> list[list[str]]:
    """Say in lines what the model is."""
    card = model_card(model)
    needs = TableNeeds.of_model(model)
    lines = [
        ["model", type(model).__name__],
        ["labels", f"{len(model.label_names_):,}"],
        ["columns", ", ".join(needs.features)],
        ["places on this page", f"{len(places):,}"],
    ]
    for name, title in (("n_rows", "training rows"), ("data", "data"), ("command", "training command")):
        if card.get(name):
            lines.append([title, str(card[name])])
    return lines
