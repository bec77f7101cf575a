"""Resemblance to rows of the training table."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from hotvae import HotVAENetwork, load_model
from hotvae.baselines.plain import PlainNetClassifier
from hotvae.errors import ConfigError, ModelError
from hotvae.estimators.registry import find_classifier
from hotvae.features.landmarks import Landmarks
from hotvae.features.scaling import FeatureScaler
from hotvae.metrics import log_loss

ROWS = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 5.0]])


def test_landmarks__three_rows__match_hand_calculation():
    """Squared distances are 25, 25 and 10: their median 25, so the first row is like the second by exp(-6)."""
    units = Landmarks(3).fit(ROWS)
    far, near = np.exp(-6.0), np.exp(-6 * 10 / 25)
    table = np.array([[1.0, far, far], [far, 1.0, near], [far, near, 1.0]])
    np.testing.assert_allclose(units.scale, table.std(axis=0), rtol=1e-6)
    np.testing.assert_allclose(units.transform(ROWS) * units.scale, table, rtol=1e-6)


def test_landmarks__loop_over_rows_and_columns__gives_the_same():
    rng = np.random.default_rng(3)
    table, rows = rng.normal(size=(40, 5)), rng.normal(size=(6, 5))
    units = Landmarks(10).fit(table)
    for i, row in enumerate(rows):
        for k, number in enumerate(units.numbers):
            squared = sum((float(a) - float(np.float32(b))) ** 2 for a, b in zip(row, table[number], strict=True))
            expected = np.exp(-squared / (2 * units.width**2)) / units.scale[k]
            assert units.transform(rows)[i, k] == pytest.approx(expected, rel=1e-9)


def test_landmarks__drawn_rows__are_different_ones_of_the_table():
    table = np.random.default_rng(0).normal(size=(50, 3))
    units = Landmarks(20).fit(table)
    assert len(set(units.numbers.tolist())) == 20
    np.testing.assert_array_equal(units.rows, table[units.numbers].astype(np.float32))


def test_landmarks__fewer_rows_than_asked_for__are_all_of_them():
    assert Landmarks(9).fit(ROWS).numbers.tolist() == [0, 1, 2]


@given(arrays(np.float64, st.tuples(st.integers(1, 20), st.integers(1, 4)), elements=st.floats(-1e3, 1e3)))
def test_landmarks__any_table__is_finite_at_home_and_zero_far_away(table):
    units = Landmarks(5).fit(table)
    values = units.transform(table)
    assert np.isfinite(values).all()
    assert (values >= 0).all()
    far = table.max(axis=0, keepdims=True) + 60 * units.width + 1
    np.testing.assert_array_equal(units.transform(far), np.zeros((1, len(units.rows))))


def test_scaler__landmarks__are_the_last_columns_and_compare_scaled_rows():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"soil": list("abab") * 5, "depth": rng.normal(300, 50, 20), "x": rng.normal(size=20), "y": rng.normal(size=20)}
    )
    scaler = FeatureScaler(landmarks=4, spatial_units=2).fit(frame)
    out = scaler.transform(frame, dtype=np.float64)
    assert scaler.n_features_out == len(scaler.feature_names_out) == out.shape[1] == 5 + 2 + 4
    assert all(name.startswith("like row ") for name in scaler.feature_names_out[-4:])
    np.testing.assert_allclose(out[:, -4:], Landmarks(4).fit(out[:, :5]).transform(out[:, :5]))


def test_scaler__rows_alone_or_together__have_the_same_bits():
    table = np.random.default_rng(0).normal(size=(30, 7))
    scaler = FeatureScaler(landmarks=12).fit(table)
    together = scaler.transform(table)
    for i in range(30):
        np.testing.assert_array_equal(scaler.transform(table[i : i + 1])[0], together[i])


def test_scaler__state_by_way_of_json__gives_the_same_bits():
    table = np.random.default_rng(0).normal(size=(30, 7))
    scaler = FeatureScaler(landmarks=12).fit(table)
    again = FeatureScaler.from_state(json.loads(json.dumps(scaler.state())))
    np.testing.assert_array_equal(again.transform(table), scaler.transform(table))
    assert again.feature_names_out == scaler.feature_names_out


@pytest.mark.parametrize(
    "change",
    [{"rows": "no base64!"}, {"rows": ""}, {"shape": [2, 2]}, {"scale": [1.0]}, {"width": 0.0}, {"numbers": None}],
)
def test_scaler__damaged_landmarks__are_refused(change):
    state = FeatureScaler(landmarks=3).fit(ROWS).state()
    state["landmarks"] |= change
    with pytest.raises(ModelError, match="Save"):
        FeatureScaler.from_state(state)


def test_scaler__landmarks_of_another_table__are_refused():
    state = FeatureScaler(landmarks=3).fit(ROWS).state()
    state["landmarks"] = FeatureScaler(landmarks=3).fit(np.eye(3)).state()["landmarks"]
    with pytest.raises(ModelError, match="one entry per column"):
        FeatureScaler.from_state(state)


def test_scaler__sparse_table__has_no_landmarks():
    with pytest.raises(ConfigError, match="landmarks must be 0 for a sparse table"):
        FeatureScaler(landmarks=2).fit(sparse.csr_array(ROWS))


def test_classifier__encoder_without_numbers__refuses_landmarks():
    with pytest.raises(ConfigError, match=r"landmarks must be left out with encoder 'set', .*; got 5\. Choose another"):
        HotVAENetwork.from_settings(encoder="set", landmarks=5)


def test_classifier__negative_number__names_it():
    with pytest.raises(ConfigError, match="landmarks must be a whole number of at least 0; got -1"):
        PlainNetClassifier.from_settings(landmarks=-1).fit(ROWS, np.eye(3))


def test_classifier__saved_and_read_back__predicts_the_same_bits(tmp_path):
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(60, 4)), (rng.random((60, 3)) < 0.5).astype(float)
    model = HotVAENetwork.from_settings(landmarks=8, max_epochs=1, encoder_widths=(8,), random_state=0).fit(
        features, labels
    )
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict_proba(features), model.predict_proba(features))


@pytest.mark.parametrize("name", ["hotvae_network", "plain", "mpvae", "probit", "lamp", "seq2seq", "c2ae"])
def test_network__landmarks__reach_its_front(name):
    """Whatever makes rows easier to read is no merit of one model: every network can have it."""
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(40, 4)), (rng.random((40, 3)) < 0.5).astype(float)
    few = {"dim": 8, "encoder_widths": (8,), "max_epochs": 1, "random_state": 0}
    cls = find_classifier(name)
    settings = {key: value for key, value in few.items() if key in cls.all_settings()}
    model = cls.from_settings(landmarks=6, **settings).fit(features, labels)
    assert model.features_.n_features_out == 10


def many_heaps(n_rows, seed):
    """Sixty heaps of rows, each of which has its own labels at random: there is no direction to learn."""
    centres = np.random.default_rng(0).normal(size=(60, 20))
    kinds = np.random.default_rng(1).random((60, 4)) < 0.5
    rng = np.random.default_rng(seed)
    heap = rng.integers(60, size=n_rows)
    return centres[heap] + 0.4 * rng.normal(size=(n_rows, 20)), kinds[heap].astype(float)


def test_classifier__rows_in_heaps__learns_from_what_lies_close():
    train, test = many_heaps(400, 2), many_heaps(400, 3)
    settings = {"encoder_widths": (64,), "max_epochs": 15, "random_state": 0}
    with_landmarks, without = (
        log_loss(test[1], PlainNetClassifier.from_settings(landmarks=n, **settings).fit(*train).predict_proba(test[0]))
        for n in (200, 0)
    )
    assert with_landmarks < 0.8 * without
