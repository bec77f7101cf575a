"""Arrays out of pickles: those of Python 2 are read, everything else is refused before it runs."""

import io
import os
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from hotvae.data.formats.pickles import read_pickled_arrays
from hotvae.errors import DataError
from tests.data.registry import python2_pickle

NUMBERS = st.sampled_from(["<f8", "<f4", "<i8", "<i4", "|u1", ">f8", ">i4", "|b1", "<u2"])


def read(content, keys=("X",)):
    return read_pickled_arrays(io.BytesIO(content), keys, "toy")


def test_python2_pickle__worked_by_hand__is_its_array():
    """One 32-bit 1 and one -2, little-endian, in two rows."""
    content = (
        b"(dS'X'\ncnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR"
        b"(I1\n(I2\nI1\ntcnumpy\ndtype\n(S'i4'\nI0\nI1\ntR(I3\nS'<'\nNNNI-1\nI-1\nI0\ntb"
        b"I00\nS'\\x01\\x00\\x00\\x00\\xfe\\xff\\xff\\xff'\ntbs."
    )
    found = read(content)["X"]
    assert found.tolist() == [[1], [-2]]
    assert found.dtype == np.int32


@given(values=NUMBERS.flatmap(lambda code: arrays.arrays(code, arrays.array_shapes(max_dims=3, max_side=4))))
def test_python2_pickle__any_numbers__come_back_bit_for_bit(values):
    found = read(python2_pickle(X=values, y=values.T), ("y", "X"))
    for key, array in {"X": values, "y": values.T}.items():
        assert found[key].dtype == array.dtype
        assert found[key].shape == array.shape
        assert found[key].tobytes() == array.tobytes()


@pytest.mark.parametrize("protocol", [3, 4])
@pytest.mark.parametrize("order", ["C", "F"])
def test_python3_pickle__either_order__comes_back(protocol, order):
    values = np.asarray(np.arange(6.0).reshape(2, 3), order=order)
    assert np.array_equal(read(pickle.dumps({"X": values}, protocol=protocol))["X"], values)


class Call:
    """Pickles into a call of anything."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    ("function", "argument", "name"),
    [
        (os.system, "touch {trap}", "system"),
        (eval, "open({trap!r}, 'w')", "eval"),
        (exec, "open({trap!r}, 'w')", "exec"),
        (np.loadtxt, "{trap}", "loadtxt"),
        (np.fromfile, "{trap}", "fromfile"),
        (np.asmatrix, "1 2", "asmatrix"),
        (getattr, "x", "getattr"),
    ],
)
def test_hostile_pickle__any_protocol__is_refused_and_does_nothing(tmp_path, protocol, function, argument, name):
    trap = tmp_path / "trap"
    content = pickle.dumps({"X": Call(function, argument.format(trap=str(trap)))}, protocol=protocol)
    with pytest.raises(
        DataError, match=rf"pickle must hold numpy arrays only; got '[\w.]+{name}' \(toy\). Do not open"
    ):
        read(content)
    assert not trap.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"cposix\nsystem\n(S'touch trap'\ntR.",  # called at once
        b"(S'touch trap'\nios\nsystem\n.",  # INST
        b"(cos\nsystem\nS'touch trap'\no.",  # OBJ
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x0atouch trap\x85R.",  # STACK_GLOBAL
        b"(dS'X'\ncnumpy\nload\n(S'trap'\ntRs.",
        b"(dS'X'\ncnumpy.core.multiarray\nscalar\n(S'trap'\ntRs.",
        b"(dS'X'\ncnumpy.core.multiarray\n_reconstruct\n(cnumpy\nmatrix\n(I0\ntS'b'\ntRs.",
        b"(dS'X'\ncnumpy\nndarray.tofile\n(S'trap'\ntRs.",
        b"\x80\x04(dS'X'\n\x8c\x05numpy\x8c\x0endarray.tofile\x93(S'trap'\ntRs.",  # dotted names are no way round
        b"ccopy_reg\n_reconstructor\n(c__builtin__\nobject\nc__builtin__\nobject\nNtR.",
        b"c__builtin__\neval\n(S'1'\ntR.",
    ],
)
def test_hostile_pickle__written_by_hand__is_refused(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="pickle must hold numpy arrays only; got '"):
        read(content)
    assert list(tmp_path.iterdir()) == []


def state(code="f8", *, order="<", parts="NNN", shape="(I1\nt", raw="S'12345678'\n", kind="ndarray"):
    """A pickled array with one thing wrong."""
    return (
        f"(dS'X'\ncnumpy.core.multiarray\n_reconstruct\n(cnumpy\n{kind}\n(I0\ntS'b'\ntR(I1\n{shape}cnumpy\ndtype\n"
        f"(S'{code}'\nI0\nI1\ntR(I3\nS'{order}'\n{parts}I-1\nI-1\nI0\ntbI00\n{raw}tbs."
    ).encode()


def test_state__nothing_wrong__is_an_array():
    assert read(state())["X"].tobytes() == b"12345678"


@pytest.mark.parametrize(
    ("content", "got"),
    [
        (state("O8"), "an array of 'O8'"),
        (state("V8"), "an array of 'V8'"),
        (state("S8"), "an array of 'S8'"),
        (state("f8,O"), "an array of 'f8,O'"),
        (state("f"), "an array of 'f'"),
        (state(order="x"), "a number type without byte order"),
        (state(parts="N(tN"), "a number type with parts"),
        (state(shape="(I2\nt"), r"8 bytes for an array of shape \(2,\)"),
        (state(shape="(I-1\nt"), r"8 bytes for an array of shape \(-1,\)"),
        (state(shape="(I1000000000000\nI1000000000000\nt"), "8 bytes for an array of shape"),
        (state(raw="(lS'x'\na"), "an array of objects"),
        (state(kind="dtype"), "an array of class"),
        (b"Pelsewhere\n.", "a reference to something outside"),
    ],
)
def test_state__one_thing_wrong__is_refused(content, got):
    with pytest.raises(DataError, match=f"pickle must hold numpy arrays only; got {got}"):
        read(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "pickle must be whole; got EOFError"),
        (b"\xff\xfe", "pickle must be whole; got UnpicklingError"),
        (state()[:-4], "pickle must be whole; got"),
        (b"(lS'X'\na.", r"pickle must hold a dictionary of \['X'\]; got list"),
        (b"(dS'Z'\nI1\ns.", r"pickle must hold a dictionary of \['X'\]; got \['Z'\]"),
        (b"(dS'X'\nI1\ns.", "pickle must hold arrays; got int as X"),
        (b"(dS'X'\ncnumpy\nndarray\n(tRs.", "pickle must hold arrays; got _Array as X"),
        (b"(dS'X'\ncnumpy\nndarray\ns.", "pickle must hold arrays; got type as X"),
    ],
)
def test_damaged_or_other_pickle__says_what_it_holds(content, message):
    with pytest.raises(DataError, match=f"{message}.* Fetch it anew"):
        read(content)


@given(place=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_one_byte_changed__anywhere__is_an_array_or_an_explained_error(place, byte):
    content = bytearray(python2_pickle(X=np.arange(4.0)))
    content[place % len(content)] = byte
    try:
        found = read(bytes(content))
    except DataError:
        return
    assert type(found["X"]) is np.ndarray
    assert found["X"].dtype.kind in "biuf"
