"""What dense and sparse data share: statistics, and the checks that name the first bad cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icml.formats.errors import InputError
from icml.tools.nneinfact.cells import Part, boxes
from icml.tools.nneinfact.losses import Divergence

SCAN_CELLS = 1 << 18
"""Cells looked at together when data are checked."""

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
        gaps: NaN cells, which are taken as missing.
        repeated: listed cells that were summed into another of the same index.
    """

    cells: int
    nonzeros: int = 0
    missing: int = 0
    weight: float = 0.0
    held_weight: float = 0.0
    sum: float = 0.0
    largest: float = 0.0
    gaps: int = 0
    repeated: int = 0

    @property
    def mean(self) -> float:
        """Weighted mean of the observed cells."""
        return self.sum / self.weight

    @property
    def density(self) -> float:
        """Share of cells that are not zero."""
        return self.nonzeros / self.cells

    @property
    def notes(self) -> list[str]:
        """What the user should know, a sentence each."""
        notes = [f"{self.gaps} NaN cells are taken as missing"] if self.gaps else []
        return notes + ([f"{self.repeated} repeated cells were summed"] if self.repeated else [])

    def combined(self, other: Statistics) -> Statistics:
        """The statistics of both of two parts of a tensor."""
        values = {
            field.name: getattr(self, field.name) + getattr(other, field.name)
            for field in fields(self)
            if field.name != "largest"
        }
        return Statistics(**values, largest=max(self.largest, other.largest))


@dataclass(frozen=True)
class Holdout:
    """Which share of all cells, zeros included, is set aside for validation."""

    fraction: float
    seed: int = 0


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


def check_values(y: Values, divergence: Divergence, name: Any, *, zeros_listed: bool = False) -> None:
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
        raise InputError(zero_message(name(int(np.argmax(y == 0))), divergence))


def zero_message(cell: str, divergence: Divergence) -> str:
    return (
        f"cell {cell} is 0, where the divergence with alpha={divergence.alpha:g}, beta={divergence.beta:g} "
        "is infinite; mask the zeros, or take alpha > 0 and alpha + beta > 0"
    )


def cell_name(flat: int, shape: Sequence[int]) -> str:
    """The index of a cell, as text."""
    return Part.everything(shape).cell_name(flat)


def boolean_mask(mask: ArrayLike | None, shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
    if mask is None:
        return None
    array = np.asarray(mask)
    check_mask_shape(array.shape, shape)
    if array.dtype != bool:
        if array.dtype.kind not in "iuf" or not np.isin(array, (0, 1)).all():
            raise InputError("the mask must hold only true and false (or 0 and 1)")
        array = array.astype(bool)
    return array


def check_mask_shape(given: tuple[int, ...], shape: tuple[int, ...]) -> None:
    if given != shape:
        raise InputError(f"the mask has shape {given}, the data {shape}")


def spread_weights(weights: ArrayLike | None, shape: tuple[int, ...]) -> Values | None:
    """A view of the weights with the shape of the data."""
    if weights is None:
        return None
    array = readable(weights)
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise InputError(f"weights of shape {array.shape} do not fit data of shape {shape}") from None


def check_weights(
    weights: ArrayLike | None, shape: tuple[int, ...], part: Part | None = None
) -> Values | None:
    """The weights with the shape of the data, which may be a part of a tensor; refuses bad ones."""
    array = spread_weights(weights, shape)
    if array is None:
        return None
    name = (part or Part.everything(shape)).cell_name
    for box in boxes(shape, SCAN_CELLS):
        values = array[box.slices].reshape(-1)
        if not np.isfinite(values).all() or values.min() < 0:
            bad = int(np.argmax(~np.isfinite(values) | (values < 0)))
            raise InputError(f"the weight of cell {name(box.start + bad)} is {values[bad]}")
    return array
