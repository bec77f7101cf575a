"""``hotvae train``: tables, splits, graphs, settings, interruptions, and that Python trains the same model."""

import json
import shlex
import traceback
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hotvae import evaluate, load_model
from hotvae.cli import main
from hotvae.estimators.thresholds import tune_thresholds
from hotvae.net import losses
from hotvae.training.progress import Lines
from tests.cli.region import LABELS, QUICK, ROLES, SMALL


def trained(run, table, out, *options):
    code, printed, err = run("train", table, *ROLES, *QUICK, "--quiet", "--json", "--out", out, *options)
    assert code == 0, err
    return json.loads(printed), load_model(out)


def test_train__same_seed_and_rows__is_the_model_python_trains(folder, python_model):
    model = load_model(folder / "model")
    assert model.thresholds_ == python_model.thresholds_
    for name, weights in python_model.network_.state_dict().items():
        np.testing.assert_array_equal(model.network_.state_dict()[name].numpy(), weights.numpy())


def test_walk__from_the_command_to_the_ranking_loss__is_ten_frames_at_most(folder, tmp_path, run, monkeypatch):
    """Frames of the package only: the command line's library and the shape checks of tests lie between them."""
    walk, package, compute = [], Path(losses.__file__).parents[1], losses.ranking_loss

    def noted(probs, labels):
        if not walk:
            walk.extend(frame.name for frame in traceback.extract_stack() if package in Path(frame.filename).parents)
        return compute(probs, labels)

    monkeypatch.setattr(losses, "ranking_loss", noted)
    assert run("train", folder / "region.csv", *ROLES, *QUICK, "--quiet", "--out", tmp_path / "m")[0] == 0
    assert [name for name in walk if name != "main"] == [
        *("train", "train", "fit", "_learn"),  # cli/train.py, jobs/train.py, estimators/base.py and network.py
        *("fit_network", "train_epoch", "loss", "hotvae_terms"),  # training/loop.py, net/model.py and losses.py
    ]


def test_model_card__notes_what_predict_needs_and_no_folders(folder):
    card = load_model(folder / "model").extra_
    assert card["table"] == "region.csv"
    assert card["id_column"] == "site"
    assert card["coordinates"] == ["easting_km", "northing_km"]
    assert card["labels"] == LABELS
    assert card["label_patterns"] == ["sp_*"]
    assert card["feature_kinds"] == ["numeric"] * 9  # seven, and where the sites are
    assert card["command"].startswith("hotvae train region.csv --labels 'sp_*' --id-column site")
    assert str(folder) not in json.dumps(card)
    assert card["validation"]["n_rows"] == 25
    assert card["prevalence"].keys() == set(LABELS)


@pytest.mark.slow
def test_train__json__is_one_object_that_tells_the_run(folder, tmp_path, run):
    arguments = ["train", folder / "region.csv", *ROLES, *QUICK, "--json", "--out", tmp_path / "m"]
    code, out, err = run(*arguments)
    summary = json.loads(out)
    assert code == 0
    assert "HOT-VAE: epoch 2/2" in err  # progress stays on standard error
    expected = {
        "kind": "HotVAENetwork",
        "n_train": 95,
        "n_validation": 25,
        "split": "stratified",
        "n_features": 9,
        "n_labels": 6,
        "n_epochs": 2,
        "stopped": "max_epochs",
        "resumed": False,
    }
    assert {name: summary[name] for name in expected} == expected
    assert summary["validation"]["n_rows"] == 25
    assert not (tmp_path / "m.state").exists()


@pytest.mark.slow
def test_train__text__says_what_to_type_next_and_it_works(folder, tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.read_csv(folder / "region.csv").to_csv("my sites.csv", index=False)
    code, out, err = run("train", "my sites.csv", *ROLES, *QUICK, "--quiet", "--out", "my model")
    assert (code, err) == (0, "")
    for text in ("trained HOT-VAE on my sites.csv", "maF1", "saved       my model", "95 + 25 for validation"):
        assert text in out
    following, then = out.splitlines()[-2:]
    assert main(shlex.split(following.removeprefix("next"))[1:]) == 0
    command, _, why = then.removeprefix("then").strip().partition("  (")
    assert why == "your new rows, with the features of my sites.csv)"
    assert "my sites.csv" not in shlex.split(command)  # never the rows it was trained on
    Path("my sites.csv").rename("new_rows.csv")
    assert main(shlex.split(command)[1:]) == 0
    assert len(pd.read_csv("predictions.csv")) == 120


@pytest.mark.slow
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


@pytest.mark.slow
def test_train__labels_in_a_second_table__are_joined(folder, tmp_path, run):
    table = pd.read_csv(folder / "region.csv")
    table.drop(columns=LABELS).to_csv(tmp_path / "x.csv", index=False)
    table[["site", *LABELS]].sample(frac=1, random_state=0).to_csv(tmp_path / "y.csv", index=False)
    options = ["--label-table", tmp_path / "y.csv", *ROLES[2:], *QUICK, "--quiet", "--out", tmp_path / "m"]
    assert run("train", tmp_path / "x.csv", *options)[0] == 0
    first, second = load_model(tmp_path / "m"), load_model(folder / "model")
    assert first.thresholds_ == second.thresholds_
    assert first.extra_["label_table"] == "y.csv"


@pytest.mark.slow
def test_train__validation_file__chooses_the_thresholds(folder, tmp_path, run):
    new = pd.read_csv(folder / "new.csv")
    new[new.columns[::-1]].to_csv(tmp_path / "held_out.csv", index=False)
    summary, model = trained(run, folder / "region.csv", tmp_path / "m", "--validation", tmp_path / "held_out.csv")
    assert (summary["n_train"], summary["n_validation"], summary["split"]) == (120, 60, "file")
    probs = model.predict_proba(new[list(model.feature_names_in_)])
    assert model.thresholds_ == tune_thresholds(new[LABELS].to_numpy(), probs)
    assert summary["validation"] == evaluate(new[LABELS].to_numpy(), probs, model.thresholds_)


@pytest.mark.slow
def test_train__group_and_block_splits__follow_their_columns(folder, tmp_path, run, fails):
    table = pd.read_csv(folder / "region.csv").assign(valley=np.arange(120) // 30)
    table.to_csv(tmp_path / "t.csv", index=False)
    grouped = ["--groups", "valley", "--split", "group", "--validation-fraction", "0.25"]
    summary, _ = trained(run, tmp_path / "t.csv", tmp_path / "m", *grouped)
    assert (summary["split"], summary["n_validation"]) == ("group", 30)  # one whole valley
    assert trained(run, folder / "region.csv", tmp_path / "m2", "--split", "block")[0]["split"] == "block"
    message = fails("train", folder / "region.csv", *ROLES, *QUICK, "--split", "group", "--out", tmp_path / "n")
    assert "a split by groups must have groups" in message


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
    plain = ["train", folder / "region.csv", *ROLES, *SMALL, "--quiet", "--json", "--model", "plain", "--out"]
    code, printed, _ = run(*plain, tmp_path / "m")
    assert code == 0
    assert json.loads(printed)["kind"] == type(load_model(tmp_path / "m")).__name__ == "PlainNetClassifier"
    assert run("evaluate", tmp_path / "m", folder / "new.csv")[0] == 0
    arguments = [*plain, tmp_path / "n"]
    assert "graph must be left out for the plain model" in fails(*arguments, "--graph", "cooccurrence")
    assert "must be an option or a parameter; got 'layers'" in fails(*arguments, "--layers", "2")


@pytest.mark.slow
def test_train__recipe_of_the_paper__its_settings_unless_overruled(folder, tmp_path, run, fails):
    options = [*ROLES, *QUICK, "--quiet", "--recipe", "paper", "--set", "weight_decay=0.5"]
    assert run("train", folder / "region.csv", *options, "--out", tmp_path / "m")[0] == 0
    settings = load_model(tmp_path / "m").current_settings()
    expected = {"direct_path": False, "optimizer": "adam"}
    assert settings.items() >= (expected | {"weight_decay": 0.5, "learning_rate": 0.01}).items()
    message = fails("train", folder / "region.csv", *ROLES, "--recipe", "paper", "--model", "plain", "--out", "m")
    assert "recipe must go with model hotvae; got 'paper' with 'plain'" in message
    message = fails("train", folder / "region.csv", *ROLES, "--recipe", "papers", "--out", "m")
    assert "recipe must be one of 'auto', 'network', 'paper'; got 'papers'" in message


@pytest.mark.slow
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


@pytest.mark.slow
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
    assert load_model(tmp_path / "m").features_.is_sparse
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
    assert "rows        30 (none)" in out
    predict = ["predict", tmp_path / "m", folder / "new.csv", "--out", tmp_path / "p.csv"]
    assert "model must have a tuned threshold for macro_f1" in fails(*predict, "--binary", "macro_f1")
    assert "thresholds 0.5, as none were tuned" in run("evaluate", tmp_path / "m", folder / "new.csv")[1]


@pytest.mark.slow
def test_train__doubtful_column__is_a_warning_of_one_line(folder, tmp_path, run):
    pd.read_csv(folder / "region.csv").assign(year=1999).to_csv(tmp_path / "t.csv", index=False)
    code, _, err = run("train", tmp_path / "t.csv", *ROLES, *QUICK, "--quiet", "--out", tmp_path / "m")
    assert code == 0
    assert err.startswith("warning: ")
    assert "'year'" in err
    assert err.count("\n") == 1


@pytest.mark.slow
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
    options = ["--labels", "sp_*", *QUICK, "--set", f"encoder={encoder}", "--quiet", "--out", model]
    assert run("train", table, *options)[0] == 0
    assert run("evaluate", model, table)[0] == 0
    assert run("predict", model, table, "--out", tmp_path / "p.csv")[0] == 0
    expected = load_model(model).predict_proba(cells)
    np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv")[["sp_a", "sp_b"]], expected, rtol=1e-6)


@pytest.mark.slow
def test_config__file_and_command_line__the_latter_wins(folder, tmp_path, run):
    config = tmp_path / "run.yaml"
    config.write_text(
        "labels: [sp_*]\nid-column: site\ncoordinates: [easting_km, northing_km]\nepochs: 5\n"
        "recipe: network\nsplit: stratified\n"
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
        (["--set", "kl_weight=-1"], "kl_weight must be a number of at least 0; got -1"),
        (["--set", "schedule=linear"], "schedule must be one of 'constant', 'cosine'; got 'linear'"),
        (["--set", "max_words=9"], "max_words must be left out with encoder 'mlp'"),
        (["--set", "selection_metric=f2"], "selection_metric must be one of"),
        (["--device", "abacus"], "device must be 'auto' or one at hand"),
        (["--split", "rows"], "split must be one of 'auto', 'random', 'stratified', 'group', 'block'; got 'rows'"),
        (["--validation-fraction", "1"], "validation_fraction must be a share from 0 up to, not including, 1; got 1"),
        (["--validation", "none.csv"], "table must be an existing file; got 'none.csv'"),
        (["--drop", "nothing_*"], "drop must match a column; got 'nothing_*'"),
        (["--workers", "2"], "--workers must go with --ray; got it alone"),
        (["--ray", "local"], "--ray without --workers must go with a model that finds its own recipe"),
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
    assert "an identifier or free text" in fails("train", region, "--labels", "sp_*", *QUICK, *out)
    (tmp_path / "latin.csv").write_bytes("höhe,sp_a\n1,0\n2,1\n".encode("latin-1"))
    assert "text must be utf-8; got byte 0xf6" in fails("train", tmp_path / "latin.csv", "--labels", "sp_*", *out)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("...")
    assert "model folder must be new, empty or a hotvae model" in fails(
        "train", region, *ROLES, "--out", tmp_path / "thesis"
    )
    (tmp_path / "file").write_text("...")
    assert "file" in fails("train", region, *ROLES, *QUICK, "--quiet", "--out", tmp_path / "file" / "m")


@pytest.mark.slow
def test_encoding__named__is_used_in_training_and_prediction(folder, tmp_path, run):
    table = pd.read_csv(folder / "region.csv").rename(columns={"elevation": "höhe"})
    table.to_csv(tmp_path / "t.csv", index=False, encoding="latin-1", sep=";", decimal=",")
    reading = ["--encoding", "latin-1", "--decimal", ","]
    summary, _ = trained(run, tmp_path / "t.csv", tmp_path / "m", *reading)
    assert summary["n_features"] == 9
    predict = ["predict", tmp_path / "m", tmp_path / "t.csv", "--out", tmp_path / "p.csv"]
    assert run(*predict)[0] == 2
    assert run(*predict, *reading)[0] == 0
    assert run("evaluate", tmp_path / "m", tmp_path / "t.csv", *reading)[0] == 0


# --- interrupted training --------------------------------------------------------------------------------


@pytest.fixture
def interrupted(folder, tmp_path, run, monkeypatch):
    """A run of three epochs, interrupted after the second."""
    arguments = ["train", folder / "region.csv", *ROLES, *QUICK, "--epochs", "3", "--out", tmp_path / "m"]

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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("change", [["--seed", "7"], ["--layers", "1"], ["--set", "batch_size=9"]])
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
