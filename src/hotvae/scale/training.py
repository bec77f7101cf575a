"""Training that several processes share, started by Ray: when a worker is lost, all are started again and go on."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from hotvae.errors import ConfigError, HotVAEError, TrainingError
from hotvae.estimators.registry import load_model
from hotvae.files import write_text
from hotvae.jobs.settings import TrainSettings
from hotvae.jobs.stream import train_streamed
from hotvae.jobs.table_needs import model_card
from hotvae.jobs.train import TrainRun, checked_out, new_model, remove_state, state_file, train
from hotvae.scale.cluster import TRIES, find_ray
from hotvae.training.ranks import joined_ranks

# The first worker finds the recipe while the others wait for it.
_WAIT_SECONDS = 7 * 24 * 3600


def train_on_ray(
    settings: TrainSettings, table: str | Path | None, n_workers: int, command: str | None = None
) -> TrainRun:
    """Train with several workers on the cluster that this process is connected to, and save the model.

    Parameters
    ----------
    settings : TrainSettings
        As for :func:`~hotvae.jobs.stream.train_streamed` or :func:`~hotvae.jobs.train.train`.
    table : path or None
        On a disk that all machines share, and so is the model's folder.
    n_workers : int
        Processes, of one core each.
    command : str, optional
        Noted in the model.

    Returns
    -------
    TrainRun
        Of the saved model.

    Raises
    ------
    HotVAEError
        As in training here, or workers that were lost too often.

    Notes
    -----
    After each leg or epoch the first worker writes the state beside the model folder. When a worker is lost, Ray starts
    all of them again, and they go on from there, to the weights that they would have had.
    """
    if n_workers < 1:
        raise ConfigError(f"--workers must be at least 1; got {n_workers}. One for each core is a good number.")
    find_ray()
    from ray import train as ray_train
    from ray.train.torch import TorchConfig, TorchTrainer

    out = Path(checked_out(settings.out)).absolute()
    new_model(settings)  # a mistake is told before a worker is started
    resumed = state_file(out).exists() and settings.resume
    if not settings.resume:
        remove_state(state_file(out))
    notes = out.with_name(f".{out.name}.ray")
    told = {
        "settings": replace(settings, out=str(out), resume=True),  # workers that are started again go on
        "table": None if table is None else str(Path(table).absolute()),
        "command": command,
        "folder": os.getcwd(),
        "failed": str(notes / "failed"),
    }
    trainer: Any = TorchTrainer(
        _work,
        train_loop_config=told,
        torch_config=TorchConfig(backend="gloo", timeout_s=_WAIT_SECONDS),
        scaling_config=ray_train.ScalingConfig(num_workers=n_workers, resources_per_worker={"CPU": 1}),
        run_config=ray_train.RunConfig(
            name="run", storage_path=str(notes), failure_config=ray_train.FailureConfig(max_failures=TRIES)
        ),
    )
    started = time.perf_counter()
    try:
        trainer.fit()
        failed = _told_failure(told)
    except ray_train.TrainingFailedError as error:
        failed = _told_failure(told) or (
            f"workers must come back after they were lost; got some that were lost {TRIES} times ({error}). Give each "
            "more memory, and repeat the command: it goes on from the last state."
        )
    finally:
        shutil.rmtree(notes, ignore_errors=True)
    if failed:
        raise TrainingError(failed)
    model = load_model(out)
    card = model_card(model)
    counts = int(card["n_train"]), int(card["n_validation"])
    measures = card["validation"], card["test"]
    seconds = time.perf_counter() - started
    return TrainRun(model, card["split"], *counts, card["dropped_labels"], resumed, seconds, *measures)


def _told_failure(told: dict[str, Any]) -> str:
    path = Path(told["failed"])
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _work(told: dict[str, Any]) -> None:
    """Be one of the workers; a mistake in table or settings is written down, for another try would find it again."""
    if _told_failure(told):
        return
    os.chdir(told["folder"])
    settings, ranks = told["settings"], joined_ranks()
    try:
        job = train_streamed if settings.stream else train
        job(settings, told["table"], command=told["command"], ranks=ranks)
    except HotVAEError as error:
        if ranks.is_first:
            write_text(told["failed"], str(error))
        raise
