"""What every test shares: one thread for its small tensors, and generators that start from the same seed."""

import numpy as np
import pytest
import torch
from hypothesis import settings

# A busy machine makes any single example slow; whether it is right does not depend on that.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

# On tensors this small, threads that wait for each other cost far more than they save.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seed():
    np.random.seed(0)  # noqa: NPY002  # what third-party code without a generator of its own draws from
    torch.manual_seed(0)
