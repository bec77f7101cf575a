"""Paired bootstrap: the same values as the measures, the same resamples for all, signs that mean what they say."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotvae.data.splits import Split
from hotvae.metrics import METRICS as MEASURES
from paper.cells import Parts, _row_values
from paper.experiments import EXPERIMENTS, Cell
from paper.paired import METRICS, compare, groups_of, pair_key, read_pairs, resampled_values, update_pairs
from paper.store import Store

CUTS = dict(zip(METRICS[1:], (0.3, 0.4, 0.5, 0.6), strict=True))


def rows_of(labels, probs, numbers=None):
    rows = np.arange(len(labels)) if numbers is None else numbers
    parts = Parts((None, None), (None, None), (None, labels), Split(rows[:0], rows[:0], rows), (), None)
    return _row_values(parts, probs, CUTS)


def measured(labels, probs):
    return {
        name: MEASURES[name].function(labels, probs if name == "log_loss" else probs >= CUTS[name]) for name in METRICS
    }


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 20), st.booleans())
def test_resampled_values__all_rows__equal_the_measures(seed, n_rows, n_labels, gaps):
    random = np.random.default_rng(seed)
    labels = (random.random((n_rows, n_labels)) < 0.4).astype(float)
    labels[0, 0] = 1.0
    if gaps:
        labels[random.random(labels.shape) < 0.3] = np.nan
        labels[0, 0] = 1.0
    probs = random.uniform(0.05, 0.95, labels.shape)
    found = resampled_values(rows_of(labels, probs), 0)
    for name, value in measured(labels, probs).items():
        assert found[name][0] == pytest.approx(value, rel=1e-5, abs=1e-7), name


def test_resampled_values__resamples__equal_the_measures_of_repeated_rows():
    """The slow way: draw the same counts, repeat the rows, measure."""
    random = np.random.default_rng(3)
    labels = (random.random((15, 4)) < 0.5).astype(float)
    probs = random.uniform(0.05, 0.95, labels.shape)
    numbers = np.arange(100, 115)
    found = resampled_values(rows_of(labels, probs, numbers), 5)
    counts = np.random.default_rng(numbers.astype(np.int64)).multinomial(15, np.full(15, 1 / 15), size=5)
    for place, count in enumerate(counts, start=1):
        again = np.repeat(np.arange(15), count)
        for name, value in measured(labels[again], probs[again]).items():
            assert found[name][place] == pytest.approx(value, rel=1e-5), name


def test_compare__better_model__positive_difference_and_interval_above_zero():
    random = np.random.default_rng(0)
    labels = (random.random((300, 6)) < 0.5).astype(float)
    good = np.clip(labels + random.normal(0, 0.4, labels.shape), 0.02, 0.98)
    bad = random.uniform(0.1, 0.9, labels.shape)
    ours, rival = ((b"rows", resampled_values(rows_of(labels, probs))) for probs in (good, bad))
    found = compare([ours], [rival])
    assert found["macro_f1"]["low"] > 0
    assert found["log_loss"]["high"] < 0
    same = compare([ours], [ours])
    assert same["macro_f1"] == {"difference": 0.0, "low": 0.0, "high": 0.0}


def test_compare__seeds_with_rows_of_their_own__only_shared_rows_count():
    def flat(value):
        return {name: np.full(3, value) for name in METRICS}

    ours = [(b"a", flat(1.0)), (b"b", flat(5.0))]
    assert compare(ours, [(b"a", flat(0.25))])["macro_f1"]["difference"] == 0.75
    assert compare(ours, [(b"c", flat(0.0))]) == {}
    repeated = [(b"a", flat(1.0)), (b"a", flat(2.0))]
    assert compare(repeated, [(b"a", flat(0.0))])["macro_f1"]["difference"] == 1.5


@pytest.mark.slow
def test_update_pairs__stored_cells__every_rival_compared_once_and_kept_without_rows(smoke_store, tmp_path):
    update_pairs(smoke_store)
    pairs = read_pairs(smoke_store)
    there = {variant for variant, _, _ in groups_of(smoke_store, EXPERIMENTS["tables"])}
    assert {key.split("/")[-1] for key in pairs if key.startswith("tables/")} == there - {"hotvae"}
    assert {"base alone", "paper", "ridge"} <= there
    assert pair_key("communities", "virtual-80-6", 0, "probit") in pairs
    assert update_pairs(smoke_store) is None  # nothing new
    # Another checkout has the committed files only.
    copy = Store(tmp_path)
    for name in (*(f"{name}.jsonl" for name in EXPERIMENTS), "paired.json"):
        (tmp_path / name).write_bytes((smoke_store.folder / name).read_bytes())
    assert update_pairs(copy) is None
    assert read_pairs(copy) == pairs


def test_groups__settings_changed_for_one_seed__only_the_newest_settings_are_averaged(tmp_path):
    store = Store(tmp_path)
    cells = [cell for cell in EXPERIMENTS["tables"].cells() if (cell.model, cell.data) == ("ridge", "yeast")]
    for number, cell in enumerate(cells):
        line = {
            "cell": cell.to_dict(),
            "status": "done",
            "fit": str(number),
            "recipe": {"old": True},
            "date": "2026-01-01",
        }
        store.append(line)
    newer = {"cell": cells[2].to_dict(), "status": "done", "fit": "x", "recipe": {}, "date": "2026-02-01"}
    store.append(newer)
    found = groups_of(store, EXPERIMENTS["tables"])["ridge", "yeast", 0]
    assert [line["cell"]["seed"] for line in found] == [2]
    assert json.loads(json.dumps(found[0])) == newer


def _store_of_seeds(folder, n_ours, n_rival, with_rows, data="yeast"):
    """Results of HOT-VAE and ridge on a set whose rows are there for some fits only."""
    store = Store(folder)
    store.make_rows_folder()
    rng = np.random.default_rng(0)
    for model, n_seeds in (("hotvae", n_ours), ("ridge", n_rival)):
        for seed in range(n_seeds):
            fit = f"{model}{seed}"
            cell = Cell("tables", model, model, data, seed=seed)
            store.append({"cell": cell.to_dict(), "status": "done", "fit": fit, "recipe": {}, "date": "2026-01-01"})
            if fit in with_rows:
                labels = rng.random((30, 4)) < 0.5
                bits = {f"predicted_{name}": np.packbits(labels, axis=1) for name in METRICS[1:]}
                rows = {"row": np.arange(30), "n_labels": np.array(4), "log_loss": rng.random(30)}
                rows |= {"n_observed": np.full(30, 4), "positive": np.packbits(labels, axis=1)}
                np.savez(store.rows_path(fit), **rows, **bits)
    return store


def _fits_of(store, key):
    """Fits of both sides of a comparison, without the date of each."""
    return [[fit.removesuffix(" measured 2026-01-01") for fit in side] for side in read_pairs(store)[key]["fits"]]


def test_update_pairs__rows_of_some_seeds_gone__compares_the_others_and_keeps_what_is_better(tmp_path):
    key = pair_key("tables", "yeast", 0, "ridge")
    store = _store_of_seeds(tmp_path, 3, 3, {"hotvae1", "hotvae2", "ridge1"})
    update_pairs(store)
    assert _fits_of(store, key) == [["hotvae1"], ["ridge1"]]
    for path in store.rows_folder.glob("*.npz"):
        path.unlink()
    assert update_pairs(store) is None  # kept, though nothing is left to repeat it with
    more = _store_of_seeds(tmp_path, 3, 3, {"hotvae0", "hotvae1", "hotvae2", "ridge0", "ridge1"})
    update_pairs(more)
    assert _fits_of(more, key) == [["hotvae0", "hotvae1"], ["ridge0", "ridge1"]]


def test_update_pairs__fewer_seeds_of_a_rival__compares_those_it_has_unless_more_say_nothing(tmp_path):
    """On yeast validation rows are drawn with the seed; on mirflickr_tags ridge has one seed, as all are the same."""
    for data, fits in (("yeast", [["hotvae0"], ["ridge0"]]), ("mirflickr_tags", [["hotvae0", "hotvae1"], ["ridge0"]])):
        store = _store_of_seeds(tmp_path / data, 2, 1, {"hotvae0", "hotvae1", "ridge0"}, data)
        update_pairs(store)
        assert _fits_of(store, pair_key("tables", data, 0, "ridge")) == fits


def test_update_pairs__settings_changed_and_no_rows__drops_what_was_compared_before(tmp_path):
    key = pair_key("tables", "yeast", 0, "ridge")
    store = _store_of_seeds(tmp_path, 1, 1, {"hotvae0", "ridge0"})
    update_pairs(store)
    assert key in read_pairs(store)
    cell = Cell("tables", "ridge", "ridge", "yeast")
    store.append({"cell": cell.to_dict(), "status": "done", "fit": "other", "recipe": {"a": 1}, "date": "2026-02-01"})
    update_pairs(store)
    assert key not in read_pairs(store)


def test_update_pairs__measured_anew_and_no_rows__drops_what_was_compared_before(tmp_path):
    """The same settings, but perhaps another model: what was compared is of the one before."""
    key = pair_key("tables", "yeast", 0, "ridge")
    store = _store_of_seeds(tmp_path, 1, 1, {"hotvae0", "ridge0"})
    update_pairs(store)
    for path in store.rows_folder.glob("*.npz"):
        path.unlink()
    cell = Cell("tables", "hotvae", "hotvae", "yeast")
    store.append({"cell": cell.to_dict(), "status": "done", "fit": "hotvae0", "recipe": {}, "date": "2026-02-01"})
    update_pairs(store)
    assert key not in read_pairs(store)
