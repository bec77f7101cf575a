"""The search: only validation rows, resumable, pruned, in processes of its own, a preset at the end."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import optuna
import pytest

import paper.search as search_module
from hotvae.cli import main
from hotvae.data.catalog import CatalogData, describe
from hotvae.data.dataset import Dataset
from hotvae.data.splits import split_dataset
from hotvae.data.synthetic import virtual_region
from hotvae.errors import ConfigError
from hotvae.estimators.registry import find_classifier
from hotvae.jobs.settings import read_settings, train_settings
from hotvae.metrics import log_loss
from paper import cells
from paper.cells import recipe_of
from paper.search import (
    SPACES,
    Choices,
    Found,
    Numbers,
    Search,
    found_in,
    look_again,
    run_trials,
    search,
    write_preset,
)

LATER = 1e6


def trials_of(task, journal):
    return search_module._open_study(task, journal).get_trials(deepcopy=False)


def test_search__test_labels_turned_round__every_trial_is_the_same(tmp_path, monkeypatch):
    """The whole search, trial by trial, does not depend on test rows."""
    region = virtual_region(150, 5, random_state=0).dataset
    split = split_dataset(region, kind="random", fractions=(0.6, 0.2, 0.2), random_state=0)
    seen = []
    for turned in (False, True):
        labels, features = region.labels.copy(), region.features.copy()
        if turned:
            labels[split.test] = 1 - labels[split.test]
            features[split.test] = np.random.default_rng(0).permutation(features[split.test])
        made = CatalogData(describe("yeast"), Dataset(features, labels), split, tmp_path)
        monkeypatch.setattr(cells, "load", lambda name, *, split, seed, made=made: made)
        task, journal = Search("yeast", "mlknn"), tmp_path / f"trials{turned}"
        run_trials(task, journal, deadline=time.time() + LATER, n_trials=6)
        seen.append([(trial.params, trial.value) for trial in trials_of(task, journal)])
    assert len(seen[0]) == 6
    assert seen[0] == seen[1]


def test_search__validation_labels_turned_round__trials_differ(tmp_path, monkeypatch):
    """The counterpart: the rows that should count do count."""
    region = virtual_region(150, 5, random_state=0).dataset
    split = split_dataset(region, kind="random", fractions=(0.6, 0.2, 0.2), random_state=0)
    seen = []
    for turned in (False, True):
        labels = region.labels.copy()
        if turned:
            labels[split.validation] = 1 - labels[split.validation]
        made = CatalogData(describe("yeast"), Dataset(region.features, labels), split, tmp_path)
        monkeypatch.setattr(cells, "load", lambda name, *, split, seed, made=made: made)
        task, journal = Search("yeast", "mlknn"), tmp_path / f"trials{turned}"
        run_trials(task, journal, deadline=time.time() + LATER, n_trials=2)
        seen.append([trial.value for trial in trials_of(task, journal)])
    assert seen[0] != seen[1]


def test_run_trials__first_trial__is_the_preset(tmp_path):
    task = Search("virtual-80-4", "mlknn", settings={})
    run_trials(task, tmp_path / "j", deadline=time.time() + LATER, n_trials=1)
    assert trials_of(task, tmp_path / "j")[0].params == {"n_neighbours": 10, "smoothing": 1.0}


def test_run_trials__again__goes_on_where_it_ended(tmp_path):
    task, journal = Search("virtual-80-4", "mlknn"), tmp_path / "j"
    run_trials(task, journal, deadline=time.time() + LATER, n_trials=2)
    run_trials(task, journal, deadline=time.time() + LATER, n_trials=3)
    run_trials(task, journal, deadline=time.time() + LATER, n_trials=3)
    assert len(trials_of(task, journal)) == 3
    other = Search("virtual-80-4", "mlknn", metric="log_loss")
    assert [trial.state.name for trial in trials_of(other, journal)] == ["WAITING"]


def test_run_trials__time_is_over__nothing_started(tmp_path):
    task = Search("virtual-80-4", "mlknn")
    run_trials(task, tmp_path / "j", deadline=time.time() - 1)
    assert [trial.state.name for trial in trials_of(task, tmp_path / "j")] == ["WAITING"]


def test_stale_trial_of_a_killed_process__noted_as_failed(tmp_path):
    task = Search("virtual-80-4", "mlknn")
    study = search_module._open_study(task, tmp_path / "j")
    study.ask()
    search_module._end_stale(study)
    assert [trial.state.name for trial in study.get_trials()] == ["FAIL"]


def test_network__epochs_reported__and_a_hopeless_trial_is_pruned(tmp_path, monkeypatch):
    monkeypatch.setitem(SPACES, "plain", {"learning_rate": Choices((1e-2, 1e-9))})
    task = Search("virtual-120-5", "plain", "log_loss", settings={"max_epochs": 8, "encoder_widths": [16]})
    study = search_module._open_study(task, tmp_path / "j")
    for _ in range(6):
        study.enqueue_trial({"learning_rate": 1e-2})
    study.enqueue_trial({"learning_rate": 1e-9})
    run_trials(task, tmp_path / "j", deadline=time.time() + LATER, n_trials=8)
    trials = trials_of(task, tmp_path / "j")
    hopeless = next(trial for trial in trials if trial.params["learning_rate"] == 1e-9)
    assert hopeless.state.name == "PRUNED"
    assert search_module._WARM_UP <= max(hopeless.intermediate_values) < 8
    complete = next(trial for trial in trials if trial.state.name == "COMPLETE")
    assert sorted(complete.intermediate_values) == list(range(1, 9))


def test_network__budget_over_in_mid_training__trial_ended(tmp_path):
    task = Search("virtual-120-5", "plain", settings={"max_epochs": 10_000, "patience": 0, "encoder_widths": [8]})
    run_trials(task, tmp_path / "j", deadline=time.time() + 3)
    assert {trial.state.name for trial in trials_of(task, tmp_path / "j")} == {"PRUNED"}


def test_watched__after_a_trial__the_loop_tells_nobody_any_more():
    from hotvae.training import loop
    from hotvae.training.progress import make_progress

    with pytest.raises(RuntimeError, match="stop"), search_module.watched(None):
        raise RuntimeError("stop")
    assert loop.make_progress is make_progress


def test_spaces__every_parameter__belongs_to_its_model_and_the_start_is_inside():
    for model, space in SPACES.items():
        assert set(space) <= set(find_classifier(model).all_settings())
        start, used = search_module._space(Search("yeast", model))
        for name, value in start.items():
            told = used[name]
            if isinstance(told, Choices):
                assert value in [search_module._plain(option) for option in told.values]
            else:
                assert told.low <= value <= told.high


def test_suggest__numbers__three_digits_within_the_range():
    space = {"share": Numbers(0.12345, 0.98765), "rate": Numbers(1e-5, 1e-2, log=True), "rows": Numbers(1, 50)}
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(200):
        chosen = search_module._suggest(study.ask(), space, {})
        for name in ("share", "rate"):
            assert space[name].low <= chosen[name] <= space[name].high
            ends = (space[name].low, space[name].high)
            assert chosen[name] in ends or chosen[name] == float(f"{chosen[name]:.3g}")
        assert isinstance(chosen["rows"], int)
    preset = {"share": 0.123456}
    study.enqueue_trial(preset)
    assert search_module._suggest(study.ask(), space, preset)["share"] == preset["share"]  # to the last digit


@pytest.mark.parametrize("model", SPACES)
def test_spaces__every_end_and_choice__is_a_setting_that_the_model_takes(model):
    # A space with a value that is refused would search on with what is left, and nobody would know.
    for name, told in search_module._space(Search("yeast", model))[1].items():
        for value in told.values if isinstance(told, Choices) else (told.low, told.high):
            recipe = recipe_of(Search("yeast", model, settings={name: value}).cell)
            recipe.cls.from_settings(**recipe.parameters).check_parameters()


def test_search__trials_that_fail__leave_the_others_alone_and_say_why(tmp_path, monkeypatch):
    # Ninety-eight failures of long words each: more than a pipe holds that nobody reads.
    long = "n_neighbours must be " + "small" * 500
    (tmp_path / "sitecustomize.py").write_text(
        "from hotvae.baselines.mlknn import MLkNN\n"
        "from hotvae.errors import ConfigError\n"
        "fit, calls = MLkNN.fit, []\n"
        "def refuse(*told, **more):\n"
        "    calls.append(1)\n"
        "    if 1 < len(calls) < 100:\n"
        f"        raise ConfigError({long!r})\n"
        "    return fit(*told, **more)\n"
        "MLkNN.fit = refuse\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    found = search(Search("virtual-60-4", "mlknn"), tmp_path / "j", budget=60, n_trials=101)
    assert (found.n_complete, found.n_failed) == (3, 98)
    assert found.last_error == long


def test_search__in_a_process__finds_settings_and_they_train(tmp_path, capsys):
    out = tmp_path / "best.toml"
    said = ["tune", "virtual-80-4", "--model", "mlknn", "--budget", "10m", "--trials", "4", "--out", str(out)]
    assert main(said) == 0
    said_in_the_end = capsys.readouterr().out
    assert "4 trials finished, 0 pruned, 0 failed" in said_in_the_end
    assert re.search(r"on other validation rows, .*: 0\.\d{4}; the first trial, the preset: 0\.\d{4}", said_in_the_end)
    assert re.search(r"^# hotvae tune virtual-80-4 .* --out best.toml$", out.read_text(), re.MULTILINE)
    values = read_settings(out)
    known = find_classifier("mlknn").all_settings()
    settings = train_settings(known, ("preset", values))
    find_classifier("mlknn")(**settings.parameters)
    assert (tmp_path / "best.journal").exists()


@pytest.mark.skipif(os.name != "posix", reason="asks for the processes of a group")
@pytest.mark.parametrize("command", [("tune", "--budget", "5m", "--out", "best.toml"), ("benchmark", "--results", ".")])
def test_workers__command_ended_by_sigterm__are_ended_with_it(command, tmp_path):
    """A worker that goes on alone would take a core from whoever comes next, and note what nobody asked for."""
    name = {"tune": "virtual-2000-40", "benchmark": "ablation"}[command[0]]
    program = [sys.executable, "-m", "hotvae", command[0], name, *command[1:]]
    program += ["--smoke", "--limit", "10m"] if command[0] == "benchmark" else []
    process = subprocess.Popen(program, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        give_up = time.monotonic() + 60
        while len(in_group(process.pid)) < 2 and time.monotonic() < give_up:
            time.sleep(0.05)
        assert len(in_group(process.pid)) == 2
        process.terminate()
        said = process.communicate(timeout=60)[1]
        assert process.returncode == 130
        assert "interrupted; the same command goes on" in said
        assert in_group(process.pid) == []
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def in_group(group):
    """Numbers of the processes of a group that are still running."""
    told = subprocess.run(["ps", "-eo", "pid=,pgid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in told.splitlines()]
    return [int(number) for number, of, state in rows if int(of) == group and not state.startswith("Z")]


# --- the second look -------------------------------------------------------------------------------------


def finished(study, value, **settings):
    trial = optuna.trial.create_trial(value=value, user_attrs={"settings": settings})
    study.add_trial(trial)


def test_second_look__best_by_luck__the_one_that_is_good_twice_wins():
    """Trial 2 has the best value, but not on other rows; trial 1 is best there."""
    study = optuna.create_study(direction="maximize")
    for number, value in enumerate((0.50, 0.55, 0.60, 0.40, 0.30)):
        finished(study, value, dim=number)
    assert search_module._candidates(study) == [0, 2, 1]
    assert found_in(study, Search("yeast")).settings == {"dim": 2}
    for number, values in {0: (0.45, 0.45), 1: (0.50, 0.48), 2: (0.52, 0.40)}.items():
        for draw, value in enumerate(values, 1):
            study.set_user_attr(search_module._again_key(number, draw), value)
    found = found_in(study, Search("yeast"))
    assert found.settings == {"dim": 1}
    assert (found.value, found.value_again, found.preset_again) == (0.55, pytest.approx(0.49), pytest.approx(0.45))


def test_second_look__same_settings_again__looked_at_once():
    study = optuna.create_study(direction="maximize")
    for value, dim in ((0.50, 0), (0.60, 2), (0.60, 2), (0.50, 0), (0.40, 4), (0.30, 6)):
        finished(study, value, dim=dim)
    assert search_module._candidates(study) == [0, 1, 4]


def test_second_look__smaller_is_better__the_smallest_wins():
    study = optuna.create_study(direction="minimize")
    for number, value in enumerate((0.50, 0.45, 0.40, 0.60)):
        finished(study, value, dim=number)
    assert search_module._candidates(study) == [0, 2, 1]
    for number, value in {0: 0.42, 1: 0.47, 2: 0.44}.items():
        study.set_user_attr(search_module._again_key(number, 1), value)
    assert found_in(study, Search("yeast", metric="log_loss")).settings == {"dim": 0}


def test_second_look__time_was_over_in_mid_draw__only_draws_that_all_have_seen_count():
    study = optuna.create_study(direction="maximize")
    for number, value in enumerate((0.5, 0.6)):
        finished(study, value, dim=number)
    study.set_user_attr(search_module._again_key(1, 1), 0.1)
    assert found_in(study, Search("yeast")).value_again is None
    study.set_user_attr(search_module._again_key(0, 1), 0.2)
    study.set_user_attr(search_module._again_key(1, 2), 0.9)
    assert found_in(study, Search("yeast")).settings == {"dim": 0}


def test_second_look__settings_that_fail_there__are_out_of_the_choice(tmp_path):
    """Minus one neighbour is refused; the other candidate wins, though it was behind."""
    task, journal = Search("virtual-120-5", "mlknn"), tmp_path / "j"
    study = search_module._open_study(task, journal)
    finished(study, 0.5, n_neighbours=5)
    finished(study, 0.6, n_neighbours=-1)
    look_again(task, journal, [(1, 1), (2, 1)], deadline=time.time() + LATER)
    found = found_in(search_module._open_study(task, journal), task)
    assert found.settings == {"n_neighbours": 5}
    assert found.value_again is not None


def test_second_look__one_trial__nothing_to_choose():
    study = optuna.create_study(direction="maximize")
    finished(study, 0.5, dim=0)
    assert search_module._candidates(study) == []
    assert found_in(study, Search("yeast")).value_again is None


def test_second_look__other_validation_rows__never_a_test_row():
    cell = Search("virtual-120-5", "mlknn").cell
    recipe = recipe_of(cell)
    first, second, third = (cells.read_parts(cell, recipe, draw).split for draw in (0, 1, 2))
    for split in (second, third):
        np.testing.assert_array_equal(split.test, first.test)
        assert len(split.validation) == len(first.validation)
        assert sorted([*split.train, *split.validation]) == sorted([*first.train, *first.validation])
        assert set(split.validation) != set(first.validation)
    assert set(second.validation) != set(third.validation)


def test_second_look__values__are_those_of_a_fit_with_the_other_rows(tmp_path):
    task, journal = Search("virtual-120-5", "mlknn", "log_loss"), tmp_path / "j"
    run_trials(task, journal, deadline=time.time() + LATER, n_trials=1)
    look_again(task, journal, [(0, 2)], deadline=time.time() + LATER)
    parts = cells.read_parts(task.cell, recipe_of(task.cell), 2)
    model = find_classifier("mlknn")().fit(*parts.train, validation=parts.validation)
    known = search_module._open_study(task, journal).user_attrs[search_module._again_key(0, 2)]
    assert known == pytest.approx(log_loss(parts.validation[1], model.predict_proba(parts.validation[0])))


def test_second_look__time_is_over__fit_ended_and_nothing_noted(tmp_path):
    told = {"max_epochs": 10_000, "patience": 0, "encoder_widths": [8]}
    task, journal = Search("virtual-120-5", "plain", settings=told), tmp_path / "j"
    search_module._open_study(task, journal).add_trial(
        optuna.trial.create_trial(value=0.5, user_attrs={"settings": told})
    )
    look_again(task, journal, [(1, 1)], deadline=time.time() + 1)
    assert not search_module._open_study(task, journal).user_attrs


def test_second_look__no_time_for_it__said(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(search_module, "_N_DRAWS", 0)
    said = ["tune", "virtual-80-4", "--model", "mlknn", "--trials", "2", "--out", str(tmp_path / "best.toml")]
    assert main(said) == 0
    assert "no time was left for a second look" in capsys.readouterr().out
    assert "other validation rows" not in (tmp_path / "best.toml").read_text()


def test_search__no_trial_came_to_its_end__refused():
    with pytest.raises(ConfigError, match=r"must finish at least one trial; got 0 .* The last words: oh no"):
        found_in(optuna.create_study(), Search("yeast"), "oh no")


def test_search__mistakes__refused(tmp_path):
    with pytest.raises(ConfigError, match="jobs must be at least 1; got 0"):
        search(Search("yeast"), tmp_path / "j", budget=1, jobs=0)
    with pytest.raises(ConfigError, match="journal must be in a folder that exists"):
        search(Search("yeast"), tmp_path / "no" / "j", budget=1)
    with pytest.raises(ConfigError, match="metric must be one of 'macro_f1', 'log_loss'; got 'auc'"):
        Search("yeast", metric="auc")
    with pytest.raises(ConfigError, match=r"preset must end in .toml; got 'best.txt'"):
        write_preset(tmp_path / "best.txt", Found(Search("yeast"), {}, 0.5, 1, 0, 0, 1.0))


def test_optuna__not_installed__says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ConfigError, match=r"optuna must be installed to search; got none\. Try pip install"):
        search_module._optuna()


def test_preset__written_and_read_back__same_recipe(tmp_path, monkeypatch):
    found = {"encoder_widths": [64, 32], "kl_weight": 1e-05, "encoder": "mlp", "checkpointing": True, "rank": None}
    write_preset(tmp_path / "sider.hotvae_network.toml", Found(Search("sider"), found, 0.5, 1, 0, 0, 1.0))
    monkeypatch.setattr(cells, "TUNED", tmp_path)
    parameters = recipe_of(Search("sider").cell).parameters
    assert parameters == {"encoder_widths": (64, 32), "kl_weight": 1e-05, "encoder": "mlp", "checkpointing": True}
