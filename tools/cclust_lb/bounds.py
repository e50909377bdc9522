"""What a lower bound is made of: a packing of obstructions in exact integers, and the figures read off it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icml.formats.errors import InputError
from icml.tools.cclust_lb.problem import Problem

SCALE_BITS = 20
"""Packings of whole weights are counted in units of 2**-SCALE_BITS; see `scale_bits_for`."""
MOST_SCALE_BITS = 1000
"""Beyond it, 2**scale_bits would be near the largest double."""

CYCLE, CLIQUE, STAR = 0, 1, 2
"""Values of `Packing.kind`. A triangle is a cycle of length 3, a wedge a star with two leaves."""

OBSTRUCTIONS = {
    Problem.CC: ("triangle", "cycle"),
    Problem.FRUSTRATION: ("triangle", "cycle", "clique"),
    Problem.MAXCUT: ("triangle", "clique", "cycle"),
    Problem.CC_COMPLETE: ("wedge", "star"),
}
"""The kinds of obstructions that prove disagreements, by problem."""


@dataclass(frozen=True)
class Packing:
    """Obstructions and how much of each is packed.

    Element e < m is edge e of the merged graph with its weight as capacity; element m + i is the missing pair
    (pair_u[i], pair_v[i]) with capacity 1. The packing is valid when on every element the y of the items that hold it
    add up to at most floor(2**scale_bits * capacity).

    Attributes:
        kind: uint8 (k,), CYCLE, CLIQUE or STAR.
        ptr: int64 (k + 1,); item i holds elements[ptr[i]:ptr[i + 1]].
        elements: int32 (ptr[-1],).
        rhs: int64 (k,), how many of its elements every clustering disagrees with.
        y: int64 (k,), positive, in units of 2**-scale_bits.
        pair_u, pair_v: int32 (p,), pair_u < pair_v.
        scale_bits: 20, unless the weights are far from 1.
    """

    kind: NDArray[np.uint8]
    ptr: NDArray[np.int64]
    elements: NDArray[np.int32]
    rhs: NDArray[np.int64]
    y: NDArray[np.int64]
    pair_u: NDArray[np.int32]
    pair_v: NDArray[np.int32]
    scale_bits: int = SCALE_BITS

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def value(self) -> int:
        """The bound in units of 2**-scale_bits, exactly."""
        return int(np.dot(self.rhs, self.y))

    def count(self) -> dict[str, int]:
        """Items by name: triangle, cycle (longer ones), clique, wedge, star (of three leaves or more)."""
        size = np.diff(self.ptr)
        small = size == 3
        cycle, clique, star = (self.kind == kind for kind in (CYCLE, CLIQUE, STAR))
        groups = {
            "triangle": cycle & small,
            "cycle": cycle & ~small,
            "clique": clique,
            "wedge": star & small,
            "star": star & ~small,
        }
        return {name: int(np.count_nonzero(members)) for name, members in groups.items()}


@dataclass(frozen=True)
class Bound:
    """A lower bound on the least total weight of disagreements, with its proof.

    Attributes:
        problem: the problem it is a bound for.
        digest: `SignedGraph.digest` of the graph.
        lower: the bound; `items.value / 2**items.scale_bits`, rounded down.
        lower_int: with integer weights, the sum over the connected parts of the packing of the part's bound rounded
            up; a bound too, as every part's optimum is an integer. None for other weights.
        lp_upper: no packing of the obstructions in the last pool exceeds this.
        gap: (lp_upper - lower) / lower, 0 if both are 0.
        items: the packing.
        obstructions: how many items of each name the packing holds.
        pool: the largest number of obstructions held at once.
        cover: float64 (m,) in [0, 1]; how sure the relaxation is that the edge has to be disagreed with.
        finished: "converged", "target" (a known cost was met), "time" or "stopped".
        seconds: time by phase.
        trace: entries {"t", "lower", "lp_upper"} in order of time.
    """

    problem: Problem
    digest: str
    lower: float
    lower_int: int | None
    lp_upper: float
    gap: float
    items: Packing
    obstructions: dict[str, int]
    pool: int
    cover: NDArray[np.float64]
    finished: str
    seconds: dict[str, float]
    trace: list[dict[str, Any]]

    @property
    def best(self) -> float:
        """The strongest bound proven: `lower_int` where there is one, else `lower`."""
        return self.lower if self.lower_int is None else float(self.lower_int)


def scale_bits_for(weight: NDArray[np.float64]) -> int:
    """In which units to count: 20 bits for whole weights, as many as are safe for others.

    All capacities together stay below 2**61, so that no sum over a packing overflows.
    """
    # One more bit for the missing pairs of complete graphs, of which a packing uses no more than it has edges' worth.
    most = 60 - math.ceil(math.log2(float(np.sum(weight))))
    whole = bool(np.all(weight == np.rint(weight)))
    return min(SCALE_BITS if whole else MOST_SCALE_BITS, most)


def round_down(units: int, scale_bits: int) -> float:
    """The largest float that is not above units / 2**scale_bits."""
    exact = Fraction(units) / Fraction(2) ** scale_bits
    nearest = float(exact)
    return math.nextafter(nearest, -math.inf) if Fraction(nearest) > exact else nearest


def parse_obstructions(spec: str | Sequence[str], problem: Problem) -> frozenset[str]:
    """The kinds that "auto", a comma-separated list, or a sequence of names stands for.

    Raises:
        InputError: an unknown name, a kind that proves nothing for the problem, or none at all.
    """
    allowed = OBSTRUCTIONS[problem]
    names = spec.split(",") if isinstance(spec, str) else list(spec)
    names = [name.strip() for name in names]
    if names == ["auto"]:
        return frozenset(allowed)
    known = {name for kinds in OBSTRUCTIONS.values() for name in kinds}
    for name in names:
        if name not in known:
            raise InputError(f"unknown obstruction {name!r}; known are {', '.join(sorted(known))}, and auto")
        if name not in allowed:
            raise InputError(
                f"{name} is no obstruction for --problem {problem}; use some of {', '.join(allowed)}"
            )
    if not names:
        raise InputError(f"no obstructions given; use some of {', '.join(allowed)}")
    return frozenset(names)
