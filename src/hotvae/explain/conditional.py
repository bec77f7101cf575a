"""Probabilities of a model given one label as present, as absent, or no label at all."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import logit

from hotvae.config import require_choice
from hotvae.errors import ConfigError, listed

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.intp]
Scale = Literal["probability", "logit"]
SCALES = get_args(Scale)

MIN_PROBABILITY = 1e-3
"""On the logit scale probabilities are kept this far from 0 and 1: beyond, a logit is more noise than statement."""


class ConditionalModel(Protocol):
    """What the functions of this module need of a model: names of labels, and probabilities given some of them."""

    @property
    def label_names_(self) -> Any:
        """Names of the labels, in the order of the columns."""
        ...

    def predict_proba(self, X: Any, given: Any = None) -> npt.NDArray[Any]:
        """Probabilities of shape (n_samples, n_labels); ``given`` holds 1, 0 and NaN for unknown."""
        ...


Models = ConditionalModel | Sequence[ConditionalModel]


def answers_given(model: object) -> bool:
    """Tell whether a model can be given labels.

    Parameters
    ----------
    model : object
        Any classifier.

    Returns
    -------
    bool
        The model's own ``conditional``, or, without one, whether ``predict_proba`` takes ``given``.

    Examples
    --------
    >>> from hotvae.baselines.mlknn import MLkNN
    >>> from hotvae.baselines.probit import ProbitJSDM
    >>> answers_given(ProbitJSDM()), answers_given(MLkNN())
    (True, False)
    """
    own = getattr(model, "conditional", None)
    if own is not None:
        return bool(own)
    predict = getattr(model, "predict_proba", None)
    return predict is not None and "given" in inspect.signature(predict).parameters


def flip_effects(model: ConditionalModel, X: Any, label: str, *, scale: Scale = "probability") -> FloatArray:
    """Change of every label's probability when one label goes from absent to present, row by row.

    Parameters
    ----------
    model : model with ``predict_proba(X, given=...)`` and ``label_names_``
        A fitted model.
    X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
        Rows.
    label : str
        The label that is flipped.
    scale : {"probability", "logit"}
        Differences of probabilities, or of their logits (which do not shrink where a label is rare).

    Returns
    -------
    ndarray of shape (n_samples, n_labels)
        NaN in the column of ``label`` itself.

    Raises
    ------
    ConfigError
        A model that cannot be given labels, an unknown label or scale.

    Examples
    --------
    >>> from hotvae.data.synthetic import virtual_region
    >>> from hotvae.explain.recovery import TrueModel
    >>> region = virtual_region(50, random_state=0)
    >>> effects = flip_effects(TrueModel(region), region.dataset.features, "species_01")
    >>> effects.shape
    (50, 24)
    """
    require_choice("scale", scale, SCALES)
    names = names_of(model_list(model))
    place = places_of([label], names)[0]
    low, high = two_sides(model, X, place, len(names), scale)
    effects = high - low
    effects[:, place] = np.nan
    return effects


def take_rows(X: Any, rows: IntArray) -> Any:
    """Take rows of a table of any kind."""
    if isinstance(X, pd.DataFrame):
        return X.iloc[rows]
    return X[rows] if hasattr(X, "shape") else np.asarray(X)[rows]


def row_count(X: Any) -> int:
    """Count the rows of a table of any kind."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def one_or_several(model: Any) -> list[Any]:
    """Return one model or several as a list."""
    models = list(model) if isinstance(model, list | tuple) else [model]
    if not models:
        raise ConfigError("model must be a fitted model or several; got none. Pass at least one.")
    return models


def model_list(model: Models) -> list[ConditionalModel]:
    """Return one model or several as a list, each of which can be given labels."""
    models = one_or_several(model)
    for each in models:
        if not answers_given(each):
            kind = type(each).__name__
            raise ConfigError(
                f"model must answer predict_proba(X, given=...); got {kind}, which does not. "
                "It says nothing about labels given others: choose hotvae, probit, mpvae or a chain."
            )
    return models


def names_of(models: Sequence[ConditionalModel]) -> list[str]:
    """Names of the labels, which must be the same for all models."""
    names = [str(name) for name in models[0].label_names_]
    for each in models[1:]:
        if [str(name) for name in each.label_names_] != names:
            raise ConfigError(
                "models must have the same labels in the same order; got different ones. Train them alike."
            )
    return names


def places_of(wanted: Sequence[str], names: Sequence[str]) -> list[int]:
    """Find labels by their names."""
    order = {name: place for place, name in enumerate(names)}
    unknown = [name for name in wanted if name not in order]
    if unknown:
        raise ConfigError(
            f"label must be one of the model's ({listed(names)}); got {listed(unknown)}. Check the spelling."
        )
    return [order[name] for name in wanted]


def probs_alone(model: ConditionalModel, X: Any) -> FloatArray:
    """Probabilities of all labels of all rows, given none."""
    return np.asarray(model.predict_proba(X), dtype=np.float64)


def probs_given(model: ConditionalModel, X: Any, given: Mapping[int, float], n_labels: int, scale: Scale) -> FloatArray:
    """Probabilities, or logits, of all labels of all rows, given the same labels (by their places) in every row."""
    table = np.full((row_count(X), n_labels), np.nan)
    for place, value in given.items():
        table[:, place] = value
    probs = np.asarray(model.predict_proba(X, given=table), dtype=np.float64)
    if scale == "probability":
        return probs
    logits: FloatArray = logit(probs.clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY))
    return logits


def two_sides(
    model: ConditionalModel, X: Any, place: int, n_labels: int, scale: Scale
) -> tuple[FloatArray, FloatArray]:
    """Probabilities, or logits, given a label as absent, and given it as present."""
    return probs_given(model, X, {place: 0.0}, n_labels, scale), probs_given(model, X, {place: 1.0}, n_labels, scale)


def check_between(name: str, value: float, low: float, high: float) -> None:
    """Refuse a number that does not lie between two others."""
    if not low < value < high:
        raise ConfigError(f"{name} must be above {low} and below {high}; got {value}.")
