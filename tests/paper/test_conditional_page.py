"""The page of known labels says what the results say; masks, scores and the plain conditioners do what they should."""

import math
import re

import numpy as np
import pytest
import torch

from hotvae import HotVAENetwork
from hotvae.metrics import log_loss
from paper import conditional_page
from paper.presets import read_preset

PAGE = conditional_page.PAGE.read_text(encoding="utf-8")
CELLS = conditional_page.read_cells(conditional_page.FILE)
NAN = np.nan


def measured(loss, auc, **others):
    """A cell whose loss falls, and whose AUC rises, by a tenth of the known share."""
    shares = [
        {"share": share, "mask": mask, "log_loss": loss - share / 10, "mean_auc": auc + share / 10}
        for share in conditional_page.SHARES
        for mask in range(2)
    ]
    seconds = {"cpu": 12.4, "wall": 20.0}
    sizes = {"n_rows": [40, 10, 50], "n_labels": 7}
    return {"status": "done", "shares": shares, "fit_seconds": seconds, **sizes, **others}


# The page ---------------------------------------------------------------------------------------------------


def test_page__tables__are_those_of_the_results():
    assert conditional_page.rendered(PAGE, CELLS) == PAGE


def test_page__example__runs(capsys):
    """In a fraction of its rows and epochs; every line is there."""
    code = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL).group(1)
    quick = code.replace("max_epochs=10)", "max_epochs=1), given_epochs=0, covariance_epochs=1").replace("1500", "200")
    quick = quick.replace("1200", "150").replace("1201", "151").replace("(64, 64)", "(8,)")
    space = {}
    exec(quick, space)
    model, X, seen = space["model"], space["X"][150:151], space["seen"]
    probs = model.predict_proba(X, given=seen)
    assert probs[0, [0, 3]].tolist() == [1, 0]
    draws = model.sample(X, 100, random_state=0, given=seen)
    assert (draws[:, 0, 0] == 1).all()
    assert (draws[:, 0, 3] == 0).all()


def test_results__every_cell__can_be_repeated():
    for (name, model, seed), cell in CELLS.items():
        expected = f"python -m paper.conditional_page --sets {name} --models {model} --seeds {seed}"
        assert cell["command"] == expected
        assert {"python", "hotvae", "torch", "numpy", "scikit-learn"} <= set(cell["versions"])
        assert cell["date"] > "2026"
        assert cell["status"] in ("done", "too slow"), cell.get("error")
        if cell["status"] == "done":
            assert len(cell["shares"]) == (1 if cell["model"] == "hotvae_untold" else 1 + 5 * 3)


def test_set_table__two_models__means_the_best_in_bold_and_who_is_ahead():
    name = "norberg_butterfly"
    cells = {
        (name, "hotvae", 0): measured(0.30, 0.90, set=name),
        (name, "hotvae", 1): measured(0.32, 0.92, set=name),
        (name, "probit", 0): measured(0.305, 0.915, set=name),
    }
    lines = conditional_page.set_table(cells, name).splitlines()
    assert lines[2].startswith("| HOT-VAE | 2 | 0.3100 | 0.3000 | 0.2850 | 0.2600 | 0.9100 |")
    assert lines[3].startswith("| probit JSDM | 1 | **0.3050** | **0.2950** | **0.2800** | **0.2550** | **0.9150** |")
    assert lines[2].endswith("| 12 |")
    assert lines[-1] == "HOT-VAE is ahead of – probit JSDM: log loss 0 of 4, AUC 0 of 4."
    better = {**cells, (name, "hotvae", 1): measured(0.20, 0.99, set=name)}
    verdict = conditional_page.set_table(better, name).splitlines()[-1]
    assert verdict == "HOT-VAE is ahead of – probit JSDM: log loss 4 of 4, AUC 4 of 4."
    untold = measured(0.31, 0.91, set=name)
    untold["shares"] = [entry for entry in untold["shares"] if entry["share"] == 0]
    lines = conditional_page.set_table(
        {(name, "hotvae", 0): cells[name, "hotvae", 0], (name, "hotvae_untold", 0): untold}, name
    )
    assert "| the same, not trained for it | 1 | 0.3100 | – | – | – | **0.9100** | – | – | – |" in lines
    assert lines.endswith("HOT-VAE is ahead of – the same, not trained for it: log loss 1 of 1, AUC 0 of 1.\n")
    page = conditional_page.render(cells)
    assert page.startswith("### norberg_butterfly\n\n7 species; 40 + 10 rows to learn from, 50 test rows.")
    assert (
        "Not measured here: HOT-VAE network, tuned by hand; the same, not trained for it; probit JSDM, perceptron mean"
        in page
    )
    assert conditional_page.render({}) == "Not measured yet.\n"


# Masks and scores -------------------------------------------------------------------------------------------


def test_known_part__share__of_every_row_at_random_and_the_same_for_all_models():
    labels = np.random.default_rng(0).integers(0, 2, (400, 20)).astype(float)
    known = conditional_page.known_part(labels, 0.25, 3)
    is_known = ~np.isnan(known)
    assert set(is_known.sum(axis=1)) == {5}
    np.testing.assert_allclose(is_known.mean(axis=0), 0.25, atol=0.09)  # four standard errors
    np.testing.assert_array_equal(known[is_known], labels[is_known])
    np.testing.assert_array_equal(conditional_page.known_part(labels, 0.25, 3), known)
    assert (np.isnan(conditional_page.known_part(labels, 0.25, 4)) != ~is_known).any()
    assert np.isnan(conditional_page.known_part(labels, 0.0, 0)).all()


def test_score_unknown__known_labels__do_not_count_and_certainty_has_a_floor():
    labels, known = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, NAN], [NAN, NAN]])
    probs = np.array([[0.01, 0.25], [0.0, 0.5]])
    found = conditional_page.score_unknown(labels, known, probs)
    expected = -(math.log(0.75) + math.log(1 - 1e-6) + math.log(0.5)) / 3
    assert found["log_loss"] == pytest.approx(expected)
    assert found["mean_auc"] == 1.0


# The conditioners -------------------------------------------------------------------------------------------


def twins(n=400):
    """Two labels that are always the same and one that is not; the feature says nothing."""
    random = np.random.default_rng(0)
    twin, alone = random.random((2, n)) < 0.5
    return random.normal(size=(n, 2)), np.column_stack([twin, twin, alone]).astype(np.float32)


@pytest.mark.parametrize("name", ["matrix", "perceptron"])
def test_conditioner__twins__one_tells_the_other_and_nothing_known_is_the_plain_network(name):
    X, Y = twins()
    cls = conditional_page.MODELS[name][0]
    few = {"max_epochs": 20, "learning_rate": 0.1, "weight_decay": 0.0, "encoder_widths": (8,), "average_decay": 0.9}
    model = cls.from_settings(**few, random_state=0, n_threads=1).fit(X, Y)
    told = model.predict_proba(X[:2], given=[[1, NAN, NAN], [0, NAN, NAN]])
    assert told[0, 1] > 0.8
    assert told[1, 1] < 0.2
    np.testing.assert_allclose(told[:, 2], 0.5, atol=0.15)
    plain = torch.sigmoid(model.network_.plain(torch.from_numpy(model._scaled(X)))).detach().numpy()
    np.testing.assert_allclose(model.predict_proba(X), plain, atol=1e-6)


def test_settings__preset__whole_for_hotvae_encoder_for_conditioners_none_for_others():
    name = "bbs_like_ebird100"
    preset = read_preset(name, HotVAENetwork.all_settings())
    own = conditional_page.settings_of("hotvae_network", name)
    assert set(own) == set(preset) - {"coordinates_as_features"}
    assert own["encoder_dropout"] == preset["encoder_dropout"]
    told = conditional_page.settings_of("matrix", name)
    assert set(told) == (set(conditional_page.ENCODER) & set(preset)) | set(conditional_page.STEPS)
    assert conditional_page.settings_of("matrix", "norberg_butterfly")["max_epochs"] == 200
    assert set(conditional_page.settings_of("probit", name)) == set(conditional_page.READING) & set(preset)
    plants, birds = (conditional_page.settings_of("hotvae_network", f"norberg_{taxon}") for taxon in ("plant", "birds"))
    assert plants == birds
    assert conditional_page.settings_of("hotvae", name) == {}


# Running ----------------------------------------------------------------------------------------------------


def test_run_cell__small_set__a_result_for_every_share_and_mask(monkeypatch):
    X, Y = twins(300)
    parts = [(X[rows], Y[rows]) for rows in (slice(0, 200), slice(200, 240), slice(240, 300))]
    monkeypatch.setattr(conditional_page, "rows_of", lambda name, seed, whole: parts)
    key = {"set": "norberg_butterfly", "model": "chain_ensemble", "seed": 0}
    cell = conditional_page.run_cell(key)
    assert [(entry["share"], entry["mask"]) for entry in cell["shares"]] == [
        (0.0, 0),
        *((share, mask) for share in (0.1, 0.25, 0.5) for mask in range(5)),
    ]
    first, last = cell["shares"][0], cell["shares"][-1]
    assert first["log_loss"] == first["alone_log_loss"]
    assert last["log_loss"] < last["alone_log_loss"] - 0.05  # one of two twins is known in two thirds of the rows
    assert cell["n_rows"] == [200, 40, 60]
    assert first["log_loss"] == pytest.approx(log_loss(parts[2][1], np.full((60, 3), 0.5)), abs=0.05)


def test_main__cell_that_is_done__is_kept_and_the_rest_runs(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(
        conditional_page, "run_apart", lambda key, limit: ran.append(key["model"]) or measured(0.3, 0.9)
    )
    arguments = ["--sets", "norberg_butterfly", "--seeds", "1", "--results", str(tmp_path / "results.json")]
    conditional_page.main([*arguments, "--models", "matrix"])
    conditional_page.main([*arguments, "--models", "matrix", "hotvae"])
    assert ran == ["matrix", "hotvae"]
    cells = conditional_page.read_cells(tmp_path / "results.json")
    assert list(cells) == [("norberg_butterfly", "hotvae", 1), ("norberg_butterfly", "matrix", 1)]
    assert cells["norberg_butterfly", "matrix", 1]["settings"]["max_epochs"] == 200
    conditional_page.main([*arguments, "--models", "matrix", "--fresh"])
    assert ran == ["matrix", "hotvae", "matrix"]


def test_main__cell_that_was_too_slow__runs_again_only_with_more_time(tmp_path, monkeypatch):
    ran = []

    def slow(key, limit):
        ran.append(limit)
        return {"status": "too slow", "limit_seconds": limit}

    monkeypatch.setattr(conditional_page, "run_apart", slow)
    arguments = ["--sets", "norberg_butterfly", "--seeds", "0", "--models", "hotvae"]
    for limit in ("10", "10", "20"):
        conditional_page.main([*arguments, "--results", str(tmp_path / "results.json"), "--limit", limit])
    assert ran == [10.0, 20.0]
