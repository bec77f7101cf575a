"""The loop: killed runs end as undisturbed ones, seeds decide, the best epoch is kept, failures are named.

Run as a script it is the victim of the ``kill -9`` test.
"""

import functools
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from scipy import sparse
from torch import nn

from hotvae.checkpoint import read_tensors
from hotvae.config import NetConfig
from hotvae.errors import ConfigError, DataError, DataWarning, ModelError, TrainingError
from hotvae.features.rows import Rows
from hotvae.features.tokens import TokenRows
from hotvae.metrics import THRESHOLDS, log_loss, score
from hotvae.net.losses import bce_loss
from hotvae.net.model import HotVAE, PlainNet
from hotvae.training import loop
from hotvae.training.adam import Adam
from hotvae.training.loop import History, fit_network, learning_rate_at
from hotvae.training.prediction import owned_randomness, predict_network, torch_threads
from hotvae.training.progress import Silent
from hotvae.training.settings import Training

NAN = math.nan


@pytest.fixture(autouse=True)
def _one_thread():
    with torch_threads(1):
        yield


# Small networks and tables; every setting is written out, so that defaults may change ---------------------


def make_training(**changes):
    values = {
        "max_epochs": 5,
        "batch_size": 16,
        "learning_rate": 0.01,
        "weight_decay": 0.05,
        "optimizer": "adamw",
        "schedule": "cosine",
        "warmup_epochs": 1.0,
        "clip_norm": 1.0,
        "average_decay": 0.9,
        "selection_metric": "log_loss",
        "patience": 0,
        "precision": "float32",
        "device": "cpu",
        "n_threads": 1,
        "progress": "silent",
    }
    return Training(**(values | changes))


def net_config(**changes):
    values = {
        "dim": 8,
        "n_layers": 2,
        "n_heads": 2,
        "encoder_widths": (12,),
        "label_encoder_widths": (6,),
        "encoder_dropout": 0.2,
        "decoder_dropout": 0.1,
        "direct_path": True,
        "initial_log_variance": -4.0,
    }
    return NetConfig(**(values | changes))


LOSS_WEIGHTS = {"bce": 1.0, "intermediate": 0.2, "ranking": 0.1, "kl": 0.01}


def draw_rows(n_rows=44, seed=0, missing=0.1, dtype=np.float32):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n_rows, 4)).astype(dtype)
    noisy = features[:, :3] + features[:, 1:] + rng.normal(size=(n_rows, 3))
    labels = np.where(rng.random((n_rows, 3)) < missing, np.nan, noisy > 0)
    return Rows(features, labels.astype(dtype))


def make_hotvae(seed=0, graph=None, **changes):
    with owned_randomness(seed, 0):
        return HotVAE(4, 3, net_config(**changes), graph)


def make_plain(dtype=torch.float64, n_features=4, **changes):
    with owned_randomness(0, 0):
        return PlainNet(n_features, 3, net_config(**{"encoder_dropout": 0.0} | changes)).to(dtype)


def with_loss(network, terms):
    """Give a network another loss, a function of features and labels."""
    network.loss = lambda features, labels, base_logits: terms(features, labels)
    return network


def fit_hotvae(
    network=None,
    weights=LOSS_WEIGHTS,
    train=None,
    validation="drawn",
    training=None,
    state_file=None,
    watcher=None,
    **options,
):
    """Train the small HOT-VAE; whatever is given replaces the usual part."""
    network = network or make_hotvae()
    training = (training or make_training()).but(state_file=state_file)
    make_progress = loop.make_progress if watcher is None else lambda style, title: watcher
    with mock.patch.object(loop, "make_progress", make_progress):
        history = fit_network(
            network,
            weights,
            draw_rows() if train is None else train,
            draw_rows(20, seed=1) if validation == "drawn" else validation,
            training,
            **{"seed": 3} | options,
        )
    return network, history


def fit_plain(train, validation=None, training=None, network=None, weights=None):
    network = network or make_plain()
    history = fit_network(network, weights or {"bce": 1.0}, train, validation, training or make_training())
    return network, history


@functools.cache
def undisturbed(**changes):
    """The run every resumed one must equal."""
    return fit_hotvae(training=make_training(**changes))


class StoppedError(Exception):
    pass


class StopAfter(Silent):
    """A watcher that ends the run after an epoch."""

    def __init__(self, epoch):
        self.last = epoch

    def epoch(self, record):
        if record["epoch"] == self.last:
            raise StoppedError


def timeless(history):
    return [{key: value for key, value in record.items() if key != "seconds"} for record in history.records]


def assert_same_weights(left, right):
    left, right = left.state_dict(), right.state_dict()
    assert left.keys() == right.keys()
    for name in left:
        assert torch.equal(left[name], right[name]), name


def assert_same_run(left, right):
    assert_same_weights(left[0], right[0])
    assert timeless(left[1]) == timeless(right[1])
    assert (left[1].best_epoch, left[1].stopped) == (right[1].best_epoch, right[1].stopped)


def differs(left, right):
    return any(not torch.equal(a, b) for a, b in zip(left.parameters(), right.parameters(), strict=True))


class Scripted(nn.Module):
    """Its one weight counts the steps; after epoch e it answers row r with script[e - 1][r]."""

    def __init__(self, script):
        super().__init__()
        self.count = nn.Parameter(torch.zeros(1, dtype=torch.float64))
        self.script = torch.tensor(script, dtype=torch.float64)

    def loss(self, features, labels, base_logits):
        return {"step": -self.count.expand(len(labels))}

    def predict(self, features, base_logits):
        answers = self.script[round(self.count.item()) - 1]
        return answers[features[:, 0].long()][:, None]


def fit_scripted(script, labels, validation=True, kind=Scripted, **changes):
    """Train with a given course of validation probabilities, one full batch and a step of 1 an epoch."""
    rows = Rows(np.arange(len(labels), dtype=float)[:, None], np.array(labels, dtype=float)[:, None])
    network = kind(script)
    values = {"max_epochs": len(script), "learning_rate": 1.0, "optimizer": "adam", "schedule": "constant"}
    values |= {"warmup_epochs": 0.0, "clip_norm": 0.0, "average_decay": 0.0, "batch_size": 64}
    training = make_training(**values | changes)
    history = fit_network(network, {"step": 1.0}, rows, rows if validation else None, training)
    return round(network.count.item(), 6), history


# Killed and resumed ---------------------------------------------------------------------------------------


def victim(state_file):
    """Train slowly until killed."""
    torch.set_num_threads(1)
    network = make_hotvae()
    plain = network.loss

    def slowly(x, y):
        time.sleep(0.03)
        return plain(x, y)

    fit_hotvae(with_loss(network, slowly), training=make_training(max_epochs=12), state_file=state_file)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL to send")
def test_fit_network__killed_with_sigkill__ends_as_the_undisturbed_run(tmp_path):
    state = tmp_path / "run.state"
    child = subprocess.Popen([sys.executable, __file__, str(state)], stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 120
        while child.poll() is None and time.monotonic() < deadline:
            if state.exists() and len(read_tensors(state)[1]["records"]) >= 3:
                child.kill()
            time.sleep(0.02)
    finally:
        child.kill()
        _, error = child.communicate()
    assert child.returncode == -signal.SIGKILL, error
    n_done = len(read_tensors(state)[1]["records"])
    assert 3 <= n_done < 12

    calls = []
    network = make_hotvae()
    plain = network.loss
    with_loss(network, lambda x, y: calls.append(1) or plain(x, y))
    resumed = fit_hotvae(network, training=make_training(max_epochs=12), state_file=state)
    assert len(calls) == 3 * (12 - n_done)  # three batches an epoch
    assert_same_run(resumed, undisturbed(max_epochs=12))


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adamw", "adam"])
@pytest.mark.parametrize("last", [1, 2, 3, 4, 5])
def test_fit_network__stopped_after_any_epoch__ends_as_the_undisturbed_run(tmp_path, last, optimizer):
    training = make_training(optimizer=optimizer)
    with pytest.raises(StoppedError):
        fit_hotvae(training=training, state_file=tmp_path / "state", watcher=StopAfter(last))
    # Another start must not matter: the weights come from the file.
    resumed = fit_hotvae(make_hotvae(seed=9), training=training, state_file=tmp_path / "state")
    assert_same_run(resumed, undisturbed(optimizer=optimizer))


def test_fit_network__stopped_after_every_epoch__ends_as_the_undisturbed_run(tmp_path):
    for epoch in range(1, 6):
        with pytest.raises(StoppedError):
            fit_hotvae(state_file=tmp_path / "state", watcher=StopAfter(epoch))
    assert_same_run(fit_hotvae(state_file=tmp_path / "state"), undisturbed())


@pytest.mark.parametrize("n_batches", [1, 3, 4, 8, 14])
def test_fit_network__stopped_within_an_epoch__ends_as_the_undisturbed_run(tmp_path, n_batches):
    network = make_hotvae()
    plain = network.loss
    calls = []

    def breaking(x, y):
        calls.append(1)
        if len(calls) > n_batches:
            raise StoppedError
        return plain(x, y)

    with pytest.raises(StoppedError):
        fit_hotvae(with_loss(network, breaking), state_file=tmp_path / "state")
    assert (tmp_path / "state").exists() == (n_batches >= 3)  # three batches an epoch
    assert_same_run(fit_hotvae(state_file=tmp_path / "state"), undisturbed())


def test_fit_network__stopped_and_resumed_with_patience__stops_at_the_same_epoch(tmp_path):
    training = make_training(max_epochs=30, patience=2, learning_rate=0.2, schedule="constant")
    whole = fit_hotvae(training=training)
    assert whole[1].stopped == "patience"
    with pytest.raises(StoppedError):
        fit_hotvae(training=training, state_file=tmp_path / "state", watcher=StopAfter(whole[1].best_epoch + 1))
    assert_same_run(fit_hotvae(training=training, state_file=tmp_path / "state"), whole)


def test_fit_network__resumed_without_validation_rows__ends_as_the_undisturbed_run(tmp_path):
    with pytest.raises(StoppedError):
        fit_hotvae(validation=None, state_file=tmp_path / "state", watcher=StopAfter(2))
    resumed = fit_hotvae(validation=None, state_file=tmp_path / "state")
    assert_same_run(resumed, fit_hotvae(validation=None))


def test_fit_network__state_file__changes_nothing_and_its_folder_is_made(tmp_path):
    with_state = fit_hotvae(state_file=tmp_path / "deep" / "er" / "state")
    assert_same_run(with_state, undisturbed())
    assert os.listdir(tmp_path / "deep" / "er") == ["state"]


def test_fit_network__finished_run_resumed__same_result_without_a_step(tmp_path):
    first = fit_hotvae(state_file=tmp_path / "state")
    content = (tmp_path / "state").read_bytes()

    def never(x, y):
        raise AssertionError("a finished run was trained again")

    again = fit_hotvae(with_loss(make_hotvae(seed=9), never), state_file=tmp_path / "state")
    assert_same_run(again, first)
    assert again[1].records == first[1].records  # the seconds too
    assert not again[0].training
    assert (tmp_path / "state").read_bytes() == content


def test_fit_network__leftover_of_a_killed_write__does_not_disturb(tmp_path):
    with pytest.raises(StoppedError):
        fit_hotvae(state_file=tmp_path / "state", watcher=StopAfter(2))
    (tmp_path / ".state.1234").write_bytes(b"half a state")
    assert_same_run(fit_hotvae(state_file=tmp_path / "state"), undisturbed())


def test_fit_network__watcher__is_told_what_was_done_before(tmp_path):
    heard = []

    class Ear(Silent):
        def start(self, n_epochs, done):
            heard.append((n_epochs, len(done)))

        def epoch(self, record):
            heard.append(record["epoch"])

    with pytest.raises(StoppedError):
        fit_hotvae(state_file=tmp_path / "state", watcher=StopAfter(3))
    fit_hotvae(state_file=tmp_path / "state", watcher=Ear())
    assert heard == [(5, 3), 4, 5]


@pytest.fixture(scope="module")
def state_of_one_epoch(tmp_path_factory):
    path = tmp_path_factory.mktemp("one") / "state"
    with torch_threads(1), pytest.raises(StoppedError):
        fit_hotvae(state_file=path, watcher=StopAfter(1))
    return path.read_bytes()


def changed(rows, part, value=7.0):
    features, labels = rows.features.copy(), rows.labels.copy()
    (features if part == "features" else labels)[0, 0] = value
    return Rows(features, labels)


GRAPH = torch.tensor([[True, True, False], [True, True, False], [False, False, True]])
OTHER_RUNS = {
    "training features": {"train": changed(draw_rows(), "features")},
    "training labels": {"train": changed(draw_rows(), "labels", NAN)},
    "fewer rows": {"train": draw_rows(43)},
    "validation features": {"validation": changed(draw_rows(20, seed=1), "features")},
    "validation labels": {"validation": changed(draw_rows(20, seed=1), "labels", NAN)},
    "no validation": {"validation": None},
    "base logits": {"train": Rows(draw_rows().features, draw_rows().labels, np.zeros((44, 3), dtype=np.float32))},
    "seed": {"seed": 4},
    "identity": {"identity": {"base": "ridge"}},
    "learning rate": {"training": make_training(learning_rate=0.02)},
    "length": {"training": make_training(max_epochs=6)},
    "loss weights": {"weights": LOSS_WEIGHTS | {"kl": 0.02}},
    "width": {"network": {"encoder_widths": (13,)}},
    "encoder dropout": {"network": {"encoder_dropout": 0.3}},
    "decoder dropout": {"network": {"decoder_dropout": 0.3}},
    "heads": {"network": {"n_heads": 4}},
    "a graph": {"network": {"graph": GRAPH}},
}


@pytest.mark.parametrize("other", OTHER_RUNS.values(), ids=OTHER_RUNS.keys())
def test_fit_network__state_of_another_run__refused_and_left_alone(tmp_path, state_of_one_epoch, other):
    (tmp_path / "state").write_bytes(state_of_one_epoch)
    if "network" in other:
        other = {"network": make_hotvae(**other["network"])}
    with pytest.raises(TrainingError, match=r"same data, settings and seed; got another run's .*state\)\. Delete"):
        fit_hotvae(**other, state_file=tmp_path / "state")
    assert (tmp_path / "state").read_bytes() == state_of_one_epoch


def test_fit_network__state_with_another_graph__refused(tmp_path):
    with pytest.raises(StoppedError):
        fit_hotvae(make_hotvae(graph=GRAPH), state_file=tmp_path / "state", watcher=StopAfter(1))
    with pytest.raises(TrainingError, match="another run's"):
        fit_hotvae(make_hotvae(graph=GRAPH.flip(0, 1)), state_file=tmp_path / "state")


def test_fit_network__state_with_sparse_values_in_other_columns__refused(tmp_path):
    labels = draw_rows(4).labels
    left = sparse.csr_array(np.diag([1.0, 2, 3, 4]))
    right = sparse.csr_array((left.data, left.indices[::-1].copy(), left.indptr), left.shape)
    training = make_training(max_epochs=1, state_file=tmp_path / "state")
    fit_plain(Rows(left, labels.astype(float)), training=training)
    with pytest.raises(TrainingError, match="another run's"):
        fit_plain(Rows(right, labels.astype(float)), training=training)


def test_fit_network__state_resumed_elsewhere_and_shown_otherwise__is_the_same_run(tmp_path, capsys):
    with pytest.raises(StoppedError):
        fit_hotvae(state_file=tmp_path / "state", watcher=StopAfter(2))
    elsewhere = make_training(device="auto", n_threads=None, progress="lines")
    resumed = fit_hotvae(training=elsewhere, state_file=tmp_path / "state", title="HOT-VAE")
    assert_same_run(resumed, undisturbed())
    assert capsys.readouterr().err.startswith("HOT-VAE: resumed after epoch 2\nHOT-VAE: epoch 3/5")


def test_fit_network__settings_that_are_numbers_of_numpy__are_the_same_run(tmp_path):
    fit_hotvae(state_file=tmp_path / "state")
    numbers = make_training(max_epochs=np.int64(5), learning_rate=np.float64(0.01), patience=np.int32(0))
    assert_same_run(fit_hotvae(training=numbers, state_file=tmp_path / "state"), undisturbed())


def test_fit_network__state_file_of_another_kind__refused(tmp_path):
    save_file({"weight": torch.ones(1)}, tmp_path / "state")
    with pytest.raises(ModelError, match=r"tensor file must be readable; .* does not match its checksum"):
        fit_hotvae(state_file=tmp_path / "state")


def test_fit_network__damaged_state_file__says_so(tmp_path, state_of_one_epoch):
    (tmp_path / "state").write_bytes(state_of_one_epoch[:1000])
    with pytest.raises(ModelError, match="tensor file must be readable"):
        fit_hotvae(state_file=tmp_path / "state")


# Seeds ----------------------------------------------------------------------------------------------------


def test_fit_network__same_seed__same_bits_whatever_the_caller_drew():
    first = undisturbed()
    torch.manual_seed(99)
    assert_same_run(first, fit_hotvae())


def test_fit_network__another_seed__other_weights():
    assert differs(undisturbed()[0], fit_hotvae(seed=4)[0])


def test_fit_network__random_numbers__new_in_each_epoch_and_the_same_in_each_run():
    def draws(seed):
        network, seen = make_plain(), []

        def terms(x, y):
            seen.append(torch.rand(1).item())
            return {"bce": bce_loss(network(x), y)}

        rows, training = draw_rows(dtype=np.float64), make_training(max_epochs=4, batch_size=64)
        fit_network(with_loss(network, terms), {"bce": 1.0}, rows, None, training, seed=seed)
        return seen

    first = draws(3)
    assert len(set(first)) == 4
    assert draws(3) == first
    assert not set(draws(4)) & set(first)


def test_fit_network__generators_of_the_caller__untouched():
    torch.manual_seed(5)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002  # the legacy generator is what must not move
    fit_hotvae()
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002  # as above


# Losses that are not finite -------------------------------------------------------------------------------


def spoil(network, term, value, at_call):
    """HOT-VAE's terms, one of them spoilt from a call on (three calls an epoch)."""
    plain = network.loss
    calls = []

    def terms(x, y):
        calls.append(1)
        found = dict(plain(x, y))
        if len(calls) >= at_call:
            found[term] = found[term] + value
        return found

    return with_loss(network, terms)


@pytest.mark.parametrize(
    ("term", "value", "cause"),
    [
        ("kl", math.inf, "latent variances ran away; a smaller kl weight"),
        ("ranking", NAN, "ranking term overflowed; a smaller ranking weight helps"),
        ("bce", -math.inf, "step size is too large, or feature values are extreme; lower learning_rate"),
        ("intermediate", math.inf, "step size is too large"),
    ],
)
@pytest.mark.parametrize("at_call", [1, 3])
def test_fit_network__not_finite_in_the_first_epoch__error_names_term_and_cause(term, value, cause, at_call):
    message = rf"must stay finite; got {value} in term '{term}' \(epoch 1, learning_rate 0\.01\)\. .*{cause}"
    with pytest.raises(TrainingError, match=message):
        fit_hotvae(spoil(make_hotvae(), term, value, at_call))


@pytest.mark.parametrize("validation", ["drawn", None])
@pytest.mark.parametrize("at_call", [7, 9])
def test_fit_network__not_finite_later__warns_and_keeps_the_best_weights(validation, at_call):
    """With a constant rate, what is kept is what two epochs alone would have given."""
    two_epochs = make_training(schedule="constant", max_epochs=2)
    expected, expected_history = fit_hotvae(validation=validation, training=two_epochs)
    best = expected_history.best_epoch
    network = spoil(make_hotvae(), "kl", math.inf, at_call)
    message = rf"got inf in term 'kl' \(epoch 3, .*The model of epoch {best} is kept"
    with pytest.warns(RuntimeWarning, match=message) as caught:
        history = fit_hotvae(network, validation=validation, training=make_training(schedule="constant"))[1]
    assert caught[0].filename == __file__
    assert (history.stopped, history.best_epoch) == ("non-finite loss", best)
    assert_same_weights(network, expected)
    assert timeless(history) == timeless(expected_history)
    assert not network.training


def test_fit_network__stopped_by_a_loss_and_resumed__same_end(tmp_path):
    runs = []
    for at_call in (7, 1):  # epoch 3 in the first run, at once in the resumed one
        with pytest.warns(RuntimeWarning, match="epoch 3"):
            runs.append(fit_hotvae(spoil(make_hotvae(), "kl", NAN, at_call), state_file=tmp_path / "state"))
    assert_same_run(*runs)


def test_fit_network__finite_terms_with_infinite_sum__sum_is_named():
    with pytest.raises(TrainingError, match="got inf in term 'their weighted sum'"):
        fit_hotvae(spoil(make_hotvae(), "kl", 1e37, 1), weights=LOSS_WEIGHTS | {"kl": 100.0})


@pytest.mark.parametrize("clip_norm", [0.0, 1.0])
def test_fit_network__finite_loss_with_infinite_gradient__weights_are_not_spoilt(clip_norm):
    network = make_plain()
    start = make_plain()
    training = make_training(clip_norm=clip_norm)

    def terms(x, y):
        return {"bce": network(x)[:, 0].mul(0).sqrt()}  # 0 with slope 0 * inf

    with pytest.raises(TrainingError, match=r"got nan in term 'gradient' \(epoch 1"):
        fit_network(with_loss(network, terms), {"bce": 1.0}, draw_rows(dtype=np.float64), None, training)
    assert not differs(network, start)


def test_fit_network__probabilities_not_finite__named_and_best_kept():
    with pytest.raises(TrainingError, match=r"got nan in term 'validation probabilities' \(epoch 1"):
        fit_scripted([[NAN, 0.5]], [1, 0])
    with pytest.warns(RuntimeWarning, match=r"'validation probabilities' \(epoch 3, .*The model of epoch 2 is kept"):
        count, history = fit_scripted([[0.5, 0.5], [0.6, 0.4], [0.5, math.inf], [0.9, 0.1]], [1, 0])
    assert (count, history.stopped, len(history.records)) == (2, "non-finite loss", 2)


@pytest.mark.parametrize("batch_size", [16, 64])
def test_fit_network__absurd_learning_rate__stops_with_a_remedy(batch_size):
    with pytest.raises(TrainingError, match="lower learning_rate"):
        fit_hotvae(training=make_training(learning_rate=1e30, warmup_epochs=0.0, batch_size=batch_size))


# Which epoch is kept --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "best"),
    [
        ("log_loss", min),
        ("brier_score", min),
        ("macro_f1", max),
        ("mean_auc", max),
        ("hamming_accuracy", max),
    ],
)
def test_fit_network__any_metric__final_network_scores_the_best_of_the_history(metric, best):
    validation = draw_rows(20, seed=1)
    training = make_training(selection_metric=metric, learning_rate=0.05, max_epochs=8)
    network, history = fit_hotvae(validation=validation, training=training)
    values = history.column(f"validation_{metric}")
    assert len(set(values)) > 1
    assert history.best_epoch == values.index(best(values)) + 1
    probs = predict_network(network.predict, validation.features)
    rescored = score(validation.labels, probs, metric, THRESHOLDS)
    record = history.records[history.best_epoch - 1]
    assert rescored.value == best(values)
    assert rescored.threshold == record.get("threshold")
    assert log_loss(validation.labels, probs) == record["validation_log_loss"]


# Labels 1, 0 and the same doubt d about both: Brier score d**2, log loss -ln(1 - d).
def doubts(*values):
    return [[1 - value, value] for value in values]


@pytest.mark.parametrize("metric", ["brier_score", "log_loss"])
def test_fit_network__lower_is_better__lowest_epoch_kept(metric):
    count, history = fit_scripted(doubts(0.4, 0.3, 0.1, 0.2, 0.3), [1, 0], selection_metric=metric)
    assert (count, history.best_epoch, history.stopped) == (3, 3, "max_epochs")
    if metric == "brier_score":
        assert history.column("validation_brier_score") == pytest.approx([0.16, 0.09, 0.01, 0.04, 0.09])
        assert history.column("validation_log_loss")[2] == pytest.approx(-math.log(0.9))
        assert "threshold" not in history.records[0]


def test_fit_network__greater_is_better__highest_epoch_kept():
    """AUC of rows 1, 1, 0: the share of (present, absent) pairs in order."""
    script = [[0.1, 0.2, 0.3], [0.5, 0.2, 0.3], [0.5, 0.4, 0.3], [0.5, 0.2, 0.3]]
    count, history = fit_scripted(script, [1, 1, 0], selection_metric="mean_auc")
    assert history.column("validation_mean_auc") == [0, 0.5, 1, 0.5]
    assert (count, history.best_epoch) == (3, 3)


def test_fit_network__equal_values__first_epoch_kept():
    assert fit_scripted(doubts(0.3, 0.2, 0.2, 0.2), [1, 0])[0] == 2


def test_fit_network__metric_of_predictions__its_threshold_is_recorded():
    _, history = fit_scripted([[0.4, 0.3]], [1, 0], selection_metric="macro_f1")
    assert (history.records[0]["validation_macro_f1"], history.records[0]["threshold"]) == (1.0, 0.4)


@pytest.mark.parametrize(
    ("patience", "n_epochs", "stopped"),
    [
        (1, 2, "patience"),
        (2, 6, "patience"),
        (3, 7, "max_epochs"),
        (4, 7, "max_epochs"),
        (0, 7, "max_epochs"),
    ],
)
def test_fit_network__patience__stops_that_many_epochs_after_the_best(patience, n_epochs, stopped):
    course = doubts(0.4, 0.45, 0.3, 0.2, 0.3, 0.25, 0.22)
    count, history = fit_scripted(course, [1, 0], patience=patience)
    assert (len(history.records), history.stopped) == (n_epochs, stopped)
    assert count == history.best_epoch == (1 if patience == 1 else 4)


def test_fit_network__no_validation_rows__last_epoch_kept_whatever_the_patience():
    count, history = fit_scripted(doubts(0.1, 0.2, 0.3, 0.4), [1, 0], validation=False, patience=1)
    assert (count, history.best_epoch, history.stopped) == (4, 4, "max_epochs")
    assert not any(key.startswith("validation") for key in history.records[0])


def test_fit_network__metric_undefined_on_the_validation_rows__warns_and_keeps_the_last_epoch():
    with pytest.warns(DataWarning, match="'mean_auc' is undefined on the validation rows; the last epoch is kept"):
        count, history = fit_scripted(doubts(0.1, 0.2, 0.3), [1, 1], selection_metric="mean_auc", patience=1)
    assert (count, history.best_epoch) == (3, 3)


def test_fit_network__unknown_metric__choices_are_named():
    with pytest.raises(ConfigError, match=r"selection_metric must be one of .*'macro_f1', .*; got 'accuracy'"):
        fit_hotvae(training=make_training(selection_metric="accuracy"))


def test_fit_network__ended__network_is_ready_to_predict():
    network, history = undisturbed()
    assert not network.training
    assert [record["epoch"] for record in history.records] == [1, 2, 3, 4, 5]
    assert all(record["seconds"] > 0 for record in history.records)


def test_history__column__one_value_per_epoch():
    assert History([{"loss": 2.0}, {"loss": 1.0}]).column("loss") == [2.0, 1.0]


# Steps ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "warmup", "step", "expected"),
    [
        ("constant", 2.0, 0, 0.1),
        ("constant", 2.0, 4, 0.5),
        ("constant", 2.0, 9, 1.0),
        ("constant", 2.0, 19, 1.0),
        ("constant", 0.0, 0, 1.0),
        ("constant", 0.4, 0, 0.5),
        ("constant", 0.4, 1, 1.0),
        ("cosine", 2.0, 4, 0.5),
        ("cosine", 2.0, 10, 1.0),
        ("cosine", 2.0, 12, 0.5 * (1 + math.cos(math.pi * 0.2))),
        ("cosine", 2.0, 15, 0.5),
        ("cosine", 2.0, 20, 0.0),
        ("cosine", 0.0, 0, 1.0),
        ("cosine", 0.0, 5, 0.5 + math.sqrt(0.125)),
        ("cosine", 10.0, 4, 0.1),
    ],
)
def test_learning_rate_at__four_epochs_of_five_steps__hand_values(schedule, warmup, step, expected):
    training = make_training(schedule=schedule, warmup_epochs=warmup, max_epochs=4, learning_rate=2.0)
    assert learning_rate_at(step, 5, training) == pytest.approx(2 * expected, abs=1e-12)


def test_fit_network__learning_rates__follow_the_schedule_step_by_step(monkeypatch):
    used = []
    step = Adam.step
    monkeypatch.setattr(Adam, "step", lambda self, rate: (used.append(rate), step(self, rate)))
    training = make_training(max_epochs=3, warmup_epochs=0.5)
    _, history = fit_plain(draw_rows(dtype=np.float64), training=training)
    expected = [learning_rate_at(step, 3, training) for step in range(9)]
    assert used == expected
    assert history.column("learning_rate") == expected[2::3]


@pytest.mark.parametrize("decay", [0.0, 0.2, 0.9])
def test_fit_network__weight_average__equals_its_recurrence(decay):
    """After step t the average keeps the share min(decay, (1 + t) / (10 + t)) of itself."""
    rows = draw_rows(dtype=np.float64)
    seen = []

    def run(average_decay):
        network = make_plain()
        plain = network.loss

        def terms(x, y):
            seen.append([p.detach().clone() for p in network.parameters()])
            return plain(x, y)

        fit_network(with_loss(network, terms), {"bce": 1.0}, rows, None, make_training(average_decay=average_decay))
        return [p.detach() for p in network.parameters()]

    seen.append(run(0.0))  # the last raw weights
    average, *course = seen
    for step, current in enumerate(course, start=1):
        keep = min(decay, (1 + step) / (10 + step))
        average = [keep * a + (1 - keep) * c for a, c in zip(average, current, strict=True)]
    assert len(course) == 15
    for found, expected in zip(run(decay), average, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_fit_network__loss_without_slope__adamw_shrinks_matrices_alone(optimizer):
    """Two epochs of three steps at rate 0.5 and decay 0.2 leave 0.9**6 of a matrix, all of a vector."""
    network = make_plain()
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    values = {"max_epochs": 2, "learning_rate": 0.5, "weight_decay": 0.2, "schedule": "constant"}
    training = make_training(**values, warmup_epochs=0.0, average_decay=0.0, optimizer=optimizer)

    def terms(x, y):
        return {"none": sum(p.sum() for p in network.parameters()) * torch.zeros(len(y), dtype=torch.float64)}

    fit_network(with_loss(network, terms), {"none": 1.0}, draw_rows(dtype=np.float64), None, training)
    assert {p.ndim for p in before.values()} == {1, 2}
    for name, parameter in network.named_parameters():
        share = 0.9**6 if optimizer == "adamw" and parameter.ndim == 2 else 1.0
        torch.testing.assert_close(parameter.detach(), share * before[name], rtol=1e-12, atol=0)


@pytest.mark.parametrize(("clip_norm", "expected"), [(0.0, 10.0), (2.0, 2.0), (30.0, 10.0)])
def test_fit_network__clipping__bounds_the_norm_of_the_gradient(monkeypatch, clip_norm, expected):
    """Loss 6 a + 8 b has the gradient (6, 8) of norm 10."""
    network = nn.ParameterDict({"a": torch.ones(1, 1).double(), "b": torch.ones(1).double()})
    norms = []
    step = Adam.step

    def measured(self, rate):
        a, b = network["a"].grad.item(), network["b"].grad.item()
        norms.append(math.hypot(a, b))
        assert a / b == pytest.approx(0.75)
        step(self, rate)

    monkeypatch.setattr(Adam, "step", measured)
    fit_network(
        with_loss(network, lambda x, y: {"line": (6 * network["a"].sum() + 8 * network["b"].sum()).expand(len(y))}),
        {"line": 1.0},
        draw_rows(dtype=np.float64),
        None,
        make_training(clip_norm=clip_norm, max_epochs=1),
    )
    assert norms == pytest.approx([expected] * 3, rel=1e-6)


# What the loss counts -------------------------------------------------------------------------------------


def test_fit_network__records__hold_means_over_observed_rows_and_their_weighted_sum():
    """Rows 1, 2, 3, 5 (4 is not observed): means 11/4 and 39/4, in any batches; loss 2 * 11/4 + 39/40."""
    column = np.array([[1.0], [2.0], [3.0], [4.0], [5.0]])
    rows = Rows(column, np.where(column == 4, np.nan, 1.0))
    network = nn.Linear(1, 1, dtype=torch.float64)

    def terms(x, y):
        line = torch.where(torch.isnan(y), 0.0, x)[:, 0] + 0 * network(x)[:, 0]
        return {"line": line, "square": line**2}

    for batch_size in (1, 2, 5, 100):
        training = make_training(batch_size=batch_size, max_epochs=1)
        record = fit_network(with_loss(network, terms), {"line": 2.0, "square": 0.1}, rows, None, training).records[0]
        assert record["loss_line"] == pytest.approx(11 / 4)
        assert record["loss_square"] == pytest.approx(39 / 4)
        assert record["loss"] == pytest.approx(2 * 11 / 4 + 0.1 * 39 / 4)


def test_fit_network__hotvae_records__loss_is_the_weighted_sum_of_its_terms():
    for record in undisturbed()[1].records:
        total = sum(weight * record[f"loss_{name}"] for name, weight in LOSS_WEIGHTS.items())
        assert record["loss"] == pytest.approx(total, rel=1e-5)


def test_fit_network__rows_without_observed_labels__contribute_nothing():
    rows = draw_rows(30, missing=0.0, dtype=np.float64)
    strange = np.full((7, 4), 50.0)
    more = Rows(np.vstack([rows.features, strange]), np.vstack([rows.labels, np.full((7, 3), np.nan)]))
    training = make_training(batch_size=64)
    left, left_history = fit_plain(rows, training=training)
    right, right_history = fit_plain(more, training=training)
    for a, b in zip(left.parameters(), right.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)
    assert left_history.column("loss") == pytest.approx(right_history.column("loss"), rel=1e-9)


def test_fit_network__batch_without_observed_labels__no_step():
    rows = draw_rows(6, missing=0.0, dtype=np.float64)
    rows.labels[[1, 4]] = np.nan
    network = make_plain()
    seen = []

    def terms(x, y):
        seen.append(x[0].tolist())
        return {"bce": bce_loss(network(x), y)}

    fit_network(with_loss(network, terms), {"bce": 1.0}, rows, None, make_training(batch_size=1, max_epochs=1))
    assert sorted(seen) == sorted(rows.features[[0, 2, 3, 5]].tolist())


@pytest.mark.parametrize("n_rows", [5, 0])
def test_fit_network__no_observed_label_at_all__error(n_rows):
    with pytest.raises(DataError, match=rf"training labels must hold an observed value; got none \({n_rows} rows\)"):
        fit_hotvae(train=draw_rows(n_rows, missing=1.1))


@pytest.mark.parametrize("batch_size", [1, 7, 16, 44, 500])
def test_fit_network__an_epoch__shows_every_row_once_in_even_batches(batch_size):
    rows = draw_rows(missing=0.0, dtype=np.float64)
    network = make_plain()
    seen = []

    def terms(x, y):
        seen.append(x.tolist())
        return {"bce": bce_loss(network(x), y)}

    fit_network(with_loss(network, terms), {"bce": 1.0}, rows, None, make_training(batch_size=batch_size, max_epochs=2))
    sizes = [len(batch) for batch in seen]
    assert max(sizes) <= batch_size
    assert max(sizes) - min(sizes) <= 1
    shown = [row for batch in seen for row in batch]
    first, second = shown[:44], shown[44:]
    assert sorted(first) == sorted(second) == sorted(rows.features.tolist())
    assert first != second  # a new order each epoch


# Sparse rows ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
def test_fit_network__sparse_features__same_bits_as_dense_and_never_dense_whole(kind, monkeypatch):
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(600, 10)) * (rng.random((600, 10)) < 0.3)
    labels = (dense[:, :3] + rng.normal(size=(600, 3)) > 0).astype(float)
    training = make_training(max_epochs=2, batch_size=50)
    expected = fit_plain(Rows(dense, labels), Rows(dense, labels), training, make_plain(n_features=10))
    made_dense = []

    def watched(method):
        def densify(self, *args, **kwargs):
            made_dense.append(self.shape[0])
            return method(self, *args, **kwargs)

        return densify

    for name in ("toarray", "todense"):
        monkeypatch.setattr(kind, name, watched(getattr(kind, name)))
    rows = Rows(kind(dense), labels)
    found = fit_plain(rows, rows, training, make_plain(n_features=10))
    assert_same_run(found, expected)
    # 12 training batches of 50 an epoch, and the validation rows in batches of 256
    assert sorted(made_dense) == sorted(2 * (12 * [50] + [256, 256, 88]))


# Rows of tokens, base logits ------------------------------------------------------------------------------


def test_fit_network__rows_of_tokens__each_shown_once_and_little_padded():
    """400 rows of 1 to 80 tokens in 80 batches: within a batch lengths are alike, the order is new each epoch."""
    lengths = np.random.default_rng(0).integers(1, 81, size=400)
    features = TokenRows.from_lists([[1 + row] * length for row, length in enumerate(lengths)])
    rows = Rows(features, np.ones((400, 1)))
    network = Scripted([[0.5]])
    seen = []

    def terms(x, y):
        seen.append(x)
        return {"step": -network.count.expand(len(y))}

    fit_network(with_loss(network, terms), {"step": 1.0}, rows, None, make_training(batch_size=5, max_epochs=2))
    assert len(seen) == 160
    for epoch in (seen[:80], seen[80:]):
        assert sorted(int(row[0]) - 1 for batch in epoch for row in batch) == list(range(400))
    assert all(len(np.unique(batch[batch > 0].tolist())) == 5 for batch in seen)
    padding = sum(int((batch == 0).sum()) for batch in seen) / 2
    assert padding < 0.1 * lengths.sum()
    assert [len(batch[0]) for batch in seen[:80]] != sorted(len(batch[0]) for batch in seen[:80])
    assert not all(torch.equal(a, b) for a, b in zip(seen[:80], seen[80:], strict=True))


@pytest.mark.parametrize("has_base", [True, False])
def test_fit_network__base_logits__go_with_their_rows_to_loss_and_prediction(has_base):
    rows = draw_rows(dtype=np.float64)
    base = np.repeat(rows.features[:, :1], 3, axis=1) if has_base else None
    network = make_plain()
    seen = []

    def watched(method):
        def call(features, *others):
            expected = features[:, :1].expand(-1, 3)
            seen.append(others[-1] is None if not has_base else torch.equal(others[-1], expected))
            return method(features, *others)

        return call

    network.loss, network.predict = watched(network.loss), watched(network.predict)
    with_base = Rows(rows.features, rows.labels, base)
    fit_network(network, {"bce": 1.0}, with_base, with_base, make_training(max_epochs=2))
    assert seen == [True] * 2 * (3 + 1)  # three batches and one prediction an epoch


def test_fit_network__base_logits__are_learned_from():
    """Labels that the base tells and the features do not: the network need only leave them alone."""
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(60, 4)), (rng.random((60, 3)) < 0.5).astype(float)
    rows = Rows(features, labels, 4 * labels - 2)
    with owned_randomness(0, 0):
        network = PlainNet(4, 3, net_config(encoder_dropout=0.0), has_base=True).double()
    history = fit_plain(rows, rows, network=network)[1]
    assert min(history.column("validation_log_loss")) < 0.15
    assert min(fit_plain(Rows(features, labels), Rows(features, labels))[1].column("validation_log_loss")) > 0.5


# Networks that can be given labels ------------------------------------------------------------------------


class GivenScripted(Scripted):
    """Given any label of a row it is sure of nothing in epoch 1, and the better the later it is."""

    conditional = True
    selects_by_given = False

    def predict(self, features, base_logits):
        return super().predict(features, base_logits).expand(-1, 40)

    def predict_given(self, features, given, base_logits):
        assert base_logits is None
        sure = 1 - 0.5 ** round(self.count.item())
        truth = 1 - features[:, :1].expand(-1, 40)
        assert (torch.isnan(given) | (given == truth))[:2].all()  # the rest fills up the batch
        return torch.where(torch.isnan(given), truth * sure + (1 - truth) * (1 - sure), given)


class GivenSelecting(GivenScripted):
    selects_by_given = True


@pytest.mark.parametrize(("kind", "best"), [(GivenScripted, 1), (GivenSelecting, 3)])
def test_fit_network__network_that_can_be_given_labels__other_half_is_scored_and_may_select(kind, best):
    """Probabilities of the right answer .5, .75, .875: log losses ln 2, ln(4/3), ln(8/7)."""
    rows = Rows(np.arange(2.0)[:, None], np.repeat([[1.0], [0.0]], 40, axis=1))
    network = kind(doubts(0.1, 0.2, 0.3))
    values = {"max_epochs": 3, "learning_rate": 1.0, "optimizer": "adam", "schedule": "constant", "warmup_epochs": 0.0}
    training = make_training(**values, clip_norm=0.0, average_decay=0.0)
    history = fit_network(network, {"step": 1.0}, rows, rows, training)
    expected = [math.log(2), math.log(4 / 3), math.log(8 / 7)]
    assert history.column("validation_given_log_loss") == pytest.approx(expected)
    assert history.column("validation_log_loss") == pytest.approx([-math.log(1 - doubt) for doubt in (0.1, 0.2, 0.3)])
    assert history.best_epoch == best == round(network.count.item())


def test_fit_network__hardly_any_validation_label__nothing_is_scored_as_given():
    """One observed label is either given or a target; when it is given there is nothing to score."""
    found = set()
    for seed in range(8):
        labels = np.full((2, 40), np.nan)
        labels[0, 0] = 1.0
        training = make_training(max_epochs=1)
        rows = Rows(np.arange(2.0)[:, None], labels)
        history = fit_network(GivenScripted(doubts(0.1)), {"step": 1.0}, rows, rows, training, seed=seed)
        found.add("validation_given_log_loss" in history.records[0])
    assert found == {True, False}


if __name__ == "__main__":
    victim(Path(sys.argv[1]))
