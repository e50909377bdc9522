"""Graphs in and out: networkx graphs and scipy sparse matrices become `SignedGraph`s, results go back."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from icml.formats.errors import InputError
from icml.tools.cclust_lb.problem import SignedGraph, merge_edges

if TYPE_CHECKING:
    import networkx
    import scipy.sparse


def from_networkx(
    graph: networkx.Graph, *, weight: str | None = "weight", merge: str = "sum", weights: str = "unit"
) -> tuple[SignedGraph, list[Hashable]]:
    """A networkx graph of any kind, and its nodes in the order of their numbers.

    Args:
        graph: directions are ignored, parallel edges merged.
        weight: the edge attribute with the signed weight; edges without it, and all if None, count as +1.
        merge, weights: as for `merge_edges`.

    Raises:
        InputError: a weight is not a finite number, or no edge is left.
    """
    nodes = list(graph.nodes)
    number = {node: i for i, node in enumerate(nodes)}
    rows = list(graph.edges(data=weight, default=1)) if weight else [(a, b, 1) for a, b in graph.edges()]
    try:
        s = np.array([value for _, _, value in rows], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"the edge attribute {weight!r} is not a number everywhere") from error
    u = np.fromiter((number[a] for a, _, _ in rows), np.int64, len(rows))
    v = np.fromiter((number[b] for _, b, _ in rows), np.int64, len(rows))
    return merge_edges(u, v, s, n=len(nodes), merge=merge, weights=weights), nodes


def from_scipy(
    matrix: scipy.sparse.sparray | scipy.sparse.spmatrix, *, merge: str = "first", weights: str = "unit"
) -> SignedGraph:
    """A square scipy sparse matrix of signed weights; node i is row and column i.

    Args:
        matrix: explicit zeros are no edges; a symmetric matrix holds each edge twice, which the default `merge` undoes.
        merge, weights: as for `merge_edges`.

    Raises:
        InputError: the matrix is not square, or no edge is left.
    """
    rows, columns = matrix.shape
    if rows != columns:
        raise InputError(f"an adjacency matrix is square; this one is {rows} x {columns}")
    coo: Any = matrix.tocoo()
    present = coo.data != 0
    return merge_edges(
        coo.row[present].astype(np.int64),
        coo.col[present].astype(np.int64),
        coo.data[present],
        n=rows,
        merge=merge,
        weights=weights,
    )


def to_networkx(graph: SignedGraph, nodes: Sequence[Hashable] | None = None) -> networkx.Graph:
    """The merged graph as a networkx graph with signed `weight`s.

    Args:
        graph: what to convert.
        nodes: what to call the nodes; default their numbers.
    """
    import networkx

    called = range(graph.n) if nodes is None else nodes
    result = networkx.Graph()
    result.add_nodes_from(called)
    signed = np.where(graph.negative, -graph.weight, graph.weight)
    ends = zip(graph.u.tolist(), graph.v.tolist(), signed.tolist(), strict=True)
    result.add_weighted_edges_from((called[a], called[b], w) for a, b, w in ends)
    return result


def communities(labels: ArrayLike, nodes: Sequence[Hashable] | None = None) -> list[set[Hashable]]:
    """A clustering as networkx writes it, a list of sets, in the order of the cluster numbers.

    Args:
        labels: int (n,), the cluster of each node.
        nodes: what to call the nodes; default their numbers.
    """
    numbers = np.asarray(labels)
    called = range(len(numbers)) if nodes is None else nodes
    sets: dict[int, set[Hashable]] = {}
    for node, cluster in zip(called, numbers.tolist(), strict=True):
        sets.setdefault(cluster, set()).add(node)
    return [sets[cluster] for cluster in sorted(sets)]
