"""What a packing proves, in exact integers, by other code than made it.

Checked is all that the bound rests on: each item is an obstruction (every clustering disagrees with at least `rhs` of
its elements), and on no element do the packed amounts add up to more than its weight. Then no clustering can disagree
with less than the packing is worth.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icml.formats.errors import InputError
from icml.tools.cclust_lb.bounds import CLIQUE, CYCLE, STAR, Packing, round_down
from icml.tools.cclust_lb.problem import Problem, SignedGraph, check_problem

ARRAYS: dict[str, np.dtype[Any]] = {
    "kind": np.dtype("u1"),
    "ptr": np.dtype("<i8"),
    "elements": np.dtype("<i4"),
    "rhs": np.dtype("<i8"),
    "y": np.dtype("<i8"),
    "pair_u": np.dtype("<i4"),
    "pair_v": np.dtype("<i4"),
}
"""The arrays of a Packing and their types."""

_CHUNK = 2**20  # elements that are looked at together


class Rejected(Exception):
    """The packing proves nothing; the message says why."""


def prove(items: Packing, graph: SignedGraph, problem: Problem) -> tuple[float, int | None]:
    """Works out the bound that a packing proves, and the one for integer weights (None for others).

    Raises:
        Rejected: the packing is not one of obstructions of the graph within its weights.
    """
    _check_graph(graph, problem)
    wrong = shape_trouble(items)
    if wrong:
        raise Rejected(wrong)
    _check_elements(items, graph, problem)
    _check_items(items, graph, problem)
    _check_loads(items, graph)
    try:
        lower = round_down(sum(_worth(items)), items.scale_bits)
    except OverflowError:
        raise Rejected("the bound is more than a double can hold") from None
    return lower, _integer_bound(items, graph.m) if graph.integral else None


def _check_graph(graph: SignedGraph, problem: Problem) -> None:
    try:
        check_problem(graph, problem)
    except InputError as error:
        raise Rejected(str(error)) from error
    key = graph.u.astype(np.int64) * graph.n + graph.v
    simple = np.all(graph.u >= 0) and np.all(graph.u < graph.v) and np.all(graph.v < graph.n)
    if not simple or np.any(key[1:] <= key[:-1]):
        raise Rejected("the graph's edges are not simple and sorted")
    if not np.all(np.isfinite(graph.weight) & (graph.weight > 0)):
        raise Rejected("the graph has a weight that is not positive")


def shape_trouble(items: Packing) -> str | None:
    """What is wrong with the arrays as such, if anything."""
    arrays = {name: getattr(items, name) for name in ARRAYS}
    for name, array in arrays.items():
        if array.ndim != 1 or array.dtype != ARRAYS[name]:
            return f"{name} is {array.dtype} {array.shape}"
    k = len(items.kind)
    if len(items.ptr) != k + 1 or len(items.rhs) != k or len(items.y) != k:
        return (
            f"kind, ptr, rhs and y differ in length: {k}, {len(items.ptr)}, {len(items.rhs)}, {len(items.y)}"
        )
    if len(items.pair_u) != len(items.pair_v):
        return f"pair_u and pair_v differ in length: {len(items.pair_u)}, {len(items.pair_v)}"
    if items.ptr[0] != 0 or items.ptr[-1] != len(items.elements) or np.any(items.ptr[1:] < items.ptr[:-1]):
        return "ptr does not divide up the elements"
    if not -1100 <= items.scale_bits <= 1100:
        return f"scale_bits is {items.scale_bits}"
    return None


def _check_elements(items: Packing, graph: SignedGraph, problem: Problem) -> None:
    a, b = items.pair_u.astype(np.int64), items.pair_v.astype(np.int64)
    if len(a) and problem is not Problem.CC_COMPLETE:
        raise Rejected(f"missing pairs do not count in {problem}")
    _reject_first("pair", (a < 0) | (a >= b) | (b >= graph.n), "is not two nodes in order")
    key = a * graph.n + b
    if len(key):
        edges = graph.u.astype(np.int64) * graph.n + graph.v  # sorted
        nearest = np.minimum(np.searchsorted(edges, key), graph.m - 1)
        _reject_first("pair", edges[nearest] == key, "is an edge")
    order = np.argsort(key, kind="stable")
    again = np.zeros(len(key), bool)
    again[order[1:]] = key[order[1:]] == key[order[:-1]]
    _reject_first("pair", again, "is listed before")
    outside = np.flatnonzero((items.elements < 0) | (items.elements >= graph.m + len(a)))
    if len(outside):
        item = int(np.searchsorted(items.ptr, outside[0], side="right")) - 1
        raise Rejected(
            f"item {item} holds element {items.elements[outside[0]]}, which is neither edge nor pair"
        )


def _reject_first(what: str, bad: NDArray[np.bool_], reason: str) -> None:
    if np.any(bad):
        raise Rejected(f"{what} {int(np.argmax(bad))} {reason}")


_KINDS = {
    Problem.CC: {CYCLE: "cycle"},
    Problem.FRUSTRATION: {CYCLE: "cycle", CLIQUE: "clique"},
    Problem.MAXCUT: {CYCLE: "cycle", CLIQUE: "clique"},
    Problem.CC_COMPLETE: {STAR: "star"},
}
"""Which kinds of items prove something for which problem."""

_Findings = Iterator[tuple[NDArray[np.bool_], str]]
"""Masks over the rows of a chunk, each with what is wrong with the rows that it marks."""


def _check_items(items: Packing, graph: SignedGraph, problem: Problem) -> None:
    """Every item is an obstruction; rejects the first that is not."""
    useless = ~np.isin(items.kind, list(_KINDS[problem]))
    _reject_first("item", useless, f"is of a kind that proves nothing for {problem}")
    _reject_first("item", items.y < 0, "is packed a negative number of times")
    first, reason = len(items.kind), ""
    for kind, chunk, rows in _alike(items):
        if chunk[0] > first:
            continue
        for bad, text in _faults(kind, rows, items.rhs[chunk], items=items, graph=graph, problem=problem):
            if np.any(bad) and chunk[np.argmax(bad)] < first:
                first, reason = int(chunk[np.argmax(bad)]), f"{_KINDS[problem][kind]} {text}"
    if reason:
        raise Rejected(f"item {first}: {reason}")


def _alike(items: Packing) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int32]]]:
    """The items in chunks of one kind and length: kind, item numbers, elements of each in increasing order."""
    size = np.diff(items.ptr)
    for kind in (CYCLE, CLIQUE, STAR):
        for length in np.unique(size[items.kind == kind]).tolist():
            members = np.flatnonzero((items.kind == kind) & (size == length))
            step = max(1, _CHUNK // max(1, length))
            for i in range(0, len(members), step):
                chunk = members[i : i + step]
                rows = items.elements[items.ptr[chunk][:, None] + np.arange(length)]
                yield kind, chunk, np.sort(rows, axis=1)


def _faults(
    kind: int,
    rows: NDArray[np.int32],
    rhs: NDArray[np.int64],
    *,
    items: Packing,
    graph: SignedGraph,
    problem: Problem,
) -> _Findings:
    if rows.shape[1] == 0:
        yield np.ones(len(rows), bool), "is empty"
        return
    yield np.any(rows[:, 1:] == rows[:, :-1], axis=1), "holds an element twice"
    if kind == CYCLE:
        yield from _cycle_faults(rows, rhs, graph, problem)
    elif kind == CLIQUE:
        yield from _clique_faults(rows, rhs, graph, problem)
    else:
        yield from _star_faults(rows, rhs, graph, items)


def _cycle_faults(
    rows: NDArray[np.int32], rhs: NDArray[np.int64], graph: SignedGraph, problem: Problem
) -> _Findings:
    """A set of edges with even degrees is made of cycles; one of them has the lone negative edge, or an odd number."""
    ends = np.sort(np.concatenate((graph.u[rows], graph.v[rows]), axis=1), axis=1)
    yield np.any(ends[:, 0::2] != ends[:, 1::2], axis=1), "does not close"
    negative = np.count_nonzero(graph.negative[rows], axis=1)
    if problem is Problem.CC:
        yield negative != 1, "does not have exactly one negative edge"
    elif problem is Problem.FRUSTRATION:
        yield negative % 2 == 0, "has an even number of negative edges"
    else:
        yield np.full(len(rows), rows.shape[1] % 2 == 0), "has an even number of edges"
    yield rhs != 1, "does not have rhs 1"


def _clique_faults(
    rows: NDArray[np.int32], rhs: NDArray[np.int64], graph: SignedGraph, problem: Problem
) -> _Findings:
    """Sorted by number, the edges of a clique are its pairs in lexicographic order: that is what is compared."""
    length = rows.shape[1]
    p = (1 + int((1 + 8 * length) ** 0.5)) // 2
    if p < 3 or p * (p - 1) // 2 != length:
        yield np.ones(len(rows), bool), f"has {length} edges, which no clique has"
        return
    nodes = np.concatenate((graph.u[rows[:, :1]], graph.v[rows[:, : p - 1]]), axis=1)
    i, j = np.triu_indices(p, 1)
    yield np.any((graph.u[rows] != nodes[:, i]) | (graph.v[rows] != nodes[:, j]), axis=1), "is not complete"
    if problem is Problem.FRUSTRATION:
        # All triangles odd: after switching nodes so that the first node's edges are negative, all edges are.
        apart = graph.negative[rows]
        side = np.concatenate((np.zeros((len(rows), 1), bool), ~apart[:, : p - 1]), axis=1)
        yield (
            np.any(apart == (side[:, i] ^ side[:, j]), axis=1),
            "has a triangle with an even number of negative edges",
        )
    yield rhs != (p - 1) ** 2 // 4, f"does not have rhs {(p - 1) ** 2 // 4}"


def _star_faults(
    rows: NDArray[np.int32], rhs: NDArray[np.int64], graph: SignedGraph, items: Packing
) -> _Findings:
    length = rows.shape[1]
    t = (int((1 + 8 * length) ** 0.5) - 1) // 2
    if t < 2 or t * (t + 1) // 2 != length:
        yield np.ones(len(rows), bool), f"has {length} elements, which no star has"
        return
    mixed = (rows[:, t - 1] < graph.m) & (rows[:, t] >= graph.m)
    yield ~mixed, f"does not consist of {t} edges and the pairs between their leaves"

    def among_mixed(bad: NDArray[np.bool_]) -> NDArray[np.bool_]:
        spread = np.zeros(len(mixed), bool)
        spread[mixed] = bad
        return spread

    u, v = graph.u[rows[mixed, :t]], graph.v[rows[mixed, :t]]
    centre = np.where((u[:, 0] == u[:, 1]) | (u[:, 0] == v[:, 1]), u[:, 0], v[:, 0])[:, None]
    yield among_mixed(np.any((u != centre) & (v != centre), axis=1)), "has no centre"
    leaves = np.sort(np.where(u == centre, v, u), axis=1).astype(np.int64)
    i, j = np.triu_indices(t, 1)
    pairs = rows[mixed, t:] - graph.m
    keys = np.sort(items.pair_u[pairs].astype(np.int64) * graph.n + items.pair_v[pairs], axis=1)
    wanted = np.sort(leaves[:, i] * graph.n + leaves[:, j], axis=1)
    yield among_mixed(np.any(keys != wanted, axis=1)), "lacks a pair between its leaves"
    yield rhs != t - 1, f"does not have rhs {t - 1}"


def _check_loads(items: Packing, graph: SignedGraph) -> None:
    """No element is packed beyond its weight."""
    weight = np.concatenate((graph.weight, np.ones(len(items.pair_u))))
    with np.errstate(over="ignore", under="ignore"):
        capacity = np.minimum(np.floor(np.ldexp(weight, items.scale_bits)), 2.0**62).astype(np.int64)
    load_low, load_high = _exact_sums(items.elements, np.repeat(items.y, np.diff(items.ptr)), len(weight))
    low, high = capacity & _LOW, capacity >> 42
    over = (load_high > high) | ((load_high == high) & (load_low > low))
    if np.any(over):
        holder = int(np.argmax(over[items.elements]))
        item = int(np.searchsorted(items.ptr, holder, side="right")) - 1
        element = items.elements[holder]
        raise Rejected(f"item {item}: the items that hold element {element} add up to more than its weight")


_LOW = 2**42 - 1


def _exact_sums(
    index: NDArray[np.integer], values: NDArray[np.int64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sums of values >= 0 by index, each as low + 2^42 high with low < 2^42.

    Where all of them together fit into an integer, they are just added. Where not, it is in digits of 21 bits: fewer
    than 2^32 of them add up exactly in float64, and nothing overflows.
    """
    if float(np.sum(values, dtype=np.float64)) < 2.0**62:
        sums = np.zeros(size, np.int64)
        np.add.at(sums, index, values)
        return sums & _LOW, sums >> 42
    digits = []
    carry = np.zeros(size, np.int64)
    largest = int(values.max(initial=0))
    for shift in (0, 21, 42):
        if largest >> shift:
            digit = ((values >> shift) & (2**21 - 1)).astype(np.float64)
            carry = carry + np.bincount(index, digit, size).astype(np.int64)
        digits.append(carry & (2**21 - 1))
        carry = carry >> 21
    return digits[0] + (digits[1] << 21), digits[2] + (carry << 21)


def _worth(items: Packing) -> list[int]:
    """What each item adds to the bound, as exact integers."""
    most = int(items.rhs.max(initial=0)) * int(items.y.max(initial=0))
    if most < 2**63:
        return (items.rhs * items.y).tolist()  # type: ignore[no-any-return]
    return [r * y for r, y in zip(items.rhs.tolist(), items.y.tolist(), strict=True)]


def _parts(items: Packing, packed: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """For each packed item, the least element of its part: elements that share an item are in one part.

    Every element points at the least element known to be in its part. In a round, each item hooks what its elements
    point at to the least of that, and pointers are followed to their ends; an item whose elements point at the same
    element is done, for whatever that is hooked to later, they follow together.
    """
    size = np.diff(items.ptr)[packed]
    members = items.elements[np.repeat(items.y > 0, np.diff(items.ptr))].astype(np.int64)
    first = items.elements[items.ptr[packed]]
    least = np.arange(n)
    while len(size):
        start = np.cumsum(size) - size
        pointed = least[members]
        shared = np.repeat(np.minimum.reduceat(pointed, start), size)
        differ = pointed != shared
        np.minimum.at(least, pointed[differ], shared[differ])
        while not np.array_equal(least[least], least):
            least = least[least]
        open_items = np.logical_or.reduceat(differ, start)
        members, size = members[np.repeat(open_items, size)], size[open_items]
    parts: NDArray[np.int64] = least[first]
    return parts


def _integer_bound(items: Packing, m: int) -> int:
    """Sum over the connected parts of the packing of what the part is worth, rounded up.

    Elements that share a packed item are in one part. The parts are disjoint, and with integer weights the least
    disagreement on each is an integer.
    """
    packed = np.flatnonzero(items.y > 0)
    if len(packed) == 0:
        return 0
    parts, part_of = np.unique(_parts(items, packed, m + len(items.pair_u)), return_inverse=True)
    worth = np.asarray(_worth(items), dtype=object)[packed]
    if sum(worth) < 2**63:
        low, high = _exact_sums(part_of, worth.astype(np.int64), len(parts))
        totals = (low + (high << 42)).tolist()
    else:
        sums = np.zeros(len(parts), object)
        np.add.at(sums, part_of, worth)
        totals = sums.tolist()
    bits = items.scale_bits
    return sum(-((-total) >> bits) if bits >= 0 else total << -bits for total in totals)
