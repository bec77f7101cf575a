"""Plain stacks of linear maps."""

import torch

from hotvae.net.perceptron import perceptron
from tests.net.loops import close, normal


def test_perceptron__one_hidden_layer__equals_the_formula():
    stack = perceptron(3, (4,), 2).double()
    first, last = stack[0], stack[-1]
    x = normal(5, 3)
    hidden = (x @ first.weight.T + first.bias).clamp(min=0)
    close(stack(x), hidden @ last.weight.T + last.bias, 1e-12)


def test_perceptron__no_hidden_layer__is_one_linear_map():
    stack = perceptron(3, (), 2).double()
    x = normal(5, 3)
    close(stack(2 * x) - stack(x), stack(x) - stack(0 * x), 1e-12)


def test_perceptron__dropout__only_while_training():
    stack = perceptron(3, (64,), 2, dropout=0.5)
    x = torch.ones(1, 3)
    assert not torch.equal(stack(x), stack(x))
    stack.eval()
    assert torch.equal(stack(x), stack(x))
