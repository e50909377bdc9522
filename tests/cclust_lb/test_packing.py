"""`bound` as an anytime function, and the engine where its numbers are extreme."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from icml.formats.edges import read_edges
from icml.formats.errors import InputError
from icml.tools.cclust_lb.bounds import Bound
from icml.tools.cclust_lb.packing import bound
from icml.tools.cclust_lb.problem import Problem, SignedGraph, merge_edges


def assert_feasible(found: Bound, graph: SignedGraph) -> None:
    """Recomputes every load in integers; nothing here comes from the tool."""
    items = found.items
    capacity = np.concatenate([graph.weight, np.ones(len(items.pair_u))])
    units = np.floor(np.ldexp(capacity, items.scale_bits)).astype(np.int64)
    load = np.zeros(len(units), np.int64)
    np.add.at(load, items.elements, np.repeat(items.y, np.diff(items.ptr)))
    assert np.all(load <= units)
    assert np.all(items.y > 0)
    assert found.lower == pytest.approx(float(items.rhs @ items.y) / 2.0**items.scale_bits, rel=1e-12)


def random_signed(n: int, m: int, seed: int, weights: NDArray[np.float64] | None = None) -> SignedGraph:
    rng = np.random.default_rng(seed)
    u, v = rng.integers(0, n, (2, m))
    signs = np.where(rng.random(m) < 0.25, -1.0, 1.0)
    return merge_edges(
        u, v, signs if weights is None else signs * weights, n=n, weights="unit" if weights is None else "abs"
    )


def plain(graph: SignedGraph) -> SignedGraph:
    return SignedGraph(graph.n, graph.u, graph.v, graph.weight, np.zeros(graph.m, bool))


def for_problem(problem: str, graph: SignedGraph) -> SignedGraph:
    return graph if Problem(problem).signed else plain(graph)


every_problem = pytest.mark.parametrize("problem", list(Problem))


@pytest.fixture(scope="module")
def bitcoin() -> SignedGraph:
    edges = read_edges("examples/bitcoinotc.csv.gz")
    return merge_edges(edges.u, edges.v, edges.value)


def test_full_bound_proves_the_optimum_of_bitcoinotc(bitcoin: SignedGraph) -> None:
    found = bound(bitcoin)
    assert_feasible(found, bitcoin)
    assert (found.lower_int, found.finished) == (1052, "converged")
    assert found.gap < 0.005


@every_problem
@pytest.mark.parametrize("polls", [0, 1, 3])
def test_stopping_at_any_poll_leaves_a_valid_bound(problem: str, polls: int) -> None:
    graph = for_problem(problem, random_signed(2000, 60_000, 1))
    asked: list[float] = []

    def should_stop() -> bool:
        asked.append(time.monotonic())
        return len(asked) > polls

    found = bound(graph, problem=problem, should_stop=should_stop)
    assert found.finished == "stopped"
    assert len(asked) == polls + 1
    assert_feasible(found, graph)
    assert found.lower > 0
    assert found.lower <= found.lp_upper


@every_problem
@pytest.mark.parametrize("limit", [0.0, 0.05, 0.4])
def test_time_limit_is_kept_and_leaves_a_valid_bound(problem: str, limit: float) -> None:
    graph = for_problem(problem, random_signed(3000, 120_000, 2))
    start = time.process_time()
    found = bound(graph, problem=problem, time_limit=limit)
    assert time.process_time() - start < limit + 2
    assert found.finished == "time"
    assert_feasible(found, graph)


def test_an_exception_in_a_callback_comes_through(bitcoin: SignedGraph) -> None:
    class Enough(Exception):
        pass

    def fail(_: Any = None) -> bool:
        raise Enough

    with pytest.raises(Enough):
        bound(bitcoin, on_progress=fail)
    with pytest.raises(Enough):
        bound(random_signed(3000, 120_000, 3), should_stop=fail)


def test_target_ends_early_and_is_reached(bitcoin: SignedGraph) -> None:
    found = bound(bitcoin, target=1000)
    assert found.lower_int is not None
    assert 1000 <= found.lower_int <= 1052
    assert found.finished == "target"
    assert len(found.trace) < len(bound(bitcoin).trace)


def test_trace_rises_and_progress_tells_the_same(bitcoin: SignedGraph) -> None:
    seen: list[dict[str, Any]] = []
    found = bound(bitcoin, on_progress=seen.append)
    for entries in (seen, found.trace):
        assert [entry["lower"] for entry in entries] == sorted(entry["lower"] for entry in entries)
        assert [entry["t"] for entry in entries] == sorted(entry["t"] for entry in entries)
    assert [entry["lower"] for entry in seen] == [entry["lower"] for entry in found.trace]
    assert found.trace[-1]["lower"] == pytest.approx(found.lower)


@every_problem
def test_result_depends_on_the_seed_alone(problem: str) -> None:
    graph = for_problem(problem, random_signed(200, 1200, 4))
    first, second, other = (
        bound(graph, problem=problem, seed=seed, threads=threads)
        for seed, threads in ((7, 1), (7, 2), (8, 1))
    )
    assert np.array_equal(first.items.y, second.items.y)
    assert np.array_equal(first.items.elements, second.items.elements)
    assert not np.array_equal(first.items.elements, other.items.elements)
    assert first.lower == pytest.approx(other.lower, rel=0.01)


@every_problem
@pytest.mark.parametrize("engine", ["entropic", "gk"])
@pytest.mark.parametrize("span", [1.0, 3.0, 6.0])
def test_weights_over_many_orders_of_magnitude(problem: str, engine: str, span: float) -> None:
    """Weights of 10**-span..10**span: beyond what the ascent can hold in linear numbers."""
    weights = 10.0 ** np.random.default_rng(5).uniform(-span, span, 600)
    graph = for_problem(problem, random_signed(60, 600, 5, weights))
    found = bound(graph, problem=problem, engine=engine)
    assert_feasible(found, graph)
    assert found.lower_int is None
    assert 0 < found.lower <= found.lp_upper
    assert found.gap < 0.06


@pytest.mark.parametrize("factor", [1e-6, 1e-3, 1e3, 1e6, 1e9])
def test_the_unit_of_the_weights_does_not_matter(factor: float) -> None:
    graph = random_signed(60, 600, 6)
    scaled = SignedGraph(graph.n, graph.u, graph.v, graph.weight * factor, graph.negative)
    assert bound(scaled).lower == pytest.approx(factor * bound(graph).lower, rel=1e-3)


def test_one_huge_weight_does_not_drown_the_others() -> None:
    graph = random_signed(60, 600, 7)
    weight = graph.weight.copy()
    weight[0] = 1e9
    heavy = SignedGraph(graph.n, graph.u, graph.v, weight, graph.negative)
    assert bound(heavy, obstructions="triangle").lower > 0.99 * bound(graph, obstructions="triangle").lower


def test_a_bounded_pool_is_a_valid_sample(bitcoin: SignedGraph) -> None:
    whole = bound(bitcoin, obstructions="triangle")
    part = bound(bitcoin, obstructions="triangle", max_pool=500)
    assert_feasible(part, bitcoin)
    assert 250 <= part.pool <= 500 < whole.pool
    assert 0.2 * whole.lower < part.lower < whole.lower


def test_cliques_with_signs_are_found_after_switching() -> None:
    """K_9 with every triangle bad: all edges negative, then the signs around three nodes flipped."""
    u, v = np.array(list(itertools.combinations(range(9), 2))).T
    side = np.isin(np.arange(9), [1, 4, 6])
    signs = np.where(side[u] == side[v], -1, 1)
    found = bound(u, v, signs, "frustration", obstructions="clique")
    assert found.lower_int == 16
    assert found.obstructions["clique"] > 0


def test_engines_bracket_the_same_optimum(bitcoin: SignedGraph) -> None:
    entropic, gk = (
        bound(bitcoin, obstructions="triangle", engine=engine, tol=0.01) for engine in ("entropic", "gk")
    )
    assert gk.lower <= entropic.lp_upper
    assert entropic.lower <= gk.lp_upper
    assert gk.lower == pytest.approx(entropic.lower, rel=0.01)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("engine", "simplex"),
        ("tol", -0.1),
        ("tol", float("nan")),
        ("sweeps", 0),
        ("mu", 0.0),
        ("mu", 2.0),
        ("max_cycle", 2),
        ("star", 1),
        ("max_pool", 0),
        ("threads", 0),
        ("time_limit", -1.0),
        ("obstructions", "star"),
        ("obstructions", "squares"),
        ("obstructions", []),
        ("problem", "sorting"),
    ],
)
def test_options_out_of_range_are_refused(option: str, value: object) -> None:
    options: dict[str, Any] = {"u": [0, 1, 0], "v": [1, 2, 2], "s": [1, 1, -1], option: value}
    with pytest.raises(InputError):
        bound(**options)
