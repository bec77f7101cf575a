"""The runner, with workers that need no torch: order, resuming, limits, budget, kills."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import pytest

from hotvae.errors import ConfigError
from paper.experiments import EXPERIMENTS, Cell
from paper.runner import Estimates, Plan, plan, run, worker_environment
from paper.store import Store, fit_fingerprint
from paper.worker import answer

# What a worker does is said by the name of its model: answer, sleep, fail, crash.
FAKE = """
import json, os, sys, time
cell = json.load(sys.stdin)
answer, rows = sys.argv[1:3]
assert os.environ["OMP_NUM_THREADS"] == "1"
kind = cell["model"]
if kind == "sleeper":
    time.sleep(20)
if kind == "meeting":
    here = os.path.dirname(rows)
    marks = lambda: [name for name in os.listdir(here) if name.endswith(".here")]
    own = rows + ".here"
    open(own, "w").close()
    for _ in range(30 if os.environ.get("ALONE") else 300):
        if len(marks()) == 2:
            time.sleep(1)  # until the other has seen it, too
            break
        time.sleep(0.05)
    else:
        os.remove(own)
        sys.exit("nobody came")
if kind == "crasher":
    sys.exit("out of luck")
line = {"status": "done", "metrics": {"honest": {"macro_f1": 0.5, "log_loss": None}}}
if kind == "failing":
    line = {"status": "failed", "error": "DataError: labels must be there"}
open(answer, "w").write(json.dumps(line))
open(rows, "w").write("rows")
"""


@pytest.fixture
def worker(tmp_path):
    script = tmp_path / "worker.py"
    script.write_text(FAKE)
    return [sys.executable, "-S", str(script)]


def cell(model="good", seed=0, experiment="tables"):
    return Cell(experiment, model, model, "yeast", seed=seed)


def planned(store, cells, **options):
    return plan(store, cells, settings=lambda cell: {}, **options)


def go(store, cells, worker, said=None, again=None, **options):
    todo = planned(store, cells, **(again or {}))
    return run(store, todo, worker=worker, say=None if said is None else said.append, **options)


def statuses(store, experiment="tables"):
    return {place[1:2] + place[4:]: line["status"] for place, line in store.latest(experiment).items()}


def test_run__cells_of_all_kinds__each_stored_with_what_it_gave(tmp_path, worker):
    store, said = Store(tmp_path / "r"), []
    summary = go(store, [cell("good"), cell("failing"), cell("crasher")], worker, said, command="hotvae benchmark x")
    assert (summary.n_done, summary.n_failed, summary.n_left) == (1, 2, 0)
    lines = {line["cell"]["model"]: line for line in store.lines("tables")}
    assert lines["good"]["command"] == "hotvae benchmark x"
    assert lines["good"]["seconds"] > 0
    assert lines["good"]["date"]
    assert store.rows_path(lines["good"]["fit"]).read_text() == "rows"
    assert lines["failing"]["error"] == "DataError: labels must be there"
    assert lines["crasher"]["error"] == "the process ended with code 1 (out of luck)"
    assert "[3/3]" in said[2]
    assert "maF1 0.500" in "".join(said)
    assert "left" in said[0]


def test_run__again__done_passed_over_failures_only_on_request(tmp_path, worker):
    store, cells = Store(tmp_path / "r"), [cell("good"), cell("failing")]
    go(store, cells, worker)
    todo = planned(store, cells)
    assert (len(todo.cells), todo.n_done, todo.n_failed) == (0, 1, 1)
    assert [found.model for found, _ in planned(store, cells, retry=True).cells] == ["failing"]
    assert len(planned(store, cells, fresh=True).cells) == 2


def test_plan__settings_have_changed__run_again_unless_kept(tmp_path, worker):
    store, cells = Store(tmp_path / "r"), [cell("good")]
    go(store, cells, worker)
    changed = plan(store, cells, settings=lambda cell: {"dim": 2})
    assert (len(changed.cells), changed.n_changed) == (1, 1)
    kept = plan(store, cells, settings=lambda cell: {"dim": 2}, keep_old=True)
    assert (len(kept.cells), kept.n_done) == (0, 1)


def test_plan__same_fit_in_another_experiment__taken_over_without_a_run(tmp_path, worker):
    store = Store(tmp_path / "r")
    go(store, [cell("good")], worker)
    twin = Cell("recipe", "full", "good", "yeast")
    todo = planned(store, [twin])
    assert todo.cells == []
    run(store, todo, worker=["/nothing/here"])
    line = store.latest("recipe")[twin.place]
    assert line["copied_from"] == "tables"
    assert line["fit"] == fit_fingerprint(twin, {})
    assert planned(store, [twin]).n_done == 1


def test_plan__row_of_the_papers_recipe__taken_over_from_its_reproduction(tmp_path, worker):
    store = Store(tmp_path / "r")
    go(store, [cell("good", experiment="reproduce")], worker)
    row = Cell("tables", "paper", "good", "yeast")
    assert [line["fit"] for _, line in planned(store, [row]).shared] == [fit_fingerprint(row, {})]
    assert planned(store, [replace(row, seed=1)]).shared == []


def test_plan__same_fit_measured_in_more_ways_elsewhere__taken_over_but_not_the_other_way(tmp_path, worker):
    store = Store(tmp_path / "r")
    survey = Cell("communities", "good", "good", "yeast", measures=EXPERIMENTS["communities"].measures)
    go(store, [cell("good"), survey], worker)
    table = Cell("recipe", "full", "good", "yeast", seed=1)
    assert len(planned(store, [table]).cells) == 1  # another seed
    go(store, [replace(survey, seed=1)], worker)
    run(store, planned(store, [table]), worker=["/nothing/here"])
    assert store.latest("recipe")[table.place]["copied_from"] == "communities"
    assert planned(store, [table]).n_done == 1
    # What has no ecological measures cannot stand in for what asks for them.
    assert len(planned(store, [replace(survey, seed=0, variant="other")]).shared) == 1
    go(store, [cell("good", seed=2)], worker)
    assert len(planned(store, [replace(survey, seed=2)]).cells) == 1


def test_run__cell_over_its_limit__ended_and_noted_as_too_slow(tmp_path, worker):
    store = Store(tmp_path / "r")
    summary = go(store, [cell("sleeper")], worker, limit=0.5)
    assert (summary.n_done, summary.n_failed) == (0, 1)
    line = store.latest("tables")[cell("sleeper").place]
    assert line["status"] == "too slow"  # had it been waited for, it would be done
    assert "the limit for a cell" in line["error"]
    assert planned(store, [cell("sleeper")]).n_failed == 1


def test_run__budget_spent__nothing_more_started(tmp_path, worker):
    store = Store(tmp_path / "r")
    summary = go(store, [cell(seed=seed) for seed in range(4)], worker, budget=1e-9)
    assert (summary.n_done, summary.n_left) == (0, 4)
    assert go(store, [cell(seed=seed) for seed in range(4)], worker).n_done == 4


def test_run__cell_known_to_take_longer_than_the_rest_of_the_budget__left_for_later(tmp_path, worker):
    store = Store(tmp_path / "r")
    store.append({"cell": cell("slow").to_dict(), "status": "done", "fit": "f", "seconds": 500.0})
    todo = planned(store, [cell("slow", seed=1), cell("good")])
    summary = run(store, todo, worker=worker, budget=100.0)
    assert (summary.n_done, summary.n_left) == (1, 1)
    assert ("good", 0) in statuses(store)


@pytest.mark.parametrize(("jobs", "status"), [(2, "done"), (1, "failed")])
def test_run__cells_that_wait_for_each_other__meet_only_with_two_jobs(tmp_path, worker, jobs, status, monkeypatch):
    store = Store(tmp_path / "r")
    if jobs == 1:
        monkeypatch.setenv("ALONE", "1")  # there is nobody to wait for
    go(store, [cell("meeting", seed=seed) for seed in range(2)], worker, jobs=jobs)
    assert statuses(store)["meeting", 0] == status


def test_run__no_job__refused(tmp_path):
    with pytest.raises(ConfigError, match="jobs must be at least 1; got 0"):
        run(Store(tmp_path), Plan([]), jobs=0)


def test_run__killed_in_the_middle__what_was_done_is_kept_and_the_rest_runs_later(tmp_path, worker):
    """A runner in a process of its own is killed while its second cell runs."""
    store = Store(tmp_path / "r")
    script = tmp_path / "go.py"
    script.write_text(
        textwrap.dedent(f"""
        from paper.experiments import Cell
        from paper.runner import plan, run
        from paper.store import Store
        store = Store({str(store.folder)!r})
        cells = [Cell("tables", kind, kind, "yeast") for kind in ("good", "sleeper", "better")]
        run(store, plan(store, cells, settings=lambda cell: {{}}), worker={worker!r})
        """)
    )
    process = subprocess.Popen([sys.executable, str(script)], env=worker_environment())
    try:
        waited = time.monotonic()
        while not store.path("tables").exists() and time.monotonic() - waited < 60:
            time.sleep(0.05)
        assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.wait()
    assert statuses(store) == {("good", 0): "done"}
    cells = [cell("good"), cell("better")]
    assert [found.model for found, _ in planned(store, cells).cells] == ["better"]
    go(store, cells, worker)
    assert statuses(store)["better", 0] == "done"


def test_estimates__same_model_and_set__median_of_what_it_took(tmp_path):
    store = Store(tmp_path)
    for seed, seconds in enumerate((1.0, 3.0, 50.0)):
        store.append({"cell": cell("ridge", seed).to_dict(), "status": "done", "fit": str(seed), "seconds": seconds})
    estimates = Estimates(store)
    assert estimates.of(cell("ridge", 9)) == 3.0
    assert estimates.is_sure(cell("ridge", 9))
    assert estimates.of(cell("other")) == 3.0  # of the set
    assert not estimates.is_sure(cell("other"))
    assert estimates.total([cell("ridge"), cell("other")]) == 6.0
    assert Estimates(Store(tmp_path / "empty")).total([cell("ridge")]) is None


def test_answer__settings_that_do_not_fit__failed_with_their_message(tmp_path):
    wrong = Cell("tables", "mlknn", "mlknn", "virtual-60-4", settings={"n_neighbours": 0})
    found = answer(wrong, tmp_path / "rows.npz")
    assert found["status"] == "failed"
    assert found["error"].startswith("ConfigError: n_neighbours must be")
    assert not list(tmp_path.iterdir())


def test_answer__error_of_another_kind__failed_with_its_place_but_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("paper.cells.recipe_of", lambda cell: 1 / 0)
    found = answer(Cell("tables", "mlknn", "mlknn", "virtual-60-4"), tmp_path / "rows.npz")
    assert found["error"].startswith("ZeroDivisionError: division by zero (test_runner.py:")
