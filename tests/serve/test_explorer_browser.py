"""The explorer of a service in a real browser: from the whole grid to what is in view, and back."""

import shutil
import threading

import pytest
import uvicorn

from hotvae.serve.app import make_app
from hotvae.serve.server import _listen
from tests.geo.conftest import land, trained  # noqa: F401
from tests.serve.test_explorer import explorer, served  # noqa: F401

playwright = pytest.importorskip("playwright.sync_api")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome on this machine"),
]


@pytest.fixture
def address(served, explorer):  # noqa: F811
    with _listen("127.0.0.1", 0) as listener:
        server = uvicorn.Server(uvicorn.Config(make_app(served, None, explorer), log_config=None))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join()


def test_closer__what_is_in_view__has_its_own_cells_and_keeps_what_was_told(address):
    ready, problems = "html[data-ready]", []
    with playwright.sync_playwright() as player:
        browser = player.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1000, "height": 700})
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(address + "#seen=oak&place=3", timeout=120_000)
        page.wait_for_selector(ready, timeout=120_000)
        whole = page.evaluate("facts.side[0]")
        for _ in range(5):
            page.click("#zoom-in")
        left, right = page.evaluate("[view.plane(0, 0)[0], view.plane(view.width, 0)[0]]")
        page.click("#zoom button[aria-label='More detail of what is in view']")
        page.wait_for_url("**/?window=*", timeout=120_000)
        page.wait_for_selector(ready, timeout=120_000)
        assert page.evaluate("facts.side[0]") < whole
        west, east = page.evaluate("view.bounds.slice(0, 2)")
        assert left - whole <= west < east <= right + whole
        assert page.evaluate("state.told") == [[0, 1]]
        assert page.evaluate("state.place") == -1  # it has another number here
        page.click("#zoom button[aria-label='The whole map']")
        page.wait_for_url(address + "#*", timeout=120_000)
        page.wait_for_selector(ready, timeout=120_000)
        assert page.evaluate("facts.side[0]") == whole
        browser.close()
    assert problems == []
