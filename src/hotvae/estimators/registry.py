"""All models by their short names, and how a saved one is read back."""

from __future__ import annotations

import os
from difflib import get_close_matches

from torch import nn

from hotvae.baselines.boosting import BoostedTrees
from hotvae.baselines.c2ae import C2AE
from hotvae.baselines.chains import ChainEnsemble, LabelChain
from hotvae.baselines.forests import ExtraTrees, RandomForest
from hotvae.baselines.lamp import LaMP
from hotvae.baselines.logistic import LogisticLabels
from hotvae.baselines.mlknn import MLkNN
from hotvae.baselines.mpvae import MPVAE
from hotvae.baselines.plain import PlainNetClassifier
from hotvae.baselines.prevalence import Prevalence
from hotvae.baselines.probit import ProbitJSDM
from hotvae.baselines.ridge import GaussianKernelRidge, LinearRidge
from hotvae.baselines.seq2seq import Seq2Seq
from hotvae.baselines.sleec import SLEEC
from hotvae.checkpoint import load_folder
from hotvae.errors import ConfigError, ModelError, listed
from hotvae.estimators.base import LabelClassifier
from hotvae.estimators.hotvae import HotVAEClassifier

CLASSIFIERS: dict[str, type[LabelClassifier]] = {
    "hotvae": HotVAEClassifier,
    "plain": PlainNetClassifier,
    "mpvae": MPVAE,
    "lamp": LaMP,
    "seq2seq": Seq2Seq,
    "c2ae": C2AE,
    "probit": ProbitJSDM,
    "mlknn": MLkNN,
    "sleec": SLEEC,
    "ridge": LinearRidge,
    "kernel_ridge": GaussianKernelRidge,
    "logistic": LogisticLabels,
    "chain": LabelChain,
    "chain_ensemble": ChainEnsemble,
    "random_forest": RandomForest,
    "extra_trees": ExtraTrees,
    "boosting": BoostedTrees,
    "prevalence": Prevalence,
}
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
