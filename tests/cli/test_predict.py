"""``hotvae predict``: files, columns, thresholds, labels that are given."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hotvae import HotVAEClassifier, HotVAENetwork, load_model
from hotvae.baselines.prevalence import Prevalence
from hotvae.baselines.probit import ProbitJSDM
from hotvae.cli import main
from hotvae.data.frames import write_table
from tests.cli.region import LABELS, PARAMETERS, QUICK, ROLES


def test_predict__new_rows__are_what_python_predicts(folder, python_model, tmp_path, run):
    out = tmp_path / "p.parquet"
    code, printed, err = run("predict", folder / "model", folder / "new.csv", "--out", out)
    assert (code, err) == (0, "")
    assert printed == f"wrote 60 rows × 6 labels to {out}\n"
    new = pd.read_csv(folder / "new.csv")
    table = pd.read_parquet(out)
    assert list(table) == ["site", "easting_km", "northing_km", *LABELS]
    assert table["site"].tolist() == new["site"].tolist()
    for name in ("easting_km", "northing_km"):  # pandas 2 reads the last digit of a text in two ways
        assert table[name].tolist() == pytest.approx(new[name].tolist(), rel=1e-15)
    expected = python_model.predict_proba(new[list(python_model.feature_names_in_)])
    np.testing.assert_array_equal(table[LABELS].to_numpy(), expected)


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


@pytest.mark.slow
def test_predict__columns_dropped_in_training__are_passed_over(folder, tmp_path, run):
    table = pd.read_csv(folder / "region.csv").assign(note_a="x", note_b=1.5)
    table.to_csv(tmp_path / "t.csv", index=False)
    model = tmp_path / "m"
    dropping = ["--drop", "note_*", "--drop", "soil_ph,forest"]
    assert run("train", tmp_path / "t.csv", *ROLES, *dropping, *QUICK, "--out", model)[0] == 0
    assert load_model(model).n_features_in_ == 7  # five, and where the sites are
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
    model = HotVAENetwork.from_settings(**PARAMETERS | {"max_epochs": 1}).fit(features, labels)
    model.save(tmp_path / "m")
    pd.DataFrame(features, columns=["feature_0", "feature_1"]).to_parquet(tmp_path / "t.parquet")
    assert run("predict", tmp_path / "m", tmp_path / "t.parquet", "--out", tmp_path / "p.parquet")[0] == 0
    table = pd.read_parquet(tmp_path / "p.parquet")
    np.testing.assert_array_equal(table[["label_0", "label_1"]].to_numpy(), model.predict_proba(features))


# --- Parquet, threads and labels that are given ---------------------------------------------------------------


@pytest.fixture(scope="module")
def frame():
    random = np.random.default_rng(0)
    soil = random.choice(["sand", "clay"], 70)
    table = pd.DataFrame({"site": [f"s{i}" for i in range(70)], "depth": random.normal(size=70), "soil": soil})
    return table.assign(wren=(table.depth > 0).astype(float), robin=(table.soil == "clay").astype(float))


@pytest.fixture(scope="module")
def model(frame):
    model = HotVAENetwork.from_settings(max_epochs=2, encoder_widths=(8,), dim=8, random_state=0)
    model.fit(frame[["depth", "soil"]], frame[["wren", "robin"]])
    model.extra_ = {}
    return model


@pytest.fixture
def table(frame, tmp_path):
    path = tmp_path / "new.parquet"
    # Row groups that have nothing to do with the pieces.
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path, row_group_size=13)
    return path


def test_predict__parquet_to_parquet__streams(model, table, tmp_path, capsys):
    model.save(tmp_path / "m")
    arguments = ["predict", str(tmp_path / "m"), str(table), "--out", str(tmp_path / "p.parquet")]
    assert main([*arguments, "--id-column", "site", "--ignore-unknown", "--threshold", "0.5"]) == 0
    printed = capsys.readouterr().out
    assert "wrote 70 rows × 2 labels" in printed
    assert "wrote 0/1 labels at threshold 0.5" in printed
    assert len(pd.read_parquet(tmp_path / "p_binary.parquet")) == 70


def threads_of(model):
    return model.current_settings()["n_threads"]


def test_predict__threads__those_asked_for(model, table, tmp_path, monkeypatch):
    model.save(tmp_path / "m")
    seen = []
    probs = type(model)._probs
    monkeypatch.setattr(type(model), "_probs", lambda self, rows: (seen.append(threads_of(self)), probs(self, rows))[1])
    arguments = ["predict", str(tmp_path / "m"), str(table), "--id-column", "site", "--ignore-unknown"]
    assert main([*arguments, "--out", str(tmp_path / "p.parquet")]) == 0
    assert main([*arguments, "--out", str(tmp_path / "q.parquet"), "--threads", "2"]) == 0
    assert seen == [threads_of(model), 2]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_predict__given__is_what_python_predicts(frame, table, tmp_path, capsys, kind):
    model = ProbitJSDM.from_settings(max_epochs=2, random_state=0)
    model.fit(frame[["depth", "soil"]], frame[["wren", "robin"]]).save(tmp_path / "m")
    labels = pd.DataFrame({"site": ["s3", "s1"], "robin": [1, 0]})
    write_table(labels, tmp_path / f"seen.{kind}")
    out = tmp_path / f"p.{kind}"
    arguments = ["predict", str(tmp_path / "m"), str(table), "--out", str(out), "--id-column", "site"]
    assert main([*arguments, "--ignore-unknown", "--given", str(tmp_path / f"seen.{kind}")]) == 0
    assert "given 2 labels in 2 of 70 rows" in capsys.readouterr().out
    found = pd.read_parquet(out) if kind == "parquet" else pd.read_csv(out)
    given = np.full((70, 2), np.nan)
    given[3, 1], given[1, 1] = 1, 0
    expected = model.predict_proba(frame[["depth", "soil"]], given=given)
    np.testing.assert_allclose(found[["wren", "robin"]].to_numpy(), expected, atol=1e-6)
    plain = model.predict_proba(frame[["depth", "soil"]])
    assert found["robin"].iloc[[3, 1]].tolist() == [1, 0]
    assert found["wren"].iloc[3] != pytest.approx(plain[3, 0], abs=1e-7)
    np.testing.assert_allclose(found["wren"].iloc[[0, 2]], plain[[0, 2], 0], atol=1e-6)


def test_predict__given_to_models_that_cannot__is_refused(frame, table, tmp_path, capsys):
    features = frame[["depth", "soil"]]
    Prevalence().fit(features, frame[["wren", "robin"]]).save(tmp_path / "m")
    Prevalence().fit(features, frame["wren"].astype(int)).save(tmp_path / "c")
    pd.DataFrame({"robin": [1.0] * 70}).to_csv(tmp_path / "seen.csv", index=False)
    options = [str(table), "--ignore-unknown", "--given", str(tmp_path / "seen.csv"), "--out"]
    assert main(["predict", str(tmp_path / "m"), *options, str(tmp_path / "p.csv")]) == 2
    said = capsys.readouterr().err
    assert "--given must go with a model that learns labels from labels; got Prevalence. Leave it out, or train" in said
    assert "a model without --recipe and --model." in said
    assert main(["predict", str(tmp_path / "c"), *options, str(tmp_path / "p.csv")]) == 2
    assert "--given must go with a model of labels; got one of classes" in capsys.readouterr().err
    assert not (tmp_path / "p.csv").exists()


def test_predict__given_as_a_pair__is_told_that_a_table_is_meant(folder, tmp_path, run):
    out = tmp_path / "p.csv"
    code, _, err = run("predict", folder / "model", folder / "new.csv", "--given", "wren=1", "--out", out)
    assert code == 2
    assert not out.exists()
    assert "--given must be a table of known labels, row by row; got 'wren=1'. Write a table with a column named" in err


@pytest.mark.parametrize("objective", ["hamming", "f1", "jaccard", "subset", "macro_f1"])
def test_predict__list__is_what_python_decides(folder, python_model, tmp_path, run, objective):
    out = tmp_path / "p.csv"
    words = ("--list", objective, "--draws", 20, "--empty", 0)
    code, printed, err = run("predict", folder / "model", folder / "new.csv", "--out", out, *words)
    assert (code, err) == (0, "")
    said = f"best for {objective} to {tmp_path / 'p_list.csv'} (an empty list where no label is present counts 0)"
    assert printed.splitlines()[1] == f"wrote lists that are {said}"
    new = pd.read_csv(folder / "new.csv")[list(python_model.feature_names_in_)]
    expected = python_model.predict(new, objective=objective, n_draws=20, empty=0)
    np.testing.assert_array_equal(pd.read_csv(tmp_path / "p_list.csv")[LABELS], expected)


def test_predict__list_from_parquet_to_parquet__goes_in_pieces_and_says_so_in_json(folder, tmp_path, run):
    pd.read_csv(folder / "new.csv").to_parquet(tmp_path / "new.parquet")
    out = tmp_path / "p.parquet"
    words = ("--list", "f1", "--draws", 20, "--threshold", 0.3)
    code, printed, _ = run("predict", folder / "model", tmp_path / "new.parquet", "--out", out, *words, "--json")
    assert code == 0
    told = json.loads(printed)
    assert told["list"] == {"objective": "f1", "empty": 1, "n_draws": 20}
    assert [name.rpartition("/")[2] for name in told["files"]] == ["p.parquet", "p_binary.parquet", "p_list.parquet"]
    assert run("predict", folder / "model", folder / "new.csv", "--out", tmp_path / "q.csv", *words)[0] == 0
    in_pieces, at_once = pd.read_parquet(tmp_path / "p_list.parquet"), pd.read_csv(tmp_path / "q_list.csv")
    np.testing.assert_array_equal(in_pieces[LABELS], at_once[LABELS])
    assert not list(tmp_path.glob(".p.parquet*"))


def test_predict__unknown_objective_or_empty__is_named(folder, tmp_path, fails):
    arguments = ("predict", folder / "model", folder / "new.csv", "--out", tmp_path / "p.csv")
    message = fails(*arguments, "--list", "recall")
    assert "--list must be one of 'hamming', 'f1', 'jaccard', 'subset' or a measure of predictions" in message
    assert "empty must be 1 or 0; got 3" in fails(*arguments, "--list", "f1", "--empty", 3)
    assert not (tmp_path / "p.csv").exists()


# --- trust ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trusting(tmp_path_factory):
    """A model that knows its training rows, rows like them, and rows far beyond."""
    place = tmp_path_factory.mktemp("trust")
    random = np.random.default_rng(0)
    table = pd.DataFrame({"rain": random.uniform(200, 900, 240), "slope": random.normal(size=240)})
    chance = 1 / (1 + np.exp(-(table["rain"] - 500) / 60))
    labels = pd.DataFrame({"oak": random.random(240) < chance, "pine": random.random(240) < 1 - chance}).astype(int)
    model = HotVAEClassifier(effort="quick", joint=False, random_state=0).fit(table, labels)
    model.save(place / "model")
    table[:40].to_csv(place / "near.csv", index=False)
    far = table[:40].assign(rain=lambda t: np.where(t.index < 10, 3 * 900, t["rain"]))
    far.to_csv(place / "far.csv", index=False)
    far.to_parquet(place / "far.parquet")
    return place, model, far


def test_predict__rows_like_training__no_warning(trusting, run, tmp_path):
    code, _, err = run("predict", trusting[0] / "model", trusting[0] / "near.csv", "--out", tmp_path / "p.csv")
    assert code == 0
    assert "warning" not in err


def test_predict__many_rows_beyond_training__warns_and_names_the_column(trusting, run, tmp_path):
    code, _, err = run("predict", trusting[0] / "model", trusting[0] / "far.csv", "--out", tmp_path / "p.csv")
    assert code == 0
    assert "got 10 of 40 that are unlike all of them, with values beyond those of training in 'rain'" in err
    assert "Pass --trust for columns that say which." in err
    assert list(pd.read_csv(tmp_path / "p.csv").columns) == ["row", "oak", "pine"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_predict__trust__columns_before_the_labels_and_a_file_of_calls(trusting, run, tmp_path, kind):
    place, model, far = trusting
    out = tmp_path / f"p.{kind}"
    code, printed, _ = run(
        "predict", place / "model", place / f"far.{kind}", "--out", out, "--trust", "--threshold", 0.5
    )
    assert code == 0
    assert "10 of 40 rows are unlike all training rows" in printed
    read = pd.read_csv if kind == "csv" else pd.read_parquet
    table, calls, binary = read(out), read(tmp_path / f"p_calls.{kind}"), read(tmp_path / f"p_binary.{kind}")
    assert list(table.columns) == ["row", "dissimilarity", "inside_training", "columns_beyond", "oak", "pine"]
    near = model.trust(far)
    np.testing.assert_allclose(table["dissimilarity"], near.dissimilarity, rtol=1e-5)
    assert table["inside_training"].tolist() == near.inside.astype(int).tolist()
    assert table["columns_beyond"].tolist() == near.n_beyond.tolist()
    words = np.array(["absent", "present", "cannot tell"], dtype=object)[model.presence_calls(model.predict_proba(far))]
    assert calls[["oak", "pine"]].to_numpy().tolist() == words.tolist()
    assert set(binary.columns) - {"dissimilarity", "inside_training", "columns_beyond"} == {"row", "oak", "pine"}
    assert set(np.unique(binary[["oak", "pine"]])) <= {0, 1}


def test_predict__trust_of_a_model_that_cannot_tell__one_line(folder, fails, tmp_path):
    line = fails("predict", folder / "model", folder / "new.csv", "--out", tmp_path / "p.csv", "--trust")
    assert "--trust must go with a model that knows its training rows; got one without." in line
