"""A layer of the decoder on a CPU, written out by hand: a few rows at a time, in memory that stays in the cache.

It computes what :class:`~hotvae.net.attention.DecoderLayer` computes, values and gradients (tested in 64 bits), and
differs from it in how:

* Rows are taken in blocks so small that the states of a block stay in the cache from one operation to the next.
* Of a layer only the sums before its norms and the answers of the label message are kept for the backward pass.
  States, hidden units, queries, keys and values are made again: as cheap as fetching them from main memory.
* Everything else is written to scratch tensors, the same for all blocks (:class:`~hotvae.net.cpu.attention.Workspace`).
* Queries, keys and values come out of their product heads first, so that nothing is copied to transpose it.
* Every residual sum, with its bias and its dropout, is one product and one pass.

A *step* is what a :class:`~hotvae.net.attention.Residual` does, cut at another place: it takes the sum before a norm,
normalises it, and returns the next sum.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from hotvae.net.attention import DecoderLayer
from hotvae.net.cpu.attention import LabelAttention, Pairs, Workspace, WorkspacePool
from hotvae.types import States, TokenMask, Tokens

# Numbers in the states of a block: with fewer the calls cost more than the work, with more they fall out of the cache.
BLOCK_STATES = 2**17

# The same for the rows that pass a layer in one call: few calls, and what one layer hands to the next is still near.
CALL_STATES = 2**20

_norm_backward = torch.ops.aten.native_layer_norm_backward.default
_relu_backward = torch.ops.aten.threshold_backward.grad_input


def rows_at_a_time(n_rows: int, n_labels: int, dim: int, n_states: int = CALL_STATES) -> int:
    """Rows whose states hold at most so many numbers, in parts of nearly equal size."""
    most = max(1, n_states // (n_labels * dim))
    n_parts = max(1, -(-n_rows // most))
    return max(1, -(-n_rows // n_parts))


def covers(tokens: Tokens) -> bool:
    """Whether tokens can be decoded by hand; other devices, number types, compilation and automatic casts cannot."""
    return (
        tokens.device.type == "cpu"
        and tokens.dtype in (torch.float32, torch.float64)
        and len(tokens) > 0
        and not torch.compiler.is_compiling()
        and not torch.is_autocast_enabled("cpu")
    )


class BlockLayer:
    """A decoder layer whose weights are brought into the order of the hand-written pass, once for all rows.

    Parameters
    ----------
    layer : DecoderLayer
        Whose weights are used; gradients reach them.
    attention : LabelAttention
        Who listens to whom.
    pool : WorkspacePool
        Scratch memory, shared by the layers of a decoder.
    """

    def __init__(self, layer: DecoderLayer, attention: LabelAttention, pool: WorkspacePool) -> None:
        self.feature_message = layer.feature_message
        residuals: Any = layer.residuals
        self.residuals = residuals
        norms = [residual.norm for residual in residuals]
        self._plan = _Plan(layer.label_message.n_heads, norms[0].eps, attention, pool)
        # A step begins with the norm that ended the one before it, and the last norm ends the layer.
        first, second, third, self._last_norm = norms
        self._weights = (
            *(first.weight, first.bias, *_feedforward_weights(layer.feature_feedforward)),
            *(second.weight, second.bias, *_message_weights(layer.label_message)),
            *(third.weight, third.bias, *_feedforward_weights(layer.label_feedforward)),
        )

    def __call__(
        self, states: Float[Tensor, "#batch label dim"], tokens: Tokens, token_mask: TokenMask | None
    ) -> States:
        """Pass one round of messages, as the layer does."""
        to_features, *others = self.residuals
        sums = to_features.add(states, lambda u: self.feature_message(u, tokens, token_mask))
        # Drawn in the order in which the modules draw them.
        masks = [residual.dropout.mask(sums) for residual in others]
        keep = torch.is_grad_enabled()
        # torch has no types for autograd functions.
        last_sums = _Layer.apply(self._plan, keep, sums.contiguous(), *masks, *self._weights)  # type: ignore[no-untyped-call]
        after: States = self._last_norm(last_sums)
        return after


def _feedforward_weights(block: Any) -> tuple[Tensor, ...]:
    return block[0].weight, block[0].bias, block[2].weight, block[2].bias


def _message_weights(message: Any) -> tuple[Tensor, ...]:
    """Weights of the label message heads first, those of the queries divided by the root of their width.

    The bias of the keys is left out: it adds the same to all scores of a query, which a softmax does not see. The bias
    of the values passes through the averages, whose weights add up to 1, and is added after them.
    """
    n_heads, projection, merge = message.n_heads, message.query_key_value, message.merge
    dim = merge.in_features
    width = dim // n_heads
    scale = projection.weight.new_tensor([width**-0.5, 1.0, 1.0])
    for_query, _, for_value = projection.bias.view(3, dim)
    return (
        (projection.weight.view(3, -1) * scale.unsqueeze(1)).view(3 * n_heads, width, dim),
        (for_query * scale[0]).view(n_heads, 1, width),
        merge.weight.view(dim, n_heads, width).permute(1, 2, 0).contiguous(),
        torch.addmv(merge.bias, merge.weight, for_value),
    )


class _FeedForward(NamedTuple):
    norm: Tensor
    norm_bias: Tensor
    inner: Tensor
    inner_bias: Tensor
    outer: Tensor
    outer_bias: Tensor


class _Message(NamedTuple):
    norm: Tensor
    norm_bias: Tensor
    projection: Tensor
    query_bias: Tensor
    merge: Tensor
    merge_bias: Tensor


_N_MASKS, _N_WEIGHTS, _N_KEPT = 3, 18, 11


def _by_step(weights: Sequence[Any]) -> tuple[_FeedForward, _Message, _FeedForward]:
    return _FeedForward(*weights[:6]), _Message(*weights[6:12]), _FeedForward(*weights[12:])


@dataclass(frozen=True)
class _Plan:
    """What the layers of a decoder share besides weights."""

    n_heads: int
    eps: float
    attention: LabelAttention
    pool: WorkspacePool

    def blocks(
        self, space: Workspace, n_hidden: int, states: Sequence[Tensor], masks: Sequence[Tensor | None]
    ) -> Iterator[tuple["_Block", tuple[Tensor, ...], tuple[Tensor | None, ...]]]:
        """Cut states and masks into blocks of rows; the states of a block are flat, (row * label, dim)."""
        n_rows, n_labels, dim = states[0].shape
        # Every thread has a core, and a cache, of its own.
        step = rows_at_a_time(n_rows, n_labels, dim, BLOCK_STATES * torch.get_num_threads())
        flat = zip(*(tensor.flatten(0, 1).split(step * n_labels) for tensor in states), strict=True)
        none = (None,) * -(-n_rows // step)
        drops = zip(*(none if mask is None else mask.split(step) for mask in masks), strict=True)
        for parts, drop in zip(flat, drops, strict=True):
            yield self._block(space, (len(parts[0]) // n_labels, n_labels, dim), n_hidden), parts, drop

    def _block(self, space: Workspace, shape: tuple[int, int, int], n_hidden: int) -> "_Block":
        return space.once((self, shape, n_hidden), lambda: _Block(self, space, shape, n_hidden))


class _Layer(torch.autograd.Function):
    """Feed-forward, label message, feed-forward: three steps, each from a sum of states to the next."""

    @staticmethod
    def forward(ctx: Any, plan: _Plan, keep: bool, first: Tensor, *tensors: Any) -> Tensor:
        masks, (digest, listen, conclude) = tensors[:_N_MASKS], _by_step(tensors[_N_MASKS:])
        fourth = torch.empty_like(first)
        kept: list[Tensor | None] = []
        space = plan.pool.borrow(first)
        for block, (one, four), drop in plan.blocks(space, len(digest.inner), (first, fourth), masks):
            two, *moments = block.digest(one, digest, drop[0])
            three, *found = block.listen(two, listen, drop[1])
            last, *last_moments = block.digest(three, conclude, drop[2])
            four.copy_(last)
            if keep:
                kept += [two, three, *moments, *last_moments, *found]
        plan.pool.put_back(space, first)
        ctx.plan = plan
        ctx.save_for_backward(first, *tensors, *kept)
        return fourth

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        # First of all, and once: with checkpointing, asking for them runs the forward pass, in the same workspace.
        first, *tensors = ctx.saved_tensors
        masks, others = tensors[:_N_MASKS], tensors[_N_MASKS:]
        weights, kept = others[:_N_WEIGHTS], others[_N_WEIGHTS:]
        digest, listen, conclude = _by_step(weights)
        results = [torch.zeros_like(weight) for weight in weights]
        to_digest, to_listen, to_conclude = _by_step(results)
        # Our own copy, written over block by block: others may hold the gradient that came in.
        gradient = gradient.clone(memory_format=torch.contiguous_format)
        space = ctx.plan.pool.borrow(first)
        for block, (one, mine), drop in ctx.plan.blocks(space, len(digest.inner), (first, gradient), masks):
            two, three, *others = kept[:_N_KEPT]
            moments, last_moments, found, kept = others[:2], others[2:4], others[4:], kept[_N_KEPT:]
            slope = block.digest_backward(mine, three, last_moments, conclude, drop[2], to_conclude)
            slope = block.listen_backward(slope, two, found, listen, drop[1], to_listen)
            mine.copy_(block.digest_backward(slope, one, moments, digest, drop[0], to_digest))
        ctx.plan.pool.put_back(space, first)
        return None, None, gradient, None, None, None, *results


class _Block:
    """The steps of a block of rows of one size, with their scratch tensors.

    Methods that take a ``gradient`` return the gradient of ``sums``, add those of the weights to ``results``, and use
    the memory of the first for themselves.
    """

    def __init__(self, plan: _Plan, space: Workspace, shape: tuple[int, int, int], n_hidden: int) -> None:
        n_rows, n_labels, dim = shape
        n_states, n_parts = n_rows * n_labels, 3 * plan.n_heads
        self.plan, self.space, self.shape = plan, space, shape
        self.pairs = Pairs(plan.n_heads * n_rows, n_labels, dim // plan.n_heads)
        self.hidden, self.to_hidden = space("hidden", n_states, n_hidden), space("to_hidden", n_states, n_hidden)
        self.update_of_rows, self.to_update_of_rows = space("update", *shape), space("to_update", *shape)
        self.update, self.to_update = self.update_of_rows.flatten(0, 1), self.to_update_of_rows.flatten(0, 1)
        self.states = space("states", n_states, dim)
        self.mixed, self.totals = self.pairs.mixed(space), self.pairs.totals(space)
        self.to_mixed, self.pull = self.pairs.to_mixed(space), self.pairs.pull(space)
        # (3, head * row, label, width) -> (3 * head, row * label, width)
        self.parts = self.pairs.parts(space).view(n_parts, n_states, -1)
        self.to_parts = self.pairs.to_parts(space).view(n_parts, n_states, -1)
        self.to_each = self.to_parts.unbind()
        self.query = self.parts[: plan.n_heads]
        self.to_query = self.to_parts[: plan.n_heads]

    # The feed-forward step

    def digest(self, sums: Tensor, weights: _FeedForward, mask: Tensor | None) -> tuple[Tensor, ...]:
        """Return the next sum and, for the way back, the moments of this one."""
        states, *moments = self._normalise(sums, weights)
        self._hide(states, weights)
        return self._add(states, [(self.hidden, weights.outer.t())], weights.outer_bias, mask), *moments

    def digest_backward(
        self,
        gradient: Tensor,
        sums: Tensor,
        moments: Sequence[Tensor],
        weights: _FeedForward,
        mask: Tensor | None,
        results: _FeedForward,
    ) -> Tensor:
        states = self._normalise_again(sums, moments, weights)
        self._hide(states, weights)
        to_update = self._drop(gradient, mask)
        results.outer_bias.add_(to_update.sum(0))
        torch.addmm(results.outer, to_update.t(), self.hidden, out=results.outer)
        torch.mm(to_update, weights.outer, out=self.to_hidden)
        _relu_backward(self.to_hidden, self.hidden, 0, grad_input=self.to_hidden)
        results.inner_bias.add_(self.to_hidden.sum(0))
        torch.addmm(results.inner, self.to_hidden.t(), states, out=results.inner)
        # The gradient of the normalised states includes that of the residual path.
        _accumulate(gradient, [(self.to_hidden, weights.inner)])
        return self._through_norm(gradient, sums, moments, weights, results)

    def _hide(self, states: Tensor, weights: _FeedForward) -> None:
        # Adding the bias afterwards is cheaper than addmm, which first fills the result with it.
        torch.mm(states, weights.inner.t(), out=self.hidden).add_(weights.inner_bias).relu_()

    # The label-message step

    def listen(self, sums: Tensor, weights: _Message, mask: Tensor | None) -> tuple[Any, ...]:
        """Return the next sum and, for the way back, moments, answers, one over the totals, and the shift."""
        states, *moments = self._normalise(sums, weights)
        self._project(states, weights)
        shift = self.plan.attention.forward(self.space, self.pairs)
        inverse = self.totals.reciprocal()
        answers = self.mixed * inverse
        of_heads = answers.view(self.plan.n_heads, len(sums), -1).unbind()
        products = list(zip(of_heads, weights.merge.unbind(), strict=True))
        return self._add(states, products, weights.merge_bias, mask), *moments, answers, inverse, shift

    def listen_backward(
        self,
        gradient: Tensor,
        sums: Tensor,
        found: Sequence[Any],
        weights: _Message,
        mask: Tensor | None,
        results: _Message,
    ) -> Tensor:
        *moments, answers, inverse, shift = found
        n_heads, n_states = self.plan.n_heads, len(sums)
        to_update = self._drop(gradient, mask)
        results.merge_bias.add_(to_update.sum(0))
        to_heads = to_update.expand(n_heads, -1, -1)
        torch.baddbmm(results.merge, answers.view(n_heads, n_states, -1).transpose(1, 2), to_heads, out=results.merge)
        torch.bmm(to_heads, weights.merge.transpose(1, 2), out=self.to_mixed.view(n_heads, n_states, -1))
        # Dividing the gradient spares the division of the scores, of which there are more by labels / width.
        self.to_mixed.mul_(inverse)
        torch.sum(torch.mul(self.to_mixed, answers, out=self.mixed), -1, keepdim=True, out=self.pull)
        states = self._normalise_again(sums, moments, weights)
        self._project(states, weights)
        self.plan.attention.backward(self.space, self.pairs, shift)
        for_each = states.expand(len(self.to_parts), -1, -1)
        torch.baddbmm(results.projection, self.to_parts.transpose(1, 2), for_each, out=results.projection)
        results.query_bias.add_(self.to_query.sum(1, keepdim=True))
        _accumulate(gradient, list(zip(self.to_each, weights.projection.unbind(), strict=True)))
        return self._through_norm(gradient, sums, moments, weights, results)

    def _project(self, states: Tensor, weights: _Message) -> None:
        torch.bmm(states.expand(len(self.parts), -1, -1), weights.projection.transpose(1, 2), out=self.parts)
        self.query.add_(weights.query_bias)

    # What both steps share

    def _normalise(self, sums: Tensor, weights: _FeedForward | _Message) -> tuple[Tensor, Tensor, Tensor]:
        return torch.native_layer_norm(sums, self.shape[2:], weights.norm, weights.norm_bias, self.plan.eps)

    def _normalise_again(self, sums: Tensor, moments: Sequence[Tensor], weights: _FeedForward | _Message) -> Tensor:
        # Most of the time of a layer norm goes into the moments, which are known.
        torch.sub(sums, moments[0], out=self.states).mul_(moments[1])
        return torch.addcmul(weights.norm_bias, self.states, weights.norm, out=self.states)

    def _add(self, states: Tensor, products: list[tuple[Tensor, Tensor]], bias: Tensor, mask: Tensor | None) -> Tensor:
        """Add an update, the sum of ``products`` and a bias, to the states in place; drop what the mask says."""
        if mask is None:
            _accumulate(torch.add(states, bias, out=states), products)
            return states
        (factor, weight), *others = products
        torch.mm(factor, weight, out=self.update)
        _accumulate(self.update, others)
        self.update.add_(bias)
        torch.addcmul(states.view(self.shape), self.update_of_rows, mask, out=states.view(self.shape))
        return states

    def _drop(self, gradient: Tensor, mask: Tensor | None) -> Tensor:
        if mask is None:
            return gradient
        torch.mul(gradient.view(self.shape), mask, out=self.to_update_of_rows)
        return self.to_update

    def _through_norm(
        self,
        to_states: Tensor,
        sums: Tensor,
        moments: Sequence[Tensor],
        weights: _FeedForward | _Message,
        results: _FeedForward | _Message,
    ) -> Tensor:
        to_sums: Tensor
        to_sums, to_norm, to_bias = _norm_backward(
            to_states, sums, self.shape[2:], *moments, weights.norm, weights.norm_bias, [True, True, True]
        )
        results.norm.add_(to_norm)
        results.norm_bias.add_(to_bias)
        return to_sums


def _accumulate(total: Tensor, products: list[tuple[Tensor, Tensor]]) -> None:
    for factor, weight in products:
        torch.addmm(total, factor, weight, out=total)
