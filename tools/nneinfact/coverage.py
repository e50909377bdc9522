"""Slices of the data without any observed cell: factor rows about which the data say nothing."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from icml.tools.nneinfact.cells import boxes
from icml.tools.nneinfact.data import SCAN_CELLS
from icml.tools.nneinfact.dense_data import DenseData
from icml.tools.nneinfact.sparse_data import SparseData


def empty_slices(data: DenseData | SparseData) -> list[NDArray[np.int64]]:
    """For each axis, the indices whose cells are all masked, missing, held out or of weight 0."""
    if data.weights is None and (
        data.observed is None if isinstance(data, DenseData) else not len(data.excluded)
    ):
        return [np.empty(0, np.int64) for _ in data.shape]
    counts = [np.zeros(n, np.int64) for n in data.shape]
    if isinstance(data, SparseData) and data.weights is None:
        _count_unlisted(data, counts)
    else:
        _count_seen(data, counts)
    return [np.flatnonzero(count == 0) for count in counts]


def empty_note(data: DenseData | SparseData, letters: str) -> str | None:
    """A sentence that lists the empty slices, or None."""
    named = [
        f"{letter}={index}"
        for letter, indices in zip(letters, empty_slices(data), strict=True)
        for index in indices
    ]
    if not named:
        return None
    shown = ", ".join(named[:8]) + (f" and {len(named) - 8} more" if len(named) > 8 else "")
    return f"no observed cell in the slices {shown}: their factor rows keep their start"


def _count_unlisted(data: SparseData, counts: list[NDArray[np.int64]]) -> None:
    cells = math.prod(data.shape)
    index = np.unravel_index(data.excluded, data.shape)
    for axis, count in enumerate(counts):
        size = data.shape[axis]
        np.subtract(cells // size, np.bincount(index[axis], minlength=size), out=count)


def _count_seen(data: DenseData | SparseData, counts: list[NDArray[np.int64]]) -> None:
    for box in boxes(data.shape, SCAN_CELLS):
        shape = [s.stop - s.start for s in box.slices]
        seen = np.ones(box.stop - box.start, bool)
        if isinstance(data, DenseData) and data.observed is not None:
            seen = data.observed.get(box.start, box.stop).copy()
        if isinstance(data, SparseData):
            low, high = np.searchsorted(data.excluded, (box.start, box.stop))
            seen[data.excluded[low:high] - box.start] = False
        seen = seen.reshape(shape)
        if data.weights is not None:
            seen = seen & (data.weights[box.slices] > 0)
        for axis, count in enumerate(counts):
            others = tuple(k for k in range(len(shape)) if k != axis)
            count[box.slices[axis]] += seen.sum(axis=others, dtype=np.int64)
