"""The page on speed says what the stored results say."""

import json

from benchmarks import performance_page as page


def test_page__stored_results__are_what_it_shows():
    assert page.render(page.PAGE.read_text()) == page.PAGE.read_text()


def test_goal_table__short_and_reached__are_told_apart():
    cell = {
        "labels": 100,
        "width": 128,
        "layers": 3,
        "variant": "eager",
        "step": {"utilisation": 0.5, "speedup": 3.9},
        "predict": {"utilisation": 0.54},
        "memory": {"share_of_reference": 0.2},
    }
    lines = page.goal_table({"cells": [cell]}).splitlines()[2:]
    assert [line.split("|")[-2].strip() for line in lines] == ["reached", "short", "short", "reached"]


def test_speed_table__reference__has_no_use_of_its_own():
    content = json.loads((page.RESULTS / "speed.json").read_text())
    rows = [line.split(" | ") for line in page.speed_table(content).splitlines()[2:]]
    assert len(rows) == len(content["cells"])
    assert all(row[3] == "" for row in rows if row[1] == "reference layout")
