import inspect
import re

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from hotvae import HotVAENetwork, PlainNetClassifier, Training, load_model, virtual_region
from hotvae.checkpoint import seal
from hotvae.config import RECIPES, LossWeights, NetConfig
from hotvae.errors import ConfigError, DataError, DataWarning, ModelError
from hotvae.metrics import macro_f1, score
from hotvae.net.latent import Gaussian

PLAIN = {"encoder_widths": (16,), "max_epochs": 3, "n_threads": 1, "random_state": 0, "device": "cpu"}
# What is learned after the network, of given labels and whole communities, is tested elsewhere.
SMALL = PLAIN
TINY = {"dim": 8, **SMALL}


@pytest.fixture(scope="module")
def region():
    return virtual_region(150, 6, random_state=0).dataset


@pytest.fixture(scope="module")
def fitted(region):
    labels = pd.DataFrame(region.labels, columns=region.label_names)
    frame = pd.DataFrame(region.features, columns=region.feature_names)
    return HotVAENetwork.from_settings(**TINY).fit(frame, labels), frame


# Parameters -----------------------------------------------------------------------------------------------


def test_defaults__of_the_estimator__equal_those_of_the_configurations():
    model = HotVAENetwork()
    assert model._config(NetConfig) == NetConfig()
    assert model._config(LossWeights) == LossWeights()
    for kind in (HotVAENetwork, PlainNetClassifier):
        deep = kind().get_params()
        for name, value in Training().get_params().items():
            assert deep[f"training__{name}"] == value


def test_parameters__of_every_configuration__can_be_set_on_the_estimator():
    names = set(inspect.signature(HotVAENetwork).parameters)
    assert set(NetConfig.__dataclass_fields__) - {"n_heads"} <= names
    assert set(LossWeights.__dataclass_fields__) <= names


def test_parameters__of_hotvae__are_at_most_thirty():
    assert len(HotVAENetwork().get_params(deep=False)) <= 30


def test_docstring__parameters__are_those_of_the_signature_and_begin_with_what_is_worth_changing():
    text = inspect.getdoc(HotVAENetwork)
    listed = re.findall(r"^(\w[\w, ]*) : ", text[text.index("Parameters") : text.index("Attributes")], re.MULTILINE)
    names = [name for entry in listed for name in entry.split(", ")]
    assert sorted(names) == sorted(inspect.signature(HotVAENetwork).parameters)
    assert {"training", "features", "encoder", "base", "n_layers", "graph"} <= set(names[:10])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"dim": 0}, "dim must be a whole number of at least 1"),
        ({"kl_weight": -1.0}, "kl_weight must be a number of at least 0; got -1.0"),
        ({"max_epochs": 0}, "max_epochs must be a whole number of at least 1"),
        ({"selection_metric": "f2"}, "selection_metric must be one of"),
        ({"validation_fraction": 1.0}, "validation_fraction must be a share from 0 up to, not including, 1; got 1.0"),
        ({"graph": "ring"}, "graph must be 'complete', 'cooccurrence' or an array"),
        ({"encoder": "cnn"}, "encoder must be one of 'mlp', .*'elements'; got 'cnn'"),
        ({"device": "abacus"}, "device must be 'auto' or one at hand"),
    ],
)
def test_fit__impossible_setting__error_names_it(region, setting, message):
    with pytest.raises(ConfigError, match=message):
        HotVAENetwork.from_settings(**{**TINY, **setting}).fit(region.features, region.labels)


# Labels ---------------------------------------------------------------------------------------------------


def test_fit__label_that_is_a_count__error_names_column_and_rows(region):
    labels = pd.DataFrame(region.labels.copy(), columns=region.label_names)
    labels.iloc[[3, 9], 2] = 2
    with pytest.raises(
        DataError, match=rf"labels must be 0 or 1; got 2.0 in column '{region.label_names[2]}' \(rows 3, 9\)"
    ):
        HotVAENetwork.from_settings(**TINY).fit(region.features, labels)


def test_fit__text_labels__error_says_how_to_code_them(region):
    with pytest.raises(DataError, match="Code presence as 1"):
        HotVAENetwork.from_settings(**TINY).fit(region.features, np.full((150, 2), "yes"))


@pytest.mark.slow
def test_fit__label_with_one_class__warns_and_predicts_its_rate(region):
    labels = region.labels.copy()
    labels[:, 1] = 0
    with pytest.warns(DataWarning, match=r"got 1 class in 'label_1'"):
        model = HotVAENetwork.from_settings(**TINY).fit(region.features, labels)
    assert model.predict_proba(region.features)[:, 1].max() < 0.2


def test_fit__one_label_column__stays_a_table(region):
    model = HotVAENetwork.from_settings(**TINY).fit(region.features, region.labels[:, :1])
    assert model.predict_proba(region.features).shape == (150, 1)
    assert model.predict(region.features).shape == (150, 1)


@pytest.mark.slow
def test_fit__one_dimensional_classes__come_back(region):
    habitat = np.array(["bog", "fen", "heath"])[np.digitize(region.features[:, 0], [-0.5, 0.5])]
    model = HotVAENetwork.from_settings(**{**TINY, "max_epochs": 30, "learning_rate": 0.02}).fit(
        region.features, habitat
    )
    assert (model.predict(region.features) == habitat).mean() > 0.8
    assert model.score(region.features, habitat) > 0.8
    np.testing.assert_allclose(model.predict_proba(region.features).sum(axis=1), 1)


def test_fit__one_row__trains_without_validation_rows():
    with pytest.warns(DataWarning, match="1 class"):
        model = HotVAENetwork.from_settings(**TINY).fit([[1.0, 2.0]], [[1, 0]])
    assert model.predict_proba([[1.0, 2.0]]).shape == (1, 2)
    assert model.thresholds_ == {}


@pytest.mark.slow
def test_fit__labels_not_observed__are_not_taken_for_absences(region):
    """A label observed only where it is present, half of the time: absences filled in would halve its rate."""
    labels = np.ones((150, 2), dtype=np.float32)
    labels[::5] = 0
    labels[1::2, 1] = np.nan
    model = HotVAENetwork.from_settings(**{**TINY, "max_epochs": 20}).fit(region.features, labels)
    rates = model.predict_proba(region.features).mean(axis=0)
    np.testing.assert_allclose(rates, 0.8, atol=0.1)


@pytest.mark.slow
def test_fit__label_never_observed_in_training__is_no_nan(region):
    labels = region.labels.copy()
    labels[:, 0] = np.nan
    with pytest.warns(DataWarning, match="1 class"):
        probs = HotVAENetwork.from_settings(**TINY).fit(region.features, labels).predict_proba(region.features)
    assert np.isfinite(probs).all()


def test_fit__labels_missing_altogether__error():
    with pytest.raises(ValueError, match="requires y to be passed"):
        HotVAENetwork().fit([[1.0], [2.0]], None)


# Features -------------------------------------------------------------------------------------------------


def test_fit__infinite_feature__error(region):
    features = region.features.copy()
    features[4, 1] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        HotVAENetwork.from_settings(**TINY).fit(features, region.labels)


@pytest.mark.slow
def test_fit__missing_features__imputed_from_training_rows_with_a_warning(region):
    features = region.features.copy()
    features[::4, 1] = np.nan
    with pytest.warns(DataWarning, match="missing"):
        model = HotVAENetwork.from_settings(**TINY).fit(features, region.labels)
    assert np.isfinite(model.predict_proba(features)).all()
    assert model.features_.n_features_out == region.n_features + 1


@pytest.mark.slow
def test_fit__categorical_column__one_hot_and_used(region):
    wet = np.where(region.features[:, 1] > 0, "wet", "dry")
    frame = pd.DataFrame({"soil": wet, "noise": np.random.default_rng(0).normal(size=150)})
    labels = (wet == "wet").astype(int)[:, None].repeat(2, axis=1)
    labels[0, 1] = 1 - labels[0, 1]
    settings = {
        **TINY,
        "max_epochs": 30,
        "learning_rate": 0.02,
        "batch_size": 16,
        "selection_metric": "log_loss",
    }
    model = HotVAENetwork.from_settings(**settings).fit(frame, labels)
    assert macro_f1(labels, model.predict(frame)) > 0.95
    with pytest.warns(DataWarning, match="unseen|unknown"):
        model.predict(frame.assign(soil="lava"))


@pytest.mark.slow
def test_predict__columns_in_another_order__error_as_in_scikit_learn(fitted):
    model, frame = fitted
    with pytest.raises(ValueError, match="same order"):
        model.predict(frame[frame.columns[::-1]])


def test_predict__missing_or_unknown_column__error_names_it(fitted):
    model, frame = fitted
    with pytest.raises(ValueError, match="rainfall"):
        model.predict(frame.drop(columns="rainfall"))
    with pytest.raises(ValueError, match="snowfall"):
        model.predict(frame.rename(columns={"rainfall": "snowfall"}))


# Predictions ----------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(st.permutations(range(150)), st.integers(1, 150))
def test_predict_proba__any_order_and_company__same_bits(fitted, order, n_rows):
    model, frame = fitted
    everything = model.predict_proba(frame)
    some = list(order)[:n_rows]
    np.testing.assert_array_equal(model.predict_proba(frame.iloc[some]), everything[some])


def test_predict__is_probability_above_one_half(fitted):
    model, frame = fitted
    np.testing.assert_array_equal(model.predict(frame), model.predict_proba(frame) > 0.5)


@pytest.mark.slow
def test_fit__same_seed__same_bits_and_other_seed__other_model(region):
    first, second = (HotVAENetwork.from_settings(**TINY).fit(region.features, region.labels) for _ in range(2))
    np.testing.assert_array_equal(first.predict_proba(region.features), second.predict_proba(region.features))
    other = HotVAENetwork.from_settings(**{**TINY, "random_state": 1}).fit(region.features, region.labels)
    assert (first.predict_proba(region.features) != other.predict_proba(region.features)).any()


@pytest.mark.slow
def test_fit__leaves_the_callers_random_numbers_alone(region):
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002  # the caller's legacy generator is what must not move
    HotVAENetwork.from_settings(**TINY).fit(region.features, region.labels)
    after = torch.rand(1), np.random.rand()  # noqa: NPY002  # as above
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002  # as above
    assert after == (torch.rand(1), np.random.rand())  # noqa: NPY002  # as above


# Validation rows and thresholds ---------------------------------------------------------------------------


@pytest.mark.slow
def test_fit__given_validation_rows__choose_epoch_and_thresholds(region):
    train, held = np.arange(100), np.arange(100, 150)
    model = HotVAENetwork.from_settings(**{**TINY, "max_epochs": 6, "selection_metric": "macro_f1"}).fit(
        region.features[train], region.labels[train], validation=(region.features[held], region.labels[held])
    )
    probs = model.predict_proba(region.features[held])
    best = score(region.labels[held], probs, "macro_f1")
    assert best.value == max(model.history_.column("validation_macro_f1"))
    assert model.thresholds_["macro_f1"] == best.threshold


@pytest.mark.slow
def test_fit__validation_rows__never_reach_scaler_or_graph(region):
    train, held = np.arange(100), np.arange(100, 150)
    wild = region.features[held] * 1e3
    ones = np.ones_like(region.labels[held])
    ones[0] = 0
    settings = {**TINY, "graph": "cooccurrence"}
    calm, upset = (
        HotVAENetwork.from_settings(**settings).fit(region.features[train], region.labels[train], validation=validation)
        for validation in ((region.features[held], region.labels[held]), (wild, ones))
    )
    assert calm.features_.state() == upset.features_.state()
    np.testing.assert_array_equal(calm.graph_, upset.graph_)


def test_fit__validation_of_the_wrong_form__error(region):
    with pytest.raises(ConfigError, match=r"validation must be a pair \(X, y\)"):
        HotVAENetwork.from_settings(**TINY).fit(region.features, region.labels, validation=region.features)
    with pytest.raises(DataError, match="labels must have 6 columns"):
        HotVAENetwork.from_settings(**TINY).fit(
            region.features, region.labels, validation=(region.features, region.labels[:, :2])
        )
    with pytest.raises(DataError, match="validation classes must occur in training"):
        HotVAENetwork.from_settings(**TINY).fit([[0.0], [1.0]], ["a", "b"], validation=([[0.0]], ["c"]))


def test_score__labels_in_another_column_order__are_matched_by_name(fitted, region):
    model, frame = fitted
    labels = pd.DataFrame(region.labels, columns=region.label_names)
    assert model.score(frame, labels[labels.columns[::-1]]) == model.score(frame, labels)


def test_fit__validation_labels_of_other_names__error_names_them(region):
    labels = pd.DataFrame(region.labels, columns=region.label_names)
    other = labels.rename(columns={region.label_names[0]: "dodo"})
    with pytest.raises(DataError, match=f"got none of '{region.label_names[0]}' and unknown 'dodo'"):
        HotVAENetwork.from_settings(**TINY).fit(region.features, labels, validation=(region.features, other))


# Graph ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_fit__cooccurrence_graph__masks_the_decoder(region):
    labels = region.labels.copy()
    labels[labels[:, 0] == 1, 1] = 0  # two labels that are never seen together
    model = HotVAENetwork.from_settings(**TINY, graph="cooccurrence").fit(region.features, labels)
    assert model.graph_ is not None
    assert not model.graph_[0, 1]
    assert model.graph_.diagonal().all()
    assert not model.graph_.all()
    np.testing.assert_array_equal(model.network_.decoder.graph.numpy(), model.graph_)


def test_fit__own_graph_of_the_wrong_size__error(region):
    with pytest.raises(DataError, match="graph"):
        HotVAENetwork.from_settings(**TINY, graph=np.eye(3, dtype=bool)).fit(region.features, region.labels)


# An encoder of one's own ----------------------------------------------------------------------------------


class ThreeTokens(torch.nn.Module):
    """Seven features to three tokens of width 8."""

    def __init__(self, as_gaussian=False):
        super().__init__()
        self.map = torch.nn.Linear(7, 48)
        self.as_gaussian = as_gaussian
        self.n_tokens = 3

    def forward(self, x):
        mean, log_variance = self.map(x).unflatten(1, (3, 16)).chunk(2, dim=-1)
        return Gaussian(mean, log_variance) if self.as_gaussian else (mean, log_variance)


@pytest.mark.parametrize("as_gaussian", [False, True])
def test_encoder__a_module_of_ones_own__trains_saves_and_loads(region, tmp_path, as_gaussian):
    module = ThreeTokens(as_gaussian)
    before = module.map.weight.clone()
    model = HotVAENetwork.from_settings(**TINY, encoder=module).fit(region.features, region.labels)
    assert torch.equal(module.map.weight, before)
    model.save(tmp_path / "model")
    with pytest.raises(ModelError, match="encoder must be given"):
        HotVAENetwork.load(tmp_path / "model")
    again = HotVAENetwork.load(tmp_path / "model", encoder=ThreeTokens(as_gaussian))
    np.testing.assert_array_equal(again.predict_proba(region.features), model.predict_proba(region.features))


# Saving ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [HotVAENetwork, PlainNetClassifier])
@pytest.mark.parametrize("target", ["labels", "classes"])
@pytest.mark.parametrize("form", ["dense", "frame", "sparse"])
def test_save__then_load__same_bits_and_same_attributes(region, tmp_path, kind, target, form):
    settings = TINY if kind is HotVAENetwork else {"dim": 8, **PLAIN}
    X = {
        "dense": region.features,
        "frame": pd.DataFrame(region.features, columns=region.feature_names),
        "sparse": sparse.csr_array(region.features),
    }[form]
    y = region.labels if target == "labels" else np.where(region.features[:, 0] > 0, "warm", "cold")
    model = kind.from_settings(**settings).fit(X, y)
    model.save(tmp_path / "model", extra={"note": "ä"})
    again = load_model(tmp_path / "model")
    assert type(again) is kind
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.extra_ == {"note": "ä"}
    learned = {name for name in vars(model) if name.endswith("_")}
    assert learned <= set(vars(again))
    assert again.thresholds_ == model.thresholds_
    assert again.history_ == model.history_
    assert again.features_.state() == model.features_.state()


def test_save__with_graph__same_bits(region, tmp_path):
    ring = np.abs(np.subtract.outer(np.arange(6), np.arange(6))) <= 1
    model = HotVAENetwork.from_settings(**TINY, graph=ring).fit(region.features, region.labels)
    model.save(tmp_path / "model")
    again = HotVAENetwork.load(tmp_path / "model")
    np.testing.assert_array_equal(again.graph_, model.graph_)
    np.testing.assert_array_equal(again.predict_proba(region.features), model.predict_proba(region.features))


def test_save__settings_from_numpy__are_plain_numbers_again(region, tmp_path):
    settings = {**TINY, "dim": np.int64(8), "kl_weight": np.float32(0.5), "encoder_widths": (np.int64(16),)}
    HotVAENetwork.from_settings(**settings).fit(region.features, region.labels).save(tmp_path / "model")
    again = HotVAENetwork.load(tmp_path / "model")
    assert (again.dim, again.kl_weight, tuple(again.encoder_widths)) == (8, 0.5, (16,))


def test_save__of_a_loaded_model__same_folder_again(fitted, tmp_path):
    model, _ = fitted
    model.save(tmp_path / "one")
    HotVAENetwork.load(tmp_path / "one").save(tmp_path / "two")
    for name in ("config.json", "weights.safetensors"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_load__as_another_kind__error_names_both(fitted, tmp_path):
    fitted[0].save(tmp_path / "model")
    with pytest.raises(ModelError, match="model must be a PlainNetClassifier; got 'HotVAENetwork'"):
        PlainNetClassifier.load(tmp_path / "model")


@pytest.mark.parametrize("broken", ["params", "features", "label_names", "classes"])
def test_load__config_that_does_not_fit__error_not_a_traceback(fitted, tmp_path, broken):
    import json

    fitted[0].save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    del config[broken]
    path.write_text(json.dumps(config))
    seal(tmp_path / "model")
    with pytest.raises(ModelError, match="model folder must describe a HotVAENetwork"):
        HotVAENetwork.load(tmp_path / "model")


def test_load_model__unknown_kind__error(fitted, tmp_path):
    import json

    fitted[0].save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "kind": "Oracle"}))
    seal(tmp_path / "model")
    with pytest.raises(ModelError, match="model must be one of"):
        load_model(tmp_path / "model")


def test_load_model__two_labels_of_one_name__error(fitted, tmp_path):
    import json

    fitted[0].save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    config["label_names"][1] = config["label_names"][0]
    path.write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"config\.json must match its checksum"):
        load_model(tmp_path / "model")
    seal(tmp_path / "model")
    with pytest.raises(ModelError, match="label names must be unique"):
        load_model(tmp_path / "model")


def test_score__table_of_labels__is_macro_f1(fitted, region):
    model, frame = fitted
    assert model.score(frame, region.labels) == macro_f1(region.labels, model.predict(frame))
    with pytest.raises(ConfigError, match="sample_weight"):
        model.score(frame, region.labels, sample_weight=np.ones(150))


def test_state_file__second_fit__resumes_a_finished_run(region, tmp_path):
    settings = {**TINY, "state_file": tmp_path / "run.state"}
    first = HotVAENetwork.from_settings(**settings).fit(region.features, region.labels)
    second = HotVAENetwork.from_settings(**settings).fit(region.features, region.labels)
    assert second.history_ == first.history_
    np.testing.assert_array_equal(first.predict_proba(region.features), second.predict_proba(region.features))


def test_from_recipe__paper__every_setting_is_one_and_own_ones_win():
    model = HotVAENetwork.from_recipe("paper", weight_decay=0.3, dim=32)
    by_hand = HotVAENetwork.from_settings(**RECIPES["paper"] | {"weight_decay": 0.3, "dim": 32})
    assert model.current_settings() == by_hand.current_settings()
    assert model.current_settings().items() >= {"weight_decay": 0.3, "dim": 32, "optimizer": "adam"}.items()
    assert HotVAENetwork.from_recipe("network").current_settings() == HotVAENetwork().current_settings()
    with pytest.raises(ConfigError, match="recipe must be one of 'auto', 'network', 'paper'; got 'own'"):
        HotVAENetwork.from_recipe("own")


def test_fit__a_dataset__names_its_features_and_labels(region):
    rows = np.arange(100), np.arange(100, 150)
    train, held = (region.take(index) for index in rows)
    named = HotVAENetwork.from_settings(**TINY).fit(train, validation=held)
    assert list(named.label_names_) == list(region.label_names)
    assert list(named.feature_names_in_) == list(region.feature_names)
    frames = [(pd.DataFrame(part.features, columns=region.feature_names), part.labels) for part in (train, held)]
    unnamed = HotVAENetwork.from_settings(**TINY).fit(*frames[0], validation=frames[1])
    np.testing.assert_array_equal(named.predict_proba(frames[1][0]), unnamed.predict_proba(frames[1][0]))
    with pytest.raises(ConfigError, match="y must be left out with a Dataset"):
        HotVAENetwork.from_settings(**TINY).fit(train, train.labels)
