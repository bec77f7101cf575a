"""Training from Parquet a piece at a time: what is learned from all rows, seeds, interruptions, memory."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hotvae import load_model
from hotvae.checkpoint import WEIGHTS_FILE
from hotvae.errors import ConfigError, DataError, TrainingError
from hotvae.jobs import stream
from hotvae.jobs.settings import TrainSettings
from hotvae.jobs.stream import train_streamed
from hotvae.jobs.train import train
from hotvae.metrics import log_loss


def draw(n_rows, seed):
    """Labels that follow a curve no few rows show, and one that is as likely as a coin."""
    random = np.random.default_rng(seed)
    table = pd.DataFrame(random.uniform(-1, 1, size=(n_rows, 3)), columns=["depth", "slope", "rain"])
    odds = np.column_stack([6 * np.sin(5 * table.depth) * np.cos(4 * table.slope), 5 * table.rain, 0 * table.rain])
    labels = random.random(odds.shape) < 1 / (1 + np.exp(-odds))
    return table.assign(**dict(zip(("sp_a", "sp_b", "sp_c"), labels.T.astype(int), strict=True)))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("stream") / "sites.parquet"
    draw(12_000, 0).to_parquet(path, row_group_size=1500)
    return path


def settings(out, **more):
    own = {"effort": "quick", "base": None, "random_state": 0} | more.pop("parameters", {})
    return TrainSettings(out=str(out), labels=("sp_*",), quiet=True, stream=True, sample=600, parameters=own, **more)


@pytest.fixture(scope="module")
def run(table):
    return train_streamed(settings(table.parent / "model"), table)


def test_train_streamed__rows_beyond_the_sample__teach(run, table):
    """The sample alone knows the curve badly; all rows know it better, on rows that nobody has seen."""
    stream.ParquetTable(table).sample(600, 0).to_parquet(table.parent / "sample.parquet")
    plain = replace(settings(table.parent / "sampled"), stream=False)
    sample = train(plain, table.parent / "sample.parquet").model
    new = draw(4000, 1)
    features, labels = new[["depth", "slope", "rain"]], new[["sp_a", "sp_b", "sp_c"]].to_numpy(float)
    losses = [log_loss(labels, model.predict_proba(features)) for model in (sample, run.model)]
    assert losses[1] < losses[0] - 0.01


def test_train_streamed__model__says_what_was_learned_from_how_many_rows(run, table):
    stored = load_model(table.parent / "model")
    n_sampled = stored.extra_["n_sampled"]
    assert abs(n_sampled - 600) < 100
    assert (run.n_train, stored.extra_["n_train"]) == (12_000, 12_000)
    line = stored.recipe_.lines()[-1]
    assert line.startswith(f"rows: {n_sampled} of 12,000 decided columns")
    assert "the networks learned from all rows, in 2 passes" in line
    new = draw(20, 2)[["depth", "slope", "rain"]]
    np.testing.assert_array_equal(stored.predict_proba(new), run.model.predict_proba(new))
    assert not (table.parent / "model.state").exists()


def weights_of(folder):
    return (folder / WEIGHTS_FILE).read_bytes()


@pytest.mark.slow
def test_train_streamed__same_seed__same_model(run, table, tmp_path):
    train_streamed(settings(tmp_path / "again"), table)
    assert weights_of(tmp_path / "again") == weights_of(table.parent / "model")
    train_streamed(settings(tmp_path / "other", parameters={"random_state": 1}), table)
    assert weights_of(tmp_path / "other") != weights_of(table.parent / "model")


@pytest.mark.slow
@pytest.mark.parametrize("n_pieces", [0, 11])
def test_train_streamed__interrupted__goes_on_to_the_same_model(run, table, tmp_path, monkeypatch, n_pieces):
    """Before the first piece of all rows, and in the second pass over them; the sample is not learned from again."""
    left = [n_pieces]

    class Failing(stream._Ready):
        def __call__(self, form, frame, first):
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            return super().__call__(form, frame, first)

    with monkeypatch.context() as patch:
        patch.setattr(stream, "_Ready", Failing)
        with pytest.raises(KeyboardInterrupt):
            train_streamed(settings(tmp_path / "model"), table)
    with pytest.raises(TrainingError, match=r"state must be of this run.*--no-resume"):
        train_streamed(settings(tmp_path / "model", parameters={"random_state": 1}), table)
    monkeypatch.setattr(stream, "train", None)  # what the sample taught is there
    assert train_streamed(settings(tmp_path / "model"), table).resumed
    assert weights_of(tmp_path / "model") == weights_of(table.parent / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_train_streamed__label_too_rare_for_the_sample__learned_all_the_same(tmp_path):
    """One row in a hundred has it, and depth says which; none of the sample, which row numbers decide, has it."""
    frame, path = draw(6000, 3), tmp_path / "t.parquet"
    frame.to_parquet(path, row_group_size=1500)
    is_drawn = frame.depth.isin(stream.ParquetTable(path).sample(120, 0).depth)
    frame["sp_c"] = ((frame.depth > 0.98) & ~is_drawn).astype(int)
    frame.to_parquet(path, row_group_size=1500)
    assert stream.ParquetTable(path).sample(120, 0)["sp_c"].sum() == 0
    run = train_streamed(replace(settings(tmp_path / "m"), sample=120), tmp_path / "t.parquet")
    rare, common = run.model.predict_proba(pd.DataFrame({"depth": [0.995, 0.0], "slope": 0.0, "rain": 0.0}))[:, 2]
    assert rare > 10 * common
    stored = load_model(tmp_path / "m").extra_
    assert stored["prevalence"]["sp_c"] == pytest.approx(frame["sp_c"].mean(), abs=1e-6)


def test_train_streamed__label_that_is_never_there__refused_or_dropped(tmp_path):
    draw(1000, 3).assign(sp_c=0).to_parquet(tmp_path / "t.parquet")
    plain = replace(settings(tmp_path / "m"), sample=120)
    with pytest.raises(DataError, match=r"got 1 class in 'sp_c' \(prevalence 0\)"):
        train_streamed(plain, tmp_path / "t.parquet")
    run = train_streamed(replace(plain, drop_single_class=True, resume=False), tmp_path / "t.parquet")
    assert run.dropped_labels == ["sp_c"]
    assert list(run.model.label_names_) == ["sp_a", "sp_b"]


def test_train_streamed__table_no_larger_than_the_sample__trained_as_ever(tmp_path):
    draw(300, 0).to_parquet(tmp_path / "t.parquet")
    plain = {"labels": ("sp_*",), "quiet": True, "parameters": {"effort": "quick"}}
    train_streamed(TrainSettings(out=str(tmp_path / "a"), stream=True, **plain), tmp_path / "t.parquet")
    train(TrainSettings(out=str(tmp_path / "b"), **plain), tmp_path / "t.parquet")
    assert weights_of(tmp_path / "a") == weights_of(tmp_path / "b")


def test_train_streamed__bad_cell_far_behind_the_sample__named_by_its_row(table, tmp_path):
    frame = pd.read_parquet(table)
    bad = int(np.setdiff1d(np.arange(9000, 12_000), stream.ParquetTable(table).sample(600, 0).index)[0])
    frame.loc[bad, "sp_b"] = 7
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=1500)
    with pytest.raises(DataError, match=r"labels must be 0 or 1; got 7.*'sp_b'.*counted from row 9,000 of t\.parquet"):
        train_streamed(settings(tmp_path / "model"), tmp_path / "t.parquet")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("more", "name", "message"),
    [
        ({"model": "plain"}, "t.parquet", "must go with HOT-VAE and the recipe it finds itself; got model 'plain'"),
        ({"recipe": "paper"}, "t.parquet", "recipe it finds itself; got model 'hotvae' with recipe 'paper'"),
        ({}, "t.csv", r"must go with a Parquet table, or a folder of them; got 't\.csv'"),
        ({"label_table": "l.csv"}, "t.parquet", "one table with a row a site; got --label-table"),
    ],
)
def test_train_streamed__what_cannot_be_streamed__refused(tmp_path, more, name, message):
    plain = {"out": str(tmp_path / "m"), "labels": ("sp_*",), "stream": True}
    with pytest.raises(ConfigError, match=message):
        train_streamed(TrainSettings(**plain | more), tmp_path / name)


_PEAKS = """
import json, re, sys
from pathlib import Path
import hotvae.data.parquet as parquet, hotvae.training.sources as sources
from hotvae.jobs.settings import TrainSettings
from hotvae.jobs.stream import train_streamed
sources._WAITING_CELLS, parquet._CELLS = 600_000, 300_000
def fit(name):
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
    own = {"effort": "quick", "base": None, "joint": False}
    told = TrainSettings(out=name, labels=("sp_*",), quiet=True, stream=True, sample=200, parameters=own)
    train_streamed(told, f"{name}.parquet")
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024
print(json.dumps([fit("first"), fit("small"), fit("large")]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak of a part of a process")
def test_train_streamed__table_much_larger_than_what_is_held__memory_stays(tmp_path):
    """Ten times as many rows take no more memory, once there are enough of them to fill every buffer.

    The first fit loads what libraries load once. What may grow is what Parquet notes of each row group, and chance in
    what the allocator gives back: up to 18 MB were seen, a tenth of the rows that were added.
    """
    random = np.random.default_rng(0)
    sizes = {"first": 8_000, "small": 8_000, "large": 80_000}
    for name, n_rows in sizes.items():
        depth = random.normal(size=n_rows)
        labels = (random.normal(size=(300, 1)) > depth).astype(np.float64)  # as numbers, they take eight bytes each
        frame = pd.DataFrame({"depth": depth} | {f"sp_{i}": row for i, row in enumerate(labels)})
        frame.to_parquet(tmp_path / f"{name}.parquet", row_group_size=4_000)
    n_added = (sizes["large"] - sizes["small"]) * 301 * 8
    del frame, labels
    told = subprocess.run([sys.executable, "-c", _PEAKS], cwd=tmp_path, capture_output=True, text=True, check=True)
    _, small, large = json.loads(told.stdout.splitlines()[-1])
    assert large - small < n_added / 7, (small, large)
