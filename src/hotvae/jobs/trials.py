"""Trials of a search for settings: the journal that keeps them, how one is fitted and judged, and the second look.

This is what a process of a search does; :mod:`hotvae.jobs.tune` starts them. Optuna is imported when it is asked for.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from hotvae.config import require_module
from hotvae.errors import ConfigError, DataWarning, HotVAEError
from hotvae.jobs.search_space import Choices, Numbers, Space, plain, suggest
from hotvae.jobs.settings import TrainSettings, model_of_recipe, train_settings
from hotvae.training.progress import Clock, OutOfTimeError, watched

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

    from hotvae.jobs.train import Job

Say = Callable[[str], None]

_WARM_UP = 3  # epochs before a trial may be ended
_N_BEST = 3  # trials that are looked at again, beside the start
_N_DRAWS = 2  # of other validation rows
_N_TRIES = 2  # of a trial whose process was killed; a third time it would be killed again

# Settings that cannot be fitted; anything else is a mistake of ours and ends the search.
_REFUSALS = (HotVAEError, ValueError)


# --- the task --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """What is searched for; made by :func:`hotvae.jobs.tune.plan`.

    Attributes
    ----------
    settings : TrainSettings
        Which rows and which model; its parameters hold for every trial, but for those in ``space``.
    table : str or None
        The table; None where ``settings.data`` names a set.
    metric : {"log_loss", "macro_f1"}
        What rows that are held out judge by.
    space : Space
        What is searched.
    start : dict
        The first point that is tried: settings without a search.
    rows : str
        How many rows learn and judge, in words.
    """

    settings: TrainSettings
    table: str | None
    metric: str
    space: Space
    start: dict[str, Any]
    rows: str = ""

    @property
    def model(self) -> str:
        """Short name of the model."""
        return model_of_recipe(self.settings.model, self.settings.recipe)

    @property
    def seed(self) -> int:
        """Seed of rows, model and search."""
        return int(self.settings.parameters["random_state"])

    @property
    def n_draws(self) -> int:
        """How often other rows are held out for the second look; never, where the user brought the rows."""
        return 0 if self.settings.validation else _N_DRAWS

    @property
    def name(self) -> str:
        """Tell searches in one journal apart: by data, rows, settings and space, not by where files lie."""
        told = asdict(self.settings)
        for option in ("out", "stream", "sample", "resume", "force", "quiet", "json"):
            del told[option]
        files = {option: path for option, path in told.items() if isinstance(path, str) and Path(path).is_file()}
        told = {option: value for option, value in told.items() if option not in files}
        digests = {option: _digest(path) for option, path in (files | {"table": self.table}).items() if path}
        words = [told, digests, self.metric, repr(self.space), repr(self.start)]
        return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Task:
        """Make a task from what JSON has left of :meth:`to_dict`."""
        values = _without_lists(told)
        space = {name: (Choices if "values" in each else Numbers)(**each) for name, each in values["space"].items()}
        return cls(**{**values, "settings": TrainSettings(**values["settings"]), "space": space})


def _without_lists(value: Any) -> Any:
    """Turn lists into the tuples that they were before JSON."""
    if isinstance(value, Mapping):
        return {name: _without_lists(each) for name, each in value.items()}
    return tuple(map(_without_lists, value)) if isinstance(value, list) else value


def _digest(path: str) -> str:
    """Digest a file, or all files of a folder."""
    place, found = Path(path), hashlib.sha256()
    for file in sorted(each for each in place.rglob("*") if each.is_file()) if place.is_dir() else [place]:
        with file.open("rb") as opened:
            found.update(hashlib.file_digest(opened, "sha256").digest())
    return found.hexdigest()


def all_settings(model: str) -> dict[str, Any]:
    """Return all settings of a model, by its short name, and their defaults."""
    from hotvae.estimators.registry import find_classifier

    return find_classifier(model).all_settings()


# --- the journal -----------------------------------------------------------------------------------------


def check_journal(journal: str | os.PathLike[str], say: Say) -> None:
    """Refuse a file that no search wrote, before anything is written to it; cut off a last line that is not whole.

    Parameters
    ----------
    journal : path
        The file; it need not exist.
    say : callable
        Told of a line that was cut off.

    Raises
    ------
    ConfigError
        A folder that is missing, or a file of another kind.
    """
    path = Path(journal)
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"journal must be in a folder that exists; got {str(journal)!r}. Make it first.")
    if path.is_dir():
        raise ConfigError(f"journal must be a file; got the folder {str(journal)!r}. Name another by --journal.")
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            is_cut = not line.endswith(b"\n") and number > 1
            if not is_cut and not _is_record(line):
                raise _no_journal(path, f"line {number} is none of its records")
    if number_of_bytes := path.stat().st_size:
        whole = number_of_bytes if line.endswith(b"\n") else number_of_bytes - len(line)
        if whole < number_of_bytes:
            # What is appended to half a record would be lost with it.
            os.truncate(path, whole)
            say(f"the last record of {path} was not whole and is left out")


def _is_record(line: bytes) -> bool:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and "op_code" in record


def _no_journal(path: Path, reason: str) -> ConfigError:
    return ConfigError(
        f"journal must be a file that a search wrote; got {str(path)!r} ({reason}). Name another by --journal, or "
        "remove it."
    )


def find_optuna() -> Any:
    """Import Optuna, or say how to get it."""
    optuna = require_module("optuna", "search for settings", "tune")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def open_study(task: Task, journal: str | os.PathLike[str]) -> Study:
    """Open the study of a task in its journal; another task in the same file is another study.

    Parameters
    ----------
    task : Task
        What is searched for.
    journal : path
        A file that :func:`check_journal` lets pass.

    Returns
    -------
    optuna.Study
        A new one has the start waiting as its first trial: a search never ends behind it.
    """
    optuna = find_optuna()
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    try:
        storage = optuna.storages.JournalStorage(
            # A lock by opening a file works on every system; the default needs links.
            JournalFileBackend(str(journal), lock_obj=JournalFileOpenLock(str(journal)))
        )
        study = optuna.create_study(
            storage=storage,
            study_name=task.name,
            direction="minimize" if task.metric == "log_loss" else "maximize",
            load_if_exists=True,
            pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=_WARM_UP),
        )
        if not study.get_trials(deepcopy=False):
            start = {name: plain(value) for name, value in task.start.items()}
            study.enqueue_trial(start, user_attrs={"start": True})
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, AssertionError) as error:
        raise _no_journal(Path(journal), f"{type(error).__name__}: {error}") from error
    opened: Study = study
    return opened


def over_in(study: Study) -> list[FrozenTrial]:
    """Return trials that came to an end: not those whose process was killed, nor those cut off by the budget."""
    trials = study.get_trials(deepcopy=False)
    return [
        trial
        for trial in trials
        if trial.state.name in ("COMPLETE", "PRUNED") or (trial.state.name == "FAIL" and "error" in trial.user_attrs)
    ]


def time_limit(study: Study, deadline: float, last: float | None) -> float:
    """Return until when trials are run: until ``last``, if given, as long as none has come to its end."""
    is_any = any(trial.state.name == "COMPLETE" for trial in study.get_trials(deepcopy=False))
    return deadline if is_any or last is None else last


def put_back(study: Study) -> None:
    """End trials of processes that are gone, which would wait for ever, and let them be tried again."""
    from optuna.trial import TrialState

    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        study.tell(trial.number, state=TrialState.FAIL)
        n_tries = int(trial.user_attrs.get("tries", 1))
        if n_tries < _N_TRIES or trial.user_attrs.get("start"):
            kept = {name: value for name, value in trial.user_attrs.items() if name == "start"}
            study.enqueue_trial(trial.params, user_attrs=kept | {"tries": n_tries + 1})


# --- trials ----------------------------------------------------------------------------------------------


class _Watcher(Clock):
    """Ends a trial that is behind the median as well."""

    def __init__(self, trial: Trial, metric: str, deadline: float) -> None:
        super().__init__(deadline)
        self.trial, self.metric = trial, metric

    def epoch(self, record: dict[str, Any]) -> None:
        """Tell the study how the epoch went."""
        super().epoch(record)
        value = record.get(f"validation_{self.metric}")
        if value is None:  # a step of a model that has no epochs
            return
        self.trial.report(value, record["epoch"])
        if self.trial.should_prune():
            raise find_optuna().TrialPruned


def run_trials(
    task: Task,
    journal: str | os.PathLike[str],
    *,
    deadline: float,
    last: float | None = None,
    n_trials: int | None = None,
    number: int = 0,
) -> None:
    """Run trials in this process until the time is over.

    Parameters
    ----------
    task : Task
        What to search for.
    journal : path
        Where trials are kept.
    deadline : float
        Seconds of ``time.time()`` after which nothing is started.
    last : float, optional
        The same as long as no trial has come to its end: without one there is nothing to choose from.
    n_trials : int, optional
        Most trials of the whole study.
    number : int
        Which of the processes this is; each draws its own trials.
    """
    optuna = find_optuna()
    from optuna.trial import TrialState

    study, job, known = open_study(task, journal), _rows(task), all_settings(task.model)
    while time.time() < (until := time_limit(study, deadline, last)):
        n_over = len(over_in(study))
        running = len(study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)))
        if n_trials is not None and n_over + running >= n_trials:
            return
        # A seed for each trial: a search that was stopped goes on as if it had not been.
        seed = int(np.random.SeedSequence([task.seed, number, n_over]).generate_state(1)[0])
        study.sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=8)
        trial = study.ask()
        settings = _fitting(task.settings.parameters | suggest(trial, task.space, task.start), known)
        shown = {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}
        trial.set_user_attr("settings", shown)
        try:
            value = _judge(task, settings, job, _Watcher(trial, task.metric, until))
        except OutOfTimeError:
            return  # still running in the journal: it is put back
        except optuna.TrialPruned:
            study.tell(trial, state=TrialState.PRUNED)
        except _REFUSALS as error:
            trial.set_user_attr("error", str(error))
            study.tell(trial, state=TrialState.FAIL)
        else:
            study.tell(trial, value)


def _fitting(settings: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Change settings that do not go with others."""
    if "dim" in settings and "n_heads" in known:
        settings["n_heads"] = max(1, settings["dim"] // 64)
    return settings


def _rows(task: Task, draw: int = 0) -> Job:
    """Read the rows, as training does; another draw holds others out."""
    from hotvae.jobs.train import new_model, read_job

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # they were said when the search was planned
        return read_job(new_model(task.settings), task.settings, task.table, draw)


def _judge(task: Task, settings: Mapping[str, Any], job: Job, watcher: Clock) -> float:
    """Fit with some settings, and give the metric on the validation rows."""
    from hotvae.jobs.train import give_graph, new_model
    from hotvae.metrics import score

    model = new_model(replace(task.settings, parameters={"n_threads": 1, **settings}))
    give_graph(model, task.settings, job)
    assert job.validation is not None  # as planned
    features, labels = job.validation
    with warnings.catch_warnings(), watched(watcher):
        warnings.simplefilter("ignore", DataWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        model.fit(job.training, validation=job.validation)
        probs = model.predict_proba(features)
    value = float(score(labels.to_numpy(), probs, task.metric).value)
    if not math.isfinite(value):
        raise ConfigError(f"{task.metric} must be a number to compare trials by; got {value}. Try other settings.")
    return value


# --- the second look -------------------------------------------------------------------------------------


def again_key(number: int, draw: int) -> str:
    """Name the note of a trial with other validation rows."""
    return f"trial {number} with other validation rows {draw}"


def start_of(study: Study) -> FrozenTrial | None:
    """Return the trial of the start, if it came to its end."""
    trials = study.get_trials(deepcopy=False)
    ended = (trial for trial in trials if trial.state.name == "COMPLETE" and trial.user_attrs.get("start"))
    return next(ended, None)


def candidates(study: Study) -> list[int]:
    """Choose trials for the second look: the start and the best; none if there is no choice."""
    by_settings: dict[str, FrozenTrial] = {}
    for trial in study.get_trials(deepcopy=False):
        if trial.state.name == "COMPLETE":
            # Where a space is small, settings come again: the same ones twice are no choice.
            by_settings.setdefault(json.dumps(trial.user_attrs["settings"], sort_keys=True), trial)
    complete = list(by_settings.values())
    sign = -1.0 if study.direction.name == "MAXIMIZE" else 1.0
    best = sorted(complete, key=lambda trial: sign * float(trial.value or 0.0))[:_N_BEST]
    first = [trial for trial in complete if trial.user_attrs.get("start")]
    chosen = dict.fromkeys(trial.number for trial in (*first, *best))
    return list(chosen) if len(chosen) > 1 else []


def looked_again(study: Study) -> dict[int, float]:
    """Average what the candidates had on other validation rows, over draws that all of them have seen."""
    numbers, known = candidates(study), study.user_attrs
    draws = [draw for draw in range(1, _N_DRAWS + 1) if all(again_key(number, draw) in known for number in numbers)]
    seen = {number: [known[again_key(number, draw)] for draw in draws] for number in numbers}
    return {number: fmean(values) for number, values in seen.items() if values and None not in values}


def look_again(
    task: Task, journal: str | os.PathLike[str], again: Sequence[tuple[int, int]], *, deadline: float
) -> None:
    """Fit settings of finished trials with other validation rows, and note how good they are there.

    Parameters
    ----------
    task : Task
        What is searched for.
    journal : path
        Where trials are kept.
    again : sequence of (int, int)
        Numbers of trials and of draws of validation rows.
    deadline : float
        Seconds of ``time.time()`` at which a fit is ended.
    """
    study = open_study(task, journal)
    trials, known = study.get_trials(deepcopy=False), all_settings(task.model)
    jobs: dict[int, Job] = {}
    for number, draw in again:
        value: float | None
        try:
            if draw not in jobs:
                jobs = {draw: _rows(task, draw)}  # one at a time: tables may be large
            settings = train_settings(known, ("journal", trials[number].user_attrs["settings"])).parameters
            value = _judge(task, settings, jobs[draw], Clock(deadline))
        except OutOfTimeError:
            return
        except _REFUSALS:
            value = None  # settings that other rows cannot be fitted with are out of the choice
        study.set_user_attr(again_key(number, draw), value)


def work(told: Mapping[str, Any]) -> None:
    """Do what :func:`hotvae.jobs.tune.tune` tells a process of its own.

    Parameters
    ----------
    told : mapping
        Arguments of :func:`look_again` or :func:`run_trials`, from JSON.
    """
    arguments = {**told, "task": Task.from_dict(told["task"])}
    if "again" in told:
        look_again(**arguments)
    else:
        run_trials(**arguments)
