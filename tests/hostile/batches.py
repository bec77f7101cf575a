"""How far a prediction of a row depends on the rows that are predicted with it."""

import warnings
from typing import Any

import numpy as np

from hotvae.estimators.registry import find_classifier

_EPOCHS = {"max_epochs": 2}
SMALL: dict[str, dict[str, Any]] = {
    "hotvae": {"effort": "quick"},
    "hotvae_network": {"encoder_widths": (16,), "dim": 16, "n_layers": 1, **_EPOCHS},
    "plain": {"encoder_widths": (16,), **_EPOCHS},
    "mpvae": _EPOCHS,
    "lamp": {"encoder_widths": (16,), "dim": 16, "n_layers": 1, **_EPOCHS},
    "seq2seq": _EPOCHS,
    "c2ae": _EPOCHS,
    "probit": _EPOCHS,
}
"""Settings that make a model quick to fit; the path of its prediction is the usual one."""


def largest_difference(name: str) -> float:
    """Fit a model, and return how far probabilities of rows differ alone, in other company and in another order.

    Parameters
    ----------
    name : str
        Short name of the model.

    Returns
    -------
    float
        0 if they are equal in every bit.
    """
    draw = np.random.default_rng(3)
    X = draw.normal(size=(150, 6))
    y = (X[:, :4] + 0.5 * draw.normal(size=(150, 4)) > 0).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few rows and epochs
        model = find_classifier(name).from_settings(random_state=0, **SMALL.get(name, {})).fit(X, y)
    together = model.predict_proba(X)
    apart = np.concatenate([model.predict_proba(X[place : place + size]) for place, size in ((0, 1), (1, 7), (8, 142))])
    backwards = model.predict_proba(X[::-1])[::-1]
    return float(max(np.abs(together - apart).max(), np.abs(together - backwards).max()))
