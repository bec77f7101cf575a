"""The benchmark of eBird files, on a few megabytes."""

import json

import pytest

from paper.speed import ebird


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
