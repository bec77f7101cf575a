"""The joint law of labels on any base: what labels say of each other, whole label sets and their likelihood.

A base gives logits of each label; the law adds messages between labels (:mod:`hotvae.net.messages`). One thing then
answers three questions: the logits of labels given others (:meth:`JointLaw.logits`), the likelihood of a whole label
set by the chain rule in a few random orders (:meth:`JointLaw.log_likelihood`), and draws that follow the same chain
(:meth:`JointLaw.sample`).

The messages are learned on *out-of-fold* base logits: a base is hardly ever surprised by rows that it was fitted to.
How many rounds, through what labels speak and how much weights decay are chosen by the joint likelihood of held-out
rows, and where no messages improve it there are none: labels are independent then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn import functional

from hotvae.config import MessagesConfig
from hotvae.errors import DataError
from hotvae.features import Rows
from hotvae.graph import check_graph
from hotvae.net.messages import Chorus, Messages
from hotvae.training.loop import fit_network
from hotvae.training.prediction import owned_randomness, predict_network, torch_threads
from hotvae.training.settings import Training

Floats = NDArray[np.floating[Any]]

# What earlier rounds count for beside the last one, as the intermediate losses of the paper.
_WEIGHTS = {"bce": 1.0, "intermediate": 0.2}
# Shares of known labels at which the likelihood of held-out rows is taken, spread evenly from none to all.
_N_SHARES = 16
# Numbers (draws x rows x labels) that are worked on at once, about; small enough for the cache.
_CELLS = 400_000
# Draws of a row that go through the labels in one order.
_DRAWS_PER_ORDER = 25
# Of what messages gain, the most that drawing labels in blocks may lose.
_BLOCK_LOSS = 0.02
_N_BLOCK_ROWS = 256
# Rows that bear more weights and need fewer passes.
_MANY_ROWS = 4000
# Cells (rows × labels) of a table that all ways to speak are tried on from beginning to end.
_SMALL_TABLE = 500_000
# Share of the epochs that candidates of a large table race for.
_RACE = 0.2
# On the first of two folds a candidate may be so much worse than the best one; beyond it has never come back.
_HOPEFUL = 1.02
# Times that messages are learned on all rows, each from another start; and cells beyond which once must do.
_N_VOICES, _LARGE_TABLE = 3, 5_000_000
# Labels up to which every pair may have an edge of its own.
_MOST_PAIRS = 2000


@dataclass(frozen=True)
class LawCandidate:
    """One way in which labels may speak, and how it is trained.

    Attributes
    ----------
    config : MessagesConfig
        Through what labels speak.
    learning_rate, weight_decay : float
        Of AdamW.
    """

    config: MessagesConfig
    learning_rate: float = 1e-2
    weight_decay: float = 0.3

    def described(self) -> dict[str, Any]:
        """Return all settings by name."""
        return asdict(self.config) | {"learning_rate": self.learning_rate, "weight_decay": self.weight_decay}


@dataclass(frozen=True)
class JointLaw:
    """What labels say of each other, on top of base logits.

    Attributes
    ----------
    messages : Messages, Chorus of them, or None
        None where no messages improved the joint likelihood of held-out rows: labels are independent.
    n_labels : int
        Labels.
    scores : list of dict
        One entry per candidate and stage: its settings, ``share_of_epochs``, ``n_folds``, ``nll`` (negative
        joint log likelihood of held-out rows, per label), ``independent`` (the same without messages), ``chosen``.
    n_blocks : int
        Blocks of labels that :meth:`sample` draws one after the other; labels of a block do not hear each other.
    block_loss : dict of int to float
        Nats a row that the likelihood of held-out rows loses when labels are drawn in so many blocks.
    n_threads : int or None
        Threads of torch.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> first = random.random((600, 1)) < 0.5
    >>> labels = np.hstack([first, first ^ (random.random((600, 1)) < 0.1)])  # the second is mostly as the first
    >>> base, features = np.zeros((600, 2)), np.zeros((600, 1))
    >>> law = JointLaw.learn(base, features, labels, held=np.arange(150))
    >>> given = np.array([[1.0, np.nan], [0.0, np.nan], [np.nan, np.nan]])
    >>> law.logits(base[:3], features[:3], given)[:, 1].round(0)
    array([ 2., -2.,  0.])
    """

    messages: Messages | Chorus | None
    n_labels: int
    scores: list[dict[str, Any]] = field(default_factory=list)
    n_blocks: int = 1
    block_loss: dict[int, float] = field(default_factory=dict)
    n_threads: int | None = 1

    @classmethod
    def learn(
        cls,
        base_logits: ArrayLike,
        features: ArrayLike,
        labels: ArrayLike,
        *,
        held: ArrayLike,
        graph: ArrayLike | None = None,
        candidates: Sequence[LawCandidate] | None = None,
        training: Training | None = None,
        seed: int = 0,
        effort: float = 1.0,
    ) -> Self:
        """Learn what labels say of each other.

        Parameters
        ----------
        base_logits : array of shape (n_rows, n_labels)
            Logits of each row by a base that was *not* shown it.
        features : array of shape (n_rows, n_features)
            What may change edges; columns of about unit scale.
        labels : array of shape (n_rows, n_labels)
            0, 1, or NaN for not observed.
        held : array of int, or of shape (n_rows,) with one fold number per row
            Rows that choose (as ``np.flatnonzero``), or the fold of every row; few rows use several folds in turn.
            Folds of neighbouring places keep the choice honest.
        graph : array of bool, shape (n_labels, n_labels), optional
            Label graph with self-edges; where it lacks edges, labels speak along its edges alone.
        candidates : sequence of LawCandidate, optional
            What to try; by default :func:`default_candidates`.
        training : Training, optional
            Device and threads; epochs, steps and patience are this step's own.
        seed : int
            Decides everything random.
        effort : float
            Epochs: 1 is the usual number, less is cheaper. From a half on, what was chosen is learned three times on
            all rows and averaged, unless the table is very large.

        Returns
        -------
        JointLaw
            Without messages where none improve the joint likelihood of held-out rows.
        """
        rows = _rows(base_logits, features, labels)
        n_rows, n_labels = rows.observed().shape
        edges = None if graph is None else check_graph(graph, n_labels)
        if edges is not None and edges.all():
            edges = None
        folds = _folds(held, n_rows)
        search = _Search(rows, edges, training or Training(), seed, effort)
        tried = tuple(candidates) if candidates is not None else default_candidates(n_rows, n_labels, edges)
        threads = search.training.n_threads
        found = search.choose(tried, folds)
        if found is None:
            return cls(None, n_labels, search.scores, n_threads=threads)
        n_voices = _N_VOICES if effort >= 0.5 and rows.observed().size <= _LARGE_TABLE else 1
        voices = [search.fit(found, rows, start=start) for start in range(n_voices)]
        messages = voices[0] if n_voices == 1 else Chorus(voices)
        law = cls(messages, n_labels, search.scores, n_labels, n_threads=threads)
        held_rows = rows[folds[0][:_N_BLOCK_ROWS]]
        block_loss = law._losses_of_blocks(held_rows, seed)
        gain = float(np.mean(_independent_nll(held_rows)) - np.mean(law._expected_nll(held_rows, seed)))
        enough = [n for n, loss in sorted(block_loss.items()) if loss <= _BLOCK_LOSS * gain]
        return replace(law, n_blocks=min(enough, default=n_labels), block_loss=block_loss)

    def logits(self, base_logits: ArrayLike, features: ArrayLike, given: ArrayLike) -> Floats:
        """Logits of all labels given some.

        Parameters
        ----------
        base_logits, features : array of shape (n_rows, n_labels), (n_rows, n_features)
            Of the rows.
        given : array of shape (n_rows, n_labels)
            1 and 0 for given labels, NaN for all others.

        Returns
        -------
        ndarray of shape (n_rows, n_labels)
            In the number type of the base logits, which they are exactly where nothing is given. Of a given label they
            say nothing: it is known.
        """
        base = np.asarray(base_logits)
        if self.messages is None:
            return base.copy()
        rows = _rows(base, features, given)
        found = self._predict(_last_round(self.messages), rows).astype(base.dtype)
        return np.where(np.isnan(rows.observed()).all(axis=1, keepdims=True), base, found)

    def log_likelihood(
        self, base_logits: ArrayLike, features: ArrayLike, labels: ArrayLike, n_orders: int = 4, seed: int = 0
    ) -> NDArray[np.float64]:
        """Log likelihood of the label set of each row: the chain rule, over a few random orders of the labels.

        Parameters
        ----------
        base_logits, features, labels : arrays with a row each
            Labels that are NaN are left out.
        n_orders : int
            Orders, the same for all rows; the likelihood is the mean over them.
        seed : int
            Decides the orders.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        by_order = self.log_likelihood_by_order(base_logits, features, labels, n_orders, seed)
        likelihood: NDArray[np.float64] = np.logaddexp.reduce(by_order, axis=1) - math.log(n_orders)
        return likelihood

    def log_likelihood_by_order(
        self, base_logits: ArrayLike, features: ArrayLike, labels: ArrayLike, n_orders: int = 4, seed: int = 0
    ) -> NDArray[np.float64]:
        """Log likelihood in each order, of shape (n_rows, n_orders): how far two orders disagree is how coherent it is.

        Parameters are those of :meth:`log_likelihood`.
        """
        rows = _rows(base_logits, features, labels)
        random = np.random.default_rng(seed)
        orders = [random.permutation(rows.observed().shape[1]) for _ in range(n_orders)]
        return self._chain(rows, [np.split(order, len(order)) for order in orders])

    def sample(
        self,
        base_logits: ArrayLike,
        features: ArrayLike,
        n_draws: int,
        random: np.random.Generator,
        given: ArrayLike | None = None,
        n_blocks: int | None = None,
        *,
        same_dice: bool = False,
    ) -> NDArray[np.int8]:
        """Draw whole label sets, label after label or block after block, each given those before it.

        Parameters
        ----------
        base_logits, features : array of shape (n_rows, n_labels), (n_rows, n_features)
            Of the rows.
        n_draws : int
            Draws of each row.
        random : Generator
            Decides orders and draws.
        given : array of shape (n_rows, n_labels), optional
            Labels that every draw has; NaN elsewhere.
        n_blocks : int, optional
            Blocks of labels; by default as many as lose little (``block_loss``). The number of labels is exact.
        same_dice : bool
            Give every row the same orders and dice: draws of a row then do not depend on the other rows.

        Returns
        -------
        ndarray of int8 of shape (n_draws, n_rows, n_labels)
        """
        base = np.asarray(base_logits)
        rows = _rows(base, features, np.full(base.shape, np.nan) if given is None else given)
        n_rows, n_labels = base.shape
        drawn = np.empty((n_draws, n_rows, n_labels), dtype=np.int8)
        if self.messages is None:
            shape = (n_draws, 1, n_labels) if same_dice else drawn.shape
            present = random.random(shape, dtype=np.float32) < _sigmoid(rows.base_logits)
            drawn[:] = np.where(np.isnan(rows.observed()), present, rows.observed())
            return drawn
        n_blocks = min(n_labels, self.n_blocks if n_blocks is None else n_blocks)
        n_parts = math.ceil(n_draws / _DRAWS_PER_ORDER)
        step = max(1, _CELLS // (n_labels * math.ceil(n_draws / n_parts)))
        with torch_threads(self.n_threads), torch.inference_mode():
            for start in range(0, n_rows, step):
                some = rows[np.arange(start, min(start + step, n_rows))]
                dice = deepcopy(random) if same_dice else random
                for part in np.array_split(np.arange(n_draws), n_parts):
                    blocks = np.array_split(dice.permutation(n_labels), n_blocks)
                    drawn[part, start : start + step] = _draw(self.messages, some, len(part), blocks, dice, same_dice)
        return drawn

    def again(
        self,
        base_logits: ArrayLike,
        features: ArrayLike,
        labels: ArrayLike,
        graph: ArrayLike | None,
        training: Training,
        seed: int,
        effort: float,
    ) -> Self:
        """Train messages of the same kind on other rows, such as resampled ones; nothing is chosen anew.

        Parameters are those of :meth:`learn`.
        """
        if self.messages is None:
            return self
        chosen = next(score for score in reversed(self.scores) if score.get("chosen"))
        candidate = LawCandidate(self.messages.config, chosen["learning_rate"], chosen["weight_decay"])
        rows = _rows(base_logits, features, labels)
        edges = None if graph is None else check_graph(graph, self.n_labels)
        search = _Search(rows, None if edges is None or edges.all() else edges, training, seed, effort)
        return replace(self, messages=search.fit(candidate, rows))

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights by name; none where there are no messages."""
        return {} if self.messages is None else dict(self.messages.state_dict())

    def notes(self) -> dict[str, Any]:
        """Return what :meth:`from_tensors` needs beside the weights; JSON-able."""
        shape = None if self.messages is None else asdict(self.messages.config)
        losses = [[n, loss] for n, loss in self.block_loss.items()]
        return {
            "config": shape,
            "n_labels": self.n_labels,
            "scores": self.scores,
            "n_blocks": self.n_blocks,
            "block_loss": losses,
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], notes: Mapping[str, Any], n_threads: int | None = 1) -> Self:
        """Take back what :meth:`tensors` and :meth:`notes` returned."""
        messages = None
        if notes["config"] is not None:
            kind = Chorus if any(name.startswith("voices.") for name in tensors) else Messages
            messages = kind.from_state(MessagesConfig(**notes["config"]), int(notes["n_labels"]), tensors)
        losses = {int(n): float(loss) for n, loss in notes["block_loss"]}
        return cls(messages, int(notes["n_labels"]), list(notes["scores"]), int(notes["n_blocks"]), losses, n_threads)

    # --- the chain rule ---------------------------------------------------------------------------------

    def _chain(self, rows: Rows, orders: Sequence[Sequence[NDArray[np.intp]]]) -> NDArray[np.float64]:
        """Log likelihood of rows along each sequence of blocks of labels; labels of a block do not hear each other."""
        if self.messages is None:
            return np.repeat(-_independent_nll(rows)[:, None], len(orders), axis=1)
        messages = self.messages

        def of_batch(features: Tensor, labels: Tensor, base: Tensor) -> Tensor:
            sums = base.new_zeros(len(base), len(orders), dtype=torch.float64)
            for index, blocks in enumerate(orders):
                given = torch.full_like(labels, torch.nan)
                for block in map(torch.from_numpy, blocks):
                    logits, target = messages.of_labels(base, features, given, block), labels[:, block]
                    sums[:, index] -= _cell_nll(logits, target).double().sum(-1)
                    given[:, block] = target
            return sums

        return self._predict(of_batch, rows).astype(np.float64)

    def _expected_nll(self, rows: Rows, seed: int) -> NDArray[np.float64]:
        """Negative joint log likelihood of rows, its mean over orders of the labels.

        A random order knows 0, 1, ... labels when it comes to the next, which may be any of the others. So the mean
        over orders is that over numbers of known labels, and over all that are left: a few of these numbers suffice.
        """
        if self.messages is None:
            return _independent_nll(rows)
        random = np.random.default_rng([seed, 3])
        labels = rows.observed()
        observed = ~np.isnan(labels)
        n_observed = observed.sum(axis=1, keepdims=True)
        total = np.zeros(len(rows))
        for share in range(_N_SHARES):
            n_known = np.floor((share + random.random(n_observed.shape)) / _N_SHARES * n_observed)
            place = np.where(observed, random.random(labels.shape), 2.0).argsort(axis=1).argsort(axis=1)
            known = place < n_known
            given = np.where(known, labels, np.float32(np.nan))
            target = np.where(known, np.float32(np.nan), labels)
            logits = self._predict(_last_round(self.messages), replace(rows, labels=given))
            cells = _cell_nll(torch.from_numpy(logits), torch.from_numpy(target)).numpy().astype(np.float64)
            total += cells.sum(axis=1) * (n_observed / np.maximum(n_observed - n_known, 1))[:, 0]
        return total / _N_SHARES

    def _losses_of_blocks(self, rows: Rows, seed: int) -> dict[int, float]:
        """Nats a row that drawing in so many blocks loses, in one order."""
        n_labels = rows.observed().shape[1]
        order = np.random.default_rng([seed, 4]).permutation(n_labels)
        numbers = [n for n in (8, 12, 16, 24, 32, 48) if n < n_labels]
        likelihood = self._chain(rows, [np.array_split(order, n) for n in [*numbers, n_labels]]).mean(axis=0)
        return {n: float(likelihood[-1] - value) for n, value in zip([*numbers, n_labels], likelihood, strict=True)}

    def _predict(self, predict: Callable[..., Tensor], rows: Rows) -> Floats:
        with torch_threads(self.n_threads):
            return predict_network(predict, rows.features, rows.observed(), rows.base_logits)


# --- choosing ------------------------------------------------------------------------------------------------


def default_candidates(n_rows: int, n_labels: int, graph: NDArray[np.bool_] | None = None) -> tuple[LawCandidate, ...]:
    """Ways to speak that are worth a try, the likeliest first.

    Parameters
    ----------
    n_rows, n_labels : int
        Rows and labels: many rows bear more weights, many labels no edge for every pair.
    graph : ndarray of bool, optional
        A label graph that lacks edges: labels speak along its edges alone.

    Returns
    -------
    tuple of LawCandidate
    """
    if graph is not None:
        along = MessagesConfig(edges="shared", n_causes=0)
        both = [replace(along, edges=kind, n_rounds=n) for n in (2, 1, 3) for kind in ("shared", "signed")]
        return tuple(LawCandidate(config, weight_decay=0.1) for config in both)
    pairs = MessagesConfig(edges="shared")
    causes = replace(pairs, edges="none")
    tried = [LawCandidate(pairs), LawCandidate(replace(pairs, n_rounds=1)), LawCandidate(causes)]
    if n_rows < _MANY_ROWS:
        few = replace(causes, n_causes=16, gated=False)
        tried += [
            LawCandidate(pairs, weight_decay=1.0),
            LawCandidate(replace(pairs, edges="signed")),
            LawCandidate(replace(pairs, n_rounds=3)),
            LawCandidate(few, weight_decay=3.0),
        ]
    else:
        tried += [LawCandidate(replace(pairs, hub_width=64)), LawCandidate(replace(pairs, n_rounds=3))]
    if n_labels > _MOST_PAIRS:
        wide = replace(causes, n_causes=64)
        tried = [LawCandidate(wide), LawCandidate(replace(wide, n_rounds=1)), LawCandidate(replace(wide, hub_width=64))]
    return tuple(tried)


@dataclass
class _Search:
    """Training of candidates on some rows, and what became of them."""

    rows: Rows
    graph: NDArray[np.bool_] | None
    training: Training
    seed: int
    effort: float
    scores: list[dict[str, Any]] = field(default_factory=list)

    def fit(self, candidate: LawCandidate, train: Rows, share: float = 1.0, start: int = 0) -> Messages:
        """Train one candidate for a share of its epochs, from a start that is the same whatever was tried before.

        No epoch is chosen: messages that go the whole way of their schedule under decay do better on new rows than
        those of the best epoch for a few held-out ones.
        """
        n_labels, n_features = train.observed().shape[1], train.features.shape[1]
        seed = self.seed + start
        with owned_randomness(seed, 0):
            edges = None if self.graph is None else torch.from_numpy(self.graph)
            messages = Messages(n_labels, n_features, candidate.config, edges)
        training = self.training.but(
            max_epochs=max(3, round(share * self.effort * (40 if len(self.rows) < _MANY_ROWS else 25))),
            batch_size=(32, 64, 128, 256)[int(np.searchsorted((500, _MANY_ROWS, 10_000), len(train), side="right"))],
            learning_rate=candidate.learning_rate,
            weight_decay=candidate.weight_decay,
            selection_metric="log_loss",
            precision="float32",
        )
        fit_network(messages, _WEIGHTS, train, None, training, seed=seed, title="joint law")
        return messages

    def choose(self, candidates: Sequence[LawCandidate], folds: list[NDArray[np.intp]]) -> LawCandidate | None:
        """Return the best candidate; None where labels are best left independent.

        A small table costs so little that all run the whole way on a fold, and on a second one those that are near the
        best. Of a large one all run a short race on one fold; only where that leaves in doubt whether labels say
        anything at all, the best goes the whole way.
        """
        is_small = self.rows.observed().size < _SMALL_TABLE
        for share in (1.0,) if is_small or len(candidates) < 3 else (_RACE, 1.0):
            tried = [self._try(candidate, folds[:1], share) for candidate in candidates]
            if is_small and len(folds) > 1:
                far = _HOPEFUL * min(one.mean() for one in tried)
                tried = [
                    one if one.mean() > far else self._try(candidate, folds[1:2], share, one)
                    for candidate, one in zip(candidates, tried, strict=True)
                ]
            n_folds = max(one.n_folds for one in tried)
            best = min((one for one in tried if one.n_folds == n_folds), key=_Tried.mean)
            self.scores += [one.record() for one in tried]
            # A gain of less than two standard errors may be luck, and messages must never do harm.
            if best.gain.mean() > 2 * best.gain.std() / math.sqrt(len(best.gain)):
                self.scores[tried.index(best) - len(tried)]["chosen"] = True
                return best.candidate
            candidates = [best.candidate]
        return None

    def _try(
        self, candidate: LawCandidate, folds: list[NDArray[np.intp]], share: float, before: _Tried | None = None
    ) -> _Tried:
        """Train on all but each fold, and measure every held-out row; ``before`` is what was tried already."""
        found = [] if before is None else [before]
        for fold in folds:
            held, rest = self.rows[fold], np.setdiff1d(np.arange(len(self.rows)), fold)
            law = JointLaw(self.fit(candidate, self.rows[rest], share), held.observed().shape[1])
            nll, independent = law._expected_nll(held, self.seed), _independent_nll(held)
            found.append(_Tried(candidate, share, 1, nll, independent, int((~np.isnan(held.observed())).sum())))
        return _Tried(
            candidate,
            share,
            sum(one.n_folds for one in found),
            np.concatenate([one.nll for one in found]),
            np.concatenate([one.independent for one in found]),
            sum(one.n_observed for one in found),
        )


@dataclass(frozen=True, eq=False)
class _Tried:
    """What held-out rows say of a candidate: joint negative log likelihoods, also if labels were independent."""

    candidate: LawCandidate
    share: float
    n_folds: int
    nll: NDArray[np.float64]
    independent: NDArray[np.float64]
    n_observed: int

    @property
    def gain(self) -> NDArray[np.float64]:
        """What messages gain, row by row."""
        return self.independent - self.nll

    def mean(self) -> float:
        """Mean over rows."""
        return float(self.nll.mean())

    def record(self) -> dict[str, Any]:
        """Return what is told of it."""
        per_label = {"nll": self.nll.sum() / self.n_observed, "independent": self.independent.sum() / self.n_observed}
        return {
            **self.candidate.described(),
            "share_of_epochs": self.share,
            "n_folds": self.n_folds,
            "chosen": False,
            **{name: float(value) for name, value in per_label.items()},
        }


# --- small pieces --------------------------------------------------------------------------------------------


def _rows(base_logits: ArrayLike, features: ArrayLike, labels: ArrayLike) -> Rows:
    """Rows in float32, once the shapes agree."""
    base, table, known = (np.asarray(part, dtype=np.float32) for part in (base_logits, features, labels))
    if base.ndim != 2 or known.shape != base.shape or table.ndim != 2 or len(table) != len(base):
        raise DataError(
            "base logits, features and labels must be tables with a row each, and a column for each label; got shapes "
            f"{base.shape}, {table.shape} and {known.shape}. Pass the same rows to all three."
        )
    if not np.isfinite(base).all() or not np.isfinite(table).all():
        raise DataError("base logits and features must be finite; got NaN or infinity. Fill or clip them first.")
    return Rows(table, known, base)


def _folds(held: ArrayLike, n_rows: int) -> list[NDArray[np.intp]]:
    """Rows of each fold: of one alone where ``held`` lists rows, else of every fold number."""
    numbers = np.asarray(held)
    if numbers.ndim != 1 or not 0 < len(numbers) <= n_rows or numbers.dtype.kind not in "iu":
        raise DataError(
            f"held must be the held-out rows, or a fold number for each of {n_rows} rows; got shape {numbers.shape} "
            f"of {numbers.dtype}. Use np.flatnonzero for a mask."
        )
    if len(numbers) < n_rows:
        return [np.unique(numbers).astype(np.intp)]
    folds = [np.flatnonzero(numbers == number) for number in np.unique(numbers)]
    if len(folds) < 2:
        raise DataError(f"held must leave rows to learn from; got one fold of all {n_rows} rows. Give two or more.")
    return folds


def _last_round(messages: Messages | Chorus) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    def predict(features: Tensor, given: Tensor, base: Tensor) -> Tensor:
        logits: Tensor = messages(base, features, given)[-1]
        return logits

    return predict


def _draw(
    messages: Messages | Chorus,
    rows: Rows,
    n_draws: int,
    blocks: list[NDArray[np.intp]],
    random: np.random.Generator,
    same_dice: bool = False,
) -> NDArray[np.int8]:
    """Draws of some rows, all through the same blocks of labels."""
    features, fixed, base = (torch.from_numpy(np.asarray(p)) for p in (rows.features, rows.labels, rows.base_logits))
    state = fixed.repeat(n_draws, 1, 1)
    for block in map(torch.from_numpy, blocks):
        free = torch.isnan(fixed[:, block])
        if not same_dice and not bool(free.any()):
            continue
        probs = messages.of_labels(base, features, state, block).sigmoid()
        shape = (n_draws, 1, len(block)) if same_dice else probs.shape
        dice = torch.from_numpy(random.random(shape, dtype=np.float32))
        state[..., block] = torch.where(free, (dice < probs).to(state.dtype), state[..., block])
    drawn: NDArray[np.int8] = state.to(torch.int8).numpy()
    return drawn


def _cell_nll(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy of every cell; 0 where the label was not observed."""
    cells = functional.binary_cross_entropy_with_logits(logits, labels.nan_to_num(0.0), reduction="none")
    return torch.where(torch.isnan(labels), 0.0, cells)


def _independent_nll(rows: Rows) -> NDArray[np.float64]:
    base, labels = (torch.from_numpy(np.asarray(part)).double() for part in (rows.base_logits, rows.labels))
    nll: NDArray[np.float64] = _cell_nll(base, labels).sum(-1).numpy()
    return nll


def _sigmoid(logits: Any) -> Floats:
    probs: Floats = torch.from_numpy(np.asarray(logits)).sigmoid().numpy()
    return probs
