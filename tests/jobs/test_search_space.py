"""What is searched: settings that each model has and takes, a start inside, and how a trial draws."""

import optuna
import pytest

from hotvae.errors import ConfigError
from hotvae.estimators.registry import find_classifier
from hotvae.jobs.search_space import SPACES, Choices, Numbers, plain, space_of, suggest


@pytest.mark.parametrize("model", SPACES)
def test_spaces__every_end_and_choice__is_a_setting_that_the_model_takes(model):
    # A space with a value that is refused would search on with what is left, and nobody would know.
    cls = find_classifier(model)
    start, space = space_of(model, cls.all_settings())
    assert set(start) == set(space) == set(SPACES[model])
    for name, told in space.items():
        values = told.values if isinstance(told, Choices) else (told.low, told.high)
        for value in values:
            cls.from_settings(**{name: value}).check_parameters()
        if isinstance(told, Choices):
            assert start[name] in told.values
        else:
            assert told.low <= start[name] <= told.high


def test_space_of__start_beyond_the_range__range_widened():
    values = {"n_neighbours": 100, "smoothing": 0.0}
    start, space = space_of("mlknn", values)
    assert start == values
    assert space == {"n_neighbours": Numbers(3, 100, log=True), "smoothing": Numbers(0.0, 5.0)}  # zero has no logarithm


def test_space_of__choice_that_is_not_among_them__added():
    space = space_of("extra_trees", {"n_trees": 50, "max_features": "auto"})[1]
    assert space["n_trees"] == Choices((200, 300, 500, 50))


def test_space_of__held__not_searched():
    start, space = space_of("mlknn", {"n_neighbours": 10, "smoothing": 1.0}, without=["smoothing"])
    assert (list(start), list(space)) == (["n_neighbours"], ["n_neighbours"])


def test_space_of__nothing_to_search__refused():
    with pytest.raises(ConfigError, match=r"model must have settings to search \(.*\); got 'ridge'\. Others choose"):
        space_of("ridge", {})
    with pytest.raises(ConfigError, match=r"a setting left to search; got 'n_neighbours', 'smoothing' set\. Leave one"):
        space_of("mlknn", {}, without=["n_neighbours", "smoothing"])


def test_suggest__numbers__three_digits_within_the_range():
    space = {"share": Numbers(0.12345, 0.98765), "rate": Numbers(1e-5, 1e-2, log=True), "rows": Numbers(1, 50)}
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(200):
        chosen = suggest(study.ask(), space, {})
        for name in ("share", "rate"):
            ends = (space[name].low, space[name].high)
            assert ends[0] <= chosen[name] <= ends[1]
            assert chosen[name] in ends or chosen[name] == float(f"{chosen[name]:.3g}")
        assert isinstance(chosen["rows"], int)
    start = {"share": 0.123456}
    study.enqueue_trial(start)
    assert suggest(study.ask(), space, start)["share"] == start["share"]  # to the last digit


def test_suggest__widths_and_nothing__come_back_as_they_were_given():
    space = {"encoder_widths": Choices(((64, 32), (16,))), "base": Choices((None, "ridge"))}
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    point = {"encoder_widths": (16,), "base": None}
    study.enqueue_trial({name: plain(value) for name, value in point.items()})
    assert suggest(study.ask(), space, {}) == point
