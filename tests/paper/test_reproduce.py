"""The paper, literally: the supplement's grid, halved by macro F1; a search that was killed chooses the same."""

import pytest

import paper.reproduce as reproduce
from hotvae.config import RECIPES
from hotvae.data.catalog import CatalogData, describe
from hotvae.data.dataset import Dataset
from hotvae.data.splits import split_dataset
from hotvae.data.synthetic import virtual_region
from hotvae.errors import ConfigError
from paper import cells
from paper.cells import recipe_of
from paper.experiments import PAPER_MODEL, REPRODUCED, Cell, searched_sets
from paper.facts import printed
from paper.reproduce import (
    GRID,
    ROWS,
    SEARCH,
    Draw,
    OutOfTimeError,
    StoredJudge,
    halve,
    main,
    n_points_of,
    neighbours_of,
    parse_axis,
    restricted,
    search,
    settings_of,
    write_chosen,
)
from paper.reproduce_page import gap_of, reproduce_page
from paper.store import Store
from paper.summaries import Mean

LATER = 1e12


# The grid -------------------------------------------------------------------------------------------------


def test_grid__is_the_supplements():
    """All seven lists of its "Training Detail", and "both complete graphs and prior graphs" of the paper."""
    assert GRID == {
        "learning_rate": (2e-4, 3e-4, 7.5e-4),
        "intermediate_weight": (0.1, 0.2, 0.3),
        "ranking_weight": (1, 100, 1000),
        "kl_weight": (0, 1e-5, 1e-4),
        "dim": (100, 200, 512),
        "n_layers": (2, 3, 4, 5),
        "dropout": (0, 0.1, 0.2, 0.5),
        "graph": ("complete", "cooccurrence"),
    }
    assert n_points_of(GRID) == 3**5 * 4**2 * 2 == 7776


def test_grid__the_recipe_is_one_of_its_points():
    recipe = RECIPES["paper"]
    assert recipe["encoder_dropout"] == recipe["decoder_dropout"]
    point = {name: recipe["encoder_dropout" if name == "dropout" else name] for name in GRID}
    assert all(value in GRID[name] for name, value in point.items())
    assert recipe.items() >= settings_of(point).items()


def test_restricted__fewer_values__the_rest_stays():
    assert n_points_of(restricted({"dim": [100]})) == 2592
    assert restricted({}) == GRID


@pytest.mark.parametrize(
    ("only", "message"),
    [
        ({"dim": [64]}, r"^dim must be of the supplement's grid \(100, 200, 512\); got 64\. Choose"),
        ({"dim": []}, r"^dim must be of the supplement's grid .*; got none\."),
        ({"width": [64]}, r"^--only must name an axis of the grid \('learning_rate', .*\); got 'width'\."),
    ],
)
def test_restricted__not_of_the_supplement__is_refused(only, message):
    with pytest.raises(ConfigError, match=message):
        restricted(only)


def test_draw__points__differ_are_of_the_grid_and_the_same_again():
    points = Draw("yeast", n_points=40).points()
    assert points == Draw("scene", n_points=40).points()
    assert len({tuple(sorted(point.items())) for point in points}) == 40
    assert all(point.keys() == GRID.keys() for point in points)
    assert all(value in GRID[name] for point in points for name, value in point.items())
    assert points != Draw("yeast", n_points=40, seed=1).points()


def test_draw__rounds__a_third_goes_on_four_times_as_long_up_to_200_epochs():
    assert Draw("yeast", n_points=27, first_epochs=20).rounds() == [(27, 20), (9, 80), (3, 200)]
    assert Draw("yeast", n_points=5, first_epochs=2).rounds() == [(5, 2), (2, 8)]
    assert Draw("yeast", n_points=1).rounds() == []
    few = {name: values[:1] for name, values in GRID.items()}
    assert Draw("yeast", n_points=9, only=few).rounds() == []
    assert len(Draw("yeast", n_points=9, only=few).points()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"data": "reuters"}, "^data must be one of 'scene', 'yeast', 'sider', 'bibtex'; got 'reuters'"),
        ({"data": "yeast", "n_points": 0}, "^n_points must be at least 1; got 0"),
        ({"data": "yeast", "first_epochs": 0}, "^first_epochs must be at least 1; got 0"),
    ],
)
def test_draw__impossible__is_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        Draw(**arguments)


def test_parse_axis__numbers_and_words():
    assert parse_axis("kl_weight=0,1e-5") == ("kl_weight", [0, 1e-5])
    assert parse_axis("graph=complete,cooccurrence") == ("graph", ["complete", "cooccurrence"])
    assert parse_axis("dim") == ("dim", [])


# Halving --------------------------------------------------------------------------------------------------


def test_halve__a_toy__the_best_of_each_round_goes_on():
    """Ten points whose value after few epochs is their number; after many, 8 turns out the best of those left."""
    asked = []

    def judge(point, n_epochs):
        asked.append((point["n"], n_epochs))
        return point["n"] if n_epochs < 20 else -abs(point["n"] - 8)

    points = [{"n": n} for n in range(10)]
    assert halve(points, [(10, 5), (4, 20), (2, 80)], judge) == {"n": 8}
    assert asked[:10] == [(n, 5) for n in range(10)]
    assert asked[10:14] == [(9, 20), (8, 20), (7, 20), (6, 20)]
    assert {n for n, epochs in asked[14:]} <= {8, 9, 7}
    assert asked[14][0] == 8


def test_halve__equals__the_earlier_one_is_kept():
    assert halve([{"n": 1}, {"n": 2}, {"n": 3}], [(3, 5)], lambda point, n_epochs: 0.5) == {"n": 1}
    assert halve([{"n": 1}], [], lambda point, n_epochs: 0.5) == {"n": 1}


def toy_fit(fail_after=None):
    """A fit that takes no time; the value hangs on the point alone. It fails, as a kill does, after some fits."""
    made = []

    def fit(cell, deadline):
        if fail_after is not None and len(made) == fail_after:
            raise KeyboardInterrupt
        made.append(cell)
        settings = cell.settings
        value = settings["learning_rate"] * 100 + settings["n_layers"] / 100 + settings["encoder_dropout"] / 7
        return {"macro_f1": value, "epoch": settings["max_epochs"], "cpu_seconds": 2.0}

    return fit, made


def judge_of(store, draw, fit, deadline=LATER):
    return StoredJudge(store, draw, deadline, "command", fit, say=lambda line: None)


@pytest.mark.parametrize("n_before", [0, 1, 5, 9, 11])
def test_search__killed_and_resumed__same_choice_and_no_fit_twice(tmp_path, n_before):
    draw = Draw("yeast", n_points=9)
    whole_fit, whole = toy_fit()
    in_one = search(draw, judge_of(Store(tmp_path / "one"), draw, whole_fit))
    store = Store(tmp_path / "two")
    killed, before = toy_fit(fail_after=n_before)
    with pytest.raises(KeyboardInterrupt):
        search(draw, judge_of(store, draw, killed))
    resumed_fit, after = toy_fit()
    resumed = search(draw, judge_of(store, draw, resumed_fit))
    assert resumed["chosen"] == in_one["chosen"]
    assert len(before) == n_before
    assert [*before, *after] == whole
    assert len(whole) == 12
    assert resumed["cpu_seconds"] == in_one["cpu_seconds"]
    assert len([line for line in store.lines(SEARCH) if "chosen" in line]) == 1


def test_search__the_choice__is_the_best_of_the_last_round_and_is_told_honestly(tmp_path):
    draw = Draw("scene", n_points=9, only={"dim": [100]})
    fit, _ = toy_fit()
    store = Store(tmp_path)
    line = search(draw, judge_of(store, draw, fit))
    last = [each for each in store.lines(SEARCH) if each.get("n_epochs") == 20]
    assert line["chosen"] == max(last, key=lambda each: each["macro_f1"])["point"]
    assert (line["n_points"], line["n_grid"], line["only"]) == (9, 7776, {"dim": [100]})
    assert line["n_fits"] == 12
    assert line["cell"]["settings"].items() >= settings_of(line["chosen"]).items()
    search(draw, judge_of(store, draw, fit))
    assert len([each for each in store.lines(SEARCH) if "chosen" in each]) == 1


def test_search__out_of_time__stops_and_goes_on_later(tmp_path):
    draw = Draw("yeast", n_points=9)
    fit, made = toy_fit()
    with pytest.raises(OutOfTimeError):
        search(draw, judge_of(Store(tmp_path), draw, fit, deadline=0.0))
    assert not made


def small_yeast(tmp_path, turned=False):
    region = virtual_region(80, 4, random_state=0).dataset
    split = split_dataset(region, kind="random", fractions=(0.6, 0.2, 0.2), random_state=0)
    labels, features = region.labels.copy(), region.features.copy()
    if turned:
        labels[split.test] = 1 - labels[split.test]
        features[split.test] = 0.0
    return CatalogData(describe("yeast"), Dataset(features, labels), split, tmp_path)


def test_fit_on_validation__test_rows_turned_round__same_value(tmp_path, monkeypatch):
    """Validation rows judge; test rows have no part. The fit is the recipe's, at the point that was asked for."""
    found = []
    settings = {**settings_of(Draw("yeast").points()[0]), **ROWS["yeast"], "max_epochs": 2, "dim": 100, "n_layers": 2}
    cell = Cell(SEARCH, "x", PAPER_MODEL, "yeast", settings=settings)
    for turned in (False, True):
        made = small_yeast(tmp_path, turned)
        monkeypatch.setattr(cells, "load", lambda name, *, split, seed, made=made: made)
        line = reproduce.fit_on_validation(cell, LATER)
        found.append((line["macro_f1"], line["validation_log_loss"], line["epoch"]))
    assert found[0] == found[1]
    with pytest.raises(OutOfTimeError):
        reproduce.fit_on_validation(cell, 0.0)


# What comes of it -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", ROWS)
def test_write_chosen__every_set__the_cell_is_the_recipe_at_that_point(tmp_path, monkeypatch, data):
    """No preset and no default of ours is in what is measured."""
    monkeypatch.setattr(reproduce, "TUNED", tmp_path)
    monkeypatch.setattr(cells, "TUNED", tmp_path)
    draw = Draw(data, n_points=3)
    fit, _ = toy_fit()
    line = search(draw, judge_of(Store(tmp_path), draw, fit))
    write_chosen(line)
    recipe = recipe_of(Cell(REPRODUCED, PAPER_MODEL, PAPER_MODEL, data))
    model = recipe.cls.from_settings(**recipe.parameters)
    settings = model.current_settings()
    expected = RECIPES["paper"] | settings_of(line["chosen"]) | ROWS[data]
    asked = {name: list(value) if isinstance(value, tuple) else value for name, value in expected.items()}
    assert {name: settings[name] for name in asked if name in settings} == {
        name: value for name, value in asked.items() if name in settings
    }
    assert asked.keys() - settings.keys() <= {"scaling", "clamp", "landmarks", "spatial_units"}
    assert settings["encoder"] == ROWS[data]["encoder"]


def test_paper_model__a_set_that_was_not_searched__has_the_recipe_and_no_preset():
    recipe = recipe_of(Cell("tables", PAPER_MODEL, PAPER_MODEL, "reuters"))
    assert recipe.parameters.keys() <= {"encoder", "max_words"}  # what a row is
    model = recipe.cls.from_settings(**recipe.parameters)
    assert model.training.max_epochs == 200
    assert not model.direct_path


def test_searched_sets__the_papers_grid__is_no_search_of_all_models():
    assert searched_sets() == ("scene",)


def test_neighbours_of__a_value_of_the_grid__both_dropouts_and_nothing_else():
    cells_ = neighbours_of("yeast", "dropout=0.5", [0, 2])
    assert [cell.seed for cell in cells_] == [0, 2]
    assert cells_[0].settings == {"encoder_dropout": 0.5, "decoder_dropout": 0.5}
    with pytest.raises(ConfigError, match=r"^dropout must be of the supplement's grid \(0\.0, .*\); got 0\.4"):
        neighbours_of("yeast", "dropout=0.4", [0])


def test_main__unknown_set__is_refused():
    with pytest.raises(ConfigError, match=r"^data must be one of 'scene'"):
        main(["reuters"])


# The page -------------------------------------------------------------------------------------------------


def test_gap_of__interval__how_far_it_lies_from_what_is_printed():
    assert gap_of(Mean(0.750, 0.010, 3), 0.7605) == 0
    assert gap_of(Mean(0.750, 0.010, 3), 0.77) == pytest.approx(-0.0095)
    assert gap_of(Mean(0.750, 0.010, 3), 0.73) == pytest.approx(0.0095)
    assert gap_of(Mean(0.750, None, 1), 0.7504) == 0


def test_page__stored_results__printed_ours_and_what_the_grid_chose(tmp_path):
    store = Store(tmp_path)
    draw = Draw("scene", n_points=3, only={"dim": [100]})
    fit, _ = toy_fit()
    line = search(draw, judge_of(store, draw, fit))
    names = ("example_f1", "micro_f1", "macro_f1", "hamming_accuracy")
    for seed in range(3):
        honest = {name: printed(name, "scene", "hotvae") + 0.001 * (seed - 1) for name in names} | {"log_loss": 0.2}
        honest["example_f1"] -= 0.1
        cell = Cell(REPRODUCED, PAPER_MODEL, PAPER_MODEL, "scene", seed=seed)
        store.append(
            {
                "cell": cell.to_dict(),
                "status": "done",
                "metrics": {"honest": honest, "oracle": honest},
                "fit_seconds": {"cpu": 60.0},
                "epoch": 30,
                "n_epochs": 50,
            }
        )
    neighbour = neighbours_of("scene", "dropout=0.5", [1])[0]
    better = {"metrics": {"honest": honest | {"example_f1": 0.7654}}}
    store.append({"cell": neighbour.to_dict(), "status": "done", **better})
    page = reproduce_page(store)
    assert max(len(text) for text in page.splitlines()) <= 120
    page = " ".join(page.split())
    assert "honest: miF1, maF1 and HA within; outside ebF1 by −0.097; means −0.100 to +0.000 from print" in page
    assert "| honest − printed | −0.100, out by −0.097 | +0.000, within |" in page
    assert f"| printed | {printed('example_f1', 'scene', 'hotvae'):.4f} |" in page
    assert "3 of 7,776 points, all with d 100, were trained (3 for 5 epochs; 6 s of a processor)" in page
    assert f"layers {line['chosen']['n_layers']}" in page
    assert "## yeast Not run: `python -m paper.reproduce yeast`. ##" in page
    assert "4 minutes an epoch" in page
    assert "| chosen, seed 1 | 0.676 |" in page
    assert "| dropout 0.5, seed 1 | 0.765 |" in page
