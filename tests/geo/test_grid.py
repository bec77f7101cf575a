"""Grids: cells whose middle lies in the region, in files that a map reads tile by tile."""

import errno

import numpy as np
import pandas as pd
import pytest
import shapely

from hotvae.errors import ConfigError, DataError
from hotvae.geo.grid import GridInputs, cells_inside, plan_grid, read_grid_notes, read_region, write_grid
from tests.geo.conftest import CRS

geopandas = pytest.importorskip("geopandas")


def series(shape, crs=CRS):
    return geopandas.GeoSeries([shape], crs=crs)


def test_plan_grid__edges__are_whole_multiples_and_cover_the_region():
    grid, region = plan_grid(series(shapely.box(1030, 2040, 3970, 4990)), 100)
    assert grid.bounds == (1000, 2000, 4000, 5000)
    assert (grid.width, grid.height, grid.crs) == (30, 30, CRS)
    assert region.bounds == (1030, 2040, 3970, 4990)


def test_plan_grid__region_in_degrees__cells_are_metres():
    grid, region = plan_grid(series(shapely.box(10, 50, 10.5, 50.2), "EPSG:4326"), 1000)
    assert 34 <= grid.width <= 38
    assert 22 <= grid.height <= 25
    assert region.area == pytest.approx(36e3 * 22.2e3, rel=0.03)


def test_cells_inside__triangle__cells_whose_middle_is_in():
    grid, region = plan_grid(series(shapely.Polygon([(0, 0), (10.3, 0), (0, 10.3)])), 1)
    window = grid.windows()[0]
    places = cells_inside(grid, region, window)
    x, y = grid.centres(window)
    assert sorted(places.tolist()) == np.flatnonzero(x + y < 10.3).tolist()


def test_write_grid__read_tile_by_tile__every_cell_once_and_in_place(tmp_path):
    grid, region = plan_grid(series(shapely.Point(0, 0).buffer(20_000)), 100)
    n_cells = write_grid(tmp_path / "grid.parquet", grid, region, lambda x, y: {"far": np.hypot(x, y), "east": x})
    inputs = GridInputs(tmp_path / "grid.parquet", ["far"], coordinates=("easting", "northing"), fixed={"hours": 1.0})
    seen = 0
    for window in inputs.windows():
        cells = inputs.read(window)
        x, y = (axis[cells.places] for axis in grid.centres(window))
        np.testing.assert_allclose(cells.table["far"], np.hypot(x, y))
        np.testing.assert_allclose(cells.table["easting"], x)
        assert (cells.table["hours"] == 1).all()
        seen += len(cells.places)
    assert seen == n_cells
    assert n_cells == pytest.approx(np.pi * 200**2, rel=0.01)
    assert read_grid_notes(tmp_path / "grid.parquet")[0] == grid


def test_grid_inputs__cells_with_gaps__are_left_out(tmp_path):
    grid, region = plan_grid(series(shapely.box(0, 0, 500, 100)), 100)
    write_grid(tmp_path / "g.parquet", grid, region, lambda x, y: {"rain": np.where(x < 200, np.nan, x)})
    inputs = GridInputs(tmp_path / "g.parquet", ["rain"])
    assert inputs.read(inputs.windows()[0]).places.tolist() == [2, 3, 4]


def test_write_grid__covariates_that_fail__leave_no_file(tmp_path):
    grid, region = plan_grid(series(shapely.box(0, 0, 60_000, 100)), 100)
    count = iter(range(9))

    def columns(x, y):
        if next(count):
            raise DataError("raster must be a file")
        return {"rain": x}

    with pytest.raises(DataError, match="raster must be a file"):
        write_grid(tmp_path / "g.parquet", grid, region, columns)
    assert list(tmp_path.iterdir()) == []


def test_write_grid__disk_full__says_so_and_leaves_no_file(tmp_path):
    grid, region = plan_grid(series(shapely.box(0, 0, 60_000, 100)), 100)
    count = iter(range(9))

    def columns(x, y):
        if next(count):
            raise OSError(errno.ENOSPC, "No space left on device")
        return {"rain": x}

    with pytest.raises(
        ConfigError, match=r"disk must have room for the grid; got 'No space left.* repeat the command\.$"
    ):
        write_grid(tmp_path / "g.parquet", grid, region, columns)
    assert list(tmp_path.iterdir()) == []


def test_grid__files_and_columns_that_do_not_fit__are_told(tmp_path):
    with pytest.raises(DataError, match=r"grid must be a file; got .*does not exist"):
        GridInputs(tmp_path / "no.parquet", [])
    pd.DataFrame({"x": [1.0]}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(DataError, match=r"grid must be a Parquet file that hotvae grid wrote; got 'other.parquet'"):
        GridInputs(tmp_path / "other.parquet", [])
    grid, region = plan_grid(series(shapely.box(0, 0, 500, 100)), 100)
    write_grid(tmp_path / "g.parquet", grid, region, lambda x, y: {"rain": x})
    with pytest.raises(DataError, match=r"grid must have every column of the model; got none for 'rein'.*g.parquet"):
        GridInputs(tmp_path / "g.parquet", ["rein"])


def test_plan_grid__units_that_do_not_fit__are_told():
    with pytest.raises(ConfigError, match=r"resolution must be in degrees.*got 3000.*Metres taken for degrees"):
        plan_grid(series(shapely.box(10, 50, 11, 51), "EPSG:4326"), 3000, "EPSG:4326")
    with pytest.raises(ConfigError, match=r"resolution must be in metres.*got 0.01.*Degrees taken for metres"):
        plan_grid(series(shapely.box(0, 0, 90_000, 90_000)), 0.01)
    with pytest.raises(ConfigError, match="resolution must be larger than 0; got 0"):
        plan_grid(series(shapely.box(0, 0, 1, 1)), 0)
    with pytest.raises(ConfigError, match=r"grid must have at most 10,000,000,000 cells; got 900,000 by 900,000"):
        plan_grid(series(shapely.box(0, 0, 900_000, 900_000)), 1)
    with pytest.raises(ConfigError, match="crs must be a reference system such as EPSG:3035; got 'EPSG:x'"):
        plan_grid(series(shapely.box(0, 0, 1, 1)), 1, "EPSG:x")


def test_write_grid__no_cell_in_the_region__says_so(tmp_path):
    grid, region = plan_grid(series(shapely.box(10, 10, 20, 20)), 100)
    with pytest.raises(DataError, match="grid must have a cell in the region; got none of 1"):
        write_grid(tmp_path / "g.parquet", grid, region, lambda x, y: {})


def test_read_region__what_is_no_region__is_told(tmp_path):
    with pytest.raises(DataError, match=r"region must be a file; got .*does not exist"):
        read_region(tmp_path / "no.gpkg")
    (tmp_path / "text.gpkg").write_text("hello")
    with pytest.raises(DataError, match=r"region must be a vector file such as GeoPackage; got 'text.gpkg'"):
        read_region(tmp_path / "text.gpkg")
    geopandas.GeoDataFrame(geometry=[shapely.Point(0, 0)], crs=CRS).to_file(tmp_path / "point.gpkg")
    with pytest.raises(DataError, match="region must have polygons; got none"):
        read_region(tmp_path / "point.gpkg")
    geopandas.GeoDataFrame(geometry=[shapely.box(0, 0, 1, 1)], crs=CRS).to_file(tmp_path / "lost.shp")
    (tmp_path / "lost.prj").unlink()
    with pytest.raises(DataError, match="region must have a coordinate reference system; got none"):
        read_region(tmp_path / "lost.shp")
