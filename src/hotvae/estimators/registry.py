"""The registry of all models by their short names, and how a saved one is read back."""

from __future__ import annotations

import os
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from torch import Tensor, nn

from hotvae.checkpoint import load_folder
from hotvae.errors import ConfigError, ModelError, listed, shown
from hotvae.estimators.base import LabelClassifier

CLASSIFIERS: dict[str, str] = {
    "hotvae": "hotvae.estimators.hotvae:HotVAEClassifier",
    "hotvae_network": "hotvae.estimators.hotvae_network:HotVAENetwork",
    "plain": "hotvae.baselines.plain:PlainNetClassifier",
    "mpvae": "hotvae.baselines.mpvae:MPVAE",
    "lamp": "hotvae.baselines.lamp:LaMP",
    "seq2seq": "hotvae.baselines.seq2seq:Seq2Seq",
    "c2ae": "hotvae.baselines.c2ae:C2AE",
    "probit": "hotvae.baselines.probit:ProbitJSDM",
    "mlknn": "hotvae.baselines.mlknn:MLkNN",
    "sleec": "hotvae.baselines.sleec:SLEEC",
    "ridge": "hotvae.baselines.ridge:LinearRidge",
    "kernel_ridge": "hotvae.baselines.ridge:GaussianKernelRidge",
    "logistic": "hotvae.baselines.scikit:LogisticLabels",
    "chain": "hotvae.baselines.chains:LabelChain",
    "chain_ensemble": "hotvae.baselines.chains:ChainEnsemble",
    "random_forest": "hotvae.baselines.scikit:RandomForest",
    "extra_trees": "hotvae.baselines.scikit:ExtraTrees",
    "boosting": "hotvae.baselines.scikit:BoostedTrees",
    "prevalence": "hotvae.baselines.prevalence:Prevalence",
}
"""Where each model that can be trained on a table stands, by its short name; it is imported when it is asked for."""


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
        module, _, cls = CLASSIFIERS[name].partition(":")
        found: type[LabelClassifier] = getattr(import_module(module), cls)
        return found
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
    return model_of_folder(path, *load_folder(path), encoder)


def model_of_folder(
    path: str | os.PathLike[str],
    config: dict[str, Any],
    tensors: dict[str, Tensor],
    encoder: nn.Module | None = None,
) -> LabelClassifier:
    """Make the model that a folder describes, of what was read from it at once."""
    kinds = {place.partition(":")[2]: name for name, place in CLASSIFIERS.items()}
    kind = config.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise ModelError(f"model must be one of {listed(kinds)}; got {shown(kind)} ({path}). Upgrade hotvae.")
    own = {} if encoder is None else {"encoder": encoder}
    return find_classifier(kinds[kind])._from_folder(path, config, tensors, **own)
