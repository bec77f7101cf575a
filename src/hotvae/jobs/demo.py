"""The demonstration: real birds, whole blocks of the map held out, and what only a model of labels together can do.

Every model learns from the same routes and chooses (epochs, sizes of leaves, thresholds) by the same others; the test
routes, in blocks of the map that none has seen, are looked at once, at the end.
"""

import json
import platform
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hotvae.baselines.plain import PlainNetClassifier
from hotvae.baselines.scikit import ExtraTrees
from hotvae.checkpoint import check_replaceable, json_ready
from hotvae.data.catalog import describe
from hotvae.data.frames import write_table
from hotvae.estimators.base import LabelClassifier
from hotvae.estimators.registry import load_model
from hotvae.files import write_text
from hotvae.jobs.data import ExportedSet, export_set
from hotvae.jobs.explain import explain_table
from hotvae.jobs.explore import explore_model
from hotvae.jobs.settings import TrainSettings
from hotvae.jobs.table_needs import TableNeeds
from hotvae.jobs.train import train
from hotvae.metrics import joint_scores, log_loss, mean_auc, paired_log_loss

BIRDS = "breeding_birds_2009"
HOT_VAE = "HOT-VAE"
HALF, LEVEL = 0.5, 0.9
N_DRAWS = 200
PAGE_ROWS = 100
"""Rows from which the page says which species go together: enough for the clear ones."""

COLUMNS = ("log loss", "AUC", "half known", "joint", "in 90 %", "seconds")
LEGEND = (
    "All on routes in blocks of the map that no model has seen.",
    "log loss    how far probabilities are from what was found; less is better",
    "AUC         chance that a route with a species ranks above one without; 0.5 is guessing, 1 is perfect",
    "half known  log loss of the other half, once half of a route's species are told; only HOT-VAE can be told",
    "joint       minus log likelihood of a route's whole list of species, in nats; less is better",
    "in 90 %     share of routes whose number of species lies in the interval that should hold 0.90",
)
N_MOVED = 5
"""Species that are named in the example of one route."""


@dataclass(frozen=True)
class OneRoute:
    """A route before and after every second species of it is told.

    Attributes
    ----------
    name : str
        Of the route.
    n_present, n_absent : int
        How many species were told to be there, and how many not to be.
    moved : list of (str, float, float, bool)
        The other species whose probability moved most: name, before, after, and whether it was found there.
    """

    name: str
    n_present: int
    n_absent: int
    moved: list[tuple[str, float, float, bool]]


@dataclass(frozen=True, eq=False)
class DemoResult:
    """What came out of :func:`run_demo`.

    Attributes
    ----------
    out : Path
        Folder with ``explorer.html``, ``report.html``, ``results.json``, ``model``, ``birds`` (the tables),
        ``routes.csv`` (all places) and ``seen.csv``.
    seed : int
        The seed.
    table : list of dict
        For each model ``model`` and the :data:`COLUMNS`.
    gaps : dict of str to (float, float)
        HOT-VAE's log loss minus each rival's on the test routes, with half of its 95 % interval over routes.
    files : ExportedSet
        The tables.
    route : OneRoute
        An example of telling it what was seen.
    """

    out: Path
    seed: int
    table: list[dict[str, Any]]
    gaps: dict[str, tuple[float, float]]
    files: ExportedSet
    route: OneRoute


def run_demo(
    out: str | Path,
    *,
    seed: int = 0,
    n_threads: int | None = 1,
    quiet: bool = False,
    tell: Callable[[str], None] = lambda words: None,
    parameters: dict[str, Any] | None = None,
    n_trees: int = 300,
) -> DemoResult:
    """Train HOT-VAE, trees and a plain network on birds, compare them on new blocks of the map, and write pages.

    Parameters
    ----------
    out : path
        Folder to write to; made if needed.
    seed : int
        Decides the models.
    n_threads : int or None
        CPU threads; None uses what is there.
    quiet : bool
        Do not show how training goes.
    tell : callable
        Called with a few words before every step.
    parameters : dict, optional
        Parameters of HOT-VAE other than the defaults.
    n_trees : int
        Trees of the rival forest.

    Returns
    -------
    DemoResult

    Raises
    ------
    ModelError
        When ``out/model`` is something other than a hotvae model.
    """
    out = Path(out)
    check_replaceable(out / "model")  # before the minutes of work, not after
    files = export_set(BIRDS, out / "birds")
    tell(f"{HOT_VAE}, on {len(pd.read_csv(files.train))} routes")
    settings = TrainSettings(
        out=str(out / "model"),
        labels=(files.labels,),
        id_column=files.id_column,
        coordinates=files.coordinates,
        validation=str(files.validation),
        resume=False,
        quiet=quiet,
        parameters={"random_state": seed, "n_threads": n_threads} | (parameters or {}),
    )
    run = train(settings, files.train, command=f"hotvae demo --seed {seed}")
    saved = load_model(out / "model")  # what a reader will use, and it knows its table
    needs = TableNeeds.of_model(saved)
    learn, choose, test = (
        (needs.read_features(path)[0], pd.DataFrame(needs.read_labels(path), columns=list(needs.labels)))
        for path in (files.train, files.validation, files.test)
    )
    models: dict[str, LabelClassifier] = {HOT_VAE: saved}
    seconds = {HOT_VAE: run.seconds}
    rivals = (
        PlainNetClassifier.from_settings(random_state=seed, n_threads=n_threads),
        ExtraTrees(n_trees=n_trees, random_state=seed),
    )
    for rival in rivals:
        tell(f"{rival.title}, on the same routes")
        started = time.perf_counter()
        models[rival.title] = rival.fit(*learn, validation=choose)
        seconds[rival.title] = time.perf_counter() - started

    tell(f"all are asked about {len(test[1])} routes in other blocks of the map")
    probs = {name: np.asarray(model.predict_proba(test[0]), dtype=np.float64) for name, model in models.items()}
    table = [
        {"model": name} | _scores(model, *test, probs[name], seed) | {"seconds": seconds[name]}
        for name, model in models.items()
    ]
    truth = test[1].to_numpy()
    gaps = {name: paired_log_loss(truth, probs[HOT_VAE], probs[name]) for name in models if name != HOT_VAE}
    seen = _seen(files)
    write_table(seen, out / "seen.csv")
    result = DemoResult(out, seed, table, gaps, files, _one_route(saved, *test, seen))
    n_rows = {"train": len(learn[1]), "validation": len(choose[1]), "test": len(test[1])}
    notes = demo_notes(["--seed", str(seed), "--out", out.name], seed, n_rows, table, gaps)
    notes["data"] = {name: getattr(describe(BIRDS), name) for name in ("name", "source", "licence", "citation")}
    write_text(out / "results.json", json.dumps(json_ready(notes), indent=1, ensure_ascii=False) + "\n")
    tell("the explorer: the map of all routes, which answers what it is told")
    every = pd.concat([pd.read_csv(path) for path in (files.train, files.validation, files.test)])
    write_table(every.drop(columns=list(needs.labels)), out / "routes.csv")
    page = out / "explorer.html"
    explore_model(out / "model", out / "routes.csv", page, title="Breeding birds, 2009", seed=seed, force=True)
    tell("the report")
    words = "Breeding birds, 2009: what the model says of routes it has not seen"
    explain_table(out / "model", files.test, out / "report.html", rows=PAGE_ROWS, title=words, seed=seed, force=True)
    return result


def _scores(
    model: LabelClassifier, features: Any, labels: pd.DataFrame, probs: npt.NDArray[np.float64], seed: int
) -> dict[str, float]:
    """Measure single species, and species together; who cannot be told anything says the same as before."""
    truth = labels.to_numpy()

    def told(known: npt.NDArray[np.float64]) -> npt.ArrayLike:
        return model.predict_proba(features, given=known) if model.conditional else probs

    together = joint_scores(
        truth,
        log_likelihood=model.log_likelihood(features, labels),
        probs_given=told,
        draws=model.sample(features, N_DRAWS, random_state=seed),
        shares=(HALF,),
        levels=(LEVEL,),
    ).values
    own = log_loss(truth, probs), mean_auc(truth, probs), together["given_50"], together["nll_row"]
    return dict(zip(COLUMNS, (*own, together["coverage_90"]), strict=False))


def _seen(files: ExportedSet) -> pd.DataFrame:
    """Say every second species of the first test routes, as someone would who has been there for an hour."""
    rows = pd.read_csv(files.test, nrows=20)
    species = rows.loc[:, slice(*files.labels.split(":"))].columns
    return rows[[files.id_column, *species[::2]]]


def demo_notes(
    words: Sequence[str],
    seed: int,
    n_rows: Mapping[str, int],
    table: Sequence[Mapping[str, Any]],
    gaps: Mapping[str, tuple[float, float]],
) -> dict[str, Any]:
    """Note what a demonstration found, and what it takes to find it again."""
    packages = ("hotvae", "torch", "numpy", "scikit-learn")
    return {
        "seed": seed,
        "command": shlex.join(["hotvae", "demo", *words]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version()} | {name: version(name) for name in packages},
        "rows": dict(n_rows),
        "table": list(table),
        "log_loss_gaps": {rival: {"gap": gap, "half_width_95": half} for rival, (gap, half) in gaps.items()},
    }


def _one_route(model: LabelClassifier, features: Any, labels: pd.DataFrame, seen: pd.DataFrame) -> OneRoute:
    """Ask about the first test route before and after what is said of it."""
    route, told, truth = features[:1], seen.iloc[0, 1:], labels.iloc[0]
    given = {str(name): int(value) for name, value in told.items()}
    before, after = (np.asarray(model.predict_proba(route, given=what))[0] for what in (None, given))
    others = [place for place, name in enumerate(labels.columns) if name not in given]
    most = sorted(others, key=lambda place: -abs(after[place] - before[place]))[:N_MOVED]
    moved = [(labels.columns[i], float(before[i]), float(after[i]), bool(truth.iloc[i])) for i in most]
    return OneRoute(str(seen.iloc[0, 0]), int(told.sum()), int((told == 0).sum()), moved)


def comparison(gaps: dict[str, tuple[float, float]]) -> list[str]:
    """Say how HOT-VAE's log loss stands to each rival's, row by row.

    Parameters
    ----------
    gaps : dict of str to (float, float)
        HOT-VAE's log loss minus each rival's, with half of its 95 % interval.

    Returns
    -------
    list of str
        One sentence per rival.

    Examples
    --------
    >>> comparison({"trees": (-0.02, 0.001)})
    ['HOT-VAE against trees: log loss -0.0200 ± 0.0010 (95 %, row by row), HOT-VAE is ahead']
    """
    sentences = []
    for rival, (gap, half_width) in gaps.items():
        verdict = "level" if abs(gap) <= half_width else "HOT-VAE is ahead" if gap < 0 else "HOT-VAE is behind"
        numbers = f"{gap:+.4f} ± {half_width:.4f} (95 %, row by row)"
        sentences.append(f"HOT-VAE against {rival}: log loss {numbers}, {verdict}")
    return sentences


def next_steps(result: DemoResult) -> list[tuple[str, str]]:
    """Say what to type after the demonstration.

    Parameters
    ----------
    result : DemoResult
        From :func:`run_demo`.

    Returns
    -------
    list of (str, str)
        What for, and a line for a shell.
    """
    files, model = result.files, str(result.out / "model")
    tell = ["predict", model, str(files.test), "--given", str(result.out / "seen.csv"), "--out", "told.csv"]
    each = ["evaluate", model, str(files.test), "--per-label", "species.csv"]
    own = ["train", str(files.train), "--labels", files.labels, "--id-column", files.id_column]
    own += ["--coordinates", files.coordinates, "--effort", "quick", "--out", "my_model"]
    steps = {
        "tell it what was seen on twenty routes": tell,
        "how well each species is predicted": each,
        "train on a table: put yours here": own,
    }
    return [(why, shlex.join(["hotvae", *words])) for why, words in steps.items()]
