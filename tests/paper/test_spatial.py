"""The benchmark of nearness to places: which rows are held out, and the table it writes."""

import json

import numpy as np
import pytest

from hotvae import virtual_region
from paper import spatial


@pytest.fixture(scope="module")
def region():
    return virtual_region(200, 5, random_state=0).dataset


@pytest.mark.parametrize("way", spatial.HELD_OUT)
@pytest.mark.parametrize("seed", [0, 1])
def test_held_out__every_row__has_one_use(region, way, seed):
    parts = spatial.held_out(region, way, seed)
    assert sorted(np.concatenate(parts).tolist()) == list(range(200))
    assert [len(part) for part in parts] == [125, 25, 50]


def test_held_out__beyond__has_no_training_site_further_out(region):
    centred = region.coordinates - region.coordinates.mean(axis=0)
    along = centred @ np.linalg.eigh(np.cov(centred.T))[1][:, -1]
    for seed in (0, 1):
        train, validation, held = spatial.held_out(region, "beyond", seed)
        others = along[np.concatenate([train, validation])]
        assert along[held].min() > others.max() or along[held].max() < others.min()
    ends = [set(spatial.held_out(region, "beyond", seed)[2]) for seed in (0, 1)]
    assert not ends[0] & ends[1]


def test_render__lowest_loss__is_bold_and_the_page_keeps_its_text(tmp_path):
    losses = dict(zip(spatial.READINGS, (0.3, 0.25, 0.24, 0.21, 0.22), strict=True))
    cells = [
        {"set": "norberg_birds", "held_out": "scattered", "reading": reading, "log_loss": loss + shift}
        for reading, loss in losses.items()
        for shift in (-0.01, 0.01)
    ]
    page, results = tmp_path / "page.md", tmp_path / "results.json"
    page.write_text("before\n<!-- spatial: begin -->\nold\n<!-- spatial: end -->\nafter\n", encoding="utf-8")
    results.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    spatial.main(["--render", "--page", str(page), "--results", str(results)])
    text = page.read_text(encoding="utf-8")
    assert "| `norberg_birds`, scattered | .3000 | .2500 | .2400 | **.2100** | .2200 |" in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "beyond" not in text  # not measured: no line
