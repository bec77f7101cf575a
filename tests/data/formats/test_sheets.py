"""Workbooks."""

import datetime
import sys
import tracemalloc
import zipfile

import openpyxl
import pandas as pd
import pytest

from hotvae import read_table
from hotvae.data.frames import read_frame
from hotvae.errors import ConfigError, DataError

TABLE = pd.DataFrame({"site": [7, 8, 9], "depth": [1.5, None, 2.5], "sp_owl": [1, 0, 1], "sp_wren": [0, 0, 1]})


@pytest.fixture
def book(tmp_path):
    with pd.ExcelWriter(tmp_path / "birds.xlsx") as writer:
        TABLE.to_excel(writer, sheet_name="Sites 2024", index=False)
        pd.DataFrame({"note": ["nothing"]}).to_excel(writer, sheet_name="Read me", index=False)
    return tmp_path / "birds.xlsx"


def test_read_frame__workbook__is_the_sheet_that_is_named(book):
    pd.testing.assert_frame_equal(read_frame(book, sheet="Sites 2024"), TABLE)
    data = read_table(book, sheet="Sites 2024", labels="sp_*", id_column="site")
    assert data.row_names.tolist() == ["7", "8", "9"]
    assert data.labels.tolist() == [[1, 0], [0, 0], [1, 1]]


def test_read_frame__workbook_of_several_sheets__asks_for_one(book):
    with pytest.raises(
        DataError, match=r"sheet must be named where there are several; got 'Sites 2024', 'Read me' .*sheet="
    ):
        read_frame(book)
    with pytest.raises(DataError, match=r"sheet must be in the file; got 'Sites 2023' \(close: 'Sites 2024'\)"):
        read_frame(book, sheet="Sites 2023")


def test_read_frame__only_sheet__needs_no_name_and_empty_rows_go(tmp_path):
    with_gaps = pd.concat([TABLE, pd.DataFrame([{}]), TABLE.iloc[:1]])
    with_gaps.to_excel(tmp_path / "t.xlsx", index=False)
    assert len(read_frame(tmp_path / "t.xlsx")) == 4


def test_read_frame__damaged_workbook_or_no_openpyxl__says_so(tmp_path, monkeypatch):
    (tmp_path / "bad.xlsx").write_bytes(b"PK nothing")
    with pytest.raises(DataError, match=r"table must be readable; got .*bad\.xlsx' \(truncated or corrupt"):
        read_frame(tmp_path / "bad.xlsx")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(
        ConfigError, match=r"openpyxl must be installed to read workbooks; got none\. The extra 'geo' of hotvae"
    ):
        read_frame(tmp_path / "bad.xlsx")


def test_read_frame__sheet_of_a_text_file__is_refused(tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n")
    with pytest.raises(ConfigError, match=r"sheet must go with a workbook or vector file; got 't\.csv'"):
        read_frame(tmp_path / "t.csv", sheet="one")


def renumbered(path, old, new):
    """Give a row of the first sheet another number, as a damaged workbook may have it."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    assert f'<row r="{old}"'.encode() in members[sheet]
    members[sheet] = members[sheet].replace(f'<row r="{old}"'.encode(), f'<row r="{new}"'.encode())
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_read_frame__row_beyond_what_workbooks_have__is_refused_before_the_rows_up_to_it_are_made(tmp_path):
    TABLE.to_excel(tmp_path / "t.xlsx", index=False)
    renumbered(tmp_path / "t.xlsx", 4, 99_999_999)
    tracemalloc.start()
    with pytest.raises(DataError, match=r"sheet must have at most 1,048,576 rows; got one beyond them \(t\.xlsx, 'She"):
        read_frame(tmp_path / "t.xlsx")
    assert tracemalloc.get_traced_memory()[1] < 50e6  # it took all the memory there was
    tracemalloc.stop()


def test_read_frame__last_row_of_a_workbook__is_read_and_the_empty_ones_before_it_take_nothing(tmp_path):
    TABLE.to_excel(tmp_path / "t.xlsx", index=False)
    renumbered(tmp_path / "t.xlsx", 4, 1_048_576)
    pd.testing.assert_frame_equal(read_frame(tmp_path / "t.xlsx"), TABLE)


def test_read_frame__cells_of_all_kinds__are_what_pandas_makes_of_them(tmp_path):
    book = openpyxl.Workbook()
    rows = [
        ["whole", "number", "text", "date", "truth", "mixed", "failed", "text", None],
        [1, 0.5, "a", datetime.datetime(2024, 5, 1), True, 1, "#DIV/0!", "x", None],
        [2, None, "NA", datetime.datetime(2024, 5, 2, 6, 30), False, "one", 3, None, None],
        [3.0, 1e300, " b ", None, True, None, 4, "z", None],
    ]
    for row in rows:
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    expected = pd.read_excel(tmp_path / "t.xlsx")
    assert expected["failed"].isna().tolist() == [True, False, False]
    assert expected["whole"].dtype.kind == "i"
    pd.testing.assert_frame_equal(read_frame(tmp_path / "t.xlsx"), expected)
