"""One cell: read the data, fit the model, measure it. What a worker process does.

Training rows are learned from, validation rows choose the epoch and the thresholds, test rows are measured. The oracle
protocol, whose thresholds come from test rows, is stored under its own name.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hotvae.checkpoint import json_ready
from hotvae.config import find_recipe
from hotvae.data.catalog import describe, load
from hotvae.data.dataset import Dataset
from hotvae.data.splits import Split, split_dataset
from hotvae.data.synthetic import VirtualRegion, virtual_region
from hotvae.errors import DataWarning
from hotvae.estimators.base import LabelClassifier
from hotvae.estimators.hotvae import HotVAEClassifier
from hotvae.estimators.hotvae_network import HotVAENetwork
from hotvae.estimators.registry import find_classifier
from hotvae.estimators.thresholds import apply_thresholds, evaluate_protocols
from hotvae.features.molecules import ElementPresence
from hotvae.features.text import BagOfWords
from hotvae.jobs.settings import ALIASES, read_settings, train_settings
from hotvae.metrics import MEASURES, all_measures, richness_coverage, site_pairs
from hotvae.training.progress import peak_memory
from paper.experiments import PAPER_MODEL, PARTS, TUNED, Cell
from paper.presets import COORDINATES, PRESET_OF, read_preset
from paper.runner import versions

Result = TypeVar("Result")

PAIRED_METRICS = ("example_f1", "micro_f1", "macro_f1", "hamming_accuracy")
"""Measures of predictions whose rows are kept for paired tests."""

_WORDS = ("max_words", "min_word_count")
# A preset is of HOT-VAE's network; of it, a rival takes how rows are read and how its own perceptron is shaped.
_SHARED = (
    *("encoder_widths", "encoder_dropout", "latent_dim", "weight_decay", "selection_metric"),
    *("scaling", "clamp", "spatial_units", "spatial_columns", "landmarks", *_WORDS, "max_tokens", "bonds"),
    *("latent_neighbours", "base"),
)
# A network that may train longer than its rivals would win by that alone; fewer epochs than its own no rival gets.
_AT_LEAST = ("max_epochs", "patience")
_VIRTUAL = re.compile(r"virtual-(\d+)-(\d+)(?:-x([12]))?")


# --- settings --------------------------------------------------------------------------------------------


class PaperRecipe(HotVAENetwork):
    """HOT-VAE as the paper prints it: settings that are not given are those of the recipe, not our defaults.

    Examples
    --------
    >>> PaperRecipe.from_settings(n_layers=3).training.optimizer
    'adam'
    """

    title = "HOT-VAE, paper's recipe"

    @classmethod
    def from_settings(cls, **settings: Any) -> Self:
        """Make the network of the recipe, with some settings changed."""
        return super().from_settings(**find_recipe("paper") | settings)


@dataclass(frozen=True)
class Recipe:
    """What a cell is fitted with.

    Attributes
    ----------
    cls : class
        The model.
    parameters : dict
        What differs from its defaults; JSON-able.
    coordinates_as_features : bool
        Whether coordinates are features, for every model alike; one that finds its own recipe is told where rows are
        and decides by itself.
    words : dict, optional
        Settings of the bag of words that a model is given which reads tables only.
    """

    cls: type[LabelClassifier]
    parameters: dict[str, Any]
    coordinates_as_features: bool
    words: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in self.parameters.items()}
        bag = {} if self.words is None else {"words": self.words}
        return {"coordinates_as_features": self.coordinates_as_features, **bag, **plain}


def recipe_of(cell: Cell) -> Recipe:
    """Join the preset of the set, or what a search chose in its place, with what the cell changes.

    A model that finds its own recipe has no preset.

    Parameters
    ----------
    cell : Cell
        What is to be fitted.

    Returns
    -------
    Recipe

    Raises
    ------
    ConfigError
        A setting that the model does not have.

    Examples
    --------
    >>> recipe_of(Cell("tables", "mpvae", "mpvae", "bibtex")).parameters["encoder_widths"]
    (2048,)
    >>> "kl_weight" in recipe_of(Cell("tables", "mpvae", "mpvae", "bibtex")).parameters
    False
    """
    cls = PaperRecipe if cell.model == PAPER_MODEL else find_classifier(cell.model)
    known = cls.all_settings()
    preset_name = PRESET_OF.get(cell.data, cell.data)
    preset = {ALIASES.get(name, name): value for name, value in read_preset(preset_name, known).items()}
    coordinates = bool(preset.pop(COORDINATES, False))  # a matter of the rows, whatever the model
    tuned_file = TUNED / f"{cell.data}.{cell.model}.toml"
    tuned = read_settings(tuned_file) if tuned_file.is_file() else {}
    if cls.holds_out_itself:
        preset, coordinates = {}, False
    elif cell.model == PAPER_MODEL:
        preset = {name: value for name, value in preset.items() if name == "encoder" or name in _WORDS}  # what a row is
    elif tuned:
        preset = {}  # a search wrote down all settings; what HOT-VAE's own search changed since is not this model's
    elif not issubclass(cls, HotVAENetwork):
        kept = (*_SHARED, *_AT_LEAST, *(("learning_rate", "batch_size") if cell.model == "plain" else ()))
        if _features_of(cell.data) in ("text", "smiles"):
            kept = (*kept, "encoder")
        preset = {name: value for name, value in preset.items() if name in kept}
        preset |= {name: max(preset[name], known[name]) for name in _AT_LEAST if name in preset}
    own = dict(cell.settings)
    smoke = {name: value for name, value in own.pop("smoke", {}).items() if name in known}
    # The command line's option of this name reads files; here it is the classifier's parameter.
    graph = own.pop("graph", tuned.pop("graph", None))
    settings = train_settings(
        known,
        (f"preset of {preset_name}", preset),
        (tuned_file.name, tuned),
        ("smoke", smoke),
        (f"variant {cell.variant}", own),
    )
    parameters = dict(settings.parameters)
    if graph is not None:
        parameters["graph"] = graph
    words = None
    if _features_of(cell.data) == "text" and "encoder" not in known and not cls.holds_out_itself:
        told = read_preset(preset_name, _WORDS)
        words = {name: told[name] for name in _WORDS if name in told}
    return Recipe(cls, parameters, coordinates, words)


def _features_of(data: str) -> str:
    return "numeric" if _VIRTUAL.fullmatch(data) else describe(data).features


# --- data ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Parts:
    """Rows of a cell by what they are for, with features as its model takes them.

    Attributes
    ----------
    train, validation, test : tuple
        Features and labels; for a model that finds its own recipe, whole data sets stand in the place of features.
    split : Split
        Row numbers.
    label_names : tuple of str
        Names of the labels.
    path : Path or None
        The file of the set.
    """

    train: tuple[Any, NDArray[Any]]
    validation: tuple[Any, NDArray[Any]]
    test: tuple[Any, NDArray[Any]]
    split: Split
    label_names: tuple[str, ...]
    path: Path | None


def read_parts(cell: Cell, recipe: Recipe) -> Parts:
    """Read and split the data of a cell.

    Parameters
    ----------
    cell : Cell
        Which data.
    recipe : Recipe
        Which model; one that reads tables only gets words or elements as columns, found in training rows.

    Returns
    -------
    Parts

    Raises
    ------
    DataError, ConfigError
        A set that is not there.

    Examples
    --------
    >>> cell = Cell("tables", "ridge", "ridge", "virtual-50-4")
    >>> parts = read_parts(cell, recipe_of(cell))
    >>> [len(rows[1]) for rows in (parts.train, parts.validation, parts.test)]
    [30, 10, 10]
    """
    data, split, path = _read(cell)
    if recipe.coordinates_as_features:
        data = data.with_coordinates_as_features()
    features = data.features
    form = _features_of(cell.data)
    whole = recipe.cls.holds_out_itself
    if form in ("text", "smiles") and "encoder" not in recipe.cls.all_settings() and not whole:
        table = cast(pd.DataFrame, features).iloc[:, 0]
        front = BagOfWords(**(recipe.words or {})) if form == "text" else ElementPresence()
        front.fit(list(table.iloc[split.train]))
        features = front.transform(list(table), dtype=np.float64)

    def part(rows: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
        if whole:
            return data.take(rows), data.labels[rows]
        taken = features.iloc[rows] if isinstance(features, pd.DataFrame) else features[rows]
        return taken, data.labels[rows]

    return Parts(part(split.train), part(split.validation), part(split.test), split, data.label_names, path)


def _region(data: str) -> VirtualRegion | None:
    """Make the virtual region of a name, such as ``virtual-6000-24-x2``: twice as strong interactions."""
    told = _VIRTUAL.fullmatch(data)
    if told is None:
        return None
    return virtual_region(int(told[1]), int(told[2]), random_state=0, interaction_scale=float(told[3] or 1))


def _read(cell: Cell) -> tuple[Dataset, Split, Path | None]:
    region = _region(cell.data)
    if region is not None:
        data = region.dataset
        return data, split_dataset(data, kind="random", fractions=(0.6, 0.2, 0.2), random_state=cell.seed), None
    named = load(cell.data, split=cell.split, seed=cell.seed)
    return named.dataset, named.split, named.path


# --- fitting and measuring -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Measured:
    """What a cell gives.

    Attributes
    ----------
    line : dict
        JSON-able result without status and cell.
    rows : dict of str to ndarray
        Values of single test rows, for paired tests.
    parts : dict of str to dict
        The same as ``rows`` for each part of the model that was measured beside it.
    """

    line: dict[str, Any]
    rows: dict[str, NDArray[Any]]
    parts: dict[str, dict[str, NDArray[Any]]] = field(default_factory=dict)


def run_cell(cell: Cell) -> Measured:
    """Fit and measure a cell.

    Parameters
    ----------
    cell : Cell
        What to do.

    Returns
    -------
    Measured

    Raises
    ------
    HotVAEError
        Data or settings that do not fit.

    Examples
    --------
    >>> measured = run_cell(Cell("tables", "prevalence", "prevalence", "virtual-50-4"))
    >>> sorted(measured.line["metrics"])
    ['honest', 'oracle']
    >>> measured.rows["log_loss"].shape
    (10,)
    """
    recipe = recipe_of(cell)
    parts = read_parts(cell, recipe)
    model = _model(cell, recipe)
    # The first optimiser of a process loads much of torch; that is nobody's training time.
    find_classifier("plain").from_settings(max_epochs=1, encoder_widths=(4,)).fit([[0.0], [1.0]], [[0], [1]])
    alone_rows: dict[str, dict[str, NDArray[Any]]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # rare species have one class in some part
        _, fit_seconds = timed(lambda: _fit(model, parts))
        found, rows = _measure(model, parts, cell)
        alone: dict[str, Any] = {}
        for name, kinds in PARTS.items() if isinstance(model, HotVAEClassifier) else ():
            if (part := _alone(model, kinds)) is None:
                continue
            told, alone_rows[name] = _measure(part, parts, cell)
            seconds = sum(entry.seconds for entry in model.recipe_.entries if entry.kind in kinds)
            alone[name] = told | {"fit_seconds": {"cpu": round(seconds, 3), "wall": round(seconds, 3)}}
    history = getattr(model, "history_", None)
    line = {
        "title": recipe.cls.title,
        **found,
        "epoch": None if history is None else history.best_epoch,
        "n_epochs": None if history is None else len(history.records),
        "fit_seconds": fit_seconds,
        "peak_memory_gb": peak_memory(),
        "n_rows": [len(rows[1]) for rows in (parts.train, parts.validation, parts.test)],
        "n_labels": len(parts.label_names),
        "versions": versions(),
        "recipe": recipe.to_dict(),
        "settings": _plain_settings(model),
    }
    if isinstance(model, HotVAEClassifier):
        line |= {"alone": alone, "found": model.recipe_.state()}
    return Measured(json_ready(line), rows, alone_rows)


def _fit(model: LabelClassifier, parts: Parts) -> None:
    """Learn from training rows; validation rows choose what the model lets them choose."""
    if isinstance(parts.train[0], Dataset):
        model.fit(parts.train[0], validation=parts.validation[0])
    else:
        model.fit(*parts.train, validation=parts.validation)


def _alone(model: HotVAEClassifier, kinds: tuple[str, ...]) -> HotVAEClassifier | None:
    """Return the members of some kinds without the others; None where the recipe has none of them."""
    return model.alone(kinds) if any(candidate.kind in kinds for candidate, _ in model.members_) else None


def _measure(model: LabelClassifier, parts: Parts, cell: Cell) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Measure a fitted model on test rows: what goes into the line, and the values of single rows."""
    probs, predict_seconds = timed(lambda: model.predict_proba(parts.test[0]))
    labels = parts.test[1]
    protocols = evaluate_protocols(labels, probs, parts.validation[1], model.predict_proba(parts.validation[0]))
    found: dict[str, Any] = {
        "metrics": {name: _without_notes(values) for name, values in protocols.items()},
        "thresholds": {name: values["thresholds"] for name, values in protocols.items()},
        "predict_seconds": predict_seconds,
    }
    if "ecology" in cell.measures:
        found["ecology"], found["sample_seconds"] = timed(lambda: _ecology(model, parts, probs, cell))
    return found, _row_values(parts, probs, protocols["honest"]["thresholds"])


def _model(cell: Cell, recipe: Recipe) -> LabelClassifier:
    model = recipe.cls.from_settings(**{"random_state": cell.seed, "n_threads": 1} | recipe.parameters)
    if recipe.cls.holds_out_itself and not _VIRTUAL.fullmatch(cell.data):
        model.set_params(hold_out=describe(cell.data).hold_out)
    return model


def _without_notes(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in ("protocol", "thresholds", "empty")}


def _plain_settings(model: LabelClassifier) -> dict[str, Any]:
    aside = ("progress", "state_file", "device", "n_threads")
    settings = {name: value for name, value in model.current_settings().items() if name not in aside}
    return settings | ({"graph": "own"} if isinstance(getattr(model, "graph", None), np.ndarray) else {})


def _ecology(model: LabelClassifier, parts: Parts, probs: NDArray[Any], cell: Cell) -> dict[str, Any]:
    features, labels = parts.test
    draws = model.sample(features, cell.n_draws, random_state=cell.seed)
    own = model.draws_jointly
    # Pairs belong to the split, not to the seed: every model and every seed is judged by the same ones.
    pairs = site_pairs(len(labels), cell.n_pairs, random_state=cell.split)
    result: dict[str, Any] = {
        "draws": "joint" if own else "independent",
        "n_draws": len(draws),
        "n_pairs": cell.n_pairs,
        "n_sites": len(labels),
    }
    for dialect in ("gomes", "norberg"):
        scores = all_measures(labels, draws=draws, pairs=pairs, probs=probs, dialect=dialect)
        result[dialect] = {name: scores[name] for name in MEASURES}
    result["richness_coverage"] = richness_coverage(labels, draws)
    result["richness_coverage_shared_ties"] = richness_coverage(labels, draws, ties="shared")
    if own:
        # Published rows of the dialect gomes drew every species by itself: beside them stand draws of that kind, too.
        apart = (np.random.default_rng(cell.seed).random(draws.shape) < probs).astype(np.int8)
        scores = all_measures(labels, draws=apart, pairs=pairs, probs=probs, dialect="gomes")
        result["gomes_drawn_apart"] = {name: scores[name] for name in MEASURES}
    return result


def _row_values(parts: Parts, probs: NDArray[Any], thresholds: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    labels = parts.test[1]
    observed = ~np.isnan(labels)
    positive = labels == 1
    clipped = np.clip(probs.astype(np.float64), 1e-12, 1 - 1e-12)
    losses = np.where(observed, -np.log(np.where(positive, clipped, 1 - clipped)), 0.0)
    rows = {
        "row": parts.split.test.astype(np.int32),
        "n_labels": np.array(labels.shape[1]),
        "log_loss": losses.sum(axis=1).astype(np.float32),
        "n_observed": observed.sum(axis=1).astype(np.int32),
        "positive": np.packbits(positive, axis=1),
    }
    if not observed.all():
        rows["observed"] = np.packbits(observed, axis=1)
    for name in PAIRED_METRICS:
        rows[f"predicted_{name}"] = np.packbits(apply_thresholds(probs, thresholds[name]), axis=1)
    return rows


def timed(work: Callable[[], Result]) -> tuple[Result, dict[str, float]]:
    """Do some work and say what it took, in seconds of the processor and of the clock.

    Examples
    --------
    >>> timed(lambda: 1 + 1)[0]
    2
    """
    cpu, wall = time.process_time(), time.perf_counter()
    result = work()
    return result, {"cpu": round(time.process_time() - cpu, 3), "wall": round(time.perf_counter() - wall, 3)}
