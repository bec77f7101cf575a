import os
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import squareform

from hotvae.errors import ConfigError, DataError, DataWarning
from hotvae.graph import (
    Phylogeny,
    check_graph,
    cooccurrence_graph,
    edge_list_graph,
    parse_newick,
    phylogeny_graph,
    read_edges,
)

TREE = "((a:1,b:2)ab:3,(c:1,d:1,e:4):0.5);"


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_cooccurrence_graph__random_labels_with_gaps__equals_loops(seed):
    rng = np.random.default_rng(seed)
    labels = rng.choice([0.0, 1.0, np.nan], p=[0.6, 0.3, 0.1], size=(12, 6))
    expected = np.zeros((6, 6), dtype=bool)
    for i in range(6):
        for j in range(6):
            together = sum(1 for row in labels if row[i] == 1 and row[j] == 1)
            expected[i, j] = i == j or together > 0
    np.testing.assert_array_equal(cooccurrence_graph(labels), expected)
    np.testing.assert_array_equal(cooccurrence_graph(sparse.csr_array(labels)), expected)
    check_graph(expected, 6)


def test_cooccurrence_graph__sparse_input__is_left_alone():
    labels = sparse.csr_array(np.array([[1.0, np.nan], [1.0, 1.0]]))
    before = labels.toarray()
    cooccurrence_graph(labels)
    np.testing.assert_array_equal(labels.toarray(), before)


def test_cooccurrence_graph__bad_input__is_named():
    with pytest.raises(DataError, match=r"labels must be 0, 1 or NaN; got 2\.0, 3\.0"):
        cooccurrence_graph([[2, 0], [3, 1]])
    with pytest.raises(DataError, match=r"labels must have two axes \(rows, labels\); got shape \(2,\)"):
        cooccurrence_graph([1, 0])


def test_edge_list_graph__names_and_numbers__give_the_same_graph():
    by_name = edge_list_graph([("owl", "vole"), ("wren", "wren")], ["owl", "vole", "wren"])
    assert by_name.astype(int).tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    np.testing.assert_array_equal(by_name, edge_list_graph([(np.int64(1), 0)], ["owl", "vole", "wren"]))


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        (
            [("owl", "volle")],
            "an edge must join known labels; got 'volle' (edges, edge 0). Did you mean 'vole'?",
        ),
        ([("owl", "qqq")], "got 'qqq' (edges, edge 0). Labels are 'owl', 'vole'."),
        ([("owl", "vole"), ("owl",)], "an edge must be a pair of labels; got ('owl',) (edges, edge 1)"),
        (["ow"], "an edge must be a pair of labels; got 'ow'"),
        ([(0, 2)], "label names or column numbers 0 to 1; got 2 (edges, edge 0)"),
        ([(0, -1)], "column numbers 0 to 1; got -1"),
        ([(0, True)], "column numbers 0 to 1; got True"),
    ],
)
def test_edge_list_graph__bad_edge__is_named(edges, message):
    with pytest.raises(DataError, match=re.escape(message)):
        edge_list_graph(edges, ["owl", "vole"])


def test_edge_list_graph__bad_names__are_named():
    with pytest.raises(DataError, match="label_names must be unique; got 'owl' repeatedly"):
        edge_list_graph([], ["owl", "owl"])
    with pytest.raises(DataError, match="label_names must name at least 1 label; got none"):
        edge_list_graph([], [])


def test_read_edges__file__pairs_with_names_such_as_na_kept(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_bytes(b'\xef\xbb\xbfsource,target\nowl,vole\n"finch, house",NA\n')
    assert read_edges(path) == [("owl", "vole"), ("finch, house", "NA")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"owl,vole\n", "must have the two columns source,target; got 'owl', 'vole' (edges.csv)"),
        (b"source,target\nowl,vole,wren\n", "must have the two columns source,target"),
        (
            b"source,target\nowl,\n",
            "must name two labels on every line; got an empty cell (edges.csv, lines 2)",
        ),
        (b"", "must be a readable UTF-8 CSV; got No columns to parse from file (edges.csv)"),
        (b"source,target\n\xff\xfe,b\n", "must be a readable UTF-8 CSV"),
    ],
)
def test_read_edges__bad_file__is_named(tmp_path, content, message):
    path = tmp_path / "edges.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=re.escape(message)):
        read_edges(path)


def test_read_edges__no_file__is_named(tmp_path):
    with pytest.raises(DataError, match="must be a readable UTF-8 CSV"):
        read_edges(tmp_path / "absent.csv")


def test_parse_newick__polytomy_and_inner_names__distances_by_hand():
    """a-b 1+2; a-c 1+3+.5+1 = 5.5; b-e 2+3+.5+4 = 9.5; c-d 2; d-e 5."""
    tree = parse_newick(TREE)
    assert tree.tips == ("a", "b", "c", "d", "e")
    np.testing.assert_allclose(
        tree.distances,
        [
            [0, 3, 5.5, 5.5, 8.5],
            [3, 0, 6.5, 6.5, 9.5],
            [5.5, 6.5, 0, 2, 5],
            [5.5, 6.5, 2, 0, 5],
            [8.5, 9.5, 5, 5, 0],
        ],
    )


def test_parse_newick__quotes_comments_spaces_and_no_lengths__are_understood():
    tree = parse_newick(
        "[&R] ( 'it''s (odd), really' [note: [nested] (]:1e0 ,\n\"two words\":2.5E-1, Turdus merula,O'Brien)"
        "root:9[end] ;\n"
    )
    assert tree.tips == ("it's (odd), really", "two words", "Turdus merula", "O'Brien")
    np.testing.assert_allclose(tree.distances[0], [0, 1.25, 2, 2])  # a missing length counts as 1


def test_parse_newick__single_tip_and_single_child__work():
    assert parse_newick("a;").distances.tolist() == [[0.0]]
    assert parse_newick("((a:1):2,b:1)").distances.tolist() == [[0.0, 4.0], [4.0, 0.0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "hold a whole tree; got an early end (character 0"),
        ("((a,b);", "have ',' or ')' here; got ';' (character 6"),
        ("((a,b)", "close every '('; got 1 unclosed at the end (character 6"),
        ("(a,b));", "have ';' here; got ')' (character 5, near '(a,b));')"),
        ("(a,,b);", "have a name or '(' here; got ',' (character 3"),
        ("();", "have a name or '(' here; got ')' (character 1"),
        ("(a b:x);", "have numbers as branch lengths; got 'x' (character 5"),
        ("(a:-1,b);", "have finite branch lengths, 0 or larger; got -1 (character 3"),
        ("(a:nan,b);", "have finite branch lengths, 0 or larger; got nan"),
        ("(a:,b);", "have a branch length here; got ',' (character 3"),
        ("(a:1 'b');", "have numbers as branch lengths; got \"1 'b'\" (character 3"),
        ("(a,b)(c,d);", "have ';' here; got '(' (character 5"),
        ("(a,b); (c,d);", "hold one tree; got '(' after the semicolon (character 7"),
        ("(a,'b);", "close every quoted name; got ' without its pair (character 3"),
        ("(a[note,b);", "close every comment; got '[' without ']' (character 2"),
        ("(a],b);", "have ',' or ')' here; got ']' (character 2"),
        ("(a,a,b,b);", "tips of a tree must have different names; got 'a', 'b' repeatedly"),
    ],
)
def test_parse_newick__broken_text__message_says_where(text, message):
    with pytest.raises(DataError, match=re.escape(message)):
        parse_newick(text)


def random_tree(rng, n_tips):
    """Join random runs of subtrees; return the text and the parent and length of every node."""
    nodes = [{"name": f"t{i}", "length": float(rng.integers(1, 9)), "children": []} for i in range(n_tips)]
    while len(nodes) > 1:
        start = rng.integers(len(nodes) - 1)
        children = nodes[start : start + int(rng.integers(2, 4))]
        nodes[start : start + len(children)] = [{"name": "", "length": float(rng.integers(1, 9)), "children": children}]
    return nodes[0]


def write(node):
    inside = f"({','.join(map(write, node['children']))})" if node["children"] else ""
    return f"{inside}{node['name']}:{node['length']}"


def paths(node, above=()):
    """For each tip, the list of (node id, length) from the root down."""
    here = (*above, (id(node), node["length"]))
    if not node["children"]:
        return {node["name"]: here}
    return {name: path for child in node["children"] for name, path in paths(child, here).items()}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 14))
def test_parse_newick__random_trees__distances_equal_walks_along_branches(seed, n_tips):
    root = random_tree(np.random.default_rng(seed), n_tips)
    tree = parse_newick(write(root) + ";")
    walks = paths(root)
    for i, a in enumerate(tree.tips):
        for j, b in enumerate(tree.tips):
            # Branches on exactly one of the two paths from the root.
            apart = set(walks[a]) ^ set(walks[b])
            assert tree.distances[i, j] == pytest.approx(sum(length for _, length in apart))


def test_parse_newick__ladder_of_a_thousand_tips__is_read_without_recursion():
    ladder = "(" * 999 + "t0" + "".join(f",t{i})" for i in range(1, 1000)) + ";"
    tree = parse_newick(ladder)
    # t0 hangs below all 999 brackets, the last tip right below the root.
    assert tree.distances[0, -1] == 1000
    assert tree.distances[0, 1] == 2


def test_phylogeny_graph__nearest_relative__is_made_symmetric():
    """Nearest: a-b, b-a, c-d, d-c; e's nearest is c (5, tie with d broken by label order)."""
    graph = phylogeny_graph(TREE, list("abcde"), n_neighbours=1)
    expected = edge_list_graph([("a", "b"), ("c", "d"), ("c", "e")], list("abcde"))
    np.testing.assert_array_equal(graph, expected)


def test_phylogeny_graph__distance__edges_up_to_it():
    graph = phylogeny_graph(parse_newick(TREE), list("abcde"), max_distance=5.0)
    expected = edge_list_graph([("a", "b"), ("c", "d"), ("c", "e"), ("d", "e")], list("abcde"))
    np.testing.assert_array_equal(graph, expected)


def test_phylogeny_graph__tree_text_file_or_matrix__same_graph(tmp_path):
    path = tmp_path / "tree.nwk"
    path.write_text(TREE, encoding="utf-8")
    names = list("dbca")
    from_text = phylogeny_graph(TREE, names, n_neighbours=1)
    order = [3, 1, 2, 0]
    matrix = parse_newick(TREE).distances[np.ix_(order, order)]
    np.testing.assert_array_equal(from_text, phylogeny_graph(path, names, n_neighbours=1))
    np.testing.assert_array_equal(from_text, phylogeny_graph(matrix, names, n_neighbours=1))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_phylogeny_graph__random_distances__equals_loops_and_is_valid(seed, n_neighbours):
    rng = np.random.default_rng(seed)
    distances = rng.random((7, 7))
    distances = np.triu(distances, 1) + np.triu(distances, 1).T
    graph = phylogeny_graph(distances, list("abcdefg"), n_neighbours=n_neighbours)
    expected = np.eye(7, dtype=bool)
    for i in range(7):
        ranked = sorted((j for j in range(7) if j != i), key=lambda j: distances[i, j])
        for j in ranked[:n_neighbours]:
            expected[i, j] = expected[j, i] = True
    np.testing.assert_array_equal(check_graph(graph, 7), expected)


def test_phylogeny_graph__more_neighbours_than_labels__is_complete():
    np.testing.assert_array_equal(phylogeny_graph(TREE, ["a", "c"], n_neighbours=9), np.ones((2, 2)))


def test_phylogeny_graph__underscores_and_spaces__match():
    tree = "(Turdus_merula:1,'Turdus  pilaris':1,Strix_aluco:9);"
    graph = phylogeny_graph(tree, ["Turdus merula", "Strix aluco", "Turdus_pilaris"], max_distance=2)
    assert graph.astype(int).tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]


def test_phylogeny_graph__label_not_in_tree__isolated_with_warning():
    with pytest.warns(DataWarning, match="keep only their self-edge: 'yeti'"):
        graph = phylogeny_graph(TREE, ["a", "yeti", "b"], n_neighbours=2)
    assert graph.astype(int).tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]


def test_phylogeny_graph__unknown_distance__is_no_edge():
    distances = np.array([[0, 1, np.nan], [1, 0, 2], [np.nan, 2, 0]])
    graph = phylogeny_graph(distances, list("abc"), n_neighbours=2)
    assert graph.astype(int).tolist() == [[1, 1, 0], [1, 1, 1], [0, 1, 1]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "exactly one of n_neighbours and max_distance must be given; got n_neighbours=None"),
        ({"n_neighbours": 2, "max_distance": 1}, "exactly one of n_neighbours and max_distance"),
        ({"n_neighbours": 0}, "n_neighbours must be at least 1; got 0"),
        ({"max_distance": -1}, "max_distance must be 0 or larger; got -1"),
        ({"max_distance": float("nan")}, "max_distance must be 0 or larger; got nan"),
    ],
)
def test_phylogeny_graph__bad_rule__is_named(arguments, message):
    with pytest.raises(ConfigError, match=message):
        phylogeny_graph(TREE, ["a", "b"], **arguments)


@pytest.mark.parametrize(
    ("phylogeny", "message"),
    [
        (
            "trees/birds.nwk",
            "phylogeny must be Newick text; got 'trees/birds.nwk'. For a file give a pathlib",
        ),
        ("(x,y);", "phylogeny must hold some of the labels; got none of 'a', 'b' among the tips 'x', 'y'"),
        ("(a,'a ',b);", "tips must differ in more than underscores and spaces; got 'a', 'a '"),
        (np.zeros((3, 3)), "distances must have shape (2, 2); got (3, 3)"),
        (np.array([[0, 1], [2, 0]]), "distances must be symmetric"),
        (np.array([[0, -1], [-1, 0]]), "distances must be 0 or larger; got -1.0"),
        (Path("absent.nwk"), "tree file must be readable UTF-8 text"),
    ],
)
def test_phylogeny_graph__bad_tree__is_named(phylogeny, message):
    with pytest.raises(DataError, match=re.escape(message)):
        phylogeny_graph(phylogeny, ["a", "b"], n_neighbours=1)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (np.ones((2, 3), dtype=bool), "graph must have shape (2, 2); got (2, 3)"),
        (np.eye(2), "graph must be bool; got float64"),
        (np.array([[True, True], [False, True]]), "graph must be symmetric; got one-way edges (0, 1)"),
        (np.array([[True, True], [True, False]]), "must keep every self-edge; got none for labels 1"),
    ],
)
def test_check_graph__broken_graph__is_named(graph, message):
    with pytest.raises(DataError, match=re.escape(message)):
        check_graph(graph, 2)


@pytest.mark.data
def test_parse_newick__bird_survey_tree__is_the_average_linkage_tree_of_its_distances():
    """The survey's tree came from its distances by average linkage: heights, not single pairs, agree."""
    folder = os.environ.get("HOTVAE_DATA_DIR")
    if not folder or not Path(folder, "bbs_clark2003_2009.nwk").exists():
        pytest.skip("bbs_clark2003_2009 is not in HOTVAE_DATA_DIR")
    with np.load(Path(folder, "bbs_clark2003_2009.npz"), allow_pickle=False) as survey:
        names, published = [str(name) for name in survey["species_names"]], survey["phylo_dist"].astype(float)
    text = Path(folder, "bbs_clark2003_2009.nwk").read_text(encoding="utf-8")
    tree = parse_newick(text)
    rows = [tree.tips.index(name) for name in names]
    distances = tree.distances[np.ix_(rows, rows)]
    expected = squareform(cophenet(linkage(squareform(published, checks=False), "average")))
    np.testing.assert_allclose(distances, expected, atol=1e-6)
    graph = phylogeny_graph(Phylogeny(tree.tips, tree.distances), names, n_neighbours=5)
    assert (graph.sum(axis=1) >= 6).all()
