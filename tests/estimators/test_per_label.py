"""Labels one by one: groups, rates, unit rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from hotvae.errors import ConfigError
from hotvae.estimators.per_label import (
    label_groups,
    label_rates,
    limited_threads,
    middle,
    squared_lengths,
    unit_rows,
    watch,
)

label_tables = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 8), st.integers(1, 6)), elements=st.sampled_from([0, 1, np.nan])
)


@settings(max_examples=40, deadline=None)
@given(label_tables)
def test_label_groups__any_table__hold_each_learnable_label_once_with_its_rows(labels):
    groups = label_groups(labels)
    placed = [label for group in groups for label in group.labels]
    learnable = [j for j in range(labels.shape[1]) if {0.0, 1.0} <= set(labels[:, j])]
    assert sorted(placed) == learnable
    for group in groups:
        for label in group.labels:
            assert group.rows.tolist() == [i for i in range(len(labels)) if not np.isnan(labels[i, label])]
    assert len({tuple(group.rows) for group in groups}) == len(groups)


@settings(max_examples=40, deadline=None)
@given(label_tables)
def test_label_rates__any_table__are_strictly_between_0_and_1(labels):
    rates = label_rates(labels)
    for j, rate in enumerate(rates):
        seen = labels[~np.isnan(labels[:, j]), j]
        assert rate == pytest.approx((seen.sum() + 0.5) / (len(seen) + 1))
        assert 0 < rate < 1


@settings(max_examples=40, deadline=None)
@given(hnp.arrays(np.float64, (4, 3), elements=st.sampled_from([0.0, 1.0, -2.0, 0.5])))
def test_unit_rows__dense_and_sparse__have_length_one_or_zero(rows):
    for made in (unit_rows(rows, True), unit_rows(sparse.csr_array(rows)).toarray()):
        lengths = np.sqrt((made**2).sum(axis=1))
        np.testing.assert_allclose(lengths, (rows != 0).any(axis=1).astype(float))
    np.testing.assert_allclose(squared_lengths(sparse.csr_array(rows)), (rows**2).sum(axis=1))


def test_unit_rows__not_wanted__leave_values_alone():
    rows = np.array([[3.0, 4.0]])
    assert unit_rows(rows) is rows
    np.testing.assert_array_equal(unit_rows(sparse.csr_array(rows), False).toarray(), rows)
    np.testing.assert_allclose(unit_rows(rows, True), [[0.6, 0.8]])


def test_unit_rows__wide_indices__become_narrow():
    rows = sparse.csr_array(np.eye(3))
    rows.indices, rows.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    made = unit_rows(rows)
    assert made.indices.dtype == made.indptr.dtype == np.int32


def test_watch__lines__shows_each_loss(capsys):
    assert watch(lambda step: step / 10, [1, 2], "lines", "demo") == [0.1, 0.2]
    assert capsys.readouterr().err.splitlines() == [
        "demo: setting 1/2  log loss 0.1000",
        "demo: setting 2/2  log loss 0.2000",
    ]


def test_watch__many_steps__a_line_for_each_tenth_by_the_name_of_the_steps(capsys):
    watch(float, range(1, 21), "lines", "demo", "label")
    shown = capsys.readouterr().err.splitlines()
    assert [line.split()[2] for line in shown] == [f"{n}/20" for n in (1, *range(2, 21, 2))]
    assert shown[-1] == "demo: label 20/20  log loss 20.0000"


def test_watch__unknown_style__is_refused():
    with pytest.raises(ConfigError, match="progress must be one of"):
        watch(float, [1], "loud", "demo")


def test_middle__of_an_even_number__is_the_lower_one():
    assert middle([1, 2, 3, 4]) == 2
    assert middle([7]) == 7


def test_limited_threads__none__changes_nothing():
    with limited_threads(None) as limits:
        assert limits is None
