"""What attacks have found, one by one: each was once a wrong answer, a traceback or a loss."""

import gzip
import io
import json
import os
import resource
import struct
import sys
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hotvae.cli import main
from tests.hostile.cases import LABELS, QUICK, READ


@pytest.fixture
def refused(shop, capsys, tmp_path, monkeypatch):
    """Return a function that expects one line of error, and gives it."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        assert main([str(argument) for argument in arguments]) == 2
        (line,) = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("warning: ")]
        assert line.startswith("error: ")
        return line

    return run


@pytest.fixture
def table(shop, tmp_path):
    """Return a function that writes the sites with some cells changed."""

    def write(name="t.csv", **columns):
        frame = pd.read_csv(shop.good / "sites.csv").astype(dict.fromkeys(columns, object))
        for column, value in columns.items():
            frame.loc[3, column] = value
        frame.to_csv(tmp_path / name, index=False)
        return tmp_path / name

    return write


def array_bytes(array=None, *, descr="<f8", shape="(40, 2)"):
    """Return an array as a file, or a header that says what is not there."""
    if array is not None:
        made = io.BytesIO()
        np.save(made, array, allow_pickle=False)
        return made.getvalue()
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (63 - (len(header) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header


def write_npz(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


LABEL_ARRAY = array_bytes(np.tile([[0, 1], [1, 0]], (20, 1)))


# --- silently wrong ---------------------------------------------------------------------------------------


def test_predict__cell_beyond_reach__is_no_probability_of_nan(shop, table, refused, tmp_path):
    line = refused("predict", shop.good / "network", table(depth="1e300"), "--out", tmp_path / "p.csv")
    assert "depth" in line
    assert not (tmp_path / "p.csv").exists()


def test_arff__quote_inside_a_word__belongs_to_it(tmp_path):
    from hotvae.data.frames import read_frame

    (tmp_path / "a.arff").write_text("@attribute who string\n@attribute n numeric\n@data\nO'Brien,1\n'a,b',2\n")
    assert read_frame(tmp_path / "a.arff")["who"].tolist() == ["O'Brien", "a,b"]


def test_arff__number_with_a_quote__is_refused(refused, tmp_path):
    (tmp_path / "a.arff").write_text("@attribute n numeric\n@attribute sp_0 {0,1}\n@data\n1'500,1\n2,0\n")
    assert "column 'n' must hold numbers; got \"1'500\"" in refused(
        "train", tmp_path / "a.arff", "--labels", "sp_0", *QUICK, "--out", "m"
    )


def test_arff__one_field_of_many_quotes__is_read_once(tmp_path):
    """Each quote looked at every later one: 200,000 of them would have taken hours."""
    from hotvae.data.formats.arff import _split

    assert _split("a" + "'" * 200_000 + ",2") == ["a" + "'" * 200_000, "2"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--fold", "1"), "fold must go with a named data set"),
        (("--seed", "99999999999999999999"), "'--seed'"),
        (("--set", "random_state=99999999999999999999"), "seed must be a whole number from 0 to 4294967295"),
        (("--encoding", "punycode"), "punycode"),  # the words depend on the version of Python
        (("--encoding", "undefined"), "encoding must be a known one that fits the file"),
        (("--decimal", "ab"), "decimal must be one mark; got 'ab'"),
        (("--threads", "1000000"), "n_threads must be a whole number of at most 1024"),
        (("--model", "plain", "--threads", "1000000"), "n_threads must be a whole number of at most 1024"),
    ],
)
def test_train__option_that_cannot_be__is_refused(shop, refused, tmp_path, options, words):
    assert words in refused("train", shop.good / "sites.csv", *READ, *QUICK, *options, "--out", tmp_path / "m")


def test_train__validation_equal_to_the_table__is_refused(shop, refused, table):
    same = shop.good / "sites.csv"
    assert "validation must have rows of its own" in refused("train", same, *READ, "--validation", same, "--out", "m")


def test_train__infinite_count__is_refused(refused, table):
    assert "counts must be finite" in refused("train", table(sp_0="inf"), *READ, "--presence", *QUICK, "--out", "m")


def test_predict__missing_id__is_refused(shop, refused, table):
    line = refused("predict", shop.good / "ridge", table(site=np.nan), "--out", "p.csv")
    assert "ids must be known for every row; got missing ones in column 'site' (rows 3)" in line


def test_predict__given_with_an_empty_id__is_refused(shop, refused, tmp_path):
    (tmp_path / "g.csv").write_text("site,sp_0\ns0,1\n,0\n")
    words = ("predict", shop.good / "ridge", shop.good / "sites.csv", "--given", tmp_path / "g.csv", "--out", "p.csv")
    assert "ids must be known for every row" in refused(*words)


@pytest.mark.parametrize("model", ["ridge", "hotvae"])
def test_train__numbers_stored_as_text__are_no_categories(refused, table, model):
    """One cell of text would turn each depth into a category of its own."""
    line = refused("train", table(depth="deep"), *READ, "--model", model, "--quiet", "--out", "m")
    assert "column 'depth' must hold numbers throughout; got text 'deep' (rows 3)" in line


@pytest.mark.parametrize("model", ["ridge", "hotvae"])
def test_train__few_numbers_stored_as_text__are_no_categories(shop, refused, tmp_path, model):
    frame = pd.read_csv(shop.good / "sites.csv").assign(depth=[str(i % 3) for i in range(40)])
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    line = refused("train", tmp_path / "t.parquet", *READ, "--model", model, "--quiet", "--out", "m")
    assert "column 'depth' must hold numbers throughout; got numbers stored as text" in line


def test_train__over_another_model__asks_for_force(shop, refused, tmp_path, capsys):
    words = ("train", str(shop.good / "sites.csv"), *READ, "--quiet", "--out", str(tmp_path / "m"), "--model")
    assert main([*words, "ridge"]) == 0
    assert main([*words, "ridge"]) == 0  # the same again is no accident
    before = (tmp_path / "m" / "manifest.json").read_bytes()
    capsys.readouterr()
    assert "another by its kind. Choose another folder, or pass --force" in refused(*words, "prevalence")
    assert "another by its labels" in refused(*words[:3], "sp_0,sp_1", *words[4:], "ridge")
    assert (tmp_path / "m" / "manifest.json").read_bytes() == before
    assert main([*words, "prevalence", "--force"]) == 0


# --- npz --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"X": array_bytes(np.array(3.0))}, "X must have 2 dimensions; got 0"),
        ({"Y": array_bytes(np.zeros((2, 2, 2)))}, "Y must have 2 dimensions; got 3"),
        ({"feature_names": array_bytes(np.array("a"))}, "feature_names must be 2 names"),
        ({"label_names": array_bytes(np.array("a"))}, "label_names must be 2 names"),
        ({"coord_names": array_bytes(np.array("a"))}, "coord_names must be 2 names"),
        ({"X": array_bytes(shape="(10000000000000,)")}, "table must"),
        ({"X": array_bytes(shape="(99999999999999999999999, 2)")}, "table must be readable"),
        ({"X": array_bytes(descr="<U100000000")}, "table must"),
        ({"X": b"garbage"}, "npz must hold arrays; got other bytes in 'X'"),
        ({"X": array_bytes(np.zeros((40, 2), dtype="<M8[s]"))}, "X must hold numbers; got datetime64[s]"),
        ({"X": array_bytes(np.zeros((40, 2), dtype="U9"))}, "X must hold numbers; got <U9"),
        ({"X": array_bytes(np.zeros(40, dtype=[("a", "f8")]))}, "X must hold numbers"),
    ],
)
def test_train__npz_that_is_none__is_refused(refused, tmp_path, members, words):
    path = write_npz(tmp_path / "a.npz", **{"X": array_bytes(np.eye(40)[:, :2]), "Y": LABEL_ARRAY} | members)
    assert words in refused("train", path, *QUICK, "--out", "m")


def test_train__npz_with_a_password__is_refused(refused, tmp_path):
    content = bytearray(write_npz(tmp_path / "a.npz", X=array_bytes(np.eye(40)[:, :2]), Y=LABEL_ARRAY).read_bytes())
    content[content.find(b"PK\x03\x04") + 6] |= 1
    content[content.find(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "a.npz").write_bytes(content)
    assert "is encrypted" in refused("train", tmp_path / "a.npz", *QUICK, "--out", "m")


@pytest.mark.parametrize("n_columns", [10**7, 10**13])
def test_train__sparse_table_that_declares_millions_of_columns__is_refused(refused, tmp_path, n_columns):
    parts = {"X_data": np.ones(40), "X_indices": np.zeros(40, int), "X_indptr": np.arange(41)}
    arrays = {name: array_bytes(part) for name, part in parts.items()}
    path = write_npz(tmp_path / "a.npz", X_shape=array_bytes(np.array([40, n_columns])), Y=LABEL_ARRAY, **arrays)
    assert "X must have at most 2,000,000 columns" in refused("train", path, *QUICK, "--out", "m")


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as Linux does it")
@pytest.mark.parametrize("name", ["bomb.npz", "bomb.csv.gz"])
def test_train__archive_that_unpacks_to_gigabytes__is_refused_under_a_limit(tmp_path, name):
    """In a child process, which may not hold 400 MB more than it does."""
    if name.endswith(".npz"):
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
            with archive.open("X.npy", "w", force_zip64=True) as member:
                member.write(array_bytes(shape="(100000, 1250)"))
                for _ in range(125):
                    member.write(b"\0" * 8_000_000)
            archive.writestr("Y.npy", LABEL_ARRAY)
    else:
        with gzip.open(tmp_path / name, "wb", compresslevel=1) as file:
            file.write(b"a,sp_0\n")
            for _ in range(100):
                file.write(b"1,0\n" * 2_500_000)
    read, write = os.pipe()
    child = os.fork()
    if not child:
        code = 70
        try:
            os.dup2(write, 2)
            sys.stderr = os.fdopen(2, "w")
            held = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
            resource.setrlimit(resource.RLIMIT_AS, (held + 400_000_000,) * 2)
            code = main(["train", str(tmp_path / name), *QUICK, "--labels", "sp_0", "--out", str(tmp_path / "m")])
            sys.stderr.flush()
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read) as said:
        lines = said.read().splitlines()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2, lines
    assert len(lines) == 1
    assert lines[0].startswith("error: table must fit into memory")


# --- settings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.toml", "x = " + "[" * 3000),
        ("c.toml", "seed = 2020-01-01"),
        ("c.toml", "out = 07:32:00"),
        ("c.yaml", "seed: 2020-99-99"),
        ("c.yaml", "seed: !!int 'x'"),
        ("c.yaml", "{" * 2000),
        ("c.yaml", "x: " + "9" * 5000),
        ("c.yaml", "seed: 1\nseed: 2"),
        ("c.yaml", "? [a]\n: 1"),
        ("c.yaml", "a: &a [x]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\ndrop: [*c,*c,*c,*c]"),
        ("c.yaml", "seed: 99999999999999999999"),
    ],
)
def test_train__odd_settings_file__one_line(shop, refused, tmp_path, name, text):
    (tmp_path / name).write_text(text + "\n")
    words = ("train", shop.good / "sites.csv", *READ, *QUICK, "--out", tmp_path / "m", "--config", tmp_path / name)
    assert len(refused(*words)) < 2000


def test_settings__aliases_of_aliases__are_shown_short(shop, refused, tmp_path):
    """Nine levels of nine would be 400 million items when written out."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    (tmp_path / "c.yaml").write_text("\n".join([*lines, "seed: *a8"]))
    assert len(refused("train", shop.good / "sites.csv", "--config", tmp_path / "c.yaml", "--out", "m")) < 2000


# --- places -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("out", ["/", "//", ".", "..", "", "a\0b", "m" * 252])
def test_train__out_that_is_no_name__is_refused(shop, refused, out):
    refused("train", shop.good / "sites.csv", *READ, *QUICK, "--out", out)


def test_predict__long_name_or_folder__is_refused(shop, refused, tmp_path):
    words = ("predict", shop.good / "ridge", shop.good / "sites.csv", "--force", "--out")
    assert "name must have at most 200 bytes" in refused(*words, tmp_path / ("ä" * 120 + ".csv"))
    (tmp_path / "there.csv").mkdir()
    assert "output must be a file" in refused(*words, tmp_path / "there.csv")


def test_save__after_a_kill_behind_the_exchange__removes_what_it_left(tmp_path):
    import torch

    from hotvae.checkpoint import save_folder

    save_folder(tmp_path / "m", {"kind": "x"}, {"a": torch.zeros(1)})
    (tmp_path / ".m.0123abcd.part").mkdir()
    (tmp_path / ".m.0123abcd.part" / "config.json").touch()
    (tmp_path / ".m.b.0123abcd.part").mkdir()  # of another model, m.b
    save_folder(tmp_path / "m", {"kind": "x"}, {"a": torch.zeros(1)})
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".m.b.0123abcd.part", "m"]


def test_command__stdout_that_is_full__one_line(tmp_path, monkeypatch, capsys):
    if not os.path.exists("/dev/full"):
        pytest.skip("no device that is always full")
    with suppress(OSError), open("/dev/full", "w") as full:  # what it holds cannot be written when it is closed, either
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["models"]) == 2
        sys.stdout.close()
    assert capsys.readouterr().err == "error: No space left on device\n"


def test_command__reader_that_has_gone__is_no_error(monkeypatch, capsys):
    read, write = os.pipe()
    os.close(read)
    with suppress(OSError), os.fdopen(write, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert main(["models"]) == 141
        sys.stdout.close()
    assert capsys.readouterr().err == ""


def test_predict__terminal_that_knows_ascii_only__still_says_what_was_written(shop, tmp_path, monkeypatch):
    said = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", said)
    assert main(["predict", str(shop.good / "ridge"), shop.file("sites.csv"), "--out", str(tmp_path / "p.csv")]) == 0
    said.flush()
    assert said.buffer.getvalue().startswith(b"wrote 40 rows ? 4 labels")


# --- numbers that would take for ever ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", "{ridge}", "{sites}", "--ecology", "gomes", "--pairs", str(10**12)),
        ("evaluate", "{ridge}", "{sites}", "--ecology", "gomes", "--draws", str(10**9)),
        ("predict", "{ridge}", "{sites}", "--out", "p.csv", "--list", "f1", "--draws", str(10**9)),
        ("explain", "{ridge}", "{sites}", "--out", "x", "--seed", str(10**30)),
        ("train", "{sites}", *READ, "--recipe", "network", "--layers", str(2**31), "--out", "m"),
        ("train", "{sites}", *READ, "--recipe", "network", "--dim", str(2**31), "--out", "m"),
    ],
)
def test_command__number_beyond_all_use__is_refused(shop, refused, words):
    places = {"ridge": shop.good / "ridge", "sites": shop.good / "sites.csv"}
    limits = {"--seed": 4294967295, "--layers": 1000, "--dim": 65536}
    most = str(next((limit for word, limit in limits.items() if word in words), 1000000))
    assert most in refused(*(word.format(**places) for word in words))


# --- journals and results ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", [b"garbage\n", b"\xff\xfe\x00\n", b"[]\n", b"{}\n", b"[" * 5000 + b"\n", b'{"op_code": 0}\n']
)
def test_tune__journal_that_is_none__is_refused(shop, tmp_path, content):
    from hotvae.errors import ConfigError
    from hotvae.jobs.settings import TrainSettings
    from hotvae.jobs.trials import Task, check_journal, open_study

    (tmp_path / "j.log").write_bytes(content)
    task = Task(TrainSettings(parameters={"random_state": 0}), str(shop.good / "sites.csv"), "log_loss", {}, {})

    def go_on():
        check_journal(tmp_path / "j.log", print)
        open_study(task, tmp_path / "j.log")

    with pytest.raises(ConfigError, match="journal must be a file that a search wrote"):
        go_on()
    assert (tmp_path / "j.log").read_bytes() == content


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "3",
        "{}",
        '{"cell": 3, "status": "done"}',
        '{"cell": {}, "status": "done"}',
        '{"cell": {"x": 1}, "status": 1}',
    ],
)
def test_store__line_that_is_no_result__is_named(tmp_path, line):
    from hotvae.errors import DataError
    from paper.store import Store

    (tmp_path / "tables.jsonl").write_text(line + "\n")
    with pytest.raises(DataError, match=r"results must be lines with cell and status; .*line 1"):
        Store(tmp_path).latest("tables")


# --- what is said -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("train", "{counts}", "--labels", "sp_*", "--out", "m"), "Counts? Pass --presence."),
        (("train", "{sites}", "--out", "m"), "Pass --labels sp_*."),
        (("predict", "{ridge}", "{extra}", "--out", "p.csv"), "Remove them, or pass --ignore-unknown."),
        (("train", "{commas}", *READ, "--quiet", "--out", "m"), "Decimal commas? Pass --decimal ,."),
    ],
)
def test_command_line__advice__is_something_one_can_type(shop, refused, table, command, words):
    extra = pd.read_csv(shop.good / "sites.csv").assign(moon=1)
    extra.to_csv("extra.csv", index=False)
    commas = pd.read_csv(shop.good / "sites.csv").assign(depth=[f"{i},5" for i in range(40)])
    commas.to_csv("commas.csv", index=False, sep=";")
    places = {
        "counts": table(sp_0=7),
        "sites": shop.good / "sites.csv",
        "ridge": shop.good / "ridge",
        "extra": "extra.csv",
        "commas": "commas.csv",
    }
    line = refused(*(word.format(**places) for word in command))
    assert words in line
    assert "=" not in line.rpartition(". ")[2]


def test_predict__safe_csv__names_and_ids_are_no_formulas(shop, tmp_path, capsys):
    frame = pd.read_csv(shop.good / "sites.csv").rename(columns={"sp_0": "=1+1", "sp_1": "-wren"})
    frame.loc[0, "site"] = "=cmd|' /C calc'!A0"
    frame.loc[1, "site"] = "@x"
    frame["lon"] -= 10
    frame.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "names.txt").write_text("=1+1\n-wren\nsp_2\n")
    words = ("--labels", f"@{tmp_path / 'names.txt'}", "--drop", "sp_3", "--id-column", "site", *READ[-2:], *QUICK)
    assert main(["train", str(tmp_path / "t.csv"), *words, "--out", str(tmp_path / "m")]) == 0
    for name, options in (("plain.csv", ()), ("safe.csv", ("--safe-csv",))):
        out = str(tmp_path / name)
        assert main(["predict", str(tmp_path / "m"), str(tmp_path / "t.csv"), "--out", out, *options]) == 0
    plain, safe = (pd.read_csv(tmp_path / name) for name in ("plain.csv", "safe.csv"))
    assert list(safe.columns) == ["site", "lon", "lat", "'=1+1", "'-wren", "sp_2"]
    assert safe["site"].tolist()[:3] == ["'=cmd|' /C calc'!A0", "'@x", "s2"]
    np.testing.assert_array_equal(safe.drop(columns="site").to_numpy(), plain.drop(columns="site").to_numpy())
    assert (safe["lon"] < 0).all()
    assert list(plain.columns) == ["site", "lon", "lat", "=1+1", "-wren", "sp_2"]


def test_model__described_by_a_liar__is_refused(shop, refused, tmp_path):
    import shutil

    from hotvae.checkpoint import seal

    for change in (
        {"n_features_in": 7},
        {"kind": []},
        {"extra": "x"},
        {"thresholds": {"macro_f1": 7}},
        {"label_names": LABELS[:3]},
    ):
        shutil.rmtree(tmp_path / "m", ignore_errors=True)
        shutil.copytree(shop.good / "ridge", tmp_path / "m")
        config = json.loads((tmp_path / "m" / "config.json").read_text()) | change
        (tmp_path / "m" / "config.json").write_text(json.dumps(config))
        assert "checksum" in refused("info", tmp_path / "m")
        seal(tmp_path / "m")
        assert "model" in refused("predict", tmp_path / "m", shop.good / "sites.csv", "--out", "p.csv")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("network", lambda config: config["history"].update(records=2**63)),
        ("network", lambda config: config["params"].update(encoder_widths=[65536] * 9)),
        ("default", lambda config: config["features"]["feature_names"].__setitem__(0, 7)),
        ("default", lambda config: config["members"][0].update(form="other")),
        ("default", lambda config: config["recipe"]["entries"][0].update(log_loss="low")),
        ("default", lambda config: config["forms"]["places"]["had_missing"].__setitem__(0, True)),
        ("ridge", lambda config: config["extra"]["coordinates"].append("lat")),
        ("ridge", lambda config: config["features"].update(is_sparse=True)),
        ("ridge", lambda config: config.update(feature_names_in=None)),
    ],
    ids=[
        "history",
        "150 GB of weights",
        "number for a name",
        "unknown form",
        "text for a loss",
        "wider form",
        "three coordinates",
        "sparse categories",
        "no names",
    ],
)
def test_model__parts_at_odds__is_refused_when_it_is_used(shop, refused, tmp_path, name, change):
    import shutil

    from hotvae.checkpoint import seal

    shutil.copytree(shop.good / name, tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    change(config)
    (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    seal(tmp_path / "m")
    refused("predict", tmp_path / "m", shop.good / "sites.csv", "--out", "p.csv")
    assert not (tmp_path / "p.csv").exists()


def test_cross_validation__labels_with_gaps_and_folds_that_are_named__works():
    """As docs/baselines.md says; a number of folds alone is refused by scikit-learn before any model is asked."""
    from sklearn.model_selection import KFold, cross_val_score

    from hotvae.data.splits import MultilabelStratifiedKFold
    from hotvae.estimators.registry import find_classifier

    draw = np.random.default_rng(0)
    X, y = draw.normal(size=(60, 3)), (draw.random((60, 2)) < 0.5).astype(float)
    y[3, 0] = np.nan
    for folds in (KFold(3), MultilabelStratifiedKFold(3)):
        assert np.isfinite(cross_val_score(find_classifier("prevalence")(), X, y, cv=folds, error_score="raise")).all()
