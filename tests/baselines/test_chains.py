"""Chains: against sums over all label sets, draws against exact sums, given labels, and draws of whole sets."""

from copy import copy
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from scipy.special import expit

from hotvae.baselines.chains import Chain, ChainEnsemble, LabelChain, fit_chain, walk_chain
from hotvae.baselines.scikit import LogisticLabels, Odds
from hotvae.errors import ConfigError, DataError
from hotvae.metrics import log_loss


def random_chain(seed, n_labels=4, n_features=2):
    rng = np.random.default_rng(seed)
    order = rng.permutation(n_labels)
    links = np.zeros((n_labels, n_labels))
    for place, label in enumerate(order):
        links[order[:place], label] = rng.normal(size=place, scale=2)
    odds = Odds(rng.normal(size=(n_features, n_labels)), rng.normal(size=n_labels))
    return Chain(order, odds, links)


def set_probability(chain, row, labels):
    """P(y | x) of one label set, factor by factor."""
    probability = 1.0
    for place, label in enumerate(chain.order):
        odds = chain.odds.intercepts[label] + row @ chain.odds.weights[:, label]
        odds += sum(chain.links[j, label] for j in chain.order[:place] if labels[j] == 1)
        probability *= expit(odds) if labels[label] == 1 else 1 - expit(odds)
    return probability


def marginals_by_loop(chains, row, given):
    """Sum over all label sets that agree with the given labels."""
    total, sums = 0.0, np.zeros(len(given))
    for chain in chains:
        for labels in product((0, 1), repeat=len(given)):
            if all(np.isnan(k) or k == v for k, v in zip(given, labels, strict=True)):
                probability = set_probability(chain, row, labels)
                total += probability
                sums += probability * np.array(labels)
    return sums / total


@cache
def fitted_once(n_labels):
    rng = np.random.default_rng(0)
    model = LabelChain(validation_fraction=0.0, penalties=(1.0,))
    return model.fit(rng.normal(size=(30, 2)), rng.integers(0, 2, size=(30, n_labels)))


def model_of(chains, n_draws):
    """A classifier around given chains; rows come in as they are."""
    model = copy(fitted_once(len(chains[0].order))).set_params(n_draws=n_draws)
    model.chains_ = chains
    return model


@settings(max_examples=25, deadline=None)
@for_all(st.integers(0, 1000), st.lists(st.sampled_from([0.0, 1.0, np.nan]), min_size=4, max_size=4))
def test_marginals__all_label_sets__equal_the_loop(seed, given):
    chains = [random_chain(seed), random_chain(seed + 1)]
    rows = np.random.default_rng(seed).normal(size=(2, 2))
    model = model_of(chains, n_draws=16)
    given_rows = np.tile(given, (2, 1))
    expected = [marginals_by_loop(chains, row, given) for row in rows]
    np.testing.assert_allclose(model._marginals(rows, given_rows), expected, atol=1e-12)


@pytest.mark.parametrize("given", [None, [np.nan, 1.0, np.nan, 0.0]], ids=["none given", "two given"])
def test_marginals__draws__approach_the_exact_sums(given):
    chains = [random_chain(3), random_chain(4)]
    rows = np.random.default_rng(0).normal(size=(5, 2))
    given_rows = None if given is None else np.tile(given, (5, 1))
    exact = model_of(chains, n_draws=16)._marginals(rows, given_rows)
    noise = np.random.default_rng(1).uniform(size=(2, 20_000, 4))
    bases = [rows @ chain.odds.weights + chain.odds.intercepts for chain in chains]
    drawn = model_of(chains, n_draws=15)._block_marginals(bases, noise, given_rows)
    np.testing.assert_allclose(drawn, exact, atol=0.02)


@pytest.mark.parametrize("gaps", [False, True])
def test_log_likelihood__two_chains__is_the_mean_of_their_products(gaps):
    chains = [random_chain(3), random_chain(4)]
    rows = np.random.default_rng(0).normal(size=(3, 2))
    labels = np.array([[1.0, 0, 1, 1], [0, 0, 0, 0], [1, 1, 0, 1]])
    if gaps:
        labels[:, 1] = np.nan
    model = model_of(chains, n_draws=20_000)
    model._rows = lambda features: features

    def exact(row, told):
        whole = [np.where(np.isnan(told), value, told) for value in (0.0, 1.0)] if gaps else [told]
        return np.mean([sum(set_probability(chain, row, each) for each in whole) for chain in chains])

    expected = [exact(row, told) for row, told in zip(rows, labels, strict=True)]
    found = np.exp(model._log_likelihood(rows, labels, 4))
    np.testing.assert_allclose(found, expected, rtol=0.03 if gaps else 1e-9)


def test_walk_chain__all_sets__have_weights_that_sum_to_one():
    chain = random_chain(0)
    base = np.random.default_rng(0).normal(size=(3, 4))
    sets, log_weights, probs = walk_chain(chain, base, None, None)
    assert sets.shape == probs.shape == (4, 3, 16)
    np.testing.assert_allclose(np.exp(log_weights).sum(axis=1), 1)


def test_fit_chain__labels_after_one__have_no_link_to_it():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(50, 2)), rng.integers(0, 2, size=(50, 3)).astype(float)
    chain = fit_chain(X, Y, np.array([2, 0, 1]), penalty=0.1)
    later = [(0, 2), (1, 2), (1, 0), (0, 0), (1, 1), (2, 2)]
    assert all(chain.links[pair] == 0 for pair in later)
    assert all(chain.links[pair] != 0 for pair in [(2, 0), (2, 1), (0, 1)])


@pytest.fixture(scope="module")
def linked():
    """The second label is the first, nine times in ten; features tell about neither."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 2, size=2000)
    second = np.where(rng.uniform(size=2000) < 0.9, first, 1 - first)
    third = rng.integers(0, 2, size=2000)
    return rng.normal(size=(2000, 2)), np.column_stack([first, second, third]).astype(float)


@pytest.fixture(scope="module")
def chain(linked):
    return LabelChain(random_state=0).fit(linked[0][:1000], linked[1][:1000])


def test_predict_proba__given_a_linked_label__knows_much_more(linked, chain):
    """Given the first label, the second's log loss is that of a coin of 0.9: 0.325 instead of ln 2 = 0.693."""
    X, Y = linked[0][1000:], linked[1][1000:]
    given = Y.copy()
    given[:, 1:] = np.nan
    probs = chain.predict_proba(X, given=given)
    np.testing.assert_array_equal(probs[:, 0], Y[:, 0])
    assert log_loss(Y[:, [1]], probs[:, [1]]) == pytest.approx(0.325, abs=0.04)
    assert log_loss(Y[:, [1]], chain.predict_proba(X)[:, [1]]) == pytest.approx(0.693, abs=0.01)
    assert log_loss(Y[:, [2]], probs[:, [2]]) == pytest.approx(0.693, abs=0.01)


def test_predict_proba__given_the_later_label__works_backwards(linked, chain):
    X, Y = linked[0][1000:1100], linked[1][1000:1100]
    for given_label, other in ((0, 1), (1, 0)):
        given = np.full(Y.shape, np.nan)
        given[:, given_label] = Y[:, given_label]
        probs = chain.predict_proba(X, given=given)
        np.testing.assert_allclose(probs[:, other], np.where(Y[:, given_label] == 1, 0.9, 0.1), atol=0.06)


def test_predict_proba__given_nothing__is_the_marginal(linked):
    X, Y = linked[0][:300], linked[1][:300]
    for n_draws in (4, 8):  # draws, and all 8 label sets
        model = LabelChain(n_draws=n_draws, random_state=0).fit(X, Y)
        unknown = np.full(Y.shape, np.nan)
        np.testing.assert_array_equal(model.predict_proba(X, given=unknown), model.predict_proba(X))


def test_predict_proba__given_a_frame__finds_labels_by_name(linked):
    names = ["owl", "wren", "tern"]
    Y = pd.DataFrame(linked[1][:300], columns=names)
    X = linked[0][:300]
    model = LabelChain(random_state=0).fit(X, Y)
    given = Y.assign(wren=np.nan, tern=np.nan)
    turned = given[["tern", "owl", "wren"]]
    np.testing.assert_array_equal(model.predict_proba(X, given=given), model.predict_proba(X, given=turned))


@pytest.mark.slow
def test_ensemble__marginals__are_means_over_chains(linked):
    X, Y = linked[0][:300], linked[1][:300]
    model = ChainEnsemble(n_chains=3, random_state=0).fit(X, Y)
    assert len(model.chains_) == 3
    alone = []
    for chain in model.chains_:
        single = ChainEnsemble(n_chains=3, random_state=0).fit(X, Y)
        single.chains_ = [chain]
        alone.append(single.predict_proba(X))
    np.testing.assert_allclose(model.predict_proba(X), np.mean(alone, axis=0), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("cls", [LabelChain, ChainEnsemble])
def test_sample__many_draws__keep_the_link(cls, linked):
    X, Y = linked[0][:1000], linked[1][:1000]
    model = cls(random_state=0).fit(X, Y)
    drawn = model.sample(X[:200], n_draws=20, random_state=1)
    assert drawn.shape == (20, 200, 3)
    assert drawn.dtype == np.int8
    assert (drawn[:, :, 0] == drawn[:, :, 1]).mean() == pytest.approx(0.9, abs=0.03)
    assert (drawn[:, :, 0] == drawn[:, :, 2]).mean() == pytest.approx(0.5, abs=0.05)
    np.testing.assert_array_equal(drawn, model.sample(X[:200], n_draws=20, random_state=1))
    assert not np.array_equal(drawn[0], drawn[1])


@pytest.mark.slow
def test_chain__labels_that_features_tell__is_close_to_binary_relevance():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    Y = (rng.uniform(size=(600, 4)) < expit(X @ rng.normal(size=(3, 4)))).astype(float)
    fitted = [cls(random_state=0).fit(X[:400], Y[:400]) for cls in (LabelChain, LogisticLabels)]
    losses = [log_loss(Y[400:], model.predict_proba(X[400:])) for model in fitted]
    assert losses[0] == pytest.approx(losses[1], abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["frequent", "given", "random"])
def test_order__of_each_kind__names_every_label_once(order, linked):
    Y = np.column_stack([linked[1][:100], np.ones(100)])
    Y[:3, 3] = 0
    model = LabelChain(order=order, random_state=0).fit(linked[0][:100], Y)
    found = model.chains_[0].order
    assert sorted(found) == [0, 1, 2, 3]
    assert order != "frequent" or found[0] == 3
    assert order != "given" or found.tolist() == [0, 1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("n_draws", [16, 4])
def test_sample__given_labels__stay_and_the_rest_follows(linked, n_draws):
    """As often as the probabilities say, all sets summed or drawn; a row without given labels is like any other."""
    X, Y = linked
    model = ChainEnsemble(n_chains=2, n_draws=n_draws, random_state=0).fit(X, Y)
    given = np.where([False, True, False], Y[:4], np.nan)
    given[0] = np.nan
    drawn = model.sample(X[:4], n_draws=6000, random_state=3, given=given)
    assert (drawn[:, 1:, 1] == Y[1:4, 1]).all()
    expected = model.predict_proba(X[:4], given=given)
    # With four draws behind it a row has its own few sets, of which the probabilities are smoothed for the first.
    rows = slice(0 if n_draws == 16 else 1, 4)
    assert np.abs(drawn.mean(axis=0) - expected)[rows].max() < 0.03


def test_sample_blocks__of_a_chain__are_joint_draws(linked, chain, monkeypatch):
    monkeypatch.setattr("hotvae.estimators.base._CELLS_PER_BLOCK", 1200)
    blocks = list(chain.sample_blocks(linked[0][:100], n_draws=10, random_state=0))
    assert [len(block) for block in blocks] == [4, 4, 2]
    drawn = np.concatenate(blocks).reshape(-1, 3)
    apart = drawn[:, 0].mean() * drawn[:, 1].mean()
    assert abs((drawn[:, 0] * drawn[:, 1]).mean() - apart) > 0.05


def test_given__other_rows__are_refused(linked, chain):
    with pytest.raises(DataError, match=r"given must have the rows of X, 2; got 3"):
        chain.predict_proba(linked[0][:2], given=np.full((3, 3), np.nan))


def test_given__for_classes__is_refused(linked):
    model = LabelChain(random_state=0).fit(linked[0][:100], linked[1][:100, 0])
    with pytest.raises(ConfigError, match="must go with a table of labels"):
        model.predict_proba(linked[0][:2], given=[[1], [0]])
