"""Vector files: places and reference system come from the file."""

import geopandas as gpd
import numpy as np
import pytest
from shapely.geometry import Point, Polygon

from hotvae.data.frames import read_frame
from hotvae.data.tables import read_with_roles
from hotvae.errors import DataError, DataWarning

LABELS = {"sp_owl": [1, 0, 1], "sp_wren": [0, 0, 1]}


def points(crs="EPSG:4326", scale=1.0):
    shapes = [Point(7.1 * scale, 50.2), Point(7.5 * scale, 50.9), Point(8.0 * scale, 51.0)]
    return gpd.GeoDataFrame({"site": ["a", "b", "c"], "depth": [1.5, 2.5, 3.5], **LABELS}, geometry=shapes, crs=crs)


@pytest.mark.parametrize("name", ["sites.gpkg", "sites.shp", "sites.geojson"])
def test_read_table__points__bring_coordinates_and_crs(tmp_path, name):
    points().to_file(tmp_path / name)
    data, roles = read_with_roles(tmp_path / name, labels="sp_*", id_column="site")
    assert data.coordinate_names == ("longitude", "latitude")
    np.testing.assert_allclose(data.coordinates, [[7.1, 50.2], [7.5, 50.9], [8.0, 51.0]])
    assert data.feature_names == ("depth",)
    assert data.labels.tolist() == [[1, 0], [0, 0], [1, 1]]
    assert roles.crs == "EPSG:4326"
    assert roles.left_out == {"site": "row ids", "longitude": "coordinates", "latitude": "coordinates"}


def test_read_table__metres__are_x_and_y(tmp_path):
    points("EPSG:3035", scale=1e5).to_file(tmp_path / "s.gpkg")
    data, roles = read_with_roles(tmp_path / "s.gpkg", labels="sp_*", drop="site", coordinates_as_features=True)
    assert data.coordinate_names == ("x", "y")
    assert data.feature_names == ("depth", "x", "y")
    assert roles.crs == "EPSG:3035"


def test_read_frame__shapes__are_points_within_and_it_is_said(tmp_path):
    square = Polygon([(0, 0), (2, 0), (2, 2), (0, 2)])
    gpd.GeoDataFrame({"a": [1]}, geometry=[square], crs="EPSG:32632").to_file(tmp_path / "s.gpkg")
    frame = read_frame(tmp_path / "s.gpkg")
    assert frame[["x", "y"]].to_numpy().tolist() == [[1, 1]]
    assert "a point within each shape of s.gpkg (Polygon)" in frame.attrs["notes"][0]


def test_read_frame__own_columns_of_that_name__stay(tmp_path):
    points().assign(latitude=[1.0, 2.0, 3.0]).to_file(tmp_path / "s.gpkg")
    frame = read_frame(tmp_path / "s.gpkg")
    assert frame["latitude"].tolist() == [1, 2, 3]
    assert frame.attrs["coordinates"] == ("geometry_x", "geometry_y")


def test_read_frame__no_reference_system__warns(tmp_path):
    points().to_file(tmp_path / "s.shp")
    (tmp_path / "s.prj").unlink()
    with pytest.warns(DataWarning, match=r"places should have a coordinate reference system; got none \(s\.shp\)"):
        frame = read_frame(tmp_path / "s.shp")
    assert frame.attrs["coordinates"] == ("x", "y")


def test_read_frame__layers_damage_and_missing_places__are_named(tmp_path):
    points().to_file(tmp_path / "s.gpkg", layer="birds")
    points().to_file(tmp_path / "s.gpkg", layer="frogs")
    with pytest.raises(DataError, match="layer must be named where there are several; got 'birds', 'frogs'"):
        read_frame(tmp_path / "s.gpkg")
    assert len(read_frame(tmp_path / "s.gpkg", sheet="frogs")) == 3
    (tmp_path / "bad.gpkg").write_bytes(b"nothing of the sort")
    with pytest.raises(DataError, match=r"table must be readable; got .*bad\.gpkg'"):
        read_frame(tmp_path / "bad.gpkg")
    lost = points()
    lost.loc[1, "geometry"] = None
    lost.to_file(tmp_path / "lost.geojson")
    with pytest.raises(DataError, match=r"rows must have a place; got none \(rows 1 of lost\.geojson\)"):
        read_frame(tmp_path / "lost.geojson")
