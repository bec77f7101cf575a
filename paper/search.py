"""Search for settings with Optuna: several processes, one journal file, unpromising trials ended early.

Training rows are learned from, validation rows judge; test rows are dropped before the first trial. The best of many
trials is partly luck, so the last word has a second look: the best few and the preset are fitted again with other
validation rows. Every model of a table gets the same budget of time. A search that was stopped goes on from its
journal.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

from hotvae.checkpoint import write_text
from hotvae.errors import ConfigError, DataWarning, HotVAEError, listed
from paper.experiments import Cell, fingerprint
from paper.runner import duration_words, worker_environment

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

METRICS = ("macro_f1", "log_loss")
"""What a search can make best: both are known after every epoch."""

_WARM_UP = 3  # epochs before a trial may be ended
_SECOND_LOOK = 0.4  # of the budget, at most
_N_BEST = 3  # trials that are looked at again, beside the preset
_N_DRAWS = 2  # of other validation rows
_GRACE = 1.1  # of the budget; then a trial that does not end by itself is ended
_SAY_SECONDS = 5.0

# Settings that cannot be fitted; anything else is a mistake of ours and ends the search.
_REFUSALS = (HotVAEError, ValueError)

Say = Callable[[str], None]


# --- spaces ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Numbers:
    """A range to search.

    Attributes
    ----------
    low, high : float
        Its ends; whole numbers make a range of whole numbers.
    log : bool
        Whether equal ratios count alike, rather than equal differences.
    """

    low: float
    high: float
    log: bool = False


@dataclass(frozen=True)
class Choices:
    """Values to choose from.

    Attributes
    ----------
    values : tuple
        Numbers, words, or tuples of widths.
    """

    values: tuple[Any, ...]


Space = dict[str, Numbers | Choices]

_WIDTHS = Choices(((256,), (256, 512, 256), (512, 512, 512), (1024,), (2048,)))
_TRAINING: Space = {
    "learning_rate": Numbers(2e-4, 1e-2, log=True),
    "weight_decay": Numbers(1e-4, 0.3, log=True),
    "encoder_dropout": Numbers(0.0, 0.8),
    "encoder_widths": _WIDTHS,
    "selection_metric": Choices(("log_loss", "macro_f1")),
}

SPACES: dict[str, Space] = {
    # The supplement's grid, and what our recipe adds to it.
    "hotvae_network": _TRAINING
    | {
        "dim": Choices((32, 64, 128, 256)),
        "latent_dim": Choices((0, 256)),
        "n_layers": Numbers(1, 5),
        "intermediate_weight": Choices((0.0, 0.1, 0.2, 0.3)),
        "ranking_weight": Choices((0.0, 0.1, 1.0, 10.0, 100.0)),
        "kl_weight": Choices((0.0, 1e-5, 1e-4, 1e-3)),
        "decoder_dropout": Choices((0.0, 0.1, 0.2, 0.5)),
        "direct_epochs": Choices((0, 10, 20)),
        "average_decay": Choices((0.0, 0.99, 0.995)),
    },
    "plain": _TRAINING | {"latent_dim": Choices((32, 64, 128, 256)), "average_decay": Choices((0.0, 0.99, 0.995))},
    "mpvae": _TRAINING
    | {
        "dim": Choices((32, 64, 128)),
        "kl_weight": Numbers(1e-3, 3.0, log=True),
        "ranking_weight": Numbers(0.1, 30.0, log=True),
    },
    "lamp": _TRAINING
    | {
        "dim": Choices((32, 64, 128)),
        "n_layers": Numbers(1, 4),
        "decoder_dropout": Numbers(0.0, 0.5),
        "intermediate_weight": Choices((0.0, 0.1, 0.2, 0.3)),
    },
    "seq2seq": _TRAINING | {"decoder_dim": Choices((64, 128, 256)), "decoder_dropout": Numbers(0.0, 0.5)},
    "c2ae": _TRAINING
    | {
        "latent_share": Numbers(0.2, 1.0),
        "ranking_weight": Numbers(0.3, 30.0, log=True),
        "alignment_weight": Numbers(0.1, 10.0, log=True),
    },
    "probit": {name: values for name, values in _TRAINING.items() if name != "encoder_widths"}
    | {"mean": Choices(("linear", "mlp")), "rank": Choices((4, 8, 16, 32))},
    "mlknn": {"n_neighbours": Numbers(3, 60, log=True), "smoothing": Numbers(0.05, 5.0, log=True)},
    "sleec": {
        "dim": Choices((25, 50, 100, 150)),
        "n_neighbours": Numbers(5, 60, log=True),
        "n_graph_neighbours": Numbers(10, 200, log=True),
    },
    "random_forest": {"n_trees": Choices((200, 300, 500)), "max_features": Choices(("auto", "sqrt", 0.2, 0.4, 0.7))},
    "extra_trees": {"n_trees": Choices((200, 300, 500)), "max_features": Choices(("auto", "sqrt", 0.2, 0.4, 0.7))},
    "boosting": {
        "learning_rate": Numbers(0.01, 0.3, log=True),
        "max_leaves": Numbers(4, 32, log=True),
        "min_leaf_rows": Numbers(3, 60, log=True),
        "feature_share": Numbers(0.1, 1.0),
    },
}
"""What is searched of each model; ridge, logistic regression and chains choose by validation rows when fitted."""


# --- the task --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Search:
    """What is searched for.

    Attributes
    ----------
    data, model : str
        Named set (or ``virtual-SITES-SPECIES``) and short name of a model.
    metric : {"macro_f1", "log_loss"}
        What the validation rows judge by.
    split, seed : int
        Which split, and the seed of search, rows and model.
    settings : dict
        Settings that are held, beside the preset.

    Raises
    ------
    ConfigError
        A model without a space, or another metric.

    Examples
    --------
    >>> Search("yeast", model="prevalence")
    Traceback (most recent call last):
    ...
    hotvae.errors.ConfigError: model must have settings to search ...
    """

    data: str
    model: str = "hotvae_network"
    metric: str = "macro_f1"
    split: int = 0
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.model not in SPACES:
            raise ConfigError(
                f"model must have settings to search ({listed(SPACES, len(SPACES))}); got {self.model!r}. "
                "Others choose theirs by validation rows whenever they are fitted."
            )
        if self.metric not in METRICS:
            raise ConfigError(f"metric must be one of {listed(METRICS)}; got {self.metric!r}. Choose one of them.")

    @property
    def cell(self) -> Cell:
        """The cell whose data and preset are searched with."""
        return Cell("tune", self.model, self.model, self.data, self.split, self.seed, self.settings)


@dataclass(frozen=True)
class Found:
    """What a search has found.

    Attributes
    ----------
    task : Search
        What was searched for.
    settings : dict
        All settings that differ from the model's defaults, preset included.
    value : float
        The metric on the validation rows.
    n_complete, n_pruned, n_failed : int
        Trials.
    seconds : float
        Time of all trials.
    value_again : float or None
        The metric on other validation rows, by which the settings were chosen among the best few; None when there was
        no time for it, or nothing to choose.
    preset_again : float or None
        The same of the first trial, which is the preset.
    last_error : str
        Why the last trial that failed did so.
    """

    task: Search
    settings: dict[str, Any]
    value: float
    n_complete: int
    n_pruned: int
    n_failed: int
    seconds: float
    value_again: float | None = None
    preset_again: float | None = None
    last_error: str = ""


def search(
    task: Search,
    journal: str | os.PathLike[str],
    *,
    budget: float,
    jobs: int = 1,
    n_trials: int | None = None,
    say: Say | None = None,
) -> Found:
    """Search in processes of their own until the budget is spent.

    Parameters
    ----------
    task : Search
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

    Returns
    -------
    Found

    Raises
    ------
    ConfigError
        When Optuna is missing, a number is out of range, or no trial came to its end.

    Examples
    --------
    >>> search(Search("yeast"), "trials.journal", budget=60, jobs=0)
    Traceback (most recent call last):
    ...
    hotvae.errors.ConfigError: jobs must be at least 1; got 0. One for each core is a good number.
    """
    if jobs < 1:
        raise ConfigError(f"jobs must be at least 1; got {jobs}. One for each core is a good number.")
    if not Path(journal).absolute().parent.is_dir():
        raise ConfigError(f"journal must be in a folder that exists; got {str(journal)!r}. Make it first.")
    study = _open_study(task, journal)
    _end_stale(study)
    tell = say or (lambda line: None)
    deadline = time.time() + budget
    told = {"task": asdict(task), "deadline": deadline - _SECOND_LOOK * budget, "n_trials": n_trials}
    reason = _work(study, journal, [told] * jobs, budget, tell)
    _end_stale(study)
    todo = [
        (number, draw)
        for draw in range(1, _N_DRAWS + 1)
        for number in _candidates(study)
        if _again_key(number, draw) not in study.user_attrs
    ]
    if todo and time.time() < deadline:
        tell(f"a second look at the best {len(_candidates(study))}, with other validation rows")
        shares = [{"task": asdict(task), "deadline": deadline, "again": todo[number::jobs]} for number in range(jobs)]
        _work(study, journal, [share for share in shares if share["again"]], budget, tell)
    return found_in(study, task, reason)


def _work(
    study: Study, journal: str | os.PathLike[str], told: Sequence[Mapping[str, Any]], budget: float, say: Say
) -> str:
    """Start a process for each thing to do and wait for them; return the last words of one that failed."""
    workers = []
    with ExitStack() as files:
        # What workers say goes to files: nobody reads along, and a pipe that is full would stop them.
        said = [files.enter_context(TemporaryFile("w+", encoding="utf-8")) for _ in told]
        for number, (each, words) in enumerate(zip(told, said, strict=True)):
            command = [sys.executable, "-P", "-m", "paper.search", str(journal), str(number)]
            worker = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=words, text=True, env=worker_environment())
            assert worker.stdin is not None  # as asked for above
            worker.stdin.write(json.dumps(each))
            worker.stdin.close()
            workers.append(worker)
        try:
            _watch(study, workers, float(told[0]["deadline"]), budget, say)
            return next(filter(None, map(_last_words, workers, said)), "")
        finally:
            for worker in workers:
                if worker.poll() is None:
                    worker.terminate()
                    worker.wait()


def _last_words(worker: subprocess.Popen[str], said: IO[str]) -> str:
    """Return the last line that a worker which failed has said; nothing of any other."""
    if worker.poll() in (None, 0):
        return ""
    said.seek(0)
    lines = said.read().strip().splitlines()
    return lines[-1] if lines else ""


def _watch(study: Study, workers: Sequence[subprocess.Popen[str]], deadline: float, budget: float, say: Say) -> None:
    """Wait for the workers and tell how it goes."""
    n_told, last = -1, time.time()
    while any(worker.poll() is None for worker in workers) and time.time() < deadline + (_GRACE - 1) * budget + 5:
        time.sleep(0.1)
        if time.time() - last > _SAY_SECONDS:
            last = time.time()
            over = [trial for trial in study.get_trials(deepcopy=False) if trial.state.is_finished()]
            if len(over) != n_told:
                n_told = len(over)
                values = [trial.value for trial in over if trial.state.name == "COMPLETE" and trial.value is not None]
                best = (max if study.direction.name == "MAXIMIZE" else min)(values) if values else None
                shown = "no trial has finished" if best is None else f"best {best:.4f}"
                say(f"{n_told} trials, {shown}; {duration_words(max(0.0, deadline - last))} left")


def found_in(study: Study, task: Search, reason: str = "") -> Found:
    """Read the best trial of a study.

    Parameters
    ----------
    study : optuna.Study
        Its trials.
    task : Search
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

    Examples
    --------
    >>> import optuna
    >>> found_in(optuna.create_study(), Search("yeast"))
    Traceback (most recent call last):
    ...
    hotvae.errors.ConfigError: a search must finish at least one trial; got 0 (0 pruned, 0 failed). ...
    """
    trials = study.get_trials(deepcopy=False)
    n_complete, n_pruned, n_failed = (
        sum(trial.state.name == state for trial in trials) for state in ("COMPLETE", "PRUNED", "FAIL")
    )
    if not n_complete:
        words = f" The last words: {reason}" if reason else ""
        raise ConfigError(
            f"a search must finish at least one trial; got 0 ({n_pruned} pruned, {n_failed} failed). "
            f"Give it a larger --budget.{words}"
        )
    again = _looked_again(study)
    worth = max if study.direction.name == "MAXIMIZE" else min
    best = trials[worth(again, key=lambda number: again[number])] if again else study.best_trial
    seconds = sum(trial.duration.total_seconds() for trial in trials if trial.duration is not None)
    settings = dict(best.user_attrs["settings"])
    assert best.value is not None  # a complete trial has one
    counts = n_complete, n_pruned, n_failed
    errors = [str(trial.user_attrs["error"]) for trial in trials if "error" in trial.user_attrs]
    looks = again.get(best.number), again.get(0)
    return Found(task, settings, float(best.value), *counts, seconds, *looks, last_error=errors[-1] if errors else "")


# --- the second look -------------------------------------------------------------------------------------


def _again_key(number: int, draw: int) -> str:
    return f"trial {number} with other validation rows {draw}"


def _candidates(study: Study) -> list[int]:
    """Choose trials for the second look: the first, which is the preset, and the best; none if there is no choice."""
    by_settings: dict[str, FrozenTrial] = {}
    for trial in study.get_trials(deepcopy=False):
        if trial.state.name == "COMPLETE":
            # Where a space is small, settings come again: the same ones twice are no choice.
            by_settings.setdefault(json.dumps(trial.user_attrs["settings"], sort_keys=True), trial)
    complete = list(by_settings.values())
    sign = -1.0 if study.direction.name == "MAXIMIZE" else 1.0
    best = sorted(complete, key=lambda trial: sign * float(trial.value or 0.0))[:_N_BEST]
    chosen = dict.fromkeys(trial.number for trial in (*(trial for trial in complete if trial.number == 0), *best))
    return list(chosen) if len(chosen) > 1 else []


def _looked_again(study: Study) -> dict[int, float]:
    """Average what the candidates had on other validation rows, over draws that all of them have seen."""
    candidates, known = _candidates(study), study.user_attrs
    draws = [draw for draw in range(1, _N_DRAWS + 1) if all(_again_key(number, draw) in known for number in candidates)]
    seen = {number: [known[_again_key(number, draw)] for draw in draws] for number in candidates}
    return {number: fmean(values) for number, values in seen.items() if values and None not in values}


def look_again(
    task: Search, journal: str | os.PathLike[str], again: Sequence[tuple[int, int]], *, deadline: float
) -> None:
    """Fit settings of finished trials with other validation rows, and note how good they are there.

    Parameters
    ----------
    task : Search
        What is searched for.
    journal : path
        Where trials are kept.
    again : sequence of (int, int)
        Numbers of trials and of draws of validation rows.
    deadline : float
        Seconds of ``time.time()`` at which a fit is ended.

    Examples
    --------
    >>> import tempfile
    >>> task, journal = Search("virtual-60-4", "mlknn"), Path(tempfile.mkdtemp()) / "trials"
    >>> run_trials(task, journal, deadline=time.time() + 60, n_trials=2)
    >>> look_again(task, journal, [(0, 1), (1, 1)], deadline=time.time() + 60)
    >>> found_in(_open_study(task, journal), task).value_again is None
    False
    """
    optuna = _optuna()
    study = _open_study(task, journal)
    trials = study.get_trials(deepcopy=False)
    for number, draw in again:
        value: float | None
        try:
            value = _judge(task, trials[number].user_attrs["settings"], _rows(task, draw), Clock(deadline))
        except optuna.TrialPruned:
            return
        except _REFUSALS:
            value = None  # settings that other rows cannot be fitted with are out of the choice
        study.set_user_attr(_again_key(number, draw), value)


def write_preset(path: str | os.PathLike[str], found: Found, command: str | None = None) -> None:
    """Write the best settings as a preset, whole or not at all.

    Parameters
    ----------
    path : path
        A .toml file; an older one is replaced.
    found : Found
        From :func:`search`.
    command : str, optional
        What repeats the search; it stands in the file.

    Raises
    ------
    ConfigError
        A file of another kind, or a place that cannot be written to.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "yeast.toml"
    >>> write_preset(path, Found(Search("yeast"), {"dim": 32, "encoder_widths": [64]}, 0.5, 9, 3, 0, 60.0))
    >>> print(path.read_text(), end="")
    # hotvae_network on yeast: macro_f1 0.5000 on the validation rows.
    # 9 trials finished, 3 were ended early; 1 min 0 s in all.
    dim = 32
    encoder_widths = [64]
    """
    if Path(path).suffix != ".toml":
        raise ConfigError(f"preset must end in .toml; got {Path(path).name!r}. Rename it.")
    task = found.task
    lines = [
        f"# {task.model} on {task.data}: {task.metric} {found.value:.4f} on the validation rows.",
        f"# {found.n_complete} trials finished, {found.n_pruned} were ended early; "
        f"{duration_words(found.seconds)} in all.",
    ]
    if found.value_again is not None:
        lines.append(f"# Chosen among the best by other validation rows: {found.value_again:.4f} there.")
    if command:
        lines.append(f"# {command}")
    lines += [f"{name} = {json.dumps(value)}" for name, value in found.settings.items() if value is not None]
    write_text(path, "\n".join(lines) + "\n")


# --- trials ----------------------------------------------------------------------------------------------


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise ConfigError("optuna must be installed to search; got none. Try pip install 'hotvae[tune]'.") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _open_study(task: Search, journal: str | os.PathLike[str], seed: int = 0) -> Study:
    """Open the study of a task in its journal; another task in the same file is another study."""
    optuna = _optuna()
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    start, space = _space(task)
    name = fingerprint({"task": asdict(task), "space": repr(space)})
    storage = optuna.storages.JournalStorage(
        # A lock by opening a file works on every system; the default needs links.
        JournalFileBackend(str(journal), lock_obj=JournalFileOpenLock(str(journal)))
    )
    study = optuna.create_study(
        storage=storage,
        study_name=name,
        direction="maximize" if task.metric == "macro_f1" else "minimize",
        load_if_exists=True,
        sampler=optuna.samplers.TPESampler(seed=task.seed * 1000 + seed, n_startup_trials=8),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=_WARM_UP),
    )
    if not study.get_trials(deepcopy=False):
        study.enqueue_trial(start)  # the preset is the first guess: a search never ends behind it
    opened: Study = study
    return opened


def _end_stale(study: Study) -> None:
    """Note trials of killed processes as failed; they would wait for ever."""
    from optuna.trial import TrialState

    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        study.tell(trial.number, state=TrialState.FAIL)


def _space(task: Search) -> tuple[dict[str, Any], Space]:
    """Return where the search starts, and a space that has this point inside."""
    from paper.cells import recipe_of

    recipe = recipe_of(task.cell)
    values = recipe.cls.all_settings() | recipe.parameters
    start: dict[str, Any] = {}
    space: Space = {}
    for name, told in SPACES[task.model].items():
        if name in task.settings:
            continue
        value = values[name]
        if isinstance(told, Choices):
            options = told.values if value in told.values or value is None else (*told.values, value)
            space[name] = Choices(options)
            if value is not None:
                start[name] = _plain(value)
        else:
            space[name] = told
            start[name] = min(max(value, told.low), told.high)
    return start, space


def _plain(value: Any) -> Any:
    """Turn a tuple of widths into text, the only kind of choice that Optuna keeps in a file besides numbers."""
    return json.dumps(value) if isinstance(value, tuple) else value


def _suggest(trial: Trial, space: Space, start: Mapping[str, Any]) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    for name, told in space.items():
        if isinstance(told, Choices):
            value = trial.suggest_categorical(name, [_plain(option) for option in told.values])
            by_text = {_plain(option): option for option in told.values}
            chosen[name] = by_text[value]
        elif isinstance(told.low, int) and isinstance(told.high, int):
            chosen[name] = trial.suggest_int(name, told.low, told.high, log=told.log)
        else:
            value = trial.suggest_float(name, told.low, told.high, log=told.log)
            # A preset is read by people, and a fourth digit never mattered; what is given already stays as it is.
            if value != start.get(name):
                value = min(max(float(f"{value:.3g}"), told.low), told.high)
            chosen[name] = value
    return chosen


class Clock:
    """Is told of every epoch, and ends a fit that is out of time.

    Parameters
    ----------
    deadline : float
        Seconds of ``time.time()``.
    """

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline

    def __enter__(self) -> Clock:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def start(self, n_epochs: int, done: list[dict[str, Any]]) -> None:
        """Do nothing."""

    def epoch(self, record: dict[str, Any]) -> None:
        """End the fit when the time is over."""
        if time.time() > self.deadline:
            raise _optuna().TrialPruned


class _Watcher(Clock):
    """Ends a trial that is behind the median as well."""

    def __init__(self, trial: Trial, metric: str, deadline: float) -> None:
        super().__init__(deadline)
        self.trial, self.metric = trial, metric

    def epoch(self, record: dict[str, Any]) -> None:
        """Tell the study how the epoch went."""
        super().epoch(record)
        self.trial.report(record[f"validation_{self.metric}"], record["epoch"])
        if self.trial.should_prune():
            raise _optuna().TrialPruned


@contextmanager
def watched(watcher: Clock) -> Iterator[None]:
    """Let the training loop tell the watcher of its epochs; a classifier itself takes only names of styles."""
    from hotvae.training import loop as training_loop

    loop: Any = training_loop
    before = loop.make_progress
    loop.make_progress = lambda style, title: watcher
    try:
        yield
    finally:
        loop.make_progress = before


def run_trials(
    task: Search, journal: str | os.PathLike[str], *, deadline: float, n_trials: int | None = None, number: int = 0
) -> None:
    """Run trials in this process until the time is over.

    Parameters
    ----------
    task : Search
        What to search for.
    journal : path
        Where trials are kept.
    deadline : float
        Seconds of ``time.time()`` after which nothing is started.
    n_trials : int, optional
        Most trials of the whole study.
    number : int
        Which of the processes this is; each draws its own trials.

    Examples
    --------
    >>> import tempfile
    >>> task = Search("virtual-60-4", "mlknn")
    >>> journal = Path(tempfile.mkdtemp()) / "trials"
    >>> run_trials(task, journal, deadline=time.time() + 60, n_trials=2)
    >>> found_in(_open_study(task, journal), task).n_complete
    2
    """
    optuna = _optuna()
    from paper.cells import recipe_of

    recipe = recipe_of(task.cell)
    known = recipe.cls.all_settings()
    rows = _rows(task)
    start, space = _space(task)
    study = _open_study(task, journal, seed=number)

    def objective(trial: Trial) -> float:
        settings = recipe.parameters | _suggest(trial, space, start)
        # Longer than half of the run, the direct path would leave no epoch to the messages.
        if "direct_epochs" in settings and "max_epochs" in settings:
            settings["direct_epochs"] = min(settings["direct_epochs"], settings["max_epochs"] // 2)
        if "dim" in settings and "n_heads" in known:
            settings["n_heads"] = max(1, settings["dim"] // 64)
        shown = {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}
        trial.set_user_attr("settings", shown)
        try:
            return _judge(task, shown, rows, _Watcher(trial, task.metric, deadline))
        except _REFUSALS as error:
            trial.set_user_attr("error", str(error))
            raise

    callbacks = []
    if n_trials is not None:
        if _n_over(study) >= n_trials:
            return
        callbacks.append(optuna.study.MaxTrialsCallback(n_trials, states=_over_states()))
    left = deadline - time.time()
    if left > 0:
        study.optimize(objective, timeout=left, catch=_REFUSALS, callbacks=callbacks)


_Rows = tuple[tuple[Any, Any], tuple[Any, Any]]


def _rows(task: Search, draw: int = 0) -> _Rows:
    """Read training and validation rows; test rows are none of a search's business."""
    from paper.cells import read_parts, recipe_of

    parts = read_parts(task.cell, recipe_of(task.cell), draw)
    return parts.train, parts.validation


def _judge(task: Search, settings: Mapping[str, Any], rows: _Rows, watcher: Clock) -> float:
    """Fit with some settings, and give the metric on the validation rows."""
    from hotvae.jobs.settings import train_settings
    from hotvae.metrics import score
    from paper.cells import recipe_of

    cls = recipe_of(task.cell).cls
    # What HOT-VAE learns afterwards, of given labels and whole communities, does not change what is judged here.
    aside = {"given_epochs": 0, "covariance_epochs": 0} if task.model == "hotvae_network" else {}
    told = train_settings(cls.all_settings(), ("settings", settings)).parameters
    model = cls.from_settings(**{"random_state": task.seed, "n_threads": 1} | told | aside)
    train, validation = rows
    with warnings.catch_warnings(), watched(watcher):
        warnings.simplefilter("ignore", DataWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        model.fit(*train, validation=validation)
        probs = model.predict_proba(validation[0])
    return float(score(validation[1], probs, task.metric).value)


def _over_states() -> tuple[Any, ...]:
    from optuna.trial import TrialState

    return (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


def _n_over(study: Study) -> int:
    return len(study.get_trials(deepcopy=False, states=_over_states()))


def main(argv: Sequence[str] | None = None) -> int:
    """Run trials as a worker: ``python -m paper.search JOURNAL NUMBER < task.json``.

    Parameters
    ----------
    argv : sequence of str, optional
        The journal and the number of the process.

    Returns
    -------
    int
        0.

    Examples
    --------
    >>> main(["alone"])
    Traceback (most recent call last):
    ...
    SystemExit: worker needs a journal and its number
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if len(arguments) != 2:
        raise SystemExit("worker needs a journal and its number")
    told = json.load(sys.stdin)
    journal, number = arguments
    task = Search(**told["task"])
    if "again" in told:
        look_again(task, journal, told["again"], deadline=told["deadline"])
        return 0
    run_trials(task, journal, deadline=told["deadline"], n_trials=told["n_trials"], number=int(number))
    return 0


if __name__ == "__main__":
    sys.exit(main())
