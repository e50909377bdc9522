"""Sets of cells of a tensor: boxes in memory order, bit masks, and the seeded draw of held-out cells.

A cell's number is its position in C order. Sets that may be a fixed share of all cells are bit masks, an eighth of a
byte a cell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from icml.formats.errors import InputError

BITS_PADDING = 16
"""Bytes behind the last bit that the kernel may read."""
RUN_CELLS = 1 << 20
"""Cells whose bits are unpacked together."""


@dataclass(frozen=True)
class Box:
    """A contiguous run of cells: single indices on the first axes, a range on the next, all of the others.

    Attributes:
        slices: one slice per axis.
        start, stop: numbers of its first cell and of the one behind its last.
    """

    slices: tuple[slice, ...]
    start: int
    stop: int


@dataclass(frozen=True)
class Part:
    """A range of indices along one axis of a tensor.

    Attributes:
        whole: sizes of the tensor.
        axis, start, stop: the range.
    """

    whole: tuple[int, ...]
    axis: int
    start: int
    stop: int

    @classmethod
    def everything(cls, shape: Sequence[int]) -> Part:
        """The part that is the whole."""
        return cls(tuple(shape), 0, 0, shape[0] if len(shape) else 1)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the part."""
        return (*self.whole[: self.axis], self.stop - self.start, *self.whole[self.axis + 1 :])

    @property
    def is_whole(self) -> bool:
        return not self.whole or self.stop - self.start == self.whole[self.axis]

    @property
    def slices(self) -> tuple[slice, ...]:
        """The index that cuts the part out of the tensor."""
        return (slice(None),) * self.axis + (slice(self.start, self.stop),)

    def inside(self, cells: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these cells of the tensor lie in the part."""
        at = self._index(cells, self.whole)
        return np.asarray((at >= self.start) & (at < self.stop))

    def to_part(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers within the part of cells of the tensor that lie in it; their order is kept."""
        below = math.prod(self.whole[self.axis + 1 :])
        lead, rest = np.divmod(cells, self.whole[self.axis] * below)
        return np.asarray(lead * (self.stop - self.start) * below + rest - self.start * below)

    def cell_name(self, cell: int) -> str:
        """The index in the tensor of a cell of the part, as text."""
        index = [int(i) for i in np.unravel_index(cell, self.shape)]
        if index:
            index[self.axis] += self.start
        return "(" + ", ".join(map(str, index)) + ")"

    def _index(self, cells: NDArray[np.int64], shape: tuple[int, ...]) -> NDArray[np.int64]:
        below = math.prod(shape[self.axis + 1 :])
        return np.asarray(cells // below % shape[self.axis])


def boxes(shape: Sequence[int], most: int) -> Iterator[Box]:
    """Cuts a tensor into boxes of at most `most` cells, in memory order."""
    if not shape:
        yield Box((), 0, 1)
        return
    inner = math.prod(shape[1:])
    if inner > most:
        for i in range(shape[0]):
            for box in boxes(shape[1:], most):
                yield Box((slice(i, i + 1), *box.slices), i * inner + box.start, i * inner + box.stop)
        return
    step = max(1, most // inner)
    for i in range(0, shape[0], step):
        stop = min(i + step, shape[0])
        yield Box((slice(i, stop), *(slice(0, n) for n in shape[1:])), i * inner, stop * inner)


def draw_cells(cells: int, fraction: float, seed: int) -> Iterator[NDArray[np.int64]]:
    """Draws every cell with probability `fraction`; yields their numbers, ascending, in pieces.

    The draw depends on the number of cells, the fraction and the seed only, not on how the data are held.

    Raises:
        InputError: the fraction is not inside (0, 1).
    """
    if not 0 < fraction < 1:
        raise InputError(f"the held-out fraction must lie between 0 and 1, got {fraction}")
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, 0x401D])))
    last = -1
    while last < cells:
        drawn = last + np.cumsum(generator.geometric(fraction, 1 << 15))
        last = int(drawn[-1])
        yield drawn[drawn < cells]


class CellBits:
    """A bit for each cell."""

    def __init__(self, cells: int) -> None:
        self.cells = cells
        self.bytes = np.zeros((cells + 7) // 8 + BITS_PADDING, np.uint8)

    def set_cells(self, numbers: NDArray[np.int64]) -> None:
        """Sets the bits of cells given in ascending order."""
        if len(numbers) == 0:
            return
        start = int(numbers[0]) // 8 * 8
        for low in range(start, int(numbers[-1]) + 1, RUN_CELLS):
            first, last = np.searchsorted(numbers, (low, low + RUN_CELLS))
            flags = np.zeros(min(RUN_CELLS, self.cells - low), bool)
            flags[numbers[first:last] - low] = True
            self.put(low, flags)

    def set_range(self, start: int, stop: int) -> None:
        """Sets the bits of a run of cells."""
        for low in range(start, stop, RUN_CELLS):
            self.put(low, np.ones(min(RUN_CELLS, stop - low), bool))

    def remove_cells(self, numbers: NDArray[np.int64]) -> None:
        """Clears the bits of cells."""
        np.bitwise_and.at(self.bytes, numbers >> 3, ~(np.uint8(1) << (numbers & 7).astype(np.uint8)))

    def remove(self, other: CellBits, stop: int) -> None:
        """Clears the bits that `other` has set among the first `stop` cells."""
        for low in range(0, stop, RUN_CELLS):
            self.clear(low, other.get(low, min(low + RUN_CELLS, stop)))

    def put(self, start: int, flags: NDArray[np.bool_]) -> None:
        """Sets the bits of a run of cells where `flags` is true."""
        lead = start % 8
        packed = np.packbits(
            np.concatenate((np.zeros(lead, bool), flags)) if lead else flags, bitorder="little"
        )
        at = start // 8
        self.bytes[at : at + len(packed)] |= packed

    def clear(self, start: int, flags: NDArray[np.bool_]) -> None:
        """Clears the bits of a run of cells where `flags` is true."""
        lead = start % 8
        packed = np.packbits(
            np.concatenate((np.zeros(lead, bool), flags)) if lead else flags, bitorder="little"
        )
        at = start // 8
        self.bytes[at : at + len(packed)] &= ~packed

    def get(self, start: int, stop: int) -> NDArray[np.bool_]:
        """The bits of a run of cells."""
        lead = start % 8
        raw = self.bytes[start // 8 : (stop + 7) // 8]
        return np.unpackbits(raw, bitorder="little")[lead : lead + stop - start].view(bool)

    def count(self) -> int:
        """Number of set bits."""
        starts = range(0, self.cells, RUN_CELLS)
        return sum(int(np.count_nonzero(self.get(low, min(low + RUN_CELLS, self.cells)))) for low in starts)
