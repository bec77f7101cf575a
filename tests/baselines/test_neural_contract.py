"""What every neural rival keeps: scikit-learn's checks, files that give the same bits, gaps in labels, its name."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from jaxtyping import TypeCheckError
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from hotvae.baselines.c2ae import C2AE
from hotvae.baselines.lamp import LaMP
from hotvae.baselines.mpvae import MPVAE
from hotvae.baselines.probit import ProbitJSDM
from hotvae.baselines.seq2seq import Seq2Seq
from hotvae.errors import ConfigError, DataError

# float64: several checks compare predictions to 1e-7. Small, short and without validation rows: the checks fit some
# hundred times; the other tests fit with them.
CHECKED = {
    "max_epochs": 5,
    "batch_size": 40,
    "validation_fraction": 0.0,
    "precision": "float64",
    "n_threads": 1,
    "random_state": 0,
}
SHORT = {"training__precision": "float32", "training__max_epochs": 2, "validation_fraction": 0.2}
MODELS = [
    C2AE.from_settings(
        encoder_widths=(32,),
        label_encoder_widths=(16,),
        decoder_widths=(16,),
        encoder_dropout=0.0,
        learning_rate=0.04,
        **CHECKED,
    ),
    Seq2Seq.from_settings(
        dim=16,
        decoder_dim=16,
        beam_width=4,
        encoder_widths=(32,),
        encoder_dropout=0.0,
        decoder_dropout=0.0,
        learning_rate=0.04,
        **CHECKED,
    ),
    LaMP.from_settings(
        n_parts=2,
        encoder_widths=(16,),
        dim=8,
        n_heads=2,
        n_layers=1,
        encoder_dropout=0.0,
        decoder_dropout=0.0,
        learning_rate=0.04,
        **CHECKED,
    ),
    MPVAE.from_settings(
        dim=8,
        rank=2,
        encoder_widths=(32,),
        label_encoder_widths=(16,),
        decoder_widths=(16,),
        encoder_dropout=0.0,
        learning_rate=0.04,
        **CHECKED,
    ),
    ProbitJSDM.from_settings(rank=2, learning_rate=0.2, **CHECKED),
]
EACH = pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hotvae.errors.DataWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(MODELS)
def test_estimator__every_common_check__passes(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    Y = (X @ rng.normal(size=(3, 4)) + 0.5 * rng.normal(size=(120, 4)) > 0).astype(int)
    return X, Y


@pytest.mark.slow
@EACH
def test_save_and_load__every_prediction__the_same_bits(model, table, tmp_path):
    fitted = clone(model).set_params(**SHORT).fit(*table)
    fitted.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    np.testing.assert_array_equal(fitted.predict_proba(table[0]), loaded.predict_proba(table[0]))
    np.testing.assert_array_equal(fitted.transform(table[0]), loaded.transform(table[0]))
    assert loaded.history_.records == fitted.history_.records
    assert loaded.thresholds_ == fitted.thresholds_
    if model.conditional:
        known = np.where(np.arange(4) < 2, table[1], np.nan)
        np.testing.assert_array_equal(*(m.predict_proba(table[0], given=known) for m in (fitted, loaded)))
        np.testing.assert_array_equal(*(m.sample(table[0], 2, 5, given=known) for m in (fitted, loaded)))


@pytest.mark.slow
@EACH
def test_learning__linear_labels__most_cells_right(model, table):
    X, Y = table
    fitted = clone(model).set_params(training__max_epochs=40).fit(X[:90], Y[:90])
    assert (fitted.predict(X[90:]) == Y[90:]).mean() > 0.8


@EACH
def test_labels_with_gaps__masked_or_refused_by_name(model, table):
    X, Y = table
    gaps = pd.DataFrame(Y.astype(float), columns=["wren", "owl", "frog", "newt"])
    gaps.loc[::3, "owl"] = math.nan
    gaps.loc[1] = math.nan
    if not model.accepts_missing_labels:
        with pytest.raises(DataError, match=r"labels must all be observed for Seq2Seq; got NaN in 'wren', 'owl'"):
            clone(model).fit(X, gaps)
        return
    fitted = clone(model).set_params(**SHORT).fit(X, gaps)
    assert np.isfinite(fitted.predict_proba(X)).all()
    assert np.isfinite(fitted.history_.column("loss")).all()


@EACH
def test_unobserved_cells__what_stands_there__changes_nothing(model, table):
    """A row without any observed label trains as if it were not there: the loss of the other rows is the same."""
    if not model.accepts_missing_labels:
        pytest.skip("this method takes no gaps in labels; that it refuses them is tested elsewhere")
    X, Y = table
    labels = np.vstack([Y[:40].astype(float), np.full((8, 4), np.nan)])
    settings = {"training__max_epochs": 1, "training__batch_size": 48, "features__scaling": "none"}
    losses = []
    for filler in (0.0, 100.0):
        features = np.vstack([X[:40], np.full((8, 3), filler)])
        fitted = clone(model).set_params(**settings).fit(features, labels)
        losses.append(fitted.history_.records[0]["loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)


@EACH
def test_sparse_features__csr_array__same_model_as_csr_matrix(model, table):
    X = np.where(table[0] > 0, table[0], 0)
    small = clone(model).set_params(training__max_epochs=2)
    probs = [
        clone(small).fit(kind(X), table[1]).predict_proba(kind(X)) for kind in (sparse.csr_array, sparse.csr_matrix)
    ]
    np.testing.assert_array_equal(*probs)


@EACH
def test_latent_space__named_columns__as_many_as_names(model, table):
    fitted = clone(model).set_params(training__max_epochs=1).set_output(transform="pandas").fit(*table)
    latent = fitted.transform(table[0])
    assert latent.shape[0] == 120
    assert all(name.startswith("latent_") for name in latent.columns)


@EACH
def test_words_about_the_model__title_citation_inputs_cost__are_there(model):
    for name in ("title", "citation", "takes", "cost"):
        assert isinstance(getattr(type(model), name), str)
    assert any(year in model.citation for year in ("2017", "2019", "2020", "2021"))


def test_names__of_all_models__differ():
    assert len({model.title for model in MODELS}) == len(MODELS)


@EACH
def test_shapes__labels_of_other_rows__are_refused_by_the_network(model, table):
    network = clone(model).set_params(training__max_epochs=1).fit(*table).network_
    with pytest.raises(TypeCheckError):
        network.loss(torch.zeros(5, 3).double(), torch.zeros(4, 4).double())


WRONG = [
    (C2AE, "latent_share", 0, "latent_share must be a number above 0; got 0"),
    (C2AE, "ranking_weight", -1, "ranking_weight must be a number of at least 0; got -1"),
    (C2AE, "decoder_widths", (0,), r"decoder_widths must be a tuple of whole numbers from 1 to 65,536; got \(0,\)"),
    (Seq2Seq, "beam_width", 0, "beam_width must be a whole number of at least 1; got 0"),
    (Seq2Seq, "decoder_dim", 2.5, "decoder_dim must be a whole number of at least 1; got 2.5"),
    (LaMP, "graph", "tree", "graph must be one of 'complete', 'cooccurrence', 'edgeless', 'none', 'prior'; got 'tree'"),
    (LaMP, "intermediate_weight", math.nan, "intermediate_weight must be a number of at least 0; got nan"),
    (LaMP, "n_parts", 0, "n_parts must be a whole number of at least 1; got 0"),
    (LaMP, "encoder", "graph", "encoder must be .*; got 'graph'"),
    (MPVAE, "rank", 0, "rank must be a whole number of at least 1; got 0"),
    (ProbitJSDM, "covariance_epochs", -1, "covariance_epochs must be a whole number of at least 0; got -1"),
    (MPVAE, "kl_weight", "much", "kl_weight must be a number of at least 0; got 'much'"),
    (ProbitJSDM, "mean", "cubic", "mean must be one of 'linear', 'mlp'; got 'cubic'"),
    (ProbitJSDM, "rank", True, "rank must be a whole number of at least 1; got True"),
    (ProbitJSDM, "encoder_widths", "wide", "encoder_widths must be a tuple of whole numbers from 1 to 65,536"),
]


@pytest.mark.parametrize(("cls", "name", "value", "message"), WRONG, ids=[f"{kind[1]}={kind[2]}" for kind in WRONG])
def test_parameters__that_do_not_fit__are_named(cls, name, value, message, table):
    with pytest.raises(ConfigError, match=message):
        cls().set_params(**{name: value}).fit(*table)
