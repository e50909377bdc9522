"""The engine over the entries of a sparse tensor, for α+β = 1 and α+β = 2: cost O(entries x rank).

The zeros enter the numerators not at all (α > 0), and the denominators and the loss only through Σ ŷ or Σ ŷ² over all
cells, which are contractions of the factors. Held-out and missing cells are taken out by a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icml.tools.nneinfact import _kernel
from icml.tools.nneinfact.contraction import Array
from icml.tools.nneinfact.engine import Engine, Kernel, Losses, Memo, Rule, wanted
from icml.tools.nneinfact.sides import FullSide, KeyedSide, Side
from icml.tools.nneinfact.sparse_data import SparseData
from icml.tools.nneinfact.sparse_rows import SparseRows, row_and_column
from icml.tools.nneinfact.split import Plan

PIECE_WORK = 2e9
"""Multiply-adds of one call of the kernel; between calls the caller may stop the fit."""


class SparseEngine(Engine):
    """Sparse data without weights under α+β = 1 or α+β = 2."""

    path = "sparse"

    def __init__(self, plan: Plan, kernel: Kernel, data: SparseData) -> None:
        assert kernel.divergence.order in (1.0, 2.0)
        listed, excluded = (
            row_and_column(plan, flat, data.shape, batch_columns=True) for flat in (data.flat, data.excluded)
        )
        row, column = (
            np.concatenate(pair) if len(pair[1]) else pair[0] for pair in zip(listed, excluded, strict=True)
        )
        del listed, excluded
        b, p, q = plan.shape
        row, rows, left = _keys(plan, 0, row, b * p)
        column, columns, right = _keys(plan, 1, column, b * q)
        super().__init__(plan, kernel, data.stats, (left, right))
        n = len(data.flat)
        self._rows = SparseRows.of_keys(row[:n], column[:n], (rows, columns), data.values)
        self._excluded = None
        if len(data.excluded):
            self._excluded = SparseRows.of_keys(row[n:], column[n:], (rows, columns), data.excluded_values)
        self._most = max(int(PIECE_WORK / (2 * plan.rank + 40)), 1)
        if kernel.rule is Rule.EUCLIDEAN and self._excluded is None:
            self._square = data.square
        self._has_held = bool(np.isfinite(data.excluded_values).any())
        self._matrix: tuple[Memo[NDArray[Any]], Memo[NDArray[Any]]] = (Memo(), Memo())

    def losses(self, factors: Sequence[Array], sides: tuple[int, ...] = ()) -> Losses:
        kept = self._euclidean_losses(factors, sides)
        return kept if kept is not None else self._losses_in(self.kernel, factors, sides)

    def exact_losses(self, factors: Sequence[Array]) -> Losses:
        return self._losses_in(replace(self.kernel, dtype=np.dtype(np.float64)), factors, ())

    def numerator(self, factor: int, factors: Sequence[Array]) -> Array:
        side = self.plan.side(factor)
        euclidean = self.kernel.rule is Rule.EUCLIDEAN
        key = self._group(1 - side, factors) if euclidean else factors
        sums = self._num[side].get(key)
        if sums is None:
            self.kernel.poll()
            self.passes += 1
            rule = Rule.DATA if euclidean else self.kernel.rule
            (num, _, _) = self._pass(self.kernel, self._rows, rule, factors, (side,))
            sums = self._num[side].put(key, wanted(num[side]))
        return self.sides[side].pull(factor, sums, factors, self.kernel.threads)

    def denominator(self, factor: int, factors: Sequence[Array]) -> Array:
        threads = self.kernel.threads
        if self.kernel.divergence.order == 1:
            total = self.free.ones(factor, factors, threads)
        else:
            total = self.free.model(factor, factors, threads)
        if self._excluded is None:
            return total
        side = self.plan.side(factor)
        gone = self.sides[side].pull(factor, self._excluded_sums(side, factors), factors, threads)
        # What is left after a subtraction of nearly all is noise, never negative.
        return np.maximum(total - gone, 0.0)

    def weighted_model(self, factors: Sequence[Array]) -> float:
        total = self._free_total(factors, 1)
        if self._excluded is None:
            return total
        side = self.plan.side(0)
        sums = wanted(self._pass(self.kernel, self._excluded, Rule.WEIGHT, factors, (side,))[0][side])
        return total - float(
            (factors[0] * self.sides[side].pull(0, sums, factors, self.kernel.threads)).sum()
        )

    def _excluded_sums(self, side: int, factors: Sequence[Array]) -> Array:
        """Sums over the excluded cells of W (α+β = 1) or W ŷ (α+β = 2)."""
        assert self._excluded is not None
        ones = self.kernel.divergence.order == 1
        key = self._group(1 - side, factors) if ones else factors
        kept = self._weight[side].get(key)
        if kept is not None:
            return kept
        self.kernel.poll()
        rule = Rule.WEIGHT if ones else Rule.MODEL
        sums = wanted(self._pass(self.kernel, self._excluded, rule, factors, (side,))[0][side])
        return self._weight[side].put(key, sums)

    def _losses_in(self, kernel: Kernel, factors: Sequence[Array], sides: tuple[int, ...]) -> Losses:
        kernel.poll()
        self.passes += 1
        order = kernel.divergence.order
        feeding = () if kernel.rule is Rule.EUCLIDEAN else sides
        sums, loss, _ = self._pass(kernel, self._rows, kernel.rule, factors, feeding, loss=True)
        for side in feeding:
            self._num[side].put(factors, wanted(sums[side]))
        total = self._free_total(factors, order)
        held = 0.0
        if self._excluded is not None:
            total -= self._excluded_total(kernel, factors)
        if self._excluded is not None and self._has_held:
            _, held_loss, held_total = self._pass(kernel, self._excluded, kernel.rule, factors, (), loss=True)
            held = held_loss + kernel.den_loss * held_total
        return Losses(loss + kernel.den_loss * total, held)

    def _excluded_total(self, kernel: Kernel, factors: Sequence[Array]) -> float:
        """Σ ŷ or Σ ŷ² over the excluded cells."""
        side = self.plan.side(0)
        sums = self._excluded_sums(side, factors)
        return float((factors[0] * self.sides[side].pull(0, sums, factors, kernel.threads)).sum())

    def _pass(
        self,
        kernel: Kernel,
        rows: SparseRows,
        rule: Rule,
        factors: Sequence[Array],
        sides: tuple[int, ...],
        *,
        loss: bool = False,
    ) -> tuple[tuple[Array | None, Array | None], float, float]:
        """Sums of the wanted sides, the y part of the loss, and Σ ŷ^(α+β) over the entries."""
        left, right = (self._build(side, factors, kernel.dtype) for side in (0, 1))
        by_row = terms = by_column = None
        y_loss = total = 0.0
        needs_terms = 1 in sides and rule is not Rule.WEIGHT  # whose terms are all 1
        if 0 in sides or loss or needs_terms:
            by_row, terms, y_loss, total = self._row_pass(
                kernel, rows, rule, (left, right), want_num=0 in sides, want_terms=needs_terms, want_loss=loss
            )
        if 1 in sides:
            by_column = self._column_pass(kernel, rows, terms, left)
        return (by_row, by_column), y_loss, total

    def _row_pass(
        self,
        kernel: Kernel,
        rows: SparseRows,
        rule: Rule,
        matrices: tuple[NDArray[Any], NDArray[Any]],
        *,
        want_num: bool,
        want_terms: bool,
        want_loss: bool,
    ) -> tuple[Array | None, NDArray[Any] | None, float, float]:
        """Row sums, terms of all entries, and both parts of the loss, a range of rows at a time."""
        left, right = matrices
        d = kernel.divergence
        values = None if rule in (Rule.WEIGHT, Rule.MODEL) else rows.values(kernel.dtype)
        nums: list[Array] = []
        terms: list[NDArray[Any]] = []
        y_loss = total = 0.0
        for low, high in ranges(rows.start, self._most):
            kernel.poll()
            first, last = rows.start[low], rows.start[high]
            num, term, part_loss, part_total = _kernel.sparse_pass(
                rows.start[low : high + 1] - first, rows.column[first:last],
                None if values is None else values[first:last], left[low:high], right, self.plan.rank,
                int(rule), d.alpha, d.beta, kernel.floor, want_num, want_terms, want_loss, kernel.threads,
            )  # fmt: skip
            y_loss += part_loss
            total += part_total
            if num is not None:
                nums.append(num)
            if term is not None:
                terms.append(term)
        return joined(nums), joined(terms), y_loss, total

    def _column_pass(
        self, kernel: Kernel, rows: SparseRows, terms: NDArray[Any] | None, left: NDArray[Any]
    ) -> Array:
        """Column sums of terms times rows of the left matrix, a range of columns at a time."""
        start, row, entry = rows.transpose
        parts: list[Array] = []
        for low, high in ranges(start, self._most):
            kernel.poll()
            first, last = start[low], start[high]
            parts.append(
                _kernel.column_pass(
                    start[low : high + 1] - first, row[first:last], entry[first:last], terms, left, self.plan.rank,
                    kernel.threads,
                )
            )  # fmt: skip
        return wanted(joined(parts))

    def _build(self, side: int, factors: Sequence[Array], dtype: np.dtype[Any]) -> NDArray[Any]:
        """A side's matrix with rows padded to 64 bytes."""
        group = self._group(side, factors)
        kept = self._matrix[side].get(group)
        if kept is not None and kept.dtype == dtype:
            return kept
        rank = self.plan.rank
        lanes = 64 // dtype.itemsize
        built = self.sides[side].build(factors, self.kernel.threads).reshape(-1, rank)
        padded = np.zeros((len(built), -(-rank // lanes) * lanes), dtype)
        padded[:, :rank] = built
        return self._matrix[side].put(group, padded)


def ranges(start: NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Cuts rows into ranges of about `most` entries, at least one row each."""
    rows, low = len(start) - 1, 0
    while low < rows:
        high = int(np.searchsorted(start, start[low] + most, side="right")) - 1
        high = min(max(high, low + 1), rows)
        yield low, high
        low = high


def joined(parts: list[Any]) -> Any:
    """The parts of an array put together; None if there are none."""
    return None if not parts else parts[0] if len(parts) == 1 else np.concatenate(parts)


def _keys(
    plan: Plan, side: int, number: NDArray[np.integer[Any]], full: int
) -> tuple[NDArray[np.integer[Any]], int, Side]:
    """Row (column) of each cell in a side's matrix, the number of rows, and the side."""
    if not plan.keyed[side]:
        return number, full, FullSide(plan, side)
    occurring, position = np.unique(number, return_inverse=True)
    letters = plan.batch + (plan.rows, plan.columns)[side]
    index = np.unravel_index(occurring, [plan.sizes[c] for c in letters])
    keys = {c: np.asarray(i, np.int64) for c, i in zip(letters, index, strict=True)}
    return position.reshape(-1).astype(np.int64), len(occurring), KeyedSide(plan, side, keys)
