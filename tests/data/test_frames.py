"""Files of tables: every format in, every bad file refused with a remedy, and predictions out."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from hotvae.data.frames import checked_csr, read_frame, read_npz, write_table
from hotvae.data.tables import read_table
from hotvae.errors import ConfigError, DataError

SITES = "site,depth,wren\nA,1.5,1\nB,,0\n"


# --- read_frame: formats ---------------------------------------------------------------------------------


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_read_frame__csv_of_any_delimiter_and_line_end__same_frame(write, delimiter, ending):
    path = write("a,b,c\n1,x,0.1\n2,,0.2\n".replace(",", delimiter).replace("\n", ending))
    expected = pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": [0.1, 0.2]})
    pd.testing.assert_frame_equal(read_frame(path), expected, check_dtype=False)


def test_read_frame__semicolons_with_commas_inside__delimiter_from_whole_lines(write):
    path = write('"merula, L.";b;c,d\n1;2;3\n4;5;6\n')
    assert read_frame(path).columns.tolist() == ["merula, L.", "b", "c,d"]


def test_read_frame__decimal_commas__read_on_request(write):
    path = write("a;b\n1,5;2\n2,5;3\n")
    assert read_frame(path, decimal=",")["a"].tolist() == [1.5, 2.5]


def test_read_frame__gzip_and_tsv_and_byte_order_mark__read(write):
    assert read_frame(write(gzip.compress(b"a,b\n1,2\n"), "s.csv.gz")).columns.tolist() == ["a", "b"]
    assert read_frame(write("a,x\tb\n1\t2\n", "s.tsv")).columns.tolist() == ["a,x", "b"]
    assert read_frame(write("\ufeffa,b\n1,2\n", "t.csv")).columns.tolist() == ["a", "b"]


def test_read_frame__quoted_delimiters_and_line_breaks__kept_in_the_cell(write):
    assert read_frame(write('a,b\n"x,\ny",2\n'))["a"].tolist() == ["x,\ny"]


def test_read_frame__blank_lines_and_true_false__read(write):
    frame = read_frame(write("a,b\n1,True\n\n2,\n"))
    assert frame["a"].tolist() == [1, 2]
    assert frame["b"].iloc[0] is True


def test_read_frame__latin1_on_request__read(write):
    path = write("höhe,b\n1,2\n".encode("latin-1"))
    assert read_frame(path, encoding="latin-1").columns.tolist() == ["höhe", "b"]


def test_read_frame__parquet_with_named_index__index_becomes_a_column(tmp_path):
    frame = pd.DataFrame({"a": [1.5, 2.5]}, index=pd.Index(["x", "y"], name="site"))
    frame.to_parquet(tmp_path / "s.parquet")
    assert read_frame(tmp_path / "s.parquet").columns.tolist() == ["site", "a"]
    frame.reset_index(drop=True).iloc[[1]].to_parquet(tmp_path / "t.parquet")
    assert read_frame(tmp_path / "t.parquet").to_dict("list") == {"a": [2.5]}


def test_read_frame__dense_npz__features_then_labels(tmp_path):
    np.savez(tmp_path / "s.npz", X=[[1.0], [2.0]], Y=[[0], [1]], species_names=["wren"])
    assert read_frame(tmp_path / "s.npz").to_dict("list") == {"feature_0": [1.0, 2.0], "wren": [0, 1]}
    np.savez(tmp_path / "t.npz", X=[[1.0], [2.0]], feature_names=["depth"])
    assert read_frame(tmp_path / "t.npz").to_dict("list") == {"depth": [1.0, 2.0]}


# --- read_frame: ARFF ------------------------------------------------------------------------------------

ARFF = """% a comment
@RELATION 'some birds'
@attribute 'tree height' numeric
@ATTRIBUTE soil {clay, 'fine sand', "it's"}
@attribute wren {0,1}
@attribute owl {TRUE,FALSE}
@attribute note string
@data
1.5, 'fine sand', 0, TRUE, 'a, b'
% another
?, "it's", 1, FALSE, ?
-2e1,clay,?,FALSE,'it\\'s'
"""


def test_read_arff__dense__numbers_levels_quotes_and_gaps(write):
    frame = read_frame(write(ARFF, "birds.arff"))
    assert frame.columns.tolist() == ["tree height", "soil", "wren", "owl", "note"]
    np.testing.assert_array_equal(frame["tree height"], [1.5, np.nan, -20])
    assert frame["soil"].tolist() == ["fine sand", "it's", "clay"]
    assert frame["soil"].cat.categories.tolist() == ["clay", "fine sand", "it's"]
    np.testing.assert_array_equal(frame["wren"], [0, 1, np.nan])
    np.testing.assert_array_equal(frame["owl"], [1, 0, 0])
    assert frame["note"].iloc[[0, 2]].tolist() == ["a, b", "it's"]
    assert frame["note"].isna().tolist() == [False, True, False]


def test_read_arff__sparse_numbers__features_stay_sparse(write):
    path = write(
        "@relation r\n@attribute w1 numeric\n@attribute w2 {0,1}\n@attribute tag {0,1}\n@data\n"
        "{0 2.5, 2 1}\n{}\n{1 1}\n",
        "words.arff",
    )
    data = read_table(path, labels="tag")
    assert isinstance(data.features, sparse.csr_array)
    np.testing.assert_array_equal(data.features.toarray(), [[2.5, 0], [0, 0], [0, 1]])
    assert data.labels.tolist() == [[1], [0], [0]]


def test_read_arff__sparse_numbers_with_gaps__dense_with_nan(write):
    path = write("@relation r\n@attribute a real\n@attribute b real\n@data\n{1 ?}\n{0 3}\n", "r.arff")
    np.testing.assert_array_equal(read_frame(path), [[0, np.nan], [3, 0]])


def test_read_arff__sparse_with_levels_and_gaps__omitted_is_zero_or_the_first_level(write):
    path = write(
        "@relation r\n@attribute a real\n@attribute b {x,y}\n@attribute c {1,0}\n@data\n{1 y}\n{0 ?, 2 0}\n",
        "r.arff",
    )
    frame = read_frame(path)
    np.testing.assert_array_equal(frame["a"], [0, np.nan])
    assert frame["b"].tolist() == ["y", "x"]
    assert frame["c"].tolist() == [1, 0]


HEAD = "@relation r\n@attribute a numeric\n@attribute b {x,y}\n@data\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "1,x\nhigh,y\n", r"column 'a' must hold numbers; got 'high' \(line 6 of"),
        (HEAD + "1,z\n", r"column 'b' must hold one of 'x', 'y'; got 'z' \(line 5 of"),
        (HEAD + "1,x,3\n", r"rows must have 2 fields; got 3 \(line 5"),
        (HEAD + "{2 x}\n", r"columns 0 to 1; got '2 x' \(line 5"),
        (HEAD + "{0 1}, {2.0}\n", r"one pair of braces, without weight; .* \(line 5"),
        (
            "@relation r\n@attribute a relational\n@data\n1\n",
            r"attribute 'a' must be numeric, .* got 'relational' \(line 2",
        ),
        ("@relation r\n@attribute\n@data\n", r"must read '@attribute name type'; .* \(line 2"),
        (
            "@relation r\nnonsense\n",
            r"header must hold @relation, @attribute and @data; got 'nonsense' \(line 2",
        ),
        ("@relation r\n@attribute a numeric\n", "ARFF must have @attribute and @data lines"),
        (
            "@relation r\n@attribute a real\n@attribute a real\n@data\n1,2\n",
            "column names must be unique; got duplicate 'a'",
        ),
        (HEAD, "got 0 rows"),
    ],
)
def test_read_arff__bad_line__named(write, text, message):
    with pytest.raises(DataError, match=message):
        read_frame(write(text, "bad.arff"))


# --- read_frame: bad files -------------------------------------------------------------------------------


def test_read_frame__no_such_file__suggests_a_close_one(write):
    path = write(SITES)
    with pytest.raises(DataError, match=r"existing file; got .*site\.csv' \(not found\) \(close: 'sites.csv'\)"):
        read_frame(path.with_name("site.csv"))


def test_read_frame__folder_or_unknown_suffix__refused(write, tmp_path):
    with pytest.raises(DataError, match="table must be a file; got the folder"):
        read_frame(tmp_path)
    with pytest.raises(DataError, match=r"table must be one of .csv, .*; got 'sites.ods'. Save it as one of these"):
        read_frame(write("a", "sites.ods"))
    with pytest.raises(DataError, match="got 'sites'"):
        read_frame(write("a", "sites"))


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_read_frame__empty_file__refused(write, content):
    with pytest.raises(DataError, match="got an empty file"):
        read_frame(write(content))


def test_read_frame__header_alone__is_an_empty_table(write):
    with pytest.raises(DataError, match=r"got 0 rows in .*empty table"):
        read_frame(write("a,b\n"))


@pytest.mark.parametrize("name", ["s.parquet", "s.npz", "s.csv.gz"])
@pytest.mark.parametrize("keep", [0.5, 0.98])
def test_read_frame__truncated_file__refused(tmp_path, name, keep):
    path = tmp_path / name
    values = np.random.default_rng(0).normal(size=(200, 3))
    if name.endswith(".npz"):
        np.savez_compressed(path, X=values, Y=values > 0)
    else:
        write_table(pd.DataFrame(values, columns=list("abc")), path)
    raw = path.read_bytes()
    path.write_bytes(raw[: int(len(raw) * keep)])
    with pytest.raises(DataError, match=r"table must be readable; got .*truncated or corrupt: .*anew"):
        read_frame(path)


@pytest.mark.parametrize("name", ["s.parquet", "s.npz", "s.csv.gz"])
def test_read_frame__foreign_bytes__refused(write, name):
    with pytest.raises(DataError, match="truncated or corrupt"):
        read_frame(write(b"this is something else altogether", name))


def test_read_frame__single_array_named_npz__refused(tmp_path):
    with (tmp_path / "s.npz").open("wb") as file:
        np.save(file, np.eye(2))
    with pytest.raises(DataError, match="truncated or corrupt"):
        read_frame(tmp_path / "s.npz")


def test_read_frame__npz_with_pickled_objects__refused(tmp_path):
    np.savez(tmp_path / "s.npz", X=np.array([{}], dtype=object))
    with pytest.raises(DataError, match="allow_pickle=False"):
        read_frame(tmp_path / "s.npz")


def test_read_frame__not_utf8__names_byte_line_and_remedy(write):
    path = write("site,wren\nK\xfcste,1\n".encode("latin-1"))
    with pytest.raises(
        DataError,
        match=r"must be utf-8; got byte 0xfc \(byte 11, line 2 of .*Save the file as UTF-8, or .*latin-1",
    ):
        read_frame(path)


def test_read_frame__unknown_encoding_or_binary__refused(write):
    with pytest.raises(ConfigError, match="encoding must be a known one that fits the file; got 'klingon'"):
        read_frame(write(SITES), encoding="klingon")
    with pytest.raises(DataError, match="got a binary file"):
        read_frame(write("a,b\n1,2\n".encode("utf-16-le")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n1,2,3\n", r"got 3 instead of 2 \(line 3 of"),
        ("a,b,c\n1,2,3\n\n1,2\n", r"got 2 instead of 3 \(line 4 of"),
        ('a,b\n"x, y",2\n1\n', r"got 1 instead of 2 \(line 3 of"),
        ("# a remark\na,b\n1,2\n", r"got 2 instead of 1 \(line 2 of"),
        ('a,b\n"x,2\n1,2\n', r"quotes must be closed; got .* \(line 2 of"),
    ],
)
def test_read_frame__ragged_rows_or_open_quotes__line_named(write, text, message):
    with pytest.raises(DataError, match=message):
        read_frame(write(text))


def test_read_frame__row_names_without_header__not_taken_as_index(write):
    with pytest.raises(DataError, match=r"got 3 instead of 2 \(line 2"):
        read_frame(write("a,b\nx,1,2\ny,3,4\n"))


def test_read_frame__duplicate_columns__refused_in_every_format(write, tmp_path):
    for delimiter in ",;":
        with pytest.raises(DataError, match="column names must be unique; got duplicate 'a'"):
            read_frame(write("a,b,a\n1,2,3\n".replace(",", delimiter)))
    np.savez(tmp_path / "s.npz", X=[[1.0]], Y=[[1]], feature_names=["a"], label_names=["a"])
    with pytest.raises(DataError, match="got duplicate 'a'"):
        read_frame(tmp_path / "s.npz")


# --- write_table -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.csv.gz", "p.parquet"])
def test_write_table__read_back__same_bits_and_nothing_else_in_the_folder(tmp_path, name):
    frame = pd.DataFrame({"a": np.random.default_rng(0).random(50), "b": ["x", "y"] * 25})
    write_table(frame, tmp_path / name)
    pd.testing.assert_frame_equal(read_frame(tmp_path / name), frame, check_exact=True)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_write_table__failure__leaves_the_old_file_and_no_part(tmp_path, monkeypatch):
    path = tmp_path / "p.csv"
    write_table(pd.DataFrame({"a": [1]}), path)

    def fail(self, target, **options):
        Path(target).write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", fail)
    with pytest.raises(ConfigError, match=r"one can write to; got .*No space left on device"):
        write_table(pd.DataFrame({"a": [2]}), path)
    assert path.read_text() == "a\n1\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["p.csv"]


def test_write_table__unknown_suffix_or_no_folder__refused(tmp_path):
    with pytest.raises(DataError, match=r"path must end in .csv, .*; got 'p.xlsx'"):
        write_table(pd.DataFrame({"a": [1]}), tmp_path / "p.xlsx")
    for name in ("none/p.csv", "none/p.parquet"):
        with pytest.raises(ConfigError, match="path must be a place one can write to"):
            write_table(pd.DataFrame({"a": [1]}), tmp_path / name)


@pytest.mark.parametrize("end", ["", "\n"])
def test_read_frame__one_column__empty_lines_are_rows(tmp_path, end):
    (tmp_path / "given.csv").write_text("wren\n1\n\n0\n\n1" + end)
    found = read_frame(tmp_path / "given.csv")["wren"]
    np.testing.assert_array_equal(found, [1, np.nan, 0, np.nan, 1])


def test_read_frame__several_columns__empty_lines_are_none(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n\n3,4\n\n")
    assert read_frame(tmp_path / "t.csv").to_numpy().tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("array", [np.array([["2020-01-01"]], dtype="M8[D]"), np.zeros((1, 1), dtype=[("a", "f8")])])
def test_read_npz__features_of_no_numbers__are_refused(tmp_path, array):
    np.savez(tmp_path / "t.npz", X=array)
    with pytest.raises(DataError, match="X must hold numbers; got "):
        read_npz(tmp_path / "t.npz")


@pytest.mark.parametrize("shape", [(), (2, 2, 2)])
def test_label_frame__not_two_dimensions__is_refused(tmp_path, shape):
    np.savez(tmp_path / "t.npz", X=np.zeros((2, 1)), Y=np.zeros(shape))
    with pytest.raises(DataError, match=rf"Y must have 2 dimensions; got {len(shape)} "):
        read_npz(tmp_path / "t.npz").label_frame()


@pytest.mark.parametrize("frame", [{"site": ["a", "b\0"]}, {"sp\0": [0.5, 0.25]}], ids=["id", "name"])
def test_write_table__nul_in_a_text_file__is_refused_and_nothing_is_left(tmp_path, frame):
    """A CSV with it is taken for a binary file by whoever reads it, this package included."""
    with pytest.raises(DataError, match=r"without the character NUL .* got '(b|sp)\\x00' \(column .*p\.csv\)"):
        write_table(pd.DataFrame(frame), tmp_path / "p.csv")
    assert list(tmp_path.iterdir()) == []
    write_table(pd.DataFrame(frame), tmp_path / "p.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "p.parquet"), pd.DataFrame(frame))


def test_write_table__what_parquet_cannot_hold__is_said_and_nothing_is_left(tmp_path):
    frame = pd.DataFrame({"site": [1, 10**30]}, dtype=object)
    with pytest.raises(DataError, match=r"no number beyond 2⁶³; got .* \(p\.parquet\)\. Mend the column"):
        write_table(frame, tmp_path / "p.parquet")
    assert list(tmp_path.iterdir()) == []


def test_checked_csr__small_floats_in_another_order_of_bytes__are_read_as_they_are():
    table = checked_csr(np.array([0.5, 2.0], dtype=">f2"), np.array([1, 0]), np.array([0, 1, 2]), (2, 2))
    assert table.dtype == np.float32
    np.testing.assert_array_equal(table[:, [1, 0]].toarray(), [[0.5, 0.0], [0.0, 2.0]])
