"""A report as one HTML file that needs nothing else: no network, no scripts, pictures inside.

It opens from disk, reads on a phone, follows the reader's light or dark setting, and prints.
"""

from __future__ import annotations

import base64
import html
import io
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

from matplotlib.figure import Figure

from hotvae.errors import ConfigError, DataError

DOTS_PER_INCH = 144
"""Resolution of pictures: sharp on a phone, small in a file."""

_STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --paper: #ffffff; --soft: #59636b; --line: #d9dee3;
  --band: #f4f6f8; --accent: #0b63a5; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ea; --paper: #16191d; --soft: #9aa4ad;
  --line: #343b43; --band: #1f242a; --accent: #7cc0f5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1.2rem; color: var(--ink); background: var(--paper);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .6rem 0; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .4rem; padding-top: .8rem; border-top: 1px solid var(--line); }
p { margin: .6rem 0; max-width: 46rem; }
.soft, figcaption, footer { color: var(--soft); font-size: .9rem; }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: .32rem .7rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
thead th { border-bottom: 2px solid var(--ink); white-space: nowrap; }
tbody tr:nth-child(even) { background: var(--band); }
.number { text-align: right; white-space: nowrap; }
.long { min-width: 12rem; }
.best { font-weight: 700; color: var(--accent); }
figure { margin: 1rem 0; }
figure .wide { margin: 0; }
img { display: block; width: 100%; height: auto; background: #fff; border: 1px solid var(--line);
  border-radius: 6px; }
figcaption { padding-top: .4rem; max-width: 46rem; }
pre { overflow-x: auto; padding: .7rem 1rem; background: var(--band); border-radius: 6px; font-size: .9rem; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: .6rem; }
@media print { body { max-width: none; } h2 { break-after: avoid; } figure, table { break-inside: avoid; } }
"""


class Report:
    """Parts one below the other, written as one self-contained page.

    Text is always taken literally: ``<`` and ``&`` in it are shown as such.

    Parameters
    ----------
    title : str
        Heading and title of the page.

    Examples
    --------
    >>> report = Report("Birds & bees").add_heading("Table").add_table(["name", "maF1"], [["A < B", 0.5]])
    >>> "Birds &amp; bees" in report.html(), "A &lt; B" in report.html()
    (True, True)
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self._parts: list[str] = []
        self._footer = ""

    def add_heading(self, text: str) -> Self:
        """Begin a section."""
        self._parts.append(f"<h2>{html.escape(text)}</h2>")
        return self

    def add_text(self, text: str, *, soft: bool = False) -> Self:
        """Add a paragraph; empty lines divide paragraphs.

        Parameters
        ----------
        text : str
            What to say.
        soft : bool
            In small grey print.
        """
        opening = '<p class="soft">' if soft else "<p>"
        self._parts += [f"{opening}{html.escape(part.strip())}</p>" for part in text.split("\n\n") if part.strip()]
        return self

    def add_code(self, text: str) -> Self:
        """Add lines to type, as they are."""
        self._parts.append(f"<pre><code>{html.escape(text)}</code></pre>")
        return self

    def add_footer(self, text: str) -> Self:
        """Say at the end of the page where it comes from."""
        self._footer = html.escape(text)
        return self

    def add_table(
        self,
        header: Sequence[str],
        rows: Iterable[Sequence[object]],
        *,
        caption: str = "",
        best: Iterable[tuple[int, int]] = (),
    ) -> Self:
        """Add a table.

        Parameters
        ----------
        header : sequence of str
            Names of the columns.
        rows : iterable of sequences
            Cells: floats are shown with three decimals, everything else as text.
        caption : str
            Said below the table.
        best : iterable of (row, column)
            Cells to set off, counted from 0.

        Raises
        ------
        DataError
            A row that is longer or shorter than the header.
        """
        table = [list(row) for row in rows]
        wrong = [number for number, row in enumerate(table) if len(row) != len(header)]
        if wrong:
            raise DataError(
                f"every row must have {len(header)} cells like the header; got {len(table[wrong[0]])} (row {wrong[0]})."
            )
        chosen = set(best)
        numeric = [bool(table) and all(_is_number(row[column]) for row in table) for column in range(len(header))]

        # Without a least width a phone squeezes sentences into a column of single words.
        long = [any(len(str(row[column])) > 24 for row in table) for column in range(len(header))]

        def cell(tag: str, value: object, column: int, marked: bool = False) -> str:
            roles = {"number": numeric[column], "long": long[column], "best": marked}
            classes = " ".join(name for name, holds in roles.items() if holds)
            text = f"{value:.3f}" if isinstance(value, float) else str(value)
            opening = f'{tag} class="{classes}"' if classes else tag
            return f"<{opening}>{html.escape(text)}</{tag}>"

        head = "".join(cell("th", name, column) for column, name in enumerate(header))
        body = "\n".join(
            "<tr>"
            + "".join(cell("td", value, column, (number, column) in chosen) for column, value in enumerate(row))
            + "</tr>"
            for number, row in enumerate(table)
        )
        # Beside the table, not in it: on a phone the table is scrolled and the caption is not.
        said = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
        self._parts.append(
            f'<figure><div class="wide"><table><thead><tr>{head}</tr></thead>\n'
            f"<tbody>\n{body}\n</tbody></table></div>{said}</figure>"
        )
        return self

    def add_figure(self, figure: Figure, *, caption: str, description: str = "") -> Self:
        """Add a matplotlib figure as a picture inside the page.

        Parameters
        ----------
        figure : Figure
            Drawn on white, so that it stays legible on a dark page.
        caption : str
            Said below the picture.
        description : str
            For readers who cannot see it; default: the caption.
        """
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=DOTS_PER_INCH, facecolor="white", metadata={"Software": None})
        width = round(figure.get_figwidth() * 96)
        # On a narrow screen a wide picture is scrolled rather than shrunk beyond reading.
        self._parts.append(
            f'<figure style="max-width:{width}px"><div class="wide">'
            f'<img style="min-width:{round(width * 0.62)}px" '
            f'alt="{html.escape(description or caption)}" '
            f'src="data:image/png;base64,{base64.b64encode(picture.getvalue()).decode("ascii")}"></div>'
            f"<figcaption>{html.escape(caption)}</figcaption></figure>"
        )
        return self

    def html(self) -> str:
        """Return the page as text."""
        title = html.escape(self.title)
        parts = "\n".join(self._parts)
        footer = f"<footer>{self._footer}</footer>\n" if self._footer else ""
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{parts}\n{footer}"
            "</body>\n</html>\n"
        )

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the page, whole or not at all.

        Parameters
        ----------
        path : path-like
            Ends in ``.html``; its folder is made if needed, an older file is replaced.

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
        write_text(target, self.html())
        return target


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file, whole or not at all.

    Parameters
    ----------
    path : path-like
        The file; its folder is made if needed, an older file is replaced.
    text : str
        What to write, in UTF-8.

    Raises
    ------
    ConfigError
        A place that cannot be written to.

    Examples
    --------
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_text(folder / "a" / "note.txt", "wren")
    >>> (folder / "a" / "note.txt").read_text()
    'wren'
    """
    target = Path(path)
    partial: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
        partial = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.chmod(0o644)
        os.replace(partial, target)
    except OSError as error:
        raise ConfigError(
            f"path must be a place one can write to; got {str(target)!r} ({error.strerror or error}). "
            "Choose another folder."
        ) from error
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)


def _is_number(value: object) -> bool:
    if isinstance(value, (int, float)):
        return not isinstance(value, bool)
    text = str(value).replace("−", "-").replace(",", "").strip()
    try:
        float(text)
    except ValueError:
        return text in ("", "–")
    return True
