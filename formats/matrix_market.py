"""MatrixMarket coordinate files as graphs (R. F. Boisvert, R. Pozo, K. A. Remington: The Matrix Market Exchange
Formats: Initial Design, 1996).

Node i of the file is called "i". A symmetric file gives each stored entry once, as an undirected edge; a skew-symmetric
one gives its stored entries as they are; a general one is an undirected graph if it equals its transpose.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from icml.formats import _kernel
from icml.formats.dialect import BLANKS, located, parse_count
from icml.formats.edges import EdgeList
from icml.formats.errors import InputError
from icml.formats.matrix import matrix_edges, require_square
from icml.formats.names import Names
from icml.formats.source import Content

_FIELDS = ("real", "double", "integer", "unsigned-integer", "pattern")
_SYMMETRIES = ("general", "symmetric", "skew-symmetric")


@dataclass(frozen=True)
class _Head:
    """What stands before the entries, the 1-based line of the size, and where the entries begin."""

    pattern: bool
    symmetry: str
    n: int
    entries: int
    line: int
    end: int


def read_matrix_market(content: Content, threads: int) -> EdgeList:
    """Reads a MatrixMarket file.

    Raises:
        InputError: with the line where there is one: no coordinate matrix of real numbers; not square; an index
            outside the matrix; more or fewer entries than the size line says.
    """
    head = _read_head(content)
    with located(content.name):
        u, v, values, line, ids = _kernel.read_edges(
            content.data,
            head.end,
            head.line + 1,
            BLANKS,
            2 if head.pattern else 3,
            0,
            1,
            None if head.pattern else 2,
            threads,
        )
    if len(u) > head.entries:
        message = f"more entries than the {head.entries} that line {head.line} promises"
        raise InputError(message, content.name, int(line[head.entries]))
    if len(u) < head.entries:
        raise InputError(f"expected {head.entries} entries, got {len(u)}", content.name)
    index = _indices(ids, head.n)
    rows, columns = index[u], index[v]
    wrong = np.flatnonzero((rows < 0) | (columns < 0))
    if len(wrong):
        message = f"expected row and column numbers from 1 to {head.n}"
        raise InputError(message, content.name, int(line[wrong[0]]))
    return matrix_edges(
        rows,
        columns,
        values,
        Names.from_range(1, head.n),
        content.name,
        line=line,
        symmetric={"symmetric": True, "skew-symmetric": False}.get(head.symmetry),
    )


def _read_head(content: Content) -> _Head:
    lines = content.data.split(b"\n", 1)[0].decode("utf-8", "replace").lower().split()
    if len(lines) != 5 or lines[0] != "%%matrixmarket" or lines[1] != "matrix":
        message = "expected '%%MatrixMarket matrix coordinate FIELD SYMMETRY'"
        raise InputError(message, content.name, 1)
    _, _, layout, field, symmetry = lines
    if layout != "coordinate":
        raise InputError(f"only coordinate matrices are graphs, this one is '{layout}'", content.name, 1)
    for word, known in ((field, _FIELDS), (symmetry, _SYMMETRIES)):
        if word not in known:
            raise InputError(f"expected one of {', '.join(known)}; got '{word}'", content.name, 1)
    n, entries, line, end = _read_size(content)
    return _Head(field == "pattern", symmetry, n, entries, line, end)


def _read_size(content: Content) -> tuple[int, int, int, int]:
    """The size line's n and number of entries, its 1-based number, and the offset of the line after it."""
    for line, end, fields in _kernel.sample(content.data, 0, BLANKS, 1):
        sizes = [count for field in fields if (count := parse_count(field)) is not None]
        if len(fields) != 3 or len(sizes) != 3:
            raise InputError("expected the size line 'rows columns entries'", content.name, line + 1)
        n = require_square(sizes[0], sizes[1], content.name, line + 1)
        return n, sizes[2], line + 1, end
    raise InputError("the size line 'rows columns entries' is missing", content.name)


def _indices(ids: NDArray[np.int64] | tuple[bytes, NDArray[np.int64]], n: int) -> NDArray[np.int64]:
    """The 0-based index that each distinct id of the file means, -1 where it means none."""
    if not isinstance(ids, tuple):
        return np.where((ids >= 1) & (ids <= n), ids - 1, -1)
    return Names.from_range(1, n).lookup(Names.from_utf8(*ids)).astype(np.int64)
