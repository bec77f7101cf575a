"""Options and arguments that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a trained model.")]
TableFile = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE",
        help="CSV, TSV, Parquet, xlsx, GeoPackage, shapefile, GeoJSON, ARFF or npz; text files also as .gz.",
    ),
]
Sheet = Annotated[str | None, typer.Option(metavar="NAME", help="Sheet of a workbook, layer of a GeoPackage.")]
Long = Annotated[
    str | None,
    typer.Option(
        metavar="SITE,SPECIES,COUNT",
        help="The table (or --label-table) has a row a record: its columns, or auto to guess them.",
    ),
]
Sites = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="With --long: all sites that were visited, and their covariates."),
]
LabelTable = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Second table with the labels, joined by the id column.")
]
IdColumn = Annotated[str | None, typer.Option(help="Column of row ids; by default the one of training.")]
Presence = Annotated[
    bool, typer.Option("--presence", help="Labels are counts: take any above 0 as 1 (as in training).")
]
IgnoreUnknown = Annotated[bool, typer.Option("--ignore-unknown", help="Pass over columns that training did not know.")]
Encoding = Annotated[str, typer.Option(help="Encoding of text files.")]
Decimal = Annotated[str, typer.Option(help="Decimal mark of text files.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")]
