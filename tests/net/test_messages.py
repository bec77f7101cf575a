"""Messages: what news moves, by how much and how far; and that no news moves nothing."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hotvae.config import MessagesConfig
from hotvae.net.losses import bce_loss
from hotvae.net.messages import Chorus, Messages, split_labels
from tests.net.loops import close, normal, scrambled

NAN = math.nan
N_LABELS, N_FEATURES = 5, 3
ONLY_EDGES = {"n_causes": 0, "hub_width": 0, "gated": False, "dropout": 0.0}
FORMS = {
    "edges": MessagesConfig(edges="signed", n_causes=0),
    "shared edges": MessagesConfig(edges="shared", n_causes=0, n_rounds=1),
    "causes": MessagesConfig(edges="none", n_causes=2),
    "untied causes": MessagesConfig(edges="none", n_causes=2, tied=False, gated=False),
    "hub": MessagesConfig(edges="none", n_causes=0, hub_width=4),
    "all": MessagesConfig(edges="signed", n_causes=2, tied=False, hub_width=4, n_rounds=3),
}
every_form = pytest.mark.parametrize("config", FORMS.values(), ids=FORMS)


def make(config, n_labels=N_LABELS, seed=0, graph=None):
    return scrambled(Messages(n_labels, N_FEATURES, config, graph), seed).eval()


def table(n_rows=4, n_labels=N_LABELS, seed=0):
    """Base logits, features and partly known labels."""
    labels = (normal(n_rows, n_labels, seed=seed + 2) > 0).double()
    labels[normal(n_rows, n_labels, seed=seed + 3) > 0.3] = NAN
    return normal(n_rows, n_labels, seed=seed), normal(n_rows, N_FEATURES, seed=seed + 1), labels


def sigmoid(value):
    return 1 / (1 + math.exp(-value))


# Values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("known", "expected"), [(1.0, (2.0 + 0.5) * 0.75), (0.0, (2.0 - 0.5) * -0.25)])
def test_messages__two_labels_one_round__match_hand_calculation(known, expected):
    """p = 1/4 for the first label: present it is 0.75 of news, absent -0.25; E = 2 and D = 0.5 for the second.

    Presence moves it by (E + D) 0.75, absence by (E - D) (-0.25).
    """
    messages = Messages(2, 1, MessagesConfig(n_rounds=1, edges="signed", **ONLY_EDGES)).double().eval()
    with torch.no_grad():
        messages.edge[1, 0], messages.edge_difference[1, 0] = 2.0, 0.5
    base = torch.tensor([[math.log(1 / 3), -1.0]], dtype=torch.float64)
    logits = messages(base, torch.zeros(1, 1).double(), torch.tensor([[known, NAN]]).double())
    close(logits, [[[math.log(1 / 3), -1.0 + expected]]])


def test_messages__second_round__passes_on_the_belief_that_moved():
    """A chain 0 - 1 - 2: label 0 moves 1 by 0.5 in round 1; what 1 came to believe moves 2 in round 2."""
    messages = Messages(3, 1, MessagesConfig(n_rounds=2, edges="signed", **ONLY_EDGES)).double().eval()
    with torch.no_grad():
        messages.edge[1, 0], messages.edge[2, 1] = 1.0, 3.0
        messages.passing.fill_(0.7)
    base = torch.zeros(1, 3).double()
    logits = messages(base, torch.zeros(1, 1).double(), torch.tensor([[1.0, NAN, NAN]]).double())
    news = math.tanh(0.7) * (sigmoid(0.5) - 0.5)
    close(logits[0, 0], [0.0, 0.5, 0.0])
    close(logits[1, 0], [0.0, 0.5, 3.0 * news])


def test_messages__known_label_that_others_foretold__is_less_news():
    """0 and 1 known, both present; 0 tells 1, so of 1's news only 0.5 - tanh(.4)(sigmoid(.5) - .5) is left."""
    messages = Messages(3, 1, MessagesConfig(n_rounds=2, edges="signed", **ONLY_EDGES)).double().eval()
    with torch.no_grad():
        messages.edge[1, 0], messages.edge[2, 1] = 1.0, 1.0
        messages.passing_known.fill_(-0.4)
    logits = messages(torch.zeros(1, 3).double(), torch.zeros(1, 1).double(), torch.tensor([[1.0, 1.0, NAN]]).double())
    close(logits[1, 0, 2], 0.5 - math.tanh(0.4) * (sigmoid(0.5) - 0.5))


def test_messages__one_cause_and_its_gate__match_hand_calculation():
    """Senders k = (1, 2), strength 0.5, loudness 1 + tanh(0.3); label 0 known and present with p = 1/2.

    Label 1 moves by 0.5 k_1 (1 + tanh 0.3) k_0 s_0 = 0.5 (1 + tanh 0.3).
    """
    config = MessagesConfig(n_rounds=1, edges="none", n_causes=1, dropout=0.0)
    messages = Messages(2, 1, config).double().eval()
    with torch.no_grad():
        messages.send.copy_(torch.tensor([[1.0], [2.0]]))
        messages.hear.fill_(0.5)
        messages.cause_gate.weight.fill_(0.1)
    logits = messages(torch.zeros(1, 2).double(), 3 * torch.ones(1, 1).double(), torch.tensor([[1.0, NAN]]).double())
    close(logits[0, 0, 1], 0.5 * (1 + math.tanh(0.1 * 3)), 1e-7)


@every_form
def test_messages__any_form__equal_loops(config):
    messages = make(config)
    base, features, labels = table()
    found = messages(base, features, labels)
    for row in range(len(base)):
        expected = loop_rounds(messages, base[row].tolist(), features[row].tolist(), labels[row].tolist())
        close(found[:, row], expected, 1e-9)


def loop_rounds(messages, base, features, labels):
    """The equations of Messages for one row, in plain numbers."""
    config, n = messages.config, len(base)
    weights = {name: value.tolist() for name, value in messages.state_dict().items()}
    probs = [sigmoid(value) for value in base]
    known = [not math.isnan(label) for label in labels]
    first = [label - p if k else 0.0 for label, p, k in zip(labels, probs, known, strict=True)]

    def gate(name, unit):
        linear = sum(w * x for w, x in zip(weights[f"{name}.weight"][unit], features, strict=True))
        return 1 + math.tanh(linear + weights[f"{name}.bias"][unit])

    loud = [gate("cause_gate", r) if config.gated else 1.0 for r in range(config.n_causes)]
    if config.n_causes:
        send = weights["send"]
        hear = weights["hear"] * n if config.tied else weights["hear"]
        ranks = range(config.n_causes)
    news, rounds = list(first), []
    for t in range(config.n_rounds):
        logits = []
        if config.n_causes:
            causes = [loud[r] * sum(send[j][r] * news[j] for j in range(n)) for r in ranks]
        if config.hub_width:
            both = news + [float(k) for k in known]
            units = [
                max(0.0, sum(w * v for w, v in zip(row, both, strict=True))) * gate("hub_gate", h)
                for h, row in enumerate(weights["hub_in.weight"])
            ]
        for i in range(n):
            moved = 0.0
            for j in range(n):
                if i != j and config.edges == "shared":
                    moved += (weights["edge"][i][j] + weights["edge"][j][i]) / 2 * news[j]
                if i != j and config.edges == "signed":
                    moved += weights["edge"][i][j] * news[j] + weights["edge_difference"][i][j] * abs(news[j])
            if config.n_causes:
                moved += sum(hear[i][r] * (send[i][r] if config.tied else 1) * causes[r] for r in ranks)
            if config.hub_width:
                moved += sum(w * u for w, u in zip(weights["hub_out"][i], units, strict=True))
            logits.append(base[i] + moved)
        rounds.append(logits)
        if t < config.n_rounds - 1:
            for i in range(n):
                share = math.tanh(weights["passing_known" if known[i] else "passing"][t])
                news[i] = first[i] + share * (sigmoid(logits[i]) - probs[i])
    return rounds


# Properties -----------------------------------------------------------------------------------------------


@every_form
def test_messages__nothing_given__are_exactly_the_base(config):
    base, features, labels = table()
    logits = make(config)(base, features, torch.full_like(labels, NAN))
    assert all(torch.equal(after, base) for after in logits)


@every_form
def test_messages__untrained__change_nothing_whatever_is_given(config):
    base, features, labels = table()
    messages = Messages(N_LABELS, N_FEATURES, config).double().eval()
    assert all(torch.equal(after, base) for after in messages(base, features, labels))


@every_form
def test_messages__label_as_foretold__surprises_nobody(config):
    """The features are sure of label 0, and it is so: nobody moves, but for a hub that counts what is known."""
    if config.hub_width:
        pytest.skip("a hub reads which labels are known")
    base, features, labels = table()
    base[:, 0], labels[:] = 800.0, NAN
    labels[:, 0] = 1.0
    close(make(config)(base, features, labels)[-1], base, 1e-12)


@pytest.mark.parametrize("n_rounds", [1, 2, 3])
def test_messages__along_a_chain__reach_n_hops_and_no_further(n_rounds):
    """Label 0 known on a chain 0 - 1 - ... - 4: after n rounds only labels within n hops of it depend on it."""
    apart = (torch.arange(N_LABELS)[:, None] - torch.arange(N_LABELS)).abs()
    messages = make(MessagesConfig(n_rounds=n_rounds, edges="signed", **ONLY_EDGES), graph=apart <= 1)
    base, features, labels = table(1)
    labels[:] = NAN
    labels[0, 0] = 1.0
    labels.requires_grad_()
    for target in range(1, N_LABELS):
        (gradient,) = torch.autograd.grad(messages(base, features, labels)[-1, 0, target], labels)
        assert (gradient[0, 0] != 0) == (target <= n_rounds)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1))
def test_messages__permuted_labels__permuted_logits(seed):
    config = FORMS["all"]
    messages, permuted = make(config, seed=seed), make(config)
    order = torch.randperm(N_LABELS, generator=torch.Generator().manual_seed(seed))
    state = messages.state_dict()
    for name in ("edge", "edge_difference"):
        state[name] = state[name][order][:, order]
    for name in ("send", "hear", "hub_out"):
        state[name] = state[name][order]
    state["hub_in.weight"] = state["hub_in.weight"][:, torch.cat([order, N_LABELS + order])]
    permuted.load_state_dict(state)
    base, features, labels = table(seed=seed % 1000)
    close(permuted(base[:, order], features, labels[:, order]), messages(base, features, labels)[..., order], 1e-9)


@every_form
def test_messages__draws_of_rows__as_each_draw_alone(config):
    """Draws of other values go together through one pass."""
    messages, (base, features, labels) = make(config), table()
    draws = torch.stack([labels, 1 - labels])
    together = messages(base, features, draws)
    for index, draw in enumerate(draws):
        close(together[:, index], messages(base, features, draw), 1e-12)


@every_form
def test_messages__some_labels_of_the_last_round__as_among_all(config):
    """Who is not asked about after the last round is still heard in it."""
    voices, (base, features, labels) = [make(config, seed=seed) for seed in (0, 1)], table()
    draws, some = torch.stack([labels, 1 - labels]), torch.tensor([3, 0])
    for messages in (voices[0], Chorus(voices)):
        close(messages.of_labels(base, features, draws, some), messages(base, features, draws)[-1][..., some], 1e-12)


def test_messages__other_features__the_same_news_means_something_else():
    messages, (base, features, labels) = make(FORMS["causes"]), table()
    assert (messages(base, features, labels)[-1] - messages(base, -features, labels)[-1]).abs().max() > 1e-3


# Training -------------------------------------------------------------------------------------------------


def test_messages__loss__is_that_of_labels_which_were_not_given():
    """Two labels that are never both given: an edge cannot change the loss of rows without a given label."""
    messages, (base, features, _) = make(FORMS["edges"]), table()
    labels = (normal(4, N_LABELS, seed=9) > 0).double()
    labels[:, 1:] = NAN  # one observed label: it is given, and nothing is asked; or asked, and nothing is given
    terms = messages.loss(features, labels, base)
    asked = bce_loss(base, labels)
    assert ((terms["bce"] == 0) | torch.isclose(terms["bce"], asked)).all()
    assert set(terms) == {"bce", "intermediate"}


def test_messages__row_without_observed_label__has_no_loss_and_no_gradient():
    messages, (base, features, labels) = make(FORMS["all"]), table()
    terms = messages.loss(features, torch.full_like(labels, NAN), base)
    assert all((term == 0).all() for term in terms.values())


def test_messages__dropout__silences_known_labels_in_training_alone():
    messages, (base, features, labels) = make(MessagesConfig(edges="signed", n_causes=0, dropout=0.9)), table()
    before = messages(base, features, labels)
    assert torch.equal(before, messages(base, features, labels))
    messages.train()
    assert not torch.equal(before, messages(base, features, labels))


def test_messages__predictions__of_the_base_alone_and_with_given_labels_as_given():
    messages, (base, features, labels) = make(FORMS["all"]), table()
    assert torch.equal(messages.predict(features, base), base.sigmoid())
    probs = messages.predict_given(features, labels, base)
    known = ~torch.isnan(labels)
    assert torch.equal(probs[known], labels[known])
    assert torch.equal(probs[~known], messages(base, features, labels)[-1].sigmoid()[~known])


@every_form
def test_messages__from_state__are_the_same_to_the_last_bit(config):
    apart = (torch.arange(N_LABELS)[:, None] - torch.arange(N_LABELS)).abs()
    messages, (base, features, labels) = make(config, graph=apart <= 2), table()
    again = Messages.from_state(config, N_LABELS, messages.state_dict()).double()
    again.load_state_dict(messages.state_dict())  # from_state is of float32
    assert torch.equal(again(base, features, labels), messages(base, features, labels))


# Several of them ------------------------------------------------------------------------------------------


def test_chorus__two_voices__the_mean_of_what_they_say_after_each_round():
    voices, (base, features, labels) = [make(FORMS["all"], seed=seed) for seed in (0, 1)], table()
    one, other = (voice(base, features, labels) for voice in voices)
    assert not torch.allclose(one, other, atol=0.1)
    torch.testing.assert_close(Chorus(voices)(base, features, labels), (one + other) / 2)


def test_chorus__nothing_known__exactly_the_base():
    base, features, _ = table()
    chorus = Chorus([make(FORMS["all"], seed=seed) for seed in range(3)])
    assert torch.equal(chorus(base, features, torch.full_like(base, torch.nan))[-1], base)


def test_chorus__from_state__is_the_same_to_the_last_bit():
    base, features, labels = table()
    chorus = Chorus([make(FORMS["all"], seed=seed) for seed in range(3)])
    again = Chorus.from_state(FORMS["all"], N_LABELS, chorus.state_dict()).double()
    again.load_state_dict(chorus.state_dict())  # from_state is of float32
    assert torch.equal(again(base, features, labels), chorus(base, features, labels))


# Which labels are given -----------------------------------------------------------------------------------


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1))
def test_split_labels__any_labels__every_observed_one_is_given_or_a_target(seed):
    torch.manual_seed(seed)
    labels = (normal(20, 6, seed=seed) > 0).double()
    labels[normal(20, 6, seed=seed + 1) > 1] = NAN
    given_labels, target = split_labels(labels)
    observed = ~torch.isnan(labels)
    assert torch.equal(torch.isnan(given_labels) & torch.isnan(target), ~observed)
    assert not (~torch.isnan(given_labels) & ~torch.isnan(target)).any()
    assert torch.equal(torch.where(torch.isnan(given_labels), target, given_labels)[observed], labels[observed])


def test_split_labels__many_rows__shares_are_uniform():
    """Mean 1/2 and variance 1/12, and a row's labels share their share."""
    given_labels, _ = split_labels(torch.ones(20_000, 200))
    share = (~torch.isnan(given_labels)).double().mean(1)
    assert abs(share.mean().item() - 1 / 2) < 0.01
    assert abs(share.var().item() - (1 / 12 + 1 / 6 / 200)) < 0.002
