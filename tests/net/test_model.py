"""The whole network: two branches through one decoder, predictions that know nothing of their batch."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from hotvae.errors import ConfigError
from hotvae.net.conditional import split_labels
from hotvae.net.encoders import MLPEncoder, TokenEncoder, code_labels, encode
from hotvae.net.latent import Gaussian, aligned_kl, sample
from hotvae.net.losses import bce_loss, hotvae_terms
from hotvae.net.model import HotVAE, LabelBranch, PlainNet
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


@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("wanted", [("bce", "intermediate", "ranking", "kl"), ("bce", "kl"), ("ranking",)])
def test_loss__wanted_terms__are_those_of_the_pass_and_no_others(wanted, conditional):
    config = small_config(dim=DIM, conditional=conditional)
    network = scrambled(HotVAE(N_FEATURES, N_LABELS, config, wanted=wanted)).eval()
    features, labels = normal(5, N_FEATURES), labels_of(5)
    torch.manual_seed(3)
    terms = network.loss(features, labels)
    torch.manual_seed(3)
    expected = hotvae_terms(network(features, labels), labels, wanted)
    assert tuple(terms) == wanted
    assert all(torch.equal(terms[name], expected[name]) for name in wanted)


def test_begin_epoch__direct_epochs__labels_pass_messages_after_them():
    """The read-out of states starts at zero, so that messages add exactly nothing when they set in."""
    network = HotVAE(N_FEATURES, N_LABELS, small_config(dim=DIM), direct_epochs=2)
    assert not network.decoder.weight.any()
    n_layers = []
    for epoch in (1, 2, 3, None):
        network.begin_epoch(epoch)
        n_layers.append(len(network(torch.zeros(1, N_FEATURES), torch.ones(1, N_LABELS)).feature.layer_logits))
    assert n_layers == [1, 1, 2, 2]
    assert HotVAE(N_FEATURES, N_LABELS, small_config(dim=DIM)).decoder.weight.all()


def test_hotvae__direct_epochs_without_direct_path__are_refused():
    with pytest.raises(ConfigError, match=r"^direct_epochs must be 0 without direct_path; got 2\. Set"):
        HotVAE(N_FEATURES, N_LABELS, small_config(dim=DIM, direct_path=False), direct_epochs=2)


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


@pytest.mark.parametrize("conditional", [False, True])
def test_predict__base_logits__are_added_exactly_at_the_start(conditional):
    """Scales start at 1: the logits are those of the base plus the network's own."""
    network, _ = network_of(has_base=True, conditional=conditional)
    nn.init.ones_(network.base.scale)
    features, base_logits = normal(5, N_FEATURES), normal(5, N_LABELS, seed=7)
    own = network.decoder(network.feature_encoder(features).mean)[-1]
    assert torch.equal(network.predict(features, base_logits), torch.sigmoid(own + base_logits))
    assert torch.equal(network.predict(features), torch.sigmoid(own))


@pytest.mark.parametrize("conditional", [False, True])
def test_loss__base_logits__teach_their_scale(conditional):
    network, _ = network_of(has_base=True, conditional=conditional)
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


# Given labels ---------------------------------------------------------------------------------------------


GIVEN = torch.tensor([[1.0, NAN, 0.0, NAN], [NAN, NAN, NAN, NAN], [0.0, 1.0, 1.0, NAN]]).double()


def hand_network():
    """Two labels whose logits are ln 3 and 0 whatever the features; given labels speak through the direct path alone.

    The surprise of the first label, times 8, is added to the logit of the second.
    """
    config = small_config(dim=2, n_heads=1, n_layers=1, conditional=True, label_encoder_widths=())
    network = HotVAE(1, 2, config).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        network.decoder.bias[0] = math.log(3)
        network.label_encoder.direct.weight[1, 0] = 8.0
    return network


def looped_given(network, config, latent, noise, given_labels, base):
    """Logits of one row from its features and then with given labels, after every layer; slowly."""
    mean, log_variance = latent

    def decoded(mean, log_variance, draw):
        token = [m + e * math.exp(v / 2) for m, v, e in zip(mean, log_variance, draw, strict=True)]
        layers = loops.decoder(network.decoder, config, [token])
        return [[score + b for score, b in zip(layer, base, strict=True)] for layer in layers]

    alone = decoded(mean, log_variance, noise[0])
    probs = [loops.sigmoid(score) for score in alone[-1]]
    to_mean, to_log_variance, to_logits = loops.evidence(network.label_encoder, mean, probs, given_labels)
    moved_mean = [m + change for m, change in zip(mean, to_mean, strict=True)]
    moved = [min(max(v + change, -12.0), 8.0) for v, change in zip(log_variance, to_log_variance, strict=True)]
    together = decoded(moved_mean, moved, noise[1])
    return alone, [[score + change for score, change in zip(layer, to_logits, strict=True)] for layer in together]


def test_forward_given__two_labels__matches_hand_calculation(monkeypatch):
    """Logits ln 3 and 0: p = 3/4 and 1/2. Given is the first label; what it says is added to the second's logit.

    Row 1, the first present: surprise 1 - 3/4, times 8, is 2. Row 2, absent: surprise -3/4, times 8, is -6.
    """
    given_labels = torch.tensor([[1.0, NAN], [0.0, NAN]]).double()
    target = torch.tensor([[NAN, 0.0], [NAN, 0.0]]).double()
    monkeypatch.setattr("hotvae.net.model.split_labels", lambda labels: (given_labels, target))
    network, labels = hand_network(), torch.tensor([[1.0, 0.0], [0.0, 0.0]]).double()
    output = network(torch.zeros(2, 1).double(), labels)
    log3 = math.log(3)
    close(output.feature.layer_logits, [[[log3, 0.0], [log3, 0.0]]], 1e-12)
    close(output.label.layer_logits, [[[log3, 2.0], [log3, -6.0]]], 1e-12)
    # Features: (ln 4/3 + ln 2) / 2 and (ln 4 + ln 2) / 2. Labels: the second, absent, ln(1 + e^2) and ln(1 + e^-6).
    close(network.loss(torch.zeros(2, 1).double(), labels)["bce"], [0.490415 + 2.126928, 1.039721 + 0.002476], 1e-6)


def test_predict_given__two_labels__matches_hand_calculation():
    """As above: a first label that is present makes the second more probable, an absent one less."""
    given_labels = torch.tensor([[1.0, NAN], [0.0, NAN], [NAN, NAN], [NAN, 1.0]]).double()
    probs = hand_network().predict_given(torch.zeros(4, 1).double(), given_labels)
    # sigmoid(2), sigmoid(-6), sigmoid(0); what is said of the first label stays 3/4.
    close(probs, [[1.0, 0.880797], [0.0, 0.002473], [0.75, 0.5], [0.75, 1.0]], 1e-6)


@pytest.mark.parametrize("has_base", [False, True])
def test_forward_given__any_row__equals_loops(has_base):
    network, config = network_of(has_base=has_base, conditional=True)
    features, labels, base_logits = normal(5, N_FEATURES), labels_of(5), normal(5, N_LABELS, seed=7)
    torch.manual_seed(3)
    output = network(features, labels, base_logits)
    torch.manual_seed(3)
    given_labels, target = split_labels(labels)
    noise = torch.stack([torch.randn(5, DIM, dtype=torch.float64) for _ in range(2)], 1).tolist()
    base = (network.base.scale * base_logits).tolist() if has_base else [[0.0] * N_LABELS] * 5
    for row in range(5):
        latent = loops.mlp(network.feature_encoder, features[row].tolist())
        alone, together = looped_given(network, config, latent, noise[row], given_labels[row].tolist(), base[row])
        close(output.feature.layer_logits[:, row], alone)
        close(output.label.layer_logits[:, row], together)
    close(torch.nan_to_num(output.target, nan=-1.0), torch.nan_to_num(target, nan=-1.0), 0)
    feature = network.feature_encoder(features)
    probs = output.feature.layer_logits[-1].sigmoid()
    moved = network.label_encoder(feature, probs, given_labels).move(feature)
    close(output.label.posterior.mean, moved.mean, 1e-12)
    close(output.label.posterior.log_variance, moved.log_variance, 1e-12)


@pytest.mark.parametrize("has_base", [False, True])
def test_predict_given__any_row__equals_loops(has_base):
    network, config = network_of(has_base=has_base, conditional=True)
    features, base_logits = normal(3, N_FEATURES), normal(3, N_LABELS, seed=7)
    actual = network.predict_given(features, GIVEN, base_logits)
    base = (network.base.scale * base_logits).tolist() if has_base else [[0.0] * N_LABELS] * 3
    still = [[0.0] * DIM] * 2
    for row, given_labels in enumerate(GIVEN.tolist()):
        latent = loops.mlp(network.feature_encoder, features[row].tolist())
        _, together = looped_given(network, config, latent, still, given_labels, base[row])
        expected = [
            loops.sigmoid(score) if math.isnan(y) else y for y, score in zip(given_labels, together[-1], strict=True)
        ]
        close(actual[row], expected)


def test_terms__label_branch__answers_only_for_what_it_was_not_given():
    network, _ = network_of(conditional=True)
    features, labels = normal(6, N_FEATURES), (normal(6, N_LABELS, seed=3) > 0).double()
    output = network(features, labels)
    terms = hotvae_terms(output, labels, ("bce",))
    feature, label = output.feature.layer_logits[-1], output.label.layer_logits[-1]
    close(terms["bce"], bce_loss(feature, labels) + bce_loss(label, output.target), 1e-12)
    is_given = torch.isnan(output.target)
    gradient = torch.autograd.grad(terms["bce"].sum(), output.label.layer_logits)[0][-1]
    assert is_given.any()
    assert (gradient[is_given] == 0).all()
    assert (gradient[~is_given] != 0).all()


def test_terms__label_branch__does_not_teach_the_feature_encoder():
    """Being given labels must not make the features say less by themselves; nor does the KL pull them anywhere."""
    network, _ = network_of(conditional=True)
    features, labels = normal(6, N_FEATURES), (normal(6, N_LABELS, seed=3) > 0).double()
    output = network(features, labels)
    encoder = list(network.feature_encoder.parameters())
    through_label = torch.autograd.grad(output.label.layer_logits.sum(), encoder, retain_graph=True, allow_unused=True)
    assert all(gradient is None or (gradient == 0).all() for gradient in through_label)
    kl = aligned_kl(output.label.posterior, output.feature.posterior).sum()
    mean_head = network.feature_encoder.head.mean.weight
    assert torch.autograd.grad(kl, mean_head)[0].abs().max() < 1e-12


@ENCODERS
def test_predict_given__some_labels__given_come_back_and_the_rest_moves(encoder):
    network, _ = network_of(encoder=encoder, conditional=True)
    features = normal(3, N_FEATURES)
    alone, together = network.predict(features), network.predict_given(features, GIVEN)
    is_given = ~torch.isnan(GIVEN)
    assert torch.equal(together[is_given], GIVEN[is_given])
    assert torch.equal(together[1], alone[1])
    assert (together[0, ~is_given[0]] != alone[0, ~is_given[0]]).all()


@ENCODERS
def test_predict_given__other_rows__do_not_matter(encoder):
    network, _ = network_of(encoder=encoder, conditional=True)
    features = normal(3, N_FEATURES)
    together = network.predict_given(features, GIVEN)
    for row in range(3):
        close(network.predict_given(features[row : row + 1], GIVEN[row : row + 1])[0], together[row], 1e-12)


def test_predict_given__paper_branch__is_refused():
    network = HotVAE(N_FEATURES, N_LABELS, small_config(dim=DIM))
    assert not network.conditional
    with pytest.raises(ConfigError, match="given must go with a network trained for it"):
        network.predict_given(torch.zeros(1, N_FEATURES), torch.zeros(1, N_LABELS))


def test_hotvae__tokens_of_labels__are_refused_with_given_labels():
    with pytest.raises(ConfigError, match="label_encoder must be 'mlp' while conditional is True; got 'tokens'"):
        HotVAE(N_FEATURES, N_LABELS, small_config(conditional=True, label_encoder="tokens"))


def test_hotvae__given_labels__have_the_tokens_of_the_features():
    """The given labels move the one token of the features: no query is needed."""
    network, _ = network_of(conditional=True)
    assert network.conditional
    assert network.decoder.layers[0].feature_message.query is None


# The label branch alone -----------------------------------------------------------------------------------


def test_label_branch__two_labels__matches_hand_calculation(monkeypatch):
    """As above, at the latent mean: the second label, absent, at a logit of 2 costs ln(1 + e^2)."""
    monkeypatch.setattr(
        "hotvae.net.model.split_labels",
        lambda labels: (torch.tensor([[1.0, NAN]]).double(), torch.tensor([[NAN, 0.0]]).double()),
    )
    terms = LabelBranch(hand_network()).loss(torch.zeros(1, 1).double(), torch.tensor([[1.0, 0.0]]).double())
    assert list(terms) == ["bce"]
    close(terms["bce"], [2.126928], 1e-6)


def test_label_branch__loss__teaches_the_label_encoder_alone():
    network, _ = network_of(has_base=True, conditional=True)
    branch = LabelBranch(network)
    branch.loss(normal(6, N_FEATURES), labels_of(6), normal(6, N_LABELS, seed=7))["bce"].sum().backward()
    for name, parameter in network.named_parameters():
        if not name.startswith("label_encoder."):
            assert parameter.grad is None, name
        elif not name.startswith("label_encoder.log_variance."):  # what is drawn does not count here
            assert parameter.grad.abs().max() > 0, name


def test_label_branch__while_training__drops_units_of_the_label_encoder_only():
    network, _ = network_of(conditional=True, encoder_dropout=0.5, decoder_dropout=0.5, label_encoder_widths=(64,))
    branch = LabelBranch(network).train()
    assert network.label_encoder.training
    assert not network.feature_encoder.training
    assert not network.decoder.training
    features = normal(3, N_FEATURES)
    assert torch.equal(branch.predict(features), branch.predict(features))
    assert not torch.equal(branch.predict_given(features, GIVEN), branch.predict_given(features, GIVEN))
    assert not branch.eval().network.label_encoder.training


def test_label_branch__predictions__are_those_of_the_network():
    network, _ = network_of(has_base=True, conditional=True)
    branch, features, base_logits = LabelBranch(network).eval(), normal(3, N_FEATURES), normal(3, N_LABELS, seed=7)
    assert torch.equal(branch.predict(features, base_logits), network.predict(features, base_logits))
    expected = network.predict_given(features, GIVEN, base_logits)
    assert torch.equal(branch.predict_given(features, GIVEN, base_logits), expected)
