"""The command line as a whole: help, exit codes, errors and warnings as one line."""

import os
import re
import subprocess
import sys

import pytest

from hotvae.cli import main
from hotvae.errors import DataWarning
from hotvae.estimators.registry import model_of_folder


def test_help__fresh_process__imports_nothing_heavy():
    script = (
        "import sys; from hotvae.cli import main; code = main(['--help']);"
        "heavy = {'torch', 'numpy', 'pandas', 'scipy', 'sklearn', 'matplotlib'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else code)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    for command in ("demo", "train", "predict", "evaluate", "info"):
        assert f"  {command} " in result.stdout


def test_no_arguments__print_help(run):
    code, out, err = run()
    assert code == 0
    assert out.startswith("Usage: hotvae [OPTIONS] COMMAND")
    assert err == ""


def test_version__is_that_of_the_package(run):
    from importlib.metadata import version

    code, out, err = run("--version")
    assert (code, err) == (0, "")
    assert re.fullmatch(
        rf"hotvae {version('hotvae')}, torch {re.escape(version('torch'))}\S* on (cpu|cuda|mps), Python 3\S+\n", out
    )


def test_completion__part_of_a_command__is_completed():
    words = {"_HOTVAE_COMPLETE": "complete_bash", "COMP_WORDS": "hotvae expl", "COMP_CWORD": "1"}
    code = "import sys; from hotvae.cli import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | words, text=True, capture_output=True)
    assert set(done.stdout.split()) == {"explain", "explore"}


@pytest.mark.parametrize("command", ["demo", "train", "predict", "evaluate", "info"])
def test_command_help__explains_and_exits_with_0(run, command):
    code, out, _ = run(command, "--help")
    assert code == 0
    assert out.startswith(f"Usage: hotvae {command} ")


def test_unknown_command_and_option__name_close_ones(fails, folder):
    assert "Did you mean 'train'" in fails("trian")
    assert "--labels" in fails("train", folder / "region.csv", "--lables", "sp_*")
    assert "Missing argument 'MODEL'" in fails("info")
    assert "Missing option '--out'" in fails("predict", folder / "model", folder / "new.csv")
    assert "Invalid value for '--epochs'" in fails("train", folder / "region.csv", "--epochs", "many")


@pytest.mark.parametrize("command", ["predict", "evaluate", "info"])
def test_model__missing_or_foreign_folder__is_refused(folder, tmp_path, fails, command):
    rest = {
        "predict": [folder / "new.csv", "--out", tmp_path / "p.csv"],
        "evaluate": [folder / "new.csv"],
        "info": [],
    }
    assert "model folder must exist; got" in fails(command, tmp_path / "none", *rest[command])
    assert "model folder must hold config.json" in fails(command, tmp_path, *rest[command])


def test_unexpected_exception__is_not_hidden(folder, monkeypatch):
    def broken(*stored):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("hotvae.jobs.info.model_of_folder", broken)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        main(["info", str(folder / "model")])


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory"), RuntimeError("CUDA out of memory.")],
)
def test_memory__that_there_is_none_of__is_one_sentence(folder, monkeypatch, fails, error):
    def large(*stored):
        raise error

    monkeypatch.setattr("hotvae.jobs.info.model_of_folder", large)
    assert "data must fit into memory; got more than there is." in fails("info", folder / "model")


def test_warnings__repeated__are_shown_once_and_filters_are_given_back(folder, monkeypatch, run):
    import warnings

    def warned(*stored):
        for _ in range(2):
            warnings.warn("twice\n  over", DataWarning, stacklevel=1)
        return model_of_folder(*stored)

    monkeypatch.setattr("hotvae.jobs.info.model_of_folder", warned)
    before = list(warnings.filters)
    assert run("info", folder / "model")[2] == "warning: twice over\n"
    assert list(warnings.filters) == before
