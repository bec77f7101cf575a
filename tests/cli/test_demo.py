"""``hotvae demo``, at a size that takes seconds."""

import functools
import json
import shlex

import pytest

from tests.cli.region import QUICK


@pytest.fixture
def quick_demo(monkeypatch):
    from hotvae.jobs import demo

    settings = {"max_epochs": 1, "encoder_widths": (8,), "dim": 8}
    quick = functools.partial(demo.run_demo, n_sites=150, settings=settings, n_trees=5)
    monkeypatch.setattr(demo, "run_demo", quick)


@pytest.mark.slow
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
