"""Checks of parameters: what fits comes back as a plain value, what does not is named."""

import numpy as np
import pytest

from hotvae.config import require_choice, require_count, require_number, require_widths
from hotvae.errors import ConfigError


def test_values_that_fit__come_back_plain():
    assert type(require_count("rank", np.int64(3))) is int
    assert type(require_number("kl_weight", np.float32(0.5))) is float
    assert require_number("kl_weight", 0) == 0.0
    assert require_choice("mean", "mlp", ("linear", "mlp")) == "mlp"
    assert require_widths("decoder_widths", [16, np.int64(8)]) == (16, 8)
    assert require_widths("decoder_widths", ()) == ()


@pytest.mark.parametrize("value", [0, -1, 2.0, True, "3", None])
def test_count__anything_else__is_refused(value):
    with pytest.raises(ConfigError, match=r"rank must be a whole number of at least 1; got .*\. Choose"):
        require_count("rank", value)


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), True, "1", None])
def test_number__anything_else__is_refused(value):
    with pytest.raises(ConfigError, match=r"kl_weight must be a number of at least 0; got .*\. Choose"):
        require_number("kl_weight", value)


def test_number__above_a_bound__the_bound_itself_is_refused():
    with pytest.raises(ConfigError, match="scale must be a number above 0; got 0"):
        require_number("scale", 0, above=True)


@pytest.mark.parametrize("value", ["cubic", 1, None])
def test_choice__anything_else__is_refused(value):
    with pytest.raises(ConfigError, match=r"mean must be one of 'linear', 'mlp'; got .*\. Choose"):
        require_choice("mean", value, ("linear", "mlp"))


@pytest.mark.parametrize("value", [(0,), (-2, 3), (1.5,), 16, "16", None])
def test_widths__anything_else__is_refused(value):
    with pytest.raises(ConfigError, match="decoder_widths must be a tuple of positive whole numbers; got"):
        require_widths("decoder_widths", value)
