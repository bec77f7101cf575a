"""LaMP: features pass messages among themselves, then to the labels, labels to each other (Lanchantin et al. 2019).

The label half is HOT-VAE's decoder; here stand the feature half, the network that joins them, and its face.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from hotvae.baselines.neighbours import RememberingNetwork
from hotvae.config import NetConfig, require_choice, require_count
from hotvae.graph import check_graph, cooccurrence_graph
from hotvae.net.base_logits import BaseScale
from hotvae.net.decoder import Decoder
from hotvae.net.encoders import TokenLayer, encode
from hotvae.net.losses import bce_loss, intermediate_loss
from hotvae.net.perceptron import perceptron
from hotvae.types import Features, GraphMask, Labels, LayerLogits, Logits, PerSample, Probs, TokenMask, Tokens


class _NodeEncoder(nn.Module):
    """What the nodes of a row do once they are there: rounds of messages among themselves."""

    def _make_rounds(self, config: NetConfig) -> None:
        self.layers = nn.ModuleList(TokenLayer(config) for _ in range(config.encoder_layers))

    def _pass_messages(self, tokens: Tokens, mask: TokenMask | None = None) -> tuple[Tokens, Tokens]:
        """Return the tokens after all rounds, and a log-variance of 0."""
        heard = torch.ones_like(tokens[:, :, 0], dtype=torch.bool) if mask is None else mask
        for layer in self.layers:
            tokens = layer(tokens, heard.unsqueeze(1))
        return tokens, tokens.new_zeros(()).expand_as(tokens)


class ColumnEncoder(_NodeEncoder):
    """Columns of a table as nodes: each column that is not 0 is a token, and tokens pass messages.

    A token is the column's own vector plus its value times another; a root token stands in every row, also in one
    without any other. In a sparse table only the active columns cost anything.

    Parameters
    ----------
    n_features : int
        Columns.
    config : NetConfig
        Width, heads, ``encoder_layers`` and dropout.
    """

    n_tokens = None

    def __init__(self, n_features: int, config: NetConfig) -> None:
        super().__init__()
        self.root = nn.Parameter(torch.randn(config.dim))
        self.identity = nn.Parameter(torch.randn(n_features, config.dim))
        self.scale = nn.Parameter(torch.randn(n_features, config.dim))
        self._make_rounds(config)

    def forward(self, features: Features) -> tuple[Tokens, Tokens, TokenMask | None]:
        """Return the tokens, a log-variance of 0 and the mask of real tokens."""
        tokens, mask = self._embed(features)
        return *self._pass_messages(tokens, mask), mask

    def _embed(self, features: Features) -> tuple[Tokens, TokenMask | None]:
        active = features != 0
        root = self.root.expand(len(features), 1, -1)
        if bool(active.all()):
            return torch.cat([root, self.identity + features.unsqueeze(-1) * self.scale], 1), None
        # Active columns first, in their own order; (batch, feature) -> (batch, most active columns of a row)
        width = int(active.sum(-1).max())
        column = torch.sort(active.to(torch.uint8), dim=-1, descending=True, stable=True).indices[:, :width]
        value = features.gather(1, column).unsqueeze(-1)
        tokens = nn.functional.embedding(column, self.identity) + value * nn.functional.embedding(column, self.scale)
        return torch.cat([root, tokens], 1), torch.cat([torch.ones_like(active[:, :1]), active.gather(1, column)], 1)


class PartEncoder(_NodeEncoder):
    """A vector of numbers as a few nodes: a perceptron reads it into parts, and parts pass messages.

    Parameters
    ----------
    n_features, n_parts : int
        Columns, and nodes made of them.
    config : NetConfig
        ``encoder_widths``, ``encoder_layers``, width, heads and dropout.
    """

    def __init__(self, n_features: int, n_parts: int, config: NetConfig) -> None:
        super().__init__()
        self.n_tokens = n_parts
        self.parts = perceptron(n_features, config.encoder_widths, n_parts * config.dim, config.encoder_dropout)
        self._make_rounds(config)

    def forward(self, features: Features) -> tuple[Tokens, Tokens]:
        """Return the tokens and a log-variance of 0."""
        return self._pass_messages(self.parts(features).unflatten(-1, (self.n_tokens, -1)))


class LaMPNet(nn.Module):
    """Messages among features, from features to labels, among labels; a read-out after every layer.

    Parameters
    ----------
    feature_encoder : nn.Module
        Any encoder (see :mod:`hotvae.net.encoders`); only its means are used.
    n_labels : int
        Nodes of the label graph.
    config : NetConfig
        Shape of the network.
    graph : Tensor of bool of shape (label, label), optional
        Label graph with self-edges; None for the complete one.
    initial_logits : Tensor of shape (label,), optional
        Starting bias of the read-out.
    has_base : bool
        Whether rows come with base logits (:mod:`hotvae.net.base_logits`).
    """

    def __init__(
        self,
        feature_encoder: nn.Module,
        n_labels: int,
        config: NetConfig,
        graph: GraphMask | None = None,
        initial_logits: Float[Tensor, " label"] | None = None,
        has_base: bool = False,
    ) -> None:
        super().__init__()
        self.feature_encoder = feature_encoder
        self.base = BaseScale(n_labels) if has_base else None
        single_token = getattr(feature_encoder, "n_tokens", None) == 1
        self.decoder = Decoder(n_labels, config, single_token, graph, None if has_base else initial_logits)

    def forward(self, features: Tensor, base_logits: Logits | None = None) -> LayerLogits:
        """Logits after every layer; the last is the prediction."""
        tokens = encode(self.feature_encoder, features)
        logits: LayerLogits = self.decoder(tokens.mean, tokens.mask)
        return logits if self.base is None else self.base.add(logits, base_logits)

    def loss(self, features: Tensor, labels: Labels, base_logits: Logits | None = None) -> dict[str, PerSample]:
        """Cross entropy after the last layer, and after each layer before it."""
        logits = self(features, base_logits)
        return {"bce": bce_loss(logits[-1], labels), "intermediate": intermediate_loss(logits, labels)}

    def predict(self, features: Tensor, base_logits: Logits | None = None) -> Probs:
        """Probabilities of a batch."""
        return torch.sigmoid(self(features, base_logits)[-1])


@dataclass(kw_only=True, eq=False, repr=False)
class LaMP(RememberingNetwork):
    """Parts of a row pass messages to each other and to the labels, labels to each other.

    What HOT-VAE's decoder is without the variational autoencoder around it.

    Parameters
    ----------
    dim, n_layers, n_heads : int
        Width, rounds of messages among labels, attention heads.
    encoder : {"parts", "columns", "mlp", "set", "text", "bag", "smiles", "elements"} or nn.Module
        What the nodes of a row are: ``n_parts`` that a perceptron makes of it, each column by itself, or as in
        :class:`~hotvae.HotVAENetwork`.
    n_parts : int
        Nodes made of a row, for ``"parts"``.
    encoder_layers : int
        Rounds of messages among the nodes of a row.
    encoder_widths : tuple of int
        Hidden widths of the perceptron.
    encoder_dropout, decoder_dropout : float
        Shares of units dropped while training.
    graph : "complete", "cooccurrence", "edgeless" or array of bool of shape (n_labels, n_labels)
        Which labels may talk to each other: all; those that occur together in training rows; none. The paper calls the
        first two ``"none"`` (no mask) and ``"prior"``, which are understood, too.
    bce_weight, intermediate_weight : float
        Weights of the cross entropy after the last layer and after each layer before it.
    base, latent_neighbours, training, features, validation_fraction, random_state
        As in :class:`~hotvae.baselines.neighbours.RememberingNetwork`.

    Examples
    --------
    >>> import numpy as np
    >>> from hotvae import Training
    >>> from hotvae.baselines.lamp import LaMP
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> Y = np.column_stack([X[:, 0] > 0, X[:, 0] < 0.5])
    >>> LaMP(training=Training(max_epochs=30), random_state=0).fit(X, Y).predict([[0.8]])
    array([[1, 0]])
    """

    title = "LaMP"
    citation: ClassVar[str] = (
        "Lanchantin, Sekhon & Qi (2019). Neural message passing for multi-label classification. ECML PKDD."
    )
    takes: ClassVar[str] = "tables, sparse 0/1 tables, texts, molecules, your own; labels may have gaps"
    cost: ClassVar[str] = "minutes; grows with labels squared, and with columns squared where each is a node"
    loss_terms: ClassVar[tuple[str, ...]] = ("bce", "intermediate")

    dim: int = NetConfig.dim
    n_layers: int = NetConfig.n_layers
    n_heads: int = 2
    encoder: str | nn.Module = "parts"
    n_parts: int = 8
    encoder_layers: int = 1
    encoder_widths: tuple[int, ...] = NetConfig.encoder_widths
    encoder_dropout: float = NetConfig.encoder_dropout
    decoder_dropout: float = 0.2
    graph: Literal["complete", "cooccurrence", "edgeless", "none", "prior"] | NDArray[np.bool_] = "complete"
    bce_weight: float = 1.0
    intermediate_weight: float = 0.2

    def _label_graph(self, labels: NDArray[Any]) -> NDArray[np.bool_] | None:
        if not isinstance(self.graph, str):
            return check_graph(np.asarray(self.graph), self.n_labels_)
        kind = require_choice("graph", self.graph, ("complete", "cooccurrence", "edgeless", "none", "prior"))
        if kind == "edgeless":
            return np.eye(self.n_labels_, dtype=np.bool_)  # a label still hears itself (paper note P13)
        return None if kind in ("complete", "none") else cooccurrence_graph(labels)

    def _kind(self) -> str:
        """Return what a row is; parts and columns are made of a table."""
        kind = super()._kind()
        return "mlp" if kind in ("parts", "columns") else kind

    def _build(self, n_features: int, n_labels: int, graph: Tensor | None, initial_logits: Tensor | None) -> nn.Module:
        # The linear read-out of the features beside the messages is HOT-VAE's addition.
        config = replace(self._config(NetConfig), direct_path=False)
        if self.encoder == "parts":
            encoder: nn.Module = PartEncoder(n_features, require_count("n_parts", self.n_parts), config)
        elif self.encoder == "columns":
            encoder = ColumnEncoder(n_features, config)
        else:
            encoder = self._feature_encoder(n_features)
        return LaMPNet(encoder, n_labels, config, graph, initial_logits, self._has_base())
