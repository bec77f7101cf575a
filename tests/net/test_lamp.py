"""LaMP: messages among columns that really arrive, and label messages that keep to the graph."""

import pytest
import torch

from hotvae.net.encoders import MLPEncoder, encode
from hotvae.net.lamp import ColumnEncoder, LaMPNet, PartEncoder
from tests.net.loops import close, normal, scrambled, small_config

# A chain 0 - 1 - 2, and 3 by itself.
GRAPH = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]], dtype=torch.bool)


def config_of(**changes):
    return small_config(**({"encoder_layers": 1, "direct_path": False} | changes))


def encoder_of(n_features=5, seed=0, **changes):
    return scrambled(ColumnEncoder(n_features, config_of(**changes)), seed).eval()


def network_of(graph=None, **changes):
    config = config_of(**changes)
    return scrambled(LaMPNet(ColumnEncoder(5, config), 4, config, graph)).eval()


# Columns as nodes ------------------------------------------------------------------------------------------


def test_columns__without_messages__own_vector_plus_value_times_scale():
    encoder, row = encoder_of(encoder_layers=0), torch.tensor([[2.0, 0.0, -1.0, 0.0, 0.0]], dtype=torch.float64)
    tokens, _, mask = encoder(row)
    expected = [encoder.root, encoder.identity[0] + 2 * encoder.scale[0], encoder.identity[2] - encoder.scale[2]]
    close(tokens[0], torch.stack(expected), 1e-12)
    assert mask.tolist() == [[True, True, True]]


@pytest.mark.parametrize(("encoder_layers", "hears"), [(0, False), (1, True)])
def test_columns__with_messages__every_node_hears_every_other(encoder_layers, hears):
    """The trap of an encoder whose attention is computed and thrown away: then nothing would be heard."""
    encoder = encoder_of(encoder_layers=encoder_layers)
    features = normal(1, 5).requires_grad_()
    tokens, _, _ = encoder(features)
    tokens[0, 1].square().sum().backward()  # the node of column 0
    others = features.grad[0, 1:]
    assert bool((others != 0).all()) if hears else bool((others == 0).all())


def test_columns__rows_of_different_lengths__padding_is_not_heard():
    encoder = encoder_of()
    features = torch.tensor([[1.0, 0, 0, 0, 0], [1.0, 2, 3, 4, 0], [0, 0, 0, 0, 0]], dtype=torch.float64)
    tokens, _, mask = encoder(features)
    assert mask.sum(1).tolist() == [2, 5, 1]  # the root always stands
    for row in range(3):
        alone, _, own = encoder(features[row : row + 1])
        close(tokens[row : row + 1, : alone.shape[1]][own], alone[own], 1e-12)


def test_columns__all_active__same_nodes_as_gathered_ones():
    encoder, features = encoder_of(), normal(3, 5)
    dense, _, mask = encoder(features)
    assert mask is None
    mixed, _, _ = encoder(torch.cat([features, torch.zeros(1, 5, dtype=torch.float64)]))
    close(dense, mixed[:3], 1e-12)


# A vector as parts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("encoder_layers", "hears"), [(0, False), (1, True)])
def test_parts__with_messages__every_part_hears_every_other(encoder_layers, hears):
    config = config_of(encoder_layers=encoder_layers)
    encoder = scrambled(PartEncoder(5, 3, config)).eval()
    seen = []
    encoder.parts.register_forward_hook(lambda module, inputs, output: seen.append(output) or output.retain_grad())
    tokens, _ = encoder(normal(2, 5).requires_grad_())
    assert tokens.shape == (2, 3, config.dim)
    tokens[:, 0].square().sum().backward()
    others = seen[0].grad.unflatten(-1, (3, -1))[:, 1:]
    assert bool((others != 0).all()) if hears else bool((others == 0).all())


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_parts__fixed_number_of_tokens__as_promised(norm):
    encoder = PartEncoder(5, 3, config_of(norm=norm))
    assert encode(encoder, torch.zeros(2, 5)).mean.shape == (2, 3, 4)


# Label graphs ----------------------------------------------------------------------------------------------


def heard_from(network, label):
    """Labels whose embedding moves the last logit of one label."""
    network.zero_grad()
    network(normal(3, 5))[-1][:, label].sum().backward()
    return network.decoder.embedding.grad.abs().amax(1) > 0


def test_prior_graph__one_layer__exactly_the_neighbours_are_heard():
    network = network_of(GRAPH, n_layers=1)
    assert torch.equal(torch.stack([heard_from(network, label) for label in range(4)]), GRAPH)


def test_prior_graph__two_layers__labels_two_edges_away_but_no_further():
    network = network_of(GRAPH, n_layers=2)
    assert heard_from(network, 0).tolist() == [True, True, True, False]
    assert heard_from(network, 3).tolist() == [False, False, False, True]


def test_edgeless_graph__any_depth__each_label_hears_itself_alone():
    network = network_of(torch.eye(4, dtype=torch.bool), n_layers=2)
    assert torch.equal(torch.stack([heard_from(network, label) for label in range(4)]), torch.eye(4, dtype=torch.bool))


def test_no_graph__equals_the_complete_one():
    features = normal(3, 5)
    close(network_of()(features), network_of(torch.ones(4, 4, dtype=torch.bool))(features), 1e-12)


# The whole -------------------------------------------------------------------------------------------------


def test_forward__a_read_out_after_every_layer__the_last_is_the_prediction():
    network, features = network_of(n_layers=3), normal(2, 5)
    logits = network(features)
    assert logits.shape == (3, 2, 4)
    close(network.predict(features), logits[-1].sigmoid(), 0)
    tokens = encode(network.feature_encoder, features)
    close(logits, network.decoder(tokens.mean, tokens.mask), 0)


def test_forward__no_direct_path__features_reach_labels_by_messages_alone():
    network = network_of()
    assert network.decoder.direct is None
    features = normal(2, 5).requires_grad_()
    network(features)[-1].sum().backward()
    assert (features.grad != 0).all()


def test_predict__a_row__does_not_depend_on_its_companions():
    network, features = network_of(GRAPH), normal(4, 5)
    features[normal(4, 5, seed=1) > 0] = 0
    alone = torch.cat([network.predict(features[i : i + 1]) for i in range(4)])
    close(network.predict(features), alone, 1e-12)


def test_encoder__of_one_token__needs_no_queries():
    config = config_of()
    network = LaMPNet(MLPEncoder(5, (6,), config.dim), 4, config)
    assert network.decoder.layers[0].feature_message.query is None
