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


def test_direct_net__many_columns_that_are_zero_in_a_batch__gradients_of_the_whole_table():
    """Training leaves such columns out of the first product; the loss and every gradient stay what they were."""
    torch.manual_seed(0)
    net = DirectNet(5000, 3, (8,)).train()
    x = torch.zeros(4, 5000)
    x[torch.arange(4), torch.tensor([3, 70, 70, 4999])] = torch.tensor([1.0, -2.0, 0.5, 3.0])
    labels = torch.tensor([[1.0, 0.0, 1.0]] * 4)
    terms = net.loss(x, labels)["bce"]
    terms.sum().backward()
    found = {name: weight.grad.clone() for name, weight in net.named_parameters()}
    net.zero_grad()
    whole = torch.nn.functional.binary_cross_entropy_with_logits(net.layers(x), labels, reduction="none").mean(-1)
    whole.sum().backward()
    torch.testing.assert_close(terms, whole)
    for name, weight in net.named_parameters():
        torch.testing.assert_close(found[name], weight.grad)
    assert found["layers.0.weight"].abs().sum(0).nonzero()[:, 0].tolist() == [3, 70, 4999]
