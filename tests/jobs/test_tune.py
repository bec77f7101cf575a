"""A search for settings: what it plans, its processes, and the file that it writes."""

import os
import re
from dataclasses import replace

import optuna
import pytest

from hotvae.errors import ConfigError, DataWarning
from hotvae.jobs.settings import TrainSettings, read_settings, train_settings
from hotvae.jobs.trials import all_settings
from hotvae.jobs.tune import Found, check_settings_file, found_in, plan, tune, write_settings
from tests.cli.region import region_table
from tests.processes import end_with_workers

ROLES = {"labels": ("sp_*",), "id_column": "site", "coordinates": "easting_km,northing_km"}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("tune") / "region.csv"
    region_table(80).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def task(table):
    return plan(TrainSettings(**ROLES, model="mlknn"), table)


# --- the plan --------------------------------------------------------------------------------------------


def test_plan__network__all_is_searched_but_what_is_held(table):
    settings = TrainSettings(**ROLES, recipe="network", parameters={"dim": 48, "max_epochs": 7, "learning_rate": 0.05})
    task = plan(settings, table, held=["dim", "max_epochs"])
    assert task.model == "hotvae_network"
    assert "dim" not in task.space
    assert task.start["learning_rate"] == 0.05  # where it starts, and inside
    assert task.space["learning_rate"].high == 0.05
    assert task.settings.parameters == {"dim": 48, "max_epochs": 7, "learning_rate": 0.05, "random_state": 0}


def test_plan__coordinates__places_are_searched_and_degrees_known(tmp_path):
    rows = region_table(60)
    rows["lat"], rows["lon"] = rows.pop("easting_km") / 100, rows.pop("northing_km") / 100
    rows.to_csv(tmp_path / "t.csv", index=False)
    settings = TrainSettings(labels=("sp_*",), id_column="site", recipe="network")
    without = plan(replace(settings, drop=("lat", "lon")), tmp_path / "t.csv")
    assert "spatial_units" not in without.space
    task = plan(replace(settings, coordinates="lat,lon"), tmp_path / "t.csv")
    assert task.start["spatial_units"] == 0
    # The longitude first, which is the last column of the table.
    assert task.settings.parameters == {"spatial_columns": (-1, -2), "spatial_degrees": True, "random_state": 0}


def test_plan__rows_of_texts__have_no_scale_to_search(tmp_path):
    rows = region_table(60)
    rows["words"] = ["reed and mud" if wet else "stone" for wet in rows["sp_species_01"]]
    rows[["words", *(name for name in rows if name.startswith("sp_"))]].to_csv(tmp_path / "t.csv", index=False)
    settings = TrainSettings(labels=("sp_*",), model="plain", parameters={"encoder": "bag"})
    space = plan(settings, tmp_path / "t.csv", held=["encoder"]).space
    assert "learning_rate" in space
    assert not {"scaling", "spatial_units"} & set(space)


def test_plan__too_few_rows__refused(tmp_path):
    region_table(12).to_csv(tmp_path / "t.csv", index=False)
    settings = TrainSettings(labels=("sp_*",), id_column="site", model="mlknn", drop_single_class=True)
    with (
        pytest.warns(DataWarning, match="validation should have at least"),
        pytest.raises(ConfigError, match=r"a search must have rows that judge; got none held out\. Use a table with"),
    ):
        plan(settings, tmp_path / "t.csv")


def test_plan__mistakes__refused(table):
    with pytest.raises(ConfigError, match="metric must be one of 'log_loss', 'macro_f1'; got 'auc'"):
        plan(TrainSettings(**ROLES, model="mlknn"), table, metric="auc")
    with pytest.raises(ConfigError, match=r"model must have settings to search .* got 'hotvae'"):
        plan(TrainSettings(**ROLES), table)


# --- processes -------------------------------------------------------------------------------------------


def test_tune__mistakes__refused(task, tmp_path):
    with pytest.raises(ConfigError, match="jobs must be at least 1; got 0"):
        tune(task, tmp_path / "j", budget=1, jobs=0)
    with pytest.raises(ConfigError, match="trials must be at least 1; got 0"):
        tune(task, tmp_path / "j", budget=1, n_trials=0)
    (tmp_path / "j").write_text("depth,sp_owl\n")
    with pytest.raises(ConfigError, match="journal must be a file that a search wrote"):
        tune(task, tmp_path / "j", budget=1)


@pytest.mark.slow
def test_tune__trials_that_fail__leave_the_others_alone_and_say_why(task, table, tmp_path, monkeypatch):
    # With rows of a file there is no second look, which would be another process.
    held = tmp_path / "held.csv"
    held.write_text("".join(table.read_text().splitlines(keepends=True)[:-5]))
    task = replace(task, settings=replace(task.settings, validation=str(held)))
    # Fifty failures of long words each: more than a pipe holds that nobody reads.
    long = "n_neighbours must be " + "small" * 500
    (tmp_path / "sitecustomize.py").write_text(
        "from hotvae.baselines.mlknn import MLkNN\n"
        "from hotvae.errors import ConfigError\n"
        "fit, calls = MLkNN.fit, []\n"
        "def refuse(*told, **more):\n"
        "    calls.append(1)\n"
        "    if 1 < len(calls) < 52:\n"
        f"        raise ConfigError({long!r})\n"
        "    return fit(*told, **more)\n"
        "MLkNN.fit = refuse\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    found = tune(task, tmp_path / "j", budget=3600, n_trials=53)
    assert (found.n_complete, found.n_failed) == (3, 50)
    assert found.last_error == long


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="asks for the processes of a group")
def test_tune__ended_by_sigterm__its_worker_ends_with_it(table, tmp_path):
    roles = ["--labels", "sp_*", "--id-column", "site", "--set", "max_epochs=100000", "--set", "patience=0"]
    said = end_with_workers(["tune", str(table), *roles, "--budget", "1h", "--out", "best.toml"], tmp_path)
    assert "interrupted; the same command goes on from best.journal" in said


def test_found__no_trial_came_to_its_end__refused(task):
    with pytest.raises(ConfigError, match=r"must finish at least one trial; got 0 .* The last words: oh no"):
        found_in(optuna.create_study(), task, "oh no")
    with pytest.raises(ConfigError, match=r"got 0 \(0 ended early, 0 failed\)\. Give it a larger --budget\."):
        found_in(optuna.create_study(), task)


# --- settings files --------------------------------------------------------------------------------------


def test_write_settings__read_back__same_settings(task, tmp_path):
    told = {"encoder_widths": [64, 32], "kl_weight": 1e-05, "encoder": "mlp", "direct_path": False, "base": None}
    found = Found(task, told, 0.5, 0.6, 9, 3, 0, 60.0, value_again=0.55)
    write_settings(tmp_path / "s.toml", found, "hotvae tune region.csv", {"labels": ["a,b", "c"], "presence": True})
    lines = (tmp_path / "s.toml").read_text().splitlines()
    assert lines[:4] == [
        "# mlknn on region.csv: log_loss 0.5000 on the validation rows.",
        "# 9 trials finished, 3 were ended early; 1 min 0 s in all.",
        "# Chosen among the best by other validation rows: 0.5500 there.",
        "# hotvae tune region.csv",
    ]
    settings = train_settings(all_settings("hotvae_network"), ("file", read_settings(tmp_path / "s.toml")))
    assert settings.parameters == {
        **{"encoder_widths": (64, 32), "kl_weight": 1e-05, "encoder": "mlp", "direct_path": False}
    }
    assert (settings.labels, settings.presence) == (("a,b", "c"), True)


@pytest.mark.parametrize(
    ("name", "message"),
    [("best.txt", "out must end in .toml; got 'best.txt'"), ("no/s.toml", "in a folder that exists")],
)
def test_settings_file__place_that_cannot_be__refused(name, message, tmp_path):
    with pytest.raises(ConfigError, match=re.escape(message)):
        check_settings_file(tmp_path / name)
