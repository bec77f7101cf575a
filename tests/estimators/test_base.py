"""What every classifier takes: a Dataset brings its labels and the names of both tables."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from hotvae import Dataset, HotVAENetwork, PlainNetClassifier, load_model
from hotvae.baselines.prevalence import Prevalence
from hotvae.errors import ConfigError, DataError

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(60, 3))
LABELS = RNG.integers(0, 2, size=(60, 2)).astype(float)
LABELS[5, 1] = np.nan
NAMES = {"feature_names": ("depth", "slope", "light"), "label_names": ("wren", "robin")}
DATA = Dataset(TABLE, LABELS, **NAMES)
SMALL = {"encoder_widths": (8,), "dim": 8, "max_epochs": 1, "random_state": 0}
MODELS = {
    "hotvae": HotVAENetwork.from_settings(**SMALL, given_epochs=1, covariance_epochs=1),
    "plain": PlainNetClassifier.from_settings(**SMALL),
    "prevalence": Prevalence(),
}
EVERY_MODEL = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())


@EVERY_MODEL
def test_fit__dataset__names_of_features_and_labels_are_kept(model, tmp_path):
    model.fit(DATA)
    assert tuple(model.feature_names_in_) == tuple(model.features_.feature_names_in) == DATA.feature_names
    assert tuple(model.label_names_) == DATA.label_names
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert tuple(again.feature_names_in_) == DATA.feature_names
    assert tuple(again.label_names_) == DATA.label_names


@EVERY_MODEL
def test_fit__dataset__learns_what_its_tables_teach(model):
    features, labels = (
        pd.DataFrame(DATA.features, columns=DATA.feature_names),
        pd.DataFrame(DATA.labels, columns=DATA.label_names),
    )
    by_data = model.fit(DATA).predict_proba(features)
    np.testing.assert_array_equal(model.fit(features, labels).predict_proba(features), by_data)


def test_fit__dataset_with_categories__keeps_its_frame():
    frame = pd.DataFrame({"soil": RNG.choice(list("ab"), 60), "depth": TABLE[:, 0]})
    model = PlainNetClassifier.from_settings(**SMALL).fit(Dataset(frame, LABELS))
    assert model.features_.feature_names_out == ("depth", "soil=a", "soil=b")


def test_fit__sparse_dataset__keeps_the_names_of_its_labels():
    model = PlainNetClassifier.from_settings(**SMALL).fit(Dataset(sparse.csr_array(TABLE), LABELS, **NAMES))
    assert tuple(model.label_names_) == ("wren", "robin")
    assert model.features_.is_sparse


def test_fit__validation_dataset__labels_are_matched_by_name():
    turned = Dataset(TABLE[40:], LABELS[40:, ::-1], feature_names=NAMES["feature_names"], label_names=("robin", "wren"))
    train = DATA.take(range(40))
    by_data = PlainNetClassifier.from_settings(**SMALL).fit(train, validation=turned)
    by_pair = PlainNetClassifier.from_settings(**SMALL).fit(
        TABLE[:40], LABELS[:40], validation=(TABLE[40:], LABELS[40:])
    )
    assert by_data.history_.column("validation_log_loss") == by_pair.history_.column("validation_log_loss")
    other = Dataset(TABLE[40:], LABELS[40:], feature_names=NAMES["feature_names"], label_names=("wren", "owl"))
    with pytest.raises(DataError, match=r"labels must be those of training; got none of 'robin' and unknown 'owl'"):
        PlainNetClassifier.from_settings(**SMALL).fit(train, validation=other)


@EVERY_MODEL
def test_fit__dataset_and_labels__refused(model):
    with pytest.raises(ConfigError, match="y must be left out with a Dataset, which brings its labels; got both"):
        model.fit(DATA, LABELS)
