"""Where the sun stands: against known times of noon."""

from datetime import date

import numpy as np
import pytest

from hotvae.geo.solar import clock_offset, equation_of_time, hours_from_solar_noon, time_zones


@pytest.mark.parametrize(
    ("place", "day", "noon"),
    [
        # Solar noon as almanacs print it, local clock time.
        ((-0.1, 51.5), date(2023, 6, 21), 13 + 2 / 60),  # London, summer time
        ((103.8, 1.35), date(2023, 1, 20), 13 + 16 / 60),  # Singapore, far west in its zone
        ((-122.4, 37.8), date(2023, 12, 21), 12 + 8 / 60),  # San Francisco
        ((151.2, -33.9), date(2023, 2, 11), 13 + 9 / 60),  # Sydney, summer time in February
    ],
)
def test_hours_from_solar_noon__at_noon_of_the_almanac__is_0(place, day, noon):
    offset = clock_offset(time_zones([place[0]], [place[1]])[0], day)
    number = day.timetuple().tm_yday
    assert hours_from_solar_noon(noon, place[0], number, offset) == pytest.approx(0, abs=1.5 / 60)
    assert hours_from_solar_noon(noon + 2, place[0], number, offset) == pytest.approx(2, abs=1.5 / 60)


def test_hours_from_solar_noon__around_midnight__stays_within_a_day():
    hours = hours_from_solar_noon(np.array([0.0, 12.0, 23.9, np.nan]), 0.0, 106, 0.0)
    assert hours[:3] == pytest.approx([-12, 0, 11.9], abs=0.02)
    assert np.isnan(hours[3])


def test_equation_of_time__over_a_year__has_its_four_zeros():
    """Sundial and clock agree in mid April, mid June, at the start of September and at Christmas."""
    signs = np.sign(equation_of_time(np.arange(1, 366)))
    changes = (np.flatnonzero(np.diff(signs)) + 1).tolist()
    assert changes == pytest.approx([105, 164, 244, 359], abs=2)
