"""What the tests of maps share: small rasters of a made-up land, and a model trained on points of it."""

import numpy as np
import pandas as pd
import pytest

from hotvae import HotVAEClassifier

rasterio = pytest.importorskip("rasterio")

WEST, NORTH, CELL = 500_000.0, 4_600_000.0, 100.0
CRS = "EPSG:32633"


def write_raster(path, values, *, crs=CRS, transform=None, nodata=None, names=None, **more):
    """Write an array of shape (height, width) or (bands, height, width)."""
    bands = np.asarray(values)
    bands = bands[None] if bands.ndim == 2 else bands
    place = rasterio.Affine(CELL, 0, WEST, 0, -CELL, NORTH) if transform is None else transform
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        count=len(bands),
        height=bands.shape[1],
        width=bands.shape[2],
        dtype=bands.dtype,
        crs=crs,
        transform=place,
        nodata=nodata,
        **more,
    ) as file:
        file.write(bands)
        for number, name in enumerate(names or (), start=1):
            file.set_band_description(number, name)
    return path


@pytest.fixture(scope="session")
def land(tmp_path_factory):
    """Two rasters of 300 x 40 cells: two tiles; the second has a hole."""
    place = tmp_path_factory.mktemp("land")
    y, x = np.mgrid[0:40, 0:300].astype(np.float32)
    write_raster(place / "rain.tif", 400 + x)
    warmth = 10 + y / 4
    warmth[5:8, 10:14] = -9999
    write_raster(place / "warmth.tif", warmth, nodata=-9999)
    write_raster(place / "rain_future.tif", 300 + x * 0.5)
    return place


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A model of rain, warmth and hours, trained where rain is between 400 and 600."""
    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "rain": random.uniform(400, 600, 300),
            "warmth": random.uniform(10, 20, 300),
            "hours": random.uniform(0.5, 3, 300),
        }
    )
    mood = 2.5 * random.normal(size=300)
    odds = np.column_stack(
        [
            (table["rain"] - 500) / 20 + mood,
            (15 - table["warmth"]) + mood,
            np.log(table["hours"]) + mood,
            (table["warmth"] - 15) / 2 - mood,
        ]
    )
    labels = pd.DataFrame(random.random(odds.shape) < 1 / (1 + np.exp(-odds)), columns=["oak", "pine", "elm", "ash"])
    model = HotVAEClassifier(effort="quick", random_state=0).fit(table, labels.astype(int))
    folder = tmp_path_factory.mktemp("models") / "model"
    model.save(folder)
    return folder
