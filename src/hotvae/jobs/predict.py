"""A saved model on new tables: which columns it needs, and predictions of files of any length."""

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from hotvae.data.dataset import Dataset, FeatureKind, check_finite, close_names
from hotvae.data.frames import read_frame, write_table
from hotvae.data.tables import align_columns, check_kinds, dataset_from_frame, read_features, read_table
from hotvae.errors import ConfigError, DataError, DataWarning, listed
from hotvae.estimators.base import LabelClassifier
from hotvae.estimators.thresholds import apply_thresholds
from hotvae.metrics import find_metric

# Rows that are read, predicted and written at a time: 100 labels of as many rows are 26 MB.
STREAM_ROWS = 65_536


@dataclass(frozen=True)
class TableNeeds:
    """The columns a model needs of a table, and those it passes over.

    Attributes
    ----------
    features, labels : list of str
        Columns by name, in the order of the model.
    kinds : list of {"numeric", "categorical"}
        Kind of each feature in training.
    ignored : frozenset of str
        Columns of the training table that are no features.
    dropped : list of str
        Names and globs of columns that were left out of training.
    id_column : str or None
        Ids of the rows.
    presence : bool
        Labels are counts.
    is_sparse : bool
        The model takes sparse features.

    Examples
    --------
    >>> from hotvae import HotVAEClassifier
    >>> model = HotVAEClassifier(max_epochs=1, encoder_widths=(4,)).fit(np.eye(8), np.eye(8)[:, :2])
    >>> TableNeeds.of_model(model).labels
    ['label_0', 'label_1']
    """

    features: list[str]
    kinds: list[FeatureKind]
    labels: list[str]
    ignored: frozenset[str] = frozenset()
    dropped: tuple[str, ...] = ()
    id_column: str | None = None
    presence: bool = False
    is_sparse: bool = False

    @classmethod
    def of_card(cls, card: Mapping[str, Any], is_sparse: bool) -> "TableNeeds":
        """Read what :func:`train_on_table` noted of its table."""
        others = [*card["coordinates"], card["groups"], card["id_column"]]
        return cls(
            features=card["feature_names"],
            kinds=card["feature_kinds"],
            labels=card["labels"],
            ignored=frozenset([*card["labels"], *card["dropped_labels"], *filter(None, others)]),
            dropped=tuple(card["dropped_columns"]),
            id_column=card["id_column"],
            presence=card["presence"],
            is_sparse=is_sparse,
        )

    @classmethod
    def of_model(cls, model: LabelClassifier) -> "TableNeeds":
        """Read the notes of a model; one saved from Python has none, and knows its own columns only."""
        card, scaler = model_card(model), model.scaler_
        if "feature_names" in card:
            return cls.of_card(card, getattr(scaler, "is_sparse", False))
        labels = [str(name) for name in model.label_names_]
        return cls(
            list(scaler.feature_names_in),
            list(scaler.kinds),
            labels,
            ignored=frozenset(labels),
            is_sparse=getattr(scaler, "is_sparse", False),
        )

    def read_features(
        self,
        table: str | Path,
        *,
        id_column: str | None = None,
        ignore_unknown: bool = False,
        encoding: str = "utf-8",
        decimal: str = ".",
    ) -> "tuple[pd.DataFrame | sparse.csr_array, pd.Index[Any]]":
        """Read the features, in the order and form of training, and the ids of the rows (or their numbers).

        Parameters
        ----------
        table : path
            Any table; columns in any order.
        id_column : str, optional
            Ids of the rows; by default the column of training if it is there.
        ignore_unknown : bool
            Pass over columns that training did not know.
        encoding, decimal : str
            Of text files.

        Returns
        -------
        features : DataFrame or csr_array
        ids : Index
            Named after its column, or ``"row"``.

        Raises
        ------
        DataError
            Missing, unknown or infinite columns, or text instead of numbers.
        """
        source, wanted_id = Path(table), id_column or self.id_column
        if source.suffix.lower() != ".npz":
            kinds = zip(self.features, self.kinds, strict=True)
            as_text = [name for name, kind in kinds if kind == "categorical"] + [wanted_id or ""]
            frame = read_frame(source, encoding=encoding, decimal=decimal, text_columns=as_text)
            return self.features_of(frame, id_column=id_column, ignore_unknown=ignore_unknown, source=source.name)
        features: Any = read_features(
            source,
            feature_names=self.features,
            kinds=self.kinds,
            ignore=(self.ignored | {wanted_id or ""}) - set(self.features),
            ignore_unknown=ignore_unknown,
            id_column=wanted_id,
        )
        ids: pd.Index[Any] | None = None
        if wanted_id is not None and isinstance(features, pd.DataFrame):
            ids, features = features.index, features.reset_index(drop=True)
        features = self._in_form(features)
        check_finite(features, self.features)
        return features, pd.RangeIndex(int(features.shape[0]), name="row") if ids is None else ids

    def features_of(
        self,
        frame: pd.DataFrame,
        *,
        id_column: str | None = None,
        ignore_unknown: bool = False,
        source: str = "table",
        first_row: int = 0,
    ) -> "tuple[pd.DataFrame | sparse.csr_array, pd.Index[Any]]":
        """Take the features, in the order and form of training, out of a frame, and the ids of its rows.

        Parameters
        ----------
        frame : DataFrame
            Rows of a table; columns in any order.
        id_column, ignore_unknown
            As in :meth:`read_features`.
        source : str
            Name of the table, for messages.
        first_row : int
            Number of the first row, where the frame is a piece of a longer table without ids.

        Returns
        -------
        features : DataFrame or csr_array
        ids : Index

        Raises
        ------
        DataError
            As in :meth:`read_features`.
        """
        wanted_id = id_column or self.id_column
        columns = [str(column) for column in frame.columns]
        ids: pd.Index[Any] = pd.RangeIndex(first_row, first_row + len(frame), name="row")
        if wanted_id in columns:
            ids = pd.Index(frame[wanted_id].astype("str"), name=wanted_id)
        elif id_column is not None:
            raise DataError(f"id column must be in the table; got {id_column!r} ({source}). Check the spelling.")
        ignored = (self.ignored | {wanted_id or ""}) - set(self.features)
        ignored |= {name for name in columns if any(fnmatchcase(name, drop) for drop in self.dropped)}
        aligned = align_columns(frame, self.features, ignore=ignored, ignore_unknown=ignore_unknown)
        check_kinds(aligned, self.kinds)
        features = self._in_form(aligned)
        check_finite(features, self.features)
        return features, ids

    def _in_form(self, features: Any) -> Any:
        if self.is_sparse and isinstance(features, pd.DataFrame):
            columns: Any = features.astype(pd.SparseDtype("float64", 0.0))
            return sparse.csr_array(columns.sparse.to_coo())
        if not self.is_sparse and not isinstance(features, pd.DataFrame):
            return pd.DataFrame(features.toarray(), columns=self.features)
        return features

    def read_labels(
        self,
        table: str | Path,
        *,
        label_table: str | Path | None = None,
        id_column: str | None = None,
        presence: bool = False,
        encoding: str = "utf-8",
        decimal: str = ".",
    ) -> NDArray[np.float32]:
        """Read the labels, in the order of the model.

        Parameters
        ----------
        table : path
            Table of the rows.
        label_table : path, optional
            Second table with the labels, joined by the id column.
        id_column : str, optional
            Ids of the rows; by default the column of training.
        presence : bool
            Take any count above 0 as 1; always when training did.
        encoding, decimal : str
            Of text files.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)

        Raises
        ------
        DataError
            Labels that are missing, not 0 or 1, or cannot be joined.
        """
        source, presence = Path(table), presence or self.presence
        if source.suffix.lower() == ".npz":
            data = read_table(source, label_table=label_table, labels=self.labels, presence=presence)
        else:
            joined_by = None if label_table is None else id_column or self.id_column
            reading: Any = {"encoding": encoding, "decimal": decimal, "text_columns": [joined_by or ""]}
            frame = read_frame(source, **reading)
            labels = None if label_table is None else read_frame(label_table, **reading)
            columns = [str(name) for name in (frame if labels is None else labels)]
            missing = [name for name in self.labels if name not in columns]
            if missing:
                others = [name for name in columns if name not in self.labels]
                raise DataError(
                    f"table must hold every label of the model; got none for {listed(missing)}"
                    f"{close_names(missing, others)} "
                    f"({Path(label_table or source).name}). Add these columns "
                    "(empty cells are not observed), or pass --label-table."
                )
            # Features are read by the rules of prediction; here they would only be in the way.
            kept = [name for name in frame if name in (self.labels if labels is None else [joined_by])]
            data = _only_labels(
                frame[kept], labels=self.labels, label_frame=labels, id_column=joined_by, presence=presence
            )
        order = [data.label_names.index(name) for name in self.labels]
        return np.asarray(data.labels[:, order], dtype=np.float32)

    def read_known(
        self,
        seen: str | Path,
        ids: "pd.Index[Any]",
        *,
        presence: bool = False,
        encoding: str = "utf-8",
        decimal: str = ".",
    ) -> NDArray[np.float32]:
        """Read labels that are known beforehand, for :meth:`~hotvae.HotVAEClassifier.predict_proba` to be given.

        Parameters
        ----------
        seen : path
            Table with any of the label columns: 1 present, 0 absent, empty unknown. Labels without a column are
            unknown; features and other columns of the training table are passed over.
        ids : Index
            Ids of the rows to predict, as :meth:`read_features` returned them. Where ``seen`` has their column its
            rows are joined by it, and rows that it does not name have nothing known; else its rows are those to
            predict, in their order.
        presence : bool
            Take any count above 0 as 1; always when training did.
        encoding, decimal : str
            Of text files.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            1, 0, or NaN for unknown.

        Raises
        ------
        DataError
            Unknown columns, labels that are not 0 or 1, or rows that cannot be joined.
        """
        source, id_column = Path(seen), str(ids.name)
        frame = read_frame(source, encoding=encoding, decimal=decimal, text_columns=[id_column])
        columns = [str(name) for name in frame.columns]
        frame = frame.set_axis(columns, axis=1)
        is_joined = id_column in columns and id_column not in {*self.labels, *self.features}
        labels = [name for name in self.labels if name in columns]
        passed_over = {*self.features, *self.ignored, *([id_column] if is_joined else [])}
        unknown = [name for name in columns if name not in {*labels, *passed_over}]
        if unknown or not labels:
            names, what = (unknown, "unknown column(s)") if unknown else (columns, "none of them among")
            raise DataError(
                f"known labels must be in columns named as in training; got {what} {listed(names)}"
                f"{close_names(names, self.labels)} ({source.name}). Correct or remove them; "
                "ids are joined by --id-column."
            )
        rows = np.arange(len(frame))
        if is_joined:
            rows = _rows_of_ids(frame[id_column], ids, source.name)
        elif len(frame) != len(ids):
            raise DataError(
                f"known labels must have the rows of the table, {len(ids)}; got {len(frame)} ({source.name}). "
                "Add the missing rows with empty cells, or give both tables an id column (--id-column)."
            )
        known = np.full((len(ids), len(self.labels)), np.nan, dtype=np.float32)
        told = [name for name in labels if frame[name].notna().any()]
        if told:
            data = _only_labels(frame[told], labels=told, presence=presence or self.presence)
            values = np.asarray(data.labels, dtype=np.float32)
            places = [self.labels.index(name) for name in data.label_names]
            known[:, places] = np.where((rows >= 0)[:, None], values[rows], np.nan)
        return known


def _only_labels(frame: pd.DataFrame, **roles: Any) -> Dataset:
    """Read labels by the rules of training tables, from a frame without features."""
    numbered = frame.assign(**{"(row)": np.arange(len(frame))})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # the numbers of a single row are constant
        return dataset_from_frame(numbered, **roles)


def _rows_of_ids(column: "pd.Series[Any]", ids: "pd.Index[Any]", source: str) -> NDArray[np.intp]:
    """Find the row of a second table for each id; -1 where it has none."""
    there, wanted = pd.Index(column.astype("str")), ids.astype("str")
    for what, index in (("table", wanted), (source, there)):
        if not index.is_unique:
            raise DataError(
                f"ids must be unique to join tables; got {listed(index[index.duplicated()].unique())} more than once "
                f"(column {str(ids.name)!r} of the {what}). Merge or remove the repeated rows."
            )
    strangers = there.difference(wanted, sort=False)
    if len(strangers):
        raise DataError(
            f"ids of known labels must be in the table; got {listed(strangers)}{close_names(strangers, wanted)} "
            f"(column {str(ids.name)!r} of {source}). Correct these ids, or remove their rows."
        )
    return np.asarray(there.get_indexer(wanted), dtype=np.intp)


def model_card(model: LabelClassifier) -> dict[str, Any]:
    """Return what :func:`train_on_table` noted; empty for a model saved from Python without notes.

    Examples
    --------
    >>> from hotvae import HotVAEClassifier
    >>> model_card(HotVAEClassifier())
    {}
    """
    return dict(getattr(model, "extra_", None) or {})


def predict_rows(model: LabelClassifier, features: Any, given: NDArray[Any] | None = None) -> NDArray[Any]:
    """Predict features that :meth:`TableNeeds.read_features` read.

    Parameters
    ----------
    model : LabelClassifier
        A fitted model.
    features : DataFrame or csr_array
        Columns of the model, in its order.
    given : ndarray of shape (n_samples, n_labels), optional
        Known labels, as :meth:`TableNeeds.read_known` reads them.

    Returns
    -------
    ndarray of shape (n_samples, n_labels)
        Probabilities.

    Examples
    --------
    >>> from hotvae import HotVAEClassifier
    >>> model = HotVAEClassifier(max_epochs=1, encoder_widths=(4,)).fit(np.eye(8), np.eye(8)[:, :2])
    >>> predict_rows(model, pd.DataFrame(np.eye(8), columns=TableNeeds.of_model(model).features)).shape
    (8, 2)
    """
    return model.predict_proba(_without_names(model, features), given)


def sample_rows(model: LabelClassifier, features: Any, n_draws: int, seed: int) -> Iterator[NDArray[Any]]:
    """Draw label sets for features that :meth:`TableNeeds.read_features` read.

    Parameters
    ----------
    model, features
        As in :func:`predict_rows`.
    n_draws : int
        Label sets for each row.
    seed : int
        Decides the draws.

    Yields
    ------
    ndarray of shape (some draws, n_samples, n_labels)
        0 and 1.

    Examples
    --------
    >>> from hotvae import HotVAEClassifier
    >>> model = HotVAEClassifier(max_epochs=1, encoder_widths=(4,)).fit(np.eye(8), np.eye(8)[:, :2])
    >>> table = pd.DataFrame(np.eye(8), columns=TableNeeds.of_model(model).features)
    >>> sum(len(block) for block in sample_rows(model, table, 10, seed=0))
    10
    """
    return model.sample_blocks(_without_names(model, features), n_draws, seed)


def _without_names(model: LabelClassifier, features: Any) -> Any:
    """Drop the names of columns where training knew none: they have done their work."""
    is_named = hasattr(model, "feature_names_in_")
    return features.to_numpy() if isinstance(features, pd.DataFrame) and not is_named else features


def prediction_table(ids: "pd.Index[Any]", values: NDArray[Any], columns: Any) -> pd.DataFrame:
    """Put ids in front of predictions.

    Parameters
    ----------
    ids : Index
        Ids of the rows, with the name of their column.
    values : ndarray of shape (n_samples, n_labels)
        Probabilities, or 0 and 1.
    columns : sequence
        Names of the labels.

    Returns
    -------
    DataFrame

    Raises
    ------
    DataError
        An id column that is called like a label.

    Examples
    --------
    >>> prediction_table(pd.RangeIndex(1, name="row"), np.array([[0.5]]), ["wren"])
       row  wren
    0    0   0.5
    """
    names = [str(column) for column in columns]
    first = str(ids.name)
    if first in names:
        raise DataError(f"id column must not be a label; got {first!r}. Choose another with --id-column.")
    predictions = pd.DataFrame(values, columns=names)
    predictions.insert(0, first, ids.to_numpy())
    return predictions


def find_threshold(model: LabelClassifier, metric: str | None, threshold: float | None) -> float | None:
    """Choose the threshold of 0/1 predictions: one tuned for a measure, a given one, or none.

    Parameters
    ----------
    model : LabelClassifier
        With thresholds tuned on its validation rows.
    metric : str or None
        A measure of predictions.
    threshold : float or None
        A threshold of one's own.

    Returns
    -------
    float or None

    Raises
    ------
    ConfigError
        Both given, an unknown measure, or a model without thresholds.

    Examples
    --------
    >>> from hotvae import HotVAEClassifier
    >>> find_threshold(HotVAEClassifier(), None, 0.3)
    0.3
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
            "Pass --threshold 0.5, or train with validation rows."
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
    rows_at_once: int = STREAM_ROWS,
    progress: Callable[[int, int], None] | None = None,
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
    rows_at_once : int
        Rows of a piece; memory grows with it, not with the table.
    progress : callable, optional
        Told the number of rows done and the number of all rows after each piece.

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

    Examples
    --------
    >>> import tempfile
    >>> from hotvae import HotVAEClassifier
    >>> model = HotVAEClassifier(max_epochs=1, encoder_widths=(4,)).fit(np.eye(8), np.eye(8)[:, :2])
    >>> folder = Path(tempfile.mkdtemp())
    >>> columns = TableNeeds.of_model(model).features
    >>> pd.DataFrame(np.zeros((5, 8)), columns=columns).to_parquet(folder / "new.parquet")
    >>> predict_stream(model, folder / "new.parquet", folder / "probs.parquet", rows_at_once=2)
    5
    >>> pd.read_parquet(folder / "probs.parquet").shape
    (5, 3)
    """
    import pyarrow
    import pyarrow.parquet

    source, target = Path(table), Path(out)
    try:
        file = pyarrow.parquet.ParquetFile(source)
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"table must be a readable Parquet file; got {str(source)!r} ({error}). Check it.") from error
    with file:
        n_rows = file.metadata.num_rows
        if n_rows == 0:
            raise DataError(f"table must have at least 1 row; got 0 rows in {str(source)!r}. Check the file.")
        needs = TableNeeds.of_model(model)
        parts = target.with_name(f".{target.name}.parts")
        settings = [id_column, ignore_unknown, threshold, binary_out is not None, rows_at_once, needs.features]
        _open_parts(parts, _stream_identity(model, source, settings))
        columns = model.label_names_ if model.target_ == "labels" else model.classes_
        n_parts = -(-n_rows // rows_at_once)
        for number, frame in enumerate(_pieces(file, rows_at_once)):
            piece = parts / f"{number:06d}.parquet"
            start = number * rows_at_once
            if not piece.exists():
                features, ids = needs.features_of(
                    frame(), id_column=id_column, ignore_unknown=ignore_unknown, source=source.name, first_row=start
                )
                write_table(prediction_table(ids, predict_rows(model, features), columns), piece)
            if progress is not None:
                progress(min(start + rows_at_once, n_rows), n_rows)
    finished = [parts / f"{number:06d}.parquet" for number in range(n_parts)]
    _join_parts(finished, target, None)
    if binary_out is not None and threshold is not None:
        _join_parts(finished, Path(binary_out), threshold)
    shutil.rmtree(parts)
    return int(n_rows)


def _pieces(file: Any, rows_at_once: int) -> Iterator[Callable[[], pd.DataFrame]]:
    """Cut a Parquet file into frames of as many rows, whatever its row groups; each is built when it is asked for."""
    import pyarrow

    waiting: list[Any] = []
    n_waiting = 0
    for batch in file.iter_batches(batch_size=rows_at_once):
        waiting.append(batch)
        n_waiting += batch.num_rows
        while n_waiting >= rows_at_once:
            whole = pyarrow.Table.from_batches(waiting)
            piece, rest = whole.slice(0, rows_at_once), whole.slice(rows_at_once)
            yield piece.to_pandas
            waiting, n_waiting = rest.to_batches(), rest.num_rows
    if n_waiting:
        yield pyarrow.Table.from_batches(waiting).to_pandas


def _stream_identity(model: LabelClassifier, source: Path, settings: list[Any]) -> str:
    """Tell runs apart: pieces of another model, table or setting must not be joined with these."""
    notes, tensors = model._learned()
    digest = hashlib.sha256(json.dumps([notes, model.scaler_.state(), settings], default=str).encode())
    for name in sorted(tensors):
        digest.update(np.ascontiguousarray(tensors[name].detach().cpu().numpy()).tobytes())
    stat = source.stat()
    digest.update(f"{source.resolve()} {stat.st_size} {stat.st_mtime_ns}".encode())
    return digest.hexdigest()


def _open_parts(parts: Path, identity: str) -> None:
    note = parts / "identity"
    if parts.exists() and not (note.is_file() and note.read_text(encoding="utf-8") == identity):
        shutil.rmtree(parts)
    if not parts.exists():
        parts.mkdir()
        note.write_text(identity, encoding="utf-8")


def _join_parts(parts: list[Path], target: Path, threshold: float | None) -> None:
    """Write pieces one after the other into a file beside the target, then move it there."""
    import pyarrow
    import pyarrow.parquet

    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        writer = None
        try:
            for part in parts:
                piece = pyarrow.parquet.read_table(part)
                if threshold is not None:
                    frame = piece.to_pandas()
                    cut = apply_thresholds(frame.iloc[:, 1:].to_numpy(), threshold).astype("int8")
                    frame = pd.DataFrame(cut, columns=frame.columns[1:]).assign(**{frame.columns[0]: frame.iloc[:, 0]})
                    piece = pyarrow.Table.from_pandas(frame[piece.column_names], preserve_index=False)
                writer = writer or pyarrow.parquet.ParquetWriter(partial, piece.schema)
                writer.write_table(piece)
        finally:
            if writer is not None:
                writer.close()
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
