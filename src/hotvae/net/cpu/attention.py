"""Attention among the labels of a few rows on a CPU, forward and backward, in scratch memory that stays in the cache.

On a processor the time of attention goes into its exponentials and into moving scores through memory as much as into
its products. Hence here: scores are made tile by tile, exponentiated in place without first looking for their
maximum, and used at once; nothing label-by-label is kept, the backward pass makes the scores again.

Leaving out the maximum is safe as long as the sums of exponentials stay in range. They are looked at afterwards, and
where one left it the row is computed again with the maximum taken off, so that no score, however large, overflows.
No row ever changes the bits of another.

Everything is laid out heads first. A *pair* is one head of one row: tensors are (pair, label, head_dim).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool
from torch import Tensor

# Scores of a tile: with their slopes they leave room for the rest in the 2 MB second-level cache of a core.
TILE_SCORES = 2**17

# Queries of a tile at least, however many labels there are: a narrower product is no longer a fast one.
TILE_QUERIES = 64

# Sums of exponentials in this range lose nothing, even where gradients are divided by them in 32 bits.
LEAST_TOTAL, MOST_TOTAL = 1e-20, 1e25

# Where a maximum was taken off, the scores of senders that are not listened to may still be large: exp(85) is finite.
HIGHEST_SCORE = 85.0

Thing = TypeVar("Thing")
Place = tuple[slice, slice]


class Workspace:
    """Scratch memory by name: the same for every block of rows, so that it stays in the cache.

    New memory would have to be fetched from the system and into the cache before it is written.

    Parameters
    ----------
    like : Tensor
        Whose number type the scratch tensors have.
    """

    def __init__(self, like: Tensor) -> None:
        self._like = like.new_empty(0)
        self._memory: dict[str, Tensor] = {}
        self._made: dict[tuple[object, ...], Any] = {}

    def __call__(self, name: str, *shape: int) -> Tensor:
        """Hand out the tensor of this name and shape; its numbers are whatever the last user left."""
        return self.once((name, *shape), lambda: self._view(name, *shape))

    def once(self, key: tuple[object, ...], make: Callable[[], Thing]) -> Thing:
        """Make a thing once and hand out the same one ever after."""
        found: Thing | None = self._made.get(key)
        if found is None:
            found = make()
            self._made[key] = found
        return found

    def _view(self, name: str, *shape: int) -> Tensor:
        size = torch.Size(shape).numel()
        memory = self._memory.get(name)
        if memory is None or len(memory) < size:
            if memory is not None:
                # Views of the smaller memory would keep it alive.
                self._made.clear()
            memory = self._memory[name] = self._like.new_empty(size)
        return memory[:size].view(shape)


class WorkspacePool:
    """Workspaces nobody uses at the moment; a decoder keeps them from one pass to the next.

    A pass takes one out for as long as it computes, so that passes in different threads never share one. There are as
    many as there ever were passes at the same time, and they go with the decoder. They are not copied with it.
    """

    def __init__(self) -> None:
        self._free: dict[object, list[Workspace]] = {}

    def __reduce__(self) -> tuple[type["WorkspacePool"], tuple[()]]:
        return WorkspacePool, ()

    def borrow(self, like: Tensor) -> Workspace:
        """Take a workspace out, or make one."""
        try:
            return self._free[self._kind(like)].pop()
        except (KeyError, IndexError):
            return Workspace(like)

    def put_back(self, space: Workspace, like: Tensor) -> None:
        """Put a workspace back."""
        self._free.setdefault(self._kind(like), []).append(space)

    def _kind(self, like: Tensor) -> object:
        # Tensors made in inference mode may not be written outside of it.
        return like.dtype, torch.is_inference_mode_enabled()


class Pairs(NamedTuple):
    """Shape of a block of rows, heads first.

    Attributes
    ----------
    n_pairs, n_labels, width : int
        Heads times rows, labels, width of a head.
    """

    n_pairs: int
    n_labels: int
    width: int

    def parts(self, space: Workspace) -> Tensor:
        """Hand out queries, keys and values; whoever attends has filled them."""
        return space("parts", 3, *self)

    def mixed(self, space: Workspace) -> Tensor:
        """Hand out values weighted by exponentials and added up, not yet divided by ``totals``."""
        return space("mixed", *self)

    def totals(self, space: Workspace) -> Tensor:
        """Hand out the sums of exponentials."""
        return space("totals", *self[:2], 1)

    def to_mixed(self, space: Workspace) -> Tensor:
        """Hand out the gradient of the answers, divided by ``totals``."""
        return space("to_mixed", *self)

    def pull(self, space: Workspace) -> Tensor:
        """Hand out the sums of ``to_mixed`` times the answers over the width of a head."""
        return space("pull", *self[:2], 1)

    def to_parts(self, space: Workspace) -> Tensor:
        """Hand out the gradient of queries, keys and values."""
        return space("to_parts", 3, *self)


@runtime_checkable
class LabelAttention(Protocol):
    """Attention among labels, forward and backward."""

    def forward(self, space: Workspace, pairs: Pairs) -> Tensor | None:
        """Fill ``mixed`` and ``totals``; return what was taken off the scores, or None if they were fine as they are.

        The queries are taken as they are: whoever filled them has divided them by the root of their width.
        """

    def backward(self, space: Workspace, pairs: Pairs, shift: Tensor | None) -> None:
        """Fill ``to_parts`` from ``to_mixed`` and ``pull``; ``shift`` is what :meth:`forward` returned."""


@dataclass(frozen=True, eq=False)
class DenseAttention:
    """Every label listens to every other, or to those a mask allows.

    Parameters
    ----------
    graph : Tensor of bool of shape (label, label), optional
        Who listens to whom; None for everybody.
    """

    graph: Bool[Tensor, "label sender"] | None = None

    def forward(self, space: Workspace, pairs: Pairs) -> Tensor | None:
        """Attend; see :class:`LabelAttention`."""
        self._collect(space, pairs, None)
        shift = needed_shift(pairs.totals(space), lambda: self._highest(space, pairs))
        if shift is not None:
            self._collect(space, pairs, shift)
        return shift

    def backward(self, space: Workspace, pairs: Pairs, shift: Tensor | None) -> None:
        """Take gradients through the attention; see :class:`LabelAttention`."""
        slopes = space.once(("slope tiles", *pairs), lambda: _slope_tiles(space, pairs))
        for tile, slope in zip(_tiles(space, pairs), slopes, strict=True):
            torch.bmm(tile.query, tile.key_across, out=tile.scores)
            self._exponentiate(space, tile, shift)
            torch.bmm(slope.to_mixed, slope.value_across, out=slope.slopes)
            slope.slopes.sub_(slope.pull).mul_(tile.scores)
            torch.bmm(slope.slopes, slope.key, out=slope.to_query)
            if tile.place[1].start == 0:
                torch.bmm(slope.scores_across, slope.to_mixed, out=slope.to_value)
                torch.bmm(slope.slopes_across, tile.query, out=slope.to_key)
            else:
                torch.baddbmm(slope.to_value, slope.scores_across, slope.to_mixed, out=slope.to_value)
                torch.baddbmm(slope.to_key, slope.slopes_across, tile.query, out=slope.to_key)

    def _collect(self, space: Workspace, pairs: Pairs, shift: Tensor | None) -> None:
        for tile in _tiles(space, pairs):
            torch.bmm(tile.query, tile.key_across, out=tile.scores)
            self._exponentiate(space, tile, shift)
            torch.sum(tile.scores, -1, keepdim=True, out=tile.totals)
            torch.bmm(tile.scores, tile.value, out=tile.mixed)

    def _exponentiate(self, space: Workspace, tile: "_Tile", shift: Tensor | None) -> None:
        if shift is not None:
            tile.scores.sub_(shift[tile.place]).clamp_(max=HIGHEST_SCORE)
        tile.scores.exp_()
        if self.graph is not None:
            graph = self.graph
            listened = space.once(("listened", self), lambda: graph.to(tile.scores.dtype))
            tile.scores.mul_(listened[tile.place[1]])

    def _highest(self, space: Workspace, pairs: Pairs) -> Tensor:
        highest = torch.empty_like(pairs.totals(space))
        for tile in _tiles(space, pairs):
            torch.bmm(tile.query, tile.key_across, out=tile.scores)
            if self.graph is not None:
                tile.scores.masked_fill_(~self.graph[tile.place[1]], -torch.inf)
            highest[tile.place] = tile.scores.amax(-1, keepdim=True)
        return highest


def needed_shift(totals: Tensor, highest: Callable[[], Tensor]) -> Tensor | None:
    """Find the pairs whose sums of exponentials are out of range, and what to take off their scores."""
    least, most = torch.aminmax(totals)
    if least.item() > LEAST_TOTAL and most.item() < MOST_TOTAL:
        return None
    fine = ((totals > LEAST_TOTAL) & (totals < MOST_TOTAL)).flatten(1).all(1)
    # Other pairs keep their scores to the bit.
    return highest().masked_fill_(fine[:, None, None], 0.0)


# Views of the scratch tensors are made once per shape: making one takes as long as a small product.


class _Tile(NamedTuple):
    place: Place
    query: Tensor
    key_across: Tensor
    value: Tensor
    scores: Tensor
    totals: Tensor
    mixed: Tensor


class _SlopeTile(NamedTuple):
    key: Tensor
    value_across: Tensor
    scores_across: Tensor
    slopes: Tensor
    slopes_across: Tensor
    to_mixed: Tensor
    pull: Tensor
    to_query: Tensor
    to_key: Tensor
    to_value: Tensor


def _places(pairs: Pairs) -> list[Place]:
    """Cut the scores into tiles of several pairs or, where there are very many labels, of some queries of one pair."""
    n_scores, most = pairs.n_labels**2, _most_scores(pairs.n_labels)
    together = max(1, most // n_scores)
    queries = pairs.n_labels if n_scores <= most else most // pairs.n_labels
    return [
        (slice(pair, min(pair + together, pairs.n_pairs)), slice(label, min(label + queries, pairs.n_labels)))
        for pair in range(0, pairs.n_pairs, together)
        for label in range(0, pairs.n_labels, queries)
    ]


def _scratch(space: Workspace, name: str, place: Place, n_labels: int) -> Tensor:
    shape = [part.stop - part.start for part in place]
    return space(name, _most_scores(n_labels))[: shape[0] * shape[1] * n_labels].view(*shape, n_labels)


def _most_scores(n_labels: int) -> int:
    # Every thread has a core, and a cache, of its own.
    return max(TILE_SCORES * torch.get_num_threads(), TILE_QUERIES * n_labels)


def _tiles(space: Workspace, pairs: Pairs) -> list[_Tile]:
    return space.once(("tiles", *pairs), lambda: _make_tiles(space, pairs))


def _make_tiles(space: Workspace, pairs: Pairs) -> list[_Tile]:
    query, key, value = pairs.parts(space)
    totals, mixed = pairs.totals(space), pairs.mixed(space)
    return [
        _Tile(
            place,
            query[place],
            key[place[0]].transpose(1, 2),
            value[place[0]],
            _scratch(space, "scores", place, pairs.n_labels),
            totals[place],
            mixed[place],
        )
        for place in _places(pairs)
    ]


def _slope_tiles(space: Workspace, pairs: Pairs) -> list[_SlopeTile]:
    _, key, value = pairs.parts(space)
    to_query, to_key, to_value = pairs.to_parts(space)
    to_mixed, pull = pairs.to_mixed(space), pairs.pull(space)
    made = []
    for tile in _tiles(space, pairs):
        ours = tile.place[0]
        slopes = _scratch(space, "slopes", tile.place, pairs.n_labels)
        made.append(
            _SlopeTile(
                key[ours],
                value[ours].transpose(1, 2),
                tile.scores.transpose(1, 2),
                slopes,
                slopes.transpose(1, 2),
                to_mixed[tile.place],
                pull[tile.place],
                to_query[tile.place],
                to_key[ours],
                to_value[ours],
            )
        )
    return made
