"""Attention in scratch memory: the same numbers as the textbook's, at any size, with any scores, row by row."""

import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hotvae.net.cpu import attention as source
from hotvae.net.cpu.attention import DenseAttention, Pairs, Workspace, WorkspacePool
from hotvae.net.cpu.sparse import SparseAttention
from tests.net.loops import close, normal

SEEDS = st.integers(0, 2**32 - 1)


def graph_of(n_labels, density, seed=0):
    drawn = torch.rand(n_labels, n_labels, generator=torch.Generator().manual_seed(seed)) < density
    return drawn | torch.eye(n_labels, dtype=torch.bool)


def sparse_attention(graph):
    return SparseAttention(*graph.nonzero(as_tuple=True), len(graph))


def run(attention, parts, gradient, space=None):
    """Answers and gradients of an attention, which takes and leaves its numbers in scratch memory."""
    pairs, space = Pairs(*parts.shape[1:]), space or Workspace(parts)
    pairs.parts(space).copy_(parts)
    shift = attention.forward(space, pairs)
    totals = pairs.totals(space).clone()
    answers = pairs.mixed(space) / totals
    pairs.to_mixed(space).copy_(gradient / totals)
    pairs.pull(space).copy_((gradient / totals * answers).sum(-1, keepdim=True))
    attention.backward(space, pairs, shift)
    return answers, pairs.to_parts(space).clone()


def expected(parts, gradient, graph=None):
    """Softmax and automatic differentiation."""
    parts = parts.clone().requires_grad_()
    query, key, value = parts
    scores = query @ key.transpose(1, 2)
    if graph is not None:
        scores = scores.masked_fill(~graph, -torch.inf)
    answers = torch.softmax(scores, -1) @ value
    return answers.detach(), torch.autograd.grad(answers, parts, gradient)[0]


def close_to_expected(attention, parts, graph=None):
    gradient = normal(*parts.shape[1:], seed=7)
    for actual, correct in zip(run(attention, parts, gradient), expected(parts, gradient, graph), strict=True):
        close(actual, correct)


# Attention ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_labels", [1, 2, 3, 50])
@pytest.mark.parametrize("n_pairs", [1, 5])
@pytest.mark.parametrize("tile", [1, 5000, 2**17])
@pytest.mark.parametrize("graph", ["everybody", "mask", "lists"])
def test_attention__any_size_and_tile__equals_softmax(n_labels, n_pairs, tile, graph, monkeypatch):
    """A tile of 1 has 64 queries at least, so 50 labels are one; of 5,000 scores it has two pairs of 50 labels."""
    monkeypatch.setattr(source, "TILE_SCORES", tile)
    monkeypatch.setattr(source, "TILE_QUERIES", 3)
    edges = None if graph == "everybody" else graph_of(n_labels, 0.3)
    attention = sparse_attention(edges) if graph == "lists" else DenseAttention(edges)
    close_to_expected(attention, normal(3, n_pairs, n_labels, 4), edges)


@pytest.mark.parametrize("graph", ["everybody", "mask", "lists"])
def test_attention__1500_labels__equals_softmax(graph):
    """More labels than a tile takes: queries are cut."""
    edges = None if graph == "everybody" else graph_of(1500, 0.01)
    close_to_expected(
        sparse_attention(edges) if graph == "lists" else DenseAttention(edges), normal(3, 1, 1500, 8), edges
    )


@settings(max_examples=20, deadline=None)
@given(
    seed=SEEDS,
    size=st.sampled_from([1.0, 30.0, 200.0, 1e4]),
    offset=st.sampled_from([0.0, -1e4, 1e4]),
    graph=st.sampled_from(["everybody", "mask", "lists"]),
)
def test_attention__extreme_scores__equals_softmax(seed, size, offset, graph):
    """Scores up to 1e4 in size, all alike far above or below 0: no overflow, nothing vanishes."""
    parts = normal(3, 3, 6, 2, seed=seed)
    # The first number of the query meets the first of the key: scores of about size, shifted by offset as a whole.
    parts[0, :, :, 0] = size
    parts[1, :, :, 0] += offset / size
    edges = None if graph == "everybody" else graph_of(6, 0.4, seed)
    attention = sparse_attention(edges) if graph == "lists" else DenseAttention(edges)
    gradient = normal(3, 6, 2, seed=seed + 1)
    answers, to_parts = run(attention, parts, gradient)
    correct, to_correct = expected(parts, gradient, edges)
    # A score of 1e4 is known to 1e-12, and so are exponentials of differences; gradients are multiplied by size.
    close(answers, correct, 1e-10)
    close(to_parts, to_correct, 1e-10 * max(1.0, size))


@pytest.mark.parametrize("graph", ["everybody", "mask", "lists"])
def test_attention__32_bits_and_extreme_scores__stay_finite(graph):
    edges = None if graph == "everybody" else graph_of(20, 0.3)
    attention = sparse_attention(edges) if graph == "lists" else DenseAttention(edges)
    for size in (1.0, 1e3, 1e4):
        parts = normal(3, 4, 20, 8).float()
        parts[0] *= size
        for numbers in run(attention, parts, normal(4, 20, 8, seed=1).float()):
            assert numbers.isfinite().all()


@pytest.mark.parametrize("graph", ["everybody", "mask", "lists"])
def test_attention__a_pair_with_extreme_scores__leaves_the_bits_of_others_alone(graph):
    edges = None if graph == "everybody" else graph_of(9, 0.4)
    attention = sparse_attention(edges) if graph == "lists" else DenseAttention(edges)
    calm, gradient = normal(3, 5, 9, 4).float(), normal(5, 9, 4, seed=1).float()
    wild = calm.clone()
    wild[0, 2] *= 1e4
    for before, after in zip(run(attention, calm, gradient), run(attention, wild, gradient), strict=True):
        others = [0, 1, 3, 4]
        assert torch.equal(before[..., others, :, :], after[..., others, :, :])
        assert not torch.equal(before[..., 2, :, :], after[..., 2, :, :])


@pytest.mark.parametrize("lists", [False, True])
def test_attention__label_nobody_listens_to__gets_exactly_no_gradient(lists):
    graph = torch.tensor([[True, False], [True, False]])
    attention = sparse_attention(graph) if lists else DenseAttention(graph)
    _, (to_query, to_key, to_value) = run(attention, normal(3, 1, 2, 4), normal(1, 2, 4, seed=1))
    assert (to_key[0, 1] == 0).all()
    assert (to_value[0, 1] == 0).all()
    assert (to_value[0, 0] != 0).all()
    # Each listens to one label alone: its weight is 1, whatever the query.
    close(to_query, torch.zeros(1, 2, 4))


# Scratch memory -------------------------------------------------------------------------------------------


def test_workspace__used_again_for_other_sizes__gives_the_same_answers():
    """Large, small, large: memory is cut for the small one, not made anew, and holds what the last user left."""
    space = Workspace(torch.zeros(1, dtype=torch.float64))
    for n_pairs, n_labels in ((2, 5), (4, 30), (1, 3), (2, 5)):
        parts, gradient = normal(3, n_pairs, n_labels, 4), normal(n_pairs, n_labels, 4, seed=1)
        for actual, correct in zip(
            run(DenseAttention(), parts, gradient, space), expected(parts, gradient), strict=True
        ):
            close(actual, correct)


def test_workspace__same_name__is_one_piece_of_memory_of_the_largest_size():
    space = Workspace(torch.zeros(1))
    large = space("scores", 4, 5)
    small = space("scores", 2, 3)
    assert small.data_ptr() == large.data_ptr()
    assert space("slopes", 4, 5).data_ptr() != large.data_ptr()
    larger = space("scores", 6, 5)
    assert space("scores", 4, 5).data_ptr() == larger.data_ptr()


def test_pool__workspaces__are_for_one_user_and_one_kind_of_number():
    pool, single, double = WorkspacePool(), torch.zeros(1), torch.zeros(1, dtype=torch.float64)
    first, second = pool.borrow(single), pool.borrow(single)
    assert first is not second
    pool.put_back(first, single)
    assert pool.borrow(double) is not first
    with torch.inference_mode():
        assert pool.borrow(single) is not first
    assert pool.borrow(single) is first


def test_pool__copied_or_pickled__is_empty():
    pool, like = WorkspacePool(), torch.zeros(1)
    space = pool.borrow(like)
    pool.put_back(space, like)
    for other in (copy.deepcopy(pool), pickle.loads(pickle.dumps(pool))):
        assert other.borrow(like) is not space
    assert pool.borrow(like) is space
