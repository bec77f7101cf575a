"""The command line: exit codes, files, what is printed where."""

import functools
import json
import resource
import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from hotvae import HotVAEClassifier, evaluate, load_model, read_table, split_dataset, virtual_region
from hotvae.cli import main
from hotvae.errors import DataWarning
from hotvae.estimators.thresholds import tune_thresholds
from hotvae.training.progress import Lines

QUICK = ["--set", "encoder_widths=[16]", "--dim", "8", "--epochs", "2", "--set", "learning_rate=0.01"]
PARAMETERS = {"encoder_widths": (16,), "dim": 8, "max_epochs": 2, "learning_rate": 0.01, "random_state": 0}
ROLES = ["--labels", "sp_*", "--id-column", "site", "--coordinates", "easting_km,northing_km"]


def region_table(n_sites=120, seed=0):
    data = virtual_region(n_sites, 6, random_state=seed).dataset
    table = pd.DataFrame(data.features, columns=data.feature_names)
    table.insert(0, "site", [f"s{i:03d}" for i in range(n_sites)])
    table[list(data.coordinate_names)] = data.coordinates
    for name, column in zip(data.label_names, data.labels.T, strict=True):
        table[f"sp_{name}"] = column.astype(int)
    return table


LABELS = [name for name in region_table(20) if name.startswith("sp_")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table, new rows of the same region, and a model trained by the command line."""
    place = tmp_path_factory.mktemp("cli")
    everything = region_table(180)
    everything[:120].to_csv(place / "region.csv", index=False)
    everything[120:].to_csv(place / "new.csv", index=False)
    assert main(["train", str(place / "region.csv"), *ROLES, *QUICK, "--quiet", "--out", str(place / "model")]) == 0
    return place


@pytest.fixture
def run(capsys):
    """Run the command line; give back exit code, standard output and standard error."""

    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


@pytest.fixture
def fails(run):
    """Run the command line, expect a user's mistake, and give back the one line about it."""

    def call(*arguments):
        code, out, err = run(*arguments)
        last = err.splitlines()[-1]
        assert code == 2
        assert out == ""
        assert last.startswith("error: ")
        assert "Traceback" not in err
        assert sum(line.startswith("error: ") for line in err.splitlines()) == 1
        return last

    return call


# --- help ------------------------------------------------------------------------------------------------


def test_help__fresh_process__is_quick_and_imports_nothing_heavy():
    script = (
        "import sys; from hotvae.cli import main; code = main(['--help']);"
        "heavy = {'torch', 'numpy', 'pandas', 'scipy', 'sklearn', 'matplotlib'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else code)"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert result.returncode == 0, result.stderr
    for command in ("demo", "train", "predict", "evaluate", "info"):
        assert f"  {command} " in result.stdout
    # Processor time, so that a busy machine does not fail it; 0.2 s where this was written.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.7


def test_no_arguments__print_help(run):
    code, out, err = run()
    assert code == 0
    assert out.startswith("Usage: hotvae [OPTIONS] COMMAND")
    assert err == ""


def test_version__is_that_of_the_package(run):
    from importlib.metadata import version

    assert run("--version") == (0, f"hotvae {version('hotvae')}\n", "")


@pytest.mark.parametrize("command", ["demo", "train", "predict", "evaluate", "info"])
def test_command_help__explains_and_exits_with_0(run, command):
    code, out, _ = run(command, "--help")
    assert code == 0
    assert out.startswith(f"Usage: hotvae {command} ")


def test_unknown_command_and_option__name_close_ones(fails, folder):
    assert "Did you mean 'train'" in fails("trian")
    assert "--labels" in fails("train", folder / "region.csv", "--lables", "sp_*")
    assert "Missing argument 'MODEL'" in fails("info")
    assert "Missing option '--out'" in fails("predict", folder / "model", folder / "new.csv")
    assert "Invalid value for '--epochs'" in fails("train", folder / "region.csv", "--epochs", "many")


# --- train, predict, evaluate: the same as from Python ----------------------------------------------------


@pytest.fixture(scope="module")
def python_model(folder):
    data = read_table(folder / "region.csv", labels="sp_*", id_column="site", coordinates=("easting_km", "northing_km"))
    parts = split_dataset(data, kind="stratified", fractions=(0.8, 0.2, 0.0), random_state=0)
    train, held_out = data.take(parts.train), data.take(parts.validation)
    as_frame = functools.partial(pd.DataFrame, columns=list(data.label_names))
    model = HotVAEClassifier(**PARAMETERS)
    return model.fit(train.features, as_frame(train.labels), validation=(held_out.features, as_frame(held_out.labels)))


def test_train__same_seed_and_rows__is_the_model_python_trains(folder, python_model):
    model = load_model(folder / "model")
    assert model.thresholds_ == python_model.thresholds_
    for name, weights in python_model.network_.state_dict().items():
        np.testing.assert_array_equal(model.network_.state_dict()[name].numpy(), weights.numpy())


def test_predict__new_rows__are_what_python_predicts(folder, python_model, tmp_path, run):
    out = tmp_path / "p.parquet"
    code, printed, err = run("predict", folder / "model", folder / "new.csv", "--out", out)
    assert (code, err) == (0, "")
    assert printed == f"wrote 60 rows × 6 labels to {out}\n"
    new = pd.read_csv(folder / "new.csv")
    table = pd.read_parquet(out)
    assert list(table) == ["site", *LABELS]
    assert table["site"].tolist() == new["site"].tolist()
    expected = python_model.predict_proba(new[list(python_model.feature_names_in_)])
    np.testing.assert_array_equal(table[LABELS].to_numpy(), expected)


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


def test_train__json__is_one_object_that_tells_the_run(folder, tmp_path, run):
    arguments = ["train", folder / "region.csv", *ROLES, *QUICK, "--json", "--out", tmp_path / "m"]
    code, out, err = run(*arguments)
    summary = json.loads(out)
    assert code == 0
    assert "HOT-VAE: epoch 2/2" in err  # progress stays on standard error
    expected = {
        "kind": "HotVAEClassifier",
        "n_train": 95,
        "n_validation": 25,
        "split": "stratified",
        "n_features": 7,
        "n_labels": 6,
        "n_epochs": 2,
        "stopped": "max_epochs",
        "resumed": False,
    }
    assert {name: summary[name] for name in expected} == expected
    assert summary["validation"]["n_rows"] == 25
    assert not (tmp_path / "m.state").exists()


@pytest.mark.parametrize(("direct_epochs", "is_silent"), [(2, True), (0, False)])
def test_train__epoch_before_messages__is_told_there_and_in_info(folder, tmp_path, run, direct_epochs, is_silent):
    setting = ["--set", f"direct_epochs={direct_epochs}", "--quiet", "--out", tmp_path / "m"]
    _, trained, _ = run("train", folder / "region.csv", *ROLES, *QUICK, *setting)
    _, told, _ = run("info", tmp_path / "m")
    for out in (trained, told):
        (line,) = [line for line in out.splitlines() if line.startswith("best epoch")]
        assert (" of 2, before labels pass messages (stopped: max_epochs)" in line) is is_silent


def test_train__text__says_what_to_type_next_and_it_works(folder, tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.read_csv(folder / "region.csv").to_csv("my sites.csv", index=False)
    code, out, err = run("train", "my sites.csv", *ROLES, *QUICK, "--quiet", "--out", "my model")
    assert (code, err) == (0, "")
    for text in ("trained HOT-VAE on my sites.csv", "maF1", "saved       my model", "95 + 25 for validation"):
        assert text in out
    command = out.splitlines()[-1].removeprefix("next").strip()
    assert main(shlex.split(command)[1:]) == 0
    assert (tmp_path / "my model-predictions.csv").exists()


def test_model_card__notes_what_predict_needs_and_no_folders(folder):
    card = load_model(folder / "model").extra_
    assert card["table"] == "region.csv"
    assert card["id_column"] == "site"
    assert card["coordinates"] == ["easting_km", "northing_km"]
    assert card["labels"] == LABELS
    assert card["label_patterns"] == ["sp_*"]
    assert card["feature_kinds"] == ["numeric"] * 7
    assert card["command"].startswith("hotvae train region.csv --labels 'sp_*' --id-column site")
    assert str(folder) not in json.dumps(card)
    assert card["validation"]["n_rows"] == 25
    assert card["prevalence"].keys() == set(LABELS)


# --- predict ---------------------------------------------------------------------------------------------


def test_predict__columns_in_another_order_and_without_roles__is_the_same(folder, tmp_path, run):
    new = pd.read_csv(folder / "new.csv")
    features = list(load_model(folder / "model").feature_names_in_)
    new[["site", *features]].to_csv(tmp_path / "a.csv", index=False)
    new[features[::-1]].to_csv(tmp_path / "b.csv", index=False)
    for name in "ab":
        assert run("predict", folder / "model", tmp_path / f"{name}.csv", "--out", tmp_path / f"p{name}.csv")[0] == 0
    first, second = pd.read_csv(tmp_path / "pa.csv"), pd.read_csv(tmp_path / "pb.csv")
    np.testing.assert_array_equal(first[LABELS], second[LABELS])
    assert first["site"].tolist() == new["site"].tolist()
    assert second["row"].tolist() == list(range(60))


def test_predict__missing_column__is_named(folder, tmp_path, fails):
    pd.read_csv(folder / "new.csv").rename(columns={"rainfall": "rain"}).to_csv(tmp_path / "t.csv", index=False)
    message = fails("predict", folder / "model", tmp_path / "t.csv", "--out", tmp_path / "p.csv")
    assert "table must have the column(s) 'rainfall'" in message
    assert "close: 'rain'" in message
    assert not (tmp_path / "p.csv").exists()


def test_predict__unknown_column__is_named_unless_ignored(folder, tmp_path, fails, run):
    pd.read_csv(folder / "new.csv").assign(observer="me").to_csv(tmp_path / "t.csv", index=False)
    arguments = ("predict", folder / "model", tmp_path / "t.csv", "--out", tmp_path / "p.csv")
    assert "unknown column(s) 'observer'" in fails(*arguments)
    assert run(*arguments, "--ignore-unknown")[0] == 0


def test_predict__columns_dropped_in_training__are_passed_over(folder, tmp_path, run):
    table = pd.read_csv(folder / "region.csv").assign(note_a="x", note_b=1.5)
    table.to_csv(tmp_path / "t.csv", index=False)
    model = tmp_path / "m"
    dropping = ["--drop", "note_*", "--drop", "soil_ph,forest"]
    assert run("train", tmp_path / "t.csv", *ROLES, *dropping, *QUICK, "--out", model)[0] == 0
    assert load_model(model).n_features_in_ == 5
    assert run("predict", model, tmp_path / "t.csv", "--out", tmp_path / "p.csv")[0] == 0


@pytest.mark.parametrize("force", [False, True])
def test_predict__existing_file__is_replaced_by_force_only(folder, tmp_path, run, force):
    out = tmp_path / "p.csv"
    out.write_text("precious\n")
    code, _, err = run("predict", folder / "model", folder / "new.csv", "--out", out, *(["--force"] if force else []))
    assert code == (0 if force else 2)
    assert ("--force to replace it" in err) is not force
    assert out.read_text().startswith("site," if force else "precious")


def test_predict__binary__is_one_where_the_tuned_threshold_is_reached(folder, tmp_path, run):
    model = load_model(folder / "model")
    out = tmp_path / "p.csv"
    code, printed, _ = run(
        "predict", folder / "model", folder / "new.csv", "--out", out, "--binary", "micro_f1", "--json"
    )
    summary = json.loads(printed)
    assert code == 0
    assert summary["threshold"] == model.thresholds_["micro_f1"]
    assert summary["files"] == [str(out), str(tmp_path / "p_binary.csv")]
    probs, binary = pd.read_csv(out), pd.read_csv(tmp_path / "p_binary.csv")
    np.testing.assert_array_equal(binary[LABELS], probs[LABELS] >= model.thresholds_["micro_f1"])


def test_predict__threshold_of_ones_own__is_used(folder, tmp_path, run):
    out = tmp_path / "p.csv.gz"
    code, printed, _ = run("predict", folder / "model", folder / "new.csv", "--out", out, "--threshold", "0.4")
    assert code == 0
    assert "at threshold 0.4 to" in printed
    binary = pd.read_csv(tmp_path / "p_binary.csv.gz")
    np.testing.assert_array_equal(binary[LABELS], pd.read_csv(out)[LABELS] >= 0.4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "p.xlsx"], "output must end in .csv, .tsv, .csv.gz, .tsv.gz, .parquet, .pq; got 'p.xlsx'"),
        (["--out", "none/p.csv"], "output folder must exist; got "),
        (["--out", "p.csv", "--binary", "maF1"], "Did you mean 'macro_f1'?"),
        (["--out", "p.csv", "--binary", "log_loss"], "metric must be a measure of predictions"),
        (["--out", "p.csv", "--binary", "micro_f1", "--threshold", "0.5"], "must not be combined"),
        (["--out", "p.csv", "--threshold", "1.5"], "threshold must be between 0 and 1; got 1.5"),
        (["--out", "p.csv", "--id-column", "plot"], "id column must be in the table; got 'plot'"),
    ],
)
def test_predict__option_that_does_not_fit__is_refused(folder, tmp_path, fails, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    assert message in fails("predict", folder / "model", folder / "new.csv", *options)
    assert list(tmp_path.iterdir()) == []


def test_predict__infinite_or_textual_cell__is_located(folder, tmp_path, fails):
    new = pd.read_csv(folder / "new.csv")
    new.loc[3, "rainfall"] = np.inf
    new.to_csv(tmp_path / "inf.csv", index=False)
    new = new.astype({"rainfall": object})
    new.loc[3, "rainfall"] = "wet"
    new.to_csv(tmp_path / "text.csv", index=False)
    for name, cell in (("inf", "inf"), ("text", "'wet'")):
        message = fails("predict", folder / "model", tmp_path / f"{name}.csv", "--out", tmp_path / "p.csv")
        assert cell in message
        assert "'rainfall'" in message
        assert "rows 3" in message


def test_predict__model_saved_from_python_without_names__takes_its_made_up_ones(tmp_path, run):
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(30, 2)), rng.integers(0, 2, size=(30, 2))
    model = HotVAEClassifier(**PARAMETERS | {"max_epochs": 1}).fit(features, labels)
    model.save(tmp_path / "m")
    pd.DataFrame(features, columns=["feature_0", "feature_1"]).to_parquet(tmp_path / "t.parquet")
    assert run("predict", tmp_path / "m", tmp_path / "t.parquet", "--out", tmp_path / "p.parquet")[0] == 0
    table = pd.read_parquet(tmp_path / "p.parquet")
    np.testing.assert_array_equal(table[["label_0", "label_1"]].to_numpy(), model.predict_proba(features))


# --- evaluate --------------------------------------------------------------------------------------------


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
    HotVAEClassifier(**PARAMETERS | {"max_epochs": 1}).fit(features, rng.integers(0, 3, size=30)).save(tmp_path / "m")
    assert "model must predict labels; got one of classes" in fails("evaluate", tmp_path / "m", folder / "new.csv")


# --- info ------------------------------------------------------------------------------------------------


def test_info__json__tells_the_model(folder, run):
    code, out, _ = run("info", folder / "model", "--json")
    result = json.loads(out)
    model = load_model(folder / "model")
    assert code == 0
    assert result["kind"] == "HotVAEClassifier"
    assert result["labels"] == LABELS
    assert result["features"] == dict.fromkeys(model.feature_names_in_, "numeric")
    assert result["n_parameters"] == sum(weights.numel() for weights in model.network_.parameters())
    assert result["settings"]["dim"] == 8
    assert result["thresholds"] == model.thresholds_
    assert result["training"]["n_train"] == 95
    assert result["best_epoch"] == model.history_.best_epoch


def test_info__text__has_a_line_each(folder, run):
    code, out, _ = run("info", folder / "model")
    assert code == 0
    lines = {line[:11].strip(): line[12:] for line in out.splitlines()}
    assert lines["rows"] == "95 for training, 25 for validation"
    assert lines["labels"].startswith("6: 'sp_species_01'")
    assert lines["command"].startswith("hotvae train region.csv")


# --- train: tables, splits, graphs -----------------------------------------------------------------------


def trained(run, table, out, *options):
    code, printed, err = run("train", table, *ROLES, *QUICK, "--quiet", "--json", "--out", out, *options)
    assert code == 0, err
    return json.loads(printed), load_model(out)


def test_train__labels_repeated_and_with_commas__are_all_taken(folder, tmp_path, run):
    wanted = ["--labels", f"{LABELS[2]},{LABELS[0]}", "--labels", LABELS[4], "--drop", ",".join(LABELS[1::2])]
    arguments = [
        "train",
        folder / "region.csv",
        *wanted,
        *ROLES[2:],
        *QUICK,
        "--quiet",
        "--out",
        tmp_path / "m",
    ]
    assert run(*arguments)[0] == 0
    assert load_model(tmp_path / "m").label_names_.tolist() == LABELS[::2]


def test_train__labels_in_a_second_table__are_joined(folder, tmp_path, run):
    table = pd.read_csv(folder / "region.csv")
    table.drop(columns=LABELS).to_csv(tmp_path / "x.csv", index=False)
    table[["site", *LABELS]].sample(frac=1, random_state=0).to_csv(tmp_path / "y.csv", index=False)
    options = ["--label-table", tmp_path / "y.csv", *ROLES[2:], *QUICK, "--quiet", "--out", tmp_path / "m"]
    assert run("train", tmp_path / "x.csv", *options)[0] == 0
    first, second = load_model(tmp_path / "m"), load_model(folder / "model")
    assert first.thresholds_ == second.thresholds_
    assert first.extra_["label_table"] == "y.csv"


def test_train__validation_file__chooses_the_thresholds(folder, tmp_path, run):
    new = pd.read_csv(folder / "new.csv")
    new[new.columns[::-1]].to_csv(tmp_path / "held_out.csv", index=False)
    summary, model = trained(run, folder / "region.csv", tmp_path / "m", "--validation", tmp_path / "held_out.csv")
    assert (summary["n_train"], summary["n_validation"], summary["split"]) == (120, 60, "file")
    probs = model.predict_proba(new[list(model.feature_names_in_)])
    assert model.thresholds_ == tune_thresholds(new[LABELS].to_numpy(), probs)
    assert summary["validation"] == evaluate(new[LABELS].to_numpy(), probs, model.thresholds_)


def test_train__group_and_block_splits__follow_their_columns(folder, tmp_path, run, fails):
    table = pd.read_csv(folder / "region.csv").assign(valley=np.arange(120) // 30)
    table.to_csv(tmp_path / "t.csv", index=False)
    grouped = ["--groups", "valley", "--split", "group", "--validation-fraction", "0.25"]
    summary, _ = trained(run, tmp_path / "t.csv", tmp_path / "m", *grouped)
    assert (summary["split"], summary["n_validation"]) == ("group", 30)  # one whole valley
    assert trained(run, folder / "region.csv", tmp_path / "m", "--split", "block")[0]["split"] == "block"
    message = fails("train", folder / "region.csv", *ROLES, *QUICK, "--split", "group", "--out", tmp_path / "n")
    assert "kind='group' must have groups" in message


def test_train__counts__are_taken_as_presence_here_and_in_evaluate(folder, tmp_path, run, fails):
    table = pd.read_csv(folder / "region.csv")
    table[LABELS] *= 3
    table.to_csv(tmp_path / "t.csv", index=False)
    arguments = ["train", tmp_path / "t.csv", *ROLES, *QUICK, "--quiet", "--out", tmp_path / "m"]
    assert "labels must be 0 or 1; got 3" in fails(*arguments)
    assert run(*arguments, "--presence")[0] == 0
    measures = json.loads(run("evaluate", tmp_path / "m", tmp_path / "t.csv", "--json")[1])["metrics"]
    plain = json.loads(run("evaluate", folder / "model", folder / "region.csv", "--json")[1])["metrics"]
    assert measures == plain


def test_train__label_with_one_class__is_refused_or_left_out(folder, tmp_path, run, fails):
    table = pd.read_csv(folder / "region.csv").assign(sp_dodo=0)
    table.to_csv(tmp_path / "t.csv", index=False)
    arguments = ["train", tmp_path / "t.csv", *ROLES, *QUICK, "--quiet", "--out", tmp_path / "m"]
    message = fails(*arguments)
    assert "got 1 class in 'sp_dodo'" in message
    assert "--drop-single-class" in message
    code, out, _ = run(*arguments, "--drop-single-class")
    assert code == 0
    assert "labels      6 (left out: 'sp_dodo')" in out
    # The column may still be there when predicting.
    assert run("predict", tmp_path / "m", tmp_path / "t.csv", "--out", tmp_path / "p.csv")[0] == 0


def test_train__graph_from_edges_or_a_tree__is_that_of_the_model(folder, tmp_path, run, fails):
    (tmp_path / "edges.csv").write_text(f"source,target\n{LABELS[0]},{LABELS[2]}\n")
    graph = trained(run, folder / "region.csv", tmp_path / "m", "--graph", tmp_path / "edges.csv")[1].graph_
    expected = np.eye(6, dtype=bool)
    expected[0, 2] = expected[2, 0] = True
    np.testing.assert_array_equal(graph, expected)

    a, b, c, d, e, f = LABELS
    (tmp_path / "tree.nwk").write_text(f"((({a}:1,{b}:1):1,({c}:1,{d}:1):1):9,({e}:1,{f}:1):9);")
    tree = ["--graph", tmp_path / "tree.nwk"]
    near = trained(run, folder / "region.csv", tmp_path / "m", *tree, "--max-distance", "3")[1].graph_
    np.testing.assert_array_equal(near, np.kron(np.eye(3), np.ones((2, 2))).astype(bool))
    nearest = trained(run, folder / "region.csv", tmp_path / "m", *tree, "--neighbours", "1")[1].graph_
    np.testing.assert_array_equal(nearest, near)

    arguments = ["train", folder / "region.csv", *ROLES, *QUICK, "--quiet", "--out", tmp_path / "n"]
    assert "graph must be 'complete', 'cooccurrence', a .csv" in fails(*arguments, "--graph", "ring")
    assert "must go with a tree; got graph 'complete'" in fails(*arguments, "--neighbours", "3")
    assert "edge file must be a readable" in fails(*arguments, "--graph", tmp_path / "none.csv")
    assert not (tmp_path / "n").exists()


def test_train__plain_model__has_no_messages(folder, tmp_path, run, fails):
    summary, model = trained(run, folder / "region.csv", tmp_path / "m", "--model", "plain")
    assert summary["kind"] == type(model).__name__ == "PlainNetClassifier"
    assert run("evaluate", tmp_path / "m", folder / "new.csv")[0] == 0
    arguments = ["train", folder / "region.csv", *ROLES, *QUICK, "--model", "plain", "--out", tmp_path / "n"]
    assert "graph must be left out for the plain model" in fails(*arguments, "--graph", "cooccurrence")
    assert "must be an option or a parameter; got 'layers'" in fails(*arguments, "--layers", "2")


def test_train__recipe_of_the_paper__its_settings_unless_overruled(folder, tmp_path, run, fails):
    options = [*ROLES, *QUICK, "--quiet", "--recipe", "paper", "--set", "weight_decay=0.5"]
    assert run("train", folder / "region.csv", *options, "--out", tmp_path / "m")[0] == 0
    model = load_model(tmp_path / "m")
    assert (model.conditional, model.direct_path, model.optimizer) == (False, False, "adam")
    assert (model.weight_decay, model.learning_rate) == (0.5, 0.01)
    message = fails("train", folder / "region.csv", *ROLES, "--recipe", "paper", "--model", "plain", "--out", "m")
    assert "recipe must go with model hotvae; got 'paper' with 'plain'" in message
    message = fails("train", folder / "region.csv", *ROLES, "--recipe", "papers", "--out", "m")
    assert "recipe must be one of 'best', 'paper'; got 'papers'" in message


def test_train__category_that_looks_like_a_number__is_read_alike_later(folder, tmp_path, run):
    table = pd.read_csv(folder / "region.csv").assign(soil=np.resize(["01", "1", "clay", "loam"], 120))
    table.to_csv(tmp_path / "t.csv", index=False)
    _, model = trained(run, tmp_path / "t.csv", tmp_path / "m")
    # No text among these rows: by itself the column would be read as the number 1.
    numbers = table[table["soil"].isin(["01", "1"])]
    numbers.to_csv(tmp_path / "n.csv", index=False)
    assert run("predict", tmp_path / "m", tmp_path / "n.csv", "--out", tmp_path / "p.parquet")[0] == 0
    expected = model.predict_proba(numbers[list(model.feature_names_in_)].reset_index(drop=True))
    np.testing.assert_array_equal(pd.read_parquet(tmp_path / "p.parquet")[LABELS].to_numpy(), expected)


def test_train__sparse_npz__predicts_and_evaluates(tmp_path, run):
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((80, 5)) < 0.4, rng.random((80, 5)), 0.0)
    labels = (dense[:, :2] > 0).astype(int)
    rows, columns = np.nonzero(dense)
    sparse_parts = {
        "X_data": dense[rows, columns],
        "X_indices": columns,
        "X_indptr": np.concatenate([[0], np.cumsum((dense != 0).sum(axis=1))]),
        "X_shape": np.array(dense.shape),
    }
    names = np.array(list("abcde"))
    np.savez(tmp_path / "t.npz", **sparse_parts, Y=labels, feature_names=names, label_names=np.array(["u", "v"]))
    assert run("train", tmp_path / "t.npz", *QUICK, "--quiet", "--out", tmp_path / "m")[0] == 0
    assert load_model(tmp_path / "m").scaler_.is_sparse
    assert run("predict", tmp_path / "m", tmp_path / "t.npz", "--out", tmp_path / "p.csv")[0] == 0
    pd.DataFrame(dense, columns=names).assign(u=labels[:, 0], v=labels[:, 1]).to_csv(tmp_path / "t.csv", index=False)
    assert run("predict", tmp_path / "m", tmp_path / "t.csv", "--out", tmp_path / "q.csv")[0] == 0
    assert (tmp_path / "p.csv").read_text() == (tmp_path / "q.csv").read_text()
    from_npz, from_csv = (
        run("evaluate", tmp_path / "m", tmp_path / f"t.{kind}", "--json")[1] for kind in ("npz", "csv")
    )
    assert json.loads(from_npz)["metrics"] == json.loads(from_csv)["metrics"]


def test_train__few_rows__warns_in_one_line_and_predicts_at_ones_own_threshold(folder, tmp_path, run, fails):
    pd.read_csv(folder / "region.csv")[:30].to_csv(tmp_path / "t.csv", index=False)
    code, out, err = run("train", tmp_path / "t.csv", *ROLES, *QUICK, "--quiet", "--out", tmp_path / "m")
    assert code == 0
    assert err.startswith("warning: validation should have at least 10 rows; got 6 (0.2 of 30).")
    assert err.count("\n") == 1
    assert "30 + 0 for validation (none)" in out
    predict = ["predict", tmp_path / "m", folder / "new.csv", "--out", tmp_path / "p.csv"]
    assert "model must have a tuned threshold for macro_f1" in fails(*predict, "--binary", "macro_f1")
    assert "thresholds 0.5, as none were tuned" in run("evaluate", tmp_path / "m", folder / "new.csv")[1]


def test_train__doubtful_column__is_a_warning_of_one_line(folder, tmp_path, run):
    pd.read_csv(folder / "region.csv").assign(year=1999).to_csv(tmp_path / "t.csv", index=False)
    code, _, err = run("train", tmp_path / "t.csv", *ROLES, *QUICK, "--quiet", "--out", tmp_path / "m")
    assert code == 0
    assert err.startswith("warning: ")
    assert "'year'" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("encoder", "column", "cells"),
    [
        ("text", "note", [f"{'wren' if i % 2 else 'pike'} at pond {chr(97 + i % 26)}{i // 26}" for i in range(60)]),
        ("smiles", "smiles", ["C" * (1 + i) + ("O" if i % 2 else "N") for i in range(60)]),
    ],
)
def test_train__column_of_texts_or_molecules__read_by_its_encoder(tmp_path, run, encoder, column, cells):
    """All cells differ: without such an encoder the column would be taken for an identifier."""
    table, model = tmp_path / "t.csv", tmp_path / "m"
    pd.DataFrame({column: cells, "sp_a": np.arange(60) % 2, "sp_b": np.arange(60) % 3 == 0}).to_csv(table, index=False)
    told = ["--labels", "sp_*", *QUICK, "--set", f"encoder={encoder}", "--quiet", "--out", model]
    assert run("train", table, *told)[0] == 0
    assert run("evaluate", model, table)[0] == 0
    assert run("predict", model, table, "--out", tmp_path / "p.csv")[0] == 0
    expected = load_model(model).predict_proba(cells)
    np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv")[["sp_a", "sp_b"]], expected, rtol=1e-6)


# --- train: settings -------------------------------------------------------------------------------------


def test_config__file_and_command_line__the_latter_wins(folder, tmp_path, run):
    config = tmp_path / "run.yaml"
    config.write_text(
        "labels: [sp_*]\nid-column: site\ncoordinates: [easting_km, northing_km]\nepochs: 5\n"
        f"encoder_widths: [16]\ndim: 8\nlearning_rate: 1e-2\nquiet: true\njson: true\nout: {tmp_path / 'm'}\n"
    )
    code, out, err = run("train", folder / "region.csv", "--config", config, "--epochs", "2")
    assert (code, err) == (0, "")
    assert json.loads(out)["n_epochs"] == 2
    first, second = load_model(tmp_path / "m"), load_model(folder / "model")
    for name, weights in second.network_.state_dict().items():
        np.testing.assert_array_equal(first.network_.state_dict()[name].numpy(), weights.numpy())
    assert run("train", folder / "region.csv", "--config", config, "--epochs", "1", "--text")[1].startswith("trained")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--config", "none.toml"], "config must be a readable UTF-8 file; got 'none.toml'"),
        (["--config", "typo.toml"], "got 'epoks' (typo.toml). Did you mean 'epochs'"),
        (["--set", "n_layer=2"], "got 'n_layer' (command line). Did you mean 'n_layers'"),
        (["--set", "n_layers"], "--set must be key=value; got 'n_layers'"),
        (["--set", "max_epochs=3"], "max_epochs must be set once; got both 'epochs' and 'max_epochs'"),
        (["--set", "dim=16"], "options must be set once; got 'dim' also by --set"),
        (["--set", "n_heads=3"], "dim must be a multiple of n_heads (3)"),
        (["--set", "norm=middle"], "norm must be one of 'post', 'pre'; got 'middle'"),
        (["--set", "selection_metric=f2"], "selection_metric must be one of"),
        (["--device", "abacus"], "device must be 'auto' or one at hand"),
        (["--split", "rows"], "split must be one of 'random', 'stratified', 'group', 'block'; got 'rows'"),
        (["--validation-fraction", "1"], "validation_fraction must be at least 0 and below 1; got 1"),
        (["--validation", "none.csv"], "table must be an existing file; got 'none.csv'"),
        (["--drop", "nothing_*"], "drop must match a column; got 'nothing_*'"),
    ],
)
def test_train__setting_that_does_not_fit__is_refused(folder, tmp_path, fails, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "typo.toml").write_text("epoks = 3\n")
    assert message in fails("train", folder / "region.csv", *ROLES, *QUICK, "--quiet", "--out", "m", *options)
    assert [entry.name for entry in tmp_path.iterdir()] == ["typo.toml"]


def test_train__files_that_do_not_fit__are_refused(folder, tmp_path, fails):
    region, out = folder / "region.csv", ["--out", tmp_path / "m"]
    assert "got " in (message := fails("train", folder / "regoin.csv", *ROLES, *out))
    assert "(not found) (close: 'region.csv')" in message
    assert "out must name the folder of the model" in fails("train", region, *ROLES)
    assert "out must be a folder with a name; got '.'" in fails("train", region, *ROLES, "--out", ".")
    assert "labels must name the label columns" in fails("train", region, *out)
    assert "labels must match a column; got 'bird_*'" in fails("train", region, "--labels", "bird_*", *out)
    assert "table must have the column(s) 'plot'" in fails(
        "train", region, "--labels", "sp_*", "--id-column", "plot", *out
    )
    assert "an identifier or free text" in fails("train", region, "--labels", "sp_*", *out)
    (tmp_path / "latin.csv").write_bytes("höhe,sp_a\n1,0\n2,1\n".encode("latin-1"))
    assert "text must be utf-8; got byte 0xf6" in fails("train", tmp_path / "latin.csv", "--labels", "sp_*", *out)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("...")
    assert "model folder must be new, empty or a hotvae model" in fails(
        "train", region, *ROLES, "--out", tmp_path / "thesis"
    )
    (tmp_path / "file").write_text("...")
    assert "file" in fails("train", region, *ROLES, *QUICK, "--quiet", "--out", tmp_path / "file" / "m")


def test_encoding__named__is_used_in_training_and_prediction(folder, tmp_path, run):
    table = pd.read_csv(folder / "region.csv").rename(columns={"elevation": "höhe"})
    table.to_csv(tmp_path / "t.csv", index=False, encoding="latin-1", sep=";", decimal=",")
    reading = ["--encoding", "latin-1", "--decimal", ","]
    summary, _ = trained(run, tmp_path / "t.csv", tmp_path / "m", *reading)
    assert summary["n_features"] == 7
    predict = ["predict", tmp_path / "m", tmp_path / "t.csv", "--out", tmp_path / "p.csv"]
    assert run(*predict)[0] == 2
    assert run(*predict, *reading)[0] == 0
    assert run("evaluate", tmp_path / "m", tmp_path / "t.csv", *reading)[0] == 0


@pytest.mark.parametrize("command", ["predict", "evaluate", "info"])
def test_model__missing_or_foreign_folder__is_refused(folder, tmp_path, fails, command):
    rest = {
        "predict": [folder / "new.csv", "--out", tmp_path / "p.csv"],
        "evaluate": [folder / "new.csv"],
        "info": [],
    }
    assert "model folder must exist; got" in fails(command, tmp_path / "none", *rest[command])
    assert "model folder must hold config.json" in fails(command, tmp_path, *rest[command])


def test_unexpected_exception__is_not_hidden(folder, monkeypatch):
    def broken(path):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("hotvae.estimators.registry.load_model", broken)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        main(["info", str(folder / "model")])


def test_warnings__repeated__are_shown_once_and_filters_are_given_back(folder, monkeypatch, run):
    import warnings

    def warned(path):
        for _ in range(2):
            warnings.warn("twice\n  over", DataWarning, stacklevel=1)
        return load_model(path)

    monkeypatch.setattr("hotvae.estimators.registry.load_model", warned)
    before = list(warnings.filters)
    assert run("info", folder / "model")[2] == "warning: twice over\n"
    assert list(warnings.filters) == before


# --- interrupted training --------------------------------------------------------------------------------


@pytest.fixture
def interrupted(folder, tmp_path, run, monkeypatch):
    """A run of three epochs, interrupted after the second."""
    arguments = ["train", folder / "region.csv", *ROLES, *QUICK[:4], "--epochs", "3", "--out", tmp_path / "m"]

    def stop(self, record):
        if record["epoch"] == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Lines, "epoch", stop)
        code, out, err = run(*arguments)
    assert (code, out) == (130, "")
    assert err.endswith(f"interrupted; the same command goes on from {tmp_path / 'm.state'}\n")
    assert (tmp_path / "m.state").exists()
    assert not (tmp_path / "m").exists()
    return arguments


def test_train__interrupted_and_repeated__ends_as_if_undisturbed(interrupted, tmp_path, run):
    code, out, err = run(*interrupted, "--json")
    assert code == 0
    assert "m.state is left of an interrupted run: going on" in err
    assert "resumed after epoch 2" in err
    assert json.loads(out)["resumed"] is True
    assert not (tmp_path / "m.state").exists()
    assert run(*interrupted[:-1], tmp_path / "undisturbed")[0] == 0
    first, second = load_model(tmp_path / "m"), load_model(tmp_path / "undisturbed")
    assert first.thresholds_ == second.thresholds_
    for name, weights in second.network_.state_dict().items():
        np.testing.assert_array_equal(first.network_.state_dict()[name].numpy(), weights.numpy())


@pytest.mark.parametrize(
    "change", [["--seed", "7"], ["--layers", "1"], ["--graph", "cooccurrence", "--set", "min_count=9"]]
)
def test_train__interrupted_and_changed__asks_for_a_fresh_start(interrupted, tmp_path, run, fails, change):
    message = fails(*interrupted, *change)
    assert "training state must belong to the same" in message
    assert message.endswith("Or pass --no-resume to start afresh.")
    code, out, err = run(*interrupted, *change, "--no-resume", "--json")
    assert code == 0
    assert "going on" not in err
    assert json.loads(out)["resumed"] is False
    assert not (tmp_path / "m.state").exists()


def test_train__damaged_state__asks_for_a_fresh_start(interrupted, tmp_path, fails):
    (tmp_path / "m.state").write_bytes(b"not tensors")
    assert fails(*interrupted).endswith("Or pass --no-resume to start afresh.")


# --- demo ------------------------------------------------------------------------------------------------


@pytest.fixture
def quick_demo(monkeypatch):
    from hotvae.jobs import demo

    settings = {"max_epochs": 1, "encoder_widths": (8,), "dim": 8}
    quick = functools.partial(demo.run_demo, n_sites=150, settings=settings, n_trees=5)
    monkeypatch.setattr(demo, "run_demo", quick)


def test_demo__text__shows_one_table_and_commands_that_work(quick_demo, tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("demo", "--quiet", "--threads", "1")
    assert (code, err) == (0, "")
    header = next(line for line in out.splitlines() if line.startswith("model"))
    assert " ".join(header.split()) == "model ebF1 miF1 maF1 HA median AUC log loss seconds"
    assert "HOT-VAE" in out
    for name in ("report.html", "model", "region.csv"):
        assert f"hotvae-demo/{name}" in out
        assert (tmp_path / "hotvae-demo" / name).exists()
    commands = [shlex.split(line) for line in out.splitlines() if line.startswith("hotvae ")]
    assert [command[1] for command in commands] == ["evaluate", "train", "predict", "train"]
    assert commands[-1] == ["hotvae", "train", "my_table.csv", "--labels", "sp_*", "--out", "my_model"]
    assert out.endswith("hotvae train my_table.csv --labels 'sp_*' --out my_model\n")
    for _, *arguments in commands[:-1]:
        fast = [*QUICK, "--keep-single-class"] if arguments[0] == "train" else []
        assert run(*arguments, *fast)[0] == 0


def test_demo__json__is_one_object_without_nan(tmp_path, run, monkeypatch):
    from hotvae.jobs import demo

    def finished(out, *, seed, progress, n_threads):
        assert (progress, n_threads) == ("silent", 1)
        measures = dict.fromkeys(demo.SHOWN_METRICS, 0.5) | {"median_auc": float("nan")}
        return demo.DemoResult(out, seed, (demo.ModelScores("HOT-VAE", measures, 9.0),), (), (), 0)

    monkeypatch.setattr(demo, "run_demo", finished)
    code, out, err = run("demo", "--quiet", "--json", "--seed", "3", "--out", tmp_path / "d")
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert result["seed"] == 3
    assert result["table"][0]["log loss"] == 0.5
    assert result["table"][0]["median AUC"] is None
    assert result["report"] == str(tmp_path / "d" / "report.html")


def test_demo__folder_with_other_things_for_a_model__is_refused(quick_demo, tmp_path, fails):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "thesis.tex").write_text("...")
    assert "model folder must be new, empty or a hotvae model" in fails("demo", "--quiet", "--out", tmp_path)
