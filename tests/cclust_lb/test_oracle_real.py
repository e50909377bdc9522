"""The published claims and the known optima, on real graphs (sources: tests/data/cclust_lb/README.md).

Every bound is confirmed by the tool's verifier and, where that is quick, by the naive checker. Marked `slow`
is what takes minutes: the large graphs with all obstructions.
"""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from icml.tools.cclust_lb import Bound, SignedGraph, bound, cluster, cost, merge_edges, verify

from . import oracles
from .naive_checker import confirm, naive_cost

DATA = Path(__file__).parents[1] / "data" / "cclust_lb"
TOL = 0.005

SIGNED = [
    # name, edges, negative ones, least known disagreements
    ("highlandtribes", 58, 29, 2),
    ("cloister", 125, 69, 25),
    ("congress", 521, 107, 18),
    ("bitcoinalpha", 13876, 1152, 720),
    ("bitcoinotc", 21134, 2901, 1052),
    ("wikielections", 100693, 22253, 14475),
    ("twitterreferendum", 251406, 12794, 11466),
]
NAMES = [name for name, *_ in SIGNED]
LARGE = ("wikielections", "twitterreferendum")


@cache
def signed_graph(name: str) -> SignedGraph:
    """Nodes numbered by their sorted names; weight 1, sign of the sum of all rows of the pair."""
    with gzip.open(DATA / f"{name}.csv.gz", "rt") as rows:
        table = np.loadtxt(rows, delimiter=",")
    _, number = np.unique(table[:, :2].astype(np.int64), return_inverse=True)
    u, v = number.reshape(-1, 2).T
    return merge_edges(u, v, table[:, 2])


@cache
def plain_graph(name: str) -> SignedGraph:
    """An unsigned graph from the data folder or, for the classics, from networkx."""
    classics = {
        "karate": nx.karate_club_graph,
        "lesmis": nx.les_miserables_graph,
        "florentine": nx.florentine_families_graph,
    }
    if name in classics:
        named = nx.convert_node_labels_to_integers(classics[name]())
        edges = np.array([edge[:2] for edge in named.edges])
    else:
        with gzip.open(DATA / f"{name}.edges.gz", "rt") as rows:
            edges = np.loadtxt(rows, dtype=np.int64)
    return merge_edges(edges[:, 0], edges[:, 1])


def confirmed(graph: SignedGraph, problem: str, **options: object) -> Bound:
    """A bound whose packing has been checked by other code than made it."""
    found = bound(graph, problem=problem, **options)
    checked = verify(found, graph)
    assert checked.ok, checked.reason
    assert (checked.lower, checked.lower_int) == (found.lower, found.lower_int)
    if graph.m <= 30_000:
        confirm(found, graph, problem)
    assert found.lower <= found.lp_upper
    return found


@cache
def triangle_bound(name: str) -> Bound:
    """The paper's bound: bad triangles alone."""
    return confirmed(signed_graph(name), "cc", obstructions="triangle", tol=TOL)


@cache
def full_bound(name: str, problem: str) -> Bound:
    """All obstructions, on a signed graph."""
    return confirmed(signed_graph(name), problem, tol=TOL)


def heuristic_cost(graph: SignedGraph, problem: str, seconds: float, target: float | None = None) -> float:
    """What the tool's own clustering costs, counted naively as well; it may stop early at the target."""
    labels = cluster(graph, problem=problem, seconds=seconds, target=target, seed=0)
    paid = cost(graph, labels=labels, problem=problem)
    assert paid == naive_cost(graph, labels, problem)
    if problem in ("frustration", "maxcut"):
        assert len(np.unique(labels)) <= 2
    return paid


# --- claim 1: the seven signed graphs ---


@pytest.mark.parametrize(("name", "edges", "negative", "_"), SIGNED)
def test_graph_is_the_one_of_the_table(name: str, edges: int, negative: int, _: int) -> None:
    graph = signed_graph(name)
    assert (graph.m, int(graph.negative.sum())) == (edges, negative)


@pytest.mark.parametrize(
    ("name", "exact"),
    [("highlandtribes", 1), ("cloister", 24), ("congress", 6), ("bitcoinalpha", 450), ("bitcoinotc", 618)],
)
def test_triangle_bound_is_near_the_exact_lp(name: str, exact: float) -> None:
    graph = signed_graph(name)
    assert oracles.triangle_lp(graph, "cc") == pytest.approx(exact, abs=1e-6)
    found = triangle_bound(name)
    assert exact / (1 + 2 * TOL) <= found.lower <= exact
    assert exact <= found.lp_upper + 1e-6
    if graph.m > 1000:  # on tiny graphs the covering side stays loose
        assert (found.lp_upper - found.lower) / found.lower <= TOL


@pytest.mark.parametrize("name", ["bitcoinalpha", "bitcoinotc"])
def test_triangle_bound_of_frustration_is_near_the_exact_lp(name: str) -> None:
    graph = signed_graph(name)
    found = confirmed(graph, "frustration", obstructions="triangle", tol=TOL)
    exact = oracles.triangle_lp(graph, "frustration")
    assert exact / (1 + 2 * TOL) <= found.lower <= exact + 1e-6
    assert exact <= found.lp_upper + 1e-6


@pytest.mark.parametrize("engine", ["entropic", "gk"])
def test_engines_agree_on_weighted_triangles(engine: str) -> None:
    """Summed ratings: the LP is 1875."""
    with gzip.open(DATA / "bitcoinalpha.csv.gz", "rt") as rows:
        table = np.loadtxt(rows, delimiter=",")
    _, number = np.unique(table[:, :2].astype(np.int64), return_inverse=True)
    u, v = number.reshape(-1, 2).T
    graph = merge_edges(u, v, table[:, 2], weights="abs")
    exact = oracles.triangle_lp(graph, "cc")
    assert exact == pytest.approx(1875, abs=1e-6)
    found = confirmed(graph, "cc", obstructions="triangle", engine=engine, tol=TOL)
    assert exact / (1 + 2 * TOL) <= found.lower <= exact + 1e-6
    assert exact <= found.lp_upper + 1e-6


def test_engines_are_two() -> None:
    """They agree on the value because of the LP, and not because they are one."""
    graph = signed_graph("bitcoinotc")
    one = bound(graph, obstructions="triangle", engine="entropic", tol=TOL)
    other = bound(graph, obstructions="triangle", engine="gk", tol=TOL)
    assert one.lower == pytest.approx(other.lower, rel=2 * TOL)
    assert not np.array_equal(one.cover, other.cover)


def test_wikielections_triangles_reach_the_lp() -> None:
    """HiGHS finds 12026.0 in some minutes."""
    found = triangle_bound("wikielections")
    assert 12026 / (1 + TOL) <= found.lower <= 12026 <= found.lp_upper + 1e-6


def test_triangles_alone_certify_what_the_paper_claims() -> None:
    """Means over seven real graphs: disagreements within 1.97 of optimal, agreements within 0.94."""
    disagree, agree = [], []
    for name, edges, _, _ in SIGNED:
        lower = triangle_bound(name).lower
        paid = heuristic_cost(signed_graph(name), "cc", seconds=3.0 if name in LARGE else 0.5)
        disagree.append(paid / lower)
        agree.append((edges - paid) / (edges - lower))
    assert min(disagree) >= 1
    assert np.mean(disagree) <= 1.80
    assert np.mean(agree) >= 0.975


@pytest.mark.parametrize(
    ("name", "optimum"),
    [("highlandtribes", 2), ("cloister", 25), ("congress", 18), ("bitcoinalpha", 720), ("bitcoinotc", 1052)],
)
def test_optimum_is_proven_by_cycles(name: str, optimum: int) -> None:
    assert full_bound(name, "cc").lower_int == optimum
    assert heuristic_cost(signed_graph(name), "cc", seconds=20.0, target=optimum) == optimum


@pytest.mark.parametrize(
    ("name", "optimum"),
    [("highlandtribes", 7), ("cloister", 34), ("congress", 18), ("bitcoinalpha", 720), ("bitcoinotc", 1073)],
)
def test_frustration_is_proven(name: str, optimum: int) -> None:
    assert full_bound(name, "frustration").lower_int == optimum
    assert heuristic_cost(signed_graph(name), "frustration", seconds=20.0, target=optimum) == optimum


@pytest.mark.slow
def test_all_obstructions_close_the_gap_on_the_seven() -> None:
    disagree, agree = [], []
    for name, edges, _, known in SIGNED:
        lower = full_bound(name, "cc").lower_int
        paid = heuristic_cost(signed_graph(name), "cc", seconds=30.0 if name in LARGE else 2.0)
        assert lower <= known
        disagree.append(paid / lower)
        agree.append((edges - paid) / (edges - lower))
    assert np.mean(disagree) <= 1.001
    assert np.mean(agree) >= 0.9999


@pytest.mark.slow
@pytest.mark.parametrize(("name", "at_least"), [("wikielections", 14450), ("twitterreferendum", 11457)])
def test_large_signed_graphs_reach_the_figures(name: str, at_least: int) -> None:
    assert at_least <= full_bound(name, "cc").lower <= {row[0]: row[3] for row in SIGNED}[name]


# --- maxcut ---

MAXCUT = [
    # name, greedy packing of triangles, bound with cliques, uncut edges of a good cut
    ("ca-CondMat", 22370, 29175, 31643),
    ("ca-HepPh", 33447, 44127, 49864),
    ("ca-AstroPh", 55137, 71554, 79236),
    ("email-Enron", 44917, 56271, 62684),
]


@pytest.mark.parametrize("name", ["dolphins", "polbooks", "football", "adjnoun"])
def test_maxcut_of_small_graphs_is_nearly_closed(name: str) -> None:
    graph = plain_graph(name)
    triangles = confirmed(graph, "maxcut", obstructions="triangle")
    exact = oracles.triangle_lp(graph, "maxcut")
    assert exact / (1 + 2 * TOL) <= triangles.lower <= exact + 1e-6
    full = confirmed(graph, "maxcut")
    uncut = heuristic_cost(graph, "maxcut", seconds=0.5)
    assert triangles.lower < full.lower
    assert full.lower_int <= uncut
    assert (graph.m - uncut) / (graph.m - full.lower) >= 0.97


@pytest.mark.slow
@pytest.mark.parametrize(("name", "greedy", "with_cliques", "uncut"), MAXCUT)
def test_maxcut_of_collaboration_graphs(name: str, greedy: int, with_cliques: int, uncut: int) -> None:
    graph = plain_graph(name)
    triangles = confirmed(graph, "maxcut", obstructions="triangle")
    cliques = confirmed(graph, "maxcut", obstructions="triangle,clique")
    assert greedy < triangles.lower < cliques.lower <= uncut
    assert cliques.lower >= 0.995 * with_cliques
    assert cliques.lower <= heuristic_cost(graph, "maxcut", seconds=20.0) <= 1.005 * uncut


@pytest.mark.slow
def test_maxcut_of_brightkite_with_cycles() -> None:
    graph = plain_graph("soc-brightkite")
    full = confirmed(graph, "maxcut", time_limit=120.0)
    assert 47886 <= full.lower <= 60360


# --- cc-complete ---

PROVEN = [("karate", 50), ("lesmis", 103), ("florentine", 10), ("football", 273)]
NEARLY = [
    # name, wedge LP, bound with stars, cost of a good clustering
    ("karate", 38.5, 49.79, 50),
    ("lesmis", 91.5, 102.6, 103),
    ("florentine", 0, 10, 10),
    ("football", 0, 272.1, 273),
    ("dolphins", 79.5, 96.1, 97),
    ("polbooks", 220, 300.2, 303),
    ("jazz", 1357, 1607.8, 1611),
    ("netscience", 353.5, 416, 418),
    ("celegansneural", 1074, 1733.7, 1766),
]


@pytest.mark.parametrize(("name", "optimum"), PROVEN)
def test_cluster_editing_optimum_is_proven(name: str, optimum: int) -> None:
    graph = plain_graph(name)
    assert confirmed(graph, "cc-complete").lower_int == optimum
    assert heuristic_cost(graph, "cc-complete", seconds=20.0, target=optimum) == optimum


@pytest.mark.parametrize(("name", "wedge_lp", "with_stars", "good"), NEARLY)
def test_cluster_editing_figures(name: str, wedge_lp: float, with_stars: float, good: int) -> None:
    graph = plain_graph(name)
    full = confirmed(graph, "cc-complete")
    assert full.lower_int is not None
    assert with_stars <= full.lower_int <= good
    if wedge_lp:
        wedges = confirmed(graph, "cc-complete", obstructions="wedge")
        assert 0.98 * wedge_lp <= wedges.lower <= wedge_lp + 1e-6
    if wedge_lp and graph.m < 1000:
        assert oracles.wedge_lp(graph) == pytest.approx(wedge_lp, abs=0.6)
    assert full.lower <= heuristic_cost(graph, "cc-complete", seconds=10.0, target=good) <= 1.005 * good


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "wedges", "with_stars", "good"),
    [
        ("ca-CondMat", 41519, 56174, 56707),
        ("soc-brightkite", 105848, 166815, 176181),
        ("email-Enron", 87526, 140258, 151106),
    ],
)
def test_cluster_editing_of_large_graphs(name: str, wedges: int, with_stars: int, good: int) -> None:
    graph = plain_graph(name)
    full = confirmed(graph, "cc-complete", time_limit=90.0)
    assert full.lower_int is not None
    assert wedges < with_stars <= full.lower_int <= good
    assert full.lower <= heuristic_cost(graph, "cc-complete", seconds=30.0) <= 1.005 * good
