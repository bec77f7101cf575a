"""scikit-learn's own estimator checks, and the tools of scikit-learn that users combine with ours."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from hotvae import HotVAEClassifier, HotVAENetwork, JointClassifier, PlainNetClassifier
from hotvae.estimators import hotvae
from hotvae.estimators.recipe import Plan

# float64: several checks compare predictions to 1e-7. Small sizes: the checks fit some hundred times.
CHECKED = {
    "encoder_widths": (32,),
    "encoder_dropout": 0.0,
    "max_epochs": 8,
    "batch_size": 32,
    "learning_rate": 0.04,
    "precision": "float64",
    "n_threads": 1,
    "random_state": 0,
}
# What is learned after the network, of given labels and whole communities, is tested elsewhere.
SMALL = {"encoder_widths": (16,), "max_epochs": 3, "n_threads": 1, "random_state": 0}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hotvae.errors.DataWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        HotVAENetwork.from_settings(
            dim=8,
            n_layers=1,
            label_encoder_widths=(8,),
            decoder_dropout=0.0,
            **CHECKED,
        ),
        PlainNetClassifier.from_settings(dim=8, **CHECKED),
    ]
)
def test_estimator__every_common_check__passes(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hotvae.errors.DataWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([HotVAEClassifier(joint=False, random_state=0)])
def test_default__every_common_check__passes(estimator, check, monkeypatch):
    """With the smallest of plans: the checks fit some hundred times, and how well it learns is tested elsewhere."""
    monkeypatch.setattr(hotvae, "plan_for", lambda *size: Plan(2, 20, 1, 1, 1, 1, 0.1, 3, 32, 5e-3))
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hotvae.errors.DataWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [JointClassifier(base=DecisionTreeClassifier(max_depth=4), cv=2, law_effort=0.1, random_state=0)]
)
def test_law_on_a_base__every_common_check__passes(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    Y = (X @ rng.normal(size=(3, 4)) + rng.normal(size=(120, 4)) > 0).astype(int)
    return X, Y


def test_grid_search__over_depth__finds_a_setting(table):
    search = GridSearchCV(HotVAENetwork.from_settings(**SMALL), {"n_layers": [1, 2]}, cv=2).fit(*table)
    assert search.best_params_["n_layers"] in (1, 2)
    assert search.predict(table[0]).shape == (120, 4)


def test_cross_val_predict__probabilities__one_row_each(table):
    probs = cross_val_predict(HotVAENetwork.from_settings(**SMALL), *table, cv=3, method="predict_proba")
    assert probs.shape == (120, 4)
    assert ((probs > 0) & (probs < 1)).all()


def test_pipeline__with_pandas_output__passes_names_on(table):
    frame = pd.DataFrame(table[0], columns=["warm", "wet", "high"])
    pipeline = make_pipeline(StandardScaler(), HotVAENetwork.from_settings(**SMALL)).set_output(transform="pandas")
    pipeline.fit(frame, table[1])
    assert list(pipeline[-1].feature_names_in_) == ["warm", "wet", "high"]
    latent = pipeline.transform(frame)
    assert isinstance(latent, pd.DataFrame)
    assert latent.columns[0] == "latent_0"


def test_set_output__on_the_classifier__frames_its_latent_space(table):
    model = HotVAENetwork.from_settings(dim=8, **SMALL).set_output(transform="pandas").fit(*table)
    assert list(model.transform(table[0]).columns) == [f"latent_{i}" for i in range(8)]


def test_clone__of_a_fitted_model__fits_to_the_same_weights(table):
    model = HotVAENetwork.from_settings(**SMALL).fit(*table)
    again = clone(model).fit(*table)
    np.testing.assert_array_equal(model.predict_proba(table[0]), again.predict_proba(table[0]))


def test_pickle__of_a_fitted_model__predicts_the_same_bits(table):
    model = HotVAENetwork.from_settings(**SMALL).fit(*table)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(model.predict_proba(table[0]), copy.predict_proba(table[0]))


def test_sparse_rows__csr_matrix_and_array__same_model(table):
    models = [
        HotVAENetwork.from_settings(**SMALL).fit(kind(table[0]), table[1])
        for kind in (sparse.csr_matrix, sparse.csr_array)
    ]
    probs = [model.predict_proba(sparse.csr_array(table[0])) for model in models]
    np.testing.assert_array_equal(*probs)


def test_cross_val_score__labels_with_gaps__works_with_kfold():
    """Scikit-learn's own choice of folds looks at y, and refuses gaps before a model sees them."""
    from sklearn.model_selection import KFold, cross_val_score

    from hotvae.baselines.ridge import LinearRidge

    X = np.random.default_rng(0).normal(size=(60, 2))
    y = (X > 0).astype(float)
    y[::7, 0] = np.nan
    assert (cross_val_score(LinearRidge(random_state=0), X, y, cv=KFold(3)) > 0.8).all()
    assert "cv=KFold(5)" in LinearRidge.fit.__doc__
