"""Clusterings from above: heuristics that look for few disagreements, and what a given clustering costs.

With any number of clusters, iterated local search: queue-driven node moves on a graph coarsened level by level
(Louvain), then shaken balls of nodes, scored by what the moves gain. With two clusters, simulated annealing whose runs
are recombined part by part.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icml.formats.errors import InputError
from icml.tools.cclust_lb import _kernel
from icml.tools.cclust_lb.problem import Problem, SignedGraph, as_graph, as_problem, check_problem

HEURISTICS = ("pivot", "local", "louvain", "ils")
PIVOT_RESTARTS = 100
ANNEALING_RUNS = 24
MAX_STREAMS = 64
NODES_PER_STREAM = 1000
"""Each of the searches side by side holds a clustering of its own; small graphs gain nothing from many."""
UNLIMITED = 2**63 - 1
"""The kernel's number of steps for "as many as the clock allows"; schedules then follow the clock."""


def cluster(
    u: ArrayLike | SignedGraph,
    v: ArrayLike | None = None,
    s: ArrayLike | None = None,
    problem: Problem | str = "cc",
    seconds: float | None = 10.0,
    *,
    weights: str = "unit",
    heuristic: str = "ils",
    steps: int | None = None,
    target: float | None = None,
    start: ArrayLike | None = None,
    threads: int = 1,
    seed: int = 0,
    should_stop: Callable[[], bool] | None = None,
    on_progress: Callable[[dict[str, Any]], None] | None = None,
) -> NDArray[np.int32]:
    """Looks for a clustering with few disagreements.

    With `steps`, or without a clock, the result is a function of graph, options and seed, whatever `threads` is; a
    clock can still cut the search off, and then the result depends on how far it came. With a clock and no `steps`
    the result depends on the machine, its load and `threads`, and may differ from run to run.

    Args:
        u, v, s: the graph: a `SignedGraph` as `u`, or rows for `merge_edges`.
        problem: "cc", "cc-complete", "frustration" or "maxcut".
        seconds: the longest it may take; None for no clock.
        weights: "unit" or "abs", for `merge_edges`.
        heuristic: with any number of clusters, "pivot" (KwikCluster, the best of many random orders), "local" (node
            moves), "louvain" (node moves level by level) or "ils" (iterated local search from the best of these); with
            two clusters, "local" (flips), "louvain" (one annealing run) or "ils" (annealing runs, recombined).
        steps: how many pivot orders, shaken balls or annealing runs at most; None leaves it to the clock or, without
            one, to a default. Where steps are counted, no schedule looks at the clock.
        target: end as soon as the cost is at most this, such as a proven lower bound.
        start: (n,) labels to improve; the result costs no more. Without them, "pivot", "local" and "louvain" start
            from single nodes.
        threads: with a clock and no `steps`, so many independent searches run side by side, but at most 64 and at
            most 1 + n / 1000, and the best result counts; otherwise one search runs.
        seed: of the random choices.
        should_stop: polled at least every 0.2 s; once true, the best clustering so far is returned.
        on_progress: called with {"t", "cost", "steps"} when the cost has fallen, ten times a second at most.

    Returns:
        int32 (n,), clusters 0..k-1 in order of first appearance.

    Raises:
        InputError: the graph or an option is not one the problem takes.
    """
    begin = time.monotonic()
    problem = as_problem(problem)
    graph = as_graph(u, v, s, weights=weights)
    check_problem(graph, problem)
    labels, _, _ = search(
        graph,
        problem,
        None if seconds is None else seconds - (time.monotonic() - begin),
        heuristic=heuristic,
        steps=steps,
        target=target,
        start=start,
        threads=threads,
        seed=seed,
        poll=_poll(should_stop, on_progress, begin),
    )
    if on_progress is not None:
        reached = cost(graph, labels=labels, problem=problem)
        on_progress({"t": time.monotonic() - begin, "cost": reached, "steps": None})
    return labels


def search(
    graph: SignedGraph,
    problem: Problem,
    seconds: float | None,
    *,
    heuristic: str = "ils",
    steps: int | None = None,
    target: float | None = None,
    start: ArrayLike | None = None,
    threads: int = 1,
    seed: int = 0,
    poll: Callable[[float, int], bool] | None = None,
) -> tuple[NDArray[np.int32], float, int]:
    """`cluster` on a checked graph; also returns the cost that the moves added up to, and the steps done."""
    if heuristic not in HEURISTICS:
        raise InputError(f"heuristic must be one of {', '.join(HEURISTICS)}; got {heuristic!r}")
    if heuristic == "pivot" and problem.two_clusters:
        raise InputError(
            f"pivot makes any number of clusters, but {problem} allows two; use local, louvain or ils"
        )
    if steps is not None and steps < 0:
        raise InputError(f"steps must be at least 0, got {steps}")
    if threads < 1:
        raise InputError(f"threads must be at least 1, got {threads}")
    if seconds is not None and np.isnan(seconds):
        raise InputError("seconds must be a number")
    initial = np.empty(0, np.int32) if start is None else _labels("start", start, graph, problem)
    return _kernel.search_clusters(
        graph.n,
        graph.u,
        graph.v,
        graph.weight,
        np.ones(graph.m, np.uint8) if problem is Problem.MAXCUT else graph.negative.view(np.uint8),
        two_clusters=problem.two_clusters,
        complete=problem is Problem.CC_COMPLETE,
        heuristic=_kernel.Heuristic[heuristic],
        start=initial,
        seconds=np.inf if seconds is None else seconds,
        steps=_step_limit(graph, problem, heuristic, steps, seconds),
        target=-np.inf if target is None else target,
        streams=_streams(graph, steps, seconds, threads),
        seed=seed % 2**64,
        poll=poll,
    )


def cost(
    u: ArrayLike | SignedGraph,
    v: ArrayLike | None = None,
    s: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    problem: Problem | str = "cc",
    *,
    weights: str = "unit",
) -> float:
    """The total weight that a clustering disagrees with, in O(n + m); exact for whole weights that add up to 2^53.

    Args:
        u, v, s, weights: the graph, as for `cluster`.
        labels: (n,) cluster numbers.
        problem: "cc", "cc-complete", "frustration" or "maxcut".

    Raises:
        InputError: the labels do not fit the graph or, with more than two clusters, the problem.
    """
    problem = as_problem(problem)
    graph = as_graph(u, v, s, weights=weights)
    check_problem(graph, problem)
    compact = _labels("labels", labels, graph, problem)
    total = float(np.sum(graph.weight[_disagree(graph, compact, problem)]))
    if problem is Problem.CC_COMPLETE:
        total += _missing_inside(graph, compact)
    return total


def disagreements(
    u: ArrayLike | SignedGraph,
    v: ArrayLike | None = None,
    s: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    problem: Problem | str = "cc",
    *,
    weights: str = "unit",
) -> NDArray[np.bool_]:
    """Which edges of the merged graph a clustering disagrees with, as bool (m,).

    In `cc-complete` the missing pairs inside clusters are disagreements too: `cost` counts them, this does not list
    them. Give a `SignedGraph` to know which edge is which.

    Raises:
        InputError: as for `cost`.
    """
    problem = as_problem(problem)
    graph = as_graph(u, v, s, weights=weights)
    check_problem(graph, problem)
    return _disagree(graph, _labels("labels", labels, graph, problem), problem)


def _disagree(graph: SignedGraph, labels: NDArray[np.int32], problem: Problem) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = labels[graph.u] == labels[graph.v]
    return inside if problem is Problem.MAXCUT else np.equal(inside, graph.negative)


def _missing_inside(graph: SignedGraph, labels: NDArray[np.int32]) -> int:
    size = np.bincount(labels).astype(np.int64)
    inside = int(np.count_nonzero(labels[graph.u] == labels[graph.v]))
    return int(np.sum(size * (size - 1) // 2)) - inside


def _labels(name: str, labels: ArrayLike | None, graph: SignedGraph, problem: Problem) -> NDArray[np.int32]:
    """Labels as clusters 0..k-1 in order of size of the label."""
    if labels is None:
        raise InputError(f"{name} are missing")
    array: NDArray[Any] = np.asarray(labels)
    if array.shape != (graph.n,):
        raise InputError(f"{name} must be one per node, {graph.n} in all; got shape {array.shape}")
    if array.dtype.kind not in "iub":
        raise InputError(f"{name} must be integers, got {array.dtype}")
    distinct, compact = np.unique(array, return_inverse=True)
    if problem.two_clusters and len(distinct) > 2:
        raise InputError(f"{problem} allows two clusters, but {name} have {len(distinct)}")
    return compact.astype(np.int32)


def _step_limit(
    graph: SignedGraph, problem: Problem, heuristic: str, steps: int | None, seconds: float | None
) -> int:
    if steps is not None:
        return min(steps, UNLIMITED - 1)
    if heuristic == "pivot":
        return PIVOT_RESTARTS
    if seconds is not None:
        return UNLIMITED
    return ANNEALING_RUNS if problem.two_clusters else max(10_000, graph.n)


def _streams(graph: SignedGraph, steps: int | None, seconds: float | None, threads: int) -> int:
    if steps is not None or seconds is None:
        return 1
    return min(threads, MAX_STREAMS, graph.n // NODES_PER_STREAM + 1)


def _poll(
    should_stop: Callable[[], bool] | None,
    on_progress: Callable[[dict[str, Any]], None] | None,
    begin: float,
) -> Callable[[float, int], bool] | None:
    if should_stop is None and on_progress is None:
        return None
    best = np.inf
    reported = -np.inf

    def poll(reached: float, steps: int) -> bool:
        nonlocal best, reported
        now = time.monotonic()
        if on_progress is not None and reached < best and now - reported >= 0.1:
            best, reported = reached, now
            on_progress({"t": now - begin, "cost": reached, "steps": steps})
        return should_stop is not None and should_stop()

    return poll
