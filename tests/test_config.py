"""Checks of parameters and settings of a network: what fits comes back plain, what does not is named with its rule."""

import dataclasses

import numpy as np
import pytest

from hotvae import HotVAENetwork, Training
from hotvae.config import (
    RECIPES,
    LossWeights,
    MessagesConfig,
    NetConfig,
    find_recipe,
    picked,
    require_choice,
    require_count,
    require_flag,
    require_number,
    require_share,
    require_widths,
)
from hotvae.errors import ConfigError
from hotvae.training.settings import WHERE

NAN, INF = float("nan"), float("inf")


# Checks ---------------------------------------------------------------------------------------------------


def test_values_that_fit__come_back_plain():
    assert type(require_count("rank", np.int64(3))) is int
    assert type(require_number("kl_weight", np.float32(0.5))) is float
    assert require_number("kl_weight", 0) == 0.0
    assert type(require_share("encoder_dropout", np.float32(0.5))) is float
    assert require_flag("gated", True) is True
    assert require_choice("mean", "mlp", ("linear", "mlp")) == "mlp"
    assert require_widths("decoder_widths", [16, np.int64(8)]) == (16, 8)
    assert require_widths("decoder_widths", ()) == ()


@pytest.mark.parametrize("value", [0, -1, 2.0, True, "3", None])
def test_count__anything_else__is_refused(value):
    with pytest.raises(ConfigError, match=r"^rank must be a whole number of at least 1; got .*\. Choose"):
        require_count("rank", value)


@pytest.mark.parametrize("value", [-0.1, NAN, INF, True, "1", None])
def test_number__anything_else__is_refused(value):
    with pytest.raises(ConfigError, match=r"^kl_weight must be a number of at least 0; got .*\. Choose"):
        require_number("kl_weight", value)


def test_number__above_a_bound__the_bound_itself_is_refused():
    assert require_number("scale", 1e-9, above=True) == 1e-9
    with pytest.raises(ConfigError, match=r"^scale must be a number above 0; got 0"):
        require_number("scale", 0, above=True)


@pytest.mark.parametrize("value", [-0.1, 1, 1.0, NAN, "0.5", True, None])
def test_share__outside_zero_to_one__is_refused(value):
    with pytest.raises(ConfigError, match=r"^encoder_dropout must be a share from 0 up to, not including, 1; got"):
        require_share("encoder_dropout", value)


@pytest.mark.parametrize("value", [0, 1, "yes", None])
def test_flag__anything_else__is_refused(value):
    with pytest.raises(ConfigError, match=r"^gated must be True or False; got .*\. Choose"):
        require_flag("gated", value)


@pytest.mark.parametrize("value", ["cubic", 1, None])
def test_choice__anything_else__is_refused(value):
    with pytest.raises(ConfigError, match=r"^mean must be one of 'linear', 'mlp'; got .*\. Choose"):
        require_choice("mean", value, ("linear", "mlp"))


def test_choice__many_choices__are_all_named():
    choices = [f"choice {i}" for i in range(9)]
    with pytest.raises(ConfigError, match="'choice 7', 'choice 8'; got 'other'"):
        require_choice("graph", "other", choices)


@pytest.mark.parametrize("value", [(0,), (-2, 3), (1.5,), ("8",), 16, "16", None])
def test_widths__anything_else__is_refused(value):
    with pytest.raises(ConfigError, match=r"^decoder_widths must be a tuple of whole numbers from 1 to 65,536; got"):
        require_widths("decoder_widths", value)


# Settings of the network ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [NetConfig, LossWeights])
def test_config__nothing_said__is_allowed_and_frozen(kind):
    config = kind()
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(config, dataclasses.fields(kind)[0].name, 1)


@pytest.mark.parametrize(
    ("name", "least"), [("dim", 1), ("n_layers", 1), ("latent_dim", 0), ("n_heads", 0), ("encoder_layers", 0)]
)
@pytest.mark.parametrize("value", [-1, 2.0, True, "2", None])
def test_net_config__count_that_is_none__is_refused(name, least, value):
    with pytest.raises(ConfigError, match=f"^{name} must be a whole number of at least {least}; got"):
        NetConfig(**{name: value})


@pytest.mark.parametrize("name", ["dim", "n_layers"])
def test_net_config__count_of_zero__is_refused_where_something_must_be(name):
    with pytest.raises(ConfigError, match=f"^{name} must be a whole number of at least 1; got 0"):
        NetConfig(**{name: 0})


@pytest.mark.parametrize(
    ("kind", "name", "most"),
    [
        *((NetConfig, name, 65536) for name in ("dim", "latent_dim", "n_heads")),
        *((NetConfig, name, 1000) for name in ("n_layers", "encoder_layers")),
        *((MessagesConfig, name, 65536) for name in ("n_causes", "hub_width")),
        (MessagesConfig, "n_rounds", 1000),
    ],
)
def test_sizes__larger_than_anyone_could_mean__are_refused_before_they_take_all_memory(kind, name, most):
    with pytest.raises(ConfigError, match=f"^{name} must be a whole number of at most {most}; got {most + 1}"):
        kind(**{name: most + 1})


@pytest.mark.parametrize("name", ["encoder_dropout", "decoder_dropout"])
def test_net_config__dropout__is_a_share(name):
    assert [getattr(NetConfig(**{name: rate}), name) for rate in (0, 0.999)] == [0, 0.999]
    with pytest.raises(ConfigError, match=f"^{name} must be a share from 0 up to, not including, 1; got 1"):
        NetConfig(**{name: 1.0})


@pytest.mark.parametrize("name", ["direct_path"])
def test_net_config__flag__is_true_or_false(name):
    with pytest.raises(ConfigError, match=f"^{name} must be True or False; got 1"):
        NetConfig(**{name: 1})


@pytest.mark.parametrize("name", ["encoder_widths", "label_encoder_widths"])
def test_net_config__widths__are_kept_as_a_tuple(name):
    assert getattr(NetConfig(**{name: [9, 8]}), name) == (9, 8)
    with pytest.raises(ConfigError, match=f"^{name} must be a tuple of whole numbers from 1 to 65,536; got"):
        NetConfig(**{name: (8, 0)})


def test_net_config__label_encoder__takes_its_words_and_no_other():
    for kind in ("mlp", "tokens"):
        assert NetConfig(label_encoder=kind).label_encoder == kind
    with pytest.raises(ConfigError, match=r"^label_encoder must be one of 'mlp', 'tokens'; got 'other'"):
        NetConfig(label_encoder="other")


@pytest.mark.parametrize("value", [-12.5, NAN, INF, "0", None])
def test_net_config__initial_log_variance_out_of_range__is_refused(value):
    assert NetConfig(initial_log_variance=-12.0).initial_log_variance == -12.0
    with pytest.raises(ConfigError, match=r"^initial_log_variance must be a number of at least -12; got"):
        NetConfig(initial_log_variance=value)


@pytest.mark.parametrize(
    ("dim", "n_heads"),
    [(1, 1), (8, 1), (64, 1), (94, 1), (98, 2), (100, 2), (127, 1), (128, 2), (192, 3), (200, 2), (256, 4), (512, 8)],
)
def test_net_config__heads__are_about_64_wide_as_far_as_they_divide_the_width(dim, n_heads):
    """200 has room for three heads of 64, but three do not divide it; 127 is a prime.

    The paper's widths, 100, 200 and 512, have several: "specifically, we use multi-head self-attention".
    """
    assert NetConfig(dim=dim).n_heads == n_heads


def test_net_config__heads_that_are_given__stay():
    assert NetConfig(dim=64, n_heads=4).n_heads == 4


def test_net_config__dim_not_a_multiple_of_heads__is_refused():
    with pytest.raises(ConfigError, match=r"^dim must be a multiple of n_heads \(4\); got 30\. Choose"):
        NetConfig(dim=30, n_heads=4)


@pytest.mark.parametrize(("latent_dim", "width"), [(0, 32), (50, 50)])
def test_net_config__latent_width__is_that_of_the_states_unless_said(latent_dim, width):
    assert NetConfig(dim=32, latent_dim=latent_dim).latent_width == width


# Weights of the loss --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["intermediate_weight", "ranking_weight", "kl_weight"])
@pytest.mark.parametrize("value", [-1e-9, NAN, INF, "1e-4", True, None])
def test_loss_weights__number_negative_or_not_finite__is_refused(name, value):
    with pytest.raises(ConfigError, match=f"^{name} must be a number of at least 0; got"):
        LossWeights(**{name: value})


def test_loss_weights__by_term__cross_entropy_weighs_one():
    weights = LossWeights(intermediate_weight=2.0, ranking_weight=3.0, kl_weight=4.0)
    assert weights.by_term() == {"bce": 1.0, "intermediate": 2.0, "ranking": 3.0, "kl": 4.0}


@pytest.mark.parametrize("term", ["intermediate", "ranking", "kl"])
def test_loss_weights__weight_of_zero__leaves_the_term_out(term):
    assert set(LossWeights(**{f"{term}_weight": 0}).by_term()) == {"bce", "intermediate", "ranking", "kl"} - {term}


# Names ----------------------------------------------------------------------------------------------------


def test_picked__some_names__those_that_are_there():
    assert picked(("dim", "n_heads"), {"dim": 8, "rank": 2}) == {"dim": 8}


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"kl_weight": -1}, "kl_weight must be a number of at least 0; got -1."),
        ({"ranking_weight": NAN}, "ranking_weight must be a number of at least 0; got nan."),
        ({"intermediate_weight": "x"}, "intermediate_weight must be a number of at least 0; got 'x'."),
        ({"dim": 0}, "dim must be a whole number of at least 1; got 0."),
        ({"encoder_dropout": 1}, "encoder_dropout must be a share from 0 up to, not including, 1; got 1."),
        ({"label_encoder": "x"}, "label_encoder must be one of 'mlp', 'tokens'; got 'x'."),
        ({"training": Training(batch_size=0)}, "batch_size must be a whole number of at least 1; got 0."),
        ({"base": "tree"}, "base must be one of 'ridge'; got 'tree'."),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_fit__parameter_not_allowed__is_named_as_the_user_knows_it(settings, rule):
    rows = np.linspace(-1, 1, 20)[:, None]
    with pytest.raises(ConfigError) as caught:
        HotVAENetwork(**settings).fit(rows, (rows > 0).astype(int))
    assert str(caught.value) == f"{rule} Choose an allowed value."


# Recipes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["auto", "network"])
def test_find_recipe__of_ours__has_the_defaults(name):
    assert find_recipe(name) == {}


# Every setting of the paper's recipe, with what the paper says of it: a quotation, or that it says nothing.
PRINTED = {
    "encoder_widths": ((256, 512, 256), "one is a three-layer MLP; widths are not printed, P17"),
    "label_encoder_widths": ((256, 512, 256), "the same encoder for labels"),
    "encoder_layers": (2, "a two-layer FMP"),
    "label_encoder": ("mlp", "the MLP outputs one Gaussian subspace, P9"),
    "latent_dim": (0, "we assume that both the feature embedding and the label embedding have d dimensions"),
    "graph": ("complete", "by default, there is an edge between every pair of labels"),
    "dim": (200, "grid: d is from {100, 200, 512}"),
    "n_layers": (2, "grid: the number of decoder layer is from {2, 3, 4, 5}"),
    "encoder_dropout": (0.2, "grid: dropout after all layers except the last one, from {0, 0.1, 0.2, 0.5}"),
    "decoder_dropout": (0.2, "the same rate"),
    "intermediate_weight": (0.2, "grid: lambda_1 is selected from {0.1, 0.2, 0.3}"),
    "ranking_weight": (1.0, "grid: lambda_2 is from {1, 100, 1000}"),
    "kl_weight": (1e-5, "grid: beta has a value of 1e-5, 1e-4, or 0 in some rare cases"),
    "optimizer": ("adam", "with the Adam optimizer"),
    "learning_rate": (3e-4, "grid: learning rate is chosen from {2e-4, 3e-4, 7.5e-4}"),
    "max_epochs": (200, "we train the model up to 200 epochs to saturate the performance"),
    "selection_metric": ("macro_f1", "we select the model performing best on validation set based on maF1"),
}
NOT_SAID = {
    "initial_log_variance": -4.0,
    "patience": 20,
    "batch_size": 64,
    "precision": "float32",
    "scaling": "standard",
}
OFF = {
    "direct_path": False,
    "base": None,
    "landmarks": 0,
    "spatial_units": 0,
    "clamp": False,
    "average_decay": 0.0,
    "schedule": "constant",
    "warmup_epochs": 0.0,
    "weight_decay": 0.0,
    "clip_norm": 0.0,
}
# What a row is, which rows are held out, and where and how it is computed: none of a recipe's business.
OF_THE_DATA = {
    "encoder",
    "spatial_columns",
    "spatial_degrees",
    "max_tokens",
    "max_words",
    "min_word_count",
    "weights",
    "bonds",
}
OF_THE_RUN = {"validation_fraction", "random_state", *WHERE}


def test_find_recipe__paper__is_what_is_printed_what_is_not_said_and_nothing_else():
    printed = {name: value for name, (value, _) in PRINTED.items()}
    assert find_recipe("paper") == printed | NOT_SAID | OFF


def test_find_recipe__paper__every_setting_of_the_network_is_in_it():
    """A default of ours can change, and the paper's recipe does not."""
    settings = HotVAENetwork.all_settings().keys() - OF_THE_DATA - OF_THE_RUN
    assert find_recipe("paper").keys() == settings


def test_find_recipe__paper__four_terms_of_the_loss_as_weighted_in_print():
    model = HotVAENetwork.from_recipe("paper")
    assert model._weights() == {"bce": 1.0, "intermediate": 0.2, "ranking": 1.0, "kl": 1e-5}


def test_find_recipe__paper__is_a_copy():
    paper = find_recipe("paper")
    paper["optimizer"] = "adamw"
    assert RECIPES["paper"]["optimizer"] == "adam"


def test_find_recipe__unknown__is_refused():
    with pytest.raises(ConfigError, match=r"^recipe must be one of 'auto', 'network', 'paper'; got 'own'"):
        find_recipe("own")


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"n_rounds": 0}, "n_rounds must be a whole number of at least 1; got 0"),
        ({"n_causes": -1}, "n_causes must be a whole number of at least 0; got -1"),
        ({"edges": "both"}, "edges must be one of 'none', 'shared', 'signed'; got 'both'"),
        ({"dropout": 1.0}, "dropout must be a share from 0 up to, not including, 1; got 1.0"),
        ({"tied": 1}, "tied must be True or False; got 1"),
    ],
)
def test_messages_config__value_out_of_range__says_what_is_allowed(settings, match):
    with pytest.raises(ConfigError, match=match):
        MessagesConfig(**settings)
