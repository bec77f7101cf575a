"""``hotvae annotate``: covariates from rasters for the rows of a table."""

from pathlib import Path
from typing import Annotated

import typer

from hotvae.cli.options import Decimal, Encoding, Force, Json, SafeCsv, TableFile
from hotvae.cli.printing import print_json

Rasters = Annotated[
    list[str],
    typer.Option(
        "--raster", metavar="FILE", help="Raster, or FILE:classes for classes such as land cover; may be repeated."
    ),
]
Radius = Annotated[
    float, typer.Option(metavar="METRES", help="Radius of the circle around each point; 0 reads one cell.")
]


def annotate(
    table: TableFile,
    rasters: Rasters,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Table with the new columns: .csv, .tsv or .parquet.")],
    radius: Radius = 0.0,
    coordinates: Annotated[
        str | None,
        typer.Option(metavar="X,Y", help="Columns of the coordinates; by default longitude and latitude."),
    ] = None,
    crs: Annotated[
        str | None, typer.Option(metavar="EPSG:N", help="Reference system of the coordinates; by default degrees.")
    ] = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    safe_csv: SafeCsv = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Add what rasters say around each row: mean and spread, or the share of each class, in a circle."""
    from hotvae.jobs.annotate import annotate_table

    found = annotate_table(
        table,
        rasters,
        out,
        radius=radius,
        coordinates=None if coordinates is None else two_names(coordinates),
        crs=crs,
        encoding=encoding,
        decimal=decimal,
        safe_csv=safe_csv,
        force=force,
    )
    if as_json:
        print_json(
            {
                "file": str(out),
                "n_rows": found.n_rows,
                "columns": found.columns,
                "coordinates": list(found.coordinates),
                "outside": found.report.outside,
                "without_data": found.report.empty,
                "partly_without_data": found.report.partial,
            }
        )
        return
    print(f"wrote {found.n_rows} rows with {len(found.columns)} new columns to {out}: {', '.join(found.columns)}")
    for line in found.report.lines():
        print(line)


def two_names(text: str) -> tuple[str, str]:
    """Read ``X,Y``."""
    from hotvae.errors import ConfigError

    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise ConfigError(f"--coordinates must be two names such as X,Y; got {text!r}. Name two columns.")
    return names[0], names[1]
