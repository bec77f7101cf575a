"""The k-th write, rename or flush fails: the old thing or the new one is there, whole."""

import sys

import pytest

from tests.hostile import crashes
from tests.hostile.crashes import Operation, Operations

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a child process is forked")

NAMES = (
    "save",
    "replace",
    "replace without exchange",
    "state",
    "csv",
    "packed csv",
    "parquet",
    "text",
    "results",
    "stream",
)


@pytest.fixture(scope="module")
def operations(shop):
    found = Operations(shop.good / "ridge", shop.good / "sites.parquet")
    assert tuple(found.by_name) == NAMES
    return found


@pytest.mark.parametrize("name", NAMES)
def test_operation__disk_fails_in_the_middle__old_or_new_is_whole(name, operations, tmp_path):
    n_cases = 4 if name == "stream" else 12
    found = {number: operations.crash(name, number, tmp_path / "crash") for number in range(n_cases)}
    assert {number: problem for number, problem in found.items() if problem} == {}


def test_crash__writer_that_is_not_careful__is_found(operations, tmp_path, monkeypatch):
    """A file that is written in place is lost, or half of it is there."""

    def careless(folder, number):
        (folder / "page.html").write_text(f"{number}\n" * 5000)

    monkeypatch.setitem(operations.by_name, "text", Operation(careless, crashes._texted))
    operations.n_steps.clear()
    found = [operations.crash("text", number, tmp_path / "crash") for number in range(6)]
    operations.n_steps.clear()
    assert any("not whole" in problem for problem in found)
