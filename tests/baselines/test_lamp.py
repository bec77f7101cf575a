"""LaMP: messages among columns that really arrive, label messages that keep to the graph; graphs of training rows."""

import numpy as np
import pytest
import torch
from scipy import sparse

from hotvae.baselines.lamp import ColumnEncoder, LaMP, LaMPNet, PartEncoder
from hotvae.errors import DataError
from hotvae.graph import cooccurrence_graph
from hotvae.net.encoders import MLPEncoder, encode
from hotvae.net.losses import bce_loss
from tests.net.loops import close, normal, scrambled, small_config

# A chain 0 - 1 - 2, and 3 by itself.
GRAPH = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]], dtype=torch.bool)


def config_of(**changes):
    return small_config(**({"encoder_layers": 1, "direct_path": False} | changes))


def encoder_of(n_features=5, seed=0, **changes):
    return scrambled(ColumnEncoder(n_features, config_of(**changes)), seed).eval()


def network_of(graph=None, has_base=False, **changes):
    config = config_of(**changes)
    return scrambled(LaMPNet(ColumnEncoder(5, config), 4, config, graph, has_base=has_base)).eval()


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


def test_parts__fixed_number_of_tokens__as_promised():
    encoder = PartEncoder(5, 3, config_of())
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


def test_loss__terms__last_layer_and_those_before_it():
    network, features = network_of(n_layers=3), normal(4, 5)
    labels = (normal(4, 4, seed=9) > 0).double()
    logits, terms = network(features), network.loss(features, labels)
    assert list(terms) == ["bce", "intermediate"]
    close(terms["bce"], bce_loss(logits[2], labels), 0)
    close(terms["intermediate"], bce_loss(logits[0], labels) + bce_loss(logits[1], labels), 1e-12)


def test_base_logits__weighed__are_added_after_every_layer():
    network, features, base_logits = network_of(has_base=True, n_layers=3), normal(2, 5), normal(2, 4, seed=7)
    expected = network(features) + network.base.scale * base_logits
    close(network(features, base_logits), expected, 1e-12)
    close(network.predict(features, base_logits), expected[-1].sigmoid(), 1e-12)
    network.loss(features, torch.ones(2, 4).double(), base_logits)["intermediate"].sum().backward()
    assert (network.base.scale.grad != 0).all()


def test_initial_logits__start_the_bias__unless_there_are_base_logits():
    logits, config = torch.tensor([-1.0, 0.5, 2.0, 0.0]), config_of()
    biases = [
        LaMPNet(ColumnEncoder(5, config), 4, config, initial_logits=logits, has_base=has_base).decoder.bias.tolist()
        for has_base in (False, True)
    ]
    assert biases == [[-1.0, 0.5, 2.0, 0.0], [0.0] * 4]


# The classifier -------------------------------------------------------------------------------------------


SMALL = {"dim": 8, "n_heads": 2, "max_epochs": 1, "n_threads": 1, "random_state": 0}


def exclusive(n_rows):
    """Labels 0 and 1 never occur together, nor do 2 and 3."""
    X = np.random.default_rng(0).normal(size=(n_rows, 5))
    first, second = X[:, 0] > 0, X[:, 1] > 0
    return X, np.column_stack([first, ~first, second, ~second]).astype(int)


@pytest.fixture(scope="module")
def table():
    return exclusive(80)


@pytest.mark.parametrize("name", ["prior", "cooccurrence"])
def test_prior_graph__labels_never_together__have_no_edge(table, name):
    model = LaMP.from_settings(**SMALL, graph=name).fit(*table)
    np.testing.assert_array_equal(model.graph_, cooccurrence_graph(table[1]))
    assert not model.graph_[0, 1]
    assert model.graph_[0, 2]
    np.testing.assert_array_equal(model.network_.decoder.graph.numpy(), model.graph_)


@pytest.mark.parametrize("name", ["none", "complete"])
def test_complete_graph__under_both_names__no_mask(table, name):
    assert LaMP.from_settings(**SMALL, graph=name).fit(*table).graph_ is None


def test_edgeless_graph__each_label_by_itself(table):
    np.testing.assert_array_equal(
        LaMP.from_settings(**SMALL, graph="edgeless").fit(*table).graph_, np.eye(4, dtype=bool)
    )


def test_own_graph__is_checked_and_kept_in_the_file(table, tmp_path):
    graph = cooccurrence_graph(table[1])
    model = LaMP.from_settings(**SMALL, graph=graph).fit(*table)
    model.save(tmp_path / "model")
    loaded = LaMP.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.graph_, graph)
    np.testing.assert_array_equal(loaded.predict_proba(table[0]), model.predict_proba(table[0]))
    with pytest.raises(DataError, match=r"graph must have shape \(4, 4\); got \(2, 2\)"):
        LaMP.from_settings(**SMALL, graph=np.eye(2, dtype=bool)).fit(*table)


def test_prior_graph__validation_rows__have_no_say(table):
    """A pair that occurs together in validation rows alone keeps no edge."""
    X, Y = table
    both = np.array([[1, 1, 0, 1]] * 12)
    model = LaMP.from_settings(**SMALL, graph="prior").fit(X, Y, validation=(X[:12], both))
    assert not model.graph_[0, 1]


@pytest.mark.parametrize("encoder", ["columns", "mlp", "set"])
def test_encoders__of_the_house__serve_lamp_too(table, encoder):
    X = sparse.csr_array((table[0] > 0).astype(float))
    model = LaMP.from_settings(**SMALL, encoder=encoder, encoder_widths=(8,)).fit(X, table[1])
    assert model.predict_proba(X).shape == (80, 4)


def test_texts__words_as_nodes__labels_found():
    texts = ["ripe apple", "green apple", "old oak", "tall oak"] * 10
    labels = np.array([[1, 0], [1, 0], [0, 1], [0, 1]] * 10)
    settings = SMALL | {"max_epochs": 15, "learning_rate": 0.02}
    model = LaMP.from_settings(**settings, encoder="text", encoder_dropout=0.0, min_word_count=1).fit(texts, labels)
    assert model.predict(["red apple", "oak"]).tolist() == [[1, 0], [0, 1]]


def test_loss__intermediate_read_outs__weighted_in(table):
    model = LaMP.from_settings(**SMALL, n_layers=3, intermediate_weight=0.5).fit(*table)
    record = model.history_.records[0]
    assert record["loss"] == pytest.approx(record["loss_bce"] + 0.5 * record["loss_intermediate"], rel=1e-5)
    assert record["loss_intermediate"] > record["loss_bce"]  # two layers of about the same loss each


def test_exclusive_labels__learned_with_messages():
    X, Y = exclusive(400)
    settings = SMALL | {"max_epochs": 20, "dim": 16, "encoder_widths": (32,), "learning_rate": 0.01}
    model = LaMP.from_settings(**settings, encoder_dropout=0.0, decoder_dropout=0.0).fit(X[:300], Y[:300])
    assert (model.predict(X[300:]) == Y[300:]).mean() > 0.9
