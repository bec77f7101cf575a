"""The page writer: pages that parse, need nothing from outside, and show text literally."""

import base64
import json
import re
from html.parser import HTMLParser

import pytest
from jinja2 import UndefinedError
from matplotlib.figure import Figure

from hotvae.errors import ConfigError
from hotvae.report import DemoContent, ExplainContent, page_html, write_page

VOID = {"meta", "img", "br", "hr", "link", "input"}
HOSTILE = '</script></title></style><script>alert("x")</script><img src=x onerror=alert(1)> & \'"'


class Page(HTMLParser):
    """Checks that tags close in order, and collects text, links, table cells and their classes."""

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
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)
        if self.open and self.open[-1] in ("td", "th"):
            attributes = next(attributes for tag, attributes in reversed(self.tags) if tag == self.open[-1])
            self.cells.append((data, attributes.get("class", "")))

    def count(self, wanted):
        return sum(tag == wanted for tag, _ in self.tags)


def small_figure(title=""):
    figure = Figure(figsize=(2, 1))
    figure.subplots().set_title(title)
    return figure


def demo_content(text=HOSTILE, **changes):
    content = {
        "title": text,
        "n_sites": 1200,
        "n_features": 7,
        "n_labels": 2,
        "n_rows": {"train": 360, "validation": 120, "test": 720},
        "scores": {"header": ["model", text], "rows": [[text, "0.500"], ["b", "0.400"]], "best": [(0, 1)]},
        "comparison": [text],
        "figures": {name: small_figure() for name in ("history", "reliability", "richness", "interactions")},
        "associations": [[text] * 5],
        "n_associations": 1,
        "n_false": 0,
        "interactions": [[text, "+1.00", "✓", "✗"], ["b", "+1.00", "–", "–"]],
        "next_steps": f"hotvae predict {text} > b",
        "made_by": text,
    }
    return DemoContent(**content | changes)


def explain_content(text=HOSTILE):
    metric = {"title": text, "value": float("nan"), "low": None, "high": 0.25, "threshold": text, "better": text}
    names = ["a", text]
    network = {"n_pairs": 1, "n_tried": 1, "n_rows": 1200, "edges": [[0, 1]], "thirds": [[0, 1, 0, 0.1, 0.2]]}
    return ExplainContent(
        text,
        card=[(text, text)],
        metrics=[metric | {"meaning": text}],
        recipe={
            "lines": [text],
            "candidates": [{"name": text, "log_loss": 0.25, "outcome": text, "weight": 0.5, "seconds": 1.26}],
        },
        settings=[(text, text)],
        versions=[(text, text)],
        command=text,
        warnings=[text],
        data={
            "names": names,
            "history": {"series": [{"title": text}]},
            "reliability": {"predicted": [0.5]},
            "labels": {"rows": [[text]]},
            "map": {"names": names},
            "network": network,
            "curves": {"features": [{"name": text}], "left_out": 3},
            "importance": {"groups": names},
            "partition": {"parts": names},
        },
    )


CONTENTS = pytest.mark.parametrize("content", [demo_content, explain_content])


# --- text is text ----------------------------------------------------------------------------------------


@CONTENTS
def test_page_html__hostile_text_everywhere__is_shown_literally(content):
    page, harmless = (Page(page_html(content(text))) for text in (HOSTILE, "Wren"))
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in harmless.tags]
    assert [sorted(attributes) for _, attributes in page.tags] == [sorted(names) for _, names in harmless.tags]
    assert "".join(page.text).replace(HOSTILE, "Wren") == "".join(harmless.text)
    assert "".join(harmless.text).count("Wren") > 8
    assert page.count("script") == (2 if content is explain_content else 0)


@pytest.mark.parametrize("text", ["</script>", "<!--", "<script", "]]>", "\u2028\u2029", "é ✓ 😀", "{{ 7 * 7 }}", "\\"])
def test_page_html__numbers_for_scripts__cannot_end_their_element(text):
    page = page_html(ExplainContent("t", data={"names": [text]}))
    inside = re.search(r'<script type="application/json" id="content">(.*?)</script>', page, re.DOTALL).group(1)
    assert not set("<>&'") & set(inside)
    assert json.loads(inside) == {"names": [text]}
    assert "49" not in inside


def test_page_html__template_language_in_a_name__is_no_template():
    page = page_html(demo_content("{{ 7 * 7 }}{% raw %}"))
    assert "{{ 7 * 7 }}{% raw %}" in page


@CONTENTS
def test_page_html__everything__needs_no_network(content):
    text = page_html(content())
    page = Page(text)
    pictures = [link for link in page.links if not link.startswith("#")]
    assert len(pictures) == (4 if content is demo_content else 0)
    for link in pictures:
        assert base64.b64decode(link.removeprefix("data:image/png;base64,")).startswith(b"\x89PNG")
    assert set(re.findall(r"https?://[^\s\"'<)]+", text)) <= {"http://www.w3.org/2000/svg"}
    policy = next(a["content"] for tag, a in page.tags if tag == "meta" and "http-equiv" in a)
    assert policy.startswith("default-src 'none'")
    assert "script-src 'unsafe-inline'" not in policy
    assert ("script-src 'sha256-" in policy) == (content is explain_content)


def test_page_html__no_value_for_a_place__is_an_error():
    with pytest.raises(UndefinedError):
        page_html(demo_content(figures={}))


# --- what is where ---------------------------------------------------------------------------------------


def test_demo_page__tables__align_numbers_mark_the_best_and_keep_sentences_wide():
    cells = Page(page_html(demo_content("wren"))).cells
    assert cells[:6] == [
        ("model", ""), ("wren", "number"),
        ("wren", "long"), ("0.500", "number best"),
        ("b", "long"), ("0.400", "number"),
    ]  # fmt: skip
    assert ("in truth", "") in cells
    assert cells[cells.index(("in truth", "")) + 4 :][:2] == [("wren", "long"), ("wren", "long")]


def test_demo_page__counts__are_those_of_the_tables():
    text = " ".join("".join(Page(page_html(demo_content("wren"))).text).split())
    assert "1,200 invented sites with 7 environmental layers" in text
    assert "1 of the 2 true interactions show, 0 with the right sign" in text
    assert "Wren." in text  # a comparison begins like a sentence


def test_explain_page__sections__stand_only_where_there_is_something_to_show():
    page = Page(page_html(ExplainContent("t", card=[("rows", "9")], data={"names": [], "network": {"reason": "why"}})))
    assert [link for link in page.links if link != "#main"] == ["#data", "#network"]
    assert page.count("section") == 2
    full = page_html(explain_content("wren"))
    assert Page(full).count("section") == 12
    assert " ".join(full.split()).count("1 of 1 pairs pass the screen for chance") == 1
    assert "Not shown, as less important: 3 features." in full
    assert ("–", "number") in Page(full).cells
    assert ("– to 0.250", "number") in Page(full).cells


def test_explain_page__no_pair_found__says_that_this_is_no_proof():
    network = {"n_pairs": 0, "n_tried": 1176, "n_rows": 9, "edges": [], "thirds": []}
    page = page_html(ExplainContent("t", data={"names": [], "network": network}))
    assert "None of the 1,176 pairs passes the screen" in page
    assert 'id="network-slider"' not in page


# --- files -----------------------------------------------------------------------------------------------


def test_write_page__same_content__gives_the_same_file(tmp_path):
    first, second = (write_page(tmp_path / name, demo_content()) for name in ("a.html", "b.html"))
    assert first.read_bytes() == second.read_bytes()


def test_write_page__existing_file__is_replaced_and_nothing_is_left_behind(tmp_path):
    target = tmp_path / "deep" / "report.html"
    write_page(target, ExplainContent("old"))
    assert write_page(target, ExplainContent("new")) == target
    assert "<title>new</title>" in target.read_text(encoding="utf-8")
    assert [path.name for path in target.parent.iterdir()] == ["report.html"]


def test_write_page__wrong_place__says_so_and_leaves_nothing(tmp_path):
    with pytest.raises(ConfigError, match=r"path must end in \.html; got 'page\.txt'"):
        write_page(tmp_path / "page.txt", ExplainContent("x"))
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"path must be a place one can write to; got .*page\.html"):
        write_page(tmp_path / "file" / "page.html", ExplainContent("x"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_explain_page__recipe__has_its_lines_and_a_row_for_each_candidate():
    candidates = [
        {"name": "ridge", "log_loss": 0.51239, "outcome": "stays", "weight": 0.756, "seconds": 1.26},
        {"name": "network", "log_loss": 0.6, "outcome": "adds nothing", "weight": 0.0, "seconds": 30.0},
    ]
    page = Page(page_html(ExplainContent("t", recipe={"lines": ["held out: 3 folds"], "candidates": candidates})))
    assert "How this model was chosen" in page.text
    assert "held out: 3 folds" in page.text
    cells = [text for text, _ in page.cells]
    assert cells[cells.index("ridge") :] == [
        *("ridge", "0.5124", "stays", "0.76", "1.3"),
        *("network", "0.6000", "adds nothing", "30.0"),  # what is not in the stack has no weight
    ]
