"""Networks of a stack that was learned from a sample, trained on all rows of a table that is larger than memory."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd

from hotvae.data.parquet import ParquetTable
from hotvae.estimators.members import Member, NetworkMember
from hotvae.estimators.recipe import Facts
from hotvae.estimators.stacked import StackedClassifier
from hotvae.features import Rows
from hotvae.training.loop import fit_network
from hotvae.training.progress import Style
from hotvae.training.ranks import sharing
from hotvae.training.sources import Streamed

# Passes over all rows, at least: rows that were never seen teach more than rows seen often.
_FEWEST_PASSES = 2

Ready = Callable[[str, pd.DataFrame, int], Rows]
"""Turns a form of the features, a piece of the table and the number of its first row into rows."""


def n_passes(n_epochs: int, n_sampled: int, n_rows: int) -> int:
    """Return how often all rows are read: about as many rows are seen as in training on the sample, or two passes.

    Examples
    --------
    >>> n_passes(20, 50_000, 100_000), n_passes(20, 50_000, 100_000_000)
    (10, 2)
    """
    return max(_FEWEST_PASSES, math.ceil(n_epochs * n_sampled / n_rows))


def learn_from_all(
    model: StackedClassifier,
    table: ParquetTable,
    ready: Ready,
    n_sampled: int,
    *,
    folder: Path,
    progress: Style = "silent",
) -> None:
    """Train the networks of a fitted model on all rows, beginning with what they have learned from the sample.

    Columns, stack, trees, what labels say of each other, trust and thresholds stay as the sample has made them.

    Parameters
    ----------
    model : StackedClassifier
        Fitted on a sample; changed in place.
    table : ParquetTable
        All rows.
    ready : callable
        Makes rows of a piece of the table.
    n_sampled : int
        Rows of the sample.
    folder : path
        Where the state of each network is kept; a run that finds it goes on from there.
    progress : {"auto", "bar", "lines", "silent"}
        What to show.

    Notes
    -----
    Inside :func:`~hotvae.training.ranks.shared` the processes share each training.
    """
    passes = 0
    n_columns = len(model.features_.columns_out)
    work = model._plan(Facts(table.n_rows, n_columns, model.n_labels_, is_bag=False))
    for i, (candidate, members) in enumerate(model.members_):
        fitted: list[Member] = []
        for j, member in enumerate(members):
            if not isinstance(member, NetworkMember):
                fitted.append(member)
                continue
            words = f"{model.random_state} {candidate.name} {j}"
            seed = int.from_bytes(hashlib.sha256(words.encode()).digest()[:4], "big") // 2
            passes = n_passes(member.n_epochs, n_sampled, table.n_rows)
            rows = partial(ready, candidate.form)
            source = Streamed(table, rows, work.batch_size, seed, candidate.form).among(sharing())
            long = replace(candidate, epochs=passes * source.n_legs)
            training = work.training(model._training(), long).but(
                state_file=folder / f"network-{i}-{j}.safetensors", progress=progress
            )
            network = deepcopy(member.network)
            title = f"{candidate.name}, all rows"
            fit_network(network, {"bce": 1.0}, source, None, training, seed=seed, title=title, identity=n_sampled)
            fitted.append(NetworkMember(network, member.n_epochs))
        model.members_[i] = candidate, fitted
    learned = (
        f"the networks learned from all rows, in {passes} passes"
        if passes
        else "no network is in the stack, so the others taught nothing (base none stacks networks alone)"
    )
    model.recipe_.rows = (
        f"rows: {n_sampled:,} of {table.n_rows:,} decided columns, stack, trees, which labels go together, trust and "
        f"thresholds; {learned}"
    )
