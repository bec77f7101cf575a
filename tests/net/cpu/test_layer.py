"""The layer written out by hand is the layer of the modules: values and every gradient, in 64 bits."""

import pytest
import torch

from hotvae.config import NetConfig
from hotvae.net.decoder import Decoder


def graph_of(n_labels, kind):
    if kind == "complete":
        return None
    near = (torch.arange(n_labels)[:, None] - torch.arange(n_labels)).abs() <= 2
    return near if kind == "sparse" else near | (torch.rand(n_labels, n_labels) < 0.6)


def decode(decoder, tokens, mask, by_hand, weights):
    """Logits, and the gradients of a weighted sum of them in tokens and all weights."""
    decoder.by_hand = by_hand
    decoder.zero_grad()
    tokens = tokens.clone().requires_grad_()
    torch.manual_seed(1)  # the same dropout masks
    logits = decoder(tokens, mask)
    (logits * weights).sum().backward()
    return [logits.detach(), tokens.grad, *(part.grad for part in decoder.parameters() if part.grad is not None)]


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("kind", ["complete", "dense", "sparse"])
@pytest.mark.parametrize("n_tokens", [1, 3])
@pytest.mark.parametrize(("n_rows", "n_labels"), [(5, 1), (7, 9), (3, 120)])
def test_decoder_by_hand__any_shape__equals_the_modules(dropout, kind, n_tokens, n_rows, n_labels):
    torch.manual_seed(0)
    config = NetConfig(dim=8, n_heads=2, decoder_dropout=dropout)
    decoder = Decoder(n_labels, config, n_tokens == 1, graph_of(n_labels, kind)).double()
    tokens = torch.randn(n_rows, n_tokens, 8, dtype=torch.float64)
    mask = None if n_tokens == 1 else torch.arange(n_tokens) < torch.randint(1, n_tokens + 1, (n_rows, 1))
    weights = torch.randn(config.n_layers, n_rows, n_labels, dtype=torch.float64)
    fast, plain = (decode(decoder, tokens, mask, by_hand, weights) for by_hand in (True, False))
    assert len(fast) == len(plain)
    for one, other in zip(fast, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("scale", [1e3, 1e5])
def test_decoder_by_hand__extreme_scores__finite_and_equal(scale):
    torch.manual_seed(0)
    decoder = Decoder(20, NetConfig(dim=8, n_heads=2), single_token=True).double()
    with torch.no_grad():
        for layer in decoder.layers:
            layer.label_message.query_key_value.weight.mul_(scale)
    tokens = torch.randn(4, 1, 8, dtype=torch.float64)
    decoder.eval()
    decoder.by_hand = True
    fast = decoder(tokens)
    decoder.by_hand = False
    assert torch.isfinite(fast).all()
    torch.testing.assert_close(fast, decoder(tokens), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("n_tokens", [1, 3])
def test_decoder__checkpointing__same_values_and_gradients(n_tokens):
    torch.manual_seed(0)
    tokens = torch.randn(6, n_tokens, 8, dtype=torch.float64)
    weights = torch.randn(2, 6, 9, dtype=torch.float64)
    found = []
    for checkpointing in (False, True):
        torch.manual_seed(2)
        config = NetConfig(dim=8, n_heads=2, decoder_dropout=0.0, checkpointing=checkpointing)
        found.append(decode(Decoder(9, config, n_tokens == 1).double(), tokens, None, True, weights))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
