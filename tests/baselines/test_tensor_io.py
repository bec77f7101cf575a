"""Tables that are written to files as tensors."""

import numpy as np
import pytest
from scipy import sparse

from hotvae.baselines.tensor_io import array, pack, unpack


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8, np.int64])
def test_pack__dense_and_sparse__come_back_to_the_bit(dtype):
    table = np.array([[0, 2, 0], [1, 0, 3]], dtype=dtype)
    back = unpack("t", pack("t", table))
    np.testing.assert_array_equal(back, table)
    assert back.dtype == dtype
    again = unpack("t", pack("t", sparse.csr_array(table)))
    np.testing.assert_array_equal(again.toarray(), table)
    assert again.dtype == dtype


def test_pack__of_an_array__is_a_copy():
    table = np.zeros(2)
    tensors = pack("t", table)
    table[0] = 5
    assert tensors["t"].tolist() == [0, 0]


def test_unpack__indices_out_of_range__are_refused():
    tensors = pack("t", sparse.csr_array(np.eye(2)))
    tensors["t.indices"][0] = 7
    with pytest.raises(ValueError, match="indices"):
        unpack("t", tensors)


def test_array__absent__is_a_key_error():
    with pytest.raises(KeyError):
        array("weights", {}, (None,))
