import re
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.stats import wasserstein_distance
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.tree import DecisionTreeClassifier

from hotvae.data.dataset import Dataset
from hotvae.data.splits import (
    DistanceMatchedKFold,
    MultilabelStratifiedKFold,
    MultilabelStratifiedShuffleSplit,
    SpatialBlockKFold,
    _deal_groups,
    spatial_blocks,
    split_dataset,
)
from hotvae.errors import ConfigError, DataError


def correlated_labels(n_rows, n_labels, seed, per_row=5.0):
    """Labels from common to rare that come in company, as species do."""
    rng = np.random.default_rng(seed)
    share = 1 / (1 + np.arange(n_labels))
    share = np.minimum(share * per_row / share.sum(), 0.7)
    mood = np.exp(0.7 * rng.normal(size=(n_rows, 1)))
    return (rng.random((n_rows, n_labels)) < share * mood).astype(np.float32)


def fold_counts(folds, labels):
    return np.array([(labels[test] == 1).sum(axis=0) for _, test in folds])


def random_deviation(labels, n_splits, seed):
    folds = np.random.default_rng(seed).permutation(len(labels)) % n_splits
    counts = np.array([labels[folds == fold].sum(axis=0) for fold in range(n_splits)])
    return np.abs(counts - labels.sum(axis=0) / n_splits)


def toy_dataset(n_rows=60, seed=0):
    rng = np.random.default_rng(seed)
    return Dataset(
        features=rng.normal(size=(n_rows, 2)),
        labels=correlated_labels(n_rows, 4, seed, per_row=1.5),
        feature_names=("u", "v"),
        label_names=("a", "b", "c", "d"),
        coordinates=rng.uniform(0, 10, size=(n_rows, 2)),
        groups=rng.integers(0, 12, size=n_rows),
    )


def test_stratified_kfold__two_labels_by_hand__one_of_each_in_each_fold():
    y = np.array([[1, 0], [0, 1], [1, 0], [0, 1], [0, 0], [0, 0]])
    folds = list(MultilabelStratifiedKFold(2, random_state=1).split(np.zeros((6, 1)), y))
    for _, test in folds:
        assert y[test].sum(axis=0).tolist() == [1, 1]
        assert len(test) == 3


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_stratified_kfold__correlated_labels__far_closer_to_equal_than_random(seed):
    y = correlated_labels(2000, 30, seed)
    folds = list(MultilabelStratifiedKFold(5, random_state=seed).split(y, y))
    deviation = np.abs(fold_counts(folds, y) - y.sum(axis=0) / 5)
    by_chance = random_deviation(y, 5, seed)
    assert deviation.max() < 0.2 * by_chance.max()
    assert deviation.mean() < 0.2 * by_chance.mean()
    enough = y.sum(axis=0) >= 5
    assert (fold_counts(folds, y)[:, enough] > 0).all()
    assert max(len(test) for _, test in folds) - min(len(test) for _, test in folds) <= 4


def test_stratified_kfold__very_rare_labels__in_every_fold_when_there_are_enough():
    y = np.zeros((400, 20))
    rng = np.random.default_rng(3)
    for label in range(20):
        y[rng.choice(400, size=5, replace=False), label] = 1
    counts = fold_counts(MultilabelStratifiedKFold(5, random_state=0).split(y, y), y)
    assert (counts == 1).all()


def test_stratified_kfold__missing_labels__positives_and_gaps_are_both_even():
    y = correlated_labels(1000, 6, 4)
    y[np.random.default_rng(0).random(y.shape) < 0.3] = np.nan
    folds = list(MultilabelStratifiedKFold(4, random_state=0).split(y, y))
    gaps = np.array([np.isnan(y[test]).sum(axis=0) for _, test in folds])
    assert np.abs(fold_counts(folds, y) - (y == 1).sum(axis=0) / 4).max() <= 3
    assert np.abs(gaps - np.isnan(y).sum(axis=0) / 4).max() <= 3


def test_stratified_kfold__sparse_labels__same_folds_as_dense():
    y = correlated_labels(300, 8, 5)
    dense = MultilabelStratifiedKFold(3, random_state=7).split(np.zeros((300, 1)), y)
    thin = MultilabelStratifiedKFold(3, random_state=7).split(np.zeros((300, 1)), sparse.csr_array(y))
    for (_, a), (_, b) in zip(dense, thin, strict=True):
        np.testing.assert_array_equal(a, b)


def test_stratified_kfold__classes_in_one_column__every_class_is_spread():
    y = np.array(["owl"] * 10 + ["wren"] * 20 + ["vole"] * 5)
    for _, test in MultilabelStratifiedKFold(5, random_state=0).split(np.zeros((35, 1)), y):
        assert [(y[test] == name).sum() for name in ("owl", "wren", "vole")] == [2, 4, 1]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(6, 40), st.integers(1, 5))
def test_stratified_kfold__any_labels__test_parts_are_disjoint_complete_and_filled(seed, k, n_rows, n_labels):
    rng = np.random.default_rng(seed)
    y = rng.choice([0.0, 1.0, np.nan], p=[0.5, 0.4, 0.1], size=(n_rows, n_labels))
    tests = []
    for train, test in MultilabelStratifiedKFold(k, random_state=seed).split(y, y):
        assert sorted([*train, *test]) == list(range(n_rows))
        assert len(test) > 0
        tests.extend(test)
    assert sorted(tests) == list(range(n_rows))


def test_stratified_kfold__seed__decides():
    y = correlated_labels(200, 5, 0)

    def tests(seed):
        return [test.tolist() for _, test in MultilabelStratifiedKFold(3, random_state=seed).split(y, y)]

    assert tests(1) == tests(1)
    assert tests(1) != tests(2)
    unshuffled = MultilabelStratifiedKFold(3, shuffle=False)
    first, second = ([test.tolist() for _, test in unshuffled.split(y, y)] for _ in range(2))
    assert first == second


@pytest.mark.slow
def test_stratified_kfold__hundred_thousand_rows_fifty_labels__closer_than_chance():
    y = correlated_labels(100_000, 50, 0, per_row=5.0)
    folds = list(MultilabelStratifiedKFold(5, random_state=0).split(y, y))
    deviation = np.abs(fold_counts(folds, y) - y.sum(axis=0) / 5)
    assert deviation.max() < 0.1 * random_deviation(y, 5, 0).max()


def test_stratified_shuffle_split__shares__hold_for_every_label():
    y = correlated_labels(1000, 10, 6)
    splitter = MultilabelStratifiedShuffleSplit(3, test_size=0.2, random_state=0)
    tests = []
    for train, test in splitter.split(y, y):
        assert sorted([*train, *test]) == list(range(1000))
        assert abs(len(test) - 200) <= 5
        assert np.abs(y[test].sum(axis=0) - 0.2 * y.sum(axis=0)).max() <= 2
        tests.append(test.tolist())
    assert splitter.get_n_splits() == len(tests) == 3
    assert tests[0] != tests[1]
    again = [test.tolist() for _, test in splitter.split(y, y)]
    assert again == tests


def test_spatial_blocks__by_hand__floor_of_the_shifted_grid():
    places = [[10.0, 5.0], [10.9, 5.9], [11.1, 5.0], [10.0, 6.5], [12.5, 8.5]]
    blocks = spatial_blocks(places, block_size=1.0)
    assert blocks[0] == blocks[1]
    assert len(set(blocks.tolist())) == 4
    assert sorted(set(blocks.tolist())) == [0, 1, 2, 3]


@pytest.mark.parametrize("stretch", [(1.0, 1.0), (100.0, 0.001), (1.0, 0.0)])
def test_spatial_blocks__number_of_blocks__roughly_met_on_squares_strips_and_lines(stretch):
    places = np.random.default_rng(0).random((2000, 2)) * stretch
    n_found = spatial_blocks(places, n_blocks=40).max() + 1
    assert 25 <= n_found <= 60
    assert spatial_blocks(np.ones((3, 2)), n_blocks=10).tolist() == [0, 0, 0]


def test_spatial_blocks__degrees_at_60_north__a_degree_of_longitude_counts_half():
    """In the band from 60 to 61 degrees north 2.03 degrees of longitude are as long as one of latitude."""
    places = [[10.0, 60.0], [12.0, 60.0], [12.1, 60.0], [14.0, 60.0], [10.0, 60.9], [10.0, 61.1]]
    assert spatial_blocks(places, 1.0, degrees=True).tolist() == [0, 0, 2, 2, 0, 1]


def test_spatial_blocks__date_line__does_not_part_neighbours():
    places = np.array([[178.0, 0.0], [179.9, 0.0], [-179.9, 0.0], [-178.1, 0.0], [-177.0, 0.0]])
    assert spatial_blocks(places, 4.0, degrees=True).tolist() == [0, 0, 0, 0, 1]
    turned = spatial_blocks(places + (360 * (places < 0)), 4.0, degrees=True)
    np.testing.assert_array_equal(turned, spatial_blocks(places, 4.0, degrees=True))


def test_spatial_blocks__whole_earth__blocks_have_about_equal_areas():
    """Sites spread evenly over the sphere: a block from pole to pole has as many as its area, but for those cut off."""
    rng = np.random.default_rng(0)
    places = np.column_stack([rng.uniform(-180, 180, 40000), np.degrees(np.arcsin(rng.uniform(-1, 1, 40000)))])
    counts = np.bincount(spatial_blocks(places, n_blocks=200, degrees=True))
    assert 180 <= len(counts) <= 260
    assert counts.max() < 1.25 * np.median(counts)
    flat = np.bincount(spatial_blocks(places, n_blocks=200))
    assert flat.max() > 1.4 * np.median(flat)


@pytest.mark.parametrize("latitude", [0.0, 70.0])
def test_spatial_blocks__number_in_degrees__roughly_met(latitude):
    places = np.random.default_rng(0).random((2000, 2)) * (20, 10) + (170, latitude)
    assert 30 <= spatial_blocks(places, n_blocks=40, degrees=True).max() + 1 <= 60
    assert spatial_blocks(np.ones((3, 2)), n_blocks=10, degrees=True).tolist() == [0, 0, 0]


def test_spatial_splitters__degrees__are_those_of_the_blocks():
    places = np.column_stack([np.linspace(175, 185, 300) % 360, np.full(300, 60.0)])
    places[:, 0] -= 360 * (places[:, 0] > 180)
    blocks = spatial_blocks(places, 0.5, degrees=True)
    data = Dataset(np.arange(300.0)[:, None], np.ones((300, 1)) * (np.arange(300) % 2)[:, None], coordinates=places)
    parts = split_dataset(data, kind="block", block_size=0.5, degrees=True)
    folds = list(SpatialBlockKFold(3, block_size=0.5, degrees=True, random_state=0).split(places, groups=places))
    for train, test in [(parts.train, parts.test), *folds]:
        assert not set(blocks[train]) & set(blocks[test])


def test_spatial_block_kfold__region__no_block_in_both_parts_and_sizes_even():
    places = np.random.default_rng(1).uniform(0, 100, size=(1500, 2))
    blocks = spatial_blocks(places, block_size=12.0)
    seen = []
    for train, test in SpatialBlockKFold(5, block_size=12.0, random_state=0).split(places, groups=places):
        assert not set(blocks[train]) & set(blocks[test])
        assert sorted([*train, *test]) == list(range(1500))
        assert abs(len(test) - 300) < 2 * np.bincount(blocks).max()
        seen.extend(test)
    assert sorted(seen) == list(range(1500))


@pytest.mark.parametrize(
    "splitter",
    [
        MultilabelStratifiedKFold(3, random_state=0),
        MultilabelStratifiedShuffleSplit(3, test_size=0.3, random_state=0),
        SpatialBlockKFold(3, n_blocks=20, random_state=0),
    ],
    ids=lambda splitter: type(splitter).__name__,
)
def test_splitters__scikit_learn__accepts_copies_and_prints_them(splitter):
    data = toy_dataset(90)
    y = data.labels.astype(int)
    scores = cross_val_score(DecisionTreeClassifier(), data.features, y, cv=splitter, groups=data.coordinates)
    assert scores.shape == (3,)
    search = GridSearchCV(RidgeClassifier(), {"alpha": [0.1, 1.0]}, cv=splitter)
    search.fit(data.features, y[:, 0], groups=data.coordinates)
    assert search.n_splits_ == 3
    twin = deepcopy(splitter)
    assert repr(twin) == repr(splitter)
    assert "random_state=0" in repr(splitter)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**31 - 1),
    st.integers(12, 60),
    st.sampled_from(["random", "stratified", "group", "block"]),
    st.sampled_from([(0.6, 0.2, 0.2), (0.8, 0.1, 0.1), (0.7, 0.3, 0.0), (0.34, 0.33, 0.33)]),
)
def test_split_dataset__any_kind__parts_are_sorted_disjoint_complete_and_filled(seed, n_rows, kind, fractions):
    data = toy_dataset(n_rows, seed)
    split = split_dataset(data, kind=kind, fractions=fractions, random_state=seed)
    parts = (split.train, split.validation, split.test)
    assert sorted(np.concatenate(parts).tolist()) == list(range(n_rows))
    for part, fraction in zip(parts, fractions, strict=True):
        assert (np.diff(part) > 0).all()
        assert (len(part) > 0) == (fraction > 0)
    if kind == "group":
        together = [set(data.groups[part].tolist()) for part in parts]
        assert sum(map(len, together)) == len(set.union(*together))
    again = split_dataset(data, kind=kind, fractions=fractions, random_state=seed)
    assert all((a == b).all() for a, b in zip(parts, (again.train, again.validation, again.test), strict=True))


def test_split_dataset__random__sizes_are_exact():
    split = split_dataset(toy_dataset(101), fractions=(0.6, 0.2, 0.2))
    assert (len(split.train), len(split.validation), len(split.test)) in {(61, 20, 20), (60, 21, 20)}
    assert len(split_dataset(toy_dataset(3)).train) == 1


def test_split_dataset__stratified__labels_keep_their_shares():
    data = toy_dataset(600)
    split = split_dataset(data, kind="stratified")
    total = data.labels.sum(axis=0)
    for part, fraction in ((split.train, 0.6), (split.validation, 0.2), (split.test, 0.2)):
        assert np.abs(data.labels[part].sum(axis=0) - fraction * total).max() <= 2


def test_split_dataset__block__uses_the_given_size():
    data = toy_dataset(600)
    split = split_dataset(data, kind="block", block_size=2.0)
    blocks = spatial_blocks(data.coordinates, 2.0)
    parts = [set(blocks[part]) for part in (split.train, split.validation, split.test)]
    assert sum(map(len, parts)) == len(set.union(*parts))


def test_split_dataset__one_huge_group__other_parts_still_get_theirs():
    data = Dataset(
        features=np.zeros((100, 1)) + np.arange(100)[:, None],
        labels=np.tile([[0.0], [1.0]], (50, 1)),
        groups=np.array(["big"] * 98 + ["small", "tiny"]),
    )
    for seed in range(6):
        split = split_dataset(data, kind="group", random_state=seed)
        assert min(len(split.train), len(split.validation), len(split.test)) >= 1


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"fractions": (0.5, 0.2, 0.2)}, ConfigError, "that sum to 1; got (0.5, 0.2, 0.2)"),
        ({"fractions": (1.2, -0.1, -0.1)}, ConfigError, "fractions must be three shares"),
        ({"fractions": (0.0, 0.5, 0.5)}, ConfigError, "train above 0"),
        ({"fractions": (0.5, 0.5)}, ConfigError, "fractions must be three shares"),
        (
            {"kind": "magic"},
            ConfigError,
            "kind must be 'random', 'stratified', 'group' or 'block'; got 'magic'",
        ),
        (
            {"block_size": 2.0},
            ConfigError,
            "block_size must go with a split by blocks; got 'random'",
        ),
        ({"kind": "block", "block_size": 0.0}, ConfigError, "block_size must be larger than 0; got 0.0"),
        (
            {"kind": "block", "block_size": 50.0},
            DataError,
            "at least 3 blocks for 3 parts; got 1. Use smaller",
        ),
    ],
)
def test_split_dataset__bad_request__is_named(arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        split_dataset(toy_dataset(), **arguments)


def test_split_dataset__data_lacking_what_the_kind_needs__is_named():
    plain = Dataset(features=np.arange(4.0)[:, None], labels=np.array([[0.0], [1.0], [0.0], [1.0]]))
    with pytest.raises(ConfigError, match="a split by groups must have groups; got a table without"):
        split_dataset(plain, kind="group")
    with pytest.raises(ConfigError, match="a split by blocks must have coordinates; got a table without"):
        split_dataset(plain, kind="block")
    with pytest.raises(DataError, match="at least 3 rows for 3 parts; got 2"):
        split_dataset(plain.take([0, 1]))
    two_groups = Dataset(features=plain.features, labels=plain.labels, groups=np.array([0, 0, 1, 1]))
    with pytest.raises(DataError, match="at least 3 groups for 3 parts; got 2"):
        split_dataset(two_groups, kind="group")


@pytest.mark.parametrize(
    ("splitter", "y", "error", "message"),
    [
        (
            MultilabelStratifiedKFold(1),
            np.eye(4),
            ConfigError,
            "n_splits must be a whole number, 2 or larger; got 1",
        ),
        (MultilabelStratifiedKFold(5), np.eye(4), DataError, "at least 5 rows for 5 parts; got 4"),
        (MultilabelStratifiedKFold(2), None, DataError, "y must be given to stratify by it; got None"),
        (MultilabelStratifiedKFold(2), 2 * np.eye(4), DataError, "labels must be 0, 1 or NaN; got 2.0"),
        (
            MultilabelStratifiedKFold(2),
            np.full((4, 2), "x"),
            DataError,
            "labels must be 0, 1 or NaN; got could not",
        ),
        (
            MultilabelStratifiedKFold(2),
            np.zeros((4, 1, 1)),
            DataError,
            "y must have one or two axes; got shape",
        ),
        (
            MultilabelStratifiedKFold(2, shuffle=False, random_state=3),
            np.eye(4),
            ConfigError,
            "random_state must be None when shuffle=False; got 3",
        ),
        (
            MultilabelStratifiedShuffleSplit(test_size=1.5),
            np.eye(4),
            ConfigError,
            "test_size must be a share between 0 and 1; got 1.5",
        ),
        (
            MultilabelStratifiedShuffleSplit(0),
            np.eye(4),
            ConfigError,
            "n_splits must be a whole number, 1 or",
        ),
        (
            SpatialBlockKFold(2),
            np.eye(4),
            DataError,
            "groups must hold the coordinates, shape (n_samples, 2); got",
        ),
    ],
)
def test_splitters__bad_request__is_named(splitter, y, error, message):
    with pytest.raises(error, match=re.escape(message)):
        list(splitter.split(np.zeros((4, 1)), y))


@pytest.mark.parametrize(
    ("coordinates", "arguments", "error", "message"),
    [
        (
            np.zeros((3, 3)),
            {"block_size": 1.0},
            DataError,
            "coordinates must have shape (n_samples, 2); got (3, 3)",
        ),
        (
            [[0.0, np.inf]],
            {"block_size": 1.0},
            DataError,
            "coordinates must be finite; got NaN or infinity (rows 0)",
        ),
        ([[0.0, 1.0]], {}, ConfigError, "exactly one of block_size and n_blocks must be given"),
        (
            [[0.0, 1.0]],
            {"block_size": 1.0, "n_blocks": 2},
            ConfigError,
            "exactly one of block_size and n_blocks",
        ),
        (
            [[0.0, 1.0], [50.0, 120.0]],
            {"n_blocks": 9, "degrees": True},
            DataError,
            "places in degrees must be longitude, then latitude (-90 to 90); got [50.0, 120.0] (rows 1)",
        ),
        ([[0.0, 1.0]], {"n_blocks": 0}, ConfigError, "n_blocks must be at least 1; got 0"),
        (
            [[0.0, 1.0]],
            {"block_size": float("nan")},
            ConfigError,
            "block_size must be larger than 0; got nan",
        ),
    ],
)
def test_spatial_blocks__bad_request__is_named(coordinates, arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        spatial_blocks(coordinates, **arguments)


# --- folds that match distances -------------------------------------------------------------------------------


def _grid(n=14):
    return np.array([[x, y] for x in range(n) for y in range(n)], dtype=float)


def _gap(splitter, rows, target):
    wanted = [min(np.hypot(*(place - row)) for row in rows) for place in target]
    return wasserstein_distance(splitter.distances(rows), wanted)


def test_distance_matched__split__disjoint_and_complete_and_repeatable():
    rows = _grid()
    splitter = DistanceMatchedKFold(4, target=rows + 0.3, random_state=1)
    parts = [test.tolist() for _, test in splitter.split(rows, groups=rows)]
    assert sorted(row for part in parts for row in part) == list(range(len(rows)))
    assert parts == [test.tolist() for _, test in splitter.split(rows, groups=rows)]


def test_distance_matched__distances__equal_a_loop_over_the_folds():
    rows = np.random.default_rng(0).random((30, 2))
    splitter = DistanceMatchedKFold(3, target=rows + 0.2, random_state=0)
    folds = np.empty(30, dtype=int)
    for number, (_, test) in enumerate(splitter.split(rows, groups=rows)):
        folds[test] = number
    slow = [
        min(np.hypot(*(a - b)) for b, g in zip(rows, folds, strict=True) if g != f)
        for a, f in zip(rows, folds, strict=True)
    ]
    np.testing.assert_allclose(splitter.distances(rows), slow)


def test_distance_matched__target_near_or_far__beats_what_suits_the_other():
    """On a map between the rows random folds serve; far from them large blocks do, and neither serves both."""
    rows = _grid()
    near, far = rows[:50] + 0.5, rows + np.array([14.0, 0.0])
    for target, other in ((near, far), (far, near)):
        ours = DistanceMatchedKFold(3, target=target, random_state=0)
        theirs = DistanceMatchedKFold(3, target=other, random_state=0)
        assert _gap(ours, rows, target) < 0.8 * _gap(theirs, rows, target)


def test_distance_matched__clustered_rows_and_a_map_of_the_whole_land__better_than_random_and_fixed_blocks():
    random = np.random.default_rng(4)
    rows = np.concatenate([random.normal(centre, 2.0, (40, 2)) for centre in random.uniform(0, 100, (9, 2))])
    target = random.uniform(0, 100, (400, 2))
    ours = _gap(DistanceMatchedKFold(5, target=target, random_state=0), rows, target)

    wanted = [min(np.hypot(*(place - row)) for row in rows) for place in target]

    def gap_of(splitter, groups):
        found = np.empty(len(rows))
        for train, test in splitter.split(rows, groups=groups):
            found[test] = [np.hypot(*(rows[train] - row).T).min() for row in rows[test]]
        return wasserstein_distance(found, wanted)

    assert ours < 0.9 * gap_of(GroupKFold(5), np.arange(len(rows)))
    assert ours <= gap_of(SpatialBlockKFold(5, random_state=0), rows)


def test_distance_matched__folds__are_the_closest_of_all_that_are_tried():
    """A loop over rows alone and blocks of every size, distances by hand, the mean gap of sorted distances."""
    random = np.random.default_rng(7)
    rows = random.uniform(0, 10, (40, 2))
    for target in (rows[:40] + 0.1, random.uniform(0, 10, (40, 2)), rows + np.array([6.0, 0.0])):
        wanted = sorted(min(np.hypot(*(place - row)) for row in rows) for place in target)
        ours = DistanceMatchedKFold(4, target=target, random_state=3)
        seed = np.random.RandomState(3).randint(2**31 - 1)
        gaps = []
        for n_blocks in [None, *range(4, 21)]:
            blocks = np.arange(40) if n_blocks is None else spatial_blocks(rows, n_blocks=n_blocks)
            if blocks.max() < 3:
                continue
            folds = _deal_groups(blocks, np.full(4, 0.25), np.random.RandomState(seed), "blocks")
            apart = sorted(
                min(np.hypot(*(a - b)) for b, g in zip(rows, folds, strict=True) if g != f)
                for a, f in zip(rows, folds, strict=True)
            )
            gaps.append(np.mean(np.abs(np.subtract(apart, wanted))))  # Wasserstein's distance of as many values
        found = np.mean(np.abs(np.sort(ours.distances(rows)) - wanted))
        assert min(gaps) - 1e-12 <= found <= min(gaps) + 0.02 * np.mean(wanted)


def test_distance_matched__degrees__distances_are_kilometres_across_the_date_line():
    rows = np.array([[179.9, 0.0], [-179.9, 0.0], [170.0, 0.0], [171.0, 0.0]])
    found = DistanceMatchedKFold(4, target=rows, degrees=True, random_state=0).distances(rows)
    assert found[0] == pytest.approx(22.24, abs=0.01)


def test_distance_matched__places_that_cannot_be__are_refused():
    rows = _grid(3)
    with pytest.raises(DataError, match=r"places must be finite and have shape \(n_places, 2\); got shape \(9,\)"):
        list(DistanceMatchedKFold(2, target=rows[:, 0]).split(rows, groups=rows))
    with pytest.raises(DataError, match="groups must hold the coordinates"):
        list(DistanceMatchedKFold(2, target=rows).split(rows))
