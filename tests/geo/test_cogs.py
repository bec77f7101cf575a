"""GeoTIFFs: valid by GDAL's rules, with what the maps say in them, or not there."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import rasterio
import rasterio.shutil
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
        values_of,
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
        lambda window: cells,
        dtype="uint8",
        nodata=255,
    )
    with rasterio.open(tmp_path / "map.tif") as file:
        assert not {"red", "green", "blue", "alpha"} & {colour.name for colour in file.colorinterp}
        assert file.read(n_bands, masked=True).mask.sum() == 0


def write_cells(path, grid, cells, **settings):
    def read(w):
        return cells[:, w.row : w.row + w.height, w.column : w.column + w.width]

    write_cog(path, grid, [f"sp{i}" for i in range(len(cells))], read, **settings)


def gdal_copies(path, cells, grid, resampling, **settings):
    """Let GDAL make the smaller copies."""
    plain = path.with_name("plain.tif")
    profile = {"driver": "GTiff", "count": len(cells), "width": grid.width, "height": grid.height}
    with rasterio.open(plain, "w", crs=grid.crs, transform=grid.affine(), **profile, **settings) as file:
        file.write(cells)
    rasterio.shutil.copy(plain, path, driver="COG", BLOCKSIZE="256", OVERVIEW_RESAMPLING=resampling)
    levels = []
    for level in range(2):
        with rasterio.open(path, OVERVIEW_LEVEL=level) as file:
            levels.append(file.read())
    return levels


@pytest.mark.parametrize("resampling", ["average", "nearest"])
@pytest.mark.parametrize("is_bytes", [True, False])
@pytest.mark.parametrize("with_gaps", [True, False])
def test_write_cog__smaller_copies__are_those_that_gdal_makes(tmp_path, resampling, is_bytes, with_gaps):
    grid = MapGrid(CRS, (WEST, CELL, 0.0, NORTH, 0.0, -CELL), 1000, 600)
    random = np.random.default_rng(0)
    cells = random.integers(0, 251, (2, 600, 1000), dtype=np.uint8)
    settings = {"dtype": "uint8", "nodata": 255} if is_bytes else {"dtype": "float32", "nodata": float("nan")}
    cells = cells if is_bytes else (cells / np.float32(3)).astype(np.float32)
    if with_gaps:
        cells[:, :300, 100:700] = settings["nodata"]  # whole tiles, and parts of some
        cells[:, random.random((600, 1000)) < 0.3] = settings["nodata"]
    write_cells(tmp_path / "map.tif", grid, cells, resampling=resampling, **settings)
    expected = gdal_copies(tmp_path / "gdal.tif", cells, grid, resampling, **settings)
    assert cog_validate(str(tmp_path / "map.tif"))[0]
    for level, values in enumerate(expected):
        with rasterio.open(tmp_path / "map.tif", OVERVIEW_LEVEL=level) as file:
            assert file.nodata == 255 if is_bytes else np.isnan(file.nodata)
            np.testing.assert_allclose(file.read(), values, rtol=1e-6, atol=0)


def test_write_cog__odd_numbers_of_cells__the_last_copy_holds_what_is_left(tmp_path):
    """Of 515 columns, the 258th of the first smaller copy has one column below it, the 129th of the next two."""
    grid = MapGrid(CRS, (WEST, CELL, 0.0, NORTH, 0.0, -CELL), 515, 257)
    y, x = np.mgrid[0:257, 0:515]
    cells = np.stack([x % 100, y % 100]).astype(np.uint8)
    write_cells(tmp_path / "map.tif", grid, cells, dtype="uint8", nodata=255)
    with rasterio.open(tmp_path / "map.tif") as file:
        np.testing.assert_array_equal(file.read(), cells)
        assert len(file.overviews(1)) == 2
    with rasterio.open(tmp_path / "map.tif", OVERVIEW_LEVEL=0) as file:
        assert file.shape == (129, 258)
        assert file.read(1)[0, [0, 1, 257]].tolist() == [1, 3, 14]  # (0 + 1) / 2 and (2 + 3) / 2 rounded up; 514
        assert file.read(2)[[0, 128], 0].tolist() == [1, 56]
    with rasterio.open(tmp_path / "map.tif", OVERVIEW_LEVEL=1) as file:
        assert file.shape == (65, 129)
        assert file.read(1)[0, [0, 128]].tolist() == [2, 14]


def test_write_cog__a_long_strip__every_level_has_its_place(tmp_path):
    """Ten levels: 131,072 cells, halved until they fit into a tile."""
    grid = MapGrid(CRS, (WEST, CELL, 0.0, NORTH, 0.0, -CELL), 131_072, 2)
    cells = np.broadcast_to((np.arange(131_072) // 1024).astype(np.uint8), (1, 2, 131_072))
    write_cells(tmp_path / "map.tif", grid, cells, dtype="uint8", nodata=255)
    assert cog_validate(str(tmp_path / "map.tif"))[0]
    with rasterio.open(tmp_path / "map.tif") as file:
        assert file.overviews(1) == [2**level for level in range(1, 10)]
    with rasterio.open(tmp_path / "map.tif", OVERVIEW_LEVEL=8) as file:
        np.testing.assert_array_equal(file.read(1)[0], np.arange(256) // 2)


def test_write_cog__twice__same_bytes(tmp_path):
    for name in ("a.tif", "b.tif"):
        write_cog(
            tmp_path / name,
            GRID,
            ["oak", "elm"],
            values_of,
            dtype="uint8",
            nodata=255,
        )
    assert (tmp_path / "a.tif").read_bytes() == (tmp_path / "b.tif").read_bytes()


def test_write_cog__tiles_that_fail_midway__leave_no_file(tmp_path):
    def read(window):
        if window.number:
            raise OSError(28, "No space left on device")
        return values_of(window)

    with pytest.raises(ConfigError, match="disk must have room for the map"):
        write_cog(tmp_path / "map.tif", GRID, ["oak", "elm"], read, dtype="uint8", nodata=255)
    assert list(tmp_path.iterdir()) == []


def test_write_cog__error_of_gdal__is_a_sentence_and_leaves_no_file(tmp_path):
    def read(window):
        if window.number:
            raise rasterio.errors.RasterioIOError("write failed")
        return values_of(window)

    with pytest.raises(ConfigError, match="map must be written whole; got an error of GDAL"):
        write_cog(tmp_path / "map.tif", GRID, ["oak", "elm"], read, dtype="uint8", nodata=255)
    assert list(tmp_path.iterdir()) == []


def test_write_style__read_as_xml__has_a_colour_for_each_stop(tmp_path):
    write_style(tmp_path / "map.tif", 0, 250)
    root = ElementTree.parse(tmp_path / "map.qml").getroot()
    items = root.findall(".//item")
    assert [float(item.get("value")) for item in items] == [0, 62.5, 125, 187.5, 250]
    assert root.find(".//rasterrenderer").get("type") == "singlebandpseudocolor"
