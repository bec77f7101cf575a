"""Training jobs: a named data set, and what it brings."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hotvae import virtual_region
from hotvae.cli import main
from hotvae.data.catalog import CatalogData, describe
from hotvae.data.splits import split_dataset
from hotvae.estimators.registry import load_model

QUICK = ["--recipe", "network", "--epochs", "1", "--set", "encoder_widths=[8]", "--quiet"]
QUICK += ["--set", "given_epochs=1", "--set", "covariance_epochs=1"]


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
