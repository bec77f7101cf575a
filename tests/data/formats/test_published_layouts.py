"""Layouts of others: MPVAE's npy files and LaMP's lines of text."""

import numpy as np
import pytest

from hotvae.data.formats.published_layouts import read_npy_layout, read_text_layout
from hotvae.errors import DataError

TABLE = np.array(
    [
        # meta, meta, label, label, feature, feature, feature
        [101, 7, 1, 0, 0.5, 0, 0],
        [102, 7, 0, 1, 0, 0, 2.5],
        [103, 8, 1, 1, 0, 0, 0],
        [104, 8, 0, 0, 1, -1, 0],
    ]
)
ROWS = {"train": [3, 0], "val": [1], "test": [2]}


def write_npy(folder, table=TABLE, rows=ROWS):
    np.save(folder / "pond_data.npy", table)
    for part, numbers in rows.items():
        np.save(folder / f"pond_{part}_idx.npy", np.asarray(numbers))
    return folder / "pond_data.npy"


@pytest.mark.parametrize("as_sparse", [False, True])
def test_npy_layout__meta_labels_features__each_in_its_place(tmp_path, as_sparse):
    data, parts = read_npy_layout(write_npy(tmp_path), n_labels=2, n_meta=2, as_sparse=as_sparse, name="pond")
    features = data.features.toarray() if as_sparse else data.features
    assert np.array_equal(features, TABLE[:, 4:])
    assert np.array_equal(data.labels, TABLE[:, 2:4])
    assert parts.tolist() == [0, 1, 2, 0]
    assert data.name == "pond"


def test_npy_layout__many_rows_sparse__are_read_in_blocks(tmp_path):
    """More rows than are taken at a time: no row is lost or doubled at a seam."""
    table = np.zeros((10_000, 4), dtype=np.float32)
    table[np.arange(10_000), 1 + np.arange(10_000) % 3] = np.arange(10_000)
    table[:, 0] = np.arange(10_000) % 2
    rows = {"train": np.arange(9000), "val": np.arange(9000, 9500), "test": np.arange(9500, 10_000)}
    data, parts = read_npy_layout(write_npy(tmp_path, table, rows), n_labels=1, as_sparse=True)
    assert np.array_equal(data.features.toarray(), table[:, 1:])
    assert np.bincount(parts).tolist() == [9000, 500, 500]


def test_npy_layout__rows_in_no_part__are_marked(tmp_path):
    path = write_npy(tmp_path, rows={"train": [0, 1], "val": [], "test": [2]})
    assert read_npy_layout(path, n_labels=2, n_meta=2)[1].tolist() == [0, 0, 2, -1]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"test": [4]}, r"row numbers must be 0 to 3; got 4 \(.*pond_test_idx.npy'\). Count rows from 0"),
        ({"test": [-1]}, "row numbers must be 0 to 3; got -1"),
        ({"test": [1, 2]}, r"rows must be in one part, once; got 1 again \(.*pond_test_idx.npy"),
        ({"train": [3, 3]}, r"rows must be in one part, once; got 3 again \(.*pond_train_idx.npy"),
        ({"val": [1.0]}, r"row numbers must be a list of whole numbers; got shape \(1,\) of float64"),
        ({"val": [[1]]}, r"row numbers must be a list of whole numbers; got shape \(1, 1\)"),
    ],
)
def test_npy_layout__row_numbers_that_do_not_fit__are_named(tmp_path, rows, message):
    with pytest.raises(DataError, match=message):
        read_npy_layout(write_npy(tmp_path, rows=ROWS | rows), n_labels=2, n_meta=2)


def test_npy_layout__files_that_do_not_fit__are_named(tmp_path):
    path = write_npy(tmp_path)
    with pytest.raises(DataError, match=r"more than 2 meta and 5 label columns of numbers; got shape \(4, 7\)"):
        read_npy_layout(path, n_labels=5, n_meta=2)
    with pytest.raises(DataError, match=r"table must be named NAME_data.npy; got 'pond.npy'"):
        read_npy_layout(tmp_path / "pond.npy", n_labels=2)
    (tmp_path / "pond_val_idx.npy").unlink()
    with pytest.raises(DataError, match=r"layout must have 'pond_val_idx.npy'; got no such file"):
        read_npy_layout(path, n_labels=2, n_meta=2)
    path.write_bytes(b"no npy")
    with pytest.raises(DataError, match="file must be an npy array of numbers; got"):
        read_npy_layout(path, n_labels=2)


def test_npy_layout__objects__are_not_unpickled(tmp_path):
    path = tmp_path / "pond_data.npy"
    np.save(path, np.array([["a", 1], [2, None]], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match=r"file must be an npy array of numbers; got .*Python objects"):
        read_npy_layout(path, n_labels=1)


LINES = {
    "train_inputs.txt": "the wren sang\nrain rain\n",
    "train_labels.txt": "bird song\n\n",
    "valid_inputs.txt": "\n",
    "valid_labels.txt": "fish\n",
    "test_inputs.txt": "a Wren\n",
    "test_labels.txt": "bird\n",
}


def write_lines(folder, **changes):
    for name, text in LINES.items():
        (folder / name).write_text(changes.get(name.removesuffix(".txt"), text), encoding="utf-8")
    return folder


def test_text_layout__words_in_order__parts_one_after_the_other(tmp_path):
    data, parts = read_text_layout(write_lines(tmp_path), name="pond")
    assert data.features["text"].tolist() == ["the wren sang", "rain rain", "", "a Wren"]
    assert data.label_names == ("bird", "fish", "song")
    assert data.labels.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 0, 0]]
    assert parts.tolist() == [0, 0, 1, 2]


def test_text_layout__as_bags__a_word_is_there_or_not(tmp_path):
    data, _ = read_text_layout(write_lines(tmp_path), as_bags=True)
    assert data.feature_names == ("Wren", "a", "rain", "sang", "the", "wren")
    assert data.features.toarray().tolist() == [
        [0, 0, 0, 1, 1, 1],
        [0, 0, 1, 0, 0, 0],
        [0, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
    ]


def test_text_layout__numbers_for_labels__are_sorted_by_value(tmp_path):
    numbers = {"train_labels": "10 2\n\n", "valid_labels": "1\n", "test_labels": "2\n"}
    assert read_text_layout(write_lines(tmp_path, **numbers))[0].label_names == ("1", "2", "10")


def test_text_layout__files_that_do_not_fit__are_named(tmp_path):
    write_lines(tmp_path, valid_labels="fish\nfish\n")
    with pytest.raises(DataError, match=r"valid_inputs.txt and valid_labels.txt must have as many lines; got 1 and 2"):
        read_text_layout(tmp_path)
    (tmp_path / "valid_labels.txt").write_bytes(b"\xff\n")
    with pytest.raises(DataError, match=r"file must be text in UTF-8; got .*valid_labels.txt"):
        read_text_layout(tmp_path)
    (tmp_path / "valid_labels.txt").unlink()
    with pytest.raises(DataError, match=r"layout must have 'valid_labels.txt'; got no such file"):
        read_text_layout(tmp_path)
