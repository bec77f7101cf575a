"""``hotvae models``."""

import json

import pytest

from hotvae.errors import ConfigError
from hotvae.estimators.registry import CLASSIFIERS, find_classifier


def test_models__text__a_heading_and_three_lines_each(run):
    code, out, err = run("models")
    assert (code, err) == (0, "")
    *cards, command = [part for part in out.split("\n") if part]
    assert len(cards) == 4 * len(CLASSIFIERS)
    assert [line.split()[0] for line in cards[::4]] == list(CLASSIFIERS)
    assert [line.split()[0] for line in cards[1:4]] == ["takes:", "cost:", "citation:"]
    assert command.startswith("hotvae train my_table.csv ")


def test_models__json__every_model_with_its_card(run):
    code, out, _ = run("models", "--json")
    cards = {card["name"]: card for card in json.loads(out)}
    assert code == 0
    assert set(cards) == set(CLASSIFIERS)
    assert all(card["citation"] != "none" and card["cost"] != "not measured" for card in cards.values())
    assert "Zhao" in cards["hotvae"]["citation"]


def test_find_classifier__unknown__lists_them():
    with pytest.raises(ConfigError, match=r"model must be one of .*'hotvae'.*; got 'zzz'. Choose one of them."):
        find_classifier("zzz")
