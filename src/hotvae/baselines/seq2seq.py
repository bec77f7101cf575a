"""A set of labels as a sequence, frequent ones first, written by a recurrent decoder (Nam et al. 2017).

Every training sequence is in the same order, so a label may only be followed by rarer ones or by the end. With that
the decoder is a proper distribution over sets: each set has exactly one sequence.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from hotvae.baselines.neighbours import RememberingNetwork
from hotvae.config import NetConfig, require_count
from hotvae.net.attention import attend
from hotvae.net.base_logits import BaseScale
from hotvae.net.encoders import encode
from hotvae.net.latent import Gaussian, token_mean
from hotvae.types import Labels, Logits, PerSample, Probs

_MOST_BEAMS = 1000


@dataclass(frozen=True)
class Beam:
    """The most probable label sets of each row that the search found.

    Attributes
    ----------
    members : Tensor of bool of shape (batch, beam, label)
        Which labels belong to each set.
    log_probs : Tensor of shape (batch, beam)
        Their log-probabilities, best first; -inf where there are fewer sets than places.
    """

    members: Bool[Tensor, "batch beam label"]
    log_probs: Float[Tensor, "batch beam"]

    def marginals(self, prevalence: Float[Tensor, " label"]) -> Probs:
        """Probability of each label: the weight of the sets that hold it.

        What the sets found leave of the whole, sets that the search never saw, is taken to hold labels at their
        prevalence. With a beam as wide as there are sets nothing is left, and the marginals are exact.
        """
        # At least a rounding error is left: no label is ever certain.
        left = (1 - self.log_probs.exp().sum(-1, keepdim=True)).clamp(min=torch.finfo(self.log_probs.dtype).eps)
        weights = (1 - left) * self.log_probs.softmax(-1)
        return torch.einsum("bk,bkl->bl", weights, self.members.to(weights.dtype)) + left * prevalence


class Seq2SeqNet(nn.Module):
    """Encoder of the features, gated recurrent decoder of the labels.

    Parameters
    ----------
    feature_encoder : nn.Module
        Any encoder (see :mod:`hotvae.net.encoders`); only its means are used.
    n_labels, dim, decoder_dim : int
        Labels, width of the encoder's tokens and of label embeddings, width of the recurrent state.
    beam_width : int
        Label sets followed at the same time when predicting.
    dropout : float
        Share of units dropped before the read-out.
    initial_logits : Tensor of shape (label,), optional
        Logits of the prevalences; they decide the order of the labels, frequent ones first, and what is said of sets
        that the search did not see.
    has_base : bool
        Whether rows come with base logits (:mod:`hotvae.net.base_logits`): each label's count wherever it may be
        written next.
    """

    order: Tensor
    prevalence: Tensor

    def __init__(
        self,
        feature_encoder: nn.Module,
        n_labels: int,
        dim: int,
        decoder_dim: int,
        beam_width: int,
        dropout: float = 0.0,
        initial_logits: Float[Tensor, " label"] | None = None,
        has_base: bool = False,
    ) -> None:
        super().__init__()
        self.feature_encoder = feature_encoder
        self.base = BaseScale(n_labels) if has_base else None
        self.n_labels = n_labels
        self.beam_width = beam_width
        self.start = nn.Linear(dim, decoder_dim)
        # One more entry than labels: the beginning among the inputs, the end among the outputs.
        self.embedding = nn.Embedding(n_labels + 1, dim)
        self.recurrent = nn.GRU(dim, decoder_dim, batch_first=True)
        self.query = nn.Linear(decoder_dim, dim)
        self.dropout = nn.Dropout(dropout)
        self.readout = nn.Linear(decoder_dim + dim, n_labels + 1)
        frequency = torch.zeros(n_labels) if initial_logits is None else initial_logits
        self.register_buffer("order", torch.argsort(frequency, descending=True, stable=True))
        self.register_buffer("prevalence", frequency.sigmoid())

    def loss(self, features: Tensor, labels: Labels, base_logits: Logits | None = None) -> dict[str, PerSample]:
        """Negative log-probability of each row's label set, by teacher forcing."""
        return {"sequence": self(features, labels, base_logits)}

    def forward(self, features: Tensor, labels: Labels, base_logits: Logits | None = None) -> PerSample:
        """Negative log-probability of each row's label set, by teacher forcing."""
        # From here on a label's number is its place in the order.
        present = labels[:, self.order] == 1
        n_present = present.sum(-1)
        places = torch.arange(self.n_labels, device=labels.device)
        padded = torch.where(present, places, self.n_labels).sort(-1).values[:, : int(n_present.max())]
        edge = torch.full_like(n_present, self.n_labels).unsqueeze(-1)
        written, wanted = torch.cat([edge, padded], 1), torch.cat([padded, edge], 1)
        tokens = encode(self.feature_encoder, features)
        log_probs, _ = self.step(written, self._first_state(tokens), tokens, self._in_order(base_logits))
        chosen = log_probs.gather(-1, wanted.unsqueeze(-1)).squeeze(-1)
        counted = torch.arange(wanted.shape[1], device=labels.device) <= n_present.unsqueeze(-1)
        return -torch.where(counted, chosen, 0).sum(-1)

    def step(
        self,
        written: Int[Tensor, "batch step"],
        state: Float[Tensor, "1 batch hidden"],
        tokens: Gaussian,
        base: Float[Tensor, "batch choice"] | None = None,
    ) -> tuple[Float[Tensor, "batch step choice"], Float[Tensor, "1 batch hidden"]]:
        """Log-probabilities of what follows each written label, and the state after the last of them.

        The beginning counts as written with number ``n_labels``; the last choice is the end. ``base`` is added to the
        logits of every choice.
        """
        hidden, state = self.recurrent(self.embedding(written), state)
        listen = None if tokens.mask is None else tokens.mask[:, None, None, :]
        heard = attend(self.query(hidden), tokens.mean, tokens.mean, 1, listen)
        logits = self.readout(self.dropout(torch.cat([hidden, heard], -1)))
        if base is not None:
            logits = logits + base.unsqueeze(1)
        earlier = torch.where(written == self.n_labels, -1, written).unsqueeze(-1)
        allowed = torch.arange(self.n_labels + 1, device=written.device) > earlier
        return logits.masked_fill(~allowed, -torch.inf).log_softmax(-1), state

    def _in_order(self, base_logits: Logits | None) -> Float[Tensor, "batch choice"] | None:
        """Turn base logits of labels into those of choices: labels by their place in the order, and 0 for the end."""
        if self.base is None or base_logits is None:
            return None
        weighed = self.base.add(torch.zeros_like(base_logits), base_logits)
        return nn.functional.pad(weighed[:, self.order], (0, 1))

    def _first_state(self, tokens: Gaussian) -> Float[Tensor, "1 batch hidden"]:
        return torch.tanh(self.start(token_mean(tokens.mean, tokens.mask))).unsqueeze(0)

    def search(self, features: Tensor, base_logits: Logits | None = None) -> Beam:
        """Find probable label sets of each row by beam search."""
        base = self._in_order(base_logits)
        base = None if base is None else base.repeat_interleave(self.beam_width, dim=0)
        tokens = encode(self.feature_encoder, features)
        n_rows, width, end = len(tokens.mean), self.beam_width, self.n_labels
        device = tokens.mean.device
        row = torch.arange(n_rows, device=device).unsqueeze(-1)
        state = self._first_state(tokens).squeeze(0)  # (batch, hidden) -> (batch, beam, hidden)
        state = state.unsqueeze(1).expand(-1, width, -1)
        mask = None if tokens.mask is None else tokens.mask.repeat_interleave(width, 0)
        wide = Gaussian(tokens.mean.repeat_interleave(width, 0), tokens.log_variance.repeat_interleave(width, 0), mask)
        # All places but the first are empty at the start.
        log_probs = torch.full((n_rows, width), -torch.inf, dtype=tokens.mean.dtype, device=device)
        log_probs[:, 0] = 0
        last = torch.full((n_rows, width), end, device=device)
        members = torch.zeros(n_rows, width, end + 1, dtype=torch.bool, device=device)
        ended = torch.zeros(n_rows, width, dtype=torch.bool, device=device)
        for _ in range(end + 1):
            follow, new_state = self.step(last.reshape(-1, 1), state.reshape(1, n_rows * width, -1), wide, base)
            follow = follow.unflatten(0, (n_rows, width)).squeeze(2)
            # A set that has ended stays as it is.
            follow = follow.masked_fill(ended.unsqueeze(-1), -torch.inf)
            follow[..., end] = follow[..., end].masked_fill(ended, 0)
            log_probs, flat = (log_probs.unsqueeze(-1) + follow).flatten(1).topk(width, dim=-1)
            parent, last = flat // (end + 1), flat % (end + 1)
            state = new_state.squeeze(0).unflatten(0, (n_rows, width))[row, parent]
            members = members[row, parent].scatter(-1, last.unsqueeze(-1), value=True)
            ended = last == end
            if bool((ended | log_probs.isneginf()).all()):
                break
        # Back from places in the order to labels.
        found = torch.zeros_like(members[..., :end])
        found[..., self.order] = members[..., :end]
        return Beam(found, log_probs)

    def predict(self, features: Tensor, base_logits: Logits | None = None) -> Probs:
        """Probability of each label, from the sets that the search finds."""
        return self.search(features, base_logits).marginals(self.prevalence)


@dataclass(kw_only=True, eq=False, repr=False)
class Seq2Seq(RememberingNetwork):
    """A recurrent decoder writes the labels of a row one after the other, frequent ones first.

    It is trained on the true beginnings of the sequences (teacher forcing). For a prediction, beam search finds the
    most probable label sets of a row; a label's probability is the weight of the sets that hold it, and its prevalence
    in the share of the whole that the search did not see.

    Parameters
    ----------
    dim : int
        Width of the encoder's tokens and of label embeddings.
    decoder_dim : int
        Width of the recurrent state.
    beam_width : int
        Label sets followed at the same time; 1 writes greedily.
    encoder, encoder_widths, encoder_dropout, encoder_layers
        As in :class:`~hotvae.HotVAENetwork`.
    decoder_dropout : float
        Share of units dropped before the read-out while training.
    base, latent_neighbours, training, features, validation_fraction, random_state
        As in :class:`~hotvae.baselines.neighbours.RememberingNetwork`.

    Examples
    --------
    >>> import numpy as np
    >>> from hotvae import Training
    >>> from hotvae.baselines.seq2seq import Seq2Seq
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> Y = np.column_stack([X[:, 0] > 0, X[:, 0] < 0.5])
    >>> model = Seq2Seq(encoder_widths=(32,), training=Training(max_epochs=30), random_state=0)
    >>> model.fit(X, Y).predict([[0.8]])
    array([[1, 0]])
    """

    title = "seq2seq"
    citation: ClassVar[str] = (
        "Nam, Loza Mencía, Kim & Fürnkranz (2017). Maximizing subset accuracy with recurrent neural networks in "
        "multi-label classification. NeurIPS."
    )
    takes: ClassVar[str] = "tables, sparse 0/1 tables, texts, molecules, your own; every label observed"
    cost: ClassVar[str] = "minutes; grows with the labels of a row, prediction also with the beam"
    accepts_missing_labels: ClassVar[bool] = False
    loss_terms: ClassVar[tuple[str, ...]] = ("sequence",)

    dim: int = 128
    decoder_dim: int = 128
    beam_width: int = 16
    encoder: str | nn.Module = "mlp"
    encoder_widths: tuple[int, ...] = NetConfig.encoder_widths
    encoder_dropout: float = NetConfig.encoder_dropout
    encoder_layers: int = NetConfig.encoder_layers
    decoder_dropout: float = 0.3

    def _build(self, n_features: int, n_labels: int, graph: Tensor | None, initial_logits: Tensor | None) -> nn.Module:
        config = self._config(NetConfig)
        return Seq2SeqNet(
            self._feature_encoder(n_features),
            n_labels,
            config.dim,
            require_count("decoder_dim", self.decoder_dim),
            require_count("beam_width", self.beam_width, most=_MOST_BEAMS),
            config.decoder_dropout,
            initial_logits,
            self._has_base(),
        )
