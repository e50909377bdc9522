"""Repeated rows against a dictionary: what each merge policy keeps, and which problem the signs ask for."""

from __future__ import annotations

import itertools
import warnings
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.formats.errors import InputError
from icml.tools.cclust_lb import Problem, bound, choose_problem, cluster, merge_edges
from icml.tools.cclust_lb.problem import _sort_keys, check_problem

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


@settings(deadline=None)
@given(
    keys=st.lists(st.integers(0, 9), min_size=1, max_size=40),
    unit=st.sampled_from([1, 2**50, 2**58]),  # the last leaves no room for the rows
)
def test_keys_are_sorted_and_equal_ones_keep_their_order(keys: list[int], unit: int) -> None:
    key = np.array(keys, np.int64) * unit
    found, order = _sort_keys(key.copy())
    assert found.tolist() == sorted(key.tolist())
    assert order.tolist() == sorted(range(len(keys)), key=lambda row: keys[row])


@pytest.mark.parametrize("merge", ["first", "last", "drop"])
def test_only_sum_accepts_a_zero(merge: str) -> None:
    assert merge_edges([0, 1], [1, 2], [0.0, 1.0]).m == 1
    with pytest.raises(InputError, match="edge 0 has weight 0, which only the merge policy sum accepts"):
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


@pytest.mark.parametrize(
    "values", [(0.1, 0.2, -0.3), (1e-9, 1e9 / 3, 1e9 / 3, -1e-9, -2e9 / 3), (1, 2.5, -3.5)]
)
def test_rows_that_cancel_but_for_rounding_are_dropped_in_every_order(values: tuple[float, ...]) -> None:
    for order in itertools.permutations(values):
        graph = merge_edges([*[0] * len(order), 1], [*[1] * len(order), 2], [*order, 1], weights="abs")
        assert (graph.m, graph.zero_sum, graph.u.tolist()) == (1, 1, [1])


def test_what_is_more_than_rounding_is_kept() -> None:
    for values in (
        [0.1, 0.2, -0.3 + 1e-12],
        [2.0**52, 1 - 2.0**52],
        [1e15, 1.0, -1e15],
        [1e-300, -3e-300],
    ):
        graph = merge_edges([0] * len(values), [1] * len(values), values, weights="abs")
        assert graph.weight.tolist() == [pytest.approx(abs(float(sum(map(Fraction, values)))), rel=1e-3)]


@pytest.mark.parametrize("tiny", [1e-300, 5e-324])
def test_drop_sees_contradictions_of_any_size(tiny: float) -> None:
    graph = merge_edges([0, 1, 1], [1, 0, 2], [tiny, -3 * tiny, 1], merge="drop", weights="abs")
    assert (graph.m, graph.zero_sum) == (1, 1)


@pytest.mark.parametrize("merge", ["sum", "drop"])
@pytest.mark.parametrize("signs", [(1, 1, 1), (-1, -1, -1), (1, 1, -1, -1), (1, -1, -1, 1)])
def test_sums_beyond_a_double_are_refused_without_a_warning(merge: str, signs: tuple[int, ...]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match="more than a double can hold"):
            merge_edges(
                [0] * len(signs), [1] * len(signs), [1e308 * x for x in signs], merge=merge, weights="abs"
            )
        assert merge_edges([0] * 3, [1] * 3, [1e308] * 3).weight.tolist() == [1]


@pytest.mark.parametrize(
    ("weights", "total"),
    [([2.0**61, -(2.0**61)], "4.612e+18"), ([1e20, 1], "1e+20"), ([1e308, -1e308], "inf")],
)
def test_weights_that_add_up_to_too_much_are_refused(weights: list[float], total: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError) as refused:
            merge_edges([0, 1], [1, 2], weights, weights="abs")
    assert str(refused.value) == f"the weights add up to {total}: scale them down"
    assert merge_edges([0, 1], [1, 2], weights).m == 2


def test_large_weights_below_the_limit_are_taken() -> None:
    assert merge_edges([0, 1], [1, 2], [2.0**61, -(2.0**60)], weights="abs").m == 2
    assert merge_edges([0, 1], [1, 2], [2.0**62, 0.5], weights="abs").m == 2  # not whole


def test_too_many_nodes_are_refused() -> None:
    assert merge_edges([0], [10_000_001]).n == 10_000_002
    with pytest.raises(
        InputError, match="10000003 nodes but only 1 edges: at most 10000000 nodes may have none"
    ):
        merge_edges([0], [10_000_002])
    for arguments in (([0], [2**30]), ([2**62], [1]), ([0], [1], None)):
        with pytest.raises(InputError, match="at most 1073741824 nodes are supported"):
            merge_edges(*arguments, n=2**30 + 1 if len(arguments) == 3 else None)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(0, 0, 1)], "no edges left after dropping 1 self-loop"),
        ([(0, 0, 1), (1, 1, 1)], "no edges left after dropping 2 self-loops"),
        ([(0, 1, 1), (1, 0, -1)], "no edges left after dropping 1 pair that cancels out"),
        (
            [(0, 1, 0), (1, 2, 0), (2, 2, 1)],
            "no edges left after dropping 1 self-loop and 2 pairs that cancel out",
        ),
    ],
)
def test_what_was_dropped_is_said_in_words(rows: list[tuple[int, int, float]], message: str) -> None:
    u, v, s = (list(column) for column in zip(*rows, strict=True))
    with pytest.raises(InputError) as refused:
        merge_edges(u, v, s)
    assert str(refused.value) == message


def test_the_wrong_problem_is_named() -> None:
    plain, signed = merge_edges([0, 1], [1, 2]), merge_edges([0, 1, 2], [1, 2, 3], [1, -1, -1])
    with pytest.raises(InputError) as refused:
        check_problem(plain, Problem.FRUSTRATION)
    assert str(refused.value) == (
        "no negative edge, so all pairs agree; did you mean the problem cc-complete or maxcut?"
    )
    with pytest.raises(InputError) as refused:
        check_problem(signed, Problem.MAXCUT)
    assert str(refused.value) == (
        "the problem maxcut takes a plain graph, but 2 edges are negative; did you mean the problem cc or frustration?"
    )


def test_bad_weights_are_refused() -> None:
    for bad in (float("nan"), float("inf"), -float("inf")):
        with pytest.raises(InputError, match="edge 1"):
            bound([0, 1], [1, 2], [-1.0, bad], "cc")
    with pytest.raises(InputError, match="no edges"):
        bound([], [], [], "cc")
