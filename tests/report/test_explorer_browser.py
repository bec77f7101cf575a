"""The explorer in a real browser: its arithmetic is that of Python, and it can be used with mouse, touch and keys."""

import csv
import io
import shutil
from importlib import resources

import numpy as np
import pytest
import torch

from hotvae.config import MessagesConfig
from hotvae.estimators.joint_law import JointLaw
from hotvae.jobs.explore import law_parts
from hotvae.net.messages import Chorus, Messages
from hotvae.report.page import write_page
from paper.speed.explorer import invented_content

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome on this machine"),
]
HOSTILE = ["</script><script>document.title='broken'</script>", "<img src=x onerror=document.title='broken'>", "=cmd()"]
NAMES = [*HOSTILE, *(f"bird {number:02d}" for number in range(17))]
N_PLACES = 600


@pytest.fixture(scope="module")
def chromium():
    with sync_api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


class Opened:
    """A page in use, and all that it complained of."""

    def __init__(self, browser, page, address="", **options):
        self.context = browser.new_context(**{"viewport": {"width": 1200, "height": 800}, **options})
        self.tab, self.problems = self.context.new_page(), []
        self.tab.on("console", lambda message: self.problems.append(message.text))
        self.tab.on("pageerror", lambda error: self.problems.append(str(error)))
        self.tab.goto(page.as_uri() + address)
        self.tab.wait_for_selector("html[data-painted]")

    def state(self, key):
        return self.tab.evaluate(f"state.{key}")

    def settled(self, action):
        """Do something, and wait until the map has followed."""
        before = self.tab.get_attribute("html", "data-painted")
        action()
        self.tab.wait_for_selector(f"html:not([data-painted='{before}'])")
        return np.array(self.tab.evaluate("Array.from(layer)"))

    def layer(self):
        return np.array(self.tab.evaluate("Array.from(layer)"))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return write_page(tmp_path_factory.mktemp("explorer") / "page.html", invented_content(20, N_PLACES, names=NAMES))


@pytest.fixture
def opened(chromium, page):
    used = Opened(chromium, page)
    yield used
    assert used.problems == []
    assert used.tab.title() == "Invented"
    used.context.close()


# --- arithmetic --------------------------------------------------------------------------------------------------

LAWS = {
    "pairs and causes, three voices": (MessagesConfig(), 3),
    "signed edges and a hub, three rounds": (MessagesConfig(n_rounds=3, edges="signed", tied=False, hub_width=16), 1),
    "causes alone, no gate": (MessagesConfig(edges="none", n_causes=16, gated=False), 1),
    "one round of edges": (MessagesConfig(n_rounds=1, n_causes=0), 1),
}


def random_law(config, n_voices, n_labels, n_features):
    torch.manual_seed(1)
    voices = [Messages(n_labels, n_features, config) for _ in range(n_voices)]
    with torch.no_grad():
        for voice in voices:
            for name, weight in voice.named_parameters():
                weight.copy_(torch.randn_like(weight) * (0.6 if name.startswith("passing") else 0.35))
    return JointLaw(Chorus(voices).eval() if n_voices > 1 else voices[0].eval(), n_labels)


@pytest.mark.parametrize(("precision", "most"), [("int16", 2e-3), ("float32", 1e-5)])
def test_law__200_random_questions__the_browser_says_what_python_says(chromium, tmp_path, precision, most):
    random, n_labels, n_places, gaps = np.random.default_rng(3), 25, 60, []
    for config, n_voices in LAWS.values():
        content = invented_content(n_labels, n_places, precision)
        law = random_law(config, n_voices, n_labels, content.arrays["gates"].shape[1])
        facts, weights = law_parts(law)
        content.facts["law"] = facts
        others = {name: part for name, part in content.arrays.items() if not name.startswith("law.")}
        content.arrays = others | weights
        used = Opened(chromium, write_page(tmp_path / "page.html", content))
        cells, given, questions = random.integers(n_places, size=50), np.full((50, n_labels), np.nan), []
        for row, cell in enumerate(cells):
            known = random.permutation(n_labels)[: random.integers(0, 15)]
            given[row, known] = random.integers(0, 2, len(known))
            questions.append([int(cell), known.tolist(), given[row, known].tolist()])
        answers = used.tab.evaluate(
            "(questions) => Promise.all(questions.map(async ([cell, known, values]) =>"
            " Array.from((await engine.ask({ what: 'place', cell, known, values, moves: [] })).probs)))",
            questions,
        )
        logits = law.logits(content.arrays["logits"][cells], content.arrays["gates"][cells], given.astype(np.float32))
        truth = np.where(np.isnan(given), 1 / (1 + np.exp(-np.asarray(logits, dtype=np.float64))), given)
        base = 1 / (1 + np.exp(-content.arrays["logits"][cells]))
        assert np.abs(truth - base)[np.isnan(given)].max() > 0.1  # the law does say something
        gaps.append(np.abs(np.array(answers) - truth).max())
        assert used.problems == []
        used.context.close()
    assert max(gaps) < most


def test_products__any_size_and_some_rows__are_those_of_numpy(chromium):
    source = resources.files("hotvae.report") / "templates" / "explorer" / "products.js"
    random = np.random.default_rng(5)
    tab = chromium.new_page()
    tab.add_script_tag(content=source.read_text(encoding="utf-8"))
    for rows, inner, columns in ((1, 1, 1), (3, 7, 9), (64, 33, 8), (5, 130, 101)):
        left, right = random.normal(size=(rows, inner)), random.normal(size=(inner + 4, columns))
        used = random.permutation(inner + 4)[:inner]
        found = tab.evaluate(
            """([left, right, used]) => {
              const { Matrix, rowsOf, addProduct } = Products;
              const table = (rows) => Matrix.of(rows.length, rows[0].length, (r, c) => rows[r][c]);
              const [a, b, out] = [table(left), table(right), new Matrix(left.length, right[0].length)];
              new Matrix(200, 200); // memory grows: what is there must still be found
              for (let twice = 0; twice < 2; twice++) addProduct(out, a, b, rowsOf(b, used), left.length);
              return left.map((_, r) => Array.from(out.row(r)));
            }""",
            [left.tolist(), right.tolist(), used.tolist()],
        )
        np.testing.assert_allclose(found, 2 * left @ right[used], atol=1e-4)
    values = np.array([-1e4, -87.5, -20, -3.3, -1e-3, 0, 0.4, 7, 40, 1e4])
    found = tab.evaluate(
        """(values) => { const all = Products.Matrix.of(1, values.length, (_, c) => values[c]);
        Products.logisticOf(all, 1); return Array.from(all.row(0)); }""",
        values.tolist(),
    )
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-np.clip(values, -87, 87))), rtol=1e-6)
    tab.close()


def test_whole_map__told_species__is_the_answer_of_every_place(opened):
    told = [[3, 1], [7, 0]]
    one = opened.settled(lambda: opened.tab.evaluate("(told) => change({ told, kind: 'label', label: 5 })", told))
    count = opened.settled(lambda: opened.tab.evaluate("change({ kind: 'richness' })"))
    cells = [0, 17, 333, N_PLACES - 1]
    answers = opened.tab.evaluate(
        "(cells) => Promise.all(cells.map(async (cell) => Array.from((await engine.ask("
        "{ what: 'place', cell, known: [3, 7], values: [1, 0], moves: [] })).probs)))",
        cells,
    )
    np.testing.assert_allclose(one[cells], np.array(answers)[:, 5], atol=1e-5)
    np.testing.assert_allclose(count[cells], np.array(answers).sum(axis=1), atol=1e-4)


def test_moved_covariate__everywhere__is_the_base_plus_the_change_of_the_stand_in(opened):
    content = invented_content(20, N_PLACES, names=NAMES)
    opened.settled(lambda: opened.tab.evaluate("change({ shifts: [[2, 0.4]], kind: 'label', label: 6 })"))
    found = opened.layer()

    def stand_in(rows):
        for layer in range(3):
            weights = content.arrays[f"stand_in.{layer}"]
            rows = rows @ weights[:, :-1].T + weights[:, -1]
            rows = np.maximum(rows, 0) if layer < 2 else rows
        return rows

    gates = content.arrays["gates"]
    moved = gates.copy()
    moved[:, 2] = np.clip(moved[:, 2] + 0.4, None, 1.5)
    logits = content.arrays["logits"] + stand_in(moved) - stand_in(gates)
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-logits[:, 6])), atol=2e-3)
    assert np.abs(logits - content.arrays["logits"])[:, 6].max() > 0.2  # something did move


def test_next__largest_gain__is_that_of_a_slow_loop(opened):
    gains = np.array(
        opened.tab.evaluate(
            "async () => Array.from(await engine.ask({ what: 'next', cell: 9, known: [1], values: [1] }))"
        )
    )
    probs = "async (q) => Array.from((await engine.ask({ what: 'place', cell: 9, known: q[0], values: q[1] })).probs)"

    def rest(known, values):
        p = np.array(opened.tab.evaluate(probs, [known, values]), dtype=np.float64)
        p = np.clip(np.delete(p, known), 1e-12, 1 - 1e-12)
        return -(p * np.log2(p) + (1 - p) * np.log2(1 - p)).sum()

    now = np.array(opened.tab.evaluate(probs, [[1], [1]]), dtype=np.float64)
    for label in (0, 4, 12):
        p = now[label]
        own = -(p * np.log2(p) + (1 - p) * np.log2(1 - p))
        after = p * rest([1, label], [1, 1]) + (1 - p) * rest([1, label], [1, 0])
        assert gains[label] == pytest.approx(rest([1], [1]) - own - after, abs=2e-4)
    assert gains[1] == 0


# --- use ---------------------------------------------------------------------------------------------------------


def test_tick_and_untick__map_follows_and_undo_brings_it_back(opened):
    tab = opened.tab
    untold = opened.layer()
    tab.click("#tab-saw")
    tab.fill("#saw-search", "bird 05")
    row = tab.locator("ul[aria-label='All species'] li")
    row.first.wait_for()
    assert row.count() == 1
    told = opened.settled(lambda: row.locator(".seen").click())
    assert np.abs(told - untold).max() > 0.5
    assert opened.state("told") == [[NAMES.index("bird 05"), 1]]
    assert "seen (was" in tab.locator(".told li .value").inner_text()
    np.testing.assert_allclose(opened.settled(lambda: row.locator(".seen").click()), untold, atol=1e-6)
    assert opened.state("told") == []
    np.testing.assert_allclose(opened.settled(lambda: tab.click("#undo")), told, atol=1e-6)


def test_only_here__the_map_stays_and_the_place_follows(opened):
    tab, untold = opened.tab, opened.layer()
    tab.evaluate("change({ tab: 'saw', place: 40, scope: 'place', told: [[3, 1], [9, 0]] })")
    tab.locator(".effect", has_text="now").wait_for()
    np.testing.assert_allclose(opened.layer(), untold, atol=1e-6)
    assert len(tab.locator(".told li").all()) == 2


def test_click_on_the_map__shows_the_place_that_lies_there(opened):
    tab = opened.tab
    box = tab.locator("#canvas").bounding_box()
    where = tab.evaluate("view.screen(view.where[2 * 250], view.where[2 * 250 + 1])")
    tab.mouse.click(box["x"] + where[0], box["y"] + where[1])
    assert opened.state("place") == 250
    assert opened.state("tab") == "place"
    tab.locator(".cards .card").first.wait_for()
    tab.locator(".species .because").first.click()
    tab.locator("#why .reasons li").first.wait_for()
    tab.mouse.click(box["x"] + 4, box["y"] + box["height"] / 2)  # sea
    assert opened.state("place") == 250
    assert "Outside" in tab.inner_text("#said")


def test_coordinates__typed__find_the_nearest_place_or_say_how_far_it_is(opened):
    tab = opened.tab
    tab.click("#tab-place")
    longitude, latitude = tab.evaluate("[0, 1].map((k) => arrays.degrees.values[2 * 321 + k])")
    tab.fill("input[name=latitude]", str(latitude))
    tab.fill("input[name=longitude]", str(longitude))
    tab.press("input[name=longitude]", "Enter")
    assert opened.state("place") == 321
    tab.fill("input[name=latitude]", "-60")
    tab.press("input[name=longitude]", "Enter")
    assert "km away" in tab.inner_text(".coordinates p")


def test_threshold__dragged__counts_the_places_above_it(opened):
    tab = opened.tab
    opened.settled(lambda: tab.select_option("#layer", label="bird 03"))
    bar = tab.locator("#legend .bar").bounding_box()
    y = bar["y"] + bar["height"] / 2
    tab.mouse.move(bar["x"] + bar["width"] / 2, y)
    tab.mouse.down()
    tab.mouse.move(bar["x"] + 0.25 * bar["width"], y, steps=4)
    tab.mouse.up()
    cut = opened.state("threshold")
    assert cut == pytest.approx(0.25, abs=0.02)
    n_above = int((opened.layer() >= cut).sum())
    assert f"{n_above} of {N_PLACES} places" in tab.inner_text("#legend .above")


def test_slider__moved__shows_the_change_and_back_to_today_takes_it_away(opened):
    tab = opened.tab
    tab.click("#tab-what")
    changed = opened.settled(lambda: tab.locator("#move-2").fill("0.9"))
    assert opened.state("change") is True
    assert np.abs(changed).max() > 0.5
    assert "today" in tab.inner_text(".effect")
    assert np.abs(opened.settled(lambda: tab.click("text=Back to today"))).max() > 0  # no change map any more
    assert opened.state("shifts") == []


def test_address__opened_elsewhere__shows_the_same(chromium, page, opened):
    opened.tab.evaluate("change({ told: [[0, 1], [2, 0]], place: 77, shifts: [[4, 0.3]], tab: 'saw', threshold: 0.3 })")
    shown = opened.settled(lambda: opened.tab.evaluate("change({ kind: 'label', label: 1 })"))
    address = opened.tab.evaluate("location.hash")
    other = Opened(chromium, page, address)
    for key in ("told", "place", "shifts", "tab", "threshold", "kind", "label"):
        assert other.state(key) == opened.state(key)
    np.testing.assert_allclose(other.layer(), shown, atol=1e-6)
    assert other.problems == []
    other.context.close()


def test_address__of_nonsense__opens_the_plain_page(chromium, page):
    used = Opened(chromium, page, "#tab=%00&place=99999&seen=nobody&move=x:1e999&cut=NaN&species=__proto__")
    assert (used.state("tab"), used.state("place"), used.state("told"), used.state("kind")) == (
        "map",
        -1,
        [],
        "richness",
    )
    assert used.problems == []
    used.context.close()


def saved(tab, button):
    with tab.expect_download() as found:
        tab.click(button)
    return found.value.path().read_bytes()


def test_take_it_away__tables_and_picture__hold_what_is_shown(opened):
    tab = opened.tab
    opened.settled(lambda: tab.evaluate("change({ told: [[4, 1]], place: 12 })"))
    tab.click("#tab-take")
    here = list(csv.DictReader(io.StringIO(saved(tab, "#save-place").decode("utf-8-sig"))))
    probs = tab.evaluate("async () => Array.from((await engine.ask({ what: 'place', ...questionHere() })).probs)")
    assert [row["species"] for row in here] == ["'=cmd()" if name == "=cmd()" else name for name in NAMES]
    np.testing.assert_allclose([float(row["probability"]) for row in here], probs, atol=1e-5)
    assert [row["told"] for row in here].count("1") == 1
    shown = list(csv.DictReader(io.StringIO(saved(tab, "#save-layer").decode("utf-8-sig"))))
    np.testing.assert_allclose([float(row["Number of species"]) for row in shown], opened.layer(), atol=1e-4)
    everything = list(csv.reader(io.StringIO(saved(tab, "#save-all").decode("utf-8-sig"))))
    assert len(everything) == N_PLACES + 1
    np.testing.assert_allclose(np.array(everything[13][4:], dtype=float), probs, atol=1e-4)
    assert saved(tab, "#save-picture")[:8] == b"\x89PNG\r\n\x1a\n"


def test_keys_alone__choose_a_place_tick_a_species_and_move_the_threshold(opened):
    tab = opened.tab
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.className") == "skip"
    for _ in range(20):
        if tab.evaluate("document.activeElement.id") == "canvas":
            break
        tab.keyboard.press("Tab")
    tab.keyboard.press("ArrowRight")
    first = opened.state("place")
    tab.keyboard.press("ArrowRight")
    assert first >= 0
    assert opened.state("place") == first + 1  # the grid runs from west to east
    tab.focus("#tab-place")
    tab.keyboard.press("ArrowRight")
    assert opened.state("tab") == "saw"
    tab.locator("ul[aria-label='All species'] li").first.wait_for()
    tab.focus("#saw-search")
    tab.keyboard.press("Tab")
    tab.keyboard.press("Tab")
    opened.settled(lambda: tab.keyboard.press("Enter"))
    assert len(opened.state("told")) == 1
    assert tab.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    opened.settled(lambda: tab.keyboard.press("Control+z"))
    assert opened.state("told") == []
    tab.focus("#cut")
    tab.keyboard.press("PageUp")
    assert opened.state("threshold") > 0


@pytest.mark.parametrize("mode", ["here", "along", "two"])
def test_together__each_way_of_looking__has_lines_and_a_table(opened, mode):
    opened.tab.evaluate("(mode) => change({ tab: 'together', mode, place: 20, other: 500 })", mode)
    rows = opened.tab.locator(".together-body tbody tr")
    rows.first.wait_for()
    assert rows.count() >= 5
    if mode == "here":
        opened.tab.locator(".triple h3").wait_for()
        assert opened.tab.locator("svg .node").count() > 5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone__nothing_sticks_out_and_two_fingers_zoom(chromium, page, scheme):
    used = Opened(chromium, page, viewport={"width": 390, "height": 800}, has_touch=True, color_scheme=scheme)
    for name in ("map", "place", "saw", "together", "what", "take"):
        used.tab.evaluate("(tab) => change({ tab })", name)
        assert used.tab.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    before = used.tab.evaluate("view.view.scale")
    used.tab.evaluate(
        """() => { const canvas = document.getElementById('canvas');
        canvas.setPointerCapture = () => {};
        const send = (type, pointerId, clientX, clientY) =>
          canvas.dispatchEvent(new PointerEvent(type, { pointerId, clientX, clientY }));
        send('pointerdown', 1, 150, 250); send('pointerdown', 2, 250, 250);
        send('pointermove', 1, 100, 250); send('pointermove', 2, 300, 250);
        send('pointerup', 1, 100, 250); send('pointerup', 2, 300, 250); }"""
    )
    assert used.tab.evaluate("view.view.scale") == pytest.approx(2 * before, rel=0.01)
    assert used.problems == []
    used.context.close()


def test_stranger_script__does_not_run(chromium, page, tmp_path):
    text = page.read_text(encoding="utf-8").replace("</main>", "<script>document.title = 'broken'</script></main>", 1)
    stranger = tmp_path / "stranger.html"
    stranger.write_text(text, encoding="utf-8")
    used = Opened(chromium, stranger)
    assert used.tab.title() == "Invented"
    assert any("Content Security Policy" in problem for problem in used.problems)
    used.context.close()


@pytest.mark.slow
def test_300_species_on_20_000_places__the_page_stays_awake_while_workers_work(chromium, tmp_path):
    used = Opened(chromium, write_page(tmp_path / "large.html", invented_content(300, 20_000)))
    found = used.tab.evaluate(
        """() => new Promise((resolve) => {
          let ticks = 0, done = false;
          const tick = () => { ticks++; if (!done) setTimeout(tick, 20); };
          new MutationObserver(() => { done = true; resolve({ ticks, here: typeof Law }); })
            .observe(document.documentElement, { attributeFilter: ['data-painted'] });
          change({ told: [[1, 1], [2, 0], [3, 1]] });
          tick();
        })"""
    )
    assert found["here"] == "undefined"  # the law is not even known to the page's own thread
    assert found["ticks"] > 10
    assert np.isfinite(used.layer()).all()
    assert used.problems == []
    used.context.close()
