"""The page writer: one self-contained HTML file from a template and what it shows.

A page opens from disk without a network, reads on a phone, follows the reader's light or dark setting, and prints. Text
is always taken literally, wherever it comes from: templates escape everything, numbers for scripts are JSON that cannot
end its element, and the page's own policy lets no script run but the one it was written with.
"""

from __future__ import annotations

import base64
import hashlib
import io
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from hotvae.errors import ConfigError
from hotvae.files import write_text
from hotvae.report.explorer import ExplorerContent

DOTS_PER_INCH = 144
"""Resolution of pictures: sharp on a phone, small in a file."""


@dataclass
class ExplainContent:
    """What the page about a model shows; every part is ready for JSON.

    Attributes
    ----------
    title : str
        Heading of the page.
    card : list of (str, str)
        What the data are.
    metrics : list of dict
        Measures with intervals: ``title``, ``value``, ``low``, ``high``, ``threshold``, ``better``, ``meaning``.
    recipe : dict
        How the model was chosen: ``lines`` of text, and ``candidates`` with ``name``, ``log_loss``, ``outcome``,
        ``weight`` and ``seconds``; empty for a model that looks for no recipe.
    settings, versions : list of (str, str)
        What it takes to repeat the model.
    command : str
        What made the page.
    warnings : list of str
        Said at the top of the page.
    data : dict
        Everything that scripts draw.
    """

    template: ClassVar[str] = "explain.html"

    title: str
    card: list[tuple[str, str]] = field(default_factory=list)
    metrics: list[dict[str, Any]] = field(default_factory=list)
    recipe: dict[str, Any] = field(default_factory=dict)
    settings: list[tuple[str, str]] = field(default_factory=list)
    versions: list[tuple[str, str]] = field(default_factory=list)
    command: str = ""
    warnings: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)


@dataclass
class DemoContent:
    """What the report of the demonstration shows.

    Attributes
    ----------
    title : str
        Heading of the page.
    n_sites, n_features, n_labels : int
        Size of the region.
    n_rows : mapping of str to int
        Sites for ``train``, ``validation`` and ``test``.
    scores : mapping
        The table of models: ``header``, ``rows`` of texts, and the ``best`` cells as (row, column).
    comparison : sequence of str
        Sentences below it.
    figures : mapping of str to Figure
        ``history``, ``reliability``, ``richness`` and ``interactions``.
    associations : sequence of sequences of str
        Pair, association, z, what it changes with, and what it is in truth.
    n_associations, n_false : int
        How many were recovered, and how many of them are none.
    interactions : sequence of sequences of str
        The true ones: what, strength, whether it shows, whether its sign is right.
    next_steps, made_by : str
        Lines for a shell, and where the page comes from.
    """

    template: ClassVar[str] = "demo.html"

    title: str
    n_sites: int
    n_features: int
    n_labels: int
    n_rows: Mapping[str, int]
    scores: Mapping[str, Any]
    comparison: Sequence[str]
    figures: Mapping[str, Figure]
    associations: Sequence[Sequence[str]]
    n_associations: int
    n_false: int
    interactions: Sequence[Sequence[str]]
    next_steps: str
    made_by: str


@dataclass
class MapPicture:
    """A picture of a map: PNG bytes, and what is said to who cannot see it."""

    png: bytes
    alt: str


@dataclass
class MapPart:
    """A part of the page of maps: what it is, in a sentence or two, its pictures, and the file they come from."""

    title: str
    text: str
    pictures: list[MapPicture]
    file: str = ""


@dataclass
class MapsContent:
    """What the page of a map shows.

    Attributes
    ----------
    title, subtitle : str
        Heading of the page, and what stands below it.
    maps : list of MapPart
        Richness, uncertainty, trust and so on.
    species : list of MapPicture
        Small pictures of single labels.
    species_text : str
        What they show.
    noun : str
        What labels are called.
    facts : list of (str, str)
        How the map was made.
    warnings : list of str
        Said at the top of the page.
    command : str
        What made the map.
    """

    template: ClassVar[str] = "maps.html"

    title: str
    subtitle: str
    maps: list[MapPart]
    species: list[MapPicture] = field(default_factory=list)
    species_text: str = ""
    noun: str = "labels"
    facts: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    command: str = ""


Content = ExplainContent | DemoContent | MapsContent | ExplorerContent
"""Any page."""


def page_html(content: Content) -> str:
    """Build a page as text.

    Parameters
    ----------
    content : ExplainContent, DemoContent, MapsContent or ExplorerContent
        What to show.

    Returns
    -------
    str
        A whole HTML document: styles, script and numbers inside.
    """
    return _templates().get_template(content.template).render(content=content)


def write_page(path: str | os.PathLike[str], content: Content) -> Path:
    """Write a page, whole or not at all.

    Parameters
    ----------
    path : path
        Ends in ``.html``; its folder is made if needed, an older file is replaced.
    content : ExplainContent, DemoContent, MapsContent or ExplorerContent
        What to show.

    Returns
    -------
    Path
        Where the page is.

    Raises
    ------
    ConfigError
        Another ending, or a place that cannot be written to.
    """
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"path must end in .html; got {target.name!r}. Rename it.")
    write_text(target, page_html(content))
    return target


@cache
def _templates() -> Environment:
    loader = PackageLoader("hotvae.report")
    templates = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    templates.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
    templates.filters |= {"number": _number, "png": _png, "sha256": _sha256}
    templates.globals["asset"] = lambda name: loader.get_source(templates, name)[0]
    return templates


def _number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def _png(picture: Figure | bytes) -> str:
    """Turn a figure into the address of a picture inside the page; on white it stays legible on a dark page."""
    drawn = picture if isinstance(picture, bytes) else png_bytes(picture)
    return "data:image/png;base64," + base64.b64encode(drawn).decode("ascii")


def png_bytes(figure: Figure, dots_per_inch: int = DOTS_PER_INCH) -> bytes:
    """Draw a figure as a PNG on white; the same figure gives the same bytes."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=dots_per_inch, facecolor="white", metadata={"Software": None})
    return picture.getvalue()


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
