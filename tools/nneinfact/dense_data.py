"""Dense data: which cells count, how much, and whether the divergence admits their values.

A cell is observed, held out for validation, or missing (masked, or NaN). Missing cells may hold anything.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icml.formats.errors import InputError
from icml.tools.nneinfact.cells import CellBits, boxes, draw_cells
from icml.tools.nneinfact.data import (
    SCAN_CELLS,
    Holdout,
    Statistics,
    Values,
    boolean_mask,
    cell_name,
    check_values,
    check_weights,
    readable,
)
from icml.tools.nneinfact.losses import Divergence


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
    observed_given = boolean_mask(mask, array.shape)
    weight_array = check_weights(weights, array.shape)
    cells = array.size
    if cells == 0:
        raise InputError(f"the data have no cells: shape {array.shape}")
    held = None
    if holdout is not None:
        held = CellBits(cells)
        for drawn in draw_cells(cells, holdout.fraction, holdout.seed):
            held.set_cells(drawn)
    scan = _Scan(array, divergence, mask=observed_given, weights=weight_array, held=held, nan=nan)
    scan.run()
    return DenseData(scan.array, weight_array, scan.observed, held, scan.stats, scan.notes)


class _Scan:
    """One look at every cell of a dense tensor, box by box."""

    def __init__(
        self,
        array: Values,
        divergence: Divergence,
        *,
        mask: NDArray[np.bool_] | None,
        weights: Values | None,
        held: CellBits | None,
        nan: str,
    ) -> None:
        self.array, self.divergence = array, divergence
        self.mask, self.weights, self.held, self.nan = mask, weights, held, nan
        self.observed: CellBits | None = (
            CellBits(array.size) if mask is not None or held is not None else None
        )
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
        check_values(
            y if known is None else np.where(known, y, 1),
            self.divergence,
            lambda i: cell_name(start + i, self.array.shape),
        )
        train, held = self._sets(known, start, len(y))
        w = None if self.weights is None else np.ascontiguousarray(self.weights[slices]).reshape(-1)
        stats = self.stats
        stats.nonzeros += int(np.count_nonzero(y) if known is None else np.count_nonzero(y[known]))
        stats.missing += 0 if known is None else len(y) - int(np.count_nonzero(known))
        stats.largest = max(stats.largest, float(y.max() if known is None else y.max(initial=0, where=known)))
        if w is None:
            seen: NDArray[np.bool_] | bool = True if train is None else train
            stats.weight += len(y) if train is None else int(np.count_nonzero(train))
            stats.held_weight += 0 if held is None else int(np.count_nonzero(held))
            stats.sum += float(y.sum(dtype=np.float64, where=seen))
            return
        w = w.astype(np.float64)
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
            raise InputError(f"cell {cell_name(start + int(np.argmax(new)), self.array.shape)} is NaN")
        self._nan_cells += count
        if self.observed is None:
            self.observed = CellBits(self.array.size)
            self.observed.set_range(0, start)
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
