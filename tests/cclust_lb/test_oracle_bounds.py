"""On small random graphs: bound <= exact LP <= brute-force optimum <= cost of any clustering."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.formats.errors import InputError
from icml.tools.cclust_lb import Bound, SignedGraph, bound, cluster, cost, merge_edges, verify

from . import oracles
from .naive_checker import CLIQUE, CYCLE, Invalid, check_packing, confirm, naive_cost
from .oracles import Instance
from .small_graphs import (
    ENGINES,
    LP_SLACK,
    PROBLEMS,
    SIGNED,
    TOL,
    Case,
    Rng,
    all_bounds,
    cases,
    full_bounds,
    random_grid,
    solved_cases,
    triangle_bounds,
    triangle_kind,
)

every_problem = pytest.mark.parametrize("problem", PROBLEMS)
every_engine = pytest.mark.parametrize("engine", ENGINES)


# --- bound <= LP <= optimum ---


@every_engine
@every_problem
def test_no_bound_exceeds_the_optimum(problem: str, engine: str) -> None:
    for case, found in all_bounds(problem, engine):
        assert 0 <= found.lower <= case.optimum, case  # both are exact: no tolerance
        if case.graph.integral:
            assert isinstance(found.lower_int, int), case
            assert math.ceil(found.lower) <= found.lower_int <= case.optimum, case
        else:
            assert found.lower_int is None, case


@every_engine
@every_problem
def test_full_bound_is_below_the_lp_over_all_obstructions_and_near_it(problem: str, engine: str) -> None:
    lower, exact = [], []
    for case, found in full_bounds(problem, engine):
        assert found.lower <= case.full_lp + LP_SLACK, case
        assert found.lower >= 0.8 * case.full_lp - LP_SLACK, case
        lower.append(found.lower)
        exact.append(case.full_lp)
    share = [a / b for a, b in zip(lower, exact, strict=True) if b > 0]
    assert np.mean(share) >= 0.985, np.mean(share)


@every_engine
@every_problem
def test_full_bound_proves_most_optima(problem: str, engine: str) -> None:
    """Where rounding the exact LP up gives the optimum, the bound should mostly do so too."""
    possible, proven, missed = 0, 0, []
    for case, found in full_bounds(problem, engine):
        if case.graph.integral and math.ceil(case.full_lp - LP_SLACK) == case.optimum:
            possible += 1
            proven += found.lower_int == case.optimum
            missed += [str(case)] * (found.lower_int != case.optimum)
    assert possible >= 0.5 * len(solved_cases(problem, engine))
    assert proven >= 0.95 * possible, f"{proven} of {possible}; missed {missed[:3]}"


@every_engine
@every_problem
def test_triangle_bound_is_as_near_its_lp_as_promised(problem: str, engine: str) -> None:
    # All triangles are in the pool; wedges only come in while they are violated by a margin.
    slack = 0.02 if problem == "cc-complete" else TOL
    share = []
    for case, found in triangle_bounds(problem, engine):
        assert found.lower <= case.triangle_lp + LP_SLACK, case
        assert found.lower >= case.triangle_lp / (1 + 2 * slack) - LP_SLACK, case
        if case.triangle_lp > 0:
            share.append(found.lower / case.triangle_lp)
    assert np.mean(share) >= 0.995


@every_engine
@every_problem
def test_upper_side_is_an_upper_bound_on_the_pools_lp(problem: str, engine: str) -> None:
    for case, found in all_bounds(problem, engine)[::2]:
        assert found.lower <= found.lp_upper, case
        assert oracles.packing_lp(found.items, case.graph.weight) <= found.lp_upper + LP_SLACK, case
        if found.lower > 0:
            assert found.gap == pytest.approx((found.lp_upper - found.lower) / found.lower), case
    if problem != "cc-complete":  # all triangles are in the pool
        for case, found in triangle_bounds(problem, engine):
            assert case.triangle_lp <= found.lp_upper + LP_SLACK, case


@every_engine
@pytest.mark.parametrize("problem", ["cc", "frustration", "maxcut"])
def test_cover_hits_every_bad_triangle(problem: str, engine: str) -> None:
    for case, found in triangle_bounds(problem, engine):
        assert found.cover.shape == (case.graph.m,), case
        assert found.cover.min() >= 0, case
        assert found.cover.max() <= 1, case
        for triangle in oracles.bad_triangles(case.graph, problem):
            assert found.cover[triangle].sum() >= 1 - 1e-9, case
        assert found.cover @ case.graph.weight == pytest.approx(found.lp_upper), case


def test_planar_frustration_is_solved_by_cycles() -> None:
    """On planar graphs the cycle LP is exact (Barahona 1980), so the bound must come near the optimum."""
    rng = np.random.default_rng(11)
    for _ in range(6):
        graph, negative = random_grid(rng, 12, 12)
        best = oracles.grid_frustration(12, 12, negative)
        found = bound(graph, problem="frustration", tol=TOL)
        confirm(found, graph, "frustration")
        assert found.lower <= best
        assert found.lower >= 0.97 * best, (found.lower, best)
        labels = cluster(graph, problem="frustration", seconds=None, steps=10)
        assert best <= cost(graph, labels=labels, problem="frustration") <= 1.05 * best


@pytest.mark.parametrize("problem", ["cc", "frustration", "maxcut"])
def test_cycle_bound_of_sparse_graphs_is_near_the_exact_cycle_lp(problem: str) -> None:
    """Sizes at which cycles can no longer be listed: the exact LP searches for violated ones."""
    rng = np.random.default_rng(12)
    for n, m in [(30, 50), (40, 90), (50, 100), (25, 100)]:
        u, v = rng.integers(0, n, size=(2, m))
        s = np.ones(m) if problem == "maxcut" else rng.choice([1.0, 1.0, -1.0], size=m)
        graph = merge_edges(u, v, s, n=n)
        exact = oracles.cycle_lp(graph, problem)
        found = bound(graph, problem=problem, obstructions="triangle,cycle", tol=TOL)
        confirm(found, graph, problem)
        assert found.lower <= exact + LP_SLACK
        assert found.lower >= 0.96 * exact, (problem, n, m, found.lower, exact)


# --- what the packing is made of ---


@every_engine
@every_problem
def test_every_item_is_valid_by_the_definitions(problem: str, engine: str) -> None:
    for case, found in all_bounds(problem, engine):
        confirm(found, case.graph, problem)
        assert sum(found.obstructions.values()) == np.count_nonzero(found.items.y), case


@every_problem
def test_verifier_agrees_with_the_naive_checker(problem: str) -> None:
    for case, found in all_bounds(problem, "entropic"):
        checked = verify(found, case.graph)
        assert checked.ok, (checked.reason, str(case))
        assert (checked.lower, checked.lower_int) == (found.lower, found.lower_int), case


def corruptions(rng: Rng, found: Bound, case: Case) -> dict[str, tuple[dict[str, Any], SignedGraph]]:
    """Ways to make a packing prove too much."""
    items = found.items
    heavy = int(np.argmax(items.y))
    more = items.y.copy()
    more[heavy] += 2**items.scale_bits * (int(case.graph.weight.max()) + 1)
    less = items.y.copy()
    less[heavy] = -1
    rhs = items.rhs.copy()
    rhs[heavy] += 1
    element = items.elements.copy()
    at = int(items.ptr[heavy])
    element[at] = element[at + 1]
    return {
        "overload": ({"y": more}, case.graph),
        "negative y": ({"y": less}, case.graph),
        "rhs": ({"rhs": rhs}, case.graph),
        "repeated element": ({"elements": element}, case.graph),
    }


@every_problem
def test_corrupted_packings_are_refused_by_checker_and_verifier(problem: str) -> None:
    rng = np.random.default_rng(3)
    tried = 0
    for case, found in full_bounds(problem, "entropic"):
        if found.lower == 0 or tried == 60:
            continue
        tried += 1
        for what, (change, graph) in corruptions(rng, found, case).items():
            bad = replace(found, items=replace(found.items, **change))
            with pytest.raises(Invalid):
                check_packing(bad.items, graph, problem)
            assert not verify(bad, graph).ok, (what, str(case))
    assert tried == 60


# --- options that restrict the pool ---


@pytest.mark.parametrize("problem", ["cc", "frustration", "maxcut"])
def test_max_cycle_keeps_to_short_cycles(problem: str) -> None:
    for case in cases(problem)[::4]:
        instance = case.instance
        longest_before = case.triangle_lp
        for longest in (3, 4, 5):
            found = bound(case.graph, problem=problem, obstructions="triangle,cycle", max_cycle=longest)
            lengths = np.diff(found.items.ptr)[found.items.kind == CYCLE]
            assert lengths.max(initial=0) <= longest, case
            exact = instance.cover_lp(instance.cycle_rows(longest=longest))
            assert longest_before <= exact + LP_SLACK, case
            assert found.lower <= exact + LP_SLACK, case
            longest_before = exact
        assert longest_before <= case.full_lp + LP_SLACK, case


def test_star_option_keeps_to_small_stars() -> None:
    for case in cases("cc-complete")[::4]:
        before = case.triangle_lp
        for most in (2, 3, 5):
            found = bound(case.graph, problem="cc-complete", star=most)
            assert found.items.rhs.max(initial=0) <= most - 1, case
            exact = case.instance.cover_lp(case.instance.star_rows(most))
            assert before <= exact + LP_SLACK, case
            assert found.lower <= exact + LP_SLACK, case
            before = exact
        assert before <= case.full_lp + LP_SLACK, case


@every_problem
def test_named_obstructions_are_the_only_ones_used(problem: str) -> None:
    kind = triangle_kind(problem)
    for case, found in triangle_bounds(problem, "entropic"):
        assert set(np.diff(found.items.ptr).tolist()) <= {3}, case
        assert {name for name, count in found.obstructions.items() if count} <= {kind}, case
    if problem == "maxcut":
        for case in cases(problem)[::8]:
            found = bound(case.graph, problem=problem, obstructions="clique")
            used = found.items.kind[found.items.y > 0]
            sizes = np.diff(found.items.ptr)[found.items.y > 0]
            assert np.all((used == CLIQUE) | (sizes == 3)), case  # K3 is a triangle
            assert found.lower <= case.instance.cover_lp(case.instance.clique_rows()) + LP_SLACK, case


@pytest.mark.parametrize(
    ("problem", "kind"),
    [
        ("cc", "star"),
        ("cc", "clique"),
        ("cc", "wedge"),
        ("maxcut", "star"),
        ("cc-complete", "clique"),
        ("cc", "x"),
    ],
)
def test_obstructions_of_another_problem_are_refused(problem: str, kind: str) -> None:
    graph = merge_edges([0, 1, 0], [1, 2, 2], [1, 1, -1] if problem == "cc" else None)
    with pytest.raises(InputError):
        bound(graph, problem=problem, obstructions=kind)


# --- clusterings ---


@every_problem
def test_clusterings_cost_at_least_the_optimum_and_mostly_reach_it(problem: str) -> None:
    reached = 0
    steps = 20 if problem in ("frustration", "maxcut") else 300  # annealing runs, or shaken balls
    for case in cases(problem):
        labels = cluster(case.graph, problem=problem, seconds=None, steps=steps, seed=1)
        assert labels.shape == (case.graph.n,), case
        assert labels.dtype == np.int32, case
        assert len(set(labels.tolist())) <= case.instance.blocks, case
        paid = cost(case.graph, labels=labels, problem=problem)
        assert paid == naive_cost(case.graph, labels, problem), case
        assert paid >= case.optimum, case
        reached += paid == case.optimum
    assert reached >= 0.99 * len(cases(problem)), reached


@pytest.mark.parametrize("heuristic", ["pivot", "local", "louvain", "ils"])
@every_problem
def test_heuristics_improve_on_their_start_and_repeat_themselves(problem: str, heuristic: str) -> None:
    rng = np.random.default_rng(9)
    if heuristic == "pivot" and problem in ("frustration", "maxcut"):
        with pytest.raises(InputError):  # pivots make any number of clusters
            cluster(cases(problem)[0].graph, problem=problem, heuristic=heuristic)
        return
    for case in cases(problem)[::7]:
        options = {"problem": problem, "heuristic": heuristic, "seconds": None, "steps": 5, "seed": 3}
        labels = cluster(case.graph, **options)
        assert naive_cost(case.graph, labels, problem) >= case.optimum, case
        assert np.array_equal(labels, cluster(case.graph, **options, threads=2)), case
        start = rng.integers(0, 2, size=case.graph.n)
        better = cluster(case.graph, **options, start=start)
        assert case.optimum <= naive_cost(case.graph, better, problem), case
        assert naive_cost(case.graph, better, problem) <= naive_cost(case.graph, start, problem), case


@every_problem
def test_cost_of_any_labels_is_the_naive_count(problem: str) -> None:
    rng = np.random.default_rng(2)
    for case in cases(problem):
        most = 2 if case.instance.blocks == 2 else int(rng.integers(1, case.graph.n + 1))
        labels = rng.integers(0, most, size=case.graph.n)
        paid = cost(case.graph, labels=labels, problem=problem)
        assert paid == naive_cost(case.graph, labels, problem), case


# --- determinism and symmetry ---


def same_packing(a: Bound, b: Bound) -> bool:
    """Whether two bounds are the same, array by array."""
    names = ("kind", "ptr", "elements", "rhs", "y", "pair_u", "pair_v")
    return (a.lower, a.lower_int, a.lp_upper) == (b.lower, b.lower_int, b.lp_upper) and all(
        np.array_equal(getattr(a.items, name), getattr(b.items, name)) for name in names
    )


@every_engine
@every_problem
def test_the_same_input_gives_the_same_packing(problem: str, engine: str) -> None:
    rng = np.random.default_rng(4)
    for case, found in full_bounds(problem, engine)[::5]:
        g = case.graph
        assert same_packing(found, bound(g, problem=problem, engine=engine, tol=TOL)), case
        assert same_packing(found, bound(g, problem=problem, engine=engine, tol=TOL, threads=2)), case
        order = rng.permutation(g.m)
        flip = rng.random(g.m) < 0.5
        u, v = np.where(flip, g.v, g.u)[order], np.where(flip, g.u, g.v)[order]
        s = np.where(g.negative, -g.weight, g.weight)[order]
        if g.n == 1 + max(u.max(), v.max()):  # trailing nodes without edges are not in the arrays
            by_rows = bound(u, v, s, problem, weights="abs", engine=engine, tol=TOL)
            assert by_rows.digest == found.digest == g.digest(), case
            assert same_packing(found, by_rows), case


@every_engine
@every_problem
def test_renumbering_nodes_changes_only_ties(problem: str, engine: str) -> None:
    """The triangle LP has one value; every bound stays below the same optimum."""
    rng = np.random.default_rng(6)
    kind = triangle_kind(problem)
    for case, found in triangle_bounds(problem, engine)[::3]:
        g = case.graph
        name = rng.permutation(g.n)
        s = np.where(g.negative, -g.weight, g.weight)
        moved = merge_edges(name[g.u], name[g.v], s, n=g.n, weights="abs")
        again = bound(moved, problem=problem, engine=engine, tol=TOL, obstructions=kind)
        assert again.lower == pytest.approx(found.lower, rel=2 * TOL, abs=1e-9), case
        full = bound(moved, problem=problem, engine=engine, tol=TOL)
        assert full.lower <= case.optimum, case
        confirm(full, moved, problem)


# --- hypothesis: whatever it can think of ---


@st.composite
def small_graphs(draw: st.DrawFn, signed: bool) -> SignedGraph:
    n = draw(st.integers(2, 7))
    pair = st.sampled_from(oracles.pairs(n))
    size = draw(st.sampled_from([st.just(1.0), st.integers(1, 5).map(float), st.floats(2.0**-12, 2.0**12)]))
    rows = draw(st.dictionaries(pair, st.tuples(size, st.booleans()), min_size=1))
    u, v = np.array(list(rows)).T
    s = np.array([-w if negative and signed else w for w, negative in rows.values()])
    if signed and np.all(s > 0):
        s[0] = -s[0]
    return merge_edges(u, v, s, n=n, weights="abs")


@every_problem
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_bound_holds_on_any_graph(problem: str, data: st.DataObject) -> None:
    graph = data.draw(small_graphs(problem in SIGNED))
    options = {
        "engine": data.draw(st.sampled_from(ENGINES)),
        "sweeps": data.draw(st.sampled_from([1, 10, 100])),
        "seed": data.draw(st.integers(0, 3)),
    }
    found = bound(graph, problem=problem, **options)
    confirm(found, graph, problem)
    optimum = Instance(graph, problem).optimum()
    assert found.lower <= optimum + 1e-13 * (graph.weight.sum() + 21)  # brute force adds floats
    assert found.lower <= found.lp_upper
