"""Dense data: which cells count, how much, and whether the divergence admits their values.

A cell is observed, held out for validation, or missing (masked, or NaN). Missing cells may hold anything.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icml.formats.errors import InputError
from icml.tools.nneinfact.cells import CellBits, Part, boxes, draw_cells
from icml.tools.nneinfact.data import (
    SCAN_CELLS,
    Holdout,
    Statistics,
    Values,
    boolean_mask,
    check_values,
    check_weights,
    readable,
)
from icml.tools.nneinfact.losses import Divergence

NOTHING_LEFT = "no observed cell is left: all are masked, missing, held out or of weight 0"


@dataclass
class DenseData:
    """A tensor with a value for every cell, in memory or mapped from a file.

    Attributes:
        array: the values; never copied when their type is one the kernel reads.
        weights: a weight for every cell (may be a broadcast view), or None.
        observed: bit mask, or None where every cell is observed that is not held out.
        held: bit mask of the held-out cells, or None where there are none.
        square: sum of the squares of the observed cells, where the Euclidean divergence may want it; else 0.
        stats: see `Statistics`.
        part: which part of a tensor this is, if it is not the whole of it; `stats` are then those of the whole.
    """

    array: Values
    weights: Values | None
    observed: CellBits | None
    held: CellBits | None
    stats: Statistics
    part: Part | None = None
    square: float = 0.0

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def whole_shape(self) -> tuple[int, ...]:
        """Sizes of the tensor that this is a part of."""
        return self.part.whole if self.part is not None else self.shape

    @property
    def notes(self) -> list[str]:
        return self.stats.notes

    @property
    def mapped(self) -> bool:
        """Whether the values lie in a file."""
        return isinstance(self.array, np.memmap) or isinstance(self.array.base, np.memmap)

    @property
    def all_equal_weight(self) -> bool:
        """Whether every cell is observed with weight 1."""
        return self.weights is None and self.observed is None and self.held is None

    def seen(self, start: int, stop: int) -> NDArray[np.bool_] | None:
        """Which of a run of cells are observed; None if all are."""
        if self.observed is not None:
            return self.observed.get(start, stop)
        return None if self.held is None else ~self.held.get(start, stop)


def load_dense(
    values: ArrayLike,
    divergence: Divergence,
    *,
    mask: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    holdout: Holdout | None = None,
    nan: str = "missing",
    part: Part | None = None,
) -> DenseData:
    """Checks a dense tensor and notes which of its cells count.

    Args:
        values: the tensor; NaN cells are missing.
        mask: true where a cell is observed.
        weights: weight of every cell, broadcastable to its shape.
        holdout: which cells to set aside.
        nan: "missing", or "error" to refuse NaN.
        part: which part of a tensor the values are; held-out cells are drawn from the whole of it, and cells in
            messages are its.

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
    part = part or Part.everything(array.shape)
    weight_array = check_weights(weights, array.shape, part)
    cells = array.size
    if cells == 0:
        raise InputError(f"the data have no cells: shape {array.shape}")
    held = None
    if holdout is not None:
        held = CellBits(cells)
        for drawn in draw_cells(math.prod(part.whole), holdout.fraction, holdout.seed):
            held.set_cells(drawn if part.is_whole else part.to_part(drawn[part.inside(drawn)]))
    scan = _Scan(array, divergence, part, mask=observed_given, weights=weight_array, held=held, nan=nan)
    scan.run()
    if part.is_whole and scan.stats.weight <= 0:
        raise InputError(NOTHING_LEFT)
    own_part = None if part.is_whole else part
    return DenseData(array, weight_array, scan.observed, held, scan.stats, own_part, scan.square)


class _Scan:
    """One look at every cell of a dense tensor, box by box."""

    def __init__(
        self,
        array: Values,
        divergence: Divergence,
        part: Part,
        *,
        mask: NDArray[np.bool_] | None,
        weights: Values | None,
        held: CellBits | None,
        nan: str,
    ) -> None:
        self.array, self.divergence, self.part = array, divergence, part
        self.mask, self.weights, self.held, self.nan = mask, weights, held, nan
        self.observed: CellBits | None = CellBits(array.size) if mask is not None else None
        self.stats = Statistics(array.size)
        self.square = 0.0

    def run(self) -> None:
        for box in boxes(self.array.shape, SCAN_CELLS):
            self._box(box.slices, box.start)

    def _box(self, slices: tuple[slice, ...], start: int) -> None:
        y = np.ascontiguousarray(self.array[slices]).reshape(-1)
        known = None if self.mask is None else self.mask[slices].reshape(-1)
        gaps = np.isnan(y) if y.dtype.kind == "f" and math.isnan(float(y.max())) else None
        if gaps is not None:
            known = self._gaps(gaps, known, start)
        check_values(
            y if known is None else np.where(known, y, 1),
            self.divergence,
            lambda i: self.part.cell_name(start + i),
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
            if (self.divergence.alpha, self.divergence.beta) == (1, 1) and train is None:
                wide = y.astype(np.float64)
                self.square += float(np.einsum("i,i", wide, wide))
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
            raise InputError(f"cell {self.part.cell_name(start + int(np.argmax(new)))} is NaN")
        self.stats.gaps += count
        if self.observed is None:
            self.observed = CellBits(self.array.size)
            self.observed.set_range(0, start)
            if self.held is not None:
                self.observed.remove(self.held, start)
        return ~gaps if known is None else known & ~gaps

    def _sets(
        self, known: NDArray[np.bool_] | None, start: int, count: int
    ) -> tuple[NDArray[np.bool_] | None, NDArray[np.bool_] | None]:
        """Which cells of a box are observed and which held out; writes the bit masks that there are."""
        if self.observed is None and self.held is None:
            return None, None
        train = np.ones(count, bool) if known is None else known
        held = None
        if self.held is not None:
            drawn = self.held.get(start, start + count)
            held = drawn & train
            self.held.clear(start, drawn & ~train)
            train = train & ~drawn
        if self.observed is not None:
            self.observed.put(start, train)
        return train, held
