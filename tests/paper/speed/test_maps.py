"""The land that large maps are timed on: the same whichever window asks, coarse where climate layers are."""

import json

import numpy as np
import pytest

from hotvae.geo.rasters import MapGrid
from paper import DOCS, RESULTS
from paper.speed.maps import LAYERS, Land, draw_sites, render, write_layers

PAGE = DOCS / "maps.md"
rasterio = pytest.importorskip("rasterio")
GRID = MapGrid("EPSG:3035", (4_000_000.0, 100.0, 0.0, 3_000_000.0, 0.0, -100.0), 300, 20)


def test_land__any_window__has_the_cells_of_the_whole(tmp_path):
    land = Land(0)
    write_layers(tmp_path, land, GRID)
    rows, columns = np.mgrid[0:20, 0:300]
    for name in LAYERS:
        with rasterio.open(tmp_path / f"{name}.tif") as file:
            np.testing.assert_allclose(file.read(1), land.values(name, rows, columns), rtol=1e-5, atol=1e-5)


def test_land__climate__is_as_coarse_as_its_layers_are():
    rows, columns = np.mgrid[0:16, 0:16]
    rain = Land(0).values("rain", rows, columns)
    assert len(np.unique(rain)) == 4
    assert (rain[:8, :8] == rain[0, 0]).all()
    height = Land(0).values("elevation", rows, columns)
    assert (height == np.rint(height)).all()


def test_draw_sites__species__have_both_classes_and_covariates_of_the_land():
    table, labels = draw_sites(Land(0), GRID, 20, seed=0)
    assert list(table.columns) == list(LAYERS)
    assert labels.sum().between(10, 1990).all()
    again = draw_sites(Land(0), GRID, 20, seed=0)
    assert table.equals(again[0])
    assert labels.equals(again[1])


def test_page__stored_result__is_what_it_says(tmp_path):
    found = json.loads((RESULTS / "maps.json").read_text())
    assert {"command", "date", "seed", "versions", "machine"} <= set(found)
    assert found["valid"]
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text())
    render(found, page)
    assert page.read_text() == PAGE.read_text()
