"""Darwin Core archives of sampling events."""

import zipfile

import numpy as np
import pytest

from hotvae.data.tables import read_with_roles
from hotvae.errors import DataError

TERMS = "http://rs.tdwg.org/dwc/terms/"
EVENTS = [
    ["eventID", "parentEventID", "eventDate", "decimalLatitude", "decimalLongitude", "samplingProtocol", "license"],
    ["walk", "", "2020-05-01", "", "", "", "CC0"],
    ["p1", "walk", "2020-05-01", "50.1", "7.0", "net", "CC0"],
    ["p2", "walk", "2020-06-30/2020-07-01", "50.2", "7.1", "trap", "CC0"],
    ["p3", "walk", "2020-07-01", "50.3", "7.2", "net", "CC0"],
]
OCCURRENCES = [
    ["eventID", "occurrenceID", "scientificName", "individualCount", "occurrenceStatus"],
    ["p1", "o1", "Bufo bufo", "3", "present"],
    ["p1", "o2", "Rana temporaria", "", "present"],
    ["p2", "o3", "Bufo bufo", "1", "present"],
    ["p2", "o4", "Rana temporaria", "", "absent"],
    ["p2", "o5", "", "1", "present"],
]
MEASURES = [
    ["eventID", "measurementType", "measurementValue"],
    ["p1", "pH", "6.5"],
    ["p2", "pH", "7.5"],
    ["p3", "pH", "7.0"],
    ["p3", "remark", "muddy"],
]


def part(tag, kind, file, rows, key):
    fields = "".join(f'<field index="{i}" term="{TERMS}{name}"/>' for i, name in enumerate(rows[0]) if i)
    return (
        f'<{tag} rowType="{TERMS}{kind}" fieldsTerminatedBy="\\t" linesTerminatedBy="\\n" fieldsEnclosedBy="" '
        f'encoding="UTF-8" ignoreHeaderLines="1"><files><location>{file}</location></files>'
        f'<{key} index="0"/>{fields}</{tag}>'
    )


def write(path, core="Event", folder=""):
    meta = [
        part("core", core, "event.txt", EVENTS, "id"),
        part("extension", "Occurrence", "occurrence.txt", OCCURRENCES, "coreid"),
        part("extension", "MeasurementOrFact", "emof.txt", MEASURES, "coreid"),
    ]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            f"{folder}meta.xml", f'<archive xmlns="http://rs.tdwg.org/dwc/text/">{"".join(meta)}</archive>'
        )
        for name, rows in (("event.txt", EVENTS), ("occurrence.txt", OCCURRENCES), ("emof.txt", MEASURES)):
            archive.writestr(folder + name, "".join("\t".join(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("folder", ["", "dwca/"])
def test_read_table__sampling_events__fill_in_absences(tmp_path, folder):
    data, roles = read_with_roles(write(tmp_path / "frogs.zip", folder=folder))
    assert data.row_names.tolist() == ["p1", "p2", "p3"]  # the walk holds the others, and is no sample
    assert data.label_names == ("Bufo bufo", "Rana temporaria")
    assert data.labels.tolist() == [[1, 1], [1, 0], [0, 0]]
    assert data.coordinates.tolist() == [[7.0, 50.1], [7.1, 50.2], [7.2, 50.3]]
    assert data.feature_names == ("samplingProtocol", "pH", "day_of_year")
    assert data.features["pH"].tolist() == [6.5, 7.5, 7.0]
    assert data.features["day_of_year"].tolist() == [122, 182, 183]
    assert roles.crs == "EPSG:4326"
    assert roles.left_out["license"] == "one value"
    assert roles.left_out["eventDate"] == "text"
    assert "1 events hold other events, and are no samples: left out" in roles.notes
    assert "1 occurrences without a name are left out" in roles.notes
    assert "1 occurrences say absent" in roles.notes
    assert np.isfinite(data.features["pH"]).all()


def test_read_table__other_archives__are_refused(tmp_path):
    with pytest.raises(
        DataError, match="must be of sampling events, which tell what was absent; got a core of Occurrence"
    ):
        read_with_roles(write(tmp_path / "o.zip", core="Occurrence"))
    with zipfile.ZipFile(tmp_path / "any.zip", "w") as archive:
        archive.writestr("table.csv", "a,b\n")
    with pytest.raises(DataError, match=r"must be a Darwin Core archive with a meta\.xml; got 'table\.csv'"):
        read_with_roles(tmp_path / "any.zip")
    (tmp_path / "bad.zip").write_bytes(b"PK")
    with pytest.raises(DataError, match=r"table must be readable; got .*bad\.zip' \(truncated or corrupt"):
        read_with_roles(tmp_path / "bad.zip")
