"""What the models without a network share."""

import inspect

import pytest

from hotvae.baselines.base import TableClassifier
from hotvae.baselines.prevalence import Prevalence
from hotvae.estimators.registry import CLASSIFIERS, find_classifier

TABLE_MODELS = [cls for cls in map(find_classifier, CLASSIFIERS) if issubclass(cls, TableClassifier)]


@pytest.mark.parametrize(("losses", "expected"), [({1: 0.5, 2: 0.3, 3: 0.3}, 2), ({1: 9.0}, 1)])
def test_fit_best__least_loss__of_equals_the_first(losses, expected):
    setting, model = Prevalence()._fit_best(lambda candidate: [candidate], lambda made: losses[made[0]], list(losses))
    assert setting == expected
    assert model == [expected]


@pytest.mark.parametrize("cls", TABLE_MODELS, ids=lambda cls: cls.__name__)
def test_parameters__of_every_model__are_named_and_documented(cls):
    assert len(TABLE_MODELS) == 11
    for name, parameter in inspect.signature(cls).parameters.items():
        assert parameter.kind is parameter.KEYWORD_ONLY
        assert name in cls.__doc__
