"""The scikit-learn face of HOT-VAE.

``__init__`` stores; :class:`~hotvae.estimators.network.NetworkClassifier` checks, scales and trains.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, logit
from torch import Tensor, nn

from hotvae.config import (
    DropoutSharing,
    FrontConfig,
    LabelEncoderKind,
    LossWeights,
    NetConfig,
    Norm,
    Optimizer,
    Pooling,
    Precision,
    Scaling,
    Schedule,
    TrainConfig,
    find_recipe,
    require_count,
)
from hotvae.errors import ConfigError
from hotvae.estimators.base import LabelledRows
from hotvae.estimators.communities import JointClassifier, probit_of
from hotvae.graph import check_graph, cooccurrence_graph, neighbour_lists
from hotvae.net.encoders import member_mean
from hotvae.net.losses import bce_loss, hotvae_terms
from hotvae.net.model import HotVAE, LabelBranch
from hotvae.net.probit import Posterior, ProbitHead
from hotvae.training.loop import Rows, Terms, choose_device, fit_network, predict_network, torch_threads
from hotvae.training.progress import Style, make_progress

# How much worse than its best epoch the label branch may be at the epoch that is kept.
_TOLD_TOLERANCE = 0.002
_KNOWN_PATIENCE = 4


class HotVAEClassifier(JointClassifier):
    """Multi-label classifier that learns which labels go together, and where.

    A feature branch and a label branch share one decoder, in which labels are nodes of a graph and pass messages;
    ``n_layers`` rounds learn correlations of order ``n_layers + 1`` that depend on the features.

    Parameters
    ----------
    dim, n_layers, n_heads, feedforward_dim : int
        Width, rounds of messages, attention heads and width of the feed-forward blocks of the decoder.
    latent_dim : int
        Width of the latent space; 0 is ``dim``, as in the paper.
    encoder : {"mlp", "set", "text", "bag", "smiles", "elements"} or nn.Module
        What rows of X are, and so which encoder reads them:

        * ``"mlp"``: a table of numbers and categories, through a perceptron;
        * ``"set"``: the active columns of a sparse 0/1 table, as tokens that pass messages;
        * ``"text"``, ``"bag"``: a column of texts, as words in order, or as a bag of weighted words;
        * ``"smiles"``, ``"elements"``: a column of molecules, as atoms, or as the elements that are there;
        * a module of your own, which maps a batch of scaled rows to tokens with a mean and a log-variance.
    label_encoder : {"mlp", "tokens"}
        How the label branch reads labels: all at once, or each positive label as a token (the paper's branch only).
    conditional : bool
        Train the label branch with random parts of the labels, so that ``predict_proba(X, given=...)`` answers;
        False gives the paper's label branch, which is told all of them.
    known_dropout : float
        Share of units dropped in the encoder of known labels.
    known_epochs : int
        Most epochs in which, after training, the label branch learns on alone, where the kept epoch came before it
        had learned what it could; 0 is never.
    encoder_widths, label_encoder_widths : tuple of int
        Hidden widths of the perceptrons of the two branches.
    encoder_layers : int
        Rounds of messages among the tokens of a row.
    numeric_embedding_dim, numeric_frequencies : int
        Learned periodic units of each numeric column, and the waves they mix; 0 units is none.
    frequency_scale : float
        Spread of the frequencies of these waves when training starts.
    n_members : int
        Members of an ensemble inside the perceptron, with shared weights; costs as many passes of the decoder.
    label_groups : int
        Groups by way of which very many labels hear each other; 0 is none, and exact.
    checkpointing : bool
        Less memory for a third more time.
    scaling : {"standard", "robust", "quantile", "none"}
        How numeric columns are scaled.
    clamp : bool
        Take numbers beyond those of training as the nearest one of training, as trees do.
    spatial_units : int
        Nearness to so many places as further columns, for rows that are sites; 0 for none.
    spatial_columns : pair of str or int
        The coordinates: names of columns, or positions, from the end when negative.
    landmarks : int
        Resemblance to so many training rows as further columns, for small tables of many numbers; 0 for none.
    max_tokens : int
        Most active columns, words or atoms of a row that are read.
    min_word_count, max_words : int
        Training texts that must hold a word for it to be known, and the largest vocabulary.
    bonds : bool
        Whether molecules are read as graphs of atoms and bonds, which needs RDKit.
    latent_neighbours : int
        Training rows nearest in the latent space whose labels are mixed into a prediction, by a share that validation
        rows choose, none where they are of no use. The model then holds latent places and labels of training rows; 0
        for none.
    ridge_start : bool
        Whether the logits of a row start from what a linear ridge regression says of it, instead of from prevalences:
        the network then learns what the ridge leaves over. Training rows start from ridges that were not shown them.
        For tables and bags of words, of at most 20,000 rows or columns.
    encoder_dropout, decoder_dropout, attention_dropout : float
        Shares of units dropped while training.
    dropout_sharing : {"labels", "none"}
        Whether the labels of a row share one dropout mask.
    norm : {"post", "pre"}
        Where layer norm stands.
    pooling : {"mean", "moment"}
        How the Gaussians of several tokens become one.
    share_layers : bool
        One set of weights for all rounds.
    direct_path : bool
        A linear read-out of the latent beside the messages.
    initial_log_variance : float
        Where the latent log-variances start.
    graph : "complete", "cooccurrence", array or sparse matrix of bool of shape (n_labels, n_labels)
        Which labels may talk to each other; ``"cooccurrence"`` keeps edges between labels seen together. With very many
        labels a sparse matrix spares the memory of all pairs.
    min_count : int
        Rows in which two labels must occur together to keep their edge.
    bce_weight, intermediate_weight, ranking_weight, kl_weight : float
        Weights of the four loss terms.
    ranking_scale : float
        Steepness of the ranking loss.
    max_epochs, batch_size : int
        Longest training and rows per step.
    learning_rate, weight_decay : float
        Peak step size and decoupled decay.
    optimizer : {"adam", "adamw"}
        Update rule.
    schedule : {"constant", "cosine"}
        Course of the step size after ``warmup_epochs``.
    warmup_epochs, clip_norm, average_decay : float
        Warm-up, largest gradient norm, and decay of the weight average that is kept.
    direct_epochs : int
        Epochs at the start in which the direct path learns alone, many times as fast; then labels pass messages.
    selection_metric : str
        Metric on validation rows that chooses the epoch.
    patience : int
        Epochs without improvement before training stops; 0 never stops early.
    validation_fraction : float
        Share of the rows held out to choose epoch and thresholds, unless ``fit`` is given some. Tables too
        small to spare 10 rows train on all of them and keep the last epoch.
    n_draws : int
        Latent draws averaged for a prediction, the same for all rows; 0 decodes the latent mean.
    rank : int or None
        Common causes that tie the labels of a draw of :meth:`sample`; None takes as many as labels, at most 32.
    covariance_epochs : int
        Most epochs in which, after training, these causes are learned while all probabilities stay as they are.
    n_likelihood_draws : int
        Draws that estimate the likelihood of whole communities meanwhile.
    n_conditional_draws : int
        Draws behind :meth:`sample` with known labels, shared by all rows.
    precision : {"float32", "float64"}
        Number type.
    random_state : int, RandomState or None
        The same seed gives the same model on the same machine.
    device : str
        ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"mps"``.
    n_threads : int or None
        CPU threads. One by default: more gain little, starve each other while others use the machine
        (docs/performance.md), and change the last bits of a model. None leaves torch's setting, usually all cores.
    progress : {"auto", "bar", "lines", "silent"}
        How training is shown.
    state_file : path or None
        Written after each epoch; a fit that was killed resumes from it.

    Attributes
    ----------
    network_ : HotVAE
        The trained network.
    history_ : History
        One record per epoch.
    start_ : RidgeLogits or None
        The ridge that logits of rows start from; None without ``ridge_start``.
    memory_ : NeighbourMemory or None
        Places and labels of training rows, where latent neighbours have a share in predictions.
    thresholds_ : dict
        Cut-off of each metric, chosen on validation rows.
    label_names_ : ndarray of str
        Names of the labels.
    classes_ : ndarray
        Label indices, or the classes of a 1-D y.
    scaler_ : FeatureScaler, ActiveColumns, TextTokens, BagOfWords, AtomTokens or ElementPresence
        What makes features ready for the network, learned from training rows.
    graph_ : ndarray or None
        The label graph; None is the complete one. Of a sparse one the neighbours of each label
        (:func:`~hotvae.graph.neighbour_lists`).

    Examples
    --------
    >>> import numpy as np
    >>> from hotvae import HotVAEClassifier
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> Y = np.column_stack([X[:, 0] > 0, X[:, 0] < 0.5])
    >>> model = HotVAEClassifier(max_epochs=30, encoder_widths=(32,), random_state=0).fit(X, Y)
    >>> model.predict([[-0.8], [0.8]])
    array([[0, 1],
           [1, 0]])
    """

    title = "HOT-VAE"
    takes = "tables, sparse 0/1 tables, texts, molecules, your own; labels may have gaps"
    cost = "minutes; grows with rows, and with the square of the number of labels beyond a few hundred"
    citation = "Zhao et al. (2021), HOT-VAE: Learning High-Order Label Correlation for Multi-Label Classification, AAAI"

    def __init__(
        self,
        *,
        dim: int = NetConfig.dim,
        latent_dim: int = NetConfig.latent_dim,
        n_layers: int = NetConfig.n_layers,
        n_heads: int = NetConfig.n_heads,
        feedforward_dim: int = NetConfig.feedforward_dim,
        encoder: str | nn.Module = "mlp",
        label_encoder: LabelEncoderKind = NetConfig.label_encoder,
        conditional: bool = NetConfig.conditional,
        known_dropout: float = NetConfig.known_dropout,
        known_epochs: int = 20,
        encoder_widths: tuple[int, ...] = NetConfig.encoder_widths,
        label_encoder_widths: tuple[int, ...] = NetConfig.label_encoder_widths,
        encoder_layers: int = NetConfig.encoder_layers,
        numeric_embedding_dim: int = NetConfig.numeric_embedding_dim,
        numeric_frequencies: int = NetConfig.numeric_frequencies,
        frequency_scale: float = NetConfig.frequency_scale,
        n_members: int = NetConfig.n_members,
        label_groups: int = NetConfig.label_groups,
        checkpointing: bool = NetConfig.checkpointing,
        scaling: Scaling = FrontConfig.scaling,
        clamp: bool = FrontConfig.clamp,
        spatial_units: int = FrontConfig.spatial_units,
        spatial_columns: tuple[str | int, ...] = FrontConfig.spatial_columns,
        landmarks: int = FrontConfig.landmarks,
        max_tokens: int = FrontConfig.max_tokens,
        min_word_count: int = FrontConfig.min_word_count,
        max_words: int = FrontConfig.max_words,
        bonds: bool = FrontConfig.bonds,
        latent_neighbours: int = 0,
        ridge_start: bool = FrontConfig.ridge_start,
        encoder_dropout: float = NetConfig.encoder_dropout,
        decoder_dropout: float = NetConfig.decoder_dropout,
        attention_dropout: float = NetConfig.attention_dropout,
        dropout_sharing: DropoutSharing = NetConfig.dropout_sharing,
        norm: Norm = NetConfig.norm,
        pooling: Pooling = NetConfig.pooling,
        share_layers: bool = NetConfig.share_layers,
        direct_path: bool = NetConfig.direct_path,
        initial_log_variance: float = NetConfig.initial_log_variance,
        graph: Literal["complete", "cooccurrence"] | NDArray[np.bool_] | sparse.sparray | sparse.spmatrix = "complete",
        min_count: int = 1,
        bce_weight: float = LossWeights.bce,
        intermediate_weight: float = LossWeights.intermediate,
        ranking_weight: float = LossWeights.ranking,
        kl_weight: float = LossWeights.kl,
        ranking_scale: float = LossWeights.ranking_scale,
        max_epochs: int = TrainConfig.max_epochs,
        batch_size: int = TrainConfig.batch_size,
        learning_rate: float = TrainConfig.learning_rate,
        weight_decay: float = TrainConfig.weight_decay,
        optimizer: Optimizer = TrainConfig.optimizer,
        schedule: Schedule = TrainConfig.schedule,
        warmup_epochs: float = TrainConfig.warmup_epochs,
        direct_epochs: int = TrainConfig.direct_epochs,
        clip_norm: float = TrainConfig.clip_norm,
        average_decay: float = TrainConfig.average_decay,
        selection_metric: str = TrainConfig.selection_metric,
        patience: int = TrainConfig.patience,
        validation_fraction: float = 0.2,
        n_draws: int = 0,
        rank: int | None = None,
        covariance_epochs: int = 20,
        n_likelihood_draws: int = 32,
        n_conditional_draws: int = 512,
        precision: Precision = TrainConfig.precision,
        random_state: int | np.random.RandomState | None = None,
        device: str = "auto",
        n_threads: int | None = 1,
        progress: Style = "silent",
        state_file: str | os.PathLike[str] | None = None,
    ) -> None:
        self.dim = dim
        self.latent_dim = latent_dim
        self.n_layers = n_layers
        self.n_heads = n_heads
        self.feedforward_dim = feedforward_dim
        self.encoder = encoder
        self.label_encoder = label_encoder
        self.conditional = conditional
        self.known_dropout = known_dropout
        self.known_epochs = known_epochs
        self.encoder_widths = encoder_widths
        self.label_encoder_widths = label_encoder_widths
        self.encoder_layers = encoder_layers
        self.numeric_embedding_dim = numeric_embedding_dim
        self.numeric_frequencies = numeric_frequencies
        self.frequency_scale = frequency_scale
        self.n_members = n_members
        self.label_groups = label_groups
        self.checkpointing = checkpointing
        self.scaling = scaling
        self.clamp = clamp
        self.spatial_units = spatial_units
        self.spatial_columns = spatial_columns
        self.landmarks = landmarks
        self.max_tokens = max_tokens
        self.min_word_count = min_word_count
        self.max_words = max_words
        self.bonds = bonds
        self.latent_neighbours = latent_neighbours
        self.ridge_start = ridge_start
        self.encoder_dropout = encoder_dropout
        self.decoder_dropout = decoder_dropout
        self.attention_dropout = attention_dropout
        self.dropout_sharing = dropout_sharing
        self.norm = norm
        self.pooling = pooling
        self.share_layers = share_layers
        self.direct_path = direct_path
        self.initial_log_variance = initial_log_variance
        self.graph = graph
        self.min_count = min_count
        self.bce_weight = bce_weight
        self.intermediate_weight = intermediate_weight
        self.ranking_weight = ranking_weight
        self.kl_weight = kl_weight
        self.ranking_scale = ranking_scale
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.optimizer = optimizer
        self.schedule = schedule
        self.warmup_epochs = warmup_epochs
        self.direct_epochs = direct_epochs
        self.clip_norm = clip_norm
        self.average_decay = average_decay
        self.selection_metric = selection_metric
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.n_draws = n_draws
        self.rank = rank
        self.covariance_epochs = covariance_epochs
        self.n_likelihood_draws = n_likelihood_draws
        self.n_conditional_draws = n_conditional_draws
        self.precision = precision
        self.random_state = random_state
        self.device = device
        self.n_threads = n_threads
        self.progress = progress
        self.state_file = state_file

    @classmethod
    def from_recipe(cls, recipe: Literal["best", "paper"], **parameters: Any) -> HotVAEClassifier:
        """Make a classifier by a named recipe.

        Parameters
        ----------
        recipe : {"best", "paper"}
            ``"best"`` has the defaults; ``"paper"`` what the paper trains with, as far as it says so
            (:data:`~hotvae.config.RECIPES`).
        **parameters
            Whatever else is to differ from the defaults; these win over the recipe.

        Returns
        -------
        HotVAEClassifier

        Examples
        --------
        >>> HotVAEClassifier.from_recipe("paper", n_layers=3, random_state=0).direct_path
        False
        """
        return cls(**(find_recipe(recipe) | parameters))

    def _loss_weights(self) -> LossWeights:
        return LossWeights(
            bce=self.bce_weight,
            intermediate=self.intermediate_weight,
            ranking=self.ranking_weight,
            kl=self.kl_weight,
            ranking_scale=self.ranking_scale,
        )

    def _label_graph(self, labels: NDArray[Any]) -> NDArray[np.bool_] | NDArray[np.int64] | None:
        if isinstance(self.graph, str):
            if self.graph == "complete":
                return None
            if self.graph == "cooccurrence":
                return cooccurrence_graph(labels, min_count=self.min_count)
            raise ConfigError(
                f"graph must be 'complete', 'cooccurrence' or an array; got {self.graph!r}. See hotvae.graph."
            )
        if sparse.issparse(self.graph):
            return neighbour_lists(self.graph, self.n_labels_)
        return check_graph(np.asarray(self.graph), self.n_labels_)

    def _build(self, n_features: int, n_labels: int, graph: Tensor | None, initial_logits: Tensor | None) -> nn.Module:
        return HotVAE(
            n_features,
            n_labels,
            self._config(NetConfig),
            graph,
            feature_encoder=self._feature_encoder(n_features),
            initial_logits=initial_logits,
            direct_epochs=self.direct_epochs,
            rank=self._rank(n_labels),
            starts=self.ridge_start,
        )

    def _objective(self, network: nn.Module) -> tuple[Terms, Mapping[str, float]]:
        weights = self._loss_weights()
        named = {name: float(getattr(weights, name)) for name in ("bce", "intermediate", "ranking", "kl")}
        n_members = cast(HotVAE, network).n_members

        def terms(features: Tensor, labels: Tensor) -> Mapping[str, Tensor]:
            output, told = network(features, labels), labels.repeat_interleave(n_members, dim=0)
            each = hotvae_terms(output, told, weights, self.pooling)
            return {name: member_mean(term, n_members) for name, term in each.items()}

        return terms, named

    def _learn(self, train: LabelledRows, validation: LabelledRows | None, seed: int) -> None:
        n_epochs = require_count("known_epochs", self.known_epochs, least=0)
        super()._learn(train, validation, seed)
        # One label tells of no other, and classes (1-D y) cannot be given.
        if self.conditional and n_epochs and validation is not None and self.n_labels_ > 1 and self.target_ == "labels":
            # Too few observed validation labels leave none to ask for: then there is no such loss in any epoch.
            told = [record.get("validation_told_log_loss", math.nan) for record in self.history_.records]
            if told[self.history_.best_epoch - 1] > (1 + _TOLD_TOLERANCE) * min(told):
                self._learn_known(train, validation, seed, n_epochs)

    def _learn_known(self, train: LabelledRows, validation: LabelledRows, seed: int, n_epochs: int) -> None:
        """Train the label branch on, alone."""
        network, dtype = cast(HotVAE, self.network_), self._dtype()
        branch = LabelBranch(network)
        config = replace(
            self._config(TrainConfig),
            max_epochs=n_epochs,
            direct_epochs=0,
            patience=_KNOWN_PATIENCE,
            selection_metric="log_loss",
        )

        def terms(features: Tensor, labels: Tensor) -> Mapping[str, Tensor]:
            return {"bce": member_mean(bce_loss(*branch(features, labels)), network.n_members)}

        with torch_threads(self.n_threads):
            fit_network(
                branch,
                terms,
                {"bce": 1.0},
                Rows(train.features, train.labels.astype(dtype)),
                Rows(validation.features, validation.labels.astype(dtype)),
                config,
                seed=seed,
                device=choose_device(self.device),
                progress=make_progress(self.progress, f"{self.title}, known labels"),
            )
        network.to("cpu").requires_grad_(True)

    def _probs_given(self, features: Any, known: NDArray[np.float32]) -> NDArray[np.floating[Any]]:
        if not self.conditional:
            raise ConfigError("given must go with a model trained for it; got conditional=False. Train it with True.")
        network = cast(HotVAE, self.network_)
        with torch_threads(self.n_threads):
            told = predict_network(network.predict_given, features, known.astype(self._dtype()))
            if self.memory_ is None:
                return told
            # What known labels change about the odds, they change about those that neighbours have a share in.
            untold = predict_network(network.predict, features)
        odds = [_logit(probs) for probs in (self._probs(features), told, untold)]
        moved: NDArray[np.floating[Any]] = expit(odds[0] + odds[1] - odds[2]).astype(told.dtype)
        return moved

    def _scores(self, features: Any) -> NDArray[Any]:
        return probit_of(self._probs(features))

    def _told_scores(self, features: Any, known: NDArray[np.float32], scores: NDArray[Any]) -> NDArray[Any]:
        return probit_of(self._given_some(features, known))

    def _told_latent(self, head: ProbitHead, found: Posterior, causes: Tensor, scores: Tensor) -> Tensor:
        # The label branch says where the known labels move each probability; of the causes only what is still
        # uncertain about them counts.
        centre = torch.einsum("kb,kbr->br", found.weights, found.draws)
        apart = (found.draws - centre) @ head.factors.T
        spread = (1 + torch.einsum("kb,kbl->bl", found.weights, apart.square())).sqrt()
        return scores * spread + (causes - centre) @ head.factors.T

    def _predictor(self) -> Any:
        if self.n_draws == 0:
            return self.network_.predict
        n_tokens = getattr(self.network_.feature_encoder, "n_tokens", None)
        if n_tokens is None:
            raise ConfigError(
                "n_draws must be 0 for an encoder without n_tokens: its rows cannot share their noise. Set n_draws=0."
            )
        generator = torch.Generator().manual_seed(self.noise_seed_)
        shape = (self.n_draws, 1, n_tokens, self._config(NetConfig).latent_width)
        noise = torch.randn(shape, generator=generator, dtype=getattr(torch, self.precision))
        network = cast(HotVAE, self.network_)
        return lambda features: network.predict(features, noise)


def _logit(probs: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Log odds; certain probabilities are a millionth short of it."""
    odds: NDArray[np.float64] = logit(np.clip(probs.astype(np.float64), 1e-6, 1 - 1e-6))
    return odds
