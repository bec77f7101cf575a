"""The catalogue: its facts, where sets are looked for, what is checked, and how rows are split."""

import os
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hotvae.data import catalog
from hotvae.data.catalog import (
    cache_folder,
    catalog_names,
    compare_with_paper,
    content_checksum,
    describe,
    find_file,
    label_statistics,
    load,
)
from hotvae.data.dataset import Dataset
from hotvae.errors import ConfigError, DataError, DataWarning

FOLDER = os.environ.get("HOTVAE_DATA_DIR")
REGISTRY_SETS = (
    *("yeast", "scene", "bibtex", "delicious", "mediamill", "emotions", "enron", "medical", "sider", "reuters"),
)
COMMUNITIES = (
    *("bbs_like_ebird100", "bbs_clark2003_2009", "bbs2011_wilkinson", "eucalypts_grampians", "ebird_roccupy_june2019"),
    "breeding_birds_2009",
    *(f"norberg_{name}" for name in ("birds", "butterfly", "plant", "trees", "vegetation")),
)
OTHERS = ("mirflickr_tags", "sider_elements", "bookmarks", "ebird")
HERE = [name for name in catalog_names() if FOLDER and Path(FOLDER, describe(name).file).is_file()]
ROOT = Path(__file__).parents[2]


# --- facts -----------------------------------------------------------------------------------------------


def test_names__are_those_promised():
    assert set(catalog_names()) == {*REGISTRY_SETS, *COMMUNITIES, *OTHERS}


@pytest.mark.parametrize("name", catalog_names())
def test_entry__every_one__is_complete(name):
    entry = describe(name)
    assert entry.name == name
    for fact in ("title", "source", "licence", "citation", "parts"):
        assert getattr(entry, fact), fact
    assert (entry.archive is not None) == (name in REGISTRY_SETS)
    if entry.archive is not None:
        assert re.fullmatch("[0-9a-f]{64}", entry.archive.sha256)
        assert entry.archive.size > 10**7
    if not entry.own:
        assert min(entry.shape) > 0
        assert all(re.fullmatch("[0-9a-f]{64}", checksum) for checksum in entry.content)
        assert len(entry.content) == (2 if name == "reuters" else 1)
        # Both means count the same ones: mean × rows = mean × labels.
        ones = entry.labels_per_sample[0] * entry.shape[0], entry.samples_per_label[0] * entry.shape[2]
        assert ones[0] == pytest.approx(ones[1], rel=2e-4)
    if entry.label_names:
        assert len(entry.label_names) == entry.shape[2]
    for statistic in entry.paper.reasons if entry.paper else ():
        assert statistic in {f"{what}_per_{of} {kind}" for what, of in (("labels", "sample"), ("samples", "label"))
                             for kind in ("mean", "median", "max")}  # fmt: skip


def test_facts__hold_no_address():
    """Packages are named; where an index is, only the settings of a machine know."""
    assert "://" not in Path(catalog.__file__).with_name("catalog.toml").read_text()


def test_describe__unknown_name__suggests_close_ones():
    with pytest.raises(ConfigError, match=r"got 'norberg_bird' \(close: 'norberg_birds'.*hotvae data list"):
        describe("norberg_bird")


# --- places ----------------------------------------------------------------------------------------------


def test_cache_folder__chosen_or_by_platform(monkeypatch, tmp_path):
    monkeypatch.setenv("HOTVAE_CACHE_DIR", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("HOTVAE_CACHE_DIR")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    for platform, place in (
        ("linux", tmp_path / "xdg" / "hotvae"),
        ("darwin", tmp_path / "Library" / "Caches" / "hotvae"),
        ("win32", tmp_path / "local" / "hotvae"),
    ):
        monkeypatch.setattr(sys, "platform", platform)
        assert cache_folder() == place
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == tmp_path / ".cache" / "hotvae"


def test_find_file__in_both_places__the_data_folder_comes_first(monkeypatch, tmp_path):
    for name in ("own", "cache"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "yeast.npz").touch()
    monkeypatch.setenv("HOTVAE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HOTVAE_DATA_DIR", str(tmp_path / "own"))
    assert find_file(describe("yeast")).parent.name == "own"
    monkeypatch.delenv("HOTVAE_DATA_DIR")
    assert find_file(describe("yeast")).parent.name == "cache"


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("yeast", r"got no yeast.npz in HOTVAE_DATA_DIR \(not set\) or '.*'. Fetch it: hotvae data get yeast\.$"),
        ("norberg_birds", "It is in no package registry: set HOTVAE_DATA_DIR to a folder that has it"),
        ("bookmarks", "got no bookmarks_data.npy or bookmarks/train_inputs.txt .* Everyone has to bring this one"),
    ],
)
def test_load__not_on_this_machine__says_how_to_get_it(monkeypatch, tmp_path, name, remedy):
    monkeypatch.setenv("HOTVAE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("HOTVAE_DATA_DIR", raising=False)
    with pytest.raises(DataError, match=remedy):
        load(name)


# --- numbers ---------------------------------------------------------------------------------------------


def test_label_statistics__worked_by_hand():
    """Rows have 2, 1, 0, 3 labels; labels have 3, 2, 1 samples."""
    labels = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0], [1, 1, 1]], dtype=np.float32)
    assert label_statistics(labels) == {"labels_per_sample": (1.5, 1.5, 3.0), "samples_per_label": (2.0, 2.0, 3.0)}


def test_content_checksum__any_value_changed__is_another():
    features = np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32)
    labels, parts, places = np.array([[0, 1], [1, 0]]), np.array([[0, 2]], dtype=np.int8), np.array([[0.0, 1], [2, 3]])
    base = content_checksum(Dataset(features, labels, coordinates=places), parts)
    assert base == content_checksum(Dataset(features, labels, label_names=("a", "b"), coordinates=places), parts)
    other = features.copy()
    other[0, 0] = np.nextafter(np.float32(1), np.float32(2))
    changed = {
        content_checksum(Dataset(other, labels, coordinates=places), parts),
        content_checksum(Dataset(features, 1 - labels, coordinates=places), parts),
        content_checksum(Dataset(features, labels, coordinates=places + 1), parts),
        content_checksum(Dataset(features, labels, coordinates=places), 2 - parts),
        content_checksum(Dataset(features, labels, coordinates=places), None),
        content_checksum(Dataset(features[::-1], labels, coordinates=places), parts),
    }
    assert len(changed | {base}) == 7


# --- files to bring along --------------------------------------------------------------------------------


def write_ebird(folder, n_rows=40, n_columns=117):
    """Two meta columns, 100 species, 15 covariates."""
    random = np.random.default_rng(0)
    table = random.normal(size=(n_rows, n_columns))
    table[:, 2:102] = random.random((n_rows, 100)) < 0.5
    np.save(folder / "ebird_data.npy", table)
    for part, rows in {"train": range(20), "val": range(20, 30), "test": range(30, n_rows)}.items():
        np.save(folder / f"ebird_{part}_idx.npy", np.array(rows))
    return table


def test_load__own_ebird_file__is_read_as_it_is(monkeypatch, tmp_path):
    monkeypatch.setenv("HOTVAE_DATA_DIR", str(tmp_path))
    table = write_ebird(tmp_path)
    data = load("ebird")
    assert np.array_equal(data.dataset.features, table[:, 102:])
    assert np.array_equal(data.dataset.labels, table[:, 2:102])
    assert [len(part) for part in (data.split.train, data.split.validation, data.split.test)] == [20, 10, 10]
    first = compare_with_paper(data)[0]
    assert (first.paper, first.is_met, first.why) == ("20.69", False, "")


def test_load__own_file_in_a_folder_of_its_name__is_found(monkeypatch, tmp_path):
    monkeypatch.setenv("HOTVAE_DATA_DIR", str(tmp_path))
    (tmp_path / "ebird").mkdir()
    write_ebird(tmp_path / "ebird")
    assert load("ebird").path == tmp_path / "ebird" / "ebird_data.npy"


def test_load__own_file_with_other_columns__is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("HOTVAE_DATA_DIR", str(tmp_path))
    write_ebird(tmp_path, n_columns=110)
    with pytest.raises(
        DataError, match="file of ebird must hold the published set; got 40 rows × 8 features × 100 lab"
    ):
        load("ebird")


def test_load__own_bookmarks_as_lines_of_text__sparse_and_with_a_warning_about_rows(monkeypatch, tmp_path):
    """Every word and tag once is enough to have 2150 features and 208 labels."""
    monkeypatch.setenv("HOTVAE_DATA_DIR", str(tmp_path))
    folder = tmp_path / "bookmarks"
    folder.mkdir()
    words = " ".join(f"w{i}" for i in range(2150))
    tags = " ".join(f"t{i}" for i in range(208))
    for part, lines, labels in (
        ("train", f"{words}\nw1 w2", f"{tags}\nt1"),
        ("valid", "w3", "t2"),
        ("test", "w4", "t3"),
    ):
        (folder / f"{part}_inputs.txt").write_text(lines + "\n")
        (folder / f"{part}_labels.txt").write_text(labels + "\n")
    with pytest.warns(DataWarning, match="bookmarks should have 87856 rows; got 4"):
        data = load("bookmarks")
    assert data.dataset.features.nnz == 2150 + 2 + 1 + 1
    assert [part.tolist() for part in (data.split.train, data.split.validation, data.split.test)] == [[0, 1], [2], [3]]


# --- the real sets ---------------------------------------------------------------------------------------

needs_data = pytest.mark.skipif(not HERE, reason="HOTVAE_DATA_DIR is not set or holds no set of the catalogue")


@pytest.mark.data
@needs_data
@pytest.mark.parametrize("name", HERE or ["none"])
def test_real_set__shape_statistics_and_split__are_those_of_the_catalogue(name):
    data = load(name)  # compares shape and checksum
    entry, dataset, parts = data.entry, data.dataset, data.split
    for statistic, found in label_statistics(dataset.labels).items():
        assert np.round(found, 4).tolist() == pytest.approx(list(getattr(entry, statistic)), abs=1e-9), statistic
    together = np.concatenate([parts.train, parts.validation, parts.test])
    assert np.array_equal(np.sort(together), np.arange(dataset.n_samples))
    assert min(len(part) for part in (parts.train, parts.validation, parts.test)) > 0
    if entry.features in ("text", "smiles"):
        column = "text" if entry.features == "text" else "smiles"
        assert dataset.feature_names == (column,)
        assert dataset.features[column].map(type).eq(str).all()
    elif entry.features == "sparse binary":
        assert set(np.unique(dataset.features.data)) == {1.0}
        assert dataset.features.format == "csr"
    if name in COMMUNITIES:
        assert dataset.coordinates.shape == (dataset.n_samples, 2)


@pytest.mark.data
@needs_data
@pytest.mark.parametrize("name", [name for name in HERE if describe(name).paper] or ["none"])
def test_real_set__beside_table_1__every_number_is_met_or_explained(name):
    """And only what differs is explained. Where the reason is another draw of rows, the numbers are still close."""
    for row in compare_with_paper(load(name)):
        assert row.is_met == (row.why == ""), row
        if "draw" in row.why:
            assert row.ours == pytest.approx(float(row.paper), rel=0.03), row


@pytest.mark.data
@needs_data
def test_scene__largest_label_in_table_1__cannot_be():
    """903 rows of one label among 1211 training rows, where the largest has 277."""
    data = load("scene")
    training = np.concatenate([data.split.train, data.split.validation])
    assert data.dataset.labels[training].sum(axis=0).max() == 277


@pytest.mark.data
@needs_data
@pytest.mark.parametrize(
    ("name", "n_training", "n_test"),
    [
        ("yeast", 1500, 917),
        ("scene", 1211, 1196),
        ("bibtex", 4880, 2515),
        ("reuters", 7770, 3019),
        ("bbs2011_wilkinson", 2202, 550),
    ],
)
def test_published_split__validation__is_drawn_from_training_rows_by_seed(name, n_training, n_test):
    first, other = load(name), load(name, seed=1)
    assert len(first.split.train) + len(first.split.validation) == n_training
    assert len(first.split.test) == n_test
    assert not np.array_equal(first.split.validation, other.split.validation)
    assert np.array_equal(first.split.test, other.split.test)
    share = len(first.split.validation) / n_training
    assert share == pytest.approx(first.entry.validation, abs=0.012)
    # Stratified: each label has its share of the rows, but for rounding where it is rare.
    labels = first.dataset.labels
    training = np.concatenate([first.split.train, first.split.validation])
    expected = labels[training].sum(axis=0) * share
    found = labels[first.split.validation].sum(axis=0)
    assert np.abs(found - expected).max() <= np.maximum(1.5, 0.06 * expected.max())


@pytest.mark.data
@needs_data
def test_load__same_seed__same_rows():
    first, again = load("scene", seed=5), load("scene", seed=5)
    assert np.array_equal(first.split.train, again.split.train)
    assert np.array_equal(first.split.validation, again.split.validation)


@pytest.mark.data
@needs_data
def test_norberg__three_splits__each_600_and_600():
    tests = []
    for split in range(3):
        parts = load("norberg_birds", split=split).split
        assert len(parts.test) == 600
        assert len(parts.train) + len(parts.validation) == 600
        tests.append(tuple(parts.test))
    assert len(set(tests)) == 3
    for split in (3, -1, True, 0.0):
        with pytest.raises(ConfigError, match="split of norberg_birds must be 0 to 2; got"):
            load("norberg_birds", split=split)
    with pytest.raises(ConfigError, match="split of yeast must be 0; got 1"):
        load("yeast", split=1)


@pytest.mark.data
@needs_data
def test_clark__split__keeps_survey_routes_whole():
    data = load("bbs_clark2003_2009")
    routes = [set(data.dataset.groups[part]) for part in (data.split.train, data.split.validation, data.split.test)]
    assert not routes[0] & routes[1]
    assert not routes[0] & routes[2]
    assert not routes[1] & routes[2]
    assert len(data.split.train) == pytest.approx(0.6 * 15863, rel=0.01)


@pytest.mark.data
@needs_data
def test_ebird_like__split__keeps_survey_routes_whole():
    data = load("bbs_like_ebird100")
    assert [len(part) for part in (data.split.train, data.split.validation, data.split.test)] == [11481, 1546, 2300]
    assert not set(data.dataset.groups[data.split.train]) & set(data.dataset.groups[data.split.test])


def test_breeding_birds__published_split__whole_blocks_of_two_degrees_and_named_species():
    data = load("breeding_birds_2009")
    split = data.split
    assert [len(part) for part in (split.train, split.validation, split.test)] == [1316, 365, 545]
    blocks = np.floor(data.dataset.coordinates / 2)
    sides = [set(map(tuple, blocks[part])) for part in (split.train, split.validation, split.test)]
    assert not sides[0] & sides[1]
    assert not (sides[0] | sides[1]) & sides[2]
    assert data.dataset.coordinate_names == ("longitude", "latitude")
    assert data.dataset.feature_names[0] == "forest"
    assert "Barn Swallow" in data.dataset.label_names
    assert not set(data.dataset.coordinate_names) & set(data.dataset.feature_names)
    assert np.array_equal(load("breeding_birds_2009", seed=1).split.validation, split.validation)  # nothing is drawn


def test_breeding_birds__without_data_folder_or_cache__come_with_the_package(monkeypatch, tmp_path):
    monkeypatch.delenv("HOTVAE_DATA_DIR", raising=False)
    monkeypatch.setenv("HOTVAE_CACHE_DIR", str(tmp_path))
    data = load("breeding_birds_2009")
    assert data.path.parent == catalog.PACKAGED
    assert data.dataset.n_labels == 123
    said = (catalog.PACKAGED / "README.md").read_text(encoding="utf-8")
    assert "U.S. Geological Survey" in said
    assert "MIT licence" in said


def test_block_parts__every_block_in_one_part__shares_of_the_blocks():
    random = np.random.default_rng(1)
    places = np.column_stack([random.uniform(-20, 20, 4000), random.uniform(10, 30, 4000)])
    parts = catalog._block_parts(places)
    seen = {}
    for corner, part in zip(map(tuple, np.floor(places / 2)), parts, strict=True):
        assert seen.setdefault(corner, part) == part
    assert len(seen) == 200
    assert np.bincount(list(seen.values())).tolist() == [120, 30, 50]


def test_breeding_birds__missing_column__is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("HOTVAE_DATA_DIR", str(tmp_path))
    columns = ["route", "longitude", "north", *(f"c{i}" for i in range(11)), *(f"s{i}" for i in range(123))]
    rows = [[f"r{i}", -100 + i, 40, *[0.5] * 11, *[i % 2] * 123] for i in range(3)]
    pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "breeding_birds_2009.csv.gz", index=False)
    with pytest.raises(
        DataError, match=r"file of breeding_birds_2009 must hold the published set; got .* Copy it anew"
    ):
        load("breeding_birds_2009")


@pytest.mark.data
@needs_data
def test_roccupy__folds__each_is_test_once():
    tests = np.concatenate([load("ebird_roccupy_june2019", split=split).split.test for split in range(3)])
    assert np.array_equal(np.sort(tests), np.arange(8000))


@pytest.mark.data
@needs_data
def test_sider_and_its_elements__same_molecules__same_split():
    molecules, elements = load("sider", seed=3), load("sider_elements", seed=3)
    assert np.array_equal(molecules.dataset.labels, elements.dataset.labels)
    assert np.array_equal(molecules.split.test, elements.split.test)


@pytest.mark.data
@needs_data
def test_damaged_copy__one_value_changed__is_refused(monkeypatch, tmp_path):
    with np.load(find_file(describe("eucalypts_grampians")), allow_pickle=False) as stored:
        arrays = dict(stored)
    arrays["Y"] = arrays["Y"].copy()
    arrays["Y"][7, 3] ^= 1
    np.savez_compressed(tmp_path / "eucalypts_grampians.npz", **arrays)
    monkeypatch.setenv("HOTVAE_DATA_DIR", str(tmp_path))
    with pytest.raises(DataError, match=r"must hold the published set; got other values \(checksum\) .* Copy it anew"):
        load("eucalypts_grampians")


# --- the page --------------------------------------------------------------------------------------------


def test_page__every_set__is_there_with_its_terms_and_reasons():
    page = " ".join((ROOT / "docs" / "data.md").read_text(encoding="utf-8").split())
    for name in catalog_names():
        entry = describe(name)
        assert f"`{name}`" in page
        for fact in (entry.licence, entry.citation, entry.parts, entry.notes):
            assert fact in page, (name, fact)
        for why in entry.paper.reasons.values() if entry.paper else ():
            assert why in page, (name, why)


@pytest.mark.data
@needs_data
def test_page__made_anew__is_the_one_that_is_there(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["make_data.py", "--check"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "docs" / "make_data.py"), run_name="__main__")
    assert ended.value.code == 0, capsys.readouterr().out
