"""Named data sets as a user meets them: where each is, what its file holds, and the paper's numbers beside it.

Nothing here waits for torch.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hotvae.data.catalog import (
    PACKAGED,
    Comparison,
    Entry,
    cache_folder,
    catalog_names,
    compare_with_paper,
    describe,
    find_file,
    label_statistics,
    load,
)
from hotvae.data.dataset import Dataset
from hotvae.data.frames import write_table
from hotvae.errors import ConfigError, DataError


@dataclass(frozen=True)
class NamedSet:
    """A set of the catalogue, and its file where it is on this machine.

    Attributes
    ----------
    entry : Entry
        The facts of the catalogue.
    where : str
        ``"cache"``, ``"data folder"``, ``"package"``, or why it is not here: ``"to fetch"``, ``"bring your own"``,
        ``"not here"``.
    file : str
        Path of the file; empty where there is none.
    found : dict
        From :func:`describe_set`: rows, features, labels, sizes of the split and statistics of the labels.
    comparison : list of Comparison
        From :func:`describe_set`: the paper's statistics beside those of the file.
    """

    entry: Entry
    where: str
    file: str
    found: dict[str, Any] = field(default_factory=dict)
    comparison: list[Comparison] = field(default_factory=list)


def list_sets() -> list[NamedSet]:
    """Return all named sets, and whether they are on this machine; no file is read.

    Returns
    -------
    list of NamedSet
    """
    return [NamedSet(entry, *_place(entry)) for entry in map(describe, catalog_names())]


def describe_set(name: str) -> NamedSet:
    """Read a named set, if it is on this machine, and compare it with the paper.

    Parameters
    ----------
    name : str
        A set of the catalogue.

    Returns
    -------
    NamedSet

    Raises
    ------
    ConfigError
        An unknown name, with close ones.
    DataError
        A file that is damaged or of another set.
    """
    entry = describe(name)
    where, file = _place(entry)
    if not file:
        return NamedSet(entry, where, file)
    data = load(name)
    parts = data.split
    found = {
        "rows": data.dataset.n_samples,
        "features": data.dataset.n_features,
        "labels": data.dataset.n_labels,
        "split": [len(parts.train), len(parts.validation), len(parts.test)],
    } | label_statistics(data.dataset.labels)
    return NamedSet(entry, where, file, found, compare_with_paper(data))


def _place(entry: Entry) -> tuple[str, str]:
    """Say where a set is, or how to get it, and name its file if there is one."""
    try:
        path = find_file(entry)
    except DataError:
        return "to fetch" if entry.archive else "bring your own" if entry.own else "not here", ""
    homes = {"cache": cache_folder(), "package": PACKAGED}
    return next((where for where, folder in homes.items() if path.is_relative_to(folder)), "data folder"), str(path)


@dataclass(frozen=True)
class ExportedSet:
    """Tables of a named set, and how a command says what their columns are.

    Attributes
    ----------
    train, validation, test : Path
        The rows of each part.
    labels : str
        The label columns, as ``first:last``.
    id_column : str
        Column of row names.
    coordinates : str
        The two columns that say where a row is, as ``x,y``; empty where there are none.
    """

    train: Path
    validation: Path
    test: Path
    labels: str
    id_column: str
    coordinates: str


def export_set(name: str, out: str | Path) -> ExportedSet:
    """Write a named set as tables: one for each part of its split.

    Parameters
    ----------
    name : str
        A set of the catalogue.
    out : path
        Folder for ``train.csv``, ``validation.csv`` and ``test.csv``; made if needed, older ones are replaced.

    Returns
    -------
    ExportedSet

    Raises
    ------
    ConfigError
        An unknown name, or a set whose rows are too wide for a table.
    DataError
        A set that is not on this machine.
    """
    named = load(name)
    data, folder = named.dataset, Path(out)
    if not isinstance(data.features, np.ndarray | pd.DataFrame):
        raise ConfigError(
            f"set to write as a table must be dense; got {name}, {data.n_features} columns of mostly 0. Train on it by "
            f"its name: hotvae train --data {name}."
        )
    id_column = named.entry.ids or "row"
    folder.mkdir(parents=True, exist_ok=True)
    parts = {part: getattr(named.split, part) for part in ("train", "validation", "test")}
    paths = {part: folder / f"{part}.csv" for part in parts}
    for part, rows in parts.items():
        write_table(_as_table(data.take(rows), id_column, rows), paths[part])
    where = "" if data.coordinates is None else ",".join(data.coordinate_names)
    labels = f"{data.label_names[0]}:{data.label_names[-1]}"
    return ExportedSet(**paths, labels=labels, id_column=id_column, coordinates=where)


def _as_table(data: Dataset, id_column: str, rows: Any) -> pd.DataFrame:
    """Put names, places, features and labels side by side."""
    names = pd.DataFrame({id_column: rows if data.row_names is None else data.row_names})
    places = pd.DataFrame(data.coordinates, columns=None if data.coordinates is None else list(data.coordinate_names))
    features = data.features
    if not isinstance(features, pd.DataFrame):
        features = pd.DataFrame(np.asarray(features), columns=list(data.feature_names))
    # A gap stays a gap.
    labels = pd.DataFrame(data.labels, columns=list(data.label_names)).astype("Int8")
    return pd.concat([names, places, features, labels], axis=1)
