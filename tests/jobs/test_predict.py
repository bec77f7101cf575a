"""Predictions for tables in files: whole or in pieces, and where an interrupted run goes on."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hotvae import HotVAENetwork
from hotvae.baselines.prevalence import Prevalence
from hotvae.baselines.probit import ProbitJSDM
from hotvae.errors import ConfigError, DataError, DataWarning
from hotvae.estimators.trust import Applicability
from hotvae.files import locked
from hotvae.jobs.predict import PredictionRun, Watch, predict_rows, predict_stream, predict_table
from hotvae.jobs.table_needs import TableNeeds


@pytest.fixture(scope="module")
def frame():
    random = np.random.default_rng(0)
    soil = random.choice(["sand", "clay"], 70)
    table = pd.DataFrame({"site": [f"s{i}" for i in range(70)], "depth": random.normal(size=70), "soil": soil})
    return table.assign(wren=(table.depth > 0).astype(float), robin=(table.soil == "clay").astype(float))


@pytest.fixture(scope="module")
def model(frame):
    model = HotVAENetwork.from_settings(max_epochs=2, encoder_widths=(8,), dim=8, random_state=0)
    model.fit(frame[["depth", "soil"]], frame[["wren", "robin"]])
    model.extra_ = {}
    return model


@pytest.fixture
def table(frame, tmp_path):
    path = tmp_path / "new.parquet"
    # Row groups that have nothing to do with the pieces.
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path, row_group_size=13)
    return path


def in_memory(model, table, **options):
    features, ids = TableNeeds.of_model(model).read_features(table, **options)
    return predict_rows(model, features), ids


@pytest.mark.parametrize("rows_at_once", [1, 7, 70, 1000])
def test_predict_stream__any_piece__same_bits_as_in_memory(model, table, tmp_path, rows_at_once):
    out = tmp_path / "probs.parquet"
    options = {"id_column": "site", "ignore_unknown": True}
    assert predict_stream(model, table, out, rows_at_once=rows_at_once, **options) == 70
    probs, ids = in_memory(model, table, **options)
    found = pd.read_parquet(out)
    assert found.columns.tolist() == ["site", "wren", "robin"]
    assert found["site"].tolist() == ids.tolist()
    assert np.array_equal(found[["wren", "robin"]].to_numpy(), probs)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_predict_stream__no_ids__rows_are_numbered_through(model, frame, tmp_path):
    frame.drop(columns="site").to_parquet(tmp_path / "new.parquet")
    predict_stream(model, tmp_path / "new.parquet", tmp_path / "out.parquet", rows_at_once=32)
    assert pd.read_parquet(tmp_path / "out.parquet")["row"].tolist() == list(range(70))


def test_predict_stream__threshold__labels_beside_probabilities(model, table, tmp_path):
    out, labels = tmp_path / "p.parquet", tmp_path / "b.parquet"
    predict_stream(model, table, out, ignore_unknown=True, threshold=0.5, binary_out=labels, rows_at_once=16)
    probs, cut = pd.read_parquet(out), pd.read_parquet(labels)
    assert (cut[["wren", "robin"]].to_numpy() == (probs[["wren", "robin"]].to_numpy() > 0.5)).all()
    assert cut.dtypes.astype(str).tolist()[1:] == ["int8", "int8"]


class Killed(BaseException):
    pass


def killed_after(n_pieces, monkeypatch):
    calls = []

    def predict(model, features):
        if len(calls) == n_pieces:
            raise Killed
        calls.append(len(features))
        return predict_rows(model, features)

    monkeypatch.setattr("hotvae.jobs.predict.predict_rows", predict)
    return calls


def test_predict_stream__killed__goes_on_where_it_ended(model, table, tmp_path, monkeypatch):
    out = tmp_path / "p.parquet"
    killed_after(2, monkeypatch)
    with pytest.raises(Killed):
        predict_stream(model, table, out, ignore_unknown=True, rows_at_once=20)
    assert not out.exists()
    calls = killed_after(99, monkeypatch)
    predict_stream(model, table, out, ignore_unknown=True, rows_at_once=20)
    assert calls == [20, 10]
    monkeypatch.undo()
    probs, _ = in_memory(model, table, ignore_unknown=True)
    assert np.array_equal(pd.read_parquet(out)[["wren", "robin"]].to_numpy(), probs)


def test_predict_stream__pieces_of_another_model__done_again(model, frame, table, tmp_path, monkeypatch):
    out = tmp_path / "p.parquet"
    killed_after(2, monkeypatch)
    with pytest.raises(Killed):
        predict_stream(model, table, out, ignore_unknown=True, rows_at_once=20)
    other = HotVAENetwork.from_settings(max_epochs=1, encoder_widths=(8,), dim=8, random_state=1)
    other.fit(frame[["depth", "soil"]], frame[["wren", "robin"]])
    calls = killed_after(99, monkeypatch)
    predict_stream(other, table, out, ignore_unknown=True, rows_at_once=20)
    assert calls == [20, 20, 20, 10]


def test_predict_stream__progress__first_and_after_every_piece(model, table, tmp_path):
    seen = []
    predict_stream(
        model,
        table,
        tmp_path / "p.parquet",
        ignore_unknown=True,
        rows_at_once=30,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(0, 70), (30, 70), (60, 70), (70, 70)]


def test_predict_stream__bad_tables__clear_errors_and_no_file(model, frame, tmp_path):
    out = tmp_path / "p.parquet"
    (tmp_path / "text.parquet").write_text("no parquet")
    with pytest.raises(DataError, match="table must be readable; got"):
        predict_stream(model, tmp_path / "text.parquet", out)
    frame.iloc[:0].to_parquet(tmp_path / "empty.parquet")
    with pytest.raises(DataError, match="table must have at least 1 row; got 0 rows"):
        predict_stream(model, tmp_path / "empty.parquet", out)
    frame.to_parquet(tmp_path / "new.parquet")
    with pytest.raises(DataError, match="id column must be in the table; got 'plot'"):
        predict_stream(model, tmp_path / "new.parquet", out, id_column="plot", ignore_unknown=True)
    with pytest.raises(DataError, match="'site'"):
        predict_stream(model, tmp_path / "new.parquet", out)
    assert not out.exists()


# predict_table --------------------------------------------------------------------------------------------


@pytest.fixture
def folder(model, tmp_path):
    model.save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize(("kind", "binary"), [("csv.gz", "p_binary.csv.gz"), ("parquet", "p_binary.parquet")])
def test_predict_table__any_kind_of_file__what_it_wrote_and_how(model, folder, frame, table, tmp_path, kind, binary):
    out = tmp_path / f"p.{kind}"
    run = predict_table(folder, table, out, id_column="site", ignore_unknown=True, threshold=0.4)
    assert run == PredictionRun((out, tmp_path / binary), 70, 2, "site", 0.4)
    probs, cut = (pd.read_parquet(path) if kind == "parquet" else pd.read_csv(path) for path in run.files)
    assert list(probs) == ["site", "wren", "robin"]
    expected = model.predict_proba(frame[["depth", "soil"]])
    np.testing.assert_allclose(probs[["wren", "robin"]], expected, atol=1e-6)
    np.testing.assert_array_equal(cut[["wren", "robin"]], probs[["wren", "robin"]] >= 0.4)


def test_predict_table__labels_given__are_counted(frame, table, tmp_path):
    probit = ProbitJSDM.from_settings(max_epochs=2, random_state=0)
    probit.fit(frame[["depth", "soil"]], frame[["wren", "robin"]]).save(tmp_path / "probit")
    (tmp_path / "given.csv").write_text("site,robin,wren\ns3,1,\ns1,0,1\ns7,,\n")
    options = {"id_column": "site", "ignore_unknown": True, "given": tmp_path / "given.csv"}
    run = predict_table(tmp_path / "probit", table, tmp_path / "p.csv", **options)
    assert (run.n_given, run.n_rows_given) == (3, 2)
    assert pd.read_csv(tmp_path / "p.csv")["robin"][[3, 1]].tolist() == [1, 0]


def test_predict_table__threads_of_a_model_that_has_none__are_no_mistake(frame, table, tmp_path):
    Prevalence().fit(frame[["depth", "soil"]], frame[["wren", "robin"]]).save(tmp_path / "m")
    run = predict_table(tmp_path / "m", table, tmp_path / "p.csv", ignore_unknown=True, threads=2)
    assert (run.n_rows, run.id_column) == (70, "row")


def test_predict_table__file_that_is_there__kept_unless_forced(folder, table, tmp_path):
    out, options = tmp_path / "p.csv", {"ignore_unknown": True}
    (tmp_path / "p_binary.csv").write_text("precious\n")
    with pytest.raises(ConfigError, match=r"p_binary.csv', which exists. Pass --force to replace it."):
        predict_table(folder, table, out, threshold=0.5, **options)
    assert not out.exists()
    assert predict_table(folder, table, out, threshold=0.5, force=True, **options).n_rows == 70


def test_predict_stream__another_run_into_the_same_file__refused_and_the_first_is_whole(
    model, frame, table, tmp_path, monkeypatch
):
    out, other = tmp_path / "p.parquet", tmp_path / "other.parquet"
    frame.assign(depth=-frame.depth).to_parquet(other)
    probs, _ = in_memory(model, table, ignore_unknown=True)
    refused = []

    def second_run_beside(done, total):
        if 0 < done < total:
            with pytest.raises(ConfigError, match=r"one run at a time; got .*another run is writing") as error:
                predict_stream(model, other, out, ignore_unknown=True, rows_at_once=20)
            refused.append(error)

    predict_stream(model, table, out, ignore_unknown=True, rows_at_once=20, progress=second_run_beside)
    assert len(refused) == 3
    assert np.array_equal(pd.read_parquet(out)[["wren", "robin"]].to_numpy(), probs)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_predict_table__another_run_into_the_same_file__refused(model, frame, tmp_path):
    model.save(tmp_path / "model")
    frame[["depth", "soil"]].to_csv(tmp_path / "new.csv", index=False)
    with locked(tmp_path / "p.csv"), pytest.raises(ConfigError, match="one run at a time"):
        predict_table(tmp_path / "model", tmp_path / "new.csv", tmp_path / "p.csv")
    assert predict_table(tmp_path / "model", tmp_path / "new.csv", tmp_path / "p.csv").n_rows == 70


def test_watch__one_row_far_beyond_training__is_named_with_its_column():
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(60, 2)), columns=["depth", "slope"])
    area = Applicability.learn(table, random.uniform(size=(60, 2)), np.arange(60) % 3, seed=0, names=list(table))
    model = SimpleNamespace(
        trust_=SimpleNamespace(area=area, sets=None), target_="labels", _read=lambda rows: rows, feature_names_in_=None
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        watch = Watch(model, False)
        watch.look(table, None)
        watch.warn()  # nothing to say
    new = table.copy()
    new.loc[7, "slope"] = -9999
    watch.look(new, None)
    with pytest.warns(DataWarning, match=r"got 1 of 120 rows \(the first: row 67\) .* far beyond them in 'slope'\."):
        watch.warn()


class NoNumbers(Prevalence):
    def predict_proba(self, X, given=None):
        probs = super().predict_proba(X)
        probs[np.abs(X["depth"].to_numpy()) > 1e20] = np.nan
        return probs


def test_predict_rows__no_probability__names_the_row_and_the_value(frame):
    features = frame[["depth", "soil"]].copy()
    model = NoNumbers().fit(features, frame[["wren", "robin"]])
    features.loc[[3, 5], "depth"] = [1e30, -1e30]
    with pytest.raises(DataError, match=r"no probability for row\(s\) 3, 5, whose largest values are 'depth' = 1e\+30"):
        predict_rows(model, features)
