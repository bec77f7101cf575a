"""Encoders: a row of features or labels becomes a Gaussian over latent tokens.

An encoder is any ``nn.Module`` that maps its input to a :class:`~hotvae.net.latent.Gaussian`, or to a plain
pair ``(mean, log_variance)`` of shape (batch, token, dim), or to such a pair and a token mask. Its attribute
``n_tokens`` says how many tokens it always returns; leave it out (or None) when the number varies. Every row needs at
least one real token, and padding must be finite.

Real vectors go through :class:`MLPEncoder`; sets, texts, molecules and positive labels, whose rows are numbers of
tokens filled up with 0, through :class:`TokenEncoder`.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from hotvae.config import NetConfig, RowKind
from hotvae.errors import ConfigError
from hotvae.net.attention import Residual, attend, feedforward
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


class MLPEncoder(nn.Module):
    """Multi-layer perceptron for real vectors: one token per row.

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
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for width in widths:
            layers += [nn.Linear(in_dim, width), nn.ReLU(), nn.Dropout(dropout)]
            in_dim = width
        self.hidden = nn.Sequential(*layers)
        self.head = GaussianHead(in_dim, dim, initial_log_variance)

    def forward(self, x: Features) -> Gaussian:
        """Encode rows."""
        answer: Gaussian = self.head(self.hidden(x).unsqueeze(1))
        return answer


class TokenLayer(nn.Module):
    """One round of messages among the tokens of a row: attention, then a feed-forward block.

    Parameters
    ----------
    config : NetConfig
        Width, heads and dropout.
    """

    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        self.n_heads = config.n_heads
        self.query_key_value = nn.Linear(config.dim, 3 * config.dim)
        self.merge = nn.Linear(config.dim, config.dim)
        self.feedforward = feedforward(config.dim)
        self.residuals = nn.ModuleList(Residual(config.dim, config.encoder_dropout) for _ in range(2))

    def forward(self, states: Tokens, listens: Bool[Tensor, "batch #token sender"]) -> Tokens:
        """Pass messages; ``listens`` says which tokens each token hears, padding never among them."""

        def collect(current: Tensor) -> Tensor:
            query, key, value = self.query_key_value(current).chunk(3, dim=-1)
            answer: Tensor = self.merge(attend(query, key, value, self.n_heads, listens.unsqueeze(1)))
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
        answer = self.head(states)
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
    """Vectors that tell the places of tokens: waves of lengths from 2π to 20,000π."""
    place = torch.arange(n_tokens, dtype=like.dtype, device=like.device).unsqueeze(1)
    n_waves = (dim + 1) // 2
    speed = 10_000.0 ** (-torch.arange(n_waves, dtype=like.dtype, device=like.device) / n_waves)
    return torch.cat([torch.sin(place * speed), torch.cos(place * speed)], dim=1)[:, :dim]


def edges(neighbours: TokenNumbers) -> Bool[Tensor, "batch token sender"]:
    """Who hears whom: each token its neighbours, whose places are counted from 1, and itself."""
    n_rows, n_tokens, _ = neighbours.shape
    heard = torch.zeros(n_rows, n_tokens, n_tokens + 1, dtype=torch.bool, device=neighbours.device)
    heard.scatter_(2, neighbours.long(), True)  # place 0 collects what is no neighbour
    return heard[..., 1:] | torch.eye(n_tokens, dtype=torch.bool, device=neighbours.device)


def positive_tokens(coded: Labels) -> TokenNumbers:
    """Numbers of the positive labels of each row, label ``i`` being ``i + 2``; 1 stands where there is none."""
    positive = coded > 0
    rows, labels = positive.nonzero(as_tuple=True)
    count = positive.sum(dim=1)
    tokens = torch.zeros(len(coded), max(1, int(count.max())), dtype=torch.long, device=coded.device)
    tokens[:, 0] = 1
    tokens[rows, positive.cumsum(dim=1)[rows, labels] - 1] = labels + 2
    return tokens


def make_encoder(gives: RowKind, n_inputs: int, config: NetConfig) -> nn.Module:
    """Make the feature encoder for what the features of a row have become.

    Parameters
    ----------
    gives : {"numbers", "tokens", "ordered tokens"}
        What a transformer of :mod:`hotvae.features` gives.
    n_inputs : int
        Columns, or token numbers in use.
    config : NetConfig
        Shape of the network.

    Returns
    -------
    nn.Module
    """
    if gives == "numbers":
        return make_mlp_encoder(n_inputs, config.encoder_widths, config)
    return TokenEncoder(n_inputs, config, ordered=gives == "ordered tokens")


def make_label_encoder(n_labels: int, config: NetConfig) -> nn.Module:
    """Make the label encoder."""
    if config.label_encoder == "tokens":
        return LabelTokens(n_labels, config)
    return make_mlp_encoder(n_labels, config.label_encoder_widths, config)


def make_mlp_encoder(in_dim: int, widths: Sequence[int], config: NetConfig) -> MLPEncoder:
    """Make a plain perceptron for either branch."""
    return MLPEncoder(in_dim, widths, config.latent_width, config.encoder_dropout, config.initial_log_variance)


def code_labels(labels: Labels) -> Labels:
    """Present +1, absent -1, not observed 0: what the label encoder reads."""
    return torch.nan_to_num(2 * labels - 1, nan=0.0)


def encode(encoder: nn.Module, inputs: Tensor, width: int | None = None) -> Gaussian:
    """Call any encoder and return a :class:`Gaussian`, whatever of the allowed forms it answers in.

    Parameters
    ----------
    encoder : nn.Module
        One of ours or the user's own.
    inputs : Tensor
        A batch of rows.
    width : int, optional
        Numbers of a token, where what follows needs as many.

    Returns
    -------
    Gaussian

    Raises
    ------
    ConfigError
        When the encoder returns something else, or another number of tokens than it promised.

    Examples
    --------
    >>> import torch
    >>> class Pair(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.unsqueeze(1), torch.zeros_like(x).unsqueeze(1)
    >>> encode(Pair(), torch.ones(2, 3)).mean.shape
    torch.Size([2, 1, 3])
    """
    gaussian = _as_gaussian(encoder(inputs), len(inputs), type(encoder).__name__)
    if width is not None and gaussian.mean.shape[2] != width:
        raise ConfigError(
            f"encoder must return tokens of {width} numbers, as wide as the latent space; got {gaussian.mean.shape[2]} "
            f"({type(encoder).__name__}). Set latent_dim to its width, or change its last layer."
        )
    promised, n_tokens = getattr(encoder, "n_tokens", None), gaussian.mean.shape[1]
    if promised is not None and promised != n_tokens:
        raise ConfigError(
            f"encoder must return as many tokens as its n_tokens says ({promised}); got {n_tokens} "
            f"({type(encoder).__name__}). Correct n_tokens, or set it to None if the number varies."
        )
    return gaussian


def _as_gaussian(answer: object, n_rows: int, name: str) -> Gaussian:
    """Return the answer of an encoder if it is a Gaussian, or a pair or triple of tensors that make one."""
    parts = answer if isinstance(answer, tuple) else ()
    if isinstance(answer, Gaussian):
        parts = (answer.mean, answer.log_variance)
    tensors = [part for part in parts[:2] if isinstance(part, Tensor)]
    shapes = [tuple(tensor.shape) for tensor in tensors]
    fits = len(tensors) == 2 and len(parts) <= 3 and all(tensor.is_floating_point() for tensor in tensors)
    if not fits or shapes[0] != shapes[1] or len(shapes[0]) != 3 or shapes[0][0] != n_rows:
        found = f"shapes {shapes}" if tensors else type(answer).__name__
        raise ConfigError(
            "encoder must return mean and log_variance, two float tensors of shape (batch, token, latent) with a "
            f"batch of {n_rows}; got {found} ({name}). Correct its forward."
        )
    return answer if isinstance(answer, Gaussian) else Gaussian(*parts)
