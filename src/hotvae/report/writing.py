"""Content into one HTML file. Text is always taken literally, wherever it comes from."""

from __future__ import annotations

import html
import json
import math
import os
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from hotvae.errors import ConfigError
from hotvae.report.content import PageContent
from hotvae.report.demo_page import write_text

# No part of the page may ask a network for anything, whatever a label is called.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'"


# Of every section its title, and what one sees in it and what not to conclude.
_NOTES = {
    "data": (
        "The data",
        "What the numbers on this page were computed from. They hold for places and times like these; nothing here "
        "shows that they hold elsewhere.",
    ),
    "training": (
        "Training",
        "How the losses and measures went from epoch to epoch; the ring is the epoch that was kept. The height of a "
        "training loss means nothing by itself: it is a sum of several terms, and it jumps where labels begin to "
        "pass messages, which adds one. Look whether the validation curves have settled.",
    ),
    "measures": (
        "How good the predictions are",
        "Measures on the rows of this page, with 95 % intervals from resampled rows. They tell how sure a number is "
        "for rows like these; they do not know that neighbouring rows are alike, and two models are better compared "
        "row by row than by whether such intervals overlap.",
    ),
    "reliability": (
        "Can the probabilities be believed?",
        "Of all cells that were given about the same probability, the share in which the label was there. On the "
        "diagonal, 30 % means 30 %. Small dots stand for few cells; a good line over all labels can still hide one "
        "label that is badly off.",
    ),
    "labels": (
        "Label by label",
        "How often each label was found and how well it is predicted; click a heading to sort, point at it to read "
        "what it means. Numbers of labels that were found only a few times are luck as much as skill.",
    ),
    "map": (
        "On the map",
        "How many labels the model expects where, and where it expects each of them. Dots are the rows of the "
        "table, not the whole region: where there is no dot nobody looked, which does not mean that nothing is "
        "there.",
    ),
    "network": ("What goes with what, and where", ""),
    "curves": (
        "Response to the features",
        "The mean probability of a label while one feature moves through its observed range and everything else "
        "stays as it is; the band is a 95 % interval over rows. The model uses the feature in this way, which does "
        "not make the feature the cause; where features go together, a curve is partly about places that do not "
        "exist.",
    ),
    "importance": (
        "Which features matter",
        "How much worse the predictions get when a feature is shuffled between rows; thin lines span the shuffles. "
        "Features that nearly repeat each other are shuffled together. A feature without importance may still "
        "matter in nature: another one may speak for it.",
    ),
    "partition": (
        "Whose part is whose",
        "All there is to explain, once it is known how common each label is, makes 100 %: the share that the "
        "features explain, the share that half of the other labels add when they are known, and the rest. Other "
        "labels may stand in for a feature nobody measured, so their share does not measure interaction. What either "
        "of two groups of features could explain stands by itself; below 0 they say more together than apart.",
    ),
    "repeat": (
        "To repeat this",
        "Versions of the programs and settings of the model. The same table, settings and versions give the same "
        "model; another machine may differ in the last digits.",
    ),
}


def page_html(content: PageContent) -> str:
    """Build the page as text.

    Parameters
    ----------
    content : PageContent
        From :func:`~hotvae.report.gather_content`.

    Returns
    -------
    str
        A whole HTML document: styles, script and numbers inside.

    Examples
    --------
    >>> page = page_html(PageContent("Birds </script> & bees", data={"names": ["</script><b>"]}))
    >>> "<b>" in page, page.count("</script>")
    (False, 2)
    """
    sections = list(_sections(content))
    links = "".join(f'<a href="#{name}">{html.escape(title)}</a>' for name, title, _ in sections)
    body = "\n".join(
        f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{html.escape(title)}</h2>\n'
        f"{inside}</section>"
        for name, title, inside in sections
    )
    title = html.escape(content.title)
    warned = "".join(f'<p class="warning" role="note">{html.escape(text)}</p>' for text in content.warnings)
    footer = f"<p>{html.escape(content.command)}</p>" if content.command else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title}</title>\n<style>\n{_asset('page.css')}</style>\n</head>\n<body>\n"
        '<a class="skip" href="#main">To the content</a>\n'
        f'<header><h1>{title}</h1>{warned}<nav aria-label="Sections">{links}</nav></header>\n'
        '<noscript><p class="warning">Pictures and the table of labels need JavaScript, which is off.</p></noscript>\n'
        f'<main id="main">\n{body}\n</main>\n<footer>{footer}'
        "<p>Made by hotvae. Coastlines: Natural Earth, public domain.</p></footer>\n"
        f'<script type="application/json" id="content">{_json(content.data)}</script>\n'
        f"<script>\n{_asset('page.js')}</script>\n</body>\n</html>\n"
    )


def write_page(path: str | os.PathLike[str], content: PageContent) -> Path:
    """Write the page, whole or not at all.

    Parameters
    ----------
    path : path
        Ends in ``.html``; an older file is replaced.
    content : PageContent
        What to show.

    Returns
    -------
    Path

    Raises
    ------
    ConfigError
        Another ending, or a place that cannot be written to.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "page.html"
    >>> write_page(target, PageContent("Birds", data={"names": []})) == target
    True
    """
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"path must end in .html; got {target.name!r}. Rename it.")
    write_text(target, page_html(content))
    return target


def _sections(content: PageContent) -> Iterable[tuple[str, str, str]]:
    """Id, title and inside of every section that has something to show."""
    data = content.data
    insides = {
        "data": content.card and _pairs(content.card),
        "training": data.get("history") and _chart("history"),
        "measures": content.metrics and _metric_table(content.metrics),
        "reliability": data.get("reliability") and _chart("reliability"),
        "labels": data.get("labels") and _label_table(),
        "map": data.get("map") and _map_frame(),
        "network": data.get("network") and _network_section(data["network"]),
        "curves": data.get("curves") and _curve_frame(data["curves"]),
        "importance": data.get("importance") and _picker("importance-label", "Label") + _chart("importance"),
        "partition": data.get("partition") and _picker("partition-label", "Label") + _chart("partition"),
        "repeat": (content.settings or content.versions) and _repeat_frame(content),
    }
    for name, inside in insides.items():
        if inside:
            title, note = _NOTES[name]
            yield name, title, (_note(note) if note else "") + str(inside)


def _network_section(network: dict[str, Any]) -> str:
    if network.get("reason"):
        return f"<p>{html.escape(network['reason'])}</p>"
    note = _note(
        "Each line joins two labels of which one tells something about the other beyond the features: how much the "
        "probability of one changes when the other is present instead of absent, all others unknown. This is not proof "
        "that one acts on the other: a feature nobody measured looks just the same."
    )
    if not network["edges"]:
        return note + (
            f"<p>None of the {network['n_tried']:,} pairs passes the screen for chance on these rows. That is no proof "
            "that there is none: more rows see more.</p>"
        )
    shown, found = len(network["edges"]), network["n_pairs"]
    drawn = f"the {shown} strongest are kept" if shown < found else "all are kept"
    how = (
        f"<p>{found:,} of {network['n_tried']:,} pairs pass the screen for chance in at least one group of rows; "
        f"{drawn} on this page, at most 70 are drawn at a time. "
        f"The model was asked about {network['n_rows']:,} rows.</p>"
    )
    gradient = (
        '<div class="controls"><label>Along <select id="network-gradient"></select></label>'
        '<label class="grow">Position '
        '<input type="range" id="network-slider" min="0" max="1" step="1" value="0"></label>'
        '<output id="network-where" for="network-slider" aria-live="polite"></output></div>'
    )
    focus = _picker("network-label", "Look at")
    key = (
        '<p class="key"><span class="swatch together"></span> found together&ensp;<span class="swatch apart"></span> '
        "avoid each other&ensp;· wide: strong · dashed: clear over all rows, not here · small dot: no line here</p>"
    )
    changes = (
        '<p class="soft">Moving the slider uses the rows of one fifth of the gradient at a time; a line is clear '
        "there if these rows bear it out by themselves. A line also becomes thinner where one of the two labels is "
        "rare: then there is less probability to change.</p>"
    )
    parts = note + how + gradient + focus + key + _chart("network-drawing") + changes
    parts += (
        '<p class="soft" id="network-caption"></p><div class="wide">'
        '<table id="network-table" aria-describedby="network-caption"><thead></thead><tbody></tbody></table></div>'
    )
    if network["thirds"]:
        parts += (
            "<h3>Beyond pairs</h3>"
            + _note(
                "How much the second label tells about the first where a third one is missing, and where it is found. "
                "Tried only among the closest labels of the strongest pairs, and not screened against the "
                "observations: questions, not findings."
            )
            + '<div class="wide"><table id="third-table"><thead></thead><tbody></tbody></table></div>'
        )
    return parts


def _repeat_frame(content: PageContent) -> str:
    settings = f"<details><summary>All settings</summary>{_pairs(content.settings)}</details>"
    return _pairs(content.versions) + (settings if content.settings else "")


def _map_frame() -> str:
    return (
        '<div class="controls"><label>Show <select id="map-what"></select></label>'
        '<label>Label <input id="map-label" list="label-names" autocomplete="off" placeholder="type a label"></label>'
        "</div>" + _chart("map-drawing") + '<p class="soft" id="map-note" aria-live="polite"></p>'
    )


def _curve_frame(curves: dict[str, Any]) -> str:
    left = curves.get("left_out", 0)
    more = f'<p class="soft">{left} less important features are not shown.</p>' if left else ""
    return (
        '<div class="controls"><label>Feature <select id="curve-feature"></select></label>'
        + '<label>Label <input id="curve-label" list="label-names" autocomplete="off"></label></div>'
        + _chart("curve-drawing")
        + more
    )


def _label_table() -> str:
    return (
        '<div class="controls"><label class="grow">Search <input type="search" id="label-search" autocomplete="off">'
        '</label><output id="label-count" for="label-search" aria-live="polite"></output></div>'
        '<div class="wide tall" tabindex="0" role="region" aria-label="Table of labels">'
        '<table id="label-table"><thead></thead><tbody></tbody></table></div>'
        '<datalist id="label-names"></datalist>'
    )


def _picker(name: str, title: str) -> str:
    return (
        f'<div class="controls"><label>{title} <input id="{name}" list="label-names" autocomplete="off" '
        'placeholder="all labels"></label></div>'
    )


def _chart(name: str) -> str:
    return f'<div class="chart" id="{name}-chart"></div>'


def _note(text: str) -> str:
    return f'<p class="note">{html.escape(text)}</p>\n'


def _pairs(rows: Sequence[tuple[str, str]]) -> str:
    cells = "".join(f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd></div>" for name, value in rows)
    return f"<dl>{cells}</dl>"


def _metric_table(metrics: Sequence[dict[str, Any]]) -> str:
    def number(value: float | None, digits: int = 3) -> str:
        return "–" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"

    rows = []
    for metric in metrics:
        half = metric["half"]
        # No measure is below 0; a normal interval around one near it would be. In this order NaN stays NaN.
        low, high = (number(max(metric["value"] + side * half, 0.0)) for side in (-1, 1))
        cut = metric["threshold"]
        shown = f"{cut:g}" if isinstance(cut, int | float) else "per label" if cut is not None else ""
        rows.append(
            f'<tr><th scope="row">{html.escape(metric["title"])}</th><td class="number">{number(metric["value"])}</td>'
            f'<td class="number">{low} to {high}</td><td class="number">{shown}</td>'
            f'<td>{metric["better"]}</td><td class="words">{html.escape(metric["meaning"])}</td></tr>'
        )
    head = "".join(
        f'<th scope="col">{title}</th>'
        for title in ("measure", "value", "95 % interval", "threshold", "better", "what it is")
    )
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="Table of measures">'
        f"<table><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _json(data: Any) -> str:
    """JSON that no name can end early: no ``<`` is left for a tag to begin with."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character, code in (
        ("<", "\\u003c"),
        (">", "\\u003e"),
        ("&", "\\u0026"),
        ("\u2028", "\\u2028"),
        ("\u2029", "\\u2029"),
    ):
        text = text.replace(character, code)
    return text


def _asset(name: str) -> str:
    return (resources.files("hotvae.report") / name).read_text(encoding="utf-8")
