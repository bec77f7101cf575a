"""Dataset: what it accepts, refuses, warns about, and how rows and labels are chosen."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from hotvae.data.dataset import (
    Dataset,
    check_finite,
    check_trainable,
    close_names,
    feature_kinds,
    numeric_matrix,
    single_class_labels,
    text_levels,
)
from hotvae.errors import DataError, DataWarning

X = np.array([[1.0, 5.0], [2.0, np.nan], [3.0, 7.0]])
Y = np.array([[0, 1], [1, 0], [1, 1]])


def test_dataset__arrays__names_made_up_and_labels_float32():
    data = Dataset(X, Y)
    assert data.feature_names == ("feature_0", "feature_1")
    assert data.label_names == ("label_0", "label_1")
    assert (data.n_samples, data.n_features, data.n_labels) == (3, 2, 2)
    assert data.labels.dtype == np.float32
    np.testing.assert_array_equal(data.labels, Y)
    assert data.features is X


def test_dataset__frames__names_and_plain_index_taken_over():
    frame = pd.DataFrame({"depth": [1.0, 2.0, 3.0], 7: ["a", "b", "a"]}, index=[5, 6, 7])
    labels = pd.DataFrame({"wren": [True, False, True], "owl": pd.array([0, None, 1], dtype="Int64")}, index=[5, 6, 7])
    data = Dataset(frame, labels)
    assert data.feature_names == ("depth", "7")
    assert list(data.features.index) == [0, 1, 2]
    assert data.label_names == ("wren", "owl")
    np.testing.assert_array_equal(data.labels, [[1, 0], [0, np.nan], [1, 1]])
    assert frame.index.tolist() == [5, 6, 7], "the caller's frame is left alone"


@pytest.mark.parametrize("labels", [np.array([0, 1, 1]), pd.Series([0, 1, 1], name="wren"), [False, True, True]])
def test_dataset__one_label_in_one_dimension__is_one_column(labels):
    data = Dataset(X, labels)
    assert data.labels.tolist() == [[0], [1], [1]]
    check_trainable(data)


def test_dataset__sparse_matrix__kept_as_canonical_csr_without_touching_the_input():
    twice = sparse.csr_matrix((np.array([1.0, 2.0, 4.0]), np.array([1, 1, 0]), np.array([0, 2, 3, 3])), shape=(3, 2))
    data = Dataset(twice, sparse.csr_array(Y))
    assert isinstance(data.features, sparse.csr_array)
    np.testing.assert_array_equal(data.features.toarray(), [[0, 3], [4, 0], [0, 0]])
    assert twice.nnz == 3
    np.testing.assert_array_equal(data.labels, Y)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"features": np.empty((0, 2)), "labels": np.empty((0, 2))},
            r"at least 1 row; got 0 rows \(empty table\)",
        ),
        ({"features": np.empty((3, 0))}, "at least 1 feature column; got 0 features"),
        ({"labels": np.empty((3, 0))}, "at least 1 label column; got 0 labels"),
        ({"labels": Y[:2]}, "labels must have as many rows as features; got 2 rows for 3"),
        ({"features": X[0]}, r"features must be a table with 2 dimensions; got 1.*Reshape your data"),
        ({"labels": np.zeros((3, 1, 1))}, "labels must be a table with 2 dimensions; got 3"),
        ({"feature_names": ("a", "a")}, "feature_names must be unique; got duplicate 'a'"),
        ({"label_names": ("a", "b", "c")}, "label_names must name each of the 2 columns; got 3 names"),
        ({"label_names": ("owl", "owl")}, "label_names must be unique; got duplicate 'owl'"),
        ({"features": [["a", "b"]] * 3}, "features must be numbers; got could not convert"),
        ({"features": X * 1j}, "features must be real numbers; got complex128"),
        ({"coordinates": np.zeros((3, 3))}, r"coordinates must have shape \(3, 2\); got \(3, 3\)"),
        ({"coordinates": [[0, 0], [0, np.nan], [1, 1]]}, r"coordinates must be finite; .*rows 1"),
        ({"coordinates": [["a", "b"]] * 3}, "coordinates must be numbers; got could not convert"),
        ({"coordinate_names": ("x",)}, "coordinate_names must be 2 different names; got 'x'"),
        ({"groups": [1, 2]}, "groups must have as many rows as features; got 2 rows for 3"),
        ({"groups": [1, None, 2]}, r"groups must be known for every row; got missing ones \(rows 1\)"),
        ({"row_names": [[1], [2], [3]]}, "row_names must have 1 dimension; got 2"),
        (
            {"features": pd.DataFrame(X), "feature_names": ("a", "b")},
            "feature_names must equal the frame's columns",
        ),
        (
            {"labels": pd.DataFrame({"wren": ["yes", "no", "no"]})},
            "labels must be 0 or 1; got 'yes' in column 'wren'",
        ),
    ],
)
def test_dataset__input_that_does_not_fit__says_what_and_where(given, message):
    with pytest.raises(DataError, match=message):
        Dataset(**{"features": X, "labels": Y, **given})


def test_dataset__label_not_zero_or_one__names_column_rows_and_remedy():
    labels = np.zeros((40, 2))
    labels[[14, 20, 21, 22, 23, 30, 31], 1] = 2
    with pytest.raises(DataError) as caught:
        Dataset(np.arange(40.0)[:, None], labels, label_names=("owl", "Turdus merula"))
    assert str(caught.value) == (
        "labels must be 0 or 1; got 2.0 in column 'Turdus merula' (rows 14, 20, 21, 22, 23, +2 more). "
        "Counts? Pass presence=True."
    )


def test_dataset__label_a_hair_off_one__is_refused_before_rounding():
    with pytest.raises(DataError, match=r"got 1.0000000000000002 in column 'label_0' \(rows 0\), and 1 more columns"):
        Dataset(X, np.array([[1 + 2**-52, 0.5], [0, 1], [1, 0]]))


@pytest.mark.parametrize("container", [np.asarray, lambda a: pd.DataFrame(a, columns=["slope", "aspect"])])
def test_dataset__infinite_feature__names_column_and_rows(container):
    values = X.copy()
    values[[0, 2], 1] = [np.inf, -np.inf]
    names = () if container is not np.asarray else ("slope", "aspect")
    with pytest.raises(DataError, match=r"got inf \(infinity\) in column 'aspect' \(rows 0, 2\)\. Correct these cells"):
        Dataset(container(values), Y, feature_names=names)


def test_check_finite__nan_in_sparse__names_column_and_row():
    matrix = sparse.csr_array(np.array([[0, 1.0, 0], [0, 0, 2.0], [3.0, 0, np.nan], [0, 0, np.nan]]))
    with pytest.raises(DataError, match=r"sparse features must be finite; got nan .* in column 'c' \(rows 2, 3\)"):
        check_finite(matrix, ("a", "b", "c"))


@pytest.mark.parametrize("container", [np.asarray, lambda a: pd.DataFrame(a)])
def test_dataset__all_missing_columns__refused(container):
    with pytest.raises(DataError, match=r"feature columns must have values; got only missing ones in '(feature_)?1'"):
        Dataset(container(np.where([True, False], X, np.nan)), Y)
    with pytest.raises(DataError, match="labels must be observed somewhere; got only missing values in 'label_0'"):
        Dataset(X, np.where([False, True], Y, np.nan))


@pytest.mark.parametrize("container", [np.asarray, lambda a: pd.DataFrame(a), sparse.csr_array])
def test_dataset__constant_columns__warns_with_names(container):
    with pytest.warns(DataWarning, match=r"one value throughout in '(feature_)?1'\. Drop"):
        Dataset(container(np.array([[1.0, 4.0], [2.0, 4.0], [3.0, 4.0]])), Y)


def test_dataset__one_row_or_same_value_with_gaps__is_not_called_constant():
    Dataset(X[:1], Y[:1])
    Dataset(np.array([[1.0], [np.nan], [1.0]]), Y)


def test_repr__counts_rows_density_and_gaps():
    labels = np.array([[0, 1], [np.nan, 0], [1, 1]])
    assert repr(Dataset(X, labels, name="birds")) == (
        "Dataset 'birds': 3 rows × 2 features × 2 labels (label density 0.6, missing: 1 feature values, 1 labels)"
    )


@pytest.mark.parametrize("container", [np.asarray, pd.DataFrame, sparse.csr_array])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_take__twice__equals_taking_composed_rows(container, data):
    rng = np.random.default_rng(0)
    everything = Dataset(
        container(rng.normal(size=(8, 3))),
        rng.integers(2, size=(8, 2)),
        coordinates=rng.normal(size=(8, 2)),
        groups=list("aabbccdd"),
        row_names=np.arange(8),
    )
    first = np.array(data.draw(st.lists(st.integers(0, 7), min_size=1, max_size=10)))
    second = np.array(data.draw(st.lists(st.integers(0, len(first) - 1), max_size=6)), dtype=int)
    one, two = everything.take(first[second]), everything.take(first).take(second)
    assert one.row_names.tolist() == first[second].tolist()
    for field in ("features", "labels", "coordinates", "groups", "row_names"):
        left, right = getattr(one, field), getattr(two, field)
        if sparse.issparse(left):
            left, right = left.toarray(), right.toarray()
        np.testing.assert_array_equal(np.asarray(left), np.asarray(right))
    mask = np.isin(np.arange(8), first)
    assert everything.take(mask).row_names.tolist() == np.flatnonzero(mask).tolist()


def test_take__slice_and_empty_list__work():
    data = Dataset(X, Y)
    assert data.take(slice(1, None)).n_samples == 2
    assert data.take([]).n_samples == 0


def test_dataset__frozen_and_picklable():
    data = Dataset(X, Y, name="birds")
    with pytest.raises(AttributeError):
        data.name = "other"
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(data)).labels, Y)


def test_drop_labels__unknown_or_all__refused():
    data = Dataset(X, Y, label_names=("wren", "owl"))
    assert data.drop_labels(["wren"]).labels.tolist() == [[1], [0], [1]]
    with pytest.raises(DataError, match=r"must be labels of this data set; got 'wrn' \(close: 'wren'\)"):
        data.drop_labels(["wrn"])
    with pytest.raises(DataError, match="at least 1 label must remain"):
        data.drop_labels(["wren", "owl"])


def test_check_trainable__single_class_labels__named_with_prevalence_and_remedy():
    labels = np.array([[0, 1, 0, np.nan], [0, 1, 1, 1], [np.nan, 1, 1, 0]])
    data = Dataset(X, labels, label_names=("owl", "wren", "finch", "kite"))
    assert single_class_labels(data) == {"owl": 0, "wren": 1}
    with pytest.raises(
        DataError,
        match=r"1 class in 'owl', 'wren' \(prevalence 0, prevalence 1\)\. Drop them: drop_single_class=True",
    ):
        check_trainable(data)
    check_trainable(data.drop_labels(["owl", "wren"]))
    assert single_class_labels(data.take([0, 0])) == {"owl": 0, "wren": 1, "finch": 0, "kite": None}


def test_check_trainable__one_row__refused():
    with pytest.raises(DataError, match="at least 2 rows; got 1 row"):
        check_trainable(Dataset(X[:1], Y[:1]))


def test_feature_kinds__every_supported_type__is_told_apart():
    frame = pd.DataFrame(
        {
            "float": [1.5, 2.0],
            "int": [1, 2],
            "nullable": pd.array([1, None], dtype="Int64"),
            "bool": [True, False],
            "gaps": pd.Series([True, None], dtype=object),
            "text": ["a", "b"],
            "object": pd.Series(["a", None], dtype=object),
            "category": pd.Categorical([1, 2]),
        }
    )
    assert feature_kinds(frame) == ("numeric",) * 5 + ("categorical",) * 3
    np.testing.assert_array_equal(numeric_matrix(frame.iloc[:, :5]), [[1.5, 1, 1, 1, 1], [2.0, 2, np.nan, 0, np.nan]])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            pd.to_datetime(["2020-01-01", "2020-02-01"]),
            r"got datetime64.* in column 'when'\. Turn dates into numbers",
        ),
        (pd.Series([1, "a"], dtype=object), "got mixed-integer in column 'when'. Make all its cells numbers"),
        (pd.Series([1, 2], dtype=object), "got integer in column 'when'. Make all its cells numbers"),
    ],
)
def test_feature_kinds__dates_or_mixed_objects__refused(column, message):
    with pytest.raises(DataError, match=message):
        feature_kinds(pd.DataFrame({"when": column}))


def test_text_levels__floats_and_integers__share_names():
    codes, levels = text_levels(pd.Series([2.0, np.nan, 10.5]))
    assert codes.tolist() == [0, -1, 1]
    assert levels == ["2", "10.5"]
    assert text_levels(pd.Series([2, 3]))[1] == ["2", "3"]


def test_close_names__nothing_close__says_nothing():
    assert close_names(["zzz"], ["elevation"]) == ""


def test_with_coordinates_as_features__array__appended_in_order():
    data = Dataset([[1.0], [2.0]], [[0], [1]], feature_names=("depth",), coordinates=[[7.0, 50.0], [8.0, 51.0]])
    wider = data.with_coordinates_as_features()
    assert wider.features.tolist() == [[1.0, 7.0, 50.0], [2.0, 8.0, 51.0]]
    assert wider.feature_names == ("depth", "x", "y")
    assert wider.coordinates.tolist() == data.coordinates.tolist()


def test_with_coordinates_as_features__none_or_sparse__errors():
    plain = Dataset([[1.0]], [[0]])
    with pytest.raises(DataError, match="coordinates must be there to be features"):
        plain.with_coordinates_as_features()
    bag = replace(plain, features=sparse.csr_array([[1.0]]), coordinates=np.array([[0.0, 1.0]]))
    with pytest.raises(DataError, match="features must be a dense table to take coordinates"):
        bag.with_coordinates_as_features()
