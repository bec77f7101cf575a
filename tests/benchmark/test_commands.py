"""``hotvae benchmark`` and ``hotvae tune`` on the command line."""

import json
import sys

import pytest

from hotvae.benchmark import runner
from hotvae.cli import main


def test_benchmark__smoke_in_processes__runs_resumes_and_renders(tmp_path, capsys, monkeypatch):
    results, docs = tmp_path / "r", tmp_path / "docs"
    command = ["benchmark", "tables", "--smoke", "--results", str(results), "--only", "prevalence"]
    assert main(command) == 0
    told = capsys.readouterr()
    assert "1 cells done, 0 failed" in told.out
    assert "[1/1] tables: prevalence on virtual-80-6, seed 0: done" in told.err
    assert main(command) == 0
    assert "0 cells to run; 1 done" in capsys.readouterr().err
    assert main(["benchmark", "--render", "--results", str(results), "--docs", str(docs)]) == 0
    assert "wrote" in capsys.readouterr().out
    assert "Prevalence" in (docs / "benchmarks.md").read_text() or "prevalence" in (docs / "benchmarks.md").read_text()
    text = (results / "tables.jsonl").read_text()
    assert str(tmp_path) not in text
    line = json.loads(text)
    assert line["metrics"]["honest"]["n_rows"] == 16
    assert line["peak_memory_gb"] > 0
    assert line["command"] == "hotvae benchmark tables --smoke --results r --only prevalence"
    assert (results / "rows" / f"{line['fit']}.npz").exists()


def test_benchmark__dry_run__says_cells_and_runs_nothing(tmp_path, capsys):
    command = ["benchmark", "tables", "--results", str(tmp_path / "r"), "--only", "yeast,ridge,seed=0", "--dry-run"]
    assert main(command) == 0
    assert capsys.readouterr().out == "tables ridge yeast 0 0\n"
    assert not (tmp_path / "r").exists()


def test_benchmark__cell_that_fails__code_1_and_its_message(tmp_path, capsys, monkeypatch):
    script = tmp_path / "worker.py"
    script.write_text("import sys; sys.exit('no luck')")
    run = runner.run
    monkeypatch.setattr(runner, "run", lambda *a, **k: run(*a, **k | {"worker": [sys.executable, "-S", str(script)]}))
    command = ["benchmark", "tables", "--smoke", "--results", str(tmp_path / "r"), "--only", "prevalence"]
    assert main(command) == 1
    assert "failed: the process ended with code 1 (no luck)" in capsys.readouterr().err
    assert main(command) == 0
    assert "1 failed before (--retry runs them again)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tabels"], "Did you mean 'tables'?"),
        ([], "experiment must be named; got none"),
        (["tables", "--budget", "soon"], "--budget must be a length of time"),
        (["tables", "--limit", "0"], "--limit must be a length of time"),
        (["tables", "--only", "yaest"], "Did you mean 'yeast'?"),
        (["tables", "--jobs", "0", "--only", "yeast,ridge,seed=0"], "jobs must be at least 1; got 0"),
    ],
)
def test_benchmark__mistakes__one_line_and_code_2(words, message, tmp_path, capsys):
    assert main(["benchmark", *words, "--results", str(tmp_path)]) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert message in told[-1]


def test_benchmark__smoke_without_a_folder__refused(capsys):
    assert main(["benchmark", "tables", "--smoke"]) == 2
    assert "--smoke must go with --results" in capsys.readouterr().err


def test_tune__model_without_a_space__refused(tmp_path, capsys):
    assert main(["tune", "yeast", "--model", "prevalence", "--out", str(tmp_path / "p.toml")]) == 2
    assert "model must have settings to search" in capsys.readouterr().err
