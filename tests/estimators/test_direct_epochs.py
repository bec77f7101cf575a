import numpy as np
import pytest
import torch

from hotvae import HotVAENetwork, virtual_region
from hotvae.config import NetConfig
from hotvae.errors import ConfigError
from hotvae.net.model import HotVAE
from hotvae.training import loop as training

SMALL = {"encoder_widths": (16,), "dim": 8, "batch_size": 32, "random_state": 0, "average_decay": 0.0, "n_threads": 1}
# What is learned after the network, of given labels and whole communities, is tested elsewhere.
SMALL |= {"given_epochs": 1, "covariance_epochs": 1}


@pytest.fixture(scope="module")
def rows():
    data = virtual_region(300, random_state=0).dataset
    return data.features, data.labels


def layer_weights(model):
    state = model.network_.state_dict()
    return torch.cat([value.flatten() for name, value in state.items() if name.startswith("decoder.layers")])


@pytest.mark.slow
def test_direct_epochs__only_such_epochs__messages_untouched_and_silent(rows):
    model = HotVAENetwork.from_settings(max_epochs=3, direct_epochs=3, **SMALL).fit(*rows)
    none = HotVAENetwork.from_settings(max_epochs=1, direct_epochs=3, learning_rate=1e-12, **SMALL).fit(*rows)
    assert torch.equal(layer_weights(model), layer_weights(none))
    # The messages are computed again after training, and add exactly nothing.
    network = model.network_
    assert network.decoder.messages_on
    tokens = torch.randn(4, 1, 8)
    direct = network.decoder.direct(tokens[:, 0]) + network.decoder.bias
    assert torch.equal(network.decoder(tokens)[-1], direct)


@pytest.mark.slow
def test_direct_epochs__then_messages__they_learn(rows):
    quiet = HotVAENetwork.from_settings(max_epochs=4, direct_epochs=4, **SMALL).fit(*rows)
    model = HotVAENetwork.from_settings(max_epochs=4, direct_epochs=2, **SMALL, patience=0).fit(*rows)
    assert not torch.equal(layer_weights(model), layer_weights(quiet))
    assert model.network_.decoder.weight.abs().sum() > 0
    # The first epochs are the same steps.
    assert model.history_.column("loss")[:2] == quiet.history_.column("loss")[:2]
    assert model.history_.column("loss")[2] != quiet.history_.column("loss")[2]


class Killed(BaseException):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("n_epochs", [1, 2, 3])
def test_direct_epochs__killed_and_resumed__same_bits(rows, tmp_path, monkeypatch, n_epochs):
    settings = {"max_epochs": 4, "direct_epochs": 2, "patience": 0, **SMALL}
    whole = HotVAENetwork.from_settings(**settings).fit(*rows)
    write = training._write_state

    def write_then_die(job, state, path, fingerprint):
        write(job, state, path, fingerprint)
        if len(state.history.records) == n_epochs:
            raise Killed

    monkeypatch.setattr(training, "_write_state", write_then_die)
    with pytest.raises(Killed):
        HotVAENetwork.from_settings(state_file=tmp_path / "state", **settings).fit(*rows)
    monkeypatch.undo()
    resumed = HotVAENetwork.from_settings(state_file=tmp_path / "state", **settings).fit(*rows)
    assert np.array_equal(resumed.predict_proba(rows[0]), whole.predict_proba(rows[0]))


def test_direct_epochs__without_direct_path__error():
    with pytest.raises(ConfigError, match="direct_epochs must be 0 without direct_path; got 2"):
        HotVAE(3, 2, NetConfig(dim=8, direct_path=False), direct_epochs=2)


def test_direct_epochs__negative__error(rows):
    with pytest.raises(ConfigError, match="direct_epochs must be a whole number of at least 0; got -1"):
        HotVAENetwork.from_settings(max_epochs=1, direct_epochs=-1, **SMALL).fit(*rows)
