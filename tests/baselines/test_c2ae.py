"""C2AE: two codes that meet, and a loss that stays away from the features; the width of its code."""

import math

import numpy as np
import pytest
import torch

from hotvae.baselines.c2ae import C2AE, C2AENet, alignment_loss, orthogonality_loss
from hotvae.config import NetConfig
from hotvae.metrics import log_loss
from hotvae.net.encoders import encode
from hotvae.net.losses import bce_loss, ranking_loss
from tests.net.loops import close, normal, scrambled

NAN = math.nan


def _config(*widths):
    return NetConfig(encoder_widths=widths, label_encoder_widths=widths, encoder_dropout=0.0)


def network_of(seed=0, has_base=False):
    return scrambled(C2AENet(5, 4, 3, _config(6), (6,), has_base=has_base), seed)


def labels_of(n_rows):
    return (normal(n_rows, 4, seed=9) > 0).double()


def gradients(part):
    return [parameter.grad for parameter in part.parameters()]


@pytest.mark.parametrize(
    "loss", [lambda logits, y: ranking_loss(logits.sigmoid(), y), bce_loss], ids=["ranking", "bce"]
)
def test_output_loss__on_the_feature_encoder__gradient_is_exactly_zero(loss):
    network, features = network_of(), normal(8, 5).requires_grad_()
    output = network(features, labels_of(8))
    # alignment at weight 0 puts the feature encoder into the graph: its gradients exist, and are zeros
    (loss(output.logits, labels_of(8)).sum() + 0 * alignment_loss(output.feature, output.label).sum()).backward()
    assert all((gradient == 0).all() for gradient in gradients(network.feature_encoder))
    assert (features.grad == 0).all()
    assert all(gradient.abs().max() > 0 for gradient in gradients(network.decoder))
    assert all(gradient.abs().max() > 0 for gradient in gradients(network.label_encoder))


def test_alignment_loss__trains_both_encoders__not_the_decoder():
    network = network_of()
    output = network(normal(8, 5), labels_of(8))
    alignment_loss(output.feature, output.label).sum().backward()
    assert all(gradient.abs().max() > 0 for gradient in gradients(network.feature_encoder))
    assert all(gradient.abs().max() > 0 for gradient in gradients(network.label_encoder))
    assert gradients(network.decoder) == [None] * 4


def test_predict__reads_the_feature_code_with_the_decoder_of_the_label_code():
    network, features = network_of().eval(), normal(3, 5)
    code = encode(network.feature_encoder, features).mean[:, 0]
    close(network.predict(features), network.decoder(code).sigmoid(), 0)
    labels = labels_of(3)
    close(network(features, labels).logits, network.decoder(network.label_encoder(2 * labels - 1)), 0)


def test_orthogonality_loss__by_hand__second_moments_minus_identity():
    """Codes (2, 0) and (0, 0): moments ((2, 0), (0, 0)), so (2 - 1)^2 + (0 - 1)^2 = 2."""
    code = torch.tensor([[2.0, 0.0], [0.0, 0.0]])
    close(orthogonality_loss(code, torch.ones(2)), [2.0, 2.0], 1e-12)


def test_orthogonality_loss__batch_repeated__stays_the_same():
    code = normal(6, 3)
    once, twice = (orthogonality_loss(part, torch.ones(len(part)).double()) for part in (code, code.repeat(2, 1)))
    close(once, twice[:6], 1e-12)


def test_orthogonality_loss__rows_that_do_not_count__have_no_part():
    code = normal(6, 3)
    counted = torch.tensor([1.0, 1, 0, 1, 0, 1], dtype=torch.float64)
    kept = orthogonality_loss(code[counted > 0], torch.ones(4).double())
    close(orthogonality_loss(code, counted), counted * kept[0], 1e-12)


def test_forward__label_not_observed__is_coded_between_present_and_absent():
    network = network_of()
    labels = torch.tensor([[1.0, NAN, 0.0, NAN]], dtype=torch.float64)
    coded = torch.tensor([[1.0, 0.0, -1.0, 0.0]], dtype=torch.float64)
    close(network(normal(1, 5), labels).label, network.label_encoder(coded), 0)


def test_initial_logits__start__the_bias_of_the_decoder():
    network = C2AENet(5, 2, 3, _config(), (), torch.tensor([1.0, -2.0]))
    close(network.decoder[-1].bias.detach(), [1.0, -2.0], 0)


def test_loss__terms__a_number_per_row_each():
    network, features, labels = network_of(), normal(4, 5), labels_of(4)
    labels[1] = NAN
    output, terms = network(features, labels), network.loss(features, labels)
    counted = torch.tensor([1.0, 0, 1, 1], dtype=torch.float64)
    expected = {
        "alignment": counted * alignment_loss(output.feature, output.label),
        "orthogonality": orthogonality_loss(output.feature, counted) + orthogonality_loss(output.label, counted),
        "ranking": ranking_loss(output.logits.sigmoid(), labels),
        "bce": bce_loss(output.logits, labels),
    }
    assert list(terms) == list(expected)
    for name, term in expected.items():
        close(terms[name], term, 0)
        assert terms[name][1] == 0, name


def test_loss__single_label__the_cross_entropy_takes_the_place_of_the_ranking():
    network, labels = scrambled(C2AENet(5, 1, 3, _config(), ())), torch.tensor([[1.0], [0.0]]).double()
    terms = network.loss(normal(2, 5), labels)
    assert torch.equal(terms["ranking"], terms["bce"])
    assert (terms["bce"] > 0).all()


def test_base_logits__weighed__are_added_to_what_is_read_from_either_code():
    network, features, labels = network_of(has_base=True).eval(), normal(3, 5), labels_of(3)
    base_logits = normal(3, 4, seed=7)
    weighed = network.base.scale * base_logits
    close(network(features, labels, base_logits).logits, network(features, labels).logits + weighed, 1e-12)
    code = encode(network.feature_encoder, features).mean[:, 0]
    close(network.predict(features, base_logits), (network.decoder(code) + weighed).sigmoid(), 1e-12)
    network.loss(features, labels, base_logits)["bce"].sum().backward()
    assert (network.base.scale.grad != 0).all()


def test_base_logits__at_the_start__take_the_place_of_prevalences():
    network = C2AENet(5, 2, 3, _config(), (), torch.tensor([1.0, -2.0]), has_base=True)
    assert network.decoder[-1].bias.tolist() == [0.0, 0.0]
    assert network.base.scale.tolist() == [1.0, 1.0]


# The classifier -------------------------------------------------------------------------------------------


SMALL = {
    "encoder_widths": (32,),
    "label_encoder_widths": (16,),
    "decoder_widths": (16,),
    "learning_rate": 0.01,
    "n_threads": 1,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    return X, (X @ rng.normal(size=(3, 10)) > 0).astype(int)


@pytest.mark.slow
def test_code__four_fifths_of_the_labels__as_in_the_paper(table):
    model = C2AE.from_settings(**SMALL, max_epochs=1).fit(*table)
    assert model.transform(table[0]).shape == (200, 8)
    assert list(model.get_feature_names_out()) == [f"latent_{i}" for i in range(8)]


@pytest.mark.parametrize(("n_labels", "width"), [(1, 1), (2, 2), (6, 5)])
def test_code__few_labels__at_least_one_wide(table, n_labels, width):
    model = C2AE.from_settings(**SMALL, max_epochs=1).fit(table[0], table[1][:, :n_labels])
    assert model.transform(table[0][:2]).shape == (2, width)


def test_single_label__nothing_to_rank__learned_by_cross_entropy(table):
    X, Y = table
    model = C2AE.from_settings(**SMALL, max_epochs=20).fit(X[:150], Y[:150, :1])
    assert (model.predict(X[150:]) == Y[150:, :1]).mean() > 0.85


def test_terms__weights_of_the_paper__cross_entropy_stays_out(table):
    model = C2AE.from_settings(**SMALL, bce_weight=0.0, max_epochs=2).fit(*table)
    record = model.history_.records[0]
    parts = (
        model.alignment_weight * record["loss_alignment"] + model.orthogonality_weight * record["loss_orthogonality"]
    )
    assert record["loss"] == pytest.approx(parts + model.ranking_weight * record["loss_ranking"], rel=1e-5)


def test_cross_entropy__beside_the_ranking__makes_probabilities_of_scores(table):
    X, Y = table
    losses = {
        weight: log_loss(
            Y[150:],
            C2AE.from_settings(**SMALL, bce_weight=weight, max_epochs=20).fit(X[:150], Y[:150]).predict_proba(X[150:]),
        )
        for weight in (0.0, C2AE().bce_weight)
    }
    assert losses[C2AE().bce_weight] < losses[0.0] - 0.02


def test_codes__after_training__meet(table):
    """The feature code explains most of the label code: distance far below the spread of the code."""
    model = C2AE.from_settings(**SMALL, max_epochs=30, encoder_dropout=0.0).fit(*table)
    records = model.history_.records
    assert records[-1]["loss_alignment"] < 0.4 * 8  # 8 units of second moment 1 each
    assert records[-1]["loss_orthogonality"] < records[0]["loss_orthogonality"]
