import subprocess
import sys

import pytest

from hotvae.errors import ConfigError
from hotvae.geo.extras import geo_module


def test_geo_module__installed__is_the_module_itself():
    windows = geo_module("rasterio.windows", "read rasters")
    assert windows is sys.modules["rasterio.windows"]


def test_geo_module__not_installed__says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)  # what Python does for a module that is not there
    with pytest.raises(
        ConfigError, match=r"^duckdb must be installed to read eBird files; got none\. The extra 'geo' of hotvae"
    ):
        geo_module("duckdb", "read eBird files")


def test_import_geo__alone__loads_none_of_its_packages():
    check = "import hotvae.geo.extras, sys; assert not {'duckdb', 'rasterio', 'pyproj', 'pyogrio'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)
