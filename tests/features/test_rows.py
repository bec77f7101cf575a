"""Rows: some of them, in any order, whatever the features are; labels and base logits go with them."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from hotvae.features.rows import Rows, take
from hotvae.features.tokens import TokenRows

LABELS = np.array([[0.0, 1.0], [1.0, np.nan], [1.0, 1.0]])
KINDS = {
    "array": (np.eye(3), lambda features: features.tolist()),
    "CSR": (sparse.csr_array(np.eye(3)), lambda features: features.toarray().tolist()),
    "frame": (pd.DataFrame(np.eye(3), index=[7, 8, 9]), lambda features: features.to_numpy().tolist()),
    "tokens": (TokenRows.from_lists([[1, 3, 3], [2, 3, 3], [3, 3, 1]]), lambda features: features.padded().tolist()),
}


@pytest.mark.parametrize(("features", "shown"), KINDS.values(), ids=KINDS.keys())
def test_rows__picked__come_in_the_order_asked_for(features, shown):
    rows = Rows(features, LABELS, 10 * LABELS)
    picked = rows[np.array([2, 0, 2])]
    assert (len(rows), len(picked)) == (3, 3)
    assert shown(picked.features) == [shown(features)[i] for i in (2, 0, 2)]
    assert picked.labels.tolist() == [[1, 1], [0, 1], [1, 1]]
    assert picked.base_logits.tolist() == [[10, 10], [0, 10], [10, 10]]
    assert shown(take(features, np.array([1]))) == [shown(features)[1]]
    assert len(rows[np.array([], dtype=int)]) == 0


def test_rows__parts_that_are_not_there__stay_away():
    picked = Rows(np.eye(3))[np.array([0])].as_type(np.float32)
    assert picked.labels is None
    assert picked.base_logits is None
    with pytest.raises(ValueError, match="no labels"):
        picked.observed()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows__as_type__changes_labels_and_base_logits_alone(dtype):
    features = np.eye(3, dtype=np.float16)
    rows = Rows(features, LABELS, LABELS).as_type(dtype)
    assert (rows.labels.dtype, rows.base_logits.dtype) == (dtype, dtype)
    assert rows.features is features
    np.testing.assert_array_equal(rows.observed(), LABELS)
