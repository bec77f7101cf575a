"""Parquet tables in pieces: every row once, samples from everywhere, groups whole."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotvae.data.parquet import ParquetTable, RowGroup
from hotvae.errors import DataError


@pytest.fixture(scope="module")
def frame():
    n_rows = 3000
    site = np.repeat([f"site {i}" for i in range(n_rows // 5)], 5)
    return pd.DataFrame({"row": np.arange(n_rows), "site": site, "depth": np.arange(n_rows) / 7})


@pytest.fixture(scope="module")
def table(frame, tmp_path_factory):
    path = tmp_path_factory.mktemp("parquet") / "sites.parquet"
    frame.to_parquet(path, row_group_size=700)
    return ParquetTable(path)


def test_frames__pieces_of_all_row_groups__are_the_table(table, frame):
    pieces = [piece for group in table.row_groups for piece in table.frames(group, rows_at_once=300)]
    assert [first for first, _ in pieces] == [int(piece["row"].iloc[0]) for _, piece in pieces]
    assert max(len(piece) for _, piece in pieces) == 300
    pd.testing.assert_frame_equal(pd.concat([piece for _, piece in pieces], ignore_index=True), frame)


@given(n_rows=st.integers(1, 50), n_parts=st.integers(1, 60))
def test_cut__any_number_of_parts__each_row_once_and_none_empty(n_rows, n_parts):
    parts = RowGroup("file", 2, 100, n_rows, skipped=3).cut(n_parts)
    rows = [row for part in parts for row in range(part.first, part.first + part.n_rows)]
    assert rows == list(range(100, 100 + n_rows))
    assert all(part.n_rows > 0 and part.skipped - 3 == part.first - 100 for part in parts)
    assert len({part.n_rows for part in parts}) <= 2


def test_frames__part_of_a_row_group__its_rows_alone(table):
    middle = table.row_groups[1].cut(3)[1]
    rows = pd.concat([piece for _, piece in table.frames(middle, rows_at_once=50)])["row"]
    assert rows.tolist() == list(range(middle.first, middle.first + middle.n_rows))


def test_sample__same_seed__same_rows_from_everywhere(table):
    drawn = table.sample(600, seed=1)
    assert (
        drawn["row"].tolist() == table.sample(600, seed=1)["row"].tolist() != table.sample(600, seed=2)["row"].tolist()
    )
    assert drawn["row"].is_monotonic_increasing
    assert drawn["row"].is_unique
    assert abs(len(drawn) - 600) < 4 * np.sqrt(600)  # a binomial count
    shares = np.histogram(drawn["row"], bins=5, range=(0, 3000))[0] / 120
    assert (abs(shares - 1) < 0.35).all()  # a fifth of the table has 120 of them, with a deviation of 10


def test_sample__groups__whole_or_not_there(table, frame):
    drawn = table.sample(600, seed=1, groups="site")
    assert 550 < len(drawn) <= 600
    assert (drawn.groupby("site").size() == 5).all()
    assert drawn.equals(frame.iloc[drawn["row"]].reset_index(drop=True))
    assert set(drawn["site"]) != set(table.sample(600, seed=2, groups="site")["site"])


def test_sample__groups_larger_than_the_sample__said(tmp_path):
    pd.DataFrame({"site": ["a"] * 50 + ["b"] * 50}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"groups must be small enough for a sample of 20 rows; got none .*'site'"):
        ParquetTable(tmp_path / "t.parquet").sample(20, seed=0, groups="site")


def test_folder__of_files__is_one_table(table, frame, tmp_path):
    for number, part in enumerate(np.array_split(np.arange(len(frame)), 3)):
        frame.iloc[part].to_parquet(tmp_path / f"part-{number}.parquet", row_group_size=400)
    folder = ParquetTable(tmp_path)
    pieces = [piece for group in folder.row_groups for _, piece in folder.frames(group)]
    pd.testing.assert_frame_equal(pd.concat(pieces, ignore_index=True), frame)
    assert folder.identity() != table.identity()


def test_folder__other_columns__named(frame, tmp_path):
    frame.to_parquet(tmp_path / "a.parquet")
    frame.rename(columns={"depth": "slope"}).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"same columns; got 'depth', 'slope' in one of a\.parquet and b\.parquet only"):
        ParquetTable(tmp_path)


def test_index_of_pandas__is_no_column(frame, tmp_path):
    frame.set_axis(np.arange(len(frame))[::-1] * 2).to_parquet(tmp_path / "t.parquet")
    table = ParquetTable(tmp_path / "t.parquet")
    assert table.columns == ["row", "site", "depth"]
    assert next(table.frames(table.row_groups[0]))[1].columns.tolist() == ["row", "site", "depth"]


@pytest.mark.parametrize(("content", "message"), [(b"no table", "readable Parquet"), (None, "readable Parquet")])
def test_no_parquet__said(tmp_path, content, message):
    if content is not None:
        (tmp_path / "t.parquet").write_bytes(content)
    with pytest.raises(DataError, match=message):
        ParquetTable(tmp_path / "t.parquet")


def test_nothing_there__said(tmp_path, frame):
    with pytest.raises(DataError, match=r"folder must hold \.parquet files; got none"):
        ParquetTable(tmp_path)
    frame.iloc[:0].to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="at least 1 row; got 0"):
        ParquetTable(tmp_path / "t.parquet")
