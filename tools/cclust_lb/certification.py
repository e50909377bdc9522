"""Bound and clustering of one graph, worked on until they meet or the time is up."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icml.tools.cclust_lb.bounds import Bound
from icml.tools.cclust_lb.clustering import cluster, cost
from icml.tools.cclust_lb.packing import bound
from icml.tools.cclust_lb.problem import Problem, SignedGraph, as_problem, check_problem

Labels = NDArray[np.int32]

NO_BETTER = 1e-9
"""With fractional weights the search ends when cost and bound are this close, relatively; whole weights can meet."""


@dataclass(frozen=True)
class BoundOptions:
    """How the lower bound is made; the fields are those of `bound`."""

    obstructions: str = "auto"
    engine: str = "entropic"
    tol: float = 0.005
    sweeps: int = 100
    mu: float = 0.01
    max_cycle: int | None = None
    star: int = 16
    max_pool: int = 200_000_000


@dataclass(frozen=True)
class HeuristicOptions:
    """How a clustering is looked for.

    Attributes:
        name: "ils", "louvain", "local", "pivot", or "none".
        seconds: the longest it may take.
        steps: the number of steps after which it ends, whatever the clock says; None for no such end.
    """

    name: str = "ils"
    seconds: float = 10.0
    steps: int | None = None


@dataclass(frozen=True)
class Certified:
    """A clustering together with what is proven about it.

    Attributes:
        bound: the lower bound.
        labels: int32 (n,), the best clustering found, or the given one if no heuristic ran; None without either.
        cost: total weight of disagreements of the clustering that is certified: the given one, else the best found.
        heuristic_cost: cost of what the heuristic found, None if none ran.
        clusters: number of clusters of the clustering that is certified.
        trace: entries {"t", "lower", "lp_upper", "cost"} in order of time, absent where nothing new is known.
        seconds: time by part.
    """

    bound: Bound
    labels: Labels | None
    cost: float | None
    heuristic_cost: float | None
    clusters: int | None
    trace: list[dict[str, Any]] = field(repr=False)
    seconds: dict[str, float]


class _Run:
    """The clock, the trace and the best clustering of one call of `certify`."""

    def __init__(
        self,
        graph: SignedGraph,
        problem: Problem,
        time_limit: float | None,
        on_progress: Callable[[dict[str, Any]], None] | None,
    ) -> None:
        self.graph = graph
        self.problem = problem
        self.start = time.monotonic()
        self.time_limit = time_limit
        self.on_progress = on_progress
        self.trace: list[dict[str, Any]] = []
        self.labels: Labels | None = None
        self.cost: float | None = None

    def elapsed(self) -> float:
        return time.monotonic() - self.start

    def remaining(self, at_most: float | None = None, keep: float = 0.0) -> float | None:
        """Seconds that the next part may take, `keep` of them left for what follows; None without a limit."""
        if self.time_limit is None:
            return at_most
        left = max(0.0, self.time_limit - keep - self.elapsed())
        return left if at_most is None else min(left, at_most)

    def record(self, entry: dict[str, Any]) -> None:
        """Adds what a part reports, on this run's clock."""
        known = {key: entry[key] for key in ("lower", "lp_upper", "cost") if entry.get(key) is not None}
        if known:
            self.trace.append({"t": round(self.elapsed(), 4), **known})
            if self.on_progress is not None:
                self.on_progress(self.trace[-1])

    def offer(self, labels: Labels) -> float:
        """Takes a clustering if it is the best so far; returns its cost."""
        value = cost(self.graph, labels=labels, problem=self.problem)
        if self.cost is None or value < self.cost:
            self.labels, self.cost = labels, value
            self.record({"cost": value})
        return value


def certify(
    graph: SignedGraph,
    problem: Problem | str,
    *,
    labels: Labels | None = None,
    bounding: BoundOptions | None = None,
    heuristic: HeuristicOptions | None = None,
    time_limit: float | None = None,
    threads: int = 1,
    seed: int = 0,
    should_stop: Callable[[], bool] | None = None,
    on_progress: Callable[[dict[str, Any]], None] | None = None,
) -> Certified:
    """Bounds the optimum from below and finds, or audits, a clustering from above.

    Args:
        graph: a merged graph.
        problem: which of the four problems.
        labels: int32 (n,), the clustering to audit, and what a heuristic starts from.
        bounding: how the bound is made.
        heuristic: how a clustering is looked for; default "ils", or "none" if labels are given.
        time_limit: seconds for everything; the last part of it is kept for the heuristic.
        threads, seed: as for `bound` and `cluster`.
        should_stop: polled at least every 0.2 s; once true, the best so far is returned.
        on_progress: called with each trace entry.

    Raises:
        InputError: the graph or an option is not one the problem takes.
    """
    problem = as_problem(problem)
    check_problem(graph, problem)
    bounding = bounding or BoundOptions()
    heuristic = heuristic or HeuristicOptions(name="none" if labels is not None else "ils")
    searching = heuristic.name != "none"
    run = _Run(graph, problem, time_limit, on_progress)
    given = run.offer(np.asarray(labels, dtype=np.int32)) if labels is not None else None

    def search(name: str, steps: int | None, target: float) -> float:
        """Runs a heuristic from the best so far; returns the seconds it took."""
        begin = run.elapsed()
        left = None if heuristic.steps is not None else heuristic.seconds - searched
        found = cluster(
            graph,
            problem=problem,
            heuristic=name,
            seconds=run.remaining(at_most=left),
            steps=steps,
            start=run.labels,
            target=target,
            threads=threads,
            seed=seed,
            should_stop=should_stop,
            on_progress=run.record,
        )
        run.offer(found)
        return run.elapsed() - begin

    searched = 0.0
    if heuristic.name == "ils":  # a first clustering, so that the bound knows what to aim at
        searched = search("louvain", None if heuristic.steps is None else 1, 0.0)
    elif searching:
        searched = search(heuristic.name, heuristic.steps, 0.0)
    keep = (
        min(heuristic.seconds, 0.25 * time_limit)
        if heuristic.name == "ils" and time_limit is not None
        else 0.0
    )
    result = bound(
        graph,
        problem=problem,
        obstructions=bounding.obstructions,
        engine=bounding.engine,
        tol=bounding.tol,
        time_limit=run.remaining(keep=keep),
        sweeps=bounding.sweeps,
        mu=bounding.mu,
        max_cycle=bounding.max_cycle,
        star=bounding.star,
        max_pool=bounding.max_pool,
        target=run.cost if run.cost is None or graph.integral else run.cost * (1 - NO_BETTER),
        threads=threads,
        seed=seed,
        should_stop=should_stop,
        on_progress=run.record,
    )
    good_enough = result.best if graph.integral else result.best * (1 + NO_BETTER)
    if heuristic.name == "ils" and run.cost is not None and run.cost > good_enough:
        searched += search("ils", heuristic.steps, good_enough)
    heuristic_cost = run.cost if searching else None
    certified = run.labels if labels is None else labels
    return Certified(
        bound=result,
        labels=run.labels,
        cost=given if given is not None else run.cost,
        heuristic_cost=heuristic_cost,
        clusters=None if certified is None else len(np.unique(certified)),
        trace=run.trace,
        seconds={**result.seconds, "heuristic": searched, "total": run.elapsed()},
    )
