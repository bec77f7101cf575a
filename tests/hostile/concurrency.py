"""Several runs at one place at once: nothing is mixed, nothing is lost."""

import contextlib
import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import torch

from hotvae.checkpoint import load_folder, save_folder
from hotvae.cli import main
from hotvae.estimators.registry import load_model
from tests.hostile.cases import READ, Workshop


def _at_once(*jobs: Callable[[], int]) -> list[int]:
    """Run jobs in child processes at the same time; return their exit codes."""
    children = []
    for job in jobs:
        child = os.fork()
        if not child:
            code = 70
            try:
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                    code = job()
            finally:
                os._exit(code)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _litter(folder: Path) -> str:
    hidden = sorted(entry.name for entry in folder.iterdir() if entry.name.startswith(".") or "state" in entry.name)
    return f"litter: {hidden}" if hidden else ""


def two_trains(shop: Workshop, folder: Path, number: int) -> str:
    """Two trainings into one folder: one of the models, whole; the other is told, or comes first or last."""
    out = _fresh(folder) / "model"
    kinds = {"prevalence": "Prevalence", "ridge": "LinearRidge"}

    def job(kind: str) -> Callable[[], int]:
        words = [
            "train",
            shop.file("sites.csv"),
            *READ,
            "--model",
            kind,
            "--quiet",
            "--force",
            "--seed",
            str(number % 1000),
        ]
        return lambda: main([*words, "--out", str(out)])

    codes = dict(zip(kinds, _at_once(*map(job, kinds)), strict=True))
    if not set(codes.values()) <= {0, 2} or 0 not in codes.values():
        return f"exit codes {codes}"
    found = type(load_model(out)).__name__
    if found not in {kinds[kind] for kind, code in codes.items() if code == 0}:
        return f"{found} was not the one that succeeded: {codes}"
    return _litter(folder)


def two_predicts(shop: Workshop, folder: Path, number: int) -> str:
    """Two predictions into one file: the rows of one of them."""
    out = _fresh(folder) / "probs.parquet"
    models = ("prevalence", "ridge")

    def job(model: str, to: Path) -> Callable[[], int]:
        words = ["predict", str(shop.good / model), shop.file("sites.parquet"), "--force", "--out", str(to)]
        return lambda: main(words)

    codes = dict(zip(models, _at_once(*(job(model, out) for model in models)), strict=True))
    if not set(codes.values()) <= {0, 2} or 0 not in codes.values():
        return f"exit codes {codes}"
    found = pd.read_parquet(out)
    for model in (model for model, code in codes.items() if code == 0):
        alone = folder.parent / f"{model} alone.parquet"
        if not alone.exists():
            assert _at_once(job(model, alone)) == [0]
        if found.equals(pd.read_parquet(alone)):
            return _litter(folder)
    return "rows of neither, or of both"


def two_benchmarks(shop: Workshop, folder: Path, number: int) -> str:
    """Two runs that append results to one file: every line of both."""
    from paper.experiments import Cell
    from paper.store import Store

    store, n_lines = Store(_fresh(folder)), 5

    def job(variant: str) -> Callable[[], int]:
        def append() -> int:
            for seed in range(n_lines):
                cell = Cell("tables", variant, "ridge", "yeast", seed=seed)
                store.append({"cell": cell.to_dict(), "status": "done", "notes": "x" * (number % 9000)})
            return 0

        return append

    codes = _at_once(job("one"), job("other"))
    found = sorted((line["cell"]["variant"], line["cell"]["seed"]) for line in store.lines("tables"))
    wanted = sorted((variant, seed) for variant in ("one", "other") for seed in range(n_lines))
    return "" if codes == [0, 0] and found == wanted else f"{codes}, {len(found)} of {len(wanted)} lines"


def load_during_replace(shop: Workshop, folder: Path, number: int) -> str:
    """A model that is replaced while it is read: one of the two, whole."""
    path = _fresh(folder) / "model"

    def save(which: int) -> None:
        save_folder(path, {"kind": "test", "number": which}, {"a": torch.full((500,), float(which))})

    save(0)

    def write() -> int:
        for which in range(1, 8):
            save(which)
        return 0

    def read() -> int:
        for _ in range(8):
            config, tensors = load_folder(path)
            if not bool((tensors["a"] == config["number"]).all()):
                return 1
        return 0

    codes = _at_once(write, read, read)
    return "" if codes == [0, 0, 0] else f"exit codes {codes}"


ROUNDS: dict[str, Callable[[Workshop, Path, int], str]] = {
    "two trains": two_trains,
    "two predicts": two_predicts,
    "two benchmarks": two_benchmarks,
    "load during replace": load_during_replace,
}
"""What runs at once."""
