import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multioutput import MultiOutputClassifier

from hotvae import HotVAENetwork, ThresholdTuner
from hotvae.errors import ConfigError, DataError
from hotvae.estimators.threshold_tuner import label_probs
from hotvae.metrics import macro_f1, score


class Fixed(ClassifierMixin, BaseEstimator):
    """A classifier whose probabilities are its features."""

    def fit(self, X, y):
        self.classes_ = [0, 1]
        return self

    def predict_proba(self, X):
        return np.asarray(X)


@pytest.fixture
def rare():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    Y = (X + rng.normal(size=X.shape) > 1.5).astype(int)
    return X, Y


def test_thresholds__on_given_rows__maximise_the_metric_there():
    """.2 and .3 are present, .1 is absent: the cuts .15 and .2 are perfect, and .2 is nearer to one half."""
    probs = np.array([[0.1], [0.2], [0.3]])
    tuner = ThresholdTuner(Fixed().fit(probs, None), cv="prefit").fit(probs, np.array([[0], [1], [1]]))
    assert tuner.thresholds_ == 0.2
    np.testing.assert_array_equal(tuner.predict(probs).ravel(), [0, 1, 1])
    assert tuner.validation_scores_["macro_f1"] == 1.0


def test_thresholds__per_label__each_its_own():
    probs = np.array([[0.1, 0.6], [0.2, 0.7], [0.3, 0.9]])
    labels = np.array([[0, 0], [1, 0], [1, 1]])
    one = ThresholdTuner(Fixed().fit(probs, None), cv="prefit").fit(probs, labels)
    each = ThresholdTuner(Fixed().fit(probs, None), cv="prefit", per_label=True).fit(probs, labels)
    assert macro_f1(labels, each.predict(probs)) == 1.0 > macro_f1(labels, one.predict(probs))
    assert each.thresholds_.shape == (2,)


def test_fit__held_out_share__estimator_never_sees_the_rows_that_choose(rare):
    X, Y = rare
    tuner = ThresholdTuner(ExtraTreesClassifier(20, random_state=0), cv=0.25, random_state=0).fit(X, Y)
    assert tuner.estimator_.estimators_[0].tree_.n_node_samples[0] <= 0.76 * len(X)
    assert tuner.thresholds_ < 0.5


@pytest.mark.parametrize("cv", [3, KFold(3)])
def test_fit__folds__choose_on_unseen_rows_and_train_on_all(rare, cv):
    X, Y = rare
    tuner = ThresholdTuner(ExtraTreesClassifier(20, random_state=0), cv=cv, random_state=0).fit(X, Y)
    assert tuner.estimator_.estimators_[0].tree_.n_node_samples[0] == len(X)
    assert tuner.validation_scores_["n_rows"] == len(X)
    assert tuner.validation_scores_["macro_f1"] < 0.99  # trees know their own training rows by heart


def test_predict__tuned_for_rare_labels__beats_one_half(rare):
    X, Y = rare
    plain = MultiOutputClassifier(LogisticRegression()).fit(X[:300], Y[:300])
    tuner = ThresholdTuner(plain, random_state=0).fit(X[:300], Y[:300])
    assert tuner.score(X[300:], Y[300:]) > macro_f1(Y[300:], plain.predict(X[300:])) + 0.02


def test_label_probs__label_with_one_class__keeps_its_certainty():
    forest = ExtraTreesClassifier(5, random_state=0).fit([[0.0], [1.0]], [[0, 1, 0], [1, 1, 0]])
    np.testing.assert_array_equal(label_probs(forest, [[1.0]]), [[1, 1, 0]])


def test_tuner__around_hotvae__with_frames_and_missing_labels(rare):
    X, Y = rare
    frame = pd.DataFrame(X, columns=list("abc"))
    labels = Y.astype(float)
    labels[::7, 1] = np.nan
    inner = HotVAENetwork.from_settings(encoder_widths=(8,), max_epochs=2, dim=8, random_state=0, n_threads=1)
    tuner = ThresholdTuner(inner, metric="micro_f1", random_state=0).fit(frame, labels)
    assert list(tuner.feature_names_in_) == ["a", "b", "c"]
    assert tuner.predict(frame).shape == Y.shape
    assert tuner.predict_proba(frame).shape == Y.shape


def test_tuner__in_a_grid_search__is_cloned_and_scored(rare):
    X, Y = rare
    search = GridSearchCV(
        ThresholdTuner(ExtraTreesClassifier(10, random_state=0), random_state=0),
        {"metric": ["macro_f1", "hamming_accuracy"]},
        cv=2,
    ).fit(X, Y)
    assert search.best_params_["metric"] in ("macro_f1", "hamming_accuracy")
    assert clone(search.best_estimator_).metric == search.best_params_["metric"]


def test_validation_score__equals_the_best_over_all_thresholds(rare):
    X, Y = rare
    forest = ExtraTreesClassifier(20, random_state=0).fit(X[:200], Y[:200])
    tuner = ThresholdTuner(forest, cv="prefit").fit(X[200:], Y[200:])
    best = score(Y[200:], label_probs(forest, X[200:]), "macro_f1")
    assert (tuner.validation_scores_["macro_f1"], tuner.thresholds_) == (best.value, best.threshold)


def test_fit__what_does_not_fit__errors_name_it(rare):
    X, Y = rare
    forest = ExtraTreesClassifier(5)
    with pytest.raises(ConfigError, match="metric"):
        ThresholdTuner(forest, metric="log_loss").fit(X, Y)
    with pytest.raises(ConfigError, match="label by label for per_label=True"):
        ThresholdTuner(forest, metric="example_f1", per_label=True).fit(X, Y)
    with pytest.raises(ConfigError, match="cv must be a share"):
        ThresholdTuner(forest, cv="later").fit(X, Y)
    with pytest.raises(DataError, match=r"y must be a table of labels .* got shape \(400,\)"):
        ThresholdTuner(forest).fit(X, Y[:, 0])
    with pytest.raises(NotFittedError):
        ThresholdTuner(forest, cv="prefit").fit(X, Y)
    with pytest.raises(NotFittedError):
        ThresholdTuner(forest).predict(X)
    with pytest.raises(ConfigError, match="sample_weight"):
        ThresholdTuner(forest, random_state=0).fit(X, Y).score(X, Y, sample_weight=np.ones(400))
