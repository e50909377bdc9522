"""The oracles against each other and against textbook counts, so that the other tests may trust them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from . import oracles
from .naive_checker import naive_cost
from .oracles import Instance
from .small_graphs import LP_SLACK, PROBLEMS, cases, random_grid

every_problem = pytest.mark.parametrize("problem", PROBLEMS)


def test_tables_have_the_known_sizes() -> None:
    bell = [1, 2, 5, 15, 52, 203, 877, 4140, 21147]
    assert [sum(1 for _ in oracles.restricted_growth(n, n)) for n in range(1, 10)] == bell
    assert [sum(1 for _ in oracles.restricted_growth(n, 2)) for n in (2, 5, 11)] == [2, 16, 1024]
    assert [len(oracles.cycles(n)) for n in range(3, 9)] == [1, 7, 37, 197, 1172, 8018]
    assert [len(oracles.cliques(n)[0]) for n in range(3, 10)] == [1, 5, 16, 42, 99, 219, 466]


@every_problem
def test_oracles_agree(problem: str) -> None:
    """Hitting all bad cycles is the problem itself, LPs fall below it, and the naive cost never does."""
    rng = np.random.default_rng(1)
    for case in cases(problem)[::10]:
        assert case.triangle_lp <= case.full_lp + LP_SLACK, case
        hit_all = case.instance.cover_ip(case.instance.obstructions())
        assert case.full_lp <= hit_all + LP_SLACK, case
        assert hit_all <= case.optimum + LP_SLACK, case
        if problem != "cc-complete":  # hitting all wedges may make new ones
            assert hit_all == pytest.approx(case.optimum, abs=LP_SLACK), case
        labels = rng.integers(0, min(case.instance.blocks, 3), size=case.graph.n)
        assert naive_cost(case.graph, labels, problem) >= Fraction(case.optimum), case


def test_brute_force_agrees_with_counting_pair_by_pair() -> None:
    for problem in PROBLEMS:
        for case in [c for c in cases(problem) if c.graph.n <= 5][:20]:
            every = oracles.restricted_growth(case.graph.n, case.instance.blocks)
            assert case.optimum == min(naive_cost(case.graph, x, problem) for x in every), case


def test_planar_oracle_agrees_with_brute_force() -> None:
    rng = np.random.default_rng(5)
    for rows, cols in [(2, 2), (2, 7), (3, 3), (3, 5), (4, 4), (5, 3)] * 4:
        graph, negative = random_grid(rng, rows, cols)
        instance = Instance(graph, "frustration")
        assert oracles.grid_frustration(rows, cols, negative) == instance.optimum(), negative


def test_exact_cycle_lps_agree() -> None:
    """All cycles listed, or brought in by shortest paths: the same LP."""
    for problem in ("cc", "frustration", "maxcut"):
        for case in cases(problem)[::12]:
            listed = case.instance.cover_lp(case.instance.cycle_rows())
            assert oracles.cycle_lp(case.graph, problem) == pytest.approx(listed, abs=1e-5), case
