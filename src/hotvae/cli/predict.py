"""``hotvae predict``: probabilities of a model for new rows, written to a file."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from hotvae.cli import options as opt
from hotvae.cli.printing import counted, print_json
from hotvae.config import MOST_THREADS


def predict(
    model_folder: opt.ModelFolder,
    table: opt.ModelTable,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Probabilities: .csv, .tsv or .parquet.")],
    binary: Annotated[
        str | None,
        typer.Option(
            "--binary",
            "--labels-at",
            metavar="METRIC",
            help="Also write 0/1 labels at the threshold tuned for METRIC.",
        ),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(metavar="T", help="Instead, write 0/1 labels at this threshold.")
    ] = None,
    best_list: Annotated[
        str | None,
        typer.Option(
            "--list",
            metavar="OBJECTIVE",
            help="Also write, as 0/1, the list of labels of each row that is best for OBJECTIVE: hamming, f1, jaccard, "
            "subset (the likeliest whole set), or a measure with a tuned threshold.",
        ),
    ] = None,
    empty: Annotated[
        int, typer.Option(metavar="1|0", help="What an empty list counts where no label is present; for f1, jaccard.")
    ] = 1,
    draws: Annotated[
        int, typer.Option(metavar="N", min=1, max=opt.MOST_DRAWS, help="Draws of whole label sets that decide lists.")
    ] = 200,
    given: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Labels known beforehand, in columns named as in training: 1, 0, or empty for unknown. "
            "Joined by the id column where it has one, else row by row.",
        ),
    ] = None,
    ignore_unknown: opt.IgnoreUnknown = False,
    id_column: opt.IdColumn = None,
    long: opt.Long = None,
    sheet: opt.Sheet = None,
    encoding: opt.Encoding = "utf-8",
    decimal: opt.Decimal = ".",
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=MOST_THREADS, help="CPU threads; by default as in training.")
    ] = None,
    trust: Annotated[
        bool,
        typer.Option(
            "--trust",
            help="Also write how far each row is from training, and beside FILE which labels can be called.",
        ),
    ] = False,
    safe_csv: opt.SafeCsv = False,
    ray: opt.Ray = None,
    force: opt.Force = False,
    as_json: opt.Json = False,
) -> None:
    """Write the probability of every label for every row, alone or given that some labels are known."""
    from hotvae.errors import ConfigError
    from hotvae.jobs.predict import BestLists, predict_table
    from hotvae.scale.items import items_on

    if given is not None and "=" in given.name and not given.exists():
        raise ConfigError(
            f"--given must be a table of known labels, row by row; got {str(given)!r}. Write a table with a column "
            f"named {given.name.partition('=')[0]!r} (1, 0 or empty), or say it of a map: hotvae map --given LABEL=1."
        )
    with items_on(ray) as each, counted("rows", silent=not sys.stderr.isatty()) as progress:
        found = predict_table(
            model_folder,
            table,
            out,
            binary=binary,
            threshold=threshold,
            lists=None if best_list is None else BestLists(best_list, empty, draws),
            given=given,
            ignore_unknown=ignore_unknown,
            id_column=id_column,
            long=long,
            sheet=sheet,
            encoding=encoding,
            decimal=decimal,
            threads=threads,
            trust=trust,
            safe_csv=safe_csv,
            force=force,
            progress=progress,
            each=each,
        )
    counts = {"n_labels_given": found.n_given, "n_rows_given": found.n_rows_given}
    if as_json:
        print_json(
            {
                "files": [str(path) for path in found.files],
                "n_rows": found.n_rows,
                "n_labels": found.n_labels,
                "id_column": found.id_column,
                "threshold": found.threshold,
                "n_rows_outside_training": found.n_outside,
            }
            | ({} if given is None else {"given": counts})
            | ({} if found.lists is None else {"list": asdict(found.lists)})
        )
        return
    print(f"wrote {found.n_rows} rows × {found.n_labels} labels to {found.files[0]}")
    if given is not None:
        print(f"given {found.n_given} labels in {found.n_rows_given} of {found.n_rows} rows")
    if found.threshold is not None:
        print(f"wrote 0/1 labels at threshold {found.threshold:g} to {found.files[1]}")
    if found.lists is not None:
        counts_empty = f"an empty list where no label is present counts {found.lists.empty}"
        print(f"wrote lists that are best for {found.lists.objective} to {found.files[-1]} ({counts_empty})")
    if trust:
        print(f"{found.n_outside} of {found.n_rows} rows are unlike all training rows")
        calls = [file for file in found.files[1:] if file.stem.partition(".")[0].endswith("_calls")]
        if calls:
            print(f"wrote present, absent or cannot tell at 90 % to {calls[0]}")
