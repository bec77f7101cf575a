"""Many fits on Ray: a search and cells of experiments, as tasks that are asked and ended like processes."""

import json
import time

import numpy as np
import pandas as pd
import pytest

from hotvae.estimators import recipe
from hotvae.jobs.settings import TrainSettings
from hotvae.jobs.train import train
from hotvae.jobs.tune import plan as plan_search
from hotvae.jobs.tune import tune
from paper.experiments import Cell
from paper.runner import Plan, cell_on_ray, run
from paper.store import Store
from tests.jobs.test_stream import draw, weights_of

ray = pytest.importorskip("ray", reason="needs the extra ray")
pytestmark = [pytest.mark.ray, pytest.mark.slow]


def test_tune__on_ray__finds_what_a_process_finds(head, tmp_path):
    from hotvae.scale.tasks import search_on_ray

    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(120, 2)), columns=["depth", "slope"])
    table["sp_a"], table["sp_b"] = (table.depth > 0).astype(int), (table.slope + table.depth > 0).astype(int)
    table.to_csv(tmp_path / "t.csv", index=False)
    task = plan_search(TrainSettings(labels=("sp_*",), model="mlknn", quiet=True), tmp_path / "t.csv")
    plain = {"budget": 300.0, "n_trials": 3}
    here = tune(task, tmp_path / "here.journal", **plain)
    there = tune(task, tmp_path / "there.journal", start=search_on_ray, **plain)
    assert (there.settings, there.value, there.n_complete) == (here.settings, here.value, here.n_complete)
    assert there.n_failed == 0


def test_train__race_on_ray__same_model_as_here(nodes, tmp_path, monkeypatch):
    """Trees and networks, on folds and on all rows: none is fitted in this process, and no bit differs."""
    from hotvae.scale.tasks import fits_on_ray

    nodes(1)
    draw(150, 0).to_csv(tmp_path / "t.csv", index=False)
    own = {"effort": "quick", "joint": False, "random_state": 0}
    plain = {"labels": ("sp_*",), "quiet": True, "parameters": own}
    train(TrainSettings(out=str(tmp_path / "here"), **plain), tmp_path / "t.csv")
    fit = recipe.fit_member

    def only_ridge(candidate, *rest, **more):
        assert candidate.kind == "ridge"
        return fit(candidate, *rest, **more)

    monkeypatch.setattr(recipe, "fit_member", only_ridge)
    with recipe.helped(fits_on_ray):
        run = train(TrainSettings(out=str(tmp_path / "there"), **plain), tmp_path / "t.csv")
    assert weights_of(tmp_path / "there") == weights_of(tmp_path / "here")
    kinds = {entry.kind for entry in run.model.recipe_.entries if entry.seconds > 0}
    assert {"trees", "network"} <= kinds  # their time is counted


def test_run__cells_on_ray__one_file_each_and_the_same_numbers(head, tmp_path):
    cells = [(Cell("tables", "prevalence", "prevalence", "virtual-50-4", seed=seed), f"fit{seed}") for seed in (0, 1)]
    stores = [Store(tmp_path / name) for name in ("here", "there")]
    for store, start in zip(stores, (None, cell_on_ray), strict=True):
        assert run(store, Plan(cells), jobs=2, start=start).n_done == 2
    here, there = ({line["cell"]["seed"]: line["metrics"] for line in store.lines("tables")} for store in stores)
    assert json.dumps(here, sort_keys=True) == json.dumps(there, sort_keys=True)
    assert not list((tmp_path / "there" / "answers").iterdir())  # all were taken in
    assert sorted(path.name for path in (tmp_path / "there" / "rows").glob("*.npz")) == ["fit0.npz", "fit1.npz"]


def test_ray_task__failed_or_ended__says_so(head):
    from hotvae.scale.tasks import RayTask

    failing = RayTask(int, "no number")
    failing.wait()
    assert failing.poll() == 1
    assert "no number" in failing.last_words()
    endless = RayTask(time.sleep, 600)
    assert endless.poll() is None
    endless.terminate()
    endless.wait(timeout=120)
    assert endless.poll() == 1
