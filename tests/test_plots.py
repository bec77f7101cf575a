"""Figures: what is drawn are the numbers that were given."""

import sys

import numpy as np
import pytest

from hotvae.errors import DataError
from hotvae.metrics import reliability_curve
from hotvae.plots import plot_history, plot_interactions, plot_reliability, plot_richness_map
from hotvae.training import History


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


def test_plot_richness_map__shuffled_grid__is_an_area_with_each_value_in_its_place():
    places = np.array([[1.0, 5.0], [0.0, 4.0], [1.0, 4.0], [0.0, 5.0], [2.0, 5.0], [2.0, 4.0]])
    true = np.array([11.0, 0.0, 1.0, 10.0, 12.0, 2.0])
    figure = plot_richness_map(places, true, true + 3, ("east", "north"))
    areas = [axes.collections[0].get_array().reshape(2, 3).tolist() for axes in figure.axes[:3]]
    assert areas[0] == [[0, 1, 2], [10, 11, 12]]  # rows from south to north
    assert areas[2] == [[3, 3, 3], [3, 3, 3]]
    assert figure.axes[0].collections[0].get_clim() == figure.axes[1].collections[0].get_clim() == (0, 15)
    assert figure.axes[2].collections[0].get_clim() == (-3, 3)
    assert figure.axes[0].get_xlabel() == "east"


def test_plot_richness_map__scattered_places__are_points():
    places = np.random.default_rng(0).random((7, 2))
    figure = plot_richness_map(places, np.arange(7), np.arange(7))
    np.testing.assert_array_equal(figure.axes[0].collections[0].get_offsets(), places)
    assert figure.axes[2].collections[0].get_clim() == (-1, 1)


def test_plot_richness_map__shapes_that_differ__says_which():
    with pytest.raises(DataError, match=r"got shapes \(2, 2\), \(2,\) and \(3,\)"):
        plot_richness_map([[0, 0], [1, 1]], [1, 2], [1, 2, 3])


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


def test_plots__all__draw_without_pyplot(tmp_path):
    plot_richness_map([[0, 0], [1, 1], [2, 0]], [1, 1, 1], [1, 1, 1]).savefig(tmp_path / "map.png", dpi=30)
    plot_history({"A": history([0.1, 0.4], 2)}).savefig(tmp_path / "history.png", dpi=30)
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()
