"""Malformed tables, archives, settings, options and models: success, or one sentence."""

import sys

import pytest

from tests.hostile.cases import KINDS, Case, claims
from tests.hostile.judge import judged

N_CASES = 40


@pytest.mark.parametrize("kind", KINDS)
def test_command_line__damaged_input__succeeds_or_says_one_sentence(kind, shop):
    found = {number: judged(shop.make(kind, number)) for number in range(N_CASES)}
    assert {number: problem for number, (_, problem) in found.items() if problem} == {}
    # Damage that is always fatal, or never, would test little.
    assert {code for code, _ in found.values()} == {0, 2}


@pytest.mark.parametrize(("kind", "number"), [("land", 410), ("land", 1045)])
def test_command_line__case_that_went_wrong_once__says_one_sentence(kind, number, shop):
    assert judged(shop.make(kind, number)) == (2, "")


def test_models__that_claim_large_sizes__succeed_or_say_one_sentence(shop):
    found = {title: judged(case) for title, case in claims(shop, every=61)}
    assert {title: problem for title, (_, problem) in found.items() if problem} == {}
    assert {code for code, _ in found.values()} == {0, 2}


def test_cases__same_kind_and_number__are_the_same(shop):
    one = shop.make("table to train on", 7).arguments, {p.name: p.read_bytes() for p in shop.bench.iterdir()}
    other = shop.make("table to train on", 7).arguments, {p.name: p.read_bytes() for p in shop.bench.iterdir()}
    assert one == other


def test_judge__traceback_litter_or_nothing_written__is_told(shop, monkeypatch):
    case = shop.predict(shop.good / "ridge", shop.file("sites.csv"))

    def broken(*_: object):
        raise KeyError("x")

    for call, problem in (
        (broken, "KeyError at"),
        (lambda _: 0, "success without a result"),
        (lambda _: 1, "exit code 1"),
        (lambda _: 2, "0 error lines"),
    ):
        monkeypatch.setattr("tests.hostile.judge.main", call)
        assert problem in judged(case)[1]

    def litters(_):
        (shop.bench / ".half").touch()
        print("error: x must be y; got z.", file=sys.stderr)
        return 2

    monkeypatch.setattr("tests.hostile.judge.main", litters)
    assert "left behind" in judged(Case(["predict"], case.out))[1]
