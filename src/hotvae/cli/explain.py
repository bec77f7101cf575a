"""The explain command: a saved model and a table become one page to read."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hotvae.errors import ConfigError

if TYPE_CHECKING:
    from hotvae.estimators.base import LabelClassifier
    from hotvae.report import PageRows


def register(app: typer.Typer) -> None:
    """Add the command to the command line.

    Parameters
    ----------
    app : typer.Typer
        Gets one command.

    Examples
    --------
    >>> app = typer.Typer()
    >>> register(app)
    >>> [command.name for command in app.registered_commands]
    ['explain']
    """
    app.command("explain")(_explain)


def _explain(
    model_folder: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a trained model.")],
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
        typer.Option(metavar="N", min=20, help="Rows asked about for associations: more is slower and surer."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    label_table: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Second table with the labels, joined by the id column.")
    ] = None,
    id_column: Annotated[str | None, typer.Option(help="Column of row ids; by default the one of training.")] = None,
    presence: Annotated[
        bool, typer.Option("--presence", help="Labels are counts: take any above 0 as 1 (as in training).")
    ] = False,
    ignore_unknown: Annotated[
        bool, typer.Option("--ignore-unknown", help="Pass over columns that training did not know.")
    ] = False,
    encoding: Annotated[str, typer.Option(help="Encoding of text files.")] = "utf-8",
    decimal: Annotated[str, typer.Option(help="Decimal mark of text files.")] = ".",
    seed: Annotated[int, typer.Option(min=0, help="Decides which rows and resamples are drawn.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace a page that is there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """Explain a model on one page: measures, maps, which labels go together and where, response curves."""
    if out is None:
        raise ConfigError("out must name the page; got none. Pass --out report.html.")
    if out.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"output must end in .html; got {out.name!r}. Rename it.")
    if out.exists() and not force:
        raise ConfigError(f"output must be a new file; got {str(out)!r}, which exists. Pass --force to replace it.")

    from hotvae.estimators.registry import load_model
    from hotvae.report import gather_content, write_page

    model = load_model(model_folder)
    if model.target_ != "labels":
        raise ConfigError(f"model must predict labels; got one of classes ({model_folder}). Explain it from Python.")
    if table is None:
        page_rows = _named_rows(model)
    else:
        page_rows = _table_rows(
            model,
            table,
            label_table=label_table,
            id_column=id_column,
            presence=presence,
            ignore_unknown=ignore_unknown,
            encoding=encoding,
            decimal=decimal,
        )

    def tell(words: str) -> None:
        if not (quiet or as_json):
            print(f"{words} ...", file=sys.stderr, flush=True)

    # Folders stay out of it: a page may travel further than they should.
    words = ["hotvae", "explain", model_folder.name, *([] if table is None else [table.name]), "--out", out.name]
    words += ["--rows", str(rows)] if rows else []
    words += ["--gradient", gradient] if gradient else []
    content = gather_content(
        model,
        page_rows,
        title=title,
        gradient=gradient,
        n_rows=rows,
        random_state=seed,
        command=shlex.join([*words, "--seed", str(seed)]),
        tell=tell,
    )
    write_page(out, content)
    network = content.data["network"]
    found = {
        "page": str(out),
        "n_rows": len(page_rows.labels),
        "n_labels": len(content.data["names"]),
        "n_associations": network.get("n_pairs"),
        "megabytes": round(out.stat().st_size / 1e6, 3),
    }
    if as_json:
        print(json.dumps(found, indent=1))
        return
    print(f"wrote {out} ({found['megabytes']:.1f} MB): {found['n_rows']} rows × {found['n_labels']} labels")
    if network.get("reason"):
        print("note: this model cannot be told labels, so the page says nothing about which go together")


def _table_rows(
    model: LabelClassifier,
    table: Path,
    *,
    label_table: Path | None,
    id_column: str | None,
    presence: bool,
    ignore_unknown: bool,
    encoding: str,
    decimal: str,
) -> PageRows:
    import numpy as np

    from hotvae.data.frames import read_frame
    from hotvae.data.tables import read_table
    from hotvae.jobs.predict import TableNeeds, model_card
    from hotvae.report import PageRows

    needs = TableNeeds.of_model(model)
    features, _ = needs.read_features(
        table, id_column=id_column, ignore_unknown=ignore_unknown, encoding=encoding, decimal=decimal
    )
    labels = needs.read_labels(
        table, label_table=label_table, id_column=id_column, presence=presence, encoding=encoding, decimal=decimal
    )
    names: tuple[str, ...] = tuple(model_card(model).get("coordinates") or ())
    places: Any = None
    if table.suffix.lower() == ".npz":
        data = read_table(table, labels=needs.labels, presence=presence or needs.presence)
        places, names = data.coordinates, tuple(data.coordinate_names)
    elif len(names) == 2:
        frame = read_frame(table, encoding=encoding, decimal=decimal)
        if all(name in frame for name in names):
            places = frame[list(names)].to_numpy(dtype=np.float64)
    return PageRows(features, labels, places, names if places is not None else (), table.name)


def _named_rows(model: LabelClassifier) -> PageRows:
    import numpy as np
    import pandas as pd

    from hotvae.data.catalog import load
    from hotvae.jobs.predict import model_card
    from hotvae.report import PageRows

    card = model_card(model)
    if not card.get("data"):
        raise ConfigError("table must be given for this model; got none. Pass a TABLE of rows it was not trained on.")
    seed = model.random_state if isinstance(model.random_state, int) else 0
    named = load(card["data"]["name"], split=card["data"]["fold"] or 0, seed=seed)
    data = named.dataset
    if card.get("settings", {}).get("coordinates_as_features"):
        data = data.with_coordinates_as_features()
    if card["dropped_labels"]:
        data = data.drop_labels(card["dropped_labels"])
    data = data.take(named.split.test)
    features: Any = data.features
    if isinstance(features, np.ndarray):
        features = pd.DataFrame(features, columns=list(data.feature_names))
    return PageRows(
        features,
        data.labels,
        data.coordinates,
        () if data.coordinates is None else tuple(data.coordinate_names),
        f"test rows of {card['data']['name']}",
    )
