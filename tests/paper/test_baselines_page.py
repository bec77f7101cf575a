"""The page of baselines says what the results say, and what is asked of models is read rightly from them."""

import re

import pytest

from paper import baselines_page

PAGE = baselines_page.PAGE.read_text(encoding="utf-8")
CELLS = baselines_page.read_cells(baselines_page.FILE)


def measured(value, **others):
    """A cell in which every measure of every protocol is one number."""
    numbers = {protocol: dict.fromkeys(baselines_page.KEPT, value) for protocol in baselines_page.PROTOCOLS}
    seconds = {name: {"cpu": value, "wall": value} for name in ("fit_seconds", "predict_seconds")}
    return {"status": "done", **numbers, **seconds, **others}


# The page ---------------------------------------------------------------------------------------------------


def test_page__tables__are_those_of_the_results():
    assert baselines_page.rendered(PAGE, CELLS) == PAGE


@pytest.mark.parametrize("name", [name for name in baselines_page.OWN if name != "hotvae"])  # docs/recipe.md is of it
def test_page__every_model__is_named_and_timed(name):
    assert f"`{name}`" in PAGE
    assert re.search(rf"^\| {name} \| .*\d", baselines_page.speed_table(CELLS), re.MULTILINE)


def test_results__every_cell__can_be_repeated():
    assert CELLS
    for (name, model, seed), cell in CELLS.items():
        assert cell["command"] == f"python -m paper.baselines_page --only {model} --sets {name} --seeds {seed}"
        assert {"python", "hotvae", "torch", "numpy", "scikit-learn"} <= set(cell["versions"])
        assert cell["date"] > "2026"
        assert cell["status"] in ("done", "too slow"), cell.get("error")


def test_results__known_species__tell_of_unknown_ones():
    """On every region that was measured, clearly: by a hundredth of a nat per species."""
    for model in baselines_page.REGION_MODELS:
        own = baselines_page.done_cells(CELLS, baselines_page.REGION, model)
        assert own
        assert all(cell["conditional"] < cell["marginal"] - 0.01 for cell in own)
        assert all(cell["conditional"] > cell["true_conditional"] for cell in own)


# What is asked ----------------------------------------------------------------------------------------------


def test_asked__of_the_paper_s_row__fifteen_thousandths_less():
    asked = [a for a in baselines_page.ASKED if (a.model, a.table) == ("lamp", "yeast")]
    assert [a.least for a in asked] == [{"example_f1": 0.6092, "micro_f1": 0.6257}]
    assert asked[0].protocols == ("honest", "oracle")


def test_judge__two_protocols__the_better_counts_and_the_limit_itself_is_reached():
    asked = baselines_page.Asked("lamp", "yeast", ("honest", "oracle"), {"example_f1": 0.61, "micro_f1": 0.7})
    cell = measured(0.6)
    cell["oracle"] = dict.fromkeys(baselines_page.KEPT, 0.61)
    assert baselines_page.judge(asked, [cell]) == {"example_f1": (0.61, True), "micro_f1": (0.61, False)}
    only_honest = asked._replace(protocols=("honest",))
    assert baselines_page.judge(only_honest, [cell])["example_f1"] == (0.6, False)


def test_sanity_table__two_seeds__means_and_verdicts():
    cells = {("scene", "lamp", seed): measured(value) for seed, value in ((0, 0.70), (1, 0.73))}
    lines = [line for line in baselines_page.sanity_table(cells).splitlines() if line.startswith("| lamp")]
    assert lines == [
        "| lamp | scene | 2 | honest | 0.715 | 0.715 | 0.715 | 0.715 | ebF1 ≥ 0.713; miF1 ≥ 0.701 "
        "| yes (0.715); yes (0.715) | 0.728 / 0.716 / 0.745 / 0.902 |",
        "| lamp | scene | 2 | oracle | 0.715 | 0.715 | 0.715 | 0.715 |  |  |  |",
    ]


def test_speed_table__too_slow__says_how_long_it_was_waited_for():
    cells = {
        ("bibtex", "lamp", 0): {"set": "bibtex", "model": "lamp", "status": "too slow", "limit_seconds": 900.0},
        ("yeast", "lamp", 0): measured(0.5, set="yeast", model="lamp"),
    }
    line = next(line for line in baselines_page.speed_table(cells).splitlines() if line.startswith("| lamp"))
    assert line == "| lamp | 0.50 | 0.50 | 0.500 | 0.5000 | > 900 | - | - | - |"


# Running ----------------------------------------------------------------------------------------------------


def test_main__cell_that_is_done__is_kept_and_the_rest_runs(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(baselines_page, "run_apart", lambda key, limit: ran.append(key["model"]) or {"status": "done"})
    path = tmp_path / "results.json"
    arguments = ["--sets", "yeast", "--results", str(path)]
    baselines_page.main([*arguments, "--only", "ridge"])
    baselines_page.main([*arguments, "--only", "ridge", "mlknn"])
    assert ran == ["ridge", "mlknn"]
    assert list(baselines_page.read_cells(path)) == [("yeast", "mlknn", 0), ("yeast", "ridge", 0)]
    baselines_page.main([*arguments, "--only", "ridge", "--fresh"])
    assert ran == ["ridge", "mlknn", "ridge"]


def test_main__cell_that_was_too_slow__runs_again_only_with_more_time(tmp_path, monkeypatch):
    ran = []

    def slow(key, limit):
        ran.append(limit)
        return {"status": "too slow", "limit_seconds": limit}

    monkeypatch.setattr(baselines_page, "run_apart", slow)
    arguments = ["--sets", "yeast", "--only", "lamp", "--results", str(tmp_path / "results.json")]
    for limit in ("10", "10", "20"):
        baselines_page.main([*arguments, "--limit", limit])
    assert ran == [10.0, 20.0]


@pytest.mark.slow
def test_run_apart__more_seconds_than_allowed__is_ended_and_said():
    cell = baselines_page.run_apart({"set": "region", "model": "mpvae", "seed": 0}, limit=1)
    assert cell == {"status": "too slow", "limit_seconds": 1}


@pytest.mark.slow
def test_run_apart__cell_that_fails__is_a_result():
    cell = baselines_page.run_apart({"set": "region", "model": "ridge", "seed": 0}, limit=60)
    assert cell["status"] == "failed"
    assert cell["error"].startswith("ConfigError: given must go with a model that learns labels from labels")


@pytest.mark.slow
def test_run_cell__on_a_region__scores_the_hidden_half(monkeypatch):
    monkeypatch.setattr(baselines_page, "REGION_SITES", 900)
    cell = baselines_page.run_cell({"set": "region", "model": "chain_ensemble", "seed": 0})
    assert cell["true_conditional"] < cell["conditional"] < cell["marginal"]
    assert cell["true_marginal"] < cell["marginal"]
    assert cell["fit_seconds"]["cpu"] > 0
