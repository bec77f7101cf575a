"""Decisions against enumeration of every list, under tables of the whole joint law and under independence."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hotvae import JointClassifier
from hotvae.baselines.chains import ChainEnsemble
from hotvae.baselines.prevalence import Prevalence
from hotvae.config import MessagesConfig
from hotvae.errors import ConfigError
from hotvae.estimators import decisions, law_rows
from hotvae.estimators.joint_law import JointLaw
from hotvae.estimators.law_rows import LawRows
from hotvae.net.messages import Messages

N_LABELS = 4
ALL_SETS = np.array(list(product((0, 1), repeat=N_LABELS)))
PROBS = arrays(float, N_LABELS, elements=st.floats(0, 1).map(lambda p: round(p, 3)))
COUNTS = arrays(np.int64, len(ALL_SETS), elements=st.integers(0, 3)).filter(lambda counts: counts.any())
EMPTY = st.sampled_from([0, 1])


def f1(found, truth, empty):
    """F1 of two sets, as written in any book."""
    if not (found.any() or truth.any()):
        return empty
    return 2 * (found & truth).sum() / (found.sum() + truth.sum())


def jaccard(found, truth, empty):
    """Jaccard index of two sets."""
    if not (found.any() or truth.any()):
        return empty
    return (found & truth).sum() / (found | truth).sum()


def worth(measure, found, weights, empty):
    """Mean of a measure over all label sets."""
    return sum(w * measure(found, truth, empty) for w, truth in zip(weights, ALL_SETS, strict=True))


def best_worth(measure, weights, empty):
    """What the best of all lists is worth."""
    return max(worth(measure, found, weights, empty) for found in ALL_SETS)


def independent(probs):
    """Probability of every label set of independent labels."""
    return np.where(ALL_SETS == 1, probs, 1 - probs).prod(axis=1)


def as_draws(counts):
    """Draws that have each label set so many times."""
    return np.repeat(ALL_SETS, counts, axis=0)[:, None]


@given(probs=PROBS, empty=EMPTY)
@settings(max_examples=60, deadline=None)
@pytest.mark.parametrize(("name", "measure"), [("f1", f1), ("jaccard", jaccard)])
def test_independent_labels__any_probabilities__the_list_is_worth_as_much_as_the_best_of_all(
    name, measure, probs, empty
):
    decide = {"f1": decisions.f1_independent, "jaccard": decisions.jaccard_independent}[name]
    found = decide(probs[None], empty)[0].astype(int)
    weights = independent(probs)
    assert worth(measure, found, weights, empty) == pytest.approx(best_worth(measure, weights, empty), abs=1e-12)


@given(counts=COUNTS, empty=EMPTY)
@settings(max_examples=60, deadline=None)
def test_f1_of_draws__any_joint_law__the_list_is_worth_as_much_as_the_best_of_all(counts, empty):
    found = decisions.f1_of_draws(as_draws(counts), empty)[0].astype(int)
    weights = counts / counts.sum()
    assert worth(f1, found, weights, empty) == pytest.approx(best_worth(f1, weights, empty), abs=1e-12)


@given(counts=COUNTS, empty=EMPTY)
@settings(max_examples=60, deadline=None)
def test_jaccard_of_draws__any_joint_law__not_behind_any_draw_or_any_prefix(counts, empty):
    draws = as_draws(counts)
    found = decisions.jaccard_of_draws(draws, empty)[0].astype(int)
    weights = counts / counts.sum()
    order = np.argsort(-draws[:, 0].mean(axis=0), kind="stable")
    prefixes = [np.isin(np.arange(N_LABELS), order[:k]).astype(int) for k in range(N_LABELS + 1)]
    rivals = [worth(jaccard, rival, weights, empty) for rival in [*ALL_SETS[counts > 0], *prefixes]]
    assert worth(jaccard, found, weights, empty) == pytest.approx(max(rivals), abs=1e-12)


@given(counts=COUNTS, empty=EMPTY)
@settings(max_examples=40, deadline=None)
@pytest.mark.parametrize("decide", [decisions.f1_of_draws, decisions.jaccard_of_draws])
def test_draws_and_probabilities_that_are_their_shares__decide_as_the_draws_alone(decide, counts, empty):
    draws = as_draws(counts)
    found, alone = (decide(draws, empty, probs)[0].astype(int) for probs in (draws.mean(axis=0), None))
    measure, weights = (f1 if decide is decisions.f1_of_draws else jaccard), counts / counts.sum()
    assert worth(measure, found, weights, empty) == pytest.approx(worth(measure, alone, weights, empty), abs=1e-12)


def test_f1_of_draws__few_draws_and_probabilities__as_good_as_all_sets_there_are():
    """Labels that go together in two groups; what 60 draws tell of single labels is mostly chance."""
    random = np.random.default_rng(0)
    rate, mood = random.uniform(0.02, 0.4, (40, 30)), random.choice([0.3, 1.7], (8_000, 40, 1))
    many = random.random((8_000, 40, 30)) < rate * mood
    probs = many.mean(axis=0)

    def mean_f1(lists):
        both = (many & lists).sum(axis=2)
        return (2 * both / np.maximum(many.sum(axis=2) + lists.sum(axis=1), 1)).mean()

    best, independent = mean_f1(decisions.f1_of_draws(many[:4000], 1, probs)), decisions.f1_independent(probs)
    with_probs, alone = (mean_f1(decisions.f1_of_draws(many[:60], 1, told)) for told in (probs, None))
    assert best - 0.002 < with_probs
    assert alone < with_probs - 0.005
    assert mean_f1(independent) < best  # that labels go together counts


def test_empty_set__mostly_nothing_there__is_chosen_only_if_it_counts():
    probs = np.array([[0.15, 0.2]])
    assert decisions.f1_independent(probs, 1).tolist() == [[False, False]]
    assert decisions.f1_independent(probs, 0).tolist() == [[True, True]]
    draws = np.zeros((10, 1, 2), dtype=np.int8)
    draws[0, 0, 1] = 1
    assert decisions.f1_of_draws(draws, 1).tolist() == [[False, False]]
    assert decisions.f1_of_draws(draws, 0).tolist() == [[False, True]]
    with pytest.raises(ConfigError, match=r"empty must be 1 or 0; got 0\.5"):
        decisions.f1_of_draws(draws, 0.5)


def test_most_frequent__several_rows__the_modes():
    draws = np.array([[[1, 0], [0, 0]], [[0, 1], [1, 1]], [[0, 1], [1, 1]]])
    assert decisions.most_frequent(draws).tolist() == [[False, True], [True, True]]


def test_many_rows__in_pieces__as_one_by_one(monkeypatch):
    random = np.random.default_rng(0)
    probs = random.random((20, 6))
    draws = (random.random((15, 20, 6)) < probs).astype(np.int8)
    monkeypatch.setattr(decisions, "_CELLS", 100)
    np.testing.assert_array_equal(
        decisions.f1_independent(probs), np.concatenate([decisions.f1_independent(row[None]) for row in probs])
    )
    for decide in (decisions.f1_of_draws, decisions.jaccard_of_draws):
        alone = np.concatenate([decide(draws[:, [row]]) for row in range(20)])
        np.testing.assert_array_equal(decide(draws), alone)


# --- along a law ---------------------------------------------------------------------------------------------


def random_law(seed=0, n_rows=5):
    """Rows under a law whose labels speak loudly."""
    random = np.random.default_rng(seed)
    messages = Messages(N_LABELS, 2, MessagesConfig(edges="signed", n_causes=2, n_rounds=2)).eval()
    for weight in messages.parameters():
        weight.data = weight.data + 2 * weight.new_tensor(random.normal(size=tuple(weight.shape)))
    law = JointLaw(messages, N_LABELS, n_blocks=N_LABELS)
    return LawRows(law, random.normal(size=(n_rows, N_LABELS)), random.normal(size=(n_rows, 2)))


def chain_by_hand(rows, labels, known, order):
    """Log probability of label sets, label by label."""
    state, total = known.copy(), np.zeros(len(labels))
    for label in order:
        odds = rows.law.logits(rows.logits, rows.gates, state)[:, label]
        free = np.isnan(known[:, label])
        cells = labels[:, label] * odds - np.logaddexp(0, odds)
        total += np.where(free, cells, 0)
        state[:, label] = np.where(free, labels[:, label], state[:, label])
    return total


@pytest.mark.parametrize("some_known", [False, True])
def test_beam_search__as_wide_as_there_are_sets__finds_the_likeliest_of_all(some_known):
    rows = random_law()
    known = np.full((5, N_LABELS), np.nan)
    if some_known:
        known[:3, 1], known[2, 3] = 1, 0
    order = np.array([2, 0, 3, 1])
    every = [np.where(np.isnan(known), labels, known) for labels in ALL_SETS]
    by_hand = np.array([chain_by_hand(rows, labels, known, order) for labels in every])
    sets, log_probs = decisions.beam_search(rows._step, known, order, width=2**N_LABELS)
    np.testing.assert_allclose(log_probs[0], by_hand.max(axis=0), atol=1e-5)
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=0), 1, atol=1e-5)
    likeliest = np.array(every)[by_hand.argmax(axis=0), np.arange(5)]
    np.testing.assert_array_equal(sets[0], likeliest)
    again = decisions.chain_log_probs(rows._step, sets, known, order)
    there = np.isfinite(log_probs)
    np.testing.assert_allclose(again[there], log_probs[there], atol=1e-5)


def test_beam_search__narrow__is_greedy():
    """First p = .6 for presence; then each of two sets of the absent side is likelier than any of the present side."""

    def step(state):
        first = np.full(state.shape[:2], np.log(0.6 / 0.4))
        second = np.where(state[..., 0] == 1, 0.0, -9.0)  # even where present, nearly never where absent
        return np.stack([first, second], axis=-1)

    known = np.full((1, 2), np.nan)
    assert decisions.beam_search(step, known, np.arange(2), width=1)[0][0, 0, 0]
    assert decisions.beam_search(step, known, np.arange(2), width=2)[0][0, 0].tolist() == [False, False]


def test_likeliest__wide_beam__is_the_set_of_the_greatest_likelihood():
    rows = random_law(seed=3)
    likelihood = [rows.log_likelihood(np.tile(labels, (5, 1)).astype(float)) for labels in ALL_SETS]
    expected = ALL_SETS[np.argmax(likelihood, axis=0)]
    np.testing.assert_array_equal(rows.likeliest(width=16), expected)
    narrow = np.array([rows.log_likelihood(rows.likeliest(width=w).astype(float)).mean() for w in (1, 4, 16)])
    plain = rows.log_likelihood((rows.logits > 0).astype(float)).mean()
    assert (narrow >= plain - 1e-9).all()
    assert narrow[2] >= narrow[0] - 1e-9


def test_likeliest__of_many_labels__is_the_best_along_the_order_of_each_row(monkeypatch):
    """Four labels stand in for many; nothing is certain, so that each row's surest label comes first."""
    monkeypatch.setattr(law_rows, "_FEW_LABELS", 0)
    monkeypatch.setattr(law_rows, "_CERTAIN", 99.0)
    rows = random_law(seed=5)
    known = np.full((5, N_LABELS), np.nan)
    known[4, 2] = 1
    found = rows.likeliest(known, width=16)
    logits = rows.law.logits(rows.logits, rows.gates, known)
    for row in range(5):
        order = np.argsort(-np.abs(logits[row]), kind="stable")
        own = LawRows(rows.law, rows.logits[[row]], rows.gates[[row]])
        every = [np.where(np.isnan(known[[row]]), labels, known[[row]]) for labels in ALL_SETS]
        by_hand = [chain_by_hand(own, labels, known[[row]], order)[0] for labels in every]
        np.testing.assert_array_equal(found[row], every[int(np.argmax(by_hand))][0])


def test_likeliest__of_many_labels__certain_ones_are_as_the_base_says(monkeypatch):
    monkeypatch.setattr(law_rows, "_FEW_LABELS", 0)
    rows = random_law(seed=5)
    rows.logits[:, 0], rows.logits[:, 1] = 4.5, -4.5
    found = rows.likeliest()
    assert found[:, 0].all()
    assert not found[:, 1].any()


# --- the face ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table():
    """Three labels of which the second is mostly as the first, and the third mostly not."""
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 2))
    first = random.random(300) < 0.5
    second, third = first ^ (random.random(300) < 0.05), ~first ^ (random.random(300) < 0.05)
    return X, np.column_stack([first, second, third]).astype(int)


@pytest.fixture(scope="module")
def joint(table):
    return JointClassifier(base=Prevalence(), cv=3, random_state=0).fit(*table)


def test_predict__without_objective__is_what_it_was(table, joint):
    X = table[0]
    expected = (joint.predict_proba(X) > 0.5).astype(int)
    np.testing.assert_array_equal(joint.predict(X), expected)
    np.testing.assert_array_equal(joint.predict(X, objective="hamming"), expected)


def test_predict__subset_of_a_joint_law__is_a_set_that_occurs(table, joint):
    """p is about one half for each label by itself, but whole sets are (1, 1, 0) or (0, 0, 1)."""
    found = joint.predict(table[0][:20], objective="subset")
    assert {tuple(row) for row in found.tolist()} <= {(1, 1, 0), (0, 0, 1)}
    given = np.full((20, 3), np.nan)
    given[:, 2] = 1
    assert (joint.predict(table[0][:20], objective="subset", given=given) == [0, 0, 1]).all()


@pytest.mark.parametrize("objective", ["hamming", "f1", "jaccard", "subset", "macro_f1"])
def test_predict__known_labels__are_in_every_list(table, joint, objective):
    given = np.full((10, 3), np.nan)
    given[:5, 0], given[5:, 0] = 1, 0
    found = joint.predict(table[0][:10], objective=objective, given=given, n_draws=50)
    np.testing.assert_array_equal(found[:, 0], given[:, 0])
    if objective != "macro_f1":
        np.testing.assert_array_equal(found[:, 1], given[:, 0])


@pytest.mark.parametrize("objective", ["f1", "jaccard", "subset"])
@pytest.mark.parametrize("kind", ["law", "chain"])
def test_predict__one_row_or_many__the_same_lists(table, joint, objective, kind):
    X, Y = table
    model = joint if kind == "law" else ChainEnsemble(n_chains=2, random_state=0).fit(X, Y)
    given = np.full((6, 3), np.nan)
    given[2, 1] = 1
    together = model.predict(X[:6], objective=objective, given=given, n_draws=40)
    alone = [model.predict(X[[row]], objective=objective, given=given[[row]], n_draws=40)[0] for row in range(6)]
    np.testing.assert_array_equal(together, alone)


def test_predict__independent_model__known_labels_say_nothing_of_others(table):
    X, Y = table
    model = Prevalence(random_state=0).fit(X, Y)
    assert not model.draws_jointly
    given = np.full((2, 3), np.nan)
    given[:, 0] = [0, 1]
    probs = np.tile(model.predict_proba(X[:1]), (2, 1))
    expected = decisions.f1_independent(np.column_stack([[0, 1], probs[:, 1:]]))
    np.testing.assert_array_equal(model.predict(X[:2], objective="f1", given=given), expected)


def test_predict__unknown_objective__names_all(table, joint):
    with pytest.raises(ConfigError, match="objective must be one of 'hamming', 'f1', 'jaccard', 'subset' or a metric"):
        joint.predict(table[0], objective="recall")
    with pytest.raises(ConfigError, match="objective must go with a table of labels; got classes"):
        Prevalence().fit(table[0], table[1][:, 0]).predict(table[0], objective="f1")
    bare = Prevalence(validation_fraction=0.0).fit(*table)
    with pytest.raises(ConfigError, match="objective must have a tuned threshold; got 'macro_f1'"):
        bare.predict(table[0], objective="macro_f1")
    with pytest.raises(ConfigError, match="empty must be 1 or 0"):
        joint.predict(table[0], objective="f1", empty=2)
