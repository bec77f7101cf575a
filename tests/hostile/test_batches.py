"""What a model says of a row does not depend on the other rows of its batch."""

import pytest

from hotvae.estimators.registry import CLASSIFIERS
from tests.hostile.batches import largest_difference

# Sums of products come in another order in a batch of another size: last digits of float32 and float64 may differ.
FLOAT32 = {"hotvae_network", "plain", "mpvae", "lamp", "seq2seq", "c2ae", "probit"}
FLOAT64 = {"kernel_ridge", "logistic", "chain", "chain_ensemble", "ridge"}


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_predict_proba__row_in_any_batch__is_the_same(name):
    assert largest_difference(name) <= (1e-6 if name in FLOAT32 else 1e-14 if name in FLOAT64 else 0.0)
