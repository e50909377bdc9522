"""Sparse data: the cells that are not zero, and those that are held out or missing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icml.formats.errors import InputError
from icml.tools.nneinfact.cells import Part, boxes, draw_cells
from icml.tools.nneinfact.data import (
    SCAN_CELLS,
    Holdout,
    Statistics,
    Values,
    boolean_mask,
    cell_name,
    check_values,
    check_weights,
    zero_message,
)
from icml.tools.nneinfact.dense_data import NOTHING_LEFT, DenseData
from icml.tools.nneinfact.losses import Divergence

MAX_ENTRIES = 2**31 - 1


@dataclass
class SparseData:
    """A tensor whose unlisted cells are zero.

    Attributes:
        shape: sizes of its axes.
        flat: ascending numbers of the observed cells that are not zero.
        values: their values.
        excluded: ascending numbers of the cells that are held out or missing.
        excluded_values: their values, NaN for missing ones.
        weights: a weight for every cell, or None.
        part: which part of a tensor this is, if it is not the whole of it; `stats` are then those of the whole.
    """

    shape: tuple[int, ...]
    flat: NDArray[np.int64]
    values: NDArray[np.float64]
    excluded: NDArray[np.int64]
    excluded_values: NDArray[np.float64]
    weights: Values | None
    stats: Statistics
    part: Part | None = None

    @property
    def whole_shape(self) -> tuple[int, ...]:
        """Sizes of the tensor that this is a part of."""
        return self.part.whole if self.part is not None else self.shape

    @property
    def notes(self) -> list[str]:
        return self.stats.notes

    def cut(self, part: Part) -> SparseData:
        """A part of the data; its statistics stay those of the whole."""
        assert self.part is None
        listed, excluded = part.inside(self.flat), part.inside(self.excluded)
        return replace(
            self,
            shape=part.shape,
            flat=part.to_part(self.flat[listed]),
            values=self.values[listed],
            excluded=part.to_part(self.excluded[excluded]),
            excluded_values=self.excluded_values[excluded],
            weights=None if self.weights is None else self.weights[part.slices],
            part=part,
        )

    @property
    def all_equal_weight(self) -> bool:
        return self.weights is None

    @property
    def square(self) -> float:
        """Sum of the squares of the observed cells."""
        return float(np.einsum("i,i", self.values, self.values))


def load_sparse(
    coords: ArrayLike,
    values: ArrayLike,
    shape: Sequence[int],
    divergence: Divergence,
    *,
    missing: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    holdout: Holdout | None = None,
    nan: str = "missing",
) -> SparseData:
    """Checks a sparse tensor; cells listed twice are summed, zeros listed are dropped.

    Args:
        coords: (axes, entries) indices, from 0.
        values: (entries,); NaN means that the cell is missing.
        shape: sizes of the axes.
        missing: (axes, m) indices of cells that are not observed, or a boolean array, true where observed.
        weights, holdout, nan: as for `load_dense`.

    Raises:
        InputError: as `load_dense`; also an index beyond the shape.
    """
    shape = tuple(int(n) for n in shape)
    flat = _flat_cells(coords, shape)
    value = np.asarray(values, np.float64).reshape(-1)
    if len(value) != len(flat):
        raise InputError(f"{len(flat)} coordinates but {len(value)} values")
    cells = math.prod(shape)
    check_values(value, divergence, lambda i: cell_name(int(flat[i]), shape), zeros_listed=True)
    gaps = np.isnan(value)
    unknown = np.unique(np.concatenate((flat[gaps], _missing_cells(missing, shape))))
    if gaps.any() and nan == "error":
        raise InputError(f"cell {cell_name(int(flat[gaps][0]), shape)} is NaN")
    gap_count = int(gaps.sum())
    with np.errstate(over="ignore"):
        flat, value, repeated = _summed(flat[~gaps], value[~gaps])
    if repeated and np.isinf(value).any():
        beyond = int(flat[np.argmax(np.isinf(value))])
        raise InputError(f"the values listed for cell {cell_name(beyond, shape)} sum to infinity")
    keep = value != 0
    flat, value = flat[keep], value[keep]
    if len(flat) < cells - len(unknown) and not divergence.admits_zeros:
        zero = _first_absent(np.union1d(flat, unknown), cells)
        raise InputError(zero_message(cell_name(zero, shape), divergence))
    drawn = np.empty(0, np.int64)
    if holdout is not None:
        drawn = np.concatenate(list(draw_cells(cells, holdout.fraction, holdout.seed)))
        drawn = drawn[~_in_sorted(drawn, unknown)]
    excluded = np.union1d(drawn, unknown) if len(unknown) else drawn
    if len(flat) + len(excluded) > MAX_ENTRIES:
        raise InputError(f"{len(flat) + len(excluded)} listed cells; at most {MAX_ENTRIES} are supported")
    excluded_values = np.where(_in_sorted(excluded, unknown), np.nan, _lookup(excluded, flat, value))
    weight_array = check_weights(weights, shape)
    nonzeros = int(len(flat) - _in_sorted(flat, unknown).sum())
    inside = ~_in_sorted(flat, excluded)
    flat, value = flat[inside], value[inside]
    data = SparseData(shape, flat, value, excluded, excluded_values, weight_array, Statistics(cells))
    data.stats = replace(_statistics(data), nonzeros=nonzeros, gaps=gap_count, repeated=repeated)
    if data.stats.weight <= 0:
        raise InputError(NOTHING_LEFT)
    return data


def sparse_from_dense(data: DenseData) -> SparseData:
    """The same data as a list of non-zeros; only sensible where few cells are non-zero or excluded."""
    assert data.weights is None
    flat: list[NDArray[np.int64]] = []
    values: list[NDArray[np.float64]] = []
    excluded: list[NDArray[np.int64]] = []
    excluded_values: list[NDArray[np.float64]] = []
    for box in boxes(data.shape, SCAN_CELLS):
        y = np.ascontiguousarray(data.array[box.slices]).reshape(-1)
        seen = data.seen(box.start, box.stop)
        where = np.flatnonzero(y if seen is None else (y != 0) & seen)
        flat.append(where + box.start)
        values.append(y[where].astype(np.float64))
        if seen is not None:
            out = np.flatnonzero(~seen)
            known = data.held.get(box.start, box.stop)[out] if data.held else np.zeros(len(out), bool)
            excluded.append(out + box.start)
            excluded_values.append(np.where(known, y[out].astype(np.float64), np.nan))
    excluded.append(np.empty(0, np.int64))
    excluded_values.append(np.empty(0))
    return SparseData(
        data.shape, _taken(flat), _taken(values), _taken(excluded), _taken(excluded_values), None, data.stats, data.part
    )  # fmt: skip


def _taken(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """The parts as one array; they are given up at once."""
    whole = np.concatenate(parts)
    parts.clear()
    return whole


def _flat_cells(coords: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Cell numbers of (axes, entries) indices."""
    if math.prod(shape) >= 2**63:
        raise InputError(f"a tensor of shape {shape} has more than 2^63 cells")
    index = np.asarray(coords)
    if index.ndim != 2 or index.shape[0] != len(shape):
        raise InputError(f"coordinates must have shape ({len(shape)}, entries), got {index.shape}")
    if index.size and index.dtype.kind not in "iu":
        raise InputError(f"coordinates must be whole numbers, got type {index.dtype}")
    for axis, size in enumerate(shape):
        column = index[axis]
        if index.shape[1] and (column.min() < 0 or column.max() >= size):
            bad = int(np.argmax((column < 0) | (column >= size)))
            raise InputError(f"entry {bad}: index {column[bad]} on axis {axis} is outside 0..{size - 1}")
    if index.shape[1] == 0:
        return np.empty(0, np.int64)
    return np.asarray(np.ravel_multi_index(tuple(index.astype(np.int64)), shape), np.int64)


def _missing_cells(missing: ArrayLike | None, shape: tuple[int, ...]) -> NDArray[np.int64]:
    if missing is None:
        return np.empty(0, np.int64)
    array = np.asarray(missing)
    if array.dtype == bool:
        mask = boolean_mask(array, shape)
        assert mask is not None
        return np.flatnonzero(~mask.reshape(-1)).astype(np.int64)
    return np.unique(_flat_cells(array, shape))


def _summed(
    flat: NDArray[np.int64], value: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
    """Ascending distinct cells, the sum of each, and how many listed cells were merged away."""
    if len(flat) > 1 and not (flat[1:] > flat[:-1]).all():
        order = np.argsort(flat, kind="stable")
        flat, value = flat[order], value[order]
        first = np.flatnonzero(np.concatenate(([True], flat[1:] != flat[:-1])))
        merged = len(flat) - len(first)
        return flat[first], np.add.reduceat(value, first), merged
    return flat, value, 0


def _in_sorted(numbers: NDArray[np.int64], among: NDArray[np.int64]) -> NDArray[np.bool_]:
    if len(among) == 0:
        return np.zeros(len(numbers), bool)
    at = np.minimum(np.searchsorted(among, numbers), len(among) - 1)
    return np.asarray(among[at] == numbers)


def _lookup(
    numbers: NDArray[np.int64], flat: NDArray[np.int64], value: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Values of cells, 0 where they are not listed."""
    if len(flat) == 0:
        return np.zeros(len(numbers))
    at = np.minimum(np.searchsorted(flat, numbers), len(flat) - 1)
    return np.where(flat[at] == numbers, value[at], 0.0)


def _first_absent(listed: NDArray[np.int64], cells: int) -> int:
    """The first cell that is not listed."""
    gap = np.flatnonzero(listed != np.arange(len(listed)))
    return int(gap[0]) if len(gap) else min(len(listed), cells - 1)


def _statistics(data: SparseData) -> Statistics:
    """The statistics of checked data, but for `nonzeros`."""
    shape, excluded, weights = data.shape, data.excluded, data.weights
    cells = math.prod(shape)
    held = excluded[~np.isnan(data.excluded_values)]
    stats = Statistics(cells, missing=len(excluded) - len(held))
    stats.largest = float(data.values.max(initial=0.0))
    if weights is None:
        stats.weight, stats.held_weight = float(cells - len(excluded)), float(len(held))
        with np.errstate(over="ignore"):  # told from the loss of the start
            stats.sum = float(data.values.sum())
        return stats

    def at(numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray(weights[np.unravel_index(numbers, shape)], np.float64)

    stats.held_weight = float(at(held).sum())
    total = float(weights.sum(dtype=np.float64))
    stats.weight = total - float(at(excluded).sum())
    if stats.weight < 1e-6 * total:  # mostly rounding
        stats.weight = float(np.delete(weights.reshape(-1), excluded).sum(dtype=np.float64))
    stats.sum = float((at(data.flat) * data.values).sum())
    return stats
