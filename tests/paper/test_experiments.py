"""Declared experiments: which cells there are, in which order, and how they are chosen."""

import pytest

from hotvae.data.catalog import catalog_names, describe
from hotvae.errors import ConfigError
from hotvae.estimators.registry import CLASSIFIERS
from paper.experiments import ALL_MODELS, EXPERIMENTS, PARTS, Cell, find_experiments, fingerprint, select


def test_experiments__names__are_those_promised():
    assert set(EXPERIMENTS) == {"tables", "communities"}
    assert set(ALL_MODELS) == set(CLASSIFIERS)


def test_experiments__every_set__is_in_the_catalogue():
    sets = {data for experiment in EXPERIMENTS.values() for data, _ in experiment.data}
    assert {data for data in sets if not data.startswith("virtual-")} <= set(catalog_names())


def test_tables__seeds__five_on_small_sets_three_elsewhere_one_where_there_is_no_chance():
    cells = EXPERIMENTS["tables"].cells()

    def n_seeds(model, data):
        return sum(cell.model == model and cell.data == data for cell in cells)

    assert n_seeds("hotvae", "yeast") == n_seeds("ridge", "scene") == 5
    assert n_seeds("mpvae", "bibtex") == n_seeds("extra_trees", "bbs_like_ebird100") == 3
    assert n_seeds("ridge", "bbs_like_ebird100") == 1  # all parts published, nothing drawn
    assert n_seeds("ridge", "reuters") == 3  # validation rows are drawn


def test_cells__order__all_rivals_of_a_seed_before_the_next_seed():
    seeds = [cell.seed for cell in EXPERIMENTS["tables"].cells()]
    assert seeds == sorted(seeds)


def test_communities__test_rows_drawn_with_the_seed__every_model_has_every_seed():
    """Else columns of one table would be of other rows; which sets draw their test rows, the catalogue knows."""
    cells = EXPERIMENTS["communities"].cells()
    for data in {cell.data for cell in cells}:
        drawn = describe(data).split in ("group", "stratified")
        networks, others = (
            {cell.seed for cell in cells if (cell.data, cell.model) == (data, model)} for model in ("plain", "logistic")
        )
        assert networks == {0, 1, 2}
        assert others == (networks if drawn else {0}), data


def test_communities__cells__fifteen_norberg_splits():
    cells = EXPERIMENTS["communities"].cells()
    assert len({(cell.data, cell.split) for cell in cells if cell.data.startswith("norberg")}) == 15


def test_cells__parts_of_a_model__have_none_of_their_own():
    for name in ("tables", "communities"):
        parts = [variant for variant in EXPERIMENTS[name].variants if variant.of]
        assert {variant.of for variant in parts} == set(PARTS)
        assert not {variant.name for variant in parts} & {cell.variant for cell in EXPERIMENTS[name].cells()}


def test_cells__places__are_unique():
    for experiment in EXPERIMENTS.values():
        places = [cell.place for cell in experiment.cells()]
        assert len(set(places)) == len(places)


def test_cell__to_dict_and_back__is_the_same():
    cell = EXPERIMENTS["communities"].cells(smoke=True)[0]
    assert Cell.from_dict(cell.to_dict()) == cell


def test_select__words_of_two_fields__must_both_fit():
    cells = EXPERIMENTS["tables"].cells()
    chosen = select(cells, ["yeast", "scene", "mpvae", "seed=1"])
    assert [(cell.data, cell.model, cell.seed) for cell in chosen] == [("yeast", "mpvae", 1), ("scene", "mpvae", 1)]
    assert select(cells, []) == cells


def test_select__unknown_word__close_ones_named():
    with pytest.raises(ConfigError, match=r"--only must name .*; got 'yaest'. Did you mean 'yeast'\?"):
        select(EXPERIMENTS["tables"].cells(), ["yaest"])


def test_find_experiments__alias_and_all__each_once():
    assert [found.name for found in find_experiments(["table-ha", "table-f1"])] == ["tables"]
    assert [found.name for found in find_experiments(["all"])] == list(EXPERIMENTS)


def test_find_experiments__unknown__close_one_named():
    with pytest.raises(ConfigError, match=r"experiment must be one of .*; got 'tabels'. Did you mean 'tables'\?"):
        find_experiments(["tabels"])
    with pytest.raises(ConfigError, match=r"got 'zzz'\. Choose one of them"):
        find_experiments(["zzz"])


def test_fingerprint__another_value__another_print():
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})
