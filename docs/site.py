"""What the site needs beyond Markdown: pages that stand outside docs/, and the list of decisions."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md", "security.md": "SECURITY.md"}
# Search from disk wants workers, which browsers refuse there; the theme would fetch a stand-in, we bring our own.
_WORKER = re.compile(r"https://[^\"\s]+/iframe-worker/shim")
_SOURCE = re.compile(r'href="((?!\w+:)[^"#]+)\.(?:md|ipynb)(#[^"]*)?"')
# From the root a page of docs/ is docs/page.md; on the site it stands beside the others.
_INTO_DOCS = re.compile(r"\]\(docs/")


def on_config(config: Any) -> Any:
    """List the decisions by their files; a page that the navigation does not name yet is a how-to."""
    docs = ROOT / "docs"
    named = set(_pages(config.nav))
    for part in config.nav:
        if part.get("Decisions") == "adr":
            part["Decisions"] = [f"adr/{path.name}" for path in sorted((docs / "adr").glob("*.md"))]
        if "How-to" in part:
            part["How-to"] += [path.name for path in sorted(docs.glob("*.md")) if path.name not in named]
    return config


def _pages(nav: Any) -> list[str]:
    """Return the files that a navigation names."""
    if isinstance(nav, str):
        return [nav]
    parts = nav if isinstance(nav, list) else nav.values()
    return [page for part in parts for page in _pages(part)]


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that stand at the root of the checkout."""
    for page, source in OUTSIDE.items():
        text = _INTO_DOCS.sub("](", (ROOT / source).read_text(encoding="utf-8"))
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Point to the pages above by their names on the site; what is only in the checkout is named, not linked."""
    for page, source in OUTSIDE.items():
        markdown = markdown.replace(f"](../{source}", f"]({page}")
    return re.sub(r"\[([^\]]+)\]\(\.\./(?:examples|src|paper)[^)]*\)", r"`\1`", markdown)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Load nothing from a network; links of notebooks, which are left as they are written, lead to pages."""
    return _WORKER.sub(get_relative_url("worker.js", page.url), _SOURCE.sub(r'href="\1.html\2"', output))


def on_post_template(output_content: str, **_: Any) -> str:
    """Do the same for pages without a source."""
    return _WORKER.sub("worker.js", output_content)
