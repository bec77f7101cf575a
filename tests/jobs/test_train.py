"""Training jobs: a named data set, and what it brings."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hotvae import HotVAEClassifier, virtual_region
from hotvae.cli import main
from hotvae.data.catalog import CatalogData, describe
from hotvae.data.splits import split_dataset
from hotvae.estimators.registry import load_model
from hotvae.jobs.settings import TrainSettings
from hotvae.jobs.train import read_job

QUICK = ["--recipe", "network", "--epochs", "1", "--set", "encoder_widths=[8]", "--quiet"]


@pytest.fixture
def tiny_set(monkeypatch):
    """A named set of our own, in the place of yeast."""
    data = virtual_region(120, random_state=0).dataset
    named = CatalogData(describe("yeast"), data, split_dataset(data, random_state=0), Path("yeast.npz"))
    asked = []

    def load(name, *, split, seed):
        asked.append((name, split, seed))
        return named

    monkeypatch.setattr("hotvae.jobs.train.load", load)
    monkeypatch.setattr("hotvae.jobs.explain.load", load)
    return named, asked


def test_train_data__tiny_set__measured_on_test_rows_and_noted(tiny_set, tmp_path, capsys):
    named, asked = tiny_set
    assert main(["train", "--data", "yeast", "--seed", "3", "--out", str(tmp_path / "m"), *QUICK, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert asked == [("yeast", 0, 3)]
    assert summary["n_train"] == len(named.split.train)
    assert summary["peak_memory_gb"] > 0
    model = load_model(tmp_path / "m")
    test = named.dataset.with_coordinates_as_features().take(named.split.test)
    probs = model.predict_proba(pd.DataFrame(test.features, columns=test.feature_names))
    expected = -np.mean(test.labels * np.log(probs) + (1 - test.labels) * np.log(1 - probs))
    assert summary["test"]["log_loss"] == pytest.approx(expected, abs=1e-5)
    assert model.extra_["data"]["citation"] == named.entry.citation


def test_train_data__coordinates__are_features_and_no_longer_an_option(tiny_set, tmp_path, capsys):
    named, _ = tiny_set
    arguments = ["train", "--data", "yeast", "--out", str(tmp_path / "m"), *QUICK]
    assert main(arguments) == 0
    names = load_model(tmp_path / "m").feature_names_in_.tolist()
    assert names == [*named.dataset.feature_names, *named.dataset.coordinate_names]
    assert main([*arguments, "--set", "coordinates_as_features=true"]) == 2
    assert "setting must be an option or a parameter; got 'coordinates_as_features'" in capsys.readouterr().err


@pytest.mark.slow
def test_explain__model_of_a_named_set__takes_its_test_rows_with_their_coordinates(tiny_set, tmp_path, capsys):
    named, asked = tiny_set
    model, page = str(tmp_path / "m"), tmp_path / "page.html"
    assert main(["train", "--data", "yeast", "--seed", "3", "--model", "logistic", "--quiet", "--out", model]) == 0
    capsys.readouterr()
    assert main(["explain", model, "--out", str(page), "--quiet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_rows"] == len(named.split.test)
    assert asked == [("yeast", 0, 3)] * 2
    assert f"{len(named.split.test)} (test rows of yeast)" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "m"], "data must be a TABLE or --data NAME; got none"),
        (["t.csv", "--data", "yeast", "--out", "m"], "data must be a TABLE or --data NAME; got both"),
        (["--data", "yeast", "--labels", "sp_*", "--out", "m"], "labels must be left out with a named data set"),
        (["--data", "yeats", "--out", "m"], "data set must be one of the catalogue; got 'yeats' (close: 'yeast')"),
        (["--data", "yeast", "--model", "plan", "--out", "m"], "got 'plan'. Did you mean 'plain'?"),
    ],
)
def test_train_data__mistakes__one_line_errors(arguments, message, capsys):
    assert main(["train", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.data
@pytest.mark.skipif("HOTVAE_DATA_DIR" not in os.environ, reason="HOTVAE_DATA_DIR is not set")
def test_train_data__eucalypts__runs(tmp_path, capsys):
    assert main(["train", "--data", "eucalypts_grampians", "--out", str(tmp_path / "m"), *QUICK]) == 0
    assert "on the test rows" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "split", "told"),
    [
        ("yeast", "auto", "auto"),
        ("yeast", "random", "rows"),
        ("eucalypts_grampians", "auto", "rows"),
        ("eucalypts_grampians", "block", "blocks"),
    ],
)
def test_read_job__named_set__holds_out_as_its_test_rows_were_drawn_unless_told(
    tiny_set, monkeypatch, name, split, told
):
    named = replace(tiny_set[0], entry=describe(name))
    monkeypatch.setattr("hotvae.jobs.train.load", lambda *_, **__: named)
    model = HotVAEClassifier(random_state=0)
    read_job(model, TrainSettings(data=name, split=split), None)
    assert model.hold_out == told


def small_table(path, n_rows=40):
    rows = "".join(f"{i},{i % 2},{(i // 2) % 2}\n" for i in range(n_rows))
    path.write_text("depth,sp_owl,sp_wren\n" + rows)
    return str(path)


def refused(capsys, *arguments):
    assert main([str(argument) for argument in arguments]) == 2
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return printed.err.splitlines()[-1]


def test_train__fold_with_a_table__is_refused(tmp_path, capsys):
    table = small_table(tmp_path / "t.csv")
    said = refused(capsys, "train", table, "--labels", "sp_*", "--fold", 2, "--out", tmp_path / "m", *QUICK)
    assert "fold must go with a named data set (--data); got 2 and a table" in said


def test_train__validation_is_the_table__is_refused(tmp_path, capsys):
    table, copy = small_table(tmp_path / "t.csv"), small_table(tmp_path / "copy.csv")
    for other in (table, copy):
        arguments = ["train", table, "--labels", "sp_*", "--validation", other, "--out", tmp_path / "m", *QUICK]
        assert "validation must have rows of its own; got " in refused(capsys, *arguments)


def test_train__a_million_threads__are_refused(tmp_path, capsys):
    table = small_table(tmp_path / "t.csv")
    said = refused(capsys, "train", table, "--labels", "sp_*", "--threads", 1_000_000, "--out", tmp_path / "m", *QUICK)
    assert "n_threads must be a whole number of at most 1024; got 1000000" in said


def test_train__out_that_cannot_be__is_refused_before_training(tmp_path, capsys, monkeypatch):
    table = small_table(tmp_path / "t.csv")
    monkeypatch.setattr("hotvae.jobs.train.read_job", lambda *_, **__: pytest.fail("read before it was refused"))
    said = refused(capsys, "train", table, "--labels", "sp_*", "--out", tmp_path / ("m" * 300), *QUICK)
    assert "name must have at most 200 bytes" in said
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    said = refused(capsys, "train", table, "--labels", "sp_*", "--out", tmp_path / "loop", *QUICK)
    assert "must not be a link to itself" in said


def test_train__out_through_a_link__is_saved_where_it_leads(tmp_path):
    table = small_table(tmp_path / "t.csv")
    (tmp_path / "first").mkdir()
    (tmp_path / "latest").symlink_to(tmp_path / "first")
    for _ in range(2):
        assert main(["train", table, "--labels", "sp_*", "--out", str(tmp_path / "latest"), *QUICK]) == 0
    assert (tmp_path / "latest").is_symlink()
    assert list(load_model(tmp_path / "first").label_names_) == ["sp_owl", "sp_wren"]


def test_train__disk_fills_up__is_one_sentence(tmp_path, capsys, monkeypatch):
    table = small_table(tmp_path / "t.csv")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hotvae.checkpoint.os.fsync", full)
    said = refused(capsys, "train", table, "--labels", "sp_*", "--out", tmp_path / "m", *QUICK)
    assert "No space left on device" in said
