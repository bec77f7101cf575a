"""Rasters: what is read where, and what is refused in which words."""

import contextlib
import re

import numpy as np
import pytest
import rasterio

from hotvae.errors import ConfigError, DataError
from hotvae.geo.rasters import (
    GDAL_BYTES,
    MapGrid,
    RasterInputs,
    Window,
    check_same_grid,
    choose_layers,
    gdal_memory,
    layers_of,
    opened,
    raster_files,
)
from tests.geo.conftest import CELL, CRS, NORTH, WEST, write_raster


def read_all(inputs):
    return [inputs.read(window) for window in inputs.windows()]


def test_windows__grid_that_is_no_multiple__cover_each_cell_once():
    grid = MapGrid(CRS, (0.0, 1.0, 0.0, 0.0, 0.0, -1.0), 600, 300)
    seen = np.zeros((300, 600), dtype=int)
    for window in grid.windows():
        (top, bottom), (left, right) = window.slices()
        seen[top:bottom, left:right] += 1
    assert (seen == 1).all()
    assert [window.number for window in grid.windows()] == list(range(6))


def test_centres__second_cell_of_the_second_row__by_hand():
    grid = MapGrid(CRS, (WEST, CELL, 0.0, NORTH, 0.0, -CELL), 10, 10)
    x, y = grid.centres(Window(0, 0, 0, 3, 2))
    assert (x[4], y[4]) == (WEST + 150, NORTH - 150)
    assert grid.bounds == (WEST, NORTH - 1000, WEST + 1000, NORTH)


def test_read__hole_in_one_layer__leaves_these_cells_out(land):
    inputs = RasterInputs(choose_layers([land / "rain.tif", land / "warmth.tif"], ["rain", "warmth"]))
    first, second = read_all(inputs)
    assert len(first.places) == 256 * 40 - 12
    assert 5 * 256 + 10 not in first.places
    assert 5 * 256 + 9 in first.places
    assert second.table["rain"].iloc[0] == 400 + 256
    assert len(second.places) == 44 * 40


def test_read__fixed_columns_and_places__are_columns_like_others(land):
    inputs = RasterInputs(choose_layers([land / "rain.tif"], ["rain"]), fixed={"hours": 2.0}, coordinates=("x", "y"))
    table = inputs.read(inputs.windows()[0]).table
    assert table.iloc[257].tolist() == [401.0, WEST + 150, NORTH - 150, 2.0]


def test_read__places_in_another_system__are_degrees(land):
    inputs = RasterInputs(
        choose_layers([land / "rain.tif"], ["rain"]), coordinates=("lon", "lat"), coordinates_crs="EPSG:4326"
    )
    table = inputs.read(inputs.windows()[0]).table
    # The zone's middle meridian is 15 degrees east; its northings count metres from the equator.
    assert table["lon"].iloc[0] == pytest.approx(15.0006, abs=1e-3)
    assert table["lat"].iloc[0] == pytest.approx(41.55, abs=0.01)


def test_read__scaled_bytes_and_classes__are_values_and_text(tmp_path):
    path = write_raster(tmp_path / "depth.tif", np.array([[10, 20, 255]], dtype=np.uint8), nodata=255)
    with rasterio.open(path, "r+") as file:
        file.scales, file.offsets = (0.5,), (1.0,)
    write_raster(tmp_path / "soil.tif", np.array([[3, 4, 3]], dtype=np.uint8))
    inputs = RasterInputs(
        choose_layers([tmp_path / "depth.tif", tmp_path / "soil.tif"], ["depth", "soil"]), text=["soil"]
    )
    cells = inputs.read(inputs.windows()[0])
    assert cells.table["depth"].tolist() == [6.0, 11.0]
    assert cells.table["soil"].tolist() == ["3", "4"]
    assert cells.places.tolist() == [0, 1]


def test_layers__described_bands__are_named_so(tmp_path):
    path = write_raster(tmp_path / "two.tif", np.zeros((2, 1, 1)), names=["bio1", "bio12"])
    assert [(layer.column, layer.band) for layer in layers_of(path)] == [("bio1", 1), ("bio12", 2)]
    assert layers_of(path, "bio12")[0].band == 2
    plain = write_raster(tmp_path / "many.tif", np.zeros((2, 1, 1)))
    assert [layer.column for layer in layers_of(plain)] == ["many_1", "many_2"]


def test_raster_files__folder_and_named_column__are_told_apart(land):
    assert [path.name for path, _ in raster_files([land])] == ["rain.tif", "rain_future.tif", "warmth.tif"]
    assert raster_files([f"{land}/rain.tif:mm"]) == [(land / "rain.tif", "mm")]


def test_opened__no_reference_system__says_so(tmp_path):
    path = write_raster(tmp_path / "lost.tif", np.zeros((2, 2)), crs=None)
    with (
        pytest.raises(DataError, match=r"raster must have a coordinate reference system; got none \(lost.tif\)"),
        opened(path),
    ):
        pass


def test_opened__rotated_or_upside_down__says_so(tmp_path):
    turned = rasterio.Affine(94, 34, WEST, 34, -94, NORTH)
    path = write_raster(tmp_path / "turned.tif", np.zeros((2, 2)), transform=turned)
    with pytest.raises(DataError, match=r"raster must have rows from west to east; got a rotated grid"), opened(path):
        pass
    down = write_raster(
        tmp_path / "down.tif", np.zeros((2, 2)), transform=rasterio.Affine(CELL, 0, WEST, 0, CELL, NORTH)
    )
    with pytest.raises(DataError, match=r"raster must have north at the top; got cells of 100 by 100"), opened(down):
        pass


@pytest.mark.parametrize("west", [float("nan"), float("inf"), 1e30])
def test_opened__place_that_is_none__says_so(tmp_path, west):
    path = write_raster(
        tmp_path / "lost.tif", np.zeros((2, 2)), transform=rasterio.Affine(CELL, 0, west, 0, -CELL, NORTH)
    )
    with (
        pytest.raises(
            DataError, match=rf"raster must say where it lies; got {re.escape(f'{west:g}')} to .*\(lost.tif\)"
        ),
        opened(path),
    ):
        pass


def test_opened__no_file_or_no_raster__says_so(tmp_path):
    with (
        pytest.raises(DataError, match=r"raster must be a file; got .*which does not exist"),
        opened(tmp_path / "no.tif"),
    ):
        pass
    (tmp_path / "text.tif").write_text("hello")
    with (
        pytest.raises(DataError, match=r"raster must be a file that GDAL reads; got 'text.tif'"),
        opened(tmp_path / "text.tif"),
    ):
        pass


def test_gdal_memory__tiled_or_in_strips__is_bounded_in_bytes(tmp_path):
    """Strips of 40,000 cells of 8 bytes: 256 rows of them are 82 MB, kept twice; a hundred such rasters are not."""
    cells = np.zeros((2, 40_000))
    tiled = write_raster(tmp_path / "tiled.tif", cells, tiled=True, blockxsize=256, blockysize=256)
    strips = write_raster(tmp_path / "strips.tif", cells)

    def memory(*paths):
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(rasterio.open(path)) for path in paths]
            stack.enter_context(gdal_memory(*files))
            return rasterio.env.get_gdal_config("GDAL_CACHEMAX")

    assert memory(tiled, tiled) == GDAL_BYTES == 64_000_000
    assert memory(strips) == 2 * 256 * 40_000 * 8
    assert memory(*[strips] * 100) == 16 * GDAL_BYTES


@pytest.mark.parametrize("what", ["shift", "size", "system", "extent"])
def test_check_same_grid__grids_that_differ__names_both(tmp_path, what):
    write_raster(tmp_path / "a.tif", np.zeros((3, 3)))
    other = {
        "shift": {"transform": rasterio.Affine(CELL, 0, WEST + 30, 0, -CELL, NORTH)},
        "size": {"transform": rasterio.Affine(2 * CELL, 0, WEST, 0, -2 * CELL, NORTH)},
        "system": {"crs": "EPSG:32634"},
        "extent": {},
    }[what]
    write_raster(tmp_path / "b.tif", np.zeros((3, 4) if what == "extent" else (3, 3)), **other)
    with pytest.raises(DataError, match=r"rasters must lie on one grid; got 3 x 3 cells .*\(a.tif\) and .*\(b.tif\)"):
        check_same_grid([tmp_path / "a.tif", tmp_path / "b.tif"])


def test_choose_layers__column_without_a_band__says_which_there_are(land, tmp_path):
    with pytest.raises(
        DataError, match=r"rasters must have a band for every column of the model; got none for 'slope'"
    ):
        choose_layers([land / "rain.tif"], ["rain", "slope"])
    with pytest.raises(DataError, match=r"column must be in one raster; got 'rain' in 'rain.tif', 'warmth.tif'"):
        choose_layers([land / "rain.tif", f"{land}/warmth.tif:rain"], ["rain"])
    two = write_raster(tmp_path / "two.tif", np.zeros((2, 1, 1)))
    with pytest.raises(DataError, match=r"band must be one of the raster; got 'bio9', not among 'band 1', 'band 2'"):
        choose_layers([f"{two}:bio9"], ["bio9"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="folder must have rasters"):
        raster_files([tmp_path / "empty"])
    with pytest.raises(ConfigError, match="a map must have rasters; got none"):
        check_same_grid([])
