"""The community explorer of a served model: a page of the whole grid, and pages of any part of it, cell by cell."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path

from hotvae.errors import DataError, shown
from hotvae.estimators.base import LabelClassifier
from hotvae.geo.cells import Bounds
from hotvae.geo.maps import MapInputs
from hotvae.jobs.explore import explorer_content
from hotvae.jobs.explorer_places import MOST_CELLS, ExplorerPlaces, is_grid, places_of_file, places_of_inputs
from hotvae.jobs.maps import map_inputs
from hotvae.report.explorer import ExplorerContent
from hotvae.report.page import page_html


@dataclass(frozen=True, eq=False)
class Explorer:
    """Pages of one model and one grid.

    Attributes
    ----------
    model : LabelClassifier
        Fitted, with a law.
    inputs : MapInputs or None
        What parts are read from; None where one page has all places.
    content : ExplorerContent
        Of all places, or of cells that are spread over them.
    whole : bytes
        The page of it.
    most : int
        Places of a page.
    """

    model: LabelClassifier
    inputs: MapInputs | None
    content: ExplorerContent
    whole: bytes
    most: int

    @classmethod
    def open(
        cls,
        model: LabelClassifier,
        grid: str | Path | None,
        rasters: Sequence[str | Path] = (),
        *,
        fixed: Mapping[str, str] | None = None,
        coordinates_crs: str | None = None,
        most: int = MOST_CELLS,
    ) -> "Explorer":
        """Make the page of the whole, which takes a while; see :func:`~hotvae.jobs.explore.explore_model`.

        Parameters
        ----------
        model : LabelClassifier
            Fitted, with a law.
        grid : path, optional
            Folder of ``hotvae map``, grid of ``hotvae grid``, or a table with the columns of training.
        rasters : sequence of path
            Instead: rasters with the columns of training, such as Cloud Optimised GeoTIFFs.
        fixed, coordinates_crs
            As in :func:`~hotvae.jobs.maps.map_inputs`.
        most : int
            Places of a page.
        """
        inputs: MapInputs | None = None
        if rasters or (grid is not None and is_grid(Path(grid))):
            inputs = map_inputs(model, rasters, grid, fixed or {}, coordinates_crs)[1]
            places = places_of_inputs(inputs, most)
        else:
            places = places_of_file(model, grid or "", fixed=fixed, coordinates_crs=coordinates_crs, most=most)
        content = explorer_content(model, places)
        return cls(model, inputs, content, _page(content, places, inputs, is_part=False), most)

    def page(self, window: str | None) -> bytes:
        """Return the page of all, or of a part: ``west,south,east,north`` in the reference system of the grid."""
        if not window:
            return self.whole
        if self.inputs is None:
            raise DataError("window must go with a grid of cells; got a list of places. Leave it out.")
        # A copy opens files of its own: threads must not share them.
        places = places_of_inputs(copy(self.inputs), self.most, _bounds(window))
        return _page(explorer_content(self.model, places, like=self.content), places, self.inputs, is_part=True)


def _page(content: ExplorerContent, places: ExplorerPlaces, inputs: MapInputs | None, is_part: bool) -> bytes:
    """Make a page that knows how to ask for others."""
    if inputs is not None and places.scale is not None and places.side is not None:
        cell = abs(inputs.grid.transform[1]) * places.scale[0]
        has_more = places.side[0] > 1.5 * cell  # cells between those that are shown
        content.facts["closer"] = {"scale": list(places.scale), "is_part": is_part, "has_more": has_more}
    return page_html(content).encode()


def _bounds(window: str) -> Bounds:
    try:
        west, south, east, north = map(float, window.split(","))
    except ValueError:
        raise DataError(f"window must be west,south,east,north; got {shown(window)}. Write four numbers.") from None
    return west, south, east, north
