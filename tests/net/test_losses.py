"""Loss terms by hand and by loops; labels that were not observed weigh nothing."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hotvae.net.latent import Gaussian, aligned_kl
from hotvae.net.losses import Branch, HotVAEOutput, bce_loss, hotvae_terms, intermediate_loss, ranking_loss
from hotvae.net.model import HotVAE
from tests.net import loops
from tests.net.loops import close, normal, scrambled, small_config

NAN = math.nan
SEEDS = st.integers(0, 2**32 - 1)
ALL_TERMS = ("bce", "intermediate", "ranking", "kl")


def labels_of(n_rows, n_labels, seed=0, missing=0.3):
    """Labels of all kinds: the first row unobserved, the second all present, the third all absent."""
    labels = (normal(n_rows, n_labels, seed=seed) > 0).double()
    labels[normal(n_rows, n_labels, seed=seed + 1).abs() < missing] = NAN
    for row, value in enumerate([NAN, 1.0, 0.0]):
        labels[row] = value
    return labels


def two_layers(first, last):
    return torch.tensor([[first], [last]], dtype=torch.float64)


def hand_output():
    """Two labels, two layers; logits ln 3 and -ln 3 are probabilities 3/4 and 1/4."""
    log3 = math.log(3)
    label = Gaussian(torch.tensor([[[0.0, 1.0]]]).double(), torch.tensor([[[0.0, math.log(4)]]]).double())
    feature = Gaussian(torch.zeros(1, 1, 2).double(), torch.zeros(1, 1, 2).double())
    return HotVAEOutput(
        feature=Branch(feature, two_layers([0.0, 0.0], [log3, -log3])),
        label=Branch(label, two_layers([-log3, 0.0], [0.0, log3])),
    )


# Cross entropy (Eq. 15-16) --------------------------------------------------------------------------------


def test_bce_loss__three_labels__matches_hand_calculation():
    """p = 3/4 present: -ln 3/4; p = 3/4 absent: -ln 1/4; the third is not observed.

    (0.287682 + 1.386294) / 2 = 0.836988, divided by two observed labels and not by three.
    """
    logits = torch.tensor([[math.log(3), math.log(3), 100.0]])
    assert bce_loss(logits, torch.tensor([[1.0, 0.0, NAN]])).item() == pytest.approx(0.836988, abs=1e-6)


def test_bce_loss__extreme_logits__stay_finite():
    """A logit of 1000 against an absent label costs 1000."""
    assert bce_loss(torch.tensor([[1000.0]]), torch.tensor([[0.0]])).item() == 1000


def test_bce_loss__any_labels__equals_loops():
    logits, labels = 3 * normal(8, 5), labels_of(8, 5)
    close(
        bce_loss(logits, labels),
        [loops.bce(*row) for row in zip(logits.tolist(), labels.tolist(), strict=True)],
    )


def test_intermediate_loss__three_layers__adds_all_but_the_last():
    """One present label; p = 1/2, 3/4 and, last, 1/4: ln 2 + ln 4/3 = 0.693147 + 0.287682 = 0.980829."""
    logits = torch.tensor([[[0.0]], [[math.log(3)]], [[-math.log(3)]]])
    assert intermediate_loss(logits, torch.ones(1, 1)).item() == pytest.approx(0.980829, abs=1e-6)


def test_intermediate_loss__one_layer__is_zero():
    assert intermediate_loss(torch.randn(1, 3, 2), torch.ones(3, 2)).tolist() == [0, 0, 0]


def test_intermediate_loss__any_labels__equals_loops():
    logits, labels = 3 * normal(4, 8, 5), labels_of(8, 5)
    expected = [loops.intermediate(logits[:, row].tolist(), labels[row].tolist()) for row in range(8)]
    close(intermediate_loss(logits, labels), expected)


# Ranking (Eq. 17, paper notes P2 and P3) ------------------------------------------------------------------


def test_ranking_loss__three_labels__matches_hand_calculation():
    """a = 2; present p = 0.5; absent p = 0.5 and 0.

    (exp(-2 * 0) + exp(-2 * 0.5)) / (2 * 1 * 2) = (1 + 0.367879) / 4 = 0.341970.
    """
    loss = ranking_loss(torch.tensor([[0.5, 0.5, 0.0]]), torch.tensor([[1.0, 0.0, 0.0]]), scale=2.0)
    assert loss.item() == pytest.approx(0.341970, abs=1e-6)


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, scale=st.floats(0.1, 10))
def test_ranking_loss__factorised__equals_the_double_sum(seed, scale):
    probs, labels = normal(8, 6, seed=seed).sigmoid(), labels_of(8, 6, seed=seed)
    expected = [loops.ranking(p, y, scale) for p, y in zip(probs.tolist(), labels.tolist(), strict=True)]
    actual = ranking_loss(probs, labels, scale)
    assert actual.tolist() == pytest.approx(expected, rel=1e-10)


@settings(max_examples=15, deadline=None)
@given(seed=SEEDS)
def test_ranking_loss__gradient__pulls_present_up_and_pushes_absent_down(seed):
    probs = normal(1, 4, seed=seed).sigmoid().requires_grad_()
    ranking_loss(probs, torch.tensor([[1.0, 1.0, 0.0, 0.0]]).double()).sum().backward()
    assert (probs.grad[0, :2] < 0).all()
    assert (probs.grad[0, 2:] > 0).all()


def test_ranking_loss__more_labels_of_a_kind__stays_an_average():
    """Copies of the labels multiply the pairs, not the loss."""
    probs, labels = torch.tensor([[0.9, 0.2, 0.4]]), torch.tensor([[1.0, 0.0, 0.0]])
    close(ranking_loss(probs.repeat(1, 5), labels.repeat(1, 5)), ranking_loss(probs, labels), 1e-6)


@pytest.mark.parametrize("labels", [[1.0, 1.0], [0.0, 0.0], [1.0, NAN], [NAN, 0.0], [NAN, NAN]])
def test_ranking_loss__no_pair__is_zero(labels):
    assert ranking_loss(torch.tensor([[0.3, 0.8]]), torch.tensor([labels])).tolist() == [0]


# All terms (Eq. 18) ---------------------------------------------------------------------------------------


def test_hotvae_terms__two_labels__matches_hand_calculation():
    """Labels (1, 0). Last layer: features (3/4, 1/4), labels (1/2, 3/4). First: (1/2, 1/2) and (1/4, 1/2).

    bce: features -ln 3/4 twice, mean 0.287682; labels (ln 2 + ln 4) / 2 = 1.039721: 1.327403.
    intermediate: features ln 2 = 0.693147; labels (ln 4 + ln 2) / 2 = 1.039721: 1.732868.
    ranking, a = 5: exp(-5 * 0.5) / 5 = 0.016417 and exp(5 * 0.25) / 5 = 0.698069: 0.714486.
    kl: label N((0, 1), (1, 4)) from feature N(0, 1): 0.5 * (4 - 1 - ln 4 + 1) = 1.306853.
    """
    terms = hotvae_terms(hand_output(), torch.tensor([[1.0, 0.0]]).double(), ALL_TERMS)
    expected = {"bce": 1.327403, "intermediate": 1.732868, "ranking": 0.714486, "kl": 1.306853}
    assert {name: term.item() for name, term in terms.items()} == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("left_out", ALL_TERMS)
def test_hotvae_terms__not_wanted__is_not_computed(left_out):
    labels, wanted = torch.tensor([[1.0, 0.0]]).double(), {*ALL_TERMS} - {left_out}
    terms, whole = (hotvae_terms(hand_output(), labels, names) for names in (wanted, ALL_TERMS))
    assert set(terms) == wanted
    assert all(torch.equal(terms[name], whole[name]) for name in wanted)


def test_hotvae_terms__several_tokens__equals_loops():
    n_rows, n_labels = 6, 5
    labels = labels_of(n_rows, n_labels)
    branches = [
        Branch(
            Gaussian(*normal(2, n_rows, n_tokens, 4, seed=n_tokens)),
            2 * normal(3, n_rows, n_labels, seed=n_tokens),
        )
        for n_tokens in (3, 2)
    ]
    terms = hotvae_terms(HotVAEOutput(*branches), labels, ALL_TERMS)
    for row, own in enumerate(labels.tolist()):
        logits = [branch.layer_logits[:, row].tolist() for branch in branches]
        probs = [[loops.sigmoid(score) for score in layers[-1]] for layers in logits]
        pooled = [
            loops.pool(b.posterior.mean[row].tolist(), b.posterior.log_variance[row].tolist(), None) for b in branches
        ]
        expected = {
            "bce": sum(loops.bce(layers[-1], own) for layers in logits),
            "intermediate": sum(loops.intermediate(layers, own) for layers in logits),
            "ranking": sum(loops.ranking(p, own, 5.0) for p in probs),
            "kl": 0.0 if all(map(math.isnan, own)) else loops.kl(*pooled[1], *pooled[0]),
        }
        assert {name: term[row].item() for name, term in terms.items()} == pytest.approx(expected, rel=1e-10)


def test_hotvae_terms__kl__is_of_the_label_branch_from_the_feature_branch():
    output = hand_output()
    actual = hotvae_terms(output, torch.tensor([[1.0, 0.0]]).double(), ALL_TERMS)["kl"]
    close(actual, aligned_kl(output.label.posterior, output.feature.posterior))
    assert abs(actual - aligned_kl(output.feature.posterior, output.label.posterior)).item() > 0.1


# Labels that were not observed ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("hidden", range(4))
def test_hotvae_terms__label_never_observed__gets_exactly_no_gradient(seed, hidden):
    """Neither its read-out nor the column by which the label encoder reads it; the other labels' are used."""
    network = scrambled(HotVAE(3, 4, small_config(direct_path=True)), seed)
    labels = torch.tensor([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]]).double()
    labels[:, hidden] = NAN
    others = [label for label in range(4) if label != hidden]
    for name, term in hotvae_terms(network(normal(3, 3, seed=seed), labels), labels, ALL_TERMS).items():
        network.zero_grad()
        term.sum().backward(retain_graph=True)
        read = network.label_encoder.hidden[0].weight.grad
        assert (read[:, hidden] == 0).all(), name
        assert (read[:, others] != 0).any(0).all(), name
        if name == "kl":
            continue
        for parameter in (network.decoder.weight, network.decoder.bias, network.decoder.direct.weight):
            assert (parameter.grad[hidden] == 0).all(), name
            assert (parameter.grad[others] != 0).all(), name


@settings(max_examples=15, deadline=None)
@given(seed=SEEDS)
def test_losses__unobserved_cell__has_zero_gradient_whatever_its_score(seed):
    labels = labels_of(6, 5, seed=seed)
    missing = labels.isnan()
    for loss in (bce_loss, ranking_loss):
        scores = normal(6, 5, seed=seed + 2).sigmoid().requires_grad_()
        loss(scores, labels).sum().backward()
        assert (scores.grad[missing] == 0).all()
        moved = torch.where(missing, 0.123, scores.detach())
        close(loss(moved, labels), loss(scores.detach(), labels), 0)


@settings(max_examples=15, deadline=None)
@given(seed=SEEDS, place=st.integers(0, 5))
def test_losses__unobserved_column_added__changes_nothing(seed, place):
    scores, labels = normal(3, 6, 5, seed=seed).sigmoid(), labels_of(6, 5, seed=seed)

    def widen(table, column):
        return torch.cat([table[..., :place], column, table[..., place:]], -1)

    wide_scores = widen(scores, normal(3, 6, 1, seed=seed + 3).sigmoid())
    wide_labels = widen(labels, torch.full((6, 1), NAN, dtype=torch.float64))
    close(bce_loss(wide_scores[0], wide_labels), bce_loss(scores[0], labels), 1e-13)
    close(ranking_loss(wide_scores[0], wide_labels), ranking_loss(scores[0], labels), 1e-13)
    close(intermediate_loss(wide_scores, wide_labels), intermediate_loss(scores, labels), 1e-13)


def test_hotvae_terms__row_without_observed_label__is_zero_in_every_term():
    network = scrambled(HotVAE(3, 4, small_config()))
    labels = torch.tensor([[NAN] * 4, [1.0, 0.0, NAN, 1.0]]).double()
    terms = hotvae_terms(network(normal(2, 3), labels), labels, ALL_TERMS)
    assert set(terms) == {"bce", "intermediate", "ranking", "kl"}
    for term in terms.values():
        assert term[0].item() == 0
        assert term[1].item() > 0
    network.zero_grad()
    sum(term[0] for term in terms.values()).backward()
    assert all(parameter.grad is None or (parameter.grad == 0).all() for parameter in network.parameters())
