"""What the decoder knows of the layers written out by hand: when they serve, and what stays between calls."""

import copy
import pickle

import pytest
import torch

from hotvae.config import NetConfig
from hotvae.net.attention import DecoderLayer
from hotvae.net.cpu import CPULayers
from hotvae.net.decoder import Decoder
from tests.net.loops import close, normal

CONFIG = NetConfig(dim=8, n_heads=2, decoder_dropout=0.0)


def layers_of(n_layers=2):
    return [DecoderLayer(CONFIG, single_token=True).double().eval() for _ in range(n_layers)]


def test_rounds__one_for_each_layer__compute_what_it_computes():
    layers, tokens, states = layers_of(), normal(4, 1, 8), normal(1, 3, 8, seed=1)
    rounds = CPULayers().rounds(layers, None, 3, tokens)
    assert len(rounds) == 2
    for by_hand, layer in zip(rounds, layers, strict=True):
        close(by_hand(states, tokens, None), layer(states, tokens, None, None), 1e-12)


@pytest.mark.parametrize("tokens", [torch.zeros(0, 1, 8), torch.zeros(2, 1, 8).half()], ids=["no rows", "16 bits"])
def test_rounds__not_covered__are_left_to_the_modules(tokens):
    assert CPULayers().rounds(layers_of(), None, 3, tokens) is None


def test_rounds__automatic_casts__are_left_to_the_modules():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert CPULayers().rounds(layers_of(), None, 3, torch.zeros(2, 1, 8)) is None


def test_decoder__while_compiling__all_rows_pass_the_modules_at_once(monkeypatch):
    decoder, tokens = Decoder(3, CONFIG, single_token=True).double().eval(), normal(4, 1, 8)
    expected = decoder(tokens)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert CPULayers().rounds(decoder.layers, None, 3, tokens) is None
    close(decoder(tokens), expected, 1e-12)


def test_decoder__no_rows__has_no_logits():
    assert Decoder(3, CONFIG, single_token=True)(torch.zeros(0, 1, 8)).shape == (2, 0, 3)


def test_decoder__graph_written_to__is_brought_into_form_again():
    graph = torch.ones(3, 3, dtype=torch.bool)
    decoder, tokens = Decoder(3, CONFIG, True, graph).double().eval(), normal(4, 1, 8)
    before = decoder(tokens)
    decoder.graph.copy_(torch.eye(3, dtype=torch.bool))
    after = decoder(tokens)
    assert not torch.equal(before, after)
    decoder.by_hand = False
    close(after, decoder(tokens), 1e-12)


def test_decoder__graph_made_in_inference_mode__serves():
    with torch.inference_mode():
        decoder = Decoder(3, CONFIG, True, torch.eye(3, dtype=torch.bool)).double().eval()
        first, second = (decoder(normal(4, 1, 8)) for _ in range(2))
    assert torch.equal(first, second)


def test_cpu_layers__copied_or_pickled__hold_nothing_and_compute_the_same():
    decoder, tokens = Decoder(3, CONFIG, True, torch.eye(3, dtype=torch.bool)).double().eval(), normal(4, 1, 8)
    expected = decoder(tokens)
    for other in (copy.deepcopy(decoder), pickle.loads(pickle.dumps(decoder))):
        assert other._cpu is not decoder._cpu
        assert other._cpu._prepared is None
        assert torch.equal(other(tokens), expected)
