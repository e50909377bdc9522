"""Repeated rows against a dictionary: what each merge policy keeps, and which problem the signs ask for."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.formats.errors import InputError
from icml.tools.cclust_lb import Problem, bound, choose_problem, cluster, merge_edges
from icml.tools.cclust_lb.problem import check_problem

from .small_graphs import PROBLEMS, SIGNED


def reference_merge(
    rows: list[tuple[int, int, float]], merge: str, weights: str
) -> tuple[dict[tuple[int, int], Fraction], int, int]:
    """Pairs with their signed weights, the loops and the pairs left out."""
    values: dict[tuple[int, int], list[Fraction]] = defaultdict(list)
    loops = 0
    for a, b, w in rows:
        if a == b:
            loops += 1
        else:
            values[min(a, b), max(a, b)].append(Fraction(w))
    merged, dropped = {}, 0
    for pair, given_values in values.items():
        ws = [Fraction((w > 0) - (w < 0)) for w in given_values] if weights == "unit" else given_values
        total = {"sum": sum(ws), "drop": sum(ws), "first": ws[0], "last": ws[-1]}[merge]
        mixed = any(w > 0 for w in ws) and any(w < 0 for w in ws)
        if total == 0 or (merge == "drop" and mixed):
            dropped += 1
        elif weights == "unit":
            merged[pair] = Fraction(1 if total > 0 else -1)
        else:
            merged[pair] = Fraction(total)
    return merged, loops, dropped


@pytest.mark.parametrize("weights", ["unit", "abs"])
@pytest.mark.parametrize("merge", ["sum", "first", "last", "drop"])
@settings(max_examples=80, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(-8, 8).map(lambda x: x / 4)),
        min_size=1,
        max_size=25,
    )
)
def test_repeated_pairs_merge_as_the_policy_says(
    merge: str, weights: str, rows: list[tuple[int, int, float]]
) -> None:
    if merge != "sum":
        rows = [(a, b, w or 1.0) for a, b, w in rows]
    expected, loops, dropped = reference_merge(rows, merge, weights)
    u, v, s = (list(column) for column in zip(*rows, strict=True))
    if not expected:
        with pytest.raises(InputError, match="no edges"):
            merge_edges(u, v, s, merge=merge, weights=weights)
        return
    graph = merge_edges(u, v, s, n=5, merge=merge, weights=weights)
    signed = np.where(graph.negative, -graph.weight, graph.weight)
    pairs = zip(graph.u.tolist(), graph.v.tolist(), strict=True)
    found = dict(zip(pairs, map(Fraction, signed), strict=True))
    assert found == expected
    assert list(found) == sorted(found)
    assert (graph.loops, graph.zero_sum) == (loops, dropped)


@pytest.mark.parametrize("merge", ["first", "last", "drop"])
def test_only_sum_accepts_a_zero(merge: str) -> None:
    assert merge_edges([0, 1], [1, 2], [0.0, 1.0]).m == 1
    with pytest.raises(InputError, match="edge 0 has weight 0"):
        merge_edges([0, 1], [1, 2], [0.0, 1.0], merge=merge)


def test_problem_is_chosen_by_the_signs() -> None:
    plain, signed = merge_edges([0, 1], [1, 2]), merge_edges([0, 1], [1, 2], [1, -1])
    assert choose_problem(plain) is Problem.CC_COMPLETE
    assert choose_problem(signed) is Problem.CC
    for problem in PROBLEMS:
        right, wrong = (signed, plain) if problem in SIGNED else (plain, signed)
        check_problem(right, Problem(problem))
        with pytest.raises(InputError):
            check_problem(wrong, Problem(problem))
        with pytest.raises(InputError):
            bound(wrong, problem=problem)
        with pytest.raises(InputError):
            cluster(wrong, problem=problem, steps=1)


def test_bad_weights_are_refused() -> None:
    for bad in (float("nan"), float("inf"), -float("inf")):
        with pytest.raises(InputError, match="edge 1"):
            bound([0, 1], [1, 2], [-1.0, bad], "cc")
    with pytest.raises(InputError, match="no edges"):
        bound([], [], [], "cc")
