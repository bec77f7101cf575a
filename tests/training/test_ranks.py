"""Several processes train one network: the same weights everywhere, and those of one process with the same batches.

Run as a script it is one of the processes.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from hotvae.features.rows import Rows
from hotvae.net.direct import DirectNet
from hotvae.training import ranks
from hotvae.training.loop import fit_network
from hotvae.training.ranks import joined_ranks, shared, torchrun_group
from hotvae.training.settings import Training

N_ROWS, BATCH = 480, 24
ROOT = Path(__file__).parents[2]


def draw(seed, n_rows=N_ROWS):
    random = np.random.default_rng(seed)
    features = random.normal(size=(n_rows, 4)).astype(np.float32)
    odds = features @ random.normal(size=(4, 3)).astype(np.float32) * 2
    labels = (random.random(odds.shape) < 1 / (1 + np.exp(-odds))).astype(np.float32)
    labels[::7, 0] = np.nan
    return Rows(features, labels)


def fitted(state_file=None, n_epochs=4, dropout=0.0):
    torch.manual_seed(0)
    network = DirectNet(4, 3, (16,), dropout)
    training = Training(max_epochs=n_epochs, batch_size=BATCH, learning_rate=0.02, state_file=state_file)
    return network, fit_network(network, {"bce": 1.0}, draw(0), draw(1, 100), training, seed=3)


def main():
    out, told = Path(sys.argv[1]), json.loads(sys.argv[2])
    with torchrun_group() as group, shared(group):
        kill_in = told.pop("kill_in", None)
        if kill_in is not None and group.rank == 1 and not (out / "killed").exists():
            steps = []

            def noted(numbers, sums=ranks.Ranks.sum):
                steps.append(1)
                if len(steps) == kill_in:
                    (out / "killed").touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                return sums(group, numbers)

            object.__setattr__(group, "sum", noted)
        network, history = fitted(**told)
        assert joined_ranks() == group
        weights = {name: value.tolist() for name, value in network.state_dict().items()}
        (out / f"{group.rank}.json").write_text(json.dumps([weights, history.records, history.best_epoch]))


def run(folder, n_processes, *, restarts=0, **told):
    folder.mkdir(exist_ok=True)
    words = ["--nnodes=1", f"--nproc-per-node={n_processes}", f"--max-restarts={restarts}", "--rdzv-backend=c10d"]
    command = [sys.executable, "-m", "torch.distributed.run", *words, "--rdzv-endpoint=localhost:0", "--no-python"]
    script = [sys.executable, __file__, str(folder), json.dumps(told)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    subprocess.run([*command, *script], env=environment, check=True, capture_output=True, timeout=900)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(n_processes)]


def values(weights):
    return np.concatenate([np.ravel(weights[name]) for name in sorted(weights)])


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    return run(tmp_path_factory.mktemp("ranks") / "three", 3)


@pytest.mark.slow
def test_fit_network__three_processes__weights_of_one_with_the_same_batches(three):
    """The gradient of a batch is the sum of its parts: only rounding differs, and validation chooses alike."""
    network, history = fitted()
    alone = values({name: value.tolist() for name, value in network.state_dict().items()})
    for weights, records, best_epoch in three:
        np.testing.assert_array_equal(values(weights), values(three[0][0]))
        np.testing.assert_allclose(values(weights), alone, atol=2e-5)
        assert best_epoch == history.best_epoch
        for here, there in zip(history.records, records, strict=True):
            assert there["loss"] == pytest.approx(here["loss"], abs=1e-5)
            assert there["validation_log_loss"] == pytest.approx(here["validation_log_loss"], abs=1e-5)


@pytest.mark.slow
def test_fit_network__process_killed__all_start_again_and_end_as_if_nothing_had_happened(three, tmp_path):
    """The second process is killed in the third epoch of 20 batches; torchrun starts both anew."""
    told = {"n_epochs": 4, "state_file": str(tmp_path / "state")}
    disturbed = run(tmp_path / "out", 3, restarts=1, kill_in=50, **told)
    assert (tmp_path / "out" / "killed").exists()
    for (weights, _, _), (undisturbed, _, _) in zip(disturbed, three, strict=True):
        np.testing.assert_array_equal(values(weights), values(undisturbed))


if __name__ == "__main__":
    main()
