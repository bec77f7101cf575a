"""Evaluation of models and of predictions in files: what is read, how rows and labels are matched, what comes out."""

import numpy as np
import pandas as pd
import pytest

from hotvae.baselines.prevalence import Prevalence
from hotvae.data.frames import write_table
from hotvae.errors import ConfigError, DataError
from hotvae.jobs.evaluate import (
    Predictions,
    align_predictions,
    draw_independently,
    evaluate_table,
    is_prediction_file,
    read_observed,
    read_predictions,
)
from hotvae.metrics import log_loss

LABELS = ["wren", "robin", "owl"]
TRUTH = np.array([[1, 0, 1], [0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 0, 0]])
PROBS = np.array([[0.9, 0.2, 0.7], [0.1, 0.3, 0.6], [0.8, 0.6, 0.4], [0.3, 0.9, 0.8], [0.7, 0.1, 0.2]])
SITES = ["a", "b", "c", "d", "e"]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "sites.csv"
    frame = pd.DataFrame(TRUTH, columns=LABELS)
    frame.insert(0, "depth", np.linspace(0, 3, 5))
    frame.insert(0, "site", SITES)
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def draws():
    return (np.random.default_rng(1).random((40, 5, 3)) < PROBS).astype(np.int8)


def predicted(probs=PROBS, labels=LABELS, **others):
    return Predictions(list(labels), np.asarray(probs), others.get("draws"), others.get("ids"), "p.csv")


# Reading --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".parquet"])
def test_read_predictions__as_predict_writes_it__labels_probabilities_and_row_numbers(tmp_path, suffix):
    frame = pd.DataFrame(PROBS, columns=LABELS)
    frame.insert(0, "row", range(5))
    write_table(frame, tmp_path / f"p{suffix}")
    found = read_predictions(tmp_path / f"p{suffix}")
    assert found.label_names_ == LABELS
    assert found.ids.tolist() == ["0", "1", "2", "3", "4"]
    assert found.draws is None
    np.testing.assert_array_equal(found.probs, PROBS)


def test_read_predictions__draws_alone__their_mean_is_the_probability(tmp_path, draws):
    np.savez(tmp_path / "p.npz", draws=draws, label_names=LABELS)
    found = read_predictions(tmp_path / "p.npz")
    np.testing.assert_allclose(found.probs, draws.mean(axis=0))
    np.testing.assert_array_equal(found.draws, draws)


def test_read_predictions__probabilities_and_draws__both_as_they_are(tmp_path, draws):
    np.savez(tmp_path / "p.npz", draws=draws, probs=PROBS.astype("float32"), label_names=np.array(LABELS))
    found = read_predictions(tmp_path / "p.npz")
    np.testing.assert_array_equal(found.probs, PROBS.astype("float32"))


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("site,wren\na,0.5\n", {}, r"got text 'a' in column 'site' \(p.csv\). Ids\? Pass --id-column 'site'"),
        ("site,wren\n7,0.5\n", {}, r"from 0 to 1; got 7 in column 'site' \(rows 0 of p.csv\)"),
        ("wren\n0.5\n-0.1\n", {}, r"from 0 to 1; got -0.1 in column 'wren' \(rows 1 of"),
        ("wren,owl\n0.5,\n", {}, "from 0 to 1; got nan in column 'owl'"),
        ("sites,wren\na,0.5\n", {"id_column": "site"}, r"must be in the predictions; got 'site' \(close: 'sites'\)"),
        ("row\n0\n", {}, "must have a column per label; got 'row' only"),
    ],
)
def test_read_predictions__tables_that_do_not_fit__are_named(tmp_path, text, options, message):
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        read_predictions(tmp_path / "p.csv", **options)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"probs": PROBS}, r"must hold label_names, and probs or draws; got 'probs' \(p.npz\)"),
        ({"label_names": LABELS}, "must hold label_names, and probs or draws; got 'label_names'"),
        ({"probs": PROBS, "label_names": LABELS[:2]}, "probs must have a column per label, 2; got 3"),
        ({"probs": PROBS, "label_names": ["a", "b", "a"]}, "label_names must be unique; got 'a' more than once"),
        ({"probs": PROBS[0], "label_names": LABELS}, r"probs must be numbers of shape \(sites, labels\); got float64"),
        ({"draws": TRUTH, "label_names": LABELS}, r"draws must be numbers of shape \(draws, sites, labels\); got"),
        ({"draws": TRUTH[None] / 2, "label_names": LABELS}, "draws must be 0 or 1; got 0.5"),
        ({"probs": PROBS[:3], "draws": TRUTH[None], "label_names": LABELS}, "the same sites; got 3 and 5"),
        ({"probs": PROBS + 1, "label_names": LABELS}, "from 0 to 1; got 1.9 in column 'wren'"),
    ],
)
def test_read_predictions__arrays_that_do_not_fit__are_named(tmp_path, arrays, message):
    np.savez(tmp_path / "p.npz", **arrays)
    with pytest.raises(DataError, match=message):
        read_predictions(tmp_path / "p.npz")


def test_read_predictions__damaged_or_pickled_npz__is_refused(tmp_path):
    (tmp_path / "p.npz").write_bytes(b"PK no archive")
    with pytest.raises(DataError, match=r"predictions must be readable; got 'p.npz'"):
        read_predictions(tmp_path / "p.npz")
    np.savez(tmp_path / "q.npz", probs=PROBS, label_names=np.array(LABELS, dtype=object))
    with pytest.raises(DataError, match="with objects"):
        read_predictions(tmp_path / "q.npz")


def test_is_prediction_file__folders_and_files__told_apart(tmp_path):
    (tmp_path / "model.csv").mkdir()
    (tmp_path / "probs").write_text("")
    assert not is_prediction_file(tmp_path / "model.csv")
    assert is_prediction_file(tmp_path / "probs")
    assert is_prediction_file(tmp_path / "missing.csv")
    assert not is_prediction_file(tmp_path / "missing")


# Matching -------------------------------------------------------------------------------------------------


def test_read_observed__labels_in_another_order__matched_by_name(table):
    labels, _ = read_observed(predicted(PROBS[:, ::-1], LABELS[::-1]), table)
    np.testing.assert_array_equal(labels, TRUTH[:, ::-1])


def test_read_observed__ids__predictions_come_in_the_order_of_the_table(table, draws):
    order = [3, 0, 4, 1, 2]
    ids = pd.Index([SITES[i] for i in order], name="site")
    labels, found = read_observed(predicted(PROBS[order], ids=ids, draws=draws[:, order]), table)
    np.testing.assert_array_equal(labels, TRUTH)
    np.testing.assert_array_equal(found.probs, PROBS)
    np.testing.assert_array_equal(found.draws, draws)
    assert found.ids.tolist() == SITES


def test_read_observed__row_numbers__put_in_order_too(table):
    ids = pd.Index(["4", "3", "2", "1", "0"], name="row")
    _, found = read_observed(predicted(PROBS[::-1], ids=ids), table)
    np.testing.assert_array_equal(found.probs, PROBS)


def test_read_observed__wrong_tables__are_named(table, tmp_path):
    with pytest.raises(DataError, match=r"every predicted label; got none for 'wrne' \(close: 'wren'\) \(sites.csv\)"):
        read_observed(predicted(PROBS[:, :1], ["wrne"]), table)
    with pytest.raises(DataError, match=r"must have the rows of the table, 5; got 4 \(p.csv\)"):
        read_observed(predicted(PROBS[:4]), table)
    with pytest.raises(DataError, match=r"id column of the predictions; got none named 'plot' \(sites.csv\)"):
        read_observed(predicted(ids=pd.Index(SITES, name="plot")), table)
    with pytest.raises(DataError, match=r"got 1 without predictions \('e'\) and 1 only in p.csv \('z'\)"):
        read_observed(predicted(ids=pd.Index([*SITES[:4], "z"], name="site")), table)
    with pytest.raises(DataError, match=r"got 'a' more than once \(column 'site' of the p.csv\)"):
        read_observed(predicted(ids=pd.Index(["a", *SITES[:4]], name="site")), table)


def test_align_predictions__row_numbers_with_a_gap__are_named():
    ids = pd.Index(["0", "1", "2", "3", "9"], name="row")
    with pytest.raises(DataError, match=r"got 1 without predictions \('4'\) and 1 only in p.csv \('9'\)"):
        align_predictions(predicted(ids=ids), None, 5)


def test_read_observed__npz_of_a_data_set__labels_by_name(tmp_path):
    np.savez(tmp_path / "d.npz", X=np.arange(5.0)[:, None], Y=TRUTH, label_names=np.array(LABELS))
    labels, _ = read_observed(predicted(PROBS[:, [2, 0]], ["owl", "wren"]), tmp_path / "d.npz")
    np.testing.assert_array_equal(labels, TRUTH[:, [2, 0]])


# Draws ----------------------------------------------------------------------------------------------------


def test_draw_independently__many__each_label_as_often_as_probable_and_alone(monkeypatch):
    probs = np.array([[0.3, 0.8]])
    monkeypatch.setattr("hotvae.jobs.evaluate._CELLS_PER_BLOCK", 1500)
    blocks = list(draw_independently(probs, 8000, seed=0))
    assert {len(block) for block in blocks} == {750, 500}
    whole = np.concatenate(blocks)[:, 0]
    np.testing.assert_allclose(whole.mean(axis=0), probs[0], atol=0.02)
    assert abs(np.corrcoef(whole.T)[0, 1]) < 0.04
    again = np.concatenate(list(draw_independently(probs, 8000, seed=0)))[:, 0]
    np.testing.assert_array_equal(again, whole)


# evaluate_table -------------------------------------------------------------------------------------------


def test_evaluate_table__file_with_draws__measures_of_both(table, tmp_path, draws):
    np.savez(tmp_path / "p.npz", probs=PROBS, draws=draws, label_names=LABELS)
    found = evaluate_table(tmp_path / "p.npz", table, ecology="gomes", pairs=30, oracle=True)
    assert found.metrics["log_loss"] == pytest.approx(log_loss(TRUTH, PROBS))
    assert found.oracle["macro_f1"] >= found.metrics["macro_f1"]
    assert (found.ecology["n_draws"], found.ecology["n_pairs"]) == (40, 30)
    assert found.thresholds_from == "0.5, as none were tuned"
    assert not found.same_name


def test_evaluate_table__model__the_same_numbers_as_its_predictions(table, tmp_path):
    frame = pd.read_csv(table)
    model = Prevalence().fit(frame[["depth"]], frame[LABELS])
    model.save(tmp_path / "m", extra={"table": "sites.csv"})
    found = evaluate_table(tmp_path / "m", table, ignore_unknown=True, per_label=tmp_path / "labels.csv")
    assert found.metrics["log_loss"] == pytest.approx(log_loss(TRUTH, model.predict_proba(frame[["depth"]])))
    assert (found.oracle, found.ecology) == (None, None)
    assert found.same_name
    assert pd.read_csv(tmp_path / "labels.csv")["label"].tolist() == LABELS


def test_evaluate_table__model_of_classes__is_refused(table, tmp_path):
    frame = pd.read_csv(table)
    Prevalence().fit(frame[["depth"]], frame["wren"]).save(tmp_path / "m")
    with pytest.raises(ConfigError, match=r"got one of classes .*Train one with a 0/1 column for each class"):
        evaluate_table(tmp_path / "m", table, ignore_unknown=True)
