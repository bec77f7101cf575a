"""The recipe: which models, on which form of the columns, with which weights; found by a short race on held-out rows.

1. Columns: :class:`~hotvae.features.columns.ColumnPlan` says what each is; *forms* of them are made ready
   (:class:`Forms`), such as numbers by ranks, or with places of the map.
2. Folds: rows are held out as the model will be used (:mod:`hotvae.estimators.folds`).
3. Race: every candidate is fitted on one fold, with few rows on all of them, networks for a third of their epochs
   first; those stay that make the stack better (:func:`race`).
4. All folds: who stays is fitted on every fold, so that each row has logits of models that were not shown it, and the
   stack is learned from these (:func:`follow_recipe`).
5. All rows: then each is fitted once more, on all rows.

Everything is decided by the seed and by counting, not by a clock: the same table gives the same model.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hotvae.checkpoint import read_tensors, write_tensors
from hotvae.config import require_choice, require_number
from hotvae.errors import TrainingError
from hotvae.estimators.folds import Folds
from hotvae.estimators.members import Candidate, Member, RidgeMember, fit_member, restore_member
from hotvae.estimators.ridge_base import MAX_UNKNOWNS
from hotvae.estimators.stack import Stack, fit_stack, logit_loss
from hotvae.features import FeatureScaler, Rows
from hotvae.training.settings import Training

Effort = Literal["quick", "normal", "thorough"]

# A member that makes the stack better by less than this share of its log loss is not worth its time: on one fold, where
# less may be chance, and on all folds of a small table, where another member costs seconds.
_WORTH, _WORTH_ON_ALL = 0.003, 0.001
# How much longer a training is whose step size falls to 0 at its end than one that is stopped at its best epoch.
_TO_THE_END = 1.7
# What a forest whose leaves hold a row each must gain on a small table: it is large, and its steps are hard to imitate.
_FOREST_GAIN = 0.01
# A member with less than this share of all weights is left out of the model.
_LEAST_SHARE = 0.03
# Rows up to which a table is small: everything is compared on all folds.
_FEW_ROWS = 4_000
# Cells (rows × labels) up to which messages between labels are trained for long.
_LARGE_TABLE = 5_000_000
# Columns, such as words, beyond which networks are costly: one is tried, in larger batches.
_MANY_COLUMNS = 8_000
# Beyond these a network takes hours (200,000 columns of 10,000 rows: some 17 on one core, by expected_seconds), and is
# left to trees and the ridge, where the rows are few enough for one.
_TOO_MANY_COLUMNS = 50_000
# Multiply-adds a second of one ordinary core in a perceptron; turns seconds into work that can be counted.
_SPEED = 8e9


@dataclass(frozen=True)
class Plan:
    """How much work a table of some size is worth.

    Attributes
    ----------
    n_folds : int
        Folds that rows are dealt into.
    n_trees : int
        Trees of a forest.
    n_candidates : int
        Networks that take part in the race.
    n_networks : int
        Networks that may stay.
    n_race_folds : int
        Folds that candidates are compared on: few rows need them all, of many rows one fold tells enough.
    n_seeds : int
        Times that a network which stays is trained on all rows, each from another start; their logits are averaged.
    law_effort : float
        Epochs that messages between labels are trained for, as a share of their usual number.
    max_epochs, batch_size, learning_rate
        Of the networks.
    """

    n_folds: int
    n_trees: int
    n_candidates: int
    n_networks: int
    n_race_folds: int
    n_seeds: int
    law_effort: float
    max_epochs: int
    batch_size: int
    learning_rate: float

    def training(self, base: Training, candidate: Candidate, epochs: int | None = None) -> Training:
        """Return how a network is trained; ``base`` says where and on how many threads."""
        longest = self.max_epochs if epochs is None else epochs
        return base.but(
            max_epochs=longest if candidate.epochs is None else candidate.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            # A network whose length is known is trained to its end, where the step size is 0.
            patience=max(4, longest // 4) if candidate.epochs is None else 0,
            progress="silent",
        )


def plan_for(n_rows: int, n_features: int, n_labels: int, effort: Effort | float) -> Plan:
    """Choose how much work to do.

    Parameters
    ----------
    n_rows, n_features, n_labels : int
        Size of the training table.
    effort : {"quick", "normal", "thorough"} or float
        How hard to try; a number is seconds of an ordinary core, and takes the most thorough plan that fits in.

    Returns
    -------
    Plan

    Examples
    --------
    >>> plan_for(2000, 13, 123, "normal").n_folds, plan_for(200_000, 13, 123, "normal").n_folds
    (4, 2)
    """
    if isinstance(effort, str):
        require_choice("effort", effort, get_args(Effort))
    else:
        require_number("effort", effort, above=True)
        plans = [plan_for(n_rows, n_features, n_labels, name) for name in ("thorough", "normal")]
        fitting = [plan for plan in plans if expected_seconds(plan, n_rows, n_features, n_labels) <= effort]
        return fitting[0] if fitting else plan_for(n_rows, n_features, n_labels, "quick")
    size = int(np.searchsorted((_FEW_ROWS, 10_000, 40_000), n_rows))
    batch_size, learning_rate = ((64, 1e-3), (128, 2e-3), (128, 2e-3), (256, 2e-3))[size]
    n_folds, n_seeds = ((5, 2), (4, 2), (3, 2), (2, 1))[size]
    if 1_500 < n_rows <= _FEW_ROWS:  # as many rows as make up for a fold less
        batch_size, learning_rate, n_folds = 128, 2e-3, 4
    # Where rows are few, messages that are trained for longer learn them by heart; edges that turn with the features
    # want both rows and time.
    law_effort = 2.0 if size and n_rows * n_labels <= _LARGE_TABLE else 0.5
    n_candidates = 4
    if n_features > _MANY_COLUMNS:  # a step costs as much as there are weights, however few rows it sees
        batch_size, n_candidates, n_seeds, n_folds = 2 * batch_size, 1, 1, min(n_folds, 3)
    if effort == "quick":
        return Plan(2 if size else 3, 100, 1, 1, 1, 1, 0.25, 20, batch_size, learning_rate)
    n_networks, n_race_folds = (1, 1) if size else (2, n_folds)
    if effort == "normal":
        return Plan(
            n_folds, 200, n_candidates, n_networks, n_race_folds, n_seeds, law_effort, 30, batch_size, learning_rate
        )
    n_race_folds = 1 if size else n_folds + 1
    return Plan(n_folds + 1, 400, 8, 3, n_race_folds, n_seeds + 2, 2 * law_effort, 60, batch_size, learning_rate)


def expected_seconds(plan: Plan, n_rows: int, n_features: int, n_labels: int) -> float:
    """Estimate the seconds of an ordinary core that a plan takes: multiply-adds of networks, steps, and trees."""
    weights = (n_features + 100) * 512 + 512 * 512 + 512 * n_labels
    fits = plan.n_candidates / 3 + plan.n_networks * (plan.n_folds + 1 + plan.n_seeds)
    n_steps = plan.max_epochs * fits * n_rows / plan.batch_size
    n_law_steps = 200 * plan.law_effort * n_rows / 64
    trees = 2 * plan.n_trees * (2e-3 + 2e-6 * n_rows)
    return 3 * weights * n_steps * plan.batch_size / _SPEED + 2e-3 * n_steps + 4e-3 * n_law_steps + trees


# Forms of the features -------------------------------------------------------------------------------------


class Forms:
    """A planned table in the forms that candidates take, each learned from the training rows and made once.

    Parameters
    ----------
    makers : dict of str to transformer
        Untrained, by the name of the form.
    names : tuple of str, optional
        Names of the columns of an array, for messages.
    """

    def __init__(self, makers: dict[str, Any], names: tuple[str, ...] | None = None) -> None:
        self.makers, self.names = makers, names
        self._tables: dict[str, Any] = {}

    def learn(self, name: str, table: Any) -> Any:
        """Return the training rows in a form."""
        if name not in self._tables:
            self._tables[name] = self.makers[name].fit(table, feature_names=self.names).transform(table)
        return self._tables[name]

    def forget_tables(self, kept: Sequence[str]) -> None:
        """Let go of the training rows, and of forms that nobody takes."""
        self._tables = {}
        self.makers = {name: maker for name, maker in self.makers.items() if name in kept}


@dataclass(frozen=True)
class Facts:
    """What a planned table is like.

    Attributes
    ----------
    n_rows, n_columns, n_labels : int
        Its size.
    is_bag : bool
        Whether all columns are 0 and 1, or weights of words.
    places : pair of int, optional
        Columns that say where a row is.
    degrees : bool
        Whether these are longitude and latitude.
    """

    n_rows: int
    n_columns: int
    n_labels: int
    is_bag: bool
    places: tuple[int, int] | None = None
    degrees: bool = False


def make_forms(plan: Facts) -> dict[str, FeatureScaler]:
    """Return the forms of a table that are worth trying, untrained."""
    n_rows = plan.n_rows
    if plan.is_bag:
        return {"values": FeatureScaler(scaling="none")}
    # Beyond the training rows a column says what its outermost value said: a straight line would go on without end.
    forms = {"values": FeatureScaler(scaling="none"), "scaled": FeatureScaler(scaling="auto", clamp=True)}
    if plan.places is not None:
        n_places = int(np.clip(n_rows // 15, 20, 100))
        forms["places"] = FeatureScaler(
            scaling="auto", spatial_units=n_places, spatial_columns=plan.places, spatial_degrees=plan.degrees
        )
    forms["landmarks"] = FeatureScaler(scaling="auto", landmarks=min(1000, n_rows))
    return forms


def candidates_for(plan: Facts, work: Plan) -> list[Candidate]:
    """List what takes part in the race: first what is quick, then networks, the likeliest first.

    Parameters
    ----------
    plan : Facts
        What the table is like.
    work : Plan
        How much work to do.
    """
    n_rows, n_columns = plan.n_rows, plan.n_columns
    listed = []
    wide = n_columns >= 30
    if plan.is_bag:
        grown = {"n_trees": work.n_trees, "kind": "forest", "min_leaf": 1, "max_features": n_columns**-0.5}
        listed.append(Candidate("random forest", "trees", "values", grown))
        if n_rows * n_columns <= 2_000_000:
            grown = grown | {"kind": "extra", "max_features": 0.3}
            listed.append(Candidate("extremely randomised trees", "trees", "values", grown))
            listed.append(Candidate(f"{listed[1].name}, leaves of 3", "trees", "values", grown | {"min_leaf": 3}))
    else:
        grown = {"n_trees": work.n_trees, "kind": "extra", "min_leaf": 3, "max_features": 0.3 if wide else 1.0}
        listed.append(Candidate("extremely randomised trees", "trees", "values", grown))
        listed.append(Candidate(f"{listed[0].name}, leaves of 10", "trees", "values", grown | {"min_leaf": 10}))
        if work.n_race_folds > 1:  # a small table: a fold of a forest takes less than a second
            grown = grown | {"kind": "forest", "min_leaf": 1, "max_features": 1 / 3}
            listed.append(Candidate("random forest", "trees", "values", grown, must_gain=_FOREST_GAIN))
    if min(n_rows, n_columns) <= MAX_UNKNOWNS // 2:
        listed.append(Candidate("ridge", "ridge", "values" if plan.is_bag else "scaled"))

    def network(form: str, widths: tuple[int, ...], dropout: float) -> Candidate:
        shape = f"{len(widths)} × {widths[0]}" if len(widths) > 1 else str(widths[0])
        on = {"places": " with places", "landmarks": " with landmarks"}.get(form, "")
        settings = {"widths": widths, "dropout": dropout}
        return Candidate(f"network {shape}, dropout {dropout:g}{on}", "network", form, settings)

    if plan.is_bag:
        networks = [
            network("values", (512, 512), 0.5),
            network("values", (1024,), 0.6),
            network("values", (1024,), 0.8),
        ]
    else:
        networks = [network("scaled", (512, 512), 0.3)]
        if n_columns >= 15:
            networks.insert(0, network("landmarks", (1024,), 0.5))
        if plan.places is not None:
            networks[:0] = [network("places", (512, 512), 0.3), network("places", (512, 512, 512), 0.3)]
        networks += [network("scaled", (512, 512, 512), 0.3), network("scaled", (1024,), 0.5)]
    has_ridge = listed[-1].kind == "ridge"
    return listed + ([] if n_columns > _TOO_MANY_COLUMNS and has_ridge else networks[: work.n_candidates])


# The race --------------------------------------------------------------------------------------------------


@dataclass
class Entry:
    """What became of a candidate.

    Attributes
    ----------
    name, kind, form : str
        What it is.
    epochs : int
        Epochs that it was trained for in the race; 0 for what has none.
    log_loss : float
        Alone, on the rows held out in the race.
    stacked : float or None
        With those that had been chosen before it.
    outcome : str
        What was decided.
    weight : float
        In the stack; 0 for what is not in it.
    seconds : float
        Processor time of all its fits.
    """

    name: str
    kind: str
    form: str
    epochs: int = 0
    log_loss: float = float("nan")
    stacked: float | None = None
    outcome: str = ""
    weight: float = 0.0
    seconds: float = 0.0


@dataclass
class Recipe:
    """What was decided, and why: a line for each column or group of them, an entry for each candidate.

    Attributes
    ----------
    columns : list of str
        What the columns are.
    folds : str
        How rows were held out.
    plan : Plan
        How much work was planned.
    entries : list of Entry
        The candidates.
    log_loss : float
        Of the stack, on rows that its members were not shown.
    together : str
        What was learned of labels together, in a line.
    rows : str
        What was learned from how many rows, in a line, where a part of them decided.
    """

    columns: list[str]
    folds: str
    plan: Plan
    entries: list[Entry] = field(default_factory=list)
    log_loss: float = float("nan")
    together: str = ""
    rows: str = ""

    def lines(self) -> list[str]:
        """Tell it in lines of text."""
        told = [f"columns: {line}" for line in self.columns] + [f"held out: {self.folds}"]
        for entry in self.entries:
            stacked = "" if entry.stacked is None else f", with those before it {entry.stacked:.4f}"
            told.append(f"{entry.name}: log loss {entry.log_loss:.4f}{stacked}; {entry.outcome}")
        return [*told, self.stack_line(), *(line for line in (self.together, self.rows) if line)]

    def stack_line(self) -> str:
        """Tell what is stacked, with which weights, in a line."""
        chosen = ", ".join(f"{entry.weight:.2f} × {entry.name}" for entry in self.entries if entry.weight > 0)
        chosen = chosen or "nothing but how common each label is"
        return f"stack: {chosen}; log loss {self.log_loss:.4f} on rows held out"

    def state(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Recipe:
        """Take back what :meth:`state` returned."""
        entries = [Entry(**entry) for entry in state["entries"]]
        names = ("columns", "folds", "log_loss", "together", "rows")
        told = {name: state[name] for name in names if name in state}  # models of before had no rows to tell of
        recipe = cls(plan=Plan(**state["plan"]), entries=entries, **told)
        recipe.lines()  # one that cannot be told fails here, where it is read
        return recipe


Helpers = Callable[["Workshop", Callable[..., Any], Sequence[tuple[Any, ...]]], list[dict[str, float]]]
"""Call a method of a workshop once for each tuple of arguments, elsewhere; return each call's ``seconds``."""

_helpers: ContextVar[Helpers | None] = ContextVar("helpers", default=None)


@contextmanager
def helped(helpers: Helpers) -> Iterator[None]:
    """Let fits inside the block that do not need each other be made elsewhere at the same time.

    Fitted members come back through the workshop's folder, so that the model is the one made without help.
    """
    before = _helpers.set(helpers)
    try:
        yield
    finally:
        _helpers.reset(before)


class Workshop:
    """Fits candidates on folds and on all rows, and remembers what is done, in a folder if there is one.

    Parameters
    ----------
    forms : Forms
        Of the features.
    table : table
        The planned training table.
    labels : ndarray of shape (n_rows, n_labels)
        0, 1 or NaN.
    folds : Folds
        Of the rows.
    training : Training
        Where networks run.
    work : Plan
        How much work to do.
    seed : int
        Decides everything that is random.
    own : scikit-learn classifier, optional
        The user's own base.
    scratch : path, optional
        Folder where every fitted member is kept until the model is whole; a run that was killed goes on from there.
    say : callable
        Takes a line of text for the watcher.
    """

    def __init__(
        self,
        forms: Forms,
        table: Any,
        labels: NDArray[Any],
        folds: Folds,
        training: Training,
        work: Plan,
        seed: int,
        *,
        own: Any = None,
        scratch: Path | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.forms, self.table, self.labels, self.folds = forms, table, labels.astype(np.float32), folds
        self.training, self.work, self.seed, self.own, self.say = training, work, seed, own, say
        self.scratch = scratch
        self.seconds: dict[str, float] = {}
        self._ridge: Member | None = None
        self._found: dict[tuple[str, int | None, int], NDArray[Any]] = {}
        if scratch is not None:
            self._open_scratch(scratch)

    def rows(self, candidate: Candidate, index: NDArray[np.intp] | None = None) -> Rows:
        """Return rows in the form a candidate takes."""
        rows = Rows(self.forms.learn(candidate.form, self.table), self.labels)
        return rows if index is None else rows[index]

    def ahead(self, fit: Callable[..., Any], asked: Sequence[tuple[Any, ...]]) -> None:
        """Let helpers, where there are some, make fits that come next; what they leave in the folder is taken then.

        Parameters
        ----------
        fit : method of this class
            Fits.
        asked : sequence of tuple
            Its arguments, the candidate first.
        """
        helpers = _helpers.get()
        asked = [each for each in asked if each[0].kind in ("trees", "network")]  # others are quick, or not kept
        if helpers is None or self.scratch is None or not asked:
            return
        for candidate, *_ in asked:
            self.forms.learn(candidate.form, self.table)
        for seconds in helpers(self, fit, asked):
            for name, spent in seconds.items():
                self.seconds[name] = self.seconds.get(name, 0.0) + spent

    def held_out(self, candidate: Candidate, n_folds: int) -> NDArray[Any]:
        """Return logits of the rows of the first so many folds, fold after fold, by models that were not shown them."""
        for fold in range(n_folds):
            key = (candidate.name, candidate.epochs, fold)
            if key not in self._found:
                self._found[key] = self.on_fold(candidate, fold)[1]
        return np.concatenate([self._found[candidate.name, candidate.epochs, fold] for fold in range(n_folds)])

    def rows_of(self, n_folds: int) -> NDArray[np.intp]:
        """Return the rows of the first so many folds, fold after fold."""
        return np.concatenate([self.folds.parts(fold)[1] for fold in range(n_folds)])

    def on_fold(self, candidate: Candidate, fold: int, epochs: int | None = None) -> tuple[Member, NDArray[Any]]:
        """Fit a candidate on all folds but one; return it and its logits of that fold's rows."""
        inner, outer = self.folds.parts(fold)
        held = self.rows(candidate, outer)
        training = self.work.training(self.training, candidate, epochs)
        if candidate.kind == "ridge" and self.folds.single_rows:
            # Of a ridge one knows what it would say of each row if it had not been shown that row: no folds needed.
            whole = cast(RidgeMember, self.on_all(candidate)[0])
            return whole, cast(NDArray[Any], whole.left_out)[outer]

        def fit() -> Member:
            # Small forests are seconds; of large ones all folds together cost as much as the forest on all rows.
            fewest = 100 if len(self.labels) <= _FEW_ROWS else 20
            n_trees = max(min(fewest, self.work.n_trees), self.work.n_trees // self.folds.n_folds)
            trees = {"n_trees": n_trees} if candidate.kind == "trees" else {}
            fewer = replace(candidate, settings={**candidate.settings, **trees})
            seed = self._seed(candidate, fold)
            return fit_member(fewer, self.rows(candidate, inner), held, training, seed, own=self.own)

        member = self._kept(candidate, f"fold{fold}-{training.max_epochs}", fit)
        return member, member.logits(held.features)

    def on_all(self, candidate: Candidate) -> list[Member]:
        """Fit a candidate on all rows, a network several times."""
        if candidate.kind == "ridge":
            if self._ridge is None:
                self._ridge = fit_member(candidate, self.rows(candidate), None, self.training, self.seed)
            return [self._ridge]
        return [self.on_all_again(candidate, again) for again in range(self.n_fits(candidate))]

    def n_fits(self, candidate: Candidate) -> int:
        """Return how often a candidate is fitted on all rows."""
        return self.work.n_seeds if candidate.kind == "network" else 1

    def on_all_again(self, candidate: Candidate, again: int) -> Member:
        """Fit a candidate on all rows for the first time (0), or from another start."""
        training = self.work.training(self.training, candidate)

        def fit() -> Member:
            seed = self._seed(candidate, 1000 + again)
            return fit_member(candidate, self.rows(candidate), None, training, seed, own=self.own)

        return self._kept(candidate, f"all{again}", fit)

    def _seed(self, candidate: Candidate, part: int) -> int:
        text = f"{self.seed} {candidate.name} {part}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") // 2

    # Resuming ---------------------------------------------------------------------------------------------

    def _open_scratch(self, folder: Path) -> None:
        """Make sure that what lies in the folder belongs to this very run."""
        digest = hashlib.sha256(self.labels.tobytes())
        table = self.forms.learn("values", self.table)
        for part in (table.data, table.indices) if sparse.issparse(table) else (table,):  # type: ignore[attr-defined]
            digest.update(np.ascontiguousarray(part).tobytes())
        digest.update(json.dumps([asdict(self.work), self.seed, self.folds.of_row.tolist(), repr(self.own)]).encode())
        folder.mkdir(parents=True, exist_ok=True)
        mark = folder / "run"
        if not mark.exists():
            mark.write_text(digest.hexdigest(), encoding="ascii")
        elif mark.read_text(encoding="ascii", errors="replace") != digest.hexdigest():
            raise TrainingError(
                f"state must be of this run; got one of other rows or settings ({folder}). Remove it to start anew."
            )

    def _kept(self, candidate: Candidate, what: str, fit: Callable[[], Member]) -> Member:
        """Fit, or take what a run before this one has fitted."""
        started = time.process_time()
        file = None
        if self.scratch is not None and candidate.kind != "own":
            name = hashlib.sha256(f"{candidate} {what}".encode()).hexdigest()[:16]
            file = self.scratch / f"{name}.safetensors"
            if file.exists():
                tensors, notes = read_tensors(file)
                return restore_member(candidate, tensors, int(notes["n_epochs"]))
        member = fit()
        if file is not None:
            write_tensors(file, member.tensors(), {"n_epochs": member.n_epochs})
        self.seconds[candidate.name] = self.seconds.get(candidate.name, 0.0) + time.process_time() - started
        return member


def race(shop: Workshop, candidates: Sequence[Candidate]) -> tuple[list[Candidate], list[Entry]]:
    """Choose candidates on the first fold, on a small table on all of them.

    What is quick is fitted as it is; who must gain something to race on is looked at on the first fold before. Networks
    are trained on one fold for a third of their epochs; the best of these, by what each adds to the others, are trained
    until the held-out rows have been content for a while; and then again, in a training 1.7 times as long as its best
    epoch says, the step size falling to 0 at its end, which is better than stopping midway. Then candidates are chosen
    one by one: each time the one that makes the stack best, until nothing makes it better by three thousandths, or by
    one where all folds were looked at.

    Parameters
    ----------
    shop : Workshop
        Fits.
    candidates : sequence of Candidate
        What takes part.

    Returns
    -------
    chosen : list of Candidate
        In the order of choosing.
    entries : list of Entry
        What became of each.
    """
    n_folds, first = shop.work.n_race_folds, shop.folds.parts(0)[1]
    labels = shop.labels[shop.rows_of(n_folds)]
    logits: dict[str, NDArray[Any]] = {}
    entries = {candidate.name: Entry(candidate.name, candidate.kind, candidate.form) for candidate in candidates}

    def note(candidate: Candidate, found: NDArray[Any], n_epochs: int = 0, stage: str = "") -> None:
        entry, logits[candidate.name] = entries[candidate.name], found
        entry.epochs, entry.log_loss = n_epochs, logit_loss(labels[: len(found)], found)
        length = f" ({stage}, {n_epochs} epochs)" if n_epochs else ""
        shop.say(f"{candidate.name}: log loss {entry.log_loss:.4f}{length}")

    def stacked(names: Sequence[str], n_rows: int) -> float:
        tables, target = [logits[name][:n_rows] for name in names], labels[:n_rows]
        return logit_loss(target, fit_stack(tables, target, by_label=False).logits(tables))

    tried = "1 candidate is" if len(candidates) == 1 else f"{len(candidates)} candidates are"
    shop.say(f"{tried} tried on rows held out; a smaller log loss is better")
    quick = [candidate for candidate in candidates if candidate.kind != "network"]
    networks = [candidate for candidate in candidates if candidate.kind == "network"]
    is_race, third = len(networks) > shop.work.n_networks, max(5, shop.work.max_epochs // 3)
    asked = [(candidate, fold, None) for candidate in quick for fold in range(1 if candidate.must_gain else n_folds)]
    shop.ahead(Workshop.on_fold, asked + [(candidate, 0, third if is_race else None) for candidate in networks])
    doubtful = [candidate for candidate in quick if candidate.must_gain]
    quick = [candidate for candidate in quick if not candidate.must_gain]
    for candidate in quick:
        note(candidate, shop.held_out(candidate, n_folds))
    for candidate in doubtful:
        note(candidate, shop.held_out(candidate, 1))
        beside = [other.name for other in quick]
        with_it, without = (stacked(names, len(first)) for names in ([*beside, candidate.name], beside))
        if with_it > (1 - candidate.must_gain) * without:
            entries[candidate.name].outcome = "adds too little on the first fold"
        else:
            note(candidate, shop.held_out(candidate, n_folds))
            quick.append(candidate)
    if is_race:
        for candidate in networks:
            member, found = shop.on_fold(candidate, 0, third)
            note(candidate, found, member.n_epochs, "a first look")
        beside, rest, networks = [candidate.name for candidate in quick], networks, []
        while len(networks) < shop.work.n_networks:
            losses = [stacked([*beside, candidate.name], len(first)) for candidate in rest]
            networks.append(rest.pop(int(np.argmin(losses))))
            beside.append(networks[-1].name)
        for candidate in rest:
            entries[candidate.name].outcome = "left out after a third of the epochs"
        shop.ahead(Workshop.on_fold, [(candidate, 0) for candidate in networks])
    for place, candidate in enumerate(networks):
        member, found = shop.on_fold(candidate, 0)
        note(candidate, found, member.n_epochs, "as long as it gets better")
        networks[place] = replace(candidate, epochs=max(2, round(_TO_THE_END * member.n_epochs)))
    shop.ahead(Workshop.on_fold, [(candidate, fold) for candidate in networks for fold in range(n_folds)])
    for candidate in networks:
        note(candidate, shop.held_out(candidate, n_folds), cast(int, candidate.epochs), "in full")

    chosen: list[Candidate] = []
    least, remaining = float("inf"), [*quick, *networks]
    worth = _WORTH if n_folds < shop.folds.n_folds else _WORTH_ON_ALL
    while remaining:
        names = [candidate.name for candidate in chosen]
        losses = [stacked([*names, candidate.name], len(labels)) for candidate in remaining]
        best = int(np.argmin(losses))
        if losses[best] > (1 - worth) * least:
            break
        least = losses[best]
        entries[remaining[best].name].stacked = least if chosen else None
        entries[remaining[best].name].outcome = "stays"
        chosen.append(remaining.pop(best))
    for candidate in remaining:
        entries[candidate.name].outcome = "adds nothing"
    return chosen, list(entries.values())


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a recipe led to.

    Attributes
    ----------
    members : list of pairs of Candidate and list of Member
        Fitted on all rows.
    stack : Stack
        Makes one model of them.
    labels : ndarray of shape (n_rows, n_labels)
        Of the training rows, and of rows beyond these that no member was shown.
    left_out : ndarray of shape (n_rows, n_labels)
        Stacked logits of the same rows, by members that were not shown them.
    member_logits : list of ndarray
        The same of each member alone, before stacking.
    entries : list of Entry
        What became of each candidate.
    """

    members: list[tuple[Candidate, list[Member]]]
    stack: Stack
    labels: NDArray[np.float32]
    left_out: NDArray[np.float64]
    member_logits: list[NDArray[np.float64]]
    entries: list[Entry]

    def with_rows(self, member_logits: Sequence[NDArray[np.float64]], labels: NDArray[np.float32]) -> Outcome:
        """Stack anew, with rows that no member was shown: they say as much of the members as rows held out.

        Parameters
        ----------
        member_logits : sequence of ndarray of shape (n_more, n_labels)
            What each member says of these rows.
        labels : ndarray of shape (n_more, n_labels)
            0, 1 or NaN.
        """
        tables = [np.vstack(pair) for pair in zip(self.member_logits, member_logits, strict=True)]
        known = np.vstack([self.labels, labels])
        stack = fit_stack(tables, known)
        weights = {member.name: float(w) for (member, _), w in zip(self.members, stack.weights, strict=True)}
        entries = [replace(entry, weight=weights.get(entry.name, 0.0)) for entry in self.entries]
        return Outcome(self.members, stack, known, stack.logits(tables), tables, entries)


def follow_recipe(shop: Workshop, candidates: Sequence[Candidate]) -> Outcome:
    """Race, fit on all folds, stack, and fit on all rows.

    Parameters
    ----------
    shop : Workshop
        Fits.
    candidates : sequence of Candidate
        What takes part.

    Returns
    -------
    Outcome
    """
    return fit_chosen(shop, *race(shop, candidates))


def fit_chosen(shop: Workshop, chosen: Sequence[Candidate], entries: list[Entry]) -> Outcome:
    """Fit what was chosen on all folds, stack it, and fit it on all rows.

    Parameters
    ----------
    shop : Workshop
        Fits.
    chosen : sequence of Candidate
        Who is stacked.
    entries : list of Entry
        What became of each candidate so far; their outcomes, weights and seconds are filled in.

    Returns
    -------
    Outcome
    """
    found: dict[str, NDArray[np.float64]] = {}
    whole: dict[str, list[Member]] = {}
    n_rows, n_labels = shop.labels.shape
    every = shop.rows_of(shop.folds.n_folds)
    shop.ahead(Workshop.on_fold, [(candidate, fold) for candidate in chosen for fold in range(shop.folds.n_folds)])
    for candidate in chosen:
        shop.say(f"{candidate.name}: chosen; learning from all folds but one, each in turn")
        table = np.empty((n_rows, n_labels))
        table[every] = shop.held_out(candidate, shop.folds.n_folds)
        found[candidate.name] = table
    kept = list(chosen)
    stack = fit_stack([found[candidate.name] for candidate in kept], shop.labels)
    shares = stack.weights / max(stack.weights.sum(), 1e-12)
    if (shares < _LEAST_SHARE).any():
        for candidate, share in zip(chosen, shares, strict=True):
            if share < _LEAST_SHARE and len(kept) > 1:  # where nothing can be learned, one stays that says so
                kept.remove(candidate)
                next(e for e in entries if e.name == candidate.name).outcome = "weighs nothing on all folds"
        stack = fit_stack([found[candidate.name] for candidate in kept], shop.labels)
    tables = [found[candidate.name] for candidate in kept]
    shop.ahead(Workshop.on_all_again, [(each, again) for each in kept for again in range(shop.n_fits(each))])
    for candidate in kept:
        shop.say(f"{candidate.name}: learning from all rows")
        whole[candidate.name] = shop.on_all(candidate)
    for entry in entries:
        entry.seconds = round(shop.seconds.get(entry.name, 0.0), 2)
        names = [candidate.name for candidate in kept]
        entry.weight = float(stack.weights[names.index(entry.name)]) if entry.name in names else 0.0
    members = [(candidate, whole[candidate.name]) for candidate in kept]
    return Outcome(members, stack, shop.labels, stack.logits(tables), tables, entries)


def speak(line: str) -> None:
    """Print a line for the watcher, on standard error."""
    print(f"hotvae: {line}", file=sys.stderr, flush=True)
