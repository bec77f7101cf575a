"""``hotvae benchmark`` on the command line."""

import json
import os
import subprocess
import sys

import pytest

import hotvae
from hotvae.cli import main
from paper import RESULTS, runner
from tests.processes import end_with_workers


@pytest.mark.slow
def test_benchmark__smoke_in_processes__runs_resumes_and_renders(tmp_path, capsys, monkeypatch):
    """In a folder with another paper, which neither the command nor its workers take for ours."""
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "__init__.py").write_text("raise SystemExit('this is not ours')")
    results, docs = tmp_path / "r", tmp_path / "docs"
    command = ["benchmark", "tables", "--smoke", "--results", str(results), "--only", "prevalence"]
    program = [sys.executable, "-m", "hotvae", *command]
    told = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert "1 cells done, 0 failed" in told.stdout
    assert "[1/1] tables: prevalence on virtual-80-6, seed 0: done" in told.stderr
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


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="asks for the processes of a group")
def test_benchmark__ended_by_sigterm__its_worker_ends_with_it(tmp_path):
    said = end_with_workers(["benchmark", "communities", "--results", ".", "--smoke", "--limit", "1h"], tmp_path)
    assert "interrupted; the same command goes on with what is missing" in said


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


# --- where the experiments are ---------------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package that was installed without its checkout, in a folder with another paper."""
    monkeypatch.setattr(hotvae, "__file__", str(tmp_path / "site" / "lib" / "hotvae" / "__init__.py"))
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "experiments.py").write_text("raise SystemExit('this is not ours')")
    monkeypatch.chdir(tmp_path)


def test_benchmark__no_checkout__one_line_and_code_2(installed, capsys):
    assert main(["benchmark", "--render"]) == 2
    (said,) = capsys.readouterr().err.strip().splitlines()
    assert "hotvae benchmark must be run in a source checkout of hotvae" in said


def test_benchmark__help_without_a_checkout__is_there(installed, capsys):
    assert main(["benchmark", "--help"]) == 0
    assert "--budget" in capsys.readouterr().out


def test_benchmark__in_a_checkout__its_own_results(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(RESULTS.parents[1])
    assert main(["benchmark", "tables", "--only", "yeast,prevalence,seed=0", "--dry-run"]) == 0
    assert "0 cells to run; 1 done" in capsys.readouterr().err
