"""C2AE: two codes that meet, and a loss that stays away from the features."""

import math

import pytest
import torch

from hotvae.net.c2ae import C2AENet, alignment_loss, orthogonality_loss
from hotvae.net.encoders import encode
from hotvae.net.losses import bce_loss, ranking_loss
from tests.net.loops import close, normal, scrambled

NAN = math.nan


def network_of(seed=0):
    return scrambled(C2AENet(5, 4, 3, (6,), (6,), (6,)), seed)


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
    network = C2AENet(5, 2, 3, (), (), (), initial_logits=torch.tensor([1.0, -2.0]))
    close(network.decoder[-1].bias.detach(), [1.0, -2.0], 0)
