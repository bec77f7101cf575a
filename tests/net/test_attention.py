"""Messages between labels: attention, feed-forward, residual sums and dropout, by hand and by loops."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hotvae.net.attention import DecoderLayer, Dropout, FeatureMessage, LabelMessage, Residual, attend
from tests.net import loops
from tests.net.loops import close, normal, scrambled, small_config

SEEDS = st.integers(0, 2**32 - 1)
NORMS = pytest.mark.parametrize("norm", ["post", "pre"])


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


@pytest.mark.parametrize("training", [True, False])
def test_attention_dropout__one_sender__all_or_nothing_while_training(training):
    """The only weight is 1: dropped at rate 1/2 it becomes 0 or 2; not training it stays 1."""
    config = small_config(dim=1, n_heads=1, attention_dropout=0.5)
    to_labels, to_tokens = LabelMessage(config), FeatureMessage(config, single_token=False)
    set_linear(to_labels.query_key_value, [[0.0], [0.0], [1.0]])
    for layer in (to_labels.merge, to_tokens.query, to_tokens.key, to_tokens.value, to_tokens.merge):
        set_linear(layer, [[1.0]])
    ones = torch.ones(200, 1, 1)
    for answer in (to_labels.train(training)(ones, None), to_tokens.train(training)(ones, ones, None)):
        assert set(answer.flatten().tolist()) == ({0.0, 2.0} if training else {1.0})


# Dropout --------------------------------------------------------------------------------------------------


def test_dropout__shared__is_one_mask_per_row_and_unit():
    dropped = Dropout(0.25, shared=True)(torch.ones(64, 5, 32))
    assert sorted(set(dropped.flatten().tolist())) == pytest.approx([0.0, 4 / 3])
    assert (dropped == dropped[:, :1]).all()
    assert not (dropped == dropped[:1]).all()
    assert not (dropped == dropped[..., :1]).all()


def test_dropout__independent__differs_between_labels():
    dropped = Dropout(0.25, shared=False)(torch.ones(64, 5, 32))
    assert sorted(set(dropped.flatten().tolist())) == pytest.approx([0.0, 4 / 3])
    agreement = (dropped[:, :1] == dropped[:, 1:]).float().mean().item()
    assert agreement == pytest.approx(0.75**2 + 0.25**2, abs=0.02)


@pytest.mark.parametrize("shared", [True, False])
def test_dropout__many_draws__keep_the_expectation(shared):
    """60,000 draws: the standard error of the mean of 0-or-1/0.7 is 0.0027 times the state."""
    states = torch.tensor([[[1.0, -2.0], [3.0, 0.5]]]).expand(60_000, -1, -1)
    close(Dropout(0.3, shared)(states).mean(0) / states[0], torch.ones(2, 2), 0.012)


@pytest.mark.parametrize("shared", [True, False])
def test_dropout__not_training_or_rate_zero__does_nothing(shared):
    states = torch.randn(2, 3, 4)
    assert Dropout(0.5, shared).eval()(states) is states
    assert Dropout(0.0, shared)(states) is states


@pytest.mark.parametrize("sharing", ["labels", "none"])
@NORMS
def test_residual__one_message_for_all_labels__is_dropped_as_the_sharing_says(sharing, norm):
    """A single token answers with one message; independent masks must still differ between labels."""
    block = Residual(small_config(dim=64, decoder_dropout=0.5, dropout_sharing=sharing, norm=norm))
    total = block(torch.zeros(1, 3, 64), lambda _: torch.ones(2, 1, 64))
    assert total.shape == (2, 3, 64)
    assert torch.equal(total[:, 0], total[:, 1]) == (sharing == "labels")


# Residual sums and layers (Eq. 3-5, 10-13, paper note P12) ------------------------------------------------


def test_residual__post__normalises_the_sum():
    """State (1, 3), update 2 u = (2, 6), sum (3, 9), normalised (-1, 1); gain 10, shift 5: (-5, 15)."""
    block = Residual(small_config(dim=2, n_heads=1, norm="post")).double()
    torch.nn.init.constant_(block.norm.weight, 10.0)
    torch.nn.init.constant_(block.norm.bias, 5.0)
    close(block(torch.tensor([[[1.0, 3.0]]]).double(), lambda u: 2 * u), [[[-5.0, 15.0]]], 1e-4)


def test_residual__pre__normalises_what_the_block_reads():
    """State (1, 3), normalised (-1, 1), gain 10, shift 5: (-5, 15); update 2 u = (-10, 30), sum (-9, 33)."""
    block = Residual(small_config(dim=2, n_heads=1, norm="pre")).double()
    torch.nn.init.constant_(block.norm.weight, 10.0)
    torch.nn.init.constant_(block.norm.bias, 5.0)
    close(block(torch.tensor([[[1.0, 3.0]]]).double(), lambda u: 2 * u), [[[-9.0, 33.0]]], 1e-3)


@NORMS
def test_residual__feed_forward_block__equals_loops(norm):
    config = small_config(norm=norm)
    layer = scrambled(DecoderLayer(config, single_token=True))
    states, block = normal(3, 5, 4, seed=1), layer.feature_feedforward
    expected = [
        loops.residual(layer.residuals[1], norm, row, lambda u: [loops.feedforward(block, x) for x in u])
        for row in states.tolist()
    ]
    close(layer.residuals[1](states, block), expected)


def test_decoder_layer__two_labels__matches_hand_calculation():
    """Pre-norm; states (2, 0) and (0, 4), token (0.5, -0.5), its projection the identity.

    1. Token: (2.5, -0.5), (0.5, 3.5).
    2. Feed-forward reads (1, -1), (-1, 1): relu of the first place, times (0.5, 0.5): (3, 0), (0.5, 3.5).
    3. Labels read (1, -1), (-1, 1) as query and key, twice that as value. Scores of label 1: 2 / sqrt 2 and
       -2 / sqrt 2, so the message is 2 tanh(sqrt 2) (1, -1) = 1.776772 (1, -1), and the opposite for label 2:
       (4.776772, -1.776772), (-1.276772, 5.276772).
    4. Feed-forward reads (1, -1), (-1, 1): relu of the second place, times (1, -1):
       (4.776772, -1.776772), (-0.276772, 4.276772).
    """
    layer = DecoderLayer(small_config(dim=2, n_heads=1, feedforward_dim=1, norm="pre"), single_token=True).double()
    identity = torch.eye(2).double()
    set_linear(layer.feature_message.value, identity)
    set_linear(layer.feature_feedforward[0], [[1.0, 0.0]])
    set_linear(layer.feature_feedforward[2], [[0.5], [0.5]])
    set_linear(layer.label_message.query_key_value, torch.cat([identity, identity, 2 * identity]))
    set_linear(layer.label_message.merge, identity)
    set_linear(layer.label_feedforward[0], [[0.0, 1.0]])
    set_linear(layer.label_feedforward[2], [[1.0], [-1.0]])
    states = torch.tensor([[[2.0, 0.0], [0.0, 4.0]]]).double()
    after = layer(states, torch.tensor([[[0.5, -0.5]]]).double(), None, None)
    close(after, [[[4.776772, -1.776772], [-0.276772, 4.276772]]], 1e-4)


@settings(max_examples=16, deadline=None)
@given(
    seed=SEEDS,
    norm=st.sampled_from(["post", "pre"]),
    n_heads=st.sampled_from([1, 2, 4]),
    tokens=st.sampled_from(["one", "several", "padded"]),
    whole_graph=st.booleans(),
)
def test_decoder_layer__any_settings__equals_loops(seed, norm, n_heads, tokens, whole_graph):
    config = small_config(norm=norm, n_heads=n_heads)
    layer = scrambled(DecoderLayer(config, single_token=tokens == "one"), seed)
    graph = None if whole_graph else graph_of(5, seed)
    latent, mask = tokens_and_mask(seed)
    latent, mask = (latent[:, 1:2], None) if tokens == "one" else (latent, mask if tokens == "padded" else None)
    states = normal(1, 5, 4, seed=seed)
    actual = layer(states, latent, mask, graph)
    for row in range(3):
        listens = None if mask is None else mask[row].tolist()
        own_graph = None if graph is None else graph.tolist()
        expected = loops.decoder_layer(layer, config, states[0].tolist(), latent[row].tolist(), listens, own_graph)
        close(actual[row], expected)
