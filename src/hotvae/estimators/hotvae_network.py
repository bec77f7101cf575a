"""HOT-VAE's network alone, as a scikit-learn classifier: encoders, attention decoder, the paper's losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from hotvae.config import LabelEncoderKind, LossWeights, NetConfig, find_recipe
from hotvae.errors import ConfigError
from hotvae.estimators.network import NetworkClassifier
from hotvae.graph import check_graph, cooccurrence_graph
from hotvae.net.model import HotVAE


@dataclass(kw_only=True, eq=False, repr=False)
class HotVAENetwork(NetworkClassifier):
    """HOT-VAE's network alone: for the paper's recipe, and for those who search settings themselves.

    A feature branch and a label branch share one decoder, in which labels are nodes of a graph and pass messages;
    ``n_layers`` rounds learn correlations of order ``n_layers + 1`` that depend on the features. It gives the
    probability of each label by itself; known labels and whole label sets are for :class:`~hotvae.HotVAEClassifier`, or
    ``JointClassifier(base=HotVAENetwork(...))``.

    Parameters
    ----------
    training : Training, optional
        How to train: epochs, step size, patience, device, threads, progress; see
        :class:`~hotvae.training.settings.Training`. ``training__max_epochs`` and the like work in a grid search.
    features : transformer, optional
        What makes rows ready, such as ``FeatureScaler(scaling="quantile", spatial_units=100)`` of
        :mod:`hotvae.features`, or any scikit-learn transformer from tables to numbers. None takes the one that goes
        with ``encoder``, with its defaults.
    encoder : {"mlp", "set", "text", "bag", "smiles", "elements"} or nn.Module
        What rows of X are, and so which encoder reads them:

        * ``"mlp"``: a table of numbers and categories, through a perceptron;
        * ``"set"``: the active columns of a sparse 0/1 table, as tokens that pass messages;
        * ``"text"``, ``"bag"``: a column of texts, as words in order, or as a bag of weighted words;
        * ``"smiles"``, ``"elements"``: a column of molecules, as atoms, or as the elements that are there;
        * a module of your own, which maps a batch of rows made ready to tokens with a mean and a log-variance.
    encoder_widths : tuple of int
        Hidden widths of the perceptron of the feature branch.
    encoder_dropout : float
        Share of units dropped in the encoders while training.
    base : {"ridge"}, optional
        A model whose logits the network adds to, instead of starting from prevalences: with ``"ridge"`` a linear ridge
        regression, and the network learns what it leaves over. Training rows have logits of ridges that were not shown
        them. For tables and bags of words, of at most 20,000 rows or columns.
    n_layers : int
        Rounds of messages between labels.
    dim : int
        Width of the labels' states in the decoder.
    graph : "complete", "cooccurrence" or array of bool of shape (n_labels, n_labels)
        Which labels may talk to each other; ``"cooccurrence"`` keeps edges between labels seen together.
    latent_dim : int
        Width of the latent space; 0 is ``dim``, as in the paper.
    encoder_layers : int
        Rounds of messages among the tokens of a row.
    decoder_dropout : float
        Share of units dropped in the decoder while training.
    direct_path : bool
        A linear read-out of the latent beside the messages.
    label_encoder : {"mlp", "tokens"}
        How the label branch reads labels: all at once, or each positive label as a token.
    label_encoder_widths : tuple of int
        Hidden widths of the perceptron of the label branch.
    intermediate_weight, ranking_weight, kl_weight : float
        Weights of three loss terms beside the cross entropy, whose weight is 1.
    initial_log_variance : float
        Where the latent log-variances start.
    validation_fraction : float
        Share of the rows held out to choose epoch and thresholds, unless ``fit`` is given some. Tables too
        small to spare 10 rows train on all of them and keep the last epoch.
    random_state : int, RandomState or None
        The same number gives the same model on the same machine.

    Attributes
    ----------
    network_ : HotVAE
        The trained network.
    history_ : History
        One record per epoch.
    features_ : transformer
        What makes rows ready for the network, learned from training rows.
    base_ : pair of Tensor or None
        Weights and intercepts of the ridge whose logits the network adds to.
    thresholds_ : dict
        Cut-off of each metric, chosen on validation rows.
    label_names_ : ndarray of str
        Names of the labels.
    classes_ : ndarray
        Label indices, or the classes of a 1-D y.
    graph_ : ndarray or None
        The label graph; None is the complete one.

    Examples
    --------
    >>> import numpy as np
    >>> from hotvae import HotVAENetwork, Training
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> Y = np.column_stack([X[:, 0] > 0, X[:, 0] < 0.5])
    >>> model = HotVAENetwork(training=Training(max_epochs=30), encoder_widths=(32,), random_state=0).fit(X, Y)
    >>> model.predict([[-0.8], [0.8]])
    array([[0, 1],
           [1, 0]])
    """

    title = "HOT-VAE"
    takes = "tables, sparse 0/1 tables, texts, molecules, your own; labels may have gaps"
    cost = "minutes; grows with rows, and with the square of the number of labels beyond a few hundred"
    citation = "Zhao et al. (2021), HOT-VAE: Learning High-Order Label Correlation for Multi-Label Classification, AAAI"

    encoder: str | nn.Module = "mlp"
    encoder_widths: tuple[int, ...] = NetConfig.encoder_widths
    encoder_dropout: float = NetConfig.encoder_dropout
    base: Literal["ridge"] | None = None
    n_layers: int = NetConfig.n_layers
    dim: int = NetConfig.dim
    graph: Literal["complete", "cooccurrence"] | NDArray[np.bool_] = "complete"
    latent_dim: int = NetConfig.latent_dim
    encoder_layers: int = NetConfig.encoder_layers
    decoder_dropout: float = NetConfig.decoder_dropout
    direct_path: bool = NetConfig.direct_path
    label_encoder: LabelEncoderKind = NetConfig.label_encoder
    label_encoder_widths: tuple[int, ...] = NetConfig.label_encoder_widths
    intermediate_weight: float = LossWeights.intermediate_weight
    ranking_weight: float = LossWeights.ranking_weight
    kl_weight: float = LossWeights.kl_weight
    initial_log_variance: float = NetConfig.initial_log_variance

    @classmethod
    def from_recipe(cls, recipe: Literal["network", "paper"], **settings: Any) -> HotVAENetwork:
        """Make a classifier by a named recipe.

        Parameters
        ----------
        recipe : {"network", "paper"}
            ``"network"`` has the defaults; ``"paper"`` is the model as the paper prints it and nothing else
            (:data:`~hotvae.config.RECIPES`), at one point of the supplement's grid.
        **settings
            Whatever else is to differ from the defaults, by the names of parameters or of those of ``training`` and
            ``features``, such as ``max_epochs``; these win over the recipe.

        Returns
        -------
        HotVAENetwork

        Examples
        --------
        >>> model = HotVAENetwork.from_recipe("paper", n_layers=3)
        >>> model.training.optimizer, model.training.max_epochs, model.direct_path
        ('adam', 200, False)
        """
        return cls.from_settings(**find_recipe(recipe) | settings)

    def _label_graph(self, labels: NDArray[Any]) -> NDArray[np.bool_] | None:
        if isinstance(self.graph, str):
            if self.graph == "complete":
                return None
            if self.graph == "cooccurrence":
                return cooccurrence_graph(labels)
            raise ConfigError(
                f"graph must be 'complete', 'cooccurrence' or an array; got {self.graph!r}. See hotvae.graph."
            )
        return check_graph(np.asarray(self.graph), self.n_labels_)

    def _weights(self) -> Mapping[str, float]:
        return self._config(LossWeights).by_term()

    def _build(self, n_features: int, n_labels: int, graph: Tensor | None, initial_logits: Tensor | None) -> nn.Module:
        return HotVAE(
            n_features,
            n_labels,
            self._config(NetConfig),
            graph,
            self._feature_encoder(n_features),
            initial_logits,
            self._weights().keys(),
            self._has_base(),
        )
