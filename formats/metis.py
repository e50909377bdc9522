"""METIS graph files (G. Karypis: METIS manual, version 5.1.0, section 4.1.1).

The header line is `n m [fmt [ncon]]`; then node i's line lists its neighbours, 1-based, each followed by the edge's
weight if fmt says so. An edge is listed by both its nodes and given once here, at the line of the node with the smaller
number. Node i is called "i". Node weights and sizes are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from icml.formats import _kernel
from icml.formats.dialect import BLANKS, located, parse_count
from icml.formats.edges import EdgeList
from icml.formats.errors import InputError
from icml.formats.matrix import MAX_NODES
from icml.formats.names import Names
from icml.formats.source import Content


@dataclass(frozen=True)
class _Head:
    """The header line: nodes, edges, whether edges have weights, how many numbers precede a node's neighbours."""

    n: int
    m: int
    weighted: bool
    skip: int
    line: int
    end: int


@dataclass(frozen=True)
class _Listing:
    """The edges as listed, each by both its nodes: 0-based nodes, weights, and the line of each."""

    u: NDArray[np.int64]
    v: NDArray[np.int64]
    weight: NDArray[np.float64] | None
    line: NDArray[np.int64]


def read_metis(content: Content) -> EdgeList:
    """Reads a METIS file.

    Raises:
        InputError: with the line where there is one: a bad header; more or fewer nodes or edges than it says; a
            neighbour outside 1 … n; a self-loop; an edge that only one of its nodes lists, or with two weights.
    """
    head = _read_head(content)
    listing = _read_listing(content, head)
    _check_neighbours(listing, head.n, content.name)
    forward = listing.u < listing.v
    _check_pairs(listing, forward, content.name)
    if np.count_nonzero(forward) != head.m:
        message = f"the header says {head.m} edges, the lines have {np.count_nonzero(forward)}"
        raise InputError(message, content.name, head.line)
    return EdgeList(
        listing.u[forward].astype(np.int32),
        listing.v[forward].astype(np.int32),
        None if listing.weight is None else listing.weight[forward],
        Names.from_range(1, head.n),
        listing.line[forward],
        content.name,
        undirected=True,
    )


def _read_head(content: Content) -> _Head:
    expected = "expected the header line 'nodes edges [format [constraints]]'"
    for line, end, fields in _kernel.sample(content.data, 0, BLANKS, 1):
        flags = fields[2].zfill(3) if len(fields) > 2 else "000"
        counts = [count for field in fields if (count := parse_count(field)) is not None]
        if not 2 <= len(fields) <= 4 or len(counts) < len(fields):
            raise InputError(expected, content.name, line + 1)
        if len(flags) != 3 or set(flags) - {"0", "1"}:
            message = f"expected a format of three digits 0 or 1, got '{fields[2]}'"
            raise InputError(message, content.name, line + 1)
        if counts[0] > MAX_NODES:
            raise InputError(f"more than {MAX_NODES} nodes", content.name, line + 1)
        constraints = counts[3] if len(counts) > 3 else 1
        skip = int(flags[0]) + (constraints if flags[1] == "1" else 0)
        return _Head(counts[0], counts[1], flags[2] == "1", skip, line + 1, end)
    raise InputError(expected, content.name)


def _read_listing(content: Content, head: _Head) -> _Listing:
    with located(content.name):
        numbers, ends, lines = _kernel.read_number_lines(content.data, head.end, head.line + 1)
    counts = np.diff(ends, prepend=0)
    if len(counts) < head.n:
        raise InputError(f"expected the lines of {head.n} nodes, got {len(counts)}", content.name)
    if counts[head.n :].any():
        extra = head.n + int(np.argmax(counts[head.n :] > 0))
        raise InputError(f"more lines than the {head.n} nodes", content.name, int(lines[extra]))
    counts, lines = counts[: head.n], lines[: head.n]
    neighbours = counts - head.skip
    if (neighbours < 0).any():
        message = f"expected {head.skip} numbers before the neighbours"
        raise InputError(message, content.name, int(lines[np.argmax(neighbours < 0)]))
    if head.weighted and (neighbours % 2).any():
        message = "the last neighbour has no edge weight"
        raise InputError(message, content.name, int(lines[np.argmax(neighbours % 2)]))
    position = np.arange(len(numbers)) - np.repeat(np.cumsum(counts) - counts, counts) - head.skip
    is_weight = (position % 2 == 1) if head.weighted else np.zeros(len(numbers), bool)
    is_node = (position >= 0) & ~is_weight
    owner = np.repeat(np.arange(head.n), counts)[is_node]
    weight = numbers[(position >= 0) & is_weight] if head.weighted else None
    # A number that is no node, such as 1.5 or 1e300, becomes -1.
    node = numbers[is_node]
    node = np.where((node == np.floor(node)) & (node >= 1) & (node <= head.n), node, 0)
    return _Listing(owner, node.astype(np.int64) - 1, weight, lines[owner])


def _check_neighbours(listing: _Listing, n: int, source: str) -> None:
    if (listing.v < 0).any():
        line = int(listing.line[np.argmax(listing.v < 0)])
        raise InputError(f"expected neighbours from 1 to {n}", source, line)
    loops = listing.u == listing.v
    if loops.any():
        k = int(np.argmax(loops))
        raise InputError(f"node {listing.u[k] + 1} lists itself", source, int(listing.line[k]))


def _check_pairs(listing: _Listing, forward: NDArray[np.bool_], source: str) -> None:
    """Requires that both nodes of every edge list it, with the same weight."""
    low, high = np.minimum(listing.u, listing.v), np.maximum(listing.u, listing.v)
    keys = (low << 32) | high
    weight = np.zeros(len(keys)) if listing.weight is None else listing.weight
    order = np.lexsort((forward, weight, keys))
    # Sorted, the two listings of an edge are neighbours: first the backward one, then the forward one.
    backward_place, forward_place = order[0::2], order[1::2]
    paired = len(backward_place)
    odd = len(order) % 2
    good = keys[backward_place[: paired - odd]] == keys[forward_place]
    good &= weight[backward_place[: paired - odd]] == weight[forward_place]
    good &= ~forward[backward_place[: paired - odd]] & forward[forward_place]
    if good.all() and not odd:
        return
    k = int(order[2 * int(np.argmin(good))] if not good.all() else order[-1])
    edge = f"edge {listing.u[k] + 1} {listing.v[k] + 1}"
    message = f"{edge} must be listed once by each of its nodes, with the same weight"
    raise InputError(message, source, int(listing.line[k]))
