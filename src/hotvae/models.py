"""All models by their short names, and how a saved one is read back."""

from __future__ import annotations

import os
from difflib import get_close_matches

from torch import nn

from hotvae.baselines.plain import PlainNetClassifier
from hotvae.checkpoint import load_folder
from hotvae.classifier import LabelClassifier
from hotvae.errors import ConfigError, ModelError, listed
from hotvae.estimator import HotVAEClassifier

CLASSIFIERS: dict[str, type[LabelClassifier]] = {"hotvae": HotVAEClassifier, "plain": PlainNetClassifier}
"""The models that can be trained on a table, by their short names."""


def find_classifier(name: str) -> type[LabelClassifier]:
    """Return the class of a model by its short name.

    Parameters
    ----------
    name : str
        A key of :data:`CLASSIFIERS`.

    Returns
    -------
    class

    Raises
    ------
    ConfigError
        An unknown name, with close ones.

    Examples
    --------
    >>> find_classifier("plain").title
    'plain network'
    """
    if name in CLASSIFIERS:
        return CLASSIFIERS[name]
    close = get_close_matches(name, CLASSIFIERS, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else "Choose one of them."
    raise ConfigError(f"model must be one of {listed(CLASSIFIERS, len(CLASSIFIERS))}; got {name!r}. {hint}")


def load_model(path: str | os.PathLike[str], encoder: nn.Module | None = None) -> LabelClassifier:
    """Read a saved model of any kind.

    Parameters
    ----------
    path : path
        A folder written by ``save``.
    encoder : nn.Module, optional
        The untrained module, when the model was made with an encoder of one's own.

    Returns
    -------
    fitted classifier

    Examples
    --------
    >>> load_model("nowhere")
    Traceback (most recent call last):
    ...
    hotvae.errors.ModelError: model folder must exist; got nowhere. ...
    """
    kinds = {cls.__name__: cls for cls in CLASSIFIERS.values()}
    kind = load_folder(path)[0].get("kind")
    if kind not in kinds:
        raise ModelError(f"model must be one of {listed(kinds)}; got {kind!r} ({path}). Upgrade hotvae.")
    return kinds[kind].load(path, **({} if encoder is None else {"encoder": encoder}))
