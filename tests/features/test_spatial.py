"""Nearness to places: by hand, its properties, its errors, and that it lets a network learn a map."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hotvae import HotVAENetwork, load_model
from hotvae.baselines.plain import PlainNetClassifier
from hotvae.errors import ConfigError, DataError, ModelError
from hotvae.estimators.registry import find_classifier
from hotvae.features.scaling import FeatureScaler
from hotvae.features.spatial import SpatialUnits
from hotvae.metrics import log_loss

SITES = np.array([[0.0, 0.0], [0.0, 2.0], [9.0, 0.0], [9.0, 2.0]])


def test_units__two_clusters__match_hand_calculation():
    """Places (0, 1) and (9, 1) are 9 apart: width 13.5, and a bump 9 away is exp(-81 / 364.5)."""
    units = SpatialUnits(2).fit(SITES)
    near, far = np.exp(-1 / 364.5), np.exp(-82 / 364.5)  # each site is 1 from its own place
    scale = (near - far) / 2  # deviation of two values that are equally frequent
    np.testing.assert_allclose(units.centres, [[0, 1], [9, 1]])
    np.testing.assert_allclose(units.scale, scale)
    np.testing.assert_allclose(units.transform(SITES[:1]), [[near / scale, far / scale]])


def test_units__sites_in_metres__are_as_exact_as_in_kilometres():
    rng = np.random.default_rng(0)
    sites = rng.uniform(0, 100, size=(200, 2))
    in_kilometres = SpatialUnits(10).fit(sites).transform(sites)
    in_metres = SpatialUnits(10).fit(1000 * sites + 5e6).transform(1000 * sites + 5e6)
    np.testing.assert_allclose(in_metres, in_kilometres, rtol=1e-6)


def test_units__fewer_places_than_asked_for__has_one_for_each():
    units = SpatialUnits(10).fit(np.repeat(SITES[:3], 4, axis=0))
    assert sorted(units.centres.tolist()) == sorted(SITES[:3].tolist())


def test_units__one_place__is_constant_and_finite():
    values = SpatialUnits(5).fit(np.ones((6, 2))).transform(np.ones((2, 2)))
    np.testing.assert_array_equal(values, [[1.0], [1.0]])


@given(arrays(np.float64, st.tuples(st.integers(2, 30), st.just(2)), elements=st.floats(-1e4, 1e4)), st.integers(1, 8))
def test_units__any_sites__are_finite_at_home_and_zero_far_away(sites, n_units):
    units = SpatialUnits(n_units).fit(sites)
    values = units.transform(sites)
    assert np.isfinite(values).all()
    assert (values >= 0).all()
    far = units.centres.max(axis=0) + 60 * units.width
    np.testing.assert_array_equal(units.transform(far[None]), np.zeros((1, len(units.centres))))


def test_units__order_of_training_rows__does_not_turn_the_map():
    """Places are listed from west to east, then from south to north."""
    centres = SpatialUnits(4).fit(SITES[[2, 0, 3, 1]]).centres
    np.testing.assert_allclose(centres, SITES)


def test_units__degrees__sites_on_both_sides_of_the_date_line_are_neighbours():
    sites = np.array([[179.5, -17.0], [-179.5, -17.0], [170.0, -17.0], [-170.0, -17.0]])
    units = SpatialUnits(4, degrees=True).fit(sites)
    east, west = units.transform(sites[:2]) * units.scale
    at = {round(float(longitude), 1): i for i, longitude in enumerate(units.centres[:, 0])}
    assert east[at[-179.5]] > 0.99 > east[at[170.0]]
    np.testing.assert_allclose(east[at[-179.5]], west[at[179.5]])


def test_units__degrees__cluster_across_the_date_line_has_one_centre_there():
    sites = np.array([[179.0, 5.0], [-179.0, 5.0], [0.0, 50.0], [2.0, 50.0]])
    centres = SpatialUnits(2, degrees=True).fit(sites).centres
    by_latitude = centres[np.argsort(centres[:, 1])]
    np.testing.assert_allclose(np.abs(by_latitude), [[180, 5], [1, 50]], atol=0.01)  # 180 is -180


@pytest.mark.parametrize(("latitude", "counts"), [(0.0, 1.0), (60.0, 0.5), (89.0, np.cos(np.radians(89)))])
def test_units__degrees__a_degree_of_longitude_shrinks_towards_the_pole(latitude, counts):
    """The spacing of two places is the way between them: 111.2 km for a degree at the equator, half at 60 degrees."""
    units = SpatialUnits(2, degrees=True).fit(np.array([[7.0, latitude], [8.0, latitude]]))
    np.testing.assert_allclose(units.width / 1.5, counts * 6371 * np.pi / 180, rtol=1e-4)


@given(st.lists(st.tuples(st.integers(-180, 180), st.integers(-90, 90)), min_size=2), st.integers(1, 8))
def test_units__degrees_anywhere__are_finite_and_the_same_all_the_way_round(places, n_units):
    sites = np.array(places, dtype=np.float64)
    units = SpatialUnits(n_units, degrees=True).fit(sites)
    values = units.transform(sites)
    assert np.isfinite(values).all()
    np.testing.assert_allclose(units.transform(sites + np.array([360, 0])), values, atol=1e-6)


def test_scaler__degrees__survive_json_to_the_same_bits():
    sites = np.random.default_rng(0).uniform(-60, 60, size=(40, 2))
    scaler = FeatureScaler(spatial_units=5, spatial_columns=(0, 1), spatial_degrees=True).fit(sites)
    again = FeatureScaler.from_state(json.loads(json.dumps(scaler.state())))
    assert again.get_params() == scaler.get_params()
    assert again.transform(sites).tobytes() == scaler.transform(sites).tobytes()
    flat = FeatureScaler(spatial_units=5, spatial_columns=(0, 1)).fit(sites)
    assert (flat.transform(sites) != scaler.transform(sites)).any()


def test_scaler__latitude_first__is_refused_where_it_shows():
    sites = np.array([[50.0, 120.0], [51.0, 121.0]])
    with pytest.raises(DataError, match=r"degrees must be longitude, then latitude.*got \[50.0, 120.0\] \(rows 0, 1\)"):
        FeatureScaler(spatial_units=2, spatial_degrees=True).fit(sites)


@pytest.mark.parametrize("columns", [(-2, -1), ("east", "north"), (1, 2)])
def test_scaler__spatial_units__are_the_last_columns(columns):
    frame = pd.DataFrame({"soil": list("abab"), "east": SITES[:, 0], "north": SITES[:, 1]})
    scaler = FeatureScaler(spatial_units=2, spatial_columns=columns).fit(frame)
    assert scaler.feature_names_out == ("east", "north", "soil=a", "soil=b", "near (0, 1)", "near (9, 1)")
    np.testing.assert_allclose(
        scaler.transform(frame, dtype=np.float64)[:, -2:], SpatialUnits(2).fit(SITES).transform(SITES)
    )


def test_scaler__spatial_columns_by_name__are_found_in_any_order():
    frame = pd.DataFrame({"north": SITES[:, 1], "depth": [1.0, 2.0, 3.0, 4.0], "east": SITES[:, 0]})
    scaler = FeatureScaler(spatial_units=2, spatial_columns=("east", "north")).fit(frame)
    assert scaler.feature_names_out[-2:] == ("near (0, 1)", "near (9, 1)")


def test_scaler__missing_coordinate__is_taken_as_the_median():
    holes = np.vstack([SITES, [[np.nan, 1.0]]])
    with pytest.warns(match="training median"):
        scaler = FeatureScaler(spatial_units=2).fit(holes)
    with_median = np.vstack([SITES, [[4.5, 1.0]]])
    expected = SpatialUnits(2).fit(with_median).transform(with_median)
    np.testing.assert_allclose(scaler.transform(holes, dtype=np.float64)[:, -2:], expected)


def test_scaler__state_by_way_of_json__gives_the_same_bits():
    scaler = FeatureScaler(spatial_units=3).fit(SITES)
    again = FeatureScaler.from_state(json.loads(json.dumps(scaler.state())))
    rows = np.random.default_rng(0).normal(size=(9, 2))
    np.testing.assert_array_equal(again.transform(rows), scaler.transform(rows))
    assert again.feature_names_out == scaler.feature_names_out


@pytest.mark.parametrize(
    ("columns", "got"),
    [
        (("east", "soil"), "soil"),
        (("east", "west"), "west"),
        ((1, 1), "1, 1"),
        ((0, 9), "9"),
        (("east", True), "True"),
    ],
)
def test_scaler__columns_that_are_no_coordinates__are_named(columns, got):
    frame = pd.DataFrame({"soil": list("abab"), "east": SITES[:, 0], "north": SITES[:, 1]})
    with pytest.raises(ConfigError, match=r"spatial_columns must be two numeric columns.*" + got):
        FeatureScaler(spatial_units=2, spatial_columns=columns).fit(frame)


def test_scaler__sparse_table__has_no_places():
    from scipy import sparse

    with pytest.raises(ConfigError, match="spatial_units must be 0 for a sparse table"):
        FeatureScaler(spatial_units=2).fit(sparse.csr_array(SITES))


@pytest.mark.parametrize(
    "change", [{"centres": [[1.0]]}, {"scale": [1.0]}, {"width": 0.0}, {"width": None}, {"columns": [0, 7]}]
)
def test_scaler__damaged_places__are_refused(change):
    state = FeatureScaler(spatial_units=2).fit(SITES).state()
    state["places"] |= change
    with pytest.raises(ModelError, match="Save"):
        FeatureScaler.from_state(state)


def test_classifier__encoder_without_numbers__refuses_places():
    for name, value in {"spatial_units": 5, "clamp": True, "spatial_columns": ("east", "north")}.items():
        with pytest.raises(ConfigError, match=f"{name} must be left out with encoder 'set'"):
            HotVAENetwork.from_settings(encoder="set", **{name: value})


@pytest.mark.parametrize(
    "wrong", [{"spatial_units": -1}, {"spatial_columns": (1,)}, {"clamp": 1}, {"spatial_degrees": "yes"}]
)
def test_classifier__setting_out_of_range__names_it(wrong):
    model = PlainNetClassifier.from_settings(**wrong)
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))} must be"):
        model.check_parameters()  # before any data are read
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))} must be"):
        model.fit(SITES, np.eye(4))


def patchy_map(n_sites, seed):
    """Presence in every other field of a chessboard: neither coordinate tells anything by itself."""
    sites = np.random.default_rng(seed).uniform(0, 4, size=(n_sites, 2))
    return sites, (np.floor(sites).sum(axis=1) % 2)[:, None]


@pytest.mark.slow
def test_plain__patchy_map__is_learned_with_places_and_hardly_without():
    """Sixteen fields and 800 sites: with bumps the map is there in 15 epochs, with bare coordinates it is not."""
    train, test = patchy_map(800, 0), patchy_map(400, 1)
    losses = {}
    for n_units in (0, 60):
        model = PlainNetClassifier.from_settings(spatial_units=n_units, max_epochs=15, random_state=0).fit(*train)
        losses[n_units] = log_loss(test[1], model.predict_proba(test[0]))
    assert losses[60] < 0.75 * losses[0]


def test_hotvae__saved_with_places__predicts_the_same(tmp_path):
    sites, labels = patchy_map(60, 0)
    model = HotVAENetwork.from_settings(
        spatial_units=5, spatial_columns=(1, 0), dim=8, encoder_widths=(8,), max_epochs=1, random_state=0
    ).fit(sites, np.column_stack([labels, 1 - labels]))
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    for part in (again.features, again.features_):
        assert (part.spatial_units, tuple(part.spatial_columns)) == (5, (1, 0))
    np.testing.assert_array_equal(again.predict_proba(sites), model.predict_proba(sites))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hotvae_network", "plain", "mpvae", "probit", "lamp", "seq2seq", "c2ae"])
def test_network__clamped__predicts_at_the_edge_what_it_predicts_beyond(name):
    sites, labels = patchy_map(60, 0)
    few = {"dim": 8, "encoder_widths": (8,), "max_epochs": 1, "random_state": 0}
    cls = find_classifier(name)
    settings = {key: value for key, value in few.items() if key in cls.all_settings()}
    settings |= {"encoder": "mlp"} if name == "lamp" else {}
    edge, beyond = [[sites[:, 0].max(), 2.0]], [[99.0, 2.0]]
    labels = np.column_stack([labels, 1 - labels])
    fitted = {clamp: cls.from_settings(clamp=clamp, **settings).fit(sites, labels) for clamp in (True, False)}
    np.testing.assert_array_equal(fitted[True].predict_proba(beyond), fitted[True].predict_proba(edge))
    assert (fitted[False].predict_proba(beyond) != fitted[False].predict_proba(edge)).any()
