"""What becomes of every column: labels by range and file, joins, what is left out, what looks like a species."""

import numpy as np
import pandas as pd
import pytest

from hotvae import read_table
from hotvae.data.tables import read_with_roles
from hotvae.errors import DataError, DataWarning

TABLE = pd.DataFrame(
    {
        "site": ["a", "b", "c", "d"],
        "depth": [1.5, 2.0, 2.5, 0.5],
        "owl": [1, 0, 1, 0],
        "wren": [0, 0, 1, 1],
        "frog": [1, 1, 0, 0],
        "soil": [0.1, 0.2, 0.3, 0.4],
    }
)


def test_read_table__frame__is_what_its_file_is(tmp_path):
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    from_file, from_frame = (
        read_table(source, labels="owl:frog", id_column="site") for source in (tmp_path / "t.csv", TABLE)
    )
    np.testing.assert_array_equal(from_file.labels, from_frame.labels)
    assert from_file.feature_names == from_frame.feature_names == ("depth", "soil")
    assert from_frame.row_names.tolist() == list("abcd")
    by_index = read_table(TABLE.set_index("site"), labels="owl:frog", id_column="site")
    assert by_index.row_names.tolist() == list("abcd")
    with pytest.raises(DataError, match="table must have at least 1 row; got 0 rows"):
        read_table(TABLE.iloc[:0], labels="owl")


def test_labels__ranges__are_neighbours_in_the_table():
    assert read_table(TABLE, labels="wren:frog", drop="site,owl").label_names == ("wren", "frog")
    assert read_table(TABLE, labels=["frog:frog", "owl"], drop="site,wren").label_names == ("owl", "frog")
    with pytest.raises(DataError, match="labels must be a range from left to right; got 'frog:owl'"):
        read_table(TABLE, labels="frog:owl")
    with pytest.raises(DataError, match="labels must match a column; got 'owl:toad'"):
        read_table(TABLE, labels="owl:toad")
    odd = TABLE.rename(columns={"owl": "a:b"})
    assert read_table(odd, labels="a:b", drop="site,wren,frog").label_names == ("a:b",)
    assert read_table(odd, labels="a:b:frog", drop="site").label_names == ("a:b", "wren", "frog")


def test_labels__from_a_file__one_name_a_line(tmp_path):
    names = tmp_path / "species.txt"
    names.write_text("\ufeff# of the region\nfrog\n\n  owl \n", encoding="utf-8")
    assert read_table(TABLE, labels=f"@{names}", drop="site,wren").label_names == ("owl", "frog")
    names.write_text("frog, common\n")
    renamed = TABLE.rename(columns={"frog": "frog, common"})
    assert read_table(renamed, labels=f"@{names}", drop="site,owl,wren").label_names == ("frog, common",)
    names.write_text("# nothing\n")
    with pytest.raises(DataError, match="file of names must have a name on each line; got none"):
        read_table(TABLE, labels=f"@{names}")
    with pytest.raises(DataError, match=r"file of names must be readable UTF-8 text; got '.*none\.txt' \(No such file"):
        read_table(TABLE, labels=f"@{tmp_path / 'none.txt'}")
    names.write_text("frgo\n")
    with pytest.raises(DataError, match=r"labels must match a column; got 'frgo' \(close: 'frog'\)"):
        read_table(TABLE, labels=f"@{names}")


def test_roles__every_column__has_exactly_one():
    data, roles = read_with_roles(
        TABLE.assign(x=[0.0, 1.5, 2.0, 3.0], y=1.25, block=[1, 1, 2, 2]),
        labels="owl:frog",
        id_column="site",
        coordinates="x,y",
        groups="block",
        drop="soil",
    )
    assert roles.features == data.feature_names == ("depth",)
    assert roles.labels == data.label_names
    assert roles.left_out == {
        "site": "row ids",
        "soil": "dropped",
        "x": "coordinates",
        "y": "coordinates",
        "block": "groups",
    }
    assert roles.lines() == [
        "features (1): depth",
        "labels (3): owl, wren, frog",
        "left out (5): site (row ids), soil (dropped), x (coordinates), y (coordinates), block (groups)",
    ]


def test_features__that_look_like_species__are_all_named():
    columns = {
        "Turdus merula": [0, 1, 0, 1],  # a name like a species'
        "sp_rat": [0, 1, 1, 1],  # a name like the labels'
        "mice": [0, 12, 0, 3],  # counts
        "is_wet": [0, 1, 0, 1],
        "year": [2019, 2020, 2021, 2022],
        "depth": [0.0, 0.0, 1.5, 2.5],
        "houses": [0, 1, 2, 3],  # one zero is no sign
    }
    with pytest.warns(
        DataWarning, match=r"got 3 that look like counts or presences: 'Turdus merula', 'sp_rat', 'mice'\. Are"
    ):
        read_table(pd.DataFrame(columns).assign(sp_owl=[0, 1, 0, 1]), labels="sp_owl")


def test_join__inner__says_how_many_are_lost():
    labels = TABLE[["site", "owl", "wren"]].iloc[[2, 0, 1]].assign(site=["c", "a", "z"])
    features = TABLE[["site", "depth"]]
    with pytest.raises(
        DataError, match=r"got 2 only in the first \('b', 'd'\) and 1 only in the label table \('z'\).*join='inner'"
    ):
        read_table(features, label_table=labels, id_column="site")
    data, roles = read_with_roles(features, label_table=labels, id_column="site", join="inner")
    assert data.row_names.tolist() == ["a", "c"]
    assert data.labels.tolist() == [[1, 0], [1, 1]]
    assert data.features["depth"].tolist() == [1.5, 2.5]
    assert roles.notes == ("join inner: 2 rows only in the first table and 1 only in the label table are left out",)
    with pytest.raises(DataError, match="must be in both tables; got none"):
        read_table(features, label_table=labels.assign(site=["x", "y", "z"]), id_column="site", join="inner")


def test_presence__ebird_x__is_a_presence_in_wide_tables():
    table = TABLE.assign(owl=["X", "0", "3", None])
    data = read_table(table, labels="owl", drop="site,wren,frog", presence=True)
    np.testing.assert_array_equal(data.labels[:, 0], [1, 0, 1, np.nan])
    with pytest.raises(DataError, match=r"labels must be 0 or 1; got text 'X' in column 'owl'.*Pass presence=True"):
        read_table(table, labels="owl")
