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
    "hotvae": HotVAENetwork.from_settings(**SMALL),
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


# Labels together ------------------------------------------------------------------------------------------


def pairs_data(n=900, seed=0):
    """Two labels that are always the same, two that are never both there; the feature says nothing of any."""
    random = np.random.default_rng(seed)
    first, second = random.random((2, n)) < 0.5
    alone = random.random(n) < 0.3
    labels = np.column_stack([first, first, second, ~second, alone]).astype(float)
    return random.normal(size=(n, 2)), pd.DataFrame(labels, columns=["twin", "twin_2", "rival", "rival_2", "loner"])


def test_given__models_that_cannot__say_who_can():
    X, Y = pairs_data(100)
    bare, classes = Prevalence().fit(X, Y), Prevalence().fit(X, Y["twin"].astype(int))
    with pytest.raises(ConfigError, match=r"Leave it out, use HotVAEClassifier, or wrap it: JointClassifier\("):
        bare.predict_proba(X[:1], given=[[1, np.nan, np.nan, np.nan, np.nan]])
    with pytest.raises(ConfigError, match="given must go with a table of labels; got classes"):
        classes.predict_proba(X[:1], given=[[1]])


def test_sample__independent_model__draws_each_label_by_itself():
    X, Y = pairs_data(400)
    draws = Prevalence().fit(X, Y).sample(X[:3], 4000, random_state=0)
    assert draws.shape == (4000, 3, 5)
    assert draws.dtype == np.int8
    np.testing.assert_allclose(draws.mean(axis=(0, 1)), Y.mean(), atol=0.03)
    assert abs(np.corrcoef(draws[..., 0].ravel(), draws[..., 1].ravel())[0, 1]) < 0.05


def test_sample__seed__decides_and_blocks_are_the_same_stream(monkeypatch):
    model, X = Prevalence().fit(*pairs_data(100)), np.zeros((7, 2))
    monkeypatch.setattr("hotvae.estimators.base._CELLS_PER_BLOCK", 7 * 5 * 4)
    blocks = list(model.sample_blocks(X, 10, random_state=3))
    assert [len(block) for block in blocks] == [4, 4, 2]
    np.testing.assert_array_equal(np.concatenate(blocks), model.sample(X, 10, random_state=3))
    assert (model.sample(X, 10, random_state=4) != model.sample(X, 10, random_state=3)).any()


def test_sample__wrong_input__is_named():
    X, Y = pairs_data(100)
    with pytest.raises(ConfigError, match="n_draws must be a whole number of at least 1; got 0"):
        Prevalence().fit(X, Y).sample(np.zeros((1, 2)), 0)
    with pytest.raises(ConfigError, match="sample must go with a table of labels"):
        Prevalence().fit(X, Y["twin"].astype(int)).sample(X[:1])


def test_log_likelihood__independent_model__is_the_sum_over_observed_labels():
    X, Y = pairs_data(60)
    bare = Prevalence(random_state=0).fit(X, Y)
    probs = bare.predict_proba(X)
    gaps = Y.to_numpy().copy()
    gaps[:, 2] = np.nan
    cells = np.log(np.where(gaps == 1, probs, 1 - probs))
    np.testing.assert_allclose(bare.log_likelihood(X, gaps), np.where(np.isnan(gaps), 0, cells).sum(axis=1))
