"""The virtual demonstration: three models on a region whose truth is known, and a report about it.

Validation rows choose epochs, the trees' leaf size and all thresholds; test rows are looked at once, at the end.
"""

import json
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.figure import Figure

from hotvae.baselines.plain import PlainNetClassifier
from hotvae.baselines.scikit import ExtraTrees
from hotvae.checkpoint import check_replaceable
from hotvae.data.dataset import Dataset
from hotvae.data.frames import write_table
from hotvae.data.splits import Split, split_dataset
from hotvae.data.synthetic import REGION_SIZE, Interaction, VirtualRegion, virtual_region
from hotvae.errors import ConfigError
from hotvae.estimators.base import LabelClassifier
from hotvae.estimators.hotvae_network import HotVAENetwork
from hotvae.estimators.thresholds import evaluate, tune_thresholds
from hotvae.explain.associations import Association, residual_associations, strongest_associations
from hotvae.files import write_text
from hotvae.jobs.demo import comparison, demo_notes
from hotvae.jobs.settings import TrainSettings
from hotvae.jobs.train import table_card
from hotvae.metrics import METRICS, paired_log_loss, reliability_curve
from hotvae.report.page import DemoContent, write_page
from hotvae.report.plots import plot_history, plot_interactions, plot_reliability, plot_richness_map
from hotvae.training.progress import Style
from hotvae.training.settings import Training

FloatArray = npt.NDArray[np.float64]

HOT_VAE = "HOT-VAE"
PLAIN_NET = "same encoder, no label decoder"
TREES = ExtraTrees.title
TRUTH = "the true probabilities"

SHOWN_METRICS = ("example_f1", "micro_f1", "macro_f1", "hamming_accuracy", "median_auc", "log_loss")
"""The measures of the table, in its order."""

FRACTIONS = (0.3, 0.1, 0.6)
"""Shares of the sites for training, validation and test."""

MIN_SITES = 100
N_GRID = 60
MOST_ASSOCIATIONS = 20


@dataclass(frozen=True)
class ModelScores:
    """One row of the table.

    Attributes
    ----------
    name : str
        The model.
    measures : dict
        All measures on the test rows; see :func:`hotvae.evaluate`.
    seconds : float or None
        Time to fit, choices on validation rows included; None for the truth.
    """

    name: str
    measures: dict[str, Any]
    seconds: float | None


@dataclass(frozen=True)
class InteractionCheck:
    """Whether a true interaction shows among the recovered associations.

    Attributes
    ----------
    interaction : Interaction
        The truth.
    found : Association or None
        The association that shows it, if any.
    sign_right : bool or None
        Whether helping shows as positive and excluding as negative, where the interaction acts.
    """

    interaction: Interaction
    found: Association | None
    sign_right: bool | None


@dataclass(frozen=True, eq=False)
class DemoResult:
    """What came out of :func:`run_demo`.

    Attributes
    ----------
    out : Path
        Folder with ``report.html``, ``results.json``, ``model``, ``region.csv`` and ``test_sites.csv``.
    seed : int
        The seed.
    scores : tuple of ModelScores
        The table's rows: HOT-VAE, its rivals, and the truth as the best attainable.
    associations : tuple of Association
        Recovered from HOT-VAE's residuals, clearest first.
    checks : tuple of InteractionCheck
        One for each true interaction.
    n_false : int
        Recovered pairs that are independent in truth.
    gaps : dict
        HOT-VAE's log loss minus each rival's on the test sites, with half of its 95 % interval over sites.
    """

    out: Path
    seed: int
    scores: tuple[ModelScores, ...]
    associations: tuple[Association, ...]
    checks: tuple[InteractionCheck, ...]
    n_false: int
    gaps: dict[str, tuple[float, float]] = field(default_factory=dict)


def run_demo(
    out: str | Path,
    *,
    seed: int = 0,
    n_sites: int = 5000,
    progress: Style = "auto",
    n_threads: int | None = 1,
    settings: Mapping[str, Any] | None = None,
    n_trees: int = 300,
) -> DemoResult:
    """Draw a virtual region, train three models on it, compare them with the truth, and write a report.

    Parameters
    ----------
    out : path
        Folder to write to; made if needed.
    seed : int
        Decides the region, the split and the models.
    n_sites : int
        Sites of the region: 30 % train, 10 % validate, 60 % test.
    progress : {"auto", "bar", "lines", "silent"}
        How training is shown.
    n_threads : int or None
        CPU threads; None uses what is there.
    settings : mapping, optional
        Parameters of both networks other than the defaults.
    n_trees : int
        Trees of the rival forest.

    Returns
    -------
    DemoResult

    Raises
    ------
    ConfigError
        Fewer than 100 sites, or parameters that do not fit.
    ModelError
        When ``out/model`` is something other than a hotvae model.
    """
    out = Path(out)
    if n_sites < MIN_SITES:
        raise ConfigError(f"n_sites must be at least {MIN_SITES}; got {n_sites}. Use more sites.")
    check_replaceable(out / "model")  # before the minutes of work, not after
    region = virtual_region(n_sites, random_state=seed)
    data = region.dataset
    parts = split_dataset(data, fractions=FRACTIONS, random_state=seed)
    frame = pd.DataFrame(np.asarray(data.features), columns=list(data.feature_names))
    labels = pd.DataFrame(data.labels, columns=list(data.label_names))
    train, held_out = parts.train, (frame.iloc[parts.validation], labels.iloc[parts.validation])

    common: dict[str, Any] = {"random_state": seed, "progress": progress, "n_threads": n_threads}
    hot_vae = HotVAENetwork.from_settings(**common | dict(settings or {}))
    plain = PlainNetClassifier.from_settings(**common | dict(settings or {}))
    trees = ExtraTrees(n_trees=n_trees, random_state=seed, n_threads=n_threads)
    models: dict[str, LabelClassifier] = {HOT_VAE: hot_vae, PLAIN_NET: plain, TREES: trees}
    probs: dict[str, FloatArray] = {}
    seconds: dict[str, float | None] = {}
    # The first optimiser of a process loads much of torch; that is nobody's training time.
    PlainNetClassifier(training=Training(max_epochs=1), encoder_widths=(4,)).fit([[0.0], [1.0]], [[0], [1]])
    for name, model in models.items():
        started = time.perf_counter()
        model.fit(frame.iloc[train], labels.iloc[train], validation=held_out)
        seconds[name] = time.perf_counter() - started
        probs[name] = np.asarray(model.predict_proba(frame), dtype=np.float64)
    probs[TRUTH], seconds[TRUTH] = region.marginals, None

    test_labels = data.labels[parts.test]
    thresholds = {
        name: tune_thresholds(data.labels[parts.validation], values[parts.validation]) for name, values in probs.items()
    }
    scores = tuple(
        ModelScores(name, evaluate(test_labels, values[parts.test], thresholds[name]), seconds[name])
        for name, values in probs.items()
    )
    unseen = np.concatenate([parts.validation, parts.test])
    associations = strongest_associations(
        data.labels[unseen],
        probs[HOT_VAE][unseen],
        data.label_names,
        frame.to_numpy()[unseen],
        data.feature_names,
        n=None,
    )
    truth = true_associations(region, unseen)
    checks = tuple(_check(interaction, associations) for interaction in region.interactions)
    kinds = [_kind_of_pair(region, truth, association.pair)[0] for association in associations]
    gaps = {
        rival: paired_log_loss(test_labels, probs[HOT_VAE][parts.test], probs[rival][parts.test])
        for rival in models
        if rival != HOT_VAE
    }
    result = DemoResult(out, seed, scores, tuple(associations), checks, kinds.count("none"), gaps)

    hot_vae.change_settings(progress="silent")
    chosen = TrainSettings(labels=("species_*",), split="random")
    card = table_card(out / "region.csv", chosen, data.take(parts.train), n_validation=len(parts.validation))
    hot_vae.save(out / "model", extra=card)
    write_table(_as_table(data), out / "region.csv")
    write_table(_as_table(data.take(parts.test)), out / "test_sites.csv")
    notes = _notes(result, parts, trees, settings)
    write_text(out / "results.json", json.dumps(notes, indent=1, ensure_ascii=False) + "\n")
    recovered = residual_associations(data.labels[unseen], probs[HOT_VAE][unseen]).correlation
    pairs = [association.pair for association in associations]
    figures = {
        "history": plot_history({HOT_VAE: hot_vae.history_, PLAIN_NET: plain.history_}),
        "reliability": plot_reliability(
            {name: reliability_curve(test_labels, values[parts.test]) for name, values in probs.items()}
        ),
        "richness": _richness_map(region, hot_vae),
        "interactions": plot_interactions(truth, recovered, data.label_names, region.guilds, pairs),
    }
    write_page(out / "report.html", _page(result, region, truth, figures, notes))
    return result


def demo_table(result: DemoResult) -> list[dict[str, Any]]:
    """Turn a result into the rows of its table.

    Parameters
    ----------
    result : DemoResult
        From :func:`run_demo`.

    Returns
    -------
    list of dict
        ``model``, then ebF1, miF1, maF1, HA, median AUC, log loss, and ``seconds`` (None for the truth).
    """
    return [
        {"model": row.name}
        | {METRICS[name].title: float(row.measures[name]) for name in SHOWN_METRICS}
        | {"seconds": row.seconds}
        for row in result.scores
    ]


def true_associations(region: VirtualRegion, rows: npt.ArrayLike) -> FloatArray:
    r"""Exact residual correlations of a region's species: what a perfect model would leave over.

    Parameters
    ----------
    region : VirtualRegion
        The region.
    rows : array-like of int
        Sites to take it over.

    Returns
    -------
    ndarray of shape (n_species, n_species)
        Sum over sites of :math:`P(y_i = y_j = 1 \mid x) - p_i p_j`, divided by the root of
        :math:`\sum p_i (1 - p_i) \sum p_j (1 - p_j)`; the diagonal is NaN.
    """
    rows = np.asarray(rows)
    features, marginals = np.asarray(region.dataset.features)[rows], region.marginals[rows]
    spread = np.sqrt((marginals * (1 - marginals)).sum(axis=0))
    table = np.full((len(spread), len(spread)), np.nan)
    for j in range(len(spread)):
        known = np.full(marginals.shape, np.nan)
        known[:, j] = 1.0
        joint = marginals[:, [j]] * region.conditional_probs(features, known)
        table[:, j] = (joint - marginals * marginals[:, [j]]).sum(axis=0) / (spread * spread[j])
    np.fill_diagonal(table, np.nan)
    symmetric: FloatArray = (table + table.T) / 2  # equal but for rounding
    return symmetric


# --- recovery --------------------------------------------------------------------------------------------


def _check(interaction: Interaction, associations: Sequence[Association]) -> InteractionCheck:
    actor, *witnesses = interaction.sources
    by_pair = {frozenset(association.pair): association for association in associations}
    found = by_pair.get(frozenset((interaction.target, actor)))
    for witness in witnesses:
        other = by_pair.get(frozenset((interaction.target, witness)))
        if found is None and other is not None and other.third is not None and other.third.name == actor:
            found = other
    if found is None:
        return InteractionCheck(interaction, None, None)
    return InteractionCheck(interaction, found, _value_where_acting(interaction, found) * interaction.strength > 0)


def _value_where_acting(interaction: Interaction, found: Association) -> float:
    """Association on the side where the interaction acts, if the association names that side."""
    gate = interaction.condition
    if gate is not None and found.where is not None and found.where.name == gate.layer:
        return found.where.high if gate.side == "above" else found.where.low
    if found.third is not None and found.third.name in interaction.sources:
        return found.third.high
    return found.association


def _kind_of_pair(region: VirtualRegion, truth: FloatArray, pair: tuple[str, str]) -> tuple[str, str]:
    """Say what a pair is in truth: a direct interaction, an indirect link inside a guild, or nothing."""
    direct = [
        interaction.describe()
        for interaction in region.interactions
        if interaction.target in pair and set(pair) & set(interaction.sources)
    ]
    if direct:
        return "direct", "; ".join(direct)
    names = region.dataset.label_names
    value = truth[names.index(pair[0]), names.index(pair[1])]
    if abs(value) > 1e-6:
        return "indirect", f"indirect, through others of the guild (true value {_signed(value)})"
    return "none", "no link in truth: chance, or a niche the model has not learned"


# --- files -----------------------------------------------------------------------------------------------


def _as_table(data: Dataset) -> pd.DataFrame:
    places = pd.DataFrame(data.coordinates, columns=list(data.coordinate_names)).round(4)
    features = pd.DataFrame(np.asarray(data.features), columns=list(data.feature_names))
    presences = pd.DataFrame(data.labels.astype(np.int8), columns=list(data.label_names))
    return pd.concat([places, features, presences], axis=1)


def _notes(result: DemoResult, parts: Split, trees: ExtraTrees, settings: Mapping[str, Any] | None) -> dict[str, Any]:
    words = ["--virtual", "--seed", str(result.seed), "--out", str(result.out)]
    n_rows = {"train": len(parts.train), "validation": len(parts.validation), "test": len(parts.test)}
    return demo_notes(words, result.seed, n_rows, demo_table(result), result.gaps) | {
        "settings": {
            "networks": dict(settings or {}),
            TREES: {"n_estimators": trees.n_trees, **trees.setting_},
        },
        "thresholds": {row.name: row.measures["thresholds"] for row in result.scores},
        "interactions": [
            {
                "truth": check.interaction.describe(),
                "found": check.found is not None,
                "sign_right": check.sign_right,
            }
            for check in result.checks
        ],
        "associations": [association.describe() for association in result.associations],
        "n_false_associations": result.n_false,
    }


def _richness_map(region: VirtualRegion, model: HotVAENetwork) -> Figure:
    """Draw the expected number of species on a grid over the whole region: in truth, and predicted."""
    data = region.dataset
    axis = (np.arange(N_GRID) + 0.5) * REGION_SIZE / N_GRID
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    layers = region.environment(grid)
    predicted = model.predict_proba(pd.DataFrame(layers, columns=list(data.feature_names)))
    true = region.marginals_at(layers)
    table = pd.DataFrame(grid, columns=list(data.coordinate_names))
    return plot_richness_map(
        table.assign(true=true.sum(axis=1), predicted=predicted.sum(axis=1)), data.coordinate_names
    )


def _page(
    result: DemoResult,
    region: VirtualRegion,
    truth: FloatArray,
    figures: Mapping[str, Figure],
    notes: Mapping[str, Any],
) -> DemoContent:
    data = region.dataset
    table = demo_table(result)
    header = list(table[0])
    versions = ", ".join(f"{name} {number}" for name, number in notes["versions"].items())
    return DemoContent(
        title=f"A virtual region, seed {result.seed}",
        n_sites=data.n_samples,
        n_features=data.n_features,
        n_labels=data.n_labels,
        n_rows=notes["rows"],
        scores={
            "header": header,
            "rows": [[_cell(name, row[name]) for name in header] for row in table],
            "best": _best_cells(table),
        },
        comparison=comparison(result.gaps),
        figures=figures,
        associations=[
            [
                # Spaces and a joiner that do not break keep each pair on one line.
                f"{association.pair[0]}\u00a0–\u2060\u00a0{association.pair[1]}",
                _signed(association.association),
                f"{association.z:.1f}".replace("-", "−"),
                "; ".join(part.describe() for part in (association.where, association.third) if part is not None),
                _kind_of_pair(region, truth, association.pair)[1],
            ]
            for association in result.associations[:MOST_ASSOCIATIONS]
        ],
        n_associations=len(result.associations),
        n_false=result.n_false,
        interactions=[
            [
                check.interaction.describe(),
                _signed(check.interaction.strength),
                "–" if check.found is None else "✓",
                "–" if check.sign_right is None else "✓" if check.sign_right else "✗",
            ]
            for check in result.checks
        ],
        next_steps="\n".join(f"# {why}\n{command}" for why, command in next_steps(result.out)),
        made_by=f"{notes['command']} · {notes['date']} · {versions}",
    )


def next_steps(out: str | Path) -> list[tuple[str, str]]:
    r"""Say what to type after the demonstration.

    Parameters
    ----------
    out : path
        The demonstration's folder.

    Returns
    -------
    list of (str, str)
        What for, and a line for a shell.
    """
    region, test, model = (shlex.quote(str(Path(out) / name)) for name in ("region.csv", "test_sites.csv", "model"))
    own = "--labels 'species_*' --coordinates easting_km,northing_km --out my-model"
    return [
        ("the table's first row again, from the saved model", f"hotvae evaluate {model} {test}"),
        ("train on a table of your own (here: the region's)", f"hotvae train {region} {own}"),
        ("and predict with it", f"hotvae predict my-model {test} --out probabilities.csv"),
    ]


def _best_cells(table: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Best model of each measure, as shown; the truth does not compete."""
    cells = []
    for column, name in enumerate(SHOWN_METRICS, start=1):
        title = METRICS[name].title
        shown = [float(_cell(title, row[title])) for row in table if row["model"] != TRUTH]
        best = max(shown) if METRICS[name].greater_is_better else min(shown)
        cells += [(number, column) for number, value in enumerate(shown) if value == best]
    return cells


def _cell(title: str, value: Any) -> str:
    if value is None:
        return "–"
    if title == "model":
        return str(value)
    return f"{value:.1f}" if title == "seconds" else f"{value:.4f}" if title == "log loss" else f"{value:.3f}"


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")
