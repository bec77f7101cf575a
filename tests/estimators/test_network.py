"""Every kind of input through the classifiers: odd rows, company, files, and tasks that only its encoder can learn."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.base import clone

from hotvae import HotVAENetwork, PlainNetClassifier, load_model
from hotvae.config import NetConfig
from hotvae.errors import ConfigError, DataError, DataWarning
from hotvae.estimators import network
from hotvae.features import TRANSFORMERS
from hotvae.features.molecules import AtomTokens, ElementPresence
from hotvae.features.scaling import FeatureScaler
from hotvae.features.text import BagOfWords, TextTokens
from hotvae.features.tokens import ActiveColumns
from hotvae.metrics import macro_f1

try:
    import rdkit
except ImportError:
    rdkit = None
BONDS = pytest.mark.skipif(rdkit is None, reason="RDKit is not installed: pip install rdkit")

SMALL = {
    "dim": 8,
    "encoder_widths": (16,),
    "max_epochs": 2,
    "n_threads": 1,
    "random_state": 0,
    "device": "cpu",
}
# What is learned after the network, of given labels and whole communities, is tested elsewhere.
CLASSIFIERS = pytest.mark.parametrize("cls", [HotVAENetwork, PlainNetClassifier])
N_ROWS = 90
RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 2, size=(N_ROWS, 3))
# Rows of very different lengths, so that padding is all over the place.
COLUMNS = sparse.csr_array((RNG.random((N_ROWS, 40)) < RNG.random((N_ROWS, 1)) ** 3).astype(np.float64))
TEXTS = np.array([" ".join(RNG.choice(list("abcdefghij"), size=n)) for n in RNG.integers(0, 24, N_ROWS)], dtype=object)
MOLECULES = np.array(["".join(RNG.choice(list("CCCNO"), size=n)) for n in RNG.integers(1, 24, N_ROWS)], dtype=object)
TABLE = RNG.normal(size=(N_ROWS, 4))
KINDS = {
    "mlp": (TABLE, {}, FeatureScaler),
    "mlp, robust": (TABLE, {"scaling": "robust"}, FeatureScaler),
    "mlp, quantile": (TABLE, {"scaling": "quantile"}, FeatureScaler),
    "set": (COLUMNS, {"encoder": "set"}, ActiveColumns),
    "text": (TEXTS, {"encoder": "text"}, TextTokens),
    "bag": (TEXTS, {"encoder": "bag"}, BagOfWords),
    "smiles": (MOLECULES, {"encoder": "smiles"}, AtomTokens),
    "smiles, bonds": (MOLECULES, {"encoder": "smiles", "bonds": True}, AtomTokens),
    "elements": (MOLECULES, {"encoder": "elements"}, ElementPresence),
}
EVERY_KIND = pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=BONDS if "bonds" in kind else ()) for kind in KINDS]
)


def fitted(cls, kind, **changes):
    X, parameters, _ = KINDS[kind]
    return cls.from_settings(**SMALL, **parameters, **changes).fit(X, LABELS), X


# Every kind -----------------------------------------------------------------------------------------------


@CLASSIFIERS
@EVERY_KIND
def test_kind__fitted_saved_and_loaded__same_bits_alone_and_in_company(cls, kind, tmp_path):
    model, X = fitted(cls, kind)
    assert type(model.features_) is KINDS[kind][2]
    probs = model.predict_proba(X)
    assert probs.shape == (N_ROWS, 3)
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X), probs)
    latent = model.transform(X)
    assert latent.shape == (N_ROWS, 8)
    np.testing.assert_array_equal(again.transform(X), latent)
    some = np.array([17, 3, 88])
    np.testing.assert_array_equal(model.predict_proba(X[some]), probs[some])
    for row in some[:1]:
        np.testing.assert_array_equal(model.predict_proba(X[row : row + 1]), probs[row : row + 1])
        np.testing.assert_array_equal(model.transform(X[row : row + 1]), latent[row : row + 1])


@pytest.mark.parametrize("kind", ["text", "smiles"])
def test_kind__no_rows__no_predictions(kind):
    model, X = fitted(PlainNetClassifier, kind)
    assert model.predict_proba(X[:0]).shape == (0, 3)


@CLASSIFIERS
def test_settings__of_every_transformer__have_names_of_their_own(cls):
    names = cls.all_settings()
    for kind in TRANSFORMERS.values():
        assert set(kind().get_params()) <= set(names)
    assert cls()._config(NetConfig) == NetConfig()
    current = cls.from_settings(max_epochs=3).current_settings()
    assert current["max_epochs"] == 3
    assert {name: current[name] for name in ("dim", "scaling", "patience")} == {
        name: names[name] for name in ("dim", "scaling", "patience")
    }


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"scaling": "log"}, "scaling must be one of 'standard', 'robust', 'quantile', 'auto', 'none'; got 'log'"),
        ({"encoder": "set", "max_tokens": 0}, "max_tokens must be a whole number of at least 1; got 0"),
        ({"encoder": "mlp", "max_words": 5}, "max_words must be left out with encoder 'mlp', whose rows have no such"),
        ({"label_encoder": "lstm"}, "label_encoder must be one of 'mlp', 'tokens'; got 'lstm'"),
    ],
)
def test_fit__impossible_setting__error_names_it(setting, message):
    with pytest.raises(ConfigError, match=message):
        HotVAENetwork.from_settings(**{**SMALL, **setting}).fit(COLUMNS, LABELS)


# Training rows only ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["text", "bag", "smiles", "elements", "set"])
def test_fit__validation_rows__never_reach_the_vocabulary(kind):
    X, parameters, _ = KINDS[kind]
    new = {"text": ["zzz zzz", "zzz"], "bag": ["zzz zzz", "zzz"], "smiles": ["BrI", "[Na+]"], "elements": ["BrI", "F"]}
    held = new.get(kind, sparse.csr_array(np.ones((2, 40))))
    model = PlainNetClassifier.from_settings(**SMALL, **parameters).fit(X, LABELS, validation=(held, LABELS[:2]))
    alone = PlainNetClassifier.from_settings(**SMALL, **parameters, validation_fraction=0.0).fit(X, LABELS)
    assert model.features_.state() == alone.features_.state()


def test_fit__rows_held_out__never_reach_the_vocabulary():
    """Each text has a word of its own: only those of rows that train are known."""
    texts = np.array([f"common own{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(N_ROWS)], dtype=object)
    model = PlainNetClassifier.from_settings(**SMALL, encoder="text", min_word_count=1).fit(texts, LABELS)
    assert len(model.features_.words) == 1 + N_ROWS - round(0.2 * N_ROWS)


# Forms of a column ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["text", "bag", "smiles", "elements"])
def test_column__list_series_array_or_frame__same_model(kind):
    model, X = fitted(PlainNetClassifier, kind)
    probs = model.predict_proba(X)
    assert model.n_features_in_ == 1
    assert not hasattr(model, "feature_names_in_")
    for form in (list(X), pd.Series(X, index=range(5, 5 + N_ROWS)), X.astype(str), pd.DataFrame({"any": X})):
        np.testing.assert_array_equal(model.predict_proba(form), probs)
    again = clone(model).fit(pd.DataFrame({"any": X}), LABELS)
    np.testing.assert_array_equal(again.predict_proba(X), probs)


def test_column__of_a_frame__keeps_its_name(tmp_path):
    frame = pd.DataFrame({"body": TEXTS})
    model = PlainNetClassifier.from_settings(**SMALL, encoder="text").fit(frame, LABELS)
    assert model.feature_names_in_.tolist() == ["body"]
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.feature_names_in_.tolist() == ["body"]
    with pytest.raises(DataError, match="column must be 'body', as in training; got 'title'"):
        again.predict(frame.rename(columns={"body": "title"}))
    assert not hasattr(model.fit(TEXTS, LABELS), "feature_names_in_")


@pytest.mark.parametrize("kind", ["text", "bag", "smiles", "elements"])
def test_column__that_is_none__error(kind):
    what = "texts" if kind in ("text", "bag") else "SMILES"
    with pytest.raises(DataError, match=rf"{what} must be one column; got shape \(90, 4\)"):
        PlainNetClassifier.from_settings(**SMALL, encoder=kind).fit(TABLE, LABELS)
    with pytest.raises(DataError, match=rf"{what} must be str; got .* \(rows 0, 1, 2, 3, 4, \+85 more\)"):
        PlainNetClassifier.from_settings(**SMALL, encoder=kind).fit(TABLE[:, 0], LABELS)


# Odd rows -------------------------------------------------------------------------------------------------


def test_text__empty_missing_or_unknown__predicted_as_documented():
    model, _ = fitted(HotVAENetwork, "text")
    with pytest.warns(DataWarning, match=r"texts must not be missing; got none in 1 rows \(rows 1\)"):
        probs = model.predict_proba(["", None, "?!", "quux", "zyx", "a quux", "a"])
    np.testing.assert_array_equal(probs[1:3], probs[[0, 0]])  # nothing said
    np.testing.assert_array_equal(probs[3], probs[4])  # one unknown word is like another
    assert (probs[0] != probs[3]).any()
    assert (probs[5] != probs[6]).any()


def test_bag__empty_or_unknown__are_the_same_row_of_zeros():
    model, _ = fitted(HotVAENetwork, "bag")
    probs = model.predict_proba(["", "quux", "a quux", "a"])
    np.testing.assert_array_equal(probs[0], probs[1])
    np.testing.assert_array_equal(probs[2], probs[3])


def test_set__no_active_column__predicted_and_unlike_others():
    model, _ = fitted(HotVAENetwork, "set")
    rows = np.zeros((3, 40))
    rows[2, 5] = 1
    probs = model.predict_proba(rows)
    np.testing.assert_array_equal(probs[0], probs[1])
    assert (probs[0] != probs[2]).any()
    np.testing.assert_array_equal(model.predict_proba(sparse.csr_array(rows)), probs)


@pytest.mark.parametrize("kind", ["smiles", pytest.param("smiles, bonds", marks=BONDS), "elements"])
def test_molecule__unreadable__warned_of_with_the_users_row_and_predicted_as_unknown(kind):
    X, parameters, _ = KINDS[kind]
    broken = X.copy()
    broken[[4, 70]] = "C((", "no molecule"
    with pytest.warns(DataWarning, match=r"2 such molecules \(rows 4, 70\) are taken as unknown"):
        model = PlainNetClassifier.from_settings(**SMALL, **parameters).fit(broken, LABELS)
    with pytest.warns(DataWarning, match=r"1 such molecules \(rows 1\) are taken as unknown"):
        probs = model.predict_proba(["CCO", "C((", ""])
    np.testing.assert_array_equal(probs[1], probs[2])
    assert (probs[0] != probs[1]).any()


@BONDS
def test_molecule__bonds__do_not_depend_on_how_the_smiles_is_written():
    model = HotVAENetwork.from_settings(**SMALL, encoder="smiles", bonds=True, precision="float64").fit(
        MOLECULES, LABELS
    )
    probs = model.predict_proba(["OCCN", "NCCO", "C(CN)O", "ONCC"])
    np.testing.assert_allclose(probs[1:3], probs[[0, 0]], rtol=1e-12)
    assert abs(probs[3] - probs[0]).max() > 1e-9


# Padding and order ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["text", "set", "smiles", pytest.param("smiles, bonds", marks=BONDS)])
@CLASSIFIERS
def test_padding__any_amount__never_changes_a_prediction(cls, kind):
    """The network, called with the same rows and ever more padding, says the same to 1e-12."""
    model, X = fitted(cls, kind, precision="float64")
    rows = model.features_.transform(X)
    width = int(rows.lengths.max())
    with torch.inference_mode():
        few, many = (model.network_.predict(torch.from_numpy(rows.padded(n))) for n in (width, width + 13))
    np.testing.assert_allclose(many, few, rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X), few, rtol=0, atol=1e-12)


def test_order__of_words_and_columns__matters_to_texts_only():
    model, _ = fitted(HotVAENetwork, "text")
    probs = model.predict_proba(["a b c", "c b a"])
    assert abs(probs[0] - probs[1]).max() > 1e-6
    bag, _ = fitted(HotVAENetwork, "bag")
    probs = bag.predict_proba(["a b c", "c b a"])
    np.testing.assert_array_equal(probs[0], probs[1])


# The label branch ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["mlp", "text"])
def test_label_tokens__with_gaps_and_empty_rows__train_and_survive_saving(kind, tmp_path):
    X, parameters, _ = KINDS[kind]
    labels = LABELS.astype(np.float32)
    labels[::3, 0] = np.nan
    labels[5] = 0
    labels[6] = np.nan
    model = HotVAENetwork.from_settings(**SMALL, **parameters, label_encoder="tokens").fit(X, labels)
    assert np.isfinite(model.history_.column("loss")).all()
    model.save(tmp_path / "model")
    again = HotVAENetwork.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_label_tokens__many_labels__no_tensor_of_rows_labels_and_dimensions(monkeypatch):
    """With 1 positive of 300 labels the encoder embeds one token per row."""
    seen = []
    embed = torch.nn.Embedding.forward
    monkeypatch.setattr(torch.nn.Embedding, "forward", lambda self, x: seen.append(x.shape) or embed(self, x))
    labels = np.eye(300, dtype=int)[RNG.integers(0, 300, N_ROWS)]
    settings = SMALL | {"max_epochs": 1, "label_encoder": "tokens", "batch_size": 30}
    with pytest.warns(DataWarning, match="1 class"):
        HotVAENetwork.from_settings(**settings).fit(TABLE, labels)
    assert seen
    assert all(shape[1] == 1 for shape in seen)


# Can it learn? --------------------------------------------------------------------------------------------

LEARNING = {
    "dim": 16,
    "encoder_widths": (64,),
    "encoder_dropout": 0.0,
    "n_layers": 1,
    "max_epochs": 15,
    "batch_size": 32,
    "learning_rate": 0.01,
    "n_threads": 1,
    "random_state": 0,
}


def held_out_f1(X, labels, **parameters):
    model = HotVAENetwork.from_settings(**LEARNING, **parameters).fit(X[:400], labels[:400])
    return macro_f1(labels[400:], model.predict(X[400:]))


@pytest.mark.slow
def test_text__order_decides__words_learn_it_and_a_bag_cannot():
    """Label: whether the dog comes before the cat, and its opposite; both words are in every text."""
    rng = np.random.default_rng(0)
    texts, labels = [], []
    for _ in range(600):
        words = rng.choice(["red", "big", "old", "wet"], size=6).tolist()
        first, second = sorted(rng.choice(6, size=2, replace=False))
        dog_first = rng.integers(0, 2)
        words[first], words[second] = ("dog", "cat") if dog_first else ("cat", "dog")
        texts.append(" ".join(words))
        labels.append([dog_first, 1 - dog_first])
    texts, labels = np.array(texts, dtype=object), np.array(labels)
    assert held_out_f1(texts, labels, encoder="text") > 0.95
    assert held_out_f1(texts, labels, encoder="bag") < 0.65


@pytest.mark.slow
def test_set__two_columns_together__are_learned():
    """Label 0: exactly one of columns 0 and 1; label 1: both; thirty other columns are noise."""
    rng = np.random.default_rng(0)
    table = (rng.random((700, 32)) < 0.15).astype(float)
    table[:, :2] = rng.integers(0, 2, size=(700, 2))
    one, both = table[:, 0] != table[:, 1], (table[:, 0] == 1) & (table[:, 1] == 1)
    found = held_out_f1(sparse.csr_array(table), np.column_stack([one, both]).astype(int), encoder="set")
    assert found > 0.9


@pytest.mark.slow
@BONDS
def test_molecule__a_bond_decides__is_learned_along_bonds():
    """Chains of carbon with one N and one O; label: whether these two are bonded. Elements alone cannot tell."""
    rng = np.random.default_rng(0)
    molecules, labels = [], []
    for _ in range(600):
        atoms = ["C"] * rng.integers(5, 12)
        place = int(rng.integers(1, len(atoms) - 1))
        bonded = int(rng.integers(0, 2))
        others = [i for i in range(len(atoms)) if abs(i - place) > 1]
        other = place + rng.choice([-1, 1]) if bonded else rng.choice(others)
        atoms[place], atoms[other] = "N", "O"
        molecules.append("".join(atoms))
        labels.append([bonded, 1 - bonded])
    molecules, labels = np.array(molecules, dtype=object), np.array(labels)
    assert held_out_f1(molecules, labels, encoder="smiles", bonds=True) > 0.95
    assert held_out_f1(molecules, labels, encoder="elements") < 0.75


@CLASSIFIERS
def test_fit_and_predict__threads_not_said__one_of_ours_and_the_callers_after(cls, monkeypatch):
    seen = []
    predict = network.predict_network

    def watched(*inputs):
        seen.append(torch.get_num_threads())
        return predict(*inputs)

    monkeypatch.setattr(network, "predict_network", watched)
    settings = {name: value for name, value in SMALL.items() if name != "n_threads"}
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        model = cls.from_settings(**settings).fit(TABLE, LABELS)
        model.predict_proba(TABLE)
        model.change_settings(n_threads=None).predict_proba(TABLE)
        after = torch.get_num_threads()
    finally:
        torch.set_num_threads(before)
    assert seen[-2:] == [1, 2]
    assert set(seen[:-1]) == {1}
    assert after == 2
