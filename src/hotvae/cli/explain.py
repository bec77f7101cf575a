"""``hotvae explain``: a saved model and a table become one page to read."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from hotvae.cli import options as opt
from hotvae.cli.printing import print_json
from hotvae.config import MOST_SEED


def explain(
    model_folder: opt.ModelFolder,
    table: Annotated[
        Path | None,
        typer.Argument(
            metavar="TABLE",
            help="Rows with features and labels that the model was not trained on; "
            "left out, the test rows of the named data set it was trained on.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The page, .html. Required.")] = None,
    gradient: Annotated[
        str | None, typer.Option(metavar="FEATURE", help="Where the network's slider starts (the most important).")
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(metavar="N", min=20, help="Rows used for associations: more is slower and surer."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    label_table: opt.LabelTable = None,
    id_column: opt.IdColumn = None,
    long: opt.Long = None,
    sites: opt.Sites = None,
    presence: opt.Presence = False,
    ignore_unknown: opt.IgnoreUnknown = False,
    encoding: opt.Encoding = "utf-8",
    decimal: opt.Decimal = ".",
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Decides which rows and resamples are drawn.")] = 0,
    force: opt.Force = False,
    quiet: opt.Quiet = False,
    as_json: opt.Json = False,
) -> None:
    """Explain a model on one page: measures, maps, which labels go together and where, response curves."""
    from hotvae.jobs.explain import explain_table

    def show(words: str) -> None:
        if not (quiet or as_json):
            print(f"{words} ...", file=sys.stderr, flush=True)

    found = explain_table(
        model_folder,
        table,
        out,
        gradient=gradient,
        rows=rows,
        title=title,
        label_table=label_table,
        id_column=id_column,
        long=long,
        sites=sites,
        presence=presence,
        ignore_unknown=ignore_unknown,
        encoding=encoding,
        decimal=decimal,
        seed=seed,
        force=force,
        progress=show,
    )
    if as_json:
        print_json(
            {
                "page": str(out),
                "n_rows": found.n_rows,
                "n_labels": found.n_labels,
                "n_associations": found.n_associations,
                "megabytes": found.megabytes,
            }
        )
        return
    print(f"wrote {out} ({found.megabytes:.1f} MB): {found.n_rows} rows × {found.n_labels} labels")
    if not found.can_be_given_labels:
        print("note: this model cannot be given labels, so the page says nothing about which go together")
