import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotvae.data.tokens import TokenRows
from hotvae.errors import DataError

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
