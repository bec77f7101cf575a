"""The attention decoder's layers, written out for a CPU: the same values and gradients in about two thirds of the time.

:class:`CPULayers` is all the decoder knows of it; the numbers behind it are in ADR 0015 and docs/performance.md.
"""

from collections.abc import Callable, Iterable

from torch import Tensor

from hotvae.net.attention import DecoderLayer
from hotvae.net.cpu.attention import LabelAttention, WorkspacePool
from hotvae.net.cpu.layer import BlockLayer, covers, rows_at_a_time
from hotvae.net.cpu.sparse import make_attention
from hotvae.types import Tokens

__all__ = ["CPULayers", "rows_at_a_time"]


class CPULayers:
    """Makes the rounds of a decoder out of its layers, with memory and a prepared graph that stay between calls."""

    def __init__(self) -> None:
        self._pool = WorkspacePool()
        self._prepared: tuple[Tensor | None, int | None, LabelAttention] | None = None

    def __reduce__(self) -> tuple[type["CPULayers"], tuple[()]]:
        return CPULayers, ()  # a copy of a decoder finds memory of its own

    def rounds(
        self, layers: Iterable[DecoderLayer], graph: Tensor | None, n_labels: int, tokens: Tokens
    ) -> list[Callable[..., Tensor]] | None:
        """Return a function for each layer; None where tokens must go through the modules themselves."""
        if not covers(tokens):
            return None
        return [BlockLayer(layer, self._attention(graph, n_labels), self._pool) for layer in layers]

    def _attention(self, graph: Tensor | None, n_labels: int) -> LabelAttention:
        """Bring the graph into form once: it is loaded, or written to, but rarely."""
        version = None if graph is None or graph.is_inference() else graph._version
        if self._prepared is None or self._prepared[0] is not graph or self._prepared[1] != version:
            self._prepared = (graph, version, make_attention(graph, n_labels))
        return self._prepared[2]
