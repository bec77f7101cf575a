"""Results in files: several writers, kills, lines that are no results."""

import json
import multiprocessing

import pytest

from hotvae.errors import DataError
from paper.experiments import Cell
from paper.store import Store, fit_fingerprint, place_of

CELL = Cell("tables", "ridge", "ridge", "yeast")


def line(status="done", seed=0, fit="f", **more):
    return {
        "cell": Cell("tables", "ridge", "ridge", "yeast", seed=seed).to_dict(),
        "status": status,
        "fit": fit,
        **more,
    }


def write_many(folder, writer):
    store = Store(folder)
    for number in range(40):
        store.append(line(seed=number, writer=writer, padding="x" * 5000))


def test_append__two_processes_at_once__every_line_whole(tmp_path):
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=write_many, args=(tmp_path, number)) for number in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    lines = Store(tmp_path).lines("tables")
    assert len((tmp_path / "tables.jsonl").read_text().splitlines()) == 80
    assert sorted((found["writer"], found["cell"]["seed"]) for found in lines) == [
        (writer, seed) for writer in range(2) for seed in range(40)
    ]


def test_lines__last_one_torn_by_a_kill__passed_over_and_the_next_is_whole(tmp_path):
    store = Store(tmp_path)
    store.append(line(seed=0))
    with store.path("tables").open("a") as file:
        file.write('{"cell": {"experiment": "tab')
    assert [found["cell"]["seed"] for found in store.lines("tables")] == [0]
    store.append(line(seed=1))
    assert [found["cell"]["seed"] for found in store.lines("tables")] == [0, 1]


def test_lines__whole_line_that_is_no_result__refused(tmp_path):
    store = Store(tmp_path)
    store.path("tables").write_text(json.dumps({"wren": 1}) + "\n")
    with pytest.raises(DataError, match=r"results must be lines with cell and status; got .*wren.*line 1"):
        store.lines("tables")


def test_latest__failure_after_done__done_outweighs_it_only_with_the_same_fit(tmp_path):
    store = Store(tmp_path)
    store.append(line())
    store.append(line("failed", error="no"))
    assert store.latest("tables")[CELL.place]["status"] == "done"
    store.append(line("failed", fit="other", error="no"))
    assert store.latest("tables")[CELL.place]["status"] == "failed"
    store.append(line(fit="other", value=2))
    assert store.latest("tables")[CELL.place]["value"] == 2


def test_fits__only_done__by_fingerprint(tmp_path):
    store = Store(tmp_path)
    store.append(line(fit="a"))
    store.append(line("failed", seed=1, fit="b", error="no"))
    assert list(store.fits(["tables", "recipe"])) == ["a"]


def test_fit_fingerprint__seed_settings_or_measures_differ__differs():
    base = fit_fingerprint(CELL, {"dim": 1})
    assert fit_fingerprint(CELL, {"dim": 2}) != base
    assert fit_fingerprint(Cell("tables", "ridge", "ridge", "yeast", seed=1), {"dim": 1}) != base
    assert fit_fingerprint(Cell("x", "y", "ridge", "yeast"), {"dim": 1}) == base
    assert fit_fingerprint(Cell("x", "y", "ridge", "yeast", measures=("ecology",)), {"dim": 1}) != base


def test_place_of__line__is_that_of_its_cell():
    assert place_of(line(seed=4)) == ("tables", "ridge", "yeast", 0, 4)


def test_rows_folder__made__git_passes_over_it(tmp_path):
    folder = Store(tmp_path).make_rows_folder()
    assert (folder / ".gitignore").read_text() == "*\n"
