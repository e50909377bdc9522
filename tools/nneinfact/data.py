"""The data of a fit, dense or sparse: which cells count, how much, and whether the divergence admits their values.

A cell is observed, held out for validation, or missing (masked, or NaN). Missing cells may hold anything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icml.formats.errors import InputError
from icml.tools.nneinfact.cells import CellBits, boxes, draw_cells
from icml.tools.nneinfact.divergence import Divergence

SCAN_CELLS = 1 << 20
"""Cells looked at together when data are checked."""
MAX_SPARSE_ENTRIES = 2**31 - 1

Values = NDArray[Any]


@dataclass
class Statistics:
    """What one look at all cells tells.

    Attributes:
        cells: cells of the tensor.
        nonzeros: observed and held-out cells that are not zero.
        missing: cells that count nowhere.
        weight, held_weight: total weight of the observed and of the held-out cells.
        sum: weighted sum of the observed cells.
        largest: largest value.
    """

    cells: int
    nonzeros: int = 0
    missing: int = 0
    weight: float = 0.0
    held_weight: float = 0.0
    sum: float = 0.0
    largest: float = 0.0

    @property
    def mean(self) -> float:
        """Weighted mean of the observed cells."""
        return self.sum / self.weight

    @property
    def density(self) -> float:
        """Share of cells that are not zero."""
        return self.nonzeros / self.cells


@dataclass
class DenseData:
    """A tensor with a value for every cell, in memory or mapped from a file.

    Attributes:
        array: the values; never copied when their type is one the kernel reads.
        weights: a weight for every cell (may be a broadcast view), or None.
        observed, held: bit masks, or None where every, respectively no, cell is in them.
        stats: see `Statistics`.
        notes: what the user should know, a sentence each.
    """

    array: Values
    weights: Values | None
    observed: CellBits | None
    held: CellBits | None
    stats: Statistics
    notes: list[str] = field(default_factory=list)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def mapped(self) -> bool:
        """Whether the values lie in a file."""
        return isinstance(self.array, np.memmap) or isinstance(self.array.base, np.memmap)

    @property
    def all_equal_weight(self) -> bool:
        """Whether every cell is observed with weight 1."""
        return self.weights is None and self.observed is None


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
    """

    shape: tuple[int, ...]
    flat: NDArray[np.int64]
    values: NDArray[np.float64]
    excluded: NDArray[np.int64]
    excluded_values: NDArray[np.float64]
    weights: Values | None
    stats: Statistics
    notes: list[str] = field(default_factory=list)

    @property
    def all_equal_weight(self) -> bool:
        return self.weights is None


@dataclass(frozen=True)
class Holdout:
    """Which share of all cells, zeros included, is set aside for validation."""

    fraction: float
    seed: int = 0


def load_dense(
    values: ArrayLike,
    divergence: Divergence,
    *,
    mask: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    holdout: Holdout | None = None,
    nan: str = "missing",
) -> DenseData:
    """Checks a dense tensor and notes which of its cells count.

    Args:
        values: the tensor; NaN cells are missing.
        mask: true where a cell is observed.
        weights: weight of every cell, broadcastable to its shape.
        holdout: which cells to set aside.
        nan: "missing", or "error" to refuse NaN.

    Raises:
        InputError: a value that the divergence does not admit (the first one is named), no cell left, or shapes that
            do not fit.
    """
    if isinstance(values, np.ma.MaskedArray):
        inner = ~np.ma.getmaskarray(values)
        mask = inner if mask is None else inner & np.asarray(mask, bool)
        values = values.data
    array = readable(values)
    observed_given = _boolean(mask, array.shape)
    weight_array = _weights(weights, array.shape)
    cells = array.size
    if cells == 0:
        raise InputError(f"the data have no cells: shape {array.shape}")
    held = None
    if holdout is not None:
        held = CellBits(cells)
        for drawn in draw_cells(cells, holdout.fraction, holdout.seed):
            held.set_cells(drawn)
    scan = _Scan(array, divergence, observed_given, weight_array, held, nan)
    scan.run()
    return DenseData(scan.array, weight_array, scan.observed, held, scan.stats, scan.notes)


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
    notes: list[str] = []
    _check_values(value, divergence, lambda i: _name(int(flat[i]), shape), zeros_listed=True)
    gaps = np.isnan(value)
    unknown = np.unique(np.concatenate((flat[gaps], _missing_cells(missing, shape))))
    if gaps.any():
        if nan == "error":
            raise InputError(f"cell {_name(int(flat[gaps][0]), shape)} is NaN")
        notes.append(f"{int(gaps.sum())} NaN cells are taken as missing")
    flat, value, repeated = _summed(flat[~gaps], value[~gaps])
    if repeated:
        notes.append(f"{repeated} repeated cells were summed")
    keep = value != 0
    flat, value = flat[keep], value[keep]
    if len(flat) < cells - len(unknown) and not divergence.admits_zeros:
        zero = _first_absent(np.union1d(flat, unknown), cells)
        raise InputError(_zero_message(_name(zero, shape), divergence))
    drawn = np.empty(0, np.int64)
    if holdout is not None:
        drawn = np.concatenate(list(draw_cells(cells, holdout.fraction, holdout.seed)))
        drawn = drawn[~_in_sorted(drawn, unknown)]
    excluded = np.union1d(drawn, unknown) if len(unknown) else drawn
    if len(flat) + len(excluded) > MAX_SPARSE_ENTRIES:
        raise InputError(f"{len(flat) + len(excluded)} listed cells; at most {MAX_SPARSE_ENTRIES} are supported")
    excluded_values = np.where(_in_sorted(excluded, unknown), np.nan, _lookup(excluded, flat, value))
    weight_array = _weights(weights, shape)
    nonzeros = int(len(flat) - _in_sorted(flat, unknown).sum())
    inside = ~_in_sorted(flat, excluded)
    flat, value = flat[inside], value[inside]
    stats = _sparse_statistics(shape, flat, value, excluded, excluded_values, weight_array)
    stats.nonzeros = nonzeros
    if stats.weight <= 0:
        raise InputError("no observed cell is left: all are masked, missing, held out or of weight 0")
    return SparseData(shape, flat, value, excluded, excluded_values, weight_array, stats, notes)


def sparse_from_dense(data: DenseData) -> SparseData:
    """The same data as a list of non-zeros; only sensible where few cells are non-zero or excluded."""
    assert data.weights is None
    flat: list[NDArray[np.int64]] = []
    values: list[NDArray[np.float64]] = []
    excluded: list[NDArray[np.int64]] = []
    excluded_values: list[NDArray[np.float64]] = []
    for box in boxes(data.shape, SCAN_CELLS):
        y = np.ascontiguousarray(data.array[box.slices]).reshape(-1)
        seen = data.observed.get(box.start, box.stop) if data.observed else np.ones(len(y), bool)
        where = np.flatnonzero((y != 0) & seen)
        flat.append(where + box.start)
        values.append(y[where].astype(np.float64))
        if data.observed:
            out = np.flatnonzero(~seen)
            known = data.held.get(box.start, box.stop)[out] if data.held else np.zeros(len(out), bool)
            excluded.append(out + box.start)
            excluded_values.append(np.where(known, y[out].astype(np.float64), np.nan))
    empty = [np.empty(0, np.int64)]
    return SparseData(
        data.shape,
        np.concatenate(flat),
        np.concatenate(values),
        np.concatenate(excluded or empty),
        np.concatenate(excluded_values or [np.empty(0)]),
        None,
        data.stats,
        data.notes,
    )


def readable(values: ArrayLike) -> Values:
    """The array as the kernel can read it: itself where possible."""
    if hasattr(values, "detach"):  # a torch tensor
        values = values.detach().cpu().numpy()
    array: Values = values if isinstance(values, np.memmap) else np.asarray(values)
    if array.dtype == bool:
        array = array.view(np.uint8)
    if array.dtype.kind not in "fiu":
        raise InputError(f"the data must be real numbers, got type {array.dtype}")
    kind = array.dtype.newbyteorder("=")
    if kind in (np.dtype(np.float16), np.dtype(np.longdouble)):
        kind = np.dtype(np.float32 if kind == np.float16 else np.float64)
    whole_steps = all(s % array.dtype.itemsize == 0 for s in array.strides)
    if kind != array.dtype or not whole_steps or not array.flags.aligned:
        array = array.astype(kind)
    return array


class _Scan:
    """One look at every cell of a dense tensor, box by box."""

    def __init__(
        self,
        array: Values,
        divergence: Divergence,
        mask: NDArray[np.bool_] | None,
        weights: Values | None,
        held: CellBits | None,
        nan: str,
    ) -> None:
        self.array, self.divergence = array, divergence
        self.mask, self.weights, self.held, self.nan = mask, weights, held, nan
        self.observed: CellBits | None = CellBits(array.size) if mask is not None or held is not None else None
        self.stats = Statistics(array.size)
        self.notes: list[str] = []
        self._nan_cells = 0

    def run(self) -> None:
        for box in boxes(self.array.shape, SCAN_CELLS):
            self._box(box.slices, box.start)
        if self._nan_cells:
            self.notes.append(f"{self._nan_cells} NaN cells are taken as missing")
        if self.stats.weight <= 0:
            raise InputError("no observed cell is left: all are masked, missing, held out or of weight 0")

    def _box(self, slices: tuple[slice, ...], start: int) -> None:
        y = np.ascontiguousarray(self.array[slices]).reshape(-1)
        known = None if self.mask is None else self.mask[slices].reshape(-1)
        gaps = np.isnan(y) if y.dtype.kind == "f" and math.isnan(float(y.max())) else None
        if gaps is not None:
            known = self._gaps(gaps, known, start)
        _check_values(y if known is None else np.where(known, y, 1), self.divergence, lambda i: _name(start + i, self.array.shape))
        train, held = self._sets(known, start, len(y))
        w = None if self.weights is None else np.ascontiguousarray(self.weights[slices]).reshape(-1)
        stats = self.stats
        stats.nonzeros += int(np.count_nonzero(y) if known is None else np.count_nonzero(y[known]))
        stats.missing += 0 if known is None else len(y) - int(np.count_nonzero(known))
        stats.largest = max(stats.largest, float(y.max() if known is None else y.max(initial=0, where=known)))
        if train is None and w is None:
            stats.weight += len(y)
            stats.sum += float(y.sum(dtype=np.float64))
            return
        w = np.ones(len(y)) if w is None else w.astype(np.float64)
        if held is not None:
            stats.held_weight += float(w[held].sum())
        if train is not None:
            w, y = w[train], y[train]
        stats.weight += float(w.sum())
        stats.sum += float((w * y).sum())

    def _gaps(
        self, gaps: NDArray[np.bool_], known: NDArray[np.bool_] | None, start: int
    ) -> NDArray[np.bool_]:
        """Takes NaN cells out of the known ones; the first such box brings the bit mask into being."""
        new = gaps if known is None else gaps & known
        count = int(np.count_nonzero(new))
        if count and self.nan == "error":
            raise InputError(f"cell {_name(start + int(np.argmax(new)), self.array.shape)} is NaN")
        self._nan_cells += count
        if self.observed is None:
            self.observed = CellBits(self.array.size)
            for low in range(0, start, 1 << 23):
                self.observed.put(low, np.ones(min(1 << 23, start - low), bool))
        return ~gaps if known is None else known & ~gaps

    def _sets(
        self, known: NDArray[np.bool_] | None, start: int, count: int
    ) -> tuple[NDArray[np.bool_] | None, NDArray[np.bool_] | None]:
        """Which cells of a box are observed and which held out; writes both bit masks."""
        if self.observed is None:
            return None, None
        train = np.ones(count, bool) if known is None else known
        held = None
        if self.held is not None:
            drawn = self.held.get(start, start + count)
            held = drawn & train
            self.held.clear(start, drawn & ~train)
            train = train & ~drawn
        self.observed.put(start, train)
        return train, held


def _check_values(y: Values, divergence: Divergence, name: Any, *, zeros_listed: bool = False) -> None:
    """Refuses the first value that is negative, infinite, or a zero that the divergence does not admit; NaN passes."""
    if len(y) == 0:
        return
    if y.dtype.kind == "f" and np.isnan(y.min()):
        y = np.where(np.isnan(y), y.dtype.type(1), y)
    low = float(y.min())
    if low < 0:
        first = int(np.argmax(y < 0))
        raise InputError(f"cell {name(first)} is negative: {y[first]}")
    if np.isinf(float(y.max())):
        raise InputError(f"cell {name(int(np.argmax(np.isinf(y))))} is infinite")
    if low == 0 and not divergence.admits_zeros and not zeros_listed:
        raise InputError(_zero_message(name(int(np.argmax(y == 0))), divergence))


def _zero_message(cell: str, divergence: Divergence) -> str:
    return (
        f"cell {cell} is 0, where the divergence with alpha={divergence.alpha:g}, beta={divergence.beta:g} is infinite; "
        "mask the zeros, or take alpha > 0 and alpha + beta > 0"
    )


def _name(flat: int, shape: Sequence[int]) -> str:
    return "(" + ", ".join(str(int(i)) for i in np.unravel_index(flat, tuple(shape))) + ")"


def _boolean(mask: ArrayLike | None, shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
    if mask is None:
        return None
    array = np.asarray(mask)
    if array.shape != shape:
        raise InputError(f"the mask has shape {array.shape}, the data {shape}")
    if array.dtype != bool:
        if array.dtype.kind not in "iuf" or not np.isin(array, (0, 1)).all():
            raise InputError("the mask must hold only true and false (or 0 and 1)")
        array = array.astype(bool)
    return array


def _weights(weights: ArrayLike | None, shape: tuple[int, ...]) -> Values | None:
    if weights is None:
        return None
    array = readable(weights)
    try:
        array = np.broadcast_to(array, shape)
    except ValueError:
        raise InputError(f"weights of shape {array.shape} do not fit data of shape {shape}") from None
    for box in boxes(shape, SCAN_CELLS):
        part = array[box.slices].reshape(-1)
        if not np.isfinite(part).all() or part.min() < 0:
            bad = int(np.argmax(~np.isfinite(part) | (part < 0)))
            raise InputError(f"the weight of cell {_name(box.start + bad, shape)} is {part[bad]}")
    return array


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
    return np.ravel_multi_index(tuple(index.astype(np.int64)), shape).astype(np.int64)


def _missing_cells(missing: ArrayLike | None, shape: tuple[int, ...]) -> NDArray[np.int64]:
    if missing is None:
        return np.empty(0, np.int64)
    array = np.asarray(missing)
    if array.dtype == bool:
        mask = _boolean(array, shape)
        assert mask is not None
        return np.flatnonzero(~mask.reshape(-1)).astype(np.int64)
    return np.unique(_flat_cells(array, shape))


def _summed(flat: NDArray[np.int64], value: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
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


def _sparse_statistics(
    shape: tuple[int, ...],
    flat: NDArray[np.int64],
    values: NDArray[np.float64],
    excluded: NDArray[np.int64],
    excluded_values: NDArray[np.float64],
    weights: Values | None,
) -> Statistics:
    cells = math.prod(shape)
    held = excluded[~np.isnan(excluded_values)]
    stats = Statistics(cells, missing=len(excluded) - len(held))
    stats.largest = float(values.max(initial=0.0))
    if weights is None:
        stats.weight, stats.held_weight = float(cells - len(excluded)), float(len(held))
        stats.sum = float(values.sum())
        return stats

    def at(numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray(weights[np.unravel_index(numbers, shape)], np.float64)

    stats.held_weight = float(at(held).sum())
    stats.weight = float(weights.sum(dtype=np.float64)) - float(at(excluded).sum())
    stats.sum = float((at(flat) * values).sum())
    return stats
