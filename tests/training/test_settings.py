"""Training: checked by name, copied, searched over, and never shared between two classifiers by accident."""

import inspect
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from hotvae import HotVAENetwork, PlainNetClassifier, Training, load_model
from hotvae.errors import ConfigError
from hotvae.estimators.registry import find_classifier
from hotvae.features import FeatureScaler, TextTokens
from hotvae.metrics import METRICS
from hotvae.training.settings import WHERE

NETWORKS = ["hotvae_network", "plain", "mpvae", "lamp", "seq2seq", "c2ae", "probit"]
RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(60, 3))
LABELS = (TABLE[:, :2] + 0.1 * RNG.normal(size=(60, 2)) > 0).astype(int)
SMALL = {"encoder_widths": (8,), "dim": 8, "random_state": 0}

# Checks ---------------------------------------------------------------------------------------------------


def test_training__defaults_and_every_metric__are_allowed():
    training = Training()
    assert training.checked() is training
    for metric in METRICS:
        Training(selection_metric=metric).checked()


@pytest.mark.parametrize(
    ("name", "wrong", "rule"),
    [
        ("max_epochs", 0, "be a whole number of at least 1"),
        ("max_epochs", 2.5, "be a whole number of at least 1"),
        ("batch_size", True, "be a whole number of at least 1"),
        ("learning_rate", 0.0, "be a number above 0"),
        ("learning_rate", np.nan, "be a number above 0"),
        ("weight_decay", -0.1, "be a number of at least 0"),
        ("optimizer", "sgd", "be one of 'adam', 'adamw'"),
        ("schedule", "linear", "be one of 'constant', 'cosine'"),
        ("warmup_epochs", -1.0, "be a number of at least 0"),
        ("clip_norm", np.inf, "be a number of at least 0"),
        ("average_decay", 1.0, "be a share from 0 up to, not including, 1"),
        ("selection_metric", "accuracy", "be one of 'example_f1'"),
        ("patience", -1, "be a whole number of at least 0"),
        ("patience", None, "be a whole number of at least 0"),
        ("precision", "half", "be one of 'float32', 'float64'"),
        ("precision", "floaty", "be one of 'float32', 'float64'"),
        ("n_threads", 0, "be a whole number of at least 1"),
        ("progress", "loud", "be one of 'auto', 'bar', 'lines', 'silent'"),
        ("device", "abacus", "be 'auto' or one at hand"),
        ("device", None, "be 'auto' or one at hand"),
    ],
)
def test_training__value_that_is_not_allowed__taken_and_refused_in_fit(name, wrong, rule):
    training = Training(**{name: wrong})
    assert training.get_params()[name] is wrong
    message = rf"^{name} must {rule}.*; got {wrong!r}\. "
    if name != "device":  # which of them are at hand is found out when they are needed
        with pytest.raises(ConfigError, match=message + "Choose an allowed value"):
            training.checked()
    with pytest.raises(ConfigError, match=message):
        PlainNetClassifier(training=training, **SMALL).fit(TABLE, LABELS)


def test_training__every_parameter__stored_as_given_and_cloned():
    names = list(inspect.signature(Training).parameters)
    marks = {name: object() for name in names}
    assert Training(**marks).get_params() == marks
    values = Training(max_epochs=7, device="cpu", state_file="here")
    assert clone(values).get_params() == values.get_params()
    assert clone(values) is not values
    assert set(WHERE) < set(names)


def test_training__but__copies_with_changes_and_without_the_state_file():
    first = Training(max_epochs=7, patience=3, state_file="here")
    second = first.but(max_epochs=2)
    assert second.get_params() == first.get_params() | {"max_epochs": 2, "state_file": None}
    assert (first.max_epochs, first.state_file) == (7, "here")
    assert first.but(state_file="there").state_file == "there"


def test_training__shown__by_what_differs_from_the_defaults():
    assert repr(Training(max_epochs=5)) == "Training(max_epochs=5)"


# In a search ----------------------------------------------------------------------------------------------


def test_grid_search__training_and_features_of_defaults__best_is_found_and_set():
    """A step size of a billionth learns nothing: the other one must be chosen."""
    base = PlainNetClassifier(**SMALL)
    grid = {
        "training__learning_rate": [1e-9, 0.03],
        "training__weight_decay": [0.01],
        "training__max_epochs": np.array([12]),
        "features__scaling": ["standard"],
    }
    search = GridSearchCV(base, grid, cv=2, error_score="raise").fit(TABLE, LABELS)
    best = search.best_estimator_
    assert search.best_params_["training__learning_rate"] == 0.03
    assert (best.training.weight_decay, best.training.max_epochs) == (0.01, 12)
    assert len(best.history_.records) <= 12
    assert (base.training, base.features) == (None, None), "the search works on copies"


def test_grid_search__weight_decay__every_candidate_trains_with_its_own():
    base = PlainNetClassifier(training=Training(max_epochs=3, learning_rate=0.05, optimizer="adamw"), **SMALL)
    grid = {"training__weight_decay": [0.0, 15.0]}
    search = GridSearchCV(base, grid, cv=2, error_score="raise", refit=False).fit(TABLE, LABELS)
    assert [params["training__weight_decay"] for params in search.cv_results_["params"]] == [0.0, 15.0]
    sizes = [
        float(clone(base).set_params(**params).fit(TABLE, LABELS).network_.readout.weight.norm().detach())
        for params in search.cv_results_["params"]
    ]
    assert sizes[1] < 0.8 * sizes[0]
    assert base.training.weight_decay == Training().weight_decay


def test_fit__settings_that_are_numbers_of_numpy__trains_and_is_saved(tmp_path):
    training = Training(max_epochs=np.int64(2), learning_rate=np.float32(0.01), patience=np.int32(1))
    features = FeatureScaler(landmarks=np.int64(3), spatial_units=np.int64(2))
    model = PlainNetClassifier(training=training, features=features, **SMALL).fit(TABLE, LABELS)
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(TABLE), model.predict_proba(TABLE))
    assert again.training.get_params() == model.training.get_params()


# Objects of their own -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETWORKS)
def test_set_params__one_of_two_classifiers__the_other_keeps_its_defaults(name):
    cls = find_classifier(name)
    one, two = cls(), cls()
    before = two.get_params()
    one.set_params(training__max_epochs=3, features__scaling="none")
    assert one.get_params()["training__max_epochs"] == one.training.max_epochs == 3
    assert one.get_params()["features__scaling"] == one.features.scaling == "none"
    assert two.get_params() == before
    assert cls().get_params() == before
    third = cls().set_params(training__max_epochs=4)
    assert third.training is not one.training
    assert one.training.max_epochs == 3


@pytest.mark.parametrize("name", NETWORKS)
def test_set_params__training_of_defaults__only_what_is_set_differs(name):
    cls = find_classifier(name)
    before = cls().get_params()
    after = cls().set_params(training__patience=99).get_params()
    changed = {key for key in before if key != "training" and before[key] != after[key]}
    assert changed == {"training__patience"}
    # What stands in while training is None is what trains.
    assert cls()._training().get_params() == {
        key.removeprefix("training__"): value for key, value in before.items() if key.startswith("training__")
    }


def test_clone__training_and_features__are_copies():
    model = PlainNetClassifier(training=Training(max_epochs=3), features=FeatureScaler("none"))
    copy = clone(model)
    copy.set_params(training__max_epochs=9, features__scaling="robust")
    assert (model.training.max_epochs, model.features.scaling) == (3, "none")
    assert (copy.training.max_epochs, copy.features.scaling) == (9, "robust")
    untouched = clone(PlainNetClassifier())
    assert (untouched.training, untouched.features) == (None, None)


def test_set_params__encoder_with_settings_of_its_rows__go_together():
    model = HotVAENetwork().set_params(encoder="text", features__max_tokens=5)
    assert isinstance(model.features, TextTokens)
    assert model.features.max_tokens == 5
    with pytest.raises(ValueError, match="Invalid parameter 'max_tokens'"):
        HotVAENetwork().set_params(features__max_tokens=5)


def test_fit__training_and_features__are_left_as_they_were():
    training, features = Training(max_epochs=1), FeatureScaler(landmarks=2)
    before = vars(training).copy()
    model = HotVAENetwork(training=training, features=features, **SMALL).fit(TABLE, LABELS)
    assert vars(training) == before
    assert features.feature_names_in == ()
    assert model.training is training
    assert model.features is features
    assert model.features_ is not features


# Settings by names of their own ---------------------------------------------------------------------------


def test_from_settings__flat_names__equal_the_nested_form():
    flat = HotVAENetwork.from_settings(
        max_epochs=2, weight_decay=0.5, n_threads=1, scaling="quantile", landmarks=3, **SMALL
    )
    nested = HotVAENetwork(
        training=Training(max_epochs=2, weight_decay=0.5, n_threads=1),
        features=FeatureScaler("quantile", landmarks=3),
        **SMALL,
    )
    by_name = HotVAENetwork(**SMALL).set_params(
        training__max_epochs=2,
        training__weight_decay=0.5,
        training__n_threads=1,
        features__scaling="quantile",
        features__landmarks=3,
    )
    assert repr(flat) == repr(nested) == repr(by_name)
    one, two, three = (model.fit(TABLE, LABELS).predict_proba(TABLE) for model in (flat, nested, by_name))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize("name", NETWORKS)
def test_from_settings__every_setting_at_its_default__is_the_classifier_without_any(name):
    cls = find_classifier(name)
    settings = cls.all_settings()
    assert "max_epochs" in settings
    assert "landmarks" in settings
    assert not any("__" in key or key in ("training", "features") for key in settings)
    assert cls.from_settings(**settings).get_params(deep=False).keys() == cls().get_params(deep=False).keys()
    with_defaults, without = cls.from_settings(**settings).get_params(), cls().get_params()
    flat = {key for key in without if key not in ("training", "features")}
    assert all(with_defaults[key] == without[key] for key in flat)


@pytest.mark.parametrize(
    ("encoder", "settings", "wrong"),
    [
        ("set", {"landmarks": 3}, "landmarks"),
        ("text", {"scaling": "none", "max_words": 9}, "scaling"),
        ("mlp", {"bonds": True}, "bonds"),
        ("smiles", {"min_word_count": 5}, "min_word_count"),
        ("bag", {"max_tokens": 9}, "max_tokens"),
        ("mlp", {"share_layers": True}, "share_layers"),
    ],
)
def test_from_settings__setting_of_other_features__refused_by_name(encoder, settings, wrong):
    message = rf"^{wrong} must be left out with encoder '{encoder}', .*; got {settings[wrong]!r}\. Choose another"
    with pytest.raises(ConfigError, match=message):
        HotVAENetwork.from_settings(encoder=encoder, **settings)


def test_from_settings__setting_of_other_features_at_its_default__says_nothing():
    model = HotVAENetwork.from_settings(encoder="text", landmarks=0, scaling="standard", max_tokens=7)
    assert model.features.get_params() == TextTokens(max_tokens=7).get_params()


def test_change_settings__names_of_parts__reach_them_and_others_are_left_out():
    model = PlainNetClassifier().change_settings(max_epochs=3, landmarks=2, dim=4, n_layers=9)
    assert (model.training.max_epochs, model.features.landmarks, model.dim) == (3, 2, 4)
    assert "n_layers" not in model.get_params()


# In a file ------------------------------------------------------------------------------------------------


def test_save__training_and_features__come_back_but_for_the_state_file(tmp_path):
    training = Training(max_epochs=1, patience=4, state_file=tmp_path / "state")
    features = FeatureScaler("robust", clamp=True)
    model = PlainNetClassifier(training=training, features=features, **SMALL).fit(pd.DataFrame(TABLE), LABELS)
    model.save(tmp_path / "model")
    assert "state" not in json.loads((tmp_path / "model" / "config.json").read_text())["params"]["training"]
    again = load_model(tmp_path / "model")
    assert again.training.get_params() == training.get_params() | {"state_file": None}
    stored = again.features.get_params()
    assert stored | {"spatial_columns": tuple(stored["spatial_columns"])} == features.get_params()
