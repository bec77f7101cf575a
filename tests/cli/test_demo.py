"""``hotvae demo``, at a size that takes seconds: its commands work, and its numbers are those of the saved model."""

import functools
import json
import shlex
from dataclasses import replace

import pandas as pd
import pytest

from hotvae.jobs.data import export_set
from tests.cli.region import QUICK


@pytest.fixture
def quick_demo(monkeypatch):
    from hotvae.jobs import virtual_demo as demo

    settings = {"max_epochs": 1, "encoder_widths": (8,), "dim": 8}
    quick = functools.partial(demo.run_demo, n_sites=150, settings=settings, n_trees=5)
    monkeypatch.setattr(demo, "run_demo", quick)


@pytest.mark.slow
def test_virtual_demo__text__shows_one_table_and_commands_that_work(quick_demo, tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("demo", "--virtual", "--quiet", "--threads", "1")
    assert (code, err) == (0, "")
    header = next(line for line in out.splitlines() if line.startswith("model"))
    assert " ".join(header.split()) == "model ebF1 miF1 maF1 HA median AUC log loss seconds"
    assert "HOT-VAE" in out
    for name in ("report.html", "model", "region.csv"):
        assert f"hotvae-demo/{name}" in out
        assert (tmp_path / "hotvae-demo" / name).exists()
    commands = [shlex.split(line) for line in out.splitlines() if line.startswith("hotvae ")]
    assert [command[1] for command in commands] == ["evaluate", "train", "predict"]
    for _, *arguments in commands:
        fast = [*QUICK, "--keep-single-class"] if arguments[0] == "train" else []
        assert run(*arguments, *fast)[0] == 0


def test_virtual_demo__json__is_one_object_without_nan(tmp_path, run, monkeypatch):
    from hotvae.jobs import virtual_demo as demo

    def finished(out, *, seed, progress, n_threads):
        assert (progress, n_threads) == ("silent", 1)
        measures = dict.fromkeys(demo.SHOWN_METRICS, 0.5) | {"median_auc": float("nan")}
        return demo.DemoResult(out, seed, (demo.ModelScores("HOT-VAE", measures, 9.0),), (), (), 0)

    monkeypatch.setattr(demo, "run_demo", finished)
    code, out, err = run("demo", "--virtual", "--quiet", "--json", "--seed", "3", "--out", tmp_path / "d")
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert result["seed"] == 3
    assert result["table"][0]["log loss"] == 0.5
    assert result["table"][0]["median AUC"] is None
    assert result["report"] == str(tmp_path / "d" / "report.html")


@pytest.mark.parametrize("kind", [(), ("--virtual",)])
def test_demo__folder_with_other_things_for_a_model__is_refused(quick_demo, tmp_path, fails, kind):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "thesis.tex").write_text("...")
    assert "model folder must be new, empty or a hotvae model" in fails("demo", *kind, "--quiet", "--out", tmp_path)


@pytest.mark.slow
def test_demo__birds__table_from_the_saved_model_and_commands_that_work(tmp_path, run, monkeypatch):
    from hotvae.jobs import demo

    def few_birds(name, out):
        files = export_set(name, out)
        for path, n_rows in ((files.train, 300), (files.validation, 80), (files.test, 120)):
            pd.read_csv(path).iloc[-n_rows:, : 14 + 16].to_csv(path, index=False)
        return replace(files, labels="Acadian Flycatcher:Black-billed Magpie")

    brief = functools.partial(demo.run_demo, parameters={"effort": 1.0}, n_trees=20)
    monkeypatch.setattr(demo, "run_demo", brief)
    monkeypatch.setattr(demo, "export_set", few_birds)
    monkeypatch.setattr(demo, "PAGE_ROWS", 20)
    monkeypatch.chdir(tmp_path)
    code, out, err = run("demo", "--quiet")
    assert (code, err) == (0, "")
    header = next(line for line in out.splitlines() if line.startswith("model"))
    assert " ".join(header.split()) == "model log loss AUC half known joint in 90 % seconds"
    notes = json.loads((tmp_path / "hotvae-demo" / "results.json").read_text(encoding="utf-8"))
    assert notes["rows"] == {"train": 300, "validation": 80, "test": 120}
    assert "USGS" in notes["data"]["source"]
    assert {"explorer.html", "report.html", "model"} <= {path.name for path in (tmp_path / "hotvae-demo").iterdir()}
    ours, *rivals = notes["table"]
    # Who cannot be told anything is asked about other cells, and says of them what it said before.
    assert all(abs(row["half known"] - row["log loss"]) < 0.02 for row in rivals)
    assert all(row["joint"] == pytest.approx(16 * row["log loss"], rel=1e-4) for row in rivals)  # independent
    assert ours["joint"] < 16 * ours["log loss"]
    commands = [shlex.split(line) for line in out.splitlines() if line.startswith("hotvae ")]
    assert [command[1] for command in commands] == ["predict", "evaluate", "train"]
    for _, *arguments in commands:
        assert run(*arguments)[0] == 0
    assert "Acadian Flycatcher" in pd.read_csv("species.csv")["label"].tolist()
    told, seen = (pd.read_csv(name, index_col="route") for name in ("told.csv", "hotvae-demo/seen.csv"))
    species = [name for name in seen if name in told]
    assert len(species) == 8
    assert (told.loc[seen.index, species] == seen[species]).all(axis=None)
    moved = out.split("The others that moved most:\n")[1].splitlines()[1:6]
    alone = run("predict", "hotvae-demo/model", "hotvae-demo/birds/test.csv", "--out", "alone.csv")
    assert alone[0] == 0
    route = seen.index[0]
    assert f"route {route}, " in out
    before, after = pd.read_csv("alone.csv", index_col="route").loc[route], told.loc[route]
    shown = [line.rsplit(maxsplit=3) for line in moved]
    truth = pd.read_csv("hotvae-demo/birds/test.csv", index_col="route").loc[route]
    names = [name.strip() for name, *_ in shown]
    assert not set(names) & set(species)
    change = (after - before).abs()[[name for name in after.index if name in truth.index[13:] and name not in species]]
    assert change[names].tolist() == pytest.approx(change.nlargest(5).tolist(), abs=1e-6)
    assert [(was, now) for _, was, now, _ in shown] == [(f"{before[name]:.2f}", f"{after[name]:.2f}") for name in names]
    assert [found == "yes" for *_, found in shown] == [truth[name] == 1 for name in names]
    measured = run("evaluate", "hotvae-demo/model", "hotvae-demo/birds/test.csv", "--json")[1]
    assert json.loads(measured)["metrics"]["log_loss"] == pytest.approx(ours["log loss"], abs=1e-6)
