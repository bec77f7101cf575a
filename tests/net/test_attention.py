"""Messages between labels: attention, feed-forward, residual sums and dropout, by hand and by loops."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hotvae.net.attention import (
    DecoderLayer,
    Dropout,
    FeatureMessage,
    LabelMessage,
    Residual,
    attend,
    feedforward,
)
from tests.net import loops
from tests.net.loops import close, normal, scrambled, small_config

SEEDS = st.integers(0, 2**32 - 1)


def graph_of(n_labels, seed=0):
    """A random graph with self-edges."""
    return (normal(n_labels, n_labels, seed=seed) > 0.3) | torch.eye(n_labels, dtype=torch.bool)


def set_linear(layer, weight, bias=0.0):
    with torch.no_grad():
        layer.weight.copy_(torch.as_tensor(weight, dtype=torch.float64))
        layer.bias.fill_(bias)


def tokens_and_mask(seed=0):
    """Three rows with 1, 2 and 3 real tokens; the padding holds large numbers."""
    mask = torch.tensor([[True, False, False], [False, True, True], [True, True, True]])
    return torch.where(mask.unsqueeze(-1), normal(3, 3, 4, seed=seed), 5.0), mask


# Attention (Eq. 1-2) --------------------------------------------------------------------------------------


def test_attend__two_labels__matches_hand_calculation():
    """d = 4, query of label 1 is (2, 0, 0, 0), keys (ln 3, 0, 0, 0) and (0, 0, 0, 0).

    Scores 2 ln 3 / sqrt 4 = ln 3 and 0: weights 3/4 and 1/4. Values 8 and 4 in the first place: 7.
    The query of label 2 is zero: weights 1/2 and 1/2, message 6.
    """
    query = torch.tensor([[[2.0, 0, 0, 0], [0, 0, 0, 0]]]).double()
    key = torch.tensor([[[1.0, 0, 0, 0], [0, 0, 0, 0]]]).double() * math.log(3)
    value = torch.tensor([[[8.0, 0, 0, 0], [4, 0, 0, 0]]]).double()
    close(attend(query, key, value, n_heads=1), [[[7.0, 0, 0, 0], [6, 0, 0, 0]]], 1e-12)


def test_attend__two_heads__each_weighs_its_own_slice():
    """d = 2 with two heads of width 1, scale sqrt(2 / 2) = 1 (paper note P11).

    Head 1: scores ln 3 and 0, weights 3/4 and 1/4, values 8 and 4: 7.
    Head 2: scores 0 and ln 4, weights 1/5 and 4/5, values 10 and 5: 6.
    One head of width 2 would scale by sqrt 2 and mix both slices.
    """
    query = torch.tensor([[[1.0, 1.0]]]).double()
    key = torch.tensor([[[math.log(3), 0.0], [0.0, math.log(4)]]], dtype=torch.float64)
    value = torch.tensor([[[8.0, 10.0], [4.0, 5.0]]]).double()
    close(attend(query, key, value, n_heads=2), [[[7.0, 6.0]]], 1e-12)


def test_attend__masked_sender__softmax_is_over_neighbours_only():
    """Equal scores, values 3, 5 and 100; label 1 listens to the first two: (3 + 5) / 2 = 4, not 36 or 8/3."""
    zeros, value = torch.zeros(1, 3, 1), torch.tensor([[[3.0], [5.0], [100.0]]])
    mask = torch.tensor([[True, True, False], [False, True, False], [True, True, True]])
    close(attend(zeros, zeros, value, 1, mask), [[[4.0], [5.0], [36.0]]], 1e-5)


@pytest.mark.parametrize("n_heads", [1, 2, 4])
@pytest.mark.parametrize("masked", [False, True])
def test_attend__any_heads_and_graph__equals_loops(n_heads, masked):
    query, key, value = (2 * normal(3, 5, 4, seed=seed) for seed in (1, 2, 3))
    mask = graph_of(5) if masked else None
    actual = attend(query, key, value, n_heads, mask)
    for row in range(3):
        for receiver in range(5):
            listens = mask[receiver].tolist() if masked else [True] * 5
            parts = (query[row, receiver].tolist(), key[row].tolist(), value[row].tolist())
            close(actual[row, receiver], loops.attention(*parts, n_heads, listens))


def test_attend__masked_sender__gets_exactly_no_gradient():
    query, key, value = (normal(1, 2, 4, seed=seed).requires_grad_() for seed in (1, 2, 3))
    mask = torch.tensor([[True, False], [True, False]])
    attend(query, key, value, 2, mask).square().sum().backward()
    assert (key.grad[0, 1] == 0).all()
    assert (value.grad[0, 1] == 0).all()
    assert (value.grad[0, 0] != 0).all()


# Messages -------------------------------------------------------------------------------------------------


def test_label_message__two_labels__matches_hand_calculation():
    """States 1 and 3, queries zero: all weights 1/2; values 2 v + 1 = 3 and 7, mean 5; merge 10 m - 1 = 49.

    In the graph where label 1 listens to itself alone it receives 10 * 3 - 1 = 29.
    """
    message = LabelMessage(small_config(dim=1, n_heads=1)).double()
    with torch.no_grad():
        message.query_key_value.weight.copy_(torch.tensor([[0.0], [1.0], [2.0]]))
        message.query_key_value.bias.copy_(torch.tensor([0.0, 0.0, 1.0]))
    set_linear(message.merge, [[10.0]], -1.0)
    states = torch.tensor([[[1.0], [3.0]]]).double()
    close(message(states, None), [[[49.0], [49.0]]], 1e-12)
    close(message(states, torch.tensor([[True, False], [True, True]])), [[[29.0], [49.0]]], 1e-12)


@pytest.mark.parametrize("n_heads", [1, 2])
@pytest.mark.parametrize("masked", [False, True])
def test_label_message__any_graph__equals_loops(n_heads, masked):
    message = scrambled(LabelMessage(small_config(n_heads=n_heads)))
    states, graph = normal(3, 5, 4, seed=1), graph_of(5) if masked else None
    expected = [
        loops.label_message(message, row, graph.tolist() if masked else None, n_heads) for row in states.tolist()
    ]
    close(message(states, graph), expected)


def test_feature_message__one_token__is_a_projection_for_all_labels():
    """z = (1, 2), weight ((1, 1), (0, 3)), bias 0.5: (3.5, 6.5), whatever the states."""
    message = FeatureMessage(small_config(dim=2, n_heads=1), single_token=True).double()
    set_linear(message.value, [[1.0, 1.0], [0.0, 3.0]], 0.5)
    answer = message(normal(1, 3, 2), torch.tensor([[[1.0, 2.0]]]).double(), None)
    close(answer, [[[3.5, 6.5]]], 1e-12)
    assert {name for name, _ in message.named_parameters()} == {"value.weight", "value.bias"}


@settings(max_examples=10, deadline=None)
@given(seed=SEEDS, n_heads=st.sampled_from([1, 2, 4]))
def test_feature_message__one_token__equals_attention_over_one_key(seed, n_heads):
    """Paper note P16: a softmax over one key is 1; value and merge are one linear map."""
    config = small_config(n_heads=n_heads)
    full = scrambled(FeatureMessage(config, single_token=False), seed)
    single = FeatureMessage(config, single_token=True).double()
    with torch.no_grad():
        single.value.weight.copy_(full.merge.weight @ full.value.weight)
        single.value.bias.copy_(full.merge(full.value.bias))
    states, tokens = normal(3, 5, 4, seed=seed), normal(3, 1, 4, seed=seed + 1)
    close(single(states, tokens, None).expand(-1, 5, -1), full(states, tokens, None), 1e-12)


def test_feature_message__two_tokens_and_a_padding__matches_hand_calculation():
    """Tokens 8, 4 and a padding of 100; keys ln 3, 0 and whatever; the query is 1: weights 3/4, 1/4, 0: 7."""
    message = FeatureMessage(small_config(dim=1, n_heads=1), single_token=False).double()
    set_linear(message.query, [[0.0]], 1.0)
    set_linear(message.key, [[math.log(3) / 4]], -math.log(3))
    set_linear(message.value, [[1.0]])
    set_linear(message.merge, [[1.0]])
    tokens, mask = torch.tensor([[[8.0], [4.0], [100.0]]]).double(), torch.tensor([[True, True, False]])
    close(message(torch.zeros(1, 2, 1).double(), tokens, mask), [[[7.0], [7.0]]], 1e-12)


@pytest.mark.parametrize("n_heads", [1, 2])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shared_states", [False, True])
def test_feature_message__several_tokens__equals_loops(n_heads, masked, shared_states):
    message = scrambled(FeatureMessage(small_config(n_heads=n_heads), single_token=False))
    states, (tokens, mask) = normal(1 if shared_states else 3, 5, 4, seed=1), tokens_and_mask()
    actual = message(states, tokens, mask if masked else None)
    for row in range(3):
        listens = mask[row].tolist() if masked else None
        own = states[0 if shared_states else row].tolist()
        close(actual[row], loops.feature_message(message, own, tokens[row].tolist(), listens, n_heads))


# Dropout --------------------------------------------------------------------------------------------------


def test_dropout__while_training__is_one_mask_per_row_and_unit():
    dropped = Dropout(0.25)(torch.ones(64, 5, 32))
    assert sorted(set(dropped.flatten().tolist())) == pytest.approx([0.0, 4 / 3])
    assert (dropped == dropped[:, :1]).all()
    assert not (dropped == dropped[:1]).all()
    assert not (dropped == dropped[..., :1]).all()


def test_dropout__many_draws__keep_the_expectation():
    """60,000 draws: the standard error of the mean of 0-or-1/0.7 is 0.0027 times the state."""
    states = torch.tensor([[[1.0, -2.0], [3.0, 0.5]]]).expand(60_000, -1, -1)
    close(Dropout(0.3)(states).mean(0) / states[0], torch.ones(2, 2), 0.012)


def test_dropout__not_training_or_rate_zero__does_nothing():
    states = torch.randn(2, 3, 4)
    assert Dropout(0.5).eval()(states) is states
    assert Dropout(0.0)(states) is states


# Residual sums and layers (Eq. 3-5, 10-13, paper note P12) ------------------------------------------------


def test_residual__any_block__normalises_the_sum():
    """State (1, 3), update 2 u = (2, 6), sum (3, 9), normalised (-1, 1); gain 10, shift 5: (-5, 15)."""
    block = Residual(2, dropout=0.0).double()
    torch.nn.init.constant_(block.norm.weight, 10.0)
    torch.nn.init.constant_(block.norm.bias, 5.0)
    states = torch.tensor([[[1.0, 3.0]]]).double()
    close(block(states, lambda u: 2 * u), [[[-5.0, 15.0]]], 1e-4)
    close(block.add(states, lambda u: 2 * u), [[[3.0, 9.0]]], 0)


def test_residual__one_message_for_all_labels__is_dropped_for_all_alike():
    """A single token answers with one message: the update is dropped, never the states it is added to."""
    block = Residual(64, dropout=0.5)
    total = block.add(torch.full((1, 3, 64), 10.0), lambda _: torch.ones(2, 1, 64))
    assert total.shape == (2, 3, 64)
    assert set(total.flatten().tolist()) == {10.0, 12.0}
    assert (total == total[:, :1]).all()


def test_residual__feed_forward_block__equals_loops():
    layer = scrambled(DecoderLayer(small_config(), single_token=True))
    states, block = normal(3, 5, 4, seed=1), layer.feature_feedforward
    expected = [
        loops.residual(layer.residuals[1], row, lambda u: [loops.feedforward(block, x) for x in u])
        for row in states.tolist()
    ]
    close(layer.residuals[1](states, block), expected)


def test_feedforward__any_width__is_as_wide_as_the_states():
    assert [tuple(layer.weight.shape) for layer in feedforward(6)[::2]] == [(6, 6), (6, 6)]


def test_decoder_layer__two_labels__matches_hand_calculation():
    """d = 3; every gain is sqrt(2/3), so a norm takes off the mean and leaves vectors of length sqrt 2.

    States (1, 0, -1) and (-3, 0, 3), token (1, 0, -1), its projection the identity.

    1. Token: (2, 0, -2), (-2, 0, 2), normed (1, 0, -1), (-1, 0, 1).
    2. Feed-forward, relu of the first place times (-1, 1, 0): (0, 1, -1), (-1, 0, 1), of length sqrt 2 already.
    3. Queries are ln 2 / sqrt 3 times the states, keys the states, values 3 times the states. The scores of each
       label, divided by sqrt 3: 2 ln 2 / 3 for itself and -ln 2 / 3 for the other, so weights 2/3 and 1/3.
       Messages 2 (0, 1, -1) + (-1, 0, 1) = (-1, 2, -1) and (-2, 1, 1).
       Sums (-1, 3, -2), (-3, 1, 2), normed by 1 / sqrt 7.
    4. Feed-forward, relu of the second place times (1, 0, -1): (2, 3, -5), (-2, 1, 1), both over sqrt 7;
       normed (2, 3, -5) / sqrt 19, (-2, 1, 1) / sqrt 3.
    """
    layer = DecoderLayer(small_config(dim=3, n_heads=1), single_token=True).double()
    identity = torch.eye(3).double()
    for residual in layer.residuals:
        torch.nn.init.constant_(residual.norm.weight, math.sqrt(2 / 3))
    set_linear(layer.feature_message.value, identity)
    set_linear(layer.feature_feedforward[0], [[1.0, 0, 0], [0, 0, 0], [0, 0, 0]])
    set_linear(layer.feature_feedforward[2], [[-1.0, 0, 0], [1, 0, 0], [0, 0, 0]])
    projections = [math.log(2) / math.sqrt(3) * identity, identity, 3 * identity]
    set_linear(layer.label_message.query_key_value, torch.cat(projections))
    set_linear(layer.label_message.merge, identity)
    set_linear(layer.label_feedforward[0], [[0.0, 0, 0], [0, 1, 0], [0, 0, 0]])
    set_linear(layer.label_feedforward[2], [[0.0, 1, 0], [0, 0, 0], [0, -1, 0]])
    states = torch.tensor([[[1.0, 0, -1], [-3, 0, 3]]]).double()
    after = layer(states, torch.tensor([[[1.0, 0, -1]]]).double(), None, None)
    close(after, [[[0.458831, 0.688247, -1.147079], [-1.154701, 0.577350, 0.577350]]], 1e-4)


@settings(max_examples=16, deadline=None)
@given(
    seed=SEEDS,
    n_heads=st.sampled_from([1, 2, 4]),
    tokens=st.sampled_from(["one", "several", "padded"]),
    whole_graph=st.booleans(),
)
def test_decoder_layer__any_settings__equals_loops(seed, n_heads, tokens, whole_graph):
    layer = scrambled(DecoderLayer(small_config(n_heads=n_heads), single_token=tokens == "one"), seed)
    graph = None if whole_graph else graph_of(5, seed)
    latent, mask = tokens_and_mask(seed)
    latent, mask = (latent[:, 1:2], None) if tokens == "one" else (latent, mask if tokens == "padded" else None)
    states = normal(1, 5, 4, seed=seed)
    actual = layer(states, latent, mask, graph)
    for row in range(3):
        listens = None if mask is None else mask[row].tolist()
        own_graph = None if graph is None else graph.tolist()
        expected = loops.decoder_layer(layer, n_heads, states[0].tolist(), latent[row].tolist(), listens, own_graph)
        close(actual[row], expected)
