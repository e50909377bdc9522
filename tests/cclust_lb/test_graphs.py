"""networkx and scipy objects in and out, against the objects themselves and against the reader of files."""

from __future__ import annotations

import doctest
import io
from collections.abc import Callable, Hashable
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import icml.tools.cclust_lb as tool
from icml.formats import InputError, read_edges
from icml.tools.cclust_lb import SignedGraph, communities, from_networkx, from_scipy, merge_edges, to_networkx

Edges = dict[frozenset[Hashable], float]


def signed_edges(graph: SignedGraph, nodes: list[Hashable] | None = None) -> Edges:
    """Signed weights by pair."""
    called = list(range(graph.n)) if nodes is None else nodes
    signed = np.where(graph.negative, -graph.weight, graph.weight).tolist()
    ends = zip(graph.u.tolist(), graph.v.tolist(), strict=True)
    return {frozenset((called[a], called[b])): w for (a, b), w in zip(ends, signed, strict=True)}


def through_a_file(matrix: Any, merge: str, weights: str) -> SignedGraph:
    """What the command line makes of the matrix in an NPZ file."""
    file = io.BytesIO()
    sp.save_npz(file, matrix)
    edges = read_edges(io.BytesIO(file.getvalue()))
    return merge_edges(edges.u, edges.v, edges.value, n=len(edges.names), merge=merge, weights=weights)


# networkx

NODES: list[Hashable] = ["a", "b", 3, (0, 1), frozenset("x"), 2.5]


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(-3, 3)), max_size=14))
def test_networkx_graph_is_the_sum_of_its_edges(kind: Any, rows: list[tuple[int, int, int]]) -> None:
    graph = kind()
    graph.add_nodes_from(NODES)
    for a, b, w in rows:
        graph.add_edge(NODES[a], NODES[b], weight=w)
    expected: Edges = {}
    for a, b, w in graph.edges(data="weight"):
        if a != b:
            expected[frozenset((a, b))] = expected.get(frozenset((a, b)), 0) + w
    expected = {pair: w for pair, w in expected.items() if w}
    if not expected:
        with pytest.raises(InputError, match="no edges"):
            from_networkx(graph, weights="abs")
        return
    merged, nodes = from_networkx(graph, weights="abs")
    assert nodes == NODES
    assert signed_edges(merged, nodes) == expected


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda pair: pair[0] < pair[1]),
        st.sampled_from([-2.5, -1.0, 1.0, 4.0]),
        min_size=1,
    )
)
def test_networkx_round_trip(rows: dict[tuple[int, int], float]) -> None:
    graph: nx.Graph[Hashable] = nx.Graph()
    graph.add_nodes_from(NODES)
    graph.add_weighted_edges_from((NODES[a], NODES[b], w) for (a, b), w in rows.items())
    merged, nodes = from_networkx(graph, weights="abs")
    back = to_networkx(merged, nodes)
    assert list(back.nodes) == NODES
    assert nx.utils.graphs_equal(back, graph)
    again, numbers = from_networkx(to_networkx(merged), weights="abs")
    assert numbers == list(range(6))
    assert again.digest() == merged.digest()


def test_networkx_weight_attribute() -> None:
    graph = nx.Graph([("a", "b", {"trust": -2, "weight": 9}), ("b", "c")])
    for weight, expected in (("trust", [-2, 1]), ("weight", [9, 1]), (None, [1, 1]), ("absent", [1, 1])):
        merged, nodes = from_networkx(graph, weight=weight, weights="abs")
        assert list(signed_edges(merged, nodes).values()) == expected
    graph["b"]["c"]["trust"] = "some"
    with pytest.raises(InputError, match="expected a finite number as weight, got 'some'"):
        from_networkx(graph, weight="trust")


def test_networkx_merge_policy() -> None:
    graph = nx.MultiGraph([("a", "b", {"weight": 1}), ("b", "a", {"weight": -3}), ("b", "c", {"weight": 1})])
    for merge, expected in (("sum", [-2, 1]), ("first", [1, 1]), ("last", [-3, 1]), ("drop", [1])):
        merged, nodes = from_networkx(graph, merge=merge, weights="abs")
        assert list(signed_edges(merged, nodes).values()) == expected


def test_karate_club_of_the_package_docstring() -> None:
    result = doctest.testmod(tool)
    assert result.attempted >= 4
    assert result.failed == 0


# scipy.sparse


@st.composite
def matrices(draw: st.DrawFn) -> Any:
    """Square, sometimes symmetric, triangular or almost symmetric, some entries stored twice or zero."""
    n = draw(st.integers(2, 6))
    index = st.integers(0, n - 1)
    entries = draw(st.lists(st.tuples(index, index, st.integers(-3, 3)), min_size=1, max_size=12))
    shape = draw(st.sampled_from(["any", "symmetric", "upper", "almost"]))
    if shape == "upper":
        entries = [(min(i, j), max(i, j), w) for i, j, w in entries]
    if shape in ("symmetric", "almost"):
        entries += [(j, i, w) for i, j, w in entries if i != j]
    if shape == "almost":
        i, j, w = entries[0]
        entries[0] = (i, j, w + 1)
    rows, columns, values = zip(*entries, strict=True)
    matrix = sp.coo_array((np.array(values, float), (rows, columns)), shape=(n, n))
    return matrix.asformat(draw(st.sampled_from(["coo", "csr", "csc"])))


@pytest.mark.parametrize("weights", ["unit", "abs"])
@pytest.mark.parametrize("merge", ["sum", "first", "last", "drop"])
@settings(max_examples=80, deadline=None)
@given(matrix=matrices())
def test_matrix_is_the_graph_that_its_file_is(merge: str, weights: str, matrix: Any) -> None:
    def outcome(make: Callable[..., SignedGraph]) -> tuple[object, ...]:
        try:
            graph = make(matrix, merge=merge, weights=weights)
        except InputError as error:
            return (error.message,)
        return graph.digest(), graph.loops, graph.zero_sum

    assert outcome(from_scipy) == outcome(through_a_file)


@settings(max_examples=80, deadline=None)
@given(matrices())
def test_matrix_against_its_dense_form(matrix: Any) -> None:
    """Mirrored entries count once if the matrix is symmetric, and are added up if not."""
    dense = matrix.tocsr().toarray()
    summed = matrix.tocsr()
    summed.sum_duplicates()
    both = dense if np.array_equal(dense, dense.T) else dense + dense.T
    expected = {frozenset((i, j)): both[i, j] for j in range(len(dense)) for i in range(j) if both[i, j]}
    if not expected:
        with pytest.raises(InputError, match="no edges"):
            from_scipy(summed, weights="abs")
        return
    found = from_scipy(summed, weights="abs")
    assert found.n == len(dense)
    assert signed_edges(found) == expected


def test_symmetric_and_triangular_matrices_are_the_same_graph() -> None:
    dense = np.array([[0, 2, -1], [2, 0, 3], [-1, 3, 0.0]])
    graphs = [
        from_scipy(sp.csr_array(part), weights="abs") for part in (dense, np.triu(dense), np.tril(dense))
    ]
    assert len({graph.digest() for graph in graphs}) == 1
    assert signed_edges(graphs[0]) == {frozenset((0, 1)): 2, frozenset((0, 2)): -1, frozenset((1, 2)): 3}


def test_bad_matrices() -> None:
    with pytest.raises(InputError, match="square matrix, this one is 2 x 3"):
        from_scipy(sp.csr_array((2, 3)))
    with pytest.raises(InputError, match=r"entry \(0, 1\) is nan"):
        from_scipy(sp.csr_array(np.array([[0, np.nan], [0, 0]])))
    with pytest.raises(InputError, match="no edges left after dropping 2 self-loops"):
        from_scipy(sp.csr_array(np.eye(2)))


# Results


def test_communities_are_sets_in_the_order_of_the_clusters() -> None:
    assert communities([0, 1, 0, 2], ["a", "b", "c", "d"]) == [{"a", "c"}, {"b"}, {"d"}]
    assert communities(np.array([5, 2, 5])) == [{1}, {0, 2}]
    with pytest.raises(ValueError, match=r"shorter|longer"):
        communities([0, 1], ["a"])
