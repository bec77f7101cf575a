"""Figures: what is drawn are the numbers that were given."""

import sys
from importlib import resources

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Polygon

from hotvae.errors import ConfigError, DataError
from hotvae.metrics import reliability_curve
from hotvae.report.coastline import land_rings
from hotvae.report.plots import (
    APART,
    TOGETHER,
    plot_association_gradient,
    plot_association_matrix,
    plot_deviance_partition,
    plot_history,
    plot_importance,
    plot_interactions,
    plot_network,
    plot_reliability,
    plot_response_curves,
    plot_response_surface,
    plot_richness_interval,
    plot_richness_map,
    plot_species_map,
)
from hotvae.training.loop import History


def history(values, best_epoch, metric="macro_f1"):
    records = [
        {"epoch": epoch, "loss": 1 / epoch, "validation_log_loss": 1 - value, f"validation_{metric}": value}
        for epoch, value in enumerate(values, start=1)
    ]
    return History(records, best_epoch, "max_epochs")


def test_plot_history__two_models__draws_every_epoch_and_rings_the_best():
    figure = plot_history({"A": history([0.1, 0.4, 0.3], 2), "B": history([0.2, 0.5], 2)})
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["training loss", "validation log loss", "validation maF1"]
    line_a, ring_a, line_b, _ = figure.axes[2].lines
    assert line_a.get_ydata().tolist() == [0.1, 0.4, 0.3]
    assert line_b.get_xdata().tolist() == [1, 2]
    assert (ring_a.get_xdata().tolist(), ring_a.get_ydata().tolist()) == ([2], [0.4])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["A", "B"]


def test_plot_history__no_validation_rows__shows_the_loss_alone():
    figure = plot_history({"A": History([{"epoch": 1, "loss": 0.5}], 1)})
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["training loss"]


def test_plot_history__models_selected_by_different_metrics__leave_gaps():
    figure = plot_history({"A": history([0.1], 1), "B": history([0.2], 1, metric="my_score")})
    assert figure.axes[3].get_title(loc="left") == "validation my score"
    assert np.isnan(figure.axes[3].lines[0].get_ydata()).all()


def test_plot_history__nothing_to_show__says_so():
    with pytest.raises(DataError, match="histories must hold at least one epoch each; got no history"):
        plot_history({})
    with pytest.raises(DataError, match=r"got \['A'\]"):
        plot_history({"A": History()})


def test_plot_reliability__a_curve__shows_rates_and_counts():
    curve = reliability_curve([[0, 1], [1, 1]], [[0.25, 0.75], [0.25, 1.0]], n_bins=2)
    upper, lower = plot_reliability({"A": curve}).axes
    assert upper.lines[1].get_xdata().tolist() == [0.25, 0.875]
    assert upper.lines[1].get_ydata().tolist() == [0.5, 1.0]
    assert lower.lines[0].get_ydata().tolist() == [2, 2]
    with pytest.raises(DataError, match="curves must hold at least one model; got none"):
        plot_reliability({})


def richness_table(places, true, predicted, names=("x", "y")):
    return pd.DataFrame(places, columns=list(names)).assign(true=true, predicted=predicted)


def test_plot_richness_map__shuffled_grid__is_an_area_with_each_value_in_its_place():
    places = np.array([[1.0, 5.0], [0.0, 4.0], [1.0, 4.0], [0.0, 5.0], [2.0, 5.0], [2.0, 4.0]])
    true = np.array([11.0, 0.0, 1.0, 10.0, 12.0, 2.0])
    figure = plot_richness_map(richness_table(places, true, true + 3, ("east", "north")), ("east", "north"))
    areas = [axes.collections[0].get_array().reshape(2, 3).tolist() for axes in figure.axes[:3]]
    assert areas[0] == [[0, 1, 2], [10, 11, 12]]  # rows from south to north
    assert areas[2] == [[3, 3, 3], [3, 3, 3]]
    assert figure.axes[0].collections[0].get_clim() == figure.axes[1].collections[0].get_clim() == (0, 15)
    assert figure.axes[2].collections[0].get_clim() == (-3, 3)
    assert figure.axes[0].get_xlabel() == "east"


def test_plot_richness_map__scattered_places__are_points():
    places = np.random.default_rng(0).random((7, 2))
    figure = plot_richness_map(richness_table(places, np.arange(7), np.arange(7)))
    np.testing.assert_array_equal(figure.axes[0].collections[0].get_offsets(), places)
    assert figure.axes[2].collections[0].get_clim() == (-1, 1)


def test_plot_richness_map__no_such_column__says_which():
    with pytest.raises(
        DataError, match="table must have the columns 'x', 'y', 'true', 'predicted'; got none named 'pre"
    ):
        plot_richness_map(pd.DataFrame({"x": [0, 1], "y": [0, 1], "true": [1, 2]}))


def test_plots__together_and_apart__have_the_same_colours_in_every_picture():
    names = ["a", "b", "c"]
    rows = [(i, j, "all", {"a": 0.4, "b": 0.4, "c": -0.4}[max(i, j)], True) for i in names for j in names if i != j]
    table = pd.DataFrame(rows, columns=["label_i", "label_j", "group", "effect", "kept"])
    lines = {line.get_color() for line in plot_network(table).axes[0].lines}
    assert lines == {TOGETHER, APART}
    drawn = plot_association_matrix(table).axes[0].images[0]
    assert to_hex(drawn.cmap(drawn.norm(0.4))) == TOGETHER.lower()
    assert to_hex(drawn.cmap(drawn.norm(-0.4))) == APART.lower()
    page = (resources.files("hotvae.report") / "templates" / "page.css").read_text(encoding="utf-8")
    assert f"--together: {TOGETHER.lower()}; --apart: {APART.lower()};" in page


def test_plot_species_map__inland_degrees__has_the_lines_between_countries():
    table = pd.DataFrame({"longitude": [5.0, 25.0], "latitude": [45.0, 52.0], "probability": [0.1, 0.8]})
    axes = plot_species_map(table, "wren", ("longitude", "latitude")).axes[0]
    assert len(axes.lines) > 5
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("longitude", "latitude")
    plain = table.set_axis(["x", "y", "probability"], axis=1)
    assert not plot_species_map(plain, "wren").axes[0].lines


def test_plot_interactions__groups__reorder_and_mirror():
    true = np.array([[0, 0.1, 0.2], [0.1, 0, 0.3], [0.2, 0.3, 0]])
    figure = plot_interactions(true, -true, ["a", "b", "c"], groups=[["c", "a"]], reported=[("a", "c")])
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["c", "a", "b"]
    square = axes.images[0].get_array()
    assert square[0, 1] == 0.2  # above: true c-a
    assert square[1, 0] == -0.2  # below: recovered
    assert square[1, 2] == 0.1
    assert square.mask.diagonal().all()
    assert axes.lines[0].get_xydata().tolist() == [[0, 1]]  # column c, row a: below the diagonal
    assert axes.images[0].get_clim() == (-0.3, 0.3)


def test_plot_interactions__wrong_input__says_what_does_not_fit():
    with pytest.raises(DataError, match=r"one row and column per name \(1\); got shapes \(2, 2\)"):
        plot_interactions(np.zeros((2, 2)), np.zeros((2, 2)), ["a"])
    with pytest.raises(DataError, match=r"groups must hold labels of the table; got \['z'\]"):
        plot_interactions(np.zeros((2, 2)), np.zeros((2, 2)), ["a", "b"], groups=[["z"]])


@pytest.mark.slow
def test_plots__all__draw_without_pyplot(tmp_path):
    plot_richness_map(richness_table([[0, 0], [1, 1], [2, 0]], 1, 1)).savefig(tmp_path / "map.png", dpi=30)
    plot_history({"A": history([0.1, 0.4], 2)}).savefig(tmp_path / "history.png", dpi=30)
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


# --- what a model says, from tidy tables -----------------------------------------------------------------


def association_rows(*rows):
    columns = ["label_i", "label_j", "group", "effect", "lower", "upper", "kept"]
    return pd.DataFrame([(*row[:4], row[3] - 0.05, row[3] + 0.05, row[4]) for row in rows], columns=columns)


TWO_GROUPS = association_rows(
    ("a", "b", "dry", 0.4, True),
    ("b", "a", "dry", 0.2, True),
    ("a", "c", "dry", -0.1, False),
    ("c", "a", "dry", -0.2, False),
    ("a", "b", "wet", 0.1, False),
    ("b", "a", "wet", 0.1, False),
    ("a", "c", "wet", -0.3, True),
    ("c", "a", "wet", -0.2, True),
)


def test_plot_association_matrix__directions__are_kept_apart():
    axes = plot_association_matrix(TWO_GROUPS, "dry").axes[0]
    square = axes.images[0].get_array()
    assert [text.get_text() for text in axes.get_xticklabels()] == ["a", "b", "c"]
    assert square[0, 1] == 0.4  # row a listens, column b is flipped
    assert square[1, 0] == 0.2
    assert square[0, 2] == -0.1
    assert axes.lines[0].get_xydata().tolist() == [[1, 0], [0, 1]]
    with pytest.raises(DataError, match="group must be one of 'dry', 'wet'; got 'cold'"):
        plot_association_matrix(TWO_GROUPS, "cold")
    with pytest.raises(DataError, match=r"table must have the columns 'label_i', .*; got none named 'effect'"):
        plot_association_matrix(TWO_GROUPS.drop(columns="effect"))


def test_plot_network__groups__differ_in_lines_and_not_in_places():
    dry, wet = (plot_network(TWO_GROUPS, group).axes[0] for group in ("dry", "wet"))
    np.testing.assert_array_equal(dry.collections[0].get_offsets(), wet.collections[0].get_offsets())
    assert len(dry.lines) == len(wet.lines) == 1
    assert dry.lines[0].get_color() != wet.lines[0].get_color()  # together, apart
    assert {text.get_text() for text in dry.texts} == {"a", "b"}
    assert {text.get_text() for text in wet.texts} == {"a", "c"}
    none = plot_network(TWO_GROUPS.assign(kept=False)).axes[0]
    assert none.texts[0].get_text() == "no association passes the screen"


def test_plot_association_gradient__pairs__follow_the_order_of_groups():
    axes = plot_association_gradient(TWO_GROUPS, [("a", "b"), ("a", "c")]).axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["dry", "wet"]
    assert axes.lines[1].get_ydata().tolist() == [0.4, 0.1]
    assert axes.lines[2].get_ydata().tolist() == [-0.1, -0.3]
    with pytest.raises(DataError, match=r"pairs must be in the table; got \('b', 'c'\)"):
        plot_association_gradient(TWO_GROUPS, [("b", "c")])


def test_plot_response_curves__numbers_and_levels__have_their_own_panels():
    rows = [("wet", 0.0, "a", 0.2), ("wet", 1.0, "a", 0.6), ("soil", "clay", "a", 0.3), ("soil", "sand", "a", 0.1)]
    table = pd.DataFrame(rows, columns=["feature", "value", "label", "probability"])
    table["lower"], table["upper"] = table["probability"] - 0.1, table["probability"] + 0.1
    first, second = plot_response_curves(table, ["a"]).axes[:2]
    assert first.lines[0].get_xydata().tolist() == [[0, 0.2], [1, 0.6]]
    assert [text.get_text() for text in second.get_xticklabels()] == ["clay", "sand"]
    with pytest.raises(DataError, match=r"labels must be in the table; got \['z'\]"):
        plot_response_curves(table, ["z"])


def test_plot_response_surface__cells__are_in_their_places():
    rows = [(0, 0, "a", 0.1, 3), (0, 1, "a", 0.2, 0), (1, 0, "a", 0.3, 2), (1, 1, "a", 0.9, 4)]
    table = pd.DataFrame(rows, columns=["value_1", "value_2", "label", "probability", "n_rows"])
    axes = plot_response_surface(table, "a", ("wet", "cold")).axes[0]
    assert axes.collections[0].get_array().reshape(2, 2).tolist() == [[0.1, 0.3], [0.2, 0.9]]
    assert axes.collections[1].get_array().mask.reshape(2, 2).tolist() == [[True, True], [False, True]]
    with pytest.raises(DataError, match="label must be in the table; got 'z'"):
        plot_response_surface(table, "z")


def test_plot_importance_and_partition__bars__are_the_numbers():
    rows = [("wet", "a", 0.3, 0.2, 0.4), ("cold", "a", 0.5, 0.4, 0.6), ("cold", "all labels", 0.2, 0.1, 0.3)]
    table = pd.DataFrame(rows, columns=["group", "label", "importance", "lower", "upper"])
    axes = plot_importance(table, "a").axes[0]
    assert [bar.get_width() for bar in axes.patches] == [0.5, 0.3]
    assert axes.yaxis_inverted()
    parts = pd.DataFrame({"label": "a", "part": ["environment", "unexplained"], "share": [0.3, 0.7]})
    assert [bar.get_width() for bar in plot_deviance_partition(parts, "a").axes[0].patches] == [0.3, 0.7]
    for draw, given in ((plot_importance, table), (plot_deviance_partition, parts)):
        with pytest.raises(DataError, match="label must be in the table; got 'z'"):
            draw(given, "z")


def test_plot_species_map__degrees__have_land_and_rings():
    table = pd.DataFrame({"lat": [50.5, 57.0], "lon": [-4.0, -4.5], "probability": [0.1, 0.8], "observed": [0, 1]})
    axes = plot_species_map(table, "wren", ("lat", "lon")).axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("lon", "lat")
    assert len(axes.patches) >= 2  # Great Britain and islands
    assert axes.collections[-1].get_offsets().tolist() == [[-4.5, 57.0]]
    assert not plot_species_map(table, "wren", ("lat", "lon"), coastline=False).axes[0].patches
    flat = table.rename(columns={"lat": "x", "lon": "y"})
    assert not plot_species_map(flat, "wren").axes[0].patches
    with pytest.raises(DataError, match="coordinates must be longitude and latitude for a coastline"):
        plot_species_map(flat, "wren", coastline=True)


def test_plot_richness_interval__two_maps__show_mean_and_width():
    table = pd.DataFrame({"x": [0.0, 1.0], "y": [0.0, 2.0], "expected": [3.0, 6.0], "lower": [2, 4], "upper": [5, 9]})
    left, right = plot_richness_interval(table).axes[:2]
    assert left.collections[0].get_array().tolist() == [3, 6]
    assert right.collections[0].get_array().tolist() == [3, 5]
    assert left.get_title(loc="left") == "expected number of species"
    tags = plot_richness_interval(table, unit="tags")
    assert tags.axes[0].get_title(loc="left") == "expected number of tags"


# --- land ------------------------------------------------------------------------------------------------


def inside(ring, point):
    return Polygon(ring).get_path().contains_point(point)


@pytest.mark.parametrize(
    ("place", "is_land"),
    [
        ((-1.5, 52.5), True),
        ((8.5, 47.4), True),
        ((100.0, 60.0), True),
        ((134.0, -25.0), True),
        ((175.0, 67.5), True),  # Chukotka, on both sides of the date line
        ((-175.0, 67.0), True),
        ((0.0, -80.0), True),
        ((-30.0, 45.0), False),
        ((3.0, 56.0), False),
        ((-179.0, 0.0), False),
    ],
)
def test_land_rings__known_places__are_land_or_sea(place, is_land):
    assert any(inside(ring, place) for ring in land_rings()) == is_land


def test_land_rings__cut_and_thinned__stays_inside_and_closed():
    box = (-11.0, 49.5, 2.0, 59.0)
    whole, thin = land_rings(box), land_rings(box, tolerance=0.05)
    for ring in whole + thin:
        np.testing.assert_array_equal(ring[0], ring[-1])
        assert (ring.min(axis=0) >= np.array(box[:2]) - 1e-9).all()
        assert (ring.max(axis=0) <= np.array(box[2:]) + 1e-9).all()
    assert sum(map(len, thin)) < sum(map(len, whole)) / 2
    for rings in (whole, thin):
        assert any(inside(ring, (-1.5, 52.5)) for ring in rings)
    with pytest.raises(ConfigError, match="bounds must be"):
        land_rings((2, 49, -11, 59))


def test_land_rings__square_around_a_corner__is_cut_at_the_sides():
    """Deep inland the cut is the box itself."""
    (ring,) = land_rings((9.0, 49.0, 10.0, 50.0))
    assert sorted(map(tuple, ring[:-1].tolist())) == [(9, 49), (9, 50), (10, 49), (10, 50)]
