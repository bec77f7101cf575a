"""What is searched of each model: ranges and choices, and how a trial draws from them.

Nothing here knows torch or Optuna; a trial comes in as an argument.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hotvae.errors import ConfigError, listed

if TYPE_CHECKING:
    from optuna import Trial


@dataclass(frozen=True)
class Numbers:
    """A range to search.

    Attributes
    ----------
    low, high : float
        Its ends; whole numbers make a range of whole numbers.
    log : bool
        Whether equal ratios count alike, rather than equal differences.
    """

    low: float
    high: float
    log: bool = False


@dataclass(frozen=True)
class Choices:
    """Values to choose from.

    Attributes
    ----------
    values : tuple
        Numbers, words, or tuples of widths.
    """

    values: tuple[Any, ...]


Space = dict[str, Numbers | Choices]

# How rows are read, and what a network adds to; places only where the table has coordinates.
_ROWS: Space = {
    "scaling": Choices(("standard", "robust", "quantile", "none")),
    "spatial_units": Choices((0, 50, 100, 200)),
    "base": Choices((None, "ridge")),
}
_WIDTHS = Choices(((256,), (256, 512, 256), (512, 512, 512), (1024,), (2048,)))
_NETWORK: Space = _ROWS | {
    "learning_rate": Numbers(2e-4, 1e-2, log=True),
    "weight_decay": Numbers(1e-4, 0.3, log=True),
    "encoder_dropout": Numbers(0.0, 0.8),
    "encoder_widths": _WIDTHS,
    "selection_metric": Choices(("log_loss", "macro_f1")),
}

SPACES: dict[str, Space] = {
    # The supplement's grid, and what our recipe adds to it.
    "hotvae_network": _NETWORK
    | {
        "dim": Choices((32, 64, 128, 256)),
        "latent_dim": Choices((0, 256)),
        "n_layers": Numbers(1, 5),
        "intermediate_weight": Choices((0.0, 0.1, 0.2, 0.3)),
        "ranking_weight": Choices((0.0, 0.1, 1.0, 10.0, 100.0)),
        "kl_weight": Choices((0.0, 1e-5, 1e-4, 1e-3)),
        "decoder_dropout": Choices((0.0, 0.1, 0.2, 0.5)),
        "average_decay": Choices((0.0, 0.99, 0.995)),
    },
    "plain": _NETWORK | {"latent_dim": Choices((32, 64, 128, 256)), "average_decay": Choices((0.0, 0.99, 0.995))},
    "mpvae": _NETWORK
    | {
        "dim": Choices((32, 64, 128)),
        "kl_weight": Numbers(1e-3, 3.0, log=True),
        "ranking_weight": Numbers(0.1, 30.0, log=True),
    },
    "lamp": _NETWORK
    | {
        "dim": Choices((32, 64, 128)),
        "n_layers": Numbers(1, 4),
        "decoder_dropout": Numbers(0.0, 0.5),
        "intermediate_weight": Choices((0.0, 0.1, 0.2, 0.3)),
    },
    "seq2seq": _NETWORK | {"decoder_dim": Choices((64, 128, 256)), "decoder_dropout": Numbers(0.0, 0.5)},
    "c2ae": _NETWORK
    | {
        "latent_share": Numbers(0.2, 1.0),
        "ranking_weight": Numbers(0.3, 30.0, log=True),
        "alignment_weight": Numbers(0.1, 10.0, log=True),
    },
    "probit": {name: values for name, values in _NETWORK.items() if name not in ("base", "encoder_widths")}
    | {"mean": Choices(("linear", "mlp")), "rank": Choices((None, 4, 8, 16, 32))},
    "mlknn": {"n_neighbours": Numbers(3, 60, log=True), "smoothing": Numbers(0.05, 5.0, log=True)},
    "sleec": {
        "dim": Choices((25, 50, 100, 150)),
        "n_neighbours": Numbers(5, 60, log=True),
        "n_graph_neighbours": Numbers(10, 200, log=True),
    },
    "random_forest": {"n_trees": Choices((200, 300, 500)), "max_features": Choices(("auto", "sqrt", 0.2, 0.4, 0.7))},
    "extra_trees": {"n_trees": Choices((200, 300, 500)), "max_features": Choices(("auto", "sqrt", 0.2, 0.4, 0.7))},
    "boosting": {
        "learning_rate": Numbers(0.01, 0.3, log=True),
        "max_leaves": Numbers(4, 32, log=True),
        "min_leaf_rows": Numbers(3, 60, log=True),
        "feature_share": Numbers(0.1, 1.0),
    },
}
"""What is searched of each model; ridge, logistic regression and chains choose by validation rows when trained."""


def space_of(model: str, values: Mapping[str, Any], *, without: Collection[str] = ()) -> tuple[dict[str, Any], Space]:
    """Return where a search starts, and a space that has this point inside.

    Parameters
    ----------
    model : str
        Short name of a model.
    values : mapping of str to object
        All its settings as they are without a search.
    without : collection of str
        Settings that are not searched.

    Returns
    -------
    dict, Space
        Both by the names of settings.

    Raises
    ------
    ConfigError
        A model that has nothing to search, or of which everything is held.

    Examples
    --------
    >>> start, space = space_of("mlknn", {"n_neighbours": 100, "smoothing": 1.0})
    >>> start, space["n_neighbours"]
    ({'n_neighbours': 100, 'smoothing': 1.0}, Numbers(low=3, high=100, log=True))
    """
    if model not in SPACES:
        raise ConfigError(
            f"model must have settings to search ({listed(SPACES, len(SPACES))}); got {model!r}. "
            "Others choose theirs by validation rows whenever they are trained."
        )
    space: Space = {}
    for name, told in SPACES[model].items():
        if name not in without:
            space[name] = _with(told, values[name])
    if not space:
        raise ConfigError(
            f"a search must have a setting left to search; got {listed(SPACES[model], len(SPACES[model]))} set. "
            "Leave one of them out."
        )
    return {name: values[name] for name in space}, space


def _with(told: Numbers | Choices, value: Any) -> Numbers | Choices:
    """Widen a range or a list of choices so that a value is among them."""
    if isinstance(told, Choices):
        return told if value in told.values else Choices((*told.values, value))
    log = told.log and value > 0  # zero has no logarithm
    return Numbers(min(told.low, value), max(told.high, value), log)


def suggest(trial: Trial, space: Space, start: Mapping[str, Any]) -> dict[str, Any]:
    """Draw a point of a space for a trial.

    Parameters
    ----------
    trial : optuna.Trial
        Draws.
    space : Space
        Ranges and choices.
    start : mapping of str to object
        Where the search starts: these values are kept to the last digit, others have three.

    Returns
    -------
    dict
        Settings of a model.
    """
    chosen: dict[str, Any] = {}
    for name, told in space.items():
        if isinstance(told, Choices):
            by_text = {plain(option): option for option in told.values}
            chosen[name] = by_text[trial.suggest_categorical(name, list(by_text))]
        elif isinstance(told.low, int) and isinstance(told.high, int):
            chosen[name] = trial.suggest_int(name, told.low, told.high, log=told.log)
        else:
            value = trial.suggest_float(name, told.low, told.high, log=told.log)
            # Settings are read by people, and a fourth digit never mattered; what is given already stays as it is.
            if value != start.get(name):
                value = min(max(float(f"{value:.3g}"), told.low), told.high)
            chosen[name] = value
    return chosen


def plain(value: Any) -> Any:
    """Turn a tuple of widths into text, the only kind of choice that Optuna keeps in a file besides numbers.

    Examples
    --------
    >>> plain((64, 32)), plain("mlp"), plain(None)
    ('[64, 32]', 'mlp', None)
    """
    return json.dumps(value) if isinstance(value, tuple) else value
