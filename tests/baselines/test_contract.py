"""What every model without a network keeps: scikit-learn's checks, files, gaps in labels, labels of one class."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from hotvae.baselines.chains import ChainEnsemble, LabelChain
from hotvae.baselines.mlknn import MLkNN
from hotvae.baselines.prevalence import Prevalence
from hotvae.baselines.ridge import GaussianKernelRidge, LinearRidge
from hotvae.baselines.scikit import BoostedTrees, ExtraTrees, LogisticLabels, RandomForest
from hotvae.baselines.sleec import SLEEC
from hotvae.checkpoint import seal
from hotvae.errors import ConfigError, DataError, ModelError
from hotvae.estimators.network import NetworkClassifier
from hotvae.estimators.per_label import label_rates
from hotvae.estimators.registry import CLASSIFIERS, find_classifier, load_model

SMALL = {"n_threads": 1, "random_state": 0}
MODELS = [
    Prevalence(**SMALL),
    MLkNN(n_neighbours=5, **SMALL),
    SLEEC(n_learners=1, n_neighbours=3, n_graph_neighbours=10, n_iterations=4, penalties=(0.01, 0.1), **SMALL),
    LinearRidge(penalties=(0.01, 1.0), **SMALL),
    GaussianKernelRidge(widths=(0.5, 1.0), penalties=(0.1, 1.0), **SMALL),
    LogisticLabels(penalties=(0.01, 0.1), **SMALL),
    LabelChain(n_draws=16, penalties=(0.01, 0.1), **SMALL),
    ChainEnsemble(n_chains=2, n_draws=16, penalties=(0.01, 0.1), **SMALL),
    RandomForest(n_trees=8, leaf_sizes=(1, 2), **SMALL),
    ExtraTrees(n_trees=8, leaf_sizes=(1, 2), **SMALL),
    BoostedTrees(max_rounds=15, learning_rate=0.3, min_leaf_rows=2, feature_share=1.0, **SMALL),
]
EACH = pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
WITH_GAPS = [model for model in MODELS if model.accepts_missing_labels]
WITHOUT_GAPS = [model for model in MODELS if not model.accepts_missing_labels]


def known_failures(estimator):
    if isinstance(estimator, Prevalence):
        return {"check_classifiers_train": "rates do not look at features: no accuracy is promised"}
    return {}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hotvae.errors.DataWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(MODELS, expected_failed_checks=known_failures)
def test_estimator__every_common_check__passes(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 6)).round(2)
    Y = (X[:, :3] @ rng.normal(size=(3, 4)) + 0.5 * rng.normal(size=(120, 4)) > 0.3).astype(float)
    return X, Y


@pytest.fixture(scope="module")
def bags(table):
    counts = np.maximum(table[0], 0)
    return sparse.csr_array(counts), table[1]


def log_loss(labels, probs):
    return -np.log(np.where(labels == 1, probs, 1 - probs)).mean()


@EACH
def test_classes__of_the_registry__tell_what_they_are(model):
    names = {find_classifier(name): name for name in CLASSIFIERS}
    assert type(model) in names
    assert model.citation != "none"
    assert model.cost != "not measured"
    assert ("gaps" in model.takes) == model.accepts_missing_labels
    assert not isinstance(model, NetworkClassifier)
    parameters = model.get_params()
    assert {"validation_fraction", "random_state", "n_threads", "progress"} <= set(parameters)
    assert type(model)().validation_fraction == 0.2


@pytest.mark.slow
@EACH
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_save__then_load__gives_the_same_bits(model, kind, table, bags, tmp_path):
    X, Y = table if kind == "dense" else bags
    fitted = clone(model).fit(X, Y)
    fitted.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert type(again) is type(model)
    np.testing.assert_array_equal(fitted.predict_proba(X), again.predict_proba(X))
    assert fitted.thresholds_ == again.thresholds_
    learned = {name for name in vars(fitted) if name.endswith("_")}
    assert learned == {name for name in vars(again) if name.endswith("_")} - {"extra_"}
    again.save(tmp_path / "copy")
    for file in ("config.json", "weights.safetensors"):
        assert (tmp_path / "copy" / file).read_bytes() == (tmp_path / "model" / file).read_bytes()


@EACH
def test_load__tensors_of_another_table__says_what_to_do(model, table, tmp_path):
    clone(model).fit(*table).save(tmp_path / "model")
    clone(model).fit(table[0][:, :3], table[1][:, :3]).save(tmp_path / "other")
    weights = (tmp_path / "other" / "weights.safetensors").read_bytes()
    (tmp_path / "model" / "weights.safetensors").write_bytes(weights)
    seal(tmp_path / "model")
    with pytest.raises(ModelError, match=r"must.*(train again|Restore)"):
        load_model(tmp_path / "model").predict_proba(table[0])


@EACH
def test_probs__better_than_the_rates__where_features_tell_something(model, table):
    X, Y = table
    probs = clone(model).fit(X[:90], Y[:90]).predict_proba(X[90:])
    assert probs.shape == (30, 4)
    assert ((probs >= 0) & (probs <= 1)).all()
    floor = log_loss(Y[90:], np.tile(label_rates(Y[:90]), (30, 1)))
    assert log_loss(Y[90:], probs.clip(1e-3, 1 - 1e-3)) < (floor + 0.03 if isinstance(model, Prevalence) else floor)


@EACH
def test_fit__same_seed__same_bits_whatever_the_batch(model, table):
    X, Y = table
    first, second = clone(model).fit(X, Y), clone(model).fit(X, Y)
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    one_by_one = np.vstack([first.predict_proba(X[i : i + 1]) for i in range(10)])
    np.testing.assert_allclose(one_by_one, first.predict_proba(X)[:10], atol=1e-12)


@EACH
def test_validation_rows__given__choose_and_are_not_learned_from(model, table):
    X, Y = table
    fitted = clone(model).fit(X[:80], Y[:80], validation=(X[80:], Y[80:]))
    assert set(fitted.thresholds_) >= {"macro_f1", "hamming_accuracy"}
    without = clone(model).set_params(validation_fraction=0.0).fit(X[:80], Y[:80])
    assert without.thresholds_ == {}
    assert without.predict_proba(X).shape == Y.shape


@pytest.mark.parametrize("model", WITH_GAPS, ids=lambda model: type(model).__name__)
def test_gaps__in_a_label__leave_the_other_labels_alone(model, table):
    """A label that was not observed in some rows is learned from the others; a full label is learned as ever."""
    X, Y = table
    gappy = Y.copy()
    gappy[:30, 0] = np.nan
    model = clone(model).set_params(validation_fraction=0.0)
    if type(model) in (LinearRidge, GaussianKernelRidge):
        model.set_params(penalties=(0.1,))
    full, partial = clone(model).fit(X, Y).predict_proba(X), clone(model).fit(X, gappy).predict_proba(X)
    if type(model) not in (RandomForest, ExtraTrees):  # their trees are about all labels of a pattern of gaps
        np.testing.assert_allclose(partial[:, 1:], full[:, 1:], atol=1e-9)
    assert not np.allclose(partial[:, 0], full[:, 0])
    assert np.isfinite(partial).all()


@pytest.mark.parametrize("model", WITHOUT_GAPS, ids=lambda model: type(model).__name__)
def test_gaps__where_the_method_cannot_have_them__are_refused(model, table):
    X, Y = table
    gappy = Y.copy()
    gappy[3, 1] = np.nan
    with pytest.raises(DataError, match=rf"observed for {type(model).__name__}; got NaN in 'label_1'.*takes gaps"):
        clone(model).fit(X, gappy, validation=(X, Y))


@pytest.mark.parametrize("model", WITHOUT_GAPS, ids=lambda model: type(model).__name__)
def test_gaps__in_validation_rows__are_left_out(model, table):
    X, Y = table
    gappy = Y.copy()
    gappy[80:100, 1] = np.nan
    fitted = clone(model).fit(X[:80], Y[:80], validation=(X[80:], gappy[80:]))
    assert fitted.thresholds_


@EACH
@pytest.mark.filterwarnings("ignore:labels must have both classes:hotvae.errors.DataWarning")
def test_label_of_one_class__among_others__keeps_its_rate(model, table, tmp_path):
    X, Y = table
    stuck = np.column_stack([Y[:, 0], np.zeros(len(Y)), np.ones(len(Y)), Y[:, 1]])
    fitted = clone(model).fit(X, stuck)
    probs = fitted.predict_proba(X)
    assert np.isfinite(probs).all()
    assert (probs[:, 1] < 0.2).all()
    assert (probs[:, 2] > 0.8).all()
    fitted.save(tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict_proba(X), probs)


@EACH
@pytest.mark.filterwarnings("ignore:labels must have both classes:hotvae.errors.DataWarning")
def test_table__of_labels_of_one_class_only__does_not_crash(model, table, tmp_path):
    X = table[0]
    fitted = clone(model).fit(X, np.zeros((len(X), 2)))
    assert (fitted.predict(X) == 0).all()
    fitted.save(tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict_proba(X), fitted.predict_proba(X))


@EACH
def test_one_dimensional_y__of_words__comes_back_as_words(model, table):
    X, Y = table
    words = np.array(["owl", "wren", "tern"])[(Y[:, 0] + Y[:, 1]).astype(int)]
    fitted = clone(model).fit(X, words)
    assert set(fitted.predict(X)) <= {"owl", "wren", "tern"}
    np.testing.assert_allclose(fitted.predict_proba(X).sum(axis=1), 1)


@EACH
def test_progress__as_lines__names_the_model(model, table, capsys):
    clone(model).set_params(progress="lines").fit(*table)
    shown = capsys.readouterr().err
    if type(model) in (Prevalence, MLkNN):
        assert shown == ""
    else:
        assert model.title in shown


@EACH
def test_constant_features__tell_nothing__and_give_rates(model, table):
    Y = table[1]
    probs = clone(model).fit(np.ones((120, 2)), Y).predict_proba(np.ones((3, 2)))
    assert np.isfinite(probs).all()
    np.testing.assert_array_equal(probs[0], probs[1])
    assert type(model) in (MLkNN, SLEEC) or abs(probs[0] - Y.mean(axis=0)).max() < 0.25


WRONG = [
    (MLkNN(n_neighbours=0), "n_neighbours must be a whole number of at least 1; got 0"),
    (MLkNN(smoothing=0.0), "smoothing must be a number above 0; got 0.0"),
    (SLEEC(n_learners=0), "n_learners must be a whole number of at least 1; got 0"),
    (SLEEC(dim=2.5), "dim must be a whole number of at least 1; got 2.5"),
    (SLEEC(sparsity=-1.0), "sparsity must be a number of at least 0; got -1.0"),
    (LinearRidge(penalties=()), r"penalties must hold at least one number; got \(\)"),
    (LinearRidge(penalties="1"), "penalties must hold at least one number; got '1'"),
    (GaussianKernelRidge(widths=(0.0,)), "each of widths must be a number above 0; got 0.0"),
    (GaussianKernelRidge(max_rows=0), "max_rows must be a whole number of at least 1; got 0"),
    (LogisticLabels(penalties=(np.inf,)), "each of penalties must be a number above 0; got inf"),
    (LabelChain(order="alphabet"), "order must be one of 'frequent', 'given', 'random'; got 'alphabet'"),
    (LabelChain(n_draws=0), "n_draws must be a whole number of at least 1; got 0"),
    (ChainEnsemble(n_chains=0), "n_chains must be a whole number of at least 1; got 0"),
    (RandomForest(leaf_sizes=()), r"leaf_sizes must hold at least one whole number; got \(\)"),
    (RandomForest(leaf_sizes=(1.5,)), "each of leaf_sizes must be a whole number of at least 1; got 1.5"),
    (RandomForest(max_features="log"), "max_features must be 'auto', 'sqrt' or a share; got 'log'"),
    (ExtraTrees(max_features=1.5), "max_features must be a share of at most 1; got 1.5"),
    (ExtraTrees(n_trees=0), "n_trees must be a whole number of at least 1; got 0"),
    (BoostedTrees(max_rounds=0), "max_rounds must be a whole number of at least 1; got 0"),
    (BoostedTrees(feature_share=2.0), "feature_share must be at most 1; got 2.0"),
    (BoostedTrees(max_leaves=1), "max_leaves must be a whole number of at least 2; got 1"),
    (BoostedTrees(learning_rate=0.0), "learning_rate must be a number above 0; got 0.0"),
]


@pytest.mark.parametrize(("model", "message"), WRONG, ids=lambda part: str(part)[:60])
def test_parameter__out_of_range__is_named(model, message, table):
    with pytest.raises(ConfigError, match=message):
        model.fit(*table)
