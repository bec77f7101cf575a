"""The stack: weights at least 0, corrections of each label, all worked against a slow reference."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from hotvae.errors import ModelError
from hotvae.estimators.stack import Stack, fit_stack, logit_loss


def drawn(logits, seed=0):
    return (np.random.default_rng(seed).random(logits.shape) < expit(logits)).astype(float)


def test_stack__two_members_by_hand__weighted_scaled_and_shifted():
    """Of 2 and -1 with weights .5 and 2: 2 * .5 - 1 * 2 = -1; times 3, plus .25, is -2.75."""
    stack = Stack(np.array([0.5, 2.0]), np.array([3.0]), np.array([0.25]))
    assert stack.logits([np.array([[2.0]]), np.array([[-1.0]])]) == pytest.approx(-2.75)


def test_fit_stack__one_true_one_noise__weighs_the_true_one():
    rng = np.random.default_rng(0)
    true, noise = rng.normal(size=(4000, 3)) * 2, rng.normal(size=(4000, 3))
    stack = fit_stack([true, noise], drawn(true))
    assert stack.weights[0] == pytest.approx(1, abs=0.1)
    assert stack.weights[1] < 0.05


def test_fit_stack__member_that_is_wrong__weighs_nothing_rather_than_less():
    """Labels follow a - b: without the bound b would weigh -1."""
    a, b = np.random.default_rng(1).normal(size=(2, 500, 2)) * 2
    stack = fit_stack([a, b], drawn(a - b), by_label=False)
    assert stack.weights[1] == 0
    assert stack.weights[0] > 0.3


def test_fit_stack__overconfident_and_biased_label__corrected_and_the_other_left_alone():
    """Logits of the first label are twice too large and 1 too high; those of the second are right."""
    true = np.random.default_rng(2).normal(size=(20_000, 2)) * 1.5
    said = np.column_stack([2 * true[:, 0] + 1, true[:, 1]])
    stack = fit_stack([said], drawn(true))
    scale = stack.weights[0] * stack.temperature
    assert scale == pytest.approx([0.5, 1.0], abs=0.06)
    assert stack.bias == pytest.approx([-0.5, 0.0], abs=0.06)


def test_fit_stack__no_mistake_on_held_out_rows__weights_end_at_two():
    true = np.random.default_rng(7).normal(size=(200, 2))
    assert fit_stack([true], (true > 0).astype(float)).weights == pytest.approx([2.0])


def test_fit_stack__label_seen_in_three_rows__stays_near_the_others():
    true = np.random.default_rng(3).normal(size=(3000, 2)) * 2
    labels = drawn(true)
    labels[3:, 1] = np.nan
    labels[:3, 1] = 1
    stack = fit_stack([true], labels)
    assert 0.8 < stack.temperature[1] < 1.25
    assert 0 < stack.bias[1] < 1


def test_fit_stack__loss_written_out_by_loops__no_neighbour_is_better():
    """The optimum of the penalised loss: moving any number by a hundredth makes it worse."""
    rng = np.random.default_rng(4)
    members = [rng.normal(size=(60, 2)) for _ in range(2)]
    labels = drawn(members[0] + 0.5 * members[1])
    labels[0, 0] = np.nan
    stack = fit_stack(members, labels)

    def cost(weights, temperature, bias):
        total = sum(20 / 2 * np.log(t) ** 2 for t in temperature) + sum(2 / 2 * b**2 for b in bias)
        for i in range(60):
            for label in range(2):
                if not np.isnan(labels[i, label]):
                    z = sum(w * m[i, label] for w, m in zip(weights, members, strict=True))
                    z = temperature[label] * z + bias[label]
                    total += np.log1p(np.exp(-z)) if labels[i, label] == 1 else np.log1p(np.exp(z))
        return total

    best = cost(stack.weights, stack.temperature, stack.bias)
    for part in range(3):
        for place in range(2):
            for step in (-0.01, 0.01):
                moved = [stack.weights.copy(), stack.temperature.copy(), stack.bias.copy()]
                moved[part][place] += step
                assert moved[0].min() < 0 or cost(*moved) > best - 1e-6


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(3)))
def test_fit_stack__members_in_another_order__weights_in_that_order(order):
    rng = np.random.default_rng(5)
    members = [rng.normal(size=(200, 2)) for _ in range(3)]
    labels = drawn(members[0] + members[1])
    weights = fit_stack(members, labels).weights
    assert fit_stack([members[i] for i in order], labels).weights == pytest.approx(weights[list(order)], abs=2e-3)


def test_stack__state__same_bits_again():
    stack = fit_stack([np.random.default_rng(6).normal(size=(50, 2))], np.tile([[1.0, 0.0]], (50, 1)))
    again = Stack.from_state(stack.state(), 1, 2)
    assert all((getattr(again, name) == getattr(stack, name)).all() for name in ("weights", "temperature", "bias"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"weights": [1.0, 2.0]}, "a weight for each of 1 members"),
        ({"bias": [0.0]}, "two numbers for each of 2 labels"),
        ({"bias": "none"}, "complete"),
    ],
)
def test_stack__state_that_does_not_fit__refused(change, said):
    with pytest.raises(ModelError, match=said):
        Stack.from_state({"weights": [1.0], "temperature": [1.0, 1.0], "bias": [0.0, 0.0]} | change, 1, 2)


def test_logit_loss__by_hand__gaps_left_out():
    """ln 2 for a coin; ln(1 + e^-2) = .126928 for a present label at 2."""
    loss = logit_loss(np.array([[1.0, np.nan], [1.0, np.nan]]), np.array([[0.0, 9.0], [2.0, -9.0]]))
    assert loss == pytest.approx((np.log(2) + 0.126928) / 2, abs=1e-6)
