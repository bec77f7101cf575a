"""HOT-VAE: a feature branch and a label branch that share one decoder; and the same encoder without them."""

from collections.abc import Collection

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hotvae.config import NetConfig
from hotvae.errors import ConfigError
from hotvae.net.attention import Neighbours
from hotvae.net.base_logits import BaseScale
from hotvae.net.conditional import GivenEncoder, split_labels
from hotvae.net.decoder import Decoder
from hotvae.net.encoders import code_labels, encode, make_encoder, make_label_encoder
from hotvae.net.latent import Gaussian, join, sample, token_mean
from hotvae.net.losses import Branch, HotVAEOutput, bce_loss, hotvae_terms
from hotvae.types import GraphMask, Labels, LayerLogits, Logits, PerSample, Probs, TokenMask, Tokens


class HotVAE(nn.Module):
    """Two encoders and the decoder they share.

    Parameters
    ----------
    n_features, n_labels : int
        Columns of the feature table and of the label table.
    config : NetConfig
        Shape of the network.
    graph : Tensor, optional
        Label graph with self-edges, of bool or as lists of neighbours (see :class:`~hotvae.net.decoder.Decoder`);
        None for the complete graph.
    feature_encoder : nn.Module, optional
        Any encoder (see :mod:`hotvae.net.encoders`); by default a multi-layer perceptron.
    initial_logits : Tensor of shape (label,), optional
        Starting bias of the read-out; of no account with base logits.
    wanted : collection of str
        Loss terms to compute (see :func:`~hotvae.net.losses.hotvae_terms`).
    direct_epochs : int
        Epochs at the start of training in which the direct path learns alone, before labels pass messages.
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
        graph: GraphMask | Neighbours | None = None,
        feature_encoder: nn.Module | None = None,
        initial_logits: Float[Tensor, " label"] | None = None,
        wanted: Collection[str] = ("bce", "intermediate", "ranking", "kl"),
        direct_epochs: int = 0,
        has_base: bool = False,
    ) -> None:
        super().__init__()
        if direct_epochs and not config.direct_path:
            raise ConfigError(
                f"direct_epochs must be 0 without direct_path; got {direct_epochs}. Set direct_path to true, or leave "
                "direct_epochs out."
            )
        if config.conditional and config.label_encoder != "mlp":
            raise ConfigError(
                f"label_encoder must be 'mlp' while conditional is True; got {config.label_encoder!r}. Given labels "
                "move the latent of the features and have no tokens of their own: set conditional to false, or use "
                "'mlp'."
            )
        self.wanted = tuple(wanted)
        self.direct_epochs = direct_epochs
        if feature_encoder is None:
            feature_encoder = make_encoder("numbers", n_features, config)
        self.feature_encoder = feature_encoder
        # Paper note P8: the paper's label encoder sees the labels only; with the features it could bypass the
        # latent. One whose targets are labels it was not given has nothing to gain by that.
        self.label_encoder = (
            GivenEncoder(n_labels, config) if config.conditional else make_label_encoder(n_labels, config)
        )
        # The latent of given labels has the tokens of the feature branch.
        encoders = (self.feature_encoder,) if config.conditional else (self.feature_encoder, self.label_encoder)
        single_token = all(getattr(encoder, "n_tokens", None) == 1 for encoder in encoders)
        self.base = BaseScale(n_labels) if has_base else None
        self.decoder = Decoder(n_labels, config, single_token, graph, None if has_base else initial_logits)
        if direct_epochs:
            # What the messages add starts at exactly nothing, so that leaving them out changes nothing.
            nn.init.zeros_(self.decoder.weight)

    @property
    def conditional(self) -> bool:
        """Whether labels can be given."""
        return isinstance(self.label_encoder, GivenEncoder)

    def begin_epoch(self, epoch: int | None) -> None:
        """Let labels pass messages from epoch ``direct_epochs + 1`` on; None, when training is over, always."""
        self.decoder.messages_on = epoch is None or epoch > self.direct_epochs

    def loss(self, features: Tensor, labels: Labels, base_logits: Logits | None = None) -> dict[str, PerSample]:
        """Loss terms of a batch, a number per row each."""
        return hotvae_terms(self(features, labels, base_logits), labels, self.wanted)

    def forward(self, features: Tensor, labels: Labels, base_logits: Logits | None = None) -> HotVAEOutput:
        """Encode both branches, sample each latent once, decode them."""
        feature = encode(self.feature_encoder, features)
        if isinstance(self.label_encoder, GivenEncoder):
            return self._forward_given(self.label_encoder, feature, labels, base_logits)
        label = encode(self.label_encoder, code_labels(labels))
        both = join(feature, label)
        logits = self.decoder(sample(both, torch.randn_like(both.mean)), both.mask)
        for_features, for_labels = logits.split(len(features), dim=1)
        return HotVAEOutput(
            Branch(feature, self._with_base(for_features, base_logits)),
            Branch(label, self._with_base(for_labels, base_logits)),
        )

    def _forward_given(
        self, encoder: GivenEncoder, feature: Gaussian, labels: Labels, base_logits: Logits | None
    ) -> HotVAEOutput:
        """Give the label branch a random part of the labels; the others are its targets."""
        given, target = split_labels(labels)
        base = 0.0 if self.base is None or base_logits is None else self.base(base_logits)
        logits = self.decoder(sample(feature, torch.randn_like(feature.mean)), feature.mask) + base
        # What the features say is a fact to this branch, not a thing to bend: else being given labels would teach the
        # encoder to say less by itself.
        fixed = Gaussian(feature.mean.detach(), feature.log_variance.detach(), feature.mask)
        evidence = encoder(fixed, logits[-1].detach().sigmoid(), given)
        moved = evidence.move(fixed)
        moved_logits = self.decoder(sample(moved, torch.randn_like(moved.mean)), moved.mask) + evidence.logits + base
        return HotVAEOutput(Branch(feature, logits), Branch(evidence.move(feature), moved_logits), target)

    def _decode(self, tokens: Tokens, mask: TokenMask | None, base_logits: Logits | None) -> LayerLogits:
        return self._with_base(self.decoder(tokens, mask), base_logits)

    def _with_base(self, logits: LayerLogits, base_logits: Logits | None) -> LayerLogits:
        return logits if self.base is None else self.base.add(logits, base_logits)

    def predict(self, features: Tensor, base_logits: Logits | None = None) -> Probs:
        """Probabilities from the feature branch alone, at the latent mean (paper note P7)."""
        posterior = encode(self.feature_encoder, features)
        return torch.sigmoid(self._decode(posterior.mean, posterior.mask, base_logits)[-1])

    def predict_given(self, features: Tensor, given: Labels, base_logits: Logits | None = None) -> Probs:
        """Probabilities of all labels of a row, given its features and some of its labels.

        Parameters
        ----------
        features : Tensor
            A batch of rows.
        given : Tensor of shape (batch, label)
            1 and 0 for given labels, NaN for all others.
        base_logits : Tensor of shape (batch, label), optional
            Where rows come with them.

        Returns
        -------
        Tensor of shape (batch, label)
            Given labels as given. Where nothing is given, what :meth:`predict` returns.
        """
        alone, logits = self.given_logits(features, given, base_logits)
        is_given = ~torch.isnan(given)
        probs = torch.where(is_given.any(-1, keepdim=True), logits.sigmoid(), alone)
        return torch.where(is_given, given, probs)

    def given_logits(self, features: Tensor, given: Labels, base_logits: Logits | None) -> tuple[Probs, Logits]:
        """Probabilities from the features alone, and logits given some labels; at the latent means."""
        if not isinstance(self.label_encoder, GivenEncoder):
            raise ConfigError("given must go with a network trained for it; got conditional=False. Train it anew.")
        posterior = encode(self.feature_encoder, features)
        alone = self._decode(posterior.mean, posterior.mask, base_logits)[-1].sigmoid()
        evidence = self.label_encoder(posterior, alone, given)
        moved = self.decoder(evidence.move(posterior).mean, posterior.mask)[-1] + evidence.logits
        return alone, moved if self.base is None else self.base.add(moved, base_logits)


class LabelBranch(nn.Module):
    """The label branch of a network alone, for training on while the rest stays as it is.

    The epoch whose weights are kept is the best one without given labels; the label branch may need more of them.

    Parameters
    ----------
    network : HotVAE
        One that can be given labels; only its label encoder changes.

    Examples
    --------
    >>> import torch
    >>> branch = LabelBranch(HotVAE(4, 3, NetConfig(dim=8, encoder_widths=(16,))))
    >>> {name.split(".")[1] for name, weight in branch.named_parameters() if weight.requires_grad}
    {'label_encoder'}
    """

    conditional = True
    selects_by_given = True

    def __init__(self, network: HotVAE) -> None:
        super().__init__()
        self.network = network.requires_grad_(False)
        self.network.label_encoder.requires_grad_(True)

    def train(self, mode: bool = True) -> "LabelBranch":
        """Drop units of the label encoder only: the rest speaks as it does in predictions."""
        super().train(False)
        self.network.label_encoder.train(mode)
        return self

    def loss(self, features: Tensor, labels: Labels, base_logits: Logits | None = None) -> dict[str, PerSample]:
        """Cross entropy of the labels that were not given, a random part of each row."""
        given, target = split_labels(labels)
        return {"bce": bce_loss(self.network.given_logits(features, given, base_logits)[1], target)}

    def predict(self, features: Tensor, base_logits: Logits | None = None) -> Probs:
        """Probabilities without given labels."""
        return self.network.predict(features, base_logits)

    def predict_given(self, features: Tensor, given: Labels, base_logits: Logits | None = None) -> Probs:
        """Probabilities given some labels."""
        return self.network.predict_given(features, given, base_logits)


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
        posterior = encode(self.feature_encoder, features)
        logits: Logits = self.readout(token_mean(posterior.mean, posterior.mask))
        return logits if self.base is None else self.base.add(logits, base_logits)

    def loss(self, features: Tensor, labels: Labels, base_logits: Logits | None = None) -> dict[str, PerSample]:
        """Cross entropy of every row."""
        return {"bce": bce_loss(self(features, base_logits), labels)}

    def predict(self, features: Tensor, base_logits: Logits | None = None) -> Probs:
        """Probabilities of a batch."""
        return torch.sigmoid(self(features, base_logits))
