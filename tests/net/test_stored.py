"""Networks of stored weights."""

import tracemalloc

import pytest
import torch
from torch import nn

from hotvae.config import MessagesConfig
from hotvae.net.messages import Chorus, Messages
from hotvae.net.stored import with_weights


def test_with_weights__of_a_network__is_that_network_in_its_own_number_type():
    made = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).double()
    made(torch.randn(8, 3, dtype=torch.double))  # the norm remembers what it has seen
    again = with_weights(lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), made.state_dict())
    assert not again.training
    assert {name: value.dtype for name, value in again.state_dict().items()}["0.weight"] is torch.float32
    rows = torch.randn(5, 3)
    torch.testing.assert_close(again(rows), made.eval().float()(rows), atol=1e-6, rtol=0)


def test_with_weights__names_or_shapes_that_do_not_fit__are_refused():
    stored = nn.Linear(3, 2).state_dict()
    with pytest.raises(RuntimeError, match="size mismatch for weight"):
        with_weights(lambda: nn.Linear(2**40, 2), stored)
    with pytest.raises(RuntimeError, match="Missing key"):
        with_weights(lambda: nn.Linear(3, 2), {"weight": stored["weight"]})
    with pytest.raises(RuntimeError, match="Unexpected key"):
        with_weights(lambda: nn.Linear(3, 2), stored | {"other": torch.zeros(1)})


@pytest.mark.parametrize("config", [MessagesConfig(), MessagesConfig(edges="signed", hub_width=3, n_rounds=3)])
def test_messages__from_their_state__say_the_same(config):
    torch.manual_seed(0)
    voices = [Messages(4, 2, config) for _ in range(2)]
    for voice in voices:
        for weight in voice.parameters():
            weight.data.normal_()
    made = Chorus(voices).eval()
    again = Chorus.from_state(config, 4, made.state_dict())
    rows = torch.randn(6, 4), torch.randn(6, 2), torch.where(torch.rand(6, 4) < 0.5, 1.0, torch.nan)
    assert torch.equal(again(*rows), made(*rows))
    assert not torch.equal(again(*rows)[-1], rows[0])


def test_messages__sizes_that_a_file_merely_claims__take_no_memory():
    state = Messages(4, 2, MessagesConfig(n_causes=8)).state_dict()
    tracemalloc.start()
    with pytest.raises(RuntimeError, match="size mismatch"):
        Messages.from_state(MessagesConfig(n_causes=2**16), 4_000_000, state)
    assert tracemalloc.get_traced_memory()[1] < 1e7
    tracemalloc.stop()
