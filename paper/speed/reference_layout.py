"""Two other ways to lay out the same model, to measure ours against.

``ReferenceHotVAE`` is the plain layout: the graph's mask is repeated for every row and head, scores and attention
weights are tensors of their own with dropout on them, query, key and value are three maps, label embeddings are
repeated for every row before the first layer, each read-out makes a label-by-label table of which the diagonal is
kept, the ranking loss compares all pairs of labels, and the two branches are decoded one after the other. Without
dropout it computes what :class:`hotvae.net.model.HotVAE` computes; ``tests/paper/speed/test_steps.py`` holds it
to that. Like ours it knows that the softmax over a single token is 1: it is not made slower than the layout makes it.

``TransformerNet`` puts ``torch.nn.TransformerDecoder`` in the place of our decoder: label embeddings are the target
sequence, the latent token is the memory. It is another function of the same size, not the same function.
"""

import math

import torch
import torch.nn.functional as F  # noqa: N812  # torch's own convention
from torch import nn

from hotvae.net.encoders import code_labels, encode, make_mlp_encoder
from hotvae.net.latent import aligned_kl, sample
from hotvae.net.losses import Branch, HotVAEOutput, hotvae_terms


class ReferenceAttention(nn.Module):
    """Messages between labels with every intermediate tensor spelled out."""

    def __init__(self, config):
        super().__init__()
        self.n_heads = config.n_heads
        self.query = nn.Linear(config.dim, config.dim)
        self.key = nn.Linear(config.dim, config.dim)
        self.value = nn.Linear(config.dim, config.dim)
        self.merge = nn.Linear(config.dim, config.dim)
        self.dropout = nn.Dropout(config.decoder_dropout)

    def forward(self, states, mask):
        """Collect messages; ``mask`` has a label-by-label table for each row and head."""
        n_rows, n_labels, dim = states.shape
        query, key, value = (self._split(part(states)) for part in (self.query, self.key, self.value))
        scores = torch.bmm(query, key.transpose(1, 2)) / math.sqrt(dim // self.n_heads)
        scores = scores.masked_fill(~mask, -math.inf)
        weights = self.dropout(torch.softmax(scores, dim=2))
        mixed = torch.bmm(weights, value).view(n_rows, self.n_heads, n_labels, -1)
        return self.merge(mixed.permute(0, 2, 1, 3).contiguous().view(n_rows, n_labels, dim))

    def _split(self, projected):
        # (batch, label, dim) -> (batch * head, label, head_dim)
        n_rows, n_labels, dim = projected.shape
        heads = projected.view(n_rows, n_labels, self.n_heads, dim // self.n_heads)
        return heads.permute(0, 2, 1, 3).contiguous().view(n_rows * self.n_heads, n_labels, -1)


class ReferenceLayer(nn.Module):
    """Message of the token, feed-forward, messages of the labels, feed-forward; each added, then normalised."""

    def __init__(self, config):
        super().__init__()
        self.feature_message = nn.Linear(config.dim, config.dim)
        self.feature_feedforward = self._feedforward(config)
        self.label_message = ReferenceAttention(config)
        self.label_feedforward = self._feedforward(config)
        self.norms = nn.ModuleList(nn.LayerNorm(config.dim) for _ in range(4))
        self.dropout = nn.Dropout(config.decoder_dropout)

    def forward(self, states, token, mask):
        """Pass one round of messages."""
        message = self.feature_message(token).expand(-1, states.shape[1], -1)
        states = self.norms[0](states + self.dropout(message))
        states = self.norms[1](states + self.dropout(self.feature_feedforward(states)))
        states = self.norms[2](states + self.dropout(self.label_message(states, mask)))
        return self.norms[3](states + self.dropout(self.label_feedforward(states)))

    def _feedforward(self, config):
        return nn.Sequential(
            nn.Linear(config.dim, config.dim),
            nn.ReLU(),
            nn.Linear(config.dim, config.dim),
        )


class ReferenceHotVAE(nn.Module):
    """HOT-VAE in the plain layout: one token per row, post-norm layers with weights of their own.

    Parameters
    ----------
    n_features, n_labels : int
        Columns of the two tables.
    config : NetConfig
        Shape of the network; ``decoder_dropout`` is on attention weights too, and every label has a mask of its own.
    graph : Tensor of bool of shape (label, label), optional
        Who listens to whom; None for everybody, which is a mask here all the same.
    """

    def __init__(self, n_features, n_labels, config, graph=None):
        super().__init__()
        self.n_heads = config.n_heads
        self.feature_encoder = make_mlp_encoder(n_features, config.encoder_widths, config)
        self.label_encoder = make_mlp_encoder(n_labels, config.label_encoder_widths, config)
        self.embedding = nn.Parameter(torch.randn(n_labels, config.dim))
        self.layers = nn.ModuleList(ReferenceLayer(config) for _ in range(config.n_layers))
        self.readout = nn.Linear(config.dim, n_labels)
        self.direct = nn.Linear(config.dim, n_labels, bias=False) if config.direct_path else None
        everybody = torch.ones(n_labels, n_labels, dtype=torch.bool)
        self.register_buffer("graph", everybody if graph is None else graph)

    def decode(self, tokens):
        """Return the logits after every layer."""
        n_rows = len(tokens)
        states = self.embedding.unsqueeze(0).repeat(n_rows, 1, 1)
        mask = self.graph.unsqueeze(0).repeat(n_rows * self.n_heads, 1, 1)
        first_guess = 0.0 if self.direct is None else self.direct(tokens[:, 0])
        logits = []
        for layer in self.layers:
            states = layer(states, tokens, mask)
            table = self.readout(states)  # (batch, label, label)
            logits.append(torch.diagonal(table, dim1=1, dim2=2) + first_guess)
        return torch.stack(logits)

    def forward(self, features, labels):
        """Encode, sample and decode one branch, then the other."""
        feature = encode(self.feature_encoder, features)
        label = encode(self.label_encoder, code_labels(labels))
        return HotVAEOutput(
            *(Branch(part, self.decode(sample(part, torch.randn_like(part.mean)))) for part in (feature, label))
        )

    def loss(self, features, labels, base_logits=None):
        """Return the loss terms of a batch."""
        return reference_terms(self(features, labels), labels)

    def predict(self, features, base_logits=None):
        """Probabilities from the latent mean of the feature branch."""
        return torch.sigmoid(self.decode(encode(self.feature_encoder, features).mean)[-1])


def pairwise_ranking(probs, labels, scale=5.0):
    """Ranking loss over all pairs of labels, each a cell of a tensor of shape (batch, label, label)."""
    present, absent = (labels == 1).to(probs.dtype), (labels == 0).to(probs.dtype)
    pairs = present.unsqueeze(2) * absent.unsqueeze(1)
    gaps = probs.unsqueeze(2) - probs.unsqueeze(1)
    return (pairs * torch.exp(-scale * gaps)).sum((1, 2)) / (scale * pairs.sum((1, 2)).clamp(min=1))


def reference_terms(output, labels):
    """Return the four loss terms per row, as :func:`hotvae.net.losses.hotvae_terms` does, in the plain layout."""
    observed = ~torch.isnan(labels)
    n_observed = observed.sum(-1).clamp(min=1)
    filled = torch.nan_to_num(labels, nan=0.0)

    def cross_entropy(logits):
        return (F.binary_cross_entropy_with_logits(logits, filled, reduction="none") * observed).sum(-1) / n_observed

    branches = (output.feature.layer_logits, output.label.layer_logits)
    nothing = torch.zeros_like(labels[:, 0])
    return {
        "bce": sum(cross_entropy(logits[-1]) for logits in branches),
        "intermediate": sum((cross_entropy(layer) for logits in branches for layer in logits[:-1]), nothing),
        "ranking": sum(pairwise_ranking(logits[-1].sigmoid(), labels) for logits in branches),
        "kl": aligned_kl(output.label.posterior, output.feature.posterior) * observed.any(-1),
    }


class TransformerNet(nn.Module):
    """HOT-VAE's encoders and read-out around ``torch.nn.TransformerDecoder``; both branches in one batch."""

    def __init__(self, n_features, n_labels, config, graph=None):
        super().__init__()
        self.feature_encoder = make_mlp_encoder(n_features, config.encoder_widths, config)
        self.label_encoder = make_mlp_encoder(n_labels, config.label_encoder_widths, config)
        self.embedding = nn.Parameter(torch.randn(n_labels, config.dim))
        layer = nn.TransformerDecoderLayer(
            config.dim, config.n_heads, config.dim, config.decoder_dropout, batch_first=True
        )
        self.decoder = nn.TransformerDecoder(layer, config.n_layers)
        self.weight = nn.Parameter(torch.randn(n_labels, config.dim) * 0.1 / config.dim**0.5)
        self.bias = nn.Parameter(torch.zeros(n_labels))
        self.direct = nn.Linear(config.dim, n_labels, bias=False) if config.direct_path else None
        # torch's mask is True where a label must not listen
        self.register_buffer("deaf", None if graph is None else ~graph)

    def decode(self, tokens):
        """Return the logits after every layer."""
        states = self.embedding.expand(len(tokens), -1, -1)
        first_guess = 0.0 if self.direct is None else self.direct(tokens[:, 0])
        logits = []
        for layer in self.decoder.layers:  # not decoder(...): every layer is read out
            states = layer(states, tokens, tgt_mask=self.deaf)
            logits.append(torch.einsum("bld,ld->bl", states, self.weight) + self.bias + first_guess)
        return torch.stack(logits)

    def forward(self, features, labels):
        """Encode both branches, sample, decode them in one batch."""
        feature = encode(self.feature_encoder, features)
        label = encode(self.label_encoder, code_labels(labels))
        tokens = torch.cat([sample(part, torch.randn_like(part.mean)) for part in (feature, label)])
        logits = self.decode(tokens)
        return HotVAEOutput(Branch(feature, logits[:, : len(labels)]), Branch(label, logits[:, len(labels) :]))

    def loss(self, features, labels, base_logits=None):
        """Return the loss terms of a batch."""
        return hotvae_terms(self(features, labels), labels, ("bce", "intermediate", "ranking", "kl"))

    def predict(self, features, base_logits=None):
        """Probabilities from the latent mean of the feature branch."""
        return torch.sigmoid(self.decode(encode(self.feature_encoder, features).mean)[-1])


def in_our_names(tensors):
    """Give weights or gradients of :class:`ReferenceHotVAE` the names and shapes they have in our network.

    Parameters
    ----------
    tensors : mapping of str to Tensor
        By the reference's names.

    Returns
    -------
    dict of str to Tensor
    """
    renamed = {}
    for name, tensor in tensors.items():
        if ".label_message.key." in name or ".label_message.value." in name:
            continue
        if ".label_message.query." in name:
            parts = [tensors[name.replace(".query.", f".{part}.")] for part in ("query", "key", "value")]
            renamed["decoder." + name.replace(".query.", ".query_key_value.")] = torch.cat(parts)
        elif name.startswith(("feature_encoder.", "label_encoder.")):
            renamed[name] = tensor
        elif ".norms." in name:
            head, place, leaf = name.replace(".norms.", ".residuals.").rsplit(".", 2)
            renamed[f"decoder.{head}.{place}.norm.{leaf}"] = tensor
        else:
            plain = name.replace("feature_message.", "feature_message.value.").removeprefix("readout.")
            renamed[f"decoder.{plain}"] = tensor
    return renamed
