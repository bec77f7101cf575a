"""Named data sets as a user meets them: where each is, what its file holds, and the paper's numbers beside it.

Nothing here waits for torch.
"""

from dataclasses import dataclass, field
from typing import Any

from hotvae.data.catalog import (
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
from hotvae.errors import DataError


@dataclass(frozen=True)
class NamedSet:
    """A set of the catalogue, and its file where it is on this machine.

    Attributes
    ----------
    entry : Entry
        The facts of the catalogue.
    where : str
        ``"cache"``, ``"data folder"``, or why it is not here: ``"to fetch"``, ``"bring your own"``, ``"not here"``.
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
    return "cache" if path.is_relative_to(cache_folder()) else "data folder", str(path)
