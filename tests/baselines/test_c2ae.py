"""C2AE as a classifier: the width of its code, and a ranking that a single label cannot have."""

import numpy as np
import pytest

from hotvae.baselines.c2ae import C2AE
from hotvae.metrics import log_loss

SMALL = {
    "encoder_widths": (32,),
    "label_encoder_widths": (16,),
    "decoder_widths": (16,),
    "learning_rate": 0.01,
    "n_threads": 1,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    return X, (X @ rng.normal(size=(3, 10)) > 0).astype(int)


def test_code__four_fifths_of_the_labels__as_in_the_paper(table):
    model = C2AE(**SMALL, max_epochs=1).fit(*table)
    assert model.transform(table[0]).shape == (200, 8)
    assert list(model.get_feature_names_out()) == [f"latent_{i}" for i in range(8)]


@pytest.mark.parametrize(("n_labels", "width"), [(1, 1), (2, 2), (6, 5)])
def test_code__few_labels__at_least_one_wide(table, n_labels, width):
    model = C2AE(**SMALL, max_epochs=1).fit(table[0], table[1][:, :n_labels])
    assert model.transform(table[0][:2]).shape == (2, width)


def test_single_label__nothing_to_rank__learned_by_cross_entropy(table):
    X, Y = table
    model = C2AE(**SMALL, max_epochs=20).fit(X[:150], Y[:150, :1])
    assert (model.predict(X[150:]) == Y[150:, :1]).mean() > 0.85


def test_terms__weights_of_the_paper__cross_entropy_stays_out(table):
    model = C2AE(**SMALL, bce_weight=0.0, max_epochs=2).fit(*table)
    record = model.history_.records[0]
    parts = (
        model.alignment_weight * record["loss_alignment"] + model.orthogonality_weight * record["loss_orthogonality"]
    )
    assert record["loss"] == pytest.approx(parts + model.ranking_weight * record["loss_ranking"], rel=1e-5)


def test_cross_entropy__beside_the_ranking__makes_probabilities_of_scores(table):
    X, Y = table
    losses = {
        weight: log_loss(
            Y[150:], C2AE(**SMALL, bce_weight=weight, max_epochs=20).fit(X[:150], Y[:150]).predict_proba(X[150:])
        )
        for weight in (0.0, C2AE().bce_weight)
    }
    assert losses[C2AE().bce_weight] < losses[0.0] - 0.02


def test_codes__after_training__meet(table):
    """The feature code explains most of the label code: distance far below the spread of the code."""
    model = C2AE(**SMALL, max_epochs=30, encoder_dropout=0.0).fit(*table)
    records = model.history_.records
    assert records[-1]["loss_alignment"] < 0.4 * 8  # 8 units of second moment 1 each
    assert records[-1]["loss_orthogonality"] < records[0]["loss_orthogonality"]
