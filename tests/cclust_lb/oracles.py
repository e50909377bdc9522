"""Slow, obvious answers that the tool's bounds are held against: brute force and exact LPs.

Nothing here shares code with the tool; only the merged graph (u, v, weight, negative) goes in. An *element*
is what an obstruction is made of: an edge of the graph, or, for `cc-complete`, any pair of nodes. On small
graphs a set of elements is a row of a 0/1 matrix over the n(n-1)/2 pairs, so that all partitions, cycles,
cliques and stars of K_n are tabulated once per n and a graph only selects rows.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Graph(Protocol):
    """The merged graph: simple, u < v, positive weights."""

    n: int
    u: NDArray[np.int32]
    v: NDArray[np.int32]
    weight: Floats
    negative: NDArray[np.bool_]


# --- all of K_n: pairs, partitions, cycles, cliques, stars ---


@cache
def pairs(n: int) -> tuple[tuple[int, int], ...]:
    """The pairs a < b of 0..n-1, in the order that every table below uses for its columns."""
    return tuple(itertools.combinations(range(n), 2))


@cache
def pair_index(n: int) -> dict[tuple[int, int], int]:
    """Column of each pair."""
    return {pair: i for i, pair in enumerate(pairs(n))}


def restricted_growth(n: int, blocks: int) -> Iterator[tuple[int, ...]]:
    """Every partition of n nodes into at most `blocks` clusters, which are numbered as they appear."""

    def extend(prefix: tuple[int, ...], used: int) -> Iterator[tuple[int, ...]]:
        if len(prefix) == n:
            yield prefix
            return
        for label in range(min(used + 1, blocks)):
            yield from extend((*prefix, label), max(used, label + 1))

    yield from extend((0,), 1)


@cache
def apart(n: int, blocks: int) -> Floats:
    """(partitions, pairs): 1 where the partition separates the pair."""
    labels = np.array(list(restricted_growth(n, blocks)), dtype=np.int8)
    first, second = np.array(pairs(n)).T
    return (labels[:, first] != labels[:, second]).astype(np.float64)


def _rows(n: int, sets: Sequence[Sequence[tuple[int, int]]]) -> Floats:
    table = np.zeros((len(sets), len(pairs(n))))
    column = pair_index(n)
    for row, members in zip(table, sets, strict=True):
        row[[column[min(a, b), max(a, b)] for a, b in members]] = 1
    return table


@cache
def cycles(n: int) -> Floats:
    """Every simple cycle of K_n: the smallest node first, and of its two directions the one that goes up."""
    found = [
        list(itertools.pairwise((*walk, walk[0])))
        for size in range(3, n + 1)
        for nodes in itertools.combinations(range(n), size)
        for rest in itertools.permutations(nodes[1:])
        if rest[0] < rest[-1]
        for walk in [(nodes[0], *rest)]
    ]
    return _rows(n, found)


@cache
def cliques(n: int) -> tuple[Floats, Ints]:
    """Every node set of at least three, as the pairs inside it, and its size."""
    sets = [nodes for size in range(3, n + 1) for nodes in itertools.combinations(range(n), size)]
    table = _rows(n, [list(itertools.combinations(nodes, 2)) for nodes in sets])
    return table, np.array([len(nodes) for nodes in sets])


@cache
def stars(n: int, most: int) -> tuple[Floats, Floats, Ints]:
    """Every centre with 2..most leaves: centre-leaf pairs, leaf-leaf pairs, number of leaves."""
    sets = [
        (centre, leaves)
        for centre in range(n)
        for size in range(2, most + 1)
        for leaves in itertools.combinations([x for x in range(n) if x != centre], size)
    ]
    spokes = _rows(n, [[(centre, x) for x in leaves] for centre, leaves in sets])
    rim = _rows(n, [list(itertools.combinations(leaves, 2)) for _, leaves in sets])
    return spokes, rim, np.array([len(leaves) for _, leaves in sets])


# --- small graphs ---


@dataclass(frozen=True)
class Instance:
    """A small graph and a problem, as weights over all pairs; `plus` and `minus` are 0 off the elements."""

    graph: Graph
    problem: str

    @cached_property
    def plus(self) -> Floats:
        """Weight of the pair as a positive element."""
        return self._dense(~self.graph.negative)

    @cached_property
    def minus(self) -> Floats:
        """Weight of the pair as a negative element; every edge of maxcut is one, and so is a missing pair of
        cc-complete."""
        if self.problem == "cc-complete":
            return np.where(self.plus == 0, 1.0, 0.0)
        return self._dense(self.graph.negative)

    def _dense(self, which: NDArray[np.bool_]) -> Floats:
        if self.problem == "maxcut":
            which = ~which  # an uncut edge is the disagreement: to maxcut every edge says "apart"
        dense = np.zeros(len(pairs(self.graph.n)))
        column = pair_index(self.graph.n)
        for a, b, w, chosen in zip(self.graph.u, self.graph.v, self.graph.weight, which, strict=True):
            if chosen:
                dense[column[int(a), int(b)]] = w
        return dense

    @property
    def blocks(self) -> int:
        """How many clusters are allowed."""
        return 2 if self.problem in ("frustration", "maxcut") else self.graph.n

    def costs(self) -> Floats:
        """Weight of the disagreements of every partition."""
        table = apart(self.graph.n, self.blocks)
        return table @ (self.plus - self.minus) + self.minus.sum()

    def optimum(self) -> float:
        """The least weight of disagreements; exact if the weights are multiples of some 2^-k."""
        return float(self.costs().min())

    # Which rows of the tables of K_n are obstructions here, and how many disagreements each forces.

    def cycle_rows(self, longest: int | None = None) -> tuple[Floats, Floats]:
        """Cycles with exactly one negative element (cc) or an odd number of them (frustration, maxcut)."""
        table = cycles(self.graph.n)
        negatives = table @ (self.minus > 0)
        bad = negatives % 2 == 1 if self.blocks == 2 else negatives == 1
        bad &= table @ ((self.plus == 0) & (self.minus == 0)) == 0
        if longest is not None:
            bad &= table.sum(axis=1) <= longest
        return table[bad], np.ones(int(bad.sum()))

    def clique_rows(self) -> tuple[Floats, Floats]:
        """Cliques all of whose triangles are odd: any two sides leave at least (p-1)^2/4 disagreements."""
        table, size = cliques(self.graph.n)
        odd, _ = self.cycle_rows(longest=3)
        odd_inside = ((table @ odd.T) == 3).sum(axis=1)
        bad = odd_inside == size * (size - 1) * (size - 2) // 6
        return table[bad], np.floor((size[bad] - 1.0) ** 2 / 4)

    def star_rows(self, most: int = 8) -> tuple[Floats, Floats]:
        """Edges from a centre to pairwise non-adjacent neighbours, with the missing pairs between these."""
        spokes, rim, leaves = stars(self.graph.n, min(most, self.graph.n - 1))
        bad = (spokes @ (self.minus > 0) == 0) & (rim @ (self.plus > 0) == 0)
        return (spokes + rim)[bad], leaves[bad] - 1.0

    def obstructions(self) -> tuple[Floats, Floats]:
        """All obstructions of every kind that the method knows for this problem."""
        if self.problem == "cc-complete":
            return self.star_rows()
        kinds = [self.cycle_rows()]
        if self.blocks == 2:
            kinds.append(self.clique_rows())
        return np.concatenate([rows for rows, _ in kinds]), np.concatenate([rhs for _, rhs in kinds])

    def triangles(self) -> tuple[Floats, Floats]:
        """Obstructions on three elements: the paper's relaxation (wedges, for cc-complete)."""
        return self.star_rows(most=2) if self.problem == "cc-complete" else self.cycle_rows(longest=3)

    def cover_lp(self, obstructions: tuple[Floats, Floats]) -> float:
        """Exact value of the covering LP over these obstructions."""
        return cover_lp(*obstructions, self.plus + self.minus)

    def cover_ip(self, obstructions: tuple[Floats, Floats]) -> float:
        """The same with x in {0, 1}."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        rows, rhs = obstructions
        if len(rows) == 0:
            return 0.0
        weight = self.plus + self.minus
        solved = milp(
            weight,
            constraints=LinearConstraint(rows, lb=rhs),
            integrality=np.ones(len(weight)),
            bounds=Bounds(0, 1),
        )
        assert solved.success, solved.message
        return float(solved.fun)


def cover_lp(rows: Any, rhs: Floats, weight: Floats, lazy: int = 400) -> float:
    """min weight.x over rows @ x >= rhs, x >= 0, by HiGHS; of many rows only violated ones come in."""
    from scipy.optimize import linprog

    count = rows.shape[0]
    if count == 0:
        return 0.0
    active = np.arange(count) if count <= lazy else np.argsort(rows.sum(axis=1) / rhs, kind="stable")[:lazy]
    while True:
        solved = linprog(weight, A_ub=-rows[active], b_ub=-rhs[active], bounds=(0, None), method="highs")
        assert solved.status == 0, solved.message
        slack = rows @ solved.x - rhs
        if slack.min() > -1e-7:
            return float(solved.fun)
        worst = np.argsort(slack, kind="stable")[:lazy]
        active = np.union1d(active, worst[slack[worst] < -1e-7])


def packing_lp(packing: Any, weight: Floats) -> float:
    """Exact LP over the obstructions of a certificate alone, its missing pairs having weight 1."""
    from scipy.sparse import csr_array

    columns = len(weight) + len(packing.pair_u)
    shape = (len(packing.rhs), columns)
    rows = csr_array((np.ones(len(packing.elements)), packing.elements, packing.ptr), shape=shape)
    capacity = np.concatenate([weight, np.ones(len(packing.pair_u))])
    return cover_lp(rows, np.asarray(packing.rhs, dtype=np.float64), capacity, lazy=len(packing.rhs))


# --- any size ---


def bad_triangles(graph: Graph, problem: str) -> Ints:
    """(t, 3) edge numbers of the triangles that are obstructions, by intersecting neighbour sets."""
    number = {(int(a), int(b)): e for e, (a, b) in enumerate(zip(graph.u, graph.v, strict=True))}
    above: dict[int, set[int]] = defaultdict(set)
    for a, b in number:
        above[a].add(b)
    negative = [problem == "maxcut" or bool(x) for x in graph.negative]
    wanted = (1,) if problem == "cc" else (1, 3)
    found = []
    for (a, b), ab in number.items():
        for c in above[a] & above[b]:
            ac, bc = number[a, c], number[b, c]
            if negative[ab] + negative[ac] + negative[bc] in wanted:
                found.append((ab, ac, bc))
    return np.array(found, dtype=np.int64).reshape(-1, 3)


def triangle_lp(graph: Graph, problem: str) -> float:
    """Exact value of the paper's triangle covering LP, on a graph of any size."""
    from scipy.sparse import csr_array

    triangles = bad_triangles(graph, problem)
    count = len(triangles)
    rows = csr_array(
        (np.ones(3 * count), triangles.ravel(), np.arange(0, 3 * count + 1, 3)), shape=(count, len(graph.u))
    )
    return cover_lp(rows, np.ones(count), graph.weight, lazy=count)


def wedge_lp(graph: Graph) -> float:
    """Exact value of the wedge covering LP of cc-complete: all a-v-b with ab missing."""
    from scipy.sparse import csr_array

    near: dict[int, set[int]] = defaultdict(set)
    for a, b in zip(graph.u.tolist(), graph.v.tolist(), strict=True):
        near[a].add(b)
        near[b].add(a)
    column: dict[frozenset[int], int] = {}
    wedges = []
    for v, around in near.items():
        for a, b in itertools.combinations(sorted(around), 2):
            if b not in near[a]:
                sides = (frozenset((v, a)), frozenset((v, b)), frozenset((a, b)))
                wedges.append([column.setdefault(side, len(column)) for side in sides])
    count = len(wedges)
    rows = csr_array(
        (np.ones(3 * count), np.ravel(wedges).astype(np.int64), np.arange(0, 3 * count + 1, 3)),
        shape=(count, len(column)),
    )
    return cover_lp(rows, np.ones(count), np.ones(len(column)), lazy=count)


def cycle_lp(graph: Graph, problem: str) -> float:
    """Exact value of the LP over all bad cycles, which come in as they are violated."""
    from scipy.optimize import linprog

    rows: dict[bytes, Floats] = {}
    x = np.zeros(len(graph.u))
    while fresh := {row.tobytes(): row for row in _violated_cycles(graph, problem, x)}:
        rows |= fresh
        table = np.array(list(rows.values()))
        solved = linprog(graph.weight, A_ub=-table, b_ub=-np.ones(len(rows)), bounds=(0, None))
        assert solved.status == 0, solved.message
        x = np.maximum(solved.x, 0)
    return float(graph.weight @ x)


def _violated_cycles(graph: Graph, problem: str, x: Floats) -> Iterator[Floats]:
    """Bad cycles over which x sums to less than 1, as 0/1 rows; some whenever there are any.

    For cc a shortest path of positive edges closes with a negative one. For two clusters an odd closed walk
    through a node is a path between its two copies in the double cover, where a negative edge changes sides.
    """
    import networkx as nx

    ends = list(zip(graph.u.tolist(), graph.v.tolist(), strict=True))
    negative = [problem == "maxcut" or bool(sign) for sign in graph.negative]
    search = nx.Graph()
    jobs: list[tuple[Any, Any, list[int]]] = []  # from, to, edges that close the path
    for e, (a, b) in enumerate(ends):
        if problem != "cc":
            for side in (0, 1):
                search.add_edge((a, side), (b, side ^ negative[e]), e=e, x=x[e])
        elif negative[e]:
            jobs.append((a, b, [e]))
        else:
            search.add_edge(a, b, e=e, x=x[e])
    if problem != "cc":
        jobs = [((node, 0), (node, 1), []) for node in range(graph.n)]
    for source, target, closing in jobs:
        if source not in search or target not in search or not nx.has_path(search, source, target):
            continue
        path = nx.dijkstra_path(search, source, target, weight="x")
        walk = closing + [search.edges[step]["e"] for step in itertools.pairwise(path)]
        if x[walk].sum() < 1 - 1e-6:
            # An edge walked twice cancels out, which leaves an odd number of negative ones.
            yield np.bincount(walk, minlength=len(ends)) % 2.0


def grid_frustration(rows: int, cols: int, negative: dict[tuple[int, int], bool]) -> int:
    """Frustration index of a planar grid with signs, exactly: frustrated faces matched at least distance.

    Node (i, j) is i * cols + j. A set of edges is the disagreements of some two clusters just when it has an
    odd number of edges around exactly those faces that have an odd number of negative ones; the least such
    set pairs these faces up by paths in the dual, whose outer face absorbs any number (Bieche et al. 1980).
    """
    import networkx as nx

    odd = []
    for i in range(rows - 1):
        for j in range(cols - 1):
            a = i * cols + j
            around = [(a, a + 1), (a, a + cols), (a + 1, a + cols + 1), (a + cols, a + cols + 1)]
            if sum(negative[edge] for edge in around) % 2:
                odd.append((i, j))
    outside = [min(i + 1, j + 1, rows - 1 - i, cols - 1 - j) for i, j in odd]
    dual = nx.Graph()
    # Each odd face has its own way out; ways out pair up among themselves for free.
    for x, (i, j) in enumerate(odd):
        dual.add_edge(("face", x), ("out", x), weight=outside[x])
        for y, (other_i, other_j) in enumerate(odd[:x]):
            dual.add_edge(("face", x), ("face", y), weight=abs(i - other_i) + abs(j - other_j))
            dual.add_edge(("out", x), ("out", y), weight=0)
    return int(sum(dual.edges[edge]["weight"] for edge in nx.min_weight_matching(dual)))
