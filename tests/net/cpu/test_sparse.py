"""Lists of neighbours: which graphs they are used for, and that padding and hubs cost no exactness."""

import pytest
import torch

from hotvae.net.cpu import sparse as source
from hotvae.net.cpu.attention import DenseAttention
from hotvae.net.cpu.sparse import SparseAttention, make_attention
from tests.net.cpu.test_attention import close_to_expected, graph_of, sparse_attention
from tests.net.loops import normal


def hub_graph(n_labels):
    """Everybody listens to themselves; label 3 listens to all, all listen to label 5."""
    graph = torch.eye(n_labels, dtype=torch.bool)
    graph[3], graph[:, 5] = True, True
    return graph


def lists_of(graph):
    longest = int(graph.sum(1).max())
    lists = torch.full((len(graph), longest), -1)
    for receiver, row in enumerate(graph):
        lists[receiver, : int(row.sum())] = row.nonzero().flatten()
    return lists


@pytest.mark.parametrize("slots", [1, 7, 40, 2**12])
@pytest.mark.parametrize("graph", [hub_graph(40), graph_of(40, 0.1), graph_of(40, 0.9)])
def test_sparse_attention__any_grouping_of_lists__equals_softmax(slots, graph, monkeypatch):
    monkeypatch.setattr(source, "LIST_SLOTS", slots)
    monkeypatch.setattr(source, "GATHERED", 100)
    close_to_expected(sparse_attention(graph), normal(3, 5, 40, 4), graph)


def test_sparse_attention__hubs__are_not_padded_for():
    """Label 3 listens to 40; the 38 others without its own edges to themselves and label 5, label 5 to itself.

    117 edges. Padded to the longest list there would be 1,600 places; in two groups 39 * 2 + 40 = 118.
    """
    attention = sparse_attention(hub_graph(40))
    assert int(hub_graph(40).sum()) == 117
    assert attention._n_slots == 118


@pytest.mark.parametrize(
    ("n_neighbours", "kind"),
    [(1, SparseAttention), (2, SparseAttention), (3, DenseAttention), (100, DenseAttention)],
)
def test_make_attention__number_of_edges__decides_about_lists(n_neighbours, kind):
    """100 labels, 10,000 cells: lists pay below 10,000 / 40 = 250 edges."""
    graph = (torch.arange(100) - torch.arange(100).unsqueeze(1)) % 100 < n_neighbours
    assert int(graph.sum()) == 100 * n_neighbours
    assert type(make_attention(graph, 100)) is kind


def test_make_attention__complete_graph__needs_no_mask():
    assert make_attention(None, 5).graph is None


def test_make_attention__lists__are_used_as_they_are():
    graph = graph_of(12, 0.3)
    attention = make_attention(lists_of(graph), 12)
    assert isinstance(attention, SparseAttention)
    close_to_expected(attention, normal(3, 2, 12, 4), graph)


def test_make_attention__thousands_of_labels__never_holds_a_table_of_all_pairs():
    """20,000 labels in a ring: 400 million pairs; the lists hold three places for each label, and as many back."""
    ring = (torch.arange(20_000).unsqueeze(1) + torch.tensor([-1, 0, 1])) % 20_000
    attention = make_attention(ring, 20_000)
    assert attention._n_slots == 60_000
    places = sum(lists.others.numel() for lists, _ in (*attention._heard, *attention._hearing))
    assert places == 120_000
