"""Numbering of nodes by first appearance, for edges that are already in arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from icml.formats import _kernel
from icml.formats.names import Names


def number_integers(
    u: NDArray[np.int64], v: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int32], Names]:
    """Node numbers for integer ids, row by row, u before v.

    Args:
        u, v: int64 (m,) each.

    Returns:
        int32 (m,) for u and v, and the names: the ids in decimal.
    """
    first, second, ids = _kernel.number_edges(np.ascontiguousarray(u), np.ascontiguousarray(v))
    return first, second, Names.from_integers(ids)


def number_labels(
    u: NDArray[np.int64], v: NDArray[np.int64], labels: list[str]
) -> tuple[NDArray[np.int32], NDArray[np.int32], Names]:
    """As number_integers, for ids labels[u] and labels[v]; labels that no edge uses are dropped."""
    first, second, used = _kernel.number_edges(np.ascontiguousarray(u), np.ascontiguousarray(v))
    return first, second, Names.from_strings(labels[i] for i in used.tolist())
