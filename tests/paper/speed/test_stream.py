"""A long table through a model, killed half-way: on next to nothing."""

import json

import pytest

from paper.speed import stream


@pytest.mark.slow
def test_stream__killed_half_way__whole_and_resumed(tmp_path):
    stream.main(["--rows", "2000", "--labels", "3", "--rows-at-once", "50", "--out", str(tmp_path)])
    written = json.loads((tmp_path / "stream.json").read_text())
    assert written["whole"]
    assert written["largest_difference"] < 1e-6
    assert written["left_over"] == []
    killed, resumed = written["runs"]["killed"], written["runs"]["resumed"]
    assert killed["killed"]
    assert not resumed["killed"]
    assert written["pieces"] == 40
    assert resumed["told"][0]["rows"] == 50 * written["pieces_found_after_the_kill"]  # what was there is told at once
    assert resumed["told"][-1]["rows"] == resumed["told"][-1]["of"] == 2000
    assert len(resumed["told"]) == 1 + 40 - written["pieces_found_after_the_kill"]
    assert 20 <= written["pieces_found_after_the_kill"] < 40
    assert "The result is whole" in stream.rendered(written)


def test_page__shows_what_is_stored():
    page, stored = stream.PAGE.read_text(), json.loads((stream.RESULTS / stream.FILE).read_text())
    assert stream.rendered(stored) in page
