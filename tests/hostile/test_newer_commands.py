"""Commands that came later, attacked by hand: each was once a traceback, a silent answer or a half-done folder."""

import numpy as np
import pandas as pd
import pytest

from hotvae.cli import main
from tests.hostile.cases import QUICK, READ
from tests.hostile.test_known import refused, table  # noqa: F401


@pytest.mark.parametrize("model", ["ridge", "network"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_predict__code_for_missing__is_named_by_every_model(shop, tmp_path, capsys, model, suffix):
    frame = pd.read_csv(shop.good / "sites.csv")
    frame.loc[3, "depth"] = -9999.0
    getattr(frame, "to_csv" if suffix == ".csv" else "to_parquet")(tmp_path / f"t{suffix}", index=False)
    words = ["predict", str(shop.good / model), str(tmp_path / f"t{suffix}"), "--out", str(tmp_path / f"p{suffix}")]
    assert main(words) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: values must be like those of training; got 1 of 40 rows (the first: row 3)")
    assert "far beyond them in 'depth'" in line


def test_predict__rows_like_those_of_training__nothing_is_said(shop, tmp_path, capsys):
    words = ["predict", str(shop.good / "ridge"), str(shop.good / "sites.csv"), "--out", str(tmp_path / "p.csv")]
    assert main(words) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("seed = 2020-01-31", "seed must be a whole number; got 2020-01-31 (c.toml). Set seed to such a value."),
        ("threads = 'x'", "threads must be a whole number; got 'x' (c.toml)"),
    ],
)
def test_settings__wrong_value__is_named_as_it_was_written(shop, refused, tmp_path, text, words):  # noqa: F811
    (tmp_path / "c.toml").write_text(text + "\n")
    line = refused("train", shop.good / "sites.csv", *READ, "--model", "plain", "--config", "c.toml", "--out", "m")
    assert words in line


# --- explore and serve ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--out", "x" * 300 + ".html"), "name must have at most 200 bytes"),
        (("--out", "there.html", "--force"), "output must be a file; got the folder 'there.html'"),
        (("--out", "x.html", "--seed", str(10**30)), "4294967295"),
        (("--out", "x.html", "--fixed", "depth=1"), "--fixed must go with a grid of hotvae grid"),
        (("--out", "x.html", "--fixed", "depth=1,depth=2"), "--fixed must name each once; got 'depth' twice"),
        (("--out", "x.html", "--coordinates-crs", "EPSG:4326"), "--coordinates-crs must go with a grid of hotvae grid"),
    ],
)
def test_explore__what_cannot_be__is_told_before_the_work(shop, refused, tmp_path, options, words):  # noqa: F811
    (tmp_path / "there.html").mkdir()
    assert words in refused("explore", shop.good / "ridge", "--grid", shop.good / "sites.csv", *options)
    assert [path.name for path in tmp_path.iterdir()] == ["there.html"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--fixed", "depth=1"), "--fixed must go with the explorer; got it alone"),
        (("--coordinates-crs", "x"), "--coordinates-crs must go with the explorer; got it alone"),
        (("--token-file", "token"), "token must be 16 or more letters, digits or signs"),
    ],
)
def test_serve__what_cannot_be__is_told(shop, refused, tmp_path, options, words):  # noqa: F811
    (tmp_path / "token").write_bytes(b"\xff\xfe")
    assert words in refused("serve", shop.good / "ridge", "--port", "0", *options)


# --- land -------------------------------------------------------------------------------------------------


def test_annotate__raster_that_was_cut_off__is_named(shop, refused, tmp_path):  # noqa: F811
    content = (shop.good / "rain.tif").read_bytes()
    (tmp_path / "cut.tif").write_bytes(content[: len(content) // 2])
    words = ("annotate", shop.good / "sites.csv", "--coordinates", "lon,lat", "--raster", "cut.tif", "--out", "o.csv")
    assert "raster must be a file that GDAL reads; got 'cut.tif'" in refused(*words)


def test_annotate__infinity__is_no_value(shop, tmp_path):
    rasterio = pytest.importorskip("rasterio")
    with rasterio.open(shop.good / "rain.tif") as source:
        kept, values = source.profile, source.read()
    with rasterio.open(tmp_path / "wet.tif", "w", **kept) as raster:
        raster.write(np.full_like(values, np.inf))
    words = ["annotate", shop.file("sites.csv"), "--coordinates", "lon,lat", "--raster", str(tmp_path / "wet.tif")]
    assert main([*words, "--out", str(tmp_path / "o.csv")]) == 0
    assert pd.read_csv(tmp_path / "o.csv")["wet"].isna().all()


def test_annotate__one_column_twice__is_no_place(shop, refused):  # noqa: F811
    words = ("annotate", shop.good / "sites.csv", "--raster", shop.good / "rain.tif", "--out", "o.csv")
    assert "--coordinates must be two names" in refused(*words, "--coordinates", "lon,lon")


def test_annotate__complex_numbers__are_refused(shop, refused, tmp_path):  # noqa: F811
    rasterio = pytest.importorskip("rasterio")
    with rasterio.open(shop.good / "rain.tif") as source:
        kept, values = source.profile, source.read()
    with rasterio.open(tmp_path / "c.tif", "w", **kept | {"dtype": "complex64"}) as raster:
        raster.write(values.astype("complex64"))
    words = ("annotate", shop.good / "sites.csv", "--coordinates", "lon,lat", "--raster", "c.tif", "--out", "o.csv")
    assert "raster must hold real numbers; got complex ones (c.tif)" in refused(*words)


@pytest.mark.parametrize(
    ("corners", "options"),
    [
        ("[[[-500,-500],[500,-500],[500,500],[-500,-500]]]", ()),
        ("[[[1,41],[3,41],[3,8379],[1,41]]]", ()),
        ("[[[1,41],[3,41],[3,8379],[1,41]]]", ("--crs", "EPSG:3035")),
    ],
)
def test_grid__region_beyond_the_earth__is_refused(refused, tmp_path, corners, options):  # noqa: F811
    shape = f'{{"type":"Feature","properties":{{}},"geometry":{{"type":"Polygon","coordinates":{corners}}}}}'
    (tmp_path / "r.geojson").write_text(f'{{"type":"FeatureCollection","features":[{shape}]}}')
    words = ("grid", "--region", "r.geojson", "--resolution", "20000", "--out", "g.parquet", *options)
    assert "region must lie where its reference system has places" in refused(*words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--level", "7"), "level must be one of 0.8, 0.9, 0.95; got 7.0"),
        (("--threads", "1000000"), "1024"),
        (("--out", "x" * 300), "name must have at most 200 bytes"),
        (("--out", "file"), "output must be a folder; got the file 'file'"),
        (("--given", "sp_0=1", "--given", "sp_0=0"), "--given must name each once; got 'sp_0' twice"),
    ],
)
def test_map__what_cannot_be__leaves_nothing(shop, refused, tmp_path, options, words):  # noqa: F811
    (tmp_path / "file").touch()
    call = ["map", shop.good / "ridge", "--raster", shop.good / "rain.tif", "--quiet", *options]
    assert words in refused(*call, *(() if "--out" in options else ("--out", "maps")))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# --- streams, searches, eBird -----------------------------------------------------------------------------


def test_train__stream_with_a_label_that_is_none__leaves_no_state(shop, refused, tmp_path):  # noqa: F811
    """The table is another when it is mended, and a state of this one would stand in its way."""
    frame = pd.concat([pd.read_csv(shop.good / "sites.csv")] * 4, ignore_index=True)
    frame["site"] = [f"s{i}" for i in range(len(frame))]
    for row in range(len(frame)):  # whichever rows are drawn, one that is not has it
        if row % 2:
            frame.loc[row, "sp_0"] = 2
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    line = refused("train", "t.parquet", "--stream", "--sample", "100", *READ, "--quiet", "--out", "m")
    assert "labels must be 0 or 1; got 2.0 in column 'sp_0'" in line
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


def test_tune__name_that_no_file_can_have__is_refused(shop, refused):  # noqa: F811
    words = ("tune", shop.good / "sites.csv", *READ, *QUICK[2:], "--out", "x" * 300 + ".toml")
    assert "name must have at most 200 bytes" in refused(*words)


def test_ebird__more_threads_than_any_machine_has__are_refused(refused, tmp_path):  # noqa: F811
    assert "1024" in refused("ebird", "prepare", "a.txt", "b.txt", "--out", "c.parquet", "--threads", "1000000")
