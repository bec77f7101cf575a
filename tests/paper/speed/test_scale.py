"""The benchmark of scale: what is computed from a measurement, the table that is streamed, and the page."""

import json

import pytest

from hotvae.data.parquet import ParquetTable
from paper.speed import scale

RUN = {"start_seconds": 4.0, "tile_seconds": 10.0, "tiles": 3, "driver_peak": 5e8, "worker_peak": 6e8}
MAP = {
    "cells": 10_000,
    "species": 100,
    "repeats": 1,
    "runs": {"plain": [RUN | {"worker_peak": 0}], "ray, 1 core": [RUN], "ray, 2 cores": [RUN]},
    "seconds": {"plain": 9.0, "ray, 1 core": 10.0, "ray, 2 cores": 5.0},
    "cells_per_second": {"plain": 1111.1, "ray, 1 core": 1000.0, "ray, 2 cores": 2000.0},
    "overhead_of_ray": 1 / 9,
    "speed_up_of_two_cores": 1.8,
    "worker_bytes": 6e8,
    "driver_bytes": 5e8,
    "load_average": {"before": [0.1], "after": [1.9]},
    "command": "python -m paper.speed.scale map",
    "date": "2026-01-02T03:04:05",
    "machine": {"cores": 2},
}


def test_needs__a_thousand_cells_a_second__worked_by_hand():
    """1,000 cells/s of 100 species are 100 of 1,000: 10 million s on a core, and 1.8 / 2 of each of 32."""
    found = scale.needs(MAP)
    assert found["hours_by_cores"]["1"] == pytest.approx(1e7 / 3600)
    assert found["hours_by_cores"]["32"] == pytest.approx(1e7 / 3600 / (32 * 0.9))
    assert found["worker_gigabytes"] == pytest.approx(6.0)
    assert found["result_gigabytes"] == pytest.approx(1000.0)


def test_render__one_result__written_between_its_marks_and_the_rest_left_alone(tmp_path):
    page = tmp_path / "page.md"
    marks = [f"<!-- scale {name}: {end} -->" for name in ("map", "stream") for end in ("begin", "end")]
    page.write_text("\n".join(["above", marks[0], "old", marks[1], "between", marks[2], "not yet", marks[3], ""]))
    (tmp_path / "scale_map.json").write_text(json.dumps(MAP))
    scale.render(tmp_path, page)
    text = page.read_text()
    assert text.startswith("above\n")
    assert "old" not in text
    assert f"{marks[2]}\nnot yet\n{marks[3]}" in text
    assert "| ray, 2 cores | 5 | 2,000 | 0.60 GB |" in text
    assert "Ray costs 11.1 % (goal: at most 10 %)" in " ".join(text.split())
    assert "| 32 | 96.5 | 192 GB |" in text


def test_write_table__small__rows_of_places_covariates_and_species(tmp_path, monkeypatch):
    monkeypatch.setattr(scale, "ROWS", 200)
    monkeypatch.setattr(scale, "COLUMNS", 6)
    scale.write_table(tmp_path / "t.parquet", 0.0001, 0)
    table = ParquetTable(tmp_path / "t.parquet")
    assert table.columns[:3] == ["longitude", "latitude", "x0"]
    assert len(table.columns) == 6 + scale.LABELS
    assert (tmp_path / "t.parquet").stat().st_size >= 1e5
    assert table.n_rows % 200 == 0
    frame = next(frame for _, frame in table.frames(table.row_groups[0]))
    assert set(frame["sp_000"].unique()) <= {0, 1}
