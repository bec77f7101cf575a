"""Search for settings with Optuna: several processes, one journal file, unpromising trials ended early.

Some rows are learned from, others judge, held out as training holds them out; test rows of a named set have no part.
The best of many trials is partly luck, so the last word has a second look: the best few and the start are fitted again
with other rows held out. A search that was stopped goes on from its journal.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Protocol

from hotvae.errors import ConfigError, listed
from hotvae.files import check_name, write_text
from hotvae.jobs.durations import duration_words
from hotvae.jobs.search_space import space_of
from hotvae.jobs.settings import TrainSettings, model_of_recipe
from hotvae.jobs.trials import (
    Say,
    Task,
    again_key,
    all_settings,
    candidates,
    check_journal,
    find_optuna,
    looked_again,
    open_study,
    over_in,
    put_back,
    start_of,
    time_limit,
)

if TYPE_CHECKING:
    from optuna import Study

    from hotvae.jobs.train import Job

METRICS = ("log_loss", "macro_f1")
"""What a search can make best: both are known after every epoch."""

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
"""Variables for a process that shares the machine with others like it."""

_SECOND_LOOK = 0.4  # of the budget, at most
_GRACE = 1.1  # of the budget; then a trial that does not end by itself is ended
_SAY_SECONDS = 5.0

# The path first: -P keeps the folder one stands in out of it, where another hotvae may lie.
_WORKER = (
    "import json, sys; told = json.load(sys.stdin); sys.path[:] = told.pop('path'); "
    "from hotvae.jobs.trials import work; work(told)"
)


# --- searching -------------------------------------------------------------------------------------------


def plan(
    settings: TrainSettings,
    table: str | os.PathLike[str] | None = None,
    *,
    metric: str = "log_loss",
    held: Collection[str] = (),
) -> Task:
    """Read the rows once, and find what can be searched.

    Parameters
    ----------
    settings : TrainSettings
        As for training: which columns, which rows, which model. Its parameters are where the search starts.
    table : path, optional
        A table; without one, ``settings.data`` names a set.
    metric : {"log_loss", "macro_f1"}
        What to make best.
    held : collection of str
        Parameters that are not searched.

    Returns
    -------
    Task

    Raises
    ------
    ConfigError, DataError
        A model that has nothing to search, rows that cannot be read, or too few to hold some out.

    Examples
    --------
    >>> plan(TrainSettings(model="prevalence"), "sites.csv")
    Traceback (most recent call last):
    ...
    hotvae.errors.ConfigError: model must have settings to search ...
    """
    from hotvae.jobs.train import new_model, read_job

    find_optuna()
    if metric not in METRICS:
        raise ConfigError(f"metric must be one of {listed(METRICS)}; got {metric!r}. Choose one of them.")
    seed = settings.parameters.get("random_state")
    settings = replace(settings, parameters=settings.parameters | {"random_state": 0 if seed is None else seed})
    name = model_of_recipe(settings.model, settings.recipe)
    known = all_settings(name)
    space_of(name, known | settings.parameters, without=held)  # a mistake is told before a table is read for nothing
    model = new_model(settings)
    job = read_job(model, settings, None if table is None else Path(table))
    if job.validation is None:
        raise ConfigError(
            "a search must have rows that judge; got none held out. Use a table with more rows, or pass --validation "
            "FILE."
        )
    places = _place_settings(job)
    without = set(held)
    if "training" in model.get_params(deep=False):  # of a network: rows of texts or molecules have no scale
        without |= {"scaling", "spatial_units"} - set(model.new_features().get_params())
    if places is None:
        without.add("spatial_units")
    elif "spatial_units" not in without:
        told = {key: value for key, value in places.items() if key in known and known[key] != value}
        settings = replace(settings, parameters=told | settings.parameters)
    start, space = space_of(name, known | settings.parameters, without=without)
    rows = f"{job.training.n_samples} rows learn, {len(job.validation[1])} judge ({job.card['split']})"
    return Task(settings, None if table is None else os.fspath(table), metric, space, start, rows)


def _place_settings(job: Job) -> dict[str, Any] | None:
    """Say which columns are places, longitude first; None where there are none. They are the last two of the rows."""
    from hotvae.data.places import degree_columns

    data = job.training
    if data.coordinates is None or tuple(data.feature_names[-2:]) != tuple(data.coordinate_names):
        return None
    degrees = degree_columns(data.coordinate_names, data.coordinates)
    first, second = (0, 1) if degrees is None else degrees
    return {"spatial_columns": (first - 2, second - 2), "spatial_degrees": degrees is not None}


@dataclass(frozen=True)
class Found:
    """What a search has found.

    Attributes
    ----------
    task : Task
        What was searched for.
    settings : dict
        All settings that differ from the model's defaults.
    value : float
        The metric on the validation rows.
    start_value : float or None
        The same of the start; None where its trial did not come to its end.
    n_complete, n_pruned, n_failed : int
        Trials.
    seconds : float
        Time of all trials.
    value_again, start_again : float or None
        The metric on other validation rows, by which the settings were chosen among the best few, and that of the
        start; None when there was no time for it, or nothing to choose.
    last_error : str
        Why the last trial that failed did so.
    """

    task: Task
    settings: dict[str, Any]
    value: float
    start_value: float | None
    n_complete: int
    n_pruned: int
    n_failed: int
    seconds: float
    value_again: float | None = None
    start_again: float | None = None
    last_error: str = ""


def tune(
    task: Task,
    journal: str | os.PathLike[str],
    *,
    budget: float,
    jobs: int = 1,
    n_trials: int | None = None,
    say: Say | None = None,
    start: Start | None = None,
) -> Found:
    """Search in processes of their own until the budget is spent.

    Parameters
    ----------
    task : Task
        What to search for.
    journal : path
        File in which trials are kept; a search of the same task goes on from it.
    budget : float
        Seconds.
    jobs : int
        Processes, each with one thread.
    n_trials : int, optional
        Most trials, those of earlier runs included.
    say : callable, optional
        Told how it goes.
    start : callable, optional
        Starts workers elsewhere, such as :func:`hotvae.scale.tasks.search_on_ray`; by default processes here.

    Returns
    -------
    Found

    Raises
    ------
    ConfigError
        When Optuna is missing, a number is out of range, the journal is no journal, or no trial came to its end.

    Notes
    -----
    With one process and a number of trials that the budget has time for, the same seed gives the same settings, also
    when the search was stopped in between.
    """
    for name, number in (("jobs", jobs), ("trials", 1 if n_trials is None else n_trials)):
        if number < 1:
            raise ConfigError(f"{name} must be at least 1; got {number}. Set it to a larger number.")
    tell = say or (lambda line: None)
    check_journal(journal, tell)
    study = open_study(task, journal)
    put_back(study)
    if n_before := len(over_in(study)):
        tell(f"going on from {n_before} trials in {journal}")
    deadline, reason = time.time() + budget, ""
    told = {"path": sys.path, "task": task.to_dict(), "journal": str(journal)}
    if n_trials is None or n_before < n_trials:
        search = told | {"deadline": deadline - _SECOND_LOOK * budget, "last": deadline, "n_trials": n_trials}
        reason = _work(study, [search | {"number": number} for number in range(jobs)], budget, tell, start)
        put_back(study)
    todo = [
        (number, draw)
        for draw in range(1, task.n_draws + 1)
        for number in candidates(study)
        if again_key(number, draw) not in study.user_attrs
    ]
    if todo and time.time() < deadline:
        tell(f"a second look at the best {len(candidates(study))}, with other validation rows")
        shares = [told | {"deadline": deadline, "again": todo[number::jobs]} for number in range(jobs)]
        _work(study, [share for share in shares if share["again"]], budget, tell, start)
    return found_in(study, task, reason)


class Worker(Protocol):
    """One of several that search; a process here, or a task elsewhere."""

    def poll(self) -> int | None:
        """Return None until it has ended."""
        ...

    def last_words(self) -> str:
        """Return what one that failed has said last; nothing of any other."""
        ...

    def terminate(self) -> None:
        """End it."""
        ...

    def wait(self) -> Any:
        """Wait until it has ended."""
        ...


class _Process(subprocess.Popen[str]):
    """A worker on this machine."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        # What it says goes to a file: nobody reads along, and a pipe that is full would stop it.
        self.said = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  # as long as the process
        command = [sys.executable, "-P", "-c", _WORKER]
        environment = {**os.environ, **ONE_THREAD}
        super().__init__(command, stdin=subprocess.PIPE, stderr=self.said, text=True, env=environment)
        assert self.stdin is not None  # as asked for above
        with suppress(BrokenPipeError), self.stdin as pipe:  # its last words say why
            json.dump(told, pipe)

    def last_words(self) -> str:
        """Return the last line that it has said if it failed."""
        if self.poll() in (None, 0):
            return ""
        self.said.seek(0)
        lines = self.said.read().strip().splitlines()
        return lines[-1] if lines else ""

    def close(self) -> None:
        """Forget what it said."""
        self.said.close()


Start = Callable[[Mapping[str, Any]], Worker]
"""Starts a worker with what it is told: arguments of :func:`hotvae.jobs.trials.work`."""


def _work(study: Study, told: Sequence[Mapping[str, Any]], budget: float, say: Say, start: Start | None) -> str:
    """Start a worker for each thing to do and wait for them; return the last words of one that failed."""
    workers: list[Worker] = []
    try:
        for each in told:
            workers.append(_Process(each) if start is None else start(each))
        _watch(study, workers, told[0]["deadline"], told[0].get("last"), budget, say)
        return next(filter(None, (worker.last_words() for worker in workers)), "")
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.terminate()
                worker.wait()
            if isinstance(worker, _Process):
                worker.close()


def _watch(
    study: Study,
    workers: Sequence[Worker],
    deadline: float,
    last: float | None,
    budget: float,
    say: Say,
) -> None:
    """Wait for the workers and tell how it goes."""
    n_told, told_at, grace = -1, time.time(), (_GRACE - 1) * budget + 5
    while any(worker.poll() is None for worker in workers):
        time.sleep(0.1)
        now = time.time()
        if now > deadline + grace and now > time_limit(study, deadline, last) + grace:
            return
        if now - told_at > _SAY_SECONDS:
            told_at, over = now, over_in(study)
            if len(over) != n_told:
                n_told = len(over)
                values = [trial.value for trial in over if trial.state.name == "COMPLETE" and trial.value is not None]
                best = (max if study.direction.name == "MAXIMIZE" else min)(values) if values else None
                shown = "none has come to its end" if best is None else f"best {best:.4f}"
                left = max(0.0, time_limit(study, deadline, last) - now)
                say(f"{n_told} trials, {shown}; {duration_words(left)} left")


def found_in(study: Study, task: Task, reason: str = "") -> Found:
    """Read the best trial of a study.

    Parameters
    ----------
    study : optuna.Study
        Its trials.
    task : Task
        What was searched for.
    reason : str
        What a worker said last, for the message.

    Returns
    -------
    Found

    Raises
    ------
    ConfigError
        When no trial came to its end.
    """
    trials, over = study.get_trials(deepcopy=False), over_in(study)
    n_complete, n_pruned, n_failed = (
        sum(trial.state.name == state for trial in over) for state in ("COMPLETE", "PRUNED", "FAIL")
    )
    errors = [str(trial.user_attrs["error"]) for trial in over if "error" in trial.user_attrs]
    if not n_complete:
        words = errors[-1] if errors else reason
        raise ConfigError(
            f"a search must finish at least one trial; got 0 ({n_pruned} ended early, {n_failed} failed). "
            f"{f'The last words: {words}' if words else 'Give it a larger --budget.'}"
        )
    again, start = looked_again(study), start_of(study)
    worth = max if study.direction.name == "MAXIMIZE" else min
    best = trials[worth(again, key=lambda number: again[number])] if again else study.best_trial
    assert best.value is not None  # a complete trial has one
    return Found(
        task,
        dict(best.user_attrs["settings"]),
        float(best.value),
        None if start is None else start.value,
        *(n_complete, n_pruned, n_failed),
        seconds=sum(trial.duration.total_seconds() for trial in over if trial.duration is not None),
        value_again=again.get(best.number),
        start_again=None if start is None else again.get(start.number),
        last_error=errors[-1] if errors else "",
    )


# --- settings files --------------------------------------------------------------------------------------


def check_settings_file(path: str | os.PathLike[str]) -> None:
    """Refuse a place where settings cannot be written, before a search has been made for nothing.

    Raises
    ------
    ConfigError
        A file of another kind, a folder, or a folder that is missing.
    """
    file = Path(path)
    check_name(file)
    if file.suffix != ".toml":
        raise ConfigError(f"out must end in .toml; got {file.name!r}. Rename it.")
    if file.is_dir() or not file.absolute().parent.is_dir():
        raise ConfigError(f"out must be a file in a folder that exists; got {str(path)!r}. Make the folder first.")


def write_settings(
    path: str | os.PathLike[str], found: Found, command: str | None = None, options: Mapping[str, Any] | None = None
) -> None:
    """Write the best settings as a file that ``hotvae train --config`` reads, whole or not at all.

    Parameters
    ----------
    path : path
        A .toml file; an older one is replaced.
    found : Found
        From :func:`tune`.
    command : str, optional
        What repeats the search; it stands in the file.
    options : mapping of str to object, optional
        Further lines: options of training that came from a file themselves.

    Raises
    ------
    ConfigError
        A file of another kind, or a place that cannot be written to.
    """
    check_settings_file(path)
    task = found.task
    lines = [
        f"# {task.model} on {task.settings.data or Path(task.table or '').name}: "
        f"{task.metric} {found.value:.4f} on the validation rows.",
        f"# {found.n_complete} trials finished, {found.n_pruned} were ended early; "
        f"{duration_words(found.seconds)} in all.",
    ]
    if found.value_again is not None:
        lines.append(f"# Chosen among the best by other validation rows: {found.value_again:.4f} there.")
    if command:
        lines.append(f"# {command}")
    values = {**(options or {}), **found.settings}
    lines += [f"{name} = {json.dumps(value)}" for name, value in values.items() if value is not None]
    write_text(path, "\n".join(lines) + "\n")
