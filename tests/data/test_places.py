"""Degrees: told by names and numbers, and distances on the sphere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hotvae.data.places import EARTH_RADIUS, degree_columns, on_sphere, to_degrees


def test_degree_columns__names_and_numbers__both_count():
    assert degree_columns(["decimalLatitude", "decimalLongitude"], [[50, 10]]) == (1, 0)
    assert degree_columns(["lon", "lat"], [[500000, 200000]]) is None
    assert degree_columns(["x", "y"], [[1, 2]]) is None


def test_degree_columns__gaps__do_not_count():
    assert degree_columns(["lon", "lat"], [[np.nan, 50], [10, np.nan]]) == (0, 1)


@pytest.mark.parametrize(
    ("one", "other", "kilometres"),
    [
        ((0, 90), (77, 90), 0),
        ((0, 0), (180, 0), 2 * EARTH_RADIUS),
        ((180, 10), (-180, 10), 0),
        ((5, 0), (5, 1), 111.19),
    ],
)
def test_on_sphere__two_places__are_as_far_apart_as_by_hand(one, other, kilometres):
    here, there = on_sphere(np.array([one, other], dtype=float))
    assert np.linalg.norm(here - there) == pytest.approx(kilometres, abs=0.01)


@given(arrays(np.float64, (5, 2), elements=st.floats(-0.99, 0.99)), st.floats(0.1, 10))
def test_to_degrees__points_at_any_height__is_where_they_came_from(shares, height):
    places = shares * (180, 90)
    np.testing.assert_allclose(to_degrees(height * on_sphere(places)), places, atol=1e-9)
