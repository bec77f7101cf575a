"""``hotvae tune``: on a table, anywhere; what it prints can be pasted; mistakes are one line."""

import inspect
import os
import re
import shlex

import pytest

from hotvae import load_model
from hotvae.cli.train import train
from hotvae.cli.tune import tune
from hotvae.jobs.settings import read_settings
from tests.cli.region import LABELS, ROLES, region_table

TINY = [word for told in ("max_epochs=2", "encoder_widths=[8]", "n_layers=1", "dim=8") for word in ("--set", told)]


@pytest.mark.slow
def test_tune__on_a_table__writes_settings_and_the_command_it_prints_trains_with_them(
    folder, tmp_path, run, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    region_table(80).drop(columns=LABELS[0]).to_csv("my sites.csv", index=False)
    command = [
        "tune",
        "my sites.csv",
        *ROLES,
        *TINY,
        "--trials",
        "3",
        "--budget",
        "1h",
        "--seed",
        "4",
        "--out",
        "s.toml",
    ]
    code, out, err = run(*command)
    assert code == 0, err
    assert re.search(r"^searching \d+ settings of hotvae_network: \d+ rows learn, \d+ judge \(block\)$", err, re.M)
    assert "3 trials finished, 0 ended early, 0 failed" in out
    value = re.search(r"^log loss on the validation rows: (0\.\d{4}); without a search 0\.\d{4}$", out, re.M)[1]
    assert re.search(r"on other validation rows, .*: 0\.\d{4}; without a search 0\.\d{4}", out)
    assert "# hotvae tune 'my sites.csv' --labels 'sp_*'" in (tmp_path / "s.toml").read_text()
    settings = read_settings(tmp_path / "s.toml")
    assert (settings["max_epochs"], settings["random_state"]) == (2, 4)
    pasted = re.search(r"^next  hotvae (.*)$", out, re.M)[1]
    assert pasted == (
        "train 'my sites.csv' --labels 'sp_*' --id-column site --coordinates easting_km,northing_km --recipe network "
        "--config s.toml --out s-model"
    )
    code, printed, err = run(*shlex.split(pasted), "--quiet")
    assert code == 0, err
    assert re.search(r"^log loss +(\S+)", printed, re.M)[1] == value  # the very model that the search has seen
    assert load_model("s-model").label_names_.tolist() == LABELS[1:]
    # The same command goes on: nothing is left to do, and nothing changes.
    code, again, err = run(*command)
    assert "going on from 3 trials in s.journal" in err
    assert (code, again) == (0, out)


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif("HOTVAE_DATA_DIR" not in os.environ, reason="HOTVAE_DATA_DIR is not set")
def test_tune__named_set_outside_a_checkout__works(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("tune", "--data", "yeast", "--model", "mlknn", "--trials", "1", "--quiet", "--out", "y.toml")
    assert (code, err) == (0, "")
    assert "hotvae train --data yeast --model mlknn --config y.toml --out y-model" in out


def test_tune__start_and_rows_from_a_file__go_to_the_file_again(folder, tmp_path, run, monkeypatch):
    """What was typed is typed again; what came from a file is in the new one."""
    from hotvae.jobs import tune as job

    tasks = []

    def found(task, journal, **told):
        tasks.append((task, told))
        return job.Found(
            task, task.settings.parameters | {"smoothing": 0.5}, 0.4, 0.5, 2, 1, 1, 3.0, last_error="oh no"
        )

    monkeypatch.setattr(job, "tune", found)
    (tmp_path / "start.yaml").write_text(
        "model: mlknn\nlabels: ['sp_*']\nn-neighbours: 7\nid_column: nothing\nsplit: stratified\n"
    )
    code, out, err = run(
        *("tune", folder / "region.csv", "--config", tmp_path / "start.yaml", "--id-column", "site", "--presence"),
        *("--set", "smoothing=2.0", "--budget", "90s", "--jobs", "2", "--out", tmp_path / "s.toml"),
    )
    assert code == 0, err
    ((task, told),) = tasks
    assert (told["budget"], told["jobs"], told["n_trials"]) == (90.0, 2, None)
    assert task.start == {"n_neighbours": 7}  # by the file; smoothing is held
    assert "why the last one failed: oh no" in out
    assert "no time was left for a second look" in out
    assert read_settings(tmp_path / "s.toml") == {
        **{"labels": ["sp_*"], "split": "stratified"},
        **{"n_neighbours": 7, "smoothing": 0.5, "random_state": 0},
    }
    assert re.search(r"--id-column site --presence --model mlknn --config \S+s\.toml --out \S+s-model$", out.strip())
    assert "stratified" not in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "prevalence"], "model must have settings to search"),
        (["--model", "mlnn"], "Did you mean 'mlknn'?"),
        (["--budget", "soon"], "--budget must be a length of time"),
        (["--metric", "auc"], "metric must be one of"),
        (["--data", "yeast"], "data must be a TABLE or --data NAME; got both. Name one of them."),
        (["--set", "n_layer=1"], "Did you mean 'n_layers'"),
        (["--out", "s.txt"], "out must end in .toml"),
        (["--jobs", "0"], "jobs must be at least 1"),
        (["--labels", "owl_*"], "owl_*"),
        (["--journal", "{table}"], "journal must be a file that a search wrote"),
    ],
)
def test_tune__mistakes__one_line_and_code_2(words, message, folder, tmp_path, fails):
    before = (folder / "region.csv").read_bytes()
    words = [str(folder / "region.csv") if word == "{table}" else word for word in words]
    assert message in fails("tune", folder / "region.csv", *ROLES, "--out", tmp_path / "s.toml", *words)
    assert (folder / "region.csv").read_bytes() == before


def test_options__of_rows__are_those_of_training():
    """What is said of a table to one command can be said to the other."""
    of_training, of_search = (set(inspect.signature(command).parameters) for command in (train, tune))
    own = {"recipe", "effort", "epochs", "dim", "layers", "device", "threads", "resume", "force", "as_json"}
    own |= {"stream", "sample", "workers"}  # a search takes what memory holds
    assert of_training - own <= of_search
    assert own < of_training


def test_tune__neither_table_nor_set__one_line(tmp_path, fails):
    assert "data must be a TABLE or --data NAME; got none" in fails("tune", "--out", tmp_path / "s.toml")
