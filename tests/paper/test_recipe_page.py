"""The page of the recipe: what is measured, compared and shown."""

import json

import numpy as np
import pytest

from hotvae.data.catalog import catalog_names
from paper import RESULTS, recipe_page
from paper.cells import run_cell
from paper.experiments import PARTS, Cell
from paper.figures import recipe_figure
from paper.paired import METRICS, groups_of
from paper.runner import plan
from paper.store import Store, fit_fingerprint
from paper.summaries import replace_marked

REGION = "virtual-80-6"
NORBERG = "norberg_birds"


def line(variant, loss, data=REGION, split=0, seed=0, cpu=2.0, **more):
    """What is stored of a fit; rivals and models have the same name for model and variant."""
    cell = Cell("recipe", variant, variant, data, split, seed)
    return {
        "cell": cell.to_dict(),
        "fit": f"{variant}-{data}-{split}-{seed}",
        "status": "done",
        "title": variant,
        "metrics": {"honest": {"log_loss": loss}},
        "fit_seconds": {"cpu": cpu},
        "date": "2026-01-01",
        "recipe": {},
        **more,
    }


def write_rows(store, fit, probs, labels, first=0):
    """Values of single rows, as a worker writes them."""
    store.make_rows_folder()
    losses = -np.log(np.where(labels == 1, probs, 1 - probs)).sum(axis=1)
    rows = {
        "row": np.arange(first, first + len(labels)),
        "n_labels": np.array(labels.shape[1]),
        "log_loss": losses,
        "n_observed": np.full(len(labels), labels.shape[1]),
        "positive": np.packbits(labels.astype(bool), axis=1),
    } | {f"predicted_{name}": np.packbits(probs > 0.5, axis=1) for name in METRICS[1:]}
    np.savez_compressed(store.rows_path(fit), **rows)


@pytest.fixture
def store(tmp_path):
    """One fit of the default with a base and a network, and two rivals: one far behind, one the same."""
    store = Store(tmp_path)
    alone = {
        "base": {"metrics": {"honest": {"log_loss": 0.5}}, "fit_seconds": {"cpu": 0.5}},
        "network": {"metrics": {"honest": {"log_loss": 0.45}}, "fit_seconds": {"cpu": 30.0}},
    }
    entries = [{"name": "ridge", "weight": 0.25}, {"name": "network 64", "weight": 0.8}, {"name": "trees", "weight": 0}]
    found = {"entries": entries, "folds": "5 folds of single rows"}
    random = np.random.default_rng(0)
    labels = (random.random((200, 6)) < 0.5).astype(float)
    good = np.clip(labels * 0.6 + 0.2 + random.normal(0, 0.05, labels.shape), 0.05, 0.95)
    for seed in range(2):
        store.append(line("hotvae", 0.40 + 0.02 * seed, seed=seed, alone=alone, found=found))
        store.append(line("ridge", 0.6, seed=seed, cpu=12.0))
        store.append(line("extra_trees", 0.43, seed=seed))
        write_rows(store, f"hotvae-{REGION}-0-{seed}", good, labels)
        write_rows(store, f"ridge-{REGION}-0-{seed}", np.full(labels.shape, 0.5), labels)
        write_rows(store, f"extra_trees-{REGION}-0-{seed}", good, labels)
    return store


def test_experiment__all_sets__every_rival():
    experiment = recipe_page.experiment_of(recipe_page.all_sets())
    cells = experiment.cells()
    assert {cell.data for cell in cells} == set(catalog_names()) - {"bookmarks", "ebird", "sider_elements"}
    assert {cell.model for cell in cells} == {"hotvae", *recipe_page.RIVALS}
    assert {cell.split for cell in cells if cell.data == NORBERG} == {0, 1, 2}


def test_compare_sets__worked__one_rival_behind_one_level_and_kept_without_rows(store):
    experiment = recipe_page.experiment_of([REGION])
    found = recipe_page.compare_sets(store, experiment, "python -m paper.recipe_page")
    verdicts = {rival: recipe_page.verdict_of(pair["log_loss"]) for rival, pair in found[REGION].items()}
    assert verdicts == {"ridge": 1, "extra_trees": 0}
    kept = json.loads((store.folder / recipe_page.FILE).read_text())
    assert kept["command"] == "python -m paper.recipe_page"
    assert {"versions", "date", "revision", "n_resamples"} <= set(kept)
    for path in store.rows_folder.glob("*.npz"):
        path.unlink()
    assert recipe_page.compare_sets(store, experiment) == found


def test_compare_sets__fits_changed_and_rows_gone__old_comparison_is_not_shown_as_new(store):
    experiment = recipe_page.experiment_of([REGION])
    before = recipe_page.compare_sets(store, experiment)
    store.append(line("hotvae", 0.3, seed=0) | {"fit": "other"})
    after = recipe_page.compare_sets(store, experiment)
    assert REGION in before
    assert not after.get(REGION)  # of other settings: it says nothing of what the page shows


def test_compare_sets__measured_anew_and_rows_gone__old_comparison_is_not_shown_as_new(store):
    experiment = recipe_page.experiment_of([REGION])
    recipe_page.compare_sets(store, experiment)
    for path in store.rows_folder.glob("*.npz"):
        path.unlink()
    store.append(line("hotvae", 0.3, seed=0) | {"date": "2030-01-01"})
    assert not recipe_page.compare_sets(store, experiment).get(REGION)


def test_compare_sets__another_seed_without_rows__what_was_compared_is_kept_until_all_rows_are_there(store):
    experiment = recipe_page.experiment_of([REGION])
    before = recipe_page.compare_sets(store, experiment)
    for model in ("hotvae", "ridge", "extra_trees"):
        store.append(line(model, 0.4, seed=2))
    assert recipe_page.compare_sets(store, experiment) == before
    labels = np.tile([0.0, 1.0], (200, 3))
    for model in ("hotvae", "ridge"):
        write_rows(store, f"{model}-{REGION}-0-2", np.full(labels.shape, 0.5), labels)
    after = recipe_page.compare_sets(store, experiment)[REGION]
    assert [len(side) for side in after["ridge"]["fits"]] == [3, 3]
    assert after["extra_trees"] == before[REGION]["extra_trees"]


def test_rendered_tables__default_parts_rivals__means_costs_verdicts_and_recipe(store):
    experiment = recipe_page.experiment_of([REGION])
    text = recipe_page.rendered_tables(store, experiment, recipe_page.compare_sets(store, experiment))
    assert "by log loss: 1 win, 1 tie, 0 losses. It is behind none of them on any set." in text
    assert (
        f"| {REGION} | **0.4100 ± 0.1271** | 0.5000 ± 0.0000 | 0.4500 ± 0.0000 | – | – | – | 0.4300 ± 0.0000 (ext"
        in text
    )
    assert f"| {REGION} | 2.0 | 0.5 | 30 | – | – | – | 2.0 |" in text
    assert "| level (+0.0000) |" in text
    assert f"| {REGION} | 0.25 × ridge; 0.80 × network 64 | 5 folds of single rows |" in text


def test_rendered_tables__set_with_a_split_missing__no_mean(tmp_path):
    store = Store(tmp_path)
    for split in range(2):
        store.append(line("ridge", 0.3 + split, data=NORBERG, split=split))
    experiment = recipe_page.experiment_of([NORBERG])
    assert f"| {NORBERG} | – | – | – | – | – | – |" in recipe_page.rendered_tables(store, experiment, {})
    store.append(line("ridge", 2.3, data=NORBERG, split=2))
    assert "**1.3000** (ridge)" in recipe_page.rendered_tables(store, experiment, {})  # (0.3 + 1.3 + 2.3) / 3


def test_plan__compared_models_without_rows__are_fitted_anew(tmp_path):
    store = Store(tmp_path)
    cells = [cell for cell in recipe_page.experiment_of(["emotions"], 1).cells() if cell.model in ("ridge", "logistic")]
    for cell in cells:
        store.append({"cell": cell.to_dict(), "status": "done", "fit": fit_fingerprint(cell, {})})
    store.make_rows_folder()
    store.rows_path(fit_fingerprint(cells[0], {})).touch()

    def to_run(**options):
        return [cell for cell, _ in plan(store, cells, settings=lambda cell: {}, **options).cells]

    assert to_run() == []
    assert to_run(need_rows=("ridge", "logistic")) == [cells[1]]


def test_parts__of_a_stored_line__are_lines_of_their_own(store):
    groups = groups_of(store, recipe_page.experiment_of([REGION]))
    assert [part["fit"] for part in groups["base alone", REGION, 0]] == [f"hotvae-{REGION}-0-{s}.base" for s in (0, 1)]
    assert ("forest alone", REGION, 0) not in groups  # the recipe had no forest
    assert "alone" not in groups["network alone", REGION, 0][0]


@pytest.mark.slow
def test_page__fitted_region__default_and_parts_are_shown(tmp_path):
    """The machinery with real fits, without processes."""
    store, experiment = Store(tmp_path), recipe_page.experiment_of([REGION], 1)
    for cell in experiment.cells(smoke=True):
        if cell.model in ("hotvae", "ridge"):
            measured = run_cell(cell)
            fit = f"{cell.model}"
            store.append({"cell": cell.to_dict(), "fit": fit, "status": "done", "date": "2026-01-01", **measured.line})
            store.make_rows_folder()
            np.savez_compressed(store.rows_path(fit), **measured.rows)
            assert set(measured.parts) <= set(PARTS)
    comparisons = recipe_page.compare_sets(store, experiment)
    assert set(comparisons[REGION]) == {"ridge"}
    text = recipe_page.rendered_tables(store, experiment, comparisons)
    assert "**What it chose**" in text
    assert "1 simple rival on 1 set" in text


def test_page__tables__are_those_of_the_results():
    page = recipe_page.PAGE.read_text(encoding="utf-8")
    store = Store(RESULTS)
    text = recipe_page.rendered_tables(
        store, recipe_page.experiment_of(recipe_page.all_sets()), recipe_page.COMPARISONS.read(store)
    )
    assert replace_marked(page, "recipe", f"\n{text}\n") == page


def test_picture__steps__stand_in_their_order():
    words = [text.get_text() for text in recipe_figure().axes[0].texts]
    places = [
        words.index(name) for name in ("1  columns", "2  forms", "3  folds", "4  race", "5  stack", "6  joint law")
    ]
    assert places == sorted(places)
