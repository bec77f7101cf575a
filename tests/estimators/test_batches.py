"""What a model says of a row does not depend on the other rows of its batch."""

import numpy as np
import pytest

from hotvae.estimators.registry import CLASSIFIERS, find_classifier

SMALL = {
    "hotvae": {"effort": "quick"},
    "hotvae_network": {"encoder_widths": (16,), "dim": 16, "n_layers": 1, "max_epochs": 2},
    "plain": {"encoder_widths": (16,), "max_epochs": 2},
    "mpvae": {"max_epochs": 2},
    "lamp": {"encoder_widths": (16,), "dim": 16, "n_layers": 1, "max_epochs": 2},
    "seq2seq": {"max_epochs": 2},
    "c2ae": {"max_epochs": 2},
    "probit": {"max_epochs": 2},
}

# Sums of float32 products come in another order in a batch of another size: the last digits differ.
NEARLY = {"hotvae", "hotvae_network", "plain", "mpvae", "lamp", "seq2seq", "c2ae", "probit"}


@pytest.fixture(scope="module")
def rows():
    draw = np.random.default_rng(3)
    X = draw.normal(size=(150, 6))
    return X, (X[:, :4] + 0.5 * draw.normal(size=(150, 4)) > 0).astype(float)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_predict_proba__row_in_any_batch__is_the_same(name, rows):
    X, y = rows
    model = find_classifier(name).from_settings(random_state=0, **SMALL.get(name, {})).fit(X, y)
    together = model.predict_proba(X)
    apart = np.concatenate([model.predict_proba(X[place : place + size]) for place, size in ((0, 1), (1, 7), (8, 142))])
    backwards = model.predict_proba(X[::-1])[::-1]
    most = max(np.abs(together - apart).max(), np.abs(together - backwards).max())
    assert most <= (1e-6 if name in NEARLY else 0.0), f"{name}: {most:.3g}"
