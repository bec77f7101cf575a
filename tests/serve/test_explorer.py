"""The explorer at ``/``: of all cells, and of those in a window."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from starlette.testclient import TestClient

from hotvae.jobs.maps import map_inputs
from hotvae.serve.app import make_app
from hotvae.serve.explorer import Explorer
from hotvae.serve.limits import Limits
from hotvae.serve.questions import Served
from tests.geo.conftest import CELL, NORTH, WEST, land, trained  # noqa: F401

WINDOW = f"{WEST + 250 * CELL},{NORTH - 20 * CELL},{WEST + 270 * CELL},{NORTH}"


@pytest.fixture(scope="module")
def served(trained):  # noqa: F811
    return Served.load(trained, Limits(workers=1))


@pytest.fixture(scope="module")
def explorer(served, land):  # noqa: F811
    return Explorer.open(served.model, None, [land / "rain.tif", land / "warmth.tif"], fixed={"hours": "1"}, most=300)


def facts_of(page):
    (found,) = re.findall(r'<script type="application/json" id="facts">(.*?)</script>', page, flags=re.DOTALL)
    facts = json.loads(found)
    return facts, {entry["name"]: entry["shape"] for entry in facts["arrays"]}


def test_explorer__whole_and_window__finer_cells_of_the_same_law(served, explorer):
    with TestClient(make_app(served, None, explorer), base_url="http://localhost") as client:
        whole, part = client.get("/"), client.get("/", params={"window": WINDOW})
        assert client.get("/metrics").text.count('path="/",status="200"} 2.0') == 1
    assert whole.headers["content-type"].startswith("text/html")
    facts, shapes = facts_of(whole.text)
    closer, finer = facts_of(part.text)
    assert shapes["logits"][0] <= 300 < 300 * 40
    assert finer["logits"] == [100, 4]  # of 20 × 20 cells every second one each way
    assert closer["side"][0] < facts["side"][0]
    assert facts["closer"]["scale"] == closer["closer"]["scale"] == pytest.approx([0.001, 0.001], rel=0.01)  # metres
    assert (facts["closer"]["is_part"], closer["closer"]["is_part"]) == (False, True)
    assert facts["closer"]["has_more"]
    assert closer["closer"]["has_more"]
    assert {name for name in shapes if name.startswith("stand_in.")} == {n for n in finer if n.startswith("stand_in.")}
    assert closer["spread"] == facts["spread"]


def test_explorer__window__cells_that_a_map_would_have(served, explorer, land):  # noqa: F811
    from hotvae.jobs.explorer_places import places_of_inputs

    inputs = map_inputs(served.model, [land / "rain.tif", land / "warmth.tif"], None, {"hours": "1"})[1]
    bounds = tuple(map(float, WINDOW.split(",")))
    places = places_of_inputs(inputs, 10_000, bounds)
    assert len(places) == 20 * 20
    np.testing.assert_allclose(places.table["rain"].to_numpy()[:3], 400 + np.arange(250, 253))


@pytest.mark.parametrize(
    ("window", "sentence"),
    [
        ("here", "window must be west,south,east,north; got 'here'. Write four numbers."),
        ("1,2,3", "window must be west,south,east,north; got '1,2,3'."),
        ("0,0,1,1", "window must be west, south, east, north and touch the map; got 0, 0, 1, 1."),
        ("nan,0,1,inf", "window must be west, south, east, north and touch the map"),
    ],
)
def test_explorer__window_that_is_none__422(served, explorer, window, sentence):
    with TestClient(make_app(served, None, explorer), base_url="http://localhost") as client:
        answer = client.get("/", params={"window": window})
    assert answer.status_code == 422
    assert sentence in answer.json()["error"]


def test_explorer__token__a_browser_is_asked_for_it_as_a_password(served, explorer):
    with TestClient(make_app(served, "a-token-of-some-length", explorer), base_url="http://localhost") as client:
        asked = client.get("/")
        assert (asked.status_code, asked.headers["www-authenticate"]) == (401, 'Basic realm="hotvae"')
        assert client.get("/", auth=("anyone", "a-token-of-some-length")).status_code == 200
        assert client.get("/", auth=("anyone", "another")).status_code == 401
        assert client.get("/", headers={"Authorization": "Basic !!"}).status_code == 401
        assert client.get("/", headers={"Authorization": "Bearer a-token-of-some-length"}).status_code == 200
        assert client.get("/model", auth=("anyone", "a-token-of-some-length")).status_code == 401


def test_explorer__table_of_places__one_page_and_no_windows(tmp_path):
    from hotvae import HotVAEClassifier

    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.uniform(0, 9, 120), "y": rng.uniform(0, 9, 120), "rain": rng.normal(size=120)})
    labels = pd.DataFrame({"oak": table["rain"] > 0, "elm": table["x"] > 4}).astype(int)
    HotVAEClassifier(effort="quick", random_state=0, coordinates=("x", "y")).fit(table, labels).save(tmp_path / "m")
    table.to_csv(tmp_path / "places.csv", index=False)
    served = Served.load(tmp_path / "m", Limits(workers=1))
    explorer = Explorer.open(served.model, tmp_path / "places.csv")
    with TestClient(make_app(served, None, explorer), base_url="http://localhost") as client:
        assert "closer" not in facts_of(client.get("/").text)[0]
        answer = client.get("/", params={"window": "0,0,1,1"})
        assert answer.status_code == 422
        assert "window must go with a grid of cells; got a list of places." in answer.json()["error"]
