"""Options and arguments that several commands share."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from hotvae.config import MOST_SEED

# More draws, or pairs of sites, change no digit that is printed, and would take days.
MOST_DRAWS = 1_000_000

ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a trained model.")]
TableFile = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE",
        help="CSV, TSV, Parquet, xlsx, GeoPackage, shapefile, GeoJSON, ARFF or npz; text files also as .gz.",
    ),
]
_ANY_TABLE = (
    "CSV, TSV, Parquet, xlsx, GeoPackage, shapefile, GeoJSON, Darwin Core archive (.zip), ARFF or npz; text files also "
    "as .gz."
)
ModelTable = Annotated[Path, typer.Argument(metavar="TABLE", help=_ANY_TABLE)]
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
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="[ADDRESS]",
        help="Work on a Ray cluster: HOST:PORT, auto for the one this machine is part of, or alone for all its cores.",
    ),
]
SafeCsv = Annotated[
    bool,
    typer.Option("--safe-csv", help="In CSV: an apostrophe before texts that a spreadsheet would take for formulas."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")]

# How a table is read and split, for what trains on it. None is what was not said: a settings file may say it.
TrainingTable = Annotated[Path | None, typer.Argument(metavar="TABLE", help=_ANY_TABLE)]
NamedData = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Instead of a table: a named data set (hotvae data list)."),
]
Fold = Annotated[int | None, typer.Option(metavar="N", min=0, help="Which published split of the named set (0).")]
Labels = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATTERN",
        help="Label columns: names, globs such as 'sp_*', a range first:last, a file @species.txt of names; "
        "repeat, or use commas.",
    ),
]
TrainingLabelTable = Annotated[
    str | None, typer.Option(metavar="FILE", help="Second table with the labels, joined by --id-column.")
]
Join = Annotated[
    str | None,
    typer.Option(metavar="HOW", help="Rows that one of two tables lacks: exact (default) refuses, inner drops."),
]
TrainingIdColumn = Annotated[str | None, typer.Option(metavar="NAME", help="Column of row ids; no feature.")]
Coordinates = Annotated[
    str | None,
    typer.Option(metavar="X,Y", help="The two columns that say where a row is; features as well."),
]
Groups = Annotated[str | None, typer.Option(metavar="NAME", help="Column of rows that belong together; no feature.")]
Drop = Annotated[list[str] | None, typer.Option(metavar="PATTERN", help="Columns to leave out: names or globs.")]
Counts = Annotated[
    bool | None,
    typer.Option("--presence/--no-presence", help="Labels are counts: take any above 0 as 1."),
]
ValidationTable = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Table of rows that choose the thresholds, and the epoch of a network."),
]
ValidationFraction = Annotated[
    float | None,
    typer.Option(metavar="SHARE", help="Of a network or rival: hold out this share of the rows (0.2)."),
]
SplitKind = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help="What is held out together: auto (default: group, else block, else rows), random, stratified, "
        "group (--groups), block (--coordinates).",
    ),
]
BlockSize = Annotated[
    float | None,
    typer.Option(metavar="SIDE", help="Side of the blocks; by default about 50 cover the region."),
]
Graph = Annotated[
    str | None,
    typer.Option(
        metavar="GRAPH",
        help="Which labels may talk: complete (default), cooccurrence, edges.csv or tree.nwk.",
    ),
]
Relatives = Annotated[
    int | None,
    typer.Option(metavar="K", help="Of a tree: connect K nearest relatives (default 5)."),
]
MaxDistance = Annotated[
    float | None,
    typer.Option(metavar="D", help="Of a tree: connect relatives up to this distance instead."),
]
Seed = Annotated[
    int | None, typer.Option(metavar="N", min=0, max=MOST_SEED, help="The same seed gives the same model (0).")
]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any other setting of the model, such as max_epochs; repeat."),
]
Config = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="TOML or YAML file of these names; the command line wins."),
]
TrainingEncoding = Annotated[str | None, typer.Option(help="Encoding of text files (utf-8).")]
TrainingDecimal = Annotated[str | None, typer.Option(help="Decimal mark of text files (.).")]
DropSingleClass = Annotated[
    bool | None,
    typer.Option("--drop-single-class/--keep-single-class", help="Leave out labels that are always or never there."),
]


def given_options(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were said, but for the table, ``--config`` and ``--set``; labels and columns as lists."""
    options = {name: value for name, value in params.items() if value not in (None, [], ())}
    for name in ("table", "config", "assignments"):
        options.pop(name, None)
    return options | {name: _separated(options[name]) for name in ("labels", "drop") if name in options}


def _separated(patterns: Sequence[str]) -> list[str]:
    """Split repeated values at commas; a single one is left to the reader, who knows names with commas."""
    if len(patterns) == 1:
        return list(patterns)
    return [part.strip() for pattern in patterns for part in pattern.split(",") if part.strip()]
