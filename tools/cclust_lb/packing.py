"""Lower bounds by packing obstructions fractionally: the LP dual of covering what no clustering can satisfy.

After "Instance-Specific Approximation Ratios for Correlation Clustering and Max-Cut" (ICML 2026), whose relaxation
covers bad triangles, extended to longer cycles, cliques and stars. The engine is entropic coordinate ascent; the
alternative is Fleischer's form of Garg and Könemann's algorithm ("Approximating fractional multicommodity flow
independent of the number of commodities", 2000).
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icml.formats.errors import InputError, WorkError
from icml.tools.cclust_lb import _kernel
from icml.tools.cclust_lb.bounds import Bound, Packing, parse_obstructions, scale_bits_for
from icml.tools.cclust_lb.problem import Problem, SignedGraph, as_graph, as_problem, check_problem
from icml.tools.cclust_lb.proof import Rejected, prove

T = TypeVar("T")

ENGINES = ("entropic", "gk")


def bound(
    u: SignedGraph | ArrayLike,
    v: ArrayLike | None = None,
    s: ArrayLike | None = None,
    problem: Problem | str = "cc",
    *,
    weights: str = "unit",
    obstructions: str | Sequence[str] = "auto",
    engine: str = "entropic",
    tol: float = 0.005,
    time_limit: float | None = None,
    sweeps: int = 100,
    mu: float = 0.01,
    max_cycle: int | None = None,
    star: int = 16,
    max_pool: int = 200_000_000,
    target: float | None = None,
    threads: int = 1,
    seed: int = 0,
    should_stop: Callable[[], bool] | None = None,
    on_progress: Callable[[dict[str, Any]], None] | None = None,
) -> Bound:
    """Bounds from below the total weight that every clustering of a graph disagrees with.

    Whatever ends the computation, the result is a valid packing, and so is the bound.

    Args:
        u, v, s: the graph: a `SignedGraph` as `u`, or rows for `merge_edges`.
        problem: "cc", "cc-complete", "frustration" or "maxcut".
        weights: "unit" or "abs", for `merge_edges`.
        obstructions: "auto", or some of triangle, cycle, clique (two clusters), wedge, star (cc-complete).
        engine: "entropic" or "gk".
        tol: when the pool's own optimum is known to this relative precision, sweeping ends.
        time_limit: seconds; None means until convergence.
        sweeps: passes over the pool of each phase of the ascent.
        mu: final temperature of the ascent, relative to what an obstruction carries on average.
        max_cycle: the most edges of a cycle.
        star: the most leaves of a star.
        max_pool: the most obstructions that are listed; beyond it, a uniform sample is.
        target: stop once `lower_int` (`lower`, if weights are not integers) is at least this, such as a known cost.
        threads: taken for the sake of a common signature; the ascent is sequential by nature and uses one.
        seed: of the random choices; without limits, the result is a function of graph, options and seed.
        should_stop: polled at least every 0.2 s; once true, the best bound so far is returned.
        on_progress: called with {"t", "lower", "lp_upper", "pool"} after each certificate.

    Raises:
        InputError: the graph or an option is not one the problem takes.
    """
    start = time.monotonic()
    problem = as_problem(problem)
    graph = as_graph(u, v, s, weights=weights)
    check_problem(graph, problem)
    kinds = parse_obstructions(obstructions, problem)
    options = _kernel.PackingOptions()
    options.rule = _kernel.CycleRule.odd_negative if problem.two_clusters else _kernel.CycleRule.one_negative
    options.triangles, options.cycles = "triangle" in kinds, "cycle" in kinds
    options.cliques, options.wedges, options.stars = "clique" in kinds, "wedge" in kinds, "star" in kinds
    options.garg_koenemann = (
        _checked("engine", engine, engine in ENGINES, f"one of {', '.join(ENGINES)}") == "gk"
    )
    options.tol = _checked("tol", tol, 0 <= tol < np.inf, "at least 0")
    options.sweeps = _checked("sweeps", sweeps, 1 <= sweeps <= 10**6, "between 1 and 1000000")
    options.mu = _checked("mu", mu, 1e-6 <= mu <= 1, "between 0.000001 and 1")
    if max_cycle is not None:
        options.max_cycle = min(_checked("max_cycle", max_cycle, max_cycle >= 3, "at least 3"), 2**31 - 1)
    options.star = _checked("star", star, 2 <= star <= 64, "between 2 and 64")
    options.max_pool = _checked("max_pool", max_pool, max_pool >= 1, "at least 1")
    _checked("threads", threads, threads >= 1, "at least 1")
    options.seed = seed % 2**64
    options.integral = graph.integral
    options.scale_bits = scale_bits_for(graph.weight)
    if target is not None:
        options.target = target
    if time_limit is not None and not time_limit >= 0:
        raise InputError(f"time_limit must be at least 0, got {time_limit}")

    before = time.monotonic() - start
    result = _kernel.pack(
        graph.n,
        graph.u,
        graph.v,
        graph.weight,
        _says_apart(graph, problem),
        options,
        np.inf if time_limit is None else time_limit - before,
        should_stop,
        _reporter(on_progress, before),
    )
    found = _bound(graph, problem, options, result, before)
    if target is not None and found.finished == "converged" and found.best >= target:
        return dataclasses.replace(found, finished="target")
    return found


def _checked(name: str, value: T, good: bool, allowed: str) -> T:
    if not good:
        raise InputError(f"{name} must be {allowed}, got {value!r}")
    return value


def _says_apart(graph: SignedGraph, problem: Problem) -> NDArray[np.uint8]:
    """Max-cut is frustration with every edge negative."""
    if problem is Problem.MAXCUT:
        return np.ones(graph.m, np.uint8)
    return graph.negative.astype(np.uint8)


def _reporter(
    on_progress: Callable[[dict[str, Any]], None] | None, before: float
) -> Callable[[float, float, float, int], None] | None:
    if on_progress is None:
        return None

    def report(seconds: float, lower: float, lp_upper: float, pool: int) -> None:
        on_progress({"t": before + seconds, "lower": lower, "lp_upper": lp_upper, "pool": pool})

    return report


def _bound(
    graph: SignedGraph,
    problem: Problem,
    options: _kernel.PackingOptions,
    result: dict[str, Any],
    before: float,
) -> Bound:
    fields = ("kind", "ptr", "elements", "rhs", "y", "pair_u", "pair_v")
    items = Packing(**{name: result[name] for name in fields}, scale_bits=options.scale_bits)
    try:
        lower, lower_int = prove(items, graph, problem)
    except Rejected as error:
        raise WorkError(f"the packing found does not prove its bound: {error}") from error
    lp_upper = max(lower, result["lp_upper"])
    return Bound(
        problem=problem,
        digest=graph.digest(),
        lower=lower,
        lower_int=lower_int,
        lp_upper=lp_upper,
        gap=(lp_upper - lower) / lower if lower > 0 else 0.0 if lp_upper == 0 else np.inf,
        items=items,
        obstructions=items.count(),
        pool=result["pool"],
        cover=result["cover"],
        finished=result["finished"],
        seconds=result["seconds"],
        trace=[{"t": before + t, "lower": low, "lp_upper": high} for t, low, high in result["trace"]],
    )
