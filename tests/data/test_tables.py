"""What columns mean: every role, and every column that does not fit refused with a remedy."""

import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from hotvae.data.aligned import align_columns, check_kinds, read_features
from hotvae.data.frames import read_frame, write_table
from hotvae.data.tables import dataset_from_frame, read_table
from hotvae.errors import ConfigError, DataError, DataWarning
from hotvae.features.scaling import FeatureScaler

SITES = """site,depth,soil,lon,lat,sp_wren,sp_owl
007,1.5,clay,8,47,1,0
008,,sand,9,48,0,1
009,2.5,clay,10,49,1,
"""


def real_data(name):
    folder = os.environ.get("HOTVAE_DATA_DIR")
    if not folder or not (Path(folder) / name).exists():
        pytest.skip(f"{name} is not in HOTVAE_DATA_DIR")
    return Path(folder) / name


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
            r"got text '1,5', '2,5', '3,5' \(rows 0, 1, 2\)\. Decimal commas\? Pass decimal=','",
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
    with pytest.raises(DataError, match=r"an identifier or free text\. .* choose an encoder that reads texts"):
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
            "a table of labels must be joined by a column; got none",
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
    with pytest.raises(DataError, match="table must be dense here; got the sparse file"):
        read_frame(tmp_path / "s.npz")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"Y": [[1]]}, "npz must hold X, or X_data, X_indices, X_indptr and X_shape; got 'Y'"),
        ({"X": [[1.0]]}, "npz must hold the labels as Y; got 'X'"),
        ({"X": [1.0], "Y": [[1]]}, "X must have 2 dimensions; got 1"),
        (
            {"X": [[1.0]], "Y": [[1]], "feature_names": ["a", "b"]},
            "feature_names must be 1 names, one per column",
        ),
        (
            {"X": [[1.0]], "Y": [[1]], "label_names": ["a", "b"]},
            "label_names must be 1 names, one per column",
        ),
        (
            {"X_data": [1.0], "X_indices": [9], "X_indptr": [0, 1], "X_shape": [1, 2], "Y": [[1]]},
            "truncated or corrupt",
        ),
        (  # ended the process once: SciPy's check takes it for an empty table
            {"X_data": [1.0], "X_indices": [0], "X_indptr": [0, 2**60, 0], "X_shape": [2, 1], "Y": [[1], [0]]},
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
        DataError, match=r"got unknown column\(s\) 'depht', 'slope'\. Remove them, or pass ignore_unknown=True"
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


def test_read_table__infinite_count__is_refused():
    table = pd.DataFrame({"depth": [1.0, 2.0], "wren": [0.0, np.inf]})
    with pytest.raises(DataError, match=r"counts must be finite; got infinity in column 'wren' \(rows 1\)"):
        read_table(table, labels="wren", presence=True)


def test_align_columns__many_columns__each_is_looked_up_once():
    """Names that count how often they are compared: a search through all names for each would take 4,000,000."""
    compared = []

    class Name(str):
        __hash__ = str.__hash__

        def __eq__(self, other):
            compared.append(1)
            return str.__eq__(self, other)

    names = [f"f{i}" for i in range(2000)]
    frame = pd.DataFrame(np.zeros((1, 2000)), columns=names)
    assert list(align_columns(frame, [Name(name) for name in names[::-1]]).columns) == names[::-1]
    assert len(compared) < 100_000
