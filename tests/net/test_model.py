"""The whole network: two branches through one decoder, predictions that know nothing of their batch."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from hotvae.net.encoders import MLPEncoder, TokenEncoder, code_labels, encode
from hotvae.net.latent import Gaussian, aligned_kl, sample
from hotvae.net.losses import bce_loss, hotvae_terms
from hotvae.net.model import HotVAE, PlainNet
from tests.net import loops
from tests.net.loops import close, normal, scrambled, small_config

NAN = math.nan
SEEDS = st.integers(0, 2**32 - 1)
N_FEATURES, N_LABELS, DIM = 3, 4, 4
GRAPH = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]], dtype=torch.bool)


class ThreeTokens(nn.Module):
    """A user's encoder: three tokens per row, answered as a pair or, with padding, as a triple."""

    def __init__(self, in_dim, padded=False):
        super().__init__()
        self.mean, self.log_variance = nn.Linear(in_dim, 3 * DIM), nn.Linear(in_dim, 3 * DIM)
        self.padded = padded

    def forward(self, x):
        pair = self.mean(x).unflatten(-1, (3, DIM)), self.log_variance(x).unflatten(-1, (3, DIM)) - 1
        if not self.padded:
            return pair
        mask = torch.stack([torch.ones_like(x[:, 0]), x[:, 0], x[:, 1]], 1) > 0
        return *pair, mask


def labels_of(n_rows, seed=0):
    labels = (normal(n_rows, N_LABELS, seed=seed) > 0).double()
    labels[normal(n_rows, N_LABELS, seed=seed + 1) > 1] = NAN
    return labels


def network_of(seed=0, encoder=None, has_base=False, **changes):
    own = None if encoder is None else ThreeTokens(N_FEATURES, padded=encoder == "padded")
    config = small_config(dim=DIM, **changes)
    return scrambled(HotVAE(N_FEATURES, N_LABELS, config, GRAPH, own, has_base=has_base), seed).eval(), config


ENCODERS = pytest.mark.parametrize("encoder", [None, "three", "padded"])


# Training pass --------------------------------------------------------------------------------------------


@ENCODERS
def test_forward__both_branches_in_one_batch__equals_each_decoded_by_itself(encoder):
    network, _ = network_of(encoder=encoder)
    features, labels = normal(5, N_FEATURES), labels_of(5)
    torch.manual_seed(3)
    output = network(features, labels)
    torch.manual_seed(3)
    noise = torch.randn(10, 1 if encoder is None else 3, DIM, dtype=torch.float64)
    feature = encode(network.feature_encoder, features)
    label = encode(network.label_encoder, code_labels(labels))
    close(output.feature.layer_logits, network.decoder(sample(feature, noise[:5]), feature.mask), 1e-12)
    close(output.label.layer_logits, network.decoder(sample(label, noise[5:, :1])), 1e-12)
    close(output.feature.posterior.mean, feature.mean, 0)
    close(output.label.posterior.mean, label.mean, 0)
    assert output.label.posterior.mean.shape == (5, 1, DIM)


@pytest.mark.parametrize("latent_dim", [0, 7])
def test_forward__one_token_each__equals_loops(latent_dim):
    network, config = network_of(latent_dim=latent_dim, direct_path=True)
    features, labels = normal(3, N_FEATURES), labels_of(3)
    torch.manual_seed(3)
    output = network(features, labels)
    torch.manual_seed(3)
    noise = torch.randn(6, 1, latent_dim or DIM, dtype=torch.float64).tolist()
    coded = [[0.0 if math.isnan(y) else 2 * y - 1 for y in row] for row in labels.tolist()]
    for row in range(3):
        for branch, encoder, inputs, draw in (
            (output.feature, network.feature_encoder, features[row].tolist(), noise[row][0]),
            (output.label, network.label_encoder, coded[row], noise[3 + row][0]),
        ):
            mean, log_variance = loops.mlp(encoder, inputs)
            token = [m + e * math.exp(v / 2) for m, v, e in zip(mean, log_variance, draw, strict=True)]
            close(branch.layer_logits[:, row], loops.decoder(network.decoder, config, [token]))


def test_forward__label_branch__never_sees_the_features():
    """Paper note P8; nor does the feature branch see the labels."""
    network, _ = network_of()
    features = normal(5, N_FEATURES).requires_grad_()
    output = network(features, labels_of(5))
    gradient = torch.autograd.grad(output.label.layer_logits.sum(), features, retain_graph=True, allow_unused=True)[0]
    assert gradient is None or (gradient == 0).all()
    assert (torch.autograd.grad(output.feature.layer_logits.sum(), features)[0] != 0).any()
    torch.manual_seed(1)
    first = network(features, labels_of(5, seed=1)).feature.layer_logits
    torch.manual_seed(1)
    close(network(features, labels_of(5, seed=2)).feature.layer_logits, first, 0)


def test_forward__called_twice__draws_new_noise():
    network, _ = network_of()
    features, labels = normal(5, N_FEATURES), labels_of(5)
    first, second = (network(features, labels).feature.layer_logits for _ in range(2))
    assert not torch.equal(first, second)


def test_forward__every_parameter__receives_a_gradient():
    network, _ = network_of(encoder="three")
    output = network(normal(8, N_FEATURES), labels_of(8))
    weights = normal(2, 8, N_LABELS, seed=9)
    ((output.feature.layer_logits + output.label.layer_logits) * weights).sum().backward()
    silent = [name for name, parameter in network.named_parameters() if not parameter.grad.abs().sum() > 0]
    assert silent == []


def test_hotvae__one_token_on_both_sides__needs_no_query_for_tokens():
    """Paper note P16, and its limit: one encoder with several tokens brings the query back."""
    single, _ = network_of()
    several, _ = network_of(encoder="three")
    assert single.decoder.layers[0].feature_message.query is None
    assert several.decoder.layers[0].feature_message.query is not None


def test_hotvae__initial_logits__start_the_predictions():
    """With the read-out and the direct path at zero a new network predicts the prevalences."""
    logits = torch.tensor([-2.0, 0.0, 1.0, 3.0])
    network = HotVAE(N_FEATURES, N_LABELS, small_config(dim=DIM), initial_logits=logits)
    for parameter in (network.decoder.weight, network.decoder.direct.weight):
        nn.init.zeros_(parameter)
    close(network.predict(torch.randn(2, N_FEATURES)), logits.sigmoid().expand(2, -1), 1e-6)


@pytest.mark.parametrize("wanted", [("bce", "intermediate", "ranking", "kl"), ("bce", "kl"), ("ranking",)])
def test_loss__wanted_terms__are_those_of_the_pass_and_no_others(wanted):
    config = small_config(dim=DIM)
    network = scrambled(HotVAE(N_FEATURES, N_LABELS, config, wanted=wanted)).eval()
    features, labels = normal(5, N_FEATURES), labels_of(5)
    torch.manual_seed(3)
    terms = network.loss(features, labels)
    torch.manual_seed(3)
    expected = hotvae_terms(network(features, labels), labels, wanted)
    assert tuple(terms) == wanted
    assert all(torch.equal(terms[name], expected[name]) for name in wanted)


# Prediction (paper note P7) -------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ["three", "padded"])
def test_predict__three_tokens__equals_loops(encoder):
    network, config = network_of(encoder=encoder)
    features = normal(4, N_FEATURES)
    posterior = encode(network.feature_encoder, features)
    actual = network.predict(features)
    for row in range(4):
        mask = None if posterior.mask is None else posterior.mask[row].tolist()
        logits = loops.decoder(network.decoder, config, posterior.mean[row].tolist(), mask)[-1]
        close(actual[row], [loops.sigmoid(score) for score in logits])


def test_predict__one_token__equals_loops():
    network, config = network_of()
    features = normal(4, N_FEATURES)
    expected = []
    for row in features.tolist():
        mean, _ = loops.mlp(network.feature_encoder, row)
        expected.append([loops.sigmoid(score) for score in loops.decoder(network.decoder, config, [mean])[-1]])
    close(network.predict(features), expected)


@settings(max_examples=10, deadline=None)
@given(
    seed=SEEDS,
    encoder=st.sampled_from([None, "three", "padded"]),
    order=st.permutations(range(6)),
    n_companions=st.integers(0, 5),
)
def test_predict__other_rows__do_not_matter(seed, encoder, order, n_companions):
    """Rows in another order give predictions in that order; fewer companions change nothing."""
    network, _ = network_of(seed, encoder)
    features = normal(6, N_FEATURES, seed=seed)
    whole = network.predict(features)
    close(network.predict(features[order]), whole[order], 1e-12)
    close(network.predict(features[: n_companions + 1]), whole[: n_companions + 1], 1e-12)


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(seed=SEEDS, order=st.permutations(range(N_LABELS)))
def test_hotvae__labels_permuted__permutes_both_branches(seed, order):
    network, config = network_of(seed)
    permuted = HotVAE(N_FEATURES, N_LABELS, config, GRAPH[order][:, order]).double().eval()
    weights = network.state_dict() | {"decoder.graph": GRAPH[order][:, order]}
    for name in ("embedding", "weight", "bias", "direct.weight"):
        weights[f"decoder.{name}"] = weights[f"decoder.{name}"][order]
    weights["label_encoder.hidden.0.weight"] = weights["label_encoder.hidden.0.weight"][:, order]
    permuted.load_state_dict(weights)
    features, labels = normal(3, N_FEATURES, seed=seed), labels_of(3, seed=seed)
    close(permuted.predict(features), network.predict(features)[:, order])
    torch.manual_seed(1)
    before = network(features, labels)
    torch.manual_seed(1)
    after = permuted(features, labels[:, order])
    close(after.feature.layer_logits, before.feature.layer_logits[..., order])
    close(after.label.layer_logits, before.label.layer_logits[..., order])


@ENCODERS
def test_predict__not_training__is_deterministic(encoder):
    """With both kinds of dropout set, predictions vary while training and not afterwards."""
    network, _ = network_of(encoder=encoder, encoder_dropout=0.3, decoder_dropout=0.3)
    features = normal(4, N_FEATURES)
    assert torch.equal(network.predict(features), network.predict(features))
    network.train()
    assert not torch.equal(network.predict(features), network.predict(features))


# Without a label decoder ----------------------------------------------------------------------------------


def test_plain_net__any_rows__is_a_linear_readout_of_the_latent_mean():
    network = scrambled(PlainNet(N_FEATURES, N_LABELS, small_config(dim=DIM))).eval()
    features = normal(5, N_FEATURES)
    expected = [loops.linear(network.readout, loops.mlp(network.feature_encoder, row)[0]) for row in features.tolist()]
    close(network(features), expected)
    close(network.predict(features), [[loops.sigmoid(score) for score in row] for row in expected])


def test_plain_net__padded_tokens__reads_the_mean_of_the_real_ones():
    own = ThreeTokens(N_FEATURES, padded=True)
    network = scrambled(PlainNet(N_FEATURES, N_LABELS, small_config(dim=DIM), own)).eval()
    features = normal(5, N_FEATURES)
    mean, _, mask = own(features)
    pooled = [loops.token_mean(m, real) for m, real in zip(mean.tolist(), mask.tolist(), strict=True)]
    close(network(features), [loops.linear(network.readout, row) for row in pooled])


def test_plain_net__initial_logits__start_the_bias():
    network = PlainNet(N_FEATURES, 2, small_config(dim=DIM), initial_logits=torch.tensor([-1.0, 2.0]))
    assert network.readout.bias.tolist() == [-1.0, 2.0]


def test_plain_net__loss__is_the_cross_entropy():
    network, features, labels = PlainNet(N_FEATURES, N_LABELS, small_config()).double(), normal(5, 3), labels_of(5)
    terms = network.loss(features, labels)
    assert list(terms) == ["bce"]
    close(terms["bce"], bce_loss(network(features), labels), 0)


def test_plain_net__settings__build_the_encoder_of_hotvae():
    config = small_config(dim=DIM)
    plain, full = PlainNet(N_FEATURES, N_LABELS, config), HotVAE(N_FEATURES, N_LABELS, config)
    assert isinstance(plain.feature_encoder, MLPEncoder)
    assert str(plain.feature_encoder) == str(full.feature_encoder)


def test_gaussian__from_a_custom_encoder__is_what_the_branch_keeps():
    network, _ = network_of(encoder="padded")
    posterior = network(normal(5, N_FEATURES), labels_of(5)).feature.posterior
    assert isinstance(posterior, Gaussian)
    assert posterior.mask.shape == (5, 3)


# Tokens of texts, sets and labels -------------------------------------------------------------------------


def test_forward__label_tokens__ragged_on_both_sides_equals_each_row_by_itself():
    """J of 3 and 1, K of 2 and 1 (no positive label): rows decoded alone, without padding, give the same logits."""
    config = small_config(dim=DIM, label_encoder="tokens")
    own = TokenEncoder(9, config, ordered=True)
    network = scrambled(HotVAE(9, N_LABELS, config, GRAPH, feature_encoder=own)).eval()
    tokens, labels = torch.tensor([[3, 8, 2], [5, 0, 0]]), torch.tensor([[1, 0, 1, NAN], [0, NAN, 0, 0]]).double()
    torch.manual_seed(3)
    output = network(tokens, labels)
    torch.manual_seed(3)
    noise = torch.randn(4, 3, DIM, dtype=torch.float64)
    for row, (n_words, n_labels) in enumerate([(3, 2), (1, 1)]):
        word = encode(own, tokens[row : row + 1, :n_words])
        label = encode(network.label_encoder, code_labels(labels[row : row + 1]))
        alone = network.decoder(sample(word, noise[row : row + 1, :n_words]))
        close(output.feature.layer_logits[:, row : row + 1], alone, 1e-12)
        alone = network.decoder(sample(label, noise[2 + row : 3 + row, :n_labels]))
        close(output.label.layer_logits[:, row : row + 1], alone, 1e-12)
        ragged = aligned_kl(label, word)
        close(aligned_kl(output.label.posterior, output.feature.posterior)[row : row + 1], ragged, 1e-12)


@pytest.mark.parametrize("ordered", [False, True])
def test_predict__more_padding__changes_nothing(ordered):
    config = small_config(dim=DIM)
    for network in (
        HotVAE(9, N_LABELS, config, GRAPH, feature_encoder=TokenEncoder(9, config, ordered)),
        PlainNet(9, N_LABELS, config, TokenEncoder(9, config, ordered)),
    ):
        scrambled(network).eval()
        few = torch.tensor([[3, 8, 2], [5, 0, 0]])
        close(network.predict(torch.nn.functional.pad(few, (0, 5))), network.predict(few), 1e-12)


# Base logits ----------------------------------------------------------------------------------------------


def test_forward__base_logits__are_weighed_and_added_to_both_branches_after_every_layer():
    network, _ = network_of(has_base=True)
    features, labels, base_logits = normal(5, N_FEATURES), labels_of(5), normal(5, N_LABELS, seed=7)
    outputs = []
    for base in (base_logits, None):
        torch.manual_seed(3)
        outputs.append(network(features, labels, base))
    for branch in ("feature", "label"):
        added, bare = (getattr(output, branch).layer_logits for output in outputs)
        assert bare.shape == (2, 5, N_LABELS)
        close(added, bare + network.base.scale * base_logits, 1e-12)


def test_predict__base_logits__are_added_exactly_at_the_start():
    """Scales start at 1: the logits are those of the base plus the network's own."""
    network, _ = network_of(has_base=True)
    nn.init.ones_(network.base.scale)
    features, base_logits = normal(5, N_FEATURES), normal(5, N_LABELS, seed=7)
    own = network.decoder(network.feature_encoder(features).mean)[-1]
    assert torch.equal(network.predict(features, base_logits), torch.sigmoid(own + base_logits))
    assert torch.equal(network.predict(features), torch.sigmoid(own))


def test_loss__base_logits__teach_their_scale():
    network, _ = network_of(has_base=True)
    network.loss(normal(5, N_FEATURES), labels_of(5), normal(5, N_LABELS, seed=7))["bce"].sum().backward()
    assert (network.base.scale.grad != 0).all()


def test_initial_logits__with_base_logits__are_of_no_account():
    logits, config = torch.tensor([-2.0, 0.0, 1.0, 3.0]), small_config(dim=DIM)
    network = HotVAE(N_FEATURES, N_LABELS, config, initial_logits=logits, has_base=True)
    plain = PlainNet(N_FEATURES, N_LABELS, config, initial_logits=logits, has_base=True)
    assert network.decoder.bias.tolist() == plain.readout.bias.tolist() == [0.0] * N_LABELS
    assert network.base.scale.tolist() == plain.base.scale.tolist() == [1.0] * N_LABELS


def test_plain_net__base_logits__are_weighed_and_added():
    network = scrambled(PlainNet(N_FEATURES, N_LABELS, small_config(dim=DIM), has_base=True)).eval()
    features, base_logits = normal(5, N_FEATURES), normal(5, N_LABELS, seed=7)
    expected = network(features) + network.base.scale * base_logits
    close(network(features, base_logits), expected, 1e-12)
    close(network.predict(features, base_logits), expected.sigmoid(), 1e-12)
    labels = labels_of(5)
    close(network.loss(features, labels, base_logits)["bce"], bce_loss(expected, labels), 1e-12)
