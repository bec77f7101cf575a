"""``hotvae explore``: options reach the job, one line says what was written, and mistakes are one line, too."""

import json

import pytest

from hotvae.explain import stand_in
from hotvae.geo.cells import spread_cells, write_cells
from hotvae.geo.rasters import Layer, RasterInputs
from tests.geo.conftest import land, trained  # noqa: F401


def test_explore__folder_of_a_map__page_and_json(run, fails, trained, land, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(stand_in, "_N_STEPS", 50)
    layers = [Layer(name, land / f"{name}.tif", 1) for name in ("rain", "warmth")]
    cells = spread_cells(RasterInputs(layers, fixed={"hours": 1.0}), 60)
    write_cells(tmp_path / "cells.parquet", cells)
    (tmp_path / "map.json").write_text("{}")
    page = tmp_path / "page.html"
    code, out, _ = run("explore", trained, "--grid", tmp_path, "--out", page, "--title", "A made-up land", "--json")
    assert code == 0
    told = json.loads(out)
    assert (told["n_places"], told["n_labels"]) == (len(cells.table), 4)
    text = page.read_text(encoding="utf-8")
    assert "<title>A made-up land</title>" in text
    assert "hotvae explore model --grid" in text
    assert str(tmp_path) not in text
    assert "output must be a new file" in fails("explore", trained, "--grid", tmp_path, "--out", page)


@pytest.mark.parametrize("name", ["page.txt", "page"])
def test_explore__another_ending__is_told_before_the_work(fails, trained, tmp_path, name):  # noqa: F811
    said = fails("explore", trained, "--grid", tmp_path, "--out", tmp_path / name)
    assert f"--out must end in .html; got '{name}'. Rename it." in said
