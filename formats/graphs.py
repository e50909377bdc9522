"""Graphs from and to networkx and scipy.sparse objects."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from icml.formats.edges import EdgeList
from icml.formats.errors import InputError
from icml.formats.matrix import matrix_edges, require_square
from icml.formats.names import Names

if TYPE_CHECKING:
    import networkx as nx
    import scipy.sparse as sp


def edges_from_networkx(graph: Any, weight: str | None = "weight") -> EdgeList:
    """The edges of a networkx graph of any kind, in its order; a parallel edge is a row of its own.

    Args:
        graph: a Graph, DiGraph, MultiGraph or MultiDiGraph. Node i is the i-th of graph.nodes and its name str(node).
        weight: the edge attribute that holds the value; None to read none. If no edge has it there are no values; if
            only some have it, the others have value 1, as in networkx.

    Raises:
        InputError: two nodes have the same name, or a weight is no finite number.
    """
    source = "networkx graph"
    nodes = list(graph.nodes)
    names = [str(node) for node in nodes]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"two nodes have the name '{twice}'", source)
    number = {node: i for i, node in enumerate(nodes)}
    edges = list(graph.edges(data=weight)) if weight is not None else [(a, b, None) for a, b in graph.edges()]
    u = np.fromiter((number[a] for a, _, _ in edges), np.int32, len(edges))
    v = np.fromiter((number[b] for _, b, _ in edges), np.int32, len(edges))
    value = None
    if any(w is not None for _, _, w in edges):
        value = np.fromiter((_weight(a, b, w, source) for a, b, w in edges), np.float64, len(edges))
    return EdgeList(u, v, value, Names.from_strings(names), None, source, undirected=not graph.is_directed())


def _weight(a: object, b: object, weight: Any, source: str) -> float:
    if weight is None:
        return 1.0
    try:
        value = float(weight)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"edge {a} {b}: expected a finite number as weight, got {weight!r}", source)
    return value


def edges_from_scipy(matrix: Any) -> EdgeList:
    """The stored entries of a square scipy.sparse matrix or array, as edges between nodes "0", "1", ….

    A matrix that equals its transpose is an undirected graph and gives each edge once.

    Args:
        matrix: of shape (n, n), in any sparse format; real, integer or boolean.

    Raises:
        InputError: the matrix is not square or not real, or an entry is NaN or infinite.
    """
    source = "sparse matrix"
    if len(matrix.shape) != 2:
        raise InputError(f"expected a matrix, got {len(matrix.shape)} dimensions", source)
    n = require_square(matrix.shape[0], matrix.shape[1], source)
    entries = matrix.tocoo()
    if entries.dtype.kind not in "biuf":
        raise InputError(f"expected real numbers, got {entries.dtype}", source)
    rows, columns = (np.asarray(index, np.int64) for index in (entries.row, entries.col))
    values = np.asarray(entries.data, np.float64)
    bad = ~np.isfinite(values)
    if bad.any():
        k = int(np.argmax(bad))
        raise InputError(f"entry ({rows[k]}, {columns[k]}) is {values[k]}, not a finite number", source)
    return matrix_edges(rows, columns, values, Names.from_range(0, n), source)


def to_networkx(edges: EdgeList, *, create_using: Any = None, weight: str = "weight") -> nx.Graph[str]:
    """A networkx graph with all nodes of `edges`, called by their names.

    Args:
        edges: any edge list.
        create_using: a networkx graph type or empty graph, by default nx.Graph, in which the last of parallel edges
            counts; use nx.MultiGraph to keep them all.
        weight: the edge attribute that values go to, if there are any.
    """
    import networkx as nx

    graph = nx.empty_graph(0, create_using)
    names = edges.names.to_list()
    graph.add_nodes_from(names)
    ends = zip(edges.u.tolist(), edges.v.tolist(), strict=True)
    if edges.value is None:
        graph.add_edges_from((names[a], names[b]) for a, b in ends)
    else:
        pairs = zip(ends, edges.value.tolist(), strict=True)
        graph.add_edges_from((names[a], names[b], {weight: x}) for (a, b), x in pairs)
    return graph


def to_scipy(edges: EdgeList, *, symmetric: bool | None = None) -> sp.csr_array:
    """The adjacency matrix as float64 of shape (n, n), row and column i being node i.

    Parallel edges are added up; an edge without value counts 1.

    Args:
        edges: any edge list.
        symmetric: whether to enter each edge in both directions (a self-loop once); by default edges.undirected.
    """
    import scipy.sparse as sp

    u, v = edges.u, edges.v
    value = np.ones(len(u)) if edges.value is None else edges.value
    if edges.undirected if symmetric is None else symmetric:
        twice = u != v
        u, v = np.concatenate([u, v[twice]]), np.concatenate([v, u[twice]])
        value = np.concatenate([value, value[twice]])
    n = len(edges.names)
    return sp.coo_array((value, (u, v)), shape=(n, n)).tocsr()
