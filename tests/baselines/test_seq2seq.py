"""seq2seq: the beam against every set there is, teacher forcing against single steps; order from training rows."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from hotvae.baselines.seq2seq import Beam, Seq2Seq, Seq2SeqNet
from hotvae.net.encoders import MLPEncoder, encode
from tests.net.loops import close, normal, scrambled

SEEDS = st.integers(0, 2**32 - 1)
LOGITS = torch.tensor([-1.0, 2.0, 0.0, 1.0])  # frequent to rare: labels 1, 3, 2, 0
EVERY_SET = torch.tensor(list(itertools.product([0.0, 1.0], repeat=4)), dtype=torch.float64)


class PaddedTokens(nn.Module):
    """Two tokens per row, the second of which is padding where the first feature is negative."""

    def __init__(self):
        super().__init__()
        self.mean = nn.Linear(3, 8)

    def forward(self, x):
        mean = self.mean(x).unflatten(-1, (2, 4))
        return mean, torch.zeros_like(mean), torch.stack([torch.ones_like(x[:, 0]), x[:, 0]], 1) > 0


def network_of(seed=0, beam_width=16, encoder=None, has_base=False):
    encoder = MLPEncoder(3, (5,), 4) if encoder is None else encoder
    network = Seq2SeqNet(encoder, 4, 4, 6, beam_width, initial_logits=LOGITS, has_base=has_base)
    return scrambled(network, seed).eval()


def exhaustive(network, row, base_logits=None):
    """Log-probability of each of the 16 sets."""
    base_logits = None if base_logits is None else base_logits.expand(16, -1)
    return -network(row.expand(16, -1), EVERY_SET, base_logits).detach()


def by_single_steps(network, row, base=None):
    """The same, one step after the other; ``base`` is of choices."""
    tokens = encode(network.feature_encoder, row)
    found = []
    for wanted in EVERY_SET:
        state = torch.tanh(network.start(tokens.mean[:, 0])).unsqueeze(0)
        sequence = [place for place in range(4) if wanted[network.order[place]] == 1]
        last, total = 4, 0.0
        for place in [*sequence, 4]:
            follow, state = network.step(torch.tensor([[last]]), state, tokens, base)
            total += follow[0, 0, place].item()
            last = place
        found.append(total)
    return torch.tensor(found, dtype=torch.float64)


# The order -------------------------------------------------------------------------------------------------


def test_order__by_training_frequency__frequent_labels_first_ties_in_column_order():
    assert network_of().order.tolist() == [1, 3, 2, 0]
    tied = Seq2SeqNet(MLPEncoder(3, (), 4), 3, 4, 4, 1, initial_logits=torch.tensor([0.5, 1.0, 0.5]))
    assert tied.order.tolist() == [1, 0, 2]


def test_step__after_a_label__only_rarer_ones_or_the_end():
    network = network_of()
    tokens = encode(network.feature_encoder, normal(1, 3))
    follow, _ = network.step(torch.tensor([[4, 1, 3]]), torch.zeros(1, 1, 6, dtype=torch.float64), tokens)
    assert follow[0, 0].isfinite().tolist() == [True] * 5  # from the beginning everything, the end too
    assert follow[0, 1].isfinite().tolist() == [False, False, True, True, True]
    assert follow[0, 2].tolist() == [-math.inf] * 4 + [0.0]  # after the rarest label nothing can come
    close(follow.exp().sum(-1), torch.ones(1, 3), 1e-12)


# Teacher forcing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("padded", [False, True])
def test_forward__all_sets_of_a_row__probabilities_sum_to_one(padded):
    network = network_of(encoder=PaddedTokens() if padded else None)
    row = normal(1, 3, seed=4)
    nll = network(row.expand(16, -1), EVERY_SET)
    assert torch.exp(-nll).sum().item() == pytest.approx(1.0, abs=1e-12)


def test_forward__teacher_forcing__equals_single_steps():
    network, row = network_of(), normal(1, 3)
    close(exhaustive(network, row), by_single_steps(network, row), 1e-12)


def test_forward__a_row__does_not_depend_on_longer_companions():
    network, features = network_of(), normal(3, 3)
    labels = torch.tensor([[0.0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 1, 0]], dtype=torch.float64)
    alone = torch.cat([network(features[i : i + 1], labels[i : i + 1]) for i in range(3)])
    close(network(features, labels), alone, 1e-12)


# The beam --------------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(seed=SEEDS)
def test_search__beam_as_wide_as_all_sets__equals_exhaustive_search(seed):
    network, row = network_of(seed, beam_width=16), normal(1, 3, seed=seed)
    expected = exhaustive(network, row)
    beam = network.search(row)
    close(beam.log_probs[0], expected.sort(descending=True).values, 1e-10)
    close(beam.members[0].double(), EVERY_SET[expected.argsort(descending=True)], 0)
    close(network.predict(row)[0], expected.exp() @ EVERY_SET, 1e-10)


def test_search__narrow_beam__true_probabilities_and_mostly_the_best_set():
    """What a narrow beam finds is real, never twice the same, and over 40 networks nearly always holds the best set."""
    hits = 0
    for seed in range(40):
        network, row = network_of(seed, beam_width=4), normal(1, 3, seed=seed)
        expected = exhaustive(network, row)
        beam = network.search(row)
        places = (beam.members[0].double() @ torch.tensor([8.0, 4.0, 2.0, 1.0], dtype=torch.float64)).long()
        assert len(set(places.tolist())) == 4
        close(beam.log_probs[0], expected[places], 1e-10)
        hits += int(places[0] == expected.argmax())
    assert hits >= 38


def test_search__width_one__is_greedy():
    network, rows = network_of(beam_width=1), normal(6, 3)
    for row, members in zip(rows.unsqueeze(1), network.search(rows).members[:, 0], strict=True):
        tokens = encode(network.feature_encoder, row)
        state, last, chosen = torch.tanh(network.start(tokens.mean[:, 0])).unsqueeze(0), 4, set()
        while True:
            follow, state = network.step(torch.tensor([[last]]), state, tokens)
            last = int(follow[0, 0].argmax())
            if last == 4:
                break
            chosen.add(int(network.order[last]))
        assert set(members.nonzero().flatten().tolist()) == chosen


def test_search__end_first__the_empty_set_can_win():
    network = network_of()
    with torch.no_grad():
        network.readout.bias[4] = 50.0
    assert network.predict(normal(5, 3)).max() < 1e-12


@pytest.mark.parametrize("padded", [False, True])
def test_predict__a_row__does_not_depend_on_its_companions(padded):
    network, rows = network_of(beam_width=3, encoder=PaddedTokens() if padded else None), normal(5, 3)
    alone = torch.cat([network.predict(rows[i : i + 1]) for i in range(5)])
    close(network.predict(rows), alone, 1e-12)


def test_marginals__by_hand__sets_that_hold_a_label_and_prevalence_for_the_rest():
    """Sets {a, b} and {b} of .3 and .1 leave .6: a has .3 + .6 * .5 = .6, b has .4 + .6 * .1 = .46."""
    members = torch.tensor([[[True, True], [False, True], [True, False]]])
    beam = Beam(members, torch.tensor([[0.3, 0.1, 0.0]]).log())
    close(beam.marginals(torch.tensor([0.5, 0.1])), [[0.6, 0.46]], 1e-6)


def test_marginals__one_certain_set__no_label_is_ever_certain():
    beam = Beam(torch.tensor([[[True, False]]]), torch.tensor([[0.0]]))
    probs = beam.marginals(torch.tensor([0.5, 0.5]))
    assert probs[0, 0] < 1
    assert probs[0, 1] > 0


def test_gradient__of_the_loss__reaches_the_encoder():
    network = network_of()
    terms = network.loss(normal(3, 3), EVERY_SET[[3, 7, 12]])
    assert list(terms) == ["sequence"]
    terms["sequence"].sum().backward()
    assert network.feature_encoder.head.mean.weight.grad.abs().max() > 0


# Base logits ------------------------------------------------------------------------------------------------


def test_base_logits__weighed_and_in_order__count_wherever_their_label_may_follow():
    """Labels stand in the order 1, 3, 2, 0; the end has no base."""
    network, row, base_logits = network_of(has_base=True), normal(1, 3), normal(1, 4, seed=7)
    weighed = (network.base.scale * base_logits)[0].tolist()
    choices = torch.tensor([[weighed[1], weighed[3], weighed[2], weighed[0], 0.0]], dtype=torch.float64)
    expected = by_single_steps(network, row, choices)
    close(exhaustive(network, row, base_logits), expected, 1e-12)
    assert expected.exp().sum().item() == pytest.approx(1.0, abs=1e-12)
    assert (expected - by_single_steps(network, row)).abs().max() > 0.1


def test_search__base_logits__equals_exhaustive_search_in_every_row():
    network, rows, base_logits = network_of(has_base=True), normal(3, 3), normal(3, 4, seed=7)
    beam, probs = network.search(rows, base_logits), network.predict(rows, base_logits)
    for row in range(3):
        expected = exhaustive(network, rows[row : row + 1], base_logits[row : row + 1])
        close(beam.log_probs[row], expected.sort(descending=True).values, 1e-10)
        close(probs[row], expected.exp() @ EVERY_SET, 1e-10)


def test_base_logits__of_the_loss__teach_their_scale():
    network = network_of(has_base=True)
    network.loss(normal(3, 3), EVERY_SET[[3, 7, 12]], normal(3, 4, seed=7))["sequence"].sum().backward()
    assert (network.base.scale.grad != 0).all()


# The classifier -------------------------------------------------------------------------------------------


SMALL = {
    "dim": 16,
    "decoder_dim": 32,
    "encoder_widths": (32,),
    "encoder_dropout": 0.0,
    "decoder_dropout": 0.0,
    "learning_rate": 0.01,
    "n_threads": 1,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def either_or():
    """Two labels of which every row has exactly one, at random; a third follows the feature."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 1))
    first = rng.random(400) < 0.5
    return X, np.column_stack([first, ~first, X[:, 0] > -1]).astype(int)


def test_order__learned_from_training_rows__survives_the_file(either_or, tmp_path):
    X, Y = either_or
    model = Seq2Seq.from_settings(**SMALL, max_epochs=1, validation_fraction=0.0).fit(X, Y)
    expected = np.argsort(-Y.sum(axis=0), kind="stable")
    assert model.network_.order.tolist() == expected.tolist()
    model.save(tmp_path / "model")
    assert Seq2Seq.load(tmp_path / "model").network_.order.tolist() == expected.tolist()


@pytest.mark.slow
def test_either_or__joint_model__never_both_and_never_none(either_or):
    """Marginals are one half each, but the sets found hold exactly one of the two."""
    X, Y = either_or
    model = Seq2Seq.from_settings(**SMALL, max_epochs=12).fit(X, Y)
    with torch.inference_mode():
        beam = model.network_.search(torch.from_numpy(model._read(X[:50]).features))
    weights = beam.log_probs.exp()
    exactly_one = beam.members[..., 0] != beam.members[..., 1]
    assert (weights * exactly_one).sum(-1).min() > 0.97
    assert np.abs(model.predict_proba(X)[:, 0] - 0.5).max() < 0.2


def test_beam_width__wider__changes_the_search_and_not_the_weights(either_or):
    X, Y = either_or
    narrow, wide = (
        Seq2Seq.from_settings(**SMALL, max_epochs=2, beam_width=width, validation_fraction=0.0).fit(X, Y)
        for width in (1, 8)
    )
    for name, value in narrow.network_.state_dict().items():
        np.testing.assert_array_equal(value, wide.network_.state_dict()[name])
    assert not np.array_equal(narrow.predict_proba(X), wide.predict_proba(X))
