"""From points to maps on the command line: covariates, grid, maps, a run that is killed, and every refusal."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import rasterio
from rio_cogeo.cogeo import cog_validate

from hotvae import HotVAEClassifier
from tests.geo.conftest import CELL, CRS, NORTH, WEST, land, trained, write_raster  # noqa: F401


def mapped(run, trained, land, out, *more):  # noqa: F811
    return run(
        "map",
        trained,
        "--raster",
        land / "rain.tif",
        "--raster",
        land / "warmth.tif",
        "--fixed",
        "hours=1",
        "--draws",
        20,
        "--out",
        out,
        *more,
    )


def files_of(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory, trained, land):  # noqa: F811
    from hotvae.cli import main

    out = tmp_path_factory.mktemp("maps") / "maps"
    rasters = ["--raster", str(land / "rain.tif"), "--raster", str(land / "warmth.tif")]
    assert main(["map", str(trained), *rasters, "--fixed", "hours=1", "--draws", "20", "--out", str(out)]) == 0
    return out


def test_map__rasters__files_that_gdal_validates_with_a_style_and_a_picture_each(whole):
    products = {"probabilities", "richness", "uncertainty", "trust"}
    assert {path.stem for path in whole.glob("*.tif")} == products
    assert {path.stem for path in whole.glob("*.qml")} == products
    for path in whole.glob("*.tif"):
        assert cog_validate(str(path))[0], path
    pictures = {path.name for path in (whole / "png").iterdir()}
    assert {"0001_oak.png", "0004_ash.png", "richness_1.png", "trust_2.png", "uncertainty_2.png"} <= pictures
    assert len(pictures) == 4 + 3 + 2 + 3
    with rasterio.open(whole / "probabilities.tif") as file:
        assert file.descriptions == ("oak", "pine", "elm", "ash")
        assert (file.dtypes[0], file.nodata, file.scales[0]) == ("uint8", 255, 0.004)
        assert file.crs.to_string() == CRS
        assert file.read(1)[5, 10] == 255
    shader = ElementTree.parse(whole / "probabilities.qml").find(".//colorrampshader")
    assert shader is not None
    assert (shader.get("minimumValue"), shader.get("maximumValue")) == ("0", "1")  # QGIS reads bytes times their scale
    assert not (whole / ".tiles").exists()


def test_map__page__stands_alone_and_tells_what_was_left_to_guess(whole):
    page = (whole / "index.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 4 + 3 + 2 + 3
    assert 'src="http' not in page
    assert "unlike all training rows" in page
    assert "Natural Earth" in page
    summary = json.loads((whole / "map.json").read_text(encoding="utf-8"))
    assert summary["cells"] == 300 * 40 - 12
    assert summary["cells_without_data"] == 12
    # Rain beyond 600 was not seen in training: a third of the land lies there.
    assert 0.1 < summary["cells_outside_training"] / summary["cells"] < 0.4


@pytest.mark.slow
def test_map__killed_and_repeated__same_bytes_and_no_tile_twice(whole, trained, land, tmp_path):  # noqa: F811
    """A run is killed by SIGKILL once a tile is there; the same command goes on, and no byte differs."""
    out = tmp_path / "maps"
    command = [
        sys.executable,
        "-m",
        "hotvae",
        "map",
        str(trained),
        "--raster",
        str(land / "rain.tif"),
        "--raster",
        str(land / "warmth.tif"),
        "--fixed",
        "hours=1",
        "--draws",
        "20",
        "--out",
        str(out),
    ]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    tile = out / ".tiles" / "0000000.tile"
    while process.poll() is None and not tile.exists():
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert tile.exists()
    assert not (out / "map.json").exists()
    made = os.stat(tile).st_mtime_ns
    (out / ".tiles" / "0000001.tile").unlink(missing_ok=True)
    finished = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(finished.stdout)["tiles_found"] == 1
    assert made  # its file was not written anew, or it would not have been found
    ours, theirs = files_of(out), files_of(whole)
    for name in ours.keys() | theirs.keys():
        if name.endswith((".tif", ".qml", ".png")):
            assert ours[name] == theirs[name], name


def test_map__finished_folder__is_not_overwritten_unless_forced(whole, trained, land, run, fails):  # noqa: F811
    line = fails("map", trained, "--raster", land, "--fixed", "hours=1", "--out", whole)
    assert "output must be a new or empty folder; got" in line
    assert "Pass --force to replace the map in it." in line


def test_map__climate__maps_the_future_and_the_change(trained, land, run, tmp_path):  # noqa: F811
    code, out, _ = mapped(
        run,
        trained,
        land,
        tmp_path / "maps",
        "--climate",
        f"{land}/rain_future.tif={land}/rain.tif",
        "--no-pictures",
        "--float32",
        "--tolerance",
        0,
    )
    assert code == 0
    assert "future_probabilities.tif" in out
    with rasterio.open(tmp_path / "maps/change.tif") as file:
        change = file.read()
        assert file.descriptions[3] == "covariates beyond training, future"
    with (
        rasterio.open(tmp_path / "maps/probabilities.tif") as now,
        rasterio.open(tmp_path / "maps/future_probabilities.tif") as then,
    ):
        moved = then.read() - now.read()
    np.testing.assert_allclose(change[0], moved.sum(axis=0), atol=1e-5)
    np.testing.assert_allclose(change[1] - change[2], change[0], atol=1e-5)
    # Rain of the future is 300 to 450, and training began at 400: the western two thirds are beyond it.
    assert (change[3][:, :190] >= 1).sum() >= 190 * 40 - 12
    assert (change[3][2:38, 215:] == 0).all()


def test_map__given_label__is_there_everywhere(trained, land, run, tmp_path):  # noqa: F811
    code, _, _ = mapped(run, trained, land, tmp_path / "maps", "--given", "oak=1", "--no-pictures", "--quiet")
    assert code == 0
    with rasterio.open(tmp_path / "maps/probabilities.tif") as file:
        assert set(np.unique(file.read(1))) == {250, 255}


def test_map__whole_way_over_a_grid__equals_predictions_of_the_cells(run, tmp_path):
    """Points, circles, a model with places, a grid of the region, a map: cells hold what predict says of them."""
    random = np.random.default_rng(0)
    write_raster(tmp_path / "height.tif", random.normal(100, 30, (80, 80)).astype(np.float32))
    write_raster(tmp_path / "cover.tif", random.integers(1, 4, (80, 80)).astype(np.uint8))
    sites = pd.DataFrame(
        {"easting": WEST + random.uniform(500, 7500, 120), "northing": NORTH - random.uniform(500, 7500, 120)}
    )
    sites.to_csv(tmp_path / "sites.csv", index=False)
    rasters = ["--raster", tmp_path / "height.tif", "--raster", f"{tmp_path}/cover.tif:classes", "--radius", 400]
    code, out, _ = run(
        "annotate",
        tmp_path / "sites.csv",
        *rasters,
        "--coordinates",
        "easting,northing",
        "--crs",
        CRS,
        "--out",
        tmp_path / "table.csv",
    )
    assert code == 0
    assert "wrote 120 rows with 5 new columns" in out
    table = pd.read_csv(tmp_path / "table.csv")
    assert list(table.columns[2:]) == ["height_mean", "height_sd", "cover_1", "cover_2", "cover_3"]
    labels = pd.DataFrame({"wren": table["height_mean"] > 100, "owl": table["easting"] > WEST + 4000}).astype(int)
    model = HotVAEClassifier(effort="quick", joint=False, coordinates=("easting", "northing"), random_state=0).fit(
        table, labels
    )
    model.save(tmp_path / "model")
    corners = [
        [WEST + 1000, NORTH - 4000],
        [WEST + 5000, NORTH - 4000],
        [WEST + 5000, NORTH - 1000],
        [WEST + 1000, NORTH - 1000],
    ]
    shape = {"type": "Polygon", "coordinates": [[*corners, corners[0]]]}
    region = {
        "type": "FeatureCollection",
        "crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32633"}},
        "features": [{"type": "Feature", "properties": {}, "geometry": shape}],
    }
    (tmp_path / "region.geojson").write_text(json.dumps(region))
    code, out, _ = run(
        "grid",
        "--region",
        tmp_path / "region.geojson",
        "--resolution",
        250,
        *rasters,
        "--out",
        tmp_path / "grid.parquet",
    )
    assert code == 0
    assert "wrote 192 cells of 16 x 12 with 5 columns" in out
    code, _, err = run(
        "map",
        tmp_path / "model",
        "--grid",
        tmp_path / "grid.parquet",
        "--out",
        tmp_path / "maps",
        "--float32",
        "--tolerance",
        0,
        "--draws",
        20,
    )
    assert code == 0, err
    cells = pd.read_parquet(tmp_path / "grid.parquet")
    frame = cells.assign(easting=cells["x"], northing=cells["y"])[list(table.columns)]
    expected = model.predict_proba(frame)
    with rasterio.open(tmp_path / "maps/probabilities.tif") as file:
        places = [file.index(x, y) for x, y in zip(cells["x"], cells["y"], strict=True)]
        found = file.read()[:, [int(row) for row, _ in places], [int(column) for _, column in places]]
    np.testing.assert_allclose(found.T, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--fixed", "hour=1"], r"fixed columns must be columns of the model; got 'hour'"),
        (["--fixed", "hours=long"], r"fixed value must be a number, as 'hours' was in training; got 'long'"),
        (["--fixed", "hours"], r"--fixed must be NAME=VALUE; got 'hours'"),
        (["--fixed", "hours=1", "--given", "oak=2"], r"--given must be 0 or 1; got '2' for 'oak'"),
        (["--fixed", "hours=1", "--given", "oack=1"], r"given labels must be labels of the model; got 'oack'"),
        (["--fixed", "hours=1", "--climate", "a.tif"], r"--climate must be FUTURE=PRESENT; got 'a.tif'"),
        (["--fixed", "hours=1", "--climate", "a.tif=b.tif"], r"--climate must name a raster of the map after '='"),
        ([], r"rasters must have a band for every column of the model; got none for 'hours'"),
        (["--fixed", "hours=1", "--grid", "g.parquet"], r"a map must be made from either rasters or a grid; got both"),
    ],
)
def test_map__options_that_do_not_fit__one_line(trained, land, fails, tmp_path, more, message):  # noqa: F811
    line = fails(
        "map", trained, "--raster", land / "rain.tif", "--raster", land / "warmth.tif", "--out", tmp_path / "m", *more
    )
    assert message in line
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"crs": None}, "raster must have a coordinate reference system; got none (warmth.tif)"),
        (
            {"transform": rasterio.Affine(94, 34, WEST, 34, -94, NORTH)},
            "raster must have rows from west to east; got a rotated grid (warmth.tif)",
        ),
        (
            {"transform": rasterio.Affine(CELL, 0, WEST + 30, 0, -CELL, NORTH)},
            "rasters must lie on one grid; got 300 x 40 cells of 100 x 100 in EPSG:32633",
        ),
        ({"names": ["cold"]}, "rasters must have a band for every column of the model; got none for 'warmth'"),
    ],
    ids=["no CRS", "rotated", "another grid", "band missing"],
)
def test_map__raster_that_does_not_fit__one_line_and_no_file(trained, land, fails, tmp_path, how, message):  # noqa: F811
    bad = write_raster(tmp_path / "warmth.tif", np.zeros((40, 300), dtype=np.float32), **how)
    line = fails(
        *("map", trained, "--raster", land / "rain.tif", "--raster", bad, "--fixed", "hours=1"),
        *("--out", tmp_path / "maps"),
    )
    assert message in line
    assert [path.name for path in tmp_path.iterdir()] == ["warmth.tif"]


def test_map__coordinates_in_other_units__says_degrees_taken_for_metres(fails, tmp_path):
    random = np.random.default_rng(0)
    table = pd.DataFrame({"easting": random.uniform(10, 12, 200), "northing": random.uniform(50, 51, 200)})
    labels = pd.DataFrame({"a": table["easting"] > 11, "b": table["northing"] > 50.5}).astype(int)
    model = HotVAEClassifier(effort="quick", joint=False, coordinates=("easting", "northing"), random_state=0)
    model.fit(table.assign(rain=random.normal(size=200)), labels).save(tmp_path / "model")
    write_raster(tmp_path / "rain.tif", np.zeros((4, 4), dtype=np.float32))
    line = fails("map", tmp_path / "model", "--raster", tmp_path / "rain.tif", "--out", tmp_path / "maps")
    assert "coordinates must be in the units of training; got easting from 500050 to 500350" in line
    assert "Degrees taken for metres?" in line


@pytest.mark.slow
def test_map__limit_on_files__a_sentence_and_nothing_that_looks_whole(trained, land, tmp_path):  # noqa: F811
    """What a full disk does, done by the limit on the size of files: no raster gets its name, tiles are kept."""
    out = tmp_path / "maps"
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, 120_000)); "
        "from hotvae.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [
        sys.executable,
        "-c",
        code,
        "map",
        str(trained),
        "--raster",
        str(land / "rain.tif"),
        "--raster",
        str(land / "warmth.tif"),
        "--fixed",
        "hours=1",
        "--draws",
        "20",
        "--out",
        str(out),
        "--no-pictures",
    ]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "disk must have room for the map" in found.stderr
    assert list(out.glob("*.tif")) == []
    assert not (out / "map.json").exists()
    assert [path for path in out.rglob("*") if "part" in path.name] == []


def test_map__no_room_on_the_disk__is_said_before_any_work(trained, land, fails, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr("hotvae.geo.tiles.shutil.disk_usage", lambda path: type("Free", (), {"free": 1000})())
    line = fails("map", trained, "--raster", land, "--fixed", "hours=1", "--out", tmp_path / "maps")
    assert "disk must have room for the map and its tiles, about" in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["annotate", "sites.csv", "--raster", "rain.tif", "--out", "o.csv", "--coordinates", "x"],
            "--coordinates must be two names",
        ),
        (
            ["annotate", "sites.csv", "--raster", "rain.tif", "--out", "o.csv", "--coordinates", "lon,lat"],
            "coordinates must be columns of the table; got 'lon', 'lat'",
        ),
        (
            ["annotate", "plain.csv", "--raster", "rain.tif", "--out", "o.csv"],
            "table must have columns of coordinates; got none",
        ),
        (
            ["annotate", "sites.csv", "--raster", "rain.tif", "--out", "o.csv"],
            "coordinates must be degrees where no system is named",
        ),
        (["annotate", "sites.csv", "--raster", "no.tif", "--out", "o.csv"], "raster must be a file; got 'no.tif'"),
        (
            ["annotate", "taken.csv", "--raster", "rain.tif", "--out", "o.csv"],
            "new columns must have new names; got 'rain'",
        ),
        (
            ["annotate", "text.csv", "--raster", "rain.tif", "--out", "o.csv"],
            "coordinates must be numbers; got text in 'x'",
        ),
        (
            ["grid", "--region", "no.gpkg", "--resolution", "10", "--out", "g.csv"],
            "grid must end in .parquet; got 'g.csv'",
        ),
        (
            ["grid", "--region", "no.gpkg", "--resolution", "10", "--out", "g.parquet"],
            "region must be a file; got 'no.gpkg'",
        ),
        (["data", "rasters", "--out", "r", "--bounds", "1,2"], "--bounds must be four numbers W,S,E,N; got '1,2'"),
        (
            ["data", "rasters", "--out", "r", "--bounds", "5,2,1,9"],
            "bounds must be west, south, east, north in degrees",
        ),
        (
            ["data", "rasters", "--out", "r", "--resolution", "9"],
            "resolution must be above 0 and within the bounds; got 9",
        ),
    ],
)
def test_annotate_and_grid__what_does_not_fit__one_line(fails, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    write_raster(Path("rain.tif"), np.zeros((4, 4), dtype=np.float32))
    sites = pd.DataFrame({"x": [WEST + CELL, WEST], "y": [NORTH, NORTH - 1]})
    sites.to_csv("sites.csv", index=False)
    sites.assign(rain=1).to_csv("taken.csv", index=False)
    sites.assign(x=["a", "b"]).to_csv("text.csv", index=False)
    pd.DataFrame({"a": [1]}).to_csv("plain.csv", index=False)
    assert message in fails(*arguments)
    assert not Path("o.csv").exists()


def test_data_rasters__twice__same_bytes_and_one_grid(run, tmp_path):
    for name in ("a", "b"):
        assert run("data", "rasters", "--out", tmp_path / name, "--resolution", 0.02)[0] == 0
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
    assert set(files_of(tmp_path / "a")) == {
        "elevation.tif",
        "rain.tif",
        "rain_future.tif",
        "tree_cover.tif",
        "landcover.tif",
        "region.geojson",
    }
    with rasterio.open(tmp_path / "a/landcover.tif") as cover, rasterio.open(tmp_path / "a/rain.tif") as rain:
        assert set(np.unique(cover.read(1))) <= set(range(6))
        assert cover.transform == rain.transform
        assert cover.crs.to_epsg() == 4326
