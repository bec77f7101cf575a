"""``hotvae grid``: a regular grid of a region with covariates from rasters."""

from pathlib import Path
from typing import Annotated

import typer

from hotvae.cli.annotate import Radius
from hotvae.cli.options import Force, Json
from hotvae.cli.printing import counted, print_json


def grid(
    region: Annotated[Path, typer.Option(metavar="FILE", help="Polygons: GeoPackage, shapefile or GeoJSON.")],
    resolution: Annotated[float, typer.Option(metavar="METRES", help="Side of a cell, in the units of --crs.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Parquet file of the cells.")],
    rasters: Annotated[
        list[str] | None,
        typer.Option("--raster", metavar="FILE", help="As for hotvae annotate; may be repeated."),
    ] = None,
    radius: Radius = 0.0,
    crs: Annotated[
        str | None,
        typer.Option(metavar="EPSG:N", help="Reference system of the grid; by default one in metres."),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Lay a regular grid over a region, with the columns that hotvae annotate gives to points."""
    from hotvae.jobs.annotate import grid_region

    with counted("tiles") as progress:
        found = grid_region(
            region, resolution, rasters or [], out, radius=radius, crs=crs, force=force, progress=progress
        )
    if as_json:
        print_json(
            {
                "file": str(out),
                "n_cells": found.n_cells,
                "width": found.grid.width,
                "height": found.grid.height,
                "crs": found.grid.crs,
                "columns": found.columns,
                "outside": found.report.outside,
                "without_data": found.report.empty,
                "partly_without_data": found.report.partial,
            }
        )
        return
    size = f"{found.grid.width} x {found.grid.height}"
    print(f"wrote {found.n_cells} cells of {size} with {len(found.columns)} columns to {out}")
    for line in found.report.lines():
        print(line)
