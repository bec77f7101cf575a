"""The site: its notebooks hold what they print, fast ones run, its links are followed."""

import importlib.util
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks__stored__were_run_to_the_end_without_an_error(path):
    nbformat = pytest.importorskip("nbformat")
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert outputs
    assert not [output for output in outputs if output.output_type == "error"]
    assert "/tmp/" not in path.read_text(encoding="utf-8")  # no folder of the machine it ran on
    assert path.stat().st_size < 600_000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["own_encoder", "texts_and_molecules"])
def test_notebooks__fast_ones__run_and_print_what_is_stored(name, monkeypatch):
    for package in ("nbclient", "ipykernel"):
        pytest.importorskip(package)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    import nbformat

    path = ROOT / "docs" / "tutorials" / f"{name}.ipynb"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the kernel's own machinery
        again = script("notebooks").run(path)

    def printed(book):
        return [o.text for cell in book.cells for o in cell.get("outputs", []) if o.output_type == "stream"]

    assert printed(again) == printed(nbformat.read(path, as_version=4))


def test_check_links__dead_file_dead_anchor_and_network__are_each_told(tmp_path):
    pages = {
        "index.html": '<h1 id="top"></h1><a href="b.html#here">x</a><a href="#top">x</a><a href="https://example.org">x</a>',
        "b.html": '<p id="here"></p><a href="gone.html">x</a><a href="index.html#gone">x</a>'
        '<script src="https://example.org/a.js"></script><img src="data:image/png;base64,AA">',
    }
    for name, text in pages.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = script("check_links").problems(tmp_path)
    assert found == [
        "b.html leads to gone.html, which is not there",
        "b.html leads to index.html#gone, which has no such anchor",
        "b.html loads https://example.org/a.js from a network",
    ]


def test_tidy__times_memory_and_colours__are_not_stored():
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbclient")
    text = (
        "trained HOT-VAE on t.csv in 9.1 s\nrows        95\nmemory      0.58 GB at most\n\x1b[1mvalue\x1b[0m in 2 s\n"
    )
    (kept,) = script("notebooks").tidy([nbformat.v4.new_output("stream", text=text)])
    assert kept.text == "trained HOT-VAE on t.csv\nrows        95\nvalue in 2 s\n"


def test_roles__docstrings__become_code():
    pytest.importorskip("griffe")
    plain = script("roles").plain
    assert plain("see :class:`~hotvae.data.Dataset`, :func:`hotvae.evaluate`") == "see `Dataset`, `hotvae.evaluate`"
    assert plain(r"a :math:`\sum_i p_i`") == r"a `\sum_i p_i`"


def test_run_r__blocks__are_replaced_with_what_they_print(monkeypatch):
    pytest.importorskip("nbclient")
    notebooks = script("notebooks")
    page = "# R\n\n```r\nx <- 1\n```\n\nand\n\n```r\nx\n```\n\n```text\nold\n```\n"

    class Done:
        returncode, stdout, stderr = 0, f"{notebooks._MARK}\n[1] 1\n{notebooks._MARK}\n", ""

    monkeypatch.setattr(notebooks.subprocess, "run", lambda *_, **__: Done)
    assert notebooks.run_r(page) == "# R\n\n```r\nx <- 1\n```\n\nand\n\n```r\nx\n```\n\n```text\n[1] 1\n```\n"
