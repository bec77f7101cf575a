"""Settings: every rule has its message, plain values in and out, unknown names refused."""

import dataclasses
import json

import pytest

from hotvae.config import FrontConfig, LossWeights, NetConfig, TrainConfig
from hotvae.errors import ConfigError

NAN, INF = float("nan"), float("inf")

COUNTS = [
    *((NetConfig, name) for name in ("dim", "n_layers", "n_heads", "feedforward_dim")),
    *((NetConfig, name) for name in ("numeric_frequencies", "n_members")),
    *((FrontConfig, name) for name in ("max_tokens", "min_word_count", "max_words")),
    *((TrainConfig, name) for name in ("max_epochs", "batch_size")),
]
RATES = [
    *((NetConfig, name) for name in ("encoder_dropout", "decoder_dropout", "attention_dropout")),
    (TrainConfig, "average_decay"),
]
NUMBERS = [
    *((LossWeights, name) for name in ("bce", "intermediate", "ranking", "kl")),
    *((TrainConfig, name) for name in ("weight_decay", "warmup_epochs", "clip_norm")),
]
CHOICES = [
    (NetConfig, "dropout_sharing", ("labels", "none")),
    (NetConfig, "norm", ("post", "pre")),
    (NetConfig, "pooling", ("mean", "moment")),
    (NetConfig, "label_encoder", ("mlp", "tokens")),
    (FrontConfig, "scaling", ("standard", "robust", "quantile", "none")),
    (TrainConfig, "optimizer", ("adam", "adamw")),
    (TrainConfig, "schedule", ("constant", "cosine")),
    (TrainConfig, "precision", ("float32", "float64")),
]
POSITIVE = [(NetConfig, "frequency_scale"), (LossWeights, "ranking_scale"), (TrainConfig, "learning_rate")]
# Every setting differs from any sensible default, so that a lost one shows.
ODD = [
    NetConfig(
        dim=6,
        n_layers=7,
        n_heads=3,
        feedforward_dim=11,
        encoder_widths=(9, 8),
        label_encoder_widths=(),
        encoder_dropout=0.11,
        decoder_dropout=0.12,
        attention_dropout=0.13,
        dropout_sharing="none",
        norm="pre",
        pooling="moment",
        share_layers=True,
        direct_path=False,
        initial_log_variance=-2.5,
        encoder_layers=3,
        label_encoder="tokens",
        numeric_embedding_dim=5,
        numeric_frequencies=6,
        frequency_scale=0.7,
        n_members=2,
    ),
    FrontConfig(scaling="robust", max_tokens=17, min_word_count=4, max_words=99, bonds=True),
    LossWeights(bce=2.0, intermediate=3.0, ranking=4.0, kl=5.0, ranking_scale=6.0),
    TrainConfig(
        max_epochs=3,
        batch_size=7,
        learning_rate=0.5,
        weight_decay=0.25,
        optimizer="adam",
        schedule="constant",
        warmup_epochs=2.5,
        clip_norm=0.0,
        average_decay=0.0,
        selection_metric="micro_f1",
        patience=0,
        precision="float64",
    ),
]


@pytest.mark.parametrize("kind", [NetConfig, FrontConfig, LossWeights, TrainConfig])
def test_config__nothing_said__is_allowed_and_frozen(kind):
    config = kind()
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(config, dataclasses.fields(kind)[0].name, 1)


@pytest.mark.parametrize(("kind", "name"), COUNTS)
@pytest.mark.parametrize("value", [0, -1, 2.0, True, "2", None])
def test_config__count_that_is_no_positive_whole_number__is_refused(kind, name, value):
    with pytest.raises(ConfigError, match=rf"^{name} must be a whole number of at least 1; got .*\({kind.__name__}\)"):
        kind(**{name: value})


@pytest.mark.parametrize("value", [-1, 1.5, False])
@pytest.mark.parametrize(
    ("kind", "name"),
    [(TrainConfig, "patience"), (NetConfig, "encoder_layers"), (NetConfig, "numeric_embedding_dim")],
)
def test_config__count_below_zero_or_fractional__is_refused(kind, name, value):
    with pytest.raises(ConfigError, match=rf"^{name} must be a whole number of at least 0; got"):
        kind(**{name: value})
    assert getattr(kind(**{name: 0}), name) == 0


def test_front_config__bonds_neither_true_nor_false__is_refused():
    with pytest.raises(ConfigError, match=r"^bonds must be True or False; got 'single' \(FrontConfig\)"):
        FrontConfig(bonds="single")


@pytest.mark.parametrize(("kind", "name"), RATES)
@pytest.mark.parametrize("value", [-0.1, 1, 1.0, NAN, "0.5", True])
def test_config__rate_outside_zero_to_one__is_refused(kind, name, value):
    with pytest.raises(ConfigError, match=f"^{name} must be a share from 0 up to, not including, 1; got"):
        kind(**{name: value})


@pytest.mark.parametrize(("kind", "name"), RATES)
def test_config__rate_of_zero_or_just_below_one__is_allowed(kind, name):
    assert [getattr(kind(**{name: rate}), name) for rate in (0, 0.999)] == [0, 0.999]


@pytest.mark.parametrize(("kind", "name"), NUMBERS)
@pytest.mark.parametrize("value", [-1e-9, NAN, INF, "1e-4", True, None])
def test_config__number_negative_or_not_finite__is_refused(kind, name, value):
    with pytest.raises(ConfigError, match=f"^{name} must be a number of at least 0; got"):
        kind(**{name: value})


@pytest.mark.parametrize(("kind", "name"), NUMBERS)
def test_config__number_of_zero__is_allowed(kind, name):
    assert getattr(kind(**{name: 0}), name) == 0


@pytest.mark.parametrize(("kind", "name"), POSITIVE)
@pytest.mark.parametrize("value", [0, 0.0, -1.0, NAN, INF, "1e-3", None, True])
def test_config__number_that_must_be_positive__is_refused_otherwise(kind, name, value):
    with pytest.raises(ConfigError, match=f"^{name} must be .*; got .*Choose an allowed value"):
        kind(**{name: value})


@pytest.mark.parametrize(("kind", "name", "choices"), CHOICES)
def test_config__choice__takes_its_words_and_no_other(kind, name, choices):
    for choice in choices:
        assert getattr(kind(**{name: choice}), name) == choice
    words = ", ".join(f"'{choice}'" for choice in choices)
    with pytest.raises(ConfigError, match=f"^{name} must be one of {words}; got 'other'"):
        kind(**{name: "other"})


def test_net_config__dim_not_a_multiple_of_heads__is_refused():
    with pytest.raises(ConfigError, match=r"^dim must be a multiple of n_heads \(4\); got 30 \(NetConfig\)\. Choose"):
        NetConfig(dim=30, n_heads=4)


@pytest.mark.parametrize("name", ["encoder_widths", "label_encoder_widths"])
@pytest.mark.parametrize("value", [[8], 8, (8, 0), (8.0,), ("8",)])
def test_net_config__widths_that_are_no_tuple_of_counts__are_refused(name, value):
    with pytest.raises(ConfigError, match=f"^{name} must be a tuple of positive whole numbers; got"):
        NetConfig(**{name: value})


@pytest.mark.parametrize("config", ODD, ids=lambda config: type(config).__name__)
def test_config__through_json_and_back__is_the_same(config):
    text = json.dumps(config.to_dict())
    again = type(config).from_dict(json.loads(text))
    assert again == config
    assert again.to_dict() == config.to_dict()
    for field in dataclasses.fields(config):
        assert type(getattr(again, field.name)) is type(getattr(config, field.name))


def test_to_dict__tuples__become_lists():
    assert ODD[0].to_dict()["encoder_widths"] == [9, 8]


@pytest.mark.parametrize("kind", [NetConfig, FrontConfig, LossWeights, TrainConfig])
def test_from_dict__unknown_names__are_refused_with_the_known_ones(kind):
    known = sorted(field.name for field in dataclasses.fields(kind))[0]
    with pytest.raises(
        ConfigError,
        match=rf"^{kind.__name__} settings must be among '{known}', .*; got 'new', 'odd'\. Remove",
    ):
        kind.from_dict({"odd": 1, "new": 2})


def test_from_dict__bad_value__meets_the_same_checks():
    with pytest.raises(ConfigError, match=r"^n_layers must be"):
        NetConfig.from_dict({"n_layers": 0})


def test_from_dict__some_names__leaves_the_others_at_their_defaults():
    assert LossWeights.from_dict({"kl": 0.5}) == LossWeights(kl=0.5)
