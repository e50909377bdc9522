"""Small random graphs of every shape, the same in every run, with their exact answers and the tool's bounds.

Answers and bounds are worked out once, when a test first asks for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from icml.formats.errors import InputError
from icml.tools.cclust_lb import Bound, Problem, SignedGraph, bound, merge_edges
from icml.tools.cclust_lb.problem import check_problem

from . import oracles
from .oracles import Instance

PROBLEMS = ["cc", "frustration", "maxcut", "cc-complete"]
ENGINES = ["entropic", "gk"]
SIGNED = ("cc", "frustration")
TOL = 0.005
LP_SLACK = 1e-6  # HiGHS works to 1e-7

Rng = np.random.Generator
Rows = list[tuple[int, int]]


def _gnp(rng: Rng, n: int, p: float) -> Rows:
    return [(a, b) for a, b in oracles.pairs(n) if rng.random() < p] or [(0, n - 1)]


def _tree(rng: Rng, n: int) -> Rows:
    return [(int(rng.integers(x)), x) for x in range(1, n)]


def _two_parts(rng: Rng, n: int) -> Rows:
    half = n // 2
    return [(a, b) for a, b in _gnp(rng, n, 0.9) if (a < half) == (b < half)] or [(0, n - 1)]


def _repeated(rng: Rng, n: int) -> Rows:
    rows = _gnp(rng, n, 0.7)
    again = [rows[i] for i in rng.integers(len(rows), size=2 * len(rows))]
    loops = [(int(x), int(x)) for x in rng.integers(n, size=2)]
    return rows + [(b, a) if rng.random() < 0.5 else (a, b) for a, b in again] + loops


FAMILIES: dict[str, Callable[[Rng, int], Rows]] = {
    "dense": lambda rng, n: _gnp(rng, n, 0.95),
    "medium": lambda rng, n: _gnp(rng, n, 0.6),
    "sparse": lambda rng, n: _gnp(rng, n, 0.3),
    "tree": _tree,
    "disconnected": _two_parts,
    "repeated": _repeated,
    "weighted": lambda rng, n: _gnp(rng, n, 0.8),
}
SEEDS = 44  # of each family: 308 graphs a problem


def _values(rng: Rng, family: str, rows: int, signed: bool) -> np.ndarray:
    """Signed weights, multiples of 1/8 so that sums of them are exact."""
    size = np.ones(rows)
    if family == "weighted":
        size = rng.choice([0.125, 0.5, 0.875, 1.0, 3.0, 40.0], size=rows) if rng.random() < 0.5 else size * 3
        size = size * rng.integers(1, 4, size=rows)
    if not signed:
        return size
    negative = rng.random(rows) < rng.choice([0.15, 0.35, 0.6, 1.0])
    return np.where(negative, -size, size)


@dataclass(frozen=True)
class Case:
    """One small graph with every exact answer about it."""

    name: str
    problem: str
    graph: SignedGraph

    @cached_property
    def instance(self) -> Instance:
        return Instance(self.graph, self.problem)

    @cached_property
    def optimum(self) -> float:
        return self.instance.optimum()

    @cached_property
    def triangle_lp(self) -> float:
        return self.instance.cover_lp(self.instance.triangles())

    @cached_property
    def full_lp(self) -> float:
        return self.instance.cover_lp(self.instance.obstructions())

    def __str__(self) -> str:
        g = self.graph
        signed = np.where(g.negative, -g.weight, g.weight).tolist()
        return f"{self.name}: n={g.n} u={g.u.tolist()} v={g.v.tolist()} s={signed}"


@cache
def cases(problem: str) -> tuple[Case, ...]:
    """The same graphs in every run."""
    found = []
    for f, (family, make) in enumerate(FAMILIES.items()):
        for seed in range(SEEDS):
            rng = np.random.default_rng([f, seed, PROBLEMS.index(problem)])
            n = int(rng.integers(3, 10))
            u, v = np.array(make(rng, n)).T
            s = _values(rng, family, len(u), problem in SIGNED)
            if problem in SIGNED and not np.any(s < 0):
                s[rng.integers(len(s))] *= -1
            try:
                graph = merge_edges(u, v, s, n=n, weights="abs" if family == "weighted" else "unit")
                check_problem(graph, Problem(problem))
            except InputError:  # all rows cancelled out, or all the negative ones
                graph = merge_edges([0, 1], [1, 2], [1, -1] if problem in SIGNED else [1, 1], n=n)
            found.append(Case(f"{problem} {family} {seed}", problem, graph))
    return tuple(found)


def triangle_kind(problem: str) -> str:
    """What the problem calls an obstruction on three elements."""
    return "wedge" if problem == "cc-complete" else "triangle"


def solved_cases(problem: str, engine: str) -> tuple[Case, ...]:
    """The cases that an engine is run on: all of them, or every third with the slower one."""
    return cases(problem)[:: 3 if engine == "gk" else 1]


@cache
def full_bounds(problem: str, engine: str) -> list[tuple[Case, Bound]]:
    """The engine's cases, each with its bound from all obstructions."""
    return [
        (case, bound(case.graph, problem=problem, engine=engine, tol=TOL))
        for case in solved_cases(problem, engine)
    ]


@cache
def triangle_bounds(problem: str, engine: str) -> list[tuple[Case, Bound]]:
    """The engine's cases, each with its bound from triangles (wedges) alone."""
    kind = triangle_kind(problem)
    return [
        (case, bound(case.graph, problem=problem, engine=engine, tol=TOL, obstructions=kind))
        for case in solved_cases(problem, engine)
    ]


def all_bounds(problem: str, engine: str) -> list[tuple[Case, Bound]]:
    """Both."""
    return full_bounds(problem, engine) + triangle_bounds(problem, engine)


def random_grid(rng: Rng, rows: int, cols: int) -> tuple[SignedGraph, dict[tuple[int, int], bool]]:
    """A grid with random signs, some of them negative."""
    across = [(i * cols + j, i * cols + j + 1) for i in range(rows) for j in range(cols - 1)]
    down = [(i * cols + j, (i + 1) * cols + j) for i in range(rows - 1) for j in range(cols)]
    edges = across + down
    sign = np.where(rng.random(len(edges)) < 0.5, -1, 1)
    sign[0] = -1
    u, v = np.array(edges).T
    return merge_edges(u, v, sign), dict(zip(edges, (sign < 0).tolist(), strict=True))
