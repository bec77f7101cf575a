"""Pictures of maps: what is drawn where, and outlines that are in the files."""

import numpy as np
import pytest

from hotvae.report.coastline import border_lines
from hotvae.report.map_plots import Place, plot_raster
from hotvae.report.page import MapPart, MapPicture, MapsContent, page_html, png_bytes


def test_plot_raster__values__are_drawn_in_their_place_and_scale():
    place = Place((10.0, 12.0, 50.0, 51.0), degrees=True)
    figure = plot_raster([[0.1, np.nan], [0.3, 0.9]], place, title="wren", unit="probability", low=0, high=1)
    axes = figure.axes[0]
    (image,) = axes.get_images()
    assert image.get_extent() == [10.0, 12.0, 50.0, 51.0]
    assert image.get_clim() == (0, 1)
    assert image.get_array().mask.tolist() == [[False, True], [False, False]]
    # A degree of longitude is shorter than one of latitude.
    assert axes.get_aspect() == pytest.approx(1 / np.cos(np.radians(50.5)))
    assert axes.xaxis.get_major_formatter()(-3.5, 0) == "3.5°W"


def test_plot_raster__metres__have_a_scale_of_a_round_length():
    place = Place((0.0, 90_000.0, 0.0, 60_000.0), degrees=False, unit_km=0.001)
    figure = plot_raster(np.zeros((4, 6)), place, title="a", unit="b", low=0, high=1)
    assert [text.get_text() for text in figure.axes[0].texts] == ["20 km"]


def test_plot_raster__outside_and_classes__hatched_and_named():
    place = Place((0.0, 3.0, 0.0, 3.0), degrees=True, land=[np.array([[0, 0], [2, 0], [2, 2], [0, 0]])])
    outside = np.zeros((6, 6), dtype=bool)
    outside[:3] = True
    plain = plot_raster(np.ones((6, 6)), place, title="a", unit="b", low=0, high=1)
    hatched = plot_raster(np.ones((6, 6)), place, title="a", unit="b", low=0, high=1, outside=outside)
    assert len(hatched.axes[0].collections) > len(plain.axes[0].collections)
    classes = plot_raster(np.ones((6, 6)), place, title="a", unit="", low=0, high=1, classes=("outside", "inside"))
    assert [label.get_text() for label in classes.axes[1].get_yticklabels()] == ["outside", "inside"]


def test_png_bytes__same_figure__same_bytes():
    place = Place((0.0, 1.0, 0.0, 1.0), degrees=True)
    drawn = [png_bytes(plot_raster([[0.5]], place, title="a", unit="", low=0, high=1, size="small")) for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert drawn[0].startswith(b"\x89PNG")


def test_border_lines__france_and_spain__meet_in_the_pyrenees():
    lines = border_lines((-1.5, 42.3, 3.0, 43.4))
    points = np.concatenate(lines)
    assert np.hypot(points[:, 0] - 0.7, points[:, 1] - 42.8).min() < 0.15
    assert len(border_lines((-40.0, 30.0, -35.0, 35.0))) == 0
    assert len(border_lines()) > 300


def test_page__names_with_markup__are_taken_literally():
    evil = "<script>alert(1)</script>"
    content = MapsContent(
        evil, evil, [MapPart(evil, evil, [MapPicture(b"png", evil)])], [MapPicture(b"png", evil)], evil, command=evil
    )
    page = page_html(content)
    assert evil not in page
    assert page.count("data:image/png;base64,cG5n") == 2
