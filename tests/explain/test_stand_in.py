"""The stand-in: learns how a model answers to moved covariates, and says how well."""

import numpy as np
import pandas as pd
import pytest

from hotvae.explain import stand_in
from hotvae.explain.stand_in import learn_stand_in

WEIGHTS = np.array([[2.0, -1.0], [0.0, 1.5], [-1.0, 0.5]])


def asked(table):
    gates = table.to_numpy()
    return gates @ WEIGHTS + 0.5 * np.sin(3 * gates[:, :1]), gates


def moved(table, random):
    values = table.to_numpy().copy()
    which = random.integers(3, size=len(values))
    values[np.arange(len(values)), which] += random.uniform(-0.8, 0.8, len(values))
    return pd.DataFrame(values, columns=table.columns)


@pytest.mark.slow
def test_stand_in__smooth_model__explains_nearly_all_changes_and_its_error_is_that_of_new_rows():
    table = pd.DataFrame(np.random.default_rng(0).uniform(-1, 1, (700, 3)), columns=list("abc"))
    found = learn_stand_in(table, moved, asked, seed=1)
    assert found.explained > 0.97
    random = np.random.default_rng(9)
    before = pd.DataFrame(random.uniform(-1, 1, (300, 3)), columns=list("abc"))
    after = moved(before, random)
    (start, gates), (truth, moved_gates) = asked(before), asked(after)
    guess = start + found.logits(moved_gates) - found.logits(gates)
    probs = [1 / (1 + np.exp(-part)) for part in (start, truth, guess)]
    assert np.abs(probs[2] - probs[1]).mean() < 2 * found.error + 1e-3
    assert 0.7 < np.abs(probs[1] - probs[0]).mean() / found.size < 1.4
    assert found.error < 0.2 * found.size


def test_stand_in__same_seed__same_weights(monkeypatch):
    monkeypatch.setattr(stand_in, "_N_STEPS", 50)
    table = pd.DataFrame(np.random.default_rng(0).uniform(-1, 1, (60, 3)), columns=list("abc"))
    one, two = (learn_stand_in(table, moved, asked, seed=3) for _ in range(2))
    assert all(np.array_equal(a, b) for (a, _), (b, _) in zip(one.layers, two.layers, strict=True))
