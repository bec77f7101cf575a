"""Trust: distances by hand and against loops, a promise kept on simulated blocks, files."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hotvae import HotVAEClassifier, load_model
from hotvae.errors import ConfigError, DataError, ModelError
from hotvae.estimators.trust import (
    ABSENT,
    CANNOT_TELL,
    LEVELS,
    PRESENT,
    Applicability,
    PresenceSets,
    Trust,
    block_quantile,
    column_importance,
    learn_trust,
    nearest_in_other_folds,
    upper_whisker,
)

# --- importance, whisker, neighbours --------------------------------------------------------------------------


def test_column_importance__column_that_moves_nothing__gets_next_to_nothing():
    table = np.random.default_rng(0).normal(size=(500, 3))
    logits = np.column_stack([2 * table[:, 0], table[:, 0] - table[:, 2]])
    shares = column_importance(table, logits, seed=0)
    assert shares.sum() == pytest.approx(1)
    assert shares[1] < 0.03
    assert shares[0] > shares[2] > 0.1


def test_column_importance__many_labels_and_rows__same_columns_matter():
    random = np.random.default_rng(1)
    table = random.normal(size=(5000, 4))
    logits = table[:, [0]] * random.normal(size=60) + 0.2 * table[:, [3]] * random.normal(size=60)
    assert column_importance(table, logits, seed=5).argsort()[::-1][:2].tolist() == [0, 3]


def test_column_importance__predictions_that_do_not_vary__equal_shares():
    assert column_importance(np.eye(4), np.ones((4, 2)), seed=0).tolist() == [0.25] * 4


def test_upper_whisker__by_hand():
    """Quartiles of 0..8 are 2 and 6: the fence is at 12, and 12 itself is not above it."""
    assert upper_whisker([*range(9)]) == 8
    assert upper_whisker([0, 1, 2, 3, 4, 5, 6, 7, 40]) == 7


@given(
    rows=arrays(np.float64, (9, 2), elements=st.floats(-5, 5)),
    folds=arrays(np.int64, 9, elements=st.integers(0, 2)).filter(lambda f: len(set(f.tolist())) > 1),
)
def test_nearest_in_other_folds__any_rows__equals_loop(rows, folds):
    slow = [
        min(np.linalg.norm(a - b) for b, other in zip(rows, folds, strict=True) if other != fold)
        for a, fold in zip(rows, folds, strict=True)
    ]
    np.testing.assert_allclose(nearest_in_other_folds(rows, folds), slow, atol=1e-12)


# --- area of applicability ------------------------------------------------------------------------------------


def one_column():
    table = np.array([[0.0], [1.0], [2.0], [3.0]])
    return Applicability.learn(table, table, np.array([0, 0, 1, 1]), seed=0)


def test_dissimilarity__one_column__by_hand():
    """Mean distance of the pairs of 0, 1, 2, 3 is 10/6; 5 is 2 away from the nearest: 1.2. Scaling cancels."""
    found = one_column().judge(np.array([[5.0], [2.5], [1.0]]))
    np.testing.assert_allclose(found.dissimilarity, [1.2, 0.3, 0.0], atol=1e-6)


def test_threshold__one_column__farthest_neighbour_in_the_other_fold():
    """Across folds 0 and 3 are 2 away, 1 and 2 are 1 away: the whisker ends at 2 / (10 / 6) = 1.2."""
    area = one_column()
    assert area.threshold == pytest.approx(1.2)
    assert area.judge(np.array([[4.9], [5.1], [-2.1]])).inside.tolist() == [True, False, False]


def test_applicability__square_and_weights_of_3_and_4__by_hand(monkeypatch):
    """Meyer and Pebesma's equations on the corners of a square, which has mean 0 and deviation 1 in both columns.

    Weighted by 3 and 4, sides are 6 and 8 and diagonals 10, so pairs are 8 apart on average: distances of 6, 8 and 10
    to the nearest corner are dissimilarities of 6/8, 1 and 10/8. Left and right as folds, each corner's nearest in the
    other fold is 6 away: the threshold is 6/8. Above and below it would be 1.
    """
    monkeypatch.setattr("hotvae.estimators.trust.column_importance", lambda *_: np.array([3.0, 4.0]))
    corners = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    area = Applicability.learn(corners, corners, np.array([0, 0, 1, 1]), seed=0)
    found = area.judge(np.array([[3.0, 1.0], [1.0, 3.0], [3.0, 3.0], [-1.0, -1.0], [0.0, 0.0]]))
    np.testing.assert_allclose(found.dissimilarity, [0.75, 1.0, 1.25, 0.0, 5 / 8], rtol=1e-6)
    assert area.threshold == pytest.approx(0.75)
    assert found.inside.tolist()[1:] == [False, False, True, True]
    assert found.n_beyond.tolist() == [1, 1, 2, 0, 0]
    assert Applicability.learn(corners, corners, np.array([0, 1, 0, 1]), seed=0).threshold == pytest.approx(1.0)


def test_dissimilarity__several_weighted_columns__equals_loop():
    random = np.random.default_rng(3)
    table, new = random.normal(size=(40, 3)) * [1, 10, 100], random.normal(size=(7, 3)) * [2, 20, 200]
    folds = np.arange(40) % 4
    area = Applicability.learn(table, table[:, :2] / [1, 10], folds, seed=1)
    assert area.weights[2] < area.weights[:2].min()
    scale = lambda rows: (rows - table.mean(0)) / table.std(0) * area.weights  # noqa: E731
    train = scale(table)
    mean = np.mean([np.linalg.norm(a - b) for i, a in enumerate(train) for b in train[:i]])
    slow = [min(np.linalg.norm(a - b) for b in train) / mean for a in scale(new)]
    np.testing.assert_allclose(area.judge(new).dissimilarity, slow, rtol=1e-5)
    cross = [
        min(np.linalg.norm(a - b) for b, other in zip(train, folds, strict=True) if other != fold) / mean
        for a, fold in zip(train, folds, strict=True)
    ]
    assert area.threshold == pytest.approx(upper_whisker(cross), rel=1e-5)


def test_judge__some_of_the_rows__same_values_as_among_all():
    area = one_column()
    rows = np.linspace(-3, 9, 50)[:, None]
    np.testing.assert_array_equal(area.judge(rows).dissimilarity[7:9], area.judge(rows[7:9]).dissimilarity)
    assert area.judge(rows[:0]).dissimilarity.shape == (0,)


def test_beyond__values_out_of_the_range_of_training__counted_by_column():
    table = pd.DataFrame({"elevation": [10.0, 700.0, 300.0], "slope": [0.0, 5.0, 30.0]})
    area = Applicability.learn(table, table.to_numpy(), np.arange(3), seed=0)
    new = pd.DataFrame({"elevation": [2100.0, 700.0, 9.0], "slope": [15.0, 0.0, 31.0]})
    assert area.judge(new).n_beyond.tolist() == [1, 0, 2]
    assert dict(zip(area.names, area.columns_beyond(new)[0].tolist(), strict=True)) == {
        "elevation": True,
        "slope": False,
    }


def test_applicability__categories_and_gaps__are_columns_too():
    table = pd.DataFrame({"depth": [1.0, np.nan, 3.0, 4.0], "soil": ["sand", "clay", "sand", "clay"]})
    logits = np.array([[0.0], [3.0], [0.1], [3.1]])
    area = Applicability.learn(table, logits, np.array([0, 1, 0, 1]), seed=0)
    assert np.isfinite(area.judge(table).dissimilarity).all()
    np.testing.assert_allclose(area.judge(table).dissimilarity, 0, atol=1e-7)


def test_applicability__more_rows_than_are_kept__threshold_and_size_stay_sane():
    table = np.random.default_rng(0).normal(size=(12_000, 2))
    area = Applicability.learn(table, table, np.arange(12_000) % 3, seed=0)
    assert area.rows.shape == (10_000, 2)
    assert area.judge(table).inside.mean() > 0.9
    assert not area.judge(np.array([[9.0, 9.0]])).inside[0]


# --- quantiles over blocks ------------------------------------------------------------------------------------


def test_block_quantile__rows_are_blocks__usual_conformal_quantile():
    """9 scores at 90 %: the 9th of 9 + 1."""
    assert block_quantile(np.arange(9.0), np.arange(9), 0.9) == 8.0
    assert block_quantile(np.arange(19.0), np.arange(19), 0.9) == 17.0
    assert block_quantile(np.arange(8.0), np.arange(8), 0.9) == float("inf")


def test_block_quantile__a_large_block__weighs_as_much_as_a_small_one():
    """Three blocks weigh 1/4 each; the hundred rows of the first reach 1/4, one row of the second 2/4."""
    scores = np.concatenate([np.zeros(100), [5.0], [9.0]])
    blocks = np.concatenate([np.zeros(100), [1], [2]])
    assert block_quantile(scores, blocks, 0.25) == 0.0
    assert block_quantile(scores, blocks, 0.5) == 5.0
    assert block_quantile(scores, blocks, 0.75) == 9.0
    assert block_quantile(scores, blocks, 0.76) == float("inf")


@given(
    scores=arrays(np.float64, 12, elements=st.floats(0, 1)),
    blocks=arrays(np.int64, 12, elements=st.integers(0, 4)),
    level=st.sampled_from([0.3, 0.5, 0.8]),
)
def test_block_quantile__any_scores__equals_loop(scores, blocks, level):
    n_blocks = len(set(blocks.tolist()))
    total, slow = 0.0, float("inf")
    for score, block in sorted(zip(scores.tolist(), blocks.tolist(), strict=True), key=lambda pair: pair[0]):
        total += 1 / ((n_blocks + 1) * (blocks == block).sum())
        if total >= level - 1e-9:
            slow = score
            break
    assert block_quantile(scores, blocks, level) == slow


# --- calls ----------------------------------------------------------------------------------------------------


def test_calls__by_hand():
    """Nine rows without the label at .0 to .8 and nine with it at .1 to .9, each a block: 90 % is the ninth of each.

    Absence is possible up to .8 and presence from .1 on: between them none can be told.
    """
    probs = np.concatenate([np.arange(9) / 10, np.arange(1, 10) / 10])[:, None]
    labels = np.repeat([0.0, 1.0], 9)[:, None]
    sets = PresenceSets.learn(probs, labels, np.arange(18))
    assert sets.calls([[0.05], [0.5], [0.85]])[:, 0].tolist() == [ABSENT, CANNOT_TELL, PRESENT]
    assert sets.n_blocks[:, 0].tolist() == [9, 9]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_calls__numbers_of_32_bits__are_called_as_the_same_numbers_of_64(bounds, said):
    low, high = np.array([bounds] * len(LEVELS)), np.array([bounds[::-1]] * len(LEVELS))
    sets = PresenceSets(low, high, np.ones(len(bounds), dtype=np.int64))
    probs = np.array(said + bounds, dtype=np.float32)[:, None] * np.ones(len(bounds), dtype=np.float32)
    assert np.array_equal(sets.calls(probs), sets.calls(probs.astype(np.float64)))


def test_calls__label_that_is_told_with_ease__is_always_told():
    """Absent up to .1, present from .9: both promises are kept by one cut at one half."""
    probs = np.repeat([0.1, 0.9], 20)[:, None]
    sets = PresenceSets.learn(probs, np.repeat([0.0, 1.0], 20)[:, None], np.arange(40))
    assert sets.calls([[0.49], [0.51]])[:, 0].tolist() == [ABSENT, PRESENT]


def test_calls__label_in_few_blocks__is_never_ruled_out():
    random = np.random.default_rng(0)
    labels = np.zeros((200, 1))
    labels[:5] = 1
    sets = PresenceSets.learn(random.random((200, 1)) * 0.2, labels, np.arange(200) // 5)
    assert ABSENT not in sets.calls(np.linspace(0, 1, 101)[:, None])


def test_calls__labels_not_observed__count_for_nothing():
    random = np.random.default_rng(0)
    probs, labels = random.random((60, 1)), (random.random((60, 1)) < 0.5).astype(float)
    more = np.concatenate([labels, np.full((40, 1), np.nan)])
    padded = PresenceSets.learn(np.concatenate([probs, random.random((40, 1))]), more, np.arange(100))
    plain = PresenceSets.learn(probs, labels, np.arange(60))
    np.testing.assert_array_equal(padded.absent_up_to, plain.absent_up_to)
    np.testing.assert_array_equal(padded.present_from, plain.present_from)


def test_calls__higher_level__never_a_bolder_call():
    random = np.random.default_rng(0)
    labels = (random.random((300, 2)) < 0.4).astype(float)
    sets = PresenceSets.learn(np.clip(0.4 * labels + 0.6 * random.random((300, 2)), 0, 1), labels, np.arange(300) // 3)
    probs = np.linspace(0, 1, 200)[:, None].repeat(2, axis=1)
    told = [(sets.calls(probs, level) != CANNOT_TELL).sum() for level in LEVELS]
    assert told == sorted(told, reverse=True)


@pytest.mark.parametrize("n_blocks", [15, 40])
def test_calls__new_blocks_with_their_own_errors__truth_is_among_the_calls(n_blocks):
    """Rows of a block share a shift of the probabilities; coverage of each class in new blocks is 90 % or more."""
    random = np.random.default_rng(n_blocks)
    covered = {0: [], 1: []}

    def draw(n):
        block = np.repeat(np.arange(n), 6)
        labels = (random.random((len(block), 20)) < 0.5).astype(float)
        odds = 1.5 * (2 * labels - 1) + random.normal(size=(n, 20))[block] + random.normal(size=labels.shape)
        return 1 / (1 + np.exp(-odds)), labels, block

    for _ in range(40):
        sets = PresenceSets.learn(*draw(n_blocks))
        probs, labels, _ = draw(30)
        calls = sets.calls(probs)
        for kind in (0, 1):
            is_kind = labels == kind
            covered[kind].append(((calls == kind) | (calls == CANNOT_TELL))[is_kind].mean())
    for kind in (0, 1):
        assert 0.89 <= np.mean(covered[kind]) <= 0.9 + 1 / (n_blocks + 1) + 0.02


def test_calls__unknown_level__says_which_there_are():
    sets = PresenceSets.learn(np.array([[0.1], [0.9]]), np.array([[0], [1]]), np.arange(2))
    with pytest.raises(ConfigError, match=r"level must be one of 0.8, 0.9, 0.95; got 0.5. Choose one of them."):
        sets.calls([[0.5]], level=0.5)


def test_presence_sets__rows_that_differ__are_refused():
    with pytest.raises(DataError, match="probs, labels and blocks must have the same rows; got shapes"):
        PresenceSets.learn(np.zeros((3, 1)), np.zeros((2, 1)), np.arange(3))


# --- both, and their files ------------------------------------------------------------------------------------


def test_trust__parts_out_and_in__same_bits():
    random = np.random.default_rng(0)
    table, labels = random.normal(size=(60, 2)), (random.random((60, 3)) < 0.5).astype(float)
    trust = learn_trust(table, random.normal(size=(60, 3)), labels, np.arange(60) % 3, np.arange(60), 0)
    again = Trust.from_parts(trust.notes(), trust.arrays(), 3)
    for name, array in trust.arrays().items():
        np.testing.assert_array_equal(again.arrays()[name], array)
    new = random.normal(size=(20, 2)) * 3
    np.testing.assert_array_equal(again.area.judge(new).dissimilarity, trust.area.judge(new).dissimilarity)


def test_trust__part_that_is_missing_or_of_another_size__is_refused():
    table = np.random.default_rng(0).normal(size=(30, 2))
    trust = learn_trust(table, table, (table > 0).astype(float), np.arange(30) % 2, np.arange(30), 0)
    arrays = trust.arrays()
    with pytest.raises(ModelError, match=r"area of applicability must have 2 columns; got rows of shape \(30, 1\)"):
        Trust.from_parts(trust.notes(), arrays | {"area.rows": arrays["area.rows"][:, :1]}, 2)
    with pytest.raises(ModelError, match="area of applicability must be complete; got KeyError"):
        Trust.from_parts(trust.notes(), {n: a for n, a in arrays.items() if n != "area.weights"}, 2)
    with pytest.raises(ModelError, match="presence sets must be of 5 labels"):
        Trust.from_parts(trust.notes(), arrays, 5)
    with pytest.raises(ModelError, match="presence sets must be complete"):
        Trust.from_parts(trust.notes(), {n: a for n, a in arrays.items() if "present" not in n}, 2)


@pytest.fixture(scope="module")
def fitted():
    random = np.random.default_rng(0)
    table = pd.DataFrame({"rain": random.uniform(200, 900, 240), "noise": random.normal(size=240)})
    chance = 1 / (1 + np.exp(-(table["rain"] - 500) / 60))
    labels = pd.DataFrame({"oak": random.random(240) < chance, "pine": random.random(240) < 1 - chance}).astype(int)
    return HotVAEClassifier(effort="quick", joint=False, random_state=0).fit(table, labels), table, labels


def test_classifier__rows_far_beyond_training__are_outside(fitted):
    model, table, _ = fitted
    assert model.trust(table).inside.all()
    new = pd.DataFrame({"rain": [500.0, 2700.0], "noise": [0.0, 0.0]})
    assert model.trust(new).inside.tolist() == [True, False]
    assert model.trust(new).n_beyond.tolist() == [0, 1]
    weights = dict(zip(model.trust_.area.names, model.trust_.area.weights, strict=True))
    assert weights["rain"] > 5 * weights["noise"]


def test_classifier__saved_and_loaded__says_the_same_of_trust(fitted, tmp_path):
    model, table, _ = fitted
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    for ours, theirs in zip(model.trust(table), again.trust(table), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    probs = model.predict_proba(table)
    np.testing.assert_array_equal(model.presence_calls(probs), again.presence_calls(probs))


def test_classifier__calls_of_its_own_rows__are_mostly_right_or_cannot_tell(fitted):
    model, _, labels = fitted
    calls = model.presence_calls(model.left_out_)
    truth = labels.to_numpy()
    for kind in (0, 1):
        assert ((calls == kind) | (calls == CANNOT_TELL))[truth == kind].mean() >= 0.89
    wet = model.predict_proba(pd.DataFrame({"rain": [880.0], "noise": [0.0]}))
    assert model.presence_calls(wet)[0].tolist() == [PRESENT, ABSENT]


def test_classifier__without_distances_or_held_out_rows__says_so(fitted):
    words = np.tile(np.eye(6), (20, 1))
    from scipy import sparse

    model = HotVAEClassifier(effort="quick", joint=False, random_state=0).fit(sparse.csr_array(words), words[:, :2])
    with pytest.raises(ConfigError, match="model must know its training rows to say how far others are"):
        model.trust(sparse.csr_array(words))
    part = fitted[0].alone([fitted[0].members_[0][0].kind])
    with pytest.raises(ConfigError, match="model must have held out rows to say which calls are safe"):
        part.presence_calls(np.zeros((1, 2)))


@settings(max_examples=20)
@given(shift=st.floats(0.5, 50))
def test_dissimilarity__further_away__is_larger(shift):
    area = one_column()
    near, far = area.judge(np.array([[3.0 + shift], [3.0 + 2 * shift]])).dissimilarity
    assert far > near
