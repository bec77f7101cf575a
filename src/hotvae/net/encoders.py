"""Encoders: a row of features or labels becomes a Gaussian over latent tokens.

An encoder is any ``nn.Module`` that maps its input to a :class:`~hotvae.net.latent.Gaussian`, or to a plain
pair ``(mean, log_variance)`` of shape (batch, token, dim), or to such a pair and a token mask. Its attribute
``n_tokens`` says how many tokens it always returns; leave it out (or None) when the number varies. Every row needs at
least one real token, and padding must be finite.

Real vectors go through :class:`MLPEncoder`; sets, texts, molecules and positive labels, whose rows are numbers of
tokens filled up with 0, through :class:`TokenEncoder`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from hotvae.config import EncoderKind, NetConfig
from hotvae.errors import ConfigError, listed
from hotvae.net.attention import Residual, attend
from hotvae.net.latent import Gaussian
from hotvae.types import Features, Labels, TokenNumbers, Tokens

# Beyond these, exp() of a log-variance leaves the range in which float32 sums stay exact.
LOG_VARIANCE_RANGE = (-12.0, 8.0)


class GaussianHead(nn.Module):
    """Linear maps from hidden units to the mean and the log-variance of each token.

    Parameters
    ----------
    in_dim, dim : int
        Hidden width and latent width.
    initial_log_variance : float
        Bias of the log-variance: a small start keeps early samples informative.

    Examples
    --------
    >>> import torch
    >>> head = GaussianHead(8, 3, initial_log_variance=-4.0)
    >>> head(torch.zeros(2, 1, 8)).mean.shape
    torch.Size([2, 1, 3])
    """

    def __init__(self, in_dim: int, dim: int, initial_log_variance: float) -> None:
        super().__init__()
        self.mean = nn.Linear(in_dim, dim)
        self.log_variance = nn.Linear(in_dim, dim)
        nn.init.normal_(self.log_variance.weight, std=0.01)
        nn.init.constant_(self.log_variance.bias, initial_log_variance)

    def forward(self, hidden: Float[Tensor, "batch token hidden"]) -> Gaussian:
        """Return the Gaussian of each token."""
        return Gaussian(self.mean(hidden), self.log_variance(hidden).clamp(*LOG_VARIANCE_RANGE))


class PeriodicEmbedding(nn.Module):
    r"""Learned waves of each numeric column, beside its value: a perceptron bends sharply only where it is shown how.

    Parameters
    ----------
    n_features, n_numeric : int
        Columns of the table, and how many of them, the first ones, are numbers.
    n_frequencies : int
        Waves of each column.
    dim : int
        Units of each column that mix its waves.
    scale : float
        Spread of the frequencies at the start, in waves per unit. Large ones fit noise.

    Notes
    -----
    With frequencies :math:`c_{jk}` of column *j*, drawn from :math:`N(0, scale)` and then learned,

    .. math:: x_j \to \big(x_j,\ \mathrm{ReLU}(W_j [\sin 2\pi c_{jk} x_j, \cos 2\pi c_{jk} x_j]_k + b_j)\big)

    Examples
    --------
    >>> import torch
    >>> PeriodicEmbedding(3, 2, n_frequencies=8, dim=4, scale=0.2)(torch.zeros(5, 3)).shape
    torch.Size([5, 11])
    """

    def __init__(self, n_features: int, n_numeric: int, n_frequencies: int, dim: int, scale: float) -> None:
        super().__init__()
        self.n_numeric = n_numeric
        self.out_dim = n_features + n_numeric * dim
        self.frequency = nn.Parameter(torch.randn(n_numeric, n_frequencies) * scale)
        bound = (2 * n_frequencies) ** -0.5  # as nn.Linear starts
        self.weight = nn.Parameter(torch.empty(n_numeric, 2 * n_frequencies, dim).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(n_numeric, dim).uniform_(-bound, bound))

    def forward(self, x: Features) -> Float[Tensor, "batch hidden"]:
        """Append the units of all numeric columns to the row."""
        angle = 2 * torch.pi * self.frequency * x[:, : self.n_numeric].unsqueeze(-1)
        waves = torch.cat([angle.sin(), angle.cos()], dim=-1)
        units = torch.relu(torch.einsum("bnk,nkd->bnd", waves, self.weight) + self.bias)
        return torch.cat([x, units.flatten(1)], dim=1)


class MemberLinear(nn.Module):
    r"""One linear map whose inputs and outputs each member of an ensemble scales in its own way.

    Parameters
    ----------
    in_dim, out_dim : int
        Widths.
    n_members : int
        Members.
    apart : bool
        Whether members see their inputs with random signs, which sets them apart; else they start equal.

    Notes
    -----
    Member *m* computes :math:`s_m \odot W (r_m \odot x) + b_m` with one :math:`W` for all: an ensemble for the
    price of a few vectors (as in BatchEnsemble and TabM).

    Examples
    --------
    >>> import torch
    >>> MemberLinear(4, 3, n_members=2, apart=True)(torch.ones(5, 2, 4)).shape
    torch.Size([5, 2, 3])
    """

    def __init__(self, in_dim: int, out_dim: int, n_members: int, apart: bool) -> None:
        super().__init__()
        self.shared = nn.Linear(in_dim, out_dim, bias=False)
        signs = torch.randint(0, 2, (n_members, in_dim)) * 2.0 - 1
        self.scale_in = nn.Parameter(signs if apart else torch.ones(n_members, in_dim))
        self.scale_out = nn.Parameter(torch.ones(n_members, out_dim))
        bound = max(in_dim, 1) ** -0.5
        self.bias = nn.Parameter(torch.empty(n_members, out_dim).uniform_(-bound, bound))

    def forward(self, x: Float[Tensor, "batch member hidden"]) -> Float[Tensor, "batch member _"]:
        """Map the inputs of each member."""
        answer: Tensor = self.shared(x * self.scale_in) * self.scale_out + self.bias
        return answer


class MLPEncoder(nn.Module):
    """Multi-layer perceptron for real vectors: one token per row, or per row and member of an ensemble.

    Parameters
    ----------
    in_dim : int
        Columns of the input.
    widths : sequence of int
        Hidden widths.
    dim : int
        Latent width.
    dropout : float
        Share of units dropped after each hidden layer.
    initial_log_variance : float
        See :class:`GaussianHead`.
    embedding : PeriodicEmbedding, optional
        What numeric columns go through first.
    n_members : int
        Members of the ensemble (see :class:`MemberLinear`). Above 1 every row comes out ``n_members`` times, its
        members one after the other: each is a row of its own to the decoder and the loss (:func:`member_mean`).

    Examples
    --------
    >>> import torch
    >>> MLPEncoder(5, (16,), dim=3)(torch.zeros(2, 5)).mean.shape
    torch.Size([2, 1, 3])
    """

    n_tokens = 1

    def __init__(
        self,
        in_dim: int,
        widths: Sequence[int],
        dim: int,
        dropout: float = 0.0,
        initial_log_variance: float = -4.0,
        embedding: PeriodicEmbedding | None = None,
        n_members: int = 1,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.n_members = n_members
        in_dim = in_dim if embedding is None else embedding.out_dim
        layers: list[nn.Module] = []
        for width in widths:
            first = not layers
            map_ = nn.Linear(in_dim, width) if n_members == 1 else MemberLinear(in_dim, width, n_members, apart=first)
            layers += [map_, nn.ReLU(), nn.Dropout(dropout)]
            in_dim = width
        self.hidden = nn.Sequential(*layers)
        self.head = GaussianHead(in_dim, dim, initial_log_variance)

    def forward(self, x: Features) -> Gaussian:
        """Encode rows."""
        seen = x if self.embedding is None else self.embedding(x)
        if self.n_members > 1:
            # (batch, hidden) -> (batch, member, hidden) -> (batch * member, hidden)
            hidden = self.hidden(seen.unsqueeze(1).expand(-1, self.n_members, -1)).flatten(0, 1)
        else:
            hidden = self.hidden(seen)
        answer: Gaussian = self.head(hidden.unsqueeze(1))
        return answer


class TokenLayer(nn.Module):
    """One round of messages among the tokens of a row: attention, then a feed-forward block.

    Parameters
    ----------
    config : NetConfig
        Width, heads, dropout and kind of norm.

    Examples
    --------
    >>> import torch
    >>> TokenLayer(NetConfig(dim=8, n_heads=2))(torch.zeros(2, 5, 8), torch.ones(2, 1, 5, dtype=torch.bool)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        self.n_heads = config.n_heads
        self.attention_dropout = config.attention_dropout
        self.query_key_value = nn.Linear(config.dim, 3 * config.dim)
        self.merge = nn.Linear(config.dim, config.dim)
        self.feedforward = nn.Sequential(
            nn.Linear(config.dim, config.feedforward_dim), nn.ReLU(), nn.Linear(config.feedforward_dim, config.dim)
        )
        of_encoder = replace(config, decoder_dropout=config.encoder_dropout)
        self.residuals = nn.ModuleList(Residual(of_encoder) for _ in range(2))

    def forward(self, states: Tokens, listens: Bool[Tensor, "batch #token sender"]) -> Tokens:
        """Pass messages; ``listens`` says which tokens each token hears, padding never among them."""

        def collect(current: Tensor) -> Tensor:
            query, key, value = self.query_key_value(current).chunk(3, dim=-1)
            dropout = self.attention_dropout if self.training else 0.0
            answer: Tensor = self.merge(attend(query, key, value, self.n_heads, listens.unsqueeze(1), dropout))
            return answer

        to_tokens, digest = self.residuals
        answer: Tokens = digest(to_tokens(states, collect), self.feedforward)
        return answer


class TokenEncoder(nn.Module):
    """Rows of numbered tokens: embedded, passing messages among themselves, one Gaussian each.

    Parameters
    ----------
    n_kinds : int
        Token numbers in use; 0 is padding.
    config : NetConfig
        Width, heads, ``encoder_layers`` and dropout.
    ordered : bool
        Whether the place of a token in its row counts, as in a text. Places are waves of fixed lengths, not learned
        vectors: nothing has to be learned anew for places that few training rows reach.

    Notes
    -----
    Tokens may have parts (batch, token, part): their number, then the places, counted from 1, of the tokens they
    are joined to. Messages then pass along these edges only (and from each token to itself).

    Examples
    --------
    >>> import torch
    >>> encoder = TokenEncoder(9, NetConfig(dim=8, n_heads=2), ordered=False)
    >>> posterior = encoder(torch.tensor([[3, 8, 2], [5, 0, 0]]))
    >>> posterior.mean.shape, posterior.mask.sum(1).tolist()
    (torch.Size([2, 3, 8]), [3, 1])
    """

    def __init__(self, n_kinds: int, config: NetConfig, ordered: bool) -> None:
        super().__init__()
        self.ordered = ordered
        self.embedding = nn.Embedding(n_kinds, config.dim, padding_idx=0)
        self.dropout = nn.Dropout(config.encoder_dropout)
        self.layers = nn.ModuleList(TokenLayer(config) for _ in range(config.encoder_layers))
        self.last_norm = nn.LayerNorm(config.dim) if config.norm == "pre" else nn.Identity()
        self.head = GaussianHead(config.dim, config.latent_width, config.initial_log_variance)

    def forward(self, tokens: TokenNumbers) -> Gaussian:
        """Encode rows."""
        numbers = tokens if tokens.ndim == 2 else tokens[..., 0]
        mask = numbers != 0
        listens = mask.unsqueeze(1) if tokens.ndim == 2 else edges(tokens[..., 1:])
        states = self.embedding(numbers)
        if self.ordered and tokens.ndim == 2:
            states = states + places(states.shape[1], states.shape[2], like=states)
        states = self.dropout(states)
        for layer in self.layers:
            states = layer(states, listens)
        answer = self.head(self.last_norm(states))
        return Gaussian(answer.mean, answer.log_variance, mask)


class LabelTokens(nn.Module):
    """Label branch with one token per positive label, and a learned one where there is none (paper note P9).

    Absent labels and labels that were not observed have no token.

    Parameters
    ----------
    n_labels : int
        Labels.
    config : NetConfig
        As for :class:`TokenEncoder`.

    Examples
    --------
    >>> import torch
    >>> encoder = LabelTokens(4, NetConfig(dim=8, n_heads=2))
    >>> encoder(torch.tensor([[1.0, -1.0, 1.0, 0.0], [-1.0, -1.0, 0.0, 0.0]])).mask.tolist()
    [[True, True], [True, False]]
    """

    def __init__(self, n_labels: int, config: NetConfig) -> None:
        super().__init__()
        self.tokens = TokenEncoder(n_labels + 2, config, ordered=False)

    def forward(self, coded: Labels) -> Gaussian:
        """Encode labels coded +1, -1 and 0."""
        answer: Gaussian = self.tokens(positive_tokens(coded))
        return answer


def places(n_tokens: int, dim: int, like: Tensor) -> Float[Tensor, "token dim"]:
    """Vectors that tell the places of tokens: waves of lengths from 2π to 20,000π.

    Examples
    --------
    >>> import torch
    >>> places(2, 4, like=torch.zeros(1)).round(decimals=3)
    tensor([[0.0000, 0.0000, 1.0000, 1.0000],
            [0.8410, 0.0100, 0.5400, 1.0000]])
    """
    place = torch.arange(n_tokens, dtype=like.dtype, device=like.device).unsqueeze(1)
    n_waves = (dim + 1) // 2
    speed = 10_000.0 ** (-torch.arange(n_waves, dtype=like.dtype, device=like.device) / n_waves)
    return torch.cat([torch.sin(place * speed), torch.cos(place * speed)], dim=1)[:, :dim]


def edges(neighbours: TokenNumbers) -> Bool[Tensor, "batch token sender"]:
    """Who hears whom: each token its neighbours, whose places are counted from 1, and itself.

    Examples
    --------
    >>> import torch
    >>> edges(torch.tensor([[[2, 0], [1, 0], [0, 0]]])).int()
    tensor([[[1, 1, 0],
             [1, 1, 0],
             [0, 0, 1]]], dtype=torch.int32)
    """
    n_rows, n_tokens, _ = neighbours.shape
    heard = torch.zeros(n_rows, n_tokens, n_tokens + 1, dtype=torch.bool, device=neighbours.device)
    heard.scatter_(2, neighbours.long(), True)  # place 0 collects what is no neighbour
    return heard[..., 1:] | torch.eye(n_tokens, dtype=torch.bool, device=neighbours.device)


def positive_tokens(coded: Labels) -> TokenNumbers:
    """Numbers of the positive labels of each row, label ``i`` being ``i + 2``; 1 stands where there is none.

    Examples
    --------
    >>> import torch
    >>> positive_tokens(torch.tensor([[1.0, -1.0, 1.0], [0.0, -1.0, -1.0]]))
    tensor([[2, 4],
            [1, 0]])
    """
    positive = coded > 0
    rows, labels = positive.nonzero(as_tuple=True)
    count = positive.sum(dim=1)
    tokens = torch.zeros(len(coded), max(1, int(count.max())), dtype=torch.long, device=coded.device)
    tokens[:, 0] = 1
    tokens[rows, positive.cumsum(dim=1)[rows, labels] - 1] = labels + 2
    return tokens


def make_encoder(kind: str, n_inputs: int, config: NetConfig, n_numeric: int | None = None) -> nn.Module:
    """Make the feature encoder of a kind of input.

    Parameters
    ----------
    kind : {"mlp", "set", "text", "bag", "smiles", "elements"}
        What rows are.
    n_inputs : int
        Columns, or token numbers in use.
    config : NetConfig
        Shape of the network.
    n_numeric : int, optional
        Columns, the first ones, that are numbers; by default all of them.

    Returns
    -------
    nn.Module

    Examples
    --------
    >>> type(make_encoder("text", 100, NetConfig())).__name__
    'TokenEncoder'
    """
    if kind not in get_args(EncoderKind):
        raise ConfigError(
            f"encoder must be {listed(get_args(EncoderKind), 9)} or an nn.Module; got {kind!r}. See docs/encoders.md."
        )
    if kind in ("set", "text", "smiles"):
        if config.n_members > 1:
            raise ConfigError(
                f"n_members must be 1 for encoder {kind!r}; got {config.n_members}. Only perceptrons have members."
            )
        return TokenEncoder(n_inputs, config, ordered=kind != "set")
    embedding = None
    if config.numeric_embedding_dim and kind == "mlp":
        n_columns = n_inputs if n_numeric is None else n_numeric
        embedding = PeriodicEmbedding(
            n_inputs, n_columns, config.numeric_frequencies, config.numeric_embedding_dim, config.frequency_scale
        )
    return MLPEncoder(
        n_inputs,
        config.encoder_widths,
        config.latent_width,
        config.encoder_dropout,
        config.initial_log_variance,
        embedding,
        config.n_members,
    )


def make_label_encoder(n_labels: int, config: NetConfig) -> nn.Module:
    """Make the label encoder.

    Examples
    --------
    >>> type(make_label_encoder(5, NetConfig(label_encoder="tokens"))).__name__
    'LabelTokens'
    """
    if config.label_encoder == "tokens":
        return LabelTokens(n_labels, config)
    return make_mlp_encoder(n_labels, config.label_encoder_widths, config)


def make_mlp_encoder(in_dim: int, widths: Sequence[int], config: NetConfig) -> MLPEncoder:
    """Make a plain perceptron for either branch.

    Examples
    --------
    >>> make_mlp_encoder(5, (16,), NetConfig(dim=8, n_heads=2)).n_tokens
    1
    """
    return MLPEncoder(in_dim, widths, config.latent_width, config.encoder_dropout, config.initial_log_variance)


def code_labels(labels: Labels) -> Labels:
    """Present +1, absent -1, not observed 0: what the label encoder reads.

    Examples
    --------
    >>> import torch
    >>> code_labels(torch.tensor([[1.0, 0.0, float("nan")]]))
    tensor([[ 1., -1.,  0.]])
    """
    return torch.nan_to_num(2 * labels - 1, nan=0.0)


def member_mean(values: Float[Tensor, "rows *rest"], n_members: int) -> Float[Tensor, "batch *rest"]:
    """Average what the members of an ensemble say of each row.

    Parameters
    ----------
    values : Tensor of shape (batch * member, ...)
        Members of a row one after the other.
    n_members : int
        Members; 1 leaves the values as they are.

    Returns
    -------
    Tensor of shape (batch, ...)

    Examples
    --------
    >>> import torch
    >>> member_mean(torch.tensor([1.0, 3.0, 5.0, 5.0]), 2)
    tensor([2., 5.])
    """
    return values if n_members == 1 else values.unflatten(0, (-1, n_members)).mean(dim=1)


def encode(encoder: nn.Module, inputs: Tensor) -> Gaussian:
    """Call any encoder and return a :class:`Gaussian`, whatever of the allowed forms it answers in.

    Parameters
    ----------
    encoder : nn.Module
        One of ours or the user's own.
    inputs : Tensor
        A batch of rows.

    Returns
    -------
    Gaussian

    Raises
    ------
    ConfigError
        When the encoder returns another number of tokens than it promised.

    Examples
    --------
    >>> import torch
    >>> class Pair(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.unsqueeze(1), torch.zeros_like(x).unsqueeze(1)
    >>> encode(Pair(), torch.ones(2, 3)).mean.shape
    torch.Size([2, 1, 3])
    """
    answer = encoder(inputs)
    gaussian = answer if isinstance(answer, Gaussian) else Gaussian(*answer)
    promised, n_tokens = getattr(encoder, "n_tokens", None), gaussian.mean.shape[1]
    if promised is not None and promised != n_tokens:
        raise ConfigError(
            f"encoder must return as many tokens as its n_tokens says ({promised}); got {n_tokens} "
            f"({type(encoder).__name__}). Correct n_tokens, or set it to None if the number varies."
        )
    return gaussian
