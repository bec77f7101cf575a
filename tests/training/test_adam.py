"""One step of Adam is torch's, and costs no import of torch's compiler."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from hotvae.training.adam import Adam


def _pair():
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5), nn.Linear(5, 2))
    theirs = nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5), nn.Linear(5, 2))
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def _groups(network, decay):
    weights = list(network.parameters())
    return [
        {"params": [w for w in weights if w.ndim > 1], "weight_decay": decay},
        {"params": [w for w in weights if w.ndim <= 1], "weight_decay": 0.0},
    ]


@pytest.mark.parametrize("coupled", [False, True])
def test_steps_are_those_of_torchs_optimisers(coupled):
    ours, theirs = _pair()
    adam = Adam(ours.parameters(), decay=0.1, coupled=coupled)
    reference = torch.optim.Adam(theirs.parameters()) if coupled else torch.optim.AdamW(_groups(theirs, 0.1))
    batches = torch.randn(6, 4, 3, generator=torch.Generator().manual_seed(1))
    for number, batch in enumerate(batches):
        rate = 0.1 / (1 + number)
        for group in reference.param_groups:
            group["lr"] = rate
        for network in (ours, theirs):
            network.zero_grad()
            # Every other batch does not see the last layer, whose weights must then stay.
            out = network(batch) if number % 2 else network[:2](batch)
            out.square().sum().backward()
        adam.step(rate)
        reference.step()
        for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(own, other)


def test_what_it_remembers_can_be_kept():
    ours, other = _pair()
    batch = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))

    def go(network, adam):
        adam.forget_gradients()
        network(batch).square().sum().backward()
        adam.step(0.1)

    first = Adam(ours.parameters(), decay=0.1)
    go(ours, first)
    second = Adam(other.parameters(), decay=0.1)
    other.load_state_dict(ours.state_dict())
    second.restore(first.tensors())
    go(ours, first)
    go(other, second)
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), other.parameters(), strict=True))
    assert len(first.tensors()) == 3 * len(list(ours.parameters()))


def test_training_does_not_import_the_compiler_of_torch():
    code = (
        "import sys; from hotvae import HotVAEClassifier;"
        "import numpy as np; g = np.random.default_rng(0); X = g.normal(size=(60, 3));"
        "Y = (X @ g.normal(size=(3, 4)) > 0) * 1; HotVAEClassifier(effort='quick').fit(X, Y);"
        "print('torch' in sys.modules, 'torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-2:] == ["True", "False"]
