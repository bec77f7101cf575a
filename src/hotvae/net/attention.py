"""One step of message passing: a message is collected, then digested (Eq. 1-5).

Two kinds of messages reach a label: from the latent tokens of the row (W_fy) and from the other labels, along
the edges of the label graph (W_yy). Each is followed by a feed-forward block, each sum by a layer norm.
"""

from collections.abc import Callable

import torch.nn.functional as F  # noqa: N812  # torch's own convention
from jaxtyping import Float
from torch import Tensor, nn

from hotvae.config import NetConfig
from hotvae.types import GraphMask, States, TokenMask, Tokens

# Calls of an nn.Module come back as Any: hence the no-any-return suppressions below.


def attend(
    query: Float[Tensor, "batch label dim"],
    key: Float[Tensor, "batch sender dim"],
    value: Float[Tensor, "batch sender dim"],
    n_heads: int,
    mask: Tensor | None = None,
) -> Float[Tensor, "batch label dim"]:
    r"""Scaled dot-product attention with several heads.

    Parameters
    ----------
    query, key, value : Tensor
        Projected receivers and senders; heads are consecutive slices of ``dim``.
    n_heads : int
        Number of slices. Paper note P11: each head scales by the root of its own width.
    mask : Tensor of bool, optional
        True where a receiver may listen; broadcastable to (batch, head, label, sender).

    Returns
    -------
    Tensor of shape (batch, label, dim)

    Notes
    -----
    .. math:: \alpha_{ij} = \mathrm{softmax}_{j \in N(i)} \frac{(W^q v_i)^\top (W^u v_j)}{\sqrt{d / heads}}, \qquad
              \sum_j \alpha_{ij} W^v v_j

    Examples
    --------
    Equal scores average the values:

    >>> import torch
    >>> zeros, values = torch.zeros(1, 2, 2), torch.tensor([[[0.0, 2.0], [4.0, 4.0]]])
    >>> attend(zeros, zeros, values, n_heads=1)
    tensor([[[2., 3.],
             [2., 3.]]])
    """
    # (batch, label, dim) -> (batch, head, label, head_dim)
    query, key, value = (part.unflatten(-1, (n_heads, -1)).transpose(1, 2) for part in (query, key, value))
    mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    # (batch, head, label, head_dim) -> (batch, label, dim)
    return mixed.transpose(1, 2).flatten(2)


class LabelMessage(nn.Module):
    """Message from neighbouring labels, weighted by attention (W_yy).

    Parameters
    ----------
    config : NetConfig
        Width and heads.
    """

    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        self.n_heads = config.n_heads
        self.query_key_value = nn.Linear(config.dim, 3 * config.dim)
        self.merge = nn.Linear(config.dim, config.dim)

    def forward(self, states: States, graph: GraphMask | None) -> States:
        """Collect the messages of all labels at once."""
        query, key, value = self.query_key_value(states).chunk(3, dim=-1)
        answer: States = self.merge(attend(query, key, value, self.n_heads, graph))
        return answer


class FeatureMessage(nn.Module):
    """Message from the latent tokens of the row to every label (W_fy).

    With one token the softmax has one entry, which is 1: the message is a projection of that token, the same for all
    labels, and no query or key weights exist (paper note P16, exact).

    Parameters
    ----------
    config : NetConfig
        Width and heads.
    single_token : bool
        Whether every row has exactly one token.
    """

    def __init__(self, config: NetConfig, single_token: bool) -> None:
        super().__init__()
        self.n_heads = config.n_heads
        latent, dim = config.latent_width, config.dim
        self.value = nn.Linear(latent, dim)
        # With one token two linear maps in a row would be one: only the value projection is kept.
        self.query, self.key, self.merge = (
            None if single_token else nn.Linear(width, dim) for width in (dim, latent, dim)
        )

    def forward(
        self, states: Float[Tensor, "#batch label dim"], tokens: Tokens, mask: TokenMask | None
    ) -> Float[Tensor, "batch #label dim"]:
        """Collect the message; a single token answers with one message that broadcasts over labels."""
        value: Tensor = self.value(tokens)
        if self.query is None or self.key is None or self.merge is None:
            return value
        # In the first layer the states are the embeddings, shared by the batch: they are projected once.
        query = self.query(states).expand(tokens.shape[0], -1, -1)
        listen = None if mask is None else mask[:, None, None, :]
        answer: Tensor = self.merge(attend(query, self.key(tokens), value, self.n_heads, listen))
        return answer


class Dropout(nn.Module):
    """Dropout whose mask all labels of a row share: a label count fewer random numbers.

    Parameters
    ----------
    rate : float
        Share of units dropped.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, states: Float[Tensor, "batch label dim"]) -> Float[Tensor, "batch label dim"]:
        """Drop units while training; do nothing otherwise."""
        mask = self.mask(states)
        return states if mask is None else states * mask

    def mask(self, states: Float[Tensor, "batch label dim"]) -> Float[Tensor, "batch 1 dim"] | None:
        """Draw what to multiply states with: 0, or 1 over the share that is kept; None for no dropout."""
        if not self.training or self.rate == 0:
            return None
        n_rows, _, dim = states.shape
        kept = states.new_empty(n_rows, 1, dim).bernoulli_(1 - self.rate)
        return kept.div_(1 - self.rate)


class Residual(nn.Module):
    """Sum of states and an update, then a layer norm (paper note P12).

    Parameters
    ----------
    dim : int
        Width of the states.
    dropout : float
        Share of the update's units dropped.
    """

    def __init__(self, dim: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.dropout = Dropout(dropout)

    def forward(
        self, states: Float[Tensor, "#batch label dim"], block: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "batch label dim"]:
        """Apply ``block`` and add its answer; a one-label answer broadcasts over labels."""
        answer: Tensor = self.norm(self.add(states, block))
        return answer

    def add(
        self, states: Float[Tensor, "#batch label dim"], block: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "batch label dim"]:
        """Return the sum alone, as it is before the norm."""
        answer: Tensor = states + self.dropout(block(states))
        return answer


class DecoderLayer(nn.Module):
    """One layer: message from the tokens, feed-forward, message from the labels, feed-forward (Eq. 10-13).

    Parameters
    ----------
    config : NetConfig
        Shape of the network.
    single_token : bool
        See :class:`FeatureMessage`.

    Examples
    --------
    >>> import torch
    >>> layer = DecoderLayer(NetConfig(dim=8, n_heads=2), single_token=True)
    >>> layer(torch.zeros(1, 3, 8), torch.ones(4, 1, 8), None, None).shape
    torch.Size([4, 3, 8])
    """

    def __init__(self, config: NetConfig, single_token: bool) -> None:
        super().__init__()
        self.feature_message = FeatureMessage(config, single_token)
        self.feature_feedforward = feedforward(config.dim)
        self.label_message = LabelMessage(config)
        self.label_feedforward = feedforward(config.dim)
        self.residuals = nn.ModuleList(Residual(config.dim, config.decoder_dropout) for _ in range(4))

    def forward(
        self,
        states: Float[Tensor, "#batch label dim"],
        tokens: Tokens,
        token_mask: TokenMask | None,
        graph: GraphMask | None,
    ) -> States:
        """Pass one round of messages."""
        to_features, digest_features, to_labels, digest_labels = self.residuals
        states = to_features(states, lambda u: self.feature_message(u, tokens, token_mask))
        states = digest_features(states, self.feature_feedforward)
        states = to_labels(states, lambda u: self.label_message(u, graph))
        answer: States = digest_labels(states, self.label_feedforward)
        return answer


def feedforward(dim: int) -> nn.Sequential:
    """Make the block that digests a message (U_mlp): as wide as the states."""
    return nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
