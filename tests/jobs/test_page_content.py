"""Explaining a model: the page's numbers are the model's, hostile names stay text, many labels stay small."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from hotvae import HotVAEClassifier, load_model
from hotvae.baselines.prevalence import Prevalence
from hotvae.baselines.probit import ProbitJSDM
from hotvae.baselines.scikit import LogisticLabels
from hotvae.cli import main
from hotvae.data.synthetic import virtual_region
from hotvae.errors import DataError
from hotvae.jobs.page_content import gather_content
from hotvae.jobs.page_rows import PageRows
from hotvae.report import page_html

HOSTILE = ["</script><script>alert(1)</script>", "\"quoted\" 'single' & <b>bold</b>", "<!-- never ends", "\u2028 line"]
HOSTILE_FEATURE = "<img src=x onerror=alert(2)>"
HOSTILE_FILE = "<svg onload=alert(3)>.csv"


def content_of(page):
    text = re.search(r'<script type="application/json" id="content">(.*?)</script>', page, re.DOTALL).group(1)
    return json.loads(text)


def region_rows(n_sites, n_species=6, coordinate_names=("easting_km", "northing_km"), names=None):
    data = virtual_region(n_sites, n_species, random_state=0).dataset
    frame = pd.DataFrame(data.features, columns=list(data.feature_names))
    labels = pd.DataFrame(data.labels, columns=list(names or data.label_names))
    return frame, labels, data.coordinates, coordinate_names


@pytest.fixture(scope="module")
def told():
    """A model that can be given labels, and its page's content; labels, features and file want to break out."""
    names = [*HOSTILE, "wren", "owl"]
    frame, labels, places, _ = region_rows(700, names=names)
    frame = frame.rename(columns={"temperature": HOSTILE_FEATURE})
    model = ProbitJSDM.from_settings(max_epochs=6, covariance_epochs=6, learning_rate=0.05, random_state=0)
    model.fit(frame.iloc[:300], labels.iloc[:300])
    places_names = ("easting_km", HOSTILE[1])
    rows = PageRows(frame.iloc[300:], labels.to_numpy()[300:], places[300:], places_names, HOSTILE_FILE)
    return model, rows, gather_content(model, rows, n_rows=40, title=HOSTILE[0])


# --- escaping --------------------------------------------------------------------------------------------


def test_page_html__hostile_labels_columns_and_files__stay_text(told):
    page = page_html(told[2])
    assert page.count("<script") == 2
    assert page.count("</script>") == 2
    for markup in ("<!-- never", "<b>", "<img", "<svg"):
        assert markup not in page
    content = content_of(page)
    assert content["names"][:4] == HOSTILE
    assert HOSTILE_FEATURE in [feature["name"] for feature in content["curves"]["features"]]
    assert content["map"]["names"] == ["easting_km", HOSTILE[1]]
    assert "<title>&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;</title>" in page
    assert "(&lt;svg onload=alert(3)&gt;.csv)" in page
    assert "&lt;img src=x onerror=alert(2)&gt;" in page


def test_page_html__any_page__asks_no_network(told):
    page = page_html(told[2])
    assert "default-src 'none'" in page
    addresses = set(re.findall(r"https?://[^\s\"'<)]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(link|img|iframe|script src)", page)


# --- content ---------------------------------------------------------------------------------------------


def test_gather_content__numbers_of_the_page__are_those_of_the_model(told):
    model, rows, content = told
    probs = model.predict_proba(rows.features)
    data = content.data
    assert sum(data["reliability"]["count"]) == rows.labels.size
    row = data["labels"]["rows"][4]
    assert row[0] == "wren"
    assert row[1] == int(rows.labels[:, 4].sum())
    assert row[3] == pytest.approx(probs[:, 4].mean(), abs=1e-3)
    assert data["map"]["richness"][7] == pytest.approx(probs[7].sum(), abs=0.01)
    assert data["map"]["lower"][7] <= data["map"]["upper"][7]
    assert not data["map"]["degrees"]
    assert (data["map"]["land"], data["map"]["borders"]) == ([], [])
    log_loss = next(metric for metric in content.metrics if metric["title"] == "log loss")
    assert 0 < log_loss["value"] - log_loss["low"] < 0.1
    assert log_loss["high"] - log_loss["value"] == pytest.approx(log_loss["value"] - log_loss["low"])


def test_gather_content__network__has_one_effect_per_group_of_every_gradient(told):
    network = told[2].data["network"]
    n_positions = 1 + sum(len(gradient["groups"]) for gradient in network["gradients"])
    assert {gradient["feature"] for gradient in network["gradients"]} >= {"easting_km", HOSTILE[1]}
    assert network["edges"]
    assert all(len(row) == n_positions for row in network["effects"] + network["kept"])
    members = {label for edge in network["edges"] for label in edge}
    assert {node[0] for node in network["nodes"]} == members
    assert all(0 <= x <= 1 and 0 <= y <= 1 for _, x, y in network["nodes"])
    both = zip(network["effects"], network["kept"], strict=True)
    clearest = [max(abs(v) for v, is_kept in zip(*rows, strict=True) if is_kept) for rows in both]
    assert clearest == sorted(clearest, reverse=True)


def test_gather_content__wanted_gradient__comes_first(told):
    model, rows, _ = told
    small = rows.take(np.arange(120))
    content = gather_content(model, small, n_rows=20, gradient="irrelevant_rough")
    assert content.data["network"]["gradients"][0]["feature"] == "irrelevant_rough"
    with pytest.raises(DataError, match=r"gradient must be a feature \('<img src.*', .*\); got 'height'"):
        gather_content(model, small, gradient="height")


def test_gather_content__model_without_given__says_why_the_network_is_missing():
    frame, labels, _, _ = region_rows(200)
    model = LogisticLabels().fit(frame.iloc[:100], labels.iloc[:100])
    content = gather_content(model, PageRows(frame.iloc[100:], labels.to_numpy()[100:]))
    page = page_html(content)
    assert "It cannot be given labels" in page
    assert "network-slider" not in page.split("<script")[0]
    assert content.data["map"] is None
    assert 'id="map"' not in page
    assert set(content.data["partition"]["parts"]) == {"environment", "unexplained"}


@pytest.mark.slow
def test_gather_content__own_recipe__is_told_with_every_candidate():
    frame, labels, places, names = region_rows(180)
    frame = frame.assign(site=[f"s{i}" for i in range(180)], easting_km=places[:, 0], northing_km=places[:, 1])
    model = HotVAEClassifier(effort="quick", coordinates=names, random_state=0).fit(frame[:120], labels[:120])
    content = gather_content(model, PageRows(frame[120:], labels.to_numpy()[120:], places[120:], names), n_rows=20)
    recipe = model.recipe_
    assert content.recipe["lines"] == [*recipe.lines()[:4], recipe.lines()[-1]]
    assert content.recipe["lines"][3] == "held out: 3 folds of whole blocks of the map"
    told = [tuple(candidate.values()) for candidate in content.recipe["candidates"]]
    assert told == [(e.name, e.log_loss, e.outcome, e.weight, e.seconds) for e in recipe.entries]
    assert dict(content.card)["trained on"].endswith("each held out once (3 folds of whole blocks of the map)")
    page = page_html(content)
    assert "How this model was chosen" in page
    assert "1 identifier left out: site" in page


def test_gather_content__no_recipe__has_no_section_of_it():
    frame, labels, _, _ = region_rows(60)
    content = gather_content(Prevalence().fit(frame, labels), PageRows(frame, labels.to_numpy()))
    assert content.recipe == {}
    assert "How this model was chosen" not in page_html(content)


def test_gather_content__degrees__bring_coastlines():
    frame, labels, places, _ = region_rows(60)
    model = Prevalence().fit(frame, labels)
    around_britain = np.column_stack([50 + places[:, 0] / 12, -6 + places[:, 1] / 14])
    content = gather_content(model, PageRows(frame, labels.to_numpy(), around_britain, ("lat", "lon")))
    chart = content.data["map"]
    assert chart["degrees"]
    assert chart["names"] == ["lon", "lat"]
    assert chart["x"][0] == pytest.approx(around_britain[0, 1], rel=1e-4)
    assert len(chart["land"]) > 3
    assert chart["borders"]  # that of Northern Ireland


def test_gather_content__trained_on_arrays_and_gaps__is_explained_all_the_same():
    frame, labels, _, _ = region_rows(200)
    table = labels.to_numpy(copy=True)
    table[::7, 2] = np.nan
    model = LogisticLabels().fit(frame.to_numpy()[:100], table[:100])
    named = frame.set_axis([f"feature_{place}" for place in range(7)], axis=1)
    content = gather_content(model, PageRows(named.iloc[100:], table[100:]))
    assert content.data["names"][2] == "label_2"
    assert "cells not observed" in dict(content.card)
    assert len(content.warnings) == 0


@pytest.mark.slow
def test_gather_content__three_hundred_labels__stays_small():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 3)), columns=[f"layer {place}" for place in range(3)])
    labels = pd.DataFrame(
        np.repeat(rng.random((200, 150)) < 0.2, 2, axis=1).astype(float),
        columns=[f"Species number {place}" for place in range(300)],
    )
    places = rng.uniform(0, 50, size=(200, 2))

    class Pairs(Prevalence):
        """Neighbours in the table help each other; told labels come back as told."""

        conditional = True

        def predict_proba(self, X, given=None):
            probs = np.full((len(X), 300), 0.2)
            if given is not None:
                known = np.asarray(given, dtype=float)
                near = np.roll(known, 1, axis=1), np.roll(known, -1, axis=1)
                probs = probs + 0.1 * sum(np.nan_to_num(side) for side in near)
                probs = np.where(np.isnan(known), probs, known)
            return probs

    model = Pairs().fit(frame, labels)
    content = gather_content(model, PageRows(frame, labels.to_numpy(), places, ("longitude", "latitude")), n_rows=20)
    page = page_html(content)
    assert len(page) < 1_500_000
    assert len(content.data["labels"]["rows"]) == 300
    assert len(content.data["network"]["edges"]) >= 150


def test_gather_content__few_rows_or_training_rows__warn(told):
    model, rows, _ = told
    with pytest.raises(DataError, match="table must have at least 10 rows to explain a model; got 5"):
        gather_content(model, rows.take(np.arange(5)))


# --- the command line ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("explain")
    frame, labels, places, _ = region_rows(260)
    table = pd.concat([frame, labels.astype(int).add_prefix("sp_")], axis=1).assign(
        lon=places[:, 0], lat=places[:, 1] / 2
    )
    table[:160].to_csv(place / "region.csv", index=False)
    table[160:].to_csv(place / "new.csv", index=False)
    words = ["train", str(place / "region.csv"), "--labels", "sp_*", "--coordinates", "lon,lat", "--model", "logistic"]
    assert main([*words, "--quiet", "--out", str(place / "model")]) == 0
    return place


def test_explain__a_table__writes_a_page_and_says_what_is_missing(folder, capsys):
    capsys.readouterr()
    out = folder / "report.html"
    assert main(["explain", str(folder / "model"), str(folder / "new.csv"), "--out", str(out), "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert "100 rows × 6 labels" in printed
    assert "cannot be given labels" in printed
    page = out.read_text(encoding="utf-8")
    assert content_of(page)["map"]["names"] == ["lon", "lat"]
    assert str(folder) not in page
    assert "hotvae explain model new.csv --out report.html" in page
    assert content_of(page)["names"] == list(load_model(folder / "model").label_names_)


def test_explain__hostile_file_names__stay_text(folder, capsys):
    name = "<img src=x onerror=alert(1)> & 'rows'"
    (folder / f"{name}.csv").write_bytes((folder / "new.csv").read_bytes())
    out = folder / f"{name}.html"
    assert main(["explain", str(folder / "model"), str(folder / f"{name}.csv"), "--out", str(out), "--quiet"]) == 0
    assert str(out) in capsys.readouterr().out
    page = out.read_text(encoding="utf-8")
    assert "<img" not in page
    assert page.count("&lt;img src=x onerror=alert(1)&gt; &amp; ") >= 4  # title, heading, card and command


def test_explain__mistakes__are_one_line(folder, capsys):
    capsys.readouterr()
    model, table = str(folder / "model"), str(folder / "new.csv")
    cases = {
        "out must name the page": [model, table],
        "output must end in .html": [model, table, "--out", "page.txt"],
        "table must be given for this model": [model, "--out", str(folder / "other.html")],
        "gradient must be a feature": [model, table, "--out", str(folder / "other.html"), "--gradient", "height"],
    }
    for message, words in cases.items():
        assert main(["explain", *words, "--quiet"]) == 2
        assert message in capsys.readouterr().err
    (folder / "there.html").write_text("mine")
    assert main(["explain", model, table, "--out", str(folder / "there.html")]) == 2
    assert "Pass --force to replace it" in capsys.readouterr().err
    assert (folder / "there.html").read_text() == "mine"
    assert not (folder / "other.html").exists()


def test_explain__training_table__warns_on_the_page(folder, capsys):
    out = folder / "same.html"
    words = [str(folder / "model"), str(folder / "region.csv"), "--out", str(out), "--json"]
    assert main(["explain", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["n_labels"] == 6
    assert found["n_associations"] is None
    assert "has the name of the table the model was trained on" in out.read_text(encoding="utf-8")
