"""Tables: every format in, every bad file and column refused with a remedy, and predictions out."""

import gzip
import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from hotvae.data.scaling import FeatureScaler
from hotvae.data.tables import (
    align_columns,
    check_kinds,
    dataset_from_frame,
    read_features,
    read_frame,
    read_table,
    write_table,
)
from hotvae.errors import ConfigError, DataError, DataWarning

SITES = """site,depth,soil,lon,lat,sp_wren,sp_owl
007,1.5,clay,8,47,1,0
008,,sand,9,48,0,1
009,2.5,clay,10,49,1,
"""


@pytest.fixture
def write(tmp_path):
    """Write text or bytes into a fresh file and return its path."""

    def write_file(content, name="sites.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


def real_data(name):
    folder = os.environ.get("HOTVAE_DATA_DIR")
    if not folder or not (Path(folder) / name).exists():
        pytest.skip(f"{name} is not in HOTVAE_DATA_DIR")
    return Path(folder) / name


# --- read_frame: formats ---------------------------------------------------------------------------------


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_read_frame__csv_of_any_delimiter_and_line_end__same_frame(write, delimiter, ending):
    path = write("a,b,c\n1,x,0.1\n2,,0.2\n".replace(",", delimiter).replace("\n", ending))
    expected = pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": [0.1, 0.2]})
    pd.testing.assert_frame_equal(read_frame(path), expected, check_dtype=False)


def test_read_frame__semicolons_with_commas_inside__delimiter_from_whole_lines(write):
    path = write('"merula, L.";b;c,d\n1;2;3\n4;5;6\n')
    assert read_frame(path).columns.tolist() == ["merula, L.", "b", "c,d"]


def test_read_frame__decimal_commas__read_on_request(write):
    path = write("a;b\n1,5;2\n2,5;3\n")
    assert read_frame(path, decimal=",")["a"].tolist() == [1.5, 2.5]


def test_read_frame__gzip_and_tsv_and_byte_order_mark__read(write):
    assert read_frame(write(gzip.compress(b"a,b\n1,2\n"), "s.csv.gz")).columns.tolist() == ["a", "b"]
    assert read_frame(write("a,x\tb\n1\t2\n", "s.tsv")).columns.tolist() == ["a,x", "b"]
    assert read_frame(write("\ufeffa,b\n1,2\n", "t.csv")).columns.tolist() == ["a", "b"]


def test_read_frame__quoted_delimiters_and_line_breaks__kept_in_the_cell(write):
    assert read_frame(write('a,b\n"x,\ny",2\n'))["a"].tolist() == ["x,\ny"]


def test_read_frame__blank_lines_and_true_false__read(write):
    frame = read_frame(write("a,b\n1,True\n\n2,\n"))
    assert frame["a"].tolist() == [1, 2]
    assert frame["b"].iloc[0] is True


def test_read_frame__latin1_on_request__read(write):
    path = write("höhe,b\n1,2\n".encode("latin-1"))
    assert read_frame(path, encoding="latin-1").columns.tolist() == ["höhe", "b"]


def test_read_frame__parquet_with_named_index__index_becomes_a_column(tmp_path):
    frame = pd.DataFrame({"a": [1.5, 2.5]}, index=pd.Index(["x", "y"], name="site"))
    frame.to_parquet(tmp_path / "s.parquet")
    assert read_frame(tmp_path / "s.parquet").columns.tolist() == ["site", "a"]
    frame.reset_index(drop=True).iloc[[1]].to_parquet(tmp_path / "t.parquet")
    assert read_frame(tmp_path / "t.parquet").to_dict("list") == {"a": [2.5]}


def test_read_frame__dense_npz__features_then_labels(tmp_path):
    np.savez(tmp_path / "s.npz", X=[[1.0], [2.0]], Y=[[0], [1]], species_names=["wren"])
    assert read_frame(tmp_path / "s.npz").to_dict("list") == {"feature_0": [1.0, 2.0], "wren": [0, 1]}
    np.savez(tmp_path / "t.npz", X=[[1.0], [2.0]], feature_names=["depth"])
    assert read_frame(tmp_path / "t.npz").to_dict("list") == {"depth": [1.0, 2.0]}


# --- read_frame: ARFF ------------------------------------------------------------------------------------

ARFF = """% a comment
@RELATION 'some birds'
@attribute 'tree height' numeric
@ATTRIBUTE soil {clay, 'fine sand', "it's"}
@attribute wren {0,1}
@attribute owl {TRUE,FALSE}
@attribute note string
@data
1.5, 'fine sand', 0, TRUE, 'a, b'
% another
?, "it's", 1, FALSE, ?
-2e1,clay,?,FALSE,'it\\'s'
"""


def test_read_arff__dense__numbers_levels_quotes_and_gaps(write):
    frame = read_frame(write(ARFF, "birds.arff"))
    assert frame.columns.tolist() == ["tree height", "soil", "wren", "owl", "note"]
    np.testing.assert_array_equal(frame["tree height"], [1.5, np.nan, -20])
    assert frame["soil"].tolist() == ["fine sand", "it's", "clay"]
    assert frame["soil"].cat.categories.tolist() == ["clay", "fine sand", "it's"]
    np.testing.assert_array_equal(frame["wren"], [0, 1, np.nan])
    np.testing.assert_array_equal(frame["owl"], [1, 0, 0])
    assert frame["note"].iloc[[0, 2]].tolist() == ["a, b", "it's"]
    assert frame["note"].isna().tolist() == [False, True, False]


def test_read_arff__sparse_numbers__features_stay_sparse(write):
    path = write(
        "@relation r\n@attribute w1 numeric\n@attribute w2 {0,1}\n@attribute tag {0,1}\n@data\n"
        "{0 2.5, 2 1}\n{}\n{1 1}\n",
        "words.arff",
    )
    data = read_table(path, labels="tag")
    assert isinstance(data.features, sparse.csr_array)
    np.testing.assert_array_equal(data.features.toarray(), [[2.5, 0], [0, 0], [0, 1]])
    assert data.labels.tolist() == [[1], [0], [0]]


def test_read_arff__sparse_numbers_with_gaps__dense_with_nan(write):
    path = write("@relation r\n@attribute a real\n@attribute b real\n@data\n{1 ?}\n{0 3}\n", "r.arff")
    np.testing.assert_array_equal(read_frame(path), [[0, np.nan], [3, 0]])


def test_read_arff__sparse_with_levels_and_gaps__omitted_is_zero_or_the_first_level(write):
    path = write(
        "@relation r\n@attribute a real\n@attribute b {x,y}\n@attribute c {1,0}\n@data\n{1 y}\n{0 ?, 2 0}\n",
        "r.arff",
    )
    frame = read_frame(path)
    np.testing.assert_array_equal(frame["a"], [0, np.nan])
    assert frame["b"].tolist() == ["y", "x"]
    assert frame["c"].tolist() == [1, 0]


HEAD = "@relation r\n@attribute a numeric\n@attribute b {x,y}\n@data\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "1,x\nhigh,y\n", r"column 'a' must hold numbers; got 'high' \(line 6 of"),
        (HEAD + "1,z\n", r"column 'b' must hold one of 'x', 'y'; got 'z' \(line 5 of"),
        (HEAD + "1,x,3\n", r"rows must have 2 fields; got 3 \(line 5"),
        (HEAD + "{2 x}\n", r"columns 0 to 1; got '2 x' \(line 5"),
        (HEAD + "{0 1}, {2.0}\n", r"one pair of braces, without weight; .* \(line 5"),
        (
            "@relation r\n@attribute a relational\n@data\n1\n",
            r"attribute 'a' must be numeric, .* got 'relational' \(line 2",
        ),
        ("@relation r\n@attribute\n@data\n", r"must read '@attribute name type'; .* \(line 2"),
        (
            "@relation r\nnonsense\n",
            r"header must hold @relation, @attribute and @data; got 'nonsense' \(line 2",
        ),
        ("@relation r\n@attribute a numeric\n", "ARFF must have @attribute and @data lines"),
        (
            "@relation r\n@attribute a real\n@attribute a real\n@data\n1,2\n",
            "column names must be unique; got duplicate 'a'",
        ),
        (HEAD, "got 0 rows"),
    ],
)
def test_read_arff__bad_line__named(write, text, message):
    with pytest.raises(DataError, match=message):
        read_frame(write(text, "bad.arff"))


# --- read_frame: bad files -------------------------------------------------------------------------------


def test_read_frame__no_such_file__suggests_a_close_one(write):
    path = write(SITES)
    with pytest.raises(DataError, match=r"existing file; got .*site\.csv' \(not found\) \(close: 'sites.csv'\)"):
        read_frame(path.with_name("site.csv"))


def test_read_frame__folder_or_unknown_suffix__refused(write, tmp_path):
    with pytest.raises(DataError, match="table must be a file; got the folder"):
        read_frame(tmp_path)
    with pytest.raises(DataError, match=r"table must be one of .csv, .*; got 'sites.xlsx'. Convert it to CSV"):
        read_frame(write("a", "sites.xlsx"))
    with pytest.raises(DataError, match="got 'sites'"):
        read_frame(write("a", "sites"))


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_read_frame__empty_file__refused(write, content):
    with pytest.raises(DataError, match="got an empty file"):
        read_frame(write(content))


def test_read_frame__header_alone__is_an_empty_table(write):
    with pytest.raises(DataError, match=r"got 0 rows in .*empty table"):
        read_frame(write("a,b\n"))


@pytest.mark.parametrize("name", ["s.parquet", "s.npz", "s.csv.gz"])
@pytest.mark.parametrize("keep", [0.5, 0.98])
def test_read_frame__truncated_file__refused(tmp_path, name, keep):
    path = tmp_path / name
    values = np.random.default_rng(0).normal(size=(200, 3))
    if name.endswith(".npz"):
        np.savez_compressed(path, X=values, Y=values > 0)
    else:
        write_table(pd.DataFrame(values, columns=list("abc")), path)
    raw = path.read_bytes()
    path.write_bytes(raw[: int(len(raw) * keep)])
    with pytest.raises(DataError, match=r"table must be readable; got .*truncated or corrupt: .*anew"):
        read_frame(path)


@pytest.mark.parametrize("name", ["s.parquet", "s.npz", "s.csv.gz"])
def test_read_frame__foreign_bytes__refused(write, name):
    with pytest.raises(DataError, match="truncated or corrupt"):
        read_frame(write(b"this is something else altogether", name))


def test_read_frame__single_array_named_npz__refused(tmp_path):
    with (tmp_path / "s.npz").open("wb") as file:
        np.save(file, np.eye(2))
    with pytest.raises(DataError, match="truncated or corrupt"):
        read_frame(tmp_path / "s.npz")


def test_read_frame__npz_with_pickled_objects__refused(tmp_path):
    np.savez(tmp_path / "s.npz", X=np.array([{}], dtype=object))
    with pytest.raises(DataError, match="allow_pickle=False"):
        read_frame(tmp_path / "s.npz")


def test_read_frame__not_utf8__names_byte_line_and_remedy(write):
    path = write("site,wren\nK\xfcste,1\n".encode("latin-1"))
    with pytest.raises(
        DataError,
        match=r"must be utf-8; got byte 0xfc \(byte 11, line 2 of .*Save the file as UTF-8, or .*latin-1",
    ):
        read_frame(path)


def test_read_frame__unknown_encoding_or_binary__refused(write):
    with pytest.raises(ConfigError, match="encoding must be one Python knows; got 'klingon'"):
        read_frame(write(SITES), encoding="klingon")
    with pytest.raises(DataError, match="got a binary file"):
        read_frame(write("a,b\n1,2\n".encode("utf-16-le")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n1,2,3\n", r"got 3 instead of 2 \(line 3 of"),
        ("a,b,c\n1,2,3\n\n1,2\n", r"got 2 instead of 3 \(line 4 of"),
        ('a,b\n"x, y",2\n1\n', r"got 1 instead of 2 \(line 3 of"),
        ("# a remark\na,b\n1,2\n", r"got 2 instead of 1 \(line 2 of"),
        ('a,b\n"x,2\n1,2\n', r"quotes must be closed; got .* \(line 2 of"),
    ],
)
def test_read_frame__ragged_rows_or_open_quotes__line_named(write, text, message):
    with pytest.raises(DataError, match=message):
        read_frame(write(text))


def test_read_frame__row_names_without_header__not_taken_as_index(write):
    with pytest.raises(DataError, match=r"got 3 instead of 2 \(line 2"):
        read_frame(write("a,b\nx,1,2\ny,3,4\n"))


def test_read_frame__duplicate_columns__refused_in_every_format(write, tmp_path):
    for delimiter in ",;":
        with pytest.raises(DataError, match="column names must be unique; got duplicate 'a'"):
            read_frame(write("a,b,a\n1,2,3\n".replace(",", delimiter)))
    np.savez(tmp_path / "s.npz", X=[[1.0]], Y=[[1]], feature_names=["a"], label_names=["a"])
    with pytest.raises(DataError, match="got duplicate 'a'"):
        read_frame(tmp_path / "s.npz")


# --- read_table: roles -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels", ["sp_*", "sp_wren,sp_owl", ["sp_owl", "sp_wren"], ["sp_w*", "sp_owl"], "sp_????*,sp_owl"]
)
def test_read_table__labels_by_name_list_or_glob__same_data(write, labels):
    data = read_table(write(SITES), labels=labels, id_column="site", coordinates=("lon", "lat"))
    assert data.feature_names == ("depth", "soil")
    assert data.label_names == ("sp_wren", "sp_owl")
    np.testing.assert_array_equal(data.labels, [[1, 0], [0, 1], [1, np.nan]])
    np.testing.assert_array_equal(data.coordinates, [[8, 47], [9, 48], [10, 49]])
    assert data.coordinate_names == ("lon", "lat")
    assert data.row_names.tolist() == ["007", "008", "009"], "ids keep their leading zeros"
    assert data.name == "sites"


def test_read_table__coordinates_as_features_groups_and_drop__each_in_its_place(write):
    data = read_table(
        write(SITES),
        labels="sp_owl",
        groups="soil",
        coordinates="lon,lat",
        coordinates_as_features=True,
        drop=["site", "sp_wren"],
        name="birds",
    )
    assert data.feature_names == ("depth", "lon", "lat")
    assert data.groups.tolist() == ["clay", "sand", "clay"]
    assert data.name == "birds"


def test_read_table__counts__presence_on_request_else_refused(write):
    path = write("x,wren,owl\n1,0,2\n2,31,\n3,1,0\n")
    np.testing.assert_array_equal(
        read_table(path, labels="wren,owl", presence=True).labels, [[0, 1], [1, np.nan], [1, 0]]
    )
    with pytest.raises(DataError, match=r"got 31.0 in column 'wren' \(rows 1\), and 1 more columns\. Counts\?"):
        read_table(path, labels="wren,owl")
    with pytest.raises(DataError, match=r"counts must be 0 or more; got -1.0 in column 'wren' \(rows 1\)"):
        read_table(write("x,wren\n1,0\n2,-1\n"), labels="wren", presence=True)


def test_read_table__labels_as_booleans_or_text_numbers__read(tmp_path):
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "a": [True, False, True], "b": ["1", "0", None]})
    frame["c"] = pd.Series([True, None, False], dtype=object)
    frame.to_parquet(tmp_path / "s.parquet")
    np.testing.assert_array_equal(
        read_table(tmp_path / "s.parquet", labels="a,b,c").labels, [[1, 1, 1], [0, 0, np.nan], [1, np.nan, 0]]
    )


def test_read_table__text_labels__refused_with_cells_and_rows(write):
    with pytest.raises(
        DataError,
        match=r"labels must be 0 or 1; got text 'yes', 'no' in column 'wren' \(rows 0, 1\)\. Recode it",
    ):
        read_table(write("x,wren\n1,yes\n2,no\n"), labels="wren")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"labels": "sp_wran"}, DataError, r"labels must match a column; got 'sp_wran' \(close: 'sp_wren'"),
        ({"labels": "bird*"}, DataError, r"got 'bird\*' \(columns: 'site', 'depth', .*\+2 more\)"),
        ({}, ConfigError, "labels must name the label columns; got none"),
        (
            {"labels": "site", "id_column": "site"},
            DataError,
            "labels must not have another role; got 'site' twice",
        ),
        (
            {"labels": "sp_*", "drop": "dept"},
            DataError,
            r"drop must match a column; got 'dept' \(close: 'depth'\)",
        ),
        (
            {"labels": "sp_*", "id_column": "sites"},
            DataError,
            r"must have the column\(s\) 'sites'; .*\(close: 'site'\)",
        ),
        (
            {"labels": "sp_*", "groups": "sol"},
            DataError,
            r"must have the column\(s\) 'sol'; .*\(close: 'soil'",
        ),
        ({"labels": "sp_*", "coordinates": "lon"}, ConfigError, "coordinates must be 2 columns; got 'lon'"),
        (
            {"labels": "sp_*", "coordinates": "lon,soil"},
            DataError,
            "coordinates must be numbers; got text in 'soil'",
        ),
        (
            {"labels": "sp_*", "coordinates": "lon,depth"},
            DataError,
            r"coordinates must be finite; .*\(rows 1\)",
        ),
        (
            {"labels": "sp_*", "drop": "site,depth,soil,l*"},
            DataError,
            "at least 1 feature column; got 0 features",
        ),
    ],
)
def test_read_table__roles_that_do_not_fit__explained(write, arguments, error, message):
    with pytest.raises(error, match=message):
        read_table(write(SITES), **arguments)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (
            ["1", "2", "n/a?", "4"],
            r"column 'x' must hold numbers throughout; got text 'n/a\?' \(rows 2\)\. Correct",
        ),
        (["1.5", "2", "12;5", "4"], r"got text '12;5' \(rows 2\)"),
        (
            ['"1,5"', '"2,5"', '"3,5"', "4"],
            r"got text '1,5', '2,5', '3,5' \(rows 0, 1, 2\)\. Decimal commas\? Pass decimal",
        ),
        (
            ["2020-05-01", "2020-05-02", "2020-05-03", ""],
            "must hold numbers or categories; got dates such as '2020-05-01'",
        ),
        (["1.5.2020", "2.5.2020", "3.5.2020", "x"], "got dates such as '1.5.2020'"),
    ],
)
def test_read_table__numbers_or_dates_in_disguise__refused(write, cells, message):
    rows = "".join(f"{cell},{i % 2},{i}\n" for i, cell in enumerate(cells))
    with pytest.raises(DataError, match=message):
        read_table(write("x,wren,z\n" + rows), labels="wren")


def test_read_table__numbers_stored_as_text__refused(tmp_path):
    frame = pd.DataFrame({"x": ["1", "2"], "wren": [0, 1]})
    with pytest.raises(DataError, match="column 'x' must hold numbers throughout; got numbers stored as text"):
        dataset_from_frame(frame, labels="wren")
    assert dataset_from_frame(frame.astype({"x": "category"}), labels="wren").n_features == 1, (
        "declared categories pass"
    )


def test_read_table__identifier_among_features__refused_until_named(write):
    path = write("name,x,wren\n" + "".join(f"plot {i},{i / 7},{i % 2}\n" for i in range(60)))
    with pytest.raises(DataError, match=r"got 60 distinct texts in 60 rows \('plot 0', 'plot 1', \+58 more\)"):
        read_table(path, labels="wren")
    assert read_table(path, labels="wren", id_column="name").feature_names == ("x",)


def test_read_table__free_text__taken_as_it_is(write):
    path = write("text,wren\n" + "".join(f"a wren sang {i} times,{i % 2}\n" for i in range(60)))
    with pytest.raises(DataError, match=r"an identifier or free text\. .* choose an encoder for texts or molecules"):
        read_table(path, labels="wren")
    data = read_table(path, labels="wren", free_text=True)
    assert data.features["text"].tolist() == [f"a wren sang {i} times" for i in range(60)]


def test_read_table__column_without_name__refused_until_dropped(write):
    path = write('"",x,wren\n1,0.5,0\n2,0.7,1\n')
    with pytest.raises(DataError, match=r"columns must have names; got 1 without, read as 'Unnamed: 0'"):
        read_table(path, labels="wren")
    assert read_table(path, labels="wren", drop="Unnamed: 0").feature_names == ("x",)


# --- read_table: two tables ------------------------------------------------------------------------------


def test_read_table__label_table__joined_by_id_in_the_order_of_the_first(write):
    sites = write("site,depth\n01,1\n02,2\n10,3\n", "a.csv")
    birds = write("owl,site,wren\n0,10,1\n1,01,0\n0,02,0\n", "b.csv")
    data = read_table(sites, label_table=birds, id_column="site")
    assert data.label_names == ("owl", "wren")
    assert data.labels.tolist() == [[1, 0], [0, 0], [0, 1]]
    assert data.row_names.tolist() == ["01", "02", "10"]
    assert read_table(sites, label_table=birds, id_column="site", labels="w*").labels.tolist() == [
        [0],
        [0],
        [1],
    ]


def test_dataset_from_frame__number_ids_and_text_ids__join():
    left = pd.DataFrame({"site": [1.0, 2.0], "depth": [5, 6]})
    right = pd.DataFrame({"site": ["2", "1"], "wren": [0, 1]})
    assert dataset_from_frame(left, label_frame=right, id_column="site").labels.tolist() == [[1], [0]]


@pytest.mark.parametrize(
    ("birds", "arguments", "error", "message"),
    [
        (
            "site,wren\nA,1\nC,0\nD,1\n",
            {"id_column": "site"},
            DataError,
            r"got 1 only in the first \('B'\) and 2 only in the label table \('C', 'D'\)\. Correct these ids",
        ),
        (
            "site,wren\nA,1\nA,0\nB,1\n",
            {"id_column": "site"},
            DataError,
            r"unique to join.*'A' more than once .*label table",
        ),
        (
            "site,wren\nA,1\n,0\n",
            {"id_column": "site"},
            DataError,
            r"ids must be known .* column 'site' \(rows 1\)",
        ),
        ("plot,wren\nA,1\nB,0\n", {"id_column": "site"}, DataError, r"must have the column\(s\) 'site'"),
        (
            "site,wren\nA,1\nB,0\n",
            {},
            ConfigError,
            "label_table must be joined by a column; got no id_column",
        ),
        (
            "site,depth\nA,1\nB,0\n",
            {"id_column": "site"},
            DataError,
            "labels must not be features; got 'depth' in both",
        ),
    ],
)
def test_read_table__label_table_that_does_not_join__explained(write, birds, arguments, error, message):
    sites = write("site,depth\nA,1\nB,2\n", "a.csv")
    with pytest.raises(error, match=message):
        read_table(sites, label_table=write(birds, "b.csv"), **arguments)


# --- npz -------------------------------------------------------------------------------------------------


def save_csr(path, matrix, **others):
    parts = {
        "X_data": matrix.data,
        "X_indices": matrix.indices,
        "X_indptr": matrix.indptr,
        "X_shape": matrix.shape,
    }
    np.savez(path, **parts, **others)


def test_read_table__npz_with_everything__all_parts_found(tmp_path):
    path = tmp_path / "s.npz"
    np.savez(
        path,
        X=np.array([[1.0, 2.0], [3.0, 5.0]], dtype=np.float32),
        Y=np.array([[0, 4], [1, 0]], dtype=np.uint8),
        feature_names=["a", "b"],
        species_names=["wren", "owl"],
        coords=[[1.0, 2.0], [3.0, 4.0]],
        coord_names=["longitude", "latitude"],
        site_ids=["s1", "s2"],
        route=["r1", "r1"],
    )
    data = read_table(path, labels="owl", drop="a", groups="route", presence=True)
    assert data.features.tolist() == [[2], [5]]
    assert data.features.dtype == np.float32
    assert data.labels.tolist() == [[1], [0]]
    assert data.coordinate_names == ("longitude", "latitude")
    assert data.row_names.tolist() == ["s1", "s2"]
    assert data.groups.tolist() == ["r1", "r1"]
    with pytest.raises(DataError, match="npz must hold 'rout'; got 'X', 'Y'"):
        read_table(path, groups="rout", presence=True)
    with pytest.raises(ConfigError, match="must be left out for an npz"):
        read_table(path, coordinates="a,b")


def test_read_table__npz_csr__stays_csr(tmp_path):
    matrix = sparse.random_array((6, 5), density=0.5, format="csr", rng=np.random.default_rng(1))
    save_csr(tmp_path / "s.npz", matrix, Y=np.eye(6, 2))
    data = read_table(tmp_path / "s.npz")
    assert isinstance(data.features, sparse.csr_array)
    np.testing.assert_array_equal(data.features.toarray(), matrix.toarray())
    with pytest.raises(DataError, match="a frame must be dense; got the sparse file"):
        read_frame(tmp_path / "s.npz")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"Y": [[1]]}, "npz must hold X, or X_data, X_indices, X_indptr and X_shape; got 'Y'"),
        ({"X": [[1.0]]}, "npz must hold the labels as Y; got 'X'"),
        ({"X": [1.0], "Y": [[1]]}, "X must have 2 dimensions; got 1"),
        (
            {"X": [[1.0]], "Y": [[1]], "feature_names": ["a", "b"]},
            "feature_names must name each of the 1 columns of X",
        ),
        (
            {"X": [[1.0]], "Y": [[1]], "label_names": ["a", "b"]},
            "label_names must name each of the 1 columns of Y",
        ),
        (
            {"X_data": [1.0], "X_indices": [9], "X_indptr": [0, 1], "X_shape": [1, 2], "Y": [[1]]},
            "truncated or corrupt",
        ),
    ],
)
def test_read_table__npz_with_parts_that_do_not_fit__explained(tmp_path, arrays, message):
    np.savez(tmp_path / "s.npz", **{key: np.array(value) for key, value in arrays.items()})
    with pytest.raises(DataError, match=message):
        read_table(tmp_path / "s.npz")


# --- read_features ---------------------------------------------------------------------------------------


def test_read_features__columns_selected_reordered_and_indexed_by_id(write):
    path = write("sp_wren,soil,site,depth\n1,01,007,2\n0,clay,008,3\n")
    frame = read_features(
        path,
        feature_names=("depth", "soil"),
        kinds=("numeric", "categorical"),
        ignore=["sp_wren", "sp_owl"],
        id_column="site",
    )
    assert frame.columns.tolist() == ["depth", "soil"]
    assert frame["soil"].tolist() == ["01", "clay"]
    assert frame.index.tolist() == ["007", "008"]


def test_read_features__level_codes_alone__stay_text(write):
    frame = read_features(write("soil\n01\n02\n"), feature_names=["soil"], kinds=["categorical"])
    assert frame["soil"].tolist() == ["01", "02"]


def test_read_features__missing_or_unknown_column__named_with_remedy(write):
    path = write("depht,soil,slope\n1,2,3\n")
    with pytest.raises(DataError, match=r"must have the column\(s\) 'depth', 'z'; got none .*\(close: 'depht'\)"):
        read_features(path, feature_names=["depth", "soil", "z"])
    with pytest.raises(
        DataError, match=r"got unknown column\(s\) 'depht', 'slope'\. Remove them, or pass --ignore-unknown"
    ):
        read_features(path, feature_names=["soil"])
    assert read_features(path, feature_names=["soil"], ignore_unknown=True).shape == (1, 1)
    with pytest.raises(DataError, match=r"must have the column\(s\) 'site'"):
        read_features(path, feature_names=["soil"], id_column="site", ignore_unknown=True)


def test_read_features__text_where_numbers_were__refused(write):
    path = write("depth,b\n1,x\ndeep,y\n3,z\n")
    with pytest.raises(
        DataError, match=r"column 'depth' must hold numbers, as in training; got text 'deep' \(rows 1\)"
    ):
        read_features(path, feature_names=["depth"], ignore=["b"])


def test_check_kinds__numbers_or_nothing_in_a_categorical_column__accepted():
    check_kinds(pd.DataFrame({"a": [1, 2], "b": [np.nan, np.nan]}), ["categorical", "categorical"])


def test_read_features__npz__dense_frame_or_csr_by_name(tmp_path):
    matrix = np.array([[1.0, 0.0, 3.0], [0.0, 5.0, 6.0]])
    np.savez(tmp_path / "d.npz", X=matrix, feature_names=["a", "b", "c"], Y=[[1], [0]], site_ids=["s", "t"])
    frame = read_features(tmp_path / "d.npz", feature_names=["c", "a"], ignore=["b"], id_column="site_ids")
    assert frame.to_dict("list") == {"c": [3, 6], "a": [1, 0]}
    assert frame.index.tolist() == ["s", "t"]
    save_csr(tmp_path / "s.npz", sparse.csr_array(matrix), feature_names=["a", "b", "c"])
    found = read_features(tmp_path / "s.npz", feature_names=["c", "a"], ignore_unknown=True)
    assert isinstance(found, sparse.csr_array)
    np.testing.assert_array_equal(found.toarray(), matrix[:, [2, 0]])
    with pytest.raises(DataError, match=r"unknown column\(s\) 'b'"):
        read_features(tmp_path / "s.npz", feature_names=["c", "a"])


@given(order=st.permutations(["depth", "soil", "wet", "sp_wren"]))
@settings(max_examples=15, deadline=None)
def test_read_features__any_column_order__same_matrix(tmp_path_factory, order):
    rng = np.random.default_rng(3)
    table = pd.DataFrame(
        {
            "depth": rng.normal(size=12),
            "soil": rng.choice(["clay", "sand", "peat"], size=12),
            "wet": rng.integers(2, size=12) == 1,
            "sp_wren": rng.integers(2, size=12),
        }
    )
    scaler = FeatureScaler().fit(table[["depth", "soil", "wet"]])
    path = tmp_path_factory.mktemp("order") / "new.csv"
    write_table(table[order], path)
    found = read_features(path, feature_names=scaler.feature_names_in, kinds=scaler.kinds, ignore=["sp_wren"])
    np.testing.assert_array_equal(scaler.transform(found), scaler.transform(table[["depth", "soil", "wet"]]))


def test_align_columns__numbers_as_names__matched_as_text():
    assert align_columns(pd.DataFrame([[1, 2]]), ["1", "0"]).to_dict("list") == {"1": [2], "0": [1]}


# --- write_table -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.csv.gz", "p.parquet"])
def test_write_table__read_back__same_bits_and_nothing_else_in_the_folder(tmp_path, name):
    frame = pd.DataFrame({"a": np.random.default_rng(0).random(50), "b": ["x", "y"] * 25})
    write_table(frame, tmp_path / name)
    pd.testing.assert_frame_equal(read_frame(tmp_path / name), frame, check_exact=True)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_write_table__failure__leaves_the_old_file_and_no_part(tmp_path, monkeypatch):
    path = tmp_path / "p.csv"
    write_table(pd.DataFrame({"a": [1]}), path)

    def fail(self, target, **options):
        Path(target).write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", fail)
    with pytest.raises(DataError, match=r"where one can write; got .*No space left on device"):
        write_table(pd.DataFrame({"a": [2]}), path)
    assert path.read_text() == "a\n1\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["p.csv"]


def test_write_table__unknown_suffix_or_no_folder__refused(tmp_path):
    with pytest.raises(DataError, match=r"path must end in .csv, .*; got 'p.xlsx'"):
        write_table(pd.DataFrame({"a": [1]}), tmp_path / "p.xlsx")
    for name in ("none/p.csv", "none/p.parquet"):
        with pytest.raises(DataError, match="table must go where one can write"):
            write_table(pd.DataFrame({"a": [1]}), tmp_path / name)


# --- real data -------------------------------------------------------------------------------------------


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "shape", "cardinality", "sparse_features", "n_rows_with_gaps"),
    [
        ("yeast.npz", (2417, 103, 14), 4.237, False, 0),
        ("bibtex.npz", (7395, 1836, 159), 2.402, True, 0),
        ("bbs_clark2003_2009.npz", (15863, 29, 303), None, False, 3029),
        ("norberg_birds.npz", (1200, 5, 141), None, False, 0),
    ],
)
def test_read_table__real_npz__documented_shape(name, shape, cardinality, sparse_features, n_rows_with_gaps):
    data = read_table(real_data(name))
    assert (data.n_samples, data.n_features, data.n_labels) == shape
    assert isinstance(data.features, sparse.csr_array) is sparse_features
    if cardinality is not None:
        assert data.labels.sum(axis=1).mean() == pytest.approx(cardinality, abs=5e-4)
    if not sparse_features:
        assert np.isnan(data.features).any(axis=1).sum() == n_rows_with_gaps
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        matrix = FeatureScaler().fit(data.features, data.feature_names).transform(data.features)
    assert sparse.issparse(matrix) is sparse_features
    assert np.isfinite(matrix.data if sparse_features else matrix).all()


@pytest.mark.data
def test_read_table__real_npz_groups_and_coordinates__taken_by_key():
    data = read_table(real_data("bbs_clark2003_2009.npz"), groups="route")
    assert data.coordinate_names == ("Longitude", "Latitude")
    assert len(data.groups) == 15863
    assert len(np.unique(data.groups)) < 15863
