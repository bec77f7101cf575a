"""The columns that a saved model needs of a table, and how they are read.

Options of tables, here and in the jobs that read them: ``id_column`` has the ids of the rows, by default the column of
training if it is there; ``label_table`` is a second table with the labels, joined by the ids; ``presence`` takes any
count above 0 as 1, always when training did; ``ignore_unknown`` passes over columns that training did not know;
``encoding`` and ``decimal`` are those of text files. ``long`` names the columns of a table that has a row a record, and
``sites`` the table of visited sites (:func:`hotvae.read_table`). Tables that do not fit raise a ``DataError``.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from hotvae.data.aligned import align_columns, check_kinds, read_features
from hotvae.data.columns import row_ids
from hotvae.data.dataset import Dataset, FeatureKind, check_finite, close_names
from hotvae.data.frames import read_frame
from hotvae.data.label_cells import label_table
from hotvae.data.long import AUTO
from hotvae.data.tables import dataset_from_frame, is_archive, read_long, read_table
from hotvae.errors import DataError, DataWarning, ModelError, listed, option
from hotvae.estimators.base import LabelClassifier
from hotvae.features.columns import ColumnPlan


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
    unused : frozenset of str
        Features that the model found nothing to learn from, such as identifiers; a table need not have them.
    places : tuple of str
        Coordinates of training; predictions keep them.
    """

    features: list[str]
    kinds: list[FeatureKind]
    labels: list[str]
    ignored: frozenset[str] = frozenset()
    dropped: tuple[str, ...] = ()
    id_column: str | None = None
    presence: bool = False
    is_sparse: bool = False
    unused: frozenset[str] = frozenset()
    places: tuple[str, ...] = ()

    @classmethod
    def of_card(cls, card: Mapping[str, Any], is_sparse: bool) -> "TableNeeds":
        """Read what :func:`train_on_table` noted of its table."""
        try:
            return cls._of_notes(card, is_sparse)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _no_notes(f"{type(error).__name__}: {error}") from error

    @classmethod
    def _of_notes(cls, card: Mapping[str, Any], is_sparse: bool) -> "TableNeeds":
        texts = [*card["coordinates"], *card["feature_names"], *card["labels"], *card["dropped_columns"]]
        texts += filter(None, [card["groups"], card["id_column"]])
        if not all(isinstance(text, str) for text in texts) or len(card["feature_names"]) != len(card["feature_kinds"]):
            raise ValueError("names must be texts, one kind each")
        if len(card["coordinates"]) not in (0, 2):
            raise ValueError(f"coordinates must be two columns, not {len(card['coordinates'])}")
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
            places=tuple(card["coordinates"]),
        )

    @classmethod
    def of_model(cls, model: LabelClassifier) -> "TableNeeds":
        """Read the notes of a model; one saved from Python has none, and knows its own columns only."""
        card, scaler = model_card(model), model.features_
        unused: frozenset[str] = frozenset(scaler.left_out) if isinstance(scaler, ColumnPlan) else frozenset()
        if "feature_names" in card:
            if [str(name) for name in getattr(model, "feature_names_in_", card["feature_names"])] != card[
                "feature_names"
            ]:
                raise _no_notes("its columns are others")
            return replace(cls.of_card(card, getattr(scaler, "is_sparse", False)), unused=unused)
        labels = [str(name) for name in model.label_names_]
        return cls(
            list(scaler.feature_names_in),
            list(scaler.kinds_in if isinstance(scaler, ColumnPlan) else scaler.kinds),
            labels,
            ignored=frozenset(labels),
            is_sparse=getattr(scaler, "is_sparse", False),
            unused=unused,
        )

    def read_rows(
        self,
        table: str | Path | pd.DataFrame,
        *,
        id_column: str | None = None,
        sheet: str | None = None,
        encoding: str = "utf-8",
        decimal: str = ".",
    ) -> pd.DataFrame:
        """Read a table that is no npz, categories and ids as text."""
        kinds = zip(self.features, self.kinds, strict=True)
        as_text = [name for name, kind in kinds if kind == "categorical"] + [id_column or self.id_column or ""]
        return read_frame(table, sheet=sheet, encoding=encoding, decimal=decimal, text_columns=as_text)

    def by_site(
        self,
        table: str | Path | pd.DataFrame,
        *,
        long: str | None = None,
        sites: str | Path | None = None,
        label_table: str | Path | None = None,
        id_column: str | None = None,
        encoding: str = "utf-8",
        decimal: str = ".",
    ) -> tuple[str | Path | pd.DataFrame, str | Path | pd.DataFrame | None, str | None]:
        """Turn records, of a long table or a Darwin Core archive, into rows of sites and a table of their labels.

        Returns
        -------
        rows, label_table : path or DataFrame
            One row a site; as they came where the table has no records.
        id_column : str or None
            Column that joins them.
        """
        if long is None and sites is None and not is_archive(table):
            return table, label_table, id_column
        return read_long(
            table,
            long=long or AUTO,
            sites=sites,
            label_table=label_table,
            id_column=id_column,
            features=[*self.features, *self.places],
            labels=self.labels,
            encoding=encoding,
            decimal=decimal,
        )

    def places_of(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the coordinates of the rows of a table: those of training, or those of a vector file."""
        own = frame.attrs.get("coordinates", ())
        names = [name for name in (self.places or own) if name in frame]
        return frame[names].reset_index(drop=True)

    def read_features(
        self,
        table: str | Path | pd.DataFrame,
        *,
        id_column: str | None = None,
        ignore_unknown: bool = False,
        sheet: str | None = None,
        encoding: str = "utf-8",
        decimal: str = ".",
    ) -> "tuple[pd.DataFrame | sparse.csr_array, pd.Index[Any]]":
        """Read the features, in the order and form of training, and the ids of the rows.

        Columns of the table may have any order; ids are named after their column, or are row numbers named ``"row"``.
        """
        wanted_id = id_column or self.id_column
        if isinstance(table, pd.DataFrame) or Path(table).suffix.lower() != ".npz":
            frame = self.read_rows(table, id_column=id_column, sheet=sheet, encoding=encoding, decimal=decimal)
            name = "table" if isinstance(table, pd.DataFrame) else Path(table).name
            return self.features_of(frame, id_column=id_column, ignore_unknown=ignore_unknown, source=name)
        source = Path(table)
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
        """
        wanted_id = id_column or self.id_column
        columns = [str(column) for column in frame.columns]
        ids: pd.Index[Any] = pd.RangeIndex(first_row, first_row + len(frame), name="row")
        if wanted_id in columns:
            ids = pd.Index(row_ids(frame, wanted_id, first_row), name=wanted_id)
        elif id_column is not None:
            raise DataError(f"id column must be in the table; got {id_column!r} ({source}). Check the spelling.")
        ignored = (self.ignored | {wanted_id or ""}) - set(self.features)
        ignored |= {name for name in columns if any(fnmatchcase(name, drop) for drop in self.dropped)}
        ignored |= set(frame.attrs.get("coordinates", ())) - set(self.features)
        absent = [name for name in self.features if name in self.unused and name not in columns]
        if absent:
            frame = frame.assign(**dict.fromkeys(absent, np.nan))
        aligned = align_columns(frame, self.features, ignore=ignored, ignore_unknown=ignore_unknown)
        used = [name for name in self.features if name not in self.unused]
        check_kinds(aligned[used], [kind for name, kind in zip(self.features, self.kinds, strict=True) if name in used])
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
        table: str | Path | pd.DataFrame,
        *,
        label_table: str | Path | pd.DataFrame | None = None,
        id_column: str | None = None,
        presence: bool = False,
        sheet: str | None = None,
        encoding: str = "utf-8",
        decimal: str = ".",
    ) -> NDArray[np.float32]:
        """Read the labels, in the order of the model, of shape (n_samples, n_labels)."""
        presence = presence or self.presence
        if not isinstance(table, pd.DataFrame) and Path(table).suffix.lower() == ".npz":
            data = read_table(table, label_table=label_table, labels=self.labels, presence=presence)
        else:
            joined_by = None if label_table is None else id_column or self.id_column
            reading: Any = {"encoding": encoding, "decimal": decimal, "text_columns": [joined_by or ""]}
            frame = read_frame(table, sheet=sheet, **reading)
            labels = None if label_table is None else read_frame(label_table, **reading)
            columns = [str(name) for name in (frame if labels is None else labels)]
            missing = [name for name in self.labels if name not in columns]
            if missing:
                others = [name for name in columns if name not in self.labels]
                raise DataError(
                    f"table must hold every label of the model; got none for {listed(missing)}"
                    f"{close_names(missing, others)} "
                    f"({_name_of(table if label_table is None else label_table)}). Add these columns "
                    "(empty cells are not observed), or pass --label-table."
                )
            # Features are read by the rules of prediction; here they would only be in the way.
            kept = [name for name in frame if name in (self.labels if labels is None else [joined_by])]
            data = _only_labels(
                frame[kept], labels=self.labels, label_frame=labels, id_column=joined_by, presence=presence
            )
        order = [data.label_names.index(name) for name in self.labels]
        return np.asarray(data.labels[:, order], dtype=np.float32)

    def read_given(
        self,
        given: str | Path | pd.DataFrame,
        ids: "pd.Index[Any]",
        *,
        presence: bool = False,
        encoding: str = "utf-8",
        decimal: str = ".",
    ) -> NDArray[np.float32]:
        """Read labels that are known beforehand, as ``given`` of :meth:`~hotvae.HotVAENetwork.predict_proba`.

        Parameters
        ----------
        given : path or DataFrame
            Table with any of the label columns: 1 present, 0 absent, empty unknown. Labels without a column are
            unknown; features and other columns of the training table are passed over.
        ids : Index
            Ids of the rows to predict, as :meth:`read_features` returned them. Where ``given`` has their column its
            rows are joined by it, and rows that it does not name are given nothing; else its rows are those to
            predict, in their order.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            1, 0, or NaN for unknown.
        """
        source, id_column = _name_of(given), str(ids.name)
        frame = read_frame(given, encoding=encoding, decimal=decimal, text_columns=[id_column])
        columns = [str(name) for name in frame.columns]
        frame = frame.set_axis(columns, axis=1)
        is_joined = id_column in columns and id_column not in {*self.labels, *self.features}
        labels = [name for name in self.labels if name in columns]
        passed_over = {*self.features, *self.ignored, *([id_column] if is_joined else [])}
        unknown = [name for name in columns if name not in {*labels, *passed_over}]
        if unknown or not labels:
            names, what = (unknown, "unknown column(s)") if unknown else (columns, "none of them among")
            raise DataError(
                f"given labels must be in columns named as in training; got {what} {listed(names)}"
                f"{close_names(names, self.labels)} ({source}). Correct or remove them."
                f"{option('id_column', 'NAME', ' Ids are joined by {}.')}"
            )
        rows = np.arange(len(frame))
        if is_joined:
            rows = _rows_of_ids(row_ids(frame, id_column), ids, source)
        elif len(frame) != len(ids):
            join = option("id_column", "NAME", ", or give both tables an id column ({})")
            raise DataError(
                f"given labels must have the rows of the table, {len(ids)}; got {len(frame)} ({source}). "
                f"Add the missing rows with empty cells{join}."
            )
        found = np.full((len(ids), len(self.labels)), np.nan, dtype=np.float32)
        filled = [name for name in labels if frame[name].notna().any()]
        if filled:
            values = label_table(frame[filled], presence or self.presence)
            places = [self.labels.index(name) for name in filled]
            found[:, places] = np.where((rows >= 0)[:, None], values[rows], np.nan)
        return found


def _no_notes(reason: str) -> ModelError:
    return ModelError(
        f"model must note what its table was; got notes that do not fit ({reason}). Restore the model from a copy, or "
        "train again."
    )


def _name_of(table: Any) -> str:
    return str(table.attrs.get("name", "table")) if isinstance(table, pd.DataFrame) else Path(table).name


def _only_labels(frame: pd.DataFrame, **roles: Any) -> Dataset:
    """Read labels by the rules of training tables, from a frame without features."""
    rows = pd.Series(np.arange(len(frame)), index=frame.index, name="(row)")
    numbered = pd.concat([frame, rows], axis=1)  # a column put into a frame of many makes pandas complain
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # the numbers of a single row are constant
        return dataset_from_frame(numbered, **roles)


def check_unique_ids(ids: "pd.Index[Any]", others: "pd.Index[Any]", column: str, source: str) -> None:
    """Refuse ids that name several rows of a table, or of a second one (``source``) that is to be joined with it."""
    for what, index in (("table", ids), (source, others)):
        if not index.is_unique:
            raise DataError(
                f"ids must be unique to join tables; got {listed(index[index.duplicated()].unique())} more than once "
                f"(column {column!r} of the {what}). Give each visit an id of its own, in both tables."
            )


def _rows_of_ids(given: NDArray[Any], ids: "pd.Index[Any]", source: str) -> NDArray[np.intp]:
    """Find the row of a second table for each id; -1 where it has none."""
    there, wanted = pd.Index(given), ids.astype("str")
    check_unique_ids(wanted, there, str(ids.name), source)
    strangers = there.difference(wanted, sort=False)
    if len(strangers):
        raise DataError(
            f"ids of given labels must be in the table; got {listed(strangers)}{close_names(strangers, wanted)} "
            f"(column {str(ids.name)!r} of {source}). Correct these ids, or remove their rows."
        )
    return np.asarray(there.get_indexer(wanted), dtype=np.intp)


def model_card(model: LabelClassifier) -> dict[str, Any]:
    """Return what :func:`train_on_table` noted; empty for a model saved from Python without notes."""
    return dict(getattr(model, "extra_", None) or {})
