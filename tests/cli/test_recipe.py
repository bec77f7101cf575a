"""``hotvae train`` without settings: it finds its own recipe, says so, and goes on where it was killed."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hotvae import load_model
from hotvae.cli import main
from hotvae.estimators import hotvae as hotvae_module
from hotvae.estimators import recipe
from tests.cli.region import LABELS, ROLES

WHERE = ["easting_km", "northing_km"]
# Without --id-column: that `site` is an identifier is found out.
TRAIN = ["--labels", "sp_*", "--coordinates", ",".join(WHERE), "--effort", "quick"]


@pytest.fixture(scope="module", autouse=True)
def small_members():
    """Plans of as many folds and members as ever, of a few trees and epochs each."""
    patch = pytest.MonkeyPatch()
    small = {"n_trees": 10, "max_epochs": 3, "law_effort": 0.1}
    patch.setattr(hotvae_module, "plan_for", lambda *size: replace(recipe.plan_for(*size), **small))
    yield
    patch.undo()


@pytest.fixture(scope="module")
def chosen(folder, tmp_path_factory):
    """A model that found its own recipe."""
    out = tmp_path_factory.mktemp("recipe") / "model"
    assert main(["train", str(folder / "region.csv"), *TRAIN, "--quiet", "--out", str(out)]) == 0
    return out


@pytest.fixture
def fits(monkeypatch):
    """Names of the candidates that were fitted, in order; ``stop_at`` kills the run at a fit."""

    class Fits(list):
        stop_at = None

    done, fit_member = Fits(), recipe.fit_member

    def noted(candidate, *arguments, **options):
        if done.stop_at == len(done):
            raise KeyboardInterrupt
        done.append(candidate.name)
        return fit_member(candidate, *arguments, **options)

    monkeypatch.setattr(recipe, "fit_member", noted)
    return done


# --- what is printed -------------------------------------------------------------------------------------


def test_train__no_settings__says_a_line_for_each_decision_and_all_in_json(folder, tmp_path, run):
    code, out, err = run("train", folder / "region.csv", *TRAIN, "--json", "--out", tmp_path / "m")
    summary, lines = json.loads(out), err.splitlines()
    assert code == 0
    assert lines[:4] == [
        "hotvae: columns: 1 identifier left out: site",
        "hotvae: columns: 7 numbers: temperature, rainfall, elevation, +4 more",
        "hotvae: columns: 2 coordinates: easting_km, northing_km",
        "hotvae: held out: 3 folds of whole blocks of the map",
    ]
    assert [line.removeprefix("hotvae: ") for line in lines[:4]] == summary["recipe"][:4]
    assert lines[-1] == f"hotvae: {summary['recipe'][-1]}"
    assert summary["recipe"][-2].startswith("stack: ")
    assert summary["recipe"][-1].startswith("labels together: ")
    assert summary["recipe"] == load_model(tmp_path / "m").recipe_.lines()
    expected = {"kind": "HotVAEClassifier", "n_train": 120, "n_validation": 0, "resumed": False, "best_epoch": None}
    assert {name: summary[name] for name in expected} == expected
    assert summary["split"] == "3 folds of whole blocks of the map"
    assert summary["validation"]["n_rows"] == 120  # each row was held out once


def test_train__no_settings__coordinates_are_features_and_places(folder, chosen):
    model = load_model(chosen)
    assert model.extra_["coordinates"] == WHERE
    assert [model.features_.columns_out[i] for i in model.features_.places] == WHERE
    table = pd.read_csv(folder / "new.csv")
    moved = table.assign(easting_km=table["easting_km"][::-1].to_numpy())
    probs = [model.predict_proba(rows[list(model.feature_names_in_)]) for rows in (table, moved)]
    assert not np.allclose(*probs)


def test_train__quiet_text__says_the_recipe_in_a_line_and_nothing_else_on_stderr(folder, tmp_path, run):
    code, out, err = run("train", folder / "region.csv", *TRAIN, "--quiet", "--out", tmp_path / "m")
    assert (code, err) == (0, "")
    shown = {line[:11].strip(): line[12:] for line in out.splitlines()}
    assert shown["rows"] == "120 (3 folds of whole blocks of the map)"
    assert shown["recipe"] == load_model(tmp_path / "m").recipe_.lines()[-1]
    assert "on rows held out, which also chose the thresholds:" in out


@pytest.mark.parametrize(
    ("options", "how"),
    [
        (["--split", "stratified"], "3 folds of single rows"),
        (["--groups", "valley"], "3 folds of whole groups"),
        (["--groups", "valley", "--split", "block"], "3 folds of whole blocks of the map"),
    ],
)
def test_train__split__says_what_is_held_out_together(folder, tmp_path, run, options, how):
    table = pd.read_csv(folder / "region.csv").assign(valley=np.arange(120) // 20)
    table.to_csv(tmp_path / "t.csv", index=False)
    arguments = ["train", tmp_path / "t.csv", *TRAIN, *options, "--quiet", "--json", "--out", tmp_path / "m"]
    assert json.loads(run(*arguments)[1])["split"] == how


def test_train__validation_file__chooses_the_thresholds(folder, tmp_path, run):
    options = ["--validation", folder / "new.csv", "--quiet", "--json", "--out", tmp_path / "m"]
    summary = json.loads(run("train", folder / "region.csv", *TRAIN, *options)[1])
    assert (summary["n_train"], summary["n_validation"], summary["split"]) == (120, 60, "file")
    assert summary["validation"]["n_rows"] == 60


def test_train__nothing_to_learn__is_how_common_labels_are(tmp_path, run):
    """Labels change from row to row: whatever is learned of the neighbours of a row is wrong of it."""
    rows = np.arange(60)
    table = pd.DataFrame({"depth": rows, "sp_owl": rows % 2, "sp_wren": (rows + 1) % 2})
    table.to_csv(tmp_path / "t.csv", index=False)
    options = ["--labels", "sp_*", "--effort", "quick", "--quiet", "--json", "--out", tmp_path / "m"]
    code, out, err = run("train", tmp_path / "t.csv", *options)
    assert code == 0, err
    assert json.loads(out)["recipe"][-2].startswith("stack: nothing but how common each label is; log loss 0.69")
    np.testing.assert_allclose(load_model(tmp_path / "m").predict_proba(table[["depth"]]), 0.5, atol=0.05)


# --- effort and settings ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_train__effort_in_seconds__is_a_plan_that_fits_in(folder, tmp_path, run, monkeypatch):
    """Seconds are counted as work, so that a plan does not hang on the machine: half of one is a quick one here."""
    monkeypatch.setattr(hotvae_module, "plan_for", recipe.plan_for)  # whole
    arguments = ["train", folder / "region.csv", *TRAIN[:4], "--effort", "0.5", "--quiet", "--out", tmp_path / "m"]
    assert run(*arguments)[0] == 0
    model = load_model(tmp_path / "m")
    assert model.effort == 0.5
    assert model.recipe_.plan == recipe.plan_for(120, 9, 6, 0.5) == recipe.plan_for(120, 9, 6, "quick")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--effort", "fast"], "effort must be one of 'quick', 'normal', 'thorough'; got 'fast'"),
        (["--effort", "-3"], "effort must be a number above 0; got -3"),
        (["--epochs", "3"], "epochs must go with a network of your own; got it where HOT-VAE finds its own recipe"),
        (["--set", "dim=8"], "dim must go with a network of your own"),
        (["--set", "encoder=text"], "Set recipe to network, or leave it out."),
        (["--validation-fraction", "0.1"], "validation_fraction must go with a network of your own"),
        (["--set", "efort=quick"], "got 'efort' (command line). Did you mean 'effort'"),
        (["--split", "group"], "rows must have groups to be held out by them"),
        (["--recipe", "network"], "setting must be an option or a parameter; got 'effort'"),
    ],
)
def test_train__setting_that_does_not_fit__is_refused(folder, tmp_path, fails, options, message):
    assert message in fails("train", folder / "region.csv", *TRAIN, "--quiet", "--out", tmp_path / "m", *options)
    assert not (tmp_path / "m").exists()


def test_train__network_with_coordinates__holds_out_blocks(folder, tmp_path, run):
    small = ["--recipe", "network", "--epochs", "1", "--set", "encoder_widths=[8]", "--quiet", "--json"]
    summary = json.loads(run("train", folder / "region.csv", *ROLES, *small, "--out", tmp_path / "m")[1])
    assert (summary["split"], summary["recipe"]) == ("block", None)
    assert summary["n_features"] == 9


# --- the model is used -----------------------------------------------------------------------------------


def test_predict__columns_that_were_left_out__need_not_be_there(folder, chosen, tmp_path, run):
    new = pd.read_csv(folder / "new.csv").drop(columns=LABELS)
    new.to_csv(tmp_path / "all.csv", index=False)
    new.drop(columns="site").to_csv(tmp_path / "fewer.csv", index=False)
    found = []
    for name in ("all", "fewer"):
        code, _, err = run("predict", chosen, tmp_path / f"{name}.csv", "--out", tmp_path / f"{name}-p.csv")
        assert code == 0, err
        found.append(pd.read_csv(tmp_path / f"{name}-p.csv")[LABELS])
    pd.testing.assert_frame_equal(*found)
    expected = load_model(chosen).predict_proba(new)
    np.testing.assert_allclose(found[0], expected, rtol=1e-6)


def test_info__own_recipe__shown_whole(chosen, run):
    model = load_model(chosen)
    result = json.loads(run("info", chosen, "--json")[1])
    assert result["recipe"] == json.loads(json.dumps(model.recipe_.state()))
    assert result["recipe_lines"] == model.recipe_.lines()
    lines = run("info", chosen)[1].splitlines()
    assert [line[12:] for line in lines[-len(model.recipe_.lines()) :]] == model.recipe_.lines()
    assert [line for line in lines if line.startswith("recipe ")] == [f"recipe      {model.recipe_.lines()[0]}"]
    assert "rows        120 (3 folds of whole blocks of the map)" in lines


def test_info__network__has_no_recipe(folder, run):
    result = json.loads(run("info", folder / "model", "--json")[1])
    assert (result["recipe"], result["recipe_lines"]) == (None, None)
    assert "recipe " not in run("info", folder / "model")[1].replace("--recipe ", "")


# --- interrupted training --------------------------------------------------------------------------------


@pytest.fixture
def killed(folder, tmp_path, run, fits):
    """A run that was killed at its fourth fit: trees, ridge and network of the race are there."""
    arguments = ["train", folder / "region.csv", *TRAIN, "--out", tmp_path / "m"]
    fits.stop_at = 3
    code, out, err = run(*arguments)
    assert (code, out) == (130, "")
    assert err.endswith(f"interrupted; the same command goes on from {tmp_path / 'm.state'}\n")
    assert len(list((tmp_path / "m.state").glob("*.safetensors"))) == 3
    assert not (tmp_path / "m").exists()
    fits.stop_at = None
    fits.clear()
    return arguments


def test_train__killed_and_repeated__fits_the_rest_and_ends_as_if_undisturbed(killed, folder, tmp_path, run, fits):
    code, out, err = run(*killed, "--json")
    n_left = len(fits)
    assert code == 0
    assert "m.state is left of an interrupted run: going on" in err
    assert json.loads(out)["resumed"] is True
    assert not (tmp_path / "m.state").exists()
    fits.clear()
    assert run(*killed[:-1], tmp_path / "undisturbed", "--quiet")[0] == 0
    assert len(fits) == n_left + 3
    new = pd.read_csv(folder / "new.csv").drop(columns=LABELS)
    first, second = load_model(tmp_path / "m"), load_model(tmp_path / "undisturbed")
    np.testing.assert_array_equal(first.predict_proba(new), second.predict_proba(new))
    assert first.thresholds_ == second.thresholds_
    assert first.recipe_.lines() == second.recipe_.lines()


def test_train__killed_and_started_afresh__fits_all(killed, tmp_path, run, fits):
    code, out, err = run(*killed, "--no-resume", "--json")
    assert code == 0
    assert "going on" not in err
    assert json.loads(out)["resumed"] is False
    names = [entry.name for entry in load_model(tmp_path / "m").recipe_.entries]
    assert fits[: len(names)] == names
    assert not (tmp_path / "m.state").exists()


@pytest.mark.parametrize("change", [["--seed", "7"], ["--effort", "normal"], ["--drop", "forest"]])
def test_train__killed_and_changed__asks_for_a_fresh_start(killed, tmp_path, fails, change):
    message = fails(*killed, *change)
    assert "state must be of this run; got one of other rows or settings" in message
    assert message.endswith("Or pass --no-resume to start afresh.")
    assert (tmp_path / "m.state").exists()


def test_train__killed_and_damaged__asks_for_a_fresh_start(killed, tmp_path, fails):
    for file in (tmp_path / "m.state").glob("*.safetensors"):
        file.write_bytes(b"not tensors")
    assert fails(*killed).endswith("Or pass --no-resume to start afresh.")


def test_train__killed_while_writing__the_rest_of_it_is_removed_too(killed, tmp_path, run):
    (tmp_path / "m.state" / ".0123456789abcdef.safetensors.0a1b2c3d").write_bytes(b"...")
    assert run(*killed, "--quiet")[0] == 0
    assert not (tmp_path / "m.state").exists()


def test_train__folder_of_anothers_in_the_place_of_the_state__keeps_its_files(folder, tmp_path, run):
    (tmp_path / "m.state").mkdir()
    (tmp_path / "m.state" / "thesis.tex").write_text("...")
    assert run("train", folder / "region.csv", *TRAIN, "--quiet", "--out", tmp_path / "m")[0] == 0
    assert [file.name for file in (tmp_path / "m.state").iterdir()] == ["thesis.tex"]
