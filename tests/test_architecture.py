"""The house itself: layers, public names, lazy imports, documentation that keeps up."""

import ast
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import hotvae
from hotvae.config import LossWeights, NetConfig
from hotvae.metrics import METRICS

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src" / "hotvae").rglob("*.py"))


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_imports__of_every_file__keep_to_their_layer(path):
    folder = path.relative_to(ROOT / "src" / "hotvae").parts[0].removesuffix(".py")
    names = {name.split(".")[0] for name in imports_of(path)}
    if folder in ("data", "features", "graph", "metrics", "config", "errors"):
        assert "torch" not in names
    if folder == "net":
        assert names <= {"torch", "jaxtyping", "hotvae", "dataclasses", "collections", "functools", "typing"}
    if path.name != "pickles.py":  # the one place, which refuses everything but numbers
        assert "pickle" not in names


def test_public_names__all_exist__and_are_few():
    for name in hotvae.__all__:
        assert getattr(hotvae, name).__doc__
    assert len(hotvae.__all__) <= 13
    assert dir(hotvae) == hotvae.__all__
    with pytest.raises(AttributeError, match="no attribute 'oracle'"):
        _ = hotvae.oracle


def test_import_hotvae__alone__does_not_wait_for_torch():
    check = "import hotvae, sys; assert not {'torch', 'sklearn', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_model_page__names_every_setting_and_file():
    page = (ROOT / "docs" / "model.md").read_text()
    for name in (field.name for field in fields(LossWeights)):
        assert f"`{name}`" in page
    for name in ("dim", "latent_dim", "n_layers"):
        assert hasattr(NetConfig(), name)
        assert f"`{name}`" in page
    for file in set(re.findall(r"`((?:net/|metrics/|training/)?\w+\.py)`", page)):
        assert (ROOT / "src" / "hotvae" / file).exists(), file


def test_paper_notes__referred_to_in_code__exist():
    page = (ROOT / "docs" / "paper_notes.md").read_text()
    cited = {note for path in SOURCES for note in re.findall(r"\bP\d{1,2}\b", path.read_text())}
    assert cited
    for note in cited:
        assert f"| {note} |" in page, note


def test_metrics_table__titles__are_unique():
    titles = [metric.title for metric in METRICS.values()]
    assert len(set(titles)) == len(titles)


# Pages that are written from stored results, or mostly so.
RENDERED = {"benchmarks.md", "communities.md", "performance.md"}
BY_HAND = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.name not in RENDERED),
]


def prose_of(page):
    """Numbered lines of a page without code, rendered parts, tables, and lines that are one link or picture."""
    is_prose = True
    for number, line in enumerate(page.splitlines(), 1):
        if line.startswith("```") or re.match(r"<!-- .*\b(begin|end)\b", line):
            is_prose = not is_prose
        elif is_prose and not re.match(r"\||!?\[[^]]*\]\([^)]*\)$", line):
            yield number, line


@pytest.mark.parametrize("path", BY_HAND, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_written_by_hand__wrap_at_120(path):
    assert [number for number, line in prose_of(path.read_text()) if len(line) > 120] == []


def test_decisions_that_are_overtaken__say_by_which():
    decisions = {path.name[:4]: path.read_text() for path in (ROOT / "docs" / "adr").glob("*.md")}
    retired = {number for number, text in decisions.items() if text.splitlines()[2].startswith("*Overtaken by ")}
    assert {"0009", "0010"} <= retired
    for number in retired:
        assert re.search(r"\[(\d{4})\]\(\1-[\w-]+\.md\)", decisions[number])
