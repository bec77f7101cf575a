"""Predictions as frames with names."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from hotvae import Dataset, ThresholdTuner, evaluate
from hotvae.baselines.ridge import LinearRidge
from hotvae.errors import ConfigError


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(60, 3)), columns=["a", "b", "c"], index=[f"site{i}" for i in range(60)])
    return X, pd.DataFrame({"owl": X["a"] > 0, "wren": X["b"] > 0}).astype(int)


def test_set_output__pandas__names_labels_and_rows(table):
    X, y = table
    model = LinearRidge(random_state=0).fit(X, y)
    plain, decided = model.predict_proba(X), model.predict(X)
    assert isinstance(plain, np.ndarray)
    named = model.set_output(predict="pandas").predict_proba(X)
    pd.testing.assert_frame_equal(named, pd.DataFrame(plain, index=X.index, columns=["owl", "wren"]))
    pd.testing.assert_frame_equal(model.predict(X), pd.DataFrame(decided, index=X.index, columns=["owl", "wren"]))
    assert model.score(X, y) == LinearRidge(random_state=0).fit(X, y).score(X, y)
    assert evaluate(y.to_numpy(), named, 0.5)["macro_f1"] == evaluate(y.to_numpy(), plain, 0.5)["macro_f1"]
    assert isinstance(model.set_output(predict="default").predict_proba(X), np.ndarray)


def test_set_output__of_a_copy__stays_as_in_scikit_learn(table):
    X, y = table
    copy = clone(LinearRidge(random_state=0).set_output(transform="pandas"))
    assert list(copy.fit(X, y).predict_proba(X)) == ["owl", "wren"]
    tuner = ThresholdTuner(LinearRidge(random_state=0).set_output(predict="pandas")).fit(X, y)
    assert tuner.predict(X).shape == (60, 2)


def test_set_output__rows_of_a_dataset__are_named_by_their_ids(table):
    X, y = table
    data = Dataset(X.reset_index(drop=True), y.reset_index(drop=True), row_names=X.index)
    model = LinearRidge(random_state=0).fit(data).set_output(predict="pandas")
    assert model.predict_proba(data.take([4, 2])).index.tolist() == ["site4", "site2"]


def test_set_output__classes__are_named_too(table):
    X, _ = table
    model = LinearRidge(random_state=0).fit(X, np.where(X["a"] > 0, "wet", "dry")).set_output(predict="pandas")
    assert list(model.predict_proba(X)) == ["dry", "wet"]
    assert model.predict(X).dtype.kind in "OU"


def test_set_output__unknown_form__is_refused():
    with pytest.raises(ConfigError, match="predict must be one of 'default', 'pandas'; got 'polars'"):
        LinearRidge().set_output(predict="polars")
