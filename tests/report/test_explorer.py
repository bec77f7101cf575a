"""The block of numbers that an explorer carries: what goes in comes out, within what the steps promise."""

import base64
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotvae.report.explorer import pack
from hotvae.report.page import page_html
from paper.speed.explorer import invented_content


def unpacked(index, block):
    """Read a block as the page's worker does, in a plain way."""
    raw, found = zlib.decompress(base64.b64decode(block)), {}
    for entry in index:
        count, dtype = int(np.prod(entry["shape"])), np.dtype(entry["type"])
        part = raw[entry["start"] : entry["start"] + count * dtype.itemsize]
        if dtype.itemsize == 2:
            low, high = np.frombuffer(part, np.uint8).reshape(2, count)
            whole = low.astype(np.int32) + (high.astype(np.int8).astype(np.int32) << 8)
            table = whole.reshape(-1, len(entry["step"]))
            if entry.get("changes"):
                for row in range(len(table)):
                    folded = table[row] & 0xFFFF
                    change = np.where(folded % 2, -(folded + 1) // 2, folded // 2)
                    total = change + (table[row - 1] if row else 0)
                    table[row] = (total + 32768) % 65536 - 32768
            values = np.where(table == -32768, np.nan, entry["middle"] + table * np.array(entry["step"]))
        else:
            values = np.frombuffer(part, dtype.newbyteorder("<"))
        found[entry["name"]] = values.reshape(entry["shape"])
    return found


@given(st.integers(1, 40), st.integers(1, 5), st.floats(1e-3, 1e6), st.floats(-1e5, 1e5), st.integers(0, 99))
def test_pack__any_table__comes_back_within_half_a_step_and_gaps_stay(n_rows, n_columns, width, middle, seed):
    random = np.random.default_rng(seed)
    table = middle + width * random.normal(size=(n_rows, n_columns))
    table[random.random(table.shape) < 0.1] = np.nan
    index, block = pack({"table": table, "flags": np.arange(n_rows, dtype=np.uint8)}, "int16")
    found = unpacked(index, block)
    assert np.array_equal(np.isnan(found["table"]), np.isnan(table))
    wide = np.nanmax(table, axis=0, initial=-np.inf) - np.nanmin(table, axis=0, initial=np.inf)
    slack = 1e-9 + 1e-12 * abs(middle)
    assert (np.nan_to_num(np.abs(found["table"] - table)) <= np.maximum(wide, 0) / 65534 / 2 * 1.001 + slack).all()
    assert found["flags"].tolist() == list(range(n_rows))


@given(st.integers(2, 60), st.integers(1, 4), st.integers(0, 99))
def test_pack__neighbours_alike__are_told_as_changes_and_come_back_the_same(n_rows, n_columns, seed):
    random = np.random.default_rng(seed)
    smooth = np.sin(np.linspace(0, 3, n_rows)[:, None] + random.uniform(0, 6, n_columns)) * 10.0 ** random.integers(
        -3, 4
    )
    smooth[random.random(smooth.shape) < 0.05] = np.nan
    shuffled = smooth[random.permutation(n_rows)]
    for table in (smooth, shuffled):
        found = unpacked(*pack({"table": table}, "int16"))["table"]
        wide = np.nan_to_num(np.nanmax(table, axis=0, initial=-np.inf) - np.nanmin(table, axis=0, initial=np.inf))
        assert np.array_equal(np.isnan(found), np.isnan(table))
        assert (np.nan_to_num(np.abs(found - table)) <= np.maximum(wide, 0) / 65534 / 2 * 1.001 + 1e-9).all()


def test_pack__map_of_smooth_numbers__is_half_as_large_as_the_same_rows_shuffled():
    steps = np.linspace(0, 20, 4000)[:, None] + np.arange(6)
    index, block = pack({"logits": 4 * np.sin(steps)}, "int16")
    index_shuffled, shuffled = pack({"logits": np.random.default_rng(0).permutation(4 * np.sin(steps))}, "int16")
    assert index[0]["changes"]
    assert "changes" not in index_shuffled[0]
    assert len(block) < 0.5 * len(shuffled)


def test_pack__logits__are_off_by_half_of_a_256th_at_most():
    logits = np.random.default_rng(0).normal(size=(50, 4)) * 3
    found = unpacked(*pack({"logits": logits}, "int16"))["logits"]
    assert 1e-4 < np.abs(found - logits).max() <= 1 / 512 + 1e-9


def test_pack__float32__is_exact():
    values = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    assert np.array_equal(unpacked(*pack({"a": values}, "float32"))["a"], values)


@pytest.mark.parametrize(("n_labels", "n_places", "most"), [(100, 5000, 5.0), (300, 20_000, 20.0)])
def test_page__of_the_sizes_people_have__is_small_enough_to_mail(n_labels, n_places, most):
    assert len(page_html(invented_content(n_labels, n_places)).encode()) / 1e6 < most


def test_page__hostile_names__stay_text():
    name = "</script><script>document.title='broken'</script>"
    text = page_html(invented_content(3, 20, names=[name, "wren", "owl"]))
    assert name not in text
    assert "<script>document.title" not in text
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text
