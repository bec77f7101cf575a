import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hotvae import HotVAEClassifier
from hotvae.baselines.prevalence import Prevalence
from hotvae.cli import main
from hotvae.data.frames import write_table
from hotvae.errors import DataError
from hotvae.jobs.predict import TableNeeds, predict_rows, predict_stream


@pytest.fixture(scope="module")
def frame():
    random = np.random.default_rng(0)
    soil = random.choice(["sand", "clay"], 70)
    table = pd.DataFrame({"site": [f"s{i}" for i in range(70)], "depth": random.normal(size=70), "soil": soil})
    return table.assign(wren=(table.depth > 0).astype(float), robin=(table.soil == "clay").astype(float))


@pytest.fixture(scope="module")
def model(frame):
    model = HotVAEClassifier(max_epochs=2, encoder_widths=(8,), dim=8, random_state=0)
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
    other = HotVAEClassifier(max_epochs=1, encoder_widths=(8,), dim=8, random_state=1)
    other.fit(frame[["depth", "soil"]], frame[["wren", "robin"]])
    calls = killed_after(99, monkeypatch)
    predict_stream(other, table, out, ignore_unknown=True, rows_at_once=20)
    assert calls == [20, 20, 20, 10]


def test_predict_stream__told_of_every_piece(model, table, tmp_path):
    told = []
    predict_stream(
        model,
        table,
        tmp_path / "p.parquet",
        ignore_unknown=True,
        rows_at_once=30,
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(30, 70), (60, 70), (70, 70)]


def test_predict_stream__bad_tables__clear_errors_and_no_file(model, frame, tmp_path):
    out = tmp_path / "p.parquet"
    (tmp_path / "text.parquet").write_text("no parquet")
    with pytest.raises(DataError, match="table must be a readable Parquet file"):
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


def test_predict_command__parquet_to_parquet__streams(model, table, tmp_path, capsys):
    model.save(tmp_path / "m")
    arguments = ["predict", str(tmp_path / "m"), str(table), "--out", str(tmp_path / "p.parquet")]
    assert main([*arguments, "--id-column", "site", "--ignore-unknown", "--threshold", "0.5"]) == 0
    printed = capsys.readouterr().out
    assert "wrote 70 rows × 2 labels" in printed
    assert "wrote 0/1 labels at threshold 0.5" in printed
    assert len(pd.read_parquet(tmp_path / "p_binary.parquet")) == 70


def test_predict_command__threads__those_asked_for(model, table, tmp_path, monkeypatch):
    model.save(tmp_path / "m")
    seen = []
    probs = type(model)._probs
    monkeypatch.setattr(type(model), "_probs", lambda self, rows: (seen.append(self.n_threads), probs(self, rows))[1])
    arguments = ["predict", str(tmp_path / "m"), str(table), "--id-column", "site", "--ignore-unknown"]
    assert main([*arguments, "--out", str(tmp_path / "p.parquet")]) == 0
    assert main([*arguments, "--out", str(tmp_path / "q.parquet"), "--threads", "2"]) == 0
    assert seen == [model.n_threads, 2]


# Known labels ---------------------------------------------------------------------------------------------

NAN = np.nan
SITES = pd.Index(["a", "b", "c"], name="site")
NUMBERS = pd.RangeIndex(3, name="row")


@pytest.fixture
def needs():
    return TableNeeds(["depth"], ["numeric"], ["wren", "robin", "owl"], ignored=frozenset(["lon"]))


def seen(tmp_path, text):
    path = tmp_path / "seen.csv"
    path.write_text(text)
    return path


def test_read_known__id_column__joined_by_it_and_the_rest_unknown(needs, tmp_path):
    known = needs.read_known(seen(tmp_path, "owl,site,wren\n1,c,\n,a,0\n"), SITES)
    np.testing.assert_array_equal(known, [[0, NAN, NAN], [NAN, NAN, NAN], [NAN, NAN, 1]])


def test_read_known__numbers_as_ids__are_text_in_both(needs, tmp_path):
    known = needs.read_known(seen(tmp_path, "site,wren\n07,1\n7,0\n"), pd.Index(["7", "07", "8"], name="site"))
    np.testing.assert_array_equal(known[:, 0], [0, 1, NAN])


def test_read_known__no_ids__row_by_row_or_by_the_number_that_predict_writes(needs, tmp_path):
    by_order = needs.read_known(seen(tmp_path, 'robin\n1\n0\n""\n'), NUMBERS)
    np.testing.assert_array_equal(by_order[:, 1], [1, 0, NAN])
    by_number = needs.read_known(seen(tmp_path, "row,robin\n2,1\n"), NUMBERS)
    np.testing.assert_array_equal(by_number[:, 1], [NAN, NAN, 1])


def test_read_known__whole_training_table__features_and_coordinates_are_passed_over(needs, tmp_path):
    known = needs.read_known(seen(tmp_path, "depth,lon,wren,owl\n5,6,1,\n5,7,,\n4,8,0,\n"), NUMBERS)
    np.testing.assert_array_equal(known, [[1, NAN, NAN], [NAN, NAN, NAN], [0, NAN, NAN]])


def test_read_known__counts__are_presences_where_they_were_in_training(needs, tmp_path):
    path = seen(tmp_path, 'wren\n7\n0\n""\n')
    with pytest.raises(DataError, match=r"labels must be 0 or 1; got 7.0 in column 'wren' \(rows 0\)"):
        needs.read_known(path, NUMBERS)
    known = needs.read_known(path, NUMBERS, presence=True)
    np.testing.assert_array_equal(known[:, 0], [1, 0, NAN])


def test_read_known__nothing_in_any_cell__nothing_known(needs, tmp_path):
    assert np.isnan(needs.read_known(seen(tmp_path, "site,wren\na,\n"), SITES)).all()


@pytest.mark.parametrize(
    ("text", "ids", "message"),
    [
        ("wrne\n1\n1\n1\n", NUMBERS, r"got unknown column\(s\) 'wrne' \(close: 'wren'\) \(seen.csv\)"),
        ("site,wren\na,1\n", NUMBERS, r"got unknown column\(s\) 'site' .*ids are joined by --id-column"),
        ("site,depth\na,1\n", SITES, "got none of them among 'site', 'depth'"),
        ("wren\n1\n", NUMBERS, r"must have the rows of the table, 3; got 1 \(seen.csv\). Add the missing rows"),
        ("site,wren\na,1\na,0\n", SITES, r"got 'a' more than once \(column 'site' of the seen.csv\)"),
        ("site,wren\nz,1\n", SITES, r"ids of known labels must be in the table; got 'z' \(column 'site' of seen.csv\)"),
        ("wren\nyes\n0\n1\n", NUMBERS, "labels must be 0 or 1; got text 'yes' in column 'wren'"),
    ],
)
def test_read_known__tables_that_do_not_fit__are_named(needs, tmp_path, text, ids, message):
    with pytest.raises(DataError, match=message):
        needs.read_known(seen(tmp_path, text), ids)


def test_read_known__ids_twice_in_the_table__cannot_be_joined(needs, tmp_path):
    path = seen(tmp_path, "site,wren\na,1\n")
    with pytest.raises(DataError, match=r"ids must be unique to join tables; got 'a' more than once .*of the table"):
        needs.read_known(path, pd.Index(["a", "a"], name="site"))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_predict_command__given__is_what_python_predicts(model, frame, table, tmp_path, capsys, kind):
    model.save(tmp_path / "m")
    known = pd.DataFrame({"site": ["s3", "s1"], "robin": [1, 0]})
    write_table(known, tmp_path / f"seen.{kind}")
    out = tmp_path / f"p.{kind}"
    arguments = ["predict", str(tmp_path / "m"), str(table), "--out", str(out), "--id-column", "site"]
    assert main([*arguments, "--ignore-unknown", "--given", str(tmp_path / f"seen.{kind}")]) == 0
    assert "given 2 known labels in 2 of 70 rows" in capsys.readouterr().out
    found = pd.read_parquet(out) if kind == "parquet" else pd.read_csv(out)
    given = np.full((70, 2), NAN)
    given[3, 1], given[1, 1] = 1, 0
    expected = model.predict_proba(frame[["depth", "soil"]], given=given)
    np.testing.assert_allclose(found[["wren", "robin"]].to_numpy(), expected, atol=1e-6)
    plain = model.predict_proba(frame[["depth", "soil"]])
    assert found["robin"].iloc[[3, 1]].tolist() == [1, 0]
    assert found["wren"].iloc[3] != pytest.approx(plain[3, 0], abs=1e-7)
    np.testing.assert_allclose(found["wren"].iloc[[0, 2]], plain[[0, 2], 0], atol=1e-6)


def test_predict_command__given_to_models_that_cannot__is_refused(frame, table, tmp_path, capsys):
    features = frame[["depth", "soil"]]
    Prevalence().fit(features, frame[["wren", "robin"]]).save(tmp_path / "m")
    Prevalence().fit(features, frame["wren"].astype(int)).save(tmp_path / "c")
    pd.DataFrame({"robin": [1.0] * 70}).to_csv(tmp_path / "seen.csv", index=False)
    options = [str(table), "--ignore-unknown", "--given", str(tmp_path / "seen.csv"), "--out"]
    assert main(["predict", str(tmp_path / "m"), *options, str(tmp_path / "p.csv")]) == 2
    assert "given must go with a model that learns labels from labels; got Prevalence" in capsys.readouterr().err
    assert main(["predict", str(tmp_path / "c"), *options, str(tmp_path / "p.csv")]) == 2
    assert "--given must go with a model of labels; got one of classes" in capsys.readouterr().err
    assert not (tmp_path / "p.csv").exists()
