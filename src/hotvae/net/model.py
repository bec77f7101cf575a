"""HOT-VAE: a feature branch and a label branch that share one decoder."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hotvae.config import NetConfig
from hotvae.errors import ConfigError
from hotvae.net.attention import Neighbours
from hotvae.net.base_logits import apart, make_start
from hotvae.net.conditional import KnownEncoder, hide_some
from hotvae.net.decoder import Decoder
from hotvae.net.encoders import code_labels, encode, make_encoder, make_label_encoder, member_mean
from hotvae.net.latent import Gaussian, join, sample, token_mean
from hotvae.net.probit import ProbitHead
from hotvae.types import GraphMask, Labels, LayerLogits, Logits, Probs, StartLogits


@dataclass(frozen=True)
class Branch:
    """What one branch produced for a batch.

    Attributes
    ----------
    posterior : Gaussian
        q(z|x) or q(z|y).
    layer_logits : Tensor of shape (layer, batch, label)
        Logits after every layer; the last one is the prediction.
    """

    posterior: Gaussian
    layer_logits: LayerLogits


@dataclass(frozen=True)
class HotVAEOutput:
    """Both branches of one pass in training.

    Attributes
    ----------
    feature, label : Branch
        What each produced.
    asked : Tensor of shape (batch, label), optional
        What the label branch is to find, where it was told only a part of the labels: the others, NaN where told.
    """

    feature: Branch
    label: Branch
    asked: Labels | None = None


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
    label_encoder : nn.Module, optional
        Reads labels coded +1, -1 and 0 for not observed; by default the one that ``config`` names.
    initial_logits : Tensor of shape (label,), optional
        Starting bias of the read-out.
    direct_epochs : int
        Epochs at the start of training in which the direct path learns alone, before labels pass messages.
    rank : int
        Common causes of labels in whole communities (:attr:`head`); learned after everything else.
    starts : bool
        Whether the last columns of a row are logits to start from (:mod:`hotvae.net.base_logits`).

    Examples
    --------
    >>> import torch
    >>> network = HotVAE(4, 3, NetConfig(dim=8, n_heads=2, encoder_widths=(16,)))
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
        label_encoder: nn.Module | None = None,
        initial_logits: Float[Tensor, " label"] | None = None,
        direct_epochs: int = 0,
        rank: int = 1,
        starts: bool = False,
    ) -> None:
        super().__init__()
        if direct_epochs and not config.direct_path:
            raise ConfigError(
                f"direct_epochs must be 0 without direct_path; got {direct_epochs}. Set direct_path=True, or leave it."
            )
        self.direct_epochs = direct_epochs
        if feature_encoder is None:
            feature_encoder = make_encoder("mlp", n_features, config)
        if label_encoder is None:
            # Paper note P8: the paper's label encoder sees the labels only; with the features it could bypass the
            # latent. One that is asked for labels it was not told has nothing to gain by that.
            label_encoder = (
                KnownEncoder(n_labels, config) if config.conditional else make_label_encoder(n_labels, config)
            )
        elif config.conditional:
            raise ConfigError(
                f"conditional must be False with a label encoder of your own; got {config.conditional}. Set it to "
                "False, or leave out the encoder."
            )
        if config.conditional and config.label_encoder != "mlp":
            raise ConfigError(
                f"label_encoder must be 'mlp' while conditional is True; got {config.label_encoder!r}. Known labels "
                "move the latent of the features and have no tokens of their own: set conditional=False, or use 'mlp'."
            )
        self.feature_encoder = feature_encoder
        self.label_encoder = label_encoder
        self.n_members: int = getattr(feature_encoder, "n_members", 1)
        # The latent of known labels has the tokens of the feature branch.
        encoders = (self.feature_encoder,) if config.conditional else (self.feature_encoder, self.label_encoder)
        single_token = all(getattr(encoder, "n_tokens", None) == 1 for encoder in encoders)
        self.start = make_start(n_labels, starts)
        self.decoder = Decoder(n_labels, config, single_token, graph, None if starts else initial_logits)
        if direct_epochs:
            # What the messages add starts at exactly nothing, so that leaving them out changes nothing.
            nn.init.zeros_(self.decoder.weight)
        self.head = ProbitHead(n_labels, rank)

    @property
    def conditional(self) -> bool:
        """Whether known labels can be given."""
        return isinstance(self.label_encoder, KnownEncoder)

    def begin_epoch(self, epoch: int | None) -> None:
        """Let labels pass messages from epoch ``direct_epochs + 1`` on; None, when training is over, always."""
        self.decoder.messages_on = epoch is None or epoch > self.direct_epochs

    def forward(self, features: Tensor, labels: Labels) -> HotVAEOutput:
        """Encode both branches, sample each latent once, decode them.

        With an ensemble every member of a row is a row of its own, and the one label branch of the row stands
        beside each.
        """
        feature, start = self.encode(features)
        if isinstance(self.label_encoder, KnownEncoder):
            return self._forward_known(self.label_encoder, feature, start, labels)
        label = encode(self.label_encoder, code_labels(labels))
        both = join(feature, label)
        tokens = sample(both, torch.randn_like(both.mean))
        n_rows = len(feature.mean)
        logits = self.decoder(tokens, both.mask)
        beside = _repeated(Branch(label, logits[:, n_rows:]), self.n_members)
        beside = Branch(beside.posterior, beside.layer_logits + start)
        return HotVAEOutput(Branch(feature, logits[:, :n_rows] + start), beside)

    def encode(self, rows: Tensor) -> tuple[Gaussian, StartLogits]:
        """Return q(z|x) of a batch and the logits that its rows start from, of every member of the ensemble."""
        features, start = apart(self.start, rows, self.n_members)
        return encode(self.feature_encoder, features), start

    def _forward_known(
        self, known: KnownEncoder, feature: Gaussian, start: StartLogits, labels: Labels
    ) -> HotVAEOutput:
        """Tell the label branch a random part of the labels, and ask it for the others."""
        told, asked = hide_some(labels.repeat_interleave(self.n_members, dim=0))
        logits = self.decoder(sample(feature, torch.randn_like(feature.mean)), feature.mask) + start
        # What the features say is a fact to this branch, not a thing to bend: else being told would teach the encoder
        # to say less by itself.
        fixed = Gaussian(feature.mean.detach(), feature.log_variance.detach(), feature.mask)
        evidence = known(fixed, logits[-1].detach().sigmoid(), told)
        moved = evidence.move(fixed)
        label_logits = self.decoder(sample(moved, torch.randn_like(moved.mean)), moved.mask) + evidence.logits + start
        return HotVAEOutput(Branch(feature, logits), Branch(evidence.move(feature), label_logits), asked)

    def predict(self, features: Tensor, noise: Float[Tensor, "draw 1 token latent"] | None = None) -> Probs:
        """Probabilities from the feature branch alone.

        Parameters
        ----------
        features : Tensor
            A batch of rows.
        noise : Tensor of shape (draw, 1, token, latent), optional
            Standard normal numbers shared by all rows; probabilities are averaged over the draws. None decodes the
            latent mean (paper note P7).

        Returns
        -------
        Tensor of shape (batch, label)
        """
        posterior, start = self.encode(features)
        if noise is None:
            return member_mean(torch.sigmoid(self.decoder(posterior.mean, posterior.mask)[-1] + start), self.n_members)
        draws = [(self.decoder(sample(posterior, one), posterior.mask)[-1] + start).sigmoid() for one in noise]
        return member_mean(torch.stack(draws).mean(0), self.n_members)

    def predict_given(self, features: Tensor, labels: Labels) -> Probs:
        """Probabilities of all labels of a row, given its features and those labels that are known.

        Parameters
        ----------
        features : Tensor
            A batch of rows.
        labels : Tensor of shape (batch, label)
            1 and 0 for known labels, NaN for unknown ones.

        Returns
        -------
        Tensor of shape (batch, label)
            Known labels as known. Where nothing is known, what :meth:`predict` returns.
        """
        if not isinstance(self.label_encoder, KnownEncoder):
            raise ConfigError("given must go with a network trained for it; got conditional=False. Train it anew.")
        posterior, start = self.encode(features)
        alone = (self.decoder(posterior.mean, posterior.mask)[-1] + start).sigmoid()
        told = labels.repeat_interleave(self.n_members, dim=0)
        evidence = self.label_encoder(posterior, alone, told)
        together = self.decoder(evidence.move(posterior).mean, posterior.mask)[-1] + evidence.logits + start
        is_known = ~torch.isnan(labels)
        probs = member_mean(together.sigmoid(), self.n_members)
        probs = torch.where(is_known.any(-1, keepdim=True), probs, member_mean(alone, self.n_members))
        return torch.where(is_known, labels, probs)


class LabelBranch(nn.Module):
    """The label branch of a network alone, for training on while the rest stays as it is.

    The epoch whose weights are kept is the best one without known labels; the label branch may need more of them.

    Parameters
    ----------
    network : HotVAE
        One that can be told labels; only its label encoder changes.

    Examples
    --------
    >>> import torch
    >>> branch = LabelBranch(HotVAE(4, 3, NetConfig(dim=8, n_heads=2, encoder_widths=(16,))))
    >>> logits, asked = branch(torch.zeros(5, 4), torch.ones(5, 3))
    >>> {name.split(".")[1] for name, weight in branch.named_parameters() if weight.requires_grad}
    {'label_encoder'}
    """

    conditional = True
    selects_told = True

    def __init__(self, network: HotVAE) -> None:
        super().__init__()
        self.network = network.requires_grad_(False)
        self.network.label_encoder.requires_grad_(True)

    def train(self, mode: bool = True) -> "LabelBranch":
        """Drop units of the label encoder only: the rest speaks as it does in predictions."""
        super().train(False)
        self.network.label_encoder.train(mode)
        return self

    def forward(self, features: Tensor, labels: Labels) -> tuple[Logits, Labels]:
        """Tell a random part of the labels; return all logits, and the labels asked for."""
        network = self.network
        told, asked = hide_some(labels.repeat_interleave(network.n_members, dim=0))
        with torch.no_grad():
            feature, start = network.encode(features)
            alone = (network.decoder(feature.mean, feature.mask)[-1] + start).sigmoid()
        evidence = network.label_encoder(feature, alone, told)
        moved = evidence.move(feature)
        return network.decoder(moved.mean, moved.mask)[-1] + evidence.logits + start, asked

    def predict(self, features: Tensor) -> Probs:
        """Probabilities without known labels."""
        return self.network.predict(features)

    def predict_given(self, features: Tensor, labels: Labels) -> Probs:
        """Probabilities given known labels."""
        return self.network.predict_given(features, labels)


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
        Starting bias of the read-out.
    starts : bool
        Whether the last columns of a row are logits to start from (:mod:`hotvae.net.base_logits`).

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
        starts: bool = False,
    ) -> None:
        super().__init__()
        if feature_encoder is None:
            feature_encoder = make_encoder("mlp", n_features, config)
        self.feature_encoder = feature_encoder
        self.n_members: int = getattr(feature_encoder, "n_members", 1)
        self.start = make_start(n_labels, starts)
        self.readout = nn.Linear(config.latent_width, n_labels)
        first = torch.zeros(n_labels) if starts else initial_logits
        if first is not None:
            with torch.no_grad():
                self.readout.bias.copy_(first)

    def forward(self, features: Tensor) -> Float[Tensor, "batch label"]:
        """Logits of a batch; with an ensemble, those of the members of each row one after the other."""
        rows, start = apart(self.start, features, self.n_members)
        posterior = encode(self.feature_encoder, rows)
        logits: Float[Tensor, "batch label"] = self.readout(token_mean(posterior.mean, posterior.mask))
        return logits + start

    def predict(self, features: Tensor) -> Probs:
        """Probabilities of a batch."""
        return member_mean(torch.sigmoid(self(features)), self.n_members)


def _repeated(branch: Branch, times: int) -> Branch:
    if times == 1:
        return branch
    posterior, rows = branch.posterior, torch.arange(len(branch.posterior.mean), device=branch.layer_logits.device)
    rows = rows.repeat_interleave(times)
    mask = None if posterior.mask is None else posterior.mask[rows]
    repeated = Gaussian(posterior.mean[rows], posterior.log_variance[rows], mask)
    return Branch(repeated, branch.layer_logits[:, rows])
