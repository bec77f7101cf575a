"""Two runs at one place at the same time."""

import sys

import pytest

from tests.hostile.concurrency import ROUNDS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="child processes are forked")


@pytest.mark.parametrize("kind", ROUNDS)
def test_runs__at_once__nothing_is_mixed_or_lost(kind, shop, tmp_path):
    assert {ROUNDS[kind](shop, tmp_path / "rounds", number) for number in range(4)} == {""}
