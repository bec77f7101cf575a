"""Training that workers of Ray share: the loss of one process, the same model each time, a worker that is killed."""

import os
import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hotvae.errors import ConfigError, TrainingError
from hotvae.jobs.settings import TrainSettings
from hotvae.jobs.stream import train_streamed
from hotvae.metrics import log_loss
from tests.jobs.test_stream import draw, weights_of
from tests.scale.conftest import workers

ray = pytest.importorskip("ray", reason="needs the extra ray")
# Ray warns of settings of its own.
pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

N_SAMPLED, TIMES = 500, 12


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Rows twelve times as many as decide."""
    path = tmp_path_factory.mktemp("many") / "sites.parquet"
    draw(TIMES * N_SAMPLED, 0).to_parquet(path, row_group_size=400)
    return path


def settings(out):
    own = {"effort": "quick", "base": None, "joint": False, "random_state": 0}
    plain = {"labels": ("sp_*",), "quiet": True, "stream": True, "sample": N_SAMPLED}
    return TrainSettings(out=str(out), parameters=own, **plain)


def loss_of(model):
    new = draw(3000, 1)
    labels = new[["sp_a", "sp_b", "sp_c"]].to_numpy(float)
    return log_loss(labels, model.predict_proba(new[["depth", "slope", "rain"]]))


@pytest.fixture(scope="module")
def alone(table):
    return train_streamed(settings(table.parent / "alone"), table).model


@pytest.mark.parametrize("n_workers", [1, 2, 3])
def test_train_on_ray__workers__loss_of_one_process(nodes, table, alone, n_workers):
    from hotvae.scale.training import train_on_ray

    nodes(n_workers - 1)
    out = table.parent / f"by-{n_workers}"
    run = train_on_ray(settings(out), table, n_workers)
    assert run.n_train == TIMES * N_SAMPLED
    assert loss_of(run.model) == pytest.approx(loss_of(alone), abs=0.02)
    assert not [path.name for path in table.parent.iterdir() if path.name.startswith((".by", f"{out.name}."))]
    if n_workers == 1:
        assert weights_of(out) == weights_of(table.parent / "alone")


def test_train_on_ray__worker_killed__ends_with_the_same_weights(nodes, table, tmp_path):
    """One of two workers is killed once a leg is done; all start again and go on from its state."""
    from hotvae.scale.training import train_on_ray

    nodes(1)
    quiet = table.parent / "by-2"
    if not quiet.exists():  # this test alone
        train_on_ray(settings(quiet), table, 2)
    killed = []

    def kill_when_a_leg_is_done():
        while not list((tmp_path / "disturbed.state").glob("network-*.safetensors")):
            time.sleep(0.05)
        found = workers("ray::RayTrainWorker") or workers("ray::")
        os.kill(found[-1], signal.SIGKILL)
        killed.append(found[-1])

    watcher = threading.Thread(target=kill_when_a_leg_is_done, daemon=True)
    watcher.start()
    train_on_ray(settings(tmp_path / "disturbed"), table, 2)
    watcher.join(timeout=60)
    assert killed
    assert weights_of(tmp_path / "disturbed") == weights_of(quiet)


def test_train_on_ray__mistakes__said_as_here(nodes, table, tmp_path):
    from hotvae.scale.training import train_on_ray

    with pytest.raises(ConfigError, match="--workers must be at least 1; got 0"):
        train_on_ray(settings(tmp_path / "model"), table, 0)
    frame = pd.read_parquet(table)
    frame.loc[np.arange(len(frame)) > 5000, "sp_b"] = 7
    frame.to_parquet(tmp_path / "bad.parquet")
    with pytest.raises(TrainingError, match=r"labels must be 0 or 1; got 7.*'sp_b'"):
        train_on_ray(replace(settings(tmp_path / "model")), tmp_path / "bad.parquet", 1)
