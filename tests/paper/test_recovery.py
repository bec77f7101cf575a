"""What the default finds of a virtual region, by flips and by edges."""

import json

import pytest

from paper import recovery


@pytest.mark.slow
def test_recover__few_sites__both_readings_and_their_agreement(capsys, monkeypatch):
    monkeypatch.setattr(recovery, "N_ASKED", 300)
    recovery.main(["--sites", "400", "--effort", "quick", "--fits", "2", "--rows", "60", "--law-effort", "0.2"])
    printed = capsys.readouterr().out
    assert "400 sites, seed 0, flips" in printed
    assert "400 sites, seed 0, edges" in printed
    agreement = json.loads(next(line for line in printed.splitlines() if line.startswith("edges and flips:"))[16:])
    assert agreement["n_pairs"] == 552
    assert agreement["same_sign"] > 0.9
