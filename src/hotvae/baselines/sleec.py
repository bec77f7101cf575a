r"""SLEEC: sparse local embeddings for extreme classification.

Rows are clustered. Within a cluster, rows get embeddings Z whose inner products approach those of their label vectors,
for pairs of label neighbours only (the set Ω): singular value projection minimises

.. math:: \lVert P_\Omega(Y Y^\top - M) \rVert_F^2, \quad M = Z Z^\top \text{ of low rank.}

A linear map V learns the embeddings from the features, with weight λ on squared weights and μ on the absolute
embeddings (ADMM). A new row goes to its nearest cluster, is embedded, and takes the mean labels of its nearest
neighbours there. Several such learners, which differ in clusters and ties, are averaged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve, eigh
from sklearn.cluster import MiniBatchKMeans
from torch import Tensor

from hotvae.baselines.base import Held, TableClassifier
from hotvae.baselines.nearest import nearest_rows, neighbour_sums, smallest
from hotvae.baselines.tensor_io import array, pack, unpack
from hotvae.config import require_count, require_number
from hotvae.estimators.per_label import (
    dense,
    label_rates,
    middle,
    require_candidates,
    squared_lengths,
    watch,
)
from hotvae.metrics import log_loss, precision_at_k

# Rows of an inner-product matrix that are held at a time.
_ROWS_AT_ONCE = 512
# Directions beyond the wanted ones, which make the power iteration accurate.
_SPARE_DIRECTIONS = 10


class Cluster(NamedTuple):
    """The training rows of one cluster and their embeddings."""

    rows: NDArray[np.intp]  # numbers of the training rows
    regressor: NDArray[np.float64]  # (n_features, dim): from features to embeddings (V)
    embeddings: NDArray[np.float64]  # (n_rows, dim): the training rows, embedded by the regressor


class Learner(NamedTuple):
    """Clusters and their centres."""

    centres: NDArray[np.float64]  # (n_clusters, n_features)
    clusters: list[Cluster]


def label_neighbours(labels: Any, n_neighbours: int, random: np.random.Generator) -> sparse.csr_array:
    """Mark pairs of rows that are close by the inner product of their labels.

    Parameters
    ----------
    labels : csr_array of shape (n_samples, n_labels)
        0 and 1.
    n_neighbours : int
        Rows that each row chooses, itself among them if no other row shares more labels; ties are broken at random.
    random : Generator
        Breaks ties.

    Returns
    -------
    csr_array of shape (n_samples, n_samples)
        1 where one of the two rows chose the other, and on the diagonal.
    """
    n_rows = labels.shape[0]
    chosen = np.empty((n_rows, n_neighbours), dtype=np.intp)
    for start in range(0, n_rows, _ROWS_AT_ONCE):
        shared = dense(labels[start : start + _ROWS_AT_ONCE] @ labels.T).astype(np.float64)
        shared += random.uniform(0, 0.5, size=shared.shape)
        shared[np.arange(len(shared)), start + np.arange(len(shared))] += 0.5
        chosen[start : start + _ROWS_AT_ONCE] = smallest(-shared, n_neighbours)
    starts = np.arange(0, chosen.size + 1, n_neighbours)
    one_way = sparse.csr_array((np.ones(chosen.size), chosen.ravel(), starts), shape=(n_rows, n_rows))
    both: Any = (one_way + one_way.T + sparse.eye_array(n_rows)).tocsr()
    both.data[:] = 1.0
    both.sort_indices()
    return sparse.csr_array(both)


def masked_products(left: Any, right: Any, mask: sparse.csr_array) -> NDArray[np.float64]:
    """Inner products of the rows of two tables, for the marked pairs only.

    Parameters
    ----------
    left, right : ndarray or sparse array of shape (n_samples, n_columns)
        Tables.
    mask : csr_array of shape (n_samples, n_samples)
        The pairs.

    Returns
    -------
    ndarray of shape (n_pairs,)
        In the order of ``mask.data``.
    """
    values = np.empty(mask.nnz)
    bounds = mask.indptr
    for start in range(0, mask.shape[0], _ROWS_AT_ONCE):
        stop = min(start + _ROWS_AT_ONCE, mask.shape[0])
        products = dense(left[start:stop] @ right.T)
        own = np.repeat(np.arange(stop - start), np.diff(bounds[start : stop + 1]))
        values[bounds[start] : bounds[stop]] = products[own, mask.indices[bounds[start] : bounds[stop]]]
    return values


def embed_labels(
    labels: Any, mask: sparse.csr_array, dim: int, n_iterations: int, random: np.random.Generator
) -> NDArray[np.float64]:
    """Find embeddings whose inner products approach those of the label vectors, for the marked pairs.

    Singular value projection: a step down the gradient at the marked pairs, then back to the nearest positive
    semi-definite matrix of rank ``dim``, whose eigenvectors are found by power iteration from those of the last step.

    Parameters
    ----------
    labels : csr_array of shape (n_samples, n_labels)
        0 and 1.
    mask : csr_array of shape (n_samples, n_samples)
        The pairs; symmetric.
    dim : int
        Columns of the embeddings.
    n_iterations : int
        Steps.
    random : Generator
        Starts the power iteration.

    Returns
    -------
    ndarray of shape (n_samples, dim)
    """
    n_rows = mask.shape[0]
    wanted = masked_products(labels, labels, mask)
    basis = np.linalg.qr(random.normal(size=(n_rows, min(n_rows, dim + _SPARE_DIRECTIONS))))[0]
    vectors, values = np.zeros((n_rows, dim)), np.zeros(dim)
    for iteration in range(n_iterations):
        gap = wanted - masked_products(vectors * values, vectors, mask)
        step = sparse.csr_array((gap, mask.indices, mask.indptr), shape=mask.shape)
        for _ in range(3 if iteration == 0 else 1):
            basis = np.linalg.qr(_times(step, vectors, values, basis))[0]
        found, directions = eigh(basis.T @ _times(step, vectors, values, basis))
        order = np.argsort(-np.abs(found))
        top = np.argsort(-found)[:dim]
        values, vectors = np.maximum(found[top], 0.0), basis @ directions[:, top]
        basis = basis @ directions[:, order]
    embeddings: NDArray[np.float64] = vectors * np.sqrt(values)
    return embeddings


def _times(step: Any, vectors: NDArray[Any], values: NDArray[Any], basis: NDArray[Any]) -> NDArray[np.float64]:
    """Multiply by a matrix that is never formed: sparse step plus low-rank vectors · values · vectors'."""
    product: NDArray[np.float64] = step @ basis + (vectors * values) @ (vectors.T @ basis)
    return product


def regress(
    features: Any, embeddings: NDArray[np.float64], penalty: float, sparsity: float, n_iterations: int = 30
) -> NDArray[np.float64]:
    r"""Learn the map V from features to embeddings.

    .. math:: \min_V \tfrac12 \lVert Z - X V \rVert_F^2 + \tfrac{λ}{2} \lVert V \rVert_F^2 + μ \lVert X V \rVert_1

    by the alternating direction method of multipliers; with μ = 0 in closed form.

    Parameters
    ----------
    features : ndarray or csr_matrix of shape (n_samples, n_features)
        X; a sparse table is never made dense.
    embeddings : ndarray of shape (n_samples, dim)
        Z.
    penalty : float
        λ, in units of the mean squared length of a row.
    sparsity : float
        μ.
    n_iterations : int
        Rounds of the alternation when μ is not 0.

    Returns
    -------
    ndarray of shape (n_features, dim)
    """
    n_rows, n_features = features.shape
    unit = float(squared_lengths(features).mean()) or 1.0
    by_rows = n_rows < n_features
    gram = dense(features @ features.T if by_rows else features.T @ features)
    weight = 1.0 if sparsity > 0 else 0.0  # of the constraint that splits X V off, ρ
    system = (1 + weight) * gram
    np.fill_diagonal(system, system.diagonal() + penalty * unit)
    factor = cho_factor(system, overwrite_a=True, check_finite=False)

    def ridge(target: NDArray[np.float64]) -> NDArray[np.float64]:
        if by_rows:
            return np.asarray(features.T @ cho_solve(factor, target, check_finite=False))
        return np.asarray(cho_solve(factor, features.T @ target, check_finite=False))

    if weight == 0:
        return ridge(embeddings)
    split, multiplier = np.zeros_like(embeddings), np.zeros_like(embeddings)
    for _ in range(n_iterations):
        regressor = ridge(embeddings + weight * (split - multiplier))
        reached = features @ regressor
        split = reached + multiplier
        split = np.sign(split) * np.maximum(np.abs(split) - sparsity / weight, 0)
        multiplier = multiplier + reached - split
    return regressor


@dataclass(kw_only=True, eq=False, repr=False)
class SLEEC(TableClassifier):
    """Sparse local embeddings for extreme classification (Bhatia et al. 2015).

    Parameters
    ----------
    n_learners : int
        Learners that are averaged; they differ in clusters and ties.
    rows_per_cluster : int
        Clusters are as many as it takes to have about so many rows in each.
    dim : int
        Columns of the embeddings; at most as many as labels.
    n_graph_neighbours : int
        Label neighbours of a row whose inner products the embeddings should keep.
    n_iterations : int
        Steps of the singular value projection.
    penalties : sequence of float
        Candidates for the penalty on the squared weights of the regressor (λ), in units of the mean squared length of
        a row; validation rows choose by precision at 1, the paper's own measure, with the first learner. Without them
        the middle one is taken.
    sparsity : float
        Weight of the absolute embeddings (μ); 0 makes the regressor a ridge.
    n_neighbours : int
        Neighbours in the embedding whose labels are averaged.
    smoothing : float
        Added neighbours that have every label at the mean rate of all labels: what no neighbour has is rare, not
        impossible. The ranking of labels is that of the plain mean, which 0 gives.
    unit_length, validation_fraction, random_state, n_threads, progress
        As in :class:`~hotvae.baselines.base.TableClassifier`.

    Attributes
    ----------
    penalty_ : float
        The penalty chosen.
    learners_ : list of Learner
        Clusters with their regressors and embedded rows.

    Examples
    --------
    >>> import numpy as np
    >>> from hotvae.baselines.sleec import SLEEC
    >>> X = np.linspace(-1, 1, 100)[:, None]
    >>> Y = np.column_stack([X[:, 0] > 0, X[:, 0] <= 0])
    >>> SLEEC(n_learners=1, n_neighbours=5, random_state=0).fit(X, Y).predict([[0.9], [-0.9]])
    array([[1, 0],
           [0, 1]])
    """

    title = "SLEEC"
    citation: ClassVar[str] = (
        "Bhatia, Jain, Kar, Varma & Jain (2015). Sparse local embeddings for extreme multi-label classification. NIPS."
    )
    takes: ClassVar[str] = "tables, dense or sparse; every label observed"
    cost: ClassVar[str] = "a minute or more; grows with rows times rows_per_cluster and with learners"
    accepts_missing_labels: ClassVar[bool] = False

    n_learners: int = 3
    rows_per_cluster: int = 6000
    dim: int = 100
    n_graph_neighbours: int = 100
    n_iterations: int = 12
    penalties: Sequence[float] = (1.0, 2.0, 4.0, 10.0)
    sparsity: float = 0.0
    n_neighbours: int = 25
    smoothing: float = 1.0
    unit_length: bool | None = None

    def _fit(self, rows: Any, labels: NDArray[Any], held: Held | None, seed: int) -> None:
        for name in ("rows_per_cluster", "dim", "n_graph_neighbours", "n_iterations", "n_neighbours"):
            require_count(name, getattr(self, name))
        require_number("smoothing", self.smoothing)
        sparsity = require_number("sparsity", self.sparsity)
        penalties = require_candidates("penalties", self.penalties)
        self.rate_ = float(label_rates(labels).mean())
        self._row_labels = sparse.csr_matrix(labels.astype(np.float64))
        self.penalty_ = middle(penalties) if held is None else float("nan")
        judged, truth = (rows, labels) if held is None else held
        self.learners_: list[Learner] = []

        def learn(number: int) -> float:
            random = np.random.default_rng([seed, number])
            centres, members = self._clusters(rows, random)
            places = [self._embed(own, random) for own in members]

            def with_penalty(penalty: float) -> Learner:
                clusters = []
                for own, embeddings in zip(members, places, strict=True):
                    regressor = regress(rows[own], embeddings, penalty, sparsity)
                    clusters.append(Cluster(own, regressor, np.asarray(rows[own] @ regressor)))
                return Learner(centres, clusters)

            if number == 0 and held is not None:
                self.penalty_ = self._choose(penalties, with_penalty, held)
            self.learners_.append(with_penalty(self.penalty_))
            return log_loss(truth, self._predict(judged))

        watch(learn, range(require_count("n_learners", self.n_learners)), self.progress, self.title, "learner")

    def _choose(self, penalties: list[float], with_penalty: Callable[[float], Learner], held: Held) -> float:
        """Return the penalty with the best precision at 1 of a single learner."""
        values = []
        for penalty in penalties:
            self.learners_ = [with_penalty(penalty)]
            values.append(precision_at_k(held[1], self._predict(held[0]), 1))
        self.learners_ = []
        return penalties[int(np.argmax(values))]

    def _clusters(self, rows: Any, random: np.random.Generator) -> tuple[NDArray[np.float64], list[NDArray[np.intp]]]:
        n_rows = rows.shape[0]
        n_clusters = max(1, round(n_rows / self.rows_per_cluster))
        if n_clusters == 1:
            return np.zeros((1, rows.shape[1])), [np.arange(n_rows)]
        found = MiniBatchKMeans(n_clusters, n_init=3, random_state=int(random.integers(2**31 - 1))).fit(rows)
        centres = np.asarray(found.cluster_centers_, dtype=np.float64)
        nearest = nearest_rows(rows, centres, 1)[:, 0]
        kept = np.unique(nearest)  # a centre that is nearest to no row would have no neighbours
        return centres[kept], [np.flatnonzero(nearest == number) for number in kept]

    def _embed(self, own: NDArray[np.intp], random: np.random.Generator) -> NDArray[np.float64]:
        labels = sparse.csr_array(self._row_labels[own])
        mask = label_neighbours(labels, min(self.n_graph_neighbours, len(own)), random)
        dim = min(self.dim, len(own), self.n_labels_)
        return embed_labels(labels, mask, dim, self.n_iterations, random)

    def _predict(self, rows: Any) -> NDArray[np.floating[Any]]:
        probs = np.zeros((rows.shape[0], self.n_labels_))
        for learner in self.learners_:
            nearest = nearest_rows(rows, learner.centres, 1)[:, 0]
            for number, cluster in enumerate(learner.clusters):
                own = np.flatnonzero(nearest == number)
                if own.size:
                    probs[own] += self._neighbour_means(rows[own] @ cluster.regressor, cluster)
        return probs / len(self.learners_)

    def _neighbour_means(self, places: NDArray[np.float64], cluster: Cluster) -> NDArray[np.float64]:
        n_neighbours = min(self.n_neighbours, len(cluster.rows))
        neighbours = cluster.rows[nearest_rows(places, cluster.embeddings, n_neighbours)]
        sums = neighbour_sums(neighbours, self._row_labels)
        return (sums + self.smoothing * self.rate_) / (n_neighbours + self.smoothing)

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        tensors = pack("row_labels", self._row_labels)
        for number, learner in enumerate(self.learners_):
            tensors |= pack(f"learner_{number}.centres", learner.centres)
            for place, cluster in enumerate(learner.clusters):
                for part, values in cluster._asdict().items():
                    tensors |= pack(f"learner_{number}.cluster_{place}.{part}", values)
        return {"penalty": self.penalty_, "rate": self.rate_, "n_learners": len(self.learners_)}, tensors

    def _restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.penalty_, self.rate_ = config["penalty"], config["rate"]
        self._row_labels = unpack("row_labels", tensors)
        n_features = self.features_.n_features_out
        self.learners_ = []
        for number in range(config["n_learners"]):
            centres = array(f"learner_{number}.centres", tensors, (None, n_features))
            clusters = []
            for place in range(len(centres)):
                name = f"learner_{number}.cluster_{place}"
                rows = array(f"{name}.rows", tensors, (None,))
                regressor = array(f"{name}.regressor", tensors, (n_features, None))
                embeddings = array(f"{name}.embeddings", tensors, (len(rows), regressor.shape[1]))
                if ((rows < 0) | (rows >= self._row_labels.shape[0])).any():
                    raise ValueError("clusters must hold training rows")
                clusters.append(Cluster(rows, regressor, embeddings))
            self.learners_.append(Learner(centres, clusters))
