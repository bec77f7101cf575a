"""Label graphs: which labels may exchange messages, as symmetric (label, label) bool arrays.

The self-edge is always kept: a label without neighbours still gets its own message.
"""

import os
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from hotvae.errors import ConfigError, DataError, DataWarning, listed

Graph = NDArray[np.bool_]


def cooccurrence_graph(labels: Any) -> Graph:
    """Connect labels that occur together in at least one row.

    Parameters
    ----------
    labels : array-like or sparse array of shape (n_samples, n_labels)
        0, 1 or NaN (not observed, counts as no occurrence). Pass training rows only.

    Returns
    -------
    ndarray of bool, shape (n_labels, n_labels)

    Examples
    --------
    >>> cooccurrence_graph([[1, 1, 0], [0, 1, 0], [0, float("nan"), 1]]).astype(int)
    array([[1, 1, 0],
           [1, 1, 0],
           [0, 0, 1]])
    """
    # float64 counts exactly up to 2**53 and, when dense, goes through BLAS.
    if hasattr(labels, "tocsr"):
        table = labels.tocsr().astype(np.float64)
        table.sum_duplicates()
        table.data = _occurrences(table.data)
        together: NDArray[np.float64] = (table.T @ table).toarray()
    else:
        dense = np.asarray(labels, dtype=np.float64)
        if dense.ndim != 2:
            raise DataError(f"labels must have two axes (rows, labels); got shape {dense.shape}.")
        occurs = _occurrences(dense)
        together = occurs.T @ occurs
    return _with_self_edges(together > 0)


def edge_list_graph(
    edges: Iterable[tuple[str | int, str | int]], label_names: Sequence[str], *, source: str = "edges"
) -> Graph:
    """Connect the listed pairs of labels.

    Parameters
    ----------
    edges : iterable of pairs
        Two label names or two column numbers (counted from 0) each; direction does not matter.
    label_names : sequence of str
        All labels, in column order.
    source : str
        Where the edges come from, for error messages.

    Returns
    -------
    ndarray of bool, shape (n_labels, n_labels)

    Raises
    ------
    DataError
        If an edge is no pair, or names a label that does not exist.

    Examples
    --------
    >>> edge_list_graph([("owl", "vole")], ["owl", "vole", "wren"]).astype(int)
    array([[1, 1, 0],
           [1, 1, 0],
           [0, 0, 1]])
    """
    names = _unique_names(label_names)
    column = {name: i for i, name in enumerate(names)}
    graph = np.eye(len(names), dtype=np.bool_)
    for number, edge in enumerate(edges):
        where = f"({source}, edge {number})"
        pair = None if isinstance(edge, str) else tuple(edge)
        if pair is None or len(pair) != 2:
            raise DataError(f"an edge must be a pair of labels; got {edge!r} {where}.")
        ends = []
        for end in pair:
            if isinstance(end, str):
                if end not in column:
                    close = get_close_matches(end, names, n=3)
                    hint = f"Did you mean {listed(close)}?" if close else f"Labels are {listed(names)}."
                    raise DataError(f"an edge must join known labels; got {end!r} {where}. {hint}")
                ends.append(column[end])
            elif isinstance(end, int | np.integer) and not isinstance(end, bool) and 0 <= end < len(names):
                ends.append(int(end))
            else:
                raise DataError(
                    f"an edge must join label names or column numbers 0 to {len(names) - 1}; got {end!r} {where}."
                )
        graph[ends[0], ends[1]] = graph[ends[1], ends[0]] = True
    return graph


def read_edges(path: str | os.PathLike[str]) -> list[tuple[str, str]]:
    r"""Read an edge list: a UTF-8 CSV file whose first line is ``source,target``.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    list of pairs of str
        Label names, ready for :func:`edge_list_graph`.

    Raises
    ------
    DataError
        If the file cannot be read, has another header, or has empty cells.
    """
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (OSError, ValueError) as error:  # pandas' parser errors are ValueErrors
        raise DataError(f"edge file must be a readable UTF-8 CSV; got {error} ({Path(path).name}).") from error
    # The header is fixed so that a file without one is an error, not an edge lost.
    if list(table.columns) != ["source", "target"] or not isinstance(table.index, pd.RangeIndex):
        raise DataError(
            f"edge file must have the two columns source,target; got {listed(table.columns)} "
            f"({Path(path).name}). Write 'source,target' as its first line."
        )
    empty = np.flatnonzero((table == "").any(axis=1)) + 2
    if empty.size:
        raise DataError(
            f"edge file must name two labels on every line; got an empty cell "
            f"({Path(path).name}, lines {listed(empty)})."
        )
    return list(zip(table["source"], table["target"], strict=True))


@dataclass(frozen=True, eq=False)
class Phylogeny:
    """The tips of a tree and how far apart they are along its branches.

    Parameters
    ----------
    tips : tuple of str
        Names of the tips as written in the tree.
    distances : ndarray of shape (n_tips, n_tips)
        Patristic distances: sum of the branch lengths between two tips.
    """

    tips: tuple[str, ...]
    distances: NDArray[np.float64]


def parse_newick(text: str) -> Phylogeny:
    """Read a tree in Newick notation and measure the distances between its tips.

    Quoted names, comments in brackets, inner names, many-way splits and a missing last semicolon are
    understood; a missing branch length counts as 1. (The package ``newick`` is no match: it refuses names with spaces,
    takes any text for a branch length, does not say where a text is broken, and fails at deep trees.)

    Parameters
    ----------
    text : str
        One tree, such as ``((owl:1,wren:1):2,'grey heron':3);``.

    Returns
    -------
    Phylogeny
        Tips in the order of the text, and their patristic distances.

    Raises
    ------
    DataError
        If the text is no tree; the message says at which character.
    """
    tips: list[str] = []
    # One entry per node, parents before children; a node spans the tips first..last-1.
    parents: list[int] = []
    lengths: list[float] = []
    first: list[int] = []
    last: list[int] = []
    unclosed: list[int] = []
    node = -1  # the node just finished, which may still receive a name or a length; -1: a subtree must come
    state = "subtree"  # then "tip" | "closed" (after a bracket) | "named" | "colon" | "measured" | "end"

    def begin() -> int:
        parents.append(unclosed[-1] if unclosed else -1)
        lengths.append(1.0)
        first.append(len(tips))
        last.append(len(tips))
        return len(parents) - 1

    for kind, token, position in _newick_tokens(text):
        if state == "end":
            raise _newick_error(text, position, f"hold one tree; got {token!r} after the semicolon")
        if kind == "name" and state == "subtree":
            node, state = begin(), "named"
            tips.append(token)
            last[node] = len(tips)
        elif kind == "(" and state == "subtree":
            unclosed.append(begin())
        elif kind == "name" and state == "closed":
            state = "named"
        elif kind == "name" and state == "colon":
            lengths[node] = _branch_length(text, token, position)
            state = "measured"
        elif kind == ":" and state in ("closed", "named"):
            state = "colon"
        elif kind == "," and unclosed and state in ("closed", "named", "measured"):
            state = "subtree"
        elif kind == ")" and unclosed and state in ("closed", "named", "measured"):
            node, state = unclosed.pop(), "closed"
            last[node] = len(tips)
        elif kind == ";" and not unclosed and state in ("closed", "named", "measured"):
            state = "end"
        else:
            wanted = {"subtree": "a name or '('", "colon": "a branch length"}.get(
                state, "',' or ')'" if unclosed else "';'"
            )
            raise _newick_error(text, position, f"have {wanted} here; got {token!r}")
    if unclosed:
        raise _newick_error(text, len(text), f"close every '('; got {len(unclosed)} unclosed at the end")
    if state in ("subtree", "colon"):
        raise _newick_error(text, len(text), "hold a whole tree; got an early end")
    repeated = [tip for tip, count in Counter(tips).items() if count > 1]
    if repeated:
        raise DataError(f"tips of a tree must have different names; got {listed(repeated)} repeatedly.")
    return Phylogeny(tuple(tips), _patristic(len(tips), parents, lengths, first, last))


def phylogeny_graph(
    phylogeny: str | os.PathLike[str] | Phylogeny | ArrayLike,
    label_names: Sequence[str],
    *,
    n_neighbours: int | None = None,
    max_distance: float | None = None,
) -> Graph:
    """Connect labels that are close relatives.

    Labels that are not in the tree keep only their self-edge; a warning names them.

    Parameters
    ----------
    phylogeny : str, path-like, Phylogeny or array-like of shape (n_labels, n_labels)
        Newick text, a ``pathlib.Path`` of a Newick file, a parsed tree, or a matrix of distances in the order
        of ``label_names`` (NaN = not known). Underscores and spaces in names count as the same.
    label_names : sequence of str
        All labels, in column order; tips that are no label are ignored.
    n_neighbours : int, optional
        Connect each label with this many nearest relatives; an edge is kept if either end has chosen it.
        Equally near relatives are taken in the order of the labels.
    max_distance : float, optional
        Connect labels at most this far apart. Exactly one of the two must be given.

    Returns
    -------
    ndarray of bool, shape (n_labels, n_labels)

    Raises
    ------
    ConfigError
        If not exactly one rule is given, or it is out of range.
    DataError
        If the tree cannot be read or holds none of the labels.

    Examples
    --------
    >>> tree = "((great_tit:1,blue_tit:1):4,(owl:2,hawk:2):3);"
    >>> phylogeny_graph(tree, ["owl", "blue tit", "great tit"], max_distance=3).astype(int)
    array([[1, 0, 0],
           [0, 1, 1],
           [0, 1, 1]])
    """
    names = _unique_names(label_names)
    if (n_neighbours is None) == (max_distance is None):
        raise ConfigError(
            "exactly one of n_neighbours and max_distance must be given; "
            f"got n_neighbours={n_neighbours}, max_distance={max_distance}."
        )
    if n_neighbours is not None and n_neighbours < 1:
        raise ConfigError(f"n_neighbours must be at least 1; got {n_neighbours}.")
    if max_distance is not None and not max_distance >= 0:
        raise ConfigError(f"max_distance must be 0 or larger; got {max_distance}.")

    distances = _label_distances(phylogeny, names)
    others = np.where(np.eye(len(names), dtype=bool) | np.isnan(distances), np.inf, distances)
    if max_distance is not None:
        graph = others <= max_distance
    else:
        # Sums of the same branches in another order differ in the last bits: rounded, equal is equal.
        largest = others[np.isfinite(others)].max(initial=0.0) or 1.0
        nearest = np.argsort(np.round(others / largest, 12), axis=1, kind="stable")[:, :n_neighbours]
        graph = np.zeros(others.shape, dtype=bool)
        np.put_along_axis(graph, nearest, values=True, axis=1)
        graph &= np.isfinite(others)
    absent = np.flatnonzero(np.isinf(others).all(axis=1)) if len(names) > 1 else np.arange(0)
    if absent.size:
        warnings.warn(
            f"labels without a place in the phylogeny keep only their self-edge: "
            f"{listed(names[i] for i in absent)}. "
            "Check the spelling.",
            DataWarning,
            stacklevel=2,
        )
    return _with_self_edges(graph | graph.T)


def check_graph(graph: ArrayLike, n_labels: int) -> Graph:
    """Make sure that an array is a label graph.

    Parameters
    ----------
    graph : array-like of bool, shape (n_labels, n_labels)
        What to check.
    n_labels : int
        Number of labels the graph must have.

    Returns
    -------
    ndarray of bool, shape (n_labels, n_labels)
        The same graph.

    Raises
    ------
    DataError
        If it is not bool, not of that size, not symmetric, or lacks a self-edge.
    """
    edges = np.asarray(graph)
    if edges.shape != (n_labels, n_labels):
        raise DataError(f"graph must have shape ({n_labels}, {n_labels}); got {edges.shape}.")
    if edges.dtype != np.bool_:
        raise DataError(f"graph must be bool; got {edges.dtype}. Say what counts as an edge, such as graph > 0.")
    if (edges != edges.T).any():
        one_way = [(int(i), int(j)) for i, j in np.argwhere(edges & ~edges.T)]
        raise DataError(f"graph must be symmetric; got one-way edges {listed(one_way)}. Use graph | graph.T.")
    lonely = np.flatnonzero(~np.diagonal(edges))
    if lonely.size:
        raise DataError(
            f"graph must keep every self-edge; got none for labels {listed(lonely)}. "
            "Use graph | np.eye(n_labels, dtype=bool)."
        )
    return edges


def _occurrences(values: Any) -> NDArray[np.float64]:
    wrong = values[~(np.isnan(values) | (values == 0) | (values == 1))]
    if wrong.size:
        raise DataError(f"labels must be 0, 1 or NaN; got {listed(np.unique(wrong))}.")
    return np.asarray(values == 1, dtype=np.float64)


def _with_self_edges(graph: NDArray[np.bool_]) -> Graph:
    return graph | np.eye(len(graph), dtype=np.bool_)


def _unique_names(label_names: Sequence[str]) -> list[str]:
    names = [str(name) for name in label_names]
    if not names:
        raise DataError("label_names must name at least 1 label; got none.")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DataError(f"label_names must be unique; got {listed(repeated)} repeatedly.")
    return names


def _label_distances(
    phylogeny: str | os.PathLike[str] | Phylogeny | ArrayLike, names: list[str]
) -> NDArray[np.float64]:
    """Distances in label order; NaN where a label is not in the tree."""
    if isinstance(phylogeny, os.PathLike):
        try:
            phylogeny = Path(phylogeny).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"tree file must be readable UTF-8 text; got {error}.") from error
    if isinstance(phylogeny, str):
        if not set(phylogeny) & set("(;"):
            raise DataError(f"phylogeny must be Newick text; got {phylogeny[:60]!r}. For a file give a pathlib.Path.")
        phylogeny = parse_newick(phylogeny)
    if not isinstance(phylogeny, Phylogeny):
        return _checked_distances(phylogeny, len(names))
    tips: dict[str, int] = {}
    for i, tip in enumerate(phylogeny.tips):
        if tips.setdefault(_plain(tip), i) != i and _plain(tip) in map(_plain, names):
            raise DataError(
                "tips must differ in more than underscores and spaces; "
                f"got {listed([phylogeny.tips[tips[_plain(tip)]], tip])}. Rename one in the tree."
            )
    rows = np.array([tips.get(_plain(name), -1) for name in names])
    found = np.flatnonzero(rows >= 0)
    if not found.size:
        raise DataError(
            f"phylogeny must hold some of the labels; got none of {listed(names)} "
            f"among the tips {listed(phylogeny.tips)}. Bring the names in line."
        )
    distances = np.full((len(names), len(names)), np.nan)
    distances[np.ix_(found, found)] = phylogeny.distances[np.ix_(rows[found], rows[found])]
    return distances


def _plain(name: str) -> str:
    return " ".join(name.replace("_", " ").split())


def _checked_distances(values: ArrayLike, n_labels: int) -> NDArray[np.float64]:
    distances = np.asarray(values, dtype=np.float64)
    if distances.shape != (n_labels, n_labels):
        raise DataError(f"distances must have shape ({n_labels}, {n_labels}); got {distances.shape}.")
    if not np.allclose(distances, distances.T, equal_nan=True):
        raise DataError("distances must be symmetric; got an asymmetric matrix. Average it with its transpose.")
    if (distances < 0).any():
        raise DataError(f"distances must be 0 or larger; got {distances[distances < 0].min()}.")
    return distances


# A quoted name, or a run that starts like a name and ends before the next sign of the notation, or one sign.
_NEWICK_TOKEN = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|[^\s()\[\],:;'"][^()\[\],:;]*|[(),:;\[\]'"]""")


def _newick_tokens(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield (kind, text, position) with kind "name" or the sign itself; comments are skipped."""
    position = 0
    while found := _NEWICK_TOKEN.search(text, position):
        token, start, position = found[0], found.start(), found.end()
        if token == "[":
            depth = 1
            while depth:
                bracket = re.compile(r"[\[\]]").search(text, position)
                if bracket is None:
                    raise _newick_error(text, start, "close every comment; got '[' without ']'")
                depth += 1 if bracket[0] == "[" else -1
                position = bracket.end()
        elif len(token) > 1 and token[0] in "'\"":
            yield "name", token[1:-1].replace("''", "'") if token[0] == "'" else token[1:-1], start
        elif token in "'\"":
            raise _newick_error(text, start, f"close every quoted name; got {token} without its pair")
        elif token in "(),:;]":
            yield token, token, start
        else:
            yield "name", token.rstrip(), start


def _newick_error(text: str, position: int, rule: str) -> DataError:
    excerpt = text[max(0, position - 20) : position + 10]
    return DataError(f"Newick text must {rule} (character {position}, near {excerpt!r}).")


def _branch_length(text: str, token: str, position: int) -> float:
    try:
        length = float(token)
    except ValueError:
        raise _newick_error(text, position, f"have numbers as branch lengths; got {token!r}") from None
    if not 0 <= length < np.inf:
        raise _newick_error(text, position, f"have finite branch lengths, 0 or larger; got {token}")
    return length


def _patristic(
    n_tips: int, parents: list[int], lengths: list[float], first: list[int], last: list[int]
) -> NDArray[np.float64]:
    """Depth of one tip plus depth of the other minus twice the depth where their paths part."""
    depths = np.zeros(len(parents))  # the root's own branch leads to no tip and stays out
    shared = np.zeros((n_tips, n_tips))
    for node in range(1, len(parents)):
        parent = parents[node]
        depths[node] = depths[parent] + lengths[node]
        # Tips of this child against the tips of its later siblings: each pair is visited once over the tree.
        shared[first[node] : last[node], last[node] : last[parent]] = depths[parent]
    is_tip = np.ones(len(parents), dtype=bool)
    is_tip[[parent for parent in parents if parent >= 0]] = False
    tip_depths = depths[is_tip]
    distances = np.triu(tip_depths[:, None] + tip_depths - 2 * shared, k=1)
    return np.asarray(distances + distances.T)
