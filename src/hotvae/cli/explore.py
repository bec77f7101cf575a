"""``hotvae explore``: a page that holds a model's law and a grid of places, and answers what it is told."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from hotvae.cli.map import pairs
from hotvae.cli.options import Force, IdColumn, Json, ModelFolder, Quiet
from hotvae.cli.printing import print_json, without_folders
from hotvae.config import MOST_SEED


def explore(
    context: typer.Context,
    model_folder: ModelFolder,
    grid: Annotated[
        Path,
        typer.Option(
            metavar="PATH",
            help="Folder of hotvae map, grid of hotvae grid, or a table with the columns and coordinates of training.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page, .html.")],
    fixed: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=VALUE,...", help="Of a grid: columns held at a value everywhere, such as effort."),
    ] = None,
    coordinates_crs: Annotated[
        str | None, typer.Option(metavar="EPSG:N", help="Of a grid: system of the training coordinates.")
    ] = None,
    id_column: IdColumn = None,
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    cells: Annotated[int, typer.Option(metavar="N", min=1, help="Places on the page, at most.")] = 20_000,
    float32: Annotated[
        bool, typer.Option("--float32", help="Numbers as the model has them, not in 16 bits; a larger page.")
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, max=MOST_SEED, help="Decides draws, and the training of the stand-in.")
    ] = 0,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write a page to explore a model: tick what you saw, and the whole map answers."""
    from hotvae.jobs.explore import explore_model

    found = explore_model(
        model_folder,
        grid,
        out,
        fixed=pairs(",".join(fixed or []).split(",") if fixed else [], "--fixed", "duration_h=1"),
        coordinates_crs=coordinates_crs,
        id_column=id_column,
        title=title,
        cells=cells,
        float32=float32,
        seed=seed,
        force=force,
        command="hotvae " + without_folders(context.obj or sys.argv[1:]),
        say=(lambda line: None) if quiet or as_json else (lambda line: print(line, file=sys.stderr, flush=True)),
    )
    if as_json:
        print_json(
            {
                "page": str(found.page),
                "n_places": found.n_places,
                "n_labels": found.n_labels,
                "megabytes": found.megabytes,
                "notes": found.notes,
            }
        )
        return
    print(f"wrote {found.page} ({found.megabytes:.1f} MB): {found.n_places:,} places × {found.n_labels:,} labels")
    for note in found.notes:
        print(f"note: {note}")
