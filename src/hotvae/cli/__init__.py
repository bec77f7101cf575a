"""The command line: the commands are named here, and a mistake of the user becomes one line on standard error.

Each command has a file of its own: it parses, calls one function of :mod:`hotvae.jobs` and prints. Everything heavy
is imported inside the commands, so that ``hotvae --help`` answers at once.
"""

import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import zip_longest
from typing import Annotated, Any

import typer

from hotvae.cli import (
    annotate,
    benchmark,
    data,
    demo,
    ebird,
    evaluate,
    explain,
    explore,
    grid,
    info,
    models,
    predict,
    serve,
    train,
    tune,
)
from hotvae.cli import map as map_command
from hotvae.errors import DataWarning, HotVAEError, speaking

_PIPE_CLOSED = 141  # as shells call it

# UsageError and what stands above it; typer brings its own copy of click or click itself, version by version.
_UsageProblem: type[Exception] = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="hotvae",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,  # plain help: the pretty one takes longer to import than all the rest
    help="Predict which labels go together: train on a table, predict, evaluate.",
)


@app.callback(invoke_without_command=True)
def _hotvae(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        import platform
        from importlib.metadata import version as installed

        import torch

        from hotvae.training.prediction import choose_device

        device = choose_device("auto")
        print(
            f"hotvae {installed('hotvae')}, torch {torch.__version__} on {device}, Python {platform.python_version()}"
        )
    elif context.invoked_subcommand is None:
        print(context.get_help())


# What torch says in a RuntimeError, on a processor and on a graphics card.
_NO_MEMORY = ("can't allocate memory", "out of memory")

# In the order of the help.
app.command("demo")(demo.demo)
app.command("train")(train.train)
app.command("predict")(predict.predict)
app.command("evaluate")(evaluate.evaluate)
app.command("annotate")(annotate.annotate)
app.command("grid")(grid.grid)
app.command("map")(map_command.map_)
app.command("explore")(explore.explore)
app.command("serve")(serve.serve)
app.command("info")(info.info)
app.command("models")(models.models)
app.command("tune")(tune.tune)
app.command("benchmark")(benchmark.benchmark)
app.command("explain")(explain.explain)
app.add_typer(data.app)
app.add_typer(ebird.app)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; by default those of the process.

    Returns
    -------
    int
        0, or 2 for a mistake of the user, which is explained in one line on standard error.
    """
    # Before torch is loaded: threads that spin for long while they wait starve each other on a shared machine
    # (measured on 2 busy cores: 30 s an epoch instead of 3); a short spin keeps the gain on an idle one.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    arguments = _with_address(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without × says ? rather than nothing
    try:
        with speaking("command line"), _one_line_warnings():
            code = _command().main(args=arguments, prog_name="hotvae", standalone_mode=False, obj=arguments)
        sys.stdout.flush()  # here, where it can be said that there is no room for it
    except _UsageProblem as problem:
        return _fail(problem.format_message())  # type: ignore[attr-defined]  # every click exception has it
    except HotVAEError as error:
        return _fail(str(error))
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not any(words in str(error) for words in _NO_MEMORY):
            raise
        return _fail("data must fit into memory; got more than there is. Use fewer rows or columns, or more memory.")
    except BrokenPipeError:  # whoever read along, such as head, has seen enough
        _forget_output()
        return _PIPE_CLOSED
    except OSError as error:  # no such file, no right to it, no room
        _forget_output()
        return _fail(f"{error.strerror}: {error.filename}" if error.filename else error.strerror or str(error))
    return code if isinstance(code, int) else 0


@cache
def _command() -> Any:
    """Return what typer makes of the commands; made once, it takes longer than many of them."""
    return typer.main.get_command(app)


def _with_address(arguments: Sequence[str]) -> list[str]:
    """Complete ``--ray`` where it stands without an address: this machine is meant.

    Examples
    --------
    >>> _with_address(["map", "--ray", "--quiet"]), _with_address(["map", "--ray", "auto"])
    (['map', '--ray', 'local', '--quiet'], ['map', '--ray', 'auto'])
    """
    found: list[str] = []
    for word, after in zip_longest(arguments, arguments[1:]):
        found.append(word)
        if word == "--ray" and (after is None or after.startswith("-")):
            found.append("local")
    return found


def _forget_output() -> None:
    """Drop what could not be printed: the interpreter would try once more when it ends, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # until the end


def _fail(message: str) -> int:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return 2


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    """Show each warning once, as one line."""
    shown: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        line = " ".join(str(message).split())
        if line not in shown:
            shown.add(line)
            print(f"warning: {line}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.filterwarnings("always", category=DataWarning)
        warnings.showwarning = show
        yield
