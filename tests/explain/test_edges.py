"""Edges of a law: the same as flips, with intervals of other fits, and where they turn."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

from hotvae import JointClassifier
from hotvae.baselines.prevalence import Prevalence
from hotvae.baselines.probit import ProbitJSDM
from hotvae.config import MessagesConfig
from hotvae.errors import ConfigError, DataError, ModelError
from hotvae.estimators.joint_law import JointLaw
from hotvae.explain import (
    associations,
    edge_agreement,
    edges,
    flip_effects,
    gradient_groups,
    group_changes,
    pair_table,
    sign_changes,
)
from hotvae.net.messages import Messages


def make_table(n_rows=800, seed=0):
    """The second label is mostly as the first where it is wet and mostly not where it is dry; the third is a loner."""
    random = np.random.default_rng(seed)
    wet = random.uniform(-1, 1, n_rows)
    first = random.random(n_rows) < 0.5
    alike = random.random(n_rows) < expit(6 * wet)
    second = np.where(alike, first, ~first)
    third = random.random(n_rows) < 0.5
    X = pd.DataFrame({"wet": wet, "other": random.normal(size=n_rows)})
    return X, pd.DataFrame(np.column_stack([first, second, third]).astype(float), columns=["a", "b", "c"])


@pytest.fixture(scope="module")
def model():
    return JointClassifier(base=Prevalence(), cv=3, law_effort=0.6, random_state=0).fit(*make_table())


@pytest.fixture(scope="module")
def held():
    return make_table(600, seed=1)


def test_edges__of_a_law__are_the_flips_of_its_labels(model, held):
    """On the logit scale, to the last digit of probabilities in float32."""
    rows = model.law_rows(held[0])
    for label, name in enumerate("abc"):
        presence, absence = rows.edges(label)
        flips = flip_effects(model, held[0], name, scale="logit")
        others = np.arange(3) != label
        np.testing.assert_allclose((presence - absence)[:, others], flips[:, others], atol=2e-5)
        given = np.full((600, 3), np.nan)
        given[:, label] = 1
        by_hand = logit(model.predict_proba(held[0], given=given).astype(float)) - rows.logits
        np.testing.assert_allclose(presence[:, others], by_hand[:, others], atol=2e-5)
        assert (presence[:, label] == 0).all()


def test_edges__beside_associations__agree_on_every_pair(model, held):
    groups = gradient_groups(held[0]["wet"], 2, name="wet")
    told = {"groups": groups, "max_rows": 200}
    found = edges(model, *held, n_fits=3, **told)
    flips = associations(model, *held, scale="logit", **told)
    agreement = edge_agreement(found, flips)
    assert agreement["largest_gap"] < 2e-5
    assert agreement["correlation"] > 0.9999
    assert agreement["same_sign"] == 1
    assert agreement["n_pairs"] == 12
    np.testing.assert_allclose(found["residual_z"], flips["residual_z"])
    np.testing.assert_allclose(found["effect"], found["presence"] - found["absence"])
    assert group_changes(found, *groups.cat.categories)["clear"].any()
    assert len(pair_table(found)) == 6


def test_edges__a_pair_that_switches__is_kept_with_both_signs_and_the_loner_is_not(model, held):
    dry, wet = gradient_groups(held[0]["wet"], 2, name="wet").cat.categories
    table = edges(model, *held, groups=gradient_groups(held[0]["wet"], 2, name="wet"), n_fits=3)
    own = table.set_index(["label_i", "label_j", "group"])
    assert own.loc[("a", "b", wet), "effect"] > 1
    assert own.loc[("a", "b", dry), "effect"] < -1
    assert own.loc[[("a", "b", wet), ("a", "b", dry), ("b", "a", wet)], "kept"].all()
    assert not table[(table["label_i"] == "c") | (table["label_j"] == "c")]["kept"].any()


def test_sign_changes__of_a_pair_that_switches__where_it_does(model, held):
    found = sign_changes(model, held[0], held[0]["wet"], name="wet", n_groups=6, n_fits=3)
    clear = found[found["clear"]]
    assert {(row.label_i, row.label_j) for row in clear.itertuples()} == {("a", "b"), ("b", "a")}
    assert (clear["at"].abs() < 0.2).all()
    assert (clear["below"] < 0).all()
    assert (clear["above"] > 0).all()
    only = sign_changes(model, held[0], held[0]["wet"], pairs=[("c", "a")], n_groups=6, n_fits=3)
    assert set(only["label_i"]) <= {"c"}
    assert not only["clear"].any()


def test_intervals__over_fits__are_wider_than_over_rows_alone(model, held):
    over_fits, over_rows = (edges(model, held[0], n_fits=n, max_rows=None) for n in (4, 0))
    np.testing.assert_array_equal(over_fits["effect"], over_rows["effect"])
    quiet = over_fits["label_i"] == "c"
    widths = [(table["upper"] - table["lower"])[quiet].mean() for table in (over_fits, over_rows)]
    assert widths[0] > 1.5 * widths[1]


def test_intervals__of_three_fits__are_students(model, held):
    """With two degrees of freedom the quantiles of 97.5 and 75 % are 4.3027 and .8165; normal ones 1.9600 and .6745."""
    wide, narrow = (edges(model, held[0], n_fits=3, level=level) for level in (0.95, 0.5))
    widths = [(table["upper"] - table["lower"]).to_numpy() for table in (wide, narrow)]
    np.testing.assert_allclose(widths[0] / widths[1], 4.30265 / 0.81650, rtol=1e-4)


def test_several_models__differ_in_their_base__are_the_fits(held):
    X, Y = make_table(400)
    models = [JointClassifier(base=Prevalence(), cv=2, law_effort=0.3, random_state=s).fit(X, Y) for s in (0, 1)]
    both, first, second = (edges(which, held[0], n_fits=0) for which in (models, models[0], models[1]))
    np.testing.assert_allclose(both["effect"], (first["effect"] + second["effect"]) / 2, atol=1e-6)


def test_again__on_resampled_rows__is_a_law_of_the_same_kind(model):
    one, two, three = model.resampled_laws(2, seed=0) + model.resampled_laws(1, seed=0)
    assert one.messages.config == model.law_.messages.config
    weights = [dict(law.messages.named_parameters()) for law in (one, two, three)]
    assert any((weights[0][name] != weights[1][name]).any() for name in weights[0])
    assert all((weights[0][name] == weights[2][name]).all() for name in weights[0])  # the same seed, the same fit


def test_silent_law__tells_nothing(held):
    X, Y = make_table(200)
    model = JointClassifier(base=Prevalence(), cv=2, law_effort=0.1, random_state=0).fit(X, Y)
    model.law_ = JointLaw(None, 3)
    table = edges(model, *held, n_fits=3)
    assert (table["effect"].dropna() == 0).all()
    assert not table["kept"].any()
    assert sign_changes(model, held[0], held[0]["wet"], n_fits=0).empty


def test_hub__presence_and_absence__need_not_be_mirror_images():
    messages = Messages(3, 2, MessagesConfig(edges="signed", n_causes=0, n_rounds=1)).eval()
    messages.edge_difference.data[1, 0] = 1.0
    law = JointLaw(messages, 3)
    X, Y = make_table(200)
    model = JointClassifier(base=Prevalence(), cv=2, law_effort=0.1, random_state=0).fit(X, Y)
    model.law_, model.gate_ = law, "scaled"
    presence, absence = model.law_rows(X[:5]).edges(0)
    assert (presence[:, 1] > 0).all()
    assert (absence[:, 1] > 0).all()  # |surprise| speaks for it, whichever way


def test_wrong_models_and_tables__are_named(model, held, tmp_path):
    with pytest.raises(ConfigError, match="model must have a law between its labels; got 'ProbitJSDM'"):
        edges(ProbitJSDM(), held[0])
    with pytest.raises(DataError, match="gradient must have a value for each of 600 rows"):
        sign_changes(model, held[0], [1.0])
    empty = pd.DataFrame(columns=["label_i", "label_j", "group", "effect", "kept"])
    with pytest.raises(DataError, match="tables must have pairs in common"):
        edge_agreement(empty, empty)
    silent = JointClassifier(base=Prevalence(), cv=2).fit(held[0], held[1].iloc[:, 0])
    with pytest.raises(ConfigError, match="model must have learned which labels go together; got JointClassifier"):
        silent.law_rows(held[0])
    with pytest.raises(ModelError, match="model must have been fitted here for its law to be learned anew"):
        silent.resampled_laws(2)
