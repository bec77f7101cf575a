"""HOT-VAE as most people use it: it finds a recipe, labels go together, files hold all of it."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier

from hotvae import Dataset, HotVAEClassifier, HotVAENetwork, Training, load_model
from hotvae.errors import ConfigError, DataWarning, ModelError
from hotvae.estimators import hotvae as hotvae_module
from hotvae.estimators.recipe import Plan
from hotvae.metrics import log_loss

TINY = Plan(2, 20, 1, 1, 1, 1, 0.3, 6, 32, 5e-3)


@pytest.fixture(autouse=True)
def tiny_plan(monkeypatch):
    """Everything is small here; the plans themselves are tested beside the recipe."""
    monkeypatch.setattr(hotvae_module, "plan_for", lambda *size: TINY)


def pairs(n=400, seed=0):
    """Four labels; the third is nearly always what the first is, for no reason that the features know."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    y = (rng.random((n, 4)) < expit(x @ rng.normal(size=(3, 4)))).astype(np.float32)
    y[:, 2] = np.where(rng.random(n) < 0.05, 1 - y[:, 0], y[:, 0])
    return x, y


@pytest.fixture(scope="module")
def fitted():
    patch = pytest.MonkeyPatch()
    patch.setattr(hotvae_module, "plan_for", lambda *size: TINY)
    x, y = pairs()
    yield HotVAEClassifier(random_state=0).fit(x[:300], y[:300]), x, y
    patch.undo()


def test_fit__linked_labels__given_moves_the_other_the_right_way(fitted):
    model, x, _ = fitted
    seen = np.full((100, 4), np.nan)
    seen[:50, 0], seen[50:, 0] = 1, 0
    alone, given = model.predict_proba(x[300:]), model.predict_proba(x[300:], given=seen)
    assert (given[:50, 2] > alone[:50, 2]).all()
    assert (given[50:, 2] < alone[50:, 2]).all()
    assert given[:50, 2].mean() > 0.75 > 0.25 > given[50:, 2].mean()
    assert (given[:, 0] == seen[:, 0]).all()


def test_given__nothing__exactly_what_the_features_say(fitted):
    model, x, _ = fitted
    nothing = np.full((5, 4), np.nan)
    np.testing.assert_array_equal(model.predict_proba(x[:5], given=nothing), model.predict_proba(x[:5]))


def test_sample__linked_labels__agree_with_given_and_with_each_other(fitted):
    """Among draws with the first label, the share with the third is what `given` says."""
    model, x, _ = fitted
    draws = model.sample(x[300:301], 4000, random_state=0)[:, 0]
    seen = np.array([[1, np.nan, np.nan, np.nan]])
    share = draws[draws[:, 0] == 1, 2].mean()
    assert share == pytest.approx(model.predict_proba(x[300:301], given=seen)[0, 2], abs=0.08)
    assert np.corrcoef(draws[:, 0], draws[:, 2])[0, 1] > 0.5
    assert draws.mean(axis=0) == pytest.approx(model.predict_proba(x[300:301])[0], abs=0.1)


def test_log_likelihood__linked_labels__above_that_of_independent_ones(fitted):
    model, x, y = fitted
    probs = model.predict_proba(x[300:]).astype(float)
    independent = np.where(y[300:] == 1, np.log(probs), np.log1p(-probs)).sum(axis=1)
    assert (model.log_likelihood(x[300:], y[300:]) - independent).mean() > 0.2


def test_log_likelihood__without_a_law__is_the_sum_of_the_labels(fitted):
    _, x, y = fitted
    model = HotVAEClassifier(joint=False, random_state=0).fit(x[:200], y[:200])
    probs = model.predict_proba(x[300:303]).astype(float)
    by_hand = [
        sum(np.log(p if label else 1 - p) for p, label in zip(row, labels, strict=True))
        for row, labels in zip(probs, y[300:303], strict=True)
    ]
    assert model.log_likelihood(x[300:303], y[300:303]) == pytest.approx(by_hand, abs=1e-4)
    with pytest.raises(ConfigError, match="given must go with a model that has learned which labels go together"):
        model.predict_proba(x[:1], given=[[1, np.nan, np.nan, np.nan]])


def test_save__read_back__same_bits_of_everything(fitted, tmp_path):
    model, x, y = fitted
    model.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    seen = np.tile([1, np.nan, np.nan, 0], (7, 1))
    np.testing.assert_array_equal(again.predict_proba(x[:7]), model.predict_proba(x[:7]))
    np.testing.assert_array_equal(again.predict_proba(x[:7], given=seen), model.predict_proba(x[:7], given=seen))
    np.testing.assert_array_equal(again.sample(x[:7], 3, random_state=1), model.sample(x[:7], 3, random_state=1))
    np.testing.assert_array_equal(again.log_likelihood(x[:7], y[:7]), model.log_likelihood(x[:7], y[:7]))
    assert again.recipe_ == model.recipe_
    assert again.thresholds_ == model.thresholds_
    with pytest.raises(ModelError, match="fitted here to be taken apart"):
        again.alone(["trees"])


def test_fit__same_seed__same_model_and_a_row_has_its_own_bits(fitted):
    model, x, y = fitted
    again = HotVAEClassifier(random_state=0).fit(x[:300], y[:300])
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))
    np.testing.assert_array_equal(model.predict_proba(x[5:6])[0], model.predict_proba(x)[5])


def test_left_out__of_training_rows__are_worse_than_those_of_models_that_were_shown_them(fitted):
    model, x, y = fitted
    assert log_loss(y[:300], model.left_out_) > log_loss(y[:300], model.predict_proba(x[:300])) + 0.02
    assert model.recipe_.log_loss == pytest.approx(log_loss(y[:300], model.left_out_), abs=1e-6)


def test_alone__trees__only_trees_and_worse_than_all(fitted):
    model, _, _ = fitted
    kinds = {candidate.kind for candidate, _ in model.members_}
    part = model.alone([next(iter(kinds))])
    assert len({candidate.kind for candidate, _ in part.members_}) == 1
    assert part.recipe_.log_loss >= model.recipe_.log_loss - 1e-6
    with pytest.raises(ConfigError, match="kinds must name members"):
        model.alone(["own"])


# Columns, places, groups ----------------------------------------------------------------------------------


def survey(n=300):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "route": [f"R{i:04d}" for i in range(n)],
            "lon": rng.uniform(-100, -80, n),
            "lat": rng.uniform(30, 45, n),
            "wet": rng.integers(0, 2, n),
            "height": rng.lognormal(3, 1, n),
        }
    )
    odds = np.column_stack([np.log(frame["height"]) - 3, frame["lat"] - 37])
    return frame, pd.DataFrame((rng.random((n, 2)) < expit(odds)).astype(int), columns=["owl", "wren"])


def test_fit__coordinates__are_values_and_places_and_blocks_are_held_out():
    frame, labels = survey()
    model = HotVAEClassifier(coordinates=("lon", "lat"), random_state=0).fit(frame, labels)
    said = "\n".join(model.recipe_.columns)
    assert "1 identifier left out: route" in said
    assert "2 coordinates: lon, lat (degrees" in said
    assert "1 column of 0 and 1: wet" in said
    assert model.recipe_.folds == "2 folds of whole blocks of the map"
    north, south = frame.assign(lat=44.0), frame.assign(lat=31.0)
    assert (model.predict_proba(north)[:, 1] - model.predict_proba(south)[:, 1]).mean() > 0.2


def test_fit__dataset__brings_coordinates_and_groups_and_is_predicted_from():
    frame, labels = survey()
    groups = np.repeat(np.arange(60), 5)
    data = Dataset(
        frame[["wet", "height"]], labels, coordinates=frame[["lon", "lat"]].to_numpy(), coordinate_names=("lon", "lat")
    )
    model = HotVAEClassifier(random_state=0).fit(data, groups=groups)
    assert model.recipe_.folds == "2 folds of whole groups"
    assert "2 coordinates: lon, lat" in "\n".join(model.recipe_.columns)
    assert list(model.label_names_) == ["owl", "wren"]
    assert model.predict_proba(data).shape == (300, 2)


def test_fit__hold_out_rows__in_spite_of_coordinates():
    frame, labels = survey()
    model = HotVAEClassifier(coordinates=("lon", "lat"), hold_out="rows", random_state=0).fit(frame, labels)
    assert model.recipe_.folds == "2 folds of single rows"


def test_fit__sparse_as_dense__same_columns_of_0_and_1():
    rng = np.random.default_rng(0)
    x = (rng.random((200, 40)) < 0.2).astype(float)
    odds = 4 * np.column_stack([x[:, :3].max(axis=1), x[:, 3:6].max(axis=1)]) - 2
    y = (rng.random((200, 2)) < expit(odds)).astype(float)
    dense, bag = (HotVAEClassifier(joint=False, random_state=0).fit(t, y) for t in (x, sparse.csr_array(x)))
    assert {candidate.form for candidate, _ in [*dense.members_, *bag.members_]} == {"values"}
    assert log_loss(y, bag.predict_proba(sparse.csr_array(x))) < 0.45
    assert dense.recipe_.columns == bag.recipe_.columns
    assert dense.recipe_.log_loss == pytest.approx(bag.recipe_.log_loss, rel=0.1)


def test_fit__texts_and_molecules__seen_for_what_they_are():
    rng = np.random.default_rng(0)
    words = ["oil", "wheat", "gold", "ship", "bank"]
    texts = pd.DataFrame({"text": [" ".join(rng.choice(words, 6)) for _ in range(150)]})
    topics = np.array([["oil" in text, "gold" in text] for text in texts["text"]]).astype(int)
    assert HotVAEClassifier(joint=False, random_state=0).fit(texts, topics).rows_ == "text"
    smiles = [f"C{'C' * (i % 9)}{'O' if i % 2 else 'N'}{'Cl' if i % 3 else ''}{'C' * (i // 9)}" for i in range(90)]
    model = HotVAEClassifier(joint=False, random_state=0).fit(smiles, np.array([["O" in s, "N" in s] for s in smiles]))
    assert model.rows_ == "molecules"
    assert ((model.predict_proba(smiles) > 0.5) == [["O" in s, "N" in s] for s in smiles]).mean() > 0.9


# Labels with gaps, classes, few rows ----------------------------------------------------------------------


def test_fit__labels_with_gaps__learned_from_what_was_seen():
    x, y = pairs(300)
    holes = np.where(np.random.default_rng(1).random(y.shape) < 0.3, np.nan, y)
    model = HotVAEClassifier(random_state=0).fit(x, holes)
    assert log_loss(y[np.isnan(holes).any(axis=1)], model.predict_proba(x[np.isnan(holes).any(axis=1)])) < 0.69


def test_fit__classes__most_probable_one():
    x, _ = pairs(300)
    kinds = np.array(["low", "middle", "high"])[np.digitize(x[:, 0], [-0.5, 0.5])]
    model = HotVAEClassifier(random_state=0).fit(x, kinds)
    assert model.law_ is None
    assert (model.predict(x) == kinds).mean() > 0.85


@pytest.mark.filterwarnings("ignore::hotvae.errors.DataWarning")
@pytest.mark.parametrize("n_rows", [4, 7, 12])
def test_fit__hardly_any_rows__still_a_model(n_rows):
    x, y = pairs(40)
    probs = HotVAEClassifier(random_state=0).fit(x[:n_rows], y[:n_rows]).predict_proba(x)
    assert np.isfinite(probs).all()


def test_fit__label_that_never_occurs__stays_near_nothing():
    x, y = pairs(200)
    y[:, 3] = 0
    with pytest.warns(DataWarning, match="both classes"):
        model = HotVAEClassifier(random_state=0).fit(x, y)
    assert model.predict_proba(x)[:, 3].max() < 0.05


# Base and recipes -----------------------------------------------------------------------------------------


def test_base__a_classifier_of_scikit_learn__stands_in_for_trees_and_ridge(tmp_path):
    x, y = pairs(200)
    own = MultiOutputClassifier(LogisticRegression())
    model = HotVAEClassifier(base=own, random_state=0).fit(x, y)
    assert {candidate.kind for candidate, _ in model.members_} <= {"own", "network"}
    assert "own" in {candidate.kind for candidate, _ in model.members_}
    with pytest.raises(ModelError, match="which a file can hold only as"):
        model.save(tmp_path / "m")


def test_base__none__networks_alone():
    x, y = pairs(200)
    model = HotVAEClassifier(base=None, joint=False, random_state=0).fit(x, y)
    assert {candidate.kind for candidate, _ in model.members_} == {"network"}


def test_recipe__network__is_the_network_itself(tmp_path):
    x, y = pairs(200)
    settings = {"dim": 8, "encoder_widths": (8,), "training": Training(max_epochs=2)}
    model = HotVAEClassifier(recipe="network", network=HotVAENetwork(**settings), random_state=0).fit(x, y)
    same = HotVAENetwork(**settings, random_state=0).fit(x, y)
    np.testing.assert_array_equal(model.predict_proba(x), same.predict_proba(x))
    np.testing.assert_array_equal(model.sample(x, 3, random_state=0), same.sample(x, 3, random_state=0))
    np.testing.assert_array_equal(model.log_likelihood(x, y), same.log_likelihood(x, y))
    assert not model.conditional
    assert not model.draws_jointly
    with pytest.raises(ConfigError, match=r"wrap it: JointClassifier\(base=HotVAENetwork\(\.\.\.\)\)"):
        model.predict_proba(x[:5], given=np.tile([1, np.nan, np.nan, 0], (5, 1)))
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(load_model(tmp_path / "m").predict_proba(x), same.predict_proba(x))


def test_recipe__paper__fits_the_network_with_every_setting_of_it(monkeypatch):
    seen = []
    monkeypatch.setattr(HotVAENetwork, "fit", lambda network, *tables: seen.append(network.current_settings()))
    HotVAEClassifier(recipe="paper", random_state=3).fit(*pairs(60))
    assert seen == [HotVAENetwork.from_recipe("paper", random_state=3).current_settings()]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"recipe": "best"}, "recipe must be one of"),
        ({"base": "ridge"}, "base must be 'auto', None or a scikit-learn classifier; got 'ridge'"),
        ({"base": 3}, "base must be 'auto'"),
        ({"hold_out": "all"}, "hold_out must be one of"),
        ({"rows": "images"}, "rows must be one of"),
        ({"network": HotVAENetwork()}, "network must go with recipe 'network'"),
        ({"graph": "star"}, "graph must be one of"),
        ({"coordinates": ("a", "b")}, "coordinates must be"),
    ],
)
def test_fit__parameter_that_is_not_allowed__says_which(settings, said):
    x, y = pairs(40)
    with pytest.raises(ConfigError, match=said):
        HotVAEClassifier(random_state=0, **settings).fit(x, y)
