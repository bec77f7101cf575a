"""One law: what is said of labels given others, what is drawn, and the chain rule in other orders agree."""

from itertools import permutations, product

import numpy as np
import pytest
from scipy.special import expit

from hotvae.config import MessagesConfig
from hotvae.estimators.joint_law import JointLaw
from hotvae.net.messages import Messages

N_LABELS = 4
ALL_SETS = np.array(list(product((0, 1), repeat=N_LABELS)), dtype=float)
N_DRAWS = 20_000
# How far the conditionals of a fitted law may be from a coherent one, in probability.
TOLERANCE = 0.03


def make_rows(n_rows, seed):
    """Labels that share a hidden cause, on a base that knows their means and nothing of each other."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(n_rows, 2))
    cause = random.normal(size=(n_rows, 1))
    odds = 0.8 * features[:, :1] + np.array([1.5, 1.2, -1.5, 0.8]) * cause
    labels = (random.random((n_rows, N_LABELS)) < expit(odds)).astype(float)
    base = np.repeat(0.6 * features[:, :1], N_LABELS, axis=1)
    return base, features, labels


@pytest.fixture(scope="module")
def fitted():
    base, features, labels = make_rows(1500, 0)
    return JointLaw.learn(base, features, labels, held=np.arange(300), effort=0.5)


@pytest.fixture(scope="module")
def loud():
    """A law with random weights: nothing makes its conditionals agree."""
    random = np.random.default_rng(1)
    messages = Messages(N_LABELS, 2, MessagesConfig(edges="signed", n_causes=0)).eval()
    for weight in messages.parameters():
        weight.data = 3 * weight.new_tensor(random.normal(size=tuple(weight.shape)))
    return JointLaw(messages, N_LABELS, n_blocks=N_LABELS)


def exact_table(law, base, features):
    """Probability of every label set of one row, the mean over all orders of the labels: what is drawn."""
    total = np.zeros(len(ALL_SETS))
    same = np.repeat(base, len(ALL_SETS), axis=0), np.repeat(features, len(ALL_SETS), axis=0)
    orders = list(permutations(range(N_LABELS)))
    for order in orders:
        state, log_prob = np.full(ALL_SETS.shape, np.nan), np.zeros(len(ALL_SETS))
        for label in order:
            odds = law.logits(*same, state)[:, label]
            log_prob += ALL_SETS[:, label] * odds - np.logaddexp(0, odds)
            state[:, label] = ALL_SETS[:, label]
        total += np.exp(log_prob) / len(orders)
    return total


def given_one(law, base, features, label, value):
    """Probabilities of all labels where one is known."""
    known = np.full((1, N_LABELS), np.nan)
    known[0, label] = value
    return expit(law.logits(base, features, known))[0]


def largest_gap(law, base, features):
    """How far P(i | j) as it is said may be from P(i | j) in the table of all sets."""
    table = exact_table(law, base, features)
    gaps = []
    for j, value in product(range(N_LABELS), (0, 1)):
        there = ALL_SETS[:, j] == value
        among = (table[there, None] * ALL_SETS[there]).sum(axis=0) / table[there].sum()
        gaps.append(np.abs(np.delete(given_one(law, base, features, j, value) - among, j)).max())
    return max(gaps)


def test_draws__of_a_fitted_law__have_the_frequencies_of_the_chain_rule(fitted):
    """Within 4.5 standard errors of the draws, in each of 16 sets: by chance alone one fit in 9,000 fails."""
    base, features, _ = (part[:1] for part in make_rows(1, 5))
    draws = fitted.sample(base, features, N_DRAWS, np.random.default_rng(0), n_blocks=N_LABELS)[:, 0]
    shares = np.bincount(draws @ [8, 4, 2, 1], minlength=16) / N_DRAWS
    table = exact_table(fitted, base, features)
    # Draws go through the labels in as many orders as there are 25s in them, not in all of them equally often.
    n_orders = N_DRAWS / 25
    bound = 4.5 * (np.sqrt(table * (1 - table) / N_DRAWS) + TOLERANCE / np.sqrt(n_orders))
    assert (np.abs(shares - table) < bound).all()


@pytest.mark.parametrize("row", [1, 2, 3])
def test_given__against_the_share_among_draws__agree_up_to_the_error_of_draws(fitted, row):
    base, features, _ = (part[[row]] for part in make_rows(4, 5))
    draws = fitted.sample(base, features, N_DRAWS, np.random.default_rng(0), n_blocks=N_LABELS)[:, 0]
    for j, value in product(range(N_LABELS), (0, 1)):
        there = draws[draws[:, j] == value]
        said = given_one(fitted, base, features, j, value)
        bound = TOLERANCE + 4.5 * np.sqrt(0.25 / len(there))
        assert (np.abs(there.mean(axis=0) - said) < bound)[np.arange(N_LABELS) != j].all()


def test_coherence__fitted_and_random_weights__only_the_fitted_law_is_one_law(fitted, loud):
    base, features, _ = (part[:1] for part in make_rows(1, 7))
    assert largest_gap(fitted, base, features) < TOLERANCE
    assert largest_gap(loud, base, features) > 3 * TOLERANCE


def test_orders__of_a_fitted_law__disagree_by_little(fitted, loud):
    base, features, labels = make_rows(100, 3)
    spread = [
        law.log_likelihood_by_order(base, features, labels, 8).std(axis=1, ddof=1).mean() for law in (fitted, loud)
    ]
    assert spread[0] < 0.05
    assert spread[1] > 10 * spread[0]
