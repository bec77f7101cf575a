"""``hotvae info``."""

import json

from hotvae import load_model
from tests.cli.region import LABELS


def test_info__json__tells_the_model(folder, run):
    code, out, _ = run("info", folder / "model", "--json")
    result = json.loads(out)
    model = load_model(folder / "model")
    assert code == 0
    assert result["kind"] == "HotVAENetwork"
    assert result["labels"] == LABELS
    assert result["features"] == dict.fromkeys(model.feature_names_in_, "numeric")
    assert result["n_parameters"] == sum(each.numel() for each in model.network_.parameters())
    assert result["settings"]["dim"] == 8
    assert result["thresholds"] == model.thresholds_
    assert result["training"]["n_train"] == 95
    assert result["best_epoch"] == model.history_.best_epoch


def test_info__text__has_a_line_each(folder, run):
    code, out, _ = run("info", folder / "model")
    assert code == 0
    lines = {line[:11].strip(): line[12:] for line in out.splitlines()}
    assert lines["rows"] == "95 for training, 25 for validation"
    assert lines["labels"].startswith("6: 'sp_species_01'")
    assert lines["command"].startswith("hotvae train region.csv")
