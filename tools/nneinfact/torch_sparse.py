"""The passes of the sparse engine in torch: rows gathered, multiplied and summed by segments, on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from icml.tools.nneinfact.contraction import Array
from icml.tools.nneinfact.engine import Kernel, Rule
from icml.tools.nneinfact.sparse_data import SparseData
from icml.tools.nneinfact.sparse_engine import SparseEngine, ranges
from icml.tools.nneinfact.sparse_rows import SparseRows
from icml.tools.nneinfact.split import Plan
from icml.tools.nneinfact.torch_cells import entry_losses, entry_terms
from icml.tools.nneinfact.torch_pass import TILE_BYTES, memory_errors, torch_device

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class TorchSparseEngine(SparseEngine):
    """The sparse engine with its passes in torch.

    Args:
        device: "cuda:N" or "torch-cpu".
    """

    def __init__(self, plan: Plan, kernel: Kernel, data: SparseData, *, device: str) -> None:
        super().__init__(plan, kernel, data)
        self.device = device
        self._there: dict[tuple[int, np.dtype[Any]], Entries] = {}

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
    ) -> tuple[Array | None, Any, float, float]:
        import torch

        with memory_errors(self.device):
            entries = self._entries(rows, kernel.dtype)
            left, right = (entries.matrix(m, self.plan.rank) for m in matrices)
            num = left.new_zeros(left.shape, dtype=torch.float64) if want_num else None
            terms = left.new_empty(rows.entries) if want_terms else None
            total = left.new_zeros(2, dtype=torch.float64)
            for piece in entries.pieces(rows.start, self.plan.rank):
                kernel.poll()
                r = right[entries.column[piece.entries]]
                y = entries.values[piece.entries]
                at = torch.repeat_interleave(
                    torch.arange(piece.low, piece.high, device=r.device), piece.lengths
                )
                x = None
                if rule not in (Rule.DATA, Rule.WEIGHT):
                    x = (left[at] * r).sum(1).clamp_min_(kernel.floor)
                term = entry_terms(kernel.divergence, rule, y, x)
                if want_loss and x is not None:
                    total += torch.stack(entry_losses(kernel, y, x))
                if terms is not None:
                    terms[piece.entries] = term
                if num is not None:
                    num[piece.low : piece.high] = _segment_sums(term[:, None] * r, piece.lengths)
            y_loss, model = total.tolist()
            return None if num is None else num.cpu().numpy(), terms, y_loss, model

    def _column_pass(self, kernel: Kernel, rows: SparseRows, terms: Any, left: NDArray[Any]) -> Array:
        import torch

        with memory_errors(self.device):
            entries = self._entries(rows, kernel.dtype)
            start, row, entry = entries.transpose(rows)
            matrix = entries.matrix(left, self.plan.rank)
            num = matrix.new_zeros((rows.columns, matrix.shape[1]), dtype=torch.float64)
            for piece in entries.pieces(start, self.plan.rank):
                kernel.poll()
                part = matrix[row[piece.entries]]
                if terms is not None:
                    part *= terms[entry[piece.entries]][:, None]
                num[piece.low : piece.high] = _segment_sums(part, piece.lengths)
            return num.cpu().numpy()

    def _entries(self, rows: SparseRows, dtype: np.dtype[Any]) -> Entries:
        key = (id(rows), dtype)
        if key not in self._there:
            self._there[key] = Entries(rows, dtype, torch_device(self.device))
        return self._there[key]


@dataclass(frozen=True)
class _Range:
    """Rows low..high of a sparse matrix, and their entries."""

    low: int
    high: int
    entries: slice
    lengths: Tensor


class Entries:
    """The entries of a sparse matrix on the device."""

    def __init__(self, rows: SparseRows, dtype: np.dtype[Any], device: torch.device) -> None:
        import torch

        self._device = device
        self.column = torch.from_numpy(rows.column).to(device, torch.int64)
        self.values = torch.from_numpy(rows.values(dtype)).to(device)
        self._transpose: tuple[NDArray[np.int64], Tensor, Tensor] | None = None

    def matrix(self, padded: NDArray[Any], rank: int) -> Tensor:
        """One side's matrix on the device, without its padding."""
        import torch

        return torch.from_numpy(padded).to(self._device)[:, :rank]

    def transpose(self, rows: SparseRows) -> tuple[NDArray[np.int64], Tensor, Tensor]:
        """First entry of each column, rows, and positions of the entries in row order."""
        import torch

        if self._transpose is None:
            start, row, entry = rows.transpose
            row_there, entry_there = (torch.from_numpy(a).to(self._device, torch.int64) for a in (row, entry))
            self._transpose = (start, row_there, entry_there)
        return self._transpose

    def pieces(self, start: NDArray[np.int64], rank: int) -> Iterator[_Range]:
        """Ranges of rows whose entries times rank fill a tile."""
        import torch

        most = max(TILE_BYTES[self._device.type] // (8 * rank), 1)
        for low, high in ranges(start, most):
            lengths = torch.from_numpy(np.diff(start[low : high + 1])).to(self._device)
            yield _Range(low, high, slice(int(start[low]), int(start[high])), lengths)


def _segment_sums(values: Tensor, lengths: Tensor) -> Tensor:
    """Sums of consecutive rows, in double and in a fixed order."""
    import torch

    return torch.segment_reduce(values.double(), "sum", lengths=lengths, axis=0, initial=0.0, unsafe=True)
