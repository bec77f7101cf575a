"""A disk that fails: the k-th write, rename or flush of an operation ends it, and what was there must be whole.

An operation runs in a child process, which either is told that the disk is full or dies on the spot. Then the old thing
or the new one must be there, whole, and the same operation must succeed without leaving anything behind.
"""

import builtins
import errno
import io
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow.parquet
import torch

from hotvae import checkpoint
from hotvae.checkpoint import load_folder, read_tensors, save_folder, write_tensors
from hotvae.data.frames import read_frame, write_table
from hotvae.errors import HotVAEError
from hotvae.estimators.registry import load_model
from hotvae.files import write_text
from hotvae.jobs.predict import predict_stream

Mode = Literal["kill", "error", "full"]
KILLED, REFUSED, SURPRISED = 99, 2, 3


class FailingDisk:
    """Counts what reaches the disk, and fails at one of these steps.

    Parameters
    ----------
    fatal : int
        Which step fails, from 1; 0 is none.
    mode : {"kill", "error", "full"}
        The process dies there; it is told so once; or every later write fails as well.
    """

    def __init__(self, fatal: int, mode: Mode) -> None:
        self.fatal, self.mode, self.n_steps = fatal, mode, 0

    def step(self, name: str) -> None:
        """Count a step, and fail if it is its turn."""
        self.n_steps += 1
        frees = name in ("unlink", "rmdir")  # a full disk can still be cleared
        if self.n_steps == self.fatal or (self.mode == "full" and 0 < self.fatal < self.n_steps and not frees):
            if self.mode == "kill":
                os._exit(KILLED)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)

    def install(self) -> None:
        """Stand between this process and its disk, for good."""
        for name in ("replace", "rename", "fsync", "mkdir", "unlink", "rmdir", "truncate"):
            setattr(os, name, self._counted(name, getattr(os, name)))
        checkpoint._exchanged = self._counted("exchange", checkpoint._exchanged)
        real = io.open

        def opened(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
            handle = real(file, mode, *args, **options)
            return _Handle(handle, self) if set(mode) & set("wax+") else handle

        builtins.open = io.open = opened  # type: ignore[assignment]
        writer: Any = pyarrow.parquet.ParquetWriter
        for name in ("write_table", "close"):
            setattr(writer, name, self._counted(name, getattr(writer, name)))

    def _counted(self, name: str, call: Any) -> Any:
        def counted(*args: Any, **options: Any) -> Any:
            self.step(name)
            return call(*args, **options)

        return counted


class _Handle:
    """An open file whose writes are steps; one that fails has written half."""

    def __init__(self, handle: Any, disk: FailingDisk) -> None:
        self._handle, self._disk = handle, disk

    def write(self, content: Any) -> Any:
        if self._disk.n_steps + 1 == self._disk.fatal:
            self._handle.write(content[: len(content) // 2])
            self._handle.flush()
        self._disk.step("write")
        return self._handle.write(content)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)

    def __enter__(self) -> "_Handle":
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.close()

    def __iter__(self) -> Any:
        return iter(self._handle)


@dataclass(frozen=True)
class Operation:
    """Something that changes a folder from one whole state to another.

    Attributes
    ----------
    do : callable
        Makes the thing of a number.
    read : callable
        Returns the number of the thing that is there, None if there is none; raises if it is not whole.
    hidden : tuple of str
        What may wait beside it for the next run.
    """

    do: Callable[[Path, int], None]
    read: Callable[[Path], int | None]
    hidden: tuple[str, ...] = ()


def _tensors(number: int) -> dict[str, torch.Tensor]:
    return {f"layer {i}": torch.full((3 + i, 5), float(number + i)) for i in range(4)}


def _save(folder: Path, number: int) -> None:
    save_folder(folder / "model", {"kind": "test", "number": number}, _tensors(number))


def _save_in_two_steps(folder: Path, number: int) -> None:
    with mock.patch.object(checkpoint, "_exchanged", return_value=False):
        _save(folder, number)


def _saved(folder: Path) -> int | None:
    if not (folder / "model").is_dir() and not (folder / ".model.old").is_dir():
        return None
    config, tensors = load_folder(folder / "model")
    number = int(config["number"])
    assert all(torch.equal(tensors[name], tensor) for name, tensor in _tensors(number).items())
    return number


def _state(folder: Path, number: int) -> None:
    write_tensors(folder / "model.state", _tensors(number), {"number": number})


def _stated(folder: Path) -> int | None:
    if not (folder / "model.state").exists():
        return None
    tensors, notes = read_tensors(folder / "model.state")
    assert all(torch.equal(tensors[name], tensor) for name, tensor in _tensors(notes["number"]).items())
    return int(notes["number"])


def _table_operation(name: str) -> Operation:
    def frame(number: int) -> pd.DataFrame:
        return pd.DataFrame({"row": np.arange(30), "wren": np.full(30, number)})

    def read(folder: Path) -> int | None:
        if not (folder / name).exists():
            return None
        found = read_frame(folder / name)
        number = int(found["wren"].iloc[0])
        pd.testing.assert_frame_equal(found, frame(number), check_dtype=False)
        return number

    return Operation(lambda folder, number: write_table(frame(number), folder / name), read)


def _text(folder: Path, number: int) -> None:
    write_text(folder / "page.html", f"{number}\n" * 5000)


def _texted(folder: Path) -> int | None:
    if not (folder / "page.html").exists():
        return None
    (number,) = set((folder / "page.html").read_text().splitlines())
    assert (folder / "page.html").read_text() == f"{number}\n" * 5000
    return int(number)


def _result(folder: Path, number: int) -> None:
    from paper.experiments import Cell
    from paper.store import Store

    cell = Cell("tables", "ridge", "ridge", "yeast", seed=number)
    Store(folder).append({"cell": cell.to_dict(), "status": "done", "seconds": 1.0})


def _results(folder: Path) -> int | None:
    from paper.store import Store

    seeds = [line["cell"]["seed"] for line in Store(folder).lines("tables")]
    return max(seeds) if seeds else None


class Operations:
    """All operations, by name.

    Parameters
    ----------
    model : path
        A trained model, for streams.
    table : path
        Its Parquet table.
    """

    def __init__(self, model: Path, table: Path) -> None:
        self.model, self.table = load_model(model), table
        save = Operation(_save, _saved)
        self.by_name = {
            "save": save,
            "replace": save,
            "replace without exchange": Operation(_save_in_two_steps, _saved),
            "state": Operation(_state, _stated),
            "csv": _table_operation("p.csv"),
            "packed csv": _table_operation("p.csv.gz"),
            "parquet": _table_operation("p.parquet"),
            "text": Operation(_text, _texted),
            "results": Operation(_result, _results),
            "stream": Operation(self._stream, self._streamed, (".probs.parquet.parts",)),
        }
        self.n_steps: dict[tuple[str, int | None], int] = {}
        self._expected: pd.DataFrame | None = None

    def _stream(self, folder: Path, number: int) -> None:
        table = folder / "rows.parquet"
        if not table.exists():
            shutil.copy(self.table, table)
        predict_stream(
            self.model,
            table,
            folder / "probs.parquet",
            threshold=number / 1000,
            binary_out=folder / "binary.parquet",
            rows_at_once=16,
            ignore_unknown=True,
        )

    def _streamed(self, folder: Path) -> int | None:
        if not (folder / "probs.parquet").exists():
            return None
        probs = pd.read_parquet(folder / "probs.parquet")
        pd.testing.assert_frame_equal(probs, self._whole_stream(folder))
        return (
            1
            if not (folder / "binary.parquet").exists()
            else 1 + len(pd.read_parquet(folder / "binary.parquet")) // len(probs)
        )

    def _whole_stream(self, folder: Path) -> pd.DataFrame:
        if self._expected is None:
            predict_stream(self.model, self.table, folder / "whole.parquet", rows_at_once=7, ignore_unknown=True)
            self._expected = pd.read_parquet(folder / "whole.parquet")
            (folder / "whole.parquet").unlink()
        return self._expected

    def crash(self, name: str, number: int, folder: Path) -> str:
        """Let an operation fail somewhere, and say what is wrong afterwards; empty if nothing is."""
        random_ = random.Random(f"{name} {number}")
        operation, mode = self.by_name[name], random_.choice(("kill", "error", "full"))
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        before = None
        if name not in ("save", "stream") and random_.random() < 0.9:
            operation.do(folder, 1)
            before = 1
        visible = {entry.name for entry in folder.iterdir()}
        key = name, before
        if key not in self.n_steps:
            self.n_steps[key] = self._count(name, folder)
        n_steps = self.n_steps[key]
        code = _in_child(lambda: operation.do(folder, 2), FailingDisk(random_.randint(1, n_steps), mode))
        try:
            after = operation.read(folder)
        except Exception as error:
            return f"{mode}: not whole: {type(error).__name__}: {error}"
        if after is None and before is not None:
            return f"{mode}: lost"
        if mode == "kill" and code not in (KILLED, 0):
            return f"{mode}: child ended with {code}"
        if mode != "kill" and code not in (REFUSED, 0):
            return f"{mode}: no clean error but {code}"
        if code == 0 and after is None:
            return f"{mode}: success without a result"
        left = {entry.name for entry in folder.iterdir() if entry.name.startswith(".")} - visible
        if mode == "error" and code == REFUSED and left - {*operation.hidden, ".model.old"}:
            return f"{mode}: left behind {left}"
        operation.do(folder, 3)
        if operation.read(folder) is None:
            return f"{mode}: the next run made nothing"
        litter = {entry.name for entry in folder.iterdir() if entry.name.startswith(".")}
        if name in ("save", "replace", "replace without exchange", "stream") and litter:
            return f"{mode}: litter after the next run: {litter}"
        return ""

    def _count(self, name: str, folder: Path) -> int:
        """Count the steps of an operation, on a copy of the folder."""
        copy = folder.with_name(folder.name + ".copy")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        disk = FailingDisk(0, "error")
        code = _in_child(lambda: self.by_name[name].do(copy, 2), disk, count_to=copy.with_suffix(".steps"))
        assert code == 0
        found = int(copy.with_suffix(".steps").read_text())
        shutil.rmtree(copy)
        return found


def _in_child(do: Callable[[], None], disk: FailingDisk, count_to: Path | None = None) -> int:
    """Run something in a child process whose disk may fail; return its exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = SURPRISED
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # writers that are thrown away complain once more
        disk.install()
        do()
        code = 0
        if count_to is not None:
            count_to.write_text(str(disk.n_steps))
    except (HotVAEError, OSError):  # what the command line puts into a sentence
        code = REFUSED
    finally:
        os._exit(code)
