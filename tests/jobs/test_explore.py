"""Explorers from models and places: what the page holds is what the model says, and every refusal."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from hotvae.baselines.prevalence import Prevalence
from hotvae.data.dataset import Dataset
from hotvae.errors import ConfigError, DataError, ModelError
from hotvae.estimators.registry import load_model
from hotvae.explain import stand_in
from hotvae.geo.cells import read_cells, spread_cells, write_cells
from hotvae.geo.rasters import Layer, RasterInputs
from hotvae.jobs.explore import explore_model, explorer_content
from hotvae.jobs.explorer_places import places_of_dataset, places_of_file
from tests.geo.conftest import CELL, NORTH, WEST, land, trained  # noqa: F401
from tests.report.test_explorer import unpacked

COLUMNS = ["rain", "warmth", "hours"]


def held_in(page):
    """Read the facts and numbers of a page."""
    text = page.read_text(encoding="utf-8")
    facts = json.loads(re.search(r'id="facts">(.*?)</script>', text, re.DOTALL).group(1))
    block = "".join(re.findall(r'class="numbers">(.*?)</script>', text, re.DOTALL))
    return facts, unpacked(facts["arrays"], block)


def visits(n_rows=80, seed=5):
    random = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "rain": random.uniform(380, 620, n_rows),
            "warmth": random.uniform(10, 20, n_rows),
            "hours": random.uniform(0.5, 3, n_rows),
        }
    )
    places = np.column_stack([random.uniform(5, 9, n_rows), random.uniform(46, 49, n_rows)])
    return table, places


@pytest.fixture(scope="module", autouse=True)
def hasty_stand_in():
    """What the stand-in learns is tried elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stand_in, "_N_STEPS", 100)
        yield


@pytest.fixture(scope="module")
def model(trained):  # noqa: F811
    return load_model(trained)


@pytest.fixture(scope="module")
def content(model):
    table, places = visits()
    names = ("longitude", "latitude")
    data = Dataset(table, np.zeros((len(table), 4)), coordinates=places, coordinate_names=names)
    return explorer_content(model, places_of_dataset(model, data))


def test_content__of_a_table__is_what_the_model_says_of_its_rows(model, content):
    table, places = visits()
    rows = model.law_rows(table)
    np.testing.assert_allclose(content.arrays["logits"], rows.logits)
    np.testing.assert_allclose(content.arrays["gates"], rows.gates)
    np.testing.assert_allclose(content.arrays["degrees"], places)
    assert content.arrays["inside"].tolist() == model.trust(table).inside.astype(int).tolist()
    assert content.facts["labels"] == ["oak", "pine", "elm", "ash"]
    assert content.facts["law"]["rounds"] == model.law_.messages.config.n_rounds
    assert [covariate["name"] for covariate in content.facts["covariates"]] == COLUMNS
    json.dumps(content.facts, allow_nan=False)


def test_content__moved_covariate__goes_through_the_knots_as_through_the_scaler(model, content):
    """The page scales a moved covariate itself: straight lines between knots, flat beyond training."""
    table, _ = visits()
    for place, covariate in enumerate(content.facts["covariates"]):
        for shift in (-60.0, -0.4, 0.7, 55.0):
            moved = table.assign(**{covariate["name"]: table[covariate["name"]] + shift})
            truth = model.law_rows(moved).gates
            found = content.arrays["gates"].copy()
            for out in covariate["outs"]:
                found[:, out["column"]] = np.interp(moved[covariate["name"]], out["xs"], out["ys"])
            np.testing.assert_allclose(found, truth, atol=1e-5)
        assert covariate["outs"]
        trained_range = model.forms_.makers["scaled"].state()["range"]
        assert [covariate["low"], covariate["high"]] == [trained_range[0][place], trained_range[1][place]]


def test_content__places_in_degrees__lie_flat_as_far_apart_as_on_the_ground(content):
    """A degree of latitude is 111.2 km anywhere; a degree of longitude at 47.5 degrees north 75.1 km."""
    where, degrees = content.arrays["where"], content.arrays["degrees"]
    away = where - where[0]
    steps = (degrees - degrees[0]) * (111.195 * np.cos(np.radians(47.5)), 111.195)
    assert np.abs(np.linalg.norm(away, axis=1) - np.linalg.norm(steps, axis=1)).max() < 12
    assert len(content.arrays["land_lengths"]) > 0
    assert content.arrays["land_lengths"].sum() == len(content.arrays["land"])


def test_explore_model__table__page_with_the_same_numbers_in_16_bits(trained, model, tmp_path):  # noqa: F811
    table, places = visits()
    file = tmp_path / "sites.csv"
    table.assign(longitude=places[:, 0], latitude=places[:, 1]).to_csv(file, index=False)
    with pytest.raises(DataError, match=r"table must have the coordinates of its rows .* got none \(sites.csv\)"):
        explore_model(trained, file, tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
    data = Dataset(table, np.zeros((len(table), 4)), coordinates=places, coordinate_names=("longitude", "latitude"))
    kept = places_of_dataset(model, data, most=30)
    assert len(kept) == 30
    assert kept.notes == ["30 of 80 rows, evenly taken"]


def test_explore_model__what_does_not_fit__is_told(trained, tmp_path):  # noqa: F811
    (tmp_path / "old.html").write_text("old")
    with pytest.raises(ConfigError, match=r"output must be a new file; got '.*old.html', which exists. Pass --force"):
        explore_model(trained, tmp_path, tmp_path / "old.html")
    with pytest.raises(
        DataError, match=r"--grid must be a folder of maps or a table; got '.*none', which is not there"
    ):
        explore_model(trained, tmp_path / "none", tmp_path / "page.html")
    with pytest.raises(DataError, match=r"--grid must be a folder of a whole map; got no map.json"):
        explore_model(trained, tmp_path, tmp_path / "page.html")
    (tmp_path / "map.json").write_text("{}")
    with pytest.raises(DataError, match=r"--grid must be a map that kept its covariates; got no cells.parquet"):
        explore_model(trained, tmp_path, tmp_path / "page.html")
    (tmp_path / "cells.parquet").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"cells must be those that hotvae map wrote; got 'cells.parquet'"):
        explore_model(trained, tmp_path, tmp_path / "page.html")


def test_explorer_content__model_without_a_law__is_refused(content):
    table, places = visits()
    labels = pd.DataFrame({"wren": np.arange(80) % 2, "owl": np.arange(80) % 3 == 0}).astype(float)
    plain = Prevalence().fit(table, labels)
    data = Dataset(table, labels, coordinates=places)
    with pytest.raises(ModelError, match=r"must read a table and have a law between its labels .* got Prevalence"):
        explorer_content(plain, places_of_dataset(plain, data))
    with pytest.raises(DataError, match=r"data must have coordinates to be explored; got none"):
        places_of_dataset(plain, Dataset(table, labels))


def test_spread_cells__rasters__every_nth_cell_each_way_and_back_from_a_file(land, tmp_path):  # noqa: F811
    """300 x 40 cells, 12 of them without data; every 4th each way from the third on is 75 x 10."""
    layers = [Layer(name, land / f"{name}.tif", 1) for name in ("rain", "warmth")]
    inputs = RasterInputs(layers, fixed={"hours": 1.0})
    cells = spread_cells(inputs, 800)
    assert cells.stride == 4
    assert 700 < len(cells.table) <= 750
    columns, rows = (cells.x - WEST) / CELL - 0.5, (NORTH - cells.y) / CELL - 0.5
    assert set(columns % 4) == set(rows % 4) == {2.0}
    np.testing.assert_allclose(cells.table["rain"], 400 + columns)
    np.testing.assert_allclose(cells.table["warmth"], 10 + rows / 4)
    assert len(spread_cells(inputs, 12_000).table) == 300 * 40 - 12
    write_cells(tmp_path / "cells.parquet", cells)
    back = read_cells(tmp_path / "cells.parquet")
    assert (back.grid, back.stride) == (cells.grid, cells.stride)
    pd.testing.assert_frame_equal(back.table, cells.table)
    np.testing.assert_array_equal(back.x, cells.x)


def test_explore_model__folder_of_cells__squares_in_their_place(trained, model, land, tmp_path):  # noqa: F811
    layers = [Layer(name, land / f"{name}.tif", 1) for name in ("rain", "warmth")]
    cells = spread_cells(RasterInputs(layers, fixed={"hours": 1.0}), 200)
    write_cells(tmp_path / "cells.parquet", cells)
    (tmp_path / "map.json").write_text("{}")
    run = explore_model(trained, tmp_path, tmp_path / "page.html", title="A made-up land", command="hotvae explore")
    facts, arrays = held_in(run.page)
    assert (run.n_places, run.n_labels) == (len(cells.table), 4)
    assert run.notes == [f"every {cells.stride}th cell of the grid each way, drawn {cells.stride} times as wide"]
    assert facts["side"] == pytest.approx([cells.stride * 0.1] * 2, rel=0.01)  # km
    rows = model.law_rows(cells.table[COLUMNS])
    assert np.abs(arrays["logits"] - rows.logits).max() <= 1 / 512 + 1e-6
    assert np.ptp(arrays["where"][:, 0]) == pytest.approx(np.ptp(cells.x) / 1000, rel=0.01)
    assert np.abs(arrays["degrees"] - places_of_file(model, tmp_path).degrees).max() < 1e-4
