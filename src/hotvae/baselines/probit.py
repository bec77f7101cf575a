"""The multivariate probit as a joint species distribution model: a mean and a covariance of species."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.special import ndtri

from hotvae.baselines.communities import N_LIKELIHOOD_DRAWS, ProbitNetwork
from hotvae.baselines.multivariate_probit import ProbitHead
from hotvae.config import NetConfig, require_choice
from hotvae.features import Rows
from hotvae.net.perceptron import perceptron, set_bias
from hotvae.types import Features, Labels, Logits, PerSample, Probs


class ProbitNet(nn.Module):
    """Joint species distribution model: scores from the features, a covariance from common causes.

    Parameters
    ----------
    score_net : nn.Module
        Maps features to scores; its last linear map starts at the prevalences.
    n_labels, rank : int
        As in :class:`ProbitHead`.
    initial_logits : Tensor of shape (label,), optional
        Logits of the prevalences.
    """

    def __init__(
        self, score_net: nn.Module, n_labels: int, rank: int, initial_logits: Float[Tensor, " label"] | None = None
    ) -> None:
        super().__init__()
        self.score_net = score_net
        self.head = ProbitHead(n_labels, rank)
        if initial_logits is not None:
            set_bias(score_net, ndtri(initial_logits.sigmoid()))

    def loss(self, features: Features, labels: Labels, base_logits: None = None) -> dict[str, PerSample]:
        """Negative log-likelihood of the labels of each row together."""
        return {"nll": self.head.nll(self.scores(features), labels, N_LIKELIHOOD_DRAWS)}

    def scores(self, features: Features, base_logits: None = None) -> Logits:
        """Scores of a batch."""
        answer: Logits = self.score_net(features)
        return answer

    def predict(self, features: Features, base_logits: None = None) -> Probs:
        """Marginal probabilities of a batch."""
        answer: Probs = self.head(self.scores(features))
        return answer


@dataclass(kw_only=True, eq=False, repr=False)
class ProbitJSDM(ProbitNetwork):
    """Joint species distribution model: a mean for each species from the features, a covariance between species.

    The model of sjSDM: a multivariate probit fitted by Monte Carlo. It predicts species alone, species given others
    (``predict_proba(X, given=...)``) and draws whole communities (:meth:`sample`). :meth:`transform` gives the scores
    of the species, what the features alone say on the probit scale.

    Parameters
    ----------
    mean : {"linear", "mlp"}
        How features act on the scores of species: linearly, or through a perceptron.
    rank : int or None
        Common causes in the covariance; None takes as many as labels, at most 32.
    encoder_widths, encoder_dropout
        Hidden widths of the perceptron and the share of units it drops while training.
    covariance_epochs : int
        Epochs in which, after training, the covariance learns on while the marginals stay as they are: the epoch that
        is kept is chosen by marginals, often before the covariance has settled. 0 leaves it as it is.
    training, features, validation_fraction, random_state
        As in :class:`~hotvae.HotVAENetwork`.

    Examples
    --------
    >>> import numpy as np
    >>> from hotvae import Training
    >>> from hotvae.baselines.probit import ProbitJSDM
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> Y = np.column_stack([X[:, 0] > 0, X[:, 0] < 0.5])
    >>> model = ProbitJSDM(training=Training(learning_rate=0.05), random_state=0).fit(X, Y)
    >>> model.predict([[-0.8]])
    array([[0, 1]])
    >>> model.predict_proba([[-0.8]], given=[[1, np.nan]])[0, 0].item()
    1.0
    """

    title = "probit JSDM"
    training_defaults: ClassVar[Mapping[str, Any]] = {"learning_rate": 0.01}
    citation: ClassVar[str] = (
        "Pichler & Hartig (2021). A new joint species distribution model for faster and more accurate inference of "
        "species associations from big community data. Methods in Ecology and Evolution."
    )
    takes: ClassVar[str] = "tables, dense or sparse; labels may have gaps"
    cost: ClassVar[str] = "seconds to minutes; grows with rows times labels times draws"
    loss_terms: ClassVar[tuple[str, ...]] = ("nll",)

    mean: Literal["linear", "mlp"] = "linear"
    encoder_widths: tuple[int, ...] = (128, 128)
    encoder_dropout: float = 0.2

    def _build(self, n_features: int, n_labels: int, graph: Tensor | None, initial_logits: Tensor | None) -> nn.Module:
        config = self._config(NetConfig)
        linear = require_choice("mean", self.mean, ("linear", "mlp")) == "linear"
        widths = () if linear else config.encoder_widths
        scores = perceptron(n_features, widths, n_labels, config.encoder_dropout)
        return ProbitNet(scores, n_labels, self._rank(n_labels), initial_logits)

    def _placed(self, rows: Rows) -> NDArray[np.floating[Any]]:
        """Return the scores of the labels: what the features alone say, on the probit scale."""
        return self._scores(rows)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns of :meth:`transform`."""
        check_is_fitted(self)
        return np.array([f"latent_{name}" for name in self.label_names_], dtype=object)
