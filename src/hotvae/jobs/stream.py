"""Training on a Parquet table that does not fit into memory.

What must be decided is decided on a sample of the rows that does fit, by the same job as any other training: what the
columns are, who is stacked, with which weights, what labels say of each other, thresholds. Then the networks are
trained on all rows, read from the file a piece at a time.
"""

import json
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hotvae.data.parquet import ParquetTable
from hotvae.errors import ConfigError, DataError, DataWarning, TrainingError
from hotvae.estimators.all_rows import learn_from_all
from hotvae.estimators.registry import load_model
from hotvae.estimators.stacked import StackedClassifier
from hotvae.features import Rows
from hotvae.files import locked, write_text
from hotvae.jobs.settings import TrainSettings
from hotvae.jobs.table_needs import TableNeeds, model_card
from hotvae.jobs.train import (
    Sample,
    Tell,
    TrainRun,
    check_same,
    checked_out,
    new_model,
    remove_state,
    state_file,
    train,
)
from hotvae.training.ranks import ALONE, Ranks, shared

# Rows of the sample, at most; and its cells (rows x columns, labels ranks them), at most: a gigabyte of work on them.
_SAMPLE_ROWS, _SAMPLE_CELLS = 50_000, 10_000_000
# Options that need the whole table at once.
_WHOLE = ("label_table", "validation", "long", "sites", "sheet", "data")


def train_streamed(
    settings: TrainSettings,
    table: str | Path | None,
    *,
    command: str | None = None,
    tell: Tell | None = None,
    ranks: Ranks = ALONE,
) -> TrainRun:
    """Train on a Parquet table of any length and save the model.

    Parameters
    ----------
    settings : TrainSettings
        As for :func:`~hotvae.jobs.train.train`; ``sample`` is the number of rows that decide.
    table : path
        Parquet file, or a folder of them.
    command, tell
        As in :func:`~hotvae.jobs.train.train`.
    ranks : Ranks, optional
        Processes that share the training on all rows; the first decides on the sample, while the others wait.

    Returns
    -------
    TrainRun
        Its measures are those of the sample: rows held out from models that learned from the others of the sample.

    Raises
    ------
    DataError, ConfigError
        A table or setting that does not fit.

    Notes
    -----
    The same seed gives the same model, for the same number of processes. A table with no more rows than the sample is
    trained on as without streaming. The state lies beside the model folder: a run that was killed goes on after the
    last million rows or so.
    """
    out = checked_out(settings.out)
    _check_settings(settings, table)
    big = ParquetTable(str(table))
    n_wanted = (
        min(_SAMPLE_ROWS, max(1, _SAMPLE_CELLS // len(big.columns))) if settings.sample is None else settings.sample
    )
    if big.n_rows <= n_wanted and not big.path.is_dir() and ranks.size == 1:
        return train(replace(settings, stream=False), table, command=command, tell=tell)
    state = state_file(out)
    started = time.perf_counter()
    resumed = state.exists() and settings.resume
    with locked(state) if ranks.is_first else nullcontext():
        if ranks.is_first:
            _open_state(state, settings, big, n_wanted)
            try:
                _learn_from_sample(settings, big, n_wanted, state / "sampled", tell)
            except (ConfigError, DataError):
                remove_state(state)  # nothing is learned yet, and the table will be another when it is mended
                raise
        ranks.wait()
        model = load_model(state / "sampled")
        assert isinstance(model, StackedClassifier)  # as checked
        card = model_card(model)
        n_sampled = int(card["n_train"])
        if not settings.force:
            check_same(Path(out), type(model).__name__, card)
        progress: Any = "silent" if settings.quiet else "auto"
        with shared(ranks):
            learn_from_all(model, big, _Ready(model, big.path.name), n_sampled, folder=state, progress=progress)
        card |= {"command": command, "n_train": big.n_rows, "n_sampled": n_sampled}
        ranks.wait()
        if ranks.is_first:
            model.save(out, extra=card)
            remove_state(state)
        ranks.wait()
    seconds = time.perf_counter() - started
    return TrainRun(
        model, card["split"], big.n_rows, 0, card["dropped_labels"], resumed, seconds, card["validation"], None
    )


class _Ready:
    """Makes rows of a piece of the table as the fitted model makes them of a table to predict."""

    def __init__(self, model: StackedClassifier, source: str) -> None:
        self.model, self.source, self.needs = model, source, TableNeeds.of_model(model)

    def __call__(self, form: str, frame: pd.DataFrame, first: int) -> Rows:
        with _counted_from(first, self.source):
            features, _ = self.needs.features_of(frame, source=self.source, first_row=first)
            labels = self.needs.read_labels(frame)
            table = self.model._read(features)
        return Rows(self.model.forms_.makers[form].transform(table), labels)


def _check_settings(settings: TrainSettings, table: str | Path | None) -> None:
    """Refuse what cannot be streamed before anything is read."""
    model = new_model(settings)
    if not isinstance(model, StackedClassifier) or model.get_params(deep=False).get("recipe", "auto") != "auto":
        raise ConfigError(
            f"--stream must go with HOT-VAE and the recipe it finds itself; got model {settings.model!r} with recipe "
            f"{settings.recipe!r}. Leave out --model and --recipe."
        )
    path = None if table is None else Path(table)
    if path is None or not (path.is_dir() or path.suffix.lower() in (".parquet", ".pq")):
        got = "no table" if path is None else repr(path.name)
        raise ConfigError(f"--stream must go with a Parquet table, or a folder of them; got {got}. Convert it first.")
    given = [name for name in _WHOLE if getattr(settings, name)]
    if given:
        option = given[0].replace("_", "-")
        raise ConfigError(
            f"--stream must read one table with a row a site; got --{option}. Join the tables first, or leave it out."
        )
    if settings.sample is not None and settings.sample < 100:
        raise ConfigError(f"--sample must be at least 100 rows; got {settings.sample}. Draw more.")


def _open_state(state: Path, settings: TrainSettings, big: ParquetTable, n_wanted: int) -> None:
    """Make sure that what lies in the folder belongs to this very run."""
    if not settings.resume:
        remove_state(state)
    told = {
        name: value
        for name, value in asdict(settings).items()
        if name not in ("out", "resume", "force", "quiet", "json")
    }
    digest = sha256(json.dumps([told, big.identity(), n_wanted], sort_keys=True, default=str).encode()).hexdigest()
    mark = state / "run"
    if mark.is_file() and mark.read_text(encoding="utf-8") != digest:
        raise TrainingError(
            f"state must be of this run; got one of another table or other settings ({state}). Remove it, or pass "
            "--no-resume to start afresh."
        )
    write_text(mark, digest)


def _learn_from_sample(settings: TrainSettings, big: ParquetTable, n_wanted: int, out: Path, tell: Tell | None) -> None:
    """Train on a sample and save the model, unless a run before this one has done so."""
    if out.exists():
        return
    seed = settings.parameters.get("random_state")
    rows = big.sample(n_wanted, 0 if seed is None else int(seed), settings.groups)
    sample = Sample(rows, big.n_rows, partial(_count_labels, big, settings.presence))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "labels must have both classes", DataWarning)  # of the sample, not of all
        train(replace(settings, out=str(out), stream=False), big.path, sample=sample, tell=tell)


def _count_labels(
    big: ParquetTable, presence: bool, names: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Read the labels of all rows once: a cell that is no label is found before anything is learned."""
    n_present, n_observed = np.zeros((2, len(names)), dtype=np.int64)
    needs = TableNeeds([], [], list(names), presence=presence)
    for group in big.row_groups:
        for first, frame in big.frames(group, columns=names):
            with _counted_from(first, big.path.name):
                labels = needs.read_labels(frame)
            n_present += (labels == 1).sum(axis=0)
            n_observed += (~np.isnan(labels)).sum(axis=0)
    return n_present, n_observed


@contextmanager
def _counted_from(first: int, source: str) -> Iterator[None]:
    """Say in messages where a piece lies in its table."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{error} Rows are counted from row {first:,} of {source}.") from error
