"""Reports: one page that parses, needs nothing from outside, and shows text literally."""

import base64
import os
from html.parser import HTMLParser

import pytest
from matplotlib.figure import Figure

from hotvae.errors import ConfigError, DataError
from hotvae.report.demo_page import Report, write_text

VOID = {"meta", "img", "br", "hr", "link", "input"}


class Page(HTMLParser):
    """Checks that tags close in order, and collects text, links and table cells."""

    def __init__(self, text):
        super().__init__()
        self.open, self.text, self.links, self.cells, self.tags = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.links += [value for name, value in attributes if name in ("src", "href", "srcset", "data")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)
        if self.open and self.open[-1] in ("td", "th"):
            self.cells.append((self.open[-1], data))


def small_figure():
    figure = Figure(figsize=(2, 1))
    figure.subplots().plot([0, 1], [1, 0])
    return figure


def full_report():
    return (
        Report("Wrens & <owls>")
        .add_heading("A < B")
        .add_text('first <script>alert("x")</script>\n\nsecond', soft=True)
        .add_table(["name", "value"], [["<b>", 0.12345], ["a & b", 2]], caption="5 < 6", best=[(0, 1)])
        .add_figure(small_figure(), caption='say "cheese"')
        .add_code("hotvae predict a > b")
        .add_footer("the <end>")
    )


def test_report__hostile_text__is_shown_literally():
    page = Page(full_report().html())
    shown = "".join(page.text)
    for text in ("Wrens & <owls>", "A < B", 'first <script>alert("x")</script>', "5 < 6", "a > b", "the <end>"):
        assert text in shown
    assert not any(tag in ("script", "b") for tag, _ in page.tags)
    assert dict(page.tags)["img"]["alt"] == 'say "cheese"'


def test_report__everything__needs_no_network():
    text = full_report().html()
    page = Page(text)
    assert len(page.links) == 1
    assert all(link.startswith("data:image/png;base64,") for link in page.links)
    assert "http" not in text.replace(page.links[0], "")
    assert base64.b64decode(page.links[0].partition(",")[2]).startswith(b"\x89PNG")


def test_report__table__aligns_numbers_and_marks_the_best():
    page = Page(full_report().html())
    assert page.cells == [
        ("th", "name"), ("th", "value"), ("td", "<b>"), ("td", "0.123"), ("td", "a & b"), ("td", "2")
    ]  # fmt: skip
    classes = [attributes.get("class") for tag, attributes in page.tags if tag in ("td", "th")]
    assert classes == [None, "number", None, "number best", None, "number"]


def test_report__paragraphs__are_divided_by_empty_lines():
    page = Page(Report("t").add_text("one\n\n\n two \n\n").html())
    assert [tag for tag, _ in page.tags if tag == "p"] == ["p", "p"]
    assert "two" in page.text


def test_report__ragged_table__is_refused():
    with pytest.raises(DataError, match=r"every row must have 2 cells like the header; got 1 \(row 1\)"):
        Report("t").add_table(["a", "b"], [[1, 2], [3]])


def test_report__same_content__gives_the_same_file(tmp_path):
    first, second = (full_report().write(tmp_path / name) for name in ("a.html", "b.html"))
    assert first.read_bytes() == second.read_bytes()


def test_report_write__existing_file__is_replaced_and_nothing_is_left_behind(tmp_path):
    target = tmp_path / "deep" / "report.html"
    Report("old").write(target)
    assert Report("new").write(target) == target
    assert "<title>new</title>" in target.read_text(encoding="utf-8")
    assert [path.name for path in target.parent.iterdir()] == ["report.html"]


def test_report_write__failure_half_way__keeps_the_old_file(tmp_path, monkeypatch):
    target = Report("old").write(tmp_path / "report.html")
    before = target.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ConfigError, match=r"path must be a place one can write to; got .*No space left"):
        Report("new").write(target)
    assert target.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_report_write__other_ending__is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"path must end in \.html; got 'report\.pdf'"):
        Report("t").write(tmp_path / "report.pdf")


def test_write_text__folder_is_a_file__says_so(tmp_path):
    (tmp_path / "taken").write_text("x")
    with pytest.raises(ConfigError, match=r"path must be a place one can write to; got .*note\.txt"):
        write_text(tmp_path / "taken" / "note.txt", "wren")


def test_report__sentences_in_a_table__keep_a_least_width():
    page = Page(Report("t").add_table(["a", "b"], [["x" * 25, "y"], ["z", "y"]]).html())
    classes = [attributes.get("class") for tag, attributes in page.tags if tag in ("td", "th")]
    assert classes == ["long", None] * 3
