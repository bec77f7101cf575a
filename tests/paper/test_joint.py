"""The page of labels together: bases that are kept, laws on them, rivals, comparisons, tables."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from hotvae import HotVAEClassifier
from hotvae.errors import DataWarning
from hotvae.estimators import joint_law
from hotvae.estimators.joint_law import LawCandidate
from hotvae.net.messages import Messages
from paper import joint, joint_cells
from paper.experiments import Cell
from paper.store import Store
from paper.summaries import replace_marked

REGION = "virtual-120-5"


def law_cell(name="hotvae", **more):
    variant = next(variant for variant in joint.ALL_VARIANTS if variant.name == name)
    settings = {**variant.settings, "effort": "quick", **more}
    return Cell("joint", name, variant.model, REGION, settings=settings, measures=("joint",), n_draws=20)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bases")
    joint_cells.base_of(law_cell("independent", base="forest"), folder)
    return folder


def forest(name, **more):
    return law_cell(name, base="forest", **more)


def test_base__kept_and_read_again__is_the_same_and_is_not_fitted_twice(cache, monkeypatch):
    cell = forest("independent")
    path = joint_cells.base_path(cell, cache)
    assert path.exists()
    monkeypatch.setattr(joint_cells, "fit_base", lambda cell: pytest.fail("it is there"))
    base = joint_cells.base_of(cell, cache)
    assert base.train.logits.shape == (96, 5)  # 72 training rows and 24 validation rows, which are a fold of their own
    assert base.logits.shape == base.labels.shape == (24, 5)
    assert sorted(set(base.train.folds.tolist())) == [0, 1, 2, 3, 4, 5]
    again = cache / "again.npz"
    base.save(again)
    for name in ("logits", "gates", "labels", "rows"):
        np.testing.assert_array_equal(getattr(joint_cells.BaseFit.load(again), name), getattr(base, name))
    assert joint_cells.BaseFit.load(again).train.seed == base.train.seed


def test_law__learned_from_a_kept_base__is_the_law_of_the_model_itself(tmp_path):
    """So that a row of the page says what HotVAEClassifier does, though its base was fitted long before."""
    cell = law_cell("hotvae")
    kept = joint_cells.learn_law(cell.settings, joint_cells.base_of(cell, tmp_path).train)
    own = replace(cell, model="hotvae", settings={"effort": "quick"})
    parts = joint_cells.read_parts(own, joint_cells.recipe_of(own))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        model = HotVAEClassifier(effort="quick", random_state=0).fit(parts.train[0], validation=parts.validation[0])
    assert model.law_.notes() == kept.notes()
    for name, tensor in model.law_.tensors().items():
        assert torch.equal(tensor, kept.tensors()[name])


def test_independent__on_a_base__is_the_log_loss_of_the_base(cache):
    measured = joint_cells.run_joint_cell(forest("independent"), cache)
    base = joint_cells.base_of(forest("independent"), cache)
    probs = 1 / (1 + np.exp(-base.logits))
    losses = -np.log(np.where(base.labels == 1, probs, 1 - probs))
    found = measured.line["joint"]
    assert found["nll_label"] == pytest.approx(losses.mean(), rel=1e-4)
    assert found["given_0"] == pytest.approx(losses.mean(), rel=1e-4)
    np.testing.assert_allclose(measured.rows["nll"], losses.sum(axis=1), rtol=1e-4)
    assert measured.line["order_spread"] == 0
    assert measured.line["empty"] == "one"


@pytest.mark.parametrize("name", ["forest law", "hub", "constant edges", "softmax"])
def test_laws__on_a_base__have_every_measure_and_lesser_ones_have_no_lists(cache, name):
    measured = joint_cells.run_joint_cell(forest(name), cache)
    is_brief = name in ("constant edges", "softmax")
    drawn = {name for name in joint.COLUMNS if name.startswith("coverage") or name in ("subset", "f1", "jaccard")}
    assert set(measured.line["joint"]) == set(joint.COLUMNS) - (drawn if is_brief else set())
    assert measured.rows["row"].shape == (24,)
    compared = set(joint.resampled_scores(measured.rows, 3))
    assert compared == set(joint.COMPARED) - (drawn if is_brief else set())
    assert joint_law.Messages is Messages  # whoever stood in is gone
    json.dumps(measured.line, allow_nan=False)


def test_softmax__untrained_or_nothing_known__says_nothing():
    torch.manual_seed(0)
    messages = joint_cells.SoftmaxMessages(3, 2, joint_cells.MessagesConfig()).eval()
    base, features = torch.randn(4, 3), torch.randn(4, 2)
    known = torch.full((4, 3), torch.nan)
    known[:2, 0] = 1
    assert torch.equal(messages(base, features, known)[-1], base)
    torch.nn.init.normal_(messages.read)
    found = messages(base, features, known)[-1]
    assert torch.equal(found[2:], base[2:])
    assert not torch.isclose(found[:2, 1:], base[:2, 1:]).any()
    assert messages(base, features, known.expand(5, 4, 3)).shape == (2, 5, 4, 3)


def test_change__of_what_is_tried__in_one_way():
    shared = LawCandidate(joint_cells.MessagesConfig(edges="shared", hub_width=8))
    none = LawCandidate(joint_cells.MessagesConfig(edges="none"))
    change = {"n_rounds": 3, "edges": "signed", "hub_width": 0}
    assert joint_cells._changed(shared, change).config == replace(
        shared.config, n_rounds=3, edges="signed", hub_width=0
    )
    assert joint_cells._changed(none, change).config == replace(none.config, n_rounds=3)


@pytest.mark.parametrize("variant", joint.ABLATIONS[1:], ids=lambda variant: variant.name)
def test_ablations__each__changes_what_is_tried_on_few_rows_or_on_many_or_how_it_is_learned(variant):
    settings, full = variant.settings, joint.ABLATIONS[0].settings
    changes = [
        [joint_cells._changed(candidate, told["change"]) for told in (full, settings)]
        for n_rows in (500, 20_000)
        for candidate in joint_cells.default_candidates(n_rows, 50)
    ]
    assert any(before != after for before, after in changes) or settings.get("constant") or settings.get("softmax")


@pytest.mark.parametrize("name", ["probit", "chains", "extra_trees"])
def test_rivals__of_the_page__have_every_measure(name):
    variant = next(variant for variant in joint.MODELS if variant.name == name)
    few = {
        "probit": {"max_epochs": 2, "covariance_epochs": 1},
        "chains": {"n_chains": 2},
        "extra_trees": {"n_trees": 5},
    }
    cell = Cell("joint", name, variant.model, REGION, settings={**variant.settings, **few[name]}, n_draws=20)
    measured = joint_cells.measure_rival(cell)
    assert set(measured.line["joint"]) == set(joint.COLUMNS)
    assert all(np.isfinite(value) for value in measured.line["joint"].values())
    assert measured.line["recipe"].get("squares", False) is (name == "probit")


def test_squares__of_measured_columns__in_units_of_training_rows():
    parts = joint_cells.read_parts(
        Cell("", "probit", "probit", REGION), joint_cells.recipe_of(Cell("", "", "probit", REGION))
    )
    wide = joint_cells.with_squares(parts)
    n_columns = parts.train[0].shape[1]
    assert wide.test[0].shape[1] == 2 * n_columns
    mean, spread = parts.train[0].mean(axis=0), parts.train[0].std(axis=0)
    np.testing.assert_allclose(wide.test[0][:, n_columns:], ((parts.test[0] - mean) / spread) ** 2)


# --- comparing and writing -----------------------------------------------------------------------------------


def line(variant, value, seed=0, data="emotions"):
    cell = Cell("joint", variant, variant, data, seed=seed)
    return {
        "cell": cell.to_dict(),
        "fit": f"{variant}-{seed}",
        "status": "done",
        "joint": dict.fromkeys(joint.COLUMNS, value),
        "fit_seconds": {"cpu": 3.0},
        "order_spread": 0.1,
        "messages": {"n_rounds": 2, "edges": "shared", "n_causes": 32, "hub_width": 0},
        "n_rows": [30, 10, 20],
        "n_labels": 4,
        "date": "2026-01-01",
        "recipe": {},
    }


def write_rows(store, fit, loss):
    random = np.random.default_rng(0)
    rows = {"row": np.arange(40), "nll": loss + random.normal(0, 0.1, 40), "n_observed": np.full(40, 4.0)}
    for share in ("0", "10", "25", "50", "90"):
        rows |= {f"given_{share}": rows["nll"], f"n_given_{share}": np.full(40, 4.0)}
    rows |= {name: np.where(np.arange(40) % 2, 1 / loss, np.nan) for name in ("subset", "f1", "jaccard")}
    store.make_rows_folder()
    np.savez_compressed(store.rows_path(fit), **rows)


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path)
    values = {"hotvae": 2.0, "probit": 3.0, "mpvae": 2.0, "two rounds": 2.0, "1 rounds": 2.5}
    for variant, value in values.items():
        for seed in range(2):
            store.append(line(variant, value, seed))
            write_rows(store, f"{variant}-{seed}", value)
    return store


def test_compare_sets__worked__differences_a_label_and_kept_without_rows(store):
    experiment = joint.experiment_of(["emotions"])
    found = joint.compare_sets(store, experiment, "python -m paper.joint")["emotions"]
    assert set(found) == {"hotvae/probit", "hotvae/mpvae", "two rounds/1 rounds"}
    gap = found["hotvae/probit"]["measures"]["nll_label"]
    assert gap["difference"] == pytest.approx(-0.25)  # 1 nat a row of 4 labels
    assert joint.verdict_of(gap) == 1
    assert found["hotvae/probit"]["measures"]["f1"]["difference"] == pytest.approx(1 / 2 - 1 / 3, rel=1e-5)
    assert joint.verdict_of(found["hotvae/mpvae"]["measures"]["nll_label"]) == 0
    assert joint.verdict_of(found["two rounds/1 rounds"]["measures"]["nll_label"]) == 1
    for path in store.rows_folder.glob("*.npz"):
        path.unlink()
    assert joint.compare_sets(store, experiment)["emotions"] == found


def test_rendered_tables__models_and_depth__say_who_is_ahead(store):
    experiment = joint.experiment_of(["emotions"])
    text = joint.rendered_tables(store, experiment, joint.compare_sets(store, experiment))
    assert "By joint likelihood: ahead 1 times, level 1, behind 0." in text
    assert "| HOT-VAE | 2 | **2.00** | **2.0000** |" in text
    assert "ahead (-0.2500; -0.2500 to -0.2500)" in text
    assert "2 rounds, shared edges, 32 causes (2 of 2 fits)" in text
    assert "ahead (-0.1250" in text  # two rounds beside one: half a nat of four labels


def test_depth_series__labels_left_independent_with_more_seeds__only_those_of_the_rounds_count(store):
    for seed, value in enumerate((3.0, 5.0, 9.0)):
        store.append(line("independent", value, seed))
    experiment = joint.experiment_of(["emotions"])
    losses, _ = joint.depth_series(store, experiment, joint.compare_sets(store, experiment))
    for values in losses["emotions"].values():
        assert values[:3] == [4.0, 2.5, 2.0]


def test_page__has_the_marks_of_its_tables():
    text = replace_marked(joint.PAGE.read_text(), "joint", "\nhere\n\n")
    assert "\nhere\n" in text


def test_cells__only_laws__are_those_whose_base_is_there(cache):
    options = joint.argparse.Namespace(
        models=None, effort="quick", only_laws=True, cache=cache, draws=7, law_effort=0.3
    )
    cells = joint.chosen_cells(joint.experiment_of([REGION], 1), options)
    assert {cell.variant for cell in cells} == {"forest law", "forest"}
    assert {cell.n_draws for cell in cells} == {7}
    assert {cell.settings["law_effort"] for cell in cells} == {0.3}


def test_law_effort__of_a_kept_base__is_what_is_usual_now(cache):
    base = joint_cells.base_of(forest("independent"), cache)
    assert joint_cells.law_effort({"base": "forest"}, base) == 1.0
    assert joint_cells.law_effort({"base": "forest", "law_effort": 0.2}, base) == 0.2
    usual = joint_cells.plan_for(72, 10, 5, "quick").law_effort
    assert joint_cells.law_effort({"base": "hotvae", "effort": "quick"}, base) == usual
