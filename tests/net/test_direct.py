"""The direct network: starts at the prevalences, and its gradient is that of the cross entropy."""

import pytest
import torch

from hotvae.net.direct import DirectNet


def test_direct_net__no_hidden_layer_by_hand__linear_map():
    net = DirectNet(2, 1, (), initial_logits=torch.tensor([0.5]))
    with torch.no_grad():
        net.layers[-1].weight.copy_(torch.tensor([[1.0, -2.0]]))
    assert net(torch.tensor([[3.0, 1.0]])).item() == pytest.approx(1.5)
    assert net.predict(torch.tensor([[3.0, 1.0]])).item() == pytest.approx(0.817574, abs=1e-6)


def test_direct_net__loss__mean_over_observed_labels():
    """Logit 0 costs ln 2 whatever the label; a gap costs nothing."""
    net = DirectNet(1, 2, (), initial_logits=torch.zeros(2))
    with torch.no_grad():
        net.layers[-1].weight.zero_()
    terms = net.loss(torch.ones(2, 1), torch.tensor([[1.0, 0.0], [1.0, float("nan")]]))
    assert terms["bce"].tolist() == pytest.approx([0.693147, 0.693147], abs=1e-6)


def test_direct_net__hidden_layers__dropout_only_while_training():
    net = DirectNet(3, 2, (64, 64), dropout=0.5).eval()
    x = torch.ones(1, 3)
    assert torch.equal(net(x), net(x))
    net.train()
    assert not torch.equal(net(x), net(x))
