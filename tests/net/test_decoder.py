"""The decoder: read-out, layers, direct path, and how far messages travel."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hotvae.net.decoder import Decoder, readout
from tests.net import loops
from tests.net.loops import close, normal, scrambled, small_config

SEEDS = st.integers(0, 2**32 - 1)
EYE = torch.eye(2, dtype=torch.float64)


def hand_decoder(**changes):
    """Two labels, d = 2; layer 1 sends the token times 1, layer 2 times -4; labels send averages.

    All other weights are zero. Read-out rows (1, 0) and (0, 3), biases 0 and 1.
    """
    decoder = Decoder(2, small_config(dim=2, n_heads=1, **changes), True).double()
    with torch.no_grad():
        for name, parameter in decoder.named_parameters():
            if "norm" not in name:
                parameter.zero_()
        decoder.embedding.copy_(EYE)
        for layer, size in zip(decoder.layers, (1, -4), strict=False):
            layer.feature_message.value.weight.copy_(size * EYE)
            layer.label_message.query_key_value.weight[4:].copy_(EYE)
            layer.label_message.merge.weight.copy_(EYE)
        decoder.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 3.0]]))
        decoder.bias.copy_(torch.tensor([0.0, 1.0]))
    return decoder


def path_graph(n_labels):
    """Each label listens to itself, the one before and the one after."""
    places = torch.arange(n_labels)
    return (places - places.unsqueeze(1)).abs() <= 1


def embedding_gradient(decoder, tokens, label):
    """How the last logit of one label answers to every embedding."""
    decoder.zero_grad()
    decoder(tokens)[-1, :, label].sum().backward()
    return decoder.embedding.grad


# Read-out (Eq. 14, paper note P4) -------------------------------------------------------------------------


def test_readout__two_labels__matches_hand_calculation():
    """u_1 = (1, 2), w_1 = (3, 4), b_1 = 0.5: 11.5. u_2 = (-1, 0), w_2 = (5, 6), b_2 = 2: -3."""
    states, weight = torch.tensor([[[1.0, 2.0], [-1.0, 0.0]]]), torch.tensor([[3.0, 4.0], [5.0, 6.0]])
    close(readout(states, weight, torch.tensor([0.5, 2.0])), [[11.5, -3.0]], 0)


def test_readout__any_states__is_the_diagonal_of_the_label_by_label_product():
    states, weight, bias = normal(3, 5, 4), normal(5, 4, seed=1), normal(5, seed=2)
    expected = [
        [sum(states[b, i, c] * weight[i, c] for c in range(4)).item() + bias[i].item() for i in range(5)]
        for b in range(3)
    ]
    close(readout(states, weight, bias), expected)
    close(readout(states, weight, bias), (states @ weight.T + bias).diagonal(dim1=1, dim2=2))


# Layers and intermediate read-outs ------------------------------------------------------------------------


def test_decoder__two_labels_two_layers__matches_hand_calculation():
    """Token (1, 0); the norm of (a, b) is (1, -1) when a > b, (0, 0) when a = b.

    Layer 1. Label 1: (1, 0) + (1, 0) = (2, 0), normed (1, -1).
    Label 2: (0, 1) + (1, 0) = (1, 1), normed (0, 0).
    The labels send the average (0.5, -0.5): (1.5, -1.5) and (0.5, -0.5), both normed (1, -1).
    Read-out: 1 * 1 + 0 = 1 and 3 * -1 + 1 = -2. Without the message label 2 would read 1.
    Layer 2. The token now sends (-4, 0): both (-3, -1), normed (-1, 1), and so they stay, agreeing with their
    average. Read-out: -1 and 3 * 1 + 1 = 4.
    """
    decoder = hand_decoder(n_layers=2, direct_path=False)
    token = torch.tensor([[[1.0, 0.0]]]).double()
    close(decoder(token), [[[1.0, -2.0]], [[-1.0, 4.0]]], 1e-4)


def test_decoder__direct_path__adds_a_linear_guess_to_every_layer():
    """Rows (10, 0) and (0, 5) times the token (1, 0): 10 and 0 on top of the values above."""
    decoder = hand_decoder(n_layers=2, direct_path=True)
    with torch.no_grad():
        decoder.direct.weight.copy_(torch.tensor([[10.0, 0.0], [0.0, 5.0]]))
    close(decoder(torch.tensor([[[1.0, 0.0]]]).double()), [[[11.0, -2.0]], [[9.0, 4.0]]], 1e-4)


@settings(max_examples=20, deadline=None)
@given(
    seed=SEEDS,
    n_layers=st.integers(1, 3),
    direct_path=st.booleans(),
    tokens=st.sampled_from(["one", "several", "padded"]),
    whole_graph=st.booleans(),
)
def test_decoder__any_settings__equals_loops(seed, n_layers, direct_path, tokens, whole_graph):
    config = small_config(n_layers=n_layers, direct_path=direct_path)
    graph = None if whole_graph else path_graph(4)
    decoder = scrambled(Decoder(4, config, tokens == "one", graph), seed)
    latent = normal(2, 1 if tokens == "one" else 3, 4, seed=seed)
    mask = torch.tensor([[True, False, True], [False, True, False]]) if tokens == "padded" else None
    actual = decoder(latent, mask)
    assert actual.shape == (n_layers, 2, 4)
    for row in range(2):
        listens = None if mask is None else mask[row].tolist()
        close(actual[:, row], loops.decoder(decoder, config, latent[row].tolist(), listens))


def test_decoder__layers__have_weights_of_their_own():
    """Paper note P10."""
    decoder = Decoder(3, small_config(n_layers=3), single_token=True)
    per_layer = sum(parameter.numel() for parameter in decoder.layers[0].parameters())
    assert len(decoder.layers) == 3
    assert sum(parameter.numel() for parameter in decoder.layers.parameters()) == 3 * per_layer


def test_decoder__without_direct_path__has_no_such_weights():
    decoder = Decoder(3, small_config(direct_path=False), single_token=True)
    assert decoder.direct is None
    assert not any("direct" in name for name, _ in decoder.named_parameters())


def test_decoder__initial_logits__start_the_bias_and_are_copied():
    logits = torch.tensor([-1.0, 0.5, 2.0])
    decoder = Decoder(3, small_config(), True, initial_logits=logits)
    logits += 1
    assert decoder.bias.tolist() == [-1.0, 0.5, 2.0]
    assert Decoder(3, small_config(), True).bias.tolist() == [0.0, 0.0, 0.0]


def test_decoder__graph__is_saved_with_the_weights_and_never_trained():
    decoder = Decoder(3, small_config(), True, path_graph(3))
    assert decoder.state_dict()["graph"].tolist() == path_graph(3).tolist()
    assert "graph" not in dict(decoder.named_parameters())


# How far messages travel (paper note P18) -----------------------------------------------------------------


@settings(max_examples=12, deadline=None)
@given(seed=SEEDS, n_layers=st.integers(1, 4), label=st.integers(0, 6))
def test_decoder__path_graph__reaches_exactly_n_hops(seed, n_layers, label):
    decoder = scrambled(Decoder(7, small_config(n_layers=n_layers), True, path_graph(7)), seed)
    gradient = embedding_gradient(decoder, normal(2, 1, 4, seed=seed), label)
    reached = (gradient != 0).any(-1).tolist()
    assert reached == [abs(other - label) <= n_layers for other in range(7)]


def test_decoder__one_way_edge__carries_messages_one_way():
    """Label 1 listens to label 2, not the reverse; label 3 stands alone."""
    graph = torch.tensor([[True, True, False], [False, True, False], [False, False, True]])
    decoder = scrambled(Decoder(3, small_config(n_layers=3), True, graph))
    for label, senders in enumerate([[True, True, False], [False, True, False], [False, False, True]]):
        gradient = embedding_gradient(decoder, normal(2, 1, 4), label)
        assert (gradient != 0).any(-1).tolist() == senders


def test_decoder__complete_graph__is_the_same_with_and_without_a_mask():
    decoder = scrambled(Decoder(4, small_config(), True))
    masked = Decoder(4, small_config(), True, torch.ones(4, 4, dtype=torch.bool)).double()
    masked.load_state_dict(decoder.state_dict() | {"graph": masked.graph})
    close(masked(normal(3, 1, 4)), decoder(normal(3, 1, 4)), 1e-12)


# Invariances ----------------------------------------------------------------------------------------------


@settings(max_examples=10, deadline=None)
@given(seed=SEEDS, single=st.booleans(), order=st.permutations(range(5)))
def test_decoder__labels_permuted__permutes_the_logits(seed, single, order):
    config = small_config()
    graph = (normal(5, 5, seed=seed) > 0) | torch.eye(5, dtype=torch.bool)
    decoder = scrambled(Decoder(5, config, single, graph), seed)
    permuted = Decoder(5, config, single, graph[order][:, order]).double()
    weights = decoder.state_dict() | {"graph": graph[order][:, order]}
    for name in ("embedding", "weight", "bias", "direct.weight"):
        weights[name] = weights[name][order]
    permuted.load_state_dict(weights)
    tokens = normal(3, 1 if single else 2, 4, seed=seed)
    close(permuted(tokens), decoder(tokens)[..., order])


@settings(max_examples=10, deadline=None)
@given(seed=SEEDS, garbage=st.floats(-100, 100), n_pads=st.integers(1, 3), direct_path=st.booleans())
def test_decoder__padded_tokens__change_nothing(seed, garbage, n_pads, direct_path):
    decoder = scrambled(Decoder(4, small_config(direct_path=direct_path), single_token=False), seed)
    tokens = normal(3, 2, 4, seed=seed)
    padded = torch.cat([tokens, torch.full((3, n_pads, 4), garbage, dtype=torch.float64)], 1)
    mask = torch.arange(2 + n_pads).expand(3, -1) < 2
    close(decoder(padded, mask), decoder(tokens))


@settings(max_examples=10, deadline=None)
@given(seed=SEEDS, order=st.permutations(range(3)))
def test_decoder__tokens_permuted__changes_nothing(seed, order):
    decoder, tokens = (
        scrambled(Decoder(4, small_config(), single_token=False), seed),
        normal(2, 3, 4, seed=seed),
    )
    close(decoder(tokens[:, order]), decoder(tokens))


def test_decoder__dropout__acts_while_training_only():
    decoder = Decoder(4, small_config(decoder_dropout=0.3), True)
    tokens = torch.randn(2, 1, 4)
    assert not torch.equal(decoder(tokens), decoder(tokens))
    decoder.eval()
    assert torch.equal(decoder(tokens), decoder(tokens))
