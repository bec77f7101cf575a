"""Checks of parameters, and the settings of a network as frozen dataclasses.

Every value that a user can set is checked by one of the ``require_*`` functions, which name the parameter as the user
knows it. The values of a configuration are checked when it is built, so that a slip is found before the first epoch.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module, metadata
from numbers import Integral, Real
from types import ModuleType
from typing import Any, Literal, get_args

from hotvae.errors import ConfigError, listed, shown

LabelEncoderKind = Literal["mlp", "tokens"]
Edges = Literal["none", "shared", "signed"]
RowKind = Literal["numbers", "tokens", "ordered tokens"]
"""What the features of a row have become: a vector, or numbered tokens without or with an order."""


# --- checks ----------------------------------------------------------------------------------------------


MOST_THREADS = 1024
"""More threads than any machine of ours has cores; a million of them would bring the process down."""


def require_count(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """Return a whole number of at least ``least``, and of at most ``most`` where there is a limit.

    Examples
    --------
    >>> require_count("rank", 0)
    Traceback (most recent call last):
    ...
    hotvae.errors.ConfigError: rank must be a whole number of at least 1; got 0. Choose an allowed value.
    """
    whole = isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least
    _require(name, value, whole, f"be a whole number of at least {least}")
    _require(name, value, most is None or int(value) <= most, f"be a whole number of at most {most}")
    return int(value)


MOST_LAYERS, MOST_WIDTH = 1000, 2**16
"""More layers or rounds, or wider ones, are a slip: laying them out would take all the memory there is."""

MOST_SEED = 2**32 - 1
"""The largest seed that all generators of random numbers take."""


def require_seed(name: str, value: Any) -> None:
    """Refuse a whole number that is no seed; None and generators are left to scikit-learn.

    Examples
    --------
    >>> require_seed("random_state", 2**40)  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ...
    hotvae.errors.ConfigError: random_state must be a whole number from 0 to 4294967295; got 1099511627776. Choose an
    allowed value.
    """
    is_seed = not isinstance(value, Integral) or 0 <= int(value) <= MOST_SEED
    _require(name, value, is_seed, f"be a whole number from 0 to {MOST_SEED}")


def require_number(name: str, value: Any, least: float = 0.0, above: bool = False) -> float:
    """Return a finite number of at least, or above, ``least``."""
    number = _is_number(value) and math.isfinite(value) and (value > least if above else value >= least)
    _require(name, value, number, f"be a number {'above' if above else 'of at least'} {least:g}")
    return float(value)


def require_share(name: str, value: Any) -> float:
    """Return a share from 0 up to, not including, 1."""
    _require(name, value, _is_number(value) and 0 <= value < 1, "be a share from 0 up to, not including, 1")
    return float(value)


def require_flag(name: str, value: Any) -> bool:
    """Return True or False; numbers are no flags."""
    _require(name, value, isinstance(value, bool), "be True or False")
    return bool(value)


def require_choice(name: str, value: Any, choices: Collection[str]) -> str:
    """Return one of the choices.

    Examples
    --------
    >>> require_choice("mean", "cubic", ("linear", "mlp"))
    Traceback (most recent call last):
    ...
    hotvae.errors.ConfigError: mean must be one of 'linear', 'mlp'; got 'cubic'. Choose an allowed value.
    """
    is_one = isinstance(value, str) and value in choices
    _require(name, value, is_one, f"be one of {listed(choices, len(choices))}")
    return str(value)


def require_widths(name: str, value: Any) -> tuple[int, ...]:
    """Return hidden widths; none is allowed."""
    whole = isinstance(value, tuple | list) and all(isinstance(w, Integral) and 0 < int(w) <= MOST_WIDTH for w in value)
    _require(name, value, whole, f"be a tuple of whole numbers from 1 to {MOST_WIDTH:,}")
    return tuple(int(width) for width in value)


def require_module(name: str, purpose: str, extra: str) -> ModuleType:
    """Import a package that comes with an extra, or say how to get it.

    Parameters
    ----------
    name : str
        Of the module; may have dots.
    purpose : str
        What it is needed for, as the message says it: ``"read eBird files"``.
    extra : str
        The extra of hotvae that brings it.

    Returns
    -------
    module
        The imported module.

    Examples
    --------
    >>> require_module("no_such", "read minds", "minds")  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ...
    hotvae.errors.ConfigError: no_such must be installed to read minds; got none. The extra 'minds' of hotvae brings it:
    pip install no_such.
    """
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ConfigError(
            f"{package} must be installed to {purpose}; got none. {how_to_install(package, extra)}"
        ) from error


def how_to_install(package: str, extra: str) -> str:
    """Say what to type for a package of an extra: all that the extra brings, by name, wherever hotvae came from.

    Parameters
    ----------
    package : str
        What is missing.
    extra : str
        The extra of hotvae that brings it.

    Returns
    -------
    str
        A sentence.

    Examples
    --------
    >>> how_to_install("optuna", "tune")
    "The extra 'tune' of hotvae brings it: pip install 'optuna>=4'."
    """
    try:
        needs = [need.partition(";") for need in metadata.requires("hotvae") or []]
    except metadata.PackageNotFoundError:  # run from its source, not installed
        needs = []
    packages = [name.strip() for name, _, when in needs if when.replace("'", '"').strip() == f'extra == "{extra}"']
    return f"The extra {extra!r} of hotvae brings it: pip install {shlex.join(packages or [package])}."


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _require(name: str, value: Any, holds: bool, rule: str) -> None:
    if not holds:
        raise ConfigError(f"{name} must {rule}; got {shown(value)}. Choose an allowed value.")


# --- the network -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NetConfig:
    """Shape of the network; parameters of :class:`~hotvae.HotVAENetwork` of the same names.

    Attributes
    ----------
    dim : int
        Width of label embeddings and states, and of the feed-forward blocks between messages (the paper's d).
    latent_dim : int
        Width of the latent space; 0 is ``dim``, as in the paper. Wider than the labels' states, it does not hold up
        what the direct path reads.
    n_layers : int
        Rounds of label-to-label messages (the paper's n); they learn correlations of order n + 1.
    n_heads : int
        Attention heads; 0 derives their number from ``dim``. Heads about 64 wide keep a processor busy: on narrower
        ones the exponentials cost more than the products (ADR 0015).
    encoder_widths, label_encoder_widths : tuple of int
        Hidden widths of the feature encoder (q with parameters psi) and of the label encoder (phi).
    encoder_dropout, decoder_dropout : float
        Share of units dropped after each hidden layer or block of the encoders, and after each decoder block.
    encoder_layers : int
        Rounds of messages among the tokens of a row, in encoders of sets, texts and molecules; 0 is none.
    label_encoder : {"mlp", "tokens"}
        How the label branch reads labels: all at once into one Gaussian, or each positive label as a token of its
        own (K Gaussians; paper note P9).
    direct_path : bool
        Add a linear read-out of the latent to every logit, so that messages refine a first guess.
        Not in the paper; ``False`` gives the paper's decoder.
    initial_log_variance : float
        Bias of the log-variance heads when training starts.

    Examples
    --------
    >>> NetConfig(dim=256).n_heads
    4
    """

    dim: int = 64
    latent_dim: int = 0
    n_layers: int = 2
    n_heads: int = 0
    encoder_widths: tuple[int, ...] = (256, 512, 256)
    label_encoder_widths: tuple[int, ...] = (512,)
    encoder_dropout: float = 0.4
    decoder_dropout: float = 0.1
    encoder_layers: int = 2
    label_encoder: LabelEncoderKind = "mlp"
    direct_path: bool = True
    initial_log_variance: float = -4.0

    def __post_init__(self) -> None:
        for name, least in (("dim", 1), ("n_heads", 0), ("latent_dim", 0)):
            object.__setattr__(self, name, require_count(name, getattr(self, name), least, MOST_WIDTH))
        for name, least in (("n_layers", 1), ("encoder_layers", 0)):
            object.__setattr__(self, name, require_count(name, getattr(self, name), least, MOST_LAYERS))
        for name in ("encoder_widths", "label_encoder_widths"):
            object.__setattr__(self, name, require_widths(name, getattr(self, name)))
        for name in ("encoder_dropout", "decoder_dropout"):
            require_share(name, getattr(self, name))
        require_flag("direct_path", self.direct_path)
        require_choice("label_encoder", self.label_encoder, get_args(LabelEncoderKind))
        require_number("initial_log_variance", self.initial_log_variance, least=-12.0)
        if self.n_heads == 0:
            # Heads about 64 wide, as many as divide the width evenly.
            most = max(1, round(self.dim / 64))
            object.__setattr__(self, "n_heads", max(n for n in range(1, most + 1) if self.dim % n == 0))
        _require("dim", self.dim, self.dim % self.n_heads == 0, f"be a multiple of n_heads ({self.n_heads})")

    @property
    def latent_width(self) -> int:
        """Numbers of one latent token."""
        return self.latent_dim or self.dim


@dataclass(frozen=True)
class MessagesConfig:
    """Through what labels speak, and how often.

    Attributes
    ----------
    n_rounds : int
        Rounds of messages; they learn correlations of order n + 1.
    edges : {"none", "shared", "signed"}
        Edges of the label graph: none; one weight for a pair of labels, both ways; or four, as presence and absence of
        a label need not be mirror images, nor what i tells j and j tells i. Memory grows with the square of labels.
    n_causes : int
        Hidden causes that labels share: edges of low rank, whose memory grows with labels only; 0 is none.
    tied : bool
        Whether a label hears a cause as strongly as it speaks of it, so that there are half as many weights.
    gated : bool
        Whether the features decide how much each cause counts, so that edges change with them.
    hub_width : int
        Units of a hub that every label talks to; 0 is none.
    dropout : float
        Share of known labels that are not heard, in training.

    Examples
    --------
    >>> MessagesConfig(n_rounds=0)
    Traceback (most recent call last):
    ...
    hotvae.errors.ConfigError: n_rounds must be a whole number of at least 1; got 0. Choose an allowed value.
    """

    n_rounds: int = 2
    edges: Edges = "shared"
    n_causes: int = 32
    tied: bool = True
    gated: bool = True
    hub_width: int = 0
    dropout: float = 0.1

    def __post_init__(self) -> None:
        for name, least, most in (
            ("n_rounds", 1, MOST_LAYERS),
            ("n_causes", 0, MOST_WIDTH),
            ("hub_width", 0, MOST_WIDTH),
        ):
            require_count(name, getattr(self, name), least, most)
        require_choice("edges", self.edges, get_args(Edges))
        require_share("dropout", self.dropout)
        for name in ("tied", "gated"):
            require_flag(name, getattr(self, name))


@dataclass(frozen=True)
class LossWeights:
    """Weights of the loss terms beside the cross entropy, whose weight is 1; a term of weight 0 is not computed.

    Attributes
    ----------
    intermediate_weight : float
        Of the cross entropy after each layer but the last (lambda_1).
    ranking_weight : float
        Of the ranking loss of both branches (lambda_2).
    kl_weight : float
        Of the divergence of the label latent from the feature latent (beta, applied once; paper note P1).

    Examples
    --------
    >>> LossWeights(kl_weight=0.0).by_term()
    {'bce': 1.0, 'intermediate': 0.2, 'ranking': 0.1}
    """

    intermediate_weight: float = 0.2
    ranking_weight: float = 0.1
    kl_weight: float = 1e-4

    def __post_init__(self) -> None:
        for name in ("intermediate_weight", "ranking_weight", "kl_weight"):
            require_number(name, getattr(self, name))

    def by_term(self) -> dict[str, float]:
        """Weight of every term that is computed."""
        terms = {"intermediate": self.intermediate_weight, "ranking": self.ranking_weight, "kl": self.kl_weight}
        return {"bce": 1.0} | {name: weight for name, weight in terms.items() if weight > 0}


def picked(names: Iterable[str], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of the given names, as far as they are there."""
    return {name: parameters[name] for name in names if name in parameters}


# --- recipes ---------------------------------------------------------------------------------------------

RECIPES: dict[str, dict[str, Any]] = {
    "auto": {},
    "network": {},
    "paper": {
        # Encoders: "a three-layer MLP", or "a two-layer FMP" where rows are tokens. Widths are not printed.
        "encoder_widths": (256, 512, 256),
        "label_encoder_widths": (256, 512, 256),
        "encoder_layers": 2,
        "label_encoder": "mlp",
        "latent_dim": 0,  # one d for "both the feature embedding and the label embedding"
        "initial_log_variance": -4.0,  # not printed
        # Decoder: "by default, there is an edge between every pair of labels".
        "graph": "complete",
        "dim": 200,
        "n_layers": 2,
        # "Dropout after all layers except the last one", one rate.
        "encoder_dropout": 0.2,
        "decoder_dropout": 0.2,
        # Loss: lambda_0 = 1, lambda_1, lambda_2, beta.
        "intermediate_weight": 0.2,
        "ranking_weight": 1.0,
        "kl_weight": 1e-5,
        # Training: "the Adam optimizer", "up to 200 epochs to saturate the performance", "we select the model
        # performing best on validation set based on maF1". Batch size and when it is saturated are not printed.
        "optimizer": "adam",
        "learning_rate": 3e-4,
        "max_epochs": 200,
        "patience": 20,
        "batch_size": 64,
        "selection_metric": "macro_f1",
        "precision": "float32",
        # Rows: how numbers are scaled is not printed.
        "scaling": "standard",
        # Nothing else: what is ours is off.
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
    },
}
"""Settings of the network by recipe: ours, the defaults; and the paper's, whole, so that no default of ours is in it.

``"paper"`` is the model as printed: encoders, decoder, the four terms of the loss, Adam, up to 200 epochs, the epoch
with the best macro F1 on validation rows. Nothing else: no path around the decoder, no landmarks, places or base, no
average of weights, warm-up, decay or clipping. Where the supplement has a grid, the recipe has one point of it: step
size, lambda_1, lambda_2, beta, *d*, layers, dropout, graph (``paper/reproduce.py`` searches it). What is not printed,
and what is taken in its place, is in docs/paper_notes.md. What a row is (``encoder``) belongs to the data, and is not
part of a recipe."""


def find_recipe(name: str) -> dict[str, Any]:
    """Return the settings of a recipe that differ from the defaults.

    Examples
    --------
    >>> find_recipe("paper")["optimizer"]
    'adam'
    """
    return dict(RECIPES[require_choice("recipe", name, RECIPES)])
