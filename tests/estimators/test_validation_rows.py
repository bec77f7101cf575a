"""Validation rows: no member is shown them, and they weigh the members together with the rows held out in folds."""

import numpy as np
from sklearn.dummy import DummyClassifier

from hotvae import HotVAEClassifier, JointClassifier
from hotvae.estimators.stack import fit_stack, logit_loss


def _table(seed, n_rows, slope):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 3))
    Y = (random.random((n_rows, 4)) < 1 / (1 + np.exp(-slope * X[:, :1] - random.normal(size=(n_rows, 1))))).astype(int)
    return X, Y


def test_stack__validation_given__is_that_of_folds_and_validation_together():
    train, held = _table(0, 240, 2.0), _table(1, 120, 2.0)
    model = HotVAEClassifier(effort="quick", random_state=0).fit(*train, validation=held)
    own = model._member_logits(model._read(held[0]))
    for kept, said in zip(model.member_logits_, own, strict=True):
        assert kept.shape == (360, 4)
        np.testing.assert_allclose(kept[240:], said, rtol=1e-5, atol=1e-5)
    by_hand = fit_stack(model.member_logits_, np.vstack([train[1], held[1]]).astype(float))
    np.testing.assert_allclose(model.stack_.weights, by_hand.weights, atol=1e-3)
    assert model.left_out_.shape == (240, 4)


def test_stack__validation_where_labels_are_common__moves_towards_it():
    X, Y = _table(0, 200, 0.0)
    rare = np.where(np.arange(200)[:, None] % 10 == 0, Y, 0)
    held = X, np.ones_like(Y)
    base = DummyClassifier(strategy="prior")
    without = JointClassifier(base=base, cv=2, random_state=0).fit(X, rare)
    with_rows = JointClassifier(base=base, cv=2, random_state=0).fit(X, rare, validation=held)
    assert (with_rows.predict_proba(X[:1]) > without.predict_proba(X[:1]) + 0.1).all()
    assert logit_loss(held[1].astype(float), with_rows._logits(with_rows._read(X))) < logit_loss(
        held[1].astype(float), without._logits(without._read(X))
    )


def test_members__validation_given__are_those_of_the_training_rows_alone():
    train, held = _table(0, 240, 2.0), _table(1, 120, 2.0)
    without = HotVAEClassifier(effort="quick", random_state=0, joint=False).fit(*train)
    with_rows = HotVAEClassifier(effort="quick", random_state=0, joint=False).fit(*train, validation=held)
    for one, other in zip(without._member_logits(held[0]), with_rows._member_logits(held[0]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_law__validation_given__learns_from_those_rows_too():
    train, held = _table(0, 240, 2.0), _table(1, 120, 2.0)
    rows = HotVAEClassifier(effort="quick", random_state=0).fit(*train, validation=held).out_of_fold_
    assert rows.labels.shape == rows.logits.shape == (360, 4)
    assert len(rows.gates) == 360
    assert set(rows.folds[240:]) == {rows.folds[:240].max() + 1}
