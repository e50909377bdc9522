"""Entries of a sparse tensor as rows of the plan's matrix, and the same by columns."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icml.tools.nneinfact import _kernel
from icml.tools.nneinfact.split import Plan

TOGETHER = 1 << 16
"""Entries whose rows and columns are worked out together."""


@dataclass
class SparseRows:
    """A sparse matrix by rows, with its transpose on demand.

    Attributes:
        start: (rows + 1,) first entry of each row.
        column: (entries,) columns, ascending in each row.
        columns: number of columns.
    """

    start: NDArray[np.int64]
    column: NDArray[np.int32]
    columns: int
    _values: NDArray[np.float64] | None
    _typed: dict[np.dtype[Any], NDArray[Any]] = field(default_factory=dict)
    _transpose: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]] | None = None

    @classmethod
    def of_keys(
        cls,
        row: NDArray[np.integer[Any]],
        column: NDArray[np.integer[Any]],
        shape: tuple[int, int],
        values: NDArray[np.float64] | None,
    ) -> SparseRows:
        """From the row and the column of each entry, in any order."""
        order = _order(row, column, shape)
        if order is not None:
            row, column = row[order], column[order]
            values = None if values is None else values[order]
        start = np.searchsorted(row, np.arange(shape[0] + 1)).astype(np.int64)
        return cls(start, column.astype(np.int32, copy=False), shape[1], values)

    @classmethod
    def of_plan(
        cls, plan: Plan, flat: NDArray[np.int64], shape: tuple[int, ...], values: NDArray[np.float64] | None
    ) -> SparseRows:
        """Rows batch * P + p and columns q of a plan; the batch is not part of the column."""
        row, column = row_and_column(plan, flat, shape, batch_columns=False)
        b, p, q = plan.shape
        return cls.of_keys(row, column, (b * p, q), values)

    @property
    def entries(self) -> int:
        return len(self.column)

    def values(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        """The values in the type of a pass."""
        assert self._values is not None
        if dtype not in self._typed:
            self._typed[dtype] = self._values.astype(dtype)
        return self._typed[dtype]

    @property
    def transpose(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        """First entry of each column, rows, and positions of the entries in row order."""
        if self._transpose is None:
            self._transpose = _kernel.transpose(self.start, self.column, self.columns)
        return self._transpose


def _order(
    row: NDArray[np.integer[Any]], column: NDArray[np.integer[Any]], shape: tuple[int, int]
) -> NDArray[np.intp] | None:
    """The order by row and column; None for entries that are in it."""
    if shape[0] * shape[1] >= 2**63:
        return np.lexsort((column, row))
    key = row.astype(np.int64)
    key *= shape[1]
    key += column
    return None if (key[1:] > key[:-1]).all() else np.argsort(key, kind="stable")


def row_and_column(
    plan: Plan, flat: NDArray[np.int64], shape: tuple[int, ...], *, batch_columns: bool
) -> tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]]:
    """Row batch * P + p of each cell, and its column q, or batch * Q + q; made a piece at a time."""
    groups = (plan.batch + plan.rows, (plan.batch if batch_columns else "") + plan.columns)
    sizes = [[plan.sizes[c] for c in letters] for letters in groups]
    assert all(math.prod(s) < 2**63 for s in sizes)
    narrow: list[type[np.integer[Any]]] = [np.int32 if math.prod(s) < 2**31 else np.int64 for s in sizes]
    row: NDArray[np.integer[Any]] = np.zeros(len(flat), narrow[0])
    column: NDArray[np.integer[Any]] = np.zeros(len(flat), narrow[1])
    for low in range(0, len(flat), TOGETHER):
        piece = slice(low, low + TOGETHER)
        index = dict(zip(plan.model.output, np.unravel_index(flat[piece], shape), strict=True))
        for out, letters, size in zip((row, column), groups, sizes, strict=True):
            if letters:
                out[piece] = np.ravel_multi_index([index[c] for c in letters], size)
    return row, column
