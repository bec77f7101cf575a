"""LaMP: features pass messages among themselves, then to the labels, labels to each other (Lanchantin et al. 2019).

The label half is HOT-VAE's decoder; here stand the feature half and the network that joins them.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hotvae.config import NetConfig
from hotvae.net.base_logits import apart, make_start
from hotvae.net.decoder import Decoder
from hotvae.net.encoders import TokenLayer, encode
from hotvae.net.perceptron import perceptron
from hotvae.types import Features, GraphMask, LayerLogits, Probs, TokenMask, Tokens


class _NodeEncoder(nn.Module):
    """What the nodes of a row do once they are there: rounds of messages among themselves."""

    def _make_rounds(self, config: NetConfig) -> None:
        self.layers = nn.ModuleList(TokenLayer(config) for _ in range(config.encoder_layers))
        self.last_norm = nn.LayerNorm(config.dim) if config.norm == "pre" else nn.Identity()

    def _pass_messages(self, tokens: Tokens, mask: TokenMask | None = None) -> tuple[Tokens, Tokens]:
        """Return the tokens after all rounds, and a log-variance of 0."""
        heard = torch.ones_like(tokens[:, :, 0], dtype=torch.bool) if mask is None else mask
        for layer in self.layers:
            tokens = layer(tokens, heard.unsqueeze(1))
        tokens = self.last_norm(tokens)
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
        Width, heads, ``encoder_layers``, dropout and kind of norm.

    Examples
    --------
    >>> import torch
    >>> encoder = ColumnEncoder(4, NetConfig(dim=8, n_heads=2))
    >>> mean, _, mask = encoder(torch.tensor([[0.0, 1.0, 0.0, 2.0], [0.0, 0.0, 0.0, 3.0]]))
    >>> mean.shape, mask.tolist()
    (torch.Size([2, 3, 8]), [[True, True, True], [True, True, False]])
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
        ``encoder_widths``, ``encoder_layers``, width, heads, dropout and kind of norm.

    Examples
    --------
    >>> import torch
    >>> mean, _ = PartEncoder(4, 3, NetConfig(dim=8, n_heads=2, encoder_widths=(16,)))(torch.zeros(5, 4))
    >>> mean.shape
    torch.Size([5, 3, 8])
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
    starts : bool
        Whether the last columns of a row are logits to start from (:mod:`hotvae.net.base_logits`).

    Examples
    --------
    >>> import torch
    >>> config = NetConfig(dim=8, n_heads=2, direct_path=False)
    >>> LaMPNet(ColumnEncoder(4, config), 3, config)(torch.ones(5, 4)).shape
    torch.Size([2, 5, 3])
    """

    def __init__(
        self,
        feature_encoder: nn.Module,
        n_labels: int,
        config: NetConfig,
        graph: GraphMask | None = None,
        initial_logits: Float[Tensor, " label"] | None = None,
        starts: bool = False,
    ) -> None:
        super().__init__()
        self.feature_encoder = feature_encoder
        self.start = make_start(n_labels, starts)
        single_token = getattr(feature_encoder, "n_tokens", None) == 1
        self.decoder = Decoder(n_labels, config, single_token, graph, None if starts else initial_logits)

    def forward(self, features: Tensor) -> LayerLogits:
        """Logits after every layer; the last is the prediction."""
        rows, start = apart(self.start, features)
        tokens = encode(self.feature_encoder, rows)
        answer: LayerLogits = self.decoder(tokens.mean, tokens.mask) + start
        return answer

    def predict(self, features: Tensor) -> Probs:
        """Probabilities of a batch."""
        return torch.sigmoid(self(features)[-1])
