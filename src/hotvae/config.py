"""Settings as frozen dataclasses: what the network is, what it minimises, how it is trained.

Each field says its symbol in the paper where it has one. The values are checked when a configuration
is built, so that a slip is found before the first epoch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from numbers import Integral, Real
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from hotvae.errors import ConfigError, listed

Norm = Literal["post", "pre"]
Pooling = Literal["mean", "moment"]
DropoutSharing = Literal["labels", "none"]
Optimizer = Literal["adam", "adamw"]
Schedule = Literal["constant", "cosine"]
Precision = Literal["float32", "float64"]
EncoderKind = Literal["mlp", "set", "text", "bag", "smiles", "elements"]
LabelEncoderKind = Literal["mlp", "tokens"]
Scaling = Literal["standard", "robust", "quantile", "none"]

Config = TypeVar("Config", bound="_Checked")


def require_count(name: str, value: Any, least: int = 1) -> int:
    """Return a whole number of at least ``least``.

    Examples
    --------
    >>> require_count("rank", 0)
    Traceback (most recent call last):
    ...
    hotvae.errors.ConfigError: rank must be a whole number of at least 1; got 0. Choose an allowed value.
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name} must be a whole number of at least {least}; got {value!r}. Choose an allowed value.")
    return int(value)


def require_number(name: str, value: Any, least: float = 0.0, above: bool = False) -> float:
    """Return a finite number of at least, or above, ``least``.

    Examples
    --------
    >>> require_number("ranking_weight", -1.0)
    Traceback (most recent call last):
    ...
    hotvae.errors.ConfigError: ranking_weight must be a number of at least 0; got -1.0. Choose an allowed value.
    """
    number = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if not number or value < least or (above and value == least):
        rule = "above" if above else "of at least"
        raise ConfigError(f"{name} must be a number {rule} {least:g}; got {value!r}. Choose an allowed value.")
    return float(value)


def require_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return one of the choices.

    Examples
    --------
    >>> require_choice("mean", "cubic", ("linear", "mlp"))
    Traceback (most recent call last):
    ...
    hotvae.errors.ConfigError: mean must be one of 'linear', 'mlp'; got 'cubic'. Choose an allowed value.
    """
    if not isinstance(value, str) or value not in choices:
        raise ConfigError(f"{name} must be one of {listed(choices)}; got {value!r}. Choose an allowed value.")
    return value


def require_widths(name: str, value: Any) -> tuple[int, ...]:
    """Return hidden widths; none is allowed.

    Examples
    --------
    >>> require_widths("decoder_widths", (0,))
    Traceback (most recent call last):
    ...
    hotvae.errors.ConfigError: decoder_widths must be a tuple of positive whole numbers; got (0,). Choose ...
    """
    whole = isinstance(value, tuple | list) and all(isinstance(w, Integral) and int(w) > 0 for w in value)
    if not whole:
        raise ConfigError(f"{name} must be a tuple of positive whole numbers; got {value!r}. Choose an allowed value.")
    return tuple(int(width) for width in value)


class _Checked:
    """Range checks and JSON conversion shared by the configurations."""

    def _require(self, name: str, holds: bool, rule: str) -> None:
        if not holds:
            raise ConfigError(
                f"{name} must {rule}; got {getattr(self, name)!r} ({type(self).__name__}). Choose an allowed value."
            )

    def _require_choices(self) -> None:
        for name, hint in get_type_hints(type(self)).items():
            choices = get_args(hint)
            if choices and all(isinstance(choice, str) for choice in choices):
                self._require(name, getattr(self, name) in choices, f"be one of {listed(choices)}")

    def _require_finite(self, *names: str, least: float = 0.0) -> None:
        for name in names:
            value = getattr(self, name)
            number = isinstance(value, Real) and not isinstance(value, bool)
            self._require(
                name, number and math.isfinite(value) and value >= least, f"be a number of at least {least:g}"
            )

    def _require_counts(self, *names: str, least: int = 1) -> None:
        for name in names:
            value = getattr(self, name)
            whole = isinstance(value, Integral) and not isinstance(value, bool)
            self._require(name, whole and value >= least, f"be a whole number of at least {least}")

    def _require_rates(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            number = isinstance(value, Real) and not isinstance(value, bool)
            self._require(name, number and 0 <= value < 1, "be a share from 0 up to, not including, 1")

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values for JSON."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()  # type: ignore[call-overload]  # every subclass is a dataclass
        }

    @classmethod
    def from_dict(cls: type[Config], values: dict[str, Any]) -> Config:
        """Build the configuration from :meth:`to_dict`'s values; unknown names are an error."""
        known = {field.name for field in fields(cls)}  # type: ignore[arg-type]  # every subclass is a dataclass
        unknown = sorted(set(values) - known)
        if unknown:
            raise ConfigError(
                f"{cls.__name__} settings must be among {listed(sorted(known), 30)}; got {listed(unknown)}. "
                "Remove them, or load with the hotvae version that wrote them."
            )
        return cls(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})


@dataclass(frozen=True)
class NetConfig(_Checked):
    """Shape of the network.

    Attributes
    ----------
    dim : int
        Width of label embeddings and states (the paper's d).
    latent_dim : int
        Width of the latent space; 0 is ``dim``, as in the paper. Wider than the labels' states, it does not hold up
        what the direct path reads.
    n_layers : int
        Rounds of label-to-label messages (the paper's n); they learn correlations of order n + 1.
    n_heads : int
        Attention heads; ``dim`` must be a multiple of it. Heads 64 wide keep a processor busy: on narrower ones the
        exponentials cost more than the products (ADR 0015).
    feedforward_dim : int
        Hidden width of the feed-forward block after each message (U_mlp).
    encoder_widths : tuple of int
        Hidden widths of the feature encoder (q with parameters psi).
    label_encoder_widths : tuple of int
        Hidden widths of the label encoder (q with parameters phi).
    encoder_dropout, decoder_dropout : float
        Share of units dropped after each hidden layer or block of the encoders, and after each decoder block.
    attention_dropout : float
        Share of attention weights dropped; above 0 a label-by-label tensor is kept per row, which is slow.
    dropout_sharing : {"labels", "none"}
        ``"labels"``: all labels of a row share one dropout mask, far fewer random numbers;
        ``"none"``: independent masks.
    norm : {"post", "pre"}
        Layer norm after each residual sum, or before each block (paper note P12).
    pooling : {"mean", "moment"}
        How the Gaussians of several tokens become one for the KL (paper note P5).
    share_layers : bool
        One set of weights for all layers (paper note P10).
    direct_path : bool
        Add a linear read-out of the latent to every logit, so that messages refine a first guess.
        Not in the paper; ``False`` gives the paper's decoder.
    initial_log_variance : float
        Bias of the log-variance heads when training starts.
    encoder_layers : int
        Rounds of messages among the tokens of a row, in encoders of sets, texts and molecules; 0 is none.
    label_encoder : {"mlp", "tokens"}
        How the label branch reads labels: all at once into one Gaussian, or each positive label as a token of its
        own (K Gaussians; paper note P9).
    conditional : bool
        Train the label branch with random parts of the labels, so that the model predicts the others given any part;
        ``False`` gives the paper's label branch, which is told all labels.
    known_dropout : float
        Share of units dropped in the encoder of known labels.
    numeric_embedding_dim : int
        Learned periodic units of each numeric column, beside its value; 0 is none.
    numeric_frequencies : int
        Waves of each numeric column that these units mix.
    frequency_scale : float
        Spread of the frequencies when training starts, in waves per unit of the scaled column.
    n_members : int
        Members of the ensemble inside the feature perceptron; 1 is none.
    label_groups : int
        Groups by way of which labels hear each other, for very many labels: time and memory then grow with labels
        instead of pairs of them, at some cost in accuracy; 0 is none, and exact.
    checkpointing : bool
        Forget the states of labels after the forward pass and compute them again for the backward pass: a third more
        time, a fraction of the memory.

    Examples
    --------
    >>> NetConfig(dim=64, n_heads=4).dim
    64
    >>> NetConfig(dim=30, n_heads=4)
    Traceback (most recent call last):
    ...
    hotvae.errors.ConfigError: dim must be a multiple of n_heads (4); got 30 (NetConfig). ...
    """

    dim: int = 64
    latent_dim: int = 0
    n_layers: int = 2
    n_heads: int = 1
    feedforward_dim: int = 64
    encoder_widths: tuple[int, ...] = (256, 512, 256)
    label_encoder_widths: tuple[int, ...] = (512,)
    encoder_dropout: float = 0.4
    decoder_dropout: float = 0.1
    attention_dropout: float = 0.0
    dropout_sharing: DropoutSharing = "labels"
    norm: Norm = "post"
    pooling: Pooling = "mean"
    share_layers: bool = False
    direct_path: bool = True
    initial_log_variance: float = -4.0
    encoder_layers: int = 2
    label_encoder: LabelEncoderKind = "mlp"
    conditional: bool = True
    known_dropout: float = 0.1
    numeric_embedding_dim: int = 0
    numeric_frequencies: int = 8
    frequency_scale: float = 0.2
    n_members: int = 1
    label_groups: int = 0
    checkpointing: bool = False

    def __post_init__(self) -> None:
        self._require_choices()
        self._require_counts("dim", "n_layers", "n_heads", "feedforward_dim", "numeric_frequencies", "n_members")
        self._require_counts("encoder_layers", "numeric_embedding_dim", "label_groups", "latent_dim", least=0)
        self._require_rates("encoder_dropout", "decoder_dropout", "attention_dropout", "known_dropout")
        self._require_finite("initial_log_variance", least=-12.0)
        self._require_finite("frequency_scale")
        self._require("frequency_scale", self.frequency_scale > 0, "be above 0")
        for name in ("share_layers", "direct_path", "checkpointing", "conditional"):
            self._require(name, isinstance(getattr(self, name), bool), "be True or False")
        self._require("dim", self.dim % self.n_heads == 0, f"be a multiple of n_heads ({self.n_heads})")
        for name in ("encoder_widths", "label_encoder_widths"):
            widths = getattr(self, name)
            whole = isinstance(widths, tuple) and all(isinstance(w, Integral) and int(w) > 0 for w in widths)
            self._require(name, whole, "be a tuple of positive whole numbers")

    @property
    def latent_width(self) -> int:
        """Numbers of one latent token."""
        return self.latent_dim or self.dim


@dataclass(frozen=True)
class FrontConfig(_Checked):
    """How features are made ready for the network.

    Attributes
    ----------
    scaling : {"standard", "robust", "quantile", "none"}
        How numeric columns are scaled (see :class:`~hotvae.features.scaling.FeatureScaler`).
    clamp : bool
        Take numbers beyond those of training as the nearest one of training.
    spatial_units : int
        Nearness to so many places as further columns (see :class:`~hotvae.features.spatial.SpatialUnits`); 0 for none.
    spatial_columns : pair of str or int
        The columns that say where a row is: names, or positions, from the end when negative.
    landmarks : int
        Resemblance to so many training rows as further columns (see :class:`~hotvae.features.landmarks.Landmarks`); 0
        for none.
    max_tokens : int
        Most active columns, words or atoms of a row that are read.
    min_word_count : int
        Training texts that must hold a word for it to be known.
    max_words : int
        Largest vocabulary.
    bonds : bool
        Read the bonds of molecules, which needs RDKit.
    ridge_start : bool
        Put the logits that a ridge regression gives a row beside it, for the network to start from (see
        :func:`~hotvae.estimators.ridge_base.ridge_start`).

    Examples
    --------
    >>> FrontConfig(scaling="quantile").max_tokens
    300
    """

    scaling: Scaling = "standard"
    clamp: bool = False
    spatial_units: int = 0
    spatial_columns: tuple[str | int, ...] = (-2, -1)
    landmarks: int = 0
    max_tokens: int = 300
    min_word_count: int = 2
    max_words: int = 20_000
    bonds: bool = False
    ridge_start: bool = False

    def __post_init__(self) -> None:
        self._require_choices()
        self._require_counts("max_tokens", "min_word_count", "max_words")
        self._require_counts("spatial_units", "landmarks", least=0)
        pair = isinstance(self.spatial_columns, tuple) and len(self.spatial_columns) == 2
        self._require("spatial_columns", pair, "be a pair of names or positions")
        for name in ("bonds", "clamp", "ridge_start"):
            self._require(name, isinstance(getattr(self, name), bool), "be True or False")


@dataclass(frozen=True)
class LossWeights(_Checked):
    """Weights of the loss terms; a term of weight 0 is not computed.

    Attributes
    ----------
    bce : float
        Binary cross entropy of both branches (lambda_0).
    intermediate : float
        The same after each layer but the last (lambda_1).
    ranking : float
        Ranking loss of both branches (lambda_2).
    kl : float
        Divergence of the label latent from the feature latent (beta, applied once; paper note P1).
    ranking_scale : float
        Steepness a of the ranking loss (paper note P2).

    Examples
    --------
    >>> LossWeights(kl=0.0).kl
    0.0
    """

    bce: float = 1.0
    intermediate: float = 0.2
    ranking: float = 0.1
    kl: float = 1e-4
    ranking_scale: float = 5.0

    def __post_init__(self) -> None:
        self._require_finite("bce", "intermediate", "ranking", "kl", "ranking_scale")
        self._require("ranking_scale", self.ranking_scale > 0, "be above 0")


@dataclass(frozen=True)
class TrainConfig(_Checked):
    """How the network is trained and which epoch is kept.

    Attributes
    ----------
    max_epochs : int
        Most passes over the training rows.
    batch_size : int
        Rows of a mini-batch.
    learning_rate : float
        Peak step size.
    weight_decay : float
        Decoupled weight decay (AdamW only).
    optimizer : {"adam", "adamw"}
        Update rule.
    schedule : {"constant", "cosine"}
        Step size after the warm-up: constant, or a half cosine down to 0 at ``max_epochs``.
    warmup_epochs : float
        Epochs of linear warm-up.
    direct_epochs : int
        Epochs at the start in which the direct path learns alone, many times as fast; then labels pass messages.
    clip_norm : float
        Largest norm of the gradient; 0 switches clipping off.
    average_decay : float
        Decay of the moving average of the weights that is evaluated and kept; 0 keeps the raw weights.
    selection_metric : str
        Metric on validation rows that chooses the epoch.
    patience : int
        Epochs without a better value before training stops; 0 means never.
    precision : {"float32", "float64"}
        Number type of weights and data.

    Examples
    --------
    >>> TrainConfig(max_epochs=5).schedule
    'cosine'
    """

    max_epochs: int = 40
    batch_size: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    optimizer: Optimizer = "adamw"
    schedule: Schedule = "cosine"
    warmup_epochs: float = 1.0
    direct_epochs: int = 0
    clip_norm: float = 1.0
    average_decay: float = 0.99
    selection_metric: str = "log_loss"
    patience: int = 15
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        self._require_choices()
        self._require_counts("max_epochs", "batch_size")
        self._require_counts("patience", "direct_epochs", least=0)
        self._require_finite("learning_rate", "weight_decay", "warmup_epochs", "clip_norm")
        self._require("learning_rate", self.learning_rate > 0, "be above 0")
        self._require_rates("average_decay")


RECIPES: dict[str, dict[str, Any]] = {
    "best": {},
    "paper": {
        "conditional": False,
        "direct_path": False,
        "direct_epochs": 0,
        "latent_dim": 0,
        "landmarks": 0,
        "latent_neighbours": 0,
        "ridge_start": False,
        "average_decay": 0.0,
        "optimizer": "adam",
        "schedule": "constant",
        "warmup_epochs": 0.0,
        "weight_decay": 0.0,
        "selection_metric": "macro_f1",
    },
}
"""Parameters of HOT-VAE by recipe: ours, the defaults; and what the paper trains with, as far as it says so.

The paper's label branch is told all labels; there is no path around the decoder, nothing learned from training rows but
the network, no average of weights, plain Adam, and the epoch with the best macro F1 is kept."""


def find_recipe(name: str) -> dict[str, Any]:
    """Look a recipe up.

    Parameters
    ----------
    name : {"best", "paper"}
        Key of :data:`RECIPES`.

    Returns
    -------
    dict of str to object
        Parameters of :class:`~hotvae.HotVAEClassifier` that differ from its defaults.

    Raises
    ------
    ConfigError
        Any other name.

    Examples
    --------
    >>> find_recipe("paper")["optimizer"]
    'adam'
    """
    if name not in RECIPES:
        raise ConfigError(f"recipe must be one of {listed(list(RECIPES))}; got {name!r}. Choose one.")
    return dict(RECIPES[name])
