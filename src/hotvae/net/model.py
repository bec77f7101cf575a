"""HOT-VAE: a feature branch and a label branch that share one decoder; and the same encoder without them."""

from collections.abc import Collection

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hotvae.config import NetConfig
from hotvae.net.base_logits import BaseScale
from hotvae.net.decoder import Decoder
from hotvae.net.encoders import code_labels, encode, make_encoder, make_label_encoder
from hotvae.net.latent import join, sample, token_mean
from hotvae.net.losses import Branch, HotVAEOutput, bce_loss, hotvae_terms
from hotvae.types import GraphMask, Labels, LayerLogits, Logits, PerSample, Probs


class HotVAE(nn.Module):
    """Two encoders and the decoder they share.

    Parameters
    ----------
    n_features, n_labels : int
        Columns of the feature table and of the label table.
    config : NetConfig
        Shape of the network.
    graph : Tensor, optional
        Label graph with self-edges (see :class:`~hotvae.net.decoder.Decoder`); None for the complete graph.
    feature_encoder : nn.Module, optional
        Any encoder (see :mod:`hotvae.net.encoders`); by default a multi-layer perceptron.
    initial_logits : Tensor of shape (label,), optional
        Starting bias of the read-out; of no account with base logits.
    wanted : collection of str
        Loss terms to compute (see :func:`~hotvae.net.losses.hotvae_terms`).
    has_base : bool
        Whether rows come with base logits (:mod:`hotvae.net.base_logits`).

    Examples
    --------
    >>> import torch
    >>> network = HotVAE(4, 3, NetConfig(dim=8, encoder_widths=(16,)))
    >>> network(torch.zeros(5, 4), torch.ones(5, 3)).feature.layer_logits.shape
    torch.Size([2, 5, 3])
    """

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        config: NetConfig,
        graph: GraphMask | None = None,
        feature_encoder: nn.Module | None = None,
        initial_logits: Float[Tensor, " label"] | None = None,
        wanted: Collection[str] = ("bce", "intermediate", "ranking", "kl"),
        has_base: bool = False,
    ) -> None:
        super().__init__()
        self.wanted, self.latent_width = tuple(wanted), config.latent_width
        if feature_encoder is None:
            feature_encoder = make_encoder("numbers", n_features, config)
        self.feature_encoder = feature_encoder
        # Paper note P8: the label encoder sees the labels only; with the features it could bypass the latent.
        self.label_encoder = make_label_encoder(n_labels, config)
        encoders = (self.feature_encoder, self.label_encoder)
        single_token = all(getattr(encoder, "n_tokens", None) == 1 for encoder in encoders)
        self.base = BaseScale(n_labels) if has_base else None
        self.decoder = Decoder(n_labels, config, single_token, graph, None if has_base else initial_logits)

    def loss(self, features: Tensor, labels: Labels, base_logits: Logits | None = None) -> dict[str, PerSample]:
        """Loss terms of a batch, a number per row each."""
        return hotvae_terms(self(features, labels, base_logits), labels, self.wanted)

    def forward(self, features: Tensor, labels: Labels, base_logits: Logits | None = None) -> HotVAEOutput:
        """Encode both branches, sample each latent once, decode them."""
        feature = encode(self.feature_encoder, features, self.latent_width)
        label = encode(self.label_encoder, code_labels(labels))
        both = join(feature, label)
        logits = self.decoder(sample(both, torch.randn_like(both.mean)), both.mask)
        for_features, for_labels = logits.split(len(features), dim=1)
        return HotVAEOutput(
            Branch(feature, self._with_base(for_features, base_logits)),
            Branch(label, self._with_base(for_labels, base_logits)),
        )

    def _with_base(self, logits: LayerLogits, base_logits: Logits | None) -> LayerLogits:
        return logits if self.base is None else self.base.add(logits, base_logits)

    def predict(self, features: Tensor, base_logits: Logits | None = None) -> Probs:
        """Probabilities from the feature branch alone, at the latent mean (paper note P7)."""
        posterior = encode(self.feature_encoder, features, self.latent_width)
        return torch.sigmoid(self._with_base(self.decoder(posterior.mean, posterior.mask), base_logits)[-1])


class PlainNet(nn.Module):
    """The same encoder with a linear read-out of each label: no label branch, no messages.

    The row every table needs beside HOT-VAE, to see what the decoder adds.

    Parameters
    ----------
    n_features, n_labels : int
        Columns of the two tables.
    config : NetConfig
        Only the encoder's settings are used.
    feature_encoder : nn.Module, optional
        Any encoder; by default a multi-layer perceptron.
    initial_logits : Tensor of shape (label,), optional
        Starting bias of the read-out; 0 with base logits.
    has_base : bool
        Whether rows come with base logits (:mod:`hotvae.net.base_logits`).

    Examples
    --------
    >>> import torch
    >>> PlainNet(4, 3, NetConfig(encoder_widths=(16,))).predict(torch.zeros(5, 4)).shape
    torch.Size([5, 3])
    """

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        config: NetConfig,
        feature_encoder: nn.Module | None = None,
        initial_logits: Float[Tensor, " label"] | None = None,
        has_base: bool = False,
    ) -> None:
        super().__init__()
        if feature_encoder is None:
            feature_encoder = make_encoder("numbers", n_features, config)
        self.feature_encoder = feature_encoder
        self.base = BaseScale(n_labels) if has_base else None
        self.readout = nn.Linear(config.latent_width, n_labels)
        first = torch.zeros(n_labels) if has_base else initial_logits
        if first is not None:
            with torch.no_grad():
                self.readout.bias.copy_(first)

    def forward(self, features: Tensor, base_logits: Logits | None = None) -> Logits:
        """Logits of a batch."""
        posterior = encode(self.feature_encoder, features, self.readout.in_features)
        logits: Logits = self.readout(token_mean(posterior.mean, posterior.mask))
        return logits if self.base is None else self.base.add(logits, base_logits)

    def loss(self, features: Tensor, labels: Labels, base_logits: Logits | None = None) -> dict[str, PerSample]:
        """Cross entropy of every row."""
        return {"bce": bce_loss(self(features, base_logits), labels)}

    def predict(self, features: Tensor, base_logits: Logits | None = None) -> Probs:
        """Probabilities of a batch."""
        return torch.sigmoid(self(features, base_logits))
