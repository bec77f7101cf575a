"""Predictions of a saved model for tables in files of any length."""

import hashlib
import json
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from hotvae.data.formats.foreign import checked_frame, foreign_bytes
from hotvae.data.frames import write_table
from hotvae.errors import ConfigError, DataError, DataWarning, listed, option
from hotvae.estimators.base import LabelClassifier
from hotvae.estimators.decisions import OBJECTIVES, check_empty
from hotvae.estimators.registry import load_model
from hotvae.estimators.thresholds import apply_thresholds
from hotvae.estimators.trust import TrustRows
from hotvae.features.rows import take
from hotvae.features.scaling import FeatureScaler
from hotvae.files import check_new_file, locked, whole_file, write_text
from hotvae.jobs.items import Each, Made
from hotvae.jobs.table_needs import TableNeeds
from hotvae.metrics import METRICS, find_metric

# Rows between which someone may look in: those of a batch of a network.
_PIECE = 256

# Rows that are read, predicted and written at a time: 100 labels of as many rows are 26 MB.
STREAM_ROWS = 65_536

OUT_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".pq")
"""Kinds of files that results are written to."""

_PARQUET = (".parquet", ".pq")
_TRUST_COLUMNS = ("dissimilarity", "inside_training", "columns_beyond")
_CALLS = ("absent", "present", "cannot tell")

# A share of rows beyond training that is worth a warning.
_MANY = 0.1


@dataclass(frozen=True)
class PredictionRun:
    """What came out of :func:`predict_table`.

    Attributes
    ----------
    files : tuple of Path
        The probabilities, and the 0/1 labels where they were wanted.
    n_rows, n_labels : int
        Their size.
    id_column : str
        Name of the first column: that of the ids, or ``"row"``.
    threshold : float or None
        Probabilities from here on became 1.
    n_given, n_rows_given : int
        Labels that were given, and the rows they are in.
    lists : BestLists or None
        What the lists are best for, where they were wanted.
    n_outside : int or None
        Rows that are unlike all training rows; None for a model that cannot tell.
    """

    files: tuple[Path, ...]
    n_rows: int
    n_labels: int
    id_column: str
    threshold: float | None = None
    n_given: int = 0
    n_rows_given: int = 0
    lists: "BestLists | None" = None
    n_outside: int | None = None


@dataclass(frozen=True)
class BestLists:
    """Which list of labels is wanted for each row.

    Attributes
    ----------
    objective : str
        What it should be best for: ``"hamming"``, ``"f1"``, ``"jaccard"``, ``"subset"``, or a measure with a tuned
        threshold.
    empty : {1, 0}
        What an empty list counts where no label is present, for F1 and Jaccard.
    n_draws : int
        Draws of whole label sets that decide where labels depend on each other.
    """

    objective: str
    empty: int = 1
    n_draws: int = 200

    def of(
        self,
        model: LabelClassifier,
        features: Any,
        given: NDArray[Any] | None = None,
        between: Callable[[], None] | None = None,
    ) -> NDArray[Any]:
        """Return the lists as 0 and 1; ``between`` as in :func:`predict_rows`."""

        def lists(rows: Any, known: NDArray[Any] | None) -> NDArray[Any]:
            return model.predict(
                rows, objective=self.objective, given=known, n_draws=self.n_draws, empty=self.empty
            ).astype("int8")

        return _in_pieces(lists, _without_names(model, features), given, between)

    def check(self, model: LabelClassifier) -> None:
        """Refuse an unknown objective before any row is read."""
        check_empty(self.empty)
        require_labels(model, "objective")
        if self.objective not in OBJECTIVES:
            known = [name for name in METRICS if METRICS[name].needs == "predictions"]
            if self.objective not in known:
                raise ConfigError(
                    f"{option('objective')} must be one of {listed(OBJECTIVES)} or a measure of predictions "
                    f"({listed(known)}); got {self.objective!r}. Choose one of them."
                )
            find_threshold(model, self.objective, None)


def predict_table(
    model_folder: str | Path,
    table: str | Path,
    out: str | Path,
    *,
    binary: str | None = None,
    threshold: float | None = None,
    lists: BestLists | None = None,
    given: str | Path | None = None,
    ignore_unknown: bool = False,
    id_column: str | None = None,
    long: str | None = None,
    sheet: str | None = None,
    encoding: str = "utf-8",
    decimal: str = ".",
    threads: int | None = None,
    trust: bool = False,
    safe_csv: bool = False,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
    each: Each | None = None,
) -> PredictionRun:
    r"""Write the probability of every label for every row of a table, behind its id and coordinates.

    Parameters
    ----------
    model_folder : path
        Folder of a trained model.
    table : path
        New rows; columns in any order.
    out : path
        File of probabilities: ``.csv``, ``.tsv`` (each also with ``.gz``) or ``.parquet``.
    binary : str, optional
        Also write 0/1 labels at the threshold tuned for this measure, to a file beside ``out``.
    threshold : float, optional
        Instead, write them at this threshold.
    lists : BestLists, optional
        Also write the list of labels of each row that is best for an objective, as 0 and 1, to a file beside ``out``.
    given : path, optional
        Table of labels that are known beforehand; see :meth:`TableNeeds.read_given`.
    ignore_unknown, id_column, long, sheet, encoding, decimal
        Options of tables; see :mod:`hotvae.jobs.table_needs`.
    threads : int, optional
        CPU threads; by default as in training.
    trust : bool
        Also write how far each row is from training, and to a file beside ``out`` which labels can be called present
        or absent.
    safe_csv : bool
        In CSV, put an apostrophe in front of names and ids that a spreadsheet would take for formulas.
    force : bool
        Replace files that are there.
    progress : callable, optional
        As in :func:`predict_stream`, which predicts from Parquet to Parquet.
    each : callable, optional
        As in :func:`predict_stream`; only from Parquet to Parquet, without ``given``.

    Raises
    ------
    ConfigError, DataError, ModelError
        A file, column or setting that does not fit.

    Examples
    --------
    >>> import tempfile
    >>> from hotvae import HotVAENetwork, Training
    >>> folder = Path(tempfile.mkdtemp())
    >>> model = HotVAENetwork(training=Training(max_epochs=1), encoder_widths=(4,))
    >>> model.fit(np.eye(8), np.eye(8)[:, :2]).save(folder / "model")
    >>> _ = (folder / "new.csv").write_text(",".join(f"feature_{i}" for i in range(8)) + "\n0,1,2,3,4,5,6,7\n")
    >>> run = predict_table(folder / "model", folder / "new.csv", folder / "probs.csv", threshold=0.5)
    >>> run.n_rows, run.id_column, [path.name for path in run.files]
    (1, 'row', ['probs.csv', 'probs_binary.csv'])
    """
    import pyarrow.parquet

    source, target = Path(table), Path(out)
    binary_out = _file_beside(target, "binary") if binary is not None or threshold is not None else None
    list_out = None if lists is None else _file_beside(target, "list")
    model = load_model(model_folder)
    watch = Watch(model, trust)
    calls_out = _file_beside(target, "calls") if trust and watch.sets is not None and given is None else None
    files = tuple(path for path in (target, binary_out, calls_out, list_out) if path is not None)
    check_out(files, force)
    if threads is not None:  # models without this setting have one thread
        model.change_settings(n_threads=threads)
    cut = find_threshold(model, binary, threshold)
    if lists is not None:
        lists.check(model)
    columns = columns_of(model)
    is_plain = given is None and long is None
    is_stream = is_plain and source.suffix.lower() in _PARQUET and target.suffix.lower() in _PARQUET
    if each is not None and not is_stream:
        raise ConfigError(
            f"a prediction on Ray must go from Parquet to Parquet, without given labels; got {source.name!r} to "
            f"{target.name!r}{'' if given is None else ' with given labels'}. Convert the table first."
        )
    if is_stream:
        n_rows = predict_stream(
            model,
            source,
            target,
            id_column=id_column,
            ignore_unknown=ignore_unknown,
            threshold=cut,
            binary_out=binary_out,
            lists=lists,
            list_out=list_out,
            calls_out=calls_out,
            watch=watch,
            progress=progress,
            each=each,
            folder=model_folder,
            threads=threads,
        )
        watch.warn()
        first = pyarrow.parquet.read_schema(target).names[0]
        return PredictionRun(files, n_rows, len(columns), first, cut, lists=lists, n_outside=watch.n_outside)
    if given is not None:
        require_labels(model, "given")
    with locked(*files):
        needs = TableNeeds.of_model(model)
        places = None
        if source.suffix.lower() == ".npz":
            features, ids = needs.read_features(source, id_column=id_column, ignore_unknown=ignore_unknown)
        else:
            rows, _, id_column = needs.by_site(
                source, long=long, id_column=id_column, encoding=encoding, decimal=decimal
            )
            frame = needs.read_rows(rows, id_column=id_column, sheet=sheet, encoding=encoding, decimal=decimal)
            features, ids = needs.features_of(
                frame, id_column=id_column, ignore_unknown=ignore_unknown, source=source.name
            )
            places = needs.places_of(frame)
        labels = None if given is None else needs.read_given(given, ids, encoding=encoding, decimal=decimal)
        probs = predict_rows(model, features, labels)
        front = watch.look(features, places)
        watch.warn()
        write_table(prediction_table(ids, probs, columns, front), target, safe=safe_csv)
        if calls_out is not None:
            write_table(prediction_table(ids, watch.calls(probs), columns, places), calls_out, safe=safe_csv)
        if cut is not None and binary_out is not None:
            write_table(
                prediction_table(ids, apply_thresholds(probs, cut).astype("int8"), columns, places),
                binary_out,
                safe=safe_csv,
            )
        if lists is not None and list_out is not None:
            write_table(
                prediction_table(ids, lists.of(model, features, labels), columns, places), list_out, safe=safe_csv
            )
    is_given = np.zeros(probs.shape, dtype=bool) if labels is None else ~np.isnan(labels)
    counts = int(is_given.sum()), int(is_given.any(axis=1).sum())
    return PredictionRun(files, len(probs), len(columns), str(ids.name), cut, *counts, lists, watch.n_outside)


class Watch:
    """Looks at rows as they are predicted: how far from training they are, and how many are too far.

    Parameters
    ----------
    model : LabelClassifier
        Fitted; without an area of applicability only values that are far out are seen.
    wanted : bool
        Whether what is seen is to be written down, in columns.
    """

    def __init__(self, model: LabelClassifier, wanted: bool) -> None:
        known = getattr(model, "trust_", None)
        self.model, self.wanted = model, wanted
        self.area = None if known is None else known.area
        self.sets = None if known is None or model.target_ != "labels" else known.sets
        # Without an area, values that are far out are seen by what scales them.
        scaler = model.features_ if self.area is None else None
        self.scaler = scaler if isinstance(scaler, FeatureScaler) and not scaler.is_sparse else None
        self.names = list(self.area.names) if self.area is not None else []
        if self.scaler is not None:
            self.names = self.scaler.numeric_names
        self.n_rows, self.n_outside = 0, None if self.area is None else 0
        self._beyond = np.zeros(len(self.names), dtype=np.int64)
        self._n_far, self._far_columns, self._first_far = 0, np.zeros_like(self._beyond), 0
        if wanted and self.area is None:
            raise ConfigError(
                "--trust must go with a model that knows its training rows; got one without. Train a table anew with "
                "hotvae train, without --recipe."
            )

    def look(self, features: Any, places: pd.DataFrame | None) -> pd.DataFrame | None:
        """Count rows, and return the columns that stand before the labels."""
        front, counts = self.count(features, places)
        self.add(counts)
        return front

    def count(self, features: Any, places: pd.DataFrame | None) -> tuple[pd.DataFrame | None, dict[str, Any]]:
        """Return the columns that stand before the labels, and what :meth:`add` takes; JSON-able."""
        if self.scaler is not None:
            return places, _far_counts(self.scaler.columns_far(features))
        if self.area is None:
            return places, {}
        ready = self.model._read(_without_names(self.model, features))
        near = self.area.judge(ready)
        seen = {
            "n_outside": int((~near.inside).sum()),
            "beyond": self.area.columns_beyond(ready).sum(axis=0).tolist(),
        }
        return self._front(near, places), seen | _far_counts(self.area.columns_far(ready))

    def add(self, counts: Mapping[str, Any]) -> None:
        """Add what was counted of the rows that follow those seen so far."""
        if not counts:
            return
        if counts["n_far"] and not self._n_far:
            self._first_far = self.n_rows + counts["first_far"]
        self._n_far += counts["n_far"]
        self._far_columns += np.array(counts["far_columns"], dtype=np.int64)
        self.n_rows += counts["n_rows"]
        if self.n_outside is None:
            return
        self.n_outside += counts["n_outside"]
        self._beyond += np.array(counts["beyond"], dtype=np.int64)

    def _front(self, near: TrustRows, places: pd.DataFrame | None) -> pd.DataFrame | None:
        if not self.wanted:
            return places
        seen = pd.DataFrame(
            {
                "dissimilarity": near.dissimilarity.astype(np.float32),
                "inside_training": near.inside.astype(np.int8),
                "columns_beyond": near.n_beyond.astype(np.int32),
            }
        )
        taken = [name for name in seen if name in {str(label) for label in self.model.label_names_}]
        if taken:
            raise DataError(f"--trust adds columns that must not be labels; got {listed(taken)}. Rename these labels.")
        return seen if places is None else pd.concat([places.reset_index(drop=True), seen], axis=1)

    def calls(self, probs: NDArray[Any]) -> NDArray[Any]:
        """Return for each cell what can be said of it, in words."""
        assert self.sets is not None  # files of calls are asked for only then
        words: NDArray[Any] = np.array(_CALLS, dtype=object)[self.sets.calls(probs)]
        return words

    def warn(self) -> None:
        """Say so where many rows are too far away, or any value is far out."""
        for sentence in self.sentences():
            warnings.warn(sentence, DataWarning, stacklevel=3)

    def far(self) -> str:
        """Name the values that are far out; empty without any."""
        if not self._n_far:
            return ""
        names = [self.names[i] for i in np.argsort(-self._far_columns, kind="stable") if self._far_columns[i]]
        return (
            f"values must be like those of training; got {self._n_far:,} of {self.n_rows:,} rows (the first: row "
            f"{self._first_far}) with values far beyond them in {listed(names)}. A code for missing, such as "
            "-9999? Leave such cells empty."
        )

    def sentences(self) -> Iterator[str]:
        """Yield what there is to be warned of."""
        if self._n_far:
            yield self.far()
        if not self.n_outside or self.area is None or self.n_outside <= _MANY * self.n_rows:
            return
        most = [self.area.names[i] for i in np.argsort(-self._beyond, kind="stable")[:3] if self._beyond[i]]
        where = f", with values beyond those of training in {listed(most)}" if most else ""
        advice = "" if self.wanted else option("trust", True, " Pass {} for columns that say which.")
        yield (
            f"rows must be like those of training to be predicted well; got {self.n_outside:,} of {self.n_rows:,} that "
            f"are unlike all of them{where}. What is said of them is a guess.{advice}"
        )


def _far_counts(far: NDArray[np.bool_]) -> dict[str, Any]:
    """Count rows with values that are far out."""
    rows: NDArray[np.bool_] = np.asarray(far.any(axis=1))
    return {
        "n_rows": len(far),
        "n_far": int(rows.sum()),
        "first_far": int(rows.argmax()) if len(far) else 0,
        "far_columns": far.sum(axis=0).tolist(),
    }


def _file_beside(out: Path, what: str) -> Path:
    """Name a file beside that of the probabilities."""
    longest_first = sorted(OUT_SUFFIXES, key=len, reverse=True)
    suffix = next((end for end in longest_first if out.name.lower().endswith(end)), "")
    stem_length = len(out.name) - len(suffix)
    return out.with_name(f"{out.name[:stem_length]}_{what}{out.name[stem_length:]}")


def check_out(paths: Iterable[Path], force: bool) -> None:
    """Refuse a wrong place for results before hours of work, not after.

    An unknown kind of file, a missing folder, or, without ``force``, a file that is there raises a ``ConfigError``.
    """
    for path in paths:
        if not path.name.lower().endswith(OUT_SUFFIXES):
            raise ConfigError(f"output must end in {', '.join(OUT_SUFFIXES)}; got {path.name!r}. Rename it.")
        if not path.parent.is_dir():
            raise ConfigError(f"output folder must exist; got {str(path.parent)!r}. Make it, or choose another.")
        check_new_file(path, force)


def require_labels(model: LabelClassifier, what: str) -> None:
    """Refuse an option that is for labels where the model knows classes."""
    if model.target_ != "labels":
        raise ConfigError(f"{option(what)} must go with a model of labels; got one of classes. Leave it out.")


def predict_rows(
    model: LabelClassifier,
    features: Any,
    given: NDArray[Any] | None = None,
    between: Callable[[], None] | None = None,
) -> NDArray[Any]:
    """Predict features, and labels given beforehand, as :class:`TableNeeds` reads them.

    Parameters
    ----------
    model : LabelClassifier
        A fitted model.
    features, given
        From :meth:`TableNeeds.features_of` and :meth:`TableNeeds.read_given`.
    between : callable, optional
        Called before each few hundred rows; what it raises ends the work.

    Raises
    ------
    DataError
        Values so large that no probability comes out.
    """
    probs = _in_pieces(model.predict_proba, _without_names(model, features), given, between)
    unknown = np.flatnonzero(~np.isfinite(probs).all(axis=1))
    if unknown.size:
        raise DataError(
            f"values must be within reach of the model; got no probability for row(s) {listed(unknown)}"
            f"{_largest(features, int(unknown[0]))}. Correct these cells, or leave them empty."
        )
    return probs


def _in_pieces(
    answer: Callable[[Any, NDArray[Any] | None], NDArray[Any]],
    features: Any,
    given: NDArray[Any] | None,
    between: Callable[[], None] | None,
) -> NDArray[Any]:
    """Answer all rows at once or, where someone wants to look in between, a few hundred at a time."""
    if between is None:
        return answer(features, given)
    parts = []
    for start in range(0, int(features.shape[0]), _PIECE):
        between()
        rows = np.arange(start, min(start + _PIECE, int(features.shape[0])))
        parts.append(answer(take(features, rows), None if given is None else given[rows]))
    return np.concatenate(parts)


def _largest(features: Any, row: int) -> str:
    """Name the largest values of a row."""
    if not isinstance(features, pd.DataFrame):
        return ""
    numbers = pd.to_numeric(features.iloc[row], errors="coerce").dropna()
    most = numbers[numbers.abs().sort_values(ascending=False, kind="stable").index[:3]]
    return f", whose largest values are {', '.join(f'{name!r} = {value:g}' for name, value in most.items())}"


def sample_rows(
    model: LabelClassifier, features: Any, n_draws: int, seed: int, given: NDArray[Any] | None = None
) -> Iterator[NDArray[Any]]:
    """Draw label sets for features as :class:`TableNeeds` reads them; blocks of (some draws, n_samples, n_labels)."""
    return model.sample_blocks(_without_names(model, features), n_draws, seed, given)


def _without_names(model: LabelClassifier, features: Any) -> Any:
    """Drop the names of columns where training knew none: they have done their work."""
    if hasattr(model, "feature_names_in_") or not isinstance(features, pd.DataFrame):
        return features
    texts = [name for name in features if not is_numeric_dtype(features[name])]
    if texts:
        raise DataError(
            f"features must be numbers for a model that was trained without names of columns; got text in "
            f"{listed(texts)}. Choose numeric columns, or train from a table with names."
        )
    return features.to_numpy()


def prediction_table(
    ids: "pd.Index[Any]", values: NDArray[Any], columns: Any, places: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Put ids, under the name of their column, and coordinates in front of predictions; refuse a label of that name."""
    names = [str(column) for column in columns]
    first = str(ids.name)
    if first in names:
        raise DataError(f"id column must not be a label; got {first!r}. Choose another with --id-column.")
    predictions = pd.DataFrame(values, columns=names)
    predictions.insert(0, first, ids.to_numpy())
    kept = [] if places is None else [str(name) for name in places if name != first and name not in names]
    for at, name in enumerate(kept, start=1):
        predictions.insert(at, name, places[name].to_numpy())  # type: ignore[index]  # there are some
    return predictions


def find_threshold(model: LabelClassifier, metric: str | None, threshold: float | None) -> float | None:
    """Choose the threshold of 0/1 predictions: one tuned for a measure, a given one, or none.

    Both, an unknown measure, or a model without thresholds raise a ``ConfigError``.
    """
    if metric is not None and threshold is not None:
        raise ConfigError(f"--binary and --threshold must not be combined; got {metric!r} and {threshold}. Keep one.")
    if threshold is not None and not 0 <= threshold <= 1:
        raise ConfigError(f"threshold must be between 0 and 1; got {threshold}. Choose a probability.")
    if metric is None:
        return threshold
    name = find_metric(metric, needs="predictions").name
    if name not in model.thresholds_:
        raise ConfigError(
            f"model must have a tuned threshold for {name}; got one trained without validation rows. "
            f"{option('threshold', 0.5, 'Pass {}') or 'Choose another'}, or train with validation rows."
        )
    return float(model.thresholds_[name])


def predict_stream(
    model: LabelClassifier,
    table: str | Path,
    out: str | Path,
    *,
    id_column: str | None = None,
    ignore_unknown: bool = False,
    threshold: float | None = None,
    binary_out: str | Path | None = None,
    lists: BestLists | None = None,
    list_out: str | Path | None = None,
    calls_out: str | Path | None = None,
    watch: Watch | None = None,
    rows_at_once: int = STREAM_ROWS,
    progress: Callable[[int, int], None] | None = None,
    each: Each | None = None,
    folder: str | Path | None = None,
    threads: int | None = None,
) -> int:
    """Predict a Parquet table of any length into another one, a piece at a time.

    Parameters
    ----------
    model : LabelClassifier
        A fitted model.
    table : path
        Parquet file; columns in any order.
    out : path
        Parquet file of probabilities; written whole or not at all.
    id_column, ignore_unknown
        As in :meth:`TableNeeds.read_features`.
    threshold : float, optional
        With ``binary_out``: probabilities above it become 1.
    binary_out : path, optional
        Parquet file of 0/1 labels.
    lists, list_out : BestLists and path, optional
        Which list of each row is wanted, and the Parquet file they go to.
    calls_out : path, optional
        Parquet file of what can be said of each label: absent, present or cannot tell.
    watch : optional
        Looks at the rows; see ``trust`` of :func:`predict_table`.
    rows_at_once : int
        Rows of a piece; memory grows with it, not with the table.
    progress : callable, optional
        Called with the number of rows done and the number of all rows, first and after each piece.
    each : callable, optional
        Makes the pieces elsewhere, such as :func:`hotvae.scale.items.each_on_ray`; by default here, one by one.
    folder, threads : path and int, optional
        With ``each``: where the model is read from there, and its threads.

    Returns
    -------
    int
        Number of rows.

    Raises
    ------
    DataError
        As in :meth:`TableNeeds.read_features`, or a table that cannot be read.

    Notes
    -----
    Finished pieces wait in a folder beside ``out``; a run that was killed goes on after the last of them if model,
    table and settings are the same, and starts afresh if not.
    """
    import pyarrow
    import pyarrow.parquet

    source, target = Path(table), Path(out)
    with foreign_bytes(source):
        file = pyarrow.parquet.ParquetFile(source)
    outs = [Path(path) for path in (out, binary_out, list_out, calls_out) if path is not None]
    with file, locked(*outs), ExitStack() as stack:
        n_rows = file.metadata.num_rows
        if n_rows == 0:
            raise DataError(f"table must have at least 1 row; got 0 rows in {str(source)!r}. Check the file.")
        parts = target.with_name(f".{target.name}.parts")
        wanted = None if watch is None else watch.wanted
        model_folder = None if folder is None else Path(folder)
        order = PieceOrder(source, parts, id_column, ignore_unknown, lists, wanted, rows_at_once, model_folder, threads)
        told = asdict(replace(order, table=Path(), parts=Path(), folder=None, threads=None))
        settings = [told, threshold, binary_out is not None, TableNeeds.of_model(model).features]
        stack.enter_context(_waiting_pieces(parts, _stream_identity(model, source, settings)))
        finished = [order.path(number) for number in range(-(-n_rows // rows_at_once))]
        missing = [number for number, piece in enumerate(finished) if not piece.exists()]
        n_done = len(finished) - len(missing)
        if progress is not None:
            progress(min(n_done * rows_at_once, n_rows), n_rows)
        for _ in map(PieceWork(order, model), missing) if each is None else each(order, missing):
            n_done += 1
            if progress is not None:
                progress(min(n_done * rows_at_once, n_rows), n_rows)
        columns = columns_of(model)
        for piece in finished:
            if watch is not None:
                watch.add(json.loads(piece.with_suffix(".json").read_text(encoding="utf-8")))
        _join_parts(finished, target, None, len(columns))
        if binary_out is not None and threshold is not None:
            cut = threshold
            _join_parts(
                finished, Path(binary_out), lambda probs: apply_thresholds(probs, cut).astype("int8"), len(columns)
            )
        if calls_out is not None and watch is not None:
            _join_parts(finished, Path(calls_out), watch.calls, len(columns))
        if lists is not None and list_out is not None:
            own = [part.with_suffix(".list.parquet") for part in finished]
            _join_parts(own, Path(list_out), None, len(columns))
    return int(n_rows)


@dataclass(frozen=True)
class PieceOrder:
    """All that makes the pieces of a prediction, to be sent elsewhere.

    Attributes
    ----------
    table, parts : Path
        Where rows come from, and the folder of the pieces.
    id_column, ignore_unknown, lists, rows_at_once
        As in :func:`predict_stream`.
    watched : bool or None
        Whether columns of trust are wanted; None where nobody counts rows.
    folder : Path, optional
        Of the model, which is read where pieces are made.
    threads : int, optional
        CPU threads of the model.
    """

    table: Path
    parts: Path
    id_column: str | None
    ignore_unknown: bool
    lists: BestLists | None
    watched: bool | None
    rows_at_once: int
    folder: Path | None = None
    threads: int | None = None

    def path(self, number: int) -> Path:
        """Return the file of a piece."""
        return self.parts / f"{number:06d}.parquet"

    def open(self) -> "PieceWork":
        """Read the model."""
        assert self.folder is not None  # whoever sends it names the model
        model = load_model(self.folder)
        if self.threads is not None:
            model.change_settings(n_threads=self.threads)
        return PieceWork(self, model)


class PieceWork:
    """Predicts pieces of a table, and writes each to its file.

    Parameters
    ----------
    order : PieceOrder
        What is wanted.
    model : LabelClassifier
        A fitted model.
    """

    def __init__(self, order: PieceOrder, model: LabelClassifier) -> None:
        self.order, self.model, self.needs = order, model, TableNeeds.of_model(model)
        self.watch = None if order.watched is None else Watch(model, order.watched)
        with foreign_bytes(order.table):
            self.reader = _PieceReader(order.table, order.rows_at_once)

    def __call__(self, number: int) -> Made:
        """Make a piece: what goes with it first, so that a piece that is there is complete."""
        order, model, columns = self.order, self.model, columns_of(self.model)
        path = order.path(number)
        with foreign_bytes(order.table):
            rows = self.reader.read(number)
        features, ids = self.needs.features_of(
            rows,
            id_column=order.id_column,
            ignore_unknown=order.ignore_unknown,
            source=order.table.name,
            first_row=number * order.rows_at_once,
        )
        front = places = self.needs.places_of(rows)
        if self.watch is not None:
            seen, counts = self.watch.count(features, places)
            front = places if seen is None else seen
            write_text(path.with_suffix(".json"), json.dumps(counts))
        if order.lists is not None:
            lists = prediction_table(ids, order.lists.of(model, features), columns, places)
            write_table(lists, path.with_suffix(".list.parquet"))
        write_table(prediction_table(ids, predict_rows(model, features), columns, front), path)
        return Made.of(path)


class _PieceReader:
    """Reads pieces of as many rows from a Parquet file, whatever its row groups; fastest in their order."""

    def __init__(self, path: Path, rows_at_once: int) -> None:
        import pyarrow.parquet

        self.file, self.rows_at_once = pyarrow.parquet.ParquetFile(path), rows_at_once
        found = self.file.metadata
        self.ends = np.cumsum([found.row_group(number).num_rows for number in range(found.num_row_groups)])
        self._go_to(0)

    def _go_to(self, group: int) -> None:
        """Begin to read at a row group."""
        groups = list(range(group, len(self.ends)))
        self.batches = self.file.iter_batches(batch_size=self.rows_at_once, row_groups=groups)
        self.at = int(self.ends[group - 1]) if group else 0
        self.waiting: list[Any] = []

    def read(self, number: int) -> pd.DataFrame:
        """Return the rows of a piece."""
        import pyarrow

        start = number * self.rows_at_once
        size = min(self.rows_at_once, int(self.ends[-1]) - start)
        group = int(np.searchsorted(self.ends, start, side="right"))
        n_waiting = sum(batch.num_rows for batch in self.waiting)
        if start < self.at or (group and self.ends[group - 1] > self.at + n_waiting):
            self._go_to(group)
            n_waiting = 0
        while self.at + n_waiting < start + size:
            batch = next(self.batches)
            if self.at + n_waiting + batch.num_rows <= start:  # all before the piece
                self.at, self.waiting, n_waiting = self.at + n_waiting + batch.num_rows, [], 0
                continue
            self.waiting.append(batch)
            n_waiting += batch.num_rows
        whole = pyarrow.Table.from_batches(self.waiting)
        skipped = start - self.at
        self.waiting, self.at = whole.slice(skipped + size).to_batches(), start + size
        return checked_frame(whole.slice(skipped, size))


def columns_of(model: LabelClassifier) -> NDArray[Any]:
    """Return the names of the columns of a prediction: labels or classes."""
    names: NDArray[Any] = model.label_names_ if model.target_ == "labels" else model.classes_
    return names


def _stream_identity(model: LabelClassifier, source: Path, settings: list[Any]) -> str:
    """Tell runs apart: pieces of another model, table or setting must not be joined with these."""
    notes, tensors = model._learned()
    digest = hashlib.sha256(json.dumps([notes, model.features_.state(), settings], default=str).encode())
    for name in sorted(tensors):
        digest.update(np.ascontiguousarray(tensors[name].detach().cpu().numpy()).tobytes())
    stat = source.stat()
    digest.update(f"{source.resolve()} {stat.st_size} {stat.st_mtime_ns}".encode())
    return digest.hexdigest()


@contextmanager
def _waiting_pieces(parts: Path, identity: str) -> Iterator[None]:
    """Keep finished pieces in a folder until they are joined, or a table that cannot be read makes them useless."""
    note = parts / "identity"
    if parts.exists() and not (note.is_file() and note.read_bytes() == identity.encode()):
        shutil.rmtree(parts)
    if not parts.exists():
        parts.mkdir()
        write_text(note, identity)
    try:
        yield
    except DataError:
        shutil.rmtree(parts, ignore_errors=True)
        raise
    shutil.rmtree(parts)


def _join_parts(
    parts: list[Path], target: Path, change: Callable[[NDArray[Any]], NDArray[Any]] | None, n_labels: int
) -> None:
    """Write pieces one after the other into a file beside the target, then move it there.

    ``change`` turns probabilities into what is written of them; columns of trust then stay behind.
    """
    import pyarrow
    import pyarrow.parquet

    with whole_file(target) as unfinished:
        writer = None
        try:
            for part in parts:
                piece = pyarrow.parquet.read_table(part)
                if change is not None:
                    frame = piece.to_pandas()
                    labels = list(frame.columns[-n_labels:])
                    others = [name for name in frame.columns[:-n_labels] if name not in _TRUST_COLUMNS]
                    changed = pd.DataFrame(change(frame[labels].to_numpy()), columns=labels)
                    piece = pyarrow.Table.from_pandas(pd.concat([frame[others], changed], axis=1), preserve_index=False)
                writer = writer or pyarrow.parquet.ParquetWriter(unfinished, piece.schema)
                writer.write_table(piece)
        finally:
            if writer is not None:
                writer.close()
