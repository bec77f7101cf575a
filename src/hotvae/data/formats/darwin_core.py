"""Darwin Core archives of sampling events, as GBIF publishes them: events, what was found, and what was measured.

An event of which something was recorded, or could have been, is a row; a species that it has no record of was absent.
Events that hold other events are no samples and are left out.
"""

import csv
import io
import os
import zipfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pandas as pd

from hotvae.data.formats.foreign import check_archive, foreign_bytes
from hotvae.errors import DataError, listed

_MAX_LEVELS = 20


@dataclass(frozen=True)
class DarwinCore:
    """A sampling-event archive.

    Attributes
    ----------
    events : DataFrame
        One row an event: ``eventID``, places, and what varies and can be learned from. ``attrs`` hold the coordinates.
    occurrences : DataFrame
        One row a record: ``eventID``, ``scientificName``, ``count``.
    columns : tuple of str
        Columns of site, species and count.
    left_out : dict of str to str
        Columns of events that are no features, and why.
    notes : tuple of str
        What was decided.
    """

    events: pd.DataFrame
    occurrences: pd.DataFrame
    columns: tuple[str, str, str]
    left_out: dict[str, str]
    notes: tuple[str, ...]


class _Part(NamedTuple):
    kind: str
    table: pd.DataFrame


def read_darwin_core(path: str | os.PathLike[str], columns: Collection[str] | None = None) -> DarwinCore:
    """Read an archive.

    Parameters
    ----------
    path : path
        A ``.zip`` file with ``meta.xml``.
    columns : collection of str, optional
        Columns of events to keep, as a model knows them; by default those that can be learned from.

    Returns
    -------
    DarwinCore

    Raises
    ------
    DataError
        No archive, one without sampling events, or a damaged one.
    """
    source = Path(path)
    with foreign_bytes(source), source.open("rb") as file:
        check_archive(file, source)
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            meta = next((name for name in names if name.rsplit("/", 1)[-1] == "meta.xml"), None)
            if meta is None:
                raise DataError(
                    f"zip file must be a Darwin Core archive with a meta.xml; got {listed(names)} ({source.name}). "
                    "Unpack it and name the table. Files of eBird? See: hotvae ebird prepare."
                )
            root = ElementTree.fromstring(archive.read(meta))
            folder = meta.rpartition("meta.xml")[0]
            parts = [_read_part(archive, folder, node) for node in root if _tag(node) in ("core", "extension")]
    if not parts or parts[0].kind != "Event":
        found = parts[0].kind if parts else "nothing"
        raise DataError(
            f"Darwin Core archive must be of sampling events, which tell what was absent; got a core of {found} "
            f"({source.name}). Records alone? Read its table with --long, and say which sites were visited (--sites)."
        )
    records = next((part.table for part in parts[1:] if part.kind == "Occurrence"), None)
    if records is None:
        raise DataError(f"sampling events must have occurrences; got none ({source.name}). Download the whole archive.")
    measures = [part.table for part in parts[1:] if part.kind.endswith("MeasurementOrFact")]
    return _assemble(parts[0].table, records, measures, source.name, columns)


def _tag(node: Any) -> str:
    return str(node.tag).rsplit("}", 1)[-1]


def _read_part(archive: zipfile.ZipFile, folder: str, node: Any) -> _Part:
    """Read one table as its entry in meta.xml says."""
    location = next(str(child.text) for child in node.iter() if _tag(child) == "location")
    fields: dict[int, str] = {}
    constants: dict[str, str] = {}
    for child in node:
        if _tag(child) in ("id", "coreid"):
            fields.setdefault(int(child.get("index", 0)), "(id)")
        elif _tag(child) == "field":
            term = str(child.get("term")).rstrip("/").rsplit("/", 1)[-1]
            if child.get("index") is None:
                constants[term] = str(child.get("default", ""))
            else:
                fields[int(child.get("index"))] = (
                    term if fields.get(int(child.get("index"))) != "(id)" else f"(id) {term}"
                )

    def mark(name: str, usual: str) -> str:
        written = node.get(name)
        return usual if written is None else written.replace("\\t", "\t").replace("\\n", "\n").replace("\\r", "\r")

    quote = mark("fieldsEnclosedBy", '"')
    text = archive.read(folder + location).decode(node.get("encoding", "utf-8"))
    rows = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=mark("fieldsTerminatedBy", ",") or "\t",
        quotechar=quote or '"',
        quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
    )
    lines = list(rows)[int(node.get("ignoreHeaderLines", 0)) :]
    columns: dict[str, list[str]] = {}
    for index, name in sorted(fields.items()):
        values = [line[index] if index < len(line) else "" for line in lines if line]
        for part in name.split(" ", 1):
            columns[part] = values
    table = pd.DataFrame(columns, dtype="str")
    for name, value in constants.items():
        table[name] = value
    return _Part(str(node.get("rowType", "")).rstrip("/").rsplit("/", 1)[-1], table)


def _assemble(
    core: pd.DataFrame,
    records: pd.DataFrame,
    measures: list[pd.DataFrame],
    source: str,
    columns: Collection[str] | None,
) -> DarwinCore:
    notes = [f"Darwin Core archive: {len(core)} events, {len(records)} occurrences ({source})"]
    events = core.assign(eventID=core["(id)"]).drop(columns="(id)")
    if "parentEventID" in events:
        parents = set(events["parentEventID"]) - {""}
        is_parent = events["eventID"].isin(parents)
        used = set(records["(id)"])
        is_parent &= ~events["eventID"].isin(used)
        if is_parent.any():
            notes.append(f"{int(is_parent.sum())} events hold other events, and are no samples: left out")
            events = events[~is_parent].reset_index(drop=True)
    name = next((term for term in ("scientificName", "acceptedScientificName", "taxonID") if term in records), None)
    if name is None:
        raise DataError(f"occurrences must have a scientificName; got {listed(records.columns)} ({source}).")
    species = records[name].str.strip()
    nameless = species == ""
    if nameless.any():
        notes.append(f"{int(nameless.sum())} occurrences without a name are left out")
    count = pd.Series("1", index=records.index)
    for term in ("individualCount", "organismQuantity"):
        if term in records:
            numbers = pd.to_numeric(records[term], errors="coerce")
            count = count.where(numbers.isna(), records[term])
    if "occurrenceStatus" in records:
        absent = records["occurrenceStatus"].str.strip().str.lower() == "absent"
        count = count.mask(absent, "0")
        if absent.any():
            notes.append(f"{int(absent.sum())} occurrences say absent")
    occurrences = pd.DataFrame({"eventID": records["(id)"], "scientificName": species, "count": count})[~nameless]
    for table in measures:
        events = _with_measures(events, table, notes)
    kept, left_out = _features(events)
    if columns is not None:
        kept = [name for name in events.columns if name in columns]
    frame = events[["eventID", *kept]].copy()
    if {"decimalLongitude", "decimalLatitude"} <= set(frame.columns):
        frame.attrs |= {"coordinates": ("decimalLongitude", "decimalLatitude"), "crs": "EPSG:4326"}
    return DarwinCore(
        frame, occurrences.reset_index(drop=True), ("eventID", "scientificName", "count"), left_out, tuple(notes)
    )


def _with_measures(events: pd.DataFrame, table: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Add numbers that were measured at events as columns; those of single occurrences are passed over."""
    if not {"measurementType", "measurementValue"} <= set(table.columns):
        return events
    rows = table if "occurrenceID" not in table else table[table["occurrenceID"] == ""]
    numbers = rows.assign(number=pd.to_numeric(rows["measurementValue"], errors="coerce")).dropna(subset="number")
    wide = numbers.pivot_table(index="(id)", columns="measurementType", values="number", aggfunc="mean")
    wide = wide.loc[:, [name for name in wide.columns if name and name not in events]]
    if wide.empty:
        return events
    notes.append(f"measured at events: {', '.join(map(str, wide.columns))}")
    return events.join(wide, on="eventID")


def _features(events: pd.DataFrame) -> tuple[list[str], dict[str, str]]:
    """Choose columns of events that can be learned from: numbers that vary, and categories of few kinds."""
    left_out: dict[str, str] = {}
    kept: list[str] = []
    if "eventDate" in events:
        day = pd.to_datetime(events["eventDate"].astype("str").str[:10], errors="coerce", format="%Y-%m-%d")
        if day.notna().any():
            events["year"], events["day_of_year"] = day.dt.year.astype("float64"), day.dt.day_of_year.astype("float64")
    for name in events.columns:
        column = events[name]
        if name == "eventID":
            continue
        if column.dtype != "float64":
            numbers = pd.to_numeric(column, errors="coerce")
            is_number = bool(numbers.notna().any()) and bool((numbers.notna() | (column == "")).all())
            if is_number:
                events[name] = column = numbers.astype("float64")
        if column.nunique() < 2:
            left_out[name] = "one value"
        elif column.dtype == "float64" or (
            name in ("samplingProtocol", "habitat", "sampleSizeUnit", "locationID") and column.nunique() <= _MAX_LEVELS
        ):
            kept.append(name)
        else:
            left_out[name] = "text"
    return kept, left_out
