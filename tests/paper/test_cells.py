"""One cell: which settings it gets, which rows it sees, what it measures."""

import os
import re
from dataclasses import replace

import numpy as np
import pytest

from hotvae.data.catalog import CatalogData, catalog_names, describe, load
from hotvae.data.dataset import Dataset
from hotvae.data.splits import split_dataset
from hotvae.data.synthetic import virtual_region
from hotvae.errors import ConfigError
from hotvae.estimators.network import NetworkClassifier
from hotvae.estimators.registry import find_classifier
from hotvae.estimators.thresholds import apply_thresholds, tune_thresholds
from hotvae.features import TRANSFORMERS
from hotvae.jobs.search_space import SPACES
from hotvae.metrics import MEASURES, log_loss, macro_f1
from paper import cells
from paper.cells import read_parts, recipe_of, run_cell
from paper.experiments import EXPERIMENTS, PAPER_MODEL, PARTS, TUNED, Cell, searched_sets
from paper.measuring import sets_here
from paper.presets import PRESETS

JOINT = ("probit", "mpvae")  # whose communities are drawn whole
RECIPES = ("hotvae", "paper")  # how these draw them, their recipe says
TINY = {"max_epochs": 1, "encoder_widths": [8], "dim": 8, "covariance_epochs": 1}


@pytest.fixture
def named(monkeypatch, tmp_path):
    """A catalogue of one set of ours, under any name."""

    def use(features, labels, path=None):
        data = Dataset(features, labels)
        split = split_dataset(data, kind="random", fractions=(0.6, 0.2, 0.2), random_state=0)
        made = CatalogData(describe("yeast"), data, split, path or tmp_path / "set.npz")
        monkeypatch.setattr(cells, "load", lambda name, *, split, seed: made)
        return made

    return use


# --- settings --------------------------------------------------------------------------------------------


def test_recipe__start_from_a_ridge__is_every_networks_or_nobodys():
    for data in ("bibtex", "reuters", "mirflickr_tags"):
        for model in ("plain", "mpvae", "lamp", "seq2seq", "c2ae"):
            assert recipe_of(Cell("tables", model, model, data)).parameters["base"] == "ridge", (data, model)


def test_recipe__rival__how_rows_are_read_but_nothing_of_hotvae_itself():
    preset = recipe_of(Cell("tables", "mpvae", "mpvae", "bbs_like_ebird100"))
    assert preset.coordinates_as_features
    assert preset.parameters["encoder_widths"] == (512, 512, 512)
    assert not {"kl_weight", "direct_epochs", "dim", "batch_size"} & set(preset.parameters)
    assert recipe_of(Cell("tables", "boosting", "boosting", "reuters")).parameters == {}
    assert "encoder" not in recipe_of(Cell("tables", "lamp", "lamp", "yeast")).parameters
    assert recipe_of(Cell("tables", "lamp", "lamp", "reuters")).parameters["encoder"] == "bag"


def test_recipe__set_without_preset__that_of_a_set_like_it():
    assert recipe_of(Cell("c", "plain", "plain", "norberg_vegetation")).coordinates_as_features
    assert recipe_of(Cell("c", "plain", "plain", "norberg_plant")).parameters["max_epochs"] == 125


@pytest.mark.parametrize("model", ["plain", "mpvae", "probit", "lamp", "seq2seq", "c2ae"])
@pytest.mark.parametrize("data", sorted(catalog_names()))
def test_recipe_of__network_beside_hotvae__reads_rows_as_it_does(data, model):
    """How a table is scaled, clamped and placed on the map is no merit of a model."""
    own, rival = (recipe_of(Cell("c", name, name, data)) for name in ("hotvae_network", model))
    front = {name for kind in TRANSFORMERS.values() for name in kind().get_params()} & set(rival.cls.all_settings())
    told = {name: value for name, value in own.parameters.items() if name in front}
    assert {name: rival.parameters.get(name) for name in told} == told
    assert rival.coordinates_as_features == own.coordinates_as_features


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("HOTVAE_DATA_DIR"), reason="needs the data sets in HOTVAE_DATA_DIR")
@pytest.mark.filterwarnings("ignore::hotvae.errors.DataWarning")  # of a constant column
@pytest.mark.parametrize("data", [name for name in catalog_names() if describe(name).features == "numeric"])
def test_read_parts__set_with_coordinates__every_rival_sees_them(data):
    """HOT-VAE is told where rows are; trees without the two columns would be no rival."""
    if not sets_here([data]):
        pytest.skip(f"{data} is not on this machine")
    named = load(data)
    for model in ("extra_trees", "mpvae", "probit", "chain_ensemble"):
        cell = Cell("c", model, model, data)
        n_columns = read_parts(cell, recipe_of(cell)).train[0].shape[1]
        assert n_columns == named.dataset.n_features + 2 * (named.dataset.coordinates is not None)


def test_recipe__rival__trains_as_long_as_hotvae_and_never_shorter_than_its_own_default():
    """The preset of norberg_birds has 125 epochs, that of delicious fewer than a network's own 40."""
    for data, longest in (("norberg_birds", 125), ("delicious", 40)):
        for model in ("plain", "mpvae", "probit"):
            assert recipe_of(Cell("c", model, model, data)).parameters["max_epochs"] == longest
    assert recipe_of(Cell("c", "plain", "plain", "bbs_like_ebird100")).parameters["batch_size"] == 128


def test_recipe__settings_of_the_cell__win_over_the_preset():
    assert (
        recipe_of(Cell("f", "3 layers", "hotvae_network", "bibtex", settings={"n_layers": 3})).parameters["n_layers"]
        == 3
    )


def test_recipe__default__nothing_is_told_whatever_the_set():
    for data in ("bbs_like_ebird100", "reuters", "sider", "scene"):
        assert recipe_of(Cell("tables", "hotvae", "hotvae", data)).to_dict() == {"coordinates_as_features": False}


def test_recipe__paper__nothing_of_the_preset_but_what_a_row_is():
    assert recipe_of(Cell("tables", "paper", PAPER_MODEL, "bbs_like_ebird100")).to_dict() == {
        "coordinates_as_features": True,
        "encoder": "mlp",
    }
    words = recipe_of(Cell("tables", "paper", PAPER_MODEL, "reuters")).parameters
    assert words == {"encoder": "bag", "max_words": 10000}


def test_parts__default__whole_data_sets_with_places_texts_as_they_are(named):
    import pandas as pd

    cell = Cell("tables", "hotvae", "hotvae", "virtual-50-4")
    parts = read_parts(cell, recipe_of(cell))
    assert parts.train[0].coordinates.shape == (30, 2)
    named(
        pd.DataFrame({"text": [f"word{i}" for i in range(50)]}),
        np.column_stack([np.arange(50) % 2, np.arange(50) % 3 > 0]),
    )
    cell = Cell("tables", "hotvae", "hotvae", "reuters")
    assert list(read_parts(cell, recipe_of(cell)).test[0].features.columns) == ["text"]


@pytest.mark.slow
def test_run_cell__default__its_parts_are_measured_with_its_fit():
    """Worked again: the part is the model's own, stacked without the others."""
    cell = Cell("tables", "hotvae", "hotvae", "virtual-120-4", settings={"effort": "quick"})
    measured, parts = run_cell(cell), read_parts(cell, recipe_of(cell))
    line = measured.line
    model = find_classifier("hotvae")(effort="quick", random_state=0)
    model.fit(parts.train[0], validation=parts.validation[0])
    kinds = {candidate.kind for candidate, _ in model.members_}
    assert set(line["alone"]) == set(measured.parts) == {name for name, own in PARTS.items() if kinds & set(own)}
    assert line["metrics"]["honest"]["log_loss"] == pytest.approx(
        log_loss(parts.test[1], model.predict_proba(parts.test[0])), abs=1e-6
    )
    for name in line["alone"]:
        probs = model.alone(PARTS[name]).predict_proba(parts.test[0])
        found = line["alone"][name]["metrics"]["honest"]["log_loss"]
        assert found == pytest.approx(log_loss(parts.test[1], probs), abs=1e-6)
        assert measured.parts[name]["log_loss"].sum() / parts.test[1].size == pytest.approx(found, abs=1e-5)
    assert [entry["name"] for entry in line["found"]["entries"]] == [entry.name for entry in model.recipe_.entries]


def test_recipe__tuned_file__stands_in_the_place_of_the_preset(tmp_path, monkeypatch):
    """A search writes all settings down: what the preset of HOT-VAE says later is not the rival's."""
    monkeypatch.setattr(cells, "TUNED", tmp_path)
    (tmp_path / "bibtex.mpvae.toml").write_text("kl_weight = 0.25\nencoder_dropout = 0.5\n")
    cell = Cell("tables", "mpvae", "mpvae", "bibtex")
    assert recipe_of(cell).parameters == {"kl_weight": 0.25, "encoder_dropout": 0.5}
    told = recipe_of(replace(cell, settings={"encoder_dropout": 0.1})).parameters
    assert told == {"kl_weight": 0.25, "encoder_dropout": 0.1}


def test_tuned__every_searched_set__all_models_had_the_same_budget():
    """The command of a search stands in its file; HOT-VAE's file is the preset."""
    for data in searched_sets():
        commands = {}
        for model in SPACES:
            path = TUNED / f"{data}.{model}.toml" if model != "hotvae_network" else PRESETS / f"{data}.toml"
            words = re.search(r"^# hotvae tune (.*)$", path.read_text(), re.MULTILINE)[1].split()
            assert words[words.index("--out") + 1] == path.name
            # The network was called hotvae when it was searched for.
            commands[model] = [word for word in words if word not in ("--model", model, "hotvae", path.name)]
        assert all(command == commands["hotvae_network"] for command in commands.values())
        assert "--budget" in commands["hotvae_network"]


def test_recipe__unknown_setting__variant_named():
    with pytest.raises(ConfigError, match=r"got 'n_layer' \(variant x\). Did you mean 'n_layers'"):
        recipe_of(Cell("tables", "x", "hotvae_network", "yeast", settings={"n_layer": 1}))


def test_recipe__every_declared_cell__has_settings_that_fit():
    for experiment in EXPERIMENTS.values():
        for cell in experiment.cells():
            if cell.seed == 0:
                recipe = recipe_of(cell)
                recipe.cls.from_settings(**recipe.parameters).check_parameters()


# --- data ------------------------------------------------------------------------------------------------


def test_recipe__words_of_a_model_of_tables__are_among_its_settings():
    # A preset with other words makes another table of the texts: results of before must not count as done.
    recipe = recipe_of(Cell("tables", "ridge", "ridge", "reuters"))
    assert recipe.to_dict()["words"] == {"max_words": 10000}
    assert "words" not in recipe_of(Cell("tables", "lamp", "lamp", "reuters")).to_dict()  # it reads them itself
    assert "words" not in recipe_of(Cell("tables", "ridge", "ridge", "yeast")).to_dict()


def test_parts__texts_for_a_model_of_tables__words_of_training_rows_only(named):
    import pandas as pd

    texts = [f"common own{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(50)]
    labels = np.arange(50) % 2
    made = named(pd.DataFrame({"text": texts}), np.column_stack([labels, 1 - labels]))
    cell = Cell("tables", "ridge", "ridge", "reuters")
    parts = read_parts(cell, replace(recipe_of(cell), words={"min_word_count": 1}))
    assert parts.train[0].shape == (30, 31)  # one word of its own for each training row, and the common one
    assert parts.test[0].nnz == 10  # of a test row the common word alone is known
    np.testing.assert_array_equal(parts.split.test, made.split.test)


def test_parts__molecules_for_a_model_of_tables__elements(named):
    import pandas as pd

    smiles = ["CCO", "CCN", "CCCl", "CCBr", "CCS"] * 8
    named(pd.DataFrame({"smiles": smiles}), np.column_stack([np.arange(40) % 2, np.arange(40) % 3 == 0]))
    cell = Cell("tables", "mlknn", "mlknn", "sider")
    parts = read_parts(cell, recipe_of(cell))
    assert parts.train[0].shape[1] <= 6
    assert set(np.unique(parts.test[0])) <= {0.0, 1.0}


def test_parts__virtual_region__seed_draws_the_rows_not_the_region():
    one, two = (Cell("f", "m", "mlknn", "virtual-60-4", seed=seed) for seed in (0, 1))
    first, second = (read_parts(cell, recipe_of(cell)) for cell in (one, two))
    assert not np.array_equal(first.split.test, second.split.test)
    region = virtual_region(60, 4, random_state=0).dataset
    np.testing.assert_array_equal(second.test[1], region.labels[second.split.test])


# --- measuring -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_smoke__every_experiment__every_cell_is_measured(smoke_results):
    assert {place[0] for place in smoke_results} == set(EXPERIMENTS)
    for (experiment, variant, *_), (cell, measured) in smoke_results.items():
        assert set(measured.line["metrics"]) == {"honest", "oracle"}, (experiment, variant)
        assert measured.line["metrics"]["oracle"]["macro_f1"] >= measured.line["metrics"]["honest"]["macro_f1"] - 1e-12
        assert measured.line["fit_seconds"]["wall"] >= 0
        assert measured.line["n_rows"] == [48, 16, 16]
        for name in ("versions", "recipe", "settings", "thresholds", "peak_memory_gb"):
            assert measured.line[name], name
        neural = issubclass(recipe_of(cell).cls, NetworkClassifier)
        assert (measured.line["epoch"] == 1) == neural


@pytest.mark.slow
def test_smoke__communities__both_dialects_and_all_measures(smoke_results):
    for (experiment, variant, *_), (_, measured) in smoke_results.items():
        if experiment != "communities":
            continue
        ecology = measured.line["ecology"]
        assert set(ecology["gomes"]) == set(ecology["norberg"]) == set(MEASURES)
        assert 0 <= ecology["richness_coverage"] <= 1
        if variant not in RECIPES:
            assert ecology["draws"] == ("joint" if variant in JOINT else "independent")
        assert ("gomes_drawn_apart" in ecology) == (ecology["draws"] == "joint")
        if ecology["draws"] == "joint":
            # What needs no draw is the same; what does is not.
            apart, together = ecology["gomes_drawn_apart"], ecology["gomes"]
            same = [name for name in MEASURES if name.startswith("occ") or name in ("rich_accuracy",)]
            assert all(apart[name] == together[name] for name in same)
            assert any(apart[name] != together[name] for name in MEASURES)


def test_run_cell__honest_protocol__thresholds_of_validation_rows_only():
    """Worked again from the parts: what is stored is what validation thresholds give on test rows."""
    cell = Cell("tables", "mlknn", "mlknn", "virtual-100-5")
    measured, parts = run_cell(cell), read_parts(cell, recipe_of(cell))
    model = find_classifier("mlknn")(random_state=0).fit(*parts.train, validation=parts.validation)
    probs = model.predict_proba(parts.test[0])
    chosen = tune_thresholds(parts.validation[1], model.predict_proba(parts.validation[0]))
    assert measured.line["thresholds"]["honest"] == chosen
    expected = macro_f1(parts.test[1], apply_thresholds(probs, chosen["macro_f1"]))
    assert measured.line["metrics"]["honest"]["macro_f1"] == pytest.approx(expected)
    assert measured.line["metrics"]["honest"]["log_loss"] == pytest.approx(log_loss(parts.test[1], probs))


def test_run_cell__test_labels_shuffled__nothing_chosen_changes(named):
    """Epoch and honest thresholds are the same whatever the test labels are."""
    region = virtual_region(120, 6, random_state=0).dataset
    chosen = []
    for shuffle in (False, True):
        labels = region.labels.copy()
        test = split_dataset(
            Dataset(region.features, labels), kind="random", fractions=(0.6, 0.2, 0.2), random_state=0
        ).test
        if shuffle:
            labels[test] = 1 - labels[test]
        named(region.features, labels)
        line = run_cell(
            Cell("tables", "plain", "plain", "yeast", settings={"max_epochs": 4, "encoder_widths": [16]})
        ).line
        chosen.append((line["epoch"], line["thresholds"]["honest"]))
    assert chosen[0] == chosen[1]


def test_pairs_of_sites__two_models_and_two_seeds__are_the_same(monkeypatch):
    seen = []

    def remember(labels, *, pairs, **rest):
        seen.append(pairs.copy())
        return dict.fromkeys(MEASURES, 0.0)

    monkeypatch.setattr(cells, "all_measures", remember)
    for model, seed in (("prevalence", 0), ("mlknn", 1)):
        run_cell(Cell("c", model, model, "virtual-60-4", seed=seed, measures=("ecology",), n_draws=2, n_pairs=7))
    assert len(seen) == 4  # two dialects each
    assert all(np.array_equal(seen[0], other) for other in seen[1:])


# --- real data -------------------------------------------------------------------------------------------


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("HOTVAE_DATA_DIR"), reason="needs the data sets in HOTVAE_DATA_DIR")
def test_run_cell__sider_by_elements__better_than_prevalence():
    lines = [run_cell(Cell("tables", model, model, "sider")).line for model in ("ridge", "prevalence")]
    assert lines[0]["n_rows"] == [1136, 147, 144]
    assert lines[0]["metrics"]["honest"]["log_loss"] < lines[1]["metrics"]["honest"]["log_loss"]
