"""What a clustering costs and what a packing proves, from the definitions alone, in plain loops.

Shares no code with the tool's own verifier; sums are exact, in Python integers and fractions.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .oracles import Graph

CYCLE, CLIQUE, STAR = 0, 1, 2


def naive_cost(graph: Graph, labels: ArrayLike, problem: str) -> Fraction:
    """Weight of the disagreements of a clustering, pair by pair."""
    label = [int(x) for x in np.asarray(labels)]
    total = Fraction(0)
    for a, b, w, negative in zip(graph.u, graph.v, graph.weight, graph.negative, strict=True):
        together = label[a] == label[b]
        if together == (bool(negative) or problem == "maxcut"):
            total += Fraction(float(w))
        if problem == "cc-complete" and together:
            total -= 1  # counted below among all the pairs inside a cluster
    if problem == "cc-complete":
        total += sum(size * (size - 1) // 2 for size in Counter(label).values())
    return total


class Invalid(AssertionError):
    """The packing proves nothing; the message says why."""


def _require(holds: bool, reason: str) -> None:
    if not holds:
        raise Invalid(reason)


def check_packing(packing: Any, graph: Graph, problem: str) -> tuple[Fraction, int | None]:
    """The bound that a packing proves, and its sharpening if all weights are whole numbers.

    Raises:
        Invalid: some item is no obstruction of this problem, or an element is overloaded.
    """
    about = _elements(packing, graph, problem)
    unit = Fraction(2) ** -packing.scale_bits
    weights = [Fraction(float(w)) for w in graph.weight]
    capacity = [w // unit for w in weights] + [1 // unit] * len(about.missing)
    load = [0] * len(capacity)
    items = []
    for i, (kind, members, rhs, y) in enumerate(_items(packing)):
        _require(y >= 0, f"item {i}: negative y")
        _require(all(0 <= e < len(load) for e in members), f"item {i}: no such element")
        _require(len(set(members)) == len(members) > 0, f"item {i}: empty, or an element twice")
        forced = about.forced(kind, members)
        _require(rhs == forced, f"item {i}: claims {rhs} disagreements, forces {forced}")
        for e in members:
            load[e] += y
        if y > 0:
            items.append((members, rhs * y))
    for e, (used, most) in enumerate(zip(load, capacity, strict=True)):
        _require(used <= most, f"element {e} carries {used} of {most}")
    whole = all(w.denominator == 1 for w in weights)
    lower_int = _round_up_by_component(items, len(load), unit) if whole else None
    return sum(value for _, value in items) * unit, lower_int


def confirm(found: Any, graph: Graph, problem: str) -> None:
    """Holds a bound's two figures against its packing; `lower` is the exact value rounded down to a double."""
    lower, lower_int = check_packing(found.items, graph, problem)
    assert Fraction(found.lower) <= lower < Fraction(math.nextafter(found.lower, math.inf))
    assert found.lower_int == lower_int


def _elements(packing: Any, graph: Graph, problem: str) -> _Elements:
    ends = list(zip(graph.u.tolist(), graph.v.tolist(), strict=True))
    missing = list(zip(packing.pair_u.tolist(), packing.pair_v.tolist(), strict=True))
    _require(problem == "cc-complete" or not missing, "missing pairs outside cc-complete")
    _require(len(set(missing)) == len(missing), "a missing pair is listed twice")
    _require(not set(missing) & set(ends), "a listed pair is an edge")
    _require(all(0 <= a < b < graph.n for a, b in missing), "a listed pair is no pair of nodes")
    return _Elements(problem, ends, [bool(x) or problem == "maxcut" for x in graph.negative], missing)


def _items(packing: Any) -> list[tuple[int, list[int], int, int]]:
    ptr, elements = packing.ptr.tolist(), packing.elements.tolist()
    count = len(packing.kind)
    _require(len(packing.rhs) == len(packing.y) == count == len(ptr) - 1, "lengths differ")
    _require(ptr[0] == 0 and ptr[-1] == len(elements) and ptr == sorted(ptr), "bad ptr")
    parts = [elements[a:b] for a, b in itertools.pairwise(ptr)]
    return list(zip(packing.kind.tolist(), parts, packing.rhs.tolist(), packing.y.tolist(), strict=True))


@dataclass(frozen=True)
class _Elements:
    """What element numbers stand for: the edges, then the missing pairs that the packing lists."""

    problem: str
    ends: list[tuple[int, int]]
    negative: list[bool]
    missing: list[tuple[int, int]]

    def forced(self, kind: int, members: list[int]) -> int:
        """Disagreements every clustering has inside the item; 0 if the item is not what its kind says."""
        m = len(self.ends)
        edges = [self.ends[e] for e in members if e < m]
        if kind == STAR and self.problem == "cc-complete":
            return _forced_by_star(edges, [self.missing[e - m] for e in members if e >= m])
        if self.problem == "cc-complete" or len(edges) < len(members):
            return 0
        sign = [self.negative[e] for e in members]
        if kind == CYCLE:
            return _forced_by_cycle(edges, sum(sign), self.problem)
        if kind == CLIQUE and self.problem in ("frustration", "maxcut"):
            return _forced_by_clique(dict(zip(edges, sign, strict=True)))
        return 0


def _forced_by_cycle(edges: list[tuple[int, int]], negatives: int, problem: str) -> int:
    degree = Counter(node for edge in edges for node in edge)
    if any(d % 2 for d in degree.values()):
        return 0
    return int(negatives == 1 if problem == "cc" else negatives % 2 == 1)


def _forced_by_clique(negative: dict[tuple[int, int], bool]) -> int:
    nodes = sorted({node for edge in negative for node in edge})
    if len(negative) != len(nodes) * (len(nodes) - 1) // 2:
        return 0
    triangles = itertools.combinations(nodes, 3)
    odd = all((negative[a, b] + negative[a, c] + negative[b, c]) % 2 for a, b, c in triangles)
    return (len(nodes) - 1) ** 2 // 4 if odd else 0


def _forced_by_star(spokes: list[tuple[int, int]], rim: list[tuple[int, int]]) -> int:
    if len(spokes) < 2:
        return 0
    for centre in set(spokes[0]) & set(spokes[1]):
        if all(centre in edge for edge in spokes):
            leaves = sorted(a + b - centre for a, b in spokes)
            return len(leaves) - 1 if sorted(rim) == list(itertools.combinations(leaves, 2)) else 0
    return 0


def _round_up_by_component(items: list[tuple[list[int], int]], count: int, unit: Fraction) -> int:
    """Items that share no element, even indirectly, force whole numbers of disagreements separately."""
    parent = list(range(count))

    def find(x: int) -> int:
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    for members, _ in items:
        for e in members[1:]:
            parent[find(e)] = find(members[0])
    value: Counter[int] = Counter()
    for members, scaled in items:
        value[find(members[0])] += scaled
    return sum(math.ceil(scaled * unit) for scaled in value.values())
