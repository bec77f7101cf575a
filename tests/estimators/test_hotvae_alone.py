"""A model taken apart: some of its members without the others."""

import numpy as np
import pytest

from hotvae import Dataset, HotVAEClassifier
from hotvae.data.synthetic import virtual_region
from hotvae.errors import ConfigError, ModelError
from hotvae.estimators.stack import logit_loss


@pytest.fixture(scope="module")
def model():
    data = virtual_region(200, 5, random_state=0).dataset
    return HotVAEClassifier(effort="quick", random_state=0).fit(data), data


def test_alone__all_kinds__is_the_whole_model(model):
    whole, data = model
    again = whole.alone(("trees", "ridge", "network"))
    np.testing.assert_allclose(again.predict_proba(data), whole.predict_proba(data), atol=1e-4)


def test_alone__one_kind__stack_of_its_members_only_and_the_whole_stays_as_it_is(model):
    whole, data = model
    before = whole.predict_proba(data)
    kinds = {candidate.kind for candidate, _ in whole.members_}
    for kind in kinds:
        part = whole.alone([kind])
        assert {candidate.kind for candidate, _ in part.members_} == {kind}
        assert len(part.stack_.weights) == len(part.members_) == len(part.member_logits_)
        loss = logit_loss(data.labels, part.stack_.logits(part.member_logits_))
        assert part.recipe_.log_loss == pytest.approx(loss)
        assert part.recipe_.log_loss >= whole.recipe_.log_loss - 1e-3  # fewer members explain no more
        assert {entry.kind for entry in part.recipe_.entries if entry.weight > 0} == {kind}
    np.testing.assert_array_equal(whole.predict_proba(data), before)


def test_alone__no_such_member__is_refused(model):
    with pytest.raises(ConfigError, match=r"kinds must name members of the model \(.*\); got 'own'. Choose among them"):
        model[0].alone(["own"])


def test_alone__model_from_a_file__is_refused(model, tmp_path):
    model[0].save(tmp_path / "m")
    loaded = HotVAEClassifier.load(tmp_path / "m")
    with pytest.raises(ModelError, match="must have been fitted here to be taken apart; got one read from a file"):
        loaded.alone(["trees", "ridge", "network"])


def test_fit__validation_as_a_data_set__brings_its_coordinates_too(model):
    data = model[1]
    assert isinstance(data, Dataset)
    fitted = HotVAEClassifier(effort="quick", random_state=0).fit(
        data.take(slice(150)), validation=data.take(slice(150, 200))
    )
    assert fitted.predict_proba(data).shape == data.labels.shape
