"""The demonstration, small: its numbers are those of evaluate(), its files are whole and agree."""

import json
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from hotvae import load_model
from hotvae.data.splits import split_dataset
from hotvae.data.synthetic import Gate, Interaction, virtual_region
from hotvae.data.tables import read_table
from hotvae.errors import ConfigError, ModelError
from hotvae.estimators.thresholds import evaluate, tune_thresholds
from hotvae.explain import Association, Contrast, residual_associations
from hotvae.jobs.table_needs import TableNeeds
from hotvae.jobs.virtual_demo import (
    FRACTIONS,
    HOT_VAE,
    PLAIN_NET,
    TREES,
    TRUTH,
    _best_cells,
    _check,
    _kind_of_pair,
    demo_table,
    next_steps,
    run_demo,
    true_associations,
)
from hotvae.metrics import log_loss

QUICK = {"max_epochs": 2, "encoder_widths": (16,)}
HOSTILE_FOLDER = "<img src=x onerror=alert(1)> & 'out'"


class Page(HTMLParser):
    """Collects the texts of table cells and everything a browser would fetch."""

    def __init__(self, text):
        super().__init__()
        self.cells, self.links, self.code, self.tag = [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tag = tag
        self.links += [value for name, value in attributes if name in ("src", "href")]

    def handle_data(self, data):
        if self.tag in ("td", "th"):
            self.cells.append(data)
        if self.tag == "code":
            self.code.append(data)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / HOSTILE_FOLDER
    return run_demo(out, seed=3, n_sites=300, settings=QUICK, n_trees=8, progress="silent", n_threads=1)


@pytest.mark.slow
def test_demo__table__lists_models_and_measures_in_order(demo):
    table = demo_table(demo)
    assert [row["model"] for row in table] == [HOT_VAE, PLAIN_NET, TREES, TRUTH]
    assert list(table[0]) == ["model", "ebF1", "miF1", "maF1", "HA", "median AUC", "log loss", "seconds"]
    assert all(row["seconds"] > 0 for row in table[:3])
    assert table[3]["seconds"] is None


@pytest.mark.slow
def test_demo__truth_row__equals_evaluate_on_the_true_probabilities(demo):
    region = virtual_region(300, random_state=3)
    parts = split_dataset(region.dataset, fractions=FRACTIONS, random_state=3)
    assert [len(rows) for rows in (parts.train, parts.validation, parts.test)] == [90, 30, 180]
    labels, probs = region.dataset.labels, region.marginals
    cuts = tune_thresholds(labels[parts.validation], probs[parts.validation])
    expected = evaluate(labels[parts.test], probs[parts.test], cuts)
    row = demo_table(demo)[3]
    assert row["maF1"] == expected["macro_f1"]
    assert row["ebF1"] == expected["example_f1"]
    assert row["log loss"] == expected["log_loss"]
    assert row["log loss"] < min(other["log loss"] for other in demo_table(demo)[:3])


@pytest.mark.slow
def test_demo__saved_model_on_saved_test_sites__gives_the_first_row_again(demo):
    model = load_model(demo.out / "model")
    needs = TableNeeds.of_model(model)
    features, _ = needs.read_features(demo.out / "test_sites.csv")
    labels = needs.read_labels(demo.out / "test_sites.csv")
    again = evaluate(labels, model.predict_proba(features), model.thresholds_)
    row = demo_table(demo)[0]
    for title, name in (("ebF1", "example_f1"), ("maF1", "macro_f1"), ("HA", "hamming_accuracy")):
        assert row[title] == pytest.approx(again[name], abs=1e-9)
    assert row["log loss"] == pytest.approx(again["log_loss"], rel=1e-6)


@pytest.mark.slow
def test_demo__region_file__holds_the_whole_region(demo):
    data = read_table(demo.out / "region.csv", labels="species_*", coordinates="easting_km,northing_km")
    region = virtual_region(300, random_state=3)
    np.testing.assert_array_equal(data.labels, region.dataset.labels)
    np.testing.assert_allclose(data.features, region.dataset.features)
    assert data.feature_names == region.dataset.feature_names
    assert len(pd.read_csv(demo.out / "test_sites.csv")) == 180


@pytest.mark.slow
def test_demo__results_file__records_what_is_needed_to_repeat_it(demo):
    notes = json.loads((demo.out / "results.json").read_text(encoding="utf-8"))
    assert notes["seed"] == 3
    assert notes["table"] == demo_table(demo)
    assert notes["rows"] == {"train": 90, "validation": 30, "test": 180}
    assert set(notes["versions"]) == {"python", "hotvae", "torch", "numpy", "scikit-learn"}
    assert notes["command"].startswith("hotvae demo --virtual --seed 3")
    assert notes["settings"]["networks"]["max_epochs"] == 2
    assert notes["settings"][TREES]["n_estimators"] == 8
    assert len(notes["interactions"]) == 12
    assert notes["thresholds"][TRUTH]["macro_f1"] == demo.scores[3].measures["thresholds"]["macro_f1"]


@pytest.mark.slow
def test_demo__report__is_one_small_page_with_the_tables_numbers(demo):
    path = demo.out / "report.html"
    page = Page(path.read_text(encoding="utf-8"))
    assert path.stat().st_size < 2_000_000
    assert all(link.startswith("data:image/png;base64,") for link in page.links)
    assert len(page.links) == 4  # the folder's name is none of them
    assert all(command in "".join(page.code) for _, command in next_steps(demo.out))
    for row in demo_table(demo):
        assert row["model"] in page.cells
        assert f"{row['maF1']:.3f}" in page.cells
        assert f"{row['log loss']:.4f}" in page.cells
    for check in demo.checks:
        assert check.interaction.describe() in page.cells


def test_demo__folder_with_something_else__is_refused_before_any_work(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "thesis.tex").write_text("...")
    with pytest.raises(ModelError, match="model folder must be new, empty or a hotvae model"):
        run_demo(tmp_path)
    with pytest.raises(ConfigError, match="n_sites must be at least 100; got 99"):
        run_demo(tmp_path / "other", n_sites=99)


@pytest.mark.slow
def test_true_associations__large_sample__agree_with_the_residuals_of_the_truth():
    region = virtual_region(6000, random_state=1)
    rows = np.arange(6000)
    truth = true_associations(region, rows)
    seen = residual_associations(region.dataset.labels, region.marginals).correlation
    pairs = np.triu_indices(24, 1)
    assert np.abs(truth - seen)[pairs].max() < 0.06
    assert np.abs(truth[pairs]).max() > 0.3
    np.testing.assert_allclose(truth, truth.T)


def pair(a, b, value, where=None, third=None):
    return Association((a, b), value, 10 * value, where, third)


@pytest.mark.parametrize(
    ("interaction", "found", "sign_right"),
    [
        (Interaction("b", ("a",), 3.0), pair("a", "b", 0.2), True),
        (Interaction("b", ("a",), -3.0), pair("a", "b", 0.2), False),
        # The overall sign is wrong, but the side where the gate is open is right.
        (
            Interaction("b", ("a",), -3.0, Gate("rain", "below")),
            pair("b", "a", 0.1, Contrast("rain", -0.3, 0.5, 9.0)),
            True,
        ),
        (
            Interaction("b", ("a",), -3.0, Gate("rain", "above")),
            pair("b", "a", 0.1, Contrast("rain", -0.3, 0.5, 9.0)),
            False,
        ),
        (
            Interaction("b", ("a", "c"), -3.0),
            pair("a", "b", 0.1, None, Contrast("c", 0.2, -0.4, -9.0, is_label=True)),
            True,
        ),
        # Seen through the witness, with the actor as the third label.
        (
            Interaction("b", ("a", "c"), 3.0),
            pair("b", "c", -0.1, None, Contrast("a", 0.0, 0.4, 9.0, is_label=True)),
            True,
        ),
    ],
)
def test_check__association_of_the_pair__judges_the_sign_where_the_interaction_acts(interaction, found, sign_right):
    check = _check(interaction, [pair("x", "y", 0.5), found])
    assert check.found is found
    assert check.sign_right is sign_right


def test_check__pair_not_among_the_associations__is_not_found():
    check = _check(Interaction("b", ("a", "c"), 3.0), [pair("a", "c", 0.5), pair("b", "c", 0.5)])
    assert (check.found, check.sign_right) == (None, None)


def test_kind_of_pair__direct_indirect_and_none__are_told_apart():
    region = virtual_region(400, random_state=0)
    truth = true_associations(region, np.arange(400))
    chain = region.guilds[1]  # a chain of pairs: first - second - third - fourth
    assert _kind_of_pair(region, truth, (chain[0], chain[1]))[0] == "direct"
    assert _kind_of_pair(region, truth, (chain[0], chain[2]))[0] == "indirect"
    assert _kind_of_pair(region, truth, (chain[0], region.guilds[0][0]))[0] == "none"
    assert _kind_of_pair(region, truth, (region.guilds[2][0], region.guilds[2][1]))[0] == "none"


def test_best_cells__truth__does_not_compete_and_small_loss_wins():
    row = dict.fromkeys(["ebF1", "miF1", "maF1", "HA", "median AUC"], 0.5)
    table = [
        {"model": HOT_VAE, **row, "log loss": 0.41},
        {"model": TREES, **row, "ebF1": 0.6, "log loss": 0.40},
        {"model": TRUTH, **row, "ebF1": 0.9, "log loss": 0.30},
    ]
    cells = _best_cells(table)
    assert (1, 1) in cells
    assert (0, 1) not in cells
    assert [cell for cell in cells if cell[1] == 6] == [(1, 6)]
    assert not any(number == 2 for number, _ in cells)


def test_next_steps__folder_with_a_space__is_quoted():
    assert next_steps("my demo")[0][1] == "hotvae evaluate 'my demo/model' 'my demo/test_sites.csv'"


@pytest.mark.slow
def test_demo__trees__are_not_weaker_than_prevalence(demo):
    region = virtual_region(300, random_state=3)
    parts = split_dataset(region.dataset, fractions=FRACTIONS, random_state=3)
    labels = region.dataset.labels
    constant = np.broadcast_to(labels[parts.train].mean(axis=0), labels[parts.test].shape)
    assert demo_table(demo)[2]["log loss"] < log_loss(labels[parts.test], constant)
