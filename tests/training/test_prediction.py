"""Prediction in batches whatever the company, devices, threads, and randomness that leaves the caller's alone."""

import math
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from hotvae.config import NetConfig
from hotvae.errors import ConfigError
from hotvae.features.tokens import TokenRows
from hotvae.net.model import HotVAE
from hotvae.training.prediction import (
    choose_device,
    one_torch_thread_each,
    owned_randomness,
    predict_network,
    to_tensor,
    torch_threads,
)

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _one_thread():
    with torch_threads(1):
        yield


class StoppedError(Exception):
    pass


def draw_features(n_rows):
    return np.random.default_rng(0).normal(size=(n_rows, 4)).astype(np.float32)


# Batches --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def float32_network():
    config = NetConfig(dim=24, n_layers=2, n_heads=2, encoder_widths=(33, 17), label_encoder_widths=(6,))
    with owned_randomness(0, 0):
        return HotVAE(4, 3, config).eval()


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_predict_network__row_alone_or_in_any_company__same_bits(float32_network, n_threads):
    features = draw_features(300)
    with torch_threads(n_threads):
        whole = predict_network(float32_network.predict, features)
        for row in (0, 17, 255, 256, 299):
            alone = predict_network(float32_network.predict, features[[row]])
            assert np.array_equal(alone[0], whole[row])
    assert whole.dtype == np.float32
    assert len(np.unique(whole[:, 0])) > 250


@given(seed=st.integers(0, 999), n_rows=st.integers(1, 600))
@settings(max_examples=8, deadline=None)
def test_predict_network__any_order_and_number__same_bits(float32_network, seed, n_rows):
    features = draw_features(300)
    whole = predict_network(float32_network.predict, features)
    picked = np.random.default_rng(seed).integers(0, 300, size=n_rows)
    assert np.array_equal(predict_network(float32_network.predict, features[picked]), whole[picked])
    assert np.array_equal(predict_network(float32_network.predict, sparse.csr_array(features[picked])), whole[picked])


@pytest.mark.parametrize("n_rows", [0, 1, 3, 4, 5, 8, 9])
def test_predict_network__any_number_of_rows__full_batches_filled_with_zeros(n_rows):
    shapes, fillers = [], []

    def predict(batch):
        assert not torch.is_grad_enabled()
        shapes.append(tuple(batch.shape))
        fillers.append(int((batch == 0).all(1).sum()))
        return 10 * batch

    features = np.arange(1.0, 2 * n_rows + 1).reshape(n_rows, 2)
    found = predict_network(predict, features, batch_size=4)
    assert np.array_equal(found, 10 * features)
    assert shapes == [(4, 2)] * max(1, math.ceil(n_rows / 4))
    assert sum(fillers) == 4 * len(shapes) - n_rows


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_predict_network__no_rows__empty_table_of_the_right_width(float32_network, make):
    found = predict_network(float32_network.predict, make(np.zeros((0, 4), dtype=np.float32)))
    assert found.shape == (0, 3)
    assert found.dtype == np.float32


# Further inputs, tokens -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_rows", [0, 1, 4, 7])
def test_predict_network__further_inputs__go_with_their_rows_and_none_is_passed_on(n_rows):
    features, given, base = (np.arange(2.0 * n_rows).reshape(n_rows, 2) + start for start in (1, 100, 1000))
    given[::2] = np.nan
    seen = []

    def predict(batch, first, nothing, last):
        assert nothing is None
        seen.append((tuple(first.shape), tuple(last.shape)))
        return batch + first.nan_to_num(nan=-1.0) + last

    found = predict_network(predict, features, given, None, base, batch_size=4)
    np.testing.assert_array_equal(found, features + np.where(np.isnan(given), -1, given) + base)
    assert seen == [((4, 2), (4, 2))] * max(1, math.ceil(n_rows / 4))


@given(st.lists(st.integers(1, 90), min_size=0, max_size=30))
@settings(deadline=None)
def test_predict_network__rows_of_tokens__each_padded_by_its_own_length_alone(lengths):
    """At most 8 places, or a quarter of its length, are padding; the width does not depend on other rows."""
    rows = TokenRows.from_lists([[1 + i] * length for i, length in enumerate(lengths)])
    widths = {}

    def predict(batch, numbers):
        for row, number in zip(batch.tolist(), numbers.tolist(), strict=True):
            widths[int(number)] = len(row)
        return (batch > 0).sum(1, keepdim=True)

    numbers = np.arange(1, len(lengths) + 1)
    found = predict_network(predict, rows, numbers, batch_size=4)
    assert found[:, 0].tolist() == lengths
    for number, length in zip(numbers.tolist(), lengths, strict=True):
        assert length <= widths[number] < length + max(8, length / 4)


def test_to_tensor__any_features__rows_in_the_order_asked_for():
    index = np.array([2, 0])
    for make in (np.asarray, sparse.csr_array, sparse.csr_matrix):
        assert to_tensor(make(np.eye(3)), index, CPU).tolist() == [[0, 0, 1], [1, 0, 0]]
    tokens = TokenRows.from_lists([[3], [4], [5, 6]])
    assert to_tensor(tokens, index, CPU).tolist() == [[5, 6], [3, 0]]
    assert to_tensor(tokens, index, CPU, 3).tolist() == [[5, 6, 0], [3, 0, 0]]


# Devices --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cuda", "mps", "expected"),
    [(True, True, "cuda"), (True, False, "cuda"), (False, True, "mps"), (False, False, "cpu")],
)
def test_choose_device__auto__best_at_hand(monkeypatch, cuda, mps, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert choose_device("auto").type == expected
    assert choose_device("cpu") == CPU


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "mps", "meta", "abacus", ""])
def test_choose_device__absent_or_unknown__says_what_is_at_hand(monkeypatch, device):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=rf"one at hand \(cpu\); got '{device}'\. Use auto"):
        choose_device(device)


@pytest.mark.parametrize("device", [None, 3, ["cpu"]])
def test_choose_device__no_name__refused_by_name(device):
    with pytest.raises(ConfigError, match=r"device must be 'auto' or one at hand"):
        choose_device(device)


# Randomness and threads -----------------------------------------------------------------------------------


def test_owned_randomness__seed_and_stream__decide_the_numbers():
    def draw(*numbers):
        with owned_randomness(*numbers):
            return torch.rand(4).tolist()

    assert draw(1, 2) == draw(1, 2) == draw(1, 2, CPU)
    assert len({tuple(draw(*pair)) for pair in [(1, 2), (2, 1), (1, 3), (0, 0), (2**31 - 2, 0)]}) == 5


def test_owned_randomness__error_inside__generator_given_back():
    def draw_and_fail():
        with owned_randomness(0, 0):
            torch.rand(3)
            raise StoppedError

    before = torch.get_rng_state()
    with pytest.raises(StoppedError):
        draw_and_fail()
    assert torch.equal(torch.get_rng_state(), before)


def test_owned_randomness__on_the_cpu__gpus_are_not_reset(monkeypatch):
    def reset(seed):
        raise AssertionError("the caller's GPU generators were reset")

    monkeypatch.setattr(torch.cuda, "manual_seed_all", reset)
    with owned_randomness(0, 0), owned_randomness(0, 1, CPU):
        torch.rand(1)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_torch_threads__error_inside__number_given_back(n_threads):
    seen = []

    def count_and_fail():
        with torch_threads(n_threads):
            seen.append(torch.get_num_threads())
            raise StoppedError

    torch.set_num_threads(2)
    with pytest.raises(StoppedError):
        count_and_fail()
    assert [*seen, torch.get_num_threads()] == [n_threads, 2]


@pytest.mark.parametrize("n_threads", [0, -1, 1.5, True])
def test_torch_threads__no_number_of_threads__refused(n_threads):
    with pytest.raises(ConfigError, match="n_threads must be a whole number of at least 1"), torch_threads(n_threads):
        pass


def test_torch_threads__none__left_alone():
    torch.set_num_threads(2)
    with torch_threads(None):
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == 2


def test_one_torch_thread_each__models_that_want_more_side_by_side__one_each_and_the_old_number_after():
    meet = Barrier(2, timeout=60)

    def predict(n_threads):
        seen = set()
        for _ in range(20):
            with torch_threads(n_threads):
                meet.wait()  # both are inside: a number that one of them set would show in the other
                seen.add(torch.get_num_threads())
            meet.wait()
        return seen

    with torch_threads(2), ThreadPoolExecutor(2) as pool:
        with one_torch_thread_each():
            assert list(pool.map(predict, (3, None))) == [{1}, {1}]
        assert torch.get_num_threads() == 2
