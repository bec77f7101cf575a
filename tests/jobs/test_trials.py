"""Trials of a search: only rows held out count, journals go on, hopeless fits end, and the second look."""

import json
import shutil
import sys
import time
from dataclasses import replace

import numpy as np
import optuna
import pytest

import hotvae.jobs.train as train_module
from hotvae.data.catalog import CatalogData, describe
from hotvae.data.dataset import Dataset
from hotvae.data.splits import split_dataset
from hotvae.data.synthetic import virtual_region
from hotvae.errors import ConfigError
from hotvae.estimators.registry import find_classifier
from hotvae.jobs import trials
from hotvae.jobs.search_space import Choices
from hotvae.jobs.settings import TrainSettings
from hotvae.jobs.train import new_model, read_job
from hotvae.jobs.trials import (
    Task,
    again_key,
    candidates,
    check_journal,
    look_again,
    looked_again,
    open_study,
    over_in,
    put_back,
    run_trials,
)
from hotvae.jobs.tune import found_in, plan
from hotvae.metrics import log_loss
from hotvae.training.progress import OutOfTimeError
from tests.cli.region import region_table

LATER = 1e6
ROLES = {"labels": ("sp_*",), "id_column": "site", "coordinates": "easting_km,northing_km"}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("tune") / "region.csv"
    region_table(100).to_csv(path, index=False)
    return path


def task_of(table, model="mlknn", metric="log_loss", held=(), roles=ROLES, **parameters):
    return plan(TrainSettings(**roles, model=model, parameters=parameters), table, metric=metric, held=held)


@pytest.fixture(scope="module")
def task(table):
    return task_of(table)


@pytest.fixture
def network(table):
    """Find the rate of a small plain network, of two: one that learns and one that does not."""
    found = task_of(table, "plain", max_epochs=8, encoder_widths=(16,))
    return replace(found, space={"learning_rate": Choices((1e-2, 1e-9))}, start={"learning_rate": 1e-2})


def all_in(task, journal):
    return open_study(task, journal).get_trials(deepcopy=False)


def later():
    return time.time() + LATER


# --- rows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("part", "is_seen"), [("test", False), ("validation", True)])
def test_trials__labels_of_a_part_turned_round__count_if_it_judges_and_not_if_it_is_for_the_test(
    part, is_seen, tmp_path, monkeypatch
):
    """The whole search and its second look, trial by trial, do not depend on test rows."""
    region = virtual_region(150, 5, random_state=0).dataset
    split = split_dataset(region, kind="random", fractions=(0.6, 0.2, 0.2), random_state=0)
    seen = []
    for turned in (False, True):
        labels, features = region.labels.copy(), region.features.copy()
        if turned:
            rows = getattr(split, part)
            labels[rows] = 1 - labels[rows]
            if part == "test":
                features[rows] = np.random.default_rng(0).permutation(features[rows])
        made = CatalogData(describe("yeast"), Dataset(features, labels), split, tmp_path)
        monkeypatch.setattr(train_module, "load", lambda name, *, split, seed, made=made: made)
        task, journal = plan(TrainSettings(data="yeast", model="mlknn")), tmp_path / f"trials{turned}"
        run_trials(task, journal, deadline=later(), n_trials=4)
        look_again(task, journal, [(0, 1), (1, 1)], deadline=later())
        study = open_study(task, journal)
        values = [(trial.params, trial.value) for trial in study.get_trials(deepcopy=False)]
        seen.append((values, [study.user_attrs[again_key(number, 1)] for number in (0, 1)]))
    assert len(seen[0][0]) == 4
    assert (seen[0] != seen[1]) is is_seen


def test_second_look__of_a_named_set__other_rows_judge_and_never_a_test_row(tmp_path, monkeypatch):
    region = virtual_region(120, 5, random_state=0).dataset
    split = split_dataset(region, kind="random", fractions=(0.6, 0.2, 0.2), random_state=0)
    numbered = replace(region, features=np.arange(120.0)[:, None], feature_names=("row",), coordinates=None)
    made = CatalogData(describe("yeast"), numbered, split, tmp_path)
    monkeypatch.setattr(train_module, "load", lambda name, *, split, seed: made)
    settings = TrainSettings(data="yeast", model="mlknn", parameters={"random_state": 0})
    draws = []
    for draw in range(3):
        job = read_job(new_model(settings), settings, None, draw)
        learn, judge, test = (
            {int(row) for row in np.asarray(part)[:, 0]}
            for part in (job.training.features, job.validation[0], job.test[0])
        )
        assert test == set(split.test.tolist())
        assert learn | judge == set(range(120)) - test
        assert len(learn) + len(judge) + len(test) == 120
        draws.append(frozenset(judge))
    assert len(set(draws)) == 3
    assert {len(judge) for judge in draws} == {24}


@pytest.mark.parametrize(
    ("roles", "kind"),
    [
        (ROLES, "block"),
        ({**ROLES, "groups": "team"}, "group"),
        ({"labels": ("sp_*",), "id_column": "site"}, "stratified"),
    ],
)
def test_rows__of_a_table__held_out_as_training_does_and_others_in_the_second_look(roles, kind, tmp_path):
    rows = region_table(100)
    rows["team"] = [f"t{row % 12}" for row in range(100)]
    rows.to_csv(tmp_path / "t.csv", index=False)
    roles = roles if "groups" in roles else {**roles, "drop": ("team",)}
    task = task_of(tmp_path / "t.csv", roles=roles)
    first, second = (trials._rows(task, draw) for draw in (0, 1))
    assert first.card["split"] == second.card["split"] == kind
    assert task.rows == f"{first.training.n_samples} rows learn, {len(first.validation[1])} judge ({kind})"
    assert not first.validation[0].equals(second.validation[0])
    judged = {tuple(row) for row in np.round(first.validation[0].to_numpy(float), 6)}
    learned = {tuple(row) for row in np.round(np.asarray(first.training.features, float), 6)}
    assert not judged & learned
    if kind == "group":
        whole = rows["team"].isin(set(first.training.groups))
        assert first.training.n_samples == whole.sum() < 100  # all rows of the teams that it learns from


# --- trials and the journal ------------------------------------------------------------------------------


def test_run_trials__first_trial__is_without_a_search(task, tmp_path):
    run_trials(task, tmp_path / "j", deadline=later(), n_trials=1)
    (trial,) = all_in(task, tmp_path / "j")
    assert trial.params == {"n_neighbours": 10, "smoothing": 1.0}
    job = read_job(new_model(task.settings), task.settings, task.table)
    model = find_classifier("mlknn")().fit(job.training, validation=job.validation)
    assert trial.value == pytest.approx(log_loss(job.validation[1].to_numpy(), model.predict_proba(job.validation[0])))


def test_run_trials__stopped_and_killed_in_between__as_if_it_had_not_been(task, tmp_path):
    """The second run is stopped after two trials, and killed in the fourth."""
    run_trials(task, tmp_path / "whole", deadline=later(), n_trials=12)
    run_trials(task, tmp_path / "parts", deadline=later(), n_trials=2)
    run_trials(task, tmp_path / "parts", deadline=later(), n_trials=3)
    killed = all_in(task, tmp_path / "whole")[3].params
    study = open_study(task, tmp_path / "parts")
    study.enqueue_trial(killed)
    trial = study.ask()
    for name, value in killed.items():
        low, high = task.space[name].low, task.space[name].high
        drawn = (trial.suggest_int if isinstance(value, int) else trial.suggest_float)(name, low, high, log=True)
        assert drawn == value
    put_back(study)
    run_trials(task, tmp_path / "parts", deadline=later(), n_trials=12)
    whole, parts = (
        [(trial.params, trial.value) for trial in over_in(open_study(task, tmp_path / name))]
        for name in ("whole", "parts")
    )
    assert len(whole) == 12
    assert len({json.dumps(params) for params, _ in whole}) > 10  # and not the same draw again and again
    assert parts == whole
    found = [found_in(open_study(task, tmp_path / name), task) for name in ("whole", "parts")]
    assert found[0].settings == found[1].settings
    assert (found[1].n_complete, found[1].n_failed) == (12, 0)


def test_run_trials__other_seed_or_process__other_trials(task, tmp_path):
    other = replace(task, settings=replace(task.settings, parameters={"random_state": 1}))
    for journal, one, number in (("a", task, 0), ("b", task, 1), ("c", other, 0)):
        run_trials(one, tmp_path / journal, deadline=later(), n_trials=2, number=number)
    drawn = [
        all_in(one, tmp_path / name)[1].params["smoothing"]
        for name, one in zip("abc", (task, task, other), strict=True)
    ]
    assert len(set(drawn)) == 3


def test_journal__two_tasks__two_studies(task, table, tmp_path):
    run_trials(task, tmp_path / "j", deadline=later(), n_trials=1)
    other = task_of(table, metric="macro_f1")
    assert [trial.state.name for trial in all_in(other, tmp_path / "j")] == ["WAITING"]
    assert [trial.state.name for trial in all_in(task, tmp_path / "j")] == ["COMPLETE"]


def test_name__table_moved_or_changed__the_content_counts(task, table, tmp_path):
    moved = tmp_path / "elsewhere.csv"
    shutil.copy(table, moved)
    assert task_of(moved).name == task.name
    moved.write_text(moved.read_text().replace("s000,", "s900,"))
    assert task_of(moved).name != task.name
    assert task_of(table, n_neighbours=11).name != task.name
    judges = [tmp_path / name for name in ("a.csv", "b.csv")]
    for path in judges:
        region_table(40, seed=1).to_csv(path, index=False)
    first, second = (task_of(table, roles={**ROLES, "validation": str(path)}).name for path in judges)
    assert first == second != task.name
    region_table(40, seed=2).to_csv(judges[1], index=False)
    assert task_of(table, roles={**ROLES, "validation": str(judges[1])}).name != first
    assert task_of(table, held=["smoothing"]).name != task.name


def test_task__through_json__is_the_same(table):
    task = task_of(table, "plain", encoder_widths=(16, 8), held=["learning_rate"])
    assert Task.from_dict(json.loads(json.dumps(task.to_dict()))) == task
    assert task.space["encoder_widths"].values[-1] == (16, 8)


def test_digest__folder__is_that_of_its_files(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / "rows.csv").write_text("1")
        (tmp_path / name / "rows.csv").write_text("2")
    first, second = (trials._digest(str(tmp_path / name)) for name in ("a", "b"))
    assert first == second
    (tmp_path / "b" / "deep" / "rows.csv").write_text("3")
    assert trials._digest(str(tmp_path / "b")) != first


def test_run_trials__time_is_over__nothing_started(task, tmp_path):
    run_trials(task, tmp_path / "j", deadline=time.time() - 1)
    assert [trial.state.name for trial in all_in(task, tmp_path / "j")] == ["WAITING"]


def test_run_trials__no_trial_ended_in_time__one_is_waited_for(task, tmp_path):
    run_trials(task, tmp_path / "j", deadline=time.time() - 1, last=later(), n_trials=5)
    assert [trial.state.name for trial in all_in(task, tmp_path / "j")] == ["COMPLETE"]


def test_put_back__killed_processes__tried_once_more_and_the_start_for_ever(task, tmp_path):
    """What kills its process twice does so a third time; but without the start nothing can be compared with."""
    study = open_study(task, tmp_path / "j")
    for _ in range(3):  # the start
        assert study.ask().params == {}
        put_back(study)
        (waiting,) = study.get_trials(states=(optuna.trial.TrialState.WAITING,))
        assert waiting.user_attrs["start"]
    study.tell(study.ask(), 0.5)
    study.ask()  # another
    put_back(study)
    assert not study.ask().user_attrs.get("start")
    put_back(study)
    assert not study.get_trials(states=(optuna.trial.TrialState.WAITING,))
    assert [trial.value for trial in over_in(study)] == [0.5]


@pytest.mark.slow
def test_network__epochs_reported__and_a_hopeless_trial_is_ended(network, tmp_path):
    study = open_study(network, tmp_path / "j")
    for _ in range(5):
        study.enqueue_trial({"learning_rate": 1e-2})
    study.enqueue_trial({"learning_rate": 1e-9})
    run_trials(network, tmp_path / "j", deadline=later(), n_trials=7)
    found = all_in(network, tmp_path / "j")
    hopeless = next(trial for trial in found if trial.params["learning_rate"] == 1e-9)
    assert hopeless.state.name == "PRUNED"
    assert trials._WARM_UP <= max(hopeless.intermediate_values) < 8
    assert sorted(found[0].intermediate_values) == list(range(1, 9))
    assert found_in(open_study(network, tmp_path / "j"), network).n_pruned == 1


def test_network__budget_over_in_mid_training__trial_ended_and_put_back(network, tmp_path, monkeypatch):
    def over(watcher, record):
        if record["epoch"] == 2:
            raise OutOfTimeError

    monkeypatch.setattr(trials._Watcher, "epoch", over)
    run_trials(network, tmp_path / "j", deadline=later())
    study = open_study(network, tmp_path / "j")
    put_back(study)
    ended, waiting = study.get_trials()
    assert (ended.state.name, waiting.state.name) == ("FAIL", "WAITING")
    assert waiting.system_attrs["fixed_params"] == ended.params
    assert over_in(study) == []


def test_trial__settings_that_are_refused__counted_with_the_reason(task, tmp_path):
    far = replace(task, space={"n_neighbours": Choices((10, -1))}, start={"n_neighbours": 10})
    study = open_study(far, tmp_path / "j")
    study.enqueue_trial({"n_neighbours": -1})
    run_trials(far, tmp_path / "j", deadline=later(), n_trials=2)
    found = found_in(study, far)
    assert (found.n_complete, found.n_failed) == (1, 1)
    assert "n_neighbours must be" in found.last_error


def test_trial__heads__go_with_the_width():
    assert trials._fitting({"dim": 128}, {"n_heads": 2}) == {"dim": 128, "n_heads": 2}
    assert trials._fitting({"dim": 256}, {"n_heads": 2}) == {"dim": 256, "n_heads": 4}


# --- journals that are none ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"depth,sp_owl\n1,0\n",
        b"\x00\xff\x80 not a text\n",
        b'{"a": 1}\n',
        b"[]\n",
        b'{"op_code": 0',
        b'{"op_code":0}\nx\n',
    ],
)
def test_check_journal__garbage__refused_and_left_as_it_is(content, tmp_path):
    (tmp_path / "j").write_bytes(content)
    with pytest.raises(ConfigError, match=r"journal must be a file that a search wrote; got .*line \d is none of its"):
        check_journal(tmp_path / "j", print)
    assert (tmp_path / "j").read_bytes() == content


def test_open_study__records_without_sense__refused(task, tmp_path):
    (tmp_path / "j").write_text('{"op_code":0}\n')
    check_journal(tmp_path / "j", print)
    with pytest.raises(ConfigError, match="journal must be a file that a search wrote"):
        open_study(task, tmp_path / "j")


def test_check_journal__last_record_half_written__left_out_and_said(task, tmp_path):
    run_trials(task, tmp_path / "j", deadline=later(), n_trials=2)
    whole, said = (tmp_path / "j").read_bytes(), []
    (tmp_path / "j").write_bytes(whole + b'{"op_code":4,"wor')
    check_journal(tmp_path / "j", said.append)
    assert (tmp_path / "j").read_bytes() == whole
    assert said == [f"the last record of {tmp_path / 'j'} was not whole and is left out"]
    run_trials(task, tmp_path / "j", deadline=later(), n_trials=3)
    assert len(over_in(open_study(task, tmp_path / "j"))) == 3


def test_check_journal__folders__refused(tmp_path):
    with pytest.raises(ConfigError, match="journal must be in a folder that exists"):
        check_journal(tmp_path / "no" / "j", print)
    with pytest.raises(ConfigError, match="journal must be a file; got the folder"):
        check_journal(tmp_path, print)
    (tmp_path / "empty").touch()
    check_journal(tmp_path / "empty", print)


def test_optuna__not_installed__says_what_to_install(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(
        ConfigError, match=r"optuna must be installed to search for settings; got none\. The extra 'tune' of hotvae"
    ):
        task_of(table)


# --- the second look -------------------------------------------------------------------------------------


def finished(study, value, *, start=False, **settings):
    notes = {"settings": settings} | ({"start": True} if start else {})
    study.add_trial(optuna.trial.create_trial(value=value, user_attrs=notes))


def study_of(direction, *values):
    """A study whose trial number ``n`` has ``dim`` n; the first is the start."""
    study = optuna.create_study(direction=direction)
    for number, value in enumerate(values):
        finished(study, value, start=not number, dim=number)
    return study


def test_second_look__best_by_luck__the_one_that_is_good_twice_wins(task):
    """Trial 2 has the best value, but not on other rows; trial 1 is best there."""
    study = study_of("maximize", 0.50, 0.55, 0.60, 0.40, 0.30)
    assert candidates(study) == [0, 2, 1]
    assert found_in(study, task).settings == {"dim": 2}
    for number, values in {0: (0.45, 0.45), 1: (0.50, 0.48), 2: (0.52, 0.40)}.items():
        for draw, value in enumerate(values, 1):
            study.set_user_attr(again_key(number, draw), value)
    found = found_in(study, task)
    assert found.settings == {"dim": 1}
    assert (found.value, found.start_value) == (0.55, 0.50)
    assert (found.value_again, found.start_again) == (pytest.approx(0.49), pytest.approx(0.45))


def test_second_look__same_settings_again__looked_at_once():
    study = optuna.create_study(direction="maximize")
    for number, (value, dim) in enumerate(((0.50, 0), (0.60, 2), (0.60, 2), (0.50, 0), (0.40, 4), (0.30, 6))):
        finished(study, value, start=not number, dim=dim)
    assert candidates(study) == [0, 1, 4]


def test_second_look__smaller_is_better__the_smallest_wins(task):
    study = study_of("minimize", 0.50, 0.45, 0.40, 0.60)
    assert candidates(study) == [0, 2, 1]
    for number, value in {0: 0.42, 1: 0.47, 2: 0.44}.items():
        study.set_user_attr(again_key(number, 1), value)
    assert found_in(study, task).settings == {"dim": 0}


def test_second_look__time_was_over_in_mid_draw__only_draws_that_all_have_seen_count(task):
    study = study_of("maximize", 0.5, 0.6)
    study.set_user_attr(again_key(1, 1), 0.1)
    assert found_in(study, task).value_again is None
    study.set_user_attr(again_key(0, 1), 0.2)
    study.set_user_attr(again_key(1, 2), 0.9)
    assert found_in(study, task).settings == {"dim": 0}


def test_second_look__settings_that_fail_there__are_out_of_the_choice(task, tmp_path):
    """Minus one neighbour is refused; the other candidate wins, though it was behind."""
    study = open_study(task, tmp_path / "j")
    finished(study, 0.6, n_neighbours=5)
    finished(study, 0.5, n_neighbours=-1)
    look_again(task, tmp_path / "j", [(1, 1), (2, 1)], deadline=later())
    found = found_in(open_study(task, tmp_path / "j"), task)
    assert found.settings == {"n_neighbours": 5}
    assert found.value_again is not None


def test_second_look__one_trial__nothing_to_choose(task):
    study = study_of("maximize", 0.5)
    assert candidates(study) == []
    assert looked_again(study) == {}
    assert found_in(study, task).value_again is None


def test_second_look__values__are_those_of_a_fit_with_the_other_rows(task, tmp_path):
    run_trials(task, tmp_path / "j", deadline=later(), n_trials=1)
    look_again(task, tmp_path / "j", [(0, 2)], deadline=later())
    job = read_job(new_model(task.settings), task.settings, task.table, 2)
    model = find_classifier("mlknn")().fit(job.training, validation=job.validation)
    known = open_study(task, tmp_path / "j").user_attrs[again_key(0, 2)]
    assert known == pytest.approx(log_loss(job.validation[1].to_numpy(), model.predict_proba(job.validation[0])))


def test_second_look__time_is_over__fit_ended_and_nothing_noted(network, tmp_path):
    told = {"max_epochs": 10_000, "patience": 0, "encoder_widths": [8]}
    finished(open_study(network, tmp_path / "j"), 0.5, **told)
    look_again(network, tmp_path / "j", [(1, 1)], deadline=time.time() - 1)
    assert not open_study(network, tmp_path / "j").user_attrs


def test_second_look__rows_of_a_file__are_the_users_and_no_others_judge(table, tmp_path):
    region_table(40, seed=1).to_csv(tmp_path / "new.csv", index=False)
    task = task_of(table, roles={**ROLES, "validation": str(tmp_path / "new.csv")})
    assert task.rows == "100 rows learn, 40 judge (file)"
    assert task.n_draws == 0
