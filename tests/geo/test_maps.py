"""Maps: cells hold what the model says of them, wherever the window ends; steps and draws keep their word."""

import numpy as np
import pandas as pd
import pytest

from hotvae import load_model
from hotvae.errors import DataError
from hotvae.estimators.trust import CANNOT_TELL
from hotvae.geo.maps import (
    MapOptions,
    RichnessSpread,
    Steps,
    Tile,
    _distinct,
    change_bands,
    check_given,
    decode_probs,
    encode_probs,
    map_window,
    prepare,
    to_four_digits,
)
from hotvae.geo.rasters import RasterInputs, Window, choose_layers

COLUMNS = ["rain", "warmth", "hours"]


@pytest.fixture(scope="module")
def inputs(land):
    layers = choose_layers([land / "rain.tif", land / "warmth.tif"], ["rain", "warmth"])
    return RasterInputs(layers, fixed={"hours": 1.0})


@pytest.fixture(scope="module")
def model(trained):
    return load_model(trained)


def test_encode_probs__any_probability__comes_back_within_half_a_step():
    probs = np.linspace(0, 1, 1001)
    assert np.abs(decode_probs(encode_probs(probs)) - probs).max() <= 0.002 + 1e-6
    assert np.isnan(decode_probs(np.array([255], dtype=np.uint8)))[0]


def test_to_four_digits__any_number__moves_by_an_8192th_and_whole_ones_stay():
    random = np.random.default_rng(0)
    values = (random.normal(size=5000) * 10.0 ** random.integers(-6, 6, 5000)).astype(np.float32)
    found = to_four_digits(values)
    assert np.abs(found / values - 1).max() <= 1 / 8192
    assert not (found.view(np.int32) & 0x7FF).any()
    whole = np.arange(-8192, 8193, dtype=np.float32)
    np.testing.assert_array_equal(to_four_digits(whole), whole)
    odd = np.array([np.nan, np.inf, -np.inf, 0.0], dtype=np.float32)
    np.testing.assert_array_equal(to_four_digits(odd), odd)


@pytest.mark.parametrize("tolerance", [0.0, 0.02])
def test_map_window__every_band__is_what_the_model_says_of_the_cell(model, inputs, tolerance):
    mapper = prepare(model, COLUMNS, inputs, MapOptions(tolerance=tolerance, as_float=True, calls=True))
    window = inputs.windows()[0]
    tile, cells = map_window(mapper, inputs, window), inputs.read(window)
    some = np.arange(0, len(cells.places), 97)
    rows, places = cells.table.iloc[some], cells.places[some]
    exact = model.predict_proba(rows)
    flat = {name: bands.reshape(len(bands), -1)[:, places] for name, bands in tile.bands.items()}
    np.testing.assert_allclose(flat["probabilities"].T, exact, atol=max(tolerance, 1e-6) * 1.5)
    four_digits = {"rtol": 1.01 / 8192, "atol": max(4 * tolerance, 1e-5)}
    np.testing.assert_allclose(flat["richness"][0], exact.sum(axis=1), **four_digits)
    np.testing.assert_allclose(flat["uncertainty"][0], np.minimum(exact, 1 - exact).sum(axis=1), **four_digits)
    if tolerance == 0:
        near = model.trust(rows)
        np.testing.assert_allclose(flat["trust"][0], near.dissimilarity, rtol=1.01 / 8192)
        np.testing.assert_array_equal(flat["trust"][1], near.inside)
        np.testing.assert_array_equal(flat["trust"][2], near.n_beyond)
        calls = model.presence_calls(exact)
        np.testing.assert_array_equal(flat["calls"].T, calls)
        np.testing.assert_array_equal(flat["uncertainty"][1], (calls == CANNOT_TELL).sum(axis=1))
    hole = tile.bands["probabilities"][:, 5, 10]
    assert np.isnan(hole).all()


def test_map_window__twice_and_in_any_order__same_bits(model, inputs):
    mapper = prepare(model, COLUMNS, inputs, MapOptions())
    forth = [map_window(mapper, inputs, window) for window in inputs.windows()]
    back = [map_window(mapper, inputs, window) for window in inputs.windows()[::-1]][::-1]
    for first, second in zip(forth, back, strict=True):
        for name in first.bands:
            np.testing.assert_array_equal(first.bands[name], second.bands[name])


def test_map_window__in_pieces_of_any_size__same_bits(model, inputs, monkeypatch):
    mapper = prepare(model, COLUMNS, inputs, MapOptions(calls=True))
    whole = map_window(mapper, inputs, inputs.windows()[0])
    monkeypatch.setattr("hotvae.geo.maps._CELLS_AT_ONCE", 4 * 333)  # rows of four labels
    pieces = map_window(mapper, inputs, inputs.windows()[0])
    assert len(mapper.pieces(inputs.read(inputs.windows()[0]).table)) > 5
    for name in whole.bands:
        np.testing.assert_array_equal(whole.bands[name], pieces.bands[name])


def test_prepare__covariates_that_repeat__are_predicted_once_within_the_bound(model, inputs):
    """A layer that changes by a thousandth of its range a cell: steps of a hundredth save nine predictions of ten."""
    mapper = prepare(model, COLUMNS, inputs, MapOptions(tolerance=0.05))
    assert mapper.steps.n_steps > 0
    assert mapper.steps.largest <= 0.05
    tile = map_window(mapper, inputs, inputs.windows()[0])
    assert tile.n_predicted < 0.95 * tile.n_cells
    exact = map_window(prepare(model, COLUMNS, inputs, MapOptions(tolerance=0)), inputs, inputs.windows()[0])
    off = np.abs(decode_probs(tile.bands["probabilities"]) - decode_probs(exact.bands["probabilities"]))
    assert np.nanquantile(off, 0.999) <= mapper.steps.largest + 0.004
    assert exact.n_predicted == exact.n_cells


def test_steps__rounded__move_by_half_a_step_at_most():
    steps = Steps({"rain": 10.0}, 20)
    table = pd.DataFrame({"rain": [4.9, 5.1, 16.0], "soil": ["a", "b", "a"]})
    assert steps.rounded(table)["rain"].tolist() == [0.0, 10.0, 20.0]
    assert steps.rounded(table)["soil"].tolist() == ["a", "b", "a"]


def test_distinct__repeated_rows__kept_once_in_their_order():
    table = pd.DataFrame({"a": [2.0, 1.0, 2.0, -0.0, 0.0], "b": ["x", "x", "x", "y", "y"]})
    rows, which = _distinct(table)
    assert rows["a"].tolist() == [2.0, 1.0, 0.0]
    assert which.tolist() == [0, 1, 0, 2, 2]
    assert len(_distinct(table[:0])[0]) == 0


def test_richness__spread_from_some_cells__is_near_that_of_every_cell(model, inputs):
    options = MapOptions(tolerance=0, n_draws=400)
    learned = prepare(model, COLUMNS, inputs, options)
    window = Window(0, 0, 0, 40, 2)
    every = map_window(
        prepare(model, COLUMNS, inputs, MapOptions(tolerance=0, n_draws=400, draw_every_cell=True)), inputs, window
    )
    carried = map_window(learned, inputs, window)
    assert learned.spread.n_cells >= 100
    for band in (1, 2):
        off = carried.bands["richness"][band] - every.bands["richness"][band]
        assert np.sqrt(np.mean(off**2)) < 3 * learned.spread.error + 0.1
    low, mean, high = carried.bands["richness"][[1, 0, 2]]
    assert (low <= mean).all()
    assert (mean <= high).all()


def test_spread__independent_species__is_that_of_the_normal_law():
    """A constant of -1.645 and 1.645 deviations: 4 species at one half have a deviation of 1."""
    spread = RichnessSpread(np.array([[-1.645, 0, 0, 0, 0, 0], [1.645, 0, 0, 0, 0, 0]]), 0.0, 1.0, 1, 1)
    low, high = spread.bounds(np.array([2.0]), np.array([1.0]), 4)
    assert (low[0], high[0]) == (pytest.approx(0.355), pytest.approx(3.645))
    low, high = spread.bounds(np.array([4e-9]), np.array([6e-5]), 4)
    assert low[0] == 0
    assert 0 <= high[0] < 0.01


def test_given__a_label_that_is_known__moves_the_others_and_is_itself(model, inputs):
    known = prepare(model, COLUMNS, inputs, MapOptions(given={"oak": 1.0}, tolerance=0, as_float=True))
    plain = prepare(model, COLUMNS, inputs, MapOptions(tolerance=0, as_float=True))
    window = Window(0, 80, 18, 40, 4)
    with_oak, without = (map_window(mapper, inputs, window).bands["probabilities"] for mapper in (known, plain))
    assert (with_oak[0] == 1).all()
    assert known.sets is None  # what is promised was learned without
    assert "uncertainty" in known.products()
    table = inputs.read(window).table
    labels = np.full((len(table), 4), np.nan)
    labels[:, 0] = 1
    np.testing.assert_allclose(with_oak.reshape(4, -1).T, model.predict_proba(table, given=labels), atol=1e-6)
    assert np.abs(with_oak[1:] - without[1:]).max() > 0.001


def test_check_given__label_or_value_that_cannot_be__is_refused():
    with pytest.raises(DataError, match=r"given labels must be labels of the model; got 'oack'"):
        check_given({"oack": 1.0}, ["oak", "elm"])
    with pytest.raises(DataError, match=r"given labels must be 0 or 1; got \{'oak': 2\}"):
        check_given({"oak": 2}, ["oak"])


def test_change__by_hand():
    def tile(probs):
        return Tile(
            Window(0, 0, 0, 1, 1), {"probabilities": np.array(probs, dtype=np.float32).reshape(-1, 1, 1)}, 1, 1, {}
        )

    found = change_bands(tile([0.2, 0.9]), tile([0.5, 0.8]), is_float=True)[:, 0, 0]
    np.testing.assert_allclose(found, [0.2, 0.3, 0.1], atol=1e-6)
    assert np.isnan(change_bands(tile([0.2, 0.9]), tile([np.nan, np.nan]), is_float=True)).all()


def test_prepare__no_cell_with_data__says_so(model, tmp_path):
    from tests.geo.conftest import write_raster

    for name in ("rain", "warmth"):
        write_raster(tmp_path / f"{name}.tif", np.full((4, 4), -1.0, dtype=np.float32), nodata=-1)
    layers = choose_layers([tmp_path], ["rain", "warmth"])
    with pytest.raises(DataError, match="map must have cells with a value in every layer; got none in 16 cells"):
        prepare(model, COLUMNS, RasterInputs(layers, fixed={"hours": 1.0}), MapOptions())


def test_prepare__column_held_beyond_training__is_named(model, land):
    layers = choose_layers([land / "rain.tif", land / "warmth.tif"], ["rain", "warmth"])
    held = RasterInputs(layers, fixed={"hours": 30.0})
    assert prepare(model, COLUMNS, held, MapOptions(n_draws=20)).beyond == ("hours",)
    assert prepare(model, COLUMNS, RasterInputs(layers, fixed={"hours": 1.0}), MapOptions(n_draws=20)).beyond == ()
