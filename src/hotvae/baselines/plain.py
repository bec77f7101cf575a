"""The plain network: HOT-VAE's encoder without its label decoder, the row that every table needs."""

from dataclasses import dataclass

from torch import Tensor, nn

from hotvae.baselines.neighbours import RememberingNetwork
from hotvae.config import NetConfig
from hotvae.net.model import PlainNet


@dataclass(kw_only=True, eq=False, repr=False)
class PlainNetClassifier(RememberingNetwork):
    """The same feature encoder with a plain read-out: no label branch, no messages between labels.

    Stands beside :class:`HotVAENetwork` in every comparison, so that the decoder has to earn its cost.

    Parameters
    ----------
    encoder, encoder_widths, encoder_dropout, encoder_layers
        As in :class:`~hotvae.HotVAENetwork`.
    dim, latent_dim : int
        Width between encoder and read-out: ``latent_dim``, or ``dim`` where that is 0.
    base, latent_neighbours, training, features, validation_fraction, random_state
        As in :class:`~hotvae.baselines.neighbours.RememberingNetwork`.

    Examples
    --------
    >>> import numpy as np
    >>> from hotvae import PlainNetClassifier, Training
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> Y = np.column_stack([X[:, 0] > 0, X[:, 0] < 0.5])
    >>> model = PlainNetClassifier(encoder_widths=(32,), training=Training(max_epochs=30), random_state=0)
    >>> model.fit(X, Y).predict([[0.8]])
    array([[1, 0]])
    """

    title = "plain network"
    takes = "tables, sparse 0/1 tables, texts, molecules, your own; labels may have gaps"
    cost = "seconds; a tenth of HOT-VAE"
    citation = "HOT-VAE's feature encoder with a linear read-out: the row that shows what the decoder adds"

    encoder: str | nn.Module = "mlp"
    encoder_widths: tuple[int, ...] = NetConfig.encoder_widths
    encoder_dropout: float = NetConfig.encoder_dropout
    encoder_layers: int = NetConfig.encoder_layers
    dim: int = NetConfig.dim
    latent_dim: int = NetConfig.latent_dim

    def _build(self, n_features: int, n_labels: int, graph: Tensor | None, initial_logits: Tensor | None) -> nn.Module:
        encoder = self._feature_encoder(n_features)
        return PlainNet(n_features, n_labels, self._config(NetConfig), encoder, initial_logits, self._has_base())
