"""Encoders: perceptrons and tokens by hand and by loops, the coding of labels, and the forms an answer may take."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from hotvae.errors import ConfigError
from hotvae.net.encoders import (
    LOG_VARIANCE_RANGE,
    GaussianHead,
    LabelTokens,
    MLPEncoder,
    TokenEncoder,
    code_labels,
    encode,
    make_encoder,
    make_label_encoder,
    places,
    positive_tokens,
)
from hotvae.net.latent import Gaussian, pool
from tests.net import loops
from tests.net.loops import close, mlp, normal, scrambled, small_config

NAN = math.nan


class Answer(nn.Module):
    """An encoder that gives a fixed answer."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def forward(self, _inputs):
        return self.answer


def test_mlp_encoder__two_features__matches_hand_calculation():
    """x = (2, 1); hidden weights (1, -1) and (-1, 0), bias (0, 1): relu(1) = 1, relu(-1) = 0.

    Mean: 3 * 1 + 5 * 0 + 0.5 = 3.5. Log-variance: -1 * 1 + 7 * 0 + 0.25 = -0.75.
    """
    encoder = MLPEncoder(2, (2,), dim=1).double()
    with torch.no_grad():
        encoder.hidden[0].weight.copy_(torch.tensor([[1.0, -1.0], [-1.0, 0.0]]))
        encoder.hidden[0].bias.copy_(torch.tensor([0.0, 1.0]))
        encoder.head.mean.weight.copy_(torch.tensor([[3.0, 5.0]]))
        encoder.head.mean.bias.fill_(0.5)
        encoder.head.log_variance.weight.copy_(torch.tensor([[-1.0, 7.0]]))
        encoder.head.log_variance.bias.fill_(0.25)
    posterior = encoder(torch.tensor([[2.0, 1.0]]).double())
    close(posterior.mean, [[[3.5]]], 1e-12)
    close(posterior.log_variance, [[[-0.75]]], 1e-12)
    assert posterior.mask is None


@pytest.mark.parametrize("widths", [(), (6,), (6, 5, 4)])
def test_mlp_encoder__any_widths__equals_loops(widths):
    encoder, rows = scrambled(MLPEncoder(3, widths, dim=2)), normal(4, 3, seed=1)
    posterior = encoder(rows)
    expected = [mlp(encoder, row) for row in rows.tolist()]
    close(posterior.mean, [[mean] for mean, _ in expected])
    close(posterior.log_variance, [[log_variance] for _, log_variance in expected])


def test_mlp_encoder__says_one_token_and_gives_one():
    assert MLPEncoder.n_tokens == 1
    assert MLPEncoder(3, (4,), dim=2)(torch.zeros(5, 3)).mean.shape == (5, 1, 2)


def test_mlp_encoder__dropout__acts_while_training_only():
    encoder, rows = MLPEncoder(3, (64,), dim=2, dropout=0.5), torch.ones(2, 3)
    assert not torch.equal(encoder(rows).mean, encoder(rows).mean)
    encoder.eval()
    assert torch.equal(encoder(rows).mean, encoder(rows).mean)


def test_gaussian_head__at_the_start__has_the_initial_log_variance():
    """The log-variance starts at its bias: exactly so for hidden units of zero, nearly so for others."""
    head = GaussianHead(16, 3, initial_log_variance=-2.5)
    close(head(torch.zeros(2, 1, 16)).log_variance, torch.full((2, 1, 3), -2.5), 0)
    close(head(torch.ones(2, 1, 16)).log_variance, torch.full((2, 1, 3), -2.5), 0.2)


@pytest.mark.parametrize(("start", "bound"), [(-1e6, LOG_VARIANCE_RANGE[0]), (1e6, LOG_VARIANCE_RANGE[1])])
def test_gaussian_head__extreme_log_variance__stays_in_range(start, bound):
    posterior = GaussianHead(2, 3, initial_log_variance=start)(torch.zeros(1, 1, 2))
    close(posterior.log_variance, torch.full((1, 1, 3), bound), 0)
    assert posterior.log_variance.exp().isfinite().all()


def test_code_labels__present_absent_unobserved__are_plus_minus_and_zero():
    assert code_labels(torch.tensor([[1.0, 0.0, NAN], [NAN, 1.0, 0.0]])).tolist() == [[1, -1, 0], [0, 1, -1]]


def test_encode__gaussian__comes_back_as_it_is():
    posterior = Gaussian(torch.zeros(2, 1, 3), torch.zeros(2, 1, 3))
    assert encode(Answer(posterior), torch.zeros(2, 5)) is posterior


def test_encode__pair__becomes_a_gaussian_without_mask():
    mean, log_variance = torch.ones(2, 3, 4), torch.full((2, 3, 4), -1.0)
    posterior = encode(Answer((mean, log_variance)), torch.zeros(2, 5))
    assert posterior.mean is mean
    assert posterior.log_variance is log_variance
    assert posterior.mask is None


def test_encode__triple__keeps_the_mask():
    mask = torch.tensor([[True, False], [True, True]])
    posterior = encode(Answer((torch.zeros(2, 2, 4), torch.ones(2, 2, 4), mask)), torch.zeros(2, 5))
    assert posterior.mask is mask


def test_encode__more_tokens_than_promised__is_refused():
    class Liar(torch.nn.Module):
        n_tokens = 1

        def forward(self, x):
            return torch.zeros(len(x), 3, 2), torch.zeros(len(x), 3, 2)

    with pytest.raises(ConfigError, match=r"as many tokens as its n_tokens says \(1\); got 3 \(Liar\)"):
        encode(Liar(), torch.zeros(4, 5))


# Tokens ---------------------------------------------------------------------------------------------------

ROWS = [[3, 8, 2, 5], [7], [2, 6, 4]]


def padded(rows, width):
    return torch.tensor([row + [0] * (width - len(row)) for row in rows])


def token_encoder(ordered=False, **changes):
    return scrambled(TokenEncoder(9, small_config(**changes), ordered)).eval()


def looped(encoder, config, row, listens=None):
    """Mean and log-variance of each token of one row, slowly."""
    vectors = encoder.embedding.weight.tolist()
    states = [list(vectors[number]) for number in row]
    if encoder.ordered and listens is None:
        half = config.dim // 2
        for place, state in enumerate(states):
            for wave in range(half):
                angle = place * 10_000 ** (-wave / half)
                state[wave] += math.sin(angle)
                state[half + wave] += math.cos(angle)
    for layer in encoder.layers:
        one, two = layer.residuals
        collect = partial(loops.label_message, layer, graph=listens, n_heads=config.n_heads)
        states = loops.residual(one, states, collect)
        digest = partial(loops.feedforward, layer.feedforward)
        states = loops.residual(two, states, lambda u, digest=digest: [digest(x) for x in u])
    head = encoder.head
    clamp = [[min(max(v, -12.0), 8.0) for v in loops.linear(head.log_variance, state)] for state in states]
    return [loops.linear(head.mean, state) for state in states], clamp


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("changes", [{}, {"encoder_layers": 0}, {"encoder_layers": 3}])
def test_token_encoder__ragged_rows__equal_loops_and_so_do_their_pooled_gaussians(ordered, changes):
    encoder, config = token_encoder(ordered, **changes), small_config(**changes)
    posterior = encoder(padded(ROWS, 4))
    pooled_mean, pooled_variance = pool(posterior)
    for number, row in enumerate(ROWS):
        mean, log_variance = looped(encoder, config, row)
        close(posterior.mean[number, : len(row)], mean)
        close(posterior.log_variance[number, : len(row)], log_variance)
        expected_mean, expected_variance = loops.pool(mean, log_variance, None)
        close(pooled_mean[number], expected_mean)
        close(pooled_variance[number], expected_variance)
    assert posterior.mask.tolist() == [[True] * 4, [True, False, False, False], [True, True, True, False]]


@pytest.mark.parametrize("ordered", [False, True])
@given(n_more=st.integers(1, 9))
@settings(deadline=None, max_examples=10)
def test_token_encoder__more_padding__changes_nothing(ordered, n_more):
    encoder = token_encoder(ordered)
    few, many = encoder(padded(ROWS, 4)), encoder(padded(ROWS, 4 + n_more))
    close(many.mean[:, :4], few.mean, 1e-12)
    close(pool(many)[1], pool(few)[1], 1e-12)
    assert many.mean.isfinite().all()
    assert not many.mask[:, 4:].any()


@pytest.mark.slow
@given(order=st.permutations(range(4)))
@settings(deadline=None, max_examples=20)
def test_token_encoder__tokens_in_another_order__matter_to_texts_and_not_to_sets(order):
    row = torch.tensor([[3, 8, 2, 5]])
    as_set, as_text = token_encoder(False), token_encoder(True)
    close(as_set(row[:, order]).mean, as_set(row).mean[:, order], 1e-12)
    apart = (pool(as_text(row[:, order]))[0] - pool(as_text(row))[0]).abs().max()
    assert (apart > 1e-6) == (list(order) != [0, 1, 2, 3])


def test_token_encoder__padding__receives_no_gradient():
    encoder = token_encoder()
    posterior = encoder(padded(ROWS, 4))
    pool(posterior)[0].sum().backward()
    assert not encoder.embedding.weight.grad[0].any()
    assert encoder.embedding.weight.grad[3].any()


def test_token_encoder__bonds__equal_loops_and_reach_as_far_as_layers():
    """A chain 1-2-3-4: after 2 rounds the first token depends on the third, and not on the fourth."""
    chain = torch.tensor([[[3, 2, 0], [8, 1, 3], [2, 2, 4], [5, 3, 0]]])
    encoder, config = token_encoder(ordered=True, encoder_layers=2), small_config()
    graph = [[abs(i - j) <= 1 for j in range(4)] for i in range(4)]
    posterior = encoder(chain)
    mean, log_variance = looped(encoder, config, [3, 8, 2, 5], graph)
    close(posterior.mean[0], mean)
    close(posterior.log_variance[0], log_variance)
    posterior.mean[0, 0].sum().backward()
    reached = encoder.embedding.weight.grad.abs().sum(1) > 0
    assert reached.nonzero().flatten().tolist() == [2, 3, 8], "token 5 stands three bonds away"


def test_token_encoder__bonds_and_padding__changes_nothing():
    encoder = token_encoder()
    chain = torch.tensor([[[3, 2, 0], [8, 1, 0]]])
    more = torch.nn.functional.pad(chain, (0, 0, 0, 3))
    close(encoder(more).mean[:, :2], encoder(chain).mean, 1e-12)
    assert encoder(more).mask.tolist() == [[True, True, False, False, False]]


def test_places__odd_width__is_cut():
    assert places(3, 5, like=torch.zeros(1)).shape == (3, 5)


# The label branch -----------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.sampled_from([1.0, 0.0, NAN]), min_size=5, max_size=5), min_size=1, max_size=6))
@settings(deadline=None)
def test_positive_tokens__any_labels__equal_a_loop(rows):
    expected = [[i + 2 for i, label in enumerate(row) if label == 1] or [1] for row in rows]
    width = max(map(len, expected))
    found = positive_tokens(code_labels(torch.tensor(rows)))
    assert found.tolist() == [row + [0] * (width - len(row)) for row in expected]


def test_label_tokens__rows__have_a_gaussian_per_positive_label():
    encoder = scrambled(LabelTokens(4, small_config())).eval()
    labels = torch.tensor([[1, 0, 1, NAN], [0, 0, 0, 0], [NAN, NAN, 1, NAN]]).double()
    posterior = encoder(code_labels(labels))
    assert posterior.mask.tolist() == [[True, True], [True, False], [True, False]]
    for number, row in enumerate([[2, 4], [1], [4]]):
        mean, log_variance = looped(encoder.tokens, small_config(), row)
        close(posterior.mean[number, : len(row)], mean)
        close(posterior.log_variance[number, : len(row)], log_variance)


def test_label_tokens__not_observed__is_as_good_as_absent():
    encoder = scrambled(LabelTokens(3, small_config())).eval()
    gaps, absent = (code_labels(torch.tensor([row]).double()) for row in ([1, NAN, NAN], [1, 0, 0]))
    close(encoder(gaps).mean, encoder(absent).mean, 0)


# Makers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gives", "cls", "ordered"),
    [("numbers", MLPEncoder, None), ("tokens", TokenEncoder, False), ("ordered tokens", TokenEncoder, True)],
)
def test_make_encoder__what_rows_have_become__decides_about_the_encoder(gives, cls, ordered):
    encoder = make_encoder(gives, 9, small_config())
    assert type(encoder) is cls
    assert getattr(encoder, "ordered", None) is ordered


def test_make_encoder__settings__reach_the_encoder():
    config = small_config(encoder_widths=(7, 5), latent_dim=3, encoder_dropout=0.25, initial_log_variance=-2.5)
    plain, tokens = make_encoder("numbers", 9, config), make_encoder("tokens", 9, config)
    assert [layer.weight.shape for layer in plain.hidden if isinstance(layer, nn.Linear)] == [(7, 9), (5, 7)]
    assert {layer.p for layer in plain.hidden if isinstance(layer, nn.Dropout)} == {0.25}
    assert tokens.embedding.weight.shape == (9, config.dim)
    assert tokens.dropout.p == tokens.layers[0].residuals[0].dropout.rate == 0.25
    for encoder in (plain, tokens):
        assert encoder.head.mean.out_features == 3
        assert encoder.head.log_variance.bias.tolist() == [-2.5] * 3


def test_make_label_encoder__kinds__and_their_widths():
    plain = make_label_encoder(5, small_config(encoder_widths=(7,), label_encoder_widths=(6,)))
    assert type(plain) is MLPEncoder
    assert plain.hidden[0].weight.shape == (6, 5)
    tokens = make_label_encoder(5, small_config(label_encoder="tokens"))
    assert type(tokens) is LabelTokens
    assert tokens.tokens.embedding.num_embeddings == 7, "padding, no label at all, and five labels"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda x: None, "got NoneType"),
        (lambda x: x, "got Tensor"),
        (lambda x: (x, x), r"got shapes \[\(4, 3\), \(4, 3\)\]"),
        (lambda x: (x[:, None], x[:1, None]), r"got shapes \[\(4, 1, 3\), \(1, 1, 3\)\]"),
        (lambda x: (x[:2, None], x[:2, None]), r"with a batch of 4; got shapes \[\(2, 1, 3\)"),
        (lambda x: (x[:, None].long(), x[:, None].long()), "two float tensors"),
        (lambda x: (x[:, None], "x"), r"got shapes \[\(4, 1, 3\)\]"),
    ],
)
def test_encode__answer_of_another_kind__is_told_what_it_should_be(answer, words):
    class Own(torch.nn.Module):
        def forward(self, x):
            return answer(x)

    with pytest.raises(ConfigError, match=f"encoder must return mean and log_variance.*{words}"):
        encode(Own(), torch.ones(4, 3))


def test_encode__latent_of_another_width__is_told_both():
    class Own(torch.nn.Module):
        def forward(self, x):
            return x[:, None], x[:, None]

    with pytest.raises(ConfigError, match=r"tokens of 8 numbers, as wide as the latent space; got 3 \(Own\)"):
        encode(Own(), torch.ones(4, 3), 8)
