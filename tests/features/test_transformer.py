"""What every transformer keeps to: scikit-learn's contract, what it says it gives, a state in JSON."""

import inspect
import json

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from hotvae import HotVAENetwork, PlainNetClassifier, Training
from hotvae.errors import ConfigError, ModelError
from hotvae.features import (
    TRANSFORMERS,
    ActiveColumns,
    AtomTokens,
    BagOfWords,
    ElementPresence,
    FeatureScaler,
    RowTransformer,
    TextTokens,
    TokenRows,
)
from hotvae.features.transformer import OtherTransformer

TABLE = np.random.default_rng(0).integers(0, 2, size=(12, 4)).astype(float)
TEXTS = ["wheat rose", "wheat fell", "corn fell"] * 4
MOLECULES = ["CCO", "c1ccccc1Cl", "CN"] * 4
# Each with settings other than the defaults, and training rows.
KINDS = {
    "mlp": (FeatureScaler("robust", clamp=True, spatial_units=2, spatial_columns=(0, 1), landmarks=3), TABLE),
    "set": (ActiveColumns(max_tokens=3), TABLE),
    "text": (TextTokens(max_tokens=1, min_word_count=1, max_words=2), TEXTS),
    "bag": (BagOfWords("binary", min_word_count=1, max_words=2), TEXTS),
    "smiles": (AtomTokens(max_tokens=2), MOLECULES),
    "elements": (ElementPresence(), MOLECULES),
}
WRONG = [
    (FeatureScaler, "scaling", "z"),
    (FeatureScaler, "clamp", 1),
    (FeatureScaler, "spatial_units", -1),
    (FeatureScaler, "spatial_columns", (1,)),
    (FeatureScaler, "landmarks", 2.5),
    (ActiveColumns, "max_tokens", 0),
    (TextTokens, "max_tokens", 0),
    (TextTokens, "min_word_count", "2"),
    (TextTokens, "max_words", -1),
    (BagOfWords, "weights", "bm25"),
    (BagOfWords, "min_word_count", 0),
    (AtomTokens, "bonds", 1),
    (AtomTokens, "max_tokens", True),
]
EVERY_KIND = pytest.mark.parametrize(("name", "transformer", "rows"), [(name, *rest) for name, rest in KINDS.items()])


def plain(out):
    """Whatever a transformer returns, as a table."""
    if isinstance(out, TokenRows):
        return out.padded()
    return out.toarray() if sparse.issparse(out) else out


def test_transformers__each_kind_of_row__has_one():
    assert {name: type(transformer) for name, (transformer, _) in KINDS.items()} == TRANSFORMERS


@EVERY_KIND
def test_transformer__parameters__stored_as_given_and_cloned(name, transformer, rows):
    names = list(inspect.signature(type(transformer)).parameters)
    assert sorted(transformer.get_params()) == sorted(names)
    copy = clone(clone(transformer).fit(rows))
    assert copy is not transformer
    assert copy.get_params() == transformer.get_params()
    assert copy.feature_names_in == (), "a clone has learned nothing"
    for key, value in transformer.get_params().items():
        assert getattr(type(transformer)().set_params(**{key: value}), key) is value


@EVERY_KIND
def test_transformer__fitted_again__forgets_the_first_rows(name, transformer, rows):
    once = clone(transformer).fit(rows[:6])
    twice = clone(transformer).fit(rows).fit(rows[:6])
    assert once.state() == twice.state()
    np.testing.assert_array_equal(plain(once.transform(rows)), plain(twice.transform(rows)))


@EVERY_KIND
def test_transformer__targets_and_fit_transform__as_scikit_learn_calls_them(name, transformer, rows):
    alone = clone(transformer).fit(rows)
    with_targets = clone(transformer).fit(rows, np.ones(12))
    assert alone.state() == with_targets.state()
    np.testing.assert_array_equal(plain(clone(transformer).fit_transform(rows)), plain(alone.transform(rows)))


@EVERY_KIND
def test_transformer__names__only_by_their_own_argument(name, transformer, rows):
    given = [f"column {i}" for i in range(4)] if name in ("mlp", "set") else ["column"]
    assert clone(transformer).fit(rows, feature_names=given).feature_names_in == tuple(given)
    with pytest.raises(TypeError, match="positional"):
        clone(transformer).fit(rows, None, given)


@EVERY_KIND
def test_transformer__what_it_says__is_what_it_gives(name, transformer, rows):
    out = clone(transformer).fit(rows).transform(rows)
    expected = {"set": "tokens", "text": "ordered tokens", "smiles": "ordered tokens"}.get(name, "numbers")
    assert transformer.gives == expected
    assert isinstance(out, TokenRows) == (transformer.gives != "numbers")
    assert transformer.is_column == (name not in ("mlp", "set"))
    if transformer.is_column:
        frame = pd.DataFrame({"column": rows})
        assert transformer.read_column(frame).tolist() == list(rows)
    else:
        with pytest.raises(NotImplementedError):
            transformer.read_column(rows)
    width = clone(transformer).fit(rows).n_features_out
    assert plain(out).max() < width if transformer.gives != "numbers" else out.shape[1] == width


@EVERY_KIND
def test_transformer__state_through_json__has_the_parameters_too(name, transformer, rows):
    fitted = clone(transformer).fit(rows)
    again = type(fitted).from_state(json.loads(json.dumps(fitted.state())))
    np.testing.assert_array_equal(plain(again.transform(rows)), plain(fitted.transform(rows)))
    assert again.get_params() == fitted.get_params()


@pytest.mark.parametrize(("kind", "name", "value"), WRONG)
def test_transformer__setting_that_is_not_allowed__taken_and_refused_in_fit(kind, name, value):
    transformer = kind(**{name: value})
    assert transformer.get_params()[name] is value
    rows = next(rows for other, rows in KINDS.values() if type(other) is kind)
    for refuse in (transformer.check_parameters, lambda: transformer.fit(rows)):
        with pytest.raises(ConfigError, match=rf"^{name} must .*; got .*{value!r}".replace("(1,)", r"\(1,\)")):
            refuse()


@pytest.mark.parametrize("kind", [TextTokens, BagOfWords, ActiveColumns, AtomTokens])
def test_transformer__numbers_of_numpy__are_stored_too(kind):
    rows = next(rows for other, rows in KINDS.values() if type(other) is kind)
    names = {"max_tokens", "min_word_count", "max_words"} & set(kind().get_params())
    fitted = kind(**{name: np.int64(1) for name in names}).fit(rows)
    assert json.loads(json.dumps(fitted.state())) == fitted.state()


def test_transformer__in_a_pipeline__learns_from_training_rows():
    labels = np.array([1, 1, 0] * 4)
    assert make_pipeline(BagOfWords("binary"), LogisticRegression()).fit(TEXTS, labels).score(TEXTS, labels) == 1.0
    assert make_pipeline(FeatureScaler(), LogisticRegression()).fit(TABLE, TABLE[:, 0]).score(TABLE, TABLE[:, 0]) == 1.0


# Other people's -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_other_transformer__dense__that_of_scikit_learn_in_our_number_type(dtype):
    ours = OtherTransformer(PCA(2)).fit(TABLE[:8])
    expected = PCA(2).fit(TABLE[:8]).transform(TABLE)
    found = ours.transform(TABLE, dtype)
    assert (found.dtype, ours.n_features_out, ours.gives) == (dtype, 2, "numbers")
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_other_transformer__sparse__stays_sparse():
    found = OtherTransformer(TfidfTransformer()).fit(sparse.csr_array(TABLE)).transform(sparse.csr_array(TABLE))
    assert (sparse.issparse(found), found.format, found.dtype) == (True, "csr", np.float32)


def test_other_transformer__the_one_given__is_left_untrained():
    given = StandardScaler()
    OtherTransformer(given).fit(TABLE)
    assert not hasattr(given, "mean_")
    assert clone(OtherTransformer(PCA(2))).transformer.n_components == 2


@pytest.mark.parametrize("cls", [HotVAENetwork, PlainNetClassifier])
def test_classifier__any_transformer_of_scikit_learn__feeds_the_network(cls, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"soil": rng.choice(list("abc"), 60), "bank": rng.choice(list("xy"), 60)})
    labels = np.column_stack([frame["soil"] == "a", frame["bank"] == "x"]).astype(int)
    given = OneHotEncoder()
    training = Training(max_epochs=100, learning_rate=0.01)
    model = cls(features=given, training=training, encoder_widths=(16,), random_state=0).fit(frame, labels)
    assert isinstance(model.features_, RowTransformer)
    assert model.features_.n_features_out == 5
    assert not hasattr(given, "categories_")
    np.testing.assert_array_equal(model.predict(frame), labels)
    with pytest.raises(ModelError, match=r"features must be a transformer of hotvae\.features to be saved; got Other"):
        model.save(tmp_path / "model")
