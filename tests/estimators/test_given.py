"""Given labels as a user names them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given as for_any
from hypothesis import strategies as st

from hotvae import Dataset
from hotvae.baselines.chains import LabelChain
from hotvae.errors import DataError, DataWarning
from hotvae.estimators.given import whole_given

NAN = np.nan
NAMES = ["owl", "wren", "frog"]


def test_whole_given__mapping__one_value_for_all_rows_or_one_each():
    table = whole_given({"frog": [1, None], "owl": 0}, NAMES, 2)
    assert list(table.columns) == NAMES
    np.testing.assert_array_equal(table.to_numpy(dtype=float), [[0, NAN, 1], [0, NAN, NAN]])


def test_whole_given__frame_of_some_labels_in_another_order__is_filled_up():
    table = whole_given(pd.DataFrame({"frog": [1.0, 0.0], "owl": [NAN, 1.0]}, index=[7, 3]), NAMES, 2)
    np.testing.assert_array_equal(table.to_numpy(dtype=float), [[NAN, NAN, 1], [1, NAN, 0]])


@for_any(st.permutations(NAMES), st.integers(1, 3), st.integers(1, 4))
def test_whole_given__any_part_in_any_order__keeps_every_value(order, n_given, n_rows):
    some = order[:n_given]
    values = np.random.default_rng(0).integers(0, 2, (n_rows, n_given))
    frame = whole_given(pd.DataFrame(values, columns=some), NAMES, n_rows)
    mapping = whole_given(dict(zip(some, values.T, strict=True)), NAMES, n_rows)
    for table in (frame, mapping):
        np.testing.assert_array_equal(table[some].to_numpy(dtype=float), values)
        assert table.drop(columns=some).isna().all(axis=None)


@pytest.mark.parametrize("given", [{"wrne": 1}, pd.DataFrame({"owl": [1], "wrne": [1]})])
def test_whole_given__unknown_name__is_refused_with_close_ones(given):
    with pytest.raises(DataError, match=r"given must name labels of the model; got 'wrne' .*wren"):
        whole_given(given, NAMES, 1)


def test_whole_given__names_for_labels_without_names__says_what_to_do():
    with pytest.raises(DataError, match=r"got 'wren' \(labels: 'label_0', 'label_1'\).*Its labels had no names: train"):
        whole_given({"wren": 1}, ["label_0", "label_1"], 1, is_named=False)
    numbered = whole_given(pd.DataFrame([[1, NAN]]), ["label_0", "label_1"], 1, is_named=False)
    np.testing.assert_array_equal(numbered, [[1, NAN]])
    made_up = whole_given({"label_1": 0}, ["label_0", "label_1"], 1, is_named=False)
    np.testing.assert_array_equal(made_up, [[NAN, 0]])


def test_whole_given__wrong_length_twice_or_nothing__is_refused():
    with pytest.raises(
        DataError, match=r"one value for each of the 2 rows of X, or one for all; got shape \(3,\) for 'owl'"
    ):
        whole_given({"owl": [1, 0, 1]}, NAMES, 2)
    with pytest.raises(DataError, match="given must name each label once, and one at least; got 'owl', 'owl'"):
        whole_given(pd.DataFrame([[1, 0]], columns=["owl", "owl"]), NAMES, 1)
    with pytest.raises(DataError, match="one at least; got no name"):
        whole_given({}, NAMES, 1)


def test_whole_given__frame_that_lost_its_values__warns():
    lost = pd.DataFrame([{"sp_wren": 1}], columns=NAMES)  # pandas keeps the columns it is told, and drops the value
    with pytest.warns(DataWarning, match=r"given should hold a known label; got none.*given=\{'owl': 1\}"):
        whole_given(lost, NAMES, 1)


def test_predict_proba__given_some_labels_by_name__equals_the_whole_table():
    random = np.random.default_rng(0)
    X = random.normal(size=(80, 2))
    first = X[:, 0] + random.normal(size=80) > 0
    data = Dataset(X, np.column_stack([first, first, X[:, 1] > 0]), label_names=NAMES, coordinates=X)
    model = LabelChain(random_state=0).fit(data)
    rows = data.take([0, 1, 2])
    whole = model.predict_proba(rows, given=[[NAN, 1, NAN]] * 3)
    assert (whole[:, 1] == 1).all()
    np.testing.assert_array_equal(model.predict_proba(rows, given={"wren": 1}), whole)
    np.testing.assert_array_equal(model.predict_proba(rows, given=pd.DataFrame({"wren": [1, 1, 1]})), whole)
    drawn = model.sample(rows, 4, random_state=0, given={"wren": 1})
    np.testing.assert_array_equal(drawn[:, :, 1], 1)
    with pytest.raises(DataError, match="given must name labels of the model; got 'sp_wren'"):
        model.predict_proba(rows, given={"sp_wren": 1})
