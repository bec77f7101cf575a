"""``hotvae serve``: a model that answers programs over HTTP."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from hotvae.cli.options import ModelFolder
from hotvae.errors import ConfigError


def serve(
    model_folder: ModelFolder,
    host: Annotated[str, typer.Option(help="Where to listen; beyond this machine with a token only.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File with the token that requests must show; or set HOTVAE_TOKEN."),
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

    chosen = {} if workers is None else {"workers": workers}
    limits = Limits(rows=rows, body=body_mb << 20, seconds=seconds, waiting=waiting, **chosen)
    serve_model(model_folder, host, port, _token(token_file), limits, tell)


def _token(file: Path | None) -> str | None:
    """Read the token: never from the command line, which others on the machine can see."""
    if file is None:
        return os.environ.get("HOTVAE_TOKEN") or None
    token = file.read_text(encoding="utf-8").strip()
    if not token:
        raise ConfigError(f"token file must hold a token; got an empty file ({file}). Fill it, or leave it out.")
    return token
