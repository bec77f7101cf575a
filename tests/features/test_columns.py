"""ColumnPlan: what columns are, by hand; state, order and gaps for any table; every refusal."""

import datetime
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from hotvae.errors import ConfigError, DataError, ModelError
from hotvae.features.columns import OTHER, ColumnPlan
from hotvae.features.scaling import FeatureScaler

N = 240


def survey():
    """A table as ecologists have it: a column of every kind."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "siteID": [f"S{i}" for i in range(N)],
            "observer": ["ann"] * 60 + ["bob"] * 40 + [f"guest {i % 30}" for i in range(N - 100)],
            "visited": pd.date_range("2001-01-01", periods=N, freq="7D"),
            "doy": rng.integers(120, 201, N),
            "hour": rng.uniform(0, 23.9, N),
            "lat": rng.uniform(40, 60, N),
            "lon": rng.uniform(-10, 20, N),
            "slope": rng.normal(size=N),
            "rain": np.where(np.arange(N) % 7 == 0, np.nan, rng.normal(size=N)),
            "burnt": rng.random(N) < 0.3,
            "soil": rng.choice(["clay", "sand"], N),
            "notes": [f"saw {i} birds near the old mill" for i in range(N)],
            "country": "DE",
            "nothing": np.nan,
        }
    )


def kinds_of(table, **options):
    plan = ColumnPlan(**options).fit(table)
    return dict(zip(plan.feature_names_in, plan.kinds, strict=True))


def kind_of(name, values, **options):
    """What a column is, beside one that varies."""
    return kinds_of(pd.DataFrame({name: values, "beside": np.linspace(0, 1, len(values))}), **options)[name]


def test_plan__table_with_a_column_of_every_kind__a_line_for_each_decision():
    assert ColumnPlan(("lon", "lat")).fit(survey()).lines() == [
        "1 identifier left out: siteID",
        "2 categories: observer (2 levels, 30 rarer ones as one), soil (2 levels)",
        "1 date: visited (year, day of year as a cycle)",
        "2 cycles: doy (of 365.25, and as a number), hour (of 24)",
        "2 coordinates: lat, lon (degrees: near is near on the round Earth)",
        "2 numbers: slope, rain",
        "1 column of 0 and 1: burnt",
        "1 column of free text left out: notes",
        "1 column left out, one value throughout: country",
        "1 column left out, no values: nothing",
    ]


def test_plan__many_columns_of_one_kind__share_a_line():
    plan = ColumnPlan().fit(np.random.default_rng(0).normal(size=(5, 12)), feature_names=[f"bio{i}" for i in range(12)])
    (decision,) = plan.decisions
    assert decision.text == "12 numbers: bio0, bio1, bio2, +9 more"
    assert (decision.kind, len(decision.columns)) == ("number", 12)


def test_plan__table_of_a_survey__becomes_numbers_and_categories():
    table = survey()
    plan = ColumnPlan(("lon", "lat")).fit(table)
    out = plan.transform(table)
    assert tuple(out.columns) == plan.columns_out
    assert plan.columns_out == (
        *("observer", "visited (year)", "visited (sin)", "visited (cos)", "doy", "doy (sin)", "doy (cos)"),
        *("hour (sin)", "hour (cos)", "lat", "lon", "slope", "rain", "burnt", "soil"),
    )
    assert plan.n_features_out == 15
    assert plan.places == (plan.columns_out.index("lon"), plan.columns_out.index("lat"))
    assert plan.degrees
    assert not plan.is_binary
    assert set(out["observer"]) == {"ann", "bob", OTHER}
    np.testing.assert_array_equal(out["visited (year)"], table["visited"].dt.year)
    np.testing.assert_array_equal(out["rain"], table["rain"])  # gaps stay gaps
    np.testing.assert_array_equal(out["burnt"], table["burnt"])
    with pytest.warns(match="training median"):
        scaler = FeatureScaler("auto", spatial_units=4, spatial_columns=plan.places, spatial_degrees=plan.degrees).fit(
            out
        )
    assert np.isfinite(scaler.transform(out)).all()


def test_cycle__by_hand__is_sine_and_cosine_and_the_number_where_part_is_covered():
    table = pd.DataFrame({"month": np.arange(1.0, 13.0), "hour": np.arange(6.0, 18.0)})
    plan = ColumnPlan().fit(table)
    assert plan.columns_out == ("month (sin)", "month (cos)", "hour", "hour (sin)", "hour (cos)")
    rows = plan.transform(pd.DataFrame({"month": [3.0, 12.0], "hour": [6.0, np.nan]}))
    np.testing.assert_allclose(rows, [[1, 0, 6, 1, 0], [0, 1, np.nan, np.nan, np.nan]], atol=1e-12)


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("DayOfYear", [1, 180, 366], "cycle"),
        ("julian_day", [100.5, 120.0, 130.0], "cycle"),
        ("yday", [100, 120, np.nan], "cycle"),
        ("survey_month", [4, 5, 6], "cycle"),
        ("start.hour", [5.25, 6.5, 11.0], "cycle"),
        ("doy", [2009121, 2009130, 2009140], "number"),  # year and day in one
        ("rain_driest_month", [3, 5, 7], "number"),
        ("hours_of_sun", [3, 5, 7], "number"),
        ("month", [0, 1, 0], "binary"),
    ],
)
def test_cycle__name_and_range__both_count(name, values, kind):
    assert kind_of(name, values) == kind


@pytest.mark.parametrize(
    "values",
    [
        pd.to_datetime(["2009-05-01", "2009-07-15", None]),
        pd.to_datetime(["2009-05-01", "2009-07-15", None]).tz_localize("Europe/Berlin"),
        ["2009-05-01", "2009-07-15T06:30:00+02:00", None],
        [datetime.date(2009, 5, 1), datetime.date(2009, 7, 15), None],
    ],
)
def test_date__in_any_form__is_a_day_of_the_year(values):
    table = pd.DataFrame({"when": values, "depth": [1.0, 2.0, 3.0]})
    plan = ColumnPlan().fit(table)
    assert plan.columns_out == ("when (day of year)", "when (sin)", "when (cos)", "depth")  # one year: no column for it
    days = np.array([121, 196, np.nan])
    expected = np.column_stack([days, np.sin(2 * np.pi * days / 365.25), np.cos(2 * np.pi * days / 365.25)])
    np.testing.assert_allclose(plan.transform(table)[:, :3], expected)


def test_date__cell_that_is_none__is_named():
    table = pd.DataFrame({"when": ["2009-05-01", "2010-07-15"], "depth": [1.0, 2.0]})
    with pytest.raises(DataError, match=r"column 'when' must hold dates such as 2009-05-31.*'2009-02-30' \(rows 1\)"):
        ColumnPlan().fit(table).transform(table.assign(when=["2009-05-01", "2009-02-30"]))


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("station", [f"ST{i}" for i in range(50)], "identifier"),
        ("label", [f"x{i}" for i in range(50)], "identifier"),  # text, different in each row
        ("site", [f"S{i % 25}" for i in range(100)], "identifier"),  # four rows each
        ("plot_id", np.arange(50), "identifier"),
        ("Unnamed: 0", np.arange(50), "identifier"),
        ("RouteID", np.arange(50)[::-1] * 17 + 3, "identifier"),
        ("elevation", np.arange(50), "number"),  # a measurement, though different in each row
        ("acid", np.arange(50), "number"),
        ("moisture_index", np.arange(50), "number"),
        ("plot_id", np.arange(50) + 0.5, "number"),
        ("region_id", np.arange(50) % 4, "category"),
        ("site", ["A", "B"] * 20, "category"),
        ("soil", ["clay", "sand", "peat"], "category"),  # three rows say nothing of ids
        ("remark", [f"it was {i} degrees in the shade" for i in range(50)], "text"),
        ("weather", ["it was warm in the shade", "it rained all the day"] * 20, "category"),
        ("burnt", [True, False, None] * 4, "binary"),
        ("burnt", [1, 1, np.nan] * 4, "binary"),  # whether it is known varies
        ("code", [7, 7, 7], "constant"),
        ("code", ["a", "a", "a"], "constant"),
        ("code", pd.to_datetime(["2009-05-01"] * 3), "constant"),
        ("code", [None, None, None], "empty"),
        ("code", [np.nan, np.nan, np.nan], "empty"),
        ("code", pd.to_datetime([None] * 3), "empty"),
    ],
)
def test_column__by_name_and_values__is_what_it_is(name, values, kind):
    assert kind_of(name, values) == kind


def test_category__rare_and_unknown_levels__are_one_level_and_gaps_stay():
    levels = ["ann"] * 30 + ["bob"] * 19 + [f"guest {i}" for i in range(30)]
    table = pd.DataFrame({"observer": levels})
    plan = ColumnPlan().fit(table)
    found = plan.transform(pd.DataFrame({"observer": ["ann", "bob", "guest 3", "zoe", None]}))["observer"]
    assert found.iloc[:4].tolist() == ["ann", OTHER, OTHER, OTHER]
    assert pd.isna(found.iloc[4])


def test_category__hundreds_of_frequent_levels__the_hundred_most_frequent_stay():
    table = pd.DataFrame({"observer": np.repeat([f"o{i:03}" for i in range(150)], np.arange(150) + 20)})
    found = set(ColumnPlan().fit(table).transform(table)["observer"])
    assert found == {OTHER} | {f"o{i:03}" for i in range(50, 150)}


def test_category__of_numbers_in_an_array__is_read_by_its_levels():
    values = np.column_stack([np.arange(40.0) % 3, np.linspace(0, 1, 40)])
    plan = ColumnPlan().fit(values, feature_names=("region_id", "depth"))
    assert plan.transform(values)["region_id"].tolist()[:4] == ["0", "1", "2", "0"]


def test_places__by_position_or_name__are_the_same():
    table = survey()[["slope", "lat", "lon"]]
    by_name, by_position = ColumnPlan(("lat", "lon")).fit(table), ColumnPlan((1, -1)).fit(table.to_numpy())
    assert by_name.places == (2, 1)  # longitude first
    assert by_name.degrees
    assert by_position.places == (1, 2)
    assert not by_position.degrees  # numbers alone do not say so
    assert ColumnPlan((2, 1), in_degrees=True).fit(table.to_numpy()).places == (2, 1)
    assert not ColumnPlan(("lat", "lon"), in_degrees=False).fit(table).degrees


def test_places__in_metres__are_no_degrees():
    table = survey()[["slope", "lat", "lon"]] * 1000
    plan = ColumnPlan(("lon", "lat")).fit(table)
    assert not plan.degrees
    with pytest.raises(DataError, match="places in degrees must be longitude, then latitude"):
        ColumnPlan(("lon", "lat"), in_degrees=True).fit(table)


def test_places__constant_or_like_an_identifier__are_kept():
    table = pd.DataFrame({"x": np.ones(5), "site": np.arange(5), "depth": np.arange(5) / 2})
    assert ColumnPlan(("x", "site")).fit(table).places == (0, 1)


def test_plan__array_of_plain_numbers__is_not_copied():
    values = np.random.default_rng(0).normal(size=(9, 3))
    assert ColumnPlan().fit(values).transform(values) is values


def test_plan__zeros_and_ones__are_binary_dense_or_sparse():
    values = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, np.nan]])
    assert ColumnPlan().fit(values).is_binary
    assert not ColumnPlan().fit(values + 1).is_binary
    values[2, 1] = 1
    assert ColumnPlan().fit(sparse.csr_array(values)).is_binary
    assert ColumnPlan().fit(sparse.csr_array(values * [[1, 0.5]])).kinds == ("binary", "number")


def test_plan__sparse_table__stays_as_it_is():
    table = sparse.csr_array(np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 0.0]]))  # the last column is constant
    plan = ColumnPlan().fit(table)
    for again in (plan, ColumnPlan.from_state(json.loads(json.dumps(plan.state())))):
        for given_as in (table, table.toarray(), pd.DataFrame(table.toarray(), columns=list(plan.feature_names_in))):
            found = again.transform(given_as)
            assert isinstance(found, sparse.csr_array)
            np.testing.assert_array_equal(found.toarray(), table.toarray())


def test_plan__dense_by_training__takes_a_sparse_table():
    values = np.array([[0.0, 2.0], [1.0, 0.5]])
    np.testing.assert_array_equal(ColumnPlan().fit(values).transform(sparse.csr_array(values)), values)


def test_plan__other_tables__columns_in_any_order_and_without_what_was_left_out():
    table = survey()
    plan = ColumnPlan().fit(table)
    fewer = table[["soil", "lon", "lat", "hour", "doy", "visited", "rain", "observer", "burnt", "slope"]]
    pd.testing.assert_frame_equal(plan.transform(fewer), plan.transform(table))
    with pytest.raises(DataError, match=r"column\(s\) 'slope'"):
        plan.transform(table.drop(columns="slope"))
    with pytest.raises(DataError, match=r"unknown column\(s\) 'height'"):
        plan.transform(table.assign(height=1.0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slope": ["steep"] * N}, "column 'slope' must hold numbers, as in training; got text 'steep'"),
        ({"slope": [np.inf] * N}, "features must be finite; got inf"),
        ({"visited": ["May"] * N}, "column 'visited' must hold dates"),
    ],
)
def test_plan__other_values_than_in_training__are_named(change, message):
    plan = ColumnPlan().fit(survey())
    with pytest.raises(DataError, match=message):
        plan.transform(survey().assign(**change))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.empty((0, 2)), r"features must have rows and columns; got shape \(0, 2\)"),
        (np.ones((3, 2)), r"a column to learn from; got none \(2 columns left out, one value throughout: feature_0"),
        (np.array([[1.0], [np.inf]]), "features must be finite; got inf"),
        (pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), "columns must have different names; got 'a' twice"),
        (pd.DataFrame({"hour": [1, 9], "hour (sin)": [2, 3]}), r"different names; got 'hour \(sin\)' twice"),
        (pd.DataFrame({"a": [f"{i},5" for i in range(30)]}), "column 'a' must hold numbers throughout"),
        (pd.DataFrame({"a": [f"{i:02}.05.2009" for i in range(1, 31)]}), "got dates such as '01.05.2009'"),
        (pd.DataFrame({"a": [1j, 2j]}), "feature columns must be numbers, text or bool; got complex"),
    ],
)
def test_plan__table_that_does_not_do__is_refused(table, message):
    with pytest.raises(DataError, match=message):
        ColumnPlan().fit(table)


def test_plan__names_that_do_not_fit__are_refused():
    with pytest.raises(DataError, match="feature_names must name each of the 2 columns; got 1 names"):
        ColumnPlan().fit(np.eye(2), feature_names=["a"])


@pytest.mark.parametrize("coordinates", ["lon", ("lon",), (0.5, 1), (True, 1)])
def test_plan__coordinates_of_another_kind__are_refused(coordinates):
    with pytest.raises(ConfigError, match="coordinates must be a pair of names or positions"):
        ColumnPlan(coordinates).fit(survey())


@pytest.mark.parametrize("coordinates", [("lon", "west"), ("lon", "lon"), (0, 99), ("lon", 6)])
def test_plan__coordinates_that_are_not_there__are_named(coordinates):
    with pytest.raises(ConfigError, match="coordinates must be two columns of the table"):
        ColumnPlan(coordinates).fit(survey())


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ("soil", "coordinates must be numbers; got text in 'soil'"),
        ("visited", "coordinates must be numbers; got dates in 'visited'"),
        ("nothing", "coordinates must be known; got only missing ones in 'nothing'"),
    ],
)
def test_plan__coordinates_that_are_no_numbers__are_refused(other, message):
    with pytest.raises(DataError, match=message):
        ColumnPlan(("lon", other)).fit(survey())


def test_plan__misuse__is_explained():
    with pytest.raises(ConfigError, match="coordinates must be None for a sparse table"):
        ColumnPlan((0, 1)).fit(sparse.csr_array(np.eye(2)))
    with pytest.raises(ConfigError, match="in_degrees must be True, False or None; got 'yes'"):
        ColumnPlan(in_degrees="yes").fit(np.eye(2))
    with pytest.raises(ConfigError, match="column plan must be fitted before use"):
        ColumnPlan().transform(np.eye(2))
    with pytest.raises(DataError, match="features must have 2 columns, as in training; got 3"):
        ColumnPlan().fit(np.eye(2)).transform(np.eye(3))
    dates = pd.DataFrame({"when": ["2009-05-01", "2010-05-01"]})
    with pytest.raises(DataError, match="features must be a DataFrame, as in training; got an array"):
        ColumnPlan().fit(dates).transform([[1.0]])


@pytest.mark.parametrize(
    "change",
    [{"kinds": ["number"]}, {"kinds": None}, {"where": ["lon"]}, {"where": ["a", "b"]}, {"details": {"0": {}}}],
)
def test_state__damaged__is_refused(change):
    state = ColumnPlan(("lon", "lat")).fit(survey()).state() | change
    with pytest.raises(ModelError, match="Save"):
        ColumnPlan.from_state(state)


# --- for any table ----------------------------------------------------------------------------------------

NUMBERS = st.one_of(st.none(), st.floats(-1e6, 1e6), st.integers(0, 1), st.integers(1, 12))
TEXTS = st.one_of(st.none(), st.sampled_from(["clay", "sand", "2009-05-01", "2010-06-02"]), st.text("ab ", max_size=12))
NAMES = ("month", "doy", "site_id", "depth", "burnt", "soil", "when", "notes")


@st.composite
def tables(draw):
    n_rows = draw(st.integers(2, 40))
    columns = {}
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True)):
        cells = NUMBERS if draw(st.booleans()) else TEXTS
        values = draw(st.lists(cells, min_size=n_rows, max_size=n_rows))
        columns[name] = pd.Series(values, dtype="float64" if cells is NUMBERS else "str")
    columns["varies"] = pd.Series(np.linspace(0, 1, n_rows) ** 2 + 1)
    return pd.DataFrame(columns)


@given(tables())
@settings(max_examples=60, deadline=None)
def test_plan__any_table__state_through_json_transforms_to_the_same(table):
    plan = ColumnPlan().fit(table)
    again = ColumnPlan.from_state(json.loads(json.dumps(plan.state())))
    assert again.lines() == plan.lines()
    assert again.columns_out == plan.columns_out
    one, two = pd.DataFrame(plan.transform(table)), pd.DataFrame(again.transform(table))
    pd.testing.assert_frame_equal(one, two, check_exact=True)


@given(tables(), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_plan__columns_in_another_order__are_what_they_were(table, random):
    order = list(table.columns)
    random.shuffle(order)
    assert kinds_of(table[order]) == kinds_of(table)


@given(tables())
@settings(max_examples=60, deadline=None)
def test_plan__any_table__known_cells_stay_known_and_rows_stay_apart(table):
    plan = ColumnPlan().fit(table)
    out = pd.DataFrame(plan.transform(table)).set_axis(list(plan.columns_out), axis=1)
    for name in plan.columns_out:
        origin = name if name in table else name.rsplit(" (", 1)[0]
        np.testing.assert_array_equal(out[name].isna(), table[origin].isna())
    last = pd.DataFrame(plan.transform(table.iloc[-1:])).set_axis(list(plan.columns_out), axis=1)
    pd.testing.assert_frame_equal(last, out.iloc[-1:].reset_index(drop=True), check_dtype=False, check_exact=True)


@given(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=60, unique=True))
@settings(max_examples=60, deadline=None)
def test_plan__any_measurement__is_never_left_out(values):
    assert kinds_of(pd.DataFrame({"elevation": values}))["elevation"] in ("number", "binary")
