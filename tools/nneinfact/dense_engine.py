"""The engine over dense tiles: values in memory, mapped from a file and read once a pass, or made from sparse rows."""

from __future__ import annotations

import math
import mmap
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icml.tools.nneinfact import _kernel
from icml.tools.nneinfact.cells import CellBits, boxes
from icml.tools.nneinfact.contraction import Array
from icml.tools.nneinfact.dense_data import DenseData
from icml.tools.nneinfact.engine import Engine, Kernel, Losses, Memo, Rule, contiguous, wanted
from icml.tools.nneinfact.sides import FullSide
from icml.tools.nneinfact.sparse_data import SparseData
from icml.tools.nneinfact.sparse_rows import SparseRows
from icml.tools.nneinfact.split import Plan

PIECE_WORK = 2e9
"""Multiply-adds of one call of the kernel; between calls the caller may stop the fit."""
MAPPED_BYTES = 64 << 20
"""Bytes of a mapped file that are held at once."""


@dataclass(frozen=True)
class Piece:
    """Part of the data: the kernel's view of it, and where it lies in the two matrices."""

    data: _kernel.DenseData
    left: tuple[slice, ...]
    right: tuple[slice, ...]
    slices: tuple[slice, ...]


@dataclass(frozen=True)
class Sums:
    """What one pass gives; sums of a side that was not asked for are None."""

    num: tuple[Array | None, Array | None]
    den: tuple[Array | None, Array | None]
    losses: Losses


class DenseEngine(Engine):
    """Dense data, or sparse data whose zero cells matter.

    Args:
        only: the slices of the first axis to work on; the plan is then for as many.
    """

    def __init__(
        self, plan: Plan, kernel: Kernel, data: DenseData | SparseData, only: slice | None = None
    ) -> None:
        left, right = FullSide(plan, 0), FullSide(plan, 1, cut_first=True)
        super().__init__(plan, kernel, data.stats, (left, right))
        self.data = data
        self._cells: Pieces = (
            TensorPieces(plan, data, kernel, only)
            if isinstance(data, DenseData)
            else RowPieces(plan, data, kernel)
        )
        self.path = "dense" if isinstance(data, SparseData) or not data.mapped else "stream"
        self._matrix: tuple[Memo[Array], Memo[Array]] = (Memo(), Memo())
        self._den: tuple[Memo[Array], Memo[Array]] = (Memo(), Memo())
        self._equal = (
            data.all_equal_weight
            and not (isinstance(data, SparseData) and len(data.excluded))
            and only is None
        )
        order = kernel.divergence.order
        if self._equal and order in (1.0, 2.0):
            self._den_mode = "ones" if order == 1 else "model"
        elif order == 1:
            self._den_mode = "weight pass"
        else:
            self._den_mode = "model pass" if kernel.rule is Rule.EUCLIDEAN else "tile"
        if kernel.rule is Rule.EUCLIDEAN and self._den_mode == "model":
            self._square = data.square

    def of_slices(self, plan: Plan, only: slice) -> DenseEngine:
        """The engine of some slices of the first axis; `plan` is for as many."""
        return DenseEngine(plan, self.kernel, self.data, only)

    def losses(self, factors: Sequence[Array], sides: tuple[int, ...] = ()) -> Losses:
        if self.kernel.rule is Rule.EUCLIDEAN:
            kept = self._euclidean_losses(factors, sides)
            if kept is not None:
                return kept
            return self._run(self.kernel, self.kernel.rule, factors, (), loss=True).losses
        return self._sums(factors, sides, loss=True).losses

    def numerator(self, factor: int, factors: Sequence[Array]) -> Array:
        side = self.plan.side(factor)
        if self.kernel.rule is Rule.EUCLIDEAN:
            sums = self._shared(Rule.DATA, self._num, side, factors)
        else:
            sums = self._own(self._num, side, factors)
        return self.sides[side].pull(factor, sums, factors, self.kernel.threads)

    def denominator(self, factor: int, factors: Sequence[Array]) -> Array:
        side, threads = self.plan.side(factor), self.kernel.threads
        if self._den_mode == "ones":
            return self.free.ones(factor, factors, threads)
        if self._den_mode == "model":
            return self.free.model(factor, factors, threads)
        if self._den_mode == "weight pass":
            sums = self._shared(Rule.WEIGHT, self._weight, side, factors)
        elif self._den_mode == "model pass":
            sums = wanted(self._run(self.kernel, Rule.MODEL, factors, (side,)).num[side])
        else:
            sums = self._own(self._den, side, factors)
        return self.sides[side].pull(factor, sums, factors, threads)

    def weighted_model(self, factors: Sequence[Array]) -> float:
        if self._equal:
            return self._free_total(factors, 1)
        side = self.plan.side(0)
        sums = self._shared(Rule.WEIGHT, self._weight, side, factors)
        return float((factors[0] * self.sides[side].pull(0, sums, factors, self.kernel.threads)).sum())

    def exact_losses(self, factors: Sequence[Array]) -> Losses:
        exact = replace(self.kernel, dtype=np.dtype(np.float64))
        return self._run(exact, self.kernel.rule, factors, (), loss=True).losses

    def _shared(
        self, rule: Rule, memos: tuple[Memo[Array], Memo[Array]], side: int, factors: Sequence[Array]
    ) -> Array:
        """Sums that depend on the other side's factors alone."""
        others = self._group(1 - side, factors)
        kept = memos[side].get(others)
        if kept is not None:
            return kept
        return memos[side].put(others, wanted(self._run(self.kernel, rule, factors, (side,)).num[side]))

    def _own(self, memos: tuple[Memo[Array], Memo[Array]], side: int, factors: Sequence[Array]) -> Array:
        """Sums that depend on all factors."""
        kept = memos[side].get(factors)
        if kept is None:
            self._sums(factors, (side,), loss=False)
            kept = memos[side].get(factors)
        return wanted(kept)

    def _sums(self, factors: Sequence[Array], sides: tuple[int, ...], *, loss: bool) -> Sums:
        sums = self._run(
            self.kernel, self.kernel.rule, factors, sides, den=self._den_mode == "tile", loss=loss
        )
        for side in sides:
            for memo, value in ((self._num[side], sums.num[side]), (self._den[side], sums.den[side])):
                if value is not None:
                    memo.put(factors, value)
        return sums

    def _build(self, side: int, factors: Sequence[Array], dtype: np.dtype[Any]) -> NDArray[Any]:
        group = self._group(side, factors)
        kept = self._matrix[side].get(group)
        if kept is None or kept.dtype != dtype:
            kept = contiguous(self.sides[side].build(factors, self.kernel.threads), dtype)
            self._matrix[side].put(group, kept)
        return kept

    def _run(
        self,
        kernel: Kernel,
        rule: Rule,
        factors: Sequence[Array],
        sides: tuple[int, ...],
        *,
        den: bool = False,
        loss: bool = False,
    ) -> Sums:
        """One pass over all pieces."""
        self.passes += 1
        left, right = (self._build(side, factors, kernel.dtype) for side in (0, 1))
        totals: list[Array | None] = [None] * 4
        train = held = 0.0
        d = kernel.divergence
        den_loss = 0.0 if rule is Rule.EUCLIDEAN else kernel.den_loss
        for piece in self._cells.pieces(kernel.dtype):
            kernel.poll()
            l_part, r_part = self._cells.cut(left, 0, piece.left), self._cells.cut(right, 1, piece.right)
            *parts, piece_train, piece_held = _kernel.dense_pass(
                piece.data, l_part, r_part, int(rule), d.alpha, d.beta, kernel.floor, den_loss,
                0 in sides, 1 in sides, den, loss, kernel.threads,
            )  # fmt: skip
            for k, part in enumerate(parts):
                if part is not None:
                    where = piece.left if k < 2 else piece.right
                    totals[k] = self._cells.add(totals[k], part, k // 2, where)
            train += piece_train
            held += piece_held
            self._cells.release(piece)
        return Sums((totals[0], totals[2]), (totals[1], totals[3]), Losses(train, held))


class Pieces(ABC):
    """The data cut into pieces; base of the two ways in which they are held."""

    def __init__(self, plan: Plan, axes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
        self._plan = plan
        self._axes = axes
        b, p, q = plan.shape
        self._flat = ((b, p, plan.rank), (b, plan.rank, q))

    @abstractmethod
    def pieces(self, dtype: np.dtype[Any]) -> Iterator[Piece]:
        """All of them, one at a time."""

    def release(self, piece: Piece) -> None:  # noqa: B027 (most have nothing to release)
        """Called when a piece has been read."""

    def cut(self, matrix: NDArray[Any], side: int, where: tuple[slice, ...]) -> NDArray[Any]:
        """The part of one side's matrix that a piece meets, with three axes."""
        view = matrix.reshape(self._axes[side])[where]
        return np.ascontiguousarray(view).reshape(self._part_shape(view.shape, side))

    def add(self, total: Array | None, part: Array, side: int, where: tuple[slice, ...]) -> Array:
        """`total` with the sums of one piece added."""
        shape = self._flat[side]
        if total is None and part.shape == shape:
            return part
        if total is None:
            total = np.zeros(shape)
        view = total.reshape(self._axes[side])[where]
        view += part.reshape(view.shape)
        return total

    @abstractmethod
    def _part_shape(self, shape: tuple[int, ...], side: int) -> tuple[int, int, int]:
        """Batches, rows and columns of a piece of one side's matrix."""


class TensorPieces(Pieces):
    """Boxes of a dense tensor, in memory order."""

    def __init__(self, plan: Plan, data: DenseData, kernel: Kernel, only: slice | None) -> None:
        sizes = plan.sizes
        letters = (plan.batch, plan.rows, plan.columns)
        left = (*(sizes[c] for c in plan.batch + plan.rows), plan.rank)
        right = (*(sizes[c] for c in plan.batch), plan.rank, *(sizes[c] for c in plan.columns))
        super().__init__(plan, (left, right))
        self._data, self._letters, self._only = data, letters, only
        most = PIECE_WORK / (plan.rank + 20)
        if data.mapped:
            most = min(most, MAPPED_BYTES / data.array.itemsize)
        self._most = max(int(most), 1)
        strides = np.cumprod([1, *data.shape[:0:-1]])[::-1]
        self._bit_strides = tuple(int(s) for s in strides)

    def pieces(self, dtype: np.dtype[Any]) -> Iterator[Piece]:
        shape = self._data.shape
        first = self._only.start if self._only else 0
        count = self._only.stop - first if self._only else shape[0]
        inner = self._bit_strides[0]
        for box in boxes((count, *shape[1:]), self._most):
            lead = slice(box.slices[0].start + first, box.slices[0].stop + first)
            yield self._piece(box.slices, (lead, *box.slices[1:]), box.start + first * inner)

    def release(self, piece: Piece) -> None:
        if self._data.mapped:
            _forget(self._data.array, piece.slices)

    def _piece(self, spanned: tuple[slice, ...], slices: tuple[slice, ...], start: int) -> Piece:
        """The piece at `slices` of the data, which meets the indices `spanned` of the plan's letters."""
        plan, data = self._plan, self._data
        spans = dict(zip(plan.model.output, spanned, strict=True))
        part = data.array[slices]
        count = dict(zip(plan.model.output, part.shape, strict=True))
        b, p, q = (int(np.prod([count[c] for c in group], dtype=np.int64)) for group in self._letters)
        view = _kernel.DenseData(b, p, q)
        view.set_values(np.asarray(part), *self._offsets(count, part.strides, part.itemsize))
        if data.weights is not None:
            weights = data.weights[slices]
            view.set_weights(np.asarray(weights), *self._offsets(count, weights.strides, weights.itemsize))
        if data.observed is not None or data.held is not None:
            observed, held = (bits.bytes if bits is not None else None for bits in (data.observed, data.held))
            view.set_bits(observed, held, start, *self._offsets(count, self._bit_strides, 1))
        lead = tuple(spans[c] for c in plan.batch)
        everything = slice(None)
        left = (*lead, *(spans[c] for c in plan.rows), everything)
        right = (*lead, everything, *(spans[c] for c in plan.columns))
        return Piece(view, left, right, slices)

    def _offsets(
        self, count: dict[str, int], strides: Sequence[int], item: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64] | None]:
        """Offsets of batches, rows and columns; None where column q simply is q elements on."""
        step = {c: s // item for c, s in zip(self._plan.model.output, strides, strict=True)}
        batch, rows, columns = (offsets([count[c] for c in g], [step[c] for c in g]) for g in self._letters)
        in_place = len(columns) == 1 or bool((columns == np.arange(len(columns))).all())
        return batch, rows, None if in_place else columns

    def _part_shape(self, shape: tuple[int, ...], side: int) -> tuple[int, int, int]:
        lead = len(self._plan.batch)
        b = int(np.prod(shape[:lead], dtype=np.int64))
        if side == 0:
            return b, int(np.prod(shape[lead:-1], dtype=np.int64)), shape[-1]
        return b, shape[lead], int(np.prod(shape[lead + 1 :], dtype=np.int64))


class RowPieces(Pieces):
    """Ranges of rows of a sparse matrix; the zeros between its entries are made in the kernel."""

    def __init__(self, plan: Plan, data: SparseData, kernel: Kernel) -> None:
        b, p, q = plan.shape
        super().__init__(plan, ((b, p, plan.rank), (b, plan.rank, q)))
        self._data = data
        self._rows = SparseRows.of_plan(plan, data.flat, data.shape, data.values)
        self._observed = self._held = None
        if len(data.excluded):
            self._observed, self._held = CellBits(math.prod(data.shape)), CellBits(math.prod(data.shape))
            self._observed.set_range(0, math.prod(data.shape))
            self._observed.remove_cells(data.excluded)
            self._held.set_cells(data.excluded[~np.isnan(data.excluded_values)])
            self._rows = self._rows_with_held(plan, data)
        self._step = max(int(PIECE_WORK / (plan.rank + 20) / q), 64)

    def pieces(self, dtype: np.dtype[Any]) -> Iterator[Piece]:
        plan, data = self._plan, self._data
        b, p, q = plan.shape
        values = self._rows.values(dtype)
        strides = dict(zip(plan.model.output, np.cumprod([1, *data.shape[:0:-1]])[::-1], strict=True))
        batch, rows, columns = (
            offsets([plan.sizes[c] for c in g], [int(strides[c]) for c in g])
            for g in (plan.batch, plan.rows, plan.columns)
        )
        for i in range(b):
            for low in range(0, p, self._step):
                high = min(low + self._step, p)
                view = _kernel.DenseData(1, high - low, q)
                view.set_sparse(self._rows.start[i * p + low : i * p + high + 1], self._rows.column, values)
                at = (batch[i : i + 1], rows[low:high], columns)
                if self._observed is not None and self._held is not None:
                    view.set_bits(self._observed.bytes, self._held.bytes, 0, *at)
                if data.weights is not None:
                    view.set_weights(
                        np.asarray(data.weights), *self._weight_offsets(plan, data.weights, i, low, high)
                    )
                one, some, every = slice(i, i + 1), slice(low, high), slice(None)
                yield Piece(view, (one, some, every), (one, every, every), ())

    @staticmethod
    def _weight_offsets(
        plan: Plan, weights: NDArray[Any], batch: int, low: int, high: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        step = {c: s // weights.itemsize for c, s in zip(plan.model.output, weights.strides, strict=True)}
        b, p, q = (
            offsets([plan.sizes[c] for c in g], [step[c] for c in g])
            for g in (plan.batch, plan.rows, plan.columns)
        )
        return b[batch : batch + 1], p[low:high], q

    @staticmethod
    def _rows_with_held(plan: Plan, data: SparseData) -> SparseRows:
        """The entries with those of held-out cells, whose loss is asked for too."""
        held = np.nan_to_num(data.excluded_values) != 0
        flat = np.concatenate((data.flat, data.excluded[held]))
        values = np.concatenate((data.values, data.excluded_values[held]))
        order = np.argsort(flat, kind="stable")
        return SparseRows.of_plan(plan, flat[order], data.shape, values[order])

    def _part_shape(self, shape: tuple[int, ...], side: int) -> tuple[int, int, int]:
        return shape[0], shape[1], shape[2]


def offsets(sizes: Sequence[int], strides: Sequence[int]) -> NDArray[np.int64]:
    """Σ index * stride for all indices, in C order."""
    total = np.zeros(1, np.int64)
    for size, stride in zip(sizes, strides, strict=True):
        total = (total[:, None] + np.arange(size, dtype=np.int64) * stride).reshape(-1)
    return total


def _forget(array: NDArray[Any], slices: tuple[slice, ...]) -> None:
    """Lets go of the pages of a mapped array that have been read, so that they do not count as this process's."""
    base = array if isinstance(array, np.memmap) else array.base
    mapping = getattr(base, "_mmap", None)
    if not isinstance(mapping, mmap.mmap) or not hasattr(mapping, "madvise") or not array.flags.c_contiguous:
        return
    part = array[slices]
    origin = np.frombuffer(mapping, np.uint8).__array_interface__["data"][0]
    start = part.__array_interface__["data"][0] - origin
    low = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    high = (start + part.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if high > low:
        mapping.madvise(mmap.MADV_DONTNEED, low, high - low)
