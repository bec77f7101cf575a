"""Lengths of time: what is read, what is refused, how they are said."""

import pytest

from hotvae.errors import ConfigError
from hotvae.jobs.durations import duration_words, parse_duration


@pytest.mark.parametrize(("text", "seconds"), [("2h", 7200), ("1h30m", 5400), ("45s", 45), ("90", 90), ("0.5m", 30)])
def test_parse_duration__usual_words__in_seconds(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "2 weeks", "-1", "0", "nan", "h"])
def test_parse_duration__anything_else__refused(text):
    with pytest.raises(ConfigError, match="--budget must be a length of time such as 2h"):
        parse_duration(text, "--budget")


def test_duration_words__just_below_a_minute__rounds_up_cleanly():
    assert duration_words(59.7) == "1 min 0 s"
