"""FeatureScaler: hand-worked values, training rows only, exact state, and every refusal and warning."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from hotvae.errors import ConfigError, DataError, DataWarning, ModelError
from hotvae.features.scaling import FeatureScaler
from hotvae.features.text import BagOfWords

MIXED = pd.DataFrame(
    {
        "depth": [1.0, np.nan, 3.0, 8.0],
        "soil": ["sand", "clay", None, "sand"],
        "wet": [True, False, True, True],
        "level": pd.Categorical([10, 9, 9, 10]),
    }
)


def quietly_fitted(features, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return FeatureScaler(**options).fit(features)


def test_scaler__two_rows__matches_hand_calculation():
    """Column (1, 3): mean 2, deviation 1; 5 becomes 3. Constant column 4: centred on 4, divided by 1."""
    scaler = FeatureScaler().fit(np.array([[1.0, 4.0], [3.0, 4.0]]))
    np.testing.assert_array_equal(scaler.transform(np.array([[5.0, 4.0], [1.0, 6.0]])), [[3, 0], [-1, 2]])


def test_scaler__missing_values__median_indicator_and_moments_of_the_imputed_column():
    """(1, ?, 3, 8) -> (1, 3, 3, 8): mean 3.75, variance (7.5625 + 2 * .5625 + 18.0625) / 4 = 6.6875."""
    with pytest.warns(DataWarning, match=r"training median and marked .*: 'depth' \(25\.0% missing\)"):
        scaler = FeatureScaler().fit(MIXED[["depth"]])
    assert scaler.feature_names_out == ("depth", "depth (missing)")
    deviation = np.sqrt(6.6875)
    expected = [[-2.75 / deviation, 0], [-0.75 / deviation, 1], [-0.75 / deviation, 0], [4.25 / deviation, 0]]
    np.testing.assert_allclose(scaler.transform(MIXED[["depth"]], dtype=np.float64), expected, rtol=1e-15)


def test_scaler__mixed_frame__numbers_then_indicators_then_sorted_levels():
    scaler = quietly_fitted(MIXED, scaling="none")
    assert scaler.kinds == ("numeric", "categorical", "numeric", "categorical")
    assert scaler.feature_names_out == (
        *("depth", "wet", "depth (missing)"),
        *("soil=clay", "soil=sand", "soil=(missing)", "level=10", "level=9"),
    )
    assert scaler.n_features_out == 8
    np.testing.assert_array_equal(
        scaler.transform(MIXED),
        [
            [1, 1, 0, 0, 1, 0, 1, 0],
            [3, 0, 1, 1, 0, 0, 0, 1],
            [3, 1, 0, 0, 0, 1, 0, 1],
            [8, 1, 0, 0, 1, 0, 1, 0],
        ],
    )


def test_scaler__integer_levels_read_as_floats__are_the_same_levels():
    scaler = FeatureScaler().fit(pd.DataFrame({"zone": pd.Categorical([1, 2])}))
    np.testing.assert_array_equal(scaler.transform(pd.DataFrame({"zone": [2.0, 1.0]})), [[0, 1], [1, 0]])


def test_scaler__csr__divided_by_largest_magnitude_and_still_csr():
    matrix = sparse.csr_array(np.array([[0, -4.0, 0], [2.0, 1.0, 0]]))
    scaler = FeatureScaler().fit(matrix, feature_names=("a", "b", "c"))
    scaled = scaler.transform(sparse.csr_array(np.array([[1.0, 8.0, 5.0]])))
    assert isinstance(scaled, sparse.csr_array)
    assert scaled.dtype == np.float32
    np.testing.assert_array_equal(scaled.toarray(), [[0.5, 2, 5]])
    np.testing.assert_array_equal(scaler.transform(np.array([[1.0, 8.0, 5.0]])).toarray(), [[0.5, 2, 5]])
    shuffled = pd.DataFrame({"c": [5.0], "b": [8.0], "a": [1.0]})
    np.testing.assert_array_equal(scaler.transform(shuffled).toarray(), [[0.5, 2, 5]])
    np.testing.assert_array_equal(FeatureScaler("none").fit(matrix).transform(matrix).toarray(), matrix.toarray())


def test_scaler__weighted_words__keep_their_weights():
    """A model that reads a table of words is shown what one that reads texts is: rare words are not made loud."""
    texts = ["wet meadow by the wet road", "dry rock by the road", "wet bog", "dry slope by the bog"]
    table = BagOfWords(min_word_count=1).fit(texts).transform(texts, dtype=np.float64)
    np.testing.assert_array_equal(FeatureScaler().fit(table).transform(table, np.float64).toarray(), table.toarray())


def test_scaler__fitted_dense_given_csr__same_as_dense():
    dense = np.array([[0.0, 1.0], [2.0, 0.0], [4.0, 7.0]])
    scaler = FeatureScaler().fit(dense)
    np.testing.assert_array_equal(scaler.transform(sparse.csr_array(dense)), scaler.transform(dense))


@pytest.mark.parametrize("order", ["C", "F"])
def test_scaler__fit_and_transform__leave_the_input_alone(order):
    values = np.array([[1.0, np.nan], [2.0, 5.0], [np.nan, 6.0]], order=order)
    before = values.copy()
    quietly_fitted(values).transform(values)
    np.testing.assert_array_equal(values, before)


def test_scaler__robust__matches_hand_calculation():
    """(0, 1, 2, 3, 4): median 2, quartiles 1 and 3, spread 2 / 1.349 = 1.482580; 4 -> 1.349 / hypot(1, 1.349 / 3).

    = 1.349 / 1.096449 = 1.230336. The column (0, 0, 0, 0, 8) has equal quartiles: half its range is 4, so 8 -> 2
    drawn in to 2 / hypot(1, 2/3) = 1.664101. A constant column stays 0 for its value.
    """
    values = np.column_stack([np.arange(5.0), [0, 0, 0, 0, 8.0], np.full(5, 7.0)])
    scaler = FeatureScaler("robust").fit(values)
    found = scaler.transform(np.array([[4.0, 8.0, 7.0], [2.0, 0.0, 8.0]]), np.float64)
    np.testing.assert_allclose(found[0], [1.230336, 1.664101, 0], atol=1e-6)
    np.testing.assert_allclose(found[1], [0, 0, 1 / np.hypot(1, 1 / 3)], atol=1e-12)


def test_scaler__robust__outliers_stay_within_three_and_move_nothing_else():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(999, 1))
    wild = values.copy()
    wild[values.argmax()] = 1e9
    calm, upset = FeatureScaler("robust").fit(values), FeatureScaler("robust").fit(wild)
    assert calm.state() == upset.state()
    assert upset.transform(wild, np.float64).max() == pytest.approx(3)


def test_scaler__quantile__matches_hand_calculation():
    """Values 1, 2, 2, 5 hold ranks 1, 2-3, 4: middles .5, 2, 3.5 of 4, normal scores of .125, .5, .875."""
    scaler = FeatureScaler("quantile").fit(np.array([[2.0], [5.0], [1.0], [2.0]]))
    found = scaler.transform(np.array([[1.0], [2.0], [5.0], [3.5], [-9.0], [99.0]]), np.float64)
    out = 1.1503493803760083
    np.testing.assert_allclose(found[:, 0], [-out, 0, out, out / 2, -out, out], rtol=1e-12)


def test_scaler__quantile__any_column_becomes_normal():
    rng = np.random.default_rng(0)
    values = np.column_stack([np.exp(2 * rng.normal(size=4000)), rng.uniform(size=4000)])
    found = FeatureScaler("quantile").fit(values).transform(values, np.float64)
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=0.02)
    np.testing.assert_allclose(found.std(axis=0), 1, atol=0.03)
    assert len(FeatureScaler("quantile").fit(values).state()["knots"][0][0]) == 257


@given(
    arrays(np.float64, 12, elements=st.floats(-1e6, 1e6)),
    arrays(np.float64, 5, elements=st.floats(-1e7, 1e7)),
    st.sampled_from(["standard", "robust", "quantile", "none"]),
)
@settings(deadline=None)
def test_scaler__any_scaling__never_turns_order_around(train, new, scaling):
    scaler = FeatureScaler(scaling).fit(train[:, None])
    found = scaler.transform(np.sort(new)[:, None], np.float64)[:, 0]
    assert (np.diff(found) >= -1e-12).all()  # equal values may differ by a rounding error


@pytest.mark.parametrize("scaling", ["robust", "quantile"])
def test_scaler__missing_values__do_not_move_quartiles_and_ranks(scaling):
    known = np.array([[1.0], [2.0], [4.0], [9.0], [11.0]])
    gaps = np.vstack([known, [[np.nan]] * 3])
    one, two = FeatureScaler(scaling).fit(known), quietly_fitted(gaps, scaling=scaling)
    np.testing.assert_array_equal(one.transform(known)[:, 0], two.transform(known)[:, 0])
    assert two.transform(gaps)[5:].tolist() == [[0, 1]] * 3, "the median, and marked"


TABLES = arrays(
    np.float64,
    (7, 3),
    elements=st.one_of(st.floats(-1e6, 1e6), st.just(np.nan), st.sampled_from([0.0, 0.1, 1e-300, 3.0])),
)


@pytest.mark.slow
@given(values=TABLES, soil=st.lists(st.sampled_from(["é", "a b", "", None]), min_size=7, max_size=7))
@settings(max_examples=60, deadline=None)
def test_state__through_json__transforms_to_the_same_bits(values, soil):
    values[0] = [0.5, 1.5, -2.0]  # no column all missing
    frame = pd.DataFrame(values, columns=["a", "b", "c"])
    frame["soil"] = pd.array(soil, dtype="str")
    if frame["soil"].isna().all():
        frame = frame.drop(columns="soil")
    scaler = quietly_fitted(frame)
    again = FeatureScaler.from_state(json.loads(json.dumps(scaler.state())))
    one, two = scaler.transform(frame, np.float64), again.transform(frame, np.float64)
    assert one.tobytes() == two.tobytes()
    assert again.feature_names_out == scaler.feature_names_out
    assert np.isfinite(one).all()
    numeric = one[:, :3]
    assert abs(numeric.mean(axis=0)).max() < 1e-6
    spread = numeric.std(axis=0)
    assert ((abs(spread - 1) < 1e-6) | (spread < 1e-6)).all(), "standardised, or constant"


@pytest.mark.parametrize("scaling", ["robust", "quantile", "auto", "none"])
@given(values=TABLES)
@settings(max_examples=30, deadline=None)
def test_state__any_scaling_through_json__transforms_to_the_same_bits(scaling, values):
    values[0] = [0.5, 1.5, -2.0]
    scaler = quietly_fitted(values, scaling=scaling)
    again = FeatureScaler.from_state(json.loads(json.dumps(scaler.state())))
    one, two = (part.transform(values, np.float64) for part in (scaler, again))
    assert one.tobytes() == two.tobytes()
    assert np.isfinite(one).all()


@pytest.mark.parametrize("scaling", ["robust", "quantile", "auto"])
def test_scaler__csr__other_scalings_divide_by_the_largest_too(scaling):
    matrix = sparse.csr_array(np.array([[0, -4.0], [2.0, 1.0]]))
    scaler = FeatureScaler(scaling).fit(matrix)
    np.testing.assert_array_equal(scaler.transform(matrix).toarray(), [[0, -1], [1, 0.25]])
    again = FeatureScaler.from_state(json.loads(json.dumps(scaler.state())))
    np.testing.assert_array_equal(again.transform(matrix).toarray(), [[0, -1], [1, 0.25]])


def shapes(n_rows=400):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "normal": rng.normal(20, 4, n_rows),
            "skewed": rng.lognormal(0, 1.5, n_rows),
            "uniform": rng.uniform(0, 9, n_rows),
            "heavy": rng.standard_t(2, n_rows),
            "few": rng.integers(1, 6, n_rows),
            "burnt": rng.random(n_rows) < 0.2,
        }
    )


def test_scaler__auto__each_column_by_its_shape():
    table = shapes()
    methods = {"standard": ["normal", "few"], "quantile": ["skewed", "uniform", "heavy"], "none": ["burnt"]}
    found = FeatureScaler("auto").fit(table).transform(table)
    for scaling, names in methods.items():
        alone = FeatureScaler(scaling).fit(table).transform(table)
        where = [table.columns.get_loc(name) for name in names]
        np.testing.assert_array_equal(found[:, where], alone[:, where])


def test_scaler__auto__zeros_and_ones_with_gaps_stay():
    found = quietly_fitted(np.array([[0.0], [1.0], [np.nan], [1.0]]), scaling="auto").transform([[0.0], [1.0]])
    np.testing.assert_array_equal(found, [[0, 0], [1, 0]])


def test_scaler__auto__values_too_large_to_square_are_ranked():
    values = np.concatenate([[1e200, -1e300], np.arange(50.0)])[:, None]
    assert abs(FeatureScaler("auto").fit(values).transform(values)).max() < 3


def test_state__of_before_there_were_degrees__is_read():
    scaler = FeatureScaler(spatial_units=2).fit(np.array([[0.0, 0.0], [9.0, 1.0]]))
    state = scaler.state()
    del state["spatial_degrees"], state["places"]["degrees"]
    rows = np.array([[3.0, 4.0]])
    np.testing.assert_array_equal(FeatureScaler.from_state(state).transform(rows), scaler.transform(rows))


def test_state__csr__transforms_to_the_same_bits():
    matrix = sparse.random_array((9, 4), density=0.4, format="csr", rng=np.random.default_rng(0))
    scaler = FeatureScaler().fit(matrix)
    again = FeatureScaler.from_state(json.loads(json.dumps(scaler.state())))
    assert scaler.transform(matrix).data.tobytes() == again.transform(matrix).data.tobytes()


@given(noise=st.floats(-1e3, 1e3), seed=st.integers(0, 100))
@settings(max_examples=25, deadline=None)
def test_scaler__other_rows_changed__training_rows_and_medians_stay(noise, seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(12, 2))
    train, test = np.arange(7), np.arange(7, 12)
    values[2, 0] = np.nan
    changed = values.copy()
    changed[test] += noise
    one, two = quietly_fitted(values[train]), quietly_fitted(changed[train])
    assert one.state() == two.state()
    assert one.state()["median"][0] == np.median(np.delete(values[train, 0], 2))
    np.testing.assert_array_equal(one.transform(changed)[train], one.transform(values[train]))


def test_scaler__rows_permuted__output_permuted():
    order = np.array([2, 0, 3, 1])
    scaler = quietly_fitted(MIXED)
    np.testing.assert_array_equal(scaler.transform(MIXED.iloc[order]), scaler.transform(MIXED)[order])


def test_scaler__no_rows__shape_kept():
    assert quietly_fitted(MIXED).transform(MIXED.iloc[:0]).shape == (0, 8)
    assert FeatureScaler().fit(np.eye(3)).transform(np.empty((0, 3))).shape == (0, 3)
    assert FeatureScaler().fit(sparse.csr_array(np.eye(3))).transform(sparse.csr_array((0, 3))).shape == (
        0,
        3,
    )


def test_scaler__new_gaps__median_with_a_warning():
    scaler = FeatureScaler("none").fit(np.array([[1.0], [2.0], [9.0]]), feature_names=["depth"])
    with pytest.warns(DataWarning, match=r"without missing values in training now have some: 'depth' \(1 values\)"):
        assert scaler.transform(np.array([[np.nan], [4.0]])).tolist() == [[2], [4]]


def test_scaler__unknown_level_or_new_gap__zeros_with_a_warning():
    scaler = FeatureScaler().fit(pd.DataFrame({"soil": ["clay", "sand"]}))
    with pytest.warns(DataWarning, match=r"column 'soil' has levels .*: '\(missing\)', 'peat' \(rows 0, 2\)"):
        found = scaler.transform(pd.DataFrame({"soil": ["peat", "sand", None]}))
    assert found.tolist() == [[0, 0], [0, 1], [0, 0]]


@pytest.mark.parametrize("container", [np.asarray, lambda a: pd.DataFrame(a, columns=["feature_0", "feature_1"])])
def test_scaler__infinite_values__refused_at_fit_and_transform(container):
    good, bad = np.array([[1.0, 2.0], [2.0, 5.0]]), np.array([[1.0, np.inf], [2.0, 3.0]])
    message = r"got inf \(infinity\) in column 'feature_1' \(rows 0\)"
    with pytest.raises(DataError, match=message):
        FeatureScaler().fit(container(bad))
    with pytest.raises(DataError, match=message):
        FeatureScaler().fit(container(good)).transform(container(bad))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_scaler__nan_or_infinity_in_csr__refused_at_fit_and_transform(value):
    good, bad = sparse.csr_array(np.array([[1.0], [2.0]])), sparse.csr_array(np.array([[0.0], [value]]))
    message = r"sparse features must be finite; got (nan|inf) .* in column 'feature_0' \(rows 1\)"
    with pytest.raises(DataError, match=message):
        FeatureScaler().fit(bad)
    scaler = FeatureScaler().fit(good)
    for wrong in (bad, bad.toarray()):
        with pytest.raises(DataError, match=r"must be finite; got (nan|inf)"):
            scaler.transform(wrong)


@pytest.mark.parametrize(
    ("features", "names", "message"),
    [
        (
            np.array([[1.0, np.nan], [2.0, np.nan]]),
            ("a", "b"),
            "got only missing ones in 'b'. Drop these columns",
        ),
        (np.empty((0, 2)), (), r"features must have rows and columns; got shape \(0, 2\)"),
        (np.empty((2, 0)), (), r"features must have rows and columns; got shape \(2, 0\)"),
        (np.eye(2), ("a",), "feature_names must name each of the 2 columns; got 1 names"),
        (np.array([[1e308], [-1e308]]), ("a",), r"small enough to square; got 1e\+308 in column 'a'"),
    ],
)
def test_fit__columns_that_teach_nothing__refused(features, names, message):
    with pytest.raises(DataError, match=message):
        FeatureScaler().fit(features, feature_names=names)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (MIXED.drop(columns="wet"), r"must have the column\(s\) 'wet'"),
        (MIXED.assign(slope=1), r"unknown column\(s\) 'slope'"),
        (MIXED.assign(depth=["1", "deep", "3", None]), r"'depth' must hold numbers, .*'deep' \(rows 1\)"),
        (
            np.eye(4),
            r"features must be a DataFrame, as in training; got an array. Name the columns 'soil', 'level'",
        ),
        (np.eye(3), "features must have 4 columns, as in training; got 3"),
    ],
)
def test_transform__other_columns_than_in_training__refused(features, message):
    with pytest.raises(DataError, match=message):
        quietly_fitted(MIXED).transform(features)


def test_transform__value_too_far_out__refused():
    scaler = FeatureScaler().fit(np.array([[0.0], [1e-3]]))
    with pytest.raises(DataError, match=r"too large for float32 in column 'feature_0' \(rows 1\)"):
        scaler.transform(np.array([[0.0], [1e300]]))


def test_scaler__misuse__explained():
    with pytest.raises(
        ConfigError, match="scaling must be one of 'standard', 'robust', 'quantile', 'auto', 'none'; got 'z'"
    ):
        FeatureScaler("z").fit(np.eye(2))
    with pytest.raises(ConfigError, match="scaler must be fitted before use"):
        FeatureScaler().transform(np.eye(2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scale": [1.0]}, "one entry per column; got parts of other lengths"),
        ({"kinds": ["numeric"]}, "one entry per column"),
        ({"levels": [["a"]]}, "one entry per column"),
        ({"knots": [[[0.0, 1.0], [0.0, 1.0]]]}, "one entry per column"),
        ({"scaling": "quantile"}, "one entry per column"),
        ({"feature_names": [0, "b"]}, "one entry per column"),
        ({"median": "high"}, "scaler state must be complete; got ValueError"),
        ({"scaling": "magic"}, "scaler state must be complete; got ConfigError"),
    ],
)
def test_from_state__damaged__refused(change, message):
    state = FeatureScaler().fit(np.eye(2)).state()
    with pytest.raises(ModelError, match=message):
        FeatureScaler.from_state({**state, **change})
    with pytest.raises(ModelError, match="scaler state must be complete; got KeyError"):
        FeatureScaler.from_state({key: state[key] for key in ("scaling", "spatial_columns", "kinds")})


def test_clamp__beyond_training__is_the_nearest_training_value():
    """Values 1 and 3 have mean 2 and deviation 1: 9 counts as 3, which is 1; -5 as 1, which is -1."""
    scaler = FeatureScaler(clamp=True).fit(np.array([[1.0], [3.0]]))
    np.testing.assert_array_equal(scaler.transform([[9.0], [-5.0], [2.5]]).ravel(), [1.0, -1.0, 0.5])
    np.testing.assert_array_equal(FeatureScaler().fit(np.array([[1.0], [3.0]])).transform([[9.0]]), [[7.0]])


@pytest.mark.parametrize("scaling", ["standard", "robust", "quantile", "none"])
def test_clamp__any_scaling__is_scaling_of_clipped_values(scaling):
    rng = np.random.default_rng(0)
    train, rows = rng.normal(size=(50, 3)), 5 * rng.normal(size=(40, 3))
    train[3, 1] = np.nan
    rows[5, 1] = np.nan
    with pytest.warns(DataWarning, match="training median"):
        clamped, plain = (FeatureScaler(scaling, clamp=clamp).fit(train) for clamp in (True, False))
    clipped = np.clip(rows, np.nanmin(train, axis=0), np.nanmax(train, axis=0))
    np.testing.assert_array_equal(clamped.transform(rows), plain.transform(clipped))
    np.testing.assert_array_equal(clamped.transform(train), plain.transform(train))


def test_clamp__state_by_way_of_json__gives_the_same_bits():
    scaler = FeatureScaler(clamp=True).fit(np.eye(3))
    again = FeatureScaler.from_state(json.loads(json.dumps(scaler.state())))
    assert again.clamp
    np.testing.assert_array_equal(again.transform(9 * np.eye(3)), scaler.transform(9 * np.eye(3)))
    with pytest.raises(ModelError, match="one entry per column"):
        FeatureScaler.from_state(scaler.state() | {"range": [[0.0], [1.0]]})


def test_clamp__sparse_table__is_refused():
    with pytest.raises(ConfigError, match="clamp must be False for a sparse table"):
        FeatureScaler(clamp=True).fit(sparse.csr_array(np.eye(2)))


def test_clamp__site_beyond_the_map__is_as_near_to_places_as_its_edge():
    sites = np.random.default_rng(0).uniform(size=(30, 2))
    scaler = FeatureScaler(clamp=True, spatial_units=4).fit(sites)
    edge = [[sites[:, 0].max(), 0.5]]
    np.testing.assert_array_equal(scaler.transform([[7.0, 0.5]]), scaler.transform(edge))
