"""Graphs whose bound is known on paper, at sizes that no brute force reaches."""

from __future__ import annotations

import itertools
import math

import networkx as nx
import numpy as np
import pytest

from icml.tools.cclust_lb import Bound, SignedGraph, bound, merge_edges

from . import oracles
from .naive_checker import confirm

TOL = 0.005
every_engine = pytest.mark.parametrize("engine", ["entropic", "gk"])


def graph_of(
    edges: list[tuple[int, int]], signs: list[float] | None = None, weights: str = "unit"
) -> SignedGraph:
    """Graph of a list of edges."""
    u, v = np.array(edges).T
    return merge_edges(u, v, signs, weights=weights)


def ring(k: int) -> list[tuple[int, int]]:
    """Edges of the cycle on k nodes."""
    return [(i, (i + 1) % k) for i in range(k)]


def checked(graph: SignedGraph, problem: str, **options: object) -> Bound:
    """A bound that the naive checker has confirmed."""
    found = bound(graph, problem=problem, **options)
    confirm(found, graph, problem)
    assert found.lower <= found.lp_upper
    return found


def assert_value(found: Bound, exact: float, tol: float = TOL) -> None:
    """The bound is the exact value, up to the gap that was asked for, and never above."""
    assert found.lower <= exact + 1e-9
    assert found.lower >= exact / (1 + 2 * tol)


def assert_proves(found: Bound, optimum: int) -> None:
    """Rounding up gives the optimum itself."""
    assert_value(found, optimum)
    assert found.lower_int == optimum


# --- cc ---


@every_engine
@pytest.mark.parametrize("problem", ["cc", "frustration"])
def test_one_bad_triangle_costs_one(problem: str, engine: str) -> None:
    assert_proves(checked(graph_of(ring(3), [1, 1, -1]), problem, engine=engine), 1)


@pytest.mark.parametrize("problem", ["cc", "frustration"])
@pytest.mark.parametrize("k", [4, 5, 6, 7, 10, 30, 100, 249, 250, 251, 255, 256, 257, 300, 1000, 5000])
def test_one_minus_cycle_costs_one_and_has_no_triangle(problem: str, k: int) -> None:
    graph = graph_of(ring(k), [-1] + [1] * (k - 1))
    assert checked(graph, problem, obstructions="triangle").lower == 0
    assert_proves(checked(graph, problem), 1)


@pytest.mark.parametrize("negatives", [2, 3, 4, 5])
@pytest.mark.parametrize("k", [6, 17, 60])
def test_cycles_with_more_minuses(negatives: int, k: int) -> None:
    """cc leaves them alone; two clusters pay one for an odd number."""
    graph = graph_of(ring(k), [-1] * negatives + [1] * (k - negatives))
    assert checked(graph, "cc").lower == 0
    found = checked(graph, "frustration")
    if negatives % 2:
        assert_proves(found, 1)
    else:
        assert (found.lower, found.lower_int) == (0, 0)


@every_engine
@pytest.mark.parametrize("seed", range(5))
def test_balanced_graph_costs_nothing(seed: int, engine: str) -> None:
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 5, size=200)
    u, v = rng.integers(0, 200, size=(2, 3000))
    keep = u != v
    u, v = u[keep], v[keep]
    many = merge_edges(u, v, np.where(label[u] == label[v], 1, -1))
    assert (checked(many, "cc", engine=engine).lower, many.loops) == (0, 0)
    side = label % 2
    two = merge_edges(u, v, np.where(side[u] == side[v], 1, -1))
    assert checked(two, "frustration", engine=engine).lower == 0
    across = side[u] != side[v]
    assert checked(merge_edges(u[across], v[across]), "maxcut", engine=engine).lower == 0


@pytest.mark.parametrize("spokes", [3, 4, 5, 8, 13, 40])
def test_positive_wheel_with_negative_rim(spokes: int) -> None:
    """Rim edges pair up the spokes; every rim edge makes a bad triangle: LP k/2, optimum ceil(k/2)."""
    rim = [(1 + a, 1 + b) for a, b in ring(spokes)]
    graph = graph_of([(0, 1 + i) for i in range(spokes)] + rim, [1] * spokes + [-1] * spokes)
    found = checked(graph, "cc", obstructions="triangle")
    assert_value(found, spokes / 2)
    assert found.lower_int == math.ceil(spokes / 2)


# --- maxcut and frustration ---


@every_engine
@pytest.mark.parametrize("n", [3, 4, 5, 6, 7, 8, 10, 15, 25, 40])
def test_complete_graph_triangles(n: int, engine: str) -> None:
    graph = graph_of(list(itertools.combinations(range(n), 2)))
    assert_value(checked(graph, "maxcut", obstructions="triangle", engine=engine), n * (n - 1) / 6)


@pytest.mark.parametrize("problem", ["maxcut", "frustration"])
@pytest.mark.parametrize("n", [3, 4, 5, 6, 7, 8, 9, 10, 13, 16, 20, 25, 33, 40])
def test_complete_graph_cliques_are_exact(problem: str, n: int) -> None:
    edges = list(itertools.combinations(range(n), 2))
    graph = graph_of(edges, [-1] * len(edges) if problem == "frustration" else None)
    assert_proves(checked(graph, problem), (n - 1) ** 2 // 4)


@pytest.mark.parametrize("n", [5, 8, 12, 21])
def test_switching_does_not_change_frustration(n: int) -> None:
    """Flipping the signs around a node set keeps every cycle's parity, so a switched -K_n costs the same."""
    edges = list(itertools.combinations(range(n), 2))
    side = np.random.default_rng(n).integers(0, 2, size=n)
    signs = [-1 if side[a] == side[b] else 1 for a, b in edges]
    assert_proves(checked(graph_of(edges, signs), "frustration"), (n - 1) ** 2 // 4)


@pytest.mark.parametrize("k", [3, 5, 7, 9, 25, 101, 249, 251, 253, 301, 1001])
def test_odd_cycle_leaves_one_edge_uncut(k: int) -> None:
    assert_proves(checked(graph_of(ring(k)), "maxcut"), 1)
    if k > 3:
        assert checked(graph_of(ring(k)), "maxcut", obstructions="triangle").lower == 0


@pytest.mark.parametrize("k", [4, 6, 20, 100])
def test_even_cycle_is_cut_whole(k: int) -> None:
    assert checked(graph_of(ring(k)), "maxcut").lower == 0


@pytest.mark.parametrize("sizes", [(2, 3), (6, 6), (10, 21)])
def test_bipartite_graph_is_cut_whole(sizes: tuple[int, int]) -> None:
    left, right = sizes
    edges = [(a, left + b) for a in range(left) for b in range(right)]
    assert checked(graph_of(edges), "maxcut").lower == 0


@pytest.mark.parametrize(
    ("name", "uncut"),
    # Petersen: twelve 5-cycles, four through every edge. Dodecahedron: twelve faces, two at every edge.
    [("petersen_graph", 3), ("dodecahedral_graph", 6), ("icosahedral_graph", 10), ("octahedral_graph", 4)],
)
def test_symmetric_graphs(name: str, uncut: int) -> None:
    graph = graph_of(list(getattr(nx, name)().edges))
    assert_proves(checked(graph, "maxcut"), uncut)


@pytest.mark.parametrize("size", [4, 8, 14])
def test_triangulated_grid_leaves_half_of_each_triangle_pair(size: int) -> None:
    """Every square with one diagonal: planar, and cutting all sides leaves exactly the diagonals."""

    def at(i: int, j: int) -> int:
        return i * size + j

    inner = range(size - 1)
    edges = [(at(i, j), at(i, j + 1)) for i in range(size) for j in inner]
    edges += [(at(i, j), at(i + 1, j)) for i in inner for j in range(size)]
    edges += [(at(i, j), at(i + 1, j + 1)) for i in inner for j in inner]
    assert_proves(checked(graph_of(edges), "maxcut"), (size - 1) ** 2)


# --- cc-complete ---


def star(d: int, centre: int = 0) -> list[tuple[int, int]]:
    """Edges of K_{1,d}."""
    return [(centre, centre + 1 + i) for i in range(d)]


@every_engine
@pytest.mark.parametrize("d", [2, 3, 4, 5, 8, 13, 30])
def test_star_wedges_pack_half_its_edges(d: int, engine: str) -> None:
    assert_value(checked(graph_of(star(d)), "cc-complete", obstructions="wedge", engine=engine), d / 2)


@pytest.mark.parametrize("d", range(2, 9))
def test_star_is_exact_up_to_the_largest_star(d: int) -> None:
    assert_proves(checked(graph_of(star(d)), "cc-complete"), d - 1)
    assert_proves(checked(graph_of(star(d)), "cc-complete", star=d), d - 1)


@pytest.mark.parametrize("most", [2, 3, 4, 8])
@pytest.mark.parametrize("d", [10, 24, 64])
def test_stars_of_bounded_size_lose_their_share(d: int, most: int) -> None:
    """By symmetry the LP over stars of at most t leaves is d(t-1)/t."""
    found = checked(graph_of(star(d)), "cc-complete", star=most)
    exact = d * (most - 1) / most
    assert 0.97 * exact <= found.lower <= exact + 1e-9


@pytest.mark.parametrize("n", [3, 4, 5, 9, 30, 101])
def test_path_is_cut_every_other_edge(n: int) -> None:
    graph = graph_of(list(itertools.pairwise(range(n))))
    found = checked(graph, "cc-complete")
    assert_value(found, (n - 1) // 2)
    assert found.lower_int == (n - 1) // 2


@pytest.mark.parametrize("n", [4, 5, 6, 7, 20, 31, 100])
def test_cycle_of_complete_problem(n: int) -> None:
    """Wedges at half each: n/2, rounded up to the optimum (n = 4: two wedges share each missing pair)."""
    found = checked(graph_of(ring(n)), "cc-complete")
    assert_value(found, n / 2)
    assert found.lower_int == math.ceil(n / 2)


@pytest.mark.parametrize("sizes", [[1, 2, 3], [5, 5, 5], [10, 2, 7, 30]])
def test_disjoint_cliques_are_a_clustering(sizes: list[int]) -> None:
    edges, start = [], 0
    for size in sizes:
        edges += list(itertools.combinations(range(start, start + size), 2))
        start += size
    assert checked(graph_of(edges), "cc-complete").lower == 0


@pytest.mark.parametrize("p", [2, 3, 5, 12])
def test_clique_missing_one_pair(p: int) -> None:
    """Adding the pair costs 1; its wedges all share it."""
    edges = [edge for edge in itertools.combinations(range(p + 1), 2) if edge != (0, 1)]
    assert_proves(checked(graph_of(edges), "cc-complete"), 1)


# --- what holds on every graph ---

SAMPLES = {
    "cc": graph_of([*ring(3), (0, 3), (1, 3), (2, 3)], [-1, -1, -1, 1, 1, 1]),  # LP 1.5, optimum 2
    "frustration": graph_of([*ring(6), (0, 2), (1, 4)], [-1, 1, 1, 1, 1, -1, 1, -1]),
    "maxcut": graph_of(list(itertools.combinations(range(5), 2))),
    "cc-complete": graph_of(ring(5)),  # LP 2.5, optimum 3
}
every_problem = pytest.mark.parametrize("problem", list(SAMPLES))


def copies(graph: SignedGraph, count: int) -> SignedGraph:
    """Disjoint copies of a graph."""
    shift = np.repeat(np.arange(count) * graph.n, graph.m)
    s = np.tile(np.where(graph.negative, -graph.weight, graph.weight), count)
    return merge_edges(np.tile(graph.u, count) + shift, np.tile(graph.v, count) + shift, s, weights="abs")


@every_problem
@pytest.mark.parametrize("count", [2, 7, 100])
def test_disjoint_copies_add(problem: str, count: int) -> None:
    graph = SAMPLES[problem]
    one = oracles.Instance(graph, problem)
    exact, optimum = one.cover_lp(one.obstructions()), int(one.optimum())
    assert math.ceil(exact - 1e-6) == optimum > 0
    found = checked(copies(graph, count), problem)
    assert_value(found, count * exact, tol=0.01)
    assert found.lower_int == count * optimum  # each copy is rounded up by itself


@pytest.mark.parametrize("problem", ["cc", "frustration", "maxcut"])
@pytest.mark.parametrize("factor", [1e-12, 2.0**-6, 0.1, 3.0, 1000.0, 2.0**20, 1e15])
@pytest.mark.parametrize("kinds", ["triangle", "auto"])
def test_scaling_all_weights_scales_the_bound(problem: str, factor: float, kinds: str) -> None:
    rng = np.random.default_rng(8)
    edges = [pair for pair in itertools.combinations(range(14), 2) if rng.random() < 0.6]
    size = rng.integers(1, 9, size=len(edges)).astype(float)
    s = size if problem == "maxcut" else np.where(rng.random(len(edges)) < 0.4, -size, size)
    once = checked(graph_of(edges, s, weights="abs"), problem, obstructions=kinds)
    scaled = checked(graph_of(edges, s * factor, weights="abs"), problem, obstructions=kinds)
    assert once.lower > 0
    assert scaled.lower == pytest.approx(factor * once.lower, rel=2 * TOL)


@every_problem
def test_reordering_rows_changes_nothing(problem: str) -> None:
    graph = copies(SAMPLES[problem], 9)
    s = np.where(graph.negative, -graph.weight, graph.weight)
    order = np.random.default_rng(1).permutation(graph.m)
    found, again = bound(graph, problem=problem), bound(graph.v[order], graph.u[order], s[order], problem)
    assert found.digest == again.digest
    assert found.lower == again.lower
    assert np.array_equal(found.items.elements, again.items.elements)
    assert np.array_equal(found.items.y, again.items.y)
