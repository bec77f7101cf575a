"""Pages in a real browser: used as a reader would (``use_page.js``), and with names that want to run as scripts."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hotvae.baselines.prevalence import Prevalence
from hotvae.baselines.probit import ProbitJSDM
from hotvae.data.synthetic import virtual_region
from hotvae.jobs.page_content import gather_content
from hotvae.jobs.page_rows import PageRows
from hotvae.report import write_page
from tests.report.test_page import demo_content

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome on this machine"),
]
NAMES = ["</script><script>document.title='broken'</script>", "<img src=x onerror=document.title='broken'>", "\"a'&"]
FEATURE = "<svg onload=document.title='broken'>"
FILE = "</title><script>document.title='broken'</script>.csv"
USE = (Path(__file__).parent / "use_page.js").read_text(encoding="utf-8")
NOTE_ERRORS = "<script>window.problems = []; onerror = (message) => problems.push(String(message));</script>"


def opened(page, width=1000, *flags):
    """Open a page and give back its document and what the console said."""
    command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *flags]
    command += [f"--user-data-dir={page.parent / 'profile'}", f"--window-size={width},900"]
    command += ["--enable-logging=stderr", "--virtual-time-budget=8000", "--dump-dom", f"file://{page}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def used(page, *options):
    """Open a page, use it, and give back the notes about that, its title and what the console said."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"script-src '[^']*'", "script-src 'unsafe-inline'", text)  # the page itself allows no other script
    text = text.replace("<title>", NOTE_ERRORS + "<title>", 1).replace("</body>", f"<script>{USE}</script></body>")
    ready = page.with_name("used.html")
    ready.write_text(text, encoding="utf-8")
    document, console = opened(ready, *options)
    notes = re.search(r'<pre id="notes">(.*?)</pre>', document, re.DOTALL).group(1)
    return json.loads(html.unescape(notes)), title_of(document), console


def title_of(document):
    return html.unescape(re.search(r"<title>(.*?)</title>", document, re.DOTALL).group(1))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    data = virtual_region(700, 9, random_state=0).dataset
    frame = pd.DataFrame(data.features, columns=[FEATURE, *data.feature_names[1:]])
    labels = pd.DataFrame(data.labels, columns=[*NAMES, *data.label_names[3:]])
    model = ProbitJSDM.from_settings(max_epochs=6, covariance_epochs=6, learning_rate=0.05, random_state=0)
    model.fit(frame.iloc[:300], labels.iloc[:300])
    places = np.column_stack([data.coordinates[:, 0] / 10 - 8, 50 + data.coordinates[:, 1] / 12])
    rows = PageRows(frame.iloc[300:], labels.to_numpy()[300:], places[300:], ("longitude", "latitude"), FILE)
    target = tmp_path_factory.mktemp("page") / "report.html"
    return write_page(target, gather_content(model, rows, n_rows=60, gradient=FEATURE))


@pytest.mark.parametrize("width", [1200, 500])  # chromium's narrowest window is 500 wide
def test_explain_page__in_a_browser__draws_moves_sorts_and_filters(page, width):
    notes, title, console = used(page, width)
    assert notes["errors"] == []
    assert console == []
    assert title == f"probit JSDM: {FILE}"
    assert all(count > 5 for count in notes["charts"].values())
    assert set(notes["charts"]) >= {"network-drawing-chart", "map-drawing-chart", "curve-drawing-chart"}
    assert notes["land"] > 0

    def numbers(cells):
        return [int(cell.replace(",", "")) for cell in cells]

    assert numbers(notes["sortedDown"]) == sorted(numbers(notes["sortedDown"]), reverse=True)
    assert numbers(notes["sortedUp"]) == sorted(numbers(notes["sortedUp"]))
    assert len(set(notes["sortedDown"])) > 3
    assert notes["filtered"] == ["species_09"]
    assert len(notes["all"]) == 9
    assert set(NAMES) <= set(notes["all"])  # shown as they are written

    positions = notes["network"]
    assert len(positions) == 5
    assert len({position["where"] for position in positions}) == 5
    assert all(position["where"].startswith(FEATURE) for position in positions)
    assert len({json.dumps(position["lines"]) for position in positions}) > 1
    assert notes["mapChanged"]
    assert notes["curveChanged"]
    assert notes["overflow"] <= 0  # nothing sticks out to the side


def test_explain_page__dark_and_without_network_section__has_no_error(tmp_path):
    frame = pd.DataFrame({"depth": np.arange(60.0)})
    labels = pd.DataFrame({"wren": np.arange(60) % 2, "owl": np.arange(60) % 3 == 0}).astype(float)
    model = Prevalence().fit(frame, labels)
    page = write_page(tmp_path / "plain.html", gather_content(model, PageRows(frame, labels.to_numpy())))
    notes, _, console = used(page, 500, "--blink-settings=preferredColorScheme=0")
    assert notes["errors"] == console == []
    assert notes["all"] == ["owl", "wren"]
    assert "network" not in notes


def test_explain_page__a_script_that_got_in_all_the_same__does_not_run(page):
    stranger = page.with_name("stranger.html")
    text = page.read_text(encoding="utf-8")
    stranger.write_text(text.replace("</main>", "<script>document.title = 'broken'</script></main>"), encoding="utf-8")
    document, console = opened(stranger)
    assert title_of(document) == f"probit JSDM: {FILE}"
    assert "Content Security Policy" in "".join(console)
    assert "<svg" in document  # the page's own script did run


@pytest.mark.parametrize("width", [1200, 500])
def test_demo_page__hostile_names__are_shown_and_nothing_runs(tmp_path, width):
    page = write_page(tmp_path / "demo.html", demo_content("".join(NAMES) + FEATURE + FILE))
    document, console = opened(page, width)
    assert title_of(document) == "".join(NAMES) + FEATURE + FILE
    assert console == []
    assert "<script" not in document
