"""The shared decoder: labels are nodes of a graph, n rounds of messages, a read-out after each (Eq. 7-14)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hotvae.config import NetConfig
from hotvae.net.attention import DecoderLayer
from hotvae.net.latent import token_mean
from hotvae.types import GraphMask, LayerLogits, Logits, States, TokenMask, Tokens


def readout(states: States, weight: Float[Tensor, "label dim"], bias: Float[Tensor, " label"]) -> Logits:
    r"""Turn the state of each label into its logit.

    Parameters
    ----------
    states : Tensor of shape (batch, label, dim)
        Label states after a layer.
    weight : Tensor of shape (label, dim)
        One row per label (paper note P4).
    bias : Tensor of shape (label,)
        One number per label.

    Returns
    -------
    Tensor of shape (batch, label)

    Notes
    -----
    .. math:: \mathrm{logit}_i = w_i \cdot u_i + b_i

    A product of row and state for each label; the label-by-label product whose diagonal this is never exists.
    """
    # Not einsum, which makes a batched product of one column out of it, and copies.
    return (states * weight).sum(-1) + bias


class Decoder(nn.Module):
    """Label embeddings, message-passing layers and the read-out.

    Parameters
    ----------
    n_labels : int
        Nodes of the label graph.
    config : NetConfig
        Shape of the network.
    single_token : bool
        Whether every row has exactly one latent token (paper note P16).
    graph : Tensor, optional
        Who listens to whom, self-edges included: of bool, (label, label). None for the complete graph, which needs no
        mask.
    initial_logits : Tensor of shape (label,), optional
        Where the bias starts, usually the logits of the prevalences.

    Examples
    --------
    >>> import torch
    >>> decoder = Decoder(3, NetConfig(dim=8, n_heads=2, n_layers=2), single_token=True)
    >>> decoder(torch.zeros(5, 1, 8)).shape
    torch.Size([2, 5, 3])
    """

    graph: Tensor | None

    def __init__(
        self,
        n_labels: int,
        config: NetConfig,
        single_token: bool,
        graph: GraphMask | None = None,
        initial_logits: Float[Tensor, " label"] | None = None,
    ) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(n_labels, config.dim))
        # Paper note P10: every layer has weights of its own.
        self.layers = nn.ModuleList(DecoderLayer(config, single_token) for _ in range(config.n_layers))
        # A read-out near zero starts from the prevalences (and the direct path), not from noise.
        self.weight = nn.Parameter(torch.randn(n_labels, config.dim) * 0.1 / config.dim**0.5)
        self.bias = nn.Parameter(torch.zeros(n_labels) if initial_logits is None else initial_logits.clone())
        self.direct = nn.Linear(config.latent_width, n_labels, bias=False) if config.direct_path else None
        self.register_buffer("graph", graph)

    def forward(self, tokens: Tokens, token_mask: TokenMask | None = None) -> LayerLogits:
        """Decode latent tokens into the logits after every layer; the last is the prediction."""
        first_guess = 0.0 if self.direct is None else self.direct(token_mean(tokens, token_mask))
        states = self.embedding.unsqueeze(0)
        logits = []
        for layer in self.layers:
            states = layer(states, tokens, token_mask, self.graph)
            logits.append(readout(states, self.weight, self.bias))
        return torch.stack(logits) + first_guess
