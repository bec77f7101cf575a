"""The yardsticks for threads, many labels and long tables, each on next to nothing."""

import json

import numpy as np
import pytest

from paper.speed import many_labels, stream, threads

# Threads --------------------------------------------------------------------------------------------------


def test_thread_settings__short_spin__only_where_threads_wait_for_each_other():
    settings = threads.thread_settings(4)
    assert [n_threads for n_threads, _ in settings.values()] == [1, 4, 4]
    assert settings["all, short"][1] == {"GOMP_SPINCOUNT": "10000"}


def test_summarise__two_rounds__ratio_of_medians_to_one_thread():
    def turn(*seconds):
        return {"4,8,1": {"seconds": list(seconds), "cpu_seconds": 2 * seconds[0]}}

    rounds = [{"one": turn(1.0, 1.0), "all": turn(4.0, 0.5)}, {"one": turn(1.0, 9.0), "all": turn(0.5, 0.5)}]
    one, every = threads.summarise(["4,8,1"], rounds)
    assert (one["speedup"], every["speedup"]) == (1.0, 2.0)
    assert every["cpu_seconds"] == 4.5
    assert every["seconds_min"] == 0.5


def test_threads__tiny__writes_every_setting(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(threads, "measure_apart", lambda *call: threads.measure_steps(*call[:2], 1, call[-1]))
    threads.main(["--sizes", "3,8,1", "--rounds", "1", "--steps", "2", "--out", str(tmp_path)])
    written = json.loads((tmp_path / "threads.json").read_text())
    assert [cell["setting"] for cell in written["cells"]] == ["one", "all", "all, short"]
    assert len(written["load"]) == 3
    assert all(len(cell["seconds"]) == 2 and cell["cpu_seconds"] > 0 for cell in written["cells"])
    assert "times as fast as one thread" in capsys.readouterr().out


# Many labels ----------------------------------------------------------------------------------------------


def test_crossing__between_two_points__where_the_lines_of_logarithms_meet():
    # time of one grows with the square of labels, that of the other linearly: they meet at 50
    labels = [10, 100, 1000]
    squares, lines = [n**2 for n in labels], [50 * n for n in labels]
    assert many_labels.crossing(labels, squares, lines) == pytest.approx(50)
    assert many_labels.crossing(labels, lines, squares) is None  # it was quicker, but is no longer
    assert many_labels.crossing(labels[1:], squares[1:], lines[1:]) == 100


def test_path_task__each_path__its_own_graph():
    exact, near = (many_labels.path_task(path, 200) for path in many_labels.PATHS)
    assert exact.graph() is None
    assert 10 < near.graph().sum(1).float().mean() < 40


def test_make_clusters__labels_of_a_cluster__go_together_and_hear_each_other():
    rows, graph = many_labels.make_clusters(40, 4, 3000, 10, 10, seed=0)
    labels, graph = rows["train"][1], graph.toarray()
    assert [len(rows[part][0]) for part in ("train", "held", "test")] == [3000, 10, 10]
    assert np.array_equal(graph, np.kron(np.eye(10, dtype=bool), np.ones((4, 4), dtype=bool)))
    together = np.corrcoef(labels.T)
    other = graph & ~np.eye(40, dtype=bool)
    assert together[other].mean() > together[~graph].mean() + 0.05


@pytest.mark.slow
def test_many_labels__tiny__every_part_and_those_of_before(tmp_path, monkeypatch):
    monkeypatch.setattr(many_labels, "alone", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(many_labels, "LABELS", (4, 8))
    monkeypatch.setattr(many_labels, "MOST_EXACT", 4)
    small = {"dim": 8, "encoder_widths": (8,), "label_encoder_widths": (8,)}
    monkeypatch.setattr(many_labels, "ACCURACY", many_labels.ACCURACY | small)
    clusters = (12, 3, 60, 20, 20)
    settings = {"direct_epochs": 0, "max_epochs": 2, "learning_rate": 0.01}
    paths = ("direct path alone", "exact", "neighbours")
    monkeypatch.setattr(
        many_labels,
        "measure_synthetic",
        lambda seed: many_labels.measure_accuracy(many_labels.make_clusters, clusters, paths, settings, seed),
    )
    many_labels.main(["--only", "crossover", "--out", str(tmp_path)])
    many_labels.main(["--only", "synthetic", "--out", str(tmp_path)])
    parts = json.loads((tmp_path / "many_labels.json").read_text())["parts"]
    assert list(parts) == ["crossover", "synthetic"]
    found = [(point["path"], point["labels"]) for point in parts["crossover"]["points"]]
    assert found == [("exact", 4), ("neighbours", 4), ("neighbours", 8)]
    losses = {point["path"]: point["log_loss"] for point in parts["synthetic"]["points"]}
    assert len(set(losses.values())) == 3  # another path, another model
    assert all(0 < loss < 1 for loss in losses.values())


@pytest.mark.slow
@pytest.mark.parametrize("path", many_labels.PATHS)
def test_measure_epoch__each_path__time_and_memory(path):
    found = many_labels.measure_epoch(path, 300, 50, seed=0)
    assert found["epoch_seconds"] > 0
    assert found["peak"] is None or found["peak"] > 0


# A long table ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_stream__killed_half_way__whole_and_resumed(tmp_path, monkeypatch):
    settings = {"dim": 4, "n_layers": 1, "encoder_widths": (4,)}
    monkeypatch.setattr(stream, "SETTINGS", settings)
    stream.main(["--rows", "2000", "--labels", "3", "--rows-at-once", "50", "--out", str(tmp_path)])
    written = json.loads((tmp_path / "stream.json").read_text())
    assert written["whole"]
    assert written["largest_difference"] < 1e-6
    assert written["left_over"] == []
    killed, resumed = written["runs"]["killed"], written["runs"]["resumed"]
    assert killed["killed"]
    assert not resumed["killed"]
    assert len(killed["told"]) < len(resumed["told"]) == written["pieces"] == 40
    assert 20 <= written["pieces_found_after_the_kill"] < 40
