"""Run cells, each in a process of its own, and keep what they give.

Done cells are passed over, so that a run that was stopped goes on where it ended. A cell that failed or took too long
is noted and left alone until asked for. A cell whose settings have changed since it was done is run again.
"""

import json
import math
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from hotvae.errors import ConfigError
from hotvae.jobs.durations import duration_words
from hotvae.jobs.tune import ONE_THREAD
from paper.experiments import EXPERIMENTS, REPRODUCED, Cell
from paper.store import DONE, FAILED, TOO_SLOW, Store, fit_fingerprint

# -P: the folder one stands in may hold another package of this name.
WORKER = (sys.executable, "-P", "-m", "paper.worker")
_POLL_SECONDS = 0.05

Settings = Callable[[Cell], Mapping[str, Any]]
Say = Callable[[str], None]
Start = Callable[[Cell, Path, Path], Any]
"""Starts a cell with the files of its answer and of its rows; what it gives is asked and ended like a Popen."""


@dataclass(frozen=True)
class Plan:
    """What is to be done.

    Attributes
    ----------
    cells : list of (Cell, str)
        Cells to run, each with the fingerprint of its fit.
    n_done, n_failed, n_changed : int
        Cells that are done; that failed and are left alone; that were done with other settings and run again.
    shared : list of (Cell, dict)
        Cells that another experiment has done, and its result.
    """

    cells: list[tuple[Cell, str]]
    n_done: int = 0
    n_failed: int = 0
    n_changed: int = 0
    shared: list[tuple[Cell, dict[str, Any]]] = field(default_factory=list)


@dataclass(frozen=True)
class Summary:
    """What a run has done.

    Attributes
    ----------
    n_done, n_failed, n_left : int
        Cells done and failed in this run, and cells that the budget left over.
    seconds : float
        What it took.
    """

    n_done: int
    n_failed: int
    n_left: int
    seconds: float


def resolved_settings(cell: Cell) -> Mapping[str, Any]:
    """Return everything a cell is fitted with, presets included.

    Examples
    --------
    >>> resolved_settings(Cell("tables", "before", "hotvae_network", "sider"))["encoder"]
    'elements'
    """
    from paper.cells import recipe_of  # torch is not needed to render

    return recipe_of(cell).to_dict()


def plan(
    store: Store,
    cells: Sequence[Cell],
    *,
    retry: bool = False,
    fresh: bool = False,
    keep_old: bool = False,
    need_rows: Collection[str] = (),
    settings: Settings = resolved_settings,
) -> Plan:
    """Tell cells that are done from those to run.

    Parameters
    ----------
    store : Store
        What is done.
    cells : sequence of Cell
        What is asked for.
    retry : bool
        Run again what failed or took too long.
    fresh : bool
        Run again what is done.
    keep_old : bool
        Leave cells alone that were done with other settings.
    need_rows : collection of str
        Variants that are to be compared row by row: run them again where the values of single rows are gone.
    settings : callable
        Gives the settings of a cell.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import tempfile
    >>> cells = [Cell("tables", "ridge", "ridge", "yeast", seed=seed) for seed in range(3)]
    >>> len(plan(Store(tempfile.mkdtemp()), cells, settings=lambda cell: {}).cells)
    3
    """
    latest = {name: store.latest(name) for name in {cell.experiment for cell in cells}}
    elsewhere = {} if fresh else store.fits((*EXPERIMENTS, REPRODUCED))
    counts = {"n_done": 0, "n_failed": 0, "n_changed": 0}
    to_run: list[tuple[Cell, str]] = []
    shared: list[tuple[Cell, dict[str, Any]]] = []

    def serves(cell: Cell, line: Mapping[str, Any]) -> bool:
        return cell.variant not in need_rows or store.rows_path(line["fit"]).exists()

    for cell in cells:
        fits = fits_that_serve(cell, settings(cell))
        before = None if fresh else latest[cell.experiment].get(cell.place)
        if before is not None and before["status"] == DONE and not serves(cell, before):
            before = None
        if before is not None and before.get("fit") not in fits:
            if before["status"] == DONE and keep_old:
                counts["n_done"] += 1
                continue
            counts["n_changed"] += before["status"] == DONE
            before = None
        if before is not None and before["status"] == DONE:
            counts["n_done"] += 1
        elif done := [elsewhere[fit] for fit in fits if fit in elsewhere and serves(cell, elsewhere[fit])]:
            shared.append((cell, done[0]))
        elif before is not None and not retry:
            counts["n_failed"] += 1
        else:
            to_run.append((cell, fits[0]))
    return Plan(to_run, shared=shared, **counts)


def fits_that_serve(cell: Cell, settings: Mapping[str, Any]) -> list[str]:
    """List the fingerprints that answer a cell: its own, then those of the same fit measured in more ways.

    Parameters
    ----------
    cell : Cell
        What is asked for.
    settings : mapping
        All settings it is fitted with, presets included.

    Returns
    -------
    list of str

    Examples
    --------
    >>> table, survey = (Cell("", "plain", "plain", "yeast", measures=EXPERIMENTS[name].measures)
    ...                  for name in ("tables", "communities"))
    >>> fits_that_serve(survey, {})[0] in fits_that_serve(table, {})
    True
    >>> fits_that_serve(table, {})[0] in fits_that_serve(survey, {})
    False
    """
    asked = set(cell.measures)
    wider = sorted({other.measures for other in EXPERIMENTS.values() if asked < set(other.measures)})
    return [fit_fingerprint(replace(cell, measures=measures), settings) for measures in (cell.measures, *wider)]


class Estimates:
    """Guesses what cells will take, from what others took.

    Parameters
    ----------
    store : Store
        Past results.

    Examples
    --------
    >>> import tempfile
    >>> Estimates(Store(tempfile.mkdtemp())).of(Cell("tables", "ridge", "ridge", "yeast")) is None
    True
    """

    def __init__(self, store: Store) -> None:
        self.seconds: dict[tuple[str, ...], list[float]] = {}
        for name in EXPERIMENTS:
            for line in store.lines(name):
                if line["status"] in (DONE, TOO_SLOW) and "seconds" in line and "copied_from" not in line:
                    self.note(Cell.from_dict(line["cell"]), float(line["seconds"]))

    def note(self, cell: Cell, seconds: float) -> None:
        """Remember what a cell took."""
        for key in self._keys(cell):
            self.seconds.setdefault(key, []).append(seconds)

    def of(self, cell: Cell) -> float | None:
        """Guess what a cell takes; None when nothing like it was ever run."""
        for key in self._keys(cell):
            if key in self.seconds:
                return median(self.seconds[key])
        return None

    def is_sure(self, cell: Cell) -> bool:
        """Whether the same model was run on the same set."""
        return any(key in self.seconds for key in self._keys(cell)[:2])

    def total(self, cells: Sequence[Cell]) -> float | None:
        """Guess what cells take one after the other; None when nothing is known."""
        known = [guess for guess in map(self.of, cells) if guess is not None]
        return sum(known) * len(cells) / len(known) if known else None

    @staticmethod
    def _keys(cell: Cell) -> list[tuple[str, ...]]:
        return [
            ("variant", cell.experiment, cell.variant, cell.data),
            ("model", cell.model, cell.data),
            ("data", cell.data),
            ("all",),
        ]


@dataclass
class _Job:
    cell: Cell
    fit: str
    process: Any  # a Popen, or what start gave
    folder: Path
    started: float


def run(
    store: Store,
    todo: Plan,
    *,
    jobs: int = 1,
    budget: float | None = None,
    limit: float = 3600.0,
    command: str = "",
    worker: Sequence[str] = WORKER,
    start: Start | None = None,
    say: Say | None = None,
) -> Summary:
    """Run what is planned.

    Parameters
    ----------
    store : Store
        Where results go, each as soon as it is there.
    todo : Plan
        From :func:`plan`.
    jobs : int
        Processes at a time, each with one thread.
    budget : float, optional
        Seconds after which no cell is started any more; one that is known to take longer than what is left is not
        started either. Cells that run then are let finish.
    limit : float
        Seconds for one cell; then it is ended and noted as too slow.
    command : str
        Noted with the results.
    worker : sequence of str
        How a worker is started.
    start : callable, optional
        Starts cells elsewhere instead: :func:`cell_on_ray`. Each writes its answer to a file of its own in the folder
        of the results, from which it is taken into them.
    say : callable, optional
        Told a line about each cell.

    Returns
    -------
    Summary

    Raises
    ------
    ConfigError
        Fewer than one job.

    Notes
    -----
    When interrupted, the running cells are ended and nothing is noted of them.

    Examples
    --------
    >>> import tempfile
    >>> run(Store(tempfile.mkdtemp()), Plan([])).n_done
    0
    """
    if jobs < 1:
        raise ConfigError(f"jobs must be at least 1; got {jobs}. One for each core is a good number.")
    say = say or (lambda text: None)
    for cell, line in todo.shared:
        store.append({**line, "cell": cell.to_dict(), "copied_from": line["cell"]["experiment"]})
    started = time.monotonic()
    estimates = Estimates(store)
    waiting, running = list(todo.cells), list[_Job]()
    n_cells, n_done, n_failed, n_left = len(waiting), 0, 0, 0
    store.make_rows_folder()
    try:
        while waiting or running:
            left = math.inf if budget is None else budget - (time.monotonic() - started)
            while waiting and len(running) < jobs:
                cell, fit = waiting[0]
                guess = estimates.of(cell) if estimates.is_sure(cell) else None
                if left <= 0 or (guess is not None and guess > left):
                    n_left += 1
                    waiting.pop(0)
                    continue
                running.append(_start(cell, fit, store, worker, start))
                waiting.pop(0)
            finished = [job for job in running if _is_over(job, limit)]
            if not finished:
                time.sleep(_POLL_SECONDS)
                continue
            for job in finished:
                running.remove(job)
                line = _collect(job, limit) | {"command": command}
                store.append(line)
                estimates.note(job.cell, line["seconds"])
                is_done = line["status"] == DONE
                n_done, n_failed = n_done + is_done, n_failed + (not is_done)
                rest = estimates.total([cell for cell, _ in waiting])
                say(_progress(job.cell, line, n_done + n_failed + n_left, n_cells, rest, jobs))
    finally:
        for job in running:
            _end(job)
    return Summary(n_done, n_failed, n_left, time.monotonic() - started)


def _progress(cell: Cell, line: Mapping[str, Any], n_over: int, n_cells: int, rest: float | None, jobs: int) -> str:
    _, variant, data, split, seed = cell.place
    where = f"{data} split {split}" if cell.split else data
    if line["status"] == DONE:
        honest = line.get("metrics", {}).get("honest", {})
        shown = [
            f"{title} {honest[name]:.3f}"
            for name, title in (("macro_f1", "maF1"), ("log_loss", "log loss"))
            if honest.get(name) is not None
        ]
        what = ", ".join(["done", *shown])
    else:
        what = f"{line['status']}: {line['error']}"
    ahead = "" if not rest else f"; about {duration_words(rest / jobs)} left"
    took = duration_words(line["seconds"])
    return f"[{n_over}/{n_cells}] {cell.experiment}: {variant} on {where}, seed {seed}: {what} ({took}){ahead}"


def cell_on_ray(cell: Cell, answer_file: Path, rows_file: Path) -> Any:
    """Start a cell on the cluster that this process is connected to."""
    from hotvae.scale.tasks import RayTask
    from paper.worker import write_answer

    own = {name: worker_environment()[name] for name in ("PYTHONPATH", *ONE_THREAD)}
    return RayTask(write_answer, cell.to_dict(), str(answer_file), str(rows_file), variables=own)


def _start(cell: Cell, fit: str, store: Store, worker: Sequence[str], start: Start | None) -> _Job:
    if start is not None:
        folder = store.folder.absolute() / "answers" / fit
        folder.mkdir(parents=True, exist_ok=True)
        process = start(cell, folder / "answer.json", store.rows_path(fit).absolute())
        return _Job(cell, fit, process, folder, time.monotonic())
    folder = Path(tempfile.mkdtemp(prefix="hotvae-cell-"))
    cell_file = folder / "cell.json"
    cell_file.write_text(json.dumps(cell.to_dict()), encoding="utf-8")
    with cell_file.open("rb") as told, (folder / "stderr").open("wb") as errors:
        process = subprocess.Popen(
            [*worker, str(folder / "answer.json"), str(store.rows_path(fit).absolute())],
            stdin=told,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=worker_environment(),
        )
    return _Job(cell, fit, process, folder, time.monotonic())


def worker_environment() -> dict[str, str]:
    """Variables for a process that works for this one: it has one thread, and finds this very package.

    Examples
    --------
    >>> worker_environment()["OMP_NUM_THREADS"]
    '1'
    """
    paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(paths)}


def _is_over(job: _Job, limit: float) -> bool:
    return job.process.poll() is not None or time.monotonic() - job.started > limit


def _collect(job: _Job, limit: float) -> dict[str, Any]:
    """Read the answer of a worker, or find words for the lack of one."""
    seconds = time.monotonic() - job.started
    code = job.process.poll()
    answer: dict[str, Any]
    if code is None:
        words = f"ended after {duration_words(limit)}, the limit for a cell"
        answer = {"status": TOO_SLOW, "error": words, "limit_seconds": limit}
    else:
        try:
            answer = json.loads((job.folder / "answer.json").read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError):
            reason = _last_words(job) or "no message"
            answer = {"status": FAILED, "error": f"the process ended with code {code} ({reason})"}
    _end(job)
    return {
        "cell": job.cell.to_dict(),
        "fit": job.fit,
        **answer,
        "seconds": round(seconds, 3),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "revision": revision(),
    }


def _last_words(job: _Job) -> str:
    if not isinstance(job.process, subprocess.Popen):
        return str(job.process.last_words())
    last = (job.folder / "stderr").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return last[-1] if last else ""


def _end(job: _Job) -> None:
    if job.process.poll() is None:
        job.process.terminate()
        try:
            job.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            job.process.kill()
            job.process.wait()
    shutil.rmtree(job.folder, ignore_errors=True)


def revision() -> str | None:
    """Return the git revision of the checkout that runs, with a ``+`` if it has changes; None outside of one.

    Examples
    --------
    >>> revision() is None or len(revision()) >= 7
    True
    """
    root = Path(__file__).parents[1]

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
        except OSError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit = git("rev-parse", "--short=12", "HEAD")
    code = ("src", "paper", ":!paper/results")  # results change with every cell
    return None if commit is None else commit + ("+" if git("status", "--porcelain", "--", *code) else "")


def versions() -> dict[str, str]:
    """Versions of what results depend on.

    Examples
    --------
    >>> sorted(versions())
    ['hotvae', 'numpy', 'python', 'scikit-learn', 'scipy', 'torch']
    """
    packages = ("hotvae", "torch", "numpy", "scipy", "scikit-learn")
    return {"python": platform.python_version()} | {package: version(package) for package in packages}


def provenance(seed: int) -> dict[str, Any]:
    """Say what is needed to repeat a measurement of this process.

    Examples
    --------
    >>> provenance(3)["seed"]
    3
    """
    import torch  # seconds, which no other command of this module needs

    cpu = platform.processor()
    with suppress(OSError):
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
        cpu = found[1] if found else cpu
    module = getattr(sys.modules["__main__"], "__spec__", None)
    command = ["-m", module.name] if module is not None else [Path(sys.argv[0]).name]
    return {
        "command": shlex.join(["python", *command, *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": seed,
        "versions": versions(),
        "machine": {
            "cpu": cpu,
            "cores": os.cpu_count(),
            "instructions": torch.backends.cpu.get_cpu_capability(),
            "system": platform.system(),
        },
        "threads": torch.get_num_threads(),
    }
