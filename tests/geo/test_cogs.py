"""GeoTIFFs: valid by GDAL's rules, with what the maps say in them, or not there."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import rasterio
from rio_cogeo.cogeo import cog_validate

from hotvae.errors import ConfigError
from hotvae.geo.cogs import write_cog, write_style
from hotvae.geo.rasters import MapGrid
from tests.geo.conftest import CELL, CRS, NORTH, WEST

GRID = MapGrid(CRS, (WEST, CELL, 0.0, NORTH, 0.0, -CELL), 600, 520)


def values_of(window):
    top, left = window.row, window.column
    y, x = np.mgrid[top : top + window.height, left : left + window.width]
    return np.stack([(x + y) % 251, y % 7]).astype(np.uint8)


def test_write_cog__tiles__valid_and_every_cell_in_its_place(tmp_path):
    path = tmp_path / "map.tif"
    write_cog(
        path,
        GRID,
        ["oak", "elm"],
        lambda: ((w, values_of(w)) for w in GRID.windows()),
        dtype="uint8",
        nodata=255,
        scale=0.004,
        tags={"product": "probabilities"},
    )
    assert cog_validate(str(path))[0]
    with rasterio.open(path) as file:
        assert file.crs.to_epsg() == 32633
        assert file.descriptions == ("oak", "elm")
        assert file.nodata == 255
        assert file.scales == (0.004, 0.004)
        assert file.overviews(1)
        assert file.tags()["product"] == "probabilities"
        assert file.transform.c == WEST
        y, x = np.mgrid[0:520, 0:600]
        np.testing.assert_array_equal(file.read(1), (x + y) % 251)
        np.testing.assert_array_equal(file.read(2), y % 7)
    assert [entry.name for entry in tmp_path.iterdir()] == ["map.tif"]


@pytest.mark.parametrize("n_bands", [3, 4])
def test_write_cog__three_or_four_bands_of_bytes__are_no_colours(tmp_path, n_bands):
    grid = MapGrid(CRS, (WEST, CELL, 0.0, NORTH, 0.0, -CELL), 4, 4)
    cells = np.zeros((n_bands, 4, 4), dtype=np.uint8)
    write_cog(
        tmp_path / "map.tif",
        grid,
        [f"sp{i}" for i in range(n_bands)],
        lambda: ((w, cells) for w in grid.windows()),
        dtype="uint8",
        nodata=255,
    )
    with rasterio.open(tmp_path / "map.tif") as file:
        assert not {"red", "green", "blue", "alpha"} & {colour.name for colour in file.colorinterp}
        assert file.read(n_bands, masked=True).mask.sum() == 0


def test_write_cog__smaller_copies__are_means_rounded_once_a_level(tmp_path):
    grid = MapGrid(CRS, (WEST, CELL, 0.0, NORTH, 0.0, -CELL), 1024, 1024)
    cells = np.random.default_rng(0).integers(0, 251, (1, 1024, 1024), dtype=np.uint8)

    def tiles():
        return ((w, cells[:, w.row : w.row + w.height, w.column : w.column + w.width]) for w in grid.windows())

    write_cog(tmp_path / "map.tif", grid, ["oak"], tiles, dtype="uint8", nodata=255)
    for level, factor in enumerate((2, 4)):
        means = cells[0].reshape(1024 // factor, factor, -1, factor).mean(axis=(1, 3))
        with rasterio.open(tmp_path / "map.tif", OVERVIEW_LEVEL=level) as file:
            assert np.abs(file.read(1) - means).max() <= 0.5 * (level + 1)


def test_write_cog__twice__same_bytes(tmp_path):
    for name in ("a.tif", "b.tif"):
        write_cog(
            tmp_path / name,
            GRID,
            ["oak", "elm"],
            lambda: ((w, values_of(w)) for w in GRID.windows()),
            dtype="uint8",
            nodata=255,
        )
    assert (tmp_path / "a.tif").read_bytes() == (tmp_path / "b.tif").read_bytes()


def test_write_cog__tiles_that_fail_midway__leave_no_file(tmp_path):
    def tiles():
        yield GRID.windows()[0], values_of(GRID.windows()[0])
        raise OSError(28, "No space left on device")

    with pytest.raises(ConfigError, match="disk must have room for the map"):
        write_cog(tmp_path / "map.tif", GRID, ["oak", "elm"], tiles, dtype="uint8", nodata=255)
    assert list(tmp_path.iterdir()) == []


def test_write_cog__error_of_gdal__is_a_sentence_and_leaves_no_file(tmp_path):
    windows = GRID.windows()[:1]

    def tiles():
        yield windows[0], np.zeros((2, 3, 3, 3), dtype=np.uint8)[0, :2]
        raise rasterio.errors.RasterioIOError("write failed")

    with pytest.raises(ConfigError, match="map must be written whole; got an error of GDAL"):
        write_cog(tmp_path / "map.tif", GRID, ["oak", "elm"], tiles, dtype="uint8", nodata=255)
    assert list(tmp_path.iterdir()) == []


def test_write_style__read_as_xml__has_a_colour_for_each_stop(tmp_path):
    write_style(tmp_path / "map.tif", 0, 250)
    root = ElementTree.parse(tmp_path / "map.qml").getroot()
    items = root.findall(".//item")
    assert [float(item.get("value")) for item in items] == [0, 62.5, 125, 187.5, 250]
    assert root.find(".//rasterrenderer").get("type") == "singlebandpseudocolor"
