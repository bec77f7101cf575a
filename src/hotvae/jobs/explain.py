"""A saved model and a table become one page to read."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hotvae.data.catalog import load
from hotvae.data.frames import read_frame
from hotvae.data.tables import read_table
from hotvae.errors import ConfigError
from hotvae.estimators.base import LabelClassifier
from hotvae.estimators.registry import load_model
from hotvae.files import check_new_file
from hotvae.jobs.page_content import gather_content
from hotvae.jobs.page_rows import PageRows
from hotvae.jobs.table_needs import TableNeeds, model_card
from hotvae.report import write_page


@dataclass(frozen=True)
class ExplainedModel:
    """What came out of :func:`explain_table`.

    Attributes
    ----------
    n_rows, n_labels : int
        Size of the table on the page.
    n_associations : int or None
        Pairs of labels that were found to go together; None for a model that cannot be given labels.
    can_be_given_labels : bool
        Whether the page says which labels go together.
    megabytes : float
        Size of the page.
    """

    n_rows: int
    n_labels: int
    n_associations: int | None
    can_be_given_labels: bool
    megabytes: float


def explain_table(
    model_folder: str | Path,
    table: str | Path | None,
    out: str | Path | None,
    *,
    gradient: str | None = None,
    rows: int | None = None,
    title: str | None = None,
    label_table: str | Path | None = None,
    id_column: str | None = None,
    long: str | None = None,
    sites: str | Path | None = None,
    presence: bool = False,
    ignore_unknown: bool = False,
    encoding: str = "utf-8",
    decimal: str = ".",
    seed: int = 0,
    force: bool = False,
    progress: Callable[[str], None] = lambda words: None,
) -> ExplainedModel:
    """Explain a saved model on one page.

    Parameters
    ----------
    model_folder : path
        Folder of a trained model.
    table : path or None
        Rows with features and labels that the model was not trained on; None for the test rows of the named data set
        it was trained on.
    out : path or None
        The page, ``.html``.
    gradient : str, optional
        Feature where the network's slider starts; by default the most important.
    rows : int, optional
        Rows that associations are computed from.
    title : str, optional
        Heading of the page.
    label_table, id_column, long, sites, presence, ignore_unknown, encoding, decimal
        Options of tables; see :mod:`hotvae.jobs.table_needs`.
    seed : int
        Decides which rows and resamples are drawn.
    force : bool
        Replace a page that is there.
    progress : callable, optional
        Called with a few words before each step.

    Returns
    -------
    ExplainedModel

    Raises
    ------
    ConfigError, DataError, ModelError
        A file, column or setting that does not fit.
    """
    if out is None:
        raise ConfigError("out must name the page; got none. Pass --out report.html.")
    folder, page = Path(model_folder), Path(out)
    source = None if table is None else Path(table)
    if page.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"output must end in .html; got {page.name!r}. Rename it.")
    check_new_file(page, force)
    model = load_model(folder)
    if model.target_ != "labels":
        raise ConfigError(
            f"model must predict labels; got one of classes ({folder}). Train one with a 0/1 column for each class."
        )
    if source is None:
        page_rows = _rows_of_named_set(model)
    else:
        page_rows = _rows_of_table(
            model,
            source,
            label_table=label_table,
            id_column=id_column,
            long=long,
            sites=sites,
            presence=presence,
            ignore_unknown=ignore_unknown,
            encoding=encoding,
            decimal=decimal,
        )
    # Folders stay out of it: a page may travel further than they should.
    words = ["hotvae", "explain", folder.name, *([] if source is None else [source.name]), "--out", page.name]
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
        tell=progress,
    )
    write_page(page, content)
    network = content.data["network"]
    return ExplainedModel(
        n_rows=len(page_rows.labels),
        n_labels=len(content.data["names"]),
        n_associations=network.get("n_pairs"),
        can_be_given_labels=not network.get("reason"),
        megabytes=round(page.stat().st_size / 1e6, 3),
    )


def _rows_of_table(
    model: LabelClassifier,
    table: Path,
    *,
    label_table: str | Path | None,
    id_column: str | None,
    long: str | None,
    sites: str | Path | None,
    presence: bool,
    ignore_unknown: bool,
    encoding: str,
    decimal: str,
) -> PageRows:
    needs = TableNeeds.of_model(model)
    text: Any = {"encoding": encoding, "decimal": decimal}
    rows, labels_of, id_column = needs.by_site(
        table, long=long, sites=sites, label_table=label_table, id_column=id_column, **text
    )
    features, _ = needs.read_features(rows, id_column=id_column, ignore_unknown=ignore_unknown, **text)
    labels = needs.read_labels(rows, label_table=labels_of, id_column=id_column, presence=presence, **text)
    names: tuple[str, ...] = tuple(model_card(model).get("coordinates") or ())
    places: Any = None
    if table.suffix.lower() == ".npz":
        data = read_table(table, labels=needs.labels, presence=presence or needs.presence)
        places, names = data.coordinates, tuple(data.coordinate_names)
    elif len(names) == 2:
        frame = read_frame(rows, **text)
        if all(name in frame for name in names):
            places = frame[list(names)].to_numpy(dtype=np.float64)
    return PageRows(features, labels, places, names if places is not None else (), table.name)


def _rows_of_named_set(model: LabelClassifier) -> PageRows:
    card = model_card(model)
    if not card.get("data"):
        raise ConfigError("table must be given for this model; got none. Pass a TABLE of rows it was not trained on.")
    seed = model.random_state if isinstance(model.random_state, int) else 0
    named = load(card["data"]["name"], split=card["data"]["fold"] or 0, seed=seed)
    data = named.dataset
    if data.coordinates is not None and set(data.coordinate_names) <= set(card["feature_names"]):
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
