"""Attention along the edges of a sparse label graph: time and memory grow with the edges, not with pairs of labels.

Every label gathers the keys and values of those it listens to. On the way back it would have to add to them what it
took, in an order nobody knows; instead every sender gathers from those who listen to it. Labels of about the same
number of neighbours are computed together, so that lists are padded little even where a few labels know everybody.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from hotvae.net.cpu.attention import HIGHEST_SCORE, DenseAttention, LabelAttention, Pairs, Workspace, needed_shift

# Places in the lists that are computed together, and numbers gathered for them at a time: used at once, in the cache.
LIST_SLOTS = 2**12
GATHERED = 2**18

# Time of an edge over that of a cell of the label-by-label product, forward and backward; measured with heads 32 wide:
# 52 on 303 labels with 8 neighbours each, 38 on 983 with 20, 36 on 3,000 with 40. A graph with more than one edge in 40
# cells is cheaper through a mask.
EDGE_COST = 40


def make_attention(
    graph: Bool[Tensor, "label sender"] | Int[Tensor, "label sender"] | None, n_labels: int
) -> LabelAttention:
    """Choose how labels listen to each other: to all, to all but through a mask, or along lists of neighbours.

    Parameters
    ----------
    graph : Tensor, optional
        Of bool, (label, label): who listens to whom. Of whole numbers, (label, most neighbours): whom each label
        listens to, filled up with -1. None for everybody.
    n_labels : int
        Number of labels.

    Returns
    -------
    LabelAttention
    """
    if graph is None:
        return DenseAttention()
    if graph.dtype != torch.bool:
        return SparseAttention(*_edges_of_lists(graph), n_labels)
    if int(graph.sum()) * EDGE_COST >= n_labels**2:
        return DenseAttention(graph)
    receiver, sender = graph.nonzero(as_tuple=True)
    return SparseAttention(receiver, sender, n_labels)


def _edges_of_lists(lists: Int[Tensor, "label sender"]) -> tuple[Tensor, Tensor]:
    receiver, place = (lists >= 0).nonzero(as_tuple=True)
    return receiver, lists[receiver, place]


class SparseAttention:
    """Every label listens to the senders of its edges.

    Parameters
    ----------
    receiver, sender : Tensor of int
        The edges, receivers in ascending order.
    n_labels : int
        Number of labels.
    """

    def __init__(self, receiver: Int[Tensor, " edge"], sender: Int[Tensor, " edge"], n_labels: int) -> None:
        # Scores are kept list after list, padding included.
        place = torch.empty_like(sender)
        self._n_slots = 0
        self._heard = []
        for lists, edges in _grouped(receiver, sender, n_labels):
            start, self._n_slots = self._n_slots, self._n_slots + edges.numel()
            slots = torch.arange(start, self._n_slots).view_as(edges)
            place[edges[lists.is_edge]] = slots[lists.is_edge]
            self._heard.append((lists, slice(start, self._n_slots)))
        order = torch.argsort(sender, stable=True)
        # The padding of those who are heard reads one more slot, which holds 0.
        self._hearing = [
            (lists, place[order[edges]].masked_fill_(~lists.is_edge, self._n_slots).flatten())
            for lists, edges in _grouped(sender[order], receiver[order], n_labels)
        ]

    def forward(self, space: Workspace, pairs: Pairs) -> Tensor | None:
        """Attend; see :class:`~hotvae.net.cpu.attention.LabelAttention`."""
        self._collect(space, pairs, None)
        shift = needed_shift(pairs.totals(space), lambda: self._highest(space, pairs))
        if shift is not None:
            self._collect(space, pairs, shift)
        return shift

    def backward(self, space: Workspace, pairs: Pairs, shift: Tensor | None) -> None:
        """Take gradients through the attention; see :class:`~hotvae.net.cpu.attention.LabelAttention`."""
        query, _, value = pairs.parts(space)
        to_query, to_key, to_value = pairs.to_parts(space)
        to_mixed, pull = pairs.to_mixed(space), pairs.pull(space)
        powers = space("powers of edges", pairs.n_pairs, self._n_slots + 1)
        slopes = space("slopes of edges", pairs.n_pairs, self._n_slots + 1)
        powers[:, -1] = slopes[:, -1] = 0.0
        for lists, place in self._heard:
            for ours in _some(pairs, lists):
                power, keys = self._powers(space, pairs, ours, lists, shift)
                answers = to_mixed[ours].index_select(1, lists.labels)
                slope = torch.bmm(_rows(answers), lists.gather(space, value[ours]).transpose(1, 2))
                slope.sub_(_rows(pull[ours].index_select(1, lists.labels))).mul_(power)
                to_query[ours].index_copy_(1, lists.labels, torch.bmm(slope, keys).view_as(answers))
                powers[ours, place], slopes[ours, place] = power.view(len(answers), -1), slope.view(len(answers), -1)
        for lists, slots in self._hearing:
            for ours in _some(pairs, lists):
                for edges, numbers, result in ((powers, to_mixed, to_value), (slopes, query, to_key)):
                    weight = edges[ours].index_select(1, slots).view(-1, 1, lists.others.shape[1])
                    sums = torch.bmm(weight, lists.gather(space, numbers[ours]))
                    result[ours].index_copy_(1, lists.labels, sums.view(-1, len(lists.labels), pairs.width))

    def _collect(self, space: Workspace, pairs: Pairs, shift: Tensor | None) -> None:
        value, mixed, totals = pairs.parts(space)[2], pairs.mixed(space), pairs.totals(space)
        for lists, _ in self._heard:
            for ours in _some(pairs, lists):
                power, _ = self._powers(space, pairs, ours, lists, shift)
                shape = (-1, len(lists.labels))
                totals[ours].index_copy_(1, lists.labels, power.sum(-1).view(*shape, 1))
                answers = torch.bmm(power, lists.gather(space, value[ours]))
                mixed[ours].index_copy_(1, lists.labels, answers.view(*shape, pairs.width))

    def _powers(
        self, space: Workspace, pairs: Pairs, ours: slice, lists: "_Lists", shift: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Exponentials of the scores, (pair * label, 1, longest), and the keys they were made with."""
        scores, keys = self._scores(space, pairs, ours, lists)
        if shift is not None:
            scores.sub_(_rows(shift[ours].index_select(1, lists.labels))).clamp_(max=HIGHEST_SCORE)
        listened = space.once(("listened", lists), lambda: lists.is_edge.to(scores.dtype))
        scores.exp_().view(-1, *listened.shape).mul_(listened)
        return scores, keys

    def _scores(self, space: Workspace, pairs: Pairs, ours: slice, lists: "_Lists") -> tuple[Tensor, Tensor]:
        query, key, _ = pairs.parts(space)
        keys = lists.gather(space, key[ours], "gathered keys")
        return torch.bmm(_rows(query[ours].index_select(1, lists.labels)), keys.transpose(1, 2)), keys

    def _highest(self, space: Workspace, pairs: Pairs) -> Tensor:
        highest = torch.empty_like(pairs.totals(space))
        for lists, _ in self._heard:
            for ours in _some(pairs, lists):
                scores = self._scores(space, pairs, ours, lists)[0].view(-1, *lists.is_edge.shape)
                scores.masked_fill_(~lists.is_edge, -torch.inf)
                highest[ours].index_copy_(1, lists.labels, scores.amax(-1, keepdim=True))
        return highest


@dataclass(frozen=True, eq=False)
class _Lists:
    """Some labels and whom each is linked with, padded to the longest of their lists."""

    labels: Tensor  # (some,)
    others: Tensor  # (some, longest), 0 where a list is over
    is_edge: Tensor  # (some, longest)

    def gather(self, space: Workspace, numbers: Tensor, name: str = "gathered") -> Tensor:
        # (pair, label, width) -> (pair * some, longest, width)
        found = space(name, len(numbers), self.others.numel(), numbers.shape[2])
        torch.index_select(numbers, 1, self.others.flatten(), out=found)
        return found.view(-1, self.others.shape[1], numbers.shape[2])


def _rows(numbers: Tensor) -> Tensor:
    # (pair, some, width) -> (pair * some, 1, width)
    return numbers.flatten(0, 1).unsqueeze(1)


def _some(pairs: Pairs, lists: _Lists) -> Iterator[slice]:
    step = max(1, GATHERED // (lists.others.numel() * pairs.width))
    for start in range(0, pairs.n_pairs, step):
        yield slice(start, min(start + step, pairs.n_pairs))


def _grouped(centre: Tensor, other: Tensor, n_labels: int) -> Iterator[tuple[_Lists, Tensor]]:
    """List the edges of each centre, which come in ascending order; short lists first, and the numbers of the edges."""
    degree = torch.bincount(centre, minlength=n_labels)
    start = degree.cumsum(0) - degree
    degrees, order = torch.sort(degree, stable=True)
    at = 0
    while at < n_labels:
        n_slots = torch.arange(1, n_labels - at + 1) * degrees[at:]
        # Twice the shortest at most: a label that knows everybody would have all lists padded to its own.
        fits = (n_slots <= LIST_SLOTS) & (degrees[at:] <= 2 * max(4, int(degrees[at])))
        end = at + max(1, int(fits.sum()))
        labels, columns = order[at:end], torch.arange(max(1, int(degrees[end - 1])))
        is_edge = columns < degree[labels].unsqueeze(1)
        edges = (start[labels].unsqueeze(1) + columns).masked_fill_(~is_edge, 0)
        yield _Lists(labels, other[edges].masked_fill_(~is_edge, 0), is_edge), edges
        at = end
