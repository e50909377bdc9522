"""Slices of the data without any observed cell: factor rows about which the data say nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from icml.tools.nneinfact.cells import boxes
from icml.tools.nneinfact.data import SCAN_CELLS
from icml.tools.nneinfact.dense_data import DenseData
from icml.tools.nneinfact.sparse_data import SparseData

Counts = list[NDArray[np.int64]]


def observed_counts(data: DenseData | SparseData) -> Counts:
    """For each axis, how many observed cells each of its slices has.

    If the data are a part of a tensor, the counts are for the axes of the whole, with 0 outside the part.
    """
    counts = [np.zeros(n, np.int64) for n in data.shape]
    if data.weights is None and (isinstance(data, SparseData) or data.all_equal_weight):
        _count_unlisted(data, counts)
    else:
        _count_seen(data, counts)
    if data.part is not None:
        axis = data.part.axis
        inside = counts[axis]
        counts[axis] = np.zeros(data.whole_shape[axis], np.int64)
        counts[axis][data.part.start : data.part.stop] = inside
    return counts


def empty_note(counts: Counts, letters: Sequence[str]) -> str | None:
    """A sentence that lists the slices whose cells are all masked, missing, held out or of weight 0; or None."""
    named = [
        f"{letter}={index}"
        for letter, count in zip(letters, counts, strict=True)
        for index in np.flatnonzero(count == 0)
    ]
    if not named:
        return None
    shown = ", ".join(named[:8]) + (f" and {len(named) - 8} more" if len(named) > 8 else "")
    return f"no observed cell in the slices {shown}: their factor rows keep their start"


def _count_unlisted(data: DenseData | SparseData, counts: Counts) -> None:
    """Counts where every cell is observed but for a list of some."""
    cells = math.prod(data.shape)
    excluded = data.excluded if isinstance(data, SparseData) else np.empty(0, np.int64)
    index = np.unravel_index(excluded, data.shape)
    for axis, count in enumerate(counts):
        size = data.shape[axis]
        np.subtract(cells // size, np.bincount(index[axis], minlength=size), out=count)


def _count_seen(data: DenseData | SparseData, counts: Counts) -> None:
    for box in boxes(data.shape, SCAN_CELLS):
        shape = [s.stop - s.start for s in box.slices]
        seen = np.ones(box.stop - box.start, bool)
        found = data.seen(box.start, box.stop) if isinstance(data, DenseData) else None
        if found is not None:
            seen = found.copy()
        if isinstance(data, SparseData):
            low, high = np.searchsorted(data.excluded, (box.start, box.stop))
            seen[data.excluded[low:high] - box.start] = False
        seen = seen.reshape(shape)
        if data.weights is not None:
            seen = seen & (data.weights[box.slices] > 0)
        for axis, count in enumerate(counts):
            others = tuple(k for k in range(len(shape)) if k != axis)
            count[box.slices[axis]] += seen.sum(axis=others, dtype=np.int64)
