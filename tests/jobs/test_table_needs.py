"""Columns that a model needs of a table: labels that are given, joined by id or row by row."""

import numpy as np
import pandas as pd
import pytest

from hotvae import HotVAEClassifier
from hotvae.errors import DataError
from hotvae.jobs.table_needs import TableNeeds

NAN = np.nan
SITES = pd.Index(["a", "b", "c"], name="site")
NUMBERS = pd.RangeIndex(3, name="row")


@pytest.fixture
def needs():
    return TableNeeds(["depth"], ["numeric"], ["wren", "robin", "owl"], ignored=frozenset(["lon"]))


def table_of(tmp_path, text):
    path = tmp_path / "seen.csv"
    path.write_text(text)
    return path


def test_read_given__id_column__joined_by_it_and_the_rest_unknown(needs, tmp_path):
    found = needs.read_given(table_of(tmp_path, "owl,site,wren\n1,c,\n,a,0\n"), SITES)
    np.testing.assert_array_equal(found, [[0, NAN, NAN], [NAN, NAN, NAN], [NAN, NAN, 1]])


def test_read_given__numbers_as_ids__are_text_in_both(needs, tmp_path):
    found = needs.read_given(table_of(tmp_path, "site,wren\n07,1\n7,0\n"), pd.Index(["7", "07", "8"], name="site"))
    np.testing.assert_array_equal(found[:, 0], [0, 1, NAN])


def test_read_given__no_ids__row_by_row_or_by_the_number_that_predict_writes(needs, tmp_path):
    by_order = needs.read_given(table_of(tmp_path, 'robin\n1\n0\n""\n'), NUMBERS)
    np.testing.assert_array_equal(by_order[:, 1], [1, 0, NAN])
    by_number = needs.read_given(table_of(tmp_path, "row,robin\n2,1\n"), NUMBERS)
    np.testing.assert_array_equal(by_number[:, 1], [NAN, NAN, 1])


def test_read_given__whole_training_table__features_and_coordinates_are_passed_over(needs, tmp_path):
    found = needs.read_given(table_of(tmp_path, "depth,lon,wren,owl\n5,6,1,\n5,7,,\n4,8,0,\n"), NUMBERS)
    np.testing.assert_array_equal(found, [[1, NAN, NAN], [NAN, NAN, NAN], [0, NAN, NAN]])


def test_read_given__counts__are_presences_where_they_were_in_training(needs, tmp_path):
    path = table_of(tmp_path, 'wren\n7\n0\n""\n')
    with pytest.raises(DataError, match=r"labels must be 0 or 1; got 7.0 in column 'wren' \(rows 0\)"):
        needs.read_given(path, NUMBERS)
    found = needs.read_given(path, NUMBERS, presence=True)
    np.testing.assert_array_equal(found[:, 0], [1, 0, NAN])


def test_read_given__nothing_in_any_cell__nothing_known(needs, tmp_path):
    assert np.isnan(needs.read_given(table_of(tmp_path, "site,wren\na,\n"), SITES)).all()


@pytest.mark.parametrize(
    ("text", "ids", "message"),
    [
        ("wrne\n1\n1\n1\n", NUMBERS, r"got unknown column\(s\) 'wrne' \(close: 'wren'\) \(seen.csv\)"),
        ("site,wren\na,1\n", NUMBERS, r"got unknown column\(s\) 'site' .*Ids are joined by id_column='NAME'"),
        ("site,depth\na,1\n", SITES, "got none of them among 'site', 'depth'"),
        ("wren\n1\n", NUMBERS, r"must have the rows of the table, 3; got 1 \(seen.csv\). Add the missing rows"),
        ("site,wren\na,1\na,0\n", SITES, r"got 'a' more than once \(column 'site' of the seen.csv\)"),
        ("site,wren\nz,1\n", SITES, r"ids of given labels must be in the table; got 'z' \(column 'site' of seen.csv\)"),
        ("wren\nyes\n0\n1\n", NUMBERS, "labels must be 0 or 1; got text 'yes' in column 'wren'"),
    ],
)
def test_read_given__tables_that_do_not_fit__are_named(needs, tmp_path, text, ids, message):
    with pytest.raises(DataError, match=message):
        needs.read_given(table_of(tmp_path, text), ids)


def test_read_given__ids_twice_in_the_table__cannot_be_joined(needs, tmp_path):
    path = table_of(tmp_path, "site,wren\na,1\n")
    with pytest.raises(DataError, match=r"ids must be unique to join tables; got 'a' more than once .*of the table"):
        needs.read_given(path, pd.Index(["a", "a"], name="site"))


def test_of_model__columns_of_a_plan__read_as_numbers_or_text_and_left_out_ones_need_not_be_there(tmp_path):
    """A model saved from Python has no notes of its table: the plan of its columns speaks for them."""
    rows = np.arange(60)
    frame = pd.DataFrame({"plot_id": rows, "day": pd.date_range("2020-01-01", periods=60, freq="11D").astype(str)})
    frame = frame.assign(soil=np.resize(["clay", "loam", "07"], 60), depth=rows % 7 + 0.5, pH=7.0)
    labels = pd.DataFrame({"wren": rows % 2, "owl": (rows % 3 == 0).astype(int)})
    model = HotVAEClassifier(effort="quick", random_state=0).fit(frame, labels)
    needs = TableNeeds.of_model(model)
    assert needs.kinds == ["categorical", "categorical", "categorical", "numeric", "numeric"]
    assert needs.unused == {"plot_id", "pH"}
    frame.drop(columns=["plot_id", "pH"]).to_csv(tmp_path / "t.csv", index=False)
    features, _ = needs.read_features(tmp_path / "t.csv")
    np.testing.assert_array_equal(model.predict_proba(features), model.predict_proba(frame))
    with pytest.raises(DataError, match=r"table must have the column\(s\) 'depth'"):
        needs.features_of(frame.drop(columns="depth"))


def test_features_of__missing_id__is_refused():
    needs = TableNeeds(["depth"], ["numeric"], ["wren"], id_column="site")
    frame = pd.DataFrame({"site": ["a", None], "depth": [1.0, 2.0]})
    with pytest.raises(
        DataError, match=r"ids must be known for every row; got missing ones in column 'site' \(rows 11"
    ):
        needs.features_of(frame, first_row=10)
