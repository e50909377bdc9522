"""Lower bounds for correlation clustering and max-cut, and clusterings certified by them.

A bound is a packing of obstructions: edge sets of which every clustering gets a known number wrong. The paper packs
triangles by multiplicative weights; longer cycles, cliques, wedges and stars are added here.

    >>> import networkx as nx
    >>> from icml.tools.cclust_lb import certify, from_networkx
    >>> graph, nodes = from_networkx(nx.karate_club_graph(), weight=None)
    >>> result = certify(graph, "cc-complete")
    >>> result.cost, result.bound.lower_int
    (50.0, 50)

Source: "Instance-Specific Approximation Ratios for Correlation Clustering and Max-Cut", ICML 2026.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from icml.tools.lazy import attach

if TYPE_CHECKING:
    from icml.tools.cclust_lb.bounds import Bound, Packing
    from icml.tools.cclust_lb.certificate import load_certificate, save_certificate, verify
    from icml.tools.cclust_lb.certification import BoundOptions, Certified, HeuristicOptions, certify
    from icml.tools.cclust_lb.clustering import cluster, cost
    from icml.tools.cclust_lb.graphs import communities, from_networkx, from_scipy, to_networkx
    from icml.tools.cclust_lb.packing import bound
    from icml.tools.cclust_lb.problem import Problem, SignedGraph, choose_problem, merge_edges
    from icml.tools.cclust_lb.report import blame, ratios

# Imported on first use, so that the command's --help does not import numpy.
_HOMES = {
    "Bound": "bounds",
    "BoundOptions": "certification",
    "Certified": "certification",
    "HeuristicOptions": "certification",
    "Packing": "bounds",
    "Problem": "problem",
    "SignedGraph": "problem",
    "blame": "report",
    "bound": "packing",
    "certify": "certification",
    "choose_problem": "problem",
    "cluster": "clustering",
    "communities": "graphs",
    "cost": "clustering",
    "from_networkx": "graphs",
    "from_scipy": "graphs",
    "load_certificate": "certificate",
    "merge_edges": "problem",
    "ratios": "report",
    "save_certificate": "certificate",
    "to_networkx": "graphs",
    "verify": "certificate",
}

__all__ = [
    "Bound",
    "BoundOptions",
    "Certified",
    "HeuristicOptions",
    "Packing",
    "Problem",
    "SignedGraph",
    "blame",
    "bound",
    "certify",
    "choose_problem",
    "cluster",
    "communities",
    "cost",
    "from_networkx",
    "from_scipy",
    "load_certificate",
    "merge_edges",
    "ratios",
    "save_certificate",
    "to_networkx",
    "verify",
]


__getattr__ = attach(__name__, _HOMES)
