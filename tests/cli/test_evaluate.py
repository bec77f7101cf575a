"""``hotvae evaluate``: of models and of files of predictions, as text and as JSON."""

import json

import numpy as np
import pandas as pd
import pytest

from hotvae import HotVAENetwork, evaluate
from hotvae.baselines.prevalence import Prevalence
from hotvae.cli import main
from hotvae.data.frames import write_table
from hotvae.estimators.thresholds import tune_thresholds
from hotvae.jobs.evaluate import draw_independently
from hotvae.metrics import log_loss
from hotvae.metrics.ecology import MEASURES, all_measures, site_pairs
from tests.cli.region import LABELS, PARAMETERS


def test_evaluate__new_rows__are_the_measures_python_computes(folder, python_model, run):
    code, out, err = run("evaluate", folder / "model", folder / "new.csv", "--oracle", "--json")
    assert (code, err) == (0, "")
    new = pd.read_csv(folder / "new.csv")
    labels, probs = (
        new[LABELS].to_numpy(),
        python_model.predict_proba(new[list(python_model.feature_names_in_)]),
    )
    result = json.loads(out)
    assert result["metrics"] == evaluate(labels, probs, python_model.thresholds_)
    assert result["oracle"] == evaluate(labels, probs, tune_thresholds(labels, probs))
    assert result["table"] == "new.csv"
    assert result["same_name_as_training_table"] is False


def test_evaluate__text__names_policies_and_marks_the_oracle(folder, run):
    code, out, _ = run("evaluate", folder / "model", folder / "region.csv")
    assert code == 0
    assert "empty='drop'" in out
    assert "labels without AUC, for want of a class: 0 of 6" in out
    assert "oracle" not in out
    assert "thresholds chosen on the validation rows of training" in out
    assert "the training table had this name" in out
    out = run("evaluate", folder / "model", folder / "new.csv", "--oracle")[1]
    assert "oracle: thresholds chosen on these very rows" in out
    assert "the training table had this name" not in out


def test_evaluate__label_without_a_class__is_null_in_json_and_counted(folder, tmp_path, run):
    new = pd.read_csv(folder / "new.csv")
    new[LABELS] = 0
    new.to_csv(tmp_path / "t.csv", index=False)
    code, out, _ = run("evaluate", folder / "model", tmp_path / "t.csv", "--json")
    assert code == 0
    assert "NaN" not in out
    metrics = json.loads(out)["metrics"]
    assert metrics["median_auc"] is None
    assert metrics["n_labels_without_auc"] == 6
    assert "-" in run("evaluate", folder / "model", tmp_path / "t.csv")[1]


def test_evaluate__labels_not_observed__are_left_out(folder, tmp_path, run):
    new = pd.read_csv(folder / "new.csv").astype(dict.fromkeys(LABELS, float))
    new.loc[5:, LABELS[0]] = np.nan
    new.to_csv(tmp_path / "t.csv", index=False)
    out = run("evaluate", folder / "model", tmp_path / "t.csv", "--json")[1]
    assert json.loads(out)["metrics"]["n_observed"] == 60 * 6 - 55


def test_evaluate__per_label__writes_one_row_each(folder, tmp_path, run):
    out = tmp_path / "labels.csv"
    arguments = ("evaluate", folder / "model", folder / "new.csv", "--per-label", out)
    assert run(*arguments)[0] == 0
    report = pd.read_csv(out)
    result = json.loads(run("evaluate", folder / "model", folder / "new.csv", "--json")[1])["metrics"]
    assert report["label"].tolist() == LABELS
    assert report["n_present"].tolist() == pd.read_csv(folder / "new.csv")[LABELS].sum().tolist()
    assert report["f1"].mean() == pytest.approx(result["macro_f1"])
    assert report["auc"].median() == pytest.approx(result["median_auc"])
    assert report["log_loss"].mean() == pytest.approx(result["log_loss"])
    assert "--force to replace it" in run(*arguments)[2]


def test_evaluate__table_without_the_labels__says_so(folder, tmp_path, fails):
    pd.read_csv(folder / "new.csv").drop(columns=LABELS[:2]).to_csv(tmp_path / "t.csv", index=False)
    message = fails("evaluate", folder / "model", tmp_path / "t.csv")
    assert f"table must hold every label of the model; got none for '{LABELS[0]}', '{LABELS[1]}' (t.csv)" in message


def test_evaluate__labels_in_a_second_table__are_joined_by_id(folder, tmp_path, run, fails):
    new = pd.read_csv(folder / "new.csv")
    new.drop(columns=LABELS).to_csv(tmp_path / "x.csv", index=False)
    new[["site", *LABELS[::-1]]].sample(frac=1, random_state=0).to_csv(tmp_path / "y.csv", index=False)
    arguments = (
        "evaluate",
        folder / "model",
        tmp_path / "x.csv",
        "--label-table",
        tmp_path / "y.csv",
        "--json",
    )
    joined = json.loads(run(*arguments)[1])["metrics"]
    assert joined == json.loads(run("evaluate", folder / "model", folder / "new.csv", "--json")[1])["metrics"]
    new[["site", *LABELS]][1:].to_csv(tmp_path / "y.csv", index=False)
    assert "ids in column 'site' must be in both tables" in fails(*arguments)


def test_evaluate__model_of_classes__is_refused(tmp_path, fails, folder):
    rng = np.random.default_rng(0)
    features = pd.DataFrame(rng.normal(size=(30, 2)), columns=["a", "b"])
    HotVAENetwork.from_settings(**PARAMETERS | {"max_epochs": 1}).fit(features, rng.integers(0, 3, size=30)).save(
        tmp_path / "m"
    )
    assert "model must predict labels; got one of classes" in fails("evaluate", tmp_path / "m", folder / "new.csv")


# --- predictions of any model, from a file ------------------------------------------------------------------

BIRDS = ["wren", "robin", "owl"]
TRUTH = np.array([[1, 0, 1], [0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 0, 0]])
PROBS = np.array([[0.9, 0.2, 0.7], [0.1, 0.3, 0.6], [0.8, 0.6, 0.4], [0.3, 0.9, 0.8], [0.7, 0.1, 0.2]])
SITES = ["a", "b", "c", "d", "e"]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "sites.csv"
    frame = pd.DataFrame(TRUTH, columns=BIRDS)
    frame.insert(0, "depth", np.linspace(0, 3, 5))
    frame.insert(0, "site", SITES)
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def draws():
    return (np.random.default_rng(1).random((40, 5, 3)) < PROBS).astype(np.int8)


def evaluated(capsys, *arguments):
    assert main(["evaluate", *(str(argument) for argument in arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("dialect", ["gomes", "norberg", "text"])
def test_evaluate__file_with_draws__the_numbers_of_the_library(table, tmp_path, draws, capsys, dialect):
    np.savez(tmp_path / "p.npz", probs=PROBS, draws=draws, label_names=BIRDS)
    options = ["--ecology", dialect, "--pairs", "30", "--seed", "4"]
    result = evaluated(capsys, tmp_path / "p.npz", table, *options)
    expected = all_measures(TRUTH, draws=draws, pairs=site_pairs(5, 30, 4), probs=PROBS, dialect=dialect)
    found = result["ecology"]
    assert found["dialect"] == dialect
    assert (found["n_draws"], found["n_pairs"], found["seed"]) == (40, 30, 4)
    assert found["draws"] == "those of p.npz"
    assert list(found["measures"]) == list(MEASURES)
    for name, value in expected.items():
        assert found["measures"][name]["value"] == pytest.approx(value, nan_ok=True)
    assert found["measures"]["rich_discrimination"] | {"value": 0} == {
        "value": 0,
        "level": "richness",
        "better": "higher",
    }
    assert result["metrics"]["log_loss"] == pytest.approx(log_loss(TRUTH, PROBS))
    assert result["thresholds_from"] == "0.5, as none were tuned"


def test_evaluate__file_of_probabilities__says_that_draws_are_independent(table, tmp_path, capsys):
    write_table(pd.DataFrame(PROBS, columns=BIRDS), tmp_path / "p.csv")
    assert main(["evaluate", str(tmp_path / "p.csv"), str(table), "--ecology", "norberg", "--draws", "60"]) == 0
    printed = capsys.readouterr().out
    assert "ecological measures, dialect 'norberg' (comparable with Norberg et al. 2019)" in printed
    assert "60 draws: each label by itself from the probabilities, as p.csv holds no draws (seed 0)" in printed
    rows = [line.split() for line in printed.splitlines()]
    lines = [row for row in rows if row and row[0] in ("occurrence", "richness", "community")]
    assert [len(row) for row in lines] == [5, 5, 6, 6, 6]
    assert "(lower is better) (higher is better)" in " ".join(printed.split())
    draws = draw_independently(PROBS, 60, 0)
    expected = all_measures(TRUTH, draws=draws, pairs=site_pairs(5, 300, 0), probs=PROBS, dialect="norberg")
    assert lines[0][1:] == [f"{expected[name]:.4f}" for name in list(MEASURES)[:4]]


def test_evaluate__file_per_label_and_ids__scored_by_name(table, tmp_path, capsys):
    frame = pd.DataFrame(PROBS[::-1], columns=BIRDS)
    frame.insert(0, "site", SITES[::-1])
    write_table(frame, tmp_path / "p.parquet")
    out = tmp_path / "labels.csv"
    options = ["--id-column", "site", "--per-label", out, "--oracle"]
    result = evaluated(capsys, tmp_path / "p.parquet", table, *options)
    assert result["metrics"]["log_loss"] == pytest.approx(log_loss(TRUTH, PROBS))
    assert "ecology" not in result
    assert result["oracle"]["macro_f1"] >= result["metrics"]["macro_f1"]
    report = pd.read_csv(out)
    assert report["label"].tolist() == BIRDS
    assert report["n_present"].tolist() == [3, 2, 3]


def test_evaluate__model__draws_its_own_communities(table, tmp_path, capsys):
    frame = pd.read_csv(table)
    model = Prevalence().fit(frame[["depth"]], frame[BIRDS])
    model.save(tmp_path / "m")
    arguments = ["evaluate", str(tmp_path / "m"), str(table), "--ecology", "gomes", "--ignore-unknown"]
    assert main(arguments) == 0
    assert "each label by itself, as this kind of model says nothing" in capsys.readouterr().out
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["ecology"]["measures"]
    draws = model.sample(frame[["depth"]], 100, 0)
    probs = model.predict_proba(frame[["depth"]])
    expected = all_measures(TRUTH, draws=draws, pairs=site_pairs(5, 300, 0), probs=probs)
    for name, value in expected.items():
        assert found[name]["value"] == (None if np.isnan(value) else pytest.approx(value))


def test_evaluate__mistakes__are_one_line(table, tmp_path, capsys):
    write_table(pd.DataFrame(PROBS, columns=BIRDS), tmp_path / "p.csv")
    for arguments, message in (
        (["p.csv", "--ecology", "gome"], "--ecology must be one of 'norberg', 'gomes', 'text'; got 'gome'"),
        (["q.csv"], "table must be an existing file"),
    ):
        assert main(["evaluate", str(tmp_path / arguments[0]), str(table), *arguments[1:]]) == 2
        assert message in capsys.readouterr().err
