"""Cells that are spread over a map or a part of it, against all cells picked out by hand."""

import numpy as np
import pytest
import shapely

from hotvae import load_model
from hotvae.errors import DataError
from hotvae.geo.cells import spread_cells
from hotvae.geo.grid import GridInputs, write_grid
from hotvae.geo.rasters import TILE, MapGrid
from hotvae.jobs.maps import map_inputs
from tests.geo.conftest import CELL, CRS, NORTH, WEST

ALL = 10**9


@pytest.fixture
def inputs(land, trained):
    return map_inputs(load_model(trained), [land / "rain.tif", land / "warmth.tif"], None, {"hours": "1"})[1]


def box(column, row, width, height):
    """West, south, east, north of some cells."""
    return (
        WEST + CELL * column,
        NORTH - CELL * (row + height),
        WEST + CELL * (column + width),
        NORTH - CELL * row,
    )


@pytest.mark.parametrize(
    "part", [(0, 0, 300, 40), (5, 2, 20, 9), (250, 0, 20, 40), (290, 35, 100, 100), (12, 6, 1, 30)]
)
def test_spread_cells__part_of_the_map__its_cells_and_no_others(inputs, part):
    west, south, east, north = box(*part)
    every, found = spread_cells(inputs, ALL), spread_cells(inputs, ALL, box(*part))
    inside = (every.x > west) & (every.x < east) & (every.y > south) & (every.y < north)
    assert 0 < inside.sum() <= len(every.x)
    np.testing.assert_array_equal(np.column_stack([found.x, found.y]), np.column_stack([every.x, every.y])[inside])
    np.testing.assert_array_equal(found.table, every.table[inside])
    assert found.stride == 1


@pytest.mark.parametrize("most", [1, 7, 100])
def test_spread_cells__few_wanted__evenly_spread_inside_the_part(inputs, most):
    found = spread_cells(inputs, most, box(20, 10, 25, 15))
    assert 0 < len(found.x) <= most
    assert found.x.min() > WEST + CELL * 20
    assert found.x.max() < WEST + CELL * 45
    if len(np.unique(found.x)) > 1:
        np.testing.assert_allclose(np.diff(np.unique(found.x)), CELL * found.stride)


def test_spread_cells__part_in_one_tile__the_other_is_not_read(inputs, monkeypatch):
    seen, read = [], inputs.read
    monkeypatch.setattr(inputs, "read", lambda window: seen.append(window.number) or read(window))
    spread_cells(inputs, ALL, box(260, 0, 10, 10))
    assert seen == [1]


@pytest.mark.parametrize("part", [(-50, 0, 10, 10), (0, 0, 0, 5), (400, 0, 5, 5), (np.nan, 0, 5, 5)])
def test_spread_cells__part_beside_the_map__refused(inputs, part):
    with pytest.raises(
        DataError, match=r"window must be west, south, east, north and touch the map; got .* The map has"
    ):
        spread_cells(inputs, ALL, box(*part))


def test_spread_cells__part_without_data__refused(inputs):
    with pytest.raises(DataError, match="got none in 6 cells"):
        spread_cells(inputs, ALL, box(11, 6, 3, 2))


def test_spread_cells__window_of_a_parquet_grid_of_many_tiles__only_its_row_groups_are_read(tmp_path, monkeypatch):
    wide = MapGrid(CRS, (0.0, 10.0, 0.0, 0.0, 0.0, -10.0), 4 * TILE, 3 * TILE)
    region = shapely.box(*wide.bounds)
    n_cells = write_grid(tmp_path / "grid.parquet", wide, region, lambda x, y: {"rain": x - y})
    inputs = GridInputs(tmp_path / "grid.parquet", ["rain"])
    seen, read = [], inputs.read
    monkeypatch.setattr(inputs, "read", lambda window: seen.append(window.number) or read(window))
    side = 10.0 * TILE
    window = (side - 100, -side - 50, side + 200, -side + 20)  # where four tiles meet
    found = spread_cells(inputs, ALL, window)
    assert seen == [0, 1, 4, 5]
    assert len(found.x) == 30 * 7 < n_cells
    np.testing.assert_array_equal(found.table["rain"], found.x - found.y)
    assert (found.x.min(), found.x.max()) == (side - 95, side + 195)
    assert (found.y.min(), found.y.max()) == (-side - 45, -side + 15)
