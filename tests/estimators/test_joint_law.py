"""The joint law: one thing that conditions, draws and weighs whole label sets; learned only where it is of use."""

import itertools
import json

import numpy as np
import pytest
import torch
from scipy.special import expit

from hotvae.config import MessagesConfig
from hotvae.errors import DataError
from hotvae.estimators import joint_law
from hotvae.estimators.joint_law import JointLaw, LawCandidate, default_candidates
from hotvae.net.messages import Chorus, Messages

NAN = np.nan
QUICK = (LawCandidate(MessagesConfig(edges="shared", n_causes=4), weight_decay=0.03),)
GRAPH = (LawCandidate(MessagesConfig(edges="shared", n_causes=0), weight_decay=0.03),)
ALL_SETS = np.array(list(itertools.product([0.0, 1.0], repeat=3)))


def scrambled_law(n_labels=3, seed=0, **settings):
    """A law of random weights."""
    config = MessagesConfig(**{"edges": "signed", "n_causes": 2, "hub_width": 3} | settings)
    torch.manual_seed(seed)
    messages = Messages(n_labels, 2, config).eval()
    with torch.no_grad():
        for weight in messages.parameters():
            weight.copy_(0.8 * torch.randn(weight.shape))
    return JointLaw(messages, n_labels, n_blocks=n_labels)


def rows(n_rows, n_labels=3, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=(n_rows, n_labels)).astype(np.float32), random.normal(size=(n_rows, 2))


def linked(n_rows=600, n_labels=4, flips=0.1, seed=0):
    """Labels of fair coins in pairs: the second of each is the first, but for a share of flips; the base knows nothing.

    A pair has ln 2 + H(flips) nats instead of 2 ln 2.
    """
    random = np.random.default_rng(seed)
    first = random.random((n_rows, n_labels // 2)) < 0.5
    second = first ^ (random.random(first.shape) < flips)
    labels = np.hstack([first, second]).astype(float)
    return np.zeros(labels.shape), random.normal(size=(n_rows, 2)), labels


def independent_nll(base, labels):
    return np.nansum(np.logaddexp(0, base) - labels * base, axis=1)


# The chain rule -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_log_likelihood__all_label_sets_in_one_order__sum_to_one(seed):
    law, (base, features) = scrambled_law(seed=seed), rows(1, seed=seed)
    same = (np.repeat(part, len(ALL_SETS), axis=0) for part in (base, features))
    total = np.exp(law.log_likelihood(*same, ALL_SETS, n_orders=1, seed=seed)).sum()
    assert total == pytest.approx(1.0, abs=1e-5)


def test_log_likelihood__by_order__is_the_chain_of_conditionals():
    """The order is that of the seed: each label adds its log probability given those before it."""
    law, (base, features) = scrambled_law(), rows(5)
    labels = (rows(5, seed=1)[0] > 0).astype(float)
    order = np.random.default_rng(7).permutation(3)
    expected = np.zeros(5)
    for place, label in enumerate(order):
        known = np.full((5, 3), NAN)
        known[:, order[:place]] = labels[:, order[:place]]
        logits = law.logits(base, features, known)[:, label].astype(float)
        expected -= np.logaddexp(0, logits) - labels[:, label] * logits
    np.testing.assert_allclose(law.log_likelihood(base, features, labels, n_orders=1, seed=7), expected, atol=1e-5)


def test_log_likelihood__several_orders__is_the_mean_of_their_likelihoods():
    law, (base, features) = scrambled_law(), rows(5)
    labels = (rows(5, seed=1)[0] > 0).astype(float)
    by_order = law.log_likelihood_by_order(base, features, labels, n_orders=4)
    assert by_order.shape == (5, 4)
    assert np.ptp(by_order, axis=1).max() > 1e-3  # random weights are not coherent
    found = law.log_likelihood(base, features, labels, n_orders=4)
    np.testing.assert_allclose(np.exp(found), np.exp(by_order).mean(axis=1), rtol=1e-6)


def test_log_likelihood__label_not_observed__is_that_of_the_others():
    """A label that is NaN adds nothing and tells nothing: a law without it says the same."""
    law, (base, features) = scrambled_law(hub_width=0), rows(6)
    labels = np.column_stack([(rows(6, seed=1)[0] > 0)[:, :2].astype(float), np.full(6, NAN)])
    both = [np.column_stack([labels[:, :2], np.full(6, last)]) for last in (0.0, 1.0)]
    # Whatever comes last sums out: of an order that ends with label 2, both its values together are what is left.
    seed = next(s for s in range(50) if np.random.default_rng(s).permutation(3)[-1] == 2)
    together = sum(np.exp(law.log_likelihood(base, features, part, 1, seed)) for part in both)
    np.testing.assert_allclose(np.exp(law.log_likelihood(base, features, labels, 1, seed)), together, rtol=1e-4)


def test_log_likelihood__mean_over_orders__is_what_candidates_are_judged_by():
    """Shares of known labels instead of all orders of them: the same number, within its Monte Carlo error."""
    from hotvae.features import Rows

    law, (base, features) = scrambled_law(6, seed=1), rows(400, 6)
    labels = (rows(400, 6, seed=1)[0] > 0).astype(np.float32)
    table = Rows(features.astype(np.float32), labels, base)
    by_orders = -law.log_likelihood_by_order(base, features, labels, n_orders=30)
    shares = law._expected_nll(table, 0) - by_orders.mean(axis=1)
    assert abs(shares.mean()) < 4 * shares.std() / np.sqrt(len(shares))


# Given and drawn ------------------------------------------------------------------------------------------


def test_logits__nothing_given__are_exactly_the_base():
    law, (base, features) = scrambled_law(), rows(300)
    for dtype in (np.float32, np.float64):
        table = (base / 3).astype(dtype)
        found = law.logits(table, features, np.full(base.shape, NAN))
        assert found.dtype == dtype
        assert np.array_equal(found, table)


def test_logits__row_in_other_company__are_the_same_to_the_last_bit():
    law, (base, features) = scrambled_law(), rows(300)
    known = np.where(rows(300, seed=2)[0] > 0, 1.0, NAN)
    alone = law.logits(base[17:18], features[17:18], known[17:18])
    assert np.array_equal(alone[0], law.logits(base, features, known)[17])


def test_sample__all_but_one_label_given__is_as_often_as_its_conditional_says():
    law, (base, features) = scrambled_law(), rows(20)
    known = (rows(20, seed=3)[0] > 0).astype(float)
    known[:, 1] = NAN
    probs = expit(law.logits(base, features, known)[:, 1])
    drawn = law.sample(base, features, 4000, np.random.default_rng(0), given=known)
    assert drawn.dtype == np.int8
    assert (drawn[..., [0, 2]] == known[:, [0, 2]]).all()
    error = np.sqrt(probs * (1 - probs) / 4000)
    assert (np.abs(drawn[..., 1].mean(axis=0) - probs) < 4 * error + 1e-3).all()


def test_sample__label_by_label__is_as_often_as_the_likelihood_says():
    """Share of each of the eight label sets among draws, and its likelihood over (nearly) all orders."""
    law, (base, features) = scrambled_law(), rows(1)
    drawn = law.sample(base, features, 20_000, np.random.default_rng(0))[:, 0]
    share = np.array([(drawn == wanted).all(axis=1).mean() for wanted in ALL_SETS])
    same = (np.repeat(part, len(ALL_SETS), axis=0) for part in (base, features))
    probs = np.exp(law.log_likelihood(*same, ALL_SETS, n_orders=300))
    # 800 orders of 25 draws each: what orders differ by is part of the error.
    assert np.abs(share - probs).max() < 0.025


def test_sample__learned_law__given_agrees_with_frequencies_of_draws():
    """P(A | B) by ``logits`` and the share of A among draws that have B: one law, up to Monte Carlo error."""
    base, features, labels = linked()
    law = JointLaw.learn(base, features, labels, held=np.arange(150), candidates=QUICK)
    drawn = law.sample(base[:50], features[:50], 400, np.random.default_rng(0), n_blocks=4).reshape(-1, 4)
    known = np.full((50, 4), NAN)
    known[:, 0] = 1.0
    said = expit(law.logits(base[:50], features[:50], known)).mean(axis=0)
    found = drawn[drawn[:, 0] == 1].mean(axis=0)
    np.testing.assert_allclose(found[1:], said[1:], atol=0.04)
    assert found[2] > 0.8  # label 2 is the partner of label 0


def test_sample__without_messages__draws_labels_by_the_base_alone():
    law, (base, features) = JointLaw(None, 3), rows(4)
    known = np.full((4, 3), NAN)
    known[0] = [1.0, 0.0, NAN]
    drawn = law.sample(base, features, 5000, np.random.default_rng(0), given=known)
    assert (drawn[:, 0, :2] == [1, 0]).all()
    np.testing.assert_allclose(drawn[:, 1:].mean(axis=0), expit(base[1:]), atol=0.03)


def test_sample__same_generator__same_draws():
    law, (base, features) = scrambled_law(), rows(4)
    one, other = (law.sample(base, features, 30, np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(one, other)


# Learning -------------------------------------------------------------------------------------------------


def test_learn__labels_in_pairs__beats_independence_by_most_of_what_there_is():
    """Two pairs with 10 % flips: 2 (ln 2 - H(.1)) = 0.736 nats a row are to be had; at least 0.65 are, on new rows."""
    law = JointLaw.learn(*linked(), held=np.arange(150), candidates=QUICK)
    base, features, labels = linked(2000, seed=1)
    gain = independent_nll(base, labels) + law.log_likelihood(base, features, labels)
    assert 0.65 < gain.mean() < 0.80
    (record,) = law.scores
    assert record["chosen"]
    assert record["nll"] < record["independent"] == pytest.approx(np.log(2), abs=1e-6)


def test_learn__labels_that_have_nothing_to_say__learns_no_messages_and_is_the_base():
    """Coins: no candidate is ahead of independent labels by more than luck, so there are none."""
    random = np.random.default_rng(0)
    base, features = rows(300, 4)
    labels = (random.random(base.shape) < expit(base)).astype(float)
    law = JointLaw.learn(base, features, labels, held=np.arange(100), candidates=QUICK)
    assert law.messages is None
    assert not any(record["chosen"] for record in law.scores)
    assert np.array_equal(law.logits(base, features, labels), base)
    np.testing.assert_allclose(law.log_likelihood(base, features, labels), -independent_nll(base, labels), rtol=1e-5)


def test_learn__labels_with_gaps__learns_from_those_observed():
    base, features, labels = linked()
    labels[np.random.default_rng(1).random(labels.shape) < 0.3] = NAN
    labels[:10] = NAN
    law = JointLaw.learn(base, features, labels, held=np.arange(150), candidates=QUICK)
    base, features, labels = linked(500, seed=1)
    assert (independent_nll(base, labels) + law.log_likelihood(base, features, labels)).mean() > 0.55


def test_learn__folds__every_fold_is_held_out_where_rows_are_few():
    base, features, labels = linked(200)
    law = JointLaw.learn(base, features, labels, held=np.arange(200) % 3, candidates=QUICK, effort=0.2)
    assert law.scores[0]["n_folds"] == 2


def test_learn__two_folds__who_is_far_behind_on_the_first_is_not_tried_on_the_second():
    base, features, labels = linked(200)
    good, near = (LawCandidate(MessagesConfig(), weight_decay=decay) for decay in (0.1, 0.11))
    mute = LawCandidate(MessagesConfig(), learning_rate=1e-9)
    law = JointLaw.learn(base, features, labels, held=np.arange(200) % 2, candidates=[mute, good, near], effort=0.5)
    assert [record["n_folds"] for record in law.scores] == [1, 2, 2]
    assert [record["chosen"] for record in law.scores].count(True) == 1
    chosen = min(law.scores[1:], key=lambda record: record["nll"])
    assert chosen["chosen"]
    assert chosen["nll"] < 0.95 * law.scores[0]["nll"]


@pytest.mark.parametrize(("small", "shares"), [(True, [1.0] * 3), (False, [0.2] * 3)])
def test_learn__three_candidates__those_of_a_large_table_race_for_a_fifth_of_their_epochs(small, shares, monkeypatch):
    monkeypatch.setattr(joint_law, "_SMALL_TABLE", 10**6 if small else 0)
    base, features, labels = linked(200)
    tried = default_candidates(200, 4)[:3]
    law = JointLaw.learn(base, features, labels, held=np.arange(50), candidates=tried, effort=0.3)
    assert [record["share_of_epochs"] for record in law.scores] == shares
    assert [record["chosen"] for record in law.scores].count(True) == 1
    assert min(law.scores, key=lambda record: record["nll"])["chosen"]


def test_learn__race_of_a_large_table_leaves_doubt__the_best_goes_the_whole_way_before_labels_are_independent(
    monkeypatch,
):
    monkeypatch.setattr(joint_law, "_SMALL_TABLE", 0)
    random = np.random.default_rng(0)
    base, features = rows(300, 4)
    labels = (random.random(base.shape) < expit(base)).astype(float)
    tried = default_candidates(300, 4)[:3]
    law = JointLaw.learn(base, features, labels, held=np.arange(100), candidates=tried, effort=0.3)
    assert [record["share_of_epochs"] for record in law.scores] == [0.2] * 3 + [1.0]
    best = min(law.scores[:3], key=lambda record: record["nll"])
    assert all(law.scores[-1][name] == best[name] for name in ("n_rounds", "edges", "weight_decay"))
    assert law.messages is None


def test_learn__graph_without_an_edge__these_labels_do_not_hear_each_other():
    """Labels 0 and 2 are a pair, but the graph knows only 1 and 3 as neighbours."""
    base, features, labels = linked()
    graph = np.eye(4, dtype=bool)
    graph[1, 3] = graph[3, 1] = True
    law = JointLaw.learn(base, features, labels, held=np.arange(150), graph=graph, candidates=GRAPH, effort=2.0)
    known = np.full((1, 4), NAN)
    known[0, :2] = 1.0
    logits = law.logits(base[:1], features[:1], known)[0]
    assert logits[2] == 0.0
    assert logits[3] > 1.0


@pytest.mark.parametrize(("effort", "kind"), [(0.5, Chorus), (0.4, Messages)])
def test_learn__usual_effort__three_voices_that_differ_and_survive_a_file(effort, kind):
    base, features, labels = linked(200)
    law = JointLaw.learn(base, features, labels, held=np.arange(50), candidates=QUICK, effort=effort)
    assert type(law.messages) is kind
    if kind is Chorus:
        one, other, _ = (voice.edge for voice in law.messages.voices)
        assert not torch.equal(one, other)
    again = JointLaw.from_tensors(law.tensors(), json.loads(json.dumps(law.notes())))
    known = np.tile([1.0, NAN, NAN, 0.0], (5, 1))
    asked = base[:5], features[:5], known
    assert type(again.messages) is kind
    assert np.array_equal(again.logits(*asked), law.logits(*asked))


def test_learn__same_seed__same_law():
    one, other = (JointLaw.learn(*linked(200), held=np.arange(50), candidates=QUICK, effort=0.2) for _ in range(2))
    assert all(torch.equal(weight, other.tensors()[name]) for name, weight in one.tensors().items())
    assert one.scores == other.scores


def test_learn__many_labels__measures_what_blocks_lose():
    """Ten pairs: as many blocks as labels lose nothing, and few draws are lost by the blocks that are chosen."""
    base, features, labels = linked(600, n_labels=20)
    law = JointLaw.learn(base, features, labels, held=np.arange(150), candidates=QUICK, effort=0.5)
    assert law.block_loss[20] == 0.0
    assert law.block_loss[law.n_blocks] <= 0.02 * 10 * 0.37


def test_default_candidates__many_labels__have_no_edge_for_every_pair():
    assert {candidate.config.edges for candidate in default_candidates(20_000, 100)} == {"none", "shared"}
    assert {candidate.config.edges for candidate in default_candidates(500, 100)} == {"none", "shared", "signed"}
    assert {candidate.config.edges for candidate in default_candidates(500, 10_000)} == {"none"}


# Files and mistakes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"edges": "none", "hub_width": 0, "gated": False}])
def test_from_tensors__what_tensors_and_notes_said__is_the_same_law_to_the_last_bit(settings):
    law, (base, features) = scrambled_law(**settings), rows(8)
    notes = json.loads(json.dumps(law.notes()))
    again = JointLaw.from_tensors(law.tensors(), notes)
    known = np.where(rows(8, seed=2)[0] > 0, 1.0, NAN)
    assert np.array_equal(again.logits(base, features, known), law.logits(base, features, known))
    assert (again.n_blocks, again.block_loss, again.scores) == (law.n_blocks, law.block_loss, law.scores)


def test_from_tensors__law_without_messages__stays_without():
    law = JointLaw(None, 3)
    assert law.tensors() == {}
    assert JointLaw.from_tensors({}, law.notes()).messages is None


def test_learn__tables_that_do_not_go_together__says_their_shapes():
    base, features, labels = linked(20)
    with pytest.raises(
        DataError, match=r"must be tables with a row each.*got shapes \(20, 4\), \(19, 2\) and \(20, 4\)"
    ):
        JointLaw.learn(base, features[1:], labels, held=np.arange(5))


def test_learn__base_logits_not_finite__says_so():
    base, features, labels = linked(20)
    base[3, 1] = np.inf
    with pytest.raises(DataError, match="base logits and features must be finite"):
        JointLaw.learn(base, features, labels, held=np.arange(5))


@pytest.mark.parametrize("held", [np.arange(0), np.ones(20), np.zeros((2, 2), dtype=int)])
def test_learn__held_neither_rows_nor_folds__says_what_it_must_be(held):
    with pytest.raises(DataError, match="held must be the held-out rows, or a fold number for each of 20 rows"):
        JointLaw.learn(*linked(20), held=held)


def test_learn__one_fold_of_all_rows__leaves_nothing_to_learn_from():
    with pytest.raises(DataError, match="held must leave rows to learn from; got one fold of all 20 rows"):
        JointLaw.learn(*linked(20), held=np.zeros(20, dtype=int))
