"""Graphs in and out: networkx graphs and scipy sparse matrices become `SignedGraph`s, results go back.

They are read by `icml.formats.graphs`, so that an object gives the graph that the command line reads from its file.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from icml.formats.edges import EdgeList
from icml.formats.graphs import edges_from_networkx, edges_from_scipy
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
        InputError: a weight is not a finite number, two nodes have the same name, or no edge is left.
    """
    return _merged(edges_from_networkx(graph, weight), merge, weights), list(graph.nodes)


def from_scipy(
    matrix: scipy.sparse.sparray | scipy.sparse.spmatrix, *, merge: str = "sum", weights: str = "unit"
) -> SignedGraph:
    """A square scipy sparse matrix of signed weights; node i is row and column i.

    Args:
        matrix: if it equals its transpose, each pair of mirrored entries is one row; if not, each stored entry is, so
            that a matrix of one triangle will do, and `merge` decides where entries (i, j) and (j, i) differ. Stored
            zeros are dropped by "sum" and refused by the others.
        merge, weights: as for `merge_edges`.

    Raises:
        InputError: the matrix is not square or not real, an entry is not finite, or no edge is left.
    """
    return _merged(edges_from_scipy(matrix), merge, weights)


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


def _merged(edges: EdgeList, merge: str, weights: str) -> SignedGraph:
    return merge_edges(edges.u, edges.v, edges.value, n=len(edges.names), merge=merge, weights=weights)
