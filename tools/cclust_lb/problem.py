"""The four problems of `cclust-lb`, and the simple weighted graph that all of them are stated on.

A clustering *disagrees* with a positive edge that it cuts and with a negative edge that it keeps inside a cluster;
the optimum is the least total weight of disagreements over all clusterings the problem allows.
"""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icml.formats.errors import InputError

MERGE_POLICIES = ("sum", "first", "last", "drop")
WEIGHT_MODES = ("unit", "abs")
MAX_ISOLATED = 10_000_000
"""Nodes without an edge take memory all the same; a header that promises more of them is taken for a mistake."""
MAX_NODES = 2**30
MAX_EDGES = 2**31 - 2
MAX_WHOLE_WEIGHT = 2.0**62
"""Whole weights add up to less than this, so that costs and bounds fit 64-bit integers."""


class Problem(enum.StrEnum):
    """What is clustered, and what counts as a disagreement."""

    CC = "cc"
    """Signed graph, any number of clusters; pairs without an edge do not count."""
    CC_COMPLETE = "cc-complete"
    """Plain graph whose missing pairs are negative edges of weight 1 (cluster editing)."""
    FRUSTRATION = "frustration"
    """Signed graph, two clusters (frustration index)."""
    MAXCUT = "maxcut"
    """Plain graph, two sides; an uncut edge is a disagreement."""

    @property
    def signed(self) -> bool:
        """Whether the problem reads signs off the edges."""
        return self in (Problem.CC, Problem.FRUSTRATION)

    @property
    def two_clusters(self) -> bool:
        """Whether only clusterings with at most two clusters are allowed."""
        return self in (Problem.FRUSTRATION, Problem.MAXCUT)


@dataclass(frozen=True)
class SignedGraph:
    """A simple undirected graph with signed, weighted edges.

    Attributes:
        n: number of nodes; nodes are 0..n-1.
        u, v: int32 (m,), the ends of each edge, u < v, sorted by (u, v).
        weight: float64 (m,), positive and finite.
        negative: bool (m,), whether the edge says "apart".
        loops: self-loops that the input held and the graph does not.
        zero_sum: pairs dropped because their rows cancel (or, under `drop`, contradict) each other.
    """

    n: int
    u: NDArray[np.int32]
    v: NDArray[np.int32]
    weight: NDArray[np.float64]
    negative: NDArray[np.bool_]
    loops: int = 0
    zero_sum: int = 0

    @property
    def m(self) -> int:
        """Number of edges."""
        return len(self.u)

    @property
    def integral(self) -> bool:
        """Whether every weight is a whole number, so that the optimum is one too."""
        return bool(np.all(self.weight == np.rint(self.weight)))

    def digest(self) -> str:
        """SHA-256 of nodes, edges, signs and weights: which graph a certificate speaks of."""
        h = hashlib.sha256(f"icml signed graph 1 {self.n} {self.m}\n".encode())
        for array, dtype in ((self.u, "<i4"), (self.v, "<i4"), (self.weight, "<f8"), (self.negative, "u1")):
            h.update(np.ascontiguousarray(array, dtype=dtype).data)
        return h.hexdigest()


def merge_edges(
    u: ArrayLike,
    v: ArrayLike,
    s: ArrayLike | None = None,
    *,
    n: int | None = None,
    merge: str = "sum",
    weights: str = "unit",
) -> SignedGraph:
    """Makes a simple graph of rows in which pairs may repeat, in either direction.

    Args:
        u, v: (r,) node numbers, 0 <= u, v < n.
        s: (r,) signed weights; None means +1 everywhere.
        n: number of nodes; default 1 + the largest number in u and v.
        merge: what rows of the same pair become: their "sum", the "first", the "last", or, with "drop", their sum
            unless their signs differ, in which case the pair is dropped. A sum is zero if rounding alone could make it
            what it is: k rows cancel if |sum x| <= 4 eps k sum |x|, or, if they are whole numbers with
            sum |x| <= 2^53, if sum x = 0.
        weights: "unit" counts signs and gives every edge weight 1; "abs" adds the values and keeps their size.

    Raises:
        InputError: lengths differ, a node number is out of range, a value is not finite, or it is zero under a policy
            other than "sum"; no edge is left; or there are more than 2^30 nodes, 2^31 - 2 edges, or a total weight of
            2^62 (whole numbers) or the largest double.
    """
    _one_of("merge", merge, MERGE_POLICIES)
    _one_of("weights", weights, WEIGHT_MODES)
    ends_u, ends_v = _node_numbers("u", u), _node_numbers("v", v)
    if len(ends_u) != len(ends_v):
        raise InputError(f"u and v differ in length: {len(ends_u)} and {len(ends_v)}")
    nodes = _count_nodes(ends_u, ends_v, n)
    value = _values(s, len(ends_u), merge)
    if weights == "unit":
        value = np.sign(value)

    proper = ends_u != ends_v
    loops = int(len(proper) - np.count_nonzero(proper))
    if loops:
        ends_u, ends_v, value = ends_u[proper], ends_v[proper], value[proper]
    key = np.minimum(ends_u, ends_v) * np.int64(nodes) + np.maximum(ends_u, ends_v)
    key, value, contradicted = _merge_rows(key, value, merge)
    keep = (value != 0) & ~contradicted
    zero_sum = int(len(keep) - np.count_nonzero(keep))
    key, value = key[keep], value[keep]
    if len(key) == 0:
        raise InputError("no edges" + _dropped_text(loops, zero_sum))
    if len(key) > MAX_EDGES:
        raise InputError(f"at most {MAX_EDGES} edges are supported, got {len(key)}")
    weight = np.ones(len(key)) if weights == "unit" else np.abs(value)
    _check_total(weight)
    return SignedGraph(
        n=nodes,
        u=(key // nodes).astype(np.int32),
        v=(key % nodes).astype(np.int32),
        weight=weight,
        negative=value < 0,
        loops=loops,
        zero_sum=zero_sum,
    )


def as_graph(
    u: ArrayLike | SignedGraph,
    v: ArrayLike | None = None,
    s: ArrayLike | None = None,
    *,
    weights: str = "unit",
    merge: str = "sum",
) -> SignedGraph:
    """The graph that an argument list speaks of: `u` itself if it is one, else what `merge_edges` makes of the rows.

    Raises:
        InputError: v is missing, or the rows are no graph.
    """
    if isinstance(u, SignedGraph):
        return u
    if v is None:
        raise InputError("v is missing: give u and v, or a SignedGraph")
    return merge_edges(u, v, s, weights=weights, merge=merge)


def as_problem(name: Problem | str) -> Problem:
    """The problem of this name.

    Raises:
        InputError: there is none.
    """
    try:
        return Problem(name)
    except ValueError:
        raise InputError(f"problem must be one of {', '.join(Problem)}; got {name!r}") from None


def choose_problem(graph: SignedGraph) -> Problem:
    """The problem that the signs suggest: `cc` if there is a minus among them, `cc-complete` for a plain edge list."""
    return Problem.CC if bool(graph.negative.any()) else Problem.CC_COMPLETE


def check_problem(graph: SignedGraph, problem: Problem) -> None:
    """Refuses a graph that the problem is not about.

    Raises:
        InputError: a signed problem without a negative edge, or a plain one with negative edges.
    """
    negatives = int(np.count_nonzero(graph.negative))
    if problem.signed and negatives == 0:
        raise InputError(
            "no negative edge, so all pairs agree; did you mean the problem cc-complete or maxcut?"
        )
    if not problem.signed and negatives:
        count = "1 edge is" if negatives == 1 else f"{negatives} edges are"
        raise InputError(
            f"the problem {problem} takes a plain graph, but {count} negative; "
            "did you mean the problem cc or frustration?"
        )


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(f"{name} must be one of {', '.join(allowed)}; got {value!r}")


def _node_numbers(name: str, values: ArrayLike) -> NDArray[np.int64]:
    array: NDArray[Any] = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InputError(
            f"{name} must be a one-dimensional array of integers, got {array.dtype} {array.shape}"
        )
    return array.astype(np.int64)


def _count_nodes(u: NDArray[np.int64], v: NDArray[np.int64], n: int | None) -> int:
    if len(u) == 0:
        raise InputError("no edges")
    low, high = int(min(u.min(), v.min())), int(max(u.max(), v.max()))
    nodes = high + 1 if n is None else n
    if low < 0 or high >= nodes:
        raise InputError(f"node numbers must be in 0..{nodes - 1}, got {low if low < 0 else high}")
    if nodes > MAX_NODES:
        raise InputError(f"at most {MAX_NODES} nodes are supported, got {nodes}")
    if nodes > 2 * len(u) + MAX_ISOLATED:
        raise InputError(f"{nodes} nodes but only {len(u)} edges: at most {MAX_ISOLATED} nodes may have none")
    return nodes


def _values(s: ArrayLike | None, rows: int, merge: str) -> NDArray[np.float64]:
    if s is None:
        return np.ones(rows)
    value = np.asarray(s, dtype=np.float64)
    if value.shape != (rows,):
        raise InputError(f"s must have one value per edge, got shape {value.shape} for {rows} edges")
    bad = np.flatnonzero(~np.isfinite(value))
    if len(bad):
        raise InputError(f"edge {bad[0]} has the weight {value[bad[0]]}")
    zero = np.flatnonzero(value == 0)
    if len(zero) and merge != "sum":
        raise InputError(
            f"edge {zero[0]} has weight 0, which only the merge policy sum accepts (it drops the edge)"
        )
    return value


def _merge_rows(
    key: NDArray[np.int64], value: NDArray[np.float64], merge: str
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
    """Sorted distinct keys, the merged value of each, and which of them `drop` says to leave out."""
    if np.any(key[1:] <= key[:-1]):
        key, order = _sort_keys(key)
        value = value[order]
    first = (
        np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1]))) if len(key) else np.empty(0, np.int64)
    )
    contradicted = np.zeros(len(first), bool)
    if len(first) == len(key):
        return key, value, contradicted
    last = np.concatenate((first[1:], [len(key)])) - 1
    if merge == "first":
        merged = value[first]
    elif merge == "last":
        merged = value[last]
    else:
        merged = _sums(value, first)
        if merge == "drop":
            contradicted = (np.minimum.reduceat(value, first) < 0) & (np.maximum.reduceat(value, first) > 0)
    return key[first], merged, contradicted


def _sort_keys(key: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """The keys in order, and where each came from; equal keys keep theirs.

    With the row in the low bits of the key there is one array of numbers to sort, which is several times faster than
    to sort indirectly. Where both do not fit into 63 bits, it has to be indirectly.
    """
    row_bits = len(key).bit_length()
    if int(key.max()).bit_length() + row_bits > 63:
        order = np.argsort(key, kind="stable")
        return key[order], order
    packed = key << row_bits
    packed |= np.arange(len(key))
    packed.sort()
    order = packed & ((1 << row_bits) - 1)
    packed >>= row_bits
    return packed, order


def _sums(value: NDArray[np.float64], first: NDArray[np.intp]) -> NDArray[np.float64]:
    """The sum of each run of values, 0 where it may be nothing but rounding, which the order of the rows decides."""
    with np.errstate(over="ignore", invalid="ignore"):
        total, size = np.add.reduceat(value, first), np.add.reduceat(np.abs(value), first)
    if not np.all(np.isfinite(size)):
        raise InputError("the weights of a repeated edge add up to more than a double can hold")
    rows = np.diff(first, append=len(value))
    exact = np.logical_and.reduceat(value == np.rint(value), first) & (size <= 2.0**53)
    noise = 4 * np.finfo(np.float64).eps * rows * size
    return np.where(~exact & (np.abs(total) <= noise), 0.0, total)


def _check_total(weight: NDArray[np.float64]) -> None:
    with np.errstate(over="ignore"):
        total = float(np.sum(weight))
    whole = total >= MAX_WHOLE_WEIGHT and bool(np.all(weight == np.rint(weight)))
    if whole or not np.isfinite(total):
        raise InputError(f"the weights add up to {total:.4g}: scale them down")


def _dropped_text(loops: int, zero_sum: int) -> str:
    parts = []
    if loops:
        parts.append("1 self-loop" if loops == 1 else f"{loops} self-loops")
    if zero_sum:
        parts.append("1 pair that cancels out" if zero_sum == 1 else f"{zero_sum} pairs that cancel out")
    return f" left after dropping {' and '.join(parts)}" if parts else ""
