"""``hotvae ebird``: from the files of eBird to a table of checklists, and virtual files to try it with.

Nothing here waits for torch.
"""

import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hotvae.cli.options import Force, Json, Quiet
from hotvae.cli.printing import print_json
from hotvae.config import MOST_SEED, MOST_THREADS
from hotvae.errors import ConfigError
from hotvae.files import check_new_file

if TYPE_CHECKING:
    from hotvae.geo.ebird import Prepared

app = typer.Typer(
    name="ebird",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    help="Files of eBird: make a table of checklists from them.",
)

_LIMITS = "LEAST:MOST"


@app.callback(invoke_without_command=True)
def _ebird(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("prepare")
def _prepare(
    ebd: Annotated[Path, typer.Argument(metavar="EBD", help="Observations: .txt as downloaded, .gz or .zip.")],
    sampling: Annotated[
        Path, typer.Argument(metavar="SAMPLING", help="Checklists of the same download; may be the same .zip.")
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The table: a .parquet file.")],
    region: Annotated[
        str | None, typer.Option(metavar="CODES", help="Countries, states or counties: US-NY,US-VT.")
    ] = None,
    bbox: Annotated[str | None, typer.Option(metavar="W,S,E,N", help="Only within these degrees.")] = None,
    dates: Annotated[
        str | None,
        typer.Option(metavar="FIRST:LAST", help="Such as 2019-01-01:2023-12-31; of every year: *-05-01:*-07-31."),
    ] = None,
    months: Annotated[str | None, typer.Option(metavar="MONTHS", help="Such as 5-7, 11-2 or 4,5,9.")] = None,
    protocol: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Such as Stationary,Traveling (default: all).")
    ] = None,
    hours: Annotated[str | None, typer.Option(metavar=_LIMITS, help="Duration, such as 0:6 or :6.")] = None,
    km: Annotated[str | None, typer.Option(metavar=_LIMITS, help="Distance; stationary counts have 0.")] = None,
    observers: Annotated[str | None, typer.Option(metavar=_LIMITS, help="Number of observers.")] = None,
    speed: Annotated[str | None, typer.Option(metavar=_LIMITS, help="Distance by duration, in km/h.")] = None,
    best_practice: Annotated[
        bool,
        typer.Option(
            "--best-practice",
            help="Stationary and traveling, at most 6 h, 10 km, 10 observers, 100 km/h; other options win.",
        ),
    ] = False,
    min_detections: Annotated[
        int, typer.Option(metavar="N", min=1, help="Leave out species seen on fewer checklists.")
    ] = 1,
    names: Annotated[
        str, typer.Option(metavar="KIND", help="Columns of species: scientific or common.")
    ] = "scientific",
    thin: Annotated[
        float | None,
        typer.Option(metavar="KM", help="Keep one checklist a cell of this side and week; test rows stay as they are."),
    ] = None,
    test_share: Annotated[
        float,
        typer.Option(metavar="SHARE", help="Set aside whole blocks of the map with this share, in a second file."),
    ] = 0.0,
    test_block: Annotated[
        float | None, typer.Option(metavar="KM", help="Side of these blocks; by default about 50 cover the region.")
    ] = None,
    counts: Annotated[
        bool, typer.Option("--counts", help="Also write every detection with its count (empty for X).")
    ] = False,
    seed: Annotated[int, typer.Option(metavar="N", min=0, max=MOST_SEED, help="Decides what is drawn at random.")] = 0,
    memory: Annotated[str, typer.Option(metavar="AMOUNT", help="What DuckDB may hold; the rest goes to disk.")] = "1GB",
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=MOST_THREADS, help="CPU threads; by default all.")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Make a table of checklists by species: filter, merge groups, sum subspecies, fill in absences.

    A run that was stopped goes on where it was when the same command is given again.
    """
    from hotvae.geo.ebird import BEST_PRACTICE, Filters, prepare

    check_new_file(out, force)
    chosen: dict[str, Any] = {
        "regions": _words(region),
        "bounds": _bounds(bbox),
        "dates": _pair("--dates", dates),
        "months": _months(months),
        "protocols": _words(protocol),
        "hours": _limits("--hours", hours),
        "kilometres": _limits("--km", km),
        "observers": _limits("--observers", observers),
        "speed": _limits("--speed", speed),
    }
    usual = BEST_PRACTICE if best_practice else {}
    filters = Filters(**(usual | {name: value for name, value in chosen.items() if value}))
    with _progress(quiet or as_json) as progress:
        found = prepare(
            ebd,
            sampling,
            out,
            filters=filters,
            min_detections=min_detections,
            names=names,
            thin_km=thin,
            test_share=test_share,
            test_block_km=test_block,
            counts=counts,
            seed=seed,
            memory=memory,
            threads=threads,
            progress=progress,
        )
    if as_json:
        print_json(
            {
                "files": [str(path) for path in found.files],
                "n_checklists": found.n_checklists,
                "n_test": found.n_test,
                "n_species": len(found.species),
                "audit": found.audit.to_dict(orient="records"),
                "species": found.species.to_dict(orient="records"),
            }
        )
        return
    _print(found, out)


@app.command("example")
def _example(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to; it is made if needed.")],
    checklists: Annotated[int, typer.Option(metavar="N", min=1, help="Lines of the file of checklists.")] = 2000,
    species: Annotated[int, typer.Option(metavar="N", min=1, help="Virtual species.")] = 30,
    bbox: Annotated[str | None, typer.Option(metavar="W,S,E,N", help="Where the places are, in degrees.")] = None,
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, max=MOST_SEED, help="The same seed gives the same files.")
    ] = 0,
) -> None:
    """Write a pair of virtual files in the layout of real ones, to try the rest with."""
    from hotvae.geo.ebird_example import EXAMPLE_BOUNDS, write_example

    folder.mkdir(parents=True, exist_ok=True)
    bounds = _bounds(bbox)
    found = write_example(
        folder, n_checklists=checklists, n_species=species, bounds=bounds or EXAMPLE_BOUNDS, random_state=seed
    )
    print(f"wrote {found.n_observations} observations to {found.ebd}")
    print(f"wrote {found.n_checklists} checklists to {found.sampling}")
    command = [
        "hotvae",
        "ebird",
        "prepare",
        str(found.ebd),
        str(found.sampling),
        "--out",
        str(folder / "checklists.parquet"),
    ]
    print(f"next  {shlex.join(command)}")


def _print(found: "Prepared", out: Path) -> None:
    width = max(len(step) for step in found.audit["step"])
    table = ""
    for row in found.audit.itertuples():
        if row.table != table:
            table = str(row.table)
            print(f"{table:{width + 2}} {'lost':>12} {'left':>12}")
        lost = "" if row.lost == 0 else f"{row.lost:,}"
        print(f"  {row.step:{width}} {lost:>12} {row.left:>12,}")
    n_x = int(found.species["x"].sum())
    print(f"{len(found.species)} species; {n_x:,} detections are X: there, without a count")
    beside = f" and {found.n_test:,} test rows to {found.files[1]}" if found.n_test else ""
    print(f"wrote {found.n_checklists:,} checklists × {len(found.species)} species to {out}{beside}")
    labels = next(path for path in found.files if path.name.endswith(".species.txt"))
    roles = ["--id-column", "checklist_id", "--coordinates", "longitude,latitude", "--drop", "locality_id"]
    command = ["hotvae", "train", str(out), "--labels", f"@{labels}", *roles, "--out", "my_model"]
    print(f"next  {shlex.join(command)}")


# --- what was typed ----------------------------------------------------------------------------------------


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _bounds(text: str | None) -> tuple[float, float, float, float] | None:
    if text is None:
        return None
    try:
        west, south, east, north = (float(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(
            f"--bbox must be W,S,E,N; got {text!r}. Write, for example, --bbox -76.5,42,-74.5,43.5."
        ) from None
    return west, south, east, north


def _pair(option: str, text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    first, colon, last = text.partition(":")
    if not (colon and first.strip() and last.strip()):
        raise ConfigError(f"{option} must be FIRST:LAST; got {text!r}. Write, for example, 2019-01-01:2023-12-31.")
    return first.strip(), last.strip()


def _months(text: str | None) -> tuple[int, ...]:
    found: list[int] = []
    for part in _words(text):
        span = re.fullmatch(r"(\d{1,2})(?:\s*-\s*(\d{1,2}))?", part)
        if span is None:
            raise ConfigError(f"--months must be numbers such as 5-7 or 4,5,9; got {part!r}. Correct them.")
        first, last = int(span[1]), int(span[2] or span[1])
        found += range(first, last + 1) if first <= last else [*range(first, 13), *range(1, last + 1)]
    return tuple(dict.fromkeys(found))


def _limits(option: str, text: str | None) -> tuple[float | None, float | None] | None:
    if text is None:
        return None
    least, colon, most = text.partition(":")
    try:
        if not colon:
            raise ValueError
        low, high = (float(part) if part.strip() else None for part in (least, most))
    except ValueError:
        raise ConfigError(
            f"{option} must be LEAST:MOST; got {text!r}. Write, for example, {option} 0:6 or :6."
        ) from None
    return low, high


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[str, int, int | None], None] | None]:
    """Show how far it is, on a terminal only."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<13}"), BarColumn(), TextColumn("{task.fields[amount]}"))
    bar = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True))
    tasks: dict[str, Any] = {}

    def show(stage: str, done: int, total: int | None) -> None:
        if stage not in tasks:
            tasks[stage] = bar.add_task(stage, total=total, amount="")
        amount = f"{done:,} rows" if stage == "writing" else f"{done / 1e9:.2f} GB" if done else ""
        bar.update(tasks[stage], completed=done, total=total, amount=amount)

    with bar:
        yield show
