"""Where a network starts from: leave-one-out ridges, and networks that learn what they leave over."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from hotvae import load_model
from hotvae.config import NetConfig
from hotvae.errors import ConfigError, DataError
from hotvae.estimators.registry import find_classifier
from hotvae.estimators.ridge_base import CentredRows, ridge_logits
from hotvae.metrics import log_loss
from hotvae.net.model import HotVAE, PlainNet

NETWORKS = ("hotvae_network", "plain", "mpvae", "c2ae", "lamp", "seq2seq")
FEW = {
    **{"dim": 8, "encoder_widths": (16,), "label_encoder_widths": (16,), "decoder_widths": (16,)},
    **{"covariance_epochs": 1, "random_state": 0},
}


def small(name, **chosen):
    """A small network of a kind."""
    cls = find_classifier(name)
    names = cls.all_settings()
    return cls.from_settings(**{key: value for key, value in (FEW | chosen).items() if key in names})


def words(n_rows, seed, n_words=400, n_labels=6):
    """Rows of few words out of many, each of which speaks for a label or against it: a linear map says it all."""
    meaning = np.random.default_rng(0).normal(size=(n_words, n_labels))
    rng = np.random.default_rng(seed)
    table = (rng.random((n_rows, n_words)) < 0.05).astype(float)
    return sparse.csr_array(table), ((table @ meaning) > 1).astype(float)


# --- the ridge --------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([(12, 4), (6, 9)]), st.booleans(), st.sampled_from([0.01, 1.0, 30.0]))
def test_left_out__every_row_left_out_in_turn__gives_the_same(seed, shape, is_sparse, penalty):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=shape) * (rng.random(shape) < 0.6)
    rows[:, 0] += rng.normal(size=shape[0])  # some row differs from some other
    targets = rng.normal(size=(shape[0], 3))
    whole = CentredRows(sparse.csr_array(rows) if is_sparse else rows)
    scores = whole.left_out(targets, penalty)
    for row in range(shape[0]):
        others = np.arange(shape[0]) != row
        part = CentredRows(rows[others])
        # The penalty is told in units of the rows at hand; here it must stay that of all rows.
        weights, intercepts = part.solve(targets[others], penalty * whole.unit / part.unit)
        np.testing.assert_allclose(scores[row], rows[row] @ weights + intercepts, rtol=1e-6, atol=1e-8)


def test_ridge_logits__noise_and_many_columns__left_out_rows_are_not_foretold():
    """With more columns than rows a ridge fits coin flips; a start that had seen them would promise what is not so."""
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(80, 200)), (rng.random((80, 3)) < 0.5).astype(float)
    start = ridge_logits(rows, labels, penalties=(0.01,))
    fitted = rows @ start.weights + start.intercepts
    assert np.mean((start.left_out > 0) == (labels == 1)) < 0.65
    assert np.corrcoef(fitted.ravel(), labels.ravel())[0, 1] > 0.9


def test_ridge_logits__penalty__is_the_best_of_all_candidates():
    features, labels = words(150, 1)
    penalties = (0.01, 0.1, 1.0, 10.0, 100.0)
    losses = []
    for penalty in penalties:
        odds = ridge_logits(features, labels, penalties=(penalty,)).left_out
        losses.append(log_loss(labels, 1 / (1 + np.exp(-odds))))
    assert ridge_logits(features, labels, penalties=penalties).penalty == penalties[int(np.argmin(losses))]


def test_ridge_logits__labels_with_gaps__are_learned_from_what_was_observed():
    features, labels = words(200, 1)
    gaps = labels.copy()
    gaps[100:, 0] = np.nan
    gaps[:, 5] = np.nan
    start = ridge_logits(features, gaps, penalties=(1.0,))
    assert np.isfinite(start.left_out).all()
    assert (start.weights[:, 5] == 0).all()
    # A row in which the label was not observed was not learned from: it starts as a new row would.
    new = features[[150]] @ start.weights + start.intercepts
    np.testing.assert_allclose(start.left_out[150, 0], new[0, 0])
    half = CentredRows(features[:100])
    scores = half.left_out(labels[:100, :1], 1.0)
    assert np.corrcoef(scores[:, 0], start.left_out[:100, 0])[0, 1] == pytest.approx(1)


def test_ridge_logits__too_large_a_system__is_refused(monkeypatch):
    monkeypatch.setattr("hotvae.estimators.ridge_base.MAX_UNKNOWNS", 3)
    with pytest.raises(DataError, match=r"at most 3 for a ridge; got 20 rows of 5 columns"):
        ridge_logits(np.zeros((20, 5)), np.zeros((20, 2)))


# --- networks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [HotVAE, PlainNet])
def test_network__zero_read_out__says_what_the_base_says(kind):
    network = kind(4, 3, NetConfig(dim=8, encoder_widths=(16,)), has_base=True).eval()
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if name.split(".")[0] in ("decoder", "readout"):
                weight.zero_()
        network.base.scale.copy_(torch.tensor([1.0, 2.0, 0.5]))
        base = torch.arange(15.0).reshape(5, 3) / 10
        found = network.predict(torch.randn(5, 4), base)
        np.testing.assert_allclose(found, torch.sigmoid(base * network.base.scale), rtol=1e-6)


@pytest.mark.parametrize("name", NETWORKS)
def test_network__words_that_add_up__learns_more_from_the_ridge(name):
    """Few rows of many words: what is linear, a ridge has found before the first step."""
    train, validation, test = words(300, 2), words(100, 4), words(200, 3)
    models = [small(name, max_epochs=3, base=base).fit(*train, validation=validation) for base in ("ridge", None)]
    losses = [log_loss(test[1], model.predict_proba(test[0])) for model in models]
    assert losses[0] < 0.95 * losses[1]


@pytest.fixture(scope="module")
def based():
    settings_ = {"max_epochs": 3, "base": "ridge"}
    return small("hotvae_network", **settings_).fit(*words(300, 2), validation=words(100, 4))


def test_hotvae__row_alone_or_among_others__has_the_same_bits(based):
    features = words(300, 3)[0]
    probs = based.predict_proba(features)
    np.testing.assert_array_equal(probs[17:18], based.predict_proba(features[[17]]))
    np.testing.assert_array_equal(probs[::-1], based.predict_proba(features[::-1]))


def test_save__with_a_base__read_back_predicts_the_same_bits(based, tmp_path):
    based.save(tmp_path / "model")
    features = words(40, 3)[0]
    copy = load_model(tmp_path / "model")
    np.testing.assert_array_equal(copy.predict_proba(features), based.predict_proba(features))
    assert copy.transform(features).shape == (40, 8)


def test_sample__with_a_base__has_its_probabilities(based):
    features = words(20, 3)[0]
    drawn = based.sample(features, 4000, random_state=0).mean(axis=0)
    np.testing.assert_allclose(drawn, based.predict_proba(features), atol=0.04)


def test_fit__again_on_other_columns__forgets_the_old_base():
    model = small("plain", max_epochs=1, base="ridge").fit(*words(80, 1))
    model.fit(*words(80, 1, n_words=30))
    assert model.predict_proba(words(5, 2, n_words=30)[0]).shape == (5, 6)
    model.set_params(base=None).fit(*words(80, 1))
    assert model.base_ is None


def test_fit__dense_table_and_labels_with_gaps__has_a_base():
    features, labels = words(120, 1, n_words=20)
    labels[::3, 0] = np.nan
    model = small("hotvae_network", max_epochs=2, base="ridge").fit(features.toarray(), labels)
    assert np.isfinite(model.predict_proba(features.toarray())).all()


def test_fit__bag_of_words__has_a_base():
    texts = ["wet meadow", "dry rock", "wet bog", "dry slope"] * 20
    labels = np.array([[1, 0], [0, 1], [1, 0], [0, 1]] * 20)
    model = small("plain", encoder="bag", base="ridge", max_epochs=1).fit(texts, labels)
    assert (model.predict(["wet", "dry"]) == [[1, 0], [0, 1]]).all()


def test_fit__rows_of_tokens__are_refused():
    with pytest.raises(ConfigError, match=r"base must be None where rows are tokens; got 'ridge' with TextTokens"):
        small("hotvae_network", encoder="text", base="ridge").fit(
            ["wet meadow", "dry rock"] * 10, [[1, 0], [0, 1]] * 10
        )


def test_fit__base_of_another_name__is_refused():
    with pytest.raises(ConfigError, match=r"base must be one of 'ridge'; got 'lasso'"):
        small("plain", base="lasso").fit(*words(80, 1))
