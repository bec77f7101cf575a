"""Pages from stored results: numbers, intervals, verdicts, sentences and reasons, all computed."""

import json
import re

import pytest

from hotvae.errors import ConfigError, DataError
from hotvae.metrics import MEASURES
from paper.communities import community_numbers, wins_over
from paper.experiments import EXPERIMENTS, Cell
from paper.facts import is_better, is_comparable, paper, printed, published
from paper.notes import cost_note
from paper.pages import write_pages
from paper.paired import measured_fit
from paper.store import Store
from paper.summaries import counted, joined, mean_of, verdict


def line(cell, **values):
    metrics = {"example_f1": 0.6, "micro_f1": 0.6, "macro_f1": 0.4, "hamming_accuracy": 0.8, "log_loss": 0.5}
    metrics |= {"median_auc": 0.7, "mean_auc": 0.7}
    own = metrics | values.pop("metrics", {})
    return {
        "cell": cell.to_dict(),
        "fit": f"{cell.variant}-{cell.data}-{cell.split}-{cell.seed}",
        "status": "done",
        "title": {"hotvae": "HOT-VAE", "mpvae": "MPVAE"}.get(cell.model, cell.model),
        "metrics": {"honest": own, "oracle": {name: value + 0.05 for name, value in own.items()}},
        "fit_seconds": {"cpu": 12.0, "wall": 13.0},
        "peak_memory_gb": 0.5,
        "seconds": 60.0,
        "date": "2026-01-02T00:00:00+00:00",
        "revision": "abc123",
        "recipe": {},
        **values,
    }


@pytest.fixture
def store(tmp_path):
    """Yeast with two models, known numbers and known verdicts."""
    store = Store(tmp_path / "results")
    for seed, value in enumerate((0.48, 0.50, 0.52)):
        cell = Cell("tables", "hotvae", "hotvae", "yeast", seed=seed)
        store.append(line(cell, metrics={"macro_f1": value, "hamming_accuracy": 0.5}))
    store.append(line(Cell("tables", "mpvae", "mpvae", "yeast"), metrics={"macro_f1": 0.45, "hamming_accuracy": 0.81}))
    store.append(
        {"cell": Cell("tables", "lamp", "lamp", "yeast").to_dict(), "status": "too slow", "error": "ended after 1 h"}
    )
    gap = {"difference": 0.05, "low": 0.01, "high": 0.09}
    same = {"difference": 0.01, "low": -0.01, "high": 0.03}
    behind = {"difference": -0.3, "low": -0.4, "high": -0.2}
    values = {"macro_f1": gap, "micro_f1": same, "example_f1": same, "hamming_accuracy": behind, "log_loss": gap}
    fits = [[measured_fit(line(Cell("tables", model, model, "yeast")))] for model in ("hotvae", "mpvae")]
    (store.folder / "paired.json").write_text(
        json.dumps({"pairs": {"tables/yeast/0/mpvae": {"fits": fits, "metrics": values}}})
    )
    return store


def page(store, tmp_path, name="benchmarks.md"):
    write_pages(store, tmp_path / "docs")
    return (tmp_path / "docs" / name).read_text()


def test_page__known_results__mean_interval_printed_value_and_marks(store, tmp_path):
    text = page(store, tmp_path)
    # Student's interval of .48, .50, .52: 4.303 * .02 / sqrt(3) = .0497; the paper prints .4885 and .4817.
    assert "| HOT-VAE | **0.500 ± 0.050** (0.488) |" in text or "| HOT-VAE | **0.500 ± 0.050** (0.489) |" in text
    assert "| MPVAE | 0.450 − (0.482) |" in text
    assert "| MPVAE | **0.810** + (0.792) |" in text


def test_page__known_verdicts__counted_and_said(store, tmp_path):
    text = page(store, tmp_path)
    assert "HOT-VAE against 1 rival on 1 set in ebF1, miF1, maF1 and HA: 1 win, 2 ties, 1 loss." in text
    assert "| MPVAE | 1/2/1 | 1/2/1 |" in text
    assert "Significant losses: on yeast behind MPVAE (HA)." in text
    assert "1 of 4 of the paper's numbers for its own model are reached" in text
    assert "HA on yeast (0.500, paper 0.795)" in text


def test_page__measure_that_was_not_compared__is_no_tie(store, tmp_path):
    path = store.folder / "paired.json"
    told = json.loads(path.read_text())
    del told["pairs"]["tables/yeast/0/mpvae"]["metrics"]["example_f1"]
    path.write_text(json.dumps(told))
    assert ": 1 win, 1 tie, 1 loss; 1 not compared yet." in page(store, tmp_path)


def test_page__parts_of_the_model__are_no_rivals(store, tmp_path):
    path = store.folder / "paired.json"
    told = json.loads(path.read_text())
    told["pairs"]["tables/yeast/0/base alone"] = told["pairs"].pop("tables/yeast/0/mpvae")
    path.write_text(json.dumps(told))
    store.append(line(Cell("tables", "base alone", "hotvae", "yeast"), metrics={"macro_f1": 0.4}))
    text = page(store, tmp_path)
    assert "HOT-VAE against 1 rival" not in text
    assert "HOT-VAE has not been compared with any rival row by row yet (4 comparisons)." in text
    assert "No rival is significantly ahead" not in text


def test_page__nearly_reached__enough_digits_to_see_it(store, tmp_path):
    """The paper prints .7947 for yeast: .7946 must not read as 0.795, paper 0.795."""
    for seed in range(3):
        cell = Cell("tables", "hotvae", "hotvae", "yeast", seed=seed)
        store.append(line(cell, metrics={"hamming_accuracy": 0.7946}))
    assert "HA on yeast (0.7946, paper 0.7947)" in page(store, tmp_path)


def test_page__plain_network__what_the_decoder_is_worth_for_what_it_costs(store, tmp_path):
    """HOT-VAE takes 12 s, the plain network 3."""
    store.append(line(Cell("tables", "plain", "plain", "yeast"), fit_seconds={"cpu": 3.0, "wall": 3.0}))
    told = json.loads((store.folder / "paired.json").read_text())
    fits = [[measured_fit(line(Cell("tables", model, model, "yeast")))] for model in ("hotvae", "plain")]
    told["pairs"]["tables/yeast/0/plain"] = {**told["pairs"]["tables/yeast/0/mpvae"], "fits": fits}
    (store.folder / "paired.json").write_text(json.dumps(told))
    text = page(store, tmp_path)
    assert "Against a plain network: 1 win, 2 ties, 1 loss, for 4.0 to 4.0 times the processor" in text


def test_page__not_compared__no_count(store, tmp_path):
    store.append(line(Cell("tables", "hotvae", "hotvae", "scene"), metrics={"macro_f1": 0.5}))
    assert "| MPVAE | 1/2/1 | – | 1/2/1 |" in page(store, tmp_path)


def test_page__missing_cells__say_why(store, tmp_path):
    text = page(store, tmp_path)
    assert "Missing: lamp on yeast, seed 0: too slow: ended after 1 h" in text
    assert "bookmarks: in no package registry" in text
    assert "ebird: eBird records may not be passed on" in text
    assert "Repeat: `hotvae benchmark tables`. 4 of" in text
    assert "4 min 0 s in all" in text


def test_page__twice__the_same_bytes(store, tmp_path):
    assert page(store, tmp_path) == page(store, tmp_path)


def test_page__oracle__apart_from_the_honest_numbers(store, tmp_path):
    honest, _, oracle = page(store, tmp_path).partition("oracle protocol</summary>")
    assert "**0.550 ± 0.050**" in oracle
    assert "0.550" not in honest


@pytest.fixture(scope="module")
def smoke_pages(smoke_store, tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs")
    return folder, write_pages(smoke_store, folder)


@pytest.mark.slow
def test_pages__smoke_of_every_experiment__every_section_and_picture(smoke_pages):
    folder, written = smoke_pages
    assert {path.name for path in written} == {
        *("benchmarks.md", "communities.md"),
        *(f"communities_level_{level}.png" for level in ("occurrence", "richness", "community")),
    }
    text = (folder / "benchmarks.md").read_text()
    for experiment in EXPERIMENTS.values():
        if experiment.name != "communities":
            assert f"## {experiment.title}" in text
    assert "Not run yet" not in text
    for name in ("benchmarks.md", "communities.md"):
        page = (folder / name).read_text()
        for picture in re.findall(r"\]\((images/.*?)\)", page):
            assert (folder / picture).stat().st_size > 5000
        assert not re.search(r"\bnan\b", page)


@pytest.fixture
def no_pictures(monkeypatch):
    monkeypatch.setattr("paper.communities.save_figure", lambda figure, path: path)


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
def test_pages__committed_files_alone__the_same_page(smoke_store, smoke_pages, tmp_path):
    copy = Store(tmp_path / "copy")
    copy.folder.mkdir()
    for path in smoke_store.folder.glob("*.json*"):
        (copy.folder / path.name).write_bytes(path.read_bytes())
    write_pages(copy, tmp_path / "two")
    for name in ("benchmarks.md", "communities.md"):
        assert (smoke_pages[0] / name).read_text() == (tmp_path / "two" / name).read_text()


def test_pages__no_results__refused_and_nothing_written(tmp_path):
    with pytest.raises(DataError, match="results must hold a finished cell; got none"):
        write_pages(Store(tmp_path / "r"), tmp_path / "docs")
    assert not (tmp_path / "docs").exists()


def test_pages__place_that_cannot_be_written_to__refused(store, tmp_path):
    (tmp_path / "docs").write_text("a file")
    with pytest.raises(ConfigError, match="path must be a place one can write to"):
        write_pages(store, tmp_path / "docs")


# --- communities -----------------------------------------------------------------------------------------


def community_line(data, split, values, model="hotvae", n_sites=600):
    cell = Cell("communities", model, model, data, split, measures=("multilabel", "ecology"))
    ecology = {"draws": "joint", "n_sites": n_sites, "gomes": values, "norberg": values}
    return line(cell, ecology=ecology | {"richness_coverage": 0.5, "richness_coverage_shared_ties": 0.45})


def test_wins__better_on_everything__all_but_what_cannot_be_compared():
    best = {name: 1.0 if MEASURES[name].greater_is_better else 0.0 for name in MEASURES}
    dmvp, hmsc = (
        next(row for row in published() if (row.model, row.data) == (m, "bbs2011_wilkinson"))
        for m in ("DMVP-DRNets", "HMSC")
    )
    assert wins_over(best, dmvp, 550) == (20, 20)
    assert wins_over(best, dmvp, 500) == (19, 19)  # other sites: calibration of occurrence is not compared
    assert wins_over(best, hmsc, 550) == (19, 19)  # HMSC's calibration of richness is of 100 sites
    assert wins_over(best | {"rich_discrimination": None}, dmvp, 550) == (19, 19)
    worst = {name: 0.0 if MEASURES[name].greater_is_better else 1e6 for name in MEASURES}
    assert wins_over(worst, dmvp, 550)[0] == 0


@pytest.mark.usefixtures("no_pictures")
def test_communities__one_split_of_norberg_missing__no_mean_for_that_model(tmp_path):
    store = Store(tmp_path / "r")
    values = dict.fromkeys(MEASURES, 0.01)
    for taxon in ("birds", "butterfly", "plant", "trees", "vegetation"):
        for split in range(3):
            store.append(community_line(f"norberg_{taxon}", split, values))
            if (taxon, split) != ("trees", 1):
                store.append(community_line(f"norberg_{taxon}", split, values, "mpvae"))
    text = page(store, tmp_path, "communities.md")
    assert "Not all splits are here for MPVAE (14 of 15); they are left out of the means." in text
    # .01 is best in the 15 measures that should be small, and worst in the five that should be large.
    assert "Norberg et al., mean over splits: HOT-VAE is ahead of the published DMVP-DRNets on 15 of 20" in text
    assert "is ahead of the published HMSC on 14 of 19" in text
    assert "covers 50 % of the test sites" in text


def test_published__means_over_norberg_splits__as_in_the_reference():
    rows = [row for row in published() if row.model == "DMVP-DRNets" and row.data.startswith("norberg")]
    assert len(rows) == 15
    assert {row.n_sites for row in rows} == {600}
    birds = next(row for row in rows if (row.data, row.split) == ("norberg_birds", 2))
    assert birds.values["comm_discrimination_sne"] == 0.00178714


def test_community_numbers__measure_missing_for_one_seed__no_mean():
    values = dict.fromkeys(MEASURES, 0.5)
    lines = [
        community_line("norberg_birds", 0, values),
        community_line("norberg_birds", 0, values | {"occ_accuracy": None}),
    ]
    numbers = community_numbers(lines, "gomes")
    assert numbers["occ_accuracy"] is None
    assert numbers["occ_precision"] == 0.5


# --- facts and numbers -----------------------------------------------------------------------------------


def test_paper__tables__as_printed():
    assert printed("example_f1", "bbs_like_ebird100", "hotvae") == 0.5747
    assert printed("micro_f1", "reuters", "mlknn") is None
    assert printed("hamming_accuracy", "scene", "seq2seq") == 0.9456
    assert paper()["median_auc"]["complete"]["bibtex"] == 0.9457
    assert paper()["ecology"]["mpvae"]["comm_precision_sne"] == 0.0373
    for metric in ("example_f1", "micro_f1", "macro_f1", "hamming_accuracy"):
        assert len(paper()[metric]) == 8
        assert sum(len(row) for row in paper()[metric].values()) == 6 * 7 + 2 * 3


def test_is_better__directions__as_the_measures_say():
    assert is_better("rich_discrimination", 0.9, 0.8)
    assert not is_better("comm_precision_sor", 0.9, 0.8)
    assert not is_better("occ_accuracy", 0.1, 0.1)
    assert is_comparable("rich_calibration", published()[0], 1)


def test_mean__three_values__students_interval():
    found = mean_of([0.48, 0.50, 0.52, None, float("nan")])
    assert (found.n, found.value) == (3, pytest.approx(0.5))
    assert found.half == pytest.approx(4.302653 * 0.02 / 3**0.5, rel=1e-5)
    assert mean_of([0.3]).text() == "0.300"


@pytest.mark.parametrize(
    ("metric", "low", "high", "expected"),
    [
        ("macro_f1", 0.1, 0.2, 1),
        ("macro_f1", -0.2, -0.1, -1),
        ("log_loss", -0.2, -0.1, 1),
        ("log_loss", -0.1, 0.1, 0),
        ("log_loss", 1e-6, 2e-6, 0),  # in every resample, and in no table
    ],
)
def test_verdict__interval__sign_by_the_direction_of_the_measure(metric, low, high, expected):
    found = {"difference": (low + high) / 2, "low": low, "high": high}
    assert verdict({"e/d/0/r": {"metrics": {metric: found}}}, "e", "d", 0, "r", metric) == expected
    assert verdict({}, "e", "d", 0, "r", metric) is None


def test_words__lists_and_counts():
    assert joined([]) == ""
    assert joined(["a"]) == "a"
    assert counted([None, 1, -1, -1, 0]) == (1, 1, 2)


def test_cost_note__copied_cells__cost_nothing(tmp_path):
    store = Store(tmp_path)
    cells = [cell for cell in EXPERIMENTS["tables"].cells() if cell.data == "yeast"]
    store.append(line(cells[0]))
    store.append(line(cells[1], copied_from="tables"))
    assert "cells are here; they took 1 min 0 s" in cost_note(store, EXPERIMENTS["tables"])
