"""The page in a real browser: it uses itself as a reader would (``#selftest``) and notes what happened."""

import html
import json
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

from hotvae.baselines.prevalence import Prevalence
from hotvae.baselines.probit import ProbitJSDM
from hotvae.data.synthetic import virtual_region
from hotvae.report import PageRows, gather_content, write_page

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome on this machine"),
]
NAMES = ["</script><script>document.title='broken'</script>", "<img src=x onerror=document.title='broken'>", "\"a'&"]


def opened(page, width=1000, *flags):
    """Open the page, let it test itself, and give back its notes, its title and what the console said."""
    command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *flags]
    command += [f"--user-data-dir={page.parent / 'profile'}", f"--window-size={width},900"]
    command += ["--enable-logging=stderr", "--virtual-time-budget=8000", "--dump-dom", f"file://{page}#selftest"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    start = done.stdout.index('<pre id="selftest-result">') + len('<pre id="selftest-result">')
    notes = json.loads(html.unescape(done.stdout[start : done.stdout.index("</pre>", start)]))
    title = done.stdout[done.stdout.index("<title>") : done.stdout.index("</title>")]
    return notes, title, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    region = virtual_region(700, 9, random_state=0)
    data = region.dataset
    frame = pd.DataFrame(data.features, columns=list(data.feature_names))
    names = [*NAMES, *data.label_names[3:]]
    labels = pd.DataFrame(data.labels, columns=names)
    model = ProbitJSDM(
        max_epochs=6,
        covariance_epochs=6,
        n_conditional_draws=32,
        n_likelihood_draws=16,
        learning_rate=0.05,
        random_state=0,
    ).fit(frame.iloc[:300], labels.iloc[:300])
    places = np.column_stack([data.coordinates[:, 0] / 10 - 8, 50 + data.coordinates[:, 1] / 12])
    rows = PageRows(frame.iloc[300:], labels.to_numpy()[300:], places[300:], ("longitude", "latitude"), "new.csv")
    target = tmp_path_factory.mktemp("page") / "report.html"
    return write_page(target, gather_content(model, rows, n_rows=60))


@pytest.mark.parametrize("width", [1200, 500])  # chromium's narrowest window is 500 wide
def test_page__in_a_browser__draws_moves_sorts_and_filters(page, width):
    notes, title, console = opened(page, width)
    assert notes["errors"] == []
    assert console == []
    assert "broken" not in title.replace("report", "")
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
    assert len({json.dumps(position["lines"]) for position in positions}) > 1
    assert notes["mapChanged"]
    assert notes["curveChanged"]
    assert notes["overflow"] <= 0  # nothing sticks out to the side


def test_page__dark_and_without_network_section__has_no_error(tmp_path):
    frame = pd.DataFrame({"depth": np.arange(60.0)})
    labels = pd.DataFrame({"wren": np.arange(60) % 2, "owl": np.arange(60) % 3 == 0}).astype(float)
    model = Prevalence().fit(frame, labels)
    page = write_page(tmp_path / "plain.html", gather_content(model, PageRows(frame, labels.to_numpy())))
    notes, _, console = opened(page, 500, "--blink-settings=preferredColorScheme=0")
    assert notes["errors"] == console == []
    assert notes["all"] == ["owl", "wren"]
    assert "network" not in notes
