"""The benchmark of eBird files, on a few megabytes."""

import json

import pytest

from paper import RESULTS
from paper.speed import ebird

PAGE = RESULTS.parents[1] / "docs" / "field_data.md"


@pytest.mark.slow
def test_main__few_megabytes__measures_both_and_goes_on_after_a_kill(tmp_path, capsys):
    ebird.main(["--gigabytes", "0.004", "--threads", "1", "--out", str(tmp_path)])
    found = json.loads((tmp_path / "ebird.json").read_text())
    assert found["same_count"]
    assert found["same_bytes_after_the_kill"]
    assert found["table"]["observations_after_filters"] == found["count_before"]["rows"]
    assert found["ratio"] == pytest.approx(
        2 * found["table"]["seconds"] / (found["count_before"]["seconds"] + found["count_after"]["seconds"])
    )
    assert found["peak_bytes"] > 0
    assert {"command", "date", "seed", "versions", "machine"} <= set(found)
    assert "ratio: " in capsys.readouterr().out


def test_page__stored_result__is_what_it_says(tmp_path):
    found = json.loads((RESULTS / "ebird.json").read_text())
    assert ebird.paragraph(found) in PAGE.read_text()
    assert found["same_count"]
    assert found["same_bytes_after_the_kill"]
    copy = tmp_path / "page.md"
    copy.write_text(PAGE.read_text())
    ebird.render(found, copy)
    assert copy.read_text() == PAGE.read_text()
