"""Nearest rows: against a loop, and where distances tie."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from hotvae.baselines import nearest as neighbours
from hotvae.baselines.nearest import nearest_rows, neighbour_sums, smallest


def nearest_by_loop(queries, rows, n, skip_self=False):
    """Sort (distance, row number) for each query."""
    found = []
    for i, query in enumerate(queries):
        pairs = [(sum((query - row) ** 2), j) for j, row in enumerate(rows) if not (skip_self and i == j)]
        found.append(sorted(j for _, j in sorted(pairs)[:n]))
    return np.array(found).reshape(len(queries), n)


whole = st.integers(-3, 3).map(float)


@settings(max_examples=40, deadline=None)
@given(hnp.arrays(np.float64, (7, 2), elements=whole), st.integers(1, 6), st.booleans())
def test_nearest_rows__with_ties__are_those_of_the_loop(rows, n, skip_self):
    """Whole numbers: distances are exact, and ties are many."""
    expected = nearest_by_loop(rows, rows, n, skip_self)
    for table in (rows, sparse.csr_array(rows)):
        np.testing.assert_array_equal(nearest_rows(table, table, n, skip_self=skip_self), expected)


def test_nearest_rows__in_many_blocks__are_the_same(monkeypatch):
    rng = np.random.default_rng(0)
    queries, rows = rng.normal(size=(40, 5)), rng.normal(size=(60, 5))
    whole_table = nearest_rows(queries, rows, 4)
    monkeypatch.setattr(neighbours, "_CELLS_PER_BLOCK", 130)
    np.testing.assert_array_equal(nearest_rows(queries, rows, 4), whole_table)
    np.testing.assert_array_equal(whole_table, nearest_by_loop(queries, rows, 4))
    np.testing.assert_array_equal(
        nearest_rows(rows, rows, 3, skip_self=True), nearest_by_loop(rows, rows, 3, skip_self=True)
    )


@settings(max_examples=40, deadline=None)
@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 7)), elements=whole), st.data())
def test_smallest__any_table__is_a_stable_sort(values, data):
    n = data.draw(st.integers(0, values.shape[1]))
    expected = np.sort(np.argsort(values, axis=1, kind="stable")[:, :n], axis=1)
    np.testing.assert_array_equal(smallest(values, n), expected)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_neighbour_sums__two_neighbours__are_added(kind):
    table = kind(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    np.testing.assert_array_equal(neighbour_sums(np.array([[0, 2], [1, 2]]), table), [[2, 1], [1, 2]])
    np.testing.assert_array_equal(neighbour_sums(np.empty((2, 0), dtype=int), table), np.zeros((2, 2)))
