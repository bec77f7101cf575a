"""The law on any base: what it is composed of, what it learns, what it refuses."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit, logit
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier

from hotvae import Dataset, HotVAENetwork, JointClassifier
from hotvae.baselines.prevalence import Prevalence
from hotvae.config import MessagesConfig
from hotvae.errors import ConfigError, DataError, ModelError
from hotvae.estimators.joint_law import JointLaw
from hotvae.estimators.stacked import law_line
from hotvae.net.messages import Messages


def make_table(n_rows=300, seed=0):
    """The features say something of the first label; the second is mostly as the first, the third mostly not."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 3))
    first = random.random(n_rows) < expit(2 * X[:, 0])
    second, third = first ^ (random.random(n_rows) < 0.05), ~first ^ (random.random(n_rows) < 0.05)
    return X, np.column_stack([first, second, third]).astype(float)


@pytest.fixture(scope="module")
def table():
    return make_table()


@pytest.fixture(scope="module")
def model(table):
    base = DecisionTreeClassifier(max_depth=3, min_samples_leaf=10, random_state=0)
    return JointClassifier(base=base, cv=3, random_state=0).fit(*table)


def test_marginals__of_a_tree__are_those_of_the_tree_on_all_rows_with_a_temperature_and_a_bias(table, model):
    X, Y = table
    tree = DecisionTreeClassifier(max_depth=3, min_samples_leaf=10, random_state=0).fit(X, Y.astype(int))
    odds = logit(np.clip(np.column_stack([part[:, 1] for part in tree.predict_proba(X)]), 1e-5, 1 - 1e-5))
    stack = model.stack_
    expected = expit(stack.temperature * stack.weights[0] * odds + stack.bias)
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-5)
    assert len(model.members_) == 1


def test_known_labels__of_labels_that_go_together__move_the_others(model):
    X, Y = make_table(200, seed=1)
    given = np.full(Y.shape, np.nan)
    given[:, 0] = Y[:, 0]
    probs = model.predict_proba(X, given=given)
    assert (probs[:, 0] == Y[:, 0]).all()
    assert ((probs[:, 1] > 0.5) == (Y[:, 0] == 1)).mean() > 0.95
    assert ((probs[:, 2] > 0.5) == (Y[:, 0] == 0)).mean() > 0.95


def test_log_likelihood__of_labels_that_go_together__is_far_above_independence(model):
    X, Y = make_table(200, seed=1)
    probs = model.predict_proba(X).astype(float)
    alone = np.log(np.where(Y == 1, probs, 1 - probs)).sum(axis=1)
    assert (model.log_likelihood(X, Y) - alone).mean() > 0.5


def test_sample__whole_sets__go_together_as_the_rows_do(model):
    X, Y = make_table(100, seed=1)
    draws = model.sample(X, n_draws=50, random_state=0)
    assert (draws[..., 0] == draws[..., 1]).mean() == pytest.approx((Y[:, 0] == Y[:, 1]).mean(), abs=0.07)
    assert (draws[..., 0] == draws[..., 2]).mean() == pytest.approx((Y[:, 0] == Y[:, 2]).mean(), abs=0.07)


def test_left_out__of_a_base_that_knows_its_rows_by_heart__are_not_what_it_was_shown():
    """A full tree is certain of every row that it has seen; held out it cannot be right of labels that are dice."""
    random = np.random.default_rng(0)
    X, Y = random.normal(size=(120, 2)), (random.random((120, 2)) < 0.5).astype(float)
    model = JointClassifier(base=DecisionTreeClassifier(random_state=0), cv=3, law_effort=0.2, random_state=0).fit(X, Y)
    assert ((np.asarray(model.left_out_) > 0.5) == Y).mean() < 0.65
    assert np.abs(np.asarray(model.left_out_) - 0.5).max() < 0.25  # the temperature knows how little it says


def test_folds__of_groups__hold_out_whole_groups(table):
    X, Y = table
    groups = np.arange(300) // 30
    model = JointClassifier(base=DummyClassifier(), cv=3, law_effort=0.1, random_state=0).fit(X, Y, groups=groups)
    assert model.recipe_.folds == "3 folds of whole groups"
    folds = model.out_of_fold_.folds
    assert all(len(set(folds[groups == group])) == 1 for group in range(10))


def test_coordinates__of_a_data_set__hold_out_blocks_of_the_map(table):
    X, Y = table
    places = np.random.default_rng(0).uniform(size=(300, 2))
    data = Dataset(X, Y, feature_names=["a", "b", "c"], label_names=["x", "y", "z"], coordinates=places)
    model = JointClassifier(base=DummyClassifier(), cv=3, law_effort=0.1, random_state=0).fit(data)
    assert model.recipe_.folds == "3 folds of whole blocks of the map"
    assert list(model.label_names_) == ["x", "y", "z"]
    assert model.predict_proba(data).shape == (300, 3)


def test_labels_with_gaps__base_of_ours_takes_them__others_are_refused(table):
    X, Y = table
    gaps = Y.copy()
    gaps[:20, 0] = np.nan
    with pytest.raises(ConfigError, match="base must be one of our own where labels have gaps; got DummyClassifier"):
        JointClassifier(base=DummyClassifier(), cv=2).fit(X, gaps)
    model = JointClassifier(base=Prevalence(), cv=2, law_effort=0.2, random_state=0).fit(X, gaps)
    assert np.isfinite(model.log_likelihood(X, gaps)).all()


def test_classes__one_column__have_no_law(table):
    X, Y = table
    model = JointClassifier(base=DecisionTreeClassifier(max_depth=2), cv=2, random_state=0).fit(X, Y[:, 0])
    assert model.law_ is None
    assert model.predict(X[:3]).shape == (3,)
    with pytest.raises(ConfigError, match="given must go with a table of labels"):
        model.predict_proba(X, given=Y)


def test_same_seed__twice__same_model(table):
    X, Y = table
    models = [JointClassifier(base=Prevalence(), cv=2, law_effort=0.2, random_state=3).fit(X, Y) for _ in range(2)]
    given = np.where(np.arange(3) == 0, Y, np.nan)
    np.testing.assert_array_equal(*(model.predict_proba(X, given=given) for model in models))


def test_save__base_of_scikit_learn__says_why_not(tmp_path, model):
    with pytest.raises(ModelError, match="base must be one of hotvae's own to be saved; got DecisionTreeClassifier"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"base": LinearRegression()}, "base must be a classifier with predict_proba; got LinearRegression"),
        ({"cv": 1}, "cv must be a whole number of at least 2; got 1"),
        ({"law_effort": 0}, "law_effort must be"),
        ({"hold_out": "years"}, "hold_out must be one of"),
    ],
)
def test_parameters__not_allowed__are_named(settings, words, table):
    with pytest.raises(ConfigError, match=words):
        JointClassifier(**settings).fit(*table)


def test_log_likelihood__other_rows__says_so(table, model):
    with pytest.raises(DataError, match="y must have the rows of X, 300; got 2"):
        model.log_likelihood(table[0], table[1][:2])


def test_sparse_rows__with_long_indices__are_taken_by_trees(table):
    X, Y = table
    rows = sparse.csr_array((X > 0).astype(float))
    rows.indices, rows.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    model = JointClassifier(
        base=DecisionTreeClassifier(max_depth=2, random_state=0), cv=2, law_effort=0.1, random_state=0
    )
    assert model.fit(rows, Y).predict_proba(rows).shape == (300, 3)


def test_frame__with_a_column_of_words__is_made_numbers_for_the_base(table):
    X, Y = table
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=np.where(X[:, 0] > 0, "wet", "dry"))
    model = JointClassifier(base=DecisionTreeClassifier(max_depth=2), cv=2, law_effort=0.1, random_state=0)
    assert model.fit(frame, Y).predict(frame[:4]).shape == (4, 3)


@pytest.mark.slow
def test_base__hotvaes_network__is_given_what_it_has_not_by_itself(table):
    """Its own draws are independent; with the law on top, labels that go together do so."""
    network = HotVAENetwork.from_settings(encoder_widths=(8,), dim=8, max_epochs=3, random_state=0)
    model = JointClassifier(base=network, cv=2, random_state=0).fit(*table)
    X, _ = make_table(200, seed=1)
    alone, told = model.predict_proba(X), model.predict_proba(X, given=np.tile([1, np.nan, np.nan], (200, 1)))
    assert (told[:, 1] > alone[:, 1]).mean() > 0.95
    assert (told[:, 2] < alone[:, 2]).mean() > 0.95
    draws = model.sample(X, 50, random_state=0)
    assert (draws[..., 0] == draws[..., 1]).mean() > 0.8


@pytest.mark.parametrize(("share", "told"), [(1.0, "on rows held out, -0.5"), (0.2, "after 20% of the training, -0.5")])
def test_law_line__chosen_before_its_training_was_over__says_so(share, told):
    chosen = {"chosen": True, "share_of_epochs": share, "nll": 0.25, "independent": 0.5}
    line = law_line(JointLaw(Messages(2, 1, MessagesConfig()), 2, [chosen]))
    assert line.startswith("labels together: 2 rounds of messages; joint log likelihood per label -0.2500 on rows held")
    assert told in line
