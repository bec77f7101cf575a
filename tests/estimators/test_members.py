"""Members of a stack."""

import numpy as np
import pytest
import torch

from hotvae.estimators.members import RidgeMember


@pytest.mark.parametrize(("n_features", "n_labels"), [(6, 4), (17, 8), (33, 11), (7, 1), (8, 20)])
def test_ridge__row_anywhere_in_its_batch__same_bits(n_features, n_labels):
    """Few labels and a width that 4 does not divide: sums would come in another order from row to row."""
    draw = np.random.default_rng(1)
    weights = torch.from_numpy(draw.normal(size=(n_labels, n_features)).astype(np.float32))
    member = RidgeMember(weights, torch.from_numpy(draw.normal(size=n_labels).astype(np.float32)))
    rows = draw.normal(size=(300, n_features)).astype(np.float32)
    together = member.logits(rows)
    assert together.shape == (300, n_labels)
    np.testing.assert_allclose(together, rows @ weights.numpy().T + member.intercepts.numpy(), atol=1e-5)
    for order in (np.arange(300)[::-1], draw.permutation(300), np.arange(5, 300), np.array([7])):
        np.testing.assert_array_equal(member.logits(rows[order]), together[order])
