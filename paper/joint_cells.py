"""One cell of the joint law: a base is fitted once and kept, laws of any kind are learned on it in seconds.

    python -m paper.joint_cells CACHE OUT.json ROWS.npz < cell.json        (what :mod:`paper.joint` starts)

The cell of a law has the model ``"law"`` and says in its settings which base it stands on and how labels speak. What
the base says of training rows that it was not shown, and of test rows, lies in a folder of one's choice, one file for
each set, split, seed and base: whoever comes first fits it. Rivals are fitted as in :mod:`paper.cells`.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from torch import Tensor, nn

from hotvae.checkpoint import json_ready
from hotvae.config import MessagesConfig
from hotvae.errors import DataWarning
from hotvae.estimators import joint_law
from hotvae.estimators.decisions import (
    f1_independent,
    f1_of_draws,
    jaccard_independent,
    jaccard_of_draws,
    likely,
    most_frequent,
)
from hotvae.estimators.hotvae import HotVAEClassifier
from hotvae.estimators.joint import JointClassifier
from hotvae.estimators.joint_law import JointLaw, LawCandidate, default_candidates
from hotvae.estimators.law_rows import LawRows
from hotvae.estimators.recipe import plan_for
from hotvae.estimators.registry import find_classifier
from hotvae.estimators.stacked import OutOfFold, StackedClassifier
from hotvae.metrics.joint import JointScores, joint_scores
from hotvae.net.messages import Messages
from hotvae.training.progress import peak_memory
from hotvae.training.settings import Training
from hotvae.types import GraphMask
from paper.cells import Measured, Parts, _fit, _model, read_parts, recipe_of, timed
from paper.experiments import Cell
from paper.runner import versions
from paper.worker import main as work

LAW = "law"
"""The model of a cell that learns a law on a base."""

N_ORDERS = 4
# Sets that the search for the likeliest one follows.
_BEAM = 4
_N_TREES, _LEAF = 300, 5
# Width of the attention that stands in for sums over edges.
_ATTENTION_DIM = 32


# --- the base, fitted once ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BaseFit:
    """What a base says: all that laws are learned from and measured on.

    Attributes
    ----------
    train : OutOfFold
        Of training rows, by models that were not shown them.
    logits, gates, labels, rows : ndarray
        Of test rows: logits, what may change how labels speak, labels, and row numbers.
    notes : dict
        What it is made of and what it took; JSON-able.
    """

    train: OutOfFold
    logits: NDArray[Any]
    gates: NDArray[Any]
    labels: NDArray[Any]
    rows: NDArray[Any]
    notes: dict[str, Any]

    def save(self, path: Path) -> None:
        """Write it, whole or not at all."""
        own = {field.name: getattr(self.train, field.name) for field in fields(self.train)}
        told = {name: value for name, value in own.items() if not isinstance(value, np.ndarray)}
        arrays = {f"train_{name}": value for name, value in own.items() if isinstance(value, np.ndarray)}
        for name in ("train_logits", "train_gates"):
            arrays[name] = arrays[name].astype(np.float32)
        arrays |= {"logits": self.logits.astype(np.float32), "gates": self.gates.astype(np.float32)}
        arrays |= {"labels": self.labels, "rows": self.rows, "notes": np.array(json.dumps(self.notes | {"own": told}))}
        path.parent.mkdir(parents=True, exist_ok=True)
        partial_file = path.with_name(f"{path.stem}.{os.getpid()}.part.npz")
        np.savez_compressed(partial_file, **arrays)  # type: ignore[arg-type]  # numpy's type has no room for names
        os.replace(partial_file, path)

    @classmethod
    def load(cls, path: Path) -> BaseFit:
        """Read what :meth:`save` wrote."""
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        notes = json.loads(str(arrays.pop("notes")))
        own = {name.removeprefix("train_"): arrays.pop(name) for name in list(arrays) if name.startswith("train_")}
        return cls(OutOfFold(**own | notes.pop("own")), **arrays, notes=notes)


class _ForestAlone(JointClassifier):
    """The base of :class:`JointClassifier` without its law, which is learned from the cache."""

    def _wants_law(self) -> bool:
        return False


def base_path(cell: Cell, cache: Path) -> Path:
    """Name the file of a base.

    Examples
    --------
    >>> base_path(Cell("joint", "hub", LAW, "yeast", seed=2, settings={"base": "forest"}), Path("kept")).name
    'yeast-0-2-forest-normal.npz'
    """
    base, effort = cell.settings["base"], cell.settings.get("effort", "normal")
    return cache / f"{cell.data}-{cell.split}-{cell.seed}-{base}-{effort}.npz"


def base_of(cell: Cell, cache: Path) -> BaseFit:
    """Read the base of a cell, or fit it and keep it; two cells that need it at once wait for each other."""
    path = base_path(cell, cache)
    with _locked(path.with_suffix(".lock")):
        if not path.exists():
            fit_base(cell).save(path)
    return BaseFit.load(path)


def fit_base(cell: Cell) -> BaseFit:
    """Fit the base of a cell."""
    effort = cell.settings.get("effort", "normal")
    own = replace(cell, model="hotvae", settings={"effort": effort, "joint": False})
    recipe = recipe_of(own)
    parts = read_parts(own, recipe)
    model: StackedClassifier
    if cell.settings["base"] == "forest":
        n_trees = _N_TREES if effort != "quick" else 50
        # Full trees of hundreds of labels would fill the memory, and their leaves are too sure.
        forest = RandomForestClassifier(n_trees, min_samples_leaf=_LEAF, n_jobs=1)
        model = _ForestAlone(base=forest, random_state=cell.seed)
    else:
        found = _model(own, recipe)
        assert isinstance(found, HotVAEClassifier)
        model = found
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # rare species have one class in some part
        _, seconds = timed(lambda: _fit(model, parts))
    if model.out_of_fold_ is None:
        raise ValueError("a law needs two labels or more")
    (logits, gates), predict_seconds = timed(lambda: model._base(model._read(parts.test[0])))
    notes = {
        "fit_seconds": seconds,
        "predict_seconds": predict_seconds,
        "recipe": model.recipe_.lines(),
        "n_rows": [len(rows[1]) for rows in (parts.train, parts.validation, parts.test)],
    }
    return BaseFit(model.out_of_fold_, logits, gates, parts.test[1], parts.split.test, notes)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# --- laws --------------------------------------------------------------------------------------------------


class SoftmaxMessages(Messages):
    """Labels look at each other by softmax attention, as in the paper, instead of sums over edges.

    The state of a label is its own embedding and its news; what it hears is an average of others, whose weights are one
    in sum.
    """

    def __init__(self, n_labels: int, n_features: int, config: MessagesConfig, graph: GraphMask | None = None) -> None:
        super().__init__(n_labels, n_features, replace(config, edges="none", n_causes=0, hub_width=0), graph)
        self.embedding = nn.Parameter(torch.randn(n_labels, _ATTENTION_DIM) / 4)
        self.news_in = nn.Linear(2, _ATTENTION_DIM, bias=False)
        self.query, self.key, self.value = (nn.Linear(_ATTENTION_DIM, _ATTENTION_DIM, bias=False) for _ in range(3))
        self.read = nn.Parameter(torch.zeros(n_labels, _ATTENTION_DIM))

    def _rounds(
        self, base_logits: Tensor, features: Tensor, given: Tensor, heard_last: Tensor | slice
    ) -> Iterator[Tensor]:
        known = (~torch.isnan(given)).to(base_logits.dtype)
        probs = base_logits.sigmoid()
        first = torch.nan_to_num(given - probs, nan=0.0)
        if self.training and self.config.dropout:
            heard = (torch.rand_like(first) >= self.config.dropout).to(first.dtype)
            known, first = known * heard, first * heard
        some = (known.sum(-1, keepdim=True) > 0).to(base_logits.dtype)
        news = first
        for round_ in range(self.config.n_rounds):
            is_last = round_ == self.config.n_rounds - 1
            state = self.embedding + self.news_in(torch.stack([news, known], dim=-1))
            scores = self.query(state) @ self.key(state).mT / _ATTENTION_DIM**0.5
            heard_of = scores.softmax(-1) @ self.value(state)
            logits = base_logits + some * (heard_of * self.read).sum(-1)
            yield logits[..., heard_last] if is_last else logits
            if not is_last:
                passed = torch.where(known > 0, self.passing_known[round_], self.passing[round_]).tanh()
                news = first + passed * (logits.sigmoid() - probs)


def learn_law(settings: Mapping[str, Any], train: OutOfFold) -> JointLaw:
    """Learn the law that the settings of a cell tell of.

    Parameters
    ----------
    settings : mapping
        ``law``: ``"default"``, ``"none"`` for independent labels, or the settings of
        :class:`~hotvae.config.MessagesConfig`; with the latter ``trainings``, pairs of step size and decay among which
        held-out rows choose. ``change``: what is different in all that the default tries. ``constant`` leaves features
        without a say in how labels speak, ``softmax`` puts attention in the place of edges.
    train : OutOfFold
        What the base says.

    Returns
    -------
    JointLaw
    """
    kind = settings["law"]
    if kind == "none":
        return JointLaw(None, train.labels.shape[1])
    if settings.get("constant"):
        train = replace(train, gates=np.zeros((len(train.labels), 1), dtype=np.float32))
    training = Training(n_threads=1)
    if kind == "default" and "change" not in settings:
        return train.learn_law(training)
    if kind == "default":
        n_rows, n_labels = train.labels.shape
        usual = default_candidates(n_rows, n_labels, train.graph)
        candidates = list(dict.fromkeys(_changed(candidate, settings["change"]) for candidate in usual))
    else:
        config = MessagesConfig(**kind)
        candidates = [LawCandidate(config, float(rate), float(decay)) for rate, decay in settings["trainings"]]
    if settings.get("softmax"):
        # A cell has a process of its own: nobody else sees what stands in.
        setattr(joint_law, "Messages", SoftmaxMessages)  # noqa: B010
    try:
        return train.learn_law(training, candidates)
    finally:
        setattr(joint_law, "Messages", Messages)  # noqa: B010


def _changed(candidate: LawCandidate, change: Mapping[str, Any]) -> LawCandidate:
    """Change how labels speak; labels without edges of their own get none."""
    has_edges = candidate.config.edges != "none"
    own = {name: value for name, value in change.items() if name != "edges" or has_edges}
    return replace(candidate, config=replace(candidate.config, **own))


def law_effort(settings: Mapping[str, Any], base: BaseFit) -> float:
    """Say how long a law is trained, as a share of the usual epochs: as asked, or as the estimator does."""
    if "law_effort" in settings:
        return float(settings["law_effort"])
    if settings["base"] == "forest":
        return JointClassifier.law_effort
    n_rows, n_labels = base.notes["n_rows"][0], base.train.labels.shape[1]
    return plan_for(n_rows, base.train.gates.shape[1], n_labels, settings.get("effort", "normal")).law_effort


def measure_law(cell: Cell, cache: Path) -> Measured:
    """Learn a law on a base, and measure it on test rows."""
    base, settings = base_of(cell, cache), cell.settings
    # How long a law is trained is no matter of the base: what is usual now, whenever the base was fitted.
    train = replace(base.train, effort=law_effort(settings, base))
    law, law_seconds = timed(lambda: learn_law(settings, train))
    gates = np.zeros((len(base.labels), 1), dtype=np.float32) if settings.get("constant") else base.gates
    rows = LawRows(law, base.logits, gates)
    labels = base.labels
    by_order = law.log_likelihood_by_order(rows.logits, rows.gates, labels, N_ORDERS)
    likelihood = np.logaddexp.reduce(by_order, axis=1) - np.log(by_order.shape[1])
    asked: dict[str, Any] = {"log_likelihood": likelihood, "probs_given": rows.probs_given}
    seconds = {}
    if not settings.get("brief"):
        random = np.random.default_rng(cell.seed)
        (draws,), seconds["draw_seconds"] = timed(lambda: list(rows.draw_blocks(None, [cell.n_draws], random)))
        lists = _lists(draws if rows.is_joint else None, rows.probs())
        lists["subset"], seconds["subset_seconds"] = timed(lambda: rows.likeliest(width=_BEAM))
        asked |= {"draws": draws, "lists": lists}
    scores, seconds["score_seconds"] = timed(lambda: joint_scores(labels, **asked))
    found = {
        "title": cell.variant,
        "law_seconds": law_seconds,
        **seconds,
        "fit_seconds": {name: base.notes["fit_seconds"][name] + law_seconds[name] for name in ("cpu", "wall")},
        "base": base.notes,
        # How far two orders of the labels disagree: a standard deviation over orders, its mean over rows.
        "order_spread": float(by_order.std(axis=1, ddof=1).mean()),
        "messages": None if law.messages is None else law.notes()["config"],
        "n_blocks": law.n_blocks,
        "block_loss": {str(n): loss for n, loss in law.block_loss.items()},
        "tried": law.scores,
    }
    return _measured(cell, scores, found, base.rows, labels.shape, base.notes["n_rows"])


# --- rivals ------------------------------------------------------------------------------------------------


def with_squares(parts: Parts) -> Parts:
    """Put the square of every measured column beside it, in units of the training rows; bags of words stay."""
    if not isinstance(parts.train[0], np.ndarray):
        return parts
    train = np.asarray(parts.train[0], dtype=np.float64)
    measured = [column for column in range(train.shape[1]) if len(np.unique(train[:, column])) > 2]
    mean, spread = np.nanmean(train[:, measured], axis=0), np.nanstd(train[:, measured], axis=0)

    def squared(part: tuple[Any, NDArray[Any]]) -> tuple[Any, NDArray[Any]]:
        table = np.asarray(part[0], dtype=np.float64)
        return np.hstack([table, ((table[:, measured] - mean) / np.where(spread > 0, spread, 1)) ** 2]), part[1]

    return replace(parts, train=squared(parts.train), validation=squared(parts.validation), test=squared(parts.test))


def measure_rival(cell: Cell) -> Measured:
    """Fit a model of the package and measure it on test rows."""
    settings = dict(cell.settings)
    squares = settings.pop("squares", False)
    own = replace(cell, settings=settings)
    recipe = recipe_of(own)
    parts = read_parts(own, recipe)
    if squares:
        parts = with_squares(parts)
    model = _model(own, recipe)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        _, fit_seconds = timed(lambda: _fit(model, parts))
    features, labels = parts.test
    alone = np.asarray(model.predict_proba(features))
    likelihood, likelihood_seconds = timed(lambda: model.log_likelihood(features, labels, N_ORDERS))
    draws, draw_seconds = timed(lambda: model.sample(features, cell.n_draws, random_state=cell.seed))

    def given(known: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(model.predict_proba(features, given=known)) if model.conditional else alone

    lists = _lists(draws if model.draws_jointly else None, alone)
    scores = joint_scores(labels, log_likelihood=likelihood, probs_given=given, draws=draws, lists=lists)
    found = {
        "title": recipe.cls.title,
        "fit_seconds": fit_seconds,
        "likelihood_seconds": likelihood_seconds,
        "draw_seconds": draw_seconds,
    }
    n_rows = [len(rows[1]) for rows in (parts.train, parts.validation, parts.test)]
    return _measured(cell, scores, found, parts.split.test, labels.shape, n_rows)


def _lists(draws: NDArray[Any] | None, probs: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Best lists of each row: where labels go together from draws and from each label's probability, else exactly."""
    if draws is None:
        return {"f1": f1_independent(probs), "jaccard": jaccard_independent(probs), "subset": likely(probs)}
    drawn = {"f1": f1_of_draws(draws, probs=probs), "jaccard": jaccard_of_draws(draws, probs=probs)}
    return drawn | {"subset": most_frequent(draws)}


def _measured(
    cell: Cell,
    scores: JointScores,
    found: Mapping[str, Any],
    rows: NDArray[Any],
    shape: tuple[int, ...],
    n_rows: list[int],
) -> Measured:
    line = {
        **found,
        "joint": scores.values,
        "empty": scores.empty,
        # The runner shows this one while it goes.
        "metrics": {"honest": {"log_loss": scores.values["nll_label"]}},
        "peak_memory_gb": peak_memory(),
        "n_rows": n_rows,
        "n_labels": shape[1],
        "versions": versions(),
        "recipe": settings_of(cell),
    }
    values = {name: value.astype(np.float32) for name, value in scores.rows.items()}
    return Measured(json_ready(line), {"row": rows.astype(np.int32), **values})


def settings_of(cell: Cell) -> dict[str, Any]:
    """Return everything a cell is fitted with."""
    if cell.model == LAW:
        return dict(cell.settings)
    own = {name: value for name, value in cell.settings.items() if name != "squares"}
    squares = {"squares": True} if cell.settings.get("squares") else {}
    return recipe_of(replace(cell, settings=own)).to_dict() | squares


def run_joint_cell(cell: Cell, cache: Path) -> Measured:
    """Fit and measure a cell.

    Parameters
    ----------
    cell : Cell
        What to do.
    cache : Path
        Folder of the bases.

    Returns
    -------
    Measured
    """
    torch.set_num_threads(1)
    # The first optimiser of a process loads much of torch; that is nobody's training time.
    find_classifier("plain").from_settings(max_epochs=1, encoder_widths=(4,)).fit([[0.0], [1.0]], [[0], [1]])
    return measure_law(cell, cache) if cell.model == LAW else measure_rival(cell)


def main() -> int:
    """Answer one cell; the first argument is the folder of the bases."""
    if len(sys.argv) != 4:
        raise SystemExit("worker needs the folder of the bases and the files of its answer and of its rows")
    measure: Callable[[Cell], Measured] = partial(run_joint_cell, cache=Path(sys.argv[1]))
    return work(sys.argv[2:], measure)


if __name__ == "__main__":
    sys.exit(main())
