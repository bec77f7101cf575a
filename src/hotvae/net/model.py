"""HOT-VAE: a feature branch and a label branch that share one decoder."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hotvae.config import NetConfig
from hotvae.errors import ConfigError
from hotvae.net.decoder import Decoder
from hotvae.net.encoders import code_labels, encode, make_encoder, make_label_encoder, member_mean
from hotvae.net.latent import Gaussian, join, sample, token_mean
from hotvae.types import GraphMask, Labels, LayerLogits, Probs


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
    """Both branches of one pass in training."""

    feature: Branch
    label: Branch


class HotVAE(nn.Module):
    """Two encoders and the decoder they share.

    Parameters
    ----------
    n_features, n_labels : int
        Columns of the feature table and of the label table.
    config : NetConfig
        Shape of the network.
    graph : Tensor of bool of shape (label, label), optional
        Label graph with self-edges; None for the complete graph.
    feature_encoder : nn.Module, optional
        Any encoder (see :mod:`hotvae.net.encoders`); by default a multi-layer perceptron.
    label_encoder : nn.Module, optional
        Reads labels coded +1, -1 and 0 for not observed; by default the one that ``config`` names.
    initial_logits : Tensor of shape (label,), optional
        Starting bias of the read-out.
    direct_epochs : int
        Epochs at the start of training in which the direct path learns alone, before labels pass messages.

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
        graph: GraphMask | None = None,
        feature_encoder: nn.Module | None = None,
        label_encoder: nn.Module | None = None,
        initial_logits: Float[Tensor, " label"] | None = None,
        direct_epochs: int = 0,
    ) -> None:
        super().__init__()
        if direct_epochs and not config.direct_path:
            raise ConfigError(
                f"direct_epochs must be 0 without direct_path; got {direct_epochs}. Set direct_path=True, or leave it."
            )
        self.direct_epochs = direct_epochs
        if feature_encoder is None:
            feature_encoder = make_encoder("mlp", n_features, config)
        # Paper note P8: the label encoder sees the labels only; with the features it could bypass the latent.
        if label_encoder is None:
            label_encoder = make_label_encoder(n_labels, config)
        self.feature_encoder = feature_encoder
        self.label_encoder = label_encoder
        self.n_members: int = getattr(feature_encoder, "n_members", 1)
        encoders = (self.feature_encoder, self.label_encoder)
        single_token = all(getattr(encoder, "n_tokens", None) == 1 for encoder in encoders)
        self.decoder = Decoder(n_labels, config, single_token, graph, initial_logits)
        if direct_epochs:
            # What the messages add starts at exactly nothing, so that leaving them out changes nothing.
            nn.init.zeros_(self.decoder.weight)

    def begin_epoch(self, epoch: int | None) -> None:
        """Let labels pass messages from epoch ``direct_epochs + 1`` on; None, when training is over, always."""
        self.decoder.messages_on = epoch is None or epoch > self.direct_epochs

    def forward(self, features: Tensor, labels: Labels) -> HotVAEOutput:
        """Encode both branches, sample each latent once, decode them in one batch.

        With an ensemble every member of a row is a row of its own, and the one label branch of the row stands
        beside each.
        """
        feature = encode(self.feature_encoder, features)
        label = encode(self.label_encoder, code_labels(labels))
        both = join(feature, label)
        tokens = sample(both, torch.randn_like(both.mean))
        n_rows = len(feature.mean)
        logits = self.decoder(tokens, both.mask)
        beside = _repeated(Branch(label, logits[:, n_rows:]), self.n_members)
        return HotVAEOutput(Branch(feature, logits[:, :n_rows]), beside)

    def predict(self, features: Tensor, noise: Float[Tensor, "draw 1 token dim"] | None = None) -> Probs:
        """Probabilities from the feature branch alone.

        Parameters
        ----------
        features : Tensor
            A batch of rows.
        noise : Tensor of shape (draw, 1, token, dim), optional
            Standard normal numbers shared by all rows; probabilities are averaged over the draws. None decodes the
            latent mean (paper note P7).

        Returns
        -------
        Tensor of shape (batch, label)
        """
        posterior = encode(self.feature_encoder, features)
        if noise is None:
            return member_mean(torch.sigmoid(self.decoder(posterior.mean, posterior.mask)[-1]), self.n_members)
        draws = [self.decoder(sample(posterior, one), posterior.mask)[-1].sigmoid() for one in noise]
        return member_mean(torch.stack(draws).mean(0), self.n_members)


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
    ) -> None:
        super().__init__()
        if feature_encoder is None:
            feature_encoder = make_encoder("mlp", n_features, config)
        self.feature_encoder = feature_encoder
        self.n_members: int = getattr(feature_encoder, "n_members", 1)
        self.readout = nn.Linear(config.dim, n_labels)
        if initial_logits is not None:
            with torch.no_grad():
                self.readout.bias.copy_(initial_logits)

    def forward(self, features: Tensor) -> Float[Tensor, "batch label"]:
        """Logits of a batch; with an ensemble, those of the members of each row one after the other."""
        posterior = encode(self.feature_encoder, features)
        logits: Float[Tensor, "batch label"] = self.readout(token_mean(posterior.mean, posterior.mask))
        return logits

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
