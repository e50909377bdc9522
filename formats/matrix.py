"""From the entries of a square matrix to edges."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from icml.formats.edges import EdgeList
from icml.formats.errors import InputError
from icml.formats.names import Names

MAX_NODES = 2**31 - 1


def matrix_edges(
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    values: NDArray[np.float64] | None,
    names: Names,
    source: str,
    *,
    line: NDArray[np.int64] | None = None,
    symmetric: bool | None = None,
) -> EdgeList:
    """An edge for each entry (rows[k], columns[k]), 0-based, in that order.

    Args:
        rows, columns: int64 (m,), 0 <= index < len(names).
        values: float64 (m,) or None.
        names: the nodes' names, one a row of the matrix.
        line: int64 (m,), the input line of each entry, if there are lines.
        symmetric: True if the entries are those of one triangle of a symmetric matrix, False to take them as they are,
            None to find out: if the matrix equals its transpose, the entries below the diagonal are left out.
    """
    undirected = bool(symmetric)
    if symmetric is None and is_symmetric(rows, columns, values):
        undirected = True
        upper = rows <= columns
        rows, columns = rows[upper], columns[upper]
        values = None if values is None else values[upper]
        line = None if line is None else line[upper]
    u, v = rows.astype(np.int32), columns.astype(np.int32)
    return EdgeList(u, v, values, names, line, source, undirected)


def is_symmetric(
    rows: NDArray[np.int64], columns: NDArray[np.int64], values: NDArray[np.float64] | None
) -> bool:
    """Whether mirroring the entries at the diagonal gives the same entries, in some order."""
    lower, upper = rows > columns, rows < columns
    if np.count_nonzero(lower) != np.count_nonzero(upper):
        return False
    first = _sorted_entries(rows[upper], columns[upper], None if values is None else values[upper])
    second = _sorted_entries(columns[lower], rows[lower], None if values is None else values[lower])
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def _sorted_entries(
    rows: NDArray[np.int64], columns: NDArray[np.int64], values: NDArray[np.float64] | None
) -> tuple[NDArray[Any], ...]:
    keys = (rows << 32) | columns
    if values is None:
        return (np.sort(keys),)
    order = np.lexsort((values, keys))
    return keys[order], values[order]


def require_square(n_rows: int, n_columns: int, source: str, line: int | None = None) -> int:
    """The number of nodes of an adjacency matrix of this shape.

    Raises:
        InputError: it is not square, or too large for int32 node numbers.
    """
    if n_rows != n_columns:
        raise InputError(f"a graph needs a square matrix, this one is {n_rows} x {n_columns}", source, line)
    if n_rows > MAX_NODES:
        raise InputError(f"more than {MAX_NODES} nodes", source, line)
    return n_rows
