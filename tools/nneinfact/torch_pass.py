"""The pass of the dense engine in torch: matrix products and elementwise terms of large tiles, on a GPU.

Only the pass itself is torch's: two matrices go to the device, sums of their shapes and the loss come back. Data that
fit into the device's memory stay there. The elementwise part of a tile is a handful of plain tensor operations; a whole
fit takes less time than compiling them into one would.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from icml.formats.errors import WorkError
from icml.tools.nneinfact.cells import Box, boxes
from icml.tools.nneinfact.contraction import Array
from icml.tools.nneinfact.dense_data import DenseData
from icml.tools.nneinfact.dense_engine import DenseEngine, Sums
from icml.tools.nneinfact.device import TORCH_CPU
from icml.tools.nneinfact.engine import Kernel, Losses, Rule
from icml.tools.nneinfact.sparse_data import SparseData
from icml.tools.nneinfact.split import Plan
from icml.tools.nneinfact.torch_cells import cell_terms

if TYPE_CHECKING:
    import torch
    from torch import Tensor

TILE_BYTES = {"cuda": 64 << 20, "cpu": 1 << 20}
"""Size of a tile, and of each of the few temporaries of its size."""
RESIDENT_SHARE = 0.5
"""Share of the device's free memory that data may take for the whole fit."""


@dataclass(frozen=True)
class Tile:
    """Some of the cells as batch x rows x columns.

    Attributes:
        y: values; 1 where a cell is not observed.
        weight, held: weight of each cell among the observed and the held-out ones, or None: 1, respectively 0.
        left, right: where the tile lies in the two matrices, by axes of their letters.
    """

    y: Tensor
    weight: Tensor | None
    held: Tensor | None
    left: tuple[slice, ...]
    right: tuple[slice, ...]


class Tiles:
    """The tensor cut into tiles, on the device.

    Args:
        only: the slices of the first axis to work on; the plan is then for as many.
    """

    def __init__(self, plan: Plan, data: DenseData | SparseData, device: str, only: slice | None) -> None:
        self._plan, self._data, self._device, self._only = plan, data, torch_device(device), only
        sizes = plan.sizes
        self.left_axes = (*(sizes[c] for c in plan.batch + plan.rows), plan.rank)
        self.right_axes = (*(sizes[c] for c in plan.batch), plan.rank, *(sizes[c] for c in plan.columns))
        self._kept: dict[np.dtype[Any], list[Tile]] = {}

    def tiles(self, dtype: np.dtype[Any], *, keep: bool) -> Iterator[Tile]:
        """All tiles; with `keep` they stay on the device if it has room for them."""
        if dtype in self._kept:
            yield from self._kept[dtype]
            return
        kept: list[Tile] | None = [] if keep and self._fits(dtype) else None
        for box, lead in self._boxes(dtype):
            tile = self._tile(box, lead, dtype)
            if kept is not None:
                kept.append(tile)
            yield tile
        if kept is not None:
            self._kept[dtype] = kept

    def _boxes(self, dtype: np.dtype[Any]) -> Iterator[tuple[Box, int]]:
        """Boxes of the cells to work on, and the index on the first axis of where these begin."""
        shape = self._data.shape
        first, stop = (self._only.start, self._only.stop) if self._only else (0, shape[0])
        most = max(TILE_BYTES[self._device.type] // dtype.itemsize, 1)
        for box in boxes((stop - first, *shape[1:]), most):
            yield box, first

    def _fits(self, dtype: np.dtype[Any]) -> bool:
        if self._device.type != "cuda":
            return False
        import torch

        free, _ = torch.cuda.mem_get_info(self._device)
        a_cell = dtype.itemsize * (1 + sum(s is not None for s in self._sets()))
        return bool(math.prod(self._data.shape) * a_cell < RESIDENT_SHARE * free)

    def _sets(self) -> tuple[object, object]:
        """What makes cells count differently: as observed ones, as held-out ones."""
        data = self._data
        if isinstance(data, DenseData):
            return (data.weights if data.all_equal_weight else True), data.held
        some = len(data.excluded) > 0
        return (True if some else data.weights), True if some else None

    def _tile(self, box: Box, first: int, dtype: np.dtype[Any]) -> Tile:
        lead = slice(box.slices[0].start + first, box.slices[0].stop + first)
        slices = (lead, *box.slices[1:])
        start = box.start + first * math.prod(self._data.shape[1:])
        y, seen, held = self._contents(slices, start, start + box.stop - box.start)
        if seen is not None:
            y = np.where(seen if held is None else seen | held, y, 1)
        weights = None if self._data.weights is None else self._data.weights[slices].reshape(-1)
        plan = self._plan
        spans = dict(zip(plan.model.output, box.slices, strict=True))
        batch = tuple(spans[c] for c in plan.batch)
        everything = slice(None)

        def placed(values: NDArray[Any] | None) -> Tensor | None:
            return None if values is None else self._placed(values, spans, dtype)

        placed_y = placed(y)
        assert placed_y is not None
        return Tile(
            placed_y,
            placed(_times(weights, seen)),
            None if held is None else placed(_times(weights, held)),
            (*batch, *(spans[c] for c in plan.rows), everything),
            (*batch, everything, *(spans[c] for c in plan.columns)),
        )

    def _contents(
        self, slices: tuple[slice, ...], start: int, stop: int
    ) -> tuple[NDArray[Any], NDArray[np.bool_] | None, NDArray[np.bool_] | None]:
        """Values of the cells of a box, and which of them are observed and held out; None: all, none."""
        data = self._data
        if isinstance(data, DenseData):
            y = np.asarray(data.array[slices]).reshape(-1)
            return y, data.seen(start, stop), data.held.get(start, stop) if data.held else None
        y = np.zeros(stop - start)
        low, high = np.searchsorted(data.flat, (start, stop))
        y[data.flat[low:high] - start] = data.values[low:high]
        if not len(data.excluded):
            return y, None, None
        low, high = np.searchsorted(data.excluded, (start, stop))
        out, values = data.excluded[low:high] - start, data.excluded_values[low:high]
        seen, held = np.ones(len(y), bool), np.zeros(len(y), bool)
        seen[out] = False
        known = ~np.isnan(values)
        held[out[known]] = True
        y[out[known]] = values[known]
        return y, seen, held

    def _placed(self, values: NDArray[Any], spans: dict[str, slice], dtype: np.dtype[Any]) -> Tensor:
        """A box's cells on the device, as batch x rows x columns."""
        import torch

        plan = self._plan
        count = [spans[c].stop - spans[c].start for c in plan.model.output]
        order = [plan.model.output.index(c) for c in plan.batch + plan.rows + plan.columns]
        sizes = [
            math.prod(spans[c].stop - spans[c].start for c in group)
            for group in (plan.batch, plan.rows, plan.columns)
        ]
        there = torch.from_numpy(np.array(values, dtype)).to(self._device)
        return there.reshape(count).permute(order).reshape(sizes)


class TorchDenseEngine(DenseEngine):
    """The dense engine with its pass in torch.

    Args:
        device: "cuda:N" or "torch-cpu".
    """

    def __init__(
        self,
        plan: Plan,
        kernel: Kernel,
        data: DenseData | SparseData,
        only: slice | None = None,
        *,
        device: str,
    ) -> None:
        super().__init__(plan, kernel, data, only)
        self.device = device
        self._tiles = Tiles(plan, data, device, only)

    def of_slices(self, plan: Plan, only: slice) -> DenseEngine:
        return TorchDenseEngine(plan, self.kernel, self.data, only, device=self.device)

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
        self.passes += 1
        with memory_errors(self.device):
            totals = _Totals(self, kernel, factors, sides, den=den)
            for tile in self._tiles.tiles(kernel.dtype, keep=kernel.dtype == self.kernel.dtype):
                kernel.poll()
                totals.add(tile, rule, loss=loss)
            return totals.sums()

    def matrices(self, factors: Sequence[Array], dtype: np.dtype[Any]) -> tuple[Tensor, Tensor]:
        """Both matrices on the device, by axes of their letters."""
        import torch

        device = torch_device(self.device)
        left, right = (
            torch.from_numpy(np.require(self._build(side, factors, dtype), requirements="W"))
            .to(device)
            .reshape(axes)
            for side, axes in enumerate((self._tiles.left_axes, self._tiles.right_axes))
        )
        return left, right


class _Totals:
    """Sums of one pass as they grow."""

    def __init__(
        self,
        engine: TorchDenseEngine,
        kernel: Kernel,
        factors: Sequence[Array],
        sides: tuple[int, ...],
        *,
        den: bool,
    ) -> None:
        import torch

        self._kernel, self._sides, self._den = kernel, sides, den
        self._matrix = engine.matrices(factors, kernel.dtype)

        def zeros(side: int, wanted: bool) -> Tensor | None:
            return torch.zeros_like(self._matrix[side], dtype=torch.float64) if wanted else None

        self._num = tuple(zeros(side, side in sides) for side in (0, 1))
        self._dens = tuple(zeros(side, den and side in sides) for side in (0, 1))
        self._loss = torch.zeros(2, dtype=torch.float64, device=self._matrix[0].device)

    def add(self, tile: Tile, rule: Rule, *, loss: bool) -> None:
        b, p, q = tile.y.shape
        left = self._matrix[0][tile.left].reshape(b, p, -1)
        right = self._matrix[1][tile.right].reshape(b, -1, q)
        kernel = self._kernel
        den = cells = None
        if rule is Rule.DATA:
            num = tile.y
        elif rule is Rule.WEIGHT:
            num = tile.y.new_ones(tile.y.shape)
        else:
            x = (left @ right).clamp_min_(kernel.floor)
            wanted = self._den and bool(self._sides)
            num, den, cells = cell_terms(kernel.divergence, rule, tile.y, x, den=wanted, loss=loss)
        if cells is not None:
            self._loss[0] += _weighted(cells, tile.weight).sum(dtype=self._loss.dtype)
            if tile.held is not None:
                self._loss[1] += (cells * tile.held).sum(dtype=self._loss.dtype)
        for value, totals in ((num, self._num), (den, self._dens)):
            if value is None or not self._sides:
                continue
            weighted = _weighted(value, tile.weight)
            if totals[0] is not None:
                view = totals[0][tile.left]
                view += (weighted @ right.mT).reshape(view.shape)
            if totals[1] is not None:
                view = totals[1][tile.right]
                view += (left.mT @ weighted).reshape(view.shape)

    def sums(self) -> Sums:
        """The sums as numpy arrays."""

        def out(total: Tensor | None) -> Array | None:
            return None if total is None else total.cpu().numpy()

        train, held = self._loss.tolist()
        return Sums(
            (out(self._num[0]), out(self._num[1])),
            (out(self._dens[0]), out(self._dens[1])),
            Losses(train, held),
        )


def torch_device(name: str) -> torch.device:
    """The torch device of a name that `choose_device` gave."""
    import torch

    return torch.device("cpu" if name == TORCH_CPU else name)


def _weighted(values: Tensor, weight: Tensor | None) -> Tensor:
    return values if weight is None else values * weight


def _times(weights: NDArray[Any] | None, chosen: NDArray[np.bool_] | None) -> NDArray[Any] | None:
    if weights is None or chosen is None:
        return weights if chosen is None else chosen
    return weights * chosen


@contextmanager
def memory_errors(device: str) -> Iterator[None]:
    """Says in one sentence that the device's memory is too small."""
    import torch

    try:
        yield
    except torch.OutOfMemoryError as error:
        raise WorkError(f"the memory of {device} is too small for this model; use --device cpu") from error
