"""What is counted of trust: by hand, folds that add up, and a page that holds it."""

import json

import numpy as np
import pytest

from hotvae.estimators.trust import ABSENT, CANNOT_TELL, PRESENT
from paper import trust


def fold():
    """Two blocks: the first has two rows with the label, one of them called right; the second none."""
    truth = np.array([[1.0], [1.0], [0.0]])
    calls = np.array([[PRESENT], [ABSENT], [CANNOT_TELL]], dtype=np.int8)
    return trust.summary(truth, np.full((3, 1), 0.5), calls, np.array([0.1, 0.3, 1.2]), np.array([0, 0, 1]))


def test_summary__by_hand():
    found = fold()
    assert found["rows"] == {"absent": [1, 1], "present": [1, 2]}
    assert found["blocks"] == {"absent": [1.0, 1], "present": [0.5, 1]}
    assert found["calls"] == {"absent": 1, "present": 1, "cannot tell": 1}
    assert found["n_by_bin"] == [1, 1, 0, 0, 1, 0, 0]
    assert found["loss_by_bin"][0] == pytest.approx(np.log(2))
    assert found["right_by_bin"] == [1.0, 0.0, 0, 0, 1.0, 0, 0]


def test_joined__two_folds__sums_not_means():
    cells = [fold() | {"loss_of_rates": 0.6}, fold() | {"loss_of_rates": 0.8}]
    found = trust.joined(cells)
    assert found["rows"]["present"] == 0.5
    assert found["all"] == pytest.approx(4 / 6)
    assert found["rates"] == pytest.approx(0.7)
    assert found["n_by_bin"].tolist()[:2] == [2, 2]


def test_render__results__page_and_figures(tmp_path):
    cells = [fold() | {"loss_of_rates": 0.6, "set": name} for name in trust.SETS]
    page = tmp_path / "trust.md"
    page.write_text(
        "<!-- coverage: begin -->\nold\n<!-- coverage: end -->\n<!-- error: begin -->\nold\n<!-- error: end -->\n"
    )
    results = tmp_path / "trust.json"
    results.write_text(json.dumps({"cells": cells}))
    trust.main(["--render", "--results", str(results), "--page", str(page), "--images", str(tmp_path / "images")])
    text = page.read_text()
    assert "| `bbs_like_ebird100`, 3 | 66.7 % | 100.0 % | 50.0 % | 100.0 / 50.0 % | 33 % | 33 % | 33 % |" in text
    assert "old" not in text
    assert {path.name for path in (tmp_path / "images").iterdir()} == {"trust_error.png", "trust_coverage.png"}
