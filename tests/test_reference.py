import json

import numpy as np
import pytest

from tests.regenerate import MODELS, PATH, predictions


@pytest.fixture(scope="module")
def now():
    return predictions()


@pytest.mark.parametrize("name", MODELS)
def test_reference__small_models_in_float64__predict_what_they_did(now, name):
    """After three epochs the order of sums in another BLAS is all that may differ."""
    stored = json.loads(PATH.read_text())["predictions"]
    np.testing.assert_allclose(now[name], stored[name], rtol=0, atol=1e-7)


def test_reference__every_model__is_stored_with_a_reason():
    content = json.loads(PATH.read_text())
    assert content["why"]
    assert set(content["predictions"]) == set(MODELS)
