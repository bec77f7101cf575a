import json

import numpy as np
import pytest

from tests.regenerate import PATH, predictions

STORED = json.loads(PATH.read_text())


@pytest.fixture(scope="module")
def now():
    return predictions()


@pytest.mark.slow
@pytest.mark.parametrize("name", STORED["predictions"])
def test_reference__small_models_in_float64__predict_what_they_did(now, name):
    """After three epochs the order of sums in another BLAS is all that may differ."""
    np.testing.assert_allclose(now[name], STORED["predictions"][name], rtol=0, atol=1e-7)


@pytest.mark.slow
def test_reference__every_model__is_stored_with_a_reason(now):
    assert STORED["why"]
    assert set(STORED["predictions"]) == set(now)
