import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from hotvae.errors import ConfigError, DataError, DataWarning, ModelError
from hotvae.features.tokens import NOTHING, ActiveColumns, TokenRows

rows_of_tokens = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=6), min_size=1, max_size=8)


@given(rows_of_tokens, st.data())
def test_token_rows__chosen_and_padded__equal_the_lists(rows, data):
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=10))
    padded = TokenRows.from_lists(rows)[np.array(chosen, dtype=np.intp)].padded(6)
    assert padded.tolist() == [rows[i] + [0] * (6 - len(rows[i])) for i in chosen]


def test_token_rows__tokens_of_several_parts__padded_with_zeros():
    rows = TokenRows.from_lists([[(1, 7), (2, 8)], [(3, 9)]])
    assert rows.padded().tolist() == [[[1, 7], [2, 8]], [[3, 9], [0, 0]]]
    assert rows.shape == (2,)


def test_token_rows__row_without_token__error():
    with pytest.raises(DataError, match=r"every row must have a token; got none in row 1 \(and 0 more\)"):
        TokenRows.from_lists([[1], [], [2]])


# Active columns -------------------------------------------------------------------------------------------

TABLE = np.array([[1, 0, 1, 0, 0], [1, 1, 0, 0, 0], [1, 0, 1, 0, 1]])
FORMS = [
    np.asarray,
    sparse.csr_array,
    sparse.csr_matrix,
    sparse.csc_array,
    lambda table: pd.DataFrame(table, columns=list("abcde")),
]


@pytest.mark.parametrize("form", FORMS)
def test_active_columns__every_form_of_a_table__same_tokens(form):
    """Column 3 is active in no training row: it says nothing. Column i is token i + 2."""
    columns = ActiveColumns().fit(form(TABLE))
    rows = columns.transform(form(np.array([[1, 1, 1, 1, 1], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0], [0, 1, 0, 0, 0]])))
    assert rows.padded().tolist() == [[2, 3, 4, 6], [NOTHING, 0, 0, 0], [NOTHING, 0, 0, 0], [3, 0, 0, 0]]
    assert columns.n_features_out == 7


def test_active_columns__longer_than_allowed__keeps_the_rarest_columns():
    """Active in 3, 1, 2, 0, 1 rows: of columns 0, 1, 2, 4 the two rarest are 1 and 4; of 0 and 2 both fit."""
    columns = ActiveColumns(max_tokens=2).fit(TABLE)
    assert columns.transform(np.array([[1, 1, 1, 0, 1], [1, 0, 1, 0, 0]])).padded().tolist() == [[3, 6], [2, 4]]
    assert ActiveColumns(max_tokens=1).fit(TABLE).transform(np.array([[1, 1, 1, 0, 1]])).tokens.tolist() == [3]


def test_active_columns__explicit_zeros_and_repeated_cells__count_as_the_table_they_stand_for():
    """Stored cells: 1 in column 0, a stored 0 in column 1, and 2 - 2 = 0 in column 2."""
    odd = sparse.csr_array((np.array([1.0, 0.0, 2.0, -2.0]), np.array([0, 1, 2, 2]), np.array([0, 4])), shape=(1, 5))
    assert ActiveColumns().fit(TABLE).transform(odd).tokens.tolist() == [2]
    assert odd.nnz == 4, "the caller's array stays as it is"


@given(arrays(np.int8, (6, 7), elements=st.sampled_from([0, 0, 1])), st.integers(1, 7))
def test_active_columns__any_table__equals_a_loop_and_survives_json(table, max_tokens):
    train, new = table[:3], table[3:]
    columns = ActiveColumns(max_tokens).fit(train)
    again = ActiveColumns.from_state(json.loads(json.dumps(columns.state())))
    counts = train.sum(axis=0)
    for row, tokens in zip(new, columns.transform(new).padded(8).tolist(), strict=True):
        active = sorted((counts[i], i) for i in range(7) if row[i] and counts[i])[:max_tokens]
        expected = sorted(i + 2 for _, i in active) or [NOTHING]
        assert tokens == expected + [0] * (8 - len(expected))
    np.testing.assert_array_equal(again.transform(sparse.csr_array(new)).tokens, columns.transform(new).tokens)


def test_active_columns__frame_in_another_order__columns_are_found_by_name():
    frame = pd.DataFrame(TABLE, columns=list("abcde"))
    columns = ActiveColumns().fit(frame)
    np.testing.assert_array_equal(columns.transform(frame[list("edcba")]).tokens, columns.transform(frame).tokens)
    with pytest.raises(DataError, match=r"must have the column\(s\) 'e'"):
        columns.transform(frame.drop(columns="e"))


def test_active_columns__values_other_than_one__are_active_with_a_warning():
    with pytest.warns(DataWarning, match=r"values other than 0 and 1, such as 0\.5, are taken as active"):
        columns = ActiveColumns().fit(np.array([[0.5, 0.0], [1.0, 1.0]]))
    assert columns.transform(np.array([[0.0, -3.0]])).tokens.tolist() == [3]


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_active_columns__missing_or_infinite__error_names_the_cell(form, value):
    bad = np.array([[1.0, 0.0], [0.0, value], [1.0, value]])
    message = r"columns of a set must be observed; got (nan|inf) in column 'feature_1' \(rows 1, 2\). Fill"
    with pytest.raises(DataError, match=message):
        ActiveColumns().fit(form(bad))
    with pytest.raises(DataError, match=message):
        ActiveColumns().fit(np.eye(2)).transform(form(bad))


def test_active_columns__misuse__explained():
    with pytest.raises(DataError, match="columns of a set must be numbers; got text or categories in 'soil'"):
        ActiveColumns().fit(pd.DataFrame({"wet": [0, 1], "soil": ["clay", "sand"]}))
    with pytest.raises(DataError, match=r"features must have rows and columns; got shape \(0, 2\)"):
        ActiveColumns().fit(np.empty((0, 2)))
    with pytest.raises(DataError, match="features must have 5 columns, as in training; got 2"):
        ActiveColumns().fit(TABLE).transform(np.eye(2))
    with pytest.raises(ConfigError, match="transformer must be fitted before use"):
        ActiveColumns().transform(TABLE)
    with pytest.raises(ConfigError, match="max_tokens must be a whole number of at least 1; got True"):
        ActiveColumns(max_tokens=True).fit(TABLE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_active": [1]}, "one count per column; got 1 for 5 columns"),
        ({"n_active": "many"}, "set state must be complete; got ValueError"),
        ({"max_tokens": -1}, "set state must be complete; got ConfigError"),
    ],
)
def test_active_columns__damaged_state__refused(change, message):
    state = ActiveColumns().fit(TABLE).state()
    with pytest.raises(ModelError, match=message):
        ActiveColumns.from_state({**state, **change})
