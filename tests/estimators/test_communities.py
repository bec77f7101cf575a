"""Given labels and whole communities through the estimator."""

import numpy as np
import pandas as pd
import pytest

from hotvae import HotVAENetwork, PlainNetClassifier, virtual_region
from hotvae.baselines.prevalence import Prevalence
from hotvae.errors import ConfigError, DataError

NAN = np.nan
SMALL = {
    "dim": 8,
    "encoder_widths": (16,),
    "label_encoder_widths": (32,),
    "direct_epochs": 28,
    "max_epochs": 30,
    "learning_rate": 0.01,
    "random_state": 0,
    "n_threads": 1,
    "device": "cpu",
}


def pairs_data(n=900, seed=0):
    """Two labels that are always the same, two that are never both there; the feature says nothing of any."""
    random = np.random.default_rng(seed)
    first, second = random.random((2, n)) < 0.5
    alone = random.random(n) < 0.3
    labels = np.column_stack([first, first, second, ~second, alone]).astype(float)
    return random.normal(size=(n, 2)), pd.DataFrame(labels, columns=["twin", "twin_2", "rival", "rival_2", "loner"])


@pytest.fixture(scope="module")
def model():
    X, Y = pairs_data()
    return HotVAENetwork.from_settings(**SMALL).fit(X, Y)


# Given ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_given__pairs__one_tells_the_other(model):
    X = np.zeros((4, 2))
    given = np.full((4, 5), NAN)
    given[0, 0], given[1, 0], given[2, 2], given[3, 2] = 1, 0, 1, 0
    probs = model.predict_proba(X, given=given)
    assert probs[0, 1] > 0.9
    assert probs[1, 1] < 0.1
    assert probs[2, 3] < 0.1
    assert probs[3, 3] > 0.9
    # what has nothing to do with it stays
    np.testing.assert_allclose(probs[:, 4], 0.3, atol=0.1)
    np.testing.assert_allclose(probs[:2, 2:4], 0.5, atol=0.12)


@pytest.mark.slow
def test_given__labels__come_back_as_given_and_nothing_given_is_the_plain_prediction(model):
    X = np.random.default_rng(1).normal(size=(60, 2))
    given = np.where(np.random.default_rng(2).random((60, 5)) < 0.3, 1.0, NAN)
    given[::4] = NAN
    probs = model.predict_proba(X, given=given)
    np.testing.assert_array_equal(probs[~np.isnan(given)], 1)
    nothing = np.isnan(given).all(axis=1)
    np.testing.assert_array_equal(probs[nothing], model.predict_proba(X)[nothing])
    np.testing.assert_array_equal(model.predict_proba(X, given=np.full((60, 5), NAN)), model.predict_proba(X))


@pytest.mark.slow
def test_given__company__does_not_matter(model):
    X = np.random.default_rng(1).normal(size=(30, 2))
    given = np.where(np.random.default_rng(2).random((30, 5)) < 0.4, 0.0, NAN)
    together = model.predict_proba(X, given=given)
    for row in (0, 7, 29):
        np.testing.assert_array_equal(model.predict_proba(X[[row]], given=given[[row]])[0], together[row])


@pytest.mark.slow
def test_given__frame_in_another_order__is_matched_by_name(model):
    given = pd.DataFrame([[NAN, NAN, 1, NAN, 0]], columns=["loner", "rival", "twin", "rival_2", "twin_2"])
    by_name = model.predict_proba([[0.0, 0.0]], given=given)
    np.testing.assert_array_equal(by_name, model.predict_proba([[0.0, 0.0]], given=[[1, 0, NAN, NAN, NAN]]))


@pytest.mark.slow
def test_given__saved_and_loaded__the_same(model, tmp_path):
    model.save(tmp_path / "model")
    again = HotVAENetwork.load(tmp_path / "model")
    X, given = np.zeros((2, 2)), [[1, NAN, NAN, 0, NAN], [NAN] * 5]
    np.testing.assert_array_equal(again.predict_proba(X, given=given), model.predict_proba(X, given=given))
    np.testing.assert_array_equal(again.sample(X, 5, 0, given), model.sample(X, 5, 0, given))


@pytest.mark.slow
def test_given__wrong_input__is_named(model):
    with pytest.raises(DataError, match="given must have the rows of X, 2; got 1"):
        model.predict_proba(np.zeros((2, 2)), given=[[1, NAN, NAN, NAN, NAN]])
    with pytest.raises(DataError, match="labels must have 5 columns"):
        model.predict_proba(np.zeros((1, 2)), given=[[1]])
    with pytest.raises(DataError, match="labels must be 0 or 1; got 2"):
        model.predict_proba(np.zeros((1, 2)), given=[[2, NAN, NAN, NAN, NAN]])


@pytest.mark.slow
def test_given__models_that_cannot__say_who_can():
    X, Y = pairs_data(100)
    plain = PlainNetClassifier.from_settings(encoder_widths=(4,), max_epochs=1).fit(X, Y)
    with pytest.raises(ConfigError, match="given must go with a model that learns labels from labels; got PlainNet"):
        plain.predict_proba(X[:1], given=[[1, NAN, NAN, NAN, NAN]])
    paper = HotVAENetwork.from_settings(**{**SMALL, "direct_epochs": 0, "max_epochs": 1}, conditional=False).fit(X, Y)
    with pytest.raises(ConfigError, match="got conditional=False"):
        paper.predict_proba(X[:1], given=[[1, NAN, NAN, NAN, NAN]])
    classes = HotVAENetwork.from_settings(**{**SMALL, "direct_epochs": 0, "max_epochs": 1}).fit(
        X, Y["twin"].astype(int)
    )
    with pytest.raises(ConfigError, match="given must go with a table of labels; got classes"):
        classes.predict_proba(X[:1], given=[[1]])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["text", "set"])
def test_given__rows_of_tokens__each_label_still_tells_its_twin(kind):
    random = np.random.default_rng(0)
    tokens = random.random((600, 8)) < 0.4
    tokens[:, 0] = True
    texts = np.array([" ".join("abcdefgh"[i] * 3 for i in np.flatnonzero(row)) for row in tokens], dtype=object)
    twin = random.random(600) < 0.5
    Y = np.column_stack([twin, twin, tokens[:, 1]]).astype(float)
    X = texts if kind == "text" else tokens.astype(float)
    model = HotVAENetwork.from_settings(
        **{**SMALL, "direct_epochs": 24, "max_epochs": 25}, covariance_epochs=0, encoder=kind, encoder_layers=1
    ).fit(X, Y)
    probs = model.predict_proba(X[:50], given=np.tile([1, NAN, NAN], (50, 1)))
    assert probs[:, 1].min() > 0.85
    assert np.abs(probs[:, 2] - Y[:50, 2]).mean() < 0.2


# Draws ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_sample__pairs__go_together_and_marginals_stay(model):
    X = np.random.default_rng(1).normal(size=(20, 2))
    draws = model.sample(X, 2000, random_state=0)
    assert draws.shape == (2000, 20, 5)
    assert draws.dtype == np.int8
    assert set(np.unique(draws)) == {0, 1}
    # 2000 draws: four standard errors
    np.testing.assert_allclose(draws.mean(axis=0), model.predict_proba(X), atol=0.045)
    agree = (draws[..., 0] == draws[..., 1]).mean()
    exclude = (draws[..., 2] != draws[..., 3]).mean()
    assert agree > 0.8
    assert exclude > 0.8
    assert abs((draws[..., 0] == draws[..., 2]).mean() - 0.5) < 0.05


@pytest.mark.slow
def test_sample__given__is_kept_and_the_rest_follows(model):
    given = np.array([[1, NAN, NAN, NAN, NAN], [NAN, NAN, 0, NAN, NAN], [NAN] * 5])
    draws = model.sample(np.zeros((3, 2)), 2000, random_state=0, given=given)
    assert (draws[:, 0, 0] == 1).all()
    assert (draws[:, 1, 2] == 0).all()
    np.testing.assert_allclose(draws.mean(axis=0), model.predict_proba(np.zeros((3, 2)), given=given), atol=0.06)
    # what is not given still goes together
    assert (draws[:, 0, 2] != draws[:, 0, 3]).mean() > 0.8


@pytest.mark.slow
def test_sample__seed__decides_and_blocks_are_the_same_stream(model, monkeypatch):
    X = np.random.default_rng(1).normal(size=(7, 2))
    monkeypatch.setattr("hotvae.estimators.base._CELLS_PER_BLOCK", 7 * 5 * 4)
    blocks = list(model.sample_blocks(X, 10, random_state=3))
    assert [len(block) for block in blocks] == [4, 4, 2]
    np.testing.assert_array_equal(np.concatenate(blocks), model.sample(X, 10, random_state=3))
    assert (model.sample(X, 10, random_state=4) != model.sample(X, 10, random_state=3)).any()


def test_sample__independent_model__draws_each_label_by_itself():
    X, Y = pairs_data(400)
    draws = Prevalence().fit(X, Y).sample(X[:3], 4000, random_state=0)
    np.testing.assert_allclose(draws.mean(axis=(0, 1)), Y.mean(), atol=0.03)
    assert abs(np.corrcoef(draws[..., 0].ravel(), draws[..., 1].ravel())[0, 1]) < 0.05


@pytest.mark.slow
def test_sample__wrong_input__is_named(model):
    with pytest.raises(ConfigError, match="n_draws must be a whole number of at least 1; got 0"):
        model.sample(np.zeros((1, 2)), 0)
    X, Y = pairs_data(100)
    classes = Prevalence().fit(X, Y["twin"].astype(int))
    with pytest.raises(ConfigError, match="sample must go with a table of labels"):
        classes.sample(X[:1])


@pytest.mark.slow
def test_virtual_region__joint_draws__have_a_richness_variance_closer_to_the_truth():
    """And given species tell of others; the truth of the region is given exactly."""
    region = virtual_region(2000, 12, random_state=3, interaction_scale=1.5)
    X, Y = np.asarray(region.dataset.features), np.asarray(region.dataset.labels)
    model = HotVAENetwork.from_settings(
        random_state=0, n_threads=1, direct_epochs=28, max_epochs=30, learning_rate=2e-3, encoder_widths=(64, 64)
    ).fit(X[:1500], Y[:1500])
    rest, seen = X[1500:], Y[1500:]
    truth = region.sample(rest, 300, random_state=1).sum(-1).var(axis=0)
    joint = model.sample(rest, 300, random_state=2).sum(-1).var(axis=0)
    probs = model.predict_proba(rest)
    alone = (probs * (1 - probs)).sum(-1)
    assert np.abs(joint - truth).mean() < 0.9 * np.abs(alone - truth).mean()
    given = np.where(np.random.default_rng(0).random(seen.shape) < 0.5, seen, NAN)
    moved = np.clip(model.predict_proba(rest, given=given), 1e-6, 1 - 1e-6)
    target = np.isnan(given)

    def log_loss(p):
        return -np.log(np.where(seen == 1, p, 1 - p))[target].mean()

    assert log_loss(moved) < log_loss(np.clip(probs, 1e-6, 1 - 1e-6)) - 0.01


@pytest.mark.slow
def test_given_epochs__label_branch_alone__leaves_plain_predictions_as_they_are():
    """The feature says nothing, so one of the first epochs is kept: only the epochs after training teach the pairs."""
    X, Y = pairs_data(700)
    settings = SMALL | {"direct_epochs": 0, "max_epochs": 12, "covariance_epochs": 0}
    without, model = (HotVAENetwork.from_settings(**settings, given_epochs=n).fit(X, Y) for n in (0, 20))
    np.testing.assert_array_equal(model.predict_proba(X[:50]), without.predict_proba(X[:50]))
    given = np.full((50, 5), NAN)
    given[:, 0] = 1
    probs, before = (one.predict_proba(X[:50], given=given)[:, 1] for one in (model, without))
    assert probs.min() > before.max()


def test_fit__classes__nothing_is_learned_that_cannot_be_asked(monkeypatch):
    """Classes can neither be given nor drawn."""
    called = []
    for module in ("hotvae_network", "communities"):
        monkeypatch.setattr(f"hotvae.estimators.{module}.fit_network", lambda *_, **__: called.append("trained"))
    X, _ = pairs_data(200)
    settings = SMALL | {"direct_epochs": 0, "max_epochs": 3}
    model = HotVAENetwork.from_settings(**settings).fit(X, np.arange(200) % 3)
    assert called == []
    assert model.communities_ is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_fit__one_observed_validation_label__trains_though_half_of_one_is_nothing(seed):
    """For some seeds the one label is among the given ones, and no target is left."""
    X, Y = pairs_data(200)
    few = np.full((20, 5), NAN)
    few[0, 1] = 1
    settings = SMALL | {"direct_epochs": 0, "max_epochs": 2, "random_state": seed}
    model = HotVAENetwork.from_settings(**settings).fit(X, Y, validation=(X[:20], few))
    assert np.isfinite(model.predict_proba(X)).all()


def test_log_likelihood__pairs_that_go_together__far_above_independent_labels(model):
    X, Y = pairs_data(200, seed=1)
    probs = model.predict_proba(X)
    alone = np.log(np.where(Y == 1, probs, 1 - probs)).sum(axis=1)
    assert (model.log_likelihood(X, Y) - alone).mean() > 0.8
    assert model.draws_jointly


def test_log_likelihood__independent_model__is_the_sum_over_observed_labels():
    X, Y = pairs_data(60)
    bare = Prevalence(random_state=0).fit(X, Y)
    probs = bare.predict_proba(X)
    gaps = Y.to_numpy().copy()
    gaps[:, 2] = NAN
    cells = np.log(np.where(gaps == 1, probs, 1 - probs))
    np.testing.assert_allclose(bare.log_likelihood(X, gaps), np.where(np.isnan(gaps), 0, cells).sum(axis=1))
