"""Response curves, importance and the parts of deviance: known functions, known answers."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit

from hotvae.errors import ConfigError, DataError
from hotvae.explain import (
    correlated_groups,
    deviance_partition,
    permutation_importance,
    response_curves,
    response_surface,
)


class Additive:
    """Logits add up over features; the second label listens to the first when it is told."""

    label_names_ = np.array(["a", "b"])

    def __init__(self, slopes, link=0.0):
        self.slopes, self.link = slopes, link

    def predict_proba(self, X, given=None):
        logit = sum(slope * X[name].to_numpy(dtype=float) for name, slope in self.slopes.items())
        logits = np.column_stack([logit, np.zeros(len(X))])
        if given is not None:
            logits[:, 1] += self.link * np.nan_to_num(2 * np.asarray(given)[:, 0] - 1)
            logits[:, 0] += self.link * np.nan_to_num(2 * np.asarray(given)[:, 1] - 1)
        return expit(logits)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"wet": rng.normal(size=300), "cold": rng.normal(size=300), "noise": rng.normal(size=300)})


def test_response_curves__one_feature_alone__is_the_function_itself(rows):
    table = response_curves(Additive({"wet": 2.0}), rows, ["wet"], n_points=7)
    curve = table[table["label"] == "a"]
    np.testing.assert_allclose(curve["probability"], expit(2 * curve["value"].astype(float)))
    np.testing.assert_allclose(curve["lower"], curve["upper"])  # the other features do not matter
    assert curve["value"].min() == pytest.approx(rows["wet"].quantile(0.01))
    assert curve["value"].max() == pytest.approx(rows["wet"].quantile(0.99))
    assert len(table) == 14


def test_response_curves__two_features__is_the_mean_over_rows(rows):
    model = Additive({"wet": 1.0, "cold": 1.0})
    table = response_curves(model, rows, ["wet"], n_points=3, max_rows=1000)
    point = table[table["label"] == "a"].iloc[1]
    by_hand = np.mean([expit(point["value"] + cold) for cold in rows["cold"]])
    assert point["probability"] == pytest.approx(by_hand)
    assert point["lower"] < by_hand < point["upper"]


def test_response_curves__several_models__are_averaged_and_widen(rows):
    models = [Additive({"wet": slope}) for slope in (-1.0, 1.0, 2.0)]
    point = response_curves(models, rows, ["wet"], n_points=2).query("label == 'a'").iloc[-1]
    value = point["value"]
    assert point["probability"] == pytest.approx(np.mean([expit(-value), expit(value), expit(2 * value)]))
    assert point["upper"] - point["lower"] > 0.3


def test_response_curves__levels_and_whole_numbers__keep_their_kind():
    class Soil:
        label_names_ = ("a",)

        def predict_proba(self, X):
            assert X["soil"].dtype == "category"
            return np.where(X[["soil"]] == "clay", 0.9, 0.2)

    rows = pd.DataFrame({"soil": pd.Categorical(["clay", "sand", None]), "count": [1, 2, 9]})
    table = response_curves(Soil(), rows, ["soil", "count"], n_points=2)
    assert table["value"].tolist()[:2] == ["clay", "sand"]
    assert table["probability"].tolist()[:2] == pytest.approx([0.9, 0.2])


def test_response_surface__product__counts_the_rows_behind_each_cell():
    class Product:
        label_names_ = ("a",)

        def predict_proba(self, X):
            return X[:, [0]] * X[:, [1]]

    X = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]])
    table = response_surface(Product(), X, ("feature_0", "feature_1"))
    assert table["probability"].tolist() == [0, 0, 0, 1]
    assert table["n_rows"].tolist() == [1, 0, 0, 2]


def test_permutation_importance__stronger_feature__comes_first_and_noise_is_zero(rows):
    model = Additive({"wet": 3.0, "cold": 1.0, "noise": 0.0})
    labels = np.random.default_rng(1).random((300, 2)) < model.predict_proba(rows)
    table = permutation_importance(model, rows, labels)
    overall = table[table["label"] == "all labels"]
    assert overall["group"].tolist() == ["wet", "cold", "noise"]
    assert overall["importance"].iloc[2] == 0.0
    own = table[table["label"] == "b"]
    assert (own["importance"] == 0).all()  # no feature acts on it
    first = table[(table["label"] == "a") & (table["group"] == "wet")].iloc[0]
    # Over both labels, of which one does not care, half of it.
    assert overall["importance"].iloc[0] == pytest.approx(first["importance"] / 2)
    assert first["lower"] <= first["importance"] <= first["upper"]


def test_permutation_importance__twins__matter_only_together(rows):
    """A model that needs either of two copies loses little by one alone."""
    twins = rows.assign(twin=rows["wet"])

    class Either:
        label_names_ = ("a",)

        def predict_proba(self, X):
            return np.where((X["wet"] > 0) | (X["twin"] > 0), 0.95, 0.05)[:, None]

    labels = (twins[["wet"]] > 0).to_numpy()
    groups = {"wet": ["wet"], "both": ["wet", "twin"]}
    table = permutation_importance(Either(), twins, labels, groups=groups).query("label == 'all labels'")
    found = table.set_index("group")["importance"]
    assert found["both"] > 1.5 * found["wet"]
    assert correlated_groups(twins)["wet + twin"] == ["wet", "twin"]


def test_deviance_partition__all_parts__sum_to_the_null_deviance(rows):
    rng = np.random.default_rng(2)
    model = Additive({"wet": 2.0, "cold": 1.0}, link=2.0)
    labels = rng.random((300, 2)) < model.predict_proba(rows)
    table = deviance_partition(model, rows, labels, space=["cold"])
    for label in ("a", "b", "all labels"):
        own = table[table["label"] == label].set_index("part")
        assert own["share"].sum() == pytest.approx(1.0)
    own = table[table["label"] == "a"].set_index("part")
    rate = labels[:, 0].mean()
    null = -2 * (rate * np.log(rate) + (1 - rate) * np.log(1 - rate))
    assert own["deviance"].sum() == pytest.approx(null)
    assert own["deviance"]["environment"] > own["deviance"]["space"] > 0
    assert own["deviance"]["other labels"] < 0  # told a link that the labels do not have


def test_deviance_partition__linked_labels__are_explained_by_each_other(rows):
    rng = np.random.default_rng(3)
    first = rng.random(300) < 0.5
    labels = np.column_stack([first, np.where(rng.random(300) < expit(2.0), first, ~first)])
    table = deviance_partition(Additive({"wet": 0.0}, link=2.0), rows, labels)
    overall = table[table["label"] == "all labels"].set_index("part")["share"]
    # One half of the labels is told at a time: each of the two is told the other.
    expected = 1 + (expit(2.0) * np.log(expit(2.0)) + expit(-2.0) * np.log(expit(-2.0))) / np.log(2)
    assert overall["other labels"] == pytest.approx(expected, abs=0.08)
    assert overall["environment"] == pytest.approx(0.0, abs=0.01)


def test_deviance_partition__model_without_given__leaves_other_labels_out(rows):
    class Plain:
        label_names_ = ("a", "b")

        def predict_proba(self, X):
            return np.full((len(X), 2), 0.5)

    table = deviance_partition(Plain(), rows, np.zeros((300, 2)))
    assert set(table["part"]) == {"environment", "unexplained"}
    assert table["share"].isna().all()  # labels that never occur have no deviance to explain


def test_deviance_partition__gaps__are_not_counted(rows):
    labels = np.random.default_rng(0).random((300, 2)).round()
    labels[200:] = np.nan
    model = Additive({"wet": 0.0})
    table = deviance_partition(model, rows, labels)
    full = deviance_partition(model, rows.iloc[:200], labels[:200])
    pd.testing.assert_frame_equal(table, full)


def test_responses__wrong_input__says_what_does_not_fit(rows):
    model = Additive({"wet": 1.0})
    with pytest.raises(ConfigError, match=r"feature must be one of 'wet', 'cold', 'noise'; got 'dry'"):
        response_curves(model, rows, ["dry"])
    with pytest.raises(ConfigError, match="n_points must be a whole number of at least 2; got 1"):
        response_curves(model, rows, n_points=1)
    with pytest.raises(ConfigError, match="model must be a fitted model or several; got none"):
        response_curves([], rows)
    with pytest.raises(DataError, match="X must be a dense table for this; got a sparse one"):
        response_curves(model, sparse.csr_array(np.eye(3)))
    with pytest.raises(DataError, match="X must have rows; got none"):
        response_curves(model, rows.iloc[:0], ["wet"])
    with pytest.raises(DataError, match="feature must have values; got none in 'wet'"):
        response_curves(model, rows.assign(wet=np.nan), ["wet"])
    for function in (permutation_importance, deviance_partition):
        with pytest.raises(DataError, match="labels must have the rows of X, 300; got 3"):
            function(model, rows, np.zeros((3, 2)))
