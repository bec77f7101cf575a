import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hotvae import HotVAENetwork, virtual_region
from hotvae.cli import main
from hotvae.data.catalog import CatalogData, catalog_names, describe
from hotvae.data.dataset import Dataset
from hotvae.data.splits import split_dataset
from hotvae.errors import ConfigError, DataError
from hotvae.estimators.registry import CLASSIFIERS, find_classifier, load_model
from hotvae.jobs.settings import read_preset, train_settings

PRESETS = Path(__file__).parents[2] / "src" / "hotvae" / "jobs" / "presets"
QUICK = ["--epochs", "1", "--set", "encoder_widths=[8]", "--quiet"]


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
    return named, asked


@pytest.mark.parametrize("path", sorted(PRESETS.glob("*.toml")), ids=lambda path: path.stem)
def test_preset__every_file__is_a_named_set_with_settings_that_fit(path):
    assert path.stem in catalog_names()
    parameters = HotVAENetwork().get_params(deep=False)
    settings = train_settings(parameters, ("preset", read_preset(path.stem, parameters)))
    HotVAENetwork.from_settings(**settings.parameters)


def test_preset__parameters_the_model_lacks__left_out():
    assert "encoder_dropout" not in read_preset("bbs_like_ebird100", ["max_epochs"])


def test_train_data__tiny_set__measured_on_test_rows_and_noted(tiny_set, tmp_path, capsys):
    named, asked = tiny_set
    assert main(["train", "--data", "yeast", "--seed", "3", "--out", str(tmp_path / "m"), *QUICK, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert asked == [("yeast", 0, 3)]
    assert summary["n_train"] == len(named.split.train)
    assert summary["peak_memory_gb"] > 0
    model = load_model(tmp_path / "m")
    test = named.dataset.take(named.split.test)
    probs = model.predict_proba(pd.DataFrame(test.features, columns=test.feature_names))
    expected = -np.mean(test.labels * np.log(probs) + (1 - test.labels) * np.log(1 - probs))
    assert summary["test"]["log_loss"] == pytest.approx(expected, abs=1e-5)
    assert model.extra_["data"]["citation"] == named.entry.citation


@pytest.mark.slow
def test_train_data__command_line_wins_over_preset(tiny_set, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("hotvae.jobs.settings.read_preset", lambda name, known: {"dim": 16, "max_epochs": 7})
    arguments = [word for word in QUICK if word != "--quiet"]
    assert main(["train", "--data", "yeast", "--out", str(tmp_path / "m"), *arguments]) == 0
    model = load_model(tmp_path / "m")
    assert (model.dim, model.training.max_epochs) == (16, 1)
    assert capsys.readouterr().err.splitlines()[0] == "preset of yeast: dim=16"


@pytest.mark.slow
def test_train_data__coordinates_as_features__two_more_columns(tiny_set, tmp_path, capsys):
    named, _ = tiny_set
    arguments = ["train", "--data", "yeast", "--out", str(tmp_path / "m"), *QUICK, "--coordinates-as-features"]
    assert main(arguments) == 0
    assert load_model(tmp_path / "m").n_features_in_ == named.dataset.n_features + 2


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


def test_find_classifier__unknown__lists_them():
    with pytest.raises(ConfigError, match=r"model must be one of .*'hotvae'.*; got 'zzz'. Choose one of them."):
        find_classifier("zzz")


def test_models__command__lists_every_model_with_its_card(capsys):
    assert main(["models", "--json"]) == 0
    cards = {card["name"]: card for card in json.loads(capsys.readouterr().out)}
    assert set(cards) == set(CLASSIFIERS)
    assert all(card["citation"] != "none" and card["cost"] != "not measured" for card in cards.values())
    assert main(["models"]) == 0
    assert "Zhao" in capsys.readouterr().out


def test_with_coordinates_as_features__array__appended_in_order():
    data = Dataset([[1.0], [2.0]], [[0], [1]], feature_names=("depth",), coordinates=[[7.0, 50.0], [8.0, 51.0]])
    wider = data.with_coordinates_as_features()
    assert wider.features.tolist() == [[1.0, 7.0, 50.0], [2.0, 8.0, 51.0]]
    assert wider.feature_names == ("depth", "x", "y")
    assert wider.coordinates.tolist() == data.coordinates.tolist()


def test_with_coordinates_as_features__none_or_sparse__errors():
    from scipy import sparse

    plain = Dataset([[1.0]], [[0]])
    with pytest.raises(DataError, match="coordinates must be there to be features"):
        plain.with_coordinates_as_features()
    bag = replace(plain, features=sparse.csr_array([[1.0]]), coordinates=np.array([[0.0, 1.0]]))
    with pytest.raises(DataError, match="features must be a dense table to take coordinates"):
        bag.with_coordinates_as_features()


@pytest.mark.data
@pytest.mark.skipif("HOTVAE_DATA_DIR" not in os.environ, reason="HOTVAE_DATA_DIR is not set")
def test_train_data__eucalypts__runs(tmp_path, capsys):
    assert main(["train", "--data", "eucalypts_grampians", "--out", str(tmp_path / "m"), *QUICK]) == 0
    assert "on the test rows" in capsys.readouterr().out


def test_encoders_page__table__rendered_from_the_stored_results():
    from paper.presets_page import FILE, PAGE, SETS, render

    cells = json.loads(FILE.read_text(encoding="utf-8"))["cells"]
    assert [cell["set"] for cell in cells] == [name for name in SETS if name in {cell["set"] for cell in cells}]
    assert render(cells) in PAGE.read_text(encoding="utf-8")


def test_encoders_page__run_with_other_settings_than_today__is_marked():
    from paper.presets_page import EARLIER, FILE, is_current, render

    cell = json.loads(FILE.read_text(encoding="utf-8"))["cells"][0]
    preset = read_preset(cell["set"], HotVAENetwork.all_settings())
    cell["settings"] = HotVAENetwork.from_settings(**preset, random_state=0).current_settings()
    assert is_current(cell)
    assert f"| {cell['set']} |" in render([cell])
    assert EARLIER not in render([cell])
    cell["settings"]["dim"] += 1
    assert f"| {cell['set']} * |" in render([cell])
    assert EARLIER in render([cell])
    del cell["settings"]["dim"]
    assert not is_current(cell)
