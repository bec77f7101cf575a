"""Covariates: circles against a slow count of fine points, whatever the system; what is missing is told."""

import numpy as np
import pytest
import rasterio

from hotvae.errors import ConfigError, DataError
from hotvae.geo.covariates import Covariates, Report, Source, to_degrees
from tests.geo.conftest import CELL, NORTH, WEST, write_raster

pyproj = pytest.importorskip("pyproj")
TO_DEGREES = pyproj.Transformer.from_crs("EPSG:32633", "EPSG:4326", always_xy=True)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("covariates")
    random = np.random.default_rng(0)
    height = random.normal(100, 30, (60, 80)).astype(np.float32)
    height[:, 70:] = -9999
    write_raster(folder / "height.tif", height, nodata=-9999)
    write_raster(folder / "cover.tif", random.integers(1, 4, (60, 80)).astype(np.uint8), nodata=0)
    return folder


def degrees(x, y):
    longitude, latitude = TO_DEGREES.transform(np.asarray(x, dtype=float), np.asarray(y, dtype=float))
    return np.asarray(longitude), np.asarray(latitude)


def slow_circle(values, x, y, radius, nodata, step=2.0):
    """Fine points in a circle, each with the value of its cell."""
    offsets = np.arange(-radius + step / 2, radius, step)
    dx, dy = np.meshgrid(offsets, offsets)
    inside = dx**2 + dy**2 <= radius**2
    columns = np.floor((x + dx[inside] - WEST) / CELL).astype(int)
    rows = np.floor((NORTH - y - dy[inside]) / CELL).astype(int)
    ok = (columns >= 0) & (columns < values.shape[1]) & (rows >= 0) & (rows < values.shape[0])
    found = values[rows[ok], columns[ok]]
    return found[found != nodata]


def test_circles__mean_spread_and_shares__equal_a_count_of_fine_points(place):
    """The grid of the zone is within 0.04 % of true metres here, and 64 corners within 0.2 % of a circle."""
    x, y = np.array([WEST + 2030, WEST + 3511, WEST + 5202]), np.array([NORTH - 1207, NORTH - 3004, NORTH - 2511])
    read = Covariates([Source(place / "height.tif"), Source(place / "cover.tif", True)], 450)
    assert read.columns == ["height_mean", "height_sd", "cover_1", "cover_2", "cover_3"]
    found, report = read.at(*degrees(x, y))
    with rasterio.open(place / "height.tif") as heights, rasterio.open(place / "cover.tif") as covers:
        height, cover = heights.read(1), covers.read(1)
    for i in range(3):
        slow = slow_circle(height, x[i], y[i], 450, -9999)
        assert found["height_mean"][i] == pytest.approx(slow.mean(), rel=3e-3)
        assert found["height_sd"][i] == pytest.approx(slow.std(), rel=1e-2)
        classes = slow_circle(cover, x[i], y[i], 450, 0)
        for number in (1, 2, 3):
            assert found[f"cover_{number}"][i] == pytest.approx((classes == number).mean(), abs=3e-3)
    assert report.lines() == []


def test_circles__raster_in_degrees__same_place_same_values(place, tmp_path):
    """The same heights on a grid of degrees that is fine enough: nearest cells, so values agree but for the edges."""
    with rasterio.open(place / "height.tif") as source:
        values = source.read(1)
    west, north = degrees([WEST + 1000], [NORTH - 1000])
    step = 0.0001
    columns, rows = np.meshgrid(np.arange(300), np.arange(300))
    back = pyproj.Transformer.from_crs("EPSG:4326", "EPSG:32633", always_xy=True)
    x, y = back.transform(west[0] + (columns + 0.5) * step, north[0] - (rows + 0.5) * step)
    fine = values[np.floor((NORTH - y) / CELL).astype(int), np.floor((x - WEST) / CELL).astype(int)]
    write_raster(
        tmp_path / "height.tif", fine, crs="EPSG:4326", transform=rasterio.Affine(step, 0, west[0], 0, -step, north[0])
    )
    at = degrees([WEST + 2200], [NORTH - 2500])
    metres = Covariates([Source(place / "height.tif")], 500).at(*at)[0]
    angles = Covariates([Source(tmp_path / "height.tif")], 500).at(*at)[0]
    assert angles["height_mean"][0] == pytest.approx(metres["height_mean"][0], rel=2e-3)
    assert angles["height_sd"][0] == pytest.approx(metres["height_sd"][0], rel=1e-2)


def test_circles__outside_empty_and_partial__are_told_and_never_filled(place):
    x = np.array([WEST - 5000, WEST + 7600, WEST + 6950, WEST + 3000])
    found, report = Covariates([Source(place / "height.tif")], 300).at(*degrees(x, np.full(4, NORTH - 3000)))
    assert np.isnan(found["height_mean"]).tolist() == [True, True, False, False]
    assert report.lines() == [
        "height: 1 of 4 points outside the raster: no value",
        "height: 1 of 4 points without data: no value",
        "height: 1 of 4 points partly without data: what is there counts",
    ]


def test_cells__radius_0__value_of_the_cell(place):
    with rasterio.open(place / "height.tif") as source:
        height = source.read(1)
    x, y = WEST + np.array([50, 3999, 7999, 8001]), NORTH - np.array([50, 101, 50, 50])
    found, report = Covariates([Source(place / "height.tif"), Source(place / "cover.tif", True)], 0).at(*degrees(x, y))
    assert list(found) == ["height", "cover"]
    np.testing.assert_allclose(found["height"][:2], [height[0, 0], height[1, 39]], rtol=1e-6)
    assert np.isnan(found["height"][2:]).all()
    assert (report.outside["height"], report.empty["height"]) == (1, 1)


def test_at__points_in_any_order__each_has_its_own(place):
    random = np.random.default_rng(3)
    x, y = WEST + random.uniform(500, 6500, 40), NORTH - random.uniform(500, 5500, 40)
    read = Covariates([Source(place / "height.tif"), Source(place / "cover.tif", True)], 250)
    longitude, latitude = degrees(x, y)
    everyone = read.at(longitude, latitude)[0]
    order = random.permutation(40)
    shuffled = read.at(longitude[order], latitude[order])[0]
    alone = read.at(longitude[7:8], latitude[7:8])[0]
    for name, values in everyone.items():
        np.testing.assert_allclose(shuffled[name], values[order], rtol=1e-9)
        np.testing.assert_allclose(alone[name][0], values[7], rtol=1e-9)


def test_report__pieces__add_up():
    total = Report()
    for _ in range(2):
        total.add(Report(5, {"rain": 1}, {"rain": 0}, {"rain": 2}))
    assert (total.n_points, total.outside["rain"], total.partial["rain"]) == (10, 2, 4)


def test_source__words_after_the_colon(place):
    assert Source.parse(f"{place}/cover.tif:classes") == Source(place / "cover.tif", True)
    assert Source.parse(place / "cover.tif") == Source(place / "cover.tif")
    with pytest.raises(ConfigError, match=r"raster must be FILE or FILE:classes; got .*cover.tif:class'"):
        Source.parse(f"{place}/cover.tif:class")


def test_covariates__what_cannot_be__is_refused(place):
    with pytest.raises(DataError, match=r"classes must be whole numbers; got .*raster 'height'.*Leave :classes out"):
        Covariates([Source(place / "height.tif", True)], 100)
    with pytest.raises(ConfigError, match=r"radius must be 0 or more metres; got -1"):
        Covariates([Source(place / "height.tif")], -1)
    with pytest.raises(ConfigError, match="columns must have different names; got 'height_mean', 'height_sd' twice"):
        Covariates([Source(place / "height.tif"), Source(place / "height.tif")], 100)
    with pytest.raises(ConfigError, match="covariates must come from rasters; got none"):
        Covariates([], 100)


def test_classes__too_many__are_numbers(tmp_path):
    write_raster(tmp_path / "many.tif", np.arange(100, dtype=np.int32).reshape(10, 10))
    with pytest.raises(DataError, match=r"classes must be at most 60; got more \(raster 'many'\)"):
        Covariates([Source(tmp_path / "many.tif", True)], 100)


def test_to_degrees__units_that_do_not_fit__are_told():
    x, y = np.array([500_000.0]), np.array([4_600_000.0])
    with pytest.raises(DataError, match=r"coordinates must be degrees where no system is named; got 500000, 4.6e\+06"):
        to_degrees(x, y, None, "sites.csv")
    with pytest.raises(
        DataError, match=r"coordinates must be in the units of EPSG:32633; got 15, 41.*Degrees taken for metres"
    ):
        to_degrees(np.array([15.0]), np.array([41.0]), "EPSG:32633", "sites.csv")
    with pytest.raises(ConfigError, match="--crs must be a reference system such as EPSG:3035; got 'EPSG:nonsense'"):
        to_degrees(x, y, "EPSG:nonsense", "sites.csv")
    with pytest.raises(DataError, match=r"coordinates must be known; got none in rows 0 \(sites.csv\)"):
        to_degrees(np.array([np.nan]), y, None, "sites.csv")
    longitude, latitude = to_degrees(x, y, "EPSG:32633", "sites.csv")
    assert longitude[0] == pytest.approx(15.0)
    assert latitude[0] == pytest.approx(41.55, abs=0.01)
