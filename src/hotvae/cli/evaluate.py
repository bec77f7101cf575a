"""``hotvae evaluate``: how well predictions agree with what was observed."""

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hotvae.cli import options as opt
from hotvae.cli.printing import print_json, print_measures
from hotvae.config import MOST_SEED


def evaluate(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="Folder of a trained model; or a file of any model's predictions: a table with a column of "
            "probabilities per label, or npz with label_names, and probs (sites × labels) or draws "
            "(draws × sites × labels).",
        ),
    ],
    table: opt.ModelTable,
    label_table: opt.LabelTable = None,
    id_column: opt.IdColumn = None,
    presence: opt.Presence = False,
    long: opt.Long = None,
    sites: opt.Sites = None,
    sheet: opt.Sheet = None,
    oracle: Annotated[
        bool, typer.Option("--oracle", help="Also show thresholds chosen on these very rows: an upper bound.")
    ] = False,
    per_label: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a table with one row per label.")
    ] = None,
    ecology: Annotated[
        str | None,
        typer.Option(
            metavar="DIALECT",
            help="Also the 12 ecological measures (20 numbers) as defined by gomes, norberg or text.",
        ),
    ] = None,
    draws: Annotated[
        int, typer.Option(metavar="N", min=2, max=opt.MOST_DRAWS, help="Communities drawn for --ecology.")
    ] = 100,
    pairs: Annotated[
        int, typer.Option(metavar="N", min=1, max=opt.MOST_DRAWS, help="Pairs of sites compared for --ecology.")
    ] = 300,
    seed: Annotated[int, typer.Option(metavar="N", min=0, max=MOST_SEED, help="Seed of these draws and pairs.")] = 0,
    ignore_unknown: opt.IgnoreUnknown = False,
    encoding: opt.Encoding = "utf-8",
    decimal: opt.Decimal = ".",
    safe_csv: opt.SafeCsv = False,
    force: opt.Force = False,
    as_json: opt.Json = False,
) -> None:
    """Compare predictions with known labels, at the thresholds chosen in training."""
    from hotvae.jobs.evaluate import evaluate_table

    found = evaluate_table(
        source,
        table,
        label_table=label_table,
        id_column=id_column,
        presence=presence,
        long=long,
        sites=sites,
        sheet=sheet,
        oracle=oracle,
        per_label=per_label,
        ecology=ecology,
        draws=draws,
        pairs=pairs,
        seed=seed,
        ignore_unknown=ignore_unknown,
        encoding=encoding,
        decimal=decimal,
        safe_csv=safe_csv,
        force=force,
    )
    metrics = found.metrics
    if as_json:
        print_json(
            {
                "model": str(source),
                "table": table.name,
                "same_name_as_training_table": found.same_name,
                "thresholds_from": found.thresholds_from,
                "metrics": metrics,
            }
            | ({} if found.oracle is None else {"oracle": found.oracle})
            | ({} if found.ecology is None else {"ecology": found.ecology})
        )
        return
    size = f"{metrics['n_rows']} rows × {metrics['n_labels']} labels"
    print(f"{table.name}: {size}; thresholds {found.thresholds_from}")
    print_measures(metrics, found.oracle)
    print(f"rows without any label in ebF1: empty={metrics['empty']!r}")
    print(f"labels without AUC, for want of a class: {metrics['n_labels_without_auc']} of {metrics['n_labels']}")
    if oracle:
        print("oracle: thresholds chosen on these very rows, an upper bound that new data will not reach")
    if found.ecology is not None:
        _print_ecology(found.ecology)
    if found.same_name:
        print("note: the training table had this name; a model looks better than it is on its training rows")
    if per_label is not None:
        print(f"wrote {per_label}")


def _print_ecology(found: Mapping[str, Any]) -> None:
    """Print the ecological numbers, a level in each row."""
    from rich.console import Console
    from rich.table import Table

    from hotvae.metrics.ecology import MEASURES

    grid = Table("level", box=None, pad_edge=False)
    aspects = list(dict.fromkeys(measure.aspect for measure in MEASURES.values()))
    better = {measure.aspect: "higher" if measure.greater_is_better else "lower" for measure in MEASURES.values()}
    for aspect in aspects:
        grid.add_column(f"{aspect}\n({better[aspect]} is better)", justify="right", no_wrap=True)
    rows: dict[str, list[str]] = {}
    for name, measure in MEASURES.items():
        level = measure.level + (f" ({measure.component})" if measure.component else "")
        value = found["measures"][name]["value"]
        rows.setdefault(level, []).append("-" if math.isnan(value) else f"{value:.4f}")
    for level, values in rows.items():
        grid.add_row(level, *values)
    print(f"\necological measures, dialect {found['dialect']!r} (comparable with {found['comparable_with']})")
    Console(width=None if sys.stdout.isatty() else 100).print(grid)
    print(f"{found['n_sites']} sites × {found['n_species']} species, {found['n_pairs']} pairs of sites")
    print(f"{found['n_draws']} draws: {found['draws']} (seed {found['seed']})")
    print("sor: dissimilarity of two sites; sim: its part by other species; sne: its part by fewer species")
