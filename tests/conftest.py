"""What every test shares: the global generators start from the same seed."""

import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True)
def _seed():
    np.random.seed(0)  # noqa: NPY002  # what third-party code without a generator of its own draws from
    torch.manual_seed(0)
