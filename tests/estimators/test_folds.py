"""Folds: what belongs together is held out together."""

import numpy as np
import pytest

from hotvae.data.splits import spatial_blocks
from hotvae.errors import ConfigError
from hotvae.estimators.folds import deal_folds

RNG = np.random.default_rng(0)
LABELS = (RNG.random((300, 4)) < 0.3).astype(float)
PLACES = RNG.uniform(0, 10, (300, 2))
GROUPS = np.repeat(np.arange(30), 10)


def test_deal_folds__every_row__in_exactly_one():
    folds = deal_folds(LABELS, 5, 0)
    parts = [folds.parts(fold) for fold in range(5)]
    assert sorted(np.concatenate([out for _, out in parts])) == list(range(300))
    assert all(not set(inner) & set(out) and len(inner) + len(out) == 300 for inner, out in parts)
    assert folds.how == "5 folds of single rows"
    assert folds.single_rows


def test_deal_folds__single_rows__labels_equally_frequent():
    folds = deal_folds(LABELS, 5, 0)
    rates = np.array([LABELS[folds.parts(fold)[1]].mean(axis=0) for fold in range(5)])
    assert np.ptp(rates, axis=0).max() < 0.03


def test_deal_folds__groups__never_torn():
    folds = deal_folds(LABELS, 4, 1, places=PLACES, groups=GROUPS)
    assert all(len(set(folds.of_row[group == GROUPS])) == 1 for group in range(30))
    assert folds.how == "4 folds of whole groups"


def test_deal_folds__places__neighbours_go_together():
    """Rows right beside each other are in one fold far more often than rows anywhere."""
    folds = deal_folds(LABELS, 5, 0, places=PLACES)
    apart = np.linalg.norm(PLACES[:, None] - PLACES[None], axis=-1)
    near = (apart < 0.3) & (apart > 0)
    same = folds.of_row[:, None] == folds.of_row[None]
    assert same[near].mean() > 0.6 > 0.3 > same[apart > 3].mean()
    assert folds.how == "5 folds of whole blocks of the map"
    assert not folds.single_rows


def test_deal_folds__said_otherwise__single_rows_in_spite_of_places():
    assert deal_folds(LABELS, 5, 0, held="rows", places=PLACES, groups=GROUPS).single_rows


def test_deal_folds__same_seed__same_folds_and_another_seed_others():
    first, again, other = (deal_folds(LABELS, 5, seed, places=PLACES).of_row for seed in (3, 3, 4))
    assert (first == again).all()
    assert (first != other).any()


def test_deal_folds__all_at_one_place__single_rows_are_left():
    assert deal_folds(LABELS, 5, 0, places=np.zeros((300, 2))).how == "2 folds of single rows"


@pytest.mark.parametrize(
    ("held", "said"),
    [("blocks", "must have coordinates to be held out by blocks"), ("groups", "must have groups to be held out by")],
)
def test_deal_folds__nothing_to_hold_together__refused(held, said):
    with pytest.raises(ConfigError, match=said):
        deal_folds(LABELS, 5, 0, held=held)


def test_deal_folds__places_groups_or_neither__say_what_errors_are_counted_by():
    labels = np.tile([[1, 0], [0, 1]], (60, 1))
    places = np.random.default_rng(0).random((120, 2))
    groups = np.repeat(np.arange(40), 3)
    of_map = deal_folds(labels, 3, 0, places=places, groups=groups).blocks
    np.testing.assert_array_equal(of_map, spatial_blocks(places, n_blocks=150))
    np.testing.assert_array_equal(deal_folds(labels, 3, 0, groups=groups).blocks, groups)
    np.testing.assert_array_equal(deal_folds(labels, 3, 0).blocks, np.arange(120))
