"""``hotvae map``: maps of a model as GeoTIFFs, pictures and a page."""

import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer

from hotvae.cli.options import MOST_DRAWS, Force, Json, ModelFolder, Quiet, Ray
from hotvae.cli.printing import counted, print_json, without_folders
from hotvae.config import MOST_SEED, MOST_THREADS


def map_(
    context: typer.Context,
    model_folder: ModelFolder,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the maps go.")],
    rasters: Annotated[
        list[str] | None,
        typer.Option(
            "--raster",
            "--rasters",
            metavar="FILE",
            help="Raster, FILE:COLUMN, or a folder of rasters, all on one grid; may be repeated.",
        ),
    ] = None,
    grid: Annotated[Path | None, typer.Option(metavar="FILE", help="Instead, a grid made by hotvae grid.")] = None,
    fixed: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=VALUE,...", help="Columns held at a value everywhere, such as effort; may be repeated."
        ),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(metavar="LABEL=0|1", help="A label known to be there or not, everywhere; may be repeated."),
    ] = None,
    climate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FUTURE=PRESENT",
            help="Raster of another time, and the raster whose place it takes; may be repeated. "
            "Maps the future and the change as well.",
        ),
    ] = None,
    coordinates_crs: Annotated[
        str | None,
        typer.Option(
            metavar="EPSG:N", help="System of the training coordinates; by default degrees, or that of the rasters."
        ),
    ] = None,
    tolerance: Annotated[
        float,
        typer.Option(
            metavar="P",
            min=0,
            max=1,
            help="Error of a probability for which covariates may be read in steps; 0 reads them as they are.",
        ),
    ] = 0.01,
    draws: Annotated[
        int, typer.Option(metavar="N", min=20, max=MOST_DRAWS, help="Joint draws for the 5 to 95 % of richness.")
    ] = 200,
    draw_every_cell: Annotated[
        bool, typer.Option("--draw-every-cell", help="Draw for every cell, not for 400 of them; slow.")
    ] = False,
    float32: Annotated[bool, typer.Option("--float32", help="Probabilities as numbers, not as bytes.")] = False,
    calls: Annotated[
        bool, typer.Option("--calls", help="Also map each species as absent, present or cannot tell.")
    ] = False,
    level: Annotated[float, typer.Option(help="Share of right calls that is promised: 0.8, 0.9 or 0.95.")] = 0.9,
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=MOST_THREADS, help="CPU threads; by default as in training.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Decides the draws.")] = 0,
    pictures: Annotated[bool, typer.Option(help="Also make a PNG of each map, and the page.")] = True,
    ray: Ray = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Map every label, richness with its spread, uncertainty, and where the model can be believed."""
    from hotvae.errors import ConfigError
    from hotvae.geo.maps import MapOptions
    from hotvae.jobs.maps import map_model
    from hotvae.scale.items import items_on

    known: dict[str, float] = {}
    for name, value in pairs(given or [], "--given", "LABEL=1").items():
        if value not in ("0", "1"):
            raise ConfigError(f"--given must be 0 or 1; got {value!r} for {name!r}. Write {name}=1 for present.")
        known[name] = float(value)
    swapped: dict[str | Path, str | Path] = {}
    for text in climate or []:
        future, equals, present = text.partition("=")
        if not equals or not future or not present:
            raise ConfigError(f"--climate must be FUTURE=PRESENT; got {text!r}. Name two rasters.")
        swapped[present] = future
    options = MapOptions(known, tolerance, draws, draw_every_cell, float32, calls, level, seed)
    with items_on(ray) as each, counted("tiles", silent=quiet or as_json) as progress:
        found = map_model(
            model_folder,
            out,
            rasters=rasters or [],
            grid=grid,
            fixed=pairs(",".join(fixed or []).split(",") if fixed else [], "--fixed", "duration_h=1"),
            climate=swapped,
            coordinates_crs=coordinates_crs,
            options=options,
            threads=threads,
            pictures=pictures,
            force=force,
            command="hotvae " + without_folders(_without_ray(context.obj or sys.argv[1:])),
            say=(lambda line: None) if quiet or as_json else (lambda line: print(line, file=sys.stderr, flush=True)),
            progress=progress,
            each=each,
        )
    if as_json:
        print_json(
            {"folder": str(found.folder), "seconds": found.seconds, "tiles_found": found.n_tiles_found} | found.summary
        )
        return
    summary = found.summary
    print(f"wrote {', '.join(path.name for path in found.files)} to {found.folder}")
    print(f"{summary['cells']:,} cells with data, {summary['cells_without_data']:,} without")
    if summary["cells_outside_training"] is not None:
        share = 100 * summary["cells_outside_training"] / max(1, summary["cells"])
        print(
            f"{summary['cells_outside_training']:,} cells ({share:.0f} %) are unlike all training rows: see trust.tif"
        )
    if pictures:
        print(f"open {found.folder / 'index.html'}")


def _without_ray(words: Sequence[str]) -> list[str]:
    """Leave out where a map was made: it is the same map."""
    kept = [word for before, word in pairwise(["", *words]) if before != "--ray"]
    return [word for word in kept if word != "--ray" and not word.startswith("--ray=")]


def pairs(texts: Sequence[str], option: str, example: str) -> dict[str, str]:
    """Read ``NAME=VALUE``, several of them."""
    from hotvae.errors import ConfigError

    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not equals or not name.strip() or not value.strip():
            raise ConfigError(f"{option} must be NAME=VALUE; got {text!r}. Write {option} {example}.")
        if name.strip() in found:
            raise ConfigError(f"{option} must name each once; got {name.strip()!r} twice. Remove one.")
        found[name.strip()] = value.strip()
    return found
