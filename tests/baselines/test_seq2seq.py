"""seq2seq as a classifier: order from training rows, and sets that only make sense together."""

import numpy as np
import pytest

from hotvae.baselines.seq2seq import Seq2Seq

SMALL = {
    "dim": 16,
    "decoder_dim": 32,
    "encoder_widths": (32,),
    "encoder_dropout": 0.0,
    "decoder_dropout": 0.0,
    "learning_rate": 0.01,
    "n_threads": 1,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def either_or():
    """Two labels of which every row has exactly one, at random; a third follows the feature."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 1))
    first = rng.random(400) < 0.5
    return X, np.column_stack([first, ~first, X[:, 0] > -1]).astype(int)


def test_order__learned_from_training_rows__survives_the_file(either_or, tmp_path):
    X, Y = either_or
    model = Seq2Seq(**SMALL, max_epochs=1, validation_fraction=0.0).fit(X, Y)
    expected = np.argsort(-Y.sum(axis=0), kind="stable")
    assert model.network_.order.tolist() == expected.tolist()
    model.save(tmp_path / "model")
    assert Seq2Seq.load(tmp_path / "model").network_.order.tolist() == expected.tolist()


def test_either_or__joint_model__never_both_and_never_none(either_or):
    """Marginals are one half each, but the sets found hold exactly one of the two."""
    X, Y = either_or
    model = Seq2Seq(**SMALL, max_epochs=12).fit(X, Y)
    import torch

    with torch.inference_mode():
        beam = model.network_.search(torch.from_numpy(model._scaled(X[:50])))
    weights = beam.log_probs.exp()
    exactly_one = beam.members[..., 0] != beam.members[..., 1]
    assert (weights * exactly_one).sum(-1).min() > 0.97
    assert np.abs(model.predict_proba(X)[:, 0] - 0.5).max() < 0.2


def test_beam_width__wider__changes_the_search_and_not_the_weights(either_or):
    X, Y = either_or
    narrow, wide = (
        Seq2Seq(**SMALL, max_epochs=2, beam_width=width, validation_fraction=0.0).fit(X, Y) for width in (1, 8)
    )
    for name, value in narrow.network_.state_dict().items():
        np.testing.assert_array_equal(value, wide.network_.state_dict()[name])
    assert not np.array_equal(narrow.predict_proba(X), wide.predict_proba(X))
