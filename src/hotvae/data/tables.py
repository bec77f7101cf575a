"""Roles of table columns: which are labels, coordinates, groups and features of a data set.

Nothing is repaired quietly: a cell or column that does not fit is named together with a remedy. Files are read by
:mod:`hotvae.data.frames`. Rows are counted from 0.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from hotvae.config import require_choice
from hotvae.data.columns import (
    check_present,
    check_text,
    check_unnamed,
    match_columns,
    row_ids,
    split_names,
    warn_of_counts,
)
from hotvae.data.dataset import (
    Dataset,
    FeatureTable,
    feature_kinds,
    numeric_matrix,
)
from hotvae.data.formats.darwin_core import read_darwin_core
from hotvae.data.formats.foreign import foreign_bytes
from hotvae.data.frames import NpzTable, file_kind, read_frame, read_npz
from hotvae.data.label_cells import is_sparse, label_values, sparse_accessor
from hotvae.data.long import AUTO, LongColumns, guess_long, long_columns, presences, visited_sites
from hotvae.errors import ConfigError, DataError, listed, option


@dataclass(frozen=True)
class TableRoles:
    """What became of every column of a table.

    Attributes
    ----------
    features, labels : tuple of str
        What is learned from, and what is learned.
    left_out : dict of str to str
        All other columns, and why they are no features.
    notes : tuple of str
        What else was decided: columns that were guessed, rows that were lost.
    crs : str
        Coordinate reference system that the file names, such as ``"EPSG:4326"``; else empty.
    id_column : str or None
        Ids of the rows.
    is_long : bool
        Whether the table had a row a record.
    """

    features: tuple[str, ...]
    labels: tuple[str, ...]
    left_out: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    crs: str = ""
    id_column: str | None = None
    is_long: bool = False

    def lines(self) -> list[str]:
        r"""Say it in full; of more than forty features or labels the first ten and the last.

        Examples
        --------
        >>> print(*TableRoles(("depth",), ("owl", "wren"), {"site": "row ids"}).lines(), sep="\n")
        features (1): depth
        labels (2): owl, wren
        left out (1): site (row ids)
        """
        out = ", ".join(f"{name} ({why})" for name, why in self.left_out.items())
        return [
            *self.notes,
            f"features ({len(self.features)}): {_named(self.features)}",
            f"labels ({len(self.labels)}): {_named(self.labels)}",
            f"left out ({len(self.left_out)}): {out or 'nothing'}",
        ]


def _named(names: Sequence[str]) -> str:
    """Join names; of very many the first and the last, by which a range that went wrong is seen."""
    shown = names if len(names) <= 40 else [*names[:10], f"{len(names) - 11} more", names[-1]]
    return ", ".join(shown)


def read_table(
    path: str | os.PathLike[str] | pd.DataFrame,
    *,
    labels: str | Sequence[str] | None = None,
    label_table: str | os.PathLike[str] | pd.DataFrame | None = None,
    id_column: str | None = None,
    coordinates: str | Sequence[str] | None = None,
    coordinates_as_features: bool = False,
    groups: str | None = None,
    drop: str | Sequence[str] = (),
    presence: bool = False,
    long: str | Sequence[str] | None = None,
    sites: str | os.PathLike[str] | pd.DataFrame | None = None,
    join: str = "exact",
    sheet: str | None = None,
    free_text: bool = False,
    encoding: str = "utf-8",
    decimal: str = ".",
    name: str | None = None,
) -> Dataset:
    r"""Read a data set from one table, or from two joined by an id.

    Parameters
    ----------
    path : path-like or DataFrame
        Table with the features; see `read_frame` for the formats. An npz holds ``X`` (or ``X_data``,
        ``X_indices``, ``X_indptr``, ``X_shape``), ``Y`` and optionally ``feature_names``, ``label_names`` or
        ``species_names``, ``coords``, ``coord_names`` and ``site_ids``. A Darwin Core archive of sampling events
        (``.zip``) brings its events, their absences and its coordinates.
    labels : str or sequence of str, optional
        Label columns: names, globs such as ``"sp_*"``, a range of neighbours ``"first:last"``, a file of names
        ``"@species.txt"`` (one a line), or several separated by commas. Needed unless `label_table` (default: all its
        columns), a long table (default: all its species) or an npz (default: all of ``Y``) has the labels.
    label_table : path-like or DataFrame, optional
        Second table with the labels, joined by `id_column`.
    id_column : str, optional
        Ids of the rows; no feature. Unique in both tables when there are two.
    coordinates : str or sequence of str, optional
        Two columns, such as ``"lon,lat"``; vector files bring their own.
    coordinates_as_features : bool
        Keep the coordinates among the features, too.
    groups : str, optional
        Column of rows that belong together; no feature. For an npz: an array of the file.
    drop : str or sequence of str
        Columns to leave out: names or globs.
    presence : bool
        Turn counts into 0 and 1 (any count above 0 is 1, and so is ``X``).
    long : str or sequence of str, optional
        The table, or the `label_table`, has one row a record: names of its columns of site, species and count
        (``"site,species,count"``, the last may be missing), or ``"auto"`` to guess them. What a visited site has no
        record of is absent there. A table without `labels` that can only be a long one is read as one.
    sites : path-like or DataFrame, optional
        Of a long table: all sites that were visited, with their covariates. By default a site was visited if it has
        any record, and its covariates are the columns of the records that have one value a site.
    join : {"exact", "inner"}
        What to do with rows of one table that the other lacks: refuse them, or leave them out.
    sheet : str, optional
        Sheet of a workbook, layer of a GeoPackage.
    free_text : bool
        Take columns of text as they are, for an encoder that reads texts or molecules. Otherwise text must be
        categories: what looks like numbers, dates or identifiers is refused.
    encoding, decimal : str
        See `read_frame`.
    name : str, optional
        Name of the data set; default: the file's name.

    Returns
    -------
    Dataset
        Sparse where the file is sparse.

    Raises
    ------
    DataError
        Data that do not fit.
    ConfigError
        Arguments that do not fit together.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "sites.csv"
    >>> _ = path.write_text("site,depth,sp_wren,sp_owl\nA,1.5,3,0\nB,2.0,0,1\n")
    >>> data = read_table(path, labels="sp_*", id_column="site", presence=True)
    >>> data.feature_names, data.label_names, data.labels.tolist()
    (('depth',), ('sp_wren', 'sp_owl'), [[1.0, 0.0], [0.0, 1.0]])
    >>> records = pd.DataFrame({"site": ["A", "A", "B"], "species": ["owl", "wren", "owl"], "depth": [1, 1, 2]})
    >>> read_table(records, long="site,species").labels.tolist()
    [[1.0, 1.0], [1.0, 0.0]]
    """
    options: Any = {
        "labels": labels,
        "label_table": label_table,
        "id_column": id_column,
        "coordinates": coordinates,
        "coordinates_as_features": coordinates_as_features,
        "groups": groups,
        "drop": drop,
        "presence": presence,
        "long": long,
        "sites": sites,
        "join": join,
        "sheet": sheet,
        "free_text": free_text,
        "encoding": encoding,
        "decimal": decimal,
        "name": name,
    }
    return read_with_roles(path, **options)[0]


def read_with_roles(
    path: str | os.PathLike[str] | pd.DataFrame,
    *,
    labels: str | Sequence[str] | None = None,
    label_table: str | os.PathLike[str] | pd.DataFrame | None = None,
    id_column: str | None = None,
    long: str | Sequence[str] | None = None,
    sites: str | os.PathLike[str] | pd.DataFrame | None = None,
    join: str = "exact",
    sheet: str | None = None,
    encoding: str = "utf-8",
    decimal: str = ".",
    name: str | None = None,
    **roles: Any,
) -> tuple[Dataset, TableRoles]:
    """Read a data set, and say what became of every column; parameters as in :func:`read_table`."""
    require_choice("join", join, ("exact", "inner"))
    kind = ""
    if not isinstance(path, pd.DataFrame):
        source, kind = file_kind(path)
        name = Path(source.name.removesuffix(".gz")).stem if name is None else name
    name = name or ""
    if kind == ".npz":
        _refuse_with_npz(path, label_table, long, sites, roles)
        own: Any = {
            "groups": roles.get("groups"),
            "drop": roles.get("drop", ()),
            "presence": roles.get("presence", False),
        }
        data = _npz_dataset(read_npz(path), labels, id_column, name=name, **own)  # type: ignore[arg-type]
        return data, TableRoles(data.feature_names, data.label_names, id_column=id_column)
    reading: Any = {"encoding": encoding, "decimal": decimal, "sheet": sheet}
    if kind == ".zip":
        tables = _archive_tables(path)  # type: ignore[arg-type]
    else:
        text = [] if id_column is None else [id_column]
        text += [] if long in (None, AUTO) else split_names(long, [])[:1]
        frame = read_frame(path, text_columns=text, **reading)
        second = label_table if label_table is not None else sites
        reading.pop("sheet")
        other = None if second is None else read_frame(second, text_columns=text, **reading)
        if sites is not None and label_table is not None:
            raise ConfigError("sites must be left out with a table of labels; got both. The first table has the sites.")
        long = AUTO if long is None and (sites is not None or _looks_long(frame, labels, label_table)) else long
        tables = _Tables(frame, other)
        if long is not None:
            tables = _long_tables(frame, other, long, is_labels=label_table is not None)
    if tables.long is not None:
        id_column = _fill_in_absences(tables, id_column, join)
    return _assign_roles(
        tables.features,
        tables.labels,
        labels=labels,
        id_column=id_column,
        join=join,
        name=name,
        notes=tables.notes,
        known_left_out=tables.left_out,
        is_long=tables.long is not None,
        **roles,
    )


def read_long(
    path: str | os.PathLike[str] | pd.DataFrame,
    *,
    long: str | Sequence[str] = AUTO,
    sites: str | os.PathLike[str] | pd.DataFrame | None = None,
    label_table: str | os.PathLike[str] | pd.DataFrame | None = None,
    id_column: str | None = None,
    features: Sequence[str] = (),
    labels: Sequence[str] = (),
    encoding: str = "utf-8",
    decimal: str = ".",
) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """Read records as two wide tables.

    Parameters
    ----------
    path, long, sites, label_table, id_column, encoding, decimal
        As in :func:`read_table`; the path may also be that of a Darwin Core archive.
    features : sequence of str
        Columns of events that are wanted of an archive.
    labels : sequence of str
        Species that are wanted; one without any record was absent everywhere.

    Returns
    -------
    sites : DataFrame
        One row a visited site.
    labels : DataFrame
        The column of sites, and 0 or 1 for every species.
    id_column : str
        The column that joins them.
    """
    if is_archive(path):
        tables = _archive_tables(path, features)  # type: ignore[arg-type]
    else:
        text = [] if id_column is None else [id_column]
        text += [] if long == AUTO else split_names(long, [])[:1]
        reading: Any = {"encoding": encoding, "decimal": decimal, "text_columns": text}
        second = label_table if label_table is not None else sites
        other = None if second is None else read_frame(second, **reading)
        tables = _long_tables(read_frame(path, **reading), other, long, is_labels=label_table is not None)
    joined_by = _fill_in_absences(tables, id_column, "exact")
    assert tables.labels is not None
    absent = {name: 0 for name in labels if name not in tables.labels}
    return tables.features, tables.labels.assign(**absent), joined_by


@dataclass
class _Tables:
    """Features, and perhaps labels in a second table; what was decided on the way."""

    features: pd.DataFrame
    labels: pd.DataFrame | None = None
    long: LongColumns | None = None
    notes: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


def is_archive(path: str | os.PathLike[str] | pd.DataFrame) -> bool:
    """Whether a table is an archive of events and what was found at them."""
    return not isinstance(path, pd.DataFrame) and Path(path).suffix.lower() == ".zip"


def _archive_tables(path: str | os.PathLike[str], wanted: Sequence[str] | None = None) -> _Tables:
    with foreign_bytes(Path(path)):
        archive = read_darwin_core(path, wanted)
    columns = LongColumns(*archive.columns)
    return _Tables(archive.events, archive.occurrences, columns, list(archive.notes), dict(archive.left_out))


def _refuse_with_npz(path: Any, label_table: Any, long: Any, sites: Any, roles: Mapping[str, Any]) -> None:
    given = label_table is not None or long is not None or sites is not None or roles.get("coordinates") is not None
    if given or roles.get("coordinates_as_features"):
        raise ConfigError(
            "a table of labels, sites and coordinates must be left out for an npz; got a file that holds its own "
            f"({str(path)!r}). Use its keys Y and coords."
        )


def _looks_long(frame: pd.DataFrame, labels: Any, label_table: Any) -> bool:
    """Whether a table without labels has records: columns of sites and species, and sites more than once."""
    if labels is not None or label_table is not None:
        return False
    found = guess_long([str(column) for column in frame.columns])
    return found is not None and bool(frame[found.site].duplicated().any())


def _long_tables(
    frame: pd.DataFrame, other: pd.DataFrame | None, long: str | Sequence[str], is_labels: bool
) -> _Tables:
    """Tell records from sites."""
    records, visits = (other, frame) if is_labels and other is not None else (frame, other)
    columns = long_columns([str(column) for column in records.columns], long)
    notes = [f"long table: {columns}"]
    left_out: dict[str, str] = {}
    if visits is None:
        visits, varying = visited_sites(records, columns)
        if len(visits.columns) == 1:
            differ = f" ({listed(varying)} differ within a site)" if varying else ""
            raise DataError(
                f"records must come with what is known of their sites; got no such column beside {columns}{differ}. "
                f"Name the table of visited sites: {option('sites', 'TABLE')}."
            )
        notes.append(
            f"no table of visited sites: a site was visited if it has any record ({len(visits)} sites); "
            "what it has no record of is absent there"
        )
        left_out = dict.fromkeys(varying, "differs between records of a site")
    return _Tables(visits, records, columns, notes, left_out)


def _fill_in_absences(tables: _Tables, id_column: str | None, join: str) -> str:
    """Turn records into a table of labels by site; return the column that joins them."""
    assert tables.long is not None
    assert tables.labels is not None
    columns = [str(column) for column in tables.features.columns]
    own = id_column if id_column is not None and id_column in columns else tables.long.site
    check_present([own], columns)
    ids = pd.Index([str(name).strip() for name in row_ids(tables.features, own)])
    if not ids.is_unique:
        raise DataError(
            f"visited sites must stand once in their table; got {listed(ids[ids.duplicated()].unique())} more than "
            f"once (column {own!r}). One row a visit? Name the column of visits, in both tables: "
            f"{option('long', 'VISIT,SPECIES,COUNT')}."
        )
    present, n_lost = presences(tables.labels, tables.long, ids, strict=join != "inner")
    if n_lost:
        tables.notes.append(f"join inner: {n_lost} records of sites that were not visited are left out")
    n_empty = int((present.to_numpy().sum(axis=1) == 0).sum())
    tables.notes.append(
        f"{len(tables.labels)} records of {present.shape[1]} species at {len(ids)} sites, {n_empty} without any"
    )
    tables.features = tables.features.assign(**{own: ids.to_numpy()})
    tables.labels = present.rename_axis(own).reset_index() if own not in present else present
    if own in present:
        raise DataError(f"column of sites must not be a species; got {own!r}. Rename it.")
    return own


def dataset_from_frame(frame: pd.DataFrame, label_frame: pd.DataFrame | None = None, **roles: Any) -> Dataset:
    """Give the columns of tables already in memory their roles; parameters as in :func:`read_table`."""
    return _assign_roles(frame, label_frame, **roles)[0]


def _assign_roles(
    frame: pd.DataFrame,
    label_frame: pd.DataFrame | None,
    *,
    labels: str | Sequence[str] | None = None,
    id_column: str | None = None,
    coordinates: str | Sequence[str] | None = None,
    coordinates_as_features: bool = False,
    groups: str | None = None,
    drop: str | Sequence[str] = (),
    presence: bool = False,
    free_text: bool = False,
    join: str = "exact",
    name: str = "",
    notes: Iterable[str] = (),
    known_left_out: Mapping[str, str] | None = None,
    is_long: bool = False,
) -> tuple[Dataset, TableRoles]:
    """Give every column a role."""
    crs, own_places = str(frame.attrs.get("crs", "")), frame.attrs.get("coordinates")
    notes = [*notes, *frame.attrs.get("notes", ())]
    columns = [str(column) for column in frame.columns]
    frame = frame.set_axis(columns, axis=1)
    places = split_names(coordinates if coordinates is not None else own_places, columns)
    if places and len(places) != 2:
        raise ConfigError(f"coordinates must be 2 columns; got {listed(places)}. Name x, then y.")
    reserved = [column for column in (id_column, *places, groups) if column is not None]
    for column in reserved:
        check_present([column], columns)
    dropped = match_columns(drop, columns, "drop")
    taken = set(reserved) | set(dropped)
    if label_frame is None:
        if labels is None:
            raise ConfigError(f"labels must name the label columns; got none. Pass {option('labels', 'sp_*')}.")
        label_names = match_columns(labels, columns, "labels", taken)
        label_columns = frame[label_names]
    else:
        label_columns, rows, lost = _joined_labels(frame, label_frame, id_column, labels, join)
        if lost:
            notes.append(lost)
            frame = frame.iloc[rows].reset_index(drop=True)
        label_names = [str(column) for column in label_columns.columns]
        shared = sorted(set(label_names) & (set(columns) - taken))
        if shared:
            raise DataError(
                f"labels must not be features; got {listed(shared)} in both tables. "
                f"Leave these columns of the first out: {option('drop', 'NAME')}."
            )
    hidden = (taken | set(label_names)) - (set(places) - set(dropped) if coordinates_as_features else set())
    features = frame[[column for column in columns if column not in hidden]]
    check_unnamed(features)
    if not free_text:
        check_text(features)
    warn_of_counts(features, label_names)
    data = Dataset(
        features=_sparse_features(features),
        labels=label_values(label_columns, presence),
        feature_names=tuple(str(column) for column in features.columns),
        label_names=tuple(label_names),
        coordinates=_coordinate_values(frame[places]) if places else None,
        coordinate_names=(places[0], places[1]) if places else ("x", "y"),
        groups=None if groups is None else frame[groups].to_numpy(),
        row_names=None if id_column is None else row_ids(frame, id_column),
        name=name,
    )
    why = dict.fromkeys(dropped, "dropped") | dict.fromkeys(places, "coordinates")
    why |= {} if groups is None else {groups: "groups"}
    why |= {} if id_column is None else {id_column: "row ids"}
    left_out = {column: why[column] for column in columns if column in hidden and column in why}
    return data, TableRoles(
        data.feature_names,
        data.label_names,
        left_out | dict(known_left_out or {}),
        tuple(notes),
        crs,
        id_column,
        is_long,
    )


def _npz_dataset(
    table: NpzTable,
    labels: str | Sequence[str] | None,
    id_column: str | None,
    groups: str | None,
    drop: str | Sequence[str],
    presence: bool,
    name: str,
) -> Dataset:
    label_frame = table.label_frame()
    label_names = list(label_frame.columns)
    unwanted = set(match_columns(drop, [*table.feature_names, *label_names], "drop"))
    if labels is not None:
        label_names = match_columns(labels, label_names, "labels")
    label_names = [label for label in label_names if label not in unwanted]
    kept = [i for i, feature in enumerate(table.feature_names) if feature not in unwanted]
    names = table.names(2, "coord_names", "coordinate_names") or ("x", "y")
    return Dataset(
        features=table.features if len(kept) == len(table.feature_names) else table.features[:, kept],
        labels=label_values(label_frame[label_names], presence),
        feature_names=tuple(table.feature_names[i] for i in kept),
        label_names=tuple(label_names),
        coordinates=table.first("coords", "coordinates"),
        coordinate_names=names,  # type: ignore[arg-type]  # Dataset counts them
        groups=table.first("groups") if groups is None else table.rows(groups),
        row_names=table.first("site_ids", "row_names") if id_column is None else table.rows(id_column),
        name=name,
    )


# --- columns and their roles -----------------------------------------------------------------------------


def _joined_labels(
    frame: pd.DataFrame,
    label_frame: pd.DataFrame,
    id_column: str | None,
    labels: str | Sequence[str] | None,
    join: str,
) -> tuple[pd.DataFrame, NDArray[np.intp], str]:
    """Label columns of the second table in the row order of the first; rows of the first that stay, and a note."""
    if id_column is None:
        asked = option("id_column", "NAME")
        raise ConfigError(f"a table of labels must be joined by a column; got none. Name the column of both: {asked}.")
    columns = [str(column) for column in label_frame.columns]
    label_frame = label_frame.set_axis(columns, axis=1)
    check_present([id_column], columns)
    index = []
    for what, table in (("first table", frame), ("label table", label_frame)):
        ids = pd.Index(row_ids(table, id_column))
        if not ids.is_unique:
            found = guess_long(columns)
            hint = ""
            if found and table is label_frame:
                names = ",".join(filter(None, (found.site, found.species, found.count)))
                hint = f"One row a record? Pass {option('long', names)}. "
            raise DataError(
                f"ids must be unique to join tables; got {listed(ids[ids.duplicated()].unique())} "
                f"more than once (column {id_column!r} of the {what}). "
                f"{hint or 'Repeated visits? Give each an id of its own, in both tables. '}"
                "Only true copies may be removed."
            )
        index.append(ids)
    left, right = index
    only_left, only_right = left.difference(right, sort=False), right.difference(left, sort=False)
    lost, rows = "", np.arange(len(left))
    if len(only_left) or len(only_right):
        if join != "inner":
            raise DataError(
                f"ids in column {id_column!r} must be in both tables; got {len(only_left)} only in the first "
                f"({listed(only_left) or 'none'}) and {len(only_right)} only in the label table "
                f"({listed(only_right) or 'none'}). Correct these ids, or leave their rows out: "
                f"{option('join', 'inner')}."
            )
        rows = np.flatnonzero(left.isin(right))
        lost = (
            f"join inner: {len(only_left)} rows only in the first table and {len(only_right)} only in the label table "
            "are left out"
        )
        if not len(rows):
            raise DataError(
                f"ids in column {id_column!r} must be in both tables; got none ({listed(left)} and {listed(right)}). "
                "Name the column that both have."
            )
    others = [column for column in columns if column != id_column]
    chosen = others if labels is None else match_columns(labels, columns, "labels", [id_column])
    return label_frame[chosen].iloc[right.get_indexer(left[rows])].reset_index(drop=True), rows, lost


def _coordinate_values(columns: pd.DataFrame) -> NDArray[np.float64]:
    text = [str(name) for name, kind in zip(columns, feature_kinds(columns), strict=True) if kind != "numeric"]
    if text:
        raise DataError(f"coordinates must be numbers; got text in {listed(text)}. Use degrees or metres.")
    return numeric_matrix(columns)


def _sparse_features(features: pd.DataFrame) -> FeatureTable:
    return sparse.csr_array(sparse_accessor(features).to_coo()) if is_sparse(features) else features
