"""``hotvae serve``: a model that answers programs over HTTP."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hotvae.cli.map import pairs
from hotvae.cli.options import ModelFolder
from hotvae.errors import ConfigError

if TYPE_CHECKING:
    from hotvae.serve.explorer import Explorer


def serve(
    model_folder: ModelFolder,
    host: Annotated[str, typer.Option(help="Where to listen; beyond this machine with a token only.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File with the token that requests must show; or set HOTVAE_TOKEN."),
    ] = None,
    grid: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Also serve the explorer, at /, of a folder of hotvae map, a grid of hotvae grid, or a table.",
        ),
    ] = None,
    raster: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Instead of --grid: raster with the columns of training; repeat."),
    ] = None,
    fixed: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=VALUE,...", help="Of the explorer: columns held at a value, such as effort."),
    ] = None,
    coordinates_crs: Annotated[
        str | None, typer.Option(metavar="EPSG:N", help="Of the explorer: system of the training coordinates.")
    ] = None,
    rows: Annotated[int, typer.Option(metavar="N", min=1, help="Most rows of a request.")] = 1_000,
    body_mb: Annotated[int, typer.Option(metavar="N", min=1, help="Most megabytes of a request.")] = 4,
    seconds: Annotated[float, typer.Option(metavar="S", min=0.1, help="Most seconds until an answer.")] = 30.0,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Requests worked on at once; by default one a core.")
    ] = None,
    waiting: Annotated[int, typer.Option(metavar="N", min=0, help="Requests that may wait in line.")] = 32,
) -> None:
    """Answer programs over HTTP: probabilities, draws and best lists of new rows, alone or given known labels."""
    from hotvae.config import require_module

    for package in ("fastapi", "uvicorn", "prometheus_client"):
        require_module(package, "serve a model", "serve")
    from hotvae.serve.limits import Limits
    from hotvae.serve.questions import Served
    from hotvae.serve.server import serve as serve_model

    def tell(address: str, served: Served) -> None:
        words = f"serving {served.description['model']} ({len(served.labels)} labels) at {address}"
        print(f"{words}; {address}/openapi.json says what to ask. Ctrl+C stops it.", file=sys.stderr, flush=True)

    def explorer(served: Served) -> "Explorer":
        from hotvae.serve.explorer import Explorer

        print("making the explorer ...", file=sys.stderr, flush=True)
        held = pairs(",".join(fixed or []).split(",") if fixed else [], "--fixed", "duration_h=1")
        return Explorer.open(served.model, grid, raster or [], fixed=held, coordinates_crs=coordinates_crs)

    for name, given in (("--fixed", fixed), ("--coordinates-crs", coordinates_crs)):
        if given and grid is None and not raster:
            raise ConfigError(
                f"{name} must go with the explorer; got it alone. Add --grid or --raster, or leave it out."
            )
    chosen = {} if workers is None else {"workers": workers}
    limits = Limits(rows=rows, body=body_mb << 20, seconds=seconds, waiting=waiting, **chosen)
    wanted = explorer if grid is not None or raster else None
    serve_model(model_folder, host, port, _token(token_file), limits, tell, wanted)


def _token(file: Path | None) -> str | None:
    """Read the token: never from the command line, which others on the machine can see."""
    if file is None:
        return os.environ.get("HOTVAE_TOKEN") or None
    token = file.read_bytes().decode("utf-8", "replace").strip()  # what is no text is refused as no token
    if not token:
        raise ConfigError(f"token file must hold a token; got an empty file ({file}). Fill it, or leave it out.")
    return token
