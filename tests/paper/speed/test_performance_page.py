"""The page on speed says what the stored results say."""

import json

from paper.speed import performance_page as page


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


def test_speed_table__variant_that_was_not_timed__says_why():
    cell = {"labels": 5, "width": 8, "layers": 1, "variant": "compiled", "memory": {"reason": "took too long"}}
    assert "| took too long |" in page.speed_table({"cells": [cell]})
    assert page.compile_words({"cells": [cell]}) == "`torch.compile` at (5, 8, 1): took too long."


def test_compile_words__slower_or_quicker__never_pays_or_after_so_many_steps():
    numbers = {"step": {"compile_seconds": 100.0, "break_even": 1234}, "predict": {"compile_seconds": 50.0}}
    words = page.compile_words({"cells": [{"labels": 5, "width": 8, "layers": 1, "variant": "compiled", **numbers}]})
    assert "training step at (5, 8, 1) took 100 s and pays after 1,234 of them" in words
    assert "prediction at (5, 8, 1) took 50 s and never pays" in words


def test_scale_goals__met_and_missed__are_told_apart():
    accuracy = [{"coordinates": True, "ratio": 3.9}, {"coordinates": False, "ratio": None}]
    growth = {
        "axes": {"rows": {"exponents": {"seconds_per_epoch": 1.2}}, "labels": {"exponents": {"seconds_per_epoch": 1.9}}}
    }
    epoch = {"labels": 3000, "rows": 2000, "points": [{"path": "exact", "fits": True, "peak": 3.9e9}]}
    lines = page.scale_goals(accuracy, growth, {"epoch": epoch}).splitlines()
    assert [line.split("|")[-2].strip() for line in lines] == ["reached", "short", "short", "reached", "reached"]
