"""Messages that carry news: labels tell each other what the features did not foretell, over n rounds.

What is news about a label is its *surprise*: how far it is from what the features said. A known label sends its
surprise to others; an unknown one that came to believe something else passes that on in the next round, so that n
rounds reach order n + 1. With nothing known there is no news, and every logit is exactly that of the features.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from hotvae.config import MessagesConfig
from hotvae.net.losses import bce_loss
from hotvae.net.stored import with_weights
from hotvae.types import Features, GraphMask, Labels, Logits, PerSample, Probs

# Of what a belief moved by, the share that is passed on when training starts: tanh of this.
_FIRST_PASSING = 0.5
# Spread of the senders' weights when training starts; the receivers' start at 0.
_FIRST_SEND = 0.3


class Messages(nn.Module):
    r"""News between labels; any base says what the features foretell.

    Parameters
    ----------
    n_labels, n_features : int
        Labels; columns of the features that decide how much causes and hub count.
    config : MessagesConfig
        Through what labels speak.
    graph : Tensor of bool, shape (label, label), optional
        Label graph: edges are 0 where it has none. None is the complete graph. Causes and hub know no graph.

    Notes
    -----
    With :math:`p = \sigma(b)` what the base logits :math:`b` foretell, :math:`m` the mask of known labels and
    :math:`s^0 = m (y - p)` their surprises, round t moves the belief in label i to

    .. math::

        \text{logit}^t_i = b_i &+ \sum_{j \ne i} E_{ij} s^t_j + D_{ij} |s^t_j| \\
            &+ q_i \cdot \Big((1 + \tanh A x) \odot \sum_j k_j s^t_j\Big) \\
            &+ h_i \cdot \big((1 + \tanh G x) \odot \mathrm{relu}(H [s^t, m])\big),

    the edges (:math:`E + D` for presence, :math:`E - D` for absence), the causes and the hub. Tied causes have
    :math:`q_i = w \odot k_i`: with one strength w for each cause, labels that share it speak alike both ways.
    Then a belief that moved becomes news,

    .. math:: s^{t+1}_i = s^0_i + \tanh(c_{t, m_i}) \, (\sigma(\text{logit}^t_i) - p_i),

    with one c for unknown labels, which pass on what they learned, and one for known ones, whose news shrinks as far as
    others foretold it. All that labels hear starts at 0: untrained messages change nothing.

    Examples
    --------
    >>> import torch
    >>> messages = Messages(3, 2, MessagesConfig())
    >>> base, features = torch.randn(5, 3), torch.randn(5, 2)
    >>> messages(base, features, torch.full((5, 3), torch.nan)).shape
    torch.Size([2, 5, 3])
    """

    conditional = True
    selects_by_given = True

    def __init__(self, n_labels: int, n_features: int, config: MessagesConfig, graph: GraphMask | None = None) -> None:
        super().__init__()
        self.config = config
        self.graph: Tensor
        if config.edges != "none":
            others = ~torch.eye(n_labels, dtype=torch.bool)
            self.register_buffer("graph", others if graph is None else graph & others)
            self.edge = nn.Parameter(torch.zeros(n_labels, n_labels))
        if config.edges == "signed":
            self.edge_difference = nn.Parameter(torch.zeros(n_labels, n_labels))
        if config.n_causes:
            self.send = nn.Parameter(_FIRST_SEND * torch.randn(n_labels, config.n_causes))
            self.hear = nn.Parameter(torch.zeros(1 if config.tied else n_labels, config.n_causes))
        if config.n_causes and config.gated:
            self.cause_gate = _silent(n_features, config.n_causes)
        if config.hub_width:
            self.hub_in = nn.Linear(2 * n_labels, config.hub_width, bias=False)
            self.hub_gate = _silent(n_features, config.hub_width)
            self.hub_out = nn.Parameter(torch.zeros(n_labels, config.hub_width))
        self.passing = nn.Parameter(torch.full((config.n_rounds - 1,), _FIRST_PASSING))
        self.passing_known = nn.Parameter(torch.zeros(config.n_rounds - 1))

    @classmethod
    def from_state(cls, config: MessagesConfig, n_labels: int, state: Mapping[str, Tensor]) -> "Messages":
        """Rebuild messages from their ``state_dict``, ready for predictions."""
        gates = [weight.shape[1] for name, weight in state.items() if name.endswith("_gate.weight")]
        return with_weights(lambda: cls(n_labels, gates[0] if gates else 1, config), state)

    def forward(
        self, base_logits: Logits, features: Features, given: Float[Tensor, "*draw batch label"]
    ) -> Float[Tensor, "layer *draw batch label"]:
        """Logits of all labels after each round, given some labels.

        Parameters
        ----------
        base_logits : Tensor of shape (batch, label)
            What the features foretell.
        features : Tensor of shape (batch, feature)
            Features, on about the same scale.
        given : Tensor of shape (batch, label), or (draw, batch, label)
            1 and 0 for given labels, NaN for all others. Draws go together through one pass.

        Returns
        -------
        Tensor of shape (layer, batch, label), or (layer, draw, batch, label)
            The last one is the prediction; exactly the base logits where nothing is given.
        """
        return torch.stack([*self._rounds(base_logits, features, given, slice(None))])

    def of_labels(
        self,
        base_logits: Logits,
        features: Features,
        given: Float[Tensor, "*draw batch label"],
        labels: Int[Tensor, " some"],
    ) -> Float[Tensor, "*draw batch some"]:
        """Logits of some labels alone after the last round, which the others need not hear: cheaper along a chain.

        Parameters
        ----------
        base_logits, features, given : Tensor
            As for :meth:`forward`.
        labels : Tensor of int of shape (some,)
            Numbers of the labels.

        Returns
        -------
        Tensor of shape (batch, some), or (draw, batch, some)
        """
        *_, last = self._rounds(base_logits, features, given, labels)
        return last

    def _rounds(
        self, base_logits: Tensor, features: Tensor, given: Tensor, heard_last: Tensor | slice
    ) -> Iterator[Tensor]:
        """Yield the logits of all labels after each round, but only of some after the last."""
        config = self.config
        known = (~torch.isnan(given)).to(base_logits.dtype)
        probs = base_logits.sigmoid()
        first = torch.nan_to_num(given - probs, nan=0.0)
        if self.training and config.dropout:
            heard = (torch.rand_like(first) >= config.dropout).to(first.dtype)
            known, first = known * heard, first * heard
        weights = self._hearing()
        cause_loudness = 1 + torch.tanh(self.cause_gate(features)) if config.n_causes and config.gated else 1.0
        hub_loudness = 1 + torch.tanh(self.hub_gate(features)) if config.hub_width else 1.0

        news = first
        for round_ in range(config.n_rounds):
            is_last = round_ == config.n_rounds - 1
            who = heard_last if is_last else slice(None)
            moved: Tensor | float = 0.0
            if "edge" in weights:
                moved = moved + news @ weights["edge"][who].T
            if "difference" in weights:
                moved = moved + news.abs() @ weights["difference"][who].T
            if "hear" in weights:
                moved = moved + ((news @ self.send) * cause_loudness) @ weights["hear"][who].T
            if "hub_out" in weights:
                units = torch.relu(self.hub_in(torch.cat([news, known], dim=-1))) * hub_loudness
                moved = moved + units @ weights["hub_out"][who].T
            logits = base_logits[..., who] + moved
            yield logits
            if not is_last:
                of_unknown, of_known = self.passing[round_].tanh(), self.passing_known[round_].tanh()
                passed = of_unknown + (of_known - of_unknown) * known  # torch.where of two numbers is slow
                news = torch.addcmul(first, passed, logits.sigmoid() - probs)

    def _hearing(self) -> dict[str, Tensor]:
        """Weights with a row for each label that listens, as they count: edges within the graph, ties carried out."""
        config, found = self.config, {}
        if config.edges != "none":
            edges = self.edge * self.graph
            found["edge"] = (edges + edges.T) / 2 if config.edges == "shared" else edges
        if config.edges == "signed":
            found["difference"] = self.edge_difference * self.graph
        if config.n_causes:
            found["hear"] = self.send * self.hear if config.tied else self.hear
        if config.hub_width:
            found["hub_out"] = self.hub_out
        return found

    def weights(self) -> dict[str, Tensor]:
        """All that a prediction takes, as it counts: edges within the graph, ties carried out, shares that are passed.

        Returns
        -------
        dict of str to Tensor
            Of what the configuration has: ``edge`` and ``difference`` (who listens, who speaks), ``send`` and ``hear``
            (label, cause), ``cause_gate`` and ``hub_gate`` (unit, feature; the bias is the last column), ``hub_in``
            (unit, news of each label and then whether it is known), ``hub_out`` (label, unit), ``passing`` and
            ``passing_known`` (round).
        """
        found = self._hearing()
        if "hear" in found:
            found["send"] = self.send
        if "hub_out" in found:
            found["hub_in"] = self.hub_in.weight
        for name in ("cause_gate", "hub_gate"):
            gate = getattr(self, name, None)
            if gate is not None:
                found[name] = torch.cat([gate.weight, gate.bias[:, None]], dim=1)
        found |= {"passing": self.passing.tanh(), "passing_known": self.passing_known.tanh()}
        return {name: weight.detach() for name, weight in found.items()}

    def loss(self, features: Features, labels: Labels, base_logits: Logits) -> dict[str, PerSample]:
        """Cross entropy of the labels that were not given, a random part of each row; after the last round and before.

        The share given is uniform, so this is the negative log likelihood of whole label sets by the chain rule, in a
        random order, divided by the number of labels.
        """
        given, target = split_labels(labels)
        rounds = bce_loss(self(base_logits, features, given), target)
        return {"bce": rounds[-1], "intermediate": rounds[:-1].sum(0)}

    def predict(self, features: Features, base_logits: Logits) -> Probs:
        """Probabilities without given labels: those of the base."""
        return base_logits.sigmoid()

    def predict_given(self, features: Features, given: Labels, base_logits: Logits) -> Probs:
        """Probabilities given some labels, which are as given themselves."""
        probs = self(base_logits, features, given)[-1].sigmoid()
        return torch.where(torch.isnan(given), probs, given)


class Chorus(nn.Module):
    """Messages that were learned several times, from other starts: what they say is averaged.

    Parameters
    ----------
    voices : sequence of Messages
        Alike but for their weights.
    """

    def __init__(self, voices: Sequence[Messages]) -> None:
        super().__init__()
        self.voices = nn.ModuleList(voices)
        self.config = voices[0].config

    @classmethod
    def from_state(cls, config: MessagesConfig, n_labels: int, state: Mapping[str, Tensor]) -> "Chorus":
        """Rebuild them from their ``state_dict``, ready for predictions."""
        numbers = sorted({int(name.split(".")[1]) for name in state})
        starts = [f"voices.{number}." for number in numbers]
        own = [{n.removeprefix(start): state[n] for n in state if n.startswith(start)} for start in starts]
        return cls([Messages.from_state(config, n_labels, weights) for weights in own])

    def forward(
        self, base_logits: Logits, features: Features, given: Float[Tensor, "*draw batch label"]
    ) -> Float[Tensor, "layer *draw batch label"]:
        """Logits of all labels after each round, the mean over the voices; see :meth:`Messages.forward`."""
        moved = [voice(base_logits, features, given) - base_logits for voice in self.voices]
        return base_logits + torch.stack(moved).mean(0)  # exactly the base where nothing moved

    def of_labels(
        self,
        base_logits: Logits,
        features: Features,
        given: Float[Tensor, "*draw batch label"],
        labels: Int[Tensor, " some"],
    ) -> Float[Tensor, "*draw batch some"]:
        """Logits of some labels alone after the last round; see :meth:`Messages.of_labels`."""
        base = base_logits[..., labels]
        voices = (cast(Messages, voice) for voice in self.voices)
        moved = [voice.of_labels(base_logits, features, given, labels) - base for voice in voices]
        return base + torch.stack(moved).mean(0)


def split_labels(labels: Labels) -> tuple[Labels, Labels]:
    """Split the labels of each row at random into given ones and targets; the share given is uniform per row.

    Parameters
    ----------
    labels : Tensor of shape (batch, label)
        0, 1 or NaN.

    Returns
    -------
    given, target : Tensor of shape (batch, label)
        Every observed label is in one of them, NaN in the other.
    """
    share = torch.rand(len(labels), 1, dtype=labels.dtype, device=labels.device)
    is_given = torch.rand_like(labels) < share
    gap = torch.full_like(labels, float("nan"))
    return torch.where(is_given, labels, gap), torch.where(is_given, gap, labels)


def _silent(n_in: int, n_out: int) -> nn.Linear:
    """Return a linear map that says 0 until it is trained."""
    layer = nn.Linear(n_in, n_out)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer
