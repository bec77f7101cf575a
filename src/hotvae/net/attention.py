"""One step of message passing: a message is collected, then digested (Eq. 1-5).

Two kinds of messages reach a label: from the latent tokens of the row (W_fy) and from the other labels, along
the edges of the label graph (W_yy). Each is followed by a feed-forward block, each sum by a layer norm.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812  # torch's own convention
from jaxtyping import Float, Int
from torch import Tensor, nn

from hotvae.config import NetConfig
from hotvae.types import GraphMask, States, TokenMask, Tokens

# Whom each label listens to, filled up with -1: the label graph where a table of all pairs would be too large.
Neighbours = Int[Tensor, "label sender"]

# Calls of an nn.Module come back as Any: hence the no-any-return suppressions below.


def attend(
    query: Float[Tensor, "batch label dim"],
    key: Float[Tensor, "batch sender dim"],
    value: Float[Tensor, "batch sender dim"],
    n_heads: int,
    mask: Tensor | None = None,
    dropout: float = 0.0,
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
    dropout : float
        Share of attention weights dropped.

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
    mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
    # (batch, head, label, head_dim) -> (batch, label, dim)
    return mixed.transpose(1, 2).flatten(2)


def attend_neighbours(
    query: Float[Tensor, "batch label dim"],
    key: Float[Tensor, "batch label dim"],
    value: Float[Tensor, "batch label dim"],
    n_heads: int,
    neighbours: Int[Tensor, "label sender"],
    dropout: float = 0.0,
) -> Float[Tensor, "batch label dim"]:
    """Attention of every label over those in its list.

    Parameters
    ----------
    query, key, value : Tensor
        As for :func:`attend`.
    n_heads : int
        Number of heads.
    neighbours : Tensor of int of shape (label, most neighbours)
        Whom each label listens to, filled up with -1.
    dropout : float
        Share of attention weights dropped.

    Returns
    -------
    Tensor of shape (batch, label, dim)

    Examples
    --------
    >>> import torch
    >>> zeros, values = torch.zeros(1, 3, 1), torch.tensor([[[3.0], [5.0], [100.0]]])
    >>> attend_neighbours(zeros, zeros, values, 1, torch.tensor([[0, 1], [1, -1], [0, 2]])).flatten()
    tensor([ 4.0000,  5.0000, 51.5000])
    """
    listed = neighbours >= 0
    # (batch, label, dim) -> (batch * label, sender, dim): every label is a row of its own, with its own senders
    theirs = neighbours.clamp(min=0).flatten()
    key, value = (part[:, theirs].unflatten(1, neighbours.shape).flatten(0, 1) for part in (key, value))
    listed = listed.expand(len(query), -1, -1).flatten(0, 1)[:, None, None, :]
    mixed = attend(query.flatten(0, 1).unsqueeze(1), key, value, n_heads, listed, dropout)
    return mixed.view_as(query)


class LabelMessage(nn.Module):
    """Message from neighbouring labels, weighted by attention (W_yy).

    Parameters
    ----------
    config : NetConfig
        Width, heads and attention dropout.

    Examples
    --------
    >>> import torch
    >>> LabelMessage(NetConfig(dim=8, n_heads=2))(torch.zeros(1, 3, 8), None).shape
    torch.Size([1, 3, 8])
    """

    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        self.n_heads = config.n_heads
        self.attention_dropout = config.attention_dropout
        self.query_key_value = nn.Linear(config.dim, 3 * config.dim)
        self.merge = nn.Linear(config.dim, config.dim)

    def forward(self, states: States, graph: GraphMask | Neighbours | None) -> States:
        """Collect the messages of all labels at once."""
        query, key, value = self.query_key_value(states).chunk(3, dim=-1)
        dropout = self.attention_dropout if self.training else 0.0
        if graph is None or graph.dtype == torch.bool:
            heard = attend(query, key, value, self.n_heads, graph, dropout)
        else:
            heard = attend_neighbours(query, key, value, self.n_heads, graph, dropout)
        answer: States = self.merge(heard)
        return answer


class GroupMessage(nn.Module):
    """Message from all labels by way of a few groups: time and memory grow with labels, not with pairs of them.

    An approximation of :class:`LabelMessage` for very many labels. Learned groups listen to all labels, and labels
    listen to the groups; a label no longer chooses whom it hears but which mixtures. There is no label graph.

    Parameters
    ----------
    config : NetConfig
        Width, heads, attention dropout and number of groups.

    Examples
    --------
    >>> import torch
    >>> GroupMessage(NetConfig(dim=8, n_heads=2, label_groups=2))(torch.zeros(1, 3, 8), None).shape
    torch.Size([1, 3, 8])
    """

    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        self.n_heads = config.n_heads
        self.attention_dropout = config.attention_dropout
        self.groups = nn.Parameter(torch.randn(config.label_groups, config.dim))
        self.query_key_value = nn.Linear(config.dim, 3 * config.dim)
        self.group_key_value = nn.Linear(config.dim, 2 * config.dim)
        self.merge = nn.Linear(config.dim, config.dim)

    def forward(self, states: States, graph: None) -> States:
        """Collect the messages of all labels at once."""
        query, key, value = self.query_key_value(states).chunk(3, dim=-1)
        dropout = self.attention_dropout if self.training else 0.0
        groups = self.groups.expand(len(states), -1, -1)
        groups = groups + attend(groups, key, value, self.n_heads, dropout=dropout)
        key, value = self.group_key_value(groups).chunk(2, dim=-1)
        answer: States = self.merge(attend(query, key, value, self.n_heads, dropout=dropout))
        return answer


class FeatureMessage(nn.Module):
    """Message from the latent tokens of the row to every label (W_fy).

    With one token the softmax has one entry, which is 1: the message is a projection of that token, the same for all
    labels, and no query or key weights exist (paper note P16, exact).

    Parameters
    ----------
    config : NetConfig
        Width, heads and attention dropout.
    single_token : bool
        Whether every row has exactly one token.

    Examples
    --------
    >>> import torch
    >>> message = FeatureMessage(NetConfig(dim=8, n_heads=2), single_token=True)
    >>> message(torch.zeros(1, 3, 8), torch.ones(4, 1, 8), None).shape
    torch.Size([4, 1, 8])
    """

    def __init__(self, config: NetConfig, single_token: bool) -> None:
        super().__init__()
        self.n_heads = config.n_heads
        self.attention_dropout = config.attention_dropout
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
        dropout = self.attention_dropout if self.training else 0.0
        answer: Tensor = self.merge(attend(query, self.key(tokens), value, self.n_heads, listen, dropout))
        return answer


class Dropout(nn.Module):
    """Dropout whose mask all labels of a row may share: a label count fewer random numbers.

    Parameters
    ----------
    rate : float
        Share of units dropped.
    shared : bool
        One mask per row and unit, or an independent one for every label.

    Examples
    --------
    >>> import torch
    >>> states = Dropout(0.5, shared=True)(torch.ones(1, 2, 64))
    >>> bool((states[0, 0] == states[0, 1]).all()), sorted(set(states.flatten().tolist()))
    (True, [0.0, 2.0])
    """

    def __init__(self, rate: float, shared: bool) -> None:
        super().__init__()
        self.rate = rate
        self.shared = shared

    def forward(self, states: Float[Tensor, "batch label dim"]) -> Float[Tensor, "batch label dim"]:
        """Drop units while training; do nothing otherwise."""
        mask = self.mask(states)
        return states if mask is None else states * mask

    def mask(self, states: Float[Tensor, "batch label dim"]) -> Float[Tensor, "batch #label dim"] | None:
        """Draw what to multiply states with: 0, or 1 over the share that is kept; None for no dropout."""
        if not self.training or self.rate == 0:
            return None
        n_rows, n_labels, dim = states.shape
        kept = states.new_empty(n_rows, 1 if self.shared else n_labels, dim).bernoulli_(1 - self.rate)
        return kept.div_(1 - self.rate)


class Residual(nn.Module):
    """Sum of states and an update, normalised after (post) or before the block (pre; paper note P12).

    Parameters
    ----------
    config : NetConfig
        Width, kind of norm and dropout.

    Examples
    --------
    >>> import torch
    >>> block = Residual(NetConfig(dim=4, n_heads=2, norm="post")).eval()
    >>> block(torch.randn(1, 3, 4), torch.relu).mean(-1).abs().max().item() < 1e-6
    True
    """

    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.dim)
        self.pre = config.norm == "pre"
        self.dropout = Dropout(config.decoder_dropout, shared=config.dropout_sharing == "labels")

    def forward(
        self, states: Float[Tensor, "#batch label dim"], block: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "batch label dim"]:
        """Apply ``block`` and add its answer; a one-label answer broadcasts over labels."""
        total = self.add(states, block)
        return total if self.pre else self.norm(total)

    def add(
        self, states: Float[Tensor, "#batch label dim"], block: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "batch label dim"]:
        """Return the sum alone, as it is before a norm that comes after it."""
        update = block(self.norm(states) if self.pre else states)
        if not self.dropout.shared:
            # A one-label answer is dropped for each label on its own.
            update = update.expand(-1, states.shape[1], -1)
        answer: Tensor = states + self.dropout(update)
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
        self.feature_feedforward = _feedforward(config)
        self.label_message = GroupMessage(config) if config.label_groups else LabelMessage(config)
        self.label_feedforward = _feedforward(config)
        self.residuals = nn.ModuleList(Residual(config) for _ in range(4))

    def forward(
        self,
        states: Float[Tensor, "#batch label dim"],
        tokens: Tokens,
        token_mask: TokenMask | None,
        graph: GraphMask | Neighbours | None,
    ) -> States:
        """Pass one round of messages."""
        to_features, digest_features, to_labels, digest_labels = self.residuals
        states = to_features(states, lambda u: self.feature_message(u, tokens, token_mask))
        states = digest_features(states, self.feature_feedforward)
        states = to_labels(states, lambda u: self.label_message(u, graph))
        answer: States = digest_labels(states, self.label_feedforward)
        return answer


def _feedforward(config: NetConfig) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(config.dim, config.feedforward_dim),
        nn.ReLU(),
        nn.Linear(config.feedforward_dim, config.dim),
    )
